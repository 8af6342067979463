//! What is paid for without being of use goes first; and what only passes is not told.

use kit::queue::Priority::{Background, Urgent};

use super::*;
use crate::classes::Class;
use crate::first::{known, of_machine, recorded};
use crate::snapshot::{Doing, Mishap, Refusal};

fn with_journal(phase: Phase, change: impl FnOnce(&mut crate::facts::MachineFacts)) -> Snapshot {
    with(|machine| {
        let hosts: &[&str] = if phase == Phase::Intended { &[] } else { &[H[0]] };
        journal(machine, |journal| journal.allocation = Some(allocation(phase, hosts, ago(10))));
        change(machine);
    })
}

fn available() -> Vec<Host> {
    vec![host(H[0], HostState::Available)]
}

fn in_state(state: InstanceState) -> Vec<Instance> {
    vec![Instance { state, ..instance() }]
}

fn named(machine: &mut crate::facts::MachineFacts) {
    machine.spec.instance_id = Some(I.to_owned());
}

#[test]
fn whoever_only_begins_goes_behind_whoever_has_an_empty_host() {
    assert_eq!(known(&snapshot()), Background, "nothing is asked for");
    let waits = Snapshot { turn: Some(now()), ..snapshot() };
    assert_eq!(known(&waits), Urgent, "who misses its turn holds up everybody");
    let asked = with_journal(Phase::Intended, |_| ());
    assert_eq!((known(&asked), of_machine(&asked.machine)), (Urgent, Urgent));
    let refused = |class| {
        let (code, message) = (String::new(), String::new());
        let mishap = Mishap { doing: Doing::Allocate, class, code, message, tries: 1, until: now() };
        known(&Snapshot { mishap: Some(mishap), ..with_journal(Phase::Intended, |_| ()) })
    };
    assert_eq!(refused(Class::HostQuota), Background, "what EC2 refused is not paid for");
    assert_eq!(refused(Class::Transient), Urgent, "and what nobody knows may be");
    let empty = seeing(with_journal(Phase::Allocated, |_| ()), available(), vec![]);
    assert_eq!((known(&empty), of_machine(&empty.machine)), (Urgent, Urgent));
    let launched = seeing(with_journal(Phase::Allocated, named), available(), vec![instance()]);
    assert_eq!((known(&launched), of_machine(&launched.machine)), (Background, Background));
    let guest = with_journal(Phase::Claimed, |_| ());
    assert_eq!(known(&guest), Background, "the host is another's");
}

#[test]
fn an_instance_that_runs_goes_behind_a_host_that_it_has_left() {
    let deleting = |phase, instances| {
        let gone = |machine: &mut crate::facts::MachineFacts| {
            machine.deleting = true;
            named(machine);
        };
        seeing(with_journal(phase, gone), available(), instances)
    };
    assert_eq!(known(&deleting(Phase::Allocated, vec![instance()])), Background);
    for ended in [InstanceState::ShuttingDown, InstanceState::Terminated] {
        assert_eq!(known(&deleting(Phase::Allocated, in_state(ended.clone()))), Urgent, "{ended:?}");
    }
    let releasing = || deleting(Phase::Releasing, in_state(InstanceState::Terminated));
    assert_eq!(known(&releasing()), Urgent);
    let told = |class| {
        let (message, until) = (String::new(), now());
        let refusal = Refusal { class, message, releasable_after: None, tries: 0, since: now(), until };
        known(&Snapshot { refusals: BTreeMap::from([(H[0].parse().unwrap(), refusal)]), ..releasing() })
    };
    assert_eq!(told(None), Background, "it is given back, and only has to be shown");
    assert_eq!(told(Some(Class::Occupied)), Urgent);
    let shown = seeing(releasing(), vec![host(H[0], HostState::Released)], vec![]);
    assert_eq!(known(&shown), Background);
    for over in [Phase::Released, Phase::Retained, Phase::Abandoned] {
        assert_eq!(recorded(&releasing(), &allocation(over, &[H[0]], now())), Background);
    }
    let unseen = |phase| Snapshot { sky: Sky::NotAsked, ..deleting(phase, vec![]) };
    assert_eq!((known(&unseen(Phase::Allocated)), known(&unseen(Phase::Releasing))), (Background, Urgent));
}

#[test]
fn what_only_passes_is_not_told_and_what_people_must_know_is() {
    let quiet = |s: &Snapshot| {
        let thought = think(s);
        thought.goes_on() && thought.is_passing()
    };
    let begins = snapshot();
    assert_eq!(names(&begins), ["Rehearse", "Record"]);
    assert!(quiet(&begins));
    let gone = |machine: &mut crate::facts::MachineFacts| machine.deleting = true;
    let empty = seeing(with_journal(Phase::Allocated, gone), available(), in_state(InstanceState::Terminated));
    assert_eq!(names(&empty), ["Record"]);
    assert!(quiet(&empty), "it says the same once it is stored");
    let released = seeing(with_journal(Phase::Releasing, gone), vec![host(H[0], HostState::Released)], vec![]);
    assert_eq!(names(&released), ["Record"]);
    assert!(!quiet(&released), "this may be the last that is told");
    let mut old = host(H[0], HostState::Available);
    old.allocated = Some(ago(3_700));
    let idle = with(|m| journal(m, |j| j.allocation = Some(allocation(Phase::Allocated, &[H[0]], ago(3_700)))));
    let idle = seeing(idle, vec![old], vec![]);
    assert_eq!(names(&idle), ["Record"]);
    assert!(!quiet(&idle), "nobody says later why the host is given back");
    let waits = Snapshot { turn: Some(now().saturating_add(Duration::from_secs(9)).unwrap()), ..snapshot() };
    assert_eq!((names(&waits), quiet(&waits)), (vec!["Wait".to_owned()], false));
}

#[test]
fn how_long_an_instance_takes_to_end_counts_from_when_it_was_told_to() {
    let until = |ended_at| {
        let s = with_journal(Phase::Allocated, |machine| {
            machine.deleting = true;
            machine.deleted_at = Some(ago(160));
        });
        let s = seeing(s, available(), in_state(InstanceState::ShuttingDown));
        match think(&Snapshot { ended_at, ..s }).steps.pop() {
            Some(Step::Wait { until: Some(until) }) => until.duration_since(now()).as_secs(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((until(None), until(Some(ago(2))), until(Some(ago(80)))), (20, 1, 10));
}
