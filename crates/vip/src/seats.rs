//! One call per cluster at a time, woken when something about its claims changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::key::ObjectKey;
use tokio::sync::{Mutex as Turn, Notify, OwnedMutexGuard};
use tokio::time::{Instant, timeout_at};

#[derive(Default)]
struct Seat {
    turn: Arc<Turn<()>>,
    news: Notify,
}

/// The clusters that calls are about right now.
#[derive(Clone, Default)]
pub struct Seats {
    taken: Arc<Mutex<HashMap<ObjectKey, Arc<Seat>>>>,
}

/// The right to work on one cluster until it is dropped.
pub struct Taken {
    key: ObjectKey,
    seats: Seats,
    seat: Arc<Seat>,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Seats {
    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, Arc<Seat>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its turn; none when that does not come before `deadline`.
    pub async fn take(&self, key: &ObjectKey, deadline: Instant) -> Option<Taken> {
        let seat = Arc::clone(self.all().entry(key.clone()).or_default());
        let mut taken = Taken { key: key.clone(), seats: self.clone(), seat, turn: None };
        let turn = Arc::clone(&taken.seat.turn).lock_owned();
        taken.turn = Some(timeout_at(deadline, turn).await.ok()?);
        Some(taken)
    }

    /// Wakes the call about this cluster, if there is one.
    pub fn wake(&self, key: &ObjectKey) {
        let seat = self.all().get(key).cloned();
        if let Some(seat) = seat {
            seat.news.notify_waiters();
        }
    }

    /// How many clusters are being worked on.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Whether no cluster is being worked on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Taken {
    /// The next news; what comes after this call and before the wait is not lost once it was enabled.
    pub fn news(&self) -> tokio::sync::futures::Notified<'_> {
        self.seat.news.notified()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.turn = None;
        let mut all = self.seats.all();
        // Ours and the table's: nobody else waits for this cluster.
        if Arc::strong_count(&self.seat) <= 2 {
            all.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        kit::clock::Clock::system().instant() + Duration::from_secs(1)
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_per_cluster_and_nobody_waits_for_another_cluster() {
        let seats = Seats::default();
        let (a, b) = (ObjectKey::namespaced("n", "a"), ObjectKey::namespaced("n", "b"));
        let first = seats.take(&a, soon()).await.unwrap();
        assert!(seats.take(&a, soon()).await.is_none(), "its turn has not come");
        let other = seats.take(&b, soon()).await.unwrap();
        assert_eq!(seats.len(), 2);
        drop(first);
        assert!(seats.take(&a, soon()).await.is_some());
        drop(other);
        assert!(seats.is_empty(), "nothing is kept of clusters that nobody asks about");
    }

    #[tokio::test(start_paused = true)]
    async fn news_between_looking_and_waiting_are_not_lost() {
        let seats = Seats::default();
        let key = ObjectKey::namespaced("n", "a");
        let taken = seats.take(&key, soon()).await.unwrap();
        let mut news = std::pin::pin!(taken.news());
        news.as_mut().enable();
        seats.wake(&key);
        assert!(timeout_at(soon(), news).await.is_ok());
    }
}
