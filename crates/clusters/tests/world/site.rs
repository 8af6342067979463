//! A site: an API server with the objects of users, a CloudStack behind it, and the inside of a cluster.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cloudstack::limits::Limits;
use cloudstack::net::{Meter, Options as AcsOptions};
use clusters::Ways;
use clusters::acs::{Allowed, Reach};
use clusters::admit::Terms;
use clusters::change::{Effect, Role};
use clusters::config::Config;
use clusters::plan::{Documents, Plan, plan_running};
use clusters::probe::{Probe, Probed};
use clusters::render::Settings;
use futures::FutureExt;
use futures::future::BoxFuture;
use kit::clock::Clock;
use kit::doors::Doors;
use kit::gates::Gates;
use kit::http::Carry;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use serde_json::{Value, json};
use sim::cloudstack::{self as acs, Options as SimOptions};
use sim::server::{self, Gate, Kind, Server};
use tokio::task::JoinSet;

use crate::play::play;

pub const NS: &str = "team";
pub const SYSTEM: &str = "eksa-system";
pub const CLUSTERS: &str = "clusters.anywhere.eks.amazonaws.com";
pub const DATACENTERS: &str = "cloudstackdatacenterconfigs.anywhere.eks.amazonaws.com";
pub const MACHINES: &str = "cloudstackmachineconfigs.anywhere.eks.amazonaws.com";
pub const RELEASES: &str = "eksareleases.anywhere.eks.amazonaws.com";
pub const CAPI: &str = "clusters.cluster.x-k8s.io";
pub const PLANES: &str = "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io";
pub const GROUPS: &str = "machinedeployments.cluster.x-k8s.io";
pub const NODES: &str = "machines.cluster.x-k8s.io";
pub const CHECKS: &str = "machinehealthchecks.cluster.x-k8s.io";
pub const PROVIDER: &str = "cloudstackclusters.infrastructure.cluster.x-k8s.io";
pub const TEMPLATES: &str = "cloudstackmachinetemplates.infrastructure.cluster.x-k8s.io";
pub const CONFIGS: &str = "kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io";
pub const EVENTS: &str = "events.events.k8s.io";
pub const LIMIT: Duration = Duration::from_secs(1_800);
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGE7LJhzVsoIcAcSZjhoSDDTH12Jl0t6eJLWlrHjBPGi capc@site";

/// Kinds of everything that is generated.
pub const GENERATED: [&str; 7] = [CAPI, PLANES, GROUPS, CHECKS, PROVIDER, TEMPLATES, CONFIGS];

/// Carries requests to the simulator.
struct Wire(acs::Handle);

impl Carry for Wire {
    fn carry(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Option<http::Response<Bytes>>> {
        let acs = self.0.clone();
        async move { acs.carry(request).await }.boxed()
    }
}

/// Opens the one inside there is.
struct Door {
    inside: Server,
    gate: Option<Gate>,
    opened: Arc<AtomicU64>,
}

impl Doors for Door {
    fn open<'d>(&'d self, _: &'d str, kubeconfig: &'d str) -> BoxFuture<'d, Result<kube::Client, String>> {
        async move {
            assert!(kubeconfig.contains("kind: Config"));
            self.opened.fetch_add(1, Ordering::SeqCst);
            let handle = self.inside.client("inside");
            if let Some(gate) = &self.gate {
                handle.attach(gate.clone());
            }
            Ok(handle.kube())
        }
        .boxed()
    }
}

/// Finds what it is told.
#[derive(Clone, Default)]
pub struct Ground {
    pub found: Arc<AtomicU64>,
    /// How many ports were tried.
    pub tried: Arc<AtomicU64>,
    /// How long each takes, in milliseconds.
    pub takes: Arc<AtomicU64>,
}

impl Probe for Ground {
    fn probe<'p>(&'p self, _: &'p str, _: u16) -> BoxFuture<'p, Probed> {
        let found = self.found.load(Ordering::SeqCst);
        self.tried.fetch_add(1, Ordering::SeqCst);
        let takes = Duration::from_millis(self.takes.load(Ordering::SeqCst));
        async move {
            tokio::time::sleep(takes).await;
            match found {
                0 => Probed::Silent,
                1 => Probed::Connected,
                _ => Probed::NoAddress,
            }
        }
        .boxed()
    }
}

/// What outlives a process.
#[derive(Clone)]
pub struct Site {
    pub acs: acs::Handle,
    pub inside: Server,
    pub ground: Ground,
    /// How often the inside was entered anew.
    pub opened: Arc<AtomicU64>,
    gate: Option<Gate>,
    /// Of the process that was started last.
    metrics: Arc<Mutex<Metrics>>,
}

impl Site {
    pub fn new(clock: &server::Clock, gate: Option<Gate>) -> Self {
        let acs = acs::without_socket(SimOptions { time: Some(clock()), ..SimOptions::default() });
        let inside = Server::with_clock(7, clock.clone());
        for kind in [
            Kind::namespaced("apps", "v1", "DaemonSet", "daemonsets"),
            Kind::namespaced("apps", "v1", "Deployment", "deployments"),
            Kind::namespaced("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
        ] {
            inside.register(kind);
        }
        Self { acs, inside, ground: Ground::default(), opened: Arc::default(), gate, metrics: Arc::default() }
    }

    pub fn config(&self) -> Config {
        Config::default()
    }

    fn ways(&self, clock: Clock) -> Ways<Reach> {
        let mut options = AcsOptions::new("berth/test");
        options.carrier = Some(Arc::new(Wire(self.acs.clone())));
        options.limits = Limits::UNLIMITED;
        let origin = self.acs.endpoint.trim_end_matches("/client/api");
        let allowed: Allowed = origin.parse().unwrap();
        Ways {
            clouds: Reach::new(options, &[allowed], clock, Meter::default()),
            doors: Box::new(Door {
                inside: self.inside.clone(),
                gate: self.gate.clone(),
                opened: Arc::clone(&self.opened),
            }),
            probe: Arc::new(self.ground.clone()),
        }
    }

    /// Everything that is measured, as it is scraped.
    pub fn measured(&self) -> String {
        self.metrics.lock().unwrap().encode()
    }

    /// The sum of all series of a metric whose labels hold this text.
    pub fn counted(&self, metric: &str, labels: &str) -> f64 {
        let text = self.measured();
        let values = text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let found = series.split('{').next() == Some(metric) && series.contains(labels);
            found.then(|| value.parse::<f64>().unwrap())
        });
        values.sum()
    }

    /// How many passes there were over clusters.
    pub fn passes(&self) -> f64 {
        self.counted("berth_room_passes_total", "room=\"clusters\"")
    }

    /// The process, and beside it whoever plays Cluster API.
    pub async fn run(&self, server: &Server, client: kube::Client, clock: Clock, config: Config) {
        let ways = self.ways(clock.clone());
        let options = Options { resync: None, workers: 4, ..Options::default() };
        let metrics = Metrics::new();
        *self.metrics.lock().unwrap() = metrics.clone();
        let manager = Manager::new(client, clock, Gates::new(), metrics, options);
        clusters::mount(&manager, config, ways).unwrap();
        let played = async {
            let mut seen = None;
            loop {
                let now = (server.revision(), self.inside.revision());
                if seen != Some(now) {
                    play(server, &self.inside);
                    seen = Some(now);
                }
                tokio::time::sleep(Duration::from_secs(2)).await;
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
        let client = server.client("clusters").kube();
        let clock = Clock::simulated((server.clock())(), 1);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { site.run(&server, client, clock, config).await });
        tasks
    }
}

fn kind(group: &str, version: &str, kind: &str) -> Kind {
    Kind::namespaced(group, version, kind, &format!("{}s", kind.to_lowercase()))
}

/// The kinds of users as they are installed, with everything that is checked of them.
pub fn define(server: &Server) {
    static DEFINITIONS: LazyLock<Vec<Value>> =
        LazyLock::new(|| api::own::anywhere::crds().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect());
    for definition in DEFINITIONS.iter() {
        server.put(definition.clone()).unwrap();
    }
}

/// The kinds of users without what is checked of them, for hundreds of worlds.
pub fn define_plainly(server: &Server) {
    for name in [
        "Cluster",
        "CloudStackDatacenterConfig",
        "CloudStackMachineConfig",
        "OIDCConfig",
        "AWSIamConfig",
        "EKSARelease",
    ] {
        server.register(kind("anywhere.eks.amazonaws.com", "v1alpha1", name));
    }
    server.register(Kind::namespaced("anywhere.eks.amazonaws.com", "v1alpha1", "Bundles", "bundles"));
}

pub fn register(server: &Server) {
    for kind in [
        kind("cluster.x-k8s.io", "v1beta2", "Cluster"),
        kind("cluster.x-k8s.io", "v1beta2", "Machine"),
        kind("cluster.x-k8s.io", "v1beta2", "MachineSet"),
        kind("cluster.x-k8s.io", "v1beta2", "MachineDeployment"),
        kind("cluster.x-k8s.io", "v1beta2", "MachineHealthCheck"),
        kind("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane"),
        kind("bootstrap.cluster.x-k8s.io", "v1beta2", "KubeadmConfigTemplate"),
        kind("infrastructure.cluster.x-k8s.io", "v1beta3", "CloudStackCluster"),
        kind("infrastructure.cluster.x-k8s.io", "v1beta3", "CloudStackMachine"),
        kind("infrastructure.cluster.x-k8s.io", "v1beta3", "CloudStackMachineTemplate"),
    ] {
        server.register(kind);
    }
    server.namespace(NS);
    server.namespace(SYSTEM);
}

/// What an operator prepares: credentials, bundles, manifests and the management cluster.
pub fn prepare(server: &Server, site: &Site) {
    server.put(secret("global", &site.acs.endpoint, &site.acs.api_key, &site.acs.secret_key)).unwrap();
    for (number, cilium) in [(7, "v1.16.5"), (8, "v1.17.1")] {
        server.put(bundles(number, cilium)).unwrap();
        server.put(manifests(cilium)).unwrap();
    }
    server
        .put(json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "mgmt", "namespace": NS, "annotations": {"anywhere.eks.amazonaws.com/managed-by-cli": "true"}},
            "spec": {"kubernetesVersion": "1.31", "managementCluster": {"name": "mgmt"},
                "datacenterRef": {"kind": "CloudStackDatacenterConfig", "name": "dc"},
                "bundlesRef": reference(7),
                "controlPlaneConfiguration": {"count": 1, "endpoint": {"host": "172.16.0.4"},
                    "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "m"}},
                "workerNodeGroupConfigurations": [{"name": "md-0", "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "m"}}]}}))
        .unwrap();
}

pub fn secret(name: &str, url: &str, key: &str, word: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": SYSTEM},
        "stringData": {"api-url": url, "api-key": key, "secret-key": word}})
}

pub fn reference(number: i64) -> Value {
    json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "name": format!("bundles-{number}"), "namespace": SYSTEM})
}

pub fn bundles(number: i64, cilium: &str) -> Value {
    let entry = |minor: i64| {
        let tag = |version: &str| format!("{version}-eks-1-{minor}-{number}");
        json!({
            "kubeVersion": format!("1.{minor}"),
            "kubeDistro": {
                "kubernetes": {"repository": "images.example/kubernetes", "tag": tag(&format!("v1.{minor}.4"))},
                "etcd": {"repository": "images.example/etcd-io", "tag": tag("v3.5.16")},
                "coredns": {"repository": "images.example/coredns", "tag": tag("v1.11.3")},
            },
            "cloudStack": {"kubeVip": {"uri": "images.example/kube-vip:v0.8.7"}},
            "cilium": {"version": cilium, "image": {"uri": format!("images.example/cilium:{cilium}")},
                "operatorImage": {"uri": format!("images.example/operator:{cilium}")},
                "manifestConfigMapRef": {"name": format!("cilium-{cilium}")}},
        })
    };
    json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Bundles",
        "metadata": {"name": format!("bundles-{number}"), "namespace": SYSTEM},
        "spec": {"number": number, "versionsBundles": [entry(30), entry(31), entry(32)]}})
}

pub fn manifests(cilium: &str) -> Value {
    let pod =
        |image: &str| format!("{{spec: {{containers: [{{name: c, image: \"images.example/{image}:{cilium}\"}}]}}}}");
    let workload = |kind: &str, name: &str, image: &str| {
        format!(
            "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: kube-system}}\nspec: {{template: {}}}\n---\n",
            pod(image)
        )
    };
    let manifest = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: cilium-config, namespace: kube-system}}\ndata: {{enable-policy: default, note: \"{cilium}\"}}\n---\n{}{}",
        workload("DaemonSet", "cilium", "cilium"),
        workload("Deployment", "cilium-operator", "operator")
    );
    let check = format!(
        "{}{}",
        workload("DaemonSet", "cilium-pre-flight-check", "cilium"),
        workload("Deployment", "cilium-pre-flight-check", "cilium")
    );
    let from = manifest.replace("note:", "upgraded-from: \"1.16\", note:");
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("cilium-{cilium}"), "namespace": SYSTEM},
        "data": {"manifest.yaml": manifest, "manifest-from-1.16.yaml": from, "preflight.yaml": check}})
}

pub fn datacenter(site: &Site, name: &str) -> Value {
    json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "CloudStackDatacenterConfig",
        "metadata": {"name": name, "namespace": NS},
        "spec": {"availabilityZones": [{"name": "az-1", "credentialsRef": "global", "domain": "ROOT", "account": "admin",
            "managementApiEndpoint": site.acs.endpoint, "zone": {"name": "zone-1", "network": {"name": "shared"}}}]}})
}

pub fn machine(name: &str, template: &str, offering: &str) -> Value {
    json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "CloudStackMachineConfig",
        "metadata": {"name": name, "namespace": NS},
        "spec": {"template": {"name": template}, "computeOffering": {"name": offering},
            "users": [{"name": "capc", "sshAuthorizedKeys": [KEY]}]}})
}

pub fn cluster(name: &str) -> Value {
    json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster",
    "metadata": {"name": name, "namespace": NS},
    "spec": {
        "kubernetesVersion": "1.31",
        "managementCluster": {"name": "mgmt"},
        "datacenterRef": {"kind": "CloudStackDatacenterConfig", "name": "dc"},
        "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/12"]},
            "cniConfig": {"cilium": {}}},
        "controlPlaneConfiguration": {"count": 3, "endpoint": {"host": "172.16.0.5"},
            "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "m"}},
        "workerNodeGroupConfigurations": [{"name": "md-0", "count": 2,
            "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "m"}}],
    }})
}

/// A server and a CloudStack on the same clock, with everything an operator prepares.
pub fn world() -> (Server, Site) {
    let server = Server::new(1);
    let site = Site::new(&server.clock(), None);
    define(&server);
    register(&server);
    prepare(&server, &site);
    (server, site)
}

/// What a user applies for one cluster.
pub fn apply(server: &Server, site: &Site) {
    server.put(datacenter(site, "dc")).unwrap();
    server.put(machine("m", "kube-1.31", "Medium Instance")).unwrap();
    server.put(cluster("prod")).unwrap();
}

/// What would be done for files, by what the server holds.
pub fn planned(server: &Server, files: &[Value]) -> Vec<Plan> {
    let mut seen = clusters::plan::Server::default();
    for kind in [CLUSTERS, DATACENTERS, MACHINES, RELEASES, "bundles.anywhere.eks.amazonaws.com"] {
        for object in [NS, SYSTEM].iter().flat_map(|namespace| server.list(kind, namespace)) {
            seen.documents.take(object).unwrap();
        }
    }
    GENERATED.iter().flat_map(|kind| server.list(kind, SYSTEM)).for_each(|object| seen.add(object));
    let mut given = Documents::default();
    files.iter().for_each(|file| given.take(file.clone()).unwrap());
    plan_running(&given, &seen, &Terms::default(), &Settings::default())
}

/// The roles of a plan whose machines would be replaced.
pub fn rolled(plan: &Plan) -> Vec<Role> {
    assert_eq!(plan.faults, []);
    plan.machines.iter().filter(|change| change.effect == Effect::Roll).map(|change| change.role.clone()).collect()
}

/// One condition of a cluster: its status, reason and message.
pub fn condition(server: &Server, name: &str, type_: &str) -> (String, String, String) {
    let object = server.get(CLUSTERS, NS, name).unwrap_or_default();
    found(&object, type_)
}

pub fn found(object: &Value, type_: &str) -> (String, String, String) {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

/// Whether exactly what is asked for is there.
pub fn is_ready(server: &Server, name: &str) -> bool {
    let object = server.get(CLUSTERS, NS, name).unwrap_or_default();
    let current = object["status"]["reconciledGeneration"] == object["metadata"]["generation"];
    current && condition(server, name, "Ready").0 == "True"
}

pub async fn ready(server: &Server, name: &str) {
    let done = server.wait_until(LIMIT, |server| is_ready(server, name)).await;
    assert!(done, "{:#}", server.get(CLUSTERS, NS, name).unwrap_or_default()["status"]);
}

pub fn failure(server: &Server, name: &str) -> (String, String) {
    let object = server.get(CLUSTERS, NS, name).unwrap_or_default();
    let text = |key: &str| object["status"][key].as_str().unwrap_or_default().to_owned();
    (text("failureReason"), text("failureMessage"))
}

/// Waits until a cluster says why it cannot go on.
pub async fn fails(server: &Server, name: &str, reason: &str) -> String {
    let done = server.wait_until(LIMIT, |server| failure(server, name).0 == reason).await;
    assert!(done, "{:#}", server.get(CLUSTERS, NS, name).unwrap_or_default()["status"]);
    failure(server, name).1
}

pub fn generated(server: &Server) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for kind in GENERATED {
        let named = |object: &Value| {
            format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
        };
        all.extend(server.list(kind, SYSTEM).iter().map(named));
    }
    all
}

/// Reasons of the events on an object, each once.
pub fn events(server: &Server, name: &str) -> Vec<String> {
    let all = server.list(EVENTS, NS);
    let mut reasons: Vec<String> = all
        .iter()
        .filter(|event| event["regarding"]["name"] == name)
        .filter_map(|event| event["reason"].as_str().map(str::to_owned))
        .collect();
    reasons.sort();
    reasons.dedup();
    reasons
}

/// The same, once everything that happened is told: events are sent behind what they tell of.
pub async fn told_of(server: &Server, name: &str) -> Vec<String> {
    pass(1).await;
    events(server, name)
}

pub fn change(server: &Server, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
    server.edit(kind, NS, name, change).unwrap();
}

pub async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
