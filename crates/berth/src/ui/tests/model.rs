//! What is made of what was read.

use std::collections::BTreeSet;

use kit::clock::Clock;
use kit::explain::{Level, Node};
use serde_json::{Value, json};

use super::world::{NOW, WAITS, read, seen};
use crate::explain::API_VERSION;
use crate::ui::KIND;
use crate::ui::fleet::{Fleet, Judges, Seen, Trouble, fleet};

fn at(seen: Seen, now: &str, only: Option<&str>) -> Fleet {
    fleet(seen, &Judges::default(), only, &Clock::simulated(now.parse().unwrap(), 1))
}

fn find<'n>(nodes: &'n [Node], kind: &str, name: &str) -> Option<&'n Node> {
    nodes.iter().find_map(|node| {
        let own = node.object.kind == kind && node.object.name == name;
        own.then_some(node).or_else(|| find(&node.children, kind, name))
    })
}

fn about<'t>(fleet: &'t Fleet, kind: &str, name: &str) -> Vec<&'t Trouble> {
    fleet.troubles.iter().filter(|one| one.object.kind == kind && one.object.name == name).collect()
}

/// The document that the browser tests are run on. It is kept here so that it cannot differ from what is made.
#[tokio::test(start_paused = true)]
async fn the_fleet_of_the_browser_tests_is_what_is_made_of_its_objects() {
    let fleet = Fleet { taken: Some(NOW.to_owned()), ..at(seen(), NOW, None) };
    let mut document = serde_json::to_value(&fleet).unwrap();
    document["apiVersion"] = API_VERSION.into();
    document["kind"] = KIND.into();
    insta::assert_snapshot!("fleet", serde_json::to_string_pretty(&document).unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_leads_down_to_hosts_instances_and_virtual_machines() {
    let fleet = at(seen(), NOW, None);
    let root = find(&fleet.trees, "Cluster", "prod").unwrap();
    for (kind, name) in [
        ("KubeadmControlPlane", "prod-cp"),
        ("MachineDeployment", "metal"),
        ("Machine", "metal-1"),
        ("Metal3Machine", "metal-1"),
        ("HostClaim", "metal-1"),
        ("BareMetalHost", "rack1-node4"),
        ("VirtualMachine", "6f0c1111-0000-4000-8000-000000000001"),
        ("IPAddress", "vip-cp-prod"),
    ] {
        assert!(find(&root.children, kind, name).is_some(), "{kind} {name} is not below the cluster");
    }
    assert!(find(&fleet.trees, "DedicatedHost", "h-0123456789abcdef1").is_some());
}

#[tokio::test(start_paused = true)]
async fn every_claim_is_drawn_once() {
    fn count(nodes: &[Node], names: &mut Vec<String>) {
        for node in nodes {
            if node.object.kind == "HostClaim" {
                names.push(node.object.path());
            }
            count(&node.children, names);
        }
    }
    let (mut drawn, expected) = (Vec::new(), seen().claims.unwrap().claims.len());
    count(&at(seen(), NOW, None).trees, &mut drawn);
    let unique: BTreeSet<&String> = drawn.iter().collect();
    assert_eq!((unique.len(), drawn.len()), (expected, expected));
    assert!(drawn.contains(&"team-f/build-1".to_owned()), "a claim of no machine has a tree of its own");
}

#[tokio::test(start_paused = true)]
async fn a_trouble_is_told_once_where_it_is_rooted() {
    let fleet = at(seen(), NOW, None);
    let [claim] = about(&fleet, "HostClaim", "metal-4")[..] else { panic!("{:?}", fleet.troubles) };
    assert_eq!((claim.level, claim.reason.as_deref()), (Level::Problem, Some("NoBareMetalHost")));
    assert_eq!(claim.page, Some("reasons/claims.md#nobaremetalhost"));
    assert_eq!(claim.since.as_deref(), Some("2026-01-02T03:01:00Z"));
    assert!(claim.message.contains(WAITS), "{}", claim.message);
    for (kind, name) in [("Metal3Machine", "metal-4"), ("Machine", "metal-4"), ("MachineDeployment", "metal")] {
        assert!(about(&fleet, kind, name).is_empty(), "{kind} only repeats its claim");
    }
    let [ingress] = about(&fleet, "Cluster", "prod")[..] else { panic!("{:?}", fleet.troubles) };
    assert_eq!((ingress.reason.as_deref(), ingress.part.as_deref()), (Some("PoolExhausted"), Some("ingress address")));
    let [aws] = about(&fleet, "AWSMachine", "aws-3")[..] else { panic!("{:?}", fleet.troubles) };
    assert_eq!(
        (aws.reason.as_deref(), aws.page),
        (Some("HostQuotaExceeded"), Some("reasons/hosts.md#hostquotaexceeded"))
    );
    let [stack] = about(&fleet, "Cluster.anywhere", "stack")[..] else { panic!("{:?}", fleet.troubles) };
    assert_eq!((stack.level, stack.reason.as_deref()), (Level::Waiting, Some("RollingUpgradeInProgress")));
    assert_eq!(about(&fleet, "BareMetalHost", "rack2-node2").len(), 1);
    assert_eq!(about(&fleet, "GlobalInClusterIPPool", "ingress").len(), 1);
    assert_eq!(about(&fleet, "MachineDeployment", "typo").len(), 1);
    let levels: Vec<u8> = fleet.troubles.iter().map(|one| u8::from(one.level != Level::Problem)).collect();
    assert!(levels.is_sorted(), "the worst comes first: {levels:?}");
}

#[tokio::test(start_paused = true)]
async fn every_reason_has_its_page_and_every_page_its_meaning() {
    let fleet = at(seen(), NOW, None);
    for one in fleet.troubles.iter().filter(|one| one.reason.is_some()) {
        let page = one.page.unwrap_or_else(|| panic!("no page for {one:?}"));
        assert!(fleet.reasons.contains_key(page), "{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn hosts_are_in_their_zones_and_counted_as_the_table_counts_them() {
    let fleet = at(seen(), NOW, None);
    let cell = |name: &str| {
        let found = fleet.hosts.iter().find(|cell| cell.row.name == name).unwrap();
        serde_json::to_value(found).unwrap()
    };
    assert_eq!((&cell("rack1-node1")["zone"], &cell("rack1-node1")["sort"]), (&json!("rack-1"), &json!("used")));
    assert_eq!(cell("rack2-node2")["sort"], "failed");
    assert_eq!(cell("rack3-node1")["sort"], "free");
    assert_eq!((&cell("spare-1")["zone"], &cell("spare-1")["sort"]), (&Value::Null, &json!("unavailable")));
    let dedicated = cell("h-0123456789abcdef1");
    assert_eq!(
        (&dedicated["kind"], &dedicated["zone"], &dedicated["sort"]),
        (&json!("DedicatedHost"), &json!("us-west-2a"), &json!("used"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_host_says_of_its_error_stays_with_its_owner() {
    let document = serde_json::to_string(&at(seen(), NOW, None)).unwrap();
    assert!(!document.contains("what tenants must not see") && !document.contains("redfish"));
}

#[tokio::test(start_paused = true)]
async fn pools_tell_what_is_used_and_which_are_used_up() {
    let fleet = at(seen(), NOW, None);
    let pool = |name: &str| fleet.pools.iter().find(|pool| pool.name == name).unwrap();
    assert_eq!((pool("cp-vips").used, pool("cp-vips").free, pool("cp-vips").total), (Some(8), Some(12), Some(20)));
    assert_eq!(pool("ingress").level, Level::Problem);
    assert_eq!((pool("new").level, pool("new").total), (Level::Unknown, None));
}

#[tokio::test(start_paused = true)]
async fn time_alone_changes_nothing() {
    let (now, later) = (at(seen(), NOW, None), at(seen(), "2026-01-02T05:04:05Z", None));
    assert_eq!(serde_json::to_string(&now).unwrap(), serde_json::to_string(&later).unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_order_in_which_objects_are_read_changes_nothing() {
    let mut other = seen();
    other.addresses.clusters.reverse();
    other.addresses.global_pools.reverse();
    other.metal.owners.reverse();
    other.metal.machines.reverse();
    other.metal.groups.reverse();
    let claims = other.claims.as_mut().unwrap();
    claims.hosts.reverse();
    claims.claims.reverse();
    assert_eq!(
        serde_json::to_string(&at(seen(), NOW, None)).unwrap(),
        serde_json::to_string(&at(other, NOW, None)).unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn one_namespace_is_shown_alone() {
    let fleet = at(seen(), NOW, Some("team-b"));
    assert!(fleet.trees.iter().all(|root| root.object.namespace.as_deref() == Some("team-b")));
    assert!(
        !fleet.vips.is_empty()
            && serde_json::to_value(&fleet.vips)
                .unwrap()
                .as_array()
                .unwrap()
                .iter()
                .all(|vip| vip["namespace"] == "team-b")
    );
    assert!(fleet.groups.is_empty() && fleet.hosts.is_empty());
    let pools: Vec<&str> = fleet.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(pools, ["cp-vips", "ingress", "private"], "pools of all namespaces are pools of this one too");
}

#[tokio::test(start_paused = true)]
async fn machines_of_a_cluster_that_cannot_be_read_are_shown_all_the_same() {
    let mut blind = seen();
    blind.addresses.clusters.clear();
    let fleet = at(blind, NOW, None);
    let root = find(&fleet.trees, "Cluster", "prod").unwrap();
    assert_eq!(root.level, Level::Unknown);
    assert!(find(&root.children, "HostClaim", "metal-4").is_some());
    assert_eq!(about(&fleet, "HostClaim", "metal-4").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_at_all_is_an_empty_fleet() {
    assert_eq!(at(Seen::default(), NOW, None), Fleet::default());
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_machines_are_one_document() {
    let mut many = seen();
    let (lists, plain) = (many.claims.as_mut().unwrap(), seen().claims.unwrap());
    let (claim, host) = (plain.claims.last().unwrap().clone(), plain.hosts.last().unwrap().clone());
    for number in 0..5_000 {
        let mut claim = claim.clone();
        claim.metadata.name = Some(format!("many-{number}"));
        claim.metadata.uid = Some(format!("uid-many-{number}"));
        claim.status = read(json!({}));
        lists.claims.push(claim);
        let mut host = host.clone();
        host.metadata.name = Some(format!("many-{number}"));
        host.metadata.uid = Some(format!("uid-host-{number}"));
        lists.hosts.push(host);
    }
    let fleet = at(many, NOW, None);
    assert_eq!(fleet.hosts.iter().filter(|cell| cell.row.name.starts_with("many-")).count(), 5_000);
    assert!(fleet.trees.len() > 5_000);
}
