//! Heartbeats, and claims that nobody looks after, in a closed loop on the in-memory API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use api::own::Capability;
use claim_kind::heartbeat::{self, KindProfile};
use jiff::Timestamp;
use kit::clock::Clock;
use kit::gates::Gates;
use kit::lease::{Candidate, Settings, Terms};
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use sim::server::{self, Gate, Server};
use sim::sweep::{self, Scenario, World};

const KINDS: &str = "hostclaimkinds.berth.dev";
const CLAIMS: &str = "hostclaims.metal3.io";

fn install(server: &Server) {
    static DEFINITIONS: LazyLock<Vec<Value>> =
        LazyLock::new(|| api::own::crds().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect());
    for definition in DEFINITIONS.iter() {
        server.put(definition.clone()).unwrap();
    }
    server.namespace("tenant");
}

fn kind(name: &str, heartbeat: Option<Timestamp>) -> Value {
    let status = heartbeat.map_or(json!({}), |heartbeat| json!({"lastHeartbeat": heartbeat}));
    json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimKind", "metadata": {"name": name},
        "spec": {"controllerName": "x.berth.dev", "capabilities": ["power"]}, "status": status,
    })
}

fn claim(name: &str, kind: &str, status: Value) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": {"namespace": "tenant", "name": name},
        "spec": {"kind": kind, "poweredOn": true}, "status": status,
    })
}

/// The status of a claim that runs, as its controller left it long ago.
fn running_status() -> Value {
    let condition = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": "Fine", "message": "it runs", "observedGeneration": 1,
            "lastTransitionTime": "2025-01-01T00:00:00Z"})
    };
    json!({"ready": true, "resourceID": "vm-1", "observedGeneration": 1,
        "conditions": [condition("Associated"), condition("Ready")]})
}

fn associated(server: &Server, name: &str) -> Option<(String, String)> {
    let claim = server.get(CLAIMS, "tenant", name)?;
    let conditions = claim["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == "Associated")?;
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason")))
}

fn is_marked(server: &Server, name: &str) -> bool {
    associated(server, name) == Some(("Unknown".to_owned(), "NoControllerForKind".to_owned()))
}

fn profile() -> KindProfile {
    KindProfile {
        name: "fake",
        controller_name: "fake.berth.dev",
        capabilities: &[Capability::Power, Capability::UserData],
        recyclable: true,
        args: BTreeMap::new(),
    }
}

fn manager(client: kube::Client, now: Timestamp) -> Arc<Manager> {
    let options = Options { workers: 4, ..Options::default() };
    Manager::new(client, Clock::simulated(now, 1), Gates::new(), Metrics::new(), options)
}

/// The registry alone.
async fn registry(client: kube::Client, now: Timestamp, here: &[&'static str]) {
    let manager = manager(client, now);
    claim_kind::mount(&manager, here).unwrap();
    manager.run().await.unwrap();
}

/// The registry and the heartbeat of a kind.
async fn serving(client: kube::Client, now: Timestamp) {
    let manager = manager(client, now);
    claim_kind::mount(&manager, &["fake"]).unwrap();
    heartbeat::mount(&manager, profile(), || true).unwrap();
    manager.run().await.unwrap();
}

/// A process under a paused clock; it ends with what is returned.
fn start(process: impl Future<Output = ()> + Send + 'static) -> tokio::task::JoinSet<()> {
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(process);
    tasks
}

const LIMIT: Duration = Duration::from_secs(600);

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn heard(server: &Server) -> Option<Timestamp> {
    server.get(KINDS, "", "fake")?["status"]["lastHeartbeat"].as_str()?.parse().ok()
}

#[tokio::test(start_paused = true)]
async fn a_served_kind_registers_itself_and_stays_available() {
    let server = Server::new(1);
    install(&server);
    let process = start(serving(server.client("berth").kube(), (server.clock())()));
    assert!(server.wait_until(LIMIT, |s| heard(s).is_some()).await);
    let stored = server.get(KINDS, "", "fake").unwrap();
    assert_eq!(stored["spec"]["controllerName"], "fake.berth.dev");
    assert_eq!(stored["spec"]["capabilities"], json!(["power", "userData"]));
    for _ in 0..60 {
        pass(30).await;
        let age = (server.clock())().duration_since(heard(&server).unwrap()).as_secs();
        assert!(age <= 31, "the heartbeat is {age} s old");
        let available = &server.get(KINDS, "", "fake").unwrap()["status"]["conditions"][0];
        assert_eq!((&available["type"], &available["status"]), (&json!("Available"), &json!("True")));
    }
    // Deleted by mistake, it is there again.
    assert!(server.delete(KINDS, "", "fake"));
    assert!(server.wait_until(LIMIT, |s| heard(s).is_some()).await);
    drop(process);
    let last = heard(&server);
    pass(120).await;
    assert_eq!(heard(&server), last, "somebody else wrote a heartbeat");
}

#[tokio::test(start_paused = true)]
async fn whoever_registers_a_kind_second_reads_it_back_and_reports_all_the_same() {
    let server = Server::new(1);
    install(&server);
    let process = manager(server.client("second").kube(), (server.clock())());
    // Between the look at the index and the create, somebody else is there first.
    let (first, once) = (server.clone(), std::sync::Once::new());
    let mut body = kind("fake", None);
    body["spec"]["controllerName"] = json!("fake.berth.dev");
    let serves = move || {
        once.call_once(|| drop(first.put(body.clone()).unwrap()));
        true
    };
    heartbeat::mount(&process, profile(), serves).unwrap();
    let _process = start(async move { process.run().await.unwrap() });
    assert!(server.wait_until(Duration::from_secs(1), |s| heard(s).is_some()).await, "it did not report at once");
    let asked: Vec<(String, server::Outcome)> = server
        .log()
        .into_iter()
        .filter(|entry| entry.resource == KINDS && entry.path.ends_with("/fake"))
        .map(|entry| (entry.method, entry.outcome))
        .collect();
    assert_eq!(asked, [("GET".to_owned(), server::Outcome::Answered(200))]);
    let capabilities = &server.get(KINDS, "", "fake").unwrap()["spec"]["capabilities"];
    assert_eq!(capabilities, &json!(["power"]), "what the first one wrote stays");
}

#[tokio::test(start_paused = true)]
async fn what_an_administrator_wrote_into_a_kind_stays() {
    let server = Server::new(1);
    install(&server);
    let mut ours = kind("fake", None);
    ours["spec"] = json!({"controllerName": "fake.berth.dev", "capabilities": ["reboot"], "recyclable": false});
    server.put(ours.clone()).unwrap();
    let _process = start(serving(server.client("berth").kube(), (server.clock())()));
    assert!(server.wait_until(LIMIT, |s| heard(s).is_some()).await);
    pass(300).await;
    assert_eq!(server.get(KINDS, "", "fake").unwrap()["spec"], ours["spec"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_reports_for_a_kind_that_names_another_controller() {
    let server = Server::new(1);
    install(&server);
    server.put(kind("fake", None)).unwrap();
    let _process = start(serving(server.client("berth").kube(), (server.clock())()));
    pass(300).await;
    assert_eq!(heard(&server), None);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_lead_reports_nothing() {
    let server = Server::new(1);
    install(&server);
    let client = server.client("follower").kube();
    let process = manager(client.clone(), (server.clock())());
    let terms = Terms::new(Duration::from_secs(120)).unwrap();
    let settings = Settings { namespace: "default".into(), name: "berth".into(), identity: "follower".into(), terms };
    let (_candidate, leadership) = Candidate::new(client, process.clock().clone(), settings);
    process.follow(leadership);
    claim_kind::mount(&process, &["fake"]).unwrap();
    heartbeat::mount(&process, profile(), || true).unwrap();
    server.put(claim("lonely", "mars", json!({}))).unwrap();
    let _process = start(async move { process.run().await.unwrap() });
    pass(300).await;
    assert_eq!(server.effects(), 0, "{:?}", server.log().last());
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_an_unknown_kind_is_told_and_told_otherwise_once_the_kind_is_served() {
    let server = Server::new(1);
    install(&server);
    server.put(claim("new", "mars", json!({}))).unwrap();
    server.put(claim("runs", "mars", running_status())).unwrap();
    let _process = start(registry(server.client("berth").kube(), (server.clock())(), &[]));
    assert!(server.wait_until(LIMIT, |s| is_marked(s, "new") && is_marked(s, "runs")).await);
    let marked = server.get(CLAIMS, "tenant", "runs").unwrap();
    let mut rest = marked["status"].clone();
    rest["conditions"].as_array_mut().unwrap().retain(|condition| condition["type"] != "Associated");
    let mut before = running_status();
    before["conditions"].as_array_mut().unwrap().retain(|condition| condition["type"] != "Associated");
    assert_eq!(rest, before, "a claim that runs keeps everything else");
    pass(600).await;
    assert_eq!(server.get(CLAIMS, "tenant", "runs").unwrap(), marked, "it was told once");
    server.put(kind("mars", Some((server.clock())()))).unwrap();
    let beating = beat(&server, "mars");
    assert!(server.wait_until(LIMIT, |s| associated(s, "new").is_none() && associated(s, "runs").is_none()).await);
    let mut now = server.get(CLAIMS, "tenant", "runs").unwrap()["status"].clone();
    now["conditions"].as_array_mut().unwrap().retain(|condition| condition["type"] != "Associated");
    assert_eq!(now, before, "a claim that runs keeps everything else");
    drop(beating);
}

/// A foreign controller's heartbeat.
fn beat(server: &Server, name: &'static str) -> tokio::task::JoinSet<()> {
    let server = server.clone();
    start(async move {
        loop {
            let now = (server.clock())();
            server.edit(KINDS, "", name, |kind| kind["status"]["lastHeartbeat"] = json!(now)).unwrap();
            pass(30).await;
        }
    })
}

#[tokio::test(start_paused = true)]
async fn claims_of_served_kinds_are_never_touched() {
    let server = Server::new(1);
    install(&server);
    server.put(kind("mars", Some((server.clock())()))).unwrap();
    server.put(claim("runs", "mars", running_status())).unwrap();
    server.put(claim("new", "mars", json!({}))).unwrap();
    server.put(claim("ours", "fake", json!({}))).unwrap();
    let beating = beat(&server, "mars");
    let _process = start(registry(server.client("berth").kube(), (server.clock())(), &["fake"]));
    pass(3600).await;
    let touched = |s: &Server| s.log().iter().filter(|e| e.resource == CLAIMS && e.effect.is_some()).count();
    assert_eq!(touched(&server), 0);
    let silent = (server.clock())();
    drop(beating);
    assert!(server.wait_until(LIMIT, |s| is_marked(s, "runs") && is_marked(s, "new")).await);
    let waited = (server.clock())().duration_since(silent).as_secs();
    assert!((60..=100).contains(&waited), "noticed after {waited} s");
    assert_eq!(associated(&server, "ours"), None, "a kind served by this very process needs no heartbeat");
}

fn claims(server: &Server) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("metal3.io", "v1alpha1", "HostClaim");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "hostclaims");
    Api::namespaced_with(server.client("controller").kube(), "tenant", &resource)
}

/// What a kind's controller does: it applies its whole status, and overrules whoever wrote parts of it.
async fn controller_speaks(server: &Server, name: &str) {
    let mut status = running_status();
    status["conditions"][0]["lastTransitionTime"] = json!((server.clock())().to_string());
    let body = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "status": status});
    let params = PatchParams::apply("controller").force();
    claims(server).patch_status(name, &params, &Patch::Apply(&body)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_comes_back_has_the_last_word() {
    let server = Server::new(1);
    install(&server);
    server.put(claim("runs", "mars", json!({}))).unwrap();
    controller_speaks(&server, "runs").await;
    let _process = start(registry(server.client("berth").kube(), (server.clock())(), &[]));
    assert!(server.wait_until(LIMIT, |s| is_marked(s, "runs")).await);
    server.put(kind("mars", Some((server.clock())()))).unwrap();
    let _beating = beat(&server, "mars");
    controller_speaks(&server, "runs").await;
    let said = server.get(CLAIMS, "tenant", "runs").unwrap();
    pass(600).await;
    assert_eq!(server.get(CLAIMS, "tenant", "runs").unwrap(), said);
    assert_eq!(associated(&server, "runs").unwrap().0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_works_but_cannot_report_is_not_fought() {
    let server = Server::new(1);
    install(&server);
    server.put(claim("runs", "mars", json!({}))).unwrap();
    let _process = start(registry(server.client("berth").kube(), (server.clock())(), &[]));
    let watched = server.clone();
    let _controller = start(async move {
        loop {
            if watched.wait_until(LIMIT, |s| is_marked(s, "runs")).await {
                controller_speaks(&watched, "runs").await;
            }
        }
    });
    pass(3600).await;
    let ours =
        server.log().iter().filter(|e| e.client == "berth" && e.resource == CLAIMS && e.effect.is_some()).count();
    assert!((2..=42).contains(&ours), "{ours} writes in an hour");
}

/// Claims of a kind that is served, of one that is not, and of none; then kinds fall silent, come back and go.
struct Life;

impl Scenario for Life {
    type Outside = ();

    fn name(&self) -> &str {
        "claims without a controller"
    }

    fn outside(&self, _: &Gate, _: &server::Clock) {}

    async fn prepare(&self, world: &World<()>) {
        install(&world.server);
        world.server.put(kind("mars", Some((world.clock)()))).unwrap();
        world.server.put(kind("venus", None)).unwrap();
        world.server.put(claim("on-mars", "mars", running_status())).unwrap();
        world.server.put(claim("on-venus", "venus", json!({}))).unwrap();
        world.server.put(claim("nowhere", "pluto", running_status())).unwrap();
    }

    async fn process(&self, world: Arc<World<()>>, client: kube::Client) {
        registry(client, (world.clock)(), &[]).await;
    }

    async fn act(&self, world: &World<()>, step: usize) -> bool {
        // Far enough ahead to last over the time in which the world settles, and still believed.
        let later = (world.clock)().checked_add(Duration::from_secs(290)).unwrap();
        match step {
            0 => drop(world.server.put(kind("pluto", Some(later))).unwrap()),
            1 => assert!(world.server.delete(KINDS, "", "venus")),
            2 => drop(world.server.edit(KINDS, "", "mars", |k| k["status"]["lastHeartbeat"] = json!(later)).unwrap()),
            _ => return false,
        }
        true
    }

    fn invariant(&self, world: &World<()>) -> Result<(), String> {
        for claim in world.server.list(CLAIMS, "tenant") {
            let broken = claim["metadata"]["name"] != "on-venus" && claim["status"]["resourceID"] != "vm-1";
            if broken {
                return Err(format!("the status of {} was lost: {}", claim["metadata"]["name"], claim["status"]));
            }
        }
        Ok(())
    }

    fn ignored(&self) -> Vec<String> {
        vec!["events.events.k8s.io".to_owned()]
    }

    /// Long enough for every heartbeat to become stale, so that all runs are compared after the same things happened.
    fn settle(&self) -> Duration {
        Duration::from_secs(420)
    }
}

#[test]
fn stopped_at_every_effect_claims_are_told_the_same() {
    let report = sweep::crash_sweep(&Life);
    report.assert_passed();
    assert!(report.effects.len() >= 8, "too little happened: {:?}", report.effects);
}

#[test]
fn started_on_any_older_cache_claims_are_told_the_same() {
    sweep::stale_sweep(&Life).assert_passed();
}

#[test]
fn robbed_of_any_event_claims_are_told_the_same() {
    sweep::missed_event_sweep(&Life).assert_passed();
}

#[test]
fn under_random_schedules_claims_are_told_the_same() {
    sweep::seeds(&Life, 0..200).assert_passed();
}
