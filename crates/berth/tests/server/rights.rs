//! The generated rules are enough, and none of them is there for nothing.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sim::plane;

use crate::support::{Operator, World, documents};

const NAMESPACE: &str = "berth-rules";

#[tokio::test]
async fn the_generated_rules_are_enough_and_each_is_used() {
    let Some(world) = World::enter("the_generated_rules_are_enough_and_each_is_used").await else { return };
    world.bare().await;
    let rules = documents(&["rbac"]);
    let [everywhere, here, system] = rules.as_slice() else { panic!("three lists of rules: {rules:?}") };
    let kubeconfig = plane::account(world.plane, NAMESPACE, everywhere, here).await.unwrap();
    plane::grant(world.plane, NAMESPACE, "eksa-system", system).await.unwrap();
    let kubeconfig_dir = tempfile::tempdir().unwrap();
    let path = kubeconfig_dir.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    // A configuration without an authority, so that there is something to inject.
    for mut webhooks in documents(&["webhooks"]) {
        for hook in webhooks["webhooks"].as_array_mut().unwrap() {
            hook["rules"] = json!([]);
        }
        world.apply(&webhooks).await;
    }

    let mark = world.mark();
    let port = plane::free_port().unwrap().to_string();
    let mut operator = Operator::start_as(
        &path,
        &[
            "--leader-elect",
            "--leader-elect-resource-namespace",
            NAMESPACE,
            "--webhook-self-signed",
            "--webhook-port",
            &port,
            "--webhook-bind-host",
            "127.0.0.1",
        ],
    );
    operator.ready().await;
    operator.says("waiting for the kind HostClaimKind").await;
    operator.says("this replica decides").await;
    plane::install_crds(&world.client, documents(&["crds"])).await.unwrap();
    world.create_kind("ruled").await;
    world.judged("ruled", "False", "HeartbeatMissing").await;
    world.event("ruled", "HeartbeatMissing").await;
    world.heartbeat("ruled").await;
    world.judged("ruled", "True", "ControllerAlive").await;
    world.event("ruled", "ControllerAlive").await;
    world.trusted().await;
    operator.stop().await;

    let user = format!("system:serviceaccount:{NAMESPACE}:{NAMESPACE}");
    let requests = world.requests(mark);
    assert!(requests.iter().all(|request| request.user == user), "somebody else used our name");
    let refused: Vec<_> = requests.iter().filter(|request| matches!(request.code, 401 | 403)).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let used: BTreeSet<_> = requests.iter().map(|r| (r.group.clone(), r.resource.clone())).collect();
    let granted: BTreeSet<_> = [everywhere, here, system].into_iter().flat_map(granted).collect();
    assert!(granted.len() >= 8, "{granted:?}");
    // What these rooms may do is used where they have something to do.
    let rooms = [
        vip::rights::RIGHTS,
        claims::rights::RIGHTS,
        machines::rights::RIGHTS,
        machines::data::rights::RIGHTS,
        machines::remediation::rights::RIGHTS,
        hosts::rights::RIGHTS,
        capacity::rights::RIGHTS,
        clusters::rights::RIGHTS,
    ];
    let elsewhere: BTreeSet<(String, String)> = rooms
        .into_iter()
        .flatten()
        .flat_map(|right| right.resources.iter().map(|resource| (right.group.to_owned(), (*resource).to_owned())))
        .collect();
    let unused: Vec<_> = granted.difference(&used).filter(|right| !elsewhere.contains(right)).collect();
    assert!(unused.is_empty(), "granted and never used: {unused:?}");
}

/// The groups and resources of a list of rules.
fn granted(rules: &Value) -> Vec<(String, String)> {
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut found = Vec::new();
    for rule in rules.as_array().unwrap() {
        for group in strings(&rule["apiGroups"]) {
            found.extend(strings(&rule["resources"]).into_iter().map(|resource| (group.clone(), resource)));
        }
    }
    found
}
