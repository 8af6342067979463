//! Very many machines at once, on a server that takes few writes: what is paid for goes first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws::limits::{Limits, Size};
use aws::net::{Aws, Meter, Options as AwsOptions};
use hosts::config::Config;
use jiff::Timestamp;
use kit::clock::Clock;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use sim::ec2::world::oracle::InstanceFacts;
use sim::ec2::world::settings::Throttle;
use sim::server::{Action, Server};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::site::*;

const MANY: usize = 240;
/// What one write costs the server.
const WRITE: Duration = Duration::from_millis(12);
/// How fast instances are launched: faster than EC2 allows, so that the test is short.
const LAUNCHES: Size = Size { burst: 5, per_second: 6.0 };

/// A server that takes one write at a time, whoever sends it.
#[derive(Clone)]
struct Slow {
    clock: Clock,
    each: Arc<Mutex<Duration>>,
    free: Arc<Mutex<Instant>>,
}

impl Slow {
    fn new(server: &Server) -> Self {
        let clock = Clock::simulated((server.clock())(), 2);
        Self { each: Arc::default(), free: Arc::new(Mutex::new(clock.instant())), clock }
    }

    fn set(&self, each: Duration) {
        *self.each.lock().unwrap() = each;
    }

    /// How long a write that comes now takes.
    fn write(&self) -> Duration {
        let (mut free, now) = (self.free.lock().unwrap(), self.clock.instant());
        *free = (*free).max(now) + *self.each.lock().unwrap();
        *free - now
    }
}

fn world_of_many() -> (Server, Site, Config) {
    let (server, site) = world();
    site.ec2.settings(|settings| {
        settings.host_quota = 1_000;
        settings.throttle = Throttle::Off;
    });
    let config =
        Config { max_hosts_per_cluster: 1_000, max_allocations_per_hour: 1_000, launches: LAUNCHES, ..site.config() };
    (server, site, config)
}

/// A process with as many workers as it is shipped with.
fn start(server: &Server, site: &Site, config: Config, slow: &Slow) -> JoinSet<()> {
    let (client, slow) = (server.client("hosts"), slow.clone());
    client.script(move |request| request.mutating.then(|| Action::Delay(slow.write())).into_iter().collect());
    let (kube, clock) = (client.kube(), Clock::simulated((server.clock())(), 1));
    let mut options = AwsOptions::new("berth/test");
    options.carrier = Some(Arc::new(Wire { ec2: site.ec2.clone(), gate: None }));
    options.limits = Limits::Unlimited;
    let cloud = Aws::new(options, clock.clone(), Meter::default());
    let manager =
        Manager::new(kube, clock, Gates::new(), Metrics::new(), Options { resync: None, ..Options::default() });
    ::hosts::mount(&manager, config, cloud).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { manager.run().await.unwrap() });
    tasks
}

fn name(number: usize) -> String {
    format!("m{number:03}")
}

/// Waits without looking at every change: there are very many.
async fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..600 {
        if done() {
            return;
        }
        pass(1).await;
    }
    panic!("{what}");
}

/// When each id was named by a call that went well.
fn called(site: &Site, action: &str, parameter: &str) -> BTreeMap<String, Timestamp> {
    let mut all = BTreeMap::new();
    for entry in site.ec2.log().iter().filter(|entry| entry.action == action && entry.code.is_empty()) {
        for (_, id) in entry.parameters.iter().filter(|(key, _)| key.starts_with(parameter)) {
            all.entry(id.clone()).or_insert(entry.at);
        }
    }
    all
}

/// What ninety-nine of a hundred do not exceed.
fn p99(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[(all.len() * 99).div_ceil(100) - 1]
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_paid_for_does_not_wait_for_machines_that_only_begin() {
    let (server, site, config) = world_of_many();
    let (slow, best) = (Slow::new(&server), (MANY as f64 - f64::from(LAUNCHES.burst)) / LAUNCHES.per_second + 2.0);
    slow.set(WRITE);
    let _process = start(&server, &site, config, &slow);
    let began = site.ec2.now();
    for number in 0..MANY {
        // Faster than the server takes what follows from them.
        tokio::time::sleep(Duration::from_millis(8)).await;
        add(&server, dynamic(&site, &name(number)));
    }
    until("all are launched", || site.ec2.instances().len() == MANY).await;
    let took = site.ec2.now().duration_since(began).as_secs_f64();
    let empty = p99(site.ec2.hosts().iter().map(|host| host.empty.as_secs_f64()).collect());
    pass(10).await;
    let writes = server.effects() as f64 / MANY as f64;
    println!("{took} s, hosts empty for {empty} s, {writes} writes for each machine");
    // Two seconds of these pass until EC2 has the host ready.
    assert!(empty < 3.5, "hosts were paid for and empty for {empty} s");
    assert!(took < best * 1.05, "{took} s, and {best} s are enough");
    assert!(writes < 13.0, "{writes} writes for each machine");
    site.check(&[&server]).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_empty_host_is_given_back_soon_however_many_go_at_once() {
    const ENDS: Duration = Duration::from_secs(2);
    let (server, site, config) = world_of_many();
    site.ec2.settings(|settings| (settings.delays.shut_down, settings.delays.vacate) = (ENDS, ENDS));
    for number in 0..MANY {
        add(&server, dynamic(&site, &name(number)));
    }
    let slow = Slow::new(&server);
    let config = Config { launches: Size { burst: 100, per_second: 100.0 }, ..config };
    let _process = start(&server, &site, config, &slow);
    until("all run", || (0..MANY).all(|number| is_ready(&server, &name(number)))).await;
    slow.set(WRITE);
    let before = server.effects();
    for number in 0..MANY {
        assert!(server.delete(MACHINES, NS, &name(number)));
    }
    until("all are gone", || (0..MANY).all(|number| is_gone(&server, &name(number)))).await;
    let (ended, released) =
        (called(&site, "TerminateInstances", "InstanceId."), called(&site, "ReleaseHosts", "HostId."));
    let wait = |instance: InstanceFacts| {
        let (ended, released) = (ended[&instance.id], released[instance.host.as_ref().unwrap()]);
        released.duration_since(ended).as_secs_f64() - 2.0 * ENDS.as_secs_f64()
    };
    let empty = p99(site.ec2.instances().into_iter().map(wait).collect());
    let writes = (server.effects() - before) as f64 / MANY as f64;
    println!("hosts empty for {empty} s, {writes} writes for each machine");
    assert!(empty < 5.0, "hosts were paid for and empty for {empty} s");
    assert!(writes < 10.5, "{writes} writes for each machine");
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0));
}
