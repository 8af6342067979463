//! Where machines may be placed, row by row.

use super::*;

/// One row of the table of placements: tenancy, affinity, named host, allocated hosts, and the faults of a machine and of
/// a template, without the start of their paths.
pub(super) type Row = (
    Option<&'static str>,
    Option<&'static str>,
    bool,
    bool,
    &'static [(FaultKind, &'static str)],
    &'static [(FaultKind, &'static str)],
);

const NAMED: (FaultKind, &str) = (Forbidden, "hostID");
const ALLOCATED: (FaultKind, &str) = (Forbidden, "dynamicHostAllocation");
const PINNED: (FaultKind, &str) = (Forbidden, "hostAffinity");
const UNNAMED: (FaultKind, &str) = (Required, "hostID");

/// All 48 combinations, so that none is decided by accident.
pub(super) const PLACEMENTS: &[Row] = &[
    // a host is named and hosts are allocated
    (None, None, true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (None, Some("default"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (None, Some("host"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("default"), None, true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("default"), Some("default"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("default"), Some("host"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("dedicated"), None, true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("dedicated"), Some("default"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("dedicated"), Some("host"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("host"), None, true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("host"), Some("default"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("host"), Some("host"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    // hosts are allocated
    (None, None, false, true, &[], &[]),
    (None, Some("host"), false, true, &[], &[]),
    (None, Some("default"), false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("host"), None, false, true, &[], &[]),
    (Some("host"), Some("host"), false, true, &[], &[]),
    (Some("host"), Some("default"), false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("default"), None, false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("default"), Some("default"), false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("default"), Some("host"), false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("dedicated"), None, false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("dedicated"), Some("default"), false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("dedicated"), Some("host"), false, true, &[ALLOCATED], &[ALLOCATED]),
    // a host is named
    (None, None, true, false, &[NAMED], &[NAMED]),
    (None, Some("default"), true, false, &[NAMED], &[NAMED]),
    (None, Some("host"), true, false, &[NAMED], &[NAMED]),
    (Some("default"), None, true, false, &[NAMED], &[NAMED]),
    (Some("default"), Some("default"), true, false, &[NAMED], &[NAMED]),
    (Some("default"), Some("host"), true, false, &[NAMED], &[NAMED]),
    (Some("dedicated"), None, true, false, &[NAMED], &[NAMED]),
    (Some("dedicated"), Some("default"), true, false, &[NAMED], &[NAMED]),
    (Some("dedicated"), Some("host"), true, false, &[NAMED], &[NAMED]),
    (Some("host"), None, true, false, &[], &[]),
    (Some("host"), Some("default"), true, false, &[], &[]),
    (Some("host"), Some("host"), true, false, &[], &[]),
    // neither
    (None, None, false, false, &[], &[]),
    (None, Some("default"), false, false, &[], &[]),
    (None, Some("host"), false, false, &[PINNED], &[PINNED]),
    (Some("default"), None, false, false, &[], &[]),
    (Some("default"), Some("default"), false, false, &[], &[]),
    (Some("default"), Some("host"), false, false, &[PINNED], &[PINNED]),
    (Some("dedicated"), None, false, false, &[], &[]),
    (Some("dedicated"), Some("default"), false, false, &[], &[]),
    (Some("dedicated"), Some("host"), false, false, &[PINNED], &[PINNED]),
    (Some("host"), None, false, false, &[], &[]),
    (Some("host"), Some("default"), false, false, &[], &[]),
    (Some("host"), Some("host"), false, false, &[], &[UNNAMED]),
];

pub(super) fn placed(row: &Row) -> Value {
    let mut with = json!({});
    let (tenancy, affinity, named, allocated, ..) = row;
    merge(
        &mut with,
        &json!({"tenancy": tenancy, "hostAffinity": affinity, "hostID": named.then_some(HOST),
        "dynamicHostAllocation": allocated.then(|| json!({}))}),
    );
    with
}

#[test]
fn every_placement_is_judged_as_the_table_says() {
    let mut seen = std::collections::BTreeSet::new();
    for row in PLACEMENTS {
        let (tenancy, affinity, named, allocated, of_machine, of_template) = row;
        assert!(seen.insert((tenancy, affinity, named, allocated)), "{row:?}");
        let with = placed(row);
        let below = |root: &str, faults: &[(FaultKind, &str)]| {
            faults.iter().map(|(kind, field)| (*kind, format!("{root}.{field}"))).collect::<Vec<_>>()
        };
        let owned = |verdict: &Verdict| {
            told(verdict).into_iter().map(|(kind, path)| (kind, path.to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(owned(&created(&with)), below("spec", of_machine), "{with}");
        assert_eq!(owned(&created_template(&with)), below("spec.template.spec", of_template), "{with}");
        // What is stored while the webhook is down is judged without defaults, and in the same way.
        assert_eq!(problem(&spec(&with)).is_none(), of_machine.is_empty(), "{with}");
    }
    assert_eq!(seen.len(), 4 * 3 * 2 * 2);
}

#[test]
fn what_is_allocated_is_also_pinned() {
    for with in [json!({}), json!({"tenancy": "host"}), json!({"hostAffinity": "host"})] {
        let mut with = with;
        merge(&mut with, &json!({"dynamicHostAllocation": {"tags": {"a": "b"}}}));
        let mut spec = spec(&with);
        fill(&mut spec);
        let filled = serde_json::to_value(&spec).unwrap();
        assert_eq!((&filled["tenancy"], &filled["hostAffinity"]), (&json!("host"), &json!("host")));
        assert_eq!(filled["dynamicHostAllocation"], json!({"quantity": 1, "autoRelease": true, "tags": {"a": "b"}}));
    }
    let mut plain = spec(&json!({}));
    fill(&mut plain);
    let filled = serde_json::to_value(&plain).unwrap();
    assert!(filled.get("tenancy").is_none() && filled.get("hostAffinity").is_none(), "{filled}");
}
