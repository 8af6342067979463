//! Clusters are served by the identity that they name, and nobody by another's.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use capacity::config::Config;
use serde_json::{Value, json};
use sim::server::Server;

use crate::life::{idle, world};
use crate::objects::*;

const HOME: &str = "berth-system";
const SOON: Duration = Duration::from_secs(10);

fn config_with_identities() -> Config {
    Config { cluster_identity: true, ..config() }
}

fn keys(name: &str, id: &str) -> Value {
    let data = json!({"AccessKeyID": STANDARD.encode(id), "SecretAccessKey": STANDARD.encode("s")});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": HOME}, "data": data})
}

fn static_identity(name: &str, secret: &str, allowed: &Value) -> Value {
    identity("AWSClusterStaticIdentity", name, &json!({"allowedNamespaces": allowed, "secretRef": secret}))
}

/// A cluster of one deployment in a namespace, with the identity it names.
fn tenant(server: &Server, namespace: &str, reference: &Value) {
    server.namespace(namespace);
    let mut network = aws_cluster("us-west-2");
    network["spec"]["identityRef"] = reference.clone();
    let all =
        [cluster(("AWSCluster", "c"), None), network, template("t", "m5.xlarge"), group("MachineDeployment", "d", "t")];
    for mut object in all {
        object["metadata"]["namespace"] = json!(namespace);
        server.put(object).unwrap();
    }
}

fn told(part: &'static str) -> impl FnMut(&Server) -> bool {
    move |server| events(server, "d").iter().any(|(_, note)| note.contains(part))
}

const ROLE: &str = "arn:aws:iam::123456789012:role/tenant";

/// A tenant with a role that is taken on with the keys of a static identity.
fn chained(server: &Server, role_allows: &Value) {
    tenant(server, NS, &json!({"kind": "AWSClusterRoleIdentity", "name": "tenant"}));
    server.put(role(role_allows)).unwrap();
    server.put(static_identity("keys", "keys", &json!({"selector": {"matchLabels": {"aws": "yes"}}}))).unwrap();
    server.namespace(HOME);
}

fn role(allowed: &Value) -> Value {
    let source = json!({"kind": "AWSClusterStaticIdentity", "name": "keys"});
    let spec = json!({"allowedNamespaces": allowed, "roleARN": ROLE, "sourceIdentityRef": source});
    identity("AWSClusterRoleIdentity", "tenant", &spec)
}

fn label(server: &Server) {
    server.edit("namespaces", "", NS, |object| object["metadata"]["labels"]["aws"] = json!("yes")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_allow_the_namespace_or_lacks_keys_is_named() {
    for (allowed, labelled, part) in [
        (json!({"list": ["somebody-else"]}), true, "AWSClusterRoleIdentity tenant does not allow the namespace team"),
        (Value::Null, true, "AWSClusterRoleIdentity tenant does not allow the namespace team"),
        (json!({}), false, "AWSClusterStaticIdentity keys does not allow the namespace team"),
        (json!({}), true, "Secret berth-system/keys is not there"),
    ] {
        let (server, cloud) = world();
        chained(&server, &allowed);
        if labelled {
            label(&server);
        }
        let _process = running(&server, config_with_identities(), cloud.clone());
        assert!(server.wait_until(LIMIT, told(part)).await, "{part}: {:?}", events(&server, "d"));
        assert_eq!((events(&server, "d")[0].0.as_str(), cloud.calls()), ("FailedUpdate", 0), "{part}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_is_taken_on_with_the_keys_of_its_source_once_both_allow_the_namespace() {
    let (server, cloud) = world();
    chained(&server, &json!({"list": ["somebody-else"]}));
    let _process = running(&server, config_with_identities(), cloud.clone());
    idle().await;
    server.put(role(&json!({}))).unwrap();
    idle().await;
    label(&server);
    idle().await;
    assert_eq!(cloud.calls(), 0, "nobody else's credentials are used meanwhile");
    server.put(keys("keys", "AKTENANT")).unwrap();
    assert!(server.wait_until(SOON, has(DEPLOYMENTS, NS, "d", "cpu", "4")).await, "each of the four is followed");
    let (doors, used) = (cloud.doors(), format!("role {ROLE} from keys AKTENANT"));
    assert!(!doors.is_empty() && doors.iter().all(|door| door.source.describe() == used), "{doors:?}");
}

#[tokio::test(start_paused = true)]
async fn an_identity_that_is_not_there_is_named_and_waited_for() {
    let (server, cloud) = world();
    tenant(&server, NS, &json!({"kind": "AWSClusterControllerIdentity", "name": "default"}));
    let _process = running(&server, config_with_identities(), cloud.clone());
    assert!(server.wait_until(LIMIT, told("AWSClusterControllerIdentity default is not there")).await);
    idle().await;
    assert_eq!((events(&server, "d").len(), cloud.calls()), (1, 0), "told once, and not served by anybody else");
    let spec = json!({"allowedNamespaces": {"list": [NS]}});
    server.put(identity("AWSClusterControllerIdentity", "default", &spec)).unwrap();
    assert!(server.wait_until(SOON, has(DEPLOYMENTS, NS, "d", "cpu", "4")).await);
    assert_eq!(cloud.doors()[0].source.describe(), "keys AKIDAMBIENT", "the process's own");
}

#[tokio::test(start_paused = true)]
async fn an_identity_of_an_unknown_kind_is_refused_by_name() {
    let (server, cloud) = world();
    tenant(&server, NS, &json!({"kind": "AWSClusterMagicIdentity", "name": "x"}));
    let _process = running(&server, config_with_identities(), cloud.clone());
    assert!(server.wait_until(LIMIT, told("the kind \"AWSClusterMagicIdentity\" is unknown")).await);
    assert_eq!(cloud.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_the_flag_or_a_reference_identities_are_not_looked_at() {
    for (flag, reference) in [(false, json!({"kind": "AWSClusterRoleIdentity", "name": "gone"})), (true, Value::Null)] {
        let (server, cloud) = world();
        tenant(&server, NS, &reference);
        let _process = running(&server, Config { cluster_identity: flag, ..config() }, cloud.clone());
        assert!(server.wait_until(LIMIT, has(DEPLOYMENTS, NS, "d", "cpu", "4")).await, "{reference}");
        assert_eq!(cloud.doors()[0].source.describe(), "keys AKIDAMBIENT");
        assert_eq!(events(&server, "d"), []);
    }
}

#[tokio::test(start_paused = true)]
async fn keys_that_were_replaced_are_used_at_once() {
    let (server, cloud) = world();
    server.namespace(HOME);
    tenant(&server, NS, &json!({"kind": "AWSClusterStaticIdentity", "name": "keys"}));
    server.put(static_identity("keys", "keys", &json!({}))).unwrap();
    server.put(keys("keys", "AKOLD")).unwrap();
    cloud.refuse("keys AKOLD");
    let _process = running(&server, config_with_identities(), cloud.clone());
    assert!(server.wait_until(LIMIT, told("UnauthorizedOperation")).await);
    // Long enough that the next attempt by itself would be minutes away.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let before = cloud.doors().len();
    server.put(keys("keys", "AKNEW")).unwrap();
    assert!(server.wait_until(SOON, has(DEPLOYMENTS, NS, "d", "cpu", "4")).await);
    let since: Vec<_> = cloud.doors()[before..].iter().map(|door| door.source.describe()).collect();
    assert!(!since.is_empty() && since.iter().all(|source| source == "keys AKNEW"), "{since:?}");
}

#[tokio::test(start_paused = true)]
async fn bad_keys_of_one_tenant_hold_up_nobody_else_in_the_region() {
    let (server, cloud) = world();
    server.namespace(HOME);
    for (name, namespace) in [("bad", "team-a"), ("good", "team-b")] {
        tenant(&server, namespace, &json!({"kind": "AWSClusterStaticIdentity", "name": name}));
        server.put(static_identity(name, name, &json!({"list": [namespace]}))).unwrap();
        server.put(keys(name, &format!("AK-{name}"))).unwrap();
    }
    cloud.refuse("keys AK-bad");
    let _process = running(&server, config_with_identities(), cloud.clone());
    assert!(server.wait_until(SOON, has(DEPLOYMENTS, "team-b", "d", "cpu", "4")).await);
    let of = |namespace: &str| -> Vec<Value> { server.list(EVENTS, namespace) };
    assert_eq!(of("team-b"), Vec::<Value>::new(), "it hears nothing of the other's keys");
    // Types are public: what one tenant was told serves all.
    assert!(server.wait_until(LIMIT, has(DEPLOYMENTS, "team-a", "d", "cpu", "4")).await);
    assert!(cloud.calls() <= 4, "{} calls", cloud.calls());
}
