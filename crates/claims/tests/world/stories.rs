//! What tenants and admins live through, once each.

use claims::config::Config;
use serde_json::{Value, json};
use sim::metal::oracle::Forgiven;
use sim::server::{Action, EventAction, Rule, Server};

use crate::objects::{
    CLAIMS, HOSTS, INFRA, POLICIES, annotate, at, claim, condition, copies, deployment, edit, events, held, hosts,
    policy, secrets,
};
use crate::site::Site;

fn open(server: &Server) {
    hosts(server, &["h1"]);
    policy(server, &json!({}));
    secrets(server, "red");
    secrets(server, "blue");
}

fn by_hand(names: &[&str]) -> Forgiven {
    let hosts = names.iter().map(|name| (INFRA.to_owned(), (*name).to_owned())).collect();
    Forgiven { hosts, ..Forgiven::default() }
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_a_host_with_its_image_and_its_three_secrets() {
    let site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let host = site.host_of("red", "c");
    assert_eq!(host["spec"]["image"]["url"], "https://images/red");
    assert_eq!(host["status"]["provisioning"]["state"], "provisioned");
    let disk = site.yonder.machines.disk(INFRA, "h1").unwrap();
    assert_eq!(disk.user_data.as_deref(), Some("user of red"));
    assert_eq!(disk.network_data.as_deref(), Some("network of red"));
    assert_eq!(disk.meta_data.as_deref(), Some("meta of red"));
    assert!(!disk.contains("not for hosts"));
    let stored = copies(&site.server);
    assert_eq!(stored.len(), 3);
    assert!(stored.iter().all(|copy| copy["data"].as_object().unwrap().len() == 1), "only the key that is read");

    let claim = site.claim("red", "c");
    let status = &claim["status"];
    assert_eq!(status["bareMetalHost"], json!({"namespace": INFRA, "name": "h1"}));
    assert_eq!((&status["ready"], &status["poweredOn"]), (&json!(true), &json!(true)));
    assert_eq!(status["provisioningState"], "Provisioned");
    assert_eq!(status["image"]["url"], "https://images/red");
    assert_eq!(status["hostUID"], host["metadata"]["uid"]);
    assert_eq!(status["hardwareData"], Value::Null, "this host was never inspected by the simulator");
    for (kind, wanted) in [
        ("Associated", "True/BareMetalHostAssociated"),
        ("Synchronized", "True/ConfigurationSynced"),
        ("Provisioned", "True/Provisioned"),
        ("Authorized", "True/PolicyAdmits"),
    ] {
        assert_eq!(condition(&claim, kind), wanted);
    }
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_found_by_inspection_shows_its_hardware_in_the_claim() {
    let site = Site::new(|server| {
        policy(server, &json!({}));
        server.put(sim::metal::seed::host(INFRA, "new", &json!({"size": "large"}))).unwrap();
    });
    site.server.put(claim("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let data = site.server.get("hardwaredata.metal3.io", INFRA, "new").unwrap();
    let nics = data["spec"]["hardware"]["nics"].as_array().unwrap().clone();
    site.until("the addresses are known", |server| {
        let status = server.get(CLAIMS, "red", "c").unwrap()["status"].clone();
        let addresses = status["addresses"].as_array().cloned().unwrap_or_default();
        addresses.first().is_some_and(|first| first["address"] == nics[0]["ip"])
    })
    .await;
    let status = site.claim("red", "c")["status"].clone();
    assert_eq!(status["nics"][1]["MAC"], nics[1]["mac"]);
    assert_eq!(status["hardwareData"], json!({"namespace": INFRA, "name": "new"}));
    assert_eq!(status["bootMACAddress"], site.host_of("red", "c")["spec"]["bootMACAddress"]);
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_tenant_gets_the_host_clean() {
    let site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    site.server.put(deployment("blue", "c")).unwrap();
    site.until_condition("blue", "c", "Associated", "False/NoBareMetalHost").await;
    let claim = site.claim("blue", "c");
    assert_eq!(claim["status"]["unbound"]["total"], 1);
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_ready("blue", "c").await;
    assert!(site.server.get(CLAIMS, "red", "c").is_none());
    site.until_event("red", "Released").await;
    site.until_event(INFRA, "HostReleased").await;
    let disk = site.yonder.machines.disk(INFRA, "h1").unwrap();
    assert!(disk.contains("user of blue") && !disk.contains("red"));
    assert!(copies(&site.server).iter().all(|copy| !copy.to_string().contains("red")));
    site.rest().await;
    assert!(site.server.delete(CLAIMS, "blue", "c"));
    site.until_gone("blue", "c").await;
    assert!(copies(&site.server).is_empty());
    assert_eq!(site.yonder.machines.disk(INFRA, "h1"), None);
    let host = site.server.get(HOSTS, INFRA, "h1").unwrap();
    assert_eq!((&host["spec"]["consumerRef"], &host["spec"]["image"]), (&Value::Null, &Value::Null));
    let left: Vec<_> = host["metadata"]["annotations"].as_object().into_iter().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn one_request_is_one_reboot_and_a_held_one_holds() {
    let site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let host = site.host_of("red", "c");
    for n in 1..=3 {
        annotate(&site.server, "red", "c", "reboot.metal3.io", Some(""));
        site.until("the request is taken", |server| {
            let claim = server.get(CLAIMS, "red", "c").unwrap();
            claim["metadata"]["annotations"].get("reboot.metal3.io").is_none()
                && claim["status"].get("pendingReboot").is_none()
        })
        .await;
        site.until_ready("red", "c").await;
        site.until("power is back", |server| held(server, "red", "c")[0]["status"]["poweredOn"] == true).await;
        assert_eq!(site.power_offs(&host), n);
    }
    site.until_event("red", "RebootForwarded").await;
    annotate(&site.server, "red", "c", "reboot.metal3.io/mine", Some(r#"{"mode":"hard"}"#));
    site.until("power is held off", |server| server.get(CLAIMS, "red", "c").unwrap()["status"]["poweredOn"] == false)
        .await;
    // An admin's own hold stays when the tenant lets go.
    edit(&site.server, HOSTS, INFRA, "h1", &json!({"metadata": {"annotations": {"reboot.metal3.io/admin": ""}}}));
    annotate(&site.server, "red", "c", "reboot.metal3.io/mine", None);
    site.rest().await;
    let host = site.host_of("red", "c");
    assert_eq!(host["status"]["poweredOn"], false);
    let holds: Vec<&String> =
        host["metadata"]["annotations"].as_object().unwrap().keys().filter(|k| k.starts_with("reboot")).collect();
    assert_eq!(holds, ["reboot.metal3.io/admin"]);
    edit(&site.server, HOSTS, INFRA, "h1", &json!({"metadata": {"annotations": {"reboot.metal3.io/admin": null}}}));
    site.until("power is on", |server| server.get(CLAIMS, "red", "c").unwrap()["status"]["poweredOn"] == true).await;
    site.rest().await;
    assert_eq!(site.power_offs(&host), 4);
}

#[tokio::test(start_paused = true)]
async fn a_reboot_before_anything_runs_waits_for_it() {
    let site = Site::new(open);
    let mut early = deployment("red", "c");
    early["metadata"]["annotations"] = json!({"reboot.metal3.io": ""});
    site.server.put(early).unwrap();
    site.until_event("red", "RebootDeferred").await;
    site.until_ready("red", "c").await;
    site.until("it was rebooted once", |server| {
        server.get(CLAIMS, "red", "c").unwrap()["metadata"]["annotations"].get("reboot.metal3.io").is_none()
    })
    .await;
    site.rest().await;
    assert_eq!(site.power_offs(&site.host_of("red", "c")), 1);
    assert_eq!(site.host_of("red", "c")["status"]["poweredOn"], true);
}

#[tokio::test(start_paused = true)]
async fn power_follows_the_claim() {
    let site = Site::new(open);
    let mut dark = claim("red", "c");
    dark["spec"]["poweredOn"] = json!(false);
    site.server.put(dark).unwrap();
    site.until_ready("red", "c").await;
    assert_eq!(site.host_of("red", "c")["status"]["poweredOn"], false);
    for on in [true, false, true] {
        edit(&site.server, CLAIMS, "red", "c", &json!({"spec": {"poweredOn": on}}));
        site.until("the host follows", |server| held(server, "red", "c")[0]["status"]["poweredOn"] == on).await;
        site.until("the claim tells", |server| server.get(CLAIMS, "red", "c").unwrap()["status"]["poweredOn"] == on)
            .await;
    }
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn an_image_can_be_taken_away_and_another_given() {
    let site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    edit(&site.server, CLAIMS, "red", "c", &json!({"spec": {"image": null}}));
    site.until("the host is cleaned", |server| {
        at(&server.get(CLAIMS, "red", "c").unwrap(), "/status/provisioningState") == "Available"
    })
    .await;
    assert_eq!(site.yonder.machines.disk(INFRA, "h1"), None);
    let image = json!({"url": "https://images/other", "checksum": "https://images/sums"});
    edit(&site.server, CLAIMS, "red", "c", &json!({"spec": {"image": image}}));
    site.until("the other one runs", |server| {
        at(&server.get(CLAIMS, "red", "c").unwrap(), "/status/image/url") == "https://images/other"
    })
    .await;
    site.until_ready("red", "c").await;
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn two_processes_and_many_claims_never_share_the_last_hosts() {
    let mut site = Site::new(|server| {
        hosts(server, &["h1", "h2", "h3"]);
        policy(server, &json!({}));
        secrets(server, "red");
        secrets(server, "blue");
    });
    site.add_room(Config::default());
    for n in 0..4 {
        site.server.put(deployment("red", &format!("c{n}"))).unwrap();
        site.server.put(claim("blue", &format!("c{n}"))).unwrap();
    }
    let bound = |server: &Server| {
        let all = server.list(CLAIMS, "");
        all.iter().filter(|claim| condition(claim, "Ready") == "True/Ready").count()
    };
    site.until("three claims have a host", |server| bound(server) == 3).await;
    for left in (0..8_usize).rev() {
        let ready = site.server.list(CLAIMS, "").into_iter().find(|claim| condition(claim, "Ready") == "True/Ready");
        let ready = ready.unwrap();
        let (tenant, name) = (at(&ready, "/metadata/namespace"), at(&ready, "/metadata/name"));
        assert!(site.server.delete(CLAIMS, tenant, name));
        site.until_gone(tenant, name).await;
        site.until("the next one gets its host", |server| bound(server) == left.min(3)).await;
    }
    site.rest().await;
    assert!(copies(&site.server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_busy_host_is_bound_all_the_same() {
    let site = Site::new(|server| {
        open(server);
        let busy = json!({"metadata": {"annotations": {"berth.dev/sim": r#"{"statusEveryMs": 100}"#}}});
        edit(server, HOSTS, INFRA, "h1", &busy);
    });
    let patches = Rule::any().method("PATCH").path_contains("/baremetalhosts/h1").client("room-0");
    let slow = site.server.inject(patches.always(), Action::Delay(std::time::Duration::from_millis(60)));
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    assert!(site.server.hits(slow) >= 2);
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_gone("red", "c").await;
    site.yonder.judge_rest(&site.server).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_goes_takes_nothing_away_and_lets_nobody_in() {
    let site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    assert!(site.server.delete(POLICIES, INFRA, "open"));
    site.until_condition("red", "c", "Authorized", "False/PolicyRevoked").await;
    assert_eq!(condition(&site.claim("red", "c"), "Ready"), "True/Ready");
    site.rest().await;
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_gone("red", "c").await;
    site.server.put(claim("red", "again")).unwrap();
    site.until_condition("red", "again", "Associated", "False/NoBareMetalHost").await;
    site.rest().await;
    assert!(held(&site.server, "red", "again").is_empty());
    policy(&site.server, &json!({}));
    site.until_ready("red", "again").await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_lost_with_its_system_is_not_replaced_in_silence() {
    let site = Site::forgiving(by_hand(&["h1", "h2"]), |server| {
        open(server);
        hosts(server, &["h2"]);
    });
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let host = site.host_of("red", "c");
    let name = at(&host, "/metadata/name");
    // Somebody removes the object without giving its controller a chance.
    edit(&site.server, HOSTS, INFRA, name, &json!({"metadata": {"finalizers": null}}));
    assert!(site.server.delete(HOSTS, INFRA, name));
    site.until_condition("red", "c", "Associated", "False/HostLost").await;
    site.until_event("red", "HostLost").await;
    site.rest_but_lost().await;
    assert!(held(&site.server, "red", "c").is_empty(), "no second machine of the same identity");
    assert_eq!(at(&site.claim("red", "c"), "/status/bareMetalHost/name"), name, "for whoever looks into it");
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_gone("red", "c").await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_lost_before_anything_ran_is_replaced() {
    let site = Site::forgiving(by_hand(&["h1", "h2"]), |server| {
        open(server);
        hosts(server, &["h2"]);
    });
    site.server.put(claim("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let first = at(&site.host_of("red", "c"), "/metadata/name").to_owned();
    let foreign = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Machine",
        "namespace": INFRA, "name": "m", "uid": null});
    edit(&site.server, HOSTS, INFRA, &first, &json!({"spec": {"consumerRef": foreign}}));
    site.until("another host is found", |server| {
        held(server, "red", "c").iter().any(|host| at(host, "/metadata/name") != first)
    })
    .await;
    site.until_ready("red", "c").await;
    let taken = site.server.get(HOSTS, INFRA, &first).unwrap();
    assert_eq!(taken["spec"]["consumerRef"]["kind"], "Metal3Machine", "it is never taken back");
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_host_is_given_back_clean() {
    let site = Site::forgiving(by_hand(&["h2"]), open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let consumer = site.host_of("red", "c")["spec"]["consumerRef"].clone();
    hosts(&site.server, &["h2"]);
    let image = json!({"url": "https://images/red"});
    let second = json!({"spec": {"consumerRef": consumer, "image": image, "online": true}});
    edit(&site.server, HOSTS, INFRA, "h2", &second);
    site.until("the second one is free again", |server| {
        let host = server.get(HOSTS, INFRA, "h2").unwrap();
        host["spec"].get("consumerRef").is_none() && at(&host, "/status/provisioning/state") == "available"
    })
    .await;
    site.until_event("red", "DuplicateBindingHealed").await;
    site.rest().await;
    assert_eq!(at(&site.host_of("red", "c"), "/metadata/name"), "h1");
    assert_eq!(condition(&site.claim("red", "c"), "Ready"), "True/Ready");
    assert_eq!(site.yonder.machines.disk(INFRA, "h2"), None);
}

#[tokio::test(start_paused = true)]
async fn a_paused_claim_changes_nothing_and_catches_up_later() {
    let site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    annotate(&site.server, "red", "c", "cluster.x-k8s.io/paused", Some(""));
    site.until_condition("red", "c", "Paused", "True/Paused").await;
    let before = site.host_of("red", "c")["spec"].clone();
    edit(&site.server, CLAIMS, "red", "c", &json!({"spec": {"poweredOn": false}}));
    annotate(&site.server, "red", "c", "reboot.metal3.io", Some(""));
    site.rest().await;
    let host = site.host_of("red", "c");
    assert_eq!(host["spec"], before);
    assert!(
        host["metadata"]["annotations"].get("baremetalhost.metal3.io/paused").is_none(),
        "the admin's maintenance goes on"
    );
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.rest().await;
    assert!(!site.claim("red", "c").is_null(), "deletion waits");
    annotate(&site.server, "red", "c", "cluster.x-k8s.io/paused", None);
    site.until_gone("red", "c").await;
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_detaches_its_host_only_where_a_policy_says_so() {
    let site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    const DETACHED: &str = "baremetalhost.metal3.io/detached";
    annotate(&site.server, "red", "c", DETACHED, Some(r#"{"force":true}"#));
    site.rest().await;
    assert!(site.host_of("red", "c")["metadata"]["annotations"].get(DETACHED).is_none());
    assert_eq!(events(&site.server, "red", "DetachNotAllowed").len(), 1);
    policy(&site.server, &json!({"allowsDetaching": true}));
    site.until("it is detached", |server| at(&held(server, "red", "c")[0], "/status/operationalStatus") == "detached")
        .await;
    assert_eq!(site.host_of("red", "c")["metadata"]["annotations"][DETACHED], r#"{"setByHostClaim":true}"#);
    policy(&site.server, &json!({"allowsDetaching": false}));
    site.rest().await;
    assert_eq!(
        at(&site.host_of("red", "c"), "/status/operationalStatus"),
        "detached",
        "nothing is attached in silence"
    );
    annotate(&site.server, "red", "c", DETACHED, None);
    site.until("it is attached again", |server| at(&held(server, "red", "c")[0], "/status/operationalStatus") == "OK")
        .await;
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_a_host_that_its_admin_detached() {
    let site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let mine = |value: Value| json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": value}}});
    edit(&site.server, HOSTS, INFRA, "h1", &mine(json!("maintenance")));
    site.until("it is detached", |server| at(&held(server, "red", "c")[0], "/status/operationalStatus") == "detached")
        .await;
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_condition("red", "c", "Associated", "False/HostDetached").await;
    site.rest().await;
    assert!(site.yonder.machines.disk(INFRA, "h1").is_some());
    edit(&site.server, HOSTS, INFRA, "h1", &mine(Value::Null));
    site.until_gone("red", "c").await;
    assert_eq!(site.yonder.machines.disk(INFRA, "h1"), None);
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deployed_before_every_secret_is_there() {
    let site = Site::new(|server| {
        hosts(server, &["h1"]);
        policy(server, &json!({}));
    });
    site.server.put(deployment("red", "c")).unwrap();
    site.until_condition("red", "c", "Synchronized", "False/UserDataSecretSyncFailure").await;
    site.rest().await;
    assert_eq!(site.host_of("red", "c")["spec"].get("image"), None);
    secrets(&site.server, "red");
    site.until_ready("red", "c").await;
    // A source that goes after the deployment leaves the copy; one that changes renews it.
    assert!(site.server.delete("secrets", "red", "meta"));
    edit(&site.server, "secrets", "red", "user", &json!({"stringData": {"userData": "changed"}}));
    site.until("the copy is renewed", |server| {
        // `printf changed | base64`
        copies(server).iter().any(|copy| copy["data"]["userData"] == "Y2hhbmdlZA==")
    })
    .await;
    site.rest().await;
    assert_eq!(copies(&site.server).len(), 3);
    // A copy that somebody deletes comes back.
    let copy = copies(&site.server).into_iter().find(|copy| copy["data"].get("userData").is_some()).unwrap();
    assert!(site.server.delete("secrets", INFRA, at(&copy, "/metadata/name")));
    site.until("it is back", |server| copies(server).len() == 3).await;
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_host_is_told_by_class_and_without_addresses() {
    let site = Site::new(|server| {
        open(server);
        let fails = r#"{"fail": [{"state": "provisioning", "times": 2}], "retryMs": 30000}"#;
        edit(server, HOSTS, INFRA, "h1", &json!({"metadata": {"annotations": {"berth.dev/sim": fails}}}));
    });
    site.server.put(deployment("red", "c")).unwrap();
    site.until_condition("red", "c", "Provisioned", "False/HostError").await;
    let claim = site.claim("red", "c");
    assert!(site.host_of("red", "c").to_string().contains("192.0.2.7"), "the admin sees it");
    assert!(!claim.to_string().contains("192.0.2."), "the tenant does not: {claim}");
    site.until_ready("red", "c").await;
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_wants_another_host_gets_one_after_three_failures() {
    let site = Site::new(|server| {
        open(server);
        let fails = r#"{"fail": [{"state": "provisioning", "times": 99}], "retryMs": 1000}"#;
        edit(server, HOSTS, INFRA, "h1", &json!({"metadata": {"annotations": {"berth.dev/sim": fails}}}));
    });
    let mut claim = deployment("red", "c");
    claim["spec"]["onHostFailure"] = json!("Replace");
    site.server.put(claim).unwrap();
    site.until_condition("red", "c", "Provisioned", "False/HostError").await;
    hosts(&site.server, &["h2"]);
    site.until("the other host is taken", |server| {
        held(server, "red", "c").iter().any(|host| at(host, "/metadata/name") == "h2")
    })
    .await;
    site.until_ready("red", "c").await;
    site.rest().await;
    let first = site.server.get(HOSTS, INFRA, "h1").unwrap();
    assert_eq!(first["spec"].get("consumerRef"), None);
    let avoids =
        first["metadata"]["annotations"].as_object().unwrap().keys().any(|k| k.starts_with("berth.dev/avoid-"));
    assert!(avoids, "this tenant does not get it again soon");
}

/// Nobody tells that a claim is gone: what is done about it then must not be done over and over.
#[tokio::test(start_paused = true)]
async fn an_end_that_is_not_heard_of_costs_next_to_nothing() {
    let site = Site::new(open);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    site.line().script_events(|_, resource, word| EventAction {
        drop: resource == CLAIMS && word == "DELETED",
        ..EventAction::default()
    });
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_gone("red", "c").await;
    let before = site.server.effects();
    tokio::time::sleep(std::time::Duration::from_secs(300)).await;
    let late: Vec<String> = site.server.log().iter().rev().take(12).map(|e| format!("{e:?}")).collect();
    assert!(site.server.effects() - before < 20, "{} effects, the last {late:#?}", site.server.effects() - before);
}
