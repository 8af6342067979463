//! Which objects change when machines move between hosts taken directly and hosts on claims; nothing is read or written here.

use std::collections::BTreeMap;

use api::names::DnsSubdomain;
use serde_json::{Map, Value, json};

/// The kind whose copies are made.
pub const TEMPLATE: &str = "Metal3MachineTemplate";
/// The only version that has the field.
pub const TEMPLATE_VERSION: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// What the name of a copy ends with.
const ON_CLAIMS: &str = "-on-claims";
const ON_HOSTS: &str = "-on-hosts";
/// The kind of claims that is a host: the only one that the provider has too.
const METAL: &str = "baremetal";
/// The label of what Cluster API makes of a ClusterClass.
const TOPOLOGY: &str = "topology.cluster.x-k8s.io/owned";
/// Where objects say which template their machines are made of.
const REFERENCES: [&str; 3] = [
    "/spec/template/spec/infrastructureRef",
    "/spec/machineTemplate/spec/infrastructureRef",
    "/spec/machineTemplate/infrastructureRef",
];
const SPEC: &str = "/spec/template/spec";

/// Where machines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// To claims of this kind.
    Claims(String),
    /// Back to hosts that are taken directly.
    Hosts,
}

/// One object that changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// This one is made.
    Make(Value),
    /// This one names another template, at this place.
    Refer {
        /// Which one.
        user: Value,
        /// Where its name stands.
        path: String,
        /// What stands there now.
        from: String,
        /// What stands there then.
        to: String,
    },
}

/// What changes, and what stays as it is although it might be expected to change, each with the reason.
#[derive(Debug, Default, PartialEq)]
pub struct Turned {
    /// In the order in which it has to be done.
    pub changes: Vec<Change>,
    /// Objects that stay, each with the reason.
    pub left: Vec<(String, String)>,
    /// Objects that would have to change and cannot.
    pub stuck: Vec<(String, String)>,
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The object by kind, namespace and name.
pub fn title(object: &Value) -> String {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    match text(object, "/metadata/namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

fn key(object: &Value) -> (String, String) {
    (text(object, "/metadata/namespace").to_owned(), text(object, "/metadata/name").to_owned())
}

/// Where an object names a template, and which.
fn reference(object: &Value) -> Option<(String, String)> {
    let named = |path: &&str| object.pointer(path).is_some_and(|found| text(found, "/kind") == TEMPLATE);
    let path = REFERENCES.into_iter().find(named)?;
    let name = format!("{path}/name");
    Some((name.clone(), text(object, &name).to_owned()))
}

/// Works out what changes among these objects: templates and whatever names them. Others are passed over.
pub fn turn(objects: &[Value], way: &Way, only: &[String]) -> Turned {
    let templates: BTreeMap<(String, String), &Value> =
        objects.iter().filter(|object| text(object, "/kind") == TEMPLATE).map(|object| (key(object), object)).collect();
    let mut turned = Turned::default();
    for ((namespace, name), template) in &templates {
        if !only.is_empty() && !only.contains(name) {
            continue;
        }
        let about = title(template);
        let copy = match copied(template, way) {
            Ok(Some(copy)) => copy,
            Ok(None) => continue,
            Err(why) => {
                turned.stuck.push((about, why));
                continue;
            }
        };
        let users: Vec<(&Value, String)> = objects
            .iter()
            .filter(|object| text(object, "/metadata/namespace") == namespace)
            .filter_map(|object| reference(object).filter(|(_, named)| named == name).map(|(path, _)| (object, path)))
            .collect();
        // The copy that an earlier, interrupted run made, or the one that the machines came from.
        let there = templates.get(&key(&copy)).map(|there| there.pointer("/spec") == copy.pointer("/spec"));
        match there {
            Some(false) => {
                let why = format!("{} is there and says something else", title(&copy));
                turned.stuck.push((about, why));
                continue;
            }
            _ if users.is_empty() => {
                turned.left.push((about, "nothing names it".to_owned()));
                continue;
            }
            Some(true) => {}
            None => turned.changes.push(Change::Make(copy.clone())),
        }
        for (user, path) in users {
            if user.pointer("/metadata/labels").is_some_and(|labels| labels.get(TOPOLOGY).is_some()) {
                let why = "it is made by a ClusterClass: name the copy in the class".to_owned();
                turned.stuck.push((title(user), why));
            } else if user
                .pointer("/metadata/ownerReferences")
                .and_then(Value::as_array)
                .is_some_and(|owners| owners.iter().any(|owner| text(owner, "/kind") == "MachineDeployment"))
            {
                // What a MachineDeployment made follows it.
            } else {
                let (from, to) = (name.clone(), key(&copy).1);
                turned.changes.push(Change::Refer { user: user.clone(), path, from, to });
            }
        }
    }
    turned
}

/// The copy of a template that machines go to; none when they are there already.
fn copied(template: &Value, way: &Way) -> Result<Option<Value>, String> {
    let kind = template.pointer(&format!("{SPEC}/kind")).and_then(Value::as_str);
    let name = text(template, "/metadata/name");
    let mut spec = template.pointer("/spec").cloned().unwrap_or_default();
    let Some(inner) = spec.pointer_mut("/template/spec").and_then(Value::as_object_mut) else {
        return Err("it has no spec".to_owned());
    };
    let new = match (way, kind) {
        (Way::Claims(_), Some(_)) | (Way::Hosts, None) => return Ok(None),
        (Way::Claims(wanted), None) => {
            inner.insert("kind".to_owned(), json!(wanted));
            name.strip_suffix(ON_HOSTS).map_or_else(|| format!("{name}{ON_CLAIMS}"), str::to_owned)
        }
        (Way::Hosts, Some(METAL)) => {
            inner.remove("kind");
            for (field, why) in [
                ("/args", "args, which say nothing to the provider"),
                ("/hostSelector/inNamespace", "hosts of another namespace, which the provider cannot take"),
                ("/failureDomainDataTemplates", "data templates by failure domain, which the provider does not know"),
            ] {
                if template.pointer(&format!("{SPEC}{field}")).is_some() {
                    return Err(format!("it asks for {why}"));
                }
            }
            name.strip_suffix(ON_CLAIMS).map_or_else(|| format!("{name}{ON_HOSTS}"), str::to_owned)
        }
        (Way::Hosts, Some(kind)) => return Err(format!("its machines are of the kind {kind}, which only claims have")),
    };
    if text(template, "/apiVersion") != TEMPLATE_VERSION {
        return Err(format!("only {TEMPLATE_VERSION} has the field `kind`"));
    }
    new.parse::<DnsSubdomain>().map_err(|error| error.to_string())?;
    // Whatever the server or a tool wrote about the old one is not true of the copy.
    let mut metadata = Map::new();
    for field in ["namespace", "labels"] {
        if let Some(value) = template.pointer(&format!("/metadata/{field}")) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let told = template.pointer("/metadata/annotations").and_then(Value::as_object);
    let kept: Map<String, Value> = told
        .into_iter()
        .flatten()
        .filter(|(key, _)| !key.starts_with("kubectl.kubernetes.io/"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !kept.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(kept));
    }
    metadata.insert("name".to_owned(), json!(new));
    Ok(Some(json!({"apiVersion": TEMPLATE_VERSION, "kind": TEMPLATE, "metadata": metadata, "spec": spec})))
}

/// The objects as they are afterwards, in their order; copies stand behind what they are copies of.
pub fn rewritten(objects: &[Value], turned: &Turned) -> Vec<Value> {
    let mut all = Vec::new();
    for object in objects {
        let mut now = object.clone();
        let mut copies = Vec::new();
        for change in &turned.changes {
            match change {
                Change::Refer { user, path, to, .. } if user == object => {
                    if let Some(place) = now.pointer_mut(path) {
                        *place = json!(to);
                    }
                }
                Change::Make(copy) if comes_from(copy, object) => copies.push(copy.clone()),
                _ => {}
            }
        }
        all.push(now);
        all.extend(copies);
    }
    all
}

fn comes_from(copy: &Value, object: &Value) -> bool {
    let stem = |value: &Value| {
        let name = text(value, "/metadata/name");
        [ON_CLAIMS, ON_HOSTS].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).to_owned()
    };
    text(object, "/kind") == TEMPLATE && key(copy).0 == key(object).0 && stem(copy) == stem(object) && copy != object
}
