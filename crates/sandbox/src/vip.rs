//! The part of the story that is about clusters: they get an address before anything is made of them.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use kube::api::{Api, DeleteParams, DynamicObject};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use sim::dock::objects::{self, Class};
use sim::dock::oracle::{self, Promise, Promises};
use sim::dock::{self, Provider, Record};

use crate::berth::EXTENSION;
use crate::demo::{patience, pause};
use crate::parts::Part;
use crate::story::Story;
use crate::world::World;

const NAMESPACE: &str = "default";
/// Name of class, pool and cluster.
const DEMO: &str = "demo";

/// Tells it, with the API server and Berth running.
pub async fn tell(story: &mut Story, world: &mut World, client: &Client, dir: &Path) -> Result<()> {
    let (log, managers) = (dir.join("berth.log"), dir.join("plane/capi-core.log"));
    story
        .tell("The real Cluster API manager and the real IPAM provider start", &managers, async {
            let mut said = Vec::new();
            for part in [Part::Capi, Part::Ipam] {
                world.start_manager(part).await?;
            }
            sim::plane::install_crds(client, dock::kinds::definitions()).await?;
            for (name, manager) in &mut world.managers {
                said.push(format!("{name}, process {}", manager.process().pid()));
            }
            Ok(((), said.join("\n")))
        })
        .await?;
    let provider = Provider::start(client);
    let record = Record::start(client).await?;

    story
        .tell("Cluster API discovers the hooks that Berth serves", &log, async {
            let handlers = world.register_hooks(client).await?;
            Ok(((), handlers.join("\n")))
        })
        .await?;

    let mut promises = Promises::new();
    story
        .tell("A class and a pool of ten addresses are made", &managers, async {
            for object in Class::managed(NAMESPACE, DEMO, EXTENSION).objects() {
                sim::plane::apply(client, &object).await?;
            }
            sim::plane::apply(client, &objects::pool(DEMO, DEMO, "10.0.0.10-10.0.0.19")).await?;
            let free = free(client, 10).await?;
            usable(client).await?;
            Ok(((), format!("ClusterClass {DEMO}, GlobalInClusterIPPool {DEMO}: {free} addresses free")))
        })
        .await?;

    story
        .tell("A cluster gets its address before anything is made of it", &log, async {
            let begun = Instant::now();
            promises.insert((NAMESPACE.to_owned(), DEMO.to_owned()), Promise::Managed);
            sim::plane::apply(client, &objects::cluster(NAMESPACE, DEMO, DEMO)).await?;
            let endpoint = endpoint(client, DEMO).await?;
            let took = begun.elapsed();
            let part = infrastructure(client, DEMO).await?;
            keep(&record, &promises).await?;
            let claim = get(client, "IPAddressClaim", &format!("vip-cp-{DEMO}")).await?;
            let pool = text(&claim, "/spec/poolRef/name");
            let address = get(client, "IPAddress", text(&claim, "/status/addressRef/name")).await?;
            let (address, free) = (text(&address, "/spec/address").to_owned(), free(client, 9).await?);
            if !endpoint.starts_with(&address) {
                bail!("the endpoint is {endpoint}, the claim has {address}");
            }
            Ok((
                (),
                format!(
                    "endpoint {endpoint} after {:.1} s\nclaim {} has address {address} of pool {pool}, {free} left\n\
                 {part} has the endpoint since its first version, by a watch of every version",
                    took.as_secs_f64(),
                    claim.name_any(),
                ),
            ))
        })
        .await?;

    story
        .tell("An endpoint that a user chose stays, and costs no address", &log, async {
            let host = "api.example.test";
            let chosen = json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": 6443}}});
            promises.insert((NAMESPACE.to_owned(), "manual".to_owned()), Promise::Manual { host: host.to_owned() });
            let plan = objects::merged(objects::cluster(NAMESPACE, "manual", DEMO), &chosen);
            sim::plane::apply(client, &plan).await?;
            let part = infrastructure(client, "manual").await?;
            keep(&record, &promises).await?;
            Ok((
                (),
                format!("{part} has {}, {} addresses left", endpoint(client, "manual").await?, free(client, 9).await?),
            ))
        })
        .await?;

    story
        .tell("A cluster that is deleted gives its address back", &log, async {
            let begun = Instant::now();
            for name in [DEMO, "manual"] {
                clusters(client)?.delete(name, &DeleteParams::default()).await.context("deleting a cluster")?;
            }
            let free = free(client, 10).await?;
            keep(&record, &promises).await?;
            let left = oracle::left_over(&record.history().await?, NAMESPACE);
            if !left.is_empty() {
                bail!("left over: {}", left.join(", "));
            }
            Ok(((), format!("{free} addresses free again, after {:.1} s", begun.elapsed().as_secs_f64())))
        })
        .await?;
    drop(provider);
    Ok(())
}

/// Every promise so far held at every revision.
async fn keep(record: &Record, promises: &Promises) -> Result<()> {
    let breaches = oracle::judge(&record.history().await?, promises);
    match breaches.first() {
        None => Ok(()),
        Some(first) => bail!("a promise was broken: {first}"),
    }
}

fn clusters(client: &Client) -> Result<Api<DynamicObject>> {
    namespaced(client, "Cluster")
}

fn namespaced(client: &Client, kind: &str) -> Result<Api<DynamicObject>> {
    let resource = dock::resource(kind).with_context(|| format!("there is no kind {kind}"))?;
    Ok(Api::namespaced_with(client.clone(), NAMESPACE, &resource))
}

async fn get(client: &Client, kind: &str, name: &str) -> Result<DynamicObject> {
    namespaced(client, kind)?.get(name).await.with_context(|| format!("reading {kind} {name}"))
}

fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Waits until the pool has this many addresses left.
async fn free(client: &Client, wanted: i64) -> Result<i64> {
    let resource = dock::resource("GlobalInClusterIPPool").context("there is no such kind")?;
    let pools: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let begun = Instant::now();
    loop {
        let pool = pools.get(DEMO).await.context("reading the pool")?;
        let free = pool.data.pointer("/status/ipAddresses/free").and_then(Value::as_i64);
        if free == Some(wanted) {
            return Ok(wanted);
        }
        patience(begun, || format!("{free:?} addresses are free, not {wanted}"))?;
        pause().await;
    }
}

/// Waits until Cluster API has read the class.
async fn usable(client: &Client) -> Result<()> {
    let begun = Instant::now();
    loop {
        let class = get(client, "ClusterClass", DEMO).await?;
        let observed = class.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
        if observed.is_some() && observed == class.metadata.generation {
            return Ok(());
        }
        patience(begun, || "the class is not reconciled".to_owned())?;
        pause().await;
    }
}

/// Waits until a cluster has a whole endpoint.
async fn endpoint(client: &Client, name: &str) -> Result<String> {
    let begun = Instant::now();
    loop {
        let cluster = get(client, "Cluster", name).await?;
        let port = cluster.data.pointer("/spec/controlPlaneEndpoint/port").and_then(Value::as_i64);
        let host = text(&cluster, "/spec/controlPlaneEndpoint/host");
        if let Some(port) = port.filter(|_| !host.is_empty()) {
            return Ok(format!("{host}:{port}"));
        }
        let why = cluster.data.pointer("/status/conditions").cloned().unwrap_or_default();
        patience(begun, || format!("{name} has no endpoint: {why}"))?;
        pause().await;
    }
}

/// Waits until Cluster API made the infrastructure cluster, and names it.
async fn infrastructure(client: &Client, name: &str) -> Result<String> {
    let begun = Instant::now();
    loop {
        let cluster = get(client, "Cluster", name).await?;
        let part = text(&cluster, "/spec/infrastructureRef/name").to_owned();
        if !part.is_empty() {
            let part = get(client, "DockCluster", &part).await?;
            return Ok(format!("DockCluster {}", part.name_any()));
        }
        let why = cluster.data.pointer("/status/conditions").cloned().unwrap_or_default();
        patience(begun, || format!("{name} has no infrastructure: {why}"))?;
        pause().await;
    }
}
