//! Random histories: tenants, the owner of the hosts, and one process after the other, or two that both believe to lead.
//!
//! Four claims of two tenants want three hosts. Tenants make and delete claims, give and take images, pause, detach, reboot
//! and switch off; the owner changes policies and labels. Each process hears of every kind with a delay of its own, loses
//! requests and answers, and is killed at some write and started again. Two processes at once are worse than a lease
//! allows, so in every second history there is one. The oracle looks at every version of everything while this goes on. Then faults stop, what users broke is
//! mended, and all must come to its end by itself: nobody waits while a host is free, and when the last claim is gone
//! every host is free and clean.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::names::claims::FENCE_ANNOTATION;
use claims::config::Config;
use serde_json::{Value, json};
use sim::metal::oracle::Forgiven;
use sim::server::{Action, EventAction, Handle, RequestInfo, Rng, Server};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::objects::{
    CLAIMS, HOSTS, INFRA, POLICIES, SECRETS, annotate, at, claim, condition, copies, deployment, edit, hosts, install,
    policy, secrets,
};
use crate::site::{Yonder, room};

/// How long users are at work.
const BUSY: Duration = Duration::from_secs(30);
/// Longer than any pause after a failure.
const CALM: Duration = Duration::from_secs(400);
const NAMES: [&str; 3] = ["h1", "h2", "h3"];
const WANTED: [(&str, &str); 4] = [("red", "a"), ("red", "b"), ("blue", "a"), ("blue", "b")];
const PAUSED: &str = "cluster.x-k8s.io/paused";
const DETACHED: &str = "baremetalhost.metal3.io/detached";
const REBOOT: &str = "reboot.metal3.io";
const HELD: &str = "reboot.metal3.io/mine";

/// What only a lease keeps two processes from: a copy of a Secret names no version of the host that it lies beside, so one
/// can be made, or deleted, for what the other process has changed meanwhile. In the end none is left even so.
const LEASED: [&str; 2] = ["copy-held", "data-first"];

struct History {
    /// How many processes work at the same time.
    processes: usize,
    server: Server,
    yonder: Yonder,
    rng: Mutex<Rng>,
    calm: AtomicBool,
}

impl History {
    fn draw<T>(&self, pick: impl FnOnce(&mut Rng) -> T) -> T {
        pick(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn below(&self, bound: u64) -> u64 {
        self.draw(|rng| rng.below(bound))
    }

    fn one<T: Copy>(&self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// Lets time pass, and ends when a promise was broken.
    async fn passes(&self, time: Duration) -> Result<(), String> {
        tokio::time::sleep(time).await;
        let but: &[&str] = if self.processes > 1 { &LEASED } else { &[] };
        self.yonder.breaches(&self.server, but).first().map_or(Ok(()), |breach| Err(breach.to_string()))
    }

    /// Lets everything come to rest.
    async fn rests(&self) -> Result<(), String> {
        self.passes(CALM).await?;
        self.yonder.left().first().map_or(Ok(()), |breach| Err(breach.to_string()))
    }
}

/// Runs one process for ever: started, disturbed, killed at some write, started again.
async fn process(history: Arc<History>, which: usize) {
    for life in 0.. {
        let handle = history.server.client(&format!("room-{which}-{life}"));
        let dying = Arc::new(Notify::new());
        disturb(&history, &handle, &dying);
        tokio::select! {
            () = Box::pin(room(handle.kube(), (history.server.clock())(), Config::default())) => panic!("a process ended"),
            () = dying.notified() => {}
        }
        handle.crash();
        tokio::time::sleep(Duration::from_millis(history.below(5000))).await;
    }
}

/// Makes a process's requests slow and lossy, its view of each kind lag on its own, and kills it at some write.
fn disturb(history: &Arc<History>, handle: &Handle, dying: &Arc<Notify>) {
    let writes = AtomicU64::new(0);
    let last = history.draw(|rng| if rng.percent(60) { 1 + rng.below(25) } else { u64::MAX });
    let (world, dying) = (Arc::clone(history), Arc::clone(dying));
    handle.script(move |info: &RequestInfo| {
        if world.is_calm() {
            return Vec::new();
        }
        if info.mutating && writes.fetch_add(1, Ordering::SeqCst) + 1 == last {
            dying.notify_one();
            return vec![if world.draw(|rng| rng.percent(50)) { Action::HangAfter } else { Action::Hang }];
        }
        let mut fate = Vec::new();
        if world.draw(|rng| rng.percent(20)) {
            fate.push(Action::Delay(Duration::from_millis(world.below(1500))));
        }
        match world.below(100) {
            0..4 if info.mutating => fate.push(Action::DropAnswer),
            4..7 if info.mutating && info.resource != SECRETS => fate.push(Action::Conflict),
            7..9 => fate.push(Action::Status(500)),
            9..10 => fate.push(Action::Refuse),
            _ => {}
        }
        fate
    });
    let world = Arc::clone(history);
    // Some kinds lag a lot, others hardly: what the process believes never existed at one moment.
    let kinds = [CLAIMS, HOSTS, POLICIES, SECRETS];
    let slow: Vec<&str> = kinds.into_iter().filter(|_| history.draw(|rng| rng.percent(40))).collect();
    handle.script_events(move |_, resource, _| {
        if world.is_calm() {
            return EventAction::default();
        }
        let most = if slow.contains(&resource) { 4000 } else { 200 };
        let delay = if world.draw(|rng| rng.percent(50)) { world.below(most) } else { 0 };
        EventAction { drop: false, repeat: world.draw(|rng| rng.percent(10)), delay: Duration::from_millis(delay) }
    });
}

/// One thing that a tenant or the owner does.
fn act(history: &History) {
    let server = &history.server;
    let (tenant, name) = history.one(&WANTED);
    let act = history.below(100);
    let live = server.get(CLAIMS, tenant, name);
    let noted = |key: &str| live.as_ref().is_some_and(|live| live["metadata"]["annotations"].get(key).is_some());
    let toggle = |key: &str| annotate(server, tenant, name, key, if noted(key) { None } else { Some("") });
    let deployed = || live.as_ref().is_some_and(|live| !live["spec"]["image"].is_null());
    match (&live, act) {
        (None, 0..40) => drop(server.put(deployment(tenant, name)).unwrap()),
        (None, 40..60) => drop(server.put(claim(tenant, name)).unwrap()),
        (Some(_), 0..14) => drop(server.delete(CLAIMS, tenant, name)),
        (Some(_), 14..30) => {
            let image = if deployed() { Value::Null } else { deployment(tenant, name)["spec"]["image"].clone() };
            edit(server, CLAIMS, tenant, name, &json!({"spec": {"image": image}}));
        }
        (Some(_), 30..38) => toggle(PAUSED),
        (Some(_), 38..46) => toggle(DETACHED),
        (Some(live), 46..54) => {
            let on = live["spec"]["poweredOn"] != true;
            edit(server, CLAIMS, tenant, name, &json!({"spec": {"poweredOn": on}}));
        }
        (Some(_), 54..62) => annotate(server, tenant, name, REBOOT, Some("")),
        (Some(_), 62..70) => toggle(HELD),
        (_, 70..76) => drop(server.delete(POLICIES, INFRA, "open")),
        (_, 76..84) => {
            policy(server, &json!({"allowsDetaching": history.below(2) == 0, "allowsPause": history.below(2) == 0}))
        }
        (_, 84..92) => {
            let size = if history.below(3) == 0 { "small" } else { "large" };
            edit(server, HOSTS, INFRA, history.one(&NAMES), &json!({"metadata": {"labels": {"size": size}}}));
        }
        (_, 92..100) => {
            let changed = format!("user of {tenant}, {}", history.below(9));
            edit(server, SECRETS, tenant, "user", &json!({"stringData": {"userData": changed}}));
        }
        _ => {}
    }
}

/// Users take back what would keep claims from their hosts for good.
fn mend(server: &Server) {
    policy(server, &json!({}));
    for name in NAMES {
        edit(server, HOSTS, INFRA, name, &json!({"metadata": {"labels": {"size": "large"}}}));
    }
    for (tenant, name) in WANTED {
        for key in [PAUSED, DETACHED, HELD] {
            annotate(server, tenant, name, key, None);
        }
    }
}

/// Every claim that is there has a host, or there is none left for it.
fn ended_well(server: &Server) -> Result<(), String> {
    let claims = server.list(CLAIMS, "");
    let has = |claim: &&Value| condition(claim, "Associated") == "True/BareMetalHostAssociated";
    let served = claims.iter().filter(has).count();
    for claim in &claims {
        let stale = claim["status"]["observedGeneration"] != claim["metadata"]["generation"];
        let ending = !claim["metadata"]["deletionTimestamp"].is_null();
        let waits = condition(claim, "Associated") == "False/NoBareMetalHost";
        if stale || ending || !(has(&claim) || (waits && served == NAMES.len())) {
            return Err(format!("{served} claims have a host, and this one is not done: {claim}"));
        }
    }
    Ok(())
}

/// How often a claim got a host.
fn binds(server: &Server) -> usize {
    let mut before = [""; NAMES.len()].map(str::to_owned);
    let mut count = 0;
    for (_, _, _, object) in server.changes(0) {
        let known =
            NAMES.iter().position(|name| object["kind"] == "BareMetalHost" && at(&object, "/metadata/name") == *name);
        let Some(index) = known else { continue };
        let consumer = at(&object, "/spec/consumerRef/uid").to_owned();
        count += usize::from(!consumer.is_empty() && consumer != before[index]);
        before[index] = consumer;
    }
    count
}

/// One random history; how often a claim got a host in it.
async fn history(seed: u64) -> Result<usize, String> {
    let server = Server::new(seed);
    install(&server);
    hosts(&server, &NAMES);
    policy(&server, &json!({}));
    for tenant in ["red", "blue"] {
        secrets(&server, tenant);
    }
    let history = Arc::new(History {
        processes: if seed.is_multiple_of(2) { 1 } else { 2 },
        yonder: Yonder::start(&server, Forgiven::default()),
        server: server.clone(),
        rng: Mutex::new(Rng::new(seed.wrapping_mul(0x9e37_79b9) ^ 0x5bd1)),
        calm: AtomicBool::new(false),
    });
    let mut processes = JoinSet::new();
    for which in 0..history.processes {
        processes.spawn(process(Arc::clone(&history), which));
    }
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < BUSY {
        act(&history);
        history.passes(Duration::from_millis(history.below(1800))).await?;
    }
    history.calm.store(true, Ordering::SeqCst);
    mend(&server);
    history.rests().await?;
    ended_well(&server)?;
    let effects = server.effects();
    history.passes(Duration::from_secs(120)).await?;
    if server.effects() != effects {
        return Err(format!("not quiet: {} more writes", server.effects() - effects));
    }

    for (tenant, name) in WANTED {
        server.delete(CLAIMS, tenant, name);
    }
    history.rests().await?;
    let left = server.list(CLAIMS, "").len() + copies(&server).len();
    let kept: Vec<Value> = server
        .list(HOSTS, INFRA)
        .into_iter()
        .filter(|host| {
            // A fence that is put up once more by a process that is then killed stays until the next bind, and does no harm.
            let mut notes = host["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            notes.remove(FENCE_ANNOTATION);
            let name = at(host, "/metadata/name");
            !notes.is_empty()
                || host["spec"].get("consumerRef").is_some()
                || history.yonder.machines.disk(INFRA, name).is_some()
        })
        .collect();
    if left > 0 || !kept.is_empty() {
        return Err(format!("{left} claims and copies are left, and of hosts {}", json!(kept)));
    }
    if let Some(ended) = processes.try_join_next() {
        return Err(format!("a process ended: {ended:?}"));
    }
    Ok(binds(&server))
}

fn run(seed: u64) -> Result<usize, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(Box::pin(history(seed)))
}

#[test]
fn in_every_history_the_promises_hold() {
    // One seed, or a range of them, can be asked for, to look at a failure or to look longer.
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("BERTH_SEED");
    let count = number("BERTH_SEEDS").unwrap_or(if first.is_some() { 1 } else { 100 });
    let seeds = first.unwrap_or(0)..first.unwrap_or(0) + count;
    // Two at a time: each history is a world of its own.
    let ends: Vec<(u64, Result<usize, String>)> = std::thread::scope(|scope| {
        let halves = [0, 1].map(|odd| {
            let mine: Vec<u64> = seeds.clone().filter(|seed| seed % 2 == odd).collect();
            scope.spawn(move || mine.into_iter().map(|seed| (seed, run(seed))).collect::<Vec<_>>())
        });
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    let (mut bound, mut failures) = (0, Vec::new());
    for (seed, end) in ends {
        match end {
            Ok(count) => bound += count,
            Err(why) => failures.push(format!("seed {seed}: {why}")),
        }
    }
    println!("{bound} hosts were bound in {count} histories");
    assert!(failures.is_empty(), "{} histories went wrong:\n{}", failures.len(), failures.join("\n"));
    assert!(first.is_some() || bound > 300, "too little happened: {bound} hosts were bound");
}
