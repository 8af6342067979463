//! Thinks about one Metal3Cluster.

use std::net::IpAddr;

use api::names::machines::MANAGED_ANNOTATION;
use api::names::{DnsSubdomain, PRODUCT};
use api::reasons::READY;
use api::reasons::machines::Reason;
use kit::room::Stand;

use super::observe::Snapshot;
use crate::config::{Config, Manage};
use crate::facts::PlaceFacts;

/// One effect, or a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stores the finalizer.
    Secure,
    /// Lets the Metal3Cluster go.
    Conclude,
    /// Looks again when something changes.
    Wait,
}

/// How a Metal3Cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is somebody else's business.
    Theirs,
    /// Everything stays as it is.
    Paused,
    /// It waits, and for what.
    Waits(Reason, String),
    /// It has what Cluster API needs.
    Ready,
}

/// Whether a Metal3Cluster is ours: its annotation counts first, then the flag. As shipped it is ours unless somebody else
/// writes its status, and then all of it is theirs: both would say the same, and neither needs the other.
#[must_use]
pub fn is_ours(s: &Snapshot) -> bool {
    keeps(&s.config, &s.place)
}

fn keeps(config: &Config, place: &PlaceFacts) -> bool {
    if config.watch_filter.is_some() && config.watch_filter.as_deref() != place.filter.as_deref() {
        return false;
    }
    match place.annotations.get(MANAGED_ANNOTATION).map(String::as_str) {
        Some("true") => return true,
        Some("false") => return false,
        _ => {}
    }
    let ours = |manager: &str| manager == PRODUCT || manager.strip_prefix(PRODUCT).is_some_and(|m| m.starts_with('-'));
    match config.manage_clusters {
        Manage::Always => true,
        Manage::Never => false,
        Manage::Auto => place.status_writers.iter().all(|manager| ours(manager)),
    }
}

/// How a Metal3Cluster stands for those who count; none where it is somebody else's.
#[must_use]
pub fn stand(config: &Config, place: &PlaceFacts) -> Option<Stand> {
    let judge = || Stand::judged(&place.status.conditions, READY, &[], place.created, place.deleted_at);
    keeps(config, place).then(judge)
}

/// Thinks about a Metal3Cluster: what to do, and how it stands.
#[must_use]
pub fn think(s: &Snapshot) -> (Vec<Step>, Standing) {
    if !is_ours(s) {
        return (Vec::new(), Standing::Theirs);
    }
    let place = &s.place;
    if place.deleting && s.is_moved() && s.has_finalizer() {
        return (vec![Step::Conclude], Standing::Paused);
    }
    if s.is_paused() {
        return (vec![Step::Wait], Standing::Paused);
    }
    let waits = |reason: Reason, text: &str| (vec![Step::Wait], Standing::Waits(reason, text.to_owned()));
    if place.deleting {
        if s.machines > 0 {
            // How many there are moves all the time, and each number would be a write.
            return waits(
                Reason::MachinesRemain,
                "Machines of the cluster are still there; it goes when they are gone.",
            );
        }
        let step = if s.has_finalizer() { Step::Conclude } else { Step::Wait };
        return (
            vec![step],
            Standing::Waits(Reason::Deleting, "It goes when nobody holds it by a finalizer any more.".to_owned()),
        );
    }
    if let Some(problem) = &place.problem {
        return waits(Reason::InvalidSpec, problem);
    }
    if s.cluster.is_none() {
        return waits(
            Reason::WaitingForClusterOwner,
            "No Cluster owns this Metal3Cluster yet; it goes on when one refers to it.",
        );
    }
    let standing = endpoint(s);
    if !s.has_finalizer() {
        return (vec![Step::Secure], standing);
    }
    (vec![Step::Wait], standing)
}

fn endpoint(s: &Snapshot) -> Standing {
    let endpoint = &s.place.spec.control_plane_endpoint;
    if !endpoint.is_complete() {
        let text = "spec.controlPlaneEndpoint: host and port are needed";
        return Standing::Waits(Reason::ControlPlaneEndpointMissing, text.to_owned());
    }
    let host = endpoint.host.trim_start_matches('[').trim_end_matches(']');
    let invalid = |field: &str, fault: String| {
        Standing::Waits(Reason::ControlPlaneEndpointInvalid, format!("spec.controlPlaneEndpoint.{field}: {fault}"))
    };
    let named = host.to_ascii_lowercase().parse::<DnsSubdomain>().is_ok();
    if !named && host.parse::<IpAddr>().is_err() {
        return invalid("host", format!("{} is neither a host name nor an address", endpoint.host));
    }
    let port = endpoint.port.unwrap_or_default();
    if !(1..=65_535).contains(&port) {
        return invalid("port", format!("{port} is not between 1 and 65535"));
    }
    Standing::Ready
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
