//! What holds of every cluster at every moment, each proven by a test.
//!
//! 1. Equal input gives equal bytes: `equal_input_gives_equal_bytes_in_any_order` and
//!    `every_input_gives_its_golden_objects_byte_for_byte` in `tests/render`.
//! 2. Nothing is generated before every check has passed, and the status says so first:
//!    [`nothing_is_written_while_a_failure_stands`].
//! 3. No template is ever changed: the guard refuses it, and [`no_template_is_ever_changed`].
//! 4. A change replaces the machines it must and no others: `a_change_replaces_the_machines_it_must_and_no_others` in
//!    `tests/render`, which has every row.
//! 5. A datacenter is valid only if the last certain answer about this generation said so:
//!    [`a_datacenter_is_valid_by_the_last_certain_answer_about_this_generation`].
//! 6. Reason and message of a failure come and go together: [`reason_and_message_of_a_failure_come_and_go_together`], and
//!    after every effect of every sweep.
//! 7. The finalizer goes only when no cluster remains: after every effect of every sweep.
//! 8. Keys never leave the body of a request: `rotated_credentials_are_used_at_once` beside this, and
//!    `nothing_that_is_logged_holds_a_key_a_signature_or_user_data` in `cloudstack`.
//! 9. Stopped between any two writes it ends in the same world: `a_cluster_survives_a_stop_at_every_effect` beside this.
//! 10. A server that checks signatures accepts every name: `every_name_survives_the_way_through_signature_and_form` in
//!     `cloudstack`.
//! 11. Nothing to do means no write: `a_cluster_becomes_ready_is_left_in_peace_and_goes` beside this.
//! 12. What fails for one cluster delays no other: [`clusters_that_fail_delay_no_other`].

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use sim::cloudstack::world::faults::Fault;
use sim::server::{Action, Rule, Server};

use crate::site::*;

fn text(object: &Value, key: &str) -> String {
    object["status"][key].as_str().unwrap_or_default().to_owned()
}

/// A cluster that runs into every failure there is before it is made, and into one more afterwards.
async fn troubled() -> (Server, Site) {
    let (server, site) = world();
    let mut lost = cluster("prod");
    lost["spec"]["eksaVersion"] = json!("v0.23.1");
    lost["spec"]["managementCluster"]["name"] = json!("nobody");
    lost["spec"]["controlPlaneConfiguration"]["count"] = json!(2);
    server.put(lost).unwrap();
    site.ground.found.store(1, Ordering::SeqCst);
    server.delete("secrets", SYSTEM, "global");
    let process = site.start(&server, site.config());
    fails(&server, "prod", "MissingDependentObjects").await;
    server.put(datacenter(&site, "dc")).unwrap();
    server.put(machine("m", "kube-1.31", "Nothing")).unwrap();
    fails(&server, "prod", "ManagementClusterRefInvalid").await;
    change(&server, CLUSTERS, "prod", |object| object["spec"]["managementCluster"]["name"] = json!("mgmt"));
    fails(&server, "prod", "EksaVersionInvalid").await;
    server
        .put(json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "EKSARelease",
            "metadata": {"name": "eksa-v0-23-1", "namespace": SYSTEM},
            "spec": {"version": "v0.23.1", "bundlesRef": reference(9)}}))
        .unwrap();
    fails(&server, "prod", "BundleNotFoundForCluster").await;
    server.put(bundles(9, "v1.16.5")).unwrap();
    fails(&server, "prod", "ClusterInvalid").await;
    change(&server, CLUSTERS, "prod", |object| object["spec"]["controlPlaneConfiguration"]["count"] = json!(3));
    fails(&server, "prod", "UnavailableControlPlaneIP").await;
    site.ground.found.store(0, Ordering::SeqCst);
    fails(&server, "prod", "DatacenterConfigInvalid").await;
    server.put(secret("global", &site.acs.endpoint, &site.acs.api_key, &site.acs.secret_key)).unwrap();
    fails(&server, "prod", "MachineConfigInvalid").await;
    change(&server, MACHINES, "m", |object| object["spec"]["computeOffering"] = json!({"name": "Medium Instance"}));
    ready(&server, "prod").await;
    change(&server, MACHINES, "m", |object| object["spec"]["computeOffering"] = json!({"name": "Nothing"}));
    fails(&server, "prod", "MachineConfigInvalid").await;
    change(&server, MACHINES, "m", |object| object["spec"]["computeOffering"] = json!({"name": "Large Instance"}));
    let replaced = server.wait_until(LIMIT, |server| server.list(TEMPLATES, SYSTEM).len() == 4).await;
    assert!(replaced, "{:?}", generated(&server));
    ready(&server, "prod").await;
    assert_eq!(failure(&server, "prod"), Default::default());
    drop(process);
    (server, site)
}

/// 2. What a check has found is taken back before what it stood against is done: whoever is stopped in between, or looks,
/// never sees objects of a cluster that says it cannot be made.
#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_a_failure_stands() {
    let (server, _site) = troubled().await;
    let mut stands = (String::new(), String::new());
    let mut written: BTreeMap<String, Value> = BTreeMap::new();
    let mut specs = 0;
    for (key, _, gone, object) in server.changes(0) {
        if key.resource == CLUSTERS && key.name == "prod" {
            stands = (text(&object, "failureReason"), text(&object, "failureMessage"));
        }
        if gone || !GENERATED.contains(&key.resource.as_str()) {
            continue;
        }
        // Statuses are written by others, at any time.
        let generation = object["metadata"]["generation"].clone();
        let name = format!("{} {}", key.resource, key.name);
        if written.insert(name.clone(), generation.clone()) != Some(generation) {
            specs += 1;
            assert_eq!(stands, Default::default(), "{name} is written");
        }
    }
    assert!(specs > 12, "only {specs} objects were written");
}

/// 3.
#[tokio::test(start_paused = true)]
async fn no_template_is_ever_changed() {
    let (server, _site) = troubled().await;
    let mut specs: BTreeMap<String, Value> = BTreeMap::new();
    for (key, _, _, object) in server.changes(0) {
        if [TEMPLATES, CONFIGS].contains(&key.resource.as_str()) {
            let first = specs.entry(key.name.clone()).or_insert_with(|| object["spec"].clone());
            assert_eq!(*first, object["spec"], "{}", key.name);
        }
    }
    assert!(specs.len() > 4, "{:?}", specs.keys());
}

/// 5.
#[tokio::test(start_paused = true)]
async fn a_datacenter_is_valid_by_the_last_certain_answer_about_this_generation() {
    let (server, site) = world();
    server.put(datacenter(&site, "dc")).unwrap();
    let _process = site.start(&server, site.config());
    let said = |server: &Server| {
        let object = server.get(DATACENTERS, NS, "dc").unwrap();
        let current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        current.then(|| object["status"]["specValid"].clone())
    };
    let name = |zone: &'static str| {
        move |object: &mut Value| object["spec"]["availabilityZones"][0]["zone"]["name"] = json!(zone)
    };
    assert!(server.wait_until(LIMIT, |server| said(server) == Some(json!(true))).await);
    // Nobody answers: what was said of this generation stays, and of another one nothing is known.
    let silent = Fault::refuse("*", 503, "the server is starting");
    site.acs.script(silent.clone().forever());
    pass(1_500).await;
    assert_eq!(said(&server), Some(json!(true)));
    change(&server, DATACENTERS, "dc", name("nowhere"));
    assert!(server.wait_until(LIMIT, |server| said(server) == Some(json!(false))).await);
    site.acs.clear_script();
    let certain = |server: &Server| {
        text(&server.get(DATACENTERS, NS, "dc").unwrap(), "failureMessage").contains("zone \"nowhere\" not found")
    };
    assert!(server.wait_until(LIMIT, certain).await);
    // What was said for certain is not taken back by silence.
    site.acs.script(silent.forever());
    pass(1_500).await;
    assert_eq!(said(&server), Some(json!(false)));
    site.acs.clear_script();
    change(&server, DATACENTERS, "dc", name("zone-1"));
    assert!(server.wait_until(LIMIT, |server| said(server) == Some(json!(true))).await);
}

/// 6.
#[tokio::test(start_paused = true)]
async fn reason_and_message_of_a_failure_come_and_go_together() {
    let (server, _site) = troubled().await;
    let mut reasons: Vec<String> = Vec::new();
    for (key, _, _, object) in server.changes(0) {
        if key.resource == CLUSTERS && key.name == "prod" {
            let (reason, message) = (text(&object, "failureReason"), text(&object, "failureMessage"));
            assert_eq!(reason.is_empty(), message.is_empty(), "{reason}: {message}");
            reasons.push(reason);
        }
    }
    reasons.dedup();
    reasons.retain(|reason| !reason.is_empty());
    let all = [
        "MissingDependentObjects",
        "ManagementClusterRefInvalid",
        "EksaVersionInvalid",
        "BundleNotFoundForCluster",
        "ClusterInvalid",
        "UnavailableControlPlaneIP",
        "DatacenterConfigInvalid",
        "MachineConfigInvalid",
    ];
    assert!(all.iter().all(|reason| reasons.iter().any(|seen| seen == reason)), "{reasons:?}");
}

/// 12. As many as there are workers but one: each fails in another way, one of them by taking all the time there is.
#[tokio::test(start_paused = true)]
async fn clusters_that_fail_delay_no_other() {
    let takes = |troubles: bool| async move {
        let (server, site) = world();
        server.put(datacenter(&site, "dc")).unwrap();
        server.put(machine("m", "kube-1.31", "Medium Instance")).unwrap();
        server.put(machine("none", "kube-1.31", "Nothing")).unwrap();
        let _process = site.start(&server, site.config());
        let add = |name: &str, number: u8, machine: &str| {
            let mut one = cluster(name);
            let plane = &mut one["spec"]["controlPlaneConfiguration"];
            plane["endpoint"]["host"] = json!(format!("172.16.2.{number}"));
            plane["machineGroupRef"]["name"] = json!(machine);
            server.put(one).unwrap();
        };
        if troubles {
            let writes = |name: &str| Rule::any().method("PATCH").path_contains(&format!("cloudstackclusters/{name}"));
            server.inject(writes("refused").always(), Action::Status(422));
            server.inject(writes("hangs").always(), Action::Hang);
            add("invalid", 1, "none");
            add("refused", 2, "m");
            add("hangs", 3, "m");
        }
        pass(600).await;
        let begun = (server.clock())();
        add("good", 4, "m");
        ready(&server, "good").await;
        if troubles {
            assert_eq!(failure(&server, "invalid").0, "MachineConfigInvalid");
            assert_eq!(failure(&server, "refused").0, "ClusterInvalid");
            assert!(server.get(PROVIDER, SYSTEM, "hangs").is_none());
        }
        Duration::try_from((server.clock())().duration_since(begun)).unwrap()
    };
    let (alone, among) = (takes(false).await, takes(true).await);
    assert!(among <= alone + Duration::from_secs(1), "{alone:?} alone, {among:?} among clusters that fail");
}
