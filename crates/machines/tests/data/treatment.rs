//! Stories of remediation.

use machines::remediation::Treat;
use serde_json::json;
use sim::server::Server;

use crate::actors::node;
use crate::objects::{HOSTS, MACHINES, NS, REMEDIATIONS, at, condition, machine, remediation};
use crate::site::Site;

fn site(treat: Treat, limit: i32) -> Site {
    Site::new(treat, |server, inside| {
        machine(server, "m1", Some("baremetal"), true);
        inside.put(node("m1", &json!({"role": "db"}))).unwrap();
        remediation(server, "m1", limit);
    })
}

fn phase(server: &Server) -> String {
    server.get(REMEDIATIONS, NS, "m1").map(|r| at(&r, "/status/phase").to_owned()).unwrap_or_default()
}

fn held(server: &Server) -> bool {
    let notes = server.get(HOSTS, NS, "m1").unwrap()["metadata"]["annotations"].clone();
    notes.as_object().is_some_and(|notes| notes.keys().any(|key| key.starts_with("reboot.metal3.io/")))
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_rebooted_its_node_deleted_and_restored() {
    let site = site(Treat::Delete, 1);
    let first = site.inside.get("nodes", "", "m1").unwrap()["metadata"]["uid"].clone();
    site.until("the host is kept off", held).await;
    site.until("it is treated", |server| {
        server.get(REMEDIATIONS, NS, "m1").is_some_and(|r| condition(&r) == "True/Remediated")
    })
    .await;
    let back = site.inside.get("nodes", "", "m1").unwrap();
    assert_ne!(back["metadata"]["uid"], first);
    let stored = format!("/api/v1/namespaces/{NS}/secrets/c-kubeconfig");
    let log = site.server.log();
    let read = log.iter().filter(|entry| entry.client == "room" && entry.path == stored).count();
    assert_eq!(read, 1, "a kubeconfig is read once for each version of it");
    assert_eq!(at(&back, "/metadata/labels/role"), "db");
    // What the new Node says of itself counts more than what the old one said.
    assert_eq!(at(&back, "/metadata/annotations/who"), "kubelet");
    assert!(!held(&site.server));
    let treated = site.get(REMEDIATIONS, "m1");
    assert!(treated.pointer("/metadata/annotations").is_none_or(|notes| notes.as_object().unwrap().is_empty()));
    // The health check is content.
    site.server.delete(REMEDIATIONS, NS, "m1");
    site.until("it is gone", |server| server.get(REMEDIATIONS, NS, "m1").is_none()).await;
    site.rest().await;
    assert!(site.get(HOSTS, "m1").pointer("/metadata/annotations/capm3.metal3.io~1unhealthy").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_node_goes_out_of_service_until_its_pods_and_volumes_have_left() {
    let site = site(Treat::Auto, 1);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "finalizers": ["test/hold"]},
        "spec": {"nodeName": "m1", "containers": []}});
    site.inside.put(pod).unwrap();
    let volume = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "v"},
        "spec": {"nodeName": "m1", "attacher": "a", "source": {}}, "status": {"attached": true}});
    site.inside.put(volume).unwrap();
    let first = site.inside.get("nodes", "", "m1").unwrap()["metadata"]["uid"].clone();
    site.until("it waits for the pod", |server| {
        server.get(REMEDIATIONS, NS, "m1").is_some_and(|r| condition(&r) == "False/DrainingNode")
    })
    .await;
    let taints = site.inside.get("nodes", "", "m1").unwrap()["spec"]["taints"].clone();
    assert_eq!(at(&taints[0], "/key"), "node.kubernetes.io/out-of-service");
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(held(&site.server) && phase(&site.server) == "Running");
    site.inside.edit("pods", "default", "p", |pod| pod["metadata"]["finalizers"] = json!([])).unwrap();
    site.until("it is treated", |server| {
        server.get(REMEDIATIONS, NS, "m1").is_some_and(|r| condition(&r) == "True/Remediated")
    })
    .await;
    let node = site.inside.get("nodes", "", "m1").unwrap();
    assert_eq!(node["metadata"]["uid"], first);
    assert!(node.pointer("/spec/taints").is_none_or(|taints| taints.as_array().unwrap().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn after_the_last_try_the_machine_is_handed_over_and_its_host_blamed() {
    let site = site(Treat::Delete, 2);
    site.server.edit(HOSTS, NS, "m1", |claim| claim["metadata"]["annotations"] = json!({"test/dead": "true"})).unwrap();
    site.until("it is given up", |server| phase(server) == "Deleting machine").await;
    let treated = site.get(REMEDIATIONS, "m1");
    assert_eq!(
        (treated["status"]["retryCount"].as_i64(), condition(&treated).as_str()),
        (Some(2), "False/RetryLimitReached")
    );
    let machine = site.get(MACHINES, "m1-machine");
    for path in ["/status/conditions/0", "/status/deprecated/v1beta1/conditions/0"] {
        let asked = machine.pointer(path).unwrap();
        assert_eq!(
            (at(asked, "/type"), at(asked, "/status"), at(asked, "/reason")),
            ("OwnerRemediated", "False", "WaitingForRemediation")
        );
    }
    let claim = site.get(HOSTS, "m1");
    assert_eq!(at(&claim, "/metadata/annotations/capm3.metal3.io~1unhealthy"), "capm3/UnhealthyNode");
    site.rest().await;
    assert!(!held(&site.server));
    // The machine goes, and its treatment with it.
    site.server.delete(MACHINES, NS, "m1-machine");
    site.until("the treatment is gone", |server| server.get(REMEDIATIONS, NS, "m1").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_to_be_off_is_not_treated() {
    let site = Site::new(Treat::Auto, |server, inside| {
        machine(server, "m1", Some("baremetal"), true);
        server.edit(HOSTS, NS, "m1", |claim| claim["spec"]["poweredOn"] = json!(false)).unwrap();
        inside.put(node("m1", &json!({"role": "db"}))).unwrap();
        remediation(server, "m1", 1);
    });
    site.until("it has failed", |server| phase(server) == "Failed").await;
    site.rest().await;
    assert!(!held(&site.server) && site.inside.get("nodes", "", "m1").is_some());
    assert!(site.get(REMEDIATIONS, "m1").pointer("/metadata/finalizers").is_none());
}
