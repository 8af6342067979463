//! Objects of these kinds in their two versions, v1beta1 and v1beta2, one made of the other.
//!
//! Works on JSON, so that fields nobody knows stay where they are. Each version can say something that the other cannot:
//! that is noted in an annotation of the converted object, and put back when it is converted again. What is put back can
//! only be what the object in between could not say: whoever changes the object, or writes the note himself, gets what
//! the object says.

mod kinds;
mod note;

use serde_json::Value;

pub(super) use kinds::{FROM_POOLS, REFERENCE_FIELDS};

/// The version that is stored.
pub const HUB: &str = "v1beta2";
/// The version for older users.
pub const OLD: &str = "v1beta1";
/// Annotation on a converted object: what its version cannot say.
pub const CONVERSION_ANNOTATION: &str = "machines.berth.dev/conversion";

const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// Why an object cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// It has no kind and version.
    #[error("the object says neither its kind nor its version")]
    Nameless,
    /// Nobody knows how.
    #[error("{from} {kind} cannot be converted to {to}")]
    Unknown {
        /// The kind of the object.
        kind: String,
        /// Group and version of the object.
        from: String,
        /// Group and version that were asked for.
        to: String,
    },
}

/// A version of the kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Hub,
    Old,
}

impl Version {
    fn read(api_version: &str) -> Option<Self> {
        match api_version.strip_prefix(GROUP)?.strip_prefix('/')? {
            HUB => Some(Self::Hub),
            OLD => Some(Self::Old),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Hub => HUB,
            Self::Old => OLD,
        }
    }
}

/// The object as the asked group and version has it.
///
/// # Errors
/// When its kind or one of the versions is not one of these.
pub fn convert(object: &Value, to: &str) -> Result<Value, ConvertError> {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    let (Some(kind), Some(from)) = (text("kind"), text("apiVersion")) else { return Err(ConvertError::Nameless) };
    let unknown = || ConvertError::Unknown { kind: kind.to_owned(), from: from.to_owned(), to: to.to_owned() };
    let step = kinds::step(kind).ok_or_else(unknown)?;
    let (Some(source), Some(target)) = (Version::read(from), Version::read(to)) else { return Err(unknown()) };
    if source == target {
        return Ok(object.clone());
    }
    let go = |object: &Value, version: Version| {
        let mut object = object.clone();
        if let Value::Object(fields) = &mut object {
            step(fields, version);
            fields.insert("apiVersion".to_owned(), Value::from(format!("{GROUP}/{}", version.name())));
        }
        object
    };
    let mut said = object.clone();
    let noted = note::take(&mut said, target);
    let plain = go(&said, target);
    let back = go(&plain, source);
    let mut result = note::restored(plain, &noted, |candidate| {
        let seen = go(candidate, source);
        seen == said || seen == back
    });
    let lost = note::difference(&go(&result, source), &said);
    note::put(&mut result, source, &lost);
    Ok(result)
}

#[cfg(test)]
mod tests;
