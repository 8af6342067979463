//! What is remembered of a cluster between passes; nothing depends on it but how often something is looked at or said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use kit::feed::Version;
use tokio::time::Instant;

use crate::bodies::is_lately;
use crate::phase::Phase;
use crate::snapshot::Checks;

/// Sentences that are remembered of one cluster.
const TOLD: usize = 64;
/// Objects of one cluster of which it is remembered that they were deleted.
const DELETED: usize = 64;
/// An endpoint that was found free is believed to be for this long, and so are machine configurations that can be used: the
/// few passes until the cluster is made.
const FOUND: Duration = Duration::from_secs(30);
/// An endpoint that somebody has is tried again after this long, whenever a pass asks.
const TAKEN: Duration = Duration::from_secs(5);
/// A network plugin that was found as it should be is believed to be for this long: the passes in which workers are made.
const PLUGIN: Duration = Duration::from_secs(10);

/// An endpoint, and whether kube-vip holds it, which decides what is in its way.
pub type Tried = (String, bool);

/// What was found at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Nobody answers.
    Free,
    /// Somebody answers.
    Taken,
    /// Its name has no address.
    Unresolved,
}

/// What is known of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// Nothing, or nothing new.
    Unknown,
    /// It is being tried.
    UnderWay,
    /// It was tried a moment ago.
    Found(Ground),
}

#[derive(Clone, Debug, Default)]
struct Memory {
    wrote: Option<(Version, Instant)>,
    verified: Option<(String, Instant)>,
    told: Vec<String>,
    deleted: BTreeSet<Box<str>>,
    trial: Option<(Tried, Option<Ground>, Instant)>,
    passed: Option<(String, Checks, Instant)>,
    plugin: Option<(String, String, Instant)>,
    installed: bool,
    stands: Option<(Phase, Instant)>,
}

/// What is remembered of all clusters.
#[derive(Debug, Default)]
pub struct Memories {
    all: Mutex<BTreeMap<ObjectKey, Memory>>,
}

impl Memories {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Memory>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether generated objects are to be looked at: never yet, otherwise than before, or long ago.
    #[must_use]
    pub fn is_due(&self, key: &ObjectKey, signature: &str, now: Instant, period: Duration) -> bool {
        let all = self.lock();
        let verified = all.get(key).and_then(|memory| memory.verified.as_ref());
        verified.is_none_or(|(seen, at)| seen != signature || now.saturating_duration_since(*at) >= period)
    }

    /// We wrote the cluster itself.
    pub fn wrote(&self, key: &ObjectKey, version: &Version, now: Instant) {
        self.lock().entry(key.clone()).or_default().wrote = Some((version.clone(), now));
    }

    /// Whether the server answered our own write with this version a moment ago.
    #[must_use]
    pub fn wrote_lately(&self, key: &ObjectKey, seen: &Version, now: Instant) -> bool {
        let all = self.lock();
        let wrote = all.get(key).and_then(|memory| memory.wrote.as_ref());
        wrote.is_some_and(|(wrote, at)| wrote == seen && is_lately(*at, now))
    }

    /// Whether we wrote a version that this one does not show.
    #[must_use]
    pub fn is_newer(&self, key: &ObjectKey, seen: &Version) -> bool {
        let all = self.lock();
        let wrote = all.get(key).and_then(|memory| memory.wrote.as_ref());
        wrote.is_some_and(|(wrote, _)| wrote.uid == seen.uid && !seen.covers(wrote))
    }

    /// The server took the deletion of an object, which nobody can take back, or had it no longer.
    pub fn deleted(&self, key: &ObjectKey, uid: &str) {
        let mut all = self.lock();
        let deleted = &mut all.entry(key.clone()).or_default().deleted;
        // Forgotten, they are deleted once more, which harms nobody.
        if deleted.len() >= DELETED {
            deleted.clear();
        }
        deleted.insert(uid.into());
    }

    /// Whether an object was deleted before, whatever an index shows.
    #[must_use]
    pub fn is_deleted(&self, key: &ObjectKey, uid: &str) -> bool {
        self.lock().get(key).is_some_and(|memory| memory.deleted.contains(uid))
    }

    /// Generated objects were found as they should be.
    pub fn verified(&self, key: &ObjectKey, signature: &str, now: Instant) {
        self.lock().entry(key.clone()).or_default().verified = Some((signature.to_owned(), now));
    }

    /// The endpoint of a cluster is being tried.
    pub fn tries(&self, key: &ObjectKey, tried: Tried, now: Instant) {
        self.lock().entry(key.clone()).or_default().trial = Some((tried, None, now));
    }

    /// The endpoint of a cluster was tried; nobody is told of one that is gone or asks for another one by now.
    pub fn tried(&self, key: &ObjectKey, tried: &Tried, found: Ground, now: Instant) {
        if let Some((asked, ground, at)) = self.lock().get_mut(key).and_then(|memory| memory.trial.as_mut())
            && asked == tried
        {
            (*ground, *at) = (Some(found), now);
        }
    }

    /// What is known of the endpoint of a cluster.
    #[must_use]
    pub fn trial(&self, key: &ObjectKey, tried: &Tried, now: Instant) -> Trial {
        let all = self.lock();
        let Some((asked, found, at)) = all.get(key).and_then(|memory| memory.trial.as_ref()) else {
            return Trial::Unknown;
        };
        let lasts = if *found == Some(Ground::Taken) { TAKEN } else { FOUND };
        match found {
            _ if asked != tried || now.saturating_duration_since(*at) >= lasts => Trial::Unknown,
            None => Trial::UnderWay,
            Some(ground) => Trial::Found(*ground),
        }
    }

    /// All machine configurations of a cluster can be used, by these inputs.
    pub fn passed(&self, key: &ObjectKey, inputs: String, checks: Checks, now: Instant) {
        self.lock().entry(key.clone()).or_default().passed = Some((inputs, checks, now));
    }

    /// What was found of the machine configurations of a cluster by these inputs, when all could be used a moment ago.
    #[must_use]
    pub fn has_passed(&self, key: &ObjectKey, inputs: &str, now: Instant) -> Option<Checks> {
        let all = self.lock();
        let (by, checks, at) = all.get(key)?.passed.as_ref()?;
        (by == inputs && now.saturating_duration_since(*at) < FOUND).then(|| checks.clone())
    }

    /// The network plugin of a cluster is as it should be, by these inputs, in this version.
    pub fn has_plugin(&self, key: &ObjectKey, inputs: String, version: String, now: Instant) {
        self.lock().entry(key.clone()).or_default().plugin = Some((inputs, version, now));
    }

    /// The version of the network plugin of a cluster, when it was as it should be a moment ago.
    #[must_use]
    pub fn plugin(&self, key: &ObjectKey, inputs: &str, now: Instant) -> Option<String> {
        let all = self.lock();
        let (by, version, at) = all.get(key)?.plugin.as_ref()?;
        (by == inputs && now.saturating_duration_since(*at) < PLUGIN).then(|| version.clone())
    }

    /// The network plugin of a cluster was installed for the first time.
    pub fn installs(&self, key: &ObjectKey) {
        self.lock().entry(key.clone()).or_default().installed = true;
    }

    /// Whether that was done since it was last asked.
    #[must_use]
    pub fn take_installed(&self, key: &ObjectKey) -> bool {
        self.lock().get_mut(key).is_some_and(|memory| std::mem::take(&mut memory.installed))
    }

    /// A pass ended in this phase, or in none; says which other phase the cluster stood in until now, and for how long.
    #[must_use]
    pub fn moved_to(&self, key: &ObjectKey, phase: Option<Phase>, now: Instant) -> Option<(Phase, Duration)> {
        let mut all = self.lock();
        let stands = &mut all.entry(key.clone()).or_default().stands;
        if stands.map(|(phase, _)| phase) == phase {
            return None;
        }
        let left = std::mem::replace(stands, phase.map(|phase| (phase, now)));
        left.map(|(phase, since)| (phase, now.saturating_duration_since(since)))
    }

    /// Whether something was not said of this cluster lately.
    #[must_use]
    pub fn is_new(&self, key: &ObjectKey, sentence: &str) -> bool {
        let mut all = self.lock();
        let told = &mut all.entry(key.clone()).or_default().told;
        if told.iter().any(|before| before == sentence) {
            return false;
        }
        if told.len() >= TOLD {
            told.remove(0);
        }
        told.push(sentence.to_owned());
        true
    }

    /// Something else is said from now on; what was said may come back.
    pub fn say_again(&self, key: &ObjectKey, starts: &str) {
        self.unsay(key, |sentence| sentence.starts_with(starts));
    }

    /// What was said of this cluster and is past may be said anew.
    pub fn unsay(&self, key: &ObjectKey, past: impl Fn(&str) -> bool) {
        if let Some(memory) = self.lock().get_mut(key) {
            memory.told.retain(|sentence| !past(sentence));
        }
    }

    /// The cluster is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Instant {
        kit::clock::Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap(), 1).instant()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_found_at_an_endpoint_counts_for_a_while_and_for_who_asked() {
        let (memories, key, now) = (Memories::default(), ObjectKey::namespaced("n", "c"), begun());
        let (here, there) = (("10.0.0.5:6443".to_owned(), true), ("10.0.0.6:6443".to_owned(), true));
        let known = |tried: &Tried, after: u64| memories.trial(&key, tried, now + Duration::from_secs(after));
        memories.tried(&key, &here, Ground::Free, now);
        assert_eq!(known(&here, 0), Trial::Unknown, "nobody asked");
        memories.tries(&key, here.clone(), now);
        assert_eq!(
            [known(&here, 29), known(&here, 30), known(&there, 0)],
            [Trial::UnderWay, Trial::Unknown, Trial::Unknown]
        );
        memories.tried(&key, &there, Ground::Free, now);
        assert_eq!(known(&here, 0), Trial::UnderWay);
        for (found, lasts) in [(Ground::Free, 30), (Ground::Unresolved, 30), (Ground::Taken, 5)] {
            memories.tried(&key, &here, found, now);
            assert_eq!([known(&here, lasts - 1), known(&here, lasts)], [Trial::Found(found), Trial::Unknown]);
        }
        memories.forget(&key);
        memories.tried(&key, &here, Ground::Free, now);
        assert_eq!(known(&here, 0), Trial::Unknown, "nothing is remembered of one that is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_found_good_is_believed_for_a_moment_and_by_the_same_inputs() {
        let (memories, key, now) = (Memories::default(), ObjectKey::namespaced("n", "c"), begun());
        let after = |seconds: u64| now + Duration::from_secs(seconds);
        let good = Checks::Judged { machines: [("m".to_owned(), None)].into(), warnings: Vec::new() };
        memories.passed(&key, "a".to_owned(), good.clone(), now);
        assert_eq!(memories.has_passed(&key, "a", after(29)), Some(good));
        assert_eq!([memories.has_passed(&key, "b", now), memories.has_passed(&key, "a", after(30))], [None, None]);
        memories.has_plugin(&key, "a".to_owned(), "v1".to_owned(), now);
        assert_eq!(memories.plugin(&key, "a", after(9)).as_deref(), Some("v1"));
        assert_eq!([memories.plugin(&key, "b", now), memories.plugin(&key, "a", after(10))], [None, None]);
        assert!(!memories.take_installed(&key));
        memories.installs(&key);
        assert!(memories.take_installed(&key) && !memories.take_installed(&key), "one look goes by it");
        let version = |number: &str| Version { uid: "u".into(), resource_version: number.into() };
        memories.wrote(&key, &version("7"), now);
        assert!(memories.wrote_lately(&key, &version("7"), after(4)) && !memories.is_newer(&key, &version("7")));
        assert!(!memories.wrote_lately(&key, &version("7"), after(5)));
        assert!(!memories.wrote_lately(&key, &version("8"), now) && memories.is_newer(&key, &version("6")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_phase_lasts_from_the_first_pass_that_ends_in_it_to_the_first_that_does_not() {
        let (memories, key) = (Memories::default(), ObjectKey::namespaced("n", "c"));
        let begun = begun();
        let at = |seconds: u64, phase: Option<Phase>| {
            let left = memories.moved_to(&key, phase, begun + Duration::from_secs(seconds));
            left.map(|(phase, lasted)| (phase, lasted.as_secs()))
        };
        let (datacenter, plane) = (Phase::ValidateDatacenterConfig, Phase::CheckControlPlaneReady);
        assert_eq!(at(0, None), None);
        assert_eq!(at(1, Some(datacenter)), None);
        assert_eq!(at(3, Some(datacenter)), None);
        assert_eq!(at(4, Some(plane)), Some((datacenter, 3)));
        assert_eq!(at(64, None), Some((plane, 60)));
        assert_eq!(at(65, None), None);
        // Nothing is known of one that is gone.
        assert_eq!(at(70, Some(plane)), None);
        memories.forget(&key);
        assert_eq!(at(80, None), None);
    }
}
