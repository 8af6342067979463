//! How a host goes back when that is not easy: it cannot be cleaned, it runs what nobody deployed, it fails its claim, or
//! nobody is there to give it back.

use std::collections::BTreeSet;
use std::time::Duration;

use claims::config::{Config, OrphanAction};
use kit::feed::Scope;
use serde_json::{Value, json};
use sim::metal::oracle::Forgiven;
use sim::server::{Action, Rule, Server};

use crate::objects::{
    CLAIMS, HOSTS, INFRA, annotate, at, claim, condition, copies, deployment, edit, events, held, hosts, noted, policy,
    script, secrets,
};
use crate::site::Site;

const FORCE: &str = "berth.dev/force-release";
const UNHEALTHY: &str = "capm3.metal3.io/unhealthy";
const HOUR: Duration = Duration::from_secs(3600);

fn open(server: &Server) {
    hosts(server, &["h1"]);
    policy(server, &json!({}));
    secrets(server, "red");
}

fn note(server: &Server, host: &str, key: &str, value: Option<&str>) {
    edit(server, HOSTS, INFRA, host, &json!({"metadata": {"annotations": {key: value}}}));
}

fn host(server: &Server, name: &str) -> Value {
    server.get(HOSTS, INFRA, name).unwrap_or_default()
}

fn is_on(server: &Server) -> bool {
    host(server, "h1")["status"]["poweredOn"] == true
}

fn message(claim: &Value, kind: &str) -> String {
    let all = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().find(|c| c["type"] == kind).map_or_else(String::new, |c| at(c, "/message").to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_host_that_cannot_be_cleaned_is_kept_until_its_owner_lets_it_go_as_it_is() {
    let site = Site::new(|server| {
        open(server);
        script(server, "h1", &json!({"fail": [{"state": "deprovisioning", "times": 1000}], "retryMs": 60_000}));
    });
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_condition("red", "c", "Associated", "False/HostClaimDeletionFailed").await;
    let told = message(&site.claim("red", "c"), "Associated");
    assert!(told.contains("provisioning error") && !told.contains("192.0.2."), "{told}");
    site.server.put(claim("blue", "c")).unwrap();
    site.until_condition("blue", "c", "Associated", "False/NoBareMetalHost").await;
    // It does not go by itself, and whoever waits gets nothing.
    tokio::time::sleep(HOUR).await;
    site.yonder.judge(&site.server).unwrap();
    assert_eq!((held(&site.server, "red", "c").len(), copies(&site.server).len()), (1, 3));
    assert_eq!(condition(&site.claim("red", "c"), "Associated"), "False/HostClaimDeletionFailed");

    note(&site.server, "h1", FORCE, Some(""));
    site.until_gone("red", "c").await;
    let left = host(&site.server, "h1");
    assert_eq!((left["spec"].get("consumerRef"), left["spec"].get("image")), (None, None));
    assert_eq!(noted(&site.server, "h1", UNHEALTHY).as_deref(), Some("force-released"));
    for gone in [FORCE, "berth.dev/infra-defaults"] {
        assert_eq!(noted(&site.server, "h1", gone), None, "{gone}");
    }
    assert!(copies(&site.server).is_empty());
    assert_eq!(
        (events(&site.server, "red", "Released").len(), events(&site.server, INFRA, "HostReleased").len()),
        (1, 1)
    );
    assert!(site.yonder.machines.disk(INFRA, "h1").unwrap().contains("user of red"), "nobody cleaned it");
    // Set aside: not for who waits now, nor when its controller has cleaned it after all.
    tokio::time::sleep(HOUR).await;
    script(&site.server, "h1", &Value::Null);
    site.until("it is clean", |server| at(&host(server, "h1"), "/status/provisioning/state") == "available").await;
    tokio::time::sleep(HOUR).await;
    assert!(held(&site.server, "blue", "c").is_empty());
    let why = site.claim("blue", "c")["status"]["unbound"]["reasons"].clone();
    assert_eq!(why, json!([{"reason": "Unhealthy", "count": 1}]));
    note(&site.server, "h1", UNHEALTHY, None);
    site.until_ready("blue", "c").await;
    assert_eq!(site.yonder.machines.disk(INFRA, "h1"), None);
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn the_order_to_let_a_host_go_means_nothing_before_its_claim_is_deleted() {
    let site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    note(&site.server, "h1", FORCE, Some(""));
    site.rest().await;
    assert_eq!((held(&site.server, "red", "c").len(), noted(&site.server, "h1", UNHEALTHY)), (1, None));
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_gone("red", "c").await;
    assert_eq!(noted(&site.server, "h1", UNHEALTHY).as_deref(), Some("force-released"));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_runs_what_nobody_deployed_goes_back_once_it_is_off() {
    let site = Site::new(open);
    site.server.put(claim("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    site.until("it is on", is_on).await;
    script(&site.server, "h1", &json!({"delayMs": {"power": 30_000}}));
    edit(&site.server, HOSTS, INFRA, "h1", &json!({"spec": {"externallyProvisioned": true}}));
    let outside = |server: &Server| at(&host(server, "h1"), "/status/provisioning/state") == "externally provisioned";
    site.until("somebody else deploys it", outside).await;
    assert!(site.server.delete(CLAIMS, "red", "c"));
    let waits = |server: &Server| {
        let claim = server.get(CLAIMS, "red", "c").unwrap_or_default();
        message(&claim, "Associated") == "The host is given back once it is powered off."
    };
    site.until("it is told what is waited for", waits).await;
    assert_eq!(condition(&site.claim("red", "c"), "Associated"), "False/HostClaimDeleting");
    assert!(is_on(&site.server) && held(&site.server, "red", "c").len() == 1);
    site.until_gone("red", "c").await;
    let left = host(&site.server, "h1");
    assert_eq!((left["spec"].get("consumerRef"), &left["status"]["poweredOn"]), (None, &json!(false)));
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_cannot_be_registered_for_ten_minutes_is_given_up_for_another_one() {
    let site = Site::new(|server| {
        open(server);
        let fails = json!({"state": "power", "error": "registration error", "times": 1000});
        script(server, "h1", &json!({"fail": [fails], "retryMs": 30_000}));
    });
    let mut patient = claim("red", "c");
    patient["spec"]["onHostFailure"] = json!("Replace");
    site.server.put(patient).unwrap();
    site.until_condition("red", "c", "Ready", "False/HostError").await;
    let begun = tokio::time::Instant::now();
    hosts(&site.server, &["h2"]);
    let has = |name: &'static str| {
        move |server: &Server| held(server, "red", "c").iter().any(|host| at(host, "/metadata/name") == name)
    };
    tokio::time::sleep(Duration::from_secs(590) - begun.elapsed()).await;
    assert!(has("h1")(&site.server), "it may still come");
    site.until("the other host is taken", has("h2")).await;
    assert!(begun.elapsed() < Duration::from_secs(630), "{:?}", begun.elapsed());
    site.until_ready("red", "c").await;
    assert_eq!(site.claim("red", "c")["status"]["replacements"], 1);
    let notes = host(&site.server, "h1")["metadata"]["annotations"].clone();
    assert!(notes.as_object().unwrap().keys().any(|key| key.starts_with("berth.dev/avoid-")), "{notes}");
    site.rest().await;
}

/// A host of red whose claim is gone without a word, and a room that gives such hosts back.
async fn orphaned(config: Config, before: impl FnOnce(&Server)) -> Site {
    let torn = BTreeSet::from([("red".to_owned(), "c".to_owned())]);
    let site = Site::of(Forgiven { claims: torn, ..Forgiven::default() }, config, open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    before(&site.server);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let _ = site.server.edit(CLAIMS, "red", "c", |claim| claim["metadata"]["finalizers"] = json!([]));
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site
}

fn releases() -> Config {
    Config { orphan_action: OrphanAction::Release, ..Config::default() }
}

#[tokio::test(start_paused = true)]
async fn an_orphan_is_cleaned_and_given_back_where_that_was_chosen() {
    let site = orphaned(releases(), |_| {}).await;
    site.until_event(INFRA, "OrphanedHost").await;
    site.until("it is free", |server| host(server, "h1")["spec"].get("consumerRef").is_none()).await;
    assert_eq!(site.yonder.machines.disk(INFRA, "h1"), None);
    assert!(copies(&site.server).is_empty());
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_cannot_be_cleaned_goes_back_as_it_is_when_its_owner_says_so() {
    let fails = json!({"fail": [{"state": "deprovisioning", "times": 1000}], "retryMs": 60_000});
    let site = orphaned(releases(), |server| script(server, "h1", &fails)).await;
    site.until_event(INFRA, "OrphanedHost").await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(at(&host(&site.server, "h1"), "/spec/consumerRef/name"), "c", "it is not clean, so it is kept");
    note(&site.server, "h1", FORCE, Some(""));
    site.until("it is let go", |server| host(server, "h1")["spec"].get("consumerRef").is_none()).await;
    assert_eq!(noted(&site.server, "h1", UNHEALTHY).as_deref(), Some("force-released"));
    assert_eq!(noted(&site.server, "h1", FORCE), None);
    assert!(copies(&site.server).is_empty());
    site.yonder.judge(&site.server).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_orphan_is_left_alone_while_others_hold_it_or_nobody_may_judge() {
    const PAUSED: &str = "baremetalhost.metal3.io/paused";
    const DETACHED: &str = "baremetalhost.metal3.io/detached";
    type Prepare = fn(&Server);
    let never = || Config { orphan_grace: Duration::ZERO, ..releases() };
    let rows: [(&str, Config, Prepare, bool); 5] = [
        ("its owner paused it", releases(), |server| note(server, "h1", PAUSED, Some("maintenance")), true),
        ("its owner detached it", releases(), |server| note(server, "h1", DETACHED, Some("")), true),
        ("orphans are only told of", Config::default(), |_| {}, true),
        ("nobody looks for orphans", never(), |_| {}, false),
        (
            "the server does not say that the claim is gone",
            releases(),
            |server| {
                let reads = Rule::any().method("GET").client("room-0").path_contains("/hostclaims/c").always();
                server.inject(reads, Action::Status(403));
            },
            false,
        ),
    ];
    for (what, config, prepare, told) in rows {
        let site = orphaned(config, prepare).await;
        let before = site.server.effects();
        tokio::time::sleep(HOUR).await;
        let log = site.server.log();
        let since = log.iter().filter(|entry| entry.effect.is_some_and(|effect| effect > before));
        let written: Vec<String> = since
            .filter(|entry| entry.client == "room-0" && entry.resource == HOSTS)
            .map(|entry| format!("{} {}", entry.method, entry.path))
            .collect();
        assert!(written.is_empty(), "{what}: {written:?}");
        assert_eq!(!events(&site.server, INFRA, "OrphanedHost").is_empty(), told, "{what}");
        let kept = host(&site.server, "h1");
        assert_eq!(at(&kept, "/spec/consumerRef/name"), "c", "{what}");
        assert_eq!(copies(&site.server).len(), 3, "{what}: it may still read them");
        site.yonder.judge(&site.server).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_namespace_that_is_not_followed_is_not_missed() {
    let mut site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    site.kill_room();
    let before = site.server.get(HOSTS, INFRA, "h1").unwrap();
    site.add_room_within(releases(), Scope::Namespaces(vec![INFRA.to_owned()]));
    site.until("the other process is there", |server| server.log().iter().any(|entry| entry.client == "room-1")).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(site.server.get(HOSTS, INFRA, "h1").unwrap(), before);
    assert!(events(&site.server, INFRA, "OrphanedHost").is_empty());
    site.yonder.judge(&site.server).unwrap();
}

/// A host that a claim of a reuse group gave back, as a claim of a cluster or not.
async fn reserved(cluster: bool) -> Site {
    let site = Site::new(|server| {
        open(server);
        server
            .put(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                "metadata": {"namespace": "red", "name": "village"}, "spec": {}}))
            .unwrap();
    });
    let mut first = claim("red", "one");
    first["spec"]["nodeReuse"] = json!("workers");
    if cluster {
        first["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": "village"});
    }
    site.server.put(first).unwrap();
    site.until_ready("red", "one").await;
    assert!(site.server.delete(CLAIMS, "red", "one"));
    site.until_gone("red", "one").await;
    let kept = host(&site.server, "h1");
    assert_eq!(at(&kept, "/spec/consumerRef/kind"), if cluster { "Cluster" } else { "Namespace" });
    assert!(kept["metadata"]["labels"].get("infrastructure.cluster.x-k8s.io/node-reuse").is_some());
    site.server.put(claim("blue", "c")).unwrap();
    site.until_condition("blue", "c", "Associated", "False/NoBareMetalHost").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(held(&site.server, "blue", "c").is_empty(), "it is kept");
    site
}

#[tokio::test(start_paused = true)]
async fn a_host_that_a_tenant_calls_broken_is_kept_from_all_only_where_its_word_is_trusted() {
    for trusted in [true, false] {
        let site = Site::new(|server| {
            hosts(server, &["h1"]);
            policy(server, &json!({"trustsTenantHealth": trusted}));
        });
        site.server.put(claim("red", "c")).unwrap();
        site.until_ready("red", "c").await;
        annotate(&site.server, "red", "c", UNHEALTHY, Some("fans"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(site.server.delete(CLAIMS, "red", "c"));
        site.until_gone("red", "c").await;
        let marked = noted(&site.server, "h1", UNHEALTHY);
        assert_eq!(marked.as_deref(), trusted.then_some("reported-by-tenant"), "never in the tenant's own words");
        site.server.put(claim("blue", "c")).unwrap();
        if trusted {
            site.until_condition("blue", "c", "Associated", "False/NoBareMetalHost").await;
            tokio::time::sleep(2 * 24 * HOUR).await;
            assert!(held(&site.server, "blue", "c").is_empty(), "until its owner takes the mark off");
            note(&site.server, "h1", UNHEALTHY, None);
        }
        site.until_ready("blue", "c").await;
        site.rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reservation_ends_with_the_cluster_or_the_namespace_that_keeps_it() {
    let ends = [("clusters.cluster.x-k8s.io", "red", "village"), ("namespaces", "", "red")];
    for (resource, namespace, name) in ends {
        let site = reserved(namespace == "red").await;
        let begun = tokio::time::Instant::now();
        assert!(site.server.delete(resource, namespace, name));
        site.until_ready("blue", "c").await;
        assert!(begun.elapsed() < Duration::from_secs(60), "{resource}: its own time is over in hours");
        let left = host(&site.server, "h1");
        assert!(left["metadata"]["labels"].get("infrastructure.cluster.x-k8s.io/node-reuse").is_none(), "{left}");
        assert_eq!(noted(&site.server, "h1", "berth.dev/reuse-until"), None);
        site.rest().await;
    }
}

/// A copy that a process sends and that arrives when another one, which leads by now, has given the host back; what it held
/// then, and for how long.
async fn late_copy(leased: bool) -> (Site, Value) {
    let config = || Config { leased, ..Config::default() };
    let mut site = Site::of(Forgiven::default(), config(), |server| {
        hosts(server, &["h1"]);
        policy(server, &json!({}));
        secrets(server, "red");
    });
    let late = Duration::from_secs(40);
    let made = Rule::any().method("POST").path_contains("/namespaces/infra/secrets").client("room-0").always();
    let fault = site.server.inject(made, Action::Delay(late));
    site.server.put(deployment("red", "c")).unwrap();
    site.until("the first process makes a copy", |server| server.hits(fault) > 0).await;
    if leased {
        // It has lost its lease and is gone; what it sent is not.
        site.kill_room();
    }
    site.add_room(config());
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_gone("red", "c").await;
    assert!(copies(&site.server).is_empty(), "it is still on its way");
    // The oracle would take what a lease is trusted with for a breach.
    let came = |server: &Server| {
        let changes = server.changes(0);
        let copy = |object: &Value| object["kind"] == "Secret" && at(object, "/metadata/name").starts_with("h1-hc-");
        changes.iter().map(|(_, _, _, object)| object).find(|object| copy(object)).map(|copy| copy["data"].clone())
    };
    let swept = |server: &Server| came(server).is_some() && copies(server).is_empty();
    let begun = tokio::time::Instant::now();
    assert!(site.server.wait_until(2 * late, swept).await, "it has come, and is gone again");
    assert!(begun.elapsed() < late + Duration::from_secs(5), "{:?}", begun.elapsed());
    let held = came(&site.server).unwrap();
    (site, held)
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_arrives_when_its_host_has_gone_back_holds_nothing_and_does_not_stay() {
    let (site, held) = late_copy(false).await;
    assert_eq!(held, Value::Null);
    site.rest().await;
}

/// With a lease a copy is one write, and this is what that costs: the one that a deposed leader had sent holds what it was
/// to hold until it is swept.
#[tokio::test(start_paused = true)]
async fn a_copy_of_a_deposed_leader_that_arrives_late_is_swept_as_soon_as_it_is_seen() {
    let (site, held) = late_copy(true).await;
    assert!(held.is_object(), "{held}");
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(copies(&site.server).is_empty());
    assert_eq!(host(&site.server, "h1")["spec"]["consumerRef"], Value::Null);
}
