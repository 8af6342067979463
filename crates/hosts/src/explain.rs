//! Why a machine is as it is, and which hosts belong to nobody: records for people and programs.

use api::key::ObjectKey;
use aws::port::Host;
use jiff::Timestamp;
use serde::Serialize;

use crate::decide::{Step, Thought, think};
use crate::facts::MachineFacts;
use crate::journal::{Allocation, Launch};
use crate::snapshot::{Sky, Snapshot};
use crate::sweeper::{Owners, cluster_of, orphans};

/// What is known about a machine and what happens next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Namespace and name.
    pub machine: String,
    /// What the conditions would say: type or reason, and a sentence.
    pub says: Vec<(String, String)>,
    /// Where the hosts stand.
    pub hosts: Option<HostsRecord>,
    /// Where the launch stands.
    pub launch: Option<LaunchRecord>,
    /// What EC2 said last, while it is waited for.
    pub mishap: Option<String>,
    /// Whether EC2 could be asked, and if not, why.
    pub blind: Option<String>,
    /// The next steps, by name.
    pub next: Vec<String>,
    /// When the machine is looked at again.
    pub again: Option<Timestamp>,
}

/// Where the hosts of a machine stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostsRecord {
    /// The id they are tagged with.
    pub allocation_id: String,
    /// Which allocation of the machine.
    pub epoch: u32,
    /// The phase of the journal.
    pub phase: &'static str,
    /// The zone.
    pub zone: String,
    /// Each host and its state, where EC2 shows it.
    pub hosts: Vec<(String, Option<String>)>,
    /// Since when.
    pub since: Timestamp,
}

/// Where the launch of a machine stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchRecord {
    /// Which launch of the machine.
    pub epoch: u32,
    /// The host.
    pub host: Option<String>,
    /// How it was refused.
    pub refused: Option<String>,
    /// The instances found.
    pub instances: Vec<(String, String)>,
}

fn hosts(s: &Snapshot, allocation: &Allocation) -> HostsRecord {
    let state = |id: &api::names::HostId| s.sight()?.hosts.get(id).map(|host| host.state.to_string());
    HostsRecord {
        allocation_id: allocation.id.to_string(),
        epoch: allocation.epoch,
        phase: allocation.phase.as_str(),
        zone: allocation.terms.zone.to_string(),
        hosts: allocation.hosts.iter().map(|id| (id.to_string(), state(id))).collect(),
        since: allocation.at,
    }
}

fn launch(s: &Snapshot, launch: &Launch) -> LaunchRecord {
    let found = s.sight().map(|sight| sight.instances.as_slice()).unwrap_or_default();
    LaunchRecord {
        epoch: launch.epoch,
        host: launch.host.as_ref().map(ToString::to_string),
        refused: launch.refused.clone(),
        instances: found.iter().map(|i| (i.id.to_string(), i.state.to_string())).collect(),
    }
}

fn step_name(step: &Step) -> String {
    let text = format!("{step:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// Explains a machine.
#[must_use]
pub fn explain(s: &Snapshot) -> Explanation {
    let thought: Thought = think(s);
    let all = [&thought.instance, &thought.host, &thought.release, &thought.groups];
    let mut says: Vec<(String, String)> =
        all.into_iter().flatten().map(|says| (says.reason.as_str().to_owned(), says.message.clone())).collect();
    says.extend(thought.paused.iter().map(|why| ("Paused".to_owned(), why.clone())));
    let journal = s.journal();
    Explanation {
        machine: s.key.to_string(),
        says,
        hosts: journal.allocation.as_ref().map(|allocation| hosts(s, allocation)),
        launch: journal.launch.as_ref().map(|known| launch(s, known)),
        mishap: s.mishap.as_ref().map(|mishap| mishap.message.clone()),
        blind: match &s.sky {
            Sky::Clouded(obstacle) => Some(obstacle.message.clone()),
            Sky::NotAsked | Sky::Clear(_) => None,
        },
        next: thought.steps.iter().filter(|step| !matches!(step, Step::Wait { .. })).map(step_name).collect(),
        again: thought.steps.iter().find_map(|step| match step {
            Step::Wait { until } => *until,
            _ => None,
        }),
    }
}

/// Explains a machine from what is stored on it alone, for whoever may not ask EC2.
#[must_use]
pub fn offline(key: &ObjectKey, machine: &MachineFacts) -> Explanation {
    let told = machine.status.conditions.iter().filter(|condition| condition.status != "True");
    let mut says: Vec<(String, String)> = told.map(|c| (c.reason.clone(), c.message.clone())).collect();
    says.sort();
    says.dedup();
    let states = machine.status.dedicated_host.clone().unwrap_or_default().hosts;
    let state = |id: &str| states.iter().find(|host| host.id == id).and_then(|host| host.state.clone());
    let journal = machine.journal.clone().unwrap_or_default();
    Explanation {
        machine: key.to_string(),
        says,
        hosts: journal.allocation.as_ref().map(|allocation| HostsRecord {
            allocation_id: allocation.id.to_string(),
            epoch: allocation.epoch,
            phase: allocation.phase.as_str(),
            zone: allocation.terms.zone.to_string(),
            hosts: allocation.hosts.iter().map(|id| (id.to_string(), state(id.as_str()))).collect(),
            since: allocation.at,
        }),
        launch: journal.launch.as_ref().map(|launch| LaunchRecord {
            epoch: launch.epoch,
            host: launch.host.as_ref().map(ToString::to_string),
            refused: launch.refused.clone(),
            instances: machine
                .instance()
                .map(|id| (id.to_string(), machine.status.instance_state.clone().unwrap_or_default()))
                .into_iter()
                .collect(),
        }),
        mishap: None,
        blind: machine.journal.as_ref().err().map(ToString::to_string),
        next: Vec::new(),
        again: None,
    }
}

/// A host that is paid for and belongs to no machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leak {
    /// The host.
    pub host: String,
    /// The zone.
    pub zone: Option<String>,
    /// The cluster it says it belongs to.
    pub cluster: Option<String>,
    /// The type or family it takes.
    pub kind: Option<String>,
    /// Since when it is paid for.
    pub since: Option<Timestamp>,
}

/// The leaks among hosts.
#[must_use]
pub fn leaks(hosts: &[Host], owners: &Owners, management: &str, now: Timestamp) -> Vec<Leak> {
    let leak = |host: &Host| Leak {
        host: host.id.to_string(),
        zone: host.zone.as_ref().map(ToString::to_string),
        cluster: cluster_of(host).map(str::to_owned),
        kind: host.instance_type.clone().or_else(|| host.instance_family.clone()),
        since: host.allocated,
    };
    orphans(hosts, owners, management, now).into_iter().map(leak).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Journal, Phase};
    use crate::sample;

    #[test]
    fn a_machine_explains_itself_from_what_is_stored() {
        let mut machine = sample::machine();
        let at = sample::allocation().at;
        let allocation =
            sample::allocation().in_phase(Phase::Allocated, at).with_hosts(vec!["h-00000001".parse().unwrap()]);
        machine.journal = Ok(Journal { allocation: Some(allocation), ..Journal::default() });
        let told = offline(&ObjectKey::namespaced("n", "m"), &machine);
        let hosts = told.hosts.unwrap();
        assert_eq!((told.machine.as_str(), hosts.phase, hosts.hosts.len()), ("n/m", "Allocated", 1));
        assert_eq!(told.blind, None);
        machine.journal = Err(crate::journal::JournalError { annotation: "a", detail: "odd".to_owned() });
        assert!(offline(&ObjectKey::namespaced("n", "m"), &machine).blind.unwrap().contains("odd"));
    }

    #[test]
    fn leaks_name_what_people_look_for() {
        let mut host = sample::host("h-0123456789abcdef0");
        host.allocated = Some("2026-01-01T10:00:00Z".parse().unwrap());
        host.tags.insert(api::names::hosts::ALLOCATION_ID_TAG.to_owned(), "lost".to_owned());
        host.tags.insert(api::names::hosts::MANAGEMENT_CLUSTER_TAG.to_owned(), "here".to_owned());
        let nobody = Owners { complete: true, ..Owners::default() };
        let found = leaks(&[host], &nobody, "here", "2026-01-01T12:00:00Z".parse().unwrap());
        assert_eq!(
            (found.len(), found[0].host.as_str(), found[0].zone.as_deref()),
            (1, "h-0123456789abcdef0", Some("us-west-2a"))
        );
    }
}
