//! Reads what a command needs, once, with the rights of whoever asks, and says what those rights do not cover.

mod claims;
mod clusters;
mod cut;
mod machines;
mod metal;
mod object;
mod reader;
mod served;

use ::vip::explain::{Lists, Part, Sight};
use anyhow::anyhow;
use api::key::ObjectKey;
use api::meta::View;
use api::views::Cluster;
use kit::clock::Clock;
use kit::kinds::{Kind, Kinds};
use kube::Client;
use kube::api::ListParams;

pub use claims::{Hardware, claims, claims_alone, claims_around, hosts, zones};
pub use clusters::{Anywhere, cluster, clusters, datacenter_of, every_cluster, machines_of};
pub use machines::{Surroundings, around_machines, machine, machines};
pub use metal::{Metal, every_metal, metal, metal_of};
pub use object::{Thing, key, object};
pub use reader::{Read, Reader, Shown};

use crate::near;
use reader::{Listed, items};

/// The clusters that were asked for, and everything their addresses depend on.
pub struct Look {
    /// The clusters, ordered by namespace and name.
    pub clusters: Vec<Cluster>,
    /// What there is to see.
    pub sight: Sight,
}

/// Which objects are looked at.
pub enum Which<'a> {
    /// The one of this name in this namespace.
    One(&'a str, &'a str),
    /// Those of this namespace.
    In(&'a str),
    /// All.
    All,
}

impl Which<'_> {
    /// The namespace they are in, where that is one.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::One(namespace, _) | Self::In(namespace) => Some(namespace),
            Self::All => None,
        }
    }

    /// Whether the object of this key is one of them.
    pub fn takes(&self, key: &ObjectKey) -> bool {
        match self {
            Self::One(namespace, name) => key.namespace() == Some(*namespace) && key.name() == *name,
            Self::In(namespace) => key.namespace() == Some(*namespace),
            Self::All => true,
        }
    }
}

/// Reads clusters and what their addresses depend on.
///
/// # Errors
/// When the cluster is not there or may not be read, or the server does not answer.
pub async fn look(reader: &Reader<'_>, which: &Which<'_>, command: &str) -> anyhow::Result<Look> {
    let (kind, mut lists) = addresses(reader).await?;
    let Some(kind) = kind else {
        return Err(anyhow!("the server does not know Clusters; install Cluster API, or choose another --context"));
    };
    reader.complete(which, &kind, &mut lists.clusters, &format!("{command} cluster")).await?;
    let takes = |cluster: &&Cluster| which.takes(&ObjectKey::of(*cluster));
    let mut chosen: Vec<Cluster> = lists.clusters.iter().filter(takes).cloned().collect();
    chosen.sort_by_key(ObjectKey::of);
    Ok(Look { clusters: chosen, sight: Sight::of(lists, &Clock::system()) })
}

/// Reads clusters and what their addresses depend on, and at which version the server knows Clusters, if at all.
///
/// # Errors
/// When the server does not answer.
pub async fn addresses(reader: &Reader<'_>) -> anyhow::Result<(Option<Kind>, Lists)> {
    let (clusters, classes, claims, addresses, pools, global_pools, namespaces, extensions) = tokio::try_join!(
        Box::pin(reader.list(Part::Clusters)),
        Box::pin(reader.list(Part::Classes)),
        Box::pin(reader.list(Part::Claims)),
        Box::pin(reader.list(Part::Addresses)),
        Box::pin(reader.list(Part::Pools)),
        Box::pin(reader.list(Part::GlobalPools)),
        Box::pin(reader.list(Part::Namespaces)),
        Box::pin(reader.list(Part::Extensions)),
    )?;
    let clusters: Listed<Cluster, Part> = clusters;
    let kind = clusters.kind.clone();
    let mut unseen = Vec::new();
    let lists = Lists {
        version: kind.as_ref().map(|kind| kind.version.clone()),
        clusters: clusters.keep(&mut unseen),
        classes: classes.keep(&mut unseen),
        claims: claims.keep(&mut unseen),
        addresses: addresses.keep(&mut unseen),
        pools: pools.keep(&mut unseen),
        global_pools: global_pools.keep(&mut unseen),
        namespaces: namespaces.keep(&mut unseen),
        extensions: extensions.keep(&mut unseen),
        unseen: Vec::new(),
    };
    Ok((kind, Lists { unseen, ..lists }))
}

/// Every object of a kind; `None` when the server does not know the kind.
///
/// # Errors
/// When the server does not answer, or refuses.
pub async fn every<K: Shown>(client: &Client) -> Result<Option<Vec<K>>, Box<kube::Error>> {
    let versions = Kind::of::<K>().at(K::VERSIONS);
    let Some(kind) = Kinds::new(client.clone()).first_served(&versions).await? else { return Ok(None) };
    items(client, kind, None, &ListParams::default()).await.map(Some).map_err(Box::new)
}

/// A kind as kubectl names it; kinds of the core have no group.
fn plural(kind: &Kind) -> String {
    kind.definition().trim_end_matches('.').to_owned()
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// There is no such object, but perhaps one that was meant.
fn missing<K: View>(items: &[K], kind: &Kind, key: &ObjectKey, command: &str) -> anyhow::Error {
    let keys: Vec<ObjectKey> = items.iter().map(ObjectKey::of).collect();
    absent(&keys, kind, key, command)
}

/// The same where those that are there are known by their keys.
fn absent(keys: &[ObjectKey], kind: &Kind, key: &ObjectKey, command: &str) -> anyhow::Error {
    let name = key.name();
    let elsewhere = keys.iter().find(|other| other.name() == name);
    let here = keys.iter().filter(|other| other.namespace() == key.namespace()).map(ObjectKey::name);
    let meant = elsewhere.cloned().or_else(|| {
        let name = near::nearest(name, here)?;
        Some(match key.namespace() {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster_scoped(name),
        })
    });
    let what = &kind.kind;
    match meant {
        Some(meant) => {
            let place = meant.namespace().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
            anyhow!("there is no {what} {key}; perhaps you mean `berth {command}/{}{place}`", meant.name())
        }
        None => {
            let everywhere = if key.namespace().is_some() { " -A" } else { "" };
            anyhow!("there is no {what} {key}; see `kubectl get {}{everywhere}`", plural(kind))
        }
    }
}
