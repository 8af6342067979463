#![allow(missing_docs)]

use super::*;
use api::own::metal3::{
    Metal3ClusterSpec, Metal3DataClaimSpec, Metal3DataSpec, Metal3DataTemplateSpec, Metal3MachineTemplateSpec,
    Metal3RemediationSpec, Metal3RemediationTemplateSpec,
};
use kit::admission::FaultKind;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAMESPACE: &str = "team-a";

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn merged(mut base: Value, with: &Value) -> Value {
    for (key, value) in with.as_object().unwrap() {
        match value {
            Value::Null => drop(base.as_object_mut().unwrap().remove(key)),
            value => base[key] = value.clone(),
        }
    }
    base
}

fn image() -> Value {
    json!({"url": "https://i.example/a", "checksum": "c"})
}

/// A machine with an image and some fields added, replaced or, by null, removed.
fn machine(with: &Value) -> Metal3Machine {
    Metal3Machine::new("m", read(merged(json!({"image": image()}), with)))
}

fn template(with: &Value) -> Metal3MachineTemplate {
    let spec = merged(json!({"image": image()}), with);
    Metal3MachineTemplate::new("t", read(json!({"template": {"spec": spec}})))
}

fn written<'r, K>(new: &'r K, old: Option<&'r K>) -> Written<'r, K> {
    Written { new, old, namespace: NAMESPACE, only_asks: false }
}

/// As the API server asks: defaults first, then checks.
fn created(with: &Value) -> Verdict {
    let mut new = machine(with);
    machine::fill(&mut new.spec);
    machine_verdict(&written(&new, None))
}

fn updated(old: &Value, new: &Value) -> Verdict {
    let (old, mut new) = (machine(old), machine(new));
    machine::fill(&mut new.spec);
    machine_verdict(&written(&new, Some(&old)))
}

fn told(verdict: &Verdict) -> Vec<(FaultKind, &str)> {
    verdict.errors.iter().map(|error| (error.kind, error.path.as_str())).collect()
}

fn paths(verdict: &Verdict) -> Vec<&str> {
    verdict.errors.iter().map(|error| error.path.as_str()).collect()
}

#[test]
fn every_webhook_is_registered_at_its_path_and_so_is_the_conversion() {
    let admission = register(Admission::new(), &Ours::default());
    let paths: std::collections::BTreeSet<&str> = admission.paths().collect();
    assert_eq!(paths, WEBHOOKS.iter().map(|webhook| webhook.path).chain([CONVERT_PATH]).collect());
    assert!(admission.router().is_ok());
}

/// Each row: what is added to a machine that takes a host directly, and the paths of the faults.
#[test]
fn of_a_machine_on_a_host_only_what_metal3_refuses_is_refused() {
    let rows: Vec<(Value, &[&str])> = vec![
        (json!({}), &[]),
        (json!({"image": null}), &["spec.image"]),
        (json!({"image": null, "customDeploy": {"method": "m"}}), &[]),
        (json!({"image": null, "customDeploy": {"method": ""}}), &["spec.image"]),
        (json!({"customDeploy": {"method": "m"}}), &[]),
        (json!({"image": {"url": ""}}), &["spec.image.url", "spec.image.checksum"]),
        (json!({"image": {"url": "no url", "checksum": "c"}}), &["spec.image.url"]),
        (json!({"image": {"url": "1x://a", "checksum": "c"}}), &["spec.image.url"]),
        (json!({"image": {"url": "http://a\u{7f}", "checksum": "c"}}), &["spec.image.url"]),
        (json!({"image": {"url": "file:///images/a", "checksum": "c"}}), &[]),
        (json!({"image": {"url": "/images/a", "checksum": "c"}}), &[]),
        (json!({"image": {"url": "http://127.0.0.1/a b", "checksum": "c"}}), &[]),
        (json!({"image": {"url": "http://a/b"}}), &["spec.image.checksum"]),
        (json!({"image": {"url": "http://a/b", "diskFormat": "live-iso"}}), &[]),
        (json!({"image": {"url": "OCI://a/b"}}), &[]),
        (json!({"image": {"url": "http://a/b", "checksum": "http://a/\u{1}"}}), &["spec.image.checksum"]),
        (json!({"hostSelector": {"matchExpressions": [{"key": "a b", "operator": "like", "values": []}]}}), &[]),
        (json!({"userData": {"name": "u", "namespace": "other"}}), &[]),
        (json!({"dataTemplate": {"name": "t", "namespace": "other"}}), &[]),
        (json!({"failureDomain": ""}), &[]),
        (json!({"args": {"a": "b"}}), &["spec.args"]),
    ];
    for (with, wanted) in rows {
        assert_eq!(paths(&created(&with)), wanted, "{with}");
        let in_template = template_verdict(&written(&template(&with), None));
        let wanted: Vec<String> = wanted.iter().map(|path| path.replace("spec.", "spec.template.spec.")).collect();
        assert_eq!(paths(&in_template), wanted, "{with}");
    }
    let warned = created(&json!({"hostSelector": {"inNamespace": "metal"}}));
    assert!(warned.errors.is_empty());
    assert_eq!(warned.warnings, ["spec.hostSelector.inNamespace: has an effect only on machines that run on a claim"]);
}

/// Each row: what is added to a machine on a claim, and the paths of the faults.
#[test]
fn every_rule_of_a_machine_on_a_claim_names_its_field() {
    let long = "x".repeat(64);
    let many: serde_json::Map<String, Value> = (0..65).map(|n| (format!("a{n}"), json!("b"))).collect();
    let term = |operator: &str, values: Value| json!({"hostSelector": {"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}});
    let rows: Vec<(Value, &[&str])> = vec![
        (json!({}), &[]),
        (json!({"kind": "cloudstack-vm", "image": null}), &[]),
        (json!({"kind": "Not A Label"}), &["spec.kind"]),
        (json!({"kind": "a.b"}), &["spec.kind"]),
        (json!({"kind": long}), &["spec.kind"]),
        (json!({"image": null}), &["spec.image"]),
        (json!({"image": null, "customDeploy": {"method": "m"}}), &[]),
        (json!({"customDeploy": {"method": "m"}}), &["spec.customDeploy"]),
        (json!({"image": null, "customDeploy": {"method": ""}}), &["spec.customDeploy.method"]),
        (json!({"image": {"url": "file:///a", "checksum": "c"}}), &["spec.image.url"]),
        (json!({"image": {"url": "http://169.254.169.254/a", "checksum": "c"}}), &["spec.image.url"]),
        (json!({"image": {"url": "https://i.example/a"}}), &["spec.image.checksum"]),
        (json!({"image": {"url": "https://i.example/a", "diskFormat": "live-iso"}}), &[]),
        (json!({"image": {"url": "oci://i.example/a", "checksum": "c"}}), &["spec.image.checksum"]),
        (
            json!({"image": {"url": "https://i.example/a", "checksum": "c", "checksumType": "crc"}}),
            &["spec.image.checksumType"],
        ),
        (json!({"args": {"a": "b"}}), &[]),
        (json!({"args": {"": "b"}}), &["spec.args[]"]),
        (json!({"args": {"a": "x".repeat(4097)}}), &["spec.args[a]"]),
        (json!({"args": many}), &["spec.args"]),
        (term("In", json!(["b"])), &[]),
        (term("DoesNotExist", json!([])), &[]),
        (term("like", json!(["b"])), &["spec.hostSelector.matchExpressions[0].operator"]),
        (term("exists", json!(["b"])), &["spec.hostSelector.matchExpressions[0].values"]),
        (json!({"hostSelector": {"inNamespace": "metal"}}), &[]),
        (json!({"hostSelector": {"inNamespace": "Metal!"}}), &["spec.hostSelector.inNamespace"]),
        (json!({"userData": {"name": "u", "namespace": NAMESPACE}}), &[]),
        (json!({"userData": {"name": "u", "namespace": "other"}}), &["spec.userData.namespace"]),
        (json!({"networkData": {"namespace": ""}}), &["spec.networkData.name"]),
        (json!({"metaData": {"name": "u", "namespace": "other"}}), &["spec.metaData.namespace"]),
        (json!({"failureDomain": ""}), &["spec.failureDomain"]),
        (json!({"dataTemplate": {"name": "t", "namespace": NAMESPACE}}), &[]),
        (json!({"dataTemplate": {"namespace": "other"}}), &["spec.dataTemplate.name", "spec.dataTemplate.namespace"]),
        (
            json!({"failureDomainDataTemplates": [
                {"failureDomain": "a", "dataTemplate": {"name": "t"}},
                {"failureDomain": "a", "dataTemplate": {"name": "t", "namespace": "other"}},
                {"failureDomain": "", "dataTemplate": {}},
            ]}),
            &[
                "spec.failureDomainDataTemplates[1].failureDomain",
                "spec.failureDomainDataTemplates[1].dataTemplate.namespace",
                "spec.failureDomainDataTemplates[2].failureDomain",
                "spec.failureDomainDataTemplates[2].dataTemplate.name",
            ],
        ),
    ];
    for (with, wanted) in rows {
        let mut on_claim = json!({"kind": "baremetal"});
        on_claim.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
        assert_eq!(paths(&created(&on_claim)), wanted, "{with}");
        let spec = machine(&with).spec;
        let kind = on_claim["kind"].as_str().unwrap();
        assert_eq!(problem(&spec, kind, NAMESPACE).is_some(), !wanted.is_empty(), "{with}");
    }
}

#[test]
fn the_kind_of_a_machine_stays() {
    let (metal, cloud, none) = (json!({"kind": "baremetal"}), json!({"kind": "cloudstack-vm"}), json!({}));
    for (old, new) in [(&metal, &cloud), (&metal, &none), (&none, &metal)] {
        let verdict = updated(old, new);
        assert_eq!(told(&verdict), [(FaultKind::Forbidden, "spec.kind")]);
        let text = verdict.errors[0].to_string();
        assert!(text.contains("migration between kinds is a new machine from a new template"), "{text}");
    }
    assert!(updated(&metal, &metal).errors.is_empty());
}

#[test]
fn what_was_stored_wrong_stays_changeable_where_it_is_not_about_the_spec() {
    let wrong = json!({"kind": "baremetal", "image": null});
    assert!(updated(&wrong, &wrong).errors.is_empty());
    let placed = merged(wrong.clone(), &json!({"providerID": "metal3://a/b/c"}));
    assert!(updated(&wrong, &placed).errors.is_empty(), "the provider id is the controller's");
    let changed = merged(wrong.clone(), &json!({"failureDomain": "r"}));
    assert_eq!(paths(&updated(&wrong, &changed)), ["spec.image"]);
    let (old, mut leaving) = (machine(&wrong), machine(&changed));
    leaving.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert!(machine_verdict(&written(&leaving, Some(&old))).errors.is_empty());
    let warned = updated(&json!({"kind": "baremetal"}), &json!({"kind": "baremetal", "failureDomain": "r"}));
    assert_eq!((warned.errors.len(), warned.warnings.len()), (0, 1));
}

#[test]
fn a_template_of_machines_on_claims_stays_and_one_on_hosts_can_be_changed() {
    let verdict = |old: &Value, new: &Value, only_asks: bool| {
        let (old, new) = (template(old), template(new));
        template_verdict(&Written { only_asks, ..written(&new, Some(&old)) })
    };
    let (metal, other) = (json!({"kind": "baremetal"}), json!({"kind": "baremetal", "failureDomain": "r"}));
    assert_eq!(told(&verdict(&metal, &other, false)), [(FaultKind::Forbidden, "spec.template.spec")]);
    assert!(verdict(&metal, &other, true).errors.is_empty(), "Cluster API only asks");
    assert_eq!(paths(&verdict(&metal, &json!({}), false)), ["spec.template.spec.kind"]);
    assert_eq!(paths(&verdict(&json!({}), &metal, false)), ["spec.template.spec.kind"]);
    assert!(verdict(&json!({}), &json!({"failureDomain": "r"}), false).errors.is_empty());
    assert_eq!(paths(&verdict(&json!({}), &json!({"image": null}), false)), ["spec.template.spec.image"]);
    let spelled = |operator: &str| json!({"kind": "baremetal", "hostSelector": {"matchExpressions": [{"key": "a", "operator": operator}]}});
    assert!(verdict(&spelled("Exists"), &spelled("exists"), false).errors.is_empty());
    let reuse = |on: bool| -> Metal3MachineTemplate {
        let mut template = template(&metal);
        template.spec = Metal3MachineTemplateSpec { node_reuse: on, ..template.spec };
        template
    };
    assert!(template_verdict(&written(&reuse(true), Some(&reuse(false)))).errors.is_empty());
}

#[test]
fn clusters_say_where_they_are_reached_and_get_a_port() {
    let filled = |value: Value| -> Metal3ClusterSpec {
        let mut spec = read(value);
        cluster::fill(&mut spec);
        let mut twice = spec.clone();
        cluster::fill(&mut twice);
        assert_eq!(spec, twice);
        spec
    };
    let spec = filled(json!({"controlPlaneEndpoint": {"host": "h"}}));
    assert_eq!((spec.control_plane_endpoint.port, spec.cloud_provider_enabled), (Some(6443), Some(true)));
    let spec = filled(json!({"controlPlaneEndpoint": {"host": "h", "port": 1}, "cloudProviderEnabled": false}));
    assert_eq!((spec.control_plane_endpoint.port, spec.cloud_provider_enabled), (Some(1), Some(false)));
    let nowhere = Metal3Cluster::new("c", filled(json!({})));
    assert_eq!(paths(&cluster_verdict(&written(&nowhere, None))), ["spec.controlPlaneEndpoint.host"]);
    assert!(cluster_verdict(&written(&nowhere, Some(&nowhere))).errors.is_empty());
}

#[test]
fn every_rule_of_a_data_template_names_its_field() {
    let network = |kind: &str, network: Value| json!({"networkData": {"networks": {kind: [network]}}});
    let route = |kind: &str, route: Value| {
        network(kind, json!({"id": "a", "link": "e", "ipAddressFromIPPool": "p", "routes": [route]}))
    };
    let base = |kind: &str, rest: &str| format!("spec.networkData.networks.{kind}[0].{rest}");
    let rows: Vec<(Value, Vec<String>)> = vec![
        (json!({}), vec![]),
        (
            json!({"metaData": {"fromHostInterfaces": [{"key": "a", "interface": "e"}, {"key": "b", "fromBootMAC": true}]}}),
            vec![],
        ),
        (
            json!({"metaData": {"fromHostInterfaces": [{"key": "a"}, {"key": "b", "fromBootMAC": true, "interface": "e"}]}}),
            vec![
                "spec.metaData.fromHostInterfaces[0].interface".to_owned(),
                "spec.metaData.fromHostInterfaces[1].interface".to_owned(),
            ],
        ),
        (network("ipv4", json!({"id": "a", "link": "e"})), vec![base("ipv4", "fromPoolRef.name")]),
        (network("ipv6", json!({"id": "a", "link": "e"})), vec![base("ipv6", "fromPoolRef.name")]),
        (network("ipv4", json!({"id": "a", "link": "e", "fromPoolRef": {"name": "p"}})), vec![]),
        (
            network(
                "ipv6",
                json!({"id": "a", "link": "e", "fromPoolAnnotation": {"object": "machine", "annotation": "x"}}),
            ),
            vec![],
        ),
        (network("ipv4DHCP", json!({"id": "a", "link": "e"})), vec![]),
        (route("ipv4", json!({"network": "0.0.0.0", "prefix": 0, "gateway": {"string": "10.0.0.1"}})), vec![]),
        (
            route(
                "ipv4",
                json!({"network": "::", "prefix": 33, "gateway": {"string": "x"}, "services": {"dns": ["::1"]}}),
            ),
            ["network", "prefix", "gateway.string", "services.dns[0]"]
                .map(|field| base("ipv4", &format!("routes[0].{field}")))
                .to_vec(),
        ),
        (route("ipv6SLAAC", json!({"network": "::", "prefix": 128, "gateway": {"string": "fe80::1"}})), vec![]),
        (route("ipv6DHCP", json!({"network": "10.0.0.0", "gateway": {}})), vec![base("ipv6DHCP", "routes[0].network")]),
        (
            json!({"networkData": {"services": {"dns": ["8.8.8.8", "::1", "dns.example"]}}}),
            vec!["spec.networkData.services.dns[2]".to_owned()],
        ),
    ];
    for (value, wanted) in rows {
        let new = Metal3DataTemplate::new("t", read::<Metal3DataTemplateSpec>(value.clone()));
        assert_eq!(paths(&data_template_verdict(&written(&new, None))), wanted, "{value}");
    }
}

#[test]
fn data_belongs_to_one_machine_and_one_template() {
    let template = |value: Value| Metal3DataTemplate::new("t", read::<Metal3DataTemplateSpec>(value));
    let (old, new) = (
        template(json!({"clusterName": "a"})),
        template(
            json!({"clusterName": "b", "metaData": {"namespaces": [{"key": "n"}]}, "networkData": {"services": {"dns": ["::1"]}}}),
        ),
    );
    let verdict = data_template_verdict(&written(&new, Some(&old)));
    assert_eq!(paths(&verdict), ["spec.metaData", "spec.networkData"], "the name of the cluster can be changed");
    assert!(data_template_verdict(&written(&new, Some(&new))).errors.is_empty());

    let claim = |value: Value| Metal3DataClaim::new("m", read::<Metal3DataClaimSpec>(json!({"template": value})));
    let (none, one, other) =
        (claim(json!({})), claim(json!({"name": "t"})), claim(json!({"name": "t", "namespace": "x"})));
    assert_eq!(paths(&data_claim_verdict(&written(&none, None))), ["spec.template.name"]);
    assert_eq!(paths(&data_claim_verdict(&written(&other, None))), ["spec.template.namespace"]);
    assert!(data_claim_verdict(&written(&one, None)).errors.is_empty());
    assert_eq!(paths(&data_claim_verdict(&written(&other, Some(&one)))), ["spec.template", "spec.template.namespace"]);
    assert!(data_claim_verdict(&written(&claim(json!({"name": "t", "namespace": ""})), Some(&one))).errors.is_empty());

    let data = |name: &str, value: Value| Metal3Data::new(name, read::<Metal3DataSpec>(value));
    let right = data("t-3", json!({"index": 3, "template": {"name": "t"}, "claim": {"name": "m"}}));
    assert!(data_verdict(&written(&right, None)).errors.is_empty());
    let wrong = data("u-3", json!({"index": -1, "template": {"name": "t", "namespace": "x"}}));
    assert_eq!(
        paths(&data_verdict(&written(&wrong, None))),
        ["metadata.name", "spec.index", "spec.template.namespace"]
    );
    assert_eq!(paths(&data_verdict(&written(&wrong, Some(&right)))), ["spec.index", "spec.template", "spec.claim"]);
    let moved =
        data("t-3", json!({"index": 3, "template": {"name": "t"}, "claim": {"name": "m"}, "metaData": {"name": "s"}}));
    assert!(data_verdict(&written(&moved, Some(&right))).errors.is_empty());
}

#[test]
fn remediation_is_a_reboot_with_time_and_tries() {
    let spec = |value: Value| read::<Metal3RemediationSpec>(json!({"strategy": value}));
    let mut none = Metal3RemediationSpec::default();
    remediation::fill(&mut none);
    assert_eq!(none, spec(json!({"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 600})));
    let good = Metal3Remediation::new("r", none);
    assert!(remediation_verdict(&written(&good, None)).errors.is_empty());
    let bad = spec(json!({"type": "Prayer", "retryLimit": 0, "timeoutSeconds": 99}));
    let fields = ["type", "retryLimit", "timeoutSeconds"];
    let alone = Metal3Remediation::new("r", bad.clone());
    assert_eq!(paths(&remediation_verdict(&written(&alone, None))), fields.map(|f| format!("spec.strategy.{f}")));
    assert!(remediation_verdict(&written(&alone, Some(&alone))).errors.is_empty());
    let template = read::<Metal3RemediationTemplateSpec>(json!({"template": {"spec": bad}}));
    let template = Metal3RemediationTemplate::new("t", template);
    let verdict = remediation_template_verdict(&written(&template, None));
    assert_eq!(paths(&verdict), fields.map(|f| format!("spec.template.spec.strategy.{f}")));
    let silent = Metal3Remediation::new("r", Metal3RemediationSpec::default());
    assert_eq!(paths(&remediation_verdict(&written(&silent, None))), ["spec.strategy"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// What is admitted is what the claim of the machine is admitted with: nobody learns of a fault only from the claim.
    #[test]
    fn a_machine_that_is_admitted_makes_a_claim_that_fits_its_definition(
        url in "(https?|oci|file)://[a-z.]{0,6}/[a-z.%]{0,6}", checksum in proptest::option::of("[a-f0-9/:]{0,6}"),
        operator in "in|In|exists|like|gt", values in proptest::collection::vec("[a-z0-9]{0,3}", 0..3),
    ) {
        let spec: Metal3MachineSpec = read(json!({
            "kind": "baremetal", "image": {"url": url, "checksum": checksum},
            "hostSelector": {"matchExpressions": [{"key": "k", "operator": operator, "values": values}]},
        }));
        let root = FieldPath::new("spec");
        let claimed = kit::admission::claimed::selector_faults(&root.field("hostSelector"), &spec.host_selector).len()
            + kit::admission::claimed::image_faults(&root.field("image"), &spec.image.as_ref().unwrap().for_claim()).len();
        prop_assert_eq!(machine::faults(&spec, spec.kind.as_deref(), NAMESPACE, Of::Machine).len(), claimed);
        let (mut once, mut twice) = (spec.clone(), spec);
        machine::fill(&mut once);
        machine::fill(&mut twice);
        machine::fill(&mut twice);
        prop_assert_eq!(once, twice);
    }
}
