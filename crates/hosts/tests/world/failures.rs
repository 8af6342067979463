//! Hosts that fail, move, refuse to go, or come back.

use std::time::Duration;

use serde_json::json;
use sim::ec2::world::faults::{Fault, What};
use sim::ec2::world::host::HostState;
use sim::ec2::world::instance::InstanceState;

use crate::site::*;

#[tokio::test(start_paused = true)]
async fn a_host_that_ec2_replaces_is_followed_and_the_old_one_forgotten_when_it_is_gone() {
    let (server, site) = world();
    let wish = json!({"dynamicHostAllocation": {"hostRecovery": "on"}});
    add(&server, machine(&site, "m", "m5.large", wish));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    let old = hosts_of(&server, "m")[0].clone();
    let new = site.ec2.fail_host(REGION, &old).expect("it recovers");
    assert!(server.wait_until(LIMIT, |s| hosts_of(s, "m").contains(&new)).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| hosts_of(s, "m") == [new.clone()]).await, "{:?}", hosts_of(&server, "m"));
    assert!(events(&server, "m").contains(&"DedicatedHostReplaced".to_owned()));
    assert!(
        server
            .wait_until(LIMIT, |s| {
                let machine = s.get(MACHINES, NS, "m").unwrap();
                machine["status"]["dedicatedHost"]["id"] == new.as_str()
                    && reason(s, "m", "DedicatedHostReady") == "HostAvailable"
            })
            .await
    );
    site.check(&[&server]).unwrap();
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
    assert_eq!(site.paid().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_fails_under_an_instance_is_told_and_the_instance_left_alone() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    let host = hosts_of(&server, "m")[0].clone();
    site.ec2.set_host_state(REGION, &host, HostState::UnderAssessment);
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostReady") == "HostUnderAssessment").await);
    site.ec2.set_host_state(REGION, &host, HostState::PermanentFailure);
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostReady") == "HostPermanentFailure").await);
    assert!(is_ready(&server, "m") && site.alive().len() == 1, "nothing is ended by us");
    assert!(events(&server, "m").contains(&"DedicatedHostFailed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_fails_before_the_launch_is_given_back_and_another_one_taken() {
    let (server, site) = world();
    site.ec2.settings(|settings| settings.delays.allocate = Duration::from_secs(120));
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostReady") == "HostPending").await);
    let broken = hosts_of(&server, "m")[0].clone();
    site.ec2.set_host_state(REGION, &broken, HostState::PermanentFailure);
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert!(!hosts_of(&server, "m").contains(&broken));
    assert!(state_of(&site, &broken).unwrap().is_released(), "the broken one is not paid for any more");
    assert_eq!((site.paid().len(), site.alive().len()), (1, 1));
    site.check(&[&server]).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_occupied_host_is_asked_for_again_without_a_storm() {
    let (server, site) = world();
    site.ec2.settings(|settings| settings.delays.vacate = Duration::from_secs(1_200));
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostRelease") == "HostOccupied").await);
    assert_eq!(condition(&server, "m", "Ready").1, "Deleting");
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
    let asked = site.ec2.calls("ReleaseHosts");
    assert!((2..=30).contains(&asked), "{asked} requests in twenty minutes");
    assert_eq!(site.paid().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_mac_host_is_given_back_after_its_day() {
    let (server, site) = world();
    let wish = json!({"dynamicHostAllocation": {}});
    add(&server, machine(&site, "m", "mac2.metal", wish));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(
        server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostRelease") == "MinimumAllocationPeriod").await,
        "{:?}",
        server.get(MACHINES, NS, "m")
    );
    let machine = server.get(MACHINES, NS, "m").unwrap();
    assert!(machine["status"]["dedicatedHost"]["releasableAfter"].is_string(), "{machine}");
    assert!(server.wait_until(Duration::from_secs(30 * 3_600), |s| is_gone(s, "m")).await);
    assert_eq!(site.paid().len(), 0);
    assert!(site.ec2.calls("ReleaseHosts") <= 30, "{}", site.ec2.calls("ReleaseHosts"));
}

#[tokio::test(start_paused = true)]
async fn a_reserved_host_is_left_to_its_owner() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    let host = hosts_of(&server, "m")[0].clone();
    assert!(site.ec2.reserve_host(REGION, &host, "hr-0123456789abcdef0"));
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert!(site.paid()[0].tags.contains_key("hosts.berth.dev/retained"));
    assert!(events(&server, "m").contains(&"FailedReleaseHost".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_host_without_our_tag_is_never_released() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    let host = hosts_of(&server, "m")[0].clone();
    assert!(server.delete(MACHINES, NS, "m"));
    site.ec2.with(|world, now| {
        let place = world.place("123456789012", REGION, now).unwrap();
        let (_, tags) = place.tags_of(&host, now).unwrap();
        let mut left = tags.at(now).cloned().unwrap();
        left.remove("hosts.berth.dev/allocation-id");
        tags.set(now, left);
    });
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostRelease") == "DedicatedHostReleaseFailed").await);
    pass(7_200).await;
    assert_eq!((site.ec2.calls("ReleaseHosts"), site.paid().len()), (0, 1));
    assert!(condition(&server, "m", "DedicatedHostRelease").2.contains("allocation-id"));
}

#[tokio::test(start_paused = true)]
async fn fewer_hosts_than_asked_for_are_used_and_never_asked_for_again() {
    let (server, site) = world();
    site.ec2.script(Fault::on("AllocateHosts", What::Partial(2)));
    add(&server, machine(&site, "m", "m5.large", json!({"dynamicHostAllocation": {"quantity": 3}})));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    pass(7_200).await;
    assert_eq!((hosts_of(&server, "m").len(), site.paid().len(), site.ec2.calls("AllocateHosts")), (2, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_ends_by_itself_keeps_its_host_and_is_not_replaced() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    let instance = site.alive()[0].clone();
    assert!(site.ec2.set_instance_state(REGION, &instance, InstanceState::Terminated));
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "InstanceReady") == "InstanceTerminated").await);
    let machine = server.get(MACHINES, NS, "m").unwrap();
    assert_eq!(
        (&machine["status"]["failureReason"], &machine["status"]["ready"]),
        (&json!("UpdateError"), &json!(false))
    );
    assert_eq!(machine["status"]["initialization"]["provisioned"], true, "once provisioned is always provisioned");
    pass(7_200).await;
    assert_eq!((site.paid().len(), site.alive().len()), (1, 0));
    assert!(events(&server, "m").contains(&"InstanceUnexpectedTermination".to_owned()));
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!(site.paid().len(), 0);
}
