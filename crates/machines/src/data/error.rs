//! What can go wrong with templates, data claims and data.

use api::key::ObjectKey;
use kit::class::{Class, Classify};
use kit::write;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An index does not show our own last write yet.
    #[error("an index is behind our own write")]
    Behind,
    /// Somebody else has the name.
    #[error("{0} belongs to somebody else")]
    Taken(ObjectKey),
    /// An object could not be read.
    #[error("read {kind} {key}")]
    Read {
        /// Its kind.
        kind: &'static str,
        /// Where it is.
        key: ObjectKey,
        /// The server's words.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object could not be written.
    #[error(transparent)]
    Write(#[from] write::Error),
}

impl Error {
    pub(super) fn read(kind: &'static str, key: &ObjectKey, source: kube::Error) -> Self {
        Self::Read { kind, key: key.clone(), source: Box::new(source) }
    }

    /// Whether the server says that we lack a right.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        let source = match self {
            Self::Read { source, .. } | Self::Write(write::Error::Refused { source, .. }) => source,
            _ => return false,
        };
        matches!(&**source, kube::Error::Api(status) if status.code == 403)
    }
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Behind | Self::Taken(_) => Class::Stale,
            Self::Read { source, .. } => source.class(),
            Self::Write(error) => error.class(),
        }
    }
}
