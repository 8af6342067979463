//! Many claims and many hosts at once, while the hosts' controller rewrites the status of every host without rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use sim::server::{Action, Outcome, Rule, Server};

use crate::objects::{CLAIMS, HOSTS, INFRA, at, claim, condition, policy};
use crate::site::Site;

const COUNT: usize = 500;
/// Five times a second.
const EVERY: Duration = Duration::from_millis(200);
/// One claim comes after the other, each at another moment of the hosts' rhythm.
const APART: Duration = Duration::from_millis(6);

/// What it was like to bind all claims.
struct Crowd {
    site: Site,
    /// How often each host was rewritten while claims were bound.
    rewrites: BTreeMap<String, u64>,
    /// How long that took.
    took: Duration,
    /// Patches of hosts that were taken, and that came too late.
    taken: usize,
    late: usize,
    /// Hosts that were read.
    reads: usize,
}

/// Binds the claims while every host is rewritten five times a second, five of them at every second millisecond, and every
/// write of the room is `lag` on its way. Claims come in the milliseconds between.
async fn crowd(lag: Duration) -> Crowd {
    let site = Site::new(|server| {
        for n in 0..COUNT {
            let host = sim::metal::seed::host(INFRA, &format!("h{n:03}"), &json!({"size": "large"}));
            server.put(sim::metal::seed::settled(&host, (server.clock())())).unwrap();
        }
        policy(server, &json!({}));
    });
    site.until("the room watches", |server| server.open_watches() > 7).await;
    if !lag.is_zero() {
        site.server.inject(Rule::any().client("room-0").method("PATCH").always(), Action::Delay(lag));
    }
    for n in 0..COUNT {
        script(&site.server, &format!("h{n:03}"), &json!({"statusEveryMs": EVERY.as_millis()}));
        if n % 5 == 4 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    tokio::time::sleep(Duration::from_millis(1001)).await;
    let (begun, before) = (tokio::time::Instant::now(), site.yonder.machines.rewrites(INFRA));
    for n in 0..COUNT {
        site.server.put(claim(if n % 2 == 0 { "red" } else { "blue" }, &format!("c{n:03}"))).unwrap();
        tokio::time::sleep(APART).await;
    }
    let bound = |server: &Server| {
        let bound = |claim: &&Value| condition(claim, "Associated") == "True/BareMetalHostAssociated";
        server.list(CLAIMS, "").iter().filter(bound).count()
    };
    for _ in 0..600 {
        if bound(&site.server) == COUNT {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (took, after) = (begun.elapsed(), site.yonder.machines.rewrites(INFRA));
    assert_eq!(bound(&site.server), COUNT);
    let claims = site.server.list(CLAIMS, "");
    let hosts: BTreeSet<&str> = claims.iter().map(|claim| at(claim, "/status/bareMetalHost/name")).collect();
    assert_eq!(hosts.len(), COUNT, "each has a host of its own");
    let log = site.server.log();
    let asked: Vec<_> =
        log.iter().filter(|entry| entry.client == "room-0" && entry.path.contains("/baremetalhosts/")).collect();
    let patched = |outcome: Outcome| asked.iter().filter(|e| e.method == "PATCH" && e.outcome == outcome).count();
    let (taken, late) = (patched(Outcome::Answered(200)), patched(Outcome::Answered(409)));
    let reads = asked.iter().filter(|entry| entry.method == "GET").count();
    let rewrites = after.into_iter().map(|(name, count)| (name.clone(), count - before[&name])).collect();
    Crowd { rewrites, took, taken, late, reads, site }
}

fn script(server: &Server, host: &str, script: &Value) {
    let note = |host: &mut Value| host["metadata"]["annotations"]["berth.dev/sim"] = json!(script.to_string());
    server.edit(HOSTS, INFRA, host, note).unwrap();
}

impl Crowd {
    /// The noise was there, nobody lost a host, and once it ends everything comes to rest.
    async fn ends(&self) {
        let all: u64 = self.rewrites.values().sum();
        println!(
            "{COUNT} claims on {COUNT} hosts in {:?}: hosts rewritten {all} times, patched {} times, {} more too late, read {} times",
            self.took, self.taken, self.late, self.reads
        );
        let beats = u64::try_from(self.took.as_millis() / EVERY.as_millis()).unwrap();
        assert_eq!(self.rewrites.len(), COUNT);
        let quiet: Vec<_> = self.rewrites.iter().filter(|(_, count)| **count + 1 < beats).collect();
        assert!(quiet.is_empty(), "{beats} rewrites of each host are due: {quiet:?}");
        let events = self.site.server.list("events.events.k8s.io", "");
        let lost = events.iter().filter(|event| event["reason"] == "BindConflict").count();
        assert_eq!(lost, 0, "a late write is not a lost host");
        self.site.yonder.judge(&self.site.server).unwrap();
        for name in self.rewrites.keys() {
            script(&self.site.server, name, &json!({}));
        }
        self.site.rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn five_hundred_claims_find_five_hundred_hosts_rewritten_five_times_a_second() {
    // What is on its way for no time is late only if it was based on less than what could be known.
    let crowd = crowd(Duration::ZERO).await;
    assert_eq!(crowd.taken, COUNT, "each host is written once");
    assert!(100 * crowd.late < COUNT, "{} of {COUNT} binds came too late", crowd.late);
    crowd.ends().await;
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_a_rewrite_overtakes_costs_one_look_and_one_write_and_no_new_search() {
    // By chance one host in forty is rewritten while a bind is on its way to it.
    let crowd = crowd(Duration::from_millis(5)).await;
    assert_eq!((crowd.taken, crowd.reads), (COUNT, crowd.late));
    assert!(crowd.late > 0 && crowd.late < COUNT / 20, "{} of {COUNT} binds came too late", crowd.late);
    crowd.ends().await;
}
