use api::reasons::machines::KUBERNETES_NODE_READY;
use api::reasons::{PAUSED, READY, Tone};
use kit::conditions::{LONGEST_MESSAGE, Verdict};
use proptest::prelude::*;

use super::*;

/// Whether a condition says something: of what holds a reason that is well, of anything else one that has causes and a fix, and
/// a whole sentence about it.
fn tells(verdict: &Verdict) -> bool {
    let tones = api::reasons::all().into_iter().filter(|entry| entry.reason == verdict.reason).map(|entry| entry.tone);
    let tones: Vec<Tone> = tones.collect();
    let fits = match (verdict.type_, verdict.state) {
        (PAUSED, _) => true,
        // Nodes are looked at before anybody is told.
        (KUBERNETES_NODE_READY | READY, State::Unknown) if verdict.reason == LOOKING => true,
        (_, State::True) => tones.contains(&Tone::Well),
        _ => tones.contains(&Tone::Wanting) && !verdict.message.is_empty(),
    };
    fits && verdict.message.chars().count() <= LONGEST_MESSAGE
}

fn worlds() -> impl Strategy<Value = Snapshot> {
    let flags = prop::collection::vec(any::<bool>(), 20);
    (flags, 0..4_usize, 0..5_usize, 0..4_usize).prop_map(|(flags, claimed, nodes, data)| {
        let is = |number: usize| flags.get(number).copied().unwrap_or_default();
        let mut s = if is(0) { running() } else { secured() };
        match claimed {
            0 => s.claim = None,
            1 => {}
            _ => {
                let mut claim = claim(&s);
                claim.deleting = is(1);
                claim.generation = if is(2) { 2 } else { 1 };
                if is(3) {
                    claim.owners.clear();
                }
                if is(4) {
                    claim.owners.iter_mut().for_each(|owner| owner.uid = "another".to_owned());
                }
                if is(5) {
                    claim.status = HostClaimStatus::default();
                }
                with_claim(&mut s, claim);
            }
        }
        s.nodes = match nodes {
            0 => Sight::NotAsked,
            1 => Sight::Dark("It is dark.".to_owned()),
            2 => Sight::Seen(Vec::new()),
            3 => Sight::Seen(vec![node(None)]),
            _ => Sight::Seen(vec![node(Some("metal3://team/m1/m1")), node(Some("metal3://x/y/z"))]),
        };
        if data > 0 {
            let rendered = (data > 1).then(|| NamedRef { name: "d-0".to_owned(), namespace: None });
            let owners = if is(6) { ours() } else { Vec::new() };
            s.data_claim =
                Some(Arc::new(DataClaimFacts { owners, rendered, deleting: is(7), ..DataClaimFacts::default() }));
            s.data = (data > 2).then(|| Arc::new(DataFacts { ready: is(8), ..DataFacts::default() }));
        }
        s.reuse = is(9).then(|| is(10).then(|| "md-x".to_owned()));
        s.bootstrapped = is(11);
        if is(12) {
            s.owner = None;
        }
        if is(13) {
            s.cluster = Some(Arc::new(ClusterFacts {
                paused: is(14),
                provisioned: !is(15),
                label_prefixes: Some("a.b".into()),
                ..ClusterFacts::default()
            }));
        }
        change(&mut s, |machine| {
            machine.deleting = is(16);
            if is(17) {
                machine.finalizers.clear();
            }
            if is(18) {
                machine.annotations.clear();
            }
            if is(19) {
                machine.spec.data_template = Some(NamedRef { name: "t".to_owned(), namespace: None });
            }
        });
        s
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_plan_breaks_a_rule_and_every_state_can_be_told(s in worlds()) {
        let thought = think(&s);
        prop_assert_eq!(guard(&s, &thought.steps), Ok(()));
        prop_assert_eq!(&think(&s), &thought);
        let (next, verdicts) = status(&s, &thought);
        let types: std::collections::BTreeSet<&str> = verdicts.iter().map(|verdict| verdict.type_).collect();
        prop_assert_eq!(types.len(), verdicts.len());
        prop_assert!(types.contains("Ready") && types.contains("Paused"));
        for verdict in &verdicts {
            prop_assert!(tells(verdict), "{:?}", verdict);
        }
        // Told once, it is told: the same look gives the same status.
        let mut told = s.clone();
        change(&mut told, |machine| {
            machine.status = next.clone();
            machine.status.conditions = kit::conditions::fold(&s.machine.status.conditions, &verdicts, 0, s.now).conditions;
        });
        let later = Snapshot { now: s.now.saturating_add(Duration::from_secs(9)).unwrap(), ..told.clone() };
        let (again, _) = status(&later, &think(&later));
        prop_assert_eq!(again.last_updated, told.machine.status.last_updated.clone());
    }
}
