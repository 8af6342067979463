//! Dedicated hosts.

use super::super::catalogue::{InstanceType, is_mac, offered};
use super::super::wire::refusal::Refusal;
use super::super::wire::xml::Xml;
use super::super::world::filters::{Filters, tag_values};
use super::super::world::host::{Allocation, Host, HostKind, HostState, ItemRefusal};
use super::super::world::time::{later, written};
use super::super::world::tokens::{self, Scope};
use super::Call;
use super::shared::{all_found, check_ids, tag_specifications, tags_at, write_tags};

const ON_OFF: &[&str] = &["on", "off"];

pub(super) fn allocate(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let zone = zone(call)?;
    let kind = call.fields.text("InstanceType")?;
    let family = call.fields.text("InstanceFamily")?;
    let quantity = call.fields.text("Quantity")?;
    let placement = call.fields.text("AutoPlacement")?;
    let recovery = call.fields.one_of("HostRecovery", ON_OFF)?;
    let maintenance = call.fields.one_of("HostMaintenance", ON_OFF)?;
    let outpost = call.fields.text("OutpostArn")?;
    let assets = call.fields.texts("AssetId")?;
    let token = call.fields.text("ClientToken")?;
    let [tags] = tag_specifications(&mut call.fields, ["dedicated-host"])?;
    call.finish(None)?;
    let auto_placement = match placement.as_deref() {
        // Documentation contradicts itself on the default; the careful reading is the one that lets strangers in.
        None | Some("on") => true,
        Some("off") => false,
        Some(other) => {
            let text = format!("The specified value for auto-placement is not valid: {other}");
            return Err(Refusal::bad("InvalidAutoPlacement", text));
        }
    };
    let quantity = match (quantity, assets.len()) {
        (None, 0) => return Err(Refusal::missing("Quantity")),
        (None, n) => u32::try_from(n).unwrap_or(u32::MAX),
        (Some(text), n) => match text.parse::<u32>() {
            Ok(wanted) if wanted > 0 && (n == 0 || u32::try_from(n) == Ok(wanted)) => wanted,
            _ => {
                let text = format!("The specified quantity of Dedicated Hosts is not valid: {text}");
                return Err(Refusal::bad("InvalidQuantity", text));
            }
        },
    };
    if !assets.is_empty() && outpost.is_none() {
        return Err(Refusal::combination("The parameter AssetIds cannot be used without the parameter OutpostArn"));
    }
    let (kind, server) = host_kind(call.types, kind, family, &zone)?;
    if recovery.as_deref() == Some("on") && is_mac(kind.family()) {
        let text = "Host recovery is not supported for mac hosts";
        return Err(Refusal::bad("UnsupportedHostConfiguration", text));
    }
    let scope = match &token {
        None => None,
        Some(token) => {
            tokens::check(token)?;
            Some(Scope { action: call.action.to_owned(), zone: zone.clone(), token: token.clone() })
        }
    };
    let parameters = tokens::compared(call.raw);
    if let Some(scope) = &scope
        && let Some(ids) = call.place.tokens.earlier(scope, &parameters, call.now)?
    {
        xml.texts("hostIdSet", ids);
        return Ok(());
    }
    if call.script.is_short(call.subject) {
        return Err(Refusal::new(500, "InsufficientHostCapacity", "Insufficient capacity."));
    }
    check_quota(call, kind.family(), quantity)?;
    let wish = Allocation {
        zone,
        kind,
        server,
        quantity: call.quirks.partial.map_or(quantity, |most| most.min(quantity)),
        auto_placement,
        recovery: recovery.as_deref() == Some("on"),
        maintenance: maintenance.as_deref() == Some("on"),
        client_token: token,
        outpost,
        assets,
        tags,
    };
    let ids = call.place.allocate(call.now, &wish, call.settings, call.rng);
    if let Some(scope) = scope {
        let until = later(call.now, call.settings.token_memory);
        call.place.tokens.remember(scope, parameters, ids.clone(), until);
    }
    xml.texts("hostIdSet", ids);
    Ok(())
}

/// The zone a request names, by name or by id.
fn zone(call: &mut Call<'_>) -> Result<String, Refusal> {
    let name = call.fields.text("AvailabilityZone")?;
    let id = call.fields.text("AvailabilityZoneId")?;
    let region = call.place.region;
    let unknown = |zone: &str| Refusal::bad("InvalidParameterValue", format!("Invalid availability zone: [{zone}]"));
    match (name, id) {
        (Some(_), Some(_)) => {
            Err(Refusal::combination("The parameters AvailabilityZone and AvailabilityZoneId cannot be used together"))
        }
        (None, None) => Err(Refusal::missing("AvailabilityZone")),
        (Some(zone), None) => {
            if region.zones().any(|known| known == zone) {
                Ok(zone)
            } else {
                Err(unknown(&zone))
            }
        }
        (None, Some(id)) => region.zone_of_id(&id).ok_or_else(|| unknown(&id)),
    }
}

fn host_kind(
    types: &[InstanceType],
    kind: Option<String>,
    family: Option<String>,
    zone: &str,
) -> Result<(HostKind, super::super::catalogue::Server), Refusal> {
    let not_here = |what: &str| {
        Refusal::bad(
            "UnsupportedHostConfiguration",
            format!("Dedicated Hosts for {what} are not supported in the Availability Zone {zone}"),
        )
    };
    match (kind, family) {
        (Some(_), Some(_)) => {
            Err(Refusal::combination("The parameters InstanceType and InstanceFamily cannot be used together"))
        }
        (None, None) => Err(Refusal::missing("InstanceType")),
        (Some(name), None) => {
            let known = types.iter().find(|t| t.name == name).ok_or_else(|| {
                Refusal::bad("InvalidParameterValue", format!("Invalid value '{name}' for InstanceType."))
            })?;
            match known.server {
                Some(server) if offered(&name, zone) => Ok((HostKind::Type(name), server)),
                _ => Err(not_here(&name)),
            }
        }
        (None, Some(name)) => {
            let members: Vec<&InstanceType> = types.iter().filter(|t| t.family() == name).collect();
            let Some(first) = members.first() else {
                let text = format!("Invalid value '{name}' for InstanceFamily.");
                return Err(Refusal::bad("InvalidParameterValue", text));
            };
            let Some(server) = first.server.filter(|_| offered(&first.name, zone)) else {
                return Err(not_here(&name));
            };
            if !first.by_family {
                let text = format!(
                    "The specified Dedicated Host configuration is not supported: {name} hosts need an instance type"
                );
                return Err(Refusal::bad("InvalidHostConfiguration", text));
            }
            Ok((HostKind::Family(name), server))
        }
    }
}

fn check_quota(call: &Call<'_>, family: &str, quantity: u32) -> Result<(), Refusal> {
    let total = call.place.counted(family, call.now, call.settings).saturating_add(quantity);
    let limit = call.settings.quota(family);
    if total <= limit {
        return Ok(());
    }
    Err(Refusal::bad(
        "HostLimitExceeded",
        format!(
            "The number of Dedicated hosts you've requested ({quantity}) would bring your total up to {total} for the \
             specified group of instance types ({family}). This exceeds your current limit of {limit}. If you've recently \
             released Dedicated hosts, it may take some time for them to stop counting towards your limit. Try allocating \
             your hosts again after a few minutes. Please visit http://aws.amazon.com/contact-us/ec2-request to request an \
             adjustment to this limit."
        ),
    ))
}

/// Filters by `tag:<key>` are not documented here and so not known.
const FILTERS: &[&str] = &[
    "auto-placement",
    "availability-zone",
    "client-token",
    "host-reservation-id",
    "instance-type",
    "state",
    "tag-key",
];

pub(super) fn describe(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = call.fields.texts("HostId")?;
    let filters = Filters::parse(&mut call.fields, FILTERS)?;
    let paging = call.paging(5, 500)?;
    call.finish(None)?;
    Call::not_both(&ids, &paging, "hostIdSet")?;
    check_ids(&ids, "h", "InvalidHostID.Malformed")?;
    let (view, keep) = (call.view, call.settings.released_visible);
    let visible =
        |host: &Host| host.allocated <= view && host.released(view).is_none_or(|released| view < later(released, keep));
    all_found(&ids, |id| call.place.hosts.get(id).is_some_and(visible), "InvalidHostID.NotFound", "host")?;
    let found: Vec<&Host> = call
        .place
        .hosts
        .values()
        .filter(|host| visible(host) && (ids.is_empty() || ids.contains(&host.id)))
        .filter(|host| {
            filters.pass(|name| {
                let one = |value: &str| vec![value.to_owned()];
                match name {
                    "auto-placement" => one(on(host.auto_placement)),
                    "availability-zone" => one(&host.zone),
                    "client-token" => host.client_token.iter().cloned().collect(),
                    "host-reservation-id" => host.reservation.iter().cloned().collect(),
                    "instance-type" => match &host.kind {
                        HostKind::Type(name) => one(name),
                        HostKind::Family(_) => Vec::new(),
                    },
                    "state" => host.state.at(view).map(|state| state.as_str().to_owned()).into_iter().collect(),
                    _ => tag_values(name, &tags_at(&host.tags, view)).unwrap_or_default(),
                }
            })
        })
        .collect();
    let page = call.cut(found, |host| host.id.clone(), &paging, 500)?;
    xml.list("hostSet", page.items, |xml, host| write_host(call, xml, host));
    xml.maybe("nextToken", page.next);
    Ok(())
}

fn on(flag: bool) -> &'static str {
    if flag { "on" } else { "off" }
}

fn write_host(call: &Call<'_>, xml: &mut Xml, host: &Host) {
    let view = call.view;
    let state = host.state.at(view).copied().unwrap_or(HostState::Pending);
    xml.text("hostId", &host.id);
    xml.text("autoPlacement", on(host.auto_placement));
    xml.text("availabilityZone", &host.zone);
    xml.maybe("availabilityZoneId", call.place.region.zone_id(&host.zone));
    xml.text("state", state.as_str());
    xml.text("hostRecovery", on(host.recovery));
    xml.text("hostMaintenance", on(host.maintenance));
    xml.text("ownerId", &call.place.account);
    xml.text("memberOfServiceLinkedResourceGroup", false);
    xml.maybe("clientToken", host.client_token.as_ref());
    xml.maybe("hostReservationId", host.reservation.as_ref());
    xml.maybe("outpostArn", host.outpost.as_ref());
    xml.maybe("assetId", host.asset.as_ref());
    xml.text("allocationTime", written(host.allocated));
    xml.maybe("releaseTime", host.released(view).map(written));
    let several = matches!(host.kind, HostKind::Family(_));
    xml.text("allowsMultipleInstanceTypes", on(several));
    xml.node("hostProperties", |xml| {
        xml.text("sockets", host.server.sockets);
        xml.text("cores", host.server.cores);
        xml.text("totalVCpus", host.server.vcpus);
        // A host for one type does not say its family, nor one for a family a type.
        match &host.kind {
            HostKind::Type(name) => xml.text("instanceType", name),
            HostKind::Family(name) => xml.text("instanceFamily", name),
        }
    });
    if !state.is_released() {
        write_capacity(call, xml, host);
    }
    xml.list(
        "instances",
        call.place.on_host(&host.id, view).filter(|instance| !instance.ended(view)),
        |xml, instance| {
            xml.text("instanceId", &instance.id);
            xml.text("instanceType", &instance.kind);
            xml.text("ownerId", &call.place.account);
        },
    );
    write_tags(xml, &tags_at(&host.tags, view));
}

fn write_capacity(call: &Call<'_>, xml: &mut Xml, host: &Host) {
    let view = call.view;
    let used: u32 = call.place.on_host(&host.id, view).map(|instance| instance.vcpus).sum();
    let fitting: Vec<&InstanceType> = call
        .types
        .iter()
        .filter(|t| match &host.kind {
            HostKind::Type(name) => t.name == *name,
            HostKind::Family(name) => t.family() == name && t.vcpus <= host.server.vcpus,
        })
        .collect();
    xml.node("availableCapacity", |xml| {
        xml.list("availableInstanceCapacity", fitting, |xml, t| {
            xml.text("availableCapacity", call.place.room(host, t, view));
            xml.text("instanceType", &t.name);
            xml.text("totalCapacity", host.server.vcpus.checked_div(t.vcpus).unwrap_or(0));
        });
        xml.text("availableVCpus", host.server.vcpus.saturating_sub(used));
    });
}

/// Takes the list of hosts a request is about.
fn host_ids(call: &mut Call<'_>) -> Result<Vec<String>, Refusal> {
    let ids = call.fields.texts("HostId")?;
    if ids.is_empty() {
        return Err(Refusal::missing("HostId"));
    }
    check_ids(&ids, "h", "InvalidHostID.Malformed")?;
    Ok(ids)
}

pub(super) fn release(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = host_ids(call)?;
    call.finish(None)?;
    let (now, settings) = (call.now, call.settings);
    each(call, xml, ids, |call, id| call.place.release(now, id, settings));
    Ok(())
}

pub(super) fn modify(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = host_ids(call)?;
    let placement = call.fields.one_of("AutoPlacement", ON_OFF)?;
    let recovery = call.fields.one_of("HostRecovery", ON_OFF)?;
    let maintenance = call.fields.one_of("HostMaintenance", ON_OFF)?;
    let kind = call.fields.text("InstanceType")?;
    let family = call.fields.text("InstanceFamily")?;
    call.finish(None)?;
    if kind.is_some() && family.is_some() {
        return Err(Refusal::combination("The parameters InstanceType and InstanceFamily cannot be used together"));
    }
    let now = call.now;
    each(call, xml, ids, |call, id| {
        let types = call.types;
        let empty = call.place.on_host(id, now).next().is_none();
        let host = call.place.hosts.get_mut(id).filter(|host| host.alive(now));
        let host = host.ok_or_else(|| ItemRefusal::host_not_found(id))?;
        if kind.is_some() || family.is_some() {
            let (new, server) = host_kind(types, kind.clone(), family.clone(), &host.zone)
                .map_err(|refusal| ItemRefusal::new(&format!("Client.{}", refusal.code), refusal.message))?;
            if !empty || new.family() != host.kind.family() {
                let text = format!("Dedicated host '{id}' cannot be modified: it is occupied or of another family");
                return Err(ItemRefusal::new("Client.InvalidHostConfiguration", text));
            }
            (host.kind, host.server) = (new, server);
        }
        let set = |field: &mut bool, wish: &Option<String>| {
            if let Some(wish) = wish {
                *field = wish == "on";
            }
        };
        set(&mut host.auto_placement, &placement);
        set(&mut host.recovery, &recovery);
        set(&mut host.maintenance, &maintenance);
        Ok(())
    });
    Ok(())
}

/// Does something to each host by itself, and writes which ones it was done to.
fn each(
    call: &mut Call<'_>,
    xml: &mut Xml,
    ids: Vec<String>,
    mut deed: impl FnMut(&mut Call<'_>, &str) -> Result<(), ItemRefusal>,
) {
    let (mut done, mut refused) = (Vec::new(), Vec::new());
    for id in ids {
        let scripted = call.quirks.refuse_items.iter().find(|(item, ..)| item.is_empty() || *item == id);
        let outcome = match scripted {
            Some((_, code, message)) => Err(ItemRefusal::new(code, message.clone())),
            None => deed(call, &id),
        };
        match outcome {
            Ok(()) => done.push(id),
            Err(refusal) => refused.push((id, refusal)),
        }
    }
    xml.texts("successful", done);
    xml.list("unsuccessful", refused, |xml, (id, refusal)| {
        xml.node("error", |xml| {
            xml.text("code", refusal.code);
            xml.text("message", refusal.message);
        });
        xml.text("resourceId", id);
    });
}

pub(super) fn reservations(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = call.fields.texts("HostReservationIdSet")?;
    let filters = Filters::parse(&mut call.fields, &["instance-family", "payment-option", "state", "tag:", "tag-key"])?;
    let paging = call.paging(5, 500)?;
    call.finish(None)?;
    let covered: Vec<(&String, &Host)> =
        call.place.hosts.values().filter_map(|host| Some((host.reservation.as_ref()?, host))).collect();
    let mut found: Vec<(String, Vec<&Host>)> = Vec::new();
    for (id, host) in covered {
        match found.iter_mut().find(|(known, _)| known == id) {
            Some((_, hosts)) => hosts.push(host),
            None => found.push((id.clone(), vec![host])),
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.retain(|(id, hosts)| {
        (ids.is_empty() || ids.contains(id))
            && filters.pass(|name| match name {
                "instance-family" => hosts.iter().map(|host| host.kind.family().to_owned()).collect(),
                "payment-option" => vec!["NoUpfront".to_owned()],
                "state" => vec!["active".to_owned()],
                _ => Vec::new(),
            })
    });
    let page = call.cut(found, |(id, _)| id.clone(), &paging, 500)?;
    xml.list("hostReservationSet", page.items, |xml, (id, hosts)| {
        xml.text("hostReservationId", id);
        xml.text("count", hosts.len());
        xml.text("state", "active");
        xml.text("paymentOption", "NoUpfront");
        xml.maybe("instanceFamily", hosts.first().map(|host| host.kind.family()));
        xml.texts("hostIdSet", hosts.iter().map(|host| &host.id));
    });
    xml.maybe("nextToken", page.next);
    Ok(())
}
