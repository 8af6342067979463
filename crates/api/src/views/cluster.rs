//! `Cluster` of Cluster API.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::common::{ConditionView, Conditions, Failure, ObjectRef, RawDeprecated, RawNewer, RawRef, read_ref};
use super::soft::{or_default, soft, soft_structs, text};
use crate::key::ObjectKey;
use crate::meta::lean_meta;
use crate::names::PAUSED_ANNOTATION;

/// A workload cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Cluster {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: ClusterSpec,
    /// What is there.
    #[serde(default, deserialize_with = "or_default")]
    pub status: ClusterStatus,
}

crate::view! { Cluster, group: super::CLUSTER_API_GROUP, versions: ["v1beta2", "v1beta1"], plural: "clusters", scope: Namespaced }

impl Cluster {
    /// Whether Cluster API, and therefore we, must leave the cluster alone.
    pub fn is_paused(&self) -> bool {
        self.spec.paused || self.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(PAUSED_ANNOTATION))
    }

    /// The ClusterClass of a cluster that has a topology; without a namespace of its own the class lies in the cluster's.
    pub fn class(&self) -> Option<ObjectKey> {
        let topology = self.spec.topology.as_ref()?;
        let namespace = topology.class_namespace.as_deref().or(self.metadata.namespace.as_deref())?;
        Some(ObjectKey::namespaced(namespace, topology.class.as_str()))
    }
}

/// What is wanted of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawClusterSpec")]
pub struct ClusterSpec {
    /// Whether the spec itself asks for a pause.
    pub paused: bool,
    /// Where the API server is reached; absent and empty read alike.
    pub control_plane_endpoint: Endpoint,
    /// The control plane object.
    pub control_plane_ref: Option<ObjectRef>,
    /// The infrastructure cluster object.
    pub infrastructure_ref: Option<ObjectRef>,
    /// The managed topology, if the cluster has one.
    pub topology: Option<Topology>,
}

/// Host and port of an API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Endpoint {
    /// Host name or address, empty when not known.
    #[serde(default, deserialize_with = "or_default")]
    pub host: String,
    /// Port, 0 when not known.
    #[serde(default, deserialize_with = "or_default")]
    pub port: i32,
}

impl Endpoint {
    /// Whether Cluster API regards the endpoint as set: it needs both parts.
    pub fn is_valid(&self) -> bool {
        !self.host.is_empty() && self.port != 0
    }
}

/// The managed topology of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// Name of the ClusterClass.
    pub class: String,
    /// Namespace of the ClusterClass, where it is not the cluster's.
    pub class_namespace: Option<String>,
    /// Kubernetes version.
    pub version: Option<String>,
    /// Replicas of the control plane.
    pub control_plane_replicas: Option<i32>,
    /// Variables exactly as they came, because a merge patch replaces the whole list.
    pub variables: Vec<Value>,
}

impl Topology {
    /// The value of a variable.
    pub fn variable(&self, name: &str) -> Option<&Value> {
        let named = |v: &&Value| v.get("name").and_then(Value::as_str) == Some(name);
        self.variables.iter().find(named).and_then(|v| v.get("value"))
    }
}

/// What is there of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawClusterStatus")]
pub struct ClusterStatus {
    /// The phase; unknown ones are kept.
    pub phase: Option<String>,
    /// Whether the infrastructure was provisioned.
    pub infrastructure_provisioned: bool,
    /// Whether the control plane accepts requests.
    pub control_plane_initialized: bool,
    /// A failure that the older contract calls terminal.
    pub failure: Option<Failure>,
    /// The generation the status speaks of.
    pub observed_generation: Option<i64>,
    /// The conditions.
    pub conditions: Conditions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawClusterSpec {
    #[serde(default, deserialize_with = "or_default")]
    paused: bool,
    #[serde(default, deserialize_with = "or_default")]
    control_plane_endpoint: Endpoint,
    #[serde(default, deserialize_with = "soft")]
    control_plane_ref: Option<RawRef>,
    #[serde(default, deserialize_with = "soft")]
    infrastructure_ref: Option<RawRef>,
    #[serde(default, deserialize_with = "soft")]
    topology: Option<RawTopology>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTopology {
    #[serde(default, deserialize_with = "text")]
    class: Option<String>,
    #[serde(default, deserialize_with = "text")]
    class_namespace: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    class_ref: Option<RawClassRef>,
    #[serde(default, deserialize_with = "text")]
    version: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    control_plane: RawReplicas,
    #[serde(default, deserialize_with = "or_default")]
    variables: Vec<Value>,
}

#[derive(Default, Deserialize)]
struct RawClassRef {
    #[serde(default, deserialize_with = "text")]
    name: Option<String>,
    #[serde(default, deserialize_with = "text")]
    namespace: Option<String>,
}

#[derive(Default, Deserialize)]
struct RawReplicas {
    #[serde(default, deserialize_with = "soft")]
    replicas: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawClusterStatus {
    #[serde(default, deserialize_with = "text")]
    phase: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    infrastructure_ready: Option<bool>,
    #[serde(default, deserialize_with = "soft")]
    control_plane_ready: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    initialization: RawInitialization,
    #[serde(default, deserialize_with = "text")]
    failure_reason: Option<String>,
    #[serde(default, deserialize_with = "text")]
    failure_message: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    observed_generation: Option<i64>,
    #[serde(default, deserialize_with = "or_default")]
    conditions: Vec<ConditionView>,
    #[serde(default, deserialize_with = "soft")]
    v1beta2: Option<RawNewer>,
    #[serde(default, deserialize_with = "or_default")]
    deprecated: RawDeprecated,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawInitialization {
    #[serde(default, deserialize_with = "soft")]
    infrastructure_provisioned: Option<bool>,
    #[serde(default, deserialize_with = "soft")]
    control_plane_initialized: Option<bool>,
}

soft_structs!(ClusterSpec, ClusterStatus, Endpoint, RawTopology, RawClassRef, RawReplicas, RawInitialization);

impl From<RawClusterSpec> for ClusterSpec {
    fn from(raw: RawClusterSpec) -> Self {
        Self {
            paused: raw.paused,
            control_plane_endpoint: raw.control_plane_endpoint,
            control_plane_ref: read_ref(raw.control_plane_ref),
            infrastructure_ref: read_ref(raw.infrastructure_ref),
            topology: raw.topology.and_then(RawTopology::read),
        }
    }
}

impl RawTopology {
    /// A topology without a class is none: the newer API writes an empty one where the older writes nothing.
    fn read(self) -> Option<Topology> {
        let class_ref = self.class_ref.unwrap_or_default();
        let (class, class_namespace) = match class_ref.name {
            Some(name) => (name, class_ref.namespace),
            None => (self.class?, self.class_namespace),
        };
        Some(Topology {
            class,
            class_namespace,
            version: self.version,
            control_plane_replicas: self.control_plane.replicas,
            variables: self.variables,
        })
    }
}

impl From<RawClusterStatus> for ClusterStatus {
    fn from(raw: RawClusterStatus) -> Self {
        let older = raw.deprecated.v1beta1.unwrap_or_default();
        let done = raw.initialization;
        Self {
            phase: raw.phase,
            infrastructure_provisioned: done.infrastructure_provisioned.or(raw.infrastructure_ready).unwrap_or(false),
            // Cluster API converts these two fields into each other.
            control_plane_initialized: done.control_plane_initialized.or(raw.control_plane_ready).unwrap_or(false),
            failure: Failure::read(
                raw.failure_reason.or(older.failure_reason),
                raw.failure_message.or(older.failure_message),
            ),
            observed_generation: raw.observed_generation,
            conditions: Conditions::read(raw.conditions, raw.v1beta2.map(|n| n.conditions), Some(older.conditions)),
        }
    }
}
