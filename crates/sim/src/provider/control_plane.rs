//! KubeadmControlPlanes: machines one at a time, secrets of the API server, and what is reported of both.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::objects::{
    CLUSTER_NAME, CONTROL_PLANE, INFRASTRUCTURE, Kind, condition, going, held, hold, holds, make, number, owner,
    report, space, text,
};
use super::{Hand, Scene};
use crate::plane::PlaneError;

/// What a machine of the control plane was made of.
const REVISION: &str = "provider.example.test/revision";

impl Hand {
    pub(super) async fn control_plane(&self, plane: &DynamicObject, scene: &Scene) -> Result<(), PlaneError> {
        if self.shared.spares(&plane.name_any()) {
            return Ok(());
        }
        let api = self.api(Kind::ControlPlane, &space(plane));
        let mut machines: Vec<&DynamicObject> = scene.machines.iter().filter(|machine| owns(plane, machine)).collect();
        machines.sort_by_key(|machine| (machine.creation_timestamp(), machine.name_any()));
        if going(plane) {
            if !machines.is_empty() {
                return self.delete(machines.iter().filter(|machine| !going(machine))).await;
            }
            if held(plane) {
                self.end_workload(&plane.name_any()).await;
                hold(&api, plane, false).await?;
            }
            return Ok(());
        }
        if !held(plane) {
            return hold(&api, plane, true).await;
        }
        let Some(cluster) = owner(plane, "Cluster") else { return Ok(()) };
        let cluster = scene.clusters.iter().find(|one| one.name_any() == cluster && space(one) == space(plane));
        if !cluster.is_some_and(|cluster| holds(cluster, "/status/initialization/infrastructureProvisioned")) {
            return Ok(());
        }
        let runs = machines.iter().any(|machine| instance_runs(machine, scene));
        self.roll(plane, &machines, runs).await?;
        report(&api, plane, &status(plane, &machines, runs)).await
    }

    /// Starts the API server of a cluster, tells of it in secrets, and says whether that is done. A spared cluster has none.
    pub(super) async fn api_server(&self, infrastructure: &DynamicObject, scene: &Scene) -> Result<bool, PlaneError> {
        let name = infrastructure.name_any();
        if self.shared.spares(&name) || self.shared.told(&name) {
            return Ok(true);
        }
        let plane = scene.planes.iter().find(|one| one.name_any() == name && space(one) == space(infrastructure));
        let Some(plane) = plane else { return Ok(false) };
        let Some(files) = self.start_workload(&name).await? else { return Ok(false) };
        let secrets = self.api(Kind::Secret, &space(plane));
        for (suffix, data) in files {
            let secret = secret(plane, &format!("{name}-{suffix}"), &data);
            let params = PatchParams::apply("played-provider").force();
            let done = secrets.patch(&format!("{name}-{suffix}"), &params, &Patch::Apply(&secret)).await;
            done.map_err(PlaneError::kube(format!("writing the secret {name}-{suffix}")))?;
        }
        self.shared.tell(&name);
        Ok(true)
    }

    /// Makes or deletes at most one machine: the new one first, and the old one only when the new one is ready.
    async fn roll(&self, plane: &DynamicObject, machines: &[&DynamicObject], runs: bool) -> Result<(), PlaneError> {
        let wanted = usize::try_from(number(plane, "/spec/replicas").unwrap_or(1)).unwrap_or_default();
        let surge = plane.data.pointer("/spec/rollout/strategy/rollingUpdate/maxSurge").and_then(Value::as_u64);
        let most = wanted + usize::try_from(surge.unwrap_or(1)).unwrap_or(1);
        let revision = revision(plane);
        let (fresh, old): (Vec<&DynamicObject>, Vec<&DynamicObject>) =
            machines.iter().copied().partition(|machine| machine.annotations().get(REVISION) == Some(&revision));
        if machines.iter().any(|machine| going(machine)) || (!machines.is_empty() && !runs) {
            return Ok(());
        }
        if !machines.iter().all(|machine| machine.data.pointer("/status/nodeRef/name").is_some()) {
            return Ok(());
        }
        if fresh.len() < wanted && machines.len() < most.max(1) {
            return self.add(plane, machines, &revision).await;
        }
        let settled = fresh.iter().all(|machine| condition(machine, "Ready"));
        let surplus = machines.len() > wanted || (fresh.len() < wanted && machines.len() >= most);
        if surplus && settled {
            let first = old.first().or(fresh.first());
            return self.delete(first.into_iter()).await;
        }
        Ok(())
    }

    async fn delete<'m>(&self, machines: impl Iterator<Item = &'m &'m DynamicObject>) -> Result<(), PlaneError> {
        for machine in machines {
            let name = machine.name_any();
            let deleted = self.api(Kind::Machine, &space(machine)).delete(&name, &DeleteParams::default()).await;
            deleted.map_err(PlaneError::kube(format!("deleting {name}")))?;
        }
        Ok(())
    }

    async fn add(&self, plane: &DynamicObject, machines: &[&DynamicObject], revision: &str) -> Result<(), PlaneError> {
        let (space, reference) = (space(plane), "/spec/machineTemplate/spec/infrastructureRef/name");
        let from = text(plane, reference);
        let template = self.api(Kind::CloudStackMachineTemplate, &space).get(from).await;
        let template = template.map_err(PlaneError::kube(format!("reading the template {from}")))?;
        let named = |number: &usize| format!("{}-{revision}-{number}", plane.name_any());
        let free = (0..=machines.len())
            .map(|number| named(&number))
            .find(|name| !machines.iter().any(|machine| machine.name_any() == *name));
        let Some(name) = free else { return Ok(()) };
        let labels = json!({CLUSTER_NAME: cluster_name(plane), CONTROL_PLANE: ""});
        let spec = template.data.pointer("/spec/template/spec").cloned().unwrap_or_default();
        let instance = json!({
            "apiVersion": format!("{INFRASTRUCTURE}/v1beta3"), "kind": "CloudStackMachine",
            "metadata": {"name": name, "namespace": space, "labels": labels, "ownerReferences": [owned(plane, false)],
                "annotations": {"cluster.x-k8s.io/cloned-from-name": from,
                    "cluster.x-k8s.io/cloned-from-groupkind": format!("CloudStackMachineTemplate.{INFRASTRUCTURE}")}},
            "spec": spec,
        });
        make(&self.api(Kind::CloudStackMachine, &space), instance).await?;
        let data = json!({"value": encoded("#cloud-config\n")});
        make(&self.api(Kind::Secret, &space), secret(plane, &name, &data)).await?;
        let machine = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": space, "labels": labels, "annotations": {REVISION: revision},
                "ownerReferences": [owned(plane, true)]},
            "spec": {
                "clusterName": cluster_name(plane), "version": text(plane, "/spec/version"),
                "bootstrap": {"dataSecretName": name},
                "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "CloudStackMachine", "name": name},
            },
        });
        make(&self.api(Kind::Machine, &space), machine).await
    }
}

/// Whether the virtual machine of a Machine runs.
fn instance_runs(machine: &DynamicObject, scene: &Scene) -> bool {
    let name = text(machine, "/spec/infrastructureRef/name");
    let instance = scene.instances.iter().find(|one| one.name_any() == name && space(one) == space(machine));
    instance.is_some_and(|instance| holds(instance, "/status/ready"))
}

fn owns(plane: &DynamicObject, machine: &DynamicObject) -> bool {
    let uid = plane.uid();
    machine.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref())
}

fn owned(plane: &DynamicObject, controller: bool) -> Value {
    json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "name": plane.name_any(), "uid": plane.uid(), "controller": controller, "blockOwnerDeletion": controller})
}

fn cluster_name(plane: &DynamicObject) -> String {
    owner(plane, "Cluster").map(str::to_owned).unwrap_or_else(|| plane.name_any())
}

fn encoded(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn secret(plane: &DynamicObject, name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret", "data": data,
        "metadata": {"name": name, "namespace": space(plane), "labels": {CLUSTER_NAME: cluster_name(plane)},
            "ownerReferences": [owned(plane, true)]}})
}

/// What a machine is made of; it is replaced when this differs.
fn revision(plane: &DynamicObject) -> String {
    let mut hasher = DefaultHasher::new();
    for part in ["version", "kubeadmConfigSpec", "machineTemplate/spec/infrastructureRef"] {
        let part = plane.data.pointer(&format!("/spec/{part}")).unwrap_or(&Value::Null);
        part.to_string().hash(&mut hasher);
    }
    format!("{:05x}", hasher.finish() & 0xf_ffff)
}

fn status(plane: &DynamicObject, machines: &[&DynamicObject], runs: bool) -> Value {
    let revision = revision(plane);
    let ready = machines.iter().filter(|machine| condition(machine, "Ready")).count();
    let fresh = machines.iter().filter(|machine| machine.annotations().get(REVISION) == Some(&revision)).count();
    // The lowest, as a real one reports it: it is the version of all only when all have it.
    let version = machines.iter().map(|machine| text(machine, "/spec/version")).min_by_key(|text| parts(text));
    let up = runs && machines.iter().any(|machine| machine.data.pointer("/status/nodeRef/name").is_some());
    let available =
        if up { ("True", "Available", "") } else { ("False", "NotAvailable", "Control plane not yet initialized") };
    let mut status = json!({
        "observedGeneration": plane.metadata.generation, "replicas": machines.len(), "readyReplicas": ready,
        "availableReplicas": ready, "upToDateReplicas": fresh,
        "selector": format!("{CLUSTER_NAME}={},{CONTROL_PLANE}", cluster_name(plane)),
        "conditions": [with_time(plane, "Available", available)],
    });
    if let Some(fields) = status.as_object_mut() {
        if let Some(version) = version.filter(|version| up && !version.is_empty()) {
            fields.insert("version".to_owned(), json!(version));
        }
        if runs {
            fields.insert("initialization".to_owned(), json!({"controlPlaneInitialized": true}));
        }
    }
    status
}

/// The numbers of a version, to compare it by.
fn parts(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// A condition, with the moment since when it is so.
fn with_time(object: &DynamicObject, kind: &str, (status, reason, message): (&str, &str, &str)) -> Value {
    let all = object.data.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let before = all.iter().find(|one| {
        one.get("type").and_then(Value::as_str) == Some(kind)
            && one.get("status").and_then(Value::as_str) == Some(status)
    });
    let since = before.and_then(|one| one.get("lastTransitionTime")).cloned();
    let now = || json!(Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since.unwrap_or_else(now)})
}
