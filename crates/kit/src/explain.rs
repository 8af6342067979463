//! What a room can say about one object: an explanation, and its place in a tree.
//!
//! Rooms fill these values in and command lines draw them. Their JSON form is read by programs: fields are added, never
//! renamed or taken away.

use api::key::ObjectKey;
use serde::Serialize;

/// How things stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It will be, without anybody's help.
    Waiting,
    /// Somebody has to do something.
    Problem,
    /// Nothing is wanted here.
    #[default]
    Aside,
    /// It cannot be seen.
    Unknown,
}

/// An object by its kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Object {
    /// Kind.
    pub kind: String,
    /// Namespace; none for a cluster-scoped object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl Object {
    /// The object of a kind with this key.
    #[must_use]
    pub fn new(kind: impl Into<String>, key: &ObjectKey) -> Self {
        Self { kind: kind.into(), namespace: key.namespace().map(str::to_owned), name: key.name().to_owned() }
    }

    /// `namespace/name`, or the name alone.
    #[must_use]
    pub fn path(&self) -> String {
        self.namespace.as_ref().map_or_else(|| self.name.clone(), |namespace| format!("{namespace}/{}", self.name))
    }
}

/// A name and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What it is.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

/// Why an object is as it is, and what comes next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The object.
    pub object: Object,
    /// How things stand with all of it.
    pub level: Level,
    /// The answer in one sentence.
    pub summary: String,
    /// What the judgement rests on.
    pub facts: Vec<Fact>,
    /// What the object needs, each with its candidates.
    pub needs: Vec<Need>,
    /// What Berth would do next.
    pub next: Vec<Next>,
    /// What a person can do, the most promising first.
    pub fixes: Vec<Fix>,
    /// What could not be seen, so that the rest may be wrong about it.
    pub unseen: Vec<String>,
}

/// One thing that an object needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Need {
    /// What it is.
    pub name: String,
    /// How things stand with it.
    pub level: Level,
    /// The reason as it stands in conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// How it stands, in one sentence.
    pub sentence: String,
    /// Whether the object cannot go on without it.
    pub required: bool,
    /// What is known of it.
    pub facts: Vec<Fact>,
    /// Where it could come from, the best first, then those that cannot be used.
    pub candidates: Vec<Candidate>,
}

/// Something a need could be met by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// The object.
    pub object: Object,
    /// Its place among those that can be used, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// The criterion it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fails: Option<&'static str>,
    /// More about its place or its failure.
    pub detail: String,
    /// How much of it is left, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<i64>,
    /// How much of it there is, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
}

/// One thing Berth would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Next {
    /// The part of Berth that would do it.
    pub by: &'static str,
    /// What it would do.
    pub what: String,
}

/// One thing a person can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// What to do.
    pub what: String,
    /// The command for it, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// One object of a tree, with what hangs on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The object.
    pub object: Object,
    /// How things stand with it.
    pub level: Level,
    /// What to know of it.
    pub note: String,
    /// What hangs on it.
    pub children: Vec<Node>,
}

impl Node {
    /// An object without children.
    #[must_use]
    pub fn new(object: Object, level: Level, note: impl Into<String>) -> Self {
        Self { object, level, note: note.into(), children: Vec::new() }
    }

    /// The same with these children.
    #[must_use]
    pub fn with(self, children: Vec<Self>) -> Self {
        Self { children, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_written_as_people_name_it() {
        let key = ObjectKey::namespaced("team-a", "prod");
        assert_eq!(Object::new("Cluster", &key).path(), "team-a/prod");
        assert_eq!(Object::new("Pool", &ObjectKey::cluster_scoped("vips")).path(), "vips");
    }

    #[test]
    fn what_is_not_known_is_left_out_of_the_document() {
        let object = Object::new("Pool", &ObjectKey::cluster_scoped("vips"));
        let pool =
            Candidate { object, rank: None, fails: Some("class"), detail: String::new(), free: None, total: None };
        let document = serde_json::to_value(&pool).unwrap();
        assert_eq!(
            document,
            serde_json::json!({"object": {"kind": "Pool", "name": "vips"}, "fails": "class", "detail": ""})
        );
    }
}
