//! A stand-in for the host controller of Metal3: it drives BareMetalHosts as the operator does with its in-memory
//! provisioner, for machines without Ironic.
//!
//! A new host is registered, inspected, prepared and then available; with `online` and an image or custom deploy it is
//! provisioned; without them it is deprovisioned and available again. Power follows `online` and the reboot annotations;
//! a paused host is left alone, a detached one does not progress, a deleted one is wiped and switched off first. Every
//! host has a [`Machine`] of its own with a disk that remembers what was written to it and for whom, so that tests can
//! prove that nothing of one tenant is left for the next.
//!
//! - [`state`] thinks: host, machine and moment in, the next small thing to do out;
//! - [`Simulator`] touches: one watch, no scans, one write at a time per host, over any client;
//! - [`script`]: delays, failures and needless status writes per host, by annotation;
//! - [`oracle`] judges the record of every version of every object that claims and hosts consist of.

mod conditions;
pub mod hardware;
pub mod host;
pub mod kinds;
mod machine;
pub mod oracle;
mod run;
pub mod script;
pub mod seed;
pub mod state;

use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;

pub use host::{Consumer, Host, Status};
pub use machine::{Disk, DiskChange, Machine, Machines};
pub use run::{Settings, Simulator};

use crate::plane::PlaneError;
use crate::record::Record;

/// Group of hosts, hardware data, claims and policies.
pub const GROUP: &str = "metal3.io";
/// Their version.
pub const VERSION: &str = "v1alpha1";
/// Holds a host until its machine is wiped and off.
pub const FINALIZER: &str = "baremetalhost.metal3.io";
/// A host that carries it is left alone.
pub const PAUSED: &str = "baremetalhost.metal3.io/paused";
/// A host that carries it is no longer managed.
pub const DETACHED: &str = "baremetalhost.metal3.io/detached";
/// A copy of the status, for a host that moves to another cluster.
pub const STATUS: &str = "baremetalhost.metal3.io/status";
/// One reboot; with `/<key>`, power is held off.
pub const REBOOT: &str = "reboot.metal3.io";
/// How a host misbehaves, see [`script`].
pub const SCRIPT: &str = "berth.dev/sim";
/// Label of the secrets that the operator keeps in its cache.
pub const ENVIRONMENT: (&str, &str) = ("environment.metal3.io", "baremetal");
/// Under this name the stand-in writes.
pub const MANAGER: &str = "baremetal-operator";

/// One of the kinds that claims and hosts consist of, by its name; `None` for any other.
#[must_use]
pub fn resource(kind: &str) -> Option<ApiResource> {
    let (group, version, plural) = match kind {
        "BareMetalHost" => (GROUP, VERSION, "baremetalhosts"),
        "HardwareData" => (GROUP, VERSION, "hardwaredata"),
        "HostClaim" => (GROUP, VERSION, "hostclaims"),
        "HostDeployPolicy" => (GROUP, VERSION, "hostdeploypolicies"),
        "Secret" => ("", "v1", "secrets"),
        _ => return None,
    };
    Some(ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural))
}

/// What the oracle looks at.
pub const RECORDED: [&str; 3] = ["BareMetalHost", "HostClaim", "Secret"];

/// Begins a record of every host, claim and secret of a server.
pub async fn record(client: &kube::Client) -> Result<Record, PlaneError> {
    Record::of(client, RECORDED.iter().filter_map(|kind| Some((*kind, resource(kind)?))).collect()).await
}
