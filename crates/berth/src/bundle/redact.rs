//! Takes secrets out of objects. Everything here is a value in, a value out: what is left, and path by path what is not.

use serde_json::{Map, Value};

use super::names::{looks_secret, names_a_key, refers};
use super::text::{self, MARK};

/// The annotation that kubectl keeps a whole copy of an object in.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How deep an object may be; what lies deeper is removed unseen.
const DEEPEST: usize = 64;

/// Something that was removed from an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Where it was, as `spec.users[0].passwd`.
    pub path: String,
    /// Why it was removed.
    pub why: String,
}

/// The object without managed fields and without anything that can be a secret, and what was removed of it.
pub fn object(mut object: Value) -> (Value, Vec<Removed>) {
    let mut redaction = Redaction::default();
    if is_secret(&object) {
        // Nobody asks for these; should one be handed in all the same, only its name comes out.
        let name = |field: &str| object.pointer(&format!("/metadata/{field}")).cloned().unwrap_or(Value::Null);
        let metadata = serde_json::json!({"namespace": name("namespace"), "name": name("name")});
        redaction.tell("Secret: only its name is kept");
        let kept = serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        return (kept, redaction.removed);
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
            && annotations.remove(LAST_APPLIED).is_some()
        {
            redaction.path = vec![".metadata".to_owned(), ".annotations".to_owned(), step(LAST_APPLIED)];
            redaction.tell("a copy of the whole object");
            redaction.path.clear();
        }
    }
    redaction.value(&mut object);
    (object, redaction.removed)
}

fn is_secret(object: &Value) -> bool {
    let field = |name: &str| object.get(name).and_then(Value::as_str);
    field("kind") == Some("Secret") && field("apiVersion").is_none_or(|version| version == "v1")
}

/// How a field is written in a path.
fn step(name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    if plain { format!(".{name}") } else { format!("[{name:?}]") }
}

#[derive(Default)]
struct Redaction {
    path: Vec<String>,
    removed: Vec<Removed>,
}

impl Redaction {
    fn tell(&mut self, why: &str) {
        let path = self.path.concat();
        let path = path.strip_prefix('.').unwrap_or(&path).to_owned();
        self.removed.push(Removed { path, why: why.to_owned() });
    }

    fn remove(&mut self, value: &mut Value, why: &str) {
        self.tell(why);
        *value = Value::String(MARK.to_owned());
    }

    fn at(&mut self, step: String, work: impl FnOnce(&mut Self)) {
        self.path.push(step);
        work(self);
        self.path.pop();
    }

    fn value(&mut self, value: &mut Value) {
        if self.path.len() > DEEPEST {
            return self.remove(value, "too deep to be looked at");
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.text(text),
            Value::Array(items) => self.array(items),
            Value::Object(fields) => self.fields(fields),
        }
    }

    fn array(&mut self, items: &mut [Value]) {
        let mut after: Option<String> = None;
        for (number, item) in items.iter_mut().enumerate() {
            let flag = after.take().filter(|_| item.is_string());
            self.at(format!("[{number}]"), |inner| match flag {
                // `["--password", "x"]`: the arguments of a command, one by one.
                Some(flag) => inner.remove(item, &format!("the value of {flag}")),
                None => inner.value(item),
            });
            after = item.as_str().filter(|text| text.starts_with('-') && looks_secret(text)).and_then(|text| {
                let bare = text.trim_start_matches('-');
                let alone = !bare.is_empty() && bare.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
                alone.then(|| text.to_owned())
            });
        }
    }

    fn fields(&mut self, fields: &mut Map<String, Value>) {
        let names: Vec<String> = fields.keys().cloned().collect();
        // `{name: DB_PASSWORD, value: …}` and `{key: token, value: …}`: the name stands in another field.
        let said = |field: &str| fields.get(field).and_then(Value::as_str).filter(|name| looks_secret(name));
        let named = said("name").or_else(|| said("key")).map(str::to_owned);
        let of_env = self.path.iter().rev().nth(1).is_some_and(|step| step == ".env") && fields.contains_key("name");
        let of_file = fields.contains_key("path");
        for (name, value) in fields.iter_mut() {
            let siblings = names.iter().map(String::as_str).filter(|other| *other != name.as_str());
            let only_named = name == "key" && names_a_key(siblings);
            let why = match (name.as_str(), &named) {
                ("value", _) if of_env => Some("the value of a variable of a container".to_owned()),
                ("value", Some(named)) => Some(format!("the value of {named}")),
                ("content" | "contents" | "inline", _) if of_file => Some("the content of a file".to_owned()),
                (name, _) if looks_secret(name) && !only_named => {
                    Some(format!("the name {name} looks like that of a secret"))
                }
                _ => None,
            };
            // Its fields are names that somebody chose, so that none of them says what it is.
            let opaque = ["binaryData", "stringData"].contains(&name.as_str()) && !value.is_null();
            self.at(step(name), |inner| match why {
                Some(why) if opaque => inner.remove(value, &why),
                Some(why) => inner.suspect(value, &why),
                None => inner.value(value),
            });
        }
    }

    /// Removes what a suspicious field holds, unless it only says where a secret is.
    fn suspect(&mut self, value: &mut Value, why: &str) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::String(text) if text.is_empty() => {}
            Value::Array(items) => {
                for (number, item) in items.iter_mut().enumerate() {
                    self.at(format!("[{number}]"), |inner| inner.suspect(item, why));
                }
            }
            Value::Object(fields) if fields.iter().all(|(name, value)| is_reference(name, value)) => {
                self.fields(fields);
            }
            _ => self.remove(value, why),
        }
    }

    fn text(&mut self, text: &mut String) {
        let inner = text.trim_start();
        if inner.starts_with(['{', '['])
            && let Ok(mut parsed) = serde_json::from_str::<Value>(inner)
        {
            let before = self.removed.len();
            self.at("<json>".to_owned(), |inside| inside.value(&mut parsed));
            if self.removed.len() > before {
                *text = parsed.to_string();
            }
            return;
        }
        let (kept, cuts) = text::scrub(text);
        let several = text.contains('\n');
        for cut in cuts {
            let line = if several { format!(" line {}", cut.line) } else { String::new() };
            self.at(line, |inside| inside.tell(&cut.what));
        }
        *text = kept;
    }
}

/// Whether a field belongs to a reference: it says where something is, and holds no more than names.
fn is_reference(name: &str, value: &Value) -> bool {
    refers(name)
        && match value {
            Value::Object(fields) => fields.iter().all(|(name, value)| is_reference(name, value)),
            Value::Array(items) => items.iter().all(|item| match item {
                Value::Object(fields) => fields.iter().all(|(name, value)| is_reference(name, value)),
                _ => false,
            }),
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const CANARY: &str = "c4n4ry-Hunter2";

    /// What is left; nothing planted is, and each of these paths is told.
    fn gone(value: Value, paths: &[&str]) -> Value {
        let (kept, removed) = object(value);
        assert!(!kept.to_string().contains(CANARY), "{kept:#}");
        let told: Vec<&str> = removed.iter().map(|removed| removed.path.as_str()).collect();
        assert_eq!(told, paths, "{kept:#}");
        assert!(removed.iter().all(|removed| !removed.why.contains(CANARY) && !removed.why.is_empty()));
        kept
    }

    #[test]
    fn managed_fields_and_copies_of_the_object_go() {
        let kept = gone(
            json!({"kind": "HostClaim", "metadata": {"name": "a", "managedFields": [{"manager": CANARY}], "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": format!("{{\"spec\":\"{CANARY}\"}}"), "b": "c"}}}),
            &["metadata.annotations[\"kubectl.kubernetes.io/last-applied-configuration\"]"],
        );
        assert_eq!(kept, json!({"kind": "HostClaim", "metadata": {"name": "a", "annotations": {"b": "c"}}}));
    }

    #[test]
    fn data_for_the_first_boot_goes_and_references_stay() {
        let kept = gone(
            json!({"spec": {"userData": CANARY, "networkData": {"links": [CANARY]}, "files": [
                {"path": "/etc/a", "content": CANARY},
                {"path": "/etc/b", "contentFrom": {"secret": {"name": "files", "key": "b"}}}],
                "preKubeadmCommands": [format!("echo {CANARY}")],
                "users": [{"name": "root", "passwd": CANARY, "sshAuthorizedKeys": [CANARY]}]}}),
            &[
                "spec.files[0].content",
                "spec.networkData",
                "spec.preKubeadmCommands[0]",
                "spec.userData",
                "spec.users[0].passwd",
                "spec.users[0].sshAuthorizedKeys[0]",
            ],
        );
        assert_eq!(kept.pointer("/spec/files/1/contentFrom/secret/key"), Some(&json!("b")));
        let reference = json!({"spec": {"userData": {"name": "ud", "namespace": "team-a"}, "bmc": {
            "address": "redfish://10.0.0.1/redfish/v1", "credentialsName": "bmc-1"}, "secretRef": {"name": "s"}}});
        assert_eq!(object(reference.clone()), (reference, Vec::new()));
    }

    #[test]
    fn variables_and_arguments_of_pods_go() {
        let kept = gone(
            json!({"kind": "Pod", "spec": {"automountServiceAccountToken": true, "imagePullSecrets": [{"name": "pull"}],
                "containers": [{"name": "berth",
                    "args": ["run", format!("--x-token={CANARY}"), "--password", CANARY, "--leader-elect"],
                    "env": [{"name": "HOME", "value": CANARY},
                        {"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}]}],
                "volumes": [{"name": "certs", "secret": {"secretName": "berth-certs", "defaultMode": 420}},
                    {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}}],
                "tolerations": [{"key": "node-role", "operator": "Exists"}]}}),
            &["spec.containers[0].args[1]", "spec.containers[0].args[3]", "spec.containers[0].env[0].value"],
        );
        assert_eq!(kept.pointer("/spec/containers/0/args/4"), Some(&json!("--leader-elect")));
        assert_eq!(kept.pointer("/spec/containers/0/env/1/valueFrom/secretKeyRef/key"), Some(&json!("token")));
        assert_eq!(kept.pointer("/spec/volumes/0/secret/secretName"), Some(&json!("berth-certs")));
        assert_eq!(kept.pointer("/spec/tolerations/0/key"), Some(&json!("node-role")));
    }

    #[test]
    fn names_and_urls_and_documents_inside_of_text_are_looked_at() {
        gone(
            json!({"data": {"config": format!("a: 1\npassword: {CANARY}\n"), "api.token": CANARY},
                "binaryData": {"x": CANARY}, "status": {"message": format!("calling https://u:{CANARY}@h/ failed"),
                "pin": {"key": CANARY}, "number": {"password": 4711}, "pairs": [{"name": "DB_PASSWORD", "value": CANARY}]},
                "metadata": {"annotations": {"a/b": json!({"v": 1, "token": CANARY}).to_string(), "x/token": CANARY}}}),
            &[
                "binaryData",
                "data[\"api.token\"]",
                "data.config line 2",
                "metadata.annotations[\"a/b\"]<json>.token",
                "metadata.annotations[\"x/token\"]",
                "status.message",
                "status.number.password",
                "status.pairs[0].value",
                "status.pin.key",
            ],
        );
    }

    #[test]
    fn of_a_secret_only_the_name_comes_out() {
        let kept = gone(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "a", "name": "b", "labels": {"c": CANARY}},
                "data": {"x": CANARY}}),
            &[""],
        );
        assert_eq!(kept["metadata"], json!({"namespace": "a", "name": "b"}));
    }

    #[test]
    fn what_is_too_deep_is_removed_unseen() {
        let deep = (0..200).fold(json!({"x": CANARY}), |inner, _| json!({"a": inner}));
        let (kept, removed) = object(deep);
        assert!(!kept.to_string().contains(CANARY) && removed.len() == 1);
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ -~]{0,20}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("(name|key|token|value|env|path|[a-z]{1,8})", inner, 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// Plants the canary under a name of a secret at the first object of a tree.
    fn plant(tree: Value, name: &str) -> Value {
        match tree {
            Value::Object(mut fields) => {
                fields.insert(name.to_owned(), json!(CANARY));
                Value::Object(fields)
            }
            Value::Array(mut items) => {
                items.push(json!({name: {"deeper": CANARY}}));
                Value::Array(items)
            }
            other => json!({"other": other, name: [CANARY]}),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn a_planted_secret_never_survives(tree in tree(), name in "(password|adminPasswd|apiKey|userData|x-token|credentials)") {
            let (kept, removed) = object(json!({"kind": "Thing", "spec": plant(tree, &name)}));
            prop_assert!(!kept.to_string().contains(CANARY), "{}", kept);
            prop_assert!(!removed.is_empty());
        }

        #[test]
        fn looking_twice_removes_nothing_more(tree in tree()) {
            let once = object(tree).0;
            prop_assert_eq!(object(once.clone()).0, once);
        }
    }
}
