//! Says how things stand with one claim, without a clock but the snapshot's: the driver folds verdicts into conditions.

use api::names::claims::REBOOT_ANNOTATION;
use api::own::{DeployedImage, HostAddress, HostClaimStatus, HostNic, ProvisioningState};
use api::reasons::claims::Reason;
use api::reasons::{ASSOCIATED, MOVABLE, PROVISIONED, READY, SYNCHRONIZED, common};
use claim_kind::updated::last_updated;
use cloudstack::port::{MachineState, Nic, VirtualMachine};
use kit::conditions::{State, Transition, Verdict};
use kit::room::{Notice, Report, Trouble};

use super::args;
use super::decide::decide;
use super::observe::{Act, Sight, Snapshot};
use super::room::Error;
use super::words::{Obstacle, platform};

/// The status of a claim; `None` when it is to stay as it is.
#[must_use]
pub fn report<'s>(s: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Option<Report<'s, HostClaimStatus>> {
    if s.paused || s.sight == Sight::Unasked {
        return None;
    }
    // What is about to change is told once it has changed.
    if trouble.is_none() && !decide(s).iter().all(super::decide::Step::is_quiet) {
        return None;
    }
    let refused = match trouble {
        Some(Trouble::Failed(Error::Cloud(error))) => Some(Obstacle::Platform(error.kind())),
        // The API server's own trouble is nothing that the claim could tell.
        Some(Trouble::Failed(_) | Trouble::NotLeading) => return None,
        Some(_) | None => None,
    };
    let seen = match (&s.sight, &s.order) {
        (Sight::Blind(obstacle), _) | (_, Some(Err(obstacle))) => Some(obstacle),
        _ => None,
    };
    let standing = refused.as_ref().or(seen);
    let known = s.claim.status.resource_id.is_some();
    // A server that does not answer for a moment takes nothing away from a machine that runs.
    if let (Sight::Blind(obstacle), true, false) = (&s.sight, known, s.claim.is_deleting())
        && !obstacle.is_lasting()
    {
        return None;
    }
    let mut verdicts = vec![associated(s, standing), synchronized(s, standing), provisioned(s, standing)];
    let failing: Vec<&str> = verdicts.iter().filter(|v| v.state != State::True).map(|v| v.type_).collect();
    let ready = failing.is_empty();
    verdicts.push(match trouble {
        Some(Trouble::Refused(_) | Trouble::Panicked | Trouble::TimedOut) => Verdict::unknown(
            READY,
            common::Reason::InternalError.as_str(),
            "Berth failed while working on this claim; it is tried again, see the operator's log.",
        ),
        _ if ready => Verdict::yes(READY, Reason::Ready.as_str(), "The claim has what it asks for."),
        _ => {
            let told =
                verdicts.iter().filter(|v| v.state != State::True).map(|v| format!("{}: {}", v.type_, v.message));
            no(READY, Reason::NotReady, told.collect::<Vec<_>>().join(" "))
        }
    });
    if s.machine().is_some() || known {
        let told = "The machine is known by the uid of the claim, which another cluster would not keep.";
        verdicts.push(no(MOVABLE, Reason::MachineKnownByClaim, told));
    }
    let mut next = HostClaimStatus { ready, ..status(s) };
    next.last_updated = last_updated(&s.claim.status, &next, &verdicts, s.claim.generation, s.now);
    Some(Report {
        target: s.target(),
        generation: s.claim.generation,
        stored: &s.claim.status,
        next,
        based_on: None,
        verdicts,
    })
}

fn no(type_: &'static str, reason: Reason, text: impl Into<String>) -> Verdict {
    Verdict::no(type_, reason.as_str(), text)
}

/// Everything but conditions, times and the summary.
fn status(s: &Snapshot) -> HostClaimStatus {
    let stored = &s.claim.status;
    let Some(machine) = s.machine() else {
        // What could not be asked for, and what was lost, is as it was.
        if matches!(s.sight, Sight::Blind(_)) || s.is_lost() {
            return HostClaimStatus { conditions: Vec::new(), ..stored.clone() };
        }
        // That a machine was about to be made stays on record until it is certain that none is left.
        let trace = s.claim.has_trace().then_some(match s.claim.is_deleting() {
            true => ProvisioningState::Deprovisioning,
            false => ProvisioningState::Provisioning,
        });
        let resource_id = stored.resource_id.clone().filter(|_| s.claim.is_deleting());
        return HostClaimStatus { provisioning_state: trace, resource_id, ..HostClaimStatus::default() };
    };
    let deployed = is_provisioned(s, machine);
    let asked = s.claim.annotation(REBOOT_ANNOTATION).is_some();
    let url = || s.claim.spec.image.as_ref().map(|image| DeployedImage { url: image.url.clone(), checksum: None });
    HostClaimStatus {
        resource_id: Some(machine.id.to_string()),
        provider_id: Some(format!("cloudstack:///{}", machine.id)),
        host_uid: Some(machine.id.to_string()),
        powered_on: powered(machine).or(stored.powered_on),
        provisioning_state: Some(match &machine.state {
            _ if s.claim.is_deleting() => ProvisioningState::Deprovisioning,
            _ if deployed => ProvisioningState::Provisioned,
            MachineState::Error => ProvisioningState::Error,
            _ => ProvisioningState::Provisioning,
        }),
        image: stored.image.clone().or_else(|| url().filter(|_| deployed)),
        addresses: addresses(machine),
        boot_mac_address: machine.nics.iter().find(|nic| nic.default).and_then(|nic| nic.mac.clone()),
        nics: machine.nics.iter().take(HostClaimStatus::NICS).map(nic).collect(),
        failure_domain: s.claim.spec.args.get(args::ZONE).map(|zone| zone.trim().to_owned()),
        pending_reboot: stored.pending_reboot.clone().filter(|_| asked),
        ..HostClaimStatus::default()
    }
}

/// Whether a machine is on; nobody can say while it changes.
fn powered(machine: &VirtualMachine) -> Option<bool> {
    match machine.state {
        MachineState::Running | MachineState::Migrating => Some(true),
        MachineState::Stopped | MachineState::Error => Some(false),
        _ => None,
    }
}

/// Whether what was asked for runs, or ran and is off because the claim says so.
fn is_provisioned(s: &Snapshot, machine: &VirtualMachine) -> bool {
    let (ran, rests) = (s.claim.status.was_deployed(), !s.wants_power());
    match machine.state {
        MachineState::Running | MachineState::Migrating => true,
        MachineState::Stopped => ran || rests,
        MachineState::Starting | MachineState::Stopping => ran,
        _ => false,
    }
}

fn addresses(machine: &VirtualMachine) -> Vec<HostAddress> {
    let address = |type_: &str, address: &str| HostAddress { type_: type_.to_owned(), address: address.to_owned() };
    let all = machine.nics.iter().flat_map(|nic| [&nic.address, &nic.address6]).flatten();
    let ips = all.map(|ip| address("InternalIP", ip)).take(HostClaimStatus::ADDRESSES.saturating_sub(2));
    ips.chain([address("Hostname", &machine.name), address("InternalDNS", &machine.name)]).collect()
}

fn nic(nic: &Nic) -> HostNic {
    HostNic { mac: nic.mac.clone(), ip: nic.address.clone().or_else(|| nic.address6.clone()), name: None }
}

fn associated(s: &Snapshot, standing: Option<&Obstacle>) -> Verdict {
    if s.claim.is_deleting() {
        return leaving(s, standing);
    }
    if s.machine().is_some() {
        return Verdict::yes(ASSOCIATED, Reason::MachineAssociated.as_str(), "The claim has a virtual machine.");
    }
    if s.is_lost() {
        return no(
            ASSOCIATED,
            Reason::HostLost,
            "The machine that ran for this claim is gone; delete the claim to go on.",
        );
    }
    if matches!(s.sight, Sight::Blind(_)) && s.claim.status.resource_id.is_some() {
        let told = "The claim has a virtual machine; CloudStack cannot be asked about it at present.";
        return Verdict::yes(ASSOCIATED, Reason::MachineAssociated.as_str(), told);
    }
    match standing.map(|obstacle| (obstacle.place(), obstacle)) {
        Some(((ASSOCIATED, reason), obstacle)) => no(ASSOCIATED, reason, obstacle.text()),
        _ => no(ASSOCIATED, Reason::NoMachine, "There is no virtual machine yet."),
    }
}

/// How far a claim that is being deleted has come.
fn leaving(s: &Snapshot, standing: Option<&Obstacle>) -> Verdict {
    if let Some(obstacle) = standing {
        let told = format!("The machine cannot be destroyed, so the claim stays. {}", obstacle.text());
        return no(ASSOCIATED, Reason::HostClaimDeletionFailed, told);
    }
    if let Some(setback) = s.setback.filter(|setback| setback.act == Act::Destroy) {
        let why = setback.kind.map_or("It is not done in time; it is looked at again.", platform);
        return no(ASSOCIATED, Reason::HostClaimDeletionFailed, format!("Destroying the machine failed. {why}"));
    }
    no(ASSOCIATED, Reason::HostClaimDeleting, "The virtual machine is being destroyed.")
}

fn synchronized(s: &Snapshot, standing: Option<&Obstacle>) -> Verdict {
    if s.machine().is_some() {
        let (wanted, runs) = (s.claim.spec.image.as_ref(), s.claim.status.image.as_ref());
        if matches!((wanted, runs), (Some(wanted), Some(runs)) if wanted.url != runs.url) {
            let told = "The machine runs another image; delete the claim and make another one to change it.";
            return no(SYNCHRONIZED, Reason::ImageChangeNotSupported, told);
        }
        let power = s.setback.filter(|setback| matches!(setback.act, Act::Start | Act::Stop));
        if let Some(setback) = power.filter(|_| s.machine().and_then(powered) != Some(s.wants_power())) {
            let why = setback.kind.map_or("It is not done in time; it is looked at again.", platform);
            return no(SYNCHRONIZED, Reason::PlatformError, format!("The machine could not be switched. {why}"));
        }
        let told = "The machine has been told everything the claim asks for.";
        return Verdict::yes(SYNCHRONIZED, Reason::ConfigurationSynced.as_str(), told);
    }
    match standing.map(|obstacle| (obstacle.place(), obstacle)) {
        Some(((SYNCHRONIZED, reason), obstacle)) => no(SYNCHRONIZED, reason, obstacle.text()),
        // A machine is there, and nobody knows whether it is as it should be.
        Some(((_, reason), obstacle)) if s.claim.status.resource_id.is_some() => {
            no(SYNCHRONIZED, reason, obstacle.text())
        }
        _ => no(SYNCHRONIZED, Reason::NoMachine, "There is no virtual machine yet."),
    }
}

fn provisioned(s: &Snapshot, standing: Option<&Obstacle>) -> Verdict {
    if s.claim.is_deleting() {
        return no(PROVISIONED, Reason::Deprovisioning, "The machine is being destroyed.");
    }
    let setback = s.setback.filter(|setback| setback.act == Act::Deploy).and_then(|setback| setback.kind);
    let Some(machine) = s.machine() else {
        return match (standing, setback) {
            (Some(obstacle), _) if obstacle.place().0 == PROVISIONED => {
                no(PROVISIONED, Reason::PlatformError, obstacle.text())
            }
            (_, Some(kind)) => no(PROVISIONED, Reason::HostError, failed(platform(kind))),
            _ => no(PROVISIONED, Reason::NotProvisioned, "Nothing runs yet."),
        };
    };
    if let Some(Obstacle::Platform(kind)) = standing {
        return no(PROVISIONED, Reason::PlatformError, platform(*kind));
    }
    if is_provisioned(s, machine) {
        return Verdict::yes(PROVISIONED, Reason::Provisioned.as_str(), "What the claim asks for runs on its machine.");
    }
    if s.is_late() {
        return no(PROVISIONED, Reason::HostError, "CloudStack has not started the machine in time; it is waited for.");
    }
    match machine.state {
        MachineState::Error => {
            no(PROVISIONED, Reason::HostError, failed(setback.map_or("CloudStack does not say why.", platform)))
        }
        MachineState::Starting | MachineState::Stopped | MachineState::Stopping => {
            no(PROVISIONED, Reason::Provisioning, "The machine is being made.")
        }
        _ => no(PROVISIONED, Reason::HostError, "CloudStack has lost sight of the machine."),
    }
}

fn failed(why: &str) -> String {
    format!("The machine could not be made; it is removed and another one is tried. {why}")
}

/// The event that tells of a transition.
#[must_use]
pub fn event(transition: &Transition) -> Option<Notice> {
    let normal = |reason| Some(Notice { reason, warning: false });
    let warning = |reason| Some(Notice { reason, warning: true });
    let is = |reason: Reason| transition.reason == reason.as_str();
    match (transition.type_, transition.to) {
        (ASSOCIATED, State::True) => normal(Reason::MachineAssociated.as_str()),
        (PROVISIONED, State::True) => normal(Reason::Provisioned.as_str()),
        (PROVISIONED, _) if is(Reason::HostError) || is(Reason::PlatformError) => warning(transition.reason),
        (ASSOCIATED | SYNCHRONIZED, _) if is(Reason::NoMachine) || is(Reason::HostClaimDeleting) => None,
        (ASSOCIATED | SYNCHRONIZED, State::False | State::Unknown) => warning(transition.reason),
        _ => None,
    }
}
