//! The shell of the election: requests with deadlines, and telling the rest of the program.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::election::{Action, Election, Standing, Terms};
use super::store::{Fault, KubeStore, Store, Stored};
use crate::clock::Clock;

/// Which Lease to stand for, and as whom.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// A name no other process has; see [`super::identity`].
    pub identity: String,
    /// How long terms last.
    pub terms: Terms,
}

/// What the rest of the program asks about leadership; cheap to clone.
#[derive(Clone, Debug)]
pub struct Leadership {
    clock: Clock,
    standing: watch::Receiver<Standing>,
    term: Arc<Mutex<Term>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Term {
    until: Option<Instant>,
    margin: Duration,
    resigned: bool,
}

impl Leadership {
    /// A leadership that is always ours, for a program that runs alone.
    #[must_use]
    pub fn alone(clock: Clock) -> Self {
        let (sender, standing) = watch::channel(Standing::Leading);
        // The value outlives its sender; nobody will change it.
        drop(sender);
        let until = clock.instant().checked_add(Duration::from_secs(100 * 31_536_000));
        Self { clock, standing, term: Arc::new(Mutex::new(Term { until, margin: Duration::ZERO, resigned: false })) }
    }

    /// The standing as it changes.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// Whether new work may begin now, by the clock and not by what was last told: true for a process that was
    /// stopped for a while only if its term still runs.
    #[must_use]
    pub fn leads(&self) -> bool {
        let term = self.term();
        !term.resigned && term.until.is_some_and(|until| self.clock.instant() + term.margin < until)
    }

    /// How long a step that runs now may still take; none when nothing may run.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let left = self.term().until?.saturating_duration_since(self.clock.instant());
        (!left.is_zero()).then_some(left)
    }

    fn term(&self) -> Term {
        *self.term.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One candidate for a Lease; run it as a task of the manager.
#[derive(Debug)]
pub struct Candidate {
    inner: Runner<KubeStore>,
}

impl Candidate {
    /// A candidate and the leadership it will tell about.
    #[must_use]
    pub fn new(client: kube::Client, clock: Clock, settings: Settings) -> (Self, Leadership) {
        let store = KubeStore::new(client, &settings.namespace, &settings.name);
        let (inner, leadership) = Runner::new(store, clock, settings.identity, settings.terms);
        (Self { inner }, leadership)
    }

    /// Stands for election, through any outage, until `stop`. Then hands out of work must cease ([`Standing::Stopping`]
    /// is told and [`Leadership::leads`] says no), `drained` is awaited for at most the rest of the term, and the Lease
    /// is released so that the next one leads at once. A term that ends before `drained` is not released: something
    /// may still run.
    pub async fn run(self, stop: CancellationToken, drained: impl Future<Output = ()> + Send) {
        self.inner.run(stop, drained).await;
    }
}

#[derive(Debug)]
pub(super) struct Runner<S: Store> {
    store: Arc<S>,
    clock: Clock,
    election: Election,
    /// All of the Lease as the election knows it.
    raw: Option<Stored<S::Raw>>,
    tell: watch::Sender<Standing>,
    term: Arc<Mutex<Term>>,
    stopping: bool,
}

impl<S: Store> Runner<S> {
    pub fn new(store: S, clock: Clock, identity: String, terms: Terms) -> (Self, Leadership) {
        let (tell, standing) = watch::channel(Standing::Follower { holder: None });
        let term = Arc::new(Mutex::new(Term { margin: terms.margin, ..Term::default() }));
        let leadership = Leadership { clock: clock.clone(), standing, term: Arc::clone(&term) };
        let election = Election::new(identity, terms);
        (Self { store: Arc::new(store), clock, election, raw: None, tell, term, stopping: false }, leadership)
    }

    pub async fn run(mut self, stop: CancellationToken, drained: impl Future<Output = ()> + Send) {
        // Dropping a request on the way is like one that was never answered: the version guards what becomes of it.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.stand() => {}
        }
        self.retire(drained).await;
    }

    /// Stands for election for ever.
    async fn stand(&mut self) {
        let mut action = Action::Look;
        loop {
            action = self.step(action).await;
        }
    }

    async fn step(&mut self, action: Action) -> Action {
        let terms = self.election.terms();
        match action {
            Action::Look => {
                let store = Arc::clone(&self.store);
                match self.telling(timeout(terms.request, async move { store.read().await })).await {
                    Ok(Ok(found)) => {
                        let view = found.as_ref().map(|stored| stored.view.clone());
                        self.raw = found;
                        let action = self.election.observe(view, self.clock.instant());
                        self.publish();
                        action
                    }
                    failed => self.failed("read the lease", failed.map(|answer| answer.map(drop))).await,
                }
            }
            Action::Create | Action::Renew | Action::TakeOver => self.write(action).await,
            Action::StepDown => {
                warn!("another candidate holds the lease: stepping down");
                self.tell(Standing::Lost);
                self.pause(terms.retry).await;
                Action::Look
            }
            Action::Wait(wait) => {
                self.pause(wait).await;
                self.election.due(self.clock.instant())
            }
        }
    }

    async fn write(&mut self, action: Action) -> Action {
        let terms = self.election.terms();
        let Some(draft) = self.election.draft(&action) else { return Action::Look };
        let (store, now) = (Arc::clone(&self.store), self.clock.now());
        let old = match action {
            Action::Create => None,
            _ => match self.raw.clone() {
                Some(old) => Some(old),
                None => return Action::Look,
            },
        };
        let sent = self.clock.instant();
        let request = async move {
            match old {
                None => store.create(draft, now).await,
                Some(old) => store.replace(old, draft, now).await,
            }
        };
        match self.telling(timeout(terms.request, request)).await {
            Ok(Ok(stored)) => {
                self.election.wrote(stored.view.clone(), sent, self.clock.instant());
                self.raw = Some(stored);
                if action == Action::Renew {
                    debug!("renewed the lease");
                } else {
                    info!(?action, "won the lease");
                }
                self.publish();
                self.election.due(self.clock.instant())
            }
            failed => {
                self.election.doubt();
                self.failed("write the lease", failed.map(|answer| answer.map(drop))).await
            }
        }
    }

    /// A request failed: say so and look again after a while, soon when it was only a lost race.
    async fn failed(
        &mut self,
        doing: &'static str,
        answer: Result<Result<(), Fault>, tokio::time::error::Elapsed>,
    ) -> Action {
        let retry = self.election.terms().retry;
        match answer {
            Ok(Err(Fault::Overtaken)) | Ok(Ok(())) => {
                debug!(doing, "the lease changed meanwhile");
                self.pause(retry / 8).await;
            }
            Ok(Err(Fault::Failed(error))) => {
                warn!(doing, error, "a request for the lease failed");
                self.pause(retry).await;
            }
            Err(_) => {
                warn!(doing, "a request for the lease was not answered in time");
                self.pause(retry / 2).await;
            }
        }
        Action::Look
    }

    /// Sleeps `wait` minus up to a quarter, so that candidates started together do not ask together.
    async fn pause(&mut self, wait: Duration) {
        let wait = wait - self.clock.jitter(wait / 4);
        self.telling(sleep(wait)).await;
    }

    /// Does `work` and tells every change of standing that falls into its time.
    async fn telling<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        loop {
            self.publish();
            let next = self.next_change();
            tokio::select! {
                biased;
                () = async { match next { Some(at) => sleep_until(at).await, None => std::future::pending().await } } => {}
                out = &mut work => return out,
            }
        }
    }

    fn next_change(&self) -> Option<Instant> {
        let (now, until) = (self.clock.instant(), self.election.until()?);
        let deadline = until.checked_sub(self.election.terms().margin);
        deadline.into_iter().chain([until]).find(|at| *at > now)
    }

    fn publish(&self) {
        let standing = match self.election.standing(self.clock.instant()) {
            Standing::Leading if self.stopping => Standing::Stopping,
            standing => standing,
        };
        self.tell(standing);
    }

    fn tell(&self, standing: Standing) {
        {
            let mut term = self.term.lock().unwrap_or_else(PoisonError::into_inner);
            term.until = self.election.until();
            term.resigned = self.stopping;
        }
        self.tell.send_if_modified(|told| {
            let changed = *told != standing;
            if changed {
                match (&*told, &standing) {
                    (_, Standing::Lost) => warn!("leadership is lost"),
                    (_, Standing::Stopping) => info!("leadership ends soon: no new work"),
                    (_, now) => info!(standing = ?now, "leadership changed"),
                }
                *told = standing;
            }
            changed
        });
    }

    /// Gives the Lease back once nothing runs any more.
    async fn retire(mut self, drained: impl Future<Output = ()> + Send) {
        self.stopping = true;
        self.publish();
        // Without a term nothing may run; but what does run all the same must end before another one may lead.
        let until = self.election.until().unwrap_or(self.clock.instant() + self.election.terms().margin);
        let drained = self.telling(timeout_at(until, drained)).await.is_ok();
        if !drained {
            warn!("work was still running when the term ended: the lease is not released");
            let _ = self.election.resign();
            self.tell(Standing::Lost);
            return;
        }
        let held = self.election.until().is_some();
        let mut mine = self.election.resign().is_some();
        self.tell(if held { Standing::Lost } else { Standing::Follower { holder: None } });
        let request = self.election.terms().request;
        // Twice: our last renewal may have been done without an answer.
        for _ in 0..2 {
            let Some(old) = self.raw.take().filter(|_| mine) else { return };
            let draft = Election::release(&old.view);
            match timeout(request, self.store.replace(old, draft, self.clock.now())).await {
                Ok(Ok(_)) => {
                    info!("released the lease");
                    return;
                }
                failed => debug!(answered = failed.is_ok(), "the lease was not released"),
            }
            let Ok(Ok(found)) = timeout(request, self.store.read()).await else { return };
            let view = found.as_ref().map(|stored| stored.view.clone());
            self.raw = found;
            let _ = self.election.observe(view, self.clock.instant());
            mine = self.election.resign().is_some();
        }
    }
}
