//! What can go wrong with a call, and what to do about it.

mod table;

use std::fmt;
use std::time::Duration;

use kit::class::{Class, Classify};
pub use kit::http::Unanswered;
use kit::words::one_line;

pub use table::{Kind, kind_of, label_of, strip_prefix};

use crate::credentials::CredentialsError;

/// A text of the other side is kept up to this length: it ends in conditions and events.
const MESSAGE: usize = 300;

/// A service of AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// Machines and hosts.
    Ec2,
    /// Identities.
    Sts,
}

impl Service {
    /// The name in endpoints, signatures, flags and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Sts => "sts",
        }
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Cause {
    /// The service said no.
    #[error("{code}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The code, without `Client.` or `Server.`.
        code: String,
        /// The service's own words.
        message: String,
    },
    /// The service failed without a word of its own.
    #[error("the service answered with HTTP status {status}")]
    Failed {
        /// The HTTP status.
        status: u16,
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
    /// A list never ended.
    #[error(transparent)]
    Paging(#[from] PagingError),
    /// There are no credentials to sign with; nothing was sent.
    #[error("no usable credentials")]
    Credentials(#[source] CredentialsError),
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

/// A list that does not end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PagingError {
    /// A page token came a second time.
    #[error("the list goes round in circles: a page token came twice")]
    Loop,
    /// Too many pages.
    #[error("the list has more than {limit} pages")]
    TooLong {
        /// The limit.
        limit: u32,
    },
}

/// A failed call: what was called, why it failed, and the id by which the service knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Error(Box<Failure>);

#[derive(Clone, Debug, PartialEq)]
struct Failure {
    service: Service,
    operation: &'static str,
    region: Box<str>,
    request_id: Option<String>,
    cause: Cause,
}

impl fmt::Display for Error {
    // No request id here: texts end in conditions, which must not change from try to try.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} in {} failed", self.0.service.as_str(), self.0.operation, self.0.region)
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
    pub fn new(service: Service, operation: &'static str, region: &str, cause: Cause) -> Self {
        Self(Box::new(Failure { service, operation, region: region.into(), request_id: None, cause }))
    }

    /// An error with a code, as the service would give it; for models and tests.
    #[must_use]
    pub fn refused(operation: &'static str, region: &str, code: &str, message: &str) -> Self {
        let cause = Cause::Refused {
            status: 400,
            code: strip_prefix(code).to_owned(),
            message: presentable(strip_prefix(code), message),
        };
        Self::new(Service::Ec2, operation, region, cause)
    }

    /// The same error with the id of the request.
    #[must_use]
    pub fn with_request_id(mut self, id: Option<String>) -> Self {
        self.0.request_id = id;
        self
    }

    /// The service that was called.
    #[must_use]
    pub fn service(&self) -> Service {
        self.0.service
    }

    /// The operation, which is also the name of the right it needs.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The region that was called.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.0.region
    }

    /// The id by which the service's support finds the call; for logs, never for conditions.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// Why the call failed.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// The service's error code, if it gave one.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match &self.0.cause {
            Cause::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    /// The service's own words, fit for a condition.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match &self.0.cause {
            Cause::Refused { message, .. } => Some(message),
            _ => None,
        }
    }

    /// What the error means.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.cause.kind()
    }

    /// Whether the service may have carried out the call: then only an equal request with its token may follow.
    #[must_use]
    pub fn maybe_done(&self) -> bool {
        self.0.cause.maybe_done()
    }
}

impl Cause {
    /// What the cause means.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            // An unlisted code of the server's own fault passes by itself, whatever it says.
            Self::Refused { code, .. } => kind_of(code),
            Self::Failed { status: 503 | 429, .. } => Kind::Throttled,
            Self::Failed { status: 500.., .. } => Kind::Transient,
            Self::Failed { .. } | Self::Malformed { .. } | Self::Paging(_) => Kind::Malformed,
            Self::NoAnswer(unanswered) => match unanswered.error().class() {
                Class::Terminal => Kind::Terminal,
                Class::Stale | Class::Transient { .. } => Kind::Transient,
            },
            Self::Credentials(error) => error.kind(),
            Self::Crowded => Kind::Throttled,
            Self::Request { .. } => Kind::Terminal,
        }
    }

    /// Whether the service may have carried out the call.
    #[must_use]
    pub fn maybe_done(&self) -> bool {
        match self {
            // A refusal of a request is final; a fault of the service may have struck at any moment.
            Self::Refused { status, .. } => *status >= 500 && self.kind() != Kind::Throttled,
            Self::Failed { status, .. } => *status >= 500,
            Self::NoAnswer(unanswered) => unanswered.error().maybe_sent(),
            Self::Malformed { .. } | Self::Paging(_) => true,
            Self::Credentials(_) | Self::Crowded | Self::Request { .. } => false,
        }
    }
}

impl Classify for Error {
    fn class(&self) -> Class {
        match &self.0.cause {
            Cause::Failed { retry_after: at_least @ Some(_), .. } => Class::Transient { at_least: *at_least },
            cause => cause.kind().class(),
        }
    }
}

/// The service's words without what must not be shown or changes from try to try.
#[must_use]
pub fn presentable(code: &str, message: &str) -> String {
    let cut = match code {
        // What follows is the whole request, session token included.
        "SignatureDoesNotMatch" | "IncompleteSignature" => message.split(['\n', ':']).next().unwrap_or_default(),
        // An encoded blob that differs each time and only the account's owner can read.
        _ => message.split("Encoded authorization failure message").next().unwrap_or_default(),
    };
    one_line(cut, MESSAGE)
}

#[cfg(test)]
mod tests {
    use kit::class::chain;
    use kit::http::HttpError;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_error_says_what_was_called_and_why_but_no_request_id() {
        let error = Error::refused("AllocateHosts", "us-east-1", "Client.HostLimitExceeded", "too many")
            .with_request_id(Some("req-1".to_owned()));
        assert_eq!(chain(&error), "ec2:AllocateHosts in us-east-1 failed: HostLimitExceeded: too many");
        assert_eq!((error.kind(), error.request_id()), (Kind::HostQuota, Some("req-1")));
        assert_eq!((error.code(), error.message()), (Some("HostLimitExceeded"), Some("too many")));
        assert!(!error.maybe_done());
    }

    #[test]
    fn only_what_may_have_been_done_says_so() {
        let http = |error| Cause::NoAnswer(Unanswered::from(error));
        let refused = |status, code: &str| Cause::Refused { status, code: code.to_owned(), message: String::new() };
        let timeout = HttpError::Timeout { host: "h".to_owned(), limit: Duration::from_secs(1) };
        let source = Box::new(std::io::Error::other("x"));
        for (cause, done, kind) in [
            (refused(400, "InvalidParameterValue"), false, Kind::Terminal),
            (refused(500, "InternalError"), true, Kind::Transient),
            (refused(503, "Unavailable"), true, Kind::Transient),
            (refused(503, "RequestLimitExceeded"), false, Kind::Throttled),
            (Cause::Failed { status: 500, retry_after: None }, true, Kind::Transient),
            (Cause::Failed { status: 503, retry_after: None }, true, Kind::Throttled),
            (Cause::Failed { status: 429, retry_after: None }, false, Kind::Throttled),
            (Cause::Failed { status: 404, retry_after: None }, false, Kind::Malformed),
            (http(timeout), true, Kind::Transient),
            (http(HttpError::Connect { host: "h".to_owned(), source }), false, Kind::Transient),
            (http(HttpError::Setup { detail: "x".to_owned() }), false, Kind::Terminal),
            (Cause::Malformed { detail: "x".to_owned() }, true, Kind::Malformed),
            (Cause::Paging(PagingError::Loop), true, Kind::Malformed),
            (Cause::Crowded, false, Kind::Throttled),
            (Cause::Request { detail: "x".to_owned() }, false, Kind::Terminal),
        ] {
            assert_eq!((cause.maybe_done(), cause.kind()), (done, kind), "{cause:?}");
        }
    }

    #[test]
    fn a_wish_to_wait_is_honoured() {
        let wait = Some(Duration::from_secs(7));
        let error =
            Error::new(Service::Ec2, "DescribeHosts", "us-east-1", Cause::Failed { status: 503, retry_after: wait });
        assert_eq!(error.class(), Class::Transient { at_least: wait });
    }

    #[test]
    fn neither_the_signed_request_nor_a_changing_blob_is_shown() {
        let shown = presentable(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match.\n\nThe Canonical String was\nx-amz-security-token:canary",
        );
        assert_eq!(shown, "The request signature we calculated does not match.");
        let shown = presentable(
            "UnauthorizedOperation",
            "You are not authorized. Encoded authorization failure message: 3hf8canary",
        );
        assert_eq!(shown, "You are not authorized.");
        assert_eq!(presentable("X", &"ä".repeat(400)).chars().count(), MESSAGE + 1);
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_short_line(code in "[A-Za-z.]{0,30}", text in any::<String>()) {
            let shown = presentable(&code, &text);
            prop_assert!(shown.chars().count() <= MESSAGE + 1);
            prop_assert!(!shown.chars().any(char::is_control));
        }
    }
}
