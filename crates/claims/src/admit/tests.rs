#![allow(missing_docs)]

use super::*;
use api::own::{HostClaimKindSpec, HostClaimStatus};
use claim_kind::terms::Terms;
use kit::admission::{FaultKind, Operation};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

const NAMESPACE: &str = "team-a";

fn spec(value: Value) -> HostClaimSpec {
    serde_json::from_value(value).unwrap()
}

fn claim(value: Value) -> HostClaim {
    let mut claim = HostClaim::new("web-0", spec(value));
    claim.metadata.namespace = Some(NAMESPACE.to_owned());
    claim
}

fn bound(mut claim: HostClaim, status: Value) -> HostClaim {
    claim.status = Some(serde_json::from_value::<HostClaimStatus>(status).unwrap());
    claim
}

fn review<T>(object: Option<T>, old: Option<T>) -> Review<T> {
    Review {
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        kind: kube::core::GroupVersionKind::gvk("metal3.io", "v1alpha1", "HostClaim"),
        resource: kube::core::GroupVersionResource::gvr("metal3.io", "v1alpha1", "hostclaims"),
        sub_resource: None,
        name: "web-0".into(),
        namespace: Some(NAMESPACE.into()),
        user: Default::default(),
        dry_run: false,
        object,
        old,
    }
}

fn created(value: Value) -> Verdict {
    claim_verdict(&review(Some(claim(value)), None), &|_| Listing::Silent)
}

fn updated(old: HostClaim, new: HostClaim) -> Verdict {
    claim_verdict(&review(Some(new), Some(old)), &|_| Listing::Silent)
}

fn paths(errors: &[FieldError]) -> Vec<&str> {
    errors.iter().map(|error| error.path.as_str()).collect()
}

/// Each row: what is added to a plain claim, and the paths of the faults that must be found.
#[test]
fn every_rule_of_a_claim_names_its_field() {
    let image = |image: Value| json!({"image": image});
    let selector = |selector: Value| json!({"hostSelector": selector});
    let term = |operator: &str, values: &[&str]| {
        selector(json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}))
    };
    let long = "x".repeat(64);
    let rows: Vec<(Value, &[&str])> = vec![
        (json!({}), &[]),
        // power
        (json!({"poweredOn": null}), &["spec.poweredOn"]),
        (json!({"poweredOn": null, "online": true}), &[]),
        (json!({"online": true}), &[]),
        (json!({"online": false}), &["spec.online"]),
        // V1: keys, values, operators, arity
        (selector(json!({"matchLabels": {"a.b/c": "d", "e": ""}})), &[]),
        (selector(json!({"matchLabels": {"a b": "d"}})), &["spec.hostSelector.matchLabels[a b]"]),
        (selector(json!({"matchLabels": {"a": "d/e"}})), &["spec.hostSelector.matchLabels[a]"]),
        (selector(json!({"matchLabels": {"a": long}})), &["spec.hostSelector.matchLabels[a]"]),
        (selector(json!({"inNamespace": "metal"})), &[]),
        (selector(json!({"inNamespace": ""})), &[]),
        (selector(json!({"inNamespace": "Metal!"})), &["spec.hostSelector.inNamespace"]),
        (term("=", &["b"]), &[]),
        (term("==", &["b"]), &[]),
        (term("!=", &["b"]), &[]),
        (term("in", &["b", "c"]), &[]),
        (term("NotIn", &["b"]), &[]),
        (term("exists", &[]), &[]),
        (term("!", &[]), &[]),
        (term("DoesNotExist", &[]), &[]),
        (term("gt", &["-3"]), &[]),
        (term("Lt", &["12"]), &[]),
        (term("=", &[]), &["spec.hostSelector.matchExpressions[0].values"]),
        (term("!=", &["b", "c"]), &["spec.hostSelector.matchExpressions[0].values"]),
        (term("in", &[]), &["spec.hostSelector.matchExpressions[0].values"]),
        (term("Exists", &["b"]), &["spec.hostSelector.matchExpressions[0].values"]),
        (term("gt", &["many"]), &["spec.hostSelector.matchExpressions[0].values"]),
        (term("gt", &["1", "2"]), &["spec.hostSelector.matchExpressions[0].values"]),
        (term("like", &["b"]), &["spec.hostSelector.matchExpressions[0].operator"]),
        (term("in", &["b", "c d"]), &["spec.hostSelector.matchExpressions[0].values[1]"]),
        // V2: Secrets of the claim's own namespace
        (json!({"userData": {"name": "s"}, "metaData": {"name": "s", "namespace": NAMESPACE}}), &[]),
        (json!({"networkData": {"name": "s", "namespace": ""}}), &[]),
        (json!({"userData": {"name": "s", "namespace": "metal"}}), &["spec.userData.namespace"]),
        (json!({"networkData": {"name": "s", "namespace": "metal"}}), &["spec.networkData.namespace"]),
        (json!({"metaData": {"name": "s", "namespace": "metal"}}), &["spec.metaData.namespace"]),
        (json!({"metaData": {"namespace": "metal"}}), &["spec.metaData.name", "spec.metaData.namespace"]),
        // V3: images
        (image(json!({"url": "http://i.example/a", "checksum": "c"})), &[]),
        (image(json!({"url": "HTTPS://i.example/a", "checksum": "c", "checksumType": "sha512"})), &[]),
        (image(json!({"url": "oci://i.example/a:1"})), &[]),
        (image(json!({"url": "https://i.example/a.iso", "format": "live-iso"})), &[]),
        (image(json!({"url": "https://i.example/a"})), &["spec.image.checksum"]),
        (image(json!({"url": "https://i.example/a", "checksum": ""})), &["spec.image.checksum"]),
        (image(json!({"url": "oci://i.example/a", "checksum": "c"})), &["spec.image.checksum"]),
        (image(json!({"url": "file:///etc/shadow", "checksum": "c"})), &["spec.image.url"]),
        (image(json!({"url": "/etc/shadow", "checksum": "c"})), &["spec.image.url"]),
        (image(json!({"url": "https:///a", "checksum": "c"})), &["spec.image.url"]),
        (image(json!({"url": "https://i.example/a b", "checksum": "c"})), &["spec.image.url"]),
        (image(json!({"url": "ftp://i.example/a", "checksum": "c"})), &["spec.image.url"]),
        (image(json!({"url": "http://169.254.169.254/a", "checksum": "c"})), &["spec.image.url"]),
        (image(json!({"url": "https://a@i.example/a", "checksum": "c"})), &["spec.image.url"]),
        (image(json!({"url": "https://i.example/red/../blue", "checksum": "c"})), &["spec.image.url"]),
        (image(json!({"url": "https://i.example/a", "checksum": "https://i.example/sums"})), &[]),
        (image(json!({"url": "https://i.example/a", "checksum": "file:///etc/shadow"})), &["spec.image.checksum"]),
        (image(json!({"url": "https://i.example/a", "checksum": "http://[::1]/sums"})), &["spec.image.checksum"]),
        (
            image(json!({"url": "http://i.example/a", "checksum": "c", "checksumType": "crc"})),
            &["spec.image.checksumType"],
        ),
        // V4: one of two
        (json!({"customDeploy": {"method": "install"}}), &[]),
        (json!({"customDeploy": {"method": ""}}), &["spec.customDeploy.method"]),
        (json!({"customDeploy": {"method": "m"}, "image": {"url": "oci://i.example/a"}}), &["spec.customDeploy"]),
        // V6 without a registry: baremetal takes no arguments, of others nothing is known
        (json!({"args": {"zone": "a"}}), &["spec.args[zone]"]),
        (json!({"kind": "other", "args": {"zone": "a"}}), &[]),
        // V9
        (json!({"nodeReuse": "g", "failureDomain": "rack"}), &[]),
        (json!({"nodeReuse": "", "failureDomain": ""}), &["spec.failureDomain", "spec.nodeReuse"]),
    ];
    for (added, wanted) in rows {
        let mut value = json!({"poweredOn": true});
        value.as_object_mut().unwrap().extend(added.as_object().unwrap().clone());
        let verdict = created(value);
        assert_eq!(paths(&verdict.errors), wanted, "{added}: {:?}", verdict.errors);
    }
}

#[test]
fn all_faults_are_told_at_once_and_the_room_hears_the_same() {
    let broken =
        json!({"image": {"url": "file:///x"}, "userData": {"name": "s", "namespace": "metal"}, "nodeReuse": ""});
    let verdict = created(broken.clone());
    assert_eq!(
        paths(&verdict.errors),
        ["spec.poweredOn", "spec.image.url", "spec.userData.namespace", "spec.nodeReuse"]
    );
    let line = problem(&spec(broken), NAMESPACE).unwrap();
    for path in paths(&verdict.errors) {
        assert!(line.contains(path), "{line}");
    }
    assert_eq!(problem(&spec(json!({"poweredOn": false})), NAMESPACE), None);
}

#[test]
fn the_registry_says_which_kinds_and_arguments_there_are() {
    let kind: HostClaimKindSpec = serde_json::from_value(json!({"controllerName": "c", "capabilities": ["power"],
        "argsSchema": {"zone": {"required": true}, "size": {"enum": ["small"]}}}))
    .unwrap();
    let terms = Arc::new(Terms::of(kind));
    let listed = |name: &str| if name == "vm" { Listing::Listed(terms.clone()) } else { Listing::Missing };
    let judge = |value: Value| claim_verdict(&review(Some(claim(value)), None), &listed);

    assert!(judge(json!({"poweredOn": true, "kind": "vm", "args": {"zone": "a", "size": "small"}})).errors.is_empty());
    let verdict = judge(json!({"poweredOn": true, "kind": "vm", "args": {"size": "huge", "colour": "red"}}));
    assert_eq!(paths(&verdict.errors), ["spec.args[zone]", "spec.args[colour]", "spec.args[size]"]);
    let verdict = judge(json!({"poweredOn": true, "kind": "ship"}));
    assert_eq!((paths(&verdict.errors), verdict.errors[0].kind), (vec!["spec.kind"], FaultKind::NotSupported));
    // Berth serves baremetal itself, whether or not somebody listed it.
    assert!(judge(json!({"poweredOn": true})).errors.is_empty());
    assert_eq!(paths(&judge(json!({"poweredOn": true, "args": {"a": "b"}})).errors), ["spec.args[a]"]);

    let unused = judge(json!({"poweredOn": true, "kind": "vm", "args": {"zone": "a"}, "userData": {"name": "s"},
        "hostSelector": {"matchLabels": {"a": "b"}}, "failureDomain": "z"}));
    assert!(unused.errors.is_empty());
    let fields: Vec<&str> = unused.warnings.iter().map(|w| w.split(':').next().unwrap()).collect();
    assert_eq!(fields, ["spec.hostSelector", "spec.failureDomain", "spec.userData"]);
    assert!(kind_problem(&spec(json!({"kind": "ship"})), &Listing::Missing).is_some());
    assert_eq!(kind_problem(&spec(json!({"kind": "ship"})), &Listing::Silent), None);

    // A kind that left the registry does not lock its claims.
    let old = claim(json!({"poweredOn": true, "kind": "ship"}));
    let new = claim(json!({"poweredOn": false, "kind": "ship"}));
    assert!(claim_verdict(&review(Some(new), Some(old)), &listed).errors.is_empty());
}

#[test]
fn annotations_that_ask_for_something_are_read() {
    let annotated = |key: &str, value: &str| {
        let mut claim = claim(json!({"poweredOn": true}));
        claim.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
        claim
    };
    let rows = [
        ("reboot.metal3.io", "", true),
        ("reboot.metal3.io", "{}", true),
        ("reboot.metal3.io", r#"{"mode":"hard","force":true}"#, true),
        ("reboot.metal3.io/key", r#"{"mode":"soft"}"#, true),
        ("reboot.metal3.io/key", r#"{"mode":"gentle"}"#, false),
        ("reboot.metal3.io", r#"{"mode":7}"#, false),
        ("reboot.metal3.io", r#"{"force":"yes"}"#, false),
        ("reboot.metal3.io", "hard", false),
        ("reboot.metal3.io", "[]", false),
        ("reboot.metal3.iota", "anything", true),
        ("baremetalhost.metal3.io/detached", "", true),
        ("baremetalhost.metal3.io/detached", r#"{"force":true}"#, true),
        ("baremetalhost.metal3.io/detached", "true", false),
        ("baremetalhost.metal3.io/detached", "{", false),
        ("example.org/other", "{", true),
    ];
    for (key, value, good) in rows {
        let verdict = claim_verdict(&review(Some(annotated(key, value)), None), &|_| Listing::Silent);
        let path = format!("metadata.annotations[{key}]");
        let wanted: &[&str] = if good { &[] } else { &[&path] };
        assert_eq!(paths(&verdict.errors), wanted, "{key}={value}");
        // What was stored already does not stand in the way of other changes.
        assert!(updated(annotated(key, value), annotated(key, value)).errors.is_empty());
    }
}

#[test]
fn what_has_a_machine_keeps_its_kind_arguments_and_image() {
    let base = json!({"poweredOn": true, "kind": "vm", "args": {"a": "1"}, "image": {"url": "oci://i.example/a"}});
    let with = |key: &str, value: Value| {
        let mut changed = base.clone();
        changed[key] = value;
        claim(changed)
    };
    let host = json!({"bareMetalHost": {"namespace": "metal", "name": "h"}});
    let machine = json!({"resourceID": "i-1"});
    let deployed = json!({"bareMetalHost": {"namespace": "metal", "name": "h"}, "provisioningState": "Provisioned"});
    let failed = json!({"provisioningState": "Error"});
    let reported = json!({"image": {"url": "oci://i.example/a"}});
    let available = json!({"bareMetalHost": {"namespace": "metal", "name": "h"}, "provisioningState": "Available"});
    let other_image = || with("image", json!({"url": "oci://i.example/b"}));
    let custom = || {
        let mut claim = with("image", Value::Null);
        claim.spec.custom_deploy = Some(api::own::CustomDeploy { method: "m".into() });
        claim
    };
    let new_secret = || with("image", json!({"url": "oci://i.example/a", "ociAuthSecretName": "s"}));
    let rows: Vec<(Value, HostClaim, &[&str])> = vec![
        (json!({}), with("kind", json!("other")), &["spec.kind"]),
        (json!({}), with("args", json!({"a": "2"})), &[]),
        (host.clone(), with("args", json!({"a": "2"})), &["spec.args"]),
        (machine, with("args", json!({})), &["spec.args"]),
        (json!({}), other_image(), &[]),
        (host, other_image(), &[]),
        (available, other_image(), &[]),
        (deployed.clone(), other_image(), &["spec.image"]),
        (failed, other_image(), &["spec.image"]),
        (reported, other_image(), &["spec.image"]),
        (deployed.clone(), custom(), &["spec.customDeploy"]),
        (deployed.clone(), with("image", Value::Null), &[]),
        (deployed.clone(), new_secret(), &[]),
        (deployed, with("poweredOn", json!(false)), &[]),
    ];
    for (status, new, wanted) in rows {
        let verdict = updated(bound(claim(base.clone()), status.clone()), new);
        assert_eq!(paths(&verdict.errors), wanted, "{status}: {:?}", verdict.errors);
    }
}

#[test]
fn changes_that_count_only_for_the_next_machine_are_pointed_out() {
    let old = claim(json!({"poweredOn": true}));
    let new = claim(json!({"poweredOn": true, "hostSelector": {"matchLabels": {"a": "b"}}, "failureDomain": "r"}));
    assert!(updated(old.clone(), new.clone()).warnings.is_empty());
    let verdict = updated(bound(old, json!({"bareMetalHost": {"namespace": "metal", "name": "h"}})), new);
    assert!(verdict.errors.is_empty());
    let fields: Vec<&str> = verdict.warnings.iter().map(|w| w.split(':').next().unwrap()).collect();
    assert_eq!(fields, ["spec.hostSelector", "spec.failureDomain"]);
}

#[test]
fn nothing_stands_in_the_way_of_a_claim_that_goes_or_keeps_its_spec() {
    let broken = claim(json!({"image": {"url": "file:///x"}}));
    assert!(updated(broken.clone(), broken.clone()).errors.is_empty());
    let mut going = claim(json!({"image": {"url": "file:///y"}}));
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(updated(broken.clone(), going), Verdict::default());
    assert_eq!(claim_verdict(&review(None, Some(broken)), &|_| Listing::Missing), Verdict::default());
}

#[test]
fn a_claim_is_stored_in_one_form() {
    let mut claim = claim(json!({"online": true, "hostSelector": {"matchExpressions": [
        {"key": "a", "operator": "In", "values": ["b"]}, {"key": "a", "operator": "DoesNotExist"},
        {"key": "a", "operator": "Gt", "values": ["1"]}, {"key": "a", "operator": "=="}, {"key": "a", "operator": "odd"}]}}));
    normalise(&mut claim, None, true);
    assert_eq!((claim.spec.powered_on, claim.spec.online), (Some(true), None));
    let operators: Vec<&str> =
        claim.spec.host_selector.match_expressions.iter().map(|term| term.operator.as_str()).collect();
    assert_eq!(operators, ["in", "!", "gt", "==", "odd"]);
    assert_eq!(claim.metadata.finalizers, Some(vec!["metal3.io/hostclaim".to_owned()]));
    let mut other = self::claim(json!({"poweredOn": true, "kind": "vm"}));
    other.metadata.finalizers = Some(vec!["mine".to_owned()]);
    normalise(&mut other, None, true);
    assert_eq!(other.metadata.finalizers, Some(vec!["mine".to_owned(), "vm.berth.dev/hostclaim".to_owned()]));
    let mut later = self::claim(json!({"poweredOn": true}));
    let stored = later.clone();
    normalise(&mut later, Some(&stored), false);
    assert_eq!(later.metadata.finalizers, None);
}

#[test]
fn a_claim_of_a_cluster_makes_a_move_wait_from_the_start() {
    let waits = |kind: &str, labels: Value, creating: bool| {
        let mut claim = claim(json!({"poweredOn": true, "kind": kind}));
        claim.metadata.labels = serde_json::from_value(labels).unwrap();
        normalise(&mut claim, None, creating);
        claim.metadata.annotations.is_some_and(|all| all.contains_key("clusterctl.cluster.x-k8s.io/block-move"))
    };
    let member = || json!({"cluster.x-k8s.io/cluster-name": "village"});
    assert!(waits("baremetal", member(), true) && waits("", member(), true));
    // Whoever serves another kind sees to it, and one that was opened for a move stays open.
    assert!(!waits("vm", member(), true) && !waits("baremetal", member(), false));
    assert!(!waits("baremetal", json!({"team": "red"}), true) && !waits("baremetal", json!(null), true));
}

/// Who writes `online` goes on writing it although the stored object has `poweredOn`.
#[test]
fn the_name_of_the_power_field_that_changed_is_the_one_that_counts() {
    let of = |powered_on: Value, online: Value| claim(json!({"poweredOn": powered_on, "online": online}));
    let rows = [
        // stored, written, result
        ((json!(true), json!(null)), (json!(true), json!(false)), Some(false)),
        ((json!(false), json!(null)), (json!(false), json!(true)), Some(true)),
        ((json!(null), json!(true)), (json!(false), json!(true)), Some(false)),
        ((json!(null), json!(true)), (json!(null), json!(false)), Some(false)),
        ((json!(true), json!(true)), (json!(true), json!(false)), Some(false)),
        ((json!(null), json!(null)), (json!(true), json!(false)), None),
    ];
    for (stored, written, wanted) in rows {
        let text = format!("{stored:?} -> {written:?}");
        let (old, mut new) = (of(stored.0, stored.1), of(written.0, written.1));
        normalise(&mut new, Some(&old), false);
        match wanted {
            Some(value) => assert_eq!((new.spec.powered_on, new.spec.online), (Some(value), None), "{text}"),
            None => assert_eq!(paths(&claim::faults(&new.spec, NAMESPACE)), ["spec.online"], "{text}"),
        }
    }
}

fn policy(value: Value) -> HostDeployPolicySpec {
    serde_json::from_value(value).unwrap()
}

#[test]
fn every_rule_of_a_policy_names_its_field() {
    let long = "a".repeat(513);
    let namespaces = |value: Value| json!({"hostClaimNamespaces": value});
    let rows: Vec<(Value, &[&str])> = vec![
        (json!({}), &[]),
        (namespaces(json!({"names": ["Not A Name"], "nameMatches": "^a$", "hasLabels": [{"name": "a.b/c"}]})), &[]),
        (namespaces(json!({"nameMatches": "("})), &["spec.hostClaimNamespaces.nameMatches"]),
        (namespaces(json!({"nameMatches": "(?=a)"})), &["spec.hostClaimNamespaces.nameMatches"]),
        (namespaces(json!({"nameMatches": r"(a)\1"})), &["spec.hostClaimNamespaces.nameMatches"]),
        (namespaces(json!({"nameMatches": "((a{200}){200}){200}"})), &["spec.hostClaimNamespaces.nameMatches"]),
        (namespaces(json!({"nameMatches": long})), &["spec.hostClaimNamespaces.nameMatches"]),
        (
            namespaces(json!({"hasLabels": [{"name": "a b"}, {"name": "a", "value": "b c"}]})),
            &["spec.hostClaimNamespaces.hasLabels[0].name", "spec.hostClaimNamespaces.hasLabels[1].value"],
        ),
        (
            json!({"metadataCopy": {"labelsMatch": "[", "annotationsMatch": "*"}, "selectableLabels": "a)(b"}),
            &["spec.selectableLabels", "spec.metadataCopy.labelsMatch", "spec.metadataCopy.annotationsMatch"],
        ),
        (json!({"maxHosts": 0}), &[]),
        (json!({"maxHosts": -1}), &["spec.maxHosts"]),
        (json!({"imageURLPrefixes": ["https://i.example/", ""]}), &["spec.imageURLPrefixes[1]"]),
        (
            json!({"hostSelector": {"matchLabels": {"a": "b c"}, "matchExpressions": [{"key": "a", "operator": "In"}]}}),
            &["spec.hostSelector.matchLabels[a]", "spec.hostSelector.matchExpressions[0].values"],
        ),
    ];
    for (value, wanted) in rows {
        let spec = policy(value.clone());
        let errors = policy::faults(&spec);
        assert_eq!(paths(&errors), wanted, "{value}: {errors:?}");
        assert_eq!(policy_problem(&spec).is_none(), wanted.is_empty());
    }
}

#[test]
fn a_pattern_that_matches_in_the_middle_of_a_name_is_pointed_out() {
    for (pattern, anchored) in [
        ("^prod$", true),
        (r"\Aprod\z", true),
        ("^(prod|dev)$", true),
        ("^prod$|^dev$", true),
        ("^[|]$", true),
        (r"^a\\$", true),
        ("", false),
        ("prod", false),
        ("^prod", false),
        ("prod$", false),
        ("^prod|dev$", false),
        (r"^prod\$", false),
        ("^a$|b", false),
    ] {
        let spec = policy(json!({"hostClaimNamespaces": {"nameMatches": pattern}}));
        assert_eq!(policy::warnings(&spec).is_empty(), anchored, "{pattern}");
    }
    let spec = policy(json!({"hostClaimNamespaces": {"names": ["Team A"]}, "imageURLPrefixes":
        ["https://i.example/red", "https://i.example", "https://i.example/", "https://", "https://i.example/a/../b"]}));
    let fields: Vec<String> =
        policy::warnings(&spec).iter().map(|w| w.split(": ").next().unwrap().to_owned()).collect();
    assert_eq!(fields, ["spec.hostClaimNamespaces.names[0]", "spec.imageURLPrefixes[0]", "spec.imageURLPrefixes[4]"]);
}

#[test]
fn a_policy_or_quota_that_keeps_its_spec_or_goes_is_let_through() {
    let broken = HostDeployPolicy::new("p", policy(json!({"selectableLabels": "("})));
    let fine = HostDeployPolicy::new("p", policy(json!({})));
    assert_eq!(policy_verdict(&review(Some(broken.clone()), Some(broken.clone()))), Verdict::default());
    assert_eq!(policy_verdict(&review(Some(broken.clone()), Some(fine))).errors.len(), 1);
    assert_eq!(policy_verdict(&review(None, Some(broken))), Verdict::default());
    let quota = |value: Value| HostClaimQuota::new("q", serde_json::from_value(value).unwrap());
    let broken = quota(json!({"tenants": {}, "hard": {"hosts": 1}}));
    assert!(quota_verdict(&review(Some(broken.clone()), Some(broken.clone()))).is_empty());
    assert_eq!(quota_verdict(&review(Some(broken.clone()), None)).len(), 1);
    assert!(quota_verdict(&review(None, Some(broken))).is_empty());
}

#[test]
fn every_rule_of_a_quota_names_its_field() {
    let rows: Vec<(Value, &[&str])> = vec![
        (json!({"tenants": {"names": ["a"]}, "hard": {"hosts": 0}}), &[]),
        (json!({"tenants": {"namespaceSelector": {}}, "hard": {"hosts": 3}}), &[]),
        (json!({"tenants": {}, "hard": {"hosts": 3}}), &["spec.tenants"]),
        (
            json!({"tenants": {"names": ["A"]}, "infraNamespaces": ["m", "-"], "hard": {"hosts": -1}}),
            &["spec.tenants.names[0]", "spec.infraNamespaces[1]", "spec.hard.hosts"],
        ),
        (
            json!({"tenants": {"namespaceSelector": {"matchLabels": {"a b": "c"}}}, "hard": {"hosts": 1},
                "hostSelector": {"matchLabels": {"a": "b c"}}}),
            &["spec.tenants.namespaceSelector.matchLabels[a b]", "spec.hostSelector.matchLabels[a]"],
        ),
    ];
    for (value, wanted) in rows {
        let spec: HostClaimQuotaSpec = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(paths(&policy::quota_faults(&spec)), wanted, "{value}");
        assert_eq!(quota_problem(&spec).is_none(), wanted.is_empty());
    }
}

#[test]
fn every_webhook_has_its_function_and_every_function_its_webhook() {
    let admission = register(Admission::new(), |_| Listing::Silent);
    let mut wanted: Vec<&str> = WEBHOOKS.iter().map(|webhook| webhook.path).collect();
    wanted.sort_unstable();
    assert_eq!(admission.paths().collect::<Vec<_>>(), wanted);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,12}", "[a-z0-9./-]{0,12}", Just("x".repeat(300))]
}

fn any_spec() -> impl Strategy<Value = HostClaimSpec> {
    let operator = prop_oneof![
        prop::sample::select(api::own::OPERATORS.to_vec()).prop_map(str::to_owned),
        Just("odd".to_owned()),
        text()
    ];
    let values = prop::collection::vec(prop_oneof![text(), any::<i64>().prop_map(|n| n.to_string())], 0..3);
    let term = (text(), operator, values).prop_map(|(key, operator, values)| api::own::HostRequirement {
        key,
        operator,
        values,
    });
    let selector = (
        prop::collection::btree_map(text(), text(), 0..3),
        prop::collection::vec(term, 0..4),
        prop::option::of(text()),
    )
        .prop_map(|(match_labels, match_expressions, in_namespace)| api::own::HostSelector {
            match_labels,
            match_expressions,
            in_namespace,
        });
    let url =
        prop_oneof![text(), text().prop_map(|t| format!("https://{t}")), text().prop_map(|t| format!("oci://{t}"))];
    let image = (url, prop::option::of(text()), prop::option::of(text()), prop::option::of(text())).prop_map(
        |(url, checksum, checksum_type, format)| api::own::HostImage {
            url,
            checksum,
            checksum_type,
            format,
            oci_auth_secret_name: None,
        },
    );
    let secret = (prop::option::of(text()), prop::option::of(text()))
        .prop_map(|(name, namespace)| api::own::SecretReference { name, namespace });
    (
        (any::<Option<bool>>(), any::<Option<bool>>(), prop_oneof![Just(String::new()), text()]),
        selector,
        prop::option::of(image),
        prop::option::of(secret),
        prop::collection::btree_map(text(), text(), 0..3),
        prop::option::of(text()),
    )
        .prop_map(|((powered_on, online, kind), host_selector, image, user_data, args, node_reuse)| {
            HostClaimSpec {
                powered_on,
                online,
                kind,
                host_selector,
                image,
                user_data,
                args,
                node_reuse,
                ..HostClaimSpec::default()
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_normalised_claim_is_judged_the_same_and_stays_as_it_is(spec in any_spec()) {
        let mut claim = HostClaim::new("c", spec);
        let before = claim::faults(&claim.spec, NAMESPACE);
        normalise(&mut claim, None, true);
        let after = claim::faults(&claim.spec, NAMESPACE);
        prop_assert_eq!(paths(&after), paths(&before));
        let once = claim.clone();
        normalise(&mut claim, None, true);
        prop_assert_eq!(&claim, &once);
        normalise(&mut claim, Some(&once), false);
        prop_assert_eq!(&claim, &once);
    }

    #[test]
    fn no_change_makes_it_panic_and_a_claim_without_faults_has_no_problem(old in any_spec(), new in any_spec()) {
        let verdict = updated(HostClaim::new("c", old), HostClaim::new("c", new.clone()));
        let _ = created(json!({}));
        prop_assert_eq!(problem(&new, NAMESPACE).is_none(), claim::faults(&new, NAMESPACE).is_empty());
        prop_assert!(verdict.errors.iter().all(|error| error.path.as_str().starts_with("spec.")));
    }

    #[test]
    fn no_policy_makes_it_panic(pattern in ".{0,40}", prefix in text(), names in prop::collection::vec(text(), 0..3)) {
        let spec = policy(json!({"hostClaimNamespaces": {"nameMatches": pattern, "names": names},
            "selectableLabels": pattern, "imageURLPrefixes": [prefix]}));
        let (errors, _) = (policy::faults(&spec), policy::warnings(&spec));
        prop_assert_eq!(errors.is_empty(), policy_problem(&spec).is_none());
    }

    #[test]
    fn no_annotation_makes_it_panic(key in prop_oneof![Just("reboot.metal3.io".to_owned()), text()], value in ".{0,60}") {
        let mut claim = claim(json!({"poweredOn": true}));
        claim.metadata.annotations = Some([(key, value)].into());
        let _ = claim::annotation_faults(&claim, None);
    }
}

#[test]
fn a_claim_holds_only_so_many_reboots() {
    let holding = |count: usize| {
        let mut claim = claim(json!({"poweredOn": true}));
        let keys = (0..count).map(|n| (format!("reboot.metal3.io/k{n:02}"), String::new()));
        claim.metadata.annotations = Some(keys.collect());
        claim
    };
    assert_eq!(claim::annotation_faults(&holding(8), None), []);
    let errors = claim::annotation_faults(&holding(9), Some(&holding(8)));
    assert_eq!(errors.iter().map(|error| error.path.as_str()).collect::<Vec<_>>(), ["metadata.annotations"]);
    assert_eq!(claim::annotation_faults(&holding(9), Some(&holding(10))), [], "fewer than before");
}
