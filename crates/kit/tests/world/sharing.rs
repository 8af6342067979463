//! Several projections of one kind, and watches of a part of it.

use super::*;

#[tokio::test(start_paused = true)]
async fn two_projections_of_a_kind_share_one_watch() {
    let server = with_widgets();
    let mut red = widget("a", 1);
    red["metadata"]["labels"] = json!({"colour": "red"});
    server.put(red).unwrap();
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.phase() == Phase::Synced && w.labels.phase() == Phase::Synced).await;
    assert_eq!(world.asked(), (1, 1));
    let a = ObjectKey::namespaced("default", "a");
    assert_eq!(world.feed.get(&a), Seen::At(Arc::new(1)));
    assert_eq!(world.labels.get(&a), Seen::At(Arc::new(BTreeMap::from([("colour".into(), "red".into())]))));
    // Each is told of what it keeps, and of nothing else.
    world.server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(2)).unwrap();
    world.until("the new size", |w| !w.feed.by("size", "2").is_empty()).await;
    world.server.edit(WIDGETS, "default", "a", |w| w["metadata"]["labels"] = json!({})).unwrap();
    world.until("no label", |w| w.labels.get(&a) == Seen::At(Arc::default())).await;
    assert_eq!(world.heard(), ["a ->1", "a 1>2"]);
    assert_eq!(*world.labelled.lock().unwrap(), ["+a of 1", "+a of 1"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_vanished_while_the_watch_was_down_is_announced_to_every_projection() {
    let server = with_widgets();
    for name in ["a", "b", "c"] {
        server.put(widget(name, 1)).unwrap();
    }
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.len() == 3 && w.labels.len() == 3).await;
    world.heard();
    world.labelled.lock().unwrap().clear();
    let down = world.server.inject(Rule::any().matching(|r| r.resource == WIDGETS).always(), Action::Status(503));
    world.server.cut_watches();
    world.server.delete(WIDGETS, "default", "a");
    world.server.delete(WIDGETS, "default", "c");
    world.server.compact(world.server.revision());
    world.server.stop_fault(down);
    world.until("both lost", |w| w.feed.len() == 1 && w.labels.len() == 1).await;
    assert_eq!(world.heard(), ["a 1>-", "c 1>-"]);
    // Every index has lost both before anybody hears of it.
    assert_eq!(*world.labelled.lock().unwrap(), ["-a of 1", "-c of 1"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn our_own_write_holds_back_only_the_projection_that_was_told_of_it() {
    let server = with_widgets();
    let first = server.put(widget("a", 1)).unwrap();
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.len() == 1 && w.labels.len() == 1).await;
    let a = ObjectKey::namespaced("default", "a");
    let next = first["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() + 1;
    let written = Version { resource_version: next.to_string().into(), ..version(&first) };
    world.feed.wrote(&a, &written);
    assert_eq!(world.feed.get(&a), Seen::Behind);
    assert_eq!(world.labels.get(&a), Seen::At(Arc::default()));
    world.server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(2)).unwrap();
    world.until("shown", |w| w.feed.get(&a) == Seen::At(Arc::new(2))).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_projection_of_a_missing_kind_waits_for_it_behind_one_gate() {
    let world = World::start(Server::new(1), Scope::All);
    let both = |w: &World, phase| w.feed.phase() == phase && w.labels.phase() == phase;
    world.until("missing", |w| both(w, Phase::Missing)).await;
    assert_eq!(world.gates.report().gates.iter().filter(|g| g.name.contains("widgets")).count(), 1);
    world.server.put(definition()).unwrap();
    world.server.put(widget("a", 1)).unwrap();
    world.until("there", |w| both(w, Phase::Synced) && w.feed.len() == 1 && w.labels.len() == 1).await;
    assert_eq!(world.labels.kind(), world.feed.kind());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_projection_that_comes_after_the_watch_began_is_refused_and_a_known_one_is_shared() {
    struct Late;
    impl Project for Late {
        type Source = Widget;
        type Slim = ();
        fn slim(_: Widget) {}
    }
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    let refused = world.manager.feed::<Late>().err().unwrap();
    assert!(matches!(refused, manager::Error::TooLate(_)));
    assert!(refused.to_string().ends_with("ask for all feeds of a kind before the manager runs"), "{refused}");
    assert_eq!(world.manager.feed::<Sizes>().unwrap().len(), 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_view_of_a_kind_is_refused_whatever_version_it_prefers() {
    mod other {
        #[derive(Clone, Debug, serde::Deserialize)]
        pub struct Widget {
            metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
        }
        api::view! { Widget, group: "example.test", versions: ["v1beta1"], plural: "widgets", scope: Namespaced }
    }
    struct Names;
    impl Project for Names {
        type Source = other::Widget;
        type Slim = ();
        fn slim(_: other::Widget) {}
    }
    let world = World::start(with_widgets(), Scope::All);
    let refused = world.manager.feed::<Names>().err().unwrap();
    assert!(matches!(refused, manager::Error::KindTaken(_)), "{refused}");
    world.stop().await;
}

/// Secrets that are ours, by label.
mod ours {
    use super::*;

    #[derive(Clone, Debug, Deserialize)]
    pub struct Secret {
        #[serde(default, deserialize_with = "api::meta::lean_meta")]
        pub metadata: ObjectMeta,
        #[serde(default)]
        pub data: Value,
    }

    api::view! { Secret, group: "", versions: ["v1"], plural: "secrets", scope: Namespaced,
    only: metadata, labels: "example.test/ours=true", fields: "metadata.name!=skipped" }

    pub struct Copies;

    impl Project for Copies {
        type Source = Secret;
        type Slim = Value;
        fn slim(secret: Secret) -> Value {
            secret.data
        }
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_are_followed_without_their_content_and_by_selectors_of_their_own() {
    struct Any;
    impl Project for Any {
        type Source = api::views::Secret;
        type Slim = String;
        fn slim(secret: api::views::Secret) -> String {
            secret.metadata.resource_version.unwrap_or_default()
        }
    }
    let server = Server::new(1);
    let secret = |name: &str, ours: bool| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default",
            "labels": {"example.test/ours": ours.to_string()}}, "data": {"password": "aHVudGVyMg=="}})
    };
    for (name, ours) in [("copy", true), ("skipped", true), ("theirs", false)] {
        server.put(secret(name, ours)).unwrap();
    }
    let gates = Gates::new();
    let manager =
        Manager::new(server.client("kit").kube(), Clock::system(), gates.clone(), Metrics::new(), Options::default());
    let (any, copies) = (manager.feed::<Any>().unwrap(), manager.feed::<ours::Copies>().unwrap());
    let mut tasks = JoinSet::new();
    let run = Arc::clone(&manager);
    tasks.spawn(async move { run.run().await.unwrap() });
    any.settled().await;
    copies.settled().await;
    assert_eq!(any.len(), 3);
    let copy = ObjectKey::namespaced("default", "copy");
    assert_eq!(copies.all(), [(copy.clone(), Arc::new(Value::Null))], "the content was sent");
    // A change of the content is heard of, by its version.
    let Seen::At(before) = any.get(&copy) else { panic!("not there") };
    server.edit("secrets", "default", "copy", |s| s["data"]["password"] = json!("bmV3")).unwrap();
    let changed = async {
        while any.get(&copy) == Seen::At(Arc::clone(&before)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, changed).await.expect("the change is heard of");
    let asked = |e: &sim::server::Entry| e.query.contains("watch=true") && e.resource == "secrets";
    assert_eq!(server.log().into_iter().filter(asked).count(), 2, "one watch per selection");
    let names: Vec<String> = gates.report().gates.into_iter().map(|g| g.name).collect();
    assert!(names.contains(&"kind secrets. example.test/ours=true metadata.name!=skipped".to_owned()), "{names:?}");
    manager.stop().cancel();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// Widgets whose size is a number, or else they cannot be read.
mod exact {
    use super::*;

    #[derive(Clone, Debug, Deserialize)]
    pub struct Spec {
        pub size: i64,
    }

    #[derive(Clone, Debug, Deserialize)]
    pub struct Widget {
        pub metadata: ObjectMeta,
        pub spec: Spec,
    }
    api::view! { Widget, group: "example.test", versions: ["v1", "v1beta1"], plural: "widgets", scope: Namespaced }

    pub struct Exact;
    impl Project for Exact {
        type Source = Widget;
        type Slim = i64;
        fn slim(widget: Widget) -> i64 {
            widget.spec.size
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_one_view_cannot_read_is_waited_for_and_never_taken_for_gone() {
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let mut odd = widget("b", 0);
    odd["spec"]["size"] = json!("big");
    server.put(odd).unwrap();
    let world = World::start(server, Scope::All);
    let exact = world.manager.feed::<exact::Exact>().unwrap();
    world.until("the gate says why", |w| w.gates.report().to_json().contains("an object cannot be read")).await;
    assert_eq!(exact.phase(), Phase::Listing);
    let at = |name: &str| ObjectKey::namespaced("default", name);
    world.server.edit(WIDGETS, "default", "b", |w| w["spec"]["size"] = json!(2)).unwrap();
    world.until("everything can be read", |_| exact.phase() == Phase::Synced).await;
    assert_eq!((exact.get(&at("a")), exact.get(&at("b"))), (Seen::At(Arc::new(1)), Seen::At(Arc::new(2))));

    world.server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!("huge")).unwrap();
    world.server.edit(WIDGETS, "default", "b", |w| w["spec"]["size"] = json!(3)).unwrap();
    world.until("the view that can read it does", |w| w.feed.get(&at("a")) == Seen::At(Arc::new(0))).await;
    assert_eq!(exact.get(&at("a")), Seen::At(Arc::new(1)), "what was known stays");
    world.server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(4)).unwrap();
    world.until("both are current", |_| exact.get(&at("a")) == Seen::At(Arc::new(4))).await;
    assert_eq!(exact.get(&at("b")), Seen::At(Arc::new(3)));
    world.stop().await;
}
