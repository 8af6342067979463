//! One watch: what it shows, and what it costs.

use super::*;

#[test]
fn a_feed_of_a_list_shows_just_that_list() {
    let older = kinds::Kind { version: "v1beta1".to_owned(), ..kinds::Kind::of::<Widget>() };
    let objects = [widget("a", 1), widget("b", 2)].map(|object| serde_json::from_value(object).unwrap());
    let feed: Feed<Sizes> = Feed::of(Clock::system(), older.clone(), objects);
    assert_eq!((feed.phase(), feed.kind(), feed.len()), (Phase::Synced, older, 2));
    assert_eq!(feed.get(&ObjectKey::namespaced("default", "b")), Seen::At(Arc::new(2)));
    assert_eq!(feed.get(&ObjectKey::namespaced("default", "c")), Seen::Absent);
    assert_eq!(feed.by("size", "1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_waited_for_and_picked_up_when_it_appears() {
    let world = World::start(Server::new(1), Scope::All);
    world.until("missing", |w| w.feed.phase() == Phase::Missing).await;
    let report = world.gates.report();
    assert!(report.ready, "a missing kind must not take readiness away");
    assert!(format!("{report:?}").contains("waiting for the kind Widget"), "{report:?}");
    world.server.put(definition()).unwrap();
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    world.server.put(widget("a", 1)).unwrap();
    world.until("seen", |w| w.feed.len() == 1).await;
    assert_eq!(world.heard(), ["a ->1"]);
    // Nobody waits for a kind any more, so nobody watches definitions either.
    world.until("one watch", |w| w.server.open_watches() == 1).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_relist_that_lost_objects_announces_them() {
    let server = with_widgets();
    for (name, size) in [("a", 1), ("b", 2), ("c", 3)] {
        server.put(widget(name, size)).unwrap();
    }
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.len() == 3).await;
    world.heard();
    // While nobody can watch: one object goes, one changes, one comes, and history is forgotten.
    let closed = world.server.inject(Rule::any().matching(|r| r.watch).always(), Action::Status(503));
    world.server.cut_watches();
    assert!(world.server.delete(WIDGETS, "default", "a"));
    world.server.edit(WIDGETS, "default", "b", |w| w["spec"]["size"] = json!(20)).unwrap();
    world.server.put(widget("d", 4)).unwrap();
    world.server.compact(world.server.revision());
    world.server.stop_fault(closed);
    world.until("relisted", |w| w.feed.get(&ObjectKey::namespaced("default", "a")) == Seen::Absent).await;
    let mut heard = world.heard();
    heard.sort();
    assert_eq!(heard, ["a 1>-", "b 2>20", "d ->4"]);
    assert_eq!(world.feed.by("size", "20").len(), 1);
    assert!(world.feed.by("size", "1").is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_no_longer_served_takes_its_objects_with_it_and_can_come_back() {
    let server = Server::new(1);
    server.put(definition()).unwrap();
    server.put(widget("a", 1)).unwrap();
    let world = World::start(server, Scope::All);
    world.until("seen", |w| w.feed.len() == 1).await;
    assert!(world.server.delete("customresourcedefinitions.apiextensions.k8s.io", "", WIDGETS));
    world.server.cut_watches();
    world.until("gone", |w| w.feed.is_empty() && w.feed.phase() == Phase::Missing).await;
    assert_eq!(world.heard(), ["a ->1", "a 1>-"]);
    world.server.put(definition()).unwrap();
    world.server.put(widget("a", 5)).unwrap();
    world.until("back", |w| w.feed.len() == 1).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_followed_at_the_best_version_served_and_at_another_when_that_goes() {
    let server = Server::new(1);
    let mut older = definition();
    older["spec"]["versions"][0]["name"] = json!("v1beta1");
    server.put(older).unwrap();
    let mut object = widget("a", 1);
    object["apiVersion"] = json!("example.test/v1beta1");
    server.put(object).unwrap();
    let world = World::start(server, Scope::All);
    world.until("seen", |w| w.feed.len() == 1).await;
    assert_eq!(world.feed.kind().api_version(), "example.test/v1beta1");
    assert!(world.server.delete("customresourcedefinitions.apiextensions.k8s.io", "", WIDGETS));
    world.server.put(definition()).unwrap();
    world.server.cut_watches();
    world.until("the other version", |w| w.feed.kind().version == "v1" && w.feed.phase() == Phase::Synced).await;
    world.server.put(widget("b", 2)).unwrap();
    world.until("seen there", |w| w.feed.len() == 1 && !w.feed.by("size", "2").is_empty()).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_served_a_moment_later_is_preferred_all_the_same() {
    let server = Server::new(1);
    let mut both = definition();
    both["spec"]["versions"][0]["name"] = json!("v1beta1");
    server.put(both.clone()).unwrap();
    let world = World::start(server, Scope::All);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.feed.phase(), Phase::Listing, "it is looked at twice");
    both["spec"]["versions"].as_array_mut().unwrap().push(definition()["spec"]["versions"][0].clone());
    both["spec"]["versions"][0]["storage"] = json!(false);
    assert!(world.server.delete("customresourcedefinitions.apiextensions.k8s.io", "", WIDGETS));
    world.server.put(both).unwrap();
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    assert_eq!(world.feed.kind().version, "v1");
    world.stop().await;
}

/// A seed gives the same history again only where nobody draws an order of his own.
#[tokio::test(start_paused = true)]
async fn keys_come_in_order_and_so_do_those_who_wait_for_a_feed() {
    let server = with_widgets();
    let names: Vec<String> = (10..40).map(|number| format!("default/w{number}")).collect();
    for name in names.iter().rev() {
        server.put(widget(name.strip_prefix("default/").unwrap(), 1)).unwrap();
    }
    let world = World::start(server, Scope::All);
    let (gone_on, mut waiting) = (Arc::<Mutex<Vec<usize>>>::default(), JoinSet::new());
    for number in 0..16 {
        let (feed, gone_on) = (world.feed.clone(), Arc::clone(&gone_on));
        waiting.spawn(async move {
            feed.settled().await;
            gone_on.lock().unwrap().push(number);
        });
    }
    assert_eq!(world.feed.phase(), Phase::Listing);
    while let Some(ended) = tokio::time::timeout(LIMIT, waiting.join_next()).await.expect("it settles") {
        ended.unwrap();
    }
    assert_eq!(*gone_on.lock().unwrap(), (0..16).collect::<Vec<_>>());
    let keys: Vec<String> = world.feed.keys(|_| true).iter().map(ToString::to_string).collect();
    assert_eq!(keys, names);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_named_namespaces_are_followed() {
    let server = with_widgets();
    for namespace in ["one", "two", "three"] {
        server.namespace(namespace);
        let mut object = widget("w", 1);
        object["metadata"]["namespace"] = json!(namespace);
        server.put(object).unwrap();
    }
    let world = World::start(server, Scope::Namespaces(vec!["one".into(), "three".into()]));
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    let seen: Vec<String> = world.feed.all().into_iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(seen, ["one/w", "three/w"]);
    let lists = world.server.log().into_iter().filter(|e| e.resource == WIDGETS && e.path.ends_with("/widgets"));
    assert!(lists.into_iter().all(|e| e.path.contains("/namespaces/")), "a cluster-wide list was sent");
    world.stop().await;
}

/// Whoever looks at one namespace needs no right elsewhere, unless somebody else asks for the kind.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_wanted_in_one_namespace_is_asked_for_there_alone() {
    let place = |namespace: &str| {
        let mut object = widget("w", 1);
        object["metadata"]["namespace"] = json!(namespace);
        object
    };
    for (others, scope, wanted) in [
        (false, Scope::All, vec!["one/w"]),
        (true, Scope::All, vec!["one/w", "two/w"]),
        (false, Scope::Namespaces(vec!["one".into(), "two".into()]), vec!["one/w"]),
    ] {
        let server = with_widgets();
        for namespace in ["one", "two"] {
            server.namespace(namespace);
            server.put(place(namespace)).unwrap();
        }
        let (client, options) = (server.client("kit").kube(), Options { scope, ..Options::default() });
        let manager = Manager::new(client, Clock::system(), Gates::new(), Metrics::new(), options);
        let feed = manager.feed_in::<Sizes>("one").unwrap();
        if others {
            manager.feed::<Labels>().unwrap();
        }
        let mut tasks = JoinSet::new();
        let run = Arc::clone(&manager);
        tasks.spawn(async move { run.run().await.unwrap() });
        tokio::time::timeout(LIMIT, feed.settled()).await.expect("it is listed");
        let seen: Vec<String> = feed.all().into_iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(seen, wanted);
        let asked =
            server.log().into_iter().filter(|e| e.resource == WIDGETS).map(|e| e.path.contains("/namespaces/one/"));
        let asked: Vec<bool> = asked.collect();
        assert!(!asked.is_empty() && asked.iter().all(|there| *there != others), "{asked:?}");
        assert_eq!(manager.feed_in::<Sizes>("one").unwrap().len(), feed.len());
        // What is not followed by now would be missing for ever.
        let late = manager.feed::<Sizes>().err();
        assert_eq!(late.is_some_and(|late| matches!(late, manager::Error::TooLate(_))), !others);
        manager.stop().cancel();
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_feed_sends_no_request() {
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    let before = world.server.log().iter().filter(|e| !e.query.contains("watch=true")).count();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let after = world.server.log().iter().filter(|e| !e.query.contains("watch=true")).count();
    assert_eq!(before, after, "requests other than the watch itself");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_never_arrived_is_made_good_by_the_next_list() {
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let world = World::with(server, Options { resync: Some(Duration::from_secs(3600)), ..Options::default() });
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    world.kit.drop_event(world.kit.events() + 1);
    world.server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(2)).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.feed.get(&ObjectKey::namespaced("default", "a")), Seen::At(Arc::new(1)), "it was to be lost");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.feed.get(&ObjectKey::namespaced("default", "a")), Seen::At(Arc::new(2)));
    assert_eq!(world.heard(), ["a ->1", "a 1>2"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_discovery_that_fails_does_not_mean_that_a_kind_is_missing() {
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let discovery = |r: &sim::server::RequestInfo| r.path == "/apis/example.test/v1";
    let down = server.inject(Rule::any().matching(discovery).always(), Action::Status(503));
    let world = World::start(server, Scope::All);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(world.feed.phase(), Phase::Listing, "whoever waits for the feed would decide without it");
    assert!(world.server.hits(down) < 120, "{} requests", world.server.hits(down));
    world.server.stop_fault(down);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.feed.phase(), Phase::Synced);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_404_that_discovery_does_not_confirm_neither_empties_the_index_nor_turns_into_a_loop() {
    let server = with_widgets();
    server.put(widget("a", 1)).unwrap();
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    let odd = world.server.inject(Rule::any().matching(|r| r.resource == WIDGETS).always(), Action::Status(404));
    world.server.cut_watches();
    let before = world.server.requests();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.server.requests() - before < 300, "{} requests", world.server.requests() - before);
    assert_eq!(world.feed.len(), 1);
    world.server.stop_fault(odd);
    world.server.edit(WIDGETS, "default", "a", |w| w["spec"]["size"] = json!(2)).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.heard(), ["a ->1", "a 1>2"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_refused_again_and_again_backs_off() {
    let server = with_widgets();
    let refused = server.inject(Rule::any().matching(|r| r.resource == WIDGETS).always(), Action::Status(403));
    let world = World::start(server, Scope::All);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let hits = world.server.hits(refused);
    assert!(hits < 1000, "{hits} lists in ten minutes");
    world.server.stop_fault(refused);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.feed.phase(), Phase::Synced);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_there_is_one_request_and_the_watch_goes_on_from_it() {
    let server = with_widgets();
    for number in 0..250 {
        server.put(widget(&format!("w{number}"), number)).unwrap();
    }
    let world = World::start(server, Scope::All);
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    assert_eq!(world.feed.len(), 250);
    assert!(world.server.delete(WIDGETS, "default", "w7"));
    world.until("gone", |w| w.feed.len() == 249).await;
    assert_eq!(world.asked(), (1, 1), "a list and a watch");
    world.server.expire_watches();
    world.until("listed again", |w| w.asked() == (2, 2)).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_not_whole_is_asked_for_again_and_nothing_is_taken_for_gone() {
    let server = with_widgets();
    for name in ["a", "b"] {
        server.put(widget(name, 1)).unwrap();
    }
    let object = |name: &str| server.get(WIDGETS, "default", name).unwrap();
    let list = |items: Vec<Value>, more: Value| json!({"metadata": {"resourceVersion": "9", "continue": more}, "items": items});
    let cut = list(vec![object("a"), object("b")], json!("")).to_string();
    let shows_one = |name: &str| list(vec![object(name)], json!("")).to_string();
    let broken = Arc::new(Mutex::new(vec![
        format!("{}]", &shows_one("a")),
        list(vec![object("a")], json!("and more")).to_string(),
        cut[..cut.len() - 40].to_owned(),
        shows_one("a").replacen("\"a\"", "5", 1),
        "{}".to_owned(),
        "no list".to_owned(),
    ]));
    let last = shows_one("b");
    let world = World::breaking(server.clone(), Arc::clone(&broken));
    world.until("synced", |w| w.feed.phase() == Phase::Synced).await;
    assert!(broken.lock().unwrap().is_empty());
    assert_eq!(world.heard(), ["a ->1", "b ->1"]);
    // Once more, with both known: what the broken list does not show is still there.
    broken.lock().unwrap().push(last[..last.len() - 1].to_owned());
    world.server.expire_watches();
    world.until("asked again", |_| broken.lock().unwrap().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.heard(), world.feed.len()), (Vec::new(), 2));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn discovery_knows_served_and_missing_kinds() {
    let server = with_widgets();
    let kinds = Kinds::new(server.client("kinds").kube());
    assert!(kinds.is_served(&kinds::Kind::of::<Widget>()).await.unwrap());
    let missing =
        kinds::Kind { group: "nobody.test".into(), version: "v1".into(), kind: "X".into(), plural: "xs".into() };
    assert!(!kinds.is_served(&missing).await.unwrap());
    assert!(kinds.is_served(&kinds::Kind::of::<k8s_openapi::api::core::v1::ConfigMap>()).await.unwrap());
}
