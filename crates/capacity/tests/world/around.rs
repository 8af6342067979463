//! What a group depends on beside itself, what is counted, and clouds that do not answer.

use std::time::Duration;

use capacity::config::Config;
use kit::feed::Scope;
use kit::manager::Options;
use kit::telemetry::Metrics;
use serde_json::{Value, json};
use sim::server::{Action, Kind, Rule, Server};

use crate::cloud::Model;
use crate::life::{idle, world};
use crate::objects::*;

const SOON: Duration = Duration::from_secs(5);
const BUNDLES: &str = "openshift-config-managed";
const CLUSTER_API: &str = "openshift-cluster-api";
const PROVIDER: &str = "infrastructure.cluster.x-k8s.io";

fn bundle(text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-cloud-config", "namespace": BUNDLES},
        "data": {"ca-bundle.pem": text}})
}

fn infrastructure(aws: &Value) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
        "status": {"platformStatus": {"aws": aws}}})
}

fn nowhere(name: &str) -> Value {
    let mut set = openshift_set(name, "m5.xlarge");
    set["spec"]["template"]["spec"]["providerSpec"]["value"]["placement"] = json!({});
    set
}

#[tokio::test(start_paused = true)]
async fn the_authorities_of_an_openshift_cluster_are_trusted_and_new_ones_tried_at_once() {
    let (server, cloud) = world();
    server.namespace(BUNDLES);
    server.put(bundle("one")).unwrap();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    cloud.down("us-east-1", true);
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(LIMIT, |s| !events(s, "a").is_empty()).await);
    // Long enough that the next attempt by itself would be minutes away.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let before = cloud.doors();
    assert!(before.iter().all(|door| door.bundle.as_deref() == Some("one")), "{before:?}");
    cloud.down("us-east-1", false);
    server
        .edit("configmaps", BUNDLES, "kube-cloud-config", |object| object["data"]["ca-bundle.pem"] = json!("two"))
        .unwrap();
    assert!(server.wait_until(SOON, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await, "it is followed");
    assert_eq!(cloud.doors()[before.len()].bundle.as_deref(), Some("two"));
}

#[tokio::test(start_paused = true)]
async fn blank_authorities_are_none() {
    let (server, cloud) = world();
    server.namespace(BUNDLES);
    server.put(bundle(" \n")).unwrap();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    assert!(cloud.doors().iter().all(|door| door.bundle.is_none()), "{:?}", cloud.doors());
}

#[tokio::test(start_paused = true)]
async fn the_region_of_the_platform_is_used_where_nobody_names_one_and_waited_for() {
    let (server, cloud) = world();
    server.put(nowhere("a")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(LIMIT, |s| !events(s, "a").is_empty()).await);
    assert!(events(&server, "a")[0].1.contains("no region"), "{:?}", events(&server, "a"));
    server.put(infrastructure(&json!({"region": "eu-west-2"}))).unwrap();
    assert!(server.wait_until(SOON, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await, "it wakes everybody");
    assert_eq!((cloud.lists("eu-west-2"), cloud.calls()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_mirror_is_annotated_as_soon_as_it_owns_the_machines() {
    let (server, cloud) = world();
    server.namespace(CLUSTER_API);
    let mut twin = openshift_set("a", "m5.xlarge");
    twin["status"] = json!({"authoritativeAPI": "MachineAPI"});
    server.put(twin).unwrap();
    let network = (cluster(("AWSCluster", "c"), None), aws_cluster("us-west-2"));
    for mut object in [network.0, network.1, template("t", "m5.4xlarge"), group("MachineSet", "a", "t")] {
        object["metadata"]["namespace"] = json!(CLUSTER_API);
        server.put(object).unwrap();
    }
    let _process = running(&server, Config { machine_api_migration: true, ..config() }, cloud);
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    idle().await;
    assert!(notes(&server, SETS, CLUSTER_API, "a").is_empty());
    for (owner, settled) in [("Migrating", false), ("ClusterAPI", true)] {
        server
            .edit(OPENSHIFT_SETS, OPENSHIFT, "a", |object| object["status"]["authoritativeAPI"] = json!(owner))
            .unwrap();
        let annotated = server.wait_until(SOON, has(SETS, CLUSTER_API, "a", "cpu", "16")).await;
        assert_eq!(annotated, settled, "{owner}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_region_that_hangs_holds_up_nobody_else_and_is_given_up_after_a_minute() {
    let (server, cloud) = world();
    cloud.hang("eu-west-1", true);
    server.put(in_region("eu", "m5.xlarge", "eu-west-1")).unwrap();
    server.put(openshift_set("us", "m5.xlarge")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(SOON, has(OPENSHIFT_SETS, OPENSHIFT, "us", "vCPU", "4")).await);
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!((events(&server, "eu"), cloud.lists("eu-west-1")), (vec![], 1), "it is still waited for");
    assert!(server.wait_until(Duration::from_secs(15), |s| !events(s, "eu").is_empty()).await);
    let told = events(&server, "eu");
    assert!(told[0].0 == "ReconcileError" && told[0].1.contains("did not answer within a minute"), "{told:?}");
    cloud.hang("eu-west-1", false);
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "eu", "vCPU", "4")).await);
    assert_eq!(events(&server, "eu").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_read_anew_once_and_then_left_for_a_while() {
    let (server, cloud) = world();
    cloud.refuse("keys AKID");
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(LIMIT, |s| !events(s, "a").is_empty()).await);
    assert_eq!((cloud.lists("us-east-1"), cloud.forgotten(), cloud.doors().len()), (2, 1, 2));
    let told = events(&server, "a");
    assert!(told[0].0 == "ReconcileError" && told[0].1.contains("UnauthorizedOperation"), "{told:?}");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let lists = cloud.lists("us-east-1");
    assert!(lists > 2 && lists == 2 * cloud.forgotten(), "each attempt is one and one more: {lists}");
}

#[tokio::test(start_paused = true)]
async fn a_list_without_any_type_is_a_failure_and_nothing_is_kept_of_it() {
    let (server, cloud) = world();
    cloud.empty("us-east-1", true);
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let (_process, metrics) = observed(&server, config(), cloud.clone(), Scope::All);
    assert!(server.wait_until(LIMIT, |s| !events(s, "a").is_empty()).await);
    let told = events(&server, "a");
    assert!(told[0].0 == "ReconcileError" && told[0].1.contains("lists no instance types"), "{told:?}");
    let read = |series: &str| value(&metrics, series);
    assert!(read(&of("refreshes", "us-east-1", "failed")) >= 1);
    assert_eq!((read(&of("refreshes", "us-east-1", "done")), read(&of("lookups", "us-east-1", "negative"))), (0, 0));
    assert_eq!(read(r#"catalogue_entries{provider="ec2",region="us-east-1"}"#), 0);
    cloud.empty("us-east-1", false);
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await, "it is asked again");
}

#[tokio::test(start_paused = true)]
async fn only_chosen_namespaces_are_followed_and_the_platform_beside_them() {
    let (server, cloud) = world();
    server.namespace("elsewhere");
    server.put(nowhere("here")).unwrap();
    let mut there = nowhere("there");
    there["metadata"]["namespace"] = json!("elsewhere");
    server.put(there).unwrap();
    server.put(infrastructure(&json!({"region": "eu-west-2"}))).unwrap();
    server.namespace(BUNDLES);
    server.put(bundle("one")).unwrap();
    let scope = Scope::Namespaces(vec![OPENSHIFT.to_owned()]);
    let (_process, _) = observed(&server, config(), cloud.clone(), scope);
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "here", "vCPU", "4")).await);
    idle().await;
    assert!(notes(&server, OPENSHIFT_SETS, "elsewhere", "there").is_empty());
    assert_eq!((cloud.lists("eu-west-2"), cloud.doors()[0].bundle.as_deref()), (1, Some("one")));
}

/// The value of a series, 0 where there is none.
fn value(metrics: &Metrics, series: &str) -> u64 {
    let text = metrics.encode();
    let found = text.lines().find_map(|line| line.strip_prefix(&format!("berth_capacity_{series}"))?.strip_prefix(' '));
    found.map_or(0, |value| value.parse().unwrap())
}

const SET: &str = "machineset.machine.openshift.io";

fn of(name: &str, region: &str, result: &str) -> String {
    format!(r#"{name}_total{{provider="ec2",region="{region}",result="{result}"}}"#)
}

fn passes(name: &str, result: &str) -> String {
    format!(r#"{name}_total{{kind="{SET}",result="{result}"}}"#)
}

#[tokio::test(start_paused = true)]
async fn what_is_looked_up_written_and_left_to_users_is_counted() {
    let (server, cloud) = world();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let (_process, metrics) = observed(&server, config(), cloud.clone(), Scope::All);
    let read = |series: &str| value(&metrics, series);
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    idle().await;
    assert_eq!((read(&of("refreshes", "us-east-1", "done")), read(&passes("patches", "done"))), (1, 1));
    assert!(read(&of("lookups", "us-east-1", "miss")) >= 1 && read(&of("lookups", "us-east-1", "hit")) >= 1);
    assert_eq!((read(&passes("groups", "changed")), read(&of("lookups", "us-east-1", "stale"))), (1, 0));
    assert_eq!(read(r#"catalogue_entries{provider="ec2",region="us-east-1"}"#), 4);

    // A value that a user has set.
    let overrides = format!(r#"overrides{{kind="{SET}"}}"#);
    assert_eq!(read(&overrides), 0);
    server
        .edit(OPENSHIFT_SETS, OPENSHIFT, "a", |object| {
            object["metadata"]["annotations"]["capacity.cluster-autoscaler.kubernetes.io/memory"] = json!("60Gi");
        })
        .unwrap();
    idle().await;
    assert_eq!(read(&overrides), 1);

    // A type that nobody knows.
    server.put(openshift_set("typo", "m5.xlrage")).unwrap();
    idle().await;
    assert!(read(&of("lookups", "us-east-1", "negative")) >= 1 && read(&passes("groups", "unknown_type")) >= 1);
    assert!(server.delete(OPENSHIFT_SETS, OPENSHIFT, "typo"));

    // An old list.
    cloud.down("us-east-1", true);
    tokio::time::sleep(Duration::from_secs(26 * 3600)).await;
    assert!(read(&of("lookups", "us-east-1", "stale")) >= 1 && read(&of("refreshes", "us-east-1", "failed")) >= 1);
    assert!(read(r#"catalogue_age_seconds{provider="ec2",region="us-east-1"}"#) > 24 * 3600);

    // A write that was refused, and a group that is gone.
    let rule = Rule::any().method("PATCH").path_contains("machinesets").times(1_000_000);
    let fault = server.inject(rule, Action::Status(403));
    server.put(openshift_set("b", "m5.xlarge")).unwrap();
    idle().await;
    server.stop_fault(fault);
    assert_eq!(read(&passes("patches", "refused")), 1);
    assert!(server.delete(OPENSHIFT_SETS, OPENSHIFT, "a"));
    idle().await;
    assert_eq!(read(&overrides), 0);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_groups_that_takes_long_holds_up_no_other_group() {
    let (server, cloud) = world();
    for object in [template("t", "m5.xlarge"), group("MachineDeployment", "d", "t"), group("MachineSet", "s", "t")] {
        server.put(object).unwrap();
    }
    server.put(cluster(("AWSCluster", "c"), None)).unwrap();
    server.put(aws_cluster("us-east-1")).unwrap();
    let slow = Duration::from_secs(120);
    server.inject(Rule::any().path_contains("/cluster.x-k8s.io/v1beta2/machinesets").always(), Action::Delay(slow));
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(SOON, has(DEPLOYMENTS, NS, "d", "cpu", "4")).await);
    assert_eq!(notes(&server, SETS, NS, "s").get("cpu"), None, "it has not been read yet");
    assert!(server.wait_until(2 * slow, has(SETS, NS, "s", "cpu", "4")).await);
    assert_eq!(cloud.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_judged_before_all_is_known_that_it_is_judged_by() {
    for path in ["/awsmachinetemplates", "/clusters", "/awsclusters", "/machine.openshift.io/v1beta1/machinesets"] {
        let (server, cloud) = world();
        for object in [template("t", "m5.xlarge"), group("MachineDeployment", "d", "t")] {
            server.put(object).unwrap();
        }
        server.put(cluster(("AWSCluster", "c"), None)).unwrap();
        server.put(aws_cluster("us-east-1")).unwrap();
        let slow = Duration::from_secs(120);
        server.inject(Rule::any().path_contains(path).always(), Action::Delay(slow));
        let _process = running(&server, config(), cloud.clone());
        tokio::time::sleep(slow / 2).await;
        assert_eq!((server.effects(), cloud.calls()), (0, 0), "{path}");
        assert!(server.wait_until(2 * slow, has(DEPLOYMENTS, NS, "d", "cpu", "4")).await, "{path}");
        assert_eq!(events(&server, "d"), [], "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_only_the_older_cluster_api_is_served_too() {
    let (server, cloud) = (Server::new(1), Model::default());
    for (kind, plural) in
        [("Cluster", "clusters"), ("MachineDeployment", "machinedeployments"), ("MachineSet", "machinesets")]
    {
        server.register(Kind::namespaced("cluster.x-k8s.io", "v1beta1", kind, plural));
    }
    for (kind, plural) in [("AWSMachineTemplate", "awsmachinetemplates"), ("AWSCluster", "awsclusters")] {
        server.register(Kind::namespaced(PROVIDER, "v1beta2", kind, plural));
    }
    server.namespace(NS);
    let older = |mut object: Value, reference: &str| {
        object["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
        let named = object.pointer_mut(reference).unwrap();
        named["apiVersion"] = json!(format!("{PROVIDER}/v1beta2"));
        named.as_object_mut().unwrap().remove("apiGroup");
        object
    };
    for object in [
        older(group("MachineDeployment", "d", "t"), "/spec/template/spec/infrastructureRef"),
        older(cluster(("AWSCluster", "c"), None), "/spec/infrastructureRef"),
        aws_cluster("us-west-2"),
        template("t", "m5.xlarge"),
    ] {
        server.put(object).unwrap();
    }
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(LIMIT, has(DEPLOYMENTS, NS, "d", "cpu", "4")).await);
    server
        .edit(TEMPLATES, NS, "t", |object| object["spec"]["template"]["spec"]["instanceType"] = json!("m6g.4xlarge"))
        .unwrap();
    assert!(server.wait_until(SOON, has(DEPLOYMENTS, NS, "d", "cpu", "16")).await);
    assert_eq!((cloud.lists("us-west-2"), cloud.calls()), (1, 1));
}

/// The groups that lack credentials, by what they lack and why.
fn lacking(metrics: &Metrics) -> Vec<String> {
    let start = "berth_room_credentials_lacking{room=\"capacity\",";
    metrics.encode().lines().filter_map(|line| line.strip_prefix(start)).map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn groups_without_credentials_are_counted_by_what_they_lack_until_they_have_them() {
    let (server, cloud) = world();
    assert!(server.delete("secrets", OPENSHIFT, "aws"));
    let named = |name: &str, secret: Value| {
        let mut set = openshift_set(name, "m5.xlarge");
        set["spec"]["template"]["spec"]["providerSpec"]["value"]["credentialsSecret"] = secret;
        set
    };
    let mut network = aws_cluster("us-west-2");
    network["spec"]["identityRef"] = json!({"kind": "AWSClusterControllerIdentity", "name": "default"});
    for object in [
        named("gone", json!({"name": "aws"})),
        named("none", Value::Null),
        template("t", "m5.xlarge"),
        cluster(("AWSCluster", "c"), None),
        network,
        group("MachineDeployment", "d", "t"),
    ] {
        server.put(object).unwrap();
    }
    let config = Config { cluster_identity: true, ..config() };
    let (_process, metrics) = observed(&server, config, cloud, Scope::All);
    let told = |s: &Server| ["gone", "none", "d"].iter().all(|name| !events(s, name).is_empty());
    assert!(server.wait_until(LIMIT, told).await);
    assert_eq!(
        lacking(&metrics),
        [
            r#"kind="identity",reason="missing"} 1"#,
            r#"kind="process",reason="unusable"} 1"#,
            r#"kind="secret",reason="missing"} 1"#,
        ]
    );
    server.put(secret("aws", "AKID", "one")).unwrap();
    server
        .edit(OPENSHIFT_SETS, OPENSHIFT, "none", |object| {
            object["spec"]["template"]["spec"]["providerSpec"]["value"]["credentialsSecret"] = json!({"name": "aws"});
        })
        .unwrap();
    let spec = json!({"allowedNamespaces": {}});
    server.put(identity("AWSClusterControllerIdentity", "default", &spec)).unwrap();
    for set in ["gone", "none"] {
        assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, set, "vCPU", "4")).await, "{set}");
    }
    assert!(server.wait_until(LIMIT, has(DEPLOYMENTS, NS, "d", "cpu", "4")).await);
    idle().await;
    assert_eq!(lacking(&metrics), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn while_many_groups_are_annotated_nobody_waits_for_an_event() {
    let (server, cloud) = world();
    for number in 0..15 {
        server.put(openshift_set(&format!("s-{number}"), "m5.xlarge")).unwrap();
    }
    server.put(openshift_set("typo", "m5.xlrage")).unwrap();
    let slow = Duration::from_secs(3);
    server.inject(Rule::any().method("PATCH").path_contains("machinesets").always(), Action::Delay(slow));
    // One worker more than there are writes.
    let options = Options { workers: 16, ..Options::default() };
    let (_process, _) = with_workers(&server, config(), cloud.clone(), options);
    tokio::time::sleep(slow * 2 / 3).await;
    assert_eq!((cloud.looks("us-east-1"), events(&server, "typo")), (1, vec![]), "it is known and not told yet");
    assert!(server.wait_until(slow, has(OPENSHIFT_SETS, OPENSHIFT, "s-14", "vCPU", "4")).await);
    assert!(server.wait_until(SOON, |s| events(s, "typo").len() == 1).await);
}
