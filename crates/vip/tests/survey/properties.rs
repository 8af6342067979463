//! What holds of any decision, whatever is seen.

use std::sync::Arc;

use api::key::ObjectKey;
use api::views::Endpoint;
use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::Value;
use vip::config::MissingPool;
use vip::decide::{Next, Snapshot, Step, decide};
use vip::facts::{ClaimFacts, ClusterFacts, Pool, address};
use vip::goal::Goal;
use vip::guard::guard;
use vip::hooks::Answer;
use vip::keeper;
use vip::names::{INGRESS_VIP, Role, Slot};
use vip::scene::{Holding, Live, Scene, Use, User};
use vip::survey::{Stance, State, survey};

use crate::build::*;

const HOSTS: [&str; 5] = ["", "10.0.0.10", "10.0.0.11", "2001:db8::10", "api.example.org"];

prop_compose! {
    fn clusters()(
        (age, deleting, paused, rendered) in (0_i64..100, prop::bool::weighted(0.1), prop::bool::weighted(0.1), any::<bool>()),
        (classless, host, port) in (prop::bool::weighted(0.05), select(&HOSTS[..]), select(vec![0, 6443])),
        notes in subsequence(vec![
            ("control-plane-vip", "10.0.0.10"), ("control-plane-vip-secondary", "2001:db8::10"), ("ingress-vip", "10.1.0.10"),
            ("control-plane-source", "allocated"), ("control-plane-source", "manual"), ("control-plane-enabled", "true"),
            ("control-plane-enabled", "false"), ("ingress-enabled", "true"), ("ingress-enabled", "false"),
            ("ingress-enabled", "maybe"), ("vip-only", "true"), ("ip-families", "ipv4,ipv6"), ("ip-families", "ipv6"),
            ("ip-families", "x"), ("port", "7443"), ("port", "x"), ("pool", "other"),
        ], 0..6),
        variables in subsequence(Slot::ALL.to_vec(), 0..3),
        value in select(&HOSTS[..]),
        label in prop::option::of(Just("10.1.0.10".to_owned())),
    ) -> ClusterFacts {
        let mut cluster = noted(&notes);
        cluster.created = ago(age);
        (cluster.deleting, cluster.paused, cluster.rendered) = (deleting, paused, rendered);
        if classless {
            cluster.class = None;
        }
        cluster.endpoint = Endpoint { host: host.to_owned(), port };
        cluster.variables = variables.into_iter().map(|slot| (slot, value.to_owned())).collect();
        cluster.ingress_label = label;
        cluster
    }
}

prop_compose! {
    fn holdings(slot: Slot)(
        behind in prop::bool::weighted(0.1),
        owners in select(vec![vec![], vec!["u1"], vec!["u1"], vec!["u0"]]),
        (deleting, paused, labelled, managed) in (prop::bool::weighted(0.15), prop::bool::weighted(0.1), prop::bool::weighted(0.9), any::<bool>()),
        (age, pool) in (0_i64..1000, select(vec!["control", "other", "in", "vanished"])),
        (named, seen, own) in (any::<bool>(), prop::bool::weighted(0.8), prop::bool::weighted(0.8)),
        (held, refused) in (select(vec!["10.0.0.10", "10.0.0.11", "10.1.0.10", "2001:db8::10"]), prop::bool::weighted(0.1)),
    ) -> Holding {
        let mut claim = claim(slot);
        claim.owners = owners.into_iter().map(owner).collect();
        (claim.deleting, claim.paused, claim.managed) = (deleting, paused, managed);
        claim.created = ago(age);
        claim.pool = Some(name(pool));
        claim.role = labelled.then(|| slot.role.as_str().into());
        claim.refusal = refused.then(|| "PoolExhausted".into());
        if behind {
            return Holding::Behind;
        }
        if !named {
            return waiting(claim);
        }
        let Holding::Claim { claim, address } = bound(slot, claim, held) else { unreachable!() };
        let address = address.filter(|_| seen).map(|address| {
            let mut address = vip::facts::AddressFacts::clone(&address);
            if !own {
                address.claim_uid = Some("another".into());
            }
            Arc::new(address)
        });
        Holding::Claim { claim, address }
    }
}

fn pools() -> impl Strategy<Value = Vec<Pool>> {
    let free = || prop::option::of(select(vec![0, 5]));
    (free(), free(), free(), free()).prop_flat_map(|(a, b, c, d)| {
        let all = vec![
            pool_named("control", "control-plane", "10.0.0.10-10.0.0.18", a),
            pool_named("other", "control-plane", "10.5.0.10-10.5.0.18", b),
            pool_named("six", "control-plane", "2001:db8::10-2001:db8::18", c),
            pool_named("in", "ingress", "10.1.0.10-10.1.0.18", d),
        ];
        subsequence(all, 0..=4)
    })
}

prop_compose! {
    fn scenes()(
        pools in pools(),
        slots in subsequence(Slot::ALL.to_vec(), 0..=4),
        all in (holdings(Slot::ALL[0]), holdings(Slot::ALL[1]), holdings(Slot::ALL[2]), holdings(Slot::ALL[3])),
        uses in prop::collection::vec((select(vec!["10.0.0.10", "10.0.0.11", "10.1.0.10"]), any::<bool>(), any::<bool>()), 0..2),
        (policy, extension, reconciler) in (select(MissingPool::ALL.to_vec()), any::<bool>(), any::<bool>()),
        (release, variables) in (any::<bool>(), subsequence(Slot::ALL.to_vec(), 0..=4)),
        (tried, classless) in (subsequence(vec!["control", "other"], 0..=2), prop::bool::weighted(0.1)),
    ) -> Scene {
        let all = [all.0, all.1, all.2, all.3];
        let holdings = Slot::ALL.into_iter().zip(all).filter(|(slot, _)| slots.contains(slot)).collect();
        let mut scene = scene(pools, holdings);
        scene.class = (!classless).then(|| Arc::new(class(&variables)));
        scene.uses = uses.into_iter().map(|(address, claim, manual)| {
            let key = ObjectKey::namespaced("team", "test");
            let by = if claim { User::Claim(key) } else { User::Cluster { key, port: Some(6443), manual } };
            Use { address: address.parse().unwrap(), by }
        }).collect();
        scene.tried.insert(Slot::CONTROL_PLANE, tried.into_iter().map(name).collect());
        with(scene, |config| {
            config.missing_pool = policy.1;
            (config.extension, config.reconciler, config.release_unused) = (extension, reconciler, release);
        })
    }
}

fn lives() -> impl Strategy<Value = Option<ClusterFacts>> {
    prop::option::of(clusters())
}

fn kept(cluster: &ClusterFacts, scene: &Scene) -> keeper::Snapshot {
    let api_version = "cluster.x-k8s.io/v1beta2".into();
    let stored = cluster.stored.clone();
    keeper::Snapshot { cluster: Some(Arc::new(cluster.clone())), scene: scene.clone(), api_version, stored }
}

fn claim_of(scene: &Scene, slot: Slot) -> &ClaimFacts {
    scene.claim(slot).unwrap_or_else(|| panic!("a step about a claim that is not there: {slot}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn the_gate_decides_on_anything_and_its_guard_accepts_it(
        asked in clusters(), other in lives(), scene in scenes(), waited in any::<bool>(), confirmed in any::<bool>(),
    ) {
        let same = live(&asked);
        for live in [Live::Unread, Live::Absent, same, other.as_ref().map_or(Live::Unread, live)] {
            let snapshot = Snapshot { asked: asked.clone(), live, scene: scene.clone(), waited, confirmed };
            if let Next::Do(steps) = decide(&snapshot) {
                prop_assert!(!steps.is_empty());
                prop_assert!(guard(&snapshot, &steps).is_ok(), "{:?}", guard(&snapshot, &steps));
            }
        }
    }

    #[test]
    fn the_gate_opens_only_for_what_carries_everything(asked in clusters(), other in lives(), scene in scenes()) {
        for live in [Live::Unread, live(&asked), other.as_ref().map_or(Live::Unread, live)] {
            let snapshot = Snapshot { asked: asked.clone(), live, scene: scene.clone(), waited: true, confirmed: true };
            let opened = decide(&snapshot) == Next::Answer(Answer::open());
            if !opened || matches!(survey(&asked, &scene).stance, Stance::Out(_)) {
                continue;
            }
            let shown = asked.annotation(Slot::CONTROL_PLANE.annotation()).unwrap_or_default();
            let vip_only = asked.annotation(&key("vip-only")) == Some("true");
            prop_assert!(!shown.is_empty());
            prop_assert!(vip_only || (asked.endpoint.is_valid() && address(shown) == address(&asked.endpoint.host)));
            if asked.annotation(&key("control-plane-source")) == Some("allocated") {
                let held = scene.owned(Slot::CONTROL_PLANE, &asked.uid);
                prop_assert!(held.is_some() && held == address(shown), "{held:?} is held, {shown} is shown");
            }
            if asked.annotation(&key("ingress-enabled")) == Some("true") {
                prop_assert!(asked.annotation(INGRESS_VIP).is_some_and(|vip| !vip.is_empty()));
            }
            let defined = scene.class.as_ref().is_some_and(|class| class.variables.contains(&Slot::CONTROL_PLANE));
            if defined && address(shown).is_some() {
                prop_assert_eq!(asked.variables.get(&Slot::CONTROL_PLANE).map(String::as_str), Some(shown));
            }
        }
    }

    #[test]
    fn the_housekeeper_plans_for_anything_and_its_guard_accepts_it(cluster in clusters(), scene in scenes()) {
        for cluster in [Some(cluster), None] {
            let snapshot = match cluster {
                Some(cluster) => kept(&cluster, &scene),
                None => keeper::Snapshot { cluster: None, ..kept(&fresh(), &scene) },
            };
            let plan = keeper::decide::decide(&snapshot);
            prop_assert!(keeper::guard::guard(&snapshot, &plan).is_ok(), "{plan:?}");
        }
    }

    /// Whatever an old index shows: no claim that may hold an address in use is deleted, and no host is changed.
    #[test]
    fn no_plan_gives_up_an_address_that_may_be_in_use(cluster in clusters(), scene in scenes()) {
        for step in keeper::decide::decide(&kept(&cluster, &scene)) {
            match step {
                keeper::decide::Step::Abandon { slot, .. } => prop_assert!(claim_of(&scene, slot).address.is_none()),
                keeper::decide::Step::Release { slot, .. } if claim_of(&scene, slot).address.is_some() => {
                    let held = scene.bound(slot);
                    let hidden = !cluster.annotations.contains_key(slot.annotation());
                    match slot.role {
                        Role::Ingress => prop_assert!(hidden, "it is still shown"),
                        Role::ControlPlane => prop_assert!(held.is_some() && held != address(&cluster.endpoint.host)),
                    }
                }
                keeper::decide::Step::Write { goal } => {
                    let patch = goal.patch(&cluster, &[]);
                    let host = patch.as_ref().and_then(|p| p.pointer("/spec/controlPlaneEndpoint/host"));
                    let moved = host.is_some_and(|host| !cluster.endpoint.host.is_empty() && *host != cluster.endpoint.host);
                    prop_assert!(!moved);
                }
                _ => {}
            }
        }
        let snapshot = keeper::Snapshot { cluster: None, ..kept(&fresh(), &scene) };
        for step in keeper::decide::decide(&snapshot) {
            if let keeper::decide::Step::Sweep { slot } = step {
                let claim = claim_of(&scene, slot);
                prop_assert!(claim.owners.is_empty() && claim.managed && !claim.paused);
            }
        }
    }

    /// Done again and again, the steps come to an end: the gate to one answer, the housekeeper to an empty plan; and once
    /// the gate has opened, it opens again and the Cluster stays as it is.
    #[test]
    fn everything_comes_to_rest(asked in clusters(), scene in scenes()) {
        let mut world = World { cluster: asked, scene };
        let first = world.gate();
        prop_assert!(first.is_some(), "the gate does not come to an end");
        prop_assert!(world.keeper(), "the housekeeper does not come to an end");
        let second = world.gate();
        let third = world.clone().gate();
        prop_assert_eq!(&second, &third);
        if second == Some(Answer::open()) {
            let before = world.cluster.clone();
            prop_assert!(world.keeper());
            prop_assert_eq!(before, world.cluster);
        }
    }
}

/// A world that does at once what is asked of it.
#[derive(Clone, Debug)]
struct World {
    cluster: ClusterFacts,
    scene: Scene,
}

impl World {
    /// Calls the gate until its answer stays the same while nothing is done any more.
    fn gate(&mut self) -> Option<Answer> {
        let mut last = None;
        for _ in 0..60 {
            self.provide();
            let (asked, live) = (self.cluster.clone(), live(&self.cluster));
            let snapshot = Snapshot { asked, live, scene: self.scene.clone(), waited: true, confirmed: true };
            match decide(&snapshot) {
                Next::Answer(answer) => {
                    self.scene.now += SignedDuration::from_secs(i64::from(answer.retry_after()) + 130);
                    if last.as_ref() == Some(&answer) {
                        return last;
                    }
                    last = Some(answer);
                }
                Next::Do(steps) => {
                    last = None;
                    for step in steps {
                        self.act(step);
                    }
                }
                Next::Read | Next::Confirm | Next::Await => panic!("everything was read, and waited for"),
            }
        }
        None
    }

    fn act(&mut self, step: Step) {
        match step {
            Step::Claim { slot, pool, tried } => self.make(slot, pool, tried),
            Step::Adopt { slot } => self.change(slot, |claim| claim.owners = vec![owner("u1")]),
            Step::Abandon { slot, .. } => self.abandon(slot),
            Step::Write { patch, .. } => self.write(&patch),
        }
    }

    /// Runs the housekeeper until it has nothing to do.
    fn keeper(&mut self) -> bool {
        use keeper::decide::Step;
        for _ in 0..60 {
            self.provide();
            let plan = keeper::decide::decide(&kept(&self.cluster, &self.scene));
            if plan.is_empty() {
                return true;
            }
            for step in plan {
                match step {
                    Step::Claim { slot, pool, tried } => self.make(slot, pool, tried),
                    Step::Adopt { slot } => self.change(slot, |claim| claim.owners = vec![owner("u1")]),
                    Step::Refer { slot } => self.change(slot, |claim| claim.owners = vec![owner("u1")]),
                    Step::Abandon { slot, .. } => self.abandon(slot),
                    Step::Release { slot, .. } | Step::Sweep { slot } => drop(self.scene.holdings.remove(&slot)),
                    Step::Write { goal } => self.reach(&goal),
                    Step::Point { .. } => self.scene.pointed = true,
                    Step::Warn { slot } => drop(self.scene.warned.insert(slot)),
                    Step::Wait { until } => self.scene.now = self.scene.now.max(until),
                }
            }
        }
        false
    }

    /// What is deleted goes, what is asked of a pool with room comes, and what was written is seen.
    fn provide(&mut self) {
        let gone = |holding: &Holding| matches!(holding, Holding::Claim { claim, .. } if claim.deleting);
        self.scene.holdings.retain(|_, holding| !gone(holding) && !matches!(holding, Holding::Behind));
        for (slot, holding) in &mut self.scene.holdings {
            let Holding::Claim { claim, .. } = holding else { continue };
            let asked = claim.pool.clone();
            let pool = self.scene.pools.iter().find(|pool| Some(&pool.name) == asked.as_ref());
            let room = pool.filter(|pool| pool.facts.has_capacity() && !pool.facts.ranges.is_empty());
            if let Some(pool) = room.filter(|_| claim.address.is_none()) {
                let last = pool.facts.ranges[0].last.to_string();
                *holding = bound(*slot, ClaimFacts::clone(claim), &last);
            }
        }
    }

    fn make(&mut self, slot: Slot, pool: vip::facts::PoolName, tried: Vec<vip::facts::PoolName>) {
        let made = ClaimFacts { pool: Some(pool), tried, created: self.scene.now, ..claim(slot) };
        assert!(self.scene.holdings.insert(slot, waiting(made)).is_none(), "two claims for {slot}");
        self.scene.tried.remove(&slot);
    }

    fn change(&mut self, slot: Slot, change: impl FnOnce(&mut ClaimFacts)) {
        if let Some(Holding::Claim { claim, .. }) = self.scene.holdings.get_mut(&slot) {
            change(Arc::make_mut(claim));
        }
    }

    fn abandon(&mut self, slot: Slot) {
        if let Some(Holding::Claim { claim, .. }) = self.scene.holdings.remove(&slot) {
            let mut tried = claim.tried.clone();
            tried.extend(claim.pool.clone());
            self.scene.tried.insert(slot, tried);
        }
    }

    fn reach(&mut self, goal: &Goal) {
        if let Some(patch) = goal.patch(&self.cluster, &variables_of(&live(&self.cluster))) {
            self.write(&patch);
        }
    }

    fn write(&mut self, patch: &Value) {
        let cluster = &mut self.cluster;
        if let Some(endpoint) = patch.pointer("/spec/controlPlaneEndpoint") {
            let host = endpoint["host"].as_str().unwrap().to_owned();
            assert!(cluster.endpoint.host.is_empty() || cluster.endpoint.host == host, "a host was changed");
            let port = i32::try_from(endpoint["port"].as_i64().unwrap()).unwrap();
            cluster.endpoint = Endpoint { host, port };
        }
        if let Some(Value::Array(list)) = patch.pointer("/spec/topology/variables") {
            assert_eq!(list[0], variables_of(&live(&fresh()))[0], "a variable of the user's was changed");
            let text =
                |slot: &Slot| list.iter().find(|v| v["name"] == slot.variable()).map(|v| v["value"].as_str().unwrap());
            cluster.variables =
                Slot::ALL.into_iter().filter_map(|slot| Some((slot, text(&slot)?.to_owned()))).collect();
        }
        if let Some(Value::Object(notes)) = patch.pointer("/metadata/annotations") {
            for (key, value) in notes {
                match value.as_str() {
                    Some(text) => drop(cluster.annotations.insert(key.clone(), text.to_owned())),
                    None => drop(cluster.annotations.remove(key)),
                }
            }
        }
        if let Some(Value::Object(labels)) = patch.pointer("/metadata/labels") {
            cluster.ingress_label = labels[INGRESS_VIP].as_str().map(str::to_owned);
        }
    }
}

#[test]
fn a_conflict_of_an_address_nobody_insists_on_holds_nobody_back() {
    let mut scene = scene(
        vec![control(), ingress()],
        vec![
            (Slot::CONTROL_PLANE, bound(Slot::CONTROL_PLANE, claim(Slot::CONTROL_PLANE), "10.0.0.10")),
            (Slot::INGRESS, bound(Slot::INGRESS, claim(Slot::INGRESS), "10.1.0.10")),
        ],
    );
    let by = User::Claim(ObjectKey::namespaced("team", "x"));
    scene.uses = vec![Use { address: "10.1.0.10".parse().unwrap(), by }];
    let judged = survey(&fresh(), &scene);
    assert!(matches!(state(&judged, Slot::INGRESS), State::Conflict { .. }));
    let mut world = World { cluster: fresh(), scene };
    assert_eq!(world.gate(), Some(Answer::open()));
    assert_eq!(world.cluster.annotation(INGRESS_VIP), None);
}

#[test]
fn an_ingress_claim_that_nobody_can_make_does_not_hold_the_control_plane_back() {
    let holdings = vec![(Slot::CONTROL_PLANE, bound(Slot::CONTROL_PLANE, claim(Slot::CONTROL_PLANE), "10.0.0.10"))];
    let old = ClusterFacts { created: ago(60), ..fresh() };
    let scene = scene(vec![control(), ingress()], holdings);
    let snapshot = Snapshot { live: live(&old), asked: old, scene, waited: true, confirmed: true };
    let Next::Do(steps) = decide(&snapshot) else { panic!("{:?}", decide(&snapshot)) };
    assert!(matches!(steps.as_slice(), [Step::Write { endpoint: true, .. }]), "{steps:?}");
}

#[test]
fn a_cluster_that_nothing_in_the_indexes_asks_for_passes_only_when_the_server_says_the_same() {
    let unseen = |confirmed| {
        let scene = scene(vec![], vec![]);
        decide(&Snapshot { asked: fresh(), live: Live::Unread, scene, waited: false, confirmed })
    };
    assert_eq!(unseen(false), Next::Confirm);
    assert_eq!(unseen(true), Next::Answer(Answer::open()));
    let mut classless = scene(vec![control()], vec![]);
    classless.class = None;
    let snapshot = Snapshot { asked: fresh(), live: Live::Unread, scene: classless, waited: false, confirmed: false };
    assert_eq!(decide(&snapshot), Next::Confirm, "its class may define variables, or opt out");
}

#[test]
fn a_class_that_opted_out_is_believed_only_when_the_server_says_the_same() {
    let mut opted_out = class(&[]);
    opted_out.annotations.insert(key("control-plane-enabled"), "false".to_owned());
    let answer = |asked: ClusterFacts, confirmed| {
        let mut scene = scene(vec![control()], vec![]);
        scene.class = Some(Arc::new(opted_out.clone()));
        decide(&Snapshot { asked, live: Live::Unread, scene, waited: false, confirmed })
    };
    assert_eq!(answer(fresh(), false), Next::Confirm);
    assert_eq!(answer(fresh(), true), Next::Answer(Answer::open()));
    let itself = noted(&[("control-plane-enabled", "false")]);
    assert_eq!(answer(itself, false), Next::Answer(Answer::open()), "the Cluster in the request says so itself");
}

#[test]
fn who_opts_out_after_the_question_is_asked_again() {
    let out = noted(&[("control-plane-enabled", "false")]);
    let scene = scene(vec![control()], vec![]);
    let snapshot = Snapshot { asked: fresh(), live: live(&out), scene, waited: false, confirmed: true };
    assert!(matches!(decide(&snapshot), Next::Answer(Answer::Retry { .. })));
    let going = Snapshot { live: live(&ClusterFacts { deleting: true, ..fresh() }), ..snapshot };
    assert!(matches!(decide(&going), Next::Answer(Answer::Retry { .. })), "nothing is rendered of what goes away");
}
