//! One look at the Nodes of a workload cluster serves all its machines.
//!
//! A thousand machines that each list the Nodes of their cluster read a million of them. Here a list is kept for a moment, whoever
//! comes while one is on its way waits for it, and what we write ourselves is noted in it. So a cluster is asked a bounded
//! number of times in any while, however many machines it has, and one that does not answer holds up one pass, not all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use kit::clock::Clock;
use kit::flight::Flights;
use kube::Client;
use tokio::time::Instant;

use super::find::{NodeFacts, Wanted};
use super::index::Index;
use super::look::{self, Sight};

/// So long a list answers everybody who asks.
const FRESH: Duration = Duration::from_secs(5);
/// A Node that is not there yet is looked for again this long after a look: nothing tells us when it comes.
pub const POLL: Duration = Duration::from_secs(30);
/// So many Nodes that are known are asked for one by one within [`FRESH`]; for more than that a list is cheaper.
const ALONE: u32 = 8;

/// One list, or why there is none, and when it was asked for.
#[derive(Clone, Debug)]
struct Look {
    at: Instant,
    found: Result<Index, String>,
}

impl Look {
    fn sight(&self, wanted: &Wanted) -> Sight {
        match &self.found {
            Ok(index) => Sight::Seen(index.fitting(wanted)),
            Err(why) => Sight::Dark(why.clone()),
        }
    }
}

/// What is kept of one cluster.
#[derive(Debug, Default)]
struct Held {
    look: Option<Arc<Look>>,
    /// Nodes that are not as they were listed, and since when that is known.
    doubted: BTreeMap<String, Instant>,
    /// How many were asked for one by one, and since when they are counted.
    alone: Option<(Instant, u32)>,
}

/// What a machine knows when it looks for its Node.
#[derive(Clone, Copy, Debug)]
pub struct Asks<'a> {
    /// How its Node is known.
    pub wanted: &'a Wanted,
    /// The name of its Node, where it was found before.
    pub known: Option<&'a str>,
    /// Whether the machine has just begun to look.
    pub first: bool,
}

/// Looks at the Nodes of workload clusters.
pub struct Sights {
    clock: Clock,
    held: Mutex<BTreeMap<ObjectKey, Held>>,
    flights: Flights<ObjectKey, Arc<Look>>,
}

/// After how long another look is worth it, for whoever did not find its Node in a list of this age. The first question is
/// asked when the machine has just been deployed, and may just have missed its Node, so it is soon asked again; from then on
/// all wait for the same look.
fn patience(age: Duration, first: bool) -> Duration {
    let whole = if first { FRESH } else { POLL };
    whole.saturating_sub(age)
}

impl Sights {
    /// Nothing was looked at yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, held: Mutex::default(), flights: Flights::new() }
    }

    /// The moment, by the clock that looks are timed with.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.clock.instant()
    }

    /// Whether somebody who asks since then has just begun to ask.
    #[must_use]
    pub fn is_new(&self, since: Instant) -> bool {
        self.age(since) < FRESH
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn age(&self, since: Instant) -> Duration {
        self.clock.instant().saturating_duration_since(since)
    }

    /// The Nodes that could be a machine's, and after how long another look is worth it when it is not among them.
    pub async fn look(&self, client: &Client, cluster: &ObjectKey, asks: Asks<'_>) -> (Sight, Duration) {
        self.clear();
        if let Some(name) = asks.known
            && self.alone(cluster)
            && let Ok(Some(node)) = look::one(client, name).await
            && node.provider_id.as_deref() == Some(asks.wanted.provider_id.as_str())
        {
            return (Sight::Seen(vec![node]), POLL);
        }
        let look = match self.fresh(cluster) {
            Some(look) => look,
            None => self.list(client, cluster).await,
        };
        let patience = patience(self.age(look.at), asks.first);
        let sight = look.sight(asks.wanted);
        let Sight::Seen(fitting) = &sight else { return (sight, patience) };
        let doubted = self.doubted(cluster, fitting);
        if doubted.is_empty() {
            return (sight, patience);
        }
        for name in doubted {
            match look::one(client, &name).await {
                Ok(Some(node)) => self.wrote(cluster, node),
                Ok(None) => self.change(cluster, &name, |index| index.remove(&name)),
                Err(why) => return (Sight::Dark(why), patience),
            }
        }
        let look = self.fresh(cluster).unwrap_or(look);
        (look.sight(asks.wanted), patience)
    }

    /// Takes a Node as it is after a write of ours.
    pub fn wrote(&self, cluster: &ObjectKey, node: NodeFacts) {
        let name = node.name.clone();
        self.change(cluster, &name, |index| index.put(node));
    }

    /// A write showed that the Node is not what was listed, so it is asked for alone when somebody needs it again.
    pub fn doubt(&self, cluster: &ObjectKey, node: &str) {
        let now = self.clock.instant();
        if let Some(held) = self.lock().get_mut(cluster) {
            held.doubted.insert(node.to_owned(), now);
        }
    }

    fn change(&self, cluster: &ObjectKey, name: &str, change: impl FnOnce(&mut Index)) {
        let mut all = self.lock();
        let Some(held) = all.get_mut(cluster) else { return };
        held.doubted.remove(name);
        if let Some(look) = &mut held.look
            && let Ok(index) = &mut Arc::make_mut(look).found
        {
            change(index);
        }
    }

    fn doubted(&self, cluster: &ObjectKey, fitting: &[NodeFacts]) -> Vec<String> {
        let all = self.lock();
        let Some(held) = all.get(cluster) else { return Vec::new() };
        fitting.iter().map(|node| &node.name).filter(|name| held.doubted.contains_key(*name)).cloned().collect()
    }

    /// Whether a Node that is known may be asked for by itself.
    fn alone(&self, cluster: &ObjectKey) -> bool {
        if self.fresh(cluster).is_some() {
            return false;
        }
        let now = self.clock.instant();
        let mut all = self.lock();
        let held = all.entry(cluster.clone()).or_default();
        let counted = held.alone.filter(|(since, _)| now.saturating_duration_since(*since) < FRESH);
        let (since, count) = counted.unwrap_or((now, 0));
        held.alone = Some((since, count.saturating_add(1)));
        count < ALONE
    }

    fn fresh(&self, cluster: &ObjectKey) -> Option<Arc<Look>> {
        let look = self.lock().get(cluster).and_then(|held| held.look.clone())?;
        (self.age(look.at) < FRESH).then_some(look)
    }

    /// Lists the Nodes, once for everybody who asks meanwhile.
    async fn list(&self, client: &Client, cluster: &ObjectKey) -> Arc<Look> {
        let (client, clock) = (client.clone(), self.clock.clone());
        let ask = || async move {
            let at = clock.instant();
            Arc::new(Look { at, found: look::all(&client).await.map(Index::from_iter) })
        };
        let look = self.flights.join(cluster.clone(), ask).await;
        let mut all = self.lock();
        let held = all.entry(cluster.clone()).or_default();
        // Of all who waited only the first keeps it: what was noted in it since must not be lost again.
        if held.look.as_ref().is_none_or(|kept| kept.at < look.at) {
            held.doubted.retain(|_, since| *since >= look.at);
            held.look = Some(Arc::clone(&look));
        }
        held.look.clone().unwrap_or(look)
    }

    /// Forgets what nobody can use any more.
    fn clear(&self) {
        let now = self.clock.instant();
        let is_new = |since: Instant| now.saturating_duration_since(since) < FRESH;
        self.lock().retain(|_, held| {
            held.look.as_ref().is_some_and(|look| is_new(look.at)) || held.alone.is_some_and(|(since, _)| is_new(since))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_the_first_time_asks_again_soon_and_all_others_wait_for_the_same_look() {
        let age = Duration::from_secs(2);
        assert_eq!(patience(Duration::ZERO, true), FRESH);
        assert_eq!(patience(age, true), FRESH - age);
        assert_eq!(patience(age, false), POLL - age);
        assert_eq!(patience(POLL * 2, false), Duration::ZERO);
    }
}
