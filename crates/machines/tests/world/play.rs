//! The controllers of claims and of data, and the machines that boot, played: what is asked for is there a little later.

use serde_json::{Value, json};
use sim::server::Server;

use crate::site::*;

/// How a machine that boots shows itself in its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Boot {
    /// By the label with the uid of its host.
    #[default]
    Label,
    /// By its provider id.
    Id,
    /// By the name of its host.
    Name,
    /// Not at all.
    Never,
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn condition(type_: &str, yes: bool, reason: &str, generation: &Value) -> Value {
    json!({"type": type_, "status": if yes { "True" } else { "False" }, "reason": reason, "message": "Played.",
        "lastTransitionTime": "2030-01-01T00:00:00Z", "observedGeneration": generation})
}

fn held(server: &Server, kind: &str, object: &Value, finalizer: &str) {
    if object["metadata"]["finalizers"].is_null() {
        let _ = server.edit(kind, NS, &name(object), |object| object["metadata"]["finalizers"] = json!([finalizer]));
    }
}

fn let_go(server: &Server, kind: &str, object: &Value) {
    let _ = server.edit(kind, NS, &name(object), |object| {
        drop(object["metadata"].as_object_mut().unwrap().remove("finalizers"));
    });
}

fn set_status(server: &Server, kind: &str, object: &Value, status: &Value) {
    if object["status"] != *status {
        let _ = server.edit(kind, NS, &name(object), |object| object["status"] = status.clone());
    }
}

/// One look at the world.
pub fn play(server: &Server, inside: &Server, boot: Boot) {
    for claim in server.list(CLAIMS, NS) {
        let called = name(&claim);
        if deleting(&claim) {
            inside.delete(NODES, "", &format!("{called}-host"));
            let_go(server, CLAIMS, &claim);
            continue;
        }
        held(server, CLAIMS, &claim, "metal3.io/hostclaim");
        let claim = server.get(CLAIMS, NS, &called).unwrap();
        let (spec, generation) = (&claim["spec"], &claim["metadata"]["generation"]);
        let up = spec["poweredOn"] == true && spec["image"].is_object();
        // Labels of the host are the admin's: a test may have changed them.
        let labels = match claim["status"]["hostMetadata"]["labels"].clone() {
            Value::Null => json!({"rack.example.org/row": "7"}),
            labels => labels,
        };
        let status = json!({
            "ready": up, "observedGeneration": generation, "hostUID": format!("{called}-host-uid"),
            "bareMetalHost": {"namespace": "infra", "name": format!("{called}-host")},
            "failureDomain": "rack-1", "poweredOn": up, "hostMetadata": {"labels": labels},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}, {"type": "Hostname", "address": format!("{called}-host")}],
            "conditions": [
                condition("Associated", true, "BareMetalHostAssociated", generation),
                condition("Provisioned", up, if up { "Provisioned" } else { "NotProvisioned" }, generation),
            ],
        });
        set_status(server, CLAIMS, &claim, &status);
        if up && boot != Boot::Never && inside.get(NODES, "", &format!("{called}-host")).is_none() {
            let mut node =
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("{called}-host")}, "spec": {}});
            match boot {
                Boot::Label => node["metadata"]["labels"] = json!({"metal3.io/uuid": format!("{called}-host-uid")}),
                Boot::Id => node["spec"]["providerID"] = json!(format!("metal3://{NS}/{called}/{called}")),
                Boot::Name | Boot::Never => {}
            }
            inside.put(node).unwrap();
        }
    }
    for wish in server.list(DATA_CLAIMS, NS) {
        let called = name(&wish);
        let data = format!("{}-0", wish["spec"]["template"]["name"].as_str().unwrap());
        if deleting(&wish) {
            server.delete(DATAS, NS, &data);
            let_go(server, DATA_CLAIMS, &wish);
            continue;
        }
        held(server, DATA_CLAIMS, &wish, "metal3dataclaim.infrastructure.cluster.x-k8s.io");
        if server.get(DATAS, NS, &data).is_none() {
            server
                .put(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Data",
                    "metadata": {"name": data, "namespace": NS},
                    "spec": {"index": 0, "claim": {"name": called, "namespace": NS}, "template": wish["spec"]["template"],
                        "metaData": {"name": format!("{called}-metadata"), "namespace": NS},
                        "networkData": {"name": format!("{called}-networkdata"), "namespace": NS}},
                    "status": {"ready": true}}))
                .unwrap();
        }
        let wish = server.get(DATA_CLAIMS, NS, &called).unwrap();
        set_status(server, DATA_CLAIMS, &wish, &json!({"renderedData": {"name": data, "namespace": NS}}));
    }
}
