//! What is remembered of a cluster between passes; nothing depends on it but how often something is looked at or said.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use kit::feed::Version;
use tokio::time::Instant;

use crate::phase::Phase;

/// Sentences that are remembered of one cluster.
const TOLD: usize = 64;
/// An endpoint that was found free is believed to be for this long: the few passes until the cluster is made.
const FREE: Duration = Duration::from_secs(30);

/// An endpoint, and whether kube-vip holds it, which decides what is in its way.
pub type Tried = (String, bool);

#[derive(Clone, Debug, Default)]
struct Memory {
    wrote: Option<Version>,
    verified: Option<(String, Instant)>,
    told: Vec<String>,
    free: Option<(Tried, Instant)>,
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
    pub fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.lock().entry(key.clone()).or_default().wrote = Some(version.clone());
    }

    /// Whether we wrote a version that this one does not show.
    #[must_use]
    pub fn is_newer(&self, key: &ObjectKey, seen: &Version) -> bool {
        let all = self.lock();
        let wrote = all.get(key).and_then(|memory| memory.wrote.as_ref());
        wrote.is_some_and(|wrote| wrote.uid == seen.uid && !seen.covers(wrote))
    }

    /// Generated objects were found as they should be.
    pub fn verified(&self, key: &ObjectKey, signature: &str, now: Instant) {
        self.lock().entry(key.clone()).or_default().verified = Some((signature.to_owned(), now));
    }

    /// The endpoint of a cluster was found free.
    pub fn found_free(&self, key: &ObjectKey, tried: Tried, now: Instant) {
        self.lock().entry(key.clone()).or_default().free = Some((tried, now));
    }

    /// Whether the endpoint of a cluster was found free a moment ago.
    #[must_use]
    pub fn is_free(&self, key: &ObjectKey, tried: &Tried, now: Instant) -> bool {
        let all = self.lock();
        let free = all.get(key).and_then(|memory| memory.free.as_ref());
        free.is_some_and(|(found, at)| found == tried && now.saturating_duration_since(*at) < FREE)
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
        if let Some(memory) = self.lock().get_mut(key) {
            memory.told.retain(|sentence| !sentence.starts_with(starts));
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

    #[tokio::test(start_paused = true)]
    async fn a_phase_lasts_from_the_first_pass_that_ends_in_it_to_the_first_that_does_not() {
        let (memories, key) = (Memories::default(), ObjectKey::namespaced("n", "c"));
        let begun = kit::clock::Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap(), 1).instant();
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
