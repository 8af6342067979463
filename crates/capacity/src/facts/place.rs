//! Where clusters are.

use api::views::{
    AWSCluster, AWSManagedControlPlane, AwsClusterSpec, AwsIdentityRef, AwsPlaceSpec, Cluster, Infrastructure,
    ObjectRef, ROSAControlPlane, ServiceEndpoint,
};
use kit::feed::Project;

/// A Cluster, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Whether everything of it must be left alone.
    pub paused: bool,
    /// The infrastructure cluster.
    pub infrastructure: Option<ObjectRef>,
    /// The control plane.
    pub control_plane: Option<ObjectRef>,
}

/// Clusters of Cluster API.
pub struct Clusters;

impl Project for Clusters {
    type Source = Cluster;
    type Slim = ClusterFacts;
    const INDEXES: &'static [&'static str] = &["place"];

    fn slim(source: Cluster) -> ClusterFacts {
        ClusterFacts {
            paused: source.spec.paused,
            infrastructure: source.spec.infrastructure_ref,
            control_plane: source.spec.control_plane_ref,
        }
    }

    fn keys(_: usize, key: &api::key::ObjectKey, slim: &ClusterFacts) -> Vec<Box<str>> {
        let named = |reference: &ObjectRef| place_value(&reference.kind, key.namespace(), &reference.name).into();
        slim.infrastructure.iter().chain(&slim.control_plane).map(named).collect()
    }
}

/// The value of a place in the index of clusters.
#[must_use]
pub fn place_value(kind: &str, namespace: Option<&str>, name: &str) -> String {
    format!("{}/{kind}:{name}", namespace.unwrap_or_default())
}

/// Where a cluster is, and whose account it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceFacts {
    /// The region, as written.
    pub region: Option<Box<str>>,
    /// The identity by which its provider acts.
    pub identity: Option<AwsIdentityRef>,
}

impl From<AwsClusterSpec> for PlaceFacts {
    fn from(spec: AwsClusterSpec) -> Self {
        spec.place().into()
    }
}

impl From<AwsPlaceSpec> for PlaceFacts {
    fn from(spec: AwsPlaceSpec) -> Self {
        Self { region: spec.region.map(Into::into), identity: spec.identity_ref }
    }
}

macro_rules! places {
    ($($(#[$doc:meta])* $feed:ident of $source:ident;)+) => {$(
        $(#[$doc])*
        pub struct $feed;

        impl Project for $feed {
            type Source = $source;
            type Slim = PlaceFacts;

            fn slim(source: $source) -> PlaceFacts {
                source.spec.into()
            }
        }
    )+};
}

places! {
    /// Networks of clusters on EC2.
    AwsClusters of AWSCluster;
    /// Control planes of clusters on EKS.
    ManagedPlanes of AWSManagedControlPlane;
    /// Control planes of clusters on OpenShift Service on AWS.
    RosaPlanes of ROSAControlPlane;
}

/// The platform of an OpenShift cluster, as far as it is AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InfrastructureFacts {
    /// The region of the cluster.
    pub region: Option<Box<str>>,
    /// Where services answer.
    pub endpoints: Vec<ServiceEndpoint>,
}

/// Platforms of OpenShift clusters; there is one object.
pub struct Infrastructures;

impl Project for Infrastructures {
    type Source = Infrastructure;
    type Slim = InfrastructureFacts;

    fn slim(source: Infrastructure) -> InfrastructureFacts {
        InfrastructureFacts { region: source.status.aws_region.map(Into::into), endpoints: source.status.aws_endpoints }
    }
}
