//! Time in the simulated world: values that change at known moments.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A moment later by `by`, or the last one there is.
#[must_use]
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| at.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

/// A moment earlier by `by`, or the first one there is.
#[must_use]
pub fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| at.checked_sub(by).ok()).unwrap_or(Timestamp::MIN)
}

/// How long it is from one moment to a later one; zero when it is not later.
#[must_use]
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

/// A moment as the service writes it.
#[must_use]
pub fn written(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// A value and when it changed or will change. Reading it at an earlier moment gives what was true then, which is how
/// reads lag behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History<T> {
    events: Vec<(Timestamp, T)>,
}

impl<T> History<T> {
    /// A value that holds from a moment on.
    #[must_use]
    pub fn new(from: Timestamp, value: T) -> Self {
        Self { events: vec![(from, value)] }
    }

    /// The value at a moment; nothing before the first.
    #[must_use]
    pub fn at(&self, when: Timestamp) -> Option<&T> {
        self.events.iter().rev().find(|(from, _)| *from <= when).map(|(_, value)| value)
    }

    /// Changes the value from a moment on and forgets what was planned after it.
    pub fn set(&mut self, from: Timestamp, value: T) {
        self.events.retain(|(when, _)| *when < from);
        self.events.push((from, value));
    }

    /// The periods in which the value satisfied `test`, with no end for one that lasts.
    pub fn periods(&self, test: impl Fn(&T) -> bool) -> Vec<(Timestamp, Option<Timestamp>)> {
        let ends = self.events.iter().skip(1).map(|(when, _)| Some(*when)).chain([None]);
        let mut found: Vec<(Timestamp, Option<Timestamp>)> = Vec::new();
        for ((from, value), end) in self.events.iter().zip(ends) {
            if !test(value) {
                continue;
            }
            match found.last_mut() {
                Some((_, last)) if *last == Some(*from) => *last = end,
                _ => found.push((*from, end)),
            }
        }
        found
    }

    /// The first moment at which the value satisfied, or will satisfy, `test`.
    pub fn first(&self, test: impl Fn(&T) -> bool) -> Option<Timestamp> {
        self.events.iter().find(|(_, value)| test(value)).map(|(when, _)| *when)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::new(second, 0).unwrap()
    }

    #[test]
    fn a_history_is_read_at_any_moment() {
        let mut history = History::new(at(10), 'a');
        history.set(at(20), 'b');
        history.set(at(30), 'c');
        let seen: Vec<Option<&char>> = [9, 10, 19, 20, 99].map(|n| history.at(at(n))).to_vec();
        assert_eq!(seen, [None, Some(&'a'), Some(&'a'), Some(&'b'), Some(&'c')]);
        assert_eq!(history.periods(|v| *v != 'b'), [(at(10), Some(at(20))), (at(30), None)]);
        assert_eq!(history.periods(|v| *v != 'c'), [(at(10), Some(at(30)))]);
        assert_eq!(history.first(|v| *v == 'c'), Some(at(30)));
        history.set(at(15), 'd');
        assert_eq!(history.at(at(99)), Some(&'d'), "plans after a change are void");
    }

    #[test]
    fn moments_never_overflow() {
        assert_eq!(later(Timestamp::MAX, Duration::MAX), Timestamp::MAX);
        assert_eq!(earlier(Timestamp::MIN, Duration::MAX), Timestamp::MIN);
        assert_eq!(between(at(5), at(3)), Duration::ZERO);
        assert_eq!(written(at(0)), "1970-01-01T00:00:00.000Z");
    }
}
