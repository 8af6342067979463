//! Thinks: what has to be done about one claim, from choosing a host to giving it back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::key::ObjectKey;
use api::names::claims as names;
use jiff::Timestamp;
use kit::feed::Version;

use crate::facts::{ClaimFacts, HostFacts, Image, SecretRef};
use crate::mirror::{self, Mirror};
use crate::observe::Snapshot;
use crate::parts::{Part, Progress};
use crate::release::{self, Purpose};
use crate::standing::{Found, Standing, consumer};
use crate::status;
use crate::wish::{After, Data, Defaults, Leave, Mark, Payload, Stay, held_name};
use crate::words::Tell;

/// A pass that nothing woke looks at a release again after this long.
pub const RELEASE_CHECK: Duration = Duration::from_secs(60);

/// One effect, or a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Puts our finalizer on the claim.
    Finalize,
    /// Stores which host is to be bound, on the claim as it was read.
    Intend {
        /// The host.
        host: ObjectKey,
        /// Its uid.
        uid: Box<str>,
    },
    /// Writes the claim's reference, and all that can already be said, on a host that is still free and fit.
    Bind {
        /// The host.
        host: ObjectKey,
        /// How it should look.
        wish: Box<Stay>,
    },
    /// Brings the copy of a secret to the host's namespace, or up to date.
    Copy {
        /// Which one.
        part: Part,
        /// Where to.
        at: SecretRef,
        /// For which host.
        host: ObjectKey,
    },
    /// Stores that a reboot was asked for, on the claim as it was read.
    Pend {
        /// What tells this request from the next.
        id: Box<str>,
        /// How the host is to be rebooted.
        value: Box<str>,
    },
    /// Stores that the host is given up for another one, on the claim as it was read.
    Count,
    /// Makes our host look as it should.
    Sync {
        /// The host.
        host: ObjectKey,
        /// How it should look.
        wish: Box<Stay>,
    },
    /// Takes a request that has been passed on off the claim.
    Withdraw {
        /// The annotation.
        annotation: &'static str,
        /// The value that was passed on.
        value: Box<str>,
    },
    /// Deletes copies that nothing refers to any more.
    Prune {
        /// The copies, as they were when this was decided.
        copies: BTreeMap<ObjectKey, Version>,
    },
    /// Keeps the host's visible metadata on the claim.
    Mirror(Mirror),
    /// Takes the claim's things off a host that goes back.
    Clear {
        /// The host.
        host: ObjectKey,
        /// How it should look.
        wish: Leave,
    },
    /// Begins to clean the disks of a host that goes back and was never cleaned.
    Scrub {
        /// The host.
        host: ObjectKey,
        /// How it should look in the end.
        wish: Leave,
    },
    /// Deletes every copy in a host's namespace, and makes sure that none is left.
    DropCopies {
        /// The host.
        host: ObjectKey,
        /// Whether all that was made for the claim goes, and not only what was made for this host.
        all: bool,
    },
    /// Takes the reference off a host that is clean, and switches it off where that is all that was left to do.
    LetGo {
        /// The host.
        host: ObjectKey,
        /// How it should look before.
        wish: Leave,
        /// What it carries from then on.
        after: After,
        /// Why it goes.
        purpose: Purpose,
    },
    /// Takes our finalizer off a claim that has nothing left outside.
    Unfinalize,
    /// Prepares claim or host for a move, or ends that.
    Move(crate::moving::Act),
    /// Tells people about something that no condition tells.
    Tell(Tell),
    /// Looks again at that time.
    Wait {
        /// When.
        until: Timestamp,
    },
}

impl Step {
    /// Whether the claim's status may be told in the same pass: what the step changes does not show in it.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        matches!(self, Self::Mirror(_) | Self::Prune { .. } | Self::Tell(_) | Self::Wait { .. })
    }
}

/// The plan for one claim.
#[must_use]
pub fn decide(s: &Snapshot) -> Vec<Step> {
    if s.claim.deleting {
        return release::decide(s);
    }
    if s.is_paused() {
        return crate::moving::pausing(s);
    }
    if !s.claim.has_finalizer() {
        return vec![Step::Finalize];
    }
    match s.standing() {
        Standing::Bound { host, extras } => {
            // An extra host that cannot be given back yet holds nobody up.
            let (waits, mut plan): (Vec<Step>, Vec<Step>) = extras
                .iter()
                .flat_map(|extra| release::give_back(s, extra, Purpose::Extra))
                .partition(|step| matches!(step, Step::Wait { .. }));
            plan.extend(stay(s, host));
            plan.extend(waits.into_iter().take(1));
            plan
        }
        // Another host would be a second machine of the same identity: only a person, or the claim's end, helps.
        Standing::Lost { deployed: true } => Vec::new(),
        Standing::Lost { deployed: false } | Standing::Free => seek(s),
    }
}

/// A claim without a host: go on with what was intended, or take what is offered.
fn seek(s: &Snapshot) -> Vec<Step> {
    if s.problem.is_some() {
        return Vec::new();
    }
    // What is left of a host that was lost before it ran anything goes first, and its end brings the next pass. A write
    // of this pass to the claim would say nothing of copies that another process has made meanwhile for its new host.
    if !s.copies.is_empty() {
        return vec![Step::Prune { copies: s.copies.clone() }];
    }
    let mut plan: Vec<Step> = foreign_controller(s).into_iter().collect();
    if let Some(offer) = &s.offer {
        let intended = s.claim.status.selected_host.as_ref();
        if !intended.is_some_and(|i| i.key() == offer.host && *i.uid == *offer.uid) {
            plan.push(Step::Intend { host: offer.host.clone(), uid: offer.uid.clone() });
        }
        let wish = Box::new(wish(s, &offer.host, None));
        plan.push(Step::Bind { host: offer.host.clone(), wish });
    }
    plan.extend(mirror::due(s, None).map(Step::Mirror));
    plan
}

/// A claim with a host: bring the secrets, then the wishes, then what is left over.
fn stay(s: &Snapshot, host: &Found) -> Vec<Step> {
    let mut plan: Vec<Step> = foreign_controller(s).into_iter().collect();
    if host.facts.deleting {
        return tell(s, Tell::HostBeingDeleted).into_iter().collect();
    }
    if release::is_replacing(s, host) {
        return release::give_back(s, host, Purpose::Replace);
    }
    if s.problem.is_some() {
        return plan;
    }
    for (part, progress) in &s.parts {
        if let Progress::Due { at } = progress {
            plan.push(Step::Copy { part: *part, at: at.clone(), host: host.key.clone() });
        }
    }
    let reboot = reboot(s, &host.facts);
    if let Some(Reboot::New { id, value }) = &reboot {
        plan.push(Step::Pend { id: id.clone(), value: value.clone() });
    }
    let forwarded = reboot.as_ref().and_then(Reboot::forwarded);
    let wish = wish(s, &host.key, forwarded);
    if wish.patch(&host.facts).is_some() {
        plan.push(Step::Sync { host: host.key.clone(), wish: Box::new(wish) });
    }
    match &reboot {
        Some(Reboot::New { value, .. } | Reboot::Pending { value, .. }) => {
            plan.push(Step::Withdraw { annotation: names::REBOOT_ANNOTATION, value: value.clone() });
        }
        Some(Reboot::Deferred) => plan.extend(tell(s, Tell::RebootDeferred)),
        None if held_reboots(&s.claim).next().is_some() && !host.facts.is_provisioned() => {
            plan.extend(tell(s, Tell::RebootDeferred));
        }
        None => {}
    }
    if held_reboots(&s.claim).nth(names::HELD_REBOOTS).is_some() {
        plan.extend(tell(s, Tell::TooManyReboots));
    }
    if s.claim.annotation(names::DETACHED_ANNOTATION).is_some()
        && !s.grant.detaching
        && host.facts.annotation(names::DETACHED_ANNOTATION).is_none()
    {
        plan.extend(tell(s, Tell::DetachNotAllowed));
    }
    let unused = unused_copies(s, host);
    if !unused.is_empty() {
        plan.push(Step::Prune { copies: unused });
    }
    plan.extend(crate::moving::block(s, host));
    plan.extend(mirror::due(s, Some(&host.facts)).map(Step::Mirror));
    let looks = [status::untold(s), release::failure_check(s, host)];
    plan.extend(looks.into_iter().flatten().min().map(|until| Step::Wait { until }));
    plan
}

/// Each thing is told once.
fn tell(s: &Snapshot, what: Tell) -> Option<Step> {
    (!s.told.contains(&what)).then_some(Step::Tell(what))
}

/// Another controller writes claims too: it would bind them whatever their kind.
fn foreign_controller(s: &Snapshot) -> Option<Step> {
    let foreign = s.claim.managers.iter().any(|manager| !manager.starts_with("berth"));
    foreign.then(|| tell(s, Tell::ForeignClaimController)).flatten()
}

/// Copies beside the claim's host that neither the plan nor the host uses. Those beside other hosts go with these hosts, or
/// are swept by who looks after them.
fn unused_copies(s: &Snapshot, host: &Found) -> BTreeMap<ObjectKey, Version> {
    let key = |at: &SecretRef| ObjectKey::namespaced(at.namespace.clone().unwrap_or_default(), at.name.clone());
    let wanted = s.parts.values().filter_map(|progress| match progress {
        Progress::Due { at } | Progress::Ready { at } => Some(key(at)),
        _ => None,
    });
    let facts = &host.facts;
    let pull = facts.image.as_ref().and_then(|image| image.oci_auth_secret.as_deref());
    let used: BTreeSet<ObjectKey> =
        wanted.chain(Part::DATA.into_iter().filter_map(|part| facts.data(part).map(key))).collect();
    let beside = |copy: &ObjectKey| {
        let made_for = copy.name().rsplit_once("-hc-").map(|(name, _)| name);
        (copy.namespace(), made_for) == (host.key.namespace(), Some(host.key.name()))
    };
    let unused = |copy: &ObjectKey| beside(copy) && !used.contains(copy) && Some(copy.name()) != pull;
    s.copies.iter().filter(|(copy, _)| unused(copy)).map(|(copy, version)| (copy.clone(), version.clone())).collect()
}

/// What a claim's request for one reboot has come to.
enum Reboot {
    /// It is new.
    New { id: Box<str>, value: Box<str> },
    /// It is on record, and the host may have it.
    Pending { id: Box<str>, value: Box<str> },
    /// The host runs nothing yet.
    Deferred,
}

impl Reboot {
    fn forwarded(&self) -> Option<(Box<str>, Box<str>)> {
        match self {
            Self::New { id, value } | Self::Pending { id, value } => Some((id.clone(), value.clone())),
            Self::Deferred => None,
        }
    }
}

fn reboot(s: &Snapshot, host: &HostFacts) -> Option<Reboot> {
    let asked = s.claim.annotation(names::REBOOT_ANNOTATION)?;
    let value: Box<str> = reboot_value(asked, host.is_provisioned());
    if let Some(pending) = &s.claim.status.pending_reboot {
        return Some(Reboot::Pending { id: pending.id.as_str().into(), value });
    }
    if !host.is_provisioned() {
        return Some(Reboot::Deferred);
    }
    // The version of the claim that carries the request: no other request has it.
    Some(Reboot::New { id: s.version.resource_version.clone(), value })
}

/// What the host is told: `force` only while something runs, and a soft reboot when the tenant's words make no sense.
fn reboot_value(asked: &str, provisioned: bool) -> Box<str> {
    let Ok(serde_json::Value::Object(mut wish)) = serde_json::from_str(asked) else { return "".into() };
    wish.retain(|key, value| match key.as_str() {
        "mode" => value == "hard" || value == "soft",
        "force" => provisioned && value.is_boolean(),
        _ => false,
    });
    if wish.is_empty() { "".into() } else { serde_json::Value::Object(wish).to_string().into() }
}

/// The reboots that a claim holds, by their keys.
fn held_reboots(claim: &ClaimFacts) -> impl Iterator<Item = (&str, &str)> {
    let all = claim.annotations.iter();
    all.filter_map(|(annotation, value)| Some((annotation.strip_prefix(names::REBOOT_PREFIX)?, &**value)))
}

/// How the host of this claim should look.
#[must_use]
pub fn wish(s: &Snapshot, host: &ObjectKey, reboot: Option<(Box<str>, Box<str>)>) -> Stay {
    let claim = &s.claim;
    let bound = s.bound().filter(|found| found.key == *host).map(|found| &*found.facts);
    let same_namespace = host.namespace() == s.key.namespace();
    // A host that runs nothing is not kept from its deployment.
    let runs = bound.is_some_and(HostFacts::is_provisioned);
    let held = held_reboots(claim).filter(|_| runs).take(names::HELD_REBOOTS);
    let held = held.map(|(key, value)| (held_name(&claim.uid, key), reboot_value(value, runs).to_string()));
    let detached = match (claim.annotation(names::DETACHED_ANNOTATION), s.grant.detaching) {
        (Some(_), true) => Mark::Set,
        (Some(_), false) => Mark::AsIs,
        (None, _) => Mark::Unset,
    };
    let cleaning = claim.cleaning();
    // What was granted stays when the permission goes; only a new override needs it.
    let kept = bound.is_some_and(|host| host.cleaning.as_deref() == cleaning);
    Stay {
        consumer: consumer(&s.key, claim),
        online: claim.spec.wants_power(),
        payload: payload(s, host, bound),
        data: data(s, bound),
        cleaning: cleaning.filter(|_| kept || s.grant.cleaning_override || same_namespace).map(Into::into),
        held: held.collect(),
        reboot,
        detached,
        paused: Mark::Unset,
        block_move: true,
    }
}

/// Where the host finds its data. Before everything is there it keeps what it has, so that no deployment starts on half.
fn data(s: &Snapshot, bound: Option<&HostFacts>) -> BTreeMap<Part, Data> {
    let at = |part: Part| match s.parts.get(&part) {
        Some(Progress::Ready { at } | Progress::Due { at }) if bound.is_some() => Data::At(at.clone()),
        Some(Progress::NotAsked) | None => Data::Default,
        Some(_) => Data::AsIs,
    };
    Part::DATA.into_iter().map(|part| (part, at(part))).collect()
}

/// What should run on the host. The image is the last thing to come: with it the host starts to deploy.
fn payload(s: &Snapshot, host: &ObjectKey, bound: Option<&HostFacts>) -> Payload {
    let spec = &s.claim.spec;
    let pending = |progress: &Progress| match progress {
        Progress::NotAsked | Progress::Ready { .. } => false,
        // Copies are brought by the same plan, but only to a host that is ours already.
        Progress::Due { .. } => bound.is_none(),
        Progress::Missing { .. } | Progress::Unusable { .. } => true,
    };
    let waits = s.parts.values().any(pending)
        || (bound.is_none() && Part::ALL.into_iter().any(|part| part.asked(&s.claim).is_some()));
    match (&spec.image, &spec.custom_deploy) {
        // A host that was already in use when it came to us is left as it is until the claim says more.
        (None, None) if bound.is_some_and(|host| Defaults::of(host).adopted) => Payload::AsIs,
        (None, None) => Payload::Nothing,
        _ if waits => Payload::AsIs,
        (Some(image), None) if s.allows(image) => {
            // The tenant's name for the secret means nothing where the host is.
            let pull = match s.parts.get(&Part::Pull) {
                Some(Progress::Ready { at } | Progress::Due { at }) => Some(at.name.clone()),
                _ => None,
            };
            Payload::Image(Image { oci_auth_secret: pull, ..Image::asked(image) })
        }
        (None, Some(custom)) if s.grant.custom_deploy || host.namespace() == s.key.namespace() => {
            Payload::Custom(custom.method.as_str().into())
        }
        _ => Payload::AsIs,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use std::sync::Arc;

    use api::views::BareMetalHost;
    use serde_json::{Value, json};

    use super::*;
    use crate::yard::Offer;

    fn copies(of: &[(&str, &str)]) -> BTreeMap<ObjectKey, Version> {
        let version = |name: &str| Version { uid: name.into(), resource_version: "1".into() };
        of.iter().map(|(place, name)| (ObjectKey::namespaced(*place, *name), version(name))).collect()
    }

    fn snapshot(status: &Value) -> Snapshot {
        let object = json!({
            "metadata": {"namespace": "t", "name": "c", "uid": "u", "finalizers": [names::BAREMETAL_FINALIZER]},
            "spec": {"poweredOn": true, "kind": "baremetal"}, "status": status,
        });
        Snapshot::of(ObjectKey::namespaced("t", "c"), ClaimFacts::of(serde_json::from_value(object).unwrap()))
    }

    #[test]
    fn what_is_left_of_a_lost_host_goes_before_another_is_intended() {
        let mut s = snapshot(&json!({"bareMetalHost": {"namespace": "infra", "name": "gone"}}));
        let host = ObjectKey::namespaced("infra", "h1");
        s.offer = Some(Offer { host: host.clone(), uid: "h1".into(), examined: 1 });
        s.copies = copies(&[("infra", "gone-hc-12345678-userdata")]);
        assert_eq!(decide(&s), [Step::Prune { copies: s.copies.clone() }]);
        s.copies.clear();
        let plan = decide(&s);
        assert!(
            matches!(&plan[..], [Step::Intend { host: intended, .. }, Step::Bind { host: bound, .. }, ..]
                if *intended == host && *bound == host),
            "{plan:?}"
        );
    }

    #[test]
    fn copies_beside_a_host_of_the_same_name_elsewhere_are_not_its_own() {
        let consumer =
            json!({"apiVersion": "metal3.io/v1", "kind": "HostClaim", "namespace": "t", "name": "c", "uid": "u"});
        let object = json!({"metadata": {"namespace": "infra", "name": "h1"}, "spec": {"consumerRef": consumer}});
        let facts = HostFacts::of(serde_json::from_value::<BareMetalHost>(object).unwrap());
        let host = Found { key: ObjectKey::namespaced("infra", "h1"), facts: Arc::new(facts) };
        let mut s = snapshot(&json!({}));
        s.hosts = vec![host.clone()];
        let (own, other, next) = (
            ("infra", "h1-hc-12345678-userdata"),
            ("cellar", "h1-hc-12345678-userdata"),
            ("infra", "h2-hc-12345678-userdata"),
        );
        s.copies = copies(&[own, other, next]);
        assert_eq!(unused_copies(&s, &host), copies(&[own]), "those beside others go with these");
    }

    #[test]
    fn a_host_is_told_of_a_reboot_what_makes_sense_and_no_more() {
        for (asked, provisioned, told) in [
            ("", true, ""),
            ("soon", true, ""),
            (r#"{"mode":"hard"}"#, false, r#"{"mode":"hard"}"#),
            (r#"{"mode":"soft","force":true}"#, true, r#"{"force":true,"mode":"soft"}"#),
            (r#"{"mode":"hard","force":true}"#, false, r#"{"mode":"hard"}"#),
            (r#"{"mode":"later","force":"yes","deleteAction":"delay"}"#, true, ""),
        ] {
            assert_eq!(&*reboot_value(asked, provisioned), told, "{asked} {provisioned}");
        }
    }
}
