//! What the explanation of claims rests on.

use std::collections::BTreeMap;

use ::claims::explain::{Lists, Part};
use anyhow::anyhow;
use api::key::ObjectKey;
use api::names::claims::FAILURE_DOMAIN_LABEL;
use api::raw::HostClaim;
use api::views::BareMetalHost;
use kit::explain::{Extent, Unseen};
use kube::{Client, ResourceExt as _};

use super::{Listed, Read, Reader, Shown, Which};

/// The label that most sites tell zones by.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// When it is read what inspection found in hosts, which is as much as the hosts themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardware {
    /// With everything else: hosts are judged.
    AtOnce,
    /// After everything else, if a claim that is looked at turns out to be without its host: nothing else depends on it.
    WhenSought,
}

/// Reads claims and everything that decides about them.
///
/// # Errors
/// When the claim is not there or may not be read, or the server does not answer.
pub async fn claims(
    reader: &Reader<'_>,
    which: &Which<'_>,
    hardware: Hardware,
    command: &str,
) -> anyhow::Result<Lists> {
    let lists = claims_around(reader, which, hardware, command).await?;
    lists.ok_or_else(|| anyhow!("the server does not know HostClaims; see `berth doctor`, or choose another --context"))
}

/// The same; none where the server does not know HostClaims.
///
/// # Errors
/// When the claim is not there or may not be read, or the server does not answer.
pub async fn claims_around(
    reader: &Reader<'_>,
    which: &Which<'_>,
    when: Hardware,
    command: &str,
) -> anyhow::Result<Option<Lists>> {
    let Some(kind) = reader.kind::<HostClaim>().await? else { return Ok(None) };
    let at_once = async {
        match when {
            Hardware::AtOnce => reader.list(Part::Hardware).await.map(Some),
            Hardware::WhenSought => Ok(None),
        }
    };
    let (claims, hosts, hardware, policies, namespaces, quotas, clusters) = tokio::try_join!(
        Box::pin(reader.list(Part::Claims)),
        Box::pin(reader.list(Part::Hosts)),
        Box::pin(at_once),
        Box::pin(reader.list(Part::Policies)),
        Box::pin(reader.list(Part::Namespaces)),
        Box::pin(reader.list(Part::Quotas)),
        Box::pin(reader.list(Part::Clusters)),
    )?;
    let mut claims: Listed<HostClaim, Part> = claims;
    reader.complete(which, &kind, &mut claims.items, &format!("{command} hostclaim")).await?;
    let mut unseen = Vec::new();
    let mut lists = Lists {
        claims: claims.keep(&mut unseen),
        hosts: hosts.keep(&mut unseen),
        policies: policies.keep(&mut unseen),
        namespaces: namespaces.keep(&mut unseen),
        quotas: quotas.keep(&mut unseen),
        clusters: clusters.keep(&mut unseen),
        ..Lists::default()
    };
    let hardware = match hardware {
        None if lists.seeks(|key| which.takes(key)) => Some(reader.list(Part::Hardware).await?),
        read => read,
    };
    lists.hardware = hardware.map(|hardware| hardware.keep(&mut unseen)).unwrap_or_default();
    // A kind that is not installed is nothing that its absence hides.
    unseen.retain(|unseen: &Unseen<Part>| unseen.extent != Extent::Absent || unseen.part == Part::Hosts);
    // In the order of the parts, whenever each was read.
    unseen.sort_by_key(|unseen| unseen.part);
    Ok(Some(Lists { unseen, ..lists }))
}

/// Reads hosts alone.
///
/// # Errors
/// When no host may be read, or the server does not answer.
pub async fn hosts(client: &Client, which: &Which<'_>) -> anyhow::Result<Lists> {
    let hosts: Vec<BareMetalHost> = alone(client, which).await?;
    Ok(Lists { hosts, ..Lists::default() })
}

/// In which zone each host is, as far as its owner says so.
pub fn zones(lists: &Lists) -> BTreeMap<ObjectKey, String> {
    let zone = |labels: &BTreeMap<String, String>| {
        [FAILURE_DOMAIN_LABEL, ZONE_LABEL].iter().find_map(|label| labels.get(*label)).cloned()
    };
    lists.hosts.iter().filter_map(|host| Some((ObjectKey::of(host), zone(host.labels())?))).collect()
}

/// Reads claims alone.
///
/// # Errors
/// When no claim may be read, or the server does not answer.
pub async fn claims_alone(client: &Client, which: &Which<'_>) -> anyhow::Result<Lists> {
    let claims: Vec<HostClaim> = alone(client, which).await?;
    Ok(Lists { claims, ..Lists::default() })
}

/// Whoever asks for one namespace is not kept waiting for the others.
async fn alone<K: Shown>(client: &Client, which: &Which<'_>) -> anyhow::Result<Vec<K>> {
    let read: Read<K> = Reader::new(client, which.namespace()).read_here().await?;
    match read.unseen {
        Some((_, why)) => Err(anyhow!("{why}")),
        None => Ok(read.items),
    }
}
