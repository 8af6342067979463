//! Parameters as a tree that an operation takes apart. What is left over at the end was not understood, and refused.

use std::collections::BTreeMap;

use super::refusal::Refusal;

/// One level of parameters: `Placement.HostId=h` is a branch `Placement` with a leaf `HostId`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    at: String,
    nodes: BTreeMap<String, Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Leaf(String),
    Branch(Fields),
}

impl Fields {
    /// Builds the tree from decoded pairs.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, Refusal> {
        let mut root = Self::default();
        for (name, value) in pairs {
            root.insert(&name, &name, value)?;
        }
        Ok(root)
    }

    fn insert(&mut self, whole: &str, rest: &str, value: String) -> Result<(), Refusal> {
        let twice = || Refusal::bad("MalformedQueryString", format!("The parameter {whole} is given more than once"));
        match rest.split_once('.') {
            None => match self.nodes.insert(rest.to_owned(), Node::Leaf(value)) {
                None => Ok(()),
                Some(_) => Err(twice()),
            },
            Some((head, tail)) => {
                let at = self.path(head);
                let branch = || Node::Branch(Self { at, nodes: BTreeMap::new() });
                match self.nodes.entry(head.to_owned()).or_insert_with(branch) {
                    Node::Branch(fields) => fields.insert(whole, tail, value),
                    Node::Leaf(_) => Err(twice()),
                }
            }
        }
    }

    /// The whole name of a parameter of this level.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// Takes an optional text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        match self.nodes.remove(name) {
            None => Ok(None),
            Some(Node::Leaf(value)) => Ok(Some(value)),
            Some(Node::Branch(fields)) => Err(Refusal::unknown_parameter(&fields.first_leaf())),
        }
    }

    /// Takes a text that must be there and must not be empty.
    pub fn required(&mut self, name: &str) -> Result<String, Refusal> {
        match self.text(name)? {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(Refusal::missing(&self.path(name))),
        }
    }

    /// Takes an optional number within bounds.
    pub fn number(&mut self, name: &str, least: u32, most: u32) -> Result<Option<u32>, Refusal> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let path = self.path(name);
        match text.parse::<u32>() {
            Err(_) => Err(Refusal::value(&path, &text, "Expecting an integer.")),
            Ok(n) if n < least => {
                Err(Refusal::value(&path, &text, &format!("Expecting a value greater than or equal to {least}.")))
            }
            Ok(n) if n > most => {
                Err(Refusal::value(&path, &text, &format!("Expecting a value less than or equal to {most}.")))
            }
            Ok(n) => Ok(Some(n)),
        }
    }

    /// Takes an optional truth value.
    pub fn flag(&mut self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.text(name)?.as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(Refusal::value(&self.path(name), other, "Expecting true or false.")),
        }
    }

    /// Takes an optional text out of a fixed set.
    pub fn one_of(&mut self, name: &str, known: &[&str]) -> Result<Option<String>, Refusal> {
        match self.text(name)? {
            Some(value) if !known.contains(&value.as_str()) => {
                Err(Refusal::value(&self.path(name), &value, &format!("Expecting one of: {}.", known.join(", "))))
            }
            other => Ok(other),
        }
    }

    /// Takes a group of fields (`Placement.*`); an empty one when none is given.
    pub fn group(&mut self, name: &str) -> Result<Self, Refusal> {
        match self.nodes.remove(name) {
            None => Ok(Self { at: self.path(name), nodes: BTreeMap::new() }),
            Some(Node::Branch(fields)) => Ok(fields),
            Some(Node::Leaf(_)) => Err(Refusal::unknown_parameter(&self.path(name))),
        }
    }

    /// Takes a list of groups (`Filter.1.*`, `Filter.2.*`), whose numbers must run from 1 without a gap.
    pub fn groups(&mut self, name: &str) -> Result<Vec<Self>, Refusal> {
        let path = self.path(name);
        self.list(name, |node, at| match node {
            Node::Branch(fields) => Ok(fields),
            Node::Leaf(_) => Err(Refusal::unknown_parameter(&format!("{path}.{at}"))),
        })
    }

    /// Takes a list of texts (`HostId.1`, `HostId.2`), whose numbers must run from 1 without a gap.
    pub fn texts(&mut self, name: &str) -> Result<Vec<String>, Refusal> {
        self.list(name, |node, _| match node {
            Node::Leaf(value) => Ok(value),
            Node::Branch(fields) => Err(Refusal::unknown_parameter(&fields.first_leaf())),
        })
    }

    fn list<T>(&mut self, name: &str, each: impl Fn(Node, u32) -> Result<T, Refusal>) -> Result<Vec<T>, Refusal> {
        let path = self.path(name);
        let fields = match self.nodes.remove(name) {
            None => return Ok(Vec::new()),
            Some(Node::Branch(fields)) => fields,
            Some(Node::Leaf(_)) => return Err(Refusal::unknown_parameter(&path)),
        };
        let mut numbered = BTreeMap::new();
        for (index, node) in fields.nodes {
            // "01" and "+1" parse as numbers, but name other parameters than "1".
            match index.parse::<u32>() {
                Ok(n) if n > 0 && n.to_string() == index => numbered.insert(n, node),
                _ => return Err(Refusal::unknown_parameter(&format!("{path}.{index}"))),
            };
        }
        (1..)
            .zip(numbered)
            .map(|(expected, (at, node))| {
                if at == expected {
                    each(node, at)
                } else {
                    Err(Refusal::bad(
                        "InvalidParameterValue",
                        format!("The list {path} has no element {expected} before element {at}"),
                    ))
                }
            })
            .collect()
    }

    fn first_leaf(&self) -> String {
        match self.nodes.first_key_value() {
            None => self.at.clone(),
            Some((name, Node::Leaf(_))) => self.path(name),
            Some((_, Node::Branch(fields))) => fields.first_leaf(),
        }
    }

    /// True when a parameter of this name, or below it, is given and not yet taken.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// True when nothing was given, or nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Ends the reading: anything left over is an unknown parameter.
    pub fn finish(self) -> Result<(), Refusal> {
        if self.nodes.is_empty() { Ok(()) } else { Err(Refusal::unknown_parameter(&self.first_leaf())) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::new(super::super::form::pairs(text).unwrap()).unwrap()
    }

    #[test]
    fn lists_groups_and_values_come_out_in_order() {
        let mut f = fields("HostId.2=b&HostId.1=a&Filter.1.Name=n&Filter.1.Value.1=v&Placement.HostId=h&N=7&B=true");
        assert_eq!(f.texts("HostId").unwrap(), ["a", "b"]);
        let mut filters = f.groups("Filter").unwrap();
        assert_eq!(filters.len(), 1);
        assert_eq!(filters[0].required("Name").unwrap(), "n");
        assert_eq!(filters[0].texts("Value").unwrap(), ["v"]);
        assert_eq!(f.group("Placement").unwrap().required("HostId").unwrap(), "h");
        assert_eq!(f.number("N", 1, 9).unwrap(), Some(7));
        assert_eq!(f.flag("B").unwrap(), Some(true));
        assert_eq!(f.finish(), Ok(()));
    }

    #[test]
    fn more_than_nine_elements_keep_their_number_order() {
        let text: Vec<String> = (1..=12).map(|n| format!("A.{n}={n}")).collect();
        let expected: Vec<String> = (1..=12).map(|n| n.to_string()).collect();
        assert_eq!(fields(&text.join("&")).texts("A").unwrap(), expected);
    }

    #[test]
    fn what_nobody_asked_for_is_an_unknown_parameter() {
        let refusal = fields("Placement.Nonsense=1").finish().unwrap_err();
        assert_eq!(refusal.code, "UnknownParameter");
        assert!(refusal.message.contains("Placement.Nonsense"), "{}", refusal.message);
    }

    #[test]
    fn malformed_lists_are_refused() {
        for (text, code) in [
            ("A=1", "UnknownParameter"),
            ("A.x=1", "UnknownParameter"),
            ("A.0=1", "UnknownParameter"),
            ("A.01=1", "UnknownParameter"),
            ("A.-1=1", "UnknownParameter"),
            ("A.=1", "UnknownParameter"),
            ("A.1.B=1", "UnknownParameter"),
            ("A.2=1", "InvalidParameterValue"),
            ("A.1=1&A.3=1", "InvalidParameterValue"),
        ] {
            assert_eq!(fields(text).texts("A").unwrap_err().code, code, "{text}");
        }
    }

    #[test]
    fn a_parameter_given_twice_is_refused() {
        for text in ["A=1&A=2", "A=1&A.B=2", "A.B=2&A=1"] {
            let pairs = super::super::form::pairs(text).unwrap();
            assert_eq!(Fields::new(pairs).unwrap_err().code, "MalformedQueryString", "{text}");
        }
    }

    #[test]
    fn numbers_and_flags_are_checked() {
        for text in ["N=x", "N=4", "N=11", "N=-1", "N="] {
            assert_eq!(fields(text).number("N", 5, 10).unwrap_err().code, "InvalidParameterValue", "{text}");
        }
        assert!(fields("B=1").flag("B").is_err());
        assert!(fields("E=z").one_of("E", &["x", "y"]).is_err());
        assert_eq!(fields("R=").required("R").unwrap_err().code, "MissingParameter");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn no_parameters_break_the_reader(pairs in prop::collection::vec(("[AB.0-9é]{0,8}", ".{0,4}"), 0..12)) {
            if let Ok(mut fields) = Fields::new(pairs) {
                let _ = fields.clone().texts("A");
                let _ = fields.clone().groups("A");
                let _ = fields.clone().group("A");
                let _ = fields.clone().number("A", 0, 5);
                let _ = fields.text("A");
                let _ = fields.finish();
            }
        }
    }
}
