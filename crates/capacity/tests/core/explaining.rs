//! What people are told about groups of which everything is known without a cloud: hosts behind a selector, and tables.

use std::sync::Arc;

use api::key::ObjectKey;
use capacity::config::Config;
use capacity::explain::{Lists, Sight, explain, line};
use capacity::facts::{GroupKey, GroupKind};
use capacity::table::Table;
use jiff::Timestamp;
use kit::clock::Clock;
use kit::explain::{Explanation, Level};
use serde_json::{Value, json};

use crate::build::{map, plain_deployment};

fn wire(kind: &str) -> Value {
    let mut wire = plain_deployment(&[]);
    wire["spec"]["template"]["spec"]["infrastructureRef"]["kind"] = json!(kind);
    wire
}

fn host(namespace: &str, name: &str, cpus: u64) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace, "labels": {"size": "big"}},
        "status": {"provisioning": {"state": "available"}, "hardware": {
            "cpu": {"arch": "x86_64", "count": cpus}, "ramMebibytes": cpus * 4096,
            "storage": [{"sizeBytes": 1_000_000_000_000_u64}],
        }},
    })
}

/// A deployment on bare metal whose template takes hosts with the label `size=big`, as claims of this kind or directly.
fn metal(kind: Option<&str>, hosts: &[Value]) -> Lists {
    let spec = json!({"hostSelector": {"matchLabels": {"size": "big"}}, "kind": kind});
    let template = json!({"metadata": {"name": "t", "namespace": "default"}, "spec": {"template": {"spec": spec}}});
    Lists {
        deployments: vec![serde_json::from_value(wire("Metal3MachineTemplate")).unwrap()],
        metal_templates: vec![serde_json::from_value(template).unwrap()],
        hosts: hosts.iter().map(|host| serde_json::from_value(host.clone()).unwrap()).collect(),
        ..Lists::default()
    }
}

fn key() -> GroupKey {
    GroupKey { kind: GroupKind::Deployment, key: ObjectKey::namespaced("default", "a") }
}

fn told(lists: Lists, config: Config) -> Explanation {
    let (sight, config) = (Sight::of(lists, &Clock::system()), Arc::new(config));
    let told = explain(&sight, &key(), &config, None, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(line(&sight, &key(), &config).unwrap().level, told.level, "the list says the same");
    told
}

fn facts(told: &Explanation) -> Vec<(&str, &str)> {
    told.facts.iter().map(|fact| (fact.name, fact.value.as_str())).collect()
}

fn next(told: &Explanation) -> Vec<&str> {
    told.next.iter().map(|next| next.what.as_str()).collect()
}

fn on_metal() -> Config {
    Config { metal: true, ..Config::default() }
}

#[test]
fn machines_on_metal_are_explained_by_the_least_host_that_fits() {
    let hosts = [host("default", "one", 16), host("default", "two", 8), host("elsewhere", "three", 4)];
    let told = told(metal(None, &hosts), on_metal());
    assert_eq!(told.level, Level::Waiting, "{}", told.summary);
    assert_eq!(
        facts(&told),
        [("template", "t"), ("processors", "8"), ("memory", "32768Mi"), ("architecture", "amd64")]
    );
    assert!(next(&told).contains(&r#"writes capacity.cluster-autoscaler.kubernetes.io/memory: "32768Mi""#), "{told:?}");
}

#[test]
fn machines_on_metal_without_a_host_are_told_so_and_what_helps() {
    let told = told(metal(None, &[host("elsewhere", "three", 4)]), on_metal());
    assert_eq!(told.level, Level::Problem);
    assert!(told.summary.contains("no inspected host in the namespace default fits"), "{}", told.summary);
    assert!(told.fixes[0].what.contains("selector"), "{:?}", told.fixes);
}

#[test]
fn machines_made_of_claims_are_explained_by_hosts_that_policies_open_to_them() {
    let policy = json!({
        "metadata": {"name": "open", "namespace": "fleet"}, "spec": {"hostClaimNamespaces": {"names": ["default"]}},
    });
    let fleet = |policies: Vec<Value>| Lists {
        policies: policies.into_iter().map(|policy| serde_json::from_value(policy).unwrap()).collect(),
        ..metal(Some("baremetal"), &[host("fleet", "one", 12)])
    };
    let closed = told(fleet(Vec::new()), on_metal());
    assert!(closed.summary.contains("open to claims of default"), "{}", closed.summary);
    assert!(facts(&told(fleet(vec![policy]), on_metal())).contains(&("processors", "12")));
    let other = told(metal(Some("aws-dedicated-host"), &[]), on_metal());
    assert!(other.level == Level::Aside && other.summary.contains("of kind aws-dedicated-host"), "{}", other.summary);
}

#[test]
fn a_table_is_explained_by_its_entry_its_fault_or_the_lack_of_one() {
    let of = |data: &[(&str, &str)]| {
        let lists = Lists {
            deployments: vec![serde_json::from_value(wire("VSphereMachineTemplate")).unwrap()],
            table: Table::parse(&map(data)),
            ..Lists::default()
        };
        let table = Some(ObjectKey::namespaced("berth-system", "types"));
        told(lists, Config { table, ..Config::default() })
    };
    let known = of(&[("VSphereMachineTemplate.t", "cpu: 8\nmemoryMib: 32768\narch: arm64")]);
    assert_eq!(
        facts(&known),
        [
            ("entry of the table", "VSphereMachineTemplate.t"),
            ("processors", "8"),
            ("memory", "32768Mi"),
            ("architecture", "arm64"),
        ]
    );
    let bad = of(&[("VSphereMachineTemplate.t", "cpu: 0\nmemoryMib: 1")]);
    assert!(bad.level == Level::Problem && bad.summary.contains("must not be 0"), "{}", bad.summary);
    let lost = of(&[]);
    assert!(lost.summary.contains("is unknown in ConfigMap berth-system/types"), "{}", lost.summary);
    assert!(lost.fixes[0].what.contains("add VSphereMachineTemplate.t to the table"), "{:?}", lost.fixes);
}

#[test]
fn a_group_that_a_flag_would_serve_is_told_which() {
    for (kind, flag) in [
        ("Metal3MachineTemplate", "--capacity-metal3"),
        ("CloudStackMachineTemplate", "--capacity-cloudstack"),
        ("AWSMachinePool", "--watch-machine-pools"),
        ("VSphereMachineTemplate", "--capacity-table"),
    ] {
        let lists = Lists { deployments: vec![serde_json::from_value(wire(kind)).unwrap()], ..Lists::default() };
        let told = told(lists, Config::default());
        assert!(told.level == Level::Aside && told.fixes[0].what.contains(flag), "{kind}: {told:?}");
    }
}
