//! Claims that select hosts: what they take, what they leave alone, and what becomes of a host that several are on.

use api::names::hosts::{AUTO_RELEASE_TAG, CLUSTER_TAG_PREFIX};
use aws::port::HostRoom;
use proptest::prelude::*;

use super::*;
use crate::claim::{ClaimFacts, owner_name};
use crate::decide::choose::choose;
use crate::snapshot::{Holder, Pool};

const OWNER: &str = "00000000-0000-0009-0000-000000000009";

fn place(zone: &str, subnet: &str) -> Place {
    Place { subnet: subnet.parse().unwrap(), zone: zone.parse().unwrap() }
}

/// A claim `n/m` of the cluster `c` that selects hosts of a pool, and that has none.
fn selecting() -> Snapshot {
    let id = sample::allocation().id;
    let selector = serde_json::json!({"matchLabels": {"pool": "gold"}});
    let spec = serde_json::json!({"kind": "aws-dedicated-host", "poweredOn": true, "hostSelector": selector});
    let metadata = serde_json::json!({"namespace": "n", "name": "m", "uid": id.as_str()});
    let claim = serde_json::from_value(serde_json::json!({"metadata": metadata, "spec": spec})).unwrap();
    let mut s = with(|machine| machine.owner = Some(owner_name("m").into()));
    s.claim = Some(Arc::new(ClaimFacts::of(claim).unwrap()));
    s.fresh = id;
    let places = vec![place("us-west-2a", "subnet-0000000a"), place("us-west-2b", "subnet-0000000b")];
    s.pool = Some(Box::new(Pool { places, ..Pool::default() }));
    s
}

fn tagged(pairs: &[(&str, &str)]) -> Tags {
    let cluster = format!("{CLUSTER_TAG_PREFIX}c");
    let all = [("pool", "gold"), (cluster.as_str(), "owned"), (MANAGEMENT_CLUSTER_TAG, "here")];
    let all = all.iter().chain(pairs);
    all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn with_room(id: &str, available: u32) -> Host {
    let mut host = sample::host(id);
    host.room = vec![HostRoom { instance_type: "m5.large".to_owned(), available, total: 48 }];
    host
}

/// A host that an earlier claim of the tenant left behind.
fn left(id: &str) -> Host {
    let tags = tagged(&[(MACHINE_NAME_TAG, "n/HostClaim/earlier"), (RETAINED_TAG, "true")]);
    Host { tags, ..with_room(id, 48) }
}

/// A host that another claim of the tenant has.
fn owned(id: &str, available: u32) -> Host {
    let tags = tagged(&[(MACHINE_NAME_TAG, "n/HostClaim/owner"), (ALLOCATION_ID_TAG, OWNER)]);
    Host { tags, ..with_room(id, available) }
}

fn holder(name: &str, id: &str, phase: Phase) -> Holder {
    Holder {
        key: ObjectKey::namespaced("n", name),
        is_claim: true,
        id: id.parse().unwrap(),
        epoch: 1,
        phase,
        from: None,
        shares: true,
        deleting: false,
        paused: false,
        releases: true,
        instance_type: "m5.large".to_owned(),
        instance: None,
    }
}

fn owner() -> Holder {
    holder("owner", OWNER, Phase::Allocated)
}

fn among(hosts: Vec<Host>, holders: Vec<(&str, Holder)>) -> Snapshot {
    let mut s = selecting();
    let pool = s.pool.as_mut().unwrap();
    pool.hosts = hosts;
    pool.holders = holders.into_iter().map(|(id, holder)| (id.parse().unwrap(), holder)).collect();
    s
}

fn chosen(s: &Snapshot) -> Option<(String, Phase, u32)> {
    let thought = think(s);
    assert_eq!(guard(s, &thought.steps), Ok(()), "{:?}", thought.steps);
    choose(s, None).map(|chosen| (chosen.host.to_string(), chosen.phase, chosen.room))
}

fn recorded(s: &Snapshot) -> Allocation {
    let thought = think(s);
    assert_eq!(guard(s, &thought.steps), Ok(()), "{:?}", thought.steps);
    let found = thought.steps.iter().find_map(|step| match step {
        Step::Record { allocation } => Some((**allocation).clone()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{:?}", thought.steps))
}

#[test]
fn a_host_that_was_left_behind_is_taken_before_one_is_asked_for() {
    let s = among(vec![left(H[0])], vec![]);
    assert_eq!(chosen(&s), Some((H[0].to_owned(), Phase::Allocated, 48)));
    assert_eq!(names(&s), ["Rehearse", "Record"]);
    let taken = recorded(&s);
    assert_eq!((taken.phase, taken.hosts.len(), taken.adopted), (Phase::Allocated, 1, true));
    assert_eq!(recorded(&among(vec![], vec![])).phase, Phase::Intended, "none fits");
    let mut full = among(vec![left(H[0])], vec![]);
    full.usage.hosts = 50;
    assert_eq!(names(&full), ["Rehearse", "Record"], "what is there is not asked for, so no cap stands in the way");
}

#[test]
fn what_is_not_the_tenants_or_does_not_fit_is_left_alone() {
    let none = |why: &str, change: &dyn Fn(&mut Host)| {
        for (mut host, holders) in [(left(H[0]), vec![]), (owned(H[0], 9), vec![(H[0], owner())])] {
            let before = among(vec![host.clone()], holders.clone());
            assert!(chosen(&before).is_some(), "it would be taken but for this: {why}");
            change(&mut host);
            assert_eq!(chosen(&among(vec![host], holders)), None, "{why}");
        }
    };
    let set = |key: &str, value: &str| {
        let (key, value) = (key.to_owned(), value.to_owned());
        move |host: &mut Host| drop(host.tags.insert(key.clone(), value.clone()))
    };
    none("another tenant's", &set(MACHINE_NAME_TAG, "other/HostClaim/owner"));
    none("nobody's name", &|host: &mut Host| drop(host.tags.remove(MACHINE_NAME_TAG)));
    none("another management cluster's", &set(MANAGEMENT_CLUSTER_TAG, "elsewhere"));
    none("another cluster's", &set(&format!("{CLUSTER_TAG_PREFIX}d"), "owned"));
    none("no cluster's", &|host: &mut Host| drop(host.tags.remove(&format!("{CLUSTER_TAG_PREFIX}c"))));
    none("another pool's", &set("pool", "silver"));
    none("to be released", &set("hosts.berth.dev/release-pending", "true"));
    none("another zone", &|host: &mut Host| host.zone = Some("us-west-2c".parse().unwrap()));
    none("another type", &|host: &mut Host| host.instance_type = Some("m5.xlarge".to_owned()));
    none("another family", &|host: &mut Host| {
        (host.instance_type, host.instance_family) = (None, Some("c5".to_owned()));
    });
    none("no room", &|host: &mut Host| host.room[0].available = 0);
    none("nothing known of its room", &|host: &mut Host| host.room.clear());
    none("not available", &|host: &mut Host| host.state = HostState::UnderAssessment);
    none("another account's", &|host: &mut Host| host.owner = Some("210987654321".parse().unwrap()));
    none("EC2's own", &|host: &mut Host| host.in_resource_group = true);
    assert_eq!(chosen(&among(vec![left(H[0])], vec![(H[0], owner())])), None, "somebody counts on it");
    let mut used = left(H[0]);
    used.instances = vec![sample::hosted(I)];
    assert_eq!(chosen(&among(vec![used], vec![])), None, "something is on it");
    let mut family = left(H[0]);
    (family.instance_type, family.instance_family) = (None, Some("m5".to_owned()));
    assert!(chosen(&among(vec![family], vec![])).is_some());
}

#[test]
fn a_host_is_shared_by_claims_that_select_and_as_far_as_nobody_else_counts_on_its_room() {
    let with = |room, holders: Vec<Holder>| {
        let holders = holders.into_iter().map(|holder| (H[0], holder)).collect();
        chosen(&among(vec![owned(H[0], room)], holders)).map(|(_, phase, room)| (phase, room))
    };
    assert_eq!(with(9, vec![owner()]), Some((Phase::Claimed, 8)), "its own instance is not on it yet");
    assert_eq!(with(9, vec![]), None, "nobody has it");
    assert_eq!(with(1, vec![owner()]), None);
    let guest = || holder("guest", "00000000-0000-0008-0000-000000000008", Phase::Claimed);
    assert_eq!(with(9, vec![owner(), guest()]), Some((Phase::Claimed, 7)));
    assert_eq!(with(9, vec![guest()]), None, "whose it is has gone");
    assert_eq!(with(9, vec![Holder { shares: false, ..owner() }]), None, "it is its own alone");
    assert_eq!(with(9, vec![Holder { deleting: true, ..owner() }]), None);
    assert_eq!(with(9, vec![Holder { phase: Phase::Releasing, ..owner() }]), None);
    assert_eq!(
        with(9, vec![owner(), Holder { is_claim: false, shares: false, ..guest() }]),
        None,
        "a machine counts on it"
    );
    let large = Holder { instance_type: "m5.metal".to_owned(), ..guest() };
    let mut host = owned(H[0], 48);
    host.room.push(HostRoom { instance_type: "m5.metal".to_owned(), available: 1, total: 1 });
    assert_eq!(chosen(&among(vec![host], vec![(H[0], owner()), (H[0], large)])), None, "it takes the whole host");
    let mut seen = owned(H[0], 9);
    seen.instances = vec![sample::hosted(I)];
    let on = Holder { instance: Some(I.parse().unwrap()), ..owner() };
    assert_eq!(chosen(&among(vec![seen], vec![(H[0], on)])), Some((H[0].to_owned(), Phase::Claimed, 9)));
    let place = recorded(&among(vec![owned(H[0], 9)], vec![(H[0], owner())]));
    assert_eq!((place.phase, place.adopted), (Phase::Claimed, true));
}

#[test]
fn of_hosts_that_fit_the_one_in_the_wished_zone_comes_first_then_the_fullest() {
    let on = |id: &'static str| (id, owner());
    let elsewhere = |mut host: Host| {
        host.zone = Some("us-west-2b".parse().unwrap());
        host
    };
    let first = |hosts: Vec<Host>| chosen(&among(hosts, vec![on(H[1]), on(H[2])])).unwrap().0;
    assert_eq!(first(vec![left(H[0]), owned(H[1], 9), owned(H[2], 5)]), H[2]);
    assert_eq!(first(vec![owned(H[2], 9), owned(H[1], 9)]), H[1], "the id decides between equals");
    assert_eq!(first(vec![left(H[0]), elsewhere(owned(H[1], 9))]), H[0]);
    let s = among(vec![elsewhere(owned(H[1], 9))], vec![on(H[1])]);
    let terms = recorded(&s).terms;
    assert_eq!((terms.zone.as_str(), terms.subnet.as_str()), ("us-west-2b", "subnet-0000000b"));
}

#[test]
fn a_host_that_did_not_work_out_is_not_chosen_again_at_once() {
    let s = |seconds| {
        let mut s = among(vec![owned(H[0], 9)], vec![(H[0], owner())]);
        let mut machine = crate::facts::MachineFacts::clone(&s.machine);
        journal(&mut machine, |journal| {
            let mut before = allocation(Phase::Released, &[H[0]], ago(seconds));
            (before.cause, before.adopted) = (Some(Cause::Failed), true);
            journal.allocation = Some(before);
        });
        s.machine = Arc::new(machine);
        s
    };
    assert_eq!(recorded(&s(60)).phase, Phase::Intended);
    let again = recorded(&s(700));
    assert_eq!((again.phase, again.epoch), (Phase::Claimed, 2));
}

/// The claim with a journal, and EC2 showing hosts.
fn having(
    mut s: Snapshot,
    made: Allocation,
    hosts: Vec<Host>,
    change: impl FnOnce(&mut crate::facts::MachineFacts),
) -> Snapshot {
    let mut machine = crate::facts::MachineFacts::clone(&s.machine);
    journal(&mut machine, |journal| journal.allocation = Some(made));
    change(&mut machine);
    s.machine = Arc::new(machine);
    seeing(s, hosts, vec![])
}

fn joined(phase: Phase, seconds: i64) -> Allocation {
    Allocation { adopted: true, ..allocation(phase, &[H[0]], ago(seconds)) }
}

fn refused(machine: &mut crate::facts::MachineFacts, code: Option<&str>) {
    let host = Some(H[0].parse().unwrap());
    let mut launch = Launch::first(sample::allocation().id, sample::terms().subnet, host, ago(5)).unwrap();
    launch.refused = code.map(str::to_owned);
    journal(machine, |journal| journal.launch = Some(launch));
}

#[test]
fn a_place_is_used_while_the_host_takes_the_instance_and_left_when_it_does_not() {
    let claimed = |host: Host, code: Option<Option<&str>>| {
        having(selecting(), joined(Phase::Claimed, 5), vec![host], |machine| {
            if let Some(code) = code {
                refused(machine, code);
            }
        })
    };
    assert_eq!(names(&claimed(owned(H[0], 9), None)), ["RecordLaunch"]);
    assert_eq!(names(&claimed(owned(H[0], 9), Some(None))), ["Launch"]);
    assert_eq!(names(&claimed(owned(H[0], 0), Some(None))), ["Launch"], "the last room may be its own instance's");
    assert_eq!(names(&claimed(owned(H[0], 9), Some(Some("InstanceLimitExceeded")))), ["RecordLaunch"], "tried again");
    let leaves = |s: &Snapshot| {
        let left = recorded(s);
        assert_eq!((left.phase, left.epoch), (Phase::Released, 1));
        left.cause.unwrap()
    };
    assert_eq!(leaves(&claimed(owned(H[0], 0), None)), Cause::Failed, "it is full");
    for code in ["InsufficientCapacityOnHost", "InvalidHostID.NotFound", "InvalidHostState"] {
        assert_eq!(leaves(&claimed(owned(H[0], 9), Some(Some(code)))), Cause::Failed, "{code}");
    }
    assert_eq!(leaves(&claimed(owned(H[0], 9), Some(Some("InvalidAMIID.NotFound")))), Cause::Refused);
    let gone = Host { state: HostState::Released, ..owned(H[0], 9) };
    assert_eq!(leaves(&claimed(gone.clone(), None)), Cause::Failed);
    assert_eq!(names(&claimed(gone, Some(None))), ["Wait"], "an instance may still surface");
    let mut theirs = owned(H[0], 9);
    theirs.tags.insert(MACHINE_NAME_TAG.to_owned(), "other/HostClaim/owner".to_owned());
    assert_eq!(leaves(&claimed(theirs, None)), Cause::Failed, "a forged place is none");
}

#[test]
fn a_host_that_was_left_behind_is_signed_before_anything_is_launched_on_it() {
    let s = |host: Host| having(selecting(), joined(Phase::Allocated, 5), vec![host], |_| {});
    let unsigned = s(left(H[0]));
    assert_eq!(names(&unsigned), ["Retag", "Wait"]);
    let Some(Step::Retag { change, .. }) = think(&unsigned).steps.into_iter().next() else { panic!() };
    assert_eq!(change.set[ALLOCATION_ID_TAG], sample::allocation().id.as_str());
    assert_eq!(
        (change.set[MACHINE_NAME_TAG].as_str(), change.set[AUTO_RELEASE_TAG].as_str()),
        ("n/HostClaim/m", "true")
    );
    assert!(change.unset.contains(&RETAINED_TAG.to_owned()), "{:?}", change.unset);
    let mut half = left(H[0]);
    half.tags.extend(change.set);
    assert_eq!(names(&s(half.clone())), ["Retag", "RecordLaunch"], "and does not say any more that it was left");
    half.tags.remove(RETAINED_TAG);
    assert_eq!(names(&s(half)), ["RecordLaunch"]);
    let lost = s(owned(H[0], 9));
    assert_eq!(recorded(&lost).phase, Phase::Releasing, "another claim was faster");
    let old = having(selecting(), joined(Phase::Allocated, 700), vec![left(H[0])], |_| {});
    assert_eq!(recorded(&old).phase, Phase::Releasing, "it cannot be signed");
    let given_up = having(selecting(), joined(Phase::Releasing, 5), vec![left(H[0])], |_| {});
    assert_eq!(recorded(&given_up).phase, Phase::Released, "and stays left behind, while the claim gets another one");
}

fn deleting(machine: &mut crate::facts::MachineFacts) {
    machine.deleting = true;
    machine.deleted_at = Some(ago(30));
}

fn own(id: &str) -> Host {
    let name = sample::allocation().id;
    let tags = tagged(&[(MACHINE_NAME_TAG, "n/HostClaim/m"), (ALLOCATION_ID_TAG, name.as_str())]);
    Host { tags, ..with_room(id, 48) }
}

#[test]
fn whoever_leaves_a_place_leaves_the_host_where_it_is() {
    let s = having(selecting(), joined(Phase::Claimed, 60), vec![owned(H[0], 9)], deleting);
    assert_eq!(recorded(&s).phase, Phase::Released);
    let over = having(selecting(), joined(Phase::Released, 5), vec![owned(H[0], 9)], deleting);
    assert_eq!(names(&over), ["Conclude"]);
    let inherited = having(selecting(), joined(Phase::Claimed, 60), vec![own(H[0])], deleting);
    assert_eq!(recorded(&inherited).phase, Phase::Allocated, "what is its own by now is not let go of");
}

#[test]
fn a_host_that_others_are_on_is_handed_over_and_not_released() {
    let guest = || holder("guest", "00000000-0000-0008-0000-000000000008", Phase::Claimed);
    let s = |phase, holders: Vec<Holder>| {
        let mut s = selecting();
        let holders = holders.into_iter().map(|holder| (H[0].parse().unwrap(), holder)).collect();
        s.pool = Some(Box::new(Pool { holders, ..Pool::default() }));
        having(s, allocation(phase, &[H[0]], ago(60)), vec![own(H[0])], deleting)
    };
    let heir = |s: &Snapshot| match think(s).steps.into_iter().next() {
        Some(Step::Retain { heir: Some(heir), change, .. }) => (heir.name().to_owned(), change.set),
        other => panic!("{other:?}"),
    };
    assert_eq!(names(&s(Phase::Releasing, vec![])), ["Release"]);
    assert_eq!(names(&s(Phase::Allocated, vec![guest()])), ["Record"], "first it is said that the host is left");
    let handed = s(Phase::Releasing, vec![guest()]);
    assert_eq!(names(&handed), ["Retain"]);
    let (name, set) = heir(&handed);
    assert_eq!((name.as_str(), set[MACHINE_NAME_TAG].as_str()), ("guest", "n/HostClaim/guest"));
    assert_eq!(set[ALLOCATION_ID_TAG], guest().id.as_str());
    let named = |name: &str| Holder { key: ObjectKey::namespaced("n", name), ..guest() };
    let two = s(Phase::Releasing, vec![Holder { deleting: true, ..named("a") }, named("z"), named("y")]);
    assert_eq!(heir(&two).0, "y", "one that stays");
    let begun = Holder { phase: Phase::Allocated, from: Some(sample::allocation().id), ..named("z") };
    assert_eq!(heir(&s(Phase::Releasing, vec![named("a"), begun])).0, "z", "the one that was begun with");
    let paused = s(Phase::Releasing, vec![Holder { paused: true, ..guest() }]);
    assert_eq!(names(&paused), ["Wait"], "who is paused is left alone, and does not lose its host");
    let machine = s(Phase::Releasing, vec![Holder { is_claim: false, ..guest() }]);
    assert_eq!(names(&machine), ["Wait"]);
    let faster = s(Phase::Releasing, vec![Holder { phase: Phase::Allocated, ..guest() }]);
    assert_eq!(names(&faster), ["Wait"], "whoever believes that the host is its own will see that it is not");
    let after = having(selecting(), allocation(Phase::Releasing, &[H[0]], ago(60)), vec![owned(H[0], 9)], deleting);
    assert_eq!(recorded(&after).phase, Phase::Released, "it is another claim's by now");
}

#[test]
fn a_host_that_is_to_be_kept_is_kept_whoever_is_on_it() {
    let mut s = selecting();
    let guest = holder("guest", "00000000-0000-0008-0000-000000000008", Phase::Claimed);
    s.pool = Some(Box::new(Pool { holders: vec![(H[0].parse().unwrap(), guest)], ..Pool::default() }));
    let s = having(s, allocation(Phase::Allocated, &[H[0]], ago(60)), vec![own(H[0])], |machine| {
        deleting(machine);
        machine.spec.dynamic_host_allocation =
            Some(DynamicHostAllocation { auto_release: Some(false), ..DynamicHostAllocation::default() });
    });
    assert_eq!(names(&s), ["Retain"]);
    assert!(matches!(think(&s).steps.first(), Some(Step::Retain { heir: None, .. })));
}

#[test]
fn a_host_that_was_handed_over_is_signed_before_it_is_given_back() {
    let handed = |phase| Allocation { from: Some(OWNER.parse().unwrap()), ..joined(phase, 60) };
    let mut s = having(selecting(), handed(Phase::Releasing), vec![owned(H[0], 48)], deleting);
    s.pool = Some(Box::default());
    assert_eq!(names(&s), ["Retag", "Wait"], "its tags still name whose it was");
    let mut signed = having(selecting(), handed(Phase::Releasing), vec![own(H[0])], deleting);
    signed.pool = Some(Box::default());
    assert_eq!(names(&signed), ["Release"]);
    let mut theirs = owned(H[0], 48);
    theirs.tags.insert(MACHINE_NAME_TAG.to_owned(), "other/HostClaim/owner".to_owned());
    let forged = having(selecting(), handed(Phase::Releasing), vec![theirs], deleting);
    assert_eq!(names(&forged), ["Wait"], "what is another tenant's is not signed");
}

/// A host as it may look to the claim: gone, left behind, another claim's, its own, another tenant's.
fn any_sort(id: &'static str) -> impl Strategy<Value = Option<Host>> {
    (0u8..6, states(), any::<bool>(), 0u32..3).prop_map(move |(sort, state, occupied, room)| {
        let mut host = match sort {
            0 => return None,
            1 => left(id),
            2 => owned(id, room),
            3 => own(id),
            4 => {
                let mut both = own(id);
                both.tags.insert(RETAINED_TAG.to_owned(), "true".to_owned());
                both
            }
            _ => {
                let mut theirs = owned(id, room);
                theirs.tags.insert(MACHINE_NAME_TAG.to_owned(), "other/HostClaim/owner".to_owned());
                theirs
            }
        };
        host.state = state;
        if occupied {
            host.instances = vec![sample::hosted(I)];
        }
        Some(host)
    })
}

fn any_holder() -> impl Strategy<Value = (&'static str, Holder)> {
    let phases = vec![Phase::Allocated, Phase::Claimed, Phase::Releasing];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let made = (prop::sample::select(H.to_vec()), prop::sample::select(phases), flags);
    made.prop_map(|(host, phase, (is_claim, deleting, paused, is_owner, inherits))| {
        let plain = if is_owner { owner() } else { holder("guest", "00000000-0000-0008-0000-000000000008", phase) };
        let from = inherits.then(|| sample::allocation().id);
        (host, Holder { phase, is_claim, deleting, paused, from, ..plain })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn every_plan_of_a_claim_that_selects_is_safe(
        made in any_allocation(),
        launch in any_launch(),
        hosts in (any_sort(H[0]), any_sort(H[1]), any_sort(H[2])),
        there in (any_sort(H[0]), any_sort(H[1])),
        holders in prop::collection::vec(any_holder(), 0..4),
        instance in any_instance(),
        flags in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let (deleting, keeps, inherits, looked) = flags;
        let there: Vec<Host> = [there.0, there.1].into_iter().flatten().collect();
        let mut s = among(there, holders);
        let mut machine = crate::facts::MachineFacts::clone(&s.machine);
        (machine.deleting, machine.deleted_at) = (deleting, deleting.then(|| ago(60)));
        machine.spec.dynamic_host_allocation =
            Some(DynamicHostAllocation { auto_release: Some(!keeps), ..DynamicHostAllocation::default() });
        journal(&mut machine, |journal| {
            let from = inherits.then(|| OWNER.parse().unwrap());
            journal.allocation = made.map(|made| Allocation { from, ..made });
            journal.launch = launch;
        });
        s.machine = Arc::new(machine);
        let shown: Vec<Host> = [hosts.0, hosts.1, hosts.2].into_iter().flatten().collect();
        let instance = instance.map(|instance| Instance { tags: own(H[0]).tags, ..instance });
        s = seeing(s, shown, instance.into_iter().collect());
        if !looked && !deleting {
            s.pool = None;
        }
        let thought = think(&s);
        let releasing = thought.steps.iter().any(|step| matches!(step, Step::Release { .. }));
        // Who gives a host back has looked who counts on it.
        prop_assume!(s.pool.is_some() || !releasing);
        prop_assert_eq!(guard(&s, &thought.steps), Ok(()), "{:?}", thought.steps);
        prop_assert_eq!(think(&s), thought, "equal input, equal thought");
    }
}
