//! Virtual machines and the jobs that change them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::World;
use super::things::{merged, owner};
use crate::time::History;

/// Where a machine is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being started.
    Starting,
    /// It runs.
    Running,
    /// It is being stopped.
    Stopping,
    /// It is stopped.
    Stopped,
    /// It could not be made.
    Error,
    /// It is thrown away and can still be brought back.
    Destroyed,
    /// It is being removed for good.
    Expunging,
    /// Nothing is left of it.
    Gone,
}

impl State {
    /// The word in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Running => "Running",
            Self::Stopping => "Stopping",
            Self::Stopped => "Stopped",
            Self::Error => "Error",
            Self::Destroyed => "Destroyed",
            Self::Expunging => "Expunging",
            Self::Gone => "Expunged",
        }
    }

    /// Whether it takes up a host and a name.
    #[must_use]
    pub fn is_living(self) -> bool {
        !matches!(self, Self::Destroyed | Self::Expunging | Self::Gone)
    }
}

/// A virtual machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Id.
    pub id: String,
    /// The server's own number.
    pub number: u64,
    /// Host name.
    pub name: String,
    /// The name shown to humans.
    pub display_name: String,
    /// Name of the account.
    pub account: String,
    /// Path of that account's domain.
    pub domain: String,
    /// Id of the zone.
    pub zone: String,
    /// Id of the template.
    pub template: String,
    /// Id of the compute offering.
    pub offering: String,
    /// Ids of its networks with its address in each.
    pub networks: Vec<(String, String)>,
    /// Ids of its affinity groups.
    pub groups: Vec<String>,
    /// Id of the disk offering and GB of its data disk.
    pub disk: Option<(String, u64)>,
    /// What the guest reads at its first start.
    pub user_data: Vec<u8>,
    /// When it was asked for.
    pub created: Timestamp,
    /// Where it is on its way.
    pub state: History<State>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// When the last job on it ends.
    pub busy: Timestamp,
}

impl Machine {
    /// Where it is at a moment.
    #[must_use]
    pub fn state_at(&self, now: Timestamp) -> State {
        self.state.at(now).copied().unwrap_or(State::Stopped)
    }
}

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With the machine it is about.
    Machine(String),
    /// With this under this noun.
    Thing(&'static str, Map<String, Value>),
    /// With nothing but success.
    Success,
    /// Badly.
    Failure(u16, String),
}

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Id.
    pub id: String,
    /// The command that began it.
    pub command: &'static str,
    /// Name of the account and path of the domain of whoever asked.
    pub owner: (String, String),
    /// Kind and id of the thing it is about.
    pub about: Option<(&'static str, String)>,
    /// When it began.
    pub created: Timestamp,
    /// When it ends; never, if it hangs.
    pub ends: Option<Timestamp>,
    /// How.
    pub end: End,
}

/// A moment as answers have it.
pub(crate) fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S+0000").to_string()
}

impl World {
    /// A machine as lists and jobs show it.
    pub(crate) fn machine_json(&self, machine: &Machine, now: Timestamp) -> Map<String, Value> {
        let name = |found: Option<&String>| found.cloned().unwrap_or_default();
        let zone = name(self.zones.iter().find(|zone| zone.id == machine.zone).map(|zone| &zone.name));
        let template = self.templates.iter().find(|template| template.id == machine.template);
        let offering = self.offerings.iter().find(|offering| offering.id == machine.offering);
        let (cpus, mhz, memory) = offering.and_then(|offering| offering.size).unwrap_or((1, 1000, 1024));
        let nic = |(at, (id, address)): (usize, &(String, String))| {
            let network = self.networks.iter().find(|network| network.id == *id);
            json!({
                "id": format!("{}-{at}", machine.id), "networkid": id, "deviceid": at.to_string(),
                "networkname": name(network.map(|network| &network.name)), "netmask": "255.255.255.0",
                "gateway": network.map(|network| format!("{}.1", network.prefix)), "ipaddress": address,
                "traffictype": "Guest", "type": network.map(|network| network.kind.clone()), "isdefault": at == 0,
                "macaddress": format!("02:01:00:{:02x}:{:02x}:{at:02x}", (machine.number >> 8) & 0xff, machine.number & 0xff),
                "secondaryip": [],
            })
        };
        let group = |id: &String| {
            let group = self.groups.iter().find(|group| group.id == *id);
            json!({"id": id, "name": name(group.map(|group| &group.name)), "account": machine.account})
        };
        let tag = |(key, value): (&String, &String)| json!({"key": key, "value": value, "resourcetype": "UserVm", "resourceid": machine.id, "account": machine.account});
        let Some(domain) = self.domain(&machine.domain) else { return Map::new() };
        merged(
            json!({
                "id": machine.id, "name": machine.name, "displayname": machine.display_name,
                "created": moment(machine.created), "state": machine.state_at(now).as_str(), "haenable": false,
                "zoneid": machine.zone, "zonename": zone, "templateid": machine.template,
                "templatename": name(template.map(|template| &template.name)), "passwordenabled": false,
                "serviceofferingid": machine.offering,
                "serviceofferingname": name(offering.map(|offering| &offering.name)),
                "cpunumber": cpus, "cpuspeed": mhz, "memory": memory, "rootdeviceid": 0, "rootdevicetype": "ROOT",
                "securitygroup": [], "nic": machine.networks.iter().enumerate().map(nic).collect::<Vec<_>>(),
                "hypervisor": "KVM", "instancename": format!("i-2-{}-VM", machine.number), "details": {},
                "ipaddress": machine.networks.first().map(|(_, address)| address.clone()),
                "affinitygroup": machine.groups.iter().map(group).collect::<Vec<_>>(), "displayvm": true,
                "isdynamicallyscalable": false, "tags": machine.tags.iter().map(tag).collect::<Vec<_>>(),
            }),
            owner(&machine.account, domain),
        )
    }

    /// A job as its query shows it.
    pub(crate) fn job_json(&self, job: &Job, now: Timestamp) -> Map<String, Value> {
        let account = self.accounts.iter().find(|one| one.name == job.owner.0 && one.domain == job.owner.1);
        let domain = self.domain(&job.owner.1);
        let mut json = super::things::object(json!({
            "accountid": account.map(|account| account.id.clone()), "account": job.owner.0,
            "userid": account.map(|account| account.user_id.clone()), "domainid": domain.map(|domain| domain.id.clone()),
            "domainpath": job.owner.1, "cmd": format!("org.apache.cloudstack.api.command.{}Cmd", job.command),
            "jobprocstatus": 0, "jobresultcode": 0, "created": moment(job.created), "jobid": job.id, "jobstatus": 0,
        }));
        let mut put = |name: &str, value: Value| json.insert(name.to_owned(), value);
        if let Some((kind, id)) = &job.about {
            put("jobinstancetype", json!(kind));
            put("jobinstanceid", json!(id));
        }
        let Some(ended) = job.ends.filter(|ends| *ends <= now) else { return json };
        put("completed", json!(moment(ended)));
        put("jobresulttype", json!("object"));
        let (status, result) = match &job.end {
            End::Machine(id) => {
                let machine = self.machines.get(id).filter(|machine| machine.state_at(now) != State::Gone);
                let shown = machine.map(|machine| Value::Object(self.machine_json(machine, now)));
                // Of an expunged machine the server shows only what is never absent.
                let nothing = || json!({"securitygroup": [], "nic": [], "affinitygroup": [], "tags": []});
                (1, json!({"virtualmachine": shown.unwrap_or_else(nothing)}))
            }
            End::Thing(noun, thing) => (1, Value::from_iter([((*noun).to_owned(), Value::Object(thing.clone()))])),
            End::Success => (1, json!({"success": true})),
            End::Failure(code, text) => {
                put("jobresultcode", json!(code));
                (2, json!({"errorcode": code, "errortext": text}))
            }
        };
        put("jobstatus", json!(status));
        put("jobresult", result);
        json
    }
}
