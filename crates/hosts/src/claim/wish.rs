//! A claim, read as the machine it asks for.

use std::collections::BTreeMap;

use api::names::hosts::INSTANCE_ANNOTATION;
use api::own::{
    AWSMachineSpec, AWSMachineStatus, DynamicHostAllocation, MachineInitialization, ProvisioningState,
    ResourceReference,
};
use api::reasons::claims::Reason;
use api::selector::{Term, Test};
use aws::identity::IdentityKind;
use claim_kind::terms::Terms;
use kit::field::FieldPath;

use super::facts::{ClaimFacts, Fault};
use super::kind::{FINALIZER, arg};
use super::owner_name;
use crate::admit::is_free;
use crate::facts::{CloudFacts, MachineFacts, OwnerFacts};
use crate::identity::SECRET;

/// The size of the instance where a claim names a family only.
const SIZE: &str = "large";
/// Labels of a selector that become tags; the rest of what EC2 takes is for what we say ourselves.
const MOST_LABELS: usize = 32;

/// What is wrong with the arguments of a claim.
pub(super) fn fault(terms: &Terms, claim: &ClaimFacts) -> Option<Fault> {
    let path = FieldPath::new("spec").field("args");
    let mut all: Vec<String> = terms.faults(&path, &claim.spec.args).iter().map(ToString::to_string).collect();
    let given = |name: &str| claim.spec.args.get(name);
    match (given(arg::TYPE), given(arg::FAMILY)) {
        (None, None) => all.push(format!("spec.args: {} or {} must be given", arg::TYPE, arg::FAMILY)),
        (Some(type_), Some(family)) if type_.split('.').next() != Some(family.as_str()) => {
            all.push(format!("spec.args[{}]: {type_} is not of the family {family}", arg::TYPE));
        }
        _ => {}
    }
    if let Some((kind, _)) = given(arg::IDENTITY).and_then(|identity| identity.split_once('/')) {
        let known = [IdentityKind::Controller, IdentityKind::Static, IdentityKind::Role].map(IdentityKind::as_str);
        if !known.contains(&kind) {
            let known = known.join(", ");
            all.push(format!("spec.args[{}]: before the / stands one of: {known}", arg::IDENTITY));
        }
    }
    (!all.is_empty()).then(|| Fault { reason: Reason::InvalidArguments, message: all.join("; ") })
}

/// As whom AWS is called: a Secret beside the claim, or an identity that must allow its namespace. Without a word it is
/// the controller identity `default`: it must be there, because who may spend the operator's money is never left open.
fn identity(named: Option<&String>) -> (String, String) {
    match named.map(String::as_str) {
        None | Some("") => (IdentityKind::Controller.as_str().to_owned(), "default".to_owned()),
        Some(named) => match named.split_once('/') {
            Some((kind, name)) => (kind.to_owned(), name.to_owned()),
            None => (SECRET.to_owned(), named.to_owned()),
        },
    }
}

/// What an AWSCluster would say.
pub(super) fn cloud(args: &BTreeMap<String, String>) -> CloudFacts {
    CloudFacts {
        region: args.get(arg::REGION).cloned(),
        identity: Some(identity(args.get(arg::IDENTITY))),
        // Nobody's cluster: no roles with groups of their own, no key, no balancer.
        external: true,
        ..CloudFacts::default()
    }
}

/// What a host that is allocated for a claim is tagged with, so that the next claim that selects the same finds it: what the
/// selector wants to be equal to one value, as far as EC2 takes it for a tag and it is not ours to set.
fn labels(claim: &ClaimFacts) -> BTreeMap<String, String> {
    let equal = |term: &Term| match &term.test {
        Test::OneOf(values) => match &**values {
            [value] => Some((term.key.to_string(), value.to_string())),
            _ => None,
        },
        _ => None,
    };
    let terms = claim.selector.iter().flat_map(|selector| selector.terms());
    terms.filter_map(equal).filter(|(key, value)| is_free(key, value)).take(MOST_LABELS).collect()
}

/// What a Machine would say.
pub(super) fn owner(claim: &ClaimFacts) -> OwnerFacts {
    let named = claim.spec.user_data.as_ref().and_then(|data| data.name.as_deref());
    OwnerFacts {
        cluster: claim.cluster.clone(),
        failure_domain: claim.required_zone().map(Into::into),
        data_secret: named.filter(|name| !name.is_empty()).map(Into::into),
        ..OwnerFacts::default()
    }
}

/// The machine.
pub(super) fn machine(claim: &ClaimFacts, args: &BTreeMap<String, String>) -> MachineFacts {
    let given = |name: &str| args.get(name).filter(|value| !value.is_empty()).cloned();
    let family = given(arg::FAMILY);
    let type_ = given(arg::TYPE).or_else(|| Some(format!("{}.{SIZE}", family.as_deref()?)));
    let reference = |id: String| ResourceReference { id: Some(id), ..ResourceReference::default() };
    let groups = given(arg::GROUPS).unwrap_or_default();
    let published = claim.annotations.get(INSTANCE_ANNOTATION).cloned();
    let mut spec = AWSMachineSpec {
        instance_type: type_.unwrap_or_default(),
        subnet: given(arg::SUBNET).map(reference),
        additional_security_groups: groups
            .split(',')
            .filter(|id| !id.is_empty())
            .map(|id| reference(id.to_owned()))
            .collect(),
        iam_instance_profile: given(arg::PROFILE),
        dynamic_host_allocation: Some(DynamicHostAllocation {
            instance_family: family,
            tags: labels(claim),
            auto_release: Some(given(arg::RELEASE).as_deref() != Some("false")),
            ..DynamicHostAllocation::default()
        }),
        instance_id: published.as_deref().and_then(|id| id.rsplit('/').next()).map(str::to_owned),
        provider_id: published,
        ..AWSMachineSpec::default()
    };
    spec.ami.id = given(arg::IMAGE);
    let provisioned = claim.status.provisioning_state == Some(ProvisioningState::Provisioned);
    MachineFacts {
        uid: claim.uid.clone(),
        generation: claim.generation,
        created: claim.created,
        deleting: claim.deleting,
        deleted_at: claim.deleted_at,
        finalizers: claim.finalizers.clone(),
        finalizer: FINALIZER,
        cluster: claim.cluster.clone(),
        filter: None,
        owner: Some(owner_name(&claim.name).into()),
        annotations: claim.annotations.clone(),
        spec,
        problem: None,
        status: AWSMachineStatus {
            ready: Some(claim.status.ready),
            initialization: provisioned.then_some(MachineInitialization { provisioned: Some(true) }),
            ..AWSMachineStatus::default()
        },
        journal: claim.journal.clone(),
    }
}

#[cfg(test)]
mod tests {
    use aws::port::HostShape;
    use serde_json::{Value, json};

    use super::super::kind::terms;
    use super::*;
    use crate::request;

    fn claim(args: Value, more: Value) -> ClaimFacts {
        let mut spec = json!({"kind": "aws-dedicated-host", "poweredOn": true, "args": args});
        for (key, value) in more.as_object().cloned().unwrap_or_default() {
            spec[key] = value;
        }
        let metadata = json!({"namespace": "t", "name": "c", "uid": "0b8e1fb5-6d5e-4e0e-8d0e-000000000001"});
        let claim = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        ClaimFacts::of(claim).unwrap()
    }

    fn args(more: &[(&str, &str)]) -> Value {
        let mut all = json!({"region": "us-west-2", "instanceType": "m5.large", "ami": "ami-0000000a"});
        for (name, value) in more {
            all[*name] = json!(value);
        }
        all
    }

    fn of(args: Value) -> (MachineFacts, Option<Fault>) {
        let claim = claim(args, json!({}));
        (machine(&claim, &terms().complete(&claim.spec.args)), fault(&terms(), &claim))
    }

    #[test]
    fn the_host_is_of_the_type_or_of_the_family_that_is_named() {
        let shape = |args| request::shape(&of(args).0.spec).unwrap();
        assert_eq!(shape(args(&[])), HostShape::Type("m5.large".parse().unwrap()));
        assert_eq!(shape(args(&[("instanceFamily", "m5")])), HostShape::Family("m5".parse().unwrap()));
        let family = json!({"region": "us-west-2", "instanceFamily": "m5", "ami": "ami-0000000a"});
        let (machine, fault) = of(family);
        assert_eq!((machine.spec.instance_type.as_str(), fault), ("m5.large", None));
    }

    #[test]
    fn a_machine_of_a_claim_is_tied_to_a_host_of_its_own_and_gives_it_back() {
        let (machine, fault) =
            of(args(&[("securityGroups", "sg-0000000a,sg-0000000b"), ("subnet", "subnet-0000000a")]));
        assert_eq!(fault, None);
        assert!(machine.releases() && machine.spec.dynamic_host_allocation.is_some());
        assert_eq!(machine.spec.additional_security_groups.len(), 2);
        assert_eq!(machine.owner.as_deref(), Some("HostClaim/c"));
        assert_eq!(request::tenancy(&machine.spec).1, Some(aws::port::Affinity::Host));
        assert!(!of(args(&[("autoRelease", "false")])).0.releases());
    }

    #[test]
    fn credentials_come_from_the_namespace_of_the_claim_or_from_who_allows_it() {
        let identity = |named: &[(&str, &str)]| {
            let claim = claim(args(named), json!({}));
            cloud(&claim.spec.args).identity.unwrap()
        };
        let pair = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
        assert_eq!(identity(&[]), pair("AWSClusterControllerIdentity", "default"));
        assert_eq!(identity(&[("identity", "keys")]), pair("Secret", "keys"));
        assert_eq!(identity(&[("identity", "AWSClusterRoleIdentity/r")]), pair("AWSClusterRoleIdentity", "r"));
        for stranger in ["other/keys", "Secret/keys"] {
            let fault = of(args(&[("identity", stranger)])).1.unwrap();
            assert!(fault.message.contains("spec.args[identity]"), "{}", fault.message);
        }
    }

    #[test]
    fn what_the_kind_cannot_do_is_refused_by_name() {
        let found = |more: Value| claim(args(&[]), more).fault.map(|fault| fault.reason);
        assert_eq!(found(json!({})), None);
        assert_eq!(found(json!({"image": {"url": "https://x/y"}})), Some(Reason::UnsupportedImage));
        assert_eq!(found(json!({"networkData": {"name": "n"}})), Some(Reason::UnsupportedData));
        assert_eq!(found(json!({"metaData": {"name": "n"}})), Some(Reason::UnsupportedData));
        assert_eq!(found(json!({"poweredOn": "maybe"})), Some(Reason::InvalidArguments));
        assert_eq!(found(json!({"hostSelector": {"matchLabels": {"pool": "gold"}, "inNamespace": "t"}})), None);
        let odd = json!({"hostSelector": {"matchExpressions": [{"key": "pool", "operator": "like", "values": ["x"]}]}});
        assert_eq!(found(odd), Some(Reason::InvalidArguments));
        let theirs = claim(args(&[]), json!({"hostSelector": {"inNamespace": "other"}}));
        assert!(theirs.fault.unwrap().message.contains("inNamespace") && theirs.selector.is_none());
        let fault = of(json!({"region": "us-west-2", "ami": "ami-0000000a"})).1.unwrap();
        assert!(fault.message.contains("instanceType or instanceFamily"), "{}", fault.message);
        let fault = of(args(&[("instanceFamily", "c5"), ("ami", "linux"), ("hostAffinity", "default")])).1.unwrap();
        for part in ["spec.args[ami]", "spec.args[hostAffinity]", "not of the family c5"] {
            assert!(fault.message.contains(part), "{part}: {}", fault.message);
        }
    }

    #[test]
    fn what_a_selector_wants_to_be_equal_becomes_tags_of_a_new_host() {
        let long = format!("{}.example.org/x", ["a"; 60].join("."));
        let selector = json!({
            "matchLabels": {"pool": "gold", "hosts.berth.dev/retained": "true", "MachineName": "other-m", (long.as_str()): "x"},
            "matchExpressions": [
                {"key": "rack", "operator": "In", "values": ["r1"]},
                {"key": "row", "operator": "=", "values": ["7"]},
                {"key": "zone", "operator": "in", "values": ["a", "b"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "cost", "operator": "lt", "values": ["9"]},
            ],
        });
        let claim = claim(args(&[]), json!({"hostSelector": selector}));
        assert_eq!(claim.fault, None);
        let tags = machine(&claim, &claim.spec.args).spec.dynamic_host_allocation.unwrap().tags;
        let pairs: Vec<(&str, &str)> = tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("pool", "gold"), ("rack", "r1"), ("row", "7")]);
        assert!(of(args(&[])).0.spec.dynamic_host_allocation.unwrap().tags.is_empty());
    }

    #[test]
    fn a_zone_is_required_or_only_wished() {
        let zone = |mode: &str| {
            let claim = claim(args(&[]), json!({"failureDomain": "us-west-2b", "failureDomainMode": mode}));
            (owner(&claim).failure_domain, claim.preferred_zone().map(str::to_owned))
        };
        assert_eq!(zone("Required"), (Some("us-west-2b".into()), Some("us-west-2b".to_owned())));
        assert_eq!(zone("Preferred"), (None, Some("us-west-2b".to_owned())));
    }
}
