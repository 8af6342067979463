//! What is told of machines on claims. It rests on what was read once: their conditions, and the claims' own explanations.

use std::collections::{BTreeMap, BTreeSet};

use ::capacity::names::{CPU, GPU_COUNT, MEMORY};
use ::claims::explain::Sight;
use ::machines::mode::claim_kind;
use api::key::ObjectKey;
use api::names::machines::BARE_METAL_HOST_ANNOTATION;
use api::names::{CLUSTER_NAME_LABEL, PAUSED_ANNOTATION};
use api::own::metal3::{Metal3Machine, Metal3MachineStatus};
use api::reasons::machines::{ASSOCIATE_BARE_METAL_HOST, KUBERNETES_NODE_READY, METAL3_DATA_READY, Reason};
use api::reasons::{PAUSED, READY, SYNCHRONIZED};
use api::status::find;
use api::views::{INFRASTRUCTURE_GROUP, Machine, MachineDeployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kit::explain::{Explanation, Fact, Fix, Level, Need, Next, Node, Object, quoted};
use kube::ResourceExt as _;

use super::super::claims::continued;
use crate::look::Metal;

/// Who looks after these machines.
const ROOM: &str = "machines";

/// Label of a Machine: the MachineDeployment it belongs to.
const DEPLOYMENT_LABEL: &str = "cluster.x-k8s.io/deployment-name";

/// Reasons that go away by themselves.
const PASSING: [Reason; 10] = [
    Reason::Deleting,
    Reason::WaitingForMachineOwner,
    Reason::WaitingForCluster,
    Reason::WaitingForClusterInfrastructure,
    Reason::WaitingForBootstrapReady,
    Reason::WaitingForHostClaim,
    Reason::WaitingForMetal3Data,
    Reason::WaitingForProvisioning,
    Reason::NodeNotFound,
    Reason::ClusterUnreachable,
];

/// Everything that was read, and how claims are judged by it.
pub struct World {
    /// What was read.
    pub seen: Metal,
    /// The claims; none where there are no claims.
    pub sight: Option<Sight>,
    /// The kind of machines that name none.
    pub default_kind: Option<String>,
    /// When.
    pub now: Timestamp,
}

/// One machine and what stands around it.
struct Told {
    key: ObjectKey,
    machine: Metal3Machine,
    status: Metal3MachineStatus,
    owner: Option<Machine>,
    /// Of which kind its claim is; none where it takes a host directly.
    kind: Option<String>,
    claim: Option<(Explanation, Node)>,
}

/// Where in what was read each machine and its Machine are, for who asks about many.
struct Index {
    machines: BTreeMap<ObjectKey, usize>,
    /// By the Metal3Machine that each Machine is made of.
    owners: BTreeMap<ObjectKey, usize>,
}

impl Index {
    fn of(seen: &Metal) -> Self {
        // The first of several counts, hence from the last on.
        let machines = seen.machines.iter().enumerate().rev().map(|(at, machine)| (key_of(machine), at));
        let owners = seen.owners.iter().enumerate().rev().filter_map(|(at, owner)| Some((made_of(owner)?, at)));
        Self { machines: machines.collect(), owners: owners.collect() }
    }
}

impl World {
    /// What is told of a machine; with `hosts` also of every host that its claim might have.
    fn told(&mut self, key: &ObjectKey, hosts: bool) -> Option<Told> {
        let machine = self.seen.machines.iter().find(|machine| key_of(*machine) == *key)?.clone();
        let owner = self.seen.owners.iter().find(|owner| made_of(owner).as_ref() == Some(key)).cloned();
        Some(self.told_of(key, machine, owner, hosts))
    }

    /// The same of one of many, without its hosts.
    fn drawn(&mut self, index: &Index, key: &ObjectKey) -> Option<Node> {
        let machine = self.seen.machines.get(*index.machines.get(key)?)?.clone();
        let owner = index.owners.get(key).and_then(|at| self.seen.owners.get(*at)).cloned();
        Some(self.told_of(key, machine, owner, false).drawn())
    }

    fn told_of(&mut self, key: &ObjectKey, machine: Metal3Machine, owner: Option<Machine>, hosts: bool) -> Told {
        let kind = claim_kind(machine.spec.kind.as_deref(), machine.annotations(), self.default_kind.as_deref());
        let kind = kind.map(str::to_owned);
        let now = self.now;
        let status = machine.status.clone().unwrap_or_default();
        // A claim of this name that is somebody else's is none of this machine's.
        let foreign = find(&status.conditions, ASSOCIATE_BARE_METAL_HOST)
            .is_some_and(|condition| condition.reason == Reason::ClaimNameConflict.as_str());
        let claim = self.sight.as_mut().filter(|_| kind.is_some() && !foreign).and_then(|sight| {
            let (brief, drawn) = ::claims::explain::outline(sight, key, now)?;
            let whole = hosts.then(|| ::claims::explain::explain(sight, key, now)).flatten();
            Some((whole.map_or(brief, continued), drawn))
        });
        Told { key: key.clone(), machine, status, owner, kind, claim }
    }
}

fn key_of(object: &impl kube::ResourceExt) -> ObjectKey {
    ObjectKey::namespaced(object.namespace().unwrap_or_default(), object.name_any())
}

/// The Metal3Machine that a Machine is made of.
fn made_of(owner: &Machine) -> Option<ObjectKey> {
    let to = owner.spec.infrastructure_ref.as_ref()?;
    let metal = is_metal(&to.group, &to.kind, "Metal3Machine");
    metal.then(|| ObjectKey::namespaced(owner.namespace().unwrap_or_default(), to.name.as_str()))
}

fn is_metal(group: &str, kind: &str, wanted: &str) -> bool {
    group == INFRASTRUCTURE_GROUP && kind == wanted
}

/// A reason as this build knows it, of whichever room; one of another build is told in the sentence alone.
fn known(reason: &str) -> Option<&'static str> {
    api::reasons::all().into_iter().map(|entry| entry.reason).find(|known| *known == reason)
}

fn level(condition: &Condition) -> Level {
    match condition.status.as_str() {
        "True" => Level::Ok,
        "False" if PASSING.iter().any(|reason| reason.as_str() == condition.reason) => Level::Waiting,
        "False" => Level::Problem,
        _ => Level::Unknown,
    }
}

impl Told {
    fn condition(&self, type_: &str) -> Option<&Condition> {
        find(&self.status.conditions, type_)
    }

    fn reason(&self, type_: &str) -> Option<&str> {
        self.condition(type_).filter(|condition| condition.status != "True").map(|condition| condition.reason.as_str())
    }

    fn is_paused(&self) -> bool {
        self.condition(PAUSED).is_some_and(|condition| condition.status == "True")
            || self.machine.annotations().contains_key(PAUSED_ANNOTATION)
    }

    fn namespace(&self) -> &str {
        self.key.namespace().unwrap_or_default()
    }

    fn need(&self, name: &str, type_: &str) -> Option<Need> {
        let condition = self.condition(type_)?;
        Some(Need {
            name: name.to_owned(),
            level: level(condition),
            reason: known(&condition.reason),
            sentence: condition.message.clone(),
            required: true,
            ..Need::default()
        })
    }

    fn needs(&self) -> Vec<Need> {
        let mut needs = Vec::new();
        match &self.claim {
            // The claim tells more than the condition that repeats it.
            Some((claim, _)) => needs.extend(claim.needs.iter().cloned().map(|need| {
                let name = format!("{} of the claim", need.name);
                Need { name, ..need }
            })),
            None => needs.push(self.need("claim", ASSOCIATE_BARE_METAL_HOST).unwrap_or_else(|| Need {
                name: "claim".to_owned(),
                level: Level::Waiting,
                sentence: "no claim was made yet".to_owned(),
                required: true,
                ..Need::default()
            })),
        }
        needs.extend(self.need("data", METAL3_DATA_READY));
        // What the claim itself says is told above; here is only what keeps the machine from telling the claim.
        let own =
            [Reason::HostClaimChanged, Reason::HostClaimRefused, Reason::HostClaimDeleted, Reason::HostClaimMissing];
        let told = self.need("what the claim is told", SYNCHRONIZED);
        needs.extend(told.filter(|need| own.iter().any(|reason| Some(reason.as_str()) == need.reason)));
        needs.extend(self.need("node", KUBERNETES_NODE_READY));
        needs
    }

    fn verdict(&self, needs: &[Need]) -> (Level, String) {
        let Some(kind) = &self.kind else {
            let host = self.machine.annotations().get(BARE_METAL_HOST_ANNOTATION);
            let host = host.map(|host| format!(" {host}")).unwrap_or_default();
            return (Level::Aside, format!("it takes its host{host} directly: it is left to the provider for Metal3"));
        };
        if self.is_paused() {
            return (Level::Aside, "nothing is done: the machine or its Cluster is paused".to_owned());
        }
        if self.machine.metadata.deletion_timestamp.is_some() {
            let why = self.condition(READY).map(|ready| format!(": {}", ready.message)).unwrap_or_default();
            return (Level::Waiting, format!("it is being deleted{why}"));
        }
        if let Some(ready) = self.condition(READY).filter(|ready| ready.reason == Reason::InvalidSpec.as_str()) {
            return (Level::Problem, ready.message.clone());
        }
        for wanted in [Level::Problem, Level::Waiting, Level::Unknown, Level::Aside] {
            if let Some(need) = needs.iter().find(|need| need.required && need.level == wanted) {
                return (wanted, need.sentence.clone());
            }
        }
        match self.condition(READY) {
            Some(ready) if ready.status == "True" => {
                let node = self.node().map(|node| format!(" as the node {node}")).unwrap_or_default();
                (Level::Ok, format!("it runs on {kind}{node}"))
            }
            Some(ready) => (level(ready), ready.message.clone()),
            None => (Level::Waiting, "nothing was done for it yet".to_owned()),
        }
    }

    fn node(&self) -> Option<&str> {
        self.owner.as_ref().and_then(|owner| owner.status.node_name.as_deref())
    }

    fn facts(&self, level: Level) -> Vec<Fact> {
        let owner = self.owner.as_ref();
        let machine = owner.map(|owner| {
            let phase = owner.status.phase.as_deref().map(|phase| format!(", {phase}")).unwrap_or_default();
            format!("{}{phase}", owner.name_any())
        });
        let all = [
            ("kind", self.kind.clone()),
            ("cluster", self.machine.labels().get(CLUSTER_NAME_LABEL).cloned()),
            ("machine", machine),
            ("claim", self.claim.as_ref().map(|(claim, _)| claim.object.path())),
            ("provider id", self.machine.spec.provider_id.clone()),
            ("failure domain", self.status.failure_domain.clone()),
            ("node", self.node().map(str::to_owned)),
            ("because", self.causes(level)),
        ];
        let held = all.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
        held.map(|(name, value)| Fact { name, value }).collect()
    }

    /// From what a user waits for down to the root.
    fn causes(&self, level: Level) -> Option<String> {
        if matches!(level, Level::Ok | Level::Aside) {
            return None;
        }
        let mut chain = Vec::new();
        if let Some(owner) = &self.owner {
            let phase = owner.status.phase.as_deref().unwrap_or("not looked at");
            chain.push(format!("Machine {} is {phase}", owner.name_any()));
        }
        let order = [
            ASSOCIATE_BARE_METAL_HOST,
            METAL3_DATA_READY,
            SYNCHRONIZED,
            api::reasons::PROVISIONED,
            KUBERNETES_NODE_READY,
        ];
        let failing = order.into_iter().filter_map(|type_| self.condition(type_)).find(|found| found.status != "True");
        if let Some(failing) = failing {
            chain.push(format!("{} of Metal3Machine {} is not true", failing.type_, self.key.name()));
        }
        let claim = self.claim.as_ref().filter(|(claim, _)| !matches!(claim.level, Level::Ok | Level::Aside));
        match claim {
            Some((claim, _)) => {
                chain.push(format!("HostClaim {} is not ready", claim.object.name));
                let because = claim.facts.iter().find(|fact| fact.name == "because");
                // It begins with the claim's readiness, which is said.
                let tail = because.map(|fact| fact.value.split(" ← ").skip(1).collect::<Vec<_>>().join(" ← "));
                chain.extend(tail.filter(|tail| !tail.is_empty()));
            }
            None => chain.extend(failing.map(|failing| failing.reason.clone())),
        }
        (chain.len() > 1).then(|| chain.join(" ← "))
    }

    fn next(&self, level: Level) -> Vec<Next> {
        if self.kind.is_none() || matches!(level, Level::Ok | Level::Aside) {
            return Vec::new();
        }
        let next = |what: &str| Next { by: ROOM, what: what.to_owned() };
        if self.machine.metadata.deletion_timestamp.is_some() {
            let own = next("delete the claim, and let the machine go when the claim is gone");
            let claim = self.claim.iter().flat_map(|(claim, _)| claim.next.clone());
            return std::iter::once(own).chain(claim).collect();
        }
        let Some((claim, _)) = &self.claim else {
            return match self.reason(ASSOCIATE_BARE_METAL_HOST) {
                Some(reason) if reason == Reason::ClaimNameConflict.as_str() => Vec::new(),
                Some(reason) if reason == Reason::HostClaimMissing.as_str() => Vec::new(),
                _ => vec![next("make the claim as soon as what the machine waits for is there")],
            };
        };
        let mut all = claim.next.clone();
        if claim.level == Level::Ok {
            all.push(match self.reason(KUBERNETES_NODE_READY) {
                Some(_) => next("look for the node again, every 30 s until it is there"),
                None => next("give the claim what the machine is to run, and wait until it does"),
            });
        }
        all
    }

    fn fixes(&self) -> Vec<Fix> {
        let (namespace, name) = (quoted(self.namespace()), quoted(self.key.name()));
        let Some(_) = &self.kind else {
            return vec![Fix::say("to run it on a claim, make new machines from a template that says `kind`")];
        };
        if self.is_paused() {
            return vec![match self.machine.annotations().contains_key(PAUSED_ANNOTATION) {
                true => Fix::run(
                    "go on with the machine",
                    format!("kubectl annotate metal3machine -n {namespace} {name} {PAUSED_ANNOTATION}-"),
                ),
                false => Fix::say("let whoever paused the Cluster take it back"),
            }];
        }
        let types = [READY, ASSOCIATE_BARE_METAL_HOST, METAL3_DATA_READY, SYNCHRONIZED, KUBERNETES_NODE_READY];
        let mut reasons: Vec<&str> = types.iter().filter_map(|type_| self.reason(type_)).collect();
        reasons.dedup();
        let is = |reason: Reason| reasons.contains(&reason.as_str());
        let mut fixes = Vec::new();
        if is(Reason::ClaimNameConflict) {
            fixes.push(Fix::run(
                "see whose claim it is, and rename or remove it; it is never taken over",
                format!("kubectl get hostclaim -n {namespace} {name} -o yaml"),
            ));
        }
        if is(Reason::HostClaimMissing) || is(Reason::HostClaimDeleted) {
            let machine = self.owner.as_ref().map_or_else(|| "MACHINE".to_owned(), |owner| quoted(&owner.name_any()));
            fixes.push(Fix::run(
                "delete the Machine: whoever owns it makes another",
                format!("kubectl delete machines.cluster.x-k8s.io -n {namespace} {machine}"),
            ));
        }
        if is(Reason::HostClaimChanged) {
            fixes.push(Fix::run(
                "take back what was changed on the claim; who did it stands in its managed fields",
                format!("kubectl get hostclaim -n {namespace} {name} -o yaml --show-managed-fields"),
            ));
        }
        if is(Reason::InvalidSpec) || is(Reason::HostClaimRefused) {
            fixes.push(Fix::say("correct the template and roll the machines: the spec of a machine does not change"));
        }
        if is(Reason::AssociateM3MetaDataFailed) || is(Reason::WaitingForMetal3Data) {
            fixes.push(Fix::run(
                "see what the data template waits for",
                format!("kubectl describe metal3dataclaim -n {namespace} {name}"),
            ));
        }
        if is(Reason::WaitingForBootstrapReady) {
            let bootstrap = self.owner.as_ref().and_then(|owner| owner.spec.bootstrap_ref.clone());
            fixes.push(match bootstrap {
                Some(to) => {
                    let (kind, name) = (quoted(&to.kind.to_lowercase()), quoted(&to.name));
                    let command = format!("kubectl describe {kind} -n {namespace} {name}");
                    Fix::run("see what the bootstrap data waits for", command)
                }
                None => Fix::say("give the Machine bootstrap data: it names none"),
            });
        }
        if is(Reason::WaitingForClusterInfrastructure) {
            let command = format!("kubectl get metal3clusters -n {namespace}");
            fixes.push(Fix::run("see what the infrastructure of the Cluster waits for", command));
        }
        if is(Reason::ClusterUnreachable) {
            fixes.push(Fix::say("see that the control plane of the cluster answers, and its kubeconfig is there"));
        }
        if is(Reason::NodeAmbiguous) || is(Reason::NodeTaken) || is(Reason::ProviderIDMismatch) {
            fixes.push(Fix::say("correct the provider ids of the nodes that the message names"));
        }
        fixes.extend(self.claim.iter().flat_map(|(claim, _)| claim.fixes.clone()));
        fixes
    }

    /// The machine, its claim, and what the claim has.
    fn drawn(&self) -> Node {
        let (level, summary) = self.verdict(&self.needs());
        let children = self.claim.iter().map(|(_, claim)| claim.clone()).collect();
        Node::new(Object::new("Metal3Machine", &self.key), level, summary).with(children)
    }
}

/// Explains a machine; `None` when it was not read.
pub fn explanation(world: &mut World, key: &ObjectKey) -> Option<Explanation> {
    let told = world.told(key, true)?;
    let needs = if told.kind.is_some() { told.needs() } else { Vec::new() };
    let (level, summary) = told.verdict(&needs);
    let mut unseen = world.seen.unseen.clone();
    unseen.extend(told.claim.iter().flat_map(|(claim, _)| claim.unseen.clone()));
    unseen.dedup();
    Some(Explanation {
        object: Object::new("Metal3Machine", key),
        level,
        summary,
        facts: told.facts(level),
        next: told.next(level),
        fixes: told.fixes(),
        needs,
        unseen,
    })
}

/// Draws a machine; `None` when it was not read.
pub fn tree(world: &mut World, key: &ObjectKey) -> Option<Node> {
    Some(world.told(key, false)?.drawn())
}

/// Draws the machines of a cluster, by the groups they belong to.
pub fn cluster(world: &mut World, namespace: &str, name: &str) -> Vec<Node> {
    let metal = |owner: &&Machine| made_of(owner).is_some() && owner.spec.cluster_name.as_deref() == Some(name);
    let mut owners: Vec<Machine> = world.seen.owners.iter().filter(metal).cloned().collect();
    owners.sort_by_key(key_of);
    let of_metal = |group: &&MachineDeployment| {
        let to = group.spec.template.spec.infrastructure_ref.as_ref();
        to.is_some_and(|to| is_metal(&to.group, &to.kind, "Metal3MachineTemplate"))
            && group.spec.cluster_name.as_deref() == Some(name)
    };
    let mut groups: Vec<MachineDeployment> = world.seen.groups.iter().filter(of_metal).cloned().collect();
    groups.sort_by_key(key_of);
    let (mut nodes, mut drawn, index) = (Vec::new(), BTreeSet::new(), Index::of(&world.seen));
    for (kind, plane) in planes(&owners) {
        let members: Vec<Machine> =
            owners.iter().filter(|owner| controller(owner) == Some((&kind, &plane))).cloned().collect();
        drawn.extend(members.iter().map(key_of));
        let ready = members.iter().filter(|member| runs(member)).count();
        let level = if ready == members.len() { Level::Ok } else { Level::Waiting };
        let note = format!("{ready} of {} running", members.len());
        let children = members.iter().map(|member| machine(world, &index, member)).collect();
        let object = Object::new(kind, &ObjectKey::namespaced(namespace, plane));
        nodes.push(Node::new(object, level, note).with(children));
    }
    for group in groups {
        let own = |owner: &&Machine| owner.labels().get(DEPLOYMENT_LABEL) == Some(&group.name_any());
        let members: Vec<Machine> = owners.iter().filter(own).cloned().collect();
        drawn.extend(members.iter().map(key_of));
        nodes.push(deployment(world, &index, &group, &members));
    }
    let alone: Vec<Machine> = owners.into_iter().filter(|owner| !drawn.contains(&key_of(owner))).collect();
    nodes.extend(alone.iter().map(|owner| machine(world, &index, owner)));
    nodes
}

/// The control planes that machines belong to.
fn planes(owners: &[Machine]) -> Vec<(String, String)> {
    let of = |owner: &Machine| {
        let plane = owner.labels().contains_key("cluster.x-k8s.io/control-plane");
        controller(owner).filter(|_| plane).map(|(kind, name)| (kind.clone(), name.clone()))
    };
    let mut all: Vec<(String, String)> = owners.iter().filter_map(of).collect();
    all.sort();
    all.dedup();
    all
}

fn controller(owner: &Machine) -> Option<(&String, &String)> {
    let references = owner.metadata.owner_references.as_ref()?;
    let found = references.iter().find(|reference| reference.controller == Some(true))?;
    Some((&found.kind, &found.name))
}

fn runs(machine: &Machine) -> bool {
    machine.status.phase.as_deref() == Some("Running")
}

fn deployment(world: &mut World, index: &Index, group: &MachineDeployment, members: &[Machine]) -> Node {
    let wanted = group.spec.replicas.unwrap_or(1);
    let ready = group.status.ready_replicas.unwrap_or_default();
    let children: Vec<Node> = members.iter().map(|member| machine(world, index, member)).collect();
    let level = if ready == wanted && children.len() == usize::try_from(wanted).unwrap_or_default() {
        Level::Ok
    } else {
        Level::Waiting
    };
    let note = format!("{ready} of {wanted} ready{}", offered(group));
    Node::new(Object::new("MachineDeployment", &key_of(group)), level, note).with(children)
}

/// What cluster-autoscaler reads of a machine of the group while there is none to look at.
pub fn offered(group: &MachineDeployment) -> String {
    let keys = [("cpu", CPU), ("memory", MEMORY), ("GPUs", GPU_COUNT)];
    let told = keys.iter().filter_map(|(name, key)| Some(format!("{name} {}", group.annotations().get(*key)?)));
    let told: Vec<String> = told.collect();
    if told.is_empty() { String::new() } else { format!("; the autoscaler reads {}", told.join(", ")) }
}

fn machine(world: &mut World, index: &Index, owner: &Machine) -> Node {
    let below = made_of(owner).and_then(|machine| world.drawn(index, &machine));
    standing(owner, below)
}

/// A Machine with what it is made of.
pub fn standing(owner: &Machine, below: Option<Node>) -> Node {
    let below = below.or_else(|| unread(owner));
    let phase = owner.status.phase.clone().unwrap_or_else(|| "not looked at yet".to_owned());
    let version = owner.spec.version.as_deref().map(|version| format!(", {version}")).unwrap_or_default();
    let worst = below.as_ref().map(|below| below.level).filter(|level| *level != Level::Ok);
    let level = worst.unwrap_or(if runs(owner) { Level::Ok } else { Level::Waiting });
    Node::new(Object::new("Machine", &key_of(owner)), level, format!("{phase}{version}"))
        .with(below.into_iter().collect())
}

/// What a Machine is made of, where it would be drawn and was not read: how that stands is not known.
fn unread(owner: &Machine) -> Option<Node> {
    let to = owner.spec.infrastructure_ref.as_ref()?;
    let key = ObjectKey::namespaced(owner.namespace().unwrap_or_default(), to.name.as_str());
    let why = "was not read: it is not there, or you may not see it";
    let drawn = ["Metal3Machine", "AWSMachine"].contains(&to.kind.as_str());
    drawn.then(|| Node::new(Object::new(to.kind.as_str(), &key), Level::Unknown, why))
}

/// What each of these Machines is made of, where that is a Metal3Machine.
pub fn below(world: &mut World, owners: &[Machine]) -> BTreeMap<ObjectKey, Node> {
    let index = Index::of(&world.seen);
    let one = |owner: &Machine| Some((key_of(owner), world.drawn(&index, &made_of(owner)?)?));
    owners.iter().filter_map(one).collect()
}
