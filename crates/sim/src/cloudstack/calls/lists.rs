//! Lists of what is there from the beginning: zones, domains, accounts, networks, templates, offerings, groups.

use serde_json::{Map, Value, json};

use super::{Call, Said, Whose};
use crate::cloudstack::wire::refusal::Refusal;
use crate::cloudstack::world::World;
use crate::cloudstack::world::things::{Domain, Role, object};

/// `name` is exact, `keyword` is any part of the name.
struct Named {
    name: Option<String>,
    keyword: Option<String>,
}

impl Named {
    fn take(call: &mut Call) -> Self {
        Self { name: call.params.text("name"), keyword: call.params.text("keyword") }
    }

    fn fits(&self, name: &str) -> bool {
        let part = |word: &String| name.to_lowercase().contains(&word.to_lowercase());
        self.name.as_ref().is_none_or(|wanted| wanted == name) && self.keyword.as_ref().is_none_or(part)
    }
}

fn is(wanted: Option<&String>, value: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == value)
}

pub(super) fn capabilities() -> Said {
    Ok(object(json!({"capability": {
        "securitygroupsenabled": false, "dynamicrolesenabled": true, "cloudstackversion": "4.20.3.1",
        "userpublictemplateenabled": true, "supportELB": "false", "projectinviterequired": false,
        "allowusercreateprojects": true, "customdiskofferingminsize": 1, "customdiskofferingmaxsize": 1024,
    }})))
}

pub(super) fn zones(world: &World, call: &mut Call) -> Said {
    let id = call.id("id", |id| world.zones.iter().any(|zone| zone.id == id))?;
    let named = Named::take(call);
    let available = call.params.flag("available");
    // Only administrators are told of zones that take nobody's machines.
    let admin = call.caller.role == Role::Admin;
    let zones = world.zones.iter().filter(|zone| {
        is(id.as_ref(), &zone.id)
            && named.fits(&zone.name)
            && (admin || zone.enabled)
            && available.is_none_or(|available| !available || zone.enabled)
    });
    let shown = zones.map(|zone| zone.json()).collect();
    call.page(world, "zone", shown)
}

pub(super) fn domains(world: &World, call: &mut Call) -> Said {
    let id = call.id("id", |id| world.domains.iter().any(|domain| domain.id == id))?;
    let (named, level) = (Named::take(call), call.params.number("level")?);
    let all = call.params.flag("listall") == Some(true);
    let own = call.caller.domain.clone();
    let shown = world.domains.iter().filter(|domain| {
        let visible = match call.caller.role {
            Role::Admin => all || id.is_some() || domain.path == own,
            _ => Whose::Below(own.clone()).shows("", &domain.path) && (all || id.is_some() || domain.path == own),
        };
        let depth = u64::try_from(domain.path.matches('/').count()).unwrap_or(0);
        visible && is(id.as_ref(), &domain.id) && named.fits(domain.name()) && level.is_none_or(|level| level == depth)
    });
    let json = |domain: &Domain| {
        let parent = domain.path.rsplit_once('/').and_then(|(parent, _)| world.domain(parent));
        let has_child = world.domains.iter().any(|other| other.path != domain.path && domain.holds(&other.path));
        domain.json(parent, has_child)
    };
    let shown = shown.map(json).collect();
    call.page(world, "domain", shown)
}

pub(super) fn accounts(world: &World, call: &mut Call) -> Said {
    let id = call.id("id", |id| world.accounts.iter().any(|account| account.id == id))?;
    let (named, state) = (Named::take(call), call.params.text("state"));
    let whose = match call.domain(world)? {
        Some(domain) => Whose::Of(domain),
        None => call.whose(world)?,
    };
    let _ = call.params.flag("listall");
    let shown = world.accounts.iter().filter(|account| {
        let own = account.id == call.caller.id;
        let visible = if call.caller.role == Role::User { own } else { whose.shows(&account.name, &account.domain) };
        visible && is(id.as_ref(), &account.id) && named.fits(&account.name) && is(state.as_ref(), &account.state)
    });
    let json = |account: &crate::cloudstack::world::things::Account| {
        let machines = world.machines.values().filter(|machine| {
            machine.account == account.name
                && machine.domain == account.domain
                && machine.state_at(call.now).is_living()
        });
        Some(account.json(world.domain(&account.domain)?, machines.count()))
    };
    let shown: Vec<Map<String, Value>> = shown.filter_map(json).collect();
    call.page(world, "account", shown)
}

pub(super) fn users(world: &World, call: &mut Call) -> Said {
    let id = call.id("id", |id| world.accounts.iter().any(|account| account.user_id == id))?;
    let (username, keyword) = (call.params.text("username"), call.params.text("keyword"));
    let named = Named { name: username, keyword };
    let whose = call.whose(world)?;
    let shown: Vec<Map<String, Value>> = world
        .accounts
        .iter()
        .filter(|one| whose.shows(&one.name, &one.domain) && is(id.as_ref(), &one.user_id) && named.fits(&one.name))
        .filter_map(|account| {
            let mut user = account.user(world.domain(&account.domain)?);
            // A key is shown to nobody but its owner.
            if account.id != call.caller.id {
                user.remove("apikey");
            }
            Some(user)
        })
        .collect();
    call.page(world, "user", shown)
}

pub(super) fn user(world: &World, call: &mut Call) -> Said {
    let key = call.params.text("userapikey").unwrap_or_default();
    call.params.clone().finish()?;
    let account = world.accounts.iter().find(|account| account.api_key == key);
    let found = account.and_then(|account| Some(account.user(world.domain(&account.domain)?)));
    let user = found.ok_or_else(|| Refusal::invalid("Could not find user with the specified api key"))?;
    Ok(object(json!({"user": user})))
}

pub(super) fn networks(world: &World, call: &mut Call) -> Said {
    let id = call.id("id", |id| world.networks.iter().any(|network| network.id == id))?;
    let zone = call.id("zoneid", |id| world.zones.iter().any(|zone| zone.id == id))?;
    let (named, kind, whose) = (Named::take(call), call.params.text("type"), call.whose(world)?);
    let can_deploy = call.params.flag("canusefordeploy");
    let shown = world.networks.iter().filter(|network| {
        let visible = network.kind == "Shared" || whose.shows(&network.account, &network.domain);
        let kind = kind.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case(&network.kind));
        visible
            && kind
            && can_deploy != Some(false)
            && is(id.as_ref(), &network.id)
            && is(zone.as_ref(), &network.zone)
            && named.fits(&network.name)
    });
    let name = |id: &str| world.zones.iter().find(|zone| zone.id == id).map_or("", |zone| zone.name.as_str());
    let shown: Vec<Map<String, Value>> =
        shown.filter_map(|network| Some(network.json(name(&network.zone), world.domain(&network.domain)?))).collect();
    call.page(world, "network", shown)
}

pub(super) fn templates(world: &World, call: &mut Call) -> Said {
    let filter = call.params.text("templatefilter").unwrap_or_default();
    match filter.as_str() {
        "executable" | "self" | "selfexecutable" | "featured" | "community" | "sharedexecutable" => {}
        "all" if call.caller.role == Role::Admin => {}
        "all" => return Err(Refusal::invalid("Filter all can be specified by root admin only")),
        other => return Err(Refusal::invalid(format!("Invalid template filter specified: {other}"))),
    }
    let id = call.id("id", |id| world.templates.iter().any(|template| template.id == id))?;
    let zone = call.id("zoneid", |id| world.zones.iter().any(|zone| zone.id == id))?;
    let (named, whose) = (Named::take(call), call.whose(world)?);
    let mut shown: Vec<Map<String, Value>> = Vec::new();
    for template in &world.templates {
        let own = whose.shows(&template.account, &template.domain);
        let visible = match filter.as_str() {
            "all" => true,
            "self" => own,
            "selfexecutable" => own && template.ready,
            "executable" => (own || template.public) && template.ready,
            "community" => template.public,
            _ => false,
        };
        // A template that is asked for by id is shown whatever its state, so that its state can be told.
        let visible = visible || (id.is_some() && (own || template.public));
        if !visible || !is(id.as_ref(), &template.id) || !named.fits(&template.name) {
            continue;
        }
        for place in
            world.zones.iter().filter(|place| template.zones.contains(&place.id) && is(zone.as_ref(), &place.id))
        {
            shown.extend(world.domain(&template.domain).map(|domain| template.json(place, domain)));
        }
    }
    call.page(world, "template", shown)
}

pub(super) fn service_offerings(world: &World, call: &mut Call) -> Said {
    let id = call.id("id", |id| world.offerings.iter().any(|offering| offering.id == id))?;
    call.id("zoneid", |id| world.zones.iter().any(|zone| zone.id == id))?;
    let named = Named::take(call);
    let _ = (call.params.flag("listall"), call.params.flag("issystem"));
    let shown = world.offerings.iter().filter(|one| is(id.as_ref(), &one.id) && named.fits(&one.name));
    let shown = shown.map(|offering| offering.json()).collect();
    call.page(world, "serviceoffering", shown)
}

pub(super) fn disk_offerings(world: &World, call: &mut Call) -> Said {
    let id = call.id("id", |id| world.disks.iter().any(|disk| disk.id == id))?;
    call.id("zoneid", |id| world.zones.iter().any(|zone| zone.id == id))?;
    let named = Named::take(call);
    let _ = call.params.flag("listall");
    let shown = world.disks.iter().filter(|one| is(id.as_ref(), &one.id) && named.fits(&one.name));
    let shown = shown.map(|disk| disk.json()).collect();
    call.page(world, "diskoffering", shown)
}

pub(super) fn affinity_groups(world: &World, call: &mut Call) -> Said {
    let id = call.id("id", |id| world.groups.iter().any(|group| group.id == id))?;
    let (named, kind, whose) = (Named::take(call), call.params.text("type"), call.whose(world)?);
    let shown = world.groups.iter().filter(|group| {
        whose.shows(&group.account, &group.domain)
            && is(id.as_ref(), &group.id)
            && is(kind.as_ref(), &group.kind)
            && named.fits(&group.name)
    });
    let shown: Vec<Map<String, Value>> =
        shown.filter_map(|group| Some(group.json(world.domain(&group.domain)?))).collect();
    call.page(world, "affinitygroup", shown)
}
