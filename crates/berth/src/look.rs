//! Reads what a command needs, once, with the rights of whoever asks, and says what those rights do not cover.

use ::vip::explain::{Extent, Lists, Part, Sight, Unseen};
use anyhow::{Context, anyhow};
use api::key::ObjectKey;
use api::meta::{Versioned, View};
use api::views::Cluster;
use kit::clock::Clock;
use kit::kinds::{Kind, Kinds};
use kube::api::ListParams;
use kube::{Api, Client};
use serde::de::DeserializeOwned;

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

/// Which clusters are looked at.
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

    fn takes(&self, cluster: &Cluster) -> bool {
        let here = cluster.metadata.namespace.as_deref();
        match self {
            Self::One(namespace, name) => here == Some(*namespace) && cluster.metadata.name.as_deref() == Some(*name),
            Self::In(namespace) => here == Some(*namespace),
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
    let mut clusters: Listed<Cluster> = clusters;
    let Some(kind) = clusters.kind.clone() else {
        return Err(anyhow!("the server does not know Clusters; install Cluster API, or choose another --context"));
    };
    if let Which::One(namespace, name) = which
        && !clusters.items.iter().any(|cluster| which.takes(cluster))
    {
        let found = reader.one(&kind, namespace, name).await?;
        let missing = || missing(&clusters.items, &ObjectKey::namespaced(*namespace, *name), command);
        let found = found.ok_or_else(missing)?;
        clusters.items.push(found);
    }
    let mut chosen: Vec<Cluster> = clusters.items.iter().filter(|cluster| which.takes(cluster)).cloned().collect();
    chosen.sort_by_key(ObjectKey::of);
    let mut unseen = Vec::new();
    let lists = Lists {
        version: Some(kind.version.clone()),
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
    let lists = Lists { unseen, ..lists };
    Ok(Look { clusters: chosen, sight: Sight::of(lists, &Clock::system()) })
}

/// What was read of one kind.
struct Listed<K> {
    kind: Option<Kind>,
    items: Vec<K>,
    unseen: Option<Unseen>,
}

impl<K> Listed<K> {
    fn keep(self, unseen: &mut Vec<Unseen>) -> Vec<K> {
        unseen.extend(self.unseen);
        self.items
    }
}

struct Reader<'a> {
    client: &'a Client,
    kinds: Kinds,
    namespace: Option<&'a str>,
}

impl Reader<'_> {
    /// Reads every object of a kind that this user may read: of all namespaces, or else of the one that matters.
    async fn list<K>(&self, part: Part) -> anyhow::Result<Listed<K>>
    where
        K: View + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let any = Kind::of::<K>();
        let candidates = any.at(K::VERSIONS);
        let served = self.kinds.first_served(&candidates).await;
        let Some(kind) = served.with_context(|| format!("asking the server for {}", any.kind))?.cloned() else {
            let why = format!("the server does not know {} ({}), so there is none", any.kind, any.group);
            let unseen = Some(Unseen { part, extent: Extent::Absent, why });
            return Ok(Listed { kind: None, items: Vec::new(), unseen });
        };
        let (resource, name) = (kind.resource(), kind.definition());
        let failed = |error: kube::Error| anyhow!(error).context(format!("listing {name}"));
        match pages(Api::all_with(self.client.clone(), &resource)).await {
            Ok(items) => return Ok(Listed { kind: Some(kind), items, unseen: None }),
            Err(error) if !is_forbidden(&error) => return Err(failed(error)),
            Err(_) => {}
        }
        if let Some(namespace) = self.namespace.filter(|_| K::NAMESPACED) {
            match pages(Api::namespaced_with(self.client.clone(), namespace, &resource)).await {
                Ok(items) => {
                    let why = format!("you may not list {name} in all namespaces: only those in {namespace} were read");
                    let unseen = Some(Unseen { part, extent: Extent::Elsewhere, why });
                    return Ok(Listed { kind: Some(kind), items, unseen });
                }
                Err(error) if !is_forbidden(&error) => return Err(failed(error)),
                Err(_) => {}
            }
        }
        let why = format!("you may not list {name}: ask for that right, or look with another --context");
        Ok(Listed { kind: Some(kind), items: Vec::new(), unseen: Some(Unseen { part, extent: Extent::All, why }) })
    }

    /// Reads one cluster that no list showed.
    async fn one(&self, kind: &Kind, namespace: &str, name: &str) -> anyhow::Result<Option<Cluster>> {
        let api: Api<Versioned<Cluster>> = Api::namespaced_with(self.client.clone(), namespace, &kind.resource());
        match api.get_opt(name).await {
            Ok(found) => Ok(found.map(|Versioned(cluster)| cluster)),
            Err(error) if is_forbidden(&error) => {
                let what = kind.definition();
                Err(anyhow!(
                    "you may not get {what} in the namespace {namespace}; see `kubectl auth can-i get {what} -n {namespace}`"
                ))
            }
            Err(error) => Err(anyhow!(error).context(format!("reading the Cluster {namespace}/{name}"))),
        }
    }
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

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// There is no such cluster, but perhaps one that was meant.
fn missing(clusters: &[Cluster], key: &ObjectKey, command: &str) -> anyhow::Error {
    let keys: Vec<ObjectKey> = clusters.iter().map(ObjectKey::of).collect();
    let (namespace, name) = (key.namespace().unwrap_or_default(), key.name());
    let elsewhere = keys.iter().find(|other| other.name() == name);
    let here = keys.iter().filter(|other| other.namespace() == key.namespace()).map(ObjectKey::name);
    let meant = elsewhere.cloned().or_else(|| {
        let name = near::nearest(name, here)?;
        Some(ObjectKey::namespaced(namespace, name))
    });
    match meant {
        Some(meant) => {
            let (namespace, name) = (meant.namespace().unwrap_or_default(), meant.name());
            anyhow!("there is no Cluster {key}; perhaps you mean `berth {command} cluster/{name} -n {namespace}`")
        }
        None => anyhow!("there is no Cluster {key}; see `kubectl get clusters.cluster.x-k8s.io -A`"),
    }
}
