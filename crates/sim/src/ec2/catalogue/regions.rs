//! Regions and their zones.

/// A region: name, letters of its zones, and whether an account has to opt in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Name, `eu-west-1`.
    pub name: &'static str,
    /// Letters of the zones.
    pub zones: &'static str,
    /// Not enabled for an account that does not ask for it.
    pub opt_in: bool,
}

const fn region(name: &'static str, zones: &'static str) -> Region {
    Region { name, zones, opt_in: false }
}

const fn asked(name: &'static str, zones: &'static str) -> Region {
    Region { name, zones, opt_in: true }
}

/// All regions of all partitions.
pub const REGIONS: &[Region] = &[
    asked("af-south-1", "abc"),
    asked("ap-east-1", "abc"),
    region("ap-northeast-1", "acd"),
    region("ap-northeast-2", "abcd"),
    region("ap-northeast-3", "abc"),
    region("ap-south-1", "abc"),
    asked("ap-south-2", "abc"),
    region("ap-southeast-1", "abc"),
    region("ap-southeast-2", "abc"),
    asked("ap-southeast-3", "abc"),
    asked("ap-southeast-4", "abc"),
    asked("ap-southeast-5", "abc"),
    asked("ap-southeast-7", "abc"),
    region("ca-central-1", "abd"),
    asked("ca-west-1", "abc"),
    region("eu-central-1", "abc"),
    asked("eu-central-2", "abc"),
    region("eu-north-1", "abc"),
    asked("eu-south-1", "abc"),
    asked("eu-south-2", "abc"),
    region("eu-west-1", "abc"),
    region("eu-west-2", "abc"),
    region("eu-west-3", "abc"),
    asked("il-central-1", "abc"),
    asked("me-central-1", "abc"),
    asked("me-south-1", "abc"),
    asked("mx-central-1", "abc"),
    region("sa-east-1", "abc"),
    region("us-east-1", "abcdef"),
    region("us-east-2", "abc"),
    region("us-west-1", "ab"),
    region("us-west-2", "abcd"),
    region("us-gov-east-1", "abc"),
    region("us-gov-west-1", "abc"),
    region("cn-north-1", "abd"),
    region("cn-northwest-1", "abc"),
];

impl Region {
    /// Looks a region up.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        REGIONS.iter().find(|region| region.name == name)
    }

    /// The partition it belongs to.
    #[must_use]
    pub fn partition(&self) -> &'static str {
        match self.name {
            name if name.starts_with("us-gov-") => "aws-us-gov",
            name if name.starts_with("cn-") => "aws-cn",
            _ => "aws",
        }
    }

    /// The names of its zones.
    pub fn zones(&self) -> impl Iterator<Item = String> + '_ {
        self.zones.chars().map(|letter| format!("{}{letter}", self.name))
    }

    /// The id of a zone (`use1-az1`), which means the same place for every account.
    #[must_use]
    pub fn zone_id(&self, zone: &str) -> Option<String> {
        let letter = zone.strip_prefix(self.name)?.chars().next()?;
        let at = self.zones.chars().position(|c| c == letter)?;
        Some(format!("{}-az{}", self.short(), at + 1))
    }

    /// The zone with this id.
    #[must_use]
    pub fn zone_of_id(&self, id: &str) -> Option<String> {
        self.zones().find(|zone| self.zone_id(zone).as_deref() == Some(id))
    }

    fn short(&self) -> String {
        let mut parts: Vec<&str> = self.name.split('-').collect();
        let number = parts.pop().unwrap_or_default();
        let direction = parts.pop().unwrap_or_default();
        let direction = match direction {
            "northeast" => "ne",
            "southeast" => "se",
            "northwest" => "nw",
            other => other.get(..1).unwrap_or_default(),
        };
        let country = match parts.as_slice() {
            ["us", "gov"] => "usg",
            [first, ..] => first,
            [] => "",
        };
        format!("{country}{direction}{number}")
    }

    /// The public name of its endpoint.
    #[must_use]
    pub fn endpoint(&self) -> String {
        let tail = if self.partition() == "aws-cn" { ".cn" } else { "" };
        format!("ec2.{}.amazonaws.com{tail}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_and_their_ids_go_both_ways() {
        for region in REGIONS {
            let zones: Vec<String> = region.zones().collect();
            assert!(zones.len() >= 2, "{}", region.name);
            for zone in zones {
                let id = region.zone_id(&zone).unwrap();
                assert_eq!(region.zone_of_id(&id), Some(zone));
            }
        }
        assert_eq!(Region::find("us-east-1").unwrap().zone_id("us-east-1b").as_deref(), Some("use1-az2"));
        assert_eq!(Region::find("ap-southeast-2").unwrap().zone_id("ap-southeast-2a").as_deref(), Some("apse2-az1"));
        assert_eq!(Region::find("us-gov-west-1").unwrap().zone_id("us-gov-west-1c").as_deref(), Some("usgw1-az3"));
        assert_eq!(Region::find("us-east-1").unwrap().zone_id("us-east-1z"), None);
        assert_eq!(Region::find("mars-1"), None);
    }
}
