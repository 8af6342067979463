//! Feeds, kinds and writes against the in-memory API server, on paused time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::key::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::class::{Class, Classify};
use kit::clock::Clock;
use kit::feed::{Feed, Phase, Project, Scope, Seen, Version};
use kit::gates::Gates;
use kit::kinds::{self, Kinds};
use kit::manager::{self, Manager, Options};
use kit::telemetry::Metrics;
use kit::write::{Created, Target, Writer};
use serde::Deserialize;
use serde_json::{Value, json};
use sim::server::{Action, Handle, Kind, Rule, Server};
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(600);
const WIDGETS: &str = "widgets.example.test";

#[derive(Clone, Debug, Deserialize)]
struct Widget {
    #[serde(default, deserialize_with = "api::meta::lean_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
}

api::view! { Widget, group: "example.test", versions: ["v1", "v1beta1"], plural: "widgets", scope: Namespaced }

struct Sizes;

impl Project for Sizes {
    type Source = Widget;
    type Slim = i64;
    const INDEXES: &'static [&'static str] = &["size"];
    fn slim(widget: Widget) -> i64 {
        widget.spec["size"].as_i64().unwrap_or_default()
    }
    fn keys(_: usize, _: &ObjectKey, size: &i64) -> Vec<Box<str>> {
        vec![size.to_string().into()]
    }
}

/// Another projection of the same kind.
struct Labels;

impl Project for Labels {
    type Source = Widget;
    type Slim = BTreeMap<String, String>;
    fn slim(widget: Widget) -> Self::Slim {
        widget.metadata.labels.unwrap_or_default()
    }
}

fn widget(name: &str, size: i64) -> Value {
    json!({"apiVersion": "example.test/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"size": size}})
}

#[test]
fn a_feed_of_a_list_shows_just_that_list() {
    let older = kinds::Kind { version: "v1beta1".to_owned(), ..kinds::Kind::of::<Widget>() };
    let objects = [widget("a", 1), widget("b", 2)].map(|object| serde_json::from_value(object).unwrap());
    let feed: Feed<Sizes> = Feed::of(Clock::system(), older.clone(), objects);
    assert_eq!((feed.phase(), feed.kind(), feed.len()), (Phase::Synced, older, 2));
    assert_eq!(feed.get(&ObjectKey::namespaced("default", "b")), Seen::At(Arc::new(2)));
    assert_eq!(feed.get(&ObjectKey::namespaced("default", "c")), Seen::Absent);
    assert_eq!(feed.by("size", "1").len(), 1);
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": WIDGETS},
        "spec": {"group": "example.test", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

/// Feeds of widgets under a running manager, and everything the first has announced.
struct World {
    server: Server,
    feed: Feed<Sizes>,
    labels: Feed<Labels>,
    /// What `labels` has announced, with the number of objects in `feed` at that moment.
    labelled: Arc<Mutex<Vec<String>>>,
    heard: Arc<Mutex<Vec<String>>>,
    gates: Gates,
    tasks: JoinSet<()>,
    manager: Arc<Manager>,
    kit: Handle,
}

impl World {
    fn start(server: Server, scope: Scope) -> Self {
        Self::with(server, Options { scope, ..Options::default() })
    }

    fn with(server: Server, options: Options) -> Self {
        let gates = Gates::new();
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 1);
        let kit = server.client("kit");
        let manager = Manager::new(kit.kube(), clock, gates.clone(), Metrics::new(), options);
        let feed = manager.feed::<Sizes>().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hear = Arc::clone(&heard);
        feed.observe(move |delta| {
            let show = |size: &Option<Arc<i64>>| size.as_ref().map_or("-".to_owned(), |s| s.to_string());
            hear.lock().unwrap().push(format!("{} {}>{}", delta.key.name(), show(&delta.old), show(&delta.new)));
        });
        let labels = manager.feed::<Labels>().unwrap();
        let labelled = Arc::new(Mutex::new(Vec::new()));
        let (hear, sizes) = (Arc::clone(&labelled), feed.clone());
        labels.observe(move |delta| {
            let sign = if delta.new.is_some() { '+' } else { '-' };
            hear.lock().unwrap().push(format!("{sign}{} of {}", delta.key.name(), sizes.len()));
        });
        let mut tasks = JoinSet::new();
        let run = Arc::clone(&manager);
        tasks.spawn(async move { run.run().await.unwrap() });
        Self { server, feed, labels, labelled, heard, gates, tasks, manager, kit }
    }

    /// How many lists and watches of widgets have been asked for.
    fn asked(&self) -> (usize, usize) {
        let log = self.server.log();
        let of = |watch| {
            let list = |e: &&sim::server::Entry| e.resource == WIDGETS && e.query.contains("watch=true") == watch;
            log.iter().filter(list).count()
        };
        (of(false), of(true))
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let waited = tokio::time::timeout(LIMIT, async {
            while !done(self) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        assert!(waited.await.is_ok(), "never happened: {what}; heard {:?}", self.heard.lock().unwrap());
    }

    async fn stop(mut self) {
        self.manager.stop().cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

fn with_widgets() -> Server {
    let server = Server::new(1);
    server.register(Kind::namespaced("example.test", "v1", "Widget", "widgets"));
    server
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_waited_for_and_picked_up_when_it_appears() {
    let world = World::start(Server::new(1), Scope::All);
    world.until("missing", |w| w.feed.phase() == Phase::Missing).await;
    let report = world.gates.report();
    assert!(report.ready, "a missing kind must not take readiness away");
    assert!(format!("{report:?}").contains("waiting for the kind Widget"), "{report:?}");
    world.server.put(definition()).unwrap();
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    world.server.put(widget("a", 1)).unwrap();
    world.until("seen", |w| w.feed.len() == 1).await;
    assert_eq!(world.heard(), ["a ->1"]);
    // Nobody waits for a kind any more, so nobody watches definitions either.
    world.until("one watch", |w| w.server.open_watches() == 1).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_relist_that_lost_objects_announces_them() {
    let server = with_widgets();
    for (name, size) in [("a", 1), ("b", 2), ("c", 3)] {
        server.put(widget(name, size)).unwrap();
    }
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.len() == 3).await;
    world.heard();
    // While nobody can watch: one object goes, one changes, one comes, and history is forgotten.
    let closed = world.server.inject(Rule::any().matching(|r| r.watch).always(), Action::Status(503));
    world.server.cut_watches();
    assert!(world.server.delete(WIDGETS, "default", "a"));
    world.server.edit(WIDGETS, "default", "b", |w| w["spec"]["size"] = json!(20)).unwrap();
    world.server.put(widget("d", 4)).unwrap();
    world.server.compact(world.server.revision());
    world.server.stop_fault(closed);
    world.until("relisted", |w| w.feed.get(&ObjectKey::namespaced("default", "a")) == Seen::Absent).await;
    let mut heard = world.heard();
    heard.sort();
    assert_eq!(heard, ["a 1>-", "b 2>20", "d ->4"]);
    assert_eq!(world.feed.by("size", "20").len(), 1);
    assert!(world.feed.by("size", "1").is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_no_longer_served_takes_its_objects_with_it_and_can_come_back() {
    let server = Server::new(1);
    server.put(definition()).unwrap();
    server.put(widget("a", 1)).unwrap();
    let world = World::start(server, Scope::All);
    world.until("seen", |w| w.feed.len() == 1).await;
    assert!(world.server.delete("customresourcedefinitions.apiextensions.k8s.io", "", WIDGETS));
    world.server.cut_watches();
    world.until("gone", |w| w.feed.is_empty() && w.feed.phase() == Phase::Missing).await;
    assert_eq!(world.heard(), ["a ->1", "a 1>-"]);
    world.server.put(definition()).unwrap();
    world.server.put(widget("a", 5)).unwrap();
    world.until("back", |w| w.feed.len() == 1).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_followed_at_the_best_version_served_and_at_another_when_that_goes() {
    let server = Server::new(1);
    let mut older = definition();
    older["spec"]["versions"][0]["name"] = json!("v1beta1");
    server.put(older).unwrap();
    let mut object = widget("a", 1);
    object["apiVersion"] = json!("example.test/v1beta1");
    server.put(object).unwrap();
    let world = World::start(server, Scope::All);
    world.until("seen", |w| w.feed.len() == 1).await;
    assert_eq!(world.feed.kind().api_version(), "example.test/v1beta1");
    assert!(world.server.delete("customresourcedefinitions.apiextensions.k8s.io", "", WIDGETS));
    world.server.put(definition()).unwrap();
    world.server.cut_watches();
    world.until("the other version", |w| w.feed.kind().version == "v1" && w.feed.phase() == Phase::Synced).await;
    world.server.put(widget("b", 2)).unwrap();
    world.until("seen there", |w| w.feed.len() == 1 && !w.feed.by("size", "2").is_empty()).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_projections_of_a_kind_share_one_watch() {
    let server = with_widgets();
    let mut red = widget("a", 1);
    red["metadata"]["labels"] = json!({"colour": "red"});
    server.put(red).unwrap();
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.phase() == Phase::Synced && w.labels.phase() == Phase::Synced).await;
    assert_eq!(world.asked(), (1, 1));
    let a = ObjectKey::namespaced("default", "a");
    assert_eq!(world.feed.get(&a), Seen::At(Arc::new(1)));
    assert_eq!(world.labels.get(&a), Seen::At(Arc::new(BTreeMap::from([("colour".into(), "red".into())]))));
    // Each is told of what it keeps, and of nothing else.
    world.server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(2)).unwrap();
    world.until("the new size", |w| !w.feed.by("size", "2").is_empty()).await;
    world.server.edit(WIDGETS, "default", "a", |w| w["metadata"]["labels"] = json!({})).unwrap();
    world.until("no label", |w| w.labels.get(&a) == Seen::At(Arc::default())).await;
    assert_eq!(world.heard(), ["a ->1", "a 1>2"]);
    assert_eq!(*world.labelled.lock().unwrap(), ["+a of 1", "+a of 1"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_vanished_while_the_watch_was_down_is_announced_to_every_projection() {
    let server = with_widgets();
    for name in ["a", "b", "c"] {
        server.put(widget(name, 1)).unwrap();
    }
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.len() == 3 && w.labels.len() == 3).await;
    world.heard();
    world.labelled.lock().unwrap().clear();
    let down = world.server.inject(Rule::any().matching(|r| r.resource == WIDGETS).always(), Action::Status(503));
    world.server.cut_watches();
    world.server.delete(WIDGETS, "default", "a");
    world.server.delete(WIDGETS, "default", "c");
    world.server.compact(world.server.revision());
    world.server.stop_fault(down);
    world.until("both lost", |w| w.feed.len() == 1 && w.labels.len() == 1).await;
    assert_eq!(world.heard(), ["a 1>-", "c 1>-"]);
    // Every index has lost both before anybody hears of it.
    assert_eq!(*world.labelled.lock().unwrap(), ["-a of 1", "-c of 1"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn our_own_write_holds_back_only_the_projection_that_was_told_of_it() {
    let server = with_widgets();
    let first = server.put(widget("a", 1)).unwrap();
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.len() == 1 && w.labels.len() == 1).await;
    let a = ObjectKey::namespaced("default", "a");
    let next = first["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() + 1;
    let written = Version { resource_version: next.to_string().into(), ..version(&first) };
    world.feed.wrote(&a, &written);
    assert_eq!(world.feed.get(&a), Seen::Behind);
    assert_eq!(world.labels.get(&a), Seen::At(Arc::default()));
    world.server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(2)).unwrap();
    world.until("shown", |w| w.feed.get(&a) == Seen::At(Arc::new(2))).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_projection_of_a_missing_kind_waits_for_it_behind_one_gate() {
    let world = World::start(Server::new(1), Scope::All);
    let both = |w: &World, phase| w.feed.phase() == phase && w.labels.phase() == phase;
    world.until("missing", |w| both(w, Phase::Missing)).await;
    assert_eq!(world.gates.report().gates.iter().filter(|g| g.name.contains("widgets")).count(), 1);
    world.server.put(definition()).unwrap();
    world.server.put(widget("a", 1)).unwrap();
    world.until("there", |w| both(w, Phase::Synced) && w.feed.len() == 1 && w.labels.len() == 1).await;
    assert_eq!(world.labels.kind(), world.feed.kind());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_projection_that_comes_after_the_watch_began_is_refused_and_a_known_one_is_shared() {
    struct Late;
    impl Project for Late {
        type Source = Widget;
        type Slim = ();
        fn slim(_: Widget) {}
    }
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    let refused = world.manager.feed::<Late>().err().unwrap();
    assert!(matches!(refused, manager::Error::TooLate(_)));
    assert!(refused.to_string().ends_with("ask for all feeds of a kind before the manager runs"), "{refused}");
    assert_eq!(world.manager.feed::<Sizes>().unwrap().len(), 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_view_of_a_kind_is_refused_whatever_version_it_prefers() {
    mod other {
        #[derive(Clone, Debug, serde::Deserialize)]
        pub struct Widget {
            metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
        }
        api::view! { Widget, group: "example.test", versions: ["v1beta1"], plural: "widgets", scope: Namespaced }
    }
    struct Names;
    impl Project for Names {
        type Source = other::Widget;
        type Slim = ();
        fn slim(_: other::Widget) {}
    }
    let world = World::start(with_widgets(), Scope::All);
    let refused = world.manager.feed::<Names>().err().unwrap();
    assert!(matches!(refused, manager::Error::KindTaken(_)), "{refused}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_named_namespaces_are_followed() {
    let server = with_widgets();
    for namespace in ["one", "two", "three"] {
        server.namespace(namespace);
        let mut object = widget("w", 1);
        object["metadata"]["namespace"] = json!(namespace);
        server.put(object).unwrap();
    }
    let world = World::start(server, Scope::Namespaces(vec!["one".into(), "three".into()]));
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    let seen: Vec<String> = world.feed.all().into_iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(seen, ["one/w", "three/w"]);
    let lists = world.server.log().into_iter().filter(|e| e.resource == WIDGETS && e.path.ends_with("/widgets"));
    assert!(lists.into_iter().all(|e| e.path.contains("/namespaces/")), "a cluster-wide list was sent");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quiet_feed_sends_no_request() {
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    let before = world.server.log().iter().filter(|e| !e.query.contains("watch=true")).count();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let after = world.server.log().iter().filter(|e| !e.query.contains("watch=true")).count();
    assert_eq!(before, after, "requests other than the watch itself");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_never_arrived_is_made_good_by_the_next_list() {
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let world = World::with(server, Options { resync: Some(Duration::from_secs(3600)), ..Options::default() });
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    world.kit.drop_event(world.kit.events() + 1);
    world.server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(2)).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.feed.get(&ObjectKey::namespaced("default", "a")), Seen::At(Arc::new(1)), "it was to be lost");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.feed.get(&ObjectKey::namespaced("default", "a")), Seen::At(Arc::new(2)));
    assert_eq!(world.heard(), ["a ->1", "a 1>2"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_discovery_that_fails_does_not_mean_that_a_kind_is_missing() {
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let discovery = |r: &sim::server::RequestInfo| r.path == "/apis/example.test/v1";
    let down = server.inject(Rule::any().matching(discovery).always(), Action::Status(503));
    let world = World::start(server, Scope::All);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(world.feed.phase(), Phase::Listing, "whoever waits for the feed would decide without it");
    assert!(world.server.hits(down) < 120, "{} requests", world.server.hits(down));
    world.server.stop_fault(down);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.feed.phase(), Phase::Synced);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_404_that_discovery_does_not_confirm_neither_empties_the_index_nor_turns_into_a_loop() {
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    let odd = world.server.inject(Rule::any().matching(|r| r.resource == WIDGETS).always(), Action::Status(404));
    world.server.cut_watches();
    let before = world.server.requests();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.server.requests() - before < 300, "{} requests", world.server.requests() - before);
    assert_eq!(world.feed.len(), 1);
    world.server.stop_fault(odd);
    world.server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(2)).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.heard(), ["a ->1", "a 1>2"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_refused_again_and_again_backs_off() {
    let server = with_widgets();
    let refused = server.inject(Rule::any().matching(|r| r.resource == WIDGETS).always(), Action::Status(403));
    let world = World::start(server, Scope::All);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let hits = world.server.hits(refused);
    assert!(hits < 1000, "{hits} lists in ten minutes");
    world.server.stop_fault(refused);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.feed.phase(), Phase::Synced);
    world.stop().await;
}

fn target(object: &Value) -> Target {
    Target {
        kind: kinds::Kind::of::<Widget>(),
        key: ObjectKey::namespaced("default", object["metadata"]["name"].as_str().unwrap()),
        uid: object["metadata"]["uid"].as_str().unwrap().into(),
    }
}

fn version(object: &Value) -> Version {
    Version {
        uid: object["metadata"]["uid"].as_str().unwrap().into(),
        resource_version: object["metadata"]["resourceVersion"].as_str().unwrap().into(),
    }
}

fn writer(server: &Server) -> Writer {
    Writer::new(server.client("writer").kube(), "test")
}

#[tokio::test(start_paused = true)]
async fn a_status_is_applied_and_never_reaches_another_object_of_the_same_name() {
    let server = with_widgets();
    let first = server.put(widget("a", 1)).unwrap();
    let writer = writer(&server);
    writer.status(&target(&first), &json!({"phase": "Fine", "extra": null})).await.unwrap();
    let stored = server.get(WIDGETS, "default", "a").unwrap();
    assert_eq!(stored["status"], json!({"phase": "Fine"}));
    assert_eq!(stored["spec"]["size"], 1);
    server.delete(WIDGETS, "default", "a");
    server.put(widget("a", 1)).unwrap();
    let error = writer.status(&target(&first), &json!({"phase": "Old"})).await.unwrap_err();
    assert_eq!(error.class(), Class::Stale, "{error}");
    assert_eq!(server.get(WIDGETS, "default", "a").unwrap()["status"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_a_decision_is_not_written_over_what_it_was_not_based_on() {
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.len() == 1).await;
    let a = ObjectKey::namespaced("default", "a");
    let held = |w: &World| match w.feed.get(&a) {
        Seen::At(size) => size,
        other => panic!("{other:?}"),
    };
    let seen = held(&world);
    let at = world.feed.version(&a, &seen).unwrap();
    let stored = world.server.get(WIDGETS, "default", "a").unwrap();
    assert_eq!(at, version(&stored));
    let writer = writer(&world.server);
    let first = writer.status_at(&target(&stored), &json!({"host": "one"}), &at).await.unwrap();
    // The same decision on the same old sight of the object, as another replica would make it.
    let refused = writer.status_at(&target(&stored), &json!({"host": "two"}), &at).await.unwrap_err();
    assert!(matches!(refused, kit::write::Error::Changed { .. }), "{refused}");
    assert_eq!(refused.class(), Class::Stale);
    let now = world.server.get(WIDGETS, "default", "a").unwrap();
    assert_eq!((now["status"].clone(), version(&now)), (json!({"host": "one"}), first.clone()));
    // What is kept has not changed, so what was given out now stands for the newer version.
    world.until("shown", |w| w.feed.version(&a, &seen) == Some(first.clone())).await;
    world.server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(2)).unwrap();
    world.until("moved", |w| *held(w) == 2).await;
    assert_eq!(world.feed.version(&a, &seen), None, "a decision on the old size must not pass for one on the new");
    assert_eq!(world.feed.version(&ObjectKey::namespaced("default", "b"), &seen), None);
    world.stop().await;
}

/// Secrets that are ours, by label.
mod ours {
    use super::*;

    #[derive(Clone, Debug, Deserialize)]
    pub struct Secret {
        #[serde(default, deserialize_with = "api::meta::lean_meta")]
        pub metadata: ObjectMeta,
        #[serde(default)]
        pub data: Value,
    }

    api::view! { Secret, group: "", versions: ["v1"], plural: "secrets", scope: Namespaced,
    only: metadata, labels: "example.test/ours=true", fields: "metadata.name!=skipped" }

    pub struct Copies;

    impl Project for Copies {
        type Source = Secret;
        type Slim = Value;
        fn slim(secret: Secret) -> Value {
            secret.data
        }
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_are_followed_without_their_content_and_by_selectors_of_their_own() {
    struct Any;
    impl Project for Any {
        type Source = api::views::Secret;
        type Slim = String;
        fn slim(secret: api::views::Secret) -> String {
            secret.metadata.resource_version.unwrap_or_default()
        }
    }
    let server = Server::new(1);
    let secret = |name: &str, ours: bool| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default",
            "labels": {"example.test/ours": ours.to_string()}}, "data": {"password": "aHVudGVyMg=="}})
    };
    for (name, ours) in [("copy", true), ("skipped", true), ("theirs", false)] {
        server.put(secret(name, ours)).unwrap();
    }
    let gates = Gates::new();
    let manager =
        Manager::new(server.client("kit").kube(), Clock::system(), gates.clone(), Metrics::new(), Options::default());
    let (any, copies) = (manager.feed::<Any>().unwrap(), manager.feed::<ours::Copies>().unwrap());
    let mut tasks = JoinSet::new();
    let run = Arc::clone(&manager);
    tasks.spawn(async move { run.run().await.unwrap() });
    any.settled().await;
    copies.settled().await;
    assert_eq!(any.len(), 3);
    let copy = ObjectKey::namespaced("default", "copy");
    assert_eq!(copies.all(), [(copy.clone(), Arc::new(Value::Null))], "the content was sent");
    // A change of the content is heard of, by its version.
    let Seen::At(before) = any.get(&copy) else { panic!("not there") };
    server.edit("secrets", "default", "copy", |s| s["data"]["password"] = json!("bmV3")).unwrap();
    let changed = async {
        while any.get(&copy) == Seen::At(Arc::clone(&before)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, changed).await.expect("the change is heard of");
    let asked = |e: &sim::server::Entry| e.query.contains("watch=true") && e.resource == "secrets";
    assert_eq!(server.log().into_iter().filter(asked).count(), 2, "one watch per selection");
    let names: Vec<String> = gates.report().gates.into_iter().map(|g| g.name).collect();
    assert!(names.contains(&"kind secrets. example.test/ours=true metadata.name!=skipped".to_owned()), "{names:?}");
    manager.stop().cancel();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_others_survive_and_a_moved_list_is_read_again() {
    let server = with_widgets();
    let bare = server.put(widget("a", 1)).unwrap();
    let writer = writer(&server);
    let none: Vec<String> = Vec::new();
    writer.add_finalizer(&target(&bare), &none, &version(&bare), "berth.dev/ours").await.unwrap().unwrap();
    // The same decision on the same old sight of the object: refused, not doubled.
    let again = writer.add_finalizer(&target(&bare), &none, &version(&bare), "berth.dev/ours").await;
    assert_eq!(again.unwrap_err().class(), Class::Stale);
    let seen = vec!["berth.dev/ours".to_owned()];
    assert_eq!(writer.add_finalizer(&target(&bare), &seen, &version(&bare), "berth.dev/ours").await.unwrap(), None);
    server
        .edit(WIDGETS, "default", "a", |w| w["metadata"]["finalizers"] = json!(["x.io/theirs", "berth.dev/ours"]))
        .unwrap();
    let moved = writer.remove_finalizer(&target(&bare), &seen, "berth.dev/ours").await;
    assert_eq!(moved.unwrap_err().class(), Class::Stale);
    let seen = vec!["x.io/theirs".to_owned(), "berth.dev/ours".to_owned()];
    writer.remove_finalizer(&target(&bare), &seen, "berth.dev/ours").await.unwrap().unwrap();
    assert_eq!(server.get(WIDGETS, "default", "a").unwrap()["metadata"]["finalizers"], json!(["x.io/theirs"]));
    server.edit(WIDGETS, "default", "a", |w| w["metadata"]["finalizers"] = json!([])).unwrap();
    server.delete(WIDGETS, "default", "a");
    // Gone already: there is nothing left to take off.
    let gone = writer.remove_finalizer(&target(&bare), &seen, "berth.dev/ours").await;
    assert!(matches!(gone, Ok(None)), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_finds_its_own_object() {
    let server = with_widgets();
    let writer = writer(&server);
    let kind = kinds::Kind::of::<Widget>();
    server.inject(Rule::any().method("POST").always(), Action::DropAnswer);
    assert!(writer.create(&kind, Some("default"), &widget("a", 1)).await.is_err());
    server.stop_faults();
    match writer.create(&kind, Some("default"), &widget("a", 1)).await.unwrap() {
        Created::Existing(found) => assert_eq!(found["spec"]["size"], 1),
        Created::New(_) => panic!("it was there already"),
    }
    assert_eq!(server.list(WIDGETS, "default").len(), 1);
    assert!(matches!(writer.create(&kind, Some("default"), &widget("b", 1)).await.unwrap(), Created::New(_)));
}

#[tokio::test(start_paused = true)]
async fn a_delete_spares_a_newer_version_and_another_incarnation() {
    let server = with_widgets();
    let writer = writer(&server);
    let first = server.put(widget("a", 1)).unwrap();
    server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(2)).unwrap();
    let stale = writer.delete(&target(&first), Some(&version(&first))).await;
    assert_eq!(stale.unwrap_err().class(), Class::Stale);
    writer.delete(&target(&first), None).await.unwrap();
    assert!(server.get(WIDGETS, "default", "a").is_none());
    writer.delete(&target(&first), None).await.unwrap();
    server.put(widget("a", 3)).unwrap();
    assert_eq!(writer.delete(&target(&first), None).await.unwrap_err().class(), Class::Stale);
    assert!(server.get(WIDGETS, "default", "a").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_merge_changes_our_keys_only_and_only_what_it_was_based_on() {
    let server = with_widgets();
    let writer = writer(&server);
    let first = server.put(widget("a", 1)).unwrap();
    let ours = json!({"metadata": {"annotations": {"berth.dev/x": "1"}}});
    writer.merge(&target(&first), ours.clone(), Some(&version(&first))).await.unwrap();
    let stored = server.get(WIDGETS, "default", "a").unwrap();
    assert_eq!((&stored["spec"]["size"], &stored["metadata"]["annotations"]["berth.dev/x"]), (&json!(1), &json!("1")));
    let stale = writer.merge(&target(&first), ours, Some(&version(&first))).await;
    assert_eq!(stale.unwrap_err().class(), Class::Stale);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_object_is_told_from_one_that_has_changed() {
    let server = Server::new(1);
    let mut strict = definition();
    strict["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    server.put(strict).unwrap();
    let first = server.put(widget("a", 1)).unwrap();
    let writer = writer(&server);
    let wrong = writer.operations(&target(&first), vec![kit::write::add("/spec/size", json!("large"))]).await;
    assert_eq!(wrong.unwrap_err().class(), Class::Terminal, "or it would be sent again five times a second");
    let moved = writer.operations(&target(&first), vec![kit::write::test("/spec/size", json!(7))]).await;
    assert_eq!(moved.unwrap_err().class(), Class::Stale);
}

#[tokio::test(start_paused = true)]
async fn an_apply_spares_another_incarnation() {
    let server = with_widgets();
    let writer = writer(&server);
    let first = server.put(widget("a", 1)).unwrap();
    writer.apply(&target(&first), widget("a", 2)).await.unwrap();
    server.delete(WIDGETS, "default", "a");
    assert!(writer.apply(&target(&first), widget("a", 3)).await.is_err(), "it would be made again");
    server.put(widget("a", 4)).unwrap();
    assert_eq!(writer.apply(&target(&first), widget("a", 3)).await.unwrap_err().class(), Class::Stale);
    let gone = writer
        .create(
            &kinds::Kind::of::<Widget>(),
            Some("nowhere"),
            &json!({"apiVersion": "example.test/v1",
        "kind": "Widget", "metadata": {"name": "b", "namespace": "nowhere"}}),
        )
        .await;
    assert_eq!(gone.unwrap_err().class(), Class::Transient { at_least: None });
}

#[tokio::test(start_paused = true)]
async fn every_write_passes_a_fault_point_on_both_sides() {
    let server = with_widgets();
    let writer = Writer::new(server.client("writer").kube(), "points");
    let first = server.put(widget("a", 1)).unwrap();
    writer.status(&target(&first), &json!({})).await.unwrap();
    writer.merge(&target(&first), json!({}), None).await.unwrap();
    writer.create(&kinds::Kind::of::<Widget>(), Some("default"), &widget("b", 1)).await.unwrap();
    writer.delete(&target(&first), None).await.unwrap();
    let effects = server.log().iter().filter(|e| e.effect.is_some()).count();
    let reached = kit::fault::reached();
    let points = ["status", "patch", "create", "delete"];
    assert_eq!(effects, points.len());
    for point in points {
        for side in ["before", "after"] {
            assert!(reached.contains(&format!("points.{point}.{side}")), "{point} {side} in {reached:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_knows_served_and_missing_kinds() {
    let server = with_widgets();
    let kinds = Kinds::new(server.client("kinds").kube());
    assert!(kinds.is_served(&kinds::Kind::of::<Widget>()).await.unwrap());
    let missing =
        kinds::Kind { group: "nobody.test".into(), version: "v1".into(), kind: "X".into(), plural: "xs".into() };
    assert!(!kinds.is_served(&missing).await.unwrap());
    assert!(kinds.is_served(&kinds::Kind::of::<k8s_openapi::api::core::v1::ConfigMap>()).await.unwrap());
}
