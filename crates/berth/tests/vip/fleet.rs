//! Two replicas of the real binary, and what stands before them as a Service would.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use kit::clock::Clock;
use kit::http::{HttpClient, HttpError, HttpOptions, Policy};
use kube::{Api, Client};
use serde_json::{Value, json};
use sim::dock::extension;
use sim::plane::{self, Plane, Process};

use crate::front::{Asked, Front};
use crate::world::within;

pub const BERTH: &str = env!("CARGO_BIN_EXE_berth");
/// The name of the registration, and so the last part of every handler's full name.
pub const EXTENSION: &str = "vip-allocator";
/// Namespace, account and lease namespace of Berth.
const HOME: &str = "berth-vip";
const READY: Duration = Duration::from_secs(120);

/// One replica.
struct Replica {
    process: Process,
    health: u16,
    port: u16,
}

/// All of Berth.
pub struct Fleet {
    /// Every call of Cluster API, with Berth's answer.
    pub front: Front,
    replicas: Mutex<Vec<Replica>>,
    ports: Arc<Mutex<Vec<u16>>>,
    kubeconfig: PathBuf,
    certificates: PathBuf,
    dir: PathBuf,
}

impl Fleet {
    /// Starts two replicas with no more rights than they say they need, and registers them with Cluster API.
    pub async fn start(plane: &Plane, client: &Client) -> Self {
        let rules = documents(&["rbac"]);
        let [everywhere, here, _] = rules.as_slice() else { panic!("three lists of rules: {rules:?}") };
        let account = plane::account(plane, HOME, everywhere, here).await.expect("an account");
        let kubeconfig = plane.dir().join("berth.kubeconfig");
        std::fs::write(&kubeconfig, account.to_string()).expect("written");

        let ports: Arc<Mutex<Vec<u16>>> = Arc::default();
        let ca = plane.ca().expect("a CA");
        let mut options = HttpOptions::new("front");
        options.extra_ca = Some(ca.clone().into_bytes());
        options.native_roots = false;
        options.policy = Policy::new().admit(["127.0.0.1/32".parse().expect("a network")]);
        let http = HttpClient::new(options, Clock::system()).expect("a client");
        let (turn, behind) = (Arc::new(AtomicUsize::new(0)), ports.clone());
        let front = Front::start(plane, "front", move |asked| {
            let (http, turn, behind) = (http.clone(), turn.clone(), behind.clone());
            Box::pin(async move { forward(&http, &asked, &turn, &behind).await })
        })
        .await;
        let (dir, certificates) = (plane.dir().to_owned(), plane.webhook_cert_dir().expect("certificates"));
        let fleet = Self { front, replicas: Mutex::default(), ports, kubeconfig, certificates, dir };
        fleet.add(2).await;
        let selector = json!({"matchLabels": {"hooks": "berth"}});
        let config = extension::config(EXTENSION, fleet.front.port, &ca, &selector);
        let handlers = extension::register(client, &config).await.expect("discovered");
        assert_eq!(handlers.len(), 5, "{handlers:?}");
        fleet
    }

    /// Starts more replicas and waits until they are ready.
    pub async fn add(&self, count: usize) {
        let mut started: Vec<Replica> = (0..count).map(|_| self.launch()).collect();
        for replica in &mut started {
            plane::wait_http(&mut replica.process, replica.health, "/readyz", READY).await.expect("Berth is ready");
            self.ports.lock().expect("no panic").push(replica.port);
        }
        self.lock().extend(started);
    }

    fn launch(&self) -> Replica {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let port = || plane::free_port().expect("a free port");
        let (health, hooks) = (port(), port());
        let mut command = Command::new(BERTH);
        command
            .args(["run", "--controllers", "vip", "--metrics-bind-address", "0", "--webhook-port", "0"])
            .args(["--leader-elect", "--leader-elect-lease-duration", "9s", "--enable-reconciler"])
            .args(["--log-level", "info,vip=debug"])
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--health-addr", &format!("127.0.0.1:{health}")])
            .args(["--runtime-extension-port", &hooks.to_string()])
            .arg("--runtime-extension-cert-dir")
            .arg(&self.certificates);
        let log = self.dir.join(format!("berth-{}.log", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let process = Process::start("berth", command, &log, None).expect("Berth starts");
        Replica { process, health, port: hooks }
    }

    /// Kills the replica that leads, without a chance to say goodbye.
    pub async fn kill_the_leader(&self, client: &Client) {
        let leases: Api<Lease> = Api::namespaced(client.clone(), HOME);
        let leader = within(READY, "one replica leads", async || {
            leases.get("berth").await.ok()?.spec?.holder_identity?;
            let health: Vec<u16> = self.lock().iter().map(|replica| replica.health).collect();
            for (index, port) in health.into_iter().enumerate() {
                let (_, text) = plane::http_get(port, "/readyz?verbose").await.ok()?;
                if text.contains("this replica decides") {
                    return Some(index);
                }
            }
            None
        })
        .await;
        let mut replica = self.lock().remove(leader);
        let pid = replica.process.pid().to_string();
        assert!(Command::new("kill").args(["-s", "KILL", &pid]).status().expect("kill runs").success());
        within(READY, "it is dead", async || replica.process.ended()).await;
        // From here on connections are refused, as they are until a Service notices.
    }

    /// The logs of all replicas there ever were.
    pub fn logs(&self) -> Vec<PathBuf> {
        self.lock().iter().map(|replica| replica.process.log().to_owned()).collect()
    }

    /// Fails when a replica ended by itself.
    pub fn alive(&self) {
        for replica in self.lock().iter_mut() {
            if let Some(failure) = replica.process.failure() {
                panic!("{failure}");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Replica>> {
        self.replicas.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Each call to the next replica; one that does not listen is passed over, as a Service does.
async fn forward(http: &HttpClient, asked: &Asked, turn: &AtomicUsize, ports: &Mutex<Vec<u16>>) -> (u16, Bytes) {
    let ports = ports.lock().expect("no panic").clone();
    for _ in 0..ports.len() {
        let port = ports[turn.fetch_add(1, Ordering::Relaxed) % ports.len()];
        let uri = format!("https://127.0.0.1:{port}{}?{}", asked.path, asked.query);
        let request = Request::post(uri).body(asked.body.clone()).expect("a request");
        match http.send(request).await {
            Ok(answer) => return (answer.status().as_u16(), answer.into_body()),
            Err(HttpError::Connect { .. }) => {}
            Err(error) => return (502, Bytes::from(error.to_string())),
        }
    }
    (503, Bytes::from_static(b"nobody answers"))
}

/// Runs the binary to its end and reads the documents it prints.
pub fn documents(args: &[&str]) -> Vec<Value> {
    let output = Command::new(BERTH).args(args).stdin(Stdio::null()).output().expect("the binary runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let parts = printed.split("---\n").filter(|part| !part.trim().is_empty());
    parts.map(|part| serde_saphyr::from_str(part).expect("YAML")).collect()
}
