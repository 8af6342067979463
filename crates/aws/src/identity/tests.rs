#![allow(missing_docs)]

use super::*;
use crate::port::Keys;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Identities by kind and name, each as its spec stands in Kubernetes.
struct Book(Vec<(IdentityKind, String, Value)>);

impl Identities for Book {
    fn find(&self, name: &IdentityName) -> Option<Identity> {
        let (kind, _, spec) = self.0.iter().find(|(kind, found, _)| (*kind, found) == (name.kind, &name.name))?;
        let spec = spec.clone();
        Some(match kind {
            Controller => Identity::Controller(serde_json::from_value(spec).unwrap()),
            Static => Identity::Static(serde_json::from_value(spec).unwrap()),
            RoleKind => Identity::Role(serde_json::from_value(spec).unwrap()),
        })
    }
}

fn book(all: &[(IdentityKind, &str, Value)]) -> Book {
    Book(all.iter().map(|(kind, name, spec)| (*kind, (*name).to_owned(), spec.clone())).collect())
}

fn reference(kind: &str, name: &str) -> AwsIdentityRef {
    AwsIdentityRef { kind: kind.to_owned(), name: name.to_owned() }
}

fn labels() -> BTreeMap<String, String> {
    [("team".to_owned(), "a".to_owned()), ("prod".to_owned(), String::new())].into()
}

fn resolved(start: (IdentityKind, &str), all: &[(IdentityKind, &str, Value)]) -> Result<Chain, IdentityError> {
    let labels = labels();
    let space = Space { name: "team-a", labels: &labels };
    resolve(Some(&reference(start.0.as_str(), start.1)), space, &book(all))
}

use IdentityKind::{Controller, Role as RoleKind, Static};

fn role(account: u64, with: &Value) -> Value {
    let mut spec = json!({"allowedNamespaces": {}, "roleARN": format!("arn:aws:iam::{account:012}:role/r")});
    spec.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
    spec
}

fn from(kind: IdentityKind, name: &str) -> Value {
    json!({"sourceIdentityRef": {"kind": kind.as_str(), "name": name}})
}

/// Each row: `allowedNamespaces`, and whether the namespace `team-a` with the labels above may use the identity.
#[test]
fn namespaces_are_allowed_by_nothing_everything_name_or_label() {
    let selector = |with: Value| json!({"selector": with});
    let term = |operator: &str, key: &str, values: &[&str]| {
        selector(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
    };
    let rows = [
        (json!(null), false),
        (json!({}), true),
        (json!({"list": null, "selector": {}}), true),
        (json!({"list": []}), false),
        (json!({"list": ["team-b"]}), false),
        (json!({"list": ["team-b", "team-a"]}), true),
        (selector(json!({"matchLabels": {"team": "a"}})), true),
        (selector(json!({"matchLabels": {"team": "b"}})), false),
        (selector(json!({"matchLabels": {"team": "a", "tier": "gold"}})), false),
        (term("In", "team", &["b", "a"]), true),
        (term("In", "team", &["b"]), false),
        (term("NotIn", "team", &["b"]), true),
        (term("NotIn", "team", &["a"]), false),
        (term("NotIn", "tier", &["gold"]), true),
        (term("Exists", "prod", &[]), true),
        (term("Exists", "tier", &[]), false),
        (term("DoesNotExist", "tier", &[]), true),
        (term("DoesNotExist", "prod", &[]), false),
        (term("Matches", "team", &["a"]), false),
        // either is enough
        (json!({"list": ["team-b"], "selector": {"matchLabels": {"team": "a"}}}), true),
        (json!({"list": ["team-a"], "selector": {"matchLabels": {"team": "b"}}}), true),
        (json!({"list": ["team-b"], "selector": {"matchLabels": {"team": "b"}}}), false),
        // what cannot be read allows nobody
        (json!({"list": "team-a"}), false),
        (json!({"selector": {"matchNames": ["team-a"]}}), false),
    ];
    for (allowed, wanted) in rows {
        let found =
            resolved((Controller, "default"), &[(Controller, "default", json!({"allowedNamespaces": allowed}))]);
        assert_eq!(found.is_ok(), wanted, "{allowed}: {found:?}");
        if let Err(error) = found {
            let text = error.to_string();
            assert!(
                text.starts_with("AWSClusterControllerIdentity default does not allow the namespace team-a: "),
                "{text}"
            );
        }
    }
}

#[test]
fn without_a_reference_the_process_serves_the_cluster_itself() {
    let empty = BTreeMap::new();
    let none = resolve(None, Space { name: "x", labels: &empty }, &|_: &IdentityName| None);
    assert_eq!(none, Ok(Chain::process()));
    for (allowed, wanted) in [(json!({}), true), (json!({"list": ["x"]}), true), (json!({"list": ["y"]}), false)] {
        let default = book(&[(Controller, "default", json!({"allowedNamespaces": allowed}))]);
        let found = resolve(None, Space { name: "x", labels: &empty }, &default);
        assert_eq!(found.is_ok(), wanted, "leaving the reference out is no way past {allowed}: {found:?}");
    }
    let nameless = resolve(
        Some(&reference("AWSClusterControllerIdentity", "")),
        Space { name: "x", labels: &empty },
        &book(&[(Controller, "default", json!({"allowedNamespaces": {}}))]),
    );
    assert_eq!(nameless, Ok(Chain::process()));
}

#[test]
fn a_chain_of_roles_ends_in_keys_or_in_the_process() {
    let all = [
        (Static, "keys", json!({"allowedNamespaces": {}, "secretRef": "s"})),
        (RoleKind, "inner", role(1, &from(Static, "keys"))),
        (RoleKind, "outer", {
            let mut spec = role(2, &from(RoleKind, "inner"));
            spec["sessionName"] = json!("berth");
            spec["durationSeconds"] = json!(900);
            spec["externalID"] = json!("e");
            spec["inlinePolicy"] = json!("{}");
            spec["policyARNs"] = json!(["arn:aws:iam::aws:policy/p"]);
            spec
        }),
        (RoleKind, "alone", role(3, &json!({}))),
    ];
    let chain = resolved((RoleKind, "outer"), &all).unwrap();
    let keys = IdentityName { kind: Static, name: "keys".to_owned() };
    assert_eq!(chain.base, Base::Secret { identity: keys, secret: "s".to_owned() });
    let base = Source::Keys(Keys { id: "AKID".to_owned(), secret: "canary".to_owned().into(), session: None });
    let source = chain.onto(base.clone());
    assert_eq!(
        source.describe(),
        "role arn:aws:iam::000000000002:role/r from role arn:aws:iam::000000000001:role/r from keys AKID"
    );
    let Source::Role(outer) = source else { panic!("{source:?}") };
    assert_eq!((outer.session_name.as_deref(), outer.duration_seconds), (Some("berth"), Some(900)));
    assert_eq!((outer.external_id.as_deref(), outer.inline_policy.as_deref()), (Some("e"), Some("{}")));
    assert_eq!(outer.policy_arns, ["arn:aws:iam::aws:policy/p"]);
    let alone = resolved((RoleKind, "alone"), &all).unwrap();
    assert_eq!((&alone.base, alone.roles().count()), (&Base::Process, 1));
    let static_alone = resolved((Static, "keys"), &all).unwrap();
    assert_eq!(static_alone.onto(base.clone()), base);
}

#[test]
fn every_identity_on_the_way_must_allow_the_namespace() {
    for closed in ["keys", "inner", "outer"] {
        let open = |name: &str, mut spec: Value| {
            spec["allowedNamespaces"] = if name == closed { json!({"list": ["team-b"]}) } else { json!({}) };
            spec
        };
        let all = [
            (Static, "keys", open("keys", json!({"secretRef": "s"}))),
            (RoleKind, "inner", open("inner", role(1, &from(Static, "keys")))),
            (RoleKind, "outer", open("outer", role(2, &from(RoleKind, "inner")))),
        ];
        let Err(IdentityError::NotAllowed { name, namespace, .. }) = resolved((RoleKind, "outer"), &all) else {
            panic!("{closed}")
        };
        assert_eq!((name.name.as_str(), namespace.as_str()), (closed, "team-a"));
    }
}

#[test]
fn what_cannot_be_used_is_named() {
    let all = [
        (Static, "empty", json!({"allowedNamespaces": {}})),
        (RoleKind, "bad-arn", json!({"allowedNamespaces": {}, "roleARN": "arn:aws:iam::1:user/u"})),
        (RoleKind, "no-arn", json!({"allowedNamespaces": {}})),
        (RoleKind, "hasty", role(1, &json!({"durationSeconds": 60}))),
        (RoleKind, "slow", role(1, &json!({"durationSeconds": 43_201}))),
        (RoleKind, "zero", role(1, &json!({"durationSeconds": 0}))),
        (RoleKind, "orphan", role(1, &from(Static, "gone"))),
        (RoleKind, "odd", role(1, &json!({"sourceIdentityRef": {"kind": "Robot", "name": "r"}}))),
        (RoleKind, "nameless", role(1, &json!({"sourceIdentityRef": {"kind": "AWSClusterRoleIdentity"}}))),
    ];
    for (start, told) in [
        ((Static, "gone"), "AWSClusterStaticIdentity gone is not there"),
        ((Static, "empty"), "AWSClusterStaticIdentity empty: spec.secretRef"),
        ((RoleKind, "bad-arn"), "AWSClusterRoleIdentity bad-arn: spec.roleARN"),
        ((RoleKind, "no-arn"), "AWSClusterRoleIdentity no-arn: spec.roleARN"),
        ((RoleKind, "hasty"), "AWSClusterRoleIdentity hasty: spec.durationSeconds is 60"),
        ((RoleKind, "slow"), "AWSClusterRoleIdentity slow: spec.durationSeconds is 43201"),
        ((RoleKind, "orphan"), "AWSClusterStaticIdentity gone is not there"),
        ((RoleKind, "odd"), "identityRef: the kind \"Robot\" is unknown"),
        ((RoleKind, "nameless"), "identityRef: the AWSClusterRoleIdentity has no name"),
    ] {
        let error = resolved(start, &all).unwrap_err().to_string();
        assert!(error.starts_with(told), "{start:?}: {error}");
    }
    assert!(resolved((RoleKind, "zero"), &all).is_ok());
}

#[test]
fn loops_and_long_chains_end() {
    let circle = [(RoleKind, "a", role(1, &from(RoleKind, "b"))), (RoleKind, "b", role(2, &from(RoleKind, "a")))];
    let error = resolved((RoleKind, "a"), &circle).unwrap_err();
    assert_eq!(error, IdentityError::Loop(IdentityName { kind: RoleKind, name: "a".to_owned() }));
    let own = [(RoleKind, "a", role(1, &from(RoleKind, "a")))];
    assert!(matches!(resolved((RoleKind, "a"), &own), Err(IdentityError::Loop(_))));
    let chain = |length: usize| {
        let names: Vec<String> = (0..length).map(|n| format!("r{n}")).collect();
        let last = length - 1;
        let all: Vec<(IdentityKind, &str, Value)> = (0..length)
            .map(|n| {
                (
                    RoleKind,
                    names[n].as_str(),
                    role(1, &if n == last { json!({}) } else { from(RoleKind, &names[n + 1]) }),
                )
            })
            .collect();
        resolved((RoleKind, "r0"), &all).map(|chain| chain.roles().count())
    };
    assert_eq!(chain(LONGEST_CHAIN), Ok(LONGEST_CHAIN));
    let long = chain(LONGEST_CHAIN + 1).unwrap_err();
    assert_eq!(long, IdentityError::TooDeep { name: IdentityName { kind: RoleKind, name: "r0".to_owned() } });
}

proptest! {
    /// Whatever references whatever: it ends, and success means that every identity on the way was open.
    #[test]
    fn it_ends_and_no_closed_identity_is_passed(
        nodes in proptest::collection::vec((0..3usize, proptest::option::of(0..8usize), any::<bool>()), 1..8), start in 0..8usize,
    ) {
        let kinds = [Controller, Static, RoleKind];
        let names: Vec<String> = (0..nodes.len()).map(|n| format!("n{n}")).collect();
        let all: Vec<(IdentityKind, &str, Value)> = nodes.iter().enumerate().map(|(n, (kind, next, open))| {
            let mut spec = match kinds[*kind] {
                Controller => json!({}),
                Static => json!({"secretRef": "s"}),
                RoleKind => match next.and_then(|next| nodes.get(next).map(|node| (kinds[node.0], &names[next]))) {
                    Some((kind, name)) => role(1, &from(kind, name)),
                    None => role(1, &json!({})),
                },
            };
            spec["allowedNamespaces"] = if *open { json!({}) } else { json!(null) };
            (kinds[*kind], names[n].as_str(), spec)
        }).collect();
        let start = start % nodes.len();
        let found = resolved((kinds[nodes[start].0], &names[start]), &all);
        let closed_somewhere = !nodes[start].2;
        prop_assert!(!(closed_somewhere && found.is_ok()));
        if let Ok(chain) = found {
            prop_assert!(chain.roles().count() <= LONGEST_CHAIN);
        }
    }
}
