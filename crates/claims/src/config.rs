//! How the room is set up.

use std::time::Duration;

use crate::yard::Settings;

/// The room's settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who is admitted, and in which order hosts are taken.
    pub yard: Settings,
    /// Whether hosts that go back stay powered on for a faster next deployment.
    pub fast_track: bool,
    /// How long a host is kept for the next claim of its reuse group.
    pub reuse_ttl: Duration,
    /// How long a host must have named a claim that does not exist before anything is done about it; zero is never.
    pub orphan_grace: Duration,
    /// What is done about it then.
    pub orphan_action: OrphanAction,
    /// Whether a lease keeps other processes from working at the same time.
    pub leased: bool,
}

/// What becomes of a host whose claim does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrphanAction {
    /// It is told: giving it back would wipe its disks.
    #[default]
    Report,
    /// It is cleaned and given back.
    Release,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            yard: Settings::default(),
            fast_track: false,
            reuse_ttl: Duration::from_secs(2 * 60 * 60),
            orphan_grace: Duration::from_secs(10 * 60),
            orphan_action: OrphanAction::Report,
            leased: false,
        }
    }
}
