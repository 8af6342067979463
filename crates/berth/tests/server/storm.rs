//! Two replicas behind a proxy that breaks things, killed now and then: what they leave is what a calm day leaves.

use std::path::Path;
use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sim::proxy::{Inbound, Options, Proxy, Upstream};
use sim::server::Rng;

use crate::support::{Operator, SOON, World, kind, within};

const NAMESPACE: &str = "berth-storm";
/// Everything that chance decides follows from it, apart from what the processes do meanwhile.
const SEED: u64 = 11;
/// How many seconds it lasts, unless `BERTH_STORM_SECONDS` asks for another number.
const STORM: u64 = 32;
/// Between two things that users and controllers do.
const STEP: Duration = Duration::from_millis(250);
/// How many kinds there are in the end.
const KINDS: u64 = 24;

/// What happens to the replicas' requests; a watch is one request, so those are hit more often.
const RULES: &str = r#"[
    {"name": "slow", "when": {"probability": 0.2}, "action": {"delay": {"ms": 5, "jitter_ms": 400}}},
    {"name": "failing", "when": {"probability": 0.06}, "action": {"answer": {"status": 500, "body": {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500}}}},
    {"name": "busy", "when": {"probability": 0.06}, "action": {"answer": {"status": 429, "headers": {"retry-after": "1"},
        "body": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests", "code": 429}}}},
    {"name": "lost", "match": {"methods": ["POST", "PUT", "PATCH"]}, "when": {"probability": 0.15},
        "action": {"reset_after": {}}},
    {"name": "gone", "match": {"watch": true}, "when": {"probability": 0.25}, "action": {"gone": {"after": 3}}},
    {"name": "half", "match": {"watch": true}, "when": {"probability": 0.25}, "action": {"half_line": {"after": 2}}},
    {"name": "again", "match": {"watch": true}, "when": {"probability": 0.5}, "action": {"duplicate_line": {"line": 1}}}
]"#;

/// A replica that is started again when it was killed; it never ends by itself.
struct Replica {
    operator: Operator,
    /// What those before it have said.
    said: String,
}

impl Replica {
    fn start(kubeconfig: &Path) -> Operator {
        let lease = ["--leader-elect", "--leader-elect-lease-duration", "9s"];
        Operator::start_as(kubeconfig, &[&lease[..], &["--leader-elect-resource-namespace", NAMESPACE]].concat())
    }

    fn new(kubeconfig: &Path) -> Self {
        Self { operator: Self::start(kubeconfig), said: String::new() }
    }

    async fn kill(&mut self, kubeconfig: &Path) {
        assert!(self.operator.runs(), "{}", self.operator.log());
        self.operator.signal("KILL");
        assert_eq!(self.operator.exit().await, None);
        self.said += &self.operator.log();
        self.operator = Self::start(kubeconfig);
    }
}

/// How long it lasts.
fn storm() -> Duration {
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("BERTH_STORM_SECONDS={text} is no number"));
    let asked = std::env::var_os("BERTH_STORM_SECONDS").map(|text| number(&text.to_string_lossy()));
    Duration::from_secs(asked.unwrap_or(STORM))
}

/// What is wished for a kind at last: whether its arguments can be compiled, and whether its controller reports.
fn wish(number: u64) -> (Value, bool) {
    let pattern = if number.is_multiple_of(5) { "(" } else { "[a-z]+" };
    (json!({"zone": {"pattern": pattern}}), !number.is_multiple_of(3))
}

/// What can be compared of a kind and of another one with the same wish.
async fn picture(world: &World, name: &str) -> Option<Value> {
    let found = world.kinds().get(name).await.ok()?;
    let (status, meta) = (&found.data["status"], &found.metadata);
    let conditions = status["conditions"].as_array().filter(|all| !all.is_empty())?;
    let told = |condition: &Value| ["type", "status", "reason", "message"].map(|field| condition[field].clone());
    let conditions: Vec<_> = conditions.iter().map(told).collect();
    let known = status["observedGeneration"] == json!(meta.generation);
    known.then(|| json!([found.data["spec"], conditions, meta.finalizers, meta.annotations, meta.labels]))
}

#[tokio::test]
async fn a_storm_of_faults_and_kills_leaves_what_a_calm_day_leaves() {
    let Some(world) = World::enter("a_storm_of_faults_and_kills_leaves_what_a_calm_day_leaves").await else { return };
    world.installed().await;
    world.namespace(NAMESPACE).await;
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::new(Upstream::from_kubeconfig(&world.plane.kubeconfig_path()).unwrap());
    options.inbound = Inbound::Generated { dir: dir.path().join("tls") };
    options.seed = SEED;
    let proxy = Proxy::start(options).await.unwrap();
    proxy.load(RULES).unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, proxy.kubeconfig(&world.plane.kubeconfig_path()).unwrap()).unwrap();

    let mut chance = Rng::new(SEED);
    let mut replicas = [Replica::new(&kubeconfig), Replica::new(&kubeconfig)];
    let (begun, mut kills) = (Instant::now(), 0);
    let mut turns = tokio::time::interval(STEP);
    while begun.elapsed() < storm() {
        turns.tick().await;
        let name = format!("storm-{}", chance.below(KINDS));
        let change = match chance.below(3) {
            0 => kind(&name, json!({"zone": {"pattern": format!("[a-z]{{{}}}", chance.below(9))}})),
            1 => kind(&name, json!({"size": {"pattern": "[0-9]+"}})),
            _ => kind(&name, json!({"zone": {"pattern": "("}})),
        };
        world.apply(&change).await;
        if chance.percent(40) {
            world.heartbeat(&name).await;
        }
        let at = usize::from(chance.percent(50));
        if chance.percent(4) {
            replicas[at].kill(&kubeconfig).await;
            kills += 1;
        }
    }
    let rules: Vec<String> = proxy.rules().into_iter().map(|rule| rule.name).collect();
    proxy.clear().unwrap();

    // The same wishes for kinds that saw nothing of it.
    for number in 0..KINDS {
        let (arguments, alive) = wish(number);
        for name in [format!("storm-{number}"), format!("calm-{number}")] {
            world.apply(&kind(&name, arguments.clone())).await;
            if alive {
                world.heartbeat(&name).await;
            }
        }
        if !alive {
            let none = Patch::Merge(json!({"status": {"lastHeartbeat": null}}));
            let storm = format!("storm-{number}");
            world.kinds().patch_status(&storm, &PatchParams::default(), &none).await.expect("no controller any more");
        }
    }
    for number in 0..KINDS {
        let (storm, calm) = (format!("storm-{number}"), format!("calm-{number}"));
        within(SOON, &format!("{storm} is as {calm}"), async || {
            let calm = picture(&world, &calm).await?;
            let (arguments, alive) = wish(number);
            let reason = match (arguments["zone"]["pattern"] == "(", alive) {
                (true, _) => "InvalidSpec",
                (false, true) => "ControllerAlive",
                (false, false) => "HeartbeatMissing",
            };
            (calm[1][0][2] == reason && picture(&world, &storm).await? == calm).then_some(())
        })
        .await;
    }

    let hits = proxy.hits();
    for rule in rules {
        assert!(hits.iter().any(|hit| hit.rule == rule && hit.landed), "{rule} has hit nothing");
    }
    assert!(kills > 1, "nobody was killed");
    eprintln!("{} hits on {} requests, {kills} kills", hits.len(), proxy.requests());
    for mut replica in replicas {
        assert!(replica.operator.runs(), "{}", replica.operator.log());
        let said = replica.said + &replica.operator.log();
        assert!(!said.contains("panicked"), "{said}");
        replica.operator.stop().await;
    }
    proxy.stop().await;
}
