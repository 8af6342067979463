//! What is kept of each object, and the indexes by which one is found from another.

use std::collections::BTreeMap;

use api::key::ObjectKey;
use api::names::claims::DELETE_FOR_MOVE_ANNOTATION;
use api::names::hosts::CONTROL_PLANE_LABEL;
use api::names::machines::{
    BARE_METAL_HOST_ANNOTATION, CLONED_FROM_ANNOTATION, HOST_CLAIM_ANNOTATION, LABEL_SYNC_ANNOTATION,
    MACHINE_FINALIZER, MANAGED_ANNOTATION,
};
use api::names::{CLUSTER_NAME_LABEL, PAUSED_ANNOTATION, WATCH_FILTER_LABEL};
use api::own::metal3::{
    Metal3ClusterSpec, Metal3ClusterStatus, Metal3DataClaimSpec, Metal3DataClaimStatus, Metal3DataSpec,
    Metal3DataStatus, Metal3MachineSpec, Metal3MachineStatus, NamedRef,
};
use api::own::{HostClaimSpec, HostClaimStatus, SecretReference};
use api::raw;
use api::reasons::READY;
use api::views::{CLUSTER_API_GROUP, CONTROL_PLANE_GROUP, Cluster, Machine, ObjectRef, Secret};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kit::feed::{Feed, Project};
use kit::manager::{self, Manager};
use kit::room::Stand;

use crate::config::Config;
use crate::mode::claim_kind;

/// The label by which Cluster API says which deployment a Machine belongs to.
const DEPLOYMENT_LABEL: &str = "cluster.x-k8s.io/deployment-name";

/// Every index of the room; clones share them.
#[derive(Clone)]
pub struct World {
    /// Metal3Machines.
    pub machines: Feed<Machines>,
    /// Machines.
    pub owners: Feed<Owners>,
    /// Clusters.
    pub clusters: Feed<Clusters>,
    /// Metal3Clusters.
    pub places: Feed<Places>,
    /// HostClaims.
    pub claims: Feed<Claims>,
    /// Metal3DataClaims.
    pub data_claims: Feed<DataClaims>,
    /// Metal3Datas.
    pub datas: Feed<Datas>,
    /// Secrets, without what is in them.
    pub secrets: Feed<Secrets>,
}

impl World {
    /// Follows everything the room looks at.
    ///
    /// # Errors
    /// When a kind cannot be followed.
    pub fn follow(manager: &Manager) -> Result<Self, manager::Error> {
        Ok(Self {
            machines: manager.feed()?,
            owners: manager.feed()?,
            clusters: manager.feed()?,
            places: manager.feed()?,
            claims: manager.feed()?,
            data_claims: manager.feed()?,
            datas: manager.feed()?,
            secrets: manager.feed()?,
        })
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.machines.settled().await;
        self.owners.settled().await;
        self.clusters.settled().await;
        self.places.settled().await;
        self.claims.settled().await;
        self.data_claims.settled().await;
        self.datas.settled().await;
        self.secrets.settled().await;
    }
}

fn label<T: From<String>>(meta: &ObjectMeta, key: &str) -> Option<T> {
    meta.labels.as_ref().and_then(|labels| labels.get(key)).filter(|value| !value.is_empty()).cloned().map(T::from)
}

fn kept(meta: &mut ObjectMeta, keys: &[&str]) -> BTreeMap<String, String> {
    let mut all = meta.annotations.take().unwrap_or_default();
    all.retain(|key, _| keys.contains(&key.as_str()));
    all
}

fn group(reference: &OwnerReference) -> &str {
    reference.api_version.split_once('/').map_or("", |(group, _)| group)
}

fn owner(meta: &ObjectMeta, of: &str, kind: &str) -> Option<Box<str>> {
    let found = meta.owner_references.iter().flatten().find(|owner| owner.kind == kind && group(owner) == of);
    found.map(|owner| owner.name.as_str().into())
}

fn read<T: serde::de::DeserializeOwned + Default>(value: serde_json::Value) -> (T, Option<Box<str>>) {
    match serde_json::from_value(value) {
        Ok(read) => (read, None),
        Err(error) => (T::default(), Some(format!("spec: {error}").into())),
    }
}

/// Metal3Machines, by cluster.
pub struct Machines;

/// A Metal3Machine, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineFacts {
    /// The server's unique id of the object; it changes when the object is moved.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Since when it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The cluster it belongs to, by its label.
    pub cluster: Option<Box<str>>,
    /// The label by which controllers divide objects among them.
    pub filter: Option<Box<str>>,
    /// The Machine that owns it.
    pub owner: Option<Box<str>>,
    /// The annotations that matter here.
    pub annotations: BTreeMap<String, String>,
    /// Its spec; the default when it cannot be read.
    pub spec: Metal3MachineSpec,
    /// Why its spec cannot be read.
    pub problem: Option<Box<str>>,
    /// Its status as stored.
    pub status: Metal3MachineStatus,
}

impl MachineFacts {
    /// The facts of a machine as received from a feed or a live read.
    #[must_use]
    pub fn of(machine: raw::Metal3Machine) -> Self {
        let raw::Metal3Machine { mut metadata, spec, status } = machine;
        // The mode of a machine must be known even when the rest of its spec cannot be read.
        let kind = spec.get("kind").and_then(|kind| kind.as_str()).map(str::to_owned);
        let provider = spec.get("providerID").and_then(|id| id.as_str()).map(str::to_owned);
        let (mut spec, problem): (Metal3MachineSpec, _) = read(spec);
        if problem.is_some() {
            (spec.kind, spec.provider_id) = (kind, provider);
        }
        let matter = [
            PAUSED_ANNOTATION,
            HOST_CLAIM_ANNOTATION,
            BARE_METAL_HOST_ANNOTATION,
            CLONED_FROM_ANNOTATION,
            DELETE_FOR_MOVE_ANNOTATION,
        ];
        Self {
            annotations: kept(&mut metadata, &matter),
            cluster: label(&metadata, CLUSTER_NAME_LABEL),
            filter: label(&metadata, WATCH_FILTER_LABEL),
            owner: owner(&metadata, CLUSTER_API_GROUP, "Machine"),
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            deleted_at: metadata.deletion_timestamp.map(|time| time.0),
            finalizers: metadata.finalizers.unwrap_or_default(),
            spec,
            problem,
            status: serde_json::from_value(status).unwrap_or_default(),
        }
    }

    /// Whether our finalizer is on it.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == MACHINE_FINALIZER)
    }

    /// Whether the machine has been up once.
    #[must_use]
    pub fn was_provisioned(&self) -> bool {
        let done = self.status.initialization.as_ref().and_then(|done| done.provisioned);
        done == Some(true) || self.spec.provider_id.is_some()
    }

    /// How it stands; none where another provider, or another controller, looks after it.
    #[must_use]
    pub fn stand(&self, config: &Config) -> Option<Stand> {
        let filtered = config.watch_filter.is_none() || config.watch_filter.as_deref() == self.filter.as_deref();
        claim_kind(self.spec.kind.as_deref(), &self.annotations, config.default_host_kind.as_deref())?;
        filtered.then(|| Stand::judged(&self.status.conditions, READY, &[], self.created, self.deleted_at))
    }
}

impl Project for Machines {
    type Source = raw::Metal3Machine;
    type Slim = MachineFacts;
    const INDEXES: &'static [&'static str] = &["cluster"];

    fn slim(source: raw::Metal3Machine) -> MachineFacts {
        MachineFacts::of(source)
    }

    fn keys(_: usize, key: &ObjectKey, slim: &MachineFacts) -> Vec<Box<str>> {
        let within = |name: &str| format!("{}/{name}", key.namespace().unwrap_or_default()).into();
        slim.cluster.iter().map(|name| within(name)).collect()
    }
}

/// Machines of Cluster API, by bootstrap Secret and by cluster.
pub struct Owners;

/// A Machine, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerFacts {
    /// The cluster it belongs to.
    pub cluster: Option<Box<str>>,
    /// The failure domain it is to be in.
    pub failure_domain: Option<Box<str>>,
    /// The secret with its bootstrap data.
    pub data_secret: Option<Box<str>>,
    /// The infrastructure machine.
    pub infrastructure: Option<ObjectRef>,
    /// The control plane it belongs to.
    pub control_plane: Option<Box<str>>,
    /// The deployment it belongs to.
    pub deployment: Option<Box<str>>,
}

impl Project for Owners {
    type Source = Machine;
    type Slim = OwnerFacts;
    const INDEXES: &'static [&'static str] = &["secret", "cluster"];

    fn slim(source: Machine) -> OwnerFacts {
        let Machine { metadata, spec, .. } = source;
        let named = |text: Option<String>| text.filter(|text| !text.is_empty()).map(Into::into);
        let owners = || metadata.owner_references.iter().flatten();
        // A control plane of any kind: the group is what makes it one.
        let plane = owners().find(|owner| owner.controller == Some(true) && group(owner) == CONTROL_PLANE_GROUP);
        let is_plane = label::<String>(&metadata, CONTROL_PLANE_LABEL).is_some()
            || metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(CONTROL_PLANE_LABEL));
        let in_set = owners().any(|owner| owner.kind == "MachineSet" && group(owner) == CLUSTER_API_GROUP);
        OwnerFacts {
            cluster: named(spec.cluster_name).or_else(|| label(&metadata, CLUSTER_NAME_LABEL)),
            failure_domain: named(spec.failure_domain),
            data_secret: named(spec.data_secret_name),
            infrastructure: spec.infrastructure_ref,
            control_plane: plane.filter(|_| is_plane).map(|owner| owner.name.as_str().into()),
            deployment: label(&metadata, DEPLOYMENT_LABEL).filter(|_| in_set),
        }
    }

    fn keys(index: usize, key: &ObjectKey, slim: &OwnerFacts) -> Vec<Box<str>> {
        let value = if index == 0 { &slim.data_secret } else { &slim.cluster };
        value.iter().map(|name| format!("{}/{name}", key.namespace().unwrap_or_default()).into()).collect()
    }
}

/// Clusters of Cluster API, by infrastructure.
pub struct Clusters;

/// A Cluster, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Whether everything of it must be left alone.
    pub paused: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The infrastructure cluster.
    pub infrastructure: Option<ObjectRef>,
    /// Whether the infrastructure was provisioned.
    pub provisioned: bool,
    /// Domains of labels that are kept equal on nodes, as written.
    pub label_prefixes: Option<Box<str>>,
}

impl Project for Clusters {
    type Source = Cluster;
    type Slim = ClusterFacts;
    const INDEXES: &'static [&'static str] = &["place"];

    fn slim(source: Cluster) -> ClusterFacts {
        let annotation = |key: &str| source.metadata.annotations.as_ref().and_then(|all| all.get(key));
        ClusterFacts {
            paused: source.is_paused(),
            deleting: source.metadata.deletion_timestamp.is_some(),
            provisioned: source.status.infrastructure_provisioned,
            label_prefixes: annotation(LABEL_SYNC_ANNOTATION).map(|text| text.as_str().into()),
            infrastructure: source.spec.infrastructure_ref,
        }
    }

    fn keys(_: usize, key: &ObjectKey, slim: &ClusterFacts) -> Vec<Box<str>> {
        let place = slim.infrastructure.as_ref().filter(|reference| reference.kind == "Metal3Cluster");
        place.iter().map(|place| format!("{}/{}", key.namespace().unwrap_or_default(), place.name).into()).collect()
    }
}

/// Metal3Clusters.
pub struct Places;

/// A Metal3Cluster, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlaceFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Since when it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The label by which controllers divide objects among them.
    pub filter: Option<Box<str>>,
    /// The Cluster that owns it.
    pub owner: Option<Box<str>>,
    /// The annotations that matter here.
    pub annotations: BTreeMap<String, String>,
    /// Those who wrote its status.
    pub status_writers: Vec<Box<str>>,
    /// Its spec; the default when it cannot be read.
    pub spec: Metal3ClusterSpec,
    /// Why its spec cannot be read.
    pub problem: Option<Box<str>>,
    /// Its status as stored.
    pub status: Metal3ClusterStatus,
}

impl PlaceFacts {
    /// The facts of a Metal3Cluster as received from a feed or a live read.
    #[must_use]
    pub fn of(source: raw::Metal3Cluster) -> Self {
        let raw::Metal3Cluster { mut metadata, spec, status } = source;
        let (spec, problem) = read(spec);
        let mut status_writers: Vec<Box<str>> = metadata
            .managed_fields
            .iter()
            .flatten()
            .filter(|entry| entry.subresource.as_deref() == Some("status"))
            .filter_map(|entry| entry.manager.as_deref().map(Into::into))
            .collect();
        status_writers.sort();
        status_writers.dedup();
        let matter = [PAUSED_ANNOTATION, MANAGED_ANNOTATION, DELETE_FOR_MOVE_ANNOTATION];
        Self {
            annotations: kept(&mut metadata, &matter),
            filter: label(&metadata, WATCH_FILTER_LABEL),
            owner: owner(&metadata, CLUSTER_API_GROUP, "Cluster"),
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            deleted_at: metadata.deletion_timestamp.map(|time| time.0),
            finalizers: metadata.finalizers.unwrap_or_default(),
            status_writers,
            spec,
            problem,
            status: serde_json::from_value(status).unwrap_or_default(),
        }
    }
}

impl Project for Places {
    type Source = raw::Metal3Cluster;
    type Slim = PlaceFacts;

    fn slim(source: raw::Metal3Cluster) -> PlaceFacts {
        PlaceFacts::of(source)
    }
}

/// HostClaims.
pub struct Claims;

/// A HostClaim, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// Its spec; the default when it cannot be read.
    pub spec: HostClaimSpec,
    /// Its status as stored.
    pub status: HostClaimStatus,
}

impl ClaimFacts {
    /// The facts of a claim as received from a feed or a live read.
    #[must_use]
    pub fn of(source: raw::HostClaim) -> Self {
        let raw::HostClaim { metadata, spec, status } = source;
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            owners: metadata.owner_references.unwrap_or_default(),
            spec: serde_json::from_value(spec).unwrap_or_default(),
            status: serde_json::from_value(status).unwrap_or_default(),
        }
    }

    /// Whether it asks for what it was made with, and that is nothing to run: nobody's word is overwritten by the first wish.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        let spec = &self.spec;
        // The server counts every change of a spec from the first version on.
        self.generation == 1
            && !spec.wants_power()
            && (spec.image.is_none() && spec.custom_deploy.is_none())
            && (spec.user_data.is_none() && spec.meta_data.is_none() && spec.network_data.is_none())
    }
}

impl Project for Claims {
    type Source = raw::HostClaim;
    type Slim = ClaimFacts;

    fn slim(source: raw::HostClaim) -> ClaimFacts {
        ClaimFacts::of(source)
    }
}

/// Metal3DataClaims.
pub struct DataClaims;

/// A Metal3DataClaim, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataClaimFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// The template it asks for.
    pub template: NamedRef,
    /// The data that was made for it.
    pub rendered: Option<NamedRef>,
    /// Why none could be made.
    pub error: Option<String>,
}

impl Project for DataClaims {
    type Source = raw::Metal3DataClaim;
    type Slim = DataClaimFacts;

    fn slim(source: raw::Metal3DataClaim) -> DataClaimFacts {
        let raw::Metal3DataClaim { metadata, spec, status } = source;
        let spec: Metal3DataClaimSpec = serde_json::from_value(spec).unwrap_or_default();
        let status: Metal3DataClaimStatus = serde_json::from_value(status).unwrap_or_default();
        DataClaimFacts {
            uid: metadata.uid.unwrap_or_default().into(),
            deleting: metadata.deletion_timestamp.is_some(),
            owners: metadata.owner_references.unwrap_or_default(),
            template: spec.template,
            rendered: status.rendered_data.filter(|data| !data.name.is_empty()),
            error: status.error_message.filter(|error| !error.is_empty()),
        }
    }
}

/// Metal3Datas.
pub struct Datas;

/// A Metal3Data, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataFacts {
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The wish it was made for.
    pub claim: NamedRef,
    /// The Secret with the rendered metadata.
    pub meta_data: Option<SecretReference>,
    /// The Secret with the rendered network data.
    pub network_data: Option<SecretReference>,
    /// Whether the Secrets are complete.
    pub ready: bool,
    /// Why they could not be rendered.
    pub error: Option<String>,
}

impl Project for Datas {
    type Source = raw::Metal3Data;
    type Slim = DataFacts;

    fn slim(source: raw::Metal3Data) -> DataFacts {
        let raw::Metal3Data { metadata, spec, status } = source;
        let spec: Metal3DataSpec = serde_json::from_value(spec).unwrap_or_default();
        let status: Metal3DataStatus = serde_json::from_value(status).unwrap_or_default();
        let named = |secret: Option<SecretReference>| secret.filter(|secret| secret.name.is_some());
        DataFacts {
            deleting: metadata.deletion_timestamp.is_some(),
            claim: spec.claim,
            meta_data: named(spec.meta_data),
            network_data: named(spec.network_data),
            ready: status.ready == Some(true),
            error: status.error_message.filter(|error| !error.is_empty()),
        }
    }
}

/// Secrets: that one is there is all that matters.
pub struct Secrets;

impl Project for Secrets {
    type Source = Secret;
    type Slim = ();

    fn slim(_: Secret) {}
}
