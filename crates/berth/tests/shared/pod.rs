//! The pod of a Deployment as a process of this machine: its arguments, its environment and nothing else of ours, the files
//! of its volumes, the token of its service account, and Services that lead to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, Service, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sim::plane::{self, Plane, Process};
use sim::wait::seek;

/// How long anything may take.
pub const BOUND: Duration = Duration::from_secs(120);

/// Where it listens: a pod has an address of its own, and processes of one machine share theirs.
#[derive(Clone, Copy)]
pub struct Ports {
    pub health: u16,
    pub metrics: u16,
    pub webhooks: u16,
    pub hooks: u16,
}

impl Ports {
    pub fn free() -> Self {
        let port = || plane::free_port().unwrap();
        Self { health: port(), metrics: port(), webhooks: port(), hooks: port() }
    }
}

/// Where the webhooks and conversions of an object are asked for: at our port instead of the Service's.
pub fn ask_at(object: &mut Value, port: u16) {
    let conversion = object.pointer_mut("/spec/conversion/webhook/clientConfig/service");
    conversion.into_iter().for_each(|service| service["port"] = json!(port));
    for hook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        hook["clientConfig"]["service"]["port"] = json!(port);
    }
}

/// Makes the Services of Berth names of this machine, those that what runs has; the API server still goes by their own names
/// when it checks certificates.
pub async fn lead_here(client: &kube::Client, namespace: &str) {
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let here = json!({"spec": {"type": "ExternalName", "externalName": "localhost"}});
    let names = services.list(&ListParams::default()).await.unwrap().items.into_iter().map(|one| one.name_any());
    for name in names.filter(|name| ["berth-webhook", "berth-runtime-extension"].contains(&name.as_str())) {
        services.patch(&name, &PatchParams::default(), &Patch::Merge(&here)).await.unwrap();
    }
}

/// A kubeconfig that holds nothing but the token of a service account.
pub async fn kubeconfig(plane: &Plane, namespace: &str, account: &str) -> Value {
    let client = plane.client().await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client, namespace);
    let request = TokenRequest {
        spec: TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await.unwrap();
    let server = plane.config().await.unwrap().cluster_url.to_string();
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "account",
        "clusters": [{"name": "plane", "cluster": {
            "server": server, "certificate-authority": plane.dir().join("ca.crt")}}],
        "users": [{"name": "account", "user": {"token": answer.status.unwrap().token}}],
        "contexts": [{"name": "account", "context": {"cluster": "plane", "user": "account", "namespace": namespace}}],
    })
}

/// A running pod.
pub struct Pod {
    pub process: Process,
    pub ports: Ports,
    dir: tempfile::TempDir,
}

impl Pod {
    /// Starts what a Deployment says, with the rights of its service account.
    pub async fn start(plane: &Plane, deployment: &Value, ports: Ports) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let template = &deployment["spec"]["template"]["spec"];
        let namespace = deployment["metadata"]["namespace"].as_str().unwrap();
        let account = template["serviceAccountName"].as_str().unwrap();
        let config = dir.path().join("kubeconfig");
        std::fs::write(&config, kubeconfig(plane, namespace, account).await.to_string()).unwrap();
        let container = &template["containers"][0];
        let mounts = mounts(plane, namespace, template, dir.path()).await;

        // Nothing that is set where the tests run is set in a pod, and its root file system cannot be written.
        let nothing = dir.path().join("nothing");
        std::fs::create_dir(&nothing).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_berth"));
        command.env_clear().current_dir(&nothing);
        for variable in container["env"].as_array().into_iter().flatten() {
            command.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
        }
        command.args(arguments(container, ports, &mounts)).arg("--kubeconfig").arg(&config);
        let process = Process::start("berth", command, &dir.path().join("log"), None).unwrap();
        Self { process, ports, dir }
    }

    /// Waits until its probes would let it in.
    pub async fn ready(&mut self) {
        for path in ["/healthz", "/readyz"] {
            plane::wait_http(&mut self.process, self.ports.health, path, BOUND).await.unwrap();
        }
    }

    /// What it looks for is found before long, or the test ends with the end of its log.
    pub async fn sees<T>(&mut self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let process = &mut self.process;
        let found = seek(BOUND, async || {
            let found = look().await;
            if let (None, Some(failure)) = (&found, process.failure()) {
                panic!("{what}: {failure}");
            }
            found
        });
        let found = found.await;
        found.unwrap_or_else(|| panic!("not seen within {BOUND:?}: {what}\n{}", self.process.log_tail()))
    }

    /// Waits until the API server asks it through its Service: it checks, fills in and converts, each only for objects of which
    /// nothing is stored.
    pub async fn is_asked(&mut self, client: &kube::Client) {
        let post = async |path: &str, object: Value| {
            let request = http::Request::post(format!("{path}?dryRun=All")).header("content-type", "application/json");
            client.request::<Value>(request.body(object.to_string().into_bytes()).unwrap()).await
        };
        let broken = || {
            json!({"apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimKind", "metadata": {"name": "broken"},
                "spec": {"controllerName": "fake.example", "argsSchema": {"zone": {"pattern": "("}}}})
        };
        let refusal = self.sees("what is wrong is refused", async || {
            post("/apis/berth.dev/v1alpha1/hostclaimkinds", broken()).await.err().map(|error| error.to_string())
        });
        let refusal = refusal.await;
        assert!(refusal.contains("hostclaimkinds.berth.dev") && refusal.contains("pattern"), "{refusal}");

        let claim = || {
            json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
                "metadata": {"name": "mine", "namespace": "default"}, "spec": {"poweredOn": true}})
        };
        let filled = self.sees("what is left out is filled in", async || {
            let stored = post("/apis/metal3.io/v1alpha1/namespaces/default/hostclaims", claim()).await.unwrap();
            Some(stored["metadata"]["finalizers"].clone()).filter(|finalizers| !finalizers.is_null())
        });
        assert_eq!(filled.await, json!(["metal3.io/hostclaim"]));

        // Stored is the newer version, and answered the one that was asked in.
        let older = || {
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Remediation",
                "metadata": {"name": "reboot", "namespace": "default"},
                "spec": {"strategy": {"type": "Reboot", "timeout": "300s"}}})
        };
        let converted = self.sees("versions are converted", async || {
            let path = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/default/metal3remediations";
            post(path, older()).await.ok()
        });
        assert_eq!(converted.await["spec"]["strategy"]["timeout"], "300s");
    }

    /// Asks it to end, which it does well and without having written any file.
    pub fn stop(mut self) {
        self.process.stop();
        let ended = self.process.ended().expect("it ends when asked to");
        assert!(ended.success(), "{ended}: {}", self.process.log_tail());
        let written = std::fs::read_dir(self.dir.path().join("nothing")).unwrap().count();
        assert_eq!(written, 0, "it wrote where a pod cannot");
    }
}

/// The arguments of the container, at addresses and paths of this machine.
fn arguments(container: &Value, ports: Ports, mounts: &[(String, PathBuf)]) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    for arg in container["args"].as_array().unwrap() {
        let arg = arg.as_str().unwrap();
        let (flag, value) = arg.split_once('=').unwrap_or((arg, ""));
        args.push(match flag {
            "--health-addr" => format!("--health-addr=127.0.0.1:{}", ports.health),
            "--metrics-bind-address" => format!("--metrics-bind-address=127.0.0.1:{}", ports.metrics),
            "--webhook-port" => format!("--webhook-port={}", ports.webhooks),
            "--runtime-extension-port" => format!("--runtime-extension-port={}", ports.hooks),
            "--shutdown-delay" => "--shutdown-delay=0s".to_owned(),
            _ => {
                let below = mounts.iter().find_map(|(path, here)| Some((value.strip_prefix(path.as_str())?, here)));
                match below {
                    Some((rest, here)) => format!("{flag}={}{rest}", here.display()),
                    None => arg.to_owned(),
                }
            }
        });
    }
    args.extend(["--webhook-bind-host=127.0.0.1", "--runtime-extension-bind-host=127.0.0.1"].map(str::to_owned));
    args
}

/// The mounted volumes, filled as the kubelet fills them: the path in the pod, and where it is here.
async fn mounts(plane: &Plane, namespace: &str, template: &Value, dir: &Path) -> Vec<(String, PathBuf)> {
    let mut made = Vec::new();
    for mount in template["containers"][0]["volumeMounts"].as_array().into_iter().flatten() {
        let volume =
            template["volumes"].as_array().into_iter().flatten().find(|volume| volume["name"] == mount["name"]);
        let source = &volume.expect("the volume of a mount")["secret"];
        let name = source["secretName"].as_str().expect("volumes are Secrets");
        let secrets: Api<Secret> = Api::namespaced(plane.client().await.unwrap(), namespace);
        let secret = secrets.get(name).await.unwrap();
        let here = dir.join("mounts").join(mount["name"].as_str().unwrap());
        let data = here.join("..now");
        std::fs::create_dir_all(&data).unwrap();
        std::os::unix::fs::symlink("..now", here.join("..data")).unwrap();
        let items = source["items"].as_array();
        for (key, value) in secret.data.unwrap_or_default() {
            if items.is_none_or(|items| items.iter().any(|item| item["key"] == *key)) {
                std::fs::write(data.join(&key), value.0).unwrap();
                std::os::unix::fs::symlink(Path::new("..data").join(&key), here.join(&key)).unwrap();
            }
        }
        made.push((mount["mountPath"].as_str().unwrap().to_owned(), here));
    }
    made
}
