//! What one account has in one region.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::super::catalogue::fnv;
use super::super::catalogue::regions::Region;
use super::buckets::Buckets;
use super::host::Host;
use super::instance::Instance;
use super::time::History;
use super::tokens::Tokens;
use crate::server::Rng;

/// Tags by key.
pub type Tags = BTreeMap<String, String>;

/// A network.
#[derive(Clone, Debug)]
pub struct Vpc {
    /// Id.
    pub id: String,
    /// Address range.
    pub cidr: String,
    /// The one used when none is named.
    pub is_default: bool,
    /// Its DHCP options.
    pub dhcp: String,
    /// Tags.
    pub tags: History<Tags>,
}

/// A part of a network in one zone.
#[derive(Clone, Debug)]
pub struct Subnet {
    /// Id.
    pub id: String,
    /// Network.
    pub vpc: String,
    /// Zone.
    pub zone: String,
    /// First two numbers and third number of its addresses, `10.0.16`.
    pub prefix: String,
    /// Gives instances an outside address.
    pub public: bool,
    /// The one used when none is named.
    pub is_default: bool,
    /// `available` or `pending`.
    pub state: String,
    /// Addresses that may be given out.
    pub addresses: u32,
    /// Tags.
    pub tags: History<Tags>,
}

/// A security group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Text.
    pub description: String,
    /// Network.
    pub vpc: String,
    /// Tags.
    pub tags: History<Tags>,
}

/// An image.
#[derive(Clone, Debug)]
pub struct Image {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Account it belongs to.
    pub owner: String,
    /// Architecture, `x86_64`.
    pub architecture: String,
    /// `available`, `pending`, `deregistered` …
    pub state: String,
    /// When it was made.
    pub created: Timestamp,
    /// Root device.
    pub root_device: String,
    /// GiB of its root snapshot.
    pub size: u32,
    /// `windows`, or nothing.
    pub platform: Option<String>,
    /// Licensed by Amazon or the Marketplace: not for dedicated hosts.
    pub licensed: bool,
    /// Tags.
    pub tags: History<Tags>,
}

/// A set of DHCP options.
#[derive(Clone, Debug)]
pub struct DhcpOptions {
    /// Id.
    pub id: String,
    /// Domain names, separated by blanks.
    pub domain: String,
    /// Tags.
    pub tags: History<Tags>,
}

/// Everything one account has in one region.
#[derive(Clone, Debug)]
pub struct Place {
    /// The account.
    pub account: String,
    /// The region.
    pub region: Region,
    /// Dedicated hosts, given back ones included.
    pub hosts: BTreeMap<String, Host>,
    /// Instances, terminated ones included.
    pub instances: BTreeMap<String, Instance>,
    /// Networks.
    pub vpcs: BTreeMap<String, Vpc>,
    /// Parts of networks.
    pub subnets: BTreeMap<String, Subnet>,
    /// Security groups.
    pub groups: BTreeMap<String, Group>,
    /// Images.
    pub images: BTreeMap<String, Image>,
    /// DHCP options.
    pub dhcp: BTreeMap<String, DhcpOptions>,
    /// Names of key pairs.
    pub keys: Vec<String>,
    /// Client tokens.
    pub tokens: Tokens,
    /// Request limits.
    pub buckets: Buckets,
}

/// The id of something that is there from the beginning, the same in every run.
#[must_use]
pub fn built_in(prefix: &str, parts: &[&str]) -> String {
    format!("{prefix}-0{:016x}", fnv(parts))
}

impl Place {
    /// A fresh account: a default network with a public and a private subnet in every zone, some groups and images.
    #[must_use]
    pub fn new(account: &str, region: Region, now: Timestamp) -> Self {
        // What is there from the beginning is visible to reads that lag, too.
        let tags = || History::new(Timestamp::MIN, Tags::new());
        let id = |prefix: &str, what: &str| built_in(prefix, &[account, region.name, what]);
        let vpc = id("vpc", "default");
        let mut place = Self {
            account: account.to_owned(),
            region,
            hosts: BTreeMap::new(),
            instances: BTreeMap::new(),
            vpcs: BTreeMap::new(),
            subnets: BTreeMap::new(),
            groups: BTreeMap::new(),
            images: BTreeMap::new(),
            dhcp: BTreeMap::new(),
            keys: vec!["default".to_owned()],
            tokens: Tokens::default(),
            buckets: Buckets::default(),
        };
        let domain = match region.name {
            "us-east-1" => "ec2.internal".to_owned(),
            name => format!("{name}.compute.internal"),
        };
        let dhcp = id("dopt", "default");
        place.dhcp.insert(dhcp.clone(), DhcpOptions { id: dhcp.clone(), domain, tags: tags() });
        place.vpcs.insert(
            vpc.clone(),
            Vpc { id: vpc.clone(), cidr: "10.0.0.0/16".to_owned(), is_default: true, dhcp, tags: tags() },
        );
        for (n, zone) in region.zones().enumerate() {
            for (public, base) in [(true, 0), (false, 128)] {
                let id = id("subnet", &format!("{zone}/{}", if public { "public" } else { "private" }));
                place.subnets.insert(
                    id.clone(),
                    Subnet {
                        id,
                        vpc: vpc.clone(),
                        zone: zone.clone(),
                        prefix: format!("10.0.{}", base + n),
                        public,
                        is_default: public,
                        state: "available".to_owned(),
                        addresses: 251,
                        tags: tags(),
                    },
                );
            }
        }
        for name in ["default", "node", "controlplane", "lb"] {
            let id = id("sg", name);
            let description = format!("{name} group");
            place
                .groups
                .insert(id.clone(), Group { id, name: name.to_owned(), description, vpc: vpc.clone(), tags: tags() });
        }
        for architecture in ["x86_64", "arm64", "x86_64_mac", "arm64_mac", "i386"] {
            let id = built_in("ami", &[region.name, architecture]);
            place.images.insert(
                id.clone(),
                Image {
                    id,
                    name: format!("berth/{architecture}-1.0"),
                    owner: account.to_owned(),
                    architecture: architecture.to_owned(),
                    state: "available".to_owned(),
                    created: now,
                    root_device: "/dev/xvda".to_owned(),
                    size: 8,
                    platform: None,
                    licensed: false,
                    tags: tags(),
                },
            );
        }
        place
    }

    /// An id nothing has yet.
    pub fn fresh_id(&self, prefix: &str, rng: &mut Rng) -> String {
        loop {
            let id = format!("{prefix}-0{:016x}", rng.next_u64());
            if !self.hosts.contains_key(&id) && !self.instances.contains_key(&id) {
                return id;
            }
        }
    }

    /// The subnet of a zone, public or private, that is there from the beginning.
    #[must_use]
    pub fn subnet_of(&self, zone: &str, public: bool) -> Option<&Subnet> {
        self.subnets.values().find(|subnet| subnet.zone == zone && subnet.public == public)
    }

    /// An image for an architecture.
    #[must_use]
    pub fn image_of(&self, architecture: &str) -> Option<&Image> {
        self.images.values().find(|image| image.architecture == architecture)
    }

    /// The tags of anything, by id, with the service's word for its kind; only things that exist.
    pub fn tags_of(&mut self, id: &str, now: Timestamp) -> Option<(&'static str, &mut History<Tags>)> {
        let prefix = id.split('-').next().unwrap_or_default();
        match prefix {
            "h" => self.hosts.get_mut(id).filter(|h| h.alive(now)).map(|h| ("dedicated-host", &mut h.tags)),
            "i" => self.instances.get_mut(id).filter(|i| !i.ended(now)).map(|i| ("instance", &mut i.tags)),
            "vpc" => self.vpcs.get_mut(id).map(|v| ("vpc", &mut v.tags)),
            "subnet" => self.subnets.get_mut(id).map(|s| ("subnet", &mut s.tags)),
            "sg" => self.groups.get_mut(id).map(|g| ("security-group", &mut g.tags)),
            "ami" => self.images.get_mut(id).map(|i| ("image", &mut i.tags)),
            "dopt" => self.dhcp.get_mut(id).map(|d| ("dhcp-options", &mut d.tags)),
            "vol" => self
                .instances
                .values_mut()
                .filter(|i| !i.ended(now))
                .flat_map(|i| i.volumes.iter_mut())
                .find(|v| v.id == id)
                .map(|v| ("volume", &mut v.tags)),
            "eni" => self
                .instances
                .values_mut()
                .filter(|i| !i.ended(now))
                .flat_map(|i| i.interfaces.iter_mut())
                .find(|n| n.id == id)
                .map(|n| ("network-interface", &mut n.tags)),
            _ => None,
        }
    }

    /// The ids of everything that can be tagged.
    #[must_use]
    pub fn taggable(&self) -> Vec<String> {
        let parts = |instance: &Instance| -> Vec<String> {
            let volumes = instance.volumes.iter().map(|v| v.id.clone());
            volumes.chain(instance.interfaces.iter().map(|n| n.id.clone())).collect()
        };
        self.hosts
            .keys()
            .chain(self.instances.keys())
            .chain(self.vpcs.keys())
            .chain(self.subnets.keys())
            .chain(self.groups.keys())
            .chain(self.images.keys())
            .chain(self.dhcp.keys())
            .cloned()
            .chain(self.instances.values().flat_map(parts))
            .collect()
    }
}
