//! Which subnet, and thereby which zone, a machine goes to.

use api::names::hosts::ASSOCIATION_TAG;
use api::names::{AvailabilityZone, SubnetId};
use api::own::ResourceReference;
use aws::port::{Filter, Subnet};

use crate::facts::CloudFacts;
use crate::obstacle::{About, Obstacle};

/// Where a machine goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The subnet.
    pub subnet: SubnetId,
    /// Its zone.
    pub zone: AvailabilityZone,
}

/// What a machine asks of its place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Need<'a> {
    /// The failure domain of the Machine.
    pub failure_domain: Option<&'a str>,
    /// The zone its hosts are asked for in.
    pub host_zone: Option<&'a str>,
    /// Whether it gets a public address.
    pub public: bool,
}

impl<'a> Need<'a> {
    /// The zone it must be in.
    ///
    /// # Errors
    /// When two zones are asked for.
    pub fn zone(&self) -> Result<Option<&'a str>, Obstacle> {
        let named = |zone: Option<&'a str>| zone.filter(|zone| !zone.is_empty());
        match (named(self.failure_domain), named(self.host_zone)) {
            (Some(domain), Some(zone)) if domain != zone => Err(Obstacle::terminal(
                About::Host,
                format!(
                    "the failure domain of the Machine is {domain}, and spec.dynamicHostAllocation.availabilityZone is {zone}"
                ),
            )),
            (domain, zone) => Ok(domain.or(zone)),
        }
    }
}

/// The question for the subnets a machine names.
#[must_use]
pub fn question(reference: &ResourceReference) -> (Vec<SubnetId>, Vec<Filter>) {
    let mut filters = vec![Filter::new("state", ["pending", "available"])];
    let ids = reference.id.as_deref().and_then(|id| id.parse().ok()).into_iter().collect();
    filters.extend(reference.filters.iter().map(|filter| Filter::new(&filter.name, filter.values.iter().cloned())));
    (ids, filters)
}

/// The first fitting subnet of those EC2 found for a machine that names one, those of the cluster's network first.
///
/// # Errors
/// When none fits, with the reason for each.
pub fn among_described(found: &[Subnet], need: &Need<'_>, cloud: &CloudFacts) -> Result<Place, Obstacle> {
    let required = need.zone()?;
    let mut dropped: Vec<String> = Vec::new();
    let mut fitting: Vec<&Subnet> = Vec::new();
    for subnet in found {
        let zone = subnet.zone.as_ref().map(AvailabilityZone::as_str);
        let listed = cloud.subnets.iter().find(|known| known.id == subnet.id.as_str());
        let why = match (zone, required) {
            (None, _) => Some("EC2 names no zone of it".to_owned()),
            (Some(zone), Some(required)) if zone != required => Some(format!("it is in {zone}, not in {required}")),
            _ if need.public && !listed.is_some_and(|known| known.public) => {
                Some("the AWSCluster does not list it as public".to_owned())
            }
            _ if subnet.tags.get(ASSOCIATION_TAG).is_some_and(|value| value == "secondary") => {
                Some("it is tagged as secondary".to_owned())
            }
            _ => None,
        };
        match why {
            Some(why) => dropped.push(format!("{}: {why}", subnet.id)),
            None => fitting.push(subnet),
        }
    }
    let own = |subnet: &&&Subnet| subnet.vpc.as_ref().map(|vpc| vpc.as_str()) == cloud.vpc.as_deref();
    let chosen = fitting.iter().find(own).or(fitting.first());
    let place = chosen.and_then(|s| Some(Place { subnet: s.id.clone(), zone: s.zone.clone()? }));
    place.ok_or_else(|| {
        let why = if dropped.is_empty() { "EC2 finds none".to_owned() } else { dropped.join("; ") };
        Obstacle::dependency(About::Instance, format!("no subnet fits spec.subnet: {why}"))
    })
}

/// The first fitting subnet of those the cluster lists.
///
/// # Errors
/// When none fits.
pub fn among_listed(need: &Need<'_>, cloud: &CloudFacts) -> Result<Place, Obstacle> {
    let required = need.zone()?;
    let fits = |subnet: &&crate::facts::SubnetFacts| {
        !subnet.edge
            && !subnet.secondary
            && subnet.public == need.public
            && required.is_none_or(|zone| subnet.zone == zone)
    };
    let kind = if need.public { "public" } else { "private" };
    let place = required.map(|zone| format!(" in zone {zone}")).unwrap_or_default();
    let Some(found) = cloud.subnets.iter().find(fits) else {
        let listed = cloud.subnets.len();
        let message = format!("the AWSCluster lists no {kind} subnet{place} for machines (it lists {listed} subnets)");
        return Err(Obstacle::dependency(About::Instance, message));
    };
    let bad = |error: api::names::NameError| {
        Obstacle::dependency(About::Instance, format!("the AWSCluster lists a subnet that is none: {error}"))
    };
    Ok(Place { subnet: found.id.parse().map_err(bad)?, zone: found.zone.parse().map_err(bad)? })
}

#[cfg(test)]
mod tests {
    use api::own::ResourceFilter;

    use super::*;
    use crate::facts::SubnetFacts;

    fn subnet(id: &str, zone: &str, vpc: &str) -> Subnet {
        Subnet {
            id: id.parse().unwrap(),
            vpc: Some(vpc.parse().unwrap()),
            zone: Some(zone.parse().unwrap()),
            state: "available".to_owned(),
            free_addresses: None,
            public_by_default: false,
            tags: aws::port::Tags::new(),
        }
    }

    fn listed(id: &str, zone: &str, public: bool) -> SubnetFacts {
        SubnetFacts { id: id.to_owned(), zone: zone.to_owned(), public, ..SubnetFacts::default() }
    }

    const A: &str = "subnet-0000000a";
    const B: &str = "subnet-0000000b";
    const C: &str = "subnet-0000000c";
    const VPC: &str = "vpc-00000001";

    fn cloud() -> CloudFacts {
        let edge = SubnetFacts { edge: true, ..listed("subnet-000000ed", "us-west-2-lax-1a", false) };
        let secondary = SubnetFacts { secondary: true, ..listed("subnet-0000005e", "us-west-2a", false) };
        let subnets = vec![
            edge,
            secondary,
            listed(A, "us-west-2a", true),
            listed(B, "us-west-2b", false),
            listed(C, "us-west-2a", false),
        ];
        CloudFacts { vpc: Some(VPC.to_owned()), subnets, ..CloudFacts::default() }
    }

    #[test]
    fn listed_subnets_are_taken_in_order_by_zone_and_kind() {
        let choose = |domain: Option<&str>, zone: Option<&str>, public| {
            among_listed(&Need { failure_domain: domain, host_zone: zone, public }, &cloud())
                .map(|p| p.subnet.to_string())
        };
        assert_eq!(choose(None, None, false).unwrap(), B, "the first private one that is for machines");
        assert_eq!(choose(None, None, true).unwrap(), A);
        assert_eq!(choose(Some("us-west-2a"), None, false).unwrap(), C);
        assert_eq!(choose(None, Some("us-west-2a"), false).unwrap(), C);
        assert_eq!(choose(Some("us-west-2a"), Some("us-west-2a"), true).unwrap(), A);
        let none = choose(Some("us-west-2c"), None, false).unwrap_err();
        assert!(none.message.contains("private subnet in zone us-west-2c"), "{none:?}");
        assert!(choose(Some("us-west-2-lax-1a"), None, false).is_err(), "never an edge zone");
        let two = choose(Some("us-west-2a"), Some("us-west-2b"), false).unwrap_err();
        assert_eq!(two.class, crate::classes::Class::Terminal);
    }

    #[test]
    fn named_subnets_are_judged_and_the_reasons_told() {
        let found =
            [subnet(C, "us-west-2a", "vpc-000000ff"), subnet(A, "us-west-2a", VPC), subnet(B, "us-west-2b", VPC)];
        let choose = |found: &[Subnet], need: Need<'_>| among_described(found, &need, &cloud());
        assert_eq!(choose(&found, Need::default()).unwrap().subnet.as_str(), A, "the cluster's network first");
        assert_eq!(choose(&found[..1], Need::default()).unwrap().subnet.as_str(), C, "any network else");
        let public = Need { public: true, ..Need::default() };
        assert_eq!(choose(&found, public).unwrap().subnet.as_str(), A);
        let error = choose(&found[2..], Need { public: true, host_zone: Some("us-west-2b"), ..public }).unwrap_err();
        assert!(error.message.contains("not list it as public"), "{error:?}");
        let error = choose(&found, Need { failure_domain: Some("us-west-2d"), ..Need::default() }).unwrap_err();
        assert!(error.message.contains(A) && error.message.contains("not in us-west-2d"), "{error:?}");
        let mut secondary = subnet(B, "us-west-2b", VPC);
        secondary.tags.insert(ASSOCIATION_TAG.to_owned(), "secondary".to_owned());
        assert!(choose(&[secondary], Need::default()).unwrap_err().message.contains("secondary"));
        assert!(choose(&[], Need::default()).unwrap_err().message.contains("EC2 finds none"));
        let place = choose(&found[2..], Need::default()).unwrap();
        assert_eq!(place.zone.as_str(), "us-west-2b", "the zone is that of the subnet");
    }

    #[test]
    fn the_question_carries_id_state_and_filters() {
        let filters = vec![ResourceFilter { name: "tag:tier".to_owned(), values: vec!["x".to_owned()] }];
        let (ids, asked) = question(&ResourceReference { id: None, filters });
        assert!(ids.is_empty());
        assert_eq!(asked, [Filter::new("state", ["pending", "available"]), Filter::new("tag:tier", ["x"])]);
        assert_eq!(question(&ResourceReference { id: Some(A.to_owned()), filters: vec![] }).0.len(), 1);
    }
}
