//! The world that all tests share, and the corner of it that belongs to one test.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use sim::dock::objects::{self, Class};
use sim::dock::oracle::{self, Promise, Promises};
use sim::dock::{self, Provider, Record};
use sim::plane::{self, Manager, Options, Plane, PlaneError};
use sim::wait::seek;
pub use sim::wait::within;
use tokio::sync::OnceCell;

use crate::cluster_api::Logbook;
use crate::fleet::{EXTENSION, Fleet};
use crate::front::Call;
use crate::shared::{self, Beside, Shared};

/// How long anything may take that should happen within a few rounds of Cluster API.
pub const SOON: Duration = Duration::from_secs(120);

/// Everything that runs.
pub struct World {
    pub plane: Plane,
    pub client: Client,
    pub provider: Provider,
    pub record: Record,
    logbook: OnceCell<Logbook>,
    fleet: OnceCell<Fleet>,
    logs: Vec<PathBuf>,
    _managers: [Manager; 2],
}

impl World {
    async fn begin() -> Result<Self, PlaneError> {
        let options = Options { audit_log: Some("audit.log".into()), ..Options::default() };
        let started = tokio::task::spawn_blocking(move || Plane::start_with(options));
        let plane =
            started.await.map_err(|why| PlaneError::Bad { doing: "starting".into(), why: why.to_string() })??;
        // A hundred workers on two cores would keep the one worker of the IPAM provider from the server.
        let few = ["--clustertopology-concurrency=30", "--cluster-concurrency=8"];
        let mut capi = plane::capi_with(&plane, &few).await?;
        let mut ipam = plane::ipam(&plane).await?;
        let client = plane.client().await?;
        plane::install_crds(&client, dock::kinds::definitions()).await?;
        let record = Record::start(&client).await?;
        let provider = Provider::start(&client);
        let logs = vec![capi.process().log().to_owned(), ipam.process().log().to_owned()];
        Ok(Self {
            plane,
            client,
            provider,
            record,
            logbook: OnceCell::new(),
            fleet: OnceCell::new(),
            logs,
            _managers: [capi, ipam],
        })
    }

    /// The extension that says what it is told to say; called for namespaces labelled `hooks: logbook`.
    pub async fn logbook(&self) -> &Logbook {
        self.logbook.get_or_init(|| Logbook::start(&self.plane, &self.client)).await
    }

    /// Berth; called for namespaces labelled `hooks: berth`.
    pub async fn fleet(&self) -> &Fleet {
        self.fleet.get_or_init(|| Fleet::start(&self.plane, &self.client)).await
    }

    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &dock::resource(kind).expect("a kind"))
    }

    /// What Berth asked of the server about a namespace: verb, resource and answer, with how often.
    pub fn requests(&self, namespace: &str) -> BTreeMap<(String, String, u64), usize> {
        let mut counts = BTreeMap::new();
        let requests = self.plane.requests_since(0).expect("the audit log is read");
        for request in requests.into_iter().filter(|r| r.agent.starts_with("berth/") && r.namespace == namespace) {
            *counts.entry((request.verb, request.resource, request.code)).or_default() += 1;
        }
        counts
    }

    pub async fn apply(&self, object: &Value) -> DynamicObject {
        plane::apply(&self.client, object).await.unwrap_or_else(|error| panic!("{error}: {object}"))
    }
}

impl Shared for World {
    fn cell() -> &'static OnceLock<Result<Self, PlaneError>> {
        static WORLD: OnceLock<Result<World, PlaneError>> = OnceLock::new();
        &WORLD
    }

    async fn start() -> Result<Self, PlaneError> {
        Self::begin().await
    }

    fn unfit(&self) -> Option<&'static str> {
        (!self.plane.has_controllers()).then_some("this server runs without a garbage collector")
    }

    fn logs(&self) -> (Vec<PathBuf>, usize) {
        let berth = self.fleet.get().map(Fleet::logs).unwrap_or_default();
        (self.logs.iter().cloned().chain(berth).collect(), 20)
    }
}

/// Runs a test in the shared world, beside others.
pub fn run(test: &str, body: impl AsyncFnOnce(&'static World)) {
    shared::run(test, &Beside::Others, body);
}

/// Runs a test in the shared world while no other runs.
pub fn run_alone(test: &str, body: impl AsyncFnOnce(&'static World)) {
    shared::run(test, &Beside::Nobody, body);
}

/// A namespace of one test, with addresses nobody else uses.
pub struct Corner {
    pub world: &'static World,
    pub namespace: String,
    net: u8,
    promises: Promises,
}

impl Corner {
    /// Makes the namespace; `hooks` names the extension that is called for its clusters.
    pub async fn new(world: &'static World, namespace: &str, hooks: &str) -> Self {
        static NETS: AtomicU8 = AtomicU8::new(1);
        world.apply(&objects::namespace(namespace, &json!({"hooks": hooks}))).await;
        let net = NETS.fetch_add(1, Ordering::Relaxed);
        Self { world, namespace: namespace.to_owned(), net, promises: BTreeMap::new() }
    }

    /// A namespace that Berth looks after, with a class of the same name that uses its external patch.
    pub async fn managed(world: &'static World, name: &str) -> Self {
        world.fleet().await;
        let corner = Self::new(world, name, "berth").await;
        corner.class(&Class::managed(name, name, EXTENSION)).await;
        corner
    }

    /// A cluster of the class that has this corner's name.
    pub fn plan(&self, name: &str) -> Value {
        objects::cluster(&self.namespace, name, &self.namespace)
    }

    /// The same with some fields more.
    pub fn plan_with(&self, name: &str, more: &Value) -> Value {
        objects::merged(self.plan(name), more)
    }

    /// A global control-plane pool for that class.
    pub fn plan_pool(&self, name: &str, range: &str) -> Value {
        objects::pool(name, &self.namespace, &self.range(range))
    }

    /// Addresses of this corner, such as `10-19`.
    pub fn range(&self, range: &str) -> String {
        let (from, to) = range.split_once('-').expect("from and to");
        format!("10.77.{0}.{from}-10.77.{0}.{to}", self.net)
    }

    pub fn address(&self, last: u8) -> String {
        format!("10.77.{}.{last}", self.net)
    }

    /// The same in the other family.
    pub fn range6(&self, range: &str) -> String {
        let (from, to) = range.split_once('-').expect("from and to");
        format!("fd00:77:{0}::{from}-fd00:77:{0}::{to}", self.net)
    }

    /// Installs a class and waits until Cluster API can use it.
    pub async fn class(&self, class: &Class) {
        self.class_of(class.objects()).await;
    }

    pub async fn class_of(&self, objects: Vec<Value>) {
        for object in &objects {
            self.world.apply(object).await;
        }
        let name = objects.last().and_then(|class| class["metadata"]["name"].as_str()).expect("a class").to_owned();
        let classes = self.world.api("ClusterClass", &self.namespace);
        within(SOON, &format!("class {name} is reconciled"), async || {
            let class = classes.get(&name).await.ok()?;
            let observed = class.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
            let ready = condition(&class.data, "VariablesReady").is_some_and(|c| c["status"] == "True");
            (ready && observed == class.metadata.generation).then_some(())
        })
        .await;
    }

    /// Makes a pool and waits until its provider has counted it.
    pub async fn pool(&self, pool: &Value) {
        let applied = self.world.apply(pool).await;
        let kind = pool["kind"].as_str().expect("a kind");
        within(SOON, "the pool is counted", async || self.free(kind, &applied.name_any()).await).await;
    }

    /// How many addresses of a pool are free.
    pub async fn free(&self, kind: &str, name: &str) -> Option<i64> {
        let resource = dock::resource(kind)?;
        let api: Api<DynamicObject> = match kind {
            "InClusterIPPool" => Api::namespaced_with(self.world.client.clone(), &self.namespace, &resource),
            _ => Api::all_with(self.world.client.clone(), &resource),
        };
        api.get(name).await.ok()?.data.pointer("/status/ipAddresses/free")?.as_i64()
    }

    /// Applies a cluster of which this is promised.
    pub async fn create(&mut self, cluster: &Value, promise: Promise) {
        let name = cluster["metadata"]["name"].as_str().expect("a name").to_owned();
        self.promise(&name, promise);
        self.world.apply(cluster).await;
    }

    pub fn promise(&mut self, name: &str, promise: Promise) {
        self.promises.insert((self.namespace.clone(), name.to_owned()), promise);
    }

    pub fn clusters(&self) -> Api<DynamicObject> {
        self.world.api("Cluster", &self.namespace)
    }

    pub async fn cluster(&self, name: &str) -> DynamicObject {
        self.clusters().get(name).await.expect("the cluster is there")
    }

    /// Changes a cluster as its user.
    pub async fn edit(&self, name: &str, patch: &Value) {
        self.clusters().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("edited");
    }

    /// Waits until the cluster's endpoint is complete.
    pub async fn endpoint(&self, name: &str) -> (String, i64) {
        within(SOON, &format!("{}/{name} has an endpoint", self.namespace), async || {
            endpoint(&self.clusters().get(name).await.ok()?.data)
        })
        .await
    }

    /// Waits until Cluster API made the infrastructure cluster, and returns it.
    pub async fn dock(&self, name: &str) -> Value {
        self.part(name, "DockCluster", "/spec/infrastructureRef/name").await
    }

    /// The same for the control plane.
    pub async fn quay(&self, name: &str) -> Value {
        self.part(name, "QuayControlPlane", "/spec/controlPlaneRef/name").await
    }

    async fn part(&self, name: &str, kind: &str, pointer: &str) -> Value {
        let api = self.world.api(kind, &self.namespace);
        within(SOON, &format!("{}/{name} has a {kind}", self.namespace), async || {
            let cluster = self.clusters().get(name).await.ok()?;
            let part = cluster.data.pointer(pointer)?.as_str()?.to_owned();
            Some(api.get(&part).await.ok()?.data)
        })
        .await
    }

    /// Waits until a condition of the cluster is as `wanted` says.
    pub async fn condition(&self, name: &str, kind: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = seek(SOON, async || {
            last = condition(&self.clusters().get(name).await.ok()?.data, kind)?;
            wanted(&last).then(|| last.clone())
        });
        let found = found.await;
        found.unwrap_or_else(|| panic!("{}/{name}: condition {kind} is not as wanted: {last}", self.namespace))
    }

    /// The claim of a cluster, if there is one.
    pub async fn claim(&self, claim: &str) -> Option<DynamicObject> {
        self.world.api("IPAddressClaim", &self.namespace).get_opt(claim).await.expect("claims are read")
    }

    /// Deletes a cluster and waits until it is gone.
    pub async fn delete(&self, name: &str) {
        self.clusters().delete(name, &DeleteParams::default()).await.expect("deleted");
        self.gone(name).await;
    }

    pub async fn gone(&self, name: &str) {
        within(SOON, &format!("{}/{name} is gone", self.namespace), async || {
            self.clusters().get_opt(name).await.ok()?.is_none().then_some(())
        })
        .await;
    }

    /// Waits until no claim and no address is left here.
    pub async fn released(&self) {
        within(SOON, &format!("{}: every claim and address is gone", self.namespace), async || {
            for kind in ["IPAddressClaim", "IPAddress"] {
                if !self.world.api(kind, &self.namespace).list(&ListParams::default()).await.ok()?.items.is_empty() {
                    return None;
                }
            }
            Some(())
        })
        .await;
        let history = self.world.record.history().await.expect("the record is whole");
        assert_eq!(oracle::left_over(&history, &self.namespace), Vec::<String>::new());
    }

    /// The events about a cluster with this reason.
    pub async fn events(&self, name: &str, reason: &str) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.world.client.clone(), &self.namespace);
        let list = events.list(&ListParams::default()).await.expect("events are listed");
        let about = |event: &Event| {
            event.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(name)
                && event.reason.as_deref() == Some(reason)
        };
        list.items.into_iter().filter(about).collect()
    }

    /// Every promise that did not hold so far.
    pub async fn breaches(&self) -> Vec<oracle::Breach> {
        let history = self.world.record.history().await.expect("the record is whole");
        oracle::judge(&history, &self.promises)
    }

    /// Fails when any promise did not hold at any time.
    pub async fn judge(&self) {
        let mut breaches: Vec<String> = self.breaches().await.iter().map(ToString::to_string).collect();
        if let Some(fleet) = self.world.fleet.get() {
            fleet.alive();
            let calls = fleet.front.calls();
            breaches.extend(calls.iter().filter_map(|call| self.wrong_answer(call)));
        }
        assert!(breaches.is_empty(), "{}", breaches.join("\n"));
    }
}

impl Corner {
    /// The gate must open only for a request that shows the whole endpoint, and never answer with anything but success.
    fn wrong_answer(&self, call: &Call) -> Option<String> {
        if !call.is("beforeclustercreate") {
            return None;
        }
        let mine = self.promises.iter().find(|((namespace, name), _)| call.about(namespace, name));
        let (_, promise) = mine.filter(|(_, promise)| **promise != Promise::Untouched)?;
        let opened = call.status == 200 && call.answer["status"] == "Success" && call.retry() == 0;
        let deleting = call.body.pointer("/cluster/metadata/deletionTimestamp").is_some();
        let wrong =
            (opened && !deleting && endpoint(&call.body["cluster"]).is_none()) || call.answer["status"] == "Failure";
        wrong.then(|| format!("gate: {promise:?} {} was answered {}", call.body, call.answer))
    }
}

/// A condition of an object.
pub fn condition(object: &Value, kind: &str) -> Option<Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind).cloned()
}

/// A complete endpoint of a Cluster or DockCluster.
pub fn endpoint(object: &Value) -> Option<(String, i64)> {
    let endpoint = object.pointer("/spec/controlPlaneEndpoint")?;
    let (host, port) = (endpoint.get("host")?.as_str()?, endpoint.get("port")?.as_i64()?);
    (!host.is_empty() && port != 0).then(|| (host.to_owned(), port))
}
