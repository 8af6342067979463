//! What claims hold, whatever kind they are of, as their own objects tell everybody.
//!
//! A quota binds a tenant over all kinds. Of the machines of another kind a controller knows no more than what the other
//! controller has written on its claims: that one is about to be made, before it is, and that there is one.

use std::sync::Arc;

use api::names::claims::FAILURE_DOMAIN_LABEL;
use api::names::hosts::ALLOCATION_ANNOTATION;
use api::own::{HostClaimStatus, ProvisioningState};
use api::raw::HostClaim;
use kit::feed::Project;
use serde_json::Value;

use crate::claim::{Texts, kind_of};

/// A machine that a claim has, or is about to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The uid of the claim.
    pub uid: Box<str>,
    /// The kind of the claim.
    pub kind: Box<str>,
    /// The namespace of the machine, for a host.
    pub place: Option<Box<str>>,
    /// The labels by which quotas tell it from others, as far as the claim shows them.
    pub labels: Texts,
}

impl Held {
    /// What a claim of this uid and kind holds by its status, and by the journal of those who keep one on the claim before
    /// they write a status; `None` when nothing is on record.
    #[must_use]
    pub fn of(uid: &str, kind: &str, status: &HostClaimStatus, journal: Option<&str>) -> Option<Self> {
        // Before and after there is a machine a claim is told to be available, or nothing is known of it.
        let under_way = !matches!(
            status.provisioning_state,
            None | Some(ProvisioningState::Available | ProvisioningState::Unknown)
        );
        let chosen = status.selected_host.as_ref().map(|host| host.namespace.as_str());
        let place = status.bare_metal_host.as_ref().map(|host| host.namespace.as_str()).or(chosen);
        if !(status.is_bound() || place.is_some() || under_way || journal.is_some_and(is_open)) {
            return None;
        }
        let shown = status.host_metadata.iter().flat_map(|metadata| &metadata.labels);
        let mut labels: Texts = shown.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
        if let Some(domain) = &status.failure_domain {
            labels.insert(FAILURE_DOMAIN_LABEL.into(), domain.as_str().into());
        }
        Some(Self { uid: uid.into(), kind: kind.into(), place: place.map(Into::into), labels })
    }
}

/// Whether the journal of an allocation says that something may be there. One that cannot be read does not say otherwise.
fn is_open(journal: &str) -> bool {
    let read: Value = serde_json::from_str(journal).unwrap_or_default();
    let phase = read.get("phase").and_then(Value::as_str).unwrap_or_default();
    !["Released", "Retained", "Abandoned"].contains(&phase)
}

/// HostClaims of every kind, by what they hold.
pub struct Holders;

impl Project for Holders {
    type Source = HostClaim;
    /// `None` for a claim that holds nothing.
    type Slim = Option<Arc<Held>>;

    fn slim(source: HostClaim) -> Option<Arc<Held>> {
        let HostClaim { metadata, spec, status } = source;
        let status: HostClaimStatus = serde_json::from_value(status).unwrap_or_default();
        let journal = metadata.annotations.as_ref().and_then(|annotations| annotations.get(ALLOCATION_ANNOTATION));
        let uid = metadata.uid.as_deref().unwrap_or_default();
        Held::of(uid, kind_of(&spec), &status, journal.map(String::as_str)).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn held(changes: &Value) -> Option<Arc<Held>> {
        let mut claim = json!({"metadata": {"namespace": "red", "name": "c", "uid": "u"}, "spec": {"kind": "vm"}});
        for (field, value) in changes.as_object().unwrap() {
            claim[field] = value.clone();
        }
        Holders::slim(serde_json::from_value(claim).unwrap())
    }

    #[test]
    fn a_claim_counts_from_its_intent_until_nothing_is_on_record() {
        let counts = |status: Value| held(&json!({ "status": status })).is_some();
        assert!(!counts(json!({})) && !counts(Value::Null));
        assert!(!counts(json!({"provisioningState": "Available"})), "it may have one");
        assert!(counts(json!({"provisioningState": "Provisioning"})), "it is about to");
        assert!(counts(json!({"resourceID": "m-1"})) && counts(json!({"provisioningState": "Deprovisioning"})));
        let host = json!({"namespace": "metal", "name": "h", "uid": "h"});
        assert!(counts(json!({ "selectedHost": host })) && counts(json!({ "bareMetalHost": host })));
    }

    #[test]
    fn a_journal_counts_before_any_status_and_until_it_is_closed() {
        let journal = |text: &str| {
            let metadata =
                json!({"namespace": "red", "name": "c", "uid": "u", "annotations": {ALLOCATION_ANNOTATION: text}});
            held(&json!({ "metadata": metadata })).is_some()
        };
        assert!(journal(r#"{"phase":"Intended"}"#) && journal(r#"{"phase":"Releasing"}"#) && journal("?"));
        assert!(!journal(r#"{"phase":"Released"}"#) && !journal(r#"{"phase":"Retained"}"#));
    }

    #[test]
    fn what_is_held_is_known_by_its_place_and_by_the_labels_that_are_shown() {
        let status = json!({"bareMetalHost": {"namespace": "metal", "name": "h"}, "failureDomain": "zone-a",
            "hostMetadata": {"labels": {"size": "large"}}});
        let held = held(&json!({ "status": status })).unwrap();
        assert_eq!((&*held.kind, held.place.as_deref()), ("vm", Some("metal")));
        let labels: Vec<(&str, &str)> = held.labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(labels, [(FAILURE_DOMAIN_LABEL, "zone-a"), ("size", "large")]);
    }
}
