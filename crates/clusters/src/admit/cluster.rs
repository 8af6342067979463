//! What is wrong with a Cluster, whatever it was before.

use api::own::anywhere::{Cluster, ClusterSpec, HealthCheck, Ref};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kit::field::{FaultKind, FieldError, FieldPath};

use super::{Judgement, Terms, control_plane, is_self_managed, network, outside, workers};
use crate::version::{Minor, Release};

pub(super) const MACHINE_CONFIG: &str = "CloudStackMachineConfig";
const DATACENTER_CONFIG: &str = "CloudStackDatacenterConfig";

/// Every fault of a Cluster that can be seen from itself; the old one only says which versions are new.
pub(super) fn judge(new: &Cluster, old: Option<&Cluster>, terms: &Terms) -> Judgement {
    let spec = &new.spec;
    let root = FieldPath::new("spec");
    let name = new.metadata.name.as_deref().unwrap_or_default();
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    if !is_cluster_name(name) {
        let detail = "must be 2-35 characters, start with a letter, only a-z 0-9 -";
        errors.push(FieldError::with(FieldPath::new("metadata").field("name"), FaultKind::Invalid, detail));
    }
    errors.extend(ref_fault(&root.field("datacenterRef"), spec.datacenter_ref.as_ref(), DATACENTER_CONFIG));
    errors.extend(versions(&root, spec, old.map(|old| &old.spec), terms));
    errors.extend(control_plane::faults(&root, spec, terms));
    warnings.extend(control_plane::warnings(spec));
    errors.extend(workers::faults(&root, spec, name));
    warnings.extend(workers::warnings(spec));
    errors.extend(network::faults(&root, spec));
    errors.extend(outside::faults(&root, spec));
    errors.extend(identity(&root.field("identityProviderRefs"), &spec.identity_provider_refs));
    if spec.pod_iam_config.as_ref().is_some_and(|iam| iam.service_account_issuer.is_empty()) {
        errors.push(FieldError::required(root.field("podIamConfig").field("serviceAccountIssuer"), "required"));
    }
    errors.extend(bundle(&root, spec));
    if let Some(check) = &spec.machine_health_check {
        errors.extend(health(&root.field("machineHealthCheck"), check));
    }
    if !spec.etcd_encryption.is_empty() {
        let detail = if old.is_none() { "not on create" } else { "not supported" };
        errors.push(FieldError::forbidden(root.field("etcdEncryption"), detail));
    }
    if let Some(packages) = spec.packages.as_ref().filter(|_| !is_self_managed(new)) {
        let given = [("controller", packages.controller.is_some()), ("cronjob", packages.cronjob.is_some())];
        for (field, _) in given.into_iter().filter(|(_, given)| *given) {
            errors.push(FieldError::forbidden(root.field("packages").field(field), "not supported"));
        }
    }
    Judgement { refusal: None, errors, warnings }
}

fn is_cluster_name(name: &str) -> bool {
    (2..=35).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// A reference must name an object of this kind.
pub(super) fn ref_fault(path: &FieldPath, reference: Option<&Ref>, kind: &str) -> Option<FieldError> {
    let fits = reference.is_some_and(|reference| reference.kind == kind && !reference.name.is_empty());
    (!fits).then(|| FieldError::with(path.clone(), FaultKind::Invalid, format!("must reference a {kind} by name")))
}

/// The versions of the cluster and its groups: their form, the limit for those that are new, and the skew between them.
fn versions(root: &FieldPath, spec: &ClusterSpec, old: Option<&ClusterSpec>, terms: &Terms) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut judge = |path: &FieldPath, text: &str, before: Option<&str>| {
        let minor = match text.parse::<Minor>() {
            Ok(minor) => minor,
            Err(error) => {
                errors.push(FieldError::with(path.clone(), FaultKind::Invalid, error.to_string()));
                return None;
            }
        };
        if let Some(newest) = terms.newest.filter(|newest| minor > *newest && before != Some(text)) {
            let detail = format!("cloudstack provider supports Kubernetes up to {newest}");
            errors.push(FieldError::with(path.clone(), FaultKind::Invalid, detail));
        }
        Some(minor)
    };
    let before = old.map(|old| old.kubernetes_version.as_str());
    let cluster = judge(&root.field("kubernetesVersion"), &spec.kubernetes_version, before);
    let mut groups = Vec::new();
    for (number, group) in spec.worker_node_group_configurations.iter().enumerate() {
        if group.kubernetes_version.is_empty() {
            continue;
        }
        let path = root.field("workerNodeGroupConfigurations").index(number).field("kubernetesVersion");
        let same = |old: &&api::own::anywhere::WorkerGroup| old.name == group.name;
        let old_group = old.and_then(|old| old.worker_node_group_configurations.iter().find(same));
        let before = old_group.map(|old| old.kubernetes_version.as_str());
        groups.push((path.clone(), judge(&path, &group.kubernetes_version, before)));
    }
    for (path, group) in groups {
        if let (Some(cluster), Some(group)) = (cluster, group)
            && (group > cluster || cluster.0 - group.0 > 2)
        {
            let detail = "must be within 2 minors behind the control plane";
            errors.push(FieldError::with(path, FaultKind::Invalid, detail));
        }
    }
    errors
}

fn identity(path: &FieldPath, refs: &[Ref]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (number, reference) in refs.iter().enumerate() {
        let at = path.index(number);
        if !matches!(reference.kind.as_str(), "OIDCConfig" | "AWSIamConfig") {
            let detail = "OIDCConfig or AWSIamConfig";
            errors.push(FieldError::with(at.field("kind"), FaultKind::NotSupported, detail));
        } else if refs.iter().take(number).any(|other| other.kind == reference.kind) {
            errors.push(FieldError::with(at.field("kind"), FaultKind::Duplicate, "at most one"));
        }
        if reference.name.is_empty() {
            errors.push(FieldError::required(at.field("name"), "required"));
        }
    }
    errors
}

fn bundle(root: &FieldPath, spec: &ClusterSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !spec.eksa_version.is_empty() {
        if spec.bundles_ref.is_some() {
            errors.push(FieldError::forbidden(root.field("bundlesRef"), "mutually exclusive"));
        }
        if let Err(error) = spec.eksa_version.parse::<Release>() {
            errors.push(FieldError::with(root.field("eksaVersion"), FaultKind::Invalid, error.to_string()));
        }
    }
    errors
}

/// What is wrong with the values by which machines count as unhealthy.
pub(super) fn health(path: &FieldPath, check: &HealthCheck) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let durations = [
        ("nodeStartupTimeout", &check.node_startup_timeout),
        ("unhealthyMachineTimeout", &check.unhealthy_machine_timeout),
    ];
    for (field, text) in durations.into_iter().filter(|(_, text)| !text.is_empty()) {
        let problem = match crate::render::duration::seconds(text) {
            Some(seconds) if seconds < 0 => "must not be negative",
            // Cluster API takes no shorter one.
            Some(1..=29) if field == "nodeStartupTimeout" => "must be at least 30s",
            Some(_) => continue,
            None => "not a duration",
        };
        errors.push(FieldError::with(path.field(field), FaultKind::Invalid, problem));
    }
    let fits = match &check.max_unhealthy {
        None => true,
        Some(IntOrString::Int(number)) => *number >= 0,
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').unwrap_or_default();
            percent.len() <= 3 && percent.parse::<u16>().is_ok_and(|percent| percent <= 100)
        }
    };
    if !fits {
        let detail = "must be a whole number or a percentage";
        errors.push(FieldError::with(path.field("maxUnhealthy"), FaultKind::Invalid, detail));
    }
    errors
}
