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

    /// Has these claims looked at: first those that have something to gain, or to give back. A claim that only waits can
    /// be told no more than why, and however many of those there are, nobody else stands behind them.
    pub(crate) fn wake(&self, queue: &Work<ObjectKey>, claims: Vec<ObjectKey>) {
        if claims.is_empty() {
            return;
        }
        let ranked: Vec<(ObjectKey, Priority)> = {
            let yard = self.lock();
            let ranked = claims.into_iter().map(|claim| {
                let priority = if yard.is_idle(&claim) { Priority::Background } else { Priority::Urgent };
                (claim, priority)
            });
            ranked.collect()
        };
        for (claim, priority) in ranked {
            queue.add_now(claim, priority);
        }
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

/// Tells the yard that time has passed when that matters to somebody, and the ledgers what has changed hands.
pub(crate) async fn run_clock(
    shared: SharedYard,
    clock: Clock,
    queue: Arc<Work<ObjectKey>>,
    ledgers: Ledgers,
    stop: CancellationToken,
) {
    loop {
        let now = clock.now();
        let (due, touched) = {
            let yard = shared.lock();
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
            () = shared.news.notified(), if !touched => continue,
        }
        let now = clock.now();
        let (woken, touched) = {
            let mut yard = shared.lock();
            let due = yard.due().is_some_and(|due| due <= now);
            (if due { yard.tick(now) } else { Vec::new() }, yard.touched())
        };
        shared.wake(&queue, woken);
        ledgers.wake(touched);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::facts::{ClaimFacts, HostFacts, PolicyFacts};
    use crate::yard::Settings;

    fn claim(tenant: &str, name: &str) -> Arc<ClaimFacts> {
        let object = json!({"metadata": {"namespace": tenant, "name": name, "uid": format!("{tenant}-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"poweredOn": true, "kind": "baremetal"}});
        Arc::new(ClaimFacts::of(serde_json::from_value(object).unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gets_a_host_stands_behind_nobody_who_only_waits() {
        let now = Timestamp::UNIX_EPOCH;
        let shared = Shared::new(Yard::new(Settings::default()));
        let policy = json!({"metadata": {"name": "p", "uid": "p"},
            "spec": {"hostClaimNamespaces": {"names": ["red", "blue"]}, "hostSelector": {"matchLabels": {"pool": "a"}}}});
        let policy = Arc::new(PolicyFacts::of(serde_json::from_value(policy).unwrap()));
        shared.lock().policy(&ObjectKey::namespaced("infra", "p"), Some(policy), now);
        shared.lock().open(now);
        let queue = Work::new(Clock::simulated(now, 1));
        let mut flood: BTreeSet<ObjectKey> = BTreeSet::new();
        for n in 0..5000 {
            let (name, key) = (format!("c{n}"), ObjectKey::namespaced("red", format!("c{n}")));
            let woken = shared.lock().claim(&key, Some(claim("red", &name)), now);
            shared.wake(&queue, woken.into_iter().chain([key.clone()]).collect());
            flood.insert(key);
        }
        assert_eq!(
            queue.next().await.key().namespace(),
            Some("red"),
            "where nothing else is to be done they have their turn"
        );
        // Somebody else's claim comes last, and a host for it: the policy of red does not open this one.
        let own = ObjectKey::namespaced("infra", "own");
        let woken = shared.lock().claim(&own, Some(claim("infra", "own")), now);
        shared.wake(&queue, woken.into_iter().chain([own.clone()]).collect());
        let host = json!({"metadata": {"name": "h", "uid": "h"}, "spec": {"online": false},
            "status": {"provisioning": {"state": "available"}, "operationalStatus": "OK"}});
        let host = Arc::new(HostFacts::of(serde_json::from_value(host).unwrap()));
        let woken = shared.lock().host(&ObjectKey::namespaced("infra", "h"), Some(host), now);
        assert_eq!(woken, std::slice::from_ref(&own));
        shared.wake(&queue, woken);
        // The waiting ones are woken once more, as when their counts change.
        shared.wake(&queue, flood.into_iter().collect());
        assert_eq!(*queue.next().await.key(), own);
    }
}
