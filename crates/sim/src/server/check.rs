//! What a write must satisfy before it is one.

use serde_json::{Value, json};

use super::{
    kinds::{Kind, NAMESPACES},
    status::Failure,
    store::{Key, deleting, finalizers, text},
    write::{Call, Core},
};

impl Core {
    pub(crate) fn check_type(&self, call: &Call, object: &mut Value) -> Result<(), Failure> {
        let wanted = [("apiVersion", call.kind.api_version(&call.version)), ("kind", call.kind.kind.clone())];
        let Some(map) = object.as_object_mut() else {
            return Err(Failure::bad_request("the body of the request is not an object"));
        };
        for (field, value) in wanted {
            match map.get(field).and_then(Value::as_str) {
                None | Some("") => {
                    map.insert(field.into(), json!(value));
                }
                Some(there) if there == value => {}
                Some(there) if field == "kind" && call.kind.custom => {
                    let why = format!("Invalid value: {there:?}: must be {value}");
                    return Err(Failure::invalid(&call.kind, &call.name, "FieldValueInvalid", "kind", &why));
                }
                Some(there) => {
                    return Err(Failure::bad_request(format!(
                        "the {field} in the data ({there}) does not match the expected {field} ({value})"
                    )));
                }
            }
        }
        if call.version != call.kind.storage_version() {
            map.insert("apiVersion".into(), json!(call.kind.api_version(call.kind.storage_version())));
        }
        match map.entry("metadata").or_insert_with(|| json!({})) {
            Value::Object(_) => {}
            other if other.is_null() => *other = json!({}),
            _ => return Err(Failure::bad_request("metadata is not an object")),
        }
        if let Some(ns) = text(object, "/metadata/namespace").filter(|ns| !ns.is_empty())
            && ns != call.namespace
        {
            return Err(Failure::bad_request(format!(
                "the namespace of the provided object ({ns}) does not match the namespace sent on the request ({})",
                call.namespace
            )));
        }
        Ok(())
    }

    pub(crate) fn check_namespace(&self, call: &Call) -> Result<(), Failure> {
        if !call.kind.namespaced {
            return Ok(());
        }
        let key = Key::new(NAMESPACES, "", &call.namespace);
        match (self.store.get(&key), self.registry.get(NAMESPACES)) {
            (None, Some(kind)) => Err(Failure::not_found(kind, &call.namespace)),
            (Some(ns), _) if deleting(ns) => {
                let mut failure = Failure::new(
                    403,
                    "Forbidden",
                    format!(
                        "{} \"{}\" is forbidden: unable to create new content in namespace {} because it is being terminated",
                        call.kind.resource(),
                        call.name,
                        call.namespace
                    ),
                )
                .about(&call.kind, &call.name);
                failure.details["causes"] = json!([{
                    "reason": "NamespaceTerminating", "field": "metadata.namespace",
                    "message": format!("namespace {} is being terminated", call.namespace),
                }]);
                Err(failure)
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn name_of(&mut self, call: &Call, object: &Value) -> Result<String, Failure> {
        let given = text(object, "/metadata/name").unwrap_or_default();
        let name = if given.is_empty() {
            match text(object, "/metadata/generateName").filter(|p| !p.is_empty()) {
                Some(prefix) => format!("{prefix}{}", self.rng.suffix()),
                None => {
                    return Err(Failure::invalid(
                        &call.kind,
                        "",
                        "FieldValueRequired",
                        "metadata.name",
                        "Required value: name or generateName is required",
                    ));
                }
            }
        } else {
            given.to_owned()
        };
        check_name(&call.kind, &name)?;
        Ok(name)
    }

    pub(crate) fn check_finalizers(&self, call: &Call, old: &Value, object: &Value) -> Result<(), Failure> {
        if !deleting(old) {
            return Ok(());
        }
        let had = finalizers(old);
        let added: Vec<String> = finalizers(object).into_iter().filter(|f| !had.contains(f)).collect();
        if added.is_empty() {
            return Ok(());
        }
        Err(Failure::invalid(
            &call.kind,
            &call.name,
            "FieldValueForbidden",
            "metadata.finalizers",
            &format!(
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            ),
        ))
    }
}

/// Names are lowercase DNS subdomains.
pub(crate) fn check_name(kind: &Kind, name: &str) -> Result<(), Failure> {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inner = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.');
    if inner && name.len() <= 253 && edge(name.chars().next()) && edge(name.chars().last()) {
        return Ok(());
    }
    Err(Failure::invalid(
        kind,
        name,
        "FieldValueInvalid",
        "metadata.name",
        &format!(
            "Invalid value: {name:?}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
        ),
    ))
}
