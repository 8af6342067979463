//! What may not change in a Cluster: versions move one step at a time, and some fields not at all.

use std::collections::BTreeSet;

use api::names::clusters::{ON, SKIP_VERSION_SKEW_ANNOTATION};
use api::own::anywhere::{Cluster, ClusterNetwork, ClusterSpec, Proxy, WorkerGroup};
use api::reasons::clusters::Reason;
use kit::field::{FaultKind, FieldError, FieldPath};

use super::{annotation, is_self_managed};
use crate::endpoint::HostPort;
use crate::version::{Minor, Release};

const ONE_STEP: &str = "only one minor at a time, no downgrade";

/// The changes that are not allowed.
pub(super) fn faults(old: &Cluster, new: &Cluster) -> Vec<FieldError> {
    let root = FieldPath::new("spec");
    let mut errors = kubernetes(&root, &old.spec, &new.spec);
    errors.extend(bundle(&root, old, new));
    errors.extend(immutable(&root, old, new));
    errors
}

fn kubernetes(root: &FieldPath, old: &ClusterSpec, new: &ClusterSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !is_one_step(&old.kubernetes_version, &new.kubernetes_version) {
        errors.push(FieldError::with(root.field("kubernetesVersion"), FaultKind::Invalid, ONE_STEP));
    }
    let raised = newer(&old.kubernetes_version, &new.kubernetes_version);
    for (number, group) in new.worker_node_group_configurations.iter().enumerate() {
        let same = |other: &&WorkerGroup| other.name == group.name;
        let Some(before) = old.worker_node_group_configurations.iter().find(same) else { continue };
        let path = root.field("workerNodeGroupConfigurations").index(number).field("kubernetesVersion");
        if group.kubernetes_version.is_empty() && !before.kubernetes_version.is_empty() && raised {
            errors.push(FieldError::with(path, FaultKind::Invalid, "raise the cluster first"));
        } else if !is_one_step(effective(before, old), effective(group, new)) {
            errors.push(FieldError::with(path, FaultKind::Invalid, ONE_STEP));
        }
    }
    errors
}

/// The version a group runs: its own, or the cluster's.
fn effective<'s>(group: &'s WorkerGroup, spec: &'s ClusterSpec) -> &'s str {
    if group.kubernetes_version.is_empty() { &spec.kubernetes_version } else { &group.kubernetes_version }
}

/// Whether a version stays or moves to the next; texts that are no versions are judged elsewhere.
fn is_one_step(old: &str, new: &str) -> bool {
    match (old.parse::<Minor>(), new.parse::<Minor>()) {
        (Ok(old), Ok(new)) => new == old || new.0 == old.0.saturating_add(1),
        _ => true,
    }
}

fn newer(old: &str, new: &str) -> bool {
    matches!((old.parse::<Minor>(), new.parse::<Minor>()), (Ok(old), Ok(new)) if new > old)
}

fn bundle(root: &FieldPath, old: &Cluster, new: &Cluster) -> Vec<FieldError> {
    let (before, after) = (&old.spec, &new.spec);
    let mut errors = Vec::new();
    if !before.eksa_version.is_empty() && after.eksa_version.is_empty() {
        errors.push(FieldError::forbidden(root.field("eksaVersion"), "cannot be removed"));
    }
    if before.bundles_ref.is_some() && after.bundles_ref.is_none() && after.eksa_version.is_empty() {
        errors.push(FieldError::forbidden(root.field("bundlesRef"), "cannot be removed"));
    }
    let free = annotation(&new.metadata, SKIP_VERSION_SKEW_ANNOTATION) == Some(ON);
    if let (Ok(from), Ok(to)) = (before.eksa_version.parse::<Release>(), after.eksa_version.parse::<Release>())
        && !free
    {
        let failed = old.status.as_ref().map(|status| status.failure_reason.as_str());
        let may_go_back = failed == Some(Reason::EksaVersionInvalid.as_str());
        let lower = to < from && !may_go_back;
        if to.major != from.major || to.minor > from.minor.saturating_add(1) || lower {
            errors.push(FieldError::with(root.field("eksaVersion"), FaultKind::Invalid, ONE_STEP));
        }
    }
    errors
}

fn immutable(root: &FieldPath, old: &Cluster, new: &Cluster) -> Vec<FieldError> {
    let (before, after) = (&old.spec, &new.spec);
    let manager = |cluster: &Cluster| {
        let name = cluster.spec.management_cluster.clone().unwrap_or_default().name;
        (!is_self_managed(cluster)).then_some(name)
    };
    let network = |spec: &ClusterSpec| spec.cluster_network.clone().unwrap_or_default();
    let (was, is) = (network(before), network(after));
    let at = root.field("clusterNetwork");
    let plane = root.field("controlPlaneConfiguration");
    let changed = [
        (root.field("managementCluster"), manager(old) != manager(new)),
        (root.field("datacenterRef"), before.datacenter_ref != after.datacenter_ref),
        (plane.field("endpoint"), !same_endpoint(before, after)),
        (at.field("pods"), was.pods.unwrap_or_default() != is.pods.unwrap_or_default()),
        (at.field("services"), was.services.unwrap_or_default() != is.services.unwrap_or_default()),
        (at.field("dns"), resolv_conf(&was.dns) != resolv_conf(&is.dns)),
        (at.field("nodes"), was.nodes.unwrap_or_default() != is.nodes.unwrap_or_default()),
        (root.field("proxyConfiguration"), proxy(before) != proxy(after)),
        (
            root.field("externalEtcdConfiguration"),
            before.external_etcd_configuration.is_some() != after.external_etcd_configuration.is_some(),
        ),
        (
            root.field("gitOpsRef"),
            before.git_ops_ref.clone().unwrap_or_default() != after.git_ops_ref.clone().unwrap_or_default(),
        ),
        (root.field("identityProviderRefs"), !keeps_iam(before, after)),
    ];
    let changed = changed.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(path, _)| FieldError::forbidden(path, "immutable")).collect()
}

fn resolv_conf(dns: &Option<api::own::anywhere::Dns>) -> String {
    let conf = dns.as_ref().and_then(|dns| dns.resolv_conf.as_ref());
    conf.map(|conf| conf.path.clone()).unwrap_or_default()
}

/// Older releases stored the port with the host, so that both spellings are around.
fn same_endpoint(old: &ClusterSpec, new: &ClusterSpec) -> bool {
    let host = |spec: &ClusterSpec| {
        let endpoint = spec.control_plane_configuration.as_ref().and_then(|plane| plane.endpoint.clone());
        endpoint.unwrap_or_default().host
    };
    let (before, after) = (host(old), host(new));
    match (before.parse::<HostPort>(), after.parse::<HostPort>()) {
        (Ok(before), Ok(after)) => before.same(&after),
        _ => before == after,
    }
}

/// The proxies, with what is reached without them in any order.
fn proxy(spec: &ClusterSpec) -> (String, String, BTreeSet<String>) {
    let Proxy { http_proxy, https_proxy, no_proxy } = spec.proxy_configuration.clone().unwrap_or_default();
    (http_proxy, https_proxy, no_proxy.into_iter().collect())
}

/// An AWSIamConfig that is referred to stays; one may be added.
fn keeps_iam(old: &ClusterSpec, new: &ClusterSpec) -> bool {
    let iam = |spec: &ClusterSpec| {
        let refs = spec.identity_provider_refs.iter().filter(|reference| reference.kind == "AWSIamConfig");
        refs.map(|reference| reference.name.clone()).collect::<BTreeSet<String>>()
    };
    let before = iam(old);
    before.is_empty() || before == iam(new)
}

// The network is compared field by field above; a new field must be thought of there.
const _: fn(ClusterNetwork) = |network| {
    let ClusterNetwork { pods: _, services: _, cni: _, cni_config: _, dns: _, nodes: _ } = network;
};
