//! What a test holds: it reads and changes the world behind the server's back, by the means of [`Held`] and more.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::process::Command;
use std::time::Duration;

use super::world::World;
use super::world::host::HostState;
use super::world::identity::Role;
use super::world::instance::InstanceState;
use super::world::oracle::{HostFacts, InstanceFacts};
use crate::edge::Held;

/// A running simulator. Cheap to clone; the server stops when the last one is gone.
#[derive(Clone, Debug)]
pub struct Handle {
    /// Where it listens, `http://127.0.0.1:1234`.
    pub endpoint: String,
    /// The first account.
    pub account: String,
    /// Id of the first account's key.
    pub access_key: String,
    /// Secret half of that key.
    pub secret: String,
    pub(super) held: Held<World>,
}

impl Deref for Handle {
    type Target = Held<World>;

    fn deref(&self) -> &Held<World> {
        &self.held
    }
}

impl Handle {
    /// Gives a command of Berth the way here and the first account, and nothing else that this machine may know about AWS.
    pub fn lend(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
            command.env_remove(name);
        }
        for service in ["ec2", "sts"] {
            command.args(["--aws-endpoint", &format!("{service}={}", self.endpoint)]);
        }
        command.env("HOME", "/nonexistent").env("AWS_EC2_METADATA_DISABLED", "true");
        command.env("AWS_ACCESS_KEY_ID", &self.access_key).env("AWS_SECRET_ACCESS_KEY", &self.secret);
    }

    /// No capacity any more for an operation (`AllocateHosts` or `RunInstances`), type or family, and zone.
    pub fn run_short(&self, operation: &str, kind: &str, zone: &str) {
        self.world().script.run_short(operation, kind, zone);
    }

    /// Every host there ever was.
    #[must_use]
    pub fn hosts(&self) -> Vec<HostFacts> {
        self.with(|world, now| world.hosts(now))
    }

    /// Every instance there ever was.
    #[must_use]
    pub fn instances(&self) -> Vec<InstanceFacts> {
        self.with(|world, now| world.instances(now))
    }

    /// Hosts that are paid for and whose tag `key` names no living owner.
    #[must_use]
    pub fn leaks(&self, key: &str, owners: &BTreeSet<String>) -> Vec<HostFacts> {
        self.with(|world, now| world.leaks(now, key, owners))
    }

    /// For how long hosts were paid in total, and for how long of that they were empty.
    #[must_use]
    pub fn bill(&self) -> (Duration, Duration) {
        self.with(|world, now| world.bill(now))
    }

    /// Lets a host fail; answers the id of the host its instances will move to, if it recovers.
    pub fn fail_host(&self, region: &str, id: &str) -> Option<String> {
        self.with(|world, now| {
            let World { settings, places, rng, .. } = world;
            let place = places.get_mut(&(self.account.clone(), region.to_owned()))?;
            place.fail_host(now, id, settings, rng)
        })
    }

    /// Puts a host of the first account into a state; false when there is no such host.
    pub fn set_host_state(&self, region: &str, id: &str, state: HostState) -> bool {
        self.with(|world, now| {
            world.place(&self.account, region, now).is_some_and(|place| place.set_host_state(now, id, state))
        })
    }

    /// Puts an instance of the first account into a state; false when there is no such instance.
    pub fn set_instance_state(&self, region: &str, id: &str, state: InstanceState) -> bool {
        self.with(|world, now| {
            world.place(&self.account, region, now).is_some_and(|place| place.set_instance_state(now, id, state))
        })
    }

    /// Covers a host of the first account with a reservation, so that it cannot be released.
    pub fn reserve_host(&self, region: &str, id: &str, reservation: &str) -> bool {
        self.with(|world, now| {
            let host = world.place(&self.account, region, now).and_then(|place| place.hosts.get_mut(id));
            host.map(|host| host.reservation = Some(reservation.to_owned())).is_some()
        })
    }

    /// The subnet that the first account has in a zone from the beginning.
    #[must_use]
    pub fn subnet(&self, region: &str, zone: &str, public: bool) -> Option<String> {
        self.with(|world, now| Some(world.place(&self.account, region, now)?.subnet_of(zone, public)?.id.clone()))
    }

    /// The image that the first account has for an architecture from the beginning.
    #[must_use]
    pub fn image(&self, region: &str, architecture: &str) -> Option<String> {
        self.with(|world, now| Some(world.place(&self.account, region, now)?.image_of(architecture)?.id.clone()))
    }

    /// Adds a role that can be taken on.
    pub fn add_role(&self, arn: &str, role: Role) {
        self.world().identities.roles.insert(arn.to_owned(), role);
    }

    /// Adds a user with a long-lived key.
    pub fn add_user(&self, account: &str, access_key: &str, secret: &str) {
        self.world().add_user(account, access_key, secret);
    }

    /// Withdraws a key.
    pub fn revoke(&self, access_key: &str) {
        self.world().identities.keys.remove(access_key);
    }
}
