//! A cluster gets its address before anything is made of it, whichever way its class takes the address up.

use std::time::Instant;

use kube::ResourceExt as _;
use serde_json::{Value, json};
use sim::dock::objects::{self, Class, external, inline, older_external, readme_patches};
use sim::dock::oracle::Promise;

use crate::fleet::EXTENSION;
use crate::world::{Corner, SOON, condition, endpoint, run, within};

const CHANNEL: &str = "/spec/template/spec/controlPlaneEndpoint";

#[test]
fn a_cluster_gets_its_address_before_anything_is_made_of_it() {
    run("a_cluster_gets_its_address_before_anything_is_made_of_it", async |world| {
        let ns = "vip-single";
        let mut corner = Corner::managed(world, ns).await;
        corner.pool(&corner.plan_pool(ns, "10-19")).await;
        let begun = Instant::now();
        corner.create(&corner.plan("c"), Promise::Managed).await;
        let (host, port) = corner.endpoint("c").await;
        let known = begun.elapsed();
        assert_eq!((host.as_str(), port), (corner.address(10).as_str(), 6443));
        assert_eq!(endpoint(&corner.dock("c").await), Some((host.clone(), port)));
        eprintln!("endpoint after {known:?}, infrastructure after {:?}", begun.elapsed());

        let cluster = corner.cluster("c").await;
        let annotation = |name: &str| cluster.annotations().get(&format!("vip.capi.gorizond.io/{name}")).cloned();
        assert_eq!(annotation("control-plane-vip"), Some(host.clone()));
        assert_eq!(annotation("control-plane-pool"), Some(format!("GlobalInClusterIPPool/{ns}")));
        assert_eq!(annotation("control-plane-source").as_deref(), Some("allocated"));
        let claim = corner.claim("vip-cp-c").await.unwrap();
        let owner = &claim.owner_references()[0];
        assert_eq!((owner.kind.as_str(), Some(&owner.uid)), ("Cluster", cluster.uid().as_ref()));
        assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
        assert_eq!(claim.data["spec"]["clusterName"], "c");
        assert_eq!(claim.labels()["cluster.x-k8s.io/cluster-name"], "c");
        assert_eq!(claim.labels()["vip.capi.gorizond.io/role"], "control-plane");
        assert_eq!(claim.labels()["vip.capi.gorizond.io/managed-by"], "vip-allocator");

        // Everybody can see it.
        let told = corner.condition("c", "ControlPlaneVIPReady", |c| c["status"] == "True").await;
        assert_eq!(told["reason"], "Allocated");
        assert!(told["message"].as_str().unwrap().contains(&host), "{told}");
        for reason in ["VIPClaimCreated", "VIPAllocated"] {
            let seen = within(SOON, reason, async || {
                Some(corner.events("c", reason).await).filter(|events| !events.is_empty())
            })
            .await;
            assert_eq!(seen.len(), 1, "{seen:?}");
        }
        corner.condition("c", "TopologyReconciled", |c| c["status"] == "True").await;
        corner.judge().await;
        let requests = world.requests(ns);
        assert!(requests.keys().all(|(_, _, code)| !matches!(code, 401 | 403)), "refused: {requests:?}");

        corner.delete("c").await;
        corner.released().await;
        within(SOON, "the pool is whole again", async || {
            (corner.free("GlobalInClusterIPPool", ns).await? == 10).then_some(())
        })
        .await;
        corner.judge().await;
    });
}

#[test]
fn the_first_readmes_class_and_cluster_work_as_they_were_written() {
    run("the_first_readmes_class_and_cluster_work_as_they_were_written", async |world| {
        let ns = "vip-readme";
        world.fleet().await;
        let mut corner = Corner::new(world, ns, "berth").await;
        let [registration, san] = readme_patches();
        let class = Class::new(ns, ns)
            .dock(&json!({"controlPlaneEndpoint": {"host": "", "port": 6443}}))
            .quay(&json!({"registrationAddress": ""}))
            .patch(registration)
            .patch(san)
            .patch(older_external(EXTENSION));
        corner.class_of(class.older_objects()).await;
        corner.pool(&corner.plan_pool(ns, "10-20")).await;
        corner.create(&objects::older_cluster(ns, "my-cluster", ns), Promise::Managed).await;
        let (host, port) = corner.endpoint("my-cluster").await;
        assert_eq!(endpoint(&corner.dock("my-cluster").await), Some((host.clone(), port)));
        let quay = corner.quay("my-cluster").await;
        assert_eq!(quay["spec"]["registrationAddress"], host);
        assert_eq!(quay["spec"]["tlsSAN"], json!(["localhost", host]));
        corner.condition("my-cluster", "TopologyReconciled", |c| c["status"] == "True").await;
        corner.judge().await;
    });
}

#[test]
fn placeholders_are_filled_in_every_template_of_a_cluster() {
    run("placeholders_are_filled_in_every_template_of_a_cluster", async |world| {
        let ns = "vip-placeholders";
        world.fleet().await;
        let mut corner = Corner::new(world, ns, "berth").await;
        let manifest = "vip:\n  address: @@VIP_CONTROL_PLANE@@\n  port: @@VIP_CONTROL_PLANE_PORT@@\n";
        let files = json!({"files": [{"path": "/etc/kube-vip.yaml", "content": manifest}]});
        let class = Class::new(ns, ns)
            .quay(&files)
            .rope(&files)
            .rope(&json!({"joinAddress": "@@VIP_CONTROL_PLANE@@"}))
            .machine(&json!({"userData": manifest}))
            .patch(external(EXTENSION, &json!({})));
        corner.class(&class).await;
        corner.pool(&corner.plan_pool(ns, "10-20")).await;
        let workers = json!({"machineDeployments": [{"class": "worker", "name": "w", "replicas": 0}]});
        let plan = corner.plan_with(
            "c",
            &json!({"spec": {"topology": {"workers": workers}},
            "metadata": {"annotations": {"vip.capi.gorizond.io/port": "7443"}}}),
        );
        corner.create(&plan, Promise::Managed).await;
        let (host, port) = corner.endpoint("c").await;
        assert_eq!(port, 7443);
        let filled = format!("vip:\n  address: {host}\n  port: 7443\n");
        assert_eq!(corner.quay("c").await["spec"]["files"][0]["content"], filled);
        let owned = |kind: &'static str| {
            let present = world.record.present(kind, ns).into_iter().filter(|v| v.name != ns);
            present.map(|version| version.object.clone()).collect::<Vec<Value>>()
        };
        let ropes = within(SOON, "the workers' templates are there", async || {
            Some(owned("RopeConfigTemplate")).filter(|found| !found.is_empty())
        })
        .await;
        assert_eq!(ropes[0]["spec"]["template"]["spec"]["joinAddress"], host);
        assert_eq!(ropes[0]["spec"]["template"]["spec"]["files"][0]["content"], filled);
        let machines = within(SOON, "both machine templates are there", async || {
            Some(owned("DockMachineTemplate")).filter(|found| found.len() == 2)
        })
        .await;
        assert!(
            machines.iter().all(|machine| machine["spec"]["template"]["spec"]["userData"] == filled),
            "{machines:?}"
        );
        corner.condition("c", "TopologyReconciled", |c| c["status"] == "True").await;
        corner.judge().await;
    });
}

#[test]
fn a_class_may_take_the_address_from_the_annotation() {
    run("a_class_may_take_the_address_from_the_annotation", async |world| {
        let ns = "vip-annotation";
        world.fleet().await;
        let mut corner = Corner::new(world, ns, "berth").await;
        let key = "vip.capi.gorizond.io/control-plane-vip";
        let template =
            format!("host: \"{{{{ index .builtin.cluster.metadata.annotations \"{key}\" }}}}\"\nport: 6443\n");
        corner.class(&Class::new(ns, ns).patch(inline("vip", "add", CHANNEL, &template))).await;
        corner.pool(&corner.plan_pool(ns, "10-20")).await;
        let plan = corner.plan_with("c", &json!({"metadata": {"annotations": {"some": "other"}}}));
        corner.create(&plan, Promise::Managed).await;
        let shown = endpoint(&corner.dock("c").await);
        assert_eq!(shown, Some(corner.endpoint("c").await));
        corner.judge().await;
    });
}

#[test]
fn a_class_may_take_the_address_from_a_variable() {
    run("a_class_may_take_the_address_from_a_variable", async |world| {
        let ns = "vip-variable";
        world.fleet().await;
        let mut corner = Corner::new(world, ns, "berth").await;
        let variable = |name: &str, default: &str| {
            let schema = json!({"openAPIV3Schema": {"type": "string", "default": default}});
            json!({"name": name, "required": false, "schema": schema})
        };
        // A second variable with a default makes Cluster API write the list of variables itself.
        let class = Class::new(ns, ns)
            .variable(variable("size", "small"))
            .variable(variable("clusterVip", ""))
            .patch(inline("vip", "add", CHANNEL, "host: \"{{ .clusterVip }}\"\nport: 6443\n"));
        corner.class(&class).await;
        corner.pool(&corner.plan_pool(ns, "10-20")).await;
        corner.create(&corner.plan("c"), Promise::Managed).await;
        let shown = endpoint(&corner.dock("c").await);
        let known = corner.endpoint("c").await;
        assert_eq!(shown.as_ref(), Some(&known));
        let cluster = corner.cluster("c").await;
        let variables = cluster.data["spec"]["topology"]["variables"].as_array().unwrap();
        assert!(variables.contains(&json!({"name": "clusterVip", "value": known.0})), "{variables:?}");
        corner.judge().await;
    });
}

#[test]
fn a_variable_that_somebody_removes_changes_nothing_and_comes_back() {
    run("a_variable_that_somebody_removes_changes_nothing_and_comes_back", async |world| {
        let ns = "vip-removed";
        world.fleet().await;
        let mut corner = Corner::new(world, ns, "berth").await;
        let mut patch = external(EXTENSION, &json!({}));
        patch["external"]["discoverVariablesExtension"] =
            json!(format!("vip-allocator-discover-variables.{EXTENSION}"));
        corner.class(&Class::new(ns, ns).patch(patch)).await;
        corner.pool(&corner.plan_pool(ns, "10-20")).await;
        corner.create(&corner.plan("c"), Promise::Managed).await;
        let (host, _) = corner.endpoint("c").await;
        corner.dock("c").await;
        let has = |cluster: &Value| {
            let variables = cluster.pointer("/spec/topology/variables").and_then(Value::as_array).cloned();
            variables.unwrap_or_default().contains(&json!({"name": "clusterVip", "value": host}))
        };
        assert!(has(&corner.cluster("c").await.data));
        let removed = json!({"spec": {"topology": {"variables": null}},
            "metadata": {"annotations": {"vip.capi.gorizond.io/control-plane-vip": null}}});
        corner.edit("c", &removed).await;
        within(SOON, "variable and annotation are back", async || {
            let cluster = corner.cluster("c").await;
            let annotation = cluster.annotations().get("vip.capi.gorizond.io/control-plane-vip");
            (has(&cluster.data) && annotation == Some(&host)).then_some(())
        })
        .await;
        corner.condition("c", "TopologyReconciled", |c| c["status"] == "True").await;
        corner.judge().await;
    });
}

#[test]
fn a_patch_in_the_wrong_order_is_refused_with_an_explanation() {
    run("a_patch_in_the_wrong_order_is_refused_with_an_explanation", async |world| {
        let ns = "vip-order";
        world.fleet().await;
        let mut corner = Corner::new(world, ns, "berth").await;
        let wrong = "{{ .builtin.cluster.spec.controlPlaneEndpoint.host }}";
        let class = Class::new(ns, ns)
            .dock(&json!({"controlPlaneEndpoint": {"host": "", "port": 6443}}))
            .patch(external(EXTENSION, &json!({})))
            .patch(inline("copy", "replace", "/spec/template/spec/controlPlaneEndpoint/host", wrong));
        corner.class(&class).await;
        corner.pool(&corner.plan_pool(ns, "10-20")).await;
        corner.create(&corner.plan("c"), Promise::Managed).await;
        let told = corner.condition("c", "TopologyReconciled", |c| {
            c["reason"] == "ReconcileFailed" && c["message"].as_str().is_some_and(|m| m.contains("<no value>"))
        });
        let told = told.await;
        let message = told["message"].as_str().unwrap();
        assert!(message.contains("controlPlaneEndpoint/host"), "{message}");
        let cluster = corner.cluster("c").await;
        assert!(cluster.data["spec"].get("infrastructureRef").is_none());
        assert!(condition(&cluster.data, "ControlPlaneVIPReady").is_some());
        corner.judge().await;
        corner.delete("c").await;
        corner.released().await;
    });
}
