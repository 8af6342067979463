//! What the explanation of a machine on EC2 rests on.

use ::hosts::facts::World;
use anyhow::anyhow;
use api::key::ObjectKey;
use api::meta::View;
use api::raw::AWSMachine;
use api::views::{AWSCluster, AwsIdentityRef};
use aws::identity::{IdentityFeeds, IdentityLists};
use kit::clock::Clock;
use kit::explain::Extent;
use kit::feed::{Feed, Project};
use kit::kinds::{Kind, Kinds};
use kube::Client;
use serde::de::DeserializeOwned;

use super::{Read, Reader, Which};

/// A machine and what stands around it.
pub struct Surroundings {
    /// Everything that was read.
    pub world: World,
    /// As whom the machine's cluster calls EC2, by the name of each AWSCluster.
    pub identities: Vec<(ObjectKey, AwsIdentityRef)>,
    /// What could not be read, each in a sentence.
    pub unseen: Vec<String>,
}

/// Reads a machine and everything that decides about it. With `own_identity`, EC2 is called as whoever asks, whatever
/// identity a cluster names.
///
/// # Errors
/// When the machine is not there or may not be read, or the server does not answer.
pub async fn machine(
    client: &Client,
    namespace: &str,
    name: &str,
    command: &str,
    own_identity: bool,
) -> anyhow::Result<Surroundings> {
    let reader = Reader { client, kinds: Kinds::new(client.clone()), namespace: Some(namespace) };
    let mut machines: Read<AWSMachine> = reader.read().await?;
    let Some(kind) = machines.kind.clone() else {
        return Err(anyhow!("the server does not know AWSMachines; see `berth doctor`, or choose another --context"));
    };
    let which = Which::One(namespace, name);
    reader.complete(&which, &kind, &mut machines.items, &format!("{command} awsmachine")).await?;
    around(&reader, machines.items, own_identity, Vec::new()).await
}

/// Reads all machines of a namespace and everything that decides about them, without a look at credentials: EC2 is not asked, and
/// a Secret for each machine would be much to ask for nothing. None where the server knows no such kind.
///
/// # Errors
/// When the server does not answer.
pub async fn machines(client: &Client, namespace: &str) -> anyhow::Result<Option<Surroundings>> {
    let reader = Reader { client, kinds: Kinds::new(client.clone()), namespace: Some(namespace) };
    let machines: Read<AWSMachine> = reader.read().await?;
    if machines.kind.is_none() || machines.items.is_empty() {
        return Ok(None);
    }
    around(&reader, machines.items, true, Vec::new()).await.map(Some)
}

/// Everything that decides about these machines, without a look at credentials.
///
/// # Errors
/// When the server does not answer.
pub async fn around_machines(reader: &Reader<'_>, machines: Vec<AWSMachine>) -> anyhow::Result<Surroundings> {
    around(reader, machines, true, Vec::new()).await
}

async fn around(
    reader: &Reader<'_>,
    machines: Vec<AWSMachine>,
    own_identity: bool,
    mut unseen: Vec<String>,
) -> anyhow::Result<Surroundings> {
    let (networks, controllers, statics, roles, spaces, owners, clusters) = tokio::try_join!(
        Box::pin(reader.read()),
        Box::pin(reader.read()),
        Box::pin(reader.read()),
        Box::pin(reader.read()),
        Box::pin(reader.read()),
        Box::pin(reader.read()),
        Box::pin(reader.read()),
    )?;
    let mut networks: Vec<AWSCluster> = keep(networks, &mut unseen);
    let named = |network: &AWSCluster| Some((ObjectKey::of(network), network.spec.identity_ref.clone()?));
    let identities = networks.iter().filter_map(named).collect();
    if own_identity {
        networks.iter_mut().for_each(|network| network.spec.identity_ref = None);
    }
    let clock = Clock::system();
    let lists = IdentityLists {
        controllers: keep(controllers, &mut unseen),
        statics: keep(statics, &mut unseen),
        roles: keep(roles, &mut unseen),
        spaces: keep(spaces, &mut unseen),
    };
    let world = World {
        machines: feed(&clock, machines),
        owners: feed(&clock, keep(owners, &mut unseen)),
        clusters: feed(&clock, keep(clusters, &mut unseen)),
        clouds: feed(&clock, networks),
        spaces: feed(&clock, lists.spaces.clone()),
        identities: IdentityFeeds::of(lists, &clock),
    };
    Ok(Surroundings { world, identities, unseen })
}

fn feed<P: Project>(clock: &Clock, objects: Vec<P::Source>) -> Feed<P> {
    Feed::of(clock.clone(), Kind::of::<P::Source>(), objects)
}

/// What was read; whoever asks about one machine misses nothing of other namespaces.
fn keep<K>(read: Read<K>, unseen: &mut Vec<String>) -> Vec<K>
where
    K: View + Clone + DeserializeOwned + std::fmt::Debug,
{
    unseen.extend(read.unseen.filter(|(extent, _)| *extent == Extent::All).map(|(_, why)| why));
    read.items
}
