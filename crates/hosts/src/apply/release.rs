//! Giving hosts back, or leaving them to their owner: what EC2 says of each, and when to ask again.

use std::time::Duration;

use api::key::ObjectKey;
use api::names::HostId;
use api::names::hosts::ALLOCATION_ANNOTATION;
use api::reasons::DEDICATED_HOST_RELEASE;
use api::reasons::hosts::Reason;
use api::status::find;
use aws::cloud::Cloud;
use kit::fault::{self, Side};
use kit::queue::Priority;
use kit::room::{Flow, Room};
use kit::write::Target;

use super::{annotation, audit};
use crate::asker::Asker;
use crate::classes::Class;
use crate::journal::{Allocation, Phase, legal};
use crate::room::{Error, Keeper};
use crate::snapshot::{Doing, Refusal, Snapshot};
use crate::tags::Change;

/// EC2 shows a released host as such within about this long; only then is it asked for again.
const CONFIRM: Duration = Duration::from_secs(15);
/// How soon to look whether it does.
const SOON: Duration = Duration::from_secs(1);

impl<C: Cloud, A: Asker> Keeper<C, A> {
    pub(super) async fn release(&self, s: &Snapshot, hosts: &[HostId]) -> Result<Flow, Error> {
        self.unchanged(s).await?;
        let shelf = self.shelf(s).await?;
        fault::point(Self::NAME, "ReleaseHosts", Side::Before).await;
        let answer = shelf.release(hosts).await;
        fault::point(Self::NAME, "ReleaseHosts", Side::After).await;
        let judged = match answer.unwrap_or_else(|| Ok(std::sync::Arc::default())) {
            Ok(judged) => judged,
            Err(error) => {
                let class = Class::of(error.kind());
                if error.maybe_done() {
                    hosts.iter().for_each(|host| audit::released(s, host, false));
                }
                self.metrics.released(false, class);
                self.tell_apart(s, class, error.code().unwrap_or_default(), &self.words(s, &error)).await;
                return self.mishap(s, Doing::Release, &error);
            }
        };
        self.memories.went_well(&s.key, Doing::Release);
        let (now, mut next) = (s.now, s.after(CONFIRM));
        let mut left = false;
        for host in hosts {
            let refusal = match judged.verdict(host) {
                Some(Ok(())) => {
                    self.metrics.released(true, Class::Transient);
                    audit::released(s, host, true);
                    next = next.min(s.after(SOON));
                    Refusal {
                        class: None,
                        message: format!("host {host} is released; EC2 has to show it"),
                        releasable_after: None,
                        tries: 0,
                        since: now,
                        until: s.after(CONFIRM),
                    }
                }
                Some(Err(error)) => self.refused(s, host, error),
                None => {
                    audit::released(s, host, false);
                    Refusal {
                        class: Some(Class::Transient),
                        message: format!("EC2 did not say what became of host {host}"),
                        releasable_after: None,
                        tries: 1,
                        since: now,
                        until: s.after(CONFIRM),
                    }
                }
            };
            next = next.min(refusal.until);
            left |= refusal.class.is_some();
            if let (Some(class), Some(Err(error))) = (refusal.class, judged.verdict(host)) {
                self.tell_apart(s, class, &error.code, &refusal.message).await;
            }
            self.memories.change(&s.key, |memory| drop(memory.refusals.insert(host.clone(), refusal)));
        }
        // What is given back only has to be seen to be.
        self.hurry.note(&s.key, if left { Priority::Urgent } else { Priority::Background });
        Ok(Flow::Wait(Some(next)))
    }

    /// A release that fails in another way than before is told once; the first way is told with its condition, and what
    /// passes by itself not at all. Tenants read no words of EC2.
    async fn tell_apart(&self, s: &Snapshot, class: Class, code: &str, message: &str) {
        let failed = Reason::DedicatedHostReleaseFailed;
        if class.of_release() != failed || class == Class::Transient || s.claim.is_some() {
            return;
        }
        let before = find(&s.machine.status.conditions, DEDICATED_HOST_RELEASE);
        if self.memories.is_new(&s.key, &format!("release {code}"))
            && before.is_some_and(|c| c.reason == failed.as_str())
        {
            self.tell(&s.target, true, Reason::FailedReleaseHost.as_str(), message).await;
        }
    }

    fn refused(&self, s: &Snapshot, host: &HostId, error: &aws::port::ItemError) -> Refusal {
        let class = Class::of(error.kind());
        self.metrics.released(false, class);
        let before = s.refusals.get(host).filter(|before| before.class == Some(class));
        let tries = before.map_or(1, |before| before.tries.saturating_add(1));
        let releasable_after = match class {
            Class::TooYoung => error.releasable_after().or_else(|| {
                let since = s.sight()?.hosts.get(host)?.allocated?;
                since.saturating_add(crate::decide::MAC_MINIMUM).ok()
            }),
            _ => None,
        };
        let pause = match class {
            Class::Transient | Class::Terminal | Class::Consistency => {
                // Unknown refusals: from ten seconds to five minutes.
                let factor = 1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX);
                Duration::from_secs(10).saturating_mul(factor).min(Duration::from_secs(300))
            }
            class => class.wait(tries),
        };
        let hourly = s.after(pause);
        let until =
            releasable_after.filter(|at| *at > s.now).map_or(hourly, |at| at.min(s.after(Class::TooYoung.wait(1))));
        Refusal {
            class: Some(class),
            message: format!("host {host}: {}: {}", error.code, error.message),
            releasable_after,
            tries,
            since: before.map_or(s.now, |before| before.since),
            until,
        }
    }

    /// Hands a host over to another claim that has a place on it: first its journal, then the tags of the host.
    pub(super) async fn hand_over(
        &self,
        s: &Snapshot,
        host: &HostId,
        heir: &ObjectKey,
        change: &Change,
    ) -> Result<Flow, Error> {
        self.bequeath(s, host, heir).await?;
        match self.retain(s, host, change).await? {
            Flow::Again => Ok(Flow::Wait(Some(s.after(SOON)))),
            flow => Ok(flow),
        }
    }

    /// Makes another claim the one that has a host. It is one write on that claim, refused if it has changed meanwhile:
    /// whoever leaves and whoever takes over cannot both believe that the other one stays.
    async fn bequeath(&self, s: &Snapshot, host: &HostId, heir: &ObjectKey) -> Result<(), Error> {
        self.unchanged(s).await?;
        let own = s.journal().allocation.ok_or(Error::Moved)?;
        let live = self.asker.fetch(self.writer.client().clone(), heir).await?.ok_or(Error::Moved)?;
        let journal = live.machine.journal.clone().map_err(|_| Error::Moved)?;
        let counts = |known: &Allocation| !known.phase.is_over() && known.hosts.contains(host);
        let known = journal.allocation.filter(counts).ok_or(Error::Moved)?;
        if live.machine.is_paused() || !live.machine.has_finalizer() {
            return Err(Error::Moved);
        }
        if known.phase != Phase::Claimed {
            return if known.from.as_ref() == Some(&own.id) { Ok(()) } else { Err(Error::Moved) };
        }
        let next = known.handed(own.id, self.clock.now());
        legal(Some(&known), &next).map_err(|illegal| Error::Illegal(illegal.to_string()))?;
        let target = Target { kind: self.asker.kind(), key: heir.clone(), uid: live.machine.uid.clone() };
        let body = annotation(ALLOCATION_ANNOTATION, &next.text(&heir.to_string()));
        let version = self.writer.merge(&target, body, Some(&live.version)).await?;
        self.asker.wrote(heir, &version);
        tracing::info!(object = %s.key, host_id = %host, heir = %heir, "host handed over");
        Ok(())
    }

    pub(super) async fn retain(&self, s: &Snapshot, host: &HostId, change: &Change) -> Result<Flow, Error> {
        self.unchanged(s).await?;
        let shelf = self.shelf(s).await?;
        match self.retag(&shelf, &[host.to_string()], change).await {
            Ok(()) => {
                self.memories.went_well(&s.key, Doing::Retain);
                shelf.touch();
                Ok(Flow::Again)
            }
            Err(error) => self.mishap(s, Doing::Retain, &error),
        }
    }
}
