//! What holds of every decision of the registry, whatever the object and the time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use claim_kind::decide::{Pulse, Step, decide, pulse};
use claim_kind::guard::guard;
use claim_kind::observe::{Kind, Snapshot};
use claim_kind::status::{Availability, verdict};
use claim_kind::{SKEW, STALE};
use jiff::Timestamp;
use kit::conditions::{State, fold};
use proptest::prelude::*;

fn time() -> impl Strategy<Value = Timestamp> {
    let near = (0i64..2_000).prop_map(|s| Timestamp::from_second(1_800_000_000 + s).unwrap());
    let any =
        (Timestamp::MIN.as_second()..=Timestamp::MAX.as_second()).prop_map(|s| Timestamp::from_second(s).unwrap());
    prop_oneof![9 => near, 1 => any]
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    (proptest::option::of(time()), time(), proptest::option::of("[a-z ]{1,20}")).prop_map(
        |(heartbeat, now, problem)| {
            let kind = Kind {
                uid: "u".into(),
                generation: 1,
                controller: "x.berth.dev".into(),
                heartbeat,
                problem: problem.map(Into::into),
                stored: Availability::default(),
            };
            Snapshot { key: ObjectKey::cluster_scoped("k"), kind: Arc::new(kind), now }
        },
    )
}

/// The same kind at another time, with the conditions that were written meanwhile.
fn later(snapshot: &Snapshot, now: Timestamp) -> Snapshot {
    let mut kind = (*snapshot.kind).clone();
    kind.stored.conditions = fold(&kind.stored.conditions, &[verdict(snapshot, None)], 1, snapshot.now).conditions;
    Snapshot { kind: Arc::new(kind), now, ..snapshot.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn safe_and_total_the_guard_accepts_every_plan(s in snapshot()) {
        prop_assert_eq!(guard(&s, &decide(&s)), Ok(()));
    }

    /// Following the waits, without any further heartbeat, every kind ends where nothing is left to do.
    #[test]
    fn converges_without_a_heartbeat_a_kind_ends_unserved(mut s in snapshot()) {
        for _ in 0..3 {
            match decide(&s).pop() {
                None => break,
                Some(Step::Wait { until }) => s = later(&s, until),
            }
        }
        prop_assert!(decide(&s).is_empty());
        prop_assert_ne!(verdict(&s, None).state, State::True);
    }

    /// A second look at the same moment changes nothing: no step, no other condition.
    #[test]
    fn quiet_a_second_pass_writes_nothing(s in snapshot()) {
        let again = later(&s, s.now);
        let twice = later(&again, s.now);
        prop_assert_eq!(decide(&s), decide(&again));
        prop_assert_eq!(&again.kind.stored, &twice.kind.stored);
    }

    /// A living controller is never called dead, and a dead one is found out by the next planned look at the latest.
    #[test]
    fn a_kind_is_served_exactly_while_its_heartbeat_is_fresh(s in snapshot()) {
        let fresh = s.kind.heartbeat.is_some_and(|h| {
            let age = s.now.duration_since(h);
            age < jiff::SignedDuration::try_from(STALE).unwrap() && age >= -jiff::SignedDuration::try_from(SKEW).unwrap()
        });
        let extreme = s.kind.heartbeat.is_some_and(|h| h.checked_add(STALE).is_err()) || s.now.checked_add(SKEW).is_err();
        prop_assume!(!extreme);
        prop_assert_eq!(matches!(pulse(&s), Pulse::Alive(_)), fresh);
        prop_assert_eq!(verdict(&s, None).state == State::True, fresh && s.kind.problem.is_none());
    }

    /// An older snapshot of the same kind never plans anything but a look; there is nothing it could destroy.
    #[test]
    fn stale_proof_old_news_only_leads_to_another_look(s in snapshot(), back in 0u64..10_000) {
        let Ok(before) = s.now.checked_sub(Duration::from_secs(back)) else { return Ok(()) };
        let old = Snapshot { now: before, ..s };
        for step in decide(&old) {
            let Step::Wait { until } = step;
            prop_assert!(until > before);
        }
    }

    #[test]
    fn messages_are_short_and_hold_no_numbers_that_move(s in snapshot()) {
        let message = verdict(&s, None).message;
        prop_assert!(message.chars().count() <= 300);
        prop_assert!(s.kind.problem.is_some() || !message.chars().any(|c| c.is_ascii_digit()), "{}", message);
    }
}
