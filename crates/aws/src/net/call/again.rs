//! Whether a failed call may be made again, and after what pause. Pure.

use std::time::Duration;

use crate::errors::{Cause, Kind};

/// Whether a repetition of a call is the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// A read, a call that sets what is already set, or one that carries a token.
    Safe,
    /// A repetition could be judged differently from the first: only if the first was certainly not carried out.
    IfNotDone,
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Let it stand.
    No,
    /// After this pause (half of it jitter).
    After(Duration),
    /// At once, with new credentials.
    Renewed,
}

const LONGEST: Duration = Duration::from_secs(20);

/// What went before.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// Attempts made, at least 1.
    pub attempts: u32,
    /// How many are allowed.
    pub limit: u32,
    /// The first pause; each further one is twice as long.
    pub pause: Duration,
    /// Whether credentials were renewed already.
    pub renewed: bool,
}

/// Decides.
#[must_use]
pub fn again(cause: &Cause, repeat: Repeat, history: History) -> Again {
    if history.attempts >= history.limit {
        return Again::No;
    }
    if cause.maybe_done() && repeat == Repeat::IfNotDone {
        return Again::No;
    }
    let asked = match cause {
        Cause::Failed { retry_after, .. } => retry_after.unwrap_or_default(),
        _ => Duration::ZERO,
    };
    let grown = history.pause.saturating_mul(1 << history.attempts.saturating_sub(1).min(10)).min(LONGEST);
    match cause.kind() {
        // A crowded line does not get shorter by standing in it again; the caller's own back-off is longer.
        Kind::Throttled if matches!(cause, Cause::Crowded) => Again::No,
        Kind::Throttled => Again::After(asked.max(grown.saturating_mul(2).min(LONGEST))),
        Kind::Transient => Again::After(asked.max(grown)),
        Kind::Permission if !history.renewed && stale_credentials(cause) => Again::Renewed,
        _ => Again::No,
    }
}

/// Codes that say the credentials themselves are at fault, not their rights.
fn stale_credentials(cause: &Cause) -> bool {
    let Cause::Refused { code, .. } = cause else { return false };
    code.starts_with("ExpiredToken")
        || matches!(
            code.as_str(),
            "AuthFailure" | "InvalidClientTokenId" | "RequestExpired" | "UnrecognizedClientException"
        )
}

#[cfg(test)]
mod tests {
    use kit::http::HttpError;
    use proptest::prelude::*;

    use super::*;
    use crate::errors::{PagingError, Unanswered};

    const START: History = History { attempts: 1, limit: 5, pause: Duration::from_millis(400), renewed: false };

    fn refused(status: u16, code: &str) -> Cause {
        Cause::Refused { status, code: code.to_owned(), message: String::new() }
    }

    fn timeout() -> Cause {
        Cause::NoAnswer(Unanswered::from(HttpError::Timeout { host: "h".to_owned(), limit: Duration::from_secs(1) }))
    }

    fn connect() -> Cause {
        let source = Box::new(std::io::Error::other("x"));
        Cause::NoAnswer(Unanswered::from(HttpError::Connect { host: "h".to_owned(), source }))
    }

    #[test]
    fn an_unknown_outcome_is_repeated_only_where_that_is_the_same_request() {
        for cause in [timeout(), refused(500, "InternalError"), Cause::Failed { status: 500, retry_after: None }] {
            assert!(matches!(again(&cause, Repeat::Safe, START), Again::After(_)), "{cause:?}");
            assert_eq!(again(&cause, Repeat::IfNotDone, START), Again::No, "{cause:?}");
        }
        for cause in [connect(), refused(503, "RequestLimitExceeded"), refused(400, "Throttling")] {
            assert!(matches!(again(&cause, Repeat::IfNotDone, START), Again::After(_)), "{cause:?}");
        }
    }

    #[test]
    fn refusals_that_last_stand() {
        for cause in [
            refused(400, "HostLimitExceeded"),
            refused(400, "InsufficientHostCapacity"),
            refused(400, "InvalidParameterValue"),
            refused(400, "IdempotentParameterMismatch"),
            refused(403, "UnauthorizedOperation"),
            refused(412, "DryRunOperation"),
            Cause::Malformed { detail: String::new() },
            Cause::Paging(PagingError::Loop),
            Cause::Crowded,
            Cause::Request { detail: String::new() },
        ] {
            assert_eq!(again(&cause, Repeat::Safe, START), Again::No, "{cause:?}");
        }
    }

    #[test]
    fn ended_credentials_are_renewed_once() {
        for code in ["ExpiredToken", "ExpiredTokenException", "AuthFailure", "RequestExpired", "InvalidClientTokenId"] {
            assert_eq!(again(&refused(401, code), Repeat::IfNotDone, START), Again::Renewed, "{code}");
            let renewed = History { renewed: true, ..START };
            assert_eq!(again(&refused(401, code), Repeat::Safe, renewed), Again::No, "{code}");
        }
    }

    #[test]
    fn a_wish_to_wait_is_honoured_and_pauses_grow() {
        let wait = Some(Duration::from_secs(7));
        let cause = Cause::Failed { status: 503, retry_after: wait };
        assert_eq!(again(&cause, Repeat::Safe, START), Again::After(Duration::from_secs(7)));
        let pauses: Vec<Again> =
            (1..5).map(|attempts| again(&timeout(), Repeat::Safe, History { attempts, ..START })).collect();
        assert_eq!(pauses, [400, 800, 1600, 3200].map(|ms| Again::After(Duration::from_millis(ms))));
    }

    proptest! {
        #[test]
        fn attempts_are_bounded(attempts in 1u32..100, limit in 1u32..10, renewed: bool, code in "[A-Za-z]{0,20}", status in 200u16..600) {
            let cause = refused(status, &code);
            let decided = again(&cause, Repeat::Safe, History { attempts, limit, renewed, ..START });
            if attempts >= limit { prop_assert_eq!(decided, Again::No); }
            if let Again::After(pause) = decided { prop_assert!(pause <= LONGEST); }
        }
    }
}
