//! Random histories: users, processes and faults in an order that one seed decides.
//!
//! A test says what users do and what must hold; here is what such tests share: [`Dice`] for everything that is left to
//! chance, processes that are disturbed, killed at some write and started again ([`Dice::lives`]), and [`play`], which
//! plays many histories, or with `BERTH_SEED` and `BERTH_SEEDS` the ones that somebody wants to look at.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::seeds::seeds;
use crate::server::{Action, EventAction, Handle, RequestInfo, Rng, Server};
use crate::sweep::panicked;

/// Whatever happens by chance in one history.
#[derive(Debug)]
pub struct Dice {
    rng: Mutex<Rng>,
    calm: AtomicBool,
}

/// How processes of one kind are disturbed.
#[derive(Clone, Copy, Debug)]
pub struct Trouble {
    /// One that is killed at all is killed at one of its first so many writes.
    pub writes: u64,
    /// It is started again within so many milliseconds.
    pub restart: u64,
    /// The kinds it follows, as requests name them: it hears of some of them late, of each on its own.
    pub kinds: &'static [&'static str],
    /// Kinds of which no write is told of a conflict that there is not.
    pub spared: &'static [&'static str],
}

impl Dice {
    /// The same seed gives the same throws.
    #[must_use]
    pub fn new(seed: u64) -> Arc<Self> {
        // The server of a history has the plain seed.
        let rng = Mutex::new(Rng::new(seed.wrapping_mul(0x9e37_79b9) ^ 0x5bd1));
        Arc::new(Self { rng, calm: AtomicBool::new(false) })
    }

    fn draw<T>(&self, pick: impl FnOnce(&mut Rng) -> T) -> T {
        pick(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.draw(|rng| rng.below(bound))
    }

    /// True in `percent` of a hundred throws.
    pub fn percent(&self, percent: u64) -> bool {
        self.draw(|rng| rng.percent(percent))
    }

    /// One of several.
    #[expect(clippy::expect_used, reason = "there is nothing to choose from nothing")]
    pub fn one<T: Copy>(&self, all: &[T]) -> T {
        let at = usize::try_from(self.below(all.len() as u64)).unwrap_or_default();
        *all.get(at).expect("one of several: because the number is below their count")
    }

    /// Lets up to so many milliseconds pass.
    pub async fn pause(&self, most: u64) {
        tokio::time::sleep(Duration::from_millis(self.below(most))).await;
    }

    /// From now on nothing fails and nobody is killed.
    pub fn calm(&self) {
        self.calm.store(true, Ordering::SeqCst);
    }

    /// Whether all is calm.
    pub fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// Runs a process for ever: started with a client of its own, disturbed, killed at some write, started again. Ends only
    /// when the process ends by itself, which it should not. The lives of one are numbered from 0.
    pub async fn lives<F: Future<Output = ()>>(
        self: Arc<Self>,
        server: Server,
        name: String,
        trouble: Trouble,
        start: impl Fn(Handle, u64) -> F,
    ) {
        for life in 0.. {
            let handle = server.client(&format!("{name}-{life}"));
            let dying = self.disturb(&handle, trouble);
            tokio::select! {
                biased;
                () = dying.notified() => {}
                () = start(handle.clone(), life) => return,
            }
            handle.crash();
            let rest = if self.is_calm() { trouble.restart.min(50) } else { trouble.restart };
            self.pause(rest).await;
        }
    }

    /// Makes a process's requests slow and lossy and its view of each kind lag on its own; says when it dies, at some write.
    fn disturb(self: &Arc<Self>, handle: &Handle, trouble: Trouble) -> Arc<Notify> {
        let writes = AtomicU64::new(0);
        let last = if self.percent(60) { 1 + self.below(trouble.writes) } else { u64::MAX };
        let dying = Arc::new(Notify::new());
        let (dice, death) = (Arc::clone(self), Arc::clone(&dying));
        handle.script(move |info: &RequestInfo| {
            if dice.is_calm() {
                return Vec::new();
            }
            if info.mutating && writes.fetch_add(1, Ordering::SeqCst) + 1 == last {
                death.notify_one();
                return vec![if dice.percent(50) { Action::HangAfter } else { Action::Hang }];
            }
            let mut fate = Vec::new();
            if dice.percent(25) {
                fate.push(Action::Delay(Duration::from_millis(dice.below(1500))));
            }
            match dice.below(100) {
                0..4 if info.mutating => fate.push(Action::DropAnswer),
                4..7 if info.mutating && !trouble.spared.contains(&info.resource.as_str()) => {
                    fate.push(Action::Conflict);
                }
                7..9 => fate.push(Action::Status(500)),
                9..10 => fate.push(Action::Refuse),
                _ => {}
            }
            fate
        });
        let dice = Arc::clone(self);
        // Some kinds lag a lot, others hardly: what the process believes never existed at one moment.
        let slow: Vec<&str> = trouble.kinds.iter().copied().filter(|_| self.percent(40)).collect();
        handle.script_events(move |_, resource, _| {
            if dice.is_calm() {
                return EventAction::default();
            }
            let most = if slow.contains(&resource) { 4000 } else { 200 };
            let delay = if dice.percent(50) { dice.below(most) } else { 0 };
            EventAction { drop: false, repeat: dice.percent(10), delay: Duration::from_millis(delay) }
        });
        dying
    }
}

/// What came of many histories.
#[derive(Debug)]
pub struct Played {
    histories: u64,
    /// Whether all the usual ones are among them, of which is known that enough happens.
    usual: bool,
    happened: usize,
    failures: Vec<String>,
}

impl Played {
    /// Fails when something went wrong, with the seeds; or when too little happened to prove anything. `what` is counted.
    ///
    /// # Panics
    /// Then.
    pub fn assert_well(&self, what: &str, least: usize) {
        println!("{} {what} in {} histories", self.happened, self.histories);
        assert!(
            self.failures.is_empty(),
            "{} histories went wrong:\n{}",
            self.failures.len(),
            self.failures.join("\n")
        );
        assert!(!self.usual || self.happened > least, "too little happened: {} {what}", self.happened);
    }
}

/// Plays so many histories, each under a paused clock of its own. `BERTH_SEED` asks for one, `BERTH_SEEDS` for that many from
/// it, or from the first, to look at a failure or to look longer. Each counts what happened in it; one that panics has gone
/// wrong like any other.
///
/// # Panics
/// When what the two ask for is no number.
pub fn play<F: Future<Output = Result<usize, String>>>(usual: u64, history: impl Fn(u64) -> F + Sync) -> Played {
    let seeds = seeds(&(0..usual));
    let usual = seeds.start == 0 && seeds.end >= usual;
    let (happened, failures) = all(&seeds, &history);
    Played { histories: seeds.end - seeds.start, usual, happened, failures }
}

/// How much happened in these histories, and what went wrong, by seed.
#[expect(clippy::expect_used, reason = "a test that cannot run is a failed test")]
fn all<F: Future<Output = Result<usize, String>>>(
    seeds: &Range<u64>,
    history: &(impl Fn(u64) -> F + Sync),
) -> (usize, Vec<String>) {
    let run = |seed: u64| {
        // kube draws its pauses between two attempts to watch from here.
        fastrand::seed(seed);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime without threads can be built");
        runtime.block_on(Box::pin(history(seed)))
    };
    let run = |seed: u64| catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|panic| Err(panicked(&*panic)));
    // Two at a time: each history is a world of its own.
    let ends: Vec<(u64, Result<usize, String>)> = std::thread::scope(|scope| {
        let run = &run;
        let half = |odd: u64| {
            let mine = seeds.clone().filter(move |seed| seed % 2 == odd);
            scope.spawn(move || mine.map(|seed| (seed, run(seed))).collect::<Vec<_>>())
        };
        [0, 1].map(half).into_iter().flat_map(|half| half.join().expect("panics are caught")).collect()
    });
    let (mut happened, mut failures) = (0, Vec::new());
    for (seed, end) in ends {
        match end {
            Ok(count) => happened += count,
            Err(why) => failures.push(format!("seed {seed}: {why}")),
        }
    }
    (happened, failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_that_panics_is_named_and_the_others_are_played() {
        let (happened, failures) = all(&(0..4), &|seed| async move {
            assert_ne!(seed, 2, "a bad one");
            Ok(1)
        });
        assert_eq!((happened, failures.len()), (3, 1));
        assert!(failures[0].starts_with("seed 2: it panicked: ") && failures[0].contains("a bad one"), "{failures:?}");
    }
}
