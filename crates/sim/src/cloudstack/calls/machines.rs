//! Virtual machines: made, listed, started, stopped, thrown away; and the jobs that do it.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Call, Said};
use crate::cloudstack::wire::refusal::Refusal;
use crate::cloudstack::world::World;
use crate::cloudstack::world::machine::{End, Machine, State};
use crate::cloudstack::world::things::{Role, object};
use crate::time::{History, later};

/// The most user data in a URL, encoded.
const URL_DATA: usize = 4096;

/// The most user data in a form, encoded.
const FORM_DATA: usize = 1_048_576;

const KIND: &str = "VirtualMachine";

fn visible(machine: &Machine, now: Timestamp) -> bool {
    machine.created <= now && machine.state_at(now) != State::Gone
}

pub(super) fn list(world: &World, call: &mut Call) -> Said {
    let now = call.now;
    let exists = |id: &str| world.machines.get(id).is_some_and(|machine| visible(machine, now));
    let (id, ids) = (call.id("id", exists)?, call.ids("ids", exists)?);
    let zone = call.id("zoneid", |id| world.zones.iter().any(|zone| zone.id == id))?;
    let network = call.id("networkid", |id| world.networks.iter().any(|network| network.id == id))?;
    let template = call.id("templateid", |id| world.templates.iter().any(|template| template.id == id))?;
    let group = call.id("affinitygroupid", |id| world.groups.iter().any(|group| group.id == id))?;
    let (name, keyword) = (call.params.text("name"), call.params.text("keyword"));
    let (state, tags, whose) = (call.params.text("state"), call.params.map("tags")?, call.whose(world)?);
    // What is shown of each machine is not reduced.
    let _ = call.params.list("details");
    let part = |wanted: &Option<String>, machine: &Machine| {
        wanted.as_ref().is_none_or(|word| {
            [&machine.name, &machine.display_name].iter().any(|name| name.to_lowercase().contains(&word.to_lowercase()))
        })
    };
    let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
    let in_state = |machine: &Machine| match state.as_deref() {
        None => true,
        Some("Present") => machine.state_at(now).is_living(),
        Some(wanted) => wanted.eq_ignore_ascii_case(machine.state_at(now).as_str()),
    };
    let tagged = |machine: &Machine| {
        tags.iter().all(|(key, value)| {
            machine.tags.get(key).is_some_and(|found| value.as_ref().is_none_or(|value| value == found))
        })
    };
    let mut shown: Vec<&Machine> = world
        .machines
        .values()
        .filter(|machine| {
            visible(machine, now)
                && whose.shows(&machine.account, &machine.domain)
                && is(&id, &machine.id)
                && (ids.is_empty() || ids.contains(&machine.id))
                && is(&zone, &machine.zone)
                && is(&template, &machine.template)
                && network.as_ref().is_none_or(|id| machine.networks.iter().any(|(network, _)| network == id))
                && group.as_ref().is_none_or(|id| machine.groups.contains(id))
                && part(&name, machine)
                && part(&keyword, machine)
                && in_state(machine)
                && tagged(machine)
        })
        .collect();
    shown.sort_by_key(|machine| machine.number);
    let shown: Vec<Map<String, Value>> = shown.into_iter().map(|machine| world.machine_json(machine, now)).collect();
    call.page(world, "virtualmachine", shown)
}

pub(super) fn deploy(world: &mut World, call: &mut Call) -> Said {
    let now = call.now;
    let zone = call.id("zoneid", |id| world.zones.iter().any(|zone| zone.id == id))?.unwrap_or_default();
    let offering =
        call.id("serviceofferingid", |id| world.offerings.iter().any(|one| one.id == id))?.unwrap_or_default();
    let template = call.id("templateid", |id| world.templates.iter().any(|template| template.id == id))?;
    let template = template.ok_or_else(|| Refusal::missing(call.params.command(), "templateid"))?;
    let networks = call.ids("networkids", |id| world.networks.iter().any(|network| network.id == id))?;
    let groups = call.ids("affinitygroupids", |id| world.groups.iter().any(|group| group.id == id))?;
    let disk = call.id("diskofferingid", |id| world.disks.iter().any(|disk| disk.id == id))?;
    let size = call.params.number("size")?;
    let name = call.params.text("name");
    let display_name = call.params.text("displayname");
    let starts = call.params.flag("startvm") != Some(false);
    let user_data = user_data(world, call)?;
    let owner = match (call.params.text("account"), call.domain(world)?) {
        (None, None) => (call.caller.name.clone(), call.caller.domain.clone()),
        (Some(account), Some(domain)) => {
            if !world.accounts.iter().any(|one| one.name == account && one.domain == domain) {
                return Err(Refusal::invalid(format!("Unable to find account {account} in domain {domain}")));
            }
            if call.caller.role == Role::User && account != call.caller.name {
                return Err(Refusal::access(&call.caller.name));
            }
            (account, domain)
        }
        _ => return Err(Refusal::invalid("account and domainid must be specified together")),
    };
    call.params.clone().finish()?;
    if networks.is_empty() {
        return Err(Refusal::invalid("the simulator makes no network by itself: send networkids"));
    }
    check_place(world, call, &zone, &template, &networks)?;
    let disk = disk_size(world, disk, size)?;
    let number = world.serial + 1;
    let id = world.rng.uid();
    let name = name.unwrap_or_else(|| format!("VM-{id}"));
    check_name(world, now, &name, &networks)?;
    let living = world
        .machines
        .values()
        .filter(|machine| machine.account == owner.0 && machine.domain == owner.1 && machine.state_at(now).is_living());
    if living.count() >= world.settings.machine_quota {
        let text = format!(
            "Maximum amount of resources of Type = 'user_vm' for Account Name = '{}' has been exceeded.",
            owner.0
        );
        return Err(Refusal::new(535, Some(4370), text));
    }
    world.serial = number;
    let addresses = networks.iter().map(|network| (network.clone(), address(world, network, number))).collect();
    let crowded = groups.iter().any(|group| is_full(world, now, group, &zone));
    let ends = later(now, world.settings.delays.deploy);
    let failed = crowded || call.quirks.fail_job.is_some();
    let mut state = History::new(now, if starts { State::Starting } else { State::Stopped });
    if !call.quirks.hang_job {
        match (failed, starts) {
            (true, _) => state.set(ends, State::Error),
            (false, true) => state.set(ends, State::Running),
            (false, false) => {}
        }
    }
    let machine = Machine {
        id: id.clone(),
        number,
        display_name: display_name.unwrap_or_else(|| name.clone()),
        name,
        account: owner.0,
        domain: owner.1,
        zone,
        template,
        offering,
        networks: addresses,
        groups,
        disk,
        user_data,
        created: now,
        state,
        tags: BTreeMap::new(),
        busy: ends,
    };
    world.machines.insert(id.clone(), machine);
    let end = if crowded {
        let text = format!(
            "No destination found for a deployment for VM instance {{\"id\":{number},\"uuid\":\"{id}\"}}, Please check \
             the affinity groups provided, there may not be sufficient capacity to follow them"
        );
        End::Failure(533, text)
    } else {
        End::Machine(id.clone())
    };
    let job = call.begin(world, Some((KIND, id.clone())), ends, end);
    Ok(object(json!({"id": id, "jobid": job})))
}

fn user_data(world: &World, call: &mut Call) -> Result<Vec<u8>, Refusal> {
    let Some(encoded) = call.params.text("userdata") else { return Ok(Vec::new()) };
    let most = if call.is_get { URL_DATA } else { FORM_DATA };
    if encoded.len() > most {
        return Err(Refusal::invalid(format!("User data is too long for an http request: more than {most}")));
    }
    let data = STANDARD.decode(&encoded).map_err(|_| Refusal::invalid("User data is not base64 encoded"))?;
    if data.len() > world.settings.user_data {
        let text = format!("User data has exceeded configurable max length : {}", world.settings.user_data);
        return Err(Refusal::invalid(text));
    }
    Ok(data)
}

fn check_place(world: &World, call: &Call, zone: &str, template: &str, networks: &[String]) -> Result<(), Refusal> {
    let place = world.zones.iter().find(|one| one.id == zone);
    if place.is_some_and(|zone| !zone.enabled) && call.caller.role != Role::Admin {
        let text = format!("Cannot perform this operation, Zone is currently disabled: {zone}");
        return Err(Refusal::new(531, Some(4365), text));
    }
    let image = world.templates.iter().find(|one| one.id == template);
    if image.is_some_and(|image| !image.ready || !image.zones.contains(&zone.to_owned())) {
        return Err(Refusal::invalid(format!(
            "Template {template} has not been completely downloaded to the zone {zone}"
        )));
    }
    let elsewhere = |id: &&String| world.networks.iter().any(|network| network.id == **id && network.zone != zone);
    match networks.iter().find(elsewhere) {
        Some(network) => Err(Refusal::invalid(format!("Network id={network} doesn't belong to zone {zone}"))),
        None => Ok(()),
    }
}

fn disk_size(world: &World, id: Option<String>, size: Option<u64>) -> Result<Option<(String, u64)>, Refusal> {
    let Some(id) = id else { return Ok(None) };
    let fixed = world.disks.iter().find(|disk| disk.id == id).and_then(|disk| disk.size);
    match (fixed, size) {
        (None, Some(size)) if size > 0 => Ok(Some((id, size))),
        (None, _) => Err(Refusal::invalid("Disk offering requires size parameter.")),
        (Some(fixed), None) => Ok(Some((id, u64::from(fixed)))),
        (Some(_), Some(_)) => Err(Refusal::invalid("This disk offering does not allow custom size")),
    }
}

fn check_name(world: &World, now: Timestamp, name: &str, networks: &[String]) -> Result<(), Refusal> {
    let label = (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !label {
        return Err(Refusal::invalid(
            "Invalid name. Vm name can contain ASCII letters 'a' through 'z', the digits '0' through '9', and the hyphen ('-')",
        ));
    }
    let taken = world.machines.values().filter(|machine| machine.name == name && machine.state_at(now).is_living());
    let clash = taken.flat_map(|machine| &machine.networks).find(|(network, _)| networks.contains(network));
    match clash {
        Some((network, _)) => {
            let network = world.networks.iter().find(|one| one.id == *network).map_or("", |one| one.name.as_str());
            let text = format!(
                "The vm with hostName {name} already exists in the network domain: cs2cloud.internal; network={network}"
            );
            Err(Refusal::invalid(text))
        }
        None => Ok(()),
    }
}

fn address(world: &World, network: &str, number: u64) -> String {
    let prefix = world.networks.iter().find(|one| one.id == network).map_or("10.0.0", |one| one.prefix.as_str());
    format!("{prefix}.{}", 2 + number % 250)
}

/// Whether every host of a zone has a machine of a group that keeps them apart.
fn is_full(world: &World, now: Timestamp, group: &str, zone: &str) -> bool {
    let apart = world.groups.iter().any(|one| one.id == group && one.kind.contains("anti-affinity"));
    let members = world.machines.values().filter(|machine| {
        machine.zone == zone && machine.groups.iter().any(|one| one == group) && machine.state_at(now).is_living()
    });
    apart && members.count() >= world.settings.hosts
}

/// Takes the machine a command is about. A machine that is gone is known by its number only, as the server has it.
fn machine(world: &World, call: &mut Call) -> Result<String, Refusal> {
    let id = call.params.text("id").unwrap_or_default();
    let Some(machine) = world.machines.get(&id) else { return Err(call.no_such("id", &id)) };
    let own = machine.account == call.caller.name && machine.domain == call.caller.domain;
    if call.caller.role == Role::User && !own {
        return Err(Refusal::access(&call.caller.name));
    }
    if machine.state_at(call.now) == State::Gone {
        let text = format!("Unable to find UUID for id [{}] of type [VirtualMachine]", machine.number);
        return Err(Refusal::invalid(text));
    }
    Ok(id)
}

/// Changes a machine through `path`, one state after the other; the change begins when the job before it has ended.
fn change(
    world: &mut World,
    call: &mut Call,
    takes: Duration,
    begin: impl FnOnce(State) -> Result<Vec<State>, (u16, String)>,
) -> Said {
    let id = machine(world, call)?;
    call.params.clone().finish()?;
    let now = call.now;
    let (failed, hangs) = (call.quirks.fail_job.is_some(), call.quirks.hang_job);
    let Some(machine) = world.machines.get_mut(&id) else { return Err(call.no_such("id", &id)) };
    let from = machine.busy.max(now);
    let ends = later(from, takes);
    let end = match begin(machine.state_at(from)) {
        Err((code, text)) => End::Failure(code, text),
        Ok(path) => {
            if !failed {
                if let Some(first) = path.first() {
                    machine.state.set(from, *first);
                }
                if let Some(last) = path.get(1).filter(|_| !hangs) {
                    machine.state.set(ends, *last);
                }
            }
            End::Machine(id.clone())
        }
    };
    machine.busy = ends;
    let job = call.begin(world, Some((KIND, id)), ends, end);
    Ok(object(json!({"jobid": job})))
}

fn wrong(state: State) -> (u16, String) {
    (530, format!("the machine is {} and cannot do this", state.as_str()))
}

pub(super) fn start(world: &mut World, call: &mut Call) -> Said {
    let takes = world.settings.delays.power;
    change(world, call, takes, |state| match state {
        State::Stopped => Ok(vec![State::Starting, State::Running]),
        State::Running => Ok(Vec::new()),
        other => Err(wrong(other)),
    })
}

pub(super) fn stop(world: &mut World, call: &mut Call) -> Said {
    let _ = call.params.flag("forced");
    let takes = world.settings.delays.power;
    change(world, call, takes, |state| match state {
        State::Running => Ok(vec![State::Stopping, State::Stopped]),
        State::Stopped => Ok(Vec::new()),
        other => Err(wrong(other)),
    })
}

pub(super) fn reboot(world: &mut World, call: &mut Call) -> Said {
    let _ = call.params.flag("forced");
    let takes = world.settings.delays.power;
    change(world, call, takes, |state| match state {
        // The server shows a machine that restarts as running all the time.
        State::Running => Ok(vec![State::Running]),
        other => Err(wrong(other)),
    })
}

pub(super) fn destroy(world: &mut World, call: &mut Call) -> Said {
    let expunge = call.params.flag("expunge") == Some(true);
    let delays = &world.settings.delays;
    let takes = if expunge { delays.expunge } else { delays.power };
    let path = if expunge { [State::Expunging, State::Gone] } else { [State::Stopping, State::Destroyed] };
    change(world, call, takes, move |state| match state {
        State::Destroyed if !expunge => Ok(Vec::new()),
        State::Expunging | State::Gone => Ok(Vec::new()),
        _ => Ok(path.to_vec()),
    })
}

pub(super) fn expunge(world: &mut World, call: &mut Call) -> Said {
    let takes = world.settings.delays.expunge;
    change(world, call, takes, |state| match state {
        State::Destroyed => Ok(vec![State::Expunging, State::Gone]),
        other => Err(wrong(other)),
    })
}

pub(super) fn job(world: &World, call: &mut Call) -> Said {
    let id = call.params.text("jobid").unwrap_or_default();
    call.params.clone().finish()?;
    let job = world.jobs.get(&id).ok_or_else(|| call.no_such("jobid", &id))?;
    let own = job.owner == (call.caller.name.clone(), call.caller.domain.clone());
    if call.caller.role == Role::User && !own {
        return Err(Refusal::access(&call.caller.name));
    }
    Ok(world.job_json(job, call.now))
}
