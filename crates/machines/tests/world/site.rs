//! Two servers, the room at work on them, and what users write.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use api::key::ObjectKey;
use futures::FutureExt;
use futures::future::BoxFuture;
use kit::clock::Clock;
use kit::doors::{Clients, Doors};
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use machines::config::Config;
use serde_json::{Value, json};
use sim::server::{self, Gate, Kind, Server};
use tokio::task::JoinSet;

use crate::play::{Boot, play};

pub const NS: &str = "team";
pub const MACHINES: &str = "metal3machines.infrastructure.cluster.x-k8s.io";
pub const PLACES: &str = "metal3clusters.infrastructure.cluster.x-k8s.io";
pub const TEMPLATES: &str = "metal3machinetemplates.infrastructure.cluster.x-k8s.io";
pub const DATA_CLAIMS: &str = "metal3dataclaims.infrastructure.cluster.x-k8s.io";
pub const DATAS: &str = "metal3datas.infrastructure.cluster.x-k8s.io";
pub const CLAIMS: &str = "hostclaims.metal3.io";
pub const OWNERS: &str = "machines.cluster.x-k8s.io";
pub const CLUSTERS: &str = "clusters.cluster.x-k8s.io";
pub const NODES: &str = "nodes";
pub const LIMIT: Duration = Duration::from_secs(900);
const INFRA: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const CAPI: &str = "cluster.x-k8s.io/v1beta2";

/// Opens the one inside there is.
struct Door {
    inside: Server,
    gate: Option<Gate>,
}

impl Doors for Door {
    fn open<'d>(&'d self, _: &'d str, kubeconfig: &'d str) -> BoxFuture<'d, Result<kube::Client, String>> {
        async move {
            assert!(kubeconfig.contains("kind: Config"));
            let handle = self.inside.client("inside");
            if let Some(gate) = &self.gate {
                handle.attach(gate.clone());
            }
            Ok(handle.kube())
        }
        .boxed()
    }
}

/// What outlives a process.
#[derive(Clone)]
pub struct Site {
    pub inside: Server,
    pub boot: Arc<Mutex<Boot>>,
    gate: Option<Gate>,
    /// What the process that was started last has open.
    open: Arc<Mutex<Option<Arc<Clients>>>>,
}

impl Site {
    pub fn new(clock: &server::Clock, gate: Option<Gate>) -> Self {
        let inside = Server::with_clock(7, clock.clone());
        inside.register(Kind::cluster("", "v1", "Node", "nodes"));
        Self { inside, boot: Arc::new(Mutex::new(Boot::default())), gate, open: Arc::default() }
    }

    pub fn boots(&self, boot: Boot) {
        *self.boot.lock().unwrap() = boot;
    }

    /// Whether the process still has the keys of the cluster.
    pub fn is_open(&self) -> bool {
        let open = self.open.lock().unwrap().clone();
        open.is_some_and(|clients| clients.last(&ObjectKey::namespaced(NS, "c")).is_some())
    }

    pub fn doors(&self) -> Box<dyn Doors> {
        Box::new(Door { inside: self.inside.clone(), gate: self.gate.clone() })
    }

    /// The process, and beside it whoever plays the others.
    pub async fn run(&self, server: &Server, client: kube::Client, clock: Clock, config: Config) {
        let options = Options { resync: None, workers: 4, ..Options::default() };
        let manager = Manager::new(client, clock, Gates::new(), Metrics::new(), options);
        let clients = Arc::new(Clients::new(self.doors()));
        *self.open.lock().unwrap() = Some(Arc::clone(&clients));
        machines::room::mount_machines(&manager, &Arc::new(config), &clients).unwrap();
        let played = async {
            let mut seen = None;
            loop {
                let now = (server.revision(), self.inside.revision());
                if seen != Some(now) {
                    play(server, &self.inside, *self.boot.lock().unwrap());
                    seen = Some(now);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            ended = manager.run() => ended.unwrap(),
            () = played => {}
        }
    }

    /// A process under a paused clock.
    pub fn start(&self, server: &Server, config: Config) -> JoinSet<()> {
        let (site, server) = (self.clone(), server.clone());
        let client = server.client("machines").kube();
        let clock = Clock::simulated((server.clock())(), 1);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { site.run(&server, client, clock, config).await });
        tasks
    }
}

/// The kinds as they are installed, with everything that is checked of them.
pub fn define(server: &Server) {
    static DEFINITIONS: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let all = api::own::crds().into_iter();
        all.map(|crd| serde_json::to_value(crd).unwrap()).collect()
    });
    for definition in DEFINITIONS.iter() {
        server.put(definition.clone()).unwrap();
    }
}

/// The kinds without what is checked of them, for hundreds of worlds.
pub fn define_plainly(server: &Server) {
    for (name, plural) in [
        ("Metal3Machine", "metal3machines"),
        ("Metal3MachineTemplate", "metal3machinetemplates"),
        ("Metal3Cluster", "metal3clusters"),
        ("Metal3DataClaim", "metal3dataclaims"),
        ("Metal3Data", "metal3datas"),
    ] {
        let kind = Kind::namespaced("infrastructure.cluster.x-k8s.io", "v1beta2", name, plural);
        server.register(kind.list_map("status.conditions", &["type"]));
    }
    let claim = Kind::namespaced("metal3.io", "v1alpha1", "HostClaim", "hostclaims");
    server.register(claim.list_map("status.conditions", &["type"]));
}

/// The kinds of Cluster API.
pub fn kinds(server: &Server) {
    server.register(Kind::namespaced("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"));
    server.register(Kind::namespaced("cluster.x-k8s.io", "v1beta2", "Machine", "machines"));
}

/// The kinds of Cluster API, and what a cluster has before its machines come.
pub fn prepare(server: &Server) {
    kinds(server);
    server.namespace(NS);
    let cluster = server
        .put(json!({"apiVersion": CAPI, "kind": "Cluster", "metadata": {"name": "c", "namespace": NS},
            "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster", "name": "c"}},
            "status": {"initialization": {"infrastructureProvisioned": true}}}))
        .unwrap();
    server
        .put(json!({"apiVersion": INFRA, "kind": "Metal3Cluster",
            "metadata": {"name": "c", "namespace": NS, "ownerReferences": [owner(&cluster)]},
            "spec": {"controlPlaneEndpoint": {"host": "10.0.0.5", "port": 6443}, "failureDomains": [{"name": "rack-1", "controlPlane": true}]}}))
        .unwrap();
    for (name, key, text) in [("boot", "value", "#cloud-config"), ("c-kubeconfig", "value", "kind: Config")] {
        server
            .put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NS},
                "stringData": {key: text}}))
            .unwrap();
    }
}

pub fn owner(object: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "controller": true})
}

/// A Machine and its Metal3Machine; `more` is merged into the spec of the latter.
pub fn machine(server: &Server, name: &str, more: &Value) {
    machine_of(server, name, more, &json!({}));
}

/// The same, with something merged into the metadata of the Machine.
pub fn machine_of(server: &Server, name: &str, more: &Value, meta: &Value) {
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c"});
    let mut owning = json!({"apiVersion": CAPI, "kind": "Machine",
        "metadata": {"name": name, "namespace": NS, "labels": labels},
        "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "boot"}, "failureDomain": "rack-1",
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": name}}});
    merge(&mut owning, &json!({"metadata": meta}));
    let owning = server.put(owning).unwrap();
    let mut machine = json!({"apiVersion": INFRA, "kind": "Metal3Machine",
        "metadata": {"name": name, "namespace": NS, "labels": labels, "ownerReferences": [owner(&owning)],
            "annotations": {"cluster.x-k8s.io/cloned-from-name": "t"}},
        "spec": {"kind": "baremetal", "image": {"url": "https://images/x", "checksum": "https://images/sums"},
            "hostSelector": {"matchLabels": {"size": "large"}}}});
    merge(&mut machine, &json!({"spec": more}));
    server.put(machine).unwrap();
}

pub fn merge(into: &mut Value, change: &Value) {
    let Some(change) = change.as_object() else {
        *into = change.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in change {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}

/// A server and an inside on the same clock.
pub fn world() -> (Server, Site) {
    let server = Server::new(1);
    let site = Site::new(&server.clock(), None);
    define(&server);
    prepare(&server);
    (server, site)
}

/// Status and reason of a condition, as `True/Ready`.
pub fn condition(object: &Value, type_: &str) -> String {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("status"), text("reason"))
}

pub fn shown(server: &Server, name: &str) -> Value {
    server.get(MACHINES, NS, name).unwrap_or_default()
}

pub async fn until(server: &Server, what: &str, done: impl FnMut(&Server) -> bool) {
    if !server.wait_until(LIMIT, done).await {
        let claims = server.list(CLAIMS, "");
        panic!("never: {what}\n{:#?}\n{claims:#?}", server.list(MACHINES, ""));
    }
}

pub async fn until_condition(server: &Server, name: &str, type_: &str, wanted: &str) {
    until(server, &format!("{type_} of {name} is {wanted}"), |server| condition(&shown(server, name), type_) == wanted)
        .await;
}

pub async fn ready(server: &Server, name: &str) {
    until_condition(server, name, "Ready", "True/Ready").await;
}

/// Nobody writes any more.
pub async fn rest(server: &Server, site: &Site) {
    tokio::time::sleep(Duration::from_secs(90)).await;
    let before = (server.effects(), site.inside.effects());
    tokio::time::sleep(Duration::from_secs(300)).await;
    let late: Vec<String> = server
        .log()
        .iter()
        .filter(|entry| entry.effect.is_some_and(|effect| effect > before.0))
        .map(|entry| format!("{} {}", entry.method, entry.path))
        .collect();
    assert_eq!(before, (server.effects(), site.inside.effects()), "the settled world is not quiet: {late:#?}");
}

pub fn change(server: &Server, kind: &str, name: &str, change: &Value) {
    server.edit(kind, NS, name, |object| merge(object, change)).unwrap();
}
