//! What a change does: which objects are written, and which machines are replaced and why.
//!
//! The control plane is replaced when its version, its configuration of kubeadm or its template of machines changes, a group
//! when its version, its templates or its zone changes. Numbers, annotations and ways of replacing replace nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::render::canonical::canonical;
use crate::render::{Group, Rendered};

/// Machines that are made and replaced together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The control plane.
    ControlPlane,
    /// A group of workers, by its name.
    Group(String),
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Where it is.
    pub path: String,
    /// What it was; absent when it is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// What it is; absent when it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// What a change does to the machines of a role.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleChange {
    /// The machines.
    pub role: Role,
    /// What happens to them.
    pub effect: Effect,
    /// Why they are replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<Cause>,
    /// How many there were, when that is known and changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas_before: Option<i64>,
    /// How many there are to be; absent when cluster-autoscaler says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

/// What happens to the machines of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// They are made.
    Create,
    /// They are replaced one after the other.
    Roll,
    /// Some are added or removed.
    Scale,
    /// They are removed.
    Remove,
    /// They stay as they are.
    Keep,
}

/// Why machines are replaced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// The kind of the object that differs.
    pub kind: String,
    /// What differs in it.
    #[serde(flatten)]
    pub difference: Difference,
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is removed, a template once nobody refers to it.
    Delete,
    /// It stays as it is.
    Keep,
}

/// What happens to one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectChange {
    /// What happens.
    pub action: Action,
    /// The kind of the object.
    pub kind: String,
    /// The name of the object.
    pub name: String,
}

/// What happens to each object: those that are wanted in the order they are written, then those that go.
#[must_use]
pub fn objects(old: Option<&Rendered>, new: &Rendered) -> Vec<ObjectChange> {
    let key = |object: &Value| (text(object, "/kind"), text(object, "/metadata/name"));
    let before: BTreeMap<_, &Value> =
        old.into_iter().flat_map(Rendered::objects).map(|object| (key(object), object)).collect();
    let wanted = new.objects();
    let names: BTreeSet<_> = wanted.iter().map(|object| key(object)).collect();
    let mut all: Vec<ObjectChange> = wanted
        .iter()
        .map(|object| {
            let (kind, name) = key(object);
            let action = match before.get(&(kind.clone(), name.clone())) {
                None => Action::Create,
                Some(old) if canonical(old) == canonical(object) && usual_taint(old, object).is_none() => Action::Keep,
                Some(_) => Action::Update,
            };
            ObjectChange { action, kind, name }
        })
        .collect();
    let gone = before.into_keys().filter(|key| !names.contains(key));
    all.extend(gone.map(|(kind, name)| ObjectChange { action: Action::Delete, kind, name }));
    all
}

/// What happens to the machines of each role: the control plane, the groups in their order, then those that go.
#[must_use]
pub fn roles(old: Option<&Rendered>, new: &Rendered) -> Vec<RoleChange> {
    let before = |name: &str| old.and_then(|old| old.groups.iter().find(|group| group.name == name));
    let mut all = vec![match old {
        None => change(Role::ControlPlane, None, Vec::new(), &new.control_plane),
        Some(old) => change(Role::ControlPlane, Some(&old.control_plane), plane_causes(old, new), &new.control_plane),
    }];
    for group in &new.groups {
        let role = Role::Group(group.name.clone());
        all.push(match before(&group.name) {
            None => change(role, None, Vec::new(), &group.deployment),
            Some(old) => change(role, Some(&old.deployment), group_causes(old, group), &group.deployment),
        });
    }
    let kept: BTreeSet<&str> = new.groups.iter().map(|group| group.name.as_str()).collect();
    let gone = old.into_iter().flat_map(|old| &old.groups).filter(|group| !kept.contains(group.name.as_str()));
    all.extend(gone.map(|group| RoleChange {
        role: Role::Group(group.name.clone()),
        effect: Effect::Remove,
        because: Vec::new(),
        replicas_before: replicas(&group.deployment),
        replicas: None,
    }));
    all
}

/// What happens to the machines of a role, from who asks for them before and after and why they are replaced.
pub(crate) fn change(role: Role, old: Option<&Value>, because: Vec<Cause>, new: &Value) -> RoleChange {
    let (before, after) = (old.and_then(replicas), replicas(new));
    let effect = if old.is_none() {
        Effect::Create
    } else if !because.is_empty() {
        Effect::Roll
    } else if after.is_some() && before != after {
        Effect::Scale
    } else {
        Effect::Keep
    };
    RoleChange {
        role,
        effect,
        because,
        replicas_before: before.filter(|before| Some(*before) != after),
        replicas: after,
    }
}

fn replicas(object: &Value) -> Option<i64> {
    object.pointer("/spec/replicas")?.as_i64()
}

fn plane_causes(old: &Rendered, new: &Rendered) -> Vec<Cause> {
    let mut causes =
        part("KubeadmControlPlane", "spec.version", "/spec/version", &old.control_plane, &new.control_plane);
    let (kubeadm, at) = ("spec.kubeadmConfigSpec", "/spec/kubeadmConfigSpec");
    causes.extend(part("KubeadmControlPlane", kubeadm, at, &old.control_plane, &new.control_plane));
    let taint = usual_taint(&old.control_plane, &new.control_plane);
    causes.extend(taint.map(|difference| Cause { kind: "KubeadmControlPlane".to_owned(), difference }));
    causes.extend(template("CloudStackMachineTemplate", &old.control_plane_template, &new.control_plane_template));
    causes
}

/// Whether a control plane gets or loses the taint that kubeadm gives to its nodes by itself: an empty list of taints means
/// none, and no list means the usual one. Everywhere else what is empty means what is absent.
fn usual_taint(old: &Value, new: &Value) -> Option<Difference> {
    let at = "/spec/kubeadmConfigSpec/initConfiguration/nodeRegistration/taints";
    let (old, new) = (old.pointer(at), new.pointer(at));
    let none = |taints: &Value| taints.as_array().is_some_and(Vec::is_empty);
    let differs = old != new && [old, new].into_iter().flatten().all(none);
    let path = at.trim_start_matches('/').replace('/', ".");
    differs.then(|| Difference { path, old: old.cloned(), new: new.cloned() })
}

fn group_causes(old: &Group, new: &Group) -> Vec<Cause> {
    let kind = "MachineDeployment";
    let mut causes = Vec::new();
    for field in ["version", "failureDomain"] {
        let (path, at) = (format!("spec.template.spec.{field}"), format!("/spec/template/spec/{field}"));
        causes.extend(part(kind, &path, &at, &old.deployment, &new.deployment));
    }
    causes.extend(template("CloudStackMachineTemplate", &old.machine_template, &new.machine_template));
    causes.extend(template("KubeadmConfigTemplate", &old.config_template, &new.config_template));
    causes
}

/// A template is another one when its name is; what it holds says why.
fn template(kind: &str, old: &crate::render::Template, new: &crate::render::Template) -> Vec<Cause> {
    if old.name == new.name { Vec::new() } else { part(kind, "spec", "/spec", &old.object, &new.object) }
}

fn part(kind: &str, path: &str, at: &str, old: &Value, new: &Value) -> Vec<Cause> {
    let found = differences(path, old.pointer(at).unwrap_or(&Value::Null), new.pointer(at).unwrap_or(&Value::Null));
    found.into_iter().map(|difference| Cause { kind: kind.to_owned(), difference }).collect()
}

fn text(object: &Value, at: &str) -> String {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The fields in which two values differ in meaning.
#[must_use]
pub fn differences(path: &str, old: &Value, new: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(path, Some(&canonical(old)), Some(&canonical(new)), &mut found);
    found
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<Difference>) {
    if old == new {
        return;
    }
    if let (Some(Value::Object(old)), Some(Value::Object(new))) = (old, new) {
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names {
            compare(&format!("{path}.{name}"), old.get(name), new.get(name), found);
        }
        return;
    }
    if let (Some(Value::Array(old)), Some(Value::Array(new))) = (old, new)
        && let (Some(old), Some(new)) = (by_key(old), by_key(new))
    {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys {
            compare(&format!("{path}[{key}]"), old.get(key).copied(), new.get(key).copied(), found);
        }
        return;
    }
    let held = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
    found.push(Difference { path: path.to_owned(), old: held(old), new: held(new) });
}

/// Items by what tells them apart, when each has it and no two have the same.
fn by_key(items: &[Value]) -> Option<BTreeMap<String, &Value>> {
    let key = |item: &Value| {
        let word = |field: &str| item.get(field).and_then(Value::as_str).map(str::to_owned);
        word("path").or_else(|| word("name")).or_else(|| Some(format!("{}:{}", word("key")?, word("effect")?)))
    };
    let keyed: BTreeMap<String, &Value> = items.iter().map(|item| Some((key(item)?, item))).collect::<Option<_>>()?;
    (keyed.len() == items.len()).then_some(keyed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_name_the_field_and_both_values() {
        let old = json!({"a": {"b": 1, "c": ""}, "args": [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}],
            "files": [{"path": "/f", "content": "one"}], "commands": ["a"]});
        let new = json!({"a": {"b": 2}, "args": [{"name": "y", "value": "3"}, {"name": "x", "value": "1"}],
            "files": [{"path": "/f", "content": "two"}, {"path": "/g", "content": "new"}], "commands": ["a", "b"]});
        let found: Vec<(String, Option<Value>, Option<Value>)> =
            differences("spec", &old, &new).into_iter().map(|d| (d.path, d.old, d.new)).collect();
        assert_eq!(
            found,
            [
                ("spec.a.b".to_owned(), Some(json!(1)), Some(json!(2))),
                ("spec.args[y].value".to_owned(), Some(json!("2")), Some(json!("3"))),
                ("spec.commands".to_owned(), Some(json!(["a"])), Some(json!(["a", "b"]))),
                ("spec.files[/f].content".to_owned(), Some(json!("one")), Some(json!("two"))),
                ("spec.files[/g]".to_owned(), None, Some(json!({"path": "/g", "content": "new"}))),
            ]
        );
        assert_eq!(differences("spec", &old, &old), []);
    }
}
