//! The life of a machine, from its creation to its end.

use std::time::Duration;

use serde_json::{Value, json};
use sim::ec2::world::faults::{Fault, What};

use crate::site::*;

#[tokio::test(start_paused = true)]
async fn a_machine_gets_a_host_and_an_instance_and_gives_both_back() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    site.check(&[&server]).unwrap();
    let machine = server.get(MACHINES, NS, "m").unwrap();
    let paid = site.paid();
    assert_eq!(paid.len(), 1);
    let host = &paid[0];
    let tag = |key: &str| host.tags.get(key).map(String::as_str);
    assert_eq!(
        (host.zone.as_str(), host.kind.as_str(), tag("CostCenter"), tag("team")),
        (ZONE, "m5.large", Some("42"), Some("blue"))
    );
    assert_eq!((tag("MachineName"), tag("Name")), (Some("team/m"), Some("m")));
    assert_eq!(tag("sigs.k8s.io/cluster-api-provider-aws/cluster/c"), Some("owned"));
    let system = server.get("namespaces", "", "kube-system").unwrap();
    assert_eq!(tag("hosts.berth.dev/management-cluster"), system["metadata"]["uid"].as_str());
    assert_eq!(host.instances.len(), 1);
    let status = &machine["status"];
    assert_eq!(machine["spec"]["providerID"], format!("aws:///{ZONE}/{}", host.instances[0]));
    assert_eq!(machine["spec"]["instanceID"], host.instances[0].as_str());
    assert_eq!((&status["initialization"]["provisioned"], &status["failureDomain"]), (&json!(true), &json!(ZONE)));
    assert_eq!((&status["dedicatedHost"]["id"], &status["allocatedHostID"]), (&json!(host.id), &json!(host.id)));
    let shown = &status["dedicatedHost"];
    let only = json!([{"id": host.id, "state": "available"}]);
    assert_eq!((&shown["hosts"], &shown["state"]), (&only, &json!("available")));
    assert_eq!((&shown["availabilityZone"], &shown["instanceType"]), (&json!(ZONE), &json!("m5.large")));
    assert!(shown["instanceFamily"] == "m5" && shown["allocationTime"].is_string(), "{shown}");
    assert_eq!(status["instanceState"], "running");
    let types: Vec<&str> =
        status["addresses"].as_array().unwrap().iter().map(|a| a["type"].as_str().unwrap()).collect();
    assert_eq!(&types[..2], ["InternalDNS", "InternalIP"]);
    for (type_, wanted) in [
        ("InstanceReady", ("True", "InstanceRunning")),
        ("DedicatedHostReady", ("True", "HostAvailable")),
        ("SecurityGroupsReady", ("True", "SecurityGroupsSynced")),
        ("Paused", ("False", "NotPaused")),
        ("Ready", ("True", "Ready")),
    ] {
        let (state, reason, message) = condition(&server, "m", type_);
        assert_eq!((state.as_str(), reason.as_str()), wanted, "{type_}: {message}");
    }
    assert_eq!((site.ec2.calls("AllocateHosts"), site.ec2.calls("RunInstances")), (1, 2), "one rehearsal, one launch");
    assert_eq!(events(&server, "m"), ["SuccessfulAllocateDedicatedHost", "SuccessfulCreate"]);

    pass(30).await;
    let (effects, calls) = (server.effects(), site.ec2.log().len());
    pass(6 * 3_600).await;
    assert_eq!(server.effects(), effects, "a machine that is as it should be is left in peace");
    let asked = site.ec2.log().len() - calls;
    assert!(asked <= 36 * 4, "{asked} calls in six hours");

    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0));
    let all = events(&server, "m");
    for reason in ["SuccessfulReleaseHost", "SuccessfulTerminate"] {
        assert!(all.iter().any(|told| told == reason), "{all:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_shared_hardware_has_no_host_and_is_kept_the_same_way() {
    let (server, site) = world();
    add(&server, machine(&site, "m", "m5.large", json!({})));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!((site.paid().len(), site.alive().len(), site.ec2.calls("AllocateHosts")), (0, 1, 0));
    assert_eq!(condition(&server, "m", "DedicatedHostReady").0, "");
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
    assert_eq!(site.alive().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn all_hosts_of_a_quantity_are_recorded_and_given_back() {
    let (server, site) = world();
    let wish = json!({"dynamicHostAllocation": {"quantity": 3, "instanceFamily": "m5"}});
    add(&server, machine(&site, "m", "m5.large", wish));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    assert_eq!((hosts_of(&server, "m").len(), site.paid().len()), (3, 3));
    assert_eq!(site.paid()[0].kind, "m5", "a family host");
    let machine = server.get(MACHINES, NS, "m").unwrap();
    assert_eq!(machine["status"]["dedicatedHost"]["hosts"].as_array().unwrap().len(), 3);
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
    assert_eq!(site.paid().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_not_to_be_released_is_left_to_its_owner() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    // The wish counts at the time of the deletion.
    server
        .edit(MACHINES, NS, "m", |object| object["spec"]["dynamicHostAllocation"]["autoRelease"] = json!(false))
        .unwrap();
    pass(30).await;
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    let paid = site.paid();
    assert_eq!((paid.len(), site.alive().len(), site.ec2.calls("ReleaseHosts")), (1, 0, 0));
    let tag = |key: &str| paid[0].tags.get(key).map(String::as_str);
    assert_eq!(tag("hosts.berth.dev/retained"), Some("true"));
    assert_eq!(tag("hosts.berth.dev/retained-from"), Some("team/m"));
    assert_eq!(tag("hosts.berth.dev/allocation-id"), None);
    assert_eq!(tag("sigs.k8s.io/cluster-api-provider-aws/cluster/c"), Some("shared"));
    assert!(events(&server, "m").contains(&"DedicatedHostRetained".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_operator_can_give_a_host_up_and_everybody_hears_of_it() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    annotate(&server, "hosts.berth.dev/abandon-host", "true");
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
    assert_eq!((site.paid().len(), site.alive().len(), site.ec2.calls("ReleaseHosts")), (1, 0, 0));
    assert!(events(&server, "m").contains(&"DedicatedHostAbandoned".to_owned()));
}

pub fn annotate(server: &sim::server::Server, key: &str, value: &str) {
    server.edit(MACHINES, NS, "m", |object| object["metadata"]["annotations"][key] = json!(value)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_called_while_a_machine_or_its_cluster_is_paused() {
    let (server, site) = world();
    server.edit(CLUSTERS, NS, "c", |object| object["spec"]["paused"] = json!(true)).unwrap();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "Paused") == "Paused").await);
    pass(3_600).await;
    assert_eq!(site.ec2.log().len(), 0);
    server.edit(CLUSTERS, NS, "c", |object| object["spec"]["paused"] = json!(false)).unwrap();
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    assert_eq!(reason(&server, "m", "Paused"), "NotPaused");
    annotate(&server, "cluster.x-k8s.io/paused", "");
    pass(30).await;
    let calls = site.ec2.log().len();
    assert!(server.delete(MACHINES, NS, "m"));
    pass(3_600).await;
    assert_eq!((site.ec2.log().len(), site.alive().len()), (calls, 1), "a paused machine is not deleted either");
    server
        .edit(MACHINES, NS, "m", |object| {
            object["metadata"]["annotations"].as_object_mut().unwrap().remove("cluster.x-k8s.io/paused");
        })
        .unwrap();
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
}

#[tokio::test(start_paused = true)]
async fn a_machine_waits_for_its_network_and_its_bootstrap_data() {
    let (server, site) = world();
    server.edit(CLUSTERS, NS, "c", |object| object["status"] = json!({})).unwrap();
    let mut waiting = owner("m");
    waiting["spec"]["bootstrap"] = json!({});
    put_under(&server, waiting, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    let is = |wanted: &'static str| move |s: &sim::server::Server| reason(s, "m", "InstanceReady") == wanted;
    assert!(server.wait_until(LIMIT, is("WaitingForClusterInfrastructure")).await);
    server
        .edit(CLUSTERS, NS, "c", |o| o["status"] = json!({"initialization": {"infrastructureProvisioned": true}}))
        .unwrap();
    assert!(server.wait_until(LIMIT, is("WaitingForBootstrapData")).await);
    pass(600).await;
    assert_eq!(site.ec2.log().len(), 0, "nothing is asked before everything is there");
    server.edit(OWNERS, NS, "m", |o| o["spec"]["bootstrap"] = json!({"dataSecretName": "m"})).unwrap();
    assert!(server.wait_until(LIMIT, is("InstanceProvisionFailed")).await, "the secret is named and not there");
    let machine = server.get(MACHINES, NS, "m").unwrap();
    let all = machine["status"]["conditions"].as_array().unwrap();
    let failed = all.iter().find(|condition| condition["type"] == "InstanceReady").unwrap();
    assert_eq!(failed["severity"], "Error", "the older contract reads how bad it is");
    assert_eq!((site.paid().len(), site.ec2.calls("AllocateHosts")), (0, 0), "no host is paid for before that");
    server.put(secret("m")).unwrap();
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_got_anything_goes_at_once() {
    let (server, site) = world();
    server.edit(CLUSTERS, NS, "c", |object| object["status"] = json!({})).unwrap();
    add(&server, dynamic(&site, "m"));
    server
        .edit(MACHINES, NS, "m", |o| {
            o["metadata"]["finalizers"] = json!(["awsmachine.infrastructure.cluster.x-k8s.io"]);
        })
        .unwrap();
    let _process = site.start(&server, site.config());
    pass(10).await;
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(Duration::from_secs(60), |s| is_gone(s, "m")).await);
    assert_eq!(site.ec2.log().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_deleted_although_everything_around_it_is_gone() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    drop(process);
    for (resource, name) in [(CLUSTERS, "c"), (CLOUDS, "c"), (OWNERS, "m")] {
        assert!(server.delete(resource, NS, name), "{resource}");
    }
    server.delete(MACHINES, NS, "m");
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn tags_groups_and_options_follow_the_spec_and_nothing_else_is_touched() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    pass(60).await;
    let extra = site.group("default");
    server
        .edit(MACHINES, NS, "m", |object| {
            object["spec"]["additionalTags"] = json!({"stage": "test"});
            object["spec"]["additionalSecurityGroups"] = json!([{"id": extra}]);
        })
        .unwrap();
    let tag = |key: &'static str| {
        let site = site.clone();
        move || {
            let instance = site.ec2.instances()[0].tags.get(key).cloned();
            (instance, site.paid()[0].tags.get(key).cloned())
        }
    };
    let test = Some("test".to_owned());
    assert!(server.wait_until(LIMIT, |_| tag("stage")() == (test.clone(), test.clone())).await);
    let groups = || {
        site.ec2.with(|world, now| {
            let place = world.place("123456789012", REGION, now).unwrap();
            place.instances.values().next().unwrap().interfaces[0].groups.clone()
        })
    };
    assert!(server.wait_until(LIMIT, |_| format!("{:?}", groups()).contains(&extra)).await);
    server.edit(MACHINES, NS, "m", |object| object["spec"]["additionalTags"] = json!({})).unwrap();
    assert!(server.wait_until(LIMIT, |_| tag("stage")() == (None, None)).await);
    assert!(tag("team")().0.is_some(), "tags of the cluster stay");
    let quiet = server.effects();
    pass(3_600).await;
    assert_eq!(server.effects(), quiet);
}

#[tokio::test(start_paused = true)]
async fn the_zone_is_that_of_the_subnet_wherever_it_comes_from() {
    let (server, site) = world();
    let in_b = site.ec2.subnet(REGION, "us-west-2b", false).unwrap();
    let wish = |more: Value| {
        let mut spec = json!({"dynamicHostAllocation": {}});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        spec
    };
    add(&server, machine(&site, "named", "m5.large", wish(json!({"subnet": {"id": in_b}}))));
    let zone = json!({"dynamicHostAllocation": {"availabilityZone": "us-west-2b"}});
    add(&server, machine(&site, "asked", "m5.large", zone));
    add(&server, machine(&site, "domain", "m5.large", wish(json!({}))));
    server.edit(OWNERS, NS, "domain", |o| o["spec"]["failureDomain"] = json!("us-west-2b")).unwrap();
    let both = json!({"dynamicHostAllocation": {"availabilityZone": ZONE}});
    add(&server, machine(&site, "torn", "m5.large", both));
    server.edit(OWNERS, NS, "torn", |o| o["spec"]["failureDomain"] = json!("us-west-2b")).unwrap();
    let _process = site.start(&server, site.config());
    for name in ["named", "asked", "domain"] {
        assert!(server.wait_until(LIMIT, |s| is_ready(s, name)).await, "{name}");
    }
    assert!(site.paid().iter().all(|host| host.zone == "us-west-2b"), "{:?}", site.paid());
    assert!(server.wait_until(LIMIT, |s| reason(s, "torn", "DedicatedHostReady") == "HostAllocationFailed").await);
    assert_eq!(site.paid().len(), 3, "two zones are one too many");
}

#[tokio::test(start_paused = true)]
async fn the_policy_we_ship_allows_everything_we_call() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    server
        .edit(MACHINES, NS, "m", |object| {
            object["spec"]["additionalTags"] = json!({"stage": "test"});
            object["spec"]["additionalSecurityGroups"] = json!([{"id": site.group("default")}]);
        })
        .unwrap();
    pass(60).await;
    server.edit(MACHINES, NS, "m", |object| object["spec"]["additionalTags"] = json!({})).unwrap();
    pass(60).await;
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
    let allowed = ::hosts::iam::actions();
    // Who one is may always be asked.
    for entry in site.ec2.log().into_iter().filter(|entry| entry.action != "GetCallerIdentity") {
        let action = format!("ec2:{}", entry.action);
        assert!(allowed.contains(&action.as_str()), "{action}");
        assert!(entry.code.is_empty() || entry.code == "DryRunOperation", "{action}: {}", entry.code);
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_told_to_stop_stores_what_ec2_is_about_to_answer() {
    // The first launch is only tried.
    for (operation, nth) in [("AllocateHosts", 1), ("RunInstances", 2)] {
        let (server, site) = world();
        site.ec2.script(Fault::on(operation, What::Delay(Duration::from_secs(10))).nth(nth));
        add(&server, dynamic(&site, "m"));
        let (mut process, stop) = site.start_to_stop(&server, site.config());
        let made = || if nth == 1 { site.paid().len() } else { site.alive().len() };
        while made() == 0 {
            pass(1).await;
        }
        stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(25), process.join_next()).await;
        assert!(ended.is_ok(), "{operation}: the process has not ended");
        let machine = server.get(MACHINES, NS, "m").unwrap();
        let paid: Vec<String> = site.paid().into_iter().map(|host| host.id).collect();
        assert_eq!((phase(&server, "m").as_str(), hosts_of(&server, "m")), ("Allocated", paid), "{operation}");
        if nth == 2 {
            assert_eq!(machine["spec"]["instanceID"].as_str().map(str::to_owned), site.alive().pop(), "{machine}");
        }
    }
}
