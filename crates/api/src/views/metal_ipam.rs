//! Address management of Metal3: its own claims and addresses, beside those of Cluster API.
#![allow(clippy::upper_case_acronyms, reason = "the kinds are spelled as their owners spell them")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::common::{ObjectRef, RawRef, read_ref};
use super::soft::{or_default, soft, soft_structs, text};
use crate::meta::lean_meta;

/// Group of Metal3's own address management.
pub const METAL3_IPAM_GROUP: &str = "ipam.metal3.io";

/// A wish for an address of an IPPool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct IPClaim {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: IPClaimSpec,
    /// What was given.
    #[serde(default, deserialize_with = "or_default")]
    pub status: IPClaimStatus,
}

crate::view! { IPClaim, group: METAL3_IPAM_GROUP, versions: ["v1alpha1"], plural: "ipclaims", scope: Namespaced }

/// What a claim wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawClaimSpec")]
pub struct IPClaimSpec {
    /// The pool to take the address from.
    pub pool: Option<ObjectRef>,
}

/// What a claim was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawClaimStatus")]
pub struct IPClaimStatus {
    /// Name of the IPAddress, once the claim is bound.
    pub address_name: Option<String>,
    /// Why none was given.
    pub error_message: Option<String>,
}

/// An address taken from an IPPool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct IPAddress {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// The address.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: PoolAddressSpec,
}

crate::view! { IPAddress, group: METAL3_IPAM_GROUP, versions: ["v1alpha1"], plural: "ipaddresses", scope: Namespaced }

/// An address and what belongs to its network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolAddressSpec {
    /// The address as text.
    #[serde(default, deserialize_with = "text")]
    pub address: Option<String>,
    /// Length of the network prefix.
    #[serde(default, deserialize_with = "soft")]
    pub prefix: Option<i32>,
    /// The gateway of the network.
    #[serde(default, deserialize_with = "text")]
    pub gateway: Option<String>,
    /// The name servers of the network.
    #[serde(default, deserialize_with = "or_default")]
    pub dns_servers: Vec<String>,
}

#[derive(Default, Deserialize)]
struct RawClaimSpec {
    #[serde(default, deserialize_with = "soft")]
    pool: Option<RawRef>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawClaimStatus {
    #[serde(default, deserialize_with = "soft")]
    address: Option<RawRef>,
    #[serde(default, deserialize_with = "text")]
    error_message: Option<String>,
}

soft_structs!(IPClaimSpec, IPClaimStatus, PoolAddressSpec);

impl From<RawClaimSpec> for IPClaimSpec {
    fn from(raw: RawClaimSpec) -> Self {
        Self { pool: read_ref(raw.pool) }
    }
}

impl From<RawClaimStatus> for IPClaimStatus {
    fn from(raw: RawClaimStatus) -> Self {
        Self { address_name: read_ref(raw.address).map(|address| address.name), error_message: raw.error_message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_and_its_address_are_read_whatever_else_is_there() {
        let claim: IPClaim = serde_json::from_value(json!({
            "spec": {"pool": {"name": "p", "namespace": "n"}},
            "status": {"address": {"name": "p-192-168-0-10", "namespace": "n"}, "errorMessage": ""},
        }))
        .unwrap();
        assert_eq!(claim.spec.pool.map(|pool| pool.name).as_deref(), Some("p"));
        assert_eq!(claim.status.address_name.as_deref(), Some("p-192-168-0-10"));
        assert_eq!(claim.status.error_message, None);
        let address: IPAddress = serde_json::from_value(json!({
            "spec": {"address": "192.168.0.10", "prefix": 24, "gateway": "192.168.0.1", "dnsServers": ["8.8.8.8", 7]},
        }))
        .unwrap();
        assert_eq!(address.spec.prefix, Some(24));
        assert_eq!(address.spec.dns_servers, ["8.8.8.8"]);
        for odd in [json!({}), json!({"spec": [], "status": 3})] {
            assert_eq!(serde_json::from_value::<IPClaim>(odd).unwrap().status, IPClaimStatus::default());
        }
    }
}
