//! What a credentials secret says: where the server is, who calls it, and whom to trust.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kit::http::{Policy, Target, TargetError};
use kit::secret::Secret;
use url::Url;

/// Where the server's API is.
pub const URL: &str = "api-url";
/// The public half of the key pair.
pub const KEY: &str = "api-key";
/// The secret half of the key pair.
pub const SECRET: &str = "secret-key";
/// Whether the server must prove who it is.
pub const VERIFY: &str = "verify-ssl";
/// More authorities to believe, as PEM.
pub const CA: &str = "ca-cert";

/// Which server certificates are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trust {
    /// Those of the machine's authorities.
    #[default]
    System,
    /// Those of the machine's authorities and of these, as PEM.
    Also(Arc<[u8]>),
    /// All: somebody wrote `verify-ssl: "false"`.
    Anyone,
}

/// Why a secret is not a profile. Nothing here quotes a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Not there.
    #[error("key {0} missing")]
    Missing(&'static str),
    /// There, but empty.
    #[error("key {0} empty")]
    Empty(&'static str),
    /// Blanks or a line end around the value: the server would call the signature wrong.
    #[error("key {0} has surrounding whitespace")]
    Whitespace(&'static str),
    /// Not a text.
    #[error("key {0} is not text")]
    NotText(&'static str),
    /// Neither of the two words.
    #[error("key {0} must be true or false")]
    NotBoolean(&'static str),
    /// An address that may not be called, or none.
    #[error("key {URL} is not a usable http(s) URL: {0}")]
    Url(TargetError),
    /// A query in the address.
    #[error("key {URL} must not have a query")]
    Query,
}

/// One user of one server.
#[derive(Clone, PartialEq, Eq)]
pub struct Profile {
    /// Where the server's API is, in its normal form.
    pub url: String,
    /// The public half of the key pair; whoever has it still cannot sign, but it names a user.
    pub api_key: Secret<String>,
    /// The secret half of the key pair.
    pub secret_key: Secret<String>,
    /// Which server certificates are believed.
    pub trust: Trust,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = Url::parse(&self.url).ok().and_then(|url| url.host_str().map(str::to_owned));
        f.debug_struct("Profile").field("host", &host.unwrap_or_default()).finish_non_exhaustive()
    }
}

impl Profile {
    /// Reads the data of a secret. `policy` says which addresses may be called at all.
    ///
    /// # Errors
    /// The first thing that is wrong, in the order of the keys above, by the name of its key.
    pub fn from_secret(data: &BTreeMap<String, Vec<u8>>, policy: &Policy) -> Result<Self, ProfileError> {
        let url = normal(required(data, URL)?, policy)?;
        let api_key = Secret::new(required(data, KEY)?.to_owned());
        let secret_key = Secret::new(required(data, SECRET)?.to_owned());
        let verify = match optional(data, VERIFY)? {
            None | Some("true") => true,
            Some("false") => false,
            Some(_) => return Err(ProfileError::NotBoolean(VERIFY)),
        };
        let trust = match (verify, optional(data, CA)?) {
            (false, _) => Trust::Anyone,
            (true, Some(pem)) if !pem.trim().is_empty() => Trust::Also(pem.as_bytes().into()),
            (true, _) => Trust::System,
        };
        Ok(Self { url, api_key, secret_key, trust })
    }

    /// The host and port of the server, for messages, metrics and logs.
    #[must_use]
    pub fn host(&self) -> String {
        host_of(&self.url)
    }
}

pub(crate) fn host_of(url: &str) -> String {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    match url.and_then(|url| url.port()) {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

/// The policy for addresses in secrets: HTTP as well as HTTPS, never this machine, its link or a metadata service.
#[must_use]
pub fn policy() -> Policy {
    Policy::new().schemes(&["http", "https"])
}

/// A server's address in its normal form: scheme and host in small letters, no default port, no slash at the end. Two
/// addresses mean the same server exactly if their normal forms are equal.
///
/// # Errors
/// When the address may not be called or has a query.
pub fn normal(url: &str, policy: &Policy) -> Result<String, ProfileError> {
    let target = Target::parse(url, policy).map_err(ProfileError::Url)?;
    if target.url().query().is_some() {
        return Err(ProfileError::Query);
    }
    Ok(target.url().as_str().trim_end_matches('/').to_owned())
}

fn optional<'a>(data: &'a BTreeMap<String, Vec<u8>>, key: &'static str) -> Result<Option<&'a str>, ProfileError> {
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| ProfileError::NotText(key));
    data.get(key).map(|bytes| text(bytes)).transpose()
}

fn required<'a>(data: &'a BTreeMap<String, Vec<u8>>, key: &'static str) -> Result<&'a str, ProfileError> {
    let value = optional(data, key)?.ok_or(ProfileError::Missing(key))?;
    if value.trim().is_empty() {
        return Err(ProfileError::Empty(key));
    }
    if value.trim() != value {
        return Err(ProfileError::Whitespace(key));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secret(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        let whole = [(URL, "https://acs.example.com/client/api"), (KEY, "canary-key"), (SECRET, "canary-secret")];
        let mut data: BTreeMap<String, Vec<u8>> =
            whole.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
        for (key, value) in pairs {
            match *value {
                "-" => data.remove(*key),
                value => data.insert((*key).to_owned(), value.as_bytes().to_vec()),
            };
        }
        data
    }

    fn read(pairs: &[(&str, &str)]) -> Result<Profile, ProfileError> {
        Profile::from_secret(&secret(pairs), &policy())
    }

    #[test]
    fn a_whole_secret_is_a_profile_that_does_not_print_its_keys() {
        let profile = read(&[]).unwrap();
        assert_eq!((profile.url.as_str(), &profile.trust), ("https://acs.example.com/client/api", &Trust::System));
        assert_eq!(profile.secret_key.expose(), "canary-secret");
        assert!(!format!("{profile:?} {profile:#?}").contains("canary"));
        assert_eq!(read(&[(VERIFY, "true")]).unwrap().trust, Trust::System);
        assert_eq!(read(&[(VERIFY, "false"), (CA, "x")]).unwrap().trust, Trust::Anyone);
        assert_eq!(read(&[(CA, "pem")]).unwrap().trust, Trust::Also(b"pem".as_slice().into()));
        assert_eq!(read(&[(CA, " ")]).unwrap().trust, Trust::System);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_key_and_never_quoted() {
        for (pairs, said) in [
            (&[(URL, "-")][..], "key api-url missing"),
            (&[(KEY, "-")], "key api-key missing"),
            (&[(SECRET, "-")], "key secret-key missing"),
            (&[(KEY, "")], "key api-key empty"),
            (&[(SECRET, " \n")], "key secret-key empty"),
            (&[(SECRET, "canary\n")], "key secret-key has surrounding whitespace"),
            (&[(KEY, " canary")], "key api-key has surrounding whitespace"),
            (&[(VERIFY, "canary")], "key verify-ssl must be true or false"),
            (&[(VERIFY, "True")], "key verify-ssl must be true or false"),
            (&[(VERIFY, "")], "key verify-ssl must be true or false"),
            (&[(URL, "acs.example.com")], "key api-url is not a usable http(s) URL"),
            (&[(URL, "ftp://canary")], "key api-url is not a usable http(s) URL"),
            (&[(URL, "https://user:canary@acs/")], "key api-url is not a usable http(s) URL"),
            (&[(URL, "http://127.0.0.1:8080/client/api")], "key api-url is not a usable http(s) URL"),
            (&[(URL, "http://169.254.169.254/client/api")], "key api-url is not a usable http(s) URL"),
            (&[(URL, "https://acs.example.com/client/api?apiKey=canary")], "key api-url must not have a query"),
        ] {
            let error = read(pairs).unwrap_err().to_string();
            assert!(error.starts_with(said) && !error.contains("canary"), "{pairs:?}: {error}");
        }
        let mut binary = secret(&[]);
        binary.insert(KEY.to_owned(), vec![0xff]);
        assert_eq!(Profile::from_secret(&binary, &policy()), Err(ProfileError::NotText(KEY)));
    }

    #[test]
    fn addresses_that_mean_the_same_have_one_normal_form() {
        for url in ["HTTPS://ACS.example.com:443/client/api", "https://acs.example.com/client/api/"] {
            assert_eq!(normal(url, &policy()).unwrap(), "https://acs.example.com/client/api", "{url}");
        }
        assert_eq!(normal("http://acs:80/client/api", &policy()), normal("http://ACS/client/api/", &policy()));
        assert_ne!(normal("http://acs/client/api", &policy()), normal("https://acs/client/api", &policy()));
        assert_ne!(normal("http://acs/client/api", &policy()), normal("http://acs/client/API", &policy()));
        assert_ne!(normal("http://acs/client/api", &policy()), normal("http://acs:8080/client/api", &policy()));
    }

    proptest! {
        #[test]
        fn any_secret_is_read_or_refused(url in "[ -~]{0,30}", key in any::<Vec<u8>>(), verify in "(true|false|[a-z]{0,3})") {
            let mut data = secret(&[(VERIFY, &verify)]);
            data.insert(URL.to_owned(), url.into_bytes());
            data.insert(KEY.to_owned(), key);
            let _ = Profile::from_secret(&data, &policy());
        }
    }
}
