//! The three places where machines of one cluster run, and where nothing takes time: played hosts, and the strict simulators
//! of EC2 and CloudStack. Kubelets are played too, in a workload cluster that is a real API server.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::cloudstack::world::machine::State;
use sim::ec2::world::instance::InstanceState;
use sim::ec2::world::settings::Delays;
use sim::metal::{self, Machines, Settings, Simulator};
use sim::nodes::Nodes;
use sim::plane::{self, Plane};
use sim::{cloudstack, ec2, provider};

use crate::ground;

/// Where the hosts are.
pub const METAL: &str = "metal";
/// The label of the hosts that the book is about.
const BOOK_HOSTS: &str = "size=large";
/// The image that the book made up, and where it is looked for.
const BOOK_IMAGE: &str = "ami-0123456789abcdef0";
const REGION: &str = "us-west-2";

/// They end when this is dropped, but for the hosts, which end with the runtime.
pub struct Places {
    pub acs: cloudstack::Handle,
    pub ec2: ec2::Handle,
    /// The machines behind the hosts.
    pub metal: Arc<Machines>,
    server: Client,
}

/// An account of EC2.
pub async fn account() -> ec2::Handle {
    let (mut options, now) = (ec2::Options::default(), Duration::ZERO);
    let delays = options.settings.delays;
    options.settings.delays = Delays { allocate: now, launch: now, shut_down: now, vacate: now, ..delays };
    ec2::start(options).await.expect("the EC2 simulator starts")
}

impl Places {
    /// Opens them, for the hosts of this server.
    pub async fn open(server: &Client) -> Self {
        let simulator = Simulator::new(server.clone(), Settings::default());
        let metal = simulator.machines();
        tokio::spawn(simulator.run());
        Self { acs: ground::simulated().await, ec2: account().await, metal, server: server.clone() }
    }

    /// What stands here for what the book made up.
    pub fn own(&self) -> Vec<(String, &'static str)> {
        let image = self.ec2.image(REGION, "x86_64").expect("an image");
        let of_cloudstack = ground::own(&self.acs).map(|(own, made_up)| (own.to_owned(), made_up));
        of_cloudstack.into_iter().chain([(image, BOOK_IMAGE)]).collect()
    }

    /// What is left in them: hosts with a consumer, disks that are not empty, dedicated hosts, instances, virtual machines.
    pub async fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        let hosts = metal::resource("BareMetalHost").expect("a kind");
        let hosts: Api<DynamicObject> = Api::namespaced_with(self.server.clone(), METAL, &hosts);
        let hosts = hosts.list(&ListParams::default().labels(BOOK_HOSTS)).await.map(|list| list.items);
        for host in hosts.unwrap_or_default() {
            let name = host.metadata.name.unwrap_or_default();
            if host.data.pointer("/spec/consumerRef").is_some() || host.data.pointer("/spec/image").is_some() {
                left.push(format!("host {name}"));
            }
            left.extend(self.metal.disk(METAL, &name).map(|disk| format!("{disk:?} on host {name}")));
        }
        let paid = self.ec2.hosts().into_iter().filter(|host| !host.state.is_released());
        left.extend(paid.map(|host| format!("{host:?}")));
        let gone = |state| matches!(state, InstanceState::ShuttingDown | InstanceState::Terminated);
        left.extend(self.ec2.instances().into_iter().filter(|one| !gone(one.state)).map(|one| format!("{one:?}")));
        let machines = self.acs.machines().into_iter().filter(|machine| machine.state != State::Gone);
        left.extend(machines.map(|machine| format!("{machine:?}")));
        left
    }
}

/// Tells Cluster API and Berth how to reach a workload cluster, and plays its kubelets.
pub async fn enter(server: &Client, workload: &(Plane, Client), namespace: &str, cluster: &str) -> Nodes {
    let kubeconfig = provider::kubeconfig(&workload.0).expect("a kubeconfig");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": format!("{cluster}-kubeconfig"), "namespace": namespace,
            "labels": {"cluster.x-k8s.io/cluster-name": cluster}},
        "stringData": {"value": kubeconfig.to_string()}});
    plane::apply(server, &secret).await.expect("the Secret is written");
    Nodes::start(server.clone(), workload.1.clone(), namespace, cluster)
}

/// All Machines of a group.
pub async fn machines(server: &Client, namespace: &str, group: &str) -> Vec<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Machine"));
    let machines: Api<DynamicObject> = Api::namespaced_with(server.clone(), namespace, &resource);
    let of_group = ListParams::default().labels(&format!("group={group}"));
    machines.list(&of_group).await.map(|list| list.items).unwrap_or_default()
}

/// Whether a Machine has become a node and is not on its way out.
pub fn runs(machine: &DynamicObject) -> bool {
    machine.data.pointer("/status/phase").is_some_and(|phase| phase == "Running")
        && machine.metadata.deletion_timestamp.is_none()
}

/// The name of the node that a Machine has become.
pub fn node(machine: &DynamicObject) -> String {
    machine.data.pointer("/status/nodeRef/name").and_then(Value::as_str).expect("a node").to_owned()
}

/// What a kubelet says of its Node.
pub async fn say(nodes: &Api<Node>, name: &str, ready: &str) {
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Played",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(&patch)).await.expect("the Node is written");
}
