//! Signature version 4, written from its description and apart from the signing code of clients.

use aws_lc_rs::{digest, hmac};

use super::form;
use super::refusal::Refusal;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What a signature covers of a request.
#[derive(Clone, Debug)]
pub struct Signed<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Path, as sent.
    pub path: &'a str,
    /// Query without its question mark, as sent.
    pub query: &'a str,
    /// Header names in lower case, with their values, in the order of arrival.
    pub headers: &'a [(String, String)],
    /// The whole body.
    pub body: &'a [u8],
}

/// The `Authorization` header, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// Id of the access key.
    pub access_key: String,
    /// Day of the signing key, `YYYYMMDD`.
    pub date: String,
    /// Region of the signing key.
    pub region: String,
    /// Service of the signing key.
    pub service: String,
    /// Names of the headers the signature covers.
    pub headers: Vec<String>,
    /// The signature in lower-case hex.
    pub signature: String,
}

fn incomplete(what: &str) -> Refusal {
    Refusal::bad("IncompleteSignature", format!("The request signature does not conform to AWS standards: {what}"))
}

impl Authorization {
    /// Reads the header.
    pub fn parse(header: &str) -> Result<Self, Refusal> {
        let rest =
            header.strip_prefix(ALGORITHM).ok_or_else(|| incomplete("the algorithm must be AWS4-HMAC-SHA256"))?;
        let (mut credential, mut headers, mut signature) = (None, None, None);
        for part in rest.split(',') {
            match part.trim().split_once('=') {
                Some(("Credential", value)) => credential = Some(value),
                Some(("SignedHeaders", value)) => headers = Some(value),
                Some(("Signature", value)) => signature = Some(value),
                _ => return Err(incomplete("the Authorization header has an unknown part")),
            }
        }
        let credential = credential.ok_or_else(|| incomplete("Credential is missing"))?;
        let headers = headers.ok_or_else(|| incomplete("SignedHeaders is missing"))?;
        let signature = signature.ok_or_else(|| incomplete("Signature is missing"))?;
        let mut scope = credential.split('/');
        let mut next = || scope.next().filter(|part| !part.is_empty()).map(str::to_owned);
        let (Some(access_key), Some(date), Some(region), Some(service), Some(end), None) =
            (next(), next(), next(), next(), next(), next())
        else {
            return Err(incomplete("Credential must be <key>/<date>/<region>/<service>/aws4_request"));
        };
        if end != "aws4_request" {
            return Err(incomplete("Credential must end in aws4_request"));
        }
        let headers: Vec<String> = headers.split(';').map(str::to_owned).collect();
        if !headers.is_sorted() {
            return Err(incomplete("SignedHeaders must be sorted"));
        }
        Ok(Self { access_key, date, region, service, headers, signature: signature.to_owned() })
    }

    fn scope(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.date, self.region, self.service)
    }

    /// The signature the request should carry when signed with `secret` at `time` (`YYYYMMDDTHHMMSSZ`).
    #[must_use]
    pub fn expected(&self, secret: &str, time: &str, request: &Signed<'_>) -> String {
        let canonical = canonical(request, &self.headers);
        let to_sign = format!("{ALGORITHM}\n{time}\n{}\n{}", self.scope(), sha256(canonical.as_bytes()));
        let mut key = sign(format!("AWS4{secret}").as_bytes(), &self.date);
        for part in [self.region.as_str(), self.service.as_str(), "aws4_request"] {
            key = sign(key.as_ref(), part);
        }
        hex(sign(key.as_ref(), &to_sign).as_ref())
    }
}

fn sign(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 in lower-case hex.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn canonical(request: &Signed<'_>, names: &[String]) -> String {
    let path = if request.path.is_empty() { "/" } else { request.path };
    let path: Vec<String> = path.split('/').map(form::encode).collect();
    let mut query: Vec<(String, String)> = request
        .query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            // A query that does not decode is signed as it stands; the form reader refuses it later.
            let again = |text: &str| form::encode(&form::decode(text).unwrap_or_else(|| text.to_owned()));
            (again(name), again(value))
        })
        .collect();
    query.sort();
    let query: Vec<String> = query.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    let headers: String = names.iter().map(|name| format!("{name}:{}\n", values(request.headers, name))).collect();
    format!(
        "{}\n{}\n{}\n{headers}\n{}\n{}",
        request.method,
        path.join("/"),
        query.join("&"),
        names.join(";"),
        sha256(request.body)
    )
}

fn values(headers: &[(String, String)], name: &str) -> String {
    let all: Vec<String> = headers
        .iter()
        .filter(|(key, _)| key == name)
        .map(|(_, value)| value.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    const TIME: &str = "20150830T123600Z";

    fn example(service: &str, headers: &str) -> Authorization {
        let text = format!(
            "{ALGORITHM} Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, SignedHeaders={headers}, Signature=00"
        );
        Authorization::parse(&text).unwrap()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    /// Method, query, headers, names of the signed ones, body, signature.
    type Case<'a> = (&'a str, &'a str, &'a [(String, String)], &'a str, &'a [u8], &'a str);

    /// The published test suite of signature version 4 (service `service`).
    #[test]
    fn published_vectors_are_reproduced() {
        let base = vec![pair("host", "example.amazonaws.com"), pair("x-amz-date", TIME)];
        let spaced = vec![
            pair("host", "example.amazonaws.com"),
            pair("my-header1", " value1"),
            pair("my-header2", " \"a   b   c\""),
            pair("x-amz-date", TIME),
        ];
        let doubled = vec![
            pair("host", "example.amazonaws.com"),
            pair("my-header1", "value2"),
            pair("my-header1", "value2"),
            pair("my-header1", "value1"),
            pair("x-amz-date", TIME),
        ];
        let form = vec![
            pair("content-type", "application/x-www-form-urlencoded"),
            pair("host", "example.amazonaws.com"),
            pair("x-amz-date", TIME),
        ];
        let cases: [Case<'_>; 6] = [
            (
                "GET",
                "",
                &base,
                "host;x-amz-date",
                b"",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "GET",
                "Param2=value2&Param1=value1",
                &base,
                "host;x-amz-date",
                b"",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "POST",
                "",
                &base,
                "host;x-amz-date",
                b"",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "POST",
                "",
                &form,
                "content-type;host;x-amz-date",
                b"Param1=value1",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
            (
                "GET",
                "",
                &spaced,
                "host;my-header1;my-header2;x-amz-date",
                b"",
                "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
            ),
            (
                "GET",
                "",
                &doubled,
                "host;my-header1;x-amz-date",
                b"",
                "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
            ),
        ];
        for (method, query, headers, names, body, expected) in cases {
            let request = Signed { method, path: "/", query, headers, body };
            assert_eq!(
                example("service", names).expected(SECRET, TIME, &request),
                expected,
                "{method} {query} {names}"
            );
        }
    }

    #[test]
    fn the_worked_example_of_the_documentation_is_reproduced() {
        let headers = [
            pair("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
            pair("host", "iam.amazonaws.com"),
            pair("x-amz-date", TIME),
        ];
        let request = Signed {
            method: "GET",
            path: "/",
            query: "Action=ListUsers&Version=2010-05-08",
            headers: &headers,
            body: b"",
        };
        assert_eq!(
            example("iam", "content-type;host;x-amz-date").expected(SECRET, TIME, &request),
            "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
    }

    #[test]
    fn any_change_of_the_request_changes_the_signature() {
        let headers = [pair("host", "h"), pair("x-amz-date", TIME)];
        let request = Signed { method: "POST", path: "/", query: "", headers: &headers, body: b"Action=A" };
        let key = example("ec2", "host;x-amz-date");
        let good = key.expected(SECRET, TIME, &request);
        let other_host = [pair("host", "g"), pair("x-amz-date", TIME)];
        for changed in [
            Signed { method: "GET", ..request.clone() },
            Signed { path: "/x", ..request.clone() },
            Signed { query: "a=b", ..request.clone() },
            Signed { body: b"Action=B", ..request.clone() },
            Signed { headers: &other_host, ..request.clone() },
        ] {
            assert_ne!(key.expected(SECRET, TIME, &changed), good, "{changed:?}");
        }
        assert_ne!(key.expected("other", TIME, &request), good);
        assert_ne!(example("sts", "host;x-amz-date").expected(SECRET, TIME, &request), good);
    }

    #[test]
    fn malformed_headers_are_incomplete_signatures() {
        for text in [
            "",
            "AWS3-HTTPS x",
            "AWS4-HMAC-SHA256 Credential=a/b/c/d/aws4_request, SignedHeaders=host",
            "AWS4-HMAC-SHA256 Credential=a/b/c/aws4_request, SignedHeaders=host, Signature=x",
            "AWS4-HMAC-SHA256 Credential=a/b/c/d/aws5, SignedHeaders=host, Signature=x",
            "AWS4-HMAC-SHA256 Credential=a/b/c/d/aws4_request, SignedHeaders=x;host, Signature=x",
            "AWS4-HMAC-SHA256 Credential=a/b/c/d/aws4_request/e, SignedHeaders=host, Signature=x",
        ] {
            assert_eq!(Authorization::parse(text).unwrap_err().code, "IncompleteSignature", "{text}");
        }
    }
}
