//! Conditions are folded, not set: rooms return verdicts without a clock, the fold keeps times that did not move.

use std::collections::BTreeMap;
use std::fmt;

use api::reasons::common::Reason;
use api::status::sort;
use jiff::{Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Longer messages are cut here, in characters.
pub const LONGEST_MESSAGE: usize = 300;

/// The type of the condition that sums up the others.
pub const READY: &str = "Ready";

/// The three values of a condition's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It holds.
    True,
    /// It is not known yet, or no longer.
    Unknown,
    /// It does not hold.
    False,
}

impl State {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::Unknown => "Unknown",
            Self::False => "False",
        }
    }

    fn read(word: &str) -> Option<Self> {
        [Self::True, Self::Unknown, Self::False].into_iter().find(|state| state.as_str() == word)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a room thinks of one aspect of an object, without a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The condition's type, in CamelCase.
    pub type_: &'static str,
    /// Whether it holds.
    pub state: State,
    /// One CamelCase word for programs; never empty.
    pub reason: &'static str,
    /// A sentence for people, without counters, times or request ids; cut at [`LONGEST_MESSAGE`].
    pub message: String,
}

impl Verdict {
    /// A verdict from its parts.
    #[must_use]
    pub fn new(type_: &'static str, state: State, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, state, reason, message: message.into() }
    }

    /// A verdict that holds.
    #[must_use]
    pub fn yes(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(type_, State::True, reason, message)
    }

    /// A verdict that does not hold.
    #[must_use]
    pub fn no(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(type_, State::False, reason, message)
    }

    /// A verdict that nobody can give yet.
    #[must_use]
    pub fn unknown(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(type_, State::Unknown, reason, message)
    }
}

/// A condition that moved, in its state or its reason: one event is told for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The condition's type.
    pub type_: &'static str,
    /// The state before; none when the condition is new or its old state was no state we know.
    pub from: Option<State>,
    /// The state now.
    pub to: State,
    /// The reason now.
    pub reason: &'static str,
    /// The message now, as stored.
    pub message: String,
}

/// The conditions to store and what moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Folded {
    /// All conditions, sorted by type, those of others untouched.
    pub conditions: Vec<Condition>,
    /// The conditions whose state or reason moved, sorted by type.
    pub transitions: Vec<Transition>,
}

/// Folds verdicts into the stored conditions: the transition time changes only when the state does and never moves
/// back; conditions nobody judges here stay as they are. Of two verdicts on one type the worse one counts.
#[must_use]
pub fn fold(old: &[Condition], verdicts: &[Verdict], generation: i64, now: Timestamp) -> Folded {
    let mut judged: BTreeMap<&'static str, &Verdict> = BTreeMap::new();
    for verdict in verdicts {
        let worst = judged.entry(verdict.type_).or_insert(verdict);
        if rank(verdict) > rank(worst) {
            *worst = verdict;
        }
    }
    // The server stores whole seconds; finer times would differ from what is read back.
    let now = now.round(jiff::TimestampRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Floor)).unwrap_or(now);
    let mut conditions: Vec<Condition> =
        old.iter().filter(|c| !judged.contains_key(c.type_.as_str())).cloned().collect();
    let mut transitions = Vec::new();
    for (type_, verdict) in judged {
        let before = old.iter().find(|c| c.type_ == type_);
        let from = before.and_then(|c| State::read(&c.status));
        let message = cut(&verdict.message);
        let since = match before {
            Some(before) if from == Some(verdict.state) => before.last_transition_time.0,
            Some(before) => now.max(before.last_transition_time.0),
            None => now,
        };
        let because = before.map(|condition| condition.reason.as_str());
        if from != Some(verdict.state) || because != Some(verdict.reason) {
            let (to, reason, message) = (verdict.state, verdict.reason, message.clone());
            transitions.push(Transition { type_, from, to, reason, message });
        }
        conditions.push(Condition {
            type_: type_.to_owned(),
            status: verdict.state.as_str().to_owned(),
            reason: verdict.reason.to_owned(),
            message,
            observed_generation: Some(generation),
            last_transition_time: Time(since),
        });
    }
    sort(&mut conditions);
    Folded { conditions, transitions }
}

/// The `Ready` verdict over the types in `order`: a false one counts before an unknown one, of equals the first in
/// `order`; a type without a verdict is unknown.
#[must_use]
pub fn summary(verdicts: &[Verdict], order: &[&'static str]) -> Verdict {
    let judge = |type_: &&'static str| {
        let found = verdicts.iter().filter(|v| v.type_ == *type_).max_by_key(|v| rank(v)).cloned();
        let words = "It has not been judged yet; the next look does.";
        found.unwrap_or_else(|| Verdict::unknown(type_, Reason::NotJudged.as_str(), words))
    };
    let mut worst: Option<Verdict> = None;
    for verdict in order.iter().map(judge).filter(|v| v.state != State::True) {
        if worst.as_ref().is_none_or(|w| verdict.state > w.state) {
            worst = Some(verdict);
        }
    }
    match worst {
        None => Verdict::yes(READY, READY, String::new()),
        Some(Verdict { type_, state, reason, message }) if message.is_empty() => {
            Verdict::new(READY, state, reason, type_)
        }
        Some(Verdict { type_, state, reason, message }) => {
            Verdict::new(READY, state, reason, format!("{type_}: {message}"))
        }
    }
}

fn rank(verdict: &Verdict) -> (State, &str, &str) {
    (verdict.state, verdict.reason, &verdict.message)
}

/// The message as stored: whole when it fits, else its beginning and an ellipsis.
fn cut(message: &str) -> String {
    if message.char_indices().nth(LONGEST_MESSAGE).is_none() {
        return message.to_owned();
    }
    message.chars().take(LONGEST_MESSAGE - 1).chain(['…']).collect()
}

/// Those conditions that verdicts tell of, in the order in which they are kept. Conditions of others are theirs.
#[must_use]
pub fn ours(conditions: &[Condition], verdicts: &[Verdict]) -> Vec<Condition> {
    let told = |condition: &&Condition| verdicts.iter().any(|verdict| verdict.type_ == condition.type_);
    let mut ours: Vec<Condition> = conditions.iter().filter(told).cloned().collect();
    sort(&mut ours);
    ours
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TYPES: [&str; 5] = ["Addressed", "Bound", "Placed", "Ready", "Reachable"];
    const REASONS: [&str; 3] = ["AsAsked", "Waiting", "Refused"];

    fn state() -> impl Strategy<Value = State> {
        prop_oneof![Just(State::True), Just(State::Unknown), Just(State::False)]
    }

    fn verdict() -> impl Strategy<Value = Verdict> {
        (prop::sample::select(&TYPES[..]), state(), prop::sample::select(&REASONS[..]), "\\PC{0,320}")
            .prop_map(|(type_, state, reason, message)| Verdict::new(type_, state, reason, message))
    }

    fn instant() -> impl Strategy<Value = Timestamp> {
        (0i64..4_000_000_000, 0i32..1_000_000_000).prop_map(|(s, ns)| Timestamp::new(s, ns).unwrap())
    }

    fn condition() -> impl Strategy<Value = Condition> {
        let types = prop_oneof![Just("Foreign"), Just("Zonal"), prop::sample::select(&TYPES[..])];
        let states = prop::sample::select(&["True", "False", "Unknown", "Maybe"][..]);
        (types, states, instant(), prop::option::of(0i64..9), ".{0,10}").prop_map(
            |(type_, status, at, generation, message)| Condition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: "Old".to_owned(),
                message,
                observed_generation: generation,
                last_transition_time: Time(at),
            },
        )
    }

    fn stored() -> impl Strategy<Value = Vec<Condition>> {
        prop::collection::btree_map("[a-z]", condition(), 0..8).prop_map(|map| {
            let unique: BTreeMap<String, Condition> = map.into_values().map(|c| (c.type_.clone(), c)).collect();
            unique.into_values().collect()
        })
    }

    fn verdicts() -> impl Strategy<Value = Vec<Verdict>> {
        prop::collection::vec(verdict(), 0..7)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn folding_twice_changes_nothing(old in stored(), verdicts in verdicts(), generation: i64, now in instant(), later in instant()) {
            let once = fold(&old, &verdicts, generation, now);
            let twice = fold(&once.conditions, &verdicts, generation, later);
            prop_assert_eq!(&twice.conditions, &once.conditions);
            prop_assert!(twice.transitions.is_empty());
        }

        #[test]
        fn the_order_of_verdicts_and_of_old_conditions_does_not_matter(
            (old, other) in stored().prop_flat_map(|v| (Just(v.clone()), Just(v).prop_shuffle())),
            (verdicts, shuffled) in verdicts().prop_flat_map(|v| (Just(v.clone()), Just(v).prop_shuffle())),
            now in instant(),
        ) {
            prop_assert_eq!(fold(&old, &verdicts, 1, now), fold(&other, &shuffled, 1, now));
        }

        #[test]
        fn times_move_only_with_the_state_and_never_back(old in stored(), verdicts in verdicts(), now in instant()) {
            let folded = fold(&old, &verdicts, 1, now);
            for after in &folded.conditions {
                let Some(before) = old.iter().find(|c| c.type_ == after.type_) else {
                    prop_assert!(after.last_transition_time.0 <= now);
                    continue;
                };
                prop_assert!(after.last_transition_time.0 >= before.last_transition_time.0);
                let told = folded.transitions.iter().any(|t| t.type_ == after.type_);
                prop_assert_eq!(told, before.status != after.status || before.reason != after.reason);
                if before.status == after.status {
                    prop_assert_eq!(&after.last_transition_time, &before.last_transition_time);
                }
            }
        }

        #[test]
        fn conditions_of_others_stay_and_ours_are_whole(old in stored(), verdicts in verdicts(), generation: i64, now in instant()) {
            let folded = fold(&old, &verdicts, generation, now);
            prop_assert!(folded.conditions.is_sorted_by(|a, b| a.type_ < b.type_));
            for before in &old {
                if verdicts.iter().all(|v| v.type_ != before.type_) {
                    prop_assert!(folded.conditions.contains(before));
                }
            }
            for verdict in &verdicts {
                let after = folded.conditions.iter().find(|c| c.type_ == verdict.type_).unwrap();
                prop_assert_eq!(after.observed_generation, Some(generation));
                prop_assert!(after.message.chars().count() <= LONGEST_MESSAGE);
                prop_assert!(State::read(&after.status).unwrap() >= verdict.state, "the worst verdict counts");
            }
        }

        #[test]
        fn a_stored_fold_reads_back_equal(verdicts in verdicts(), now in instant()) {
            let folded = fold(&[], &verdicts, 3, now).conditions;
            let text = serde_json::to_string(&folded).unwrap();
            prop_assert_eq!(serde_json::from_str::<Vec<Condition>>(&text).unwrap(), folded);
        }

        #[test]
        fn the_summary_is_the_worst_state_in_order(verdicts in verdicts()) {
            let sum = summary(&verdicts, &TYPES);
            let worst = |type_: &str| verdicts.iter().filter(|v| v.type_ == type_).map(|v| v.state).max().unwrap_or(State::Unknown);
            prop_assert_eq!(sum.state, TYPES.iter().map(|t| worst(t)).max().unwrap());
            if sum.state != State::True {
                let first = TYPES.iter().find(|t| worst(t) == sum.state).unwrap();
                prop_assert!(sum.message.starts_with(*first));
            }
        }
    }

    #[test]
    fn long_messages_are_cut_on_a_character() {
        let exact = "ü".repeat(LONGEST_MESSAGE);
        assert_eq!(cut(&exact), exact);
        let long = cut(&format!("{exact}ü"));
        assert_eq!((long.chars().count(), long.chars().last()), (LONGEST_MESSAGE, Some('…')));
    }

    #[test]
    fn a_transition_tells_both_states() {
        let now: Timestamp = "2030-01-01T00:00:00.9Z".parse().unwrap();
        let first = fold(&[], &[Verdict::unknown("Bound", "Waiting", "no host yet")], 1, now);
        assert_eq!(first.transitions[0].from, None);
        assert_eq!(first.conditions[0].last_transition_time.0.to_string(), "2030-01-01T00:00:00Z");
        let second = fold(&first.conditions, &[Verdict::yes("Bound", "AsAsked", "")], 2, now);
        assert_eq!((second.transitions[0].from, second.transitions[0].to), (Some(State::Unknown), State::True));
    }
}
