//! Random interleavings of everything that can happen to clusters and their addresses, on the real gate and housekeeper.
//!
//! Two replicas run whole, each with its own lagging view of every kind, each killed and started again at any request;
//! both keep house, which is worse than a lease allows. Cluster API asks with copies that are old, asks twice, and
//! renders from the very copy it sent. Users create, edit, delete and recreate. A watch that sees every version of every
//! Cluster and claim judges each step, and the answers of the gate are judged when they are given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kit::clock::Clock;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use serde_json::{Value, json};
use sim::server::{Action, EventAction, Handle, RequestInfo, Rng, Server};
use tokio::sync::Notify;
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
    rng: Mutex<Rng>,
    book: Book,
    deeds: Mutex<Deeds>,
    calm: AtomicBool,
    seats: [Mutex<Option<Arc<Extension>>>; 2],
}

impl Model {
    fn draw<T>(&self, pick: impl FnOnce(&mut Rng) -> T) -> T {
        pick(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn deeds(&self) -> std::sync::MutexGuard<'_, Deeds> {
        self.deeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    async fn pause(&self, most: u64) {
        let most = if self.is_calm() { most.min(50) } else { most };
        let time = self.draw(|rng| rng.below(most));
        tokio::time::sleep(Duration::from_millis(time)).await;
    }

    fn gate(&self, which: usize) -> Option<Arc<Extension>> {
        self.seats[which].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn cluster(&self, name: &str) -> Option<Value> {
        self.server.get(CLUSTERS, NS, name)
    }
}

/// Runs one replica for ever: started, disturbed, killed at some request, started again.
async fn replica(model: Arc<Model>, which: usize, config: Config) {
    for life in 0.. {
        let handle = model.server.client(&format!("replica-{which}-{life}"));
        let dying = Arc::new(Notify::new());
        disturb(&model, &handle, &dying);
        let options = Options { workers: 2, ..Options::default() };
        let clock = Clock::simulated((model.server.clock())(), life + 7);
        let manager = Manager::new(handle.kube(), clock, Gates::new(), Metrics::new(), options);
        let gate = vip::mount(&manager, config.clone()).unwrap();
        *model.seats[which].lock().unwrap() = Some(gate);
        tokio::select! {
            ended = manager.run() => panic!("a replica ended by itself: {ended:?}"),
            () = dying.notified() => {}
        }
        handle.crash();
        *model.seats[which].lock().unwrap() = None;
        model.pause(3000).await;
    }
}

/// Makes a replica's requests slow and lossy, its view of each kind lag on its own, and kills it at some write.
fn disturb(model: &Arc<Model>, handle: &Handle, dying: &Arc<Notify>) {
    let writes = AtomicU64::new(0);
    let last = model.draw(|rng| if rng.percent(60) { 1 + rng.below(12) } else { u64::MAX });
    let (world, dying) = (Arc::clone(model), Arc::clone(dying));
    handle.script(move |info: &RequestInfo| {
        if world.is_calm() {
            return Vec::new();
        }
        if info.mutating && writes.fetch_add(1, Ordering::SeqCst) + 1 == last {
            dying.notify_one();
            let committed = world.draw(|rng| rng.percent(50));
            return vec![if committed { Action::HangAfter } else { Action::Hang }];
        }
        let mut fate = Vec::new();
        if world.draw(|rng| rng.percent(25)) {
            fate.push(Action::Delay(Duration::from_millis(world.draw(|rng| rng.below(1500)))));
        }
        match world.draw(|rng| rng.below(100)) {
            0..4 if info.mutating => fate.push(Action::DropAnswer),
            4..7 if info.mutating => fate.push(Action::Conflict),
            7..9 => fate.push(Action::Status(500)),
            9..10 => fate.push(Action::Refuse),
            _ => {}
        }
        fate
    });
    let world = Arc::clone(model);
    // Some kinds lag a lot, others hardly: what the replica believes never existed at one moment.
    let slow: Vec<&str> = [CLUSTERS, CLASSES, CLAIMS, ADDRESSES, POOLS]
        .into_iter()
        .filter(|_| model.draw(|rng| rng.percent(40)))
        .collect();
    handle.script_events(move |_, resource, _| {
        if world.is_calm() {
            return EventAction::default();
        }
        let most = if slow.contains(&resource) { 4000 } else { 200 };
        let delay = if world.draw(|rng| rng.percent(50)) { world.draw(|rng| rng.below(most)) } else { 0 };
        EventAction { drop: false, repeat: world.draw(|rng| rng.percent(10)), delay: Duration::from_millis(delay) }
    });
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
        let on = model.is_calm() || model.draw(|rng| rng.percent(60));
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
    let first = model.draw(|rng| usize::try_from(rng.below(2)).unwrap());
    let twice = model.draw(|rng| rng.percent(20));
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
    if !model.is_calm() && model.draw(|rng| rng.percent(15)) {
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
        let act = model.draw(|rng| rng.below(100));
        let which = model.draw(|rng| NAMES[usize::try_from(rng.below(3)).unwrap()]);
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
    match model.draw(|rng| rng.below(10)) {
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
    match model.draw(|rng| rng.below(4)) {
        0 => "api.example.org".to_owned(),
        n => format!("192.168.0.{n}{}", model.draw(|rng| rng.below(9))),
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
    if model.draw(|rng| rng.percent(30)) && model.server.get(CLAIMS, NS, &claim).is_some() {
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
    let (suffix, value) = match model.draw(|rng| rng.below(9)) {
        0 => ("ingress-enabled", json!("true")),
        1 => ("ingress-enabled", json!("false")),
        2 => ("ingress-enabled", Value::Null),
        3 => ("control-plane-enabled", json!("false")),
        4 => ("control-plane-enabled", Value::Null),
        5 => ("control-plane-vip", Value::Null),
        6 => ("ingress-vip", Value::Null),
        7 => ("port", json!("7443")),
        _ => {
            let pausing = !paused(live) && model.draw(|rng| rng.percent(40));
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
    let (which, role, network) = [("one", "control-plane", 1), ("two", "control-plane", 2), ("in", "ingress", 3)]
        [usize::try_from(model.draw(|rng| rng.below(3))).unwrap()];
    let size = model.draw(|rng| u8::try_from(rng.below(4)).unwrap());
    let there = model.server.get(POOLS, "", which).is_some();
    match model.draw(|rng| rng.below(6)) {
        0 if there && which != "one" => drop(model.server.delete(POOLS, "", which)),
        1 if there => {
            let pausing = model.draw(|rng| rng.percent(50));
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
        rng: Mutex::new(Rng::new(seed.wrapping_mul(0x9e37_79b9) ^ 0x5bd1)),
        book: Book::default(),
        deeds: Mutex::default(),
        calm: AtomicBool::new(false),
        seats: [Mutex::new(None), Mutex::new(None)],
    });
    server.put(class(CLASS, if seed.is_multiple_of(2) { &["clusterVip", "ingressVip"] } else { &[] })).unwrap();
    server.put(pool("one", "control-plane", 1, 10, 2)).unwrap();
    let config =
        Config { release_unused: seed.is_multiple_of(3), orphan_ttl: Duration::from_secs(60), ..Config::default() };
    let mut around = JoinSet::new();
    for which in 0..2 {
        around.spawn(replica(Arc::clone(&model), which, config.clone()));
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
    model.calm.store(true, Ordering::SeqCst);
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

fn run(seed: u64) -> Result<usize, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(Box::pin(history(seed)))
}

#[test]
fn in_every_history_the_promises_hold() {
    // One seed, or a range of them, can be asked for, to look at a failure or to look longer.
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("BERTH_SEED");
    let count = number("BERTH_SEEDS").unwrap_or(if first.is_some() { 1 } else { 12 });
    let seeds = first.unwrap_or(0)..first.unwrap_or(0) + count;
    let (mut rendered, mut failures) = (0, Vec::new());
    for seed in seeds {
        match run(seed) {
            Ok(count) => rendered += count,
            Err(why) => failures.push(format!("seed {seed}: {why}")),
        }
    }
    assert!(failures.is_empty(), "{} histories went wrong:\n{}", failures.len(), failures.join("\n"));
    assert!(first.is_some() || rendered > 12, "too little happened: {rendered} clusters rendered");
}
