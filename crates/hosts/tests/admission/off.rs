//! The rules of the definitions alone, as they hold while no webhook is served.

use api::own::AWSMachineSpec;
use hosts::admit::problem;
use serde_json::{Value, json};

use crate::manifests::{every_field, every_status_field, founding};
use crate::world::{World, machine, plain, template};

const HOST: &str = "h-0123456789abcdef0";

fn spec(value: &Value) -> AWSMachineSpec {
    serde_json::from_value(value.clone()).unwrap()
}

#[tokio::test]
async fn every_contradiction_of_placement_is_refused_by_the_definition_alone() {
    let Some(world) = World::enter("every_contradiction_of_placement_is_refused_by_the_definition_alone").await else {
        return;
    };
    let (mut stored, mut refused) = (0, 0);
    for tenancy in [None, Some("default"), Some("dedicated"), Some("host")] {
        for affinity in [None, Some("default"), Some("host")] {
            for named in [None, Some(HOST)] {
                for allocated in [None, Some(json!({}))] {
                    let unnamed = named.is_none() && allocated.is_none();
                    let with = plain(&json!({"tenancy": tenancy, "hostAffinity": affinity, "hostID": named,
                        "dynamicHostAllocation": allocated}));
                    let fine = problem(&spec(&with)).is_none();
                    let answer = world.create(&machine("m", &with), true).await;
                    assert_eq!(answer.is_ok(), fine, "{with}: {answer:?}");
                    let fine = fine && !(unnamed && tenancy == Some("host") && affinity == Some("host"));
                    let answer = world.create(&template("t", &with), true).await;
                    assert_eq!(answer.is_ok(), fine, "template {with}: {answer:?}");
                    *if fine { &mut stored } else { &mut refused } += 1;
                }
            }
        }
    }
    assert_eq!((stored, refused), (15, 33));
}

#[tokio::test]
async fn what_ec2_would_refuse_is_refused_by_the_definition_alone() {
    let Some(world) = World::enter("what_ec2_would_refuse_is_refused_by_the_definition_alone").await else { return };
    let hosts = |with: Value| json!({"dynamicHostAllocation": with});
    let group = "arn:aws:resource-groups:us-west-2:123456789012:group/g";
    let rows = [
        (json!({}), None),
        (json!({"tenancy": "shared"}), Some("spec.tenancy")),
        (json!({"hostAffinity": "invalid"}), Some("spec.hostAffinity")),
        (json!({"tenancy": "host", "hostID": "h-1"}), Some("spec.hostID")),
        (json!({"tenancy": "host", "placementGroupName": "g"}), Some("placement groups")),
        (json!({"tenancy": "host", "marketType": "Spot"}), Some("spot")),
        (json!({"tenancy": "host", "marketType": "OnDemand"}), None),
        (json!({"tenancy": "host", "spotMarketOptions": {}}), Some("spot")),
        (json!({"tenancy": "host", "capacityReservationId": "cr-1"}), Some("capacity reservations")),
        (
            json!({"tenancy": "host", "capacityReservationPreference": "CapacityReservationsOnly"}),
            Some("capacity reservations"),
        ),
        (json!({"tenancy": "host", "capacityReservationPreference": "Open"}), None),
        (json!({"dynamicHostAllocation": {}, "placementGroupName": "g"}), Some("placement groups")),
        (json!({"placementGroupName": "g", "capacityReservationId": "cr-1"}), None),
        (json!({"capacityReservationId": "cr-1", "marketType": "Spot"}), Some("capacityReservationId")),
        (json!({"capacityReservationId": "cr-1", "spotMarketOptions": {}}), Some("capacityReservationId")),
        (json!({"tenancy": "host", "hostResourceGroupArn": group}), None),
        (json!({"tenancy": "host", "hostResourceGroupArn": "g"}), Some("spec.hostResourceGroupArn")),
        (json!({"tenancy": "host", "hostID": HOST, "hostResourceGroupArn": group}), Some("hostResourceGroupArn")),
        (json!({"dynamicHostAllocation": {}, "hostResourceGroupArn": group}), Some("hostResourceGroupArn")),
        (hosts(json!({"instanceFamily": "m5"})), None),
        (hosts(json!({"instanceFamily": "c5"})), Some("instanceFamily must be the family")),
        (hosts(json!({"instanceFamily": ""})), Some("instanceFamily")),
        (hosts(json!({"instanceFamily": "M5"})), Some("instanceFamily")),
        (hosts(json!({"instanceFamily": "m5.large"})), Some("instanceFamily")),
        (hosts(json!({"instanceFamily": "m5-"})), Some("instanceFamily")),
        (hosts(json!({"instanceType": "m5.4xlarge"})), None),
        (hosts(json!({"instanceType": "m5.large"})), Some("dynamicHostAllocation.instanceType")),
        (hosts(json!({"availabilityZone": "us-west-2a"})), None),
        (hosts(json!({"availabilityZone": "us-east-1-wl1-bos-wlz-1"})), None),
        (hosts(json!({"availabilityZone": "us-west-2"})), Some("availabilityZone")),
        (hosts(json!({"quantity": 10})), None),
        (hosts(json!({"quantity": 0})), Some("quantity")),
        (hosts(json!({"quantity": 11})), Some("quantity")),
        (hosts(json!({"hostRecovery": "maybe"})), Some("hostRecovery")),
        (hosts(json!({"assetIDs": ["a"]})), Some("outpostArn")),
        (hosts(json!({"sharing": {"policy": "Shared"}})), Some("group must be given")),
        (json!({"rootVolume": {"size": 8, "type": "io1"}}), Some("iops must be given")),
        (json!({"rootVolume": {"size": 7}}), Some("spec.rootVolume.size")),
    ];
    for (with, told) in rows {
        let with = plain(&with);
        for object in [machine("m", &with), template("t", &with)] {
            match (world.create(&object, true).await, told) {
                (Ok(_), None) => {}
                (Err(message), Some(part)) if message.contains(part) => {}
                (answer, _) => panic!("{object}: wanted {told:?}, got {answer:?}"),
            }
        }
    }
    for (family, type_) in [
        ("u-6tb1", "u-6tb1.metal"),
        ("u7i-12tb", "u7i-12tb.224xlarge"),
        ("mac2-m2pro", "mac2-m2pro.metal"),
        ("mac-m4", "mac-m4.metal"),
    ] {
        let with = plain(&json!({"instanceType": type_, "dynamicHostAllocation": {"instanceFamily": family}}));
        world.create(&machine("m", &with), true).await.expect(family);
    }
}

#[tokio::test]
async fn nothing_that_the_provider_stores_is_dropped_or_changed() {
    let Some(world) = World::enter("nothing_that_the_provider_stores_is_dropped_or_changed").await else { return };
    for (name, spec) in every_field() {
        world.delete("AWSMachine", name).await;
        let stored = world.create(&machine(name, &spec), false).await.expect(name);
        assert_eq!(stored["spec"], spec, "{name}");
        world.delete("AWSMachine", name).await;
        let mut wanted = template(name, &spec);
        wanted["spec"]["template"]["metadata"] = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}});
        let stored = world.create(&wanted, true).await.expect(name);
        assert_eq!(stored["spec"], wanted["spec"], "{name}");
    }
    let name = "status";
    world.delete("AWSMachine", name).await;
    world.create(&machine(name, &plain(&json!({}))), false).await.unwrap();
    let status = every_status_field();
    let params = kube::api::PatchParams::default();
    let patch = kube::api::Patch::Merge(json!({"status": status}));
    let stored = world.all("AWSMachine").patch_status(name, &params, &patch).await.unwrap();
    assert_eq!(stored.data["status"], status);
    world.delete("AWSMachine", name).await;
}

#[tokio::test]
async fn the_first_template_of_the_feature_applies_unchanged() {
    let Some(world) = World::enter("the_first_template_of_the_feature_applies_unchanged").await else { return };
    let stored = world.create(&template("founding", &founding()), true).await.unwrap();
    assert_eq!(stored["spec"]["template"]["spec"], founding());
    let stored = world.create(&machine("founding", &founding()), true).await.unwrap();
    assert_eq!(stored["spec"], founding());
}

#[tokio::test]
async fn a_machine_keeps_its_hardware_and_may_change_what_is_said_to_be_mutable() {
    let Some(world) = World::enter("a_machine_keeps_its_hardware_and_may_change_what_is_said_to_be_mutable").await
    else {
        return;
    };
    let name = "kept";
    world.delete("AWSMachine", name).await;
    let hosts = json!({"dynamicHostAllocation": {"instanceFamily": "m5", "tags": {"a": "b"}}});
    world.create(&machine(name, &plain(&hosts)), false).await.unwrap();
    for allowed in [
        json!({"providerID": "aws:///us-west-2a/i-0123456789abcdef0", "instanceID": "i-0123456789abcdef0"}),
        json!({"additionalTags": {"a": "b"}}),
        json!({"additionalSecurityGroups": [{"id": "sg-1"}]}),
        json!({"dynamicHostAllocation": {"autoRelease": false}}),
        json!({"dynamicHostAllocation": {"tags": {"c": "d"}}}),
        json!({"tenancy": "host", "hostAffinity": "host", "dynamicHostAllocation": {"quantity": 1}}),
    ] {
        world
            .patch("AWSMachine", name, &json!({"spec": allowed}))
            .await
            .unwrap_or_else(|why| panic!("{allowed}: {why}"));
    }
    for refused in [
        json!({"instanceType": "m5.large"}),
        json!({"hostID": HOST, "dynamicHostAllocation": null}),
        json!({"dynamicHostAllocation": null}),
        json!({"dynamicHostAllocation": {"quantity": 2}}),
        json!({"dynamicHostAllocation": {"instanceFamily": null}}),
        json!({"dynamicHostAllocation": {"instanceType": "m5.4xlarge"}}),
        json!({"dynamicHostAllocation": {"availabilityZone": "us-west-2a"}}),
        json!({"tenancy": "default"}),
        json!({"hostAffinity": "default"}),
    ] {
        let answer = world.patch("AWSMachine", name, &json!({"spec": refused})).await;
        assert!(answer.is_err(), "{refused} was stored: {answer:?}");
    }
    world.delete("AWSMachine", name).await;
}

/// Objects of the provider were stored under its own definition, which has other rules.
#[tokio::test]
async fn what_was_stored_under_other_rules_stays_changeable() {
    let Some(world) = World::enter("what_was_stored_under_other_rules_stays_changeable").await else { return };
    let (pinned, grouped) = ("pinned", "grouped");
    for name in [pinned, grouped, "other"] {
        world.delete("AWSMachine", name).await;
    }
    world
        .define(|definition| {
            let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
            for path in [spec.to_owned(), format!("{spec}/properties/template/properties/spec")] {
                if let Some(schema) = definition.pointer_mut(&path).and_then(Value::as_object_mut) {
                    schema.remove("x-kubernetes-validations");
                }
            }
        })
        .await;
    let contradictory = plain(&json!({"hostAffinity": "host"}));
    let refused_by_ec2 = plain(&json!({"tenancy": "host", "placementGroupName": "g"}));
    sim::wait::within(std::time::Duration::from_secs(30), "the server forgets the rules", async || {
        world.create(&machine("probe", &contradictory), true).await.ok()
    })
    .await;
    world.create(&machine(pinned, &contradictory), false).await.unwrap();
    world.create(&machine(grouped, &refused_by_ec2), false).await.unwrap();
    world.define(|_| {}).await;
    sim::wait::within(std::time::Duration::from_secs(30), "the server knows the rules again", async || {
        world.create(&machine("probe", &contradictory), true).await.err()
    })
    .await;
    for name in [pinned, grouped] {
        let tags = json!({"spec": {"additionalTags": {"a": "b"}}});
        world.patch("AWSMachine", name, &tags).await.unwrap_or_else(|why| panic!("{name}: {why}"));
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        world.patch("AWSMachine", name, &labels).await.unwrap_or_else(|why| panic!("{name}: {why}"));
        let status = kube::api::Patch::Merge(json!({"status": {"ready": true}}));
        world.all("AWSMachine").patch_status(name, &kube::api::PatchParams::default(), &status).await.unwrap();
    }
    world.create(&machine("other", &plain(&json!({}))), false).await.unwrap();
    let introduced = world.patch("AWSMachine", "other", &json!({"spec": {"hostAffinity": "host"}})).await;
    assert!(introduced.is_err(), "{introduced:?}");
    for name in [pinned, grouped, "other"] {
        world.delete("AWSMachine", name).await;
    }
}
