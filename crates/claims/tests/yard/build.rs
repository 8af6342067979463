//! Objects as they come from the server, small enough to read in a test.

use std::sync::Arc;

use api::key::ObjectKey;
use claims::facts::{ClaimFacts, HostFacts, KeptClaim, PolicyFacts, QuotaFacts, SpaceFacts};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

/// Seconds after a fixed time.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_000_000_000 + seconds)
}

/// Adds `extra` to `base`, field by field.
pub fn merge(base: &mut Value, extra: Value) {
    match (base, extra) {
        (Value::Object(base), Value::Object(extra)) => {
            for (key, value) in extra {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, extra) => *base = extra,
    }
}

/// A host that anybody may have, with changes.
pub fn host(name: &str, changes: Value) -> Arc<HostFacts> {
    let mut object = json!({
        "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        "spec": {"online": false},
        "status": {"provisioning": {"state": "available"}, "operationalStatus": "OK"},
    });
    merge(&mut object, changes);
    Arc::new(HostFacts::of(serde_json::from_value(object).unwrap()))
}

/// A host with labels.
pub fn labelled(name: &str, labels: Value) -> Arc<HostFacts> {
    host(name, json!({"metadata": {"labels": labels}}))
}

/// A host that a claim uses.
pub fn used(name: &str, claim: &str) -> Arc<HostFacts> {
    host(name, json!({"spec": {"consumerRef": consumer(claim)}}))
}

/// A reference to a claim.
pub fn consumer(claim: &str) -> Value {
    let claim = key(claim);
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
        "namespace": claim.namespace(), "name": claim.name(), "uid": format!("uid-of-{claim}")})
}

/// A claim made `created` seconds after the fixed time, with changes of its spec.
pub fn claim(name: &str, created: i64, spec: Value) -> Arc<KeptClaim> {
    let mut full = json!({"poweredOn": true});
    merge(&mut full, spec);
    object_claim(name, created, json!({"spec": full}))
}

/// A claim with changes anywhere.
pub fn object_claim(name: &str, created: i64, changes: Value) -> Arc<KeptClaim> {
    let name = key(name);
    let mut object = json!({
        "metadata": {"name": name.name(), "namespace": name.namespace(), "uid": format!("uid-of-{name}"),
            "creationTimestamp": at(created).to_string()},
        "spec": {"poweredOn": true},
    });
    merge(&mut object, changes);
    Arc::new(KeptClaim::of(&ClaimFacts::of(serde_json::from_value(object).unwrap())))
}

/// A policy.
pub fn policy(spec: Value) -> Arc<PolicyFacts> {
    let object = json!({"metadata": {"name": "p", "uid": "u"}, "spec": spec});
    Arc::new(PolicyFacts::of(serde_json::from_value(object).unwrap()))
}

/// A policy that lets these namespaces in.
pub fn admits(namespaces: &[&str]) -> Arc<PolicyFacts> {
    policy(json!({"hostClaimNamespaces": {"names": namespaces}}))
}

/// A quota.
pub fn quota(spec: Value) -> Arc<QuotaFacts> {
    let object = json!({"metadata": {"name": "q", "uid": "u"}, "spec": spec});
    Arc::new(QuotaFacts::of(serde_json::from_value(object).unwrap()))
}

/// A namespace with labels.
pub fn space(labels: &[(&str, &str)]) -> Arc<SpaceFacts> {
    let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Arc::new(SpaceFacts { labels, deleting: false })
}
