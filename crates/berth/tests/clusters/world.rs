//! The world that all tests share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::cloudstack;
use sim::cloudstack::world::machine::State;
use sim::cloudstack::world::oracle::MachineFacts;
use sim::plane::{self, Manager, Options, Plane, PlaneError, Process};
use sim::provider::Provider;
use sim::wait::seek;
use tokio::runtime::Runtime;

pub use crate::ground::REAL;
use crate::ground::{Ground, own};

pub const BERTH: &str = env!("CARGO_BIN_EXE_berth");
/// How long anything may take that should happen within a few looks.
pub const SOON: Duration = Duration::from_secs(120);
/// How long machines may take to come or go.
pub const LATER: Duration = Duration::from_secs(300);
/// The group of the kinds that users write.
pub const ANYWHERE: &str = "anywhere.eks.amazonaws.com";
/// The namespace of everything that is generated.
pub const SYSTEM: &str = "eksa-system";
const READY: Duration = Duration::from_secs(120);

/// Everything that is shared.
pub struct World {
    pub plane: Plane,
    pub client: Client,
    pub acs: cloudstack::Handle,
    pub provider: Provider,
    berth: Mutex<Process>,
    log: PathBuf,
    _managers: [Manager; 3],
}

impl World {
    async fn start() -> Result<Self, PlaneError> {
        let options = Options { audit_log: Some("audit.log".into()), ..Options::default() };
        let started = tokio::task::spawn_blocking(move || Plane::start_with(options));
        let plane =
            started.await.map_err(|why| PlaneError::Bad { doing: "starting".into(), why: why.to_string() })??;
        let client = plane.client().await?;
        plane::install_crds(&client, documents(&["crds"])).await?;
        let Ground { acs, provider, managers } = Ground::lay(&plane, &client).await?;
        for file in ["namespaces.yaml", "release.yaml"] {
            for object in example(file, &acs) {
                plane::apply(&client, &object).await?;
            }
        }
        let rules = documents(&["rbac"]);
        let [everywhere, here, system] = rules.as_slice() else { panic!("three lists of rules: {rules:?}") };
        // No more rights than it says it needs.
        let account = plane::account(&plane, "berth-clusters", everywhere, here).await?;
        plane::grant(&plane, "berth-clusters", SYSTEM, system).await?;
        let kubeconfig = plane.dir().join("berth.kubeconfig");
        std::fs::write(&kubeconfig, account.to_string()).expect("written");
        let log = plane.dir().join("berth.log");
        let berth = Mutex::new(berth(&plane, &client, &acs.endpoint, &kubeconfig, &log).await?);
        let world = Self { plane, client, acs, provider, berth, log, _managers: managers };
        for file in ["management.yaml", "credentials.yaml"] {
            world.apply_all(&world.example(file)).await;
        }
        Ok(world)
    }

    /// The objects of a file of the book, with the simulator as the CloudStack.
    pub fn example(&self, file: &str) -> Vec<Value> {
        example(file, &self.acs)
    }

    /// The same for another cluster in another namespace.
    pub fn example_for(&self, file: &str, namespace: &str, name: &str, host: &str) -> Vec<Value> {
        let text = text(file, &self.acs);
        let text = text.replace("namespace: team-a", &format!("namespace: {namespace}"));
        let text = text
            .replace("name: prod-1-31", &format!("name: {name}-1-31"))
            .replace("name: prod\n", &format!("name: {name}\n"));
        let text = text.replace("host: 192.0.2.10", &format!("host: {host}"));
        serde_saphyr::from_multiple(&text).unwrap_or_else(|e| panic!("{file}: {e}"))
    }

    /// Applies an object as `kubectl apply --server-side` does.
    pub async fn apply(&self, object: &Value) -> DynamicObject {
        plane::apply(&self.client, object).await.unwrap_or_else(|error| panic!("{error}: {object}"))
    }

    pub async fn apply_all(&self, objects: &[Value]) {
        for object in objects {
            self.apply(object).await;
        }
    }

    pub async fn namespace(&self, name: &str) {
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
    }

    pub fn api(&self, (group, version, kind): (&str, &str, &str), namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    /// A kind that users write.
    pub fn own(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        self.api((ANYWHERE, "v1alpha1", kind), namespace)
    }

    /// A kind that is generated.
    pub fn generated(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "KubeadmControlPlane" => ("controlplane.cluster.x-k8s.io", "v1beta2"),
            "KubeadmConfigTemplate" | "KubeadmConfig" => ("bootstrap.cluster.x-k8s.io", "v1beta2"),
            "CloudStackCluster" | "CloudStackMachineTemplate" | "CloudStackMachine" => {
                ("infrastructure.cluster.x-k8s.io", "v1beta3")
            }
            "Secret" => ("", "v1"),
            _ => ("cluster.x-k8s.io", "v1beta2"),
        };
        self.api((group, version, kind), SYSTEM)
    }

    /// Everything of a kind that belongs to a cluster.
    pub async fn of_cluster(&self, kind: &str, cluster: &str) -> Vec<DynamicObject> {
        let params = ListParams::default().labels(&format!("cluster.x-k8s.io/cluster-name={cluster}"));
        self.generated(kind).list(&params).await.unwrap_or_else(|e| panic!("listing {kind}: {e}")).items
    }

    /// Polls until something is there, and fails with what Berth and the provider said.
    pub async fn within<T>(&self, bound: Duration, what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
        match seek(bound, look).await {
            Some(found) => found,
            None => {
                self.show().await;
                panic!("not seen within {bound:?}: {what}")
            }
        }
    }

    /// What a test that fails wants to know.
    async fn show(&self) {
        eprintln!("--- the end of Berth's log\n{}", tail(&self.log, 60));
        eprintln!("--- what the provider could not do\n{}", self.provider.complaints().join("\n"));
        let clusters: Api<DynamicObject> = Api::all_with(
            self.client.clone(),
            &ApiResource::from_gvk(&GroupVersionKind::gvk(ANYWHERE, "v1alpha1", "Cluster")),
        );
        for cluster in clusters.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            let status = cluster.data.get("status").cloned().unwrap_or_default();
            eprintln!("--- {} {status:#}", cluster.metadata.name.unwrap_or_default());
        }
        for kind in ["Cluster", "KubeadmControlPlane", "MachineDeployment", "Machine"] {
            for object in self.generated(kind).list(&ListParams::default()).await.map(|l| l.items).unwrap_or_default() {
                let status = object.data.get("status").cloned().unwrap_or_default();
                eprintln!("--- {kind} {} {status}", object.metadata.name.unwrap_or_default());
            }
        }
    }

    /// Waits until a condition of a Cluster has this status.
    pub async fn condition(&self, namespace: &str, name: &str, (kind, status): (&str, &str)) -> Value {
        let clusters = self.own("Cluster", namespace);
        let what = format!("{namespace}/{name}: {kind} is {status}");
        self.within(LATER, &what, async || {
            let cluster = clusters.get_opt(name).await.ok()??;
            let all = cluster.data.pointer("/status/conditions")?.as_array()?.clone();
            all.into_iter().find(|one| one["type"] == kind && one["status"] == status)
        })
        .await
    }

    /// Waits until everything that the user wrote is carried out, and returns the Cluster.
    pub async fn settled(&self, namespace: &str, name: &str) -> DynamicObject {
        let clusters = self.own("Cluster", namespace);
        self.within(LATER, &format!("{namespace}/{name} is ready as it is written"), async || {
            let cluster = clusters.get_opt(name).await.ok()??;
            let status = cluster.data.get("status")?;
            let ready = status["conditions"].as_array()?.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
            (ready && status["reconciledGeneration"].as_i64() == cluster.metadata.generation).then_some(cluster)
        })
        .await
    }

    /// Waits until a Cluster says this failure; returns its message.
    pub async fn failure(&self, namespace: &str, name: &str, reason: &str) -> String {
        let clusters = self.own("Cluster", namespace);
        self.within(SOON, &format!("{namespace}/{name} fails for {reason}"), async || {
            let cluster = clusters.get_opt(name).await.ok()??;
            let status = cluster.data.get("status")?;
            (status["failureReason"] == reason)
                .then(|| status["failureMessage"].as_str().unwrap_or_default().to_owned())
        })
        .await
    }

    /// Deletes a Cluster and waits until nothing of it is left, in the management cluster and in CloudStack.
    pub async fn delete(&self, namespace: &str, name: &str) {
        let clusters = self.own("Cluster", namespace);
        let _ = clusters.delete(name, &DeleteParams::default()).await.expect("deleted");
        self.within(LATER, &format!("{namespace}/{name} is gone"), async || {
            clusters.get_opt(name).await.ok()?.is_none().then_some(())
        })
        .await;
        for kind in [
            "Cluster",
            "CloudStackCluster",
            "CloudStackMachineTemplate",
            "CloudStackMachine",
            "KubeadmControlPlane",
            "KubeadmConfigTemplate",
            "MachineDeployment",
            "MachineHealthCheck",
            "Machine",
        ] {
            let left: Vec<String> =
                self.of_cluster(kind, name).await.into_iter().filter_map(|one| one.metadata.name).collect();
            assert_eq!(left, Vec::<String>::new(), "{kind} is left of {namespace}/{name}");
        }
        assert_eq!(self.virtual_machines(name), [], "virtual machines are left of {namespace}/{name}");
    }

    /// The virtual machines of a cluster that are not gone.
    pub fn virtual_machines(&self, cluster: &str) -> Vec<MachineFacts> {
        let mut all = self.acs.machines();
        let prefix = format!("{cluster}-");
        all.retain(|machine| machine.state != State::Gone && machine.name.starts_with(&prefix));
        all
    }

    /// Runs a command as the administrator.
    pub fn ask(&self, args: &[&str]) -> Output {
        let mut command = Command::new(BERTH);
        command.args(args).arg("--kubeconfig").arg(self.plane.kubeconfig_path());
        command.env("COLUMNS", "160").env("NO_COLOR", "1").stdin(Stdio::null()).output().expect("the binary runs")
    }

    /// What a command that succeeds prints.
    pub fn told(&self, args: &[&str]) -> String {
        let output = self.ask(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {error}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// What `berth plan --live` tells of the one cluster that these objects change.
    pub fn plan(&self, objects: &[Value]) -> Value {
        let file = self.plane.dir().join("plan.yaml");
        let text: Vec<String> = objects.iter().map(|object| format!("---\n{object}\n")).collect();
        std::fs::write(&file, text.concat()).expect("written");
        let args = ["--live", "--enable-api-server-extra-args", "-o", "json", "-f", file.to_str().expect("UTF-8")];
        let told = self.told(&[&["plan"], args.as_slice()].concat());
        let document: Value = serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"));
        assert_eq!(document["items"].as_array().map(Vec::len), Some(1), "{document}");
        document["items"][0].clone()
    }

    /// Berth still runs, was refused nothing, and told no secret.
    pub async fn judge(&self) {
        {
            let mut berth = self.berth.lock().unwrap_or_else(PoisonError::into_inner);
            assert!(berth.failure().is_none(), "Berth has ended:\n{}", berth.log_tail());
        }
        let log = std::fs::read_to_string(&self.log).expect("the log is read");
        assert!(log.contains("clusters"), "the log says something: {log}");
        let events = Api::<Event>::all(self.client.clone()).list(&ListParams::default()).await.expect("events");
        let events: Vec<String> = events.items.into_iter().filter_map(|event| event.note).collect();
        assert!(!events.is_empty(), "events tell something");
        let public = self.acs.api_key.as_str();
        let keys = [self.acs.secret_key.as_str(), public, "a-canary", "-of-the-user", "client-key-data", "signature="];
        for key in keys {
            let told = log.lines().chain(events.iter().map(String::as_str)).find(|line| line.contains(key));
            assert!(told.is_none(), "the log or an event holds {key:?}: {told:?}");
        }
        let refused: Vec<String> = requests(&self.plane.dir().join("audit.log"))
            .into_iter()
            .filter(|request| request.agent.starts_with("berth/") && matches!(request.code, 401 | 403))
            .map(|request| format!("{} {}/{}/{}", request.verb, request.resource, request.namespace, request.name))
            .collect();
        assert_eq!(refused, Vec::<String>::new(), "Berth asked for more than it says it needs");
    }

    /// Every request about the management cluster so far.
    pub fn requests(&self) -> Vec<Asked> {
        requests(&self.plane.dir().join("audit.log"))
    }
}

async fn berth(
    plane: &Plane,
    client: &Client,
    endpoint: &str,
    kubeconfig: &Path,
    log: &Path,
) -> Result<Process, PlaneError> {
    let (health, webhooks) = (plane::free_port()?, plane::free_port()?);
    let mut command = Command::new(BERTH);
    command
        .args(["run", "--controllers", "clusters", "--metrics-bind-address", "0", "--log-level", "info,clusters=debug"])
        .args(["--webhook-bind-host", "127.0.0.1", "--webhook-port", &webhooks.to_string(), "--webhook-cert-dir"])
        .arg(plane.webhook_cert_dir()?)
        .args(["--cloudstack-endpoint-allow", endpoint.trim_end_matches("/client/api")])
        .arg("--enable-api-server-extra-args")
        // Nobody is there: neither the server nor clusters are called through it, nor what is on this machine.
        .envs(["HTTP_PROXY", "HTTPS_PROXY"].map(|name| (name, "http://127.0.0.1:1")))
        .args(["--health-addr", &format!("127.0.0.1:{health}"), "--kubeconfig"])
        .arg(kubeconfig);
    let mut process = Process::start("berth", command, log, None)?;
    plane::wait_http(&mut process, health, "/readyz", READY).await?;
    let ca = plane.ca()?;
    for mut configuration in documents(&["webhooks"]) {
        plane::webhooks_by_url(&mut configuration, webhooks, &ca);
        plane::apply(client, &configuration).await?;
    }
    Ok(process)
}

fn text(file: &str, acs: &cloudstack::Handle) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/examples/clusters").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    own(acs).into_iter().fold(text, |text, (own, made_up)| text.replace(made_up, own))
}

fn example(file: &str, acs: &cloudstack::Handle) -> Vec<Value> {
    serde_saphyr::from_multiple(&text(file, acs)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// A request in an audit log.
#[derive(Debug)]
pub struct Asked {
    /// Its moment, in a form that orders as text.
    pub at: String,
    pub agent: String,
    pub verb: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub code: u64,
}

impl Asked {
    /// Whether it changed something.
    pub fn writes(&self) -> bool {
        ["create", "update", "patch", "delete"].contains(&self.verb.as_str()) && self.code < 300
    }
}

/// Every request of an audit log.
pub fn requests(path: &Path) -> Vec<Asked> {
    let text = std::fs::read_to_string(path).expect("the audit log is read");
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let all = lines.map(|line| {
        let part = |pointer: &str| line.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Asked {
            at: part("/requestReceivedTimestamp"),
            agent: part("/userAgent"),
            verb: part("/verb"),
            resource: part("/objectRef/resource"),
            namespace: part("/objectRef/namespace"),
            name: part("/objectRef/name"),
            code: line.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
        }
    });
    all.collect()
}

/// All tests live in one runtime: what they share must outlive each of them.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
    })
}

/// Runs a test in the shared world; says so and does nothing where that is not built.
pub fn run(test: &str, body: impl AsyncFnOnce(&'static World)) {
    static WORLD: OnceLock<Result<World, PlaneError>> = OnceLock::new();
    match WORLD.get_or_init(|| runtime().block_on(World::start())) {
        Ok(world) if !world.plane.has_controllers() => {
            eprintln!("SKIPPED {test}: this server runs without a garbage collector");
        }
        Ok(world) => runtime().block_on(body(world)),
        Err(error @ (PlaneError::NotFound { .. } | PlaneError::NotBuilt { .. })) if !plane::required() => {
            eprintln!("SKIPPED {test}: {error}");
        }
        Err(error) => panic!("{test}: {error}"),
    }
}

/// Runs the binary to its end and reads the documents it prints.
fn documents(args: &[&str]) -> Vec<Value> {
    let output = Command::new(BERTH).args(args).stdin(Stdio::null()).output().expect("the binary runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let parts = printed.split("---\n").filter(|part| !part.trim().is_empty());
    parts.map(|part| serde_saphyr::from_str(part).expect("YAML")).collect()
}

fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let kept: Vec<&str> = text.lines().rev().take(lines).collect();
    kept.into_iter().rev().map(|line| format!("  {}\n", line.chars().take(700).collect::<String>())).collect()
}
