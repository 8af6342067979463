//! The last part of the story: one cluster whose machines are a host, an instance on a dedicated host and a virtual machine.
//!
//! Its class gives it an address from a pool, its groups say at zero replicas what a machine of each would offer, and one tree
//! shows all of it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use sim::cloudstack::world::machine::State;
use sim::dock;
use sim::ec2::world::instance::InstanceState;
use sim::metal::Machines;

use crate::berth::Program;
use crate::demo::pause;
use crate::story::Story;
use crate::world::{HOSTS, World};

const NAMESPACE: &str = "shop";
const NAME: &str = "prod";
/// The three groups, in the order they are drawn.
const GROUPS: [&str; 3] = ["dedicated", "metal", "virtual"];
/// The pool of the cluster's address, and how many it has.
const POOL: (&str, i64) = ("control-planes", 10);
/// The keys that cluster-autoscaler reads start with this.
const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io";
/// How long machines may take to come and go.
const BOUND: Duration = Duration::from_secs(90);
/// The files of the book.
const GROUND: [&str; 6] = [
    include_str!("../../../book/examples/machines/namespace.yaml"),
    include_str!("../../../book/examples/machines/policy.yaml"),
    include_str!("../../../book/examples/machines/identity.yaml"),
    include_str!("../../../book/examples/machines/credentials.yaml"),
    include_str!("../../../book/examples/machines/pool.yaml"),
    include_str!("../../../book/examples/machines/class.yaml"),
];
const CLUSTER: &str = include_str!("../../../book/examples/machines/topology.yaml");
const TYPES: &str = include_str!("../../../book/examples/machines/types.yaml");
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
    // Says that there is a control plane, and copies no address anywhere.
    let control_plane = dock::Provider::start(client);

    let address = story
        .tell("A cluster for three kinds of machines gets its address from a pool, by its class", &log, async {
            for file in GROUND {
                scene.apply(file).await?;
            }
            scene.usable().await?;
            scene.apply(CLUSTER).await?;
            let cluster = scene.admitted().await?;
            let address = scene.address().await?;
            let place = scene.place(&cluster).await?;
            for object in [&cluster, &place] {
                let host = text(object, "/spec/controlPlaneEndpoint/host");
                if host != address {
                    bail!("{} has the endpoint {host:?}, the claim has {address}", object.name_any());
                }
            }
            let (pool, size) = POOL;
            let left = scene.free(size - 1).await?;
            let said = format!(
                "{address} of InClusterIPPool {pool}, {left} of {size} left\n\
                 Cluster {NAME} and Metal3Cluster {} have it, and both are ready for machines",
                place.name_any()
            );
            Ok((address, said))
        })
        .await?;

    let offers = story
        .tell("Its groups stand at zero, and say what a machine of each would offer", &log, async {
            let system = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "berth-system"}});
            sim::plane::apply(client, &system).await?;
            scene.apply(TYPES).await?;
            for file in MACHINES {
                scene.apply(&file.replace("replicas: 1", "replicas: 0")).await?;
            }
            let offers = scene.offers().await?;
            let mut said = Vec::new();
            for offer in &offers {
                scene.says(offer).await?;
                said.push(format!("{}: {}, from {}", offer.group, offer.words(), offer.from));
            }
            drawn_with(&scene.tree(program)?, &offers, "0 of 0 ready")?;
            Ok((offers, said.join("\n")))
        })
        .await?;

    story
        .tell("One machine of each kind is asked for, and each becomes a node", &log, async {
            for group in GROUPS {
                scene.scale(group, 1).await?;
            }
            let machines = scene.running(GROUPS.len()).await?;
            let said = machines.iter().map(|machine| {
                let group = machine.labels().get("group").map(String::as_str).unwrap_or_default();
                format!("{group}: {}", text(machine, "/spec/providerID"))
            });
            Ok(((), said.collect::<Vec<_>>().join("\n")))
        })
        .await?;

    story
        .tell("One tree shows it: address, groups and what they offer, down to host, instance and VM", &log, async {
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
            let pool = format!("InClusterIPPool {}", POOL.0);
            for part in [
                "IPAddress ",
                address.as_str(),
                pool.as_str(),
                "BareMetalHost",
                "DedicatedHost",
                "Instance",
                "VirtualMachine",
            ] {
                if !drawn.contains(part) {
                    bail!("{part} is not drawn:\n{drawn}");
                }
            }
            drawn_with(&drawn, &offers, "1 of 1 ready")?;
            Ok(((), drawn))
        })
        .await?;

    story
        .tell("Two more of the same are one line, because nothing is wrong with them", &log, async {
            scene.scale("virtual", 3).await?;
            scene.running(5).await?;
            let drawn = scene.tree(program)?;
            let line = drawn.lines().find(|line| line.contains("3 machines, all ready"));
            let line = line.with_context(|| format!("the machines are not one line:\n{drawn}"))?;
            Ok(((), line.trim_start_matches([' ', '│', '├', '└', '─']).to_owned()))
        })
        .await?;

    story
        .tell("Deleted, it leaves nothing: no disk, no dedicated host, no virtual machine, no address", &log, async {
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
            let free = scene.free(POOL.1).await?;
            Ok((
                (),
                format!(
                    "the host is free and its disk is empty, EC2 and CloudStack have nothing of it, \
                     {free} addresses are free again"
                ),
            ))
        })
        .await?;
    drop(control_plane);
    Ok(())
}

/// What a machine of a group offers, and who knows it.
struct Offer {
    group: &'static str,
    cpu: i64,
    memory_mib: i64,
    from: &'static str,
}

impl Offer {
    /// As the tree tells it.
    fn words(&self) -> String {
        format!("cpu {}, memory {}Mi", self.cpu, self.memory_mib)
    }
}

/// Every group is drawn as it stands, with what it offers.
fn drawn_with(drawn: &str, offers: &[Offer], standing: &str) -> Result<()> {
    for offer in offers {
        let part = format!("MachineDeployment {}  {standing}; the autoscaler reads {}", offer.group, offer.words());
        if !drawn.contains(&part) {
            bail!("{part:?} is not drawn:\n{drawn}");
        }
    }
    Ok(())
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

    /// Waits until Cluster API has read the class.
    async fn usable(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let class = self.get("ClusterClass", "hybrid").await?;
            let observed = class.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
            if observed.is_some() && observed == class.metadata.generation {
                return Ok(());
            }
            let status = class.data.get("status").cloned().unwrap_or_default();
            within(begun, || format!("the class is not reconciled: {status}"))?;
            pause().await;
        }
    }

    /// Waits until the cluster has what machines need of it: its infrastructure and a control plane.
    async fn admitted(&self) -> Result<DynamicObject> {
        let begun = Instant::now();
        loop {
            let cluster = self.get("Cluster", NAME).await?;
            let reached = |what: &str| {
                cluster.data.pointer(&format!("/status/initialization/{what}")).and_then(Value::as_bool) == Some(true)
            };
            if reached("infrastructureProvisioned") && reached("controlPlaneInitialized") {
                return Ok(cluster);
            }
            let status = cluster.data.get("status").cloned().unwrap_or_default();
            within(begun, || format!("the Cluster is not ready for machines: {status}"))?;
            pause().await;
        }
    }

    /// The address that was claimed for the cluster.
    async fn address(&self) -> Result<String> {
        let claim = self.get("IPAddressClaim", &format!("vip-cp-{NAME}")).await?;
        let address = self.get("IPAddress", text(&claim, "/status/addressRef/name")).await?;
        Ok(text(&address, "/spec/address").to_owned())
    }

    /// The Metal3Cluster that Cluster API made of the class.
    async fn place(&self, cluster: &DynamicObject) -> Result<DynamicObject> {
        let kind = GroupVersionKind::gvk(dock::INFRASTRUCTURE, "v1beta2", "Metal3Cluster");
        let places: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind));
        places.get(text(cluster, "/spec/infrastructureRef/name")).await.context("reading the Metal3Cluster")
    }

    /// Waits until the pool has this many addresses left.
    async fn free(&self, wanted: i64) -> Result<i64> {
        let begun = Instant::now();
        loop {
            let pool = self.get("InClusterIPPool", POOL.0).await?;
            let free = pool.data.pointer("/status/ipAddresses/free").and_then(Value::as_i64);
            if free == Some(wanted) {
                return Ok(wanted);
            }
            within(begun, || format!("{free:?} addresses are free, not {wanted}"))?;
            pause().await;
        }
    }

    /// What machines of each group must offer: of hosts what was found in them, of the others what the table says.
    async fn offers(&self) -> Result<Vec<Offer>> {
        let fitting = ListParams::default().labels("size=s1");
        let hosts = self.metal("BareMetalHost")?.list(&fitting).await.context("listing hosts")?.items;
        let (mut cpu, mut memory_mib) = (Vec::new(), Vec::new());
        for host in hosts.iter().filter(|host| host.data.pointer("/spec/consumerRef").is_none()) {
            let found = self.metal("HardwareData")?.get(&host.name_any()).await.context("reading what is in a host")?;
            let number = |at: &str| found.data.pointer(at).and_then(Value::as_i64);
            cpu.extend(number("/spec/hardware/cpu/count"));
            memory_mib.extend(number("/spec/hardware/ramMebibytes"));
        }
        let (cpu, memory_mib) = (cpu.into_iter().min(), memory_mib.into_iter().min());
        let (cpu, memory_mib) = cpu.zip(memory_mib).context("no host fits")?;
        let table: Value = serde_saphyr::from_str(TYPES).context("reading the table")?;
        let mut offers = Vec::new();
        for group in GROUPS {
            offers.push(match table.pointer(&format!("/data/Metal3MachineTemplate.{group}")).and_then(Value::as_str) {
                Some(entry) => {
                    let entry: Value = serde_saphyr::from_str(entry).context("reading an entry of the table")?;
                    let number = |key: &str| entry.get(key).and_then(Value::as_i64).unwrap_or_default();
                    let from = "the table of types";
                    Offer { group, cpu: number("cpu"), memory_mib: number("memoryMib"), from }
                }
                None => Offer { group, cpu, memory_mib, from: "the hosts behind its selector" },
            });
        }
        Ok(offers)
    }

    /// Waits until a group, still at zero replicas, says what a machine of it offers.
    async fn says(&self, offer: &Offer) -> Result<()> {
        let begun = Instant::now();
        loop {
            let group = self.get("MachineDeployment", offer.group).await?;
            let notes = group.annotations();
            let is = |key: &str, value: String| notes.get(&format!("{CAPACITY}/{key}")) == Some(&value);
            if is("cpu", offer.cpu.to_string()) && is("memory", format!("{}Mi", offer.memory_mib)) {
                if group.data.pointer("/spec/replicas") != Some(&json!(0)) {
                    bail!("{} is not at zero replicas: {}", offer.group, group.data);
                }
                return Ok(());
            }
            within(begun, || format!("{} should say {}, but says {notes:?}", offer.group, offer.words()))?;
            pause().await;
        }
    }

    async fn scale(&self, group: &str, replicas: i64) -> Result<()> {
        let patch = json!({"spec": {"replicas": replicas}});
        let groups = self.api("MachineDeployment");
        groups.patch(group, &PatchParams::default(), &Patch::Merge(&patch)).await.context("scaling")?;
        Ok(())
    }

    /// An object of the cluster, found by its kind.
    async fn get(&self, kind: &str, name: &str) -> Result<DynamicObject> {
        let resource = dock::resource(kind).with_context(|| format!("there is no kind {kind}"))?;
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), NAMESPACE, &resource);
        api.get(name).await.with_context(|| format!("reading {kind} {name}"))
    }

    /// Hosts, or what stands beside them.
    fn metal(&self, kind: &str) -> Result<Api<DynamicObject>> {
        let resource = sim::metal::resource(kind).with_context(|| format!("there is no kind {kind}"))?;
        Ok(Api::namespaced_with(self.client.clone(), HOSTS, &resource))
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
        let hosts = self.metal("BareMetalHost")?;
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

fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Fails when something takes too long.
fn within(begun: Instant, last: impl FnOnce() -> String) -> Result<()> {
    if begun.elapsed() > BOUND {
        bail!("not within {} s: {}", BOUND.as_secs(), last());
    }
    Ok(())
}
