//! The public catalogue: what policies show of every host, bound or not, stands on its HardwareData too, so that an
//! administrator can open those to tenants without opening the hosts.

use std::collections::BTreeMap;

use api::names::claims::CATALOGUE_ANNOTATION;
use api::own::HostMetadata;
use serde_json::{Map, Value, json};

use crate::facts::{HardwareFacts, Texts};

/// The patch that makes the HardwareData show this; `None` when it does.
#[must_use]
pub fn patch(shown: &HostMetadata, hardware: &HardwareFacts) -> Option<Value> {
    let before: Keys = hardware
        .annotations
        .get(CATALOGUE_ANNOTATION)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let (shown_labels, shown_annotations) = (
        free(&shown.labels, &before.labels, &hardware.labels),
        free(&shown.annotations, &before.annotations, &hardware.annotations),
    );
    let keys = |texts: &BTreeMap<String, String>| texts.keys().cloned().collect();
    let after = Keys { labels: keys(&shown_labels), annotations: keys(&shown_annotations) };
    let labels = changes(&shown_labels, &before.labels, &hardware.labels);
    let mut annotations = changes(&shown_annotations, &before.annotations, &hardware.annotations);
    if after != before {
        // What is ours to take away again has to be known even after a restart.
        let record = (after != Keys::default()).then(|| serde_json::to_string(&after).unwrap_or_default());
        annotations.insert(CATALOGUE_ANNOTATION.to_owned(), json!(record));
    }
    if labels.is_empty() && annotations.is_empty() {
        return None;
    }
    Some(json!({"metadata": {"labels": labels, "annotations": annotations}}))
}

/// The keys that we have put on a HardwareData.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
struct Keys {
    labels: Vec<String>,
    annotations: Vec<String>,
}

/// What is shown under keys that are ours or nobody's: what the owner put there stays as it is.
fn free(shown: &BTreeMap<String, String>, ours: &[String], there: &Texts) -> BTreeMap<String, String> {
    let free = shown.iter().filter(|(key, _)| ours.contains(key) || !there.contains_key(key.as_str()));
    free.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn changes(shown: &BTreeMap<String, String>, before: &[String], there: &Texts) -> Map<String, Value> {
    let set = shown.iter().filter(|(key, value)| there.get(key.as_str()).is_none_or(|there| **there != ***value));
    let gone = before.iter().filter(|key| !shown.contains_key(*key) && there.contains_key(key.as_str()));
    set.map(|(key, value)| (key.clone(), json!(value))).chain(gone.map(|key| (key.clone(), Value::Null))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn small(all: &[(&str, &str)]) -> Texts {
        all.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn what_is_shown_is_put_there_once_and_taken_away_again() {
        let shown = HostMetadata { labels: texts(&[("rack", "7")]), annotations: BTreeMap::new() };
        let mut hardware = HardwareFacts { labels: small(&[("own", "x")]), ..HardwareFacts::default() };
        let body = patch(&shown, &hardware).unwrap_or_default();
        assert_eq!(body.pointer("/metadata/labels"), Some(&json!({"rack": "7"})));
        let record =
            body.pointer("/metadata/annotations/berth.dev~1catalogue").and_then(Value::as_str).unwrap_or_default();
        hardware.labels = small(&[("own", "x"), ("rack", "7")]);
        hardware.annotations = small(&[(CATALOGUE_ANNOTATION, record)]);
        assert_eq!(patch(&shown, &hardware), None);
        let body = patch(&HostMetadata::default(), &hardware).unwrap_or_default();
        assert_eq!(body.pointer("/metadata/labels"), Some(&json!({"rack": null})));
        assert_eq!(body.pointer("/metadata/annotations/berth.dev~1catalogue"), Some(&Value::Null));
    }

    #[test]
    fn what_the_owner_put_there_is_neither_written_over_nor_taken_away() {
        let shown = HostMetadata { labels: texts(&[("own", "y")]), annotations: BTreeMap::new() };
        let hardware = HardwareFacts { labels: small(&[("own", "x")]), ..HardwareFacts::default() };
        assert_eq!(patch(&shown, &hardware), None);
    }
}
