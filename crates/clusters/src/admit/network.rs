//! What is wrong with the network of a Cluster.

use std::net::IpAddr;

use api::own::anywhere::{CidrBlocks, Cilium, ClusterNetwork, ClusterSpec};
use ipnet::IpNet;
use kit::field::{FaultKind, FieldError, FieldPath};

use crate::endpoint::HostPort;

/// Lengths of the prefix of a node's range when none is given.
const NODE_MASK: u8 = 24;
const NODE_MASK_V6: u8 = 64;

pub(super) fn faults(root: &FieldPath, spec: &ClusterSpec) -> Vec<FieldError> {
    let path = root.field("clusterNetwork");
    let network = spec.cluster_network.clone().unwrap_or_default();
    let mut errors = Vec::new();
    let pods = range(&path.field("pods"), network.pods.as_ref(), &mut errors);
    let services = range(&path.field("services"), network.services.as_ref(), &mut errors);
    let first = |field: &str| path.field(field).field("cidrBlocks").index(0);
    if let Some(pods) = pods {
        errors.extend(mask_fault(first("pods"), pods, &network));
    }
    if let (Some(pods), Some(services)) = (pods, services)
        && (pods.contains(&services) || services.contains(&pods))
    {
        errors.push(FieldError::with(first("services"), FaultKind::Invalid, "overlaps"));
    }
    if let Some(address) = endpoint(spec) {
        for (field, range) in [("pods", pods), ("services", services)] {
            if range.is_some_and(|range| range.contains(&address)) {
                errors.push(FieldError::with(first(field), FaultKind::Invalid, "endpoint inside"));
            }
        }
    }
    errors.extend(plugin(&path, &network));
    errors
}

fn endpoint(spec: &ClusterSpec) -> Option<IpAddr> {
    let host = &spec.control_plane_configuration.as_ref()?.endpoint.as_ref()?.host;
    host.parse::<HostPort>().ok()?.address()
}

fn range(path: &FieldPath, blocks: Option<&CidrBlocks>, errors: &mut Vec<FieldError>) -> Option<IpNet> {
    let at = path.field("cidrBlocks");
    let Some([block]) = blocks.map(|blocks| blocks.cidr_blocks.as_slice()) else {
        errors.push(FieldError::with(at, FaultKind::Invalid, "exactly one"));
        return None;
    };
    match block.parse::<IpNet>() {
        Ok(net) => Some(net),
        Err(_) => {
            errors.push(FieldError::with(at.index(0), FaultKind::Invalid, "not a CIDR"));
            None
        }
    }
}

fn mask_fault(path: FieldPath, pods: IpNet, network: &ClusterNetwork) -> Option<FieldError> {
    let given = network.nodes.as_ref().and_then(|nodes| nodes.cidr_mask_size);
    let usual = if pods.addr().is_ipv6() { NODE_MASK_V6 } else { NODE_MASK };
    let node = given.unwrap_or_else(|| i32::from(usual));
    let pod = i32::from(pods.prefix_len());
    let detail = if pod >= node {
        "pod mask must be smaller than node mask"
    } else if node - pod > 16 {
        "difference above 16"
    } else {
        return None;
    };
    Some(FieldError::with(path, FaultKind::Invalid, detail))
}

fn plugin(path: &FieldPath, network: &ClusterNetwork) -> Vec<FieldError> {
    let config = path.field("cniConfig");
    let mut errors = Vec::new();
    if !network.cni.is_empty() && network.cni_config.is_some() {
        errors.push(FieldError::forbidden(path.field("cni"), "use cniConfig only"));
    }
    let given = network.cni_config.clone().unwrap_or_default();
    if given.kindnetd.is_some() {
        errors.push(FieldError::forbidden(config.field("kindnetd"), "kindnetd is not supported"));
    }
    match &given.cilium {
        Some(cilium) => errors.extend(cilium_faults(&config.field("cilium"), cilium)),
        None => errors.push(FieldError::required(config, "cilium required")),
    }
    errors
}

fn cilium_faults(path: &FieldPath, cilium: &Cilium) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mode = path.field("policyEnforcementMode");
    if !matches!(cilium.policy_enforcement_mode.as_str(), "" | "default" | "always" | "never") {
        errors.push(FieldError::with(mode, FaultKind::NotSupported, "must be default, always or never"));
    } else if cilium.skip_upgrade == Some(true) && !cilium.policy_enforcement_mode.is_empty() {
        errors.push(FieldError::forbidden(mode, "cannot be set together with skipUpgrade"));
    }
    match cilium.routing_mode.as_str() {
        "direct" if cilium.ipv4_native_routing_cidr.is_empty() => {
            let detail = "required with routingMode direct";
            errors.push(FieldError::required(path.field("ipv4NativeRoutingCIDR"), detail));
        }
        "" | "overlay" | "direct" => {}
        _ => {
            let detail = "must be overlay or direct";
            errors.push(FieldError::with(path.field("routingMode"), FaultKind::NotSupported, detail));
        }
    }
    let cidrs = [
        ("ipv4NativeRoutingCIDR", &cilium.ipv4_native_routing_cidr),
        ("ipv6NativeRoutingCIDR", &cilium.ipv6_native_routing_cidr),
    ];
    for (field, cidr) in cidrs {
        if !cidr.is_empty() && cidr.parse::<IpNet>().is_err() {
            errors.push(FieldError::with(path.field(field), FaultKind::Invalid, "not a CIDR"));
        }
    }
    if cilium.helm_values.is_some() {
        errors.push(FieldError::forbidden(path.field("helmValues"), "charts are not rendered here"));
    }
    errors
}
