//! The parts of the world that can be chosen by name.

/// A real manager, or a simulator of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The Cluster API core manager.
    Capi,
    /// The in-cluster IPAM provider.
    Ipam,
    /// The simulator of the host controller, and some hosts.
    Hosts,
    /// The simulator of EC2.
    Ec2,
    /// The simulator of a CloudStack server.
    CloudStack,
}

/// A part that is started unless it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spared {
    /// The operator.
    Berth,
}

/// Reads one name of `--with`.
pub fn part(name: &str) -> Result<Part, String> {
    match name {
        "capi" => Ok(Part::Capi),
        "ipam" => Ok(Part::Ipam),
        "hosts" => Ok(Part::Hosts),
        "ec2" => Ok(Part::Ec2),
        "cloudstack" => Ok(Part::CloudStack),
        _ => Err("there is no such part; this build has: capi, ipam, hosts, ec2, cloudstack".into()),
    }
}

/// Reads one name of `--without`.
pub fn spared(name: &str) -> Result<Spared, String> {
    match name {
        "berth" => Ok(Spared::Berth),
        _ => Err("only `berth` can be left out; the other parts are started with --with".into()),
    }
}

/// The parts in the order they must start in; the IPAM provider cannot work without the core manager.
pub fn in_order(chosen: &[Part]) -> Vec<Part> {
    let ipam = chosen.contains(&Part::Ipam);
    let capi = ipam || chosen.contains(&Part::Capi);
    let managers = [(capi, Part::Capi), (ipam, Part::Ipam)];
    let simulators = [Part::Hosts, Part::Ec2, Part::CloudStack].map(|part| (chosen.contains(&part), part));
    managers.into_iter().chain(simulators).filter_map(|(wanted, part)| wanted.then_some(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parts_are_refused_with_the_list() {
        assert_eq!(part("cloudstack"), Ok(Part::CloudStack));
        let refusal = part("azure").unwrap_err();
        assert!(
            ["capi", "ipam", "ec2", "cloudstack", "hosts"].iter().all(|known| refusal.contains(known)),
            "{refusal}"
        );
        assert!(spared("capi").is_err());
    }

    #[test]
    fn the_address_provider_brings_the_manager_it_needs() {
        assert_eq!(in_order(&[Part::Ipam]), [Part::Capi, Part::Ipam]);
        assert_eq!(in_order(&[Part::Ipam, Part::Capi, Part::Capi]), [Part::Capi, Part::Ipam]);
        assert_eq!(in_order(&[Part::Capi]), [Part::Capi]);
        assert_eq!(in_order(&[Part::Ec2, Part::Hosts, Part::Ipam]), [Part::Capi, Part::Ipam, Part::Hosts, Part::Ec2]);
        assert!(in_order(&[]).is_empty());
    }
}
