//! What is wrong with the control plane of a Cluster, and with etcd apart from it.

use std::net::IpAddr;

use api::names::DnsSubdomain;
use api::own::anywhere::{ClusterSpec, ControlPlane, ControlPlaneRollout};
use kit::field::{FaultKind, FieldError, FieldPath};
use serde_json::Value;

use super::Terms;
use super::cluster::{MACHINE_CONFIG, health, ref_fault};
use super::labels::{label_faults, taint_faults};
use crate::endpoint::{HostPort, NotAnEndpoint};

const ROLLING_UPDATE: &str = "RollingUpdate";

pub(super) fn faults(root: &FieldPath, spec: &ClusterSpec, terms: &Terms) -> Vec<FieldError> {
    let path = root.field("controlPlaneConfiguration");
    let plane = spec.control_plane_configuration.clone().unwrap_or_default();
    let mut errors = Vec::new();
    errors.extend(ref_fault(&path.field("machineGroupRef"), plane.machine_group_ref.as_ref(), MACHINE_CONFIG));
    let host = plane.endpoint.as_ref().map(|endpoint| endpoint.host.as_str()).unwrap_or_default();
    if let Err(error) = host.parse::<HostPort>() {
        let kind = if error == NotAnEndpoint::Empty { FaultKind::Required } else { FaultKind::Invalid };
        errors.push(FieldError::with(path.field("endpoint").field("host"), kind, error.to_string()));
    }
    let stacked = spec.external_etcd_configuration.is_none();
    if plane.replicas() < 1 {
        errors.push(FieldError::with(path.field("count"), FaultKind::Invalid, "must be at least 1"));
    } else if stacked && plane.replicas() % 2 == 0 {
        errors.push(FieldError::with(path.field("count"), FaultKind::Invalid, "must be odd with stacked etcd"));
    }
    if let Some(rollout) = &plane.upgrade_rollout_strategy {
        errors.extend(rollout_fault(&path.field("upgradeRolloutStrategy"), rollout, plane.replicas()));
    }
    errors.extend(label_faults(&path.field("labels"), &plane.labels));
    errors.extend(taint_faults(&path.field("taints"), plane.taints.as_deref().unwrap_or_default()));
    errors.extend(sans(&path.field("certSans"), &plane.cert_sans));
    errors.extend(extra_args(&path.field("apiServerExtraArgs"), spec, &plane, terms));
    errors.extend(kubelet(&path.field("kubeletConfiguration"), plane.kubelet_configuration.as_ref()));
    if !plane.audit_policy_content.is_empty() && !is_audit_policy(&plane.audit_policy_content) {
        let detail = "not an audit policy";
        errors.push(FieldError::with(path.field("auditPolicyContent"), FaultKind::Invalid, detail));
    }
    if plane.skip_admission_for_system_resources == Some(true) {
        errors.push(FieldError::forbidden(path.field("skipAdmissionForSystemResources"), "not supported"));
    }
    if let Some(check) = &plane.machine_health_check {
        errors.extend(health(&path.field("machineHealthCheck"), check));
    }
    errors.extend(etcd(&root.field("externalEtcdConfiguration"), spec));
    errors
}

/// What the owner of the control plane should know.
pub(super) fn warnings(spec: &ClusterSpec) -> Option<String> {
    let count = spec.control_plane_configuration.as_ref()?.replicas();
    let odd = count >= 1 && !matches!(count, 3 | 5);
    odd.then(|| "spec.controlPlaneConfiguration.count: 3 or 5 machines survive the loss of one".to_owned())
}

fn rollout_fault(path: &FieldPath, rollout: &ControlPlaneRollout, count: i32) -> Option<FieldError> {
    if !matches!(rollout.type_.as_str(), "" | ROLLING_UPDATE) {
        return Some(FieldError::with(path.field("type"), FaultKind::NotSupported, "only RollingUpdate"));
    }
    let surge = rollout.rolling_update.as_ref()?.max_surge;
    let detail = match surge {
        0 if count < 3 => "maxSurge 0 needs 3 replicas",
        0 | 1 => return None,
        _ => "must be 0 or 1",
    };
    Some(FieldError::with(path.field("rollingUpdate").field("maxSurge"), FaultKind::Invalid, detail))
}

fn sans(path: &FieldPath, sans: &[String]) -> Option<FieldError> {
    let name = |san: &str| {
        let host = san.strip_prefix("*.").unwrap_or(san).to_ascii_lowercase();
        host.parse::<DnsSubdomain>().is_ok()
    };
    let bad: Vec<&str> = sans.iter().map(String::as_str).filter(|s| s.parse::<IpAddr>().is_err() && !name(s)).collect();
    (!bad.is_empty()).then(|| {
        let detail = format!("neither an address nor a DNS name: {}", bad.join(", "));
        FieldError::with(path.clone(), FaultKind::Invalid, detail)
    })
}

fn extra_args(path: &FieldPath, spec: &ClusterSpec, plane: &ControlPlane, terms: &Terms) -> Vec<FieldError> {
    if plane.api_server_extra_args.is_empty() {
        return Vec::new();
    }
    if !terms.extra_args {
        return vec![FieldError::forbidden(path.clone(), "not enabled on this management cluster")];
    }
    let has_oidc = spec.identity_provider_refs.iter().any(|reference| reference.kind == "OIDCConfig");
    let oidc = plane.api_server_extra_args.keys().filter(|key| has_oidc && key.starts_with("oidc-"));
    oidc.map(|key| FieldError::forbidden(path.key(key), "is set from the OIDCConfig")).collect()
}

/// What is wrong with a configuration of the kubelet.
pub(super) fn kubelet(path: &FieldPath, configuration: Option<&Value>) -> Option<FieldError> {
    match configuration? {
        Value::Object(fields) if fields.contains_key("providerID") => {
            Some(FieldError::forbidden(path.field("providerID"), "set by the controller"))
        }
        Value::Object(_) => None,
        _ => Some(FieldError::with(path.clone(), FaultKind::Invalid, "must be an object")),
    }
}

fn is_audit_policy(text: &str) -> bool {
    serde_saphyr::from_str::<Value>(text).is_ok_and(|policy| policy.get("kind") == Some(&Value::from("Policy")))
}

/// Etcd apart from the control plane needs kinds that no release of Cluster API has.
fn etcd(path: &FieldPath, spec: &ClusterSpec) -> Vec<FieldError> {
    let Some(etcd) = &spec.external_etcd_configuration else { return Vec::new() };
    let mut errors =
        vec![FieldError::forbidden(path.clone(), "external etcd is not available on this management cluster")];
    let count = etcd.count.unwrap_or_default();
    if count < 1 || count % 2 == 0 {
        errors.push(FieldError::with(path.field("count"), FaultKind::Invalid, "must be odd"));
    }
    errors.extend(ref_fault(&path.field("machineGroupRef"), etcd.machine_group_ref.as_ref(), MACHINE_CONFIG));
    errors
}
