//! Single flight: many ask, one goes, all get the answer.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use futures::future::join_all;

    use super::*;

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
}
