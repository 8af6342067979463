//! The `berth` program: where it is, what it prints, and running it beside a plane.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use sim::plane::{Plane, Process, free_port, http_get, wait_http};
use sim::{cloudstack, ec2};

use crate::Usage;

/// The name under which Cluster API knows Berth's hooks.
pub const EXTENSION: &str = "vip-allocator";
/// Where Berth looks for types that no catalogue knows.
const TABLE: &str = "berth-system/types";
/// How long Berth may take until it is ready.
const READY: Duration = Duration::from_secs(30);

/// The simulated clouds that Berth may call.
#[derive(Clone, Copy, Debug)]
pub struct Clouds<'w> {
    /// EC2, if there is one.
    pub ec2: Option<&'w ec2::Handle>,
    /// CloudStack, if there is one.
    pub cloudstack: Option<&'w cloudstack::Handle>,
}

/// Where the program is.
#[derive(Clone, Debug)]
pub struct Program(PathBuf);

impl Program {
    /// `BERTH_BIN`, or the file `berth` beside this program.
    pub fn find() -> Result<Self> {
        if let Some(path) = std::env::var_os("BERTH_BIN").filter(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            if !path.is_file() {
                return Err(Usage(format!("BERTH_BIN is set to {}, which is not a file", path.display())).into());
            }
            return Ok(Self(path));
        }
        let own = std::env::current_exe().context("finding this program's own path")?;
        let path = own.with_file_name("berth");
        if !path.is_file() {
            bail!("berth is not built: run `cargo build -p berth` or set BERTH_BIN (looked for {})", path.display());
        }
        Ok(Self(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The documents that a printing command such as `crds` writes.
    pub fn documents(&self, command: &str) -> Result<Vec<Value>> {
        let (code, out, err) = self.run(&[command])?;
        if code != Some(0) {
            bail!("`berth {command}` failed: {}", err.trim());
        }
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&out).with_context(|| format!("reading what `berth {command}` printed"))?;
        let objects: Vec<Value> = documents.into_iter().flat_map(sim::plane::objects).collect();
        if objects.is_empty() {
            bail!("`berth {command}` printed no objects");
        }
        Ok(objects)
    }

    /// Runs a command to its end: exit code, standard output, standard error.
    pub fn run(&self, args: &[&str]) -> Result<(Option<i32>, String, String)> {
        let output = Command::new(&self.0)
            .args(args)
            // What is looked for in its lines must not be wrapped.
            .env_remove("COLUMNS")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("running {} {}", self.0.display(), args.join(" ")))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
    }
}

/// A running operator.
#[derive(Debug)]
pub struct Operator {
    /// The process.
    pub process: Process,
    /// Port of `/readyz`.
    pub health: u16,
    /// Port of `/metrics`.
    pub metrics: u16,
    /// Port of the admission webhooks.
    pub webhooks: u16,
    /// Port of the hooks for Cluster API.
    pub hooks: u16,
}

impl Operator {
    /// Starts `berth run` against the plane and the simulated clouds there are; its log in `log`.
    pub fn start(program: &Program, plane: &Plane, clouds: Clouds<'_>, log: &Path) -> Result<Self> {
        Self::start_at([free_port()?, free_port()?, free_port()?, free_port()?], program, plane, clouds, log)
    }

    /// Its ports, for one that takes its place.
    pub fn ports(&self) -> [u16; 4] {
        [self.health, self.metrics, self.webhooks, self.hooks]
    }

    /// The same at the ports of an earlier one, where others look for it.
    pub fn start_at(ports: [u16; 4], program: &Program, plane: &Plane, clouds: Clouds<'_>, log: &Path) -> Result<Self> {
        let [health, metrics, webhooks, hooks] = ports;
        let mut command = Command::new(program.path());
        command
            .args(["run", "--log-format", "text", "--webhook-bind-host", "127.0.0.1"])
            .arg("--kubeconfig")
            .arg(plane.kubeconfig_path())
            .arg("--metrics-bind-address")
            .arg(format!("127.0.0.1:{metrics}"))
            .arg("--health-addr")
            .arg(format!("127.0.0.1:{health}"))
            .arg("--webhook-port")
            .arg(webhooks.to_string())
            .arg("--webhook-cert-dir")
            .arg(plane.webhook_cert_dir()?)
            .args(["--runtime-extension-bind-host", "127.0.0.1", "--runtime-extension-port"])
            .arg(hooks.to_string())
            .arg("--runtime-extension-cert-dir")
            .arg(plane.webhook_cert_dir()?)
            // Groups on hosts are annotated by what the hosts offer, others by a table, once there is one.
            .args(["--capacity-metal3", "--capacity-table", TABLE]);
        if let Some(server) = clouds.cloudstack {
            // It is on this machine, which is never called otherwise.
            command.args(["--cloudstack-endpoint-allow", server.endpoint.trim_end_matches("/client/api")]);
        }
        if let Some(cloud) = clouds.ec2 {
            // Whatever identity the caller's shell has is none of the simulator's.
            for name in
                std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("AWS_"))
            {
                command.env_remove(name);
            }
            for service in ["ec2", "sts"] {
                command.arg("--aws-endpoint").arg(format!("{service}={}", cloud.endpoint));
            }
            command.env("AWS_ACCESS_KEY_ID", &cloud.access_key).env("AWS_SECRET_ACCESS_KEY", &cloud.secret);
        }
        let process = Process::start("berth", command, log, None)?;
        Ok(Self { process, health, metrics, webhooks, hooks })
    }

    /// Waits until it says that it is ready.
    pub async fn ready(&mut self) -> Result<()> {
        Ok(wait_http(&mut self.process, self.health, "/readyz", READY).await?)
    }

    /// Every readiness gate with its detail.
    pub async fn gates(&self) -> Result<String> {
        let (_, body) = http_get(self.health, "/readyz?verbose").await.context("asking Berth for its gates")?;
        Ok(body)
    }

    /// Registers its admission webhooks with the API server, by address.
    pub async fn register(&self, program: &Program, plane: &Plane, client: &kube::Client) -> Result<usize> {
        let ca = plane.ca()?;
        let mut configurations = program.documents("webhooks")?;
        for configuration in &mut configurations {
            sim::plane::webhooks_by_url(configuration, self.webhooks, &ca);
            sim::plane::apply(client, configuration).await?;
        }
        let hooks = configurations.iter().filter_map(|c| c.get("webhooks")).filter_map(Value::as_array).map(Vec::len);
        Ok(hooks.sum())
    }
}
