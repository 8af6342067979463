//! Groups of machines and control planes, each drawn with its machines.

use std::collections::BTreeMap;

use ::capacity::facts::GroupKind;
use anyhow::bail;
use api::key::ObjectKey;
use api::names::CLUSTER_NAME_LABEL;
use api::views::{Cluster, KubeadmControlPlane, Machine, MachineDeployment, MachineSet, Namespace};
use kit::explain::{Extent, Level, Node, Object};
use kube::{Client, ResourceExt as _};

use super::{AboutOptions, machines, metal};
use crate::look::{self, Read, Reader};

/// Label of a Machine: the MachineDeployment it belongs to.
const DEPLOYMENT_LABEL: &str = "cluster.x-k8s.io/deployment-name";

/// What a group says of itself.
struct Group {
    object: Object,
    wanted: i32,
    ready: i32,
    /// What else there is to know of it.
    more: String,
}

/// Draws a MachineDeployment or a MachineSet of Cluster API.
pub async fn draw(client: &Client, options: &AboutOptions, kinds: &[GroupKind], name: &str) -> anyhow::Result<Node> {
    let namespace = options.place.namespace(client);
    let reader = Reader::new(client, Some(&namespace));
    if kinds.contains(&GroupKind::Deployment) {
        let found = async {
            let found: MachineDeployment = reader.named(&namespace, name, "tree machinedeployment").await?;
            let (wanted, ready) = (found.spec.replicas, found.status.ready_replicas);
            anyhow::Ok(group("MachineDeployment", &found, wanted, ready, metal::offered(&found)))
        };
        let own = |machine: &Machine| machine.labels().get(DEPLOYMENT_LABEL).is_some_and(|group| group == name);
        return drawn(&reader, options, found, own).await;
    }
    // On OpenShift a MachineSet may well be one of its own kind, and Cluster API not installed.
    let own = kinds.contains(&GroupKind::OpenShiftSet);
    if kinds.contains(&GroupKind::Set) && (!own || reader.kind::<MachineSet>().await?.is_some()) {
        let found = async {
            let found: MachineSet = reader.named(&namespace, name, "tree machineset").await?;
            anyhow::Ok(group("MachineSet", &found, found.spec.replicas, found.status.ready_replicas, String::new()))
        };
        return drawn(&reader, options, found, |machine| is_of(machine, "MachineSet", name)).await;
    }
    bail!(
        "groups of this kind are not drawn; see `berth explain` for what cluster-autoscaler makes of them, and `berth tree cluster/…`"
    )
}

/// Draws a control plane.
pub async fn plane(client: &Client, options: &AboutOptions, name: &str) -> anyhow::Result<Node> {
    let namespace = options.place.namespace(client);
    let reader = Reader::new(client, Some(&namespace));
    let found = async {
        let found: KubeadmControlPlane = reader.named(&namespace, name, "tree kubeadmcontrolplane").await?;
        let version = found.spec.version.as_deref().map(|version| format!(", {version}")).unwrap_or_default();
        anyhow::Ok(group("KubeadmControlPlane", &found, found.spec.replicas, found.status.ready_replicas, version))
    };
    drawn(&reader, options, found, |machine| is_of(machine, "KubeadmControlPlane", name)).await
}

fn group(
    kind: &str,
    object: &impl kube::Resource<DynamicType = ()>,
    wanted: Option<i32>,
    ready: Option<i32>,
    more: String,
) -> Group {
    Group {
        object: Object::new(kind, &ObjectKey::of(object)),
        wanted: wanted.unwrap_or(1),
        ready: ready.unwrap_or_default(),
        more,
    }
}

/// Whether a machine is made by the one of this kind and name.
fn is_of(machine: &Machine, kind: &str, name: &str) -> bool {
    let owners = machine.metadata.owner_references.iter().flatten();
    owners.filter(|owner| owner.controller == Some(true)).any(|owner| owner.kind == kind && owner.name == name)
}

/// Reads the group, its machines and what they are made of at the same time, and puts them together.
async fn drawn(
    reader: &Reader<'_>,
    options: &AboutOptions,
    found: impl Future<Output = anyhow::Result<Group>>,
    own: impl Fn(&Machine) -> bool,
) -> anyhow::Result<Node> {
    let namespace = reader.namespace.unwrap_or_default();
    // Both looks below want these. One that ends early, because there is nothing for it to see, would take them away from the
    // other, which would have to ask again.
    let shared = async { tokio::try_join!(reader.read::<Namespace>(), reader.read::<Cluster>()) };
    let (_, group, machines, metal, dedicated) = tokio::try_join!(
        Box::pin(shared),
        Box::pin(found),
        Box::pin(reader.read_here::<Machine>()),
        Box::pin(look::metal_of(reader, namespace, "tree")),
        Box::pin(look::machines(reader)),
    )?;
    let machines: Read<Machine> = machines;
    if let Some((Extent::All, why)) = machines.unseen {
        bail!(why);
    }
    let here = |machine: &Machine| machine.namespace().as_deref() == Some(namespace);
    let mut machines: Vec<Machine> =
        machines.items.into_iter().filter(|machine| here(machine) && own(machine)).collect();
    machines.sort_by_key(ObjectKey::of);
    let mut below = match metal {
        Some(seen) => metal::below(&mut metal::world(seen, options), &machines),
        None => BTreeMap::new(),
    };
    if let Some(around) = dedicated {
        below.extend(machines::below(reader.client, &around, options, &machines).await?);
    }
    let Group { object, wanted, ready, more } = group;
    let all = usize::try_from(wanted).is_ok_and(|wanted| wanted == machines.len());
    let level = if ready == wanted && all { Level::Ok } else { Level::Waiting };
    let cluster = machines.first().and_then(|machine| machine.labels().get(CLUSTER_NAME_LABEL));
    let of = cluster.map(|cluster| format!(", of the Cluster {cluster}")).unwrap_or_default();
    let nodes =
        machines.iter().map(|machine| metal::standing(machine, below.remove(&ObjectKey::of(machine)))).collect();
    Ok(Node::new(object, level, format!("{ready} of {wanted} ready{more}{of}")).with(nodes))
}
