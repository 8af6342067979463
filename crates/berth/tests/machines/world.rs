//! The world that all tests share.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::metal;
use sim::nodes::Nodes;
use sim::plane::{self, Manager, Options, Plane, PlaneError, Process};
use sim::wait::seek;

pub use crate::places::METAL;
use crate::places::{self, Places, runs};
use crate::shared::{self, Beside, Shared, tail};

pub const BERTH: &str = env!("CARGO_BIN_EXE_berth");
/// How long anything may take that should happen within a few looks.
pub const SOON: Duration = Duration::from_secs(180);
pub const CORE: &str = "cluster.x-k8s.io";
pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const READY: Duration = Duration::from_secs(120);

/// Everything that is shared.
pub struct World {
    pub plane: Plane,
    pub client: Client,
    /// The API server of the workload clusters.
    pub workload: (Plane, Client),
    places: Places,
    berth: Mutex<Process>,
    log: PathBuf,
    _capi: Manager,
}

/// The places where machines run are those of the world.
impl Deref for World {
    type Target = Places;

    fn deref(&self) -> &Places {
        &self.places
    }
}

fn started(outcome: Result<Result<Plane, PlaneError>, tokio::task::JoinError>) -> Result<Plane, PlaneError> {
    outcome.map_err(|why| PlaneError::Bad { doing: "starting".into(), why: why.to_string() })?
}

impl World {
    async fn begin() -> Result<Self, PlaneError> {
        let options = Options { audit_log: Some("audit.log".into()), ..Options::default() };
        let first = tokio::task::spawn_blocking(move || Plane::start_with(options));
        let second = tokio::task::spawn_blocking(Plane::start);
        let (first, second) = tokio::join!(first, second);
        let (plane, workload) = (started(first)?, started(second)?);
        let client = plane.client().await?;
        let (webhooks, ca) = (plane::free_port()?, plane.ca()?);
        let mut definitions = documents(&["crds"]);
        definitions.iter_mut().for_each(|definition| plane::webhooks_by_url(definition, webhooks, &ca));
        definitions.extend(plane::aws_network_definitions());
        definitions.extend(metal::kinds::definitions());
        plane::install_crds(&client, definitions).await?;
        let capi = plane::capi_with(&plane, &["--cluster-concurrency=4", "--machine-concurrency=4"]).await?;
        let places = Places::open(&client).await;
        let rules = documents(&["rbac"]);
        let [everywhere, here, system] = rules.as_slice() else { panic!("three lists of rules: {rules:?}") };
        // No more rights than it says it needs.
        let account = plane::account(&plane, "berth-machines", everywhere, here).await?;
        plane::grant(&plane, "berth-machines", "eksa-system", system).await?;
        let kubeconfig = plane.dir().join("berth.kubeconfig");
        std::fs::write(&kubeconfig, account.to_string()).expect("written");
        let log = plane.dir().join("berth.log");
        let berth = Mutex::new(berth(&plane, &client, &places, webhooks, &kubeconfig, &log).await?);
        let inside = workload.client().await?;
        Ok(Self { plane, client, workload: (workload, inside), places, berth, log, _capi: capi })
    }

    /// The objects of a file of the book, with the simulators as the clouds.
    pub fn example(&self, file: &str) -> Vec<Value> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/examples/machines").join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let text = self.own().into_iter().fold(text, |text, (own, made_up)| text.replace(made_up, &own));
        serde_saphyr::from_multiple(&text).unwrap_or_else(|e| panic!("{file}: {e}"))
    }

    /// Applies an object as `kubectl apply --server-side` does.
    pub async fn apply(&self, object: &Value) -> DynamicObject {
        plane::apply(&self.client, object).await.unwrap_or_else(|error| panic!("{error}: {object}"))
    }

    pub async fn apply_all(&self, files: &[&str]) {
        for object in files.iter().flat_map(|file| self.example(file)) {
            self.apply(&object).await;
        }
    }

    /// Makes hosts with this label.
    pub async fn hosts(&self, names: &[&str], size: &str) {
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": METAL}});
        self.apply(&space).await;
        for name in names {
            self.apply(&metal::seed::host(METAL, name, &json!({"size": size}))).await;
        }
    }

    /// Tells Cluster API and Berth how to reach a workload cluster, and plays its kubelets.
    pub async fn enter(&self, namespace: &str, cluster: &str) -> Nodes {
        places::enter(&self.client, &self.workload, namespace, cluster).await
    }

    /// Says that the control plane of a cluster has been there, which is somebody else's here: Cluster API looks for no
    /// node before.
    pub async fn controlled(&self, namespace: &str, cluster: &str) {
        let said = sim::nodes::play_control_plane(self.client.clone(), namespace, cluster);
        tokio::time::timeout(SOON, said).await.expect("in time").expect("the Cluster");
    }

    pub fn api(&self, group: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let version = if group == "metal3.io" { "v1alpha1" } else { "v1beta2" };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    pub async fn list(&self, group: &str, kind: &str, namespace: &str) -> Vec<DynamicObject> {
        self.api(group, kind, namespace).list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default()
    }

    /// The Machines of a group that have become nodes and are not on their way out.
    pub async fn running(&self, namespace: &str, group: &str) -> Vec<DynamicObject> {
        places::machines(&self.client, namespace, group).await.into_iter().filter(runs).collect()
    }

    /// Waits until a group has just so many Machines, all of them nodes.
    pub async fn settled(&self, namespace: &str, group: &str, count: usize) -> Vec<DynamicObject> {
        self.within(&format!("{namespace}/{group} has {count} nodes"), async || {
            let all = places::machines(&self.client, namespace, group).await;
            (all.len() == count && all.iter().all(runs)).then_some(all)
        })
        .await
    }

    pub async fn scale(&self, namespace: &str, group: &str, count: usize) {
        let patch = json!({"spec": {"replicas": count}});
        let groups = self.api(CORE, "MachineDeployment", namespace);
        groups.patch(group, &PatchParams::default(), &Patch::Merge(&patch)).await.expect("scaled");
    }

    /// Deletes a Cluster and waits until nothing of it is left.
    pub async fn delete(&self, namespace: &str, cluster: &str) {
        let clusters = self.api(CORE, "Cluster", namespace);
        let _ = clusters.delete(cluster, &DeleteParams::default()).await.expect("deleted");
        self.within(&format!("{namespace}/{cluster} is gone"), async || {
            clusters.get_opt(cluster).await.ok()?.is_none().then_some(())
        })
        .await;
        for (group, kind) in [
            (CORE, "MachineDeployment"),
            (CORE, "Machine"),
            (INFRASTRUCTURE, "Metal3Machine"),
            (INFRASTRUCTURE, "Metal3Cluster"),
            ("metal3.io", "HostClaim"),
        ] {
            let left = self.list(group, kind, namespace).await;
            let left: Vec<String> = left.into_iter().filter_map(|one| one.metadata.name).collect();
            assert_eq!(left, Vec::<String>::new(), "{kind} is left of {namespace}/{cluster}");
        }
    }

    /// Polls until something is there, and fails with what everybody said.
    pub async fn within<T>(&self, what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
        match seek(SOON, look).await {
            Some(found) => found,
            None => {
                self.show().await;
                panic!("not seen within {SOON:?}: {what}")
            }
        }
    }

    /// What a test that fails wants to know.
    async fn show(&self) {
        for (group, kind) in [
            (CORE, "Cluster"),
            (INFRASTRUCTURE, "Metal3Cluster"),
            (CORE, "MachineHealthCheck"),
            (CORE, "Machine"),
            (INFRASTRUCTURE, "Metal3Machine"),
            ("metal3.io", "HostClaim"),
            ("metal3.io", "BareMetalHost"),
        ] {
            let version = if group == "metal3.io" { "v1alpha1" } else { "v1beta2" };
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
            for object in all.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
                let status = object.data.get("status").cloned().unwrap_or_default();
                eprintln!("--- {kind} {} {status}", object.metadata.name.unwrap_or_default());
            }
        }
        eprintln!("--- the end of Berth's log\n{}", tail(&self.log, 60));
    }

    /// Runs a command with a kubeconfig; as the administrator without one.
    pub fn ask(&self, args: &[&str], kubeconfig: Option<&Path>) -> Output {
        let admin = self.plane.kubeconfig_path();
        let mut command = Command::new(BERTH);
        command.args(args).arg("--kubeconfig").arg(kubeconfig.unwrap_or(&admin));
        command.env("COLUMNS", "160").env("NO_COLOR", "1").stdin(Stdio::null()).output().expect("the binary runs")
    }

    /// What a command that succeeds prints.
    pub fn told(&self, args: &[&str], kubeconfig: Option<&Path>) -> String {
        let output = self.ask(args, kubeconfig);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {error}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// What `berth leaks` prints, with the account of the EC2 simulator.
    pub fn leaks(&self) -> String {
        let mut command = Command::new(BERTH);
        command.args(["leaks", "--kubeconfig"]).arg(self.plane.kubeconfig_path());
        self.ec2.lend(&mut command);
        let output = command.env("COLUMNS", "160").env("NO_COLOR", "1").stdin(Stdio::null()).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Berth still runs, and was refused nothing.
    pub fn judge(&self) {
        let mut berth = self.berth.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(berth.failure().is_none(), "Berth has ended:\n{}", berth.log_tail());
        let text = std::fs::read_to_string(self.plane.dir().join("audit.log")).expect("the audit log is read");
        let part = |line: &Value, at: &str| line.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let refused: Vec<String> = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|line| part(line, "/userAgent").starts_with("berth/"))
            .filter(|line| matches!(line.pointer("/responseStatus/code").and_then(Value::as_u64), Some(401 | 403)))
            .map(|line| format!("{} {}", part(&line, "/verb"), part(&line, "/requestURI")))
            .collect();
        assert_eq!(refused, Vec::<String>::new(), "Berth asked for more than it says it needs");
    }
}

async fn berth(
    plane: &Plane,
    client: &Client,
    Places { ec2, acs, .. }: &Places,
    webhooks: u16,
    kubeconfig: &Path,
    log: &Path,
) -> Result<Process, PlaneError> {
    let health = plane::free_port()?;
    let mut command = Command::new(BERTH);
    command
        .args(["run", "--controllers", "claims,machines,hosts,clusters", "--metrics-bind-address", "0"])
        .args(["--log-level", "info,machines=debug,claims=debug", "--describe-interval", "5s"])
        .args(["--webhook-bind-host", "127.0.0.1", "--webhook-port", &webhooks.to_string(), "--webhook-cert-dir"])
        .arg(plane.webhook_cert_dir()?)
        .args(["--cloudstack-endpoint-allow", acs.endpoint.trim_end_matches("/client/api")])
        .args(["--health-addr", &format!("127.0.0.1:{health}"), "--kubeconfig"])
        .arg(kubeconfig);
    ec2.lend(&mut command);
    let mut process = Process::start("berth", command, log, None)?;
    plane::wait_http(&mut process, health, "/readyz", READY).await?;
    let ca = plane.ca()?;
    for mut configuration in documents(&["webhooks"]) {
        plane::webhooks_by_url(&mut configuration, webhooks, &ca);
        plane::apply(client, &configuration).await?;
    }
    Ok(process)
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
}

/// Runs a test in the shared world, beside others.
pub fn run(test: &str, body: impl AsyncFnOnce(&'static World)) {
    shared::run(test, &Beside::Others, body);
}

/// Runs the binary to its end and reads the documents it prints.
fn documents(args: &[&str]) -> Vec<Value> {
    let output = Command::new(BERTH).args(args).stdin(Stdio::null()).output().expect("the binary runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let parts = printed.split("---\n").filter(|part| !part.trim().is_empty());
    parts.map(|part| serde_saphyr::from_str(part).expect("YAML")).collect()
}
