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

mod feeds;
mod sharing;
mod writes;

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
        Self::asking(server, options, |client| client)
    }

    /// The first lists of widgets are these, the last of them first.
    fn breaking(server: Server, broken: Arc<Mutex<Vec<String>>>) -> Self {
        Self::asking(server, Options::default(), |client| {
            let answer = tower::service_fn(move |request: http::Request<kube::client::Body>| {
                let query = request.uri().query().unwrap_or_default();
                let first = request.uri().path().ends_with("/widgets") && !query.contains("watch=true");
                let text = first.then(|| broken.lock().unwrap().pop()).flatten();
                let client = client.clone();
                async move {
                    match text {
                        Some(text) => Ok(http::Response::new(kube::client::Body::from(text.into_bytes()))),
                        None => client.send(request).await,
                    }
                }
            });
            kube::Client::new(answer, "default")
        })
    }

    fn asking(server: Server, options: Options, way: impl FnOnce(kube::Client) -> kube::Client) -> Self {
        let gates = Gates::new();
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 1);
        let kit = server.client("kit");
        let manager = Manager::new(way(kit.kube()), clock, gates.clone(), Metrics::new(), options);
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

fn version(object: &Value) -> Version {
    Version {
        uid: object["metadata"]["uid"].as_str().unwrap().into(),
        resource_version: object["metadata"]["resourceVersion"].as_str().unwrap().into(),
    }
}
