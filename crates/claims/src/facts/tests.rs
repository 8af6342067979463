use api::raw;
use kit::feed::Project;
use serde_json::{Value, json};

use super::*;

fn claim(object: Value) -> ClaimFacts {
    Claims::slim(serde_json::from_value::<raw::HostClaim>(object).unwrap())
}

#[test]
fn a_claim_that_cannot_be_read_is_a_problem_of_its_own_and_keeps_its_status() {
    let bound = json!({"bareMetalHost": {"namespace": "i", "name": "h"}});
    for (spec, path) in [
        (json!({"poweredOn": "yes"}), "spec.poweredOn"),
        (json!({"poweredOn": true, "hostSelector": {"matchLabels": {"a": 1}}}), "spec.hostSelector.matchLabels.a"),
        (json!({"poweredOn": true, "failureDomainMode": "Sometimes"}), "spec.failureDomainMode"),
        (json!("no spec at all"), "spec"),
    ] {
        let facts = claim(json!({"metadata": {"name": "a", "uid": "u"}, "spec": spec, "status": bound}));
        let problem = facts.problem.clone().unwrap();
        assert!(problem.starts_with(&format!("{path}: ")), "{problem}");
        assert_eq!(facts.status.bare_metal_host.as_ref().unwrap().name, "h");
        assert_eq!(&*facts.uid, "u");
    }
    let facts =
        claim(json!({"spec": {"poweredOn": true, "fromTheFuture": {"x": 1}}, "status": {"conditions": "none"}}));
    assert_eq!((facts.problem.clone(), facts.status.bare_metal_host.clone()), (None, None));
    assert_eq!(claim(json!({})).problem, None);
}

#[test]
fn a_selector_that_cannot_be_used_says_where_it_is_wrong() {
    let terms =
        json!([{"key": "a", "operator": "like", "values": ["1"]}, {"key": "b", "operator": "gt", "values": ["x"]}]);
    let facts = claim(json!({"spec": {"poweredOn": true, "hostSelector": {"matchExpressions": terms}}}));
    assert_eq!(facts.problem, None);
    let fault = facts.selector.unwrap_err();
    assert!(fault.contains("spec.hostSelector.matchExpressions[0].operator: must be one of"), "{fault}");
    assert!(fault.contains("; spec.hostSelector.matchExpressions[1].values: "), "{fault}");
}

#[test]
fn what_claims_are_found_by_follows_from_their_spec_and_labels() {
    let object = json!({
        "metadata": {
            "name": "a", "namespace": "t", "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "reboot.metal3.io": ""},
            "managedFields": [
                {"manager": "berth-claims", "operation": "Apply", "subresource": "status"},
                {"manager": "kubectl", "operation": "Update"},
                {"manager": "other", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
                {"manager": "other", "operation": "Apply", "subresource": "status"},
            ],
        },
        "spec": {
            "poweredOn": true, "userData": {"name": "u"}, "networkData": {"name": ""}, "metaData": {},
            "image": {"url": "oci://x/y", "ociAuthSecretName": "p"},
        },
    });
    let facts = claim(object);
    assert_eq!(facts.secrets().collect::<Vec<_>>(), ["u", "p"]);
    assert_eq!(facts.annotations.keys().map(|key| &**key).collect::<Vec<_>>(), ["reboot.metal3.io"]);
    assert_eq!(facts.managers.iter().map(|name| &**name).collect::<Vec<_>>(), ["berth-claims", "other"]);
    let key = api::ObjectKey::namespaced("t", "a");
    assert_eq!(Claims::keys(0, &key, &facts), ["t/u".into(), "t/p".into()]);
    assert_eq!(Claims::keys(1, &key, &facts), ["t/c".into()]);
}

#[test]
fn the_facts_of_a_host_hold_no_version_and_no_message() {
    let object = |version: &str, message: &str| {
        json!({
            "metadata": {"name": "h", "uid": "u", "resourceVersion": version,
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": version}},
            "spec": {"consumerRef": {"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "namespace": "t", "name": "a"}},
            "status": {"errorMessage": message, "errorType": "power management error", "lastUpdated": version,
                "conditions": [{"type": "Healthy", "status": "False", "reason": "Critical", "message": message}]},
        })
    };
    let facts = |version: &str, message: &str| Hosts::slim(serde_json::from_value(object(version, message)).unwrap());
    let host = facts("1", "bmc at 10.0.0.1 says no");
    assert_eq!(host, facts("2", "bmc at 10.0.0.2 says no"), "wakes nobody");
    assert!(host.error_message && host.error.as_deref() == Some("power management error"));
    let consumer = host.consumer.unwrap();
    assert_eq!(consumer.claim(), Some(api::ObjectKey::namespaced("t", "a")));
    assert!(consumer.means("any"));
    let named = Consumer { uid: "u1".into(), ..consumer };
    assert!(named.means("u1") && !named.means("u2"));
    let other = Consumer { group: "infrastructure.cluster.x-k8s.io".into(), ..named };
    assert_eq!(other.claim(), None);
}

#[test]
fn strange_hosts_read_as_hosts_that_nobody_can_have() {
    let strange = json!({
        "metadata": {"name": "h"},
        "spec": {"consumerRef": {"kind": "HostClaim"}, "image": "none", "userData": {"namespace": "x"}, "online": "on"},
        "status": {"provisioning": "gone", "operationalStatus": 7, "hardware": []},
    });
    let host = Hosts::slim(serde_json::from_value(strange).unwrap());
    assert_eq!((host.consumer, host.image, host.user_data, host.hardware), (None, None, None, None));
    assert_eq!((&*host.state, &*host.operational, host.online), ("", "", false));
}

#[test]
fn policies_and_quotas_that_cannot_be_read_are_problems_of_their_own() {
    let policy: raw::HostDeployPolicy =
        serde_json::from_value(json!({"spec": {"hostClaimNamespaces": {"names": "all"}}})).unwrap();
    let policy = Policies::slim(policy);
    assert!(policy.problem.unwrap().starts_with("spec.hostClaimNamespaces.names: "));
    assert_eq!(policy.spec.host_claim_namespaces, None, "admits nobody");
    let quota: raw::HostClaimQuota = serde_json::from_value(json!({"spec": {"hard": {"hosts": "2"}}})).unwrap();
    let quota = Quotas::slim(quota);
    assert!(quota.problem.is_some() && quota.spec.tenants.names.is_empty(), "binds nobody");
}
