//! What the explanation of clusters on CloudStack rests on.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow};
use api::key::ObjectKey;
use api::meta::lean_meta;
use api::names::CLUSTER_NAME_LABEL;
use api::names::clusters::SYSTEM_NAMESPACE;
use api::own::anywhere::{self, CloudStackDatacenterConfig, CloudStackMachineConfig};
use api::raw;
use kit::explain::Extent;
use kit::kinds::Kind;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams, ObjectMeta};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Read, Reader, Shown, Which, is_forbidden, items, plural};

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
const GENERATED: [(&str, &str, &str); 3] = [
    ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "kubeadmcontrolplanes"),
    ("cluster.x-k8s.io", "MachineDeployment", "machinedeployments"),
    ("cluster.x-k8s.io", "Machine", "machines"),
];

/// Something generated, without the bulk of its metadata.
#[derive(Deserialize)]
struct Generated {
    #[serde(default, deserialize_with = "lean_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

/// Reads one cluster and everything around it.
///
/// # Errors
/// When the cluster is not there or may not be read, or the server does not answer.
pub async fn cluster(reader: &Reader<'_>, namespace: &str, name: &str, command: &str) -> anyhow::Result<Anywhere> {
    let which = Which::One(namespace, name);
    let label = ListParams::default().labels(&format!("{CLUSTER_NAME_LABEL}={name}"));
    let (raw, datacenters, machines, (generated, untold)) = tokio::try_join!(
        Box::pin(read(reader, &which, command)),
        Box::pin(reader.read()),
        Box::pin(reader.read()),
        Box::pin(generated(reader, &label)),
    )?;
    let cluster = raw.into_iter().find(|one| which.takes(&ObjectKey::of(one)));
    let cluster = believe(cluster.ok_or_else(|| anyhow!("the cluster was not read"))?)?;
    let mut unseen = Vec::new();
    let datacenters: Vec<raw::CloudStackDatacenterConfig> = keep(datacenters, &mut unseen);
    let machines: Vec<raw::CloudStackMachineConfig> = keep(machines, &mut unseen);
    unseen.extend(untold);
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
    let every = ListParams::default();
    let (datacenters, machines, (generated, untold)) =
        tokio::try_join!(Box::pin(reader.read()), Box::pin(reader.read()), Box::pin(generated(reader, &every)))?;
    let datacenters: Vec<raw::CloudStackDatacenterConfig> = all(datacenters, &mut unseen);
    let machines: Vec<raw::CloudStackMachineConfig> = all(machines, &mut unseen);
    unseen.extend(untold);
    let mut parts: BTreeMap<String, Vec<DynamicObject>> = BTreeMap::new();
    for object in generated {
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
    let here = |meta: &ObjectMeta| meta.namespace == cluster.metadata.namespace;
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

/// What was generated, ordered by kind and name, and what could not be read of it.
async fn generated(reader: &Reader<'_>, which: &ListParams) -> anyhow::Result<(Vec<DynamicObject>, Vec<String>)> {
    let [planes, groups, machines] = GENERATED.map(|(group, kind, plural)| Kind {
        group: group.to_owned(),
        version: "v1beta2".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    });
    let (planes, groups, machines) = tokio::try_join!(
        Box::pin(generated_as(reader, &planes, which)),
        Box::pin(generated_as(reader, &groups, which)),
        Box::pin(generated_as(reader, &machines, which)),
    )?;
    let (mut generated, mut unseen) = (Vec::new(), Vec::new());
    for (found, why) in [planes, groups, machines] {
        generated.extend(found);
        unseen.extend(why);
    }
    generated.sort_by_key(|object| (object.types.clone().map(|types| types.kind), object.name_any()));
    Ok((generated, unseen))
}

/// What was generated of one kind, or why that is not known.
async fn generated_as(
    reader: &Reader<'_>,
    kind: &Kind,
    which: &ListParams,
) -> anyhow::Result<(Vec<DynamicObject>, Option<String>)> {
    let asking = || format!("listing {}", kind.kind);
    let absent = || Some(format!("the server does not know {} ({}); install Cluster API", kind.kind, kind.group));
    if reader.first(std::slice::from_ref(kind)).await.with_context(asking)?.is_none() {
        return Ok((Vec::new(), absent()));
    }
    let types = kube::core::TypeMeta { api_version: kind.api_version(), kind: kind.kind.clone() };
    let object = |one: Generated| DynamicObject {
        types: Some(types.clone()),
        metadata: one.metadata,
        data: json!({"spec": one.spec, "status": one.status}),
    };
    match items::<Generated>(reader.client, kind, Some(SYSTEM_NAMESPACE), which).await {
        Ok(found) => Ok((found.into_iter().map(object).collect(), None)),
        Err(error) if is_forbidden(&error) => {
            let what = plural(kind);
            Ok((Vec::new(), Some(format!("you may not list {what} in {SYSTEM_NAMESPACE}: what they say is not told"))))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok((Vec::new(), absent())),
        Err(error) => Err(anyhow!(error).context(asking())),
    }
}

/// Reads clusters alone, ordered by namespace and name.
///
/// # Errors
/// When none may be read, or the server does not answer.
pub async fn clusters(reader: &Reader<'_>, which: &Which<'_>) -> anyhow::Result<Vec<anywhere::Cluster>> {
    let mut all: Vec<raw::Cluster> = read(reader, which, "clusters").await?;
    all.retain(|one| which.takes(&ObjectKey::of(one)));
    all.sort_by_key(ObjectKey::of);
    all.into_iter().map(believe).collect()
}

async fn read(reader: &Reader<'_>, which: &Which<'_>, command: &str) -> anyhow::Result<Vec<raw::Cluster>> {
    let mut clusters: Read<raw::Cluster> = reader.read_here().await?;
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
fn of_parts<K: DeserializeOwned>(kind: &str, metadata: ObjectMeta, spec: Value, status: Value) -> anyhow::Result<K> {
    let name = metadata.name.clone().unwrap_or_default();
    let mut whole = json!({"metadata": metadata, "spec": spec});
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
fn keep<K: Shown>(read: Read<K>, unseen: &mut Vec<String>) -> Vec<K> {
    unseen.extend(read.unseen.filter(|(extent, _)| *extent == Extent::All).map(|(_, why)| why));
    read.items
}
