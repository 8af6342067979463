//! What people and meters are told, and how often.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kit::clock::Clock;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::pace::{Lanes, Pace};
use kit::telemetry::Metrics;
use serde_json::{Value, json};
use sim::server::{Handle, Server};
use tokio::task::JoinSet;
use tokio::time::Instant;
use vip::config::Config;
use vip::extension::Extension;
use vip::hooks::{Answer, Handlers};

use crate::actors::{ask, provide};
use crate::objects::{CLASS, CLUSTERS, NS, class, cluster, host, install, key, pool, uid};

/// The room on a server of its own, with nobody else at work.
pub struct Quiet {
    pub server: Server,
    pub extension: Arc<Extension>,
    pub berth: Handle,
    metrics: Metrics,
    manager: Arc<Manager>,
    tasks: JoinSet<()>,
}

impl Quiet {
    pub async fn start(config: Config, objects: impl IntoIterator<Item = Value>) -> Self {
        let quiet = Self::begin(config, objects);
        tokio::time::sleep(Duration::from_secs(5)).await;
        quiet
    }

    /// The same at the very moment of its start.
    pub fn begin(config: Config, objects: impl IntoIterator<Item = Value>) -> Self {
        Self::within(None, config, objects)
    }

    /// The same with a budget for requests.
    pub fn within(pace: Option<Pace>, config: Config, objects: impl IntoIterator<Item = Value>) -> Self {
        let server = Server::new(1);
        install(&server);
        for object in objects {
            server.put(object).unwrap();
        }
        let (gates, metrics) = (Gates::new(), Metrics::new());
        let clock = Clock::simulated((server.clock())(), 1);
        let berth = server.client("berth");
        let lanes = match pace {
            Some(pace) => Lanes::paced(&berth.kube(), &clock, pace),
            None => Lanes::unlimited(berth.kube()),
        };
        let manager = Manager::with_lanes(lanes, clock, gates, metrics.clone(), Options::default());
        let extension = vip::mount(&manager, config).unwrap();
        let mut tasks = JoinSet::new();
        let run = Arc::clone(&manager);
        tasks.spawn(async move { run.run().await.unwrap() });
        Self { server, extension, berth, metrics, manager, tasks }
    }

    /// The client that rooms use.
    pub fn rooms(&self) -> kube::Client {
        self.manager.client().clone()
    }

    pub fn cluster(&self, name: &str) -> Value {
        self.server.get(CLUSTERS, NS, name).unwrap()
    }

    /// The notes of the events with this reason.
    pub fn told(&self, reason: &str) -> Vec<String> {
        let all = self.server.list("events.events.k8s.io", NS);
        all.iter().filter(|e| e["reason"] == reason).map(|e| e["note"].as_str().unwrap().to_owned()).collect()
    }

    pub fn measured(&self, line: &str) -> bool {
        self.metrics.encode().lines().any(|l| l == line)
    }

    /// Requests of the room other than watches, since the one with this number: method, path and query.
    pub fn asked_since(&self, number: u64) -> Vec<String> {
        let log = self.server.log().into_iter();
        let own = log.filter(|e| e.number > number && e.client == "berth" && !e.query.contains("watch=true"));
        own.map(|e| format!("{} {}?{}", e.method, e.path, e.query)).collect()
    }

    pub async fn stop(mut self) {
        self.manager.stop().cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_for_a_minute_is_told_once() {
    let objects = [class(CLASS, &[]), pool("one", "control-plane", 0, 10, 2), cluster("a", &json!({}))];
    let world = Quiet::start(Config::default(), objects).await;
    assert!(!matches!(ask(&world.extension, &world.cluster("a")).await, Answer::Open { .. }));
    assert_eq!(world.told("VIPClaimCreated").len(), 1);
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(world.told("VIPWaiting"), [""; 0]);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let note = "IPAddressClaim vip-cp-a has got no address from GlobalInClusterIPPool/one for more than a minute";
    assert_eq!(world.told("VIPWaiting"), [note]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.told("VIPWaiting").len(), 1);
    let place = r#"room="vip",kind="Cluster",state="waiting",reason="WaitingForAddress""#;
    assert!(world.measured(&format!("berth_room_objects{{{place}}} 1")));
    world.stop().await;
}

/// A cluster that waits, as it was told before this process began.
fn waiting(name: &str, labels: &Value) -> Value {
    let mut object = cluster(name, &json!({}));
    object["metadata"]["labels"] = labels.clone();
    object["status"] = json!({"conditions": [{"type": "ControlPlaneVIPReady", "status": "False",
        "reason": "PoolExhausted", "message": "", "lastTransitionTime": "2030-01-01T00:00:00Z"}]});
    object
}

#[tokio::test(start_paused = true)]
async fn a_paused_cluster_is_counted_as_paused_and_one_of_another_controller_not_at_all() {
    let mut paused = waiting("a", &json!({"cluster.x-k8s.io/watch-filter": "ours"}));
    paused["spec"]["paused"] = json!(true);
    let foreign = waiting("b", &json!({"cluster.x-k8s.io/watch-filter": "theirs"}));
    for (filter, waits) in [(Some("ours"), None), (None, Some("PoolExhausted"))] {
        let config = Config { watch_filter: filter.map(str::to_owned), reconciler: false, ..Config::default() };
        let world = Quiet::start(config, [paused.clone(), foreign.clone()]).await;
        let measured = world.metrics.encode();
        let mut reasons: Vec<&str> = measured
            .lines()
            .filter_map(|line| {
                line.strip_prefix(r#"berth_room_objects{room="vip",kind="Cluster",state="waiting",reason=""#)
            })
            .collect();
        reasons.sort_unstable();
        let wanted: Vec<String> = ["Paused"].into_iter().chain(waits).map(|reason| format!("{reason}\"}} 1")).collect();
        assert_eq!(reasons, wanted, "{filter:?}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_housekeeper_gives_is_told_and_counted_like_what_the_gate_gives() {
    let mut plain = cluster("a", &json!({key("cluster-class"): CLASS}));
    plain["spec"] = json!({});
    let mut chosen = cluster("b", &json!({key("cluster-class"): CLASS}));
    chosen["spec"] = json!({"controlPlaneEndpoint": {"host": "192.168.0.1", "port": 6443}});
    let config = Config { reconciler: true, ..Config::default() };
    let world = Quiet::start(config, [pool("one", "control-plane", 0, 10, 2), plain, chosen]).await;
    for _ in 0..20 {
        while provide(&world.server) {}
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(host(&world.cluster("a")), "10.0.0.10");
    let told = world.told("VIPAllocated");
    assert!(told.len() == 1 && told[0].contains("10.0.0.10 from GlobalInClusterIPPool/one"), "{told:?}");
    assert!(world.measured(r#"berth_vip_allocations_total{role="control-plane",cluster_class=""} 1"#));
    assert!(world.measured(r#"berth_room_objects{room="vip",kind="Cluster",state="ready",reason=""} 2"#));
    assert_eq!(world.told("VIPManual"), ["192.168.0.1 was chosen by hand; no address is taken from a pool"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refused_templates_are_told_on_their_cluster_and_not_at_every_call() {
    let mut ready = cluster("a", &json!({}));
    ready["spec"]["controlPlaneEndpoint"] = json!({"host": "10.0.0.10", "port": 6443});
    let world = Quiet::start(Config::default(), [class(CLASS, &[]), ready]).await;
    let a = world.cluster("a");
    let request = |host: &str| {
        let cluster = json!({"namespace": NS, "name": "a", "uid": uid(&a)});
        let holder = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "namespace": NS, "name": "a",
            "fieldPath": "spec.infrastructureRef"});
        let spec = json!({"template": {"spec": {"controlPlaneEndpoint": {"host": host, "port": 6443}}}});
        let object =
            json!({"apiVersion": "example.org/v1", "kind": "DockTemplate", "metadata": {"name": "t"}, "spec": spec});
        let body = json!({"variables": [{"name": "builtin", "value": {"cluster": cluster}}],
            "items": [{"holderReference": holder, "object": object}]});
        Bytes::from(body.to_string())
    };
    let call = async |host: &str| {
        let deadline = Instant::now() + Duration::from_secs(10);
        let reply = world.extension.validate_topology(request(host), deadline).await;
        serde_json::from_slice::<Value>(&reply.body).unwrap()["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(call("10.0.0.10").await, "Success");
    assert_eq!(world.told("VIPTopologyInvalid"), [""; 0]);
    for _ in 0..20 {
        assert_eq!(call("10.9.9.9").await, "Failure");
    }
    let told = world.told("VIPTopologyInvalid");
    assert!(told.len() == 1 && told[0].contains("`10.9.9.9` but the Cluster has `10.0.0.10`"), "{told:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn passes_are_counted_by_class_and_result() {
    let mut ready = cluster("a", &json!({}));
    ready["spec"]["controlPlaneEndpoint"] = json!({"host": "10.0.0.10", "port": 6443});
    let world = Quiet::start(Config::default(), [class(CLASS, &[]), ready]).await;
    assert!(world.measured(r#"berth_vip_reconcile_total{cluster_class="metal",result="unchanged"} 1"#));
    assert!(world.measured(r#"berth_vip_reconcile_duration_seconds_count{cluster_class="metal"} 1"#));
    world.stop().await;
}
