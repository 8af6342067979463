//! Launches that EC2 answers in odd ways, and instances that are missing or too many: never a second one, and never in
//! silence.

use std::time::Duration;

use hosts::config::Config;
use serde_json::json;
use sim::ec2::wire::refusal::Refusal;
use sim::ec2::world::faults::{Fault, What};
use sim::server::Server;

use crate::others::instance;
use crate::site::*;

const MISMATCH: &str = "IdempotentParameterMismatch";

fn launch(server: &Server) -> serde_json::Value {
    note(&server.get(MACHINES, NS, "m").unwrap(), "launch").unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_ec2_knows_with_other_parameters_leads_to_its_instance() {
    for lag in [0, 240] {
        let (server, site) = world();
        site.ec2.settings(|settings| settings.lag = Duration::from_secs(lag));
        let mismatch = Refusal::new(400, MISMATCH, "the token was used with other parameters");
        // The first is the rehearsal.
        site.ec2.script(Fault::on("RunInstances", What::RefuseAfter(mismatch)).nth(2));
        add(&server, dynamic(&site, "m"));
        let _process = site.start(&server, site.config());
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
        assert_eq!(launch(&server)["epoch"], 1, "lag {lag}: the token is not given up");
        assert_eq!((site.ec2.hosts().len(), site.ec2.instances().len()), (1, 1), "lag {lag}");
        site.check(&[&server]).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_under_which_no_instance_surfaces_is_given_up_after_an_hour_and_told_of() {
    let (server, site) = world();
    site.ec2.script(Fault::refuse("RunInstances", 400, MISMATCH).nth(2));
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, Config { idle_host_timeout: None, ..site.config() });
    assert!(server.wait_until(LIMIT, |s| launch(s)["refused"] == MISMATCH).await);
    pass(3_300).await;
    assert_eq!((site.alive().len(), &launch(&server)["epoch"]), (0, &json!(1)), "it may still surface");
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!((site.ec2.hosts().len(), site.ec2.instances().len()), (1, 1));
    assert_eq!(launch(&server)["epoch"], 2);
    assert!(events(&server, "m").contains(&"FailedCreate".to_owned()), "{:?}", events(&server, "m"));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_has_ended_under_its_token_is_not_launched_again() {
    let (server, site) = world();
    site.ec2.script(Fault::refuse("RunInstances", 400, "IdempotentInstanceTerminated").nth(2).forever());
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "InstanceReady") == "InstanceTerminated").await);
    assert_eq!(server.get(MACHINES, NS, "m").unwrap()["status"]["failureReason"], "UpdateError");
    site.ec2.clear_script();
    pass(3 * 3_600).await;
    assert_eq!((site.ec2.calls("RunInstances"), site.ec2.instances().len()), (2, 0), "one rehearsal, one launch");
    assert_eq!(site.paid().len(), 1, "the host is kept until the machine goes");
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!(site.paid().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_ec2_does_not_know_any_more_is_told_and_not_replaced() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    pass(60).await;
    site.ec2.with(|world, now| world.place("123456789012", REGION, now).unwrap().instances.clear());
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "InstanceReady") == "InstanceNotFound").await);
    assert_eq!(condition(&server, "m", "InstanceReady").0, "Unknown");
    assert!(events(&server, "m").contains(&"NoInstanceFound".to_owned()), "{:?}", events(&server, "m"));
    pass(3 * 3_600).await;
    assert_eq!((site.ec2.calls("AllocateHosts"), site.ec2.calls("RunInstances")), (1, 2), "one rehearsal, one launch");
    assert_eq!((site.paid().len(), is_ready(&server, "m")), (1, false));
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!(site.paid().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn two_instances_of_one_machine_are_told_and_go_with_it() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    pass(60).await;
    let first = site.ec2.instances().remove(0);
    // As after a restore of an account's backup: the same tags, and another id.
    let second = instance(&site, &server, None, &json!(first.tags)).await;
    let told = |s: &Server| {
        let (_, reason, message) = condition(s, "m", "InstanceReady");
        reason == "InstanceProvisionFailed" && message.contains(&first.id) && message.contains(&second)
    };
    assert!(server.wait_until(LIMIT, told).await, "{:?}", server.get(MACHINES, NS, "m"));
    pass(3_600).await;
    assert_eq!(site.alive().len(), 2, "which of them is one too many is not ours to say");
    assert_eq!(site.ec2.calls("RunInstances"), 3, "and none is launched");
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_affinity_without_a_host_is_asked_for() {
    let (server, site) = world();
    add(&server, machine(&site, "m", "m5.large", json!({"tenancy": "host", "hostAffinity": "host"})));
    let _process = site.start(&server, site.config());
    let asked = || site.ec2.log().into_iter().find(|e| e.action == "RunInstances" && e.parameter("DryRun").is_none());
    assert!(server.wait_until(LIMIT, |_| asked().is_some()).await);
    let request = asked().unwrap();
    let sent = |name: &str| request.parameter(&format!("Placement.{name}")).map(str::to_owned);
    let wanted = (Some("host".to_owned()), Some("host".to_owned()), None);
    assert_eq!((sent("Tenancy"), sent("Affinity"), sent("HostId")), wanted, "{request:?}");
    assert_eq!(site.ec2.calls("AllocateHosts"), 0);
}
