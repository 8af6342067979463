use clap::Parser as _;
use serde_json::{Value, json};
use sim::dock::objects::merged;
use sim::server::{Kind, Server};

use super::*;
use crate::Usage;
use crate::screen::tests::{at_widths, document};

mod groups;
mod limits;
mod machines;

const NOW: &str = "2026-01-02T03:04:05Z";

fn files(text: &str) -> Files {
    Files::read(&[("x.yaml".to_owned(), text.to_owned())], NOW.parse().unwrap()).unwrap()
}

/// These objects as one file.
fn file(objects: &[Value]) -> Files {
    files(&objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n"))
}

fn options(flags: &[&str]) -> PlanOptions {
    let args = [&["berth", "plan", "--live", "-f", "x.yaml"], flags].concat();
    let crate::cli::Command::Plan(options) = crate::cli::Cli::parse_from(args).command else {
        panic!("another command")
    };
    options
}

fn server() -> Server {
    let server = Server::new(7);
    for (group, version, kind, plural) in [
        ("metal3.io", "v1alpha1", "HostClaim", "hostclaims"),
        ("metal3.io", "v1alpha1", "BareMetalHost", "baremetalhosts"),
        ("metal3.io", "v1alpha1", "HostDeployPolicy", "hostdeploypolicies"),
        ("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"),
        ("cluster.x-k8s.io", "v1beta2", "Machine", "machines"),
        ("cluster.x-k8s.io", "v1beta2", "MachineDeployment", "machinedeployments"),
        ("cluster.x-k8s.io", "v1beta2", "MachineSet", "machinesets"),
        ("machine.openshift.io", "v1beta1", "MachineSet", "machinesets"),
        ("infrastructure.cluster.x-k8s.io", "v1beta2", "AWSMachine", "awsmachines"),
        ("infrastructure.cluster.x-k8s.io", "v1beta2", "AWSMachineTemplate", "awsmachinetemplates"),
        ("infrastructure.cluster.x-k8s.io", "v1beta2", "AWSCluster", "awsclusters"),
        ("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3Machine", "metal3machines"),
    ] {
        server.register(Kind::namespaced(group, version, kind, plural));
    }
    for (group, version, kind, plural) in [
        ("ipam.cluster.x-k8s.io", "v1alpha2", "GlobalInClusterIPPool", "globalinclusterippools"),
        ("berth.dev", "v1alpha1", "HostClaimQuota", "hostclaimquotas"),
    ] {
        server.register(Kind::cluster(group, version, kind, plural));
    }
    for namespace in ["team-a", "metal", "berth-system"] {
        server.namespace(namespace);
    }
    server
}

fn put(server: &Server, objects: impl IntoIterator<Item = Value>) {
    for object in objects {
        server.put(object).unwrap();
    }
}

fn host(name: &str, size: &str) -> Value {
    let plain = sim::metal::seed::host("metal", name, &json!({"size": size}));
    let status =
        json!({"status": {"provisioning": {"state": "available"}, "operationalStatus": "OK", "poweredOn": false}});
    merged(plain, &status)
}

fn policy() -> Value {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
        "metadata": {"namespace": "metal", "name": "teams"}, "spec": {"hostClaimNamespaces": {"names": ["team-a"]}}})
}

fn claim(name: &str) -> Value {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": {"namespace": "team-a", "name": name},
        "spec": {"kind": "baremetal", "poweredOn": false, "hostSelector": {"matchLabels": {"size": "large"}}}})
}

/// What is told of files; nothing is written for it.
async fn told(server: &Server, files: &mut Files, flags: &[&str]) -> Vec<Explanation> {
    let options = options(flags);
    let before = server.log().len();
    let told = Box::pin(ahead(&server.kube(), files, &options.ahead, NOW.parse().unwrap())).await.unwrap();
    let since: Vec<_> = server.log().into_iter().skip(before).collect();
    assert!(!since.is_empty() && since.iter().all(|entry| entry.method == "GET"), "nothing is written");
    told
}

/// What people and programs read of it.
fn shown(told: &[Explanation], files: &Files) -> String {
    let passed_over = files.passed_over();
    let text = at_widths(|screen| whole_screen(screen, told, &[], &passed_over));
    format!("{text}{}", document("ExplanationList", &Told { items: told, passed_over: &passed_over }))
}

#[tokio::test]
async fn a_claim_of_a_file_is_told_which_host_it_would_get_and_nothing_is_written() {
    let server = server();
    put(&server, [host("one", "small"), host("two", "large"), policy()]);
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/examples/claims/reserve.yaml");
    let mut files = files(&std::fs::read_to_string(file).unwrap());
    let told = told(&server, &mut files, &[]).await;
    let text = serde_json::to_string(&told).unwrap();
    assert!(told.len() == 1 && text.contains("bind metal/two") && !text.contains("bind metal/one"), "{text}");
    insta::assert_snapshot!(shown(&told, &files));
}

#[tokio::test]
async fn a_cluster_of_a_file_is_told_which_pool_it_would_be_served_from() {
    let server = server();
    server.put(sim::dock::objects::pool("vips", "quick", "10.40.0.1-10.40.0.9")).unwrap();
    let mut files = file(&[sim::dock::objects::cluster("team-a", "prod", "quick")]);
    let told = told(&server, &mut files, &[]).await;
    let text = serde_json::to_string(&told).unwrap();
    assert!(told.len() == 1 && text.contains("\"vips\"") && text.contains("\"rank\":1"), "{text}");
    insta::assert_snapshot!(shown(&told, &files));
}

#[tokio::test]
async fn what_is_there_keeps_what_a_file_does_not_say() {
    let server = server();
    put(&server, [host("two", "large"), policy()]);
    let there = merged(claim("web"), &json!({"metadata": {"uid": "u-1"}}));
    let held = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "namespace": "team-a", "name": "web"});
    server.put(there).unwrap();
    server.put(merged(host("three", "large"), &json!({"spec": {"consumerRef": held}}))).unwrap();
    let told = told(&server, &mut file(&[claim("web")]), &[]).await;
    let text = serde_json::to_string(&told).unwrap();
    assert!(text.contains("the claim has the host metal/three") && !text.contains("bind metal/two"), "{text}");
}

#[tokio::test]
async fn what_only_the_server_writes_is_not_taken_from_a_file() {
    let server = server();
    put(&server, [host("two", "large"), policy()]);
    // Saved from another server, where it had a host.
    let saved = json!({
        "metadata": {"uid": "elsewhere", "resourceVersion": "77", "generation": 9,
            "creationTimestamp": "2020-01-01T00:00:00Z", "deletionTimestamp": "2020-01-02T00:00:00Z"},
        "status": {"bareMetalHost": {"namespace": "metal", "name": "nine"}}});
    let mut files = file(&[merged(claim("web"), &saved)]);
    let new = told(&server, &mut files, &[]).await;
    let text = serde_json::to_string(&new).unwrap();
    assert!(text.contains("bind metal/two") && !text.contains("nine"), "{text}");
    let key = ObjectKey::namespaced("team-a", "web");
    let stored = |files: &Files| files.stored("metal3.io", "HostClaim", &key).unwrap().clone();
    assert_eq!(stored(&files)["metadata"]["creationTimestamp"], NOW);
    assert_eq!((stored(&files).get("status"), stored(&files)["metadata"].get("deletionTimestamp")), (None, None));

    // What generators leave in files takes nothing from what is there.
    let there = server.put(claim("web")).unwrap();
    let mut blank = claim("web");
    (blank["metadata"]["creationTimestamp"], blank["status"]) = (Value::Null, json!({}));
    blank["spec"]["hostSelector"] = Value::Null;
    let mut files = file(&[blank]);
    told(&server, &mut files, &[]).await;
    for field in ["uid", "creationTimestamp"] {
        assert_eq!(stored(&files)["metadata"][field], there["metadata"][field], "{field}");
    }
    assert_eq!(stored(&files)["spec"].get("hostSelector"), None, "what is said to be null goes");
}

#[tokio::test]
async fn a_version_that_is_not_served_is_told_and_a_name_that_is_none_is_refused() {
    let server = server();
    put(&server, [host("two", "large"), policy()]);
    let newer = merged(claim("web"), &json!({"apiVersion": "metal3.io/v9"}));
    let told = told(&server, &mut file(&[newer]), &[]).await;
    let unknown = "the server does not know HostClaim (metal3.io/v9), so nothing can be applied of it yet";
    assert!(told[0].unseen.iter().any(|why| why == unknown), "{told:?}");
    let options = options(&[]);
    let refused = async |object: Value| {
        let mut files = file(&[object]);
        let error =
            Box::pin(ahead(&server.kube(), &mut files, &options.ahead, NOW.parse().unwrap())).await.unwrap_err();
        assert!(error.is::<Usage>(), "{error:#}");
        error.to_string()
    };
    for name in ["", "../secrets/keys", "No_Name"] {
        let said = refused(claim(name)).await;
        assert!(said.starts_with("HostClaim of the files: metadata.name: "), "{said}");
    }
    let said = refused(merged(claim("web"), &json!({"metadata": {"namespace": "a/b"}}))).await;
    assert!(said.starts_with("HostClaim of the files: metadata.namespace: "), "{said}");
}

#[tokio::test]
async fn clusters_on_cloudstack_and_what_others_write_are_told_together() {
    use ::clusters::admit::Terms;
    use ::clusters::render::Settings;
    let server = server();
    put(&server, [host("two", "large"), policy()]);
    let mut files = file(&[claim("web"), json!({"apiVersion": "v1", "kind": "Secret"})]);
    let told = told(&server, &mut files, &[]).await;
    let documents = plan::tests::files("1.31", "large", 2, "172.16.0.5");
    let plans = ::clusters::plan::plan(&documents, None, &Terms::default(), &Settings::default());
    let passed_over = files.passed_over();
    insta::assert_snapshot!(at_widths(|screen| whole_screen(screen, &told, &plans, &passed_over)));
    let all = Plans { items: &plans, explanations: &told, passed_over: &passed_over };
    insta::assert_snapshot!("all_of_the_same_files_for_programs", document("PlanList", &all));
    assert!(!is_refused(&told, &plans));
    let faults = ::clusters::plan::plan(
        &plan::tests::files("1.31", "large", 2, "172.16.0.6:0"),
        None,
        &Terms::default(),
        &Settings::default(),
    );
    assert!(is_refused(&told, &faults), "{faults:?}");
}

#[test]
fn other_objects_are_passed_over_by_kind_and_a_file_that_is_none_is_named() {
    let text =
        "apiVersion: v1\nkind: Secret\n---\napiVersion: v1\nkind: Secret\n---\n---\napiVersion: v1\nkind: ConfigMap\n";
    let mut over = files(text);
    assert!(!is_told(&over) && !over.leave(api::names::clusters::GROUP));
    let counted = |kind: &str, count| PassedOver { kind: kind.to_owned(), count };
    assert_eq!(over.passed_over(), [counted("ConfigMap", 1), counted("Secret", 2)]);
    assert_eq!(
        rest_screen(Screen { width: Some(80), colour: false }, &over.passed_over()),
        "Passed over: ConfigMap, Secret (2)\n"
    );
    for kind in ["Cluster", "CloudStackMachineConfig"] {
        let mut found = files(&format!("{text}---\napiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: {kind}\n"));
        assert!(!is_told(&found) && found.leave(api::names::clusters::GROUP), "{kind}");
        assert_eq!(found.passed_over(), over.passed_over(), "{kind}");
    }
    let wrong = Files::read(&[("x.yaml".to_owned(), "a: [".to_owned())], NOW.parse().unwrap());
    assert!(wrong.is_err_and(|Usage(why)| why.starts_with("x.yaml: ")));
}

#[test]
fn whoever_forgets_to_ask_the_server_is_told_how() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "apiVersion: metal3.io/v1alpha1\nkind: HostClaim\nmetadata: {name: web}\n").unwrap();
    let cli = crate::cli::Cli::parse_from(["berth", "plan", "-f", file.path().to_str().unwrap()]);
    let crate::cli::Command::Plan(options) = cli.command else { panic!("another command") };
    let refused = plan(&options).unwrap_err().to_string();
    assert!(
        refused.contains("HostClaims, and Clusters, machines and groups of Cluster API, are planned with --live"),
        "{refused}"
    );
}
