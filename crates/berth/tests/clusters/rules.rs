//! What the server itself refuses, what the webhook refuses, and what it fills in.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::kubectl::{Kubectl, WAYS};
use crate::world::{SYSTEM, World, run};

const TEAM: &str = "team-r";

async fn refusal(world: &World, object: &Value) -> String {
    let api = world.own(object["kind"].as_str().unwrap(), TEAM);
    let dry = PatchParams { dry_run: true, ..PatchParams::apply("rules").force() };
    let name = object["metadata"]["name"].as_str().unwrap();
    match api.patch(name, &dry, &Patch::Apply(object)).await {
        Ok(stored) => panic!("it is accepted: {}", stored.data),
        Err(error) => error.to_string(),
    }
}

#[test]
fn mistakes_are_refused_with_their_fields() {
    run("mistakes_are_refused_with_their_fields", async |world| {
        world.namespace(TEAM).await;
        let part = |file: &str| world.example_for(file, TEAM, "rules", "192.0.2.50").remove(0);
        let (cluster, datacenter, machine) = (part("cluster.yaml"), part("datacenter.yaml"), part("machines.yaml"));
        let with = |object: &Value, pointer: &str, value: Value| {
            let mut changed = object.clone();
            *changed.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
            changed
        };
        let other = |object: &Value, pointer: &str, field: &str, value: Value| {
            let mut part = object.pointer(pointer).unwrap().clone();
            part[field] = value;
            part
        };
        let rolling = |update: Value| json!({"type": "RollingUpdate", "rollingUpdate": update});
        let surges = |most: i64| {
            let way = rolling(json!({"maxSurge": most}));
            other(&cluster, "/spec/controlPlaneConfiguration", "upgradeRolloutStrategy", way)
        };
        let replaced = |more: i64, less: i64| {
            let way = rolling(json!({"maxSurge": more, "maxUnavailable": less}));
            other(&cluster, "/spec/workerNodeGroupConfigurations/0", "upgradeRolloutStrategy", way)
        };
        let disk = |device: &str, size: i64| {
            let disk = json!({"name": "Custom", "customSizeInGB": size, "mountPath": "/data", "device": device,
                "filesystem": "ext4", "label": "data"});
            other(&machine, "/spec", "diskOffering", disk)
        };
        // By rules of the definitions, which hold without any webhook.
        for (object, words) in [
            (with(&cluster, "/spec/kubernetesVersion", json!("1.3")), "quote it"),
            (with(&cluster, "/spec/workerNodeGroupConfigurations", json!([])), "at least one worker group"),
            (with(&datacenter, "/spec/availabilityZones/0/zone/network", json!({})), "set id or name"),
            (with(&machine, "/spec/users", json!([])), "at least one user"),
            (with(&cluster, "/spec/workerNodeGroupConfigurations/0/count", json!(-1)), "count: must be >= 0"),
            (with(&cluster, "/spec/controlPlaneConfiguration", surges(2)), "maxSurge: must be 0 or 1"),
            (with(&cluster, "/spec/workerNodeGroupConfigurations/0", replaced(-1, 1)), "cannot be negative"),
            (with(&cluster, "/spec/workerNodeGroupConfigurations/0", replaced(0, 0)), "cannot both be 0"),
            (with(&datacenter, "/spec/availabilityZones/0/name", json!("AZ")), "must be a lower-case DNS name"),
            (with(&datacenter, "/spec/availabilityZones/0/credentialsRef", json!("")), "credentialsRef: required"),
            (
                with(&datacenter, "/spec/availabilityZones/0/managementApiEndpoint", json!("cloud.example")),
                "not an http(s) URL",
            ),
            (with(&machine, "/spec", disk("vdb", 0)), "device: must be under /dev/"),
            (with(&machine, "/spec", disk("/dev/vdb", -1)), "customSizeInGB: must be >= 0"),
        ] {
            let said = refusal(world, &object).await;
            assert!(said.contains(words), "no {words} in {said}");
        }
        // By the webhook: what rules cannot say, all at once.
        let mut wrong = with(&cluster, "/spec/controlPlaneConfiguration/count", json!(2));
        wrong["spec"]["clusterNetwork"]["pods"]["cidrBlocks"] = json!(["10.96.0.0/16"]);
        let said = refusal(world, &wrong).await;
        for words in ["must be odd with stacked etcd", "overlaps"] {
            assert!(said.contains(words), "no {words} in {said}");
        }
        // What is not built is refused by its field.
        let mut etcd = cluster.clone();
        let machines = cluster["spec"]["controlPlaneConfiguration"]["machineGroupRef"].clone();
        etcd["spec"]["externalEtcdConfiguration"] = json!({"count": 3, "machineGroupRef": machines});
        let said = refusal(world, &etcd).await;
        let words = "spec.externalEtcdConfiguration: external etcd is not available on this management cluster";
        assert!(said.contains(words), "no {words} in {said}");
        let mut own = cluster.clone();
        own["spec"]["managementCluster"]["name"] = json!("rules");
        let said = refusal(world, &own).await;
        assert!(said.contains("self-managed clusters cannot be created through this API"), "{said}");
        // What old files say is filled in as it is meant.
        let mut old = cluster.clone();
        old["spec"]["clusterNetwork"].as_object_mut().unwrap().remove("cniConfig");
        old["spec"]["clusterNetwork"]["cni"] = json!("cilium");
        old["spec"]["workerNodeGroupConfigurations"][0].as_object_mut().unwrap().remove("count");
        let dry = PatchParams { dry_run: true, ..PatchParams::apply("rules").force() };
        let stored = world.own("Cluster", TEAM).patch("rules", &dry, &Patch::Apply(&old)).await.expect("accepted");
        assert_eq!(stored.data["spec"]["clusterNetwork"]["cniConfig"], json!({"cilium": {}}));
        assert_eq!(stored.data["spec"]["workerNodeGroupConfigurations"][0]["count"], 1);
        // The management cluster was made by somebody else and is left alone.
        let own = world.own("Cluster", SYSTEM).get("mgmt").await.unwrap();
        assert!(own.metadata.finalizers.unwrap_or_default().is_empty());
        assert!(world.of_cluster("Cluster", "mgmt").await.is_empty());
    });
}

/// `kubectl diff` of an unchanged file is empty, however much the file leaves to be filled in or says in the older way, and
/// whichever way it was applied.
#[test]
fn a_file_that_leaves_things_out_shows_no_difference() {
    let test = "a_file_that_leaves_things_out_shows_no_difference";
    run(test, async |world| {
        let Some(kubectl) = Kubectl::of(test, world) else { return };
        let team = "team-f";
        world.namespace(team).await;
        let files = |name: &str, host: &str| {
            let part = |file: &str| world.example_for(file, team, name, host).remove(0);
            let (mut cluster, mut datacenter) = (part("cluster.yaml"), part("datacenter.yaml"));
            let spec = &mut cluster["spec"];
            spec["clusterNetwork"].as_object_mut().unwrap().remove("cniConfig");
            spec["clusterNetwork"]["cni"] = json!("cilium");
            spec["registryMirrorConfiguration"] = json!({"endpoint": "mirror.example"});
            let group = spec["workerNodeGroupConfigurations"][0].as_object_mut().unwrap();
            group.retain(|field, _| field == "machineGroupRef");
            let zone = datacenter["spec"]["availabilityZones"][0].clone();
            datacenter["spec"] = json!({"zones": [zone["zone"]], "domain": "ROOT",
                "managementApiEndpoint": zone["managementApiEndpoint"]});
            // The machines are not there, so that it goes no further.
            [datacenter, cluster]
        };
        let of_both = [("by-client", "192.0.2.71"), ("by-server", "192.0.2.70")];
        for (way, (name, host)) in WAYS.into_iter().zip(of_both) {
            let all = files(name, host);
            kubectl.apply(way, &all);
            world.failure(team, name, "MissingDependentObjects").await;
            assert_eq!(kubectl.diff(way, &all), "", "{way}");
            let mut more = all;
            more[1]["spec"]["workerNodeGroupConfigurations"][0]["count"] = json!(2);
            let shown = kubectl.diff(way, &more);
            assert!(shown.contains("+  - count: 2\n"), "{way}: {shown}");
            let cluster = world.own("Cluster", team).get(name).await.unwrap();
            let spec = &cluster.data["spec"];
            assert_eq!(spec["clusterNetwork"]["cniConfig"], json!({"cilium": {}}));
            assert!(spec["clusterNetwork"].get("cni").is_none(), "{spec}");
            assert_eq!(spec["registryMirrorConfiguration"]["port"], "443");
            let group = &spec["workerNodeGroupConfigurations"][0];
            assert_eq!((&group["name"], &group["count"]), (&json!("md-0"), &json!(1)));
            world.delete(team, name).await;
        }
        world.judge().await;
    });
}

/// What is generated, and what network plugins are made of, is in one namespace: nowhere else may any of it be touched.
#[test]
fn outside_of_the_system_namespace_nothing_that_is_generated_may_be_touched() {
    run("outside_of_the_system_namespace_nothing_that_is_generated_may_be_touched", async |world| {
        let reviews: Api<SubjectAccessReview> = Api::all(world.client.clone());
        let may = async |(group, resource, verb): (&str, &str, &str), namespace: &str| {
            let attributes = ResourceAttributes {
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                verb: Some(verb.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ResourceAttributes::default()
            };
            let spec = SubjectAccessReviewSpec {
                user: Some("system:serviceaccount:berth-clusters:berth-clusters".to_owned()),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            };
            let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
            let answer = reviews.create(&PostParams::default(), &review).await.expect("reviewed");
            answer.status.is_some_and(|status| status.allowed)
        };
        for call in [
            ("cluster.x-k8s.io", "clusters", "create"),
            ("cluster.x-k8s.io", "clusters", "delete"),
            ("cluster.x-k8s.io", "machinedeployments", "create"),
            ("cluster.x-k8s.io", "machinehealthchecks", "list"),
            ("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes", "patch"),
            ("bootstrap.cluster.x-k8s.io", "kubeadmconfigtemplates", "create"),
            ("infrastructure.cluster.x-k8s.io", "cloudstackclusters", "patch"),
            ("infrastructure.cluster.x-k8s.io", "cloudstackmachinetemplates", "delete"),
            ("", "configmaps", "get"),
        ] {
            assert_eq!([may(call, SYSTEM).await, may(call, TEAM).await], [true, false], "{call:?}");
        }
    });
}
