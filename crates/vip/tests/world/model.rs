//! Random interleavings of everything that can happen to clusters and their addresses, on the real gate and housekeeper.
//!
//! Two replicas run whole, each with its own lagging view of every kind, each killed and started again at any request;
//! both keep house, which is worse than a lease allows. Cluster API asks with copies that are old, asks twice, and
//! renders from the very copy it sent. Users create, edit, delete and recreate. A watch that sees every version of every
//! Cluster and claim judges each step, and the answers of the gate are judged when they are given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kit::clock::Clock;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use serde_json::{Value, json};
use sim::history::{Dice, Trouble, play};
use sim::server::{Handle, Server};
use tokio::task::JoinSet;
use vip::config::Config;
use vip::extension::Extension;
use vip::hooks::Answer;

use crate::actors::{Book, Rendered, ask, dismantle, gated, held, lacks, part, provide, render};
use crate::objects::{
    ADDRESSES, CLAIMS, CLASS, CLASSES, CLUSTERS, NS, PAUSED, POOLS, at, class, cluster, deleting, host, install, key,
    name, note, owners, paused, pool, range, uid,
};

/// How long users are at work.
const BUSY: Duration = Duration::from_secs(90);
const NAMES: [&str; 3] = ["a", "b", "c"];
const TROUBLE: Trouble =
    Trouble { writes: 12, restart: 3000, kinds: &[CLUSTERS, CLASSES, CLAIMS, ADDRESSES, POOLS], spared: &[] };

/// What users did that changes what may be expected.
#[derive(Default)]
struct Deeds {
    /// Hosts that users gave to a Cluster, by uid.
    hosts: BTreeMap<String, BTreeSet<String>>,
    /// Clusters that had a host from the first moment.
    manual: BTreeSet<String>,
    /// Clusters whose claim somebody deleted: nothing protects their address any more.
    unprotected: BTreeSet<String>,
    /// Clusters whose ingress was switched off at some time.
    ingress_off: BTreeSet<String>,
}

struct Model {
    server: Server,
    dice: Arc<Dice>,
    book: Book,
    deeds: Mutex<Deeds>,
    seats: [Mutex<Option<Arc<Extension>>>; 2],
}

impl Model {
    fn deeds(&self) -> std::sync::MutexGuard<'_, Deeds> {
        self.deeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_calm(&self) -> bool {
        self.dice.is_calm()
    }

    async fn pause(&self, most: u64) {
        self.dice.pause(if self.is_calm() { most.min(50) } else { most }).await;
    }

    fn gate(&self, which: usize) -> Option<Arc<Extension>> {
        self.seats[which].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn cluster(&self, name: &str) -> Option<Value> {
        self.server.get(CLUSTERS, NS, name)
    }
}

/// One life of a replica; its gate answers as long as that lasts.
async fn replica(model: Arc<Model>, which: usize, config: Config, handle: Handle, life: u64) {
    let options = Options { workers: 2, ..Options::default() };
    let clock = Clock::simulated((model.server.clock())(), life + 7);
    let manager = Manager::new(handle.kube(), clock, Gates::new(), Metrics::new(), options);
    let gate = vip::mount(&manager, config).unwrap();
    *model.seats[which].lock().unwrap() = Some(gate);
    let _seat = Seat(&model, which);
    manager.run().await.unwrap();
}

/// Nobody sits here any more once this is gone.
struct Seat<'a>(&'a Model, usize);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        *self.0.seats[self.1].lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The IPAM provider: one write at a time, at its own pace.
async fn ipam(model: Arc<Model>) {
    loop {
        model.server.wait_until(Duration::from_secs(3600), provide).await;
        model.pause(400).await;
    }
}

/// The garbage collector: sometimes late.
async fn collector(model: Arc<Model>) {
    loop {
        let on = model.is_calm() || model.dice.percent(60);
        model.server.set_collector(on);
        if on {
            model.server.collect();
        }
        model.pause(3000).await;
        tokio::time::sleep(Duration::from_millis(if model.is_calm() { 1000 } else { 20 })).await;
    }
}

/// Cluster API, one worker per name.
async fn cluster_api(model: Arc<Model>, which: &'static str) {
    loop {
        tokio::time::sleep(Duration::from_millis(if model.is_calm() { 1000 } else { 200 })).await;
        let Some(copy) = model.cluster(which) else { continue };
        if deleting(&copy) {
            model.pause(4000).await;
            if let Some(gate) = model.gate(0) {
                let _ = tokio::time::timeout(Duration::from_secs(5), part(&gate, &copy)).await;
            }
            dismantle(&model.server, &copy);
        } else if gated(&copy) {
            // The copy grows old before it is sent.
            model.pause(1500).await;
            if let Some(wait) = Box::pin(call(&model, &copy)).await {
                tokio::time::sleep(Duration::from_secs(u64::from(wait))).await;
            }
        }
    }
}

/// One call of the gate about a copy, or two at once; renders when it opens, and says how long to wait otherwise.
async fn call(model: &Arc<Model>, copy: &Value) -> Option<u16> {
    let first = model.dice.one(&[0, 1]);
    let twice = model.dice.percent(20);
    let one = async {
        let gate = model.gate(first)?;
        let limit = Duration::from_secs(10);
        tokio::time::timeout(limit, ask(&gate, copy)).await.ok().inspect(|answer| judge(model, copy, answer))
    };
    let two = async {
        if twice && let Some(gate) = model.gate(1 - first) {
            let answer = ask(&gate, copy).await;
            judge(model, copy, &answer);
        }
    };
    let (answer, ()) = tokio::join!(one, async {
        let _ = tokio::time::timeout(Duration::from_secs(10), two).await;
    });
    let answer = answer?;
    model.book.open().answers.insert(uid(copy).to_owned(), answer.clone());
    if let Answer::Open { .. } = answer {
        model.pause(1000).await;
        render(&model.server, &model.book, copy);
        return None;
    }
    // A variable that Cluster API defaulted in memory: its patch sends the whole list of the older copy again.
    if !model.is_calm() && model.dice.percent(15) {
        let old = copy["spec"]["topology"]["variables"].clone();
        if model.cluster(name(copy)).is_some_and(|live| uid(&live) == uid(copy)) {
            let put_back = |object: &mut Value| object["spec"]["topology"]["variables"] = old.clone();
            model.server.edit(CLUSTERS, NS, name(copy), put_back).unwrap();
        }
    }
    Some(answer.retry_after())
}

/// Invariant G, when an answer is given.
fn judge(model: &Model, copy: &Value, answer: &Answer) {
    let Answer::Open { .. } = answer else { return };
    let class = model.server.get(CLASSES, NS, CLASS).unwrap();
    let there = model.cluster(name(copy)).is_some_and(|live| uid(&live) == uid(copy) && !deleting(&live));
    let deeds = model.deeds();
    let touched = deeds.unprotected.contains(uid(copy)) || deeds.ingress_off.contains(uid(copy));
    drop(deeds);
    if let Some(lack) = lacks(&model.server, &class, copy, there && !touched) {
        model.book.wrong(format!("G: {} was let through: {lack}: {copy}", name(copy)));
    }
}

/// Users, who do one thing after the other.
async fn users(model: Arc<Model>) {
    loop {
        let act = model.dice.below(100);
        let which = model.dice.one(&NAMES);
        match (model.cluster(which), act) {
            (None, 0..70) => create(&model, which),
            (None, 70..80) => reserve(&model, which),
            (Some(_), 0..12) => drop(model.server.delete(CLUSTERS, NS, which)),
            (Some(live), 12..18) => delete_claim(&model, &live),
            (Some(live), 18..26) => choose_host(&model, &live),
            (Some(live), 26..60) => annotate(&model, &live),
            (Some(_), 60..66) => edit(&model, which, |object| {
                object["spec"]["topology"]["variables"] = json!([{"name": "region", "value": {"zone": "a"}}]);
            }),
            (_, 80..100) => change_pool(&model),
            _ => {}
        }
        model.pause(4000).await;
    }
}

fn edit(model: &Model, which: &str, change: impl FnOnce(&mut Value)) {
    model.server.edit(CLUSTERS, NS, which, change).unwrap();
}

fn create(model: &Model, which: &str) {
    let mut object = cluster(which, &json!({"note": "mine"}));
    let notes = &mut object["metadata"]["annotations"];
    match model.dice.below(10) {
        0..4 => {}
        4 => notes[key("ingress-enabled")] = json!("true"),
        5 => notes[key("ingress-enabled")] = json!("false"),
        6 => notes[key("ip-families")] = json!("ipv4"),
        7 => notes[key("control-plane-enabled")] = json!("false"),
        _ => object["spec"]["controlPlaneEndpoint"] = json!({"host": manual(model)}),
    }
    let host = host(&object).to_owned();
    let made = model.server.put(object).unwrap();
    if !host.is_empty() {
        let mut deeds = model.deeds();
        deeds.manual.insert(uid(&made).to_owned());
        deeds.hosts.entry(uid(&made).to_owned()).or_default().insert(host);
    }
}

/// An address outside all pools, or a name.
fn manual(model: &Model) -> String {
    match model.dice.below(4) {
        0 => "api.example.org".to_owned(),
        n => format!("192.168.0.{n}{}", model.dice.below(9)),
    }
}

fn reserve(model: &Model, which: &str) {
    let claim = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
        "metadata": {"name": format!("vip-cp-{which}"), "namespace": NS, "labels": {key("role"): "control-plane"}},
        "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": "one"}},
    });
    if model.server.get(CLAIMS, NS, name(&claim)).is_none() {
        model.server.put(claim).unwrap();
    }
}

fn delete_claim(model: &Model, live: &Value) {
    let claim = format!("vip-cp-{}", name(live));
    if model.dice.percent(30) && model.server.get(CLAIMS, NS, &claim).is_some() {
        model.deeds().unprotected.insert(uid(live).to_owned());
        model.server.delete(CLAIMS, NS, &claim);
    }
}

fn choose_host(model: &Model, live: &Value) {
    if host(live).is_empty() && !deleting(live) {
        let host = manual(model);
        model.deeds().hosts.entry(uid(live).to_owned()).or_default().insert(host.clone());
        edit(model, name(live), |object| object["spec"]["controlPlaneEndpoint"] = json!({"host": host}));
    }
}

fn annotate(model: &Model, live: &Value) {
    let (suffix, value) = match model.dice.below(9) {
        0 => ("ingress-enabled", json!("true")),
        1 => ("ingress-enabled", json!("false")),
        2 => ("ingress-enabled", Value::Null),
        3 => ("control-plane-enabled", json!("false")),
        4 => ("control-plane-enabled", Value::Null),
        5 => ("control-plane-vip", Value::Null),
        6 => ("ingress-vip", Value::Null),
        7 => ("port", json!("7443")),
        _ => {
            let pausing = !paused(live) && model.dice.percent(40);
            return edit(model, name(live), |object| {
                set(object, PAUSED, if pausing { json!("") } else { Value::Null })
            });
        }
    };
    if suffix == "ingress-enabled" && value == "false" {
        model.deeds().ingress_off.insert(uid(live).to_owned());
    }
    edit(model, name(live), |object| set(object, &key(suffix), value));
}

fn set(object: &mut Value, annotation: &str, value: Value) {
    let notes = object["metadata"]["annotations"].as_object_mut().unwrap();
    if value.is_null() {
        notes.remove(annotation);
    } else {
        notes.insert(annotation.to_owned(), value);
    }
}

fn change_pool(model: &Model) {
    let pools = [("one", "control-plane", 1), ("two", "control-plane", 2), ("in", "ingress", 3)];
    let (which, role, network) = model.dice.one(&pools);
    let size = model.dice.one(&[0, 1, 2, 3]);
    let there = model.server.get(POOLS, "", which).is_some();
    match model.dice.below(6) {
        0 if there && which != "one" => drop(model.server.delete(POOLS, "", which)),
        1 if there => {
            let pausing = model.dice.percent(50);
            let change = |object: &mut Value| {
                object["metadata"]["annotations"] = if pausing { json!({PAUSED: ""}) } else { json!({}) }
            };
            model.server.edit(POOLS, "", which, change).unwrap();
        }
        _ if there => {
            let change = |object: &mut Value| object["spec"]["addresses"] = json!(range(network, 10, size));
            model.server.edit(POOLS, "", which, change).unwrap();
        }
        _ => drop(model.server.put(pool(which, role, network, 10, size)).unwrap()),
    }
}

/// Sees every version of every object of a kind.
async fn every_version(model: Arc<Model>, kind: &'static str, judge: fn(&Model, &mut Seen, Value)) {
    let resource = sim::dock::resource(kind).unwrap();
    let api: Api<DynamicObject> = Api::namespaced_with(model.server.client("judge").kube(), NS, &resource);
    let mut seen = Seen::default();
    let mut events = api.watch(&WatchParams::default().timeout(290), "0").await.unwrap().boxed();
    loop {
        let Some(event) = events.next().await else {
            events = api.watch(&WatchParams::default().timeout(290), &seen.version).await.unwrap().boxed();
            continue;
        };
        let (gone, object) = match event.unwrap() {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (false, object),
            WatchEvent::Deleted(object) => (true, object),
            _ => continue,
        };
        seen.version = object.metadata.resource_version.clone().unwrap();
        let object = serde_json::to_value(object).unwrap();
        if gone {
            seen.objects.remove(uid(&object));
        } else {
            judge(&model, &mut seen, object);
        }
    }
}

#[derive(Default)]
struct Seen {
    version: String,
    objects: BTreeMap<String, Value>,
}

/// O1, O2 and O3, on one version of one Cluster.
fn judge_cluster(model: &Model, seen: &mut Seen, next: Value) {
    let deeds = model.deeds();
    let chosen = |id: &str, host: &str| deeds.hosts.get(id).is_some_and(|hosts| hosts.contains(host));
    let before = seen.objects.insert(uid(&next).to_owned(), next.clone());
    let before = before.as_ref().map(host).unwrap_or_default();
    if !before.is_empty() && before != host(&next) && !chosen(uid(&next), host(&next)) {
        model.book.wrong(format!("O2: the endpoint of {} moved from {before} to {}", name(&next), host(&next)));
    }
    let bookkeeping = model.book.open();
    let other = |r: &&Rendered| r.uid == uid(&next) && r.host != host(&next) && !chosen(uid(&next), host(&next));
    let wrong = bookkeeping.rendered.iter().find(other).map(|r| r.host.clone());
    drop(bookkeeping);
    if let Some(rendered) = wrong
        && note(&next, "control-plane-enabled") != "false"
    {
        model.book.wrong(format!("O1: {} was rendered with {rendered:?} and has {:?}", name(&next), host(&next)));
    }
    let pooled = |object: &&Value| note(object, "control-plane-source") == "allocated" && !host(object).is_empty();
    let mut holders: BTreeMap<&str, &Value> = BTreeMap::new();
    for object in seen.objects.values().filter(pooled) {
        if let Some(other) = holders.insert(host(object), object) {
            let both = format!("{} ({}) and {} ({})", name(object), uid(object), name(other), uid(other));
            model.book.wrong(format!("O3: {} is the endpoint of {both}", host(object)));
        }
    }
}

/// O4 (not too early) and O5, on one version of one claim.
fn judge_claim(model: &Model, seen: &mut Seen, next: Value) {
    let deeds = model.deeds();
    let before = seen.objects.insert(uid(&next).to_owned(), next.clone());
    let ours = note_label(&next, "managed-by") == "vip-allocator";
    let control_plane = name(&next).starts_with("vip-cp-");
    for owner in owners(&next) {
        if control_plane && deeds.manual.contains(owner) && before.is_none() && ours {
            model.book.wrong(format!("O5: {} was made for a cluster whose endpoint was chosen by hand", name(&next)));
        }
        let cluster = model.server.list(CLUSTERS, NS).into_iter().find(|cluster| uid(cluster) == owner);
        let Some(cluster) = cluster else { continue };
        let begun = deleting(&next) && before.as_ref().is_some_and(|before| !deleting(before));
        let bound = !at(&next, "/status/addressRef/name").is_empty();
        // With the flag for it, what an endpoint chosen later never needed is given back.
        let address = model.server.get(ADDRESSES, NS, name(&next));
        let spare = address.is_none_or(|address| at(&address, "/spec/address") != host(&cluster));
        let unused = control_plane && deeds.hosts.contains_key(owner) && spare;
        let allowed =
            unused || deeds.unprotected.contains(owner) || (!control_plane && deeds.ingress_off.contains(owner));
        if begun && bound && !allowed {
            model.book.wrong(format!("O4: {} was deleted while {} was there", name(&next), name(&cluster)));
        }
    }
}

fn note_label<'v>(object: &'v Value, suffix: &str) -> &'v str {
    object["metadata"]["labels"].get(key(suffix)).and_then(Value::as_str).unwrap_or_default()
}

/// One random history.
async fn history(seed: u64) -> Result<usize, String> {
    let server = Server::new(seed);
    install(&server);
    let model = Arc::new(Model {
        server: server.clone(),
        dice: Dice::new(seed),
        book: Book::default(),
        deeds: Mutex::default(),
        seats: [Mutex::new(None), Mutex::new(None)],
    });
    server.put(class(CLASS, if seed.is_multiple_of(2) { &["clusterVip", "ingressVip"] } else { &[] })).unwrap();
    server.put(pool("one", "control-plane", 1, 10, 2)).unwrap();
    let config =
        Config { release_unused: seed.is_multiple_of(3), orphan_ttl: Duration::from_secs(60), ..Config::default() };
    let mut around = JoinSet::new();
    for which in 0..2 {
        let (mine, config) = (Arc::clone(&model), config.clone());
        let start = move |handle, life| Box::pin(replica(Arc::clone(&mine), which, config.clone(), handle, life));
        let lives = Arc::clone(&model.dice).lives(server.clone(), format!("replica-{which}"), TROUBLE, start);
        around.spawn(lives);
    }
    around.spawn(ipam(Arc::clone(&model)));
    around.spawn(collector(Arc::clone(&model)));
    around.spawn(every_version(Arc::clone(&model), "Cluster", judge_cluster));
    around.spawn(every_version(Arc::clone(&model), "IPAddressClaim", judge_claim));
    for which in NAMES {
        around.spawn(cluster_api(Arc::clone(&model), which));
    }
    let _ = tokio::time::timeout(BUSY, users(Arc::clone(&model))).await;
    until(&model, &mut around, Duration::ZERO).await?;

    // Faults stop, and what users broke and can mend is mended: everything must come to an end by itself.
    model.dice.calm();
    for (which, role, network) in [("one", "control-plane", 1), ("two", "control-plane", 2), ("in", "ingress", 3)] {
        server.put(pool(which, role, network, 10, 20)).unwrap();
    }
    for which in NAMES {
        if model.cluster(which).is_some() {
            edit(&model, which, |object| set(object, PAUSED, Value::Null));
        }
    }
    until(&model, &mut around, Duration::from_secs(240)).await?;
    ended_well(&model)?;
    let effects = server.effects();
    until(&model, &mut around, Duration::from_secs(120)).await?;
    if server.effects() != effects {
        return Err(format!("not quiet: {} more writes", server.effects() - effects));
    }
    for which in NAMES {
        server.delete(CLUSTERS, NS, which);
    }
    until(&model, &mut around, Duration::from_secs(240)).await?;
    let ours = |claim: &Value| note_label(claim, "managed-by") == "vip-allocator";
    let left: Vec<String> = server.list(CLAIMS, NS).iter().filter(|c| ours(c)).map(|c| name(c).to_owned()).collect();
    if !left.is_empty() || server.list(ADDRESSES, NS).len() > server.list(CLAIMS, NS).len() {
        return Err(format!("O4: left behind: {left:?}"));
    }
    let rendered = model.book.open().rendered.len();
    Ok(rendered)
}

/// Lets time pass, and ends when something was wrong.
async fn until(model: &Model, around: &mut JoinSet<()>, time: Duration) -> Result<(), String> {
    tokio::select! {
        ended = around.join_next() => return Err(format!("an actor ended: {ended:?}")),
        () = tokio::time::sleep(time) => {}
    }
    match model.book.open().wrongs.first() {
        Some(wrong) => Err(wrong.clone()),
        None => Ok(()),
    }
}

/// Every cluster that nobody broke is rendered, with what it should have.
fn ended_well(model: &Model) -> Result<(), String> {
    for cluster in model.server.list(CLUSTERS, NS) {
        // An address that nothing protected any more may have been given to somebody else, who then waits for a person;
        // and whoever chose the endpoint of another cluster waits until a person chooses again.
        let taken = model.server.list(CLUSTERS, NS).into_iter().any(|other| {
            let vip = held(&model.server, &cluster, "vip-cp-");
            let given = vip.as_deref() == Some(host(&other)) && model.deeds().unprotected.contains(uid(&other));
            let by_hand = model.deeds().hosts.get(uid(&cluster)).is_some_and(|hosts| hosts.contains(host(&cluster)));
            let chosen = by_hand && host(&cluster) == host(&other);
            uid(&other) != uid(&cluster) && (given || chosen)
        });
        if taken
            || model.deeds().unprotected.contains(uid(&cluster))
            || note(&cluster, "control-plane-enabled") == "false"
        {
            continue;
        }
        let rendered = cluster.pointer("/spec/infrastructureRef").is_some();
        if !rendered {
            let answer = model.book.open().answers.get(uid(&cluster)).cloned();
            return Err(format!("{} still waits: {answer:?}: {cluster}", name(&cluster)));
        }
        let wants = note(&cluster, "ingress-enabled") != "false" && !host(&cluster).is_empty();
        let shown = note(&cluster, "ingress-vip");
        if wants && held(&model.server, &cluster, "vip-ingress-").as_deref() != Some(shown) {
            return Err(format!("the ingress address of {} is {shown:?}: {cluster}", name(&cluster)));
        }
    }
    Ok(())
}

#[test]
fn in_every_history_the_promises_hold() {
    play(12, history).assert_well("clusters rendered", 12);
}
