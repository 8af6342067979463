//! The yard, shared between whoever tells it news and whoever asks it, and the clock that wakes it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use jiff::Timestamp;
use kit::clock::Clock;
use kit::queue::{Priority, Work};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::keeper::Ledgers;
use crate::yard::Yard;

/// What happens together is told together: the status of a policy is written once for many hosts.
const TOGETHER: Duration = Duration::from_secs(1);

/// The yard and whoever waits for its news.
pub type SharedYard = Arc<Shared>;

/// A yard, and a bell that rings when its clock has something new to do.
#[derive(Debug)]
pub struct Shared {
    yard: Mutex<Yard>,
    news: Notify,
}

impl Shared {
    /// Shares a yard.
    #[must_use]
    pub fn new(yard: Yard) -> Self {
        Self { yard: Mutex::new(yard), news: Notify::new() }
    }

    /// The yard; never to be held over an await.
    pub fn lock(&self) -> Held<'_> {
        let yard = self.yard.lock().unwrap_or_else(PoisonError::into_inner);
        Held { due: yard.due(), yard, news: &self.news }
    }
}

/// The yard in one pair of hands.
pub struct Held<'y> {
    yard: MutexGuard<'y, Yard>,
    news: &'y Notify,
    due: Option<Timestamp>,
}

impl Deref for Held<'_> {
    type Target = Yard;

    fn deref(&self) -> &Yard {
        &self.yard
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Yard {
        &mut self.yard
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.yard.is_touched() || self.yard.due() != self.due {
            self.news.notify_one();
        }
    }
}

/// Has these claims looked at.
pub(crate) fn wake(queue: &Work<ObjectKey>, claims: Vec<ObjectKey>) {
    for claim in claims {
        queue.add_now(claim, Priority::Urgent);
    }
}

/// Tells the yard that time has passed when that matters to somebody, and the ledgers what has changed hands.
pub(crate) async fn run_clock(
    yard: SharedYard,
    clock: Clock,
    queue: Arc<Work<ObjectKey>>,
    ledgers: Ledgers,
    stop: CancellationToken,
) {
    loop {
        let now = clock.now();
        let (due, touched) = {
            let yard = yard.lock();
            (yard.due().map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default()), yard.is_touched())
        };
        let soon = touched.then_some(TOGETHER);
        let pause = [due, soon].into_iter().flatten().min();
        let time = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = time => {}
            // What has to be told already is told at its time, whatever else comes.
            () = yard.news.notified(), if !touched => continue,
        }
        let now = clock.now();
        let (woken, touched) = {
            let mut yard = yard.lock();
            let due = yard.due().is_some_and(|due| due <= now);
            (if due { yard.tick(now) } else { Vec::new() }, yard.touched())
        };
        wake(&queue, woken);
        ledgers.wake(touched);
    }
}
