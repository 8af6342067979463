//! Kinds that have no screen of their own: whether an object is fine by what its status says, what does not hold and what that
//! means, who owns it, and whom it waits for. The object is read and nothing else.

mod said;
mod sorts;

use api::key::ObjectKey;
use api::names::{CLUSTER_NAME_LABEL, PAUSED_ANNOTATION};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kit::clock::Clock;
use kit::explain::{Explanation, Fact, Fix, Level, Object, quoted};
use kube::Client;
use serde_json::Value;

use super::AboutOptions;
use crate::Usage;
use crate::look::{self, Reader, Thing};
use said::Said;
pub use sorts::{PLANE, SORTS, Sort, find};
use sorts::{Point, referred};

/// Explains an object of one of these kinds.
pub async fn about(client: &Client, options: &AboutOptions, sort: &Sort, name: &str) -> anyhow::Result<Explanation> {
    let namespace = sort.namespaced.then(|| options.place.namespace(client));
    let reader = Reader::new(client, namespace.as_deref());
    let command = format!("explain {}", sort.word());
    let thing = look::object(&reader, &sort.at_versions(), namespace.as_deref(), name, &command).await?;
    Ok(explanation(sort, &thing, Clock::system().now()))
}

/// These kinds are not drawn.
pub fn undrawn(sort: &Sort, name: &str) -> anyhow::Error {
    let word = sort.word();
    let drawn = "cluster, cluster.anywhere, metal3machine, hostclaim, awsmachine, machineset, machinedeployment, \
                 kubeadmcontrolplane";
    Usage(format!(
        "the kind `{word}` is explained and not drawn; drawn are: {drawn}; see `berth explain {word}/{name}`"
    ))
    .into()
}

/// What is told of an object.
pub fn explanation(sort: &Sort, thing: &Thing, now: Timestamp) -> Explanation {
    let told = Told { sort, thing, key: look::key(&thing.metadata), said: Said::of(&thing.status) };
    let (level, summary) = told.verdict();
    Explanation {
        object: Object::new(sort.kind, &told.key),
        level,
        facts: told.facts(level, &summary),
        summary,
        needs: told.said.needs(sort.room, now),
        next: Vec::new(),
        fixes: told.fixes(level),
        unseen: Vec::new(),
    }
}

/// Another object, as a reference names it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Other {
    group: String,
    kind: String,
    namespace: Option<String>,
    name: String,
}

impl Other {
    /// What a reference says; a word by itself is a name.
    fn read(value: &Value, (group, kind): (&str, &str)) -> Option<Self> {
        if let Value::String(name) = value {
            let (group, kind) = (group.to_owned(), kind.to_owned());
            return (!name.is_empty() && !kind.is_empty()).then(|| Self {
                group,
                kind,
                namespace: None,
                name: name.clone(),
            });
        }
        let text = |field: &str| value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        let versioned = || text("apiVersion").map(|version| version.split_once('/').map_or("", |(group, _)| group));
        let kind = text("kind").unwrap_or(kind);
        if kind.is_empty() {
            return None;
        }
        Some(Self {
            group: text("apiGroup").or_else(versioned).unwrap_or(group).to_owned(),
            kind: kind.to_owned(),
            namespace: text("namespace").map(str::to_owned),
            name: text("name")?.to_owned(),
        })
    }

    fn owner(owner: &OwnerReference) -> Self {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        Self { group: group.to_owned(), kind: owner.kind.clone(), namespace: None, name: owner.name.clone() }
    }

    /// As people name it, from the namespace of another object.
    fn told(&self, here: Option<&str>) -> String {
        match self.namespace.as_deref().filter(|namespace| Some(*namespace) != here) {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    /// The command to look at it.
    fn command(&self, here: Option<&str>) -> String {
        let everywhere = referred(&self.group, &self.kind).is_some_and(|sort| !sort.namespaced);
        let namespace = self.namespace.as_deref().or(here).filter(|_| !everywhere);
        let place = namespace.map(|namespace| format!(" -n {}", quoted(namespace))).unwrap_or_default();
        let word = self.kind.to_lowercase();
        let long = if self.group.is_empty() { word.clone() } else { format!("{word}.{}", self.group) };
        let name = quoted(&self.name);
        match spoken(&word, &long) {
            Some(kind) => format!("berth explain {kind}/{name}{place}"),
            None => format!("kubectl get {} {name}{place} -o yaml", quoted(&long)),
        }
    }
}

/// How a kind is called on the command line here: by a short word where that means the same.
fn spoken<'a>(word: &'a str, long: &'a str) -> Option<&'a str> {
    let subject = |kind: &str| super::subject(&format!("{kind}/x")).ok();
    let meant = subject(long)?;
    Some(if subject(word).is_some_and(|short| short == meant) { word } else { long })
}

/// An object and what stands in it.
struct Told<'a> {
    sort: &'a Sort,
    thing: &'a Thing,
    key: ObjectKey,
    said: Said,
}

impl Told<'_> {
    /// What stands at a place of the object.
    fn at(&self, place: &str) -> Option<&Value> {
        match place.strip_prefix("/status") {
            Some(rest) => self.thing.status.pointer(rest),
            None => self.thing.spec.pointer(place.strip_prefix("/spec")?),
        }
    }

    fn is_annotated_as_paused(&self) -> bool {
        self.thing.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(PAUSED_ANNOTATION))
    }

    /// Whether the status speaks of an older spec, and of which.
    fn behind(&self) -> Option<(i64, i64)> {
        let (judged, now) = (self.said.generation?, self.thing.metadata.generation?);
        (judged < now).then_some((judged, now))
    }

    /// Whether the object has what it is for, where that stands in one place.
    fn is_done(&self) -> Option<bool> {
        let done = self.at(self.sort.done?);
        Some(done.is_some_and(|done| !done.is_null()))
    }

    fn verdict(&self) -> (Level, String) {
        let meta = &self.thing.metadata;
        if meta.deletion_timestamp.is_some() {
            let held: Vec<&str> = meta.finalizers.iter().flatten().map(String::as_str).collect();
            let until = match held.as_slice() {
                [] => String::new(),
                held => format!(", and stays until nobody holds it any more: {}", held.join(", ")),
            };
            return (Level::Waiting, format!("it is being deleted{until}"));
        }
        if self.is_annotated_as_paused() || self.said.is_paused() {
            return (Level::Aside, "nothing is done: it or its Cluster is paused".to_owned());
        }
        if let Some((level, sentence)) = self.said.trouble() {
            return (level, sentence);
        }
        if let Some((judged, now)) = self.behind() {
            let behind =
                format!("its status speaks of generation {judged}, and the spec is at generation {now} by now");
            return (Level::Waiting, behind);
        }
        if let Some(well) = self.said.well() {
            return (Level::Ok, well);
        }
        match self.is_done() {
            Some(true) => return (Level::Ok, "it was given what it asks for".to_owned()),
            Some(false) => return (Level::Waiting, "it was not given what it asks for yet".to_owned()),
            None => {}
        }
        if let Some((level, sentence)) = self.said.state() {
            return (level, sentence);
        }
        match (self.sort.judged, self.said.empty) {
            (false, _) => {
                (Level::Aside, "nobody judges objects of this kind: they count where others refer to them".to_owned())
            }
            (true, true) => (Level::Waiting, "nothing was said of it yet: it has no status".to_owned()),
            (true, false) => {
                let unsaid = "its status has no conditions, so nothing says whether it is fine";
                (Level::Unknown, unsaid.to_owned())
            }
        }
    }

    fn others(&self) -> impl Iterator<Item = (&Point, Other)> {
        self.sort.points.iter().filter_map(move |point| Some((point, Other::read(self.at(point.at)?, point.to)?)))
    }

    /// Whom the object waits for, as far as references say so.
    fn awaited(&self, level: Level) -> Vec<Other> {
        if matches!(level, Level::Ok | Level::Aside) {
            return Vec::new();
        }
        let waits = |point: &Point| {
            (point.first && self.is_done() == Some(false)) || point.until.iter().any(|type_| self.said.fails(type_))
        };
        self.others().filter(|(point, _)| waits(point)).map(|(_, other)| other).collect()
    }

    /// Who owns it, first whoever made it.
    fn owners(&self) -> Vec<Other> {
        let mut all: Vec<&OwnerReference> = self.thing.metadata.owner_references.iter().flatten().collect();
        all.sort_by_key(|owner| owner.controller != Some(true));
        all.into_iter().map(Other::owner).collect()
    }

    fn facts(&self, level: Level, summary: &str) -> Vec<Fact> {
        let here = self.key.namespace();
        let names = |others: Vec<Other>| {
            let names: Vec<String> = others.iter().map(|other| other.told(here)).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        let labels = self.thing.metadata.labels.as_ref();
        let behind = self.behind().map(|(judged, now)| format!("{now}, of which {judged} was judged"));
        let mut all = vec![
            ("owner", names(self.owners())),
            ("cluster", labels.and_then(|labels| labels.get(CLUSTER_NAME_LABEL)).cloned()),
        ];
        all.extend(self.sort.shows.iter().map(|(name, place)| (*name, self.at(place).and_then(said::word))));
        all.extend(self.others().map(|(point, other)| (point.name, Some(other.told(here)))));
        all.push(("generation", behind));
        all.push(("failure", self.said.failure.clone().filter(|failure| failure != summary)));
        all.push(("waits for", names(self.awaited(level))));
        all.into_iter().filter_map(|(name, value)| Some(Fact { name, value: value? })).collect()
    }

    fn fixes(&self, level: Level) -> Vec<Fix> {
        let here = self.key.namespace();
        let (resource, name) = (self.sort.resource(), quoted(self.key.name()));
        let place = here.map(|namespace| format!(" -n {}", quoted(namespace))).unwrap_or_default();
        if level == Level::Aside {
            let resume = format!("kubectl annotate {resource} {name}{place} {PAUSED_ANNOTATION}-");
            let own = self.is_annotated_as_paused();
            return own.then(|| Fix::run("go on with it", resume)).into_iter().collect();
        }
        if level == Level::Ok && self.said.failing().is_empty() {
            return Vec::new();
        }
        let mut seen: Vec<Other> = Vec::new();
        let mut fixes = Vec::new();
        let awaited = self.awaited(level).into_iter().map(|other| ("see what it waits for", other));
        let owner = self.owners().into_iter().take(1).map(|other| ("see how its owner is", other));
        for (what, other) in awaited.chain(owner) {
            if !seen.contains(&other) {
                fixes.push(Fix::run(format!("{what}: {}", other.told(here)), other.command(here)));
                seen.push(other);
            }
        }
        let failing = self.said.failing();
        let about = if failing.is_empty() { String::new() } else { format!(" into {}", failing.join(", ")) };
        let describe = format!("kubectl describe {resource} {name}{place}");
        fixes.push(Fix::run(format!("look further{about}, with the events of the object"), describe));
        if *self.sort == PLANE {
            let draw = format!("berth tree kubeadmcontrolplane/{name}{place}");
            fixes.push(Fix::run("see it with its machines", draw));
        }
        if self.said.empty && self.sort.room.is_some() {
            fixes.push(Fix::run("see whether Berth runs and has what it needs", "berth doctor"));
        }
        fixes
    }
}
