//! Says how things stand with one claim.

use api::own::{DeployedImage, HostClaimStatus, ProvisioningState};
use api::reasons::claims::Reason;
use api::reasons::{ASSOCIATED, PROVISIONED, READY, SYNCHRONIZED};
use kit::conditions::{State, Verdict};
use kit::room::{Report, Trouble};

use super::Flaw;
use super::cloud::{Machine, Phase, Refused};
use super::decide::{Block, Step, decide};
use super::room::{Error, Snapshot};
use crate::updated::last_updated;

/// The status of a claim.
pub fn report<'s>(s: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Option<Report<'s, HostClaimStatus>> {
    // What is about to change is told once it has changed.
    let busy = decide(s).iter().any(|step| !matches!(step, Step::Wait { .. }));
    if s.paused || (trouble.is_none() && busy) {
        return None;
    }
    let refused = match (&s.machine, trouble) {
        (Err(refused), _) | (_, Some(Trouble::Failed(Error::Cloud(refused)))) => Some(refused),
        _ => None,
    };
    let machine = s.machine.as_ref().ok().and_then(Option::as_ref);
    let mut verdicts = vec![associated(s, machine), synchronized(s, machine), provisioned(s, machine, refused)];
    let failing: Vec<&str> = verdicts.iter().filter(|v| v.state != State::True).map(|v| v.type_).collect();
    verdicts.push(if failing.is_empty() {
        Verdict::yes(READY, Reason::Ready.as_str(), "The claim has all it asks for.")
    } else {
        no(READY, Reason::NotReady, format!("Not yet: {}.", failing.join(", ")))
    });
    let mut next = HostClaimStatus { ready: failing.is_empty(), ..status(s, machine) };
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

fn status(s: &Snapshot, machine: Option<&Machine>) -> HostClaimStatus {
    let stored = &s.claim.status;
    let Some(machine) = machine else {
        // What could not be asked for is as it was.
        return if s.machine.is_err() { stored.clone() } else { HostClaimStatus::default() };
    };
    let running = machine.phase == Phase::Running;
    let asked = s.claim.annotations.contains_key(api::names::claims::REBOOT_ANNOTATION);
    HostClaimStatus {
        resource_id: (s.fake.flaw != Some(Flaw::KeepsNoRecord)).then(|| machine.id.clone()),
        provider_id: Some(format!("fake:///{}", machine.id)),
        powered_on: Some(machine.powered),
        failure_domain: Some(machine.order.zone.clone()),
        provisioning_state: Some(if running {
            ProvisioningState::Provisioned
        } else {
            ProvisioningState::Provisioning
        }),
        image: machine.order.image.clone().filter(|_| running).map(|url| DeployedImage { url, checksum: None }),
        pending_reboot: stored.pending_reboot.clone().filter(|_| asked),
        ..HostClaimStatus::default()
    }
}

fn associated(s: &Snapshot, machine: Option<&Machine>) -> Verdict {
    if s.claim.deleting {
        return no(ASSOCIATED, Reason::HostClaimDeleting, "The machine is being destroyed.");
    }
    if machine.is_some() || (s.machine.is_err() && s.claim.status.resource_id.is_some()) {
        return Verdict::yes(ASSOCIATED, "MachineMade", "The claim has a machine.");
    }
    match &s.order {
        Err(Block::Zone) => no(ASSOCIATED, Reason::FailureDomainExhausted, "There is no such failure domain."),
        Err(Block::Quota) => no(ASSOCIATED, Reason::QuotaExceeded, "A quota leaves no room for another machine."),
        _ => no(ASSOCIATED, Reason::NoBareMetalHost, "There is no machine yet."),
    }
}

fn synchronized(s: &Snapshot, machine: Option<&Machine>) -> Verdict {
    let stuck = s.fake.modest && machine.is_some_and(|machine| machine.powered != s.claim.spec.wants_power());
    if stuck {
        return no(SYNCHRONIZED, Reason::UnsupportedPowerState, "Machines of this kind cannot be switched off.");
    }
    match &s.order {
        Ok(_) | Err(Block::Zone | Block::Quota) => {
            Verdict::yes(SYNCHRONIZED, Reason::ConfigurationSynced.as_str(), "The machine is as asked for.")
        }
        Err(Block::Credentials) => {
            no(SYNCHRONIZED, Reason::Forbidden, "The Secret of spec.args.account is not in the claim's namespace.")
        }
        Err(Block::Image) => no(SYNCHRONIZED, Reason::UnsupportedImage, "Images of this place cannot be deployed."),
        Err(Block::Data) => no(SYNCHRONIZED, Reason::UnsupportedData, "Network data cannot be carried to the guest."),
        Err(Block::Secret("userData")) => {
            no(SYNCHRONIZED, Reason::UserDataSecretSyncFailure, "The Secret of spec.userData is not there yet.")
        }
        Err(Block::Secret(_)) => {
            no(SYNCHRONIZED, Reason::MetaDataSecretSyncFailure, "The Secret of spec.metaData is not there yet.")
        }
    }
}

fn provisioned(s: &Snapshot, machine: Option<&Machine>, refused: Option<&Refused>) -> Verdict {
    let early = s.fake.flaw == Some(Flaw::ReadyEarly);
    if let Some(Refused(words)) = refused {
        let text = match s.fake.flaw {
            Some(Flaw::TellsAll) => words.clone(),
            _ => "The platform refused; it is asked again later.".to_owned(),
        };
        return no(PROVISIONED, Reason::HostError, text);
    }
    match machine.map(|machine| machine.phase) {
        Some(Phase::Running) => Verdict::yes(PROVISIONED, Reason::Provisioned.as_str(), "It runs."),
        Some(Phase::Building) if early => Verdict::yes(PROVISIONED, Reason::Provisioned.as_str(), "It runs."),
        Some(Phase::Building) => no(PROVISIONED, Reason::Provisioning, "The machine is being made."),
        Some(Phase::Destroying) => no(PROVISIONED, Reason::Deprovisioning, "The machine is being destroyed."),
        None => no(PROVISIONED, Reason::NotProvisioned, "There is no machine yet."),
    }
}
