//! Kinds of Kubernetes itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::meta::{data_meta, lean_meta};

/// A Namespace: who it is and how it is labelled.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Namespace {
    /// The standard metadata.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
}

crate::view! { Namespace, group: "", versions: ["v1"], plural: "namespaces", scope: Cluster, only: metadata }

/// A Secret without its content, which the server is asked not to send: who follows secrets learns that one changed, and
/// reads the one it needs by name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Secret {
    /// The standard metadata; of `managedFields` only who wrote what the Secret holds.
    #[serde(default, deserialize_with = "data_meta")]
    pub metadata: ObjectMeta,
}

crate::view! { Secret, group: "", versions: ["v1"], plural: "secrets", scope: Namespaced, only: metadata }
