//! Wishes for addresses and the addresses that came of them, of either kind of address management.

use api::key::ObjectKey;
use api::views::{INFRASTRUCTURE_GROUP, IPAddress, IPAddressClaim, metal_ipam};
use kit::feed::Project;

use super::super::names::{DATA_KIND, DATA_UID_LABEL, beside};
use super::super::render::PoolAddress;
use super::{Head, Owner, owner};

/// A wish for an address, of either kind of address management.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFacts {
    /// Its metadata.
    pub head: Head,
    /// The Metal3Data it was made for.
    pub data: Option<Owner>,
    /// The name of the address it was given.
    pub address: Option<Box<str>>,
    /// Why it was given none.
    pub problem: Option<Box<str>>,
}

fn lease_keys(index: usize, key: &ObjectKey, lease: &LeaseFacts) -> Vec<Box<str>> {
    match index {
        0 => lease.data.iter().map(|data| data.uid.clone()).collect(),
        _ => lease.address.iter().map(|address| beside(key, address).to_string().into()).collect(),
    }
}

/// Wishes for addresses by the contract of Cluster API.
pub struct Leases;

impl Project for Leases {
    type Source = IPAddressClaim;
    type Slim = LeaseFacts;
    const INDEXES: &'static [&'static str] = &["data", "address"];

    fn slim(source: IPAddressClaim) -> LeaseFacts {
        let ready = source.status.conditions.get(api::reasons::READY).filter(|c| c.status == "False");
        LeaseFacts {
            head: Head::of(&source.metadata),
            data: owner(&source.metadata, INFRASTRUCTURE_GROUP, DATA_KIND),
            problem: ready.filter(|c| !c.message.is_empty()).map(|c| c.message.as_str().into()),
            address: source.status.address_name.map(Into::into),
        }
    }

    fn keys(index: usize, key: &ObjectKey, lease: &LeaseFacts) -> Vec<Box<str>> {
        lease_keys(index, key, lease)
    }
}

/// Wishes for addresses of Metal3's own pools.
pub struct PoolLeases;

impl Project for PoolLeases {
    type Source = metal_ipam::IPClaim;
    type Slim = LeaseFacts;
    const INDEXES: &'static [&'static str] = &["data", "address"];

    fn slim(source: metal_ipam::IPClaim) -> LeaseFacts {
        LeaseFacts {
            head: Head::of(&source.metadata),
            data: owner(&source.metadata, INFRASTRUCTURE_GROUP, DATA_KIND),
            address: source.status.address_name.map(Into::into),
            problem: source.status.error_message.map(Into::into),
        }
    }

    fn keys(index: usize, key: &ObjectKey, lease: &LeaseFacts) -> Vec<Box<str>> {
        lease_keys(index, key, lease)
    }
}

/// Addresses by the contract of Cluster API.
pub struct Addresses;

impl Project for Addresses {
    type Source = IPAddress;
    type Slim = PoolAddress;

    fn slim(source: IPAddress) -> PoolAddress {
        PoolAddress {
            address: source.spec.address.unwrap_or_default().into(),
            prefix: source.spec.prefix.unwrap_or_default(),
            gateway: source.spec.gateway.unwrap_or_default().into(),
            dns: Box::default(),
        }
    }
}

/// Addresses of Metal3's own pools.
pub struct PoolAddresses;

impl Project for PoolAddresses {
    type Source = metal_ipam::IPAddress;
    type Slim = PoolAddress;

    fn slim(source: metal_ipam::IPAddress) -> PoolAddress {
        PoolAddress {
            address: source.spec.address.unwrap_or_default().into(),
            prefix: source.spec.prefix.unwrap_or_default(),
            gateway: source.spec.gateway.unwrap_or_default().into(),
            dns: source.spec.dns_servers.into_iter().map(Into::into).collect(),
        }
    }
}

/// The label that finds the wishes for addresses of one data.
#[must_use]
pub fn lease_selector(uid: &str) -> String {
    format!("{DATA_UID_LABEL}={uid}")
}
