//! What the explanation of clusters on CloudStack rests on.

use std::collections::BTreeMap;

use anyhow::anyhow;
use api::key::ObjectKey;
use api::meta::View;
use api::names::CLUSTER_NAME_LABEL;
use api::names::clusters::SYSTEM_NAMESPACE;
use api::own::anywhere::{self, CloudStackDatacenterConfig, CloudStackMachineConfig};
use api::raw;
use kit::explain::Extent;
use kit::kinds::Kinds;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Read, Reader, Which, is_forbidden};

/// A cluster and what stands around it.
#[derive(Clone, Debug, Default)]
pub struct Anywhere {
    /// The cluster.
    pub cluster: anywhere::Cluster,
    /// Its datacenter, where it is there.
    pub datacenter: Option<CloudStackDatacenterConfig>,
    /// Its machine configurations, those that are there.
    pub machines: Vec<CloudStackMachineConfig>,
    /// What was generated for it, as far as it may be seen.
    pub generated: Vec<DynamicObject>,
    /// What could not be read, each in a sentence.
    pub unseen: Vec<String>,
}

/// The kinds that are drawn of what is generated.
const GENERATED: [(&str, &str); 3] = [
    ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"),
    ("cluster.x-k8s.io", "MachineDeployment"),
    ("cluster.x-k8s.io", "Machine"),
];

/// Reads one cluster and everything around it.
///
/// # Errors
/// When the cluster is not there or may not be read, or the server does not answer.
pub async fn cluster(client: &Client, namespace: &str, name: &str, command: &str) -> anyhow::Result<Anywhere> {
    let which = Which::One(namespace, name);
    let mut unseen = Vec::new();
    let raw: Vec<raw::Cluster> = read(client, &which, command).await?;
    let cluster = raw.into_iter().find(|one| which.takes(&ObjectKey::of(one)));
    let cluster = believe(cluster.ok_or_else(|| anyhow!("the cluster was not read"))?)?;
    let reader = Reader { client, kinds: Kinds::new(client.clone()), namespace: Some(namespace) };
    let datacenters: Vec<raw::CloudStackDatacenterConfig> = keep(reader.read().await?, &mut unseen);
    let machines: Vec<raw::CloudStackMachineConfig> = keep(reader.read().await?, &mut unseen);
    let label = ListParams::default().labels(&format!("{CLUSTER_NAME_LABEL}={name}"));
    let generated = generated(client, &label, &mut unseen).await?;
    Ok(Anywhere { unseen, ..assemble(cluster, &datacenters, &machines, generated)? })
}

/// Reads all clusters that may be read, and everything around each; and what could not be read.
///
/// # Errors
/// When the server does not answer.
pub async fn every_cluster(reader: &Reader<'_>) -> anyhow::Result<(Vec<Anywhere>, Vec<String>)> {
    fn all<K>(read: Read<K>, unseen: &mut Vec<String>) -> Vec<K> {
        unseen.extend(read.unseen.filter(|(extent, _)| *extent != Extent::Absent).map(|(_, why)| why));
        read.items
    }
    let mut unseen = Vec::new();
    let mut clusters: Vec<raw::Cluster> = all(reader.read().await?, &mut unseen);
    if clusters.is_empty() {
        return Ok((Vec::new(), unseen));
    }
    clusters.sort_by_key(ObjectKey::of);
    let datacenters: Vec<raw::CloudStackDatacenterConfig> = all(reader.read().await?, &mut unseen);
    let machines: Vec<raw::CloudStackMachineConfig> = all(reader.read().await?, &mut unseen);
    let mut parts: BTreeMap<String, Vec<DynamicObject>> = BTreeMap::new();
    for object in generated(reader.client, &ListParams::default(), &mut unseen).await? {
        let owner = object.labels().get(CLUSTER_NAME_LABEL).cloned().unwrap_or_default();
        parts.entry(owner).or_default().push(object);
    }
    let mut found = Vec::new();
    for raw in clusters {
        let key = ObjectKey::of(&raw);
        let own = parts.get(key.name()).cloned().unwrap_or_default();
        // One that cannot be read hides no other.
        match believe(raw).and_then(|cluster| assemble(cluster, &datacenters, &machines, own)) {
            Ok(seen) => found.push(seen),
            Err(error) => unseen.push(format!("the Cluster {key} of EKS Anywhere cannot be read: {error:#}")),
        }
    }
    Ok((found, unseen))
}

/// Puts a cluster together with those of the others that it names.
fn assemble(
    cluster: anywhere::Cluster,
    datacenters: &[raw::CloudStackDatacenterConfig],
    machines: &[raw::CloudStackMachineConfig],
    generated: Vec<DynamicObject>,
) -> anyhow::Result<Anywhere> {
    let named = datacenter_of(&cluster);
    let here = |meta: &kube::api::ObjectMeta| meta.namespace == cluster.metadata.namespace;
    let datacenter = datacenters
        .iter()
        .find(|one| here(&one.metadata) && one.metadata.name.as_deref() == Some(named.as_str()))
        .cloned()
        .map(|one| of_parts("CloudStackDatacenterConfig", one.metadata, one.spec, one.status))
        .transpose()?;
    let wanted = machines_of(&cluster);
    let machines = machines
        .iter()
        .filter(|one| here(&one.metadata) && one.metadata.name.as_ref().is_some_and(|name| wanted.contains(name)))
        .cloned()
        .map(|one| of_parts("CloudStackMachineConfig", one.metadata, one.spec, one.status))
        .collect::<anyhow::Result<Vec<CloudStackMachineConfig>>>()?;
    Ok(Anywhere { cluster, datacenter, machines, generated, unseen: Vec::new() })
}

/// What was generated, ordered by kind and name.
async fn generated(
    client: &Client,
    which: &ListParams,
    unseen: &mut Vec<String>,
) -> anyhow::Result<Vec<DynamicObject>> {
    let mut generated = Vec::new();
    for (group, kind) in GENERATED {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1beta2", kind));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), SYSTEM_NAMESPACE, &resource);
        match api.list(which).await {
            Ok(list) => generated.extend(list.items.into_iter().map(|mut object| {
                object.types =
                    Some(kube::core::TypeMeta { api_version: format!("{group}/v1beta2"), kind: kind.into() });
                object
            })),
            Err(error) if is_forbidden(&error) => {
                let what = format!("{}.{group}", resource.plural);
                unseen.push(format!("you may not list {what} in {SYSTEM_NAMESPACE}: what they say is not told"));
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                unseen.push(format!("the server does not know {kind} ({group}); install Cluster API"));
            }
            Err(error) => return Err(anyhow!(error).context(format!("listing {kind}"))),
        }
    }
    generated.sort_by_key(|object| (object.types.clone().map(|types| types.kind), object.name_any()));
    Ok(generated)
}

/// Reads clusters alone, ordered by namespace and name.
///
/// # Errors
/// When none may be read, or the server does not answer.
pub async fn clusters(client: &Client, which: &Which<'_>) -> anyhow::Result<Vec<anywhere::Cluster>> {
    let mut all: Vec<raw::Cluster> = read(client, which, "clusters").await?;
    all.retain(|one| which.takes(&ObjectKey::of(one)));
    all.sort_by_key(ObjectKey::of);
    all.into_iter().map(believe).collect()
}

async fn read(client: &Client, which: &Which<'_>, command: &str) -> anyhow::Result<Vec<raw::Cluster>> {
    let reader = Reader { client, kinds: Kinds::new(client.clone()), namespace: which.namespace() };
    let mut clusters: Read<raw::Cluster> = reader.read().await?;
    let Some(kind) = clusters.kind.clone() else {
        return Err(anyhow!(
            "the server does not know Clusters of anywhere.eks.amazonaws.com; see `berth doctor`, or choose another --context"
        ));
    };
    reader.complete(which, &kind, &mut clusters.items, &format!("{command} cluster.anywhere")).await?;
    if let (Which::In(_) | Which::All, Some((Extent::All, why))) = (which, clusters.unseen) {
        return Err(anyhow!(why));
    }
    Ok(clusters.items)
}

fn believe(raw: raw::Cluster) -> anyhow::Result<anywhere::Cluster> {
    of_parts("Cluster", raw.metadata, raw.spec, raw.status)
}

/// Reads an object whose parts came unread.
fn of_parts<K: DeserializeOwned>(
    kind: &str,
    metadata: kube::api::ObjectMeta,
    spec: Value,
    status: Value,
) -> anyhow::Result<K> {
    let name = metadata.name.clone().unwrap_or_default();
    let mut whole = serde_json::json!({"metadata": metadata, "spec": spec});
    if let (false, Some(fields)) = (status.is_null(), whole.as_object_mut()) {
        fields.insert("status".to_owned(), status);
    }
    serde_json::from_value(whole).map_err(|error| anyhow!(error).context(format!("reading the {kind} {name}")))
}

/// The name of the datacenter.
pub fn datacenter_of(cluster: &anywhere::Cluster) -> String {
    cluster.spec.datacenter_ref.as_ref().map(|reference| reference.name.clone()).unwrap_or_default()
}

/// The names of the machine configurations, each once.
pub fn machines_of(cluster: &anywhere::Cluster) -> Vec<String> {
    let plane = cluster.spec.control_plane_configuration.as_ref().and_then(|plane| plane.machine_group_ref.as_ref());
    let groups = cluster.spec.worker_node_group_configurations.iter().filter_map(|one| one.machine_group_ref.as_ref());
    let mut names: Vec<String> = plane.into_iter().chain(groups).map(|reference| reference.name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// What was read; whoever asks about one cluster misses nothing of other namespaces.
fn keep<K>(read: Read<K>, unseen: &mut Vec<String>) -> Vec<K>
where
    K: View + Clone + DeserializeOwned + std::fmt::Debug,
{
    unseen.extend(read.unseen.filter(|(extent, _)| *extent == Extent::All).map(|(_, why)| why));
    read.items
}
