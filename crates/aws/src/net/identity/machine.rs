//! Credentials of the machine we run on, from its metadata service (second version only).

use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use kit::http::{HttpClient, Policy};

use super::served;
use crate::credentials::CredentialsError;
use crate::port::Credentials;

const PLACE: &str = "the machine's metadata service";
const SESSION: &str = "x-aws-ec2-metadata-token";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// Where metadata services answer: EC2's own addresses, and this machine for what imitates them.
const NEAR: [&str; 4] = ["127.0.0.0/8", "::1/128", "169.254.169.254/32", "fd00:ec2::254/128"];

/// The metadata service of a machine.
pub(crate) struct Machine {
    http: HttpClient,
    endpoint: String,
}

impl Machine {
    pub(crate) fn new(http: HttpClient, endpoint: String) -> Self {
        Self { http, endpoint }
    }

    /// What may be called.
    pub(crate) fn policy() -> Policy {
        Policy::new().schemes(&["http", "https"]).admit(NEAR.iter().filter_map(|network| network.parse().ok()))
    }

    pub(crate) async fn fetch(&self) -> Result<Credentials, CredentialsError> {
        let malformed = |detail| CredentialsError::Malformed { place: PLACE, detail };
        let mut open = self.request(Method::PUT, "/latest/api/token")?;
        open.headers_mut().insert("x-aws-ec2-metadata-token-ttl-seconds", HeaderValue::from_static("300"));
        let session = served::ask(&self.http, PLACE, open).await?.into_body();
        let mut session = HeaderValue::from_bytes(session.trim_ascii())
            .map_err(|_| malformed("its session token does not fit a header"))?;
        session.set_sensitive(true);
        let roles = self.ask(ROLES, &session).await?;
        let role = std::str::from_utf8(&roles).unwrap_or_default().lines().next().unwrap_or_default().trim();
        let fit = |b: u8| b.is_ascii_alphanumeric() || b"+=,.@_-".contains(&b);
        if role.is_empty() || role.starts_with('.') || !role.bytes().all(fit) {
            return Err(malformed("it names no role of this machine"));
        }
        let document = self.ask(&format!("{ROLES}{role}"), &session).await?;
        served::read(PLACE, &document)
    }

    async fn ask(&self, path: &str, session: &HeaderValue) -> Result<Bytes, CredentialsError> {
        let mut request = self.request(Method::GET, path)?;
        request.headers_mut().insert(SESSION, session.clone());
        Ok(served::ask(&self.http, PLACE, request).await?.into_body())
    }

    fn request(&self, method: Method, path: &str) -> Result<Request<Bytes>, CredentialsError> {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.endpoint))
            .body(Bytes::new())
            .map_err(|_| CredentialsError::Malformed { place: PLACE, detail: "its address is not a URL" })
    }
}
