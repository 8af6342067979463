//! Starting, judging, stopping, crashing, and outliving the API server.

use std::time::Duration;

use serde_json::Value;
use sim::plane;

use crate::support::{Operator, SOON, World, documents, never, within};

/// Longer than any pause between two attempts to do something.
const QUIET: Duration = Duration::from_secs(5);

#[tokio::test]
async fn kinds_may_come_after_the_operator_and_a_judged_kind_costs_no_more_writes() {
    let Some(world) = World::enter("kinds_may_come_after_the_operator_and_a_judged_kind_costs_no_more_writes").await
    else {
        return;
    };
    world.bare().await;
    let mut operator = Operator::start(&world, &[]);
    operator.ready().await;
    let (status, text) = operator.says("waiting for the kind HostClaimKind").await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("[~]kind hostclaimkinds.berth.dev"), "{text}");

    plane::install_crds(&world.client, documents(&["crds"])).await.unwrap();
    // Every kind of the room: what is picked up later would look like a question without a reason.
    let of_the_room =
        |document: &&Value| ["berth.dev", "metal3.io"].map(Value::from).contains(&document["spec"]["group"]);
    for document in documents(&["crds"]).iter().filter(of_the_room) {
        operator.says(&format!("[+]kind {}", document["metadata"]["name"].as_str().unwrap())).await;
    }
    world.create_kind("late").await;
    world.judged("late", "False", "HeartbeatMissing").await;
    let event = world.event("late", "HeartbeatMissing").await;
    assert_eq!(event.reporting_controller.as_deref(), Some("berth-claims-kinds"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    world.heartbeat("late").await;
    world.judged("late", "True", "ControllerAlive").await;
    assert_eq!(world.event("late", "ControllerAlive").await.type_.as_deref(), Some("Normal"));

    let mark = world.mark();
    never(QUIET, "the operator asks the server although nothing changed", async || {
        // The watch of definitions may end now that nobody waits for one.
        let asked: Vec<_> = world.requests(mark).into_iter().filter(|request| request.verb != "watch").collect();
        (!asked.is_empty()).then(|| format!("{asked:?}"))
    })
    .await;
    operator.stop().await;
}

#[tokio::test]
async fn a_stop_takes_readiness_back_first_and_a_second_start_writes_nothing() {
    let Some(world) = World::enter("a_stop_takes_readiness_back_first_and_a_second_start_writes_nothing").await else {
        return;
    };
    world.installed().await;
    let port = plane::free_port().unwrap().to_string();
    let args = [
        "--webhook-self-signed",
        "--webhook-port",
        &port,
        "--webhook-bind-host",
        "127.0.0.1",
        "--leader-elect-resource-namespace",
        "default",
        "--shutdown-delay",
        "2s",
    ];
    let mut operator = Operator::start(&world, &args);
    operator.ready().await;
    world.create_kind("kept").await;
    world.judged("kept", "False", "HeartbeatMissing").await;
    world.event("kept", "HeartbeatMissing").await;

    operator.signal("TERM");
    let (status, text) = operator.says("not ready").await;
    assert_eq!(status, 503, "{text}");
    assert_eq!(operator.exit().await, Some(0));
    assert!(operator.log().contains("berth stopped"));

    let mark = world.mark();
    let mut again = Operator::start(&world, &args);
    again.ready().await;
    again.says("[+]kind hostclaimkinds.berth.dev").await;
    never(QUIET / 2, "the second start writes", async || {
        let writes = world.writes(mark);
        (!writes.is_empty()).then(|| format!("{writes:?}"))
    })
    .await;
    assert!(!world.requests(mark).is_empty(), "the record of requests was not read");
    again.stop().await;
}

#[tokio::test]
async fn a_crash_at_any_point_leaves_nothing_that_the_next_start_does_not_finish() {
    let Some(world) = World::enter("a_crash_at_any_point_leaves_nothing_that_the_next_start_does_not_finish").await
    else {
        return;
    };
    world.installed().await;
    // The passage of each point, and whether it lies behind the heartbeat.
    let points = [
        ("claims-kinds.status.before=exit", false),
        ("claims-kinds.status.after=exit", false),
        ("claims-kinds.status.before=exit:2", true),
        ("claims-kinds.status.after=exit:2", true),
        ("claims-kinds.Wait.before=exit", true),
        ("claims-kinds.Wait.after=exit", true),
    ];
    for (number, (point, beats)) in points.into_iter().enumerate() {
        let name = format!("crash-{number}");
        let mut operator = Operator::start(&world, &["--fault", point]);
        operator.ready().await;
        world.create_kind(&name).await;
        if beats {
            world.judged(&name, "False", "HeartbeatMissing").await;
            world.event(&name, "HeartbeatMissing").await;
            world.heartbeat(&name).await;
        }
        assert_eq!(operator.exit().await, Some(137), "{point}");

        let mut operator = Operator::start(&world, &[]);
        operator.ready().await;
        operator.says("[+]kind hostclaimkinds.berth.dev").await;
        if !beats {
            world.judged(&name, "False", "HeartbeatMissing").await;
            world.heartbeat(&name).await;
        }
        world.judged(&name, "True", "ControllerAlive").await;
        operator.stop().await;
        for reason in ["HeartbeatMissing", "ControllerAlive"] {
            let events = world.events(&name, reason).await;
            let repeated = events.iter().any(|event| event.series.is_some());
            assert!(events.len() <= 1 && !repeated, "{point}: {events:?}");
        }
        world.kinds().delete(&name, &Default::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_goes_away_and_comes_back_is_no_reason_to_stop() {
    let Some(world) = World::enter("a_server_that_goes_away_and_comes_back_is_no_reason_to_stop").await else {
        return;
    };
    world.installed().await;
    let mut operator = Operator::start(&world, &[]);
    operator.ready().await;
    world.create_kind("before").await;
    world.judged("before", "False", "HeartbeatMissing").await;

    world.plane.stop();
    within(SOON, "the watch breaks", async || operator.log().contains("watch interrupted").then_some(())).await;
    never(QUIET / 2, "an outage makes the operator unready", async || {
        let answer = operator.readyz().await;
        (answer.as_ref().map(|(status, _)| *status) != Some(200)).then(|| format!("{answer:?}"))
    })
    .await;
    world.plane.restart().unwrap();
    let back = std::time::Instant::now();
    world.create_kind("after").await;
    world.judged_within(Duration::from_secs(10), "after", "False", "HeartbeatMissing").await;
    eprintln!("judged {:?} after the server came back", back.elapsed());
    assert_eq!(operator.readyz().await.map(|(status, _)| status), Some(200));
    assert!(operator.runs());
    operator.stop().await;
}
