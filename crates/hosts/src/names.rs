//! Names of the room that are made of others.

use api::names::hosts::{CLUSTER_TAG_PREFIX, KUBERNETES_CLUSTER_TAG_PREFIX};

/// The tag by which the provider for AWS owns a resource of a cluster.
#[must_use]
pub fn cluster_tag(cluster: &str) -> String {
    format!("{CLUSTER_TAG_PREFIX}{cluster}")
}

/// The tag by which Kubernetes knows a resource of a cluster.
#[must_use]
pub fn kubernetes_tag(cluster: &str) -> String {
    format!("{KUBERNETES_CLUSTER_TAG_PREFIX}{cluster}")
}
