//! What the explanation of a machine on EC2 rests on.

use ::hosts::facts::World;
use anyhow::anyhow;
use api::key::ObjectKey;
use api::raw::AWSMachine;
use api::views::{AWSCluster, AwsIdentityRef, Cluster, Machine};
use aws::identity::{IdentityFeeds, IdentityLists};
use kit::clock::Clock;
use kit::explain::Extent;
use kit::feed::{Feed, Project};
use kit::kinds::Kind;

use super::{Read, Reader, Shown, Which};

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
    reader: &Reader<'_>,
    namespace: &str,
    name: &str,
    command: &str,
    own_identity: bool,
) -> anyhow::Result<Surroundings> {
    let Some(kind) = reader.kind::<AWSMachine>().await? else {
        return Err(anyhow!("the server does not know AWSMachines; see `berth doctor`, or choose another --context"));
    };
    let (mut machines, found) =
        tokio::try_join!(Box::pin(reader.read_here::<AWSMachine>()), Box::pin(Found::read(reader, true)))?;
    let which = Which::One(namespace, name);
    reader.complete(&which, &kind, &mut machines.items, &format!("{command} awsmachine")).await?;
    Ok(found.around(machines.items, own_identity))
}

/// Reads all machines of a namespace and everything that decides about them, without a look at credentials: EC2 is not asked, and
/// a Secret for each machine would be much to ask for nothing. None where there is no such machine.
///
/// # Errors
/// When the server does not answer.
pub async fn machines(reader: &Reader<'_>) -> anyhow::Result<Option<Surroundings>> {
    if reader.kind::<AWSMachine>().await?.is_none() {
        return Ok(None);
    }
    // What stands around them is read beside them, and no further once it is known that there are none.
    let (mut machines, mut found) = (Box::pin(reader.read_here::<AWSMachine>()), Box::pin(Found::read(reader, true)));
    let (machines, found) = tokio::select! {
        read = &mut machines => {
            let read = read?;
            if read.items.is_empty() {
                return Ok(None);
            }
            (read, found.await?)
        }
        read = &mut found => {
            let machines = machines.await?;
            if machines.items.is_empty() {
                return Ok(None);
            }
            (machines, read?)
        }
    };
    Ok(Some(found.around(machines.items, true)))
}

/// Everything that decides about these machines, without a look at credentials.
///
/// # Errors
/// When the server does not answer.
pub async fn around_machines(reader: &Reader<'_>, machines: Vec<AWSMachine>) -> anyhow::Result<Surroundings> {
    Ok(Found::read(reader, false).await?.around(machines, true))
}

/// What stands around machines, as it was read.
struct Found {
    networks: Vec<AWSCluster>,
    lists: IdentityLists,
    owners: Vec<Machine>,
    clusters: Vec<Cluster>,
    unseen: Vec<String>,
}

impl Found {
    /// Reads it; with `here` for machines of the namespace that matters alone.
    async fn read(reader: &Reader<'_>, here: bool) -> anyhow::Result<Self> {
        let owners = async {
            match here {
                true => reader.read_here().await,
                false => reader.read().await,
            }
        };
        let (networks, controllers, statics, roles, spaces, owners, clusters) = tokio::try_join!(
            Box::pin(reader.read()),
            Box::pin(reader.read()),
            Box::pin(reader.read()),
            Box::pin(reader.read()),
            Box::pin(reader.read()),
            Box::pin(owners),
            Box::pin(reader.read()),
        )?;
        let mut unseen = Vec::new();
        let networks = keep(networks, &mut unseen);
        let lists = IdentityLists {
            controllers: keep(controllers, &mut unseen),
            statics: keep(statics, &mut unseen),
            roles: keep(roles, &mut unseen),
            spaces: keep(spaces, &mut unseen),
        };
        let (owners, clusters) = (keep(owners, &mut unseen), keep(clusters, &mut unseen));
        Ok(Self { networks, lists, owners, clusters, unseen })
    }

    fn around(self, machines: Vec<AWSMachine>, own_identity: bool) -> Surroundings {
        let Self { mut networks, lists, owners, clusters, unseen } = self;
        let named = |network: &AWSCluster| Some((ObjectKey::of(network), network.spec.identity_ref.clone()?));
        let identities = networks.iter().filter_map(named).collect();
        if own_identity {
            networks.iter_mut().for_each(|network| network.spec.identity_ref = None);
        }
        let clock = Clock::system();
        let world = World {
            machines: feed(&clock, machines),
            owners: feed(&clock, owners),
            clusters: feed(&clock, clusters),
            clouds: feed(&clock, networks),
            spaces: feed(&clock, lists.spaces.clone()),
            identities: IdentityFeeds::of(lists, &clock),
        };
        Surroundings { world, identities, unseen }
    }
}

fn feed<P: Project>(clock: &Clock, objects: Vec<P::Source>) -> Feed<P> {
    Feed::of(clock.clone(), Kind::of::<P::Source>(), objects)
}

/// What was read; whoever asks about one machine misses nothing of other namespaces.
fn keep<K: Shown>(read: Read<K>, unseen: &mut Vec<String>) -> Vec<K> {
    unseen.extend(read.unseen.filter(|(extent, _)| *extent == Extent::All).map(|(_, why)| why));
    read.items
}
