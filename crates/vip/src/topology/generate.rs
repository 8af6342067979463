//! GeneratePatches: the endpoint into the infrastructure cluster, addresses into every template.

use api::views::Endpoint;
use serde_json::{Map, Value, json};

use super::findings::Findings;
use super::pointer::{self, Step, meet};
use super::settings::{Settings, What};
use super::standing::Means;
use super::target::{Operation, put};
use super::walk::{lookup, walk_spec};
use super::wire::{GenerateRequest, Item, Patch, PatchType};
use super::{Standing, text, variables};
use crate::names::{NO_VALUE, Slot};

/// Where an endpoint has its host; `<no value>` there means the endpoint's host even where that is not the VIP.
const ENDPOINT_HOST: [&str; 2] = ["controlPlaneEndpoint", "host"];

/// The patches that bring the templates of a request into the desired state, in the order of the request; none for a template
/// that is in it already.
///
/// # Errors
/// Says what keeps the state from being reached. An answer without the patches would be taken for a wish to have none.
pub fn generate(request: &GenerateRequest, settings: &Settings, standing: &Standing) -> Result<Vec<Patch>, String> {
    let Some(means) = Means::of(request, standing)? else { return Ok(Vec::new()) };
    let mut findings = Findings::default();
    variables::check(request, &means, &mut findings);
    let mut patches = Vec::new();
    for item in &request.items {
        let patch = |patch_type, patch| Patch { uid: item.uid.clone(), patch_type, patch };
        let work = Work { item, settings, means: &means };
        let merge = work.endpoint(&mut findings);
        let operations = work.operations(merge.as_ref(), &mut findings);
        patches.extend(merge.map(|merge| patch(PatchType::Merge, merge)));
        if !operations.is_empty() {
            let list = operations.iter().map(Operation::to_json).collect();
            patches.push(patch(PatchType::Json, list));
        }
    }
    findings.verdict().map(|()| patches)
}

/// One template, and what may be put into it.
struct Work<'a> {
    item: &'a Item,
    settings: &'a Settings,
    means: &'a Means<'a>,
}

impl<'a> Work<'a> {
    /// The endpoint this template must carry.
    fn wanted_endpoint(&self) -> Option<&'a Endpoint> {
        self.means.endpoint.filter(|_| self.settings.patch_infrastructure && self.item.is_infrastructure_cluster())
    }

    fn place(&self, pointer: &str) -> String {
        format!("{} {pointer}", self.item.object.title())
    }

    /// The merge patch that gives the template the endpoint; merging creates the parents.
    fn endpoint(&self, findings: &mut Findings) -> Option<Value> {
        let endpoint = self.wanted_endpoint()?;
        let path = || self.settings.endpoint_path.iter().map(String::as_str);
        let below_spec = || path().skip(1);
        // Merging would replace a list on the way by an object.
        let parts = self.settings.endpoint_path.len();
        let list = (1..=parts)
            .find(|end| lookup(&self.item.object.spec, below_spec().take(end - 1)).is_some_and(Value::is_array));
        if let Some(end) = list {
            let text = "settings: endpointPath: the way to the endpoint goes through a list";
            findings.note(2, text, self.place(&pointer::write(path().take(end))));
            return None;
        }
        let present = |field| lookup(&self.item.object.spec, below_spec().chain([field]));
        let same_host = present("host").and_then(Value::as_str) == Some(endpoint.host.as_str());
        let same_port = present("port").and_then(Value::as_i64) == Some(endpoint.port.into());
        if same_host && same_port {
            return None;
        }
        let leaf = json!({"host": endpoint.host, "port": endpoint.port});
        Some(path().rev().fold(leaf, |inner, key| Value::Object(Map::from_iter([(key.to_owned(), inner)]))))
    }

    /// The operations on this template after the merge patch, sorted by pointer.
    fn operations(&self, merge: Option<&Value>, findings: &mut Findings) -> Vec<Operation> {
        let mut operations = self.replacements(findings);
        operations.extend(self.targets(merge, &operations, findings));
        operations.sort_by(|a, b| a.pointer.cmp(&b.pointer));
        operations
    }

    /// Texts that become others.
    fn replacements(&self, findings: &mut Findings) -> Vec<Operation> {
        let mut operations = Vec::new();
        walk_spec(&self.item.object.spec, &mut |trail, text| match self.replacement(trail, text) {
            Ok(None) => {}
            _ if self.is_set_otherwise(trail) => {}
            Ok(Some(value)) => {
                let pointer = pointer::of(trail);
                // The library that applies patches in Cluster API takes an empty key for the object itself.
                if trail.contains(&Step::Key("")) {
                    findings.note(4, "a text below an empty key cannot be patched", self.place(&pointer));
                }
                operations.push(Operation { op: "replace", pointer, value: value.into() });
            }
            Err(placeholder) => {
                let text =
                    format!("{} cannot be replaced, the cluster has no {}", placeholder.as_str(), placeholder.lack());
                findings.note(3, text, self.place(&pointer::of(trail)));
            }
        });
        operations
    }

    /// Whether the merge patch or a target sets what the trail leads to, or what lies around it.
    fn is_set_otherwise(&self, trail: &[Step<'_>]) -> bool {
        let endpoint = self.wanted_endpoint().is_some() && {
            let path = &self.settings.endpoint_path;
            match trail.get(path.len()) {
                Some(leaf) => meet(trail, path) && (leaf.is("host") || leaf.is("port")),
                None => meet(trail, path),
            }
        };
        let mut targets = self.my_targets();
        endpoint || targets.any(|target| target.path.last().is_none_or(|last| last != "-") && meet(trail, &target.path))
    }

    fn replacement(&self, trail: &[Step<'_>], text: &str) -> Result<Option<String>, text::Placeholder> {
        if text == NO_VALUE {
            return Ok(self.repair(trail).map(str::to_owned));
        }
        if self.settings.placeholders { text::fill(text, self.means) } else { Ok(None) }
    }

    /// What a class meant that copied a value which does not exist.
    fn repair(&self, trail: &[Step<'_>]) -> Option<&'a str> {
        let endpoint = self.means.endpoint?;
        let keys: Vec<&str> =
            trail.iter().filter_map(|step| if let Step::Key(key) = step { Some(*key) } else { None }).collect();
        self.settings.no_value_paths.iter().find(|suffix| ends(&keys, suffix))?;
        let vip = || self.means.vip(Slot::CONTROL_PLANE);
        if ends(&keys, &ENDPOINT_HOST) { Some(endpoint.host.as_str()) } else { vip() }
    }

    fn my_targets(&self) -> impl Iterator<Item = &'a super::Target> + use<'a> {
        let kind = self.item.object.kind.as_str();
        self.settings.targets.iter().filter(move |target| target.kind == kind)
    }

    /// Further places for the endpoint. They build on each other and on the patches before, so they are tried on a copy; only
    /// templates that have such places are copied.
    fn targets(&self, merge: Option<&Value>, before: &[Operation], findings: &mut Findings) -> Vec<Operation> {
        let Some(endpoint) = self.means.endpoint.filter(|_| self.my_targets().next().is_some()) else {
            return Vec::new();
        };
        let mut after = json!({"spec": self.item.object.spec});
        if let Some(merge) = merge {
            merge_into(&mut after, merge);
        }
        for operation in before {
            if let Some(place) = after.pointer_mut(&operation.pointer) {
                place.clone_from(&operation.value);
            }
        }
        let mut operations = Vec::new();
        for target in self.my_targets() {
            match put(&mut after, &target.path, value(endpoint, target.what, &target.path)) {
                Ok(operation) => operations.extend(operation),
                Err(problem) => {
                    let pointer = pointer::write(target.path.iter().map(String::as_str));
                    findings.note(2, format!("settings: extraTargets: {problem}"), self.place(&pointer));
                }
            }
        }
        if self.wanted_endpoint().is_some() {
            let path = || self.settings.endpoint_path.iter().map(String::as_str);
            let kept = |field, wanted: Value| lookup(&after, path().chain([field])) == Some(&wanted);
            if !kept("host", endpoint.host.as_str().into()) || !kept("port", endpoint.port.into()) {
                let text = "settings: extraTargets: a target overwrites the endpoint of the infrastructure cluster";
                findings.note(2, text, self.place(&pointer::write(path())));
            }
        }
        operations
    }
}

fn ends(keys: &[&str], suffix: &[impl AsRef<str>]) -> bool {
    let start = keys.len().checked_sub(suffix.len());
    let tail = start.and_then(|start| keys.get(start..));
    tail.is_some_and(|tail| tail.iter().zip(suffix).all(|(key, part)| *key == part.as_ref()))
}

/// What a target is set to. Labels and annotations are texts.
fn value(endpoint: &Endpoint, what: What, path: &[String]) -> Value {
    let host = endpoint.host.as_str();
    match what {
        What::Host => host.into(),
        What::HostPort if host.contains(':') => format!("[{host}]:{}", endpoint.port).into(),
        What::HostPort => format!("{host}:{}", endpoint.port).into(),
        What::Port if is_metadata(path) => endpoint.port.to_string().into(),
        What::Port => endpoint.port.into(),
    }
}

fn is_metadata(path: &[String]) -> bool {
    let mut last = path.iter().rev().skip(1).map(String::as_str);
    matches!((last.next(), last.next()), (Some("labels" | "annotations"), Some("metadata")))
}

/// RFC 7386, for patches without null.
fn merge_into(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        value.clone_from(patch);
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    if let Value::Object(map) = value {
        for (key, patch) in patch {
            merge_into(map.entry(key.as_str()).or_insert(Value::Null), patch);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::walk::SEEN;
    use super::super::{parse_generate, sample, validate};
    use super::*;

    fn texts(value: &Value) -> usize {
        match value {
            Value::String(_) => 1,
            Value::Array(list) => list.iter().map(texts).sum(),
            Value::Object(map) => map.values().map(texts).sum(),
            _ => 0,
        }
    }

    #[test]
    fn each_text_of_a_large_request_is_looked_at_once() {
        let request = parse_generate(sample::request(200).to_string().as_bytes()).unwrap();
        let endpoint = Endpoint { host: "10.0.0.15".into(), port: 6443 };
        let standing = Standing { found: true, endpoint, ..Standing::default() };
        let settings = Settings::read(&BTreeMap::new()).unwrap();
        let all: usize = request.items.iter().map(|item| texts(&item.object.spec)).sum();
        assert!(all > 5_000, "{all}");
        let seen = |work: &mut dyn FnMut()| {
            let before = SEEN.get();
            work();
            SEEN.get() - before
        };
        assert_eq!(seen(&mut || assert!(generate(&request, &settings, &standing).is_ok())), all);
        // The infrastructure cluster is looked at again for the ranges of its nodes.
        let infrastructure = texts(&request.items[0].object.spec);
        assert_eq!(seen(&mut || assert!(validate(&request, &settings, &standing).is_err())), all + infrastructure);
    }
}
