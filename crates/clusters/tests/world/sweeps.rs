//! Stopped at every effect, started on old news, robbed of every event: the room always ends in the same world, and at no
//! moment does something refer to what is not there or lose its finalizer too early.

use std::sync::Arc;
use std::time::Duration;

use kit::clock::Clock;
use serde_json::{Value, json};
use sim::server::{self, Server};
use sim::sweep::{self, Scenario, World};

use crate::site::*;

/// A cluster is made, upgraded by a minor version with its network plugin, changed, given a group that is taken away again,
/// and deleted.
struct Life;

/// A cluster is made and upgraded by a minor version with its network plugin.
struct Upgrading;

/// A cluster is made and stays.
struct Standing;

/// A cluster is made and deleted.
struct Leaving;

fn settled(server: &Server, site: &Site) -> Value {
    let clusters: Vec<Value> = server
        .list(CLUSTERS, NS)
        .iter()
        .filter(|cluster| cluster["metadata"]["name"] == "prod")
        .map(|cluster| {
            let status = &cluster["status"];
            json!({
                "ready": found(cluster, "Ready").0, "failure": status["failureReason"],
                "generation": status["reconciledGeneration"], "revision": status["renderRevision"],
                "cni": status["cni"], "finalizers": cluster["metadata"]["finalizers"],
            })
        })
        .collect();
    let specs: Vec<Value> = GENERATED
        .iter()
        .flat_map(|kind| server.list(kind, SYSTEM))
        .map(|object| json!({"kind": object["kind"], "name": object["metadata"]["name"], "spec": object["spec"]}))
        .collect();
    let agent = site.inside.get("daemonsets.apps", "kube-system", "cilium").unwrap_or_default();
    json!({"clusters": clusters, "objects": specs, "agent": agent["spec"], "nodes": server.list(NODES, SYSTEM).len()})
}

/// What must hold at every moment.
fn sound(server: &Server) -> Result<(), String> {
    let there = |kind: &str, name: &Value| server.get(kind, SYSTEM, name.as_str().unwrap_or_default()).is_some();
    for plane in server.list(PLANES, SYSTEM) {
        let name = &plane["spec"]["machineTemplate"]["spec"]["infrastructureRef"]["name"];
        if !there(TEMPLATES, name) {
            return Err(format!("the control plane refers to {name}, which is not there"));
        }
    }
    for group in server.list(GROUPS, SYSTEM) {
        let spec = &group["spec"]["template"]["spec"];
        let (machine, config) = (&spec["infrastructureRef"]["name"], &spec["bootstrap"]["configRef"]["name"]);
        if !there(TEMPLATES, machine) || !there(CONFIGS, config) {
            return Err(format!("a group refers to {machine} and {config}, of which one is not there"));
        }
    }
    for cluster in server.list(CLUSTERS, NS) {
        let told = |key: &str| cluster["status"][key].as_str().is_some_and(|text| !text.is_empty());
        if told("failureReason") != told("failureMessage") {
            return Err(format!("half a failure: {}", cluster["status"]));
        }
    }
    if let Some(cluster) = server.list(CAPI, SYSTEM).first() {
        let owner = server.get(CLUSTERS, NS, "prod").unwrap_or_default();
        if owner["metadata"]["finalizers"].is_null() {
            return Err(format!("{} has no owner that holds it", cluster["metadata"]["name"]));
        }
        if server.list(PLANES, SYSTEM).is_empty() && cluster["metadata"]["deletionTimestamp"].is_null() {
            return Err("a cluster without its control plane".to_owned());
        }
    }
    Ok(())
}

fn ignored() -> Vec<String> {
    // Events are told once and may be lost with the process; nothing depends on them.
    vec![EVENTS.to_owned(), "leases.coordination.k8s.io".to_owned()]
}

async fn process(world: &World<Site>, client: kube::Client) {
    let clock = Clock::simulated((world.clock)(), 1);
    world.outside.run(&world.server, client, clock, world.outside.config()).await;
}

fn begin(world: &World<Site>) {
    define_plainly(&world.server);
    register(&world.server);
    prepare(&world.server, &world.outside);
    apply(&world.server, &world.outside);
}

fn upgrade(server: &Server) {
    change(server, MACHINES, "m", |object| {
        object["spec"]["template"] = json!({"name": "kube-1.32"});
    });
    change(server, CLUSTERS, "prod", |object| {
        object["spec"]["kubernetesVersion"] = json!("1.32");
        object["spec"]["bundlesRef"] = reference(8);
        object["spec"]["workerNodeGroupConfigurations"][0]["labels"] = json!({"tier": "front"});
        object["spec"]["controlPlaneConfiguration"]["count"] = json!(1);
        let groups = object["spec"]["workerNodeGroupConfigurations"].as_array_mut().unwrap();
        groups.push(json!({"name": "more", "count": 1,
            "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "m"}}));
    });
}

macro_rules! common {
    () => {
        type Outside = Site;

        fn outside(&self, gate: &server::Gate, clock: &server::Clock) -> Site {
            Site::new(clock, Some(gate.clone()))
        }

        async fn prepare(&self, world: &World<Site>) {
            begin(world);
        }

        async fn process(&self, world: Arc<World<Site>>, client: kube::Client) {
            process(&world, client).await;
        }

        fn invariant(&self, world: &World<Site>) -> Result<(), String> {
            sound(&world.server)
        }

        fn ignored(&self) -> Vec<String> {
            ignored()
        }

        fn picture(&self, world: &World<Site>) -> Value {
            settled(&world.server, &world.outside)
        }
    };
}

impl Scenario for Life {
    common!();

    fn name(&self) -> &str {
        "life of a cluster"
    }

    fn settle(&self) -> Duration {
        Duration::from_secs(75)
    }

    async fn act(&self, world: &World<Site>, step: usize) -> bool {
        match step {
            0 => upgrade(&world.server),
            1 => change(&world.server, CLUSTERS, "prod", |object| {
                object["spec"]["workerNodeGroupConfigurations"].as_array_mut().unwrap().truncate(1);
            }),
            2 => drop(world.server.delete(CLUSTERS, NS, "prod")),
            _ => return false,
        }
        true
    }
}

impl Scenario for Upgrading {
    common!();

    fn name(&self) -> &str {
        "a cluster that is upgraded"
    }

    fn settle(&self) -> Duration {
        Duration::from_secs(75)
    }

    async fn act(&self, world: &World<Site>, step: usize) -> bool {
        if step == 0 {
            upgrade(&world.server);
        }
        step == 0
    }
}

impl Scenario for Standing {
    common!();

    fn name(&self) -> &str {
        "a cluster that stays"
    }

    /// Longer than the longest pause after failures.
    fn settle(&self) -> Duration {
        Duration::from_secs(330)
    }
}

impl Scenario for Leaving {
    common!();

    fn name(&self) -> &str {
        "a cluster that goes"
    }

    fn settle(&self) -> Duration {
        Duration::from_secs(75)
    }

    async fn act(&self, world: &World<Site>, step: usize) -> bool {
        step == 0 && world.server.delete(CLUSTERS, NS, "prod")
    }
}

#[test]
fn a_cluster_survives_a_stop_at_every_effect() {
    sweep::crash_sweep(&Life).assert_passed();
}

#[test]
fn a_cluster_survives_old_news_at_every_effect() {
    sweep::stale_sweep(&Leaving).assert_passed();
}

/// With `BERTH_STALE=all` its whole life, which takes minutes.
#[test]
fn an_upgrade_survives_old_news_at_every_effect() {
    if std::env::var_os("BERTH_STALE").is_some_and(|value| value == "all") {
        sweep::stale_sweep(&Life).assert_passed();
    } else {
        sweep::stale_sweep(&Upgrading).assert_passed();
    }
}

#[test]
fn a_cluster_survives_the_loss_of_any_event() {
    sweep::missed_event_sweep(&Standing).assert_passed();
}

#[test]
fn a_life_survives_the_loss_of_any_event() {
    sweep::missed_event_sweep(&Life).assert_passed();
}

#[test]
fn a_cluster_survives_random_schedules() {
    sweep::seeds(&Standing, 0..8).assert_passed();
    sweep::seeds(&Life, 0..4).assert_passed();
}
