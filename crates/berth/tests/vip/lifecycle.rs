//! From the first to the last day of a cluster, for one and for two hundred.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use sim::dock::oracle::Promise;

use crate::world::{Corner, SOON, endpoint, run, run_alone, within};

#[test]
fn the_address_is_kept_until_the_last_machine_is_gone() {
    run("the_address_is_kept_until_the_last_machine_is_gone", async |world| {
        let ns = "vip-kept";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool(ns, "10-10")).await;
        corner.create(&corner.plan("c"), Promise::Managed).await;
        corner.dock("c").await;
        world.provider.hold(ns, "c");
        corner.clusters().delete("c", &DeleteParams::default()).await.unwrap();
        corner.condition("c", "Deleting", |c| c["reason"] == "WaitingForInfrastructureDeletion").await;
        let claim = corner.claim("vip-cp-c").await.unwrap();
        assert!(claim.metadata.deletion_timestamp.is_none(), "the machines may still answer at it");
        assert_eq!(corner.free("GlobalInClusterIPPool", ns).await, Some(0));
        world.provider.release(&world.client, ns, "c").await.unwrap();
        corner.gone("c").await;
        corner.released().await;
        within(SOON, "the address is free", async || {
            (corner.free("GlobalInClusterIPPool", ns).await? == 1).then_some(())
        })
        .await;
        corner.judge().await;
    });
}

#[test]
fn a_cluster_deleted_while_it_waits_leaves_nothing() {
    run("a_cluster_deleted_while_it_waits_leaves_nothing", async |world| {
        let ns = "vip-waiting";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool(ns, "10-10")).await;
        corner.create(&corner.plan("first"), Promise::Managed).await;
        corner.dock("first").await;
        corner.create(&corner.plan("second"), Promise::Managed).await;
        corner.condition("second", "TopologyReconciled", |c| c["reason"] == "ClusterCreating").await;
        corner.delete("second").await;
        within(SOON, "only the first one's claim is left", async || {
            let claims = world.api("IPAddressClaim", ns).list(&ListParams::default()).await.ok()?;
            (claims.items.len() == 1 && claims.items[0].name_any() == "vip-cp-first").then_some(())
        })
        .await;
        corner.delete("first").await;
        corner.released().await;
        corner.judge().await;
    });
}

#[test]
fn a_cluster_made_again_under_its_name_is_another_cluster() {
    run("a_cluster_made_again_under_its_name_is_another_cluster", async |world| {
        let ns = "vip-again";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool(ns, "10-11")).await;
        let mut uids = BTreeSet::new();
        for _ in 0..3 {
            corner.create(&corner.plan("c"), Promise::Managed).await;
            let (host, port) = corner.endpoint("c").await;
            assert_eq!(endpoint(&corner.dock("c").await), Some((host, port)));
            let cluster = corner.cluster("c").await;
            let claim = corner.claim("vip-cp-c").await.unwrap();
            assert_eq!(Some(&claim.owner_references()[0].uid), cluster.uid().as_ref());
            assert!(uids.insert(claim.uid()), "a claim of an earlier cluster was used again");
            corner.delete("c").await;
        }
        corner.released().await;
        corner.judge().await;
    });
}

#[test]
fn a_claim_that_somebody_deletes_is_told_and_never_replaced() {
    run("a_claim_that_somebody_deletes_is_told_and_never_replaced", async |world| {
        let ns = "vip-lost";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool(ns, "10-19")).await;
        corner.create(&corner.plan("c"), Promise::Managed).await;
        let before = corner.endpoint("c").await;
        corner.dock("c").await;
        corner.condition("c", "ControlPlaneVIPReady", |c| c["status"] == "True").await;
        world.api("IPAddressClaim", ns).delete("vip-cp-c", &DeleteParams::default()).await.unwrap();
        corner.condition("c", "ControlPlaneVIPReady", |c| c["reason"] == "ClaimMissing").await;
        assert_eq!(corner.endpoint("c").await, before);
        assert!(corner.claim("vip-cp-c").await.is_none());
        let breaches = corner.breaches().await;
        assert!(breaches.iter().all(|breach| breach.rule == "O4"), "only what the person did: {breaches:?}");
        corner.delete("c").await;
        corner.released().await;
    });
}

/// Two hundred clusters at once over three pools, and the leading replica dies in the middle.
#[test]
fn two_hundred_clusters_at_once_survive_the_death_of_the_leader() {
    run_alone("two_hundred_clusters_at_once_survive_the_death_of_the_leader", async |world| {
        const COUNT: usize = 200;
        let ns = "vip-many";
        let fleet = world.fleet().await;
        let mut corner = Corner::managed(world, ns).await;
        // What becomes of them afterwards is told elsewhere.
        world.provider.ignore(ns);
        let pools = [("vip-many-a", "1-70"), ("vip-many-b", "71-140"), ("vip-many-c", "141-210")];
        for (name, range) in pools {
            corner.pool(&corner.plan_pool(name, range)).await;
        }
        let begun = Instant::now();
        // Nobody names a pool: all three name the class, and none is large enough for all.
        let plans: Vec<Value> = (0..COUNT).map(|n| corner.plan_with(&format!("c-{n}"), &json!({}))).collect();
        let clusters = corner.clusters();
        for plan in &plans {
            corner.promise(plan["metadata"]["name"].as_str().unwrap(), Promise::Managed);
        }
        let made = futures::stream::iter(plans).map(|plan| {
            let clusters = clusters.clone();
            async move {
                let object = serde_json::from_value(plan).expect("an object");
                clusters.create(&PostParams::default(), &object).await.expect("created");
            }
        });
        made.buffer_unordered(16).collect::<Vec<()>>().await;
        eprintln!("{COUNT} clusters made after {:?}", begun.elapsed());

        let done = || world.record.present("Cluster", ns).into_iter().filter(|v| endpoint(&v.object).is_some()).count();
        let bound = Duration::from_secs(420);
        within(bound, "a third have an address", async || (done() > COUNT / 3).then_some(())).await;
        fleet.kill_the_leader(&world.client).await;
        eprintln!("the leader was killed after {:?}, with {} endpoints", begun.elapsed(), done());
        within(bound, "all have an address", async || (done() == COUNT).then_some(())).await;
        eprintln!("{COUNT} endpoints after {:?}", begun.elapsed());
        let docks = || world.record.present("DockCluster", ns).into_iter().filter(|v| endpoint(&v.object).is_some());
        within(bound, "all have infrastructure", async || (docks().count() == COUNT).then_some(())).await;
        eprintln!("{COUNT} infrastructures after {:?}", begun.elapsed());
        let hosts: BTreeSet<String> = docks().map(|v| endpoint(&v.object).unwrap().0).collect();
        assert_eq!(hosts.len(), COUNT, "all different");
        let claims = world.api("IPAddressClaim", ns).list(&ListParams::default()).await.unwrap().items;
        assert_eq!(claims.len(), COUNT);
        assert!(claims.iter().all(|claim| claim.owner_references().len() == 1));
        for (pool, _) in pools {
            let asked = claims.iter().filter(|claim| claim.data["spec"]["poolRef"]["name"] == pool).count();
            assert!((COUNT - 140..=70).contains(&asked), "{asked} of {COUNT} claims ask {pool}");
        }
        corner.judge().await;
        let requests = world.requests(ns);
        eprintln!("{requests:?}");
        assert!(requests.keys().all(|(_, _, code)| !matches!(code, 401 | 403)), "refused: {requests:?}");
        fleet.add(1).await;

        let begun = Instant::now();
        let deleted = futures::stream::iter(0..COUNT).map(|n| {
            let clusters = clusters.clone();
            async move { clusters.delete(&format!("c-{n}"), &DeleteParams::default()).await.map(drop).expect("deleted") }
        });
        deleted.buffer_unordered(16).collect::<Vec<()>>().await;
        within(bound, "all are gone", async || world.record.present("Cluster", ns).is_empty().then_some(())).await;
        corner.released().await;
        eprintln!("all deleted after {:?}", begun.elapsed());
        for (pool, _) in pools {
            within(SOON, "the pools are whole again", async || {
                (corner.free("GlobalInClusterIPPool", pool).await? == 70).then_some(())
            })
            .await;
        }
        corner.judge().await;
        let calls = fleet.front.calls();
        let mut took: Vec<Duration> = calls.iter().filter(|c| c.is("beforeclustercreate")).map(|c| c.took).collect();
        took.sort_unstable();
        eprintln!(
            "{} gate calls, median {:?}, 99% {:?}",
            took.len(),
            took[took.len() / 2],
            took[took.len() * 99 / 100]
        );
    });
}
