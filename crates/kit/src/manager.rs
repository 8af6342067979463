//! Starts, supervises and stops everything: named tasks, one way down, readiness for all to see.
//!
//! A task runs until it is told to stop. One that ends by itself, or panics, stops the process with its name: half an
//! operator is worse than none. Stopping goes by stages, so that nothing that is still being served loses the part
//! that serves it: first serving ends, then deciding, then watching and leadership.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::feed::{self, Feed, Project, Question, Scope, Source, Watch, Watched};
use crate::gates::Gates;
use crate::kinds::{Kind, Kinds};
use crate::lease::{Leadership, Standing};
use crate::pace::Lanes;
use crate::room::{Driver, Meter, Room};
use crate::telemetry::Metrics;

/// When a task is stopped, relative to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Listeners: first, after the drain delay.
    Serve,
    /// Workers: the step under way and the write that records it finish first.
    Decide,
    /// Watches, leadership, certificates: last.
    Watch,
}

const STAGES: [Stage; 3] = [Stage::Serve, Stage::Decide, Stage::Watch];

impl Stage {
    /// How long tasks of this stage may take to end by themselves.
    fn patience(self) -> Duration {
        match self {
            Self::Serve => Duration::from_secs(10),
            Self::Decide => Duration::from_secs(25),
            Self::Watch => Duration::from_secs(5),
        }
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
type Pause = Box<dyn Fn(bool) + Send + Sync>;
type Incoming = mpsc::UnboundedReceiver<(Stage, String, Task)>;

/// A kind that is followed: its one watch, and the feeds of that, by projection.
struct Followed {
    watch: Arc<Watch>,
    feeds: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

/// How the manager is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who we are in events and leases.
    pub instance: String,
    /// Which namespaces are followed.
    pub scope: Scope,
    /// How often everything is listed again and looked at without a reason; `None` = never.
    pub resync: Option<Duration>,
    /// Workers per room.
    pub workers: usize,
    /// How long to go on serving after readiness has been taken back.
    pub drain: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { instance: "berth".to_owned(), scope: Scope::All, resync: None, workers: 16, drain: Duration::ZERO }
    }
}

/// Why the process ends otherwise than by a signal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A task ended although nobody told it to.
    #[error("the task `{0}` ended by itself")]
    Ended(String),
    /// A task panicked.
    #[error("the task `{0}` panicked")]
    Panicked(String),
    /// Two rooms asked for the same kind by views that ask the server for different things: that would be two watches.
    #[error("the kind {0} is already followed by another view of it")]
    KindTaken(Kind),
    /// A feed was asked for when the watch that would fill it had begun: it would miss what has been shown.
    #[error("the kind {0} is already being watched: ask for all feeds of a kind before the manager runs")]
    TooLate(Kind),
    /// The signal handlers could not be installed.
    #[error("installing signal handlers")]
    Signals(#[source] io::Error),
}

/// Owns everything that runs.
pub struct Manager {
    lanes: Lanes,
    clock: Clock,
    gates: Gates,
    metrics: Metrics,
    meter: Meter,
    kinds: Kinds,
    /// For feeds, which ask it for what is there.
    lists: Client,
    options: Options,
    stop: CancellationToken,
    stages: BTreeMap<Stage, CancellationToken>,
    start: mpsc::UnboundedSender<(Stage, String, Task)>,
    started: Mutex<Option<Incoming>>,
    /// By group, plural and selectors: two versions of a kind are one kind.
    followed: Mutex<HashMap<String, Followed>>,
    /// What parts of the process share, by type.
    common: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    queues: Arc<Mutex<Vec<Pause>>>,
    leadership: Mutex<Leadership>,
    /// Installed before anything is started: a signal that comes early is not lost, and does not kill.
    signals: Mutex<Option<io::Result<(Signal, Signal)>>>,
}

impl Manager {
    /// A manager that is not running yet; call it inside a runtime. Everything decides from the start unless [`Manager::follow`] is called.
    #[must_use]
    pub fn new(client: Client, clock: Clock, gates: Gates, metrics: Metrics, options: Options) -> Arc<Self> {
        Self::with_lanes(Lanes::unlimited(client), clock, gates, metrics, options)
    }

    /// The same with clients that may share a budget.
    #[must_use]
    pub fn with_lanes(lanes: Lanes, clock: Clock, gates: Gates, metrics: Metrics, options: Options) -> Arc<Self> {
        let (start, started) = mpsc::unbounded_channel();
        let leadership = Leadership::alone(clock.clone());
        let manager = Arc::new(Self {
            kinds: Kinds::new(lanes.rooms().clone()),
            lists: feed::client(lanes.rooms()),
            meter: Meter::new(&metrics),
            lanes,
            clock,
            gates,
            metrics,
            options,
            stop: CancellationToken::new(),
            stages: STAGES.into_iter().map(|stage| (stage, CancellationToken::new())).collect(),
            start,
            started: Mutex::new(Some(started)),
            followed: Mutex::new(HashMap::new()),
            common: Mutex::new(HashMap::new()),
            queues: Arc::new(Mutex::new(Vec::new())),
            leadership: Mutex::new(leadership),
            signals: Mutex::new(Some(install_signals())),
        });
        let kinds = manager.kinds.clone();
        manager.spawn(Stage::Watch, "kinds", |stop| kinds.run(stop));
        manager
    }

    /// The Kubernetes client of rooms.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.lanes.rooms()
    }

    /// The Kubernetes client for what somebody waits for: hooks, the lease.
    #[must_use]
    pub fn front(&self) -> &Client {
        self.lanes.front()
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The readiness gates.
    #[must_use]
    pub fn gates(&self) -> &Gates {
        &self.gates
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Which namespaces are followed.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.options.scope
    }

    /// Who we are in events and leases.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.options.instance
    }

    /// The one value of this type that all parts of the process share.
    #[must_use]
    pub fn common<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        let one = common.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // It was put there by its type.
        Arc::clone(one).downcast().unwrap_or_default()
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Ends [`Manager::run`] when cancelled, as a signal would.
    #[must_use]
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Runs a task until its token is cancelled. It must not end before.
    pub fn spawn<F>(&self, stage: Stage, name: &str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let token = self.stages.get(&stage).cloned().unwrap_or_default();
        // The receiver lives until `run` has returned; a task that comes later than that has nothing to run in.
        let _ = self.start.send((stage, name.to_owned(), Box::pin(task(token))));
    }

    /// The feed of one projection of a kind, shared by all who ask for it. All projections of a kind are filled by one
    /// watch, which begins when the manager runs.
    ///
    /// # Errors
    /// When the kind is already followed by a view that asks for something else, or its watch has begun without this projection.
    pub fn feed<P: Project>(&self) -> Result<Feed<P>, Error> {
        self.feed_at(None)
    }

    /// The same for a room that looks at one namespace: unless others ask for the kind everywhere, no other namespace is
    /// followed for it, and no right is needed there. If they do, the feed shows objects of other namespaces too.
    ///
    /// # Errors
    /// As [`Manager::feed`].
    pub fn feed_in<P: Project>(&self, namespace: &str) -> Result<Feed<P>, Error> {
        self.feed_at(Some(namespace))
    }

    fn feed_at<P: Project>(&self, place: Option<&str>) -> Result<Feed<P>, Error> {
        let kind = Kind::of::<P::Source>();
        let mut all = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let name = watch_name::<P::Source>();
        let followed = all.entry(name.clone()).or_insert_with(|| self.watch(&name, Question::of::<P::Source>()));
        let projection = TypeId::of::<P>();
        if !followed.watch.answers::<P::Source>() {
            return Err(Error::KindTaken(kind));
        }
        if !followed.watch.want(place) {
            return Err(Error::TooLate(kind));
        }
        if let Some(feed) = followed.feeds.get(&projection).and_then(|feed| feed.downcast_ref::<Feed<P>>()) {
            return Ok(feed.clone());
        }
        let feed = followed.watch.feed::<P>().ok_or(Error::TooLate(kind))?;
        followed.feeds.insert(projection, Box::new(feed.clone()));
        Ok(feed)
    }

    fn watch(&self, name: &str, question: Question) -> Followed {
        let watch = Arc::new(Watch::new(question, self.clock.clone()));
        let gate = self.gates.gate(&format!("kind {name}"));
        let source = Source {
            client: self.lists.clone(),
            scope: self.options.scope.clone(),
            kinds: self.kinds.clone(),
            refresh: self.options.resync,
        };
        let run = Arc::clone(&watch);
        self.spawn(Stage::Watch, &format!("feed {name}"), |stop| run.run(source, gate, stop));
        Followed { watch, feeds: HashMap::new() }
    }

    /// Starts the workers of a room. They wait until `ready` is done, normally the room's feeds being settled. `keys`
    /// lists the keys that a filter accepts, for the resync.
    pub fn drive<R: Room, F>(
        &self,
        driver: &Arc<Driver<R>>,
        ready: F,
        keys: impl Fn(&dyn Fn(&R::Key) -> bool) -> Vec<R::Key> + Send + Sync + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let work = Arc::clone(driver.work());
        let pause: Pause = Box::new(move |paused| if paused { work.pause() } else { work.resume() });
        {
            // Under the lock, so that a change of leadership meets either the list with this queue or this queue's start.
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            pause(!self.leadership().leads());
            queues.push(pause);
        }
        let (driver, workers, resync) = (Arc::clone(driver), self.options.workers.max(1), self.options.resync);
        driver.work().limit_background(R::background_workers(workers));
        self.spawn(Stage::Decide, &format!("room {}", R::NAME), |stop| async move {
            tokio::select! {
                () = stop.cancelled() => return,
                () = ready => {}
            }
            let mut set = JoinSet::new();
            for _ in 0..workers {
                set.spawn(Arc::clone(&driver).worker(stop.clone()));
            }
            if let Some(period) = resync {
                set.spawn(Arc::clone(&driver).resync(period, keys, stop.clone()));
            }
            while let Some(ended) = set.join_next().await {
                // A room with a worker less, or without its resync, would go on in silence.
                if let Err(error) = ended
                    && error.is_panic()
                {
                    std::panic::resume_unwind(error.into_panic());
                }
            }
        });
    }

    /// Decides only while `leadership` says so. Call before rooms are driven.
    pub fn follow(&self, leadership: Leadership) {
        let mut standing = leadership.standing();
        *self.leadership.lock().unwrap_or_else(PoisonError::into_inner) = leadership;
        let queues = Arc::clone(&self.queues);
        let gate = self.gates.gate("leadership");
        self.spawn(Stage::Decide, "leadership", |stop| async move {
            loop {
                let now = standing.borrow_and_update().clone();
                let leading = now == Standing::Leading;
                // A follower is as ready as a leader: it serves, and it would take over.
                match &now {
                    Standing::Leading => gate.ready("this replica decides"),
                    Standing::Follower { holder: Some(holder) } => gate.waiting(format!("{holder} decides")),
                    Standing::Follower { holder: None } => gate.waiting("nobody decides yet"),
                    Standing::Stopping | Standing::Lost => gate.waiting("no longer deciding"),
                }
                for pause in queues.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                    pause(!leading);
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    changed = standing.changed() => if changed.is_err() { return stop.cancelled().await },
                }
            }
        });
    }

    /// Who may decide; ours alone unless [`Manager::follow`] was called.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.leadership.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs until a signal, [`Manager::stop`], or the first task that fails.
    ///
    /// # Errors
    /// The task that failed, by name.
    pub async fn run(&self) -> Result<(), Error> {
        let Some(mut tasks) = Tasks::new(&self.started) else { return Ok(()) };
        let signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (mut terminate, mut interrupt) = signals.unwrap_or_else(install_signals).map_err(Error::Signals)?;
        let failed = tokio::select! {
            _ = terminate.recv() => None,
            _ = interrupt.recv() => None,
            () = self.stop.cancelled() => None,
            ended = tasks.next() => Some(ended),
        };
        match &failed {
            None => tracing::info!("stopping"),
            Some(error) => tracing::error!(error = %error, "stopping"),
        }
        self.stop.cancel();
        self.gates.draining();
        if failed.is_none() && tasks.any(Stage::Serve) {
            tokio::time::sleep(self.options.drain).await;
        }
        for (stage, token) in &self.stages {
            token.cancel();
            tasks.finish(*stage).await;
        }
        failed.map_or(Ok(()), Err)
    }
}

/// The kind, and what is selected of it.
fn watch_name<K: Watched>() -> String {
    let kind = Kind::of::<K>().definition();
    let parts = [kind.as_str(), K::LABELS, K::FIELDS].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

/// SIGTERM and SIGINT.
fn install_signals() -> io::Result<(Signal, Signal)> {
    Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
}

/// The running tasks, by stage and name.
struct Tasks {
    incoming: Incoming,
    set: JoinSet<()>,
    known: HashMap<Id, (Stage, String, AbortHandle)>,
}

impl Tasks {
    fn new(started: &Mutex<Option<Incoming>>) -> Option<Self> {
        let incoming = started.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let mut tasks = Self { incoming, set: JoinSet::new(), known: HashMap::new() };
        while let Ok(task) = tasks.incoming.try_recv() {
            tasks.begin(task);
        }
        Some(tasks)
    }

    fn any(&self, stage: Stage) -> bool {
        self.known.values().any(|(s, ..)| *s == stage)
    }

    fn begin(&mut self, (stage, name, task): (Stage, String, Task)) {
        let handle = self.set.spawn(task);
        self.known.insert(handle.id(), (stage, name, handle));
    }

    /// Starts what comes in, until a task ends: before a stop that is always a failure.
    async fn next(&mut self) -> Error {
        loop {
            tokio::select! {
                Some(task) = self.incoming.recv() => self.begin(task),
                Some(ended) = self.set.join_next_with_id() => return self.ended(ended),
            }
        }
    }

    fn ended(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) -> Error {
        let (id, panicked) = match &ended {
            Ok((id, ())) => (*id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let name = self.known.remove(&id).map_or_else(|| "unknown".to_owned(), |(_, name, _)| name);
        if panicked { Error::Panicked(name) } else { Error::Ended(name) }
    }

    /// Waits for the tasks of one stage, which have been told to stop; those that do not are dropped, by name.
    async fn finish(&mut self, stage: Stage) {
        let patience = tokio::time::sleep(stage.patience());
        tokio::pin!(patience);
        while self.any(stage) {
            tokio::select! {
                Some(ended) = self.set.join_next_with_id() => {
                    if let Error::Panicked(name) = self.ended(ended) {
                        tracing::error!(task = name, "task panicked while stopping");
                    }
                }
                () = &mut patience => {
                    for (s, name, handle) in self.known.values() {
                        if *s == stage {
                            tracing::warn!(task = name, "task did not stop in time");
                            handle.abort();
                        }
                    }
                    self.known.retain(|_, (s, ..)| *s != stage);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn manager() -> Arc<Manager> {
        let refuse = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(io::Error::other("no server in this test"))
        });
        let client = Client::new(refuse, "default");
        Manager::new(client, Clock::system(), Gates::new(), Metrics::new(), Options::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_by_itself_stops_the_process_with_its_name() {
        let manager = manager();
        manager.spawn(Stage::Watch, "short", |_| async {});
        let error = manager.run().await.unwrap_err();
        assert_eq!(error.to_string(), "the task `short` ended by itself");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_stops_the_process_with_its_name() {
        let manager = manager();
        manager.spawn(Stage::Watch, "broken", |_| async { panic!("on purpose") });
        assert_eq!(manager.run().await.unwrap_err().to_string(), "the task `broken` panicked");
    }

    #[tokio::test(start_paused = true)]
    async fn stages_stop_in_order_and_a_stubborn_task_is_dropped() {
        let manager = manager();
        let order = Arc::new(AtomicUsize::new(0));
        for (stage, place) in [(Stage::Watch, 2), (Stage::Serve, 0), (Stage::Decide, 1)] {
            let order = Arc::clone(&order);
            manager.spawn(stage, "ordered", move |stop| async move {
                stop.cancelled().await;
                assert_eq!(order.fetch_add(1, Ordering::SeqCst), place);
            });
        }
        manager.spawn(Stage::Decide, "stubborn", |_| std::future::pending());
        manager.stop().cancel();
        manager.run().await.unwrap();
        assert_eq!(order.load(Ordering::SeqCst), 3);
        assert!(!manager.gates().report().ready);
    }
}
