//! What is filled in for users; only what is absent, so that applying the same file again changes nothing.

use api::own::anywhere::{AvailabilityZone, Cilium, CloudStackDatacenterConfigSpec, ClusterSpec, CniConfig};

/// The name of the first group of workers when it has none.
const FIRST_GROUP: &str = "md-0";
/// The port of a registry mirror that names none.
const MIRROR_PORT: &str = "443";
/// The Secret of zones that were written in the older way.
const GLOBAL_CREDENTIALS: &str = "global";
/// What the names of zones that were written in the older way start with; their number follows.
pub(super) const LEGACY_ZONE: &str = "default-az-";

/// Names of the network plugin in the older way.
fn is_cilium(name: &str) -> bool {
    matches!(name, "cilium" | "cilium-enterprise")
}

/// Fills in a Cluster that is changed. A file that names its network plugin in the older way names it anew whenever it is
/// applied client-side, beside what was stored for it; that is no second choice.
pub fn default_changed_cluster(old: &ClusterSpec, spec: &mut ClusterSpec) {
    if let (Some(before), Some(network)) = (&old.cluster_network, &mut spec.cluster_network)
        && before.cni.is_empty()
        && is_cilium(&network.cni)
        && network.cni_config == before.cni_config
        && network.cni_config.as_ref().is_some_and(|config| config.cilium.is_some())
    {
        network.cni.clear();
    }
    default_cluster(spec);
}

/// Fills in a Cluster.
pub fn default_cluster(spec: &mut ClusterSpec) {
    if let Some(network) = &mut spec.cluster_network
        && network.cni_config.is_none()
        && is_cilium(&network.cni)
    {
        network.cni.clear();
        network.cni_config = Some(CniConfig { cilium: Some(Cilium::default()), kindnetd: None });
    }
    if let Some(first) = spec.worker_node_group_configurations.first_mut()
        && first.name.is_empty()
    {
        first.name = FIRST_GROUP.to_owned();
    }
    for group in &mut spec.worker_node_group_configurations {
        if group.count.is_none() {
            let least = group.autoscaling_configuration.as_ref().and_then(|scaling| scaling.min_count);
            group.count = Some(least.unwrap_or(1));
        }
    }
    if let Some(mirror) = &mut spec.registry_mirror_configuration
        && mirror.port.is_empty()
    {
        mirror.port = MIRROR_PORT.to_owned();
    }
}

/// Fills in a CloudStackDatacenterConfig: what was written in the older way is stored in the newer one.
pub fn default_datacenter(spec: &mut CloudStackDatacenterConfigSpec) {
    if spec.availability_zones.is_empty() {
        let zone = |(number, zone): (usize, &api::own::anywhere::Zone)| AvailabilityZone {
            name: format!("{LEGACY_ZONE}{number}"),
            credentials_ref: GLOBAL_CREDENTIALS.to_owned(),
            zone: zone.clone(),
            domain: spec.domain.clone(),
            account: spec.account.clone(),
            management_api_endpoint: spec.management_api_endpoint.clone(),
        };
        spec.availability_zones = spec.zones.iter().enumerate().map(zone).collect();
    }
    spec.zones.clear();
    spec.domain.clear();
    spec.account.clear();
    spec.management_api_endpoint.clear();
}
