//! Everything that is not as it should be, each once and at its root.

use std::collections::{BTreeMap, BTreeSet};

use api::key::ObjectKey;
use api::raw::HostClaim;
use kit::explain::{Explanation, Level, Node, Object};
use serde::Serialize;
use serde_json::Value;

use super::{ANYWHERE, Cell, Pool};
use crate::explain::{Vip, anywhere_row};
use crate::groups;
use crate::look::{Anywhere, Metal};
use ::claims::explain::HostSort;

/// What a node says of itself or of what was made for it; it is no object that anything else is said about.
const PARTS: [&str; 7] =
    ["Condition", "BareMetalHost", "DedicatedHost", "Instance", "VirtualMachine", "Resource", "Secret"];

/// What hangs on a Cluster for its addresses; the Cluster itself tells about them.
const ADDRESSES: [&str; 5] = ["IPAddressClaim", "IPAddress", "InClusterIPPool", "GlobalInClusterIPPool", "IPPool"];

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// What it is about.
    pub object: Object,
    /// How bad it is.
    pub level: Level,
    /// Which part of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The reason as it stands in conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The page of the reason in the book.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<&'static str>,
    /// What happened.
    pub message: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Which one.
    pub type_: String,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// When it ceased to hold.
    pub since: Option<String>,
}

impl Said {
    /// The conditions of a status that nobody has read yet that do not hold.
    pub fn of(status: &Value) -> Vec<Self> {
        let all = status.get("conditions").and_then(Value::as_array);
        let text = |condition: &Value, field: &str| {
            condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let read = |condition: &Value| Self {
            type_: text(condition, "type"),
            reason: text(condition, "reason"),
            message: text(condition, "message"),
            since: condition.get("lastTransitionTime").and_then(Value::as_str).map(str::to_owned),
        };
        all.into_iter().flatten().filter(|condition| text(condition, "status") != "True").map(read).collect()
    }
}

/// Collects them.
#[derive(Default)]
pub struct Troubles {
    said: BTreeMap<(String, String, String), Vec<Said>>,
    found: Vec<Trouble>,
}

fn name_of(object: &Object) -> (String, String, String) {
    (object.kind.clone(), object.namespace.clone().unwrap_or_default(), object.name.clone())
}

fn is_bad(level: Level) -> bool {
    matches!(level, Level::Problem | Level::Waiting | Level::Unknown)
}

/// The page of a reason on an object of this kind: rooms may use one word for different things.
fn page(kind: &str, reason: &str) -> Option<(&'static str, &'static str)> {
    let room = match kind {
        "HostClaim" => "claims",
        "Cluster" => "vip",
        "Metal3Machine" | "Metal3Cluster" => "machines",
        "AWSMachine" => "hosts",
        ANYWHERE => "clusters",
        _ => "capacity",
    };
    let all: Vec<_> = api::reasons::all().into_iter().filter(|entry| entry.reason == reason).collect();
    let own = all.iter().find(|entry| entry.room == room).or(all.first())?;
    Some((own.anchor, own.meaning))
}

impl Troubles {
    /// Hears what the conditions of an object say.
    pub fn hear(&mut self, object: &Object, said: Vec<Said>) {
        if !said.is_empty() {
            self.said.insert(name_of(object), said);
        }
    }

    /// Hears Clusters.
    pub fn hear_addresses(&mut self, lists: &::vip::explain::Lists) {
        for cluster in &lists.clusters {
            let failing = cluster.status.conditions.current.iter().filter(|condition| condition.status != "True");
            let said = failing.map(|condition| Said {
                type_: condition.type_.clone(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                since: condition.last_transition_time.as_ref().map(|time| time.0.to_string()),
            });
            self.hear(&Object::new("Cluster", &ObjectKey::of(cluster)), said.collect());
        }
    }

    /// Hears machines of Metal3.
    pub fn hear_machines(&mut self, metal: &Metal) {
        for machine in &metal.machines {
            let conditions = machine.status.iter().flat_map(|status| &status.conditions);
            let said = conditions.filter(|condition| condition.status != "True").map(|condition| Said {
                type_: condition.type_.clone(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                since: Some(condition.last_transition_time.0.to_string()),
            });
            self.hear(&Object::new("Metal3Machine", &super::key_of(machine)), said.collect());
        }
    }

    /// Hears claims.
    pub fn hear_claims(&mut self, claims: &[HostClaim]) {
        for claim in claims {
            self.hear(&Object::new("HostClaim", &ObjectKey::of(claim)), Said::of(&claim.status));
        }
    }

    /// Since when an object says this.
    fn since(&self, object: &Object, reason: &str) -> Option<String> {
        let said = self.said.get(&name_of(object))?;
        said.iter().find(|said| said.reason == reason)?.since.clone()
    }

    fn add(&mut self, object: Object, level: Level, part: Option<String>, reason: Option<String>, message: String) {
        let since = reason.as_ref().and_then(|reason| self.since(&object, reason));
        let page = reason.as_ref().and_then(|reason| page(&object.kind, reason)).map(|(page, _)| page);
        self.found.push(Trouble { object, level, part, reason, page, message, since });
    }

    /// What is wrong with the addresses of a cluster.
    pub fn cluster(&mut self, told: &Explanation, rows: &[Vip]) {
        let mut any = false;
        for row in rows.iter().filter(|row| is_bad(row.level)) {
            any = true;
            let part = row.role.as_ref().map(|role| format!("{role} address"));
            self.add(told.object.clone(), row.level, part, row.reason.map(str::to_owned), row.message.clone());
        }
        if !any && is_bad(told.level) {
            self.add(told.object.clone(), told.level, None, None, told.summary.clone());
        }
    }

    /// What is wrong with a cluster on CloudStack.
    pub fn anywhere(&mut self, seen: &Anywhere, root: &Node) {
        let row = anywhere_row(&seen.cluster);
        let said = seen.cluster.status.iter().flat_map(|status| &status.conditions).filter(|one| one.status != "True");
        let said = said.map(|condition| Said {
            type_: condition.type_.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            since: Some(condition.last_transition_time.0.to_string()),
        });
        self.hear(&root.object, said.collect());
        if is_bad(row.level) {
            self.add(root.object.clone(), row.level, None, row.reason, row.message);
        }
    }

    /// What is wrong with the machines and claims below a root; where one is in trouble because of another, that other is told.
    pub fn walk(&mut self, root: &Node) {
        let told = matches!(root.object.kind.as_str(), "Cluster" | ANYWHERE);
        for child in &root.children {
            let same = told && child.note == root.note;
            if !same && told {
                self.below(child);
            }
        }
        if !told {
            self.below(root);
        }
    }

    /// Whether anything is wrong with a node or below it.
    fn below(&mut self, node: &Node) -> bool {
        let kind = node.object.kind.as_str();
        if PARTS.contains(&kind) || ADDRESSES.contains(&kind) {
            return false;
        }
        let mut deeper = false;
        for child in &node.children {
            deeper |= self.below(child);
        }
        if !is_bad(node.level) || deeper {
            return deeper || is_bad(node.level);
        }
        let (reason, message) = self.reason(node);
        self.add(node.object.clone(), node.level, None, reason, message);
        true
    }

    /// Why a node is as it is: the first condition that is drawn below it, or the one that says the same.
    fn reason(&self, node: &Node) -> (Option<String>, String) {
        let drawn = node.children.iter().find(|child| child.object.kind == "Condition");
        if let Some((reason, message)) = drawn.and_then(|condition| condition.note.split_once(": ")) {
            return (Some(reason.to_owned()), message.to_owned());
        }
        let said = self.said.get(&name_of(&node.object)).map(Vec::as_slice).unwrap_or_default();
        let same = said.iter().find(|said| said.message == node.note && !said.reason.is_empty());
        let chosen = same.or_else(|| said.iter().find(|said| said.type_ == api::reasons::READY));
        (chosen.map(|said| said.reason.clone()), node.note.clone())
    }

    /// What is wrong with hosts.
    pub fn hosts(&mut self, cells: &[Cell]) {
        for cell in cells.iter().filter(|cell| cell.row.sort == HostSort::Failed && cell.kind == "BareMetalHost") {
            let key = ObjectKey::namespaced(cell.row.namespace.as_str(), cell.row.name.as_str());
            let message = cell.row.error.clone().unwrap_or_else(|| cell.row.state.clone());
            self.add(Object::new(cell.kind, &key), Level::Problem, None, None, message);
        }
    }

    /// Pools that have nothing left.
    pub fn pools(&mut self, pools: &[Pool]) {
        for pool in pools.iter().filter(|pool| pool.level == Level::Problem) {
            let object =
                Object { kind: pool.kind.to_owned(), namespace: pool.namespace.clone(), name: pool.name.clone() };
            self.add(object, pool.level, None, None, pool.note.clone());
        }
    }

    /// What is wrong with groups of machines.
    pub fn groups(&mut self, rows: &[groups::Row]) {
        for row in rows.iter().filter(|row| is_bad(row.level)) {
            let kind = row.kind.split('.').next().unwrap_or(row.kind);
            let key = ObjectKey::namespaced(row.namespace.as_str(), row.name.as_str());
            self.add(Object::new(kind, &key), row.level, Some("capacity".to_owned()), None, row.state.clone());
        }
    }

    /// The worst first, each once, and what their reasons mean.
    pub fn done(self) -> (Vec<Trouble>, BTreeMap<&'static str, &'static str>) {
        let rank = |level: Level| match level {
            Level::Problem => 0,
            Level::Unknown => 1,
            _ => 2,
        };
        let mut found = self.found;
        let order = |one: &Trouble| {
            let object = &one.object;
            (
                rank(one.level),
                one.reason.is_none(),
                one.reason.clone(),
                object.kind.clone(),
                object.namespace.clone(),
                object.name.clone(),
            )
        };
        found.sort_by_cached_key(order);
        let mut seen = BTreeSet::new();
        found.retain(|one| {
            seen.insert((name_of(&one.object), one.part.clone(), one.reason.clone(), one.message.clone()))
        });
        let meanings = found.iter().filter_map(|one| page(&one.object.kind, one.reason.as_deref()?)).collect();
        (found, meanings)
    }
}
