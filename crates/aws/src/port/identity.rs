//! Who we are, and becoming someone else.

use api::names::{AccountId, RoleArn};
use jiff::Timestamp;
use kit::secret::Secret;

/// Keys to sign with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The id of the key; not a secret, and the name of an identity in messages.
    pub id: String,
    /// The key itself.
    pub secret: Secret<String>,
    /// The token of a session.
    pub session: Option<Secret<String>>,
}

/// Keys with a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The keys.
    pub keys: Keys,
    /// When they end; `None` for keys that stay.
    pub expires: Option<Timestamp>,
    /// The account they belong to, where the source says so.
    pub account: Option<AccountId>,
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerIdentity {
    /// The account.
    pub account: AccountId,
    /// The user or assumed role.
    pub arn: String,
}

/// Takes on a role with the caller's own credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumeRole {
    /// The role.
    pub role: RoleArn,
    /// The name of the session in the account's log.
    pub session_name: String,
    /// How long; 900 to 43200 seconds, `None` leaves it to STS (one hour).
    pub duration_seconds: Option<u32>,
    /// What the role's owner agreed on with us.
    pub external_id: Option<String>,
    /// A policy that narrows the role's rights.
    pub inline_policy: Option<String>,
    /// Managed policies that narrow the role's rights.
    pub policy_arns: Vec<String>,
}

/// Takes on a role with a token of another authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumeRoleWithWebIdentity {
    /// The role.
    pub role: RoleArn,
    /// The name of the session in the account's log.
    pub session_name: String,
    /// The token.
    pub token: Secret<String>,
    /// How long; `None` leaves it to STS (one hour).
    pub duration_seconds: Option<u32>,
}
