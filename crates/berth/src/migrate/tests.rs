use clap::Parser;
use sim::server::{Action, Kind as Served, Rule, Server};

use super::*;
use crate::cli::{Cli, Command};
use crate::screen::tests::{at_widths, document};

const NAMESPACE: &str = "team-a";

fn flags(args: &[&str]) -> MigrateOptions {
    match Cli::parse_from(["berth", "migrate"].iter().chain(args)).command {
        Command::Migrate(options) => options,
        other => panic!("{other:?}"),
    }
}

fn template(name: &str, more: Value) -> Value {
    let mut inner = json!({"image": {"url": "https://i.example/os", "checksum": "https://i.example/os.sha256"}});
    if let (Some(inner), Value::Object(more)) = (inner.as_object_mut(), more) {
        inner.extend(more);
    }
    json!({"apiVersion": turn::TEMPLATE_VERSION, "kind": turn::TEMPLATE,
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": {"pool": "a"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept"}},
        "spec": {"nodeReuse": true, "template": {"spec": inner}}})
}

fn named(name: &str) -> Value {
    json!({"apiGroup": INFRASTRUCTURE, "kind": turn::TEMPLATE, "name": name})
}

fn group(name: &str, template: &str) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {"clusterName": "prod", "replicas": 3, "template": {"spec": {"infrastructureRef": named(template)}}}})
}

fn plane(template: &str) -> Value {
    json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {"namespace": NAMESPACE, "name": "prod"},
        "spec": {"replicas": 1, "machineTemplate": {"spec": {"infrastructureRef": named(template)}}}})
}

fn claims() -> Way {
    Way::Claims("baremetal".to_owned())
}

/// A server that knows everything, with a definition that lets templates name a kind or does not.
fn server(knows: bool) -> Server {
    let server = Server::new(7);
    for (group, version, kind, plural) in [
        (INFRASTRUCTURE, "v1beta2", turn::TEMPLATE, "metal3machinetemplates"),
        (INFRASTRUCTURE, "v1beta2", "Metal3Cluster", "metal3clusters"),
        (INFRASTRUCTURE, "v1beta2", "Metal3Machine", "metal3machines"),
        ("cluster.x-k8s.io", "v1beta2", "MachineDeployment", "machinedeployments"),
        ("cluster.x-k8s.io", "v1beta2", "MachineSet", "machinesets"),
        ("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane", "kubeadmcontrolplanes"),
        ("metal3.io", "v1alpha1", "HostClaim", "hostclaims"),
        ("metal3.io", "v1alpha1", "HostDeployPolicy", "hostdeploypolicies"),
        (api::names::clusters::GROUP, "v1alpha1", "Bundles", "bundles"),
    ] {
        server.register(Served::namespaced(group, version, kind, plural));
    }
    server.namespace(NAMESPACE);
    let fields = if knows { json!({"kind": {"type": "string"}}) } else { json!({}) };
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut schema = open.clone();
    schema["properties"] = json!({"spec": {"type": "object", "properties": {"template": {"type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": fields}}}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {"group": INFRASTRUCTURE, "scope": "Namespaced",
            "names": {"kind": turn::TEMPLATE, "plural": "metal3machinetemplates", "singular": "x", "listKind": "XList"},
            "versions": [{"name": "v1beta2", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    server.put(definition).unwrap();
    server
}

async fn asked(server: &Server, args: &[&str]) -> Report {
    let options = flags(args);
    Box::pin(report(&server.kube(), options.from, Some(NAMESPACE), &options.turn, options.apply)).await.unwrap()
}

fn writes(server: &Server) -> Vec<String> {
    let wrote = server.log().into_iter().filter(|entry| entry.method != "GET");
    wrote.map(|entry| format!("{} {}", entry.method, entry.path)).collect()
}

#[test]
fn a_template_is_copied_and_whatever_names_it_names_the_copy() {
    let objects =
        [template("workers", json!({})), template("lab", json!({})), group("workers", "workers"), plane("workers")];
    let turned = turn(&objects, &claims(), &[]);
    let Change::Make(copy) = &turned.changes[0] else { panic!("{turned:?}") };
    assert_eq!(
        copy["metadata"],
        json!({"namespace": NAMESPACE, "name": "workers-on-claims", "labels": {"pool": "a"}, "annotations": {"note": "kept"}})
    );
    assert_eq!(copy["spec"]["template"]["spec"]["kind"], "baremetal");
    assert_eq!(
        (&copy["spec"]["nodeReuse"], &copy["spec"]["template"]["spec"]["image"]),
        (&json!(true), &objects[0]["spec"]["template"]["spec"]["image"])
    );
    let users: Vec<String> = turned.changes[1..]
        .iter()
        .map(|change| match change {
            Change::Refer { user, from, to, .. } => format!("{} {from} {to}", title(user)),
            Change::Make(_) => panic!("{change:?}"),
        })
        .collect();
    let pair = "workers workers-on-claims";
    assert_eq!(
        users,
        [format!("MachineDeployment team-a/workers {pair}"), format!("KubeadmControlPlane team-a/prod {pair}")]
    );
    assert_eq!(turned.left, [("Metal3MachineTemplate team-a/lab".to_owned(), "nothing names it".to_owned())]);
    let named = turn(&objects, &claims(), &["lab".to_owned()]);
    assert!(named.changes.is_empty() && named.left.len() == 1, "only what is asked for: {named:?}");
}

#[test]
fn there_and_back_is_where_one_began() {
    let objects = vec![template("workers", json!({})), group("workers", "workers"), plane("workers")];
    let there = rewritten(&objects, &turn(&objects, &claims(), &[]));
    assert_eq!(there.len(), 4);
    assert!(turn(&there, &claims(), &[]).changes.is_empty(), "a second time changes nothing");
    let back = turn(&there, &Way::Hosts, &[]);
    assert!(back.stuck.is_empty() && back.changes.len() == 2, "the old template is there still: {back:?}");
    let back = rewritten(&there, &back);
    for object in &objects {
        assert!(back.contains(object), "{}", title(object));
    }
}

#[test]
fn what_cannot_be_turned_is_named_with_the_reason() {
    let mut classy = group("classy", "workers");
    classy["metadata"]["labels"] = json!({"topology.cluster.x-k8s.io/owned": ""});
    let mut made = group("made", "workers");
    made["metadata"]["ownerReferences"] = json!([{"kind": "MachineDeployment", "name": "x"}]);
    let turned = turn(&[template("workers", json!({})), classy, made], &claims(), &[]);
    assert_eq!((turned.changes.len(), turned.stuck.len()), (1, 1), "what was made follows by itself: {turned:?}");
    assert!(turned.stuck[0].1.contains("ClusterClass"));

    let other = template("workers-on-claims", json!({"kind": "fake"}));
    let turned = turn(&[template("workers", json!({})), other, group("workers", "workers")], &claims(), &[]);
    assert!(turned.changes.is_empty() && turned.stuck[0].1.contains("says something else"), "{turned:?}");

    for (more, says) in [
        (json!({"kind": "cloudstack-vm"}), "cloudstack-vm"),
        (json!({"kind": "baremetal", "args": {"a": "b"}}), "args"),
        (json!({"kind": "baremetal", "hostSelector": {"inNamespace": "metal"}}), "another namespace"),
    ] {
        let turned = turn(&[template("t", more), group("g", "t")], &Way::Hosts, &[]);
        assert!(turned.changes.is_empty() && turned.stuck[0].1.contains(says), "{turned:?}");
    }
    let mut old = template("old", json!({}));
    old["apiVersion"] = json!("infrastructure.cluster.x-k8s.io/v1beta1");
    assert!(turn(&[old, group("g", "old")], &claims(), &[]).stuck[0].1.contains("v1beta2"));
}

#[tokio::test]
async fn nothing_is_written_unless_it_is_asked_for() {
    let server = server(true);
    for object in [template("workers", json!({})), group("workers", "workers")] {
        server.put(object).unwrap();
    }
    let report = asked(&server, &["--from", "metal3-provider"]).await;
    assert_eq!(writes(&server), [""; 0]);
    let actions: Vec<(&str, &str)> = report.steps.iter().map(|step| (step.action, step.outcome.as_str())).collect();
    assert_eq!((actions, report.equal), (vec![("make", ""), ("change", "")], false));
    insta::assert_snapshot!("planned", at_widths(|screen| draw(screen, &report)));
    insta::assert_snapshot!("planned_for_programs", document("Migration", &report));
}

#[tokio::test]
async fn what_is_asked_for_is_written_once_and_found_done_afterwards() {
    let server = server(true);
    for object in [template("workers", json!({})), group("workers", "workers"), plane("workers")] {
        server.put(object).unwrap();
    }
    let report = asked(&server, &["--from", "metal3-provider", "--apply"]).await;
    assert!(report.steps.iter().all(|step| step.outcome == "done"), "{:?}", report.steps);
    assert_eq!(writes(&server).len(), 3);
    let stored = |kind: &str, name: &str| server.get(kind, NAMESPACE, name).unwrap();
    let copy = stored("metal3machinetemplates.infrastructure.cluster.x-k8s.io", "workers-on-claims");
    assert_eq!(copy["spec"]["template"]["spec"]["kind"], "baremetal");
    let group = stored("machinedeployments.cluster.x-k8s.io", "workers");
    assert_eq!(group["spec"]["template"]["spec"]["infrastructureRef"], named("workers-on-claims"));
    assert_eq!(group["spec"]["replicas"], 3, "nothing else is touched");

    let again = asked(&server, &["--from", "metal3-provider", "--apply"]).await;
    assert!(again.equal && again.summary.contains("nothing needs converting"), "{}", again.summary);
    assert_eq!(writes(&server).len(), 3);
    let back = asked(&server, &["--from", "metal3-provider", "--back", "--apply"]).await;
    assert!(back.steps.iter().all(|step| step.outcome == "done"), "{:?}", back.steps);
    assert_eq!(
        stored("machinedeployments.cluster.x-k8s.io", "workers")["spec"]["template"]["spec"]["infrastructureRef"],
        named("workers")
    );
}

#[tokio::test]
async fn whoever_changes_a_group_meanwhile_is_not_overruled() {
    let server = server(true);
    for object in [template("workers", json!({})), group("workers", "workers")] {
        server.put(object).unwrap();
    }
    let client = server.kube();
    let (found, _) = templates(&client, Some(NAMESPACE)).await.unwrap();
    let turned = turn(&found, &claims(), &[]);
    let kind = "machinedeployments.cluster.x-k8s.io";
    server
        .edit(kind, NAMESPACE, "workers", |group| {
            group["spec"]["template"]["spec"]["infrastructureRef"] = named("other")
        })
        .unwrap();
    let steps = Box::pin(carried(&client, turned, true)).await;
    assert_eq!((steps[0].outcome.as_str(), steps[1].outcome.starts_with("failed")), ("done", true), "{steps:?}");
    let stored = server.get(kind, NAMESPACE, "workers").unwrap();
    assert_eq!(stored["spec"]["template"]["spec"]["infrastructureRef"], named("other"));
}

#[tokio::test]
async fn a_definition_that_would_drop_the_kind_is_noticed_before_anything_is_written() {
    let server = server(false);
    for object in [template("workers", json!({})), group("workers", "workers")] {
        server.put(object).unwrap();
    }
    let report = asked(&server, &["--from", "metal3-provider", "--apply"]).await;
    assert!(report.checks.iter().any(|check| check.found.contains("cannot name a kind")), "{:?}", report.checks);
    assert!(writes(&server).is_empty() && report.steps.iter().all(|step| step.outcome.is_empty()));
}

#[tokio::test]
async fn where_kinds_are_equal_that_is_said_after_looking() {
    let server = server(true);
    server
        .put(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
            "metadata": {"namespace": NAMESPACE, "name": "web-1"}, "spec": {"poweredOn": true}}))
        .unwrap();
    let report = asked(&server, &["--from", "bare-metal-operator", "--apply"]).await;
    assert!(report.equal && report.steps.is_empty() && writes(&server).is_empty());
    assert!(
        report.summary.starts_with("1 HostClaim, 0 HostDeployPolicies found; nothing needs converting"),
        "{}",
        report.summary
    );
    insta::assert_snapshot!("equal", at_widths(|screen| draw(screen, &report)));
    let missing = asked(&server, &["--from", "aws-provider"]).await;
    assert!(missing.summary.starts_with("nothing found"), "{}", missing.summary);
    assert!(
        missing.checks.iter().any(|check| check.found.contains("does not know AWSMachine")),
        "{:?}",
        missing.checks
    );
}

#[tokio::test]
async fn what_may_not_be_seen_is_a_failure_and_not_taken_for_nothing() {
    let server = server(true);
    server.inject(Rule::any().method("GET").path_contains("/hostclaims").always(), Action::Status(403));
    let report = asked(&server, &["--from", "bare-metal-operator"]).await;
    assert!(report.checks.iter().any(|check| check.level == Level::Failure), "{:?}", report.checks);
}

#[tokio::test]
async fn bundles_that_would_have_to_be_downloaded_are_named() {
    let server = server(true);
    let bundles = |name: &str, version: Value| {
        json!({"apiVersion": format!("{}/v1alpha1", api::names::clusters::GROUP),
        "kind": "Bundles", "metadata": {"namespace": NAMESPACE, "name": name}, "spec": {"versionsBundles": [version]}})
    };
    let whole =
        json!({"kubeVersion": "1.31", "kubeDistro": {}, "cilium": {"manifestConfigMapRef": {"name": "cilium"}}});
    server.put(bundles("whole", whole)).unwrap();
    let report = asked(&server, &["--from", "eks-anywhere"]).await;
    assert!(
        report.checks.iter().any(|check| check.found.contains("1 Bundle with everything inline")),
        "{:?}",
        report.checks
    );
    server.put(bundles("lean", json!({"kubeVersion": "1.31"}))).unwrap();
    let report = asked(&server, &["--from", "eks-anywhere"]).await;
    let failed = report.checks.iter().find(|check| check.level == Level::Failure);
    assert!(failed.is_some_and(|check| check.found.starts_with("team-a/lean ")), "{:?}", report.checks);
}

#[tokio::test]
async fn a_secret_that_is_not_there_keeps_nobody_from_taking_the_place_of_another() {
    let server = server(true);
    for (kind, plural) in [("Cluster", "clusters"), ("CloudStackDatacenterConfig", "cloudstackdatacenterconfigs")] {
        server.register(Served::namespaced(api::names::clusters::GROUP, "v1alpha1", kind, plural));
    }
    let zone = json!({"name": "az-1", "credentialsRef": "global", "managementApiEndpoint": "http://x",
        "zone": {"name": "zone-1", "network": {"name": "net"}}});
    server
        .put(json!({"apiVersion": format!("{}/v1alpha1", api::names::clusters::GROUP),
            "kind": "CloudStackDatacenterConfig", "metadata": {"namespace": NAMESPACE, "name": "acs"},
            "spec": {"availabilityZones": [zone]}}))
        .unwrap();
    let report = asked(&server, &["--from", "eks-anywhere"]).await;
    assert!(report.checks.iter().any(|check| check.name == "datacenters"), "{:?}", report.checks);
    let about_secrets = report.checks.iter().any(|check| check.name.contains("secrets"));
    assert!(!about_secrets, "the doctor tells: {:?}", report.checks);
}

#[test]
fn every_peer_has_a_page_in_the_book() {
    for peer in Peer::value_variants() {
        let card = peer.card();
        let (page, anchor) = card.page.split_once('#').unwrap_or((card.page, ""));
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src").join(page);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
        let slugs =
            text.lines().filter_map(|line| line.strip_prefix("## ")).map(|line| line.to_lowercase().replace(' ', "-"));
        assert!(anchor.is_empty() || slugs.into_iter().any(|slug| slug == anchor), "{}", card.page);
    }
}
