//! Kinds of the Cluster API provider for CloudStack, of which only who they are is kept.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::meta::lean_meta;

/// A cluster on CloudStack.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct CloudStackCluster {
    /// The standard metadata.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
}

crate::view! { CloudStackCluster, group: super::INFRASTRUCTURE_GROUP, versions: ["v1beta3", "v1beta2", "v1beta1"], plural: "cloudstackclusters", scope: Namespaced, only: metadata }

/// What machines on CloudStack are made of.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct CloudStackMachineTemplate {
    /// The standard metadata.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
}

crate::view! { CloudStackMachineTemplate, group: super::INFRASTRUCTURE_GROUP, versions: ["v1beta3", "v1beta2", "v1beta1"], plural: "cloudstackmachinetemplates", scope: Namespaced, only: metadata }
