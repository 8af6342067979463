//! What a bind costs the server: no write that nobody needs, and none that is refused.

use std::collections::BTreeMap;
use std::time::Duration;

use claims::config::Config;
use serde_json::json;
use sim::metal::oracle::Forgiven;
use sim::server::{Action, Outcome, Rule, Server};

use crate::objects::{CLAIMS, HOSTS, INFRA, SECRETS, claim, condition, deployment, edit, hosts, policy, secrets};
use crate::site::Site;

const FINALIZER: &str = "metal3.io/hostclaim";

/// A claim as admission leaves it, switched off, so that nothing is to be told of it once it has its host.
fn admitted(tenant: &str, name: &str) -> serde_json::Value {
    let mut claim = claim(tenant, name);
    claim["metadata"]["finalizers"] = json!([FINALIZER]);
    claim["spec"]["poweredOn"] = json!(false);
    claim
}

/// What the room has written to claims, hosts and secrets, in order: method, object and answer.
fn written(server: &Server) -> Vec<(String, String, Outcome)> {
    let log = server.log();
    let ours = log.iter().filter(|entry| {
        entry.client == "room-0" && entry.method != "GET" && [CLAIMS, HOSTS, SECRETS].contains(&entry.resource.as_str())
    });
    let object = |path: &str| path.split_once("/namespaces/").map_or(path, |(_, object)| object).to_owned();
    ours.map(|entry| (entry.method.clone(), object(&entry.path), entry.outcome.clone())).collect()
}

/// How often the room has read a single claim, host or secret.
fn read(server: &Server) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    let log = server.log();
    let ours = log.iter().filter(|entry| entry.client == "room-0" && entry.method == "GET");
    for entry in ours.filter(|entry| entry.path.contains("/namespaces/") && !entry.query.contains("watch=true")) {
        *all.entry(entry.resource.clone()).or_default() += 1;
    }
    all
}

fn plain(written: &[(String, String, Outcome)]) -> Vec<String> {
    let taken = |outcome: &Outcome| matches!(outcome, Outcome::Answered(200 | 201));
    assert!(written.iter().all(|(_, _, outcome)| taken(outcome)), "nothing is refused: {written:#?}");
    written.iter().map(|(method, object, _)| format!("{method} {object}")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_admission_has_seen_costs_three_writes_to_bind_and_then_none() {
    let site = Site::new(|server| {
        hosts(server, &["h1"]);
        policy(server, &json!({}));
    });
    site.until("the room watches", |server| server.open_watches() > 7).await;
    site.server.put(admitted("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    site.rest().await;
    assert_eq!(
        plain(&written(&site.server)),
        ["PATCH red/hostclaims/c/status", "PATCH infra/baremetalhosts/h1", "PATCH red/hostclaims/c/status",],
        "the intent, the host, and what became of it"
    );
    assert_eq!(
        read(&site.server),
        BTreeMap::new(),
        "each write is based on what was known, and would be refused otherwise"
    );
    // And while nothing changes nothing is asked either, but what the watches ask.
    let before = site.server.log().len();
    tokio::time::sleep(Duration::from_secs(1800)).await;
    let log = site.server.log();
    let asked: Vec<String> = log
        .iter()
        .skip(before)
        .filter(|entry| entry.client == "room-0" && !entry.query.contains("watch=true"))
        .map(|entry| format!("{} {}?{}", entry.method, entry.path, entry.query))
        .collect();
    assert_eq!(asked, Vec::<String>::new());
    let claim = site.claim("red", "c");
    assert_eq!(claim["status"]["hostMetadata"]["labels"], json!({"size": "large"}), "what it chose by is told");
    assert_eq!(claim["metadata"].get("labels"), None, "and not repeated beside the selector that says the same");
}

/// What a claim with three Secrets has the room write until people are told that it has its host, and read until it rests.
async fn with_three_secrets(leased: bool) -> (Vec<String>, BTreeMap<String, usize>) {
    let site = Site::of(Forgiven::default(), Config { leased, ..Config::default() }, |server| {
        hosts(server, &["h1"]);
        policy(server, &json!({}));
        secrets(server, "red");
    });
    site.until("the room watches", |server| server.open_watches() > 7).await;
    let mut asked = deployment("red", "c");
    asked["metadata"]["finalizers"] = json!([FINALIZER]);
    site.server.put(asked).unwrap();
    site.until_condition("red", "c", "Associated", "True/BareMetalHostAssociated").await;
    let mut until_told = plain(&written(&site.server));
    let last = until_told.iter().rposition(|line| line.ends_with("/hostclaims/c/status")).unwrap();
    until_told.truncate(last + 1);
    site.until_ready("red", "c").await;
    site.rest().await;
    (until_told, read(&site.server))
}

#[tokio::test(start_paused = true)]
async fn a_claim_with_three_secrets_costs_four_writes_more_and_without_a_lease_each_copy_is_made_and_then_filled() {
    for leased in [true, false] {
        let (writes, reads) = with_three_secrets(leased).await;
        let named = |writes: &[String]| -> Vec<String> {
            let object = |line: &String| line.split("-hc-").next().unwrap_or_default().to_owned();
            writes.iter().map(object).collect()
        };
        let copies: &[&str] =
            if leased { &["POST infra/secrets"] } else { &["POST infra/secrets", "PATCH infra/secrets/h1"] };
        let mut wanted = vec!["PATCH red/hostclaims/c/status", "PATCH infra/baremetalhosts/h1"];
        wanted.extend(copies.iter().cycle().take(3 * copies.len()));
        wanted.extend(["PATCH infra/baremetalhosts/h1", "PATCH red/hostclaims/c/status"]);
        assert_eq!(named(&writes), wanted);
        // Before a copy is filled claim and host are looked at, and the claim once more before its host is told what to run.
        let wanted = [(HOSTS, 3), (CLAIMS, 4), (SECRETS, 3)].map(|(resource, count)| (resource.to_owned(), count));
        assert_eq!(reads, BTreeMap::from(wanted));
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_under_way_is_told_of_only_if_that_takes_its_time() {
    for (seconds, told) in [(5, 1), (60, 2)] {
        let site = Site::new(|server| {
            hosts(server, &["h1"]);
            policy(server, &json!({}));
            let slow = json!({"delayMs": {"provisioning": seconds * 1000}}).to_string();
            edit(server, HOSTS, INFRA, "h1", &json!({"metadata": {"annotations": {"berth.dev/sim": slow}}}));
        });
        site.server.put(admitted("red", "c")).unwrap();
        site.until_ready("red", "c").await;
        let image = json!({"url": "https://images/red", "checksum": "https://images/sums"});
        let before = written(&site.server).len();
        edit(&site.server, CLAIMS, "red", "c", &json!({"spec": {"poweredOn": true, "image": image}}));
        site.until_condition("red", "c", "Provisioned", "True/Provisioned").await;
        site.rest().await;
        let after: Vec<String> = plain(&written(&site.server)).split_off(before);
        let statuses = after.iter().filter(|line| line.ends_with("/hostclaims/c/status")).count();
        assert_eq!((statuses, after.len()), (told, told + 1), "{seconds} s: {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_claims_at_once_cost_three_writes_each_and_meet_no_conflict() {
    const COUNT: usize = 40;
    let names: Vec<String> = (0..COUNT).map(|n| format!("h{n:02}")).collect();
    let site = Site::new(|server| {
        hosts(server, &names.iter().map(String::as_str).collect::<Vec<_>>());
        policy(server, &json!({}));
    });
    site.until("the room watches", |server| server.open_watches() > 7).await;
    for n in 0..COUNT {
        site.server.put(admitted(if n % 2 == 0 { "red" } else { "blue" }, &format!("c{n:02}"))).unwrap();
    }
    site.until("every claim is ready", |server| {
        server.list(CLAIMS, "").iter().all(|claim| condition(claim, "Ready") == "True/Ready")
    })
    .await;
    site.rest().await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in plain(&written(&site.server)) {
        *counts.entry(line).or_default() += 1;
    }
    assert_eq!(counts.len(), 2 * COUNT, "{counts:#?}");
    let wrong: Vec<_> =
        counts.iter().filter(|(line, count)| **count != if line.contains("/hostclaims/") { 2 } else { 1 }).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    // What all of them hold is told on the policy, not once for each of them.
    let told =
        site.server.log().iter().filter(|e| e.method == "PATCH" && e.path.contains("/hostdeploypolicies/")).count();
    assert!((1..=5).contains(&told), "{told} writes of the policy");
    assert_eq!(site.server.list(HOSTS, INFRA).len(), COUNT);
}

#[tokio::test(start_paused = true)]
async fn what_many_policies_come_to_is_told_in_turns_and_not_at_every_bind() {
    const POLICIES: usize = 40;
    const COUNT: usize = 20;
    let names: Vec<String> = (0..COUNT).map(|n| format!("h{n:02}")).collect();
    let site = Site::new(|server| {
        hosts(server, &names.iter().map(String::as_str).collect::<Vec<_>>());
        for n in 0..POLICIES {
            server
                .put(json!({
                    "apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
                    "metadata": {"name": format!("p{n:02}"), "namespace": INFRA},
                    "spec": {"hostClaimNamespaces": {"names": ["red"]}},
                }))
                .unwrap();
        }
    });
    site.until("the room watches", |server| server.open_watches() > 7).await;
    // Every claim changes the count of every policy.
    for n in 0..COUNT {
        site.server.put(admitted("red", &format!("c{n:02}"))).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    site.rest().await;
    let policies = site.server.list("hostdeploypolicies.metal3.io", INFRA);
    assert!(policies.iter().all(|policy| policy["status"]["boundHosts"] == json!(COUNT)), "{policies:#?}");
    let told =
        site.server.log().iter().filter(|e| e.method == "PATCH" && e.path.contains("/hostdeploypolicies/")).count();
    // Once at the start, once every four seconds, and once at the end; not twenty times.
    assert!(told <= 8 * POLICIES, "{told} writes of {POLICIES} policies");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_host_until_people_have_been_told_of_it() {
    let site = Site::new(|server| {
        hosts(server, &["h1"]);
        policy(server, &json!({}));
    });
    site.until("the room watches", |server| server.open_watches() > 7).await;
    let events = Rule::any().method("POST").path_contains("/events").always();
    site.server.inject(events, Action::Delay(Duration::from_secs(10)));
    let begun = tokio::time::Instant::now();
    site.server.put(admitted("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    for (namespace, reason) in [("red", "HostSelected"), (INFRA, "HostBound"), ("red", "HostBound")] {
        site.until(&format!("{reason} is told in {namespace}"), |server| {
            server.list("events.events.k8s.io", namespace).iter().any(|event| event["reason"] == reason)
        })
        .await;
    }
}

/// What the room asks of the server while a host goes from one claim to the next, which waits for it: what it writes, what it
/// reads, and how many events it tells.
async fn handed_over(powered_on: bool) -> (Vec<String>, BTreeMap<String, usize>, usize) {
    let site = Site::new(|server| {
        hosts(server, &["h1"]);
        policy(server, &json!({}));
        // Power takes its time, so that nobody but the room writes to the host in between.
        let slow = json!({"delayMs": {"power": 2000}}).to_string();
        edit(server, HOSTS, INFRA, "h1", &json!({"metadata": {"annotations": {"berth.dev/sim": slow}}}));
    });
    site.until("the room watches", |server| server.open_watches() > 7).await;
    let asked = |tenant: &str| {
        let mut claim = admitted(tenant, "c");
        claim["spec"]["poweredOn"] = json!(powered_on);
        claim
    };
    site.server.put(asked("red")).unwrap();
    site.until_ready("red", "c").await;
    site.server.put(asked("blue")).unwrap();
    site.rest().await;
    let told = |server: &Server| {
        let log = server.log();
        log.iter().filter(|entry| entry.method != "GET" && entry.resource == "events.events.k8s.io").count()
    };
    let (writes, reads, events) = (written(&site.server).len(), read(&site.server), told(&site.server));
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_gone("red", "c").await;
    site.until_condition("blue", "c", "Associated", "True/BareMetalHostAssociated").await;
    site.rest().await;
    let made = plain(&written(&site.server)).split_off(writes);
    let mut after = read(&site.server);
    for (resource, count) in reads {
        *after.entry(resource).or_default() -= count;
    }
    after.retain(|_, count| *count > 0);
    (made, after, told(&site.server) - events)
}

#[tokio::test(start_paused = true)]
async fn a_host_that_changes_hands_costs_five_writes_and_one_look_for_secrets() {
    // Whether it has to be switched off on the way does not matter: the write that lets it go says that as well.
    for powered_on in [false, true] {
        let (mut writes, reads, events) = handed_over(powered_on).await;
        writes.sort();
        assert_eq!(
            writes,
            [
                "PATCH blue/hostclaims/c/status",
                "PATCH blue/hostclaims/c/status",
                "PATCH infra/baremetalhosts/h1",
                "PATCH infra/baremetalhosts/h1",
                "PATCH red/hostclaims/c",
            ],
            "the host is let go, and the claim with it; the next one says what it intends, has the host and tells of it"
        );
        assert_eq!(reads, BTreeMap::from([(SECRETS.to_owned(), 1)]), "no copy of a secret stays behind unseen");
        assert!(events <= 5, "{events} events");
    }
}
