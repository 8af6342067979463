//! As whom a cluster is served: the identity that its infrastructure names, followed to the credentials it stands for.
//!
//! [`resolve`] touches nothing: what is stored about identities is asked of an [`Identities`], and the answer is a
//! [`Chain`] that says whose credentials come first and which roles are taken on with them. Each identity on the way must
//! allow the namespace of the cluster; a right that cannot be read is no right. [`IdentityFeeds`] keeps what is stored.

mod feeds;

use std::collections::BTreeMap;
use std::fmt;

use api::names::{NameError, RoleArn};
use api::views::{
    AllowedNamespaces, AwsIdentityRef, ControllerIdentitySpec, NamespaceTerm, RoleIdentitySpec, StaticIdentitySpec,
};

use crate::credentials::{Role, Source};
pub use feeds::{IdentityFeeds, IdentityLists};

/// Roles that are taken on one after the other, at most.
pub const LONGEST_CHAIN: usize = 5;
/// The controller identity that serves clusters which name none.
const DEFAULT: &str = "default";
/// How long a session of a role may last, in seconds; STS takes nothing else.
const DURATIONS: std::ops::RangeInclusive<i32> = 900..=43_200;

/// What kind of identity it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdentityKind {
    /// The credentials of the process itself.
    Controller,
    /// An access key in a Secret.
    Static,
    /// A role that is taken on.
    Role,
}

impl IdentityKind {
    /// The kind as Kubernetes spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "AWSClusterControllerIdentity",
            Self::Static => "AWSClusterStaticIdentity",
            Self::Role => "AWSClusterRoleIdentity",
        }
    }

    fn read(kind: &str) -> Option<Self> {
        [Self::Controller, Self::Static, Self::Role].into_iter().find(|known| known.as_str() == kind)
    }
}

/// An identity by kind and name; identities lie in no namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentityName {
    /// The kind.
    pub kind: IdentityKind,
    /// The name.
    pub name: String,
}

impl IdentityName {
    /// Reads a reference; one to a controller identity may leave out the name.
    ///
    /// # Errors
    /// When the kind is none of the three, or the name is missing.
    pub fn read(reference: &AwsIdentityRef) -> Result<Self, IdentityError> {
        let AwsIdentityRef { kind, name } = reference;
        let known = IdentityKind::read(kind).ok_or_else(|| IdentityError::UnknownKind { kind: kind.clone() })?;
        let name = match (name.as_str(), known) {
            ("", IdentityKind::Controller) => DEFAULT.to_owned(),
            ("", _) => return Err(IdentityError::Nameless { kind: known.as_str() }),
            (name, _) => name.to_owned(),
        };
        Ok(Self { kind: known, name })
    }
}

impl fmt::Display for IdentityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

/// What is stored about an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The credentials of the process itself.
    Controller(ControllerIdentitySpec),
    /// An access key in a Secret.
    Static(StaticIdentitySpec),
    /// A role that is taken on.
    Role(RoleIdentitySpec),
}

impl Identity {
    fn allowed(&self) -> Option<&AllowedNamespaces> {
        match self {
            Self::Controller(spec) => spec.allowed_namespaces.as_ref(),
            Self::Static(spec) => spec.allowed_namespaces.as_ref(),
            Self::Role(spec) => spec.allowed_namespaces.as_ref(),
        }
    }
}

/// What is known about identities.
pub trait Identities {
    /// What is stored under a name.
    fn find(&self, name: &IdentityName) -> Option<Identity>;
}

impl<F: Fn(&IdentityName) -> Option<Identity>> Identities for F {
    fn find(&self, name: &IdentityName) -> Option<Identity> {
        self(name)
    }
}

/// The namespace of a cluster, as identities judge it.
#[derive(Clone, Copy, Debug)]
pub struct Space<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
}

/// Why an identity cannot be used. Every text names the identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// No such kind.
    #[error(
        "identityRef: the kind {kind:?} is unknown; there are AWSClusterControllerIdentity, AWSClusterStaticIdentity and AWSClusterRoleIdentity"
    )]
    UnknownKind {
        /// What is written.
        kind: String,
    },
    /// A reference without a name.
    #[error("identityRef: the {kind} has no name")]
    Nameless {
        /// The kind.
        kind: &'static str,
    },
    /// It is not there.
    #[error("{0} is not there")]
    Missing(IdentityName),
    /// It does not allow the namespace.
    #[error("{name} does not allow the namespace {namespace}: {why}")]
    NotAllowed {
        /// The identity.
        name: IdentityName,
        /// The namespace.
        namespace: String,
        /// Which part of `allowedNamespaces` says so.
        why: &'static str,
    },
    /// It names no Secret.
    #[error("{0}: spec.secretRef names no Secret")]
    NoSecret(IdentityName),
    /// Its role is none.
    #[error("{name}: spec.roleARN")]
    BadRole {
        /// The identity.
        name: IdentityName,
        /// Why.
        #[source]
        source: NameError,
    },
    /// Its sessions last too long or too short.
    #[error("{name}: spec.durationSeconds is {seconds}, and STS takes 900 to 43200")]
    BadDuration {
        /// The identity.
        name: IdentityName,
        /// What is written.
        seconds: i32,
    },
    /// It is its own source.
    #[error("{0} takes on its role with credentials that need {0} themselves; see spec.sourceIdentityRef")]
    Loop(IdentityName),
    /// Too many roles one after the other.
    #[error("{name} takes on more than {LONGEST_CHAIN} roles one after the other")]
    TooDeep {
        /// Where the chain starts.
        name: IdentityName,
    },
}

/// Whose credentials come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Base {
    /// The process's own.
    Process,
    /// Those in a Secret, in the namespace of the controller.
    Secret {
        /// The identity that names it.
        identity: IdentityName,
        /// Its name.
        secret: String,
    },
}

/// Credentials, and the roles that are taken on with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Whose credentials come first.
    pub base: Base,
    roles: Vec<Link>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    role: RoleArn,
    spec: RoleIdentitySpec,
}

impl Chain {
    /// The process's own credentials, without any role.
    #[must_use]
    pub fn process() -> Self {
        Self { base: Base::Process, roles: Vec::new() }
    }

    /// The roles, the one that is taken on first first.
    pub fn roles(&self) -> impl Iterator<Item = &RoleArn> {
        self.roles.iter().map(|link| &link.role)
    }

    /// The source of credentials, once those of the base are known.
    #[must_use]
    pub fn onto(&self, base: Source) -> Source {
        self.roles.iter().fold(base, |from, link| {
            Source::Role(Box::new(Role {
                role: link.role.clone(),
                session_name: link.spec.session_name.clone(),
                duration_seconds: link.spec.duration_seconds.and_then(|seconds| u32::try_from(seconds).ok()),
                external_id: link.spec.external_id.clone(),
                inline_policy: link.spec.inline_policy.clone(),
                policy_arns: link.spec.policy_arns.clone(),
                from,
            }))
        })
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for link in self.roles.iter().rev() {
            write!(f, "role {} from ", link.role)?;
        }
        match &self.base {
            Base::Process => f.write_str("those of the operator's process"),
            Base::Secret { identity, secret } => write!(f, "Secret {secret} of {identity}"),
        }
    }
}

/// Follows the identity of a cluster. Without a reference the controller identity `default` serves it, as if it were named;
/// only where nobody has made that object do the process's own credentials serve every namespace.
///
/// # Errors
/// When an identity on the way is not there, does not allow the namespace, or cannot be used.
pub fn resolve(
    reference: Option<&AwsIdentityRef>,
    space: Space<'_>,
    identities: &impl Identities,
) -> Result<Chain, IdentityError> {
    let first = match reference {
        Some(reference) => IdentityName::read(reference)?,
        None => {
            let default = IdentityName { kind: IdentityKind::Controller, name: DEFAULT.to_owned() };
            if identities.find(&default).is_none() {
                return Ok(Chain::process());
            }
            default
        }
    };
    let mut seen = Vec::new();
    let mut roles = Vec::new();
    let mut next = Some(first.clone());
    let mut base = Base::Process;
    while let Some(name) = next.take() {
        if seen.contains(&name) {
            return Err(IdentityError::Loop(name));
        }
        seen.push(name.clone());
        let identity = identities.find(&name).ok_or_else(|| IdentityError::Missing(name.clone()))?;
        if let Err(why) = allows(identity.allowed(), space) {
            return Err(IdentityError::NotAllowed { name, namespace: space.name.to_owned(), why });
        }
        match identity {
            Identity::Controller(_) => {}
            Identity::Static(spec) => {
                let secret = spec.secret_ref.ok_or_else(|| IdentityError::NoSecret(name.clone()))?;
                base = Base::Secret { identity: name, secret };
            }
            Identity::Role(_) if roles.len() >= LONGEST_CHAIN => return Err(IdentityError::TooDeep { name: first }),
            Identity::Role(spec) => {
                next = spec.source_identity_ref.as_ref().map(IdentityName::read).transpose()?;
                roles.push(link(name, spec)?);
            }
        }
    }
    roles.reverse();
    Ok(Chain { base, roles })
}

fn link(name: IdentityName, spec: RoleIdentitySpec) -> Result<Link, IdentityError> {
    let role = spec.role_arn.as_deref().unwrap_or_default().parse();
    // Zero is how Go writes that nothing was said.
    let duration = spec.duration_seconds.filter(|seconds| *seconds != 0);
    match (role, duration) {
        (Err(source), _) => Err(IdentityError::BadRole { name, source }),
        (Ok(_), Some(seconds)) if !DURATIONS.contains(&seconds) => Err(IdentityError::BadDuration { name, seconds }),
        (Ok(role), duration) => Ok(Link { role, spec: RoleIdentitySpec { duration_seconds: duration, ..spec } }),
    }
}

/// Whether a namespace may use an identity: nobody unless it says so, everybody if it says nothing more.
fn allows(allowed: Option<&AllowedNamespaces>, space: Space<'_>) -> Result<(), &'static str> {
    let Some(allowed) = allowed else { return Err("spec.allowedNamespaces is not set, which allows none") };
    if allowed.unreadable {
        return Err("spec.allowedNamespaces cannot be read");
    }
    if allowed.list.is_none() && allowed.terms.is_none() {
        return Ok(());
    }
    let listed = allowed.list.iter().flatten().any(|name| name == space.name);
    let selected = allowed.terms.as_ref().is_some_and(|terms| terms.iter().all(|term| fits(term, space.labels)));
    if listed || selected { Ok(()) } else { Err("it is not in spec.allowedNamespaces, by name or by label") }
}

fn fits(term: &NamespaceTerm, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&term.key);
    match term.operator.as_str() {
        "In" => value.is_some_and(|value| term.values.contains(value)),
        "NotIn" => value.is_none_or(|value| !term.values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
