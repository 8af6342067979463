//! Hosts that somebody else uses, takes or releases, and the spares that stand in for them.

use std::time::Duration;

use serde_json::json;
use sim::ec2::world::host::HostState;
use sim::ec2::world::instance::InstanceState;
use sim::server::Server;

use crate::others::{instance, instance_of};
use crate::site::*;

/// A machine with so many hosts, none of which is ready before a minute has passed.
fn waiting(site: &Site, server: &Server, quantity: u32) {
    site.ec2.settings(|settings| settings.delays.allocate = Duration::from_secs(60));
    add(server, machine(site, "m", "m5.large", json!({"dynamicHostAllocation": {"quantity": quantity}})));
}

#[tokio::test(start_paused = true)]
async fn a_spare_host_stands_in_for_one_that_is_taken_or_fails_before_the_launch() {
    for taken in [true, false] {
        let (server, site) = world();
        waiting(&site, &server, 2);
        let process = site.start(&server, site.config());
        assert!(server.wait_until(LIMIT, |s| phase(s, "m") == "Allocated").await);
        drop(process);
        pass(120).await;
        let hosts = hosts_of(&server, "m");
        let guest = if taken {
            Some(instance(&site, &server, Some(&hosts[0]), &json!({})).await)
        } else {
            assert!(site.ec2.set_host_state(REGION, &hosts[0], HostState::PermanentFailure));
            None
        };
        let _process = site.start(&server, site.config());
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
        let machine = server.get(MACHINES, NS, "m").unwrap();
        assert_eq!(machine["status"]["dedicatedHost"]["id"], hosts[1].as_str(), "taken {taken}: {machine}");
        assert_eq!(site.ec2.calls("AllocateHosts"), 1, "taken {taken}: what is paid for is used first");
        if let Some(guest) = guest {
            assert!(site.ec2.set_instance_state(REGION, &guest, InstanceState::Terminated));
        }
        assert!(server.delete(MACHINES, NS, "m"));
        assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
        assert_eq!((site.paid().len(), site.alive().len()), (0, 0), "taken {taken}");
    }
}

/// A machine whose hosts take one instance each, and which sees EC2 as it was a minute ago: meanwhile somebody else has
/// launched on the first of them. Answers the hosts and the guest.
async fn outrun(site: &Site, server: &Server, quantity: u32) -> (Vec<String>, String) {
    site.ec2.settings(|settings| settings.delays.allocate = Duration::from_secs(60));
    add(server, machine(site, "m", "m5.metal", json!({"dynamicHostAllocation": {"quantity": quantity}})));
    let process = site.start(server, site.config());
    assert!(server.wait_until(LIMIT, |s| phase(s, "m") == "Allocated").await, "{:?}", server.get(MACHINES, NS, "m"));
    drop(process);
    pass(300).await;
    let hosts = hosts_of(server, "m");
    let guest = instance_of(site, server, "m5.metal", Some(&hosts[0]), &json!({})).await;
    site.ec2.settings(|settings| settings.lag = Duration::from_secs(60));
    (hosts, guest)
}

fn refused(site: &Site) -> usize {
    site.ec2.log().iter().filter(|entry| entry.code == "InsufficientCapacityOnHost").count()
}

#[tokio::test(start_paused = true)]
async fn a_host_on_which_somebody_else_was_faster_is_told_of_and_kept_for_its_machine() {
    let (server, site) = world();
    let (hosts, guest) = outrun(&site, &server, 1).await;
    let _process = site.start(&server, site.config());
    let told = |s: &Server| {
        let (_, reason, message) = condition(s, "m", "DedicatedHostReady");
        reason == "HostMismatch" && message.contains(&hosts[0]) && message.contains(&guest)
    };
    assert!(server.wait_until(LIMIT, told).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert!(refused(&site) >= 1, "it was tried");
    let tried = refused(&site);
    // Longer than a host may stand empty: this one does not.
    pass(2 * 3_600).await;
    assert!(told(&server), "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!(reason(&server, "m", "InstanceReady"), "InstanceProvisionFailed");
    assert_eq!(reason(&server, "m", "Ready"), "InstanceProvisionFailed");
    assert!(events(&server, "m").contains(&"DedicatedHostFailed".to_owned()), "{:?}", events(&server, "m"));
    assert_eq!((refused(&site), site.ec2.calls("ReleaseHosts")), (tried, 0), "nothing more is tried in vain");
    assert_eq!((site.ec2.calls("AllocateHosts"), site.alive()), (1, vec![guest.clone()]), "nor paid for twice");
    site.check(&[&server]).unwrap();
    assert!(site.ec2.set_instance_state(REGION, &guest, InstanceState::Terminated));
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!((site.paid().len(), site.alive().len()), (1, 1));
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_outrun_on_one_host_is_launched_on_its_next_one() {
    let (server, site) = world();
    let (hosts, guest) = outrun(&site, &server, 2).await;
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert!(refused(&site) >= 1, "it was tried on the first");
    let machine = server.get(MACHINES, NS, "m").unwrap();
    assert_eq!(machine["status"]["dedicatedHost"]["id"], hosts[1].as_str(), "{machine}");
    assert_eq!((site.ec2.calls("AllocateHosts"), site.alive().len()), (1, 2));
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostRelease") == "HostOccupied").await);
    assert!(server.wait_until(LIMIT, |_| site.alive() == [guest.clone()]).await, "it is not ours to end");
    assert!(site.ec2.set_instance_state(REGION, &guest, InstanceState::Terminated));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_gone_behind_our_back_is_told_as_lost_and_not_replaced() {
    // Released by somebody together with its instance, released under it, or not known to EC2 any more.
    for (ended, known) in [(true, true), (false, true), (false, false)] {
        let (server, site) = world();
        add(&server, dynamic(&site, "m"));
        let _process = site.start(&server, site.config());
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
        pass(900).await;
        let host = hosts_of(&server, "m")[0].clone();
        if ended {
            assert!(site.ec2.set_instance_state(REGION, &site.alive()[0], InstanceState::Terminated));
        }
        if known {
            assert!(site.ec2.set_host_state(REGION, &host, HostState::Released));
        } else {
            site.ec2.with(|world, now| drop(world.place("123456789012", REGION, now).unwrap().hosts.remove(&host)));
        }
        let lost = |s: &Server| reason(s, "m", "DedicatedHostReady") == "HostLost";
        assert!(server.wait_until(LIMIT, lost).await, "{ended} {known}: {:?}", server.get(MACHINES, NS, "m"));
        assert!(condition(&server, "m", "DedicatedHostReady").2.contains(&host));
        assert!(events(&server, "m").contains(&"DedicatedHostFailed".to_owned()), "{:?}", events(&server, "m"));
        let about_instance = if ended { "InstanceTerminated" } else { "InstanceRunning" };
        assert_eq!(reason(&server, "m", "InstanceReady"), about_instance, "{ended} {known}");
        pass(3_600).await;
        assert_eq!((site.ec2.calls("AllocateHosts"), site.ec2.calls("RunInstances")), (1, 2), "{ended} {known}");
        assert!(server.delete(MACHINES, NS, "m"));
        assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
        assert_eq!((site.paid().len(), site.alive().len()), (0, 0), "{ended} {known}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_instance_whose_host_is_gone_is_said_not_to_start_again() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    let (host, instance) = (hosts_of(&server, "m")[0].clone(), site.alive()[0].clone());
    assert!(site.ec2.set_instance_state(REGION, &instance, InstanceState::Stopped));
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "InstanceReady") == "InstanceStopped").await);
    assert!(!condition(&server, "m", "InstanceReady").2.contains("cannot be started"), "its host is there");
    assert!(!is_ready(&server, "m"));
    let machine = server.get(MACHINES, NS, "m").unwrap();
    assert_eq!(machine["status"]["initialization"]["provisioned"], true);
    assert!(site.ec2.set_host_state(REGION, &host, HostState::Released));
    let told = |s: &Server| condition(s, "m", "InstanceReady").2.contains("cannot be started again");
    assert!(server.wait_until(LIMIT, told).await, "{:?}", server.get(MACHINES, NS, "m"));
}
