//! The simulated world as a state machine: a request and a moment in, an answer out. No sockets, no clock.

pub mod engine;
pub mod faults;
pub mod log;
pub mod machine;
pub mod oracle;
pub mod settings;
pub mod things;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::edge::Stage;
use crate::edge::log::Log;
use crate::server::Rng;
use faults::{Fault, Script};
use log::Entry;
use machine::{Job, Machine};
use settings::Settings;
use things::{Account, AffinityGroup, DiskOffering, Domain, Network, Role, ServiceOffering, Template, Zone};

/// Everything there is.
#[derive(Clone, Debug)]
pub struct World {
    /// How it behaves.
    pub settings: Settings,
    /// What shall go wrong.
    pub script: Script,
    /// The requests that came.
    pub log: Log<Entry>,
    /// Domains, the root first.
    pub domains: Vec<Domain>,
    /// Accounts, the root administrator first.
    pub accounts: Vec<Account>,
    /// Zones.
    pub zones: Vec<Zone>,
    /// Networks.
    pub networks: Vec<Network>,
    /// Templates.
    pub templates: Vec<Template>,
    /// Compute offerings.
    pub offerings: Vec<ServiceOffering>,
    /// Disk offerings.
    pub disks: Vec<DiskOffering>,
    /// Affinity groups.
    pub groups: Vec<AffinityGroup>,
    /// Machines by id, gone ones included.
    pub machines: BTreeMap<String, Machine>,
    /// Jobs by id.
    pub jobs: BTreeMap<String, Job>,
    pub(crate) serial: u64,
    pub(crate) rng: Rng,
    pub(crate) windows: BTreeMap<String, (Timestamp, u32)>,
}

impl World {
    /// The world as it begins.
    #[must_use]
    pub fn new(settings: Settings, api_key: &str, secret_key: &str, seed: u64) -> Self {
        let mut world = Self {
            settings,
            script: Script::default(),
            log: Log::default(),
            domains: Vec::new(),
            accounts: Vec::new(),
            zones: Vec::new(),
            networks: Vec::new(),
            templates: Vec::new(),
            offerings: Vec::new(),
            disks: Vec::new(),
            groups: Vec::new(),
            machines: BTreeMap::new(),
            jobs: BTreeMap::new(),
            serial: 2,
            rng: Rng::new(seed),
            windows: BTreeMap::new(),
        };
        for path in ["ROOT", "ROOT/tenant", "ROOT/tenant/team"] {
            world.add_domain(path);
        }
        world.add_account("admin", "ROOT", Role::Admin, api_key, secret_key);
        world.add_account("tenant-admin", "ROOT/tenant", Role::DomainAdmin, "tenant-admin-key", "tenant-admin-secret");
        world.add_account("user", "ROOT/tenant/team", Role::User, "user-key", "user-secret");
        world.add_account("locked", "ROOT/tenant", Role::User, "locked-key", "locked-secret");
        if let Some(locked) = world.accounts.last_mut() {
            locked.state = "locked".to_owned();
        }
        for (name, enabled) in [("zone-1", true), ("zone-2", true), ("zone-off", false)] {
            world.add_zone(name, enabled);
        }
        for zone in ["zone-1", "zone-2", "zone-off"] {
            world.add_network("shared", zone, "Shared", "admin");
            world.add_network("isolated", zone, "Isolated", "admin");
        }
        for (name, ready, public) in [
            ("kube-1.30", true, true),
            ("kube-1.31", true, true),
            ("kube-1.32", true, true),
            ("kube-1.33-loading", false, true),
            ("private-1.31", true, false),
        ] {
            world.add_template(name, ready, public);
        }
        for (name, size) in [
            ("Small Instance", Some((1, 500, 512))),
            ("Medium Instance", Some((2, 1000, 4096))),
            ("Large Instance", Some((4, 2000, 16_384))),
            ("Custom Instance", None),
        ] {
            let offering = ServiceOffering { id: world.rng.uid(), name: name.to_owned(), size, more: Map::new() };
            world.offerings.push(offering);
        }
        for (name, size) in [("Small", Some(5)), ("Medium", Some(20)), ("Large", Some(100)), ("Custom", None)] {
            let disk = DiskOffering { id: world.rng.uid(), name: name.to_owned(), size };
            world.disks.push(disk);
        }
        world
    }

    /// Adds a domain; gives its id.
    pub fn add_domain(&mut self, path: &str) -> String {
        let id = self.rng.uid();
        self.domains.push(Domain { id: id.clone(), path: path.to_owned(), state: "Active".to_owned() });
        id
    }

    /// Adds an account with a user and its key; gives the account's id.
    pub fn add_account(&mut self, name: &str, domain: &str, role: Role, api_key: &str, secret_key: &str) -> String {
        let (id, user_id) = (self.rng.uid(), self.rng.uid());
        self.accounts.push(Account {
            id: id.clone(),
            user_id,
            name: name.to_owned(),
            domain: domain.to_owned(),
            role,
            state: "enabled".to_owned(),
            api_key: api_key.to_owned(),
            secret_key: secret_key.to_owned(),
        });
        id
    }

    /// Adds a zone; gives its id.
    pub fn add_zone(&mut self, name: &str, enabled: bool) -> String {
        let id = self.rng.uid();
        self.zones.push(Zone { id: id.clone(), name: name.to_owned(), enabled });
        id
    }

    /// Adds a network of an account in a zone, both by name; gives its id, or nothing if there is no such zone or
    /// account.
    pub fn add_network(&mut self, name: &str, zone: &str, kind: &str, account: &str) -> Option<String> {
        let zone = self.zones.iter().find(|one| one.name == zone)?.id.clone();
        let owner = self.accounts.iter().find(|one| one.name == account)?;
        let (account, domain) = (owner.name.clone(), owner.domain.clone());
        let (id, at) = (self.rng.uid(), self.networks.len());
        self.networks.push(Network {
            id: id.clone(),
            name: name.to_owned(),
            zone,
            kind: kind.to_owned(),
            account,
            domain,
            prefix: format!("10.{}.{}", 1 + at / 256, at % 256),
        });
        Some(id)
    }

    /// Adds a compute offering with fields of its own; gives its id.
    pub fn add_offering(&mut self, name: &str, size: Option<(u32, u32, u32)>, more: Value) -> String {
        let id = self.rng.uid();
        let more = things::object(more);
        self.offerings.push(ServiceOffering { id: id.clone(), name: name.to_owned(), size, more });
        id
    }

    /// Adds a template of the root administrator, in all zones there are; gives its id.
    pub fn add_template(&mut self, name: &str, ready: bool, public: bool) -> String {
        let id = self.rng.uid();
        self.templates.push(Template {
            id: id.clone(),
            name: name.to_owned(),
            zones: self.zones.iter().map(|zone| zone.id.clone()).collect(),
            ready,
            public,
            account: "admin".to_owned(),
            domain: "ROOT".to_owned(),
            more: Map::new(),
        });
        id
    }

    /// A domain by its path.
    #[must_use]
    pub fn domain(&self, path: &str) -> Option<&Domain> {
        self.domains.iter().find(|domain| domain.path == path)
    }
}

impl Stage for World {
    type Settings = Settings;
    type Fault = Fault;
    type Entry = Entry;

    fn settings(&mut self) -> &mut Settings {
        &mut self.settings
    }

    fn add_fault(&mut self, fault: Fault) {
        self.script.add(fault);
    }

    fn clear_script(&mut self) {
        self.script.clear();
    }

    fn log(&mut self) -> &mut Log<Entry> {
        &mut self.log
    }
}
