//! One test as a script: what is there before, what users do and check each time the world has settled, and what holds
//! at any moment.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use serde_json::{Value, json};
use sim::server::{Clock, Gate, Kind as Served, Server};
use sim::sweep::{self, Scenario, SweepReport};
use tokio::sync::Notify;

use super::{DATA, Kind, OTHER, Place, Resource, TENANT};

pub(super) const CLAIMS: &str = "hostclaims.metal3.io";

/// The longest back-off of a kind is five minutes; after this without an effect nothing is under way.
const SETTLED: Duration = Duration::from_secs(660);

/// What was seen instead.
pub(super) type Check = Result<(), String>;
type Act<'a, K> = Box<dyn Fn(&Place<K>) -> Check + Send + Sync + 'a>;

/// A test.
pub(super) struct Script<'a, K: Kind> {
    pub(super) kind: &'a K,
    settle: Duration,
    before: Vec<Act<'a, K>>,
    acts: Vec<Act<'a, K>>,
    always: Option<Act<'a, K>>,
    wrong: Mutex<Option<String>>,
    restart: Arc<Notify>,
}

impl<'a, K: Kind> Script<'a, K> {
    pub(super) fn new(kind: &'a K) -> Self {
        Self {
            kind,
            settle: SETTLED,
            before: Vec::new(),
            acts: Vec::new(),
            always: None,
            wrong: Mutex::new(None),
            restart: Arc::default(),
        }
    }

    /// Before the controller runs for the first time.
    pub(super) fn before(mut self, act: impl Fn(&Place<K>) -> Check + Send + Sync + 'a) -> Self {
        self.before.push(Box::new(act));
        self
    }

    /// The next time the world has settled.
    pub(super) fn then(mut self, act: impl Fn(&Place<K>) -> Check + Send + Sync + 'a) -> Self {
        self.acts.push(Box::new(act));
        self
    }

    /// After every effect.
    pub(super) fn always(mut self, holds: impl Fn(&Place<K>) -> Check + Send + Sync + 'a) -> Self {
        self.always = Some(Box::new(holds));
        self
    }

    /// How long nothing may happen until the world counts as settled.
    pub(super) fn settled_after(mut self, time: Duration) -> Self {
        self.settle = time;
        self
    }

    /// Notified, the controller starts anew, on stored state only.
    pub(super) fn restarted_by(mut self, restart: &Arc<Notify>) -> Self {
        self.restart = Arc::clone(restart);
        self
    }

    /// Runs it once, undisturbed.
    pub(super) fn run(&self) -> Check {
        told(&sweep::calm(self))
    }

    /// Runs it with the controller stopped before, at and after each of its effects.
    pub(super) fn run_with_crashes(&self) -> Check {
        told(&sweep::crash_sweep(self))
    }

    /// Runs it with the controller started again on old news after each of its effects.
    pub(super) fn run_on_old_news(&self) -> Check {
        told(&sweep::stale_sweep(self))
    }

    fn note(&self, check: Check) {
        if let Err(why) = check {
            self.wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        }
    }
}

fn told(report: &SweepReport) -> Check {
    if report.passed() { Ok(()) } else { Err(report.to_string()) }
}

impl<K: Kind> Scenario for Script<'_, K> {
    type Outside = K::Platform;

    fn name(&self) -> &str {
        self.kind.profile().name
    }

    fn outside(&self, gate: &Gate, clock: &Clock) -> K::Platform {
        *self.wrong.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.kind.platform(gate, clock)
    }

    async fn prepare(&self, place: &Place<K>) {
        install(&place.server);
        self.kind.prepare(place).await;
        for act in &self.before {
            self.note(act(place));
        }
    }

    async fn process(&self, place: Arc<Place<K>>, client: kube::Client) {
        tokio::select! {
            () = self.kind.process(place, client) => {}
            () = self.restart.notified() => {}
        }
    }

    async fn act(&self, place: &Place<K>, step: usize) -> bool {
        let Some(act) = self.acts.get(step) else { return false };
        self.note(act(place));
        true
    }

    /// How claims stand and how much exists. Which machine serves which claim may differ between two good runs.
    fn picture(&self, place: &Place<K>) -> Value {
        let stand = |claim: &Value| {
            let types = ["Associated", "Synchronized", "Provisioned", "Ready"];
            let conditions: Vec<_> = types.iter().map(|type_| condition(claim, type_)).collect();
            json!([claim["metadata"]["name"], claim["metadata"]["finalizers"], conditions])
        };
        let claims: Vec<Value> = place.server.list(CLAIMS, TENANT).iter().map(stand).collect();
        json!({"claims": claims, "resources": self.kind.resources(place).len()})
    }

    fn invariant(&self, place: &Place<K>) -> Check {
        if let Some(why) = &*self.wrong.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(why.clone());
        }
        self.always.as_ref().map_or(Ok(()), |holds| holds(place))
    }

    fn ignored(&self) -> Vec<String> {
        ["leases.coordination.k8s.io", "events.events.k8s.io", "hostclaimkinds.berth.dev"].map(Into::into).into()
    }

    fn settle(&self) -> Duration {
        self.settle
    }
}

/// The kinds of objects that claims are about, two tenants and their secrets.
fn install(server: &Server) {
    static DEFINITIONS: LazyLock<Vec<Value>> =
        LazyLock::new(|| api::own::crds().iter().map(|definition| json!(definition)).collect());
    server.register(Served::namespaced("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"));
    for namespace in [TENANT, OTHER] {
        server.namespace(namespace);
    }
    let mut objects: Vec<Value> = DEFINITIONS.clone();
    objects.push(secret(TENANT, DATA));
    for object in objects {
        // What the suite itself brings is acceptable; a claim that is not would show itself at once.
        let _ = server.put(object);
    }
}

/// A Secret of a tenant, with every key that claims use.
pub(super) fn secret(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name},
        "data": {
            "userData": "dXNlckRhdGEgb2YgdGhlIHRlbmFudA==",
            "metaData": "bWV0YURhdGEgb2YgdGhlIHRlbmFudA==",
            "networkData": "bmV0d29ya0RhdGEgb2YgdGhlIHRlbmFudA==",
            "value": "dmFsdWUgb2YgdGhlIHRlbmFudA==",
        },
    })
}

/// A claim of the tested kind, with a change to what the kind offers.
pub(super) fn claim<K: Kind>(kind: &K, name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut spec = kind.spec();
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("kind".into(), json!(kind.profile().name));
    }
    let mut claim = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
        "metadata": {"namespace": TENANT, "name": name}, "spec": spec,
    });
    change(&mut claim);
    claim
}

pub(super) fn put(server: &Server, object: Value) -> Check {
    server.put(object).map(drop).map_err(|refused| refused.to_string())
}

pub(super) fn edit(server: &Server, name: &str, change: impl FnOnce(&mut Value)) -> Check {
    server.edit(CLAIMS, TENANT, name, change).map(drop).map_err(|refused| refused.to_string())
}

pub(super) fn get(server: &Server, name: &str) -> Result<Value, String> {
    server.get(CLAIMS, TENANT, name).ok_or_else(|| format!("the claim {name} is gone"))
}

pub(super) fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

/// Everything that exists for one claim.
pub(super) fn owned<K: Kind>(kind: &K, place: &Place<K>, name: &str) -> Result<Vec<Resource>, String> {
    let claim = get(&place.server, name)?;
    Ok(kind.resources(place).into_iter().filter(|resource| resource.claim == uid(&claim)).collect())
}

/// The one thing that exists for a claim.
pub(super) fn sole<K: Kind>(kind: &K, place: &Place<K>, name: &str) -> Result<Resource, String> {
    let mut all = owned(kind, place, name)?;
    let status = || get(&place.server, name).map(|claim| claim["status"].to_string()).unwrap_or_default();
    match (all.pop(), all.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => Err(format!("nothing exists for the claim {name}, whose status is {}", status())),
        (Some(one), false) => Err(format!("the claim {name} has {one:?} and {all:?}")),
    }
}

/// Status and reason of a condition; empty when there is none.
pub(super) fn condition(claim: &Value, type_: &str) -> (String, String) {
    let all = claim["status"]["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|condition| condition["type"] == type_));
    let text = |field: &str| found.and_then(|c| c[field].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// A condition has this status and, unless it is empty, this reason.
pub(super) fn expect(claim: &Value, type_: &str, status: &str, reason: &str) -> Check {
    let found = condition(claim, type_);
    let fits = found.0 == status && (reason.is_empty() || found.1 == reason);
    let at = ObjectKey::namespaced(TENANT, claim["metadata"]["name"].as_str().unwrap_or_default());
    verify(fits, || {
        format!("{type_} of {at} is {}/{}, not {status}/{reason}; status: {}", found.0, found.1, claim["status"])
    })
}

pub(super) fn verify(holds: bool, why: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(why()) }
}
