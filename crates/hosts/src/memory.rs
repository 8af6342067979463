//! What a process remembers between passes. Nothing of it is needed for correctness: after a restart things are tried once
//! more than they would have been.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use api::names::{ClientToken, HostId, InstanceId};
use aws::port::Instance;
use jiff::Timestamp;
use kit::queue::Priority;
use tokio::time::Instant;

use crate::snapshot::{Doing, Mishap, Refusal};

/// What is remembered of one machine.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What went wrong last.
    pub mishap: Option<Mishap>,
    /// Hosts that EC2 did not take back.
    pub refusals: BTreeMap<HostId, Refusal>,
    /// How often in a row EC2 could not be asked, or something was missing.
    pub tries: u32,
    /// How often the server refused what was decided on the index.
    pub conflicts: u32,
    /// Whether it was tried to say that the instance is about to be ended.
    pub announced: bool,
    /// What people were told already, so that they are told once.
    pub told: BTreeSet<String>,
    /// A token that this process has stored and not used yet: nothing can be found under it.
    pub unused: Option<ClientToken>,
    /// When EC2 last said that it allocated hosts.
    pub allocated: Option<Instant>,
    /// The instance as EC2 showed it when it was launched, and when that was.
    pub launched: Option<(Instant, Box<Instance>)>,
    /// Instances that EC2 said it ends, and when.
    pub ended: BTreeMap<InstanceId, Instant>,
    /// When the last instance was ended that had not been before.
    pub first_ended: Option<Instant>,
}

/// The memories of all machines.
#[derive(Debug, Default)]
pub struct Memories(Mutex<HashMap<ObjectKey, Memory>>);

/// Things said about one machine that are remembered; beyond them everything is said again.
const TOLD: usize = 64;

impl Memories {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered of a machine.
    #[must_use]
    pub fn of(&self, key: &ObjectKey) -> Memory {
        self.lock().get(key).cloned().unwrap_or_default()
    }

    /// Changes what is remembered.
    pub fn change(&self, key: &ObjectKey, change: impl FnOnce(&mut Memory)) {
        change(self.lock().entry(key.clone()).or_default());
    }

    /// The machine is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    /// Something went well: what went wrong with it before does not count any more.
    pub fn went_well(&self, key: &ObjectKey, doing: Doing) {
        if let Some(memory) = self.lock().get_mut(key)
            && memory.mishap.as_ref().is_some_and(|mishap| mishap.doing == doing)
        {
            memory.mishap = None;
        }
    }

    /// One of several things of a kind went well: what went wrong with them in an earlier pass does not count any more; what
    /// did in this one, and so is to be tried again only later, does.
    pub fn healed(&self, key: &ObjectKey, doing: Doing, now: Timestamp) {
        if let Some(memory) = self.lock().get_mut(key)
            && memory.mishap.as_ref().is_some_and(|mishap| mishap.doing == doing && mishap.until <= now)
        {
            memory.mishap = None;
        }
    }

    /// Whether this was not said before.
    #[must_use]
    pub fn is_new(&self, key: &ObjectKey, words: &str) -> bool {
        let mut all = self.lock();
        let told = &mut all.entry(key.clone()).or_default().told;
        if told.len() >= TOLD {
            told.clear();
        }
        told.insert(words.to_owned())
    }
}

/// Who is looked at first, as far as somebody has looked.
#[derive(Debug, Default)]
pub struct Hurry(Mutex<HashSet<ObjectKey>>);

impl Hurry {
    fn lock(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how urgent it is to look at a machine.
    pub fn note(&self, key: &ObjectKey, priority: Priority) {
        match priority {
            Priority::Urgent => drop(self.lock().insert(key.clone())),
            Priority::Background => self.forget(key),
        }
    }

    /// How urgent it is to look at a machine.
    #[must_use]
    pub fn of(&self, key: &ObjectKey) -> Priority {
        if self.lock().contains(key) { Priority::Urgent } else { Priority::Background }
    }

    /// The machine is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }
}

/// One intent to allocate.
#[derive(Clone, Debug)]
struct Entry {
    cluster: String,
    at: Timestamp,
    quantity: u32,
}

/// Intents of the last hour, so that caps hold although the index lags behind what is stored.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<BTreeMap<(ObjectKey, u32), Entry>>);

/// What an hour is, for the cap.
const HOUR: Duration = Duration::from_secs(3_600);

/// What the index shows of one machine's intents.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Which machine.
    pub key: ObjectKey,
    /// Which epoch.
    pub epoch: u32,
    /// Hosts it has or asks for.
    pub hosts: u32,
    /// Hosts it asked for.
    pub quantity: u32,
    /// When its journal last moved.
    pub at: Timestamp,
}

fn counted(entries: &BTreeMap<(ObjectKey, u32), Entry>, cluster: &str, shown: &[Shown], now: Timestamp) -> (u32, u32) {
    let young = |at: Timestamp| at.saturating_add(HOUR).unwrap_or(Timestamp::MAX) > now;
    let known: BTreeSet<(&ObjectKey, u32)> = shown.iter().map(|shown| (&shown.key, shown.epoch)).collect();
    let mine = || entries.iter().filter(|(_, entry)| entry.cluster == cluster && young(entry.at));
    let unseen = mine().filter(|((key, epoch), _)| !known.contains(&(key, *epoch)));
    let hosts =
        shown.iter().map(|shown| shown.hosts).sum::<u32>() + unseen.map(|(_, entry)| entry.quantity).sum::<u32>();
    let asked = |shown: &&Shown| young(shown.at) && !entries.contains_key(&(shown.key.clone(), shown.epoch));
    let recent = mine().map(|(_, entry)| entry.quantity).sum::<u32>()
        + shown.iter().filter(asked).map(|shown| shown.quantity).sum::<u32>();
    (hosts, recent)
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(ObjectKey, u32), Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hosts of a cluster, and hosts it asked for within the last hour.
    #[must_use]
    pub fn count(&self, cluster: &str, shown: &[Shown], now: Timestamp) -> (u32, u32) {
        counted(&self.lock(), cluster, shown, now)
    }

    /// Notes an intent, unless it would break a cap.
    pub fn reserve(
        &self,
        cluster: &str,
        shown: &[Shown],
        intent: (&ObjectKey, u32, u32),
        caps: (u32, u32),
        now: Timestamp,
    ) -> bool {
        let (key, epoch, quantity) = intent;
        let mut entries = self.lock();
        entries.retain(|_, entry| entry.at.saturating_add(HOUR).unwrap_or(Timestamp::MAX) > now);
        let (hosts, recent) = counted(&entries, cluster, shown, now);
        if hosts.saturating_add(quantity) > caps.0 || recent.saturating_add(quantity) > caps.1 {
            return false;
        }
        entries.insert((key.clone(), epoch), Entry { cluster: cluster.to_owned(), at: now, quantity });
        true
    }
}

/// Places on hosts that claims are about to write down, so that two of them do not count on the last one although the index
/// lags behind what is stored.
#[derive(Debug, Default)]
pub struct Places(Mutex<BTreeMap<ObjectKey, (HostId, u32, Timestamp)>>);

/// For how long a place that was not seen to be written down counts.
const NOTED: Duration = Duration::from_secs(60);

impl Places {
    /// Notes that a claim counts on a host in an epoch, unless as many others do as there is room for. Those who are `known`
    /// to count on it, with their epochs, are no part of the room.
    pub fn reserve(
        &self,
        (key, host, epoch): (&ObjectKey, &HostId, u32),
        room: u32,
        known: impl Fn(&ObjectKey, u32) -> bool,
        now: Timestamp,
    ) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (_, _, at)| at.saturating_add(NOTED).unwrap_or(Timestamp::MAX) > now);
        let unseen = |(other, (on, epoch, _)): &(&ObjectKey, &(HostId, u32, Timestamp))| {
            *other != key && on == host && !known(other, *epoch)
        };
        if all.iter().filter(unseen).count() >= usize::try_from(room).unwrap_or(usize::MAX) {
            return false;
        }
        all.insert(key.clone(), (host.clone(), epoch, now));
        true
    }

    /// The claim does not count on anything.
    pub fn forget(&self, key: &ObjectKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("n", name)
    }

    #[test]
    fn caps_hold_although_the_index_lags() {
        let ledger = Ledger::default();
        let now = Timestamp::UNIX_EPOCH;
        let caps = (3, 10);
        assert!(ledger.reserve("c", &[], (&key("a"), 1, 2), caps, now));
        assert!(!ledger.reserve("c", &[], (&key("b"), 1, 2), caps, now), "two and two are more than three");
        assert!(ledger.reserve("other", &[], (&key("o"), 1, 3), caps, now), "clusters do not count for each other");
        let shown = [Shown { key: key("a"), epoch: 1, hosts: 2, quantity: 2, at: now }];
        assert_eq!(ledger.count("c", &shown, now), (2, 2), "what the index shows is not counted twice");
        assert!(ledger.reserve("c", &shown, (&key("b"), 1, 1), caps, now));
    }

    #[test]
    fn the_last_place_on_a_host_is_one_claims_until_the_index_shows_whose() {
        let (places, now) = (Places::default(), Timestamp::UNIX_EPOCH);
        let host: HostId = "h-00000001".parse().unwrap();
        let reserve = |name: &str, room, known: &[&str], now| {
            let seen = |other: &ObjectKey, _: u32| known.contains(&other.name());
            places.reserve((&key(name), &host, 1), room, seen, now)
        };
        assert!(reserve("a", 1, &[], now) && reserve("a", 1, &[], now), "once or twice, it is the same one");
        assert!(!reserve("b", 1, &[], now));
        assert!(reserve("b", 1, &["a"], now), "the room that is left is without what the index shows");
        assert!(!reserve("c", 2, &[], now) && reserve("c", 3, &[], now));
        places.forget(&key("a"));
        assert!(reserve("d", 3, &[], now));
        let later = now.saturating_add(NOTED).unwrap();
        assert!(reserve("e", 1, &[], later), "what was never written down does not count for ever");
    }

    #[test]
    fn an_hour_later_intents_do_not_count_any_more_and_a_restart_counts_what_is_stored() {
        let ledger = Ledger::default();
        let now = Timestamp::UNIX_EPOCH;
        let later = now.saturating_add(HOUR).unwrap();
        assert!(ledger.reserve("c", &[], (&key("a"), 1, 2), (9, 2), now));
        assert!(!ledger.reserve("c", &[], (&key("b"), 1, 1), (9, 2), now));
        assert!(ledger.reserve("c", &[], (&key("b"), 1, 1), (9, 2), later));
        let shown = [Shown { key: key("z"), epoch: 4, hosts: 1, quantity: 2, at: later }];
        assert_eq!(Ledger::default().count("c", &shown, later), (1, 2));
    }
}
