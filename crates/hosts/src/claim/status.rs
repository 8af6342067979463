//! What the status of a claim says: a view of the journal and of EC2, in words that every tenant may read.
//!
//! What EC2 says in its own words may name endpoints, accounts and what others have. So tenants read sentences of ours;
//! EC2's go to the log.

use api::own::{HostClaimStatus, PendingReboot, ProvisioningState};
use api::reasons::claims::Reason;
use api::reasons::hosts::Reason as HostReason;
use api::reasons::{ASSOCIATED, PROVISIONED, READY, SYNCHRONIZED};
use api::status::find;
use aws::port::{Instance, InstanceState};
use claim_kind::updated::last_updated;
use kit::conditions::{State, Transition, Verdict};
use kit::room::Notice;

use super::facts::ClaimFacts;
use crate::addresses::addresses;
use crate::classes::Class;
use crate::decide::{Says, Thought, provider_id};
use crate::journal::{Allocation, Phase};
use crate::obstacle::{About, Obstacle};
use crate::snapshot::{Doing, Mishap, Sky, Snapshot, is_alive};

fn no(type_: &'static str, reason: Reason, text: impl Into<String>) -> Verdict {
    Verdict::no(type_, reason.as_str(), text)
}

fn yes(type_: &'static str, reason: Reason, text: &str) -> Verdict {
    Verdict::yes(type_, reason.as_str(), text)
}

/// The status as it should be, and what each condition says.
pub(super) fn status(s: &Snapshot, claim: &ClaimFacts, thought: &Thought) -> (HostClaimStatus, Vec<Verdict>) {
    let mut verdicts = match kept(s, claim) {
        Some(kept) => kept,
        None => vec![associated(s, thought), synchronized(s, claim), provisioned(s, thought)],
    };
    let failing: Vec<&str> = verdicts.iter().filter(|v| v.state != State::True).map(|v| v.type_).collect();
    let ready = failing.is_empty() && !claim.deleting;
    verdicts.push(if ready {
        yes(READY, Reason::Ready, "The claim has all it asks for.")
    } else {
        no(READY, Reason::NotReady, format!("Not yet: {}.", failing.join(", ")))
    });
    let mut next = HostClaimStatus { ready, ..facts(s, claim) };
    next.last_updated = last_updated(&claim.status, &next, &verdicts, claim.generation, s.now);
    (next, verdicts)
}

/// What is said of a machine that is known while EC2 cannot be asked: that nobody can tell does not change how it is.
fn kept(s: &Snapshot, claim: &ClaimFacts) -> Option<Vec<Verdict>> {
    let blind = matches!(&s.sky, Sky::Clouded(_)) && !claim.deleting && s.machine.instance().is_some();
    if !blind {
        return None;
    }
    let again = |type_: &'static str| {
        let stored = find(&claim.status.conditions, type_)?;
        let reason = Reason::ALL.iter().find(|reason| reason.as_str() == stored.reason)?;
        let state = [State::True, State::False, State::Unknown].into_iter().find(|s| s.as_str() == stored.status)?;
        Some(Verdict::new(type_, state, reason.as_str(), stored.message.clone()))
    };
    [ASSOCIATED, SYNCHRONIZED, PROVISIONED].into_iter().map(again).collect()
}

fn facts(s: &Snapshot, claim: &ClaimFacts) -> HostClaimStatus {
    let stored = &claim.status;
    let Sky::Clear(sight) = &s.sky else {
        // What could not be asked for is as it was.
        let unknown = claim.holds() || s.machine.instance().is_some();
        return if unknown {
            HostClaimStatus { conditions: Vec::new(), ..stored.clone() }
        } else {
            HostClaimStatus::default()
        };
    };
    let journal = s.journal();
    let allocation = journal.allocation.as_ref().filter(|allocation| !allocation.phase.is_over());
    let instance = s.instance();
    let on = instance.and_then(|instance| instance.host.as_ref());
    let host = on.or_else(|| allocation.and_then(|allocation| allocation.hosts.first()));
    let resource_id = match (host, instance) {
        (Some(host), Some(instance)) => Some(format!("{host}/{}", instance.id)),
        (Some(host), None) => Some(host.to_string()),
        (None, Some(instance)) => Some(format!("/{}", instance.id)),
        (None, None) => None,
    };
    let zone = instance.and_then(|instance| instance.zone.as_ref());
    let zone = zone.or_else(|| allocation.map(|allocation| &allocation.terms.zone));
    let mut found = instance.map(|instance| addresses(instance, &sight.domains)).unwrap_or_default();
    // An instance on its way out loses its addresses; people still want to know what they were.
    if found.is_empty() && instance.is_some() {
        found = stored.addresses.clone();
    }
    found.truncate(HostClaimStatus::ADDRESSES);
    HostClaimStatus {
        resource_id,
        provider_id: instance.map(provider_id),
        // What a node can learn of itself, from the metadata service.
        host_uid: instance.map(|instance| instance.id.to_string()),
        powered_on: instance.map(|i| matches!(i.state, InstanceState::Running | InstanceState::Stopping)),
        provisioning_state: Some(state(s, instance)),
        addresses: found,
        failure_domain: zone.map(ToString::to_string),
        pending_reboot: claim.progress.map(|_| PendingReboot { id: claim.uid.to_string(), mode: None }),
        ..HostClaimStatus::default()
    }
}

fn state(s: &Snapshot, instance: Option<&Instance>) -> ProvisioningState {
    match instance.map(|instance| &instance.state) {
        _ if s.machine.deleting => ProvisioningState::Deprovisioning,
        Some(InstanceState::Pending) if !was_provisioned(s) => ProvisioningState::Provisioning,
        Some(InstanceState::ShuttingDown | InstanceState::Terminated | InstanceState::Other(_)) => {
            ProvisioningState::Error
        }
        Some(_) => ProvisioningState::Provisioned,
        None if s.machine.instance().is_some() => ProvisioningState::Error,
        None if s.journal().allocation.is_some() => ProvisioningState::Provisioning,
        None => ProvisioningState::Available,
    }
}

/// Whether the instance ran before: then it is only being started again.
fn was_provisioned(s: &Snapshot) -> bool {
    s.machine.status.initialization.as_ref().is_some_and(|i| i.provisioned == Some(true))
}

fn reason_of(says: Option<&Says>) -> Option<HostReason> {
    says.map(|says| says.reason)
}

/// What stands in the way, if anything does.
fn obstacle(s: &Snapshot) -> Option<&Obstacle> {
    match (&s.sky, &s.preflight, &s.groups) {
        (Sky::Clouded(obstacle), ..) | (_, Some(Err(obstacle)), _) | (_, _, Some(Err(obstacle))) => Some(obstacle),
        _ => None,
    }
}

/// What went wrong last, unless it passes by itself.
fn mishap(s: &Snapshot) -> Option<&Mishap> {
    s.mishap.as_ref().filter(|mishap| mishap.class != Class::Transient || mishap.tries > 3)
}

/// What a refusal means, without EC2's own words.
fn words(class: Class) -> &'static str {
    match class {
        Class::Transient | Class::Consistency | Class::Idempotency => {
            "AWS does not answer as it should; it is asked again."
        }
        Class::HostQuota => "The account of this claim has as many dedicated hosts as it may; it is asked again.",
        Class::Quota => "The account of this claim has reached a limit of AWS; it is asked again.",
        Class::HostCapacity => "AWS has no such host to give in this zone now; it is asked again.",
        Class::LaunchCapacity => "AWS has no room for the instance now; it is asked again.",
        Class::Permission => "The credentials of this claim cannot be used, or do not suffice.",
        Class::Terminal => "AWS refuses what spec.args asks for; correct it.",
        Class::Occupied => "The host is not empty yet.",
        Class::TooYoung => "The host is kept for the least time that AWS demands.",
        Class::Dependency => "Something that the claim needs is not there yet.",
    }
}

fn told(obstacle: &Obstacle) -> String {
    if obstacle.private { words(obstacle.class).to_owned() } else { obstacle.message.clone() }
}

/// Which host the claim has, and why that one.
fn had(s: &Snapshot, live: Option<&Allocation>) -> String {
    let selects = s.claim.as_ref().is_some_and(|claim| claim.selector.is_some());
    let Some((live, host)) = live.and_then(|live| Some((live, live.hosts.first()?))) else { return String::new() };
    match live.phase {
        Phase::Claimed => format!(
            "Dedicated host {host} was there, fits spec.hostSelector and had room, so the claim shares it and none was allocated."
        ),
        _ if live.from.is_some() => {
            format!("Dedicated host {host}, which the claim shared, was handed over to it when another claim left.")
        }
        _ if live.adopted && selects => format!(
            "Dedicated host {host} was there and fits spec.hostSelector, so it was taken and none was allocated."
        ),
        _ if selects => {
            format!(
                "No host that was there fitted spec.hostSelector, so dedicated host {host} was allocated for the claim."
            )
        }
        _ => "A dedicated host is allocated for the claim.".to_owned(),
    }
}

fn associated(s: &Snapshot, thought: &Thought) -> Verdict {
    if s.machine.deleting {
        let failed = [HostReason::DeletingFailed, HostReason::DedicatedHostReleaseFailed, HostReason::HostReserved];
        let reasons = [reason_of(thought.instance.as_ref()), reason_of(thought.release.as_ref())];
        return if reasons.into_iter().flatten().any(|reason| failed.contains(&reason)) {
            let class = obstacle(s).map(|obstacle| obstacle.class).or(mishap(s).map(|mishap| mishap.class));
            let text = class.map_or("The instance or its host cannot be given back yet.", words);
            no(ASSOCIATED, Reason::HostClaimDeletionFailed, text)
        } else {
            no(ASSOCIATED, Reason::HostClaimDeleting, "The instance is ended, then its host is released.")
        };
    }
    let lost = [HostReason::InstanceTerminated, HostReason::InstanceNotFound];
    if reason_of(thought.instance.as_ref()).is_some_and(|reason| lost.contains(&reason)) {
        let text = "The instance has ended or is not there any more; no second one is started in its place.";
        return no(ASSOCIATED, Reason::HostLost, text);
    }
    let journal = s.journal();
    let live = journal.allocation.as_ref().filter(|allocation| !allocation.phase.is_over());
    if live.is_some_and(|allocation| !allocation.hosts.is_empty()) {
        let broken = [HostReason::HostMismatch, HostReason::HostLost, HostReason::HostPermanentFailure];
        if reason_of(thought.host.as_ref()).is_some_and(|reason| broken.contains(&reason)) {
            return no(ASSOCIATED, Reason::HostLost, "The host failed, is gone, or is not this claim's.");
        }
        return yes(ASSOCIATED, Reason::MachineAssociated, &had(s, live));
    }
    if let Some(full) = &s.full {
        return no(ASSOCIATED, Reason::QuotaExceeded, format!("The namespace {full}."));
    }
    if let Some(fault) = s.claim.as_ref().and_then(|claim| claim.fault.as_ref()) {
        let reason = if fault.reason == Reason::InvalidArguments { fault.reason } else { Reason::NoMachine };
        return no(ASSOCIATED, reason, fault.message.clone());
    }
    if let Err(error) = &s.machine.journal {
        return no(ASSOCIATED, Reason::InvalidArguments, error.to_string());
    }
    match (obstacle(s), mishap(s)) {
        (Some(obstacle), _) if obstacle.about == About::Zone => {
            no(ASSOCIATED, Reason::FailureDomainExhausted, told(obstacle))
        }
        (Some(obstacle), _) => {
            let reason = match (obstacle.class, obstacle.private) {
                (Class::Permission, true) => Reason::IdentityUnusable,
                (_, true) => Reason::PlatformError,
                (Class::Terminal, false) => Reason::InvalidArguments,
                (_, false) => Reason::NoMachine,
            };
            no(ASSOCIATED, reason, told(obstacle))
        }
        (None, Some(mishap)) => no(ASSOCIATED, Reason::PlatformError, words(mishap.class)),
        (None, None) => no(ASSOCIATED, Reason::NoMachine, "A dedicated host is being asked for."),
    }
}

fn synchronized(s: &Snapshot, claim: &ClaimFacts) -> Verdict {
    let instance = s.instance().filter(|instance| is_alive(&instance.state));
    let waiting = |text: &str| no(SYNCHRONIZED, Reason::BareMetalHostNotSynchronized, text);
    if claim.deleting {
        return waiting("The claim is being deleted.");
    }
    let fault = claim.fault.as_ref().filter(|_| instance.is_none());
    if let Some(fault) = fault.filter(|fault| fault.reason != Reason::InvalidArguments) {
        return no(SYNCHRONIZED, fault.reason, fault.message.clone());
    }
    if let Some(obstacle) = obstacle(s) {
        let reason = match (obstacle.about, obstacle.class) {
            (About::Data, _) => Reason::UserDataSecretSyncFailure,
            (About::Size, _) => Reason::DataTooLarge,
            (_, Class::Permission) => Reason::Forbidden,
            _ if obstacle.private => Reason::PlatformError,
            _ => Reason::BareMetalHostNotSynchronized,
        };
        return no(SYNCHRONIZED, reason, told(obstacle));
    }
    if let Some(mishap) = mishap(s) {
        let denied = mishap.class == Class::Permission;
        let reason = if denied { Reason::Forbidden } else { Reason::PlatformError };
        let text = match mishap.doing {
            Doing::Power if !denied => "AWS does not switch the instance as asked; it is tried again.",
            _ => words(mishap.class),
        };
        return no(SYNCHRONIZED, reason, text);
    }
    let Some(instance) = instance else { return waiting("No instance runs yet.") };
    let (on, running) = (claim.wants_power(), instance.state == InstanceState::Running);
    let moving = matches!(instance.state, InstanceState::Pending | InstanceState::Stopping);
    if claim.progress.is_some() || on != running || moving {
        return waiting("The instance is being started or stopped.");
    }
    let selects = claim.selector.is_some();
    let journal = s.journal();
    let live = journal.allocation.as_ref().filter(|allocation| selects && !allocation.phase.is_over());
    // Where a claim has a say in it, where the instance is belongs to what was asked for.
    let text = match live.map(|_| had(s, live)) {
        Some(why) => format!("The instance is as asked for. {why}"),
        None => "The instance is as asked for.".to_owned(),
    };
    yes(SYNCHRONIZED, Reason::ConfigurationSynced, &text)
}

fn provisioned(s: &Snapshot, thought: &Thought) -> Verdict {
    let lost = [HostReason::InstanceTerminated, HostReason::InstanceNotFound];
    let lost = reason_of(thought.instance.as_ref()).is_some_and(|reason| lost.contains(&reason));
    match s.instance().map(|instance| &instance.state) {
        _ if s.machine.deleting => no(PROVISIONED, Reason::Deprovisioning, "The instance is being ended."),
        _ if lost => no(PROVISIONED, Reason::HostError, "The instance is gone, and nobody deleted the claim."),
        Some(InstanceState::Pending) if !was_provisioned(s) => {
            no(PROVISIONED, Reason::Provisioning, "The instance is starting.")
        }
        Some(InstanceState::Other(_)) => no(PROVISIONED, Reason::HostError, "The instance is in an unknown state."),
        Some(_) => yes(PROVISIONED, Reason::Provisioned, "The instance was launched and is there."),
        None if mishap(s).is_some() || obstacle(s).is_some_and(|obstacle| obstacle.private) => {
            no(PROVISIONED, Reason::PlatformError, "AWS refused; it is asked again later.")
        }
        None => no(PROVISIONED, Reason::NotProvisioned, "No instance runs yet."),
    }
}

/// The event that tells of a transition; most are told by who carried out a step.
pub(super) fn event(transition: &Transition) -> Option<Notice> {
    let reason = Reason::ALL.iter().find(|reason| reason.as_str() == transition.reason)?;
    let told = match (transition.type_, reason) {
        (ASSOCIATED, Reason::HostLost | Reason::HostClaimDeletionFailed) => *reason,
        (
            SYNCHRONIZED,
            Reason::Forbidden | Reason::UnsupportedImage | Reason::UnsupportedData | Reason::DataTooLarge,
        ) => *reason,
        _ => return None,
    };
    Some(Notice { reason: told.as_str(), warning: true })
}
