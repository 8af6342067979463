//! What people are told about groups: of hosts behind a selector and tables everything is known without a cloud, of
//! machines on EC2 what the operator was told.

use std::sync::Arc;

use api::key::ObjectKey;
use aws::port::{Architecture, TypeFacts};
use capacity::archive::Page;
use capacity::config::{AmbientUse, Config, Keys};
use capacity::explain::{Lists, Sight, explain, line};
use capacity::facts::{GroupKey, GroupKind};
use capacity::names::{CPU, LEGACY_CPU, LEGACY_MEMORY, MEMORY};
use capacity::shelf::Ec2Place;
use capacity::table::Table;
use jiff::Timestamp;
use kit::clock::Clock;
use kit::explain::{Explanation, Level};
use serde_json::{Value, json};

use crate::build::{NAMESPACE, aws, map, plain_deployment};

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
    told_of(&key(), lists, config)
}

fn told_of(key: &GroupKey, lists: Lists, config: Config) -> Explanation {
    let (sight, config) = (Sight::of(lists, &Clock::system()), Arc::new(config));
    let told = explain(&sight, key, &config, None, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(line(&sight, key, &config, None).unwrap().level, told.level, "the list says the same");
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

#[test]
fn credentials_are_those_that_the_flags_of_the_operator_choose() {
    let key = GroupKey { kind: GroupKind::OpenShiftSet, key: ObjectKey::namespaced(NAMESPACE, "a") };
    let of = |named: bool, config: Config| {
        let mut provider = aws("m5.xlarge");
        if !named {
            provider["credentialsSecret"] = Value::Null;
        }
        let set = json!({
            "metadata": {"name": "a", "namespace": NAMESPACE},
            "spec": {"template": {"spec": {"providerSpec": {"value": provider}}}},
        });
        let lists = Lists { openshift_sets: vec![serde_json::from_value(set).unwrap()], ..Lists::default() };
        told_of(&key, lists, config)
    };
    let always = || Config { ambient_use: AmbientUse::Always, ..Config::default() };
    let (secret, own) = ("Secret openshift-machine-api/aws-cloud-credentials", "those of the operator's process");
    for (named, config, credentials) in [
        (true, Config::default(), secret),
        (true, always(), secret),
        (true, Config { prefer_ambient: true, ..always() }, own),
        (false, always(), own),
    ] {
        let told = of(named, config);
        assert!(told.level == Level::Waiting && facts(&told).contains(&("credentials", credentials)), "{told:?}");
    }
    let lost = of(false, Config::default());
    assert!(lost.level == Level::Problem && lost.fixes[1].what.contains("--prefer-ambient-credentials"), "{lost:?}");
}

/// A deployment on EC2 with a template of this status.
fn on_ec2(annotations: &[(&str, &str)], status: &Value) -> Lists {
    let template = json!({
        "metadata": {"name": "t", "namespace": "default", "uid": "t"}, "status": status,
        "spec": {"template": {"spec": {"instanceType": "m5.xlarge"}}},
    });
    Lists {
        deployments: vec![serde_json::from_value(plain_deployment(annotations)).unwrap()],
        templates: vec![serde_json::from_value(template).unwrap()],
        ..Lists::default()
    }
}

fn in_region() -> Config {
    Config { default_region: "us-east-1".parse().ok(), ..Config::default() }
}

#[test]
fn what_a_template_says_counts_for_the_autoscaler_that_reads_it() {
    let status = json!({"capacity": {"cpu": "4", "memory": "16Gi"},
        "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"}});
    let bare = told(on_ec2(&[], &status), in_region());
    let needs: Vec<_> = bare.needs.iter().map(|need| (need.level, need.sentence.as_str())).collect();
    assert_eq!(needs[0], (Level::Ok, "sees 4 processors and 16Gi of memory, with what its template says"));
    assert!(needs[1].0 == Level::Waiting && bare.level == Level::Waiting, "OpenShift's sees nothing: {bare:?}");

    let older = [(LEGACY_CPU, "4"), (LEGACY_MEMORY, "16384")];
    let both = told(on_ec2(&older, &status), Config { keys: Keys::Legacy, ..in_region() });
    assert_eq!(
        (both.level, both.summary.as_str()),
        (Level::Ok, "its annotations and its template describe m5.xlarge in us-east-1")
    );
    assert_eq!(told(on_ec2(&older, &Value::Null), in_region()).level, Level::Waiting);
    let newer = [older[0], older[1], (CPU, "4"), (MEMORY, "16Gi")];
    let alone = told(on_ec2(&newer, &status), in_region());
    assert_eq!(alone.summary, "its annotations describe m5.xlarge in us-east-1");
}

fn page(types: &[(&str, u32)]) -> Page {
    let facts = |(name, vcpus): &(&str, u32)| TypeFacts {
        name: (*name).into(),
        vcpus: *vcpus,
        memory_mib: 4096 * u64::from(*vcpus),
        architectures: vec![Architecture::X86_64],
        gpus: vec![],
        neuron: vec![],
        storage_gb: 0,
        interfaces: 4,
        ipv4_per_interface: 15,
        dedicated_hosts: false,
        bare_metal: false,
    };
    Page {
        place: Ec2Place { region: "us-east-1".parse().unwrap(), endpoint: None },
        listed: Timestamp::UNIX_EPOCH,
        types: types.iter().map(facts).collect(),
    }
}

#[test]
fn what_the_operator_was_told_of_a_type_is_told_on() {
    let config = Arc::new(Config { defer_to_template: true, ..in_region() });
    let of = |lists: Lists, pages: Vec<Page>| {
        let mut sight = Sight::of(lists, &Clock::system());
        sight.recall(pages, vec!["a page is damaged".to_owned()]);
        explain(&sight, &key(), &config, None, Timestamp::UNIX_EPOCH).unwrap()
    };
    let known = of(on_ec2(&[], &Value::Null), vec![page(&[("m5.large", 2), ("m5.xlarge", 4)])]);
    for fact in [("processors", "4"), ("memory", "16384Mi"), ("catalogue", "of 1970-01-01T00:00:00Z")] {
        assert!(facts(&known).contains(&fact), "{known:?}");
    }
    assert!(next(&known).contains(&r#"writes capacity.cluster-autoscaler.kubernetes.io/cpu: "4""#), "{known:?}");
    assert_eq!(known.unseen, ["a page is damaged"]);
    let status = json!({"capacity": {"cpu": "4", "memory": "16Gi"},
        "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"}});
    let deferred = of(on_ec2(&[], &status), vec![page(&[("m5.xlarge", 4)])]);
    assert!(!next(&deferred).iter().any(|what| what.contains(CPU)), "the template says it: {deferred:?}");

    let new = of(on_ec2(&[], &Value::Null), vec![page(&[("m5.large", 2)])]);
    assert_eq!((new.level, next(&new)), (Level::Waiting, vec!["looks m5.xlarge up in the catalogue of us-east-1"]));
    let odd = of(on_ec2(&[], &Value::Null), vec![page(&[("m5.xlarge", 0)])]);
    assert!(odd.level == Level::Problem && odd.summary.contains("m5.xlarge"), "{odd:?}");
}
