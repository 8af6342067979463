//! The part of the story that is about dedicated hosts: what is paid for is never lost, whoever dies.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::ec2;
use sim::ec2::world::faults::{Fault, What};
use sim::ec2::world::oracle::HostFacts;
use sim::ec2::world::settings::Delays;

use crate::berth::Program;
use crate::demo::{patience, pause};
use crate::story::Story;
use crate::world::World;

const NAMESPACE: &str = "default";
/// Name of cluster, network, machine and bootstrap data.
const NAME: &str = "metered";
const CLUSTER_API: &str = "cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const VERSION: &str = "v1beta2";
const REGION: &str = "us-east-1";
const ZONE: &str = "us-east-1a";
const TYPE: &str = "m5.large";
/// How long a host may take to be given back: an instance that ends is looked at now and then only.
const RELEASE: Duration = Duration::from_secs(60);
/// How long EC2 takes to answer while nobody is there to hear it.
const LATE: Duration = Duration::from_secs(600);

/// Tells it, with the API server, Cluster API, the EC2 simulator and Berth running.
pub async fn tell(story: &mut Story, world: &mut World, program: &Program, client: &Client, dir: &Path) -> Result<()> {
    let log = dir.join("berth.log");
    let api = |group: &str, kind: &str| -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, VERSION, kind));
        Api::namespaced_with(client.clone(), NAMESPACE, &resource)
    };
    let machines = api(INFRASTRUCTURE, "AWSMachine");
    let (owners, clusters) = (api(CLUSTER_API, "Machine"), api(CLUSTER_API, "Cluster"));

    let host = story
        .tell("A machine asks for a dedicated host, and Berth is killed before it hears the answer", &log, async {
            let cloud = world.cloud()?.clone();
            let now = Duration::ZERO;
            cloud.settings(|settings| {
                settings.delays =
                    Delays { allocate: now, launch: now, shut_down: now, vacate: now, ..settings.delays.clone() };
            });
            cloud.script(Fault::on("AllocateHosts", What::Delay(LATE)));
            make(client, &cloud).await?;
            let begun = Instant::now();
            let host = loop {
                if let Some(host) = paid(&cloud).into_iter().next() {
                    break host;
                }
                patience(begun, || "no host was asked for".to_owned())?;
                pause().await;
            };
            let journal = journal(&machines).await?;
            let phase = journal.get("phase").and_then(Value::as_str).unwrap_or_default();
            if phase != "Intended" {
                bail!("the intent should be all that is stored: {journal}");
            }
            world.kill_operator().await?;
            Ok((host.id.clone(), format!("{} in {ZONE} is paid for; the machine's journal says {phase}", host.id)))
        })
        .await?;

    story
        .tell("Started again, Berth finds what it paid for and launches on it", &log, async {
            world.restart_operator(program, &log)?.ready().await?;
            let begun = Instant::now();
            let machine = loop {
                let owner = owners.get(NAME).await.context("reading the Machine")?;
                if owner.data.pointer("/status/initialization/infrastructureProvisioned") == Some(&json!(true)) {
                    break machines.get(NAME).await.context("reading the AWSMachine")?;
                }
                patience(begun, || format!("the Machine says {:?}", owner.data.pointer("/status/initialization")))?;
                pause().await;
            };
            let cloud = world.cloud()?;
            let (hosts, instances) = (cloud.hosts().len(), cloud.instances().len());
            if hosts != 1 || instances != 1 {
                bail!("{hosts} hosts and {instances} instances were made");
            }
            let on = text(&machine.data, "/status/dedicatedHost/id");
            if on != host {
                bail!("it runs on {on}, not on {host}");
            }
            Ok((
                (),
                format!(
                    "{} on {on}: one host, one instance, nothing made twice",
                    text(&machine.data, "/spec/providerID")
                ),
            ))
        })
        .await?;

    story
        .tell("Deleted with its Cluster, the machine gives the host back before it goes", &log, async {
            let _ = clusters.delete(NAME, &DeleteParams::default()).await.context("deleting the Cluster")?;
            let (begun, cloud) = (Instant::now(), world.cloud()?);
            while let Some(host) = paid(cloud).first() {
                if begun.elapsed() > RELEASE {
                    bail!("{} is still paid for", host.id);
                }
                pause().await;
            }
            if machines.get_opt(NAME).await.context("looking for the AWSMachine")?.is_none() {
                bail!("the machine was gone before its host");
            }
            let (paid, _) = cloud.bill();
            Ok(((), format!("{host} is released; it was paid for {:.1} s", paid.as_secs_f64())))
        })
        .await
}

fn paid(cloud: &ec2::Handle) -> Vec<HostFacts> {
    cloud.hosts().into_iter().filter(|host| !host.state.is_released()).collect()
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

async fn journal(machines: &Api<DynamicObject>) -> Result<Value> {
    let machine = machines.get(NAME).await.context("reading the AWSMachine")?;
    let notes = machine.metadata.annotations.unwrap_or_default();
    let journal = notes.get("hosts.berth.dev/allocation").context("the machine has no journal")?;
    serde_json::from_str(journal).context("reading the journal")
}

/// A cluster in a network that is there, and a Machine with bootstrap data.
async fn make(client: &Client, cloud: &ec2::Handle) -> Result<()> {
    let subnet = cloud.subnet(REGION, ZONE, false).context("the account has no subnet")?;
    let image = cloud.image(REGION, "x86_64").context("the account has no image")?;
    let group = cloud.with(|world, now| {
        let place = world.place(&cloud.account, REGION, now)?;
        place.groups.values().find(|group| group.name == "node").map(|group| group.id.clone())
    });
    let group = group.context("the account has no security group")?;
    let meta = json!({"name": NAME, "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": NAME}});
    let infrastructure = |kind: &str, meta: &Value, spec: &Value| json!({"apiVersion": format!("{INFRASTRUCTURE}/{VERSION}"), "kind": kind, "metadata": meta, "spec": spec});
    let core = |kind: &str, spec: &Value| {
        json!({"apiVersion": format!("{CLUSTER_API}/{VERSION}"), "kind": kind,
            "metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})
    };
    let reference = |kind: &str| json!({"apiGroup": INFRASTRUCTURE, "kind": kind, "name": NAME});
    // The network is its administrator's, so a machine is in the groups that it names.
    let network = json!({
        "name": NAME, "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": NAME},
        "annotations": {"cluster.x-k8s.io/managed-by": "the-demo"},
    });
    let network = infrastructure(
        "AWSCluster",
        &network,
        &json!({
            "region": REGION, "controlPlaneEndpoint": {"host": "api.example", "port": 6443},
            "network": {"subnets": [{"id": subnet, "availabilityZone": ZONE, "isPublic": false}]},
        }),
    );
    sim::plane::apply(client, &network).await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(INFRASTRUCTURE, VERSION, "AWSCluster"));
    let networks: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    let ready = json!({"status": {"ready": true, "initialization": {"provisioned": true}}});
    networks
        .patch_status(NAME, &PatchParams::default(), &Patch::Merge(&ready))
        .await
        .context("reporting the network")?;
    sim::plane::apply(client, &core("Cluster", &json!({"infrastructureRef": reference("AWSCluster")}))).await?;
    let data = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME, "namespace": NAMESPACE},
        "stringData": {"value": "#cloud-config\n"}});
    sim::plane::apply(client, &data).await?;
    let machine = infrastructure(
        "AWSMachine",
        &meta,
        &json!({
            "instanceType": TYPE, "ami": {"id": image}, "additionalSecurityGroups": [{"id": group}],
            "cloudInit": {"insecureSkipSecretsManager": true}, "dynamicHostAllocation": {"tags": {"CostCenter": "42"}},
        }),
    );
    sim::plane::apply(client, &machine).await?;
    let owner = json!({"clusterName": NAME, "version": "v1.34.1", "bootstrap": {"dataSecretName": NAME},
        "infrastructureRef": reference("AWSMachine")});
    sim::plane::apply(client, &core("Machine", &owner)).await?;
    Ok(())
}

/// Ends a process as a power cut would.
pub fn kill(pid: u32) -> Result<()> {
    let sent = Command::new("kill").args(["-s", "KILL", &pid.to_string()]).status().context("running kill")?;
    if sent.success() { Ok(()) } else { bail!("process {pid} could not be killed") }
}
