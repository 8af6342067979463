//! A real API server calls our webhooks over certificates that two replicas keep for themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a real process runs by the real clock")]

use std::time::{Duration, Instant};

use kit::admission::{Admission, FieldError, FieldPath, OBJECT_LIMIT, Review, Verdict, failure_answer};
use kit::certs::{CertMetrics, SelfSigned, SelfSignedOptions, Slot, Targets};
use kit::clock::Clock;
use kit::gates::Gates;
use kit::serve::{Options, ServeMetrics, Server, Tls};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use sim::plane;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "edge-webhook-certs";

fn admission() -> Admission {
    Admission::new()
        .mutate::<Value>("/default", |_, object| {
            if object.pointer("/spec/size").is_none() {
                object["spec"]["size"] = json!(3);
            }
        })
        .validate::<Value, _>("/validate", |review: &Review<Value>| {
            let (mut verdict, spec) = (Verdict::default(), FieldPath::new("spec"));
            let size = |object: &Option<Value>| object.as_ref().and_then(|o| o.pointer("/spec/size")?.as_i64());
            match (size(&review.object), size(&review.old)) {
                (None, Some(99)) => verdict.errors.push(FieldError::forbidden(spec.field("size"), "99 stays")),
                (Some(new), old) => {
                    if new > 100 {
                        let text = new.to_string();
                        verdict.errors.push(FieldError::invalid(spec.field("size"), &text, "is more than 100"));
                        verdict.errors.push(FieldError::required(spec.field("reason"), "must say why"));
                    }
                    if old.is_some_and(|old| old != new) {
                        verdict.warnings.push("the size has changed".to_owned());
                    }
                }
                _ => {}
            }
            verdict
        })
}

fn configuration(kind: &str, port: u16) -> Value {
    let path = if kind.starts_with('M') { "default" } else { "validate" };
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": "edge.test", "labels": {"edge.test/webhook": "yes"}},
        "webhooks": [{"name": format!("{path}.edge.test"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "timeoutSeconds": 10,
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/{path}")},
            "rules": [{"apiGroups": ["edge.test"], "apiVersions": ["v1"], "resources": ["things"],
                "operations": ["CREATE", "UPDATE", "DELETE"]}]}]})
}

fn thing(name: &str, spec: Value) -> DynamicObject {
    serde_json::from_value(
        json!({"apiVersion": "edge.test/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}),
    )
    .unwrap()
}

async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "not seen in time: {what}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

struct Running {
    gates: Gates,
    slot: Slot,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// Two replicas with one address: the first serves, both keep the certificates.
async fn start(client: &Client, server: Server, replicas: usize) -> Running {
    let (gates, stop, mut tasks) = (Gates::new(), CancellationToken::new(), JoinSet::new());
    let slots: Vec<Slot> = (0..replicas).map(|_| Slot::new()).collect();
    for (number, slot) in slots.iter().enumerate() {
        let options = SelfSignedOptions {
            namespace: "default".to_owned(),
            secret: SECRET.to_owned(),
            names: ["127.0.0.1".to_owned()].into(),
            targets: Targets::Labelled("edge.test/webhook=yes".to_owned()),
        };
        let gate = gates.gate(&format!("certs-{number}"));
        let keeper =
            SelfSigned::new(client.clone(), Clock::system(), options, slot.clone(), gate, CertMetrics::default());
        tasks.spawn(keeper.run(stop.clone()));
    }
    let (router, tls, token) = (admission().router().unwrap(), Tls::new(slots[0].clone()), stop.clone());
    let server = server.on_failure(failure_answer).metrics(ServeMetrics::default());
    tasks.spawn(async move { server.run(router, Some(tls), token).await.unwrap() });
    Running { gates, slot: slots[0].clone(), stop, tasks }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_defaults_validates_and_keeps_trusting_while_certificates_change() {
    let Some(plane) = plane::for_test("webhooks on a real server") else { return };
    let client = plane.client().await.unwrap();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.edge.test"}, "spec": {"group": "edge.test", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    plane::install_crds(&client, vec![definition]).await.unwrap();
    let server = Server::bind(Options::new("webhooks", "127.0.0.1:0".parse().unwrap())).await.unwrap();
    let port = server.address().port();
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        plane::apply(&client, &configuration(kind, port)).await.unwrap();
    }
    let Running { gates, slot, stop, mut tasks } = start(&client, server, 2).await;
    tokio::time::timeout(PATIENCE, gates.until_ready()).await.expect("both replicas are ready");

    let gvk = GroupVersionKind::gvk("edge.test", "v1", "Thing");
    let things: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk_with_plural(&gvk, "things"));
    let create = PostParams::default();
    // The server learns of the configurations a moment after we do.
    let probe = eventually("an object is defaulted", async || {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        things.create(&dry, &thing("probe", json!({}))).await.ok().filter(|made| made.data["spec"]["size"] == json!(3))
    })
    .await;
    assert_eq!(probe.name_any(), "probe");

    let made = things.create(&create, &thing("one", json!({"unknown": {"kept": true}}))).await.unwrap();
    assert_eq!(made.data["spec"], json!({"size": 3, "unknown": {"kept": true}}));

    let refused = |error: kube::Error| match error {
        kube::Error::Api(status) => status,
        other => panic!("{other:?}"),
    };
    let status = refused(things.create(&create, &thing("two", json!({"size": 101}))).await.unwrap_err());
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(
        status.message,
        "admission webhook \"validate.edge.test\" denied the request: Thing.edge.test \"two\" is invalid: \
         [spec.size: \"101\" is more than 100, spec.reason: must say why]"
    );
    let fields: Vec<String> = status.details.unwrap().causes.into_iter().map(|cause| cause.field).collect();
    assert_eq!(fields, ["spec.size", "spec.reason"]);

    let large = thing("large", json!({"text": "x".repeat(OBJECT_LIMIT)}));
    let status = refused(things.create(&create, &large).await.unwrap_err());
    assert!(status.code == 413 && status.message.contains("more than the 524288"), "{status:?}");

    let merge = |spec: Value| Patch::Merge(json!({"spec": spec}));
    things.patch("one", &PatchParams::default(), &merge(json!({"size": 99}))).await.unwrap();
    let status = refused(things.delete("one", &DeleteParams::default()).await.unwrap_err());
    assert!(status.message.contains("spec.size: 99 stays"), "{status:?}");

    // The leaf is spoilt, so both replicas race to issue another, while the server goes on calling.
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(client.clone(), "default");
    let before = secrets.get(SECRET).await.unwrap().data.unwrap();
    secrets
        .patch(SECRET, &PatchParams::default(), &Patch::Merge(json!({"data": {"tls.key": "anVuaw=="}})))
        .await
        .unwrap();
    let shown = slot.validity();
    // Any change of a target makes both look, and so finds the spoilt leaf.
    let poke = json!({"metadata": {"annotations": {"edge.test/poke": "1"}}});
    let validating: Api<k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration> =
        Api::all(client.clone());
    validating.patch("edge.test", &PatchParams::default(), &Patch::Merge(poke)).await.unwrap();
    let mut size = 0;
    let after = eventually("a new leaf is stored and served", async || {
        size = (size + 1) % 50;
        let patched = things.patch("one", &PatchParams::default(), &merge(json!({"size": size}))).await;
        patched.expect("the webhook is trusted all the time");
        let data = secrets.get(SECRET).await.unwrap().data.unwrap();
        (data["tls.crt"] != before["tls.crt"] && slot.validity() != shown).then_some(data)
    })
    .await;
    assert_eq!(after["ca.crt"], before["ca.crt"], "the authority is the same");

    // A configuration that is made anew is trusted again without waiting for the regular look.
    validating.delete("edge.test", &DeleteParams::default()).await.unwrap();
    plane::apply(&client, &configuration("ValidatingWebhookConfiguration", port)).await.unwrap();
    eventually("the new configuration is trusted", async || {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let error = things.create(&dry, &thing("three", json!({"size": 101}))).await.err()?;
        matches!(error, kube::Error::Api(status) if status.code == 422).then_some(())
    })
    .await;

    stop.cancel();
    while let Some(ended) = tokio::time::timeout(PATIENCE, tasks.join_next()).await.unwrap() {
        ended.unwrap();
    }
}
