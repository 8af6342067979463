//! What there is besides machines and jobs, and what the world begins with.
//!
//! | What | At the beginning |
//! |---|---|
//! | zones | `zone-1`, `zone-2`, and `zone-off`, which is disabled |
//! | domains | `ROOT`, `ROOT/tenant`, `ROOT/tenant/team` |
//! | accounts | `admin` of `ROOT` (root administrator), `tenant-admin` of `ROOT/tenant` (domain administrator), `user` of `ROOT/tenant/team`, `locked` of `ROOT/tenant` |
//! | networks | in each zone `shared` (all may use it) and `isolated`, of `admin` |
//! | templates | `kube-1.30`, `kube-1.31`, `kube-1.32` in each zone, `kube-1.33-loading`, which is not ready, and `private-1.31`, of `admin` |
//! | offerings | `Small Instance`, `Medium Instance`, `Large Instance`, `Custom Instance` |
//! | disks | `Small`, `Medium`, `Large`, `Custom` |

use serde_json::{Map, Value, json};

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Admin,
    /// Everything within a domain and those below it.
    DomainAdmin,
    /// What belongs to the own account.
    User,
}

impl Role {
    fn facts(self) -> (u8, &'static str, &'static str) {
        match self {
            Self::Admin => (1, "Admin", "Root Admin"),
            Self::DomainAdmin => (2, "DomainAdmin", "Domain Admin"),
            Self::User => (0, "User", "User"),
        }
    }
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Id.
    pub id: String,
    /// Whole path, `ROOT/a/b`.
    pub path: String,
    /// `Active` or `Inactive`.
    pub state: String,
}

impl Domain {
    /// The last part of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether another path is this one or below it.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        path.strip_prefix(&self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// An account with its only user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Id of the account.
    pub id: String,
    /// Id of the user.
    pub user_id: String,
    /// Name of both.
    pub name: String,
    /// Path of the domain.
    pub domain: String,
    /// What it may do.
    pub role: Role,
    /// `enabled`, `disabled` or `locked`.
    pub state: String,
    /// Public half of the user's key.
    pub api_key: String,
    /// Secret half of the user's key.
    pub secret_key: String,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Whether it takes new machines.
    pub enabled: bool,
}

/// A network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Id of the zone.
    pub zone: String,
    /// `Shared` or `Isolated`.
    pub kind: String,
    /// Name of the account it belongs to; anybody may use a shared one.
    pub account: String,
    /// Path of that account's domain.
    pub domain: String,
    /// The first three numbers of its addresses.
    pub prefix: String,
}

/// A template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Ids of the zones it is in.
    pub zones: Vec<String>,
    /// Whether it can be deployed.
    pub ready: bool,
    /// Whether anybody may deploy it.
    pub public: bool,
    /// Name of the account it belongs to.
    pub account: String,
    /// Path of that account's domain.
    pub domain: String,
    /// Fields that this one has otherwise, or besides.
    pub more: Map<String, Value>,
}

/// A compute offering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceOffering {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Processors, megahertz and MiB; none if the user chooses.
    pub size: Option<(u32, u32, u32)>,
    /// Fields that this one has otherwise, or besides.
    pub more: Map<String, Value>,
}

/// A disk offering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskOffering {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// GB; none if the user chooses.
    pub size: Option<u32>,
}

/// An affinity group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffinityGroup {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// `host anti-affinity` or `host affinity`.
    pub kind: String,
    /// Name of the account it belongs to.
    pub account: String,
    /// Path of that account's domain.
    pub domain: String,
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// How lists other than those of domains and accounts write a domain's path.
fn slashed(path: &str) -> String {
    let rest = path.strip_prefix("ROOT").unwrap_or(path);
    if rest.is_empty() { "/".to_owned() } else { format!("{rest}/") }
}

fn created() -> &'static str {
    "2026-01-01T00:00:00+0000"
}

/// Whose something is, as most answers have it.
pub(crate) fn owner(account: &str, domain: &Domain) -> Value {
    json!({"account": account, "domainid": domain.id, "domain": domain.name(), "domainpath": slashed(&domain.path)})
}

/// Two objects in one.
pub(crate) fn merged(first: Value, second: Value) -> Map<String, Value> {
    let mut whole = object(first);
    whole.extend(object(second));
    whole
}

impl Zone {
    pub(crate) fn json(&self) -> Map<String, Value> {
        object(json!({
            "id": self.id, "name": self.name, "networktype": "Advanced", "securitygroupsenabled": false,
            "allocationstate": if self.enabled { "Enabled" } else { "Disabled" }, "dhcpprovider": "VirtualRouter",
            "localstorageenabled": false, "dns1": "10.0.0.53", "internaldns1": "10.0.0.53", "type": "Core", "tags": [],
        }))
    }
}

impl Domain {
    pub(crate) fn json(&self, parent: Option<&Self>, has_child: bool) -> Map<String, Value> {
        let mut json = object(json!({
            "id": self.id, "name": self.name(), "level": self.path.matches('/').count(), "haschild": has_child,
            "path": self.path, "state": self.state, "created": created(), "vmlimit": "Unlimited", "vmtotal": 0,
            "vmavailable": "Unlimited", "cpulimit": "Unlimited", "cpuavailable": "Unlimited",
            "memorylimit": "Unlimited", "memoryavailable": "Unlimited", "secondarystoragetotal": 0.0,
        }));
        if let Some(parent) = parent {
            json.insert("parentdomainid".to_owned(), json!(parent.id));
            json.insert("parentdomainname".to_owned(), json!(parent.name()));
        }
        json
    }
}

impl Account {
    pub(crate) fn user(&self, domain: &Domain) -> Map<String, Value> {
        let (number, kind, name) = self.role.facts();
        object(json!({
            "id": self.user_id, "username": self.name, "firstname": "A", "lastname": "User", "email": "a@example.com",
            "created": created(), "state": self.state, "account": self.name, "accountid": self.id,
            "accounttype": number, "usersource": "native", "roletype": kind, "rolename": name,
            "domainid": domain.id, "domain": domain.name(), "apikey": self.api_key, "isdefault": false,
        }))
    }

    pub(crate) fn json(&self, domain: &Domain, machines: usize) -> Map<String, Value> {
        let (number, kind, name) = self.role.facts();
        object(json!({
            "id": self.id, "name": self.name, "accounttype": number, "roletype": kind, "rolename": name,
            "domainid": domain.id, "domain": domain.name(), "domainpath": domain.path, "state": self.state,
            "vmlimit": "Unlimited", "vmtotal": machines, "vmavailable": "Unlimited", "cpuavailable": "Unlimited",
            "memoryavailable": "Unlimited", "secondarystoragetotal": 0.0, "user": [self.user(domain)],
        }))
    }
}

impl Network {
    pub(crate) fn json(&self, zone: &str, domain: &Domain) -> Map<String, Value> {
        let acl = if self.kind == "Shared" { "Domain" } else { "Account" };
        merged(
            json!({
                "id": self.id, "name": self.name, "displaytext": self.name, "traffictype": "Guest", "type": self.kind,
                "broadcastdomaintype": "Vlan", "gateway": format!("{}.1", self.prefix), "netmask": "255.255.255.0",
                "cidr": format!("{}.0/24", self.prefix), "zoneid": self.zone, "zonename": zone, "issystem": false,
                "state": "Implemented", "acltype": acl, "service": [], "tags": [], "canusefordeploy": true,
            }),
            owner(&self.account, domain),
        )
    }
}

impl Template {
    pub(crate) fn json(&self, zone: &Zone, domain: &Domain) -> Map<String, Value> {
        let mut json = merged(
            json!({
                "id": self.id, "name": self.name, "displaytext": self.name, "ispublic": self.public,
                "created": created(), "isready": self.ready, "passwordenabled": false, "format": "QCOW2",
                "isfeatured": false, "crossZones": self.zones.len() > 1, "ostypename": "Ubuntu 22.04 LTS",
                "zoneid": zone.id, "zonename": zone.name, "size": 21_474_836_480_u64, "templatetype": "USER",
                "status": if self.ready { "Download Complete" } else { "17% Downloaded" }, "hypervisor": "KVM",
                "url": format!("http://images.example.com/{}.qcow2", self.name), "arch": "x86_64",
                "isdynamicallyscalable": false, "requireshvm": true, "tags": [], "details": {},
            }),
            owner(&self.account, domain),
        );
        json.extend(self.more.clone());
        json
    }
}

impl ServiceOffering {
    pub(crate) fn json(&self) -> Map<String, Value> {
        let mut json = object(json!({
            "id": self.id, "name": self.name, "displaytext": self.name, "state": "Active", "created": created(),
            "storagetype": "shared", "provisioningtype": "thin", "offerha": false, "limitcpuuse": false,
            "isvolatile": false, "issystem": false, "defaultuse": false, "iscustomized": self.size.is_none(),
            "rootdisksize": 0,
        }));
        if let Some((cpus, mhz, memory)) = self.size {
            json.extend(object(json!({"cpunumber": cpus, "cpuspeed": mhz, "memory": memory})));
        }
        json.extend(self.more.clone());
        json
    }
}

impl DiskOffering {
    pub(crate) fn json(&self) -> Map<String, Value> {
        object(json!({
            "id": self.id, "name": self.name, "displaytext": self.name, "state": "Active", "created": created(),
            "disksize": self.size.unwrap_or(0), "iscustomized": self.size.is_none(), "storagetype": "shared",
            "provisioningtype": "thin", "displayoffering": true,
        }))
    }
}

impl AffinityGroup {
    pub(crate) fn json(&self, domain: &Domain) -> Map<String, Value> {
        merged(json!({"id": self.id, "name": self.name, "type": self.kind}), owner(&self.account, domain))
    }
}
