//! Whether a cluster is ours, and whose its endpoint is.

use std::sync::Arc;

use api::key::ObjectKey;
use vip::config::MissingPool;
use vip::facts::ClusterFacts;
use vip::names::Slot;
use vip::survey::{Stance, UNMANAGED, UNPOOLED, survey};

use crate::build::*;

fn stance(cluster: &ClusterFacts) -> Stance {
    judged(cluster, vec![control()], vec![]).stance
}

#[test]
fn a_new_cluster_of_a_class_that_a_pool_names_gets_an_address() {
    assert_eq!(stance(&fresh()), Stance::Pooled);
}

#[test]
fn what_is_going_paused_filtered_or_opted_out_is_left_alone() {
    let out = |cluster: ClusterFacts| assert!(matches!(stance(&cluster), Stance::Out(_)), "{cluster:?}");
    out(ClusterFacts { deleting: true, ..fresh() });
    out(ClusterFacts { paused: true, ..fresh() });
    out(ClusterFacts { class: None, ..fresh() });
    out(noted(&[("control-plane-enabled", "false")]));
    out(ClusterFacts { deleting: true, ..allocated("10.0.0.10") });
    let mut opted_out = scene(vec![control()], vec![]);
    let mut class = class(&[]);
    class.annotations.insert(key("control-plane-enabled"), "false".to_owned());
    opted_out.class = Some(Arc::new(class));
    assert!(matches!(survey(&fresh(), &opted_out).stance, Stance::Out(_)), "the class opted out");
    let insisting = noted(&[("control-plane-enabled", "true")]);
    assert_eq!(survey(&insisting, &opted_out).stance, Stance::Pooled, "the Cluster's word goes before its class's");
}

#[test]
fn only_clusters_with_our_watch_filter_are_looked_at() {
    let filtered = || with(scene(vec![control()], vec![]), |config| config.watch_filter = Some("blue".to_owned()));
    let labelled = |label: Option<&str>| ClusterFacts { watch_filter: label.map(Into::into), ..fresh() };
    assert_eq!(survey(&labelled(Some("blue")), &filtered()).stance, Stance::Pooled);
    assert!(matches!(survey(&labelled(Some("red")), &filtered()).stance, Stance::Out(_)));
    assert!(matches!(survey(&labelled(None), &filtered()).stance, Stance::Out(_)));
    assert_eq!(survey(&labelled(Some("red")), &scene(vec![control()], vec![])).stance, Stance::Pooled);
}

#[test]
fn under_auto_a_class_is_managed_when_somebody_says_so() {
    let elsewhere = {
        let mut pool = control();
        let mut facts = (*pool.facts).clone();
        facts.labels.insert(key("cluster-class"), "cloud".to_owned());
        pool.facts = Arc::new(facts);
        pool
    };
    let alone = || scene(vec![elsewhere.clone()], vec![]);
    assert_eq!(survey(&fresh(), &alone()).stance, Stance::Out(UNMANAGED));
    assert_eq!(survey(&noted(&[("control-plane-enabled", "true")]), &alone()).stance, Stance::Pooled);
    assert_eq!(survey(&allocated("10.0.0.10"), &alone()).stance, Stance::Pooled, "it has an address of ours already");
    let mut handled = alone();
    let handler = "vip-allocator-generate-patches.any".into();
    handled.class = Some(Arc::new(vip::facts::ClassFacts { handlers: vec![handler], ..class(&[]) }));
    assert_eq!(survey(&fresh(), &handled).stance, Stance::Pooled);
    let mut held = alone();
    held.holdings.insert(Slot::CONTROL_PLANE, bound(Slot::CONTROL_PLANE, claim(Slot::CONTROL_PLANE), "10.0.0.10"));
    assert_eq!(survey(&fresh(), &held).stance, Stance::Pooled, "a claim of its own says so");
}

#[test]
fn the_other_policies_do_what_they_are_called() {
    let under = |policy: MissingPool, cluster: &ClusterFacts| {
        survey(cluster, &with(scene(vec![ingress()], vec![]), |config| config.missing_pool = policy)).stance
    };
    assert_eq!(under(MissingPool::Block, &fresh()), Stance::Pooled);
    assert_eq!(under(MissingPool::Fail, &fresh()), Stance::Pooled);
    assert_eq!(under(MissingPool::Ignore, &fresh()), Stance::Out(UNPOOLED));
    assert_eq!(under(MissingPool::Auto, &fresh()), Stance::Pooled, "a pool names the class, if only for the ingress");
    let insisting = noted(&[("control-plane-enabled", "true")]);
    assert_eq!(under(MissingPool::Ignore, &insisting), Stance::Pooled);
    let none = with(scene(vec![], vec![]), |config| config.missing_pool = MissingPool::Block);
    assert_eq!(survey(&fresh(), &none).stance, Stance::Pooled);
}

#[test]
fn an_endpoint_that_nobody_allocated_is_the_users() {
    assert_eq!(stance(&shown("10.9.9.9", None)), Stance::Manual);
    assert_eq!(stance(&shown("api.example.org", None)), Stance::Manual);
    assert_eq!(stance(&by_hand("10.9.9.9")), Stance::Manual);
    assert_eq!(stance(&allocated("10.0.0.10")), Stance::Pooled, "also without its claim");
}

#[test]
fn an_address_in_the_variable_is_the_users_unless_our_claim_holds_it() {
    let mut cluster = fresh();
    cluster.variables.insert(Slot::CONTROL_PLANE, "10.9.9.9".to_owned());
    assert_eq!(stance(&cluster), Stance::Manual);
    cluster.variables.insert(Slot::CONTROL_PLANE, "  ".to_owned());
    assert_eq!(stance(&cluster), Stance::Pooled, "an empty default is no choice");
    cluster.variables.insert(Slot::CONTROL_PLANE, "10.0.0.10".to_owned());
    let holdings = vec![(Slot::CONTROL_PLANE, bound(Slot::CONTROL_PLANE, claim(Slot::CONTROL_PLANE), "10.0.0.10"))];
    assert_eq!(judged(&cluster, vec![control()], holdings).stance, Stance::Pooled);
}

#[test]
fn an_endpoint_that_our_claim_holds_was_allocated_by_an_earlier_release() {
    let holdings =
        |address| vec![(Slot::CONTROL_PLANE, bound(Slot::CONTROL_PLANE, claim(Slot::CONTROL_PLANE), address))];
    let same = judged(&shown("10.0.0.10", None), vec![control()], holdings("10.0.0.10"));
    assert_eq!(same.stance, Stance::Pooled);
    let source = same.goal.annotations.get(&*key("control-plane-source"));
    assert_eq!(source, Some(&Some("allocated".to_owned())), "it is told from now on");
    let other = judged(&shown("10.9.9.9", None), vec![control()], holdings("10.0.0.10"));
    assert_eq!(other.stance, Stance::Manual);
    assert_eq!(other.unused, Some(Slot::CONTROL_PLANE));
    let mut foreign = claim(Slot::CONTROL_PLANE);
    foreign.owners = vec![owner("u0")];
    let holdings = vec![(Slot::CONTROL_PLANE, bound(Slot::CONTROL_PLANE, foreign, "10.0.0.10"))];
    assert_eq!(judged(&shown("10.0.0.10", None), vec![control()], holdings).stance, Stance::Manual);
}

#[test]
fn vip_only_leaves_the_endpoint_to_the_user() {
    let mut cluster = shown("api.example.org", None);
    cluster.annotations.insert(key("vip-only"), "true".to_owned());
    let holdings = vec![(Slot::CONTROL_PLANE, bound(Slot::CONTROL_PLANE, claim(Slot::CONTROL_PLANE), "10.0.0.10"))];
    let survey = judged(&cluster, vec![control()], holdings);
    assert_eq!(survey.stance, Stance::VipOnly);
    assert_eq!(survey.goal.endpoint, None);
    let vip = survey.goal.annotations.get(Slot::CONTROL_PLANE.annotation());
    assert_eq!(vip, Some(&Some("10.0.0.10".to_owned())));
}

#[test]
fn a_cluster_without_topology_names_its_class_only_in_the_compatibility_mode() {
    let mut plain = noted(&[("cluster-class", "metal")]);
    plain.class = None;
    assert!(matches!(stance(&plain), Stance::Out(_)));
    let compatible = with(scene(vec![control()], vec![]), |config| config.reconciler = true);
    assert_eq!(survey(&plain, &compatible).stance, Stance::Pooled);
    plain.class = Some(ObjectKey::namespaced("team", "cloud"));
    assert_eq!(survey(&plain, &compatible).stance, Stance::Out(UNMANAGED), "the topology's class goes first");
}
