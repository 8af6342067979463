//! Explanations say what the room would decide, of every pool why, and never more than could be seen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use jiff::Timestamp;
use kit::clock::Clock;
use kit::explain::{Explanation, Level, Node};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sim::dock::objects::{self, merged};
use vip::config::{Config, MissingPool};
use vip::explain::{Extent, Lists, Part, Sight, Unseen, explain, tree};
use vip::pools::Misfit;

const NOW: &str = "2026-01-02T03:04:05Z";
const PREFIX: &str = "vip.capi.gorizond.io";

fn read<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn registration() -> Value {
    json!({"metadata": {"name": "vip-allocator"}, "spec": {"namespaceSelector": {}}, "status": {"handlers": [{
        "name": "vip-allocator-before-create.vip-allocator",
        "requestHook": {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "BeforeClusterCreate"}}]}})
}

fn cluster(more: &Value) -> Value {
    let cluster = merged(
        objects::cluster("team-a", "prod", "quick"),
        &json!({"metadata": {"uid": "u1", "resourceVersion": "7"}}),
    );
    merged(cluster, more)
}

fn counted(pool: Value, free: i64, total: i64) -> Value {
    merged(pool, &json!({"status": {"ipAddresses": {"free": free, "total": total, "used": total - free}}}))
}

fn claim(pool: &str, more: &Value) -> Value {
    let claim = json!({
        "metadata": {
            "namespace": "team-a", "name": "vip-cp-prod", "uid": "c1", "resourceVersion": "9", "creationTimestamp": NOW,
            "labels": {format!("{PREFIX}/role"): "control-plane", format!("{PREFIX}/managed-by"): "vip-allocator"},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "prod", "uid": "u1"}],
        },
        "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": pool}},
    });
    merged(claim, more)
}

fn bound() -> Value {
    json!({"status": {"addressRef": {"name": "a1"}}})
}

fn address(text: &str) -> Value {
    json!({"metadata": {"namespace": "team-a", "name": "a1"}, "spec": {"claimRef": {"name": "vip-cp-prod"}, "address": text}})
}

/// A cluster `team-a/prod` of class `quick` that is called about, with these pools.
fn lists(cluster: Value, pools: Vec<Value>) -> Lists {
    Lists {
        clusters: vec![read(cluster)],
        classes: vec![read(json!({"metadata": {"namespace": "team-a", "name": "quick"}}))],
        global_pools: pools.into_iter().map(read).collect(),
        namespaces: vec![read(objects::namespace("team-a", &json!({})))],
        extensions: vec![read(registration())],
        ..Lists::default()
    }
}

fn told_with(lists: Lists, config: &Config) -> (Explanation, Node) {
    let cluster = lists.clusters[0].clone();
    let sight = Sight::of(lists, &Clock::system());
    let now: Timestamp = NOW.parse().unwrap();
    (explain(&sight, &cluster, config, now), tree(&sight, &cluster, config, now))
}

fn told(lists: Lists) -> Explanation {
    told_with(lists, &Config::default()).0
}

#[test]
fn every_pool_is_named_with_its_rank_or_the_criterion_it_fails() {
    let pool = |name: &str, more: Value| merged(objects::pool(name, "quick", "10.0.0.1-10.0.0.9"), &more);
    let mark = |key: &str, value: &str| json!({"metadata": {"annotations": {format!("{PREFIX}/{key}"): value}}});
    let label = |key: &str, value: &str| json!({"metadata": {"labels": {format!("{PREFIX}/{key}"): value}}});
    let mut lists = lists(
        cluster(&json!({})),
        vec![
            counted(pool("low", json!({})), 5, 9),
            counted(pool("high", mark("priority", "5")), 1, 9),
            counted(pool("full", mark("priority", "9")), 0, 9),
            pool("class", label("cluster-class", "quack")),
            pool("role", label("role", "ingress")),
            pool("namespace", mark("namespaces", "team-b")),
            pool("paused", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}})),
            pool("empty", json!({"spec": {"addresses": []}})),
        ],
    );
    lists.pools = vec![read(objects::local_pool("team-b", "away", "quick", "10.1.0.0/24"))];
    let told = told(lists);
    let need = &told.needs[0];
    let shown: Vec<(&str, Option<usize>, Option<&str>)> =
        need.candidates.iter().map(|c| (c.object.name.as_str(), c.rank, c.fails)).collect();
    assert_eq!(
        shown,
        [
            ("high", Some(1), None),
            ("low", Some(2), None),
            ("full", Some(3), None),
            ("empty", None, Some("empty")),
            ("paused", None, Some("paused")),
            ("namespace", None, Some("namespace")),
            ("away", None, Some("namespace")),
            ("role", None, Some("role")),
            ("class", None, Some("class")),
        ]
    );
    let detail = |name: &str| need.candidates.iter().find(|c| c.object.name == name).unwrap().detail.as_str();
    assert!(detail("class").contains("serves class quack, not quick"));
    assert!(detail("role").contains("serves role ingress, not control-plane"));
    assert!(detail("namespace").contains("team-b") && detail("away").contains("team-b"));
    assert!(detail("high").contains("priority 5") && detail("full").contains("no address left"));
    // What is told is what would be done.
    assert!(
        told.next.iter().any(|next| next.by == "hooks"
            && next.what.contains("create IPAddressClaim team-a/vip-cp-prod at GlobalInClusterIPPool/high")),
        "{:?}",
        told.next
    );
    assert_eq!((told.level, need.reason), (Level::Waiting, Some("WaitingForAddress")));
}

#[test]
fn a_misspelled_label_is_shown_although_the_cluster_is_left_alone() {
    let told = told(lists(cluster(&json!({})), vec![objects::pool("vips", "quack", "10.0.0.0/24")]));
    assert_eq!(told.level, Level::Aside);
    assert!(told.summary.contains("no handler, annotation or pool names the class"), "{}", told.summary);
    assert_eq!(told.needs[0].candidates[0].fails, Some(Misfit::Class.as_str()));
    // The pool goes on serving whom it serves.
    let command = told.fixes[0].command.as_deref().unwrap();
    assert!(command.contains("cluster-class=quack,quick") && command.contains("cluster-class=true"), "{command}");
    assert!(told.next.is_empty(), "{:?}", told.next);
}

#[test]
fn the_address_the_claim_and_the_pool_of_a_finished_cluster_are_named() {
    let done = cluster(&json!({
        "metadata": {"annotations": {
            format!("{PREFIX}/control-plane-vip"): "10.0.0.5", format!("{PREFIX}/control-plane-source"): "allocated",
            format!("{PREFIX}/control-plane-pool"): "GlobalInClusterIPPool/vips"}},
        "spec": {"controlPlaneEndpoint": {"host": "10.0.0.5", "port": 6443}},
    }));
    let pools = vec![counted(objects::pool("vips", "quick", "10.0.0.1-10.0.0.9"), 8, 9)];
    let mut lists = lists(done, pools);
    lists.claims = vec![read(claim("vips", &bound()))];
    lists.addresses = vec![read(address("10.0.0.5"))];
    let (told, tree) = told_with(lists, &Config::default());
    assert_eq!((told.level, told.summary.as_str()), (Level::Ok, "the cluster has its address 10.0.0.5"));
    let facts: Vec<(&str, &str)> = told.needs[0].facts.iter().map(|f| (f.name, f.value.as_str())).collect();
    assert_eq!(
        facts,
        [("claim", "team-a/vip-cp-prod"), ("address", "10.0.0.5"), ("pool", "GlobalInClusterIPPool/vips")]
    );
    assert!(told.fixes.is_empty(), "{:?}", told.fixes);
    let [claim] = tree.children.as_slice() else { panic!("{tree:?}") };
    let [address] = claim.children.as_slice() else { panic!("{tree:?}") };
    let [pool] = address.children.as_slice() else { panic!("{tree:?}") };
    assert_eq!(
        (claim.object.name.as_str(), address.note.as_str(), pool.note.as_str()),
        ("vip-cp-prod", "10.0.0.5", "8 of 9 free")
    );
}

#[test]
fn each_obstacle_is_told_with_its_reason_and_something_to_do() {
    let pool = || counted(objects::pool("vips", "quick", "10.0.0.1-10.0.0.9"), 0, 9);
    let shown = || {
        json!({"metadata": {"annotations": {format!("{PREFIX}/control-plane-source"): "allocated"}},
        "spec": {"controlPlaneEndpoint": {"host": "10.0.0.5", "port": 6443}}})
    };
    let foreign = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Cluster", "name": "x", "uid": "other"}]}});
    let old = json!({"metadata": {"creationTimestamp": "2026-01-02T03:00:00Z"}});
    let insists = json!({"metadata": {"annotations": {format!("{PREFIX}/control-plane-enabled"): "true"}}});
    let cases = [
        ("PoolExhausted", cluster(&json!({})), Some(claim("vips", &old)), "kubectl edit globalinclusterippool vips"),
        (
            "ClaimForeign",
            cluster(&json!({})),
            Some(claim("vips", &foreign)),
            "kubectl get ipaddressclaim -n team-a vip-cp-prod",
        ),
        ("ClaimMissing", cluster(&shown()), None, ""),
        ("AddressMismatch", cluster(&shown()), Some(claim("vips", &bound())), ""),
        ("NoMatchingPool", cluster(&insists), None, ""),
    ];
    for (reason, cluster, claim, command) in cases {
        let pools = if reason == "NoMatchingPool" { vec![] } else { vec![pool()] };
        let mut lists = lists(cluster, pools);
        lists.claims = claim.into_iter().map(read).collect();
        lists.addresses = vec![read(address("10.0.0.6"))];
        let (told, tree) = told_with(lists, &Config::default());
        assert_eq!((told.level, told.needs[0].reason), (Level::Problem, Some(reason)), "{told:?}");
        assert_eq!((tree.level, &tree.note), (told.level, &told.summary));
        let fixes: Vec<String> =
            told.fixes.iter().map(|f| format!("{} {}", f.what, f.command.as_deref().unwrap_or_default())).collect();
        assert!(!fixes.is_empty() && fixes.join("\n").contains(command), "{reason}: {fixes:?}");
    }
}

#[test]
fn an_endpoint_chosen_by_hand_and_a_bad_annotation_are_told() {
    let manual = cluster(&json!({"spec": {"controlPlaneEndpoint": {"host": "api.example.org", "port": 443}}}));
    let pools = || vec![objects::pool("vips", "quick", "10.0.0.0/24")];
    let told_manual = told(lists(manual, pools()));
    assert!(told_manual.facts[0].value.starts_with("manual"), "{:?}", told_manual.facts);
    assert!(told_manual.needs.iter().all(|need| need.level == Level::Aside), "{:?}", told_manual.needs);
    let bad = cluster(&json!({"metadata": {"annotations": {format!("{PREFIX}/ip-families"): "ipv5"}}}));
    let told_bad = told(lists(bad, pools()));
    assert_eq!(told_bad.level, Level::Problem);
    assert!(told_bad.summary.contains("ipv5") && told_bad.fixes[0].what.contains("ip-families"), "{told_bad:?}");
}

#[test]
fn that_nobody_asks_the_hooks_is_a_problem_of_its_own() {
    let pools = || vec![objects::pool("vips", "quick", "10.0.0.0/24")];
    let mut unregistered = lists(cluster(&json!({})), pools());
    unregistered.extensions.clear();
    let told_unregistered = told(unregistered);
    assert_eq!(told_unregistered.level, Level::Problem);
    assert!(told_unregistered.summary.contains("no ExtensionConfig registers vip-allocator-before-create"));
    assert!(told_unregistered.next.iter().all(|next| next.by != "hooks"));

    let mut elsewhere = lists(cluster(&json!({})), pools());
    let selector = json!({"spec": {"namespaceSelector": {"matchLabels": {"vips": "yes"}}}});
    elsewhere.extensions = vec![read(merged(registration(), &selector))];
    assert!(told(elsewhere).summary.contains("leaves team-a out"));

    let mut refused = lists(cluster(&json!({})), pools());
    let settings = json!({"spec": {"settings": {"defaultPort": "no"}}});
    refused.extensions = vec![read(merged(registration(), &settings))];
    let told_refused = told(refused);
    assert!(told_refused.summary.contains("defaultPort") && told_refused.level == Level::Problem);
    // A cluster that Cluster API went on with is not asked about any more.
    let mut made = lists(cluster(&json!({"spec": {"infrastructureRef": {"kind": "X", "name": "x"}}})), pools());
    made.extensions.clear();
    assert!(!told(made).summary.contains("not asked"));
}

#[test]
fn settings_and_flags_change_the_judgement_as_they_change_the_operator() {
    let lonely = || lists(cluster(&json!({})), vec![]);
    assert_eq!(told(lonely()).level, Level::Aside);
    let block = Config { missing_pool: MissingPool::Block, ..Config::default() };
    assert_eq!(told_with(lonely(), &block).0.needs[0].reason, Some("NoMatchingPool"));
    let mut set = lonely();
    set.extensions = vec![read(merged(registration(), &json!({"spec": {"settings": {"missingPoolPolicy": "block"}}})))];
    assert_eq!(told(set).needs[0].reason, Some("NoMatchingPool"));
    let mut plain = cluster(&json!({"metadata": {"annotations": {format!("{PREFIX}/cluster-class"): "quick"}}}));
    plain["spec"] = json!({});
    let pools = || vec![objects::pool("vips", "quick", "10.0.0.0/24")];
    assert_eq!(told(lists(plain.clone(), pools())).level, Level::Aside);
    let reconciler = Config { reconciler: true, ..Config::default() };
    let told = told_with(lists(plain, pools()), &reconciler).0;
    assert!(
        told.next.iter().any(|n| n.by == "housekeeper" && n.what.contains("create IPAddressClaim")),
        "{:?}",
        told.next
    );
}

fn blind(part: Part, extent: Extent) -> Unseen {
    Unseen { part, extent, why: "you may not".to_owned() }
}

#[test]
fn nothing_is_concluded_from_what_could_not_be_seen() {
    let pools = || vec![counted(objects::pool("vips", "quick", "10.0.0.0/24"), 3, 9)];
    for part in [Part::Claims, Part::Pools, Part::GlobalPools] {
        let mut partial = lists(cluster(&json!({})), if part == Part::Claims { pools() } else { vec![] });
        partial.unseen = vec![blind(part, Extent::All)];
        let told = told(partial);
        assert_eq!(told.level, Level::Unknown, "{part:?}: {told:?}");
        assert!(told.next.is_empty() && told.unseen == ["you may not"], "{told:?}");
    }
    let mut addresses = lists(cluster(&json!({})), pools());
    addresses.claims = vec![read(claim("vips", &bound()))];
    addresses.unseen = vec![blind(Part::Addresses, Extent::All)];
    assert_eq!(told(addresses).level, Level::Unknown);
    // A kind that nobody installed has no objects: that is no secret.
    let mut absent = lists(cluster(&json!({})), pools());
    absent.unseen = vec![blind(Part::Pools, Extent::Absent)];
    assert_eq!(told(absent).level, Level::Waiting);
}

#[test]
fn conditions_that_do_not_hold_and_pools_that_are_gone_stand_in_the_tree() {
    let condition = json!({"status": {"conditions": [
        {"type": "TopologyReconciled", "status": "False", "reason": "ClusterCreating", "message": "waiting"},
        {"type": "ControlPlaneVIPReady", "status": "True", "reason": "Allocated"}]}});
    let mut lists = lists(cluster(&condition), vec![objects::pool("other", "quick", "10.0.0.0/24")]);
    lists.claims = vec![read(claim("vips", &json!({})))];
    let tree = told_with(lists, &Config::default()).1;
    let [condition, claim] = tree.children.as_slice() else { panic!("{tree:?}") };
    assert_eq!(
        (condition.object.name.as_str(), condition.note.as_str()),
        ("TopologyReconciled", "ClusterCreating: waiting")
    );
    assert_eq!((claim.children[0].level, claim.children[0].note.as_str()), (Level::Problem, "does not exist"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_people_wrote_is_explained_alike_each_time_and_by_the_rules(
        class in "quick|quack|\\*|true|team-a/quick|", role in "control-plane|ingress|true|", free in proptest::option::of(0i64..3),
        host in "|10\\.0\\.0\\.5|api", families in "|ipv4|ipv6|ipv5", bind in 0u8..4, paused: bool, ingress in "|true|false|x",
    ) {
        let annotations = json!({format!("{PREFIX}/ip-families"): families, format!("{PREFIX}/ingress-enabled"): ingress});
        let spec = json!({"paused": paused, "controlPlaneEndpoint": {"host": host, "port": 6443}});
        let labels = json!({"metadata": {"labels": {format!("{PREFIX}/cluster-class"): class, format!("{PREFIX}/role"): role}}});
        let mut pool = merged(objects::pool("vips", "quick", "10.0.0.0/24"), &labels);
        if let Some(free) = free {
            pool = counted(pool, free, 9);
        }
        let make = || {
            let mut all = lists(cluster(&json!({"metadata": {"annotations": annotations}, "spec": spec})), vec![pool.clone()]);
            if bind > 0 {
                all.claims = vec![read(claim("vips", &if bind > 1 { bound() } else { json!({}) }))];
            }
            if bind > 2 {
                all.addresses = vec![read(address("10.0.0.5"))];
            }
            all
        };
        let (told, drawn) = told_with(make(), &Config::default());
        prop_assert_eq!(&told_with(make(), &Config::default()), &(told.clone(), drawn.clone()));
        prop_assert_eq!((drawn.level, &drawn.note), (told.level, &told.summary));
        prop_assert!(!told.summary.is_empty());
        for need in &told.needs {
            prop_assert!(need.level != Level::Problem || need.reason.is_some());
            for candidate in &need.candidates {
                prop_assert!(candidate.rank.is_some() != candidate.fails.is_some());
                prop_assert!(!candidate.detail.is_empty());
            }
        }
        if told.level == Level::Problem {
            prop_assert!(!told.fixes.is_empty(), "{:?}", told);
        }
        if told.level == Level::Ok {
            prop_assert!(told.next.iter().all(|next| !next.what.contains("create") && !next.what.contains("delete")), "{:?}", told);
        }
    }
}
