//! The controls of the in-memory server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    runtime::watcher,
};
use serde_json::{Value, json};
use sim::server::{Action, EventAction, Handle, Kind, Outcome, Rule, Server};
use tokio::task::JoinSet;

fn map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

fn maps(handle: &Handle) -> Api<ConfigMap> {
    Api::namespaced(handle.kube(), "default")
}

async fn create(handle: &Handle, name: &str) -> kube::Result<ConfigMap> {
    maps(handle).create(&PostParams::default(), &map(name)).await
}

async fn set(handle: &Handle, name: &str, value: &str) -> kube::Result<ConfigMap> {
    let patch = json!({ "data": { "a": value } });
    maps(handle).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await
}

async fn names(handle: &Handle) -> Vec<String> {
    let list = maps(handle).list(&ListParams::default()).await.unwrap();
    list.items.iter().map(ResourceExt::name_any).collect()
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

#[tokio::test(start_paused = true)]
async fn a_crashed_client_is_never_answered_and_its_watch_ends() {
    let server = Server::new(1);
    let (victim, other) = (server.client("victim"), server.client("other"));
    let mut watch = Box::pin(maps(&victim).watch(&WatchParams::default(), "0").await.unwrap());
    victim.crash();
    assert!(watch.next().await.is_none());
    let hangs = tokio::time::timeout(Duration::from_secs(3600), create(&victim, "a")).await;
    assert!(hangs.is_err());
    create(&other, "b").await.unwrap();
    assert_eq!(server.list("configmaps", "default").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_client_fails_until_it_is_back() {
    let server = Server::new(1);
    let handle = server.client("c");
    handle.disconnect();
    assert!(create(&handle, "a").await.is_err());
    handle.reconnect();
    create(&handle, "a").await.unwrap();
    assert_eq!(server.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_client_lists_the_past_while_reads_by_name_and_writes_are_live() {
    let server = Server::new(1);
    let (old, live) = (server.client("old"), server.client("live"));
    create(&live, "a").await.unwrap();
    let then = server.revision();
    create(&live, "b").await.unwrap();
    maps(&live).delete("a", &Default::default()).await.unwrap();
    old.freeze(then);
    assert_eq!(names(&old).await, ["a"]);
    assert_eq!(names(&live).await, ["b"]);
    assert!(maps(&old).get_opt("a").await.unwrap().is_none());
    old.freeze_all(then);
    assert!(maps(&old).get_opt("a").await.unwrap().is_some());
    assert_eq!(code(&create(&old, "b").await.unwrap_err()), 409);
    old.thaw();
    assert_eq!(names(&old).await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_watch_delivers_what_it_held_when_thawed() {
    let server = Server::new(1);
    let (old, live) = (server.client("old"), server.client("live"));
    old.freeze(server.revision());
    let mut events = Box::pin(watcher(maps(&old), watcher::Config::default()));
    assert!(matches!(events.next().await, Some(Ok(watcher::Event::Init))));
    assert!(matches!(events.next().await, Some(Ok(watcher::Event::InitDone))));
    create(&live, "a").await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(200), events.next()).await.is_err());
    old.thaw();
    match events.next().await {
        Some(Ok(watcher::Event::Apply(object))) => assert_eq!(object.name_any(), "a"),
        other => panic!("{other:?}"),
    }
}

async fn seen(handle: &Handle, count: usize) -> Vec<String> {
    let mut watch = Box::pin(maps(handle).watch(&WatchParams::default(), "1").await.unwrap());
    let mut out = Vec::new();
    for _ in 0..count {
        match watch.next().await {
            Some(Ok(WatchEvent::Added(object))) => out.push(object.name_any()),
            other => panic!("{other:?}"),
        }
    }
    out
}

#[tokio::test(start_paused = true)]
async fn events_are_dropped_repeated_and_delayed_by_number() {
    let server = Server::new(1);
    for name in ["a", "b", "c"] {
        create(&server.client("maker"), name).await.unwrap();
    }
    let handle = server.client("watcher");
    handle.drop_event(2);
    handle.repeat_event(3);
    assert_eq!(seen(&handle, 3).await, ["a", "c", "c"]);
    assert_eq!(handle.events(), 3);

    let slow = server.client("slow");
    slow.script_events(|number, resource, word| {
        assert_eq!((resource, word), ("configmaps", "ADDED"));
        EventAction { delay: Duration::from_secs(if number == 2 { 5 } else { 0 }), ..EventAction::default() }
    });
    let start = tokio::time::Instant::now();
    assert_eq!(seen(&slow, 3).await, ["a", "b", "c"]);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn the_nth_matching_request_meets_its_fault_and_no_other() {
    let server = Server::new(1);
    let handle = server.client("c");
    create(&handle, "a").await.unwrap();
    let fault =
        server.inject(Rule::any().method("PATCH").path_contains("/configmaps/a").client("c").nth(2), Action::Conflict);
    set(&handle, "a", "1").await.unwrap();
    assert_eq!(code(&set(&handle, "a", "2").await.unwrap_err()), 409);
    set(&handle, "a", "3").await.unwrap();
    assert_eq!(server.hits(fault), 1);
    assert_eq!(server.get("configmaps", "default", "a").unwrap()["data"]["a"], "3");

    server.inject(Rule::any().path_prefix("/api/v1/").times(2), Action::Status(503));
    for _ in 0..2 {
        assert_eq!(code(&maps(&handle).get("a").await.unwrap_err()), 503);
    }
    maps(&handle).get("a").await.unwrap();

    let always = server.inject(Rule::any().matching(|info| info.mutating).always(), Action::TooMany(3));
    let refused = set(&handle, "a", "4").await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!((status.code, status.details.unwrap().retry_after_seconds), (429, 3));
    server.stop_fault(always);
    set(&handle, "a", "4").await.unwrap();

    server.inject(Rule::any(), Action::Delay(Duration::from_secs(7)));
    let start = tokio::time::Instant::now();
    maps(&handle).get("a").await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_a_committed_effect_and_a_refused_request_is_none() {
    let server = Server::new(1);
    let handle = server.client("c");
    server.inject(Rule::any().method("POST"), Action::DropAnswer);
    assert!(create(&handle, "a").await.is_err());
    assert!(server.get("configmaps", "default", "a").is_some());
    server.inject(Rule::any().method("POST"), Action::Refuse);
    assert!(create(&handle, "b").await.is_err());
    assert!(server.get("configmaps", "default", "b").is_none());
    assert_eq!(code(&create(&handle, "a").await.unwrap_err()), 409);
    maps(&handle).get("a").await.unwrap();

    let log = server.log();
    let short: Vec<(Option<u64>, &str, Outcome)> =
        log.iter().map(|e| (e.effect, e.method.as_str(), e.outcome.clone())).collect();
    assert_eq!(
        short,
        [
            (Some(1), "POST", Outcome::Lost(201)),
            (None, "POST", Outcome::Refused),
            (Some(2), "POST", Outcome::Answered(409)),
            (None, "GET", Outcome::Answered(200)),
        ]
    );
    assert_eq!(log[0].client, "c");
    assert_eq!(log[0].resource, "configmaps");
    assert_eq!(log[0].path, "/api/v1/namespaces/default/configmaps");
    assert_eq!(log[0].digest, log[2].digest);
    assert_ne!(log[0].digest, log[1].digest);
}

#[tokio::test(start_paused = true)]
async fn a_compacted_history_expires_watches_and_pages() {
    let server = Server::new(1);
    let handle = server.client("c");
    for i in 0..4 {
        create(&handle, &format!("m{i}")).await.unwrap();
    }
    let page = maps(&handle).list(&ListParams::default().limit(2)).await.unwrap();
    let token = page.metadata.continue_.unwrap();
    create(&handle, "late").await.unwrap();
    server.compact(server.revision());
    let error = maps(&handle).list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap_err();
    assert_eq!(code(&error), 410);
    let mut watch = Box::pin(maps(&handle).watch(&WatchParams::default(), "2").await.unwrap());
    match watch.next().await {
        Some(Ok(WatchEvent::Error(status))) => assert_eq!((status.code, status.reason.as_str()), (410, "Expired")),
        other => panic!("{other:?}"),
    }
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_is_relisted_and_a_cut_one_resumed() {
    let server = Server::new(1);
    let handle = server.client("c");
    let mut events = Box::pin(watcher(maps(&handle), watcher::Config::default()));
    assert!(matches!(events.next().await, Some(Ok(watcher::Event::Init))));
    assert!(matches!(events.next().await, Some(Ok(watcher::Event::InitDone))));
    server.cut_watches();
    create(&handle, "a").await.unwrap();
    assert!(matches!(events.next().await, Some(Ok(watcher::Event::Apply(_)))));
    handle.expire_watches();
    assert!(matches!(events.next().await, Some(Err(_))));
    assert!(matches!(events.next().await, Some(Ok(watcher::Event::Init))));
    assert!(matches!(events.next().await, Some(Ok(watcher::Event::InitApply(_)))));
    assert!(matches!(events.next().await, Some(Ok(watcher::Event::InitDone))));
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_comes_when_asked_for() {
    let server = Server::new(1);
    let handle = server.client("c");
    let mut watch = Box::pin(maps(&handle).watch(&WatchParams::default(), "0").await.unwrap());
    create(&handle, "a").await.unwrap();
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
    server.bookmark();
    match watch.next().await {
        Some(Ok(WatchEvent::Bookmark(mark))) => {
            assert_eq!(mark.metadata.resource_version, server.revision().to_string())
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn streaming_initial_lists_are_refused_by_name() {
    let server = Server::new(1);
    let handle = server.client("c");
    let config = watcher::Config::default().streaming_lists();
    let mut events = Box::pin(watcher(maps(&handle), config));
    let mut words = String::new();
    for _ in 0..2 {
        if let Some(Err(error)) = events.next().await {
            words = format!("{error:?}");
        }
    }
    assert!(words.contains("sendInitialEvents"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_the_same_world_again() {
    async fn world(seed: u64) -> Value {
        let server = Server::new(seed);
        let handle = server.client("c");
        let mut generated = map("");
        generated.metadata.name = None;
        generated.metadata.generate_name = Some("g-".into());
        for _ in 0..3 {
            maps(&handle).create(&PostParams::default(), &generated).await.unwrap();
        }
        server.objects().into_iter().map(|(_, v)| v).collect()
    }
    assert_eq!(world(7).await, world(7).await);
    assert_ne!(world(7).await, world(8).await);
}

/// Faults are drawn as events are heard of, so another order is another run.
#[test]
fn all_who_wait_hear_of_a_change_in_the_same_order_in_every_run() {
    const MANY: usize = 16;
    async fn heard() -> Vec<usize> {
        let (server, heard) = (Server::new(1), Arc::<Mutex<Vec<usize>>>::default());
        let mut all = JoinSet::new();
        for number in 0..MANY {
            let (server, handle) = (server.clone(), server.client(&format!("watcher-{number}")));
            let note = heard.clone();
            all.spawn(async move {
                let mut watch = Box::pin(maps(&handle).watch(&WatchParams::default(), "0").await.unwrap());
                for _ in 0..3 {
                    watch.next().await.unwrap().unwrap();
                    note.lock().unwrap().push(number);
                }
                assert!(
                    server.wait_until(Duration::from_secs(60), |s| s.list("configmaps", "default").len() == 4).await
                );
                note.lock().unwrap().push(number);
            });
        }
        for name in ["a", "b", "c", "d"] {
            tokio::time::sleep(Duration::from_secs(1)).await;
            create(&server.client("maker"), name).await.unwrap();
        }
        while let Some(ended) = all.join_next().await {
            ended.unwrap();
        }
        std::mem::take(&mut *heard.lock().unwrap())
    }
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(heard())
    };
    let first = run();
    assert_eq!(first.len(), 4 * MANY);
    for _ in 0..5 {
        assert_eq!(run(), first);
    }
}

#[tokio::test(start_paused = true)]
async fn the_tests_own_hand_writes_whole_objects() {
    let server = Server::new(1);
    server.register(Kind::namespaced("berth.test", "v1", "Widget", "widgets"));
    let widget = json!({
        "apiVersion": "berth.test/v1", "kind": "Widget",
        "metadata": { "name": "w", "namespace": "default", "finalizers": ["berth.test/hold"] },
        "spec": { "size": 1 }, "status": { "phase": "Ready" },
    });
    let made = server.put(widget).unwrap();
    assert_eq!(made["status"]["phase"], "Ready");
    let edited = server.edit("widgets.berth.test", "default", "w", |w| w["spec"]["size"] = json!(2)).unwrap();
    assert_eq!((&edited["metadata"]["generation"], &edited["status"]["phase"]), (&json!(2), &json!("Ready")));
    assert!(server.delete("widgets.berth.test", "default", "w"));
    assert!(server.get("widgets.berth.test", "default", "w").unwrap()["metadata"]["deletionTimestamp"].is_string());
    server
        .edit("widgets.berth.test", "default", "w", |w| {
            w["metadata"].as_object_mut().unwrap().remove("finalizers");
        })
        .unwrap();
    assert!(server.get("widgets.berth.test", "default", "w").is_none());
    assert!(!server.delete("widgets.berth.test", "default", "w"));
    assert_eq!(server.put(json!({ "apiVersion": "x/v1", "kind": "Y" })).unwrap_err().code, 400);
    assert_eq!(server.effects(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_wakes_at_the_change_and_ends_at_its_limit() {
    let server = Server::new(1);
    let handle = server.client("c");
    let (met, made) = tokio::join!(
        server.wait_until(Duration::from_secs(60), |s| s.get("configmaps", "default", "a").is_some()),
        create(&handle, "a"),
    );
    made.unwrap();
    assert!(met);
    assert!(!server.wait_until(Duration::from_secs(60), |s| s.get("configmaps", "default", "b").is_some()).await);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_objects_are_listed_in_pages_and_watched() {
    let server = Server::new(1);
    for i in 0..10_000 {
        server
            .put(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("m{i:05}") }, "data": { "a": "1" } }))
            .unwrap();
    }
    let handle = server.client("c");
    let mut events = Box::pin(watcher(maps(&handle), watcher::Config::default().page_size(500)));
    let mut count = 0;
    loop {
        match events.next().await {
            Some(Ok(watcher::Event::InitApply(_))) => count += 1,
            Some(Ok(watcher::Event::InitDone)) => break,
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(count, 10_000);
    set(&handle, "m05000", "2").await.unwrap();
    assert!(matches!(events.next().await, Some(Ok(watcher::Event::Apply(_)))));
}
