//! What can go wrong with a call, and what to do about it.

mod table;

use std::fmt;
use std::time::Duration;

use kit::class::{Class, Classify};
pub use kit::http::Unanswered;

pub use table::{Kind, kind_of};

pub use crate::paging::PagingError;

/// A text of the server is kept up to this length: it ends in conditions and events.
pub const MESSAGE: usize = 300;

/// So much of an answer that is not the server's is shown.
pub const FOREIGN: usize = 100;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Cause {
    /// The server said no.
    #[error("{text} (error {code}){}", clocks(.skewed))]
    Refused {
        /// The server's code; that of the HTTP status if it gave none.
        code: u16,
        /// The number of the server's inner error.
        inner: Option<u64>,
        /// The server's own words.
        text: String,
        /// Whether our clocks differ so much that signatures cannot be right.
        skewed: bool,
        /// How long it asked us to wait.
        retry_after: Option<Duration>,
    },
    /// Somebody else answered: a proxy, a login page, a server that is starting.
    #[error("not an answer of CloudStack (HTTP status {status}): {start}")]
    Foreign {
        /// The HTTP status.
        status: u16,
        /// How the answer begins.
        start: String,
        /// How long it asked us to wait.
        retry_after: Option<Duration>,
    },
    /// No whole answer came.
    #[error("no answer")]
    NoAnswer(#[source] Unanswered),
    /// The answer cannot be read.
    #[error("the answer cannot be read: {detail}")]
    Malformed {
        /// What is wrong with it.
        detail: String,
    },
    /// A list cannot be read to its end.
    #[error(transparent)]
    Paging(#[from] PagingError),
    /// The time of the call was over before its turn came; nothing was sent.
    #[error("too many calls were waiting")]
    Crowded,
    /// The request cannot be built; nothing was sent.
    #[error("the request cannot be built: {detail}")]
    Request {
        /// Why.
        detail: String,
    },
}

fn clocks(skewed: &bool) -> &'static str {
    if *skewed { ": this machine's clock and the server's differ by more than 5 minutes" } else { "" }
}

impl Cause {
    /// What the cause means.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Refused { code, text, .. } => kind_of(*code, text),
            Self::Foreign { status: 401, .. } => Kind::Credentials,
            Self::Foreign { status: 429, .. } => Kind::Throttled,
            Self::Foreign { .. } => Kind::Transport,
            Self::NoAnswer(unanswered) if unanswered.error().is_untrusted() => Kind::Untrusted,
            Self::NoAnswer(unanswered) => match unanswered.error().class() {
                Class::Terminal => Kind::BadRequest,
                Class::Stale | Class::Transient { .. } => Kind::Transport,
            },
            Self::Malformed { .. } | Self::Paging(_) => Kind::Malformed,
            Self::Crowded => Kind::Throttled,
            Self::Request { .. } => Kind::BadRequest,
        }
    }

    /// Whether the server may have carried out the call.
    #[must_use]
    pub fn maybe_done(&self) -> bool {
        match self {
            Self::Refused { code, .. } => *code >= 500,
            Self::Foreign { status, .. } => *status >= 500 || *status < 400,
            Self::NoAnswer(unanswered) => unanswered.error().maybe_sent(),
            Self::Malformed { .. } | Self::Paging(_) => true,
            Self::Crowded | Self::Request { .. } => false,
        }
    }

    /// How long the server asked us to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } | Self::Foreign { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// A failed call: what was called, where, and why it failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Error(Box<Failure>);

#[derive(Clone, Debug, PartialEq)]
struct Failure {
    command: &'static str,
    host: Box<str>,
    cause: Cause,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} failed", self.0.command, self.0.host)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0.cause)
    }
}

impl Error {
    /// An error of a call.
    #[must_use]
    pub fn new(command: &'static str, host: &str, cause: Cause) -> Self {
        Self(Box::new(Failure { command, host: host.into(), cause }))
    }

    /// An error as the server would give it; for models and tests.
    #[must_use]
    pub fn refused(command: &'static str, host: &str, code: u16, text: &str) -> Self {
        let text = kit::words::one_line(text, MESSAGE);
        Self::new(command, host, Cause::Refused { code, inner: None, text, skewed: false, retry_after: None })
    }

    /// The command, which is also the name of the right it needs.
    #[must_use]
    pub fn command(&self) -> &'static str {
        self.0.command
    }

    /// The host and port that were called.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.0.host
    }

    /// Why the call failed.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// What the error means.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.cause.kind()
    }

    /// Whether asking again gives the same answer until somebody changes something.
    #[must_use]
    pub fn is_definitive(&self) -> bool {
        self.kind().is_definitive()
    }

    /// Whether the server may have carried out the call: then look before it is made again.
    #[must_use]
    pub fn maybe_done(&self) -> bool {
        self.0.cause.maybe_done()
    }

    /// The server's own words, fit for a condition; without the address, which a tenant need not know.
    #[must_use]
    pub fn words(&self) -> String {
        match &self.0.cause {
            Cause::Refused { text, .. } if self.kind() != Kind::Credentials => text.clone(),
            cause => kit::class::chain(cause),
        }
    }
}

impl Classify for Error {
    fn class(&self) -> Class {
        match (self.0.cause.retry_after(), self.kind().class()) {
            (Some(asked), Class::Transient { at_least }) => {
                Class::Transient { at_least: Some(asked.max(at_least.unwrap_or_default())) }
            }
            (_, class) => class,
        }
    }
}

#[cfg(test)]
mod tests {
    use kit::class::chain;
    use kit::http::HttpError;

    use super::*;

    fn refused(code: u16, text: &str) -> Cause {
        Cause::Refused { code, inner: None, text: text.to_owned(), skewed: false, retry_after: None }
    }

    fn foreign(status: u16) -> Cause {
        Cause::Foreign { status, start: String::new(), retry_after: None }
    }

    #[test]
    fn an_error_says_what_was_called_where_and_why() {
        let error = Error::refused("listZones", "acs.example.com", 431, "no\nsuch  thing");
        assert_eq!(chain(&error), "listZones at acs.example.com failed: no such thing (error 431)");
        assert_eq!((error.words().as_str(), error.kind()), ("no such thing", Kind::BadRequest));
    }

    #[test]
    fn only_what_may_have_been_done_says_so() {
        let http = |error| Cause::NoAnswer(Unanswered::from(error));
        let timeout = HttpError::Timeout { host: "h".to_owned(), limit: Duration::from_secs(1) };
        let source = Box::new(std::io::Error::other("x"));
        for (cause, done, kind) in [
            (refused(431, "x"), false, Kind::BadRequest),
            (refused(401, "x"), false, Kind::Credentials),
            (refused(530, "x"), true, Kind::Server),
            (refused(533, "x"), true, Kind::Capacity),
            (foreign(200), true, Kind::Transport),
            (foreign(302), true, Kind::Transport),
            (foreign(404), false, Kind::Transport),
            (foreign(401), false, Kind::Credentials),
            (foreign(429), false, Kind::Throttled),
            (foreign(502), true, Kind::Transport),
            (http(timeout), true, Kind::Transport),
            (http(HttpError::Connect { host: "h".to_owned(), source }), false, Kind::Transport),
            (http(HttpError::Setup { detail: "x".to_owned() }), false, Kind::BadRequest),
            (Cause::Malformed { detail: "x".to_owned() }, true, Kind::Malformed),
            (Cause::Paging(PagingError::Loop), true, Kind::Malformed),
            (Cause::Crowded, false, Kind::Throttled),
            (Cause::Request { detail: "x".to_owned() }, false, Kind::BadRequest),
        ] {
            assert_eq!((cause.maybe_done(), cause.kind()), (done, kind), "{cause:?}");
        }
    }

    #[test]
    fn a_wish_to_wait_is_honoured_and_a_skewed_clock_is_named() {
        let wait = Some(Duration::from_secs(7));
        let cause = Cause::Refused { code: 429, inner: None, text: "x".into(), skewed: false, retry_after: wait };
        assert_eq!(Error::new("listZones", "h", cause).class(), Class::Transient { at_least: wait });
        let cause = Cause::Refused { code: 401, inner: None, text: "x".into(), skewed: true, retry_after: None };
        let error = Error::new("listZones", "h", cause);
        assert!(chain(&error).contains("differ by more than 5 minutes") && error.words().contains("5 minutes"));
    }
}
