//! Claims that nobody looks after: their kind is not registered, or its controller stopped reporting.
//!
//! **Promise.** Such a claim says so: `Associated` is unknown with the reason `NoControllerForKind`. Nothing else of it is
//! touched, and a claim whose kind is served is not touched at all.
//!
//! **Who owns the condition.** The kind's controller, always: it writes over ours as soon as it is back, and ours is
//! written under a name of its own, on exactly the version that was judged, so it never writes over a newer one. Only a
//! claim that the returned controller has nothing to say about has our word taken back.
//!
//! **Cost.** Nothing while kinds are served: a heartbeat wakes no claim. When a kind falls silent or comes back, each of
//! its claims is looked at once.

pub mod decide;
pub mod observe;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::key::ObjectKey;
use api::reasons::ASSOCIATED;
use api::reasons::claims::Reason;
use jiff::Timestamp;
use kit::class::{Class, Classify};
use kit::conditions::Verdict;
use kit::feed::{Feed, Seen, Version};
use kit::manager::{self, Manager};
use kit::queue::{Priority, Work};
use kit::room::{Driver, Flow, Report, Roll, Room, Trouble, Violation};
use kit::write::{self, Writer};
use serde_json::json;

use self::decide::{Service, Step, service};
use self::observe::{BY_KIND, Claims, Snapshot, Word};
use crate::HEARTBEAT;
use crate::decide::{Pulse, pulse_at};
use crate::observe::Kind;

/// The room.
pub struct Unserved {
    claims: Feed<Claims>,
    kinds: Feed<Kind>,
    here: BTreeSet<&'static str>,
    writer: Writer,
}

/// Why a claim could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An index does not show our own last write yet.
    #[error("an index is behind our own write")]
    Behind,
    /// Our word could not be taken back.
    #[error(transparent)]
    Write(#[from] write::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Behind => Class::Stale,
            Self::Write(error) => error.class(),
        }
    }
}

impl Room for Unserved {
    const NAME: &'static str = "claim-kinds";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = Word;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let claim = match self.claims.get(key) {
            Seen::At(claim) => claim,
            Seen::Absent => return Ok(None),
            Seen::Behind => return Err(Error::Behind),
        };
        let Some(version) = self.claims.version(key, &claim) else { return Err(Error::Behind) };
        let pulse = match self.kinds.get(&ObjectKey::cluster_scoped(&*claim.kind)) {
            Seen::At(kind) => Some(pulse_at(kind.heartbeat, now)),
            Seen::Absent => None,
            Seen::Behind => return Err(Error::Behind),
        };
        let here = self.here.contains(&*claim.kind);
        Ok(Some(Snapshot { key: key.clone(), resource: self.claims.kind(), claim, version, here, pulse, now }))
    }

    fn decide(&self, snapshot: &Snapshot) -> Vec<Step> {
        decide::decide(snapshot)
    }

    fn guard(&self, snapshot: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
        let ours = snapshot.claim.is_marked();
        let foreign = plan.contains(&Step::Withdraw) && !ours;
        if foreign { Err(Violation::new("only our own word is taken back")) } else { Ok(()) }
    }

    async fn apply(&self, snapshot: &Snapshot, step: Step) -> Result<Flow, Error> {
        match step {
            Step::Wait { until } => Ok(Flow::Wait(Some(until))),
            Step::Withdraw => {
                // Not by applying less: what the returning controller shares with us of the entry would stay alone.
                let at = format!("/status/conditions/{}", snapshot.claim.place);
                let operations = vec![
                    write::test(&format!("{at}/type"), json!(ASSOCIATED)),
                    write::test(&format!("{at}/reason"), json!(Reason::NoControllerForKind.as_str())),
                    write::remove(&at),
                ];
                let version = self.writer.status_operations(&snapshot.target(), operations).await?;
                self.claims.wrote(&snapshot.key, &version);
                Ok(Flow::Next)
            }
        }
    }

    fn report<'s>(&self, s: &'s Snapshot, _: Option<&Trouble<Error>>) -> Option<Report<'s, Word>> {
        if service(s) != Service::Nobody {
            return None;
        }
        let why = format!(
            "No controller of the kind {} reports, so nobody acts on this claim; see the HostClaimKind of that name.",
            s.claim.kind
        );
        Some(Report {
            target: s.target(),
            generation: s.claim.generation,
            stored: &s.claim.stored,
            next: Word::default(),
            based_on: Some(s.version.clone()),
            verdicts: vec![Verdict::unknown(ASSOCIATED, Reason::NoControllerForKind.as_str(), why)],
        })
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.claims.wrote(key, version);
    }
}

/// Has the claims of a kind looked at when the kind falls silent or comes back, and not at every heartbeat.
pub struct Wards {
    claims: Feed<Claims>,
    work: Arc<Work<ObjectKey>>,
    heard: Mutex<BTreeMap<ObjectKey, bool>>,
}

impl Wards {
    /// A kind was looked at; `None` when it is not registered any more.
    pub fn note(&self, kind: &ObjectKey, pulse: Option<Pulse>) {
        let alive = matches!(pulse, Some(Pulse::Alive(_)));
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match pulse {
            Some(_) => heard.insert(kind.clone(), alive),
            None => heard.remove(kind),
        };
        drop(heard);
        if before.unwrap_or_default() == alive {
            return;
        }
        for (claim, _) in self.claims.by(BY_KIND, kind.name()) {
            // A controller that comes back speaks for its claims itself; only what it is silent about is left to us.
            let pause = if alive { HEARTBEAT } else { std::time::Duration::ZERO };
            self.work.add_after(claim, pause, Priority::Background);
        }
    }
}

/// Adds the room to a manager; kinds served by rooms of this process are named in `here`.
///
/// # Errors
/// When another room follows one of the kinds in a way that cannot be shared.
pub fn mount(manager: &Manager, here: &[&'static str]) -> Result<Wards, manager::Error> {
    let (claims, kinds) = (manager.feed::<Claims>()?, manager.feed::<Kind>()?);
    let room = Unserved {
        claims: claims.clone(),
        kinds: kinds.clone(),
        here: here.iter().copied().collect(),
        writer: Writer::new(manager.client().clone(), Unserved::NAME),
    };
    let driver = Driver::new(manager, room);
    let work = Arc::clone(driver.work());
    let woken = Arc::clone(&work);
    claims.observe(move |delta| woken.add_now(delta.key.clone(), Priority::Background));
    Roll::open(manager, Unserved::NAME, "HostClaim").follow(&claims, |_, claim| claim.stand());
    let ready = claims.clone();
    let keys = claims.clone();
    let open = async move {
        ready.settled().await;
        kinds.settled().await;
    };
    manager.drive(&driver, open, move |accepts| keys.keys(accepts));
    Ok(Wards { claims, work, heard: Mutex::default() })
}
