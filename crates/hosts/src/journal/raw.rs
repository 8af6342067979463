//! The journal as text: compact JSON, fields this version does not know left alone by leaving them out.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use api::names::HostId;
use aws::port::{HostShape, Switch};
use serde::{Deserialize, Serialize};

use super::{Allocation, Cause, Journal, JournalError, Launch, MOST_HOSTS, Phase, Scope, Terms, VERSION};
use api::names::hosts::{ALLOCATION_ANNOTATION as ALLOCATION, LAUNCH_ANNOTATION as LAUNCH, SCOPE_ANNOTATION as SCOPE};

/// More hosts than an allocation of the largest quantity and all its replacements could ever have.
const MOST_KNOWN: usize = 128;

#[derive(Serialize, Deserialize)]
struct RawAllocation {
    v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    id: String,
    epoch: u32,
    token: String,
    az: String,
    subnet: String,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    type_: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    family: Option<String>,
    qty: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovery: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maintenance: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
    phase: String,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    past: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    adopted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    at: String,
}

#[derive(Serialize, Deserialize)]
struct RawLaunch {
    v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    token: String,
    epoch: u32,
    subnet: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    at: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawScope {
    region: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity_ref: Option<RawIdentity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct RawIdentity {
    kind: String,
    name: String,
}

fn field<T: FromStr<Err: ToString>>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| format!("{name}: {}", error.to_string()))
}

fn switch(name: &str, text: Option<String>) -> Result<Option<Switch>, String> {
    match text.as_deref() {
        None => Ok(None),
        Some("on") => Ok(Some(Switch::On)),
        Some("off") => Ok(Some(Switch::Off)),
        Some(other) => Err(format!("{name}: {other:?} is neither on nor off")),
    }
}

fn phase(text: &str) -> Result<Phase, String> {
    use Phase::{Abandoned, Allocated, Claimed, Intended, Released, Releasing, Retained};
    let all = [Intended, Allocated, Claimed, Releasing, Released, Retained, Abandoned];
    let known = all.into_iter().find(|phase| phase.as_str() == text);
    known.ok_or_else(|| format!("phase: {text:?} is unknown"))
}

fn cause(text: &str) -> Result<Cause, String> {
    let all = [Cause::Deleted, Cause::Idle, Cause::Refused, Cause::Failed];
    all.into_iter().find(|cause| cause.as_str() == text).ok_or_else(|| format!("cause: {text:?} is unknown"))
}

fn version(v: u32) -> Result<(), String> {
    if v == VERSION { Ok(()) } else { Err(format!("v: {v} was written by another version; this one reads {VERSION}")) }
}

/// A journal speaks of one machine; on another one it is a copy, and what it names is not that machine's. Journals of
/// earlier versions do not say whose they are.
fn owner(of: Option<&str>, machine: &str) -> Result<(), String> {
    match of {
        Some(of) if of != machine => Err(format!("of: it is the journal of {of}, and this is {machine}")),
        _ => Ok(()),
    }
}

fn hosts(name: &str, texts: &[String]) -> Result<Vec<HostId>, String> {
    if texts.len() > MOST_KNOWN {
        return Err(format!("{name}: more than {MOST_KNOWN}"));
    }
    let ids: Vec<HostId> = texts.iter().map(|text| field(name, text)).collect::<Result<_, _>>()?;
    let distinct: BTreeSet<&HostId> = ids.iter().collect();
    if distinct.len() == ids.len() { Ok(ids) } else { Err(format!("{name}: a host is named twice")) }
}

fn allocation(text: &str, machine: &str) -> Result<Allocation, String> {
    let raw: RawAllocation = serde_json::from_str(text).map_err(|error| error.to_string())?;
    version(raw.v)?;
    owner(raw.of.as_deref(), machine)?;
    let id: super::AllocationId = field("id", &raw.id)?;
    if raw.epoch == 0 {
        return Err("epoch: counts from 1".to_owned());
    }
    let token = field("token", &raw.token)?;
    if id.host_token(raw.epoch).as_ref() != Ok(&token) {
        return Err(format!("token: {token} is not the token of id {id} and epoch {}", raw.epoch));
    }
    let shape = match (raw.type_, raw.family) {
        (Some(type_), None) => HostShape::Type(field("type", &type_)?),
        (None, Some(family)) => HostShape::Family(field("family", &family)?),
        (Some(_), Some(_)) => return Err("type and family exclude each other".to_owned()),
        (None, None) => return Err("type or family is missing".to_owned()),
    };
    if raw.qty == 0 || raw.qty > MOST_HOSTS {
        return Err(format!("qty: must be 1 to {MOST_HOSTS}"));
    }
    let known = hosts("hosts", &raw.hosts)?;
    let past = hosts("past", &raw.past)?;
    if known.iter().any(|host| past.contains(host)) {
        return Err("a host is both in hosts and in past".to_owned());
    }
    let phase = phase(&raw.phase)?;
    if phase == Phase::Intended && !known.is_empty() {
        return Err("hosts: an intent has none".to_owned());
    }
    if phase == Phase::Claimed && (known.len() != 1 || !raw.adopted) {
        return Err("hosts: a place is on one host, which was there before".to_owned());
    }
    Ok(Allocation {
        id,
        epoch: raw.epoch,
        token,
        terms: Terms {
            zone: field("az", &raw.az)?,
            subnet: field("subnet", &raw.subnet)?,
            shape,
            quantity: raw.qty,
            recovery: switch("recovery", raw.recovery)?,
            maintenance: switch("maintenance", raw.maintenance)?,
            tags: raw.tags,
        },
        phase,
        hosts: known,
        past,
        adopted: raw.adopted,
        from: raw.from.as_deref().map(|from| field("from", from)).transpose()?,
        cause: raw.cause.as_deref().map(cause).transpose()?,
        at: field("at", &raw.at)?,
    })
}

fn launch(text: &str, machine: &str, allocation: Option<&Allocation>) -> Result<Launch, String> {
    let raw: RawLaunch = serde_json::from_str(text).map_err(|error| error.to_string())?;
    version(raw.v)?;
    owner(raw.of.as_deref(), machine)?;
    if raw.epoch == 0 {
        return Err("epoch: counts from 1".to_owned());
    }
    let id = match (raw.id, allocation) {
        (Some(id), _) => field("id", &id)?,
        (None, Some(allocation)) => allocation.id.clone(),
        (None, None) => return Err("id is missing".to_owned()),
    };
    let token = field("token", &raw.token)?;
    if id.launch_token(raw.epoch).as_ref() != Ok(&token) {
        return Err(format!("token: {token} is not the token of id {id} and epoch {}", raw.epoch));
    }
    Ok(Launch {
        id,
        epoch: raw.epoch,
        token,
        subnet: field("subnet", &raw.subnet)?,
        host: raw.host.as_deref().map(|host| field("host", host)).transpose()?,
        refused: raw.refused,
        at: field("at", &raw.at)?,
    })
}

fn scope(text: &str, allocation: Option<&Allocation>) -> Result<Scope, String> {
    let raw: RawScope = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let scope = Scope {
        region: field("region", &raw.region)?,
        identity: raw.identity_ref.map(|identity| (identity.kind, identity.name)),
        account: raw.account.as_deref().map(|account| field("account", account)).transpose()?,
    };
    // In another region than theirs hosts are unknown, which must not read as given back.
    match allocation.map(|allocation| &allocation.terms.zone).filter(|zone| *zone.region() != scope.region) {
        Some(zone) => Err(format!("region: {} does not hold the zone {zone} of the hosts", scope.region)),
        None => Ok(scope),
    }
}

impl Journal {
    /// Reads the journal of a machine, given as namespace/name, from its annotations.
    ///
    /// # Errors
    /// The annotation that makes no sense, and why.
    pub fn read<'a>(machine: &str, annotation: impl Fn(&str) -> Option<&'a str>) -> Result<Self, JournalError> {
        let wrong = |annotation| move |detail| JournalError { annotation, detail };
        let allocated =
            annotation(ALLOCATION).map(|text| allocation(text, machine)).transpose().map_err(wrong(ALLOCATION))?;
        let launched = annotation(LAUNCH).map(|text| launch(text, machine, allocated.as_ref()));
        let scoped = annotation(SCOPE).map(|text| scope(text, allocated.as_ref()));
        Ok(Self {
            launch: launched.transpose().map_err(wrong(LAUNCH))?,
            scope: scoped.transpose().map_err(wrong(SCOPE))?,
            allocation: allocated,
        })
    }
}

fn text(raw: &impl Serialize) -> String {
    serde_json::to_string(raw).unwrap_or_default()
}

fn names(hosts: &[HostId]) -> Vec<String> {
    hosts.iter().map(ToString::to_string).collect()
}

impl Allocation {
    /// The text of the annotation on a machine, given as namespace/name.
    #[must_use]
    pub fn text(&self, machine: &str) -> String {
        let (type_, family) = match &self.terms.shape {
            HostShape::Type(type_) => (Some(type_.to_string()), None),
            HostShape::Family(family) => (None, Some(family.to_string())),
        };
        text(&RawAllocation {
            v: VERSION,
            of: Some(machine.to_owned()),
            id: self.id.to_string(),
            epoch: self.epoch,
            token: self.token.to_string(),
            az: self.terms.zone.to_string(),
            subnet: self.terms.subnet.to_string(),
            type_,
            family,
            qty: self.terms.quantity,
            recovery: self.terms.recovery.map(|switch| switch.as_str().to_owned()),
            maintenance: self.terms.maintenance.map(|switch| switch.as_str().to_owned()),
            tags: self.terms.tags.clone(),
            phase: self.phase.as_str().to_owned(),
            hosts: names(&self.hosts),
            past: names(&self.past),
            adopted: self.adopted,
            from: self.from.as_ref().map(ToString::to_string),
            cause: self.cause.map(|cause| cause.as_str().to_owned()),
            at: self.at.to_string(),
        })
    }
}

impl Launch {
    /// The text of the annotation on a machine, given as namespace/name.
    #[must_use]
    pub fn text(&self, machine: &str) -> String {
        text(&RawLaunch {
            v: VERSION,
            of: Some(machine.to_owned()),
            id: Some(self.id.to_string()),
            token: self.token.to_string(),
            epoch: self.epoch,
            subnet: self.subnet.to_string(),
            host: self.host.as_ref().map(ToString::to_string),
            refused: self.refused.clone(),
            at: self.at.to_string(),
        })
    }
}

impl Scope {
    /// The text of the annotation.
    #[must_use]
    pub fn text(&self) -> String {
        let identity = self.identity.clone().map(|(kind, name)| RawIdentity { kind, name });
        let account = self.account.as_ref().map(ToString::to_string);
        text(&RawScope { region: self.region.to_string(), identity_ref: identity, account })
    }
}
