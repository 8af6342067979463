//! Sets of fields in the `fieldsV1` format, and how two objects differ as such sets.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// A set of field paths as a tree; the keys are `fieldsV1` path elements (`f:`, `k:`, `v:`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    pub(crate) member: bool,
    pub(crate) children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    pub(crate) fn leaf() -> Self {
        Self { member: true, children: BTreeMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    fn put(&mut self, element: String, child: FieldSet) {
        if !child.is_empty() {
            self.children.insert(element, child);
        }
    }

    pub(crate) fn encode(&self) -> Value {
        let mut map = Map::new();
        if self.member && !self.children.is_empty() {
            map.insert(".".into(), json!({}));
        }
        for (element, child) in &self.children {
            map.insert(element.clone(), child.encode());
        }
        Value::Object(map)
    }

    pub(crate) fn decode(value: &Value) -> Self {
        fn node(value: &Value) -> FieldSet {
            let Some(map) = value.as_object() else {
                return FieldSet::leaf();
            };
            let mut set = FieldSet { member: map.is_empty() || map.contains_key("."), children: BTreeMap::new() };
            for (element, child) in map.iter().filter(|(e, _)| *e != ".") {
                set.children.insert(element.clone(), node(child));
            }
            set
        }
        let mut root = node(value);
        root.member = false;
        root
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.member |= other.member;
        for (element, child) in &other.children {
            let merged = out.children.get(element).map_or_else(|| child.clone(), |c| c.union(child));
            out.children.insert(element.clone(), merged);
        }
        out
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut out = Self { member: self.member && other.member, children: BTreeMap::new() };
        for (element, child) in &self.children {
            if let Some(twin) = other.children.get(element) {
                out.put(element.clone(), child.intersection(twin));
            }
        }
        out
    }

    pub(crate) fn difference(&self, other: &Self) -> Self {
        let mut out = Self { member: self.member && !other.member, children: BTreeMap::new() };
        for (element, child) in &self.children {
            match other.children.get(element) {
                Some(twin) => out.put(element.clone(), child.difference(twin)),
                None => out.put(element.clone(), child.clone()),
            }
        }
        out
    }

    pub(crate) fn without(&self, path: &[&str]) -> Self {
        let mut out = self.clone();
        match path {
            [] => {}
            [last] => {
                out.children.remove(*last);
            }
            [first, rest @ ..] => {
                if let Some(child) = out.children.remove(*first) {
                    out.put((*first).to_owned(), child.without(rest));
                }
            }
        }
        out
    }

    pub(crate) fn only(&self, element: &str) -> Self {
        let mut out = Self::default();
        if let Some(child) = self.children.get(element) {
            out.put(element.to_owned(), child.clone());
        }
        out
    }

    /// The member paths in the form conflict messages use, e.g. `.spec.a`.
    pub(crate) fn paths(&self) -> Vec<String> {
        fn walk(set: &FieldSet, prefix: &str, out: &mut Vec<String>) {
            if set.member {
                out.push(prefix.to_owned());
            }
            for (element, child) in &set.children {
                let step = match element.split_once(':') {
                    Some(("f", name)) => format!(".{name}"),
                    Some(("k", keys)) => format!("[{}]", spelled_keys(keys)),
                    Some((_, value)) => format!("[={value}]"),
                    None => element.clone(),
                };
                walk(child, &format!("{prefix}{step}"), out);
            }
        }
        let mut out = Vec::new();
        walk(self, "", &mut out);
        out
    }
}

fn spelled_keys(keys: &str) -> String {
    let parsed: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
    parsed.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",")
}

/// How a list is merged.
pub(crate) enum ListShape {
    Atomic,
    Set,
    Map(Vec<String>),
}

/// A place in a structural schema; `None` inside means "undeclared": maps by key, lists whole.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a>(pub(crate) Option<&'a Value>);

impl<'a> Shape<'a> {
    fn get(self, key: &str) -> Option<&'a Value> {
        self.0.and_then(|s| s.get(key))
    }

    pub(crate) fn declares(self, key: &str) -> bool {
        self.get("properties").is_some_and(|p| p.get(key).is_some())
    }

    pub(crate) fn field(self, key: &str) -> Shape<'a> {
        let declared = self.get("properties").and_then(|p| p.get(key));
        Shape(declared.or_else(|| self.get("additionalProperties").filter(|v| v.is_object())))
    }

    pub(crate) fn items(self) -> Shape<'a> {
        Shape(self.get("items"))
    }

    pub(crate) fn atomic_map(self) -> bool {
        self.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic")
    }

    pub(crate) fn list(self) -> ListShape {
        match self.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => ListShape::Set,
            Some("map") => ListShape::Map(
                self.get("x-kubernetes-list-map-keys")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(|k| k.as_str().map(String::from))
                    .collect(),
            ),
            _ => ListShape::Atomic,
        }
    }

    /// The items of a mergeable list by path element, in order; `None` for an atomic list.
    pub(crate) fn elements(self, list: &[Value]) -> Option<Vec<(String, &Value)>> {
        match self.list() {
            ListShape::Atomic => None,
            ListShape::Set => Some(list.iter().map(|v| (format!("v:{v}"), v)).collect()),
            ListShape::Map(keys) => Some(list.iter().map(|v| (key_element(v, &keys, self.items()), v)).collect()),
        }
    }
}

fn key_element(item: &Value, keys: &[String], shape: Shape<'_>) -> String {
    let mut named = Map::new();
    for key in keys {
        let value = item.get(key).cloned().or_else(|| shape.field(key).get("default").cloned()).unwrap_or(Value::Null);
        named.insert(key.clone(), value);
    }
    format!("k:{}", Value::Object(named))
}

/// The set of fields an applied configuration names.
pub(crate) fn set_of(value: &Value, shape: Shape<'_>) -> FieldSet {
    match value {
        Value::Object(map) if !shape.atomic_map() => {
            let mut set = FieldSet::default();
            for (key, child) in map {
                let mut sub = set_of(child, shape.field(key));
                let empty = child.is_null() || child.as_object().is_some_and(Map::is_empty);
                if empty || !shape.declares(key) {
                    sub.member = true;
                }
                set.put(format!("f:{key}"), sub);
            }
            set
        }
        Value::Array(list) => match shape.elements(list) {
            None => FieldSet::leaf(),
            Some(elements) => {
                let mut set = FieldSet::default();
                for (element, item) in elements {
                    let mut sub = set_of(item, shape.items());
                    sub.member = true;
                    set.put(element, sub);
                }
                set
            }
        },
        _ => FieldSet::leaf(),
    }
}

/// What changed between two values.
#[derive(Default)]
pub(crate) struct Difference {
    /// Added or modified.
    pub(crate) changed: FieldSet,
    pub(crate) removed: FieldSet,
}

/// Compares two values by the schema's granularity.
pub(crate) fn compare(old: Option<&Value>, new: Option<&Value>, shape: Shape<'_>) -> Difference {
    let mut out = Difference::default();
    let pair = match (old, new) {
        (Some(a), Some(b)) if a == b => return out,
        (None, None) => return out,
        (Some(Value::Object(a)), Some(Value::Object(b))) if !shape.atomic_map() => Some((Some(a), Some(b))),
        (None, Some(Value::Object(b))) if !shape.atomic_map() => Some((None, Some(b))),
        (Some(Value::Object(a)), None) if !shape.atomic_map() => Some((Some(a), None)),
        _ => None,
    };
    if let Some((a, b)) = pair {
        let keys: BTreeSet<&String> = a.into_iter().chain(b).flat_map(Map::keys).collect();
        for key in keys {
            let sub = compare(a.and_then(|m| m.get(key)), b.and_then(|m| m.get(key)), shape.field(key));
            out.changed.put(format!("f:{key}"), sub.changed);
            out.removed.put(format!("f:{key}"), sub.removed);
        }
        out.changed.member |= a.is_none();
        out.removed.member |= b.is_none();
        return out;
    }
    let lists = match (old, new) {
        (Some(Value::Array(a)), Some(Value::Array(b))) => shape.elements(a).zip(shape.elements(b)),
        (None, Some(Value::Array(b))) => Some(Vec::new()).zip(shape.elements(b)),
        (Some(Value::Array(a)), None) => shape.elements(a).zip(Some(Vec::new())),
        _ => None,
    };
    if let Some((a, b)) = lists {
        let a: BTreeMap<String, &Value> = a.into_iter().collect();
        let b: BTreeMap<String, &Value> = b.into_iter().collect();
        let elements: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for element in elements {
            let sub = compare(a.get(element).copied(), b.get(element).copied(), shape.items());
            out.changed.put(element.clone(), sub.changed);
            out.removed.put(element.clone(), sub.removed);
        }
        out.changed.member |= old.is_none();
        out.removed.member |= new.is_none();
        return out;
    }
    if new.is_none() {
        out.removed.member = true;
    } else {
        out.changed.member = true;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sets() -> impl Strategy<Value = FieldSet> {
        let leaf = Just(FieldSet::leaf()).boxed();
        leaf.prop_recursive(4, 24, 4, |inner| {
            (any::<bool>(), prop::collection::btree_map("f:[a-d]|v:\"[a-c]\"", inner, 1..4))
                .prop_map(|(member, children)| FieldSet { member, children })
        })
        .prop_map(|mut set| {
            set.member = false;
            set
        })
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..4i64).prop_map(Value::from),
            "[a-c]".prop_map(Value::from)
        ];
        let tree = leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::btree_map("[a-d]", inner.clone(), 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
                prop::collection::vec(inner, 0..3).prop_map(Value::Array),
            ]
        });
        prop::collection::btree_map("[a-d]", tree, 0..4).prop_map(|m| Value::Object(m.into_iter().collect()))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn a_set_survives_its_encoding(set in sets()) {
            prop_assert_eq!(FieldSet::decode(&set.encode()), set);
        }

        #[test]
        fn difference_and_intersection_split_a_set(a in sets(), b in sets()) {
            let (common, only) = (a.intersection(&b), a.difference(&b));
            prop_assert_eq!(common.union(&only), a.clone());
            prop_assert!(common.intersection(&only).is_empty());
            prop_assert_eq!(a.union(&b).difference(&b), only);
        }

        #[test]
        fn a_value_does_not_differ_from_itself_and_adding_it_names_all_its_fields(value in values()) {
            let same = compare(Some(&value), Some(&value), Shape(None));
            prop_assert!(same.changed.is_empty() && same.removed.is_empty());
            let added = compare(Some(&json!({})), Some(&value), Shape(None));
            prop_assert!(added.removed.is_empty());
            prop_assert!(set_of(&value, Shape(None)).difference(&added.changed).is_empty());
        }
    }
}
