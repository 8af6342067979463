//! The kind, as the contract needs it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use claim_kind::contract::{Kind, Mood, OTHER, Place, Resource, TENANT};
use claim_kind::heartbeat::KindProfile;
use futures::future::BoxFuture;
use hosts::config::Config;
use kit::clock::Clock;
use kit::gates::Gates;
use kit::http::Carry;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use serde_json::{Value, json};
use sim::ec2::wire::refusal::Refusal;
use sim::ec2::world::faults::{Fault, What};
use sim::ec2::world::host::HostState;
use sim::ec2::world::instance::InstanceState;
use sim::ec2::world::settings::Delays;
use sim::server::{self, Gate, Kind as Served, Server};

use crate::site::{REGION, Site, Wire, ZONE};

pub const CLAIMS: &str = "hostclaims.metal3.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
/// What is begun does not end before the mood is better.
const NEVER: Duration = Duration::from_secs(30 * 24 * 3_600);
/// What a failing call says; no tenant may read it.
const COMPLAINT: &str =
    "https://ec2.internal:8443 refused arn:aws:iam::123456789012:user/hunter2 in favour of other-tenant";

/// EC2, and the user data it was sent, by the tokens of the launches; the simulator keeps none.
#[derive(Clone)]
pub struct Platform {
    pub site: Site,
    data: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Platform {
    pub fn new(clock: &server::Clock, gate: Option<Gate>) -> Self {
        Self { site: Site::new(clock, gate), data: Arc::default() }
    }

    /// A process that serves machines and claims.
    pub async fn run(&self, client: kube::Client, clock: Clock, config: Config) {
        let wire = Wire { ec2: self.site.ec2.clone(), gate: self.site.gate.clone() };
        let cloud = self.site.cloud_over(clock.clone(), Arc::new(Noted { wire, data: Arc::clone(&self.data) }));
        let options = Options { resync: None, workers: 4, ..Options::default() };
        let manager = Manager::new(client, clock, Gates::new(), Metrics::new(), options);
        let room = hosts::mount(&manager, config, cloud).unwrap();
        hosts::claim::mount(&manager, &room).unwrap();
        manager.run().await.unwrap();
    }

    /// Everything that exists for claims: hosts that are paid for, and what is on them.
    pub fn resources(&self) -> Vec<Resource> {
        let id = |tags: &BTreeMap<String, String>| tags.get("hosts.berth.dev/allocation-id").cloned();
        let mut all: BTreeMap<String, (Vec<String>, Vec<Resource>)> = BTreeMap::new();
        for host in self.site.paid() {
            all.entry(id(&host.tags).unwrap_or_default()).or_default().0.push(host.id);
        }
        for instance in self.site.ec2.instances() {
            if instance.state == InstanceState::Terminated {
                continue;
            }
            let claim = id(&instance.tags).unwrap_or_default();
            let token = instance.client_token.unwrap_or_default();
            let sent = self.data.lock().unwrap().get(&token).cloned();
            let there = [InstanceState::Running, InstanceState::Stopping, InstanceState::Stopped];
            all.entry(claim.clone()).or_default().1.push(Resource {
                id: instance.id,
                claim,
                running: there.contains(&instance.state),
                powered: instance.state == InstanceState::Running,
                image: None,
                data: sent.map(|data| ("userData".to_owned(), data)).into_iter().collect(),
                reboots: instance.stops,
            });
        }
        let merge = |(claim, (mut hosts, mut on)): (String, (Vec<String>, Vec<Resource>))| {
            // One host with one instance on it is one machine; more of either is more than one.
            hosts.drain(..on.len().min(hosts.len()));
            on.extend(hosts.into_iter().map(|id| Resource { id, claim: claim.clone(), ..Resource::default() }));
            on
        };
        all.into_iter().flat_map(merge).collect()
    }

    /// Nothing is slow any more, and what was under way ends.
    fn well(&self) {
        let ec2 = &self.site.ec2;
        ec2.clear_script();
        ec2.settings(|settings| settings.delays = Delays::default());
        for host in ec2.hosts().into_iter().filter(|host| host.state == HostState::Pending) {
            ec2.set_host_state(REGION, &host.id, HostState::Available);
        }
        for instance in ec2.instances() {
            let next = match instance.state {
                InstanceState::Pending => InstanceState::Running,
                InstanceState::ShuttingDown => InstanceState::Terminated,
                InstanceState::Stopping => InstanceState::Stopped,
                _ => continue,
            };
            ec2.set_instance_state(REGION, &instance.id, next);
        }
    }
}

/// Carries requests, and notes the user data of launches.
struct Noted {
    wire: Wire,
    data: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Carry for Noted {
    fn carry(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Option<http::Response<Bytes>>> {
        let body = String::from_utf8_lossy(request.body()).into_owned();
        let field = |name: &str| body.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        if let (Some(token), Some(data)) = (field("ClientToken"), field("UserData")) {
            let plain = data.replace("%3D", "=").replace("%2B", "+").replace("%2F", "/");
            let text = String::from_utf8(STANDARD.decode(plain).unwrap()).unwrap();
            self.data.lock().unwrap().insert(token.to_owned(), text);
        }
        self.wire.carry(request)
    }
}

/// The kinds around claims on EC2, and the identity that tenants use who name none.
pub fn install(server: &Server) {
    for kind in [
        Served::namespaced("cluster.x-k8s.io", "v1beta2", "Machine", "machines"),
        Served::namespaced(INFRASTRUCTURE, "v1beta2", "AWSCluster", "awsclusters"),
        Served::cluster(INFRASTRUCTURE, "v1beta2", "AWSClusterControllerIdentity", "awsclustercontrolleridentities"),
        Served::cluster(INFRASTRUCTURE, "v1beta2", "AWSClusterStaticIdentity", "awsclusterstaticidentities"),
        Served::cluster(INFRASTRUCTURE, "v1beta2", "AWSClusterRoleIdentity", "awsclusterroleidentities"),
    ] {
        server.register(kind);
    }
    server.namespace("kube-system");
    let identity = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSClusterControllerIdentity",
        "metadata": {"name": "default"}, "spec": {"allowedNamespaces": {"list": [TENANT]}},
    });
    server.put(identity).unwrap();
}

/// An image that the simulator has from the beginning; every simulator has the same.
pub static IMAGE: LazyLock<String> =
    LazyLock::new(|| sim::ec2::without_socket(sim::ec2::Options::default()).image(REGION, "x86_64").unwrap());

pub fn spec() -> Value {
    json!({"poweredOn": true, "args": {"region": REGION, "instanceType": "m5.large", "ami": &*IMAGE}})
}

pub struct Dedicated;

impl Kind for Dedicated {
    type Platform = Platform;

    fn profile(&self) -> KindProfile {
        hosts::claim::profile()
    }

    fn platform(&self, gate: &Gate, clock: &server::Clock) -> Platform {
        Platform::new(clock, Some(gate.clone()))
    }

    async fn prepare(&self, place: &Place<Self>) {
        install(&place.server);
    }

    async fn process(&self, place: Arc<Place<Self>>, client: kube::Client) {
        let clock = Clock::simulated((place.clock)(), 1);
        place.outside.run(client, clock, place.outside.site.config()).await;
    }

    fn spec(&self) -> Value {
        spec()
    }

    /// Asked after every effect of the crash and stale sweeps, so the oracle of leaks speaks here too.
    fn resources(&self, place: &Place<Self>) -> Vec<Resource> {
        crate::sweeps::no_leak(&place.server, &place.outside).unwrap();
        place.outside.resources()
    }

    fn mood(&self, place: &Place<Self>, mood: Mood) {
        let ec2 = &place.outside.site.ec2;
        match mood {
            Mood::Well => place.outside.well(),
            Mood::Slow => ec2.settings(|settings| {
                let delays = &mut settings.delays;
                (delays.allocate, delays.launch, delays.shut_down) = (NEVER, NEVER, NEVER);
            }),
            Mood::Failing => {
                let refusal = Refusal::new(500, "InternalError", COMPLAINT);
                ec2.script(Fault::on("*", What::Refuse(refusal)).forever());
            }
        }
    }

    fn lose(&self, place: &Place<Self>, id: &str) {
        let ec2 = &place.outside.site.ec2;
        let host = ec2.instances().into_iter().find(|instance| instance.id == id).and_then(|instance| instance.host);
        assert!(ec2.set_instance_state(REGION, id, InstanceState::Terminated));
        assert!(ec2.set_host_state(REGION, &host.unwrap(), HostState::Released));
    }

    fn calls(&self, place: &Place<Self>) -> usize {
        let last = place.outside.site.ec2.log().last().map(|entry| entry.number).unwrap_or_default();
        usize::try_from(last).unwrap()
    }

    fn sensitive(&self) -> Vec<String> {
        ["ec2.internal", "123456789012", "hunter2", OTHER].map(str::to_owned).into()
    }

    fn zone(&self) -> &'static str {
        ZONE
    }

    fn credentials(&self) -> Option<&'static str> {
        Some("identity")
    }

    fn account(&self, place: &Place<Self>, namespace: &str, name: &str) -> Value {
        let ec2 = &place.outside.site.ec2;
        let data =
            json!({"AccessKeyID": STANDARD.encode(&ec2.access_key), "SecretAccessKey": STANDARD.encode(&ec2.secret)});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name}, "data": data})
    }

    fn bad_image(&self) -> Option<Value> {
        Some(json!({"url": "https://images.example.org/linux", "checksum": "abc", "checksumType": "sha256"}))
    }
}
