//! Why there are no credentials.

use std::error::Error as StdError;
use std::sync::Arc;

use crate::errors::{Error, Kind};

/// A cause that several waiters share.
#[derive(Clone, Debug)]
pub struct Why(Arc<dyn StdError + Send + Sync>);

impl Why {
    /// Wraps a cause.
    pub fn new(error: impl StdError + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

impl PartialEq for Why {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Why {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// Why a source gave no credentials. No variant holds a secret.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CredentialsError {
    /// A file with a token cannot be read.
    #[error("cannot read the token file {path}")]
    ReadToken {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: Why,
    },
    /// A file does not hold a token.
    #[error("the token file {path} {rule}")]
    BadToken {
        /// The file.
        path: String,
        /// What it should be.
        rule: &'static str,
    },
    /// A credential service did not answer.
    #[error("cannot ask {place} for credentials")]
    Fetch {
        /// Which service.
        place: &'static str,
        /// Why.
        #[source]
        source: Why,
    },
    /// A credential service said no.
    #[error("{place} answered with HTTP status {status}")]
    Denied {
        /// Which service.
        place: &'static str,
        /// The status.
        status: u16,
    },
    /// A credential service said something else.
    #[error("the answer of {place} cannot be read: {detail}")]
    Malformed {
        /// Which service.
        place: &'static str,
        /// What is wrong with it.
        detail: &'static str,
    },
    /// The role cannot be taken on.
    #[error("cannot take on the role {role}")]
    Role {
        /// The role.
        role: String,
        /// Why.
        #[source]
        source: Box<Error>,
    },
    /// Too many roles one after the other.
    #[error("the chain of roles is longer than {limit}")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The credentials have ended and there are no new ones.
    #[error("the credentials of {source_name} have ended")]
    Ended {
        /// What gave them.
        source_name: String,
    },
}

impl CredentialsError {
    /// What it means for the call that wanted to sign.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            // A projected token appears and is renewed by itself, a service comes back.
            Self::ReadToken { .. } | Self::BadToken { .. } | Self::Denied { .. } | Self::Ended { .. } => {
                Kind::Permission
            }
            Self::Fetch { .. } => Kind::Transient,
            Self::Malformed { .. } => Kind::Malformed,
            Self::Role { source, .. } => source.kind(),
            Self::TooDeep { .. } => Kind::Terminal,
        }
    }

    /// What the call that wanted to sign is counted as. It passes when the service that gives credentials comes back, but
    /// until then whoever watches for refused keys has to learn of it: nothing is sent.
    #[must_use]
    pub fn counted(&self) -> Kind {
        if matches!(self, Self::Fetch { .. }) { Kind::Permission } else { self.kind() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_gives_no_credentials_is_asked_again_and_counted_as_refused_keys() {
        let source = Why::new(std::io::Error::other("no route"));
        let unreachable = CredentialsError::Fetch { place: "the machine's metadata", source };
        assert_eq!((unreachable.kind(), unreachable.counted()), (Kind::Transient, Kind::Permission));
        let deep = CredentialsError::TooDeep { limit: 5 };
        assert_eq!(deep.counted(), deep.kind());
    }
}
