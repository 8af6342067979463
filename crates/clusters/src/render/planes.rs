//! Objects of Cluster API: the cluster, its control plane and its groups of workers.

use api::names::CLUSTER_NAME_LABEL;
use api::own::anywhere::{ControlPlaneRollout, WorkerRollout};
use serde_json::{Value, json};

use super::facts::{Facts, GroupFacts};
use super::infrastructure::{self, MACHINE_TEMPLATE};
use super::names::{Live, Template, choose};
use super::{CAPI, Group, filled, kubeadm, object, reference};

const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const CONTROL_PLANE_VERSION: &str = "controlplane.cluster.x-k8s.io/v1beta2";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const BOOTSTRAP_VERSION: &str = "bootstrap.cluster.x-k8s.io/v1beta2";
const CONFIG_TEMPLATE: &str = "KubeadmConfigTemplate";
const ROLLING_UPDATE: &str = "RollingUpdate";

/// The Cluster.
pub(super) fn cluster(facts: &Facts<'_>) -> Value {
    let network = filled([
        ("pods", filled([("cidrBlocks", json!(facts.pods()))])),
        ("services", filled([("cidrBlocks", json!(facts.services()))])),
    ]);
    let spec = filled([
        ("clusterNetwork", network),
        ("controlPlaneEndpoint", json!({"host": facts.endpoint.host, "port": facts.endpoint.port()})),
        ("controlPlaneRef", reference(CONTROL_PLANE, "KubeadmControlPlane", facts.name)),
        ("infrastructureRef", infrastructure::reference(infrastructure::CLUSTER, facts.name)),
    ]);
    object(facts, CAPI, "Cluster", facts.name, spec)
}

/// The KubeadmControlPlane, whose machines are made from this template.
pub(super) fn control_plane(facts: &Facts<'_>, template: &str) -> Value {
    let surge = |rollout: &ControlPlaneRollout| rollout.rolling_update.as_ref().map(|update| update.max_surge);
    let surge = facts.plane.upgrade_rollout_strategy.as_ref().and_then(surge).unwrap_or(1);
    let spec = json!({
        "replicas": facts.plane.replicas(),
        "version": facts.tag,
        "rollout": {"strategy": {"type": ROLLING_UPDATE, "rollingUpdate": {"maxSurge": surge}}},
        "machineTemplate": {
            // Cluster API waits for this label on nodes before it calls a control plane ready.
            "metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"infrastructureRef": infrastructure::reference(MACHINE_TEMPLATE, template)},
        },
        "kubeadmConfigSpec": kubeadm::control_plane(facts),
    });
    object(facts, CONTROL_PLANE_VERSION, "KubeadmControlPlane", facts.name, spec)
}

/// The templates and the MachineDeployment of a group.
pub(super) fn group(facts: &Facts<'_>, group: &GroupFacts<'_>, live: &Live) -> Group {
    let name = format!("{}-{}", facts.name, group.group.name);
    let current = live.groups.get(&group.group.name).cloned().unwrap_or_default();
    let spec = infrastructure::machine_template(group.machine);
    let machine_template = infrastructure::template_object(facts, &name, spec, current.machine.as_deref(), live);
    let spec = json!({"template": {"spec": kubeadm::worker(facts, group)}});
    let (config, exists) = choose(CONFIG_TEMPLATE, &name, &spec, current.config.as_deref(), live);
    let config_template =
        Template { object: object(facts, BOOTSTRAP_VERSION, CONFIG_TEMPLATE, &config, spec), name: config, exists };
    let deployment = deployment(facts, group, &name, &machine_template.name, &config_template.name);
    Group { name: group.group.name.clone(), machine_template, config_template, deployment }
}

fn deployment(facts: &Facts<'_>, group: &GroupFacts<'_>, name: &str, machine: &str, config: &str) -> Value {
    let scaling = group.group.autoscaling_configuration.as_ref();
    // cluster-autoscaler owns the number while it is switched on, so it is not ours to write.
    let replicas = scaling.is_none().then(|| group.group.count.unwrap_or(1));
    let machine_spec = filled([
        ("clusterName", json!(facts.name)),
        ("version", json!(group.tag)),
        ("bootstrap", json!({"configRef": reference(BOOTSTRAP, CONFIG_TEMPLATE, config)})),
        ("infrastructureRef", infrastructure::reference(MACHINE_TEMPLATE, machine)),
        ("failureDomain", json!(group.group.failure_domains.first())),
    ]);
    let mut spec = filled([
        ("clusterName", json!(facts.name)),
        ("replicas", json!(replicas)),
        ("rollout", group.group.upgrade_rollout_strategy.as_ref().map(rollout).unwrap_or_default()),
        ("template", json!({"metadata": {"labels": {CLUSTER_NAME_LABEL: facts.name}}, "spec": machine_spec})),
    ]);
    if let Value::Object(spec) = &mut spec {
        // Required, and filled in by Cluster API.
        spec.insert("selector".to_owned(), json!({}));
    }
    let mut deployment = object(facts, CAPI, "MachineDeployment", name, spec);
    if let (Some(scaling), Some(metadata)) = (scaling, deployment.get_mut("metadata").and_then(Value::as_object_mut)) {
        let size = |limit: Option<i32>| limit.unwrap_or_default().to_string();
        let annotations = json!({
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": size(scaling.min_count),
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": size(scaling.max_count),
        });
        metadata.insert("annotations".to_owned(), annotations);
    }
    deployment
}

fn rollout(rollout: &WorkerRollout) -> Value {
    let update = rollout.rolling_update.as_ref();
    let update = update.map(|u| json!({"maxSurge": u.max_surge, "maxUnavailable": u.max_unavailable}));
    json!({"strategy": filled([("type", json!(ROLLING_UPDATE)), ("rollingUpdate", json!(update))])})
}
