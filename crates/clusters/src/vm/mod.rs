//! The claim kind `cloudstack-vm`: a HostClaim gets a virtual machine of CloudStack, and gives it back.
//!
//! **Promise.** A claim of the kind has at most one machine, made of what its arguments name, in the account of the
//! credentials that it names in its own namespace. The machine is switched as the claim says and is gone, for good and
//! provably, before the claim is.
//!
//! **Inputs.** HostClaims of the kind, HostClaimQuotas, Namespaces, Clusters and Secrets from indexes; the Secrets' content
//! and CloudStack in every pass that needs them; what machines are made of, once for all who ask the same.
//!
//! **Effects.** One virtual machine and its tag; the finalizer, one annotation and the status of the claim; requests that
//! were fulfilled are taken off it.
//!
//! **Invariants.** The name of the machine follows from the claim's uid, and a network takes a name once: whoever looks by
//! it finds what was made, whatever was lost. What is about to be made is stored before, on the claim as it was read, and
//! the claim is read once more right before the call. A machine that ran is never replaced by a second one. Nothing is
//! written while the claim or its cluster is paused.
//!
//! **Failure modes.** What the user must correct stands in the conditions. CloudStack's own words never do: they name
//! addresses and accounts. Meta data and network data cannot be carried, claims cannot be moved to another cluster,
//! offerings that leave their size to the user and identities outside of the claim's namespace are refused by name.

mod apply;
pub mod args;
pub mod decide;
pub mod guard;
mod memory;
pub mod observe;
pub mod rights;
pub mod room;
pub mod status;
#[cfg(test)]
mod tests;
pub mod words;

use api::names::claims::FAILURE_DOMAIN_LABEL;
use api::own::Capability;
use claim_kind::around::Around;
use claim_kind::claim::{ClaimFacts, Served, Texts};
use claim_kind::heartbeat::KindProfile;
use kit::manager::{self, Manager};
use kit::room::{Driver, Roll};

use crate::acs::Clouds;

pub use room::Vms;

/// The kind.
pub const KIND: &str = "cloudstack-vm";

/// The tag on a machine that tells whose it is: the uid of the claim.
pub const TAG: &str = "claim-uid";

/// The kind, for indexes.
pub struct CloudStackVm;

impl Served for CloudStackVm {
    const KIND: &'static str = KIND;
    const IDENTITY: Option<&'static str> = Some(args::IDENTITY);

    /// Quotas tell machines by their zone.
    fn labels(claim: &ClaimFacts) -> Texts {
        let zone = claim.spec.args.get(args::ZONE);
        zone.map(|zone| (FAILURE_DOMAIN_LABEL.into(), zone.as_str().into())).into_iter().collect()
    }
}

/// The kind as it is registered.
#[must_use]
pub fn profile() -> KindProfile {
    KindProfile {
        name: KIND,
        controller_name: "cloudstack-vm.berth.dev",
        capabilities: &[
            Capability::Power,
            Capability::Reboot,
            Capability::UserData,
            Capability::Image,
            Capability::FailureDomain,
        ],
        recyclable: false,
        args: args::schema(),
    }
}

/// The name of the machine of a claim: it follows from the claim's uid alone, so that it is found again without a status.
#[must_use]
pub fn machine_name(uid: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let uid: String = uid.chars().filter(plain).take(48).collect();
    format!("hc-{}", uid.trim_matches('-').to_ascii_lowercase())
}

/// The uid of the claim that a machine of this name was made for, where the name is one that [`machine_name`] gives to a uid
/// of the API server. Other names begin with the same letters.
#[must_use]
pub fn claim_of_name(name: &str) -> Option<&str> {
    let uid = name.strip_prefix("hc-")?;
    let hex = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
    (lengths == [8, 4, 4, 4, 12] && uid.split('-').all(hex)).then_some(uid)
}

/// Adds the controller of the kind to a manager; its heartbeat is [`claim_kind::heartbeat::mount`]'s.
///
/// # Errors
/// When a kind cannot be followed.
pub fn mount<C: Clouds>(manager: &Manager, clouds: C) -> Result<(), manager::Error> {
    let around = Around::<CloudStackVm>::follow(manager)?;
    let driver = Driver::new(manager, Vms::new(manager, around.clone(), clouds));
    around.wake(driver.work());
    let roll = Roll::open(manager, KIND, "HostClaim");
    roll.follow(around.claims(), |_, claim| claim.as_ref().map(|claim| claim.stand()));
    let (ready, keys) = (around.clone(), around);
    manager.drive(&driver, async move { ready.settled().await }, move |accepts| keys.claims().keys(accepts));
    Ok(())
}
