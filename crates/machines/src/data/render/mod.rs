//! Renders what a machine is told at its first boot: metadata and network data, as OpenStack's config drive has them.
//!
//! Equal input gives equal bytes. The documents are JSON, which whoever reads YAML reads too, and which leaves nothing to
//! guess: some readers of YAML take a hardware address without quotes for a number.

mod meta;
mod network;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::own::HostNic;
use api::own::metal3::{FromAnnotation, Metal3DataTemplateSpec};
use serde_json::Value;

/// Labels or annotations.
pub type Texts = BTreeMap<String, String>;

/// What a template may ask of an object.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a Texts,
    /// Its annotations.
    pub annotations: &'a Texts,
}

/// The host as its claim shows it: only what its owner lets tenants see, and nothing that tenants wrote themselves.
#[derive(Clone, Copy, Debug)]
pub struct HostView<'a> {
    /// Its name, and what is shown of its labels and annotations.
    pub named: Named<'a>,
    /// Its network interfaces.
    pub nics: &'a [HostNic],
    /// The hardware address it boots from.
    pub boot_mac: Option<&'a str>,
}

/// An address from a pool, with what belongs to its network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolAddress {
    /// The address.
    pub address: Box<str>,
    /// Length of the network prefix.
    pub prefix: i32,
    /// The gateway, empty without one.
    pub gateway: Box<str>,
    /// The name servers.
    pub dns: Box<[Box<str>]>,
}

/// Addresses, by the name of their pool.
pub type Addresses = BTreeMap<Box<str>, PoolAddress>;

/// Everything that can reach the documents of one machine.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    /// The namespace of all of them.
    pub namespace: &'a str,
    /// The Machine.
    pub machine: Named<'a>,
    /// The Metal3Machine.
    pub metal3machine: Named<'a>,
    /// The host.
    pub host: HostView<'a>,
    /// The name of the HostClaim.
    pub claim: &'a str,
}

/// Why nothing can be rendered; only a change of the template, or of the objects it reads, helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The inspection of the host found no network interface, or its owner shows none.
    #[error("NICs list not populated")]
    NoNics,
    /// There is no such network interface.
    #[error("NIC name not found {0}")]
    UnknownNic(String),
    /// The host does not say which address it boots from.
    #[error("the host has no boot MAC address")]
    NoBootMac,
    /// A kind of object that nothing can be taken from.
    #[error("Unknown object type {0}")]
    UnknownObject(String),
    /// A link says nowhere where its hardware address comes from.
    #[error("no MAC address given for link {0}")]
    NoMac(String),
    /// What should be a hardware address is none.
    #[error("bad MAC address: {0}")]
    BadMac(String),
    /// A parameter of a bond that has a field of its own.
    #[error("illegal params \"{params}\" into bond params blob into link id={link}")]
    BondParameters {
        /// The parameters.
        params: String,
        /// The bond.
        link: String,
    },
    /// A network or a key says nowhere which pool its address comes from, or nothing was taken from it.
    #[error("Pool not found in cache: {0}")]
    NoPool(String),
    /// One name stands for two kinds of pools.
    #[error("multiple references with the same name but different resource types: {pool}")]
    TwoKindsOfPool {
        /// The name.
        pool: Box<str>,
    },
    /// The annotation that should name a pool names none.
    #[error("annotation {annotation} not found or empty on {object}")]
    NoPoolAnnotation {
        /// The annotation.
        annotation: String,
        /// Where it was looked for.
        object: String,
    },
    /// The prefix of a network is longer than its addresses.
    #[error("prefix {prefix} is too long for {network}")]
    BadPrefix {
        /// The prefix.
        prefix: i32,
        /// The network or route.
        network: String,
    },
}

impl<'a> Objects<'a> {
    fn object(&self, object: &str) -> Result<Named<'a>, Fault> {
        match object.to_lowercase().as_str() {
            "machine" => Ok(self.machine),
            "metal3machine" => Ok(self.metal3machine),
            "baremetalhost" => Ok(self.host.named),
            _ => Err(Fault::UnknownObject(object.to_owned())),
        }
    }

    /// The value of an annotation; empty when it is not there.
    fn annotation(&self, object: &str, annotation: &str) -> Result<&'a str, Fault> {
        Ok(self.object(object)?.annotations.get(annotation).map(String::as_str).unwrap_or_default())
    }

    /// The pool that an annotation names.
    pub(super) fn pool_by_annotation(&self, from: &FromAnnotation) -> Result<String, Fault> {
        match self.annotation(&from.object, &from.annotation)? {
            "" => Err(Fault::NoPoolAnnotation { annotation: from.annotation.clone(), object: from.object.clone() }),
            name => Ok(name.to_owned()),
        }
    }

    fn nic(&self, name: &str) -> Result<&'a str, Fault> {
        if self.host.nics.is_empty() {
            return Err(Fault::NoNics);
        }
        let found = self.host.nics.iter().find(|nic| nic.name.as_deref() == Some(name));
        found.map(|nic| nic.mac.as_deref().unwrap_or_default()).ok_or_else(|| Fault::UnknownNic(name.to_owned()))
    }
}

fn pool<'p>(addresses: &'p Addresses, name: &str) -> Result<&'p PoolAddress, Fault> {
    addresses.get(name).ok_or_else(|| Fault::NoPool(name.to_owned()))
}

/// What is rendered for one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Documents {
    /// The metadata, when the template has any.
    pub meta: Option<String>,
    /// The network data, when the template has any.
    pub network: Option<String>,
}

fn text(value: &Value) -> String {
    // Values made of texts, numbers and maps with text keys always serialize.
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Renders the documents of a machine.
///
/// # Errors
/// The first thing that is wrong.
pub fn render(
    spec: &Metal3DataTemplateSpec,
    index: i32,
    objects: &Objects<'_>,
    addresses: &Addresses,
) -> Result<Documents, Fault> {
    let meta = spec.meta_data.as_ref().map(|meta| meta::render(meta, index, objects, addresses)).transpose()?;
    let network = spec.network_data.as_ref().map(|data| network::render(data, objects, addresses)).transpose()?;
    Ok(Documents { meta: meta.as_ref().map(text), network: network.as_ref().map(text) })
}
