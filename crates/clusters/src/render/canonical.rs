//! When two objects mean the same: what is empty equals what is absent, and some lists are sets.

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Map, Value};

/// The one form of everything that means the same.
///
/// Without null, "", 0 and empty lists and maps; entries with a name, taints and ids of affinity groups in one order.
#[must_use]
pub fn canonical(value: &Value) -> Value {
    form("", value).unwrap_or(Value::Null)
}

/// Whether two values mean the same.
#[must_use]
pub fn same(one: &Value, other: &Value) -> bool {
    canonical(one) == canonical(other)
}

/// Hexadecimal digits that stand for what a value means.
#[must_use]
pub fn hash(value: &Value, digits: usize) -> String {
    let text = text(&canonical(value));
    let digest = digest(&SHA256, text.as_bytes());
    let all: String = digest.as_ref().iter().take(digits.div_ceil(2)).map(|byte| format!("{byte:02x}")).collect();
    all.chars().take(digits).collect()
}

/// JSON with its keys in order, whatever the order of the map.
fn text(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), text(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

fn form(field: &str, value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        // An affinity that is not given is none.
        Value::String(word) if word.is_empty() || (field == "affinity" && word == "no") => None,
        Value::Number(number) if number.as_f64() == Some(0.0) => None,
        Value::Array(items) => {
            // An item that is empty keeps its place: the list without it is another one.
            let mut items: Vec<Value> = items.iter().map(|item| form("", item).unwrap_or(Value::Null)).collect();
            if is_set(field, &items) {
                items.sort_by_cached_key(text);
            }
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::Object(fields) => {
            let held = fields.iter().filter_map(|(name, value)| Some((name.clone(), form(name, value)?)));
            let held: Map<String, Value> = held.collect();
            (!held.is_empty()).then_some(Value::Object(held))
        }
        other => Some(other.clone()),
    }
}

fn is_set(field: &str, items: &[Value]) -> bool {
    let all = |keys: &[&str]| {
        !items.is_empty()
            && items.iter().all(|item| keys.iter().all(|key| item.get(*key).is_some_and(Value::is_string)))
    };
    matches!(field, "affinityGroupIDs" | "certSANs") || all(&["name"]) || all(&["key", "effect"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_is_empty_is_absent_in_both_directions() {
        let full = json!({"a": 1, "b": "", "c": 0, "d": [], "e": {}, "f": null, "g": {"h": {"i": ""}}});
        assert!(same(&full, &json!({"a": 1})) && same(&json!({"a": 1}), &full));
        assert!(!same(&json!({"a": 1, "b": "x"}), &json!({"a": 1})), "a field that is removed is a change");
        assert!(!same(&json!({"a": false}), &json!({})));
    }

    #[test]
    fn arguments_taints_and_ids_are_sets_and_other_lists_are_not() {
        let pairs = [
            (
                json!({"x": [{"name": "a", "value": "1"}, {"name": "b"}]}),
                json!({"x": [{"name": "b"}, {"name": "a", "value": "1"}]}),
                true,
            ),
            (
                json!({"t": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]}),
                json!({"t": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}]}),
                true,
            ),
            (json!({"affinityGroupIDs": ["b", "a"]}), json!({"affinityGroupIDs": ["a", "b"]}), true),
            (json!({"commands": ["b", "a"]}), json!({"commands": ["a", "b"]}), false),
            (json!({"x": [{"name": "a", "value": "1"}]}), json!({"x": [{"name": "a", "value": "2"}]}), false),
            (json!({"affinity": "no"}), json!({}), true),
            (json!({"affinity": "anti"}), json!({}), false),
            (json!({"label": "no"}), json!({}), false),
        ];
        for (one, other, wanted) in pairs {
            assert_eq!(same(&one, &other), wanted, "{one} {other}");
            assert_eq!(hash(&one, 16) == hash(&other, 16), wanted, "{one} {other}");
        }
    }

    /// Names of templates must never change by themselves: `printf '{"a":{"b":"c"},"d":[1,true]}' | sha256sum`.
    #[test]
    fn the_hash_is_fixed_for_ever() {
        let value = json!({"d": [1, true], "a": {"b": "c", "z": ""}});
        assert_eq!(hash(&value, 8), "ecd79384");
        assert!(hash(&value, 16).starts_with(&hash(&value, 8)));
    }

    proptest! {
        #[test]
        fn the_order_of_maps_means_nothing(pairs in proptest::collection::btree_map("[a-e]{1,3}", "[a-c]{0,2}", 0..8)) {
            let forward: Map<String, Value> = pairs.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
            let backward: Map<String, Value> = pairs.iter().rev().map(|(k, v)| (k.clone(), json!(v))).collect();
            let (one, other) = (Value::Object(forward), Value::Object(backward));
            prop_assert_eq!(hash(&one, 64), hash(&other, 64));
            prop_assert_eq!(canonical(&canonical(&one)), canonical(&one));
        }
    }
}
