//! Which address pools a template needs, whatever part of it names them.

use std::collections::BTreeMap;

use api::own::metal3::{FromAnnotation, FromPool, Gateway, Metal3DataTemplateSpec, NetworkServices, PoolRef, Route};
use api::views::metal_ipam::METAL3_IPAM_GROUP;

use super::render::{Fault, Objects};

/// The kind of pools that Metal3 itself has.
const METAL3_POOL: &str = "IPPool";

/// What kind of pool it is, for those who make wishes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolKind {
    /// Group of the kind.
    pub group: Box<str>,
    /// The kind.
    pub kind: Box<str>,
}

impl PoolKind {
    fn read(group: &str, kind: &str) -> Self {
        let or = |text: &str, default: &str| -> Box<str> { if text.is_empty() { default.into() } else { text.into() } };
        Self { group: or(group, METAL3_IPAM_GROUP), kind: or(kind, METAL3_POOL) }
    }

    fn metal3() -> Self {
        Self::read("", "")
    }

    /// Whether the pool is one of Metal3's own address management; all others speak the contract of Cluster API.
    #[must_use]
    pub fn is_metal3(&self) -> bool {
        &*self.group == METAL3_IPAM_GROUP && &*self.kind == METAL3_POOL
    }
}

/// The pools, by name. A name stands for one pool, because addresses are wished for by it.
pub type Pools = BTreeMap<Box<str>, PoolKind>;

fn add(pools: &mut Pools, name: &str, kind: PoolKind) -> Result<(), Fault> {
    if name.is_empty() {
        return Ok(());
    }
    match pools.get(name) {
        Some(known) if *known != kind => Err(Fault::TwoKindsOfPool { pool: name.into() }),
        Some(_) => Ok(()),
        None => {
            pools.insert(name.into(), kind);
            Ok(())
        }
    }
}

fn add_ref(pools: &mut Pools, pool: &PoolRef) -> Result<(), Fault> {
    add(pools, &pool.name, PoolKind::read(&pool.api_group, &pool.kind))
}

fn add_annotated(pools: &mut Pools, from: &FromAnnotation, objects: Option<&Objects<'_>>) -> Result<(), Fault> {
    // What is wrong with the template itself can be said before there is a machine.
    let Some(objects) = objects else { return Ok(()) };
    add(pools, &objects.pool_by_annotation(from)?, PoolKind::metal3())
}

fn add_services(pools: &mut Pools, services: &NetworkServices) -> Result<(), Fault> {
    services.dns_from_ip_pool.as_deref().map_or(Ok(()), |name| add(pools, name, PoolKind::metal3()))
}

fn add_gateway(pools: &mut Pools, gateway: &Gateway, objects: Option<&Objects<'_>>) -> Result<(), Fault> {
    if gateway.string.is_some() {
        return Ok(());
    }
    if let Some(from) = &gateway.from_pool_annotation {
        return add_annotated(pools, from, objects);
    }
    if let Some(pool) = &gateway.from_pool_ref {
        return add_ref(pools, pool);
    }
    gateway.from_ip_pool.as_deref().map_or(Ok(()), |name| add(pools, name, PoolKind::metal3()))
}

fn add_routes(pools: &mut Pools, routes: &[Route], objects: Option<&Objects<'_>>) -> Result<(), Fault> {
    for route in routes {
        add_gateway(pools, &route.gateway, objects)?;
        add_services(pools, &route.services)?;
    }
    Ok(())
}

/// Every pool the template takes something from; those that annotations name only with the objects that carry them.
///
/// # Errors
/// When one name stands for two kinds of pools, or an annotation names no pool.
pub fn pools(spec: &Metal3DataTemplateSpec, objects: Option<&Objects<'_>>) -> Result<Pools, Fault> {
    let mut all = Pools::new();
    if let Some(meta) = &spec.meta_data {
        let lists = [
            &meta.ip_addresses_from_pool,
            &meta.prefixes_from_pool,
            &meta.gateways_from_pool,
            &meta.dns_servers_from_pool,
        ];
        for FromPool { name, api_group, kind, .. } in lists.into_iter().flatten() {
            add(&mut all, name, PoolKind::read(api_group, kind))?;
        }
    }
    let Some(network) = &spec.network_data else { return Ok(all) };
    for net in network.networks.ipv4.iter().chain(&network.networks.ipv6) {
        if let Some(from) = &net.from_pool_annotation {
            add_annotated(&mut all, from, objects)?;
        } else if let Some(pool) = &net.from_pool_ref {
            add_ref(&mut all, pool)?;
        } else if let Some(name) = &net.ip_address_from_ip_pool {
            add(&mut all, name, PoolKind::metal3())?;
        }
        add_routes(&mut all, &net.routes, objects)?;
    }
    let dynamic = [&network.networks.ipv4_dhcp, &network.networks.ipv6_dhcp, &network.networks.ipv6_slaac];
    for net in dynamic.into_iter().flatten() {
        add_routes(&mut all, &net.routes, objects)?;
    }
    add_services(&mut all, &network.services)?;
    Ok(all)
}
