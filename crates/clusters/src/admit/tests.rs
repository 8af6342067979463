#![allow(missing_docs)]

mod change;
mod parts;
mod rules;

use super::*;
use crate::version::Minor;
use api::own::anywhere::ClusterSpec;
use kit::field::FaultKind;
use parts::{datacenter, machine, zone};
use proptest::prelude::*;
use rules::cluster_rules;
use serde_json::{Value, json};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGE7LJhzVsoIcAcSZjhoSDDTH12Jl0t6eJLWlrHjBPGi me@host";

/// Replaces fields, removes those that are null, and keeps the others.
fn merge(base: &mut Value, patch: &Value) {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            for (name, value) in patch {
                if value.is_null() {
                    base.remove(name);
                } else {
                    merge(base.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (base, patch) => *base = patch.clone(),
    }
}

fn merged(mut base: Value, patch: &Value) -> Value {
    merge(&mut base, patch);
    base
}

fn group() -> Value {
    json!({"name": "md-0", "count": 2, "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "worker"}})
}

fn cluster_spec() -> Value {
    json!({
        "kubernetesVersion": "1.31",
        "managementCluster": {"name": "mgmt"},
        "datacenterRef": {"kind": "CloudStackDatacenterConfig", "name": "dc"},
        "clusterNetwork": {
            "pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/12"]},
            "cniConfig": {"cilium": {}},
        },
        "controlPlaneConfiguration": {
            "count": 3, "endpoint": {"host": "172.16.0.5"},
            "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "cp"},
        },
        "workerNodeGroupConfigurations": [group()],
    })
}

fn cluster(name: &str, spec: Value) -> Cluster {
    let mut cluster = Cluster::new(name, serde_json::from_value(spec).unwrap());
    cluster.metadata.namespace = Some("team-a".into());
    cluster
}

fn told(judgement: &Judgement) -> Vec<(String, String)> {
    judgement.errors.iter().map(|error| (error.path.to_string(), error.detail.clone())).collect()
}

fn wanted(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(path, message)| ((*path).to_owned(), (*message).to_owned())).collect()
}

fn plane(patch: Value) -> Value {
    json!({"controlPlaneConfiguration": patch})
}

fn first(patch: Value) -> Value {
    json!({"workerNodeGroupConfigurations": [merged(group(), &patch)]})
}

fn network(patch: Value) -> Value {
    json!({"clusterNetwork": patch})
}

fn cilium(patch: Value) -> Value {
    network(json!({"cniConfig": {"cilium": patch}}))
}

const CP: &str = "spec.controlPlaneConfiguration";
const MD: &str = "spec.workerNodeGroupConfigurations[0]";
const CONFIG: &str = "must reference a CloudStackMachineConfig by name";
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n";

type Row = (&'static str, Value, Vec<(String, String)>);

#[test]
fn every_rule_of_a_cluster_has_its_field_and_message() {
    let mut seen = std::collections::BTreeSet::new();
    for (id, patch, wanted) in cluster_rules() {
        let new = cluster("prod", merged(cluster_spec(), &patch));
        assert_eq!(told(&judge_cluster(&new, None, &Terms::default())), wanted, "{id}: {patch}");
        seen.insert(id);
    }
    let all: Vec<String> = (3..=29).map(|number| format!("CL{number}")).collect();
    let missing: Vec<&String> = all.iter().filter(|id| !seen.contains(id.as_str())).collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
}

/// CL1.
#[test]
fn the_name_of_a_cluster_fits_everything_it_becomes_a_part_of() {
    let message = "must be 2-35 characters, start with a letter, only a-z 0-9 -";
    let (long, longest) = ("a".repeat(36), "a".repeat(35));
    for bad in ["a", long.as_str(), "1a", "Prod", "a.b", "a-", "a_b", ""] {
        let found = told(&judge_cluster(&cluster(bad, cluster_spec()), None, &Terms::default()));
        assert_eq!(found, wanted(&[("metadata.name", message)]), "{bad}");
    }
    for good in ["ab", longest.as_str(), "a-1"] {
        assert_eq!(told(&judge_cluster(&cluster(good, cluster_spec()), None, &Terms::default())), [], "{good}");
    }
}

/// CL2.
#[test]
fn a_cluster_that_manages_itself_is_not_created_here() {
    let own = |name: Value| cluster("prod", merged(cluster_spec(), &json!({"managementCluster": name})));
    for alone in [json!(null), json!({"name": ""}), json!({"name": "prod"})] {
        let new = own(alone.clone());
        let refusal = judge_cluster(&new, None, &Terms::default()).refusal;
        let text = "self-managed clusters cannot be created through this API; set spec.managementCluster.name";
        assert_eq!(refusal.as_deref(), Some(text), "{alone}");
        for (key, value) in [(PAUSED_ANNOTATION, "true"), (MANAGED_BY_CLI_ANNOTATION, "true")] {
            let mut watched = new.clone();
            watched.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
            assert_eq!(judge_cluster(&watched, None, &Terms::default()).refusal, None, "{key}");
        }
        assert_eq!(judge_cluster(&new, Some(&own(json!({"name": "x"}))), &Terms::default()).refusal, None);
    }
    assert_eq!(judge_cluster(&own(json!({"name": "mgmt"})), None, &Terms::default()).refusal, None);
}

#[test]
fn what_is_unusual_but_allowed_is_a_warning() {
    let warned = |patch: Value| {
        judge_cluster(&cluster("prod", merged(cluster_spec(), &patch)), None, &Terms::default()).warnings
    };
    assert_eq!(warned(json!({})), Vec::<String>::new());
    assert_eq!(warned(plane(json!({"count": 5}))), Vec::<String>::new());
    for count in [1, 7] {
        let found = warned(plane(json!({"count": count})));
        assert!(found.len() == 1 && found[0].starts_with("spec.controlPlaneConfiguration.count: "), "{found:?}");
    }
    let found = warned(first(json!({"count": 11})));
    assert!(found.len() == 1 && found[0].contains("nodeStartupTimeout"), "{found:?}");
    assert!(warned(first(json!({"count": 11, "machineHealthCheck": {"nodeStartupTimeout": "20m"}}))).is_empty());
}

#[test]
fn the_newest_version_binds_versions_that_are_new() {
    let terms = Terms { newest: Some(Minor(30)), ..Terms::default() };
    let message = "cloudstack provider supports Kubernetes up to 1.30";
    let new = cluster("prod", cluster_spec());
    assert_eq!(told(&judge_cluster(&new, None, &terms)), wanted(&[("spec.kubernetesVersion", message)]));
    let edited = cluster("prod", merged(cluster_spec(), &plane(json!({"count": 5}))));
    assert_eq!(told(&judge_cluster(&edited, Some(&new), &terms)), [], "one that is there stays editable");
    let raised = cluster("prod", merged(cluster_spec(), &json!({"kubernetesVersion": "1.32"})));
    assert_eq!(told(&judge_cluster(&raised, Some(&new), &terms)), wanted(&[("spec.kubernetesVersion", message)]));
    let grouped = cluster("prod", merged(cluster_spec(), &first(json!({"kubernetesVersion": "1.31"}))));
    let path = at_group("kubernetesVersion");
    assert_eq!(told(&judge_cluster(&grouped, Some(&new), &terms)), vec![(path, message.to_owned())]);
    assert_eq!(cluster_problem(&new, &terms), None);
}

fn at_group(field: &str) -> String {
    format!("{MD}.{field}")
}

/// CL21 where extra arguments are enabled.
#[test]
fn arguments_that_an_issuer_of_tokens_sets_are_not_given_twice() {
    let terms = Terms { extra_args: true, ..Terms::default() };
    let args = plane(json!({"apiServerExtraArgs": {"oidc-issuer-url": "x", "v": "2"}}));
    let alone = cluster("prod", merged(cluster_spec(), &args));
    assert_eq!(told(&judge_cluster(&alone, None, &terms)), []);
    let oidc = json!({"identityProviderRefs": [{"kind": "OIDCConfig", "name": "o"}]});
    let both = cluster("prod", merged(merged(cluster_spec(), &args), &oidc));
    let path = "spec.controlPlaneConfiguration.apiServerExtraArgs[oidc-issuer-url]";
    assert_eq!(told(&judge_cluster(&both, None, &terms)), wanted(&[(path, "is set from the OIDCConfig")]));
}

#[test]
fn a_write_that_leaves_the_spec_alone_is_admitted_whatever_it_holds() {
    let bad = cluster("prod", merged(cluster_spec(), &plane(json!({"count": 0}))));
    let mut finalized = bad.clone();
    finalized.metadata.finalizers = Some(vec!["x".into()]);
    assert_eq!(judge_cluster(&finalized, Some(&bad), &Terms::default()), Judgement::default());
    assert!(cluster_problem(&bad, &Terms::default()).unwrap().contains("must be at least 1"));
    // The first write of one that nobody defaulted fills it in as well; its owner changed nothing.
    let groups = json!([merged(group(), &json!({"name": null, "count": null, "kubernetesVersion": "1.30"}))]);
    let spec = merged(cluster_spec(), &plane(json!({"count": 0})));
    let old = cluster("prod", merged(spec, &json!({"workerNodeGroupConfigurations": groups})));
    let mut new = old.clone();
    default_cluster(&mut new.spec);
    assert_ne!(new.spec, old.spec);
    assert_eq!(judge_cluster(&new, Some(&old), &Terms::default()), Judgement::default());
    // A group without a name is the same group once it has one.
    new.spec.worker_node_group_configurations[0].kubernetes_version = "1.29".into();
    let step = (at_group("kubernetesVersion"), "only one minor at a time, no downgrade".to_owned());
    assert!(told(&judge_cluster(&new, Some(&old), &Terms::default())).contains(&step));
}

#[test]
fn all_faults_are_told_at_once() {
    let patch = json!({"kubernetesVersion": "1", "datacenterRef": null, "podIamConfig": {"serviceAccountIssuer": ""}});
    let judged = judge_cluster(&cluster("P", merged(cluster_spec(), &patch)), None, &Terms::default());
    let paths: Vec<&str> = judged.errors.iter().map(|error| error.path.as_str()).collect();
    let all =
        ["metadata.name", "spec.datacenterRef", "spec.kubernetesVersion", "spec.podIamConfig.serviceAccountIssuer"];
    assert_eq!(paths, all);
}

#[test]
fn defaults_fill_in_what_is_absent_and_nothing_else() {
    let scaled = json!({"name": "b", "autoscalingConfiguration": {"minCount": 3, "maxCount": 5}});
    let rows: Vec<(Value, Value)> = vec![
        (json!({}), json!({})),
        (json!({"clusterNetwork": {"cni": "cilium"}}), json!({"clusterNetwork": {"cniConfig": {"cilium": {}}}})),
        (
            json!({"clusterNetwork": {"cni": "cilium-enterprise"}}),
            json!({"clusterNetwork": {"cniConfig": {"cilium": {}}}}),
        ),
        (json!({"clusterNetwork": {"cni": "calico"}}), json!({"clusterNetwork": {"cni": "calico"}})),
        (
            json!({"clusterNetwork": {"cni": "cilium", "cniConfig": {"cilium": {"skipUpgrade": true}}}}),
            json!({"clusterNetwork": {"cni": "cilium", "cniConfig": {"cilium": {"skipUpgrade": true}}}}),
        ),
        (
            json!({"workerNodeGroupConfigurations": [{}, {"name": "a", "count": 0}, scaled]}),
            json!({"workerNodeGroupConfigurations": [{"name": "md-0", "count": 1}, {"name": "a", "count": 0},
                merged(scaled.clone(), &json!({"count": 3}))]}),
        ),
        (
            json!({"registryMirrorConfiguration": {"endpoint": "m"}}),
            json!({"registryMirrorConfiguration": {"endpoint": "m", "port": "443"}}),
        ),
    ];
    for (before, after) in rows {
        let mut spec = serde_json::from_value(before.clone()).unwrap();
        default_cluster(&mut spec);
        assert_eq!(serde_json::to_value(&spec).unwrap(), after, "{before}");
        let once = spec.clone();
        default_cluster(&mut spec);
        assert_eq!(spec, once);
    }
}

/// A client that merges sends what its file says beside what is stored: the same file again is no change.
#[test]
fn the_older_name_of_the_plugin_may_be_applied_again_and_is_no_second_choice() {
    let filled = |patch: Value| -> ClusterSpec {
        let mut spec = serde_json::from_value(merged(cluster_spec(), &patch)).unwrap();
        default_cluster(&mut spec);
        spec
    };
    let old = filled(network(json!({"cniConfig": null, "cni": "cilium"})));
    for name in ["cilium", "cilium-enterprise"] {
        let mut again = old.clone();
        again.cluster_network.as_mut().unwrap().cni = name.into();
        default_changed_cluster(&old, &mut again);
        assert_eq!(again, old, "{name}");
    }
    for (id, patch) in [
        ("another choice", network(json!({"cni": "cilium", "cniConfig": {"cilium": {"skipUpgrade": true}}}))),
        ("another plugin", network(json!({"cni": "calico"}))),
    ] {
        let (mut both, as_sent) = (filled(patch.clone()), filled(patch));
        default_changed_cluster(&old, &mut both);
        assert_eq!(both, as_sent, "{id}");
        let judged = judge_cluster(
            &Cluster { spec: both, ..cluster("prod", cluster_spec()) },
            Some(&Cluster { spec: old.clone(), ..cluster("prod", cluster_spec()) }),
            &Terms::default(),
        );
        assert_eq!(told(&judged), wanted(&[("spec.clusterNetwork.cni", "use cniConfig only")]), "{id}");
    }
}

proptest! {
    /// Nothing that can be decoded makes a judgement fail.
    #[test]
    fn judging_is_total(host in "\\PC{0,20}", version in "\\PC{0,6}", name in "\\PC{0,8}", cidr in "[0-9./:a-f]{0,20}", text in "\\PC{0,20}") {
        let patch = json!({
            "kubernetesVersion": version,
            "controlPlaneConfiguration": {"endpoint": {"host": host}, "certSans": [text], "auditPolicyContent": text},
            "clusterNetwork": {"pods": {"cidrBlocks": [cidr]}},
            "registryMirrorConfiguration": {"endpoint": text, "caCertContent": text},
            "proxyConfiguration": {"httpProxy": text, "httpsProxy": host},
            "machineHealthCheck": {"nodeStartupTimeout": text},
            "eksaVersion": text,
        });
        let old = cluster("prod", cluster_spec());
        let new = cluster(&name, merged(cluster_spec(), &patch));
        let _ = judge_cluster(&new, Some(&old), &Terms::default());
        let _ = judge_datacenter(&datacenter(&[merged(zone(&name), &json!({"managementApiEndpoint": text, "domain": text}))]), None);
        let _ = judge_machine(&machine(&json!({"symlinks": {text.as_str(): host}, "users": [{"name": name, "sshAuthorizedKeys": [text]}]})), None);
    }
}
