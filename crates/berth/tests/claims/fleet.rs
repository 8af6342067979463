//! Processes of the real binary, with exactly the rights that it prints.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use sim::plane::{self, Plane, Process};
use sim::wait::within;

const BERTH: &str = env!("CARGO_BIN_EXE_berth");
/// Namespace, account and lease namespace of Berth.
const HOME: &str = "berth-claims";
const READY: Duration = Duration::from_secs(120);

/// The name of the account in the server's record.
pub fn user() -> String {
    format!("system:serviceaccount:{HOME}:{HOME}")
}

/// A process of Berth; it ends with this.
pub struct Replica {
    process: Process,
    health: u16,
}

impl Replica {
    /// Starts one with the room `claims` and waits until it is ready.
    pub async fn start(kubeconfig: &Path, dir: &Path, args: &[&str]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let health = plane::free_port().expect("a free port");
        let mut command = Command::new(BERTH);
        command
            .args(["run", "--controllers", "claims", "--metrics-bind-address", "0", "--log-level", "info,claims=debug"])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--health-addr", &format!("127.0.0.1:{health}")])
            .args(args);
        if !args.contains(&"--webhook-port") {
            command.args(["--webhook-port", "0"]);
        }
        let log = dir.join(format!("berth-{}.log", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let process = Process::start("berth", command, &log, None).expect("Berth starts");
        let mut replica = Self { process, health };
        plane::wait_http(&mut replica.process, replica.health, "/readyz", READY).await.expect("Berth is ready");
        replica
    }

    /// Kills it without a chance to say goodbye.
    pub fn kill(&mut self) {
        let pid = self.process.pid().to_string();
        assert!(Command::new("kill").args(["-s", "KILL", &pid]).status().expect("kill runs").success());
    }

    pub fn log(&self) -> PathBuf {
        self.process.log().to_owned()
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }
}

/// Makes the account that Berth runs as, and returns where its kubeconfig is.
pub async fn account(plane: &Plane) -> PathBuf {
    let rules = documents(&["rbac"]);
    let [everywhere, here, _] = rules.as_slice() else { panic!("three lists of rules: {rules:?}") };
    let account = plane::account(plane, HOME, everywhere, here).await.expect("an account");
    let path = plane.dir().join("berth.kubeconfig");
    std::fs::write(&path, account.to_string()).expect("written");
    path
}

/// The replica that serves the webhooks and leads; an orphan is given back after a moment.
pub async fn leader(plane: &Plane, client: &Client, kubeconfig: &Path) -> Replica {
    let port = plane::free_port().expect("a free port");
    let certificates = plane.webhook_cert_dir().expect("certificates");
    let args = [
        "--leader-elect",
        "--leader-elect-resource-namespace",
        HOME,
        "--orphan-grace",
        "2s",
        "--orphan-action",
        "release",
        "--webhook-port",
        &port.to_string(),
        "--webhook-bind-host",
        "127.0.0.1",
        "--webhook-cert-dir",
        certificates.to_str().expect("UTF-8"),
    ];
    let replica = Replica::start(kubeconfig, plane.dir(), &args).await;
    for mut webhooks in documents(&["webhooks"]) {
        plane::webhooks_by_url(&mut webhooks, port, &plane.ca().expect("a CA"));
        for hook in webhooks["webhooks"].as_array_mut().expect("webhooks") {
            // Where nothing is checked the controller must hold by itself.
            hook["namespaceSelector"] = json!({"matchExpressions": [{"key": "checks", "operator": "DoesNotExist"}]});
        }
        plane::apply(client, &webhooks).await.expect("webhooks are taken");
    }
    within(READY, "the server asks the webhooks", async || {
        let claim = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
            "metadata": {"name": "probe", "namespace": "default"}, "spec": {"online": true}});
        let request = http::Request::post("/apis/metal3.io/v1alpha1/namespaces/default/hostclaims?dryRun=All")
            .header("content-type", "application/json")
            .body(claim.to_string().into_bytes());
        let stored: Value = client.request(request.ok()?).await.ok()?;
        (stored["metadata"]["finalizers"] == json!(["metal3.io/hostclaim"])).then_some(())
    })
    .await;
    replica
}

/// Runs the binary to its end and reads the documents it prints.
pub fn documents(args: &[&str]) -> Vec<Value> {
    let output = Command::new(BERTH).args(args).stdin(Stdio::null()).output().expect("the binary runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let parts = printed.split("---\n").filter(|part| !part.trim().is_empty());
    parts.map(|part| serde_saphyr::from_str(part).expect("YAML")).collect()
}
