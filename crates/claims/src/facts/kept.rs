//! A claim between two passes: what the yard and the indexes ask of it, and all the rest in shorthand.

use api::key::ObjectKey;
use api::names::claims::DELETE_FOR_MOVE_ANNOTATION;
use api::own::{BAREMETAL, FailureDomainMode, ProvisioningState, SelectedHost};
use api::raw::HostClaim;
use api::reasons::{ASSOCIATED, PROVISIONED, READY, SYNCHRONIZED};
use claim_kind::held::Held;
use jiff::Timestamp;
use kit::feed::Project;
use kit::room::Stand;

use super::claim::selector;
use super::{ClaimFacts, Claims, short};
use crate::labels::Selector;

/// A HostClaim as it is kept. A site has thousands of them, a pass looks at one: that one is spelled out for the pass, by
/// [`KeptClaim::facts`].
#[derive(Clone, Debug, PartialEq)]
pub struct KeptClaim {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it is deleted because it was moved to another management cluster.
    pub moved: bool,
    /// Whether it is of our own kind.
    pub baremetal: bool,
    /// Whether it wants a host, by all it says itself.
    pub asks: bool,
    /// Its priority.
    pub priority: i32,
    /// The hosts it wants; the words for what is wrong with that.
    pub wish: Result<Wish, Box<str>>,
    /// The host that it has decided on and does not have yet.
    pub intent: Option<Box<SelectedHost>>,
    /// The machine of a claim of another kind.
    pub held: Option<Box<Held>>,
    /// How far it has come, in one word.
    pub phase: &'static str,
    /// How it stands for those who count.
    pub stand: Stand,
    cluster: Option<Box<str>>,
    secrets: Box<[Box<str>]>,
    rest: Box<[u8]>,
}

/// Which hosts a claim wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// By their labels.
    pub selector: Selector,
    /// In this namespace alone.
    pub in_namespace: Option<Box<str>>,
    /// In this failure domain.
    pub domain: Option<Box<str>>,
    /// And in no other.
    pub required: bool,
    /// Rather those kept for this reuse group.
    pub group: Option<Box<str>>,
}

impl KeptClaim {
    /// What is kept of a claim.
    #[must_use]
    pub fn of(claim: &ClaimFacts) -> Self {
        let (spec, status) = (&claim.spec, &claim.status);
        let baremetal = spec.kind == BAREMETAL;
        let text = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Into::into);
        let domain: Option<Box<str>> = text(&spec.failure_domain);
        let wish = claim.selector.as_ref().map_err(Clone::clone).map(|selector| Wish {
            selector: selector.clone(),
            in_namespace: text(&spec.host_selector.in_namespace),
            required: domain.is_some() && spec.failure_domain_mode == FailureDomainMode::Required,
            domain,
            group: text(&spec.node_reuse),
        });
        let bound = status.bare_metal_host.is_some();
        Self {
            uid: claim.uid.clone(),
            created: claim.created,
            deleting: claim.deleting,
            moved: claim.annotation(DELETE_FOR_MOVE_ANNOTATION).is_some(),
            baremetal,
            // One whose status names a host had one: what became of it is settled first.
            asks: baremetal
                && claim.problem.is_none()
                && wish.is_ok()
                && !claim.deleting
                && !claim.is_paused()
                && !bound,
            priority: spec.priority,
            wish,
            intent: status.selected_host.clone().filter(|_| !bound).map(Box::new),
            held: claim.held_elsewhere().map(Box::new),
            phase: phase(claim),
            stand: stand(claim),
            cluster: claim.cluster.clone(),
            secrets: claim.secrets().map(Into::into).collect(),
            rest: short::pack(&serde_json::to_string(claim).unwrap_or_default()),
        }
    }

    /// The whole claim; `None` would be a fault of the shorthand.
    #[must_use]
    pub fn facts(&self) -> Option<ClaimFacts> {
        let mut claim: ClaimFacts = serde_json::from_str(&short::unpack(&self.rest)?).ok()?;
        claim.uid = self.uid.clone();
        claim.created = self.created;
        claim.deleting = self.deleting;
        claim.cluster = self.cluster.clone();
        claim.selector = selector(&claim.spec);
        Some(claim)
    }
}

/// The word for a claim that has no host.
pub const WAITING: &str = "waiting";

/// How far a claim has come, in one word.
fn phase(claim: &ClaimFacts) -> &'static str {
    if claim.deleting {
        return "releasing";
    }
    let status = &claim.status;
    match (&status.bare_metal_host, associated(claim)) {
        (_, Some("HostLost")) => "lost",
        (Some(_), _) if status.provisioning_state == Some(ProvisioningState::Provisioning) => "provisioning",
        (Some(_), _) if status.provisioning_state == Some(ProvisioningState::Deprovisioning) => "deprovisioning",
        (Some(_), _) if status.ready => "provisioned",
        (Some(_), _) => "bound",
        (None, _) if status.selected_host.is_some() => "binding",
        (None, _) => WAITING,
    }
}

/// How a claim stands: what it has to get first says why it is not ready.
fn stand(claim: &ClaimFacts) -> Stand {
    let parts = [ASSOCIATED, SYNCHRONIZED, PROVISIONED];
    Stand::judged(&claim.status.conditions, READY, &parts, claim.created, claim.deleted_at)
}

fn associated(claim: &ClaimFacts) -> Option<&str> {
    claim.status.conditions.iter().find(|c| c.type_ == ASSOCIATED).map(|c| c.reason.as_str())
}

impl Project for Claims {
    type Source = HostClaim;
    type Slim = KeptClaim;
    const INDEXES: &'static [&'static str] = &["secret", "cluster", "uid"];

    fn slim(source: HostClaim) -> KeptClaim {
        KeptClaim::of(&ClaimFacts::of(source))
    }

    fn keys(index: usize, key: &ObjectKey, claim: &KeptClaim) -> Vec<Box<str>> {
        let beside = |name: &str| ObjectKey::namespaced(key.namespace().unwrap_or_default(), name).to_string().into();
        match index {
            0 => claim.secrets.iter().map(|name| beside(name)).collect(),
            1 => claim.cluster.iter().map(|cluster| beside(cluster)).collect(),
            _ => vec![claim.uid.clone()],
        }
    }
}
