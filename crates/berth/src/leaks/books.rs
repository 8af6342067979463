//! Whose a host is: what the journals of all machines and claims say, held against what EC2 shows.

use std::collections::BTreeSet;

use anyhow::{Context, anyhow};
use api::key::ObjectKey;
use api::names::Region;
use api::names::hosts::{ALLOCATION_ID_TAG, MACHINE_NAME_TAG, MANAGEMENT_CLUSTER_TAG, RETAINED_FROM_TAG, RETAINED_TAG};
use api::raw::{AWSMachine, HostClaim};
use api::views::{AWSCluster, Cluster};
use aws::port::Host;
use hosts::claim::{self, ClaimFacts};
use hosts::facts::MachineFacts;
use hosts::journal::{Journal, JournalError, Phase};
use hosts::sweeper::{Owners, YOUNGEST, cluster_of, orphans};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kit::explain::Extent;
use kube::{Api, Client};
use serde::Serialize;

use super::price::{Cost, hours};
use crate::look::{Read, Reader};
use crate::screen::age;

/// The namespace whose uid names a management cluster.
const SYSTEM: &str = "kube-system";
/// Owners whose journals cannot be read are named up to this many.
const NAMED: usize = 5;

/// What an owner is called that is a claim.
const CLAIM: &str = "claim";

/// Whose a host is; what needs attention comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Whose {
    /// Nobody's, and that is proven.
    Nobody,
    /// Nobody's as far as can be seen, but that is not proven.
    Doubtful,
    /// A machine's or a claim's, and nothing runs on it.
    Idle,
    /// A machine's or a claim's, which is giving it back.
    Leaving,
    /// A machine's or a claim's.
    Machine,
    /// Left behind on purpose.
    Retained,
    /// Another management cluster's.
    Elsewhere,
}

impl Whose {
    /// All of them, with the words they are counted under.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Nobody, "leaked"),
        (Self::Doubtful, "doubtful"),
        (Self::Idle, "empty"),
        (Self::Leaving, "being given back"),
        (Self::Machine, "in use"),
        (Self::Retained, "left behind on purpose"),
        (Self::Elsewhere, "of other management clusters"),
    ];
}

/// One host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its id.
    pub host: String,
    /// Its region.
    pub region: String,
    /// Its zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The type or family it takes.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its state.
    pub state: String,
    /// What runs on it.
    pub instances: Vec<String>,
    /// For how long it has been paid for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    /// The cluster it says it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The machine or claim it belongs to or was allocated for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Whose it is.
    pub whose: Whose,
    /// Why, in a sentence.
    pub note: String,
    /// What proves that it is nobody's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<String>,
    /// What it has cost, where its price was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl Row {
    /// The host in a line.
    pub fn title(&self) -> String {
        let place = self.zone.as_deref().unwrap_or(&self.region);
        let kind = self.kind.as_deref().map(|kind| format!(", {kind}")).unwrap_or_default();
        let paid = self.age_seconds.map(|seconds| format!(", paid for {} hours", hours(seconds))).unwrap_or_default();
        let cost = self.cost.as_ref().map(|cost| format!(", about {} USD", cost.usd)).unwrap_or_default();
        format!("{} in {place}{kind}, {}{paid}{cost}", self.host, self.state)
    }
}

/// One that may own hosts.
#[derive(Debug)]
struct Owner {
    /// As its hosts name it.
    name: String,
    /// In a word.
    word: &'static str,
    journal: Result<Journal, JournalError>,
}

/// What the machines and claims of this management cluster say.
#[derive(Debug, Default)]
pub struct Books {
    named: Vec<Owner>,
    /// How many machines and how many claims were looked at.
    looked_at: (usize, usize),
    owners: Owners,
    unreadable: Vec<String>,
    clusters: BTreeSet<String>,
    paused: BTreeSet<String>,
    management: String,
    /// The regions that clusters, machines and claims name.
    pub regions: BTreeSet<Region>,
    /// What could not be read and does not matter for whose a host is.
    pub unseen: Vec<String>,
}

impl Books {
    /// Reads everything that could own a host.
    ///
    /// # Errors
    /// When anything of it may not be read: what is not seen may own anything.
    pub async fn read(client: &Client) -> anyhow::Result<Self> {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let system = namespaces.get(SYSTEM).await.with_context(|| {
            format!("reading the namespace {SYSTEM}, whose uid hosts of this management cluster are tagged with")
        })?;
        let reader = Reader::sceptical(client);
        let machines = whole(reader.read::<AWSMachine>().await?)?;
        let claims = whole(reader.read::<HostClaim>().await?)?;
        let clusters = whole(reader.read::<Cluster>().await?)?;
        let networks: Read<AWSCluster> = reader.read().await?;
        let unseen = networks.unseen.filter(|(extent, _)| *extent != Extent::Absent).map(|(_, why)| why);
        let named = networks.items.iter().filter_map(|network| network.spec.region.as_deref()?.parse().ok());
        let mut books = Self::of(machines, claims, &clusters, &system.metadata.uid.unwrap_or_default());
        books.regions.extend(named);
        books.unseen.extend(unseen);
        Ok(books)
    }

    /// What these machines and claims say.
    pub fn of(machines: Vec<AWSMachine>, claims: Vec<HostClaim>, clusters: &[Cluster], management: &str) -> Self {
        let machines: Vec<(ObjectKey, MachineFacts)> =
            machines.into_iter().map(|machine| (ObjectKey::of(&machine), MachineFacts::of(machine))).collect();
        // Claims of other kinds own nothing that EC2 knows.
        let claims: Vec<(ObjectKey, ClaimFacts)> =
            claims.into_iter().filter_map(|claim| Some((ObjectKey::of(&claim), ClaimFacts::of(claim)?))).collect();
        let owners = Owners::of(machines.iter().map(|(_, facts)| facts));
        let owners = owners.with_claims(claims.iter().map(|(_, facts)| facts));
        let looked_at = (machines.len(), claims.len());
        let of_machine = |(key, facts): (ObjectKey, MachineFacts)| Owner {
            name: key.to_string(),
            word: "machine",
            journal: facts.journal,
        };
        let of_claim = |(key, facts): (ObjectKey, ClaimFacts)| Owner {
            name: claim::tagged(&key),
            word: CLAIM,
            journal: facts.journal,
        };
        let named: Vec<Owner> = machines.into_iter().map(of_machine).chain(claims.into_iter().map(of_claim)).collect();
        let unreadable = named.iter().filter(|owner| owner.journal.is_err()).map(|owner| owner.name.clone());
        let paused = clusters.iter().filter(|cluster| cluster.spec.paused);
        let scopes = named.iter().filter_map(|owner| owner.journal.as_ref().ok()?.scope.as_ref());
        Self {
            owners,
            looked_at,
            unreadable: unreadable.collect(),
            clusters: clusters.iter().map(|cluster| ObjectKey::of(cluster).name().to_owned()).collect(),
            paused: paused.map(|cluster| ObjectKey::of(cluster).name().to_owned()).collect(),
            management: management.to_owned(),
            regions: scopes.map(|scope| scope.region.clone()).collect(),
            unseen: Vec::new(),
            named,
        }
    }

    /// The machine or claim whose journal names a host, and in which phase. Claims can share a host, and a tenant can write what
    /// it likes: of several it is the one that the tags of the host name.
    fn owner(&self, host: &Host) -> Option<(&Owner, Option<Phase>)> {
        let (tag, name) = (host.tags.get(ALLOCATION_ID_TAG), host.tags.get(MACHINE_NAME_TAG));
        let all = self.named.iter().filter_map(|owner| {
            let journal = owner.journal.as_ref().ok()?;
            let allocation = journal.allocation.as_ref();
            let by_host = allocation.is_some_and(|allocation| allocation.hosts.contains(&host.id));
            let by_tag = allocation.is_some_and(|allocation| tag.is_some_and(|tag| tag == allocation.id.as_str()));
            let by_launch = journal.launch.as_ref().is_some_and(|launch| launch.host.as_ref() == Some(&host.id));
            (by_host || by_tag || by_launch).then(|| (owner, allocation.map(|allocation| allocation.phase)))
        });
        all.min_by_key(|(owner, _)| name != Some(&owner.name))
    }

    /// A row for each host.
    pub fn rows(&self, region: &str, hosts: &[Host], now: Timestamp) -> Vec<Row> {
        let nobodys: BTreeSet<_> =
            orphans(hosts, &self.owners, &self.management, now).into_iter().map(|host| host.id.clone()).collect();
        hosts.iter().map(|host| self.row(region, host, nobodys.contains(&host.id), now)).collect()
    }

    fn row(&self, region: &str, host: &Host, orphan: bool, now: Timestamp) -> Row {
        let owner = self.owner(host);
        let (whose, note) = self.judge(host, owner, orphan);
        let from = || host.tags.get(RETAINED_FROM_TAG).or_else(|| host.tags.get(MACHINE_NAME_TAG)).cloned();
        let age_seconds = host.allocated.map(|at| now.as_second().saturating_sub(at.as_second()).max(0));
        Row {
            host: host.id.to_string(),
            region: region.to_owned(),
            zone: host.zone.as_ref().map(ToString::to_string),
            kind: host.instance_type.clone().or_else(|| host.instance_family.clone()),
            state: host.state.to_string(),
            instances: host.instances.iter().map(|instance| instance.id.to_string()).collect(),
            age_seconds,
            cluster: cluster_of(host).map(str::to_owned),
            machine: owner.map(|(owner, _)| owner.name.clone()).or_else(from),
            proof: if whose == Whose::Nobody { self.proof(host, age_seconds) } else { Vec::new() },
            whose,
            note,
            cost: None,
        }
    }

    fn judge(&self, host: &Host, owner: Option<(&Owner, Option<Phase>)>, orphan: bool) -> (Whose, String) {
        let tag = |key: &str| host.tags.get(key).map(String::as_str);
        if tag(RETAINED_TAG) == Some("true") {
            return (Whose::Retained, "left behind, because autoRelease was false".to_owned());
        }
        match tag(MANAGEMENT_CLUSTER_TAG) {
            // Of a cluster that is kept here, and no machine here names it: it may have been lost on the way here.
            Some(other)
                if other != self.management
                    && owner.is_none()
                    && cluster_of(host).is_some_and(|c| self.clusters.contains(c)) =>
            {
                let note = format!(
                    "nobody here names it, and it names the management cluster {other}, but its cluster is kept here"
                );
                return (Whose::Doubtful, note);
            }
            Some(other) if other != self.management => {
                return (Whose::Elsewhere, format!("kept from the management cluster {other}"));
            }
            _ => {}
        }
        if let Some((owner, phase)) = owner {
            let word = owner.word;
            // A tenant may write whatever it likes on its claim; the tags are ours.
            let other = tag(MACHINE_NAME_TAG).filter(|tag| word == CLAIM && *tag != owner.name);
            if let Some(other) = other {
                let note = format!("the journal of {} names it, but by its tags it is that of {other}", owner.name);
                return (Whose::Doubtful, note);
            }
            let words = phase.map_or("launch", Phase::as_str);
            return match phase {
                Some(Phase::Releasing) => (Whose::Leaving, format!("its {word} is giving it back")),
                Some(Phase::Released | Phase::Retained | Phase::Abandoned) => {
                    (Whose::Doubtful, format!("the journal of its {word} says {words}, and it is still paid for"))
                }
                _ if host.instances.is_empty() => (Whose::Idle, "nothing runs on it".to_owned()),
                _ => (Whose::Machine, "in use".to_owned()),
            };
        }
        if orphan {
            // What the room itself would hold against a release.
            if !self.unreadable.is_empty() {
                let named: Vec<&str> = self.unreadable.iter().take(NAMED).map(String::as_str).collect();
                let note = format!("no machine names it, but the journal of {} cannot be read", named.join(", "));
                return (Whose::Doubtful, note);
            }
            if let Some(cluster) = cluster_of(host).filter(|cluster| self.paused.contains(*cluster)) {
                let note = format!("no machine names it, but Cluster {cluster} is paused and may be being moved");
                return (Whose::Doubtful, note);
            }
            if let Some(reservation) = &host.reservation {
                let note = format!("no machine names it, but it is covered by {reservation} and cannot be released");
                return (Whose::Doubtful, note);
            }
            return (Whose::Nobody, "it is paid for and belongs to no machine".to_owned());
        }
        if !host.instances.is_empty() {
            return (Whose::Doubtful, "no machine names it, but something runs on it".to_owned());
        }
        if tag(MANAGEMENT_CLUSTER_TAG).is_none() {
            return (Whose::Doubtful, format!("no machine names it, but it lacks the tag {MANAGEMENT_CLUSTER_TAG}"));
        }
        let minutes = YOUNGEST.as_secs() / 60;
        (Whose::Doubtful, format!("no machine names it, but it is younger than {minutes} minutes"))
    }

    fn proof(&self, host: &Host, age_seconds: Option<i64>) -> Vec<String> {
        let id = host.tags.get(ALLOCATION_ID_TAG).map(String::as_str).unwrap_or_default();
        let (machines, claims) = self.looked_at;
        vec![
            format!("its tag {MANAGEMENT_CLUSTER_TAG} is this management cluster's: {}", self.management),
            format!(
                "none of the {machines} AWSMachines and {claims} claims of all namespaces names it or its allocation {id}"
            ),
            "EC2 shows no instance on it".to_owned(),
            format!(
                "it was allocated {} ago, longer than the {} minutes after which a machine must show it",
                age_seconds.map_or_else(|| "?".to_owned(), age),
                YOUNGEST.as_secs() / 60
            ),
        ]
    }
}

/// All objects of a kind, or why they were not read. A kind that the server does not know has none.
fn whole<K>(read: Read<K>) -> anyhow::Result<Vec<K>> {
    match read.unseen {
        Some((Extent::Absent, _)) | None => Ok(read.items),
        Some((_, why)) => Err(anyhow!("whose a host is cannot be told: {why}")),
    }
}
