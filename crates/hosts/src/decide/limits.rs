//! What is refused because it breaks a rule or is not built, and what because there would be too much of it.

use api::own::AWSMachineSpec;

use crate::admit;
use crate::classes::Class;
use crate::obstacle::{About, Obstacle};
use crate::snapshot::Snapshot;

/// What admission would have refused, for a machine that got past it.
#[must_use]
pub fn unfit(spec: &AWSMachineSpec) -> Option<Obstacle> {
    let about = if spec.dynamic_host_allocation.is_some() { About::Host } else { About::Instance };
    admit::problem(spec).map(|problem| Obstacle::terminal(about, problem))
}

/// Whether another allocation would break a cap of the installation.
#[must_use]
pub fn caps(s: &Snapshot, quantity: u32) -> Option<Obstacle> {
    let whose = match &s.claim {
        Some(_) => format!("namespace {}", s.key.namespace().unwrap_or_default()),
        None => format!("cluster {}", s.cluster_name().unwrap_or_default()),
    };
    let denied = |message: String| Obstacle::private(About::Host, Class::Permission, message);
    let (hosts, recent) = (s.usage.hosts.saturating_add(quantity), s.usage.recent.saturating_add(quantity));
    if hosts > s.config.max_hosts_per_cluster {
        let cap = s.config.max_hosts_per_cluster;
        return Some(denied(format!(
            "{whose} would have {hosts} dedicated hosts, and --max-hosts-per-cluster is {cap}"
        )));
    }
    if recent > s.config.max_allocations_per_hour {
        let cap = s.config.max_allocations_per_hour;
        return Some(denied(format!(
            "{whose} would have asked for {recent} dedicated hosts within an hour, and --max-allocations-per-hour is {cap}"
        )));
    }
    None
}
