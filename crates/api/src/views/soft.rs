//! Decoding that never fails because of one field.
//!
//! Each field is offered whatever the wire holds and takes it or leaves it. Nothing is buffered: a value nobody wants is
//! skipped by the parser, so leniency costs neither memory nor a second pass.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A type that takes the one form it knows and leaves every other.
pub trait Soft: Sized {
    /// Takes a truth value.
    fn from_bool(_: bool) -> Option<Self> {
        None
    }
    /// Takes an integer.
    fn from_int(_: i64) -> Option<Self> {
        None
    }
    /// Takes a number that is no integer, or too large for one.
    fn from_float(_: f64) -> Option<Self> {
        None
    }
    /// Takes a text.
    fn from_text(_: &str) -> Option<Self> {
        None
    }
    /// Takes a list, or skips it.
    fn from_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<Option<Self>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
    /// Takes a map, or skips it.
    fn from_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// Reads what fits, and nothing otherwise; for `#[serde(default, deserialize_with)]` on `Option` fields.
pub fn soft<'de, D: Deserializer<'de>, T: Soft>(deserializer: D) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(SoftVisitor(PhantomData))
}

/// Reads what fits, and the default otherwise.
pub fn or_default<'de, D: Deserializer<'de>, T: Soft + Default>(deserializer: D) -> Result<T, D::Error> {
    soft(deserializer).map(Option::unwrap_or_default)
}

/// Reads a text that is not empty; Go's `omitempty` makes absent and empty the same thing.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    soft(deserializer).map(|t| t.filter(|t: &String| !t.is_empty()))
}

struct SoftVisitor<T>(PhantomData<T>);

impl<'de, T: Soft> Visitor<'de> for SoftVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }
    fn visit_bool<E>(self, v: bool) -> Result<Option<T>, E> {
        Ok(T::from_bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Option<T>, E> {
        Ok(T::from_int(v))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Option<T>, E> {
        Ok(i64::try_from(v).ok().and_then(T::from_int))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Option<T>, E> {
        Ok(T::from_float(v))
    }
    fn visit_str<E>(self, v: &str) -> Result<Option<T>, E> {
        Ok(T::from_text(v))
    }
    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }
    fn visit_none<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        soft(deserializer)
    }
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        soft(deserializer)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Option<T>, A::Error> {
        T::from_seq(seq)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
        T::from_map(map)
    }
}

/// An element of a list or map, read softly.
struct Element<T>(Option<T>);

impl<'de, T: Soft> Deserialize<'de> for Element<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        soft(deserializer).map(Self)
    }
}

impl Soft for bool {
    fn from_bool(v: bool) -> Option<Self> {
        Some(v)
    }
}

impl Soft for i64 {
    fn from_int(v: i64) -> Option<Self> {
        Some(v)
    }
}

impl Soft for i32 {
    fn from_int(v: i64) -> Option<Self> {
        v.try_into().ok()
    }
}

impl Soft for String {
    fn from_text(v: &str) -> Option<Self> {
        Some(v.to_owned())
    }
}

impl Soft for Time {
    fn from_text(v: &str) -> Option<Self> {
        v.parse().ok().map(Self)
    }
}

impl<T: Soft> Soft for Vec<T> {
    fn from_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<Option<Self>, A::Error> {
        let mut all = Self::new();
        while let Some(Element(element)) = seq.next_element()? {
            all.extend(element);
        }
        Ok(Some(all))
    }
}

impl<T: Soft> Soft for BTreeMap<String, T> {
    fn from_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let mut all = Self::new();
        while let Some((key, Element(element))) = map.next_entry()? {
            if let Some(element) = element {
                all.insert(key, element);
            }
        }
        Ok(Some(all))
    }
}

/// Free-form parts are kept as they are.
impl Soft for Value {
    fn from_bool(v: bool) -> Option<Self> {
        Some(v.into())
    }
    fn from_int(v: i64) -> Option<Self> {
        Some(v.into())
    }
    fn from_float(v: f64) -> Option<Self> {
        Some(v.into())
    }
    fn from_text(v: &str) -> Option<Self> {
        Some(v.into())
    }
    fn from_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<Option<Self>, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = seq.next_element()? {
            all.push(element);
        }
        Ok(Some(Self::Array(all)))
    }
    fn from_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let mut all = serde_json::Map::new();
        while let Some((key, value)) = map.next_entry()? {
            all.insert(key, value);
        }
        Ok(Some(Self::Object(all)))
    }
}

/// Makes structs whose fields are all soft, soft themselves: anything but a map is left.
#[macro_export]
macro_rules! soft_structs {
    ($($ty:ty),+ $(,)?) => {$(
        impl $crate::views::soft::Soft for $ty {
            fn from_map<'de, A: ::serde::de::MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
                <Self as ::serde::Deserialize>::deserialize(::serde::de::value::MapAccessDeserializer::new(map)).map(Some)
            }
        }
    )+};
}
pub use soft_structs;
