//! From the first to the last day of a machine, and what happens when somebody dies on the way.

use std::time::Duration;

use kube::api::DeleteParams;
use serde_json::{Value, json};
use sim::ec2::world::faults::{Fault, What};

use crate::world::{CLUSTER, CORE, Corner, INFRASTRUCTURE, REGION, SOON, ZONE, run, within};

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

#[test]
fn a_machine_gets_a_host_and_gives_it_back_with_its_cluster() {
    run("a_machine_gets_a_host_and_gives_it_back_with_its_cluster", async |world| {
        let corner = Corner::new(world, "hosts-life").await;
        corner.create("m", "m5.large", &json!({"tags": {"CostCenter": "42"}})).await;
        let machine = corner.provisioned("m").await;
        let [host] = corner.paid().try_into().expect("one host");
        let [instance] = corner.alive().try_into().expect("one instance");
        assert_eq!(instance.host.as_deref(), Some(host.id.as_str()), "the instance is on its host");
        assert_eq!(text(&machine.data, "/spec/providerID"), format!("aws:///{ZONE}/{}", instance.id));
        let status = &machine.data["status"];
        assert_eq!(status["initialization"]["provisioned"], true);
        assert_eq!(status["ready"], true);
        assert_eq!(text(status, "/failureDomain"), ZONE);
        assert_eq!(text(status, "/dedicatedHost/id"), host.id);
        assert_eq!(text(status, "/allocatedHostID"), host.id);
        let cluster = format!("sigs.k8s.io/cluster-api-provider-aws/cluster/{CLUSTER}");
        for (key, value) in [("CostCenter", "42"), ("MachineName", "hosts-life/m"), (cluster.as_str(), "owned")] {
            assert_eq!(host.tags.get(key).map(String::as_str), Some(value), "{:?}", host.tags);
        }
        let owner = corner.owners().get("m").await.unwrap();
        assert_eq!(text(&owner.data, "/spec/providerID"), text(&machine.data, "/spec/providerID"));
        let addresses = owner.data.pointer("/status/addresses").and_then(Value::as_array).cloned().unwrap_or_default();
        assert!(addresses.iter().any(|address| address["type"] == "InternalIP"), "{addresses:?}");
        assert_eq!((corner.done("AllocateHosts"), corner.done("RunInstances")), (1, 1));

        corner.delete(&corner.api(CORE, "Cluster"), CLUSTER).await;
        for (group, kind, name) in
            [(CORE, "Machine", "m"), (INFRASTRUCTURE, "AWSMachine", "m"), (INFRASTRUCTURE, "AWSCluster", CLUSTER)]
        {
            assert!(corner.api(group, kind).get_opt(name).await.unwrap().is_none(), "{kind} {name} is left");
        }
        assert_eq!((corner.done("AllocateHosts"), corner.done("RunInstances")), (1, 1));

        // What cannot be taken back has a line: for whom it was done, on what, and what proved that it might be.
        let uid = machine.metadata.uid.expect("a uid");
        for (words, id) in [("an instance is being terminated", &instance.id), ("host released", &host.id)] {
            let lines = corner.logged(words);
            let line = lines.first().unwrap_or_else(|| panic!("nothing says {words:?}"));
            for part in [&uid, id, "deleted", "machine name and allocation id"] {
                assert!(line.contains(part), "no {part} in {line}");
            }
        }
        corner.judge();
    });
}

#[test]
fn killed_at_every_turn_nothing_is_lost_and_nothing_is_made_twice() {
    run("killed_at_every_turn_nothing_is_lost_and_nothing_is_made_twice", async |world| {
        let mut corner = Corner::new(world, "hosts-killed").await;
        // EC2 has done it, and Berth dies before it hears so.
        let late = || What::Delay(Duration::from_secs(600));
        corner.ec2.script(Fault::on("AllocateHosts", late()));
        // The first launch is a rehearsal.
        corner.ec2.script(Fault::on("RunInstances", late()).nth(2));
        corner.ec2.script(Fault::on("ReleaseHosts", late()));

        corner.create("m", "c5.large", &json!({})).await;
        let host = within(SOON, "a host is allocated", async || corner.paid().into_iter().next()).await;
        assert_eq!(corner.journal("m").await["phase"], "Intended", "the intent was stored before the call");
        let machine = corner.machines().get("m").await.unwrap();
        assert!(machine.data.pointer("/status/dedicatedHost").is_none(), "and nothing else is known of it");
        corner.kill().await;

        corner.again().await;
        let instance = within(SOON, "an instance is launched", async || corner.alive().into_iter().next()).await;
        assert_eq!(instance.host.as_deref(), Some(host.id.as_str()), "on the host that was there");
        let machine = corner.machines().get("m").await.unwrap();
        assert!(machine.data.pointer("/spec/providerID").is_none(), "Berth has not heard of it yet");
        corner.kill().await;

        corner.again().await;
        let machine = corner.provisioned("m").await;
        assert_eq!(text(&machine.data, "/status/dedicatedHost/id"), host.id);
        assert!(text(&machine.data, "/spec/providerID").ends_with(&instance.id));
        let found = (corner.paid().len(), corner.alive().len());
        assert_eq!(found, (1, 1), "neither was made twice");
        assert_eq!((corner.ec2.hosts().len(), corner.ec2.instances().len()), (1, 1), "nor ever was");

        let _ = corner.owners().delete("m", &DeleteParams::default()).await.unwrap();
        within(SOON, "the host is released", async || corner.paid().is_empty().then_some(())).await;
        assert_eq!(corner.journal("m").await["phase"], "Releasing");
        corner.kill().await;

        corner.again().await;
        corner.gone(&corner.owners(), "m").await;
        assert!(corner.machines().get_opt("m").await.unwrap().is_none());
        corner.judge();
    });
}

#[test]
fn without_its_awscluster_a_machine_still_gives_its_host_back() {
    run("without_its_awscluster_a_machine_still_gives_its_host_back", async |world| {
        let mut corner = Corner::new(world, "hosts-alone").await;
        corner.create("m", "r5.large", &json!({})).await;
        corner.provisioned("m").await;
        corner.delete(&corner.api(INFRASTRUCTURE, "AWSCluster"), CLUSTER).await;
        // A Berth that has never seen the network knows from the machine alone where to look.
        corner.kill().await;
        corner.again().await;
        corner.delete(&corner.owners(), "m").await;
        assert!(corner.machines().get_opt("m").await.unwrap().is_none());
        corner.judge();
    });
}

#[test]
fn a_release_that_is_refused_is_told_and_heals() {
    run("a_release_that_is_refused_is_told_and_heals", async |world| {
        let corner = Corner::new(world, "hosts-refused").await;
        corner.create("m", "m5.large", &json!({})).await;
        let machine = corner.provisioned("m").await;
        let host = text(&machine.data, "/status/dedicatedHost/id").to_owned();
        let refusal = What::RefuseItems {
            id: host.clone(),
            code: "Client.InvalidHost.Occupied".to_owned(),
            message: "the host has instances".to_owned(),
        };
        corner.ec2.script(Fault::on("ReleaseHosts", refusal));
        let _ = corner.owners().delete("m", &DeleteParams::default()).await.unwrap();
        let told = corner.condition("m", "DedicatedHostRelease", "HostOccupied").await;
        assert_eq!((&told["status"], &told["severity"]), (&json!("False"), &json!("Info")));
        assert!(text(&told, "/message").contains(&host), "{told}");
        assert_eq!(corner.paid().len(), 1, "it is still paid for, so the machine stays");
        assert!(corner.machines().get_opt("m").await.unwrap().is_some());
        corner.gone(&corner.owners(), "m").await;
        corner.judge();
        assert_eq!(corner.ec2.calls("ReleaseHosts"), 2);
    });
}

#[test]
fn a_host_that_is_kept_on_purpose_is_left_to_its_owner() {
    run("a_host_that_is_kept_on_purpose_is_left_to_its_owner", async |world| {
        let corner = Corner::new(world, "hosts-kept").await;
        corner.create("m", "c5.large", &json!({"autoRelease": false})).await;
        corner.provisioned("m").await;
        corner.delete(&corner.owners(), "m").await;
        let [host] = corner.paid().try_into().expect("one host");
        assert_eq!(host.tags.get("hosts.berth.dev/retained").map(String::as_str), Some("true"), "{:?}", host.tags);
        assert_eq!(host.tags.get("hosts.berth.dev/allocation-id"), None);
        assert!(corner.alive().is_empty());
        assert_eq!(corner.done("ReleaseHosts"), 0);
        assert_eq!(host.region, REGION);
    });
}
