//! Pools are chosen by what they say, in an order that nobody's clock or cache can change.

use std::sync::Arc;

use api::views::PoolCounts;
use proptest::prelude::*;

use super::*;
use crate::facts::{PoolFacts, Range};

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn pool(name: &str, namespace: Option<&str>, labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Pool {
    let kind = if namespace.is_some() { "InClusterIPPool" } else { "GlobalInClusterIPPool" };
    let facts = PoolFacts {
        labels: map(labels),
        annotations: map(annotations),
        ranges: vec![Range::read("10.0.0.0/24").unwrap()],
        ..PoolFacts::default()
    };
    Pool {
        name: PoolName { kind: kind.into(), name: name.into() },
        namespace: namespace.map(Into::into),
        facts: Arc::new(facts),
        pending: 0,
    }
}

fn with(mut pool: Pool, change: impl FnOnce(&mut PoolFacts)) -> Pool {
    change(Arc::make_mut(&mut pool.facts));
    pool
}

const FIT: [(&str, &str); 2] = [(CLUSTER_CLASS, "web"), (ROLE, "control-plane")];

struct Looking {
    class: ObjectKey,
    labels: BTreeMap<String, String>,
}

impl Looking {
    fn new() -> Self {
        Self { class: ObjectKey::namespaced("classes", "web"), labels: map(&[("tier", "gold")]) }
    }

    fn search(&self) -> Search<'_> {
        Search {
            class: &self.class,
            namespace: "team-a",
            namespace_labels: &self.labels,
            role: Role::ControlPlane,
            family: None,
            pin: None,
        }
    }

    fn misfit(&self, pool: &Pool) -> Option<Misfit> {
        misfit(pool, &self.search())
    }
}

#[test]
fn classes_are_named_plainly_in_lists_with_namespace_or_all() {
    let looking = Looking::new();
    for (label, list, fits) in [
        ("web", "", true),
        ("other", "", false),
        ("true", "other, web", true),
        ("true", "classes/web", true),
        ("true", "classes/*", true),
        ("true", "team-a/web", false),
        ("true", "*", true),
        ("true", "", false),
        ("web,other", "", true),
    ] {
        let pool = pool("p", None, &[(CLUSTER_CLASS, label), (ROLE, "control-plane")], &[(CLUSTER_CLASS, list)]);
        assert_eq!(looking.misfit(&pool).is_none(), fits, "{label} {list}");
    }
}

#[test]
fn a_pool_serves_the_roles_and_namespaces_it_names() {
    let looking = Looking::new();
    let both = pool("p", None, &[(CLUSTER_CLASS, "web"), (ROLE, "true")], &[(ROLE, "ingress,control-plane")]);
    assert_eq!(looking.misfit(&both), None);
    let ingress = pool("p", None, &[(CLUSTER_CLASS, "web"), (ROLE, "ingress")], &[]);
    assert_eq!(looking.misfit(&ingress), Some(Misfit::Role));
    assert_eq!(looking.misfit(&pool("p", Some("team-a"), &FIT, &[])), None);
    assert_eq!(looking.misfit(&pool("p", Some("team-b"), &FIT, &[])), Some(Misfit::Namespace));
    for (key, value, fits) in [
        (NAMESPACES, "team-b, team-a", true),
        (NAMESPACES, "*", true),
        (NAMESPACES, "team-b", false),
        (NAMESPACE_SELECTOR, "tier=gold", true),
        (NAMESPACE_SELECTOR, "tier==gold,zone!=x", true),
        (NAMESPACE_SELECTOR, "tier=silver", false),
        (NAMESPACE_SELECTOR, "tier in (gold)", false),
    ] {
        let fit = looking.misfit(&pool("p", None, &FIT, &[(key, value)])).is_none();
        assert_eq!(fit, fits, "{key}: {value}");
    }
}

#[test]
fn a_pin_narrows_and_never_grants() {
    let looking = Looking::new();
    let (mine, other) = (pool("mine", None, &FIT, &[]), pool("other", None, &FIT, &[]));
    let stranger = pool("mine", None, &[(CLUSTER_CLASS, "x"), (ROLE, "control-plane")], &[]);
    for pin in ["mine", "GlobalInClusterIPPool/mine"] {
        let search = Search { pin: Some(pin), ..looking.search() };
        assert_eq!(misfit(&mine, &search), None);
        assert_eq!(misfit(&other, &search), Some(Misfit::Pin));
        assert_eq!(misfit(&stranger, &search), Some(Misfit::Class));
    }
    let search = Search { pin: Some("InClusterIPPool/mine"), ..looking.search() };
    assert_eq!(misfit(&mine, &search), Some(Misfit::Pin));
}

#[test]
fn pools_that_cannot_give_anything_are_passed_over() {
    let looking = Looking::new();
    let fit = || pool("p", None, &FIT, &[]);
    assert_eq!(looking.misfit(&with(fit(), |p| p.paused = true)), Some(Misfit::Paused));
    assert_eq!(looking.misfit(&with(fit(), |p| p.deleting = true)), Some(Misfit::Deleting));
    assert_eq!(looking.misfit(&with(fit(), |p| p.ranges.clear())), Some(Misfit::Empty));
    let search = Search { family: Some(Family::V6), ..looking.search() };
    assert_eq!(misfit(&fit(), &search), Some(Misfit::Family));
}

#[test]
fn the_order_is_capacity_priority_nearness_and_name() {
    let looking = Looking::new();
    let full = |p: &mut PoolFacts| p.counts = Some(PoolCounts { total: 1, used: 1, ..PoolCounts::default() });
    let free = |p: &mut PoolFacts| p.counts = Some(PoolCounts { total: 1, free: 1, ..PoolCounts::default() });
    let pools = [
        with(pool("best-but-full", None, &FIT, &[(PRIORITY, "9")]), full),
        pool("b-global", None, &FIT, &[]),
        pool("a-global", None, &FIT, &[]),
        with(pool("z-own", Some("team-a"), &FIT, &[]), free),
        pool("first", None, &FIT, &[(PRIORITY, "5")]),
        pool("last", None, &FIT, &[(PRIORITY, "-1")]),
    ];
    let names = |tried: &[PoolName]| -> Vec<String> {
        order(&pools, &looking.search(), tried).into_iter().map(|pool| pool.name.name.to_string()).collect()
    };
    assert_eq!(names(&[]), ["first", "z-own", "a-global", "b-global", "last", "best-but-full"]);
    let tried = [PoolName { kind: "GlobalInClusterIPPool".into(), name: "first".into() }];
    assert_eq!(names(&tried), ["z-own", "a-global", "b-global", "last", "first", "best-but-full"]);
    let all: Vec<PoolName> = pools.iter().map(|pool| pool.name.clone()).collect();
    assert_eq!(names(&all), names(&[]), "when all were tried the round begins again");
}

#[test]
fn what_others_have_asked_for_is_as_good_as_gone() {
    let looking = Looking::new();
    let free = |p: &mut PoolFacts| p.counts = Some(PoolCounts { total: 9, free: 2, ..PoolCounts::default() });
    let mut pools = [with(pool("a", None, &FIT, &[]), free), with(pool("b", None, &FIT, &[]), free)];
    let first = |pools: &[Pool]| order(pools, &looking.search(), &[]).first().map(|pool| pool.name.name.to_string());
    assert_eq!(first(&pools).as_deref(), Some("a"));
    pools[0].pending = 1;
    assert_eq!(first(&pools).as_deref(), Some("a"));
    pools[0].pending = 2;
    assert_eq!(first(&pools).as_deref(), Some("b"));
    pools[1].pending = 2;
    assert_eq!(first(&pools).as_deref(), Some("a"), "somebody has to be asked");
}

#[test]
fn the_tally_names_each_criterion_once() {
    let looking = Looking::new();
    assert_eq!(tally(&[], &looking.search()), "there is no pool at all");
    let pools = [
        pool("a", None, &[(CLUSTER_CLASS, "wbe"), (ROLE, "control-plane")], &[]),
        pool("b", None, &[], &[]),
        pool("c", Some("team-b"), &FIT, &[]),
    ];
    assert_eq!(tally(&pools, &looking.search()), "2 on class, 1 on namespace");
}

proptest! {
    #[test]
    fn any_text_is_read_without_harm_and_the_order_does_not_depend_on_the_cache(
        texts in proptest::collection::vec("[a-z*/,=! ]{0,12}", 6), rotate in 0usize..5,
    ) {
        let looking = Looking::new();
        let mut pools: Vec<Pool> = (0..5).map(|n| {
            let text = |i: usize| texts.get((i + n) % texts.len()).map_or("", String::as_str);
            let labels = if n % 2 == 0 { FIT } else { [(CLUSTER_CLASS, "true"), (ROLE, "true")] };
            pool(&format!("p{n}"), None, &labels, &[
                (CLUSTER_CLASS, text(0)), (ROLE, text(1)), (NAMESPACES, text(2)), (NAMESPACE_SELECTOR, text(3)), (PRIORITY, text(4)),
            ])
        }).collect();
        let names = |pools: &[Pool]| -> Vec<PoolName> {
            order(pools, &looking.search(), &[]).into_iter().map(|p| p.name.clone()).collect()
        };
        let before = names(&pools);
        pools.rotate_left(rotate);
        prop_assert_eq!(before, names(&pools));
    }
}
