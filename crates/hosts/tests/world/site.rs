//! A site: an API server with the objects around a machine, and an EC2 behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws::cloud::{Cloud, Door};
use aws::credentials::{Ambient, Files};
use aws::net::{Aws, Ec2Client, Meter, Options as AwsOptions};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use hosts::config::Config;
use kit::clock::Clock;
use kit::gates::Gates;
use kit::http::Carry;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use serde_json::{Value, json};
use sim::ec2::world::host::HostState;
use sim::ec2::world::instance::InstanceState;
use sim::ec2::world::oracle::HostFacts;
use sim::ec2::{self, Options as Ec2Options};
use sim::server::{self, EventAction, Gate, Kind, Server};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub const NS: &str = "team";
pub const REGION: &str = "us-west-2";
pub const ZONE: &str = "us-west-2a";
pub const MACHINES: &str = "awsmachines.infrastructure.cluster.x-k8s.io";
pub const OWNERS: &str = "machines.cluster.x-k8s.io";
pub const CLUSTERS: &str = "clusters.cluster.x-k8s.io";
pub const CLOUDS: &str = "awsclusters.infrastructure.cluster.x-k8s.io";
pub const EVENTS: &str = "events.events.k8s.io";
pub const LIMIT: Duration = Duration::from_secs(6 * 3_600);
const CORE: &str = "cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// Calls of EC2 that change something.
const WRITES: [&str; 10] = [
    "AllocateHosts",
    "ReleaseHosts",
    "RunInstances",
    "StartInstances",
    "StopInstances",
    "TerminateInstances",
    "CreateTags",
    "DeleteTags",
    "ModifyNetworkInterfaceAttribute",
    "ModifyInstanceMetadataOptions",
];

/// Carries requests to the simulator; those that change something pass the gate of a sweep.
pub struct Wire {
    pub ec2: ec2::Handle,
    pub gate: Option<Gate>,
}

impl Carry for Wire {
    fn carry(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Option<http::Response<Bytes>>> {
        let (ec2, gate) = (self.ec2.clone(), self.gate.clone());
        async move {
            let body = String::from_utf8_lossy(request.body()).into_owned();
            let action = body.split('&').find_map(|pair| pair.strip_prefix("Action=")).unwrap_or_default().to_owned();
            let writes = WRITES.contains(&action.as_str()) && !body.contains("DryRun=true");
            match gate.filter(|_| writes) {
                None => ec2.carry(request).await,
                Some(gate) => {
                    let pass = gate.enter(&format!("ec2 {action}"), "ec2").await;
                    let answer = ec2.carry(request).await;
                    pass.committed().await;
                    answer
                }
            }
        }
        .boxed()
    }
}

/// What outlives a process.
#[derive(Clone)]
pub struct Site {
    pub ec2: ec2::Handle,
    pub gate: Option<Gate>,
}

impl Site {
    pub fn new(clock: &server::Clock, gate: Option<Gate>) -> Self {
        let mut options = Ec2Options { time: Some(clock()), ..Ec2Options::default() };
        options.settings.host_quota = 20;
        Self { ec2: ec2::without_socket(options), gate }
    }

    pub fn config(&self) -> Config {
        let vars = BTreeMap::from([
            ("AWS_ACCESS_KEY_ID".to_owned(), self.ec2.access_key.clone()),
            ("AWS_SECRET_ACCESS_KEY".to_owned(), self.ec2.secret.clone()),
        ]);
        let ambient = Ambient::decide(&vars, &Files::default()).unwrap();
        let flag = |service: &str| format!("{service}={}", self.ec2.endpoint).parse().unwrap();
        let endpoints = aws::place::Endpoints::new().flag(flag("ec2")).flag(flag("sts"));
        Config { ambient: Ok(ambient), endpoints, orphan_interval: None, ..Config::default() }
    }

    fn cloud(&self, clock: Clock) -> Aws {
        self.cloud_over(clock, Arc::new(Wire { ec2: self.ec2.clone(), gate: self.gate.clone() }))
    }

    /// EC2 over a wire of one's own.
    pub fn cloud_over(&self, clock: Clock, carrier: Arc<dyn Carry>) -> Aws {
        let mut options = AwsOptions::new("berth/test");
        options.carrier = Some(carrier);
        Aws::new(options, clock, Meter::default())
    }

    /// EC2 as somebody else in the same account calls it.
    pub fn somebody(&self, server: &Server) -> Ec2Client {
        let config = self.config();
        let source = config.ambient.unwrap().source().clone();
        let door = Door { region: REGION.parse().unwrap(), source, endpoints: config.endpoints, bundle: None };
        self.cloud(Clock::simulated((server.clock())(), 9)).open(&door).unwrap()
    }

    pub async fn run(&self, client: kube::Client, clock: Clock, config: Config) {
        self.run_counted(client, clock, config, Metrics::new()).await;
    }

    async fn run_counted(&self, client: kube::Client, clock: Clock, config: Config, metrics: Metrics) {
        self.mounted(client, clock, config, metrics).run().await.unwrap();
    }

    fn mounted(&self, client: kube::Client, clock: Clock, config: Config, metrics: Metrics) -> Arc<Manager> {
        let cloud = self.cloud(clock.clone());
        let options = Options { resync: None, workers: 4, ..Options::default() };
        let manager = Manager::new(client, clock, Gates::new(), metrics, options);
        ::hosts::mount(&manager, config, cloud).unwrap();
        manager
    }

    /// A process that can be told to stop.
    pub fn start_to_stop(&self, server: &Server, config: Config) -> (JoinSet<()>, CancellationToken) {
        let clock = Clock::simulated((server.clock())(), 1);
        let manager = self.mounted(server.client("hosts").kube(), clock, config, Metrics::new());
        let (stop, mut tasks) = (manager.stop().clone(), JoinSet::new());
        tasks.spawn(async move { manager.run().await.unwrap() });
        (tasks, stop)
    }

    /// A process under a paused clock.
    pub fn start(&self, server: &Server, config: Config) -> JoinSet<()> {
        let (site, client) = (self.clone(), server.client("hosts").kube());
        let clock = Clock::simulated((server.clock())(), 1);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { site.run(client, clock, config).await });
        tasks
    }

    /// A process that hears of no change of a kind of object, as when a watch hangs.
    pub fn start_deaf(&self, server: &Server, config: Config, resource: &'static str) -> JoinSet<()> {
        let (site, client) = (self.clone(), server.client("deaf"));
        client.script_events(move |_, kind, _| EventAction { drop: kind == resource, ..EventAction::default() });
        let (kube, clock) = (client.kube(), Clock::simulated((server.clock())(), 1));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { site.run(kube, clock, config).await });
        tasks
    }

    /// A process whose figures are looked at.
    pub fn start_counted(&self, server: &Server, config: Config, metrics: &Metrics) -> JoinSet<()> {
        let (site, client, metrics) = (self.clone(), server.client("hosts").kube(), metrics.clone());
        let clock = Clock::simulated((server.clock())(), 1);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { site.run_counted(client, clock, config, metrics).await });
        tasks
    }

    /// Hosts that are paid for.
    pub fn paid(&self) -> Vec<HostFacts> {
        self.ec2.hosts().into_iter().filter(|host| !host.state.is_released()).collect()
    }

    /// Instances that are not on their way out.
    pub fn alive(&self) -> Vec<String> {
        let gone = |state| matches!(state, InstanceState::ShuttingDown | InstanceState::Terminated);
        self.ec2.instances().into_iter().filter(|i| !gone(i.state)).map(|i| i.id).collect()
    }

    pub fn group(&self, name: &str) -> String {
        self.ec2.with(|world, now| {
            let place = world.place(&self.ec2.account, REGION, now).unwrap();
            place.groups.values().find(|group| group.name == name).unwrap().id.clone()
        })
    }

    /// What the simulator says must hold at every moment: each host that is paid for is named by a journal, or was given
    /// out of our hands on purpose; no machine has two instances.
    pub fn check(&self, servers: &[&Server]) -> Result<(), String> {
        let journals: Vec<Value> = servers.iter().flat_map(|server| journals(server)).collect();
        for host in self.paid() {
            let named = journals.iter().any(|journal| {
                // A journal that says all is over names nothing any more; one that gave up says so to people.
                let lives = journal["phase"] != "Released";
                let listed =
                    journal["hosts"].as_array().is_some_and(|all| all.iter().any(|id| *id == host.id)) && lives;
                let asked = journal["phase"] == "Intended" && journal["token"].as_str() == host.client_token.as_deref();
                // A host that a recovery put in the place of another carries its tags.
                let moved =
                    host.tags.get("hosts.berth.dev/allocation-id").map(String::as_str) == journal["id"].as_str();
                listed || asked || (moved && host.client_token.is_none())
            });
            let kept = host.tags.contains_key("hosts.berth.dev/retained");
            if !named && !kept {
                return Err(format!("host {} is paid for and no journal names it: {journals:?}", host.id));
            }
        }
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for instance in self.ec2.instances() {
            let gone = matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated);
            let machine = instance.tags.get("MachineName").cloned().unwrap_or_default();
            if gone {
                continue;
            }
            if let Some(other) = seen.insert(machine.clone(), instance.id.clone()) {
                return Err(format!("machine {machine} has two instances: {other} and {}", instance.id));
            }
        }
        Ok(())
    }
}

/// The journals of hosts of all machines.
pub fn journals(server: &Server) -> Vec<Value> {
    server.list(MACHINES, NS).iter().filter_map(|machine| note(machine, "allocation")).collect()
}

/// An annotation of a machine, read.
pub fn note(machine: &Value, name: &str) -> Option<Value> {
    let text = machine["metadata"]["annotations"][format!("hosts.berth.dev/{name}")].as_str()?;
    serde_json::from_str(text).ok()
}

pub fn install(server: &Server, site: &Site) {
    install_with(server, site, "v1beta2");
    server.put(cluster()).unwrap();
}

/// Everything around a machine but its Cluster, with the core of Cluster API served in one version.
pub fn install_with(server: &Server, site: &Site, core: &str) {
    kinds(server, core);
    server.put(cloud(site)).unwrap();
}

/// The kinds around a machine, and its namespace.
pub fn kinds(server: &Server, core: &str) {
    for kind in [
        Kind::namespaced(CORE, core, "Cluster", "clusters"),
        Kind::namespaced(CORE, core, "Machine", "machines"),
        Kind::namespaced(INFRASTRUCTURE, "v1beta2", "AWSMachine", "awsmachines"),
        Kind::namespaced(INFRASTRUCTURE, "v1beta2", "AWSCluster", "awsclusters"),
        Kind::cluster(INFRASTRUCTURE, "v1beta2", "AWSClusterControllerIdentity", "awsclustercontrolleridentities"),
        Kind::cluster(INFRASTRUCTURE, "v1beta2", "AWSClusterStaticIdentity", "awsclusterstaticidentities"),
        Kind::cluster(INFRASTRUCTURE, "v1beta2", "AWSClusterRoleIdentity", "awsclusterroleidentities"),
    ] {
        server.register(kind);
    }
    server.namespace(NS);
    server.namespace("kube-system");
}

pub fn cluster() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c", "namespace": NS},
        "spec": {"infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "AWSCluster", "name": "c"}},
        "status": {"initialization": {"infrastructureProvisioned": true}},
    })
}

pub fn cloud(site: &Site) -> Value {
    let subnet = |zone: &str, public| {
        let id = site.ec2.subnet(REGION, zone, public).unwrap();
        json!({"id": id, "availabilityZone": zone, "isPublic": public})
    };
    let groups: BTreeMap<&str, Value> =
        ["node", "lb", "controlplane"].into_iter().map(|role| (role, json!({"id": site.group(role)}))).collect();
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
        "metadata": {"name": "c", "namespace": NS},
        "spec": {
            "region": REGION, "sshKeyName": "", "additionalTags": {"team": "blue"},
            "network": {"subnets": [subnet(ZONE, true), subnet(ZONE, false), subnet("us-west-2b", false)]},
        },
        "status": {"ready": true, "networkStatus": {"securityGroups": groups, "apiServerElb": {"dnsName": "api.example"}}},
    })
}

pub fn secret(name: &str) -> Value {
    let data = json!({"value": STANDARD.encode("#cloud-config\n")});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NS}, "data": data})
}

pub fn owner(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "namespace": NS, "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {"clusterName": "c", "version": "v1.33.0", "bootstrap": {"dataSecretName": name},
            "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "AWSMachine", "name": name}},
    })
}

/// A machine of a type with these further fields of its spec.
pub fn machine(site: &Site, name: &str, instance_type: &str, more: Value) -> Value {
    let architecture = if instance_type.starts_with("mac1") {
        "x86_64_mac"
    } else if instance_type.starts_with("mac") {
        "arm64_mac"
    } else {
        "x86_64"
    };
    let image = site.ec2.image(REGION, architecture).unwrap();
    let mut spec = json!({"instanceType": instance_type, "ami": {"id": image}});
    for (key, value) in more.as_object().cloned().unwrap_or_default() {
        spec[key] = value;
    }
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine",
        "metadata": {
            "name": name, "namespace": NS, "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name, "uid": "u"}],
        },
        "spec": spec,
    })
}

/// A machine with a host of its own.
pub fn dynamic(site: &Site, name: &str) -> Value {
    let wish = json!({"tags": {"CostCenter": "42"}});
    machine(site, name, "m5.large", json!({"tenancy": "host", "hostAffinity": "host", "dynamicHostAllocation": wish}))
}

pub fn add(server: &Server, machine: Value) {
    let name = machine["metadata"]["name"].as_str().unwrap().to_owned();
    server.put(secret(&name)).unwrap();
    put_under(server, owner(&name), machine);
}

/// Puts a Machine and the machine it owns.
pub fn put_under(server: &Server, owner: Value, mut machine: Value) {
    let owner = server.put(owner).unwrap();
    machine["metadata"]["ownerReferences"][0]["uid"] = owner["metadata"]["uid"].clone();
    server.put(machine).unwrap();
}

/// One condition of a machine: its status, reason and message.
pub fn condition(server: &Server, name: &str, type_: &str) -> (String, String, String) {
    let machine = server.get(MACHINES, NS, name).unwrap_or_default();
    let all = machine["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

pub fn reason(server: &Server, name: &str, type_: &str) -> String {
    condition(server, name, type_).1
}

pub fn is_ready(server: &Server, name: &str) -> bool {
    server.get(MACHINES, NS, name).is_some_and(|machine| machine["status"]["ready"] == true)
}

pub fn is_gone(server: &Server, name: &str) -> bool {
    server.get(MACHINES, NS, name).is_none()
}

pub fn phase(server: &Server, name: &str) -> String {
    let machine = server.get(MACHINES, NS, name).unwrap_or_default();
    let journal = note(&machine, "allocation").unwrap_or_default();
    journal["phase"].as_str().unwrap_or_default().to_owned()
}

pub fn hosts_of(server: &Server, name: &str) -> Vec<String> {
    let machine = server.get(MACHINES, NS, name).unwrap_or_default();
    let journal = note(&machine, "allocation").unwrap_or_default();
    let ids = journal["hosts"].as_array().cloned().unwrap_or_default();
    ids.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect()
}

/// Reasons of the events on a machine, each once.
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

/// A server and an EC2 on the same clock.
pub fn world() -> (Server, Site) {
    let server = Server::new(1);
    let site = Site::new(&server.clock(), None);
    install(&server, &site);
    (server, site)
}

pub async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

pub fn state_of(site: &Site, host: &str) -> Option<HostState> {
    site.ec2.hosts().into_iter().find(|facts| facts.id == host).map(|facts| facts.state)
}
