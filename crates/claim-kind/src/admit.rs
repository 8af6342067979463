//! What makes a HostClaimKind unusable beyond what its schema and CEL rules can say.
//!
//! The same function serves the webhook and the room: a kind stored while the webhook was down is judged the same.

use api::own::{ArgSchema, HostClaimKind, HostClaimKindSpec};
use kit::admission::{Admission, Duty, FieldError, FieldPath, Review, Webhook};

use crate::patterns::compile;

const KINDS: Webhook = Webhook {
    duty: Duty::Check,
    group: api::names::GROUP,
    version: api::names::VERSION,
    plural: "hostclaimkinds",
    path: "/validate/hostclaimkinds",
};

/// What the registry checks at admission.
pub const WEBHOOKS: &[Webhook] = &[KINDS];

/// Adds the registry's checks to the process's admission.
#[must_use]
pub fn register(admission: Admission) -> Admission {
    admission.validate(KINDS.path, changed)
}

/// The faults that a write brings in. One that leaves the spec alone brings none: finalizers and labels of a kind that
/// was stored while the webhook was down must stay changeable, or it could not even be deleted.
fn changed(review: &Review<HostClaimKind>) -> Vec<FieldError> {
    match (&review.object, &review.old) {
        (Some(new), Some(old)) if new.spec == old.spec => Vec::new(),
        (Some(new), _) => validate(&new.spec),
        (None, _) => Vec::new(),
    }
}

/// Every fault of the spec, each with the path of its field.
#[must_use]
pub fn validate(spec: &HostClaimKindSpec) -> Vec<FieldError> {
    let root = FieldPath::new("spec").field("argsSchema");
    spec.args_schema.iter().flat_map(|(name, argument)| argument_errors(&root.key(name), argument)).collect()
}

/// The faults in one line, for a condition; `None` when there are none.
#[must_use]
pub fn problem(spec: &HostClaimKindSpec) -> Option<String> {
    let errors = validate(spec);
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

fn argument_errors(path: &FieldPath, argument: &ArgSchema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let limit = usize::try_from(argument.max_length).unwrap_or_default();
    let pattern = match argument.pattern.as_deref().map(compile).transpose() {
        Ok(pattern) => pattern,
        Err(reason) => {
            let shown = argument.pattern.as_deref().unwrap_or_default();
            errors.push(FieldError::invalid(path.field("pattern"), shown, reason));
            None
        }
    };
    let mut check = |path: FieldPath, value: &str| {
        if value.chars().count() > limit {
            errors.push(FieldError::invalid(path.clone(), value, format!("is longer than maxLength, {limit}")));
        }
        if pattern.as_ref().is_some_and(|p| !p.is_match(value)) {
            errors.push(FieldError::invalid(path, value, "does not match the argument's own pattern"));
        }
    };
    for (number, value) in argument.allowed.iter().enumerate() {
        check(path.field("enum").index(number), value);
    }
    if let Some(value) = &argument.default {
        check(path.field("default"), value);
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn spec(argument: ArgSchema) -> HostClaimKindSpec {
        HostClaimKindSpec { args_schema: BTreeMap::from([("zone".to_owned(), argument)]), ..Default::default() }
    }

    #[test]
    fn every_fault_is_found_at_once_and_named_by_its_field() {
        let spec = spec(ArgSchema {
            pattern: Some("[a-z]+".into()),
            allowed: vec!["north".into(), "South".into()],
            default: Some("far-away".into()),
            max_length: 5,
            ..Default::default()
        });
        let found: Vec<String> = validate(&spec).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("spec.argsSchema[zone].enum[1]: "), "{found:?}");
        assert!(found[1].starts_with("spec.argsSchema[zone].default: "), "{found:?}");
        assert!(found[2].starts_with("spec.argsSchema[zone].default: "), "{found:?}");
    }

    #[test]
    fn a_pattern_bomb_or_a_broken_pattern_is_refused() {
        for bad in ["(", "a)(b", "(?=x)", r"(a)\1", "(((a{100}){100}){100})"] {
            let errors = validate(&spec(ArgSchema { pattern: Some(bad.into()), ..Default::default() }));
            assert_eq!(errors.len(), 1, "{bad}");
            assert!(errors[0].to_string().starts_with("spec.argsSchema[zone].pattern: "), "{bad}");
        }
    }

    #[test]
    fn a_write_that_leaves_a_broken_spec_alone_is_let_through() {
        let broken = spec(ArgSchema { pattern: Some("(".into()), ..Default::default() });
        let object = |spec: &HostClaimKindSpec| serde_json::to_value(HostClaimKind::new("a", spec.clone())).unwrap();
        let review = |old: Option<&HostClaimKindSpec>| Review::<HostClaimKind> {
            operation: kit::admission::Operation::Update,
            kind: kube::core::GroupVersionKind::gvk("berth.dev", "v1alpha1", "HostClaimKind"),
            resource: kube::core::GroupVersionResource::gvr("berth.dev", "v1alpha1", "hostclaimkinds"),
            sub_resource: None,
            name: "a".into(),
            namespace: None,
            user: Default::default(),
            dry_run: false,
            object: serde_json::from_value(object(&broken)).unwrap(),
            old: old.map(|old| serde_json::from_value(object(old)).unwrap()),
        };
        assert!(changed(&review(Some(&broken))).is_empty());
        assert_eq!(changed(&review(Some(&spec(ArgSchema::default())))).len(), 1);
        assert_eq!(changed(&review(None)).len(), 1);
    }

    #[test]
    fn a_pattern_must_match_the_whole_value() {
        let argument = ArgSchema { pattern: Some("a|b".into()), default: Some("ab".into()), ..Default::default() };
        assert_eq!(validate(&spec(argument)).len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn no_spec_makes_it_panic(pattern in ".{0,40}", default in proptest::option::of(".{0,20}"), max in -5i32..50) {
            let _ = problem(&spec(ArgSchema { pattern: Some(pattern), default, max_length: max, ..Default::default() }));
        }
    }
}
