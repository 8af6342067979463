//! The settled world, without what may differ between two good runs.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::server::Server;

/// All objects except events and leases, without versions, uids, times and bookkeeping of managers; a status
/// that speaks about the current generation says `current`.
#[must_use]
pub fn picture(server: &Server) -> Value {
    let mut out = Map::new();
    for (key, object) in server.objects() {
        if key.resource.starts_with("events") || key.resource.starts_with("leases") {
            continue;
        }
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
        out.insert(format!("{} {}/{}", key.resource, key.namespace, key.name), plain(&object, generation));
    }
    Value::Object(out)
}

fn plain(value: &Value, generation: Option<i64>) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "resourceVersion" | "uid" | "managedFields" | "generation"))
            .map(|(key, value)| {
                let shown = match (key.as_str(), value.as_i64(), generation) {
                    ("observedGeneration", Some(seen), Some(now)) if seen == now => json!("current"),
                    ("observedGeneration", Some(_), Some(_)) => json!("outdated"),
                    _ => plain(value, generation),
                };
                (key.clone(), shown)
            })
            .collect(),
        Value::Array(list) => list.iter().map(|v| plain(v, generation)).collect(),
        Value::String(text) if text.len() >= 20 && text.parse::<Timestamp>().is_ok() => json!("<time>"),
        other => other.clone(),
    }
}

/// The first places where two pictures differ; `None` when they are the same.
pub(crate) fn difference(wanted: &Value, got: &Value) -> Option<String> {
    let mut out = Vec::new();
    walk(wanted, got, "", &mut out);
    if out.is_empty() {
        return None;
    }
    let more = out.len().saturating_sub(4);
    out.truncate(4);
    if more > 0 {
        out.push(format!("and {more} more"));
    }
    Some(out.join("; "))
}

fn walk(wanted: &Value, got: &Value, at: &str, out: &mut Vec<String>) {
    match (wanted, got) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                match b.get(key) {
                    Some(other) => walk(value, other, &format!("{at}.{key}"), out),
                    None => out.push(format!("{at}.{key} is missing")),
                }
            }
            for (key, value) in b.iter().filter(|(k, _)| !a.contains_key(*k)) {
                out.push(format!("{at}.{key} is too much: {value}"));
            }
        }
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{at} is {b}, not {a}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_difference_names_the_place() {
        let found = super::difference(&json!({ "a": { "b": 1 }, "c": 2 }), &json!({ "a": { "b": 3 }, "d": 4 }));
        assert_eq!(found.as_deref(), Some(".a.b is 3, not 1; .c is missing; .d is too much: 4"));
        assert_eq!(super::difference(&json!([1]), &json!([1])), None);
    }

    #[test]
    fn times_versions_and_uids_do_not_count() {
        let object = json!({
            "metadata": { "uid": "u", "resourceVersion": "7", "name": "n", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "status": { "observedGeneration": 3 },
        });
        let shown = super::plain(&object, Some(3));
        assert_eq!(
            shown,
            json!({ "metadata": { "name": "n", "creationTimestamp": "<time>" }, "status": { "observedGeneration": "current" } })
        );
    }
}
