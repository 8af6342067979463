//! Everything that was started, in the order it must be stopped in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use kube::Client;
use serde_json::json;
use sim::cloudstack;
use sim::dock::extension;
use sim::ec2;
use sim::metal::Machines;
use sim::nodes::Nodes;
use sim::plane::{Manager, Options, Plane, PlaneError};
use sim::provider::Provider;
use tokio::task::JoinHandle;

use crate::berth::{Clouds, EXTENSION, Operator, Program};
use crate::parts::Part;

/// Where the sandbox makes its hosts.
pub const HOSTS: &str = "infra";

/// The running parts. Each is kept here as soon as it exists, so that stopping never forgets one.
#[derive(Debug, Default)]
pub struct World {
    /// Berth.
    pub operator: Option<Operator>,
    /// The real managers, in the order they were started.
    pub managers: Vec<(&'static str, Manager)>,
    /// The host simulator.
    hosts: Option<JoinHandle<()>>,
    /// The EC2 simulator.
    cloud: Option<ec2::Handle>,
    /// The CloudStack simulator.
    cloudstack: Option<cloudstack::Handle>,
    /// The played provider of CloudStack, with the API servers of its clusters.
    provider: Option<Provider>,
    /// The API server of the cluster whose machines are Metal3's, with the played kubelets.
    workload: Option<(Nodes, Plane)>,
    plane: Option<Plane>,
    starting: Option<JoinHandle<Result<Plane, PlaneError>>>,
}

impl World {
    /// Starts the API server in `dir`; without blocking, so that a signal is heard meanwhile.
    pub async fn start_plane(&mut self, dir: PathBuf) -> Result<()> {
        let options = Options { dir: Some(dir), ..Options::default() };
        let starting = self.starting.insert(tokio::task::spawn_blocking(move || Plane::start_with(options)));
        let started = starting.await;
        self.starting = None;
        self.plane = Some(started.context("starting the API server")??);
        Ok(())
    }

    /// The API server.
    pub fn plane(&self) -> Result<&Plane> {
        self.plane.as_ref().context("the API server has not been started")
    }

    /// Installs Berth's own kinds, and says how many.
    pub async fn install_kinds(&self, program: &Program) -> Result<usize> {
        let client = self.plane()?.client().await?;
        let mut crds = program.documents("crds")?;
        // The server cannot resolve Services, so it is told Berth's address.
        if let Some(operator) = &self.operator {
            let ca = self.plane()?.ca()?;
            crds.iter_mut().for_each(|crd| sim::plane::webhooks_by_url(crd, operator.webhooks, &ca));
        }
        let count = crds.len();
        sim::plane::install_crds(&client, crds).await?;
        Ok(count)
    }

    /// Starts Berth; it need not be ready when this returns.
    pub fn start_operator(&mut self, program: &Program, log: &Path) -> Result<&mut Operator> {
        let operator = Operator::start(program, self.plane()?, self.clouds(), log)?;
        Ok(self.operator.insert(operator))
    }

    fn clouds(&self) -> Clouds<'_> {
        Clouds { ec2: self.cloud.as_ref(), cloudstack: self.cloudstack.as_ref() }
    }

    /// Kills Berth without a chance to say goodbye.
    pub async fn kill_operator(&mut self) -> Result<()> {
        let operator = self.operator.as_mut().context("Berth has not been started")?;
        crate::hosts::kill(operator.process.pid())?;
        let begun = std::time::Instant::now();
        while operator.process.ended().is_none() {
            crate::demo::patience(begun, || "it was killed and still runs".to_owned())?;
            crate::demo::pause().await;
        }
        Ok(())
    }

    /// Starts Berth again where the one before it was.
    pub fn restart_operator(&mut self, program: &Program, log: &Path) -> Result<&mut Operator> {
        let ports = self.operator.as_ref().context("Berth has not been started")?.ports();
        let operator = Operator::start_at(ports, program, self.plane()?, self.clouds(), log)?;
        Ok(self.operator.insert(operator))
    }

    /// Berth.
    pub fn operator(&mut self) -> Result<&mut Operator> {
        self.operator.as_mut().context("Berth has not been started")
    }

    /// Starts a real manager.
    pub async fn start_manager(&mut self, part: Part) -> Result<&mut Manager> {
        let plane = self.plane()?;
        let (name, manager) = match part {
            Part::Capi => {
                // A manager does not start while an extension that it knows of does not answer; it is registered anew.
                extension::forget(&plane.client().await?, EXTENSION).await?;
                ("Cluster API core manager", sim::plane::capi(plane).await?)
            }
            Part::Ipam => ("in-cluster IPAM provider", sim::plane::ipam(plane).await?),
            Part::Hosts | Part::Ec2 | Part::CloudStack => bail!("a simulator is no manager"),
        };
        self.managers.push((name, manager));
        self.managers.last_mut().map(|(_, manager)| manager).context("a manager was just started")
    }

    /// Starts the host simulator and makes hosts for it in the namespace [`HOSTS`]; returns the machines behind them.
    pub async fn start_hosts(&mut self, count: usize) -> Result<Arc<Machines>> {
        let client = self.plane()?.client().await?;
        sim::plane::install_crds(&client, sim::metal::kinds::definitions()).await?;
        sim::metal::seed::hosts(&client, HOSTS, count, false).await?;
        let simulator = sim::metal::Simulator::new(client, sim::metal::Settings::default());
        let machines = simulator.machines();
        self.hosts = Some(tokio::spawn(simulator.run()));
        Ok(machines)
    }

    /// Starts the EC2 simulator; a Berth that is started later knows it.
    pub async fn start_cloud(&mut self) -> Result<&ec2::Handle> {
        let cloud = ec2::start(ec2::Options::default()).await.context("starting the EC2 simulator")?;
        Ok(self.cloud.insert(cloud))
    }

    /// The EC2 simulator.
    pub fn cloud(&self) -> Result<&ec2::Handle> {
        self.cloud.as_ref().context("the EC2 simulator has not been started")
    }

    /// Starts the CloudStack simulator.
    pub async fn start_cloudstack(&mut self) -> Result<&cloudstack::Handle> {
        let started = cloudstack::start(cloudstack::Options::default()).await;
        Ok(self.cloudstack.insert(started.context("starting the CloudStack simulator")?))
    }

    /// The CloudStack simulator.
    pub fn cloudstack(&self) -> Result<&cloudstack::Handle> {
        self.cloudstack.as_ref().context("the CloudStack simulator has not been started")
    }

    /// Starts what Cluster API needs to make clusters on CloudStack: the real kubeadm managers, and the played provider.
    /// The control plane's own manager only judges, because it would need machines that boot.
    pub async fn start_provider(&mut self) -> Result<()> {
        let plane = self.plane()?;
        let client = plane.client().await?;
        sim::plane::install_crds(&client, sim::plane::cloudstack_definitions()?).await?;
        let bootstrap = sim::plane::kubeadm_bootstrap(plane).await?;
        self.managers.push(("kubeadm bootstrap provider", bootstrap));
        let judge = sim::plane::kubeadm_control_plane_with(self.plane()?, &["--watch-filter=nobody"]).await?;
        self.managers.push(("kubeadm control-plane provider", judge));
        self.provider = Some(Provider::start(&client));
        Ok(())
    }

    /// The played provider of CloudStack.
    pub fn provider(&self) -> Result<&Provider> {
        self.provider.as_ref().context("the CloudStack provider has not been started")
    }

    /// Starts the API server of a cluster, tells how it is reached, and plays the kubelets of its machines.
    pub async fn start_workload(&mut self, client: &Client, dir: PathBuf, namespace: &str, name: &str) -> Result<()> {
        let options = Options { dir: Some(dir), ..Options::default() };
        let started = tokio::task::spawn_blocking(move || Plane::start_with(options));
        let plane = started.await.context("starting the API server of a cluster")??;
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let kubeconfig = sim::provider::kubeconfig(&plane)?;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": format!("{name}-kubeconfig"), "namespace": namespace,
                "labels": {"cluster.x-k8s.io/cluster-name": name}},
            "stringData": {"value": kubeconfig.to_string()}});
        for object in [space, secret] {
            sim::plane::apply(client, &object).await?;
        }
        let nodes = Nodes::start(client.clone(), plane.client().await?, namespace, name);
        self.workload = Some((nodes, plane));
        Ok(())
    }

    /// Registers Berth's hooks with Cluster API, by address, and names the handlers it found.
    pub async fn register_hooks(&self, client: &Client) -> Result<Vec<String>> {
        let port = self.operator.as_ref().context("Berth has not been started")?.hooks;
        let config = extension::config(EXTENSION, port, &self.plane()?.ca()?, &json!({}));
        Ok(extension::register(client, &config).await?)
    }

    /// What ended by itself, if anything did.
    pub fn failure(&mut self) -> Option<PlaneError> {
        let operator = self.operator.as_mut().and_then(|operator| operator.process.failure());
        let managers = || self.managers.iter_mut().find_map(|(_, manager)| manager.process().failure());
        operator.or_else(managers).or_else(|| self.plane.as_ref().and_then(Plane::failure))
    }

    /// Stops everything, last started first; every stop is bounded.
    pub async fn stop(&mut self) {
        // A server that is still starting cannot be stopped by anyone else.
        if let Some(starting) = self.starting.take() {
            self.plane = starting.await.ok().and_then(Result::ok);
        }
        if let Some(mut operator) = self.operator.take() {
            operator.process.stop();
        }
        if let Some(hosts) = self.hosts.take() {
            hosts.abort();
        }
        if let Some(mut provider) = self.provider.take() {
            provider.stop().await;
        }
        if let Some((nodes, plane)) = self.workload.take() {
            drop(nodes);
            plane.stop();
        }
        if let Some(cloud) = self.cloud.take() {
            cloud.stop();
        }
        if let Some(server) = self.cloudstack.take() {
            server.stop();
        }
        while let Some((_, mut manager)) = self.managers.pop() {
            manager.stop();
        }
        if let Some(plane) = self.plane.take() {
            plane.stop();
        }
    }
}
