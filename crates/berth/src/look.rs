//! Reads what a command needs, once, with the rights of whoever asks, and says what those rights do not cover.

mod claims;
mod clusters;
mod machines;
mod metal;

use ::vip::explain::{Lists, Part, Sight};
use anyhow::{Context, anyhow};
use api::key::ObjectKey;
use api::meta::{Versioned, View};
use api::views::Cluster;
use kit::clock::Clock;
use kit::explain::{Extent, Unseen};
use kit::kinds::{Kind, Kinds};
use kube::api::ListParams;
use kube::{Api, Client};
use serde::de::DeserializeOwned;

pub use claims::{claims, claims_alone, claims_around, hosts, zones};
pub use clusters::{Anywhere, cluster, clusters, datacenter_of, every_cluster, machines_of};
pub use machines::{Surroundings, around_machines, machine, machines};
pub use metal::{Metal, every_metal, metal, metal_of};

use crate::near;

/// Objects in one answer of the server.
const PAGE: u32 = 500;

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
    fn namespace(&self) -> Option<&str> {
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
pub async fn look(client: &Client, which: &Which<'_>, command: &str) -> anyhow::Result<Look> {
    let reader = Reader { client, kinds: Kinds::new(client.clone()), namespace: which.namespace() };
    let (kind, mut lists) = addresses(&reader).await?;
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

/// What was read of one kind.
struct Listed<K, P> {
    kind: Option<Kind>,
    items: Vec<K>,
    unseen: Option<Unseen<P>>,
}

impl<K, P> Listed<K, P> {
    fn keep(self, unseen: &mut Vec<Unseen<P>>) -> Vec<K> {
        unseen.extend(self.unseen);
        self.items
    }
}

/// Reads whole kinds, as far as the one who asks may.
pub struct Reader<'a> {
    /// The server.
    pub client: &'a Client,
    /// Which kinds it serves.
    pub kinds: Kinds,
    /// The namespace that matters most.
    pub namespace: Option<&'a str>,
}

/// What was read of one kind, and what was not.
pub struct Read<K> {
    /// The kind at the version that is served; absent when it is not.
    pub kind: Option<Kind>,
    /// The objects.
    pub items: Vec<K>,
    /// How much could not be read, and why.
    pub unseen: Option<(Extent, String)>,
}

impl Reader<'_> {
    async fn list<K, P>(&self, part: P) -> anyhow::Result<Listed<K, P>>
    where
        K: View + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let Read { kind, items, unseen } = self.read().await?;
        Ok(Listed { kind, items, unseen: unseen.map(|(extent, why)| Unseen { part, extent, why }) })
    }

    /// Reads every object of a kind that this user may read: of all namespaces, or else of the one that matters.
    pub async fn read<K>(&self) -> anyhow::Result<Read<K>>
    where
        K: View + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let any = Kind::of::<K>();
        let candidates = any.at(K::VERSIONS);
        let served = self.kinds.first_served(&candidates).await;
        let Some(kind) = served.with_context(|| format!("asking the server for {}", any.kind))?.cloned() else {
            let why = format!("the server does not know {} ({}), so there is none", any.kind, any.group);
            return Ok(Read { kind: None, items: Vec::new(), unseen: Some((Extent::Absent, why)) });
        };
        let (resource, name) = (kind.resource(), plural(&kind));
        let failed = |error: kube::Error| anyhow!(error).context(format!("listing {name}"));
        match pages(Api::all_with(self.client.clone(), &resource)).await {
            Ok(items) => return Ok(Read { kind: Some(kind), items, unseen: None }),
            Err(error) if !is_forbidden(&error) => return Err(failed(error)),
            Err(_) => {}
        }
        if let Some(namespace) = self.namespace.filter(|_| K::NAMESPACED) {
            match pages(Api::namespaced_with(self.client.clone(), namespace, &resource)).await {
                Ok(items) => {
                    let why = format!("you may not list {name} in all namespaces: only those in {namespace} were read");
                    return Ok(Read { kind: Some(kind), items, unseen: Some((Extent::Elsewhere, why)) });
                }
                Err(error) if !is_forbidden(&error) => return Err(failed(error)),
                Err(_) => {}
            }
        }
        let why = format!("you may not list {name}: ask for that right, or look with another --context");
        Ok(Read { kind: Some(kind), items: Vec::new(), unseen: Some((Extent::All, why)) })
    }

    /// Adds the one object that is asked for, where no list showed it.
    async fn complete<K>(&self, which: &Which<'_>, kind: &Kind, items: &mut Vec<K>, command: &str) -> anyhow::Result<()>
    where
        K: View + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let Which::One(namespace, name) = which else { return Ok(()) };
        if items.iter().any(|item| which.takes(&ObjectKey::of(item))) {
            return Ok(());
        }
        let Some(found) = self.one(kind, namespace, name).await? else {
            return Err(missing(items, kind, &ObjectKey::namespaced(*namespace, *name), command));
        };
        items.push(found);
        Ok(())
    }

    /// Reads one object that no list showed.
    async fn one<K>(&self, kind: &Kind, namespace: &str, name: &str) -> anyhow::Result<Option<K>>
    where
        K: View + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<Versioned<K>> = Api::namespaced_with(self.client.clone(), namespace, &kind.resource());
        match api.get_opt(name).await {
            Ok(found) => Ok(found.map(|Versioned(object)| object)),
            Err(error) if is_forbidden(&error) => {
                let what = plural(kind);
                Err(anyhow!(
                    "you may not get {what} in the namespace {namespace}; see `kubectl auth can-i get {what} -n {namespace}`"
                ))
            }
            Err(error) => Err(anyhow!(error).context(format!("reading the {} {namespace}/{name}", kind.kind))),
        }
    }
}

/// Every object of a kind; `None` when the server does not know the kind.
///
/// # Errors
/// When the server does not answer, or refuses.
pub async fn every<K>(client: &Client) -> Result<Option<Vec<K>>, Box<kube::Error>>
where
    K: View + Clone + DeserializeOwned + std::fmt::Debug,
{
    let versions = Kind::of::<K>().at(K::VERSIONS);
    let Some(kind) = Kinds::new(client.clone()).first_served(&versions).await?.cloned() else { return Ok(None) };
    pages(Api::all_with(client.clone(), &kind.resource())).await.map(Some).map_err(Box::new)
}

async fn pages<K>(api: Api<Versioned<K>>) -> Result<Vec<K>, kube::Error>
where
    K: View + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut params = ListParams::default().limit(PAGE);
    let mut items = Vec::new();
    loop {
        let page = api.list(&params).await?;
        items.extend(page.items.into_iter().map(|Versioned(item)| item));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(items),
        }
    }
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
    let (namespace, name) = (key.namespace().unwrap_or_default(), key.name());
    let elsewhere = keys.iter().find(|other| other.name() == name);
    let here = keys.iter().filter(|other| other.namespace() == key.namespace()).map(ObjectKey::name);
    let meant = elsewhere.cloned().or_else(|| {
        let name = near::nearest(name, here)?;
        Some(ObjectKey::namespaced(namespace, name))
    });
    let what = &kind.kind;
    match meant {
        Some(meant) => {
            let (namespace, name) = (meant.namespace().unwrap_or_default(), meant.name());
            anyhow!("there is no {what} {key}; perhaps you mean `berth {command}/{name} -n {namespace}`")
        }
        None => anyhow!("there is no {what} {key}; see `kubectl get {} -A`", plural(kind)),
    }
}
