//! The driver against the in-memory API server: what becomes of a pass that goes wrong, on paused time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::key::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kit::class::{Class, Classify};
use kit::clock::Clock;
use kit::conditions::Verdict;
use kit::feed::{Feed, Project, Seen, Version};
use kit::gates::Gates;
use kit::lease::{Candidate, Settings, Terms};
use kit::manager::{Manager, Options, Stage};
use kit::queue::Priority;
use kit::room::{Driver, Flow, Report, Room, Trouble, Violation};
use kit::telemetry::Metrics;
use kit::write::Target;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sim::server::{Action, Rule, Server};
use tokio::task::JoinSet;

const WIDGETS: &str = "widgets.example.test";

#[derive(Clone, Debug, Deserialize)]
struct Widget {
    #[serde(default, deserialize_with = "api::meta::lean_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    status: Told,
}

api::view! { Widget, group: "example.test", versions: ["v1"], plural: "widgets", scope: Namespaced }

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Told {
    observed_generation: Option<i64>,
    conditions: Vec<Condition>,
}

api::conditioned!(Told);

#[derive(Debug, PartialEq)]
struct Slim {
    target: Target,
    generation: i64,
    told: Told,
}

impl Project for Slim {
    type Source = Widget;
    type Slim = Self;
    fn slim(widget: Widget) -> Self {
        let target = Target::of(&widget);
        Self { target, generation: widget.metadata.generation.unwrap_or_default(), told: widget.status }
    }
}

/// What the room does, by the name of the object.
struct Fake {
    widgets: Feed<Slim>,
    /// Objects that are looked at again and again, in the order of their passes.
    passes: Arc<Mutex<Vec<String>>>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?}")]
struct Failed(Class);

impl Classify for Failed {
    fn class(&self) -> Class {
        self.0
    }
}

impl Room for Fake {
    const NAME: &'static str = "fake";
    type Key = ObjectKey;
    type Snapshot = Arc<Slim>;
    type Step = &'static str;
    type Status = Told;
    type Error = Failed;

    async fn observe(&self, key: &ObjectKey, _: Timestamp) -> Result<Option<Arc<Slim>>, Failed> {
        match self.widgets.get(key) {
            Seen::At(slim) => Ok(Some(slim)),
            Seen::Absent => Ok(None),
            Seen::Behind => Err(Failed(Class::Stale)),
        }
    }

    fn decide(&self, slim: &Arc<Slim>) -> Vec<&'static str> {
        match slim.target.key.name() {
            "hopeless" => vec!["refuse"],
            "slow" => vec!["sleep"],
            name if name.starts_with("busy") => vec!["again"],
            name if name.starts_with("waiting") => vec!["wait"],
            _ => vec![],
        }
    }

    fn guard(&self, _: &Arc<Slim>, _: &[&'static str]) -> Result<(), Violation> {
        Ok(())
    }

    async fn apply(&self, slim: &Arc<Slim>, step: &'static str) -> Result<Flow, Failed> {
        if step == "refuse" {
            return Err(Failed(Class::Terminal));
        }
        if step != "sleep" {
            self.passes.lock().unwrap().push(slim.target.key.name().to_owned());
            // Longer than a key is held back, so that all are always due.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        match step {
            "again" => return Ok(Flow::Again),
            "wait" => return Ok(Flow::Wait(Some(Timestamp::UNIX_EPOCH))),
            _ => {}
        }
        tokio::time::sleep(Duration::from_secs(50)).await;
        Ok(Flow::Next)
    }

    fn report<'s>(&self, slim: &'s Arc<Slim>, trouble: Option<&Trouble<Failed>>) -> Option<Report<'s, Told>> {
        let verdict = match trouble {
            None => Verdict::yes("Ready", "Fine", ""),
            Some(_) => Verdict::no("Ready", "Refused", "it cannot be done"),
        };
        Some(Report {
            target: slim.target.clone(),
            generation: slim.generation,
            stored: &slim.told,
            next: Told::default(),
            based_on: None,
            verdicts: vec![verdict],
        })
    }

    fn priority(&self, key: &ObjectKey, usual: Priority) -> Priority {
        match key.name() {
            name if name.ends_with("first") => Priority::Urgent,
            name if name.ends_with("behind") => Priority::Background,
            _ => usual,
        }
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        assert!(key.name() != "poisoned", "on purpose");
        self.widgets.wrote(key, version);
    }
}

fn server(names: &[&str]) -> Server {
    let server = Server::new(1);
    server
        .put(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": WIDGETS},
        "spec": {"group": "example.test", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true, "properties": {"conditions": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                            "required": ["type"], "properties": {"type": {"type": "string"}}}}}}}}}}]}}))
        .unwrap();
    for name in names {
        server.put(widget(name, json!({}))).unwrap();
    }
    server
}

fn widget(name: &str, status: Value) -> Value {
    json!({"apiVersion": "example.test/v1", "kind": "Widget", "status": status,
        "metadata": {"name": name, "namespace": "default"}})
}

fn manager(server: &Server, resync: Option<Duration>) -> Arc<Manager> {
    let clock = Clock::simulated((server.clock())(), 1);
    let options = Options { workers: 1, resync, ..Options::default() };
    Manager::new(server.client("kit").kube(), clock, Gates::new(), Metrics::new(), options)
}

fn start(manager: &Arc<Manager>) -> JoinSet<()> {
    start_counted(manager, &Arc::default())
}

fn start_counted(manager: &Arc<Manager>, passes: &Arc<Mutex<Vec<String>>>) -> JoinSet<()> {
    let widgets = manager.feed::<Slim>().unwrap();
    let driver = Driver::new(manager, Fake { widgets: widgets.clone(), passes: Arc::clone(passes) });
    let work = Arc::clone(driver.work());
    widgets.observe(move |delta| work.add_now(delta.key.clone(), Priority::Urgent));
    let ready = widgets.clone();
    manager.drive(&driver, async move { ready.settled().await }, move |accepts| widgets.keys(accepts));
    let (run, mut tasks) = (Arc::clone(manager), JoinSet::new());
    tasks.spawn(async move { run.run().await.unwrap() });
    tasks
}

fn reason(server: &Server, name: &str) -> Option<String> {
    let object = server.get(WIDGETS, "default", name)?;
    let conditions = object["status"]["conditions"].as_array()?.clone();
    conditions.iter().find(|c| c["type"] == "Ready").map(|c| c["reason"].as_str().unwrap().to_owned())
}

fn status_writes(server: &Server) -> usize {
    server.log().iter().filter(|e| e.path.ends_with("/status") && e.effect.is_some()).count()
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_failure_that_waits_for_the_user_is_told_even_if_telling_fails_at_first() {
    for code in [503, 422] {
        let server = server(&["hopeless", "fine"]);
        server.inject(Rule::any().path_contains("/status").times(2), Action::Status(code));
        let _process = start(&manager(&server, None));
        let told = |s: &Server| reason(s, "hopeless").as_deref() == Some("Refused") && reason(s, "fine").is_some();
        assert!(server.wait_until(MINUTE, told).await, "nobody was told after a {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_of_others_stay_theirs_and_in_their_place() {
    let server = server(&[]);
    let theirs = json!({"type": "Zonal", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    server.put(widget("shared", json!({"conditions": [theirs]}))).unwrap();
    let _process = start(&manager(&server, Some(MINUTE)));
    assert!(server.wait_until(MINUTE, |s| reason(s, "shared").is_some()).await);
    let stored = server.get(WIDGETS, "default", "shared").unwrap();
    let managed = stored["metadata"]["managedFields"].as_array().unwrap();
    let ours = managed.iter().find(|entry| entry["manager"] == "berth-fake").unwrap().to_string();
    assert!(ours.contains("Ready") && !ours.contains("Zonal"), "{ours}");
    tokio::time::sleep(100 * MINUTE).await;
    assert_eq!(status_writes(&server), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_by_one_that_no_longer_leads() {
    let server = server(&["slow"]);
    let manager = manager(&server, None);
    server.namespace("berth-system");
    let terms = Terms::new(Duration::from_secs(15)).unwrap();
    let settings = Settings { namespace: "berth-system".into(), name: "berth".into(), identity: "old".into(), terms };
    let (candidate, leadership) = Candidate::new(server.client("lease").kube(), manager.clock().clone(), settings);
    let mut standing = leadership.standing();
    manager.follow(leadership);
    manager.spawn(Stage::Watch, "lease", |stop| candidate.run(stop, async {}));
    let _process = start(&manager);
    standing.wait_for(|s| *s == kit::lease::Standing::Leading).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The step under way outlives the term.
    server.inject(Rule::any().client("lease").always(), Action::Refuse);
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(status_writes(&server), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_between_the_halves_stays_with_its_object() {
    let server = server(&["a", "poisoned", "z"]);
    let _process = start(&manager(&server, None));
    assert!(server.wait_until(MINUTE, |s| reason(s, "a").is_some() && reason(s, "z").is_some()).await);
}

/// What a scrape shows of one figure of the room's queue.
fn shown(manager: &Manager, figure: &str) -> Option<i64> {
    let text = manager.metrics().encode();
    let line = format!("berth_room_queue_{figure}{{room=\"fake\"}} ");
    text.lines().find_map(|found| found.strip_prefix(&line)?.parse().ok())
}

#[tokio::test(start_paused = true)]
async fn a_room_whose_workers_all_hang_shows_the_lag_of_now() {
    let server = server(&["slow", "x", "y"]);
    let manager = manager(&server, None);
    let _process = start(&manager);
    // The only worker holds `slow` for fifty seconds and ends no pass meanwhile.
    let mut seen = Vec::new();
    while seen.last().is_none_or(|late| *late < 40) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        seen.extend(shown(&manager, "late_seconds").filter(|late| *late > 0));
        assert!(seen.len() < 100, "{seen:?}");
    }
    let risen: Vec<i64> = (0..).zip(&seen).map(|(second, late)| late - second).collect();
    assert!(risen.iter().all(|start| (start - risen[0]).abs() <= 1), "it rises with the clock: {seen:?}");
    assert_eq!((shown(&manager, "busy"), shown(&manager, "waiting")), (Some(1), Some(2)));
    tokio::time::sleep(3 * MINUTE).await;
    assert_eq!((shown(&manager, "late_seconds"), shown(&manager, "waiting")), (Some(0), Some(0)));
}

#[tokio::test(start_paused = true)]
async fn the_slowest_objects_and_the_last_failures_are_known_by_name() {
    let server = server(&["slow", "hopeless", "poisoned", "fine"]);
    let manager = manager(&server, None);
    let _process = start(&manager);
    assert!(
        server.wait_until(3 * MINUTE, |s| ["slow", "hopeless", "fine"].iter().all(|n| reason(s, n).is_some())).await
    );
    let lately = manager.metrics().passes().lately();
    let slowest = &lately.slowest[0];
    assert_eq!((slowest.object.as_str(), slowest.room.as_str()), ("default/slow", "fake"));
    assert_eq!((slowest.kind.as_deref(), slowest.outcome.as_str()), (Some("Widget"), "changed"));
    assert!(slowest.seconds >= 50.0, "{slowest:?}");
    assert!(lately.slowest.len() >= 4, "{lately:?}");
    let failed = |name: &str| lately.errors.iter().find(|failed| failed.object == format!("default/{name}")).unwrap();
    let hopeless = failed("hopeless");
    assert_eq!((hopeless.class.as_str(), hopeless.sort.as_str()), ("terminal", "failed"));
    assert_eq!((hopeless.reason.as_deref(), hopeless.kind.as_deref()), (Some("Refused"), Some("Widget")));
    assert_eq!((failed("poisoned").sort.as_str(), &failed("poisoned").reason), ("panicked", &None));
    assert!(lately.errors.iter().all(|failed| failed.object != "default/fine"), "{lately:?}");
}

/// How many of a hundred passes are of an object, while others of the same sort are always due as well.
async fn share(names: &[String], of: &str) -> usize {
    let server = server(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let passes = Arc::default();
    let _process = start_counted(&manager(&server, None), &passes);
    while passes.lock().unwrap().len() < 150 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let passes = passes.lock().unwrap();
    passes[passes.len() - 100..].iter().filter(|name| *name == of).count()
}

#[tokio::test(start_paused = true)]
async fn what_the_room_says_is_urgent_goes_first_however_the_driver_asks_for_it() {
    for sort in ["busy", "waiting"] {
        let crowd = |end: &str| (0..9).map(|number| format!("{sort}-{number}-{end}")).collect::<Vec<_>>();
        let one = format!("{sort}-first");
        let told = share(&[crowd("behind"), vec![one.clone()]].concat(), &one).await;
        // Nobody passes the same key twice at once, and every eighth turn belongs to the others.
        assert!(told > 40, "{sort}: {told} of a hundred");
        let one = format!("{sort}-9-usual");
        let told = share(&[crowd("usual"), vec![one.clone()]].concat(), &one).await;
        assert!((8..=12).contains(&told), "{sort}: {told} of a hundred, where nobody says anything");
    }
}
