//! What is remembered of a group between two passes, and lost with the process: what it was told, and who undid what
//! we wrote.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use api::reasons::capacity::Reason;
use api::views::TemplateStatus;
use jiff::Timestamp;

use crate::facts::GroupKey;

/// The same event is not said again before this.
pub const SILENCE: Duration = Duration::from_secs(3600);
/// Changes back count within this time.
pub const FIGHT: Duration = Duration::from_secs(600);
/// A key that somebody else keeps changing back is left alone for this long.
pub const TRUCE: Duration = Duration::from_secs(3600);
/// The third change back within [`FIGHT`] ends the fight.
const ROUNDS: usize = 3;

/// What is remembered of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    told: BTreeMap<Reason, (String, Timestamp)>,
    wrote: BTreeMap<Box<str>, Write>,
    truces: BTreeMap<Box<str>, Timestamp>,
    /// What was said, or logged, of the template and of the whole group, and when.
    said: BTreeMap<Saying, (u64, Timestamp)>,
    /// Whether the group was in trouble at the last pass.
    pub troubled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Saying {
    Template,
    Trial,
}

/// The last value we wrote to a key, and when we wrote the same again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Write {
    value: u64,
    at: Timestamp,
    again: Vec<Timestamp>,
}

fn mark(value: Option<&str>) -> u64 {
    digest(&value)
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn within(now: Timestamp, then: Timestamp, time: Duration) -> bool {
    Duration::try_from(now.duration_since(then)).unwrap_or_default() < time
}

impl Memory {
    /// Whether the group need not be told this again.
    #[must_use]
    pub fn knows(&self, reason: Reason, message: &str, now: Timestamp) -> bool {
        self.told.get(&reason).is_some_and(|(told, at)| told == message && within(now, *at, SILENCE))
    }

    /// Whether the group was ever told this.
    #[must_use]
    pub fn heard(&self, reason: Reason, message: &str) -> bool {
        self.told.get(&reason).is_some_and(|(told, _)| told == message)
    }

    /// The group was told this.
    pub fn tell(&mut self, reason: Reason, message: &str, now: Timestamp) {
        self.told.insert(reason, (message.to_owned(), now));
    }

    /// Whether writing this value would be the answer to the third change back within ten minutes.
    #[must_use]
    pub fn is_fought(&self, key: &str, value: Option<&str>, now: Timestamp) -> bool {
        self.wrote.get(key).is_some_and(|write| {
            let recent = write.again.iter().filter(|at| within(now, **at, FIGHT)).count();
            write.value == mark(value) && within(now, write.at, FIGHT) && recent + 1 >= ROUNDS
        })
    }

    /// Whether a template was described this way lately: whoever changed that, or refused it, has the word.
    #[must_use]
    pub fn described(&self, uid: &str, status: &TemplateStatus, now: Timestamp) -> bool {
        self.repeats(Saying::Template, digest(&(uid, status)), now)
    }

    /// A template was described, or that was refused.
    pub fn describe(&mut self, uid: &str, status: &TemplateStatus, now: Timestamp) {
        self.said.insert(Saying::Template, (digest(&(uid, status)), now));
    }

    /// Whether these changes were logged lately, where changes are only logged.
    #[must_use]
    pub fn tried(&self, changes: &BTreeMap<String, Option<String>>, now: Timestamp) -> bool {
        self.repeats(Saying::Trial, digest(changes), now)
    }

    /// These changes were logged.
    pub fn try_out(&mut self, changes: &BTreeMap<String, Option<String>>, now: Timestamp) {
        self.said.insert(Saying::Trial, (digest(changes), now));
    }

    fn repeats(&self, saying: Saying, digest: u64, now: Timestamp) -> bool {
        self.said.get(&saying).is_some_and(|(said, at)| *said == digest && within(now, *at, SILENCE))
    }

    /// Whether a key is left alone at present.
    #[must_use]
    pub fn holds(&self, key: &str, now: Timestamp) -> bool {
        self.truces.get(key).is_some_and(|until| now < *until)
    }

    /// Keys that are left alone at present.
    pub fn held(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        self.truces.iter().filter(move |(_, until)| now < **until).map(|(key, _)| key.as_ref())
    }

    /// A key is left alone from now on.
    pub fn yield_to(&mut self, key: &str, now: Timestamp) {
        self.truces.insert(key.into(), now.saturating_add(TRUCE).unwrap_or(now));
        self.wrote.remove(key);
    }

    /// We wrote this.
    pub fn write(&mut self, key: &str, value: Option<&str>, now: Timestamp) {
        let value = mark(value);
        match self.wrote.get_mut(key).filter(|write| write.value == value) {
            Some(write) => {
                write.again.retain(|at| within(now, *at, FIGHT));
                write.again.push(now);
                write.at = now;
            }
            None => {
                self.wrote.insert(key.into(), Write { value, at: now, again: Vec::new() });
            }
        }
    }

    /// Drops what does not matter any more; says whether anything is left.
    fn fade(&mut self, now: Timestamp) -> bool {
        self.wrote.retain(|_, write| within(now, write.at, FIGHT));
        self.truces.retain(|_, until| now < *until);
        self.said.retain(|_, (_, at)| within(now, *at, SILENCE));
        self.troubled
            || !self.said.is_empty()
            || !self.wrote.is_empty()
            || !self.truces.is_empty()
            || !self.told.is_empty()
    }
}

/// What is remembered of all groups.
#[derive(Debug, Default)]
pub struct Memories {
    all: HashMap<GroupKey, Memory>,
    writes: usize,
}

impl Memories {
    /// What is remembered of a group.
    #[must_use]
    pub fn of(&self, key: &GroupKey) -> Memory {
        self.all.get(key).cloned().unwrap_or_default()
    }

    /// Changes what is remembered of a group.
    pub fn change(&mut self, key: &GroupKey, now: Timestamp, change: impl FnOnce(&mut Memory)) {
        change(self.all.entry(key.clone()).or_default());
        self.writes += 1;
        // Now and then, and often enough that what faded does not outweigh what counts.
        if self.writes > (self.all.len() / 2).max(1024) {
            self.writes = 0;
            self.all.retain(|_, memory| memory.fade(now));
        }
    }

    /// The group is well: what it was told of troubles is said anew when they come again.
    pub fn recover(&mut self, key: &GroupKey) {
        if let Some(memory) = self.all.get_mut(key) {
            memory.troubled = false;
            memory.told.remove(&Reason::FailedUpdate);
            memory.told.remove(&Reason::ReconcileError);
        }
    }

    /// The group is gone.
    pub fn forget(&mut self, key: &GroupKey) {
        self.all.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn an_event_is_said_again_after_an_hour_or_with_other_words() {
        let mut memory = Memory::default();
        memory.tell(Reason::FailedUpdate, "a", at(0));
        assert!(memory.knows(Reason::FailedUpdate, "a", at(3599)));
        assert!(!memory.knows(Reason::FailedUpdate, "a", at(3600)));
        assert!(!memory.knows(Reason::FailedUpdate, "b", at(1)));
        assert!(!memory.knows(Reason::ReconcileError, "a", at(1)));
    }

    #[test]
    fn the_third_change_back_within_ten_minutes_ends_a_fight() {
        let mut memory = Memory::default();
        memory.write("k", Some("1"), at(0));
        assert!(!memory.is_fought("k", Some("1"), at(10)));
        memory.write("k", Some("1"), at(10));
        assert!(!memory.is_fought("k", Some("1"), at(20)));
        memory.write("k", Some("1"), at(20));
        assert!(memory.is_fought("k", Some("1"), at(30)));
        assert!(!memory.is_fought("k", Some("2"), at(30)), "another value is another matter");
        assert!(!memory.is_fought("k", Some("1"), at(700)), "that was long ago");
        memory.yield_to("k", at(30));
        assert!(memory.holds("k", at(3629)) && !memory.holds("k", at(3630)));
    }

    #[test]
    fn memory_fades() {
        let mut all = Memories::default();
        let key = |n: usize| GroupKey {
            kind: crate::facts::GroupKind::Set,
            key: api::key::ObjectKey::namespaced("n", n.to_string()),
        };
        for n in 0..3000 {
            all.change(&key(n), at(i64::try_from(n).unwrap() * 10), |memory| {
                memory.write("k", Some("1"), at(i64::try_from(n).unwrap() * 10));
            });
        }
        assert!(all.all.len() < 2100, "{}", all.all.len());
    }
}
