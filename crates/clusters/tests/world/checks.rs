//! What is checked before anything is made, and told.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use sim::cloudstack::world::faults::Fault;

use crate::site::*;

#[tokio::test(start_paused = true)]
async fn a_bad_datacenter_is_told_with_every_zone_and_blocks_only_what_is_new() {
    let (server, site) = world();
    apply(&server, &site);
    change(&server, DATACENTERS, "dc", |object| {
        let zones = object["spec"]["availabilityZones"].as_array_mut().unwrap();
        let mut off = zones[0].clone();
        off["name"] = json!("az-2");
        off["zone"] = json!({"name": "zone-off", "network": {"name": "shared"}});
        let mut none = zones[0].clone();
        none["name"] = json!("az-3");
        none["zone"] = json!({"name": "nowhere", "network": {"name": "shared"}});
        zones.extend([off, none]);
    });
    let _process = site.start(&server, site.config());
    let message = fails(&server, "prod", "DatacenterConfigInvalid").await;
    for part in [
        "availability zone \"az-2\": zone \"zone-off\" is disabled",
        "availability zone \"az-3\": zone \"nowhere\" not found",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(message.starts_with("CloudStackDatacenterConfig dc is invalid: "), "{message}");
    let datacenter = server.get(DATACENTERS, NS, "dc").unwrap();
    assert_eq!(datacenter["status"]["specValid"], false);
    assert_eq!(found(&datacenter, "Valid").1, "ValidationFailed");
    assert_eq!(found(&datacenter, "CredentialsValid").0, "True");
    assert_eq!(generated(&server), Vec::<String>::new());
    let told = told_of(&server, "prod").await;
    assert_eq!(told, ["ValidationFailed"], "once");
    change(&server, DATACENTERS, "dc", |object| {
        object["spec"]["availabilityZones"].as_array_mut().unwrap().truncate(1);
    });
    ready(&server, "prod").await;
    // A broken edit of a running cluster's datacenter touches nothing.
    let plane = server.get(PLANES, SYSTEM, "prod").unwrap();
    change(&server, DATACENTERS, "dc", |object| {
        object["spec"]["availabilityZones"][0]["zone"]["name"] = json!("nowhere")
    });
    fails(&server, "prod", "DatacenterConfigInvalid").await;
    assert_eq!(server.get(PLANES, SYSTEM, "prod").unwrap()["metadata"]["generation"], plane["metadata"]["generation"]);
    assert_eq!(condition(&server, "prod", "ControlPlaneReady").0, "True", "machines are told as they are");
}

#[tokio::test(start_paused = true)]
async fn rotated_credentials_are_used_at_once() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    site.acs.rotate("admin", "canary-key", "canary-secret");
    pass(1_300).await;
    let datacenter = server.get(DATACENTERS, NS, "dc").unwrap();
    assert_eq!(
        (&datacenter["status"]["specValid"], found(&datacenter, "CredentialsValid").1.as_str()),
        (&json!(false), "CredentialsInvalid")
    );
    server.put(secret("global", &site.acs.endpoint, "canary-key", "canary-secret")).unwrap();
    let valid = server.wait_until(std::time::Duration::from_secs(5), |server| {
        server.get(DATACENTERS, NS, "dc").unwrap()["status"]["specValid"] == true
    });
    assert!(valid.await, "{:#}", server.get(DATACENTERS, NS, "dc").unwrap()["status"]);
    pass(30).await;
    assert!(is_ready(&server, "prod"));
    assert!(events(&server, "dc").contains(&"CredentialsRotated".to_owned()));
    let everything: Vec<Value> =
        server.objects().into_iter().filter(|(key, _)| key.resource != "secrets").map(|(_, object)| object).collect();
    assert!(!serde_json::to_string(&everything).unwrap().contains("canary"), "no secret is ever told");
    let measured = site.measured();
    assert!(measured.contains("berth_clusters_"), "{measured}");
    assert!(!measured.contains("canary"), "and none is measured");
}

/// A normal user may not list domains and belongs to one; what could not be looked at is told, and once.
#[tokio::test(start_paused = true)]
async fn the_keys_of_a_normal_user_are_enough_and_what_they_do_not_show_is_told() {
    let (server, site) = world();
    let (key, word) = site.acs.key_of("user").unwrap();
    server.put(secret("global", &site.acs.endpoint, &key, &word)).unwrap();
    apply(&server, &site);
    change(&server, DATACENTERS, "dc", |object| {
        object["spec"]["availabilityZones"][0]["domain"] = json!("tenant/team");
        object["spec"]["availabilityZones"][0]["account"] = json!("user");
    });
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let told = |server: &sim::server::Server| found(&server.get(DATACENTERS, NS, "dc").unwrap(), "Valid");
    let (state, _, message) = told(&server);
    assert_eq!(state, "True");
    assert!(message.ends_with("; availability zone \"az-1\": domain path not verifiable"), "{message}");
    pass(60).await;
    let effects = server.effects();
    pass(7_200).await;
    assert_eq!((server.effects(), told(&server).2), (effects, message));
}

/// The id of a domain is remembered for a while, and believed only as long as it leads somewhere.
#[tokio::test(start_paused = true)]
async fn a_domain_that_is_made_anew_is_found_again_and_one_that_is_gone_is_told() {
    let (server, site) = world();
    let mut place = datacenter(&site, "dc");
    place["spec"]["availabilityZones"][0]["domain"] = json!("tenant");
    place["spec"]["availabilityZones"][0]["account"] = json!("tenant-admin");
    server.put(place).unwrap();
    let _process = site.start(&server, site.config());
    let status = |server: &sim::server::Server| server.get(DATACENTERS, NS, "dc").unwrap()["status"].clone();
    assert!(server.wait_until(LIMIT, |server| status(server)["specValid"] == true).await, "{:#}", status(&server));
    let (asked, before) = (site.acs.calls("listDomains"), status(&server)["availabilityZones"][0]["domainID"].clone());
    pass(1_500).await;
    assert_eq!((asked, site.acs.calls("listDomains")), (1, 1));
    assert!(site.acs.calls("listAccounts") > 2, "everything else is asked for every time");
    site.acs.with(|world, _| world.domains.iter_mut().for_each(|one| one.id.replace_range(..8, "0badcafe")));
    pass(900).await;
    assert_eq!(status(&server)["specValid"], true);
    assert_ne!(status(&server)["availabilityZones"][0]["domainID"], before);
    site.acs.with(|world, _| world.domains.retain(|one| !one.path.starts_with("ROOT/tenant")));
    pass(900).await;
    let told = status(&server)["failureMessage"].as_str().unwrap_or_default().to_owned();
    assert_eq!(told, "availability zone \"az-1\": domain \"tenant\" not found");
}

#[tokio::test(start_paused = true)]
async fn broken_secrets_are_named_by_their_key() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    for (change, said) in [
        (json!({"secret-key": "canary\n"}), "secret eksa-system/global: key secret-key has surrounding whitespace"),
        (json!({"verify-ssl": "maybe"}), "secret eksa-system/global: key verify-ssl must be true or false"),
        (
            json!({"api-url": "http://127.0.0.1:1/other"}),
            "differs from api-url http://127.0.0.1:1/other of secret global",
        ),
    ] {
        let mut object = secret("global", &site.acs.endpoint, &site.acs.api_key, &site.acs.secret_key);
        for (key, value) in change.as_object().unwrap() {
            object["stringData"][key] = value.clone();
        }
        server.put(object).unwrap();
        let told = server.wait_until(LIMIT, |server| failure(server, "prod").1.contains(said)).await;
        assert!(told, "{said}: {:?}", failure(&server, "prod"));
    }
    // With keys for another server nobody is asked, so that nothing is known of keys and server.
    let datacenter = server.get(DATACENTERS, NS, "dc").unwrap();
    for type_ in ["CredentialsValid", "EndpointReachable"] {
        let (state, reason, _) = found(&datacenter, type_);
        assert_eq!((state.as_str(), reason.as_str()), ("Unknown", "NotChecked"), "{type_}");
    }
}

#[tokio::test(start_paused = true)]
async fn machine_configurations_are_checked_in_every_zone_and_told_on_themselves() {
    let (server, site) = world();
    server.put(datacenter(&site, "dc")).unwrap();
    server.put(cluster("prod")).unwrap();
    server.put(machine("m", "kube-1.32", "Nothing")).unwrap();
    let _process = site.start(&server, site.config());
    let message = fails(&server, "prod", "MachineConfigInvalid").await;
    assert_eq!(message, "machine config m, availability zone \"az-1\": compute offering \"Nothing\" not found");
    let object = server.get(MACHINES, NS, "m").unwrap();
    assert_eq!(object["status"]["specValid"], false);
    assert_eq!(object["status"]["failureMessage"], format!("{NS}/prod: {message}"));
    change(&server, MACHINES, "m", |object| object["spec"]["computeOffering"] = json!({"name": "Medium Instance"}));
    let said = "machine config m: template \"kube-1.32\" does not name Kubernetes 1.31";
    assert!(
        server.wait_until(LIMIT, |server| failure(server, "prod").1 == said).await,
        "{:?}",
        failure(&server, "prod")
    );
    assert_eq!(generated(&server), Vec::<String>::new());
    change(&server, MACHINES, "m", |object| object["spec"]["template"] = json!({"name": "kube-1.31"}));
    ready(&server, "prod").await;
    let object = server.get(MACHINES, NS, "m").unwrap();
    assert_eq!((&object["status"]["specValid"], &object["status"]["failureMessage"]), (&json!(true), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_somebody_has_is_not_used() {
    let (server, site) = world();
    apply(&server, &site);
    site.ground.found.store(1, Ordering::SeqCst);
    let _process = site.start(&server, site.config());
    let message = fails(&server, "prod", "UnavailableControlPlaneIP").await;
    assert_eq!(message, "endpoint 172.16.0.5:6443 already answers");
    assert_eq!(site.acs.calls("listTemplates"), 0, "what costs something comes later");
    site.ground.found.store(0, Ordering::SeqCst);
    ready(&server, "prod").await;
    let mut other = cluster("other");
    other["spec"]["controlPlaneConfiguration"]["endpoint"]["host"] = json!("172.16.0.5:7443");
    server.put(other).unwrap();
    let message = fails(&server, "other", "UnavailableControlPlaneIP").await;
    assert_eq!(message, format!("endpoint 172.16.0.5 already used by cluster {NS}/prod"));
    let skip = "anywhere.eks.amazonaws.com/skip-ip-check";
    change(&server, CLUSTERS, "other", |object| object["metadata"]["annotations"] = json!({skip: "true"}));
    ready(&server, "other").await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_without_an_address_is_told_and_used() {
    let (server, site) = world();
    apply(&server, &site);
    site.ground.found.store(2, Ordering::SeqCst);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    assert!(events(&server, "prod").contains(&"EndpointNotResolved".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn how_long_clusters_stand_in_a_phase_is_measured() {
    let (server, site) = world();
    apply(&server, &site);
    site.ground.found.store(1, Ordering::SeqCst);
    let _process = site.start(&server, site.config());
    fails(&server, "prod", "UnavailableControlPlaneIP").await;
    pass(300).await;
    let measured =
        |end: &str, phase: &str| site.counted(&format!("berth_clusters_phase_duration_seconds_{end}"), phase);
    let endpoint = "validate-control-plane-ip";
    assert_eq!(measured("count", endpoint), 0.0, "it is not over yet");
    let stands = |metric: &str, how: &str| site.counted(metric, &format!("room=\"clusters\",kind=\"Cluster\"{how}"));
    let waits = ",state=\"waiting\",reason=\"UnavailableControlPlaneIP\"";
    assert_eq!(stands("berth_room_objects", waits), 1.0, "{}", site.measured());
    let oldest = stands("berth_room_oldest_wait_seconds", waits);
    assert!((300.0..420.0).contains(&oldest), "{oldest}");
    site.ground.found.store(0, Ordering::SeqCst);
    ready(&server, "prod").await;
    pass(60).await;
    assert_eq!(measured("count", endpoint), 1.0);
    let lasted = measured("sum", endpoint);
    assert!((300.0..420.0).contains(&lasted), "{lasted}");
    assert_eq!(measured("count", "check-control-plane-ready"), 1.0);
    let all = measured("count", "");
    pass(6_000).await;
    assert_eq!(measured("count", ""), all, "a cluster that is carried out stands in no phase");
    assert_eq!((stands("berth_room_objects", ",state=\"ready\""), stands("berth_room_objects", "")), (1.0, 1.0));
    assert_eq!(stands("berth_room_ready_seconds_count", ""), 1.0);
    assert!(stands("berth_room_ready_seconds_sum", "") >= lasted);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_tried_at_all_its_ports_together_and_once() {
    let (server, site) = world();
    apply(&server, &site);
    site.ground.takes.store(500, Ordering::SeqCst);
    let begun = (server.clock())();
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |server| server.get(CAPI, SYSTEM, "prod").is_some()).await);
    let took = (server.clock())().duration_since(begun);
    assert!(took.as_millis() < 1_000, "{took:?}");
    assert_eq!(site.ground.tried.load(Ordering::SeqCst), 2, "its own port and that of HTTP");
}

#[tokio::test(start_paused = true)]
async fn what_has_to_be_put_right_is_told_in_its_own_words() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    server.namespace("other");
    let mut twin = cluster("prod");
    twin["metadata"]["namespace"] = json!("other");
    for mut child in [datacenter(&site, "dc"), machine("m", "kube-1.31", "Medium Instance")] {
        child["metadata"]["namespace"] = json!("other");
        server.put(child).unwrap();
    }
    server.put(twin).unwrap();
    let told = |name: &str| {
        let object = server.get(CLUSTERS, "other", name).unwrap_or_default();
        object["status"]["failureMessage"].as_str().unwrap_or_default().to_owned()
    };
    assert!(
        server.wait_until(LIMIT, |_| told("prod") == format!("name already used by {NS}/prod")).await,
        "{}",
        told("prod")
    );
    let mut lost = cluster("lost");
    lost["spec"]["managementCluster"]["name"] = json!("nobody");
    lost["spec"]["controlPlaneConfiguration"]["endpoint"]["host"] = json!("172.16.0.9");
    server.put(lost).unwrap();
    assert_eq!(fails(&server, "lost", "ManagementClusterRefInvalid").await, "management cluster nobody not found");
    server.namespace("another");
    for namespace in ["other", "another"] {
        let mut boss = cluster("boss");
        boss["metadata"]["namespace"] = json!(namespace);
        boss["spec"]["managementCluster"]["name"] = json!("boss");
        server.put(boss).unwrap();
    }
    // The one beside it is meant, however many have its name; elsewhere there must be one.
    for (manager, said) in
        [("prod", "cluster prod is not a management cluster"), ("boss", "there is more than one cluster named boss")]
    {
        change(&server, CLUSTERS, "lost", |object| {
            object["spec"]["managementCluster"]["name"] = json!(manager);
        });
        let told = server.wait_until(LIMIT, |server| failure(server, "lost").1 == said).await;
        assert!(told, "{said}: {:?}", failure(&server, "lost"));
    }
    change(&server, CLUSTERS, "lost", |object| {
        object["spec"]["managementCluster"]["name"] = json!("mgmt");
        object["spec"]["bundlesRef"] = reference(9);
    });
    assert_eq!(fails(&server, "lost", "BundleNotFoundForCluster").await, "Bundles eksa-system/bundles-9 not found");
    let mut nine = bundles(9, "v1.16.5");
    nine["spec"]["versionsBundles"].as_array_mut().unwrap().truncate(1);
    server.put(nine).unwrap();
    let said = "Bundles bundles-9 has no entry for Kubernetes 1.31 (has 1.30)";
    assert!(server.wait_until(LIMIT, |server| failure(server, "lost").1 == said).await);
    server.put(bundles(9, "v1.16.5")).unwrap();
    ready(&server, "lost").await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_equal_clusters_cost_the_calls_of_one() {
    let calls = |clusters: usize| async move {
        let (server, site) = world();
        server.put(datacenter(&site, "dc")).unwrap();
        server.put(machine("m", "kube-1.31", "Medium Instance")).unwrap();
        for number in 0..clusters {
            let mut one = cluster(&format!("c{number}"));
            one["spec"]["controlPlaneConfiguration"]["endpoint"]["host"] = json!(format!("172.16.1.{number}"));
            server.put(one).unwrap();
        }
        let _process = site.start(&server, site.config());
        let done = server
            .wait_until(LIMIT, |server| {
                (0..clusters).all(|number| server.get(CAPI, SYSTEM, &format!("c{number}")).is_some())
            })
            .await;
        assert!(done);
        site.acs.log().len()
    };
    let (one, many) = (calls(1).await, calls(100).await);
    assert!(many * 10 <= one * 12, "one cluster costs {one} calls, a hundred {many}");
}

/// What stands costs CloudStack what its datacenters cost, however many clusters there are.
#[tokio::test(start_paused = true)]
async fn a_hundred_ready_clusters_cost_twenty_calls_an_hour() {
    const MANY: usize = 100;
    let (server, site) = world();
    server.put(datacenter(&site, "dc")).unwrap();
    server.put(machine("m", "kube-1.31", "Medium Instance")).unwrap();
    for number in 0..MANY {
        let mut one = cluster(&format!("c{number}"));
        one["spec"]["controlPlaneConfiguration"]["endpoint"]["host"] = json!(format!("172.16.1.{number}"));
        server.put(one).unwrap();
    }
    let _process = site.start(&server, site.config());
    let all = |server: &sim::server::Server| (0..MANY).all(|number| is_ready(server, &format!("c{number}")));
    assert!(server.wait_until(LIMIT, all).await);
    pass(60).await;
    let before = site.acs.log().len();
    pass(3_600).await;
    let asked = site.acs.log().len() - before;
    assert!(asked <= 20 && all(&server), "{asked} calls");
}

#[tokio::test(start_paused = true)]
async fn a_paused_datacenter_is_not_judged_and_afterwards_is_at_once() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let said = |server: &sim::server::Server| {
        let status = server.get(DATACENTERS, NS, "dc").unwrap()["status"].clone();
        (status["specValid"].clone(), status["observedGeneration"].clone())
    };
    let before = said(&server);
    change(&server, DATACENTERS, "dc", |object| {
        object["metadata"]["annotations"] = json!({"anywhere.eks.amazonaws.com/paused": "true"});
        object["spec"]["availabilityZones"][0]["zone"]["name"] = json!("nowhere");
    });
    pass(5).await;
    let calls = site.acs.log().len();
    pass(1_500).await;
    assert_eq!((said(&server), site.acs.log().len()), (before, calls));
    assert!(condition(&server, "prod", "Ready").0 == "True" && failure(&server, "prod") == Default::default());
    change(&server, DATACENTERS, "dc", |object| object["metadata"]["annotations"] = json!({}));
    let judged = std::time::Duration::from_secs(5);
    assert!(server.wait_until(judged, |server| said(server) == (json!(false), json!(2))).await, "{:?}", said(&server));
}

#[tokio::test(start_paused = true)]
async fn without_cloudstack_a_valid_datacenter_stays_valid_and_a_new_one_waits() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    site.acs.script(Fault::refuse("*", 503, "the server is starting").forever());
    server.put(datacenter(&site, "new")).unwrap();
    pass(1_500).await;
    let old = server.get(DATACENTERS, NS, "dc").unwrap();
    assert_eq!(
        (&old["status"]["specValid"], found(&old, "EndpointReachable").1.as_str()),
        (&json!(true), "EndpointUnreachable")
    );
    assert_eq!(found(&old, "Valid").0, "True");
    let new = server.get(DATACENTERS, NS, "new").unwrap();
    assert_eq!(new["status"]["specValid"], false);
    let said = new["status"]["failureMessage"].as_str().unwrap();
    assert!(said.starts_with("CloudStack API not reachable: "), "{said}");
    assert!(is_ready(&server, "prod"));
    site.acs.clear_script();
    assert!(
        server
            .wait_until(LIMIT, |server| server.get(DATACENTERS, NS, "new").unwrap()["status"]["specValid"] == true)
            .await
    );
}
