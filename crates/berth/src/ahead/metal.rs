//! Machines on claims: which claim would be made for one, and what would become of that.

use std::sync::Arc;

use ::claims::explain::{Lists, Sight};
use ::machines::config::Config;
use ::machines::facts::{ClaimFacts, ClusterFacts, Clusters, MachineFacts, OwnerFacts, Owners};
use ::machines::machine::decide::{Step, think};
use ::machines::machine::snapshot::{Snapshot, Whose};
use ::machines::mode::claim_kind;
use ::machines::node::Sight as Nodes;
use api::key::ObjectKey;
use api::names::CLUSTER_NAME_LABEL;
use api::own::{BAREMETAL, HostClaimSpec};
use api::raw::{HostClaim, Metal3Machine};
use api::views::{Cluster, Machine};
use k8s_openapi::jiff::Timestamp;
use kit::explain::{Explanation, Fact, Level, Need, Next, Object};
use kit::feed::{Project as _, Version};
use kit::kinds::Kind;
use kit::write::Target;
use serde_json::json;

use super::files::{Files, born};
use super::owners::{adopt, labelled, owner_of};
use super::{AheadOptions, REFUSED, seen};
use crate::look::Reader;

/// Who looks after these machines.
const ROOM: &str = "machines";

/// What would be done for one machine.
pub struct Planned {
    key: ObjectKey,
    facts: Vec<Fact>,
    outcome: Outcome,
    /// What has to be there first.
    first: Option<Need>,
}

enum Outcome {
    /// Nothing, and why.
    Told(Level, String),
    /// This claim would be made, of this kind.
    New(String, Box<HostClaim>),
    /// It has its claim, of this kind.
    Kept(String),
}

/// What the files and the server say of machines on claims, claims aside.
struct Seen {
    owners: Vec<Machine>,
    clusters: Vec<Cluster>,
    config: Arc<Config>,
    now: Timestamp,
}

/// Thinks about the machines of files, and lays the claims that would be made beside the others.
pub async fn plan(
    reader: &Reader<'_>,
    files: &mut Files,
    options: &AheadOptions,
    (claims, unseen): (&mut Lists, &mut Vec<String>),
    now: Timestamp,
) -> anyhow::Result<Vec<Planned>> {
    let mut machines: Vec<Metal3Machine> = Vec::new();
    let keys = files.lay(reader, &mut machines, unseen).await?;
    let mut owners = seen(reader.read().await?, unseen);
    files.lay(reader, &mut owners, unseen).await?;
    let config = Config {
        watch_filter: options.operator.watch_filter.value(),
        default_host_kind: options.operator.mode.default_host_kind.clone(),
        ..Config::default()
    };
    let world = Seen { owners: labelled(owners), clusters: claims.clusters.clone(), config: Arc::new(config), now };
    let mut planned = Vec::new();
    for machine in machines.into_iter().filter(|machine| keys.contains(&ObjectKey::of(machine))) {
        let one = world.think(machine, &claims.claims);
        if let Outcome::New(_, claim) = &one.outcome {
            claims.claims.push((**claim).clone());
        }
        planned.push(one);
    }
    Ok(planned)
}

impl Seen {
    fn think(&self, mut machine: Metal3Machine, claims: &[HostClaim]) -> Planned {
        let key = ObjectKey::of(&machine);
        let owner = owner_of(&self.owners, "Metal3Machine", &key);
        if let Some(owner) = owner {
            adopt(owner, &mut machine.metadata);
        }
        let version = Version::of(&machine);
        let machine = Arc::new(MachineFacts::of(machine));
        let default = self.config.default_host_kind.as_deref();
        let kind = claim_kind(machine.spec.kind.as_deref(), &machine.annotations, default).map(str::to_owned);
        let owner = owner.map(|owner| Owners::slim(owner.clone()));
        let cluster = owner.as_ref().and_then(|owner| owner.cluster.clone()).or_else(|| machine.cluster.clone());
        let named = |there: &&Cluster| {
            there.metadata.namespace.as_deref() == key.namespace()
                && there.metadata.name.as_deref() == cluster.as_deref()
        };
        let known = self.clusters.iter().find(named).map(|cluster| Clusters::slim(cluster.clone()));
        let fact = |name, value: &str| Fact { name, value: value.to_owned() };
        let mut facts: Vec<Fact> = kind.iter().map(|kind| fact("kind", kind)).collect();
        facts.extend(cluster.as_deref().map(|name| fact("cluster", name)));
        facts.extend(machine.owner.as_deref().map(|name| fact("machine", name)));
        let claim = claims.iter().find(|claim| ObjectKey::of(*claim) == key);
        let snapshot = Snapshot {
            target: Target { kind: Kind::of::<Metal3Machine>(), key: key.clone(), uid: machine.uid.clone() },
            key: key.clone(),
            now: self.now,
            config: Arc::clone(&self.config),
            machine,
            version,
            kind: kind.clone(),
            // Cluster API names the Secret as soon as it is there.
            bootstrapped: owner.as_ref().is_some_and(|owner| owner.data_secret.is_some()),
            owner: owner.map(Arc::new),
            cluster: known.map(Arc::new),
            place: None,
            claim: claim.map(|claim| (Arc::new(ClaimFacts::of(claim.clone())), Version::of(claim))),
            data_claim: None,
            data: None,
            reuse: Some(None),
            nodes: Nodes::NotAsked,
            patience: ::machines::node::POLL,
            refused: None,
            asked: None,
        };
        let (outcome, first) = self.judge(snapshot, kind);
        Planned { key, facts, outcome, first }
    }

    fn judge(&self, snapshot: Snapshot, kind: Option<String>) -> (Outcome, Option<Need>) {
        let told = |level, why: String| (Outcome::Told(level, why), None);
        let Some(kind) = kind else {
            return told(
                Level::Aside,
                "no claim would be made: it takes its host directly, and is left to the provider for Metal3".to_owned(),
            );
        };
        let thought = think(&snapshot);
        if thought.silent {
            return told(Level::Aside, "no claim would be made: the watch filter does not take it in".to_owned());
        }
        if let Some(why) = thought.paused {
            return told(Level::Aside, format!("no claim would be made while it is paused: {why}"));
        }
        if let Some(problem) = thought.invalid {
            return told(Level::Problem, format!("it {REFUSED}{problem}"));
        }
        match snapshot.claimed() {
            Some((_, Whose::Theirs)) => {
                let why = thought.associated.map(|says| says.message).unwrap_or_default();
                return told(Level::Problem, format!("no claim would be made: {why}"));
            }
            Some(_) => return (Outcome::Kept(kind), None),
            None => {}
        }
        // What it waits for is told, and what follows once that is there.
        let waits = thought.associated.filter(|_| !thought.steps.iter().any(|step| matches!(step, Step::Claim { .. })));
        let first = waits.map(|says| Need {
            name: "before the claim is made".to_owned(),
            level: Level::Waiting,
            reason: Some(says.reason),
            sentence: says.message,
            required: true,
            ..Need::default()
        });
        let thought = think(&ready(&snapshot));
        let spec = thought.steps.into_iter().find_map(|step| match step {
            Step::Claim { spec } => Some(spec),
            _ => None,
        });
        let claim = spec.and_then(|spec| self.claim(&snapshot, &spec));
        let why = || thought.invalid.or(thought.associated.map(|says| says.message)).unwrap_or_default();
        match claim {
            Some(claim) => (Outcome::New(kind, Box::new(claim)), first),
            None => (Outcome::Told(Level::Problem, format!("no claim would be made: {}", why())), first),
        }
    }

    /// The claim of a machine, as it would be a moment after it was made.
    fn claim(&self, s: &Snapshot, spec: &HostClaimSpec) -> Option<HostClaim> {
        let labels = s.cluster_name().map(|name| json!({CLUSTER_NAME_LABEL: name})).unwrap_or_else(|| json!({}));
        let claim = json!({"metadata": {"name": s.key.name(), "labels": labels}, "spec": spec});
        serde_json::from_value(born(claim, s.key.namespace(), self.now)).ok()
    }
}

/// The same once everything is there that a machine waits for before its claim is made.
fn ready(snapshot: &Snapshot) -> Snapshot {
    let owner = snapshot.owner.as_deref().cloned().unwrap_or_default();
    let secret = owner.data_secret.clone().unwrap_or_else(|| snapshot.key.name().into());
    let cluster = snapshot.cluster.as_deref().cloned().unwrap_or_default();
    Snapshot {
        owner: Some(Arc::new(OwnerFacts { data_secret: Some(secret), ..owner })),
        cluster: Some(Arc::new(ClusterFacts { provisioned: true, ..cluster })),
        bootstrapped: true,
        ..snapshot.clone()
    }
}

impl Planned {
    /// What is told of it, with what is told of its claim.
    pub fn told(self, sight: &mut Sight, now: Timestamp) -> Explanation {
        let Self { key, mut facts, outcome, first } = self;
        let next = |what: String| Next { by: ROOM, what };
        let mut told = Explanation {
            object: Object::new("Metal3Machine", &key),
            level: Level::Waiting,
            summary: String::new(),
            facts: Vec::new(),
            needs: Vec::new(),
            next: Vec::new(),
            fixes: Vec::new(),
            unseen: Vec::new(),
        };
        let (kind, new) = match outcome {
            Outcome::Told(level, summary) => {
                return Explanation { level, summary, facts, needs: first.into_iter().collect(), ..told };
            }
            Outcome::New(kind, _) => (kind, true),
            Outcome::Kept(kind) => (kind, false),
        };
        facts.push(Fact { name: "claim", value: key.to_string() });
        told.facts = facts;
        told.summary = match new {
            true => format!("the HostClaim {key} of kind {kind} would be made"),
            false => format!("it has the HostClaim {key} of kind {kind}, and no other would be made"),
        };
        told.needs.extend(first);
        if new {
            told.next.push(next(format!("makes the HostClaim {key} of kind {kind}")));
        }
        // What hosts there are decides about claims on hosts alone.
        if new && kind != BAREMETAL {
            let what = "what a claim of this kind gets shows where it is made, which was not asked";
            told.unseen.push(what.to_owned());
            return told;
        }
        if let Some(claim) = ::claims::explain::explain(sight, &key, now) {
            told.level = claim.level;
            told.summary += &format!(": {}", claim.summary);
            let of_claim = |need: Need| Need { name: format!("{} of the claim", need.name), ..need };
            told.needs.extend(claim.needs.into_iter().map(of_claim));
            told.next.extend(claim.next);
            told.fixes.extend(claim.fixes);
            told.unseen.extend(claim.unseen);
        }
        told
    }
}
