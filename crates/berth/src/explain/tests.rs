//! Every screen, at the width of a phone, of a page and of a wall.

mod claims;
mod machines;
mod members;
mod metal;
mod other;
mod requests;

use ::vip::config::Config;
use ::vip::explain::{Extent, Lists, Part, Sight, Unseen};
use kit::clock::Clock;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sim::dock::objects::{self, merged};

use super::*;
use crate::screen::tests::{at_widths, document};

const NOW: &str = "2026-01-02T03:04:05Z";
const PREFIX: &str = "vip.capi.gorizond.io";

fn read<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn cluster(name: &str, more: &Value) -> Value {
    let meta = json!({"metadata": {"uid": format!("uid-{name}"), "resourceVersion": "7"}});
    merged(merged(objects::cluster("team-a", name, "quick"), &meta), more)
}

fn pool(name: &str, free: i64, more: &Value) -> Value {
    let counts = json!({"status": {"ipAddresses": {"free": free, "total": 20, "used": 20 - free}}});
    merged(merged(objects::pool(name, "quick", "10.20.0.1-10.20.0.20"), &counts), more)
}

fn claim(cluster: &str, role: &str, prefix: &str, pool: &str, bound: bool) -> Value {
    json!({
        "metadata": {
            "namespace": "team-a", "name": format!("{prefix}-{cluster}"), "uid": "c", "resourceVersion": "9",
            "creationTimestamp": "2026-01-02T03:00:00Z", "labels": {format!("{PREFIX}/role"): role},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": cluster, "uid": format!("uid-{cluster}")}],
        },
        "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": pool}},
        "status": if bound { json!({"addressRef": {"name": format!("{prefix}-{cluster}")}}) } else { json!({}) },
    })
}

fn lists(clusters: Vec<Value>, pools: Vec<Value>) -> Lists {
    let registration = json!({"metadata": {"name": "vip-allocator"}, "status": {"handlers": [{
        "name": "vip-allocator-before-create.vip-allocator", "requestHook": {"hook": "BeforeClusterCreate"}}]}});
    Lists {
        clusters: clusters.into_iter().map(read).collect(),
        classes: vec![read(json!({"metadata": {"namespace": "team-a", "name": "quick"}}))],
        global_pools: pools.into_iter().map(read).collect(),
        namespaces: vec![read(objects::namespace("team-a", &json!({})))],
        extensions: vec![read(registration)],
        ..Lists::default()
    }
}

/// Both screens of the first cluster at three widths, one below the other.
fn screens(lists: Lists) -> String {
    let (cluster, config, now) = (lists.clusters[0].clone(), Config::default(), NOW.parse().unwrap());
    let sight = Sight::of(lists, &Clock::system());
    let (told, root) = (explain(&sight, &cluster, &config, now), tree(&sight, &cluster, &config, now));
    at_widths(|screen| format!("{}\n{}", screen::explanation(screen, &told), screen::tree(screen, &root)))
}

fn finished() -> Lists {
    let marks = json!({"metadata": {"annotations": {
        format!("{PREFIX}/control-plane-vip"): "10.20.0.7", format!("{PREFIX}/control-plane-source"): "allocated",
        format!("{PREFIX}/control-plane-pool"): "GlobalInClusterIPPool/cp-vips", format!("{PREFIX}/ingress-enabled"): "true"}},
        "spec": {"controlPlaneEndpoint": {"host": "10.20.0.7", "port": 6443}, "infrastructureRef": {"kind": "DockCluster", "name": "prod"}},
        "status": {"conditions": [
            {"type": "TopologyReconciled", "status": "True"}, {"type": "ControlPlaneVIPReady", "status": "True"},
            {"type": "IngressVIPReady", "status": "False", "reason": "PoolExhausted",
             "message": "no free address in 1 matching pool: GlobalInClusterIPPool/ingress; enlarge one or add another"}]}});
    let ingress = json!({"metadata": {"labels": {format!("{PREFIX}/role"): "ingress"}}});
    let mut lists =
        lists(vec![cluster("prod", &marks)], vec![pool("cp-vips", 12, &json!({})), pool("ingress", 0, &ingress)]);
    lists.claims = vec![
        read(claim("prod", "control-plane", "vip-cp", "cp-vips", true)),
        read(claim("prod", "ingress", "vip-ingress", "ingress", false)),
    ];
    lists.addresses = vec![read(json!({"metadata": {"namespace": "team-a", "name": "vip-cp-prod"},
        "spec": {"claimRef": {"name": "vip-cp-prod"}, "address": "10.20.0.7"}}))];
    lists
}

#[test]
fn a_cluster_with_one_address_that_waits_for_another() {
    insta::assert_snapshot!(screens(finished()));
}

fn unmatched() -> Lists {
    let insists = json!({"metadata": {"annotations": {format!("{PREFIX}/control-plane-enabled"): "true"}}});
    let label = |key: &str, value: &str| json!({"metadata": {"labels": {format!("{PREFIX}/{key}"): value}}});
    let mark = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    let mut pools = vec![
        pool("paused", 3, &mark("cluster.x-k8s.io/paused", "")),
        pool("elsewhere", 3, &mark(&format!("{PREFIX}/namespaces"), "team-b,team-c")),
        pool("ingress-only", 3, &label("role", "ingress")),
    ];
    pools.extend((0..12).map(|n| pool(&format!("other-class-{n:02}"), n, &label("cluster-class", "slow"))));
    lists(vec![cluster("prod", &insists)], pools)
}

#[test]
fn a_cluster_that_no_pool_fits() {
    insta::assert_snapshot!(screens(unmatched()));
}

#[test]
fn a_cluster_that_is_about_to_be_served() {
    let high = json!({"metadata": {"annotations": {format!("{PREFIX}/priority"): "10"}}});
    let pools = vec![pool("cp-vips", 12, &json!({})), pool("reserve-of-the-data-centre-in-the-north", 20, &high)];
    insta::assert_snapshot!(screens(lists(vec![cluster("a-cluster-with-quite-a-long-name", &json!({}))], pools)));
}

#[test]
fn a_cluster_with_an_endpoint_of_its_own() {
    let manual = json!({"spec": {"controlPlaneEndpoint": {"host": "api.example.org", "port": 443}}});
    insta::assert_snapshot!(screens(lists(vec![cluster("prod", &manual)], vec![pool("cp-vips", 12, &json!({}))])));
}

#[test]
fn a_cluster_that_is_left_alone_because_of_a_typo() {
    let typo = json!({"metadata": {"labels": {format!("{PREFIX}/cluster-class"): "quik"}}});
    insta::assert_snapshot!(screens(lists(vec![cluster("prod", &json!({}))], vec![pool("cp-vips", 12, &typo)])));
}

#[test]
fn a_cluster_of_which_not_everything_can_be_seen() {
    let mut lists = lists(vec![cluster("prod", &json!({}))], vec![pool("cp-vips", 12, &json!({}))]);
    let unseen = |part, extent, why: &str| Unseen { part, extent, why: why.to_owned() };
    lists.unseen = vec![
        unseen(
            Part::Clusters,
            Extent::Elsewhere,
            "you may not list clusters.cluster.x-k8s.io in all namespaces: only those in team-a were read",
        ),
        unseen(
            Part::Claims,
            Extent::All,
            "you may not list ipaddressclaims.ipam.cluster.x-k8s.io: ask for that right, or look with another --context",
        ),
    ];
    insta::assert_snapshot!(screens(lists));
}

fn everything() -> Lists {
    let mut all = finished();
    let manual = json!({"spec": {"controlPlaneEndpoint": {"host": "api.example.org", "port": 443}}});
    let out = json!({"metadata": {"annotations": {format!("{PREFIX}/control-plane-enabled"): "false"}}});
    all.clusters.extend(
        [cluster("by-hand", &manual), cluster("apart", &out), cluster("new", &json!({}))]
            .map(read::<api::views::Cluster>),
    );
    all
}

fn all_rows() -> Vec<Vip> {
    let (all, config, now) = (everything(), Config::default(), NOW.parse().unwrap());
    let clusters = all.clusters.clone();
    let sight = Sight::of(all, &Clock::system());
    clusters.iter().flat_map(|cluster| vip_rows(&explain(&sight, cluster, &config, now))).collect()
}

#[test]
fn the_addresses_of_all_clusters() {
    let rows = all_rows();
    insta::assert_snapshot!(at_widths(|screen| vips_screen(screen, &rows)));
    insta::assert_snapshot!("no_addresses", at_widths(|screen| vips_screen(screen, &[])));
}

#[test]
fn the_addresses_for_programs() {
    insta::assert_snapshot!(document("VipList", &Vips { items: &all_rows() }));
}

#[test]
fn documents_for_programs() {
    let lists = finished();
    let (cluster, config, now) = (lists.clusters[0].clone(), Config::default(), NOW.parse().unwrap());
    let sight = Sight::of(lists, &Clock::system());
    let (told, root) = (explain(&sight, &cluster, &config, now), tree(&sight, &cluster, &config, now));
    insta::assert_snapshot!(
        serde_json::to_string_pretty(&json!({"explanation": told, "tree": root, "vips": all_rows()})).unwrap()
    );
}

#[test]
fn colour_is_only_used_when_asked_for_and_changes_no_word() {
    let strip = |text: &str| {
        let parts = text.split('\x1b').enumerate();
        parts.map(|(n, part)| if n == 0 { part } else { part.split_once('m').unwrap().1 }).collect::<String>()
    };
    let (lists, config, now) = (unmatched(), Config::default(), NOW.parse().unwrap());
    let cluster = lists.clusters[0].clone();
    let sight = Sight::of(lists, &Clock::system());
    let (told, root) = (explain(&sight, &cluster, &config, now), tree(&sight, &cluster, &config, now));
    for width in [Some(40), Some(100), None] {
        let draw = |colour| {
            let screen = Screen { width, colour };
            format!("{}{}", screen::explanation(screen, &told), screen::tree(screen, &root))
        };
        assert!(!draw(false).contains('\x1b') && draw(true).contains('\x1b'));
        assert_eq!(strip(&draw(true)), draw(false));
    }
}

#[test]
fn what_others_wrote_cannot_move_the_cursor() {
    let evil = json!({"metadata": {"labels": {format!("{PREFIX}/cluster-class"): "\u{1b}[2Jquick\u{7}\r"}},
        "spec": {"controlPlaneEndpoint": {"host": "\u{1b}]0;x\u{7}", "port": 1}}});
    let text = screens(lists(vec![cluster("prod", &evil)], vec![pool("cp-vips", 1, &evil)]));
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn a_subject_is_a_known_kind_and_a_name() {
    for good in ["cluster/prod", "Clusters/prod", "clusters.cluster.x-k8s.io/prod"] {
        assert_eq!(subject(good), Ok(Subject::Cluster("prod".to_owned())));
    }
    for good in ["hostclaim/web", "hc/web", "HostClaims.metal3.io/web"] {
        assert_eq!(subject(good), Ok(Subject::Claim("web".to_owned())));
    }
    for (bad, says) in [
        ("prod", "cluster/prod"),
        ("castle/a", "`castle`"),
        ("cluster/", ""),
        ("cluster/A b", "A b"),
        ("cluster/a/b", "a/b"),
    ] {
        assert!(subject(bad).is_err_and(|error| error.contains(says)), "{bad}");
    }
}

#[test]
fn without_flags_clusters_are_judged_as_by_an_operator_without_flags() {
    use clap::Parser;
    let cli = crate::cli::Cli::parse_from(["berth", "explain", "cluster/prod"]);
    let crate::cli::Command::Explain(options) = cli.command else { panic!("not explain") };
    assert_eq!(options.about.operator.addresses(), Config::default());
    assert_eq!(options.about.operator.yard.settings(), ::claims::yard::Settings::default());
}
