//! Parts that several Cluster API kinds share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use super::soft::{or_default, soft, soft_structs, text};

/// A reference to an object in the namespace of the object that holds it.
///
/// Neither version nor namespace are kept: the newer API has neither, and the older one demands that the namespace be the
/// same. A reference without a name is no reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// API group, empty for core kinds.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// The wire form of a reference: `apiVersion` in the older API and in templates, `apiGroup` in the newer one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawRef {
    #[serde(default, deserialize_with = "text")]
    api_version: Option<String>,
    #[serde(default, deserialize_with = "text")]
    api_group: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
    #[serde(default, deserialize_with = "text")]
    name: Option<String>,
    #[serde(default, deserialize_with = "text")]
    namespace: Option<String>,
}

impl RawRef {
    /// The namespace, which only the older API has.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(super) fn read(self) -> Option<ObjectRef> {
        let from_version = || {
            let version = self.api_version?;
            version.split_once('/').map(|(group, _)| group.to_owned())
        };
        let group = self.api_group.or_else(from_version).unwrap_or_default();
        Some(ObjectRef { group, kind: self.kind, name: self.name? })
    }
}

/// Reads an optional reference.
pub(super) fn read_ref(raw: Option<RawRef>) -> Option<ObjectRef> {
    raw.and_then(RawRef::read)
}

/// One condition, of the older or the newer form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionView {
    /// What the condition speaks of.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub type_: String,
    /// `True`, `False` or `Unknown`; any other text is kept.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    /// The reason, empty where the older form leaves it out.
    #[serde(default, deserialize_with = "or_default")]
    pub reason: String,
    /// The message, empty where the older form leaves it out.
    #[serde(default, deserialize_with = "or_default")]
    pub message: String,
    /// The severity, which only the older form has.
    #[serde(default, deserialize_with = "text")]
    pub severity: Option<String>,
    /// When the status last changed.
    #[serde(default, deserialize_with = "soft")]
    pub last_transition_time: Option<Time>,
    /// The generation the condition speaks of, which only the newer form has.
    #[serde(default, deserialize_with = "soft")]
    pub observed_generation: Option<i64>,
}

/// The conditions of an object, told apart by their form.
///
/// Objects of Cluster API before v1.9 have the older form only; their conditions are read as `current`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The conditions to decide on.
    pub current: Vec<ConditionView>,
    /// The conditions of the older contract, kept by Cluster API beside the others until it drops `v1beta1`.
    pub legacy: Vec<ConditionView>,
}

impl Conditions {
    /// The current condition of a type.
    pub fn get(&self, type_: &str) -> Option<&ConditionView> {
        self.current.iter().find(|c| c.type_ == type_)
    }

    /// Whether the current condition of a type is `True`.
    pub fn is_true(&self, type_: &str) -> bool {
        self.get(type_).is_some_and(|c| c.status == "True")
    }

    /// Conditions stand in three places, depending on the version: directly in the status, in `v1beta2` of an older
    /// object and in `deprecated.v1beta1` of a newer one.
    pub(super) fn read(
        direct: Vec<ConditionView>,
        newer: Option<Vec<ConditionView>>,
        older: Option<Vec<ConditionView>>,
    ) -> Self {
        match newer {
            Some(current) => Self { current, legacy: direct },
            None => Self { current: direct, legacy: older.unwrap_or_default() },
        }
    }
}

/// A failure that the older contract calls terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The reason.
    pub reason: Option<String>,
    /// The message.
    pub message: Option<String>,
}

impl Failure {
    pub(super) fn read(reason: Option<String>, message: Option<String>) -> Option<Self> {
        (reason.is_some() || message.is_some()).then_some(Self { reason, message })
    }
}

/// `status.v1beta2` of an older object: what the newer contract puts directly into the status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawNewer {
    #[serde(default, deserialize_with = "or_default")]
    pub conditions: Vec<ConditionView>,
    #[serde(default, deserialize_with = "soft")]
    pub ready_replicas: Option<i32>,
    #[serde(default, deserialize_with = "soft")]
    pub available_replicas: Option<i32>,
    #[serde(default, deserialize_with = "soft")]
    pub up_to_date_replicas: Option<i32>,
}

/// `status.deprecated` of a newer object.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RawDeprecated {
    #[serde(default, deserialize_with = "soft")]
    pub v1beta1: Option<RawOlder>,
}

/// `status.deprecated.v1beta1` of a newer object: what the older contract puts directly into the status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawOlder {
    #[serde(default, deserialize_with = "or_default")]
    pub conditions: Vec<ConditionView>,
    #[serde(default, deserialize_with = "text")]
    pub failure_reason: Option<String>,
    #[serde(default, deserialize_with = "text")]
    pub failure_message: Option<String>,
}

soft_structs!(RawRef, ConditionView, RawNewer, RawDeprecated, RawOlder);
