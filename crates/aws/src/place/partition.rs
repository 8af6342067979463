//! The separate worlds of AWS, and where their services answer.

use api::names::Region;

use crate::errors::Service;

/// A separate world of AWS: own accounts, own names, own regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name in ARNs.
    pub id: &'static str,
    /// The start of its regions' names.
    prefixes: &'static [&'static str],
    /// How many words stand between that start and the number.
    words: usize,
    /// The domain of its services.
    suffix: &'static str,
    /// The domain of its services over IPv4 and IPv6.
    dual_suffix: &'static str,
    /// The region that answers for the whole partition.
    home: &'static str,
}

/// All partitions; the last one takes what no other does.
const PARTITIONS: &[Partition] = &[
    Partition {
        id: "aws-cn",
        prefixes: &["cn-"],
        words: 1,
        suffix: "amazonaws.com.cn",
        dual_suffix: "api.amazonwebservices.com.cn",
        home: "cn-northwest-1",
    },
    Partition {
        id: "aws-us-gov",
        prefixes: &["us-gov-"],
        words: 1,
        suffix: "amazonaws.com",
        dual_suffix: "api.aws",
        home: "us-gov-west-1",
    },
    Partition {
        id: "aws-eusc",
        prefixes: &["eusc-"],
        words: 2,
        suffix: "amazonaws.eu",
        dual_suffix: "api.amazonwebservices.eu",
        home: "eusc-de-east-1",
    },
    Partition {
        id: "aws-iso",
        prefixes: &["us-iso-"],
        words: 1,
        suffix: "c2s.ic.gov",
        dual_suffix: "api.aws.ic.gov",
        home: "us-iso-east-1",
    },
    Partition {
        id: "aws-iso-b",
        prefixes: &["us-isob-"],
        words: 1,
        suffix: "sc2s.sgov.gov",
        dual_suffix: "api.aws.scloud",
        home: "us-isob-east-1",
    },
    Partition {
        id: "aws-iso-e",
        prefixes: &["eu-isoe-"],
        words: 1,
        suffix: "cloud.adc-e.uk",
        dual_suffix: "api.cloud-aws.adc-e.uk",
        home: "eu-isoe-west-1",
    },
    Partition {
        id: "aws-iso-f",
        prefixes: &["us-isof-"],
        words: 1,
        suffix: "csp.hci.ic.gov",
        dual_suffix: "api.aws.hci.ic.gov",
        home: "us-isof-south-1",
    },
    COMMERCIAL,
];

const COMMERCIAL: Partition = Partition {
    id: "aws",
    prefixes: &["us-", "eu-", "ap-", "sa-", "ca-", "me-", "af-", "il-", "mx-"],
    words: 1,
    suffix: "amazonaws.com",
    dual_suffix: "api.aws",
    home: "us-east-1",
};

/// Which kind of endpoint is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant {
    /// With validated cryptography.
    pub fips: bool,
    /// Over IPv4 and IPv6.
    pub dual_stack: bool,
}

impl Partition {
    /// The partition of a region; `None` for a name of no known form, which only the service itself can judge. The forms
    /// are those by which AWS's own clients tell where a region answers, so that none that they reach is doubted.
    #[must_use]
    pub fn known(region: &Region) -> Option<Self> {
        Self::by_start(region)
            .filter(|(partition, rest)| rest.split('-').count() == partition.words + 1)
            .map(|(p, _)| p)
    }

    /// The partition of a region. A name of no known form belongs where its start does, else it counts as commercial.
    #[must_use]
    pub fn of(region: &Region) -> Self {
        Self::by_start(region).map_or(COMMERCIAL, |(partition, _)| partition)
    }

    /// The partition by the start of a name, and the rest of that.
    fn by_start(region: &Region) -> Option<(Self, &str)> {
        let name = region.as_str();
        let rest = |partition: &Self| partition.prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
        PARTITIONS.iter().find_map(|partition| Some((*partition, rest(partition)?)))
    }

    /// The region that answers for the whole partition, for instance what regions there are.
    #[must_use]
    pub fn home(&self) -> &'static str {
        self.home
    }

    /// The host name of a service.
    #[must_use]
    pub fn host(&self, service: Service, region: &Region, variant: Variant) -> String {
        let service = service.as_str();
        match (variant.fips, variant.dual_stack) {
            (false, false) => format!("{service}.{region}.{}", self.suffix),
            (false, true) => format!("{service}.{region}.{}", self.dual_suffix),
            // The usual endpoints of this partition are validated ones.
            (true, false) if self.id == "aws-us-gov" => format!("{service}.{region}.{}", self.suffix),
            (true, false) => format!("{service}-fips.{region}.{}", self.suffix),
            (true, true) => format!("{service}-fips.{region}.{}", self.dual_suffix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_region_belongs_to_its_partition_and_answers_at_its_host() {
        let plain = Variant::default();
        let fips = Variant { fips: true, dual_stack: false };
        let dual = Variant { fips: false, dual_stack: true };
        let both = Variant { fips: true, dual_stack: true };
        for (region, id, variant, host) in [
            ("us-east-1", "aws", plain, "ec2.us-east-1.amazonaws.com"),
            ("us-east-1", "aws", fips, "ec2-fips.us-east-1.amazonaws.com"),
            ("eu-central-1", "aws", dual, "ec2.eu-central-1.api.aws"),
            ("eu-central-1", "aws", both, "ec2-fips.eu-central-1.api.aws"),
            ("cn-north-1", "aws-cn", plain, "ec2.cn-north-1.amazonaws.com.cn"),
            ("cn-north-1", "aws-cn", dual, "ec2.cn-north-1.api.amazonwebservices.com.cn"),
            ("us-gov-east-1", "aws-us-gov", plain, "ec2.us-gov-east-1.amazonaws.com"),
            ("us-gov-east-1", "aws-us-gov", fips, "ec2.us-gov-east-1.amazonaws.com"),
            ("us-gov-east-1", "aws-us-gov", both, "ec2-fips.us-gov-east-1.api.aws"),
            ("us-iso-east-1", "aws-iso", plain, "ec2.us-iso-east-1.c2s.ic.gov"),
            ("us-isob-east-1", "aws-iso-b", plain, "ec2.us-isob-east-1.sc2s.sgov.gov"),
            ("eu-isoe-west-1", "aws-iso-e", plain, "ec2.eu-isoe-west-1.cloud.adc-e.uk"),
            ("us-isof-south-1", "aws-iso-f", plain, "ec2.us-isof-south-1.csp.hci.ic.gov"),
            ("eusc-de-east-1", "aws-eusc", plain, "ec2.eusc-de-east-1.amazonaws.eu"),
        ] {
            let region: Region = region.parse().unwrap();
            let partition = Partition::known(&region).unwrap();
            assert_eq!((partition.id, partition.host(Service::Ec2, &region, variant).as_str()), (id, host));
            assert_eq!(Partition::of(&region), partition);
            let home: Region = partition.home().parse().unwrap();
            assert_eq!(Partition::known(&home), Some(partition), "a home lies in its own partition");
        }
        let region: Region = "us-west-2".parse().unwrap();
        assert_eq!(
            Partition::of(&region).host(Service::Sts, &region, Variant::default()),
            "sts.us-west-2.amazonaws.com"
        );
    }

    #[test]
    fn a_region_of_no_known_form_is_nobodys_and_is_asked_about_where_its_start_says() {
        for (region, id) in [
            ("xx-moon-1", "aws"),
            ("us-north-west-1", "aws"),
            ("us-gov-north-west-1", "aws-us-gov"),
            ("cn-north-west-1", "aws-cn"),
            ("eusc-east-1", "aws-eusc"),
            ("us-iso-north-west-1", "aws-iso"),
        ] {
            let region: Region = region.parse().unwrap();
            assert_eq!(Partition::known(&region), None, "{region}");
            assert_eq!(Partition::of(&region).id, id, "{region}");
        }
    }

    #[test]
    fn a_region_that_is_newer_than_this_program_has_the_form_of_its_partition() {
        for (region, id) in [("ap-southeast-12", "aws"), ("us-gov-central-1", "aws-us-gov"), ("cn-south-2", "aws-cn")] {
            assert_eq!(Partition::known(&region.parse().unwrap()).unwrap().id, id, "{region}");
        }
    }
}
