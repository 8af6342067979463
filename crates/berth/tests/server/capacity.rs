//! The room `capacity` as a whole: the real binary with the rights that it asks for, a real API server with the real kinds
//! of Cluster API, the EC2 simulator behind it.

pub mod openshift;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::{ec2, plane};

use crate::support::{BERTH, Operator, SOON, World, documents, never, text, within};

const NS: &str = "capacity-test";
/// Where the operator runs.
const HOME: &str = "berth-capacity";
const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io";

/// The kinds of Cluster API as they are, that of OpenShift field by field, and of the provider those that Berth reads.
fn definitions() -> Vec<Value> {
    let core = plane::cluster_api_definitions().expect("built");
    let provider = ["AWSMachineTemplate", "AWSCluster", "AWSMachinePool"]
        .map(|kind| plane::open_definition("infrastructure.cluster.x-k8s.io", "v1beta2", kind));
    core.into_iter().chain([openshift::machine_sets()]).chain(provider).collect()
}

/// Kinds, a namespace for groups, and keys that the simulator takes.
async fn prepared(world: &World, ec2: &ec2::Handle) {
    // Templates are guarded by webhooks that another test may have left, and that nobody serves any more.
    world.unregister().await;
    plane::install_crds(&world.client, definitions()).await.expect("definitions are accepted");
    world.namespace(NS).await;
    for (group, version, kind) in [
        ("machine.openshift.io", "v1beta1", "MachineSet"),
        ("cluster.x-k8s.io", "v1beta2", "MachineDeployment"),
        ("cluster.x-k8s.io", "v1beta2", "MachinePool"),
    ] {
        let left = api(world, group, version, kind);
        left.delete_collection(&DeleteParams::default(), &ListParams::default()).await.expect("deleted");
    }
    let data = json!({"aws_access_key_id": ec2.access_key, "aws_secret_access_key": ec2.secret});
    world
        .apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "aws", "namespace": NS}, "stringData": data}))
        .await;
}

/// A kubeconfig with what `berth rbac` prints, and what the chart adds where Secrets may be read; and the ConfigMap that the
/// chart makes.
async fn entitled(world: &World, dir: &Path) -> std::path::PathBuf {
    let rules = documents(&["rbac"]);
    let [everywhere, here, _] = rules.as_slice() else { panic!("three lists of rules: {rules:?}") };
    let rbac = "rbac.authorization.k8s.io";
    let (meta, version) = (json!({"name": "berth-capacity-secrets", "namespace": NS}), format!("{rbac}/v1"));
    let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "watch"]}]);
    world.apply(&json!({"apiVersion": version, "kind": "Role", "metadata": meta, "rules": secrets})).await;
    world
        .apply(&json!({"apiVersion": version, "kind": "RoleBinding", "metadata": meta,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "berth-capacity-secrets"},
            "subjects": [{"kind": "ServiceAccount", "name": HOME, "namespace": HOME}]}))
        .await;
    let kubeconfig = plane::account(world.plane, HOME, everywhere, here).await.expect("an account");
    let kept = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": capacity::names::CATALOGUE, "namespace": HOME}});
    world.apply(&kept).await;
    let path = dir.join("kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).expect("written");
    path
}

/// What a command says with the administrator's rights, and with keys of its own for EC2.
fn told(world: &World, ec2: &ec2::Handle, args: &[&str]) -> Value {
    let mut command = Command::new(BERTH);
    command.args(args).args(["-o", "json", "--kubeconfig"]).arg(world.plane.kubeconfig_path());
    command.env_remove("KUBECONFIG").env("HOME", "/nonexistent");
    command.env("AWS_ACCESS_KEY_ID", &ec2.access_key).env("AWS_SECRET_ACCESS_KEY", &ec2.secret);
    let output = tokio::task::block_in_place(|| command.output()).expect("the binary runs");
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The value of a fact of an explanation.
fn fact<'a>(told: &'a Value, name: &str) -> &'a str {
    let found = told["facts"].as_array().expect("facts").iter().find(|fact| fact["name"] == name);
    found.and_then(|fact| fact["value"].as_str()).unwrap_or_default()
}

/// How many passes over MachineSets of OpenShift have found everything as it should be.
async fn unchanged(metrics: u16) -> Option<u64> {
    let line = r#"berth_capacity_groups_total{kind="machineset.machine.openshift.io",result="unchanged"} "#;
    let (_, text) = plane::http_get(metrics, "/metrics").await.ok()?;
    text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok())
}

fn api(world: &World, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(world.client.clone(), NS, &resource)
}

/// A group of Cluster API on a template of this kind.
fn group(kind: &str, name: &str, template: (&str, &str)) -> Value {
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": template.0, "name": template.1});
    let machine = json!({"clusterName": "c", "version": "v1.34.1", "bootstrap": {"dataSecretName": "data"},
        "infrastructureRef": reference});
    let mut spec = json!({"clusterName": "c", "replicas": 0, "template": {"spec": machine}});
    if kind != "MachinePool" {
        let labels = json!({"pool": name});
        spec["selector"] = json!({"matchLabels": labels});
        spec["template"]["metadata"] = json!({"labels": labels});
    }
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name, "namespace": NS}, "spec": spec})
}

/// The template of groups of machines on EC2.
const TEMPLATE: (&str, &str) = ("AWSMachineTemplate", "t");

/// The cluster of all groups, in a region.
fn cluster() -> [Value; 2] {
    let meta = json!({"name": "c", "namespace": NS});
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster", "name": "c"});
    [
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": meta,
            "spec": {"infrastructureRef": reference}}),
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster", "metadata": meta,
            "spec": {"region": "eu-west-1"}}),
    ]
}

fn template(instance_type: &str) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
        "metadata": {"name": "t", "namespace": NS},
        "spec": {"template": {"spec": {"instanceType": instance_type, "rootVolume": {"size": 120}}}}})
}

fn set(instance_type: &str) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": {"name": "workers", "namespace": NS},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"pool": "workers"}}, "template": {"spec": {"providerSpec": {"value": {
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
    prepared(&world, &ec2).await;
    let (dir, metrics) = (tempfile::tempdir().expect("a directory"), plane::free_port().expect("a free port"));
    let kubeconfig = entitled(&world, dir.path()).await;
    let (listen, endpoint) = (format!("127.0.0.1:{metrics}"), format!("ec2={}", ec2.endpoint));
    let secret = format!("{NS}/aws");
    let args = [
        "--controllers",
        "capacity",
        "--metrics-bind-address",
        &listen,
        "--leader-elect-resource-namespace",
        HOME,
        "--aws-endpoint",
        &endpoint,
        "--aws-credentials-secret",
        &secret,
    ];
    world.apply(&set("m5.xlarge")).await;
    let began = world.mark();
    let mut operator = Operator::start_as(&kubeconfig, &args);
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
    for object in cluster().into_iter().chain([template("m5.4xlarge"), group("MachineDeployment", "d", TEMPLATE)]) {
        world.apply(&object).await;
    }
    let deployments = api(&world, "cluster.x-k8s.io", "v1beta2", "MachineDeployment");
    has(&deployments, "d", &format!("{CAPACITY}/cpu"), "16").await;
    has(&deployments, "d", &format!("{CAPACITY}/ephemeral-disk"), "120Gi").await;
    has(&deployments, "d", "machine.openshift.io/memoryMb", "65536").await;

    // What was listed is kept for the next process.
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), HOME);
    within(SOON, "two regions are kept", async || {
        let map = maps.get_opt(capacity::names::CATALOGUE).await.ok()??;
        (map.binary_data.unwrap_or_default().len() == 2).then_some(())
    })
    .await;

    // Whoever explains a group is told from it.
    let told = told(
        &world,
        &ec2,
        &["explain", "machineset/workers", "-n", NS, "--operator-namespace", HOME, "--aws-endpoint", &endpoint],
    );
    assert_eq!(
        (&told["level"], fact(&told, "processors"), &told["unseen"]),
        (&json!("ok"), "16", &json!([])),
        "{told}"
    );
    assert!(fact(&told, "catalogue").starts_with("of 20"), "{told}");

    // Whoever declares a key by server-side apply, as the topology of a ClusterClass is carried out, keeps it.
    let mut declared =
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "d"}});
    declared["metadata"]["annotations"] = json!({"machine.openshift.io/memoryMb": "1", format!("{CAPACITY}/cpu"): "2"});
    let topology = PatchParams::apply("capi-topology").force();
    deployments.patch("d", &topology, &Patch::Apply(&declared)).await.expect("declared");
    world.apply(&template("m5.xlarge")).await;
    has(&deployments, "d", "machine.openshift.io/vCPU", "4").await;
    has(&deployments, "d", &format!("{CAPACITY}/memory"), "16384Mi").await;
    has(&deployments, "d", "machine.openshift.io/memoryMb", "1").await;
    has(&deployments, "d", &format!("{CAPACITY}/cpu"), "2").await;

    // A hundred passes that find everything as it should be cost no request and no call.
    let (mark, calls) = (world.quiet().await, ec2.calls("DescribeInstanceTypes"));
    for number in 0..100 {
        let before = unchanged(metrics).await.unwrap_or_default();
        let value = if number % 2 == 0 { "no" } else { "false" };
        annotate(&sets, "workers", capacity::names::SKIP, json!(value)).await;
        within(SOON, "a pass", async || unchanged(metrics).await.filter(|passes| *passes > before)).await;
    }
    never(Duration::from_secs(1), "a pass without a reason to write costs a request", async || {
        let asked: Vec<_> = world.requests(mark).into_iter().filter(|request| request.verb != "watch").collect();
        (!asked.is_empty()).then(|| format!("{asked:?}"))
    })
    .await;
    assert_eq!(ec2.calls("DescribeInstanceTypes"), calls);

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
    let mut operator = Operator::start_as(&kubeconfig, &args);
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
    let refused: Vec<_> = world.requests(began).into_iter().filter(plane::Request::is_refused).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_are_told_what_machines_of_a_group_offer_and_what_would_be_written() {
    let name = "people_are_told_what_machines_of_a_group_offer_and_what_would_be_written";
    let Some(world) = World::enter(name).await else { return };
    let ec2 = ec2::start(ec2::Options::default()).await.expect("the simulator starts");
    prepared(&world, &ec2).await;
    let launch = json!({"awsLaunchTemplate": {"instanceType": "m5.xlarge"},
        "mixedInstancesPolicy": {"overrides": [{"instanceType": "m5.xlarge"}, {"instanceType": "m6g.4xlarge"}]}});
    let pool = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachinePool",
        "metadata": {"name": "mixed", "namespace": NS}, "spec": launch});
    for object in cluster().into_iter().chain([
        set("m5.xlarge"),
        template("m5.4xlarge"),
        group("MachineDeployment", "d", TEMPLATE),
        pool,
        group("MachinePool", "mixed", ("AWSMachinePool", "mixed")),
    ]) {
        world.apply(&object).await;
    }
    let endpoint = format!("ec2={}", ec2.endpoint);
    let ask = |words: &[&str]| told(&world, &ec2, &[words, &["--aws-endpoint", &endpoint]].concat());
    let sentences = |told: &Value, list: &str, field: &str| -> Vec<String> {
        let all = told[list].as_array().expect("a list").iter();
        all.map(|one| one[field].as_str().unwrap_or_default().to_owned()).collect()
    };

    let workers = ask(&["explain", "machineset/workers", "-n", NS, "--lookup"]);
    assert_eq!((&workers["kind"], &workers["level"]), (&json!("Explanation"), &json!("waiting")), "{workers}");
    for (name, value) in [
        ("instance type", "m5.xlarge"),
        ("region", "us-east-1"),
        ("credentials", "Secret capacity-test/aws"),
        ("processors", "4"),
        ("memory", "16384Mi"),
        ("architecture", "amd64"),
    ] {
        assert_eq!(fact(&workers, name), value, "{workers}");
    }
    assert_eq!(sentences(&workers, "needs", "name"), ["OpenShift up to 4.18", "OpenShift from 4.19 on"]);
    let next = sentences(&workers, "next", "what");
    assert!(next.contains(&r#"writes machine.openshift.io/vCPU: "4""#.to_owned()), "{next:?}");
    assert_eq!(workers["unseen"], json!([]));

    // The flags of the operator change what it would write, and without being asked EC2 is left alone.
    let calls = ec2.calls("DescribeInstanceTypes");
    let deployment = ask(&["explain", "machinedeployment/d", "-n", NS, "--ephemeral-disk=off", "--lookup"]);
    let next = sentences(&deployment, "next", "what").join("\n");
    assert!(next.contains(&format!(r#"writes {CAPACITY}/cpu: "16""#)) && !next.contains("ephemeral-disk"), "{next}");
    assert_eq!((fact(&deployment, "region"), ec2.calls("DescribeInstanceTypes")), ("eu-west-1", calls + 1));
    let deployment = ask(&["explain", "machinedeployment/d", "-n", NS, "--operator-namespace", NS]);
    assert_eq!(ec2.calls("DescribeInstanceTypes"), calls + 1);
    let unseen = deployment["unseen"].to_string();
    assert!(unseen.contains("there is no ConfigMap capacity-test/berth-capacity-catalogue"), "{unseen}");

    // Of several types the least, and no architecture where they differ in it.
    let mixed = ask(&["explain", "machinepool/mixed", "-n", NS, "--watch-machine-pools", "--lookup"]);
    assert_eq!(
        (fact(&mixed, "processors"), fact(&mixed, "memory"), fact(&mixed, "architecture")),
        ("4", "16384Mi", "")
    );
    assert_eq!(fact(&mixed, "instance type"), "m5.xlarge,m6g.4xlarge", "{mixed}");
    assert_eq!(ec2.calls("DescribeInstanceTypes"), calls + 2, "both types in one question");

    let all = ask(&["capacity", "-A", "--watch-machine-pools"]);
    let row = |kind: &str| {
        let rows = all["items"].as_array().expect("rows").iter();
        let found = rows.filter(|row| row["namespace"] == NS).find(|row| row["kind"] == kind);
        found.map(|row| ["name", "instanceType", "region", "state"].map(|field| row[field].clone()))
    };
    let told = |words: [&str; 4]| Some(words.map(|word| json!(word)));
    assert_eq!(row("machineset.machine.openshift.io"), told(["workers", "m5.xlarge", "us-east-1", "not annotated"]));
    assert_eq!(row("machinedeployment.cluster.x-k8s.io"), told(["d", "m5.4xlarge", "eu-west-1", "not annotated"]));
    let mixed = told(["mixed", "m5.xlarge,m6g.4xlarge", "eu-west-1", "not annotated"]);
    assert_eq!(row("machinepool.cluster.x-k8s.io"), mixed, "{all}");
    assert_eq!(ec2.calls("DescribeInstanceTypes"), calls + 2, "nobody asked for EC2");

    // With it each region is asked once for all of its groups.
    world.apply(&set("m5.xlrage")).await;
    let all = ask(&["capacity", "-n", NS, "--watch-machine-pools", "--lookup"]);
    let states: Vec<_> = all["items"].as_array().expect("rows").iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["FailedUpdate", "not annotated", "not annotated"], "{all}");
    assert_eq!(ec2.calls("DescribeInstanceTypes"), calls + 4, "two regions");
}
