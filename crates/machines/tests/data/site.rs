//! A server with everybody else at work on it, and the rooms.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kit::clock::Clock;
use kit::doors::{Clients, Doors};
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use machines::config::Config;
use machines::remediation::Treat;
use serde_json::Value;
use sim::server::{Gate, Kind, Server};

use crate::actors::play;
use crate::objects::{NS, install};

/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(7200);

/// Opens the one inside there is.
struct Door {
    inside: Server,
    gate: Option<Gate>,
}

impl Doors for Door {
    fn open<'d>(&'d self, _: &'d str, kubeconfig: &'d str) -> BoxFuture<'d, Result<kube::Client, String>> {
        async move {
            assert!(kubeconfig.contains("kind: Config"));
            let handle = self.inside.client("inside");
            if let Some(gate) = &self.gate {
                handle.attach(gate.clone());
            }
            Ok(handle.kube())
        }
        .boxed()
    }
}

/// The inside of the workload cluster.
pub fn inside(clock: sim::server::Clock) -> Server {
    let inside = Server::with_clock(7, clock);
    inside.register(Kind::cluster("", "v1", "Node", "nodes"));
    inside.register(Kind::namespaced("", "v1", "Pod", "pods").selectable("spec.nodeName"));
    inside.register(Kind::cluster("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments"));
    inside.namespace("default");
    inside
}

/// Runs the rooms until they are dropped.
pub async fn rooms(client: kube::Client, now: jiff::Timestamp, inside: Server, gate: Option<Gate>, treat: Treat) {
    let options = Options { workers: 4, ..Options::default() };
    let manager = Manager::new(client, Clock::simulated(now, 1), Gates::new(), Metrics::new(), options);
    let config = Arc::new(Config::default());
    machines::data::mount(&manager, &config).unwrap();
    let clients = Arc::new(Clients::new(Box::new(Door { inside, gate })));
    machines::remediation::mount(&manager, &config, clients, treat).unwrap();
    manager.run().await.unwrap();
}

/// A whole site for one test.
pub struct Site {
    pub server: Server,
    pub inside: Server,
}

impl Site {
    pub fn new(treat: Treat, prepare: impl FnOnce(&Server, &Server)) -> Self {
        let server = Server::new(1);
        let inside = inside(server.clock());
        install(&server);
        prepare(&server, &inside);
        tokio::spawn(play(server.clone(), Some(inside.clone())));
        let handle = server.client("room");
        tokio::spawn(rooms(handle.kube(), (server.clock())(), inside.clone(), None, treat));
        Self { server, inside }
    }

    /// Waits until something holds.
    pub async fn until(&self, what: &str, done: impl FnMut(&Server) -> bool) {
        if !self.server.wait_until(LONG, done).await {
            let all: Vec<Value> = self
                .server
                .objects()
                .into_iter()
                .filter(|(key, _)| key.namespace == NS && !key.resource.starts_with("events"))
                .map(|(_, object)| object)
                .collect();
            panic!("never: {what}\n{}", serde_json::to_string_pretty(&all).unwrap());
        }
    }

    pub fn get(&self, resource: &str, name: &str) -> Value {
        self.server.get(resource, NS, name).unwrap_or_default()
    }

    /// Lets everything come to rest, and makes sure that the rooms write nothing any more.
    pub async fn rest(&self) {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = self.server.effects();
        tokio::time::sleep(Duration::from_secs(120)).await;
        let log = self.server.log();
        let late: Vec<String> = log
            .iter()
            .filter(|entry| entry.client == "room" && entry.effect.is_some_and(|effect| effect > before))
            .map(|entry| format!("{} {}", entry.method, entry.path))
            .collect();
        assert!(late.is_empty(), "the settled world is not quiet: {late:#?}");
    }
}
