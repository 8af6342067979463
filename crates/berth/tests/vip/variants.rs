//! Clusters that ask for something else than one address from any pool.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use sim::dock::objects::{self, Class, external};
use sim::dock::oracle::Promise;

use crate::fleet::EXTENSION;
use crate::world::{Corner, SOON, condition, endpoint, run, within};

fn annotated(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {format!("vip.capi.gorizond.io/{key}"): value}}})
}

fn annotation(cluster: &kube::api::DynamicObject, key: &str) -> Option<String> {
    cluster.annotations().get(&format!("vip.capi.gorizond.io/{key}")).cloned()
}

#[test]
fn an_endpoint_that_its_user_chose_stays_and_costs_no_address() {
    run("an_endpoint_that_its_user_chose_stays_and_costs_no_address", async |world| {
        let ns = "vip-manual";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool(ns, "10-19")).await;
        for (name, chosen, port) in [
            ("with-port", json!({"host": corner.address(100), "port": 7443}), 7443),
            ("without-port", json!({"host": corner.address(101)}), 6443),
            ("by-name", json!({"host": "api.example.test", "port": 6443}), 6443),
        ] {
            let host = chosen["host"].as_str().unwrap().to_owned();
            let plan = corner.plan_with(name, &json!({"spec": {"controlPlaneEndpoint": chosen}}));
            corner.create(&plan, Promise::Manual { host: host.clone() }).await;
            assert_eq!(endpoint(&corner.dock(name).await), Some((host.clone(), port)), "{name}");
            assert_eq!(corner.endpoint(name).await, (host.clone(), port));
            let cluster = corner.cluster(name).await;
            assert_eq!(annotation(&cluster, "control-plane-source").as_deref(), Some("manual"), "{name}");
            assert_eq!(annotation(&cluster, "control-plane-vip"), Some(host), "{name}");
            let told = corner.condition(name, "ControlPlaneVIPReady", |c| c["status"] == "True").await;
            assert_eq!(told["reason"], "Manual");
        }
        assert_eq!(corner.free("GlobalInClusterIPPool", ns).await, Some(10));
        corner.judge().await;
        for name in ["with-port", "without-port", "by-name"] {
            corner.delete(name).await;
        }
        corner.released().await;
        corner.judge().await;
    });
}

#[test]
fn a_chosen_endpoint_of_another_cluster_is_not_let_through() {
    run("a_chosen_endpoint_of_another_cluster_is_not_let_through", async |world| {
        let ns = "vip-taken";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool(ns, "10-19")).await;
        corner.create(&corner.plan("first"), Promise::Managed).await;
        let (host, port) = corner.endpoint("first").await;
        corner.dock("first").await;
        // What its user wrote stands there, so this one is left out of the judgement; nothing may be made of it.
        world
            .apply(
                &corner.plan_with("second", &json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": port}}})),
            )
            .await;
        let told = corner.condition("second", "TopologyReconciled", |c| c["reason"] == "ClusterCreating").await;
        let message = told["message"].as_str().unwrap();
        assert!(message.contains(&host) && message.contains(&format!("{ns}/first")), "{message}");
        corner.condition("second", "ControlPlaneVIPReady", |c| c["reason"] == "AddressConflict").await;
        assert!(corner.cluster("second").await.data["spec"].get("infrastructureRef").is_none());
        corner.delete("second").await;
    });
}

#[test]
fn a_cluster_that_is_opted_out_is_left_alone() {
    run("a_cluster_that_is_opted_out_is_left_alone", async |world| {
        let ns = "vip-opt-out";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool(ns, "10-19")).await;
        let plan = corner.plan_with("c", &annotated("control-plane-enabled", "false"));
        corner.create(&plan, Promise::Untouched).await;
        assert_eq!(endpoint(&corner.dock("c").await), None);
        corner.condition("c", "TopologyReconciled", |c| c["status"] == "True").await;
        assert!(condition(&corner.cluster("c").await.data, "ControlPlaneVIPReady").is_none());

        let class = "vip-opt-out-class";
        let opted_out = Class::new(ns, class).patch(external(EXTENSION, &json!({})));
        corner.class(&opted_out.annotations(json!({"vip.capi.gorizond.io/control-plane-enabled": "false"}))).await;
        corner.pool(&objects::pool(class, class, &corner.range("30-39"))).await;
        corner.create(&objects::cluster(ns, "d", class), Promise::Untouched).await;
        assert_eq!(endpoint(&corner.dock("d").await), None);
        corner.judge().await;
    });
}

#[test]
fn a_class_that_nobody_manages_passes_at_once_and_untouched() {
    run("a_class_that_nobody_manages_passes_at_once_and_untouched", async |world| {
        let ns = "vip-unmanaged";
        let fleet = world.fleet().await;
        let mut corner = Corner::new(world, ns, "berth").await;
        corner.class(&Class::new(ns, ns)).await;
        corner.create(&corner.plan("c"), Promise::Untouched).await;
        assert_eq!(endpoint(&corner.dock("c").await), None);
        let calls = fleet.front.about("beforeclustercreate", ns, "c");
        assert!(!calls.is_empty() && calls.iter().all(|call| call.retry() == 0), "{calls:?}");
        corner.condition("c", "TopologyReconciled", |c| c["status"] == "True").await;
        let cluster = corner.cluster("c").await;
        assert!(condition(&cluster.data, "ControlPlaneVIPReady").is_none());
        assert!(cluster.annotations().keys().all(|key| !key.starts_with("vip.")), "{:?}", cluster.annotations());
        corner.judge().await;
        corner.delete("c").await;
    });
}

#[test]
fn an_ingress_address_is_required_refused_or_taken_where_there_is_one() {
    run("an_ingress_address_is_required_refused_or_taken_where_there_is_one", async |world| {
        let ns = "vip-ingress";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool(ns, "10-19")).await;

        // Without a pool for it: nothing for who did not ask, a reason for who did.
        corner.create(&corner.plan("plain"), Promise::Managed).await;
        corner.dock("plain").await;
        assert_eq!(annotation(&corner.cluster("plain").await, "ingress-vip"), None);
        let required = annotated("ingress-enabled", "true");
        corner.create(&corner.plan_with("required", &required), Promise::Managed).await;
        let told = corner.condition("required", "TopologyReconciled", |c| c["reason"] == "ClusterCreating").await;
        let waits = |c: &Value| c["message"].as_str().is_some_and(|text| text.contains("ingress"));
        assert!(waits(&told) || waits(&corner.condition("required", "TopologyReconciled", waits).await), "{told}");
        assert!(corner.cluster("required").await.data["spec"].get("infrastructureRef").is_none());

        let pool = objects::ingress_pool("vip-ingress-in", ns, &corner.range("60-69"));
        corner.pool(&pool).await;
        corner.dock("required").await;
        let cluster = corner.cluster("required").await;
        let ingress = annotation(&cluster, "ingress-vip").unwrap();
        assert!(ingress.starts_with(&corner.address(6)), "{ingress}");
        assert_eq!(cluster.labels().get("vip.capi.gorizond.io/ingress-vip"), Some(&ingress));
        assert_ne!(corner.endpoint("required").await.0, ingress);
        corner.condition("required", "IngressVIPReady", |c| c["status"] == "True").await;

        corner.create(&corner.plan("taken"), Promise::Managed).await;
        corner.create(&corner.plan_with("refused", &annotated("ingress-enabled", "false")), Promise::Managed).await;
        for name in ["taken", "refused"] {
            corner.dock(name).await;
        }
        assert!(annotation(&corner.cluster("taken").await, "ingress-vip").is_some());
        assert_eq!(annotation(&corner.cluster("refused").await, "ingress-vip"), None);
        assert!(corner.claim("vip-ingress-refused").await.is_none());
        corner.judge().await;

        // Given back when it is switched off later.
        corner.edit("taken", &annotated("ingress-enabled", "false")).await;
        within(SOON, "the ingress address of `taken` is given back", async || {
            let cluster = corner.cluster("taken").await;
            let shown = annotation(&cluster, "ingress-vip").is_some()
                || cluster.labels().contains_key("vip.capi.gorizond.io/ingress-vip");
            (!shown && corner.claim("vip-ingress-taken").await.is_none()).then_some(())
        })
        .await;
        for name in ["plain", "required", "taken", "refused"] {
            corner.delete(name).await;
        }
        corner.released().await;
        corner.judge().await;
    });
}

#[test]
fn two_families_are_both_there_or_the_missing_one_is_named() {
    run("two_families_are_both_there_or_the_missing_one_is_named", async |world| {
        let ns = "vip-dual";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool(ns, "10-19")).await;
        corner.create(&corner.plan_with("c", &annotated("ip-families", "ipv4,ipv6")), Promise::Managed).await;
        let told = corner.condition("c", "TopologyReconciled", |c| {
            c["reason"] == "ClusterCreating" && c["message"].as_str().is_some_and(|text| text.contains("ipv6"))
        });
        told.await;
        assert_eq!(endpoint(&corner.cluster("c").await.data), None, "all families or none");

        corner.pool(&objects::pool("vip-dual-6", ns, &corner.range6("10-1f"))).await;
        corner.dock("c").await;
        let cluster = corner.cluster("c").await;
        assert_eq!(corner.endpoint("c").await.0, corner.address(10));
        let second = annotation(&cluster, "control-plane-vip-secondary").unwrap();
        assert!(second.starts_with("fd00:77:") && second.ends_with("::10"), "{second}");
        assert!(corner.claim("vip2-cp-c").await.is_some());

        corner.create(&corner.plan_with("d", &annotated("ip-families", "ipv6")), Promise::Managed).await;
        let (host, _) = corner.endpoint("d").await;
        assert!(host.ends_with("::11"), "{host}");
        assert_eq!(endpoint(&corner.dock("d").await).unwrap().0, host);
        corner.judge().await;
        for name in ["c", "d"] {
            corner.delete(name).await;
        }
        corner.released().await;
        corner.judge().await;
    });
}

#[test]
fn an_address_can_be_had_for_an_endpoint_that_is_a_name() {
    run("an_address_can_be_had_for_an_endpoint_that_is_a_name", async |world| {
        let ns = "vip-only";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool(ns, "10-19")).await;
        let more = json!({"spec": {"controlPlaneEndpoint": {"host": "api.vip-only.test", "port": 6443}}});
        let plan = objects::merged(corner.plan_with("c", &annotated("vip-only", "true")), &more);
        corner.create(&plan, Promise::Managed).await;
        assert_eq!(endpoint(&corner.dock("c").await).unwrap().0, "api.vip-only.test");
        assert_eq!(corner.endpoint("c").await.0, "api.vip-only.test");
        assert_eq!(annotation(&corner.cluster("c").await, "control-plane-vip"), Some(corner.address(10)));
        corner.judge().await;
        corner.delete("c").await;
        corner.released().await;
    });
}

#[test]
fn a_cluster_without_a_class_gets_an_address_if_it_asks_for_one() {
    run("a_cluster_without_a_class_gets_an_address_if_it_asks_for_one", async |world| {
        let ns = "vip-plain";
        world.fleet().await;
        let corner = Corner::new(world, ns, "berth").await;
        corner.pool(&corner.plan_pool(ns, "10-19")).await;
        for object in objects::plain_cluster(ns, "c", ns) {
            world.apply(&object).await;
        }
        assert_eq!(corner.endpoint("c").await, (corner.address(10), 6443));
        let told = corner.condition("c", "ControlPlaneVIPReady", |c| c["status"] == "True").await;
        assert_eq!(told["reason"], "Allocated");
        // One that does not ask is not looked at.
        let mut silent = objects::plain_cluster(ns, "silent", ns);
        silent[1]["metadata"].as_object_mut().unwrap().remove("annotations");
        for object in &silent {
            world.apply(object).await;
        }
        corner.condition("silent", "InfrastructureReady", |c| c["status"] == "True").await;
        assert_eq!(endpoint(&corner.cluster("silent").await.data), None);
        assert!(corner.claim("vip-cp-silent").await.is_none());
        corner.delete("c").await;
        corner.released().await;
        corner.judge().await;
    });
}
