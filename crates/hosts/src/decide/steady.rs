//! A machine that has its instance: publish it, keep track of its host, and keep both as they should be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::names::hosts::{
    LAST_HOST_TAGS_ANNOTATION, LAST_SECURITY_GROUPS_ANNOTATION, LAST_TAGS_ANNOTATION, LAST_VOLUME_TAGS_ANNOTATION,
};
use api::names::{HostId, SecurityGroupId};
use api::reasons::hosts::Reason;
use aws::port::{HostState, Instance, InstanceState, MetadataOptions, Tags};

use super::host::{belonging, host_tags};
use super::recover::{adopted, is_still_left, is_unsigned, recovered, surfaced, taken_back};
use super::{CONSISTENT, Fatal, RESYNC, Says, Step, Thought};
use crate::journal::{Allocation, Phase};
use crate::names::kubernetes_tag;
use crate::request;
use crate::snapshot::{Snapshot, is_alive};
use crate::tags;

const SOON: Duration = Duration::from_secs(5);
const SOON_FOR_CONTROL_PLANE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_secs(15);

/// What Cluster API knows an instance by.
#[must_use]
pub(crate) fn provider_id(instance: &Instance) -> String {
    let zone = instance.zone.as_ref().map(|zone| zone.as_str()).unwrap_or_default();
    format!("aws:///{zone}/{}", instance.id)
}

/// The machine has an instance.
pub(super) fn steady(s: &Snapshot, instance: &Instance) -> Thought {
    let mut thought = state(s, instance);
    let journal = s.journal();
    let id = provider_id(instance);
    let published = s.machine.spec.provider_id.as_deref() == Some(id.as_str())
        && s.machine.spec.instance_id.as_deref() == Some(instance.id.as_str());
    if !published && is_alive(&instance.state) {
        let publish = Step::Publish { instance: instance.id.clone(), provider_id: id };
        // Which instance it is comes first: a machine that forgets it would launch another one.
        return Thought { steps: vec![publish], ..thought };
    }
    // An instance that others launched is taken over: first the finalizer, then everything else.
    if (!s.machine.has_finalizer() || journal.scope.is_none() || s.can_sign())
        && let Some(scope) = s.signed_scope()
    {
        return Thought { steps: vec![Step::Secure { scope }], ..thought };
    }
    if s.is_dynamic() {
        let (says, record) = placement(s, instance);
        thought.host = Some(says);
        if let Some((record, told)) = record {
            let steps = told.into_iter().chain([Step::Record { allocation: Box::new(record) }]).collect();
            return Thought { steps, ..thought };
        }
    }
    if is_alive(&instance.state) {
        tend(s, instance, &mut thought);
        super::power::follow(s, instance, &mut thought);
    }
    thought
}

/// What the state of the instance means, and when to look again.
fn state(s: &Snapshot, instance: &Instance) -> Thought {
    let id = &instance.id;
    let reason = instance.state_reason.as_ref().map(|r| format!(" ({}: {})", r.code, r.message)).unwrap_or_default();
    let ended = |message: String, fatal: bool| {
        let mut thought = Thought::default().instance(Says::no(Reason::InstanceTerminated, message.clone()));
        thought.fatal = fatal.then_some(Fatal { reason: "UpdateError", message });
        thought
    };
    match &instance.state {
        InstanceState::Running => {
            let says = Says::yes(Reason::InstanceRunning, format!("instance {id} is running"));
            Thought::default().instance(says).wait(s.after(RESYNC))
        }
        InstanceState::Pending => {
            let pause = if s.is_control_plane() { SOON_FOR_CONTROL_PLANE } else { SOON };
            let says = Says::no(Reason::InstanceNotReady, format!("instance {id} is pending"));
            Thought::default().instance(says).wait(s.after(pause))
        }
        InstanceState::Stopping | InstanceState::Stopped => {
            let lost = s.is_dynamic()
                && instance
                    .host
                    .as_ref()
                    .and_then(|host| s.sight()?.hosts.get(host))
                    .is_none_or(|host| host.state.is_released());
            let hint = if lost { "; its host is gone, so it cannot be started again" } else { "" };
            let says = Says::no(Reason::InstanceStopped, format!("instance {id} is {}{reason}{hint}", instance.state));
            let pause = if instance.state == InstanceState::Stopping { POLL } else { RESYNC };
            Thought::default().instance(says).wait(s.after(pause))
        }
        InstanceState::ShuttingDown => {
            ended(format!("instance {id} is shutting down{reason}, and nobody deleted the machine"), false)
                .wait(s.after(POLL))
        }
        InstanceState::Terminated => {
            ended(format!("instance {id} was terminated{reason}, and nobody deleted the machine"), true)
        }
        InstanceState::Other(other) => {
            let message = format!("instance {id} is in the unknown state {other}");
            let mut thought = Thought::default().instance(Says::no(Reason::InstanceNotReady, message.clone()));
            thought.fatal = Some(Fatal { reason: "UpdateError", message });
            thought
        }
    }
}

type Recorded = Option<(Allocation, Option<Step>)>;

/// Which host the instance is on, and what the journal must learn of it.
fn placement(s: &Snapshot, instance: &Instance) -> (Says, Recorded) {
    let journal = s.journal();
    let sight = s.sight().cloned().unwrap_or_default();
    let Some(allocation) = journal.allocation else {
        return match recovered(s).or_else(|| adopted(s, instance)) {
            Some(adopted) => {
                let says = Says::no(Reason::HostAllocationStarted, "the host of the instance is being adopted");
                (says, Some((adopted, None)))
            }
            None => (mismatch(instance, "and no host was allocated for this machine"), None),
        };
    };
    // Hosts may surface after the launch: a quantity, or what was taken for given back.
    let more = surfaced(s, &allocation);
    let others: Vec<HostId> = more.into_iter().filter(|id| Some(id) != instance.host.as_ref()).collect();
    if allocation.phase == Phase::Allocated && !others.is_empty() {
        let says = Says::no(Reason::HostPending, "another dedicated host was found");
        return (says, Some((allocation.with_more(others), None)));
    }
    let Some(host) = &instance.host else {
        return (Says::no(Reason::HostMismatch, format!("EC2 names no host of instance {}", instance.id)), None);
    };
    let shown = sight.hosts.get(host);
    let ours = shown.is_some_and(|shown| s.owns(shown) && !shown.state.is_released());
    if allocation.phase == Phase::Claimed && ours {
        let owned = allocation.in_phase(Phase::Allocated, s.now).with_more(vec![host.clone()]);
        return (Says::yes(Reason::HostAvailable, format!("host {host} is available")), Some((owned, None)));
    }
    if allocation.phase.is_over() {
        let why = format!("and the journal says that its hosts are {}", allocation.phase.as_str());
        return (mismatch(instance, &why), None);
    }
    if !allocation.hosts.contains(host) {
        if !ours {
            return (mismatch(instance, "which was not allocated for this machine"), None);
        }
        let phase = if allocation.phase == Phase::Intended { Phase::Allocated } else { allocation.phase };
        let moved = Allocation { phase, ..allocation.clone().with_more(vec![host.clone()]) };
        let message = format!("instance {} moved to host {host}", instance.id);
        let tell = Step::Tell { warning: false, reason: Reason::DedicatedHostReplaced, message: message.clone() };
        return (Says::yes(Reason::HostAvailable, message), Some((moved, Some(tell))));
    }
    if allocation.phase == Phase::Releasing {
        // The launch surfaced after its host was given up as empty.
        let back = allocation.in_phase(Phase::Allocated, s.now);
        return (Says::no(Reason::HostPending, "the host turned out to hold the instance"), Some((back, None)));
    }
    // Hosts that the instance has left stay in the journal until EC2 has taken them back.
    let gone: Vec<HostId> = allocation
        .hosts
        .iter()
        .filter(|id| *id != host && sight.hosts.get(*id).is_some_and(|old| old.state.is_released()))
        .cloned()
        .collect();
    if !gone.is_empty() {
        let left: Vec<HostId> = allocation.hosts.iter().filter(|id| !gone.contains(id)).cloned().collect();
        // Dated, so that a read that lags does not bring them back at once.
        let mut record = allocation.in_phase(allocation.phase, s.now).with_hosts(left);
        record.past.extend(gone);
        return (Says::yes(Reason::HostAvailable, format!("host {host} is available")), Some((record, None)));
    }
    (standing(s, &allocation, host, shown.map(|shown| &shown.state)), None)
}

fn mismatch(instance: &Instance, why: &str) -> Says {
    let host = instance.host.as_ref().map_or("no host that EC2 names".to_owned(), |host| format!("host {host}"));
    Says::no(Reason::HostMismatch, format!("instance {} is on {host}, {why}", instance.id))
}

fn standing(s: &Snapshot, allocation: &Allocation, host: &HostId, state: Option<&HostState>) -> Says {
    match state {
        Some(HostState::Available) => Says::yes(Reason::HostAvailable, format!("host {host} is available")),
        Some(HostState::Pending) => Says::no(Reason::HostPending, format!("host {host} is pending")),
        Some(HostState::UnderAssessment) => Says::no(
            Reason::HostUnderAssessment,
            format!("host {host} is under assessment; the instance is left alone"),
        ),
        Some(HostState::PermanentFailure) => {
            let message = format!("host {host} failed for good; EC2 ends its instance unless it can be moved");
            Says::no(Reason::HostPermanentFailure, message)
        }
        Some(HostState::Released | HostState::ReleasedPermanentFailure) => {
            Says::no(Reason::HostLost, format!("host {host} was released by somebody else"))
        }
        Some(HostState::Other(other)) => {
            Says::no(Reason::HostPending, format!("host {host} is in the unknown state {other}"))
        }
        None if s.is_older(allocation.at, CONSISTENT) => {
            Says::no(Reason::HostLost, format!("EC2 does not know host {host} any more"))
        }
        None => Says::no(Reason::HostPending, format!("EC2 does not show host {host} yet")),
    }
}

/// Keeps tags, groups and options of what runs as they should be.
fn tend(s: &Snapshot, instance: &Instance, thought: &mut Thought) {
    let wait = thought.steps.pop();
    let mut notes: Vec<(&'static str, String)> = Vec::new();
    let note = |key: &'static str, text: String, notes: &mut Vec<(&'static str, String)>| {
        if s.machine.annotation(key) != Some(text.as_str()) {
            notes.push((key, text));
        }
    };
    let id = s.journal().launch.map(|launch| launch.id).or_else(|| s.journal().allocation.map(|a| a.id));
    if let (Some(id), Some(cloud)) = (&id, &s.cloud)
        && let Some(belonging) = belonging(s, id)
    {
        let wanted = tags::merged([&cloud.tags, &s.machine.spec.additional_tags], &belonging);
        let applied = tags::recorded(s.machine.annotation(LAST_TAGS_ANNOTATION));
        let change = tags::change(&instance.tags, &wanted, &applied);
        if !change.is_empty() {
            thought.steps.push(Step::Retag { resources: vec![instance.id.to_string()], change });
        }
        note(LAST_TAGS_ANNOTATION, tags::record(&wanted), &mut notes);
        volumes(s, instance, &wanted, thought, &mut notes);
        hosts(s, id, thought, &mut notes);
    }
    named_host(s, instance, thought, &mut notes);
    match &s.groups {
        Some(Ok(groups)) => {
            let wanted: BTreeSet<&SecurityGroupId> = groups.iter().collect();
            for interface in &instance.interfaces {
                let has: BTreeSet<&SecurityGroupId> = interface.security_groups.iter().collect();
                if let Some(interface) = interface.id.clone().filter(|_| has != wanted && !wanted.is_empty()) {
                    thought.steps.push(Step::SetGroups { interface, groups: groups.clone() });
                }
            }
            thought.groups = Some(Says::yes(Reason::SecurityGroupsSynced, "the instance is in its security groups"));
            let record: BTreeMap<&str, BTreeMap<&str, &str>> =
                groups.iter().map(|group| (group.as_str(), BTreeMap::new())).collect();
            note(LAST_SECURITY_GROUPS_ANNOTATION, serde_json::to_string(&record).unwrap_or_default(), &mut notes);
        }
        Some(Err(obstacle)) => {
            thought.groups = Some(Says::no(Reason::SecurityGroupsSyncFailed, obstacle.message.clone()));
        }
        None => {}
    }
    if let Ok(wanted) = request::metadata(&s.machine.spec)
        && instance.state != InstanceState::Pending
        && differs(&instance.metadata, &wanted)
    {
        thought.steps.push(Step::SetMetadata { instance: instance.id.clone(), options: wanted });
    }
    if !notes.is_empty() {
        thought.steps.push(Step::Note { annotations: notes });
    }
    thought.steps.extend(wait);
}

/// Volumes are tagged at the launch; later only what was applied is compared, so that no volume needs to be described.
fn volumes(
    s: &Snapshot,
    instance: &Instance,
    wanted: &Tags,
    thought: &mut Thought,
    notes: &mut Vec<(&'static str, String)>,
) {
    if instance.volumes.is_empty() {
        return;
    }
    let record: BTreeMap<&str, &Tags> = instance.volumes.iter().map(|volume| (volume.as_str(), wanted)).collect();
    let text = serde_json::to_string(&record).unwrap_or_default();
    let before = s.machine.annotation(LAST_VOLUME_TAGS_ANNOTATION);
    if before == Some(text.as_str()) {
        return;
    }
    let read = |text: &str| serde_json::from_str::<BTreeMap<String, Tags>>(text).ok();
    let before: Option<BTreeMap<String, Tags>> = before.and_then(read);
    let fresh = before.is_none() && s.journal().launch.is_some();
    for volume in instance.volumes.iter().filter(|_| !fresh) {
        let had = before.as_ref().and_then(|all| all.get(volume.as_str())).cloned().unwrap_or_default();
        let change = tags::change(&had, wanted, &had.keys().cloned().collect());
        if !change.is_empty() {
            thought.steps.push(Step::Retag { resources: vec![volume.to_string()], change });
        }
    }
    notes.push((LAST_VOLUME_TAGS_ANNOTATION, text));
}

/// Hosts follow the tags of the machine, and name the management cluster that keeps them now.
fn hosts(
    s: &Snapshot,
    id: &crate::journal::AllocationId,
    thought: &mut Thought,
    notes: &mut Vec<(&'static str, String)>,
) {
    let (Some(wanted), Some(allocation)) = (host_tags(s, id), s.journal().allocation) else { return };
    if allocation.phase != Phase::Allocated {
        return;
    }
    let applied = tags::recorded(s.machine.last_host_tags());
    for host in allocation.hosts.iter().filter_map(|id| s.sight()?.hosts.get(id)) {
        if host.state.is_released() || !(s.owns(host) || is_unsigned(s, &allocation, host)) {
            continue;
        }
        let mut change = tags::change(&host.tags, &wanted, &applied);
        if is_still_left(s, &allocation, host) {
            change.unset.extend(taken_back());
        }
        if !change.is_empty() {
            thought.steps.push(Step::Retag { resources: vec![host.id.to_string()], change });
        }
    }
    let text = tags::record(&wanted);
    if s.machine.last_host_tags() != Some(text.as_str()) {
        notes.push((LAST_HOST_TAGS_ANNOTATION, text));
    }
}

/// A host that the spec names stays its owner's: all it is told, and once, is that the cluster uses it.
fn named_host(s: &Snapshot, instance: &Instance, thought: &mut Thought, notes: &mut Vec<(&'static str, String)>) {
    let named = s.machine.spec.host_id.as_deref().and_then(|id| id.parse::<HostId>().ok());
    let Some(host) = named.filter(|host| !s.is_dynamic() && instance.host.as_ref() == Some(host)) else { return };
    let Some(cluster) = s.cluster_name().filter(|_| s.claim.is_none()) else { return };
    let tags = Tags::from([(kubernetes_tag(cluster), "shared".to_owned())]);
    let text = tags::record(&tags);
    if s.machine.last_host_tags() != Some(text.as_str()) {
        thought.steps.push(Step::Share { host, tags });
        notes.push((LAST_HOST_TAGS_ANNOTATION, text));
    }
}

/// Whether an option that is wanted is another one.
fn differs(has: &MetadataOptions, wanted: &MetadataOptions) -> bool {
    let other = |has: &Option<String>, wanted: &Option<String>| has.is_some() && wanted.is_some() && has != wanted;
    other(&has.http_endpoint, &wanted.http_endpoint)
        || other(&has.http_tokens, &wanted.http_tokens)
        || other(&has.http_protocol_ipv6, &wanted.http_protocol_ipv6)
        || other(&has.instance_metadata_tags, &wanted.instance_metadata_tags)
        || (has.http_put_response_hop_limit.is_some()
            && has.http_put_response_hop_limit != wanted.http_put_response_hop_limit)
}
