//! The last part of the story: one cluster whose machines are a host, an instance on a dedicated host and a virtual machine.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use sim::cloudstack::world::machine::State;
use sim::ec2::world::instance::InstanceState;
use sim::metal::Machines;

use crate::berth::Program;
use crate::demo::pause;
use crate::story::Story;
use crate::world::{HOSTS, World};

const NAMESPACE: &str = "shop";
const NAME: &str = "prod";
/// How long machines may take to come and go.
const BOUND: Duration = Duration::from_secs(90);
/// The files of the book.
const GROUND: [&str; 5] = [
    include_str!("../../../book/examples/machines/namespace.yaml"),
    include_str!("../../../book/examples/machines/policy.yaml"),
    include_str!("../../../book/examples/machines/identity.yaml"),
    include_str!("../../../book/examples/machines/credentials.yaml"),
    include_str!("../../../book/examples/machines/cluster.yaml"),
];
const MACHINES: [&str; 2] = [
    include_str!("../../../book/examples/machines/templates.yaml"),
    include_str!("../../../book/examples/machines/groups.yaml"),
];

/// Tells it, with the API server, Cluster API, hosts, both clouds and Berth running.
pub async fn tell(
    story: &mut Story,
    world: &mut World,
    program: &Program,
    client: &Client,
    dir: &Path,
    hosts: &Machines,
) -> Result<()> {
    let log = dir.join("berth.log");
    world.start_workload(client, dir.join("workload"), NAMESPACE, NAME).await?;
    let scene = Scene { client, world, hosts };

    story
        .tell("One cluster asks for three kinds of machines, and each becomes a node", &log, async {
            for file in GROUND {
                scene.apply(file).await?;
            }
            scene.admit().await?;
            for file in MACHINES {
                scene.apply(file).await?;
            }
            let machines = scene.running(3).await?;
            let said = machines.iter().map(|machine| {
                let id = machine.data.pointer("/spec/providerID").and_then(Value::as_str).unwrap_or_default();
                format!("{}: {id}", machine.labels().get("group").map(String::as_str).unwrap_or_default())
            });
            Ok(((), said.collect::<Vec<_>>().join("\n")))
        })
        .await?;

    story
        .tell("One tree shows it, from the cluster down to host, instance and virtual machine", &log, async {
            let begun = Instant::now();
            let drawn = loop {
                let drawn = scene.tree(program)?;
                // Cluster API counts a Machine as ready a moment after it has become a node.
                if !drawn.contains("─ … ") {
                    break drawn;
                }
                within(begun, || format!("not everything is ready:\n{drawn}"))?;
                pause().await;
            };
            for part in ["BareMetalHost", "DedicatedHost", "Instance", "VirtualMachine"] {
                if !drawn.contains(part) {
                    bail!("{part} is not drawn:\n{drawn}");
                }
            }
            Ok(((), drawn))
        })
        .await?;

    story
        .tell("Two more of the same are one line, because nothing is wrong with them", &log, async {
            let patch = json!({"spec": {"replicas": 3}});
            let groups = scene.api("MachineDeployment");
            groups.patch("virtual", &PatchParams::default(), &Patch::Merge(&patch)).await.context("scaling")?;
            scene.running(5).await?;
            let drawn = scene.tree(program)?;
            let line = drawn.lines().find(|line| line.contains("3 alike"));
            let line = line.with_context(|| format!("the machines are not one line:\n{drawn}"))?;
            Ok(((), line.trim_start_matches([' ', '│', '├', '└', '─']).to_owned()))
        })
        .await?;

    story
        .tell("Deleted, it leaves nothing: no disk, no dedicated host, no virtual machine", &log, async {
            let clusters = scene.api("Cluster");
            let _ = clusters.delete(NAME, &DeleteParams::default()).await.context("deleting the Cluster")?;
            let begun = Instant::now();
            while clusters.get_opt(NAME).await.context("reading the Cluster")?.is_some() {
                within(begun, || "the Cluster is still there".to_owned())?;
                pause().await;
            }
            loop {
                let left = scene.left().await?;
                if left.is_empty() {
                    break;
                }
                within(begun, || format!("left are {left:?}"))?;
                pause().await;
            }
            Ok(((), "the host is free and its disk is empty, EC2 and CloudStack have nothing of it".to_owned()))
        })
        .await
}

/// What the parts of the story share.
struct Scene<'s> {
    client: &'s Client,
    world: &'s World,
    hosts: &'s Machines,
}

impl Scene<'_> {
    /// Applies a file of the book, with the namespaces, hosts and clouds of the story.
    async fn apply(&self, file: &str) -> Result<()> {
        let (acs, ec2) = (self.world.cloudstack()?, self.world.cloud()?);
        let image = ec2.image("us-west-2", "x86_64").context("EC2 has no image")?;
        let file = file
            .replace("http://cloudstack.example:8080/client/api", &acs.endpoint)
            .replace("the-api-key", &acs.api_key)
            .replace("the-secret-key", &acs.secret_key)
            .replace("ami-0123456789abcdef0", &image)
            .replace("team-a", NAMESPACE)
            .replace("namespace: metal", &format!("namespace: {HOSTS}"))
            .replace("size: large", "size: s1");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&file).context("reading a manifest")?;
        for object in &objects {
            sim::plane::apply(self.client, object).await?;
        }
        Ok(())
    }

    /// Waits until the infrastructure of the cluster is ready, and plays its control plane.
    async fn admit(&self) -> Result<()> {
        let clusters = self.api("Cluster");
        let begun = Instant::now();
        loop {
            let cluster = clusters.get(NAME).await.context("reading the Cluster")?;
            let ready = cluster.data.pointer("/status/initialization/infrastructureProvisioned");
            if ready.and_then(Value::as_bool) == Some(true) {
                let said = sim::nodes::play_control_plane(self.client.clone(), NAMESPACE, NAME);
                return tokio::time::timeout(BOUND, said).await?.context("saying that there is a control plane");
            }
            let status = cluster.data.get("status").cloned().unwrap_or_default();
            within(begun, || format!("the infrastructure of the Cluster is not ready: {status}"))?;
            pause().await;
        }
    }

    /// Waits until just so many Machines are nodes.
    async fn running(&self, count: usize) -> Result<Vec<DynamicObject>> {
        let begun = Instant::now();
        loop {
            let machines = self.api("Machine").list(&ListParams::default()).await.context("listing Machines")?.items;
            let phase = |machine: &DynamicObject| {
                machine.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or("new").to_owned()
            };
            if machines.len() == count && machines.iter().all(|machine| phase(machine) == "Running") {
                return Ok(machines);
            }
            within(begun, || {
                let all = machines.iter().map(|machine| format!("{} is {}", machine.name_any(), phase(machine)));
                format!("{count} machines should run: {}", all.collect::<Vec<_>>().join(", "))
            })?;
            pause().await;
        }
    }

    /// The tree of the cluster, as people see it.
    fn tree(&self, program: &Program) -> Result<String> {
        let kubeconfig = self.world.plane()?.kubeconfig_path();
        let cluster = format!("cluster/{NAME}");
        let args = ["tree", &cluster, "-n", NAMESPACE, "--kubeconfig", &kubeconfig.to_string_lossy()];
        let (code, out, err) = program.run(&args)?;
        if code != Some(0) {
            bail!("exit code {code:?}\n{out}{err}");
        }
        Ok(out)
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind));
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    /// What is left where machines run.
    async fn left(&self) -> Result<Vec<String>> {
        let resource = sim::metal::resource("BareMetalHost").context("hosts are a kind")?;
        let hosts: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), HOSTS, &resource);
        let mut left = Vec::new();
        let fitting = ListParams::default().labels("size=s1");
        for host in hosts.list(&fitting).await.context("listing hosts")? {
            if host.data.pointer("/spec/consumerRef").is_some() {
                left.push(format!("host {} is still used", host.name_any()));
            }
            if self.hosts.disk(HOSTS, &host.name_any()).is_some() {
                left.push(format!("the disk of {} is not empty", host.name_any()));
            }
        }
        let (acs, ec2) = (self.world.cloudstack()?, self.world.cloud()?);
        let paid = ec2.hosts().into_iter().filter(|host| !host.state.is_released());
        left.extend(paid.map(|host| format!("{host:?}")));
        let gone = |state| matches!(state, InstanceState::ShuttingDown | InstanceState::Terminated);
        left.extend(ec2.instances().into_iter().filter(|one| !gone(one.state)).map(|one| format!("{one:?}")));
        let machines = acs.machines().into_iter().filter(|machine| machine.state != State::Gone);
        left.extend(machines.map(|machine| format!("{machine:?}")));
        Ok(left)
    }
}

/// Fails when something takes too long.
fn within(begun: Instant, last: impl FnOnce() -> String) -> Result<()> {
    if begun.elapsed() > BOUND {
        bail!("not within {} s: {}", BOUND.as_secs(), last());
    }
    Ok(())
}
