//! What must hold of any plan, whatever `decide` thinks.

use kit::room::Violation;

use crate::decide::Step;
use crate::observe::Snapshot;
use crate::release;
use crate::standing::{Standing, is_ours};
use crate::wish::Payload;

/// Nothing outside changes before our finalizer is stored; a host is bound only after it was intended; only a host
/// that is ours is changed; one that still runs something is not let go; a finalizer goes last.
///
/// # Errors
/// The rule that is broken.
pub fn guard(s: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    let rule = |holds: bool, words: &str| if holds { Ok(()) } else { Err(Violation::new(words)) };
    let ours = |key: &api::key::ObjectKey| {
        s.hosts.iter().find(|h| h.key == *key && is_ours(h.facts.consumer.as_ref(), &s.key, &s.claim))
    };
    let mut intended = s.claim.status.selected_host.as_ref().map(|host| host.key());
    let mut dropped = Vec::new();
    for (number, step) in plan.iter().enumerate() {
        if !matches!(step, Step::Finalize | Step::Tell(_) | Step::Wait { .. } | Step::Prune { .. }) {
            rule(s.claim.has_finalizer(), "an effect needs a stored finalizer")?;
        }
        match step {
            Step::Intend { host, .. } => {
                rule(
                    matches!(s.standing(), Standing::Free | Standing::Lost { deployed: false }),
                    "a claim with a host takes no other",
                )?;
                rule(!s.claim.deleting, "a claim that is being deleted takes no host")?;
                intended = Some(host.clone());
            }
            Step::Bind { host, wish } => {
                rule(!s.claim.deleting && !s.is_paused(), "a claim that is deleted or paused binds no host")?;
                rule(intended.as_ref() == Some(host), "a host is intended before it is bound")?;
                rule(wish.consumer.uid == s.claim.uid, "a host is bound with the claim's uid")?;
            }
            Step::Sync { host, wish } => {
                rule(ours(host).is_some(), "only a host of ours is changed")?;
                rule(
                    !s.claim.deleting && !s.is_paused(),
                    "a host is not driven for a claim that is deleted or paused",
                )?;
                let copies =
                    plan.get(number..).unwrap_or_default().iter().any(|later| matches!(later, Step::Copy { .. }));
                rule(!(copies && matches!(wish.payload, Payload::Image(_))), "secrets come before the image")?;
            }
            Step::Clear { host, .. } | Step::Scrub { host, .. } => {
                rule(ours(host).is_some(), "only a host of ours is cleared")?;
            }
            Step::DropCopies { host, .. } => dropped.push(host.clone()),
            Step::LetGo { host, wish, after, .. } => {
                let Some(found) = ours(host) else { return Err(Violation::new("only a host of ours is let go")) };
                let clean = after.may_follow(&found.facts) || release::is_forced(&found.facts);
                rule(clean, "a host that is not clean is not let go")?;
                let left = release::left(wish, &found.facts);
                rule(left != release::Left::More, "what is a claim's own is off the host before it is let go")?;
                let home = host.namespace() == s.key.namespace();
                rule(home || dropped.contains(host), "copies of secrets go before the host")?;
            }
            Step::Unfinalize => {
                rule(number + 1 == plan.len(), "the finalizer goes last")?;
                let moved = release::is_moved(s);
                rule(s.claim.deleting && (moved || s.bound().is_none()), "the finalizer goes when no host is left")?;
            }
            Step::Finalize
            | Step::Copy { .. }
            | Step::Pend { .. }
            | Step::Count
            | Step::Withdraw { .. }
            | Step::Prune { .. }
            | Step::Mirror(_)
            | Step::Move(_)
            | Step::Tell(_)
            | Step::Wait { .. } => {}
        }
    }
    Ok(())
}
