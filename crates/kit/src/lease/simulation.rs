//! The shell under random schedules in paused time: stops, crashes, outages, slow and lost answers, releases.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::candidate::{Leadership, Runner};
use super::election::{Draft, Standing, Terms, View};
use super::store::{Fault, Store, Stored};
use crate::clock::Clock;

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A server that takes its time, loses answers, finishes what nobody waits for any more, and can be down.
#[derive(Clone)]
struct Server {
    clock: Clock,
    lease: Arc<Mutex<Option<View>>>,
    versions: Arc<AtomicU32>,
    won: Arc<Mutex<BTreeSet<String>>>,
    running: Arc<Mutex<JoinSet<()>>>,
    down: Arc<AtomicBool>,
    requests: Arc<AtomicU32>,
    /// In a hundred: how many requests are slow, and how many answers are lost.
    slow: u64,
    lossy: u64,
}

impl Server {
    fn new(clock: Clock, slow: u64, lossy: u64) -> Self {
        Self {
            clock,
            lease: Arc::default(),
            versions: Arc::default(),
            won: Arc::default(),
            running: Arc::default(),
            down: Arc::default(),
            requests: Arc::default(),
            slow,
            lossy,
        }
    }

    fn chance(&self, percent: u64) -> bool {
        self.clock.roll() % 100 < percent
    }

    /// Slow ones take up to 40 s, longer than the deadline of a request and than a term.
    fn delay(&self) -> Duration {
        self.clock.jitter(if self.chance(self.slow) { 40 * SEC } else { 20 * MS })
    }

    fn done(&self, draft: &Draft, base: Option<&str>) -> Result<Stored<()>, Fault> {
        let mut lease = self.lease.lock().unwrap();
        if lease.as_ref().map(|view| view.version.as_str()) != base {
            return Err(Fault::Overtaken);
        }
        if let Some(base) = base {
            assert!(self.won.lock().unwrap().insert(base.to_owned()), "version {base} was won twice");
        }
        let version = (self.versions.fetch_add(1, Ordering::Relaxed) + 1).to_string();
        let (holder, duration) = (draft.holder.clone(), Some(draft.duration));
        let view = View { version, holder, duration, transitions: draft.transitions };
        *lease = Some(view.clone());
        Ok(Stored { view, raw: () })
    }

    /// The request goes on when its caller is gone.
    async fn serve<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.down.load(Ordering::Relaxed) {
            return Err(Fault::Failed("connection refused".to_owned()));
        }
        let (answer, answered) = tokio::sync::oneshot::channel();
        let (server, there, back) = (self.clone(), self.delay(), self.delay());
        self.running.lock().unwrap().spawn(async move {
            sleep(there).await;
            let result = work(&server);
            sleep(back).await;
            if !server.chance(server.lossy) {
                let _ = answer.send(result);
            }
        });
        answered.await.unwrap_or_else(|_| Err(Fault::Failed("connection reset".to_owned())))
    }
}

impl Store for Server {
    type Raw = ();

    async fn read(&self) -> Result<Option<Stored<()>>, Fault> {
        self.serve(|server| Ok(server.lease.lock().unwrap().clone().map(|view| Stored { view, raw: () }))).await
    }

    async fn create(&self, draft: Draft, _: Timestamp) -> Result<Stored<()>, Fault> {
        self.serve(move |server| server.done(&draft, None)).await
    }

    async fn replace(&self, old: Stored<()>, draft: Draft, _: Timestamp) -> Result<Stored<()>, Fault> {
        self.serve(move |server| server.done(&draft, Some(&old.view.version))).await
    }
}

/// One process: it can be stopped and continued like by SIGSTOP and SIGCONT, and killed.
struct Process {
    leadership: Leadership,
    stopped: Arc<AtomicBool>,
    stop: CancellationToken,
    kill: AbortHandle,
    alive: bool,
}

struct World {
    clock: Clock,
    server: Server,
    terms: Terms,
    tasks: JoinSet<()>,
    processes: Vec<Process>,
    /// Never called twice with one number: names are unique.
    born: u32,
}

impl World {
    fn new(seed: u64, terms: Terms, slow: u64, lossy: u64) -> Self {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, seed);
        let server = Server::new(clock.clone(), slow, lossy);
        Self { clock, server, terms, tasks: JoinSet::new(), processes: Vec::new(), born: 0 }
    }

    fn start(&mut self) -> Process {
        self.born += 1;
        let name = format!("process-{}", self.born);
        let (runner, leadership) = Runner::new(self.server.clone(), self.clock.clone(), name, self.terms);
        let (stopped, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let mut life: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(runner.run(stop.clone(), async { sleep(SEC).await }));
        let flag = stopped.clone();
        let kill = self.tasks.spawn(async move {
            loop {
                // While stopped nothing of it runs, though its timers and answers fall due.
                let ended = poll_fn(|context| match flag.load(Ordering::Relaxed) {
                    true => Poll::Ready(false),
                    false => life.as_mut().poll(context).map(|()| true),
                })
                .await;
                if ended {
                    return;
                }
                sleep(100 * MS).await;
            }
        });
        Process { leadership, stopped, stop, kill, alive: true }
    }

    /// Lets time pass and looks all the while that at most one process is within its term.
    async fn pass(&self, time: Duration) {
        let end = self.clock.instant() + time;
        while self.clock.instant() < end {
            let within = |p: &&Process| p.alive && p.leadership.remaining().is_some();
            let count = self.processes.iter().filter(within).count();
            assert!(count <= 1, "{count} processes are within a term");
            for process in self.processes.iter().filter(|p| p.leadership.leads()) {
                assert!(process.leadership.remaining().unwrap() > self.terms.margin);
            }
            sleep(250 * MS).await;
        }
    }

    fn leaders(&self) -> Vec<usize> {
        let leads =
            |p: &Process| p.alive && p.leadership.leads() && *p.leadership.standing().borrow() == Standing::Leading;
        self.processes.iter().enumerate().filter(|(_, p)| leads(p)).map(|(n, _)| n).collect()
    }
}

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Stop(usize),
    Continue(usize),
    Kill(usize),
    Shutdown(usize),
    Down(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (1u64..45).prop_map(Event::Pass),
        2 => (0usize..3).prop_map(Event::Stop),
        2 => (0usize..3).prop_map(Event::Continue),
        1 => (0usize..3).prop_map(Event::Kill),
        1 => (0usize..3).prop_map(Event::Shutdown),
        1 => any::<bool>().prop_map(Event::Down),
    ]
}

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_schedule_makes_two_leaders_and_quiet_brings_one(
        seed: u64, candidates in 2usize..=3, slow in 0u64..40, lossy in 0u64..40, events in prop::collection::vec(event(), 1..25),
    ) {
        run(async {
            let mut world = World::new(seed, Terms::new(30 * SEC).unwrap(), slow, lossy);
            for _ in 0..candidates {
                let process = world.start();
                world.processes.push(process);
            }
            for event in events {
                match event {
                    Event::Pass(secs) => world.pass(Duration::from_secs(secs)).await,
                    Event::Down(down) => world.server.down.store(down, Ordering::Relaxed),
                    Event::Stop(n) => world.processes[n % candidates].stopped.store(true, Ordering::Relaxed),
                    Event::Continue(n) => world.processes[n % candidates].stopped.store(false, Ordering::Relaxed),
                    Event::Kill(n) => {
                        // Killed and started again: its last term counts no more, its requests on the way do.
                        world.processes[n % candidates].kill.abort();
                        world.processes[n % candidates] = world.start();
                    }
                    Event::Shutdown(n) => {
                        world.processes[n % candidates].stop.cancel();
                        world.pass(2 * SEC).await;
                        world.processes[n % candidates].kill.abort();
                        world.processes[n % candidates] = world.start();
                    }
                }
            }
            world.server.down.store(false, Ordering::Relaxed);
            for process in &world.processes {
                process.stopped.store(false, Ordering::Relaxed);
            }
            // What is slow and lossy stays so: leadership must come within a few terms all the same.
            let mut terms = 0;
            while world.leaders().is_empty() && terms < 40 {
                world.pass(30 * SEC).await;
                terms += 1;
            }
            assert_eq!(world.leaders().len(), 1, "nobody leads after {terms} terms");
        });
    }
}

/// F13: the API server is away for ten minutes.
#[test]
fn an_outage_stops_the_leader_before_its_term_ends_and_it_resumes_within_five_seconds() {
    run(async {
        let mut world = World::new(7, Terms::default(), 0, 0);
        let process = world.start();
        world.processes.push(process);
        world.pass(5 * SEC).await;
        assert_eq!(world.leaders(), [0]);
        world.pass(300 * SEC).await;
        assert_eq!(world.leaders(), [0], "it renews");
        world.server.down.store(true, Ordering::Relaxed);
        let before = world.server.requests.load(Ordering::Relaxed);
        let down = world.clock.instant();
        let mut standing = world.processes[0].leadership.standing();
        standing.mark_unchanged();
        standing.changed().await.unwrap();
        assert_eq!(*standing.borrow_and_update(), Standing::Stopping);
        let stopped = world.clock.instant() - down;
        assert!(!world.processes[0].leadership.leads());
        let rest = world.processes[0].leadership.remaining().unwrap();
        assert!(rest > 9 * SEC && rest <= 10 * SEC, "{rest:?} are left for the running step");
        standing.changed().await.unwrap();
        assert!(world.processes[0].leadership.remaining().is_none());
        assert_eq!(world.clock.instant() - down - stopped, rest);
        assert!(matches!(*standing.borrow_and_update(), Standing::Lost));
        world.pass(600 * SEC - (world.clock.instant() - down)).await;
        let asked = world.server.requests.load(Ordering::Relaxed) - before;
        assert!(asked < 600, "no busy loop: {asked} requests in ten minutes");
        world.server.down.store(false, Ordering::Relaxed);
        world.pass(5 * SEC).await;
        assert_eq!(world.leaders(), [0]);
    });
}

/// F16: the leader is stopped for longer than its term and wakes up.
#[test]
fn a_leader_that_was_stopped_past_its_term_knows_it_at_once() {
    run(async {
        let mut world = World::new(3, Terms::new(30 * SEC).unwrap(), 0, 0);
        for _ in 0..2 {
            let process = world.start();
            world.processes.push(process);
        }
        world.pass(10 * SEC).await;
        let first = world.leaders()[0];
        world.processes[first].stopped.store(true, Ordering::Relaxed);
        world.pass(60 * SEC).await;
        assert_eq!(world.leaders(), [1 - first], "the other one took over");
        // It has not run yet since it was stopped: what it was told last is old, what it asks the clock is not.
        let leadership = &world.processes[first].leadership;
        assert_eq!(*leadership.standing().borrow(), Standing::Leading);
        assert!(!leadership.leads() && leadership.remaining().is_none());
        world.processes[first].stopped.store(false, Ordering::Relaxed);
        world.pass(60 * SEC).await;
        assert_eq!(world.leaders(), [1 - first]);
        assert!(matches!(
            *world.processes[first].leadership.standing().borrow(),
            Standing::Follower { holder: Some(_) }
        ));
        assert_eq!(world.server.lease.lock().unwrap().as_ref().unwrap().transitions, 1);
    });
}

#[test]
fn a_shutdown_drains_releases_and_the_next_one_leads_at_once() {
    run(async {
        let mut world = World::new(5, Terms::default(), 0, 0);
        for _ in 0..2 {
            let process = world.start();
            world.processes.push(process);
        }
        world.pass(10 * SEC).await;
        let first = world.leaders()[0];
        world.processes[first].stop.cancel();
        sleep(500 * MS).await;
        assert_eq!(*world.processes[first].leadership.standing().borrow(), Standing::Stopping);
        assert!(!world.processes[first].leadership.leads(), "no new work");
        assert!(world.processes[first].leadership.remaining().is_some(), "the running step may finish");
        world.pass(4 * SEC).await;
        assert_eq!(world.leaders(), [1 - first]);
        assert!(world.processes[first].kill.is_finished());
    });
}

#[test]
fn work_that_outlives_its_term_keeps_the_lease_from_being_released() {
    run(async {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let server = Server::new(clock.clone(), 0, 0);
        let terms = Terms::new(30 * SEC).unwrap();
        let (runner, leadership) = Runner::new(server.clone(), clock.clone(), "me".to_owned(), terms);
        let stop = CancellationToken::new();
        let mut standing = leadership.standing();
        let leading = async {
            standing.wait_for(|s| *s == Standing::Leading).await.unwrap();
            stop.cancel();
        };
        let begin = clock.instant();
        tokio::join!(runner.run(stop.clone(), std::future::pending()), leading);
        assert!(clock.instant() - begin >= 30 * SEC - 100 * MS);
        assert_eq!(server.lease.lock().unwrap().as_ref().unwrap().holder.as_deref(), Some("me"));
        assert!(leadership.remaining().is_none());
        assert_eq!(*leadership.standing().borrow(), Standing::Lost);
    });
}

#[test]
fn a_program_that_runs_alone_leads() {
    run(async {
        let leadership = Leadership::alone(Clock::simulated(Timestamp::UNIX_EPOCH, 1));
        sleep(100_000 * SEC).await;
        assert!(leadership.leads());
        assert_eq!(*leadership.standing().borrow(), Standing::Leading);
    });
}
