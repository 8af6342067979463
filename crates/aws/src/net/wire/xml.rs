//! Answers as a tree: only elements and their texts, bounded in size and depth.
//!
//! Attributes, comments and instructions are passed over. Document types are refused: nothing AWS sends has one, and
//! they are how XML is made to explode.

use std::collections::BTreeMap;

use quick_xml::events::Event;
use quick_xml::reader::Reader;

/// Elements below each other; what AWS sends stays below 12.
const DEPTH: usize = 64;

/// Elements in one answer; the largest catalogue in one page has a third of it.
const NODES: usize = 1_000_000;

/// No such record.
const NONE: u32 = u32::MAX;

/// Why a text is not a tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// Not text.
    #[error("it is not UTF-8")]
    NotText,
    /// Not XML; the reason is the parser's, which quotes names at most.
    #[error("it is not XML")]
    Syntax,
    /// A document type.
    #[error("it has a document type")]
    DocType,
    /// Unknown `&name;`.
    #[error("it refers to an unknown entity")]
    Entity,
    /// Too deep or too large.
    #[error("it has too many elements or nests too deep")]
    TooLarge,
    /// No root, or not closed.
    #[error("it is not complete")]
    Incomplete,
}

#[derive(Clone, Copy)]
struct Record {
    name: u32,
    first: u32,
    next: u32,
    text: (u32, u32),
}

/// A parsed answer.
pub struct Document {
    records: Vec<Record>,
    names: Vec<Box<str>>,
    text: String,
}

struct Builder {
    document: Document,
    known: BTreeMap<Box<str>, u32>,
    /// Open elements and the last child of each.
    open: Vec<(u32, u32)>,
}

impl Builder {
    fn start(&mut self, name: &str) -> Result<(), XmlError> {
        let document = &mut self.document;
        if self.open.len() >= DEPTH || document.records.len() >= NODES {
            return Err(XmlError::TooLarge);
        }
        let name = match self.known.get(name) {
            Some(known) => *known,
            None => {
                let fresh = u32::try_from(document.names.len()).map_err(|_| XmlError::TooLarge)?;
                document.names.push(name.into());
                self.known.insert(name.into(), fresh);
                fresh
            }
        };
        let at = u32::try_from(document.records.len()).map_err(|_| XmlError::TooLarge)?;
        match self.open.last_mut() {
            Some((parent, last)) => {
                if *last == NONE {
                    // What stands before a child is layout, not a value.
                    if let Some(record) = document.records.get_mut(*parent as usize) {
                        record.first = at;
                        document.text.truncate(record.text.0 as usize);
                    }
                } else if let Some(record) = document.records.get_mut(*last as usize) {
                    record.next = at;
                }
                *last = at;
            }
            None if at > 0 => return Err(XmlError::Syntax),
            None => {}
        }
        let begin = u32::try_from(document.text.len()).map_err(|_| XmlError::TooLarge)?;
        document.records.push(Record { name, first: NONE, next: NONE, text: (begin, begin) });
        self.open.push((at, NONE));
        Ok(())
    }

    fn text(&mut self, piece: &str) {
        if let Some((_, NONE)) = self.open.last() {
            self.document.text.push_str(piece);
        }
    }

    fn end(&mut self) -> Result<(), XmlError> {
        let (at, child) = self.open.pop().ok_or(XmlError::Syntax)?;
        let end = u32::try_from(self.document.text.len()).map_err(|_| XmlError::TooLarge)?;
        if let Some(record) = self.document.records.get_mut(at as usize)
            && child == NONE
        {
            record.text.1 = end;
        }
        Ok(())
    }
}

impl Document {
    /// Reads an answer.
    ///
    /// # Errors
    /// When it is not one complete element within the bounds.
    pub fn parse(bytes: &[u8]) -> Result<Self, XmlError> {
        let source = std::str::from_utf8(bytes).map_err(|_| XmlError::NotText)?;
        let document = Self { records: Vec::new(), names: Vec::new(), text: String::new() };
        let mut builder = Builder { document, known: BTreeMap::new(), open: Vec::new() };
        let mut reader = Reader::from_str(source.strip_prefix('\u{feff}').unwrap_or(source));
        loop {
            match reader.read_event().map_err(|_| XmlError::Syntax)? {
                Event::Start(tag) => builder.start(tag.local_name().as_ref())?,
                Event::Empty(tag) => {
                    builder.start(tag.local_name().as_ref())?;
                    builder.end()?;
                }
                Event::End(_) => builder.end()?,
                Event::Text(piece) => builder.text(&piece.xml10_content()),
                Event::CData(piece) => builder.text(&piece.xml10_content()),
                Event::GeneralRef(reference) => match reference.resolve_char_ref().map_err(|_| XmlError::Entity)? {
                    Some(sign) => builder.text(sign.encode_utf8(&mut [0; 4])),
                    None => builder.text(predefined(&reference.xml10_content()).ok_or(XmlError::Entity)?),
                },
                Event::DocType(_) => return Err(XmlError::DocType),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
                Event::Eof => break,
            }
        }
        if !builder.open.is_empty() || builder.document.records.is_empty() {
            return Err(XmlError::Incomplete);
        }
        Ok(builder.document)
    }

    /// The outermost element.
    #[must_use]
    pub fn root(&self) -> Node<'_> {
        Node { document: self, at: 0 }
    }
}

fn predefined(name: &str) -> Option<&'static str> {
    match name {
        "lt" => Some("<"),
        "gt" => Some(">"),
        "amp" => Some("&"),
        "apos" => Some("'"),
        "quot" => Some("\""),
        _ => None,
    }
}

/// One element.
#[derive(Clone, Copy)]
pub struct Node<'d> {
    document: &'d Document,
    at: u32,
}

impl<'d> Node<'d> {
    fn record(self) -> Option<&'d Record> {
        self.document.records.get(self.at as usize)
    }

    /// Its name, without a prefix.
    #[must_use]
    pub fn name(self) -> &'d str {
        let name = self.record().and_then(|record| self.document.names.get(record.name as usize));
        name.map_or("", |name| name)
    }

    /// Its text without blanks around it; empty for an element with children.
    #[must_use]
    pub fn text(self) -> &'d str {
        let text = self.record().and_then(|r| self.document.text.get(r.text.0 as usize..r.text.1 as usize));
        text.unwrap_or_default().trim()
    }

    /// Its children, in order.
    pub fn children(self) -> impl Iterator<Item = Node<'d>> {
        let document = self.document;
        let node = move |at: u32| (at != NONE).then_some(Node { document, at });
        let first = self.record().and_then(|record| node(record.first));
        std::iter::successors(first, move |child| child.record().and_then(|record| node(record.next)))
    }

    /// The first child of that name.
    #[must_use]
    pub fn child(self, name: &str) -> Option<Node<'d>> {
        self.children().find(|child| child.name() == name)
    }

    /// The element that a path of names leads to.
    #[must_use]
    pub fn path(self, names: &[&str]) -> Option<Node<'d>> {
        names.iter().try_fold(self, |node, name| node.child(name))
    }

    /// The text of a child that is there and not empty.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'d str> {
        self.child(name).map(Node::text).filter(|text| !text.is_empty())
    }

    /// The entries of a list: `<hostSet><item>…</item></hostSet>`.
    pub fn items(self, set: &str) -> impl Iterator<Item = Node<'d>> {
        self.child(set).into_iter().flat_map(Node::children).filter(|child| matches!(child.name(), "item" | "member"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Document, XmlError> {
        Document::parse(text.as_bytes())
    }

    #[test]
    fn elements_lists_and_texts_are_read() {
        let text = "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<R xmlns=\"http://x/\">\n <!-- c -->\n <a> one &amp; &#65;<![CDATA[<2>]]> </a>\n <set>\n  <item><k>1</k></item>\n  <item><k/></item>\n </set>\n <ns:b>x</ns:b><a>second</a></R>\n";
        let document = parse(text).unwrap();
        let root = document.root();
        assert_eq!((root.name(), root.text()), ("R", ""));
        assert_eq!(root.get("a"), Some("one & A<2>"));
        assert_eq!(root.get("b"), Some("x"));
        let items: Vec<Option<&str>> = root.items("set").map(|item| item.get("k")).collect();
        assert_eq!(items, [Some("1"), None]);
        assert_eq!(root.path(&["set", "item", "k"]).map(Node::text), Some("1"));
        assert_eq!((root.get("set"), root.get("none")), (None, None));
        assert_eq!(root.children().count(), 4);
    }

    #[test]
    fn what_is_not_one_complete_element_is_refused() {
        for (text, error) in [
            ("", XmlError::Incomplete),
            ("hello", XmlError::Incomplete),
            ("<a>", XmlError::Incomplete),
            ("<a><b></a>", XmlError::Syntax),
            ("</a>", XmlError::Syntax),
            ("<a/><b/>", XmlError::Syntax),
            ("<!DOCTYPE html><html></html>", XmlError::DocType),
            ("<!DOCTYPE x [<!ENTITY a \"b\">]><x>&a;</x>", XmlError::DocType),
            ("<x>&a;</x>", XmlError::Entity),
            ("<x>&#xFFFFFFFF;</x>", XmlError::Entity),
        ] {
            assert_eq!(parse(text).err(), Some(error), "{text}");
        }
        assert_eq!(Document::parse(&[b'<', 0xff]).err(), Some(XmlError::NotText));
        assert_eq!(parse(&"<a>".repeat(DEPTH + 1)).err(), Some(XmlError::TooLarge));
        let deep = format!("{}{}", "<a>".repeat(DEPTH), "</a>".repeat(DEPTH));
        assert!(parse(&deep).is_ok());
    }

    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("<item>".to_owned()),
            Just("</item>".to_owned()),
            Just("<a>".to_owned()),
            Just("</a>".to_owned()),
            Just("<a/>".to_owned()),
            Just("<!--".to_owned()),
            Just("-->".to_owned()),
            Just("<![CDATA[".to_owned()),
            Just("]]>".to_owned()),
            Just("<?xml ?>".to_owned()),
            Just("&amp;".to_owned()),
            Just("&#x41;".to_owned()),
            Just("&".to_owned()),
            "[ -~]{0,8}",
            any::<String>(),
        ]
    }

    fn walk(node: Node<'_>, left: &mut usize) {
        *left -= 1;
        let _ = (node.name().len(), node.text().len(), node.items("a").count());
        node.children().for_each(|child| walk(child, left));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn any_text_becomes_a_finite_tree_or_an_error(pieces in prop::collection::vec(piece(), 0..40)) {
            if let Ok(document) = parse(&pieces.concat()) {
                let mut left = document.records.len();
                walk(document.root(), &mut left);
                prop_assert_eq!(left, 0, "every element is reached once");
            }
        }

        #[test]
        fn any_bytes_become_a_tree_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Document::parse(&bytes);
        }

        #[test]
        fn any_value_survives(value in "[ -~äöü\u{4e2d}]{0,30}") {
            let escaped: String = value.chars().map(|c| format!("&#{};", u32::from(c))).collect();
            let document = parse(&format!("<a><b>{escaped}</b></a>")).unwrap();
            prop_assert_eq!(document.root().get("b").unwrap_or_default(), value.trim());
        }
    }
}
