//! In which account, and as whom: what is not seen there is not gone.

use aws::credentials::{Ambient, Files};
use hosts::config::Config;
use serde_json::json;
use sim::ec2::world::faults::Fault;

use crate::life::annotate;
use crate::site::*;

const OTHER: &str = "222222222222";

/// The same settings, as a user of another account.
fn abroad(site: &Site) -> Config {
    let (key, secret) = ("AKIASIMULATOR0000002", "secret-of-another-account");
    site.ec2.add_user(OTHER, key, secret);
    let vars =
        [("AWS_ACCESS_KEY_ID", key), ("AWS_SECRET_ACCESS_KEY", secret)].map(|(k, v)| (k.to_owned(), v.to_owned()));
    Config { ambient: Ok(Ambient::decide(&vars.into(), &Files::default()).unwrap()), ..site.config() }
}

fn forget_account(server: &sim::server::Server, name: &str) {
    let machine = server.get(MACHINES, NS, name).unwrap();
    let mut scope = note(&machine, "scope").unwrap();
    scope.as_object_mut().unwrap().remove("account");
    server
        .edit(MACHINES, NS, name, |o| o["metadata"]["annotations"]["hosts.berth.dev/scope"] = json!(scope.to_string()))
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn credentials_of_another_account_do_not_make_hosts_and_instances_forgotten() {
    for signed in [true, false] {
        let (server, site) = world();
        add(&server, dynamic(&site, "m"));
        add(&server, machine(&site, "plain", "m5.large", json!({})));
        let process = site.start(&server, site.config());
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m") && is_ready(s, "plain")).await);
        let scope = note(&server.get(MACHINES, NS, "m").unwrap(), "scope").unwrap();
        assert_eq!(scope["account"], site.ec2.account.as_str(), "the journal says where");
        drop(process);
        if !signed {
            // As journals of earlier versions are.
            forget_account(&server, "m");
            forget_account(&server, "plain");
        }
        for name in ["m", "plain"] {
            assert!(server.delete(MACHINES, NS, name));
        }
        let process = site.start(&server, abroad(&site));
        pass(3 * 3_600).await;
        assert!(!is_gone(&server, "m") && !is_gone(&server, "plain"), "signed {signed}");
        assert_eq!((site.paid().len(), site.alive().len()), (1, 2), "signed {signed}");
        let (_, reason, message) = condition(&server, "plain", "InstanceReady");
        assert_eq!(reason, "DeletingFailed", "{message}");
        assert!(message.contains(if signed { OTHER } else { "account" }), "{message}");
        drop(process);
        let _process = site.start(&server, site.config());
        assert!(server.wait_until(LIMIT, |s| is_gone(s, "m") && is_gone(s, "plain")).await, "signed {signed}");
        assert_eq!((site.paid().len(), site.alive().len()), (0, 0), "signed {signed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_another_account_does_not_know_is_not_asked_for_again() {
    for signed in [true, false] {
        let (server, site) = world();
        site.ec2.script(Fault::refuse("RunInstances", 400, "InsufficientCapacityOnHost").forever());
        add(&server, dynamic(&site, "m"));
        let process = site.start(&server, site.config());
        assert!(server.wait_until(LIMIT, |s| phase(s, "m") == "Allocated").await);
        let host = hosts_of(&server, "m");
        drop(process);
        if !signed {
            forget_account(&server, "m");
        }
        let process = site.start(&server, abroad(&site));
        pass(2 * 3_600).await;
        drop(process);
        assert_eq!((site.ec2.calls("AllocateHosts"), site.ec2.calls("ReleaseHosts")), (1, 0), "signed {signed}");
        assert_eq!((hosts_of(&server, "m"), site.paid().len()), (host, 1), "signed {signed}");
        assert!(phase(&server, "m") != "Released");
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_of_an_earlier_version_learns_its_account_from_what_it_shows() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    drop(process);
    forget_account(&server, "m");
    let _process = site.start(&server, site.config());
    let signed = |s: &sim::server::Server| {
        note(&s.get(MACHINES, NS, "m").unwrap(), "scope").unwrap()["account"] == site.ec2.account.as_str()
    };
    assert!(server.wait_until(LIMIT, signed).await);
}

#[tokio::test(start_paused = true)]
async fn a_host_in_an_account_that_is_closed_is_given_up_by_order_only() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    drop(process);
    assert!(server.delete(MACHINES, NS, "m"));
    let _process = site.start(&server, abroad(&site));
    pass(60).await;
    annotate(&server, "hosts.berth.dev/abandon-host", "true");
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert!(events(&server, "m").contains(&"DedicatedHostAbandoned".to_owned()));
    assert_eq!((site.paid().len(), site.alive().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn leaving_the_identity_out_is_no_way_past_who_may_use_it() {
    let (server, site) = world();
    server
        .put(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSClusterControllerIdentity",
            "metadata": {"name": "default"}, "spec": {"allowedNamespaces": {"list": ["others"]}},
        }))
        .unwrap();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "InstanceReady") == "InstanceProvisionFailed").await);
    assert!(condition(&server, "m", "InstanceReady").2.contains("does not allow the namespace team"));
    pass(600).await;
    assert_eq!(site.ec2.log().len(), 0);
}
