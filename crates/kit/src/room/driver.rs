//! Runs passes: the same order, deadlines, logging and back-off for every room.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::reasons::{PAUSED, READY};
use api::status::Conditioned;
use futures::FutureExt;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{Flow, Meter, Report, Room, Trouble};
use crate::backoff::Backoff;
use crate::class::{Class, Classify};
use crate::clock::Clock;
use crate::conditions::{State, Verdict, fold, ours};
use crate::fault::{self, Side};
use crate::lease::Leadership;
use crate::manager::Manager;
use crate::queue::{Priority, Work, slot};
use crate::telemetry::{Failure, Pass};
use crate::teller::{Crowd, Teller};
use crate::write::Writer;

/// How long reading the world may take.
const OBSERVE: Duration = Duration::from_secs(30);
/// How long one step may take; the requests inside have shorter deadlines of their own.
const STEP: Duration = Duration::from_secs(60);
/// How long telling about a pass may take: the status write, and an event per transition.
const REPORT: Duration = Duration::from_secs(45);

/// How many parts a resync is done in.
const SLOTS: u64 = 64;
/// A key met without leadership comes back this much later; normally its queue has been paused by then.
const NOT_LEADING: Duration = Duration::from_secs(1);

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Something was written or called.
    Changed,
    /// Nothing had to be done, and nothing was sent.
    Unchanged,
    /// Nothing can be done before a time or an event.
    Waiting,
    /// The decision was based on the past; another pass follows at once.
    Stale,
    /// It failed and will be tried again, or waits for a change.
    Failed,
    /// The object does not exist any more.
    Gone,
}

impl Outcome {
    /// The label value in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Waiting => "waiting",
            Self::Stale => "stale",
            Self::Failed => "failed",
            Self::Gone => "gone",
        }
    }
}

/// Runs one room: its queue, its workers, its passes.
pub struct Driver<R: Room> {
    room: R,
    work: Arc<Work<R::Key>>,
    backoff: Backoff<R::Key>,
    clock: Clock,
    meter: Meter,
    writer: Writer,
    teller: Teller,
    leadership: Leadership,
    crowd: Arc<Crowd>,
    passes: AtomicU64,
}

/// What a pass leaves behind for those who look at the process.
#[derive(Default)]
struct Trace {
    /// The kind of its object, once that is known.
    kind: Option<String>,
    /// The reason that its object shows, if something went wrong.
    reason: Option<&'static str>,
    /// What went wrong.
    failure: Option<Failure>,
}

/// What applying a plan led to.
struct Acted<E> {
    changed: bool,
    flow: Flow,
    trouble: Option<Trouble<E>>,
}

impl<R: Room> Driver<R> {
    /// A driver for `room` on the manager's client, clock and meters. [`Manager::drive`] starts it.
    #[must_use]
    pub fn new(manager: &Manager, room: R) -> Arc<Self> {
        let clock = manager.clock().clone();
        let (work, leadership) = (Work::new(clock.clone()), manager.leadership());
        let (queue, leads) = (Arc::downgrade(&work), leadership.clone());
        manager.meter().open(R::NAME, move || queue.upgrade().filter(|_| leads.leads()).map(|work| work.depth()));
        Arc::new(Self {
            work,
            backoff: Backoff::new(clock.clone(), R::PACE),
            meter: manager.meter().clone(),
            writer: Writer::new(manager.client().clone(), R::NAME),
            teller: Teller::start(manager, R::NAME),
            leadership,
            crowd: manager.common(),
            passes: AtomicU64::new(0),
            room,
            clock,
        })
    }

    /// The queue, for wiring feeds to it.
    #[must_use]
    pub fn work(&self) -> &Arc<Work<R::Key>> {
        &self.work
    }

    /// The room itself, for hooks and explanations.
    #[must_use]
    pub fn room(&self) -> &R {
        &self.room
    }

    /// Asks for every key once per `period`, a slot at a time, without holding a timer for each. `keys` lists the keys
    /// that a filter accepts.
    pub(crate) async fn resync(
        self: Arc<Self>,
        period: Duration,
        keys: impl Fn(&dyn Fn(&R::Key) -> bool) -> Vec<R::Key>,
        stop: CancellationToken,
    ) {
        let pause = period / u32::try_from(SLOTS).unwrap_or(u32::MAX);
        for turn in (0..SLOTS).cycle() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            for key in keys(&|key| slot(key, SLOTS) == turn) {
                self.again(&key, Duration::ZERO, Priority::Background);
            }
        }
    }

    /// One worker: passes until it is told to stop.
    pub(crate) async fn worker(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let turn = tokio::select! {
                // Never start another pass once told to stop; a pass under way runs to its end.
                biased;
                () = stop.cancelled() => return,
                turn = self.work.next() => turn,
            };
            // The queue is paused when leadership ends, but a process that was itself paused hears of that too late:
            // the clock is asked before every pass and every step.
            if !self.leadership.leads() {
                self.again(&turn, NOT_LEADING, Priority::Urgent);
            } else if self.pass(&turn).await == Outcome::Stale {
                // The change that it waits for may be here in a moment.
                turn.too_early();
            }
        }
    }

    /// One pass over `key`, with everything that follows from it.
    pub async fn pass(&self, key: &R::Key) -> Outcome {
        let _joined = self.crowd.join();
        let number = self.passes.fetch_add(1, Ordering::Relaxed) + 1;
        let span = tracing::info_span!("pass", room = R::NAME, object = %key, pass = number);
        let began = self.clock.instant();
        let mut trace = Trace::default();
        // What the two halves do is caught where it can still be reported; this is for everything in between.
        let outcome = AssertUnwindSafe(self.reconcile(key, &mut trace)).catch_unwind().instrument(span.clone()).await;
        let outcome =
            outcome.unwrap_or_else(|_| span.in_scope(|| self.failed::<R::Error>(key, &Trouble::Panicked, &mut trace)));
        let took = self.clock.instant().saturating_duration_since(began);
        let elapsed_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let _entered = span.enter();
        if outcome == Outcome::Changed {
            tracing::info!(outcome = outcome.as_str(), elapsed_ms, "pass");
        } else {
            tracing::debug!(outcome = outcome.as_str(), elapsed_ms, "pass");
        }
        let (kind, failure) = (trace.kind.as_deref(), trace.failure);
        let ended = Pass { room: R::NAME, kind, object: key, outcome: outcome.as_str(), took, failure };
        self.meter.pass(&self.clock, &ended);
        self.room.passed(key, outcome, took);
        outcome
    }

    async fn reconcile(&self, key: &R::Key, trace: &mut Trace) -> Outcome {
        let now = self.clock.now();
        let snapshot = match within(OBSERVE, self.room.observe(key, now)).await {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => {
                self.backoff.forget(key);
                return Outcome::Gone;
            }
            Err(trouble) => return self.failed(key, &trouble, trace),
        };
        let acted = self.act(&snapshot).await;
        // A decision on the past is not worth reporting: the next pass sees the present.
        if let Some(trouble) = &acted.trouble
            && trouble.class() == Class::Stale
        {
            return self.failed(key, trouble, trace);
        }
        let report = self.report(key, &snapshot, acted.trouble.as_ref(), now, trace);
        let reported = tokio::time::timeout(REPORT, report).await.unwrap_or(Err(Trouble::TimedOut));
        match (&acted.trouble, reported) {
            (Some(trouble), Ok(_)) => self.failed(key, trouble, trace),
            (Some(trouble), Err(unreported)) if trouble.class() != Class::Terminal => {
                tracing::warn!(error = %unreported.line(), "the failure of this pass could not be reported");
                self.failed(key, trouble, trace)
            }
            // Nobody can correct what nobody was told, so a report that failed is tried again whatever became of it.
            (_, Err(unreported)) => match unreported.class() {
                Class::Terminal => self.after(key, &unreported, Class::Transient { at_least: None }, trace),
                class => self.after(key, &unreported, class, trace),
            },
            (None, Ok(wrote)) => {
                self.backoff.reset(key);
                self.look_again(key, acted.flow, now);
                match acted.flow {
                    _ if acted.changed || wrote => Outcome::Changed,
                    Flow::Wait(_) => Outcome::Waiting,
                    Flow::Next | Flow::Again => Outcome::Unchanged,
                }
            }
        }
    }

    async fn act(&self, snapshot: &R::Snapshot) -> Acted<R::Error> {
        let mut acted = Acted { changed: false, flow: Flow::Next, trouble: None };
        let plan = match catch_unwind(AssertUnwindSafe(|| {
            let plan = self.room.decide(snapshot);
            let verdict = self.room.guard(snapshot, &plan);
            (plan, verdict)
        })) {
            Ok((plan, Ok(()))) => plan,
            Ok((_, Err(violation))) => {
                acted.trouble = Some(Trouble::Refused(violation));
                return acted;
            }
            Err(_) => {
                acted.trouble = Some(Trouble::Panicked);
                return acted;
            }
        };
        for step in plan {
            if !self.leadership.leads() {
                acted.trouble = Some(Trouble::NotLeading);
                return acted;
            }
            let name = step_name(&step);
            tracing::debug!(step = name, "step");
            fault::point(R::NAME, &name, Side::Before).await;
            // Beyond our term another one may act; a step survives being dropped.
            let limit = self.leadership.remaining().unwrap_or_default().min(STEP);
            let done = within(limit, self.room.apply(snapshot, step)).await;
            fault::point(R::NAME, &name, Side::After).await;
            match done {
                Ok(Flow::Next) => acted.changed = true,
                Ok(flow) => {
                    acted.flow = flow;
                    break;
                }
                Err(trouble) => {
                    acted.trouble = Some(trouble);
                    break;
                }
            }
        }
        acted
    }

    /// Folds the status and writes it if it differs; says whether it wrote.
    async fn report(
        &self,
        key: &R::Key,
        snapshot: &R::Snapshot,
        trouble: Option<&Trouble<R::Error>>,
        now: Timestamp,
        trace: &mut Trace,
    ) -> Result<bool, Trouble<crate::write::Error>> {
        let report = catch_unwind(AssertUnwindSafe(|| self.room.report(snapshot, trouble)));
        let Some(report) = report.map_err(|_| Trouble::Panicked)? else { return Ok(false) };
        let Report { target, generation, stored, mut next, based_on, verdicts } = report;
        trace.kind = Some(target.kind.kind.clone());
        trace.reason = trouble.and_then(|_| shown(&verdicts));
        let folded = fold(stored.conditions(), &verdicts, generation, now);
        // Conditions of others are theirs to apply: with ours they would be taken over, and set back to what we saw.
        let mut before = stored.clone();
        *before.conditions_mut() = ours(stored.conditions(), &verdicts);
        *next.conditions_mut() = ours(&folded.conditions, &verdicts);
        next.set_observed_generation(generation);
        if next == before {
            return Ok(false);
        }
        // The status carries no version, so one computed by an old leader would overwrite the new leader's.
        if !self.leadership.leads() {
            return Err(Trouble::NotLeading);
        }
        let written = match &based_on {
            Some(version) => self.writer.status_at(&target, &next, version).await,
            None => self.writer.status(&target, &next).await,
        };
        match written {
            Ok(version) => self.room.wrote(key, &version),
            Err(error) if self.room.tolerates(&error) => return Ok(false),
            Err(error) => return Err(Trouble::Failed(error)),
        }
        for transition in &folded.transitions {
            if let Some(notice) = self.room.event(transition) {
                self.teller.say(&target, notice.warning, notice.reason, &transition.message).await;
            }
        }
        Ok(true)
    }

    fn failed<E: Classify + std::error::Error>(
        &self,
        key: &R::Key,
        trouble: &Trouble<E>,
        trace: &mut Trace,
    ) -> Outcome {
        self.after(key, trouble, trouble.class(), trace)
    }

    fn after<E: Classify + std::error::Error>(
        &self,
        key: &R::Key,
        trouble: &Trouble<E>,
        class: Class,
        trace: &mut Trace,
    ) -> Outcome {
        if class != Class::Stale {
            trace.failure = Some(Failure { sort: trouble.sort(), class: class.as_str(), reason: trace.reason });
        }
        if matches!(trouble, Trouble::Panicked) {
            self.meter.panic(R::NAME);
        }
        match class {
            Class::Stale => {
                self.again(key, self.backoff.stale(key.clone()), Priority::Urgent);
                tracing::debug!(error = %trouble.line(), "decided on the past, looking again");
                Outcome::Stale
            }
            Class::Transient { at_least } => {
                let pause = self.backoff.fail(key.clone(), at_least);
                self.again(key, pause, Priority::Background);
                self.meter.failure(R::NAME, class);
                let next_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                tracing::warn!(error = %trouble.line(), next_ms, "pass failed, trying again");
                Outcome::Failed
            }
            Class::Terminal => {
                self.backoff.reset(key);
                self.meter.failure(R::NAME, class);
                tracing::error!(error = %trouble.line(), "pass failed, waiting for a change");
                Outcome::Failed
            }
        }
    }

    fn look_again(&self, key: &R::Key, flow: Flow, began: Timestamp) {
        match flow {
            Flow::Again => self.again(key, Duration::ZERO, Priority::Urgent),
            Flow::Wait(Some(until)) => {
                self.again(key, rest(until, began, self.clock.now()), Priority::Background);
            }
            Flow::Wait(None) | Flow::Next => {}
        }
    }

    /// Asks for a key once more, as urgently as the room says.
    fn again(&self, key: &R::Key, pause: Duration, usual: Priority) {
        self.work.add_after(key.clone(), pause, self.room.priority(key, usual));
    }
}

/// How long a pass that wants to be followed at `until` is waited for. What it took itself is part of that, but one that took
/// longer still leaves others a turn.
fn rest(until: Timestamp, began: Timestamp, now: Timestamp) -> Duration {
    let since = |from: Timestamp| Duration::try_from(until.duration_since(from)).unwrap_or(Duration::ZERO);
    since(now).max(since(began) / 4)
}

/// The reason that tells most of an object with which something went wrong: that of its summary, or, where this says no more
/// than that it does not hold, that of the first aspect that does not.
fn shown(verdicts: &[Verdict]) -> Option<&'static str> {
    let mut open = verdicts.iter().filter(|verdict| verdict.state != State::True && verdict.type_ != PAUSED);
    let summary = open.clone().find(|verdict| verdict.type_ == READY);
    let says = |verdict: &&Verdict| verdict.reason.strip_prefix("Not") != Some(verdict.type_);
    summary.filter(says).or_else(|| open.find(|verdict| verdict.type_ != READY)).or(summary).map(|found| found.reason)
}

/// Runs one touching half under a deadline; a panic in it stays in it.
async fn within<T, E>(limit: Duration, work: impl Future<Output = Result<T, E>>) -> Result<T, Trouble<E>> {
    match tokio::time::timeout(limit, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(error))) => Err(Trouble::Failed(error)),
        Ok(Err(_)) => Err(Trouble::Panicked),
        Err(_) => Err(Trouble::TimedOut),
    }
}

/// The variant's name, which is how fault points and logs call a step.
fn step_name(step: &impl std::fmt::Debug) -> String {
    let text = format!("{step:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_takes_longer_than_it_wants_to_wait_still_waits() {
        let at = |ms: i64| Timestamp::from_millisecond(ms).unwrap();
        for (until, now, rests) in [(400, 0, 400), (400, 100, 300), (400, 350, 100), (400, 5000, 100), (0, 10, 0)] {
            assert_eq!(rest(at(until), at(0), at(now)), Duration::from_millis(rests), "{until} at {now}");
        }
    }

    #[test]
    fn a_step_is_called_by_its_variant() {
        #[derive(Debug)]
        #[expect(dead_code, reason = "only printed")]
        enum Step {
            Release(u8),
            Wait { until: u8 },
        }
        assert_eq!(step_name(&Step::Release(1)), "Release");
        assert_eq!(step_name(&Step::Wait { until: 1 }), "Wait");
    }

    #[test]
    fn the_reason_of_a_failure_is_the_one_that_says_something() {
        let (associated, paused) = ("Associated", Verdict::no(PAUSED, "NotPaused", ""));
        let no = |type_, reason| Verdict::no(type_, reason, "");
        assert_eq!(shown(&[paused.clone(), no(associated, "NoHost"), no(READY, "HostLost")]), Some("HostLost"));
        assert_eq!(shown(&[paused.clone(), no(associated, "NoHost"), no(READY, "NotReady")]), Some("NoHost"));
        assert_eq!(shown(&[no(READY, "NotReady"), paused.clone()]), Some("NotReady"));
        assert_eq!(shown(&[Verdict::yes(READY, READY, ""), paused]), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_touching_half_is_bounded_and_its_panic_contained() {
        let slow = within(STEP, async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok::<(), std::convert::Infallible>(())
        });
        assert!(matches!(slow.await, Err(Trouble::TimedOut)));
        let broken = within(STEP, async { panic!("poisoned object") as Result<(), std::convert::Infallible> });
        assert!(matches!(broken.await, Err(Trouble::Panicked)));
    }
}
