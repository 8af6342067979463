//! The addresses of an instance, in the order Cluster API expects them.

use std::net::Ipv6Addr;

use api::own::HostAddress;
use aws::port::Instance;

fn address(type_: &str, address: impl Into<String>) -> HostAddress {
    HostAddress { type_: type_.to_owned(), address: address.into() }
}

fn is_link_local(ip: &Ipv6Addr) -> bool {
    ip.segments().first().is_some_and(|first| first & 0xffc0 == 0xfe80)
}

/// The addresses of all interfaces. `domains` are those of the network's own DHCP options: an instance answers to its
/// name in the first of them too.
#[must_use]
pub fn addresses(instance: &Instance, domains: &[String]) -> Vec<HostAddress> {
    let mut all: Vec<HostAddress> = Vec::new();
    let mut add = |one: HostAddress| {
        if !one.address.is_empty() && !all.contains(&one) {
            all.push(one);
        }
    };
    let mut interfaces = instance.interfaces.clone();
    interfaces.sort_by_key(|interface| interface.device_index);
    for interface in &interfaces {
        if let Some(name) = interface.private_dns.as_deref() {
            add(address("InternalDNS", name));
            let custom = domains.first().filter(|domain| !is_default_domain(domain) && !domain.is_empty());
            if let (Some(domain), Some((label, _))) = (custom, name.split_once('.')) {
                add(address("InternalDNS", format!("{label}.{domain}")));
            }
        }
        if let Some(ip) = interface.private_ip {
            add(address("InternalIP", ip.to_string()));
        }
        if let Some(name) = interface.public_dns.as_deref() {
            add(address("ExternalDNS", name));
        }
        if let Some(ip) = interface.public_ip {
            add(address("ExternalIP", ip.to_string()));
        }
        for ip in interface.ipv6.iter().filter(|ip| !is_link_local(ip)) {
            add(address("InternalIP", ip.to_string()));
        }
    }
    all
}

/// Whether a domain is the one EC2 gives by itself.
fn is_default_domain(domain: &str) -> bool {
    domain == "ec2.internal" || domain.ends_with(".compute.internal")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn shown(instance: &Instance, domains: &[&str]) -> Vec<String> {
        let domains: Vec<String> = domains.iter().map(|d| (*d).to_owned()).collect();
        addresses(instance, &domains).iter().map(|a| format!("{}={}", a.type_, a.address)).collect()
    }

    #[test]
    fn addresses_come_in_order_by_interface() {
        let mut instance = sample::instance("i-0123456789abcdef0");
        let plain = ["InternalDNS=ip-10-0-0-1.ec2.internal", "InternalIP=10.0.0.1"];
        assert_eq!(shown(&instance, &["ec2.internal"]), plain);
        assert_eq!(shown(&instance, &["us-west-2.compute.internal"]), plain);
        let interface = &mut instance.interfaces[0];
        interface.public_dns = Some("ec2-1.amazonaws.com".to_owned());
        interface.public_ip = Some("203.0.113.1".parse().unwrap());
        interface.ipv6 = vec!["fe80::1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        assert_eq!(
            shown(&instance, &["corp.example", "other.example"]),
            [
                "InternalDNS=ip-10-0-0-1.ec2.internal",
                "InternalDNS=ip-10-0-0-1.corp.example",
                "InternalIP=10.0.0.1",
                "ExternalDNS=ec2-1.amazonaws.com",
                "ExternalIP=203.0.113.1",
                "InternalIP=2001:db8::1",
            ]
        );
    }

    #[test]
    fn the_first_interface_comes_first_and_nothing_comes_twice() {
        let mut instance = sample::instance("i-0123456789abcdef0");
        let mut second = instance.interfaces[0].clone();
        second.device_index = Some(1);
        second.private_ip = Some("10.0.0.2".parse().unwrap());
        instance.interfaces.insert(0, second);
        assert_eq!(
            shown(&instance, &[]),
            ["InternalDNS=ip-10-0-0-1.ec2.internal", "InternalIP=10.0.0.1", "InternalIP=10.0.0.2"]
        );
        instance.interfaces.clear();
        assert!(shown(&instance, &[]).is_empty());
    }
}
