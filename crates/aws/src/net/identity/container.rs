//! Credentials of a container platform (ECS, EKS pod identity, and what speaks the same words).

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderValue, Request};
use kit::http::{HttpClient, Listed, Policy};

use super::provider::read_token;
use super::served;
use crate::credentials::{ContainerAuth, CredentialsError};
use crate::port::Credentials;

const PLACE: &str = "the container's credential service";

/// Where such services answer without encryption: this machine, and the agents of ECS and EKS.
const NEAR: [&str; 5] = ["127.0.0.0/8", "::1/128", "169.254.170.2/32", "169.254.170.23/32", "fd00:ec2::23/128"];

/// The credential service of a container platform.
pub(crate) struct Container {
    http: HttpClient,
    uri: String,
    auth: ContainerAuth,
}

impl Container {
    pub(crate) fn new(http: HttpClient, uri: String, auth: ContainerAuth) -> Self {
        Self { http, uri, auth }
    }

    /// What may be called: anything with a checked certificate, or the agents nearby without.
    pub(crate) fn policy(uri: &str) -> Policy {
        let near = || NEAR.iter().filter_map(|network| network.parse().ok());
        if uri.starts_with("https:") {
            return Policy::new().admit(near());
        }
        Policy::new().schemes(&["http"]).admit(near()).only(near().map(Listed::Network))
    }

    pub(crate) async fn fetch(&self) -> Result<Credentials, CredentialsError> {
        let malformed = |detail| CredentialsError::Malformed { place: PLACE, detail };
        let mut request = Request::get(&self.uri)
            .header(ACCEPT, "application/json")
            .body(Bytes::new())
            .map_err(|_| malformed("its address is not a URL"))?;
        let token = match &self.auth {
            ContainerAuth::None => None,
            ContainerAuth::Token(token) => Some(token.clone()),
            ContainerAuth::File(path) => Some(read_token(path).await?),
        };
        if let Some(token) = token {
            let mut value =
                HeaderValue::from_str(token.expose()).map_err(|_| malformed("the token does not fit a header"))?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let response = served::ask(&self.http, PLACE, request).await?;
        served::read(PLACE, response.body())
    }
}

#[cfg(test)]
mod tests {
    use kit::http::Target;

    use super::*;

    #[test]
    fn without_encryption_only_the_agents_nearby_are_asked() {
        let allowed = |uri: &str| Target::parse(uri, &Container::policy(uri)).is_ok();
        for uri in [
            "http://169.254.170.2/v2/x",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
            "http://127.0.0.1:8080/creds",
            "https://creds.example.com/x",
        ] {
            assert!(allowed(uri), "{uri}");
        }
        for uri in ["http://169.254.169.254/latest", "http://10.0.0.1/", "ftp://127.0.0.1/", "https://169.254.169.254/"]
        {
            assert!(!allowed(uri), "{uri}");
        }
    }
}
