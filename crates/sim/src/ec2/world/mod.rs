//! The simulated world as a state machine: a request and a moment in, an answer out. No sockets, no clock.

pub mod buckets;
pub mod engine;
pub mod faults;
pub mod filters;
pub mod host;
pub mod identity;
pub mod instance;
pub mod log;
pub mod oracle;
pub mod pages;
pub mod place;
pub mod settings;
pub mod tokens;

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::catalogue::regions::Region;
use super::catalogue::{self, InstanceType};
use crate::edge::Stage;
use crate::edge::log::Log;
use crate::server::Rng;
pub use crate::time;
use faults::{Fault, Script};
use identity::{Caller, Identities, Key};
use log::Entry;
use place::Place;
use settings::Settings;

/// Everything there is.
#[derive(Clone, Debug)]
pub struct World {
    /// How it behaves.
    pub settings: Settings,
    /// The catalogue of every region.
    pub types: Vec<InstanceType>,
    /// Who may sign requests.
    pub identities: Identities,
    /// What shall go wrong.
    pub script: Script,
    /// The requests that came.
    pub log: Log<Entry>,
    pub(crate) places: BTreeMap<(String, String), Place>,
    pub(crate) rng: Rng,
}

impl World {
    /// An empty world with one account, whose key is given.
    #[must_use]
    pub fn new(settings: Settings, account: &str, access_key: &str, secret: &str, seed: u64) -> Self {
        let mut world = Self {
            settings,
            types: catalogue::all(),
            identities: Identities::default(),
            script: Script::default(),
            log: Log::default(),
            places: BTreeMap::new(),
            rng: Rng::new(seed),
        };
        world.add_user(account, access_key, secret);
        world
    }

    /// Adds a user with a long-lived key.
    pub fn add_user(&mut self, account: &str, access_key: &str, secret: &str) {
        let caller = Caller {
            account: account.to_owned(),
            arn: format!("arn:aws:iam::{account}:user/berth"),
            user_id: format!("AIDA{:016X}", catalogue::fnv(&[account, access_key])),
        };
        let key = Key { secret: secret.to_owned(), session: None, caller, expires: None };
        self.identities.keys.insert(access_key.to_owned(), key);
    }

    /// What an account has in a region; `None` when there is no such region.
    pub fn place(&mut self, account: &str, region: &str, now: Timestamp) -> Option<&mut Place> {
        let region = Region::find(region)?;
        let key = (account.to_owned(), region.name.to_owned());
        Some(self.places.entry(key).or_insert_with(|| Place::new(account, *region, now)))
    }

    /// Looks an instance type up.
    #[must_use]
    pub fn find_type(&self, name: &str) -> Option<&InstanceType> {
        self.types.iter().find(|kind| kind.name == name)
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
