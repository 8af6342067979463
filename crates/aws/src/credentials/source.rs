//! A source of credentials as a value.

use std::path::PathBuf;

use api::names::{AccountId, RoleArn};
use kit::secret::Secret;

use crate::port::Keys;

/// A role taken on with a token that somebody keeps fresh in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebIdentity {
    /// The role.
    pub role: RoleArn,
    /// The file with the token; read anew each time.
    pub token_file: PathBuf,
    /// The name of the session in the account's log.
    pub session_name: Option<String>,
}

/// A role taken on with other credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The role.
    pub role: RoleArn,
    /// The name of the session in the account's log.
    pub session_name: Option<String>,
    /// How long, 900 to 43200 seconds.
    pub duration_seconds: Option<u32>,
    /// What the role's owner agreed on with us.
    pub external_id: Option<String>,
    /// A policy that narrows the role's rights.
    pub inline_policy: Option<String>,
    /// Managed policies that narrow the role's rights.
    pub policy_arns: Vec<String>,
    /// Whose credentials take it on.
    pub from: Source,
}

/// How we prove to the container's credential service that we are who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerAuth {
    /// The service asks for nothing.
    None,
    /// A fixed word.
    Token(Secret<String>),
    /// A file with a word that changes; read anew each time.
    File(PathBuf),
}

/// Where credentials come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Keys, with a session token or without.
    Keys(Keys),
    /// A role taken on with a token from a file.
    WebIdentity(WebIdentity),
    /// A role taken on with other credentials.
    Role(Box<Role>),
    /// The credential service of a container platform.
    Container {
        /// Its address.
        uri: String,
        /// How it knows us.
        auth: ContainerAuth,
    },
    /// The metadata service of the machine we run on.
    InstanceMetadata {
        /// Its address, without a path.
        endpoint: String,
    },
}

impl Source {
    /// The account, where the source itself names it.
    #[must_use]
    pub fn account(&self) -> Option<&AccountId> {
        match self {
            Self::WebIdentity(identity) => Some(identity.role.account()),
            Self::Role(role) => Some(role.role.account()),
            Self::Keys(_) | Self::Container { .. } | Self::InstanceMetadata { .. } => None,
        }
    }

    /// What kind of source it is, in words for people.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Keys(keys) if keys.session.is_some() => format!("session keys {}", keys.id),
            Self::Keys(keys) => format!("keys {}", keys.id),
            Self::WebIdentity(identity) => format!("web identity {}", identity.role),
            Self::Role(role) => format!("role {} from {}", role.role, role.from.describe()),
            Self::Container { .. } => "the container's credential service".to_owned(),
            Self::InstanceMetadata { .. } => "the machine's metadata service".to_owned(),
        }
    }

    /// How many roles are taken on one after the other.
    #[must_use]
    pub fn depth(&self) -> usize {
        let (mut depth, mut at) = (0, self);
        while let Self::Role(role) = at {
            depth += 1;
            at = &role.from;
        }
        depth + usize::from(matches!(at, Self::WebIdentity(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(session: bool) -> Source {
        Source::Keys(Keys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: "canary".to_owned().into(),
            session: session.then(|| "canary".to_owned().into()),
        })
    }

    #[test]
    fn a_source_names_itself_without_its_secrets() {
        let role = |account: &str, from| {
            Source::Role(Box::new(Role {
                role: format!("arn:aws:iam::{account}:role/a").parse().unwrap(),
                session_name: None,
                duration_seconds: None,
                external_id: None,
                inline_policy: None,
                policy_arns: Vec::new(),
                from,
            }))
        };
        let chain = role("222222222222", role("111111111111", keys(true)));
        assert_eq!(
            chain.describe(),
            "role arn:aws:iam::222222222222:role/a from role arn:aws:iam::111111111111:role/a from session keys AKIDEXAMPLE"
        );
        assert_eq!((chain.depth(), chain.account().unwrap().as_str()), (2, "222222222222"));
        assert_eq!((keys(false).depth(), keys(false).account()), (0, None));
        assert!(!format!("{chain:?}").contains("canary"));
    }
}
