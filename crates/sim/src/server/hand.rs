//! The test's own hand in the store: whole objects, without a client.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    status::Failure,
    store::text,
    write::{Call, Core},
};

impl Core {
    /// Creates or replaces an object with its status.
    pub(crate) fn put_whole(&mut self, mut object: Value, now: Timestamp) -> Result<Value, Failure> {
        let api_version = text(&object, "/apiVersion").unwrap_or_default().to_owned();
        let named = text(&object, "/kind").unwrap_or_default().to_owned();
        let version = api_version.rsplit('/').next().unwrap_or_default().to_owned();
        let kind = self
            .registry
            .by_kind(&api_version, &named)
            .filter(|k| k.versions.contains(&version))
            .cloned()
            .ok_or_else(|| Failure::bad_request(format!("no kind {named} in {api_version} is registered")))?;
        let namespace = match (kind.namespaced, text(&object, "/metadata/namespace")) {
            (false, _) => "",
            (true, Some(ns)) => ns,
            (true, None) => "default",
        }
        .to_owned();
        let call = Call {
            name: text(&object, "/metadata/name").unwrap_or_default().to_owned(),
            kind,
            version,
            namespace,
            subresource: None,
            manager: "test".into(),
            explicit_manager: true,
            force: None,
            now,
            dry_run: false,
        };
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("resourceVersion");
            meta.remove("managedFields");
        }
        let status = object.get("status").cloned();
        let (_, mut stored) = match self.store.get(&call.key()).cloned() {
            Some(old) => self.overwrite(&call, &old, object)?,
            None => self.create(&call, object)?,
        };
        let call = Call {
            name: text(&stored, "/metadata/name").unwrap_or_default().to_owned(),
            subresource: Some("status".into()),
            ..call
        };
        if let Some(status) = status.filter(|_| call.kind.status)
            && let Some(old) = self.store.get(&call.key()).cloned()
        {
            let mut whole = Value::clone(&old);
            whole["status"] = status;
            stored = self.overwrite(&call, &old, whole)?.1;
        }
        Ok(Value::clone(&stored))
    }
}
