//! Signing with version 4 of AWS's scheme, by the official crate.

use std::time::SystemTime;

use aws_credential_types::Credentials as SigningCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign as sign_v4};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use jiff::Timestamp;

use crate::port::Keys;

/// Why a request cannot be signed. Nothing of the keys is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// Keys of no usable form.
    #[error("the {0} holds characters that no key has")]
    Keys(&'static str),
    /// A request of no usable form.
    #[error("the request cannot be signed")]
    Request,
}

/// Signs a request for a service in a region.
///
/// # Errors
/// When the keys or the request are of no usable form.
pub fn sign(
    request: &mut Request<Bytes>,
    keys: &Keys,
    region: &str,
    service: &str,
    now: Timestamp,
) -> Result<(), SignError> {
    // The signer puts them into headers without looking.
    let usable = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    let session = keys.session.as_ref().map(|token| token.expose().as_str());
    for (what, text) in [("access key id", keys.id.as_str()), ("session token", session.unwrap_or("-"))] {
        if !usable(text) {
            return Err(SignError::Keys(what));
        }
    }
    let identity = SigningCredentials::new(
        keys.id.as_str(),
        keys.secret.expose().as_str(),
        session.map(str::to_owned),
        None,
        "berth",
    )
    .into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(SystemTime::from(now))
        .settings(SigningSettings::default())
        .build()
        .map_err(|_| SignError::Request)?
        .into();
    let headers: Vec<(String, String)> = request
        .headers()
        .iter()
        .map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect::<Option<_>>()
        .ok_or(SignError::Request)?;
    let uri = request.uri().to_string();
    let signable = SignableRequest::new(
        request.method().as_str(),
        uri,
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())),
        SignableBody::Bytes(request.body()),
    )
    .map_err(|_| SignError::Request)?;
    let (instructions, _) = sign_v4(signable, &parameters).map_err(|_| SignError::Request)?.into_parts();
    let (added, _) = instructions.into_parts();
    for header in added {
        let name = HeaderName::from_bytes(header.name().as_bytes()).map_err(|_| SignError::Request)?;
        let mut value = HeaderValue::from_str(header.value()).map_err(|_| SignError::Request)?;
        value.set_sensitive(true);
        request.headers_mut().insert(name, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::Method;
    use http::header::{AUTHORIZATION, CONTENT_TYPE};
    use proptest::prelude::*;

    use super::*;

    fn keys(session: Option<&str>) -> Keys {
        Keys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned().into(),
            session: session.map(|token| token.to_owned().into()),
        }
    }

    fn signed(method: Method, uri: &str, body: &'static str, service: &str) -> String {
        let mut request = Request::builder().method(method).uri(uri);
        if !body.is_empty() || service == "iam" {
            let charset = if service == "iam" { "; charset=utf-8" } else { "" };
            request = request.header(CONTENT_TYPE, format!("application/x-www-form-urlencoded{charset}"));
        }
        let mut request = request.body(Bytes::from_static(body.as_bytes())).unwrap();
        let now = "2015-08-30T12:36:00Z".parse().unwrap();
        sign(&mut request, &keys(None), "us-east-1", service, now).unwrap();
        assert_eq!(request.headers()["x-amz-date"], "20150830T123600Z");
        request.headers()[AUTHORIZATION].to_str().unwrap().to_owned()
    }

    /// The published vectors `get-vanilla`, `post-vanilla`, `post-x-www-form-urlencoded`,
    /// `get-vanilla-query-order-key-case` and the ListUsers example of the signing guide.
    #[test]
    fn published_vectors_are_signed_as_published() {
        let here = "https://example.amazonaws.com/";
        for (method, uri, body, service, headers, signature) in [
            (
                Method::GET,
                here,
                "",
                "service",
                "host;x-amz-date",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                Method::POST,
                here,
                "",
                "service",
                "host;x-amz-date",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                Method::POST,
                here,
                "Param1=value1",
                "service",
                "content-type;host;x-amz-date",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
            (
                Method::GET,
                "https://example.amazonaws.com/?Param2=value2&Param1=value1",
                "",
                "service",
                "host;x-amz-date",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                Method::GET,
                "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
                "",
                "iam",
                "content-type;host;x-amz-date",
                "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
            ),
        ] {
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, \
                 SignedHeaders={headers}, Signature={signature}"
            );
            assert_eq!(signed(method, uri, body, service), expected, "{uri} {body}");
        }
    }

    #[test]
    fn a_session_token_is_sent_signed_and_never_shown() {
        let mut request = Request::post("https://ec2.us-east-1.amazonaws.com/").body(Bytes::new()).unwrap();
        sign(&mut request, &keys(Some("canary")), "us-east-1", "ec2", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(request.headers()["x-amz-security-token"], "canary");
        let authorization = request.headers()[AUTHORIZATION].to_str().unwrap();
        assert!(authorization.contains("SignedHeaders=host;x-amz-date;x-amz-security-token"), "{authorization}");
        let shown = format!("{request:?}");
        assert!(!shown.contains("canary") && !shown.contains("Signature="), "{shown}");
    }

    proptest! {
        #[test]
        fn odd_keys_are_refused_and_never_panic(id in any::<String>(), secret in any::<String>(), session in prop::option::of(any::<String>())) {
            let keys = Keys { id, secret: secret.into(), session: session.map(Into::into) };
            let mut request = Request::post("https://ec2.us-east-1.amazonaws.com/").body(Bytes::new()).unwrap();
            let done = sign(&mut request, &keys, "us-east-1", "ec2", Timestamp::UNIX_EPOCH);
            let clean = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
            let session = keys.session.as_ref().is_none_or(|token| clean(token.expose()));
            prop_assert_eq!(done.is_ok(), clean(&keys.id) && session);
        }
    }
}
