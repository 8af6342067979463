//! Names Berth shares with the outside world, and identifiers that are parsed once, where they enter the program.

pub mod claims;
pub mod clusters;
pub mod hosts;
pub mod machines;

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

/// Prefix of annotations about Metal3 machines and clusters.
pub const MACHINES_PREFIX: &str = "machines.berth.dev";

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
    ($(#[$doc:meta])* $ty:ident, $what:literal, $rule:expr, $valid:expr) => {
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

fn is_family(s: &str) -> bool {
    (2..=20).contains(&s.len())
        && s.starts_with(|c: char| c.is_ascii_lowercase())
        && s.bytes().any(|b| b.is_ascii_digit())
        && s.split('-').all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()))
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

/// Ids of EC2: each is told from the others by its prefix alone.
macro_rules! ec2_ids {
    ($($(#[$doc:meta])* $ty:ident, $what:literal, $prefix:literal;)*) => {$(
        name! {
            $(#[$doc])*
            $ty, $what, concat!("must be ", $prefix, " and 8 to 32 hexadecimal digits"), |s| is_ec2_id(s, $prefix)
        }
    )*};
}

ec2_ids! {
    /// The id of an EC2 dedicated host.
    HostId, "dedicated host id", "h-";
    /// The id of an EC2 instance.
    InstanceId, "instance id", "i-";
    /// The id of a subnet.
    SubnetId, "subnet id", "subnet-";
    /// The id of a virtual private cloud.
    VpcId, "VPC id", "vpc-";
    /// The id of a security group.
    SecurityGroupId, "security group id", "sg-";
    /// The id of a machine image.
    ImageId, "image id", "ami-";
    /// The id of an EBS volume.
    VolumeId, "volume id", "vol-";
    /// The id of a network interface.
    NetworkInterfaceId, "network interface id", "eni-";
}

name! {
    /// The name of an EC2 instance family: `m5`, `u7i-12tb`, `mac2-m2pro`.
    InstanceFamily, "instance family",
    "must be 2 to 20 lower case letters, digits or '-' with a digit among them, starting with a letter, no '-' at the end or doubled",
    is_family
}

/// The name of an EC2 instance type, `m5.4xlarge`; any family and size, because new ones appear all the time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceType {
    text: Box<str>,
    family: InstanceFamily,
}

impl InstanceType {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The family, the part before the dot.
    pub fn family(&self) -> &InstanceFamily {
        &self.family
    }
}

impl FromStr for InstanceType {
    type Err = NameError;

    fn from_str(s: &str) -> Result<Self, NameError> {
        let bad = || NameError::new("instance type", s, "must be a family and a size, like m5.4xlarge");
        let (family, size) = s.split_once('.').ok_or_else(bad)?;
        let valid = (1..=40).contains(&size.len())
            && size.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !valid {
            return Err(bad());
        }
        Ok(Self { text: s.into(), family: family.parse().map_err(|_| bad())? })
    }
}

string_traits!(InstanceType);

name! {
    /// What makes a repeated EC2 request the same request.
    ClientToken, "client token", "must be 1 to 64 visible ASCII characters", |s| {
        (1..=64).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_graphic())
    }
}

name! {
    /// The number of an AWS account.
    AccountId, "account id", "must be 12 digits", |s| s.len() == 12 && s.bytes().all(|b| b.is_ascii_digit())
}

/// The name of an IAM role that can be assumed: `arn:aws:iam::123456789012:role/path/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleArn {
    text: Box<str>,
    account: AccountId,
}

impl RoleArn {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The account the role belongs to.
    pub fn account(&self) -> &AccountId {
        &self.account
    }
}

impl FromStr for RoleArn {
    type Err = NameError;

    fn from_str(s: &str) -> Result<Self, NameError> {
        let bad = || NameError::new("role ARN", s, "must look like arn:aws:iam::123456789012:role/name");
        let mut parts = s.splitn(6, ':');
        let fields = [parts.next(), parts.next(), parts.next(), parts.next(), parts.next(), parts.next()];
        let [Some("arn"), Some(partition), Some("iam"), Some(""), Some(account), Some(role)] = fields else {
            return Err(bad());
        };
        let valid = partition.starts_with("aws")
            && partition.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
            && role.strip_prefix("role/").is_some_and(|name| !name.is_empty() && !name.ends_with('/'))
            && role.bytes().all(|b| b.is_ascii_alphanumeric() || b"/+=,.@_-".contains(&b))
            && s.len() <= 2048;
        if !valid {
            return Err(bad());
        }
        Ok(Self { text: s.into(), account: account.parse().map_err(|_| bad())? })
    }
}

string_traits!(RoleArn);

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
mod tests;
