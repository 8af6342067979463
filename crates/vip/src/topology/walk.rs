//! Every text of a template, with the way that leads to it.

use serde_json::Value;

use super::pointer::Step;

#[cfg(test)]
thread_local! {
    /// How many texts this thread has seen: work is counted, not timed.
    pub static SEEN: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Calls `see` with each text in a value, once. Pointers are written only for what someone wants to name.
///
/// The depth is bounded by the parser, which refuses what is nested deeper than 128 levels.
pub fn walk<'a>(value: &'a Value, trail: &mut Vec<Step<'a>>, see: &mut impl FnMut(&[Step<'a>], &'a str)) {
    match value {
        Value::String(text) => {
            #[cfg(test)]
            SEEN.set(SEEN.get() + 1);
            see(trail, text);
        }
        Value::Array(list) => {
            for (number, element) in list.iter().enumerate() {
                trail.push(Step::Index(number));
                walk(element, trail, see);
                trail.pop();
            }
        }
        Value::Object(map) => {
            for (key, element) in map {
                trail.push(Step::Key(key));
                walk(element, trail, see);
                trail.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Calls `see` with each text below the spec of a template; the trails begin at the template.
pub fn walk_spec<'a>(spec: &'a Value, see: &mut impl FnMut(&[Step<'a>], &'a str)) {
    walk(spec, &mut vec![Step::Key("spec")], see);
}

/// What lies at the end of a way through objects only.
pub fn lookup<'a, 'b>(value: &'a Value, mut tokens: impl Iterator<Item = &'b str>) -> Option<&'a Value> {
    tokens.try_fold(value, |value, token| value.as_object()?.get(token))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::pointer;
    use super::*;

    #[test]
    fn each_text_is_seen_once_with_its_pointer() {
        let spec = json!({"a/b": ["x", {"~": "y"}, 3, null], "c": {"d": "z"}, "e": true});
        let mut seen = Vec::new();
        walk_spec(&spec, &mut |trail, text| seen.push((pointer::of(trail), text.to_owned())));
        let expected = [("/spec/a~1b/0", "x"), ("/spec/a~1b/1/~0", "y"), ("/spec/c/d", "z")];
        assert_eq!(seen, expected.map(|(pointer, text)| (pointer.to_owned(), text.to_owned())));
    }

    #[test]
    fn a_lookup_goes_through_objects_only() {
        let value = json!({"a": {"b": [1]}});
        assert_eq!(lookup(&value, ["a", "b"].into_iter()), Some(&json!([1])));
        assert_eq!(lookup(&value, ["a", "b", "0"].into_iter()), None);
        assert_eq!(lookup(&value, ["b"].into_iter()), None);
    }
}
