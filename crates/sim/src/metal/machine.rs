//! The machine behind a host: power, and a disk that remembers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::host::{Consumer, Host, Image, Status};

/// What lies on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// The image.
    pub image: Option<Image>,
    /// Or the way it was deployed.
    pub custom_deploy: Option<String>,
    /// User data as the machine got it.
    pub user_data: Option<String>,
    /// Network data as the machine got it.
    pub network_data: Option<String>,
    /// Meta data as the machine got it.
    pub meta_data: Option<String>,
    /// Who used the host when it was written.
    pub owner: Option<Consumer>,
}

impl Disk {
    /// Whether a text lies on it anywhere.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        let image = self.image.as_ref().map(|image| &image.url);
        [
            image,
            self.custom_deploy.as_ref(),
            self.user_data.as_ref(),
            self.network_data.as_ref(),
            self.meta_data.as_ref(),
        ]
        .into_iter()
        .flatten()
        .any(|there| there.contains(text))
    }
}

/// A machine. It outlives its host object, as real ones do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Whether it runs.
    pub power: bool,
    /// How often it was switched on.
    pub power_ons: u32,
    /// How often it was switched off.
    pub power_offs: u32,
    /// What lies on its disk; `None` when it is clean.
    pub disk: Option<Disk>,
    /// How often its host's status was written for nothing but a new time in it.
    pub rewrites: u64,
    /// The host object it belongs to.
    pub(super) uid: String,
    /// When the present state, or the last failure in it, began.
    pub(super) since: Timestamp,
    /// When the switch was pressed, until power has changed.
    pub(super) pressed: Option<Timestamp>,
    /// When the status was last written for its own sake.
    pub(super) beat: Option<Timestamp>,
    /// Failures so far, by state.
    pub(super) failed: BTreeMap<String, u32>,
    /// Whether the present deployment has written the disk.
    pub(super) written: bool,
    /// Whether the present deployment has failed and must be undone.
    pub(super) spoilt: bool,
    /// Whether the present deprovisioning wipes the disk.
    pub(super) wipes: bool,
}

impl Machine {
    /// The machine of a host that nobody has met before; what its status says is believed, or the status it brings from
    /// another cluster.
    #[must_use]
    pub fn found(host: &Host, now: Timestamp) -> Self {
        let brought = || serde_json::from_str(host.note(super::STATUS)?).ok();
        let status: Status = host.status.clone().or_else(brought).unwrap_or_default();
        let provisioning = status.provisioning;
        let custom_deploy = provisioning.custom_deploy.map(|deploy| deploy.method);
        let image = Some(provisioning.image).filter(|image| !image.url.is_empty());
        let disk = (image.is_some() || custom_deploy.is_some()).then(|| Disk {
            image,
            custom_deploy,
            owner: host.spec.consumer_ref.clone(),
            ..Disk::default()
        });
        Self {
            power: status.powered_on,
            disk,
            uid: host.metadata.uid.clone().unwrap_or_default(),
            since: now,
            wipes: super::state::wipes(host),
            ..Self::default()
        }
    }
}

/// Something happened to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskChange {
    /// The revision of the host that shows it first, or that it was made for.
    pub revision: u64,
    /// Namespace of the host.
    pub namespace: String,
    /// Name of the host.
    pub name: String,
    /// What lies on it from then on; `None` for nothing.
    pub disk: Option<Disk>,
}

/// Namespace and name of a host.
pub(super) type Key = (String, String);

#[derive(Debug, Default)]
struct Inner {
    machines: BTreeMap<Key, Machine>,
    changes: Vec<DiskChange>,
    /// The last script of each host that could not be read.
    bad: BTreeMap<Key, String>,
}

/// All machines of a simulator.
#[derive(Debug, Default)]
pub struct Machines(Mutex<Inner>);

impl Machines {
    /// The machine of a host.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Machine> {
        self.lock().machines.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// What lies on the disk of a host.
    #[must_use]
    pub fn disk(&self, namespace: &str, name: &str) -> Option<Disk> {
        self.get(namespace, name)?.disk
    }

    /// How often the status of each host of a namespace was written for nothing but a new time in it. Those who compare
    /// versions by what they say, as a record does, see none of these writes.
    #[must_use]
    pub fn rewrites(&self, namespace: &str) -> BTreeMap<String, u64> {
        let inner = self.lock();
        let here = inner.machines.iter().filter(|((space, _), _)| space == namespace);
        here.map(|((_, name), machine)| (name.clone(), machine.rewrites)).collect()
    }

    /// Everything that happened to disks, in order.
    #[must_use]
    pub fn changes(&self) -> Vec<DiskChange> {
        self.lock().changes.clone()
    }

    /// What happened to disks after the first `seen` changes.
    #[must_use]
    pub fn changes_after(&self, seen: usize) -> Vec<DiskChange> {
        self.lock().changes.get(seen..).unwrap_or_default().to_vec()
    }

    /// The machine of a host; an object made anew finds the old machine with its disk.
    pub(super) fn of(&self, key: &Key, host: &Host, now: Timestamp) -> Machine {
        let mut inner = self.lock();
        let found = Machine::found(host, now);
        let Some(known) = inner.machines.get_mut(key) else {
            inner.machines.insert(key.clone(), found.clone());
            return found;
        };
        if known.uid != found.uid {
            let (power, disk) = (known.power, known.disk.take());
            let (power_ons, power_offs, rewrites) = (known.power_ons, known.power_offs, known.rewrites);
            *known = Machine { power, disk, power_ons, power_offs, rewrites, ..found };
        }
        known.clone()
    }

    /// The machine has become this, on account of a host that was read at `revision`.
    pub(super) fn set(&self, key: &Key, machine: Machine, revision: u64) {
        let mut inner = self.lock();
        let before = inner.machines.get(key).and_then(|machine| machine.disk.clone());
        if before != machine.disk {
            let (namespace, name) = key.clone();
            inner.changes.push(DiskChange { revision, namespace, name, disk: machine.disk.clone() });
        }
        inner.machines.insert(key.clone(), machine);
    }

    /// Whether a script that cannot be read is a new one.
    pub(super) fn complain(&self, key: &Key, script: &str) -> bool {
        self.lock().bad.insert(key.clone(), script.to_owned()).as_deref() != Some(script)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
