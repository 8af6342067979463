//! Classes that change just before a cluster of theirs is made, and settings that classes get wrong.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use sim::server::EventAction;
use tokio::time::Instant;
use vip::config::Config;
use vip::hooks::{Answer, Handlers};

use crate::actors::{ask, provide};
use crate::objects::{CLASS, CLASSES, NS, class, cluster, host, key, pool, variable};
use crate::told::Quiet;

/// A room that hears of nothing about classes for an hour.
async fn deaf_to_classes(class: Value) -> Quiet {
    let objects = [class, pool("one", "control-plane", 0, 10, 2)];
    let world = Quiet::start(Config::default(), objects).await;
    world.berth.script_events(|_, resource, _| {
        let delay = if resource.contains("clusterclasses") { Duration::from_secs(3600) } else { Duration::ZERO };
        EventAction { delay, ..EventAction::default() }
    });
    world
}

/// Asks about a cluster until it may be rendered, and gives the copy that may.
async fn let_through(world: &Quiet, name: &str) -> Value {
    for _ in 0..20 {
        let copy = world.cluster(name);
        if matches!(ask(&world.extension, &copy).await, Answer::Open { .. }) {
            return copy;
        }
        while provide(&world.server) {}
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    panic!("{name} is never let through");
}

#[tokio::test(start_paused = true)]
async fn a_variable_that_a_class_has_just_got_is_filled_although_the_index_does_not_show_it() {
    let world = deaf_to_classes(class(CLASS, &[])).await;
    let defined = class(CLASS, &["clusterVip"])["status"].clone();
    world.server.edit(CLASSES, NS, CLASS, |object| object["status"] = defined.clone()).unwrap();
    world.server.put(cluster("a", &json!({}))).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let rendered = let_through(&world, "a").await;
    assert_eq!((host(&rendered), variable(&rendered, "clusterVip")), ("10.0.0.10", Some("10.0.0.10")));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_class_that_has_just_opted_in_again_is_believed_although_the_index_shows_the_old_one() {
    let mut out = class(CLASS, &[]);
    out["metadata"]["annotations"] = json!({key("control-plane-enabled"): "false"});
    let world = deaf_to_classes(out).await;
    world.server.put(cluster("before", &json!({}))).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = let_through(&world, "before").await;
    assert_eq!(host(&before), "", "its class wants no addresses");
    let since = world.server.requests();
    for _ in 0..20 {
        assert!(matches!(ask(&world.extension, &before).await, Answer::Open { .. }));
    }
    assert_eq!(world.asked_since(since), [""; 0], "what the server has said once is not asked again");

    let opt_in = |object: &mut Value| object["metadata"]["annotations"] = json!({});
    world.server.edit(CLASSES, NS, CLASS, opt_in).unwrap();
    world.server.put(cluster("after", &json!({}))).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(host(&let_through(&world, "after").await), "10.0.0.10");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn settings_that_no_hook_knows_are_named_by_every_hook_about_templates() {
    let world = Quiet::start(Config::default(), [class(CLASS, &[])]).await;
    let body = |settings: Value| Bytes::from(json!({"settings": settings}).to_string());
    let (known, typo) = (json!({"placeholders": "true"}), json!({"placeholders": "true", "placeholder": "true"}));
    let soon = || Instant::now() + Duration::from_secs(10);
    for (settings, unknown) in [(known, vec![]), (typo, vec!["placeholder".to_owned()])] {
        let patches = world.extension.generate_patches(body(settings.clone()), soon()).await;
        let verdict = world.extension.validate_topology(body(settings.clone()), soon()).await;
        let variables = world.extension.discover_variables(body(settings)).await;
        assert_eq!([patches.unknown, verdict.unknown, variables.unknown], [unknown.clone(), unknown.clone(), unknown]);
    }
    world.stop().await;
}
