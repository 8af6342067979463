//! What happened while no process was there: a host that was bound and not told of, copies of secrets that somebody edited.

use std::time::Duration;

use claims::config::Config;
use serde_json::{Value, json};
use sim::server::{Action, Server};

use crate::objects::{
    CLAIMS, HOSTS, INFRA, POLICIES, SECRETS, at, claim, condition, copies, deployment, edit, held, hosts, policy,
    secrets,
};
use crate::site::Site;

/// A claim whose host was bound by the last write of a process, which never told of it.
async fn bound_in_silence() -> Site {
    let site = Site::new(|server| {
        hosts(server, &["h1", "h2"]);
        policy(server, &json!({}));
    });
    site.line().script(|request| {
        let bind = request.method == "PATCH" && request.path.contains("/baremetalhosts/");
        bind.then_some(Action::HangAfter).into_iter().collect()
    });
    site.server.put(claim("red", "c")).unwrap();
    site.until("the host is bound", |server| !held(server, "red", "c").is_empty()).await;
    site.kill_room();
    let silent = site.claim("red", "c");
    assert_eq!(silent["status"].get("bareMetalHost"), None, "the status was not written: {silent}");
    site
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_bound_and_not_told_of_is_found_again_whatever_changed_meanwhile() {
    type Change = fn(&Server, &str);
    let changes: [(&str, Change); 4] = [
        ("nothing", |_, _| {}),
        ("the policy is gone", |server, _| assert!(server.delete(POLICIES, INFRA, "open"))),
        ("the host has another label", |server, host| {
            edit(server, HOSTS, INFRA, host, &json!({"metadata": {"labels": {"size": "small"}}}));
        }),
        ("the claim wants another host", |server, _| {
            edit(server, CLAIMS, "red", "c", &json!({"spec": {"hostSelector": {"matchLabels": {"size": "other"}}}}));
        }),
    ];
    for (what, change) in changes {
        let mut site = bound_in_silence().await;
        let host = at(&site.host_of("red", "c"), "/metadata/name").to_owned();
        change(&site.server, &host);
        site.add_room(Config::default());
        site.until_ready("red", "c").await;
        let claim = site.claim("red", "c");
        assert_eq!(at(&claim, "/status/bareMetalHost/name"), host, "{what}");
        assert_eq!(at(&site.host_of("red", "c"), "/metadata/name"), host, "{what}: and no second one");
        let authorized = if what == "the policy is gone" { "False/PolicyRevoked" } else { "True/PolicyAdmits" };
        assert_eq!(condition(&claim, "Authorized"), authorized, "{what}");
        site.rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_bound_and_not_told_of_is_given_back_with_its_claim() {
    let mut site = bound_in_silence().await;
    assert!(site.server.delete(CLAIMS, "red", "c"));
    assert!(site.server.get(CLAIMS, "red", "c").is_some(), "the finalizer was there before the host was bound");
    site.add_room(Config::default());
    site.until_gone("red", "c").await;
    for name in ["h1", "h2"] {
        let host = site.server.get(HOSTS, INFRA, name).unwrap();
        assert_eq!(host["spec"]["consumerRef"], Value::Null, "{name}");
        let left: Vec<_> = host["metadata"]["annotations"].as_object().into_iter().flatten().collect();
        assert!(left.is_empty(), "{name}: {left:?}");
    }
    site.rest().await;
}

/// A claim that runs, and its copies by their names.
async fn running() -> (Site, Vec<(String, Value)>) {
    let site = Site::new(|server| {
        hosts(server, &["h1"]);
        policy(server, &json!({}));
        secrets(server, "red");
    });
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let copies: Vec<(String, Value)> = copies(&site.server)
        .into_iter()
        .map(|copy| (at(&copy, "/metadata/name").to_owned(), copy["data"].clone()))
        .collect();
    assert_eq!(copies.len(), 3);
    (site, copies)
}

/// What the second process asked of secrets beside the host, by method and name.
fn asked(server: &Server) -> Vec<(String, String)> {
    let log = server.log();
    let beside = log.iter().filter(|entry| {
        entry.client == "room-1" && entry.resource == SECRETS && entry.path.contains("/namespaces/infra/secrets/")
    });
    let name = |path: &str| path.rsplit_once('/').map_or_else(String::new, |(_, name)| name.to_owned());
    beside.map(|entry| (entry.method.clone(), name(&entry.path))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_somebody_edited_while_nobody_looked_is_made_right_again() {
    let changes = [
        ("another value", json!({"data": {"userData": "ZXZpbA=="}})),
        ("one more key", json!({"data": {"more": "ZXZpbA=="}})),
        ("the key taken away", json!({"data": {"userData": null}})),
        ("all taken away", json!({"data": null})),
    ];
    for (what, change) in changes {
        let (mut site, copies) = running().await;
        let (name, right) = copies.iter().find(|(_, data)| data.get("userData").is_some()).unwrap();
        site.kill_room();
        edit(&site.server, SECRETS, INFRA, name, &change);
        assert_ne!(site.server.get(SECRETS, INFRA, name).unwrap()["data"], *right, "{what}");
        site.add_room(Config::default());
        let healed = |server: &Server| server.get(SECRETS, INFRA, name).unwrap()["data"] == *right;
        site.until(&format!("the copy is right again after {what}"), healed).await;
        site.rest().await;
        // The others were neither read nor written.
        let others: Vec<_> = asked(&site.server).into_iter().filter(|(_, asked)| asked != name).collect();
        assert!(others.is_empty(), "{what}: {others:?}");
        // And the next process takes this one for right without a look.
        let before = site.server.log().len();
        site.add_room(Config::default());
        tokio::time::sleep(Duration::from_secs(60)).await;
        let log = site.server.log();
        let read =
            log.iter().skip(before).any(|entry| entry.resource == SECRETS && entry.path.ends_with(name.as_str()));
        assert!(!read, "{what}: it was looked at once more");
    }
}

#[tokio::test(start_paused = true)]
async fn copies_that_nobody_touched_cost_a_new_process_nothing() {
    let (mut site, copies) = running().await;
    site.kill_room();
    // Who marks a copy has not touched what it holds.
    let (name, _) = &copies[0];
    edit(&site.server, SECRETS, INFRA, name, &json!({"metadata": {"annotations": {"example.org/seen": "yes"}}}));
    site.add_room(Config::default());
    site.until("the second process watches", |server| server.open_watches() > 7).await;
    site.rest().await;
    assert_eq!(asked(&site.server), []);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_was_edited_and_put_back_is_looked_at_once_and_not_written() {
    let (mut site, copies) = running().await;
    let (name, right) = &copies[0];
    let key = right.as_object().unwrap().keys().next().unwrap().clone();
    site.kill_room();
    edit(&site.server, SECRETS, INFRA, name, &json!({"data": {&key: "ZXZpbA=="}}));
    edit(&site.server, SECRETS, INFRA, name, &json!({"data": {&key: right[&key]}}));
    site.add_room(Config::default());
    site.until("the copy was looked at", |server| !asked(server).is_empty()).await;
    site.rest().await;
    assert_eq!(asked(&site.server), [("GET".to_owned(), name.clone())]);
    assert_eq!(site.server.get(SECRETS, INFRA, name).unwrap()["data"], *right);
}
