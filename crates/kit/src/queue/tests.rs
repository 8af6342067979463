use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use proptest::prelude::*;
use tokio::task::JoinSet;

use super::*;
use crate::clock::Clock;

const MS: Duration = Duration::from_millis(1);

fn origin() -> Instant {
    Clock::system().instant()
}

#[derive(Clone, Debug)]
enum Op {
    Add { key: u8, after: i64, priority: Priority },
    Take,
    Done { nth: usize, too_early: bool },
    Pass { ms: u64 },
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![Just(Priority::Urgent), Just(Priority::Background)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0u8..12, -40i64..300, priority()).prop_map(|(key, after, priority)| Op::Add { key, after, priority }),
        6 => Just(Op::Take),
        4 => (0usize..8, prop::bool::weighted(0.3)).prop_map(|(nth, too_early)| Op::Done { nth, too_early }),
        4 => (0u64..150).prop_map(|ms| Op::Pass { ms }),
    ]
}

/// The same promises with a list and no cleverness.
#[derive(Default)]
struct Naive {
    spacing: Duration,
    waiting: Vec<(u8, Instant, Priority, u64)>,
    busy: BTreeSet<u8>,
    started: BTreeMap<u8, Instant>,
    seq: u64,
    run: u8,
    behind: BTreeSet<u8>,
    behind_at_most: usize,
    excused: BTreeSet<u8>,
}

impl Naive {
    fn add(&mut self, key: u8, when: Instant, priority: Priority) {
        let old = self.waiting.iter().position(|w| w.0 == key).map(|at| self.waiting.remove(at));
        let (when, priority, seq) = match old {
            Some((_, w, p, seq)) if w <= when && p <= priority => (w, p, seq),
            other => {
                self.seq += 1;
                other.map_or((when, priority, self.seq), |(_, w, p, _)| (w.min(when), p.min(priority), self.seq))
            }
        };
        self.waiting.push((key, when, priority, seq));
    }

    fn due(&self, w: &(u8, Instant, Priority, u64)) -> Instant {
        self.started.get(&w.0).map_or(w.1, |s| w.1.max(*s + self.spacing))
    }

    /// Starts that hold nothing back any more are forgotten; it shows only in the order of backdated adds.
    fn sweep(&mut self, now: Instant) {
        let (busy, waiting, spacing) = (&self.busy, &self.waiting, self.spacing);
        self.started.retain(|key, at| busy.contains(key) || waiting.iter().any(|w| w.0 == *key) || *at + spacing > now);
        let started = &self.started;
        self.excused.retain(|key| started.contains_key(key) || waiting.iter().any(|w| w.0 == *key));
    }

    fn done(&mut self, key: u8, too_early: bool) {
        self.busy.remove(&key);
        self.behind.remove(&key);
        if !self.excused.remove(&key) && too_early {
            self.excused.insert(key);
            self.started.remove(&key);
        }
    }

    fn take(&mut self, now: Instant) -> Result<u8, Option<Duration>> {
        self.sweep(now);
        let full = self.behind.len() >= self.behind_at_most;
        let held = |w: &(u8, Instant, Priority, u64)| self.busy.contains(&w.0) || (full && w.2 == Priority::Background);
        let free: Vec<_> = self.waiting.iter().filter(|w| !held(w)).copied().collect();
        let first = |p: Priority| {
            free.iter().filter(|w| w.2 == p && self.due(w) <= now).min_by_key(|w| (self.due(w), w.3)).map(|w| w.0)
        };
        let (key, behind) = match (first(Priority::Urgent), first(Priority::Background)) {
            (Some(_), Some(b)) if self.run == 7 => {
                self.run = 0;
                (b, true)
            }
            (Some(u), Some(_)) => {
                self.run += 1;
                (u, false)
            }
            (Some(u), None) => (u, false),
            (None, Some(b)) => {
                self.run = 0;
                (b, true)
            }
            (None, None) => return Err(free.iter().map(|w| self.due(w) - now).min()),
        };
        self.waiting.retain(|w| w.0 != key);
        self.busy.insert(key);
        if behind {
            self.behind.insert(key);
        }
        self.started.insert(key, now);
        Ok(key)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Covers at once: a busy key is never handed out twice, no added key is lost, the earlier due time wins, spacing
    /// and the background guarantee, since the naive model has each of them in one visible line.
    #[test]
    fn the_queue_equals_a_naive_model(
        ops in prop::collection::vec(op(), 1..120),
        spacing in prop_oneof![Just(0u64), Just(100)],
        behind_at_most in prop_oneof![Just(usize::MAX), 1usize..4],
    ) {
        let mut now = origin() + Duration::from_secs(10);
        let spacing = Duration::from_millis(spacing);
        let mut queue = Queue::new(spacing);
        queue.limit_background(behind_at_most);
        let mut naive = Naive { spacing, behind_at_most, ..Naive::default() };
        for op in ops {
            match op {
                Op::Add { key, after, priority } => {
                    let shift = MS * u32::try_from(after.unsigned_abs()).unwrap();
                    let when = if after < 0 { now - shift } else { now + shift };
                    queue.add(key, when, priority);
                    naive.add(key, when, priority);
                }
                Op::Take => prop_assert_eq!(queue.take(now), naive.take(now)),
                Op::Done { nth, too_early } => if let Some(key) = naive.busy.iter().nth(nth).copied() {
                    if too_early { queue.done_too_early(&key, now) } else { queue.done(&key, now) }
                    naive.done(key, too_early);
                    naive.sweep(now);
                },
                Op::Pass { ms } => now += MS * u32::try_from(ms).unwrap(),
            }
            prop_assert_eq!(queue.len(), naive.waiting.len());
            prop_assert_eq!(queue.busy(), naive.busy.len());
        }
    }

    #[test]
    fn a_busy_key_is_never_handed_out_twice_and_spacing_holds(ops in prop::collection::vec(op(), 1..200)) {
        let mut now = origin() + Duration::from_secs(10);
        let mut queue = Queue::default();
        let mut busy = BTreeSet::new();
        let mut started: BTreeMap<u8, Instant> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Add { key, priority, .. } => queue.add(key, now, priority),
                Op::Take => if let Ok(key) = queue.take(now) {
                    prop_assert!(busy.insert(key), "key {} has two workers", key);
                    if let Some(last) = started.insert(key, now) {
                        prop_assert!(now - last >= SPACING, "key {} started again after {:?}", key, now - last);
                    }
                },
                Op::Done { nth, .. } => if let Some(key) = busy.iter().nth(nth).copied() {
                    busy.remove(&key);
                    queue.done(&key, now);
                },
                Op::Pass { ms } => now += MS * u32::try_from(ms).unwrap(),
            }
        }
    }

    #[test]
    fn no_added_key_is_lost_and_nothing_is_kept_of_idle_keys(ops in prop::collection::vec(op(), 1..200)) {
        let mut now = origin() + Duration::from_secs(10);
        let mut queue = Queue::default();
        let mut owed = BTreeSet::new();
        let mut busy = BTreeSet::new();
        for op in ops {
            match op {
                Op::Add { key, after, priority } => {
                    queue.add(key, now + MS * u32::try_from(after.unsigned_abs()).unwrap(), priority);
                    owed.insert(key);
                }
                Op::Take => if let Ok(key) = queue.take(now) {
                    prop_assert!(owed.remove(&key), "key {} was handed out unasked", key);
                    busy.insert(key);
                },
                Op::Done { nth, .. } => if let Some(key) = busy.iter().nth(nth).copied() {
                    busy.remove(&key);
                    queue.done(&key, now);
                },
                Op::Pass { ms } => now += MS * u32::try_from(ms).unwrap(),
            }
        }
        for key in busy {
            queue.done(&key, now);
        }
        loop {
            match queue.take(now) {
                Ok(key) => {
                    prop_assert!(owed.remove(&key));
                    queue.done(&key, now);
                }
                Err(Some(sleep)) => now += sleep,
                Err(None) => break,
            }
        }
        prop_assert!(owed.is_empty(), "lost: {:?}", owed);
        now += SPACING;
        prop_assert_eq!(queue.take(now), Err(None));
        prop_assert_eq!(queue.remembered(), 0);
    }

    #[test]
    fn the_earlier_due_time_and_the_higher_priority_win(adds in prop::collection::vec((1u32..1000, priority()), 1..20)) {
        let now = origin();
        let mut queue = Queue::default();
        for (after, priority) in &adds {
            queue.add(1u8, now + MS * *after, *priority);
        }
        let earliest = adds.iter().map(|(after, _)| *after).min().unwrap();
        prop_assert_eq!(queue.take(now), Err(Some(MS * earliest)));
        let urgent = adds.iter().any(|(_, p)| *p == Priority::Urgent);
        // Another key of the other priority, due earlier: the order tells which lane the first key is in.
        let at = now + Duration::from_secs(1);
        queue.add(2u8, now, if urgent { Priority::Background } else { Priority::Urgent });
        prop_assert_eq!(queue.take(at), Ok(if urgent { 1 } else { 2 }));
    }

    #[test]
    fn the_background_has_one_turn_in_eight_and_no_more(urgent in 20usize..80, background in 5usize..40) {
        let now = origin();
        let mut queue = Queue::default();
        for n in 0..urgent { queue.add((0, n), now, Priority::Urgent) }
        for n in 0..background { queue.add((1, n), now, Priority::Background) }
        let mut turns = Vec::new();
        let (mut u, mut b) = (urgent, background);
        while u > 0 && b > 0 {
            let (lane, _) = queue.take(now).unwrap();
            if lane == 0 { u -= 1 } else { b -= 1 }
            turns.push(lane);
        }
        for eight in turns.windows(8) {
            prop_assert_eq!(eight.iter().sum::<i32>(), 1);
        }
    }

    #[test]
    fn every_key_has_one_slot_of_a_resync(key in "[a-z]{1,12}/[a-z0-9-]{1,20}", slots in 0u64..1_000) {
        prop_assert!(slot(&key, slots) < slots.max(1));
        prop_assert_eq!(slot(&key, slots), slot(&key, slots));
    }
}

#[test]
fn the_first_change_is_never_delayed_and_the_second_waits_out_the_spacing() {
    let now = origin();
    let mut queue = Queue::default();
    queue.add("a", now, Priority::Urgent);
    assert_eq!(queue.take(now), Ok("a"));
    queue.add("a", now, Priority::Urgent);
    assert_eq!(queue.take(now), Err(None), "only its own worker holds it back");
    queue.done(&"a", now + MS * 10);
    assert_eq!(queue.take(now + MS * 10), Err(Some(MS * 90)));
    assert_eq!(queue.take(now + SPACING), Ok("a"));
}

#[test]
fn a_start_that_came_too_early_holds_nothing_back_and_the_next_one_does() {
    let now = origin();
    let mut queue = Queue::default();
    queue.add("a", now, Priority::Urgent);
    assert_eq!(queue.take(now), Ok("a"));
    queue.add("a", now + MS * 50, Priority::Urgent);
    queue.done_too_early(&"a", now + MS);
    assert_eq!(queue.take(now + MS), Err(Some(MS * 49)));
    // What it waited for.
    queue.add("a", now + MS * 5, Priority::Urgent);
    assert_eq!(queue.take(now + MS * 5), Ok("a"));
    queue.add("a", now + MS * 6, Priority::Urgent);
    queue.done_too_early(&"a", now + MS * 6);
    assert_eq!(queue.take(now + MS * 6), Err(Some(MS * 99)), "twice in a row counts");
}

#[test]
fn finishing_a_key_nobody_took_changes_nothing() {
    let now = origin();
    let mut queue = Queue::default();
    queue.add("a", now, Priority::Urgent);
    queue.done(&"a", now);
    queue.done(&"b", now);
    assert_eq!((queue.len(), queue.busy()), (1, 0));
    assert_eq!(queue.take(now), Ok("a"));
}

#[test]
fn ten_thousand_resyncs_do_not_fall_due_together() {
    let mut sizes = BTreeMap::new();
    for n in 0..10_000 {
        *sizes.entry(slot(&format!("default/machine-{n}"), 300)).or_insert(0) += 1;
    }
    assert!(sizes.len() >= 299, "{} of 300 slots are used", sizes.len());
    let most = sizes.values().max().unwrap();
    assert!(*most < 80, "33 in a slot on average, {most} in the worst");
}

#[test]
fn the_slot_of_a_key_is_the_same_in_every_process() {
    assert_eq!(slot("default/a", u64::MAX), KNOWN_SLOT);
}

/// Fails when the hash changes, which would move every resync at an upgrade.
const KNOWN_SLOT: u64 = 12_141_446_417_783_828_619;

fn work() -> Arc<Work<u32>> {
    Work::new(Clock::simulated(Timestamp::UNIX_EPOCH, 1))
}

/// F33: one object that changes 1,000 times a second against 1,000 others on 4 workers of 1 ms per step.
#[tokio::test(start_paused = true)]
async fn one_frantic_key_does_not_delay_a_thousand_others() {
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
    let work: Arc<Work<u32>> = Work::new(clock.clone());
    let begin = clock.instant();
    let frantic = Arc::new(AtomicUsize::new(0));
    let others = Arc::new(Mutex::new(BTreeMap::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (work, clock, frantic, others) = (work.clone(), clock.clone(), frantic.clone(), others.clone());
        tasks.spawn(async move {
            loop {
                let turn = work.next().await;
                if *turn == 0 {
                    frantic.fetch_add(1, Ordering::Relaxed);
                } else {
                    others.lock().unwrap().insert(*turn, clock.instant() - begin);
                }
                tokio::time::sleep(MS).await;
            }
        });
    }
    for key in 1..=1000 {
        work.add_now(key, Priority::Urgent);
    }
    for _ in 0..1000 {
        work.add_now(0, Priority::Urgent);
        tokio::time::sleep(MS).await;
    }
    tasks.shutdown().await;
    let others = others.lock().unwrap();
    assert_eq!(others.len(), 1000);
    let last = others.values().max().unwrap();
    assert!(*last <= MS * 255, "1,000 steps of 1 ms on 4 workers take 250 ms, the last began after {last:?}");
    let turns = frantic.load(Ordering::Relaxed);
    assert!((8..=11).contains(&turns), "one start per 100 ms, not {turns}");
}

/// However many keys nobody waits for, and however long each takes, there is a worker for what is urgent, and none idles for
/// longer than it must.
#[tokio::test(start_paused = true)]
async fn the_background_leaves_workers_free_for_what_is_urgent() {
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
    let work: Arc<Work<u32>> = Work::new(clock.clone());
    work.limit_background(2);
    let began = clock.instant();
    let starts = Arc::new(Mutex::new(BTreeMap::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (work, clock, starts) = (work.clone(), clock.clone(), starts.clone());
        tasks.spawn(async move {
            loop {
                let turn = work.next().await;
                starts.lock().unwrap().insert(*turn, clock.instant() - began);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }
    for key in 1..=10 {
        work.add_now(key, Priority::Background);
    }
    tokio::time::sleep(MS * 2500).await;
    work.add_now(100, Priority::Urgent);
    tokio::time::sleep(Duration::from_secs(5)).await;
    tasks.shutdown().await;
    let starts = starts.lock().unwrap();
    assert_eq!(starts.get(&100), Some(&(MS * 2500)), "an urgent key found no worker");
    let seconds: Vec<u64> = (1..=10).filter_map(|key| starts.get(&key)).map(Duration::as_secs).collect();
    assert_eq!(seconds, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_wakes_for_an_add_and_for_a_due_time() {
    let work = work();
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
    let begin = clock.instant();
    work.add_at(7, begin + Duration::from_secs(600), Priority::Background);
    let (turn, ()) = tokio::join!(work.next(), async {
        tokio::time::sleep(MS * 5).await;
        work.add_now(3, Priority::Urgent);
    });
    assert_eq!((*turn, clock.instant() - begin), (3, MS * 5));
    assert_eq!(*work.next().await, 7);
    assert_eq!(clock.instant() - begin, Duration::from_secs(600));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_hands_its_watch_to_another_worker() {
    let work = work();
    let other = work.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { *other.next().await });
    tokio::task::yield_now().await;
    // This one is woken for the add, arms the short timer and is dropped.
    let mut dropped = Box::pin(work.next());
    assert!(futures::poll!(&mut dropped).is_pending());
    work.add_after(1, MS * 10, Priority::Urgent);
    tokio::task::yield_now().await;
    assert!(futures::poll!(&mut dropped).is_pending());
    drop(dropped);
    let got = tokio::time::timeout(MS * 11, tasks.join_next()).await.expect("the other worker wakes in time");
    assert_eq!(got.unwrap().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_gathers_and_hands_out_nothing() {
    let work = work();
    work.add_now(1, Priority::Urgent);
    let turn = work.next().await;
    work.pause();
    work.add_now(2, Priority::Urgent);
    assert!(tokio::time::timeout(Duration::from_secs(60), work.next()).await.is_err());
    assert_eq!(work.depth(), Depth { waiting: 1, busy: 1, late: Duration::from_secs(60) });
    drop(turn);
    work.resume();
    assert_eq!(*work.next().await, 2);
}

#[tokio::test(start_paused = true)]
async fn lateness_is_told_of_what_is_due_and_of_nothing_else() {
    let work = work();
    work.add_after(1, Duration::from_secs(30), Priority::Background);
    work.add_after(2, Duration::from_secs(10), Priority::Urgent);
    assert_eq!(work.depth().late, Duration::ZERO);
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(work.depth().late, Duration::from_secs(2));
    let turn = work.next().await;
    assert_eq!((*turn, work.depth().late), (2, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_panicking_worker_frees_its_key() {
    let work = work();
    work.add_now(1, Priority::Urgent);
    let other = work.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _turn = other.next().await;
        panic!("a poisoned object");
    });
    assert!(tasks.join_next().await.unwrap().is_err());
    assert_eq!(work.depth().busy, 0);
    work.add_now(1, Priority::Urgent);
    assert_eq!(*work.next().await, 1);
}

#[tokio::test(start_paused = true)]
async fn many_workers_share_many_due_times_without_oversleeping() {
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 9);
    let work: Arc<Work<u32>> = Work::new(clock.clone());
    let begin = clock.instant();
    let (late, taken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        let (work, clock, late, taken) = (work.clone(), clock.clone(), late.clone(), taken.clone());
        tasks.spawn(async move {
            loop {
                let turn = work.next().await;
                taken.fetch_add(1, Ordering::Relaxed);
                if clock.instant() > begin + MS * *turn + MS {
                    late.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    for _ in 0..2000 {
        let key = u32::try_from(clock.roll() % 10_000).unwrap();
        work.add_at(key, begin + MS * key, Priority::Background);
    }
    let asked = work.depth().waiting;
    tokio::time::sleep(Duration::from_secs(11)).await;
    tasks.shutdown().await;
    assert_eq!(taken.load(Ordering::Relaxed), asked);
    assert_eq!(late.load(Ordering::Relaxed), 0);
}
