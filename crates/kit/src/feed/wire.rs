//! An object as it came: who it is, and its text, which each feed reads its own way.
//!
//! The machinery of watching is the same for all kinds. What only passes objects on does not need to know their shape, and
//! is compiled once.

use std::borrow::Cow;

use api::key::ObjectKey;
use kube::Resource;
use kube::api::{ApiResource, ObjectMeta};
use kube::core::DynamicResourceScope;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Version;

/// An object, not read yet.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) key: ObjectKey,
    pub(super) version: Version,
    text: Box<RawValue>,
}

impl Letter {
    /// Reads it as a `K`.
    pub(super) fn read<K: DeserializeOwned>(&self) -> Result<K, serde_json::Error> {
        serde_json::from_str(self.text.get())
    }
}

/// A letter on its way through kube, which asks for metadata. `PART`: the server is to send nothing else.
#[derive(Clone, Debug)]
pub(super) struct Wire<const PART: bool> {
    metadata: ObjectMeta,
    text: Box<RawValue>,
}

impl<const PART: bool> From<Wire<PART>> for Letter {
    fn from(wire: Wire<PART>) -> Self {
        Self { key: ObjectKey::of(&wire), version: Version::of(&wire), text: wire.text }
    }
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(default, borrow)]
    metadata: Option<Name<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Name<'a> {
    #[serde(default, borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    resource_version: Option<Cow<'a, str>>,
}

impl<'de, const PART: bool> Deserialize<'de> for Wire<PART> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let head: Head<'_> = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let name = head.metadata.unwrap_or_default();
        let metadata = ObjectMeta {
            name: name.name.map(Cow::into_owned),
            namespace: name.namespace.map(Cow::into_owned),
            uid: name.uid.map(Cow::into_owned),
            resource_version: name.resource_version.map(Cow::into_owned),
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, text })
    }
}

impl<const PART: bool> Resource for Wire<PART> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(address: &ApiResource) -> Cow<'_, str> {
        address.kind.as_str().into()
    }
    fn group(address: &ApiResource) -> Cow<'_, str> {
        address.group.as_str().into()
    }
    fn version(address: &ApiResource) -> Cow<'_, str> {
        address.version.as_str().into()
    }
    fn plural(address: &ApiResource) -> Cow<'_, str> {
        address.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
    fn metadata_api() -> bool {
        PART
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::api::{ObjectList, WatchEvent};

    #[derive(Deserialize, PartialEq, Debug)]
    struct Size {
        size: u32,
    }

    const OBJECT: &str = r#"{"apiVersion":"v1","metadata":{"name":"a\u0062","namespace":"ns","uid":"u","resourceVersion":"7",
        "labels":{"l":"1"},"managedFields":[{"manager":"m"}]},"size":3}"#;

    fn is_the_object(letter: &Letter) {
        assert_eq!(letter.key, ObjectKey::namespaced("ns", "ab"));
        assert_eq!((&*letter.version.uid, &*letter.version.resource_version), ("u", "7"));
        assert_eq!(letter.read::<Size>().unwrap(), Size { size: 3 });
    }

    #[test]
    fn objects_of_lists_and_of_watches_are_passed_on_unread() {
        let list = format!(r#"{{"apiVersion":"v1","kind":"SizeList","metadata":{{}},"items":[{OBJECT}]}}"#);
        let list: ObjectList<Wire<false>> = serde_json::from_str(&list).unwrap();
        is_the_object(&list.items[0].clone().into());
        let event = format!(r#"{{"type":"ADDED","object":{OBJECT}}}"#);
        let WatchEvent::Added(wire) = serde_json::from_str::<WatchEvent<Wire<true>>>(&event).unwrap() else {
            panic!("no addition");
        };
        is_the_object(&wire.into());
    }

    #[test]
    fn what_cannot_be_read_says_so_only_when_it_is_read() {
        let wire: Wire<false> = serde_json::from_str(r#"{"metadata":{"name":"a"},"size":"three"}"#).unwrap();
        let error = Letter::from(wire).read::<Size>().unwrap_err();
        assert!(error.to_string().contains("invalid type: string"), "{error}");
        let nobody: Wire<false> = serde_json::from_str(r#"{"metadata":null}"#).unwrap();
        assert_eq!(Letter::from(nobody).key.name(), "");
    }
}
