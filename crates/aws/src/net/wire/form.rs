//! Requests of the Query protocol: an action, a version, and flat parameters whose names spell the structure.

use std::fmt::Display;

use url::form_urlencoded::Serializer;

use crate::port::{Filter, Tags};

/// The parameters of one request, in the order they were added.
#[derive(Clone)]
pub struct Form {
    pairs: Vec<(String, String)>,
    /// Whether an id, a filter or a page size narrows the request.
    narrow: bool,
}

impl Form {
    /// No parameters yet.
    #[must_use]
    pub fn new() -> Self {
        Self { pairs: Vec::new(), narrow: false }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Display) -> Self {
        self.set(name, value);
        self
    }

    /// Adds a parameter if there is a value.
    #[must_use]
    pub fn maybe(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a list: `Name.1`, `Name.2`, ….
    #[must_use]
    pub fn list<V: Display>(mut self, name: &str, values: impl IntoIterator<Item = V>) -> Self {
        for (at, value) in values.into_iter().enumerate() {
            self.narrow = true;
            self.set(&format!("{name}.{}", at + 1), value);
        }
        self
    }

    /// Adds filters: `Filter.1.Name`, `Filter.1.Value.1`, ….
    #[must_use]
    pub fn filters(mut self, filters: &[Filter]) -> Self {
        for (at, filter) in filters.iter().enumerate() {
            self = self.with(&format!("Filter.{}.Name", at + 1), &filter.name);
            self = self.list(&format!("Filter.{}.Value", at + 1), &filter.values);
        }
        self
    }

    /// Adds tags: `<prefix>Tag.1.Key`, `<prefix>Tag.1.Value`, ….
    #[must_use]
    pub fn tags(mut self, prefix: &str, tags: &Tags) -> Self {
        for (at, (key, value)) in tags.iter().enumerate() {
            self = self.with(&format!("{prefix}Tag.{}.Key", at + 1), key);
            self = self.with(&format!("{prefix}Tag.{}.Value", at + 1), value);
        }
        self
    }

    /// Adds the tags of resources that the request creates, the same for each kind; nothing without tags.
    #[must_use]
    pub fn tag_specifications(mut self, kinds: &[&str], tags: &Tags) -> Self {
        for (at, kind) in kinds.iter().enumerate().filter(|_| !tags.is_empty()) {
            let prefix = format!("TagSpecification.{}.", at + 1);
            self = self.with(&format!("{prefix}ResourceType"), kind).tags(&prefix, tags);
        }
        self
    }

    /// Asks for pages of this size.
    #[must_use]
    pub fn page_size(mut self, size: u32) -> Self {
        self.narrow = true;
        self.with("MaxResults", size)
    }

    /// The same request for the page of a token.
    #[must_use]
    pub fn page(&self, token: &str) -> Self {
        self.clone().with("NextToken", token)
    }

    /// Whether an id, a filter or a page size narrows the request.
    #[must_use]
    pub fn is_narrow(&self) -> bool {
        self.narrow
    }

    fn set(&mut self, name: &str, value: impl Display) {
        self.pairs.push((name.to_owned(), value.to_string()));
    }

    /// The body of the request.
    #[must_use]
    pub fn encode(&self, action: &str, version: &str) -> String {
        let mut body = Serializer::new(String::new());
        body.append_pair("Action", action).append_pair("Version", version);
        body.extend_pairs(&self.pairs).finish()
    }
}

impl Default for Form {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn structure_is_spelled_in_names() {
        let tags = Tags::from([("a b".to_owned(), "c&d".to_owned())]);
        let body = Form::new()
            .with("Quantity", 2)
            .maybe("Absent", None::<&str>)
            .list("HostId", ["h-1", "h-2"])
            .filters(&[Filter::new("state", ["x", "y"])])
            .tag_specifications(&["instance", "volume"], &tags)
            .encode("Do", "2016-11-15");
        let pairs: Vec<(String, String)> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        let expected = [
            ("Action", "Do"),
            ("Version", "2016-11-15"),
            ("Quantity", "2"),
            ("HostId.1", "h-1"),
            ("HostId.2", "h-2"),
            ("Filter.1.Name", "state"),
            ("Filter.1.Value.1", "x"),
            ("Filter.1.Value.2", "y"),
            ("TagSpecification.1.ResourceType", "instance"),
            ("TagSpecification.1.Tag.1.Key", "a b"),
            ("TagSpecification.1.Tag.1.Value", "c&d"),
            ("TagSpecification.2.ResourceType", "volume"),
            ("TagSpecification.2.Tag.1.Key", "a b"),
            ("TagSpecification.2.Tag.1.Value", "c&d"),
        ];
        assert_eq!(pairs, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert!(!Form::new().tag_specifications(&["instance"], &Tags::new()).encode("A", "1").contains("TagSpec"));
    }

    #[test]
    fn ids_filters_and_page_sizes_narrow_a_request() {
        assert!(!Form::new().with("AllRegions", true).is_narrow());
        assert!(!Form::new().list("HostId", Vec::<String>::new()).filters(&[]).is_narrow());
        assert!(Form::new().page_size(5).page("t").is_narrow());
        assert!(Form::new().filters(&[Filter::new("a", ["b"])]).is_narrow());
    }

    proptest! {
        #[test]
        fn no_value_escapes_its_parameter(name in "[A-Za-z.]{1,12}", value in any::<String>()) {
            let body = Form::new().with(&name, &value).encode("A", "1");
            let pairs: Vec<(String, String)> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
            prop_assert_eq!(pairs.len(), 3);
            prop_assert_eq!(&pairs[2], &(name, value));
        }
    }
}
