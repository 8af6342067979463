//! Carries out steps: the only code of the room that writes claims and Clusters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::key::ObjectKey;
use api::meta::Versioned;
use api::names::{CLUSTER_NAME_LABEL, WATCH_FILTER_LABEL};
use api::views::{Endpoint, IPAddressClaim, ObjectRef};
use jiff::Timestamp;
use kit::class::{Class, Classify};
use kit::feed::Version;
use kit::kinds::Kind;
use kit::write::{Created, Error, Target, Writer};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::facts::{ClaimFacts, ClusterFacts, PoolName, World};
use crate::names::{FOR_CLUSTER, MANAGED_BY, MANAGER, ROLE, Slot, TRIED_POOLS, UNOWNED_SINCE};
use crate::proof::Former;

/// In whose name everything is written.
pub const ROOM: &str = "vip";

/// The group of claims, addresses and pools.
const IPAM: &str = "ipam.cluster.x-k8s.io";

/// Pools that were given up for the slots of clusters.
type Tried = BTreeMap<(ObjectKey, Slot), Vec<PoolName>>;

/// Writes claims and Clusters, and remembers what was tried while a claim moves from pool to pool.
pub struct Hand {
    writer: Writer,
    pub(crate) world: World,
    pub(crate) former: Arc<Former>,
    /// Pools given up between the end of one claim and the beginning of the next. A crash forgets them, which costs a
    /// second attempt at most.
    tried: Arc<Mutex<Tried>>,
    /// Clusters, by uid, whose infrastructure cluster was looked after.
    pointed: Arc<Mutex<BTreeMap<ObjectKey, Box<str>>>>,
}

/// Why an infrastructure cluster was not given its endpoint.
#[derive(Debug, thiserror::Error)]
pub enum PointError {
    /// The kind or the object could not be looked up.
    #[error("look up the {kind}")]
    Find {
        /// The kind.
        kind: String,
        /// What the server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The server does not serve the kind.
    #[error("the kind {kind} of group {group} is not served")]
    Unknown {
        /// Its group.
        group: String,
        /// Its name.
        kind: String,
    },
    /// It could not be written.
    #[error(transparent)]
    Write(#[from] Error),
}

impl Classify for PointError {
    fn class(&self) -> Class {
        match self {
            Self::Find { source, .. } => source.class(),
            Self::Unknown { .. } => Class::Transient { at_least: None },
            Self::Write(error) => error.class(),
        }
    }
}

impl Hand {
    /// A hand that writes through `client` and tells the feeds of `world` about it.
    #[must_use]
    pub fn new(client: Client, world: World, former: Arc<Former>) -> Self {
        let writer = Writer::new(client, ROOM);
        Self { writer, world, former, tried: Arc::default(), pointed: Arc::default() }
    }

    /// The same hand, with the same memory, on another client.
    #[must_use]
    pub fn on(&self, client: Client) -> Self {
        let (tried, pointed) = (Arc::clone(&self.tried), Arc::clone(&self.pointed));
        let (world, former) = (self.world.clone(), Arc::clone(&self.former));
        Self { writer: Writer::new(client, ROOM), world, former, tried, pointed }
    }

    /// The client underneath, for live reads.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.writer.client()
    }

    /// The pools that were given up for a cluster's claims just now.
    #[must_use]
    pub fn tried(&self, key: &ObjectKey) -> BTreeMap<Slot, Vec<PoolName>> {
        let tried = self.memory();
        Slot::ALL.into_iter().filter_map(|slot| Some((slot, tried.get(&(key.clone(), slot))?.clone()))).collect()
    }

    fn memory(&self) -> MutexGuard<'_, Tried> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the claim of a slot for this very Cluster; says whether it is new. One that is there already, ours from a
    /// lost answer or somebody else's, is judged once the index shows it.
    ///
    /// # Errors
    /// What the server said.
    pub async fn claim(
        &self,
        key: &ObjectKey,
        cluster: &ClusterFacts,
        slot: Slot,
        pool: &PoolName,
        tried: &[PoolName],
    ) -> Result<bool, Error> {
        let kind = self.world.claims.kind();
        let mut body = body(&kind, key, cluster, slot, pool, tried);
        merge(
            &mut body,
            json!({
                "metadata": {"ownerReferences": [self.owner(key, cluster)], "labels": {CLUSTER_NAME_LABEL: key.name()}},
                "spec": {"clusterName": key.name()},
            }),
        );
        self.make(key, slot, &kind, &body).await
    }

    /// Makes the claim of a slot for a Cluster that does not exist yet. A provider would never fill a claim that names such
    /// a Cluster, so an annotation does.
    ///
    /// # Errors
    /// What the server said.
    pub async fn reserve(
        &self,
        key: &ObjectKey,
        cluster: &ClusterFacts,
        slot: Slot,
        pool: &PoolName,
        now: Timestamp,
    ) -> Result<(), Error> {
        let kind = self.world.claims.kind();
        let mut body = body(&kind, key, cluster, slot, pool, &[]);
        let annotations = json!({FOR_CLUSTER: key.name(), UNOWNED_SINCE: now.to_string()});
        merge(&mut body, json!({"metadata": {"annotations": annotations}}));
        self.make(key, slot, &kind, &body).await.map(drop)
    }

    async fn make(&self, key: &ObjectKey, slot: Slot, kind: &Kind, body: &Value) -> Result<bool, Error> {
        let created = self.writer.create(kind, key.namespace(), body).await?;
        let name = slot.claim_of(key);
        self.memory().remove(&(key.clone(), slot));
        match created {
            Created::New(version) => {
                self.world.claims.wrote(&name, &version);
                Ok(true)
            }
            Created::Existing(found) => {
                if let Ok(found) = serde_json::from_value::<IPAddressClaim>(found) {
                    self.world.claims.wrote(&name, &Version::of(&found));
                }
                Ok(false)
            }
        }
    }

    /// Makes this very Cluster the owner of a claim that has none.
    ///
    /// # Errors
    /// `Changed` when the claim has moved on.
    pub async fn adopt(
        &self,
        key: &ObjectKey,
        cluster: &ClusterFacts,
        slot: Slot,
        claim: &ClaimFacts,
    ) -> Result<(), Error> {
        let body = json!({"metadata": {
            "ownerReferences": [self.owner(key, cluster)],
            "labels": {CLUSTER_NAME_LABEL: key.name(), MANAGED_BY: MANAGER},
            "annotations": {FOR_CLUSTER: null, UNOWNED_SINCE: null},
        }});
        self.change_claim(key, slot, claim, body).await
    }

    /// Brings the version of the only owner's reference, ours, to the one that is served: the collector cannot follow others.
    ///
    /// # Errors
    /// `Changed` when the claim has moved on.
    pub async fn refer(
        &self,
        key: &ObjectKey,
        cluster: &ClusterFacts,
        slot: Slot,
        claim: &ClaimFacts,
    ) -> Result<(), Error> {
        self.change_claim(key, slot, claim, json!({"metadata": {"ownerReferences": [self.owner(key, cluster)]}})).await
    }

    async fn change_claim(&self, key: &ObjectKey, slot: Slot, claim: &ClaimFacts, body: Value) -> Result<(), Error> {
        let target = self.target(key, slot, claim);
        let written = self.writer.merge(&target, body, Some(&claim.version)).await;
        let version = self.learn(&target.key, written).await?;
        self.world.claims.wrote(&target.key, &version);
        Ok(())
    }

    /// A claim that has moved on is newer than the index: until that shows it, nothing more is decided on the old one.
    async fn learn<T>(&self, key: &ObjectKey, done: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Changed { .. }) = &done {
            let kind = self.world.claims.kind().resource();
            let namespace = key.namespace().unwrap_or_default();
            let api: Api<Versioned<IPAddressClaim>> = Api::namespaced_with(self.client().clone(), namespace, &kind);
            if let Ok(Some(Versioned(found))) = api.get_opt(key.name()).await {
                self.world.claims.wrote(key, &Version::of(&found));
            }
        }
        done
    }

    /// Deletes just this version of a claim: one that was bound meanwhile is another version, and stays.
    ///
    /// # Errors
    /// `Changed` when the claim has moved on.
    pub async fn release(&self, key: &ObjectKey, slot: Slot, claim: &ClaimFacts) -> Result<(), Error> {
        let target = self.target(key, slot, claim);
        let deleted = self.writer.delete(&target, Some(&claim.version)).await;
        self.learn(&target.key, deleted).await
    }

    /// Gives up a claim without an address and remembers its pool, so that the next claim asks another one.
    ///
    /// # Errors
    /// `Changed` when the claim has moved on, for example because it was bound.
    pub async fn abandon(&self, key: &ObjectKey, slot: Slot, claim: &ClaimFacts) -> Result<(), Error> {
        self.release(key, slot, claim).await?;
        let mut tried = claim.tried.clone();
        tried.extend(claim.pool.clone().filter(|pool| !claim.tried.contains(pool)));
        self.memory().insert((key.clone(), slot), tried);
        Ok(())
    }

    /// Changes the Cluster, if it is still the version that was read.
    ///
    /// # Errors
    /// `Changed` when it has moved on.
    pub async fn write(&self, key: &ObjectKey, version: &Version, patch: Value) -> Result<(), Error> {
        let target = Target { kind: self.world.clusters.kind(), key: key.clone(), uid: version.uid.clone() };
        let written = self.writer.merge(&target, patch, Some(version)).await?;
        self.world.clusters.wrote(key, &written);
        Ok(())
    }

    /// Forgets what was tried for a cluster that is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.memory().retain(|(cluster, _), _| cluster != key);
        self.pointed().remove(key);
    }

    /// Gives an infrastructure cluster the endpoint while it has none; says whether it did.
    ///
    /// # Errors
    /// What the server said.
    pub async fn point(
        &self,
        key: &ObjectKey,
        cluster: &ClusterFacts,
        reference: &ObjectRef,
        endpoint: &Endpoint,
    ) -> Result<bool, PointError> {
        let find = |source| PointError::Find { kind: reference.kind.clone(), source: Box::new(source) };
        let group = kube::discovery::group(self.client(), &reference.group).await.map_err(find)?;
        let Some((resource, _)) = group.recommended_kind(&reference.kind) else {
            return Err(PointError::Unknown { group: reference.group.clone(), kind: reference.kind.clone() });
        };
        let namespace = key.namespace().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client().clone(), namespace, &resource);
        let found = api.get_opt(&reference.name).await.map_err(find)?;
        let Some(found) = found else { return Ok(false) };
        let host = found.data.pointer("/spec/controlPlaneEndpoint/host").and_then(Value::as_str).unwrap_or_default();
        if !host.is_empty() {
            self.pointed().insert(key.clone(), cluster.uid.clone());
            return Ok(false);
        }
        let kind =
            Kind { group: resource.group, version: resource.version, kind: resource.kind, plural: resource.plural };
        let name = ObjectKey::namespaced(namespace, reference.name.as_str());
        let target = Target { kind, key: name, uid: found.metadata.uid.clone().unwrap_or_default().into() };
        let body = json!({"spec": {"controlPlaneEndpoint": {"host": endpoint.host, "port": endpoint.port}}});
        self.writer.merge(&target, body, Some(&Version::of(&found))).await?;
        self.pointed().insert(key.clone(), cluster.uid.clone());
        Ok(true)
    }

    /// Whether the infrastructure cluster of this cluster was looked after since the process started.
    #[must_use]
    pub fn has_pointed(&self, key: &ObjectKey, uid: &str) -> bool {
        self.pointed().get(key).is_some_and(|pointed| **pointed == *uid)
    }

    fn pointed(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Box<str>>> {
        self.pointed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn target(&self, key: &ObjectKey, slot: Slot, claim: &ClaimFacts) -> Target {
        Target { kind: self.world.claims.kind(), key: slot.claim_of(key), uid: claim.version.uid.clone() }
    }

    /// A reference that makes deletion automatic and that a move between management clusters rewrites.
    fn owner(&self, key: &ObjectKey, cluster: &ClusterFacts) -> Value {
        json!({
            "apiVersion": self.world.clusters.kind().api_version(), "kind": "Cluster", "name": key.name(),
            "uid": cluster.uid, "controller": true, "blockOwnerDeletion": true,
        })
    }
}

/// Lays one object over another.
fn merge(object: &mut Value, over: Value) {
    match (object, over) {
        (Value::Object(object), Value::Object(over)) => {
            over.into_iter().for_each(|(key, value)| merge(object.entry(key).or_insert(Value::Null), value));
        }
        (object, over) => *object = over,
    }
}

fn body(
    kind: &Kind,
    key: &ObjectKey,
    cluster: &ClusterFacts,
    slot: Slot,
    pool: &PoolName,
    tried: &[PoolName],
) -> Value {
    let mut body = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "name": slot.claim(key.name()),
            "namespace": key.namespace(),
            "labels": {ROLE: slot.role.as_str(), MANAGED_BY: MANAGER},
        },
        "spec": {
            "poolRef": {"apiGroup": IPAM, "kind": pool.kind, "name": pool.name},
        },
    });
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        if !tried.is_empty() {
            let tried: Vec<String> = tried.iter().map(ToString::to_string).collect();
            metadata.insert("annotations".to_owned(), json!({TRIED_POOLS: tried.join(",")}));
        }
        // IPAM providers may only look at objects with the label their own controllers look for.
        if let Some(filter) = &cluster.watch_filter
            && let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut)
        {
            labels.insert(WATCH_FILTER_LABEL.to_owned(), json!(filter));
        }
    }
    body
}
