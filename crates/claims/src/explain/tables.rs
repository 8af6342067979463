//! Hosts and claims in rows, with counts.

use api::key::ObjectKey;
use api::reasons::READY;
use jiff::Timestamp;
use serde::Serialize;

use super::Sight;
use crate::facts::{ClaimFacts, HostFacts};
use crate::status::{ASSOCIATED, PROVISIONED, SYNCHRONIZED};
use crate::yard::{Unfit, ailment};

/// Labels under these domains say nothing about a host that its owner wrote to tell hosts apart.
const RESERVED: [&str; 4] = ["metal3.io", "kubernetes.io", "k8s.io", "x-k8s.io"];

/// Hosts, one row each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostTable {
    /// How many there are of each sort.
    pub counts: HostCounts,
    /// The rows, ordered by namespace and name.
    pub items: Vec<HostRow>,
}

/// How many hosts there are of each sort; each host counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostCounts {
    /// Nobody uses them and anybody could.
    pub free: usize,
    /// Somebody uses them, or they are kept for somebody.
    pub used: usize,
    /// They report an error or are marked as unhealthy, whether used or not.
    pub failed: usize,
    /// Nobody uses them and nobody could now: new, being cleaned, paused.
    pub unavailable: usize,
}

/// What a host is to somebody who wants one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HostSort {
    /// Nobody uses it and anybody could.
    Free,
    /// Somebody uses it, or it is kept for somebody.
    Used,
    /// It reports an error or is marked as unhealthy, whether used or not.
    Failed,
    /// Nobody uses it and nobody could now.
    Unavailable,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostRow {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The provisioning state; empty before anybody looked at the host.
    pub state: String,
    /// Under which of the counts it is.
    pub sort: HostSort,
    /// Who uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// Whether it is switched on; unknown before it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub powered_on: Option<bool>,
    /// The class of its error, or what else keeps it from everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What its owner tells hosts apart by.
    pub labels: Vec<String>,
}

/// Claims, one row each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimTable {
    /// How many there are of each sort.
    pub counts: ClaimCounts,
    /// The rows, ordered by namespace and name.
    pub items: Vec<ClaimRow>,
}

/// How many claims there are of each sort; each claim counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClaimCounts {
    /// They have what they ask for.
    pub ready: usize,
    /// They have a host, but not all they ask for.
    pub bound: usize,
    /// They have no host.
    pub waiting: usize,
    /// They are being deleted.
    pub leaving: usize,
}

/// One claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRow {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The kind of compute.
    pub kind: String,
    /// Its host, or what it has instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The status of its condition `Ready`; empty before anybody looked at the claim.
    pub ready: String,
    /// The reason of the first condition that does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was made.
    pub created: String,
    /// For how many seconds it has been there.
    pub age_seconds: i64,
}

/// The hosts that were read, those of a namespace or all.
#[must_use]
pub fn host_table(sight: &Sight, namespace: Option<&str>) -> HostTable {
    let mut counts = HostCounts::default();
    let chosen = sight.hosts.iter().filter(|(key, _)| namespace.is_none_or(|only| key.namespace() == Some(only)));
    let items = chosen.map(|(key, host)| host_row(key, host, &mut counts)).collect();
    HostTable { counts, items }
}

fn host_row(key: &ObjectKey, host: &HostFacts, counts: &mut HostCounts) -> HostRow {
    let ailment = ailment(host);
    let unhealthy = ailment == Some(Unfit::Unhealthy);
    let broken = host.error.is_some() || &*host.operational == "error" || unhealthy;
    let (sort, count) = match (broken, host.consumer.is_some(), ailment) {
        (true, ..) => (HostSort::Failed, &mut counts.failed),
        (_, true, _) => (HostSort::Used, &mut counts.used),
        (_, _, None) => (HostSort::Free, &mut counts.free),
        _ => (HostSort::Unavailable, &mut counts.unavailable),
    };
    *count += 1;
    // A state that is in the way shows in its own column.
    let aside = ailment.filter(|unfit| {
        !matches!(unfit, Unfit::NotAvailable | Unfit::NotClean | Unfit::HostError) || host.consumer.is_none()
    });
    let aside = aside.filter(|unfit| *unfit != Unfit::NotAvailable).map(Unfit::words).map(str::to_owned);
    let consumer = host.consumer.as_ref().map(|consumer| {
        let place = if consumer.namespace.is_empty() { String::new() } else { format!("{}/", consumer.namespace) };
        match &*consumer.kind {
            "HostClaim" => format!("{place}{}", consumer.name),
            kind => format!("{kind} {place}{}", consumer.name),
        }
    });
    let reserved = |key: &str| {
        let domain = key.split_once('/').map(|(domain, _)| domain).unwrap_or_default();
        RESERVED.iter().any(|reserved| domain == *reserved || domain.ends_with(&format!(".{reserved}")))
    };
    let labels = host.labels.iter().filter(|(key, _)| !reserved(key)).map(|(key, value)| format!("{key}={value}"));
    HostRow {
        namespace: key.namespace().unwrap_or_default().to_owned(),
        name: key.name().to_owned(),
        state: host.state.to_string(),
        sort,
        consumer,
        powered_on: host.powered_on,
        error: host.error.as_deref().map(str::to_owned).or(aside),
        labels: labels.collect(),
    }
}

/// The claims that were read, those of a namespace or all.
#[must_use]
pub fn claim_table(sight: &Sight, namespace: Option<&str>, now: Timestamp) -> ClaimTable {
    let mut counts = ClaimCounts::default();
    let chosen = sight.claims.iter().filter(|(key, _)| namespace.is_none_or(|only| key.namespace() == Some(only)));
    let items = chosen.map(|(key, claim)| claim_row(key, claim, now, &mut counts)).collect();
    ClaimTable { counts, items }
}

fn claim_row(key: &ObjectKey, claim: &ClaimFacts, now: Timestamp, counts: &mut ClaimCounts) -> ClaimRow {
    let status = &claim.status;
    let condition = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
    let ready = condition(READY).map(|condition| condition.status.clone()).unwrap_or_default();
    let asks = claim.spec.image.is_some() || claim.spec.custom_deploy.is_some();
    let wanted = [Some(ASSOCIATED), Some(SYNCHRONIZED), asks.then_some(PROVISIONED), Some(READY)];
    let failing = wanted.into_iter().flatten().filter_map(condition).find(|condition| condition.status != "True");
    let count = match (claim.deleting, ready.as_str(), status.is_bound()) {
        (true, ..) => &mut counts.leaving,
        (_, "True", _) => &mut counts.ready,
        (_, _, true) => &mut counts.bound,
        _ => &mut counts.waiting,
    };
    *count += 1;
    let host = status.bare_metal_host.as_ref().map(|host| host.key().to_string());
    ClaimRow {
        namespace: key.namespace().unwrap_or_default().to_owned(),
        name: key.name().to_owned(),
        kind: claim.spec.kind.clone(),
        host: host.or_else(|| status.resource_id.clone()),
        ready,
        reason: failing.map(|condition| condition.reason.clone()),
        created: claim.created.to_string(),
        age_seconds: now.duration_since(claim.created).as_secs().max(0),
    }
}
