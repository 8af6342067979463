//! What a version cannot say, noted in an annotation: a list of places and what stands there.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{CONVERSION_ANNOTATION, Version};

/// A place, and what stands there; nothing when the place is to be empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
    path: Vec<Step>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "something")]
    is: Option<Value>,
}

/// A null that is written down is something.
fn something<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A step on the way to a place: a field or an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Step {
    Item(usize),
    Field(String),
}

#[derive(Serialize, Deserialize)]
struct Note {
    version: String,
    places: Vec<Place>,
}

fn annotations(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}

/// Takes the note off an object, and gives what it says about the wanted version.
pub(super) fn take(object: &mut Value, wanted: Version) -> Vec<Place> {
    let Some(all) = annotations(object) else { return Vec::new() };
    let Some(text) = all.remove(CONVERSION_ANNOTATION) else { return Vec::new() };
    if all.is_empty()
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.remove("annotations");
    }
    let note = text.as_str().and_then(|text| serde_json::from_str::<Note>(text).ok());
    note.filter(|note| note.version == wanted.name()).map(|note| note.places).unwrap_or_default()
}

/// Notes on an object what it cannot say of the other version.
pub(super) fn put(object: &mut Value, other: Version, places: &[Place]) {
    if places.is_empty() {
        return;
    }
    let note = Note { version: other.name().to_owned(), places: places.to_vec() };
    let (Ok(text), Some(object)) = (serde_json::to_string(&note), object.as_object_mut()) else { return };
    let metadata = child(object, "metadata");
    let annotations = metadata.and_then(|metadata| child(metadata, "annotations"));
    if let Some(annotations) = annotations {
        annotations.insert(CONVERSION_ANNOTATION.to_owned(), Value::from(text));
    }
}

/// The object in a field, made if there is none.
pub(super) fn child<'o>(object: &'o mut Map<String, Value>, field: &str) -> Option<&'o mut Map<String, Value>> {
    let value = object.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// The object with what was noted put back: all of it, or as much of it as is still true.
pub(super) fn restored(plain: Value, places: &[Place], is_true: impl Fn(&Value) -> bool) -> Value {
    let mut all = plain.clone();
    if places.iter().all(|place| place.fill(&mut all)) && is_true(&all) {
        return all;
    }
    let mut some = plain;
    for place in places {
        let mut candidate = some.clone();
        if place.fill(&mut candidate) && is_true(&candidate) {
            some = candidate;
        }
    }
    some
}

impl Place {
    /// Puts back what stood here; false when the way to the place is gone, or leads out of spec and status.
    fn fill(&self, object: &mut Value) -> bool {
        let inside = matches!(self.path.first(), Some(Step::Field(part)) if part == "spec" || part == "status");
        let Some((last, way)) = self.path.split_last().filter(|(_, way)| inside && !way.is_empty()) else {
            return false;
        };
        let parent = way.iter().try_fold(object, |value, step| match step {
            Step::Field(name) => value.as_object_mut()?.get_mut(name),
            Step::Item(number) => value.as_array_mut()?.get_mut(*number),
        });
        match (parent, last) {
            (Some(Value::Object(fields)), Step::Field(name)) => {
                match &self.is {
                    Some(value) => fields.insert(name.clone(), value.clone()),
                    None => fields.remove(name),
                };
                true
            }
            (Some(Value::Array(items)), Step::Item(number)) => match (items.get_mut(*number), &self.is) {
                (Some(item), Some(value)) => {
                    *item = value.clone();
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }
}

/// Where the wanted object differs, and how.
pub(super) fn difference(from: &Value, wanted: &Value) -> Vec<Place> {
    let mut places = Vec::new();
    collect(Some(from), Some(wanted), &mut Vec::new(), &mut places);
    places
}

fn collect(from: Option<&Value>, wanted: Option<&Value>, path: &mut Vec<Step>, places: &mut Vec<Place>) {
    match (from, wanted) {
        (from, wanted) if from == wanted => {}
        (Some(Value::Object(from)), Some(Value::Object(wanted))) => {
            let gone = from.keys().filter(|name| !wanted.contains_key(*name));
            for name in gone.chain(wanted.keys()) {
                path.push(Step::Field(name.clone()));
                collect(from.get(name), wanted.get(name), path, places);
                path.pop();
            }
        }
        (Some(Value::Array(from)), Some(Value::Array(wanted))) if from.len() == wanted.len() => {
            for (number, (from, wanted)) in from.iter().zip(wanted).enumerate() {
                path.push(Step::Item(number));
                collect(Some(from), Some(wanted), path, places);
                path.pop();
            }
        }
        (_, wanted) => places.push(Place { path: path.clone(), is: wanted.cloned() }),
    }
}
