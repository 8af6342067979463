//! What is wrong with the network data of a template.

use std::net::{Ipv4Addr, Ipv6Addr};

use api::own::metal3::{NetworkData, NetworkServices, Route, StaticNetwork};
use kit::field::{FieldError, FieldPath};

/// Which addresses a network has.
#[derive(Clone, Copy)]
enum Family {
    V4,
    V6,
    Any,
}

impl Family {
    fn takes(self, text: &str) -> bool {
        let (four, six) = (text.parse::<Ipv4Addr>().is_ok(), text.parse::<Ipv6Addr>().is_ok());
        match self {
            Self::V4 => four,
            Self::V6 => six,
            Self::Any => four || six,
        }
    }

    const fn bits(self) -> i32 {
        match self {
            Self::V4 => 32,
            Self::V6 | Self::Any => 128,
        }
    }

    fn fault(self, path: FieldPath, text: &str) -> Option<FieldError> {
        let detail = match self {
            Self::V4 => "is not an IPv4 address",
            Self::V6 => "is not an IPv6 address",
            Self::Any => "is not an address",
        };
        (!self.takes(text)).then(|| FieldError::invalid(path, text, detail))
    }
}

/// Every fault of network data.
pub(super) fn faults(path: &FieldPath, data: &NetworkData) -> Vec<FieldError> {
    let all = &data.networks;
    let networks = path.field("networks");
    let mut errors = Vec::new();
    for (name, family, list) in [("ipv4", Family::V4, &all.ipv4), ("ipv6", Family::V6, &all.ipv6)] {
        for (number, network) in list.iter().enumerate() {
            let path = networks.field(name).index(number);
            errors.extend(pool_fault(&path, network));
            errors.extend(route_faults(&path, family, &network.routes));
        }
    }
    let dynamic = [
        ("ipv4DHCP", Family::V4, &all.ipv4_dhcp),
        ("ipv6DHCP", Family::V6, &all.ipv6_dhcp),
        ("ipv6SLAAC", Family::V6, &all.ipv6_slaac),
    ];
    for (name, family, list) in dynamic {
        for (number, network) in list.iter().enumerate() {
            errors.extend(route_faults(&networks.field(name).index(number), family, &network.routes));
        }
    }
    errors.extend(service_faults(&path.field("services"), Family::Any, &data.services));
    errors
}

/// An address must come from somewhere.
fn pool_fault(path: &FieldPath, network: &StaticNetwork) -> Option<FieldError> {
    let named = network.from_pool_ref.as_ref().is_some_and(|pool| !pool.name.is_empty());
    let older = network.ip_address_from_ip_pool.as_deref().is_some_and(|pool| !pool.is_empty());
    let detail = "must name a pool, unless fromPoolAnnotation or ipAddressFromIPPool does";
    (!named && !older && network.from_pool_annotation.is_none())
        .then(|| FieldError::required(path.field("fromPoolRef").field("name"), detail))
}

fn route_faults(path: &FieldPath, family: Family, routes: &[Route]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (number, route) in routes.iter().enumerate() {
        let path = path.field("routes").index(number);
        errors.extend(family.fault(path.field("network"), &route.network));
        if let Some(prefix) = route.prefix.filter(|prefix| !(0..=family.bits()).contains(prefix)) {
            let detail = format!("must be 0 to {}", family.bits());
            errors.push(FieldError::invalid(path.field("prefix"), &prefix.to_string(), detail));
        }
        let gateway = route.gateway.string.as_deref();
        errors.extend(gateway.and_then(|text| family.fault(path.field("gateway").field("string"), text)));
        errors.extend(service_faults(&path.field("services"), family, &route.services));
    }
    errors
}

fn service_faults(path: &FieldPath, family: Family, services: &NetworkServices) -> Vec<FieldError> {
    let servers = services.dns.iter().enumerate();
    servers.filter_map(|(number, server)| family.fault(path.field("dns").index(number), server)).collect()
}
