//! From JSON objects to domain types. Unknown fields are passed over; a field of the wrong type counts as absent unless
//! nothing can be done without it.

use std::str::FromStr;

use serde_json::{Map, Value};

use crate::errors::MESSAGE;
use crate::port::{
    Account, AccountState, AffinityGroup, AllocationState, Capabilities, DiskOffering, Domain, Job, JobFailure,
    JobStatus, MachineState, Network, NetworkType, Nic, ServiceOffering, Started, Tags, Template, User, VirtualMachine,
    Zone,
};

/// One object of an answer.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a>(pub(crate) &'a Map<String, Value>);

/// What cannot be read.
pub(crate) type Unread = String;

impl<'a> Item<'a> {
    /// A text that is there and not empty.
    pub(crate) fn text(self, name: &str) -> Option<&'a str> {
        self.0.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    fn owned(self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    fn need(self, name: &str) -> Result<&'a str, Unread> {
        self.text(name).ok_or_else(|| format!("an entry has no {name}"))
    }

    fn id<I: FromStr>(self, name: &str) -> Option<I> {
        self.text(name)?.parse().ok()
    }

    pub(crate) fn need_id<I: FromStr>(self, name: &str) -> Result<I, Unread> {
        self.need(name)?.parse().map_err(|_| format!("the {name} of an entry is none"))
    }

    /// A number, also one that is written as a text or with a fraction of nothing.
    fn number<N: TryFrom<u64>>(self, name: &str) -> Option<N> {
        let value = self.0.get(name)?;
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        number.and_then(|number| N::try_from(number).ok())
    }

    fn flag(self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) => text == "true",
            _ => false,
        }
    }

    fn each(self, name: &str) -> impl Iterator<Item = Item<'a>> + use<'a> {
        let list = self.0.get(name).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_object).map(Item)
    }

    fn inner(self, name: &str) -> Option<Item<'a>> {
        self.0.get(name)?.as_object().map(Item)
    }
}

pub(crate) fn zone(item: Item<'_>) -> Result<Zone, Unread> {
    Ok(Zone {
        id: item.need_id("id")?,
        name: item.need("name")?.to_owned(),
        allocation: item.text("allocationstate").map(AllocationState::from),
        network_type: item.owned("networktype"),
    })
}

pub(crate) fn domain(item: Item<'_>) -> Result<Domain, Unread> {
    Ok(Domain {
        id: item.need_id("id")?,
        name: item.need("name")?.to_owned(),
        path: item.owned("path"),
        state: item.owned("state"),
    })
}

pub(crate) fn account(item: Item<'_>) -> Result<Account, Unread> {
    Ok(Account {
        id: item.need_id("id")?,
        name: item.need("name")?.to_owned(),
        state: item.text("state").map(AccountState::from),
        domain_id: item.id("domainid"),
        domain: item.owned("domain"),
    })
}

pub(crate) fn user(item: Item<'_>) -> Result<User, Unread> {
    Ok(User {
        id: item.need_id("id")?,
        name: item.need("username")?.to_owned(),
        account: item.need("account")?.to_owned(),
        domain_id: item.id("domainid"),
        domain: item.owned("domain"),
        domain_path: item.owned("domainpath"),
        state: item.text("state").map(AccountState::from),
    })
}

pub(crate) fn network(item: Item<'_>) -> Result<Network, Unread> {
    Ok(Network {
        id: item.need_id("id")?,
        // A network may be nameless, and then nobody asks for it by name.
        name: item.text("name").unwrap_or_default().to_owned(),
        kind: item.text("type").map(NetworkType::from),
        zone: item.id("zoneid"),
        state: item.owned("state"),
    })
}

pub(crate) fn template(item: Item<'_>) -> Result<Template, Unread> {
    Ok(Template {
        id: item.need_id("id")?,
        name: item.need("name")?.to_owned(),
        ready: item.flag("isready"),
        status: item.owned("status"),
        zone: item.id("zoneid"),
        url: item.owned("url"),
        arch: item.owned("arch"),
        system: item.owned("ostypename"),
        size: item.number("size"),
    })
}

pub(crate) fn service_offering(item: Item<'_>) -> Result<ServiceOffering, Unread> {
    // Servers before 4.21 have no fields for it: an offering gives one device of a group that its details name.
    let device = item.inner("serviceofferingdetails").and_then(|details| details.owned("pciDevice"));
    Ok(ServiceOffering {
        id: item.need_id("id")?,
        name: item.need("name")?.to_owned(),
        cpus: item.number("cpunumber"),
        cpu_mhz: item.number("cpuspeed"),
        memory_mib: item.number("memory"),
        root_disk_gb: item.number::<u64>("rootdisksize").filter(|size| *size > 0),
        gpus: item.number::<u32>("gpucount").filter(|count| *count > 0).or(device.as_ref().map(|_| 1)),
        gpu_card: item.owned("gpucardname").or(device),
        customized: item.flag("iscustomized"),
    })
}

pub(crate) fn disk_offering(item: Item<'_>) -> Result<DiskOffering, Unread> {
    let customized = item.flag("iscustomized");
    Ok(DiskOffering {
        id: item.need_id("id")?,
        name: item.need("name")?.to_owned(),
        size_gb: item.number::<u64>("disksize").filter(|_| !customized),
        customized,
    })
}

pub(crate) fn affinity_group(item: Item<'_>) -> Result<AffinityGroup, Unread> {
    Ok(AffinityGroup {
        id: item.need_id("id")?,
        name: item.need("name")?.to_owned(),
        kind: item.text("type").unwrap_or_default().to_owned(),
    })
}

pub(crate) fn virtual_machine(item: Item<'_>) -> Result<VirtualMachine, Unread> {
    let nic = |nic: Item<'_>| Nic {
        network: nic.id("networkid"),
        address: nic.owned("ipaddress"),
        address6: nic.owned("ip6address"),
        mac: nic.owned("macaddress"),
        default: nic.flag("isdefault"),
    };
    let tag = |tag: Item<'_>| Some((tag.owned("key")?, tag.owned("value").unwrap_or_default()));
    Ok(VirtualMachine {
        id: item.need_id("id")?,
        name: item.need("name")?.to_owned(),
        display_name: item.owned("displayname"),
        state: MachineState::from(item.text("state").unwrap_or("Unknown")),
        zone: item.id("zoneid"),
        zone_name: item.owned("zonename"),
        account: item.owned("account"),
        domain: item.text("domainpath").map(whole_path).or_else(|| item.owned("domain")),
        created: item.text("created").and_then(|at| at.parse().ok()),
        template: item.id("templateid"),
        offering: item.id("serviceofferingid"),
        nics: item.each("nic").map(nic).collect(),
        affinity_groups: item.each("affinitygroup").filter_map(|group| group.id("id")).collect(),
        tags: item.each("tags").filter_map(tag).collect::<Tags>(),
    })
}

/// The path of a domain from its root. Lists write it in one of three ways: `ROOT/a`, `/a/` and, of the root, `/`.
fn whole_path(path: &str) -> String {
    match path.trim_matches('/') {
        "" => "ROOT".to_owned(),
        whole if whole == "ROOT" || whole.starts_with("ROOT/") => whole.to_owned(),
        below => format!("ROOT/{below}"),
    }
}

pub(crate) fn started(item: Item<'_>) -> Result<Started, Unread> {
    Ok(Started { id: item.need_id("id")?, job: item.need_id("jobid")? })
}

pub(crate) fn job(item: Item<'_>) -> Result<Job, Unread> {
    let result = item.inner("jobresult");
    let status = match item.number::<u8>("jobstatus") {
        Some(0) => JobStatus::Pending,
        Some(1) => {
            // Of an expunged machine nothing but an empty object is left.
            let machine = result.and_then(|result| result.inner("virtualmachine"));
            JobStatus::Done(machine.and_then(|machine| virtual_machine(machine).ok()).map(Box::new))
        }
        Some(other) => {
            let code = result.and_then(|result| result.number("errorcode")).or_else(|| item.number("jobresultcode"));
            let text = result.and_then(|result| result.text("errortext"));
            // What a server of tomorrow may say instead of "failed" is not success either.
            let text = text.map_or_else(|| format!("the job ended with status {other}"), str::to_owned);
            JobStatus::Failed(JobFailure { code: code.unwrap_or(530), text: kit::words::one_line(&text, MESSAGE) })
        }
        None => return Err("a job has no status".to_owned()),
    };
    Ok(Job { id: item.need_id("jobid")?, status, about: item.owned("jobinstanceid") })
}

pub(crate) fn capabilities(item: Item<'_>) -> Result<Capabilities, Unread> {
    let said = item.inner("capability").ok_or("there is no capability")?;
    Ok(Capabilities { version: said.owned("cloudstackversion") })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read<T>(value: Value, read: fn(Item<'_>) -> Result<T, Unread>) -> Result<T, Unread> {
        read(Item(value.as_object().expect("an object")))
    }

    #[test]
    fn a_machine_is_read_with_its_addresses_and_tags() {
        let machine = read(
            json!({"id": "a-1", "name": "vm1", "displayname": "Vm 1", "state": "Running", "zoneid": "z-1",
                   "account": "admin", "templateid": "t-1", "serviceofferingid": "o-1", "surprise": {"a": [1]},
                   "nic": [{"networkid": "n-1", "ipaddress": "10.1.1.192", "macaddress": "02:01", "isdefault": true}],
                   "affinitygroup": [{"id": "g-1"}, 7], "tags": [{"key": "a", "value": "b"}, {"key": "empty"}]}),
            virtual_machine,
        )
        .unwrap();
        assert_eq!((machine.name.as_str(), &machine.state), ("vm1", &MachineState::Running));
        assert_eq!(machine.nics[0].address.as_deref(), Some("10.1.1.192"));
        assert!(machine.nics[0].default && machine.affinity_groups.len() == 1);
        assert_eq!(machine.tags, Tags::from([("a".into(), "b".into()), ("empty".into(), String::new())]));
        let odd = read(json!({"id": "a-1", "name": "vm1", "state": "Levitating", "nic": 3}), virtual_machine).unwrap();
        assert_eq!(odd.state, MachineState::Other("Levitating".into()));
        assert_eq!(read(json!({"name": "vm1"}), virtual_machine).unwrap_err(), "an entry has no id");
        assert_eq!(read(json!({"id": "a&b", "name": "x"}), zone).unwrap_err(), "the id of an entry is none");
    }

    #[test]
    fn where_a_machine_is_and_since_when_is_read_as_far_as_the_server_says_it() {
        let whole = |more: Value| {
            let mut value = json!({"id": "a-1", "name": "vm1", "zonename": "zone-1", "domain": "team"});
            value.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            read(value, virtual_machine).unwrap()
        };
        let machine = whole(json!({"domainpath": "/tenant/team/", "created": "2026-01-02T03:04:05+0000"}));
        assert_eq!(
            (machine.zone_name.as_deref(), machine.domain.as_deref()),
            (Some("zone-1"), Some("ROOT/tenant/team"))
        );
        assert_eq!(machine.created, Some("2026-01-02T03:04:05Z".parse().unwrap()));
        for (path, told) in [("/", "ROOT"), ("ROOT", "ROOT"), ("ROOT/a", "ROOT/a"), ("/ROOTED/", "ROOT/ROOTED")] {
            assert_eq!(whole(json!({"domainpath": path})).domain.as_deref(), Some(told), "{path}");
        }
        let silent = whole(json!({"created": "long ago"}));
        assert_eq!((silent.domain.as_deref(), silent.created), (Some("team"), None));
    }

    #[test]
    fn numbers_and_flags_are_read_in_every_form_servers_use() {
        let offering = read(
            json!({"id": "o", "name": "n", "cpunumber": "4", "cpuspeed": 1000, "memory": 8192, "rootdisksize": 0,
                   "iscustomized": "true"}),
            service_offering,
        )
        .unwrap();
        assert_eq!((offering.cpus, offering.memory_mib, offering.root_disk_gb), (Some(4), Some(8192), None));
        assert!(offering.customized && offering.gpus.is_none() && offering.gpu_card.is_none());
        for (more, gpus, card) in [
            (json!({"gpucount": 2, "gpucardname": "NVIDIA T4"}), Some(2), Some("NVIDIA T4")),
            (json!({"gpucount": 0}), None, None),
            (
                json!({"serviceofferingdetails": {"pciDevice": "Group of NVIDIA GPUs"}}),
                Some(1),
                Some("Group of NVIDIA GPUs"),
            ),
            (json!({"serviceofferingdetails": {"mincpunumber": "1"}}), None, None),
        ] {
            let mut whole = json!({"id": "o", "name": "n"});
            whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let found = read(whole, service_offering).unwrap();
            assert_eq!((found.gpus, found.gpu_card.as_deref()), (gpus, card), "{more}");
        }
        let odd = read(json!({"id": "o", "name": "n", "cpunumber": -1, "memory": "Unlimited"}), service_offering);
        assert_eq!(odd.map(|offering| (offering.cpus, offering.memory_mib)), Ok((None, None)));
        let fixed = read(json!({"id": "d", "name": "n", "disksize": 5, "iscustomized": false}), disk_offering).unwrap();
        assert_eq!((fixed.size_gb, fixed.customized), (Some(5), false));
    }

    #[test]
    fn jobs_are_pending_done_or_failed() {
        let pending = json!({"jobid": "j", "jobstatus": 0, "jobresultcode": 0, "jobinstanceid": "v"});
        let pending = read(pending, job).unwrap();
        assert_eq!((pending.status, pending.about.as_deref()), (JobStatus::Pending, Some("v")));
        let gone = json!({"jobid": "j", "jobstatus": 1, "jobresult": {"virtualmachine": {"nic": [], "tags": []}}});
        assert_eq!(read(gone, job).unwrap().status, JobStatus::Done(None));
        let failed = json!({"jobid": "j", "jobstatus": 2, "jobresultcode": 533,
                            "jobresult": {"errorcode": 533, "errortext": "No destination found\nfor a deployment"}});
        let text = "No destination found for a deployment".to_owned();
        assert_eq!(read(failed, job).unwrap().status, JobStatus::Failed(JobFailure { code: 533, text }));
        let unheard = read(json!({"jobid": "j", "jobstatus": 3}), job).unwrap();
        assert!(matches!(unheard.status, JobStatus::Failed(JobFailure { code: 530, .. })));
        assert!(read(json!({"jobid": "j"}), job).is_err());
    }

    fn any_object() -> impl Strategy<Value = Map<String, Value>> {
        let name = "(id|name|username|account|state|type|nic|tags|key|value|jobid|jobstatus|jobresult|virtualmachine|\
                    cpunumber|memory|isready|disksize|capability|domainid|zoneid|errorcode|errortext)";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z0-9-]{0,8}".prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(3, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(name, inner, 0..5).prop_map(Value::from_iter),
            ]
        });
        prop::collection::hash_map(name, value, 0..10).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn any_object_is_read_or_refused(object in any_object()) {
            let item = Item(&object);
            let _ = (zone(item), domain(item), account(item), user(item), network(item), template(item));
            let _ = (service_offering(item), disk_offering(item), affinity_group(item), virtual_machine(item));
            let _ = (started(item), job(item), capabilities(item));
        }
    }
}
