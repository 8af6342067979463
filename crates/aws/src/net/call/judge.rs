//! What an answer says: a tree, or why not. Pure.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::errors::{Cause, presentable, strip_prefix};
use crate::net::wire::{Document, Node};

/// An answer that was understood.
pub struct Said {
    /// The tree.
    pub document: Document,
    /// The id of the request.
    pub request_id: Option<String>,
}

/// Reads an answer of the Query protocol.
///
/// # Errors
/// The cause, with the id of the request where the answer names one.
pub fn judge(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<Said, (Cause, Option<String>)> {
    let document = Document::parse(body);
    let id = header(headers, "x-amzn-requestid")
        .or_else(|| header(headers, "x-amz-request-id"))
        .or_else(|| document.as_ref().ok().and_then(|document| stated_id(document.root())));
    let request_id = id.filter(|id| id.len() <= 128 && id.bytes().all(|b| b.is_ascii_graphic()));
    if status.is_success() {
        return match document {
            Ok(document) if document.root().name().ends_with("Response") => Ok(Said { document, request_id }),
            Ok(_) => Err((Cause::Malformed { detail: "it is not an answer of the service".to_owned() }, request_id)),
            Err(error) => Err((Cause::Malformed { detail: error.to_string() }, request_id)),
        };
    }
    let refused = document.as_ref().ok().and_then(|document| error_of(document.root()));
    let cause = match refused {
        Some((code, message)) => Cause::Refused {
            status: status.as_u16(),
            code: code.chars().take(128).filter(|c| !c.is_control()).collect(),
            message: presentable(code, message),
        },
        None => Cause::Failed { status: status.as_u16(), retry_after: retry_after(headers) },
    };
    Err((cause, request_id))
}

/// EC2 nests errors in a list, STS does not.
fn error_of(root: Node<'_>) -> Option<(&str, &str)> {
    let error = root.path(&["Errors", "Error"]).or_else(|| root.child("Error"))?;
    Some((strip_prefix(error.get("Code")?), error.get("Message").unwrap_or_default()))
}

fn stated_id(root: Node<'_>) -> Option<String> {
    let named = ["requestId", "RequestId", "RequestID"].iter().find_map(|name| root.get(name));
    named.or_else(|| root.child("ResponseMetadata")?.get("RequestId")).map(str::to_owned)
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = header(headers, "retry-after")?.trim().parse::<u64>().ok()?;
    // A broken clock on the other side must not park us for ever.
    Some(Duration::from_secs(seconds.min(3600)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(status: u16, body: &str) -> Result<Said, (Cause, Option<String>)> {
        judge(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes())
    }

    fn failed(status: u16, body: &str) -> (Cause, Option<String>) {
        read(status, body).err().expect("an error")
    }

    #[test]
    fn both_forms_of_errors_are_read_with_their_request_id() {
        let ec2 = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>Client.HostLimitExceeded</Code><Message>You have requested more hosts than your limit</Message></Error></Errors><RequestID>ea966190-f9aa-478e-9ede-example</RequestID></Response>";
        let (cause, id) = failed(400, ec2);
        let Cause::Refused { status: 400, code, message } = cause else { panic!("{cause:?}") };
        assert_eq!(
            (code.as_str(), message.as_str()),
            ("HostLimitExceeded", "You have requested more hosts than your limit")
        );
        assert_eq!(id.as_deref(), Some("ea966190-f9aa-478e-9ede-example"));
        let sts = "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type><Code>ExpiredToken</Code><Message>The security token included in the request is expired</Message></Error><RequestId>r-2</RequestId></ErrorResponse>";
        let (cause, id) = failed(403, sts);
        assert!(matches!(cause, Cause::Refused { status: 403, code, .. } if code == "ExpiredToken"));
        assert_eq!(id.as_deref(), Some("r-2"));
    }

    #[test]
    fn an_answer_is_read_with_its_request_id() {
        let said = read(200, "<DescribeHostsResponse><requestId>r-3</requestId></DescribeHostsResponse>").ok().unwrap();
        assert_eq!(said.request_id.as_deref(), Some("r-3"));
        let mut headers = HeaderMap::new();
        headers.insert("x-amzn-requestid", "r-4".parse().unwrap());
        let said = judge(StatusCode::OK, &headers, b"<AResponse><requestId>r-3</requestId></AResponse>").ok().unwrap();
        assert_eq!(said.request_id.as_deref(), Some("r-4"));
        let nested =
            "<AssumeRoleResponse><ResponseMetadata><RequestId>r-5</RequestId></ResponseMetadata></AssumeRoleResponse>";
        assert_eq!(read(200, nested).ok().unwrap().request_id.as_deref(), Some("r-5"));
    }

    #[test]
    fn pages_of_others_are_no_answers() {
        for (status, body, transient) in [
            (200, "", false),
            (200, "<html><body>log in</body></html>", false),
            (200, "<AResponse><half>", false),
            (200, "{\"a\":1}", false),
            (500, "<!doctype html><title>500</title>", true),
            (502, "", true),
            (403, "denied", false),
            (302, "", false),
            (400, "<Response><Errors/></Response>", false),
        ] {
            let (cause, _) = failed(status, body);
            let expected = if transient { "transient" } else { "malformed" };
            assert_eq!(cause.kind().as_str(), expected, "{status} {body}: {cause:?}");
        }
    }

    #[test]
    fn a_wish_to_wait_is_read_and_bounded() {
        for (text, seconds) in [("7", Some(7)), ("99999999", Some(3600)), ("-1", None), ("soon", None)] {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", text.parse().unwrap());
            let cause = judge(StatusCode::SERVICE_UNAVAILABLE, &headers, b"").err().unwrap().0;
            assert_eq!(cause, Cause::Failed { status: 503, retry_after: seconds.map(Duration::from_secs) });
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn any_answer_is_judged(status in 100u16..999, body in "(<Response>|<Errors>|<Error>|<Code>|</Code>|</Error>|</Errors>|</Response>|<AResponse/>|[ -~]{0,10}){0,10}") {
            let _ = judge(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes());
        }
    }
}
