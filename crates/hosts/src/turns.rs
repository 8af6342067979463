//! Whose turn it is. EC2 takes few launches per second, and a host that waits for its launch is paid for: so machines line
//! up before they ask for a host, and are called at the pace of launches.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use aws::limits::Size;
use jiff::Timestamp;

/// A turn that was given is good for this long; a machine that could not use it lines up again.
const GOOD: Duration = Duration::from_secs(60);
/// Who does not come this long after the time it was told has left.
const PATIENCE: Duration = Duration::from_secs(60);

/// One machine in the line.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Who came first goes first.
    number: u64,
    /// When it was told to come.
    told: Timestamp,
}

#[derive(Debug, Default)]
struct Line {
    waiting: BTreeMap<ObjectKey, Place>,
    given: BTreeMap<ObjectKey, Timestamp>,
    next: u64,
    /// Turns that may be given now, and when they were counted; none before the first machine.
    left: Option<(f64, Timestamp)>,
}

/// The line before the launches of one region and identity.
#[derive(Debug)]
pub struct Turns {
    size: Size,
    line: Mutex<Line>,
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

impl Turns {
    /// Nobody waits.
    #[must_use]
    pub fn new(size: Size) -> Self {
        Self { size, line: Mutex::default() }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a machine may go on: now, if it is its turn, else when to ask again. Whoever asks is in the line.
    #[must_use]
    pub fn of(&self, key: &ObjectKey, now: Timestamp) -> Timestamp {
        let (burst, rate) = (f64::from(self.size.burst.max(1)), self.size.per_second.max(0.001));
        let mut line = self.line();
        let line = &mut *line;
        line.given.retain(|_, at| later(*at, GOOD) > now);
        if line.given.contains_key(key) {
            return now;
        }
        line.waiting.retain(|waiting, place| waiting == key || later(place.told, PATIENCE) > now);
        let (left, at) = line.left.unwrap_or((burst, now));
        let since = Duration::try_from(now.duration_since(at)).unwrap_or_default();
        let left = (left + since.as_secs_f64() * rate).min(burst);
        line.left = Some((left, now.max(at)));
        let number = line.waiting.get(key).map_or(line.next, |place| place.number);
        line.next = line.next.max(number.saturating_add(1));
        let before = line.waiting.values().filter(|place| place.number < number).count();
        // Every machine before this one takes a turn first.
        let missing = before as f64 + 1.0 - left;
        // Less than what a clock shows is nothing.
        if missing <= 1e-6 {
            line.waiting.remove(key);
            line.given.insert(key.clone(), now);
            line.left = Some((left - 1.0, now.max(at)));
            return now;
        }
        let told = later(now, Duration::from_secs_f64((missing / rate).min(86_400.0)));
        line.waiting.insert(key.clone(), Place { number, told });
        told
    }

    /// A machine needs no turn any more.
    pub fn forget(&self, key: &ObjectKey) {
        let mut line = self.line();
        line.waiting.remove(key);
        line.given.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> ObjectKey {
        ObjectKey::namespaced("n", format!("m{number}"))
    }

    fn at(seconds: f64) -> Timestamp {
        later(Timestamp::UNIX_EPOCH, Duration::from_secs_f64(seconds))
    }

    fn seconds(moment: Timestamp) -> f64 {
        moment.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64()
    }

    fn turns() -> Turns {
        Turns::new(Size { burst: 4, per_second: 2.0 })
    }

    #[test]
    fn a_thousand_machines_are_called_at_the_pace_of_launches_in_the_order_they_came() {
        let turns = turns();
        let mut due: BTreeMap<(Timestamp, usize), usize> = (0..1000).map(|n| ((at(0.0), n), n)).collect();
        let mut went: Vec<(usize, f64)> = Vec::new();
        let mut asked = 0;
        while let Some(((now, _), n)) = due.pop_first() {
            asked += 1;
            let told = turns.of(&key(n), now);
            if told <= now {
                went.push((n, seconds(now)));
            } else {
                due.insert((told, n), n);
            }
        }
        assert_eq!(went.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
        let last = went.last().unwrap().1;
        assert!((498.0..499.0).contains(&last), "the last one at {last}");
        assert_eq!(went.iter().filter(|(_, when)| *when == 0.0).count(), 4, "the burst goes at once");
        assert!(asked <= 3 * 1000, "{asked} questions of a thousand machines");
    }

    #[test]
    fn a_turn_is_good_for_a_while_and_then_there_is_another() {
        let turns = turns();
        for n in 0..4 {
            assert_eq!(turns.of(&key(n), at(0.0)), at(0.0));
        }
        assert_eq!(turns.of(&key(0), at(30.0)), at(30.0), "it had its turn and may use it");
        for n in 4..8 {
            assert_eq!(turns.of(&key(n), at(30.0)), at(30.0));
        }
        assert!(turns.of(&key(8), at(30.0)) > at(30.0), "using it again took nobody's turn");
        assert_eq!(turns.of(&key(0), at(70.0)), at(70.0), "an old one is taken anew");
    }

    #[test]
    fn who_leaves_makes_room_for_those_behind() {
        let turns = turns();
        for n in 0..4 {
            assert_eq!(turns.of(&key(n), at(0.0)), at(0.0));
        }
        let told: Vec<f64> = (4..104).map(|n| seconds(turns.of(&key(n), at(0.0)))).collect();
        assert!((told[0] - 0.5).abs() < 1e-6 && (told[99] - 50.0).abs() < 1e-6, "{told:?}");
        for n in 4..103 {
            turns.forget(&key(n));
        }
        assert_eq!(turns.of(&key(103), at(0.5)), at(0.5), "all the others are gone");
    }

    #[test]
    fn who_does_not_come_does_not_hold_up_others_for_ever() {
        let turns = turns();
        for n in 0..4 {
            assert_eq!(turns.of(&key(n), at(0.0)), at(0.0));
        }
        for n in 4..30 {
            let _ = turns.of(&key(n), at(0.0));
        }
        assert!(turns.of(&key(99), at(10.0)) > at(10.0), "26 are before it, and there are four turns");
        assert_eq!(turns.of(&key(99), at(80.0)), at(80.0), "none of them came");
        assert!(turns.line().waiting.is_empty());
    }
}
