//! Kinds and objects of the small world.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use capacity::cloud::{Both, Cloud, Ways};
use capacity::config::Config;
use cloudstack::net::{CloudStacks, Meter as AcsMeter, Options as AcsOptions};
use kit::clock::Clock;
use kit::feed::Scope;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use serde_json::{Value, json};
use sim::server::{Kind, Server};
use tokio::task::JoinSet;

pub const OPENSHIFT: &str = "openshift-machine-api";
pub const NS: &str = "team";
pub const OPENSHIFT_SETS: &str = "machinesets.machine.openshift.io";
pub const DEPLOYMENTS: &str = "machinedeployments.cluster.x-k8s.io";
pub const SETS: &str = "machinesets.cluster.x-k8s.io";
pub const TEMPLATES: &str = "awsmachinetemplates.infrastructure.cluster.x-k8s.io";
pub const CLUSTERS: &str = "clusters.cluster.x-k8s.io";
pub const EVENTS: &str = "events.events.k8s.io";
pub const LIMIT: Duration = Duration::from_secs(1200);

const CORE: &str = "cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";

pub fn openshift_kinds(server: &Server) {
    server.register(Kind::namespaced("machine.openshift.io", "v1beta1", "MachineSet", "machinesets"));
    server.register(Kind::cluster("config.openshift.io", "v1", "Infrastructure", "infrastructures"));
    server.namespace(OPENSHIFT);
}

pub fn cluster_api_kinds(server: &Server) {
    for kind in [
        Kind::namespaced(CORE, "v1beta2", "Cluster", "clusters"),
        Kind::namespaced(CORE, "v1beta2", "MachineDeployment", "machinedeployments"),
        Kind::namespaced(CORE, "v1beta2", "MachineSet", "machinesets"),
        Kind::namespaced(CORE, "v1beta2", "MachinePool", "machinepools"),
        Kind::namespaced(INFRASTRUCTURE, "v1beta2", "AWSMachinePool", "awsmachinepools"),
        Kind::namespaced(INFRASTRUCTURE, "v1beta2", "AWSManagedMachinePool", "awsmanagedmachinepools"),
        Kind::namespaced(INFRASTRUCTURE, "v1beta2", "AWSMachineTemplate", "awsmachinetemplates"),
        Kind::namespaced(INFRASTRUCTURE, "v1beta2", "AWSCluster", "awsclusters"),
        Kind::namespaced(INFRASTRUCTURE, "v1beta3", "CloudStackMachineTemplate", "cloudstackmachinetemplates"),
        Kind::namespaced(INFRASTRUCTURE, "v1beta3", "CloudStackCluster", "cloudstackclusters"),
        Kind::cluster(INFRASTRUCTURE, "v1beta2", "AWSClusterControllerIdentity", "awsclustercontrolleridentities"),
        Kind::cluster(INFRASTRUCTURE, "v1beta2", "AWSClusterStaticIdentity", "awsclusterstaticidentities"),
        Kind::cluster(INFRASTRUCTURE, "v1beta2", "AWSClusterRoleIdentity", "awsclusterroleidentities"),
        Kind::namespaced(CONTROL_PLANE, "v1beta2", "AWSManagedControlPlane", "awsmanagedcontrolplanes"),
        Kind::namespaced(CONTROL_PLANE, "v1beta2", "ROSAControlPlane", "rosacontrolplanes"),
    ] {
        server.register(kind);
    }
    server.namespace(NS);
}

pub fn install(server: &Server) {
    openshift_kinds(server);
    cluster_api_kinds(server);
    server.put(secret("aws", "AKID", "one")).unwrap();
}

pub fn secret(name: &str, id: &str, secret: &str) -> Value {
    let data = json!({"aws_access_key_id": STANDARD.encode(id), "aws_secret_access_key": STANDARD.encode(secret)});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": OPENSHIFT}, "data": data})
}

pub fn openshift_set(name: &str, instance_type: &str) -> Value {
    in_region(name, instance_type, "us-east-1")
}

pub fn in_region(name: &str, instance_type: &str, region: &str) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": name, "namespace": OPENSHIFT},
        "spec": {"replicas": 0, "template": {"spec": {"providerSpec": {"value": {
            "instanceType": instance_type, "placement": {"region": region}, "credentialsSecret": {"name": "aws"},
        }}}}},
    })
}

pub fn group(kind: &str, name: &str, template: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name, "namespace": NS},
        "spec": {"clusterName": "c", "replicas": 0, "template": {"spec": {"clusterName": "c",
            "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "AWSMachineTemplate", "name": template}}}},
    })
}

pub fn template(name: &str, instance_type: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
        "metadata": {"name": name, "namespace": NS},
        "spec": {"template": {"spec": {"instanceType": instance_type, "rootVolume": {"size": 100}}}},
    })
}

pub fn cluster(infrastructure: (&str, &str), control_plane: Option<(&str, &str)>) -> Value {
    let reference = |group: &str, (kind, name): (&str, &str)| json!({"apiGroup": group, "kind": kind, "name": name});
    let mut spec = json!({"infrastructureRef": reference(INFRASTRUCTURE, infrastructure)});
    if let Some(plane) = control_plane {
        spec["controlPlaneRef"] = reference(CONTROL_PLANE, plane);
    }
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c", "namespace": NS}, "spec": spec,
    })
}

pub fn aws_cluster(region: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
        "metadata": {"name": "c", "namespace": NS}, "spec": {"region": region},
    })
}

/// An identity of a cluster.
pub fn identity(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec,
    })
}

/// The annotations of an object that matter here.
pub fn notes(server: &Server, resource: &str, namespace: &str, name: &str) -> BTreeMap<String, String> {
    let object = server.get(resource, namespace, name).unwrap_or_default();
    let all = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    all.into_iter()
        .map(|(key, value)| {
            (key.rsplit('/').next().unwrap_or_default().to_owned(), value.as_str().unwrap_or_default().to_owned())
        })
        .collect()
}

pub fn has(
    resource: &'static str,
    namespace: &'static str,
    name: &'static str,
    key: &'static str,
    value: &'static str,
) -> impl FnMut(&Server) -> bool {
    move |server| notes(server, resource, namespace, name).get(key).is_some_and(|found| found == value)
}

/// Reasons and notes of the events on an object, in the order they were said.
pub fn events(server: &Server, name: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = ["default", OPENSHIFT, NS].into_iter().flat_map(|namespace| server.list(EVENTS, namespace));
    all.filter(|event| event["regarding"]["name"] == name)
        .map(|event| (text(&event["reason"]), text(&event["note"])))
        .collect()
}

pub fn config() -> Config {
    let vars = BTreeMap::from([
        ("AWS_ACCESS_KEY_ID".to_owned(), "AKIDAMBIENT".to_owned()),
        ("AWS_SECRET_ACCESS_KEY".to_owned(), "ambient".to_owned()),
    ]);
    let ambient = aws::credentials::Ambient::decide(&vars, &aws::credentials::Files::default()).unwrap();
    Config { ambient: Ok(ambient), ..Config::default() }
}

/// A process without a CloudStack.
pub async fn run<C: Cloud>(client: kube::Client, clock: Clock, config: Config, cloud: C, resync: Option<Duration>) {
    let acs = CloudStacks::new(AcsOptions::new("berth/test"), clock.clone(), AcsMeter::default());
    serve(client, clock, config, Both { aws: cloud, acs }, resync).await;
}

pub async fn serve<W: Ways>(client: kube::Client, clock: Clock, config: Config, ways: W, resync: Option<Duration>) {
    let options = Options { resync, workers: 4, ..Options::default() };
    managed(client, clock, config, ways, options, Metrics::new()).await;
}

async fn managed<W: Ways>(
    client: kube::Client,
    clock: Clock,
    config: Config,
    ways: W,
    options: Options,
    metrics: Metrics,
) {
    let manager = Manager::new(client, clock, Gates::new(), metrics, options);
    capacity::mount(&manager, config, ways).unwrap();
    manager.run().await.unwrap();
}

/// A process under a paused clock that follows some namespaces only, and what it counts.
pub fn observed<C: Cloud>(server: &Server, config: Config, cloud: C, scope: Scope) -> (JoinSet<()>, Metrics) {
    with_workers(server, config, cloud, Options { scope, workers: 4, ..Options::default() })
}

/// The same with as many workers as are wanted.
pub fn with_workers<C: Cloud>(server: &Server, config: Config, cloud: C, options: Options) -> (JoinSet<()>, Metrics) {
    let (mut tasks, metrics) = (JoinSet::new(), Metrics::new());
    let clock = Clock::simulated((server.clock())(), 1);
    let acs = CloudStacks::new(AcsOptions::new("berth/test"), clock.clone(), AcsMeter::default());
    let client = server.client("capacity").kube();
    tasks.spawn(managed(client, clock, config, Both { aws: cloud, acs }, options, metrics.clone()));
    (tasks, metrics)
}

/// A process under a paused clock.
pub fn running<C: Cloud>(server: &Server, config: Config, cloud: C) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let clock = Clock::simulated((server.clock())(), 1);
    tasks.spawn(run(server.client("capacity").kube(), clock, config, cloud, None));
    tasks
}
