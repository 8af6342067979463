//! Whose a host or an instance is: never what a machine says of itself alone, and never less than what EC2 shows.

use aws::port::Ec2;
use serde_json::{Value, json};
use sim::ec2::world::faults::Fault;
use sim::server::{Action, Rule, Server};

use crate::life::annotate;
use crate::others::{host, instance};
use crate::site::*;

const FINALIZER: &str = "awsmachine.infrastructure.cluster.x-k8s.io";

fn allocation(of: Option<&str>, phase: &str, host: &str) -> Value {
    let mut journal = json!({
        "v": 1, "id": "6f0c1111-0000", "epoch": 1, "token": "dh-6f0c1111-0000-1", "az": ZONE,
        "subnet": "subnet-0a0a0a0a", "type": "m5.large", "qty": 1, "phase": phase, "hosts": [host], "adopted": true,
        "at": "2020-01-01T00:00:00Z",
    });
    if let Some(of) = of {
        journal["of"] = json!(of);
    }
    journal
}

/// Takes every annotation of ours off a machine, as a `kubectl replace` of an old manifest does.
fn strip(server: &Server, name: &str) {
    let edit = |object: &mut Value| {
        let all = object["metadata"]["annotations"].as_object_mut().unwrap();
        all.retain(|key, _| !key.starts_with("hosts.berth.dev/"));
    };
    server.edit(MACHINES, NS, name, edit).unwrap();
}

fn retag(site: &Site, host: &str, change: impl FnOnce(&mut std::collections::BTreeMap<String, String>)) {
    site.ec2.with(|world, now| {
        let place = world.place("123456789012", REGION, now).unwrap();
        let (_, tags) = place.tags_of(host, now).unwrap();
        let mut left = tags.at(now).cloned().unwrap();
        change(&mut left);
        tags.set(now, left);
    });
}

#[tokio::test(start_paused = true)]
async fn a_host_that_only_an_annotation_claims_is_never_released() {
    let (server, site) = world();
    let host = host(&site, &server).await;
    let mut forged = dynamic(&site, "m");
    forged["metadata"]["finalizers"] = json!([FINALIZER]);
    forged["metadata"]["annotations"] = json!({
        "hosts.berth.dev/allocation": allocation(None, "Releasing", &host).to_string(),
        "hosts.berth.dev/scope": json!({"region": REGION, "account": site.ec2.account}).to_string(),
    });
    add(&server, forged);
    let _process = site.start(&server, site.config());
    pass(60).await;
    assert!(server.delete(MACHINES, NS, "m"));
    pass(3 * 3_600).await;
    assert_eq!((site.ec2.calls("ReleaseHosts"), site.ec2.calls("CreateTags"), site.paid().len()), (0, 0, 1));
    assert_eq!(reason(&server, "m", "DedicatedHostRelease"), "DedicatedHostReleaseFailed");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_only_the_spec_names_is_neither_tended_nor_ended() {
    let (server, site) = world();
    let tags = json!({"MachineName": "others/x", "sigs.k8s.io/cluster-api-provider-aws/cluster/c": "owned"});
    let id = instance(&site, &server, None, &tags).await;
    let mut thief = machine(&site, "m", "m5.large", json!({"instanceID": id, "additionalTags": {"mine": "now"}}));
    thief["metadata"]["finalizers"] = json!([FINALIZER]);
    add(&server, thief);
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "InstanceReady") == "InstanceNotFound").await);
    assert!(condition(&server, "m", "InstanceReady").2.contains("MachineName"));
    pass(3_600).await;
    assert!(server.delete(MACHINES, NS, "m"));
    pass(3_600).await;
    let calls: usize = ["TerminateInstances", "CreateTags", "ModifyNetworkInterfaceAttribute", "RunInstances"]
        .iter()
        .map(|call| site.ec2.calls(call))
        .sum();
    assert_eq!((calls, site.alive()), (1, vec![id]), "but for somebody's own launch");
    assert_eq!(reason(&server, "m", "InstanceReady"), "DeletingFailed");
    annotate(&server, "hosts.berth.dev/abandon-host", "true");
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
    assert_eq!(site.alive().len(), 1);
    assert!(events(&server, "m").contains(&"DedicatedHostAbandoned".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_machine_does_not_take_the_original_with_it() {
    // Journals of earlier versions do not say whose they are; then the Machine, which has one infrastructure, does.
    for told in [true, false] {
        let (server, site) = world();
        add(&server, dynamic(&site, "m"));
        let _process = site.start(&server, site.config());
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
        let mut copy = server.get(MACHINES, NS, "m").unwrap();
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            copy["metadata"].as_object_mut().unwrap().remove(field);
        }
        copy["metadata"]["name"] = json!("copy");
        if !told {
            for name in ["hosts.berth.dev/allocation", "hosts.berth.dev/launch"] {
                let text = copy["metadata"]["annotations"][name].as_str().unwrap().replace(r#""of":"team/m","#, "");
                copy["metadata"]["annotations"][name] = json!(text);
            }
        }
        server.put(copy).unwrap();
        pass(600).await;
        assert!(server.delete(MACHINES, NS, "copy"));
        pass(2 * 3_600).await;
        assert_eq!((site.paid().len(), site.alive().len()), (1, 1), "told {told}");
        assert_eq!((site.ec2.calls("ReleaseHosts"), site.ec2.calls("TerminateInstances")), (0, 0), "told {told}");
        assert!(is_ready(&server, "m") && reason(&server, "m", "DedicatedHostReady") == "HostAvailable");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_journal_is_made_anew_from_what_the_hosts_say() {
    for running in [true, false] {
        let (server, site) = world();
        if !running {
            site.ec2.script(Fault::refuse("RunInstances", 400, "InsufficientCapacityOnHost").forever());
        }
        add(&server, dynamic(&site, "m"));
        let _process = site.start(&server, site.config());
        let made = |s: &Server| if running { is_ready(s, "m") } else { phase(s, "m") == "Allocated" };
        assert!(server.wait_until(LIMIT, made).await);
        pass(120).await;
        let hosts = hosts_of(&server, "m");
        strip(&server, "m");
        assert!(server.wait_until(LIMIT, |s| hosts_of(s, "m") == hosts).await, "{:?}", server.get(MACHINES, NS, "m"));
        pass(600).await;
        assert_eq!((site.paid().len(), site.ec2.calls("AllocateHosts")), (1, 1), "running {running}");
        site.check(&[&server]).unwrap();
        // And when it is lost just before the end.
        strip(&server, "m");
        assert!(server.delete(MACHINES, NS, "m"));
        assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
        assert_eq!((site.paid().len(), site.alive().len()), (0, 0), "running {running}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_the_status_names_and_nothing_proves_keeps_the_machine() {
    let (server, site) = world();
    let host = host(&site, &server).await;
    let mut known = dynamic(&site, "m");
    known["status"] = json!({"dedicatedHost": {"id": host}});
    known["metadata"]["finalizers"] = json!([FINALIZER]);
    add(&server, known);
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostReady") == "HostMismatch").await);
    assert!(condition(&server, "m", "DedicatedHostReady").2.contains(&host));
    pass(3_600).await;
    assert_eq!(site.ec2.calls("AllocateHosts"), 1, "only somebody's own: no second host is paid for");
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostRelease") == "DedicatedHostReleaseFailed").await);
    pass(3_600).await;
    assert!(!is_gone(&server, "m") && site.paid().len() == 1 && site.ec2.calls("ReleaseHosts") == 0);
    annotate(&server, "hosts.berth.dev/abandon-host", "true");
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
    assert!(events(&server, "m").contains(&"DedicatedHostAbandoned".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_says_released_does_not_outweigh_a_host_that_is_paid_for() {
    for deleting in [true, false] {
        let (server, site) = world();
        site.ec2.script(Fault::refuse("RunInstances", 400, "InsufficientCapacityOnHost").forever());
        add(&server, dynamic(&site, "m"));
        let process = site.start(&server, site.config());
        assert!(server.wait_until(LIMIT, |s| phase(s, "m") == "Allocated").await);
        drop(process);
        let first = hosts_of(&server, "m");
        let mut journal = note(&server.get(MACHINES, NS, "m").unwrap(), "allocation").unwrap();
        journal["phase"] = json!("Released");
        annotate(&server, "hosts.berth.dev/allocation", &journal.to_string());
        pass(1_200).await;
        if deleting {
            assert!(server.delete(MACHINES, NS, "m"));
        }
        site.ec2.clear_script();
        let _process = site.start(&server, site.config());
        let done = |s: &Server| if deleting { is_gone(s, "m") } else { is_ready(s, "m") };
        assert!(server.wait_until(LIMIT, done).await, "{:?}", server.get(MACHINES, NS, "m"));
        assert_eq!(site.paid().len(), usize::from(!deleting), "deleting {deleting}");
        assert!(state_of(&site, &first[0]).unwrap().is_released());
        site.check(&[&server]).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_host_under_the_instance_keeps_the_machine_although_its_tags_are_gone() {
    let (server, site) = world();
    add(&server, machine(&site, "m", "m5.large", json!({"dynamicHostAllocation": {"hostRecovery": "on"}})));
    let process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    drop(process);
    let new = site.ec2.fail_host(REGION, &hosts_of(&server, "m")[0]).expect("it recovers");
    pass(1_200).await;
    retag(&site, &new, std::collections::BTreeMap::clear);
    assert!(server.delete(MACHINES, NS, "m"));
    let _process = site.start(&server, site.config());
    let told = |s: &Server| condition(s, "m", "DedicatedHostRelease").2.contains(&new);
    assert!(server.wait_until(LIMIT, told).await, "{:?}", server.get(MACHINES, NS, "m"));
    pass(1_200).await;
    assert!(!is_gone(&server, "m") && site.alive().is_empty());
    assert!(!state_of(&site, &new).unwrap().is_released());
    // Somebody says whose it is.
    let id = note(&server.get(MACHINES, NS, "m").unwrap(), "allocation").unwrap()["id"].clone();
    retag(&site, &new, |tags| {
        tags.insert("hosts.berth.dev/allocation-id".to_owned(), id.as_str().unwrap().to_owned());
        tags.insert("MachineName".to_owned(), "team/m".to_owned());
    });
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!(site.paid().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_nobody_takes_does_not_keep_an_instance_alive() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    pass(60).await;
    server.inject(Rule::any().method("PATCH").path_contains("/status").always(), Action::Status(422));
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_reserved_host_of_a_living_machine_is_kept_and_used() {
    let (server, site) = world();
    site.ec2.script(Fault::refuse("RunInstances", 400, "InsufficientCapacityOnHost").forever());
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| phase(s, "m") == "Allocated").await);
    let host = hosts_of(&server, "m");
    assert!(site.ec2.reserve_host(REGION, &host[0], "hr-0123456789abcdef0"));
    pass(3 * 3_600).await;
    assert_eq!((hosts_of(&server, "m"), phase(&server, "m")), (host.clone(), "Allocated".to_owned()));
    site.ec2.clear_script();
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!((hosts_of(&server, "m"), site.ec2.hosts().len()), (host, 1));
}

#[tokio::test(start_paused = true)]
async fn tags_that_may_not_be_set_do_not_stop_security_groups_nor_blame_them() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    pass(60).await;
    site.ec2.script(Fault::deny("CreateTags"));
    let extra = site.group("default");
    server
        .edit(MACHINES, NS, "m", |object| {
            object["spec"]["additionalTags"] = json!({"stage": "test"});
            object["spec"]["additionalSecurityGroups"] = json!([{"id": extra}]);
        })
        .unwrap();
    let told = |s: &Server| condition(s, "m", "InstanceReady").2.contains("ec2:CreateTags");
    assert!(server.wait_until(LIMIT, told).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!(site.ec2.calls("ModifyNetworkInterfaceAttribute"), 1);
    pass(120).await;
    for type_ in ["InstanceReady", "SecurityGroupsReady", "Ready"] {
        assert_eq!(condition(&server, "m", type_).0, "True", "{type_}");
    }
    site.ec2.clear_script();
    let tagged = |_: &Server| site.paid()[0].tags.contains_key("stage");
    assert!(server.wait_until(LIMIT, tagged).await);
    assert!(server.wait_until(LIMIT, |s| !told(s)).await, "what went well is not complained of");
}

#[tokio::test(start_paused = true)]
async fn leftovers_are_found_after_the_last_cluster_of_a_region_is_gone() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let interval = Some(std::time::Duration::from_secs(900));
    let config = hosts::config::Config { orphan_interval: interval, release_orphans: true, ..site.config() };
    let _process = site.start(&server, config);
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    pass(1_000).await;
    server.edit(CLUSTERS, NS, "c", |object| object["spec"]["paused"] = json!(true)).unwrap();
    pass(10).await;
    server.edit(MACHINES, NS, "m", |object| object["metadata"]["finalizers"] = json!([])).unwrap();
    assert!(server.delete(MACHINES, NS, "m") && is_gone(&server, "m"));
    for (resource, name) in [(CLUSTERS, "c"), (CLOUDS, "c")] {
        assert!(server.delete(resource, NS, name));
    }
    let id = site.alive()[0].parse().unwrap();
    site.somebody(&server).terminate_instances(&[id]).await.unwrap();
    pass(4 * 3_600).await;
    assert_eq!(site.paid().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_orphan_is_released_only_if_the_server_knows_no_machine_of_its_allocation() {
    let (server, site) = world();
    let host = host(&site, &server).await;
    let system = server.get("namespaces", "", "kube-system").unwrap()["metadata"]["uid"].clone();
    retag(&site, &host, |tags| {
        tags.insert("hosts.berth.dev/allocation-id".to_owned(), "6f0c1111-0000".to_owned());
        tags.insert("hosts.berth.dev/management-cluster".to_owned(), system.as_str().unwrap().to_owned());
    });
    let interval = Some(std::time::Duration::from_secs(900));
    let config = hosts::config::Config { orphan_interval: interval, release_orphans: true, ..site.config() };
    let _process = site.start_deaf(&server, config, MACHINES);
    pass(10).await;
    // It has asked for a host and not heard of it, and the index has not heard of the machine.
    let mut journal = allocation(Some("team/m"), "Intended", &host);
    (journal["hosts"], journal["adopted"]) = (json!([]), json!(false));
    let mut waiting = dynamic(&site, "m");
    waiting["metadata"]["annotations"] = json!({"hosts.berth.dev/allocation": journal.to_string()});
    add(&server, waiting);
    pass(4 * 3_600).await;
    assert_eq!((site.paid().len(), site.ec2.calls("ReleaseHosts")), (1, 0));
    assert!(server.delete(MACHINES, NS, "m") && is_gone(&server, "m"));
    pass(3_600).await;
    assert_eq!(site.paid().len(), 0, "now it is nobody's");
}
