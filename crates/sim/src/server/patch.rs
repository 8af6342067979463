//! Merge patch and JSON patch.

use serde_json::Value;

use super::status::Failure;

/// How a patch body is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Merge,
    Json,
    Apply,
}

impl PatchKind {
    pub(crate) fn of(content_type: &str, custom: bool) -> Result<Self, Failure> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/json-patch+json" => Ok(Self::Json),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            "application/strategic-merge-patch+json" if !custom => Err(Failure::unsupported(
                "strategic merge patch is not part of this server: use merge, JSON patch or server-side apply",
            )),
            _ => Err(Failure::unsupported(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
        }
    }
}

/// Applies a merge or JSON patch to a copy of `live`.
pub(crate) fn patched(live: &Value, patch: PatchKind, body: &Value) -> Result<Value, Failure> {
    let mut out = live.clone();
    match patch {
        PatchKind::Json => {
            let operations: json_patch::Patch = serde_json::from_value(body.clone())
                .map_err(|e| Failure::bad_request(format!("error decoding patch: {e}")))?;
            json_patch::patch(&mut out, &operations.0).map_err(|e| {
                Failure::new(
                    422,
                    "Invalid",
                    format!("the server rejected our request due to an error in our request: {e}"),
                )
            })?;
        }
        PatchKind::Merge | PatchKind::Apply => {
            if !body.is_object() {
                return Err(Failure::bad_request("error decoding patch: a merge patch is an object"));
            }
            json_patch::merge(&mut out, body);
        }
    }
    if !out.is_object() || !out.get("metadata").is_some_and(Value::is_object) {
        return Err(Failure::bad_request("the patched object has no metadata"));
    }
    Ok(out)
}
