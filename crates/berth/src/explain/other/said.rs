//! What a status says, in any of the forms that kinds have for it.

use api::reasons::clusters::VALID;
use api::reasons::{ACCEPTED, AVAILABLE, Entry, PAUSED, READY};
use api::views::ConditionView;
use k8s_openapi::jiff::Timestamp;
use kit::explain::{Fact, Level, Need};
use serde::Deserialize as _;
use serde_json::Value;

use crate::screen;

/// Conditions that sum up the others; the first that an object has counts.
const WHOLE: [&str; 4] = [READY, AVAILABLE, ACCEPTED, VALID];

/// Conditions of Cluster API that tell of something that goes on: nothing is wanted while they are false.
const CONTRARY: [&str; 7] = [PAUSED, "Deleting", "RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Updating"];

/// Reasons that go away by themselves, beside those that say so by their first or last word.
const PASSING: [&str; 4] = ["Deleting", "Provisioning", "ScalingUp", "ScalingDown"];

/// Where a failure stands in words, in the forms that kinds without conditions have for it, too.
const FAILURES: [&str; 3] = ["/failureMessage", "/errorMessage", "/failureReason"];

/// A value that people can read.
pub fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The reason as Berth knows it, of this room if the room has it: rooms may use one word for different things.
fn meant(room: Option<&str>, reason: &str) -> Option<Entry> {
    let all: Vec<Entry> = api::reasons::all().into_iter().filter(|entry| entry.reason == reason).collect();
    all.iter().find(|entry| Some(entry.room) == room).or(all.first()).copied()
}

/// One condition and how things stand by it.
#[derive(Debug)]
struct Judged {
    condition: ConditionView,
    level: Level,
}

impl Judged {
    fn of(condition: ConditionView) -> Self {
        let type_ = condition.type_.as_str();
        let passes = condition.severity.as_deref() == Some("Info")
            || condition.reason.starts_with("Waiting")
            || ["InProgress", "Pending"].iter().any(|end| condition.reason.ends_with(*end))
            || PASSING.contains(&condition.reason.as_str());
        let level = match (condition.status.as_str(), CONTRARY.contains(&type_)) {
            ("True", false) | ("False", true) => Level::Ok,
            ("True", true) if type_ == PAUSED => Level::Aside,
            ("True", true) => Level::Waiting,
            _ if passes => Level::Waiting,
            ("False", false) => Level::Problem,
            _ => Level::Unknown,
        };
        Self { condition, level }
    }

    fn type_(&self) -> &str {
        &self.condition.type_
    }

    fn is_contrary(&self) -> bool {
        CONTRARY.contains(&self.type_())
    }

    fn sentence(&self) -> String {
        let ConditionView { type_, status, message, .. } = &self.condition;
        match message.trim() {
            "" if status.is_empty() => format!("{type_} has no status, and nothing more is said"),
            "" => format!("{type_} is {status}, and nothing more is said"),
            message => message.to_owned(),
        }
    }

    fn need(&self, room: Option<&str>, required: bool, now: Timestamp) -> Need {
        let ConditionView { type_, reason, last_transition_time, .. } = &self.condition;
        let entry = meant(room, reason);
        // On objects of others the word may be theirs.
        let meaning = entry.map(|entry| match room {
            Some(_) => entry.meaning.to_owned(),
            None => format!("where it comes from Berth: {}", entry.meaning),
        });
        let since = last_transition_time.as_ref().map(|time| {
            let age = now.as_second().saturating_sub(time.0.as_second()).max(0);
            format!("{}, {} ago", time.0, screen::age(age))
        });
        let all = [
            // One that is not known here is kept as it is.
            ("reason", entry.is_none().then(|| reason.clone()).filter(|reason| !reason.is_empty())),
            ("meaning", meaning),
            ("page", entry.map(|entry| entry.anchor.to_owned())),
            ("since", since),
        ];
        Need {
            name: screen::plain(type_),
            level: self.level,
            reason: entry.map(|entry| entry.reason),
            sentence: self.sentence(),
            required,
            facts: all.into_iter().filter_map(|(name, value)| Some(Fact { name, value: value? })).collect(),
            ..Need::default()
        }
    }
}

/// What a status says.
pub struct Said {
    judged: Vec<Judged>,
    /// Whether there is nothing in it.
    pub empty: bool,
    /// What went wrong, where that stands outside of conditions.
    pub failure: Option<String>,
    /// The generation that it speaks of.
    pub generation: Option<i64>,
    spec_valid: Option<bool>,
    ready: Option<bool>,
    operational: Option<String>,
}

impl Said {
    /// Reads a status.
    pub fn of(status: &Value) -> Self {
        // The older contract of Cluster API keeps the newer conditions apart; those are the ones to go by.
        let newer = status.pointer("/v1beta2/conditions").and_then(Value::as_array).filter(|all| !all.is_empty());
        let all = newer.or_else(|| status.get("conditions").and_then(Value::as_array));
        let read = |condition: &Value| ConditionView::deserialize(condition).ok().filter(|one| !one.type_.is_empty());
        let flag = |field: &str| status.get(field).and_then(Value::as_bool);
        Self {
            judged: all.into_iter().flatten().filter_map(read).map(Judged::of).collect(),
            empty: status.as_object().is_none_or(|all| all.is_empty()),
            failure: FAILURES.iter().find_map(|place| status.pointer(place).and_then(word)),
            generation: status.get("observedGeneration").and_then(Value::as_i64),
            spec_valid: flag("specValid"),
            ready: flag("ready"),
            operational: status.get("operationalStatus").and_then(word),
        }
    }

    fn whole(&self) -> Option<&Judged> {
        WHOLE.iter().find_map(|type_| self.judged.iter().find(|judged| judged.type_() == *type_))
    }

    /// Whether the condition that sums up the others holds.
    fn holds(&self) -> bool {
        self.whole().is_some_and(|whole| whole.level == Level::Ok)
    }

    /// The types of the conditions that do not hold.
    pub fn failing(&self) -> Vec<&str> {
        self.judged.iter().filter(|judged| judged.level != Level::Ok).map(Judged::type_).collect()
    }

    /// Whether there is a condition of this type and it does not hold.
    pub fn fails(&self, type_: &str) -> bool {
        self.failing().contains(&type_)
    }

    /// Whether it says that nothing is done.
    pub fn is_paused(&self) -> bool {
        self.judged.iter().any(|judged| judged.level == Level::Aside)
    }

    /// What keeps the object from being fine: the worst, where one can tell a cause rather than the sum.
    pub fn trouble(&self) -> Option<(Level, String)> {
        let of_conditions = if self.holds() { None } else { self.worst() };
        let told = of_conditions.map(|worst| (worst.level, worst.sentence()));
        let failure = || Some((Level::Problem, self.failure.clone()?));
        let invalid = "its spec is not valid, and nothing more is said";
        told.or_else(failure).or_else(|| (self.spec_valid == Some(false)).then(|| (Level::Problem, invalid.to_owned())))
    }

    fn worst(&self) -> Option<&Judged> {
        let failing = || self.judged.iter().filter(|judged| judged.level != Level::Ok);
        let whole = self.whole().map(Judged::type_);
        let causes: Vec<&Judged> =
            failing().filter(|judged| Some(judged.type_()) != whole && !judged.is_contrary()).collect();
        let all: Vec<&Judged> = if causes.is_empty() { failing().collect() } else { causes };
        let order = [Level::Problem, Level::Unknown, Level::Waiting];
        order.into_iter().find_map(|level| all.iter().copied().find(|judged| judged.level == level))
    }

    /// What says that the object is fine, if anything does.
    pub fn well(&self) -> Option<String> {
        let failing = self.failing();
        match (self.judged.as_slice(), self.whole()) {
            ([], _) if self.spec_valid == Some(true) => Some("its spec is valid".to_owned()),
            ([], _) if self.ready == Some(true) => Some("it is ready".to_owned()),
            ([], _) if self.operational.as_deref() == Some("OK") => Some("it is OK".to_owned()),
            ([], _) => None,
            (_, Some(whole)) if !failing.is_empty() => {
                Some(format!("{} holds, though not everything does: {}", whole.type_(), failing.join(", ")))
            }
            ([one], _) => Some(format!("its only condition {} is as it should be", one.type_())),
            (all, _) => Some(format!("all {} conditions are as they should be", all.len())),
        }
    }

    /// How the object stands by words that are neither conditions nor good news.
    pub fn state(&self) -> Option<(Level, String)> {
        match (self.ready, self.operational.as_deref()) {
            (Some(false), _) => Some((Level::Waiting, "it is not ready yet".to_owned())),
            (_, Some("detached")) => Some((Level::Aside, "it is detached: nobody works on it".to_owned())),
            (_, Some(operational)) => Some((Level::Waiting, format!("its operational status is {operational}"))),
            _ => None,
        }
    }

    /// The conditions that do not hold, each with what it means.
    pub fn needs(&self, room: Option<&str>, now: Timestamp) -> Vec<Need> {
        let failing = self.judged.iter().filter(|judged| judged.level != Level::Ok);
        failing.map(|judged| judged.need(room, !self.holds(), now)).collect()
    }
}
