//! Thinks: how a host goes back. Nothing here asks a policy: a tenant who lost access can still leave.

use std::time::Duration;

use api::names::claims as names;
use api::own::OnHostFailure;
use jiff::Timestamp;

use crate::decide::{RELEASE_CHECK, Step};
use crate::facts::{Consumer, HostFacts};
use crate::moving;
use crate::names::reuse_value;
use crate::observe::Snapshot;
use crate::standing::{Found, Standing};
use crate::wish::{After, CLUSTER_GROUP, Leave, is_uncleaned};

/// A host that failed a tenant is not offered to it again for this long.
const AVOID: Duration = Duration::from_secs(24 * 60 * 60);
/// So many failed deployments are enough to try another host.
const FAILURES: i64 = 3;
/// A host that cannot be registered for this long is as good as failed.
const REGISTRATION: Duration = Duration::from_secs(10 * 60);
/// A claim tries so many other hosts, then it waits for a person.
pub const REPLACEMENTS: i32 = 3;

/// Why a host goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The claim is being deleted.
    Delete,
    /// The claim has another host.
    Extra,
    /// The host failed the claim, which wants another one.
    Replace,
}

/// What a host that goes back waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Its controller takes off what ran there.
    Cleaning,
    /// Its controller failed to.
    Failed {
        /// The class of the failure.
        class: Box<str>,
    },
    /// Somebody has detached it from its controller.
    Detached,
    /// It runs what nobody deployed, and is still powered on.
    PoweredOn,
}

/// The plan for a claim that is being deleted.
#[must_use]
pub fn decide(s: &Snapshot) -> Vec<Step> {
    if !s.claim.has_finalizer() {
        return Vec::new();
    }
    // The object goes on living elsewhere, and its host with it.
    if is_moved(s) {
        return vec![Step::Unfinalize];
    }
    if s.is_paused() {
        return Vec::new();
    }
    match s.standing() {
        Standing::Bound { host, extras } => {
            let mut plan = Vec::new();
            for extra in extras {
                plan.extend(
                    give_back(s, extra, Purpose::Extra).into_iter().filter(|step| !matches!(step, Step::Wait { .. })),
                );
            }
            plan.extend(give_back(s, host, Purpose::Delete));
            plan
        }
        Standing::Lost { .. } | Standing::Free if s.copies.is_empty() => vec![Step::Unfinalize],
        Standing::Lost { .. } | Standing::Free => {
            vec![Step::Prune { copies: s.copies.clone() }, Step::Unfinalize]
        }
    }
}

/// Whether the claim was moved to another management cluster: its mark alone is a tenant's word, so the host must be
/// ready to travel too, or there must be none, nor have been one where no move goes.
#[must_use]
pub fn is_moved(s: &Snapshot) -> bool {
    let status = &s.claim.status;
    let bound = status.bare_metal_host.as_ref().map(|host| host.namespace.as_str());
    let chosen = status.selected_host.as_ref().map(|host| host.namespace.as_str());
    let elsewhere = bound.into_iter().chain(chosen).any(|place| Some(place) != s.key.namespace());
    s.claim.annotation(names::DELETE_FOR_MOVE_ANNOTATION).is_some()
        && match s.bound() {
            Some(host) => s.is_at_home() && moving::is_packed(host),
            None => !elsewhere,
        }
}

/// The plan for one host that goes back.
#[must_use]
pub fn give_back(s: &Snapshot, host: &Found, purpose: Purpose) -> Vec<Step> {
    let claim = &s.claim;
    if purpose == Purpose::Replace && is_selected(s, host) {
        return vec![Step::Count];
    }
    let wish = Leave {
        uid: claim.uid.clone(),
        fast_track: s.config.fast_track,
        replacing: purpose == Purpose::Replace,
        keeps_disks: keeps_disks(s, purpose),
    };
    let after = after(s, &host.facts, purpose);
    let left = left(&wish, &host.facts);
    let at_once = matches!(left, Left::Power(_))
        && (purpose, &after) == (Purpose::Delete, &After::Free)
        && is_at_rest(&host.facts);
    if left != Left::Nothing && !at_once {
        return vec![Step::Clear { host: host.key.clone(), wish }];
    }
    if wish.scrub(&host.facts).is_some() && !is_forced(&host.facts) {
        return vec![Step::Scrub { host: host.key.clone(), wish }];
    }
    let dirty = blocked(&host.facts).is_some() || (is_uncleaned(&host.facts) && !wish.keeps_disks);
    if dirty && !is_forced(&host.facts) {
        let until = s.now.checked_add(RELEASE_CHECK).unwrap_or(s.now);
        return vec![Step::Wait { until }];
    }
    // The status still says that something runs there, and what is lost then is lost for good: it is told first.
    if purpose == Purpose::Replace && claim.status.was_deployed() {
        return vec![Step::Wait { until: s.now.checked_add(RELEASE_CHECK).unwrap_or(s.now) }];
    }
    let all = is_last(s, host, purpose);
    let release = Step::LetGo { host: host.key.clone(), wish, after, purpose };
    // Beside the claim the host reads the tenant's own secrets, and there are no copies.
    if host.key.namespace() == s.key.namespace() {
        return vec![release];
    }
    vec![Step::DropCopies { host: host.key.clone(), all }, release]
}

/// What a host on its way back has still to be told, but that it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// Whether it is to be switched on.
    Power(bool),
    /// More than that.
    More,
}

/// What a host has still to be told before, or when, it is let go.
#[must_use]
pub fn left(wish: &Leave, host: &HostFacts) -> Left {
    let Some(body) = wish.patch(host) else { return Left::Nothing };
    let only = |part: &serde_json::Value| part.as_object().is_some_and(|fields| fields.len() == 1);
    let spec = body.get("spec").filter(|spec| only(&body) && only(spec));
    spec.and_then(|spec| spec.get("online")?.as_bool()).map_or(Left::More, Left::Power)
}

/// Whether nothing runs on a host, is on its way to it, or is being taken off: it can be let go by the write that switches it
/// off, since nobody waits for its power.
fn is_at_rest(host: &HostFacts) -> bool {
    matches!(&*host.state, "available" | "ready") && blocked(host).is_none() && !is_uncleaned(host) && !is_forced(host)
}

/// Whether a claim that is being deleted has nothing left once this host is let go.
#[must_use]
pub fn is_last(s: &Snapshot, host: &Found, purpose: Purpose) -> bool {
    purpose == Purpose::Delete
        && matches!(s.standing(), Standing::Bound { host: one, extras } if extras.is_empty() && one.key == host.key)
}

/// Whether the disks stay as they are for the next claim of the group: the claim asks for it, and may.
fn keeps_disks(s: &Snapshot, purpose: Purpose) -> bool {
    purpose == Purpose::Delete
        && reuse_group(s).is_some()
        && s.claim.cleaning() == Some("disabled")
        && (s.grant.cleaning_override || s.is_at_home())
        && s.claim.annotation(names::UNHEALTHY_ANNOTATION).is_none()
}

/// What a host waits for before it may be let go; `None` when it is clean.
#[must_use]
pub fn blocked(host: &HostFacts) -> Option<Block> {
    if host.image.is_some() || host.custom_deploy.is_some() {
        // What is deployed once more to be cleaned away can fail as well.
        return Some(match &host.error {
            Some(class) if is_uncleaned(host) => Block::Failed { class: class.clone() },
            Some(_) | None => Block::Cleaning,
        });
    }
    if host.annotation(names::DETACHED_ANNOTATION).is_some() || &*host.operational == "detached" {
        return Some(Block::Detached);
    }
    match &*host.state {
        "" | "unmanaged" | "registering" | "match profile" | "inspecting" | "ready" | "available" => None,
        "externally provisioned" if host.powered_on == Some(false) => None,
        "externally provisioned" => Some(Block::PoweredOn),
        _ => Some(match &host.error {
            Some(class) => Block::Failed { class: class.clone() },
            None => Block::Cleaning,
        }),
    }
}

/// Whether the administrator ordered to let the host go as it is.
#[must_use]
pub fn is_forced(host: &HostFacts) -> bool {
    host.annotation(names::FORCE_RELEASE_ANNOTATION).is_some()
}

fn after(s: &Snapshot, host: &HostFacts, purpose: Purpose) -> After {
    if is_forced(host) {
        return After::Quarantine;
    }
    let tenant: Box<str> = s.key.namespace().unwrap_or_default().into();
    let blamed = s.claim.annotation(names::UNHEALTHY_ANNOTATION).is_some();
    if blamed && s.grant.trusts_tenant_health {
        return After::Unhealthy;
    }
    if blamed || purpose == Purpose::Replace {
        return After::Avoid { tenant, until: later(s.now, AVOID) };
    }
    match reuse_group(s).filter(|_| purpose == Purpose::Delete) {
        Some(group) => After::Reserve {
            keeper: keeper(s),
            label: reuse_value(&tenant, group).into(),
            group: format!("{tenant}/{group}").into(),
            until: later(s.now, s.config.reuse_ttl),
            disks: keeps_disks(s, purpose),
        },
        None => After::Free,
    }
}

/// The group whose next claim should get the host; none when its cluster goes away as a whole.
fn reuse_group(s: &Snapshot) -> Option<&str> {
    let group = s.claim.spec.node_reuse.as_deref().filter(|group| !group.is_empty())?;
    if s.claim.cluster.is_some() && s.cluster.is_none() {
        return None;
    }
    (!s.cluster.as_ref().is_some_and(|cluster| cluster.deleting)).then_some(group)
}

/// Who keeps a host between two claims: the cluster, or the tenant's namespace when there is none.
fn keeper(s: &Snapshot) -> Consumer {
    let namespace: Box<str> = s.key.namespace().unwrap_or_default().into();
    match &s.cluster {
        Some(cluster) => Consumer {
            group: CLUSTER_GROUP.into(),
            kind: "Cluster".into(),
            namespace,
            name: cluster.name.clone(),
            uid: cluster.uid.clone(),
        },
        None => Consumer {
            group: "".into(),
            kind: "Namespace".into(),
            namespace: "".into(),
            name: namespace,
            uid: "".into(),
        },
    }
}

fn later(now: Timestamp, pause: Duration) -> Box<str> {
    now.checked_add(pause).unwrap_or(now).to_string().into()
}

/// Whether the host is on its way back because it failed the claim, or should be.
#[must_use]
pub fn is_replacing(s: &Snapshot, host: &Found) -> bool {
    host.facts.annotation(names::REPLACING_ANNOTATION) == Some(&*s.claim.uid) || has_failed(s, host)
}

fn has_failed(s: &Snapshot, host: &Found) -> bool {
    may_replace(s, host)
        && (host.facts.fail_count >= FAILURES || registration_ends(s, &host.facts).is_some_and(|end| end <= s.now))
}

/// When a host that cannot be registered will have failed, so that somebody looks then.
#[must_use]
pub fn failure_check(s: &Snapshot, host: &Found) -> Option<Timestamp> {
    registration_ends(s, &host.facts).filter(|end| may_replace(s, host) && *end > s.now)
}

fn may_replace(s: &Snapshot, host: &Found) -> bool {
    let status = &s.claim.status;
    let tried = status.replacements.unwrap_or_default();
    // The last one is counted before it is carried out.
    let counted = !is_selected(s, host);
    s.claim.spec.on_host_failure == OnHostFailure::Replace
        && host.facts.error.is_some()
        && !host.facts.is_provisioned()
        && (tried < REPLACEMENTS || (tried == REPLACEMENTS && counted))
}

fn is_selected(s: &Snapshot, host: &Found) -> bool {
    s.claim.status.selected_host.as_ref().is_some_and(|selected| selected.key() == host.key)
}

fn registration_ends(s: &Snapshot, host: &HostFacts) -> Option<Timestamp> {
    if host.error.as_deref() != Some("registration error") {
        return None;
    }
    s.failing_since?.checked_add(REGISTRATION).ok()
}
