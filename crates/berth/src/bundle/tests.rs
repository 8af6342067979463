use std::collections::BTreeMap;
use std::io;

use kube::Client;
use serde_json::{Value, json};
use sim::server::{Action, Kind, Rule, Server};

use super::index::{Count, LeftOut, Removed};
use super::sink::Sink;
use super::*;
use crate::pods;
use crate::screen::tests::at_widths;

const CANARY: &str = "c4n4ry-Hunter2";

/// A bundle in memory.
#[derive(Default)]
struct Files(BTreeMap<String, Vec<u8>>);

impl Sink for Files {
    fn put(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        assert!(self.0.insert(path.to_owned(), content.to_vec()).is_none(), "{path} is written twice");
        Ok(())
    }
}

impl Files {
    fn text(&self, path: &str) -> String {
        let content = self.0.get(path).unwrap_or_else(|| panic!("no {path} in {:?}", self.0.keys()));
        String::from_utf8(content.clone()).unwrap()
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.text(path)).unwrap()
    }
}

async fn gathered(client: &Client, namespaces: &[String]) -> (Files, Manifest) {
    let mut files = Files::default();
    let manifest = Manifest { operator_namespace: "berth-system".to_owned(), ..Manifest::default() };
    let mut gather = Gather::new(client, &mut files, namespaces, Progress::silent(), manifest);
    Box::pin(gather.all()).await.unwrap();
    let manifest = gather.manifest;
    (files, manifest)
}

/// A cluster with one of everything that matters, and a secret in each.
fn world() -> Server {
    let server = Server::new(1);
    server.register(Kind::namespaced("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"));
    server.register(Kind::namespaced("metal3.io", "v1alpha1", "HostClaim", "hostclaims"));
    server.register(Kind::namespaced("", "v1", "Pod", "pods"));
    for namespace in ["team-a", "team-b", "berth-system"] {
        server.namespace(namespace);
    }
    let put = |object: Value| server.put(object).unwrap();
    for (namespace, name) in [("team-a", "prod"), ("team-b", "test")] {
        put(
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"namespace": namespace, "name": name},
            "spec": {"topology": {"variables": [{"name": "adminPassword", "value": CANARY}]}}}),
        );
    }
    put(
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": {"namespace": "team-a", "name": "web-1"},
        "spec": {"userData": {"name": "web-1", "namespace": "team-a"}}}),
    );
    put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "team-a", "name": "web-1"},
        "data": {"value": CANARY}}));
    put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "berth-system", "name": "settings"},
        "data": {"a.yaml": format!("x: 1\npassword: {CANARY}\n")}}));
    put(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "team-a", "name": "theirs"}, "data": {"a": "b"}}),
    );
    put(
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"namespace": "berth-system", "name": "berth"},
        "spec": {"holderIdentity": "berth-a"}}),
    );
    put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "berth-system", "name": "berth-a",
        "labels": {"app.kubernetes.io/name": "berth"}},
        "spec": {"containers": [{"name": "berth", "image": "berth", "env": [{"name": "A", "value": CANARY}]}]}}));
    for (name, about, group) in [("e1", "Cluster", "cluster.x-k8s.io/v1beta2"), ("e2", "Deployment", "apps/v1")] {
        put(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "team-a", "name": name},
            "involvedObject": {"apiVersion": group, "kind": about, "namespace": "team-a", "name": "prod"},
            "message": format!("called https://u:{CANARY}@host/")}));
    }
    server
}

#[tokio::test]
async fn everything_is_gathered_and_no_secret_with_it() {
    let server = world();
    let (files, manifest) = gathered(&server.kube(), &[]).await;
    for (path, content) in &files.0 {
        assert!(!String::from_utf8_lossy(content).contains(CANARY), "{path}");
    }
    let asked: Vec<String> = server.log().iter().map(|entry| format!("{entry:?}")).collect();
    assert!(!asked.iter().any(|line| line.contains("/secrets")), "Secrets are never asked for");
    let cluster = files.json("objects/clusters.cluster.x-k8s.io/team-a/prod.json");
    assert_eq!((cluster["kind"].as_str(), cluster["metadata"]["managedFields"].is_null()), (Some("Cluster"), true));
    let claim = files.json("objects/hostclaims.metal3.io/team-a/web-1.json");
    assert_eq!(claim["spec"]["userData"]["name"], "web-1");
    for path in [
        "objects/namespaces/team-b.json",
        "objects/configmaps/berth-system/settings.json",
        "objects/leases.coordination.k8s.io/berth-system/berth.json",
        "objects/pods/berth-system/berth-a.json",
        "versions.json",
        "definitions.json",
        "README.txt",
        "manifest.json",
        "removed.txt",
        "removed.json",
    ] {
        assert!(!files.text(path).is_empty(), "{path}");
    }
    assert!(!files.0.contains_key("objects/configmaps/team-a/theirs.json"), "ConfigMaps of others are not Berth's");
    let events = files.json("events/team-a.json");
    assert_eq!(events["items"].as_array().map(Vec::len), Some(1), "{events}");
    assert_eq!((manifest.events, manifest.pods, manifest.server.as_deref()), (1, 1, Some("v1.36.3")));
    let removed = files.text("removed.txt");
    for line in [
        "objects/clusters.cluster.x-k8s.io/team-a/prod.json: spec.topology.variables[0].value: ",
        "objects/pods/berth-system/berth-a.json: spec.containers[0].env[0].value: ",
        "objects/configmaps/berth-system/settings.json: data[\"a.yaml\"] line 2: ",
        "events/team-a.json: items[0].message: ",
    ] {
        assert!(removed.contains(line), "{line}\n{removed}");
    }
    assert_eq!(files.json("removed.json")["items"].as_array().map(Vec::len), Some(manifest.removed));
    let left_out = |what: &str| manifest.left_out.iter().any(|missing| missing.what.contains(what));
    assert!(
        left_out("awsmachines.") && left_out("operator/berth-a/berth.log") && left_out("operator/berth-a/metrics.txt"),
        "{:?}",
        manifest.left_out
    );
}

#[tokio::test]
async fn one_namespace_can_be_asked_for() {
    let (files, _) = gathered(&world().kube(), &["team-b".to_owned()]).await;
    let clusters: Vec<&String> = files.0.keys().filter(|path| path.starts_with("objects/clusters.")).collect();
    assert_eq!(clusters, ["objects/clusters.cluster.x-k8s.io/team-b/test.json"]);
    assert!(files.0.contains_key("objects/leases.coordination.k8s.io/berth-system/berth.json"));
}

#[tokio::test]
async fn what_may_not_be_read_is_left_out_with_the_reason() {
    let server = world();
    server.inject(Rule::any().path_contains("/clusters").always(), Action::Status(403));
    server.inject(Rule::any().path_contains("/hostclaims").always(), Action::Status(500));
    server.inject(Rule::any().path_contains("/pods").always(), Action::Status(403));
    let (files, manifest) = gathered(&server.kube(), &[]).await;
    let why =
        |what: &str| manifest.left_out.iter().find(|missing| missing.what == what).map(|missing| missing.why.as_str());
    assert_eq!(why("clusters.cluster.x-k8s.io"), Some("you may not list it"));
    assert!(why("hostclaims.metal3.io").is_some_and(|why| why.contains("500") || !why.is_empty()));
    assert_eq!(why("pods in the namespace berth-system"), Some("you may not list it"));
    assert!(files.text("README.txt").contains("clusters.cluster.x-k8s.io: you may not list it"));
}

#[tokio::test]
async fn equal_clusters_give_equal_bundles() {
    let server = world();
    let (first, second) = (gathered(&server.kube(), &[]).await.0, gathered(&server.kube(), &[]).await.0);
    assert_eq!(first.0, second.0);
}

/// The parts of an API server that pods are asked through.
fn pods_router() -> axum::Router {
    let log = || async { format!("one\ntoken={CANARY}\n") };
    let root = "/api/v1/namespaces/berth-system/pods/berth-a";
    axum::Router::new()
        .route(&format!("{root}/log"), axum::routing::get(log))
        .route(&format!("{root}:8080/proxy/metrics"), axum::routing::get(|| async { "a 1\n" }))
        .route(
            &format!("{root}:9440/proxy/readyz"),
            axum::routing::get(|| async { (http::StatusCode::SERVICE_UNAVAILABLE, "[-]certs\nnot ready\n") }),
        )
}

#[tokio::test]
async fn pods_are_asked_through_the_server() {
    crate::top::tests::serving(pods_router(), async |url: String| {
        let mut config = kube::Config::new(url.parse().unwrap());
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let mut files = Files::default();
        let mut gather = Gather::new(&client, &mut files, &[], Progress::silent(), Manifest::default());
        let pod = json!({"metadata": {"name": "berth-a"}, "spec": {"containers": [{"name": "berth"}]}});
        let pod: kube::api::DynamicObject = serde_json::from_value(pod).unwrap();
        gather.pod("berth-system", &pods::OperatorPod::of(&pod)).await.unwrap();
        assert_eq!((gather.manifest.logs, gather.manifest.left_out.len()), (1, 0), "{:?}", gather.manifest);
        assert_eq!(gather.removed.len(), 1);
        assert_eq!(files.text("operator/berth-a/berth.log"), "one\ntoken=(removed)\n");
        assert_eq!(files.text("operator/berth-a/metrics.txt"), "a 1\n");
        assert_eq!(files.text("operator/berth-a/readyz.txt"), "[-]certs\nnot ready\n");
    })
    .await;
}

fn manifest() -> Manifest {
    let count = |resource: &str, version: &str, objects| Count {
        resource: resource.to_owned(),
        version: version.to_owned(),
        served: vec![version.to_owned()],
        objects,
    };
    let left = |what: &str, why: &str| LeftOut { what: what.to_owned(), why: why.to_owned() };
    Manifest {
        made: "2026-01-02T12:00:00Z".to_owned(),
        berth: "0.1.0".to_owned(),
        server: Some("v1.36.3".to_owned()),
        operator_namespace: "berth-system".to_owned(),
        kinds: vec![
            count("clusters.cluster.x-k8s.io", "v1beta2", 12),
            count("hostclaims.metal3.io", "v1alpha1", 1),
            count("metal3machines.infrastructure.cluster.x-k8s.io", "v1beta1", 0),
        ],
        events: 40,
        pods: 2,
        logs: 3,
        left_out: vec![
            left("awsmachines.infrastructure.cluster.x-k8s.io", UNKNOWN),
            left("baremetalhosts.metal3.io", "you may not list it; only those in the namespace team-a were read"),
            left(
                "operator/berth-a/metrics.txt",
                "pods \"berth-a\" is forbidden: you cannot get resource \"pods/proxy\"",
            ),
        ],
        removed: 17,
    }
}

#[test]
fn what_is_said_when_the_bundle_is_there() {
    let place = "berth-bundle-20260102T120000Z.tar.gz";
    insta::assert_snapshot!(at_widths(|screen| index::summary(screen, place, &manifest())));
    let nothing = index::summary(Screen { width: None, colour: false }, place, &Manifest::default());
    assert!(nothing.starts_with("0 objects, 0 events, 0 pods, 0 logs\nremoved: nothing"), "{nothing}");
}

#[test]
fn the_index_of_a_bundle() {
    insta::assert_snapshot!(index::readme(&manifest()));
    insta::assert_snapshot!("manifest_for_programs", serde_json::to_string_pretty(&manifest()).unwrap());
}

#[test]
fn what_was_removed_is_told_place_by_place() {
    let cuts: Vec<text::Cut> = (1..=23).map(|line| text::Cut { line, what: "a signed token".to_owned() }).collect();
    let told = index::of_text("operator/a/b.log", &cuts);
    assert_eq!(told.len(), 1);
    assert!(told[0].path.starts_with("lines 1, 2, 3") && told[0].path.ends_with("20 and 3 more"), "{told:?}");
    let gone = Removed { file: "a.json".to_owned(), path: "spec.x".to_owned(), why: "because".to_owned() };
    assert_eq!(index::removed_text(&[gone]), "a.json: spec.x: because\n");
    assert_eq!(index::removed_text(&[]), "nothing was removed but managed fields\n");
}

#[test]
fn the_default_name_sorts_by_time() {
    assert_eq!(default_path("2026-01-02T12:00:00.123Z").to_str(), Some("berth-bundle-20260102T120000Z.tar.gz"));
    assert_eq!(default_path("2026-01-02T12:00:00Z").to_str(), Some("berth-bundle-20260102T120000Z.tar.gz"));
}

#[test]
fn a_name_that_is_taken_is_a_mistake_of_the_caller() {
    let dir = tempfile::tempdir().unwrap();
    let error = open(dir.path(), 0).err().unwrap();
    assert!(error.is::<Usage>() && error.to_string().contains("--output"), "{error}");
}
