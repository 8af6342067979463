//! Object metadata without its bulk, and the pattern that makes a view a Kubernetes resource.

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, OwnerReference, Time};
pub use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
pub use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::de::{IgnoredAny, MapAccess};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::views::soft::{Soft, or_default, soft_structs};

/// The metadata fields decisions are made of; `managedFields` is not among them.
///
/// On a busy server `managedFields` is half of an object on the wire and nine tenths of it in memory. Clearing it after
/// decoding is too late, the heap has grown by then; a type that ignores it makes serde skip it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeanMeta<M = IgnoredAny> {
    name: Option<String>,
    generate_name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    managed_fields: M,
}

impl<M> LeanMeta<M> {
    fn into_meta(self) -> ObjectMeta {
        ObjectMeta {
            name: self.name,
            generate_name: self.generate_name,
            namespace: self.namespace,
            uid: self.uid,
            resource_version: self.resource_version,
            generation: self.generation,
            creation_timestamp: self.creation_timestamp,
            deletion_timestamp: self.deletion_timestamp,
            deletion_grace_period_seconds: self.deletion_grace_period_seconds,
            labels: self.labels,
            annotations: self.annotations,
            owner_references: self.owner_references,
            finalizers: self.finalizers,
            managed_fields: None,
            self_link: None,
        }
    }
}

/// An entry whose key alone counts.
#[derive(Debug, Default)]
struct Skipped;

impl Soft for Skipped {
    fn from_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Some(Self))
    }
}

/// Of `managedFields` only who owns which annotation: a few words instead of maps of maps.
#[derive(Debug, Default)]
struct Owned(Vec<RawOwner>);

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_default(deserializer).map(Self)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawOwner {
    #[serde(default, deserialize_with = "or_default")]
    manager: String,
    #[serde(default, deserialize_with = "or_default")]
    operation: String,
    #[serde(default, rename = "fieldsV1", deserialize_with = "or_default")]
    fields: RawFields,
}

#[derive(Debug, Default, Deserialize)]
struct RawFields {
    #[serde(default, rename = "f:metadata", deserialize_with = "or_default")]
    metadata: RawMetaFields,
}

#[derive(Debug, Default, Deserialize)]
struct RawMetaFields {
    #[serde(default, rename = "f:annotations", deserialize_with = "or_default")]
    annotations: BTreeMap<String, Skipped>,
}

/// Of `managedFields` only who owns a part of `data`.
#[derive(Debug, Default)]
struct Held(Vec<RawHolder>);

impl<'de> Deserialize<'de> for Held {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_default(deserializer).map(Self)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawHolder {
    #[serde(default, deserialize_with = "or_default")]
    manager: String,
    #[serde(default, rename = "fieldsV1", deserialize_with = "or_default")]
    fields: RawData,
}

#[derive(Debug, Default, Deserialize)]
struct RawData {
    #[serde(default, rename = "f:data", deserialize_with = "or_default")]
    data: BTreeMap<String, Skipped>,
}

soft_structs!(RawOwner, RawFields, RawMetaFields, RawHolder, RawData);

/// Who wrote an annotation last, or declares it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AnnotationOwner {
    /// The annotation.
    pub key: String,
    /// The field manager.
    pub manager: String,
    /// Whether the manager declares it by server-side apply and will do so again.
    pub applies: bool,
}

/// The owners of annotations, of metadata that was read by [`owned_meta`].
pub fn annotation_owners(meta: &ObjectMeta) -> Vec<AnnotationOwner> {
    let mut all = Vec::new();
    for entry in meta.managed_fields.iter().flatten() {
        let keys = entry.fields_v1.as_ref().and_then(|fields| fields.0.as_array());
        for key in keys.into_iter().flatten().filter_map(|key| key.as_str()) {
            all.push(AnnotationOwner {
                key: key.to_owned(),
                manager: entry.manager.clone().unwrap_or_default(),
                applies: entry.operation.as_deref() == Some("Apply"),
            });
        }
    }
    all
}

/// As [`lean_meta`], and keeps who owns which annotation, for [`annotation_owners`].
///
/// # Errors
/// Fails when a field of the metadata has the wrong type, which no API server sends.
pub fn owned_meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let lean = Option::<LeanMeta<Owned>>::deserialize(deserializer)?.unwrap_or_default();
    let entry = |owner: &RawOwner| {
        let keys: Vec<Value> = owner
            .fields
            .metadata
            .annotations
            .keys()
            .filter_map(|key| key.strip_prefix("f:").map(Value::from))
            .collect();
        (!keys.is_empty()).then(|| ManagedFieldsEntry {
            manager: Some(owner.manager.clone()),
            operation: Some(owner.operation.clone()),
            fields_v1: Some(FieldsV1(Value::Array(keys))),
            ..ManagedFieldsEntry::default()
        })
    };
    let owners: Vec<ManagedFieldsEntry> = lean.managed_fields.0.iter().filter_map(entry).collect();
    let mut meta = lean.into_meta();
    meta.managed_fields = (!owners.is_empty()).then_some(owners);
    Ok(meta)
}

/// As [`lean_meta`], and keeps who wrote something that `data` holds, for [`data_writers`].
///
/// # Errors
/// Fails when a field of the metadata has the wrong type, which no API server sends.
pub fn data_meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut lean = Option::<LeanMeta<Held>>::deserialize(deserializer)?.unwrap_or_default();
    let holds = |holder: &RawHolder| holder.fields.data.keys().any(|key| key.starts_with("f:"));
    let entry =
        |holder: RawHolder| ManagedFieldsEntry { manager: Some(holder.manager), ..ManagedFieldsEntry::default() };
    let writers: Vec<ManagedFieldsEntry> =
        std::mem::take(&mut lean.managed_fields.0).into_iter().filter(holds).map(entry).collect();
    let mut meta = lean.into_meta();
    meta.managed_fields = (!writers.is_empty()).then_some(writers);
    Ok(meta)
}

/// Who wrote something that `data` holds now, of metadata that was read by [`data_meta`].
pub fn data_writers(meta: &ObjectMeta) -> impl Iterator<Item = &str> {
    meta.managed_fields.iter().flatten().filter_map(|entry| entry.manager.as_deref())
}

/// Decodes `metadata` and skips `managedFields`; for `#[serde(deserialize_with)]`.
///
/// # Errors
/// Fails when a field of the metadata has the wrong type, which no API server sends.
pub fn lean_meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    Ok(Option::<LeanMeta>::deserialize(deserializer)?.unwrap_or_default().into_meta())
}

/// Decodes `metadata` as [`lean_meta`] does, and of `managedFields` the names of those who wrote, not what they wrote.
///
/// # Errors
/// Fails when a field of the metadata has the wrong type, which no API server sends.
pub fn managed_meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut meta = Option::<LeanMeta<Option<Vec<Manager>>>>::deserialize(deserializer)?.unwrap_or_default();
    let managers = meta.managed_fields.take().map(|managers| managers.into_iter().map(Manager::entry).collect());
    Ok(ObjectMeta { managed_fields: managers, ..meta.into_meta() })
}

/// Who wrote to an object, without what they wrote.
#[derive(Debug, Deserialize)]
struct Manager {
    manager: Option<String>,
    operation: Option<String>,
    subresource: Option<String>,
}

impl Manager {
    fn entry(self) -> ManagedFieldsEntry {
        let Self { manager, operation, subresource } = self;
        ManagedFieldsEntry { manager, operation, subresource, ..ManagedFieldsEntry::default() }
    }
}

/// Makes a struct with a `metadata: ObjectMeta` field a [`kube::Resource`] of a kind known at compile time.
///
/// ```
/// # use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
/// #[derive(Clone, Debug, serde::Deserialize)]
/// pub struct Widget {
///     #[serde(default, deserialize_with = "api::meta::lean_meta")]
///     pub metadata: ObjectMeta,
/// }
/// api::view! { Widget, group: "example.org", versions: ["v1", "v1beta1"], plural: "widgets", scope: Namespaced }
/// ```
///
/// The first version is the one requests go to; [`crate::meta::Versioned`] reads the same view at another one of the list.
/// After the scope may follow, in this order: `only: metadata` for a view of which the server is to send nothing else,
/// `labels: "…"` and `fields: "…"` for selectors of the objects that are followed.
#[macro_export]
macro_rules! view {
    ($ty:ident, group: $group:expr, versions: [$version:expr $(, $older:expr)*], plural: $plural:expr, scope: Namespaced
        $(, only: $part:ident)? $(, labels: $labels:expr)? $(, fields: $fields:expr)?) => {
        $crate::view!(@impl $ty, $group, [$version $(, $older)*], $version, $plural,
            $crate::meta::NamespaceResourceScope, true, ($($part)?), ($($labels)?), ($($fields)?));
    };
    ($ty:ident, group: $group:expr, versions: [$version:expr $(, $older:expr)*], plural: $plural:expr, scope: Cluster
        $(, only: $part:ident)? $(, labels: $labels:expr)? $(, fields: $fields:expr)?) => {
        $crate::view!(@impl $ty, $group, [$version $(, $older)*], $version, $plural,
            $crate::meta::ClusterResourceScope, false, ($($part)?), ($($labels)?), ($($fields)?));
    };
    (@only ()) => {};
    (@only (metadata)) => {
        fn metadata_api() -> bool {
            true
        }
    };
    (@impl $ty:ident, $group:expr, $versions:expr, $version:expr, $plural:expr, $scope:ty, $namespaced:expr,
        $part:tt, ($($labels:expr)?), ($($fields:expr)?)) => {
        impl $crate::meta::Resource for $ty {
            type DynamicType = ();
            type Scope = $scope;
            fn kind(_: &()) -> ::std::borrow::Cow<'_, str> {
                ::std::stringify!($ty).into()
            }
            fn group(_: &()) -> ::std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version(_: &()) -> ::std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural(_: &()) -> ::std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &$crate::meta::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut $crate::meta::ObjectMeta {
                &mut self.metadata
            }
            $crate::view!(@only $part);
        }
        impl $crate::meta::View for $ty {
            const VERSIONS: &'static [&'static str] = &$versions;
            const NAMESPACED: bool = $namespaced;
            $(const LABELS: &'static str = $labels;)?
            $(const FIELDS: &'static str = $fields;)?
        }
    };
}

/// What a view knows of its kind beyond [`Resource`].
pub trait View: Resource<DynamicType = ()> {
    /// The API versions whose shapes the view reads, the preferred one first.
    const VERSIONS: &'static [&'static str];
    /// Whether objects of the kind live in namespaces.
    const NAMESPACED: bool;
    /// The label selector of the objects that are followed; empty means all.
    const LABELS: &'static str = "";
    /// The field selector of the objects that are followed; empty means all.
    const FIELDS: &'static str = "";
}

/// A view at any address: the same shape read from whichever version a server serves.
///
/// Requests for it carry the address, so it is picked when discovery has answered: `v1beta1` of a Cluster on Cluster API
/// v1.10, `v1beta2` elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Versioned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

impl<T: Resource<DynamicType = ()>> Resource for Versioned<T> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(dt: &ApiResource) -> Cow<'_, str> {
        dt.kind.as_str().into()
    }
    fn group(dt: &ApiResource) -> Cow<'_, str> {
        dt.group.as_str().into()
    }
    fn version(dt: &ApiResource) -> Cow<'_, str> {
        dt.version.as_str().into()
    }
    fn plural(dt: &ApiResource) -> Cow<'_, str> {
        dt.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
    fn metadata_api() -> bool {
        T::metadata_api()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Clone, Debug, PartialEq, Deserialize)]
    struct Widget {
        #[serde(default, deserialize_with = "lean_meta")]
        metadata: ObjectMeta,
    }
    crate::view! { Widget, group: "example.org", versions: ["v1", "v1beta1"], plural: "widgets", scope: Namespaced }

    #[derive(Clone, Debug, Deserialize)]
    struct Part {
        metadata: ObjectMeta,
    }
    crate::view! { Part, group: "example.org", versions: ["v1"], plural: "parts", scope: Cluster,
    only: metadata, labels: "a=b", fields: "metadata.name!=c" }

    #[test]
    fn a_view_says_what_is_asked_of_the_server() {
        assert!(!Widget::metadata_api() && !Versioned::<Widget>::metadata_api());
        assert_eq!((Widget::LABELS, Widget::FIELDS), ("", ""));
        assert!(Part::metadata_api() && Versioned::<Part>::metadata_api());
        assert_eq!((Part::LABELS, Part::FIELDS), ("a=b", "metadata.name!=c"));
    }

    #[test]
    fn managed_fields_are_never_built_and_everything_else_is_kept() {
        let wire = json!({
            "apiVersion": "example.org/v1", "kind": "Widget",
            "metadata": {
                "name": "a", "generateName": "a-", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z",
                "deletionGracePeriodSeconds": 0, "labels": {"l": "1"}, "annotations": {"x": "2"}, "finalizers": ["f"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "ou", "controller": true}],
                "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {"f:a": {}}}}],
            },
        });
        let lean: Widget = serde_json::from_value(wire.clone()).unwrap();
        let mut full: ObjectMeta = serde_json::from_value(wire["metadata"].clone()).unwrap();
        assert!(full.managed_fields.take().is_some());
        assert_eq!(lean.metadata, full);
    }

    #[test]
    fn who_wrote_what_a_secret_holds_is_kept_and_who_wrote_beside_it_is_not() {
        #[derive(Deserialize)]
        struct Kept {
            #[serde(default, deserialize_with = "data_meta")]
            metadata: ObjectMeta,
        }
        let fields = json!([
            {"manager": "one", "operation": "Update", "fieldsV1": {"f:data": {".": {}, "f:userData": {}}, "f:type": {}}},
            {"manager": "two", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}}},
            {"manager": "three", "operation": "Update", "fieldsV1": {"f:data": {".": {}}}},
            {"manager": "four", "operation": "Update", "fieldsV1": "?"},
        ]);
        let kept: Kept = serde_json::from_value(json!({"metadata": {"name": "a", "managedFields": fields}})).unwrap();
        assert_eq!(data_writers(&kept.metadata).collect::<Vec<_>>(), ["one"]);
        let bare: Kept = serde_json::from_value(json!({"metadata": {"name": "a", "managedFields": null}})).unwrap();
        assert_eq!(data_writers(&bare.metadata).count(), 0);
    }

    #[test]
    fn managers_are_kept_by_name_where_they_are_asked_for() {
        #[derive(Deserialize)]
        struct Managed {
            #[serde(default, deserialize_with = "managed_meta")]
            metadata: ObjectMeta,
        }
        let fields =
            json!([{"manager": "m", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}}]);
        let managed: Managed =
            serde_json::from_value(json!({"metadata": {"name": "a", "managedFields": fields}})).unwrap();
        let entries = managed.metadata.managed_fields.unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].manager.as_deref(), entries[0].subresource.as_deref()), (Some("m"), Some("status")));
        assert_eq!(entries[0].fields_v1, None);
        assert_eq!(managed.metadata.name.as_deref(), Some("a"));
        let none: Managed = serde_json::from_value(json!({"metadata": {}})).unwrap();
        assert_eq!(none.metadata.managed_fields, None);
    }

    #[test]
    fn owners_of_annotations_are_kept_where_they_are_asked_for() {
        #[derive(Deserialize)]
        struct Owned {
            #[serde(default, deserialize_with = "owned_meta")]
            metadata: ObjectMeta,
        }
        let wire = json!({"metadata": {"name": "a", "annotations": {"x": "1"}, "managedFields": [
            {"manager": "capi-topology", "operation": "Apply", "fieldsV1": {
                "f:spec": {"f:a": {}}, "f:metadata": {"f:annotations": {".": {}, "f:x": {}, "f:y/z": {}}, "f:labels": {"f:l": {}}}}},
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:status": {}}},
            {"manager": "odd", "operation": 3, "fieldsV1": {"f:metadata": {"f:annotations": {"f:x": {"f:y": {}}}}}},
            7,
        ]}});
        let read: Owned = serde_json::from_value(wire).unwrap();
        let owner = |key: &str, manager: &str, applies| AnnotationOwner {
            key: key.to_owned(),
            manager: manager.to_owned(),
            applies,
        };
        let wanted = [owner("x", "capi-topology", true), owner("y/z", "capi-topology", true), owner("x", "odd", false)];
        assert_eq!(annotation_owners(&read.metadata), wanted);
        for wire in [json!({"metadata": {"managedFields": "no list"}}), json!({"metadata": null}), json!({})] {
            let read: Owned = serde_json::from_value(wire).unwrap();
            assert_eq!(read.metadata, ObjectMeta::default());
        }
    }

    #[test]
    fn even_managed_fields_of_the_wrong_type_are_skipped() {
        let lean: Widget =
            serde_json::from_value(json!({"metadata": {"name": "a", "managedFields": "no list"}})).unwrap();
        assert_eq!(lean.metadata.name.as_deref(), Some("a"));
    }

    #[test]
    fn missing_and_null_metadata_read_as_empty() {
        for wire in [json!({}), json!({"metadata": null}), json!({"metadata": {}})] {
            assert_eq!(serde_json::from_value::<Widget>(wire).unwrap().metadata, ObjectMeta::default());
        }
    }

    #[test]
    fn requests_for_a_view_go_to_its_preferred_or_the_named_version() {
        assert_eq!(Widget::url_path(&(), Some("ns")), "/apis/example.org/v1/namespaces/ns/widgets");
        let older = ApiResource {
            group: "example.org".to_owned(),
            version: "v1beta1".to_owned(),
            api_version: "example.org/v1beta1".to_owned(),
            kind: "Widget".to_owned(),
            plural: "widgets".to_owned(),
        };
        assert_eq!(Versioned::<Widget>::url_path(&older, None), "/apis/example.org/v1beta1/widgets");
        assert_eq!(Versioned::<Widget>::api_version(&older), "example.org/v1beta1");
        assert_eq!(Widget::VERSIONS, ["v1", "v1beta1"]);
        const { assert!(Widget::NAMESPACED) };
        let older: Versioned<Widget> = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert_eq!(older.meta().name.as_deref(), Some("a"));
    }
}
