//! A small XML writer. Answers are built by us alone, so there is nothing to parse.

/// An answer being written.
#[derive(Clone, Debug)]
pub struct Xml {
    out: String,
}

impl Xml {
    /// A document whose root has a namespace; `body` writes what is inside.
    #[must_use]
    pub fn document(root: &str, namespace: &str, body: impl FnOnce(&mut Self)) -> String {
        let mut xml = Self { out: String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n") };
        xml.out.push_str(&format!("<{root} xmlns=\"{namespace}\">"));
        body(&mut xml);
        xml.out.push_str(&format!("</{root}>"));
        xml.out
    }

    /// A document without a namespace.
    #[must_use]
    pub fn bare(root: &str, body: impl FnOnce(&mut Self)) -> String {
        let mut xml = Self { out: String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n") };
        xml.node(root, body);
        xml.out
    }

    /// An element with elements inside; an empty one is written in its short form, as the service does.
    pub fn node(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        let before = self.out.len();
        self.out.push_str(&format!("<{name}>"));
        let inside = self.out.len();
        body(self);
        if self.out.len() == inside {
            self.out.truncate(before);
            self.out.push_str(&format!("<{name}/>"));
        } else {
            self.out.push_str(&format!("</{name}>"));
        }
    }

    /// An element with text inside.
    pub fn text(&mut self, name: &str, value: impl std::fmt::Display) {
        let value = escape(&value.to_string());
        self.node(name, |xml| xml.out.push_str(&value));
    }

    /// An element with text inside, if there is one.
    pub fn maybe<T: std::fmt::Display>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    /// A list: one `item` element for each.
    pub fn list<T>(&mut self, name: &str, items: impl IntoIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        self.node(name, |xml| {
            for item in items {
                xml.node("item", |xml| each(xml, item));
            }
        });
    }

    /// A list of plain texts.
    pub fn texts<T: std::fmt::Display>(&mut self, name: &str, items: impl IntoIterator<Item = T>) {
        self.node(name, |xml| {
            for item in items {
                xml.text("item", item);
            }
        });
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // A tab or line end would come back as a blank, and other control characters are no XML at all.
            '\t' | '\n' | '\r' => out.push_str(&format!("&#{};", u32::from(c))),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_empty_elements_are_short() {
        let text = Xml::document("R", "urn:x", |xml| {
            xml.text("a", "1 < 2 & \"3\"\n\u{1}");
            xml.list("l", ["x"], |xml, item| xml.text("k", item));
            xml.texts("e", Vec::<String>::new());
            xml.maybe("n", None::<u32>);
        });
        let body = "<a>1 &lt; 2 &amp; &quot;3&quot;&#10;\u{fffd}</a><l><item><k>x</k></item></l><e/>";
        assert_eq!(text, format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<R xmlns=\"urn:x\">{body}</R>"));
    }
}
