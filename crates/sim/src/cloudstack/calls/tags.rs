//! Tags of machines, and affinity groups that come and go.

use serde_json::{Map, Value, json};

use super::{Call, Said};
use crate::cloudstack::wire::refusal::Refusal;
use crate::cloudstack::world::World;
use crate::cloudstack::world::machine::{End, State};
use crate::cloudstack::world::things::{AffinityGroup, object};
use crate::time::later;

/// Takes the machines a call is about.
fn machines(world: &World, call: &mut Call) -> Result<Vec<String>, Refusal> {
    let kind = call.params.text("resourcetype").unwrap_or_default();
    if !kind.eq_ignore_ascii_case("UserVm") {
        return Err(Refusal::invalid(format!("the simulator has tags of UserVm only, not of {kind}")));
    }
    let ids = call.params.list("resourceids");
    let known = |id: &&String| {
        world.machines.get(*id).is_some_and(|machine| {
            let own = machine.account == call.caller.name && machine.domain == call.caller.domain;
            machine.state_at(call.now) != State::Gone
                && (own || call.caller.role != crate::cloudstack::world::things::Role::User)
        })
    };
    match ids.iter().find(|id| !known(id)) {
        Some(id) => Err(Refusal::invalid(format!("Unable to find resource by id {id} and type UserVm"))),
        None => Ok(ids),
    }
}

fn finished(world: &mut World, call: &Call, end: End) -> Said {
    let ends = later(call.now, world.settings.delays.other);
    let job = call.begin(world, None, ends, end);
    Ok(object(json!({"jobid": job})))
}

pub(super) fn create(world: &mut World, call: &mut Call) -> Said {
    let (ids, tags) = (machines(world, call)?, call.params.map("tags")?);
    call.params.clone().finish()?;
    let taken = ids.iter().find_map(|id| {
        let machine = world.machines.get(id)?;
        tags.keys().find(|key| machine.tags.contains_key(*key)).map(|key| (key.clone(), id.clone()))
    });
    if let Some((key, id)) = taken {
        return finished(world, call, End::Failure(530, format!("tag {key} already on UserVm with id {id}")));
    }
    if call.quirks.fail_job.is_none() {
        for id in &ids {
            if let Some(machine) = world.machines.get_mut(id) {
                machine.tags.extend(tags.iter().map(|(key, value)| (key.clone(), value.clone().unwrap_or_default())));
            }
        }
    }
    finished(world, call, End::Success)
}

pub(super) fn delete(world: &mut World, call: &mut Call) -> Said {
    let (ids, tags) = (machines(world, call)?, call.params.map("tags")?);
    call.params.clone().finish()?;
    let fits = |key: &String, value: &String| {
        tags.is_empty() || tags.get(key).is_some_and(|wanted| wanted.as_ref().is_none_or(|wanted| wanted == value))
    };
    if call.quirks.fail_job.is_none() {
        for id in &ids {
            if let Some(machine) = world.machines.get_mut(id) {
                machine.tags.retain(|key, value| !fits(key, value));
            }
        }
    }
    finished(world, call, End::Success)
}

pub(super) fn list(world: &World, call: &mut Call) -> Said {
    let (id, kind) = (call.params.text("resourceid"), call.params.text("resourcetype"));
    let (key, value, whose) = (call.params.text("key"), call.params.text("value"), call.whose(world)?);
    let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
    let machines = world.machines.values().filter(|machine| {
        machine.state_at(call.now) != State::Gone
            && whose.shows(&machine.account, &machine.domain)
            && is(&id, &machine.id)
    });
    let tags = machines.flat_map(|machine| machine.tags.iter().map(move |tag| (machine, tag)));
    let shown: Vec<Map<String, Value>> = tags
        .filter(|(_, (name, content))| {
            is(&key, name)
                && is(&value, content)
                && kind.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case("UserVm"))
        })
        .map(|(machine, (name, content))| {
            object(json!({"key": name, "value": content, "resourcetype": "UserVm", "resourceid": machine.id,
                          "account": machine.account}))
        })
        .collect();
    call.page(world, "tag", shown)
}

pub(super) fn create_group(world: &mut World, call: &mut Call) -> Said {
    let name = call.params.text("name").unwrap_or_default();
    let kind = call.params.text("type").unwrap_or_default();
    let _ = call.params.text("description");
    let (account, domain) = match (call.params.text("account"), call.domain(world)?) {
        (Some(account), Some(domain)) => (account, domain),
        (None, None) => (call.caller.name.clone(), call.caller.domain.clone()),
        _ => return Err(Refusal::invalid("account and domainid must be specified together")),
    };
    call.params.clone().finish()?;
    if !["host anti-affinity", "host affinity", "non-strict host anti-affinity", "non-strict host affinity"]
        .contains(&kind.as_str())
    {
        return Err(Refusal::invalid(format!("Unable to create affinity group, invalid affinity group type {kind}")));
    }
    if world.groups.iter().any(|group| group.name == name && group.account == account && group.domain == domain) {
        let text = format!("Unable to create affinity group, a group with name {name} already exists.");
        return Err(Refusal::invalid(text));
    }
    let group = AffinityGroup { id: world.rng.uid(), name, kind, account, domain };
    let id = group.id.clone();
    let shown = world.domain(&group.domain).map(|domain| group.json(domain)).unwrap_or_default();
    if call.quirks.fail_job.is_none() {
        world.groups.push(group);
    }
    let ends = later(call.now, world.settings.delays.other);
    let job = call.begin(world, Some(("AffinityGroup", id.clone())), ends, End::Thing("affinitygroup", shown));
    Ok(object(json!({"id": id, "jobid": job})))
}

pub(super) fn delete_group(world: &mut World, call: &mut Call) -> Said {
    let id = call.id("id", |id| world.groups.iter().any(|group| group.id == id))?;
    let id = id.ok_or_else(|| Refusal::invalid("the simulator deletes affinity groups by id only"))?;
    call.params.clone().finish()?;
    if call.quirks.fail_job.is_none() {
        world.groups.retain(|group| group.id != id);
    }
    finished(world, call, End::Success)
}
