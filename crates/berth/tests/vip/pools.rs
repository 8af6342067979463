//! Which pool an address comes from, and what happens when there is none left.

use serde_json::json;
use sim::dock::objects::{self, local_pool, merged};
use sim::dock::oracle::Promise;

use crate::world::{Corner, SOON, endpoint, run, within};

#[test]
fn an_exhausted_pool_holds_a_cluster_back_with_a_reason_and_lets_it_go_when_it_grows() {
    run("an_exhausted_pool_holds_a_cluster_back_with_a_reason_and_lets_it_go_when_it_grows", async |world| {
        let ns = "vip-exhausted";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool(ns, "10-10")).await;
        corner.create(&corner.plan("first"), Promise::Managed).await;
        corner.dock("first").await;
        corner.create(&corner.plan("second"), Promise::Managed).await;
        let told = corner.condition("second", "TopologyReconciled", |c| {
            c["reason"] == "ClusterCreating"
                && c["message"].as_str().is_some_and(|text| text.contains("no free address"))
        });
        let told = told.await;
        assert!(told["message"].as_str().unwrap().contains(ns), "the pool is named: {told}");
        let told = corner.condition("second", "ControlPlaneVIPReady", |c| c["reason"] == "PoolExhausted").await;
        assert_eq!(told["status"], "False");
        within(SOON, "an event tells it", async || {
            (!corner.events("second", "VIPPoolExhausted").await.is_empty()).then_some(())
        })
        .await;
        assert!(corner.cluster("second").await.data["spec"].get("infrastructureRef").is_none());

        corner.pool(&corner.plan_pool(ns, "10-12")).await;
        assert_eq!(endpoint(&corner.dock("second").await).unwrap().0, corner.address(11));
        corner.condition("second", "ControlPlaneVIPReady", |c| c["reason"] == "Allocated").await;
        corner.judge().await;

        // A freed address is as good as a new one.
        corner.create(&corner.plan("third"), Promise::Managed).await;
        corner.dock("third").await;
        corner.create(&corner.plan("fourth"), Promise::Managed).await;
        corner.condition("fourth", "ControlPlaneVIPReady", |c| c["reason"] == "PoolExhausted").await;
        corner.delete("first").await;
        assert_eq!(endpoint(&corner.dock("fourth").await).unwrap().0, corner.address(10));
        for name in ["second", "third", "fourth"] {
            corner.delete(name).await;
        }
        corner.released().await;
        corner.judge().await;
    });
}

#[test]
fn a_missing_pool_holds_a_managed_cluster_back_and_says_what_was_looked_for() {
    run("a_missing_pool_holds_a_managed_cluster_back_and_says_what_was_looked_for", async |world| {
        let ns = "vip-missing";
        let mut corner = Corner::managed(world, ns).await;
        let role = json!({"metadata": {"labels": {"vip.capi.gorizond.io/role": "ingres"}}});
        corner.pool(&merged(corner.plan_pool("vip-missing-typo", "50-59"), &role)).await;
        corner.create(&corner.plan("c"), Promise::Managed).await;
        let told = corner.condition("c", "TopologyReconciled", |c| c["reason"] == "ClusterCreating").await;
        let message = told["message"].as_str().unwrap();
        assert!(message.contains(ns) && message.contains("control-plane") && message.contains("role"), "{message}");
        corner.condition("c", "ControlPlaneVIPReady", |c| c["reason"] == "NoMatchingPool").await;
        corner.pool(&corner.plan_pool(ns, "10-19")).await;
        corner.dock("c").await;
        corner.judge().await;
    });
}

#[test]
fn clusters_at_once_share_a_small_pool_and_fall_back_to_the_next() {
    run("clusters_at_once_share_a_small_pool_and_fall_back_to_the_next", async |world| {
        let ns = "vip-fallback";
        let mut corner = Corner::managed(world, ns).await;
        let first = json!({"metadata": {"annotations": {"vip.capi.gorizond.io/priority": "10"}}});
        corner.pool(&merged(corner.plan_pool("vip-fallback-a", "10-11"), &first)).await;
        corner.pool(&corner.plan_pool("vip-fallback-b", "30-39")).await;
        let names = ["a", "b", "c", "d", "e"];
        for name in names {
            corner.create(&corner.plan(name), Promise::Managed).await;
        }
        let mut hosts = Vec::new();
        for name in names {
            hosts.push(endpoint(&corner.dock(name).await).unwrap().0);
        }
        let from_first =
            hosts.iter().filter(|host| **host == corner.address(10) || **host == corner.address(11)).count();
        assert_eq!(from_first, 2, "the preferred pool is used up first: {hosts:?}");
        corner.judge().await;
        for name in names {
            corner.delete(name).await;
        }
        corner.released().await;
        for (pool, free) in [("vip-fallback-a", 2), ("vip-fallback-b", 10)] {
            within(SOON, "the pools are whole again", async || {
                (corner.free("GlobalInClusterIPPool", pool).await? == free).then_some(())
            })
            .await;
        }
        corner.judge().await;
    });
}

#[test]
fn a_pool_of_the_namespace_comes_first_and_a_pin_narrows_the_choice() {
    run("a_pool_of_the_namespace_comes_first_and_a_pin_narrows_the_choice", async |world| {
        let ns = "vip-pinned";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool("vip-pinned-a", "10-19")).await;
        corner.pool(&corner.plan_pool("vip-pinned-b", "30-39")).await;
        corner.pool(&local_pool(ns, "own", ns, &corner.range("60-69"))).await;
        let elsewhere = json!({"metadata": {"annotations": {"vip.capi.gorizond.io/namespaces": "somewhere-else",
            "vip.capi.gorizond.io/priority": "99"}}});
        corner.pool(&merged(corner.plan_pool("vip-pinned-c", "90-99"), &elsewhere)).await;
        let pin = |to: &str| json!({"metadata": {"annotations": {"vip.capi.gorizond.io/pool": to}}});
        for (name, more, first) in [
            ("free", json!({}), 60),
            ("by-name", pin("vip-pinned-b"), 30),
            ("by-kind", pin("GlobalInClusterIPPool/vip-pinned-a"), 10),
        ] {
            corner.create(&corner.plan_with(name, &more), Promise::Managed).await;
            assert_eq!(endpoint(&corner.dock(name).await).unwrap().0, corner.address(first), "{name}");
        }
        // A pin grants nothing.
        corner.create(&corner.plan_with("greedy", &pin("vip-pinned-c")), Promise::Managed).await;
        corner.condition("greedy", "TopologyReconciled", |c| c["reason"] == "ClusterCreating").await;
        assert!(corner.claim("vip-cp-greedy").await.is_none());
        for name in ["free", "by-name", "by-kind", "greedy"] {
            corner.delete(name).await;
        }
        corner.released().await;
        corner.judge().await;
    });
}

#[test]
fn a_pool_may_serve_several_classes_by_annotation() {
    run("a_pool_may_serve_several_classes_by_annotation", async |world| {
        let ns = "vip-lists";
        let mut corner = Corner::managed(world, ns).await;
        let lists = json!({"metadata": {
            "labels": {"vip.capi.gorizond.io/cluster-class": "true", "vip.capi.gorizond.io/role": "true"},
            "annotations": {"vip.capi.gorizond.io/cluster-class": format!("other, {ns}/{ns}"),
                "vip.capi.gorizond.io/role": "ingress,control-plane"}}});
        corner.pool(&merged(objects::pool(ns, "x", &corner.range("10-19")), &lists)).await;
        corner.create(&corner.plan("c"), Promise::Managed).await;
        assert!(endpoint(&corner.dock("c").await).unwrap().0.starts_with(&corner.address(1)));
        corner.judge().await;
        corner.delete("c").await;
        corner.released().await;
    });
}
