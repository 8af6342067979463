//! Whose a value is, and what therefore changes: the three-way rule, the merge of labels, the one patch.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::goal::Goal;
use crate::labels::LabelList;
use crate::names;
use crate::offer::Arch;
use crate::quantity::{Quantity, count};
use crate::record::Record;

/// Annotations, as facts keep them.
pub type Annotations = BTreeMap<Box<str>, Box<str>>;

/// What changes on one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Annotations and their new values; `None` takes one off.
    pub changes: BTreeMap<String, Option<String>>,
    /// Keys whose values are a user's, which we would have written otherwise.
    pub overrides: BTreeSet<&'static str>,
    /// Of these, those that cluster-autoscaler cannot read.
    pub unreadable: BTreeSet<&'static str>,
}

impl Plan {
    /// Whether anything changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether the change is based on a text that somebody may edit at the same time.
    #[must_use]
    pub fn needs_version(&self) -> bool {
        self.changes.contains_key(names::LABELS) || self.changes.contains_key(names::APPLIED)
    }

    /// The merge patch, with only what changes.
    #[must_use]
    pub fn patch(&self, version: &str) -> Value {
        let annotations: Map<String, Value> =
            self.changes.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let mut metadata = Map::new();
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
        if self.needs_version() {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        json!({ "metadata": metadata })
    }
}

/// What must be left alone, whatever the goal says.
#[derive(Clone, Copy, Debug)]
pub struct Hands<'a> {
    /// Keys that somebody else declares by server-side apply, or wins a fight about.
    pub off: &'a BTreeSet<Box<str>>,
}

/// Works out what changes.
#[must_use]
pub fn plan(annotations: &Annotations, goal: &Goal, hands: Hands<'_>) -> Plan {
    let record = Record::parse(annotations.get(names::APPLIED).map(AsRef::as_ref));
    let mut plan = Plan::default();
    let mut kept =
        Record { instance_type: goal.instance_type.clone(), region: goal.region.clone(), ..Record::default() };
    for (key, new) in &goal.fixed {
        let present = annotations.get(*key).map(AsRef::as_ref);
        if hands.off.contains(*key) {
            plan.overrides.extend(present.filter(|present| !same(key, present, new)).map(|_| *key));
        } else if !present.is_some_and(|present| same(key, present, new)) {
            plan.changes.insert((*key).to_owned(), Some(new.clone()));
        }
    }
    for (key, new) in &goal.values {
        value(key, new.as_deref(), annotations, &record, goal, hands, &mut plan, &mut kept);
    }
    // What no flag asks for any more goes with the flag.
    for key in names::BY_FLAG {
        if record.values.contains_key(key) && !goal.values.contains_key(key) {
            value(key, None, annotations, &record, goal, hands, &mut plan, &mut kept);
        }
    }
    if !hands.off.contains(names::LABELS) {
        labels(annotations, &record, goal, &mut plan, &mut kept);
    }
    if !hands.off.contains(names::APPLIED) {
        let (present, wanted) = (annotations.get(names::APPLIED), kept.text());
        let differs = match (&wanted, present) {
            (Some(_), Some(_)) => kept != record,
            (wanted, present) => wanted.is_some() != present.is_some(),
        };
        if differs {
            plan.changes.insert(names::APPLIED.to_owned(), wanted);
        }
    }
    plan
}

/// The three-way rule for one key.
#[expect(clippy::too_many_arguments, reason = "one rule over everything that is known of one key")]
fn value(
    key: &'static str,
    new: Option<&str>,
    annotations: &Annotations,
    record: &Record,
    goal: &Goal,
    hands: Hands<'_>,
    plan: &mut Plan,
    kept: &mut Record,
) {
    let recorded = record.values.get(key).map(String::as_str);
    let mut keep = |value: &str| {
        kept.values.insert(key.to_owned(), value.to_owned());
    };
    let Some(present) = annotations.get(key).map(AsRef::as_ref) else {
        if let Some(new) = new
            && goal.introduces(key)
            && !hands.off.contains(key)
        {
            plan.changes.insert(key.to_owned(), Some(new.to_owned()));
            keep(new);
        }
        return;
    };
    // Absent, none and nameless are the same to cluster-autoscaler.
    let neutral = match key {
        names::GPU_COUNT => count(present) == Some(0),
        names::GPU_TYPE => present.is_empty(),
        _ => false,
    };
    if new.is_some_and(|new| same(key, present, new)) || (new.is_none() && neutral) {
        if let Some(new) = new
            && recorded.is_some()
        {
            keep(new);
        }
        return;
    }
    let ours = recorded.is_some_and(|recorded| same(key, present, recorded))
        || derived(key, |legacy| annotations.get(legacy).map(AsRef::as_ref)).is_some_and(|text| same(key, present, &text))
        // What the older keys are about to say: a copy of that would be known for one at the next look.
        || derived(key, |legacy| goal.fixed.get(legacy).map(String::as_str)).is_some_and(|text| same(key, present, &text))
        // The older limit of pods may be a user's, and then so is the copy.
        || (key == names::MAX_PODS
            && new.is_some()
            && record.values.get(names::LEGACY_MAX_PODS).is_some_and(|text| same(key, present, text)));
    if ours && !hands.off.contains(key) {
        match new {
            Some(new) => {
                plan.changes.insert(key.to_owned(), Some(new.to_owned()));
                if goal.introduces(key) {
                    keep(new);
                }
            }
            None => {
                plan.changes.insert(key.to_owned(), None);
            }
        }
        return;
    }
    plan.overrides.insert(key);
    if !readable(key, present) {
        plan.unreadable.insert(key);
    }
}

/// What a copy of an older key would say; whoever made it did so from there.
fn derived<'a>(key: &str, legacy: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    match key {
        names::CPU => legacy(names::LEGACY_CPU).map(str::to_owned),
        names::MEMORY => legacy(names::LEGACY_MEMORY).and_then(count).map(|mebibytes| format!("{mebibytes}Mi")),
        names::GPU_COUNT => legacy(names::LEGACY_GPU).map(str::to_owned),
        names::GPU_TYPE => {
            let gpus = legacy(names::LEGACY_GPU).and_then(count)?;
            Some(if gpus > 0 { names::NVIDIA_RESOURCE } else { "" }.to_owned())
        }
        _ => None,
    }
}

/// How a key's value is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Quantity,
    Count,
    Text,
}

fn form(key: &str) -> Form {
    match key {
        names::CPU | names::MEMORY | names::EPHEMERAL_DISK | names::LEGACY_CPU => Form::Quantity,
        names::GPU_COUNT | names::MAX_PODS | names::LEGACY_MEMORY | names::LEGACY_GPU | names::LEGACY_MAX_PODS => {
            Form::Count
        }
        _ => Form::Text,
    }
}

/// Whether two values of a key mean the same.
#[must_use]
pub fn same(key: &str, a: &str, b: &str) -> bool {
    let equal = match form(key) {
        Form::Quantity => Quantity::parse(a).zip(Quantity::parse(b)).map(|(a, b)| a == b),
        Form::Count => count(a).zip(count(b)).map(|(a, b)| a == b),
        Form::Text => None,
    };
    equal.unwrap_or(a == b)
}

/// Whether cluster-autoscaler can read a value; one it cannot read makes a whole group unscalable from zero.
fn readable(key: &str, value: &str) -> bool {
    match form(key) {
        Form::Quantity => Quantity::parse(value).is_some(),
        Form::Count => count(value).is_some(),
        Form::Text => true,
    }
}

fn labels(annotations: &Annotations, record: &Record, goal: &Goal, plan: &mut Plan, kept: &mut Record) {
    let list = LabelList::parse(annotations.get(names::LABELS).map_or("", AsRef::as_ref));
    let mut labels = list.labels.clone();
    let known = labels.get(names::ARCH).is_some_and(|arch| Arch::ALL.iter().any(|known| known.as_str() == arch));
    if let Some(arch) = goal.arch.filter(|_| !(goal.assumed && known)) {
        labels.insert(names::ARCH.to_owned(), arch.to_owned());
    }
    let ours = |key: &str, present: &str| record.labels.get(key).is_some_and(|recorded| recorded == present);
    for (key, new) in &goal.labels {
        match labels.get(key).map(String::as_str) {
            // A user's value always wins; one that happens to be ours already is not made ours by that.
            Some(present) if !ours(key, present) => {}
            _ => {
                labels.insert(key.clone(), new.clone());
                kept.labels.insert(key.clone(), new.clone());
            }
        }
    }
    for (key, recorded) in &record.labels {
        if !goal.labels.contains_key(key) && labels.get(key) == Some(recorded) && key != names::ARCH {
            labels.remove(key);
        }
    }
    if let Some(text) = list.rewritten(&labels) {
        plan.changes.insert(names::LABELS.to_owned(), Some(text));
    }
}
