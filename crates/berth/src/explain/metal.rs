//! Machines on claims: what keeps each from being a node, down to the claim and its host.

mod told;

use ::claims::explain::Sight;
use api::key::ObjectKey;
use kit::clock::Clock;
use kit::explain::{Explanation, Node};
use kube::Client;

use super::AboutOptions;
use crate::look::{self, Hardware, Metal, Reader};

pub use told::{World, below, cluster, explanation, offered, standing, tree};

/// Explains a machine.
pub async fn about(client: &Client, options: &AboutOptions, name: &str) -> anyhow::Result<Explanation> {
    let (mut world, key) = see(client, options, name, Hardware::AtOnce, "explain").await?;
    explanation(&mut world, &key).ok_or_else(|| unread(&world, &key))
}

/// Draws a machine.
pub async fn draw(client: &Client, options: &AboutOptions, name: &str) -> anyhow::Result<Node> {
    let (mut world, key) = see(client, options, name, Hardware::WhenSought, "tree").await?;
    tree(&mut world, &key).ok_or_else(|| unread(&world, &key))
}

/// Draws the machines of a cluster that are Metal3Machines, by the groups they belong to.
pub async fn of_cluster(
    reader: &Reader<'_>,
    options: &AboutOptions,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Vec<Node>> {
    let Some(seen) = look::metal_of(reader, namespace, "tree").await? else { return Ok(Vec::new()) };
    Ok(cluster(&mut world(seen, options), namespace, name))
}

async fn see(
    client: &Client,
    options: &AboutOptions,
    name: &str,
    hardware: Hardware,
    command: &str,
) -> anyhow::Result<(World, ObjectKey)> {
    let namespace = options.place.namespace(client);
    let reader = Reader::new(client, Some(&namespace));
    let seen = look::metal(&reader, &namespace, name, hardware, command).await?;
    Ok((world(seen, options), ObjectKey::namespaced(namespace, name)))
}

/// What was read, judged as the operator does.
pub fn world(mut seen: Metal, options: &AboutOptions) -> World {
    let now = Clock::system().now();
    let lists = seen.claims.take();
    let sight = lists.map(|lists| Sight::of(lists, options.operator.yard.settings(), now));
    World { seen, sight, default_kind: options.operator.mode.default_host_kind.clone(), now }
}

/// The machine is there, but not in a form that can be explained.
fn unread(world: &World, key: &ObjectKey) -> anyhow::Error {
    let why = world.seen.unseen.iter().find(|why| why.contains(key.name()));
    anyhow::anyhow!("{}", why.cloned().unwrap_or_else(|| format!("the Metal3Machine {key} was not read")))
}
