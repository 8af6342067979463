//! Putting a value at a place of a template that may not have its parents yet.

use serde_json::{Map, Value, json};

use super::pointer;

/// One operation of a JSON patch.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// `add` or `replace`.
    pub op: &'static str,
    /// Where.
    pub pointer: String,
    /// What.
    pub value: Value,
}

impl Operation {
    /// The operation on the wire.
    pub fn to_json(&self) -> Value {
        json!({"op": self.op, "path": self.pointer, "value": self.value})
    }
}

/// Puts a value at a place and tells the operation that does it; nothing where it is there already.
///
/// Missing parents become objects, in one operation. An element of a list is set, not inserted: inserting would shift the
/// others. A last `-` appends, unless the list has such an element.
///
/// # Errors
/// Says which part of the place cannot be reached.
pub fn put(root: &mut Value, path: &[String], value: Value) -> Result<Option<Operation>, String> {
    let mut here = root;
    let mut at = String::new();
    let mut rest = path;
    while let Some((token, behind)) = rest.split_first() {
        let inside = at.clone();
        pointer::push(&mut at, token);
        rest = behind;
        here = match here {
            Value::Object(map) => {
                if token == "-" {
                    return Err(format!("{inside} is no list"));
                }
                let child = map.entry(token.as_str()).or_insert(Value::Null);
                if behind.is_empty() {
                    return Ok(set(child, "add", at, value));
                }
                if child.is_null() {
                    let made = make(behind, value).map_err(|problem| format!("{at} is missing and {problem}"))?;
                    return Ok(set(child, "add", at, made));
                }
                child
            }
            Value::Array(list) => {
                if token == "-" {
                    if list.contains(&value) {
                        return Ok(None);
                    }
                    list.push(value.clone());
                    return Ok(Some(Operation { op: "add", pointer: at, value }));
                }
                let number = pointer::index(token).ok_or_else(|| format!("{inside} is a list"))?;
                if number == list.len() && behind.is_empty() {
                    list.push(value.clone());
                    return Ok(Some(Operation { op: "add", pointer: at, value }));
                }
                let child = list.get_mut(number).ok_or_else(|| format!("{inside} has no element {number}"))?;
                if behind.is_empty() {
                    return Ok(set(child, "replace", at, value));
                }
                child
            }
            _ => return Err(format!("{inside} is neither an object nor a list")),
        };
    }
    Err("the path is empty".to_owned())
}

fn set(place: &mut Value, op: &'static str, pointer: String, value: Value) -> Option<Operation> {
    if *place == value {
        return None;
    }
    *place = value.clone();
    Some(Operation { op, pointer, value })
}

/// The value with the parents it needs. A number can only mean an element of a list, and of a list that is not there nothing
/// is known.
fn make(path: &[String], value: Value) -> Result<Value, String> {
    path.iter().rev().try_fold(value, |value, token| {
        if token == "-" {
            return Ok(Value::Array(vec![value]));
        }
        if pointer::index(token).is_some() {
            return Err(format!("no list can be made for element {token}"));
        }
        Ok(Value::Object(Map::from_iter([(token.clone(), value)])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(root: &Value, path: &str) -> (Result<Option<Value>, String>, Value) {
        let mut after = root.clone();
        let result = put(&mut after, &pointer::read(path).unwrap(), json!("v"));
        (result.map(|operation| operation.map(|operation| operation.to_json())), after)
    }

    #[test]
    fn a_value_is_put_with_the_parents_it_needs() {
        let root = json!({"a": {"l": ["x"], "n": null, "s": "t", "v": "v", "o": [{"k": 1}]}});
        let op = |op: &str, path: &str, value: Value| json!({"op": op, "path": path, "value": value});
        for (path, expected) in [
            ("/a/new", op("add", "/a/new", json!("v"))),
            ("/a/s", op("add", "/a/s", json!("v"))),
            ("/a/n", op("add", "/a/n", json!("v"))),
            ("/a/x/y/z", op("add", "/a/x", json!({"y": {"z": "v"}}))),
            ("/a/n/y", op("add", "/a/n", json!({"y": "v"}))),
            ("/a/x~1y/-", op("add", "/a/x~1y", json!(["v"]))),
            ("/a/l/-", op("add", "/a/l/-", json!("v"))),
            ("/a/l/0", op("replace", "/a/l/0", json!("v"))),
            ("/a/l/1", op("add", "/a/l/1", json!("v"))),
            ("/a/o/0/m", op("add", "/a/o/0/m", json!("v"))),
        ] {
            let (result, after) = done(&root, path);
            assert_eq!(result, Ok(Some(expected.clone())), "{path}");
            let mut patched = root.clone();
            let patch: json_patch::Patch = serde_json::from_value(json!([expected])).unwrap();
            json_patch::patch(&mut patched, &patch).unwrap();
            assert_eq!(patched, after, "{path}");
            assert_eq!(done(&after, path).0, Ok(None), "{path}");
        }
        assert_eq!(done(&root, "/a/v"), (Ok(None), root.clone()));
    }

    #[test]
    fn a_place_that_cannot_be_reached_is_named() {
        let root = json!({"a": {"l": ["x"], "s": "t", "o": {}}});
        for (path, problem) in [
            ("/a/s/b", "/a/s is neither an object nor a list"),
            ("/a/l/2", "/a/l has no element 2"),
            ("/a/l/1/x", "/a/l has no element 1"),
            ("/a/l/x", "/a/l is a list"),
            ("/a/o/-", "/a/o is no list"),
            ("/a/m/0/x", "/a/m is missing and no list can be made for element 0"),
        ] {
            assert_eq!(done(&root, path).0, Err(problem.to_owned()), "{path}");
        }
    }
}
