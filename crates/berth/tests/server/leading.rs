//! Several replicas, one of which decides.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use crate::support::{Operator, SOON, World, within};

const NAMESPACE: &str = "berth-leading";
/// The shortest term there is.
const TERM: Duration = Duration::from_secs(9);

fn replica(world: &World) -> Operator {
    let args =
        ["--leader-elect", "--leader-elect-lease-duration", "9s", "--leader-elect-resource-namespace", NAMESPACE];
    Operator::start(world, &args)
}

/// Waits until the Lease names one of two replicas and both agree; returns the leader first.
async fn order(first: Operator, second: Operator) -> (Operator, Operator) {
    let leads = within(SOON, "one replica leads and the other knows", async || {
        let (one, two) = (first.readyz().await?.1, second.readyz().await?.1);
        let leads = |text: &str| text.contains("this replica decides");
        let follows = |text: &str| text.contains(" decides\n") && !leads(text);
        assert!(!(leads(&one) && leads(&two)), "two leaders:\n{one}\n{two}");
        ((leads(&one) && follows(&two)) || (follows(&one) && leads(&two))).then(|| leads(&one))
    })
    .await;
    if leads { (first, second) } else { (second, first) }
}

async fn holder(world: &World) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), NAMESPACE);
    leases.get("berth").await.ok()?.spec?.holder_identity
}

/// A new kind is judged once, by the holder of the Lease.
async fn decides_once(world: &World, name: &str) {
    let mark = world.mark();
    world.create_kind(name).await;
    world.judged(name, "False", "HeartbeatMissing").await;
    let event = world.event(name, "HeartbeatMissing").await;
    assert_eq!(event.reporting_instance, holder(world).await, "the judge is not the holder");
    let writes: Vec<_> = world.writes(mark).into_iter().filter(|write| write.name == name).collect();
    assert_eq!(writes.len(), 1, "{writes:?}");
}

#[tokio::test]
async fn one_of_two_decides_and_the_other_takes_over_at_once_or_after_the_term() {
    let Some(world) = World::enter("one_of_two_decides_and_the_other_takes_over_at_once_or_after_the_term").await
    else {
        return;
    };
    world.installed().await;
    world.namespace(NAMESPACE).await;
    let (first, second) = (replica(&world), replica(&world));
    let (mut leader, follower) = order(first, second).await;
    let held = holder(&world).await.unwrap();
    follower.says(&format!("{held} decides")).await;
    decides_once(&world, "first").await;

    // A leader that is asked to go hands over at once.
    leader.signal("TERM");
    let asked = Instant::now();
    follower.says("this replica decides").await;
    let took = asked.elapsed();
    assert!(took < TERM / 2, "handing over took {took:?}");
    assert_eq!(leader.exit().await, Some(0));
    assert_ne!(holder(&world).await.unwrap(), held);
    decides_once(&world, "second").await;

    // A leader that dies is believed until its term is over, and not much longer.
    let (mut leader, follower) = order(replica(&world), follower).await;
    let held = holder(&world).await.unwrap();
    leader.signal("KILL");
    assert_eq!(leader.exit().await, None);
    world.create_kind("orphan").await;
    let dead = Instant::now();
    follower.says("this replica decides").await;
    eprintln!("taken over {took:?} after a stop and {:?} after a kill", dead.elapsed());
    assert!(dead.elapsed() < 2 * TERM, "taking over took {:?}", dead.elapsed());
    assert_ne!(holder(&world).await.unwrap(), held);
    world.judged("orphan", "False", "HeartbeatMissing").await;
    decides_once(&world, "third").await;
    follower.stop().await;
}

#[tokio::test]
async fn a_leader_that_is_stopped_past_its_term_does_nothing_when_it_wakes() {
    let Some(world) = World::enter("a_leader_that_is_stopped_past_its_term_does_nothing_when_it_wakes").await else {
        return;
    };
    world.installed().await;
    world.namespace(NAMESPACE).await;
    let (mut sleeper, follower) = order(replica(&world), replica(&world)).await;
    let held = holder(&world).await.unwrap();
    decides_once(&world, "awake").await;

    sleeper.signal("STOP");
    follower.says("this replica decides").await;
    let heir = holder(&world).await.unwrap();
    assert_ne!(heir, held);
    decides_once(&world, "asleep").await;

    // It is shown all that it has missed, and remembers that it led.
    let mark = world.mark();
    sleeper.signal("CONT");
    decides_once(&world, "woken").await;
    sleeper.says(&format!("{heir} decides")).await;
    assert_eq!(holder(&world).await.unwrap(), heir);
    let again: Vec<_> = world.writes(mark).into_iter().filter(|write| write.name == "asleep").collect();
    assert!(again.is_empty(), "{again:?}");
    assert!(sleeper.runs(), "{}", sleeper.log());
    sleeper.stop().await;
    follower.stop().await;
}
