//! Whose a value is: the three-way table and its properties.

use std::collections::BTreeSet;

use capacity::config::{Config, Keys, MaxPods};
use capacity::goal::{Goal, Profile};
use capacity::names::{
    APPLIED, CPU, EPHEMERAL_DISK, GPU_COUNT, GPU_TYPE, LABELS, LEGACY_CPU, LEGACY_GPU, LEGACY_MAX_PODS, LEGACY_MEMORY,
    MAX_PODS, MEMORY,
};
use capacity::plan::{Annotations, Hands, plan, same};
use proptest::prelude::*;

use crate::build::{annotations, around, catalogue};

fn goal(name: &str, keys: Keys, machine_api: bool) -> Goal {
    Goal::of(&catalogue(name), &around(name, Some(100)), Profile::of(keys, machine_api), &Config::default())
}

fn record(pairs: &[(&str, &str)]) -> String {
    let values: serde_json::Map<String, serde_json::Value> =
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
    serde_json::json!({"instanceType": "old", "region": "us-east-1", "values": values, "labels": {}}).to_string()
}

/// What becomes of one key: `None` = left, `Some(None)` = taken off.
fn change(present: &[(&str, &str)], key: &str, goal: &Goal) -> Option<Option<String>> {
    let off = BTreeSet::new();
    plan(&annotations(present), goal, Hands { off: &off }).changes.get(key).cloned()
}

#[test]
fn the_three_way_table() {
    let upstream = goal("m5.xlarge", Keys::Upstream, false);
    let wrote = |value: &str| Some(Some(value.to_owned()));
    let recorded_cpu = record(&[(CPU, "2")]);
    let recorded_gpu = record(&[(GPU_COUNT, "4"), (GPU_TYPE, "nvidia.com/gpu")]);
    for (case, present, key, wanted) in [
        ("absent: written", vec![], CPU, wrote("4")),
        ("equal: left byte for byte", vec![(CPU, "4000m")], CPU, None),
        ("equal in another unit: left", vec![(MEMORY, "16Gi")], MEMORY, None),
        ("recorded: overwritten", vec![(CPU, "2"), (APPLIED, recorded_cpu.as_str())], CPU, wrote("4")),
        (
            "recorded, spelled otherwise: overwritten",
            vec![(CPU, "2000m"), (APPLIED, recorded_cpu.as_str())],
            CPU,
            wrote("4"),
        ),
        ("derived from the older key: overwritten", vec![(CPU, "8"), (LEGACY_CPU, "8")], CPU, wrote("4")),
        ("derived memory: overwritten", vec![(MEMORY, "8Gi"), (LEGACY_MEMORY, "8192")], MEMORY, wrote("16384Mi")),
        ("a user's: kept", vec![(CPU, "3")], CPU, None),
        ("a user's after ours: kept", vec![(CPU, "3"), (APPLIED, recorded_cpu.as_str())], CPU, None),
        ("unreadable: kept", vec![(CPU, "lots")], CPU, None),
        (
            "no longer wanted and ours: taken off",
            vec![(GPU_COUNT, "4"), (APPLIED, recorded_gpu.as_str())],
            GPU_COUNT,
            Some(None),
        ),
        (
            "its other half too",
            vec![(GPU_TYPE, "nvidia.com/gpu"), (APPLIED, recorded_gpu.as_str())],
            GPU_TYPE,
            Some(None),
        ),
        ("no longer wanted and derived: taken off", vec![(GPU_COUNT, "4"), (LEGACY_GPU, "4")], GPU_COUNT, Some(None)),
        ("none is as good as absent", vec![(GPU_COUNT, "0"), (APPLIED, recorded_gpu.as_str())], GPU_COUNT, None),
        ("nameless is as good as absent", vec![(GPU_TYPE, "")], GPU_TYPE, None),
        ("not wanted and a user's: kept", vec![(GPU_COUNT, "2")], GPU_COUNT, None),
    ] {
        assert_eq!(change(&present, key, &upstream), wanted, "{case}");
    }
}

#[test]
fn overrides_are_named_never_recorded_and_unreadable_ones_told() {
    let off = BTreeSet::new();
    let recorded = record(&[(CPU, "2"), (MEMORY, "1Gi")]);
    let present = annotations(&[(CPU, "lots"), (MEMORY, "1Gi"), (APPLIED, &recorded)]);
    let found = plan(&present, &goal("m5.xlarge", Keys::Upstream, false), Hands { off: &off });
    assert_eq!(found.overrides.iter().copied().collect::<Vec<_>>(), [CPU]);
    assert_eq!(found.unreadable.iter().copied().collect::<Vec<_>>(), [CPU]);
    let applied = found.changes[APPLIED].clone().unwrap();
    assert!(!applied.contains(CPU) && applied.contains(MEMORY), "{applied}");
}

#[test]
fn older_keys_are_ours_and_copies_are_kept_in_step_but_not_introduced() {
    let legacy = goal("p3.8xlarge", Keys::Auto, true);
    assert_eq!(change(&[(LEGACY_CPU, "1")], LEGACY_CPU, &legacy), Some(Some("32".to_owned())));
    assert_eq!(change(&[(LEGACY_GPU, "garbage")], LEGACY_GPU, &legacy), Some(Some("4".to_owned())));
    assert_eq!(change(&[(LEGACY_CPU, "32000m")], LEGACY_CPU, &legacy), None);
    for key in [CPU, MEMORY, GPU_COUNT, GPU_TYPE, EPHEMERAL_DISK, APPLIED] {
        assert_eq!(change(&[], key, &legacy), None, "{key}");
    }
    let copies = [(LEGACY_GPU, "0"), (GPU_COUNT, "0"), (GPU_TYPE, "")];
    assert_eq!(change(&copies, GPU_COUNT, &legacy), Some(Some("4".to_owned())));
    assert_eq!(change(&copies, GPU_TYPE, &legacy), Some(Some("nvidia.com/gpu".to_owned())));
    let plain = goal("m5.xlarge", Keys::Auto, true);
    let gpus = [(LEGACY_GPU, "4"), (GPU_COUNT, "4"), (GPU_TYPE, "nvidia.com/gpu")];
    assert_eq!(change(&gpus, GPU_COUNT, &plain), Some(Some("0".to_owned())), "rewritten, never taken off");
    assert_eq!(change(&gpus, GPU_TYPE, &plain), Some(Some(String::new())));
}

#[test]
fn a_users_limits_of_pods_stay_and_copies_of_ours_are_kept_in_step() {
    let with = |machine_api, max_pods| {
        let config = Config { max_pods, ..Config::default() };
        let (offer, around) = (catalogue("m5.xlarge"), around("m5.xlarge", Some(100)));
        Goal::of(&offer, &around, Profile::of(Keys::Auto, machine_api), &config)
    };
    let users = [(LEGACY_MAX_PODS, "100"), (MAX_PODS, "100")];
    for (machine_api, max_pods) in
        [(false, MaxPods::Off), (false, MaxPods::Fixed(250)), (true, MaxPods::Off), (true, MaxPods::Fixed(250))]
    {
        for key in [MAX_PODS, LEGACY_MAX_PODS] {
            let goal = with(machine_api, max_pods);
            assert_eq!(change(&users, key, &goal), None, "{key} {machine_api} {max_pods:?}");
        }
    }
    let recorded = record(&[(LEGACY_MAX_PODS, "58")]);
    let copies = [(LEGACY_MAX_PODS, "58"), (MAX_PODS, "58"), (APPLIED, recorded.as_str())];
    let goal = with(true, MaxPods::Fixed(250));
    for key in [MAX_PODS, LEGACY_MAX_PODS] {
        assert_eq!(change(&copies, key, &goal), Some(Some("250".to_owned())), "{key}");
    }
    assert_eq!(change(&[], MAX_PODS, &goal), None, "a copy is not introduced");
}

#[test]
fn what_somebody_declares_is_theirs_even_an_older_key() {
    let off: BTreeSet<Box<str>> = [LEGACY_CPU.into(), CPU.into(), LABELS.into()].into();
    let present = annotations(&[(LEGACY_CPU, "1"), (CPU, "1"), (LABELS, "a=b")]);
    let found = plan(&present, &goal("m5.xlarge", Keys::Both, false), Hands { off: &off });
    for key in [LEGACY_CPU, CPU, LABELS] {
        assert!(!found.changes.contains_key(key), "{key}");
    }
    assert!(found.changes.contains_key(MEMORY) && found.changes.contains_key(LEGACY_MEMORY));
    assert!(found.overrides.contains(LEGACY_CPU));
}

#[test]
fn a_version_is_named_only_where_a_text_is_edited() {
    let off = BTreeSet::new();
    let goal = goal("m5.xlarge", Keys::Auto, true);
    let present =
        [(LEGACY_CPU, "1"), (LEGACY_MEMORY, "16384"), (LEGACY_GPU, "0"), (LABELS, "kubernetes.io/arch=amd64")];
    let found = plan(&annotations(&present), &goal, Hands { off: &off });
    assert!(!found.needs_version());
    assert_eq!(found.patch("9").to_string(), r#"{"metadata":{"annotations":{"machine.openshift.io/vCPU":"4"}}}"#);
}

fn some_value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("4".to_owned()),
        Just("16".to_owned()),
        Just("0".to_owned()),
        Just(String::new()),
        Just("16384Mi".to_owned()),
        Just("16Gi".to_owned()),
        Just("nvidia.com/gpu".to_owned()),
        Just("lots".to_owned()),
        Just("a=b,kubernetes.io/arch=arm64".to_owned()),
        Just(record(&[(CPU, "4"), (GPU_COUNT, "4")])),
        "[a-z0-9=, ]{0,12}",
    ]
}

fn some_annotations() -> impl Strategy<Value = Annotations> {
    let keys = prop::sample::select(vec![
        CPU,
        MEMORY,
        GPU_COUNT,
        GPU_TYPE,
        EPHEMERAL_DISK,
        LABELS,
        LEGACY_CPU,
        LEGACY_MEMORY,
        LEGACY_GPU,
        APPLIED,
    ]);
    prop::collection::btree_map(keys.prop_map(Into::into), some_value().prop_map(Into::into), 0..10)
}

fn some_goal() -> impl Strategy<Value = Goal> {
    let names = prop::sample::select(vec!["m5.xlarge", "m6g.4xlarge", "g4ad.xlarge", "p3.8xlarge", "inf2.24xlarge"]);
    let keys = prop::sample::select(vec![Keys::Auto, Keys::Legacy, Keys::Upstream, Keys::Both]);
    (names, keys, any::<bool>()).prop_map(|(name, keys, machine_api)| goal(name, keys, machine_api))
}

fn apply(annotations: &Annotations, changes: &std::collections::BTreeMap<String, Option<String>>) -> Annotations {
    let mut all = annotations.clone();
    for (key, value) in changes {
        match value {
            Some(value) => drop(all.insert(key.as_str().into(), value.as_str().into())),
            None => drop(all.remove(key.as_str())),
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn one_write_is_enough_and_a_second_look_is_quiet(present in some_annotations(), goal in some_goal()) {
        let off = BTreeSet::new();
        let first = plan(&present, &goal, Hands { off: &off });
        let after = apply(&present, &first.changes);
        let second = plan(&after, &goal, Hands { off: &off });
        prop_assert!(second.is_empty(), "{:?} then {:?}", first.changes, second.changes);
    }

    #[test]
    fn a_users_value_survives_every_change_of_type(present in some_annotations(), types in prop::collection::vec(some_goal(), 1..4)) {
        let off = BTreeSet::new();
        let first = types.first().unwrap();
        let theirs: Vec<&'static str> = plan(&present, first, Hands { off: &off }).overrides.into_iter().collect();
        let after = apply(&present, &plan(&present, first, Hands { off: &off }).changes);
        for key in theirs {
            prop_assert_eq!(after.get(key), present.get(key));
        }
    }

    #[test]
    fn two_controllers_do_not_take_turns(present in some_annotations(), goal in some_goal()) {
        // Another annotator spells amounts otherwise and orders labels otherwise; neither is a reason to write.
        let off = BTreeSet::new();
        let mut after = apply(&present, &plan(&present, &goal, Hands { off: &off }).changes);
        if let Some(labels) = after.get_mut(LABELS) {
            let mut items: Vec<&str> = labels.split(',').collect();
            items.reverse();
            *labels = items.join(",").into();
        }
        if let Some(cpu) = after.get_mut(LEGACY_CPU)
            && let Some(n) = capacity::quantity::count(cpu)
        {
            *cpu = format!("{}m", n * 1000).into();
        }
        let again = plan(&after, &goal, Hands { off: &off });
        prop_assert!(again.is_empty(), "{:?}", again.changes);
    }

    #[test]
    fn sameness_is_an_equivalence(a in some_value(), b in some_value(), key in prop::sample::select(vec![CPU, GPU_COUNT, GPU_TYPE])) {
        prop_assert!(same(key, &a, &a));
        prop_assert_eq!(same(key, &a, &b), same(key, &b, &a));
    }
}
