//! Who may sign requests: long-lived keys, sessions, roles and the tokens that prove an identity.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::super::wire::refusal::Refusal;
use super::super::wire::sigv4::{Authorization, Signed, sha256};
use super::time::{between, later};
use crate::server::Rng;

/// Who a caller is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Account.
    pub account: String,
    /// Full name.
    pub arn: String,
    /// Unique id.
    pub user_id: String,
}

/// An access key.
#[derive(Clone, Debug)]
pub struct Key {
    /// The secret half.
    pub secret: String,
    /// Token that requests must carry, for sessions.
    pub session: Option<String>,
    /// Whose it is.
    pub caller: Caller,
    /// When it ends, for sessions.
    pub expires: Option<Timestamp>,
}

/// A role that can be taken on.
#[derive(Clone, Debug, Default)]
pub struct Role {
    /// The word a caller must know.
    pub external_id: Option<String>,
    /// Web identity tokens that may take it on.
    pub web_tokens: BTreeSet<String>,
    /// Whether signed callers may take it on.
    pub closed: bool,
}

/// All keys and roles.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    /// Keys by id.
    pub keys: BTreeMap<String, Key>,
    /// Roles by full name.
    pub roles: BTreeMap<String, Role>,
}

/// New credentials for a session.
#[derive(Clone, Debug)]
pub struct Session {
    /// Id of the key.
    pub access_key: String,
    /// Secret half.
    pub secret: String,
    /// Token.
    pub token: String,
    /// When it ends.
    pub expires: Timestamp,
    /// Who the caller now is.
    pub caller: Caller,
}

/// The answers to bad credentials differ between the two services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Elastic Compute Cloud.
    Ec2,
    /// Security Token Service.
    Sts,
}

impl Service {
    /// The name in a signature.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Sts => "sts",
        }
    }

    fn unknown_key(self) -> Refusal {
        match self {
            Self::Ec2 => {
                Refusal::new(401, "AuthFailure", "AWS was not able to validate the provided access credentials")
            }
            Self::Sts => {
                Refusal::new(403, "InvalidClientTokenId", "The security token included in the request is invalid.")
            }
        }
    }

    fn bad_signature(self) -> Refusal {
        match self {
            Self::Ec2 => self.unknown_key(),
            Self::Sts => Refusal::new(
                403,
                "SignatureDoesNotMatch",
                "The request signature we calculated does not match the signature you provided. Check your AWS Secret \
                 Access Key and signing method.",
            ),
        }
    }

    fn expired(self) -> Refusal {
        match self {
            Self::Ec2 => Refusal::bad("RequestExpired", "Request has expired."),
            Self::Sts => Refusal::new(403, "ExpiredToken", "The security token included in the request is expired"),
        }
    }

    fn skewed(self) -> Refusal {
        match self {
            Self::Ec2 => Refusal::bad("RequestExpired", "Request has expired."),
            Self::Sts => {
                Refusal::new(403, "SignatureDoesNotMatch", "Signature expired: the request is too old or too new")
            }
        }
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn parse_time(text: &str) -> Option<Timestamp> {
    let civil = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", text).ok()?;
    jiff::tz::TimeZone::UTC.to_timestamp(civil).ok()
}

impl Identities {
    /// Checks a signed request and says who sent it. `now` is the time clients sign with.
    pub fn verify(
        &self,
        authorization: &Authorization,
        service: Service,
        request: &Signed<'_>,
        now: Timestamp,
        world_now: Timestamp,
        max_skew: Option<Duration>,
    ) -> Result<Caller, Refusal> {
        let incomplete = |what: &str| Refusal::bad("IncompleteSignature", what.to_owned());
        let time = header(request.headers, "x-amz-date")
            .ok_or_else(|| incomplete("The header x-amz-date is missing from the request"))?;
        let at = parse_time(time).ok_or_else(|| incomplete("Date must be in ISO-8601 'basic format'"))?;
        if time.get(..8) != Some(authorization.date.as_str()) {
            return Err(incomplete("The date of the credential scope does not match that of the request"));
        }
        let needed = ["host", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"];
        for name in needed.into_iter().filter(|name| *name == "host" || header(request.headers, name).is_some()) {
            if !authorization.headers.iter().any(|signed| signed == name) {
                return Err(incomplete(&format!("The header {name} must be a signed header")));
            }
        }
        if let Some(claimed) = header(request.headers, "x-amz-content-sha256")
            && claimed != sha256(request.body)
        {
            return Err(service.bad_signature());
        }
        let key = self.keys.get(&authorization.access_key).ok_or_else(|| service.unknown_key())?;
        if key.session.as_deref() != header(request.headers, "x-amz-security-token") {
            return Err(service.unknown_key());
        }
        if authorization.expected(&key.secret, time, request) != authorization.signature {
            return Err(service.bad_signature());
        }
        if max_skew.is_some_and(|most| between(at, now).max(between(now, at)) > most) {
            return Err(service.skewed());
        }
        if key.expires.is_some_and(|end| end <= world_now) {
            return Err(service.expired());
        }
        Ok(key.caller.clone())
    }

    /// Opens a session in a role.
    pub fn open(&mut self, role: &str, name: &str, duration: Duration, now: Timestamp, rng: &mut Rng) -> Session {
        let mut parts = role.split(':');
        let (partition, account) = (parts.nth(1).unwrap_or("aws"), parts.nth(2).unwrap_or_default());
        let role_name = role.rsplit('/').next().unwrap_or_default();
        let word = |rng: &mut Rng| format!("{:016X}", rng.next_u64());
        let access_key = format!("ASIA{}", word(rng));
        let secret = format!("{}{}{}", word(rng), word(rng), word(rng)).to_lowercase();
        let token = format!("Fwo{}{}{}{}==", word(rng), word(rng), word(rng), word(rng));
        let caller = Caller {
            account: account.to_owned(),
            arn: format!("arn:{partition}:sts::{account}:assumed-role/{role_name}/{name}"),
            user_id: format!("AROA{:016X}:{name}", super::super::catalogue::fnv(&[role])),
        };
        let expires = later(now, duration);
        let key = Key {
            secret: secret.clone(),
            session: Some(token.clone()),
            caller: caller.clone(),
            expires: Some(expires),
        };
        self.keys.insert(access_key.clone(), key);
        Session { access_key, secret, token, expires, caller }
    }
}
