//! The half of the simulator that touches the world: one watch, a queue, and one small write after the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::host::{Host, SecretRef, Status};
use super::machine::{Key, Machines};
use super::script::Script;
use super::state::{self, Data, Metadata, Next, Rules};
use super::{ENVIRONMENT, GROUP, MANAGER, SCRIPT, VERSION, hardware, resource};
use crate::server::Clock;

/// The pause after a request that failed for no reason of ours.
const AGAIN: Duration = Duration::from_secs(1);
/// The pause of a host that has more to do, while others have their turn.
const SOON: Duration = Duration::from_millis(1);
/// More steps than any host needs in a row; what is left is done in the next turn.
const STEPS: usize = 32;

/// How a simulator works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long every working state takes, unless a host's script says otherwise.
    pub delay: Duration,
    /// Data secrets without the label of the operator's cache are not found. The operator itself would find them by a
    /// read of its own and label them, which is done here when this is off.
    pub labelled_only: bool,
    /// How many hosts are worked on at the same time.
    pub workers: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { delay: Duration::ZERO, labelled_only: false, workers: 32 }
    }
}

/// Drives all hosts of a server.
#[derive(Clone)]
pub struct Simulator {
    client: Client,
    settings: Settings,
    clock: Clock,
    machines: Arc<Machines>,
}

impl Simulator {
    /// A simulator on the machine's own time.
    #[must_use]
    pub fn new(client: Client, settings: Settings) -> Self {
        Self::with_clock(client, settings, Arc::new(Timestamp::now))
    }

    /// A simulator on a given time, which must go with tokio's.
    #[must_use]
    pub fn with_clock(client: Client, settings: Settings, clock: Clock) -> Self {
        Self { client, settings, clock, machines: Arc::default() }
    }

    /// The machines behind the hosts.
    #[must_use]
    pub fn machines(&self) -> Arc<Machines> {
        self.machines.clone()
    }

    /// Works until it is dropped.
    pub async fn run(self) {
        let api: Api<Host> = Api::all(self.client.clone());
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
        let mut desk = Desk::default();
        let mut work = JoinSet::new();
        let simulator = Arc::new(self);
        loop {
            while work.len() < simulator.settings.workers.max(1)
                && let Some((key, host)) = desk.take()
            {
                let simulator = simulator.clone();
                work.spawn(async move { simulator.turn(key, host).await });
            }
            let alarm = desk.alarm();
            tokio::select! {
                biased;
                Some(done) = work.join_next(), if !work.is_empty() => if let Ok(turn) = done {
                    desk.back(turn);
                },
                event = events.next() => match event {
                    Some(Ok(event)) => desk.hear(event),
                    Some(Err(error)) => {
                        tracing::debug!(%error, "the watch on hosts begins again");
                        sleep(AGAIN).await;
                    }
                    None => return,
                },
                () = sleep_until(alarm.unwrap_or_else(Instant::now)), if alarm.is_some() => desk.ring(),
            }
        }
    }

    /// Does what a host needs, step by step, until there is nothing left to do now.
    async fn turn(&self, key: Key, mut host: Host) -> Turn {
        for _ in 0..STEPS {
            match self.step(&key, &host).await {
                Ok(Did::Wrote(newer)) => host = *newer,
                // On a slow server the next one is due by now: whoever has something to do comes first.
                Ok(Did::Rewrote(newer)) => return Turn { key, host: Some(*newer), again: Some(SOON) },
                Ok(Did::Turned) => {}
                Ok(Did::Waits(until)) => {
                    let left = until.map(|until| until.duration_since((self.clock)()));
                    let left = left.map(|left| Duration::try_from(left).unwrap_or_default());
                    return Turn { key, host: Some(host), again: left };
                }
                Err(kube::Error::Api(status)) if status.code == 404 => return Turn { key, host: None, again: None },
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    let api: Api<Host> = Api::namespaced(self.client.clone(), &key.0);
                    match api.get_opt(&key.1).await {
                        Ok(Some(newer)) => host = newer,
                        Ok(None) => return Turn { key, host: None, again: None },
                        Err(_) => break,
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, host = %format!("{}/{}", key.0, key.1), "a step of a host failed");
                    return Turn { key, host: Some(host), again: Some(AGAIN) };
                }
            }
        }
        Turn { key, host: Some(host), again: Some(SOON) }
    }

    async fn step(&self, key: &Key, host: &Host) -> kube::Result<Did> {
        let now = (self.clock)();
        let machine = self.machines.of(key, host, now);
        let rules = Rules { script: self.script(key, host).await?, delay: self.settings.delay };
        let mut next = state::next(host, &machine, &rules, now);
        if next == Next::Read {
            next = match self.data(host).await? {
                Ok(data) => Next::Turn(state::deployed(host, &machine, data, now)),
                Err(missing) => state::no_data(host, &machine, &rules, &missing, now),
            };
        }
        if let Next::Inspected(found, ..) = &next {
            self.store_hardware(key, host, found).await?;
        }
        match next {
            Next::Rest | Next::Read => Ok(Did::Waits(None)),
            Next::Wait(until) => Ok(Did::Waits(Some(until))),
            Next::Turn(machine) => {
                self.machines.set(key, machine, host.revision());
                Ok(Did::Turned)
            }
            Next::Metadata(change, machine) => {
                let newer = self.change(key, host, &change).await?;
                self.machines.set(key, machine, newer.revision());
                Ok(Did::Wrote(Box::new(newer)))
            }
            Next::Become(status, turned) | Next::Inspected(_, status, turned) => {
                let newer = Box::new(self.write_status(key, host, &status).await?);
                let for_nothing = turned.rewrites > machine.rewrites;
                self.machines.set(key, turned, newer.revision());
                Ok(if for_nothing { Did::Rewrote(newer) } else { Did::Wrote(newer) })
            }
        }
    }

    /// The host's own script; one that cannot be read is told of and not followed.
    async fn script(&self, key: &Key, host: &Host) -> kube::Result<Script> {
        let Some(text) = host.note(SCRIPT) else { return Ok(Script::default()) };
        let bad = match Script::read(text) {
            Ok(script) => return Ok(script),
            Err(bad) => bad,
        };
        if self.machines.complain(key, text) {
            tracing::warn!(host = %format!("{}/{}", key.0, key.1), %bad, "the script of a host is not followed");
            self.tell(host, "BadSimulatorScript", &bad.to_string()).await?;
        }
        Ok(Script::default())
    }

    async fn tell(&self, host: &Host, reason: &str, note: &str) -> kube::Result<()> {
        let namespace = host.namespace().unwrap_or_default();
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"generateName": format!("{}-", host.name_any()), "namespace": namespace},
            "eventTime": format!("{:.6}", (self.clock)()), "type": "Warning", "reason": reason, "action": "Simulate",
            "note": note, "reportingController": "berth.dev/sim", "reportingInstance": MANAGER,
            "regarding": {"apiVersion": format!("{GROUP}/{VERSION}"), "kind": "BareMetalHost", "namespace": namespace,
                "name": host.name_any(), "uid": host.uid()},
        });
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        self.send::<Value>(http::Method::POST, &path, &event).await.map(drop)
    }

    async fn send<T: serde::de::DeserializeOwned>(
        &self,
        method: http::Method,
        path: &str,
        body: &Value,
    ) -> kube::Result<T> {
        let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header(http::header::CONTENT_TYPE, "application/json").body(body);
        self.client.request(request.map_err(kube::Error::HttpError)?).await
    }

    /// Replaces the whole status, on the version that was read.
    async fn write_status(&self, key: &Key, host: &Host, status: &Status) -> kube::Result<Host> {
        let (namespace, name) = key;
        let path = format!(
            "/apis/{GROUP}/{VERSION}/namespaces/{namespace}/baremetalhosts/{name}/status?fieldManager={MANAGER}"
        );
        let body = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "BareMetalHost",
            "metadata": {"namespace": namespace, "name": name, "resourceVersion": host.resource_version(),
                "uid": host.uid()},
            "spec": {"online": host.spec.online},
            "status": status,
        });
        self.send(http::Method::PUT, &path, &body).await
    }

    async fn change(&self, key: &Key, host: &Host, change: &Metadata) -> kube::Result<Host> {
        let mut metadata = json!({"resourceVersion": host.resource_version(), "uid": host.uid()});
        if let (Some(finalizers), Some(metadata)) = (&change.finalizers, metadata.as_object_mut()) {
            metadata.insert("finalizers".to_owned(), json!(finalizers));
        }
        if let (false, Some(metadata)) = (change.drop.is_empty(), metadata.as_object_mut()) {
            let gone: serde_json::Map<String, Value> = change.drop.iter().map(|k| (k.clone(), Value::Null)).collect();
            metadata.insert("annotations".to_owned(), Value::Object(gone));
        }
        let api: Api<Host> = Api::namespaced(self.client.clone(), &key.0);
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        api.patch(&key.1, &params, &Patch::Merge(json!({ "metadata": metadata }))).await
    }

    async fn store_hardware(&self, key: &Key, host: &Host, found: &Value) -> kube::Result<()> {
        let Some(resource) = resource("HardwareData") else { return Ok(()) };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &key.0, &resource);
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&key.1, &params, &Patch::Apply(hardware::data(host, found))).await.map(drop)
    }

    /// What the data secrets hold, or the words for the first one that cannot be used.
    async fn data(&self, host: &Host) -> kube::Result<Result<Data, String>> {
        let spec = &host.spec;
        let mut all = Data::default();
        for (reference, key, into) in [
            (&spec.user_data, "userData", &mut all.user_data),
            (&spec.network_data, "networkData", &mut all.network_data),
            (&spec.meta_data, "metaData", &mut all.meta_data),
        ] {
            let Some(reference) = reference else { continue };
            match self.secret(host, reference, key).await? {
                Ok(text) => *into = Some(text),
                Err(missing) => return Ok(Err(missing)),
            }
        }
        Ok(Ok(all))
    }

    async fn secret(&self, host: &Host, reference: &SecretRef, key: &str) -> kube::Result<Result<String, String>> {
        let own = host.namespace().unwrap_or_default();
        if !reference.namespace.is_empty() && reference.namespace != own {
            return Ok(Err(format!("{key} secret must be in same namespace as host {own}/{}", host.name_any())));
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &own);
        let name = &reference.name;
        let found = api.get_opt(name).await?;
        let labelled = |secret: &Secret| secret.labels().get(ENVIRONMENT.0).is_some_and(|value| value == ENVIRONMENT.1);
        let Some(secret) = found.filter(|secret| !self.settings.labelled_only || labelled(secret)) else {
            return Ok(Err(format!("secret {own}/{name} for {key} not found")));
        };
        if !labelled(&secret) {
            let label = json!({"metadata": {"labels": {ENVIRONMENT.0: ENVIRONMENT.1}}});
            api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(label)).await?;
        }
        let data = secret.data.unwrap_or_default();
        match data.get(key).or_else(|| data.get("value")) {
            Some(bytes) => Ok(Ok(String::from_utf8_lossy(&bytes.0).into_owned())),
            None => Ok(Err(format!("secret {own}/{name} does not contain key {key} or value"))),
        }
    }
}

/// What one step did.
enum Did {
    Wrote(Box<Host>),
    /// The same as before, for nothing but a new time.
    Rewrote(Box<Host>),
    Turned,
    Waits(Option<Timestamp>),
}

/// What one turn left: the newest version it knows, and when to look again without being told.
struct Turn {
    key: Key,
    host: Option<Host>,
    again: Option<Duration>,
}

#[derive(Debug, Default)]
struct Seat {
    host: Host,
    queued: bool,
    busy: bool,
    /// Something came while it was busy.
    missed: bool,
    due: Option<Instant>,
}

/// Who waits for what.
#[derive(Debug, Default)]
struct Desk {
    seats: BTreeMap<Key, Seat>,
    queue: VecDeque<Key>,
    timers: BTreeSet<(Instant, Key)>,
    /// What a list under way has named so far.
    listed: BTreeSet<Key>,
}

impl Desk {
    fn hear(&mut self, event: watcher::Event<Host>) {
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(host) => {
                self.listed.insert(key(&host));
                self.see(host);
            }
            watcher::Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let gone: Vec<Key> = self.seats.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                gone.iter().for_each(|key| self.forget(key));
            }
            watcher::Event::Apply(host) => self.see(host),
            watcher::Event::Delete(host) => self.forget(&key(&host)),
        }
    }

    fn see(&mut self, mut host: Host) {
        host.metadata.managed_fields = None;
        let key = key(&host);
        let seat = self.seats.entry(key.clone()).or_default();
        // Our own writes come back; what is known already is no news.
        if seat.host.metadata.uid == host.metadata.uid && seat.host.revision() >= host.revision() {
            return;
        }
        seat.host = host;
        self.call(key);
    }

    fn call(&mut self, key: Key) {
        let Some(seat) = self.seats.get_mut(&key) else { return };
        if let Some(due) = seat.due.take() {
            self.timers.remove(&(due, key.clone()));
        }
        match (seat.busy, seat.queued) {
            (true, _) => seat.missed = true,
            (false, false) => {
                seat.queued = true;
                self.queue.push_back(key);
            }
            (false, true) => {}
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some(due) = self.seats.remove(key).and_then(|seat| seat.due) {
            self.timers.remove(&(due, key.clone()));
        }
    }

    fn take(&mut self) -> Option<(Key, Host)> {
        while let Some(key) = self.queue.pop_front() {
            if let Some(seat) = self.seats.get_mut(&key).filter(|seat| seat.queued) {
                (seat.queued, seat.busy, seat.missed) = (false, true, false);
                return Some((key, seat.host.clone()));
            }
        }
        None
    }

    fn back(&mut self, turn: Turn) {
        let Some(seat) = self.seats.get_mut(&turn.key) else { return };
        seat.busy = false;
        if let Some(mut host) = turn.host.filter(|host| host.revision() > seat.host.revision()) {
            host.metadata.managed_fields = None;
            seat.host = host;
        }
        if seat.missed {
            return self.call(turn.key);
        }
        if let Some(again) = turn.again {
            let due = Instant::now() + again;
            seat.due = Some(due);
            self.timers.insert((due, turn.key));
        }
    }

    fn alarm(&self) -> Option<Instant> {
        self.timers.first().map(|(due, _)| *due)
    }

    fn ring(&mut self) {
        let now = Instant::now();
        while let Some((due, key)) = self.timers.first().cloned().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, key.clone()));
            self.call(key);
        }
    }
}

fn key(host: &Host) -> Key {
    (host.namespace().unwrap_or_default(), host.name_any())
}
