//! How one object stands, in eight bytes.

use std::sync::LazyLock;

use api::reasons::{self, PAUSED};
use api::status::find;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The reason of an object about which nothing has been said yet.
const NOT_JUDGED: &str = reasons::common::Reason::NotJudged.as_str();
/// The reason of an object about which something was said that is no reason of ours.
const OTHER: &str = "Other";

/// Every word that may stand for a reason, in order. Statuses are written by many, and nobody wants a series for each word.
static WORDS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut words: Vec<&'static str> = reasons::all().into_iter().map(|entry| entry.reason).collect();
    words.extend([OTHER, ""]);
    words.sort_unstable();
    words.dedup();
    words
});

/// A reason, by its place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Word(u16);

impl Word {
    fn of(text: &str) -> Self {
        let place = WORDS.binary_search(&text).or_else(|_| WORDS.binary_search(&OTHER)).unwrap_or_default();
        Self(u16::try_from(place).unwrap_or_default())
    }

    fn text(self) -> &'static str {
        WORDS.get(usize::from(self.0)).copied().unwrap_or(OTHER)
    }
}

/// What an object has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Stage {
    /// It is as it should be.
    Ready,
    /// It is not, or not yet.
    Waiting,
    /// It is being deleted and still there.
    Deleting,
}

impl Stage {
    /// The word in metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Waiting => "waiting",
            Self::Deleting => "deleting",
        }
    }
}

/// How an object stands, why, and since when. There may be one for each of very many objects, so it is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stand {
    stage: Stage,
    reason: Word,
    /// Seconds since the epoch; objects that are ready are all alike.
    since: u32,
}

impl Stand {
    /// It is as it should be.
    #[must_use]
    pub fn ready() -> Self {
        Self { stage: Stage::Ready, reason: Word::of(""), since: 0 }
    }

    /// It waits, for this reason, since then. What is no reason of the book counts as one other word.
    #[must_use]
    pub fn waiting(reason: &str, since: Timestamp) -> Self {
        Self { stage: Stage::Waiting, reason: Word::of(reason), since: seconds(since) }
    }

    /// Nobody has said anything about it since it was made.
    #[must_use]
    pub fn unjudged(made: Timestamp) -> Self {
        Self::waiting(NOT_JUDGED, made)
    }

    /// It is being deleted since then, and this is in the way.
    #[must_use]
    pub fn deleting(reason: &str, since: Timestamp) -> Self {
        Self { stage: Stage::Deleting, ..Self::waiting(reason, since) }
    }

    /// How an object stands by its conditions: `summary` says whether it is ready, and the first of `parts` that does not
    /// hold says why not. Without any of these its own reason does, and a pause explains everything.
    #[must_use]
    pub fn judged(
        conditions: &[Condition],
        summary: &str,
        parts: &[&str],
        made: Timestamp,
        deleted: Option<Timestamp>,
    ) -> Self {
        let holds = |condition: &&Condition| condition.status == "True";
        let failing = |type_: &str| find(conditions, type_).filter(|condition| !holds(condition));
        let paused = || find(conditions, PAUSED).filter(holds);
        let part = || parts.iter().find_map(|type_| failing(type_));
        let because = paused().or_else(part).or_else(|| failing(summary)).map_or(NOT_JUDGED, |c| c.reason.as_str());
        if let Some(since) = deleted {
            return Self::deleting(because, since);
        }
        match find(conditions, summary) {
            Some(condition) if holds(&condition) => Self::ready(),
            Some(condition) => Self::waiting(because, condition.last_transition_time.0),
            None => Self::waiting(because, made),
        }
    }

    /// What it has come to.
    pub(super) fn stage(self) -> Stage {
        self.stage
    }

    /// Why it is not ready; empty when it is.
    #[must_use]
    pub fn reason(self) -> &'static str {
        self.reason.text()
    }

    /// Since when it waits, in seconds since the epoch; none when it does not.
    #[must_use]
    pub fn waiting_since(self) -> Option<i64> {
        (self.stage == Stage::Waiting).then(|| i64::from(self.since))
    }

    /// Since when, in seconds since the epoch.
    pub(super) fn since(self) -> u32 {
        self.since
    }

    /// The same, but since the time of `other` when that was earlier and neither is ready.
    pub(super) fn lasting(self, other: Self) -> Self {
        if self.stage == other.stage { Self { since: self.since.min(other.since), ..self } } else { self }
    }
}

fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.as_second().max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use api::reasons::{ASSOCIATED, READY, SYNCHRONIZED};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn condition(type_: &str, status: &str, reason: &str, second: i64) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            last_transition_time: Time(at(second)),
            observed_generation: None,
        }
    }

    #[test]
    fn it_is_small_and_every_reason_of_the_book_has_its_word() {
        assert_eq!(size_of::<Stand>(), 8);
        for entry in reasons::all() {
            assert_eq!(Stand::waiting(entry.reason, at(1)).reason(), entry.reason);
        }
        assert_eq!(Stand::waiting("a-tenant-wrote-this", at(1)).reason(), OTHER);
        assert_eq!((Stand::ready().reason(), Stand::unjudged(at(7)).reason()), ("", NOT_JUDGED));
    }

    #[test]
    fn conditions_say_how_it_stands_and_the_first_that_fails_says_why() {
        let judge = |conditions: &[Condition], deleted: Option<i64>| {
            let stand = Stand::judged(conditions, READY, &[ASSOCIATED, SYNCHRONIZED], at(10), deleted.map(at));
            (stand.stage(), stand.reason(), stand.since())
        };
        let ready = condition(READY, "True", "Ready", 20);
        let not = condition(READY, "False", "NotReady", 30);
        let host = condition(ASSOCIATED, "False", "NoBareMetalHost", 31);
        let paused = condition(PAUSED, "True", "Paused", 32);
        let well = condition(ASSOCIATED, "True", "BareMetalHostAssociated", 33);
        for (conditions, deleted, expected) in [
            (vec![], None, (Stage::Waiting, NOT_JUDGED, 10)),
            (vec![ready.clone()], None, (Stage::Ready, "", 0)),
            (vec![ready.clone(), paused.clone()], None, (Stage::Ready, "", 0)),
            (vec![not.clone(), well.clone()], None, (Stage::Waiting, "NotReady", 30)),
            (vec![not.clone(), host.clone()], None, (Stage::Waiting, "NoBareMetalHost", 30)),
            (vec![not.clone(), host.clone(), paused], None, (Stage::Waiting, "Paused", 30)),
            (vec![host.clone()], None, (Stage::Waiting, "NoBareMetalHost", 10)),
            (vec![not, host], Some(50), (Stage::Deleting, "NoBareMetalHost", 50)),
            (vec![ready, well], Some(50), (Stage::Deleting, NOT_JUDGED, 50)),
        ] {
            assert_eq!(judge(&conditions, deleted), expected, "{conditions:?}");
        }
    }
}
