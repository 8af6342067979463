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

impl Fix {
    /// Something that no one command does.
    #[must_use]
    pub fn say(what: impl Into<String>) -> Self {
        Self { what: what.into(), command: None }
    }

    /// Something that a command does.
    #[must_use]
    pub fn run(what: impl Into<String>, command: impl Into<String>) -> Self {
        Self { what: what.into(), command: Some(command.into()) }
    }
}

/// A word for a shell: what others wrote into objects must stay one word, whatever it is.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// How much of a kind was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What lies in other namespaces.
    Elsewhere,
    /// All of it.
    All,
    /// Nothing, because the server does not know the kind: there is none.
    Absent,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen<P> {
    /// What.
    pub part: P,
    /// How much of it.
    pub extent: Extent,
    /// Why, and what would help.
    pub why: String,
}

/// Whether nothing at all of a kind was read.
#[must_use]
pub fn is_blind<P: PartialEq>(unseen: &[Unseen<P>], part: &P) -> bool {
    unseen.iter().any(|unseen| unseen.part == *part && unseen.extent == Extent::All)
}

/// Whether some of a kind was not read.
#[must_use]
pub fn misses<P: PartialEq>(unseen: &[Unseen<P>], part: &P) -> bool {
    unseen.iter().any(|unseen| unseen.part == *part && unseen.extent != Extent::Absent)
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
    fn what_others_wrote_stays_one_word_of_a_shell() {
        assert_eq!(quoted("a/b=c,d"), "a/b=c,d");
        for bad in ["a b", "$(rm)", "a;b", "", "a\nb", "it's"] {
            let quoted = quoted(bad);
            assert!(quoted.starts_with('\'') && quoted.ends_with('\''), "{quoted}");
        }
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn what_the_server_does_not_know_is_not_missed() {
        let unseen = |part, extent| Unseen { part, extent, why: String::new() };
        let all = [unseen('a', Extent::All), unseen('b', Extent::Elsewhere), unseen('c', Extent::Absent)];
        assert_eq!(['a', 'b', 'c', 'd'].map(|part| misses(&all, &part)), [true, true, false, false]);
        assert_eq!(['a', 'b', 'c', 'd'].map(|part| is_blind(&all, &part)), [true, false, false, false]);
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
