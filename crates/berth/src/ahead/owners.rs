//! Machines of Cluster API, and the infrastructure machines that they refer to.

use api::key::ObjectKey;
use api::names::CLUSTER_NAME_LABEL;
use api::views::{INFRASTRUCTURE_GROUP, Machine};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The API version of an owner, where its group alone counts.
const VERSION: &str = "cluster.x-k8s.io/v1beta2";

/// The Machine that refers to an infrastructure machine of this kind and name.
pub fn owner_of<'m>(owners: &'m [Machine], kind: &str, key: &ObjectKey) -> Option<&'m Machine> {
    owners.iter().find(|owner| {
        let to = owner.spec.infrastructure_ref.as_ref();
        owner.metadata.namespace.as_deref() == key.namespace()
            && to.is_some_and(|to| to.group == INFRASTRUCTURE_GROUP && to.kind == kind && to.name == key.name())
    })
}

/// Makes a Machine the owner of what it refers to, and labels both with their Cluster, as Cluster API does as soon as it has
/// seen them.
pub fn adopt(owner: &Machine, meta: &mut ObjectMeta) {
    let name = owner.metadata.name.clone().unwrap_or_default();
    let references = meta.owner_references.get_or_insert_default();
    if !references.iter().any(|reference| reference.kind == "Machine") {
        let uid = owner.metadata.uid.clone().unwrap_or_default();
        references.push(OwnerReference {
            api_version: VERSION.to_owned(),
            kind: "Machine".to_owned(),
            name,
            uid,
            ..OwnerReference::default()
        });
    }
    if let Some(cluster) = &owner.spec.cluster_name {
        label(meta, cluster);
    }
}

/// Labels Machines with the Cluster that they say they belong to.
pub fn labelled(mut owners: Vec<Machine>) -> Vec<Machine> {
    for owner in &mut owners {
        if let Some(cluster) = owner.spec.cluster_name.clone() {
            label(&mut owner.metadata, &cluster);
        }
    }
    owners
}

fn label(meta: &mut ObjectMeta, cluster: &str) {
    meta.labels.get_or_insert_default().entry(CLUSTER_NAME_LABEL.to_owned()).or_insert_with(|| cluster.to_owned());
}
