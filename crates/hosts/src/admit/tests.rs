#![allow(missing_docs)]

use super::*;
use kit::admission::{FaultKind, Operation};
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
    let spec = api::own::AWSMachineTemplateResource { metadata: None, spec: spec(with) };
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

use FaultKind::{Forbidden, Invalid, NotSupported, Required, TooMany};

/// One row of the table of placements: tenancy, affinity, named host, allocated hosts, and the faults of a machine and of
/// a template, without the start of their paths.
type Row = (
    Option<&'static str>,
    Option<&'static str>,
    bool,
    bool,
    &'static [(FaultKind, &'static str)],
    &'static [(FaultKind, &'static str)],
);

const NAMED: (FaultKind, &str) = (Forbidden, "hostID");
const ALLOCATED: (FaultKind, &str) = (Forbidden, "dynamicHostAllocation");
const PINNED: (FaultKind, &str) = (Forbidden, "hostAffinity");
const UNNAMED: (FaultKind, &str) = (Required, "hostID");

/// All 48 combinations, so that none is decided by accident.
const PLACEMENTS: &[Row] = &[
    // a host is named and hosts are allocated
    (None, None, true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (None, Some("default"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (None, Some("host"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("default"), None, true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("default"), Some("default"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("default"), Some("host"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("dedicated"), None, true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("dedicated"), Some("default"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("dedicated"), Some("host"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("host"), None, true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("host"), Some("default"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    (Some("host"), Some("host"), true, true, &[NAMED, ALLOCATED], &[NAMED, ALLOCATED]),
    // hosts are allocated
    (None, None, false, true, &[], &[]),
    (None, Some("host"), false, true, &[], &[]),
    (None, Some("default"), false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("host"), None, false, true, &[], &[]),
    (Some("host"), Some("host"), false, true, &[], &[]),
    (Some("host"), Some("default"), false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("default"), None, false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("default"), Some("default"), false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("default"), Some("host"), false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("dedicated"), None, false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("dedicated"), Some("default"), false, true, &[ALLOCATED], &[ALLOCATED]),
    (Some("dedicated"), Some("host"), false, true, &[ALLOCATED], &[ALLOCATED]),
    // a host is named
    (None, None, true, false, &[NAMED], &[NAMED]),
    (None, Some("default"), true, false, &[NAMED], &[NAMED]),
    (None, Some("host"), true, false, &[NAMED], &[NAMED]),
    (Some("default"), None, true, false, &[NAMED], &[NAMED]),
    (Some("default"), Some("default"), true, false, &[NAMED], &[NAMED]),
    (Some("default"), Some("host"), true, false, &[NAMED], &[NAMED]),
    (Some("dedicated"), None, true, false, &[NAMED], &[NAMED]),
    (Some("dedicated"), Some("default"), true, false, &[NAMED], &[NAMED]),
    (Some("dedicated"), Some("host"), true, false, &[NAMED], &[NAMED]),
    (Some("host"), None, true, false, &[], &[]),
    (Some("host"), Some("default"), true, false, &[], &[]),
    (Some("host"), Some("host"), true, false, &[], &[]),
    // neither
    (None, None, false, false, &[], &[]),
    (None, Some("default"), false, false, &[], &[]),
    (None, Some("host"), false, false, &[PINNED], &[PINNED]),
    (Some("default"), None, false, false, &[], &[]),
    (Some("default"), Some("default"), false, false, &[], &[]),
    (Some("default"), Some("host"), false, false, &[PINNED], &[PINNED]),
    (Some("dedicated"), None, false, false, &[], &[]),
    (Some("dedicated"), Some("default"), false, false, &[], &[]),
    (Some("dedicated"), Some("host"), false, false, &[PINNED], &[PINNED]),
    (Some("host"), None, false, false, &[], &[]),
    (Some("host"), Some("default"), false, false, &[], &[]),
    (Some("host"), Some("host"), false, false, &[], &[UNNAMED]),
];

fn placed(row: &Row) -> Value {
    let mut with = json!({});
    let (tenancy, affinity, named, allocated, ..) = row;
    merge(
        &mut with,
        &json!({"tenancy": tenancy, "hostAffinity": affinity, "hostID": named.then_some(HOST),
        "dynamicHostAllocation": allocated.then(|| json!({}))}),
    );
    with
}

#[test]
fn every_placement_is_judged_as_the_table_says() {
    let mut seen = std::collections::BTreeSet::new();
    for row in PLACEMENTS {
        let (tenancy, affinity, named, allocated, of_machine, of_template) = row;
        assert!(seen.insert((tenancy, affinity, named, allocated)), "{row:?}");
        let with = placed(row);
        let below = |root: &str, faults: &[(FaultKind, &str)]| {
            faults.iter().map(|(kind, field)| (*kind, format!("{root}.{field}"))).collect::<Vec<_>>()
        };
        let owned = |verdict: &Verdict| {
            told(verdict).into_iter().map(|(kind, path)| (kind, path.to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(owned(&created(&with)), below("spec", of_machine), "{with}");
        assert_eq!(owned(&created_template(&with)), below("spec.template.spec", of_template), "{with}");
        // What is stored while the webhook is down is judged without defaults, and in the same way.
        assert_eq!(problem(&spec(&with)).is_none(), of_machine.is_empty(), "{with}");
    }
    assert_eq!(seen.len(), 4 * 3 * 2 * 2);
}

#[test]
fn what_is_allocated_is_also_pinned() {
    for with in [json!({}), json!({"tenancy": "host"}), json!({"hostAffinity": "host"})] {
        let mut with = with;
        merge(&mut with, &json!({"dynamicHostAllocation": {"tags": {"a": "b"}}}));
        let mut spec = spec(&with);
        fill(&mut spec);
        let filled = serde_json::to_value(&spec).unwrap();
        assert_eq!((&filled["tenancy"], &filled["hostAffinity"]), (&json!("host"), &json!("host")));
        assert_eq!(filled["dynamicHostAllocation"], json!({"quantity": 1, "autoRelease": true, "tags": {"a": "b"}}));
    }
    let mut plain = spec(&json!({}));
    fill(&mut plain);
    let filled = serde_json::to_value(&plain).unwrap();
    assert!(filled.get("tenancy").is_none() && filled.get("hostAffinity").is_none(), "{filled}");
}

#[test]
fn defaults_are_those_of_the_provider_and_leave_what_is_given() {
    let options = |with: Value| {
        let mut spec = spec(&with);
        fill(&mut spec);
        serde_json::to_value(spec.instance_metadata_options).unwrap()
    };
    let wanted = json!({"httpEndpoint": "enabled", "httpProtocolIpv6": "disabled", "httpPutResponseHopLimit": 1,
        "httpTokens": "optional", "instanceMetadataTags": "disabled"});
    assert_eq!(options(json!({})), wanted);
    let given = options(json!({"instanceMetadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 3}}));
    assert_eq!((&given["httpTokens"], &given["httpPutResponseHopLimit"]), (&json!("required"), &json!(3)));
    assert_eq!(given["httpEndpoint"], json!("enabled"));
    let ignition = |with: Value| {
        let mut spec = spec(&json!({"cloudInit": null, "ignition": with}));
        fill(&mut spec);
        serde_json::to_value(spec.ignition).unwrap()
    };
    assert_eq!(ignition(json!({})), json!({"storageType": "ClusterObjectStore", "version": "2.3"}));
    assert_eq!(ignition(json!({"version": "3.4"})), json!({"storageType": "ClusterObjectStore", "version": "3.4"}));
    let plain = json!({"storageType": "UnencryptedUserData"});
    assert_eq!(ignition(plain.clone()), plain);
}

/// Each row: what is added to a plain machine, and the faults that must be found.
#[test]
fn every_rule_names_its_field() {
    let hosts = |with: Value| json!({"dynamicHostAllocation": with});
    let on_host = |mut with: Value| {
        with["tenancy"] = json!("host");
        with
    };
    let tags = |count: usize| (0..count).map(|n| (format!("k{n}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    let h = "spec.dynamicHostAllocation";
    let at = |field: &str| format!("{h}.{field}");
    let rows: Vec<(Value, Vec<(FaultKind, String)>)> = vec![
        // families: those EC2 has, and what is none
        (hosts(json!({"instanceFamily": "m5"})), vec![]),
        (hosts(json!({"instanceFamily": ""})), vec![(Invalid, at("instanceFamily"))]),
        (hosts(json!({"instanceFamily": "M5"})), vec![(Invalid, at("instanceFamily"))]),
        (hosts(json!({"instanceFamily": "m5.large"})), vec![(Invalid, at("instanceFamily"))]),
        (hosts(json!({"instanceFamily": "-m5"})), vec![(Invalid, at("instanceFamily"))]),
        (hosts(json!({"instanceFamily": "m5-"})), vec![(Invalid, at("instanceFamily"))]),
        (hosts(json!({"instanceFamily": "m 5"})), vec![(Invalid, at("instanceFamily"))]),
        (hosts(json!({"instanceFamily": "metal"})), vec![(Invalid, at("instanceFamily"))]),
        (hosts(json!({"instanceFamily": "c5"})), vec![(Invalid, at("instanceFamily"))]),
        // types
        (hosts(json!({"instanceType": "m5.4xlarge"})), vec![]),
        (hosts(json!({"instanceFamily": "m5", "instanceType": "m5.4xlarge"})), vec![]),
        (hosts(json!({"instanceType": "m5.large"})), vec![(Invalid, at("instanceType"))]),
        (hosts(json!({"instanceType": ""})), vec![(Invalid, at("instanceType"))]),
        (hosts(json!({"instanceType": "m5"})), vec![(Invalid, at("instanceType"))]),
        (
            hosts(json!({"instanceFamily": "c5", "instanceType": "m5.4xlarge"})),
            vec![(Invalid, at("instanceFamily")), (Invalid, at("instanceType"))],
        ),
        // zones
        (hosts(json!({"availabilityZone": "us-west-2a"})), vec![]),
        (hosts(json!({"availabilityZone": "us-gov-west-1b"})), vec![]),
        (hosts(json!({"availabilityZone": "us-west-2-lax-1a"})), vec![]),
        (hosts(json!({"availabilityZone": "us-east-1-wl1-bos-wlz-1"})), vec![]),
        (hosts(json!({"availabilityZone": "us-west-2"})), vec![(Invalid, at("availabilityZone"))]),
        (hosts(json!({"availabilityZone": ""})), vec![(Invalid, at("availabilityZone"))]),
        (hosts(json!({"availabilityZone": "usw2-az1"})), vec![(Invalid, at("availabilityZone"))]),
        // quantity
        (hosts(json!({"quantity": 1})), vec![]),
        (hosts(json!({"quantity": 10})), vec![]),
        (hosts(json!({"quantity": 0})), vec![(Invalid, at("quantity"))]),
        (hosts(json!({"quantity": 11})), vec![(Invalid, at("quantity"))]),
        (hosts(json!({"quantity": -1})), vec![(Invalid, at("quantity"))]),
        // recovery and maintenance
        (hosts(json!({"hostRecovery": "on", "hostMaintenance": "off"})), vec![]),
        // tags
        (json!({"additionalTags": {"Cost Center_1.:/=+-@": "é 1_.:/=+-@", "empty": ""}}), vec![]),
        (json!({"additionalTags": {"": "v"}}), vec![(Invalid, "spec.additionalTags".into())]),
        (json!({"additionalTags": {"AWS:x": "v"}}), vec![(Invalid, "spec.additionalTags".into())]),
        (json!({"additionalTags": {"a*": "v"}}), vec![(Invalid, "spec.additionalTags".into())]),
        (json!({"additionalTags": {"x".repeat(128): "v".repeat(256)}}), vec![]),
        (json!({"additionalTags": {"x".repeat(129): "v"}}), vec![(Invalid, "spec.additionalTags".into())]),
        (json!({"additionalTags": {"k": "v".repeat(257)}}), vec![(Invalid, "spec.additionalTags[k]".into())]),
        (json!({"additionalTags": {"k": "a\tb"}}), vec![(Invalid, "spec.additionalTags[k]".into())]),
        (json!({"additionalTags": tags(50)}), vec![]),
        (json!({"additionalTags": tags(51)}), vec![(TooMany, "spec.additionalTags".into())]),
        (json!({"additionalTags": {"kubernetes.io/cluster/c": "owned"}}), vec![]),
        (
            hosts(json!({"tags": {"kubernetes.io/cluster/c": "x"}})),
            vec![(Forbidden, at("tags[kubernetes.io/cluster/c]"))],
        ),
        (hosts(json!({"tags": {"hosts.berth.dev/a": "x"}})), vec![(Forbidden, at("tags[hosts.berth.dev/a]"))]),
        (
            hosts(json!({"tags": {"sigs.k8s.io/cluster-api-provider-aws/role": "x"}})),
            vec![(Forbidden, at("tags[sigs.k8s.io/cluster-api-provider-aws/role]"))],
        ),
        (hosts(json!({"tags": {"aws:x": "v"}})), vec![(Invalid, at("tags"))]),
        (json!({"additionalTags": tags(50), "dynamicHostAllocation": {"tags": {"k1": "other"}}}), vec![]),
        (
            json!({"additionalTags": tags(50), "dynamicHostAllocation": {"tags": {"one": "more"}}}),
            vec![(TooMany, at("tags"))],
        ),
        // what EC2 refuses on dedicated hosts
        (on_host(json!({"placementGroupName": "g"})), vec![(Forbidden, "spec.placementGroupName".into())]),
        (json!({"placementGroupName": "g", "placementGroupPartition": 2}), vec![]),
        (json!({"placementGroupPartition": 2}), vec![(Required, "spec.placementGroupName".into())]),
        (
            on_host(json!({"capacityReservationPreference": "CapacityReservationsOnly"})),
            vec![(Forbidden, "spec.capacityReservationPreference".into())],
        ),
        (on_host(json!({"capacityReservationPreference": "Open"})), vec![]),
        (json!({"capacityReservationPreference": "CapacityReservationsOnly"}), vec![]),
        (on_host(json!({"marketType": "OnDemand"})), vec![]),
        // hosts
        (on_host(json!({"hostID": HOST})), vec![]),
        (on_host(json!({"hostID": "h-0123456789abcdef"})), vec![(Invalid, "spec.hostID".into())]),
        (on_host(json!({"hostID": "i-0123456789abcdef0"})), vec![(Invalid, "spec.hostID".into())]),
        // security groups
        (json!({"additionalSecurityGroups": [{"id": "sg-1"}, {"filters": [{"name": "n", "values": ["v"]}]}]}), vec![]),
        (
            json!({"additionalSecurityGroups": [{"id": "sg-1", "filters": [{"name": "n", "values": ["v"]}]}]}),
            vec![(Forbidden, "spec.additionalSecurityGroups".into())],
        ),
        (json!({"securityGroupOverrides": {"node": "sg-1", "apiserver-lb": "sg-2"}}), vec![]),
        (
            json!({"securityGroupOverrides": {"nodes": "sg-1"}}),
            vec![(NotSupported, "spec.securityGroupOverrides".into())],
        ),
        // keys
        (json!({"sshKeyName": ""}), vec![]),
        (json!({"sshKeyName": "my key (2)"}), vec![]),
        (json!({"sshKeyName": " key"}), vec![(Invalid, "spec.sshKeyName".into())]),
        (json!({"sshKeyName": "clé"}), vec![(Invalid, "spec.sshKeyName".into())]),
        (json!({"sshKeyName": "a\nb"}), vec![(Invalid, "spec.sshKeyName".into())]),
        // ids
        (json!({"providerID": "aws:///us-west-2a/i-0123456789abcdef0"}), vec![]),
        (json!({"providerID": "i-0123456789abcdef0"}), vec![(Invalid, "spec.providerID".into())]),
        // disks
        (json!({"rootVolume": {"size": 8}}), vec![]),
        (json!({"rootVolume": {"size": 8, "type": "io2", "iops": 100}}), vec![]),
        (json!({"rootVolume": {"size": 8, "type": "io1"}}), vec![(Required, "spec.rootVolume.iops".into())]),
        (json!({"rootVolume": {"size": 8, "type": "io2", "iops": 0}}), vec![(Required, "spec.rootVolume.iops".into())]),
        (json!({"rootVolume": {"size": 8, "type": "gp3", "throughput": 125}}), vec![]),
        (json!({"rootVolume": {"size": 8, "type": "gp3", "throughput": 2000}}), vec![]),
        (
            json!({"rootVolume": {"size": 8, "type": "gp3", "throughput": 124}}),
            vec![(Invalid, "spec.rootVolume.throughput".into())],
        ),
        (
            json!({"rootVolume": {"size": 8, "type": "gp3", "throughput": 2001}}),
            vec![(Invalid, "spec.rootVolume.throughput".into())],
        ),
        (
            json!({"rootVolume": {"size": 8, "type": "gp2", "throughput": 200}}),
            vec![(Invalid, "spec.rootVolume.throughput".into())],
        ),
        (json!({"nonRootVolumes": [{"size": 8, "deviceName": "/dev/sdb", "type": "gp3", "throughput": 0}]}), vec![]),
        (json!({"nonRootVolumes": [{"size": 8}]}), vec![(Required, "spec.nonRootVolumes[0].deviceName".into())]),
        (
            json!({"nonRootVolumes": [{"size": 8, "deviceName": "/dev/sdb"}, {"size": 8, "deviceName": "/dev/sdc", "type": "io1"}]}),
            vec![(Required, "spec.nonRootVolumes[1].iops".into())],
        ),
        (
            json!({"nonRootVolumes": [{"size": 8, "deviceName": "/dev/sdb", "throughput": 200}]}),
            vec![(Invalid, "spec.nonRootVolumes[0].throughput".into())],
        ),
        // cloud-init
        (json!({"cloudInit": {}}), vec![]),
        (json!({"cloudInit": {"secretPrefix": "p", "secretCount": 1}}), vec![]),
        (json!({"cloudInit": {"secretPrefix": "p"}}), vec![(Forbidden, "spec.cloudInit.secretCount".into())]),
        (json!({"cloudInit": {"secretCount": 1}}), vec![(Forbidden, "spec.cloudInit.secretCount".into())]),
        // The pair that HyperShift writes.
        (json!({"cloudInit": {"insecureSkipSecretsManager": true, "secureSecretsBackend": "secrets-manager"}}), vec![]),
        (
            json!({"cloudInit": {"insecureSkipSecretsManager": true, "secretPrefix": "p", "secretCount": 1}}),
            vec![(Forbidden, "spec.cloudInit.secretPrefix".into()), (Forbidden, "spec.cloudInit.secretCount".into())],
        ),
        // Ignition
        (json!({"cloudInit": null, "ignition": {"storageType": "UnencryptedUserData"}}), vec![]),
        (json!({"ignition": {"storageType": "UnencryptedUserData"}}), vec![(Forbidden, "spec.cloudInit".into())]),
        (
            json!({"cloudInit": null, "ignition": {"storageType": "UnencryptedUserData", "version": "3.0", "proxy": {}, "tls": {}}}),
            vec![(Forbidden, "spec.ignition.proxy".into()), (Forbidden, "spec.ignition.tls".into())],
        ),
        (
            json!({"cloudInit": null, "ignition": {"storageType": "UnencryptedUserData", "version": "3.1", "proxy": {}, "tls": {}}}),
            vec![],
        ),
        // not built yet
        (json!({"cloudInit": null, "ignition": {}}), vec![(Forbidden, "spec.ignition.storageType".into())]),
        (json!({"networkInterfaces": ["eni-1"]}), vec![(Forbidden, "spec.networkInterfaces".into())]),
        (
            json!({"cpuOptions": {"confidentialCompute": "AMDEncryptedVirtualizationNestedPaging"}}),
            vec![(Forbidden, "spec.cpuOptions.confidentialCompute".into())],
        ),
        (json!({"cpuOptions": {"confidentialCompute": "Disabled"}}), vec![]),
        (json!({"spotMarketOptions": {}}), vec![(Forbidden, "spec.spotMarketOptions".into())]),
        (json!({"marketType": "Spot"}), vec![(Forbidden, "spec.marketType".into())]),
        (json!({"marketType": "CapacityBlock"}), vec![(Forbidden, "spec.marketType".into())]),
        (json!({"capacityReservationId": "cr-1"}), vec![(Forbidden, "spec.capacityReservationId".into())]),
        (json!({"imageLookupOrg": "1", "imageLookupFormat": "f", "imageLookupBaseOS": "o"}), vec![]),
        (
            json!({"ami": {}, "imageLookupOrg": "1", "imageLookupFormat": "f", "imageLookupBaseOS": "o"}),
            vec![
                (Forbidden, "spec.imageLookupFormat".into()),
                (Forbidden, "spec.imageLookupOrg".into()),
                (Forbidden, "spec.imageLookupBaseOS".into()),
            ],
        ),
        (
            hosts(json!({"sharing": {"policy": "Exclusive"}, "releasePolicy": "WaitForRelease", "reuse": "Never"})),
            vec![],
        ),
        (hosts(json!({"sharing": {"policy": "Shared", "group": "g"}})), vec![(Forbidden, at("sharing.policy"))]),
        (
            hosts(json!({"sharing": {"policy": "Shared"}})),
            vec![(Required, at("sharing.group")), (Forbidden, at("sharing.policy"))],
        ),
        (hosts(json!({"releasePolicy": "Background"})), vec![(Forbidden, at("releasePolicy"))]),
        (hosts(json!({"reuse": "PreferRetained"})), vec![(Forbidden, at("reuse"))]),
        (
            hosts(json!({"capacityFallback": {"zones": ["us-west-2b", "here"]}})),
            vec![(Invalid, at("capacityFallback.zones[1]")), (Forbidden, at("capacityFallback"))],
        ),
        (
            hosts(json!({"assetIDs": ["a", "b"]})),
            vec![(Required, at("outpostArn")), (Invalid, at("quantity")), (Forbidden, at("assetIDs"))],
        ),
    ];
    for (with, wanted) in rows {
        let found: Vec<_> = told(&created(&with)).into_iter().map(|(kind, path)| (kind, path.to_owned())).collect();
        assert_eq!(found, wanted, "{with}");
    }
}

#[test]
fn families_and_types_of_ec2_are_accepted() {
    for (family, type_) in [
        ("m5", "m5.large"),
        ("c5n", "c5n.metal"),
        ("r6gd", "r6gd.xlarge"),
        ("u-6tb1", "u-6tb1.metal"),
        ("u7i-12tb", "u7i-12tb.224xlarge"),
        ("mac1", "mac1.metal"),
        ("mac2-m2pro", "mac2-m2pro.metal"),
        ("mac-m4", "mac-m4.metal"),
    ] {
        let hosts = json!({"instanceFamily": family, "instanceType": type_});
        let verdict = created(&json!({"instanceType": type_, "dynamicHostAllocation": hosts}));
        assert_eq!(told(&verdict), [], "{type_}");
    }
}

/// Each is also refused because it is not built; what matters is that EC2's refusal is told as well.
#[test]
fn what_ec2_refuses_on_hosts_is_refused_whether_tenancy_is_said_or_implied() {
    for field in ["marketType", "spotMarketOptions", "capacityReservationId"] {
        let value = match field {
            "marketType" => json!("Spot"),
            "spotMarketOptions" => json!({}),
            _ => json!("cr-1"),
        };
        for place in [json!({"tenancy": "host"}), json!({"dynamicHostAllocation": {}})] {
            let mut with = place;
            with[field] = value.clone();
            let verdict = created(&with);
            let about = |error: &&FieldError| error.path.as_str() == format!("spec.{field}");
            assert_eq!(verdict.errors.iter().filter(about).count(), 2, "{with}: {verdict:?}");
            assert!(verdict.errors[0].detail.contains("tenancy host"), "{verdict:?}");
        }
    }
}

#[test]
fn a_host_resource_group_excludes_every_other_choice_of_a_host() {
    let group = "arn:aws:resource-groups:us-west-2:123456789012:group/g";
    for (with, excluded) in [
        (json!({"tenancy": "host", "hostID": HOST}), "hostID"),
        (json!({"dynamicHostAllocation": {}}), "dynamicHostAllocation"),
        (json!({"tenancy": "host", "hostAffinity": "host"}), "hostAffinity host"),
        (json!({"tenancy": "dedicated"}), "a tenancy other than host"),
    ] {
        let mut with = with;
        with["hostResourceGroupArn"] = json!(group);
        let verdict = created(&with);
        let first = &verdict.errors[0];
        assert_eq!((first.kind, first.path.as_str()), (Forbidden, "spec.hostResourceGroupArn"));
        assert!(first.detail.contains(excluded), "{first:?}");
    }
    let alone = created(&json!({"tenancy": "host", "hostResourceGroupArn": group}));
    assert!(alone.errors.iter().all(|error| error.detail.contains("not built yet")), "{alone:?}");
}

#[test]
fn what_has_no_effect_is_told_and_nothing_else() {
    assert_eq!(created(&json!({})).warnings, Vec::<String>::new());
    let all = json!({
        "ami": {"id": "ami-1", "eksLookupType": "AmazonLinux2023"}, "elasticIpPool": {}, "networkInterfaceType": "efa",
        "assignPrimaryIPv6": "enabled", "privateDnsName": {"hostnameType": "ip-name"}, "placementGroupName": "g",
        "placementGroupPartition": 1, "cpuOptions": {"nestedVirtualization": "enabled"},
        "capacityReservationPreference": "Open",
        "cloudInit": {"secretPrefix": "p", "secretCount": 1, "secureSecretsBackend": "ssm-parameter-store"},
    });
    let verdict = created(&all);
    assert_eq!(told(&verdict), []);
    for field in [
        "spec.ami.eksLookupType",
        "spec.elasticIpPool",
        "spec.networkInterfaceType",
        "spec.assignPrimaryIPv6",
        "spec.privateDnsName",
        "spec.placementGroupName",
        "spec.placementGroupPartition",
        "spec.cpuOptions.nestedVirtualization",
        "spec.capacityReservationPreference",
        "spec.cloudInit.secretPrefix",
        "spec.cloudInit.secretCount",
        "spec.cloudInit.secureSecretsBackend",
    ] {
        let about = verdict.warnings.iter().filter(|warning| warning.starts_with(&format!("{field} "))).count();
        assert_eq!(about, 1, "{field}: {:?}", verdict.warnings);
    }
    assert_eq!(verdict.warnings.len(), 13);
    assert!(verdict.warnings.iter().all(|warning| warning.chars().count() <= 256), "{:?}", verdict.warnings);
    for plain in [json!({"cloudInit": null}), json!({"cloudInit": {}})] {
        let warnings = created(&plain).warnings;
        assert!(warnings.len() == 1 && warnings[0].contains("it is sent as it is"), "{warnings:?}");
    }
}

#[test]
fn more_than_one_host_is_a_warning_about_money() {
    let two = json!({"dynamicHostAllocation": {"quantity": 2}});
    assert!(created(&two).warnings[0].contains("2 hosts are allocated"));
    let template = created_template(&two);
    assert!(template.errors.is_empty() && template.warnings[0].contains("2 times the number of replicas"));
    assert!(created_template(&json!({"dynamicHostAllocation": {"quantity": 1}})).warnings.is_empty());
}

/// Each row: an old and a new spec, and whether the change is allowed.
#[test]
fn only_what_is_said_to_be_mutable_can_be_changed() {
    let hosts = |with: Value| json!({"dynamicHostAllocation": with});
    let dns = |with: Value| json!({"privateDnsName": with});
    let init = |with: Value| json!({"cloudInit": with});
    let rows: Vec<(Value, Value, bool)> = vec![
        (json!({}), json!({"providerID": "aws:///us-west-2a/i-0123456789abcdef0", "instanceID": "i-1"}), true),
        (json!({}), json!({"additionalTags": {"a": "b"}}), true),
        (json!({"additionalTags": {"a": "b"}}), json!({}), true),
        (json!({}), json!({"additionalSecurityGroups": [{"id": "sg-1"}]}), true),
        (
            init(json!({})),
            init(json!({"secretPrefix": "p", "secretCount": 2, "secureSecretsBackend": "secrets-manager"})),
            true,
        ),
        (json!({"cloudInit": null}), init(json!({"secretPrefix": "p", "secretCount": 2})), true),
        (init(json!({})), init(json!({"insecureSkipSecretsManager": true})), false),
        (
            dns(json!({"hostnameType": "ip-name"})),
            dns(json!({"hostnameType": "ip-name", "enableResourceNameDnsARecord": true})),
            true,
        ),
        (
            dns(json!({"enableResourceNameDnsAAAARecord": true})),
            dns(json!({"enableResourceNameDnsAAAARecord": false})),
            true,
        ),
        (dns(json!({"hostnameType": "ip-name"})), dns(json!({"hostnameType": "resource-name"})), false),
        (hosts(json!({})), hosts(json!({"autoRelease": false})), true),
        (hosts(json!({"autoRelease": false})), hosts(json!({})), true),
        (hosts(json!({})), hosts(json!({"tags": {"a": "b"}})), true),
        (hosts(json!({})), hosts(json!({"quantity": 2})), false),
        (hosts(json!({"quantity": 2})), hosts(json!({})), false),
        (hosts(json!({})), hosts(json!({"instanceFamily": "m5"})), false),
        (hosts(json!({})), hosts(json!({"instanceType": "m5.4xlarge"})), false),
        (hosts(json!({})), hosts(json!({"availabilityZone": "us-west-2a"})), false),
        (hosts(json!({})), hosts(json!({"hostRecovery": "on"})), false),
        (hosts(json!({})), hosts(json!({"hostMaintenance": "on"})), false),
        (hosts(json!({})), json!({}), false),
        (json!({}), hosts(json!({})), false),
        // what only defaulting adds
        (hosts(json!({})), hosts(json!({"quantity": 1, "autoRelease": true})), true),
        (hosts(json!({})), json!({"dynamicHostAllocation": {}, "tenancy": "host", "hostAffinity": "host"}), true),
        (json!({}), json!({"instanceMetadataOptions": {"httpTokens": "optional"}}), true),
        (json!({}), json!({"instanceMetadataOptions": {"httpTokens": "required"}}), false),
        // everything else
        (json!({}), json!({"instanceType": "m5.large"}), false),
        (json!({}), json!({"ami": {"id": "ami-9"}}), false),
        (json!({}), json!({"imageLookupOrg": "1"}), false),
        (json!({}), json!({"subnet": {"id": "subnet-1"}}), false),
        (json!({}), json!({"securityGroupOverrides": {"node": "sg-1"}}), false),
        (json!({}), json!({"iamInstanceProfile": "p"}), false),
        (json!({}), json!({"sshKeyName": ""}), false),
        (json!({}), json!({"publicIP": true}), false),
        (json!({}), json!({"rootVolume": {"size": 9}}), false),
        (json!({}), json!({"nonRootVolumes": [{"size": 9, "deviceName": "d"}]}), false),
        (json!({}), json!({"uncompressedUserData": false}), false),
        (json!({}), json!({"tenancy": "default"}), false),
        (json!({"tenancy": "host"}), json!({"tenancy": "host", "hostID": HOST}), false),
        (json!({"tenancy": "host"}), json!({"tenancy": "host", "hostAffinity": "host"}), false),
        (json!({}), json!({"licenseConfigurationArns": ["arn"]}), false),
        (json!({}), json!({"placementGroupName": "g"}), false),
        (json!({}), json!({"cpuOptions": {"nestedVirtualization": "enabled"}}), false),
        (json!({}), json!({"marketType": "OnDemand"}), false),
        (json!({}), json!({"networkInterfaceType": "efa"}), false),
        (json!({}), json!({"assignPrimaryIPv6": "enabled"}), false),
        (json!({}), json!({"elasticIpPool": {}}), false),
    ];
    for (old, new, allowed) in rows {
        let verdict = updated(&old, &new);
        let frozen = verdict.errors.iter().any(|error| error.kind == Forbidden && error.path.as_str() == "spec");
        assert_eq!(verdict.errors.is_empty(), allowed, "{old} -> {new}: {verdict:?}");
        assert_eq!(frozen, !allowed, "{old} -> {new}: {verdict:?}");
    }
}

#[test]
fn a_refused_change_names_what_changed() {
    let verdict =
        updated(&json!({}), &json!({"instanceType": "m5.large", "publicIP": true, "additionalTags": {"a": "b"}}));
    assert_eq!(paths(&verdict), ["spec"]);
    assert!(verdict.errors[0].detail.starts_with("instanceType, publicIP cannot be changed"), "{verdict:?}");
}

#[test]
fn what_can_be_changed_is_checked_again() {
    for (new, path) in [
        (json!({"additionalTags": {"aws:x": "v"}}), "spec.additionalTags"),
        (
            json!({"cloudInit": {"insecureSkipSecretsManager": true, "secretPrefix": "p", "secretCount": 1}}),
            "spec.cloudInit.secretPrefix",
        ),
        (
            json!({"additionalSecurityGroups": [{"id": "sg-1", "filters": [{"name": "n", "values": ["v"]}]}]}),
            "spec.additionalSecurityGroups",
        ),
    ] {
        let verdict = updated(&json!({}), &new);
        assert!(paths(&verdict).contains(&path), "{new}: {verdict:?}");
    }
    let old = json!({"dynamicHostAllocation": {}});
    let reserved = updated(&old, &json!({"dynamicHostAllocation": {"tags": {"hosts.berth.dev/x": "v"}}}));
    assert_eq!(paths(&reserved), ["spec.dynamicHostAllocation.tags[hosts.berth.dev/x]"]);
}

/// Machines of another provider may be pinned without being on a host; they keep it, and no others get it.
#[test]
fn a_pair_that_was_contradictory_before_may_stay() {
    let pair = json!({"hostAffinity": "host"});
    let tagged = json!({"hostAffinity": "host", "additionalTags": {"a": "b"}});
    assert_eq!(told(&updated(&pair, &tagged)), []);
    let dedicated = json!({"tenancy": "dedicated", "hostAffinity": "host"});
    let dedicated_tagged = json!({"tenancy": "dedicated", "hostAffinity": "host", "additionalTags": {"a": "b"}});
    assert_eq!(told(&updated(&dedicated, &dedicated_tagged)), []);
    let introduced = updated(&json!({}), &pair);
    assert!(told(&introduced).contains(&(Forbidden, "spec.hostAffinity")), "{introduced:?}");
    // Every other placement rule holds on update, whatever was there before.
    let both = json!({"tenancy": "host", "hostID": HOST, "dynamicHostAllocation": {}});
    let mut both_tagged = both.clone();
    both_tagged["additionalTags"] = json!({"a": "b"});
    assert_eq!(paths(&updated(&both, &both_tagged)), ["spec.hostID", "spec.dynamicHostAllocation"]);
}

#[test]
fn what_is_not_built_or_refused_on_hosts_does_not_hold_up_a_machine_that_has_it() {
    let adopted =
        json!({"tenancy": "host", "placementGroupName": "g", "networkInterfaces": ["eni-1"], "marketType": "Spot"});
    let mut found = adopted.clone();
    found["providerID"] = json!("aws:///us-west-2a/i-0123456789abcdef0");
    assert_eq!(told(&updated(&adopted, &found)), []);
}

#[test]
fn a_machine_that_is_being_deleted_and_an_unchanged_spec_pass() {
    let bad = json!({"tenancy": "host", "hostID": HOST, "dynamicHostAllocation": {}});
    let old = machine(&bad);
    let mut labelled = old.clone();
    labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    assert_eq!(machine_verdict(&review(labelled, Some(old.clone()))), Verdict::default());
    let mut going = old.clone();
    going.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap());
    going.spec.additional_tags.insert("a".into(), "b".into());
    assert_eq!(machine_verdict(&review(going.clone(), Some(old.clone()))), Verdict::default());
    going.spec.host_id = Some("h-00000000000000000".into());
    assert_eq!(paths(&machine_verdict(&review(going, Some(old)))), ["spec"], "even then it stays on its host");
}

#[test]
fn a_template_holds_nothing_that_belongs_to_one_machine() {
    let with = json!({"providerID": "aws:///us-west-2a/i-0123456789abcdef0", "instanceID": "i-1",
        "cloudInit": {"secretPrefix": "p", "secretCount": 1}});
    let verdict = created_template(&with);
    let root = "spec.template.spec";
    let wanted = ["providerID", "instanceID", "cloudInit.secretPrefix", "cloudInit.secretCount"];
    let wanted: Vec<_> = wanted.iter().map(|field| (Forbidden, format!("{root}.{field}"))).collect();
    let found: Vec<_> = told(&verdict).into_iter().map(|(kind, path)| (kind, path.to_owned())).collect();
    assert_eq!(found, wanted);
    let loose = json!({"rootVolume": {"size": 8, "type": "gp3", "throughput": 100}});
    assert_eq!(told(&created_template(&loose)), [], "the provider bounds the throughput of machines only");
}

#[test]
fn a_template_cannot_be_changed_except_by_defaulting_and_in_a_topology_dry_run() {
    let change = |old: &Value, new: &Value| {
        let mut new = template(new);
        fill(&mut new.spec.template.spec);
        template_verdict(&review(new, Some(template(old))))
    };
    let changed = change(&json!({}), &json!({"instanceType": "m5.large"}));
    assert_eq!(told(&changed), [(Forbidden, "spec.template.spec")]);
    assert!(changed.errors[0].detail.starts_with("instanceType cannot be changed"), "{changed:?}");
    assert_eq!(told(&change(&json!({}), &json!({"additionalTags": {"a": "b"}}))).len(), 1, "tags too");
    assert_eq!(told(&change(&json!({}), &json!({}))), []);
    assert_eq!(told(&change(&json!({}), &json!({"instanceMetadataOptions": {"httpTokens": "required"}}))), []);
    let given = json!({"instanceMetadataOptions": {"httpTokens": "required"}});
    assert_eq!(told(&change(&given, &json!({}))).len(), 1);
    assert_eq!(
        told(&change(&json!({"dynamicHostAllocation": {}}), &json!({"dynamicHostAllocation": {"quantity": 1}}))),
        []
    );

    let dry = |dry_run: bool, annotated: bool| {
        let mut new = template(&json!({"instanceType": "m5.large"}));
        if annotated {
            new.metadata.annotations = Some([(TOPOLOGY_DRY_RUN_ANNOTATION.to_owned(), String::new())].into());
        }
        let review = Review { dry_run, ..review(new, Some(template(&json!({})))) };
        template_verdict(&review).errors.len()
    };
    assert_eq!((dry(true, true), dry(true, false), dry(false, true), dry(false, false)), (0, 1, 1, 1));
    let mut relabelled = template(&json!({}));
    relabelled.spec.template.metadata = Some(api::own::TemplateMetadata::default());
    assert_eq!(told(&template_verdict(&review(relabelled, Some(template(&json!({})))))), []);
}

#[test]
fn what_is_not_built_names_a_field_that_exists() {
    let all = json!({
        "instanceType": "m5.large", "networkInterfaces": ["e"], "ignition": {}, "spotMarketOptions": {}, "marketType": "Spot",
        "cpuOptions": {"confidentialCompute": "AMDEncryptedVirtualizationNestedPaging"}, "capacityReservationId": "c",
        "imageLookupFormat": "f", "imageLookupOrg": "o", "imageLookupBaseOS": "b", "hostResourceGroupArn": "a",
        "licenseConfigurationArns": ["a"], "dynamicHostAllocation": {"sharing": {"policy": "Shared"}, "outpostArn": "a",
            "assetIDs": ["a"], "releasePolicy": "Background", "capacityFallback": {}, "reuse": "PreferRetained"},
    });
    let spec: AWSMachineSpec = serde_json::from_value(all).unwrap();
    let definition = serde_json::to_value(&api::own::aws_crds()[0]).unwrap();
    let schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
    for missing in missing(&spec) {
        let mut node = &schema;
        for field in missing.field.split('.') {
            node = &node["properties"][field];
        }
        assert!(node.is_object(), "{missing:?}");
    }
    assert_eq!(missing(&spec).len(), 17);
}

#[test]
fn every_webhook_is_registered_at_its_path() {
    let admission = register(Admission::new(), &Ours::default());
    let paths: std::collections::BTreeSet<&str> = admission.paths().collect();
    assert_eq!(paths, WEBHOOKS.iter().map(|webhook| webhook.path).collect());
}

#[test]
fn machines_of_another_controller_are_not_judged() {
    let labelled = |value: Option<&str>| ObjectMeta {
        labels: value.map(|value| [(WATCH_FILTER_LABEL.to_owned(), value.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let ours = |runs: bool, filter: Option<&str>| Ours { runs, watch_filter: filter.map(str::to_owned) };
    for (ours, label, owned) in [
        (ours(true, None), None, true),
        (ours(true, None), Some("x"), true),
        (ours(true, Some("x")), Some("x"), true),
        (ours(true, Some("x")), Some("y"), false),
        (ours(true, Some("x")), None, false),
        (ours(false, None), None, false),
        (ours(false, Some("x")), Some("x"), false),
    ] {
        assert_eq!(ours.owns(&labelled(label)), owned, "{ours:?} {label:?}");
    }
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
