//! What wakes a claim: itself, its Cluster, quotas, its namespace, identities, and another claim, of any kind, that goes.

use std::sync::{Arc, PoisonError};

use api::key::ObjectKey;
use api::names::hosts::INSTANCE_ANNOTATION;
use claim_kind::held::Held;
use claim_kind::table::Seat;
use kit::queue::{Priority, Work};

use super::asker::{Announced, Feeds};
use crate::facts::World;
use crate::first;
use crate::memory::Hurry;

type Queue = Arc<Work<ObjectKey>>;

/// Wakes claims when they change, or anything they depend on does. A status that only we write wakes nobody.
pub(super) fn claims(feeds: &Feeds, world: &World, work: &Queue, hurry: &Arc<Hurry>) {
    let (all, queue, hurried) = (feeds.clone(), Arc::clone(work), Arc::clone(hurry));
    feeds.claims.observe(move |delta| {
        let old = delta.old.as_ref().and_then(|old| old.as_ref().as_ref());
        let new = delta.new.as_ref().and_then(|new| new.as_ref().as_ref());
        if old.is_none() && new.is_none() {
            return;
        }
        // An index that has caught up with our write tells so by an equal pair, and somebody waits for that.
        let same =
            matches!((old, new), (Some(old), Some(new)) if !Arc::ptr_eq(old, new) && old.same_but_for_status(new));
        if !same {
            let stored = new.map_or(Priority::Background, |claim| {
                first::stored(&claim.journal, claim.annotations.contains_key(INSTANCE_ANNOTATION))
            });
            queue.add_now(delta.key.clone(), hurried.of(&delta.key).min(stored));
        }
        if new.is_none() {
            // Its room under a quota may be another's now.
            wake(&all, &queue);
        }
    });
    let (all, queue, hurried) = (feeds.clone(), Arc::clone(work), Arc::clone(hurry));
    world.clusters.observe(move |delta| {
        for (key, _) in all.claims.by("cluster", &delta.key.to_string()) {
            let priority = hurried.of(&key);
            queue.add_now(key, priority);
        }
    });
    let (all, queue) = (feeds.clone(), Arc::clone(work));
    feeds.holders.observe(move |delta| {
        let other = |held: &&Arc<Held>| *held.kind != *super::KIND;
        let old = delta.old.as_deref().and_then(Option::as_ref).filter(other);
        let new = delta.new.as_deref().and_then(Option::as_ref);
        if old.is_some() && new.is_none() {
            wake(&all, &queue);
        }
    });
    let (all, queue) = (feeds.clone(), Arc::clone(work));
    feeds.quotas.observe(move |_| wake(&all, &queue));
    let (all, queue) = (feeds.clone(), Arc::clone(work));
    feeds.kinds.observe(move |delta| {
        if delta.key.name() == super::KIND && delta.old.as_deref() != delta.new.as_deref() {
            wake(&all, &queue);
        }
    });
    let (all, queue) = (feeds.clone(), Arc::clone(work));
    // An identity may be anybody's, and changes rarely.
    world.identities.observe(move || wake(&all, &queue));
}

/// Notes what claims of other kinds are about to have, and wakes claims when they give it back.
pub(super) fn table(seat: &Seat, announced: Announced, feeds: &Feeds, work: &Queue) {
    let (all, queue) = (feeds.clone(), Arc::clone(work));
    seat.listen(move |news| {
        let mut announced = announced.lock().unwrap_or_else(PoisonError::into_inner);
        match news.held {
            Some(held) => {
                let tenant = news.claim.namespace().unwrap_or_default();
                announced.insert(news.uid.into(), (tenant.into(), held.clone()));
            }
            None => {
                announced.remove(news.uid);
                drop(announced);
                wake(&all, &queue);
            }
        }
    });
}

fn wake(feeds: &Feeds, queue: &Queue) {
    first::all(queue, feeds.keys(|_| true));
}
