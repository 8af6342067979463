//! What the flags say.

use std::time::Duration;

use aws::credentials::Ambient;
use aws::limits::{Limits, Size};
use aws::place::Endpoints;

/// The settings of the room.
#[derive(Clone, Debug)]
pub struct Config {
    /// Only machines with this value of the label `cluster.x-k8s.io/watch-filter` are ours.
    pub watch_filter: Option<String>,
    /// The namespace of the secrets of static identities.
    pub controller_namespace: String,
    /// The credentials of this process, or why there are none.
    pub ambient: Result<Ambient, String>,
    /// Where services answer.
    pub endpoints: Endpoints,
    /// `--idle-host-timeout`: how long a host may stand empty while its machine cannot be launched; none = for ever.
    pub idle_host_timeout: Option<Duration>,
    /// `--max-hosts-per-cluster`: the most hosts a cluster may have.
    pub max_hosts_per_cluster: u32,
    /// `--max-allocations-per-hour`: the most hosts a cluster may ask for within an hour.
    pub max_allocations_per_hour: u32,
    /// `--release-orphans`: whether hosts that belong to no machine are given back, not only reported.
    pub release_orphans: bool,
    /// How often orphans are looked for; none = never.
    pub orphan_interval: Option<Duration>,
    /// How old lists of hosts and instances may be for machines that are as they should be.
    pub describe_interval: Duration,
    /// `--aws-rate=launch=…`: how fast instances are launched, and thereby how fast hosts are asked for.
    pub launches: Size,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            watch_filter: None,
            controller_namespace: api::names::SYSTEM_NAMESPACE.to_owned(),
            ambient: Err("no credentials were looked for".to_owned()),
            endpoints: Endpoints::default(),
            idle_host_timeout: Some(Duration::from_secs(3_600)),
            max_hosts_per_cluster: 50,
            max_allocations_per_hour: 20,
            release_orphans: false,
            orphan_interval: Some(Duration::from_secs(900)),
            describe_interval: Duration::from_secs(60),
            launches: Limits::Shipped.of("RunInstances", true).requests,
        }
    }
}
