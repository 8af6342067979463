//! The objects of files, laid over what the server has.

use std::collections::{BTreeMap, BTreeSet};

use api::key::ObjectKey;
use api::names::{DnsLabel, DnsSubdomain};
use k8s_openapi::jiff::Timestamp;
use kit::kinds::Kind;
use kube::api::{Api, DynamicObject};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Usage;
use crate::look::{Reader, Shown};

/// Metadata that the server alone writes.
const SERVERS: [&str; 7] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
];

/// What files hold, and what of it was taken into account.
#[derive(Debug)]
pub struct Files {
    all: Vec<Filed>,
    now: Timestamp,
}

#[derive(Debug)]
struct Filed {
    object: Value,
    /// As it would be on the server, once that was asked for, and what could not be asked.
    stored: Option<(Value, Option<String>)>,
    counts: bool,
}

/// Objects that nothing is told of, and on which nothing rests that is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PassedOver {
    /// Their kind.
    pub kind: String,
    /// How many.
    pub count: usize,
}

impl Filed {
    fn part(&self, name: &str) -> &str {
        self.object.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn group(&self) -> &str {
        self.part("apiVersion").split_once('/').map_or("", |(group, _)| group)
    }

    fn version(&self) -> &str {
        let whole = self.part("apiVersion");
        whole.split_once('/').map_or(whole, |(_, version)| version)
    }

    fn is(&self, group: &str, kind: &str) -> bool {
        self.part("kind") == kind && self.group() == group
    }
}

impl Files {
    /// The objects of these files.
    ///
    /// # Errors
    /// When a file is not YAML.
    pub fn read(files: &[(String, String)], now: Timestamp) -> Result<Self, Usage> {
        let mut all = Vec::new();
        for (file, text) in files {
            let objects: Vec<Value> =
                serde_saphyr::from_multiple(text).map_err(|error| Usage(format!("{file}: {error}")))?;
            let filed = |object| Filed { object: appliable(object), stored: None, counts: false };
            all.extend(objects.into_iter().map(filed));
        }
        Ok(Self { all, now })
    }

    /// Whether they hold one of this kind.
    pub fn hold(&self, group: &str, kind: &str) -> bool {
        self.all.iter().any(|filed| filed.is(group, kind))
    }

    /// Takes every object of a group into account, and says whether there is one: others tell what becomes of it.
    pub fn leave(&mut self, group: &str) -> bool {
        let mut any = false;
        for filed in self.all.iter_mut().filter(|filed| filed.group() == group && !filed.part("kind").is_empty()) {
            (filed.counts, any) = (true, true);
        }
        any
    }

    /// The one namespace of all objects; none where there are several. Objects that name none are in the default one, unless
    /// their kind has no namespaces, which is not known here: they count only where no object names any.
    pub fn namespace(&self, default: &str) -> Option<String> {
        let of = |filed: &Filed| filed.object.pointer("/metadata/namespace").and_then(Value::as_str).map(str::to_owned);
        let named: BTreeSet<String> = self.all.iter().filter_map(of).collect();
        let mut named = named.into_iter();
        match (named.next(), named.next()) {
            (None, _) => Some(default.to_owned()),
            (one, None) => one,
            (Some(_), Some(_)) => None,
        }
    }

    /// Lays the objects of a kind over those that were read, as they would be once they are applied: with what the server has
    /// of each, or as it would be a moment after it was made. Says which they are.
    ///
    /// # Errors
    /// When one cannot be read, or the server does not answer.
    pub async fn lay<K: Shown>(
        &mut self,
        reader: &Reader<'_>,
        items: &mut Vec<K>,
        unseen: &mut Vec<String>,
    ) -> anyhow::Result<Vec<ObjectKey>> {
        let any = Kind::of::<K>();
        let asked = Asked { candidates: any.at(K::VERSIONS), any, namespaced: K::NAMESPACED };
        // From text, as everything is read that is shown: a second way to read a type is all of its code once more.
        let mut put = |text: &str| {
            let object: K = serde_json::from_str(text)?;
            let key = ObjectKey::of(&object);
            items.retain(|there| ObjectKey::of(there) != key);
            items.push(object);
            Ok(key)
        };
        self.laid(reader, &asked, &mut put, unseen).await
    }

    /// The same for a kind that is not known to the compiler.
    async fn laid(
        &mut self,
        reader: &Reader<'_>,
        asked: &Asked,
        put: &mut (dyn FnMut(&str) -> serde_json::Result<ObjectKey> + Send),
        unseen: &mut Vec<String>,
    ) -> anyhow::Result<Vec<ObjectKey>> {
        let mut keys = Vec::new();
        for filed in self.all.iter_mut().filter(|filed| filed.is(&asked.any.group, &asked.any.kind)) {
            filed.counts = true;
            let (stored, note) = match filed.stored.clone() {
                Some(stored) => stored,
                None => stored(reader, asked, filed, self.now).await?,
            };
            filed.stored = Some((stored.clone(), note.clone()));
            unseen.extend(note.filter(|note| !unseen.contains(note)));
            let name = stored.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let key = put(&stored.to_string()).map_err(|error| Usage(format!("{} {name}: {error}", asked.any.kind)))?;
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// An object that was laid over, as it would be on the server.
    pub fn stored(&self, group: &str, kind: &str, key: &ObjectKey) -> Option<&Value> {
        let mut all = self.all.iter().filter(|filed| filed.is(group, kind)).filter_map(|filed| filed.stored.as_ref());
        let text = |object: &Value, at: &str| object.pointer(at).and_then(Value::as_str).map(str::to_owned);
        let named = |(object, _): &&(Value, Option<String>)| {
            text(object, "/metadata/name").as_deref() == Some(key.name())
                && text(object, "/metadata/namespace").as_deref() == key.namespace()
        };
        all.rfind(named).map(|(object, _)| object)
    }

    /// What nothing was told of, by kind.
    pub fn passed_over(&self) -> Vec<PassedOver> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for filed in self.all.iter().filter(|filed| !filed.counts && !filed.part("kind").is_empty()) {
            *counts.entry(filed.part("kind")).or_default() += 1;
        }
        counts.into_iter().map(|(kind, count)| PassedOver { kind: kind.to_owned(), count }).collect()
    }
}

/// What is asked of the server about a kind.
struct Asked {
    any: Kind,
    candidates: Vec<Kind>,
    namespaced: bool,
}

/// An object without what nobody applies: a file that was saved from a server holds that too, and it tells of another time.
fn appliable(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        if let Some(meta) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.retain(|name, _| !SERVERS.contains(&name.as_str()));
        }
    }
    object
}

/// An object as the server would have it once it is applied.
async fn stored(
    reader: &Reader<'_>,
    asked: &Asked,
    filed: &Filed,
    now: Timestamp,
) -> anyhow::Result<(Value, Option<String>)> {
    let namespace = asked.namespaced.then(|| reader.client.default_namespace());
    let mut object = json!({});
    merge(&mut object, &filed.object);
    let planned = born(object, namespace, now);
    let text = |at: &str| planned.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (place, name) = (text("/metadata/namespace"), text("/metadata/name"));
    // Both become part of the address that the server is asked at.
    let wrong = |why: String| Usage(format!("{} of the files: metadata.{why}", filed.part("kind")));
    name.parse::<DnsSubdomain>().map_err(|error| wrong(format!("name: {error}")))?;
    if asked.namespaced {
        place.parse::<DnsLabel>().map_err(|error| wrong(format!("namespace: {error}")))?;
    }
    let unknown = |Kind { kind, group, .. }: Kind, version: &str| {
        format!("the server does not know {kind} ({group}{version}), so nothing can be applied of it yet")
    };
    let Some(served) = reader.at(&asked.any, &asked.candidates).await? else {
        return Ok((planned, Some(unknown(asked.any.clone(), ""))));
    };
    // As the file spells it: two versions of a kind may have different fields for the same thing.
    let kind = Kind { version: filed.version().to_owned(), ..served };
    if !reader.serves(&kind).await? {
        return Ok((planned, Some(unknown(asked.any.clone(), &format!("/{}", kind.version)))));
    }
    let api: Api<DynamicObject> = match asked.namespaced {
        true => Api::namespaced_with(reader.client.clone(), &place, &kind.resource()),
        false => Api::all_with(reader.client.clone(), &kind.resource()),
    };
    match api.get_opt(&name).await {
        Ok(Some(there)) => {
            let mut there = serde_json::to_value(there)?;
            merge(&mut there, &filed.object);
            Ok((there, None))
        }
        Ok(None) => Ok((planned, None)),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let what = kind.definition();
            Ok((planned, Some(format!("you may not get {what}, so {} {name} is taken as new", kind.kind))))
        }
        Err(error) => Err(anyhow::anyhow!(error).context(format!("reading the {} {name}", kind.kind))),
    }
}

/// An object as the server would have it a moment after it was made.
pub fn born(mut object: Value, namespace: Option<&str>, now: Timestamp) -> Value {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        if let Some(namespace) = namespace {
            meta.entry("namespace").or_insert_with(|| json!(namespace));
        }
        meta.entry("uid").or_insert_with(|| json!(format!("planned-{name}")));
        meta.entry("resourceVersion").or_insert_with(|| json!("0"));
        meta.entry("generation").or_insert_with(|| json!(1));
        meta.entry("creationTimestamp").or_insert_with(|| json!(format!("{now:.0}")));
    }
    object
}

/// What applying does: what is said counts, what is not said stays, what is said to be null goes, and lists are taken whole.
fn merge(there: &mut Value, said: &Value) {
    match (there, said) {
        (Value::Object(there), Value::Object(said)) => {
            for (key, value) in said {
                match value {
                    Value::Null => drop(there.remove(key)),
                    value => merge(there.entry(key.clone()).or_insert_with(|| json!({})), value),
                }
            }
        }
        (there, said) => *there = said.clone(),
    }
}
