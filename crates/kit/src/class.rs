//! Errors say what to do: every error of every client falls into one of three classes.

use std::time::Duration;

use kube::core::Status;

/// What a failed pass should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Try again with back-off, no sooner than the server asked.
    Transient {
        /// The server's own wish (`Retry-After`), when it had one.
        at_least: Option<Duration>,
    },
    /// We decided on the past (a conflict, or an index that lags our write): look again soon, no error, no back-off.
    Stale,
    /// Only a change by the user helps: report it and wait for that change.
    Terminal,
}

impl Class {
    /// The label value of this class in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient { .. } => "transient",
            Self::Stale => "stale",
            Self::Terminal => "terminal",
        }
    }
}

/// Implemented by every error a room can return.
pub trait Classify {
    /// What to do about it.
    fn class(&self) -> Class;
}

impl Classify for kube::Error {
    fn class(&self) -> Class {
        match self {
            Self::Api(status) => class_of(status),
            // A request we cannot even build is the same the next time. An answer that cannot be read need not be: a
            // proxy's page in place of the server's words goes away by itself.
            Self::BuildRequest(_) => Class::Terminal,
            _ => Class::Transient { at_least: None },
        }
    }
}

/// The table for answers of the API server, by status code.
#[must_use]
pub fn class_of(status: &Status) -> Class {
    let asked = status.details.as_ref().map(|d| u64::from(d.retry_after_seconds)).filter(|s| *s > 0);
    match status.code {
        // Gone, taken or changed: the decision was made on an older world.
        404 | 409 | 410 => Class::Stale,
        400 | 405 | 406 | 413 | 415 | 422 => Class::Terminal,
        // Rights can be granted at any time and nothing announces it, so ask again, rarely.
        401 | 403 => Class::Transient { at_least: Some(Duration::from_secs(30)) },
        _ => Class::Transient { at_least: asked.map(Duration::from_secs) },
    }
}

/// The whole chain of an error in one line, for the `error` field of a log line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let line = inner.to_string();
        // Some libraries repeat the cause in their own text; say it once.
        if !text.contains(&line) {
            text.push_str(": ");
            text.push_str(&line);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, retry: u32) -> kube::Error {
        let wire =
            serde_json::json!({"code": code, "message": "m", "reason": "R", "details": {"retryAfterSeconds": retry}});
        kube::Error::Api(Box::new(serde_json::from_value(wire).unwrap()))
    }

    #[test]
    fn every_answer_of_the_api_server_has_its_class() {
        let soon = Class::Transient { at_least: None };
        let rarely = Class::Transient { at_least: Some(Duration::from_secs(30)) };
        for (code, class) in [
            (404, Class::Stale),
            (409, Class::Stale),
            (410, Class::Stale),
            (400, Class::Terminal),
            (405, Class::Terminal),
            (413, Class::Terminal),
            (415, Class::Terminal),
            (422, Class::Terminal),
            (401, rarely),
            (403, rarely),
            (429, soon),
            (500, soon),
            (502, soon),
            (503, soon),
            (504, soon),
        ] {
            assert_eq!(answer(code, 0).class(), class, "{code}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_asked_for_again() {
        let page = serde_json::from_str::<Status>("<html>").unwrap_err();
        assert_eq!(kube::Error::SerdeError(page).class(), Class::Transient { at_least: None });
    }

    #[test]
    fn a_wish_to_retry_later_is_honoured() {
        let seven = Some(Duration::from_secs(7));
        assert_eq!(answer(429, 7).class(), Class::Transient { at_least: seven });
        assert_eq!(answer(503, 7).class(), Class::Transient { at_least: seven });
    }

    #[test]
    fn a_chain_names_each_cause_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("reading the host")]
        struct Outer(#[source] Inner);
        #[derive(Debug, thiserror::Error)]
        #[error("connection refused")]
        struct Inner;
        assert_eq!(chain(&Outer(Inner)), "reading the host: connection refused");
    }
}
