//! Says how things stand with one claim, without a clock but the snapshot's: the driver folds verdicts into conditions.

use std::collections::BTreeMap;
use std::time::Duration;

use api::names::claims as names;
use api::own::{
    DeployedImage, HostAddress, HostClaimStatus, HostNic, HostReference, ProvisioningState, Unbound, UnboundReason,
};
use api::reasons::claims::Reason;
use api::reasons::common;
use claim_kind::updated::last_updated;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::class::{Class, Classify};
use kit::conditions::{State, Transition, Verdict};
use kit::room::{Notice, Report, Trouble};

use crate::apply::Error;
use crate::decide::decide;
use crate::facts::{HardwareFacts, HostFacts, Nic};
use crate::mirror;
use crate::observe::Snapshot;
use crate::parts::{Part, Progress};
use crate::release::{self, Block};
use crate::standing::{Found, Standing};
use crate::wish;
use crate::words;
use crate::yard::{Pass, Why};

/// Condition type: a host is bound.
pub const ASSOCIATED: &str = "Associated";
/// Condition type: the host has been told everything the claim asks for.
pub const SYNCHRONIZED: &str = "Synchronized";
/// Condition type: what the claim asks for runs on the host.
pub const PROVISIONED: &str = "Provisioned";
/// Condition type: the host could be deployed.
pub const AVAILABLE_FOR_PROVISIONING: &str = "AvailableForProvisioning";
/// Condition type: a policy admits the claim to its host.
pub const AUTHORIZED: &str = "Authorized";
/// Condition type: the claim is left alone.
pub const PAUSED: &str = "Paused";
/// Condition type: claim and host can be moved to another management cluster.
pub const MOVABLE: &str = "Movable";

/// Every condition that is ours.
pub const CONDITIONS: [&str; 8] = [
    ASSOCIATED,
    SYNCHRONIZED,
    PROVISIONED,
    AVAILABLE_FOR_PROVISIONING,
    AUTHORIZED,
    PAUSED,
    MOVABLE,
    api::reasons::READY,
];

/// So long nobody is told how far a host has come that was just told what to run. One that is quick has it by then, and each
/// word on the way would be a write for the claim and for whoever repeats it.
pub const MOMENT: Duration = Duration::from_secs(10);

/// Until when nobody is told how far the host has come: it is on its way, nothing is wrong, and that the claim has it was told.
#[must_use]
pub fn untold(s: &Snapshot) -> Option<Timestamp> {
    let until = s.driven?.saturating_add(MOMENT).ok().filter(|until| *until > s.now)?;
    let (host, spec, stored) = (s.bound()?, &s.claim.spec, &s.claim.status);
    let known = stored.bare_metal_host.as_ref().is_some_and(|known| known.key() == host.key);
    let asks = spec.image.is_some() || spec.custom_deploy.is_some();
    let told = host.facts.image.is_some() || host.facts.custom_deploy.is_some();
    let under_way = asks && told && !host.facts.is_provisioned() && host.facts.error.is_none() && !host.facts.deleting;
    let well = s.grant.admits() && synchronized(s, &host.facts).state == State::True;
    let rests = s.claim.deleting || s.is_paused();
    (known && under_way && well && !rests).then_some(until)
}

/// The status of a claim, as the room stores it.
#[must_use]
pub fn report<'s>(s: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Option<Report<'s, HostClaimStatus>> {
    // Once our finalizer is off, the claim goes or is gone, and nobody waits for a word of ours.
    if s.claim.deleting && !s.claim.has_finalizer() {
        return None;
    }
    // What is about to change is told once it has changed: a bind costs one write of the status, not three.
    if trouble.is_none() && (untold(s).is_some() || decide(s).iter().any(|step| !step.is_quiet())) {
        return None;
    }
    let mut verdicts = verdicts(s);
    if let Some(trouble) = trouble {
        // What just failed is told, and not what is as bad: of two equal ones nobody could say which is kept.
        let told = troubled(trouble)?;
        verdicts.retain(|verdict| verdict.type_ != told.type_ || verdict.state != told.state);
        verdicts.insert(0, told);
    }
    verdicts.push(ready(s, &verdicts));
    // What a failed pass knows of the host may be half of the truth; its conditions are not.
    let mut next = if trouble.is_some() { s.claim.status.clone() } else { status(s) };
    next.ready = [ASSOCIATED, SYNCHRONIZED, PROVISIONED].into_iter().all(|type_| holds(&verdicts, type_));
    next.last_updated = last_updated(&s.claim.status, &next, &verdicts, s.claim.generation, s.now);
    Some(Report {
        target: s.target(),
        generation: s.claim.generation,
        stored: &s.claim.status,
        next,
        verdicts,
        based_on: Some(s.latest()),
    })
}

/// The verdict on a pass that failed; `None` when it is not worth a word yet.
fn troubled(trouble: &Trouble<Error>) -> Option<Verdict> {
    match trouble {
        Trouble::Failed(Error::Bind(_)) => Some(Verdict::no(
            ASSOCIATED,
            Reason::BareMetalHostNotSynchronized.as_str(),
            "The API server refused to bind a host that fits; another one is tried, and the operator's log has the details.",
        )),
        Trouble::Failed(Error::Pause(_)) => Some(Verdict::no(
            ASSOCIATED,
            Reason::PauseAnnotationSetFailed.as_str(),
            "The API server refused to pause the host with its claim; the operator's log has the details.",
        )),
        Trouble::Failed(Error::Unpause(_)) => Some(Verdict::no(
            ASSOCIATED,
            Reason::PauseAnnotationRemoveFailed.as_str(),
            "The API server refused to end the pause of the host with that of its claim; the operator's log has the details.",
        )),
        Trouble::Failed(error) if error.is_forbidden() => Some(Verdict::no(
            SYNCHRONIZED,
            Reason::Forbidden.as_str(),
            "Berth lacks a right it needs for this claim; its administrator can see which in the operator's log.",
        )),
        Trouble::Failed(error) if error.class() == Class::Terminal => Some(Verdict::no(
            SYNCHRONIZED,
            Reason::BareMetalHostNotSynchronized.as_str(),
            "The API server refused a change of the host; the operator's log has the details.",
        )),
        // It is tried again within seconds, and nothing of the claim has changed.
        Trouble::Failed(_) | Trouble::TimedOut | Trouble::NotLeading => None,
        Trouble::Refused(_) | Trouble::Panicked => Some(Verdict::unknown(
            SYNCHRONIZED,
            common::Reason::InternalError.as_str(),
            "Berth failed while looking after this claim; it is tried again, see the operator's log.",
        )),
    }
}

fn holds(verdicts: &[Verdict], type_: &str) -> bool {
    let mut judged = verdicts.iter().filter(|verdict| verdict.type_ == type_).peekable();
    judged.peek().is_some() && judged.all(|verdict| verdict.state == State::True)
}

/// Every field of the status but the conditions.
fn status(s: &Snapshot) -> HostClaimStatus {
    let stored = &s.claim.status;
    match s.standing() {
        Standing::Bound { host, .. } => bound(s, host),
        // Kept for whoever looks into it.
        Standing::Lost { deployed: true } => HostClaimStatus { ready: false, ..stored.clone() },
        Standing::Lost { deployed: false } | Standing::Free => {
            HostClaimStatus { unbound: unbound(s), replacements: stored.replacements, ..HostClaimStatus::default() }
        }
    }
}

fn bound(s: &Snapshot, host: &Found) -> HostClaimStatus {
    let (stored, facts) = (&s.claim.status, &*host.facts);
    let place = HostReference {
        namespace: host.key.namespace().unwrap_or_default().to_owned(),
        name: host.key.name().to_owned(),
    };
    let hardware = s.hardware.as_deref().or(facts.hardware.as_deref());
    let metadata = mirror::visible(s, facts);
    let asked = s.claim.annotation(names::REBOOT_ANNOTATION).is_some();
    HostClaimStatus {
        selected_host: stored.selected_host.clone().filter(|selected| selected.key() == host.key),
        hardware_data: s.hardware.as_ref().map(|_| place.clone()),
        bare_metal_host: Some(place),
        host_uid: Some(facts.uid.to_string()),
        powered_on: facts.powered_on,
        provisioning_state: Some(provisioning_state(facts)),
        image: facts.deployed.as_ref().map(|image| DeployedImage {
            url: image.url.to_string(),
            checksum: image.checksum.as_ref().map(ToString::to_string),
        }),
        addresses: hardware.map(addresses).unwrap_or_default(),
        boot_mac_address: facts.boot_mac.as_ref().map(ToString::to_string),
        nics: hardware.map(nics).unwrap_or_default(),
        host_metadata: (metadata != api::own::HostMetadata::default()).then_some(metadata),
        failure_domain: facts.labels.get(names::FAILURE_DOMAIN_LABEL).map(ToString::to_string),
        // Passed on and withdrawn: the request has come to its end.
        pending_reboot: stored.pending_reboot.clone().filter(|_| asked),
        replacements: stored.replacements,
        ..HostClaimStatus::default()
    }
}

/// The counts of an unbound claim, with the old time as long as they are the same.
fn unbound(s: &Snapshot) -> Option<Unbound> {
    let why = s.unbound.as_ref()?;
    let reasons: Vec<UnboundReason> = why
        .reasons
        .iter()
        .map(|(code, count)| UnboundReason {
            reason: code.as_str().to_owned(),
            count: i32::try_from(*count).unwrap_or(i32::MAX),
        })
        .collect();
    let total = i32::try_from(why.total).unwrap_or(i32::MAX);
    let stored = s.claim.status.unbound.as_ref().filter(|old| old.total == total && old.reasons == reasons);
    Some(stored.cloned().unwrap_or(Unbound { total, reasons, observed_at: Some(Time(why.observed_at)) }))
}

fn provisioning_state(host: &HostFacts) -> ProvisioningState {
    if host.error.is_some() && !host.is_provisioned() {
        return ProvisioningState::Error;
    }
    match &*host.state {
        "available" | "ready" => ProvisioningState::Available,
        "provisioning" => ProvisioningState::Provisioning,
        "provisioned" | "externally provisioned" => ProvisioningState::Provisioned,
        "deprovisioning" | "powering off before delete" | "deleting" => ProvisioningState::Deprovisioning,
        _ => ProvisioningState::Unknown,
    }
}

fn addresses(hardware: &HardwareFacts) -> Vec<HostAddress> {
    let address = |type_: &str, address: &str| HostAddress { type_: type_.to_owned(), address: address.to_owned() };
    let ips = hardware.nics.iter().filter_map(|nic| nic.ip.as_deref()).map(|ip| address("InternalIP", ip));
    let name = hardware.hostname.as_deref();
    let names = name.into_iter().flat_map(|name| [address("Hostname", name), address("InternalDNS", name)]);
    // The names are worth more than the last of very many interfaces.
    ips.take(HostClaimStatus::ADDRESSES.saturating_sub(2)).chain(names).collect()
}

fn nics(hardware: &HardwareFacts) -> Vec<HostNic> {
    let text = |value: &Option<Box<str>>| value.as_ref().map(ToString::to_string);
    let nic = |nic: &Nic| HostNic { mac: text(&nic.mac), ip: text(&nic.ip), name: text(&nic.name) };
    hardware.nics.iter().take(HostClaimStatus::NICS).map(nic).collect()
}

/// The verdicts on one claim, without the summary.
fn verdicts(s: &Snapshot) -> Vec<Verdict> {
    let mut all = Vec::new();
    let host = s.bound();
    all.push(associated(s, host));
    all.push(match host {
        Some(host) => synchronized(s, &host.facts),
        None => no(SYNCHRONIZED, Reason::BareMetalHostNotSynchronized, "No host is bound yet."),
    });
    all.push(match host {
        Some(host) => provisioned(&host.facts),
        None => no(PROVISIONED, Reason::NotProvisioned, "No host is bound yet."),
    });
    if let Some(host) = host {
        all.push(available(&host.facts));
        all.push(movable(s, host));
    }
    all.extend(authorized(s, host));
    all.push(if s.is_paused() {
        Verdict::yes(PAUSED, Reason::Paused.as_str(), "The claim, or its cluster, is paused; nothing is changed.")
    } else {
        no(PAUSED, Reason::NotPaused, "The claim is looked after.")
    });
    all
}

fn no(type_: &'static str, reason: Reason, text: impl Into<String>) -> Verdict {
    Verdict::no(type_, reason.as_str(), text)
}

fn associated(s: &Snapshot, host: Option<&Found>) -> Verdict {
    if s.claim.deleting {
        return leaving(host);
    }
    if let Some(host) = host {
        let ending = if host.facts.deleting { " The owner of the host is deleting it." } else { "" };
        let text = format!("The claim has the host {}.{ending}", host.key);
        return Verdict::yes(ASSOCIATED, Reason::BareMetalHostAssociated.as_str(), text);
    }
    if let Standing::Lost { deployed: true } = s.standing() {
        return no(
            ASSOCIATED,
            Reason::HostLost,
            "The host that was deployed for this claim is gone or in other hands; delete the claim to go on.",
        );
    }
    if s.is_paused() {
        return no(ASSOCIATED, Reason::HostPaused, "No host is looked for while the claim or its cluster is paused.");
    }
    if let Some(problem) = &s.problem {
        return no(ASSOCIATED, Reason::InvalidSelector, format!("Correct the spec: {problem}."));
    }
    match &s.unbound {
        Some(unbound) if s.claim.status.bare_metal_host.is_none() => {
            no(ASSOCIATED, unbound_reason(unbound.why), unbound.text.clone())
        }
        _ => no(
            ASSOCIATED,
            Reason::MissingBareMetalHost,
            "The host is gone or in other hands; another one is looked for.",
        ),
    }
}

/// The reason that a claim without a host shows.
#[must_use]
pub fn unbound_reason(why: Why) -> Reason {
    match why {
        Why::NoHost | Why::NotAdmitted => Reason::NoBareMetalHost,
        Why::QuotaExceeded => Reason::QuotaExceeded,
        Why::WaitingForReuseHost => Reason::WaitingForReuseHost,
        Why::FailureDomainExhausted => Reason::FailureDomainExhausted,
        Why::InvalidSelector => Reason::InvalidSelector,
    }
}

/// How far a claim that is being deleted has come.
fn leaving(host: Option<&Found>) -> Verdict {
    let Some(host) = host else {
        return no(ASSOCIATED, Reason::HostClaimDeleting, "The claim is being deleted and has no host any more.");
    };
    // The first cleaning is part of every farewell; a second one is worth a word of its own.
    let stuck = matches!(release::blocked(&host.facts), Some(Block::Failed { .. } | Block::Detached));
    if !stuck && (wish::is_uncleaned(&host.facts) || wish::is_scrubbed(&host.facts)) {
        return no(
            ASSOCIATED,
            Reason::CleaningBeforeRelease,
            "The disks were kept uncleaned for this claim; they are cleaned before the host is given back.",
        );
    }
    match release::blocked(&host.facts) {
        Some(Block::Failed { class }) => no(
            ASSOCIATED,
            Reason::HostClaimDeletionFailed,
            format!("The host cannot be cleaned, so it is kept: {}", words::host_error(&class)),
        ),
        Some(Block::Detached) => no(
            ASSOCIATED,
            Reason::HostDetached,
            "The host is detached from its controller; it is given back once it is attached.",
        ),
        Some(Block::PoweredOn) => {
            no(ASSOCIATED, Reason::HostClaimDeleting, "The host is given back once it is powered off.")
        }
        Some(Block::Cleaning) => {
            no(ASSOCIATED, Reason::HostClaimDeleting, "The host is being cleaned before it is given back.")
        }
        None => no(ASSOCIATED, Reason::HostClaimDeleting, "The host is being given back."),
    }
}

fn synchronized(s: &Snapshot, host: &HostFacts) -> Verdict {
    if let Some(problem) = &s.problem {
        return no(SYNCHRONIZED, Reason::BareMetalHostNotSynchronized, format!("Correct the spec: {problem}."));
    }
    if let Some(verdict) = s.parts.iter().find_map(|(part, progress)| held_up(*part, progress)) {
        return verdict;
    }
    let spec = &s.claim.spec;
    let wanted = spec.image.as_ref();
    let custom = spec.custom_deploy.as_ref().map(|custom| custom.method.as_str());
    let differs = match (wanted, &host.image) {
        (Some(wanted), Some(there)) => !there.deploys(wanted),
        (Some(_), None) => host.custom_deploy.is_some(),
        (None, Some(_)) => spec.custom_deploy.is_some(),
        (None, None) => custom.is_some() && host.custom_deploy.is_some() && custom != host.custom_deploy.as_deref(),
    };
    if differs {
        return no(
            SYNCHRONIZED,
            Reason::ImageChangeNotSupported,
            "The host runs something else; take the image off the claim first, and set the new one when the host is available.",
        );
    }
    let here = s.is_at_home();
    match wanted {
        Some(image) if host.image.is_none() && !s.allows(image) => {
            return no(
                SYNCHRONIZED,
                Reason::ImageNotAllowed,
                "No policy of the host's owner allows images from this place.",
            );
        }
        None if spec.custom_deploy.is_some() && host.custom_deploy.is_none() && !(s.grant.custom_deploy || here) => {
            return no(
                SYNCHRONIZED,
                Reason::CustomDeployNotAllowed,
                "No policy of the host's owner allows custom deployments.",
            );
        }
        _ => {}
    }
    if s.claim.cleaning().is_some() && host.cleaning.as_deref() != s.claim.cleaning() {
        return no(
            SYNCHRONIZED,
            Reason::CleaningOverrideNotAllowed,
            "No policy of the host's owner lets claims choose how disks are cleaned.",
        );
    }
    if host.disable_power_off && !spec.wants_power() {
        return no(SYNCHRONIZED, Reason::UnsupportedPowerState, "The owner of the host has ruled out powering it off.");
    }
    Verdict::yes(
        SYNCHRONIZED,
        Reason::ConfigurationSynced.as_str(),
        "The host has been told everything the claim asks for.",
    )
}

fn held_up(part: Part, progress: &Progress) -> Option<Verdict> {
    match progress {
        Progress::Missing { name } => Some(no(SYNCHRONIZED, part.failure(), words::missing(part, name))),
        Progress::Unusable { name, fault } => {
            let reason = match fault {
                crate::parts::Fault::NameTaken => Reason::SecretNameConflict,
                crate::parts::Fault::NoKey => part.failure(),
            };
            Some(no(SYNCHRONIZED, reason, words::unusable(part, name, *fault)))
        }
        Progress::NotAsked | Progress::Due { .. } | Progress::Ready { .. } => None,
    }
}

fn provisioned(host: &HostFacts) -> Verdict {
    if host.is_provisioned() {
        return Verdict::yes(PROVISIONED, Reason::Provisioned.as_str(), "What the claim asks for runs on the host.");
    }
    if let Some(class) = &host.error {
        return no(PROVISIONED, Reason::HostError, words::host_error(class));
    }
    match &*host.state {
        "provisioning" => no(PROVISIONED, Reason::Provisioning, "The host is being deployed."),
        "deprovisioning" => no(PROVISIONED, Reason::Deprovisioning, "The host is being cleaned."),
        _ => no(PROVISIONED, Reason::NotProvisioned, "Nothing is deployed on the host."),
    }
}

fn available(host: &HostFacts) -> Verdict {
    // The host's own word counts; older operators say it by the state alone.
    let state = match host.available.as_ref().map(|mark| &*mark.status) {
        Some("True") => "available",
        Some(_) if matches!(&*host.state, "available" | "ready") => "in transition",
        _ => &*host.state,
    };
    match state {
        "available" | "ready" => {
            Verdict::yes(AVAILABLE_FOR_PROVISIONING, Reason::Available.as_str(), "The host can be deployed.")
        }
        "inspecting" | "match profile" => {
            no(AVAILABLE_FOR_PROVISIONING, Reason::Inspecting, "The hardware of the host is being inspected.")
        }
        "" | "unmanaged" | "registering" => {
            no(AVAILABLE_FOR_PROVISIONING, Reason::NotManageable, "The host cannot be managed yet.")
        }
        _ => no(AVAILABLE_FOR_PROVISIONING, Reason::NotAvailable, "The host is in use or in transition."),
    }
}

fn authorized(s: &Snapshot, host: Option<&Found>) -> Option<Verdict> {
    if host.is_none() {
        let nobody = s.unbound.as_ref().is_some_and(|why| why.why == Why::NotAdmitted);
        return nobody
            .then(|| no(AUTHORIZED, Reason::NotAdmitted, "No policy admits claims of this namespace to any host."));
    }
    let yes = |reason: Reason, text: &str| Some(Verdict::yes(AUTHORIZED, reason.as_str(), text));
    match s.grant.pass {
        Some(Pass::SameNamespace) => yes(Reason::SameNamespace, "The host is in the claim's own namespace."),
        Some(Pass::DefaultAllow) => {
            yes(Reason::DefaultAllow, "The host's namespace has no policy, and the default is to admit.")
        }
        None if s.grant.admits() => yes(Reason::PolicyAdmits, "A policy admits claims of this namespace to the host."),
        None => Some(no(
            AUTHORIZED,
            Reason::PolicyRevoked,
            "No policy admits claims of this namespace to the host any more; it stays bound, but would not be bound again.",
        )),
    }
}

fn movable(s: &Snapshot, host: &Found) -> Verdict {
    if !s.is_at_home() {
        return no(
            MOVABLE,
            Reason::HostInOtherNamespace,
            "The host is in another namespace, so the claim cannot be moved to another management cluster.",
        );
    }
    if !crate::moving::is_packed(host) {
        return no(MOVABLE, Reason::NotPausedYet, "Claim and host can be moved once the cluster is paused.");
    }
    Verdict::yes(MOVABLE, Reason::SameNamespace.as_str(), "Claim and host are ready to be moved.")
}

/// The summary: what a user waits for.
fn ready(s: &Snapshot, verdicts: &[Verdict]) -> Verdict {
    let asks = s.claim.spec.image.is_some() || s.claim.spec.custom_deploy.is_some();
    let wanted = [Some(ASSOCIATED), Some(SYNCHRONIZED), asks.then_some(PROVISIONED)];
    let missing: Vec<&str> = wanted.into_iter().flatten().filter(|type_| !holds(verdicts, type_)).collect();
    // A host that broke after it was deployed has its own word.
    let broken =
        s.bound().filter(|host| host.facts.is_provisioned() || !asks).and_then(|host| host.facts.error.as_deref());
    if let Some(class) = broken {
        return no(api::reasons::READY, Reason::HostError, words::host_error(class));
    }
    if missing.is_empty() {
        return Verdict::yes(api::reasons::READY, Reason::Ready.as_str(), "The claim has what it asks for.");
    }
    let first: BTreeMap<&str, &Verdict> = verdicts.iter().rev().map(|verdict| (verdict.type_, verdict)).collect();
    let why: Vec<String> = missing
        .iter()
        .map(|type_| match first.get(type_) {
            Some(verdict) => format!("{type_}: {}", verdict.message),
            None => format!("{type_} is not known yet"),
        })
        .collect();
    no(api::reasons::READY, Reason::NotReady, why.join(" "))
}

/// The event that tells of a transition.
#[must_use]
pub fn event(transition: &Transition) -> Option<Notice> {
    let normal = |reason| Some(Notice { reason, warning: false });
    let warning = |reason| Some(Notice { reason, warning: true });
    let is = |reason: Reason| transition.reason == reason.as_str();
    match (transition.type_, transition.to) {
        (ASSOCIATED, State::True) => normal("HostBound"),
        (ASSOCIATED, _) if is(Reason::MissingBareMetalHost) => warning("Unbound"),
        (ASSOCIATED, _) if is(Reason::HostClaimDeleting) => None,
        (PROVISIONED, State::True) => normal("Provisioned"),
        (PROVISIONED, _) if is(Reason::Provisioning) => normal("ProvisioningStarted"),
        (PROVISIONED, _) if is(Reason::Deprovisioning) => normal("Deprovisioning"),
        (PROVISIONED, _) if is(Reason::HostError) => warning("HostError"),
        // An unbound claim is not synchronized either; once is enough.
        (SYNCHRONIZED, State::False) if is(Reason::BareMetalHostNotSynchronized) => None,
        (ASSOCIATED | SYNCHRONIZED, State::False | State::Unknown) => warning(transition.reason),
        (AUTHORIZED, State::False) if is(Reason::PolicyRevoked) => warning("PolicyRevoked"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_very_many_interfaces_is_reported_as_far_as_there_is_room() {
        let nic = |n: usize| Nic { ip: Some(format!("10.0.{}.{}", n / 256, n % 256).into()), ..Nic::default() };
        let hardware = HardwareFacts {
            nics: (0..1000).map(nic).collect(),
            hostname: Some("node".into()),
            ..HardwareFacts::default()
        };
        assert_eq!(nics(&hardware).len(), 256);
        let addresses = addresses(&hardware);
        assert_eq!(addresses.len(), 512);
        assert_eq!(addresses.iter().filter(|address| address.address == "node").count(), 2);
    }
}
