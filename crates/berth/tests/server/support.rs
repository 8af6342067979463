//! One real API server for all tests of this file, and the operator's real binary as a child process.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
pub use sim::plane::Request;
use sim::plane::{self, Plane, PlaneError, Process};
pub use sim::wait::within;
use tokio::sync::{Mutex, MutexGuard};

pub const BERTH: &str = env!("CARGO_BIN_EXE_berth");
/// How long anything may take that should happen at once.
pub const SOON: Duration = Duration::from_secs(90);
const TICK: Duration = Duration::from_millis(100);

/// Looks during all of `window` and fails with what `look` finds.
pub async fn never(window: Duration, what: &str, mut look: impl AsyncFnMut() -> Option<String>) {
    let begun = Instant::now();
    while begun.elapsed() < window {
        if let Some(found) = look().await {
            panic!("{what}: {found}");
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Runs the binary to its end.
pub fn berth(args: &[&str]) -> Output {
    run(BERTH, args)
}

pub fn run(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    // Nothing of the machine's own cluster may leak in: no kubeconfig in the environment or the home directory.
    command.args(args).env_remove("KUBECONFIG").env("HOME", "/nonexistent").stdin(Stdio::null());
    command.output().expect("the binary runs")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The YAML documents that a command prints.
pub fn documents(args: &[&str]) -> Vec<Value> {
    let output = berth(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    let printed = text(&output.stdout);
    let parts = printed.split("---\n").filter(|part| !part.trim().is_empty());
    parts.map(|part| serde_saphyr::from_str(part).expect("YAML")).collect()
}

/// The server, and the right to change it alone.
pub struct World {
    pub plane: &'static Plane,
    pub client: kube::Client,
    _turn: MutexGuard<'static, ()>,
}

impl World {
    /// Waits for this test's turn; `None`, with a notice, where no server is built.
    pub async fn enter(test: &str) -> Option<Self> {
        static TURN: Mutex<()> = Mutex::const_new(());
        static SERVER: OnceLock<Result<Plane, PlaneError>> = OnceLock::new();
        let turn = TURN.lock().await;
        let options = plane::Options { audit_log: Some("audit.log".into()), ..plane::Options::default() };
        let plane = match SERVER.get_or_init(|| Plane::start_with(options)) {
            Ok(plane) => plane,
            Err(error @ PlaneError::NotFound { .. }) if !plane::required() => {
                eprintln!("SKIPPED {test}: {error}");
                return None;
            }
            Err(error) => panic!("{test}: {error}"),
        };
        if plane.pid().is_none() {
            plane.restart().expect("a server that an earlier test stopped starts again");
        }
        let client = plane.client().await.expect("a client");
        Some(Self { plane, client, _turn: turn })
    }

    /// Takes every kind that was installed, their objects and the webhooks away.
    pub async fn bare(&self) {
        self.unregister().await;
        self.unclaimed().await;
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        // Those of others too, which other tests may have left.
        let all = definitions.list(&ListParams::default()).await.expect("definitions are listed");
        for name in all.items.into_iter().filter_map(|definition| definition.metadata.name) {
            let _ = definitions.delete(&name, &DeleteParams::default()).await;
            within(SOON, "the definition is gone", async || {
                definitions.get_opt(&name).await.ok()?.is_none().then_some(())
            })
            .await;
        }
        within(SOON, "the kinds are no longer served", async || {
            let request = http::Request::get("/apis/berth.dev/v1alpha1").body(Vec::new()).ok()?;
            self.client.request::<Value>(request).await.is_err().then_some(())
        })
        .await;
    }

    /// Our kinds are served, and no object of them exists.
    pub async fn installed(&self) {
        plane::install_crds(&self.client, documents(&["crds"])).await.expect("definitions are accepted");
        self.unregister().await;
        self.unclaimed().await;
        self.kinds().delete_collection(&DeleteParams::default(), &ListParams::default()).await.expect("deleted");
        within(SOON, "no kind is left", async || {
            self.kinds().list(&ListParams::default()).await.ok()?.items.is_empty().then_some(())
        })
        .await;
    }

    /// No claim is left; what holds them back is taken away.
    pub async fn unclaimed(&self) {
        let claims = ApiResource::from_gvk(&GroupVersionKind::gvk("metal3.io", "v1alpha1", "HostClaim"));
        let everywhere: Api<DynamicObject> = Api::all_with(self.client.clone(), &claims);
        within(SOON, "no claim is left", async || {
            let found = match everywhere.list(&ListParams::default()).await {
                Ok(list) => list.items,
                Err(kube::Error::Api(status)) if status.code == 404 => return Some(()),
                Err(_) => return None,
            };
            for claim in &found {
                let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
                let name = claim.metadata.name.as_deref().unwrap_or_default();
                let here: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &claims);
                let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                let _ = here.patch(name, &PatchParams::default(), &free).await;
                let _ = here.delete(name, &DeleteParams::default()).await;
            }
            found.is_empty().then_some(())
        })
        .await;
    }

    /// No webhook of ours is known, and the server has noticed.
    pub async fn unregistered(&self) {
        self.unregister().await;
        let request = || {
            let claim = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
                "metadata": {"name": "probe", "namespace": "default"}, "spec": {"online": true}});
            http::Request::post("/apis/metal3.io/v1alpha1/namespaces/default/hostclaims?dryRun=All")
                .header("content-type", "application/json")
                .body(claim.to_string().into_bytes())
        };
        within(SOON, "nobody changes claims any more", async || {
            let stored: Value = self.client.request(request().ok()?).await.ok()?;
            stored["metadata"]["finalizers"].is_null().then_some(())
        })
        .await;
    }

    /// No webhook of ours is known.
    pub async fn unregister(&self) {
        for configurations in self.webhooks() {
            let _ = configurations.delete("berth", &DeleteParams::default()).await;
        }
    }

    /// Webhook configurations of both kinds: those that check and those that fill in defaults.
    pub fn webhooks(&self) -> [Api<DynamicObject>; 2] {
        ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"].map(|kind| {
            let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
            Api::all_with(self.client.clone(), &ApiResource::from_gvk(&gvk))
        })
    }

    /// Waits until every webhook of ours has an authority that the server trusts.
    pub async fn trusted(&self) {
        for configurations in self.webhooks() {
            within(SOON, "the authority is injected into every webhook", async || {
                let found = configurations.get("berth").await.ok()?;
                let hooks = found.data["webhooks"].as_array()?.clone();
                hooks.iter().all(|hook| hook["clientConfig"]["caBundle"].is_string()).then_some(())
            })
            .await;
        }
    }

    pub async fn apply(&self, object: &Value) -> DynamicObject {
        plane::apply(&self.client, object).await.expect("applied")
    }

    pub async fn namespace(&self, name: &str) {
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
    }

    /// Objects of the same kind in the same namespace.
    pub fn like(&self, object: &Value) -> Api<DynamicObject> {
        let object: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
        let types = object.types.as_ref().expect("it says what it is");
        let gvk = GroupVersionKind::try_from(types).expect("a group and a version");
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced_with(self.client.clone(), namespace, &ApiResource::from_gvk(&gvk))
    }

    pub fn kinds(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &kind_resource())
    }

    pub async fn create_kind(&self, name: &str) {
        self.apply(&kind(name, json!({}))).await;
    }

    /// What the kind's controller does every 30 seconds.
    pub async fn heartbeat(&self, name: &str) {
        let now = k8s_openapi::jiff::Timestamp::now();
        let status = json!({"status": {"lastHeartbeat": format!("{now:.0}")}});
        let params = PatchParams { field_manager: Some("controller".to_owned()), ..PatchParams::default() };
        self.kinds().patch_status(name, &params, &Patch::Merge(status)).await.expect("the heartbeat is stored");
    }

    /// The conditions of a kind.
    pub async fn conditions(&self, name: &str) -> Vec<Value> {
        let Ok(object) = self.kinds().get(name).await else { return Vec::new() };
        object.data["status"]["conditions"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until the only condition of a kind is `Available` with this status and reason.
    pub async fn judged(&self, name: &str, status: &str, reason: &str) {
        self.judged_within(SOON, name, status, reason).await;
    }

    pub async fn judged_within(&self, bound: Duration, name: &str, status: &str, reason: &str) {
        within(bound, &format!("{name}: Available={status}/{reason}"), async || {
            let conditions = self.conditions(name).await;
            let [only] = conditions.as_slice() else { return None };
            (only["type"] == "Available" && only["status"] == status && only["reason"] == reason).then_some(())
        })
        .await;
    }

    /// The events about a kind with this reason.
    pub async fn events(&self, name: &str, reason: &str) -> Vec<Event> {
        let events: Api<Event> = Api::all(self.client.clone());
        let list = events.list(&ListParams::default()).await.expect("events are listed");
        let about = |event: &Event| {
            event.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(name)
                && event.reason.as_deref() == Some(reason)
        };
        list.items.into_iter().filter(about).collect()
    }

    /// Waits for the one event about a kind with this reason.
    pub async fn event(&self, name: &str, reason: &str) -> Event {
        let mut found = within(SOON, &format!("an event {reason} on {name}"), async || {
            Some(self.events(name, reason).await).filter(|events| !events.is_empty())
        })
        .await;
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    /// A mark after which nothing is asked any more: the server notes a request a moment after others can see what it did.
    pub async fn quiet(&self) -> usize {
        within(SOON, "nothing is asked any more", async || {
            let mark = self.mark();
            tokio::time::sleep(TICK * 10).await;
            self.requests(mark).iter().all(|request| request.verb == "watch").then_some(mark)
        })
        .await
    }

    /// Where the record of requests ends now.
    pub fn mark(&self) -> usize {
        self.plane.audit_mark().expect("the audit log is read")
    }

    /// What the operator asked of the server since `mark`.
    pub fn requests(&self, mark: usize) -> Vec<Request> {
        let requests = self.plane.requests_since(mark).expect("the audit log is read");
        requests.into_iter().filter(|request| request.agent.starts_with("berth/")).collect()
    }

    /// What the operator wrote since `mark`.
    pub fn writes(&self, mark: usize) -> Vec<Request> {
        self.requests(mark).into_iter().filter(Request::writes).collect()
    }
}

pub fn kind(name: &str, arguments: Value) -> Value {
    json!({"apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimKind", "metadata": {"name": name},
        "spec": {"controllerName": "metal.example.com", "argsSchema": arguments}})
}

fn kind_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("berth.dev", "v1alpha1", "HostClaimKind"))
}

/// A running `berth run`; it ends with this, and its log is shown when the test fails.
pub struct Operator {
    process: Process,
    health: u16,
    _dir: tempfile::TempDir,
}

impl Operator {
    /// Starts it with the administrator's rights.
    pub fn start(world: &World, args: &[&str]) -> Self {
        Self::start_as(&world.plane.kubeconfig_path(), args)
    }

    /// Starts it with a kubeconfig; it has the room `claims` only, and webhooks and metrics are off, unless `args` says
    /// otherwise.
    pub fn start_as(kubeconfig: &Path, args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let health = plane::free_port().expect("a free port");
        let mut command = Command::new(BERTH);
        command.args(["run", "--health-addr", &format!("127.0.0.1:{health}")]);
        command.arg("--kubeconfig").arg(kubeconfig).args(args);
        if !args.contains(&"--metrics-bind-address") {
            command.args(["--metrics-bind-address", "0"]);
        }
        if !args.contains(&"--webhook-port") {
            command.args(["--webhook-port", "0"]);
        }
        if !args.contains(&"--controllers") {
            command.args(["--controllers", "claims"]);
        }
        let process = Process::start("berth", command, &dir.path().join("log"), None).expect("berth starts");
        Self { process, health, _dir: dir }
    }

    /// Waits until it is ready.
    pub async fn ready(&mut self) {
        plane::wait_http(&mut self.process, self.health, "/readyz", SOON).await.expect("berth becomes ready");
    }

    /// The status of `/readyz` and what it says in full; `None` while nobody listens.
    pub async fn readyz(&self) -> Option<(u16, String)> {
        plane::http_get(self.health, "/readyz?verbose").await.ok()
    }

    /// Waits until the full text of `/readyz` contains `part`.
    pub async fn says(&self, part: &str) -> (u16, String) {
        self.says_within(SOON, part).await
    }

    pub async fn says_within(&self, bound: Duration, part: &str) -> (u16, String) {
        within(bound, &format!("/readyz says {part:?}"), async || {
            self.readyz().await.filter(|(_, text)| text.contains(part))
        })
        .await
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.process.pid().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().expect("kill runs");
        assert!(sent.success(), "signal {signal} to {pid}");
    }

    pub fn runs(&mut self) -> bool {
        self.process.ended().is_none()
    }

    /// Waits for its end; `None` when a signal ended it.
    pub async fn exit(&mut self) -> Option<i32> {
        within(SOON, "berth ends", async || self.process.ended()).await.code()
    }

    /// Asks it to end and expects that it does so well.
    pub async fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.exit().await, Some(0));
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.process.stop();
        if std::thread::panicking() {
            eprintln!("--- log of berth ({})\n{}---", self.process.pid(), self.log());
        }
    }
}
