//! Cluster API and its CloudStack provider, played: what is asked for is there a little later.

use serde_json::{Value, json};
use sim::server::Server;

use crate::site::*;

const FINALIZER: &str = "cluster.cluster.x-k8s.io";

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn set_status(server: &Server, resource: &str, object: &Value, status: Value) {
    if object["status"] != status {
        let _ = server.edit(resource, SYSTEM, &name(object), |object| object["status"] = status);
    }
}

fn available(generation: &Value) -> Value {
    json!([{"type": "Available", "status": "True", "reason": "Available", "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z", "observedGeneration": generation}])
}

/// Machines of a role, as many as are wanted.
fn machines(server: &Server, cluster: &str, role: &str, wanted: i64) {
    let prefix = format!("{role}-");
    let there: Vec<Value> =
        server.list(NODES, SYSTEM).into_iter().filter(|machine| name(machine).starts_with(&prefix)).collect();
    for number in 0..wanted {
        let name = format!("{prefix}{number}");
        if server.get(NODES, SYSTEM, &name).is_none() {
            server
                .put(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                    "metadata": {"name": name, "namespace": SYSTEM, "labels": {"cluster.x-k8s.io/cluster-name": cluster}},
                    "spec": {"clusterName": cluster}}))
                .unwrap();
        }
    }
    for machine in there {
        let number: i64 = name(&machine).strip_prefix(&prefix).unwrap().parse().unwrap_or(0);
        if number >= wanted {
            server.delete(NODES, SYSTEM, &name(&machine));
        }
    }
}

/// One look at the world.
pub fn play(server: &Server, inside: &Server) {
    for cluster in server.list(CAPI, SYSTEM) {
        let called = name(&cluster);
        if deleting(&cluster) {
            for kind in [GROUPS, PLANES, CHECKS, PROVIDER] {
                for object in server.list(kind, SYSTEM) {
                    if object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == called.as_str() {
                        server.delete(kind, SYSTEM, &name(&object));
                    }
                }
            }
            let left: Vec<Value> = server
                .list(NODES, SYSTEM)
                .into_iter()
                .filter(|machine| machine["spec"]["clusterName"] == called.as_str())
                .collect();
            match left.first() {
                Some(machine) => drop(server.delete(NODES, SYSTEM, &name(machine))),
                None => {
                    let _ = server.edit(CAPI, SYSTEM, &called, |cluster| {
                        cluster["metadata"].as_object_mut().unwrap().remove("finalizers");
                    });
                    server.delete("secrets", SYSTEM, &format!("{called}-kubeconfig"));
                }
            }
            continue;
        }
        if cluster["metadata"]["finalizers"].is_null() {
            let _ =
                server.edit(CAPI, SYSTEM, &called, |cluster| cluster["metadata"]["finalizers"] = json!([FINALIZER]));
        }
        let Some(plane) = server.get(PLANES, SYSTEM, &called) else { continue };
        let (generation, wanted) = (&plane["metadata"]["generation"], &plane["spec"]["replicas"]);
        let template = plane["spec"]["machineTemplate"]["spec"]["infrastructureRef"]["name"].as_str().unwrap();
        assert!(server.get(TEMPLATES, SYSTEM, template).is_some(), "a reference that dangles: {template}");
        let status = json!({"observedGeneration": generation, "replicas": wanted, "readyReplicas": wanted,
            "upToDateReplicas": wanted, "version": plane["spec"]["version"], "conditions": available(generation),
            "initialization": {"controlPlaneInitialized": true}});
        set_status(server, PLANES, &plane, status);
        machines(server, &called, &format!("{called}-cp"), wanted.as_i64().unwrap());
        let secret = format!("{called}-kubeconfig");
        if server.get("secrets", SYSTEM, &secret).is_none() {
            server
                .put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret, "namespace": SYSTEM},
                    "stringData": {"value": "apiVersion: v1\nkind: Config\n"}}))
                .unwrap();
        }
    }
    for group in server.list(GROUPS, SYSTEM) {
        let called = group["spec"]["clusterName"].as_str().unwrap().to_owned();
        if deleting(&group) || server.get(CAPI, SYSTEM, &called).is_none() {
            continue;
        }
        let spec = &group["spec"]["template"]["spec"];
        let (machine, config) = (&spec["infrastructureRef"]["name"], &spec["bootstrap"]["configRef"]["name"]);
        assert!(server.get(TEMPLATES, SYSTEM, machine.as_str().unwrap()).is_some(), "a reference that dangles");
        assert!(server.get(CONFIGS, SYSTEM, config.as_str().unwrap()).is_some(), "a reference that dangles");
        let annotation =
            &group["metadata"]["annotations"]["cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"];
        let least = annotation.as_str().and_then(|text| text.parse().ok()).unwrap_or(1);
        let wanted = group["spec"]["replicas"].as_i64().unwrap_or(least);
        let generation = &group["metadata"]["generation"];
        let status = json!({"observedGeneration": generation, "replicas": wanted, "readyReplicas": wanted,
            "upToDateReplicas": wanted, "conditions": available(generation)});
        set_status(server, GROUPS, &group, status);
        machines(server, &called, &name(&group), wanted);
    }
    for group in server.list(NODES, SYSTEM) {
        // Machines of a group that is gone go with it.
        let called = name(&group);
        let Some((role, _)) = called.rsplit_once('-') else { continue };
        let cluster = group["spec"]["clusterName"].as_str().unwrap().to_owned();
        let plane = role == format!("{cluster}-cp");
        if !plane && server.get(GROUPS, SYSTEM, role).is_none() && server.get(CAPI, SYSTEM, &cluster).is_some() {
            server.delete(NODES, SYSTEM, &called);
        }
    }
    for kind in ["daemonsets.apps", "deployments.apps"] {
        for object in inside.list(kind, "kube-system") {
            let wanted = object["spec"]["replicas"].as_i64().unwrap_or(2);
            let generation = &object["metadata"]["generation"];
            let status = json!({"observedGeneration": generation, "numberReady": wanted, "readyReplicas": wanted,
                "desiredNumberScheduled": wanted, "updatedNumberScheduled": wanted});
            if object["status"] != status {
                let called = name(&object);
                let _ = inside.edit(kind, "kube-system", &called, |object| object["status"] = status);
            }
        }
    }
}
