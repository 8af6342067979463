//! Machines on EC2 and their dedicated hosts.

mod told;

use std::collections::BTreeMap;
use std::sync::Arc;

use ::hosts::config::Config;
use ::hosts::metrics::HostsMetrics;
use ::hosts::room::{Keeper, Parts};
use ::hosts::shelf::Shelves;
use ::hosts::snapshot::Snapshot;
use anyhow::Context;
use api::key::ObjectKey;
use api::views::Machine;
use aws::net::{Aws, Meter, Options};
use aws::place::Endpoints;
use kit::class::chain;
use kit::clock::Clock;
use kit::events::Events;
use kit::explain::{Explanation, Node};
use kit::feed::Seen;
use kit::room::Room;
use kit::write::Writer;
use kube::Client;

use super::AboutOptions;
use crate::Usage;
use crate::capacity::{ambient_source, environment};
use crate::groups::GroupOptions;
use crate::look::{self, Reader, Surroundings};

pub use told::{Told, explanation, tree};

/// Explains a machine.
pub async fn about(
    client: &Client,
    options: &AboutOptions,
    name: &str,
    capacity: &GroupOptions,
) -> anyhow::Result<Explanation> {
    let told = see(client, options, name, "explain", Some(capacity)).await?;
    Ok(explanation(&told, Clock::system().now()))
}

/// Draws a machine.
pub async fn draw(client: &Client, options: &AboutOptions, name: &str) -> anyhow::Result<Node> {
    Ok(tree(&see(client, options, name, "tree", None).await?))
}

async fn see(
    client: &Client,
    options: &AboutOptions,
    name: &str,
    command: &str,
    capacity: Option<&GroupOptions>,
) -> anyhow::Result<Told> {
    let namespace = options.place.namespace(client);
    let lookup = capacity.filter(|capacity| capacity.lookup);
    let reader = Reader::new(client, Some(&namespace));
    let around = look::machine(&reader, &namespace, name, command, lookup.is_some()).await?;
    let key = ObjectKey::namespaced(namespace, name);
    let mut config = Config { watch_filter: options.operator.watch_filter.value(), ..Config::default() };
    let mut unseen = around.unseen.clone();
    let mut snapshot = None;
    if let Some(capacity) = lookup {
        let vars = environment();
        let endpoints = Endpoints::new().environment(&vars);
        let endpoints = endpoints.map_err(|error| Usage(format!("environment: {}", chain(&error))))?;
        config.endpoints = capacity.judgement.endpoints(endpoints);
        config.ambient = ambient_source(&vars);
        let agent = concat!("berth-explain/", env!("CARGO_PKG_VERSION"));
        let aws = Aws::new(Options::new(agent), Clock::system(), Meter::default());
        match observed(&keeper(client, &around, &config, aws), &key).await {
            Ok(seen) => snapshot = Some(seen),
            // A right that is missing here, such as to read the bootstrap data, is no reason to say nothing.
            Err(error) => unseen.push(format!("what EC2 shows: {error:#}")),
        }
    }
    let looked = snapshot.is_some();
    let snapshot = match snapshot {
        Some(snapshot) => snapshot,
        None => closed(client, &around, &config, &key).await?,
    };
    let cloud = snapshot.cluster.as_ref().and_then(|cluster| cluster.infrastructure.as_ref());
    let cloud = cloud.map(|cloud| ObjectKey::namespaced(key.namespace().unwrap_or_default(), cloud.name.as_str()));
    let identity = around.identities.iter().find(|(network, _)| Some(network) == cloud.as_ref());
    let identity = identity.map(|(_, identity)| format!("{} {}", identity.kind, identity.name));
    Ok(Told { snapshot, looked, identity, unseen })
}

/// Draws the machines of a cluster, without asking EC2.
pub async fn of_cluster(
    reader: &Reader<'_>,
    options: &AboutOptions,
    namespace: &str,
    cluster: &str,
) -> anyhow::Result<Vec<Node>> {
    let Some(around) = look::machines(reader).await? else { return Ok(Vec::new()) };
    let config = Config { watch_filter: options.operator.watch_filter.value(), ..Config::default() };
    let machines = around.world.machines.by("cluster", &format!("{namespace}/{cluster}"));
    let mut keys: Vec<ObjectKey> = machines.into_iter().map(|(key, _)| key).collect();
    keys.sort();
    let (mut nodes, keeper) = (Vec::new(), keeper(reader.client, &around, &config, closed_cloud()));
    for key in keys {
        let snapshot = observed(&keeper, &key).await?;
        nodes.push(tree(&Told { snapshot, looked: false, identity: None, unseen: Vec::new() }));
    }
    Ok(nodes)
}

/// What these Machines of Cluster API are made of, where that is an AWSMachine, by their names; EC2 is not asked.
pub async fn below(
    client: &Client,
    around: &Surroundings,
    options: &AboutOptions,
    owners: &[Machine],
) -> anyhow::Result<BTreeMap<ObjectKey, Node>> {
    let config = Config { watch_filter: options.operator.watch_filter.value(), ..Config::default() };
    let (mut nodes, keeper) = (BTreeMap::new(), keeper(client, around, &config, closed_cloud()));
    for owner in owners {
        let made_of = owner.spec.infrastructure_ref.as_ref().filter(|to| to.kind == "AWSMachine");
        let Some(made_of) = made_of else { continue };
        let owner = ObjectKey::of(owner);
        let key = ObjectKey::namespaced(owner.namespace().unwrap_or_default(), made_of.name.as_str());
        if !matches!(around.world.machines.get(&key), Seen::At(_)) {
            continue;
        }
        let snapshot = observed(&keeper, &key).await?;
        nodes.insert(owner, tree(&Told { snapshot, looked: false, identity: None, unseen: Vec::new() }));
    }
    Ok(nodes)
}

/// Thinks as the room does where EC2 was not asked.
fn closed_cloud() -> Aws {
    Aws::new(Options::closed(), Clock::system(), Meter::default())
}

/// Looks without asking EC2.
pub async fn closed(
    client: &Client,
    around: &Surroundings,
    config: &Config,
    key: &ObjectKey,
) -> anyhow::Result<Snapshot> {
    observed(&keeper(client, around, config, closed_cloud()), key).await
}

/// The room's own eyes, on what was read.
fn keeper(client: &Client, around: &Surroundings, config: &Config, cloud: Aws) -> Keeper<Aws> {
    let clock = Clock::system();
    Keeper::new(Parts {
        world: around.world.clone(),
        config: Arc::new(config.clone()),
        shelves: Arc::new(Shelves::new(cloud, clock.clone(), config.launches)),
        writer: Writer::new(client.clone(), "hosts"),
        events: Events::new(client.clone(), "hosts", None),
        clock,
        metrics: HostsMetrics::default(),
    })
}

/// Looks as the room does, once.
async fn observed(keeper: &Keeper<Aws>, key: &ObjectKey) -> anyhow::Result<Snapshot> {
    let seen = keeper.observe(key, Clock::system().now()).await.map_err(|error| anyhow::anyhow!(chain(&error)))?;
    seen.context("the machine was not read")
}
