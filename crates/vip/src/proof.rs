//! Makes sure, on the server itself, that an address is this cluster's before the Cluster shows it for good.
//!
//! Only a person can take a claim from a cluster that is there, and then its address is free while the Cluster shows it or
//! is about to. Whoever gets it next must see that Cluster, and the cluster itself must see that its claim is gone, but
//! indexes lag, each on its own. So the claim is read once more before the Cluster is written, and so is every cluster
//! whose claim gave the address back a short while ago.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use api::meta::Versioned;
use api::views::{Cluster, IPAddressClaim};
use jiff::Timestamp;
use kit::backoff::{Backoff, Pace};
use kit::class::{Class, Classify, chain};
use kit::clock::Clock;
use kit::feed::{Delta, Scope, Seen};
use kube::Api;
use kube::api::ListParams;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::apply::Hand;
use crate::facts::{AddressFacts, ClaimFacts, ClusterFacts, World, address};
use crate::names::{Slot, VIP_ONLY};
use crate::observe;
use crate::scene::{Live, Scene, User};
use crate::survey::{State, Survey, survey};

/// How long it is remembered who gave an address back. A watch that has fallen silent is opened anew after five minutes,
/// so no index is further behind.
const MEMORY: Duration = Duration::from_secs(600);
/// How long a cluster that gave an address back may still be about to show it: it read its claim before that, and whoever
/// writes waits five seconds at most for an answer.
const WRITING: Duration = Duration::from_secs(30);
/// Clusters per page of a list.
const PAGE: u32 = 100;
/// Between two attempts to list Clusters: whoever is about to show an address waits for it, so the pause does not grow for long.
const PACE: Pace = Pace { longest: Duration::from_secs(30), ..Pace::USUAL };

/// What the server says about addresses that are about to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Every one of them is this cluster's.
    Held,
    /// The claim of this slot is not what the index shows.
    Moved {
        /// The slot.
        slot: Slot,
    },
    /// Another cluster shows the address of this slot.
    Used {
        /// The slot.
        slot: Slot,
        /// The address.
        address: IpAddr,
        /// Who shows it.
        by: User,
    },
    /// Another cluster had the address of this slot a moment ago and may be about to show it.
    Unsettled {
        /// The slot.
        slot: Slot,
        /// The address.
        address: IpAddr,
        /// Who had it.
        by: ObjectKey,
    },
}

/// A cluster whose claim held an address and gave it back.
#[derive(Clone, Debug)]
struct Left {
    cluster: ObjectKey,
    /// Since when it had held it: a Cluster that is younger is another one of that name.
    since: Timestamp,
    /// When we saw that it was given back.
    at: Instant,
}

/// Who gave addresses back.
pub struct Former {
    clock: Clock,
    scope: Scope,
    begun: Instant,
    left: Mutex<BTreeMap<IpAddr, Vec<Left>>>,
    /// Somebody is about to show an address.
    wanted: Notify,
    /// Whether it is known what Clusters showed before we listened.
    caught_up: watch::Sender<bool>,
}

impl Former {
    /// Listens to the addresses of `world`.
    #[must_use]
    pub fn follow(world: &World, clock: Clock, scope: Scope) -> Arc<Self> {
        let begun = clock.instant();
        let (left, wanted, caught_up) = (Mutex::default(), Notify::new(), watch::Sender::new(false));
        let former = Arc::new(Self { clock, scope, begun, left, wanted, caught_up });
        let ears = Arc::clone(&former);
        world.addresses.observe(move |delta| ears.hear(delta));
        former
    }

    /// Waits until it is known what Clusters showed before we listened. What was given back then is not remembered, and the
    /// index of Clusters may be older than that of addresses.
    async fn known(&self) {
        let age = self.clock.instant().saturating_duration_since(self.begun);
        if age < MEMORY && !*self.caught_up.borrow() {
            self.wanted.notify_one();
            // The sender lives as long as we do, so this cannot fail.
            let _ = self.caught_up.subscribe().wait_for(|known| *known).await;
        }
    }

    fn hear(&self, delta: &Delta<AddressFacts>) {
        let Some(old) = &delta.old else { return };
        let same = |new: &Arc<AddressFacts>| (new.address, &new.claim_uid) == (old.address, &old.claim_uid);
        let (Some(address), Some((_, cluster))) = (old.address, old.claim.as_deref().and_then(Slot::of_claim)) else {
            return;
        };
        if !delta.new.as_ref().is_some_and(same) {
            let cluster = ObjectKey::namespaced(delta.key.namespace().unwrap_or_default(), cluster);
            self.note(address, cluster, old.created);
        }
    }

    fn note(&self, address: IpAddr, cluster: ObjectKey, since: Timestamp) {
        let at = self.clock.instant();
        let mut all = self.left();
        all.retain(|_, left| {
            left.retain(|left| at.saturating_duration_since(left.at) < MEMORY);
            !left.is_empty()
        });
        let left = all.entry(address).or_default();
        left.retain(|left| left.cluster != cluster);
        left.push(Left { cluster, since, at });
    }

    /// The others that had this address a short while ago, and how long ago they gave it back.
    fn of(&self, address: IpAddr, own: &ObjectKey) -> Vec<(Left, Duration)> {
        let now = self.clock.instant();
        let ago = |left: &Left| (left.clone(), now.saturating_duration_since(left.at));
        let all = self.left();
        let left = all.get(&address).into_iter().flatten().filter(|left| left.cluster != *own);
        left.map(ago).filter(|(_, ago)| *ago < MEMORY).collect()
    }

    fn left(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Vec<Left>>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Addresses that a write would show for the first time.
fn unshown(survey: &Survey, cluster: &ClusterFacts) -> Vec<(Slot, IpAddr)> {
    let vip_only = cluster.annotation(VIP_ONLY) == Some("true");
    let shown = |slot: Slot, held: IpAddr| {
        let noted = cluster.annotation(slot.annotation()).and_then(address) == Some(held);
        noted && (slot != Slot::CONTROL_PLANE || vip_only || cluster.address() == Some(held))
    };
    let held = survey.wants.iter().filter_map(|(slot, want)| match want.state {
        State::Bound { address, .. } => Some((*slot, address)),
        _ => None,
    });
    held.filter(|(slot, held)| !shown(*slot, *held)).collect()
}

impl Hand {
    /// Whether what a write would show on this Cluster for the first time is its own, by what the server says now.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn prove(&self, scene: &Scene, cluster: &ClusterFacts) -> Result<Proof, Box<kube::Error>> {
        for (slot, held) in unshown(&survey(cluster, scene), cluster) {
            let Some(claim) = scene.claim(slot) else { return Ok(Proof::Moved { slot }) };
            if !self.holds(&scene.key, slot, claim).await? {
                return Ok(Proof::Moved { slot });
            }
            self.former.known().await;
            for (left, ago) in self.former.of(held, &scene.key) {
                let Live::At(live) = observe::live(self.client(), &self.world, &left.cluster).await? else { continue };
                let facts = &live.facts;
                if facts.created > left.since {
                    continue;
                }
                if facts.address() == Some(held) {
                    let by = User::Cluster { key: left.cluster, port: Some(facts.endpoint.port), manual: false };
                    return Ok(Proof::Used { slot, address: held, by });
                }
                if facts.endpoint.host.is_empty() && !facts.deleting && ago < WRITING {
                    return Ok(Proof::Unsettled { slot, address: held, by: left.cluster });
                }
            }
        }
        Ok(Proof::Held)
    }

    /// Whether a claim still holds what the index shows of it. One that does not is newer than the index, which is not
    /// believed before it shows that.
    async fn holds(&self, key: &ObjectKey, slot: Slot, claim: &ClaimFacts) -> Result<bool, Box<kube::Error>> {
        let (kind, name) = (self.world.claims.kind().resource(), slot.claim_of(key));
        let namespace = key.namespace().unwrap_or_default();
        let api: Api<Versioned<IPAddressClaim>> = Api::namespaced_with(self.client().clone(), namespace, &kind);
        let Some(Versioned(found)) = api.get_opt(name.name()).await? else { return Ok(false) };
        let found = ClaimFacts::of(found);
        let same = found.version.uid == claim.version.uid && !found.deleting && found.address == claim.address;
        if !same {
            self.world.claims.wrote(&name, &found.version);
        }
        Ok(same)
    }

    /// Lists the Clusters once, when an address is about to be shown for the first time; a task of its own, because a call
    /// of a hook may be shorter than a list.
    pub async fn catch_up(self: Arc<Self>, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => return,
            () = self.former.wanted.notified() => {}
        }
        let backoff = Backoff::new(self.former.clock.clone(), PACE);
        loop {
            let listed = tokio::select! {
                () = stop.cancelled() => return,
                listed = self.note_all_shown() => listed,
            };
            let Err(error) = listed else { break };
            let asked = match error.class() {
                Class::Transient { at_least } => at_least,
                Class::Stale | Class::Terminal => None,
            };
            let pause = backoff.fail((), asked);
            let next_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(error = %chain(&*error), next_ms, "Clusters could not be listed, trying again");
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(pause) => {}
            }
        }
        self.former.caught_up.send_replace(true);
        stop.cancelled().await;
    }

    async fn note_all_shown(&self) -> Result<(), Box<kube::Error>> {
        let (client, kind) = (self.client(), self.world.clusters.kind().resource());
        match &self.former.scope {
            Scope::Namespaces(names) if !names.is_empty() => {
                for name in names {
                    self.note_shown(&Api::namespaced_with(client.clone(), name, &kind)).await?;
                }
                Ok(())
            }
            Scope::All | Scope::Namespaces(_) => self.note_shown(&Api::all_with(client.clone(), &kind)).await,
        }
    }

    /// Notes every Cluster that shows an address which the index does not show.
    async fn note_shown(&self, api: &Api<Versioned<Cluster>>) -> Result<(), Box<kube::Error>> {
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api.list(&params).await?;
            for Versioned(cluster) in page.items {
                let key = ObjectKey::of(&cluster);
                let Some(shown) = address(&cluster.spec.control_plane_endpoint.host) else { continue };
                let known = matches!(self.world.clusters.get(&key), Seen::At(known) if known.address() == Some(shown));
                if !known {
                    self.former.note(shown, key, Timestamp::MAX);
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }
}
