//! Gathers one snapshot of a machine: from the indexes, and from the servers as far as the next decision depends on it.

use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::names::machines::CLONED_FROM_ANNOTATION;
use api::views::INFRASTRUCTURE_GROUP;
use jiff::Timestamp;
use kit::doors::Closed;
use kit::feed::{Feed, Project, Seen, Version};
use kit::write::Target;
use kube::Api;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

use super::decide::{self, Questions};
use super::room::{Error, Keeper, read};
use super::snapshot::Snapshot;
use crate::mode::claim_kind;
use crate::node::{self, Asks, Lost, Sight};

fn at<P: Project>(feed: &Feed<P>, key: &ObjectKey) -> Result<Option<Arc<P::Slim>>, Error> {
    match feed.get(key) {
        Seen::At(slim) => Ok(Some(slim)),
        Seen::Absent => Ok(None),
        Seen::Behind => Err(Error::Behind),
    }
}

/// An object, and which version of it was seen.
type Found<P> = Option<(Arc<<P as Project>::Slim>, Version)>;

fn versioned<P: Project>(feed: &Feed<P>, key: &ObjectKey) -> Result<Found<P>, Error> {
    let Some(slim) = at(feed, key)? else { return Ok(None) };
    let version = feed.version(key, &slim).ok_or(Error::Behind)?;
    Ok(Some((slim, version)))
}

impl Keeper {
    /// Gathers the snapshot of a machine; none when it is gone.
    pub(super) async fn gather(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let world = &self.world;
        let Some((machine, version)) = versioned(&world.machines, key)? else {
            self.forget(key);
            return Ok(None);
        };
        let default = self.config.default_host_kind.as_deref();
        let kind = claim_kind(machine.spec.kind.as_deref(), &machine.annotations, default).map(str::to_owned);
        let namespace = key.namespace().unwrap_or_default();
        let named = |name: &str| ObjectKey::namespaced(namespace, name);
        let owner = match machine.owner.as_deref() {
            Some(name) => at(&world.owners, &named(name))?,
            None => None,
        };
        let cluster_name = owner.as_ref().and_then(|owner| owner.cluster.clone()).or_else(|| machine.cluster.clone());
        let cluster = match cluster_name.as_deref() {
            Some(name) => at(&world.clusters, &named(name))?,
            None => None,
        };
        let place = cluster.as_ref().and_then(|cluster| cluster.infrastructure.clone());
        let place = match place.filter(|place| place.kind == "Metal3Cluster") {
            Some(place) => at(&world.places, &named(&place.name))?,
            None => None,
        };
        let data_claim = at(&world.data_claims, key)?;
        let rendered = data_claim.as_ref().and_then(|wish| wish.rendered.as_ref());
        let data = match rendered {
            // Data that was made for another one of the same name is not ours.
            Some(data) => at(&world.datas, &named(&data.name))?.filter(|data| data.claim.name == key.name()),
            None => None,
        };
        let secret = owner.as_ref().and_then(|owner| owner.data_secret.clone());
        let bootstrapped = match secret.as_deref() {
            Some(name) => at(&world.secrets, &named(name))?.is_some(),
            None => false,
        };
        let memory = self.memory(key);
        let mut snapshot = Snapshot {
            key: key.clone(),
            target: Target { kind: world.machines.kind(), key: key.clone(), uid: machine.uid.clone() },
            now,
            config: Arc::clone(&self.config),
            machine,
            version,
            kind,
            owner,
            cluster,
            place,
            claim: versioned(&world.claims, key)?,
            data_claim,
            data,
            bootstrapped,
            reuse: None,
            nodes: Sight::NotAsked,
            patience: node::POLL,
            refused: memory.refused,
            asked: memory.asked,
        };
        let Questions { reuse, nodes } = decide::questions(&snapshot);
        if reuse {
            snapshot.reuse = Some(self.reuse(&snapshot).await?);
        }
        if nodes {
            (snapshot.nodes, snapshot.patience) = self.nodes(&snapshot).await?;
        }
        Ok(Some(snapshot))
    }

    /// The reuse group of a machine: machines that replace one another share it. A template that cannot be read is asked
    /// for again, because a host that is not kept is wiped and gone.
    async fn reuse(&self, s: &Snapshot) -> Result<Option<String>, Error> {
        if s.cluster.as_ref().is_none_or(|cluster| cluster.deleting) {
            return Ok(None);
        }
        let Some(owner) = &s.owner else { return Ok(None) };
        let group = match (&owner.control_plane, &owner.deployment) {
            (Some(plane), _) => format!("cp-{plane}"),
            (None, Some(deployment)) => format!("md-{deployment}"),
            (None, None) => return Ok(None),
        };
        let Some(name) = s.machine.annotations.get(CLONED_FROM_ANNOTATION) else { return Ok(None) };
        let kind = GroupVersionKind::gvk(INFRASTRUCTURE_GROUP, &s.target.kind.version, "Metal3MachineTemplate");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::namespaced_with(self.writer.client().clone(), s.namespace(), &resource);
        let template = api.get_opt(name).await.map_err(read(|| format!("Metal3MachineTemplate {name}")))?;
        let wants = template.as_ref().and_then(|template| template.data.pointer("/spec/nodeReuse")?.as_bool());
        Ok(wants.unwrap_or_default().then_some(group))
    }

    /// The Nodes of the workload cluster that could be the machine's, and after how long another look is worth it.
    async fn nodes(&self, s: &Snapshot) -> Result<(Sight, Duration), Error> {
        let dark = |why: String| (Sight::Dark(why), node::POLL);
        let (Some(cluster), Some(claim)) = (s.cluster_name(), s.own_claim()) else {
            return Ok((Sight::NotAsked, node::POLL));
        };
        let cluster = ObjectKey::namespaced(s.namespace(), cluster);
        let client = match self.enter(&cluster).await? {
            Ok(client) => client,
            Err(Closed::NoKubeconfig) => return Ok(dark(node::CLOSED.to_owned())),
            Err(Closed::Unusable(why)) => return Ok(dark(why)),
        };
        let (memory, wanted) = (self.memory(&s.key), decide::wanted(s, claim));
        let since = memory.looked.unwrap_or_else(|| self.sights.now());
        // One pass is soon followed by others, woken by what it wrote: all of them are one question.
        let asks = Asks { wanted: &wanted, known: memory.node.as_deref(), first: self.sights.is_new(since) };
        let seen = self.sights.look(&client, &cluster, asks).await;
        let ours = match &seen.0 {
            Sight::Seen(nodes) => nodes.iter().find(|node| node.provider_id.as_ref() == Some(&wanted.provider_id)),
            Sight::NotAsked | Sight::Dark(_) => None,
        };
        self.remember(&s.key, |memory| {
            memory.looked = Some(since);
            memory.node = ours.map(|node| node.name.clone()).or_else(|| memory.node.take());
        });
        Ok(seen)
    }

    pub(super) async fn enter(&self, cluster: &ObjectKey) -> Result<Result<kube::Client, Closed>, Error> {
        self.ways.enter(cluster).await.map_err(|lost| match lost {
            Lost::Behind => Error::Behind,
            Lost::Read(source) => Error::Read { what: format!("Secret {cluster}-kubeconfig"), source },
        })
    }
}
