#![allow(missing_docs)]

mod changes;
mod placements;
mod rules;

use super::*;
use kit::admission::FaultKind::{Forbidden, Invalid, NotSupported, Required, TooMany};
use kit::admission::{FaultKind, Operation};
use placements::{PLACEMENTS, placed};
use proptest::prelude::*;
use serde_json::{Value, json};

const HOST: &str = "h-0123456789abcdef0";

/// A plain machine with some fields added, replaced or, by null, removed.
fn spec(with: &Value) -> AWSMachineSpec {
    let mut base = json!({
        "instanceType": "m5.4xlarge", "ami": {"id": "ami-0123456789abcdef0"},
        "cloudInit": {"insecureSkipSecretsManager": true},
    });
    merge(&mut base, with);
    serde_json::from_value(base).unwrap()
}

fn merge(base: &mut Value, with: &Value) {
    for (key, value) in with.as_object().unwrap() {
        match value {
            Value::Null => drop(base.as_object_mut().unwrap().remove(key)),
            value => base[key] = value.clone(),
        }
    }
}

fn review<T>(object: T, old: Option<T>) -> Review<T> {
    Review {
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        kind: kube::core::GroupVersionKind::gvk(GROUP, VERSION, "AWSMachine"),
        resource: kube::core::GroupVersionResource::gvr(GROUP, VERSION, "awsmachines"),
        sub_resource: None,
        name: "m".into(),
        namespace: Some("ns".into()),
        user: Default::default(),
        dry_run: false,
        object: Some(object),
        old,
    }
}

fn machine(with: &Value) -> AWSMachine {
    AWSMachine::new("m", spec(with))
}

fn template(with: &Value) -> AWSMachineTemplate {
    let spec = AWSMachineTemplateResource { metadata: None, spec: spec(with) };
    AWSMachineTemplate::new("t", api::own::AWSMachineTemplateSpec { template: spec })
}

/// As the API server asks: defaults first, then checks.
fn created(with: &Value) -> Verdict {
    let mut machine = machine(with);
    fill(&mut machine.spec);
    machine_verdict(&review(machine, None))
}

fn created_template(with: &Value) -> Verdict {
    let mut template = template(with);
    fill(&mut template.spec.template.spec);
    template_verdict(&review(template, None))
}

fn updated(old: &Value, new: &Value) -> Verdict {
    let mut new = machine(new);
    fill(&mut new.spec);
    machine_verdict(&review(new, Some(machine(old))))
}

/// Kind and path of each fault.
fn told(verdict: &Verdict) -> Vec<(FaultKind, &str)> {
    verdict.errors.iter().map(|error| (error.kind, error.path.as_str())).collect()
}

fn paths(verdict: &Verdict) -> Vec<&str> {
    verdict.errors.iter().map(|error| error.path.as_str()).collect()
}

#[test]
fn every_webhook_is_registered_at_its_path() {
    let admission = register(Admission::new(), &Ours::default());
    let paths: std::collections::BTreeSet<&str> = admission.paths().collect();
    assert_eq!(paths, WEBHOOKS.iter().map(|webhook| webhook.path).collect());
}

proptest! {
    #[test]
    fn filling_in_twice_is_filling_in_once_and_never_a_change(
        row in 0..PLACEMENTS.len(), quantity in proptest::option::of(-1..12), release in proptest::option::of(any::<bool>()),
    ) {
        let mut with = placed(&PLACEMENTS[row]);
        if PLACEMENTS[row].3 {
            merge(&mut with, &json!({"dynamicHostAllocation": {}}));
            if let Some(quantity) = quantity { with["dynamicHostAllocation"]["quantity"] = json!(quantity); }
            if let Some(release) = release { with["dynamicHostAllocation"]["autoRelease"] = json!(release); }
        }
        let raw = spec(&with);
        let mut once = raw.clone();
        fill(&mut once);
        let mut twice = once.clone();
        fill(&mut twice);
        prop_assert_eq!(&once, &twice);
        prop_assert!(change::of_machine(&raw, &once).is_empty());
        prop_assert!(change::of_machine(&once, &raw).is_empty());
        prop_assert!(change::of_template(&raw, &once).is_empty());
        prop_assert_eq!(faults(&raw, Of::Machine).len(), faults(&once, Of::Machine).len());
    }
}

#[test]
fn what_hosts_are_known_by_is_nobodys_to_write() {
    let tagged =
        json!({"additionalTags": {"hosts.berth.dev/retained": "true", "kubernetes.io/cluster/infra": "owned"}});
    assert_eq!(told(&created(&tagged)), [(Forbidden, "spec.additionalTags[hosts.berth.dev/retained]")]);
    let mut copied = template(&json!({}));
    let annotations = [("hosts.berth.dev/allocation".to_owned(), "{}".to_owned()), ("mine".to_owned(), String::new())];
    let metadata = api::own::TemplateMetadata { annotations: annotations.into(), ..Default::default() };
    copied.spec.template.metadata = Some(metadata);
    let path = "spec.template.metadata.annotations[hosts.berth.dev/allocation]";
    assert_eq!(told(&template_verdict(&review(copied, None))), [(Forbidden, path)]);
}
