//! One rule after the other, and the field that each names.

use super::*;

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
