//! Address management: claims, addresses, and the pools of the in-cluster provider.
#![allow(clippy::upper_case_acronyms, reason = "the kinds are spelled as their owners spell them")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::common::{ConditionView, Conditions, ObjectRef, RawDeprecated, RawNewer, RawRef, read_ref};
use super::soft::{or_default, soft, soft_structs, text};
use crate::meta::lean_meta;

/// A wish for an address.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct IPAddressClaim {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: IPAddressClaimSpec,
    /// What was given.
    #[serde(default, deserialize_with = "or_default")]
    pub status: IPAddressClaimStatus,
}

crate::view! { IPAddressClaim, group: super::IPAM_GROUP, versions: ["v1beta2", "v1beta1", "v1alpha1"], plural: "ipaddressclaims", scope: Namespaced }

/// What a claim wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawClaimSpec")]
pub struct IPAddressClaimSpec {
    /// The cluster the claim belongs to; `v1alpha1` has only the label for it.
    pub cluster_name: Option<String>,
    /// The pool to take the address from.
    pub pool: Option<ObjectRef>,
}

/// What a claim was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawClaimStatus")]
pub struct IPAddressClaimStatus {
    /// Name of the IPAddress, once the claim is bound.
    pub address_name: Option<String>,
    /// The conditions; the in-cluster provider sets none on a claim it cannot fill.
    pub conditions: Conditions,
}

/// An address taken from a pool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct IPAddress {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// The address.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: IPAddressSpec,
}

crate::view! { IPAddress, group: super::IPAM_GROUP, versions: ["v1beta2", "v1beta1", "v1alpha1"], plural: "ipaddresses", scope: Namespaced }

/// An address and where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawAddressSpec")]
pub struct IPAddressSpec {
    /// Name of the claim that holds the address.
    pub claim_name: Option<String>,
    /// The pool it was taken from.
    pub pool: Option<ObjectRef>,
    /// The address as text.
    pub address: Option<String>,
    /// Length of the network prefix.
    pub prefix: Option<i32>,
    /// The gateway of the network.
    pub gateway: Option<String>,
}

/// A pool for the claims of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct InClusterIPPool {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// The addresses.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: AddressPoolSpec,
    /// How many are left.
    #[serde(default, deserialize_with = "or_default")]
    pub status: AddressPoolStatus,
}

crate::view! { InClusterIPPool, group: super::IPAM_GROUP, versions: ["v1alpha2"], plural: "inclusterippools", scope: Namespaced }

/// A pool for the claims of every namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct GlobalInClusterIPPool {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// The addresses.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: AddressPoolSpec,
    /// How many are left.
    #[serde(default, deserialize_with = "or_default")]
    pub status: AddressPoolStatus,
}

crate::view! { GlobalInClusterIPPool, group: super::IPAM_GROUP, versions: ["v1alpha2"], plural: "globalinclusterippools", scope: Cluster }

/// The addresses of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressPoolSpec {
    /// Addresses, ranges and networks, all of one family.
    #[serde(default, deserialize_with = "or_default")]
    pub addresses: Vec<String>,
    /// Length of the network prefix.
    #[serde(default, deserialize_with = "soft")]
    pub prefix: Option<i32>,
    /// The gateway, which is never given away.
    #[serde(default, deserialize_with = "text")]
    pub gateway: Option<String>,
    /// Addresses, ranges and networks that are never given away.
    #[serde(default, deserialize_with = "or_default")]
    pub excluded_addresses: Vec<String>,
    /// Whether network and broadcast addresses are given away.
    #[serde(default, rename = "allocateReservedIPAddresses", deserialize_with = "or_default")]
    pub allocate_reserved: bool,
    /// How long a released address rests before it is given away again, in seconds.
    #[serde(default, rename = "addressReuseGracePeriodSeconds", deserialize_with = "soft")]
    pub reuse_grace_seconds: Option<i32>,
}

/// How much of a pool is left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct AddressPoolStatus {
    /// The counts; a new pool has none yet, which means unknown and not empty.
    #[serde(default, rename = "ipAddresses", deserialize_with = "soft")]
    pub counts: Option<PoolCounts>,
}

/// Counts of the addresses of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolCounts {
    /// All of them.
    #[serde(default, deserialize_with = "or_default")]
    pub total: i64,
    /// Those that can be given away.
    #[serde(default, deserialize_with = "or_default")]
    pub free: i64,
    /// Those that are held by claims.
    #[serde(default, deserialize_with = "or_default")]
    pub used: i64,
    /// Those held by claims though the pool does not contain them any more.
    #[serde(default, deserialize_with = "or_default")]
    pub out_of_range: i64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawClaimSpec {
    #[serde(default, deserialize_with = "text")]
    cluster_name: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    pool_ref: Option<RawRef>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawClaimStatus {
    #[serde(default, deserialize_with = "soft")]
    address_ref: Option<RawRef>,
    #[serde(default, deserialize_with = "or_default")]
    conditions: Vec<ConditionView>,
    #[serde(default, deserialize_with = "soft")]
    v1beta2: Option<RawNewer>,
    #[serde(default, deserialize_with = "or_default")]
    deprecated: RawDeprecated,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAddressSpec {
    #[serde(default, deserialize_with = "soft")]
    claim_ref: Option<RawRef>,
    #[serde(default, deserialize_with = "soft")]
    pool_ref: Option<RawRef>,
    #[serde(default, deserialize_with = "text")]
    address: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    prefix: Option<i32>,
    #[serde(default, deserialize_with = "text")]
    gateway: Option<String>,
}

soft_structs!(IPAddressClaimSpec, IPAddressClaimStatus, IPAddressSpec, AddressPoolSpec, AddressPoolStatus, PoolCounts);

impl From<RawClaimSpec> for IPAddressClaimSpec {
    fn from(raw: RawClaimSpec) -> Self {
        Self { cluster_name: raw.cluster_name, pool: read_ref(raw.pool_ref) }
    }
}

impl From<RawClaimStatus> for IPAddressClaimStatus {
    fn from(raw: RawClaimStatus) -> Self {
        Self {
            address_name: read_ref(raw.address_ref).map(|r| r.name),
            conditions: Conditions::read(
                raw.conditions,
                raw.v1beta2.map(|n| n.conditions),
                raw.deprecated.v1beta1.map(|o| o.conditions),
            ),
        }
    }
}

impl From<RawAddressSpec> for IPAddressSpec {
    fn from(raw: RawAddressSpec) -> Self {
        Self {
            claim_name: read_ref(raw.claim_ref).map(|r| r.name),
            pool: read_ref(raw.pool_ref),
            address: raw.address,
            prefix: raw.prefix,
            gateway: raw.gateway,
        }
    }
}
