//! The key of an object of a known kind: its namespace, if it has one, and its name.

use std::fmt;
use std::str::FromStr;

use kube::Resource;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Namespace and name of an object; prints and parses as `namespace/name`, or `name` for cluster-scoped objects.
///
/// Boxed strings instead of `String` keep it at four words, because feeds and queues hold one per object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    namespace: Option<Box<str>>,
    name: Box<str>,
}

impl ObjectKey {
    /// The key of a cluster-scoped object.
    pub fn cluster_scoped(name: impl Into<Box<str>>) -> Self {
        Self { namespace: None, name: name.into() }
    }

    /// The key of a namespaced object.
    pub fn namespaced(namespace: impl Into<Box<str>>, name: impl Into<Box<str>>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// The key of an object as the server sent it; an object that has no name yet gives an empty one.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.as_deref().filter(|n| !n.is_empty()).map(Into::into),
            name: meta.name.as_deref().unwrap_or_default().into(),
        }
    }

    /// The namespace, absent for cluster-scoped objects.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A text that is neither `name` nor `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected \"name\" or \"namespace/name\", got {0:?}")]
pub struct KeyError(String);

impl FromStr for ObjectKey {
    type Err = KeyError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let bad = || KeyError(s.chars().take(128).collect());
        let (namespace, name) = match s.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, s),
        };
        if name.is_empty() || name.contains('/') || namespace.is_some_and(str::is_empty) {
            return Err(bad());
        }
        Ok(Self { namespace: namespace.map(Into::into), name: name.into() })
    }
}

impl Serialize for ObjectKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use proptest::prelude::*;

    #[test]
    fn the_key_of_an_object_is_its_namespace_and_name() {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".into());
        map.metadata.namespace = Some("ns".into());
        assert_eq!(ObjectKey::of(&map), ObjectKey::namespaced("ns", "a"));
        assert_eq!(ObjectKey::of(&map).to_string(), "ns/a");
        let mut ns = Namespace::default();
        ns.metadata.name = Some("n".into());
        assert_eq!(ObjectKey::of(&ns), ObjectKey::cluster_scoped("n"));
        assert_eq!(ObjectKey::of(&ns).to_string(), "n");
    }

    #[test]
    fn keys_with_empty_or_extra_parts_are_refused_by_name() {
        for bad in ["", "/", "a/", "/a", "a/b/c", "a//b"] {
            let error = bad.parse::<ObjectKey>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
    }

    #[test]
    fn cluster_scoped_keys_sort_before_namespaced_ones_and_then_by_namespace() {
        let mut keys: Vec<ObjectKey> = ["b/a", "z", "a/z", "a/b"].iter().map(|k| k.parse().unwrap()).collect();
        keys.sort();
        assert_eq!(keys.iter().map(ToString::to_string).collect::<Vec<_>>(), ["z", "a/b", "a/z", "b/a"]);
    }

    proptest! {
        #[test]
        fn printing_then_parsing_gives_the_same_key(ns in proptest::option::of("[a-z0-9-]{1,63}"), name in "[a-z0-9.-]{1,80}") {
            let key = match ns { Some(ns) => ObjectKey::namespaced(ns, name), None => ObjectKey::cluster_scoped(name) };
            prop_assert_eq!(key.to_string().parse::<ObjectKey>().unwrap(), key.clone());
            let json = serde_json::to_string(&key).unwrap();
            prop_assert_eq!(serde_json::from_str::<ObjectKey>(&json).unwrap(), key);
        }

        #[test]
        fn any_text_that_parses_prints_back_unchanged(text in "\\PC{0,40}") {
            if let Ok(key) = text.parse::<ObjectKey>() { prop_assert_eq!(key.to_string(), text); }
        }
    }
}
