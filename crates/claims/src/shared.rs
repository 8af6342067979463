//! The yard, shared between whoever tells it news and whoever asks it, and the clock that wakes it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use claim_kind::table::{News, Seat, Turn};
use jiff::Timestamp;
use kit::clock::Clock;
use kit::queue::{Priority, Work};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::keeper::Ledgers;
use crate::yard::Yard;

/// What happens together is told together: the status of a policy is written once for many hosts.
const TOGETHER: Duration = Duration::from_secs(1);
/// Each policy or quota that is told of puts the next time off by this: they are at most ten writes a second, and leave the
/// server to those who wait for a host.
const EACH: Duration = Duration::from_millis(100);
/// While hosts go on changing hands nobody is told what that has come to so far, but not for longer than this.
const LONGEST: Duration = Duration::from_secs(30);

/// The yard and whoever waits for its news.
pub type SharedYard = Arc<Shared>;

/// A yard, and a bell that rings when its clock has something new to do.
pub struct Shared {
    yard: Mutex<Yard>,
    news: Notify,
    /// Where other kinds hear who is promised a host, and we what they are about to have. Locked before the yard.
    seat: Seat,
}

impl Shared {
    /// Shares a yard.
    #[must_use]
    pub fn new(yard: Yard, seat: Seat) -> SharedYard {
        let shared = Arc::new(Self { yard: Mutex::new(yard), news: Notify::new(), seat });
        let hears = Arc::downgrade(&shared);
        shared.seat.listen(move |news| {
            if let Some(shared) = hears.upgrade() {
                shared.hear(news);
            }
        });
        shared
    }

    /// The yard; never to be held over an await.
    pub fn lock(&self) -> Held<'_> {
        let turn = self.seat.turn();
        let yard = self.yard.lock().unwrap_or_else(PoisonError::into_inner);
        Held { due: yard.due(), touched: yard.is_touched(), yard, turn, news: &self.news }
    }

    /// A claim of another kind is about to have something, or not any more. Whose turn it is tells it, so nobody else decides
    /// meanwhile; what follows from it is left to the clock.
    fn hear(&self, news: News<'_>) {
        let mut yard = self.yard.lock().unwrap_or_else(PoisonError::into_inner);
        yard.announced(news.claim, news.held.cloned());
        let unsettled = yard.is_unsettled();
        drop(yard);
        if unsettled {
            self.news.notify_one();
        }
    }

    /// Has these claims looked at: first those that have something to gain, or to give back. A claim that only waits can
    /// be told no more than why, and however many of those there are, nobody else stands behind them. Nor does anybody stand
    /// behind a tenant who is to get very many hosts at once: all but the first of them come after everybody else's.
    pub(crate) fn wake(&self, queue: &Work<ObjectKey>, claims: Vec<ObjectKey>) {
        if claims.is_empty() {
            return;
        }
        let ranked: Vec<(ObjectKey, Priority)> = {
            let yard = self.lock();
            let ranked = claims.into_iter().map(|claim| {
                let later = yard.is_idle(&claim) || yard.is_one_of_many(&claim);
                let priority = if later { Priority::Background } else { Priority::Urgent };
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
    turn: Turn<'y>,
    yard: MutexGuard<'y, Yard>,
    news: &'y Notify,
    /// What the clock knows of already.
    due: Option<Timestamp>,
    touched: bool,
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
        for (claim, uid, held) in self.yard.promises() {
            self.turn.tell(News { claim: &claim, uid: &uid, held: held.as_ref() });
        }
        if (self.yard.is_touched() && !self.touched) || self.yard.due() != self.due {
            self.news.notify_one();
        }
    }
}

/// When the ledgers are told what has changed hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Telling {
    /// Then, unless more has changed hands by then.
    at: Instant,
    /// Then at the latest.
    latest: Instant,
    /// How often something had changed hands when that was looked at last.
    moves: u64,
}

impl Telling {
    /// Something has just changed hands; nobody is told more before `rest`.
    fn new(now: Instant, rest: Instant, moves: u64) -> Self {
        Self { at: rest.max(now + TOGETHER), latest: rest.max(now + LONGEST), moves }
    }

    /// The time has come: `None` when they are told, else when that is looked at again.
    fn put_off(self, now: Instant, moves: u64) -> Option<Self> {
        let goes_on = moves != self.moves && now < self.latest;
        goes_on.then(|| Self { at: self.latest.min(now + TOGETHER), moves, ..self })
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
    // When the ledgers are told what there is to tell, and before when they are not told more.
    let (mut tell, mut rest): (Option<Telling>, Instant) = (None, clock.instant());
    loop {
        let (now, instant) = (clock.now(), clock.instant());
        let due = {
            let yard = shared.lock();
            if yard.is_touched() && tell.is_none() {
                tell = Some(Telling::new(instant, rest, yard.moves()));
            }
            let due = yard.due().map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
            if yard.is_unsettled() { Some(Duration::ZERO) } else { due }
        };
        let soon = tell.map(|telling| telling.at.saturating_duration_since(instant));
        let pause = [due, soon].into_iter().flatten().min();
        let time = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = time => {}
            () = shared.news.notified() => continue,
        }
        let (now, instant) = (clock.now(), clock.instant());
        let (woken, touched) = {
            let mut yard = shared.lock();
            let due = yard.is_unsettled() || yard.due().is_some_and(|due| due <= now);
            let woken = if due { yard.tick(now) } else { Vec::new() };
            let telling = tell.take_if(|telling| telling.at <= instant);
            tell = tell.or_else(|| telling.and_then(|telling| telling.put_off(instant, yard.moves())));
            (woken, telling.filter(|_| tell.is_none()).map(|_| yard.touched()))
        };
        shared.wake(&queue, woken);
        if let Some(touched) = touched {
            let told = u32::try_from(touched.policies.len() + touched.quotas.len()).unwrap_or(u32::MAX);
            rest = instant + EACH.saturating_mul(told);
            ledgers.wake(touched);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use claim_kind::table::Table;
    use serde_json::json;

    use super::*;
    use crate::facts::{ClaimFacts, HostFacts, KeptClaim, PolicyFacts};
    use crate::yard::Settings;

    fn claim(tenant: &str, name: &str) -> Arc<KeptClaim> {
        let object = json!({"metadata": {"namespace": tenant, "name": name, "uid": format!("{tenant}-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"poweredOn": true, "kind": "baremetal"}});
        Arc::new(KeptClaim::of(&ClaimFacts::of(serde_json::from_value(object).unwrap())))
    }

    #[tokio::test(start_paused = true)]
    async fn what_changes_hands_is_told_once_it_rests_and_while_it_does_not_every_half_minute() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let begun = clock.instant();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let telling = Telling::new(begun, begun, 1);
        assert_eq!((telling.at, telling.put_off(at(1), 1)), (at(1), None), "nothing has moved since");
        let mut telling = telling;
        for second in 1..30 {
            let moves = 1 + second;
            telling = telling.put_off(at(second), moves).unwrap();
            assert_eq!((telling.at, telling.moves), (at(second + 1), moves));
        }
        assert_eq!(telling.put_off(at(30), 99), None, "not for ever");
        let later = Telling::new(begun, at(40), 1);
        assert_eq!((later.at, later.latest), (at(40), at(40)), "whoever was just told waits");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gets_a_host_stands_behind_nobody_who_only_waits() {
        let now = Timestamp::UNIX_EPOCH;
        let shared = Shared::new(Yard::new(Settings::default()), Arc::new(Table::default()).seat());
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

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_for_few_hosts_stands_behind_nobody_who_asks_for_very_many() {
        const MANY: usize = 300;
        let now = Timestamp::UNIX_EPOCH;
        let shared = Shared::new(Yard::new(Settings::default()), Arc::new(Table::default()).seat());
        let policy = json!({"metadata": {"name": "p", "uid": "p"}, "spec": {"hostClaimNamespaces": {}}});
        let policy = Arc::new(PolicyFacts::of(serde_json::from_value(policy).unwrap()));
        shared.lock().policy(&ObjectKey::namespaced("infra", "p"), Some(policy), now);
        shared.lock().open(now);
        for n in 0..=MANY {
            let host = json!({"metadata": {"name": format!("h{n}"), "uid": format!("h{n}")}, "spec": {"online": false},
                "status": {"provisioning": {"state": "available"}, "operationalStatus": "OK"}});
            let host = Arc::new(HostFacts::of(serde_json::from_value(host).unwrap()));
            shared.lock().host(&ObjectKey::namespaced("infra", format!("h{n}")), Some(host), now);
        }
        let queue = Work::new(Clock::simulated(now, 1));
        let ask = |tenant: &str, name: &str| {
            let key = ObjectKey::namespaced(tenant, name);
            let woken = shared.lock().claim(&key, Some(claim(tenant, name)), now);
            assert!(shared.lock().offer(&key).is_some(), "there is a host for everybody");
            shared.wake(&queue, woken);
        };
        for n in 0..MANY {
            ask("red", &format!("c{n}"));
        }
        ask("blue", "own");
        let mut ahead = 0;
        while queue.next().await.key().namespace() != Some("blue") {
            ahead += 1;
        }
        assert!(ahead <= 40, "{ahead} of {MANY} came first");
        // Nobody is forgotten for it.
        for _ in ahead..MANY {
            assert_eq!(queue.next().await.key().namespace(), Some("red"));
        }
    }
}
