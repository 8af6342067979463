//! How the simulated world behaves. Everything may be changed while it runs.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long things take.
#[derive(Clone, Debug)]
pub struct Delays {
    /// A new host is `pending` for this long.
    pub allocate: Duration,
    /// A new instance is `pending` for this long.
    pub launch: Duration,
    /// A terminated instance is `shutting-down` for this long.
    pub shut_down: Duration,
    /// A stopped instance is `stopping` for this long.
    pub stop: Duration,
    /// After an instance shows `terminated`, its host counts as occupied for this much longer.
    pub vacate: Duration,
    /// After its instance is gone, a mac host is `pending` for this long.
    pub scrub: Duration,
    /// A failing host is `under-assessment` for this long.
    pub assess: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            allocate: Duration::from_secs(2),
            launch: Duration::from_secs(3),
            shut_down: Duration::from_secs(5),
            stop: Duration::from_secs(5),
            vacate: Duration::from_secs(5),
            scrub: Duration::from_secs(3_600),
            assess: Duration::from_secs(600),
        }
    }
}

/// How the published request limits are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttle {
    /// No limits.
    Off,
    /// This part, in percent, of the published sizes and rates; at least one token each.
    Percent(u32),
}

/// Everything a test may want otherwise.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long things take.
    pub delays: Delays,
    /// Reads see the world as it was this long ago.
    pub lag: Duration,
    /// Each read draws its lag between zero and the above, so that a later read may show an older world.
    pub wobble: bool,
    /// Dedicated hosts of one family in one region. The real default is this small.
    pub host_quota: u32,
    /// Other quotas, by family.
    pub host_quotas: BTreeMap<String, u32>,
    /// Virtual processors of instances that are not on dedicated hosts.
    pub vcpu_quota: u32,
    /// A released host counts against the quota for this much longer.
    pub quota_memory: Duration,
    /// A released host can be described for this much longer.
    pub released_visible: Duration,
    /// A terminated instance can be described for this much longer.
    pub terminated_visible: Duration,
    /// The least time a mac host is allocated for.
    pub mac_minimum: Duration,
    /// A client token is remembered for this long; that of an instance for this long past its end.
    pub token_memory: Duration,
    /// Request limits.
    pub throttle: Throttle,
    /// The most a request's time may differ from ours; `None` = not checked.
    pub max_skew: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            delays: Delays::default(),
            lag: Duration::ZERO,
            wobble: false,
            host_quota: 2,
            host_quotas: BTreeMap::new(),
            vcpu_quota: 1_920,
            quota_memory: Duration::from_secs(300),
            released_visible: Duration::from_secs(3_600),
            terminated_visible: Duration::from_secs(3_600),
            mac_minimum: Duration::from_secs(24 * 3_600),
            token_memory: Duration::from_secs(24 * 3_600),
            throttle: Throttle::Percent(100),
            max_skew: Some(Duration::from_secs(300)),
        }
    }
}

impl Settings {
    /// How many hosts of a family an account may have in a region.
    #[must_use]
    pub fn quota(&self, family: &str) -> u32 {
        self.host_quotas.get(family).copied().unwrap_or(self.host_quota)
    }
}
