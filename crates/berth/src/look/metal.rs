//! What the explanation of machines on claims rests on.

use ::claims::explain::Lists;
use anyhow::anyhow;
use api::key::ObjectKey;
use api::own::metal3::{Metal3Machine, Metal3MachineSpec, Metal3MachineStatus};
use api::raw;
use api::views::{INFRASTRUCTURE_GROUP, Machine, MachineDeployment};
use kit::explain::Extent;

use super::{Hardware, Read, Reader, Shown, Which, claims_around};

/// The machines of a namespace that run on claims, or may, and what stands around them.
#[derive(Clone, Debug, Default)]
pub struct Metal {
    /// The machines.
    pub machines: Vec<Metal3Machine>,
    /// The Machines of Cluster API.
    pub owners: Vec<Machine>,
    /// The groups they belong to.
    pub groups: Vec<MachineDeployment>,
    /// The claims and everything that decides about them; none where the server does not know claims.
    pub claims: Option<Lists>,
    /// What could not be read, each in a sentence.
    pub unseen: Vec<String>,
}

/// Reads one machine and everything around it.
///
/// # Errors
/// When the machine is not there or may not be read, or the server does not answer.
pub async fn metal(
    reader: &Reader<'_>,
    namespace: &str,
    name: &str,
    hardware: Hardware,
    command: &str,
) -> anyhow::Result<Metal> {
    let Some(kind) = reader.kind::<raw::Metal3Machine>().await? else {
        return Err(anyhow!(
            "the server does not know Metal3Machines; see `berth doctor`, or choose another --context"
        ));
    };
    let (mut machines, groups, around) = tokio::try_join!(
        Box::pin(reader.read_here::<raw::Metal3Machine>()),
        Box::pin(reader.read_here()),
        Box::pin(around(reader, namespace, hardware, command)),
    )?;
    let which = Which::One(namespace, name);
    reader.complete(&which, &kind, &mut machines.items, &format!("{command} metal3machine")).await?;
    Ok(assembled(namespace, machines, groups, around))
}

/// Reads all machines of a namespace and everything around them; none where there is neither such a machine nor a group of
/// them.
///
/// # Errors
/// When the server does not answer.
pub async fn metal_of(reader: &Reader<'_>, namespace: &str, command: &str) -> anyhow::Result<Option<Metal>> {
    if reader.kind::<raw::Metal3Machine>().await?.is_none() {
        return Ok(None);
    }
    let there = async {
        let (machines, groups): (Read<raw::Metal3Machine>, Read<MachineDeployment>) =
            tokio::try_join!(Box::pin(reader.read_here()), Box::pin(reader.read_here()))?;
        let here = |machine: &raw::Metal3Machine| machine.metadata.namespace.as_deref() == Some(namespace);
        // A group at zero has no machines, and is there all the same.
        let made_here = |group: &MachineDeployment| {
            let to = group.spec.template.spec.infrastructure_ref.as_ref();
            group.metadata.namespace.as_deref() == Some(namespace)
                && to.is_some_and(|to| to.group == INFRASTRUCTURE_GROUP && to.kind == "Metal3MachineTemplate")
        };
        let any = machines.items.iter().any(here) || groups.items.iter().any(made_here);
        anyhow::Ok(any.then_some((machines, groups)))
    };
    // Claims and hosts are read beside the machines, and no further once it is known that nothing here stands on them.
    let (mut there, mut around) = (Box::pin(there), Box::pin(around(reader, namespace, Hardware::WhenSought, command)));
    let (there, around) = tokio::select! {
        found = &mut there => match found? {
            Some(found) => (found, around.await?),
            None => return Ok(None),
        },
        found = &mut around => {
            let Some(there) = there.await? else { return Ok(None) };
            (there, found?)
        }
    };
    Ok(Some(assembled(namespace, there.0, there.1, around)))
}

/// Reads all machines of all namespaces that may be read, without what stands around their claims.
///
/// # Errors
/// When the server does not answer.
pub async fn every_metal(reader: &Reader<'_>) -> anyhow::Result<Metal> {
    fn all<K>(read: Read<K>, unseen: &mut Vec<String>) -> Vec<K> {
        unseen.extend(read.unseen.filter(|(extent, _)| *extent != Extent::Absent).map(|(_, why)| why));
        read.items
    }
    let (machines, owners, groups) =
        tokio::try_join!(Box::pin(reader.read()), Box::pin(reader.read()), Box::pin(reader.read()))?;
    let mut unseen = Vec::new();
    let machines: Vec<raw::Metal3Machine> = all(machines, &mut unseen);
    let machines = machines.into_iter().filter_map(|raw| believe(raw, &mut unseen)).collect();
    let (owners, groups) = (all(owners, &mut unseen), all(groups, &mut unseen));
    Ok(Metal { machines, owners, groups, claims: None, unseen })
}

/// The Machines of a namespace, and the claims with everything that decides about them.
async fn around(
    reader: &Reader<'_>,
    namespace: &str,
    hardware: Hardware,
    command: &str,
) -> anyhow::Result<(Read<Machine>, Option<Lists>)> {
    let which = Which::In(namespace);
    tokio::try_join!(Box::pin(reader.read_here()), Box::pin(claims_around(reader, &which, hardware, command)),)
}

fn assembled(
    namespace: &str,
    machines: Read<raw::Metal3Machine>,
    groups: Read<MachineDeployment>,
    (owners, claims): (Read<Machine>, Option<Lists>),
) -> Metal {
    let mut unseen = Vec::new();
    let machines = keep(machines, namespace, &mut unseen);
    let machines = machines.into_iter().filter_map(|raw| believe(raw, &mut unseen)).collect();
    let owners = keep(owners, namespace, &mut unseen);
    let groups = keep(groups, namespace, &mut unseen);
    if claims.is_none() {
        unseen.push("the server does not know HostClaims (metal3.io), so no machine can have one".to_owned());
    }
    Metal { machines, owners, groups, claims, unseen }
}

/// A machine whose parts can be read; of any other only that is told.
fn believe(raw: raw::Metal3Machine, unseen: &mut Vec<String>) -> Option<Metal3Machine> {
    let name = raw.metadata.name.clone().unwrap_or_default();
    let spec: Result<Metal3MachineSpec, _> = serde_json::from_value(raw.spec);
    let status: Result<Option<Metal3MachineStatus>, _> = serde_json::from_value(raw.status);
    match (spec, status) {
        (Ok(spec), Ok(status)) => Some(Metal3Machine { metadata: raw.metadata, spec, status }),
        (Err(error), _) | (_, Err(error)) => {
            unseen.push(format!("the Metal3Machine {name} cannot be read: {error}"));
            None
        }
    }
}

/// What was read in this namespace; whoever asks about it misses nothing of others.
fn keep<K: Shown>(read: Read<K>, namespace: &str, unseen: &mut Vec<String>) -> Vec<K> {
    unseen.extend(read.unseen.filter(|(extent, _)| *extent == Extent::All).map(|(_, why)| why));
    read.items.into_iter().filter(|item| ObjectKey::of(item).namespace() == Some(namespace)).collect()
}
