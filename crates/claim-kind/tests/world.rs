//! The registry in a closed loop on the in-memory API server: stopped at every effect, started on old news, robbed of
//! every event, and under random schedules, it always ends in the same world.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::Timestamp;
use kit::clock::Clock;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use serde_json::{Value, json};
use sim::server::{self, Gate, Server};
use sim::sweep::{self, Scenario, World};

const KINDS: &str = "hostclaimkinds.berth.dev";

fn kind(name: &str, pattern: &str, heartbeat: Option<Timestamp>) -> Value {
    let status = heartbeat.map_or(json!({}), |heartbeat| json!({"lastHeartbeat": heartbeat}));
    json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimKind", "metadata": {"name": name},
        "spec": {"controllerName": "x.berth.dev", "argsSchema": {"zone": {"pattern": pattern}}},
        "status": status,
    })
}

fn condition(server: &Server, name: &str) -> Option<(String, String)> {
    let object = server.get(KINDS, "", name)?;
    let conditions = object["status"]["conditions"].as_array()?;
    assert_eq!(conditions.len(), 1, "{conditions:?}");
    let text = |field: &str| conditions[0][field].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason")))
}

/// One kind whose controller was heard just now, one never heard, one that cannot be used.
fn prepare(server: &Server) {
    install(server);
    let now = (server.clock())();
    server.put(kind("heard", "[a-z]+", Some(now))).unwrap();
    server.put(kind("silent", "[a-z]+", None)).unwrap();
    server.put(kind("broken", "(", Some(now))).unwrap();
}

fn install(server: &Server) {
    // Derived once: a sweep installs them a thousand times.
    static DEFINITIONS: LazyLock<Vec<Value>> =
        LazyLock::new(|| api::own::crds().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect());
    for definition in DEFINITIONS.iter() {
        server.put(definition.clone()).unwrap();
    }
}

async fn registry(client: kube::Client, now: Timestamp, resync: Option<Duration>) {
    let options = Options { resync, workers: 4, ..Options::default() };
    let manager = Manager::new(client, Clock::simulated(now, 1), Gates::new(), Metrics::new(), options);
    claim_kind::mount(&manager, &[]).unwrap();
    manager.run().await.unwrap();
}

/// The three kinds of [`prepare`]; then a controller reports, a spec is corrected, another is broken, and a kind is deleted.
struct Life;

impl Scenario for Life {
    type Outside = ();

    fn name(&self) -> &str {
        "life of kinds"
    }

    fn outside(&self, _: &Gate, _: &server::Clock) {}

    async fn prepare(&self, world: &World<()>) {
        prepare(&world.server);
    }

    async fn process(&self, world: Arc<World<()>>, client: kube::Client) {
        registry(client, (world.clock)(), None).await;
    }

    async fn act(&self, world: &World<()>, step: usize) -> bool {
        let now = (world.clock)();
        let edit = |name: &str, change: &dyn Fn(&mut Value)| {
            world.server.edit(KINDS, "", name, |object| change(object)).unwrap();
        };
        match step {
            0 => edit("silent", &|object| object["status"]["lastHeartbeat"] = json!(now)),
            1 => edit("broken", &|object| object["spec"]["argsSchema"]["zone"]["pattern"] = json!("[a-z]+")),
            2 => edit("heard", &|object| object["spec"]["argsSchema"]["zone"]["pattern"] = json!("(")),
            3 => assert!(world.server.delete(KINDS, "", "broken")),
            _ => return false,
        }
        true
    }

    /// At any moment no kind has two opinions of itself, and nobody but its controller touches the heartbeat.
    fn invariant(&self, world: &World<()>) -> Result<(), String> {
        for object in world.server.list(KINDS, "") {
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.len() > 1 {
                return Err(format!("{} conditions on {}", conditions.len(), object["metadata"]["name"]));
            }
            if object["metadata"]["name"] == "heard" && object["status"]["lastHeartbeat"].is_null() {
                return Err("a heartbeat was erased".to_owned());
            }
        }
        Ok(())
    }

    fn ignored(&self) -> Vec<String> {
        // Events are told once per transition and may be lost with the process; nothing depends on them.
        vec!["events.events.k8s.io".to_owned()]
    }

    /// Long enough for a heartbeat to become stale, so that every run is compared after the same things happened.
    fn settle(&self) -> Duration {
        Duration::from_secs(150)
    }
}

#[test]
fn stopped_at_every_effect_the_registry_ends_in_the_same_world() {
    let report = sweep::crash_sweep(&Life);
    report.assert_passed();
    assert!(report.effects.len() >= 6, "too little happened: {:?}", report.effects);
}

#[test]
fn started_on_any_older_cache_the_registry_ends_in_the_same_world() {
    sweep::stale_sweep(&Life).assert_passed();
}

#[test]
fn robbed_of_any_event_the_registry_ends_in_the_same_world() {
    sweep::missed_event_sweep(&Life).assert_passed();
}

#[test]
fn whatever_users_do_early_the_registry_ends_in_the_same_world() {
    sweep::early_act_sweep(&Life).assert_passed();
}

#[test]
fn under_random_schedules_the_registry_ends_in_the_same_world() {
    sweep::seeds(&Life, 0..1000).assert_passed();
}

/// A process under a paused clock.
async fn running(server: &Server) -> tokio::task::JoinSet<()> {
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(registry(server.client("registry").kube(), (server.clock())(), Some(Duration::from_secs(60))));
    tasks
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_makes_a_kind_available_and_its_silence_is_noticed() {
    let server = Server::new(1);
    prepare(&server);
    let _process = running(&server).await;
    let limit = Duration::from_secs(600);
    let is = |name: &'static str, status: &'static str, reason: &'static str| {
        move |s: &Server| condition(s, name) == Some((status.to_owned(), reason.to_owned()))
    };
    assert!(server.wait_until(limit, is("heard", "True", "ControllerAlive")).await);
    assert!(server.wait_until(limit, is("silent", "False", "HeartbeatMissing")).await);
    assert!(server.wait_until(limit, is("broken", "False", "InvalidSpec")).await);
    let heard = (server.clock())();
    assert!(server.wait_until(limit, is("heard", "False", "HeartbeatStale")).await);
    let silence = (server.clock())().duration_since(heard).as_secs();
    assert!((80..=100).contains(&silence), "noticed after {silence} s");
}

#[tokio::test(start_paused = true)]
async fn a_time_nobody_can_read_does_not_hide_the_other_kinds() {
    let server = Server::new(1);
    prepare(&server);
    let mut odd = kind("odd", "[a-z]+", None);
    // Valid for the schema, and beyond the last time that can be represented here.
    odd["status"]["lastHeartbeat"] = json!("9999-12-31T23:59:59Z");
    server.put(odd).unwrap();
    let _process = running(&server).await;
    let limit = Duration::from_secs(60);
    assert!(server.wait_until(limit, |s| condition(s, "heard").is_some() && condition(s, "odd").is_some()).await);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_looks_at_a_settled_world_send_no_write() {
    let server = Server::new(1);
    prepare(&server);
    let _process = running(&server).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let before = server.effects();
    // The process looks at everything once a minute.
    tokio::time::sleep(Duration::from_secs(100 * 60)).await;
    assert_eq!(server.effects(), before);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_kinds_cost_one_status_and_one_event_each() {
    let server = Server::new(1);
    install(&server);
    for number in 0..1000 {
        server.put(kind(&format!("kind-{number}"), "[a-z]+", None)).unwrap();
    }
    let _process = running(&server).await;
    let limit = Duration::from_secs(600);
    let done = |s: &Server| (0..1000).all(|n| condition(s, &format!("kind-{n}")).is_some());
    assert!(server.wait_until(limit, done).await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(server.effects(), 2000);
}
