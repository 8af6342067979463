//! Thinks about one machine: what to do next, and what to say.

use std::collections::BTreeMap;

use api::own::metal3::NamedRef;
use api::own::{BAREMETAL, ConsumerReference, HostClaimSpec, HostImage, SecretReference};
use api::reasons::machines::Reason;
use api::reasons::{ASSOCIATED, PROVISIONED, claims};
use api::status::find;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::conditions::State;

use super::snapshot::{Snapshot, Whose, Wish};
pub use super::thought::{Questions, Says, Thought};
use crate::admit;
use crate::facts::ClaimFacts;
use crate::node::{self, Found, NodeFacts, Sight};

/// One effect, or a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stores the finalizer and which claim the machine has or is going to have, as far as they are not there.
    Secure,
    /// Makes the claim.
    Claim {
        /// What it asks for.
        spec: Box<HostClaimSpec>,
    },
    /// Puts the lost owner reference back on the claim.
    Adopt,
    /// Makes the wish for data.
    AskData {
        /// What is to be rendered.
        template: NamedRef,
    },
    /// Gives the claim what the machine is to run.
    Fill {
        /// All of it.
        wish: Box<Wish>,
    },
    /// Stores the provider id.
    Publish {
        /// The id.
        provider_id: String,
    },
    /// Sets the provider id of the Node.
    NameNode {
        /// The Node.
        node: NodeFacts,
        /// The id.
        provider_id: String,
    },
    /// Changes labels of the Node.
    Label {
        /// The Node.
        node: NodeFacts,
        /// A value sets, none removes.
        changes: BTreeMap<String, Option<String>>,
    },
    /// Stores the reuse group on the claim, before it goes.
    Regroup {
        /// The group; none keeps the host for nobody.
        group: Option<String>,
    },
    /// Deletes the claim.
    Release,
    /// Deletes the wish for data.
    ReleaseData,
    /// Lets the machine go.
    Conclude,
    /// Looks again at a time, or when something changes.
    Wait {
        /// When.
        until: Option<Timestamp>,
    },
}

/// Says what the next decision depends on beyond the indexes.
#[must_use]
pub fn questions(s: &Snapshot) -> Questions {
    if !is_ours(s) || s.paused().is_some() {
        return Questions::default();
    }
    if s.machine.deleting {
        let claim = s.own_claim();
        return Questions { reuse: claim.is_some_and(|claim| !claim.deleting) && !s.is_moved(), nodes: false };
    }
    let plan = think(s);
    Questions {
        reuse: s.claim.is_none() && plan.steps.iter().any(|step| matches!(step, Step::Claim { .. })),
        nodes: plan.node.is_some_and(|node| node.reason == LOOKING),
    }
}

/// The reason while Nodes were not looked at, which nobody is told.
const LOOKING: &str = "Looking";

fn is_ours(s: &Snapshot) -> bool {
    let filtered = s.config.watch_filter.as_deref() == s.machine.filter.as_deref();
    s.kind.is_some() && (s.config.watch_filter.is_none() || filtered)
}

/// Thinks about a machine.
#[must_use]
pub fn think(s: &Snapshot) -> Thought {
    if !is_ours(s) {
        return Thought { silent: true, ..Thought::default() };
    }
    let moved = s.machine.deleting && s.is_moved();
    if let Some(why) = s.paused().filter(|_| !moved) {
        return Thought { paused: Some(why), ..Thought::default() }.waiting();
    }
    if s.machine.deleting {
        return leave(s);
    }
    match prepare(s) {
        Ok(()) => settle(s),
        Err((reason, message)) => {
            let mut thought = Thought::default();
            if reason == Reason::InvalidSpec {
                thought.invalid = Some(message.clone());
            }
            // A claim that is there already goes on being told about.
            thought.associated = match s.own_claim() {
                Some(claim) => Some(mirror(claim, ASSOCIATED)),
                None => Says::no(reason, message.clone()),
            };
            if s.own_claim().is_some() {
                thought.synchronized = Says::no(reason, message);
            }
            thought.waiting()
        }
    }
}

/// What must be there before anything is done.
fn prepare(s: &Snapshot) -> Result<(), (Reason, String)> {
    if let Some(problem) = &s.machine.problem {
        return Err((Reason::InvalidSpec, problem.to_string()));
    }
    let spec = &s.machine.spec;
    if let Some(problem) = admit::problem(spec, s.kind.as_deref().unwrap_or_default(), s.namespace()) {
        return Err((Reason::InvalidSpec, problem));
    }
    if s.owner.is_none() {
        return Err((
            Reason::WaitingForMachineOwner,
            "No Machine owns this Metal3Machine yet; it goes on when one refers to it.".to_owned(),
        ));
    }
    let Some(cluster) = &s.cluster else {
        let text = "The Cluster of the machine is not there; create it, or correct its name in the Machine.";
        return Err((Reason::WaitingForCluster, text.to_owned()));
    };
    if !cluster.provisioned {
        let text = "The infrastructure of the Cluster is not ready yet; its own conditions say why.";
        return Err((Reason::WaitingForClusterInfrastructure, text.to_owned()));
    }
    let has_template = spec.data_template.is_some() || !spec.failure_domain_data_templates.is_empty();
    if !reserves(s) && has_template {
        let text = format!(
            "spec.dataTemplate: is rendered from a host that is known before it is deployed, which kind {} has none of",
            s.kind.as_deref().unwrap_or_default()
        );
        return Err((Reason::InvalidSpec, text));
    }
    if !(s.config.reserve_early && reserves(s)) && s.claim.is_none() {
        bootstrap(s)?;
    }
    Ok(())
}

/// Whether a claim can hold a host that nothing runs on yet. Elsewhere a machine is made with what it is to run, so the claim
/// asks for all of it from the start.
fn reserves(s: &Snapshot) -> bool {
    s.kind.as_deref() == Some(BAREMETAL)
}

/// The image; the older version of the kind stores an empty one where none is meant.
fn image(s: &Snapshot) -> Option<HostImage> {
    let image = s.machine.spec.image.as_ref().filter(|image| !image.url.is_empty());
    image.map(|image| image.for_claim())
}

/// The Secret with the user data, once it is there.
fn bootstrap(s: &Snapshot) -> Result<SecretReference, (Reason, String)> {
    let plain = |name: &str| SecretReference { name: Some(name.to_owned()), namespace: None };
    if let Some(name) = s.machine.spec.user_data.as_ref().and_then(|secret| secret.name.as_deref()) {
        return Ok(plain(name));
    }
    let named = s.owner.as_ref().and_then(|owner| owner.data_secret.as_deref());
    let Some(name) = named else {
        let text = "The Machine has no bootstrap data yet; its bootstrap object says why.";
        return Err((Reason::WaitingForBootstrapReady, text.to_owned()));
    };
    if !s.bootstrapped {
        let text = format!("The Secret {name} with the bootstrap data is not there; it is waited for.");
        return Err((Reason::WaitingForBootstrapReady, text));
    }
    Ok(plain(name))
}

/// What a new claim asks for: a place, and where the place alone cannot be held, what runs there.
fn reservation(s: &Snapshot) -> HostClaimSpec {
    let place = place(s);
    if reserves(s) {
        return place;
    }
    let spec = &s.machine.spec;
    HostClaimSpec {
        powered_on: Some(true),
        image: image(s),
        custom_deploy: spec.custom_deploy.clone(),
        user_data: bootstrap(s).ok(),
        meta_data: spec.meta_data.as_ref().map(local),
        network_data: spec.network_data.as_ref().map(local),
        ..place
    }
}

fn place(s: &Snapshot) -> HostClaimSpec {
    let spec = &s.machine.spec;
    let by_owner = s.owner.as_ref().and_then(|owner| owner.failure_domain.as_deref()).map(str::to_owned);
    HostClaimSpec {
        powered_on: Some(false),
        kind: s.kind.clone().unwrap_or_default(),
        args: spec.args.clone(),
        host_selector: spec.host_selector.clone(),
        consumer_ref: Some(ConsumerReference {
            api_version: Some(s.target.kind.api_version()),
            kind: Some(s.target.kind.kind.clone()),
            namespace: Some(s.namespace().to_owned()),
            name: Some(s.key.name().to_owned()),
            ..ConsumerReference::default()
        }),
        failure_domain: by_owner.or_else(|| spec.failure_domain.clone()).filter(|domain| !domain.is_empty()),
        automated_cleaning_mode: spec.automated_cleaning_mode,
        node_reuse: s.reuse.clone().flatten(),
        ..HostClaimSpec::default()
    }
}

/// One condition of the claim, as the machine repeats it.
fn mirror(claim: &ClaimFacts, type_: &str) -> Says {
    let Some(condition) = find(&claim.status.conditions, type_) else {
        let reason = Reason::WaitingForHostClaim.as_str();
        let text = "The claim has not been looked at yet; if it stays so, no controller serves its kind.";
        return Says { state: State::Unknown, reason, message: text.to_owned() };
    };
    let Condition { status, reason, message, .. } = condition;
    let state = [State::True, State::False, State::Unknown].into_iter().find(|state| state.as_str() == status);
    // Kinds that others serve may have words of their own; they are told, though not as a reason.
    let known = api::reasons::all().into_iter().find(|entry| entry.reason == reason).map(|entry| entry.reason);
    let message = if known.is_some() { message.clone() } else { format!("{reason}: {message}") };
    let reason = known.unwrap_or(match state {
        Some(State::True) => claims::Reason::Ready.as_str(),
        _ => claims::Reason::NotReady.as_str(),
    });
    Says { state: state.unwrap_or(State::Unknown), reason, message }
}

/// The way of a machine from nothing to its Node.
fn settle(s: &Snapshot) -> Thought {
    let mut thought = Thought::default();
    let Some((claim, whose)) = s.claimed() else { return claim_anew(s, thought) };
    if whose == Whose::Theirs {
        let text = format!("HostClaim {} belongs to somebody else: delete it, or replace the machine.", s.key.name());
        thought.associated = Says::no(Reason::ClaimNameConflict, text);
        return thought.waiting();
    }
    if !s.machine.has_finalizer() {
        return thought.doing(Step::Secure);
    }
    if claim.deleting {
        thought.associated =
            Says::no(Reason::HostClaimDeleted, "Somebody deletes the claim of the machine; replace the machine.");
        return thought.waiting();
    }
    if whose == Whose::Lost {
        return thought.doing(Step::Adopt);
    }
    if !s.is_noted() {
        return thought.doing(Step::Secure);
    }
    let associated = mirror(claim, ASSOCIATED);
    let is_bound = associated.state == State::True;
    thought.associated = Some(associated);
    if !is_bound {
        let looked_at = find(&claim.status.conditions, ASSOCIATED).is_some();
        return if looked_at { thought.waiting() } else { thought.patiently(s) };
    }
    let wish = match wish(s, claim, &mut thought) {
        Ok(wish) => wish,
        Err(step) => return thought.doing(*step),
    };
    if !is_filled(claim, &wish) {
        return fill(s, wish, thought);
    }
    thought.synchronized = Says::yes(Reason::HostClaimSynchronized, "The claim has what the machine asks for.");
    let provisioned = mirror(claim, PROVISIONED);
    let current = find(&claim.status.conditions, PROVISIONED).and_then(|condition| condition.observed_generation);
    // What the claim says of an earlier wish is no news about this one.
    let is_old = current.is_some_and(|generation| generation < claim.generation) && !s.machine.was_provisioned();
    let is_up = provisioned.state == State::True && !is_old;
    let under_way = is_old || is_under_way(provisioned.reason);
    thought.provisioned = Some(provisioned);
    if !is_up {
        let text = "The claim is not provisioned yet; the condition Provisioned says how far it is.";
        thought.node = Says::no(Reason::WaitingForProvisioning, text);
        return if under_way { thought.patiently(s) } else { thought.waiting() };
    }
    follow(s, claim, thought)
}

/// Whether a claim is not provisioned for no other reason than that it takes its time.
fn is_under_way(reason: &str) -> bool {
    let reasons = [claims::Reason::NotProvisioned.as_str(), claims::Reason::Provisioning.as_str()];
    reasons.contains(&reason) || reason == Reason::WaitingForHostClaim.as_str()
}

fn claim_anew(s: &Snapshot, mut thought: Thought) -> Thought {
    if s.machine.was_provisioned() {
        // Another host would be a second machine of the same name.
        let text = "The claim of the machine is gone, and no second host is started; replace the machine.";
        thought.associated = Says::no(Reason::HostClaimMissing, text);
        return thought.waiting();
    }
    thought.associated = Says::no(Reason::WaitingForHostClaim, "The claim is being made.");
    if !s.is_secured() {
        thought = thought.doing(Step::Secure);
    }
    thought.doing(Step::Claim { spec: Box::new(reservation(s)) })
}

/// What the machine asks of its claim; what is still missing is told, and asked for where that helps.
fn wish(s: &Snapshot, claim: &ClaimFacts, thought: &mut Thought) -> Result<Wish, Box<Step>> {
    let spec = &s.machine.spec;
    let wait = Box::new(Step::Wait { until: None });
    let mut wish = Wish {
        image: image(s),
        custom_deploy: spec.custom_deploy.clone(),
        meta_data: spec.meta_data.as_ref().map(local),
        network_data: spec.network_data.as_ref().map(local),
        ..Wish::default()
    };
    if let Some(template) = s.template(claim) {
        let waiting = |text: &str| Says::no(Reason::WaitingForMetal3Data, text);
        let failed = |text: &str| Says::no(Reason::AssociateM3MetaDataFailed, text);
        let Some(asked) = &s.data_claim else {
            thought.data = waiting("The data is being asked for.");
            return Err(Box::new(Step::AskData { template: template.clone() }));
        };
        let Some(asked_by_us) = s.own_data_claim() else {
            let text = format!(
                "Metal3DataClaim {} belongs to somebody else: delete it, or replace the machine.",
                s.key.name()
            );
            thought.data = Says::no(Reason::ClaimNameConflict, text);
            return Err(wait);
        };
        match (&s.data, asked.rendered.is_some()) {
            (Some(data), true) if data.ready && !data.deleting => {
                thought.data = Says::yes(Reason::SecretsSet, "The data is rendered.");
                wish.meta_data = wish.meta_data.or_else(|| data.meta_data.as_ref().map(local));
                wish.network_data = wish.network_data.or_else(|| data.network_data.as_ref().map(local));
            }
            (Some(data), true) if data.error.is_some() => {
                thought.data = failed(data.error.as_deref().unwrap_or_default());
                return Err(wait);
            }
            _ => {
                let Some(error) = &asked_by_us.error else {
                    thought.data = waiting("The data is not rendered yet; its Metal3Data says how far it is.");
                    thought.untold = s.moment();
                    return Err(Box::new(Step::Wait { until: thought.untold }));
                };
                thought.data = failed(error);
                return Err(wait);
            }
        }
    }
    match bootstrap(s) {
        Ok(secret) => wish.user_data = Some(secret),
        // What was given to the claim once stays, even when the Secret is gone.
        Err(_) if claim.spec.user_data.is_some() => wish.user_data = claim.spec.user_data.clone(),
        Err((reason, message)) => {
            thought.synchronized = Says::no(reason, message);
            return Err(wait);
        }
    }
    Ok(wish)
}

/// The Secret of the same name, wherever it says it is: it is always read where the claim is.
fn local(secret: &SecretReference) -> SecretReference {
    SecretReference { name: secret.name.clone(), namespace: None }
}

/// Whether the claim has all of it. What the machine says nothing about is the tenant's: credentials of an image, say.
fn is_filled(claim: &ClaimFacts, wish: &Wish) -> bool {
    let spec = &claim.spec;
    let same = |there: &Option<SecretReference>, wanted: &Option<SecretReference>| {
        let name = |secret: &Option<SecretReference>| secret.as_ref().and_then(|secret| secret.name.clone());
        wanted.is_none() || name(there) == name(wanted)
    };
    let image = wish.image.as_ref().is_none_or(|wanted| spec.image.as_ref().is_some_and(|i| i.deploys_same(wanted)));
    spec.wants_power()
        && image
        && (wish.custom_deploy.is_none() || spec.custom_deploy == wish.custom_deploy)
        && same(&spec.user_data, &wish.user_data)
        && same(&spec.meta_data, &wish.meta_data)
        && same(&spec.network_data, &wish.network_data)
}

fn fill(s: &Snapshot, wish: Wish, mut thought: Thought) -> Thought {
    let at = s.claim.as_ref().map(|(_, version)| version);
    let refused = s.refused.as_ref().filter(|refused| Some(&refused.at) == at && refused.wish == wish);
    if let Some(refused) = refused {
        let text = format!(
            "Somebody else changed the claim; set it back, or replace the machine: {}",
            refused.lines.join("; ")
        );
        thought.synchronized = Says::no(Reason::HostClaimChanged, text);
        // What runs goes on running, and is told about.
        if let Some(claim) = s.own_claim() {
            thought.provisioned = Some(mirror(claim, PROVISIONED));
        }
        return thought.waiting();
    }
    thought.doing(Step::Fill { wish: Box::new(wish) })
}

/// How the Node of the machine is known.
#[must_use]
pub fn wanted(s: &Snapshot, claim: &ClaimFacts) -> node::Wanted {
    let names = claim.status.addresses.iter().filter(|address| ["Hostname", "InternalDNS"].contains(&&*address.type_));
    node::Wanted {
        provider_id: s.provider_id(claim),
        external: s.place.as_ref().is_some_and(|place| place.spec.cloud_provider_enabled == Some(true)),
        host_uid: claim.status.host_uid.clone(),
        names: names.map(|address| address.address.clone()).collect(),
    }
}

/// The last part of the way: provider id, Node, labels.
fn follow(s: &Snapshot, claim: &ClaimFacts, mut thought: Thought) -> Thought {
    let provider_id = s.provider_id(claim);
    match s.machine.spec.provider_id.as_deref() {
        None | Some("") => return thought.doing(Step::Publish { provider_id }),
        Some(known) if known != provider_id => {
            let text = format!("Replace the machine: it is known as {known}, and its claim gives {provider_id}.");
            thought.node = Says::no(Reason::ProviderIDMismatch, text);
            return thought.waiting();
        }
        Some(_) => {}
    }
    let again = Step::Wait { until: s.now.saturating_add(s.patience).ok() };
    let nodes = match &s.nodes {
        Sight::NotAsked => {
            thought.node = Some(Says { state: State::Unknown, reason: LOOKING, message: String::new() });
            return thought.doing(again);
        }
        Sight::Dark(why) => {
            thought.node = Says::no(Reason::ClusterUnreachable, why.clone());
            return thought.doing(again);
        }
        Sight::Seen(nodes) => nodes,
    };
    let wanted = wanted(s, claim);
    let node = match node::find(nodes, &wanted) {
        Found::Settled(node) => node,
        Found::Unnamed(node) => return thought.doing(Step::NameNode { node, provider_id }),
        Found::None => {
            let text = match wanted.external {
                false => "The workload cluster has no Node of this machine yet; it is looked for again.".to_owned(),
                true => format!("A cloud provider in the cluster must set {provider_id}, and no Node carries it yet."),
            };
            thought.node = Says::no(Reason::NodeNotFound, text);
            return thought.doing(again);
        }
        Found::Many(names) => {
            let text = format!("Remove Nodes, or what makes them fit, until one is left: {}.", names.join(", "));
            thought.node = Says::no(Reason::NodeAmbiguous, text);
            return thought.doing(again);
        }
        Found::Taken(node) => {
            let theirs = node.provider_id.unwrap_or_default();
            let text =
                format!("Delete Node {}, to register anew: it has {theirs} instead of {provider_id}.", node.name);
            thought.node = Says::no(Reason::NodeTaken, text);
            return thought.doing(again);
        }
    };
    let domains = s.cluster.as_ref().and_then(|cluster| cluster.label_prefixes.as_deref());
    let domains = domains.map(node::prefixes).unwrap_or_default();
    let host = claim.status.host_metadata.clone().unwrap_or_default().labels;
    let changes = node::relabel(&domains, &host, &node.labels);
    thought.node = Says::yes(Reason::NodeReady, format!("The Node {} is this machine.", node.name));
    thought.done = true;
    if !changes.is_empty() {
        return thought.doing(Step::Label { node, changes });
    }
    thought
}

/// The way out: the host first, what it was told last, because addresses must not be given away while it still runs.
fn leave(s: &Snapshot) -> Thought {
    let mut thought = Thought::default();
    if !s.machine.has_finalizer() {
        return thought;
    }
    if s.is_moved() {
        return thought.doing(Step::Conclude);
    }
    if let Some(claim) = s.own_claim() {
        thought.associated = Some(mirror(claim, ASSOCIATED));
        thought.leaving = Some("The claim is being given back.".to_owned());
        if claim.deleting {
            return thought.waiting();
        }
        if let Some(group) = s.reuse.as_ref().filter(|group| **group != claim.spec.node_reuse) {
            return thought.doing(Step::Regroup { group: group.clone() });
        }
        return thought.doing(Step::Release);
    }
    if let Some(wish) = s.own_data_claim() {
        thought.leaving = Some("The data of the machine is being given back.".to_owned());
        return if wish.deleting { thought.waiting() } else { thought.doing(Step::ReleaseData) };
    }
    thought.doing(Step::Conclude)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
