//! Names Berth shares with the outside world, and identifiers that are parsed once, where they enter the program.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The API group of our own kinds.
pub const GROUP: &str = "berth.dev";
/// The version our own kinds are served at.
pub const VERSION: &str = "v1alpha1";
/// The name of the binary, chart and lease, and the prefix of every field manager.
pub const PRODUCT: &str = "berth";
/// The namespace Berth is installed into.
pub const SYSTEM_NAMESPACE: &str = "berth-system";
/// Prefix of labels, annotations, tags and finalizers about AWS dedicated hosts.
pub const HOSTS_PREFIX: &str = "hosts.berth.dev";
/// Prefix of labels and annotations about the capacity of scalable groups.
pub const CAPACITY_PREFIX: &str = "capacity.berth.dev";
/// Prefix of labels, annotations and finalizers about CloudStack clusters.
pub const CLUSTERS_PREFIX: &str = "clusters.berth.dev";

/// Label on every object we create: what it belongs to, with the value [`PRODUCT`].
pub const PART_OF_LABEL: &str = "app.kubernetes.io/part-of";
/// Label on every object we create: who keeps it, with a field manager as its value.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Label by which Cluster API objects name their Cluster.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Label by which a manager restricts the Cluster API objects it acts on.
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";
/// Annotation that pauses every controller acting on a Cluster API object; its value does not matter.
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";

/// The field manager, and thereby the identity, of a room's writes: `berth-<room>`.
pub fn field_manager(room: &str) -> String {
    format!("{PRODUCT}-{room}")
}

/// A text that is not what it should be, with the rule it breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?}: {rule}")]
pub struct NameError {
    what: &'static str,
    value: String,
    rule: &'static str,
}

impl NameError {
    /// Keeps the start of the text only, so that an error stays readable whatever was sent.
    fn new(what: &'static str, value: &str, rule: &'static str) -> Self {
        Self { what, value: value.chars().take(128).collect(), rule }
    }
}

/// A string newtype that can only be made by parsing.
macro_rules! name {
    ($(#[$doc:meta])* $ty:ident, $what:literal, $rule:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $ty(Box<str>);

        impl $ty {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $ty {
            type Err = NameError;

            fn from_str(s: &str) -> Result<Self, NameError> {
                let valid: fn(&str) -> bool = $valid;
                if valid(s) { Ok(Self(s.into())) } else { Err(NameError::new($what, s, $rule)) }
            }
        }

        string_traits!($ty);
    };
}

/// What every parsed string type can do besides being parsed.
macro_rules! string_traits {
    ($ty:ident) => {
        impl TryFrom<String> for $ty {
            type Error = NameError;

            fn try_from(s: String) -> Result<Self, NameError> {
                s.parse()
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl AsRef<str> for $ty {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl Serialize for $ty {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $ty {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

fn is_dns_label(s: &str) -> bool {
    (1..=63).contains(&s.len())
        && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !s.starts_with('-')
        && !s.ends_with('-')
}

fn is_dns_subdomain(s: &str) -> bool {
    s.len() <= 253 && s.split('.').all(is_dns_label)
}

/// EC2 ids are a prefix and 8 or 17 hexadecimal digits today; longer ones are allowed for.
fn is_ec2_id(s: &str, prefix: &str) -> bool {
    s.strip_prefix(prefix).is_some_and(|id| {
        (8..=32).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

/// The length of the region a text starts with: words up to and including the first number, as in `us-gov-west-1`.
///
/// Anything may follow the number: `a` in a zone, `-lax-1a` in a local zone.
fn region_len(s: &str) -> Option<usize> {
    let mut end = 0;
    for (words, part) in s.split('-').enumerate() {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            return (words >= 2).then_some(end + digits);
        }
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_lowercase()) {
            return None;
        }
        end += part.len() + 1;
    }
    None
}

name! {
    /// A DNS label: the form of namespace and claim kind names.
    DnsLabel, "name", "must be 1 to 63 lower case letters, digits or '-', starting and ending with a letter or digit", is_dns_label
}

name! {
    /// A DNS subdomain: the form of most object names.
    DnsSubdomain, "name",
    "must be at most 253 characters: labels of lower case letters, digits or '-', separated by '.'", is_dns_subdomain
}

name! {
    /// The uid of a Kubernetes object; opaque, though servers send a UUID.
    Uid, "uid", "must be 1 to 128 letters, digits, '-', '_', '.' or ':'", |s| {
        (1..=128).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
    }
}

name! {
    /// The uid of a claim, fit to be a client token, a tag value and a part of a machine name in other systems.
    ClaimUid, "claim uid", "must be 1 to 63 letters, digits or '-'", |s| {
        (1..=63).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    }
}

name! {
    /// An AWS region, such as `us-gov-west-1`.
    Region, "region", "must look like us-east-1", |s| s.len() <= 63 && region_len(s) == Some(s.len())
}

name! {
    /// The id of an EC2 dedicated host.
    HostId, "dedicated host id", "must be h- and 8 to 32 hexadecimal digits", |s| is_ec2_id(s, "h-")
}

name! {
    /// The id of an EC2 instance.
    InstanceId, "instance id", "must be i- and 8 to 32 hexadecimal digits", |s| is_ec2_id(s, "i-")
}

/// An AWS zone: `us-east-1a`, a local zone `us-west-2-lax-1a` or a wavelength zone `us-east-1-wl1-bos-wlz-1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AvailabilityZone {
    text: Box<str>,
    region: Region,
}

impl AvailabilityZone {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The region the zone lies in.
    pub fn region(&self) -> &Region {
        &self.region
    }
}

impl FromStr for AvailabilityZone {
    type Err = NameError;

    fn from_str(s: &str) -> Result<Self, NameError> {
        let bad = || NameError::new("availability zone", s, "must be a region and a zone in it, like us-east-1a");
        let (region, zone) = region_len(s).and_then(|n| s.split_at_checked(n)).ok_or_else(bad)?;
        let valid = match zone.strip_prefix('-') {
            Some(group) => group
                .split('-')
                .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())),
            None => zone.len() == 1 && zone.bytes().all(|b| b.is_ascii_lowercase()),
        };
        if !valid || s.len() > 63 {
            return Err(bad());
        }
        Ok(Self { text: s.into(), region: region.parse().map_err(|_| bad())? })
    }
}

string_traits!(AvailabilityZone);

/// The provider id of a machine; kept exactly as written, because Cluster API compares it with the node's as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(Box<str>);

/// What a provider id points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderTarget<'a> {
    /// `aws:///<zone>/<instance>`.
    Aws {
        /// The zone the instance runs in.
        zone: AvailabilityZone,
        /// The instance.
        instance: InstanceId,
    },
    /// `metal3://<namespace>/<claim or host>/<machine>`, or `metal3://<host uid>`.
    Metal3 {
        /// The parts of the path.
        parts: Vec<&'a str>,
    },
    /// `cloudstack:///<virtual machine>`.
    CloudStack {
        /// The id of the virtual machine.
        machine: &'a str,
    },
    /// Another provider, or a form this list does not know.
    Other,
}

impl ProviderId {
    /// The provider id of an EC2 instance.
    pub fn aws(zone: &AvailabilityZone, instance: &InstanceId) -> Self {
        Self(format!("aws:///{zone}/{instance}").into())
    }

    /// The provider id of a machine on a host claim.
    pub fn metal3(namespace: &DnsLabel, claim: &DnsSubdomain, machine: &DnsSubdomain) -> Self {
        Self(format!("metal3://{namespace}/{claim}/{machine}").into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before `://`.
    pub fn scheme(&self) -> &str {
        self.split().0
    }

    /// What the id points at.
    pub fn target(&self) -> ProviderTarget<'_> {
        let (scheme, rest) = self.split();
        let target = match scheme {
            "aws" => rest.strip_prefix('/').and_then(|r| r.split_once('/')).and_then(|(zone, instance)| {
                Some(ProviderTarget::Aws { zone: zone.parse().ok()?, instance: instance.parse().ok()? })
            }),
            "metal3" => {
                let parts: Vec<&str> = rest.split('/').collect();
                (parts.len() <= 3 && parts.iter().all(|p| !p.is_empty())).then_some(ProviderTarget::Metal3 { parts })
            }
            "cloudstack" => rest
                .strip_prefix('/')
                .filter(|m| !m.is_empty() && !m.contains('/'))
                .map(|machine| ProviderTarget::CloudStack { machine }),
            _ => None,
        };
        target.unwrap_or(ProviderTarget::Other)
    }

    fn split(&self) -> (&str, &str) {
        self.0.split_once("://").unwrap_or((&self.0, ""))
    }
}

impl FromStr for ProviderId {
    type Err = NameError;

    fn from_str(s: &str) -> Result<Self, NameError> {
        let valid = s.len() <= 512
            && s.bytes().all(|b| b.is_ascii_graphic())
            && s.split_once("://").is_some_and(|(scheme, rest)| {
                scheme.starts_with(|c: char| c.is_ascii_lowercase())
                    && scheme.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+.-".contains(&b))
                    && rest.bytes().any(|b| b != b'/')
            });
        if valid {
            Ok(Self(s.into()))
        } else {
            Err(NameError::new("provider id", s, "must be scheme://…/id, at most 512 visible ASCII characters"))
        }
    }
}

string_traits!(ProviderId);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_accepted_and_refused_at_their_edges() {
        fn ok<T: FromStr>(texts: &[&str]) {
            for t in texts {
                assert!(t.parse::<T>().is_ok(), "{t} refused");
            }
        }
        fn no<T: FromStr<Err = NameError>>(texts: &[&str]) {
            for t in texts {
                let error = t.parse::<T>().err().unwrap_or_else(|| panic!("{t} accepted"));
                assert!(error.to_string().contains("must be") || error.to_string().contains("must look"), "{error}");
            }
        }
        let (l63, l64) = ("a".repeat(63), "a".repeat(64));
        ok::<DnsLabel>(&["a", "0", "a-b", &l63]);
        no::<DnsLabel>(&["", "-a", "a-", "A", "a.b", "ä", "a\n", "../a", &l64]);
        ok::<DnsSubdomain>(&["a", "a.b-c.d", &format!("{l63}.{l63}.{l63}.{}", "a".repeat(61))]);
        no::<DnsSubdomain>(&["", ".a", "a.", "a..b", &l64, &format!("{l63}.{l63}.{l63}.{}", "a".repeat(62))]);
        ok::<Region>(&["us-east-1", "us-gov-west-1", "eusc-de-east-1", "ap-southeast-12"]);
        no::<Region>(&["", "us", "us-1", "us-east", "us-east-1a", "US-EAST-1", "us--1", "us-east-1-", "us-east-1 "]);
        ok::<AvailabilityZone>(&["us-east-1a", "us-west-2-lax-1a", "us-east-1-wl1-bos-wlz-1"]);
        no::<AvailabilityZone>(&["", "us-east-1", "us-east-1aa", "us-east-1A", "us-east-1-", "us-east-1-a--b", "a"]);
        ok::<HostId>(&["h-0123456789abcdef0", "h-01234567"]);
        no::<HostId>(&["", "h-", "h-0123", "i-01234567", "h-0123456g", "H-01234567", "h-01234567/"]);
        ok::<InstanceId>(&["i-0123456789abcdef0", "i-01234567"]);
        no::<InstanceId>(&["", "h-01234567", "i-0123456789ABCDEF0"]);
        ok::<ClaimUid>(&["6f0c3c2e-0000-4000-8000-000000000001"]);
        no::<ClaimUid>(&["", "a b", "a/b", "ü", &l64]);
        ok::<Uid>(&["6f0c3c2e-0000-4000-8000-000000000001", "system:x_1.2"]);
        no::<Uid>(&["", "a b", "\u{0}", &"a".repeat(129)]);
        ok::<ProviderId>(&["aws:///us-east-1a/i-01234567", "kind://docker/c/n", "metal3://x", "cloudstack:///x"]);
        no::<ProviderId>(&["", "aws", "aws://", "aws:///", "://x", "Aws://x", "aws://a b", "aws://é", &l64]);
    }

    #[test]
    fn a_zone_knows_its_region() {
        for (zone, region) in [
            ("us-east-1a", "us-east-1"),
            ("us-west-2-lax-1a", "us-west-2"),
            ("us-east-1-wl1-bos-wlz-1", "us-east-1"),
            ("us-gov-west-1b", "us-gov-west-1"),
        ] {
            assert_eq!(zone.parse::<AvailabilityZone>().unwrap().region().as_str(), region);
        }
    }

    #[test]
    fn provider_ids_point_at_what_they_name() {
        let id = |s: &str| s.parse::<ProviderId>().unwrap();
        let (zone, instance) = ("us-east-1a".parse().unwrap(), "i-0123456789abcdef0".parse().unwrap());
        let aws = ProviderId::aws(&zone, &instance);
        assert_eq!(aws, id("aws:///us-east-1a/i-0123456789abcdef0"));
        assert_eq!(aws.target(), ProviderTarget::Aws { zone, instance });
        assert_eq!(aws.scheme(), "aws");
        let metal =
            ProviderId::metal3(&"ns".parse().unwrap(), &"claim-1".parse().unwrap(), &"machine-1".parse().unwrap());
        assert_eq!(metal.target(), ProviderTarget::Metal3 { parts: vec!["ns", "claim-1", "machine-1"] });
        assert_eq!(id("metal3://uid").target(), ProviderTarget::Metal3 { parts: vec!["uid"] });
        assert_eq!(id("cloudstack:///vm").target(), ProviderTarget::CloudStack { machine: "vm" });
        for other in ["aws:///us-east-1a/x", "aws://i-01234567", "metal3://a//b", "cloudstack:///a/b", "gce://p/z/n"] {
            assert_eq!(id(other).target(), ProviderTarget::Other, "{other}");
        }
    }

    #[test]
    fn an_error_names_the_thing_the_text_and_the_rule_and_stays_short() {
        let error = "x".repeat(10_000).parse::<HostId>().unwrap_err().to_string();
        assert!(error.starts_with("dedicated host id \"xxx") && error.contains("must be h-"), "{error}");
        assert!(error.len() < 300);
        assert_eq!(field_manager("vip"), "berth-vip");
    }

    fn round_trip<T>(text: &str) -> Result<(), TestCaseError>
    where
        T: FromStr<Err = NameError> + fmt::Display + PartialEq + fmt::Debug + Serialize + serde::de::DeserializeOwned,
    {
        let json = serde_json::to_string(text).unwrap();
        match text.parse::<T>() {
            Ok(value) => {
                prop_assert_eq!(value.to_string(), text);
                prop_assert_eq!(serde_json::to_string(&value).unwrap(), json.clone());
                prop_assert_eq!(serde_json::from_str::<T>(&json).unwrap(), value);
            }
            Err(_) => prop_assert!(serde_json::from_str::<T>(&json).is_err()),
        }
        Ok(())
    }

    fn all_types(text: &str) -> Result<(), TestCaseError> {
        round_trip::<DnsLabel>(text)?;
        round_trip::<DnsSubdomain>(text)?;
        round_trip::<Uid>(text)?;
        round_trip::<ClaimUid>(text)?;
        round_trip::<Region>(text)?;
        round_trip::<AvailabilityZone>(text)?;
        round_trip::<HostId>(text)?;
        round_trip::<InstanceId>(text)?;
        round_trip::<ProviderId>(text)?;
        if let Ok(id) = text.parse::<ProviderId>() {
            let _ = (id.target(), id.scheme().len());
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_losslessly_or_refused_without_panic(text in any::<String>()) {
            all_types(&text)?;
        }

        #[test]
        fn texts_close_to_valid_ones_are_parsed_losslessly_or_refused(
            text in "(h-|i-|aws:///|metal3://|cloudstack:///|)[a-f0-9/.-]{0,20}|[a-z]{2}-[a-z]{4}-[0-9](a|-[a-z]{3}-1a|)"
        ) {
            all_types(&text)?;
        }

        #[test]
        fn every_zone_and_instance_survive_a_provider_id(zone in "[a-z]{2}-[a-z]{4,9}-[1-9][a-f]", id in "i-[0-9a-f]{17}") {
            let (zone, instance): (AvailabilityZone, InstanceId) = (zone.parse().unwrap(), id.parse().unwrap());
            let text = ProviderId::aws(&zone, &instance).to_string();
            let parsed: ProviderId = text.parse().unwrap();
            prop_assert_eq!(parsed.target(), ProviderTarget::Aws { zone, instance });
        }
    }
}
