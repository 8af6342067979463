//! Credentials as container platforms and machines serve them.

use api::names::AccountId;
use bytes::Bytes;
use http::{Request, Response};
use jiff::Timestamp;
use kit::http::HttpClient;
use kit::secret::Secret;
use serde::Deserialize;

use crate::credentials::{CredentialsError, Why};
use crate::port::{Credentials, Keys};

/// The document both services answer with; unknown fields are passed over.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    /// Only machines say it, and only `Success` is good.
    code: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<Secret<String>>,
    token: Option<Secret<String>>,
    expiration: Option<String>,
    account_id: Option<String>,
}

/// Reads the document. Nothing of it is quoted in an error.
pub(super) fn read(place: &'static str, body: &[u8]) -> Result<Credentials, CredentialsError> {
    let bad = |detail| CredentialsError::Malformed { place, detail };
    let document: Document = serde_json::from_slice(body).map_err(|_| bad("it is not a credential document"))?;
    if document.code.as_deref().is_some_and(|code| code != "Success") {
        return Err(bad("it says that there are no credentials"));
    }
    let id = document.access_key_id.filter(|id| !id.is_empty()).ok_or_else(|| bad("it has no AccessKeyId"))?;
    let secret = document.secret_access_key.filter(|secret| !secret.expose().is_empty());
    let secret = secret.ok_or_else(|| bad("it has no SecretAccessKey"))?;
    let expires = match document.expiration {
        Some(text) => Some(text.parse::<Timestamp>().map_err(|_| bad("its Expiration is not a time"))?),
        None => None,
    };
    let account: Option<AccountId> = document.account_id.and_then(|account| account.parse().ok());
    Ok(Credentials { keys: Keys { id, secret, session: document.token }, expires, account })
}

/// Asks a service and takes only a good answer.
pub(super) async fn ask(
    http: &HttpClient,
    place: &'static str,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, CredentialsError> {
    let sent = http.send(request).await;
    let response = sent.map_err(|error| CredentialsError::Fetch { place, source: Why::new(error) })?;
    if response.status().is_success() {
        return Ok(response);
    }
    Err(CredentialsError::Denied { place, status: response.status().as_u16() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLACE: &str = "the test";

    #[test]
    fn documents_of_both_kinds_are_read() {
        let machine = br#"{"Code":"Success","LastUpdated":"2026-01-01T00:00:00Z","Type":"AWS-HMAC","AccessKeyId":"ASIA1","SecretAccessKey":"canary","Token":"canary","Expiration":"2026-01-01T06:00:00Z"}"#;
        let found = read(PLACE, machine).unwrap();
        assert_eq!(found.keys.id, "ASIA1");
        assert_eq!(found.expires.unwrap().to_string(), "2026-01-01T06:00:00Z");
        assert!(!format!("{found:?}").contains("canary"));
        let container = br#"{"AccessKeyId":"ASIA2","SecretAccessKey":"x","AccountId":"123456789012","RoleArn":"r"}"#;
        let found = read(PLACE, container).unwrap();
        assert_eq!((found.expires, found.account.unwrap().as_str()), (None, "123456789012"));
    }

    #[test]
    fn a_bad_document_is_refused_without_being_quoted() {
        for body in [
            "",
            "canary",
            "[]",
            r#"{"Code":"AssumeRoleUnauthorizedAccess","Message":"canary"}"#,
            r#"{"AccessKeyId":"","SecretAccessKey":"canary"}"#,
            r#"{"AccessKeyId":"canary"}"#,
            r#"{"AccessKeyId":"a","SecretAccessKey":"canary","Expiration":"canary"}"#,
            r#"{"AccessKeyId":"a","SecretAccessKey":{"canary":1}}"#,
        ] {
            let error = read(PLACE, body.as_bytes()).unwrap_err();
            assert!(!format!("{error:?} {error}").contains("canary"), "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(PLACE, &bytes);
        }
    }
}
