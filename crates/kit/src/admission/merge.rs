//! From a change of a typed view to the smallest patch of the object it is a view of.

use json_patch::Patch;
use serde_json::Value;

/// The patch that makes on `raw` the changes that lead from `before` to `after`.
///
/// A typed view leaves out what it does not know and may write out what the object leaves out (an empty list). So the
/// changes are first carried over to the object itself, and then the object is compared with itself: unknown fields
/// survive, and no patch refers to a parent that is only there in the view.
pub(super) fn patch(raw: &Value, before: &Value, after: &Value) -> Patch {
    let mut changed = raw.clone();
    carry(&mut changed, before, after);
    json_patch::diff(raw, &changed)
}

fn carry(target: &mut Value, before: &Value, after: &Value) {
    if before == after {
        return;
    }
    match (target, before, after) {
        (Value::Object(target), Value::Object(before), Value::Object(after)) => {
            for (key, new) in after {
                let old = before.get(key);
                if old == Some(new) {
                    continue;
                }
                match (target.get_mut(key), old) {
                    (Some(inner), Some(old)) => carry(inner, old, new),
                    _ => {
                        target.insert(key.clone(), new.clone());
                    }
                }
            }
            for key in before.keys().filter(|key| !after.contains_key(*key)) {
                target.remove(key);
            }
        }
        // Items keep their unknown fields as long as they keep their places.
        (Value::Array(target), Value::Array(before), Value::Array(after))
            if target.len() == before.len() && after.len() >= before.len() =>
        {
            for ((item, old), new) in target.iter_mut().zip(before).zip(after) {
                carry(item, old, new);
            }
            target.extend(after.iter().skip(before.len()).cloned());
        }
        (target, _, after) => *target = after.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_survive_and_missing_parents_are_made() {
        let raw = json!({"spec": {"known": 1, "unknown": {"a": 1}, "items": [{"n": "x", "odd": true}]}});
        let before = json!({"spec": {"known": 1, "labels": {}, "items": [{"n": "x"}]}});
        let after = json!({"spec": {"known": 2, "labels": {"k": "v"}, "items": [{"n": "x", "d": 1}, {"n": "y"}]}});
        let mut result = raw.clone();
        json_patch::patch(&mut result, &patch(&raw, &before, &after)).unwrap();
        assert_eq!(
            result,
            json!({"spec": {"known": 2, "unknown": {"a": 1}, "labels": {"k": "v"},
                "items": [{"n": "x", "d": 1, "odd": true}, {"n": "y"}]}})
        );
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(null)), any::<bool>().prop_map(Value::from), (0..9i64).prop_map(Value::from)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-d/~]{0,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn a_view_of_everything_gives_exactly_the_change(before in values(), after in values()) {
            let patch = patch(&before, &before, &after);
            let mut result = before.clone();
            json_patch::patch(&mut result, &patch).unwrap();
            prop_assert_eq!(&result, &after);
            prop_assert_eq!(patch.0.is_empty(), before == after);
        }

        #[test]
        fn every_patch_applies_to_the_object_it_was_made_for(raw in values(), before in values(), after in values()) {
            let mut result = raw.clone();
            prop_assert!(json_patch::patch(&mut result, &patch(&raw, &before, &after)).is_ok());
        }
    }
}
