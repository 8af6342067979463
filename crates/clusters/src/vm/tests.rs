//! The thinking half, without a world.

use std::time::Duration;

use api::names::claims::{BLOCK_MOVE_ANNOTATION, DELETE_FOR_MOVE_ANNOTATION, REBOOT_ANNOTATION, finalizer};
use claim_kind::claim::ClaimFacts;
use cloudstack::errors::Kind;
use cloudstack::port::{Deploy, MachineState, Tags, VirtualMachine};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::decide::{FENCE, Step, decide};
use super::guard::guard;
use super::observe::{Act, Setback, Sight, Snapshot};
use super::words::Obstacle;
use super::{KIND, TAG, args, claim_of_name, machine_name, status};

const UID: &str = "0b6f7a6e-3f2e-4a51-9d43-7c1f7f0e8a11";

fn spec() -> Value {
    json!({"poweredOn": true, "kind": KIND, "args": {"zone": "zone-1", "offering": "Small", "template": "linux",
        "network": "lan", "identity": "cloud"}})
}

fn claim(change: impl FnOnce(&mut Value)) -> ClaimFacts {
    let mut claim = json!({
        "metadata": {"namespace": "tenant", "name": "one", "uid": UID, "generation": 1,
            "finalizers": [finalizer(KIND)], "annotations": {BLOCK_MOVE_ANNOTATION: ""}},
        "spec": spec(),
    });
    change(&mut claim);
    ClaimFacts::of(serde_json::from_value(claim).unwrap())
}

fn machine(id: &str, state: MachineState) -> VirtualMachine {
    VirtualMachine {
        id: id.parse().unwrap(),
        name: machine_name(UID),
        display_name: None,
        state,
        zone: None,
        zone_name: None,
        account: None,
        domain: None,
        created: None,
        template: None,
        offering: None,
        nics: Vec::new(),
        affinity_groups: Vec::new(),
        tags: Tags::from([(TAG.to_owned(), UID.to_owned())]),
    }
}

fn order() -> Box<Deploy> {
    Box::new(Deploy {
        name: machine_name(UID),
        zone: "z".parse().unwrap(),
        offering: "o".parse().unwrap(),
        template: "t".parse().unwrap(),
        networks: vec!["n".parse().unwrap()],
        disk: None,
        affinity_groups: Vec::new(),
        owner: cloudstack::port::Owner::default(),
        user_data: None,
        start: true,
    })
}

fn seen(claim: ClaimFacts, machines: Vec<VirtualMachine>) -> Snapshot {
    let order = machines.is_empty().then(|| Ok(order()));
    Snapshot::sample(claim, Sight::Seen(machines), order)
}

fn plan(s: &Snapshot) -> Vec<Step> {
    let plan = decide(s);
    assert_eq!(guard(s, &plan), Ok(()), "{plan:?}");
    plan.into_iter().filter(|step| !matches!(step, Step::Wait { .. })).collect()
}

#[test]
fn the_name_of_a_machine_follows_from_the_uid_and_fits_a_host_name() {
    assert_eq!(machine_name(UID), format!("hc-{UID}"));
    for odd in ["", "----", "A/B c", &"x".repeat(200)] {
        let name = machine_name(odd);
        assert!(name.len() <= 63 && !name.contains(['/', ' ']), "{name}");
    }
}

#[test]
fn the_name_of_a_machine_tells_its_claim_and_other_names_tell_none() {
    assert_eq!(claim_of_name(&machine_name(UID)), Some(UID));
    let odd = UID.replace('a', "g");
    let upper = UID.to_uppercase();
    for other in
        ["", "hc-", "hc-1", "hc-backup-0", UID, &format!("hc-{UID}-1"), &format!("hc-{odd}"), &format!("hc-{upper}")]
    {
        assert_eq!(claim_of_name(other), None, "{other}");
    }
}

#[test]
fn a_machine_is_made_after_finalizer_anchor_and_intent_are_stored() {
    let bare = claim(|claim| {
        claim["metadata"]["finalizers"] = json!([]);
        claim["metadata"]["annotations"] = json!({});
    });
    assert_eq!(plan(&seen(bare, vec![])), [Step::Finalize]);
    let held = claim(|claim| claim["metadata"]["annotations"] = json!({}));
    assert_eq!(plan(&seen(held, vec![])), [Step::Anchor]);
    assert_eq!(plan(&seen(claim(|_| {}), vec![])), [Step::Intend, Step::Create(order())]);
    let intended = claim(|claim| claim["status"] = json!({"provisioningState": "Provisioning"}));
    assert_eq!(plan(&seen(intended, vec![])), [Step::Create(order())]);
    // What is on its way out has the name still.
    assert_eq!(plan(&seen(claim(|_| {}), vec![machine("a", MachineState::Expunging)])), []);
}

#[test]
fn a_machine_that_failed_before_it_ran_goes_and_one_that_ran_does_not() {
    let failed = machine("a", MachineState::Error);
    let gone = Step::Destroy { id: failed.id.clone(), expunge: true, failed: true };
    assert_eq!(plan(&seen(claim(|_| {}), vec![failed.clone()])), [gone]);
    let ran = claim(|claim| claim["status"] = json!({"resourceID": "a", "provisioningState": "Provisioned"}));
    assert_eq!(plan(&seen(ran.clone(), vec![failed])), []);
    let lost = seen(ran, vec![]);
    assert!(lost.is_lost() && plan(&lost).is_empty(), "no second machine of the same identity");
}

#[test]
fn of_two_machines_the_one_on_record_stays() {
    let recorded = claim(|claim| claim["status"] = json!({"resourceID": "b"}));
    let s = seen(recorded, vec![machine("a", MachineState::Running), machine("b", MachineState::Running)]);
    assert_eq!(s.machine().unwrap().id.as_str(), "b");
    let destroyed: Vec<Step> = plan(&s).into_iter().filter(|step| matches!(step, Step::Destroy { .. })).collect();
    assert_eq!(destroyed, [Step::Destroy { id: "a".parse().unwrap(), expunge: true, failed: false }]);
}

#[test]
fn a_reboot_is_one_stop_between_two_stored_words() {
    let asked = |status: Value| {
        claim(move |claim| {
            claim["metadata"]["annotations"][REBOOT_ANNOTATION] = json!(r#"{"mode":"hard"}"#);
            claim["status"] = status;
        })
    };
    let running = || vec![machine("a", MachineState::Running)];
    let id = || "a".parse().unwrap();
    assert_eq!(plan(&seen(asked(json!({})), running())), [Step::Pend { id: "7".into(), hard: true }]);
    let pending = json!({"pendingReboot": {"id": "7", "mode": "hard"}});
    assert_eq!(plan(&seen(asked(pending.clone()), running())), [Step::Restart { id: id(), hard: true }]);
    let stopped = vec![machine("a", MachineState::Stopped)];
    assert_eq!(plan(&seen(asked(pending), stopped.clone())), [Step::Withdraw]);
    assert_eq!(plan(&seen(claim(|_| {}), stopped)), [Step::Power { id: id(), on: true }]);
}

#[test]
fn a_claim_goes_when_its_machine_is_proven_gone() {
    let leaving = |status: Value, at: i64| {
        claim(move |claim| {
            claim["metadata"]["deletionTimestamp"] = json!(jiff::Timestamp::from_second(at).unwrap().to_string());
            claim["status"] = status;
        })
    };
    let known = || leaving(json!({"resourceID": "a"}), 999_999);
    let gone = |expunge| Step::Destroy { id: "a".parse().unwrap(), expunge, failed: false };
    assert_eq!(plan(&seen(known(), vec![machine("a", MachineState::Running)])), [gone(true)]);
    assert_eq!(plan(&seen(known(), vec![machine("a", MachineState::Destroyed)])), [gone(true)]);
    assert_eq!(plan(&seen(known(), vec![machine("a", MachineState::Expunging)])), []);
    assert_eq!(plan(&seen(known(), vec![])), [Step::Unfinalize]);
    let mut refused = seen(known(), vec![machine("a", MachineState::Stopped)]);
    refused.setback = Some(Setback { act: Act::Destroy, kind: Some(Kind::NotPermitted) });
    assert_eq!(plan(&refused), [gone(false)]);
    // A request may still be on its way: it is waited for before the claim goes.
    let intended = seen(leaving(json!({"provisioningState": "Provisioning"}), 999_999), vec![]);
    assert_eq!(plan(&intended), []);
    let later = 1_000_000 - i64::try_from(FENCE.as_secs()).unwrap();
    assert_eq!(plan(&seen(leaving(json!({"provisioningState": "Provisioning"}), later), vec![])), [Step::Unfinalize]);
    // Without credentials nobody knows; only a claim for which nothing was stored can go.
    let blind = |status: Value, obstacle: Obstacle| Snapshot::sample(leaving(status, 1), Sight::Blind(obstacle), None);
    let keys = || Obstacle::Identity(String::new());
    assert_eq!(plan(&blind(json!({}), keys())), [Step::Unfinalize]);
    assert_eq!(plan(&blind(json!({"resourceID": "a"}), keys())), []);
    assert_eq!(plan(&blind(json!({}), Obstacle::Platform(Kind::Transport))), []);
    let mut moved = known();
    moved.annotations.insert(DELETE_FOR_MOVE_ANNOTATION.into(), "".into());
    assert_eq!(plan(&seen(moved, vec![machine("a", MachineState::Running)])).last(), Some(&Step::Unfinalize));
}

#[test]
fn arguments_are_read_by_id_or_name_and_faults_are_named() {
    let mut asked: api::own::HostClaimSpec = serde_json::from_value(spec()).unwrap();
    assert_eq!(args::read(&asked).unwrap().place.zone.name, "zone-1");
    asked.args.insert("zone".into(), UID.into());
    let wish = args::read(&asked).unwrap();
    assert_eq!((wish.place.zone.id.as_str(), wish.place.zone.name.as_str()), (UID, ""));
    asked.args.insert("network".into(), " ".into());
    assert!(matches!(args::read(&asked), Err(Obstacle::Arguments(told)) if told.contains("network")));
    for (identity, fits) in [("cloud", true), ("other/cloud", false), ("", false), ("Cloud", false)] {
        asked.args.insert("identity".into(), identity.into());
        assert_eq!(args::identity(&asked).is_ok(), fits, "{identity}");
    }
}

#[test]
fn a_server_that_does_not_answer_takes_nothing_from_a_machine_that_runs() {
    let ran =
        claim(|claim| claim["status"] = json!({"resourceID": "a", "provisioningState": "Provisioned", "ready": true}));
    let blind = |kind| Snapshot::sample(ran.clone(), Sight::Blind(Obstacle::Platform(kind)), None);
    assert!(status::report(&blind(Kind::Transport), None).is_none());
    let refused = blind(Kind::Credentials);
    let report = status::report(&refused, None).unwrap();
    assert!(!report.next.ready && report.next.resource_id.as_deref() == Some("a"));
}

fn states() -> impl Strategy<Value = MachineState> {
    prop::sample::select(vec![
        MachineState::Starting,
        MachineState::Running,
        MachineState::Stopping,
        MachineState::Stopped,
        MachineState::Migrating,
        MachineState::Destroyed,
        MachineState::Expunging,
        MachineState::Error,
        MachineState::Unknown,
        MachineState::Other("Levitating".into()),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever is seen, the plan keeps the rules, ends in a wait or an effect, and is told without a fault.
    #[test]
    fn every_plan_keeps_the_rules(
        machines in prop::collection::btree_map(0u8..3, (states(), any::<bool>()), 0..3),
        sight in 0u8..4,
        (deleting, finalized, anchored, paused, power) in any::<(bool, bool, bool, bool, bool)>(),
        (reboot, pending, held, moved, ordered) in any::<(bool, bool, bool, bool, bool)>(),
        recorded in prop::option::of(0u8..3),
        state in prop::option::of(prop::sample::select(vec!["Provisioning", "Provisioned", "Error"])),
        setback in 0u8..4,
    ) {
        let facts = claim(|claim| {
            let meta = &mut claim["metadata"];
            if deleting { meta["deletionTimestamp"] = json!("1970-01-12T13:46:30Z") }
            if !finalized { meta["finalizers"] = json!(["other"]) }
            if !anchored { meta["annotations"] = json!({}) }
            if reboot { meta["annotations"][REBOOT_ANNOTATION] = json!("") }
            if held { meta["annotations"]["reboot.metal3.io/a"] = json!("") }
            if moved { meta["annotations"][DELETE_FOR_MOVE_ANNOTATION] = json!("") }
            claim["spec"]["poweredOn"] = json!(power);
            let mut status = json!({"resourceID": recorded.map(|n| n.to_string()), "provisioningState": state});
            if pending { status["pendingReboot"] = json!({"id": "5"}) }
            claim["status"] = status;
        });
        // Who has no finalizer of ours any more is not looked at when it goes.
        prop_assume!(!deleting || finalized);
        let machines: Vec<VirtualMachine> = machines
            .into_iter()
            .map(|(id, (state, tagged))| {
                let mut machine = machine(&id.to_string(), state);
                if !tagged { machine.tags.clear() }
                machine
            })
            .collect();
        let sight = match sight {
            0 => Sight::Blind(Obstacle::Identity("x".into())),
            1 => Sight::Blind(Obstacle::Platform(Kind::Server)),
            _ => Sight::Seen(machines),
        };
        let order = if ordered { Ok(order()) } else { Err(Obstacle::Zone) };
        let mut s = Snapshot::sample(facts, sight, Some(order));
        s.paused = paused;
        s.setback = match setback {
            0 => Some(Setback { act: Act::Destroy, kind: Some(Kind::NotPermitted) }),
            1 => Some(Setback { act: Act::Deploy, kind: None }),
            2 => Some(Setback { act: Act::Start, kind: Some(Kind::Capacity) }),
            _ => None,
        };
        let plan = decide(&s);
        prop_assert_eq!(guard(&s, &plan), Ok(()));
        prop_assert_eq!(paused, plan.is_empty(), "{:?}", plan);
        prop_assert!(plan.iter().filter(|step| matches!(step, Step::Create(_))).count() <= 1);
        if let Some(report) = status::report(&s, None) {
            prop_assert!(report.verdicts.iter().all(|verdict| !verdict.message.is_empty()));
        }
        for step in &plan {
            if let Step::Wait { until } = step {
                prop_assert!(*until > s.now && *until <= s.now + Duration::from_secs(600));
            }
        }
    }
}
