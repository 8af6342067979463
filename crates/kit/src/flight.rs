//! Single flight: many ask, one goes, all get the answer.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};

/// Questions on their way, numbered: a later one may have the key of one that has just landed.
type Board<K, V> = BTreeMap<K, (u64, WeakShared<BoxFuture<'static, V>>)>;

/// Questions that are on their way, by key. Whoever still waits keeps a question going: the one who asked first may
/// give up without harm to the others, and when nobody waits any more the question is dropped.
#[derive(Debug)]
pub struct Flights<K, V: Clone> {
    running: Mutex<Board<K, V>>,
    seq: Mutex<u64>,
}

impl<K: Ord + Clone, V: Clone + Send + Sync + 'static> Default for Flights<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Clone, V: Clone + Send + Sync + 'static> Flights<K, V> {
    /// Nothing is on its way.
    #[must_use]
    pub fn new() -> Self {
        Self { running: Mutex::new(BTreeMap::new()), seq: Mutex::new(0) }
    }

    /// The answer to a question: of the one on its way, or of a new one. An answer is not kept: the next question
    /// after it goes anew.
    pub async fn join<F>(&self, key: K, ask: impl FnOnce() -> F) -> V
    where
        F: Future<Output = V> + Send + 'static,
    {
        let (number, flight) = self.board(&key, ask);
        let _landing = Landing { flights: self, key, number };
        flight.await
    }

    /// How many questions are on their way.
    #[must_use]
    pub fn running(&self) -> usize {
        self.lock().values().filter(|(_, flight)| flight.upgrade().is_some()).count()
    }

    fn board<F>(&self, key: &K, ask: impl FnOnce() -> F) -> (u64, Shared<BoxFuture<'static, V>>)
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut running = self.lock();
        if let Some((number, flight)) = running.get(key)
            && let Some(flight) = flight.upgrade()
            // Whoever comes after the answer wants a newer one.
            && flight.peek().is_none()
        {
            return (*number, flight);
        }
        let flight = ask().boxed().shared();
        let number = {
            let mut seq = self.seq.lock().unwrap_or_else(PoisonError::into_inner);
            *seq += 1;
            *seq
        };
        // A flight that has not been polled is alive as long as this handle is, so it can always be found.
        if let Some(weak) = flight.downgrade() {
            running.insert(key.clone(), (number, weak));
        }
        (number, flight)
    }

    fn lock(&self) -> MutexGuard<'_, Board<K, V>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a flight off the board when one of its passengers leaves and it has landed or nobody else is aboard.
struct Landing<'a, K: Ord + Clone, V: Clone + Send + Sync + 'static> {
    flights: &'a Flights<K, V>,
    key: K,
    number: u64,
}

impl<K: Ord + Clone, V: Clone + Send + Sync + 'static> Drop for Landing<'_, K, V> {
    fn drop(&mut self) {
        let mut running = self.flights.lock();
        let over = running.get(&self.key).is_some_and(|(number, flight)| {
            *number == self.number && flight.upgrade().is_none_or(|flight| flight.peek().is_some())
        });
        if over {
            running.remove(&self.key);
        }
    }
}

/// Questions of which one per key is on its way. Whoever asks meanwhile shares the next one, which leaves when that has
/// landed: nobody gets an answer that is older than the question, and however many ask, the other side is asked one
/// thing at a time.
pub struct Rounds<K, V: Clone> {
    lines: Arc<Mutex<BTreeMap<K, Line<V>>>>,
}

/// One key's turn, and those who wait for it.
struct Line<V: Clone> {
    turn: Arc<tokio::sync::Mutex<()>>,
    next: Option<WeakShared<BoxFuture<'static, V>>>,
}

impl<K: Ord + Clone + Send + 'static, V: Clone + Send + Sync + 'static> Default for Rounds<K, V> {
    fn default() -> Self {
        Self { lines: Arc::default() }
    }
}

impl<K: Ord + Clone + Send + 'static, V: Clone + Send + Sync + 'static> Rounds<K, V> {
    /// The answer to a question that leaves after this call.
    pub async fn join<F>(&self, key: K, ask: impl FnOnce() -> F + Send + 'static) -> V
    where
        F: Future<Output = V> + Send + 'static,
    {
        let flight = self.board(key, ask);
        let answer = flight.await;
        // Nothing is kept of keys that nobody asks about.
        let waited_for = |line: &Line<V>| line.next.as_ref().is_some_and(|next| next.upgrade().is_some());
        lock(&self.lines).retain(|_, line| Arc::strong_count(&line.turn) > 1 || waited_for(line));
        answer
    }

    fn board<F>(&self, key: K, ask: impl FnOnce() -> F + Send + 'static) -> Shared<BoxFuture<'static, V>>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut lines = lock(&self.lines);
        let line = lines.entry(key.clone()).or_insert_with(|| Line { turn: Arc::default(), next: None });
        if let Some(next) = line.next.as_ref().and_then(WeakShared::upgrade) {
            return next;
        }
        let (turn, all) = (Arc::clone(&line.turn), Arc::clone(&self.lines));
        let next = async move {
            let _turn = turn.lock_owned().await;
            // It leaves: whoever comes from now on waits for another one.
            if let Some(line) = lock(&all).get_mut(&key) {
                line.next = None;
            }
            ask().await
        };
        let next = next.boxed().shared();
        line.next = next.downgrade();
        next
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use futures::future::join_all;
    use tokio::task::JoinSet;
    use tokio::time::Instant;

    use super::*;
    use crate::clock::Clock;

    async fn slow(count: Arc<AtomicU32>) -> u32 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        count.fetch_add(1, Ordering::SeqCst) + 1
    }

    #[tokio::test(start_paused = true)]
    async fn a_hundred_questions_are_one_and_other_keys_do_not_wait() {
        let (flights, count) = (Flights::new(), Arc::new(AtomicU32::new(0)));
        let answers = join_all((0..100).map(|_| flights.join("a", || slow(count.clone()))));
        let (answers, other) = futures::join!(answers, flights.join("b", || async { 99 }));
        assert!(answers.iter().all(|answer| *answer == 1) && other == 99);
        assert_eq!((count.load(Ordering::SeqCst), flights.running()), (1, 0));
        assert_eq!(flights.join("a", || slow(count.clone())).await, 2, "an answer is not kept");
        assert!(flights.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_harms_nobody_and_the_last_one_takes_it_down() {
        let (flights, count) = (Flights::new(), Arc::new(AtomicU32::new(0)));
        let mut first = Box::pin(flights.join("a", || slow(count.clone())));
        assert!(futures::poll!(first.as_mut()).is_pending());
        let mut second = Box::pin(flights.join("a", || slow(count.clone())));
        assert!(futures::poll!(second.as_mut()).is_pending());
        drop(first);
        assert_eq!(flights.running(), 1);
        assert_eq!(second.await, 1);
        let mut alone = Box::pin(flights.join("a", || slow(count.clone())));
        assert!(futures::poll!(alone.as_mut()).is_pending());
        drop(alone);
        assert_eq!((flights.running(), count.load(Ordering::SeqCst)), (0, 1));
        assert_eq!(flights.join("a", || slow(count.clone())).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_never_older_than_the_question_and_few_questions_serve_many() {
        let (rounds, sent) = (Arc::new(Rounds::<&str, Instant>::default()), Arc::new(AtomicU32::new(0)));
        let mut askers = JoinSet::new();
        for n in 0..200 {
            let (rounds, sent) = (Arc::clone(&rounds), Arc::clone(&sent));
            askers.spawn(async move {
                tokio::time::sleep(Duration::from_millis(n)).await;
                let asked = Clock::system().instant();
                let left = rounds.join("class", move || async move {
                    sent.fetch_add(1, Ordering::SeqCst);
                    let left = Clock::system().instant();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    left
                });
                let left = left.await;
                assert!(left >= asked, "the question had left before");
                asked.elapsed()
            });
        }
        while let Some(waited) = askers.join_next().await {
            assert!(waited.unwrap() <= Duration::from_millis(45), "the one on its way, and the next");
        }
        let sent = sent.load(Ordering::SeqCst);
        assert!((9..=12).contains(&sent), "one in twenty milliseconds: {sent}");
        assert!(rounds.lines.lock().unwrap().is_empty(), "nothing is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_holds_nobody_up() {
        let rounds = Arc::new(Rounds::<&str, u8>::default());
        let hung = Arc::clone(&rounds);
        let mut first = JoinSet::new();
        first.spawn(async move { hung.join("class", std::future::pending).await });
        tokio::time::sleep(Duration::from_millis(1)).await;
        let (second, third) = (Arc::clone(&rounds), Arc::clone(&rounds));
        let waiting = tokio::time::timeout(Duration::from_secs(1), second.join("class", || async { 1 }));
        assert!(waiting.await.is_err(), "one question at a time");
        first.shutdown().await;
        let answer = tokio::time::timeout(Duration::from_secs(1), third.join("class", || async { 2 })).await;
        assert_eq!(answer, Ok(2), "what nobody waits for any more is dropped");
    }
}
