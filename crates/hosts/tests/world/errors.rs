//! What EC2 refuses: the conditions, the pace, and what is left in the end.

use std::time::Duration;

use serde_json::json;
use sim::ec2::wire::refusal::Refusal;
use sim::ec2::world::faults::{Fault, What};
use sim::ec2::world::settings::Throttle;
use sim::server::Server;

use crate::site::*;

/// Refuses an operation until the script is cleared.
fn refuse(site: &Site, operation: &str, status: u16, code: &str) {
    site.ec2.script(Fault::refuse(operation, status, code).forever());
}

#[tokio::test(start_paused = true)]
async fn allocations_that_are_refused_are_told_by_class_and_tried_at_its_pace() {
    for (status, code, wanted, most) in [
        (400, "HostLimitExceeded", "HostQuotaExceeded", 15),
        (500, "InsufficientHostCapacity", "HostCapacityUnavailable", 20),
        (403, "UnauthorizedOperation", "HostAllocationDenied", 15),
        (400, "InvalidHostConfiguration", "HostAllocationFailed", 8),
        (503, "Unavailable", "HostAllocationStarted", 400),
    ] {
        let (server, site) = world();
        refuse(&site, "AllocateHosts", status, code);
        add(&server, dynamic(&site, "m"));
        let _process = site.start(&server, site.config());
        assert!(
            server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostReady") == wanted).await,
            "{code}: {:?}",
            server.get(MACHINES, NS, "m")
        );
        pass(3_600).await;
        let tried = site.ec2.calls("AllocateHosts");
        assert!((2..=most).contains(&tried), "{code}: {tried} tries in an hour");
        assert_eq!(site.paid().len(), 0, "{code}");
        let told = condition(&server, "m", "DedicatedHostReady");
        assert!(told.1 == wanted, "{code}: no flicker, {told:?}");
        let (_, summed, message) = condition(&server, "m", "Ready");
        assert!(summed == wanted && message.contains(&told.2), "{code}: {summed}: {message}");
        let tokens: std::collections::BTreeSet<String> = site
            .ec2
            .log()
            .iter()
            .filter(|entry| entry.action == "AllocateHosts")
            .map(|entry| entry.parameters["ClientToken"].clone())
            .collect();
        assert_eq!(tokens.len(), 1, "{code}: one token for one intent");
        let machine = server.get(MACHINES, NS, "m").unwrap();
        assert!(machine["status"]["failureReason"].is_null(), "{code}");
        site.ec2.clear_script();
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{code}: heals by itself");
        assert_eq!((site.paid().len(), site.alive().len()), (1, 1), "{code}");
        site.check(&[&server]).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_denied_while_a_machine_goes_is_what_ready_names() {
    for (operation, type_, wanted) in [
        ("TerminateInstances", "InstanceReady", "DeletingFailed"),
        ("ReleaseHosts", "DedicatedHostRelease", "DedicatedHostReleaseFailed"),
    ] {
        let (server, site) = world();
        add(&server, dynamic(&site, "m"));
        let _process = site.start(&server, site.config());
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{operation}");
        site.ec2.script(Fault::deny(operation));
        assert!(server.delete(MACHINES, NS, "m"));
        let failed = |s: &Server| reason(s, "m", type_) == wanted;
        assert!(server.wait_until(LIMIT, failed).await, "{operation}: {:?}", server.get(MACHINES, NS, "m"));
        for _ in 0..2 {
            let (status, reason, message) = condition(&server, "m", "Ready");
            assert_eq!((status.as_str(), reason.as_str()), ("False", "Deleting"), "{operation}");
            assert!(message.starts_with(wanted) && message.contains(operation), "{operation}: {message}");
            pass(3_600).await;
        }
        assert!(failed(&server), "{operation}: no flicker");
        let tried = site.ec2.calls(operation);
        assert!((2..=30).contains(&tried), "{operation}: {tried} tries in two hours");
        assert_eq!(site.paid().len(), 1, "{operation}");
        site.ec2.clear_script();
        assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{operation}: heals by itself");
        assert_eq!((site.paid().len(), site.alive().len()), (0, 0), "{operation}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_other_way_in_which_a_release_fails_is_told_once() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    refuse(&site, "ReleaseHosts", 403, "UnauthorizedOperation");
    assert!(server.delete(MACHINES, NS, "m"));
    // The same reason within a few minutes of real time is counted on the event before.
    let told = || {
        let all = server.list(EVENTS, NS);
        let of = all.iter().filter(|event| event["reason"] == "FailedReleaseHost");
        of.map(|event| event["series"]["count"].as_u64().unwrap_or(1)).sum::<u64>()
    };
    assert!(server.wait_until(LIMIT, |_| told() == 1).await, "{:?}", server.list(EVENTS, NS));
    pass(3_600).await;
    assert_eq!(told(), 1, "not with every try");
    site.ec2.clear_script();
    refuse(&site, "ReleaseHosts", 400, "InvalidParameterValue");
    assert!(server.wait_until(LIMIT, |_| told() == 2).await, "{:?}", server.list(EVENTS, NS));
    site.ec2.clear_script();
    let code = "Client.UnsupportedHostConfiguration".to_owned();
    let item = What::RefuseItems { id: String::new(), code, message: "no".to_owned() };
    site.ec2.script(Fault::on("ReleaseHosts", item).forever());
    assert!(server.wait_until(LIMIT, |_| told() == 3).await, "{:?}", server.list(EVENTS, NS));
    pass(2 * 3_600).await;
    assert_eq!(told(), 3, "each once");
    site.ec2.clear_script();
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
    assert_eq!(site.paid().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_quota_of_the_account_is_told_with_its_name() {
    let (server, site) = world();
    site.ec2.settings(|settings| settings.host_quota = 0);
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostReady") == "HostQuotaExceeded").await);
    let message = condition(&server, "m", "DedicatedHostReady").2;
    assert!(message.contains("HostLimitExceeded") && message.contains("Service Quotas"), "{message}");
    assert!(events(&server, "m").contains(&"FailedAllocateDedicatedHost".to_owned()));
    site.ec2.settings(|settings| settings.host_quota = 2);
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_hosts_of_ours_still_use_up_says_so() {
    let (server, site) = world();
    site.ec2.settings(|settings| settings.host_quota = 1);
    add(&server, dynamic(&site, "first"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "first")).await);
    add(&server, dynamic(&site, "second"));
    let quota = |s: &Server| reason(s, "second", "DedicatedHostReady") == "HostQuotaExceeded";
    assert!(server.wait_until(LIMIT, quota).await, "{:?}", server.get(MACHINES, NS, "second"));
    assert!(!condition(&server, "second", "DedicatedHostReady").2.contains("quarter of an hour"), "none was");
    assert!(server.delete(MACHINES, NS, "first"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "first")).await);
    let told = |s: &Server| {
        let (_, reason, message) = condition(s, "second", "DedicatedHostReady");
        reason == "HostQuotaExceeded" && message.contains("1 released within the last quarter of an hour")
    };
    // It is asked for again before EC2 has stopped counting.
    site.ec2.settings(|settings| settings.quota_memory = Duration::from_secs(600));
    assert!(server.wait_until(LIMIT, told).await, "{:?}", server.get(MACHINES, NS, "second"));
    let message = condition(&server, "second", "DedicatedHostReady").2;
    assert!(message.contains("HostLimitExceeded") && message.contains("Service Quotas"), "{message}");
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "second")).await);
}

#[tokio::test(start_paused = true)]
async fn launches_that_are_refused_keep_the_host_unless_they_can_never_work() {
    for (code, kept) in [
        ("InsufficientCapacityOnHost", true),
        ("VcpuLimitExceeded", true),
        ("UnauthorizedOperation", true),
        ("InvalidParameterValue", false),
        ("InvalidAMIID.NotFound", false),
    ] {
        let (server, site) = world();
        // The rehearsal passes, and only then does EC2 change its mind.
        site.ec2.script(Fault::refuse("RunInstances", 400, code).nth(2).forever());
        add(&server, dynamic(&site, "m"));
        let _process = site.start(&server, site.config());
        let failed = |s: &Server| reason(s, "m", "InstanceReady") == "InstanceProvisionFailed";
        assert!(server.wait_until(LIMIT, failed).await, "{code}: {:?}", server.get(MACHINES, NS, "m"));
        pass(300).await;
        site.check(&[&server]).unwrap();
        assert_eq!(site.paid().len(), usize::from(kept), "{code}: {:?}", server.get(MACHINES, NS, "m"));
        assert!(failed(&server), "{code}: no flicker");
        site.ec2.clear_script();
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{code}: {:?}", server.get(MACHINES, NS, "m"));
        assert_eq!((site.paid().len(), site.alive().len()), (1, 1), "{code}");
        assert!(server.delete(MACHINES, NS, "m"));
        assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{code}");
        assert_eq!(site.paid().len(), 0, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rehearsal_that_fails_costs_nothing() {
    for code in ["UnauthorizedOperation", "InvalidParameterValue"] {
        let (server, site) = world();
        refuse(&site, "RunInstances", 400, code);
        add(&server, dynamic(&site, "m"));
        let _process = site.start(&server, site.config());
        assert!(
            server.wait_until(LIMIT, |s| reason(s, "m", "InstanceReady") == "InstanceProvisionFailed").await,
            "{code}"
        );
        pass(3_600).await;
        assert_eq!((site.paid().len(), site.ec2.calls("AllocateHosts")), (0, 0), "{code}");
        assert!(phase(&server, "m").is_empty(), "{code}: nothing is intended either");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_waits_too_long_for_its_instance_is_given_back() {
    let (server, site) = world();
    site.ec2.script(Fault::refuse("RunInstances", 400, "VcpuLimitExceeded").nth(2).forever());
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |_| site.paid().len() == 1).await);
    pass(3_000).await;
    assert_eq!(site.paid().len(), 1, "not before its time");
    assert!(server.wait_until(Duration::from_secs(3_600), |_| site.paid().is_empty()).await);
    site.check(&[&server]).unwrap();
    let (paid, empty) = site.ec2.bill();
    assert!(paid < Duration::from_secs(2 * 3_600) && empty == paid, "{paid:?} paid, {empty:?} empty");
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_lost_cost_nothing_twice() {
    for operation in ["AllocateHosts", "RunInstances", "TerminateInstances", "ReleaseHosts", "CreateTags"] {
        for what in [What::CutAfter, What::CutBefore, What::RefuseAfter(Refusal::new(500, "InternalError", "no"))] {
            let (server, site) = world();
            site.ec2.script(Fault::on(operation, what.clone()).times(7));
            add(&server, dynamic(&site, "m"));
            let _process = site.start(&server, site.config());
            assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{operation} {what:?}");
            assert_eq!((site.paid().len(), site.alive().len()), (1, 1), "{operation} {what:?}");
            assert_eq!(site.ec2.hosts().len(), 1, "{operation} {what:?}: no host was ever lost");
            site.check(&[&server]).unwrap();
            assert!(server.delete(MACHINES, NS, "m"));
            assert!(
                server.wait_until(LIMIT, |s| is_gone(s, "m")).await,
                "{operation} {what:?}: {:?}",
                server.get(MACHINES, NS, "m")
            );
            assert_eq!((site.paid().len(), site.alive().len()), (0, 0), "{operation} {what:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_account_with_a_tenth_of_the_rate_costs_time_and_nothing_else() {
    let (server, site) = world();
    site.ec2.settings(|settings| settings.throttle = Throttle::Percent(10));
    let names: Vec<String> = (0..8).map(|number| format!("m{number}")).collect();
    names.iter().for_each(|name| add(&server, dynamic(&site, name)));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s: &Server| names.iter().all(|name| is_ready(s, name))).await);
    assert_eq!((site.ec2.hosts().len(), site.ec2.instances().len()), (names.len(), names.len()));
    site.check(&[&server]).unwrap();
    assert!(site.ec2.log().iter().any(|entry| entry.code == "RequestLimitExceeded"), "nobody was told to slow down");
    for name in &names {
        assert!(server.delete(MACHINES, NS, name));
    }
    assert!(server.wait_until(LIMIT, |s: &Server| names.iter().all(|name| is_gone(s, name))).await);
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0));
    let failures = |name: &String| events(&server, name).into_iter().filter(|told| told.starts_with("Failed"));
    assert_eq!(names.iter().flat_map(failures).collect::<Vec<_>>(), Vec::<String>::new(), "it passes by itself");
}

#[tokio::test(start_paused = true)]
async fn reads_that_lag_minutes_behind_lose_and_double_nothing() {
    let (server, site) = world();
    site.ec2.settings(|settings| {
        settings.lag = Duration::from_secs(240);
        settings.wobble = true;
    });
    for name in ["a", "b", "c"] {
        add(&server, dynamic(&site, name));
    }
    let _process = site.start(&server, site.config());
    for name in ["a", "b", "c"] {
        assert!(server.wait_until(LIMIT, |s| is_ready(s, name)).await, "{name}");
    }
    assert_eq!((site.ec2.hosts().len(), site.ec2.instances().len()), (3, 3));
    site.check(&[&server]).unwrap();
    for name in ["a", "b", "c"] {
        assert!(server.delete(MACHINES, NS, name));
    }
    for name in ["a", "b", "c"] {
        assert!(server.wait_until(LIMIT, |s| is_gone(s, name)).await, "{name}: {:?}", server.get(MACHINES, NS, name));
    }
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_deleted_while_its_host_is_being_asked_for_waits_for_it() {
    let (server, site) = world();
    // The host is made, and nobody hears of it for minutes.
    site.ec2.settings(|settings| settings.lag = Duration::from_secs(300));
    site.ec2.script(Fault::on("AllocateHosts", What::CutAfter).forever());
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |_| site.paid().len() == 1).await);
    assert!(server.delete(MACHINES, NS, "m"));
    pass(120).await;
    assert!(!is_gone(&server, "m"), "a host may still surface");
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!((site.paid().len(), site.ec2.hosts().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn credentials_that_fail_keep_the_machine_until_an_operator_lets_go() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    pass(60).await;
    site.ec2.revoke(&site.ec2.access_key.clone());
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostRelease") == "DedicatedHostReleaseFailed").await);
    let message = condition(&server, "m", "DedicatedHostRelease").2;
    assert!(message.contains("the controller's own identity"), "{message}");
    let calls = site.ec2.log().len();
    pass(3_600).await;
    assert!(!is_gone(&server, "m"));
    assert!(site.ec2.log().len() - calls < 60, "no busy loop: {}", site.ec2.log().len() - calls);
    crate::life::annotate(&server, "hosts.berth.dev/abandon-host", "true");
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert!(events(&server, "m").contains(&"DedicatedHostAbandoned".to_owned()), "never in silence");
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_makes_no_sense_stops_everything() {
    let (server, site) = world();
    let mut odd = dynamic(&site, "m");
    odd["metadata"]["annotations"] = json!({"hosts.berth.dev/allocation": "{\"v\":7}"});
    add(&server, odd);
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "InstanceReady") == "InstanceProvisionFailed").await);
    assert!(condition(&server, "m", "InstanceReady").2.contains("hosts.berth.dev/allocation"));
    pass(3_600).await;
    assert_eq!(site.ec2.log().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_built_is_refused_by_name_and_costs_nothing() {
    let (server, site) = world();
    let shared = json!({"dynamicHostAllocation": {"sharing": {"policy": "Shared", "group": "g"}}});
    add(&server, machine(&site, "shared", "m5.large", shared));
    add(&server, machine(&site, "spot", "m5.large", json!({"marketType": "Spot"})));
    add(&server, machine(&site, "odd", "t2.micro", json!({"dynamicHostAllocation": {}})));
    let mut lookup = machine(&site, "lookup", "m5.large", json!({}));
    lookup["spec"]["ami"] = json!({});
    add(&server, lookup);
    let _process = site.start(&server, site.config());
    for (name, word) in [("shared", "sharing"), ("spot", "marketType"), ("odd", "t2.micro"), ("lookup", "lookup")] {
        assert!(
            server.wait_until(LIMIT, |s| reason(s, name, "InstanceReady") == "InstanceProvisionFailed").await,
            "{name}"
        );
        let message = condition(&server, name, "InstanceReady").2;
        assert!(message.contains(word), "{name}: {message}");
    }
    pass(3_600).await;
    assert_eq!((site.paid().len(), site.ec2.calls("RunInstances"), site.ec2.calls("AllocateHosts")), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn caps_of_the_installation_hold_for_many_machines_at_once() {
    let (server, site) = world();
    for number in 0..8 {
        add(&server, dynamic(&site, &format!("m{number}")));
    }
    let config = hosts::config::Config { max_hosts_per_cluster: 3, ..site.config() };
    let _process = site.start(&server, config);
    pass(3_600).await;
    assert_eq!((site.paid().len(), site.ec2.hosts().len()), (3, 3));
    let denied = (0..8).filter(|n| reason(&server, &format!("m{n}"), "DedicatedHostReady") == "HostAllocationDenied");
    assert_eq!(denied.count(), 5);
}
