//! Random histories: tenants, the owner of the hosts, and one process after the other, or two that both believe to lead.
//!
//! Four claims of two tenants want three hosts. Tenants make and delete claims, give and take images, pause, detach, reboot
//! and switch off; the owner changes policies and labels. Each process hears of every kind with a delay of its own, loses
//! requests and answers, and is killed at some write and started again. Two processes at once are worse than a lease
//! allows, so in every second history there is one, which counts on its lease. The oracle looks at every version of
//! everything while this goes on. Then faults stop, what users broke is mended, and all must come to its end by itself:
//! nobody waits while a host is free, and when the last claim is gone every host is free and clean.

use std::sync::Arc;
use std::time::Duration;

use api::names::claims::FENCE_ANNOTATION;
use claims::config::Config;
use serde_json::{Value, json};
use sim::history::{Dice, Trouble, play};
use sim::metal::oracle::Forgiven;
use sim::server::{Handle, Server};
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

const TROUBLE: Trouble = Trouble {
    writes: 25,
    restart: 5000,
    kinds: &[CLAIMS, HOSTS, POLICIES, SECRETS],
    // A Secret of a tenant is its own, and nobody else writes to a copy.
    spared: &[SECRETS],
};

struct History {
    server: Server,
    yonder: Yonder,
    dice: Arc<Dice>,
    processes: JoinSet<()>,
}

impl History {
    /// Lets time pass, and ends when a promise was broken.
    async fn passes(&mut self, time: Duration) -> Result<(), String> {
        tokio::time::sleep(time).await;
        if let Some(ended) = self.processes.try_join_next() {
            return Err(format!("a process ended: {ended:?}"));
        }
        self.yonder.judge(&self.server)
    }

    /// Lets everything come to rest.
    async fn rests(&mut self) -> Result<(), String> {
        self.passes(CALM).await?;
        self.yonder.judge_rest(&self.server)
    }
}

/// One thing that a tenant or the owner does.
fn act(history: &History) {
    let (server, dice) = (&history.server, &history.dice);
    let (tenant, name) = dice.one(&WANTED);
    let act = dice.below(100);
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
            policy(server, &json!({"allowsDetaching": dice.below(2) == 0, "allowsPause": dice.below(2) == 0}))
        }
        (_, 84..92) => {
            let size = if dice.below(3) == 0 { "small" } else { "large" };
            edit(server, HOSTS, INFRA, dice.one(&NAMES), &json!({"metadata": {"labels": {"size": size}}}));
        }
        (_, 92..100) => {
            let changed = format!("user of {tenant}, {}", dice.below(9));
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
    let dice = Dice::new(seed);
    let mut history = History {
        yonder: Yonder::start(&server, Forgiven::default()),
        server: server.clone(),
        dice: Arc::clone(&dice),
        processes: JoinSet::new(),
    };
    let several = !seed.is_multiple_of(2);
    for which in 0..if several { 2 } else { 1 } {
        let clock = server.clock();
        let start = move |handle: Handle, _| {
            Box::pin(room(handle.kube(), clock(), Config { leased: !several, ..Config::default() }))
        };
        let lives = Arc::clone(&dice).lives(server.clone(), format!("room-{which}"), TROUBLE, start);
        history.processes.spawn(lives);
    }
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < BUSY {
        act(&history);
        history.passes(Duration::from_millis(dice.below(1800))).await?;
    }
    dice.calm();
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
    Ok(binds(&server))
}

#[test]
fn in_every_history_the_promises_hold() {
    play(100, history).assert_well("binds", 300);
}
