//! What is written, and what is spared.

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
async fn every_write_passes_a_fault_point_on_both_sides() {
    let server = with_widgets();
    let writer = Writer::new(server.client("writer").kube(), "points");
    let first = server.put(widget("a", 1)).unwrap();
    writer.status(&target(&first), &json!({})).await.unwrap();
    writer.merge(&target(&first), json!({}), None).await.unwrap();
    writer.create(&kinds::Kind::of::<Widget>(), Some("default"), &widget("b", 1)).await.unwrap();
    writer.delete(&target(&first), None).await.unwrap();
    let effects = server.log().iter().filter(|e| e.effect.is_some()).count();
    let reached = kit::fault::reached();
    let points = ["status", "patch", "create", "delete"];
    assert_eq!(effects, points.len());
    for point in points {
        for side in ["before", "after"] {
            assert!(reached.contains(&format!("points.{point}.{side}")), "{point} {side} in {reached:?}");
        }
    }
}
