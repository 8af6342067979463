//! Cuts the text of a list into the events of a watch, whatever the pieces in which it comes.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

/// Why a text is no whole list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    /// It ends in the middle.
    #[error("the list ends before it is complete")]
    CutShort,
    /// It goes on elsewhere.
    #[error("the list is only a part, and names no version to go on from")]
    Partial,
    /// It is no list.
    #[error("the answer is no list: {0}")]
    Garbled(String),
}

/// What the text is about at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// Neither of the others.
    #[default]
    Rest,
    /// The objects, one after the other.
    Items,
    /// What the list says of itself.
    Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    goes_on: Option<String>,
}

/// How far a list has been read.
#[derive(Debug, Default)]
pub(super) struct Split {
    part: Part,
    /// How many braces and brackets are open.
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The last string at the top, which is the key when a colon follows.
    word: Vec<u8>,
    /// What is being collected: an object, or the metadata of the list.
    held: Vec<u8>,
    metadata: Option<ListMeta>,
    complete: bool,
}

/// Where an object of the list begins, counted in braces and brackets.
const ITEM: u32 = 3;

impl Split {
    /// The events in the next piece of the text.
    pub(super) fn take(&mut self, piece: &[u8]) -> Result<Bytes, Broken> {
        let mut events = Vec::with_capacity(piece.len() + 64);
        // Where in this piece the bytes that are to be held begin.
        let mut from = 0;
        for (at, byte) in piece.iter().copied().enumerate() {
            if self.in_string {
                self.string(byte);
                continue;
            }
            match byte {
                b'"' => {
                    self.in_string = true;
                    if self.depth == 1 {
                        self.word.clear();
                    }
                }
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth == 2 && self.part == Part::Rest {
                        self.part = part(&self.word, byte);
                    }
                    if self.begins() {
                        from = at;
                    }
                }
                b'}' | b']' => {
                    self.depth =
                        self.depth.checked_sub(1).ok_or_else(|| Broken::Garbled("a bracket too many".into()))?;
                    match (self.part, self.depth) {
                        (Part::Items, depth) if depth == ITEM - 1 => {
                            self.hold(piece, from, at + 1);
                            self.event(&mut events);
                        }
                        (Part::Metadata, 1) => {
                            self.hold(piece, from, at + 1);
                            self.metadata = Some(self.read()?);
                            self.part = Part::Rest;
                        }
                        (_, 1) => self.part = Part::Rest,
                        (_, 0) => self.complete = true,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        if self.holds() {
            self.hold(piece, from, piece.len());
        }
        Ok(events.into())
    }

    /// The text has ended: the event that tells where the watch goes on.
    pub(super) fn end(&mut self) -> Result<Bytes, Broken> {
        let metadata = self.metadata.take().filter(|_| self.complete).ok_or(Broken::CutShort)?;
        let version = metadata.resource_version.filter(|version| !version.is_empty());
        let whole = metadata.goes_on.is_none_or(|token| token.is_empty());
        let version = version.filter(|_| whole).ok_or(Broken::Partial)?;
        let bookmark = json!({"apiVersion": "v1", "kind": "List",
            "metadata": {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}}});
        Ok(format!("{{\"type\":\"BOOKMARK\",\"object\":{bookmark}}}\n").into())
    }

    fn string(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ if self.depth == 1 => self.word.push(byte),
            _ => {}
        }
    }

    /// Whether the bracket that was just opened is the first byte of something that is held.
    fn begins(&self) -> bool {
        match self.part {
            Part::Items => self.depth == ITEM,
            Part::Metadata => self.depth == 2,
            Part::Rest => false,
        }
    }

    fn holds(&self) -> bool {
        match self.part {
            Part::Items => self.depth >= ITEM,
            Part::Metadata => self.depth >= 2,
            Part::Rest => false,
        }
    }

    fn hold(&mut self, piece: &[u8], from: usize, to: usize) {
        self.held.extend_from_slice(piece.get(from..to).unwrap_or_default());
    }

    fn event(&mut self, events: &mut Vec<u8>) {
        events.extend_from_slice(br#"{"type":"ADDED","object":"#);
        // A line is an event. Between the words of an object a break is no more than a blank, and within them there is none.
        events.extend(self.held.drain(..).map(|byte| if byte == b'\n' { b' ' } else { byte }));
        events.extend_from_slice(b"}\n");
    }

    fn read(&mut self) -> Result<ListMeta, Broken> {
        let read = serde_json::from_slice(&self.held).map_err(|error| Broken::Garbled(error.to_string()));
        self.held.clear();
        read
    }
}

fn part(word: &[u8], opened: u8) -> Part {
    match (word, opened) {
        (b"items", b'[') => Part::Items,
        (b"metadata", b'{') => Part::Metadata,
        _ => Part::Rest,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// The events of a text that comes in pieces of this size.
    fn split(text: &str, size: usize) -> Result<Vec<Value>, Broken> {
        let (mut split, mut events) = (Split::default(), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            events.extend_from_slice(&split.take(piece)?);
        }
        events.extend_from_slice(&split.end()?);
        let text = String::from_utf8(events).unwrap();
        Ok(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    fn object(name: &str) -> Value {
        json!({"metadata": {"name": name, "resourceVersion": "3"}, "items": [[{"metadata": {}}]], "spec": {"t": "}]\"\\{[\n"}})
    }

    fn list(names: &[&str]) -> Value {
        let items: Vec<Value> = names.iter().map(|name| object(name)).collect();
        json!({"apiVersion": "v1", "kind": "ThingList", "metadata": {"resourceVersion": "7"}, "items": items})
    }

    #[test]
    fn every_object_is_an_event_and_the_end_names_the_version() {
        // Keys in the order of structs, in that of maps, and with blanks and breaks in between.
        let (items, meta) =
            (json!([object("a"), object("ä")]), json!({"resourceVersion": "7", "remainingItemCount": null}));
        for text in [
            format!(r#"{{"kind":"L","apiVersion":"v1","metadata":{meta},"items":{items}}}"#),
            format!(r#"{{"apiVersion":"v1","items":{items},"kind":"L","metadata":{meta}}}{}"#, "\n"),
            serde_json::to_string_pretty(&list(&["a", "ä"])).unwrap(),
        ] {
            for size in [1, 2, 3, 7, 64, text.len()] {
                let events = split(&text, size).unwrap();
                let [a, b, end] = events.as_slice() else { panic!("{events:?}") };
                assert_eq!((&a["type"], &a["object"]), (&json!("ADDED"), &object("a")), "{size}");
                assert_eq!((&b["type"], &b["object"]), (&json!("ADDED"), &object("ä")), "{size}");
                assert_eq!(end["object"]["metadata"]["resourceVersion"], "7");
                assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
            }
        }
    }

    #[test]
    fn a_list_of_nothing_has_an_end() {
        for items in ["[]", "null"] {
            let text = format!(r#"{{"metadata":{{"resourceVersion":"7"}},"items":{items}}}"#);
            assert_eq!(split(&text, 5).unwrap().len(), 1);
        }
    }

    #[test]
    fn what_is_no_whole_list_is_no_list() {
        let text = list(&["a"]).to_string();
        for end in 0..text.len() {
            if text.is_char_boundary(end) {
                assert_eq!(split(&text[..end], 9), Err(Broken::CutShort), "{}", &text[..end]);
            }
        }
        let part = json!({"metadata": {"resourceVersion": "7", "continue": "more"}, "items": []});
        assert_eq!(split(&part.to_string(), 9), Err(Broken::Partial));
        assert_eq!(split(r#"{"metadata":{},"items":[]}"#, 9), Err(Broken::Partial));
        assert!(matches!(split("]", 9), Err(Broken::Garbled(_))));
        assert!(matches!(split(r#"{"metadata":{"resourceVersion":7}}"#, 9), Err(Broken::Garbled(_))));
    }

    proptest! {
        #[test]
        fn whatever_strings_objects_hold_and_however_it_comes(texts in prop::collection::vec(".{0,12}", 0..5), size in 1usize..40) {
            let items: Vec<Value> = texts.iter().map(|text| json!({"metadata": {"name": text}, text.as_str(): [text]})).collect();
            let list = json!({"items": items, "metadata": {"resourceVersion": "9"}}).to_string();
            let events = split(&list, size).unwrap();
            prop_assert_eq!(events.len(), items.len() + 1);
            for (event, item) in events.iter().zip(&items) {
                prop_assert_eq!(&event["object"], item);
            }
        }
    }
}
