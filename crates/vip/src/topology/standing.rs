//! Which cluster a request is about, and what is known of it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use api::views::Endpoint;
use serde_json::Value;

use super::wire::TopologyRequest;
use crate::names::Slot;

/// The cluster that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its unique id, where the request gives one.
    pub uid: Option<String>,
}

impl Subject {
    /// The cluster of a request: the one of `builtin`, else the one that holds the infrastructure cluster.
    #[must_use]
    pub fn of(request: &TopologyRequest) -> Option<Self> {
        Self::of_builtin(request.builtin("cluster")).or_else(|| Self::of_holder(request))
    }

    fn of_builtin(cluster: Option<&Value>) -> Option<Self> {
        let text = |key| cluster?.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Some(Self { namespace: text("namespace")?, name: text("name")?, uid: text("uid") })
    }

    fn of_holder(request: &TopologyRequest) -> Option<Self> {
        let holders = || request.items.iter().filter(|item| item.holder.kind == "Cluster");
        let item = holders().find(|item| item.is_infrastructure_cluster()).or_else(|| holders().next())?;
        let (namespace, name) = (item.holder.namespace.clone(), item.holder.name.clone());
        (!namespace.is_empty() && !name.is_empty()).then_some(Self { namespace, name, uid: None })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What is known of the Cluster that a request is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// Whether there is such a Cluster.
    pub found: bool,
    /// Its unique id.
    pub uid: Option<String>,
    /// Its endpoint, which is not valid while host or port is missing.
    pub endpoint: Endpoint,
    /// The addresses it has.
    pub vips: BTreeMap<Slot, String>,
    /// Whether it, or its class, wants to be left alone.
    pub opted_out: bool,
    /// Whether the endpoint is the user's own and the control plane's address is another.
    pub vip_only: bool,
}

impl Standing {
    fn is_another(&self, subject: &Subject) -> bool {
        matches!((&subject.uid, &self.uid), (Some(asked), Some(known)) if asked != known)
    }
}

/// What may be put into the templates of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Means<'a> {
    /// The endpoint; only a cluster with an endpoint of the user's own can be without.
    pub endpoint: Option<&'a Endpoint>,
    standing: &'a Standing,
}

impl<'a> Means<'a> {
    /// What may be put into the templates; nothing for a cluster that wants to be left alone.
    ///
    /// # Errors
    /// Says why nothing can be said of the cluster yet. Going on without its address would make objects without one, or
    /// take it away from existing ones.
    pub fn of(request: &TopologyRequest, standing: &'a Standing) -> Result<Option<Self>, String> {
        let subject = Subject::of(request)
            .ok_or("the request names no cluster: it has neither builtin.cluster nor a holder of kind Cluster")?;
        if !standing.found {
            return Err(format!("Cluster {subject} was not found"));
        }
        if standing.is_another(&subject) {
            return Err(format!("Cluster {subject} was deleted and made again: the request is about the earlier one"));
        }
        if standing.opted_out {
            return Ok(None);
        }
        let endpoint = Some(&standing.endpoint).filter(|endpoint| endpoint.is_valid());
        if endpoint.is_none() && !standing.vip_only {
            return Err(format!("control plane endpoint of {subject} is not set yet"));
        }
        Ok(Some(Self { endpoint, standing }))
    }

    /// The address of a slot. The control plane's is the host of the endpoint, unless that is the user's own.
    pub fn vip(&self, slot: Slot) -> Option<&'a str> {
        if slot == Slot::CONTROL_PLANE && !self.standing.vip_only {
            return self.endpoint.map(|endpoint| endpoint.host.as_str());
        }
        self.standing.vips.get(&slot).map(String::as_str).filter(|vip| !vip.is_empty())
    }
}

/// Whether two texts name one host; addresses have several spellings.
pub fn same_host(one: &str, other: &str) -> bool {
    let address = |text: &str| text.parse::<IpAddr>();
    one == other || matches!((address(one), address(other)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(value: Value) -> TopologyRequest {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn one_address_may_be_spelled_in_several_ways() {
        assert!(same_host("2001:DB8:0::1", "2001:db8::1") && same_host("api.example.org", "api.example.org"));
        assert!(!same_host("10.0.0.1", "10.0.0.2") && !same_host("a", "b") && !same_host("10.0.0.1/24", "10.0.0.1"));
    }

    #[test]
    fn the_builtin_names_the_cluster_before_any_holder() {
        let holder =
            json!({"kind": "Cluster", "namespace": "h", "name": "held", "fieldPath": "spec.infrastructureRef"});
        let control =
            json!({"kind": "Cluster", "namespace": "h", "name": "other", "fieldPath": "spec.controlPlaneRef"});
        let items = json!([{"uid": "0", "holderReference": control}, {"uid": "1", "holderReference": holder}]);
        let builtin = |value: Value| json!([{"name": "builtin", "value": value}]);
        let full = builtin(json!({"cluster": {"namespace": "a", "name": "b", "uid": "u"}}));
        let subject = Subject::of(&request(json!({"variables": full, "items": items}))).unwrap();
        assert_eq!((subject.to_string(), subject.uid.as_deref()), ("a/b".to_owned(), Some("u")));
        for partial in [json!({}), json!({"cluster": {"name": "b"}}), json!("x"), json!({"cluster": {"name": 1}})] {
            let subject = Subject::of(&request(json!({"variables": builtin(partial), "items": items}))).unwrap();
            assert_eq!((subject.to_string(), subject.uid), ("h/held".to_owned(), None));
        }
        assert_eq!(Subject::of(&request(json!({"items": [{"holderReference": {"kind": "MachineDeployment"}}]}))), None);
    }
}
