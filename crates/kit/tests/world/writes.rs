//! What is written, and what is spared.

use proptest::prelude::*;

use super::*;

fn writer(server: &Server) -> Writer {
    Writer::new(server.client("writer").kube(), "test")
}

fn target(object: &Value) -> Target {
    Target {
        kind: kinds::Kind::of::<Widget>(),
        key: ObjectKey::namespaced("default", object["metadata"]["name"].as_str().unwrap()),
        uid: object["metadata"]["uid"].as_str().unwrap().into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_applied_and_never_reaches_another_object_of_the_same_name() {
    let server = with_widgets();
    let first = server.put(widget("a", 1)).unwrap();
    let writer = writer(&server);
    writer.status(&target(&first), &json!({"phase": "Fine", "extra": null})).await.unwrap();
    let stored = server.get(WIDGETS, "default", "a").unwrap();
    assert_eq!(stored["status"], json!({"phase": "Fine"}));
    assert_eq!(stored["spec"]["size"], 1);
    server.delete(WIDGETS, "default", "a");
    server.put(widget("a", 1)).unwrap();
    let error = writer.status(&target(&first), &json!({"phase": "Old"})).await.unwrap_err();
    assert_eq!(error.class(), Class::Stale, "{error}");
    assert_eq!(server.get(WIDGETS, "default", "a").unwrap()["status"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_a_decision_is_not_written_over_what_it_was_not_based_on() {
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.len() == 1).await;
    let a = ObjectKey::namespaced("default", "a");
    let held = |w: &World| match w.feed.get(&a) {
        Seen::At(size) => size,
        other => panic!("{other:?}"),
    };
    let seen = held(&world);
    let at = world.feed.version(&a, &seen).unwrap();
    let stored = world.server.get(WIDGETS, "default", "a").unwrap();
    assert_eq!(at, version(&stored));
    let writer = writer(&world.server);
    let first = writer.status_at(&target(&stored), &json!({"host": "one"}), &at).await.unwrap();
    // The same decision on the same old sight of the object, as another replica would make it.
    let refused = writer.status_at(&target(&stored), &json!({"host": "two"}), &at).await.unwrap_err();
    assert!(matches!(refused, kit::write::Error::Changed { .. }), "{refused}");
    assert_eq!(refused.class(), Class::Stale);
    let now = world.server.get(WIDGETS, "default", "a").unwrap();
    assert_eq!((now["status"].clone(), version(&now)), (json!({"host": "one"}), first.clone()));
    // What is kept has not changed, so what was given out now stands for the newer version.
    world.until("shown", |w| w.feed.version(&a, &seen) == Some(first.clone())).await;
    world.server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(2)).unwrap();
    world.until("moved", |w| *held(w) == 2).await;
    assert_eq!(world.feed.version(&a, &seen), None, "a decision on the old size must not pass for one on the new");
    assert_eq!(world.feed.version(&ObjectKey::namespaced("default", "b"), &seen), None);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_others_survive_and_a_moved_list_is_read_again() {
    let server = with_widgets();
    let bare = server.put(widget("a", 1)).unwrap();
    let writer = writer(&server);
    let none: Vec<String> = Vec::new();
    writer.add_finalizer(&target(&bare), &none, &version(&bare), "berth.dev/ours").await.unwrap().unwrap();
    // The same decision on the same old sight of the object: refused, not doubled.
    let again = writer.add_finalizer(&target(&bare), &none, &version(&bare), "berth.dev/ours").await;
    assert_eq!(again.unwrap_err().class(), Class::Stale);
    let seen = vec!["berth.dev/ours".to_owned()];
    assert_eq!(writer.add_finalizer(&target(&bare), &seen, &version(&bare), "berth.dev/ours").await.unwrap(), None);
    server
        .edit(WIDGETS, "default", "a", |w| w["metadata"]["finalizers"] = json!(["x.io/theirs", "berth.dev/ours"]))
        .unwrap();
    let moved = writer.remove_finalizer(&target(&bare), &seen, "berth.dev/ours").await;
    assert_eq!(moved.unwrap_err().class(), Class::Stale);
    let seen = vec!["x.io/theirs".to_owned(), "berth.dev/ours".to_owned()];
    writer.remove_finalizer(&target(&bare), &seen, "berth.dev/ours").await.unwrap().unwrap();
    assert_eq!(server.get(WIDGETS, "default", "a").unwrap()["metadata"]["finalizers"], json!(["x.io/theirs"]));
    server.edit(WIDGETS, "default", "a", |w| w["metadata"]["finalizers"] = json!([])).unwrap();
    server.delete(WIDGETS, "default", "a");
    // Gone already: there is nothing left to take off.
    let gone = writer.remove_finalizer(&target(&bare), &seen, "berth.dev/ours").await;
    assert!(matches!(gone, Ok(None)), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_finds_its_own_object() {
    let server = with_widgets();
    let writer = writer(&server);
    let kind = kinds::Kind::of::<Widget>();
    server.inject(Rule::any().method("POST").always(), Action::DropAnswer);
    assert!(writer.create(&kind, Some("default"), &widget("a", 1)).await.is_err());
    server.stop_faults();
    match writer.create(&kind, Some("default"), &widget("a", 1)).await.unwrap() {
        Created::Existing(found) => assert_eq!(found["spec"]["size"], 1),
        Created::New(_) => panic!("it was there already"),
    }
    assert_eq!(server.list(WIDGETS, "default").len(), 1);
    assert!(matches!(writer.create(&kind, Some("default"), &widget("b", 1)).await.unwrap(), Created::New(_)));
}

#[tokio::test(start_paused = true)]
async fn a_delete_spares_a_newer_version_and_another_incarnation() {
    let server = with_widgets();
    let writer = writer(&server);
    let first = server.put(widget("a", 1)).unwrap();
    server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(2)).unwrap();
    let stale = writer.delete(&target(&first), Some(&version(&first))).await;
    assert_eq!(stale.unwrap_err().class(), Class::Stale);
    writer.delete(&target(&first), None).await.unwrap();
    assert!(server.get(WIDGETS, "default", "a").is_none());
    writer.delete(&target(&first), None).await.unwrap();
    server.put(widget("a", 3)).unwrap();
    assert_eq!(writer.delete(&target(&first), None).await.unwrap_err().class(), Class::Stale);
    assert!(server.get(WIDGETS, "default", "a").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_merge_changes_our_keys_only_and_only_what_it_was_based_on() {
    let server = with_widgets();
    let writer = writer(&server);
    let first = server.put(widget("a", 1)).unwrap();
    let ours = json!({"metadata": {"annotations": {"berth.dev/x": "1"}}});
    writer.merge(&target(&first), ours.clone(), Some(&version(&first))).await.unwrap();
    let stored = server.get(WIDGETS, "default", "a").unwrap();
    assert_eq!((&stored["spec"]["size"], &stored["metadata"]["annotations"]["berth.dev/x"]), (&json!(1), &json!("1")));
    let stale = writer.merge(&target(&first), ours, Some(&version(&first))).await;
    assert_eq!(stale.unwrap_err().class(), Class::Stale);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_object_is_told_from_one_that_has_changed() {
    let server = Server::new(1);
    let mut strict = definition();
    strict["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    server.put(strict).unwrap();
    let first = server.put(widget("a", 1)).unwrap();
    let writer = writer(&server);
    let wrong = writer.operations(&target(&first), vec![kit::write::add("/spec/size", json!("large"))]).await;
    assert_eq!(wrong.unwrap_err().class(), Class::Terminal, "or it would be sent again five times a second");
    let moved = writer.operations(&target(&first), vec![kit::write::test("/spec/size", json!(7))]).await;
    assert_eq!(moved.unwrap_err().class(), Class::Stale);
}

#[tokio::test(start_paused = true)]
async fn an_apply_spares_another_incarnation() {
    let server = with_widgets();
    let writer = writer(&server);
    let first = server.put(widget("a", 1)).unwrap();
    writer.apply(&target(&first), widget("a", 2)).await.unwrap();
    server.delete(WIDGETS, "default", "a");
    assert!(writer.apply(&target(&first), widget("a", 3)).await.is_err(), "it would be made again");
    server.put(widget("a", 4)).unwrap();
    assert_eq!(writer.apply(&target(&first), widget("a", 3)).await.unwrap_err().class(), Class::Stale);
    let gone = writer
        .create(
            &kinds::Kind::of::<Widget>(),
            Some("nowhere"),
            &json!({"apiVersion": "example.test/v1",
        "kind": "Widget", "metadata": {"name": "b", "namespace": "nowhere"}}),
        )
        .await;
    assert_eq!(gone.unwrap_err().class(), Class::Transient { at_least: None });
}

#[tokio::test(start_paused = true)]
async fn a_whole_object_is_replaced_only_as_it_was_read() {
    let server = with_widgets();
    let writer = writer(&server);
    let read = server.put(widget("a", 1)).unwrap();
    let mut next = read.clone();
    next["spec"] = json!({"other": 2});
    let at = writer.replace(&target(&read), &next).await.unwrap();
    let stored = server.get(WIDGETS, "default", "a").unwrap();
    assert_eq!((stored["spec"].clone(), version(&stored)), (json!({"other": 2}), at), "what is left out is gone");
    let moved = writer.replace(&target(&read), &next).await.unwrap_err();
    assert!(matches!(moved, kit::write::Error::Changed { .. }), "{moved}");
    next["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let requests = server.requests();
    let blind = writer.replace(&target(&read), &next).await.unwrap_err();
    assert_eq!((blind.class(), server.requests()), (Class::Stale, requests), "nobody writes over what was not read");
}

#[tokio::test(start_paused = true)]
async fn every_write_passes_a_fault_point_on_both_sides() {
    let server = with_widgets();
    let writer = Writer::new(server.client("writer").kube(), "points");
    let first = server.put(widget("a", 1)).unwrap();
    writer.status(&target(&first), &json!({})).await.unwrap();
    writer.merge(&target(&first), json!({}), None).await.unwrap();
    writer.replace(&target(&first), &server.get(WIDGETS, "default", "a").unwrap()).await.unwrap();
    writer.create(&kinds::Kind::of::<Widget>(), Some("default"), &widget("b", 1)).await.unwrap();
    writer.delete(&target(&first), None).await.unwrap();
    let effects = server.log().iter().filter(|e| e.effect.is_some()).count();
    let reached = kit::fault::reached();
    let points = ["status", "patch", "replace", "create", "delete"];
    assert_eq!(effects, points.len());
    for point in points {
        for side in ["before", "after"] {
            assert!(reached.contains(&format!("points.{point}.{side}")), "{point} {side} in {reached:?}");
        }
    }
}

const OURS: &str = "berth.dev/ours";
const NOTE: &str = "berth.dev/note";
const THEIRS: &str = "x.io/theirs";

/// A write of ours; those that end in `At` are refused when the object has moved on since it was looked at.
#[derive(Clone, Copy, Debug)]
enum Write {
    Merge(u8),
    MergeAt(u8),
    Apply(u8),
    Status(u8),
    StatusAt(u8),
    Finalize,
    Release,
    Delete,
    DeleteAt,
    Create(u8),
}

/// What somebody else does to the object.
#[derive(Clone, Copy, Debug)]
enum Theirs {
    Spec(u8),
    Status(u8),
    Hold(bool),
    Delete,
    /// Another object of the same name.
    Anew(u8),
}

/// What becomes of the request of a write.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Luck {
    Good,
    NeverArrives,
    AnswerLost,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Decided on what was there so many versions ago.
    Write(Write, usize, Luck),
    Theirs(Theirs),
}

fn step() -> impl Strategy<Value = Step> {
    let (value, back) = (0u8..3, prop_oneof![3 => Just(0), 2 => 1usize..6]);
    let write = prop_oneof![
        value.clone().prop_map(Write::Merge),
        value.clone().prop_map(Write::MergeAt),
        value.clone().prop_map(Write::Apply),
        value.clone().prop_map(Write::Status),
        value.clone().prop_map(Write::StatusAt),
        Just(Write::Finalize),
        Just(Write::Release),
        Just(Write::Delete),
        Just(Write::DeleteAt),
        value.clone().prop_map(Write::Create),
    ];
    let theirs = prop_oneof![
        value.clone().prop_map(Theirs::Spec),
        value.clone().prop_map(Theirs::Status),
        any::<bool>().prop_map(Theirs::Hold),
        Just(Theirs::Delete),
        value.prop_map(Theirs::Anew),
    ];
    let luck = prop_oneof![6 => Just(Luck::Good), 1 => Just(Luck::NeverArrives), 2 => Just(Luck::AnswerLost)];
    prop_oneof![3 => (write, back, luck).prop_map(|(w, b, l)| Step::Write(w, b, l)), 1 => theirs.prop_map(Step::Theirs)]
}

fn finalizers(object: &Value) -> Vec<String> {
    serde_json::from_value(object["metadata"]["finalizers"].clone()).unwrap_or_default()
}

/// Everything of an object that is not ours to change.
fn theirs(object: &Value) -> Value {
    let but = |fields: &Value, ours: &str| -> BTreeMap<String, Value> {
        let fields = fields.as_object().into_iter().flatten();
        fields.filter(|(name, _)| *name != ours).map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let (meta, held) = (&object["metadata"], finalizers(object).into_iter().filter(|name| name != OURS));
    json!({
        "uid": meta["uid"], "labels": meta["labels"], "finalizers": held.collect::<Vec<_>>(),
        "annotations": but(&meta["annotations"], NOTE),
        "spec": but(&object["spec"], "applied"), "status": but(&object["status"], "phase"),
    })
}

/// Sends a write that was decided on `seen`; `None` when nothing had to be written, or nothing is left.
async fn send(writer: &Writer, write: Write, seen: &Value) -> Result<Option<Version>, kit::write::Error> {
    let (target, at, held) = (target(seen), version(seen), finalizers(seen));
    let note = |value: u8| json!({"metadata": {"annotations": {NOTE: value.to_string()}}});
    let ours = |value: u8| {
        json!({"apiVersion": "example.test/v1", "kind": "Widget",
            "metadata": {"name": "a", "namespace": "default"}, "spec": {"applied": value}})
    };
    match write {
        Write::Merge(value) => writer.merge(&target, note(value), None).await.map(Some),
        Write::MergeAt(value) => writer.merge(&target, note(value), Some(&at)).await.map(Some),
        Write::Apply(value) => writer.apply(&target, ours(value)).await.map(Some),
        Write::Status(value) => writer.status(&target, &json!({"phase": value})).await.map(Some),
        Write::StatusAt(value) => writer.status_at(&target, &json!({"phase": value}), &at).await.map(Some),
        Write::Finalize => writer.add_finalizer(&target, &held, &at, OURS).await,
        Write::Release => writer.remove_finalizer(&target, &held, OURS).await,
        Write::Delete => writer.delete(&target, None).await.map(|()| None),
        Write::DeleteAt => writer.delete(&target, Some(&at)).await.map(|()| None),
        Write::Create(value) => {
            let created = writer.create(&target.kind, Some("default"), &ours(value)).await?;
            Ok(match created {
                Created::New(version) => Some(version),
                Created::Existing(_) => None,
            })
        }
    }
}

/// Whether what a write was decided on still holds.
fn holds(write: Write, seen: &Value, now: &Value) -> bool {
    let (seen_at, at) = (version(seen), version(now));
    match write {
        Write::MergeAt(_) | Write::StatusAt(_) | Write::DeleteAt => seen_at == at,
        // An empty list of finalizers cannot be named, so the version stands for it.
        Write::Finalize if finalizers(seen).is_empty() => seen_at == at,
        Write::Finalize | Write::Release => seen_at.uid == at.uid && finalizers(seen) == finalizers(now),
        Write::Merge(_) | Write::Apply(_) | Write::Status(_) | Write::Delete => seen_at.uid == at.uid,
        Write::Create(_) => false,
    }
}

fn done_by_somebody_else(server: &Server, change: Theirs) {
    let there = || server.get(WIDGETS, "default", "a");
    let edit = |change: &dyn Fn(&mut Value)| {
        if there().is_some() {
            server.edit(WIDGETS, "default", "a", change).unwrap();
        }
    };
    let hold = |object: &mut Value, hold: bool| {
        let mut all = finalizers(object);
        all.retain(|name| name != THEIRS);
        // New ones are refused once the object is being deleted.
        if hold && object["metadata"]["deletionTimestamp"].is_null() {
            all.push(THEIRS.to_owned());
        }
        object["metadata"]["finalizers"] = json!(all);
    };
    match change {
        Theirs::Spec(value) => edit(&|object| {
            object["spec"]["size"] = json!(value);
            object["metadata"]["annotations"]["x.io/note"] = json!(value.to_string());
        }),
        Theirs::Status(value) => edit(&|object| object["status"]["theirs"] = json!(value)),
        Theirs::Hold(on) => edit(&|object| hold(object, on)),
        Theirs::Delete => {
            server.delete(WIDGETS, "default", "a");
        }
        Theirs::Anew(value) => {
            edit(&|object| object["metadata"]["finalizers"] = json!([]));
            server.delete(WIDGETS, "default", "a");
            server.put(widget("a", i64::from(value))).unwrap();
        }
    }
}

/// Sends a write and checks what it did to the object; then sends it again, as after a restart.
async fn wrote(server: &Server, writer: &Writer, write: Write, seen: &Value, luck: Luck) {
    let there = || server.get(WIDGETS, "default", "a");
    let before = there();
    let fault = match luck {
        Luck::Good => None,
        Luck::NeverArrives => Some(Action::Refuse),
        Luck::AnswerLost => Some(Action::DropAnswer),
    };
    if let Some(fault) = fault {
        server.inject(Rule::any().client("writer"), fault);
    }
    let answer = send(writer, write, seen).await;
    server.stop_faults();
    let after = there();
    match (&before, &after) {
        (Some(before), Some(after)) => assert_eq!(theirs(before), theirs(after), "others are left alone"),
        (Some(before), None) => {
            let releases = matches!(write, Write::Release) && !before["metadata"]["deletionTimestamp"].is_null();
            assert!(releases || matches!(write, Write::Delete | Write::DeleteAt), "it is gone");
        }
        (None, Some(_)) => assert!(matches!(write, Write::Create(_)), "it was made again"),
        (None, None) => {}
    }
    if let Some(before) = before.as_ref().filter(|before| !holds(write, seen, before)) {
        assert_eq!(Some(before), after.as_ref(), "the past was written over the present");
        match &answer {
            Ok(None) => {
                assert!(matches!(write, Write::Finalize | Write::Release | Write::Create(_)), "nothing was sent")
            }
            Ok(Some(_)) => panic!("it says that it was written"),
            Err(error) => assert!(luck != Luck::Good || error.class() == Class::Stale, "{error}"),
        }
    }
    match &answer {
        Ok(Some(made)) if after.is_some() => assert_eq!(after.as_ref().map(version).as_ref(), Some(made)),
        Err(_) if luck != Luck::AnswerLost => assert_eq!(before, after, "it failed, and did something"),
        _ => {}
    }
    if luck != Luck::NeverArrives {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let again = send(writer, write, seen).await;
        assert_eq!(after, there(), "the same once more is no change: {again:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_history_lets_a_write_touch_what_is_not_ours_or_was_not_seen(steps in prop::collection::vec(step(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let server = with_widgets();
            let writer = writer(&server);
            let mut seen = vec![server.put(widget("a", 1)).unwrap()];
            for step in steps {
                match step {
                    Step::Theirs(change) => done_by_somebody_else(&server, change),
                    Step::Write(write, back, luck) => {
                        let at = seen.len() - 1 - back.min(seen.len() - 1);
                        wrote(&server, &writer, write, &seen[at], luck).await;
                    }
                }
                seen.extend(server.get(WIDGETS, "default", "a").filter(|now| seen.last() != Some(now)));
            }
        });
    }
}
