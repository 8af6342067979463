//! What the explanation of claims rests on.

use std::collections::BTreeMap;

use ::claims::explain::{Lists, Part};
use anyhow::anyhow;
use api::key::ObjectKey;
use api::meta::View;
use api::names::claims::FAILURE_DOMAIN_LABEL;
use api::raw::HostClaim;
use api::views::BareMetalHost;
use kit::explain::{Extent, Unseen};
use kit::kinds::Kinds;
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::{Listed, Reader, Which};

/// The label that most sites tell zones by.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// Reads claims and everything that decides about them.
///
/// # Errors
/// When the claim is not there or may not be read, or the server does not answer.
pub async fn claims(client: &Client, which: &Which<'_>, command: &str) -> anyhow::Result<Lists> {
    let lists = claims_around(client, which, command).await?;
    lists.ok_or_else(|| anyhow!("the server does not know HostClaims; see `berth doctor`, or choose another --context"))
}

/// The same; none where the server does not know HostClaims.
///
/// # Errors
/// When the claim is not there or may not be read, or the server does not answer.
pub async fn claims_around(client: &Client, which: &Which<'_>, command: &str) -> anyhow::Result<Option<Lists>> {
    let reader = Reader { client, kinds: Kinds::new(client.clone()), namespace: which.namespace() };
    let (claims, hosts, hardware, policies, namespaces, quotas, clusters) = tokio::try_join!(
        Box::pin(reader.list(Part::Claims)),
        Box::pin(reader.list(Part::Hosts)),
        Box::pin(reader.list(Part::Hardware)),
        Box::pin(reader.list(Part::Policies)),
        Box::pin(reader.list(Part::Namespaces)),
        Box::pin(reader.list(Part::Quotas)),
        Box::pin(reader.list(Part::Clusters)),
    )?;
    let mut claims: Listed<HostClaim, Part> = claims;
    let Some(kind) = claims.kind.clone() else { return Ok(None) };
    reader.complete(which, &kind, &mut claims.items, &format!("{command} hostclaim")).await?;
    let mut unseen = Vec::new();
    let lists = Lists {
        claims: claims.keep(&mut unseen),
        hosts: hosts.keep(&mut unseen),
        hardware: hardware.keep(&mut unseen),
        policies: policies.keep(&mut unseen),
        namespaces: namespaces.keep(&mut unseen),
        quotas: quotas.keep(&mut unseen),
        clusters: clusters.keep(&mut unseen),
        unseen: Vec::new(),
    };
    // A kind that is not installed is nothing that its absence hides.
    unseen.retain(|unseen: &Unseen<Part>| unseen.extent != Extent::Absent || unseen.part == Part::Hosts);
    Ok(Some(Lists { unseen, ..lists }))
}

/// Reads hosts alone.
///
/// # Errors
/// When no host may be read, or the server does not answer.
pub async fn hosts(client: &Client, which: &Which<'_>) -> anyhow::Result<Lists> {
    let hosts: Vec<BareMetalHost> = alone(client, which, Part::Hosts).await?;
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
    let claims: Vec<HostClaim> = alone(client, which, Part::Claims).await?;
    Ok(Lists { claims, ..Lists::default() })
}

async fn alone<K>(client: &Client, which: &Which<'_>, part: Part) -> anyhow::Result<Vec<K>>
where
    K: View + Clone + DeserializeOwned + std::fmt::Debug,
{
    let reader = Reader { client, kinds: Kinds::new(client.clone()), namespace: which.namespace() };
    let mut unseen = Vec::new();
    let items = reader.list(part).await?.keep(&mut unseen);
    // Whoever asks for one namespace misses nothing by not seeing the others.
    match unseen.into_iter().find(|unseen| unseen.extent != Extent::Elsewhere) {
        Some(unseen) => Err(anyhow!("{}", unseen.why)),
        None => Ok(items),
    }
}
