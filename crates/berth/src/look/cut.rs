//! Cuts the objects out of a list while the list arrives.
//!
//! A list is several megabytes for a thousand objects, and a server needs longer to write it than a client to read it. Read
//! object by object, the reading hides behind the writing, and no more text is held than one object has.

/// Where in the text of a list one is.
#[derive(Debug, Default)]
pub struct Cutter {
    /// Brackets that are open.
    depth: usize,
    /// Within a string, and right after a backslash there.
    quoted: bool,
    escaped: bool,
    /// The last string directly within the list, and the one that the value after it belongs to.
    word: Vec<u8>,
    key: Vec<u8>,
    /// Within the objects.
    inside: bool,
    /// The begin of an object that the text so far does not end.
    held: Vec<u8>,
    /// There were objects to speak of, were it none.
    listed: bool,
    /// The list has begun and ended.
    over: bool,
}

/// What a byte is to the objects of a list.
enum Edge {
    /// An object begins with it.
    Begin,
    /// An object ends with it.
    End,
    /// Neither.
    No,
}

impl Cutter {
    /// Takes the next piece of the text, and gives each object that it completes.
    pub fn feed<E>(&mut self, piece: &[u8], mut object: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let (mut from, mut open) = (0, self.is_open());
        for (at, byte) in piece.iter().enumerate() {
            match self.step(*byte) {
                Edge::No => {}
                Edge::Begin => (from, open) = (at, true),
                Edge::End => {
                    let text = piece.get(from..=at).unwrap_or_default();
                    open = false;
                    if self.held.is_empty() {
                        object(text)?;
                    } else {
                        self.held.extend_from_slice(text);
                        object(&std::mem::take(&mut self.held))?;
                    }
                }
            }
        }
        if open {
            self.held.extend_from_slice(piece.get(from..).unwrap_or_default());
        }
        Ok(())
    }

    /// Whether it was a list, and is there to its end. Whoever answers something else has not said that there is nothing.
    pub fn is_over(&self) -> bool {
        self.over && self.listed
    }

    fn is_open(&self) -> bool {
        !self.held.is_empty()
    }

    fn step(&mut self, byte: u8) -> Edge {
        if self.quoted {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.quoted = false,
                _ => {}
            }
            if self.depth == 1 && self.quoted {
                self.word.push(byte);
            }
            return Edge::No;
        }
        match byte {
            b'"' => {
                self.quoted = true;
                if self.depth == 1 {
                    self.word.clear();
                }
            }
            b':' if self.depth == 1 => self.key = std::mem::take(&mut self.word),
            // Of `null`: Go writes a list of nothing so.
            b'n' if self.depth == 1 => self.listed |= self.key == b"items",
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth == 2 && byte == b'[' {
                    self.inside = self.key == b"items";
                    self.listed |= self.inside;
                }
                if self.inside && self.depth == 3 && byte == b'{' {
                    return Edge::Begin;
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                match self.depth {
                    0 => self.over = true,
                    1 => self.inside = false,
                    2 if self.inside && byte == b'}' => return Edge::End,
                    _ => {}
                }
            }
            _ => {}
        }
        Edge::No
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The objects of a text that arrives in pieces of this size.
    fn cut(text: &str, size: usize) -> (Vec<Value>, bool) {
        let (mut cutter, mut found) = (Cutter::default(), Vec::new());
        for piece in text.as_bytes().chunks(size.max(1)) {
            let keep = |object: &[u8]| {
                found.push(serde_json::from_slice(object).unwrap());
                Ok::<(), Infallible>(())
            };
            cutter.feed(piece, keep).unwrap();
        }
        (found, cutter.is_over())
    }

    #[test]
    fn nothing_but_the_objects_of_the_list_is_taken_for_one() {
        let list = r#" {"kind":"List","items": [ {"items":[{"a":1}],"b":"}]\"{\\"} , {"metadata":{"x":{}}} ],
            "metadata":{"items":[{"no":1}],"continue":""},"extra":[{"no":2}],"\"items":[{"no":3}]} "#;
        let wanted = vec![json!({"items": [{"a": 1}], "b": "}]\"{\\"}), json!({"metadata": {"x": {}}})];
        for size in 1..list.len() {
            assert_eq!(cut(list, size), (wanted.clone(), true), "pieces of {size}");
        }
        for none in [r#"{"items":[]}"#, r#"{"items":null}"#] {
            assert_eq!(cut(none, 3), (Vec::new(), true), "{none}");
        }
        let others = [
            "{}",
            "[]",
            r#""items""#,
            r#"["items"]"#,
            r#"{"items":"none"}"#,
            r#"{"items":{"n":[]}}"#,
            r#"{"kind":"Status","details":{"items":[]}}"#,
        ];
        for other in others {
            assert_eq!(cut(other, 3), (Vec::new(), false), "{other}");
        }
    }

    #[test]
    fn a_list_that_breaks_off_is_not_over() {
        let whole = r#"{"items":[{"a":{}},{"b":1}]}"#;
        for end in 0..whole.len() {
            assert!(!cut(&whole[..end], 4).1, "{end}");
        }
    }

    /// Any value that an object can hold, with all that could be taken for a bracket.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[\"\\\\{}\\[\\]:,items é]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("(items|[\"\\\\{}a-c]{0,4})", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_cut_out_is_what_a_reader_of_the_whole_would_have_found(
            items in prop::collection::vec(prop::collection::btree_map("[a-z]{1,5}", value(), 0..4), 0..5),
            size in 1usize..64,
            pretty: bool,
        ) {
            let list = json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"items": [{}]}});
            let text = if pretty { serde_json::to_string_pretty(&list) } else { serde_json::to_string(&list) }.unwrap();
            let wanted: Vec<Value> = list["items"].as_array().unwrap().clone();
            prop_assert_eq!(cut(&text, size), (wanted, true));
        }
    }
}
