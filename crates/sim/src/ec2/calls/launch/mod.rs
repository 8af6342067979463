//! Launching instances.

mod check;
mod wish;

use super::super::catalogue::InstanceType;
use super::super::wire::refusal::Refusal;
use super::super::wire::xml::Xml;
use super::super::world::host::{Host, HostKind, HostState};
use super::super::world::instance::{Instance, InstanceState, Interface, Volume};
use super::super::world::place::{Image, Subnet};
use super::super::world::time::{History, later};
use super::super::world::tokens::{self, Scope};
use super::Call;
use super::instances::write_reservation;
use check::{check_network, check_placement, image, kind, subnet, volumes};
use wish::{Wish, wish};

pub(super) fn run(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let dry_run = call.fields.flag("DryRun")?;
    let token = call.fields.text("ClientToken")?;
    let wish = wish(call)?;
    call.finish(None)?;
    if let Some(token) = &token {
        tokens::check(token)?;
    }
    let subnet = subnet(call, &wish)?;
    let image = image(call, &wish)?;
    let kind = kind(call, &wish, &image, &subnet)?;
    check_network(call, &wish, &subnet)?;
    let devices = volumes(&wish, &image)?;
    let tenancy = check_placement(&wish, &kind, &image)?;
    if dry_run == Some(true) {
        return Err(Refusal::dry_run());
    }
    // Without a subnet or zone in the request the token is good for the region.
    let zonal = wish.subnet.is_some() || wish.placement.zone.is_some();
    let scope = token.as_ref().map(|token| Scope {
        action: call.action.to_owned(),
        zone: if zonal { subnet.zone.clone() } else { String::new() },
        token: token.clone(),
    });
    let parameters = tokens::compared(call.raw);
    if let Some(scope) = &scope
        && let Some(ids) = call.place.tokens.earlier(scope, &parameters, call.now)?
    {
        return replay(call, xml, &ids);
    }
    let host = host(call, &wish, &kind, &subnet, &tenancy)?;
    let count = count(call, &wish, &kind, &subnet, host.as_deref(), &tenancy)?;
    let ids = make(call, &wish, token, &kind, &image, &subnet, &devices, host, &tenancy, count);
    if let Some(scope) = scope {
        let until = later(call.now, call.settings.token_memory);
        call.place.tokens.remember(scope, parameters, ids.clone(), until);
    }
    let made: Vec<&Instance> = ids.iter().filter_map(|id| call.place.instances.get(id)).collect();
    write_reservation(call, xml, &made, call.now);
    Ok(())
}

fn replay(call: &Call<'_>, xml: &mut Xml, ids: &[String]) -> Result<(), Refusal> {
    let made: Vec<&Instance> = ids.iter().filter_map(|id| call.place.instances.get(id)).collect();
    if made.iter().any(|instance| instance.ended(call.now)) {
        return Err(Refusal::bad(
            "IdempotentInstanceTerminated",
            "The request to launch an instance uses the same client token as a previous request for which the instance \
             has been terminated.",
        ));
    }
    write_reservation(call, xml, &made, call.now);
    Ok(())
}

/// The host to launch on: the one named, or one that takes everybody.
fn host(
    call: &Call<'_>,
    wish: &Wish,
    kind: &InstanceType,
    subnet: &Subnet,
    tenancy: &str,
) -> Result<Option<String>, Refusal> {
    if tenancy != "host" {
        return Ok(None);
    }
    let now = call.now;
    let Some(id) = &wish.placement.host else {
        let fits = |host: &&Host| {
            host.auto_placement
                && host.zone == subnet.zone
                && host.state.at(now) == Some(&HostState::Available)
                && call.place.room(host, kind, now) >= wish.least
        };
        return match call.place.hosts.values().find(fits) {
            Some(host) => Ok(Some(host.id.clone())),
            None => Err(Refusal::bad(
                "IncompatibleHostRequirements",
                "There are no available or compatible Dedicated Hosts available on which to launch or start the instance.",
            )),
        };
    };
    let not_found = || Refusal::bad("InvalidHostId.NotFound", format!("The host ID '{id}' does not exist"));
    let host = call.place.hosts.get(id).filter(|host| host.allocated <= now).ok_or_else(not_found)?;
    if host.zone != subnet.zone {
        let text = format!("The Dedicated Host {id} is not in the Availability Zone of the request ({})", subnet.zone);
        return Err(Refusal::bad("InvalidParameterValue", text));
    }
    match host.state.at(now) {
        Some(HostState::Available | HostState::Pending) => {}
        _ => {
            let text = "The Dedicated Host must be in the available state to complete the operation.";
            return Err(Refusal::bad("InvalidHostState", text));
        }
    }
    let takes = match &host.kind {
        HostKind::Type(name) => *name == kind.name,
        HostKind::Family(name) => name == kind.family(),
    };
    if !takes {
        let text = format!("The Dedicated Host {id} does not support instances of the type {}", kind.name);
        return Err(Refusal::bad("InvalidHostConfiguration", text));
    }
    Ok(Some(id.clone()))
}

/// How many instances can be launched, at least as many as asked for.
fn count(
    call: &Call<'_>,
    wish: &Wish,
    kind: &InstanceType,
    subnet: &Subnet,
    host: Option<&str>,
    tenancy: &str,
) -> Result<u32, Refusal> {
    let now = call.now;
    if call.script.is_short(call.subject) {
        let text = format!(
            "We currently do not have sufficient {} capacity in the Availability Zone you requested ({}).",
            kind.name, subnet.zone
        );
        return Err(Refusal::new(500, "InsufficientInstanceCapacity", text));
    }
    let mut most = wish.most;
    if let Some(host) = host.and_then(|id| call.place.hosts.get(id)) {
        // A host that is not ready yet has no room.
        let ready = host.state.at(now) == Some(&HostState::Available);
        let room = if ready { call.place.room(host, kind, now) } else { 0 };
        if room < wish.least {
            let text = format!(
                "Dedicated host {} has insufficient capacity to launch the instances in this request.",
                host.id
            );
            return Err(Refusal::bad("InsufficientCapacityOnHost", text));
        }
        most = most.min(room);
    }
    let live = || call.place.instances.values().filter(|instance| !instance.ended(now));
    if tenancy != "host" {
        let used: u32 = live().filter(|instance| instance.tenancy != "host").map(|instance| instance.vcpus).sum();
        let left = call.settings.vcpu_quota.saturating_sub(used).checked_div(kind.vcpus).unwrap_or(0);
        if left < wish.least {
            return Err(Refusal::bad(
                "VcpuLimitExceeded",
                format!(
                    "You have requested more vCPU capacity than your current vCPU limit of {} allows for the instance bucket \
                     that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request \
                     to request an adjustment to this limit.",
                    call.settings.vcpu_quota
                ),
            ));
        }
        most = most.min(left);
    }
    let taken = live().flat_map(|instance| &instance.interfaces).filter(|i| i.subnet == subnet.id).count();
    let left = subnet.addresses.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX));
    if left < wish.least {
        let text = format!(
            "There are not enough free addresses in subnet '{}' to satisfy the requested number of instances.",
            subnet.id
        );
        return Err(Refusal::bad("InsufficientFreeAddressesInSubnet", text));
    }
    Ok(most.min(left))
}

#[expect(clippy::too_many_arguments, reason = "one call site; the parts of a launch that were checked one by one")]
fn make(
    call: &mut Call<'_>,
    wish: &Wish,
    token: Option<String>,
    kind: &InstanceType,
    image: &Image,
    subnet: &Subnet,
    devices: &[Volume],
    host: Option<String>,
    tenancy: &str,
    count: u32,
) -> Vec<String> {
    let now = call.now;
    let [instance_tags, volume_tags, interface_tags] = &wish.tags;
    let reservation = call.place.fresh_id("r", call.rng);
    let mut ids = Vec::new();
    for index in 0..count {
        let place = &*call.place;
        let id = place.fresh_id("i", call.rng);
        let mut state = History::new(now, InstanceState::Pending);
        state.set(later(now, call.settings.delays.launch), InstanceState::Running);
        let taken: Vec<&str> = place
            .instances
            .values()
            .filter(|instance| !instance.ended(now))
            .flat_map(|instance| &instance.interfaces)
            .map(|interface| interface.private_ip.as_str())
            .collect();
        let address = (4..=254)
            .map(|n| format!("{}.{n}", subnet.prefix))
            .find(|address| !taken.contains(&address.as_str()))
            .unwrap_or_else(|| format!("{}.255", subnet.prefix));
        let mac = format!("{:010x}", call.rng.next_u64() & 0xff_ffff_ffff);
        let mac: Vec<&str> = [0, 2, 4, 6, 8].iter().filter_map(|at| mac.get(*at..at + 2)).collect();
        let public = wish.public_ip.unwrap_or(subnet.public);
        let groups = if wish.groups.is_empty() {
            place.groups.values().filter(|g| g.vpc == subnet.vpc && g.name == "default").map(|g| g.id.clone()).collect()
        } else {
            wish.groups.clone()
        };
        let interface = Interface {
            id: place.fresh_id("eni", call.rng),
            attachment: place.fresh_id("eni-attach", call.rng),
            device: 0,
            subnet: subnet.id.clone(),
            groups,
            public_ip: public.then(|| format!("203.0.113.{}", call.rng.below(254) + 1)),
            private_ip: address,
            mac: format!("02:{}", mac.join(":")),
            description: wish.description.clone(),
            source_dest_check: true,
            tags: History::new(now, interface_tags.clone()),
        };
        let volumes = devices.iter().map(|device| Volume {
            id: place.fresh_id("vol", call.rng),
            tags: History::new(now, volume_tags.clone()),
            ..device.clone()
        });
        let volumes: Vec<Volume> = volumes.collect();
        let instance = Instance {
            id: id.clone(),
            reservation: reservation.clone(),
            index,
            kind: kind.name.clone(),
            vcpus: kind.vcpus,
            image: image.id.clone(),
            architecture: image.architecture.clone(),
            root_device: image.root_device.clone(),
            zone: subnet.zone.clone(),
            vpc: subnet.vpc.clone(),
            tenancy: tenancy.to_owned(),
            affinity: (tenancy == "host")
                .then(|| wish.placement.affinity.clone().unwrap_or_else(|| "default".to_owned())),
            host: History::new(now, host.clone()),
            state,
            launched: now,
            stops: 0,
            vacate: call.settings.delays.vacate,
            client_token: token.clone(),
            key: wish.key.clone(),
            profile: wish.profile.clone(),
            ebs_optimized: wish.ebs_optimized,
            user_data: wish.user_data,
            interfaces: vec![interface],
            volumes,
            metadata: wish.metadata.clone(),
            tags: History::new(now, instance_tags.clone()),
        };
        call.place.instances.insert(id.clone(), instance);
        ids.push(id);
    }
    ids
}
