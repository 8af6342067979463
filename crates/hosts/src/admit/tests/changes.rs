//! What may be changed, and templates.

use super::*;

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
