//! What is wrong with the groups of workers of a Cluster.

use api::names::DnsLabel;
use api::own::anywhere::{ClusterSpec, WorkerGroup, WorkerRollout};
use kit::field::{FaultKind, FieldError, FieldPath};

use super::cluster::{MACHINE_CONFIG, health, ref_fault};
use super::control_plane::kubelet;
use super::labels::{label_faults, taint_faults};

/// Names of machines are made of both names and a suffix, and must stay host names.
const LONGEST: usize = 50;
/// From this size on, starting all machines of a group may take longer than one is given.
const LARGE: i32 = 10;

pub(super) fn faults(root: &FieldPath, spec: &ClusterSpec, cluster: &str) -> Vec<FieldError> {
    let path = root.field("workerNodeGroupConfigurations");
    let groups = &spec.worker_node_group_configurations;
    if groups.is_empty() {
        return vec![FieldError::required(path, "at least one worker group")];
    }
    let mut errors = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let at = path.index(number);
        errors.extend(name_faults(&at.field("name"), group, cluster));
        if !group.name.is_empty() && groups.iter().take(number).any(|other| other.name == group.name) {
            errors.push(FieldError::with(at.field("name"), FaultKind::Duplicate, "duplicate name"));
        }
        errors.extend(ref_fault(&at.field("machineGroupRef"), group.machine_group_ref.as_ref(), MACHINE_CONFIG));
        errors.extend(count_faults(&at, group));
        if let Some(rollout) = &group.upgrade_rollout_strategy {
            errors.extend(rollout_faults(&at.field("upgradeRolloutStrategy"), rollout));
        }
        errors.extend(label_faults(&at.field("labels"), &group.labels));
        errors.extend(taint_faults(&at.field("taints"), &group.taints));
        errors.extend(kubelet(&at.field("kubeletConfiguration"), group.kubelet_configuration.as_ref()));
        if group.failure_domains.len() > 1 {
            errors.push(FieldError::with(at.field("failureDomains"), FaultKind::TooMany, "at most one"));
        }
        if let Some(check) = &group.machine_health_check {
            errors.extend(health(&at.field("machineHealthCheck"), check));
        }
    }
    errors
}

/// What the owner of the groups should know.
pub(super) fn warnings(spec: &ClusterSpec) -> Vec<String> {
    let timeout = |check: Option<&api::own::anywhere::HealthCheck>| {
        check.is_some_and(|check| !check.node_startup_timeout.is_empty())
    };
    if timeout(spec.machine_health_check.as_ref()) {
        return Vec::new();
    }
    let large = |(_, group): &(usize, &WorkerGroup)| {
        group.count.unwrap_or_default() > LARGE && !timeout(group.machine_health_check.as_ref())
    };
    let groups = spec.worker_node_group_configurations.iter().enumerate().filter(large);
    groups
        .map(|(number, _)| {
            format!(
                "spec.workerNodeGroupConfigurations[{number}]: a group of this size may need a longer \
                 machineHealthCheck.nodeStartupTimeout than the 10m it has"
            )
        })
        .collect()
}

fn name_faults(path: &FieldPath, group: &WorkerGroup, cluster: &str) -> Option<FieldError> {
    if group.name.parse::<DnsLabel>().is_err() {
        return Some(FieldError::with(path.clone(), FaultKind::Invalid, "must be a DNS label"));
    }
    let long = cluster.len() + 1 + group.name.len() > LONGEST;
    long.then(|| FieldError::with(path.clone(), FaultKind::TooLong, "cluster and group name together exceed 50"))
}

fn count_faults(path: &FieldPath, group: &WorkerGroup) -> Vec<FieldError> {
    let count = group.count.unwrap_or(1);
    let mut errors = Vec::new();
    if count < 0 {
        errors.push(FieldError::with(path.field("count"), FaultKind::Invalid, "must be >= 0"));
    }
    if let Some(scaling) = &group.autoscaling_configuration {
        let at = path.field("autoscalingConfiguration");
        let (least, most) = (scaling.min_count.unwrap_or_default(), scaling.max_count.unwrap_or_default());
        if least < 0 {
            errors.push(FieldError::with(at.field("minCount"), FaultKind::Invalid, "must be >= 0"));
        }
        if least > most || count < least || count > most {
            errors.push(FieldError::with(at, FaultKind::Invalid, "minCount <= count <= maxCount"));
        }
    }
    errors
}

fn rollout_faults(path: &FieldPath, rollout: &WorkerRollout) -> Vec<FieldError> {
    if !matches!(rollout.type_.as_str(), "" | "RollingUpdate") {
        return vec![FieldError::with(path.field("type"), FaultKind::NotSupported, "only RollingUpdate")];
    }
    let at = path.field("rollingUpdate");
    let Some(update) = &rollout.rolling_update else {
        return vec![FieldError::required(at, "rollingUpdate required")];
    };
    let values = [("maxSurge", update.max_surge), ("maxUnavailable", update.max_unavailable)];
    let mut errors: Vec<FieldError> = values
        .iter()
        .filter(|(_, value)| *value < 0)
        .map(|(field, _)| FieldError::with(at.field(field), FaultKind::Invalid, "cannot be negative"))
        .collect();
    if values.iter().all(|(_, value)| *value == 0) {
        let detail = "maxSurge and maxUnavailable cannot both be 0";
        errors.push(FieldError::with(at, FaultKind::Invalid, detail));
    }
    errors
}
