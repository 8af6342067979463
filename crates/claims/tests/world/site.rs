//! A server with a host simulator, and rooms at work on it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use claims::config::Config;
use kit::clock::Clock;
use kit::feed::Scope;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use serde_json::Value;
use sim::metal::oracle::{Breach, Forgiven, Judge};
use sim::metal::{Machines, Settings, Simulator};
use sim::server::{Handle, Server};
use tokio::task::JoinHandle;

use crate::objects::{CLAIMS, INFRA, at, condition, events, held, install};

/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(900);

/// The machines, and who watches over them.
pub struct Yonder {
    pub machines: Arc<Machines>,
    judge: Mutex<Judge>,
}

impl Yonder {
    /// Starts the simulator on a server; it runs until the runtime ends.
    pub fn start(server: &Server, forgiven: Forgiven) -> Self {
        let settings = Settings { labelled_only: true, ..Settings::default() };
        let simulator = Simulator::with_clock(server.client("operator").kube(), settings, server.clock());
        let machines = simulator.machines();
        tokio::spawn(simulator.run());
        Self { machines, judge: Mutex::new(Judge::new(forgiven)) }
    }

    /// Whether every promise held at every revision so far.
    pub fn judge(&self, server: &Server) -> Result<(), String> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner).look(server, &self.machines)
    }

    /// What does not hold although everything has come to rest.
    pub fn left(&self) -> Vec<Breach> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner).at_rest()
    }

    /// Whether every promise holds now that everything has come to rest.
    pub fn judge_rest(&self, server: &Server) -> Result<(), String> {
        self.judge(server)?;
        self.left().first().map_or(Ok(()), |breach| Err(breach.to_string()))
    }
}

/// Runs the room until it is dropped.
pub async fn room(client: kube::Client, now: jiff::Timestamp, config: Config) {
    room_within(client, now, config, Scope::All, Metrics::new()).await;
}

/// Runs the room on some namespaces.
async fn room_within(client: kube::Client, now: jiff::Timestamp, config: Config, scope: Scope, metrics: Metrics) {
    let options = Options { workers: 4, scope, ..Options::default() };
    let manager = Manager::new(client, Clock::simulated(now, 1), Gates::new(), metrics, options);
    claims::mount(&manager, config).unwrap();
    manager.run().await.unwrap();
}

/// A whole site for one test.
pub struct Site {
    pub server: Server,
    pub yonder: Yonder,
    rooms: Vec<(Handle, JoinHandle<()>)>,
    /// What each process counts.
    metrics: Vec<Metrics>,
}

impl Site {
    pub fn new(prepare: impl FnOnce(&Server)) -> Self {
        Self::forgiving(Forgiven::default(), prepare)
    }

    pub fn forgiving(forgiven: Forgiven, prepare: impl FnOnce(&Server)) -> Self {
        Self::of(forgiven, Config::default(), prepare)
    }

    pub fn of(forgiven: Forgiven, config: Config, prepare: impl FnOnce(&Server)) -> Self {
        let server = Server::new(1);
        install(&server);
        prepare(&server);
        let yonder = Yonder::start(&server, forgiven);
        let mut site = Self { server, yonder, rooms: Vec::new(), metrics: Vec::new() };
        site.add_room(config);
        site
    }

    /// One more process of the room, as if the lease had failed to keep it out.
    pub fn add_room(&mut self, config: Config) {
        self.add_room_within(config, Scope::All);
    }

    /// One more process, which follows some namespaces only.
    pub fn add_room_within(&mut self, config: Config, scope: Scope) {
        let handle = self.server.client(&format!("room-{}", self.rooms.len()));
        let metrics = Metrics::new();
        let room = tokio::spawn(room_within(handle.kube(), (self.server.clock())(), config, scope, metrics.clone()));
        self.rooms.push((handle, room));
        self.metrics.push(metrics);
    }

    /// The first process is gone from one moment to the next.
    pub fn kill_room(&self) {
        self.rooms[0].1.abort();
    }

    /// The series of a metric that the last process shows, each with its value; the value alone of one without labels.
    pub fn series(&self, metric: &str) -> Vec<String> {
        let text = self.metrics.last().map(Metrics::encode).unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix(['{', ' '])).map(str::to_owned).collect()
    }

    /// The connection of the first process.
    pub fn line(&self) -> &Handle {
        &self.rooms[0].0
    }

    pub fn claim(&self, tenant: &str, name: &str) -> Value {
        self.server.get(CLAIMS, tenant, name).unwrap_or_default()
    }

    /// Waits until something holds, and judges everything that happened until then.
    pub async fn until(&self, what: &str, done: impl FnMut(&Server) -> bool) {
        let held = self.server.wait_until(LONG, done).await;
        self.yonder.judge(&self.server).unwrap();
        if !held {
            let claims = serde_json::to_string_pretty(&self.server.list(CLAIMS, "")).unwrap();
            panic!("never: {what}\n{claims}");
        }
    }

    pub async fn until_condition(&self, tenant: &str, name: &str, kind: &str, wanted: &str) {
        let there = |server: &Server| condition(&server.get(CLAIMS, tenant, name).unwrap_or_default(), kind) == wanted;
        self.until(&format!("{kind} of {tenant}/{name} is {wanted}"), there).await;
    }

    pub async fn until_ready(&self, tenant: &str, name: &str) {
        self.until_condition(tenant, name, "Ready", "True/Ready").await;
    }

    /// Waits until people are told something.
    pub async fn until_event(&self, namespace: &str, reason: &str) {
        let told = |server: &Server| !events(server, namespace, reason).is_empty();
        self.until(&format!("{reason} is told in {namespace}"), told).await;
    }

    pub async fn until_gone(&self, tenant: &str, name: &str) {
        self.until(&format!("{tenant}/{name} is gone"), |server| server.get(CLAIMS, tenant, name).is_none()).await;
    }

    /// The one host that a claim has.
    pub fn host_of(&self, tenant: &str, name: &str) -> Value {
        let mut hosts = held(&self.server, tenant, name);
        assert_eq!(hosts.len(), 1, "{tenant}/{name} has {} hosts", hosts.len());
        hosts.remove(0)
    }

    /// Lets everything come to rest, and makes sure that nobody writes any more and every promise holds.
    pub async fn rest(&self) {
        tokio::time::sleep(Duration::from_secs(90)).await;
        let before = self.server.effects();
        tokio::time::sleep(Duration::from_secs(300)).await;
        let log = self.server.log();
        let late: Vec<String> = log
            .iter()
            .filter(|entry| entry.effect.is_some_and(|effect| effect > before) && !entry.resource.starts_with("leases"))
            .map(|entry| format!("{} {} {}", entry.client, entry.method, entry.path))
            .collect();
        assert!(late.is_empty(), "the settled world is not quiet: {late:#?}");
        self.yonder.judge_rest(&self.server).unwrap();
    }

    /// The same for a claim whose host is gone: its copies go with the host or with the claim.
    pub async fn rest_but_lost(&self) {
        tokio::time::sleep(Duration::from_secs(90)).await;
        let before = self.server.effects();
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(self.server.effects(), before);
        self.yonder.judge(&self.server).unwrap();
    }

    /// How often the machine of a claim's host was switched off.
    pub fn power_offs(&self, host: &Value) -> u32 {
        self.yonder.machines.get(INFRA, at(host, "/metadata/name")).unwrap().power_offs
    }
}
