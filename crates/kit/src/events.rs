//! Events for people: one per transition, on the object they look at.
//!
//! What is said again within minutes is counted in the event that said it first. Only the latest events are remembered for
//! that, and only by what tells them apart: whoever has to tell of very many objects at once walks through none of them, and
//! keeps none of them whole.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::class::chain;
use crate::clock::Clock;
use crate::write::Target;

/// What is said again within this time is counted.
const AGAIN: Duration = Duration::from_secs(360);
/// So many events are remembered, about two hundred bytes each; what is said again beyond that is said anew.
const REMEMBERED: usize = 4096;

/// What makes two events the same one, said twice: about which incarnation of an object, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Matter {
    object: Box<str>,
    uid: Box<str>,
    warning: bool,
    reason: Box<str>,
}

/// An event that was told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    name: String,
    count: i32,
    at: Timestamp,
}

/// The latest events.
#[derive(Debug, Default)]
struct Memory {
    /// Each with the number of its last time.
    told: HashMap<Matter, (u64, Told)>,
    /// Every time that something was told, numbered, the oldest first.
    order: VecDeque<(u64, Timestamp, Matter)>,
    times: u64,
}

impl Memory {
    /// The event that said it before, and how often it is said with this time; `None` when it is new.
    fn again(&self, matter: &Matter, now: Timestamp) -> Option<(String, i32)> {
        let (_, told) = self.told.get(matter).filter(|(_, told)| is_recent(told.at, now))?;
        Some((told.name.clone(), told.count.saturating_add(1)))
    }

    /// It was told.
    fn note(&mut self, matter: Matter, told: Told) {
        let now = told.at;
        self.times += 1;
        self.order.push_back((self.times, now, matter.clone()));
        self.told.insert(matter, (self.times, told));
        while self.order.len() > REMEMBERED || self.order.front().is_some_and(|(_, at, _)| !is_recent(*at, now)) {
            let Some((time, _, matter)) = self.order.pop_front() else { break };
            // What was said again since has a later place in the order.
            if self.told.get(&matter).is_some_and(|(last, _)| *last == time) {
                self.told.remove(&matter);
            }
        }
    }

    /// The event is not there any more.
    fn forget(&mut self, matter: &Matter) {
        self.told.remove(matter);
    }
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    at.saturating_add(AGAIN).is_ok_and(|end| end > now)
}

/// Publishes events in the name of one room. One per process and room: it remembers what it said, to count what it says again.
#[derive(Clone)]
pub struct Events {
    client: Client,
    controller: String,
    instance: String,
    clock: Clock,
    memory: Arc<Mutex<Memory>>,
}

impl Events {
    /// Events reported by `berth-<room>`.
    #[must_use]
    pub fn new(client: Client, room: &str, instance: Option<String>) -> Self {
        let controller = format!("berth-{room}");
        let instance = instance.unwrap_or_else(|| controller.clone());
        Self { client, controller, instance, clock: Clock::system(), memory: Arc::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something about `target`. Losing an event must never fail a pass, so errors are only logged.
    pub async fn say(&self, target: &Target, warning: bool, reason: &str, message: &str) {
        let object = target.to_string().into();
        let matter = Matter { object, uid: target.uid.clone(), warning, reason: reason.into() };
        if let Err(error) = self.tell(target, matter, message).await {
            tracing::warn!(object = %target, reason, error = %chain(&error), "event not published");
        }
    }

    async fn tell(&self, target: &Target, matter: Matter, message: &str) -> Result<(), kube::Error> {
        // What is about a cluster-scoped object is told in the namespace that every cluster has.
        let events: Api<Event> = Api::namespaced(self.client.clone(), target.key.namespace().unwrap_or("default"));
        let now = self.clock.now();
        let again = self.memory().again(&matter, now);
        if let Some((name, count)) = again {
            let series = json!({"series": {"count": count, "lastObservedTime": MicroTime(now)}});
            match events.patch(&name, &PatchParams::default(), &Patch::Merge(&series)).await {
                Ok(_) => {
                    self.memory().note(matter, Told { name, count, at: now });
                    return Ok(());
                }
                // The server keeps events for an hour, and anybody may delete one.
                Err(kube::Error::Api(status)) if status.code == 404 => self.memory().forget(&matter),
                Err(error) => return Err(error),
            }
        }
        let event = self.event(target, &matter, message, now);
        let name = event.metadata.name.clone().unwrap_or_default();
        events.create(&PostParams::default(), &event).await?;
        self.memory().note(matter, Told { name, count: 1, at: now });
        Ok(())
    }

    fn event(&self, target: &Target, matter: &Matter, message: &str, now: Timestamp) -> Event {
        Event {
            action: Some("Reconcile".to_owned()),
            event_time: Some(MicroTime(now)),
            metadata: ObjectMeta {
                name: Some(format!("{}.{:x}", target.key.name(), now.as_nanosecond())),
                namespace: target.key.namespace().map(str::to_owned),
                ..ObjectMeta::default()
            },
            note: Some(cut(message).to_owned()),
            reason: Some(matter.reason.to_string()),
            regarding: Some(reference(target)),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(if matter.warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        }
    }
}

/// The server refuses an event with a longer note.
const NOTE: usize = 1024;

fn cut(message: &str) -> &str {
    message.get(..message.floor_char_boundary(NOTE)).unwrap_or_default()
}

fn reference(target: &Target) -> ObjectReference {
    ObjectReference {
        api_version: Some(target.kind.api_version()),
        kind: Some(target.kind.kind.clone()),
        name: Some(target.key.name().to_owned()),
        namespace: target.key.namespace().map(str::to_owned),
        uid: Some(target.uid.to_string()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = "ä".repeat(NOTE);
        assert_eq!(cut(&long), "ä".repeat(NOTE / 2));
        assert_eq!(cut(&format!("a{long}")).len(), NOTE - 1);
    }

    fn matter(uid: usize) -> Matter {
        Matter { object: "Kind a/b".into(), uid: uid.to_string().into(), warning: false, reason: "Because".into() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn say(memory: &mut Memory, uid: usize, second: i64) -> i32 {
        let (name, count) = memory.again(&matter(uid), at(second)).unwrap_or((format!("{uid}.{second}"), 1));
        memory.note(matter(uid), Told { name, count, at: at(second) });
        count
    }

    #[test]
    fn what_is_said_again_within_minutes_is_counted_and_what_is_not_is_new() {
        let mut memory = Memory::default();
        assert_eq!([0, 100, 300].map(|second| say(&mut memory, 1, second)), [1, 2, 3]);
        assert_eq!(memory.again(&matter(1), at(400)), Some(("1.0".to_owned(), 4)));
        let warned = Matter { warning: true, ..matter(1) };
        assert_eq!((memory.again(&warned, at(400)), memory.again(&matter(2), at(400))), (None, None));
        assert_eq!(say(&mut memory, 1, 660), 1, "six minutes later");
        memory.forget(&matter(1));
        assert_eq!(memory.again(&matter(1), at(661)), None);
    }

    #[test]
    fn no_more_than_the_latest_are_remembered() {
        let mut memory = Memory::default();
        for uid in 0..3 * REMEMBERED {
            say(&mut memory, uid, 0);
            // One that goes on being said keeps its place.
            say(&mut memory, 7, 1);
            assert!(memory.order.len() <= REMEMBERED && memory.told.len() <= REMEMBERED);
        }
        assert!(memory.again(&matter(7), at(2)).is_some() && memory.again(&matter(8), at(2)).is_none());
        say(&mut memory, 1, 1000);
        assert_eq!((memory.order.len(), memory.told.len()), (1, 1), "and none for longer than is counted");
    }
}
