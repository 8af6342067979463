//! The real Cluster API managers, outside of the cluster and with webhooks by address.

use super::find::built;
use super::{Plane, PlaneError, Process, apply, free_port, install_crds, objects, wait_http, webhooks_by_url};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// How long a manager may take until it is ready.
const READY: Duration = Duration::from_secs(60);

/// A running manager; it ends when this is dropped.
#[derive(Debug)]
pub struct Manager {
    process: Process,
    health: u16,
    diagnostics: u16,
}

impl Manager {
    /// The process, with its id and log.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The port of `/readyz`.
    pub fn health_port(&self) -> u16 {
        self.health
    }

    /// The port of `/metrics`.
    pub fn diagnostics_port(&self) -> u16 {
        self.diagnostics
    }

    /// Stops it before it is dropped.
    pub fn stop(&mut self) {
        self.process.stop();
    }
}

/// What is special about one manager.
struct Kind {
    name: &'static str,
    manifests: &'static str,
    health_flag: &'static str,
    more: &'static [&'static str],
}

/// Installs Cluster API's definitions and starts its core manager (topology and the Runtime SDK on).
pub async fn capi(plane: &Plane) -> Result<Manager, PlaneError> {
    capi_with(plane, &[]).await
}

/// The same with more flags.
pub async fn capi_with(plane: &Plane, more: &[&str]) -> Result<Manager, PlaneError> {
    let kind = Kind {
        name: "capi-core",
        manifests: "manifests/capi.json",
        health_flag: "--health-addr",
        more: &["--feature-gates=RuntimeSDK=true,ClusterTopology=true"],
    };
    start(plane, kind, more).await
}

/// Installs the definitions of the kubeadm bootstrap provider and starts it; the core manager must run already.
pub async fn kubeadm_bootstrap(plane: &Plane) -> Result<Manager, PlaneError> {
    kubeadm_bootstrap_with(plane, &[]).await
}

/// The same with more flags.
pub async fn kubeadm_bootstrap_with(plane: &Plane, more: &[&str]) -> Result<Manager, PlaneError> {
    let kind = Kind {
        name: "capi-kubeadm-bootstrap",
        manifests: "manifests/kubeadm-bootstrap.json",
        health_flag: "--health-addr",
        more: &[],
    };
    start(plane, kind, more).await
}

/// Installs the definitions of the kubeadm control-plane provider and starts it; the core manager must run already.
pub async fn kubeadm_control_plane(plane: &Plane) -> Result<Manager, PlaneError> {
    kubeadm_control_plane_with(plane, &[]).await
}

/// The same with more flags.
pub async fn kubeadm_control_plane_with(plane: &Plane, more: &[&str]) -> Result<Manager, PlaneError> {
    let kind = Kind {
        name: "capi-kubeadm-control-plane",
        manifests: "manifests/kubeadm-control-plane.json",
        health_flag: "--health-addr",
        more: &["--feature-gates=ClusterTopology=true"],
    };
    start(plane, kind, more).await
}

/// Installs the in-cluster IPAM provider's definitions and starts it; the core manager must run already.
pub async fn ipam(plane: &Plane) -> Result<Manager, PlaneError> {
    let kind = Kind {
        name: "ipam-in-cluster",
        manifests: "manifests/ipam.json",
        health_flag: "--health-probe-bind-address",
        more: &["--webhook-cert-name=tls.crt", "--webhook-key-name=tls.key"],
    };
    start(plane, kind, &[]).await
}

/// The definitions of Cluster API and of the in-cluster IPAM provider, for servers without their managers: without
/// webhooks, so objects are kept at the stored version and nothing is defaulted.
pub fn cluster_api_definitions() -> Result<Vec<Value>, PlaneError> {
    definitions(&[("capi-core", "manifests/capi.json"), ("ipam-in-cluster", "manifests/ipam.json")])
}

/// The definitions of the kubeadm and CloudStack providers, for servers without their managers, as those above.
pub fn provider_definitions() -> Result<Vec<Value>, PlaneError> {
    definitions(&[
        ("capi-kubeadm-bootstrap", "manifests/kubeadm-bootstrap.json"),
        ("capi-kubeadm-control-plane", "manifests/kubeadm-control-plane.json"),
        ("the CloudStack provider's definitions", "manifests/cloudstack.json"),
    ])
}

/// The definitions of the CloudStack provider, which is played here.
pub fn cloudstack_definitions() -> Result<Vec<Value>, PlaneError> {
    definitions(&[("the CloudStack provider's definitions", "manifests/cloudstack.json")])
}

fn definitions(files: &[(&'static str, &str)]) -> Result<Vec<Value>, PlaneError> {
    let mut all = Vec::new();
    for (name, manifests) in files {
        all.extend(read(name, manifests)?);
    }
    all.retain(|object| object["kind"] == "CustomResourceDefinition");
    for definition in &mut all {
        if let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("conversion".to_owned(), serde_json::json!({"strategy": "None"}));
        }
    }
    Ok(all)
}

fn read(name: &'static str, manifests: &str) -> Result<Vec<Value>, PlaneError> {
    let path = built(name, manifests)?;
    let doing = format!("reading {}", path.display());
    let text = std::fs::read_to_string(&path).map_err(PlaneError::io(doing.clone()))?;
    Ok(objects(serde_json::from_str(&text).map_err(PlaneError::bad(doing))?))
}

async fn start(plane: &Plane, kind: Kind, more: &[&str]) -> Result<Manager, PlaneError> {
    let bin = built(kind.name, &format!("bin/{}", kind.name))?;

    let (webhooks, health, diagnostics) = (free_port()?, free_port()?, free_port()?);
    let ca = plane.ca()?;
    let mut all = read(kind.name, kind.manifests)?;
    for object in &mut all {
        webhooks_by_url(object, webhooks, &ca);
    }
    let (crds, configurations): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|object| object["kind"] == "CustomResourceDefinition");

    let client = plane.client().await?;
    install_crds(&client, crds).await?;

    let mut command = Command::new(bin);
    command
        .env("KUBECONFIG", plane.kubeconfig_path())
        .arg(format!("--webhook-port={webhooks}"))
        .arg(format!("--webhook-cert-dir={}", plane.webhook_cert_dir()?.display()))
        .arg(format!("{}=127.0.0.1:{health}", kind.health_flag))
        .arg(format!("--diagnostics-address=127.0.0.1:{diagnostics}"))
        .args(["--insecure-diagnostics=true", "--leader-elect=false"])
        .args(kind.more)
        .args(more);
    let log = plane.dir().join(format!("{}.log", kind.name));
    let mut process = Process::start(kind.name, command, &log, None)?;
    wait_http(&mut process, health, "/readyz", READY).await?;
    // Only now: a configuration without its server would refuse every write in between.
    for configuration in &configurations {
        apply(&client, configuration).await?;
    }
    Ok(Manager { process, health, diagnostics })
}
