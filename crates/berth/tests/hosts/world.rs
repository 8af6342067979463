//! The world that all tests share, and the corner of it that belongs to one test.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::ec2;
use sim::ec2::world::instance::InstanceState;
use sim::ec2::world::oracle::{HostFacts, InstanceFacts};
use sim::ec2::world::settings::Delays;
use sim::plane::{self, Manager, Options, Plane, PlaneError, Process};
pub use sim::wait::within;

use crate::shared::{self, Beside, Shared, tail};

pub const BERTH: &str = env!("CARGO_BIN_EXE_berth");
/// How long anything may take that should happen within a few looks of the room.
pub const SOON: Duration = Duration::from_secs(180);
pub const REGION: &str = "us-west-2";
pub const ZONE: &str = "us-west-2a";
pub const CORE: &str = "cluster.x-k8s.io";
pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
/// The one cluster of a corner.
pub const CLUSTER: &str = "prod";
const VERSION: &str = "v1beta2";
const READY: Duration = Duration::from_secs(120);

/// Everything that is shared.
pub struct World {
    pub plane: Plane,
    pub client: Client,
    kubeconfig: PathBuf,
    _capi: Manager,
}

impl World {
    async fn begin() -> Result<Self, PlaneError> {
        let options = Options { audit_log: Some("audit.log".into()), ..Options::default() };
        let started = tokio::task::spawn_blocking(move || Plane::start_with(options));
        let plane =
            started.await.map_err(|why| PlaneError::Bad { doing: "starting".into(), why: why.to_string() })??;
        let client = plane.client().await?;
        let mut definitions = documents(&["crds"]);
        definitions.extend(plane::aws_network_definitions());
        plane::install_crds(&client, definitions).await?;
        let capi = plane::capi_with(&plane, &["--cluster-concurrency=4", "--machine-concurrency=4"]).await?;
        let rules = documents(&["rbac"]);
        let [everywhere, here, _] = rules.as_slice() else { panic!("three lists of rules: {rules:?}") };
        // No more rights than it says it needs.
        let account = plane::account(&plane, "berth-hosts", everywhere, here).await?;
        let kubeconfig = plane.dir().join("berth.kubeconfig");
        std::fs::write(&kubeconfig, account.to_string()).expect("written");
        let own = json!({"apiVersion": format!("{INFRASTRUCTURE}/{VERSION}"), "kind": "AWSClusterControllerIdentity",
            "metadata": {"name": "everybody"}, "spec": {"allowedNamespaces": {}}});
        plane::apply(&client, &own).await?;
        Ok(Self { plane, client, kubeconfig, _capi: capi })
    }

    pub async fn apply(&self, object: &Value) -> DynamicObject {
        plane::apply(&self.client, object).await.unwrap_or_else(|error| panic!("{error}: {object}"))
    }

    /// What Berth asked of the server about a namespace and was refused.
    pub fn refused(&self, namespace: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.plane.dir().join("audit.log")).expect("the audit log is read");
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let part =
            |line: &Value, pointer: &str| line.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        lines
            .filter(|line| part(line, "/userAgent").starts_with("berth/"))
            .filter(|line| ["", namespace].contains(&part(line, "/objectRef/namespace").as_str()))
            .filter(|line| matches!(line.pointer("/responseStatus/code").and_then(Value::as_u64), Some(401 | 403)))
            .map(|line| format!("{} {}", part(&line, "/verb"), part(&line, "/requestURI")))
            .collect()
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
}

/// Runs a test in the shared world, beside others.
pub fn run(test: &str, body: impl AsyncFnOnce(&'static World)) {
    shared::run(test, &Beside::Others, body);
}

/// Runs the binary to its end and reads the documents it prints.
pub fn documents(args: &[&str]) -> Vec<Value> {
    let output = Command::new(BERTH).args(args).stdin(Stdio::null()).output().expect("the binary runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let parts = printed.split("---\n").filter(|part| !part.trim().is_empty());
    parts.map(|part| serde_saphyr::from_str(part).expect("YAML")).collect()
}

/// A namespace, an account and a Berth of one test.
pub struct Corner {
    pub world: &'static World,
    pub namespace: &'static str,
    pub ec2: ec2::Handle,
    berth: Option<Process>,
    health: u16,
    starts: usize,
}

impl Corner {
    /// Makes a namespace with a cluster whose network is there, an account, and a Berth for both.
    pub async fn new(world: &'static World, namespace: &'static str) -> Self {
        Self::with(world, namespace, ec2::Options::default()).await
    }

    /// The same with an account of a certain kind. Nothing in it takes time.
    pub async fn with(world: &'static World, namespace: &'static str, options: ec2::Options) -> Self {
        let mut corner = Self::empty(world, namespace, options).await;
        corner.network().await;
        corner.start(&["--watch-filter", namespace]).await;
        corner
    }

    /// A namespace without anything in it, and a Berth that looks at nothing else.
    pub async fn bare(world: &'static World, namespace: &'static str) -> Self {
        let mut corner = Self::empty(world, namespace, ec2::Options::default()).await;
        corner.start(&["--namespace", namespace]).await;
        corner
    }

    async fn empty(world: &'static World, namespace: &'static str, mut options: ec2::Options) -> Self {
        let now = Duration::ZERO;
        options.settings.delays =
            Delays { allocate: now, launch: now, shut_down: now, vacate: now, ..options.settings.delays };
        options.settings.host_quota = 20;
        // Ids are unique among all accounts; equal seeds would give every account the same ones.
        options.seed = namespace.bytes().fold(1, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let ec2 = ec2::start(options).await.expect("the simulator starts");
        let health = plane::free_port().expect("a free port");
        world.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await;
        Self { world, namespace, ec2, berth: None, health, starts: 0 }
    }

    /// Starts Berth for this corner again.
    pub async fn again(&mut self) {
        self.start(&["--watch-filter", self.namespace]).await;
    }

    /// Starts Berth, with further flags.
    async fn start(&mut self, more: &[&str]) {
        let mut command = Command::new(BERTH);
        command
            .args(["run", "--controllers", "hosts", "--metrics-bind-address", "0", "--webhook-port", "0"])
            .args(["--log-level", "info,hosts=debug", "--describe-interval", "5s"])
            .arg("--kubeconfig")
            .arg(&self.world.kubeconfig)
            .args(["--health-addr", &format!("127.0.0.1:{}", self.health)])
            .args(more);
        self.ec2.lend(&mut command);
        self.starts += 1;
        let log = self.log();
        let mut process = Process::start("berth", command, &log, None).expect("Berth starts");
        plane::wait_http(&mut process, self.health, "/readyz", READY).await.expect("Berth is ready");
        self.berth = Some(process);
    }

    fn log(&self) -> PathBuf {
        self.world.plane.dir().join(format!("{}-{}.log", self.namespace, self.starts))
    }

    /// The lines of the log with these words, of the Berth that was started last.
    pub fn logged(&self, words: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.log()).expect("the log is read");
        log.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    }

    /// Kills Berth without a chance to say goodbye.
    pub async fn kill(&mut self) {
        let mut berth = self.berth.take().expect("Berth runs");
        let pid = berth.pid().to_string();
        assert!(Command::new("kill").args(["-s", "KILL", &pid]).status().expect("kill runs").success());
        within(READY, "it is dead", async || berth.ended()).await;
    }

    /// Runs a command that asks AWS, as the administrator.
    pub fn ask(&self, args: &[&str]) -> Output {
        let mut command = self.command(args);
        self.ec2.lend(&mut command);
        command.output().expect("the binary runs")
    }

    /// Of those that never talk to the cloud.
    pub fn ask_the_server(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the binary runs")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BERTH);
        command.args(args).arg("--kubeconfig").arg(self.world.plane.kubeconfig_path());
        command.env("COLUMNS", "120").env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    /// A cluster with the network that its administrator made.
    async fn network(&self) {
        let subnet = |public| {
            let id = self.ec2.subnet(REGION, ZONE, public).expect("a subnet");
            json!({"id": id, "availabilityZone": ZONE, "isPublic": public})
        };
        let groups: BTreeMap<&str, Value> =
            ["node", "lb", "controlplane"].into_iter().map(|role| (role, json!({"id": self.group(role)}))).collect();
        self.world
            .apply(&self.infrastructure(
                "AWSCluster",
                CLUSTER,
                &json!({
                    "region": REGION, "sshKeyName": "", "controlPlaneEndpoint": {"host": "api.example", "port": 6443},
                    "identityRef": {"kind": "AWSClusterControllerIdentity", "name": "everybody"},
                    "network": {"subnets": [subnet(true), subnet(false)]},
                }),
            ))
            .await;
        let found = json!({"status": {"networkStatus": {"securityGroups": groups, "apiServerElb": {"dnsName": "api.example"}}}});
        let networks = self.api(INFRASTRUCTURE, "AWSCluster");
        networks.patch_status(CLUSTER, &PatchParams::default(), &Patch::Merge(&found)).await.expect("stored");
        let reference = json!({"apiGroup": INFRASTRUCTURE, "kind": "AWSCluster", "name": CLUSTER});
        self.world
            .apply(&json!({"apiVersion": format!("{CORE}/{VERSION}"), "kind": "Cluster",
                "metadata": {"name": CLUSTER, "namespace": self.namespace}, "spec": {"infrastructureRef": reference}}))
            .await;
        self.provision(CLUSTER).await;
    }

    /// Reports the network of a cluster, and waits until Cluster API has noticed.
    pub async fn provision(&self, name: &str) {
        let status = json!({"status": {"ready": true, "initialization": {"provisioned": true}}});
        let networks = self.api(INFRASTRUCTURE, "AWSCluster");
        networks.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.expect("stored");
        let clusters = self.api(CORE, "Cluster");
        within(SOON, "the infrastructure is provisioned", async || {
            let cluster = clusters.get(name).await.ok()?;
            (cluster.data.pointer("/status/initialization/infrastructureProvisioned")? == true).then_some(())
        })
        .await;
    }

    pub fn group(&self, name: &str) -> String {
        self.ec2.with(|world, now| {
            let place = world.place(&self.ec2.account, REGION, now).expect("a region");
            place.groups.values().find(|group| group.name == name).expect("a group").id.clone()
        })
    }

    fn infrastructure(&self, kind: &str, name: &str, spec: &Value) -> Value {
        let labels = json!({"cluster.x-k8s.io/watch-filter": self.namespace, "cluster.x-k8s.io/cluster-name": CLUSTER});
        json!({"apiVersion": format!("{INFRASTRUCTURE}/{VERSION}"), "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels}, "spec": spec})
    }

    pub fn api(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, VERSION, kind));
        Api::namespaced_with(self.world.client.clone(), self.namespace, &resource)
    }

    pub fn machines(&self) -> Api<DynamicObject> {
        self.api(INFRASTRUCTURE, "AWSMachine")
    }

    pub fn owners(&self) -> Api<DynamicObject> {
        self.api(CORE, "Machine")
    }

    /// Makes a Machine with bootstrap data, and the AWSMachine that it names.
    pub async fn create(&self, name: &str, instance_type: &str, hosts: &Value) {
        let image = self.ec2.image(REGION, "x86_64").expect("an image");
        let spec = json!({"instanceType": instance_type, "ami": {"id": image}, "dynamicHostAllocation": hosts,
            "cloudInit": {"insecureSkipSecretsManager": true}});
        self.world
            .apply(
                &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": self.namespace},
                "stringData": {"value": "#cloud-config\n"}}),
            )
            .await;
        self.world.apply(&self.infrastructure("AWSMachine", name, &spec)).await;
        let reference = json!({"apiGroup": INFRASTRUCTURE, "kind": "AWSMachine", "name": name});
        self.world
            .apply(&json!({"apiVersion": format!("{CORE}/{VERSION}"), "kind": "Machine",
                "metadata": {"name": name, "namespace": self.namespace}, "spec": {
                    "clusterName": CLUSTER, "version": "v1.34.1", "bootstrap": {"dataSecretName": name},
                    "infrastructureRef": reference}}))
            .await;
    }

    /// Waits until Cluster API calls the machine provisioned, and returns the AWSMachine.
    pub async fn provisioned(&self, name: &str) -> DynamicObject {
        within(SOON, &format!("{}/{name} is provisioned", self.namespace), async || {
            let owner = self.owners().get(name).await.ok()?;
            (owner.data.pointer("/status/initialization/infrastructureProvisioned")? == true).then_some(())
        })
        .await;
        self.machines().get(name).await.expect("the machine is there")
    }

    /// Waits until a condition of the AWSMachine has this reason, and returns it.
    pub async fn condition(&self, name: &str, kind: &str, reason: &str) -> Value {
        within(SOON, &format!("{}/{name}: {kind} is {reason}", self.namespace), async || {
            let machine = self.machines().get(name).await.ok()?;
            let all = machine.data.pointer("/status/conditions")?.as_array()?.clone();
            all.into_iter().find(|condition| condition["type"] == kind && condition["reason"] == reason)
        })
        .await
    }

    /// The journal of a machine's hosts.
    pub async fn journal(&self, name: &str) -> Value {
        let machine = self.machines().get(name).await.expect("the machine is there");
        let text = machine.metadata.annotations.unwrap_or_default().remove("hosts.berth.dev/allocation");
        serde_json::from_str(&text.expect("a journal")).expect("JSON")
    }

    /// Deletes an object and waits until it is gone.
    pub async fn delete(&self, api: &Api<DynamicObject>, name: &str) {
        let _ = api.delete(name, &DeleteParams::default()).await.expect("deleted");
        self.gone(api, name).await;
    }

    pub async fn gone(&self, api: &Api<DynamicObject>, name: &str) {
        within(SOON * 2, &format!("{}/{name} is gone", self.namespace), async || {
            api.get_opt(name).await.ok()?.is_none().then_some(())
        })
        .await;
    }

    /// Hosts that are paid for.
    pub fn paid(&self) -> Vec<HostFacts> {
        self.ec2.hosts().into_iter().filter(|host| !host.state.is_released()).collect()
    }

    /// Instances that are not on their way out.
    pub fn alive(&self) -> Vec<InstanceFacts> {
        let gone = |state| matches!(state, InstanceState::ShuttingDown | InstanceState::Terminated);
        self.ec2.instances().into_iter().filter(|instance| !gone(instance.state)).collect()
    }

    /// How many requests of an operation came and had an effect.
    pub fn done(&self, action: &str) -> usize {
        let log = self.ec2.log();
        log.iter()
            .filter(|e| e.action == action && (e.status == 200 || e.status == 0) && e.parameter("DryRun").is_none())
            .count()
    }

    /// Nothing is left, and Berth was refused nothing.
    pub fn judge(&self) {
        assert!(self.paid().is_empty(), "still paid for: {:?}", self.paid());
        assert!(self.alive().is_empty(), "still running: {:?}", self.alive());
        assert_eq!(self.world.refused(self.namespace), Vec::<String>::new());
        let allowed = hosts::iam::actions();
        for entry in self.ec2.log().iter().filter(|entry| entry.service == "ec2") {
            let action = format!("ec2:{}", entry.action);
            assert!(allowed.contains(&action.as_str()), "the policy that we print does not allow {action}");
        }
    }
}

impl Drop for Corner {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for number in 1..=self.starts {
                let path = self.world.plane.dir().join(format!("{}-{number}.log", self.namespace));
                eprintln!("--- the end of {}\n{}", path.display(), tail(&path, 40));
            }
            for entry in self.ec2.log() {
                eprintln!("  ec2 {} {} {}", entry.action, entry.status, entry.code);
            }
        }
    }
}
