use api::raw;
use kit::feed::Project;
use kit::room::Stand;
use serde_json::{Value, json};

use super::*;

fn claim(object: Value) -> ClaimFacts {
    let source: raw::HostClaim = serde_json::from_value(object).unwrap();
    let facts = ClaimFacts::of(source.clone());
    assert_eq!(Claims::slim(source).facts().as_ref(), Some(&facts), "what is kept is the whole claim");
    facts
}

/// A claim that has a host, as a site is full of them.
fn bound() -> Value {
    let condition = |type_: &str, reason: &str| {
        json!({"type": type_, "status": "True", "reason": reason, "observedGeneration": 1,
            "message": "", "lastTransitionTime": "2026-11-18T10:20:30Z"})
    };
    let host = json!({"namespace": "infra-01", "name": "host-00017"});
    json!({
        "metadata": {"name": "claim-00000017", "namespace": "tenant-0017", "uid": "5b0f3d5e-7c1f-4f0e-9a44-0f8e1d1c2b3a",
            "generation": 1, "creationTimestamp": "2026-11-18T10:20:29Z", "finalizers": ["metal3.io/hostclaim"],
            "labels": {"example.test/team": "team-17"}},
        "spec": {"poweredOn": false, "kind": "baremetal", "hostSelector": {"matchLabels": {"size": "s7"}}},
        "status": {
            "observedGeneration": 1, "ready": true, "lastUpdated": "2026-11-18T10:20:31Z",
            "selectedHost": {"namespace": "infra-01", "name": "host-00017", "uid": "77d3c1b0-1111-4222-8333-444455556666"},
            "bareMetalHost": host, "hardwareData": host, "hostUID": "77d3c1b0-1111-4222-8333-444455556666",
            "poweredOn": false, "provisioningState": "Available", "bootMACAddress": "02:00:00:aa:bb:cc",
            "addresses": [{"type": "InternalIP", "address": "192.168.10.11"}, {"type": "Hostname", "address": "host-00017"},
                {"type": "InternalDNS", "address": "host-00017"}],
            "nics": [{"MAC": "02:00:00:aa:bb:cc", "ip": "192.168.10.11", "name": "eth0"}],
            "hostMetadata": {"labels": {"size": "s7"}},
            "conditions": [condition("Associated", "BareMetalHostAssociated"), condition("Synchronized", "Synchronized"),
                condition("Provisioned", "Reserved"), condition("AvailableForProvisioning", "Available"),
                condition("Ready", "Ready")],
        },
    })
}

#[test]
fn a_claim_with_a_host_is_kept_in_a_third_of_its_words() {
    let facts = claim(bound());
    assert!(facts.status.bare_metal_host.is_some() && facts.status.conditions.len() == 5);
    let words = serde_json::to_string(&facts).unwrap();
    let kept = short::pack(&words);
    assert!(3 * kept.len() < words.len() + 300, "{} of {}", kept.len(), words.len());
    let kept = KeptClaim::of(&facts);
    assert_eq!(
        (kept.phase, kept.asks, kept.intent.is_none(), kept.stand),
        ("provisioned", false, true, Stand::ready())
    );
}

#[test]
fn a_claim_that_is_not_ready_says_by_what_it_has_to_get_first_why_and_since_when() {
    let at = |text: &str| text.parse().unwrap();
    let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-11-18T10:20:30Z"});
    let stand = |conditions: Value, deleted: Option<&str>| {
        let mut object = bound();
        object["status"]["conditions"] = conditions;
        if let Some(deleted) = deleted {
            object["metadata"]["deletionTimestamp"] = json!(deleted);
        }
        KeptClaim::of(&claim(object)).stand
    };
    let ready = condition("Ready", "False", "NotReady");
    let failing = json!([
        condition("Synchronized", "False", "ImageNotAllowed"),
        condition("Provisioned", "False", "Provisioning"),
        ready
    ]);
    assert_eq!(stand(failing.clone(), None), Stand::waiting("ImageNotAllowed", at("2026-11-18T10:20:30Z")));
    assert_eq!(stand(json!([]), None), Stand::unjudged(at("2026-11-18T10:20:29Z")), "since it was made");
    let later = "2026-11-18T11:00:00Z";
    assert_eq!(stand(failing, Some(later)), Stand::deleting("ImageNotAllowed", at(later)));
    let paused = json!([condition("Paused", "True", "Paused"), condition("Associated", "False", "HostPaused"), ready]);
    assert_eq!(stand(paused, None).reason(), "Paused");
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
    assert_eq!(Claims::keys(0, &key, &KeptClaim::of(&facts)), ["t/u".into(), "t/p".into()]);
    assert_eq!(Claims::keys(1, &key, &KeptClaim::of(&facts)), ["t/c".into()]);
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
