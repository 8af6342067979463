//! The self-managed authority with several replicas on one API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kit::certs::{
    Bundle, CertMetrics, Facts, Injected, Pair, SelfSigned, SelfSignedOptions, Slot, Target, TargetKind, Targets,
};
use kit::clock::Clock;
use kit::gates::Gates;
use serde_json::{Value, json};
use sim::server::{Action, Kind, Rng, Rule, Server};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "berth-system";
const SECRET: &str = "berth-webhook-certs";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Webhooks in the world: two in each of two configurations, and one conversion.
const WEBHOOKS: usize = 5;

struct World {
    server: Server,
    clock: Clock,
    seed: u64,
}

struct Replica {
    keeper: SelfSigned,
    slot: Slot,
    gates: Gates,
}

impl World {
    fn new(seed: u64) -> Self {
        let server = Server::new(seed);
        let group = "admissionregistration.k8s.io";
        for (kind, plural) in [
            ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
            ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        ] {
            server.register(Kind::cluster(group, "v1", kind, plural).without_status());
        }
        server.namespace(NAMESPACE);
        Self { server, clock: Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap(), seed), seed }
    }

    fn add_webhooks(&self) {
        for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
            self.server.put(configuration(kind, "berth", "berth")).unwrap();
            self.server.put(configuration(kind, "foreign", "somebody")).unwrap();
        }
        let names = json!({"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"});
        let version = json!({"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let conversion = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x/convert"}}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.berth.dev", "labels": {"app.kubernetes.io/part-of": "berth"}},
            "spec": {"group": "berth.dev", "scope": "Namespaced", "names": names, "versions": [version],
                "conversion": conversion}});
        self.server.put(definition).unwrap();
    }

    /// A replica whose requests take a random time each, so that every seed is another order.
    fn replica(&self, number: u64) -> Replica {
        let handle = self.server.client(&format!("replica-{number}"));
        let dice = Arc::new(Mutex::new(Rng::new(self.seed * 31 + number)));
        handle.script(move |_| vec![Action::Delay(Duration::from_millis(dice.lock().unwrap().below(20)))]);
        self.replica_with(handle.kube(), SelfSignedOptions::for_service("berth-webhook", NAMESPACE))
    }

    fn replica_with(&self, client: kube::Client, options: SelfSignedOptions) -> Replica {
        let (slot, gates) = (Slot::new(), Gates::new());
        let gate = gates.gate("webhook-certs");
        let keeper = SelfSigned::new(client, self.clock.clone(), options, slot.clone(), gate, CertMetrics::default());
        Replica { keeper, slot, gates }
    }

    fn bundle(&self) -> Bundle {
        let secret = self.server.get("secrets", NAMESPACE, SECRET).expect("the Secret is there");
        let decode = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
        let data = secret["data"].as_object().unwrap().iter().map(|(key, value)| (key.clone(), decode(value)));
        Bundle::from_data(&data.collect()).expect("a whole bundle")
    }

    /// Every injected bundle, decoded.
    fn injected(&self) -> Vec<String> {
        let mut found = Vec::new();
        for resource in [VALIDATING, MUTATING, DEFINITIONS] {
            for object in self.server.list(resource, "") {
                for part in object.to_string().split("\"caBundle\":\"").skip(1) {
                    let encoded = part.split('"').next().unwrap();
                    found.push(String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap());
                }
            }
        }
        found
    }

    /// Writes that changed something.
    fn writes(&self) -> u64 {
        self.server.revision()
    }

    async fn race(&self, replicas: &[Replica]) -> Bundle {
        let rounds = replicas.iter().map(|replica| replica.keeper.round());
        for round in futures::future::join_all(rounds).await {
            round.unwrap();
        }
        let bundle = self.bundle();
        let pair = Pair::from_pem(bundle.leaf.as_bytes(), bundle.leaf_key.expose().as_bytes()).unwrap();
        for replica in replicas {
            assert!(replica.slot.shows(&pair), "a replica serves something else than what is stored");
        }
        bundle
    }
}

fn configuration(kind: &str, name: &str, part_of: &str) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": part_of}},
        "webhooks": [{"name": "a.berth.dev", "clientConfig": {"url": "https://x/a"}},
            {"name": "b.berth.dev", "clientConfig": {"service": {"name": "x", "namespace": "y"}}}]})
}

#[tokio::test(start_paused = true)]
async fn replicas_racing_at_start_end_with_one_authority_and_one_leaf() {
    for seed in 0..40 {
        let world = World::new(seed);
        world.add_webhooks();
        let replicas: Vec<Replica> = (0..4).map(|number| world.replica(number)).collect();
        let before = world.writes();
        let bundle = world.race(&replicas).await;
        assert_eq!(Facts::read(&bundle).cas.len(), 1, "seed {seed}");
        assert_eq!(world.injected(), vec![bundle.ca.clone(); WEBHOOKS], "seed {seed}");
        assert_eq!(world.writes() - before, 4, "seed {seed}: one Secret and three targets, each written once");
        world.race(&replicas).await;
        assert_eq!(world.writes() - before, 4, "seed {seed}: a second round writes nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_racing_at_renewal_end_with_one_new_leaf_and_the_same_authority() {
    for seed in 0..20 {
        let world = World::new(seed);
        let replicas: Vec<Replica> = (0..3).map(|number| world.replica(number)).collect();
        let first = world.race(&replicas).await;
        let before = world.writes();
        tokio::time::advance(Duration::from_secs(60 * 24 * 3600)).await;
        let second = world.race(&replicas).await;
        assert!(first.leaf != second.leaf && first.ca == second.ca, "seed {seed}");
        assert_eq!(world.writes() - before, 1, "seed {seed}: the leaf was issued once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_makes_no_second_authority() {
    for method in ["POST", "PATCH"] {
        let world = World::new(5);
        world.add_webhooks();
        let replica = world.replica(0);
        if method == "PATCH" {
            replica.keeper.round().await.unwrap();
            tokio::time::advance(Duration::from_secs(60 * 24 * 3600)).await;
        }
        world.server.inject(Rule::any().method(method).path_contains("/secrets"), Action::DropAnswer);
        replica.keeper.round().await.unwrap_err();
        let stored = world.bundle();
        let settled = world.race(std::slice::from_ref(&replica)).await;
        assert_eq!(settled, stored, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_or_deleted_secret_is_repaired() {
    let world = World::new(1);
    let replicas = [world.replica(0)];
    let first = world.race(&replicas).await;
    let junk = |object: &mut Value| object["data"]["tls.key"] = json!(STANDARD.encode("junk"));
    world.server.edit("secrets", NAMESPACE, SECRET, junk).unwrap();
    let second = world.race(&replicas).await;
    assert!(second.leaf != first.leaf && second.ca == first.ca);
    let empty = |object: &mut Value| drop(object.as_object_mut().unwrap().remove("data"));
    world.server.edit("secrets", NAMESPACE, SECRET, empty).unwrap();
    let third = world.race(&replicas).await;
    assert_ne!(third.ca, second.ca);
    assert!(world.server.delete("secrets", NAMESPACE, SECRET));
    assert_ne!(world.race(&replicas).await.ca, third.ca);
}

#[tokio::test(start_paused = true)]
async fn named_targets_are_patched_and_missing_ones_are_no_error() {
    let world = World::new(3);
    world.add_webhooks();
    let mut options = SelfSignedOptions::for_service("berth-webhook", NAMESPACE);
    let target = |name: &str| Target { kind: TargetKind::Validating, name: name.to_owned() };
    options.targets = Targets::Named(vec![target("berth"), target("missing")]);
    let replica = world.replica_with(world.server.kube(), options);
    let (bundle, _) = replica.keeper.ensure().await.unwrap();
    assert_eq!(replica.keeper.inject(&bundle).await.unwrap(), Injected { seen: 1, patched: 1, stale: 0 });
    assert_eq!(replica.keeper.inject(&bundle).await.unwrap(), Injected { seen: 1, patched: 0, stale: 0 });
    assert_eq!(world.injected(), vec![bundle.ca.clone(); 2]);
}

#[tokio::test(start_paused = true)]
async fn a_running_replica_opens_its_gate_trusts_new_webhooks_at_once_and_is_quiet_otherwise() {
    let world = World::new(8);
    world.add_webhooks();
    let outage = world.server.inject(Rule::any().path_contains("/secrets").always(), Action::Status(503));
    let Replica { keeper, gates, .. } = world.replica(0);
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(keeper.run(stop.clone()));

    let blocked = async {
        while !gates.report().to_string().contains("cannot read Secret berth-system/berth-webhook-certs") {
            gates.changed().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), blocked).await.expect("the gate names the problem");
    assert!(!gates.report().ready);
    world.server.stop_fault(outage);
    tokio::time::timeout(Duration::from_secs(60), gates.until_ready()).await.expect("ready once the server answers");
    assert!(gates.report().to_string().starts_with("[+]webhook-certs certificate expires at "), "{}", gates.report());
    assert_eq!(world.injected().len(), WEBHOOKS);

    // A configuration that is applied anew loses its bundle, and gets it back long before the next regular look.
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.server.delete(VALIDATING, "", "berth");
    world.server.put(configuration("ValidatingWebhookConfiguration", "berth", "berth")).unwrap();
    let back = world.server.wait_until(Duration::from_secs(20), |_| world.injected().len() == WEBHOOKS).await;
    assert!(back, "the new configuration is not trusted");

    // An idle hour: nothing is written, nothing is listed, and the Secret is read every five minutes.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (writes, seen) = (world.writes(), world.server.log().len());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.writes(), writes);
    let log = world.server.log();
    let (reads, rest): (Vec<_>, Vec<_>) = log[seen..].iter().partition(|entry| entry.resource == "secrets");
    assert!((11..=12).contains(&reads.len()), "{} reads", reads.len());
    // Watches end by themselves from time to time and are taken up where they were.
    assert!(rest.iter().all(|entry| entry.method == "GET" && entry.query.contains("watch=true")), "{rest:?}");
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(5), running.join_next()).await.unwrap().unwrap().unwrap();
}
