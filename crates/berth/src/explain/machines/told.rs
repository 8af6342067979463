//! What is told of a machine: the room's own thoughts in words.

use ::hosts::decide::{Gate, Says, Step, gate, think};
use ::hosts::journal::{Journal, Phase};
use ::hosts::snapshot::{Sky, Snapshot};
use api::names::hosts::ABANDON_HOST_ANNOTATION;
use api::reasons::hosts::Reason;
use api::reasons::{DEDICATED_HOST_READY, DEDICATED_HOST_RELEASE, INSTANCE_READY, SECURITY_GROUPS_READY};
use api::status::find;
use k8s_openapi::jiff::Timestamp;
use kit::conditions::State;
use kit::explain::{Explanation, Fact, Fix, Level, Need, Next, Node, Object};

use crate::screen::age;

/// What was seen of a machine.
pub struct Told {
    /// What the room would judge by.
    pub snapshot: Snapshot,
    /// Whether EC2 was asked.
    pub looked: bool,
    /// As whom its cluster calls EC2.
    pub identity: Option<String>,
    /// What could not be seen.
    pub unseen: Vec<String>,
}

/// What one condition says, from whom ever it comes.
struct Said {
    name: &'static str,
    level: Level,
    reason: Option<Reason>,
    message: String,
}

impl Told {
    fn journal(&self) -> Journal {
        self.snapshot.journal()
    }

    /// What the conditions say: by the room's thought where EC2 was asked, else as they are stored.
    fn said(&self) -> Vec<Said> {
        let thought = think(&self.snapshot);
        let asked = matches!(self.snapshot.sky, Sky::Clear(_)) || (self.looked && thought.invalid.is_some());
        let parts: [(&'static str, &'static str, Option<Says>); 4] = [
            ("instance", INSTANCE_READY, thought.instance),
            ("dedicated hosts", DEDICATED_HOST_READY, thought.host),
            ("giving the hosts back", DEDICATED_HOST_RELEASE, thought.release),
            ("security groups", SECURITY_GROUPS_READY, thought.groups),
        ];
        let stored = &self.snapshot.machine.status.conditions;
        let all = parts.into_iter().filter_map(|(name, type_, thought)| {
            if let Some(says) = thought.filter(|_| asked) {
                let level = level(says.state, Some(says.reason));
                return Some(Said { name, level, reason: Some(says.reason), message: says.message });
            }
            let condition = find(stored, type_)?;
            let reason = Reason::ALL.iter().find(|reason| reason.as_str() == condition.reason).copied();
            let state = match condition.status.as_str() {
                "True" => State::True,
                "False" => State::False,
                _ => State::Unknown,
            };
            Some(Said { name, level: level(state, reason), reason, message: condition.message.clone() })
        });
        all.collect()
    }

    fn verdict(&self, said: &[Said]) -> (Level, String) {
        let s = &self.snapshot;
        let worst = |level: Level| said.iter().find(|said| said.level == level).map(|said| said.message.clone());
        match gate(s) {
            Gate::Ignored => (Level::Aside, "it is left alone: the watch filter does not take it in".to_owned()),
            Gate::Unowned => (Level::Waiting, "no Machine owns it yet, or its Cluster is not there".to_owned()),
            Gate::Paused(why) => (Level::Aside, format!("nothing is done: {why}")),
            Gate::Failed => {
                let message = s.machine.status.failure_message.clone().unwrap_or_default();
                (Level::Problem, format!("it has failed for good: {message}"))
            }
            Gate::Waiting(says) => (Level::Waiting, says.message),
            Gate::Refused(obstacle) => (Level::Problem, obstacle.message),
            Gate::Delete => match worst(Level::Problem) {
                Some(message) => (Level::Problem, format!("it is being deleted and stays: {message}")),
                None => {
                    // The hosts go last, so what they wait for is what the machine waits for.
                    let waits = said.iter().rev().find(|said| said.level == Level::Waiting);
                    let why = waits.map(|said| format!(": {}", said.message)).unwrap_or_default();
                    (Level::Waiting, format!("it is being deleted{why}"))
                }
            },
            Gate::Go => match (worst(Level::Problem), worst(Level::Waiting)) {
                (Some(message), _) => (Level::Problem, message),
                (None, Some(message)) => (Level::Waiting, message),
                (None, None) if s.machine.status.ready == Some(true) => (Level::Ok, self.runs()),
                (None, None) => (Level::Waiting, "nothing was done for it yet".to_owned()),
            },
        }
    }

    fn runs(&self) -> String {
        let machine = &self.snapshot.machine;
        let instance = machine.instance().map_or_else(|| "the instance".to_owned(), |id| id.to_string());
        match machine.status.dedicated_host.as_ref().and_then(|host| host.id.as_deref()) {
            Some(host) => format!("{instance} runs on the dedicated host {host}"),
            None => format!("{instance} runs"),
        }
    }

    fn facts(&self, now: Timestamp) -> Vec<Fact> {
        let fact = |name, value: String| Fact { name, value };
        let s = &self.snapshot;
        let mut facts = vec![fact("instance type", s.machine.spec.instance_type.clone())];
        facts.extend(s.cluster_name().map(|name| fact("cluster", name.to_owned())));
        facts.extend(s.machine.owner.as_deref().map(|name| fact("machine", name.to_owned())));
        facts.extend(s.scope.as_ref().map(|scope| fact("region", scope.region.to_string())));
        facts.extend(self.identity.clone().map(|name| fact("identity", name)));
        facts.extend(s.machine.instance().map(|id| {
            let state = s.machine.status.instance_state.clone().map(|state| format!(", {state}")).unwrap_or_default();
            fact("instance", format!("{id}{state}"))
        }));
        if let Some(allocation) = self.journal().allocation {
            let since = now.as_second().saturating_sub(allocation.at.as_second()).max(0);
            let journal = format!("{} for {}, epoch {}", allocation.phase.as_str(), age(since), allocation.epoch);
            facts.push(fact("journal", journal));
            facts.push(fact("allocation", allocation.id.to_string()));
            facts.push(fact("zone", allocation.terms.zone.to_string()));
        }
        facts
    }

    /// The hosts, and what is known of each.
    fn hosts(&self) -> Vec<(String, String)> {
        let stored = self.snapshot.machine.status.dedicated_host.clone().unwrap_or_default();
        let hosts = self.journal().allocation.map(|allocation| allocation.hosts).unwrap_or_default();
        hosts
            .into_iter()
            .map(|id| {
                let live =
                    self.snapshot.sight().and_then(|sight| sight.hosts.get(&id)).map(|host| host.state.to_string());
                let known =
                    stored.hosts.iter().find(|known| known.id == id.as_str()).and_then(|known| known.state.clone());
                (id.to_string(), live.or(known).unwrap_or_else(|| "state unknown".to_owned()))
            })
            .collect()
    }

    /// The hosts: the id, the state and the zone of each.
    pub fn places(&self) -> Vec<(String, String, Option<String>)> {
        let zone = self.journal().allocation.map(|allocation| allocation.terms.zone.to_string());
        self.hosts().into_iter().map(|(id, state)| (id, state, zone.clone())).collect()
    }

    fn needs(&self, said: &[Said]) -> Vec<Need> {
        let one = |said: &Said| {
            let mut facts: Vec<Fact> = Vec::new();
            if said.name == "dedicated hosts" {
                facts.extend(
                    self.hosts().into_iter().map(|(id, state)| Fact { name: "host", value: format!("{id}, {state}") }),
                );
            }
            if said.name == "giving the hosts back" {
                let after =
                    self.snapshot.machine.status.dedicated_host.as_ref().and_then(|host| host.releasable_after.clone());
                facts.extend(after.map(|time| Fact { name: "not before", value: time.0.to_string() }));
            }
            Need {
                name: said.name.to_owned(),
                level: said.level,
                reason: said.reason.map(Reason::as_str),
                sentence: said.message.clone(),
                required: true,
                facts,
                ..Need::default()
            }
        };
        said.iter().map(one).collect()
    }

    fn next(&self) -> Vec<Next> {
        let by = "hosts";
        // What it would do depends on what EC2 shows; the times in its plan are those of a look that did not happen.
        if !self.looked && matches!(self.snapshot.sky, Sky::Clouded(_)) {
            return vec![Next { by, what: "asks EC2 and goes on from there; --lookup asks it now".to_owned() }];
        }
        think(&self.snapshot).steps.iter().filter_map(words).map(|what| Next { by, what }).collect()
    }

    fn fixes(&self, said: &[Said]) -> Vec<Fix> {
        let (namespace, name) = (self.snapshot.key.namespace().unwrap_or_default(), self.snapshot.key.name());
        let region = self.snapshot.scope.as_ref().map_or("REGION", |scope| scope.region.as_str());
        let mut fixes = Vec::new();
        if let Gate::Paused(_) = gate(&self.snapshot) {
            fixes.push(match self.snapshot.machine.is_paused() {
                true => Fix::run(
                    "take the pause back",
                    format!("kubectl annotate awsmachine -n {namespace} {name} cluster.x-k8s.io/paused-"),
                ),
                false => Fix::say("let whoever paused the Cluster take it back"),
            });
        }
        for reason in said.iter().filter(|said| said.level != Level::Ok).filter_map(|said| said.reason) {
            match reason {
                Reason::HostQuotaExceeded => fixes.push(Fix::run(
                    "see the quota of dedicated hosts and ask AWS for a higher one; hosts given back count for some minutes more",
                    format!("aws service-quotas list-service-quotas --service-code ec2 --region {region} --query \"Quotas[?contains(QuotaName,'Dedicated')].[QuotaName,Value]\""),
                )),
                Reason::HostCapacityUnavailable => {
                    fixes.push(Fix::say("wait, or let the Machine use another zone or type: EC2 has none left here"));
                }
                Reason::HostAllocationDenied => fixes.push(Fix::say(
                    "give the identity the action that the message names, or raise the cap of the operator that it names",
                )),
                Reason::HostAllocationFailed | Reason::InvalidSpec => {
                    fixes.push(Fix::say("correct the template and roll the machines: the spec of a machine does not change"));
                }
                Reason::MinimumAllocationPeriod => fixes.push(Fix::run(
                    "wait, or keep the host for others and let the machine go now",
                    format!("kubectl patch awsmachine -n {namespace} {name} --type=merge -p '{{\"spec\":{{\"dynamicHostAllocation\":{{\"autoRelease\":false}}}}}}'"),
                )),
                Reason::DedicatedHostReleaseFailed | Reason::DeletingFailed => fixes.push(Fix::run(
                    "correct what the message names; as a last resort give the host up, and release it by hand: it goes on costing money",
                    format!("kubectl annotate awsmachine -n {namespace} {name} {ABANDON_HOST_ANNOTATION}=true"),
                )),
                Reason::WaitingForBootstrapData => {
                    fixes.push(Fix::say("look at the bootstrap object that the Machine names"));
                }
                _ => {}
            }
        }
        fixes
    }
}

/// Whether time alone helps.
fn level(state: State, reason: Option<Reason>) -> Level {
    match (state, reason) {
        (State::True, _) => Level::Ok,
        (State::Unknown, _) => Level::Unknown,
        (
            State::False,
            Some(
                Reason::WaitingForClusterInfrastructure
                | Reason::WaitingForBootstrapData
                | Reason::InstanceProvisionStarted
                | Reason::InstanceNotReady
                | Reason::Deleting
                | Reason::Deleted
                | Reason::HostAllocationStarted
                | Reason::HostPending
                | Reason::HostUnderAssessment
                | Reason::WaitingForInstanceTermination
                | Reason::HostOccupied
                | Reason::MinimumAllocationPeriod,
            ),
        ) => Level::Waiting,
        (State::False, _) => Level::Problem,
    }
}

/// A step in words; none where nothing is done.
fn words(step: &Step) -> Option<String> {
    let list = |ids: &[String]| ids.join(", ");
    let all = |ids: &mut dyn Iterator<Item = String>| list(&ids.collect::<Vec<_>>());
    Some(match step {
        Step::Secure { .. } => "puts its finalizer on the machine, and where to find what it makes".to_owned(),
        Step::Rehearse { .. } => "tries the launch without having it, before a host is paid for".to_owned(),
        Step::Record { allocation } => match allocation.phase {
            Phase::Intended => format!("stores that it wants a host in {}", allocation.terms.zone),
            phase => format!("stores the journal: {}", phase.as_str()),
        },
        Step::Allocate { allocation } => {
            format!("asks EC2 for {} in {}", hosts(allocation.terms.quantity), allocation.terms.zone)
        }
        Step::RecordLaunch { .. } => "stores that it launches an instance".to_owned(),
        Step::Launch { launch, .. } => match &launch.host {
            Some(host) => format!("launches the instance on {host}"),
            None => "launches the instance".to_owned(),
        },
        Step::Publish { instance, .. } => format!("writes down that {instance} is this machine's"),
        Step::Terminate { instances } => format!("ends {}", all(&mut instances.iter().map(ToString::to_string))),
        Step::Release { hosts } => format!("gives back {}", all(&mut hosts.iter().map(ToString::to_string))),
        Step::Retain { host, .. } => format!("leaves {host} to its owner"),
        Step::Retag { resources, .. } => format!("sets the tags of {}", list(resources)),
        Step::Share { host, .. } => format!("says on {host} that the cluster uses it"),
        Step::SetGroups { interface, .. } => format!("sets the security groups of {interface}"),
        Step::SetMetadata { instance, .. } => format!("sets how {instance} reaches its metadata"),
        Step::Power { instance, on } => format!("{} {instance}", if *on { "starts" } else { "stops" }),
        Step::Reboot { .. } => "stores how far the reboot is".to_owned(),
        Step::Conclude => "takes its finalizer off: nothing is left".to_owned(),
        Step::Note { .. } | Step::Tell { .. } | Step::Announce => return None,
        Step::Wait { until: Some(until) } => format!("looks again at {}", ::hosts::journal::whole(*until)),
        Step::Wait { until: None } => return None,
    })
}

fn hosts(quantity: u32) -> String {
    if quantity == 1 { "a dedicated host".to_owned() } else { format!("{quantity} dedicated hosts") }
}

/// Explains it.
pub fn explanation(told: &Told, now: Timestamp) -> Explanation {
    let said = told.said();
    let (level, summary) = told.verdict(&said);
    Explanation {
        object: Object::new("AWSMachine", &told.snapshot.key),
        level,
        summary,
        facts: told.facts(now),
        needs: told.needs(&said),
        next: told.next(),
        fixes: told.fixes(&said),
        unseen: told.unseen.clone(),
    }
}

/// Draws it: the machine, its instance, its hosts.
pub fn tree(told: &Told) -> Node {
    let said = told.said();
    let (level, summary) = told.verdict(&said);
    let of = |name: &str| said.iter().find(|said| said.name == name);
    let part = |kind: &str, name: String, level, note: String| {
        Node::new(Object { kind: kind.to_owned(), namespace: None, name }, level, note)
    };
    let mut children = Vec::new();
    if let Some(id) = told.snapshot.machine.instance() {
        let level = of("instance").map_or(Level::Unknown, |said| said.level);
        let state = told.snapshot.machine.status.instance_state.clone().unwrap_or_default();
        children.push(part("Instance", id.to_string(), level, state));
    }
    let host = of("giving the hosts back").filter(|said| said.level != Level::Ok).or_else(|| of("dedicated hosts"));
    for (id, state) in told.hosts() {
        let level = host.map_or(Level::Unknown, |said| said.level);
        let note = host.filter(|said| said.level != Level::Ok).map(|said| format!(": {}", said.message));
        children.push(part("DedicatedHost", id, level, format!("{state}{}", note.unwrap_or_default())));
    }
    Node::new(Object::new("AWSMachine", &told.snapshot.key), level, summary).with(children)
}
