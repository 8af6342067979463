//! Every plan is safe, whatever the world looks like; and the plans that matter are the right ones.

mod choosing;
mod paid;
mod ready;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::names::hosts::{ALLOCATION_ID_TAG, MACHINE_FINALIZER, MACHINE_NAME_TAG, MANAGEMENT_CLUSTER_TAG, RETAINED_TAG};
use api::own::DynamicHostAllocation;
use api::views::ObjectRef;
use aws::port::{Host, HostState, Instance, InstanceState};
use jiff::Timestamp;
use kit::feed::Version;
use kit::kinds::Kind;
use kit::write::Target;
use proptest::prelude::*;

use super::*;
use crate::config::Config;
use crate::facts::{CloudFacts, ClusterFacts, OwnerFacts};
use crate::guard::guard;
use crate::journal::{AllocationId, Cause, Journal, Phase};
use crate::placement::Place;
use crate::sample;
use crate::snapshot::{Mishap, Preflight, Sight, Sky};

const H: [&str; 3] = ["h-00000000000000001", "h-00000000000000002", "h-00000000000000003"];
const I: &str = "i-00000000000000001";
const ACCOUNT: &str = "123456789012";

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    Timestamp::from_second(now().as_second() - seconds).unwrap()
}

fn scope() -> Scope {
    Scope { region: "us-west-2".parse().unwrap(), identity: None, account: Some(ACCOUNT.parse().unwrap()) }
}

/// A machine with hosts of its own that may be worked on, and an EC2 that shows nothing.
fn snapshot() -> Snapshot {
    let mut machine = sample::machine();
    machine.finalizers = vec![MACHINE_FINALIZER.to_owned()];
    machine.spec.dynamic_host_allocation = Some(DynamicHostAllocation::default());
    machine.journal = Ok(Journal { scope: Some(scope()), ..Journal::default() });
    let key = ObjectKey::namespaced("n", "m");
    let kind = Kind { group: "g".into(), version: "v".into(), kind: "AWSMachine".into(), plural: "awsmachines".into() };
    let reference = ObjectRef { kind: "AWSCluster".to_owned(), name: "c".to_owned(), ..ObjectRef::default() };
    let place = Place { subnet: "subnet-0000000a".parse().unwrap(), zone: "us-west-2a".parse().unwrap() };
    Snapshot {
        target: Target { kind, key: key.clone(), uid: "uid".into() },
        key,
        now: now(),
        config: Arc::new(Config::default()),
        machine: Arc::new(machine),
        version: Version { uid: "uid".into(), resource_version: "1".into() },
        owner: Some(Arc::new(OwnerFacts {
            cluster: Some("c".into()),
            data_secret: Some("s".into()),
            ..OwnerFacts::default()
        })),
        cluster: Some(Arc::new(ClusterFacts { infrastructure: Some(reference), provisioned: true, paused: false })),
        cloud: Some(Arc::new(CloudFacts { region: Some("us-west-2".to_owned()), ..CloudFacts::default() })),
        scope: Some(scope()),
        account: Some(ACCOUNT.parse().unwrap()),
        management: Some("here".into()),
        sky: Sky::Clear(Box::default()),
        preflight: Some(Ok(Box::new(Preflight { recipe: sample::recipe(), place }))),
        groups: Some(Ok(vec!["sg-0000000a".parse().unwrap()])),
        fresh: AllocationId::of(7, 7),
        usage: crate::snapshot::Usage::default(),
        claim: None,
        pool: None,
        full: None,
        mishap: None,
        refusals: BTreeMap::new(),
        tries: 0,
        turn: None,
        ended_at: None,
        announced: false,
    }
}

fn with(change: impl FnOnce(&mut crate::facts::MachineFacts)) -> Snapshot {
    let mut s = snapshot();
    let mut machine = crate::facts::MachineFacts::clone(&s.machine);
    change(&mut machine);
    s.machine = Arc::new(machine);
    s
}

fn journal(machine: &mut crate::facts::MachineFacts, change: impl FnOnce(&mut Journal)) {
    let mut journal = machine.journal.clone().unwrap();
    change(&mut journal);
    machine.journal = Ok(journal);
}

fn allocation(phase: Phase, hosts: &[&str], at: Timestamp) -> Allocation {
    let mut made = sample::allocation().with_hosts(hosts.iter().map(|id| id.parse().unwrap()).collect());
    made.phase = phase;
    made.at = at;
    made
}

fn host(id: &str, state: HostState) -> Host {
    let mut host = sample::host(id);
    host.state = state;
    host.allocated = Some(ago(300));
    host.tags = own_tags();
    host
}

/// What says that something is the machine's.
fn own_tags() -> Tags {
    let id = sample::allocation().id.to_string();
    let all = [(ALLOCATION_ID_TAG, id.as_str()), (MACHINE_NAME_TAG, "n/m"), (MANAGEMENT_CLUSTER_TAG, "here")];
    all.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn instance() -> Instance {
    Instance { tags: own_tags(), ..sample::instance(I) }
}

fn seeing(mut s: Snapshot, hosts: Vec<Host>, instances: Vec<Instance>) -> Snapshot {
    let hosts = hosts.into_iter().map(|host| (host.id.clone(), host)).collect();
    s.sky = Sky::Clear(Box::new(Sight { hosts, instances, ..Sight::default() }));
    s
}

/// A claim whose instance is in a state, and everything else as it should be.
pub(super) fn claimed(state: InstanceState, change: impl FnOnce(&mut crate::claim::ClaimFacts)) -> Snapshot {
    use api::names::hosts::INSTANCE_ANNOTATION;
    let id = sample::allocation().id;
    let spec = serde_json::json!({"kind": "aws-dedicated-host", "poweredOn": true});
    let metadata = serde_json::json!({"namespace": "n", "name": "m", "uid": id.as_str()});
    let claim = serde_json::from_value(serde_json::json!({"metadata": metadata, "spec": spec})).unwrap();
    let mut claim = crate::claim::ClaimFacts::of(claim).unwrap();
    change(&mut claim);
    let mut s = with(|machine| {
        let subnet = sample::terms().subnet;
        let launch = Launch::first(id.clone(), subnet, Some(H[0].parse().unwrap()), ago(120)).unwrap();
        journal(machine, |journal| {
            journal.allocation = Some(allocation(Phase::Allocated, &[H[0]], ago(300)));
            journal.launch = Some(launch);
        });
        machine.owner = Some(crate::claim::owner_name("m").into());
        machine.spec.provider_id = Some(format!("aws:///us-west-2a/{I}"));
        machine.spec.instance_id = Some(I.to_owned());
        machine.annotations.insert(INSTANCE_ANNOTATION.to_owned(), format!("aws:///us-west-2a/{I}"));
    });
    s.claim = Some(Arc::new(claim));
    s.fresh = id.clone();
    let belonging = belonging(&s, &id).unwrap();
    let mut host = sample::host(H[0]);
    host.tags = crate::tags::merged([], &belonging);
    let mut instance = sample::instance(I);
    (instance.state, instance.host, instance.tags) = (state, Some(host.id.clone()), host.tags.clone());
    (instance.interfaces, s.groups) = (Vec::new(), Some(Ok(Vec::new())));
    let mut s = seeing(s, vec![host], vec![instance]);
    // What was applied last is written down.
    for step in think(&s).steps {
        if let Step::Note { annotations } = step {
            let mut machine = crate::facts::MachineFacts::clone(&s.machine);
            machine.annotations.extend(annotations.into_iter().map(|(key, text)| (key.to_owned(), text)));
            s.machine = Arc::new(machine);
        }
    }
    s
}

pub(super) fn names(s: &Snapshot) -> Vec<String> {
    let thought = think(s);
    assert_eq!(guard(s, &thought.steps), Ok(()), "{:?}", thought.steps);
    let name = |step: &Step| format!("{step:?}").split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned();
    thought.steps.iter().map(name).collect()
}

#[test]
fn a_host_is_intended_before_it_is_asked_for_and_looked_for_before_that() {
    let fresh = snapshot();
    assert_eq!(names(&fresh), ["Rehearse", "Record"]);
    let intended = with(|m| journal(m, |j| j.allocation = Some(allocation(Phase::Intended, &[], ago(5)))));
    assert_eq!(names(&intended), ["Allocate"]);
    let found = seeing(intended.clone(), vec![host(H[0], HostState::Pending)], vec![]);
    assert_eq!(names(&found), ["Record"], "found under its tag, it is not asked for again");
    let old = with(|m| journal(m, |j| j.allocation = Some(allocation(Phase::Intended, &[], ago(90)))));
    assert_eq!(names(&old), ["Record"], "an attempt is dated before it is made");
    let mut released = host(H[0], HostState::Released);
    released.tags.insert(RETAINED_TAG.to_owned(), "false".to_owned());
    assert_eq!(names(&seeing(intended, vec![released], vec![])), ["Allocate"], "what is released is not found");
}

#[test]
fn the_finalizer_comes_first() {
    let bare = with(|m| {
        m.finalizers.clear();
        m.journal = Ok(Journal::default());
    });
    assert_eq!(names(&bare), ["Secure"]);
}

#[test]
fn a_launch_is_recorded_before_it_is_made() {
    let at = |state| {
        let s = with(|m| journal(m, |j| j.allocation = Some(allocation(Phase::Allocated, &[H[0]], ago(60)))));
        seeing(s, vec![host(H[0], state)], vec![])
    };
    assert_eq!(names(&at(HostState::Available)), ["RecordLaunch"]);
    assert_eq!(names(&at(HostState::Pending)), ["Wait"]);
    assert_eq!(names(&at(HostState::UnderAssessment)), ["Wait"]);
    assert_eq!(names(&at(HostState::PermanentFailure)), ["Record"], "given back");
    let launch = |seconds, refused: Option<&str>| {
        let mut launch =
            Launch::first(sample::allocation().id, sample::terms().subnet, Some(H[0].parse().unwrap()), ago(seconds))
                .unwrap();
        launch.refused = refused.map(str::to_owned);
        let s = with(|m| {
            journal(m, |j| {
                j.allocation = Some(allocation(Phase::Allocated, &[H[0]], ago(60)));
                j.launch = Some(launch);
            });
        });
        seeing(s, vec![host(H[0], HostState::Available)], vec![])
    };
    assert_eq!(names(&launch(5, None)), ["Launch"]);
    assert_eq!(names(&launch(90, None)), ["RecordLaunch"], "dated anew");
    assert_eq!(names(&launch(5, Some("InsufficientCapacityOnHost"))), ["RecordLaunch"]);
    assert_eq!(names(&launch(5, Some("InvalidParameterValue"))), ["Record"], "never works: the host goes back");
    assert_eq!(names(&launch(5, Some("IdempotentParameterMismatch"))), ["Wait"], "its instance must surface");
    assert_eq!(
        names(&launch(3_700, Some("IdempotentParameterMismatch"))),
        ["Tell", "RecordLaunch"],
        "given up at last"
    );
    let ended = launch(5, Some("IdempotentInstanceTerminated"));
    assert_eq!(think(&ended).fatal.unwrap().reason, "UpdateError");
}

#[test]
fn a_mac_host_is_kept_for_its_day_and_tried_again() {
    let mut mac = allocation(Phase::Allocated, &[H[0]], ago(60));
    mac.terms.shape = aws::port::HostShape::Type("mac2.metal".parse().unwrap());
    let mut launch =
        Launch::first(mac.id.clone(), sample::terms().subnet, Some(H[0].parse().unwrap()), ago(5)).unwrap();
    launch.refused = Some("InvalidParameterValue".to_owned());
    let s = with(|m| {
        journal(m, |j| {
            j.allocation = Some(mac);
            j.launch = Some(launch);
        });
    });
    assert_eq!(names(&seeing(s, vec![host(H[0], HostState::Available)], vec![])), ["RecordLaunch"]);
}

#[test]
fn what_went_wrong_is_not_tried_again_before_its_time() {
    let mut s = with(|m| journal(m, |j| j.allocation = Some(allocation(Phase::Intended, &[], ago(5)))));
    let mishap = Mishap {
        doing: Doing::Allocate,
        class: Class::HostQuota,
        code: "HostLimitExceeded".to_owned(),
        message: "no more".to_owned(),
        tries: 1,
        until: Timestamp::from_second(now().as_second() + 10).unwrap(),
    };
    s.mishap = Some(mishap.clone());
    assert_eq!(names(&s), ["Wait"]);
    assert_eq!(think(&s).host.unwrap().reason, Reason::HostQuotaExceeded);
    s.mishap = Some(Mishap { until: now(), ..mishap });
    assert_eq!(names(&s), ["Allocate"]);
}

#[test]
fn a_machine_goes_only_when_its_hosts_are_gone() {
    let deleting = |phase, hosts: &[&str], at| {
        with(|m| {
            m.deleting = true;
            m.deleted_at = Some(ago(30));
            journal(m, |j| j.allocation = Some(allocation(phase, hosts, at)));
        })
    };
    assert_eq!(names(&deleting(Phase::Intended, &[], ago(30))), ["Wait"], "one may still surface");
    assert_eq!(names(&deleting(Phase::Intended, &[], ago(700))), ["Record"]);
    assert_eq!(names(&deleting(Phase::Released, &[H[0]], ago(30))), ["Conclude"]);
    let s = deleting(Phase::Allocated, &[H[0]], ago(30));
    assert_eq!(names(&seeing(s, vec![host(H[0], HostState::Available)], vec![])), ["Record"]);
    let releasing = || deleting(Phase::Releasing, &[H[0]], ago(30));
    assert_eq!(names(&seeing(releasing(), vec![host(H[0], HostState::Available)], vec![])), ["Release"]);
    assert_eq!(names(&seeing(releasing(), vec![host(H[0], HostState::Released)], vec![])), ["Record"]);
    assert_eq!(names(&releasing()), ["Wait"], "a host that is not visible is not gone");
    let mut foreign = host(H[0], HostState::Available);
    foreign.tags.clear();
    assert_eq!(names(&seeing(releasing(), vec![foreign], vec![])), ["Wait"], "never without our tag");
    let mut occupied = host(H[0], HostState::Available);
    occupied.instances = vec![sample::hosted(I)];
    assert_eq!(names(&seeing(releasing(), vec![occupied], vec![])), ["Wait"]);
    let mut reserved = host(H[0], HostState::Available);
    reserved.reservation = Some("hr".to_owned());
    assert_eq!(names(&seeing(releasing(), vec![reserved], vec![])), ["Retain"]);
    let mut unknown = deleting(Phase::Releasing, &[H[0]], ago(700));
    unknown.sky =
        Sky::Clear(Box::new(Sight { unknown_hosts: BTreeSet::from([H[0].parse().unwrap()]), ..Sight::default() }));
    assert_eq!(names(&unknown), ["Record"], "unknown for long enough is gone");
    let running = || seeing(s_allocated(), vec![host(H[0], HostState::Available)], vec![instance()]);
    assert_eq!(names(&running()), ["Announce"], "whoever watches hears of it first");
    let announced = Snapshot { announced: true, ..running() };
    assert_eq!(names(&announced), ["Terminate", "Wait"], "and that they hear is tried once");
    let proof = announced.proof_of(&announced.sight().unwrap().instances[0]);
    assert_eq!(proof, Some("machine name and allocation id"), "and the log says what proves it");
}

fn s_allocated() -> Snapshot {
    with(|m| {
        m.deleting = true;
        journal(m, |j| j.allocation = Some(allocation(Phase::Allocated, &[H[0]], ago(30))));
    })
}

#[test]
fn caps_and_unbuilt_fields_stop_an_allocation() {
    let mut s = snapshot();
    s.usage.hosts = 50;
    assert_eq!(names(&s), ["Wait"]);
    assert_eq!(think(&s).host.unwrap().reason, Reason::HostAllocationDenied);
    let mut s = snapshot();
    s.usage.recent = 20;
    assert_eq!(think(&s).host.unwrap().reason, Reason::HostAllocationDenied);
    let shared = with(|m| m.spec.host_resource_group_arn = Some("arn".to_owned()));
    assert!(think(&shared).invalid.unwrap().contains("hostResourceGroupArn"));
}

#[test]
fn idle_hosts_go_back_after_their_time_and_others_are_asked_for_later() {
    let s = with(|m| journal(m, |j| j.allocation = Some(allocation(Phase::Allocated, &[H[0]], ago(3_700)))));
    let mut old = host(H[0], HostState::Available);
    old.allocated = Some(ago(3_700));
    assert_eq!(names(&seeing(s, vec![old], vec![])), ["Record"]);
    let over = |cause, seconds| {
        with(|m| {
            journal(m, |j| {
                let mut over = allocation(Phase::Released, &[H[0]], ago(seconds));
                over.cause = Some(cause);
                j.allocation = Some(over);
            });
        })
    };
    assert_eq!(names(&over(Cause::Idle, 60)), ["Wait"]);
    assert_eq!(names(&over(Cause::Idle, 700)), ["Rehearse", "Record"]);
    assert_eq!(names(&over(Cause::Failed, 60)), ["Rehearse", "Record"]);
}

#[test]
fn hosts_that_surface_after_the_launch_are_recorded_while_the_machine_runs() {
    let s = with(|m| {
        m.spec.instance_id = Some(I.to_owned());
        m.spec.provider_id = Some(format!("aws:///us-west-2a/{I}"));
        journal(m, |j| j.allocation = Some(allocation(Phase::Allocated, &[H[0]], ago(60))));
    });
    let on = Instance { host: Some(H[0].parse().unwrap()), ..instance() };
    let shown = vec![host(H[0], HostState::Available), host(H[1], HostState::Available)];
    let thought = think(&seeing(s, shown, vec![on]));
    let Some(Step::Record { allocation }) = thought.steps.first() else { panic!("{:?}", thought.steps) };
    assert_eq!(allocation.hosts, [H[0].parse().unwrap(), H[1].parse().unwrap()]);
}

#[test]
fn what_was_taken_for_given_back_is_seen_again_only_when_reads_have_had_time_to_agree() {
    let s = |phase, seconds, deleting| {
        let s = with(|m| {
            m.deleting = deleting;
            journal(m, |j| j.allocation = Some(allocation(phase, &[H[0]], ago(seconds))));
        });
        seeing(s, vec![host(H[0], HostState::Available)], vec![])
    };
    for deleting in [true, false] {
        assert_eq!(names(&s(Phase::Released, 60, deleting)), ["Wait"], "reads lag");
        let thought = think(&s(Phase::Released, 700, deleting));
        let Some(Step::Record { allocation }) = thought.steps.first() else { panic!("{:?}", thought.steps) };
        assert_eq!((allocation.phase, allocation.epoch), (Phase::Releasing, 1), "EC2 is right, not the journal");
    }
}

#[test]
fn a_launch_that_is_not_visible_yet_is_no_stranger_on_the_host() {
    let mut held = host(H[0], HostState::Available);
    held.instances = vec![sample::hosted(I)];
    let host_id = Some(H[0].parse().unwrap());
    let launched = |seconds| {
        let launch = Launch::first(sample::allocation().id, sample::terms().subnet, host_id.clone(), ago(seconds));
        let s = with(|m| {
            journal(m, |j| {
                j.allocation = Some(allocation(Phase::Allocated, &[H[0]], ago(700)));
                j.launch = Some(launch.unwrap());
            });
        });
        think(&seeing(s, vec![held.clone()], vec![]))
    };
    assert_eq!(launched(5).host, None);
    assert_eq!(launched(700).host.unwrap().reason, Reason::HostMismatch);
}

fn states() -> impl Strategy<Value = HostState> {
    prop::sample::select(vec![
        HostState::Available,
        HostState::Pending,
        HostState::UnderAssessment,
        HostState::PermanentFailure,
        HostState::Released,
        HostState::ReleasedPermanentFailure,
        HostState::Other("new".into()),
    ])
}

fn any_host(id: &'static str) -> impl Strategy<Value = Option<Host>> {
    let host = (states(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        move |(state, tagged, retained, reserved, occupied)| {
            let mut made = host(id, state);
            if !tagged {
                made.tags.clear();
            }
            if retained {
                made.tags.insert(RETAINED_TAG.to_owned(), "true".to_owned());
            }
            made.reservation = reserved.then(|| "hr".to_owned());
            made.instances = if occupied { vec![sample::hosted(I)] } else { Vec::new() };
            made
        },
    );
    prop::option::weighted(0.8, host)
}

fn any_instance() -> impl Strategy<Value = Option<Instance>> {
    let states = prop::sample::select(vec![
        InstanceState::Pending,
        InstanceState::Running,
        InstanceState::ShuttingDown,
        InstanceState::Terminated,
        InstanceState::Stopped,
        InstanceState::Other("new".into()),
    ]);
    let instance = (states, prop::option::of(prop::sample::select(H.to_vec()))).prop_map(|(state, host)| Instance {
        state,
        host: host.map(|id| id.parse().unwrap()),
        ..instance()
    });
    prop::option::weighted(0.5, instance)
}

fn any_allocation() -> impl Strategy<Value = Option<Allocation>> {
    let phases = prop::sample::select(vec![
        Phase::Intended,
        Phase::Allocated,
        Phase::Claimed,
        Phase::Releasing,
        Phase::Released,
        Phase::Retained,
        Phase::Abandoned,
    ]);
    let hosts = prop::sample::subsequence(H.to_vec(), 0..=3);
    let made = (phases, hosts, 0i64..5_000, any::<bool>()).prop_map(|(phase, hosts, age, adopted)| {
        let hosts = if phase == Phase::Intended { Vec::new() } else { hosts };
        let mut made = allocation(phase, &hosts, ago(age));
        made.adopted = adopted;
        made
    });
    prop::option::weighted(0.9, made)
}

fn any_launch() -> impl Strategy<Value = Option<Launch>> {
    let codes = prop::option::of(prop::sample::select(vec![
        "IdempotentParameterMismatch",
        "IdempotentInstanceTerminated",
        "InvalidParameterValue",
        "InsufficientCapacityOnHost",
    ]));
    let launch =
        (prop::option::of(prop::sample::select(H.to_vec())), 0i64..5_000, codes).prop_map(|(host, age, code)| {
            let host = host.map(|id| id.parse().unwrap());
            let mut launch = Launch::first(sample::allocation().id, sample::terms().subnet, host, ago(age)).unwrap();
            launch.refused = code.map(str::to_owned);
            launch
        });
    prop::option::weighted(0.6, launch)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn every_plan_is_safe(
        allocation in any_allocation(),
        launch in any_launch(),
        hosts in (any_host(H[0]), any_host(H[1]), any_host(H[2])),
        instance in any_instance(),
        flags in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        sky in 0u8..8,
    ) {
        let (deleting, secured, abandoned, keeps, named, dynamic) = flags;
        let mut s = with(|m| {
            m.deleting = deleting;
            m.deleted_at = deleting.then(|| ago(60));
            if !secured {
                m.finalizers.clear();
            }
            if abandoned {
                m.annotations.insert(api::names::hosts::ABANDON_HOST_ANNOTATION.to_owned(), "true".to_owned());
            }
            m.spec.dynamic_host_allocation = dynamic.then(|| DynamicHostAllocation {
                auto_release: Some(!keeps),
                ..DynamicHostAllocation::default()
            });
            if named {
                m.spec.instance_id = Some(I.to_owned());
            }
            journal(m, |j| {
                j.allocation = allocation;
                j.launch = launch;
            });
        });
        let shown: Vec<Host> = [hosts.0, hosts.1, hosts.2].into_iter().flatten().collect();
        s = seeing(s, shown, instance.into_iter().collect());
        if sky == 0 {
            let class = Class::Permission;
            s.sky = Sky::Clouded(Obstacle::private(About::Instance, class, "no"));
        }
        let thought = think(&s);
        prop_assert_eq!(guard(&s, &thought.steps), Ok(()), "{:?}", thought.steps);
        prop_assert_eq!(think(&s), thought, "equal input, equal thought");
        let _ = crate::explain::explain(&s);
        let _ = crate::status::status(&s, &think(&s));
    }
}

#[test]
fn an_attempt_is_shorter_than_what_surfaces_late() {
    assert!(ATTEMPT < CONSISTENT && CONSISTENT <= PAUSE && Duration::from_secs(0) < ATTEMPT);
}

#[test]
fn a_machine_waits_for_its_turn_before_a_host_is_paid_for() {
    let mut s = snapshot();
    s.turn = Some(s.after(Duration::from_secs(7)));
    assert_eq!(think(&s).steps, [Step::Wait { until: s.turn }]);
    s.turn = Some(s.now);
    assert_eq!(names(&s), ["Rehearse", "Record"]);
    let mut going = with(|m| journal(m, |j| j.allocation = Some(allocation(Phase::Intended, &[], ago(5)))));
    going.turn = Some(going.after(Duration::from_secs(7)));
    assert_eq!(names(&going), ["Allocate"], "what has begun goes on");
    let mut plain = with(|m| m.spec.dynamic_host_allocation = None);
    plain.turn = Some(plain.after(Duration::from_secs(7)));
    assert_eq!(names(&plain), ["Wait"]);
    plain.turn = None;
    assert_eq!(names(&plain), ["RecordLaunch"]);
}

#[test]
fn a_host_is_given_back_when_ec2_counts_nothing_on_it_any_more() {
    let releasing = |seconds| {
        with(|m| {
            m.deleting = true;
            journal(m, |j| j.allocation = Some(allocation(Phase::Releasing, &[H[0]], ago(seconds))));
        })
    };
    let mut counting = host(H[0], HostState::Available);
    counting.room = vec![aws::port::HostRoom { instance_type: "m5.large".to_owned(), available: 47, total: 48 }];
    let held = seeing(releasing(5), vec![counting.clone()], vec![]);
    assert_eq!(names(&held), ["Wait"]);
    assert_eq!(think(&held).release.unwrap().reason, Reason::HostOccupied);
    assert_eq!(names(&seeing(releasing(180), vec![counting.clone()], vec![])), ["Release"], "EC2 has the last word");
    counting.room[0].available = 48;
    assert_eq!(names(&seeing(releasing(5), vec![counting], vec![])), ["Release"]);
}
