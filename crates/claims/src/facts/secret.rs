//! Secrets: who they belong to and that they changed, never what they hold.

use api::key::ObjectKey;
use api::meta::data_writers;
use api::names::claims::{CLAIM_UID_LABEL, SOURCE_VERSION_ANNOTATION};
use api::views::Secret;
use kit::feed::{Project, Version};

use crate::parts::Part;

/// Secrets by name and version, with indexes of the claim and the host that a copy was made for.
pub struct Secrets;

/// A Secret, as decisions use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFacts {
    /// Its incarnation and version: a copy is as old as the version it was made from.
    pub version: Version,
    /// The uid of the claim it was copied for.
    pub claim: Option<Box<str>>,
    /// The version of the Secret it was copied from.
    pub source: Option<Box<str>>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether Berth alone wrote what it holds now, by the server's own record of who wrote what. A record that says
    /// nothing, or that a part was taken away, proves nothing.
    pub sole: bool,
}

/// Who writes copies, as the server records it.
const WRITER: &str = "berth-claims";

impl SecretFacts {
    /// The host that it was copied for, by the name that copies have.
    #[must_use]
    pub fn host(&self, key: &ObjectKey) -> Option<ObjectKey> {
        let claim = self.claim.as_ref()?;
        let (host, _) = key.name().rsplit_once("-hc-").filter(|_| Part::is_copy(key.name(), claim))?;
        Some(ObjectKey::namespaced(key.namespace()?, host))
    }
}

impl Project for Secrets {
    type Source = Secret;
    type Slim = SecretFacts;
    const INDEXES: &'static [&'static str] = &["claim", "host"];

    fn slim(source: Secret) -> SecretFacts {
        let sole = {
            let mut writers = data_writers(&source.metadata).peekable();
            writers.peek().is_some() && writers.all(|writer| writer == WRITER)
        };
        SecretFacts {
            version: Version::of(&source),
            sole,
            source: source
                .metadata
                .annotations
                .and_then(|mut annotations| annotations.remove(SOURCE_VERSION_ANNOTATION))
                .map(Into::into),
            claim: source.metadata.labels.and_then(|mut labels| labels.remove(CLAIM_UID_LABEL)).map(Into::into),
            deleting: source.metadata.deletion_timestamp.is_some(),
        }
    }

    fn keys(index: usize, key: &ObjectKey, secret: &SecretFacts) -> Vec<Box<str>> {
        match index {
            0 => secret.claim.iter().cloned().collect(),
            _ => secret.host(key).map(|host| host.to_string().into()).into_iter().collect(),
        }
    }
}
