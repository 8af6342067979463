//! Who asked a real server for what: its record of requests, one JSON line each.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Plane, PlaneError};

/// One line of the record.
#[derive(Clone, Debug)]
pub struct Request {
    /// The program, as it calls itself.
    pub agent: String,
    /// The user it speaks for.
    pub user: String,
    /// The verb, as rules spell it.
    pub verb: String,
    /// The API group, empty for the core group.
    pub group: String,
    /// The resource with the subresource, as rules spell it.
    pub resource: String,
    /// The namespace, empty for what has none.
    pub namespace: String,
    /// The name, empty for lists, watches and creations.
    pub name: String,
    /// The status code of the answer.
    pub code: u64,
}

impl Request {
    fn of(line: &Value) -> Self {
        let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let part = text("/objectRef/subresource");
        let resource = text("/objectRef/resource");
        Self {
            agent: text("/userAgent"),
            user: text("/user/username"),
            verb: text("/verb"),
            group: text("/objectRef/apiGroup"),
            resource: if part.is_empty() { resource } else { format!("{resource}/{part}") },
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            code: line.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
        }
    }

    /// Whether it was to change something.
    #[must_use]
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether the server refused it for want of rights.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.code, 401 | 403)
    }
}

impl Plane {
    /// Where the record of requests ends now.
    pub fn audit_mark(&self) -> Result<usize, PlaneError> {
        self.audit().map(|text| text.len())
    }

    /// Every request since `mark`; fails where the server keeps no record.
    pub fn requests_since(&self, mark: usize) -> Result<Vec<Request>, PlaneError> {
        let text = self.audit()?;
        let lines = text.get(mark..).unwrap_or_default().lines();
        // The last line may still be in the making.
        Ok(lines.filter_map(|line| serde_json::from_str(line).ok()).map(|line: Value| Request::of(&line)).collect())
    }

    fn audit(&self) -> Result<String, PlaneError> {
        let Some(log) = &self.options.audit_log else {
            let why = "the server was started without one".to_owned();
            return Err(PlaneError::Bad { doing: "reading the record of requests".to_owned(), why });
        };
        let path = self.dir.join(log);
        std::fs::read_to_string(&path).map_err(PlaneError::io(format!("reading {}", path.display())))
    }
}

/// What a list of rules grants and none of these requests used, as `verb resource.group`.
#[must_use]
pub fn unused(rules: &Value, requests: &[Request]) -> Vec<String> {
    let strings = |rule: &Value, field: &str| -> Vec<String> {
        let all = rule.get(field).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let used: BTreeSet<(&str, &str, &str)> =
        requests.iter().map(|r| (r.verb.as_str(), r.group.as_str(), r.resource.as_str())).collect();
    let mut unused = Vec::new();
    for rule in rules.as_array().into_iter().flatten() {
        for group in strings(rule, "apiGroups") {
            for resource in strings(rule, "resources") {
                for verb in strings(rule, "verbs") {
                    if !used.contains(&(verb.as_str(), group.as_str(), resource.as_str())) {
                        unused.push(format!("{verb} {resource}.{group}"));
                    }
                }
            }
        }
    }
    unused
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_right_counts_as_used_only_by_its_own_verb_group_and_resource() {
        let line = json!({"verb": "patch", "userAgent": "berth/1", "user": {"username": "u"},
            "objectRef": {"apiGroup": "g", "resource": "r", "subresource": "status", "namespace": "n", "name": "o"},
            "responseStatus": {"code": 403}});
        let request = Request::of(&line);
        assert!(request.writes() && request.is_refused());
        assert_eq!((request.resource.as_str(), request.namespace.as_str()), ("r/status", "n"));
        let rules = json!([{"apiGroups": ["g"], "resources": ["r", "r/status"], "verbs": ["patch", "get"]}]);
        assert_eq!(unused(&rules, &[request]), ["patch r.g", "get r.g", "get r/status.g"]);
    }
}
