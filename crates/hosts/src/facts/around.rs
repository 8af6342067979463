//! What stands around a machine: its Machine, its Cluster and namespaces.

use std::collections::BTreeMap;

use api::key::ObjectKey;
use api::names::CLUSTER_NAME_LABEL;
use api::names::hosts::CONTROL_PLANE_LABEL;
use api::views::{Cluster, Machine, Namespace, ObjectRef};
use kit::feed::Project;

/// Machines of Cluster API.
pub struct Owners;

/// A Machine, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerFacts {
    /// The cluster it belongs to.
    pub cluster: Option<Box<str>>,
    /// Whether it is of the control plane.
    pub control_plane: bool,
    /// The failure domain it is to be in.
    pub failure_domain: Option<Box<str>>,
    /// The secret with its bootstrap data.
    pub data_secret: Option<Box<str>>,
    /// Its Kubernetes version.
    pub version: Option<Box<str>>,
    /// The infrastructure machine.
    pub infrastructure: Option<ObjectRef>,
}

impl Project for Owners {
    type Source = Machine;
    type Slim = OwnerFacts;

    fn slim(source: Machine) -> OwnerFacts {
        let labels = source.metadata.labels.unwrap_or_default();
        let named = |text: Option<String>| text.filter(|text| !text.is_empty()).map(Into::into);
        OwnerFacts {
            cluster: labels.get(CLUSTER_NAME_LABEL).map(|name| name.as_str().into()),
            control_plane: labels.contains_key(CONTROL_PLANE_LABEL),
            failure_domain: named(source.spec.failure_domain),
            data_secret: named(source.spec.data_secret_name),
            version: named(source.spec.version),
            infrastructure: source.spec.infrastructure_ref,
        }
    }
}

/// Clusters of Cluster API, with an index of their infrastructure.
pub struct Clusters;

/// A Cluster, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Whether everything of it must be left alone.
    pub paused: bool,
    /// The infrastructure cluster.
    pub infrastructure: Option<ObjectRef>,
    /// Whether the infrastructure was provisioned.
    pub provisioned: bool,
}

/// The value of an infrastructure cluster in the index of clusters.
#[must_use]
pub fn place_value(kind: &str, namespace: Option<&str>, name: &str) -> String {
    format!("{}/{kind}:{name}", namespace.unwrap_or_default())
}

impl Project for Clusters {
    type Source = Cluster;
    type Slim = ClusterFacts;
    const INDEXES: &'static [&'static str] = &["place"];

    fn slim(source: Cluster) -> ClusterFacts {
        ClusterFacts {
            paused: source.spec.paused,
            provisioned: source.status.infrastructure_provisioned,
            infrastructure: source.spec.infrastructure_ref,
        }
    }

    fn keys(_: usize, key: &ObjectKey, slim: &ClusterFacts) -> Vec<Box<str>> {
        let named = |reference: &ObjectRef| place_value(&reference.kind, key.namespace(), &reference.name).into();
        slim.infrastructure.iter().map(named).collect()
    }
}

/// Namespaces.
pub struct Spaces;

/// A namespace, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceFacts {
    /// The server's unique id.
    pub uid: Box<str>,
    /// Its labels, by which quotas choose tenants.
    pub labels: BTreeMap<Box<str>, Box<str>>,
}

impl Project for Spaces {
    type Source = Namespace;
    type Slim = SpaceFacts;

    fn slim(source: Namespace) -> SpaceFacts {
        let labels = source.metadata.labels.unwrap_or_default();
        SpaceFacts {
            uid: source.metadata.uid.unwrap_or_default().into(),
            labels: labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
        }
    }
}
