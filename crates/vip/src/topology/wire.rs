//! What the hooks are asked and what they answer, as Cluster API v1.10 to v1.14 spells it.
//!
//! Reading is lenient: unknown fields are ignored, and a field of the wrong form counts as absent. Of a template only what
//! can be patched is kept, so the rest of it costs no memory.

use std::collections::BTreeMap;

use api::soft_structs;
use api::views::soft::{or_default, soft};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::variables::Definition;
use crate::hooks::wire::failure;
use crate::hooks::{API_VERSION, Hook};

/// Name of the variable that Cluster API itself provides.
const BUILTIN: &str = "builtin";

/// The templates of one cluster, with the variables they are rendered with.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct TopologyRequest {
    /// Settings of the ExtensionConfig with those of the patch laid over them.
    #[serde(default, deserialize_with = "or_default")]
    pub settings: BTreeMap<String, String>,
    /// Variables of all templates: `builtin` and those that this very patch defines.
    #[serde(default, deserialize_with = "or_default")]
    pub variables: Vec<Variable>,
    /// The templates.
    #[serde(default, deserialize_with = "or_default")]
    pub items: Vec<Item>,
}

/// A request for patches.
pub type GenerateRequest = TopologyRequest;
/// A request to judge the patched templates; its items have no uid.
pub type ValidateRequest = TopologyRequest;

/// A request for the definitions of variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct DiscoverRequest {
    /// Settings of the ExtensionConfig with those of the patch laid over them.
    #[serde(default, deserialize_with = "or_default")]
    pub settings: BTreeMap<String, String>,
}

/// One variable.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Variable {
    /// Its name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Its value, of any form.
    #[serde(default)]
    pub value: Value,
}

/// One template and where its object is used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Item {
    /// Opaque, new in every call, repeated in the answer.
    #[serde(default, deserialize_with = "or_default")]
    pub uid: String,
    /// The object whose field refers to what is made of the template.
    #[serde(default, rename = "holderReference", deserialize_with = "or_default")]
    pub holder: Holder,
    /// The template.
    #[serde(default, deserialize_with = "or_default")]
    pub object: Template,
    /// Variables of this template, laid over those of all.
    #[serde(default, deserialize_with = "or_default")]
    pub variables: Vec<Variable>,
}

/// The field that refers to the object of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Holder {
    /// Kind of the referring object.
    #[serde(default, deserialize_with = "or_default")]
    pub kind: String,
    /// Its namespace.
    #[serde(default, deserialize_with = "or_default")]
    pub namespace: String,
    /// Its name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// The referring field.
    #[serde(default, rename = "fieldPath", deserialize_with = "or_default")]
    pub field_path: String,
}

/// The parts of a template that matter here.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawTemplate")]
pub struct Template {
    /// Its kind.
    pub kind: String,
    /// Its name, which the ClusterClass gives and which therefore stays the same.
    pub name: String,
    /// Its spec, null when absent.
    pub spec: Value,
}

#[derive(Deserialize)]
struct RawTemplate {
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
    #[serde(default, deserialize_with = "or_default")]
    metadata: RawMetadata,
    #[serde(default)]
    spec: Value,
}

#[derive(Default, Deserialize)]
struct RawMetadata {
    #[serde(default, deserialize_with = "soft")]
    name: Option<String>,
}

soft_structs!(Variable, Item, Holder, Template, RawMetadata);

impl From<RawTemplate> for Template {
    fn from(raw: RawTemplate) -> Self {
        Self { kind: raw.kind, name: raw.metadata.name.unwrap_or_default(), spec: raw.spec }
    }
}

impl TopologyRequest {
    /// What `builtin` holds for one of its top-level keys, for all templates alike.
    #[must_use]
    pub fn builtin(&self, key: &str) -> Option<&Value> {
        last(&self.variables, BUILTIN)?.get(key)
    }

    /// A variable of all templates.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&Value> {
        last(&self.variables, name)
    }
}

impl Item {
    /// What `builtin` holds for this template: its own keys laid over those of all templates.
    #[must_use]
    pub fn builtin<'a>(&'a self, request: &'a TopologyRequest, key: &str) -> Option<&'a Value> {
        last(&self.variables, BUILTIN).and_then(|own| own.get(key)).or_else(|| request.builtin(key))
    }

    /// A variable that is set for this template alone.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&Value> {
        last(&self.variables, name)
    }

    /// Whether the infrastructure cluster is made of this template. Kinds say nothing: providers name them as they like.
    #[must_use]
    pub fn is_infrastructure_cluster(&self) -> bool {
        self.holder.kind == "Cluster" && self.holder.field_path == "spec.infrastructureRef"
    }
}

impl Template {
    /// How messages call the template.
    #[must_use]
    pub fn title(&self) -> String {
        let kind = if self.kind.is_empty() { "template" } else { &self.kind };
        if self.name.is_empty() { kind.to_owned() } else { format!("{kind}/{}", self.name) }
    }
}

/// Of several variables of one name Cluster API takes the last.
fn last<'a>(variables: &'a [Variable], name: &str) -> Option<&'a Value> {
    variables.iter().rev().find(|variable| variable.name == name).map(|variable| &variable.value)
}

/// Reads a request for patches.
///
/// # Errors
/// Says why the body is none.
pub fn parse_generate(body: &[u8]) -> Result<GenerateRequest, String> {
    let request: TopologyRequest = parse(body)?;
    match request.items.iter().position(|item| item.uid.is_empty()) {
        Some(number) => Err(format!("the request cannot be read: items[{number}].uid is missing")),
        None => Ok(request),
    }
}

/// Reads a request to judge the patched templates.
///
/// # Errors
/// Says why the body is none.
pub fn parse_validate(body: &[u8]) -> Result<ValidateRequest, String> {
    parse(body)
}

/// Reads a request for the definitions of variables.
///
/// # Errors
/// Says why the body is none.
pub fn parse_discover(body: &[u8]) -> Result<DiscoverRequest, String> {
    parse(body)
}

/// The position of an error is left out of the text: it moves with every change of any template.
fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| {
        let problem = if error.is_data() { "it is not an object of the expected form" } else { "it is not valid JSON" };
        format!("the request cannot be read: {problem}")
    })
}

/// How a patch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
}

impl PatchType {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "JSONPatch",
            Self::Merge => "JSONMergePatch",
        }
    }
}

/// One patch of one template.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// The uid of the template's item.
    pub uid: String,
    /// How the patch is written.
    pub patch_type: PatchType,
    /// The patch.
    pub patch: Value,
}

/// A success; a failure is written alike for all hooks.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Success<'a> {
    api_version: &'static str,
    kind: &'static str,
    status: &'static str,
    message: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<Encoded<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variables: Option<Vec<Value>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Encoded<'a> {
    uid: &'a str,
    patch_type: &'static str,
    patch: String,
}

impl<'a> Encoded<'a> {
    fn of(patch: &'a Patch) -> Self {
        let text = STANDARD.encode(patch.patch.to_string());
        Self { uid: &patch.uid, patch_type: patch.patch_type.as_str(), patch: text }
    }
}

impl Success<'_> {
    const fn of(kind: &'static str) -> Self {
        Self { api_version: API_VERSION, kind, status: "Success", message: "", items: None, variables: None }
    }

    fn json(&self) -> Bytes {
        // A struct of texts and lists has no value that serde_json refuses.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// The whole answer to a request for patches.
#[must_use]
pub fn answer_generate(result: Result<&[Patch], &str>) -> Bytes {
    match result {
        Ok(patches) => {
            let items = Some(patches.iter().map(Encoded::of).collect());
            Success { items, ..Success::of("GeneratePatchesResponse") }.json()
        }
        Err(message) => failure(Hook::GeneratePatches, message),
    }
}

/// The whole answer to a request to judge the patched templates.
#[must_use]
pub fn answer_validate(result: Result<(), &str>) -> Bytes {
    match result {
        Ok(()) => Success::of("ValidateTopologyResponse").json(),
        Err(message) => failure(Hook::ValidateTopology, message),
    }
}

/// The whole answer to a request for the definitions of variables.
#[must_use]
pub fn answer_discover(result: Result<&[Definition], &str>) -> Bytes {
    match result {
        Ok(definitions) => {
            let variables = Some(definitions.iter().copied().map(Definition::to_json).collect());
            Success { variables, ..Success::of("DiscoverVariablesResponse") }.json()
        }
        Err(message) => failure(Hook::DiscoverVariables, message),
    }
}
