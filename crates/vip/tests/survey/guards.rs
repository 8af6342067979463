//! What the guards refuse, whoever planned it.

use std::sync::Arc;

use serde_json::json;
use vip::decide::{Snapshot, Step};
use vip::facts::ClusterFacts;
use vip::names::Slot;
use vip::scene::{Live, Scene};
use vip::{guard, keeper};

use crate::build::*;

const CP: Slot = Slot::CONTROL_PLANE;

fn gate(cluster: &ClusterFacts, live: Live, scene: Scene, step: Step) -> bool {
    let snapshot = Snapshot { asked: cluster.clone(), live, scene, waited: false, confirmed: true };
    guard::guard(&snapshot, &[step]).is_ok()
}

fn ask() -> Step {
    Step::Claim { slot: CP, pool: name("control"), tried: vec![] }
}

#[test]
fn the_gate_does_nothing_without_a_live_cluster_of_the_same_uid() {
    let empty = || scene(vec![control()], vec![]);
    assert!(gate(&fresh(), live(&fresh()), empty(), ask()));
    assert!(!gate(&fresh(), Live::Unread, empty(), ask()));
    assert!(!gate(&fresh(), Live::Absent, empty(), ask()));
    let other = ClusterFacts { uid: "u2".into(), ..fresh() };
    assert!(!gate(&fresh(), live(&other), empty(), ask()));
    for going in [ClusterFacts { deleting: true, ..fresh() }, ClusterFacts { paused: true, ..fresh() }] {
        assert!(!gate(&fresh(), live(&going), empty(), ask()));
    }
}

#[test]
fn the_gate_takes_nothing_from_others_and_gives_nothing_up_that_is_bound() {
    let holding = |holding| scene(vec![control()], vec![(CP, holding)]);
    let run = |cluster: &ClusterFacts, scene, step| gate(cluster, live(cluster), scene, step);
    assert!(!run(&fresh(), holding(waiting(claim(CP))), ask()), "a slot has one claim");
    assert!(!run(&fresh(), holding(waiting(claim(CP))), Step::Adopt { slot: CP }), "it has an owner");
    let mut unowned = claim(CP);
    unowned.owners.clear();
    assert!(run(&fresh(), holding(waiting(unowned.clone())), Step::Adopt { slot: CP }));
    unowned.deleting = true;
    assert!(!run(&fresh(), holding(waiting(unowned)), Step::Adopt { slot: CP }));
    let abandon = || Step::Abandon { slot: CP, better: name("other") };
    assert!(run(&fresh(), holding(waiting(claim(CP))), abandon()));
    assert!(!run(&fresh(), holding(bound(CP, claim(CP), "10.0.0.10")), abandon()));
    assert!(!run(&shown("10.9.9.9", None), scene(vec![control()], vec![]), ask()), "the endpoint is the user's");
    let write = |host: &str| {
        let patch = json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": 1}}});
        Step::Write { patch, endpoint: true }
    };
    assert!(run(&fresh(), scene(vec![], vec![]), write("10.0.0.10")));
    assert!(!run(&allocated("10.0.0.10"), scene(vec![], vec![]), write("10.0.0.11")));
}

fn keeps(cluster: Option<ClusterFacts>, scene: Scene, step: keeper::decide::Step) -> bool {
    let api_version = "cluster.x-k8s.io/v1beta2".into();
    let stored = cluster.as_ref().map(|c| c.stored.clone()).unwrap_or_default();
    let snapshot = keeper::Snapshot { cluster: cluster.map(Arc::new), scene, api_version, stored };
    keeper::guard::guard(&snapshot, &[step]).is_ok()
}

#[test]
fn the_housekeeper_sweeps_only_what_nobody_owns() {
    use keeper::decide::Step;
    let sweep = || Step::Sweep { slot: CP };
    let mut orphan = claim(CP);
    orphan.owners.clear();
    let with_claim = |claim| scene(vec![], vec![(CP, waiting(claim))]);
    assert!(keeps(None, with_claim(orphan.clone()), sweep()));
    assert!(!keeps(None, with_claim(claim(CP)), sweep()));
    assert!(!keeps(Some(fresh()), with_claim(orphan), sweep()));
    assert!(!keeps(None, with_claim(claim(CP)), Step::Adopt { slot: CP }));
}

#[test]
fn the_housekeeper_leaves_the_control_plane_to_the_gate() {
    use keeper::decide::Step;
    let empty = || scene(vec![control(), ingress()], vec![]);
    let make = |slot| Step::Claim { slot, pool: name("control"), tried: vec![] };
    assert!(!keeps(Some(fresh()), empty(), make(CP)));
    assert!(keeps(Some(fresh()), empty(), make(Slot::INGRESS)));
    let endpoint = api::views::Endpoint { host: "10.0.0.10".to_owned(), port: 6443 };
    let goal = vip::goal::Goal { endpoint: Some(endpoint), ..vip::goal::Goal::default() };
    assert!(!keeps(Some(fresh()), empty(), Step::Write { goal: goal.clone() }));
    let alone = || with(empty(), |config| (config.extension, config.reconciler) = (false, true));
    assert!(keeps(Some(fresh()), alone(), Step::Write { goal: goal.clone() }));
    assert!(!keeps(Some(allocated("10.0.0.11")), alone(), Step::Write { goal }));
    assert!(!keeps(Some(ClusterFacts { deleting: true, ..fresh() }), alone(), make(CP)));
    assert!(!keeps(Some(ClusterFacts { paused: true, ..fresh() }), alone(), make(CP)));
    let foreign = vip::facts::ClaimFacts { owners: vec![owner("u0")], ..claim(CP) };
    let released = Step::Release { slot: CP, why: "" };
    assert!(!keeps(Some(fresh()), scene(vec![], vec![(CP, waiting(foreign))]), released));
}
