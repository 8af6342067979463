//! Which objects took longest lately, and which passes failed last: what metrics cannot tell, because their labels hold no
//! names of objects.
//!
//! What is kept is bounded, whatever happens, and holds words of the code and names of objects alone: of an error its class and
//! the reason that the conditions show, never its text.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::clock::Clock;

/// How far back the slowest passes go.
const WINDOW: Duration = Duration::from_secs(600);
/// The window moves on by so much at a time. Of the oldest part only the slowest passes of all of it are known.
const SPAN: Duration = Duration::from_secs(60);
/// So many objects and so many errors are kept.
const KEPT: usize = 20;

/// A pass that has ended.
pub struct Pass<'p> {
    /// The room.
    pub room: &'static str,
    /// The kind of the object, if it became known.
    pub kind: Option<&'p str>,
    /// The object.
    pub object: &'p dyn Display,
    /// How it ended.
    pub outcome: &'static str,
    /// How long it took.
    pub took: Duration,
    /// What went wrong, if it failed.
    pub failure: Option<Failure>,
}

/// What went wrong in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `failed`, `refused`, `panicked` or `timed out`.
    pub sort: &'static str,
    /// The class of the error.
    pub class: &'static str,
    /// The reason that the object shows, if it could be told there.
    pub reason: Option<&'static str>,
}

/// An object that took long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Slow {
    /// The room.
    pub room: String,
    /// The kind of the object, if it became known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The object: its namespace, if it has one, and its name.
    pub object: String,
    /// How its slowest pass ended.
    pub outcome: String,
    /// How long that took.
    pub seconds: f64,
    /// When it ended.
    pub at: Timestamp,
}

/// An object whose pass failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// The room.
    pub room: String,
    /// The kind of the object, if it became known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The object: its namespace, if it has one, and its name.
    pub object: String,
    /// `failed`, `refused`, `panicked` or `timed out`.
    pub sort: String,
    /// The class of the error.
    pub class: String,
    /// The reason that the object shows, if it could be told there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long the last of these passes took.
    pub seconds: f64,
    /// How often it failed like this since it came into the list.
    pub times: u64,
    /// When it last did.
    pub at: Timestamp,
}

/// What happened lately.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lately {
    /// How far back the slowest go.
    pub window_seconds: u64,
    /// The objects with the slowest passes, the slowest first, each once.
    pub slowest: Vec<Slow>,
    /// The last failures, the last first; the same failure of the same object counts up.
    pub errors: Vec<Failed>,
}

/// The slowest objects of one part of the window, the slowest first, each with when it was.
struct Span {
    begun: Instant,
    slowest: Vec<(Instant, Slow)>,
}

#[derive(Default)]
struct Kept {
    clock: Option<Clock>,
    spans: VecDeque<Span>,
    /// The last comes last.
    errors: VecDeque<Failed>,
}

/// The passes of one process that are worth a look; clones share them.
#[derive(Clone, Default)]
pub struct Passes(Arc<Mutex<Kept>>);

impl std::fmt::Debug for Passes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passes")
    }
}

impl Passes {
    /// Notes a pass that has just ended.
    pub fn ended(&self, clock: &Clock, pass: &Pass<'_>) {
        let mut kept = self.lock();
        if kept.clock.is_none() {
            kept.clock = Some(clock.clone());
        }
        kept.time(clock, pass);
        if let Some(failure) = pass.failure {
            kept.fail(clock, pass, failure);
        }
    }

    /// What happened lately.
    #[must_use]
    pub fn lately(&self) -> Lately {
        let kept = self.lock();
        let mut objects: BTreeMap<(&str, &str), &Slow> = BTreeMap::new();
        if let Some(clock) = &kept.clock {
            let now = clock.instant();
            let all = kept.spans.iter().flat_map(|span| &span.slowest);
            for (_, slow) in all.filter(|(at, _)| now.saturating_duration_since(*at) < WINDOW) {
                let slowest = objects.entry((slow.room.as_str(), slow.object.as_str())).or_insert(slow);
                if slow.seconds > slowest.seconds {
                    *slowest = slow;
                }
            }
        }
        let mut slowest: Vec<Slow> = objects.into_values().cloned().collect();
        slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        slowest.truncate(KEPT);
        let errors = kept.errors.iter().rev().cloned().collect();
        Lately { window_seconds: WINDOW.as_secs(), slowest, errors }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn time(&mut self, clock: &Clock, pass: &Pass<'_>) {
        let (now, seconds) = (clock.instant(), pass.took.as_secs_f64());
        if self.spans.back().is_none_or(|span| now.saturating_duration_since(span.begun) >= SPAN) {
            self.spans.retain(|span| now.saturating_duration_since(span.begun) < WINDOW + SPAN);
            self.spans.push_back(Span { begun: now, slowest: Vec::new() });
        }
        let Some(Span { slowest, .. }) = self.spans.back_mut() else { return };
        // Most passes are faster than those that are kept, and nothing is made of their names.
        if slowest.len() >= KEPT && slowest.last().is_some_and(|(_, last)| last.seconds >= seconds) {
            return;
        }
        let object = pass.object.to_string();
        let known = slowest.iter().position(|(_, slow)| slow.room == pass.room && slow.object == object);
        if let Some(known) = known {
            if slowest.get(known).is_some_and(|(_, slow)| slow.seconds >= seconds) {
                return;
            }
            slowest.remove(known);
        }
        let place = slowest.partition_point(|(_, slow)| slow.seconds >= seconds);
        let slow = Slow {
            room: pass.room.to_owned(),
            kind: pass.kind.map(str::to_owned),
            object,
            outcome: pass.outcome.to_owned(),
            seconds,
            at: clock.now(),
        };
        slowest.insert(place, (now, slow));
        slowest.truncate(KEPT);
    }

    fn fail(&mut self, clock: &Clock, pass: &Pass<'_>, failure: Failure) {
        let mut failed = Failed {
            room: pass.room.to_owned(),
            kind: pass.kind.map(str::to_owned),
            object: pass.object.to_string(),
            sort: failure.sort.to_owned(),
            class: failure.class.to_owned(),
            reason: failure.reason.map(str::to_owned),
            seconds: pass.took.as_secs_f64(),
            times: 1,
            at: clock.now(),
        };
        let parts = |f: &Failed| (f.room.clone(), f.object.clone(), f.sort.clone(), f.class.clone(), f.reason.clone());
        let same = parts(&failed);
        let known = self.errors.iter().position(|known| parts(known) == same);
        if let Some(known) = known.and_then(|at| self.errors.remove(at)) {
            failed.times = known.times.saturating_add(1);
        }
        self.errors.push_back(failed);
        if self.errors.len() > KEPT {
            self.errors.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 1)
    }

    fn pass(object: &dyn Display, millis: u64, failure: Option<Failure>) -> Pass<'_> {
        let outcome = if failure.is_some() { "failed" } else { "changed" };
        Pass { room: "claims", kind: Some("HostClaim"), object, outcome, took: Duration::from_millis(millis), failure }
    }

    fn failure(reason: Option<&'static str>) -> Failure {
        Failure { sort: "failed", class: "transient", reason }
    }

    fn slowest(passes: &Passes) -> Vec<(String, f64)> {
        passes.lately().slowest.into_iter().map(|slow| (slow.object, slow.seconds)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_objects_come_first_and_each_with_its_slowest_pass() {
        let (passes, clock) = (Passes::default(), clock());
        assert_eq!(passes.lately(), Lately { window_seconds: 600, ..Lately::default() });
        for (object, millis) in [("a/quick", 1), ("a/slow", 900), ("a/often", 30), ("a/often", 70), ("a/often", 50)] {
            passes.ended(&clock, &pass(&object, millis, None));
        }
        let found = slowest(&passes);
        assert_eq!(found, [("a/slow".to_owned(), 0.9), ("a/often".to_owned(), 0.07), ("a/quick".to_owned(), 0.001)]);
        assert!(passes.lately().errors.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_longer_ago_than_ten_minutes_is_forgotten_also_when_nothing_happens() {
        let (passes, clock) = (Passes::default(), clock());
        passes.ended(&clock, &pass(&"a/old", 900, None));
        tokio::time::advance(Duration::from_secs(540)).await;
        passes.ended(&clock, &pass(&"a/old", 10, None));
        passes.ended(&clock, &pass(&"a/new", 20, None));
        assert_eq!(slowest(&passes), [("a/old".to_owned(), 0.9), ("a/new".to_owned(), 0.02)]);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(slowest(&passes), [("a/new".to_owned(), 0.02), ("a/old".to_owned(), 0.01)]);
        tokio::time::advance(Duration::from_secs(600)).await;
        assert!(slowest(&passes).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_bounded_and_the_slowest_of_all_are_in_it() {
        let (passes, clock) = (Passes::default(), clock());
        for minute in 0..60_u64 {
            for number in 0..100_u64 {
                let object = format!("a/{}", minute * 100 + number);
                passes.ended(&clock, &pass(&object, number + 1, (number == 7).then(|| failure(None))));
            }
            tokio::time::advance(Duration::from_secs(60)).await;
        }
        let kept = passes.lock();
        assert!(kept.spans.len() <= 12 && kept.spans.iter().all(|span| span.slowest.len() <= KEPT));
        drop(kept);
        let lately = passes.lately();
        assert_eq!((lately.slowest.len(), lately.errors.len()), (KEPT, KEPT));
        assert!(lately.slowest.iter().all(|slow| slow.seconds >= 0.0975), "{lately:?}");
        assert_eq!(lately.errors.first().map(|failed| failed.object.as_str()), Some("a/5907"), "the last comes first");
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_failure_of_an_object_counts_up_and_another_one_is_another() {
        let (passes, clock) = (Passes::default(), clock());
        for reason in [Some("Forbidden"), Some("Forbidden"), None, Some("Forbidden")] {
            passes.ended(&clock, &pass(&"a/ill", 5, Some(failure(reason))));
            tokio::time::advance(Duration::from_secs(5)).await;
        }
        passes.ended(&clock, &pass(&"a/other", 5, Some(failure(Some("Forbidden")))));
        let told: Vec<_> = passes.lately().errors.into_iter().map(|f| (f.object, f.reason, f.times)).collect();
        let word = |reason: &str| Some(reason.to_owned());
        assert_eq!(
            told,
            [
                ("a/other".to_owned(), word("Forbidden"), 1),
                ("a/ill".to_owned(), word("Forbidden"), 3),
                ("a/ill".to_owned(), None, 1)
            ]
        );
    }
}
