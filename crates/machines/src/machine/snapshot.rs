//! Everything a decision about one machine is made of, read once.

use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::names::PAUSED_ANNOTATION;
use api::names::claims::DELETE_FOR_MOVE_ANNOTATION;
use api::names::machines::HOST_CLAIM_ANNOTATION;
use api::own::metal3::NamedRef;
use api::own::{CustomDeploy, HostImage, SecretReference};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kit::feed::Version;
use kit::write::Target;

use crate::config::Config;
use crate::facts::{ClaimFacts, ClusterFacts, DataClaimFacts, DataFacts, MachineFacts, OwnerFacts, PlaceFacts};
use crate::node::Sight;

/// What a machine asks of its claim once everything is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// What to deploy.
    pub image: Option<HostImage>,
    /// Or how.
    pub custom_deploy: Option<CustomDeploy>,
    /// The Secret with the user data.
    pub user_data: Option<SecretReference>,
    /// The Secret with the metadata.
    pub meta_data: Option<SecretReference>,
    /// The Secret with the network data.
    pub network_data: Option<SecretReference>,
}

/// A wish that somebody else stands in the way of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The version of the claim it was refused at.
    pub at: Version,
    /// What was asked for.
    pub wish: Wish,
    /// Which fields, and who holds them.
    pub lines: Vec<String>,
}

/// Whose an object of the machine's name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The machine's.
    Ours,
    /// The machine's, and its owner reference got lost.
    Lost,
    /// Somebody else's.
    Theirs,
}

/// What a pass knows.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Which machine.
    pub key: ObjectKey,
    /// Where its status is written.
    pub target: Target,
    /// When.
    pub now: Timestamp,
    /// The settings.
    pub config: Arc<Config>,
    /// The machine.
    pub machine: Arc<MachineFacts>,
    /// Its version.
    pub version: Version,
    /// The kind of claim it runs on; none when it is not ours.
    pub kind: Option<String>,
    /// Its Machine.
    pub owner: Option<Arc<OwnerFacts>>,
    /// Its Cluster.
    pub cluster: Option<Arc<ClusterFacts>>,
    /// Its Metal3Cluster.
    pub place: Option<Arc<PlaceFacts>>,
    /// The claim of its name, and its version.
    pub claim: Option<(Arc<ClaimFacts>, Version)>,
    /// The wish for data of its name.
    pub data_claim: Option<Arc<DataClaimFacts>>,
    /// The data that was made for it.
    pub data: Option<Arc<DataFacts>>,
    /// Whether the Secret with the bootstrap data is there.
    pub bootstrapped: bool,
    /// The reuse group of the machine; none where nobody asked.
    pub reuse: Option<Option<String>>,
    /// The Nodes of the workload cluster.
    pub nodes: Sight,
    /// After how long another look at them is worth it.
    pub patience: Duration,
    /// What the claim could not be given.
    pub refused: Option<Refused>,
    /// When this process last asked for something that the machine waits for.
    pub asked: Option<Timestamp>,
}

/// So long nobody is told that a machine waits for what it has just asked for. Mostly that is there by then, and each word
/// about it would be a write. Longer than the claim itself says nothing, so that the machine has something to repeat.
pub const MOMENT: Duration = Duration::from_secs(15);

impl Snapshot {
    /// The namespace of the machine and of everything it uses.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key.namespace().unwrap_or_default()
    }

    /// The name of the Cluster.
    #[must_use]
    pub fn cluster_name(&self) -> Option<&str> {
        let by_owner = self.owner.as_ref().and_then(|owner| owner.cluster.as_deref());
        by_owner.or(self.machine.cluster.as_deref())
    }

    /// Whether somebody wants everything to stay as it is, and who.
    #[must_use]
    pub fn paused(&self) -> Option<String> {
        if self.cluster.as_ref().is_some_and(|cluster| cluster.paused) {
            return Some("The Cluster is paused.".to_owned());
        }
        let annotated = self.machine.annotations.contains_key(PAUSED_ANNOTATION);
        annotated.then(|| format!("The machine has the annotation {PAUSED_ANNOTATION}."))
    }

    /// Whether the machine was moved to another cluster and goes without giving anything back.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.machine.annotations.contains_key(DELETE_FOR_MOVE_ANNOTATION)
    }

    fn whose(&self, owners: &[OwnerReference]) -> Whose {
        let is_ours = |owner: &OwnerReference| owner.uid == *self.machine.uid;
        match owners.iter().find(|owner| owner.controller == Some(true)) {
            Some(controller) if is_ours(controller) => Whose::Ours,
            Some(_) => Whose::Theirs,
            None if owners.iter().any(is_ours) => Whose::Ours,
            None => Whose::Theirs,
        }
    }

    /// The claim of the machine's name and whose it is.
    #[must_use]
    pub fn claimed(&self) -> Option<(&ClaimFacts, Whose)> {
        let (claim, _) = self.claim.as_ref()?;
        let whose = self.whose(&claim.owners);
        // What names the machine, has no owner, and is what the machine itself says it has, lost its owner on the way.
        let consumer = claim.spec.consumer_ref.as_ref();
        let named = consumer.is_some_and(|consumer| {
            consumer.kind.as_deref() == Some("Metal3Machine")
                && consumer.name.as_deref() == Some(self.key.name())
                && consumer.namespace.as_deref().is_none_or(|namespace| namespace == self.namespace())
        });
        let lost = whose == Whose::Theirs && claim.owners.is_empty() && named && self.is_noted();
        Some((claim, if lost { Whose::Lost } else { whose }))
    }

    /// The claim, if it is the machine's.
    #[must_use]
    pub fn own_claim(&self) -> Option<&ClaimFacts> {
        self.claimed().filter(|(_, whose)| *whose != Whose::Theirs).map(|(claim, _)| claim)
    }

    /// The wish for data, if it is the machine's.
    #[must_use]
    pub fn own_data_claim(&self) -> Option<&DataClaimFacts> {
        self.data_claim.as_deref().filter(|wish| self.whose(&wish.owners) == Whose::Ours)
    }

    /// Whether the machine says which claim it has.
    #[must_use]
    pub fn is_noted(&self) -> bool {
        self.machine.annotations.get(HOST_CLAIM_ANNOTATION) == Some(&self.key.to_string())
    }

    /// Whether the machine is held, and says which claim it has: what is made for it is given back whatever happens.
    #[must_use]
    pub fn is_secured(&self) -> bool {
        self.machine.has_finalizer() && self.is_noted()
    }

    /// Until when nobody is told that the machine waits for what it asked for; none once that has lasted.
    #[must_use]
    pub fn moment(&self) -> Option<Timestamp> {
        let until = self.asked?.saturating_add(MOMENT).ok()?;
        (until > self.now).then_some(until)
    }

    /// The provider id: what the kind of the claim gives, else one made of names.
    #[must_use]
    pub fn provider_id(&self, claim: &ClaimFacts) -> String {
        let given = claim.status.provider_id.clone().filter(|id| !id.is_empty());
        given.unwrap_or_else(|| format!("metal3://{}/{}/{}", self.namespace(), self.key.name(), self.key.name()))
    }

    /// The data template of the machine, by where it really is.
    #[must_use]
    pub fn template(&self, claim: &ClaimFacts) -> Option<&NamedRef> {
        let place = claim.status.failure_domain.as_deref();
        self.machine.spec.data_template_in(place).filter(|template| !template.name.is_empty())
    }
}
