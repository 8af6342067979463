//! The room `capacity` as a whole: the real binary, a real API server, the EC2 simulator behind it.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::{ec2, plane};

use crate::support::{Operator, SOON, World, never, within};

const NS: &str = "capacity-test";
const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io";

fn definitions() -> Vec<Value> {
    [
        ("machine.openshift.io", "v1beta1", "MachineSet"),
        ("cluster.x-k8s.io", "v1beta2", "Cluster"),
        ("cluster.x-k8s.io", "v1beta2", "MachineDeployment"),
        ("cluster.x-k8s.io", "v1beta2", "MachineSet"),
        ("infrastructure.cluster.x-k8s.io", "v1beta2", "AWSMachineTemplate"),
        ("infrastructure.cluster.x-k8s.io", "v1beta2", "AWSCluster"),
    ]
    .map(|(group, version, kind)| plane::open_definition(group, version, kind))
    .into()
}

fn api(world: &World, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(world.client.clone(), NS, &resource)
}

fn set(instance_type: &str) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": {"name": "workers", "namespace": NS},
        "spec": {"replicas": 0, "template": {"spec": {"providerSpec": {"value": {
            "instanceType": instance_type, "placement": {"region": "us-east-1"}, "credentialsSecret": {"name": "aws"},
        }}}}},
    })
}

fn notes(object: &DynamicObject) -> Vec<(String, String)> {
    object.metadata.annotations.clone().unwrap_or_default().into_iter().collect()
}

async fn has(api: &Api<DynamicObject>, name: &str, key: &str, value: &str) {
    within(SOON, &format!("{name}: {key}={value}"), async || {
        let object = api.get_opt(name).await.ok()??;
        notes(&object).iter().any(|(k, v)| k == key && v == value).then_some(())
    })
    .await;
}

async fn annotate(api: &Api<DynamicObject>, name: &str, key: &str, value: Value) {
    let params = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
    let body = json!({"metadata": {"annotations": {key: value}}});
    api.patch(name, &params, &Patch::Merge(&body)).await.expect("annotated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_annotated_restored_followed_and_left_in_peace() {
    let Some(world) = World::enter("groups_are_annotated_restored_followed_and_left_in_peace").await else { return };
    let ec2 = ec2::start(ec2::Options::default()).await.expect("the simulator starts");
    // Templates are guarded by webhooks that another test may have left, and that nobody serves any more.
    world.unregister().await;
    plane::install_crds(&world.client, definitions()).await.expect("definitions are accepted");
    world.namespace(NS).await;
    let data = json!({"aws_access_key_id": ec2.access_key, "aws_secret_access_key": ec2.secret});
    world
        .apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "aws", "namespace": NS}, "stringData": data}))
        .await;
    world.apply(&set("m5.xlarge")).await;
    let mut operator = Operator::start(
        &world,
        &[
            "--controllers",
            "capacity",
            "--aws-endpoint",
            &format!("ec2={}", ec2.endpoint),
            "--aws-credentials-secret",
            &format!("{NS}/aws"),
        ],
    );
    operator.ready().await;
    let sets = api(&world, "machine.openshift.io", "v1beta1", "MachineSet");

    // Annotated.
    has(&sets, "workers", "machine.openshift.io/vCPU", "4").await;
    let wanted = [
        (format!("{CAPACITY}/labels"), "kubernetes.io/arch=amd64"),
        ("machine.openshift.io/GPU".to_owned(), "0"),
        ("machine.openshift.io/memoryMb".to_owned(), "16384"),
        ("machine.openshift.io/vCPU".to_owned(), "4"),
    ];
    let found = notes(&sets.get("workers").await.expect("there"));
    assert_eq!(found, wanted.map(|(key, value)| (key, value.to_owned())));

    // Restored.
    annotate(&sets, "workers", "machine.openshift.io/memoryMb", Value::Null).await;
    has(&sets, "workers", "machine.openshift.io/memoryMb", "16384").await;

    // An operator's copies survive, and follow a change of type with everything else, in one write.
    for (key, value) in [("cpu", "4"), ("memory", "17179869184"), ("gpu-count", "0"), ("gpu-type", "")] {
        annotate(&sets, "workers", &format!("{CAPACITY}/{key}"), json!(value)).await;
    }
    let mark = world.mark();
    world.apply(&set("m6g.4xlarge")).await;
    has(&sets, "workers", "machine.openshift.io/vCPU", "16").await;
    for (key, value) in [
        ("cpu", "16"),
        ("memory", "65536Mi"),
        ("gpu-count", "0"),
        ("gpu-type", ""),
        ("labels", "kubernetes.io/arch=arm64"),
    ] {
        has(&sets, "workers", &format!("{CAPACITY}/{key}"), value).await;
    }
    let written = world.writes(mark);
    assert_eq!(written.iter().filter(|request| request.resource == "machinesets").count(), 1, "{written:?}");

    // Cluster API: region from the cluster, type from the template.
    let cluster = json!({"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster", "name": "c"}});
    let template = json!({"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachineTemplate", "name": "t"}});
    for (version, kind, name, spec) in [
        (
            "cluster.x-k8s.io/v1beta2",
            "MachineDeployment",
            "d",
            json!({"clusterName": "c", "replicas": 0, "template": {"spec": template}}),
        ),
        ("cluster.x-k8s.io/v1beta2", "Cluster", "c", cluster),
        ("infrastructure.cluster.x-k8s.io/v1beta2", "AWSCluster", "c", json!({"region": "eu-west-1"})),
        (
            "infrastructure.cluster.x-k8s.io/v1beta2",
            "AWSMachineTemplate",
            "t",
            json!({"template": {"spec": {"instanceType": "m5.4xlarge", "rootVolume": {"size": 120}}}}),
        ),
    ] {
        world.apply(&json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NS}, "spec": spec})).await;
    }
    let deployments = api(&world, "cluster.x-k8s.io", "v1beta2", "MachineDeployment");
    has(&deployments, "d", &format!("{CAPACITY}/cpu"), "16").await;
    has(&deployments, "d", &format!("{CAPACITY}/ephemeral-disk"), "120Gi").await;
    has(&deployments, "d", "machine.openshift.io/memoryMb", "65536").await;

    // What was listed is kept for the next process.
    let maps: Api<ConfigMap> = Api::default_namespaced(world.client.clone());
    within(SOON, "two regions are kept", async || {
        let map = maps.get_opt(capacity::names::CATALOGUE).await.ok()??;
        (map.binary_data.unwrap_or_default().len() == 2).then_some(())
    })
    .await;

    // A hundred changes that do not concern us cost no request, and neither do they cost a call.
    let (mark, calls) = (world.quiet().await, ec2.calls("DescribeInstanceTypes"));
    for number in 0..100 {
        let body = json!({"status": {"replicas": number}});
        sets.patch_status("workers", &PatchParams::default(), &Patch::Merge(&body)).await.expect("changed");
    }
    annotate(&sets, "workers", "example.org/last", json!("one")).await;
    never(Duration::from_secs(2), "a change that does not concern the room costs a request", async || {
        let asked: Vec<_> = world.requests(mark).into_iter().filter(|request| request.verb != "watch").collect();
        (!asked.is_empty()).then(|| format!("{asked:?}"))
    })
    .await;
    assert_eq!(ec2.calls("DescribeInstanceTypes"), calls);

    // A restart finds everything done, asks the cloud for nothing, and serves a new group from what was kept.
    operator.stop().await;
    let mark = world.mark();
    let mut operator = Operator::start(
        &world,
        &[
            "--controllers",
            "capacity",
            "--aws-endpoint",
            &format!("ec2={}", ec2.endpoint),
            "--aws-credentials-secret",
            &format!("{NS}/aws"),
        ],
    );
    operator.ready().await;
    never(Duration::from_secs(3), "a restart writes although everything is done", async || {
        let writes = world.writes(mark);
        (!writes.is_empty()).then(|| format!("{writes:?}"))
    })
    .await;
    let mut more = set("m5.4xlarge");
    more["metadata"]["name"] = json!("more");
    world.apply(&more).await;
    has(&sets, "more", "machine.openshift.io/vCPU", "16").await;
    assert_eq!(ec2.calls("DescribeInstanceTypes"), calls);
    let left = sets.list(&ListParams::default()).await.expect("listed").items.len();
    assert_eq!(left, 2);
    operator.stop().await;
}
