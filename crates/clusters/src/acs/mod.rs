//! CloudStack as this room asks it: whether zones and what machines are made of are there, once for all who ask the same.

mod machine;
mod shelf;
mod zone;

pub use cloudstack::cloud::Clouds;
use cloudstack::errors::{Cause, Error, Kind};
#[cfg(feature = "net")]
pub use cloudstack::net::{Allowed, Reach};
use kit::class::{Class, Classify};

pub use machine::{Parts, Stock, Template};
pub use shelf::Shelf;
pub use zone::{Place, Resolved};

/// Why a check did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Asking again gives the same answer until somebody changes something.
    Definitive {
        /// What has to be put right.
        message: String,
        /// Whether keys are what is wrong.
        credentials: bool,
        /// What kind of refusal the words are of, where they are the server's own.
        kind: Option<Kind>,
        /// Whether the server was heard: nobody asked it, or it answered nobody, where it was not.
        heard: bool,
    },
    /// The server could not say at present.
    Passing {
        /// Why not.
        message: String,
        /// How long it asked us to wait.
        at_least: Option<std::time::Duration>,
        /// What kind of failure it is.
        kind: Kind,
    },
}

impl Fault {
    /// A fault that stays until somebody changes something.
    #[must_use]
    pub fn definitive(message: impl Into<String>) -> Self {
        Self::Definitive { message: message.into(), credentials: false, kind: None, heard: true }
    }

    /// A fault that stays until somebody changes something, and for which no server was asked.
    #[must_use]
    pub fn unasked(message: impl Into<String>) -> Self {
        Self::Definitive { message: message.into(), credentials: false, kind: None, heard: false }
    }

    /// A fault of a secret or its keys.
    #[must_use]
    pub fn credentials(message: impl Into<String>) -> Self {
        Self::Definitive { message: message.into(), credentials: true, kind: None, heard: false }
    }

    /// The words of the fault.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Definitive { message, .. } | Self::Passing { message, .. } => message,
        }
    }

    /// The same fault with something before its words.
    #[must_use]
    pub fn after(self, words: &str) -> Self {
        match self {
            Self::Definitive { message, credentials, kind, heard } => {
                Self::Definitive { message: format!("{words}{message}"), credentials, kind, heard }
            }
            Self::Passing { message, at_least, kind } => {
                Self::Passing { message: format!("{words}{message}"), at_least, kind }
            }
        }
    }
}

/// What the failure of a call means. What is not there is for who asked to say.
fn fault(error: &Error) -> Fault {
    let message = format!("{}: {}", error.command(), error.words());
    match error.kind() {
        kind if error.is_definitive() => {
            // A certificate that nobody believes, or an address that is never called: the keys went nowhere.
            let heard = !matches!(error.cause(), Cause::NoAnswer(_) | Cause::Request { .. });
            Fault::Definitive { message, credentials: kind == Kind::Credentials, kind: Some(kind), heard }
        }
        kind => {
            let at_least = match error.class() {
                Class::Transient { at_least } => at_least,
                Class::Stale | Class::Terminal => None,
            };
            Fault::Passing { message, at_least, kind }
        }
    }
}

/// Answers an unknown id with nothing instead of an error.
fn or_none<T>(answer: Result<Vec<T>, Error>) -> Result<Vec<T>, Fault> {
    match answer {
        Err(error) if error.kind() == Kind::NotFound => Ok(Vec::new()),
        answer => answer.map_err(|error| fault(&error)),
    }
}
