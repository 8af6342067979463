//! Judges a history of hosts, claims, secrets and disks: what must hold at every single revision, and what must hold once
//! everything has come to rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::host::{Consumer, Host};
use super::machine::{Disk, DiskChange};
use super::state;
use crate::record::{self, Version};
use crate::server::Server;

/// Label of a copy of a tenant's secret: the uid of the claim it was made for.
pub const CLAIM_UID: &str = "berth.dev/claim-uid";
/// Order of an admin to let a host go as it is.
const FORCE_RELEASE: &str = "berth.dev/force-release";
/// What stands in a secret that must hold something and does not yet: `{}`, in base64.
const NOTHING: &str = "e30=";
/// Mark of an object that another cluster has taken over.
const MOVED: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

/// What the one who tells the story does with its own hands; the controllers are not blamed for it.
#[derive(Clone, Debug, Default)]
pub struct Forgiven {
    /// Hosts whose admin wants disks not to be cleaned: namespace and name.
    pub keeps_disks: BTreeSet<(String, String)>,
    /// Hosts whose consumer or image is changed by hand: namespace and name.
    pub hosts: BTreeSet<(String, String)>,
    /// Claims whose finalizer is torn off: namespace and name.
    pub claims: BTreeSet<(String, String)>,
}

/// A promise that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which one.
    pub rule: &'static str,
    /// When.
    pub revision: u64,
    /// What was seen.
    pub text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at revision {}: {}", self.rule, self.revision, self.text)
    }
}

type Key = (String, String);

#[derive(Clone, Debug)]
struct Claim {
    uid: String,
    deleting: bool,
    annotations: Value,
}

/// A secret.
#[derive(Clone, Debug)]
struct Kept {
    /// The claim that it is a copy for.
    made: Option<String>,
    /// Whether it holds anything.
    full: bool,
}

impl Kept {
    fn of(object: &Value) -> Self {
        let labels = object.pointer("/metadata/labels");
        let made = labels.and_then(|labels| labels.get(CLAIM_UID)).and_then(Value::as_str).map(str::to_owned);
        let data = object.get("data").and_then(Value::as_object).into_iter().flat_map(|data| data.values());
        let full = data.filter_map(Value::as_str).any(|value| !value.is_empty() && value != NOTHING);
        Self { made, full }
    }
}

/// Looks at one version after the other.
///
/// - `one-consumer`: no claim takes a host that another consumer has;
/// - `image-held`: a host that a claim lets go has no image and no custom deploy;
/// - `given-away`: a host that a claim lets go is back in a state without a system;
/// - `copy-held`: a copy holds what a tenant keeps secret only while a host is held for its claim;
/// - `own-data`: a host never points at a copy made for another claim;
/// - `data-first`: an image is set only when the secrets that go with it are there;
/// - `claim-last`: no claim goes while its host still has its image;
/// - `clean-disk`: nothing of one tenant lies on a disk while another tenant has the host;
/// - `clean-free`: nothing lies on the disk of a host that anybody may take, unless its admin has disks not cleaned;
/// - at rest, `one-host`: a claim is named by one host at most, `orphan`: no host names a claim that is gone, and of copies
///   not even empty ones are left.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    forgiven: Forgiven,
    hosts: BTreeMap<Key, Host>,
    claims: BTreeMap<Key, Claim>,
    /// All secrets.
    secrets: BTreeMap<Key, Kept>,
    disks: BTreeMap<Key, Disk>,
    /// Claims whose host was deleted under them: a copy that was on its way goes with the host it names as its owner.
    bereft: BTreeSet<String>,
    breaches: Vec<Breach>,
    /// How far an in-memory server and its machines have been looked at.
    seen: (u64, usize),
}

/// Every breach in a history, the earliest first, those of its end included.
#[must_use]
pub fn judge(history: &[Arc<Version>], disks: &[DiskChange], forgiven: Forgiven) -> Vec<Breach> {
    let mut judge = Judge::new(forgiven);
    judge.follow(history, disks);
    let mut breaches = judge.breaches.clone();
    breaches.extend(judge.at_rest());
    breaches
}

impl Judge {
    /// One who has seen nothing yet.
    #[must_use]
    pub fn new(forgiven: Forgiven) -> Self {
        Self { forgiven, ..Self::default() }
    }

    /// Looks at everything that happened on an in-memory server since the last look; the words of the first breach so far.
    ///
    /// # Errors
    /// When something does not hold, or did not.
    pub fn look(&mut self, server: &Server, machines: &super::Machines) -> Result<(), String> {
        const KINDS: [(&str, &str); 3] = [
            ("baremetalhosts.metal3.io", "BareMetalHost"),
            ("hostclaims.metal3.io", "HostClaim"),
            ("secrets", "Secret"),
        ];
        let versions = record::since(server, self.seen.0, &KINDS);
        let changes = machines.changes_after(self.seen.1);
        self.seen.0 = versions.last().map_or(self.seen.0, |version| version.revision);
        self.seen.1 += changes.len();
        self.follow(&versions, &changes);
        self.breaches.first().map_or(Ok(()), |breach| Err(breach.to_string()))
    }

    /// Looks at versions and changes of disks, each in order.
    pub fn follow(&mut self, versions: &[Arc<Version>], changes: &[DiskChange]) {
        let mut changes = changes.iter().peekable();
        for version in versions {
            while let Some(change) = changes.next_if(|change| change.revision <= version.revision) {
                self.disk(change);
            }
            match version.kind {
                "BareMetalHost" => self.host(version),
                "HostClaim" => self.claim(version),
                "Secret" => self.secret(version),
                _ => {}
            }
        }
        changes.for_each(|change| self.disk(change));
    }

    /// The breaches so far.
    #[must_use]
    pub fn breaches(&self) -> &[Breach] {
        &self.breaches
    }

    /// What does not hold although everything has come to rest.
    #[must_use]
    pub fn at_rest(&self) -> Vec<Breach> {
        let mut out = Vec::new();
        let mut held: BTreeMap<&Key, Vec<&Key>> = BTreeMap::new();
        for (place, host) in &self.hosts {
            let Some(consumer) = claim_of(host) else { continue };
            match self.named(consumer) {
                Some(claim) => held.entry(claim).or_default().push(place),
                None if self.forgiven.claims.contains(&key_of(consumer)) => {}
                None => out.push(breach("orphan", host, format!("{} is gone", shown(consumer)))),
            }
        }
        for (claim, places) in held.into_iter().filter(|(_, places)| places.len() > 1) {
            let places: Vec<String> = places.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
            let text = format!("HostClaim {}/{} is named by {}", claim.0, claim.1, places.join(" and "));
            out.push(Breach { rule: "one-host", revision: self.seen.0, text });
        }
        for ((namespace, name), uid) in self.secrets.iter().filter_map(|(key, kept)| Some((key, kept.made.as_ref()?))) {
            if !self.held_for(namespace, uid) {
                let text = format!("Secret {namespace}/{name} is left of a claim without a host");
                out.push(Breach { rule: "copy-held", revision: self.seen.0, text });
            }
        }
        out
    }

    /// The live claim that a consumer names.
    fn named(&self, consumer: &Consumer) -> Option<&Key> {
        let (key, claim) = self.claims.get_key_value(&key_of(consumer))?;
        (consumer.uid.is_empty() || consumer.uid == claim.uid).then_some(key)
    }

    /// Whether a host of a namespace is held for the claim with this uid.
    fn held_for(&self, namespace: &str, uid: &str) -> bool {
        self.hosts.iter().filter(|((place, _), _)| place == namespace).any(|(_, host)| self.is_for(host, uid))
    }

    fn is_for(&self, host: &Host, uid: &str) -> bool {
        claim_of(host).is_some_and(|consumer| self.uid_of(consumer) == uid)
    }

    fn uid_of(&self, consumer: &Consumer) -> String {
        match consumer.uid.is_empty() {
            false => consumer.uid.clone(),
            true => self.claims.get(&key_of(consumer)).map(|claim| claim.uid.clone()).unwrap_or_default(),
        }
    }

    fn disk(&mut self, change: &DiskChange) {
        let key = (change.namespace.clone(), change.name.clone());
        match &change.disk {
            Some(disk) => self.disks.insert(key.clone(), disk.clone()),
            None => self.disks.remove(&key),
        };
        if let Some(host) = self.hosts.get(&key).cloned() {
            self.clean_disk(&key, &host);
        }
    }

    fn clean_disk(&mut self, key: &Key, host: &Host) {
        let owner = self.disks.get(key).and_then(|disk| disk.owner.as_ref());
        let (Some(owner), Some(consumer)) = (owner, claim_of(host)) else { return };
        if owner.namespace != consumer.namespace && !self.forgiven.keeps_disks.contains(key) {
            let text = format!("{} has it, and its disk still holds what {} left", shown(consumer), shown(owner));
            self.breaches.push(breach("clean-disk", host, text));
        }
    }

    fn host(&mut self, version: &Version) {
        let key = (version.namespace.clone(), version.name.clone());
        if version.gone {
            let consumer = self.hosts.remove(&key).and_then(|host| host.spec.consumer_ref);
            self.bereft.extend(consumer.map(|consumer| self.uid_of(&consumer)));
            return;
        }
        let Ok(host) = serde_json::from_value::<Host>(version.object.clone()) else { return };
        let before = self.hosts.insert(key.clone(), host.clone());
        let before = before.filter(|before| before.metadata.uid == host.metadata.uid);
        if !self.forgiven.hosts.contains(&key) {
            if let Some(before) = &before {
                self.handed_over(before, &host);
            }
            self.data(before.as_ref(), &host);
        }
        self.clean_disk(&key, &host);
    }

    /// The consumer of a host changed, or may have.
    fn handed_over(&mut self, before: &Host, host: &Host) {
        let (Some(old), new) = (&before.spec.consumer_ref, &host.spec.consumer_ref) else { return };
        if new.as_ref().is_some_and(|new| same(old, new)) {
            return;
        }
        if let Some(new) = claim_of(host).filter(|_| !reserves(old)) {
            let text = format!("{} took it from {}", shown(new), shown(old));
            self.breaches.push(breach("one-consumer", host, text));
        }
        let forced = host.note(FORCE_RELEASE).is_some() || before.note(FORCE_RELEASE).is_some();
        if new.is_none() && !forced {
            self.clean_free(host, old);
        }
        let (Some(old), true) = (claim_of(before), new.as_ref().is_none_or(reserves)) else { return };
        if host.image().is_some() || host.custom_deploy().is_some() {
            let text = format!("{} let it go with its image", shown(old));
            self.breaches.push(breach("image-held", host, text));
        }
        let bare = matches!(
            host.state(),
            "" | state::UNMANAGED
                | state::REGISTERING
                | state::MATCH_PROFILE
                | state::INSPECTING
                | state::READY
                | state::AVAILABLE
        );
        let dark = host.state() == state::EXTERNALLY_PROVISIONED
            && !host.status.as_ref().is_some_and(|status| status.powered_on);
        if !(bare || dark || forced || host.deleting()) {
            let text = format!("{} let it go while it was {}", shown(old), host.state());
            self.breaches.push(breach("given-away", host, text));
        }
        let (uid, place) = (self.uid_of(old), host.metadata.namespace.clone().unwrap_or_default());
        let left = self
            .secrets
            .iter()
            .find(|((there, _), kept)| *there == place && kept.full && kept.made.as_deref() == Some(uid.as_str()));
        if let Some(((_, name), _)) = left.filter(|_| !self.held_for(&place, &uid)) {
            let text = format!("{} let it go before Secret {name} was gone", shown(old));
            self.breaches.push(breach("copy-held", host, text));
        }
    }

    /// Somebody let a host go.
    fn clean_free(&mut self, host: &Host, old: &Consumer) {
        let key = (host.metadata.namespace.clone().unwrap_or_default(), host.metadata.name.clone().unwrap_or_default());
        let left = self.disks.get(&key).and_then(|disk| disk.owner.as_ref());
        let kept = !state::wipes(host) || self.forgiven.keeps_disks.contains(&key) || host.deleting();
        if let Some(owner) = left.filter(|_| !kept && (old.kind == "HostClaim" || reserves(old))) {
            let text = format!("{} let it go, and its disk still holds what {} left", shown(old), shown(owner));
            self.breaches.push(breach("clean-free", host, text));
        }
    }

    /// What a host points at.
    fn data(&mut self, before: Option<&Host>, host: &Host) {
        let Some(consumer) = claim_of(host) else { return };
        let uid = self.uid_of(consumer);
        let place = host.metadata.namespace.clone().unwrap_or_default();
        let deploys = |host: &Host| host.image().is_some() || host.custom_deploy().is_some();
        let begins = deploys(host) && !before.is_some_and(deploys);
        for (field, reference) in [
            ("userData", &host.spec.user_data),
            ("networkData", &host.spec.network_data),
            ("metaData", &host.spec.meta_data),
        ] {
            let Some(reference) = reference else { continue };
            let kept = self.secrets.get(&(place.clone(), reference.name.clone()));
            match kept.map(|kept| (kept.made.as_ref(), kept.full)) {
                Some((Some(made), _)) if *made != uid => {
                    let text = format!("{} has it, and {field} names a copy made for another claim", shown(consumer));
                    self.breaches.push(breach("own-data", host, text));
                }
                None | Some((_, false)) if begins => {
                    let text = format!("its image was set before the secret {} of {field} was there", reference.name);
                    self.breaches.push(breach("data-first", host, text));
                }
                _ => {}
            }
        }
    }

    fn claim(&mut self, version: &Version) {
        let key = (version.namespace.clone(), version.name.clone());
        if !version.gone {
            let deleting = version.object.pointer("/metadata/deletionTimestamp").is_some();
            let annotations = version.object.pointer("/metadata/annotations").cloned().unwrap_or_default();
            self.claims.insert(key, Claim { uid: version.uid.clone(), deleting, annotations });
            return;
        }
        let Some(claim) = self.claims.remove(&key) else { return };
        if self.forgiven.claims.contains(&key) || claim.annotations.get(MOVED).is_some() {
            return;
        }
        let holds = |host: &&Host| {
            let named = claim_of(host).is_some_and(|consumer| {
                key_of(consumer) == key && (consumer.uid.is_empty() || consumer.uid == claim.uid)
            });
            let deployed = host.status.as_ref().is_some_and(|status| !status.provisioning.image.url.is_empty());
            named && (deployed || host.image().is_some() || host.custom_deploy().is_some())
        };
        if let Some(host) = self.hosts.values().find(holds) {
            let when = if claim.deleting { "was let go" } else { "vanished" };
            let text = format!("HostClaim {}/{} {when} while the host has its image", key.0, key.1);
            let mut found = breach("claim-last", host, text);
            found.revision = version.revision;
            self.breaches.push(found);
        }
    }

    fn secret(&mut self, version: &Version) {
        let key = (version.namespace.clone(), version.name.clone());
        if version.gone {
            self.secrets.remove(&key);
            return;
        }
        let kept = Kept::of(&version.object);
        let before = self.secrets.insert(key.clone(), kept.clone());
        let filled = kept.full && !before.is_some_and(|before| before.full && before.made == kept.made);
        if let Some(uid) = kept.made.filter(|uid| filled && !self.bereft.contains(uid) && !self.held_for(&key.0, uid)) {
            let text = format!("Secret {}/{} was filled for the claim {uid}, which has no host here", key.0, key.1);
            self.breaches.push(Breach { rule: "copy-held", revision: version.revision, text });
        }
    }
}

fn breach(rule: &'static str, host: &Host, text: String) -> Breach {
    let place = host.metadata.namespace.as_deref().unwrap_or_default();
    let name = host.metadata.name.as_deref().unwrap_or_default();
    Breach { rule, revision: host.revision(), text: format!("BareMetalHost {place}/{name}: {text}") }
}

fn shown(consumer: &Consumer) -> String {
    format!("{} {}/{}", consumer.kind, consumer.namespace, consumer.name)
}

fn key_of(consumer: &Consumer) -> Key {
    (consumer.namespace.clone(), consumer.name.clone())
}

fn claim_of(host: &Host) -> Option<&Consumer> {
    host.spec.consumer_ref.as_ref().filter(|consumer| consumer.kind == "HostClaim")
}

/// A consumer that only keeps a host for somebody.
fn reserves(consumer: &Consumer) -> bool {
    matches!(consumer.kind.as_str(), "Cluster" | "Namespace")
}

/// Whether two consumers are one; an empty uid is filled in later, or cleared for a move.
fn same(a: &Consumer, b: &Consumer) -> bool {
    let uid = a.uid.is_empty() || b.uid.is_empty() || a.uid == b.uid;
    (&a.kind, &a.namespace, &a.name) == (&b.kind, &b.namespace, &b.name) && uid
}

#[cfg(test)]
mod tests;
