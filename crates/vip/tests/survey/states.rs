//! What is wanted, and how things stand with it.

use std::sync::Arc;

use api::key::ObjectKey;
use jiff::SignedDuration;
use vip::facts::{AddressFacts, ClaimFacts, ClusterFacts};
use vip::names::{Family, Slot};
use vip::scene::{Holding, Use, User};
use vip::survey::{State, Survey, survey};
use vip::words::{reason, sentence};

use crate::build::*;

const CP: Slot = Slot::CONTROL_PLANE;

fn wanted(survey: &Survey) -> Vec<(Slot, Option<Family>, bool)> {
    survey.wants.iter().map(|(slot, want)| (*slot, want.family, want.required)).collect()
}

#[test]
fn families_are_wanted_in_the_order_the_user_names_them() {
    let all = || vec![control(), six()];
    let wants = |families: &str| wanted(&judged(&noted(&[("ip-families", families)]), all(), vec![]));
    assert_eq!(wanted(&judged(&fresh(), all(), vec![])), [(CP, None, true)]);
    assert_eq!(wants("ipv4"), [(CP, Some(Family::V4), true)]);
    assert_eq!(wants(" ipv6 "), [(CP, Some(Family::V6), true)]);
    assert_eq!(wants("ipv4,ipv6"), [(CP, Some(Family::V4), true), (SECOND, Some(Family::V6), true)]);
    assert_eq!(wants("ipv6,ipv4"), [(CP, Some(Family::V6), true), (SECOND, Some(Family::V4), true)]);
}

#[test]
fn ingress_is_required_refused_or_taken_where_there_is_one() {
    let wants = |value: Option<&str>, pools| {
        let cluster = value.map_or_else(fresh, |value| noted(&[("ingress-enabled", value)]));
        wanted(&judged(&cluster, pools, vec![]))
    };
    let both = || vec![control(), ingress()];
    assert_eq!(wants(None, both()), [(CP, None, true), (Slot::INGRESS, None, false)]);
    assert_eq!(wants(None, vec![control()]), [(CP, None, true)], "no pool, no wish");
    assert_eq!(wants(Some("true"), both()), [(CP, None, true), (Slot::INGRESS, None, true)]);
    let needed = judged(&noted(&[("ingress-enabled", "true")]), vec![control()], vec![]);
    assert!(matches!(state(&needed, Slot::INGRESS), State::NoPool { .. }));
    assert_eq!(wants(Some("false"), both()), [(CP, None, true)]);
    let manual = ClusterFacts { annotations: noted(&[]).annotations, ..shown("10.9.9.9", None) };
    assert_eq!(wanted(&judged(&manual, both(), vec![])), [(Slot::INGRESS, None, false)]);
}

/// A move between management clusters carries no status: the claim looks as if it had never had an address.
#[test]
fn a_claim_without_status_of_an_address_that_is_shown_waits_at_its_own_pool_however_full() {
    let full = pool_named("control", "control-plane", "10.0.0.10-10.0.0.10", Some(0));
    let room = pool_named("other", "control-plane", "10.5.0.10-10.5.0.18", Some(5));
    let lost = ClaimFacts { created: ago(600), ..claim(CP) };
    let state_of = |cluster: &ClusterFacts| {
        let survey = judged(cluster, vec![full.clone(), room.clone()], vec![(CP, waiting(lost.clone()))]);
        state(&survey, CP).clone()
    };
    assert!(matches!(state_of(&fresh()), State::Stuck { .. }), "a cluster that shows nothing may have any address");
    assert!(matches!(state_of(&allocated("10.0.0.10")), State::Waiting { until: None, .. }));
}

#[test]
fn an_annotation_that_cannot_be_read_is_named_with_its_value() {
    for (suffix, value) in [("ip-families", "ipv5"), ("ingress-enabled", "yes"), ("port", "0"), ("port", "70000")] {
        let mut cluster = noted(&[(suffix, value)]);
        cluster.endpoint.host = "10.9.9.9".to_owned();
        let survey = judged(&cluster, vec![control()], vec![]);
        let [fault] = survey.faults.as_slice() else { panic!("{suffix}={value}: {survey:?}") };
        let text = fault.to_string();
        assert!(text.contains(&key(suffix)) && text.contains(value), "{text}");
    }
}

/// One state of the control-plane address, with the words for it.
fn told(holding: Option<Holding>) -> (State, String) {
    let holdings = holding.map(|holding| (CP, holding)).into_iter().collect();
    let scene = scene(vec![control()], holdings);
    let survey = survey(&fresh(), &scene);
    let want = &survey.wants[&CP];
    (want.state.clone(), sentence(CP, want, &scene))
}

fn claimed(change: impl FnOnce(&mut ClaimFacts)) -> Option<Holding> {
    let mut claim = claim(CP);
    change(&mut claim);
    Some(waiting(claim))
}

#[test]
fn without_a_claim_the_first_pool_is_asked() {
    let (state, text) = told(None);
    assert_eq!(state, State::Unclaimed { pool: name("control"), tried: vec![] });
    assert!(text.contains("control") && text.contains("team/vip-cp-prod"), "{text}");
}

#[test]
fn a_claim_is_used_only_by_its_owner_and_only_while_it_stays() {
    assert_eq!(told(claimed(|c| c.deleting = true)).0, State::Leaving);
    let of_earlier = told(claimed(|c| c.owners = vec![owner("u0")])).0;
    assert_eq!(of_earlier, State::Leaving, "an earlier Cluster of that name");
    let other = |c: &mut ClaimFacts| {
        c.owners = vec![owner("u0")];
        c.owners[0].name = "test".into();
    };
    let (state, text) = told(claimed(other));
    assert!(matches!(state, State::Foreign { .. }) && text.contains("Cluster test"), "{text}");
    assert_eq!(told(claimed(|c| c.owners.clear())).0, State::Unowned);
    let unlabelled = told(claimed(|c| {
        c.owners.clear();
        c.role = None;
    }));
    assert!(matches!(unlabelled.0, State::Foreign { .. }));
    assert_eq!(told(Some(Holding::Behind)).0, State::Behind);
    // Also when it shows an address.
    let mut leaving = claim(CP);
    leaving.deleting = true;
    assert_eq!(told(Some(bound(CP, leaving, "10.0.0.10"))).0, State::Leaving);
}

#[test]
fn bound_means_named_by_the_claim_and_held_by_this_very_claim() {
    let held = bound(CP, claim(CP), "10.0.0.10");
    let pool = Some(name("control"));
    assert_eq!(told(Some(held.clone())).0, State::Bound { address: "10.0.0.10".parse().unwrap(), pool: pool.clone() });
    let Holding::Claim { claim, address: Some(address) } = held else { panic!() };
    let shows = |change: fn(&mut AddressFacts)| {
        let mut facts = AddressFacts::clone(&address);
        change(&mut facts);
        told(Some(Holding::Claim { claim: Arc::clone(&claim), address: Some(Arc::new(facts)) })).0
    };
    let waits = State::Waiting { pool, until: None };
    assert_eq!(shows(|a| a.claim = Some("vip-cp-other".into())), waits);
    assert_eq!(shows(|a| a.address = None), waits);
    assert_eq!(shows(|a| a.claim_uid = Some("an earlier claim".into())), waits, "the index of addresses is behind");
    assert!(matches!(shows(|a| a.claim_uid = None), State::Bound { .. }), "a provider that names no owner");
    let unseen = Holding::Claim { claim: Arc::clone(&claim), address: None };
    assert_eq!(told(Some(unseen)).0, waits, "the address object is still on its way");
}

#[test]
fn an_unbound_claim_moves_only_after_a_while_and_only_to_a_pool_with_room() {
    let full = || pool_named("control", "control-plane", "10.0.0.10", Some(0));
    let other = |free| pool_named("other", "control-plane", "10.5.0.10", Some(free));
    let after = |seconds, pools, change: fn(&mut ClaimFacts)| {
        let mut claim = claim(CP);
        claim.created = ago(seconds);
        change(&mut claim);
        state(&judged(&fresh(), pools, vec![(CP, waiting(claim))]), CP).clone()
    };
    let (here, there) = (Some(name("control")), name("other"));
    let due = ago(1) + SignedDuration::from_secs(5);
    assert_eq!(after(60, vec![control(), other(5)], |_| ()), State::Waiting { pool: here.clone(), until: None });
    assert_eq!(after(1, vec![full(), other(5)], |_| ()), State::Waiting { pool: here.clone(), until: Some(due) });
    let stuck = State::Stuck { pool: here.clone(), better: there.clone() };
    assert_eq!(after(60, vec![full(), other(5)], |_| ()), stuck);
    assert_eq!(after(60, vec![other(5)], |_| ()), stuck, "the pool vanished");
    assert_eq!(after(60, vec![control(), other(5)], |c| c.refusal = Some("PoolExhausted".into())), stuck);
    let other_word = after(60, vec![control(), other(5)], |c| c.refusal = Some("Thinking".into()));
    assert_eq!(other_word, State::Waiting { pool: here, until: None });
    let exhausted = State::Exhausted { pools: vec![name("control"), there] };
    assert_eq!(after(60, vec![full(), other(0)], |_| ()), exhausted);
    assert!(matches!(after(60, vec![full(), other(5)], |c| c.address = Some("x".into())), State::Waiting { .. }));
}

#[test]
fn a_pool_that_was_tried_comes_last_and_is_remembered() {
    let mut moved = scene(vec![control(), pool_named("other", "control-plane", "10.5.0.10", Some(5))], vec![]);
    moved.tried.insert(CP, vec![name("control")]);
    let survey = survey(&fresh(), &moved);
    assert_eq!(state(&survey, CP), &State::Unclaimed { pool: name("other"), tried: vec![name("control")] });
}

#[test]
fn no_pool_says_on_what_each_one_failed() {
    let mut paused = control();
    let mut facts = (*paused.facts).clone();
    facts.paused = true;
    paused.facts = Arc::new(facts);
    let cluster = noted(&[("ip-families", "ipv6")]);
    let scene = scene(vec![control(), ingress(), paused], vec![]);
    let survey = survey(&cluster, &scene);
    let text = sentence(CP, &survey.wants[&CP], &scene);
    assert!(matches!(state(&survey, CP), State::NoPool { .. }));
    assert!(text.contains("(class metal, namespace team, family ipv6)"), "{text}");
    assert!(text.contains("control-plane") && text.contains("1 on role, 2 on family"), "{text}");
    let mut elsewhere = cluster;
    elsewhere.class = Some(ObjectKey::namespaced("classes", "metal"));
    let survey = self::survey(&elsewhere, &scene);
    let text = sentence(CP, &survey.wants[&CP], &scene);
    assert!(text.contains("(class classes/metal, namespace team, family ipv6)"), "{text}");
}

fn used(by: User) -> State {
    let mut scene = scene(vec![control()], vec![(CP, bound(CP, claim(CP), "10.0.0.10"))]);
    scene.uses = vec![Use { address: "10.0.0.10".parse().unwrap(), by }];
    state(&survey(&fresh(), &scene), CP).clone()
}

#[test]
fn an_address_that_somebody_else_uses_is_never_taken() {
    let key = ObjectKey::namespaced("team", "test");
    let cluster = User::Cluster { key: key.clone(), port: Some(6443), manual: true };
    let State::Conflict { by, .. } = used(cluster) else { panic!() };
    assert!(by.contains("team/test"), "{by}");
    assert!(matches!(used(User::Claim(key.clone())), State::Conflict { .. }), "two pools may overlap");
    // Who shows it already keeps it.
    let mut kept = scene(vec![control()], vec![(CP, bound(CP, claim(CP), "10.0.0.10"))]);
    kept.uses = vec![Use { address: "10.0.0.10".parse().unwrap(), by: User::Claim(key) }];
    assert!(matches!(state(&survey(&allocated("10.0.0.10"), &kept), CP), State::Bound { .. }));
}

#[test]
fn of_two_fresh_claims_that_hold_one_address_the_older_one_goes_on_after_a_while() {
    let at = |rival: &str, since: i64, own: i64| {
        let mut holding = bound(CP, claim(CP), "10.0.0.10");
        if let Holding::Claim { address: Some(address), .. } = &mut holding {
            *address = Arc::new(AddressFacts { created: ago(own), ..(**address).clone() });
        }
        let mut scene = scene(vec![control()], vec![(CP, holding)]);
        let by = User::Rival { claim: ObjectKey::namespaced("team", rival), since: ago(since) };
        scene.uses = vec![Use { address: "10.0.0.10".parse().unwrap(), by }];
        matches!(state(&survey(&fresh(), &scene), CP), State::Bound { .. })
    };
    let (before, behind) = ("vip-cp-a", "vip-cp-z");
    assert!(at(before, 60, 61) && at(behind, 60, 61), "the older one, whatever the names");
    assert!(!at(before, 61, 60) && !at(behind, 61, 60));
    assert!(at(behind, 60, 60) && !at(before, 60, 60), "of the same second, by name");
    assert!(!at(behind, 29, 60) && !at(behind, 29, 29) && at(behind, 30, 60), "not before all have seen both");
}

#[test]
fn what_the_cluster_shows_is_never_changed_by_itself() {
    let held = |address| vec![(CP, bound(CP, claim(CP), address))];
    let moved = judged(&allocated("10.0.0.11"), vec![control()], held("10.0.0.10"));
    assert_eq!(state(&moved, CP), &State::Mismatch { held: "10.0.0.10".into(), shown: "10.0.0.11".into() });
    let gone = judged(&allocated("10.0.0.11"), vec![control()], vec![]);
    assert_eq!(state(&gone, CP), &State::Missing { shown: "10.0.0.11".into() });
    let mut noted = allocated("10.0.0.10");
    noted.annotations.insert(CP.annotation().to_owned(), "10.0.0.77".to_owned());
    let edited = judged(&noted, vec![control()], held("10.0.0.10"));
    assert!(matches!(state(&edited, CP), State::Mismatch { .. }));
    let mut spelled = allocated("2001:DB8:0::1");
    spelled.annotations.insert(CP.annotation().to_owned(), "[2001:db8::1]".to_owned());
    let same = judged(&spelled, vec![six()], held("2001:db8::1"));
    assert!(matches!(state(&same, CP), State::Bound { .. }), "spelling is no difference");
}

#[test]
fn a_rival_is_named_unless_two_owners_share_one_load_balancer() {
    let with_use = |mine: i32, port: Option<i32>, manual| {
        let mut scene = scene(vec![control()], vec![]);
        let key = ObjectKey::namespaced("team", "test");
        scene.uses = vec![Use { address: "10.9.9.9".parse().unwrap(), by: User::Cluster { key, port, manual } }];
        let mut cluster = shown("10.9.9.9", None);
        cluster.endpoint.port = mine;
        survey(&cluster, &scene).rival.is_some()
    };
    assert!(with_use(6443, Some(6443), true));
    assert!(with_use(6443, Some(7443), false), "an allocated address is shared with nobody");
    assert!(with_use(6443, None, true), "shown, but not as endpoint");
    assert!(!with_use(6443, Some(7443), true));
}

#[test]
fn no_word_depends_on_time_or_order() {
    let states = [told(None), told(claimed(|_| ())), told(claimed(|c| c.deleting = true)), told(Some(Holding::Behind))];
    for (state, text) in states {
        assert!(!text.is_empty());
        assert!(!reason(&state).as_str().is_empty());
    }
    let texts = |pools: Vec<vip::facts::Pool>, seconds| {
        let mut scene = scene(pools, vec![]);
        scene.now = now() + SignedDuration::from_secs(seconds);
        let survey = survey(&noted(&[("ip-families", "ipv6")]), &scene);
        sentence(CP, &survey.wants[&CP], &scene)
    };
    assert_eq!(texts(vec![control(), ingress()], 0), texts(vec![ingress(), control()], 3600));
}
