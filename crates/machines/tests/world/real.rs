//! Machines on real claims: the room `claims` and the host simulator beside this room, in one process.

use std::sync::Arc;
use std::time::Duration;

use kit::clock::Clock;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use machines::config::Config;
use serde_json::{Value, json};
use sim::metal::{Machines, Settings, Simulator, seed};
use sim::server::Server;

use crate::site::*;

pub const HOSTS: &str = "baremetalhosts.metal3.io";
pub const INFRA: &str = "infra";

/// Starts both rooms and the hosts of a namespace.
pub fn rooms(server: &Server, site: &Site, infra: &'static str) -> Arc<Machines> {
    // Beside its host a claim's own Secrets are used, which the operator labels itself.
    let settings = Settings { labelled_only: infra != NS, ..Settings::default() };
    let simulator = Simulator::with_clock(server.client("operator").kube(), settings, server.clock());
    let machines = simulator.machines();
    tokio::spawn(simulator.run());
    let options = Options { workers: 4, ..Options::default() };
    let clock = Clock::simulated((server.clock())(), 1);
    let manager = Manager::new(server.client("berth").kube(), clock, Gates::new(), Metrics::new(), options);
    claims::mount(&manager, claims::config::Config::default()).unwrap();
    machines::mount(&manager, Config::default(), site.doors()).unwrap();
    tokio::spawn(async move { manager.run().await.unwrap() });
    machines
}

/// Starts both rooms, the hosts of a namespace, and whatever boots on them.
pub fn start(server: &Server, site: &Site, infra: &'static str) -> Arc<Machines> {
    let machines = rooms(server, site, infra);
    let (server, inside) = (server.clone(), site.inside.clone());
    tokio::spawn(async move {
        loop {
            for host in server.list(HOSTS, infra) {
                let name = host["metadata"]["name"].as_str().unwrap().to_owned();
                let there = inside.get(NODES, "", &name).is_some();
                match host["status"]["provisioning"]["state"].as_str() {
                    Some("provisioned") if !there => {
                        let labels = json!({"metal3.io/uuid": host["metadata"]["uid"]});
                        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}});
                        inside.put(node).unwrap();
                    }
                    Some("available") if there => {
                        inside.delete(NODES, "", &name);
                    }
                    _ => {}
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    machines
}

fn site() -> (Server, Site) {
    site_of(["h1", "h2", "h3"].map(|name| seed::host(INFRA, name, &json!({"size": "large"}))).to_vec())
}

/// A site with these hosts, which are inspected and free.
pub fn site_of(hosts: Vec<Value>) -> (Server, Site) {
    let server = Server::new(1);
    let site = Site::new(&server.clock(), None);
    for definition in sim::metal::kinds::definitions() {
        server.put(definition).unwrap();
    }
    define(&server);
    prepare(&server);
    server.namespace(INFRA);
    for host in hosts {
        server.put(seed::settled(&host, (server.clock())())).unwrap();
    }
    server
        .put(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy", "metadata": {"name": "open", "namespace": INFRA},
            "spec": {"hostClaimNamespaces": {"names": [NS]}}}))
        .unwrap();
    (server, site)
}

fn host_of(server: &Server, claim: &str) -> String {
    let status = server.get(CLAIMS, NS, claim).unwrap_or_default()["status"].clone();
    status["bareMetalHost"]["name"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn machines_on_hosts_are_deployed_rolled_over_on_the_same_host_and_wiped() {
    let (server, site) = site();
    // The control plane that owns the Machines is played by nobody.
    server.set_collector(false);
    let plane = json!({"labels": {"cluster.x-k8s.io/control-plane": ""},
        "ownerReferences": [{"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "name": "plane", "uid": "plane-uid", "controller": true}]});
    server
        .put(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3MachineTemplate",
            "metadata": {"name": "t", "namespace": NS},
            "spec": {"nodeReuse": true, "template": {"spec": {"kind": "baremetal"}}}}))
        .unwrap();
    machine_of(&server, "m1", &json!({}), &plane);
    let yonder = start(&server, &site, INFRA);
    ready(&server, "m1").await;
    let host = host_of(&server, "m1");
    let disk = yonder.disk(INFRA, &host).unwrap();
    assert_eq!(disk.user_data.as_deref(), Some("#cloud-config"));
    let node = site.inside.get(NODES, "", &host).unwrap();
    assert_eq!(node["spec"]["providerID"], "metal3://team/m1/m1");
    assert_eq!(server.get(CLAIMS, NS, "m1").unwrap()["spec"]["nodeReuse"], "cp-plane");

    server.delete(MACHINES, NS, "m1");
    machine_of(&server, "m2", &json!({}), &plane);
    until(&server, "the first machine is gone", |server| server.get(MACHINES, NS, "m1").is_none()).await;
    ready(&server, "m2").await;
    assert_ne!(host_of(&server, "m2"), "");
    machine_of(&server, "m3", &json!({}), &plane);
    ready(&server, "m3").await;
    let hosts = [host_of(&server, "m2"), host_of(&server, "m3")];
    assert!(hosts.contains(&host), "{hosts:?} was to hold {host}, which was kept for the group");
    for name in ["m2", "m3"] {
        server.delete(MACHINES, NS, name);
    }
    until(&server, "the machines are gone", |server| {
        ["m2", "m3"].iter().all(|name| server.get(MACHINES, NS, name).is_none())
    })
    .await;
    assert!(server.list(CLAIMS, NS).is_empty());
    let empty = |host: &Value| yonder.disk(INFRA, host["metadata"]["name"].as_str().unwrap()).is_none();
    assert!(server.list(HOSTS, INFRA).iter().all(empty), "nothing is left on a disk");
}
