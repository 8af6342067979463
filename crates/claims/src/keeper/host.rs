//! Hosts apart from any claim: those whose claim does not exist, those kept for reuse beyond their time, and what of
//! each the catalogue shows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::key::ObjectKey;
use api::names::claims as names;
use api::raw::HostClaim;
use api::reasons::claims::Reason;
use jiff::Timestamp;
use kit::class::{Class, Classify};
use kit::events::Events;
use kit::feed::{Phase, Scope, Seen, Version};
use kit::manager::Manager;
use kit::queue::{Priority, Work};
use kit::room::{Flow, NoStatus, Report, Room, Trouble, Violation};
use kit::write::{self, Target, Writer};
use kube::Api;
use serde_json::{Value, json};

use super::catalogue;
use crate::config::{Config, OrphanAction};
use crate::copies::{self, Copies};
use crate::decide::RELEASE_CHECK;
use crate::facts::{HardwareFacts, HostFacts, World};
use crate::hand::{self, Edit, Hand, Touched};
use crate::mirror;
use crate::moving;
use crate::release::is_forced;
use crate::shared::SharedYard;
use crate::standing::Found;
use crate::wish::{After, CLUSTER_GROUP, Leave, is_reserved, is_uncleaned};

/// So many claims that moved are remembered.
const MOVED: usize = 10_000;

/// One effect on a host, or a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Tells that the host's claim does not exist.
    Report,
    /// Takes what that claim left off the host.
    Clear(Leave),
    /// Begins to clean disks that were kept uncleaned.
    Scrub(Leave),
    /// Takes the reference to that claim off a clean host.
    LetGo {
        /// The uid of the claim.
        claim: Box<str>,
    },
    /// Deletes copies of secrets that were made for a claim which does not have the host.
    Sweep {
        /// The copies, as they were when this was decided.
        copies: BTreeMap<ObjectKey, Version>,
    },
    /// Ends a reservation.
    Unreserve,
    /// Brings the catalogue up to date.
    Show {
        /// The patch of the HardwareData.
        body: Value,
        /// The version it is based on.
        at: Version,
    },
    /// Looks again at that time.
    Wait {
        /// When.
        until: Timestamp,
    },
}

/// What became of the claim that a host names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Claim {
    /// It is there, or the host names none.
    Fine,
    /// It is not in the index since then.
    Missing(Timestamp),
    /// The server says that it does not exist.
    Gone,
}

/// A host at one moment.
pub struct Snapshot {
    key: ObjectKey,
    now: Timestamp,
    config: Arc<Config>,
    host: Arc<HostFacts>,
    claim: Claim,
    /// Whether the orphan was reported already.
    reported: bool,
    /// Whether whoever keeps the host for reuse is still there.
    keeper: bool,
    /// Copies that were made for a claim which does not have the host.
    strays: BTreeMap<ObjectKey, Version>,
    /// What the HardwareData lacks, and its version.
    show: Option<(Value, Version)>,
}

/// Why a host could not be looked after.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An index does not show our own last write yet.
    #[error("an index is behind our own write")]
    Behind,
    /// The host's claim could not be looked up.
    #[error("read HostClaim {key}")]
    Claim {
        /// The claim.
        key: ObjectKey,
        /// The server's words.
        #[source]
        source: Box<kube::Error>,
    },
    /// The host could not be read or written.
    #[error(transparent)]
    Host(#[from] hand::Error),
    /// Copies could not be deleted.
    #[error(transparent)]
    Copies(#[from] copies::Error),
    /// The HardwareData could not be written.
    #[error(transparent)]
    Write(#[from] write::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Behind => Class::Stale,
            Self::Claim { source, .. } => source.class(),
            Self::Host(error) => error.class(),
            Self::Copies(error) => error.class(),
            Self::Write(error) => error.class(),
        }
    }
}

/// Looks after hosts apart from any claim.
pub struct Hosts {
    world: World,
    config: Arc<Config>,
    yard: SharedYard,
    scope: Scope,
    hand: Hand,
    copies: Copies,
    writer: Writer,
    events: Events,
    memory: Arc<Mutex<Memory>>,
}

/// What one process remembers of hosts; losing it only makes it wait longer.
#[derive(Default)]
pub(super) struct Memory {
    /// Since when the claim of a host is missing, with the uid it names.
    missing: BTreeMap<ObjectKey, (Box<str>, Timestamp)>,
    /// Hosts whose orphanage was told, with the uid they name.
    reported: BTreeMap<ObjectKey, Box<str>>,
    /// Claims that went to another management cluster, by uid: the next of the same name is another claim.
    moved: BTreeSet<Box<str>>,
}

impl Hosts {
    pub(super) fn new(manager: &Manager, world: &World, config: &Arc<Config>, yard: &SharedYard) -> Self {
        let writer = Writer::new(manager.client().clone(), Self::NAME);
        Self {
            hand: Hand::new(writer.clone(), world.hosts.clone()),
            copies: Copies::new(writer.clone(), world.secrets.clone(), config.leased),
            events: Events::new(manager.client().clone(), Self::NAME, Some(manager.instance().to_owned())),
            scope: manager.scope().clone(),
            world: world.clone(),
            config: Arc::clone(config),
            yard: Arc::clone(yard),
            memory: Arc::default(),
            writer,
        }
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it remembers, to be told of claims that move.
    pub(super) fn shared_memory(&self) -> Arc<Mutex<Memory>> {
        Arc::clone(&self.memory)
    }

    /// What became of the claim that the host names.
    async fn claim(&self, key: &ObjectKey, host: &Arc<HostFacts>, now: Timestamp) -> Result<Claim, Error> {
        let named = host.consumer.as_ref().and_then(|consumer| Some((consumer, consumer.claim()?)));
        let Some((consumer, claim)) = named else {
            self.forget(key);
            return Ok(Claim::Fine);
        };
        // It travels, or has travelled, to another management cluster, which looks after it.
        let packed = Found { key: key.clone(), facts: Arc::clone(host) };
        if host.annotation(names::DELETE_FOR_MOVE_ANNOTATION).is_some() || moving::is_packed(&packed) {
            return Ok(Claim::Fine);
        }
        match self.world.claims.get(&claim) {
            Seen::At(facts) if consumer.means(&facts.uid) => {
                self.forget(key);
                return Ok(Claim::Fine);
            }
            Seen::Behind => return Err(Error::Behind),
            Seen::At(_) | Seen::Absent => {}
        }
        // What is not followed cannot be missed, and what was moved is looked after elsewhere.
        let followed = self.scope.holds(claim.namespace()) && self.world.claims.phase() == Phase::Synced;
        // The mark of a move is a tenant's word, and a host elsewhere never moves with a claim.
        let moved = claim.namespace() == key.namespace() && self.memory().moved.contains(&consumer.uid);
        if !followed || self.config.orphan_grace.is_zero() || moved {
            return Ok(Claim::Fine);
        }
        let since = {
            let mut memory = self.memory();
            let entry = memory.missing.entry(key.clone()).or_insert_with(|| (consumer.uid.clone(), now));
            if entry.0 != consumer.uid {
                *entry = (consumer.uid.clone(), now);
            }
            entry.1
        };
        if since.checked_add(self.config.orphan_grace).is_ok_and(|end| now < end) {
            return Ok(Claim::Missing(since));
        }
        let api: Api<HostClaim> = Api::namespaced(self.writer.client().clone(), claim.namespace().unwrap_or_default());
        let read = |source| Error::Claim { key: claim.clone(), source: Box::new(source) };
        let live = api.get_opt(claim.name()).await.map_err(read)?;
        let there = live.and_then(|claim| claim.metadata.uid).is_some_and(|uid| consumer.means(&uid));
        Ok(if there { Claim::Fine } else { Claim::Gone })
    }

    fn forget(&self, key: &ObjectKey) {
        let mut memory = self.memory();
        memory.missing.remove(key);
        memory.reported.remove(key);
    }

    /// Whether whoever keeps the host for reuse is still there.
    fn keeper(&self, host: &HostFacts) -> bool {
        let Some(consumer) = &host.consumer else { return false };
        match (&*consumer.group, &*consumer.kind) {
            (CLUSTER_GROUP, "Cluster") => {
                let key = ObjectKey::namespaced(consumer.namespace.clone(), consumer.name.clone());
                self.world.clusters.phase() != Phase::Synced
                    || matches!(self.world.clusters.get(&key), Seen::At(cluster) if !cluster.deleting && consumer.means(&cluster.uid))
            }
            ("", "Namespace") => {
                let key = ObjectKey::cluster_scoped(consumer.name.clone());
                matches!(self.world.spaces.get(&key), Seen::At(space) if !space.deleting)
            }
            _ => true,
        }
    }

    /// The copies beside the host that its claim has no use for.
    fn strays(&self, key: &ObjectKey, host: &HostFacts) -> BTreeMap<ObjectKey, Version> {
        let copies = self.world.secrets.by("host", &key.to_string());
        let stray = copies.into_iter().filter(|(_, copy)| !copy.deleting && is_stray(copy.claim.as_deref(), host));
        stray.map(|(copy, facts)| (copy, facts.version.clone())).collect()
    }

    fn show(&self, key: &ObjectKey, host: &HostFacts) -> Option<(Value, Version)> {
        let Seen::At(hardware) = self.world.hardware.get(key) else { return None };
        let shown = mirror::shown(&self.yard.lock().catalogue(key, host), host);
        let body = catalogue::patch(&shown, &hardware)?;
        Some((body, self.version(key, &hardware)?))
    }

    fn version(&self, key: &ObjectKey, hardware: &Arc<HardwareFacts>) -> Option<Version> {
        self.world.hardware.version(key, hardware)
    }
}

impl Room for Hosts {
    const NAME: &'static str = "claims-hosts";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = NoStatus;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let host = match self.world.hosts.get(key) {
            Seen::At(host) => host,
            Seen::Absent => {
                self.forget(key);
                return Ok(None);
            }
            Seen::Behind => return Err(Error::Behind),
        };
        let claim = self.claim(key, &host, now).await?;
        let named = host.consumer.as_ref().map(|consumer| &*consumer.uid);
        let reported = self.memory().reported.get(key).map(|uid| &**uid) == named && named.is_some();
        Ok(Some(Snapshot {
            keeper: self.keeper(&host),
            strays: self.strays(key, &host),
            show: self.show(key, &host),
            config: Arc::clone(&self.config),
            key: key.clone(),
            now,
            host,
            claim,
            reported,
        }))
    }

    fn decide(&self, snapshot: &Snapshot) -> Vec<Step> {
        decide(snapshot)
    }

    fn guard(&self, snapshot: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
        guard(snapshot, plan)
    }

    async fn apply(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        match step {
            Step::Report => {
                let claim = s.host.consumer.as_ref().and_then(|consumer| consumer.claim());
                let name = claim.map(|claim| claim.to_string()).unwrap_or_default();
                let text = match s.config.orphan_action {
                    OrphanAction::Report => format!(
                        "HostClaim {name}, which this host names, does not exist; start Berth with --orphan-action=release to have such hosts cleaned and given back."
                    ),
                    OrphanAction::Release => {
                        format!(
                            "HostClaim {name}, which this host names, does not exist; the host is cleaned and given back."
                        )
                    }
                };
                let target = Target { kind: self.world.hosts.kind(), key: s.key.clone(), uid: s.host.uid.clone() };
                self.events.say(&target, true, Reason::OrphanedHost.as_str(), &text).await;
                let uid = s.host.consumer.as_ref().map(|consumer| consumer.uid.clone()).unwrap_or_default();
                self.memory().reported.insert(s.key.clone(), uid);
                Ok(Flow::Next)
            }
            Step::Clear(leave) => self.change(s, |live| leave.patch(live)).await,
            Step::Scrub(leave) => {
                let text = "Nobody takes the host up again; its disks, which were kept, are cleaned first.";
                let target = Target { kind: self.world.hosts.kind(), key: s.key.clone(), uid: s.host.uid.clone() };
                self.events.say(&target, false, "CleaningBeforeRelease", text).await;
                self.change(s, |live| leave.scrub(live)).await
            }
            Step::LetGo { claim } => {
                let (place, prefix) = (s.key.namespace().unwrap_or_default(), format!("{}-hc-", s.key.name()));
                if !claim.is_empty() && !self.copies.drop_all(place, &claim, &prefix).await? {
                    return Ok(Flow::Wait(s.now.checked_add(RELEASE_CHECK).ok()));
                }
                // Nothing is told to run on it any more, or somebody has told it so again meanwhile.
                let bare = |live: &HostFacts| live.image.is_none() && live.custom_deploy.is_none();
                self.change(s, |live| match is_forced(live) && bare(live) {
                    true => Some(After::Quarantine.patch(live)),
                    false => After::Free.may_follow(live).then(|| After::Free.patch(live)),
                })
                .await
            }
            Step::Sweep { copies } => self.sweep(s, copies).await,
            Step::Unreserve => {
                let free = |live: &HostFacts| is_reserved(live) && After::Free.may_follow(live);
                self.change(s, |live| free(live).then(unreserved)).await
            }
            Step::Show { body, at } => {
                let target = Target { kind: self.world.hardware.kind(), key: s.key.clone(), uid: at.uid.clone() };
                let version = self.writer.merge(&target, body, Some(&at)).await?;
                self.world.hardware.wrote(&s.key, &version);
                Ok(Flow::Next)
            }
            Step::Wait { until } => Ok(Flow::Wait(Some(until))),
        }
    }

    fn report<'s>(&self, _: &'s Snapshot, _: Option<&Trouble<Error>>) -> Option<Report<'s, NoStatus>> {
        None
    }
}

impl Hosts {
    /// Deletes copies, if the server says as well that the host is not held for whom they were made.
    async fn sweep(&self, s: &Snapshot, mut copies: BTreeMap<ObjectKey, Version>) -> Result<Flow, Error> {
        let Some(live) = self.hand.read(&s.key).await? else { return Ok(Flow::Next) };
        copies.retain(|copy, _| match self.world.secrets.get(copy) {
            Seen::At(secret) => is_stray(secret.claim.as_deref(), &live.facts),
            Seen::Absent | Seen::Behind => false,
        });
        self.copies.delete(&copies).await?;
        Ok(Flow::Next)
    }

    /// Changes the host if it still names the same consumer.
    async fn change(&self, s: &Snapshot, patch: impl Fn(&HostFacts) -> Option<Value>) -> Result<Flow, Error> {
        let judge = |live: &HostFacts| {
            if live.consumer != s.host.consumer {
                return Edit::Refuse(());
            }
            patch(live).map_or(Edit::Nothing, Edit::Patch)
        };
        match self.hand.change(&s.key, judge).await? {
            Touched::Changed | Touched::Unchanged | Touched::Gone => Ok(Flow::Next),
            Touched::Refused(()) => Err(Error::Behind),
        }
    }
}

/// Whether a copy for this claim has no business beside the host. Where a claim is named without its uid, for a move,
/// nobody can tell.
fn is_stray(claim: Option<&str>, host: &HostFacts) -> bool {
    let holder = host.consumer.as_ref().filter(|consumer| consumer.claim().is_some());
    claim.is_some_and(|uid| holder.is_none_or(|consumer| !consumer.means(uid)))
}

fn unreserved() -> Value {
    json!({
        "metadata": {
            "labels": {names::NODE_REUSE_LABEL: null},
            "annotations": {
                names::REUSE_GROUP_ANNOTATION: null,
                names::REUSE_UNTIL_ANNOTATION: null,
                names::INFRA_DEFAULTS_ANNOTATION: null,
            },
        },
        "spec": {"consumerRef": null},
    })
}

fn decide(s: &Snapshot) -> Vec<Step> {
    let (waits, mut plan): (Vec<Step>, Vec<Step>) =
        orphan(s).into_iter().chain(reservation(s)).partition(|step| matches!(step, Step::Wait { .. }));
    if !s.strays.is_empty() {
        plan.push(Step::Sweep { copies: s.strays.clone() });
    }
    plan.extend(s.show.iter().map(|(body, at)| Step::Show { body: body.clone(), at: at.clone() }));
    plan.extend(waits);
    plan
}

fn orphan(s: &Snapshot) -> Vec<Step> {
    match &s.claim {
        Claim::Fine => return Vec::new(),
        Claim::Missing(since) => {
            let until = since.checked_add(s.config.orphan_grace).unwrap_or(s.now);
            return vec![Step::Wait { until }];
        }
        Claim::Gone => {}
    }
    let mut plan = Vec::new();
    if !s.reported {
        plan.push(Step::Report);
    }
    // Somebody else looks after it at the moment.
    let held = |key: &str, ours: &str| s.host.annotation(key).is_some_and(|value| value != ours);
    let busy = held(names::HOST_PAUSED_ANNOTATION, names::HOST_PAUSED_BY_CLAIM)
        || held(names::DETACHED_ANNOTATION, names::DETACHED_BY_CLAIM);
    if s.config.orphan_action == OrphanAction::Report || busy || s.host.deleting {
        return plan;
    }
    let claim = s.host.consumer.as_ref().map(|consumer| consumer.uid.clone()).unwrap_or_default();
    let leave = leave(s, &claim);
    // Its owner may order to let it go as it is.
    let pending = match is_forced(&s.host) {
        true => leave.patch(&s.host).is_some().then_some(Step::Clear(leave)),
        false => cleared(s, leave),
    };
    plan.push(pending.unwrap_or(Step::LetGo { claim }));
    plan
}

fn leave(s: &Snapshot, claim: &str) -> Leave {
    Leave { uid: claim.into(), fast_track: s.config.fast_track, replacing: false, keeps_disks: false }
}

/// The next step towards a clean host; `None` when it is one.
fn cleared(s: &Snapshot, leave: Leave) -> Option<Step> {
    if leave.patch(&s.host).is_some() {
        return Some(Step::Clear(leave));
    }
    if leave.scrub(&s.host).is_some() {
        return Some(Step::Scrub(leave));
    }
    let until = s.now.checked_add(RELEASE_CHECK).unwrap_or(s.now);
    (!After::Free.may_follow(&s.host)).then_some(Step::Wait { until })
}

fn reservation(s: &Snapshot) -> Option<Step> {
    if !is_reserved(&s.host) {
        return None;
    }
    // A time that cannot be read, or is not there any more, has passed.
    let text = s.host.annotation(names::REUSE_UNTIL_ANNOTATION).unwrap_or_default();
    let until: Timestamp = text.parse().unwrap_or(Timestamp::UNIX_EPOCH);
    if until <= s.now || !s.keeper {
        // Only what was kept on record is ours to clear; the rest of a reserved host is as its owner has it.
        let kept = is_uncleaned(&s.host) || s.host.annotation(names::INFRA_DEFAULTS_ANNOTATION).is_some();
        let pending = kept.then(|| cleared(s, leave(s, ""))).flatten();
        return Some(pending.unwrap_or(Step::Unreserve));
    }
    Some(Step::Wait { until })
}

/// A host is taken from a claim only when the server says that the claim is gone, and only clean, or as it is by its owner's
/// order; a host that somebody else uses is left alone.
fn guard(s: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    let rule = |holds: bool, words: &str| if holds { Ok(()) } else { Err(Violation::new(words)) };
    for step in plan {
        match step {
            Step::Clear(_) | Step::Scrub(_) if is_reserved(&s.host) => {}
            Step::Clear(_) | Step::Scrub(_) | Step::LetGo { .. } => {
                rule(s.claim == Claim::Gone, "a host is taken from a claim only when that is gone")?;
                rule(
                    s.config.orphan_action == OrphanAction::Release,
                    "orphans are released only when that was chosen",
                )?;
                let clean = After::Free.may_follow(&s.host) || is_forced(&s.host);
                rule(
                    clean || !matches!(step, Step::LetGo { .. }),
                    "a host that is not clean is let go by order alone",
                )?;
            }
            Step::Unreserve => rule(is_reserved(&s.host), "only our own reservation is ended")?,
            Step::Report | Step::Sweep { .. } | Step::Show { .. } | Step::Wait { .. } => {}
        }
    }
    Ok(())
}

/// What wakes this duty: the host, its HardwareData, the policies of its namespace, its claim's end and its keeper's.
pub(super) fn wake(world: &World, work: &Arc<Work<ObjectKey>>, memory: Arc<Mutex<Memory>>) {
    let queue = Arc::clone(work);
    world.hosts.observe(move |delta| queue.add_now(delta.key.clone(), Priority::Background));
    let queue = Arc::clone(work);
    world.hardware.observe(move |delta| queue.add_now(delta.key.clone(), Priority::Background));
    let queue = Arc::clone(work);
    world.secrets.observe(move |delta| {
        if let Some(host) = delta.new.as_ref().and_then(|copy| copy.host(&delta.key)) {
            queue.add_now(host, Priority::Background);
        }
    });
    let (queue, hosts) = (Arc::clone(work), world.hosts.clone());
    world.policies.observe(move |delta| {
        // Which hosts it opens, and whether it can be used at all, decide what is shown as much as what it says to show.
        if !matches!((&delta.old, &delta.new), (Some(old), Some(new)) if old.rules_like(new)) {
            for host in hosts.keys(|host| host.namespace() == delta.key.namespace()) {
                queue.add_now(host, Priority::Background);
            }
        }
    });
    let (queue, hosts) = (Arc::clone(work), world.hosts.clone());
    world.claims.observe(move |delta| {
        if let Some(claim) = [&delta.old, &delta.new].into_iter().flatten().find(|claim| claim.moved) {
            let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            // More than any move has; forgetting makes a host an orphan that is reported, and not before its time.
            if memory.moved.len() >= MOVED {
                memory.moved.clear();
            }
            memory.moved.insert(claim.uid.clone());
        }
        if delta.new.is_none() {
            for (host, _) in hosts.by("claim", &delta.key.to_string()) {
                queue.add_now(host, Priority::Background);
            }
        }
    });
    let (queue, hosts) = (Arc::clone(work), world.hosts.clone());
    world.clusters.observe(move |delta| {
        if delta.new.as_ref().is_none_or(|cluster| cluster.deleting) {
            for (host, _) in hosts.by("keeper", &delta.key.to_string()) {
                queue.add_now(host, Priority::Background);
            }
        }
    });
    let (queue, hosts) = (Arc::clone(work), world.hosts.clone());
    world.spaces.observe(move |delta| {
        if delta.new.as_ref().is_none_or(|space| space.deleting) {
            for (host, _) in hosts.by("keeper", &delta.key.to_string()) {
                queue.add_now(host, Priority::Background);
            }
        }
    });
}
