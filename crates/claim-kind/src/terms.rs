//! What claims of a kind may ask for, ready to be asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::key::ObjectKey;
use api::own::{ArgSchema, Capability, HostClaimKindSpec};
use kit::feed::{Feed, Phase, Project, Seen};
use kit::field::{FaultKind, FieldError, FieldPath};
use regex::Regex;

use crate::observe::HostClaimKind;
use crate::patterns::compile;

/// The arguments that claims of one kind may carry, and what its machines can do. The default takes no argument.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    arguments: BTreeMap<String, ArgSchema>,
    patterns: BTreeMap<String, Regex>,
    capabilities: BTreeSet<Capability>,
}

/// Patterns follow from the arguments.
impl PartialEq for Terms {
    fn eq(&self, other: &Self) -> bool {
        (&self.arguments, &self.capabilities) == (&other.arguments, &other.capabilities)
    }
}

impl Terms {
    /// The terms of a kind; a pattern that cannot be used is left out, because the kind itself reports it.
    #[must_use]
    pub fn of(spec: HostClaimKindSpec) -> Self {
        let compiled =
            |(name, argument): (&String, &ArgSchema)| Some((name.clone(), compile(argument.pattern.as_deref()?).ok()?));
        let patterns = spec.args_schema.iter().filter_map(compiled).collect();
        Self { arguments: spec.args_schema, patterns, capabilities: spec.capabilities }
    }

    /// Whether machines of the kind can do this.
    #[must_use]
    pub fn can(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    /// The arguments of a claim with those filled in that it leaves out and that have a default.
    #[must_use]
    pub fn complete(&self, args: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let defaults = self.arguments.iter().filter_map(|(name, argument)| Some((name, argument.default.as_ref()?)));
        let mut all: BTreeMap<String, String> = defaults.map(|(name, value)| (name.clone(), value.clone())).collect();
        all.extend(args.iter().map(|(name, value)| (name.clone(), value.clone())));
        all
    }

    /// Every fault of a claim's arguments, which stand at this path.
    #[must_use]
    pub fn faults(&self, path: &FieldPath, args: &BTreeMap<String, String>) -> Vec<FieldError> {
        let missing = self.arguments.iter().filter(|(name, argument)| argument.required && !args.contains_key(*name));
        let missing = missing.map(|(name, _)| FieldError::required(path.key(name), "must be given for this kind"));
        let wrong = args.iter().filter_map(|(name, value)| self.fault(path.key(name), name, value));
        missing.chain(wrong).collect()
    }

    fn fault(&self, path: FieldPath, name: &str, value: &str) -> Option<FieldError> {
        let Some(argument) = self.arguments.get(name) else {
            let known: Vec<&str> = self.arguments.keys().map(String::as_str).collect();
            let detail = match known.as_slice() {
                [] => "is not an argument of this kind, which takes none".to_owned(),
                known => format!("is not an argument of this kind, which takes: {}", known.join(", ")),
            };
            return Some(FieldError::forbidden(path, detail));
        };
        let limit = usize::try_from(argument.max_length).unwrap_or_default();
        if value.chars().count() > limit {
            return Some(FieldError::with(path, FaultKind::TooLong, format!("has more than {limit} characters")));
        }
        if !argument.allowed.is_empty() && !argument.allowed.iter().any(|allowed| allowed == value) {
            let detail = format!("must be one of: {}", argument.allowed.join(", "));
            return Some(FieldError::with(path, FaultKind::NotSupported, detail).showing(value));
        }
        let pattern = self.patterns.get(name).filter(|pattern| !pattern.is_match(value))?;
        let shown = argument.pattern.as_deref().unwrap_or(pattern.as_str());
        Some(FieldError::invalid(path, value, format!("must match {shown}")))
    }
}

/// HostClaimKinds, as those see them who write and serve claims.
pub struct Catalogue;

impl Project for Catalogue {
    type Source = HostClaimKind;
    /// `None` for a kind whose spec cannot be read: nothing can be said of its claims.
    type Slim = Option<Arc<Terms>>;

    fn slim(source: HostClaimKind) -> Option<Arc<Terms>> {
        serde_json::from_value(source.spec).map(|spec| Arc::new(Terms::of(spec))).ok()
    }
}

/// What the registry says of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Listing {
    /// The registry lists no kind at all, or cannot be read: nothing can be said of any kind.
    Silent,
    /// The registry lists others.
    Missing,
    /// What claims of the kind may ask for.
    Listed(Arc<Terms>),
}

impl Listing {
    /// Looks a kind up by its name.
    #[must_use]
    pub fn of(kinds: &Feed<Catalogue>, name: &str) -> Self {
        if kinds.phase() != Phase::Synced || kinds.is_empty() {
            return Self::Silent;
        }
        match kinds.get(&ObjectKey::cluster_scoped(name)) {
            Seen::At(terms) => terms.as_ref().as_ref().map_or(Self::Silent, |terms| Self::Listed(Arc::clone(terms))),
            Seen::Absent => Self::Missing,
            Seen::Behind => Self::Silent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::clock::Clock;
    use proptest::prelude::*;
    use serde_json::json;

    fn terms() -> Terms {
        let spec = json!({"controllerName": "c", "capabilities": ["power"], "argsSchema": {
            "region": {"required": true, "pattern": "[a-z]+-[0-9]+", "maxLength": 12},
            "size": {"enum": ["small", "large"]},
            "release": {"default": "true", "enum": ["true", "false"]},
            "broken": {"pattern": "("},
        }});
        Terms::of(serde_json::from_value(spec).unwrap())
    }

    fn found(args: &[(&str, &str)]) -> Vec<String> {
        let args = args.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        terms().faults(&FieldPath::new("spec").field("args"), &args).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_fault_of_the_arguments_is_found_at_once() {
        assert!(found(&[("region", "east-1"), ("size", "large")]).is_empty());
        assert_eq!(found(&[]), ["spec.args[region]: must be given for this kind"]);
        assert_eq!(
            found(&[("region", "East"), ("size", "huge"), ("colour", "red"), ("broken", "(")]),
            [
                "spec.args[colour]: is not an argument of this kind, which takes: broken, region, release, size",
                "spec.args[region]: \"East\" must match [a-z]+-[0-9]+",
                "spec.args[size]: \"huge\" must be one of: small, large",
            ]
        );
        assert_eq!(found(&[("region", "aaaaaaaaaaaaa-1")]), ["spec.args[region]: has more than 12 characters"]);
    }

    #[test]
    fn a_pattern_must_match_the_whole_argument() {
        assert_eq!(found(&[("region", "x-1-y")]).len(), 1);
    }

    #[test]
    fn defaults_are_filled_in_and_never_win() {
        let args = |release: Option<&str>| release.map(|r| ("release".to_owned(), r.to_owned())).into_iter().collect();
        assert_eq!(terms().complete(&args(None))["release"], "true");
        assert_eq!(terms().complete(&args(Some("false")))["release"], "false");
    }

    #[test]
    fn nothing_is_said_of_a_kind_that_cannot_be_read() {
        let kind =
            |spec| serde_json::from_value::<HostClaimKind>(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
        assert_eq!(Catalogue::slim(kind(json!({"argsSchema": 7}))), None);
        let read = Catalogue::slim(kind(json!({"controllerName": "c", "capabilities": ["power"]}))).unwrap();
        assert!(read.can(Capability::Power) && !read.can(Capability::Reboot));
        assert_eq!(*read, Terms { capabilities: [Capability::Power].into(), ..Terms::default() });
    }

    #[test]
    fn a_kind_is_missing_only_where_others_are_listed() {
        let kind = |name: &str, spec: serde_json::Value| {
            serde_json::from_value::<HostClaimKind>(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
        };
        let feed = |kinds: Vec<HostClaimKind>| {
            Feed::<Catalogue>::of(Clock::system(), kit::kinds::Kind::of::<HostClaimKind>(), kinds)
        };
        assert_eq!(Listing::of(&feed(vec![]), "vm"), Listing::Silent);
        let listed = feed(vec![kind("vm", json!({"controllerName": "c"})), kind("odd", json!({"argsSchema": 7}))]);
        assert_eq!(Listing::of(&listed, "vm"), Listing::Listed(Arc::new(Terms::default())));
        assert_eq!(Listing::of(&listed, "odd"), Listing::Silent);
        assert_eq!(Listing::of(&listed, "ship"), Listing::Missing);
    }

    proptest! {
        #[test]
        fn what_is_complete_has_no_other_faults(args in prop::collection::btree_map("region|size|release|x", ".{0,14}", 0..5)) {
            let (terms, path) = (terms(), FieldPath::new("a"));
            prop_assert_eq!(terms.faults(&path, &terms.complete(&args)), terms.faults(&path, &args));
        }
    }
}
