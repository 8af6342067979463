//! The self-managed authority with several replicas on one API server, reduced to what they use of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kit::certs::{
    Action, Bundle, CertMetrics, Facts, Injected, Pair, SelfSigned, SelfSignedOptions, Slot, Target, TargetKind,
    Targets, plan,
};
use kit::clock::Clock;
use kit::gates::Gates;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

/// Objects by path, with resource versions, create conflicts, guarded merge patches and JSON patches.
#[derive(Clone, Default)]
struct World {
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
    log: Arc<Mutex<Vec<String>>>,
    dice: Option<Clock>,
}

impl World {
    fn new(seed: u64) -> Self {
        let dice = Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap(), seed);
        Self { dice: Some(dice), ..Self::default() }
    }

    fn client(&self) -> Client {
        let world = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let world = world.clone();
            async move {
                // Where requests of several replicas meet is left to the dice.
                for _ in 0..world.dice.as_ref().unwrap().roll() % 7 {
                    tokio::task::yield_now().await;
                }
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await.unwrap().to_bytes();
                let kind = parts.headers.get("content-type").map_or("", |v| v.to_str().unwrap()).to_owned();
                let (code, answer) = world.answer(&parts.method, parts.uri.path(), &kind, &bytes);
                for _ in 0..world.dice.as_ref().unwrap().roll() % 7 {
                    tokio::task::yield_now().await;
                }
                let body = Full::new(Bytes::from(answer.to_string()));
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, method: &Method, path: &str, kind: &str, body: &[u8]) -> (u16, Value) {
        let mut objects = self.objects.lock().unwrap();
        self.log.lock().unwrap().push(format!("{method} {path}"));
        let status = |code: u16, reason: &str| {
            (
                code,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason}),
            )
        };
        let next = |version: &Value| (version.as_str().unwrap_or("0").parse::<u64>().unwrap() + 1).to_string();
        if *method == Method::POST {
            let mut object: Value = serde_json::from_slice(body).unwrap();
            let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
            if objects.contains_key(&path) {
                return status(409, "AlreadyExists");
            }
            object["metadata"]["resourceVersion"] = json!("1");
            objects.insert(path, object.clone());
            return (201, object);
        }
        let list = format!("{path}/");
        if *method == Method::GET && ["configurations", "definitions"].iter().any(|end| path.ends_with(end)) {
            let items: Vec<Value> =
                objects.iter().filter(|(key, _)| key.starts_with(&list)).map(|(_, object)| object.clone()).collect();
            return (
                200,
                json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}),
            );
        }
        let Some(object) = objects.get_mut(path) else { return status(404, "NotFound") };
        if *method == Method::PATCH {
            let mut changed = object.clone();
            if kind == "application/merge-patch+json" {
                let patch: Value = serde_json::from_slice(body).unwrap();
                if patch["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
                    return status(409, "Conflict");
                }
                json_patch::merge(&mut changed, &patch);
            } else {
                let patch: json_patch::Patch = serde_json::from_slice(body).unwrap();
                if json_patch::patch(&mut changed, &patch).is_err() {
                    return status(422, "Invalid");
                }
            }
            changed["metadata"]["resourceVersion"] = json!(next(&object["metadata"]["resourceVersion"]));
            *object = changed;
        }
        (200, object.clone())
    }

    fn add_webhooks(&self) {
        let mut objects = self.objects.lock().unwrap();
        for plural in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
            let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}/berth");
            let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "berth", "resourceVersion": "1"},
                "webhooks": [{"name": "a", "clientConfig": {"url": "https://x"}}, {"name": "b", "clientConfig": {"service": {}}}]});
            objects.insert(path, object);
        }
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.berth.dev".to_owned();
        let object = json!({"apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "things.berth.dev", "resourceVersion": "1"},
            "spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://x"}}}}});
        objects.insert(path, object);
    }

    fn bundle(&self) -> Bundle {
        let objects = self.objects.lock().unwrap();
        let secret = &objects["/api/v1/namespaces/berth-system/secrets/berth-webhook-certs"];
        let data = secret["data"].as_object().unwrap();
        let decode = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
        Bundle::from_data(&data.iter().map(|(key, value)| (key.clone(), decode(value))).collect()).unwrap()
    }

    /// Every injected bundle, decoded.
    fn injected(&self) -> Vec<String> {
        let objects = self.objects.lock().unwrap();
        let text = objects.values().map(Value::to_string).collect::<String>();
        let found = text.split("\"caBundle\":\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
        found.map(|encoded| String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()).collect()
    }

    fn writes(&self) -> usize {
        self.log.lock().unwrap().iter().filter(|line| !line.starts_with("GET")).count()
    }
}

fn replica(world: &World, clock: &Clock, gates: &Gates) -> (SelfSigned, Slot) {
    let slot = Slot::new();
    let options = SelfSignedOptions::for_service("berth-webhook", "berth-system");
    let gate = gates.gate("webhook-certs");
    let keeper = SelfSigned::new(world.client(), clock.clone(), options, slot.clone(), gate, CertMetrics::default());
    (keeper, slot)
}

async fn race(world: &World, clock: &Clock, replicas: &[(SelfSigned, Slot)]) -> Bundle {
    let rounds = replicas.iter().map(|(keeper, _)| keeper.round());
    for round in futures::future::join_all(rounds).await {
        assert!(round.unwrap() > clock.now());
    }
    let bundle = world.bundle();
    let pair = Pair::from_pem(bundle.leaf.as_bytes(), bundle.leaf_key.expose().as_bytes()).unwrap();
    for (_, slot) in replicas {
        assert!(slot.shows(&pair), "a replica serves something else than what is stored");
    }
    bundle
}

#[tokio::test(start_paused = true)]
async fn replicas_racing_at_start_end_with_one_authority_and_one_leaf() {
    for seed in 0..40 {
        let world = World::new(seed);
        world.add_webhooks();
        let (clock, gates) = (Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap(), seed), Gates::new());
        let replicas: Vec<_> = (0..4).map(|_| replica(&world, &clock, &gates)).collect();
        let bundle = race(&world, &clock, &replicas).await;
        assert_eq!(Facts::read(&bundle).cas.len(), 1, "seed {seed}");
        assert_eq!(world.injected(), vec![bundle.ca.clone(); 5], "seed {seed}");
        // One create won, and each of the three targets was written; losers of a race wrote nothing that stayed.
        let versions = world
            .objects
            .lock()
            .unwrap()
            .values()
            .map(|o| o["metadata"]["resourceVersion"].clone())
            .collect::<Vec<_>>();
        assert_eq!(versions, [json!("1"), json!("2"), json!("2"), json!("2")], "seed {seed}");
        let writes = world.writes();
        race(&world, &clock, &replicas).await;
        assert_eq!(world.writes(), writes, "a second round writes nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_racing_at_renewal_end_with_one_new_leaf_and_the_same_authority() {
    for seed in 0..20 {
        let world = World::new(seed);
        let (clock, gates) = (Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap(), seed), Gates::new());
        let replicas: Vec<_> = (0..3).map(|_| replica(&world, &clock, &gates)).collect();
        let before = race(&world, &clock, &replicas).await;
        tokio::time::advance(Duration::from_secs(60 * 24 * 3600)).await;
        let after = race(&world, &clock, &replicas).await;
        assert!(before.leaf != after.leaf && before.ca == after.ca, "seed {seed}");
        let version = world.objects.lock().unwrap().values().next().unwrap()["metadata"]["resourceVersion"].clone();
        assert_eq!(version, json!("2"), "seed {seed}: the leaf was issued once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_or_deleted_secret_is_repaired() {
    let world = World::new(1);
    let (clock, gates) = (Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap(), 1), Gates::new());
    let replicas = [replica(&world, &clock, &gates)];
    let first = race(&world, &clock, &replicas).await;
    let path = "/api/v1/namespaces/berth-system/secrets/berth-webhook-certs";
    world.objects.lock().unwrap().get_mut(path).unwrap()["data"]["tls.key"] = json!(STANDARD.encode("junk"));
    let second = race(&world, &clock, &replicas).await;
    assert!(second.leaf != first.leaf && second.ca == first.ca);
    world.objects.lock().unwrap().get_mut(path).unwrap().as_object_mut().unwrap().remove("data");
    let third = race(&world, &clock, &replicas).await;
    assert_ne!(third.ca, second.ca);
    world.objects.lock().unwrap().remove(path);
    race(&world, &clock, &replicas).await;
    assert!(matches!(plan(Some(&Facts::read(&world.bundle())), &Default::default(), clock.now()), Action::Keep { .. }));
}

#[tokio::test(start_paused = true)]
async fn named_targets_are_patched_and_missing_ones_are_no_error() {
    let world = World::new(3);
    world.add_webhooks();
    let clock = Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap(), 3);
    let mut options = SelfSignedOptions::for_service("berth-webhook", "berth-system");
    let target = |name: &str| Target { kind: TargetKind::Validating, name: name.to_owned() };
    options.targets = Targets::Named(vec![target("berth"), target("missing")]);
    let gate = Gates::new().gate("certs");
    let keeper = SelfSigned::new(world.client(), clock, options, Slot::new(), gate, CertMetrics::default());
    let (bundle, _) = keeper.ensure().await.unwrap();
    assert_eq!(keeper.inject(&bundle).await.unwrap(), Injected { seen: 1, patched: 1 });
    assert_eq!(keeper.inject(&bundle).await.unwrap(), Injected { seen: 1, patched: 0 });
    assert_eq!(world.injected(), vec![bundle.ca.clone(); 2]);
}
