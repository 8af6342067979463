//! What happens rarely: a leader whose last write comes late, hands that reach into what is Berth's, a server that
//! refuses, disks that were never cleaned.

use std::time::Duration;

use claims::config::Config;
use serde_json::{Value, json};
use sim::metal::oracle::Forgiven;
use sim::server::{Action, Entry, EventAction, Rule, Server};

use crate::objects::{
    CLAIMS, HOSTS, INFRA, SECRETS, annotate, at, claim, condition, copies, deployment, edit, events, hosts, policy,
    secrets,
};
use crate::site::Site;

const PAUSED: &str = "cluster.x-k8s.io/paused";

fn open(server: &Server) {
    hosts(server, &["h1"]);
    policy(server, &json!({}));
    secrets(server, "red");
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_arrives_after_its_claim_is_gone_binds_nothing() {
    let mut site = Site::new(open);
    // The first leader's bind is on its way when it loses the lease.
    let bind = Rule::any().method("PATCH").path_contains("/baremetalhosts/h1").client("room-0");
    let late = site.server.inject(bind, Action::Delay(Duration::from_secs(8)));
    site.server.put(claim("red", "c")).unwrap();
    site.until("the intent is stored", |server| {
        server.get(CLAIMS, "red", "c").unwrap()["status"].get("selectedHost").is_some()
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(site.server.hits(late), 1, "the bind is on its way");
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.add_room(Config::default());
    let begun = tokio::time::Instant::now();
    site.until_gone("red", "c").await;
    assert!(begun.elapsed() < Duration::from_secs(6), "the bind came first");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let host = site.server.get(HOSTS, INFRA, "h1").unwrap();
    assert_eq!(host["spec"]["consumerRef"], Value::Null);
    assert!(host["metadata"]["annotations"].as_object().is_none_or(serde_json::Map::is_empty), "{host}");
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_is_turned_away_is_not_tried_again_for_a_claim_that_is_gone() {
    let mut site = Site::new(open);
    site.until("the room watches", |server| server.open_watches() > 7).await;
    let bind = Rule::any().method("PATCH").path_contains("/baremetalhosts/h1").client("room-0");
    let late = site.server.inject(bind, Action::Delay(Duration::from_secs(8)));
    site.server.put(claim("red", "c")).unwrap();
    site.until("the bind is on its way", |server| server.hits(late) == 1).await;
    // The one who was the leader hears of nothing from now on, and has the word of its index that the claim is there.
    site.line().script_events(|_, resource, _| EventAction { drop: resource == CLAIMS, ..EventAction::default() });
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.add_room(Config::default());
    site.until_gone("red", "c").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(site.server.get(HOSTS, INFRA, "h1").unwrap()["spec"]["consumerRef"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_running_host_is_not_cleared_by_one_that_has_an_old_choice_in_mind() {
    let mut site = Site::new(|server| {
        open(server);
        hosts(server, &["h2"]);
        edit(server, HOSTS, INFRA, "h2", &json!({"metadata": {"labels": {"size": "small"}}}));
    });
    site.until("the room watches", |server| server.open_watches() > 7).await;
    let bind = Rule::any().method("PATCH").path_contains("/baremetalhosts/h1").client("room-0");
    let late = site.server.inject(bind, Action::Delay(Duration::from_secs(25)));
    site.server.put(deployment("red", "c")).unwrap();
    site.until("the bind is on its way", |server| server.hits(late) == 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // From now on the one who was the leader goes by what the claim said then.
    site.line().script_events(|_, resource, _| EventAction { drop: resource == CLAIMS, ..EventAction::default() });
    edit(&site.server, CLAIMS, "red", "c", &json!({"spec": {"hostSelector": {"matchLabels": {"size": "small"}}}}));
    site.add_room(Config::default());
    site.until_ready("red", "c").await;
    let host = site.host_of("red", "c");
    assert_eq!((at(&host, "/metadata/name"), at(&host, "/status/provisioning/state")), ("h2", "provisioned"));
    let before = site.server.log().len();
    // Both name the claim now, and for the old leader the one that runs is one too many.
    site.until("the late bind has come", |server| {
        let log = server.log();
        let binds = |entry: &Entry| entry.client == "room-0" && entry.method == "PATCH" && entry.resource == HOSTS;
        log.iter().skip(before).any(binds) && server.get(HOSTS, INFRA, "h1").unwrap()["spec"]["consumerRef"].is_null()
    })
    .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let host = site.host_of("red", "c");
    assert_eq!((at(&host, "/metadata/name"), at(&host, "/status/provisioning/state")), ("h2", "provisioned"));
    assert_eq!(site.power_offs(&host), 0);
    assert_eq!(events(&site.server, "red", "DuplicateBindingHealed").len(), 1, "it did come, and went back");
    site.kill_room();
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_another_type_is_not_taken_away_by_one_that_has_an_old_wish_in_mind() {
    const PULL: &str = "kubernetes.io/dockerconfigjson";
    let mut site = Site::new(|server| {
        open(server);
        let secret = |name: &str, type_: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "red"}, "type": type_,
                "stringData": {".dockerconfigjson": "{}"}})
        };
        server.put(secret("old", "Opaque")).unwrap();
        server.put(secret("new", PULL)).unwrap();
    });
    let mut asked = deployment("red", "c");
    asked["spec"]["image"] = json!({"url": "oci://images/red", "ociAuthSecretName": "old"});
    site.server.put(asked).unwrap();
    site.until_ready("red", "c").await;
    let pull = |server: &Server| {
        let all = copies(server).into_iter();
        all.filter(|copy| at(copy, "/metadata/name").ends_with("-pull"))
            .map(|copy| at(&copy, "/type").to_owned())
            .next()
    };
    assert_eq!(pull(&site.server).as_deref(), Some("Opaque"));
    // The one who was the leader hears nothing more of claims, but sees every Secret.
    site.line().script_events(|_, resource, _| EventAction { drop: resource == CLAIMS, ..EventAction::default() });
    let before = site.server.log().len();
    site.add_room(Config::default());
    edit(&site.server, CLAIMS, "red", "c", &json!({"spec": {"image": {"ociAuthSecretName": "new"}}}));
    site.until("the copy is made anew", |server| pull(server).as_deref() == Some(PULL)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(pull(&site.server).as_deref(), Some(PULL));
    let log = site.server.log();
    let taken = log.iter().skip(before).filter(|entry| entry.method == "DELETE" && entry.resource == SECRETS);
    let by: Vec<&str> = taken.map(|entry| &*entry.client).collect();
    assert_eq!(by, ["room-1"], "once, by the one who knows what is wanted");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_somebody_edits_is_made_right_again() {
    let site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let copy = copies(&site.server).into_iter().find(|copy| copy["data"].get("userData").is_some()).unwrap();
    let (name, right) = (at(&copy, "/metadata/name").to_owned(), copy["data"].clone());
    let wrong = json!({"data": {"userData": "ZXZpbA==", "more": "ZXZpbA=="}});
    edit(&site.server, SECRETS, INFRA, &name, &wrong);
    site.until("the copy is as it was", |server| server.get(SECRETS, INFRA, &name).unwrap()["data"] == right).await;
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn copies_go_when_their_host_is_taken_from_a_claim_that_is_torn_off() {
    let torn = [("red".to_owned(), "c".to_owned())].into();
    let by_hand = [(INFRA.to_owned(), "h1".to_owned())].into();
    let site = Site::forgiving(Forgiven { claims: torn, hosts: by_hand, ..Forgiven::default() }, open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    assert_eq!(copies(&site.server).len(), 3);
    assert!(site.server.delete(CLAIMS, "red", "c"));
    let _ = site.server.edit(CLAIMS, "red", "c", |claim| claim["metadata"]["finalizers"] = json!([]));
    // Orphans are only told of, and the host still reads its copies.
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert!(site.server.get(CLAIMS, "red", "c").is_none());
    assert_eq!(copies(&site.server).len(), 3);
    let cleared = json!({"spec": {"consumerRef": null, "image": null, "userData": null, "metaData": null,
        "networkData": null}});
    edit(&site.server, HOSTS, INFRA, "h1", &cleared);
    site.until("no copy is left", |server| copies(server).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_cannot_be_carried_to_the_host_is_told() {
    let site = Site::new(|server| {
        hosts(server, &["h1"]);
        policy(server, &json!({"allowsPause": true}));
    });
    site.server.put(claim("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let refuse = || {
        let writes = Rule::any().method("PATCH").path_contains("/baremetalhosts/").client("room-0").always();
        site.server.inject(writes, Action::Status(403))
    };
    let fault = refuse();
    annotate(&site.server, "red", "c", PAUSED, Some(""));
    site.until_condition("red", "c", "Associated", "False/PauseAnnotationSetFailed").await;
    site.server.stop_fault(fault);
    site.until_condition("red", "c", "Associated", "True/BareMetalHostAssociated").await;
    let paused = |server: &Server| {
        let host = server.get(HOSTS, INFRA, "h1").unwrap();
        at(&host, "/metadata/annotations/baremetalhost.metal3.io~1paused") == "metal3.io/hostclaim"
    };
    assert!(paused(&site.server));
    let fault = refuse();
    annotate(&site.server, "red", "c", PAUSED, None);
    site.until_condition("red", "c", "Associated", "False/PauseAnnotationRemoveFailed").await;
    site.server.stop_fault(fault);
    site.until_ready("red", "c").await;
    assert!(!paused(&site.server));
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_within_half_a_minute_and_what_is_forbidden_each_minute() {
    for (status, least, most) in [(403, 8, 12), (500, 20, 60)] {
        let site = Site::new(open);
        let made = Rule::any().method("POST").path_contains("/namespaces/infra/secrets").client("room-0").always();
        let fault = site.server.inject(made, Action::Status(status));
        site.server.put(deployment("red", "c")).unwrap();
        site.until("a copy is tried", |server| server.hits(fault) > 0).await;
        // The first tries come close together.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = site.server.hits(fault);
        tokio::time::sleep(Duration::from_secs(600)).await;
        let tries = site.server.hits(fault) - before;
        assert!((least..=most).contains(&tries), "{status}: {tries} tries in ten minutes");
        site.server.stop_fault(fault);
        let begun = tokio::time::Instant::now();
        site.until_ready("red", "c").await;
        assert!(begun.elapsed() < Duration::from_secs(70), "{status}: {:?}", begun.elapsed());
        site.rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn people_are_told_of_the_choice_the_conflict_and_the_copies() {
    let site = Site::new(|server| {
        open(server);
        let slow = json!({"delayMs": {"provisioning": 2000}}).to_string();
        edit(server, HOSTS, INFRA, "h1", &json!({"metadata": {"annotations": {"berth.dev/sim": slow}}}));
    });
    site.until("the room knows the host", |server| server.open_watches() > 7).await;
    // The room does not hear that somebody else has taken the host.
    site.line().script_events(|_, resource, _| EventAction { drop: resource == HOSTS, ..EventAction::default() });
    let other = json!({"apiVersion": "v1", "kind": "Machine", "namespace": "elsewhere", "name": "m"});
    edit(&site.server, HOSTS, INFRA, "h1", &json!({"spec": {"consumerRef": other}}));
    site.server.put(deployment("red", "c")).unwrap();
    site.until("the conflict is told", |server| !events(server, "red", "BindConflict").is_empty()).await;
    assert_ne!(site.series("berth_claims_bind_conflicts_total"), ["0"], "and counted");
    assert_eq!(site.server.get(HOSTS, INFRA, "h1").unwrap()["spec"]["consumerRef"]["kind"], "Machine");
    let claim = site.claim("red", "c");
    assert_ne!(condition(&claim, "Associated"), "False/BareMetalHostNotSynchronized", "a conflict flips nothing");
    site.line().script_events(|_, _, _| EventAction::default());
    edit(&site.server, HOSTS, INFRA, "h1", &json!({"spec": {"consumerRef": null}}));
    site.until_ready("red", "c").await;
    for reason in ["HostSelected", "HostBound", "SecretCopied", "ProvisioningStarted", "Provisioned"] {
        assert!(!events(&site.server, "red", reason).is_empty(), "{reason}");
    }
    let text = json!(site.server.list("events.events.k8s.io", "red")).to_string();
    assert!(!text.contains("elsewhere"), "{text}");
    site.rest().await;
}

fn uncleaned(server: &Server) {
    hosts(server, &["h1"]);
    policy(server, &json!({"allowsCleaningOverride": true}));
    secrets(server, "red");
}

#[tokio::test(start_paused = true)]
async fn disks_that_a_claim_left_uncleaned_are_cleaned_before_the_host_goes_back() {
    let site = Site::new(uncleaned);
    let mut sly = deployment("red", "c");
    sly["spec"]["automatedCleaningMode"] = json!("disabled");
    site.server.put(sly).unwrap();
    site.until_ready("red", "c").await;
    // Without an image the host is free of it by name only.
    edit(&site.server, CLAIMS, "red", "c", &json!({"spec": {"image": null}}));
    site.until("the host is available", |server| {
        at(&server.get(CLAIMS, "red", "c").unwrap(), "/status/provisioningState") == "Available"
    })
    .await;
    assert!(site.yonder.machines.disk(INFRA, "h1").unwrap().contains("user of red"));
    let slow = json!({"delayMs": {"provisioning": 2000, "deprovisioning": 2000}}).to_string();
    edit(&site.server, HOSTS, INFRA, "h1", &json!({"metadata": {"annotations": {"berth.dev/sim": slow}}}));
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_condition("red", "c", "Associated", "False/CleaningBeforeRelease").await;
    site.until_gone("red", "c").await;
    assert_eq!(site.yonder.machines.disk(INFRA, "h1"), None);
    let host = site.server.get(HOSTS, INFRA, "h1").unwrap();
    assert_eq!((&host["spec"]["image"], &host["spec"]["consumerRef"]), (&Value::Null, &Value::Null));
    assert_eq!((&host["spec"]["automatedCleaningMode"], &host["spec"]["online"]), (&json!("metadata"), &json!(false)));
    assert!(host["metadata"]["annotations"].get("berth.dev/infra-defaults").is_none());
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn disks_are_kept_for_the_next_claim_of_the_group_and_cleaned_when_none_comes() {
    let site = Site::new(uncleaned);
    let reuse = |name: &str| {
        let mut claim = deployment("red", name);
        claim["spec"]["automatedCleaningMode"] = json!("disabled");
        claim["spec"]["nodeReuse"] = json!("workers");
        claim
    };
    site.server.put(reuse("one")).unwrap();
    site.until_ready("red", "one").await;
    assert!(site.server.delete(CLAIMS, "red", "one"));
    site.until_gone("red", "one").await;
    let host = site.server.get(HOSTS, INFRA, "h1").unwrap();
    assert_eq!(host["spec"]["consumerRef"]["kind"], "Namespace");
    assert!(site.yonder.machines.disk(INFRA, "h1").unwrap().contains("user of red"), "kept for the group");
    // The next claim of the group takes it up, and does not clean either.
    site.server.put(reuse("two")).unwrap();
    site.until_ready("red", "two").await;
    assert!(site.server.delete(CLAIMS, "red", "two"));
    site.until_gone("red", "two").await;
    assert!(site.yonder.machines.disk(INFRA, "h1").is_some());
    // Nobody else gets it, and when the time is over it is cleaned before it is free.
    site.server.put(claim("blue", "c")).unwrap();
    site.until_condition("blue", "c", "Associated", "False/NoBareMetalHost").await;
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    site.until_ready("blue", "c").await;
    assert_eq!(site.yonder.machines.disk(INFRA, "h1"), None);
    assert_eq!(events(&site.server, INFRA, "CleaningBeforeRelease").len(), 1);
    let host = site.host_of("blue", "c");
    assert_eq!(host["spec"]["automatedCleaningMode"], "metadata");
    let record: Value = serde_json::from_str(at(&host, "/metadata/annotations/berth.dev~1infra-defaults")).unwrap();
    assert_eq!(record["automatedCleaningMode"], "metadata", "the owner's choice survived two tenants' claims");
    site.rest().await;
}

fn sly(name: &str) -> Value {
    let mut claim = deployment("red", name);
    claim["spec"]["automatedCleaningMode"] = json!("disabled");
    claim
}

fn until_available(server: &Server, name: &str) -> bool {
    at(&server.get(CLAIMS, "red", name).unwrap_or_default(), "/status/provisioningState") == "Available"
}

#[tokio::test(start_paused = true)]
async fn an_image_that_was_never_deployed_cleans_nothing_and_the_host_is_not_given_on_dirty() {
    let site = Site::new(uncleaned);
    site.server.put(sly("c")).unwrap();
    site.until_ready("red", "c").await;
    edit(&site.server, CLAIMS, "red", "c", &json!({"spec": {"image": null}}));
    site.until("the host is available", |server| until_available(server, "c")).await;
    assert!(site.yonder.machines.disk(INFRA, "h1").unwrap().contains("user of red"));
    // Another image, on a host that is switched off and therefore never deployed, and cleaning as its owner wants it.
    let other = json!({"url": "https://images/other", "checksum": "https://images/sums"});
    let change = json!({"spec": {"poweredOn": false, "image": other, "automatedCleaningMode": null}});
    edit(&site.server, CLAIMS, "red", "c", &change);
    site.until("the host has the other image", |server| {
        at(&server.get(HOSTS, INFRA, "h1").unwrap(), "/spec/image/url") == "https://images/other"
    })
    .await;
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_gone("red", "c").await;
    assert_eq!(site.yonder.machines.disk(INFRA, "h1"), None);
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_the_group_that_deploys_nothing_leaves_kept_disks_on_record() {
    let site = Site::new(uncleaned);
    let mut first = sly("one");
    first["spec"]["nodeReuse"] = json!("workers");
    site.server.put(first).unwrap();
    site.until_ready("red", "one").await;
    assert!(site.server.delete(CLAIMS, "red", "one"));
    site.until_gone("red", "one").await;
    let mut second = deployment("red", "two");
    second["spec"]["nodeReuse"] = json!("workers");
    second["spec"]["poweredOn"] = json!(false);
    site.server.put(second).unwrap();
    site.until("the second has the image on its host", |server| {
        let host = server.get(HOSTS, INFRA, "h1").unwrap();
        at(&host, "/spec/consumerRef/name") == "two" && host["spec"].get("image").is_some()
    })
    .await;
    assert!(site.server.delete(CLAIMS, "red", "two"));
    site.until_gone("red", "two").await;
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    site.until("the host is free", |server| server.get(HOSTS, INFRA, "h1").unwrap()["spec"]["consumerRef"].is_null())
        .await;
    assert_eq!(site.yonder.machines.disk(INFRA, "h1"), None);
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_the_tenant_that_only_has_the_label_of_a_copy_is_left_alone() {
    let site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let uid = at(&site.claim("red", "c"), "/metadata/uid").to_owned();
    for (namespace, name) in [("red", "own"), ("blue", "h1-hc-own-userdata")] {
        let labels = json!({"berth.dev/claim-uid": uid});
        let metadata =
            json!({"name": name, "namespace": namespace, "labels": labels, "finalizers": ["red.example/stays"]});
        site.server.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).unwrap();
    }
    annotate(&site.server, "red", "c", "team.example/look", Some("again"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(site.server.delete(CLAIMS, "red", "c"));
    // The oracle takes every secret with that label for a copy, and is not asked.
    let gone = |server: &Server| server.get(CLAIMS, "red", "c").is_none();
    assert!(site.server.wait_until(Duration::from_secs(900), gone).await);
    for (namespace, name) in [("red", "own"), ("blue", "h1-hc-own-userdata")] {
        let secret = site.server.get(SECRETS, namespace, name).unwrap();
        assert_eq!(secret["metadata"].get("deletionTimestamp"), None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_mark_of_a_move_hides_no_orphan_in_another_namespace() {
    let torn = [("red".to_owned(), "c".to_owned())].into();
    let site = Site::forgiving(Forgiven { claims: torn, ..Forgiven::default() }, open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    annotate(&site.server, "red", "c", "clusterctl.cluster.x-k8s.io/delete-for-move", Some(""));
    let _ = site.server.edit(CLAIMS, "red", "c", |claim| claim["metadata"]["finalizers"] = json!([]));
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until("the orphan is told of", |server| !events(server, INFRA, "OrphanedHost").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_somebody_else_bound_and_deployed_is_taken_over_as_it_is() {
    // As an upstream operator leaves it: the reference has no uid, the claim no finalizer of ours and half a status.
    let site = Site::forgiving(
        Forgiven { hosts: [(INFRA.to_owned(), "h1".to_owned())].into(), ..Forgiven::default() },
        |server| {
            let mut host = sim::metal::seed::host(INFRA, "h1", &json!({"size": "large"}));
            host["spec"]["online"] = json!(true);
            host["spec"]["image"] = json!({"url": "https://images/theirs", "checksum": "https://images/sums"});
            host["spec"]["consumerRef"] =
                json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "namespace": "red", "name": "c"});
            server.put(sim::metal::seed::settled(&host, (server.clock())())).unwrap();
            hosts(server, &["h2"]);
            let mut bound = claim("red", "c");
            // No policy opens the host any more, and the selector means another one.
            bound["spec"]["hostSelector"] = json!({"matchLabels": {"size": "small"}});
            bound["status"] = json!({"bareMetalHost": {"namespace": INFRA, "name": "h1"}});
            server.put(bound).unwrap();
        },
    );
    site.until_condition("red", "c", "Associated", "True/BareMetalHostAssociated").await;
    site.until("the reference is whole", |server| {
        let (host, claim) = (server.get(HOSTS, INFRA, "h1").unwrap(), server.get(CLAIMS, "red", "c").unwrap());
        host["spec"]["consumerRef"]["uid"] == claim["metadata"]["uid"]
    })
    .await;
    site.rest().await;
    let (claim, host) = (site.claim("red", "c"), site.host_of("red", "c"));
    assert_eq!(at(&host, "/spec/image/url"), "https://images/theirs", "what runs is left alone");
    assert_eq!(host["status"]["provisioning"]["state"], "provisioned");
    assert_eq!(site.power_offs(&host), 0);
    assert_eq!(claim["metadata"]["finalizers"], json!(["metal3.io/hostclaim"]));
    assert_eq!(condition(&claim, "Authorized"), "False/PolicyRevoked");
    assert_eq!(site.server.get(HOSTS, INFRA, "h2").unwrap()["spec"].get("consumerRef"), None);
    // And it is given back like any other.
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_gone("red", "c").await;
    let host = site.server.get(HOSTS, INFRA, "h1").unwrap();
    assert_eq!((host["spec"].get("consumerRef"), host["spec"].get("image")), (None, None));
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_given_three_other_hosts_and_then_keeps_the_last() {
    let names = ["h1", "h2", "h3", "h4", "h5"];
    let site = Site::new(|server| {
        hosts(server, &names);
        policy(server, &json!({}));
        secrets(server, "red");
        for name in names {
            let fails = r#"{"fail": [{"state": "provisioning", "times": 1000}], "retryMs": 10000}"#;
            edit(server, HOSTS, INFRA, name, &json!({"metadata": {"annotations": {"berth.dev/sim": fails}}}));
        }
    });
    let mut claim = deployment("red", "c");
    claim["spec"]["onHostFailure"] = json!("Replace");
    site.server.put(claim).unwrap();
    site.until("three hosts were given up", |server| {
        server.get(CLAIMS, "red", "c").unwrap()["status"]["replacements"] == 3
    })
    .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let claim = site.claim("red", "c");
    assert_eq!(
        (&claim["status"]["replacements"], condition(&claim, "Provisioned").as_str()),
        (&json!(3), "False/HostError")
    );
    let held = site.host_of("red", "c");
    let avoided = site.server.list(HOSTS, INFRA).into_iter().filter(|host| {
        let notes = host["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        notes.keys().any(|key| key.starts_with("berth.dev/avoid-"))
    });
    let avoided: Vec<String> = avoided.map(|host| at(&host, "/metadata/name").to_owned()).collect();
    assert_eq!(avoided.len(), 3, "{avoided:?}");
    assert!(!avoided.contains(&at(&held, "/metadata/name").to_owned()), "the fourth one is kept, failing as it is");
}
