//! `berth leaks --cloudstack`: virtual machines that were made for claims, and whose claim is gone.
//!
//! What a machine says of itself is held against all claims of the API server, which are listed before and after CloudStack
//! is asked: a machine that is made meanwhile has its claim in the second list, and one that goes with its claim had it in
//! the first. Nothing is removed here: nothing on a machine tells which management cluster made it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::cloudstack::cloud::Clouds;
use ::cloudstack::net::Allowed;
use ::cloudstack::port::{CloudStack as _, MachineQuery, VirtualMachine};
use ::cloudstack::profile::Profile;
use ::clusters::vm::observe::is_ours;
use ::clusters::vm::{KIND, TAG, claim_of_name, machine_name};
use anyhow::anyhow;
use api::key::ObjectKey;
use api::names::SYSTEM_NAMESPACE;
use api::raw::{CloudStackDatacenterConfig, HostClaim};
use claim_kind::claim::ClaimFacts;
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use kit::clock::Clock;
use kit::explain::{Extent, Level};
use kube::Client;
use serde::Serialize;

use super::{LeaksOptions, Whose, unseen_screen};
use crate::Usage;
use crate::doctor::cloudstack::{self as keys, Read as Found};
use crate::doctor::operator::Operator;
use crate::explain::{connect, print};
use crate::look::{Read, Reader};
use crate::screen::{self, Screen, age};

/// How long CloudStack may take to write out a page of machines: many are more work than the doctor's question.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where CloudStack is asked, and with which keys.
#[derive(Args, Clone, Debug)]
pub struct CloudStackOptions {
    /// Look for virtual machines on CloudStack instead of dedicated hosts, with all keys that claims of the kind cloudstack-vm
    /// and datacenters name. They are only listed
    #[arg(long, conflicts_with_all = ["region", "aws_endpoint", "price", "release"])]
    pub cloudstack: bool,
    /// A Secret with more keys to ask with, such as those of a claim that is gone; repeatable
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = secret, requires = "cloudstack")]
    pub identity: Vec<ObjectKey>,
    /// A CloudStack at an address that is never called otherwise, as http://127.0.0.1:PORT; repeatable
    #[arg(long, value_name = "URL", value_parser = crate::clusters::allowed, requires = "cloudstack")]
    pub cloudstack_endpoint_allow: Vec<Allowed>,
    /// Namespace Berth runs in (default: berth-system)
    #[arg(short, long, value_name = "NAME", requires = "cloudstack")]
    pub namespace: Option<String>,
    /// Namespace of the clusters that Berth generates (default: the one that Berth's Deployment names, or eksa-system)
    #[arg(long, value_name = "NAME", requires = "cloudstack")]
    pub system_namespace: Option<String>,
}

/// Reads `--identity`.
fn secret(text: &str) -> Result<ObjectKey, String> {
    let form = || format!("`{text}` is no Secret such as team-a/cloudstack");
    let key: ObjectKey = text.parse().map_err(|_| form())?;
    if key.namespace().is_some() { Ok(key) } else { Err(form()) }
}

/// One virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The host and port of its CloudStack.
    pub cloud: String,
    /// The name of its zone, or its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The path of its account's domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Its account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Its state.
    pub state: String,
    /// How long ago it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    /// The uid of the claim that it says it was made for.
    pub claim_uid: String,
    /// The Secrets with whose keys it is shown.
    pub identities: Vec<String>,
    /// Whose it is.
    pub whose: Whose,
    /// Why, in a sentence.
    pub note: String,
    /// What proves that its claim is gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<String>,
}

impl Row {
    /// The machine in a line.
    fn title(&self) -> String {
        let zone = self.zone.as_ref().map(|zone| format!("in {zone} ")).unwrap_or_default();
        let account = self.account.as_ref().map(|account| format!(", account {account}")).unwrap_or_default();
        let domain = self.domain.as_ref().map(|domain| format!(", domain {domain}")).unwrap_or_default();
        let made = self.age_seconds.map(|seconds| format!(", made {} ago", age(seconds))).unwrap_or_default();
        format!("{} ({}) {zone}at {}{account}{domain}, {}{made}", self.name, self.id, self.cloud, self.state)
    }
}

/// The machines without a claim.
#[derive(Serialize)]
struct Rows<'a> {
    items: &'a [Row],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    unseen: &'a [String],
}

/// Everything that was seen.
struct Seen {
    rows: Vec<Row>,
    unseen: Vec<String>,
}

/// A machine that may be a claim's, and the Secrets with whose keys it is shown.
struct Shown {
    cloud: String,
    machine: VirtualMachine,
    identities: BTreeSet<String>,
}

/// All claims of the kind at one moment.
struct Claims {
    all: Vec<(ObjectKey, ClaimFacts)>,
    /// Why there can be none.
    absent: Option<String>,
}

impl Claims {
    /// Asks the server for them.
    ///
    /// # Errors
    /// When not all may be read: one that is not seen may own any machine.
    async fn read(client: &Client) -> anyhow::Result<Self> {
        let reader = Reader::sceptical(client);
        let read: Read<HostClaim> = reader.read().await?;
        let absent = match read.unseen {
            None => None,
            Some((Extent::Absent, why)) => Some(why),
            Some((_, why)) => return Err(anyhow!("whose a virtual machine is cannot be told: {why}")),
        };
        let claims = read.items.into_iter().map(|claim| (ObjectKey::of(&claim), ClaimFacts::of(claim)));
        Ok(Self { all: claims.filter(|(_, facts)| facts.spec.kind == KIND).collect(), absent })
    }
}

/// Who may own machines.
struct Owners {
    /// The claims of the kind, by their uids.
    claims: BTreeMap<Box<str>, ObjectKey>,
    /// Whether the server knows the kind of claims at all.
    served: bool,
}

impl Owners {
    /// Those of two lists, of which one was read before the machines and one after them.
    fn of(before: &Claims, after: &Claims) -> Self {
        let all = before.all.iter().chain(&after.all);
        Self {
            claims: all.map(|(key, facts)| (facts.uid.clone(), key.clone())).collect(),
            served: before.absent.is_none() || after.absent.is_none(),
        }
    }

    /// The row of a machine; none when it is a claim's, nobody's of ours, or on its way out anyway.
    fn row(&self, shown: &Shown, now: Timestamp) -> Option<Row> {
        let machine = &shown.machine;
        let uid = marked(machine).filter(|_| !machine.state.is_going())?;
        let name = machine_name(uid);
        let tagged = machine.tags.contains_key(TAG);
        let (whose, note) = match self.claims.get(uid) {
            Some(_) if is_ours(machine, &name, uid) => return None,
            Some(owner) => {
                let note =
                    format!("it has the tag of the claim {owner}, which looks for its machine by the name {name}");
                (Whose::Doubtful, note)
            }
            None if !tagged => {
                let note = format!(
                    "it has a name as Berth gives it and no claim here has that uid, but the tag {TAG} is missing"
                );
                (Whose::Doubtful, note)
            }
            None if machine.name != name => {
                let note = format!("no claim here has the uid of its tag {TAG}, but Berth would have named it {name}");
                (Whose::Doubtful, note)
            }
            None if !self.served => {
                let note = "no claim here has its uid, but this server knows no HostClaims at all".to_owned();
                (Whose::Doubtful, note)
            }
            None => (Whose::Nobody, "the claim that it was made for is not here".to_owned()),
        };
        let identities: Vec<String> = shown.identities.iter().cloned().collect();
        Some(Row {
            id: machine.id.to_string(),
            name: machine.name.clone(),
            cloud: shown.cloud.clone(),
            zone: machine.zone_name.clone().or_else(|| machine.zone.as_ref().map(ToString::to_string)),
            domain: machine.domain.clone(),
            account: machine.account.clone(),
            state: machine.state.to_string(),
            age_seconds: machine.created.map(|at| now.as_second().saturating_sub(at.as_second()).max(0)),
            claim_uid: uid.to_owned(),
            proof: if whose == Whose::Nobody { self.proof(uid, &identities) } else { Vec::new() },
            identities,
            whose,
            note,
        })
    }

    fn proof(&self, uid: &str, identities: &[String]) -> Vec<String> {
        vec![
            format!("its name and its tag {TAG} are those of the claim with the uid {uid}"),
            format!(
                "none of the {} claims of the kind {KIND} of all namespaces has that uid, before and after CloudStack was asked",
                self.claims.len()
            ),
            format!("CloudStack shows it with the keys of Secret {}", identities.join(", ")),
        ]
    }

    /// The rows of all machines, what is certain first.
    fn rows<'s>(&self, all: impl IntoIterator<Item = &'s Shown>, now: Timestamp) -> Vec<Row> {
        let mut rows: Vec<Row> = all.into_iter().filter_map(|shown| self.row(shown, now)).collect();
        rows.sort_by(|a, b| (a.whose, &a.cloud, &a.name, &a.id).cmp(&(b.whose, &b.cloud, &b.name, &b.id)));
        rows
    }
}

/// The uid of the claim that a machine says it was made for, by its tag, or by its name where the tag was never set. Machines
/// that say nothing of the kind are somebody else's.
fn marked(machine: &VirtualMachine) -> Option<&str> {
    machine.tags.get(TAG).map(String::as_str).or_else(|| claim_of_name(&machine.name))
}

/// Lists machines whose claim is gone.
pub async fn leaks(options: &LeaksOptions) -> anyhow::Result<()> {
    let client = connect(&options.cluster).await?;
    let own = &options.cloudstack;
    let mut operator = Operator::find(&client, own.namespace.as_deref().unwrap_or(SYSTEM_NAMESPACE)).await;
    if let Some(system) = &own.system_namespace {
        operator.flags.clusters.system_namespace.clone_from(system);
    }
    let reach = keys::reach_within(&operator, &own.cloudstack_endpoint_allow, PATIENCE);
    let seen = Box::pin(look(&client, &operator, &own.identity, &reach, &Clock::system())).await?;
    let document = Rows { items: &seen.rows, unseen: &seen.unseen };
    print(options.output.output, "VirtualMachineLeakList", &document, |screen| {
        machines_screen(screen, &seen.rows) + &unseen_screen(screen, &seen.unseen)
    })
}

/// Reads the claims, then the machines with all keys that are named, then the claims once more.
async fn look(
    client: &Client,
    operator: &Operator,
    identities: &[ObjectKey],
    reach: &impl Clouds,
    clock: &Clock,
) -> anyhow::Result<Seen> {
    let before = Claims::read(client).await?;
    let reader = Reader::sceptical(client);
    let datacenters: Read<CloudStackDatacenterConfig> = reader.read().await?;
    let mut unseen: Vec<String> = operator.guessed.iter().map(|why| format!("flags of the operator: {why}")).collect();
    unseen.extend(before.absent.clone());
    unseen.extend(datacenters.unseen.filter(|(extent, _)| *extent != Extent::Absent).map(|(_, why)| why));
    for (key, facts) in &before.all {
        unseen.extend(facts.problem.as_ref().map(|why| format!("the keys of the claim {key}: {why}")));
    }
    let specs = before.all.iter().map(|(key, facts)| (key, &facts.spec));
    let mut named = keys::named(operator, &datacenters.items, specs);
    named.extend(identities.iter().cloned());
    if named.is_empty() {
        let why = format!("no claim of the kind {KIND} and no datacenter names keys of CloudStack: give --identity");
        return Err(Usage(why).into());
    }
    let (doors, broken) = doors(keys::fetch(client, named, reach.policy()).await);
    unseen.extend(broken);
    let Some(machines) = machines(doors, reach, &mut unseen).await else {
        return Err(anyhow!("no CloudStack could be looked into: {}", unseen.join("; ")));
    };
    let after = Claims::read(client).await?;
    Ok(Seen { rows: Owners::of(&before, &after).rows(machines.values(), clock.now()), unseen })
}

/// Keys with the Secrets that hold them.
type Doors = Vec<(Box<Profile>, Vec<String>)>;

/// The ways that Secrets open, the same keys once, and which Secrets open none and why.
fn doors(all: BTreeMap<ObjectKey, Found>) -> (Doors, Vec<String>) {
    let (mut doors, mut broken) = (Doors::new(), Vec::new());
    for (key, found) in all {
        match found {
            Found::Whole(profile) => match doors.iter_mut().find(|(known, _)| *known == profile) {
                Some((_, names)) => names.push(key.to_string()),
                None => doors.push((profile, vec![key.to_string()])),
            },
            Found::Broken(why) | Found::Barred(why) | Found::Hidden(why) => {
                broken.push(format!("machines with the keys of Secret {key}: {why}"));
            }
        }
    }
    (doors, broken)
}

/// The marked machines behind all doors, each once; none when nobody answered.
async fn machines(
    doors: Doors,
    reach: &impl Clouds,
    unseen: &mut Vec<String>,
) -> Option<BTreeMap<(String, String), Shown>> {
    let (mut machines, mut answered) = (BTreeMap::new(), false);
    for (profile, names) in doors {
        let answer = match reach.open(&profile) {
            Ok(acs) => acs.list_virtual_machines(&MachineQuery::default()).await.map_err(|error| error.words()),
            Err(why) => Err(why),
        };
        let cloud = profile.host();
        let found = match answer {
            Ok(found) => found,
            Err(why) => {
                unseen.push(format!("machines at {cloud} with the keys of Secret {}: {why}", names.join(", ")));
                continue;
            }
        };
        answered = true;
        for machine in found.into_iter().filter(|machine| marked(machine).is_some()) {
            let place = (cloud.clone(), machine.id.to_string());
            let shown = || Shown { cloud: cloud.clone(), machine, identities: BTreeSet::new() };
            machines.entry(place).or_insert_with(shown).identities.extend(names.iter().cloned());
        }
    }
    answered.then_some(machines)
}

/// The machines without a claim, with how to remove one.
fn machines_screen(screen: Screen, rows: &[Row]) -> String {
    if rows.is_empty() {
        let none = "no leaks: every virtual machine that was made for a claim has its claim, or is being removed";
        return screen::text(screen, none);
    }
    let mut out = String::new();
    for (number, row) in rows.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let level = if row.whose == Whose::Nobody { Level::Problem } else { Level::Unknown };
        out += &screen::points(screen, level, &row.title(), &row.note, &row.proof);
    }
    let sure = rows.iter().filter(|row| row.whose == Whose::Nobody).count();
    let lines = [
        format!("{sure} of {} without a claim here, and Berth removes none of them", rows.len()),
        "a machine that another management cluster made looks the same: ask there before you remove one".to_owned(),
        "remove one with: cmk destroy virtualmachine id=ID expunge=true".to_owned(),
    ];
    out.push('\n');
    out += &lines.map(|line| screen::text(screen, &line)).concat();
    out
}

#[cfg(test)]
mod tests;
