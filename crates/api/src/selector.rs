//! Selectors of hosts: every spelling of every operator, and the labels that hosts have besides those somebody wrote.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::names::claims::{ARCH_LABEL, CPU_COUNT_LABEL, HOST_NAME_LABEL, NIC_COUNT_LABEL, RAM_LABEL};
use crate::own::{HostRequirement, HostSelector};

/// The labels that follow from the name and the hardware of a host.
const DERIVED: [&str; 5] = [HOST_NAME_LABEL, ARCH_LABEL, RAM_LABEL, CPU_COUNT_LABEL, NIC_COUNT_LABEL];

/// How the label of a requirement is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equals,
    /// `==`
    DoubleEquals,
    /// `!=`
    Differs,
    /// `in`
    In,
    /// `notin`
    NotIn,
    /// `exists`
    Exists,
    /// `!`
    Absent,
    /// `gt`
    Above,
    /// `lt`
    Below,
}

impl Operator {
    /// Reads any accepted spelling.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        Some(match word {
            "=" => Self::Equals,
            "==" => Self::DoubleEquals,
            "!=" => Self::Differs,
            "in" | "In" => Self::In,
            "notin" | "NotIn" => Self::NotIn,
            "exists" | "Exists" => Self::Exists,
            "!" | "DoesNotExist" => Self::Absent,
            "gt" | "Gt" => Self::Above,
            "lt" | "Lt" => Self::Below,
            _ => return None,
        })
    }

    /// The spelling that is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::Differs => "!=",
            Self::In => "in",
            Self::NotIn => "notin",
            Self::Exists => "exists",
            Self::Absent => "!",
            Self::Above => "gt",
            Self::Below => "lt",
        }
    }
}

/// What a selector says that cannot be meant, with the path below the selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct SelectorFault {
    /// The field, such as `matchExpressions[2].values`.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
}

impl SelectorFault {
    fn new(path: String, problem: impl Into<String>) -> Self {
        Self { path, problem: problem.into() }
    }
}

/// What one label must be like.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// It is there and has one of these values, which are sorted.
    OneOf(Box<[Box<str>]>),
    /// It is there.
    Exists,
    /// It is there, a whole number, and greater than this.
    Above(i64),
    /// It is there, a whole number, and less than this.
    Below(i64),
    /// It is not there, or has none of these values, which are sorted.
    NoneOf(Box<[Box<str>]>),
    /// It is not there.
    Absent,
}

impl Test {
    /// Whether a label with this value, or its absence, is what is asked for.
    #[must_use]
    pub fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|text| text.parse::<i64>().ok());
        let listed = |values: &[Box<str>]| {
            value.is_some_and(|value| values.binary_search_by(|listed| (**listed).cmp(value)).is_ok())
        };
        match self {
            Self::OneOf(values) => listed(values),
            Self::NoneOf(values) => !listed(values),
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::Above(bound) => number().is_some_and(|number| number > *bound),
            Self::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// One requirement: a label and what it must be like.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// The key of the label.
    pub key: Box<str>,
    /// What it must be like.
    pub test: Test,
}

/// A selector that can be used: equal ones are equal whatever their spelling. An empty one fits everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    terms: Box<[Term]>,
}

impl Selector {
    /// Reads the selector of a claim; `inNamespace` is not part of it.
    ///
    /// # Errors
    /// All that is wrong with it, each with its path.
    pub fn read(selector: &HostSelector) -> Result<Self, Vec<SelectorFault>> {
        Self::of(&selector.match_labels, &selector.match_expressions)
    }

    /// Reads a selector of the form the API server defines.
    ///
    /// # Errors
    /// All that is wrong with it, each with its path.
    pub fn of_labels(selector: &LabelSelector) -> Result<Self, Vec<SelectorFault>> {
        let none = BTreeMap::new();
        let requirement =
            |r: &k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement| HostRequirement {
                key: r.key.clone(),
                operator: r.operator.clone(),
                values: r.values.clone().unwrap_or_default(),
            };
        let requirements: Vec<HostRequirement> = selector.match_expressions.iter().flatten().map(requirement).collect();
        Self::of(selector.match_labels.as_ref().unwrap_or(&none), &requirements)
    }

    fn of(labels: &BTreeMap<String, String>, requirements: &[HostRequirement]) -> Result<Self, Vec<SelectorFault>> {
        let mut faults = Vec::new();
        let mut terms: Vec<Term> = Vec::with_capacity(labels.len() + requirements.len());
        for (key, value) in labels {
            let path = || format!("matchLabels[{key}]");
            faults.extend(key_problem(key).map(|problem| SelectorFault::new(path(), problem)));
            faults.extend(value_problem(value).map(|problem| SelectorFault::new(path(), problem)));
            let values = Box::new([value.as_str().into()]);
            terms.push(Term { key: key.as_str().into(), test: Test::OneOf(values) });
        }
        for (number, requirement) in requirements.iter().enumerate() {
            let path = format!("matchExpressions[{number}]");
            if let Some(problem) = key_problem(&requirement.key) {
                faults.push(SelectorFault::new(format!("{path}.key"), problem));
            }
            match test(&path, requirement) {
                Ok(test) => terms.push(Term { key: requirement.key.as_str().into(), test }),
                Err(found) => faults.extend(found),
            }
        }
        terms.sort();
        terms.dedup();
        if faults.is_empty() { Ok(Self { terms: terms.into() }) } else { Err(faults) }
    }

    /// The requirements, in a fixed order.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The keys of the labels it asks about; a key may come twice.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| &*term.key)
    }

    /// Whether it asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether these labels are what it asks for.
    #[must_use]
    pub fn fits(&self, labels: &impl Labels) -> bool {
        self.terms.iter().all(|term| term.test.holds(labels.label(&term.key).as_deref()))
    }
}

fn test(path: &str, requirement: &HostRequirement) -> Result<Test, Vec<SelectorFault>> {
    let Some(operator) = Operator::read(&requirement.operator) else {
        let problem = format!(
            "must be one of =, ==, !=, in, notin, exists, !, gt, lt (or In, NotIn, Exists, DoesNotExist, Gt, Lt), not {:?}",
            requirement.operator.chars().take(64).collect::<String>()
        );
        return Err(vec![SelectorFault::new(format!("{path}.operator"), problem)]);
    };
    let values = &requirement.values;
    let wrong = |problem: &str| Err(vec![SelectorFault::new(format!("{path}.values"), problem)]);
    let sorted = || {
        let mut sorted: Vec<Box<str>> = values.iter().map(|value| value.as_str().into()).collect();
        sorted.sort();
        sorted.dedup();
        sorted.into_boxed_slice()
    };
    let faults: Vec<SelectorFault> = values
        .iter()
        .enumerate()
        .filter_map(|(n, value)| Some(SelectorFault::new(format!("{path}.values[{n}]"), value_problem(value)?)))
        .collect();
    let number = || match values.as_slice() {
        [value] => value.parse::<i64>().ok(),
        _ => None,
    };
    match operator {
        Operator::Above | Operator::Below => match number() {
            Some(bound) if operator == Operator::Above => Ok(Test::Above(bound)),
            Some(bound) => Ok(Test::Below(bound)),
            None => wrong("must be exactly one whole number for gt and lt"),
        },
        _ if !faults.is_empty() => Err(faults),
        Operator::Equals | Operator::DoubleEquals | Operator::Differs if values.len() != 1 => {
            wrong("must be exactly one value for =, == and !=")
        }
        Operator::In | Operator::NotIn if values.is_empty() => wrong("must be at least one value for in and notin"),
        Operator::Exists | Operator::Absent if !values.is_empty() => wrong("must be empty for exists and !"),
        Operator::Equals | Operator::DoubleEquals | Operator::In => Ok(Test::OneOf(sorted())),
        Operator::Differs | Operator::NotIn => Ok(Test::NoneOf(sorted())),
        Operator::Exists => Ok(Test::Exists),
        Operator::Absent => Ok(Test::Absent),
    }
}

/// What is wrong with the key of a label: an optional DNS name, a slash, and at most 63 characters.
#[must_use]
pub fn key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let label = |part: &str| {
        (1..=63).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    let domain = |prefix: &str| prefix.len() <= 253 && prefix.split('.').all(label);
    let valid = prefix.is_none_or(domain) && !name.is_empty() && is_label_text(name);
    (!valid).then_some(
        "must be a label key: at most 63 letters, digits, '-', '_' or '.', starting and ending with a letter or digit, \
         optionally after a DNS name and '/'",
    )
}

/// What is wrong with the value of a label.
#[must_use]
pub fn value_problem(value: &str) -> Option<&'static str> {
    (!is_label_text(value)).then_some(
        "must be a label value: at most 63 letters, digits, '-', '_' or '.', starting and ending with a letter or digit",
    )
}

fn is_label_text(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.is_empty()
        || (text.len() <= 63
            && text.starts_with(ends)
            && text.ends_with(ends)
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)))
}

/// Something that has labels.
pub trait Labels {
    /// The value of one label.
    fn label(&self, key: &str) -> Option<Cow<'_, str>>;
}

impl<T: std::ops::Deref<Target = str> + Ord + std::borrow::Borrow<str>> Labels for BTreeMap<T, T> {
    fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key).map(|value| Cow::Borrowed(&**value))
    }
}

/// The labels of a host, those included that follow from its name and hardware.
#[derive(Clone, Copy, Debug)]
pub struct HostLabels<'a> {
    /// The name of the host.
    pub name: &'a str,
    /// The labels that were written.
    pub labels: &'a BTreeMap<Box<str>, Box<str>>,
    /// What inspection found.
    pub hardware: Option<Figures<'a>>,
}

/// The figures of a host's hardware that selectors may ask about; zero where inspection found nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures<'a> {
    /// The architecture of its processors.
    pub arch: Option<&'a str>,
    /// Its memory.
    pub ram_mib: i64,
    /// The number of its processors.
    pub cpu_count: i64,
    /// The number of its network interfaces.
    pub nics: usize,
}

impl<'a> HostLabels<'a> {
    /// The labels that follow from name and hardware.
    pub fn derived(&self) -> impl Iterator<Item = (&'static str, Cow<'a, str>)> + use<'a> {
        let this = *self;
        DERIVED.into_iter().filter_map(move |key| Some((key, this.derive(key)?)))
    }

    fn derive(&self, key: &str) -> Option<Cow<'a, str>> {
        let number = |number: i64| Cow::Owned(number.to_string());
        // Inspection that found nothing leaves a zero.
        let known = |number: i64| (number > 0).then_some(number);
        match key {
            HOST_NAME_LABEL => Some(Cow::Borrowed(self.name)),
            ARCH_LABEL => self.hardware?.arch.map(Cow::Borrowed),
            RAM_LABEL => known(self.hardware?.ram_mib).map(|mib| number(mib / 1024)),
            CPU_COUNT_LABEL => known(self.hardware?.cpu_count).map(number),
            NIC_COUNT_LABEL => self.hardware.map(|hardware| Cow::Owned(hardware.nics.to_string())),
            _ => None,
        }
    }
}

/// Whether a label follows from a host's name or hardware; one of that key that somebody wrote does not count.
#[must_use]
pub fn is_derived(key: &str) -> bool {
    DERIVED.contains(&key)
}

impl Labels for HostLabels<'_> {
    fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        if is_derived(key) {
            return self.derive(key);
        }
        self.labels.get(key).map(|value| Cow::Borrowed(&**value))
    }
}

#[cfg(test)]
#[path = "selector_tests.rs"]
mod tests;
