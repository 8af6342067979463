//! The network data: links, networks on them, and services.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::own::metal3::{
    BondLink, DynamicNetwork, Gateway, LinkMac, NetworkData, NetworkServices, Route, StaticNetwork,
};
use ipnet::IpNet;
use serde_json::{Map, Value, json};

use super::{Addresses, Fault, Objects, PoolAddress, pool};

/// Which addresses a network has.
#[derive(Clone, Copy)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn word(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }

    /// The mask of a prefix, as an address.
    fn mask(self, prefix: i32, network: &str) -> Result<String, Fault> {
        let any: IpAddr = match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let length = u8::try_from(prefix).ok().and_then(|prefix| IpNet::new(any, prefix).ok());
        length
            .map(|net| net.netmask().to_string())
            .ok_or_else(|| Fault::BadPrefix { prefix, network: network.to_owned() })
    }
}

pub(super) fn render(data: &NetworkData, objects: &Objects<'_>, addresses: &Addresses) -> Result<Value, Fault> {
    let from = Sources { objects, addresses };
    Ok(json!({
        "links": from.links(data)?,
        "networks": from.networks(data)?,
        "services": from.services(&data.services)?,
    }))
}

struct Sources<'a> {
    objects: &'a Objects<'a>,
    addresses: &'a Addresses,
}

impl Sources<'_> {
    fn links(&self, data: &NetworkData) -> Result<Vec<Value>, Fault> {
        let mut links = Vec::new();
        for link in &data.links.bonds {
            links.push(self.bond(link)?);
        }
        for link in &data.links.ethernets {
            let mut entry = json!({
                "type": link.type_, "id": link.id, "mtu": link.mtu,
                "ethernet_mac_address": self.mac(&link.mac_address, &link.id)?,
            });
            name(&mut entry, link.name.as_deref());
            links.push(entry);
        }
        for link in &data.links.vlans {
            let mut entry = json!({
                "type": "vlan", "id": link.id, "mtu": link.mtu,
                "vlan_mac_address": self.mac(&link.mac_address, &link.id)?,
                "vlan_id": link.vlan_id, "vlan_link": link.vlan_link,
            });
            name(&mut entry, link.name.as_deref());
            links.push(entry);
        }
        Ok(links)
    }

    fn bond(&self, link: &BondLink) -> Result<Value, Fault> {
        let mut entry = Map::new();
        let mut set = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        set("type", json!("bond"));
        set("id", json!(link.id));
        set("mtu", json!(link.mtu));
        set("ethernet_mac_address", json!(self.mac(&link.mac_address, &link.id)?));
        set("bond_mode", json!(link.bond_mode));
        set("bond_xmit_hash_policy", json!(link.bond_xmit_hash_policy.as_deref().unwrap_or_default()));
        set("bond_links", json!(link.bond_links));
        let mut illegal: Vec<&str> = Vec::new();
        for parameter in &link.parameters {
            let key = format!("bond_{}", parameter.name);
            if entry.contains_key(&key) {
                illegal.push(&parameter.name);
            } else {
                entry.insert(key, parameter.value.clone());
            }
        }
        if !illegal.is_empty() {
            return Err(Fault::BondParameters { params: illegal.join("\", \""), link: link.id.clone() });
        }
        let mut entry = Value::Object(entry);
        name(&mut entry, link.name.as_deref());
        Ok(entry)
    }

    fn mac(&self, mac: &LinkMac, link: &str) -> Result<String, Fault> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let address = if let Some(text) = given(&mac.string) {
            text
        } else if let Some(nic) = given(&mac.from_host_interface) {
            self.objects.nic(&nic)?.to_owned()
        } else if let Some(from) = &mac.from_annotation {
            self.objects.annotation(&from.object, &from.annotation)?.to_owned()
        } else {
            return Err(Fault::NoMac(link.to_owned()));
        };
        if is_mac(&address) { Ok(address) } else { Err(Fault::BadMac(address)) }
    }

    fn networks(&self, data: &NetworkData) -> Result<Vec<Value>, Fault> {
        let mut networks = Vec::new();
        for (all, family) in [(&data.networks.ipv4, Family::V4), (&data.networks.ipv6, Family::V6)] {
            for network in all {
                let address = self.address(network)?;
                networks.push(json!({
                    "type": family.word(), "id": network.id, "link": network.link,
                    "netmask": family.mask(address.prefix, &network.id)?, "ip_address": address.address,
                    "routes": self.routes(&network.routes, family)?,
                }));
            }
        }
        let dynamic = [
            (&data.networks.ipv4_dhcp, Family::V4, "ipv4_dhcp"),
            (&data.networks.ipv6_dhcp, Family::V6, "ipv6_dhcp"),
            (&data.networks.ipv6_slaac, Family::V6, "ipv6_slaac"),
        ];
        for (all, family, word) in dynamic {
            for DynamicNetwork { id, link, routes } in all {
                let routes = self.routes(routes, family)?;
                networks.push(json!({"type": word, "id": id, "link": link, "routes": routes}));
            }
        }
        Ok(networks)
    }

    fn address(&self, network: &StaticNetwork) -> Result<&PoolAddress, Fault> {
        if let Some(from) = &network.from_pool_annotation {
            return pool(self.addresses, &self.objects.pool_by_annotation(from)?);
        }
        let name = match (&network.from_pool_ref, &network.ip_address_from_ip_pool) {
            (Some(pool), _) => pool.name.as_str(),
            (None, Some(name)) => name.as_str(),
            (None, None) => return Err(Fault::NoPool(format!("network {}", network.id))),
        };
        pool(self.addresses, name)
    }

    fn routes(&self, routes: &[Route], family: Family) -> Result<Vec<Value>, Fault> {
        let mut out = Vec::new();
        for route in routes {
            out.push(json!({
                "network": route.network,
                "netmask": family.mask(route.prefix.unwrap_or_default(), &route.network)?,
                "gateway": self.gateway(&route.gateway)?,
                "services": self.services(&route.services)?,
            }));
        }
        Ok(out)
    }

    fn gateway(&self, gateway: &Gateway) -> Result<String, Fault> {
        if let Some(address) = &gateway.string {
            return Ok(address.clone());
        }
        let from = if let Some(from) = &gateway.from_pool_annotation {
            pool(self.addresses, &self.objects.pool_by_annotation(from)?)?
        } else if let Some(from) = &gateway.from_pool_ref {
            pool(self.addresses, &from.name)?
        } else if let Some(name) = &gateway.from_ip_pool {
            pool(self.addresses, name)?
        } else {
            return Ok(String::new());
        };
        Ok(from.gateway.to_string())
    }

    fn services(&self, services: &NetworkServices) -> Result<Vec<Value>, Fault> {
        let dns = |address: &str| json!({"type": "dns", "address": address});
        let mut out: Vec<Value> = services.dns.iter().map(|address| dns(address)).collect();
        if let Some(name) = &services.dns_from_ip_pool {
            out.extend(pool(self.addresses, name)?.dns.iter().map(|address| dns(address)));
        }
        Ok(out)
    }
}

/// The name of the interface in the running system, where the template gives one.
fn name(entry: &mut Value, name: Option<&str>) {
    if let (Some(entry), Some(name)) = (entry.as_object_mut(), name) {
        entry.insert("name".to_owned(), json!(name));
    }
}

/// Six pairs of hexadecimal digits, with a colon or a dash between two.
fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
