//! Claims, policies and quotas as the real server takes them: by its own rules, and by ours.

use http_body_util::BodyExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use sim::plane;

use crate::admission::{self, register};
use crate::support::{Operator, SOON, World, kind, within};

const NAMESPACE: &str = "claims-rules";

fn claims(world: &World, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("metal3.io", "v1alpha1", "HostClaim"));
    Api::namespaced_with(world.client.clone(), namespace, &resource)
}

fn claim(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
}

fn policy(spec: &Value) -> Value {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
        "metadata": {"name": "p", "namespace": NAMESPACE}, "spec": spec})
}

fn quota(spec: &Value) -> Value {
    json!({"apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimQuota", "metadata": {"name": "q"}, "spec": spec})
}

/// The plural and, for namespaced kinds, the place of an object of ours.
fn path(object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str();
    let place = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    let plural = match object["kind"].as_str().unwrap() {
        "HostDeployPolicy" => "hostdeploypolicies".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    format!("/apis/{}{place}/{plural}", object["apiVersion"].as_str().unwrap())
}

/// What the server says to a creation that stores nothing: the object or the refusal, and the warnings.
async fn try_create(world: &World, object: &Value) -> (Result<Value, String>, Vec<String>) {
    let request = http::Request::post(format!("{}?dryRun=All&fieldValidation=Strict", path(object)))
        .header("content-type", "application/json")
        .body(kube::client::Body::from(object.to_string().into_bytes()))
        .unwrap();
    let answer = world.client.send(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    let warnings = parts.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect();
    let outcome = match parts.status.as_u16() {
        200 | 201 => Ok(body),
        _ => Err(body["message"].as_str().unwrap().to_owned()),
    };
    (outcome, warnings)
}

async fn merge(world: &World, name: &str, patch: &Value) -> Result<DynamicObject, String> {
    let patched = claims(world, NAMESPACE).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map_err(|error| error.to_string())
}

async fn merge_status(world: &World, name: &str, status: &Value) {
    let patch = json!({"status": status});
    let api = claims(world, NAMESPACE);
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("the status is stored");
}

#[tokio::test]
async fn the_server_itself_keeps_the_rules_of_claims() {
    let Some(world) = World::enter("the_server_itself_keeps_the_rules_of_claims").await else { return };
    world.installed().await;
    world.namespace(NAMESPACE).await;
    let term = |operator: &str, values: Value| {
        json!({"poweredOn": true, "hostSelector": {"matchExpressions": [
            {"key": "a", "operator": operator, "values": values}]}})
    };
    let image = |image: Value| json!({"poweredOn": true, "image": image});
    let args = |count: usize| {
        let args: serde_json::Map<String, Value> = (0..count).map(|n| (format!("a{n}"), json!("v"))).collect();
        json!({"poweredOn": true, "args": args})
    };
    // Each row: the spec, and what the refusal must say; nothing for what must be let in.
    let rows = [
        (json!({"poweredOn": true}), ""),
        (json!({"online": false}), ""),
        (json!({"poweredOn": true, "online": true}), ""),
        (json!({}), "poweredOn must be given"),
        (json!({"poweredOn": true, "online": false}), "must not differ"),
        (json!({"poweredOn": true, "kind": "Not A Label"}), "spec.kind"),
        (args(64), ""),
        (args(65), "spec.args"),
        (json!({"poweredOn": true, "args": {"x".repeat(64): "v"}}), "argument names have 1 to 63 characters"),
        (json!({"poweredOn": true, "args": {"a": "v".repeat(4097)}}), "spec.args.a"),
        (term("=", json!(["b"])), ""),
        (term("NotIn", json!(["b", "c"])), ""),
        (term("DoesNotExist", json!([])), ""),
        (json!({"poweredOn": true, "hostSelector": {"matchExpressions": [{"key": "a", "operator": "exists"}]}}), ""),
        (term("lt", json!(["-4"])), ""),
        (term("=", json!(["b", "c"])), "=, == and != need exactly one value"),
        (term("notin", json!([])), "in and notin need at least one value"),
        (term("!", json!(["b"])), "exists and ! take no value"),
        (term("Gt", json!(["many"])), "gt and lt need exactly one value, a whole number"),
        (term("like", json!(["b"])), "Unsupported value: \"like\""),
        (image(json!({"url": "https://i.example/a", "checksum": "c"})), ""),
        (image(json!({"url": "OCI://i.example/a"})), ""),
        (image(json!({"url": "http://i.example/a.iso", "format": "live-iso"})), ""),
        (image(json!({"url": "file:///etc/shadow", "checksum": "c"})), "with the scheme http, https or oci"),
        (image(json!({"url": "images/a.qcow2", "checksum": "c"})), "with the scheme http, https or oci"),
        (image(json!({"url": "https://i.example/a"})), "checksum must be given"),
        (image(json!({"url": "oci://i.example/a", "checksum": "c"})), "checksum must not be given"),
        (image(json!({"url": "https://i.example/a", "checksum": "c", "checksumType": "crc"})), "checksumType"),
        (json!({"poweredOn": true, "customDeploy": {"method": "m"}}), ""),
        (
            json!({"poweredOn": true, "customDeploy": {"method": "m"}, "image": {"url": "oci://i.example/a"}}),
            "image and customDeploy exclude each other",
        ),
        (json!({"poweredOn": true, "nodeReuse": ""}), "spec.nodeReuse"),
        (json!({"poweredOn": true, "failureDomain": ""}), "spec.failureDomain"),
        (json!({"poweredOn": true, "failureDomainMode": "Perhaps"}), "spec.failureDomainMode"),
        (json!({"poweredOn": true, "priority": 2_000_000_000}), "spec.priority"),
    ];
    for (spec, wanted) in rows {
        let (outcome, _) = try_create(&world, &claim("rules", &spec)).await;
        match (outcome, wanted) {
            (Ok(stored), "") => {
                let defaults = ["kind", "failureDomainMode", "priority", "onHostFailure"].map(|f| &stored["spec"][f]);
                assert_eq!(defaults, [&json!("baremetal"), &json!("Preferred"), &json!(0), &json!("Wait")], "{spec}");
            }
            (Err(message), wanted) if !wanted.is_empty() => assert!(message.contains(wanted), "{spec}: {message}"),
            (outcome, _) => panic!("{spec}: {outcome:?}, wanted {wanted:?}"),
        }
    }
    let policies = [
        (json!({}), ""),
        (json!({"hostClaimNamespaces": {"names": ["a", "a"], "hasLabels": [{"name": "x"}]}, "maxHosts": 0}), ""),
        (json!({"maxHosts": -1}), "spec.maxHosts"),
        (json!({"selectableLabels": "x".repeat(513)}), "spec.selectableLabels"),
    ];
    for (spec, wanted) in policies {
        let (outcome, _) = try_create(&world, &policy(&spec)).await;
        assert_eq!(outcome.is_ok(), wanted.is_empty(), "{spec}: {outcome:?}");
        assert!(outcome.is_ok() || outcome.clone().unwrap_err().contains(wanted), "{spec}: {outcome:?}");
    }
}

#[tokio::test]
async fn the_server_itself_refuses_changes_under_a_machine() {
    let Some(world) = World::enter("the_server_itself_refuses_changes_under_a_machine").await else { return };
    world.installed().await;
    world.namespace(NAMESPACE).await;
    let image = json!({"url": "https://i.example/a", "checksum": "c"});
    world.apply(&claim("kept", &json!({"poweredOn": true, "args": {"a": "1"}, "image": image}))).await;

    let refused = merge(&world, "kept", &json!({"spec": {"kind": "other"}})).await.unwrap_err();
    assert!(refused.contains("kind cannot be changed"), "{refused}");
    merge(&world, "kept", &json!({"spec": {"args": {"a": "2"}}})).await.expect("no machine yet");
    merge(&world, "kept", &json!({"spec": {"image": {"checksum": "d"}}})).await.expect("no machine yet");

    let host = json!({"namespace": "metal", "name": "h"});
    merge_status(&world, "kept", &json!({"bareMetalHost": host, "provisioningState": "Available"})).await;
    let refused = merge(&world, "kept", &json!({"spec": {"args": {"a": "3"}}})).await.unwrap_err();
    assert!(refused.contains("spec.args cannot be changed"), "{refused}");
    let refused = merge(&world, "kept", &json!({"spec": {"args": null}})).await.unwrap_err();
    assert!(refused.contains("spec.args cannot be changed"), "{refused}");
    merge(&world, "kept", &json!({"spec": {"image": {"checksum": "e"}}})).await.expect("nothing is deployed yet");
    merge(&world, "kept", &json!({"spec": {"poweredOn": false, "hostSelector": {"matchLabels": {"a": "b"}}}}))
        .await
        .expect("what may change");

    for status in [
        json!({"provisioningState": "Provisioning"}),
        json!({"provisioningState": "Error"}),
        json!({"provisioningState": "Unknown", "image": {"url": "https://i.example/a"}}),
    ] {
        merge_status(&world, "kept", &status).await;
        for change in [
            json!({"image": {"checksum": "f"}}),
            json!({"image": {"url": "https://i.example/b"}}),
            json!({"image": {"format": "raw"}}),
            json!({"image": null, "customDeploy": {"method": "m"}}),
        ] {
            let refused = merge(&world, "kept", &json!({"spec": change})).await.unwrap_err();
            assert!(refused.contains("cannot be changed while the host has one"), "{change}: {refused}");
        }
        merge(&world, "kept", &json!({"spec": {"image": {"ociAuthSecretName": "s"}}})).await.expect("credentials may");
    }
    merge(&world, "kept", &json!({"spec": {"image": null}})).await.expect("an image may go");
    merge(&world, "kept", &json!({"spec": {"image": {"url": "oci://i.example/b"}}})).await.expect("and another come");
}

/// A replica that serves the webhooks, known to the server.
async fn served(world: &World) -> Operator {
    let dir = world.plane.webhook_cert_dir().unwrap();
    let port = plane::free_port().unwrap();
    let mut operator = admission::served(world, port, &dir, &[]);
    operator.ready().await;
    register(world, port, Some(&world.plane.ca().unwrap())).await;
    within(SOON, "the server asks the webhooks", async || {
        let (outcome, _) = try_create(world, &claim("probe", &json!({"online": true}))).await;
        (outcome.ok()?["metadata"]["finalizers"] == json!(["metal3.io/hostclaim"])).then_some(())
    })
    .await;
    operator
}

#[tokio::test]
async fn claims_are_stored_in_one_form_and_checked_beyond_the_schema() {
    let Some(world) = World::enter("claims_are_stored_in_one_form_and_checked_beyond_the_schema").await else {
        return;
    };
    world.installed().await;
    world.namespace(NAMESPACE).await;
    let operator = served(&world).await;

    // First only reserved, then switched on with an image: both under the older name of the power field, as kubectl
    // and as other clients apply it.
    let reserve = json!({"online": false, "kind": "baremetal", "hostSelector": {"matchLabels": {"infra-kind": "medium"},
        "matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}, {"key": "rack", "operator": "In", "values": ["a"]}]}});
    let mut deploy = reserve.clone();
    let image = json!({"checksum": "https://url_image.qcow2.md5", "url": "https://url_image.qcow2", "format": "qcow2"});
    for (field, value) in [
        ("online", json!(true)),
        ("image", image.clone()),
        ("userData", json!({"name": "my-user-data"})),
        ("networkData", json!({"name": "my-network-data"})),
    ] {
        deploy[field] = value;
    }
    let stored = world.apply(&claim("my-host", &reserve)).await;
    assert_eq!(stored.metadata.finalizers, Some(vec!["metal3.io/hostclaim".to_owned()]));
    let spec = &stored.data["spec"];
    assert_eq!((&spec["poweredOn"], &spec["online"]), (&json!(false), &Value::Null));
    let operators: Vec<&Value> =
        spec["hostSelector"]["matchExpressions"].as_array().unwrap().iter().map(|term| &term["operator"]).collect();
    assert_eq!(operators, ["!", "in"]);
    assert_eq!(stored.metadata.generation, Some(1));
    let again = world.apply(&claim("my-host", &reserve)).await;
    assert_eq!(again.metadata.generation, Some(1), "the same manifest changes nothing");
    let deployed = world.apply(&claim("my-host", &deploy)).await;
    let spec = &deployed.data["spec"];
    assert_eq!((&spec["poweredOn"], &spec["online"], &spec["image"]), (&json!(true), &Value::Null, &image));
    let off = merge(&world, "my-host", &json!({"spec": {"online": false}})).await.expect("by the older name");
    assert_eq!((&off.data["spec"]["poweredOn"], &off.data["spec"]["online"]), (&json!(false), &Value::Null));

    // Other namespaces' Secrets, labels that cannot exist and orders nobody understands; all at once, each by its path.
    let mut broken = claim(
        "broken",
        &json!({"poweredOn": true, "userData": {"name": "s", "namespace": "metal"},
        "hostSelector": {"matchLabels": {"a": "b c"}}, "args": {"a": "b"}}),
    );
    broken["metadata"]["annotations"] = json!({"reboot.metal3.io": "now"});
    let message = try_create(&world, &broken).await.0.unwrap_err();
    for part in [
        "spec.userData.namespace",
        "spec.hostSelector.matchLabels[a]",
        "spec.args[a]",
        "metadata.annotations[reboot.metal3.io]",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }

    // The registry is asked once it lists anything.
    let other = claim("other", &json!({"poweredOn": true, "kind": "ship", "args": {"zone": "a"}}));
    assert!(try_create(&world, &other).await.0.is_ok());
    world.apply(&kind("boat", json!({}))).await;
    let message = within(SOON, "an unknown kind is refused", async || try_create(&world, &other).await.0.err()).await;
    assert!(message.contains("spec.kind") && message.contains("ship"), "{message}");
    world.apply(&kind("ship", json!({"zone": {"enum": ["b"]}}))).await;
    let message = within(SOON, "its arguments are checked", async || {
        let message = try_create(&world, &other).await.0.err()?;
        message.contains("spec.args[zone]").then_some(message)
    })
    .await;
    assert!(message.contains("must be one of: b"), "{message}");
    let ship = claim("other", &json!({"poweredOn": true, "kind": "ship", "args": {"zone": "b"}, "nodeReuse": "g"}));
    let (outcome, warnings) = try_create(&world, &ship).await;
    assert_eq!(outcome.unwrap()["metadata"]["finalizers"], json!(["ship.berth.dev/hostclaim"]));
    assert!(warnings.iter().any(|warning| warning.contains("spec.nodeReuse")), "{warnings:?}");

    let (outcome, warnings) =
        try_create(&world, &policy(&json!({"hostClaimNamespaces": {"nameMatches": "prod"}}))).await;
    assert!(outcome.is_ok() && warnings.iter().any(|warning| warning.contains("nameMatches")), "{warnings:?}");
    let message = try_create(&world, &policy(&json!({"selectableLabels": "(?=a)"}))).await.0.unwrap_err();
    assert!(message.contains("spec.selectableLabels"), "{message}");
    let fine = json!({"tenants": {"names": ["default"]}, "hard": {"hosts": 3}});
    let (outcome, warnings) = try_create(&world, &quota(&fine)).await;
    assert!(outcome.is_ok() && warnings.is_empty(), "{outcome:?} {warnings:?}");
    let broken = json!({"tenants": {"namespaceSelector": {"matchLabels": {"a b": "c"}}}, "hard": {"hosts": 3}});
    let message = try_create(&world, &quota(&broken)).await.0.unwrap_err();
    assert!(message.contains("spec.tenants.namespaceSelector"), "{message}");

    // What is stored broken can still be repaired, labelled and deleted.
    world.unregistered().await;
    world.apply(&claim("stale", &json!({"poweredOn": true, "userData": {"name": "s", "namespace": "metal"}}))).await;
    operator.stop().await;
    let operator = served(&world).await;
    merge(&world, "stale", &json!({"metadata": {"labels": {"a": "b"}}})).await.expect("labelled");
    let refused = merge(&world, "stale", &json!({"spec": {"poweredOn": false}})).await.unwrap_err();
    assert!(refused.contains("spec.userData.namespace"), "{refused}");
    claims(&world, NAMESPACE).delete("stale", &Default::default()).await.expect("deleted");
    operator.stop().await;
    world.unclaimed().await;
}

#[tokio::test]
async fn our_examples_are_taken_without_a_word() {
    let Some(world) = World::enter("our_examples_are_taken_without_a_word").await else { return };
    world.installed().await;
    for namespace in ["team-a", "metal"] {
        world.namespace(namespace).await;
    }
    let operator = served(&world).await;
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/claims");
    let mut seen = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            *seen.entry(document["kind"].as_str().unwrap().to_owned()).or_insert(0) += 1;
            if document["kind"] != "Secret" {
                let (outcome, warnings) = try_create(&world, &document).await;
                assert!(outcome.is_ok() && warnings.is_empty(), "{document}: {outcome:?} {warnings:?}");
            }
            world.apply(&document).await;
        }
    }
    let wanted = [("HostClaim", 2), ("HostClaimQuota", 1), ("HostDeployPolicy", 1), ("Secret", 3)];
    assert_eq!(seen, wanted.map(|(kind, count)| (kind.to_owned(), count)).into());
    operator.stop().await;
    world.unclaimed().await;
}
