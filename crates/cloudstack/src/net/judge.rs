//! What an answer says: an object, or why not. Pure.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kit::words::one_line;
use serde_json::{Map, Value};

use crate::errors::{Cause, FOREIGN, MESSAGE};

/// An answer: the object behind its only key.
pub type Said = Map<String, Value>;

/// Clocks that differ by more than this cannot agree on an expiry.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Reads an answer. `hidden` are texts that must not be shown, whoever repeats them.
///
/// # Errors
/// The server's refusal, or that somebody else has answered.
pub fn judge(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
    hidden: &[&str],
) -> Result<Said, Cause> {
    let code = status.as_u16();
    let Some(said) = only(body) else {
        let start = one_line(&shown(&untagged(&String::from_utf8_lossy(body)), hidden), FOREIGN);
        return Err(Cause::Foreign { status: code, start, retry_after: retry_after(headers) });
    };
    let stated = said.get("errorcode").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    if status.is_success() && stated.is_none() {
        return Ok(said);
    }
    let text = said.get("errortext").and_then(Value::as_str).unwrap_or("the server gave no reason");
    Err(Cause::Refused {
        code: stated.unwrap_or(code),
        inner: said.get("cserrorcode").and_then(Value::as_u64),
        text: one_line(&shown(text, hidden), MESSAGE),
        skewed: stated.unwrap_or(code) == 401 && skewed(headers, now),
        retry_after: retry_after(headers),
    })
}

/// The object behind the only key of an answer, whatever that key is.
fn only(body: &[u8]) -> Option<Said> {
    let Ok(Value::Object(whole)) = serde_json::from_slice(body) else { return None };
    let mut entries = whole.into_iter();
    match (entries.next(), entries.next()) {
        (Some((_, Value::Object(said))), None) => Some(said),
        _ => None,
    }
}

fn skewed(headers: &HeaderMap, now: Timestamp) -> bool {
    let date = headers.get("date").and_then(|value| value.to_str().ok());
    let theirs = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    theirs.is_some_and(|theirs| now.duration_since(theirs.timestamp()).abs() > SKEW)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get("retry-after")?.to_str().ok()?.trim().parse::<u64>().ok()?;
    // A broken clock on the other side must not park us for ever.
    Some(Duration::from_secs(seconds.min(3600)))
}

/// The text without what must not be shown.
fn shown(text: &str, hidden: &[&str]) -> String {
    let hidden = hidden.iter().filter(|secret| !secret.is_empty());
    hidden.fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
}

/// The text of a page without its tags.
fn untagged(page: &str) -> String {
    let mut inside = false;
    let keep = |c: &char| {
        let was = inside;
        inside = match c {
            '<' => true,
            '>' => false,
            _ => inside,
        };
        !was && *c != '<'
    };
    page.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::errors::Kind;

    fn read(status: u16, body: &str) -> Result<Said, Cause> {
        let now = "2026-11-15T20:00:00Z".parse().unwrap();
        judge(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes(), now, &["canary"])
    }

    #[test]
    fn the_only_key_of_an_answer_is_taken_whatever_its_name() {
        assert_eq!(read(200, r#"{"listzonesresponse":{"count":1}}"#).unwrap().get("count"), Some(&Value::from(1)));
        assert!(read(200, r#"{"anything":{}}"#).unwrap().is_empty());
    }

    #[test]
    fn refusals_are_read_with_their_codes() {
        let body =
            r#"{"listzonesresponse":{"uuidList":[],"errorcode":431,"cserrorcode":9999,"errortext":"no\n canary"}}"#;
        let Err(Cause::Refused { code: 431, inner: Some(9999), text, skewed: false, .. }) = read(431, body) else {
            panic!("not refused")
        };
        assert_eq!(text, "no ***");
        let body = r#"{"errorresponse":{"uuidList":[],"errorcode":401,"errortext":"x"}}"#;
        assert_eq!(read(401, body).unwrap_err().kind(), Kind::Credentials);
        assert_eq!(read(200, body).unwrap_err().kind(), Kind::Credentials, "an error is one whatever its status");
        assert!(matches!(read(530, r#"{"x":{}}"#), Err(Cause::Refused { code: 530, .. })));
    }

    #[test]
    fn pages_of_others_are_told_by_their_first_words() {
        for (status, body, start) in [
            (200, "", ""),
            (200, "<html><body>log  in, canary</body></html>", "log in, ***"),
            (502, "Bad Gateway", "Bad Gateway"),
            (200, "[]", "[]"),
            (200, r#"{"a":{},"b":{}}"#, r#"{"a":{},"b":{}}"#),
            (200, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        ] {
            let Err(Cause::Foreign { status: told, start: shown, .. }) = read(status, body) else { panic!("{body}") };
            assert_eq!((told, shown.as_str()), (status, start));
        }
        let Err(Cause::Foreign { start, .. }) = read(200, &"x".repeat(500)) else { panic!() };
        assert_eq!(start.chars().count(), FOREIGN + 1);
    }

    #[test]
    fn a_clock_that_is_off_is_noticed_where_it_matters() {
        let now: Timestamp = "2026-11-15T20:00:00Z".parse().unwrap();
        let body = br#"{"x":{"errorcode":401,"errortext":"x"}}"#;
        for (date, off) in [
            ("Sun, 15 Nov 2026 20:04:00 GMT", false),
            ("Sun, 15 Nov 2026 20:06:00 GMT", true),
            ("Sun, 15 Nov 2026 19:54:00 GMT", true),
            ("soon", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("date", date.parse().unwrap());
            let cause = judge(StatusCode::UNAUTHORIZED, &headers, body, now, &[]).unwrap_err();
            assert!(matches!(cause, Cause::Refused { skewed, .. } if skewed == off), "{date}: {cause:?}");
        }
    }

    #[test]
    fn a_server_may_ask_for_a_pause_of_an_hour_at_most() {
        let now: Timestamp = "2026-11-15T20:00:00Z".parse().unwrap();
        for (said, pause) in [
            (Some("7"), Some(7)),
            (Some(" 30 "), Some(30)),
            (Some("0"), Some(0)),
            (Some("99999"), Some(3600)),
            // What is no number of seconds is nothing: the usual pauses hold.
            (Some("soon"), None),
            (Some("Sun, 15 Nov 2026 20:04:00 GMT"), None),
            (Some("-1"), None),
            (None, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(said.map(|said| (http::header::RETRY_AFTER, said.parse().unwrap())));
            let pause = pause.map(Duration::from_secs);
            // Whoever answers: the server or a proxy before it.
            for (status, body) in [(429, br#"{"x":{"errorcode":429,"errortext":"x"}}"#.as_slice()), (503, b"<html>")] {
                let status = StatusCode::from_u16(status).unwrap();
                let cause = judge(status, &headers, body, now, &[]).unwrap_err();
                assert_eq!(cause.retry_after(), pause, "{said:?}: {cause:?}");
            }
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("(errorcode|errortext|cserrorcode|count|id|zone|[a-z]{1,5})", inner, 0..4)
                    .prop_map(Value::from_iter),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn any_json_is_judged(status in 200u16..600, value in json()) {
            let _ = read(status, &value.to_string());
        }

        #[test]
        fn any_text_is_judged_and_hides_what_it_must(status in 200u16..600, before in ".{0,20}", after in ".{0,20}") {
            let body = format!("{before}canary{after}");
            let shown = format!("{:?}", read(status, &body));
            prop_assert!(!shown.contains("canary"));
        }
    }
}
