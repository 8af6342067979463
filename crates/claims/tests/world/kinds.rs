//! Two kinds of claims, served by one process, share the quotas of their tenants to the last unit.

use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use claim_kind::around::Around;
use claim_kind::claim::{ClaimFacts, Served};
use claims::config::Config;
use kit::clock::Clock;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::queue::Work;
use kit::telemetry::Metrics;
use serde_json::json;
use sim::server::{Action, Rule, Server};

use crate::objects::{CLAIMS, claim, condition, held, hosts, install, policy};

struct Vm;

impl Served for Vm {
    const KIND: &'static str = "vm";
}

/// A process with both kinds, one host for red, a claim on a virtual machine, and a quota of one for both.
struct Process {
    server: Server,
    around: Around<Vm>,
    vm: ObjectKey,
    facts: Arc<ClaimFacts>,
}

impl Process {
    async fn start() -> Self {
        let server = Server::new(1);
        install(&server);
        hosts(&server, &["h1"]);
        policy(&server, &json!({}));
        let quota = json!({"tenants": {"names": ["red"]}, "hard": {"hosts": 1}});
        let quota = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimQuota",
            "metadata": {"name": "gold"}, "spec": quota});
        server.put(quota).unwrap();
        let mut machine = claim("red", "vm");
        machine["spec"] = json!({"poweredOn": true, "kind": "vm"});
        server.put(machine).unwrap();
        let clock = Clock::simulated((server.clock())(), 1);
        let client = server.client("room-0").kube();
        let manager = Manager::new(client, clock.clone(), Gates::new(), Metrics::new(), Options::default());
        claims::mount(&manager, Config::default()).unwrap();
        let around = Around::follow(&manager).unwrap();
        around.wake(&Work::new(clock));
        tokio::spawn(async move { manager.run().await.unwrap() });
        around.settled().await;
        let vm = ObjectKey::namespaced("red", "vm");
        let (facts, _) = around.claim(&vm).unwrap().unwrap();
        Self { server, around, vm, facts }
    }

    async fn until(&self, what: &str, done: impl Fn(&Server) -> bool) {
        assert!(self.server.wait_until(Duration::from_secs(60), done).await, "never: {what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_is_not_given_for_the_unit_that_another_kind_has_just_taken() {
    let process = Process::start().await;
    // Taken a moment ago: the claim itself does not show it yet.
    process.around.take(&process.vm, &process.facts).unwrap();
    process.server.put(claim("red", "c")).unwrap();
    process
        .until("the claim is told of the quota", |server| {
            condition(&server.get(CLAIMS, "red", "c").unwrap(), "Associated") == "False/QuotaExceeded"
        })
        .await;
    assert!(held(&process.server, "red", "c").is_empty());
    // Its claim changes without showing anything: what was taken stays taken.
    process.server.edit(CLAIMS, "red", "vm", |vm| vm["metadata"]["labels"] = json!({"a": "b"})).unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(held(&process.server, "red", "c").is_empty());
    // Given back unused: nobody but the table can tell.
    process.around.leave(&process.vm, &process.facts);
    process.until("the claim has the host", |server| held(server, "red", "c").len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn another_kind_does_not_take_the_unit_of_a_host_that_was_just_promised() {
    let process = Process::start().await;
    // The promise is made, and nothing of it can be stored.
    let intents = Rule::any().method("PATCH").path_contains("/hostclaims/c/status").always();
    let fault = process.server.inject(intents, Action::Status(500));
    process.server.put(claim("red", "c")).unwrap();
    while process.server.hits(fault) == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(process.server.get(CLAIMS, "red", "c").unwrap().get("status").is_none(), "nothing shows it");
    let full = process.around.take(&process.vm, &process.facts).unwrap_err();
    assert_eq!(full.to_string(), "uses 1 of 1 hosts of quota gold");
    // The claim goes before it got anything, and with it the promise.
    process.server.stop_fault(fault);
    assert!(process.server.delete(CLAIMS, "red", "c"));
    process.until("the claim is gone", |server| server.get(CLAIMS, "red", "c").is_none()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(process.around.take(&process.vm, &process.facts), Ok(()));
}
