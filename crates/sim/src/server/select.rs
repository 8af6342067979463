//! Label and field selectors.

use serde_json::Value;

use super::{kinds::Kind, status::Failure};

#[derive(Clone, Debug)]
enum Need {
    Is(Vec<String>),
    IsNot(Vec<String>),
    Exists,
    Absent,
}

/// A parsed pair of label and field selector.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<(String, Need)>,
    fields: Vec<(String, bool, String)>,
}

impl Selector {
    pub(crate) fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Failure> {
        Ok(Self { labels: parse_labels(labels)?, fields: parse_fields(kind, fields)? })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        self.labels.iter().all(|(key, need)| {
            let value = labels.and_then(|l| l.get(key)).and_then(Value::as_str);
            match need {
                Need::Is(any) => value.is_some_and(|v| any.iter().any(|a| a == v)),
                Need::IsNot(none) => !value.is_some_and(|v| none.iter().any(|a| a == v)),
                Need::Exists => value.is_some(),
                Need::Absent => value.is_none(),
            }
        }) && self.fields.iter().all(|(path, equal, wanted)| {
            let mut at = Some(object);
            for part in path.split('.') {
                at = at.and_then(|v| v.get(part));
            }
            let text = match at {
                Some(Value::String(s)) => s.clone(),
                Some(Value::Null) | None => String::new(),
                Some(other) => other.to_string(),
            };
            (text == *wanted) == *equal
        })
    }
}

fn parse_labels(text: &str) -> Result<Vec<(String, Need)>, Failure> {
    let bad =
        |part: &str| Failure::bad_request(format!("unable to parse requirement: {part:?} in label selector {text:?}"));
    let mut out = Vec::new();
    for part in split_outside_parens(text) {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        let words: Vec<&str> = part.splitn(2, char::is_whitespace).map(str::trim).collect();
        if let [key, rest] = words.as_slice()
            && let Some((listed, negate)) =
                rest.strip_prefix("notin").map(|r| (r, true)).or_else(|| rest.strip_prefix("in").map(|r| (r, false)))
            && let Some(inner) = listed.trim().strip_prefix('(').and_then(|r| r.strip_suffix(')'))
        {
            let values = inner.split(',').map(|v| v.trim().to_owned()).collect();
            let need = if negate { Need::IsNot(values) } else { Need::Is(values) };
            out.push(((*key).to_owned(), need));
        } else if let Some((key, value)) = part.split_once("!=") {
            out.push((key.trim().to_owned(), Need::IsNot(vec![value.trim().to_owned()])));
        } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            out.push((key.trim().to_owned(), Need::Is(vec![value.trim().to_owned()])));
        } else if let Some(key) = part.strip_prefix('!') {
            out.push((key.trim().to_owned(), Need::Absent));
        } else if part.contains(|c: char| c.is_whitespace() || "()<>".contains(c)) {
            return Err(bad(part));
        } else {
            out.push((part.to_owned(), Need::Exists));
        }
    }
    for (key, need) in &out {
        let fine = |s: &str| s.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        let values_fine = match need {
            Need::Is(v) | Need::IsNot(v) => v.iter().all(|s| fine(s)),
            _ => true,
        };
        if key.is_empty() || !fine(key) || !values_fine {
            return Err(bad(key));
        }
    }
    Ok(out)
}

fn split_outside_parens(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out) = (0i32, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                out.extend(text.get(start..i));
                start = i + 1;
            }
            _ => {}
        }
    }
    out.extend(text.get(start..));
    out
}

fn parse_fields(kind: &Kind, text: &str) -> Result<Vec<(String, bool, String)>, Failure> {
    let mut out = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (path, equal, value) = if let Some((path, value)) = part.split_once("!=") {
            (path, false, value)
        } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (path, true, value)
        } else {
            return Err(Failure::bad_request(format!("invalid selector: {part:?}; can't understand {part:?}")));
        };
        let builtin = path == "metadata.name" || (path == "metadata.namespace" && kind.namespaced);
        if !builtin && !kind.selectable.iter().any(|s| s == path) {
            return Err(Failure::bad_request(format!("field label not supported: {path}")));
        }
        out.push((path.to_owned(), equal, value.to_owned()));
    }
    Ok(out)
}
