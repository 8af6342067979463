//! How each kind differs between its versions: where the fields of one stand in the other.

use serde_json::{Map, Value};

use super::Version;
use super::note::child;
use crate::duration;

type Fields = Map<String, Value>;
/// Brings an object into a version, as far as that version can say it.
pub(super) type Convert = fn(&mut Fields, Version);

/// How objects of a kind are converted.
pub(super) fn step(kind: &str) -> Option<Convert> {
    Some(match kind {
        "Metal3Cluster" => cluster,
        "Metal3ClusterTemplate" => cluster_template,
        "Metal3Data" => data,
        "Metal3DataClaim" => data_claim,
        "Metal3DataTemplate" => data_template,
        "Metal3Machine" => machine,
        "Metal3MachineTemplate" => machine_template,
        "Metal3Remediation" => remediation,
        "Metal3RemediationTemplate" => remediation_template,
        _ => return None,
    })
}

fn cluster(object: &mut Fields, to: Version) {
    at(object, &["spec"], |spec| cluster_spec(spec, to));
    at(object, &["status"], |status| {
        match to {
            Version::Hub => listed(status, "failureDomains", domain),
            Version::Old => mapped(status, "failureDomains", "name", domain_fields),
        }
        common_status(status, to);
    });
}

fn cluster_template(object: &mut Fields, to: Version) {
    at(object, &["spec", "template"], |template| {
        drop_in(template, to, Version::Old, &["metadata"]);
        at(template, &["spec"], |spec| cluster_spec(spec, to));
    });
}

fn cluster_spec(spec: &mut Fields, to: Version) {
    match to {
        Version::Hub => {
            listed(spec, "failureDomains", domain);
            if let Some(none) = spec.remove("noCloudProvider")
                && let (Some(none), false) = (none.as_bool(), spec.contains_key("cloudProviderEnabled"))
            {
                spec.insert("cloudProviderEnabled".to_owned(), Value::from(!none));
            }
        }
        Version::Old => mapped(spec, "failureDomains", "name", domain_fields),
    }
}

fn domain(name: &str, value: Value) -> Value {
    let mut fields = match value {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    };
    fields.insert("name".to_owned(), Value::from(name));
    Value::Object(fields)
}

fn domain_fields(mut entry: Fields) -> Value {
    entry.remove("name");
    Value::Object(entry)
}

fn machine(object: &mut Fields, to: Version) {
    at(object, &["spec"], |spec| machine_spec(spec, to));
    at(object, &["status"], |status| {
        drop_in(status, to, Version::Old, &["hostClaim", "failureDomain"]);
        drop_in(status, to, Version::Hub, &["phase"]);
        reference(status, "renderedData", to);
        common_status(status, to);
    });
}

fn machine_template(object: &mut Fields, to: Version) {
    at(object, &["spec", "template"], |template| {
        drop_in(template, to, Version::Old, &["metadata"]);
        at(template, &["spec"], |spec| machine_spec(spec, to));
    });
}

fn machine_spec(spec: &mut Fields, to: Version) {
    drop_in(spec, to, Version::Old, &["kind", "args", "failureDomainDataTemplates"]);
    at(spec, &["hostSelector"], |selector| drop_in(selector, to, Version::Old, &["inNamespace"]));
    at(spec, &["image"], |image| renamed(image, to, "format", "diskFormat"));
    reference(spec, "dataTemplate", to);
}

fn data(object: &mut Fields, to: Version) {
    at(object, &["spec"], |spec| {
        drop_in(spec, to, Version::Hub, &["templateReference"]);
        reference(spec, "claim", to);
        reference(spec, "template", to);
    });
    at(object, &["status"], |status| own_status(status, to));
}

fn data_claim(object: &mut Fields, to: Version) {
    at(object, &["spec"], |spec| reference(spec, "template", to));
    at(object, &["status"], |status| {
        reference(status, "renderedData", to);
        own_status(status, to);
    });
}

fn data_template(object: &mut Fields, to: Version) {
    at(object, &["spec"], |spec| {
        drop_in(spec, to, Version::Hub, &["templateReference"]);
        at(spec, &["metaData"], |meta| {
            for (old, hub) in FROM_POOLS {
                renamed(meta, to, old, hub);
            }
        });
        at(spec, &["networkData", "links"], |links| {
            let bonds = links.get_mut("bonds").and_then(Value::as_array_mut);
            for bond in bonds.into_iter().flatten().filter_map(Value::as_object_mut) {
                match to {
                    Version::Hub => listed(bond, "parameters", parameter),
                    Version::Old => mapped(bond, "parameters", "name", parameter_value),
                }
            }
        });
    });
    at(object, &["status"], |status| {
        match to {
            Version::Hub => {
                listed(status, "indexes", taken);
                if let Some(Value::Array(indexes)) = status.get_mut("indexes") {
                    indexes.sort_by_key(|entry| entry.get("index").and_then(Value::as_i64));
                }
            }
            Version::Old => mapped(status, "indexes", "name", taken_index),
        }
        own_status(status, to);
    });
}

/// Lists of what pools give, by their names in the older and in the newer version.
pub(in crate::own::metal3) const FROM_POOLS: [(&str, &str); 4] = [
    ("ipAddressesFromIPPool", "ipAddressesFromPool"),
    ("prefixesFromIPPool", "prefixesFromPool"),
    ("gatewaysFromIPPool", "gatewaysFromPool"),
    ("dnsServersFromIPPool", "dnsServersFromPool"),
];

fn parameter(name: &str, value: Value) -> Value {
    let mut fields = Fields::from_iter([("name".to_owned(), Value::from(name))]);
    if !value.is_null() {
        fields.insert("value".to_owned(), value);
    }
    Value::Object(fields)
}

fn parameter_value(mut entry: Fields) -> Value {
    entry.remove("value").unwrap_or_default()
}

fn taken(name: &str, index: Value) -> Value {
    Value::Object(Fields::from_iter([("index".to_owned(), index), ("name".to_owned(), Value::from(name))]))
}

fn taken_index(mut entry: Fields) -> Value {
    entry.remove("index").unwrap_or_default()
}

fn remediation(object: &mut Fields, to: Version) {
    at(object, &["spec", "strategy"], |strategy| timeout(strategy, to));
    at(object, &["status"], |status| own_status(status, to));
}

fn remediation_template(object: &mut Fields, to: Version) {
    at(object, &["spec", "template", "spec", "strategy"], |strategy| timeout(strategy, to));
    at(object, &["status", "status"], |status| own_status(status, to));
}

fn timeout(strategy: &mut Fields, to: Version) {
    let (from, field, value) = match to {
        Version::Hub => {
            let text = strategy.get("timeout").and_then(Value::as_str);
            ("timeout", "timeoutSeconds", text.and_then(duration::seconds).map(Value::from))
        }
        Version::Old => {
            let seconds = strategy.get("timeoutSeconds").and_then(Value::as_i64);
            ("timeoutSeconds", "timeout", seconds.map(|seconds| Value::from(duration::text(seconds))))
        }
    };
    strategy.remove(from);
    if let Some(value) = value {
        strategy.insert(field.to_owned(), value);
    }
}

/// The status of machines and clusters: conditions of both forms, failures, and whether it was ever ready.
fn common_status(status: &mut Fields, to: Version) {
    const FAILURES: [&str; 2] = ["failureReason", "failureMessage"];
    drop_in(status, to, Version::Old, &["observedGeneration"]);
    match to {
        Version::Hub => {
            let older: Vec<(&str, Value)> =
                ["conditions"].into_iter().chain(FAILURES).filter_map(|f| Some((f, status.remove(f)?))).collect();
            if let Some(newer) = take_from(status, &["v1beta2"], "conditions") {
                status.insert("conditions".to_owned(), newer);
            }
            if !older.is_empty()
                && let Some(place) = child(status, "deprecated").and_then(|below| child(below, "v1beta1"))
            {
                place.extend(older.into_iter().map(|(field, value)| (field.to_owned(), value)));
            }
            if let Some(ready) = status.remove("ready")
                && let Some(initialization) = child(status, "initialization")
            {
                initialization.insert("provisioned".to_owned(), ready);
            }
        }
        Version::Old => {
            let newer = status.remove("conditions");
            for field in ["conditions"].into_iter().chain(FAILURES) {
                if let Some(value) = take_from(status, &["deprecated", "v1beta1"], field) {
                    status.insert(field.to_owned(), value);
                }
            }
            if let Some(newer) = newer
                && let Some(place) = child(status, "v1beta2")
            {
                place.insert("conditions".to_owned(), newer);
            }
            if let Some(ready) = take_from(status, &["initialization"], "provisioned") {
                status.insert("ready".to_owned(), ready);
            }
        }
    }
}

/// The status of kinds whose conditions only the newer version has.
fn own_status(status: &mut Fields, to: Version) {
    drop_in(status, to, Version::Old, &["observedGeneration", "conditions"]);
}

/// Takes a field out of an object somewhere below, and removes the objects that it leaves empty.
fn take_from(object: &mut Fields, path: &[&str], field: &str) -> Option<Value> {
    let Some((first, rest)) = path.split_first() else { return object.remove(field) };
    let below = object.get_mut(*first)?.as_object_mut()?;
    let taken = take_from(below, rest, field);
    if below.is_empty() {
        object.remove(*first);
    }
    taken
}

/// Changes the object at a path, if there is one.
fn at(object: &mut Fields, path: &[&str], change: impl FnOnce(&mut Fields)) {
    let Some((first, rest)) = path.split_first() else { return change(object) };
    if let Some(Value::Object(below)) = object.get_mut(*first) {
        at(below, rest, change);
    }
}

/// Drops fields that a version does not have.
fn drop_in(object: &mut Fields, to: Version, without: Version, fields: &[&str]) {
    if to == without {
        object.retain(|name, _| !fields.contains(&name.as_str()));
    }
}

/// A field with two names.
fn renamed(object: &mut Fields, to: Version, old: &str, hub: &str) {
    let (from, to) = match to {
        Version::Hub => (old, hub),
        Version::Old => (hub, old),
    };
    if let Some(value) = object.remove(from) {
        object.insert(to.to_owned(), value);
    }
}

/// A reference, of which the newer version knows name and namespace.
fn reference(object: &mut Fields, field: &str, to: Version) {
    at(object, &[field], |reference| drop_in(reference, to, Version::Hub, &REFERENCE_FIELDS));
}

/// The fields of references that only the older version has.
pub(in crate::own::metal3) const REFERENCE_FIELDS: [&str; 5] =
    ["apiVersion", "fieldPath", "kind", "resourceVersion", "uid"];

/// A map becomes a list of entries with names, in the order of the names.
fn listed(object: &mut Fields, field: &str, entry: fn(&str, Value) -> Value) {
    if let Some(Value::Object(map)) = object.get_mut(field) {
        let mut entries: Vec<(String, Value)> = std::mem::take(map).into_iter().collect();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        let list = entries.into_iter().map(|(name, value)| entry(&name, value)).collect();
        object.insert(field.to_owned(), Value::Array(list));
    }
}

/// A list of entries with names becomes a map.
fn mapped(object: &mut Fields, field: &str, key: &str, value: fn(Fields) -> Value) {
    if let Some(Value::Array(list)) = object.get_mut(field) {
        let entries = std::mem::take(list).into_iter().filter_map(|entry| match entry {
            Value::Object(entry) => Some((entry.get(key)?.as_str()?.to_owned(), value(entry))),
            _ => None,
        });
        let map = Value::Object(entries.collect());
        object.insert(field.to_owned(), map);
    }
}
