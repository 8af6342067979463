//! The gate: carries out what `decide` says until there is an answer.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use api::views::Cluster;
use kit::class::{Class, Classify, chain};
use kit::clock::Clock;
use kit::feed::Scope;
use kit::flight::Rounds;
use kit::manager::Manager;
use kit::write;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::apply::Hand;
use crate::config::Config;
use crate::decide::{Next, Snapshot, Step, decide};
use crate::facts::{ClassFacts, ClusterFacts, PoolName, World};
use crate::guard::guard;
use crate::hooks::Answer;
use crate::names::{CONTROL_PLANE_ENABLED, Role, Slot};
use crate::observe::{self, Certain};
use crate::proof::Proof;
use crate::scene::{Holding, Live, Scene};
use crate::seats::{Seats, Taken};
use crate::survey::{OPTED_OUT, Stance, State, UNMANAGED, UNPOOLED, Want, class_of, survey};
use crate::teller::Teller;
use crate::words::{reason, sentence};

/// What is left of a call's time when the answer is sent.
const MARGIN: Duration = Duration::from_secs(2);
/// The longest that one request to the API server may hold a call.
const REQUEST: Duration = Duration::from_secs(5);
/// Turns of the loop in one call; each one does something that cannot be repeated endlessly, so this is only a fence.
const TURNS: usize = 16;
/// Calls that may wait at one time. Cluster API has ten workers at least, and however slow the address provider is, most of
/// them must stay free: to ask for the addresses of other clusters, and for everything else they do.
const WAITING: usize = 4;
/// How often a write that met another one is tried again in one call.
const COLLISIONS: usize = 3;
/// Clusters whose rounds are remembered.
const MEMORY: usize = 4096;

/// Gives clusters their addresses before anything of them is rendered.
pub struct Gate {
    pub(crate) world: World,
    pub(crate) hand: Arc<Hand>,
    pub(crate) config: Arc<Config>,
    clock: Clock,
    seats: Seats,
    pub(crate) teller: Teller,
    scope: Scope,
    waiting: Semaphore,
    /// Classes being read: many clusters of one class that come at once are served by few reads.
    classes: Rounds<ObjectKey, Result<Option<Arc<ClassFacts>>, Arc<kube::Error>>>,
    rounds: Mutex<HashMap<ObjectKey, u32>>,
    /// Clusters, by uid and class, of which the server itself said that they are none of ours: they were let through, so
    /// nothing that an index shows late can help them.
    unmanaged: Mutex<HashSet<(Box<str>, ObjectKey)>>,
}

/// Claims that a call has made and of which nobody was told yet.
type Made = Vec<(ClusterFacts, Slot, PoolName)>;

/// Why a step was not carried out.
enum Trouble {
    /// What it was based on has changed.
    Stale,
    /// The call is over, with this answer.
    Answer(Answer),
}

impl Gate {
    /// A gate over these indexes. Changes of claims and addresses wake the calls that wait for them.
    #[must_use]
    pub fn new(world: World, hand: Arc<Hand>, config: Arc<Config>, manager: &Manager, teller: Teller) -> Self {
        let seats = Seats::default();
        let wake = seats.clone();
        world.claims.observe(move |delta| wake_for(&wake, &delta.key, Some(delta.key.name())));
        let wake = seats.clone();
        world.addresses.observe(move |delta| {
            let facts = delta.new.as_ref().or(delta.old.as_ref());
            wake_for(&wake, &delta.key, facts.and_then(|facts| facts.claim.as_deref()));
        });
        let (clock, scope) = (manager.clock().clone(), manager.scope().clone());
        let (waiting, rounds, unmanaged) = (Semaphore::new(WAITING), Mutex::default(), Mutex::default());
        let classes = Rounds::default();
        Self { world, hand, config, clock, seats, teller, scope, waiting, classes, rounds, unmanaged }
    }

    /// Answers whether the topology of this Cluster may be rendered.
    pub async fn before_create(
        &self,
        cluster: Cluster,
        settings: &BTreeMap<String, String>,
        deadline: Instant,
    ) -> Answer {
        let config = match self.config.with_settings(settings) {
            Ok(config) => Arc::new(config),
            Err(error) => return Answer::refuse(error.to_string()),
        };
        let key = ObjectKey::of(&cluster);
        let asked = ClusterFacts::of(cluster);
        // What can be said without any index is said at once: an index that cannot be filled must not hold back clusters
        // that are none of ours.
        let refused = asked.annotation(CONTROL_PLANE_ENABLED) == Some("false");
        let filtered = config.is_foreign(asked.watch_filter.as_deref());
        let foreign = class_of(&asked, &key, config.reconciler).is_none() || !self.scope.holds(key.namespace());
        if asked.deleting || asked.paused || refused || filtered || foreign {
            return Answer::open();
        }
        let end = deadline.checked_sub(MARGIN).unwrap_or(deadline);
        if !self.world.unsettled().is_empty() {
            // A process that has just started knows everything in a moment, long before it would be asked again.
            let until = (self.clock.instant() + config.allocation_wait).min(end);
            let _ = timeout_at(until, self.world.settled()).await;
        }
        let unsettled = self.world.unsettled();
        if !unsettled.is_empty() {
            return Answer::retry(2, format!("Berth is still listing {}", unsettled.join(", ")));
        }
        let Some(seat) = self.seats.take(&key, end).await else {
            return Answer::retry(1, "another call about this Cluster is still at work");
        };
        let mut made = Made::new();
        let answer = self.attend(&key, asked, config, &seat, end, &mut made).await;
        self.tell(&key, &mut made, end).await;
        self.count(&key, &answer);
        answer
    }

    /// One request to the API server may last until then.
    pub(crate) fn limit(&self, end: Instant) -> Instant {
        end.min(self.clock.instant() + REQUEST)
    }

    async fn tell(&self, key: &ObjectKey, made: &mut Made, end: Instant) {
        for (cluster, slot, pool) in made.drain(..) {
            if timeout_at(end, self.teller.claimed(key, &cluster, slot, &pool)).await.is_err() {
                return;
            }
        }
    }

    async fn attend(
        &self,
        key: &ObjectKey,
        asked: ClusterFacts,
        config: Arc<Config>,
        seat: &Taken,
        end: Instant,
        made: &mut Made,
    ) -> Answer {
        let until = (self.clock.instant() + config.allocation_wait).min(end);
        let (mut live, mut waited, mut collisions) = (Live::Unread, false, 0);
        let mut certain: Option<Certain> = None;
        // The class as it was when the Cluster was read: what is written must not follow an older one.
        let mut class: Option<(ObjectKey, Arc<ClassFacts>)> = None;
        for _ in 0..TURNS {
            let mut news = std::pin::pin!(seat.news());
            news.as_mut().enable();
            let current = if let Live::At(live) = &live { &live.facts } else { &asked };
            let mut scene = observe::scene(&self.world, key, current, Arc::clone(&config), self.clock.now());
            scene.tried = self.hand.tried(key);
            if let Some((of, class)) = &class
                && current.class.as_ref() == Some(of)
            {
                scene.class = Some(Arc::clone(class));
            }
            if let Some(certain) = &certain {
                certain.show(&mut scene);
            }
            let confirmed = certain.is_some() || self.is_unmanaged(current);
            let snapshot = Snapshot { asked: asked.clone(), live: live.clone(), scene, waited, confirmed };
            match decide(&snapshot) {
                Next::Answer(answer) => {
                    self.judge(&snapshot, current, &answer);
                    if certain.is_some() {
                        self.remember(&snapshot, current, &answer);
                    }
                    return answer;
                }
                Next::Read => {
                    let named = current.class.clone().filter(|_| certain.is_none());
                    match tokio::try_join!(self.read(key, end), self.read_class(key, named, end)) {
                        Ok((read, seen)) => (live, class) = (read, seen),
                        Err(answer) => return answer,
                    }
                }
                Next::Confirm => match self.confirm(key, current, end).await {
                    Ok(read) => certain = Some(read),
                    Err(answer) => return answer,
                },
                Next::Await => match self.waiting.try_acquire() {
                    Ok(_place) => {
                        self.tell(key, made, end).await;
                        waited = timeout_at(until, news).await.is_err();
                    }
                    Err(_) => {
                        // Where many come at once each of them costs what it must: that it has its address is told.
                        made.clear();
                        return Answer::retry(1, "waiting for the address, as many other clusters do");
                    }
                },
                Next::Do(steps) => {
                    let written = steps.iter().any(|step| matches!(step, Step::Write { .. }));
                    let moved = steps.iter().any(|step| matches!(step, Step::Abandon { .. }));
                    match self.act(&snapshot, steps, end, made).await {
                        Ok(()) if written => {
                            return Answer::retry(
                                1,
                                "the address is on the Cluster; waiting until Cluster API sees it",
                            );
                        }
                        // What was deleted is still in the index; nothing new can be asked for before it is gone.
                        Ok(()) if moved => waited = timeout_at(until, news).await.is_err(),
                        Ok(()) => {}
                        Err(Trouble::Stale) => {
                            collisions += 1;
                            if collisions >= COLLISIONS {
                                return Answer::retry(1, "somebody else is changing the Cluster or its claim");
                            }
                            live = Live::Unread;
                        }
                        Err(Trouble::Answer(answer)) => return answer,
                    }
                }
            }
        }
        Answer::retry(1, "the Cluster or its claims keep changing")
    }

    fn is_unmanaged(&self, cluster: &ClusterFacts) -> bool {
        let known = self.unmanaged.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(class) = cluster.class.clone().filter(|_| !cluster.uid.is_empty()) else { return false };
        known.contains(&(cluster.uid.clone(), class))
    }

    fn remember(&self, snapshot: &Snapshot, cluster: &ClusterFacts, answer: &Answer) {
        let Some(class) = cluster.class.clone().filter(|_| !cluster.uid.is_empty()) else { return };
        let stance = survey(cluster, &snapshot.scene).stance;
        let unmanaged = matches!(stance, Stance::Out(UNMANAGED | UNPOOLED | OPTED_OUT));
        if unmanaged && matches!(answer, Answer::Open { .. }) {
            let mut known = self.unmanaged.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= MEMORY {
                known.clear();
            }
            known.insert((cluster.uid.clone(), class));
        }
    }

    async fn read(&self, key: &ObjectKey, end: Instant) -> Result<Live, Answer> {
        match timeout_at(self.limit(end), observe::live(self.hand.client(), &self.world, key)).await {
            Ok(Ok(live)) => Ok(live),
            Ok(Err(error)) => {
                tracing::warn!(cluster = %key, error = %chain(&*error), "the Cluster could not be read");
                Err(Answer::retry(2, "the Cluster API is unavailable: reading the Cluster"))
            }
            Err(_) => Err(Answer::retry(2, "the Cluster API does not answer: reading the Cluster")),
        }
    }

    /// The class of a Cluster, live. Where we may not read it, or it is gone, the index has to do.
    async fn read_class(
        &self,
        key: &ObjectKey,
        class: Option<ObjectKey>,
        end: Instant,
    ) -> Result<Option<(ObjectKey, Arc<ClassFacts>)>, Answer> {
        let Some(class) = class else { return Ok(None) };
        let (hand, named) = (Arc::clone(&self.hand), class.clone());
        let read = move || async move { observe::class(hand.client(), &hand.world, &named).await.map_err(Arc::from) };
        match timeout_at(self.limit(end), self.classes.join(class.clone(), read)).await {
            Ok(Ok(found)) => Ok(found.map(|found| (class, found))),
            Ok(Err(error)) if matches!(&*error, kube::Error::Api(status) if status.code == 403) => Ok(None),
            Ok(Err(error)) => {
                tracing::warn!(cluster = %key, error = %chain(&*error), "the class could not be read");
                Err(Answer::retry(2, "the API server is unavailable: reading the class"))
            }
            Err(_) => Err(Answer::retry(2, "the API server does not answer: reading the class")),
        }
    }

    async fn confirm(&self, key: &ObjectKey, cluster: &ClusterFacts, end: Instant) -> Result<Certain, Answer> {
        match timeout_at(self.limit(end), observe::certain(self.hand.client(), &self.world, key, cluster)).await {
            Ok(Ok(certain)) => Ok(certain),
            Ok(Err(error)) => {
                tracing::warn!(cluster = %key, error = %chain(&*error), "class and pools could not be read");
                Err(Answer::retry(2, "the API server is unavailable: reading the class and the pools"))
            }
            Err(_) => Err(Answer::retry(2, "the API server does not answer: reading the class and the pools")),
        }
    }

    async fn act(&self, snapshot: &Snapshot, steps: Vec<Step>, end: Instant, made: &mut Made) -> Result<(), Trouble> {
        if let Err(violation) = guard(snapshot, &steps) {
            tracing::error!(cluster = %snapshot.scene.key, error = %violation, "a step was refused before it had an effect");
            return Err(Trouble::Answer(Answer::retry(15, format!("internal error: {violation}"))));
        }
        for step in steps {
            if let (Step::Write { .. }, Live::At(live)) = (&step, &snapshot.live)
                && let Some(answer) = self.unproven(snapshot, &live.facts, end).await
            {
                return Err(Trouble::Answer(answer));
            }
            match timeout_at(self.limit(end), self.step(snapshot, &step, made)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) if error.class() == Class::Stale => return Err(Trouble::Stale),
                Ok(Err(error)) => return Err(Trouble::Answer(self.refused(&snapshot.scene.key, &step, &error))),
                Err(_) => {
                    let what = format!("the API server does not answer: {}", doing(&step));
                    return Err(Trouble::Answer(Answer::retry(2, what)));
                }
            }
        }
        Ok(())
    }

    /// Why what is about to be shown may not be this cluster's any more; none when the server says that it is.
    async fn unproven(&self, snapshot: &Snapshot, cluster: &ClusterFacts, end: Instant) -> Option<Answer> {
        let scene = &snapshot.scene;
        let claim = |slot: Slot| format!("IPAddressClaim {}", slot.claim_of(&scene.key));
        match timeout_at(self.limit(end), self.hand.prove(scene, cluster)).await {
            Ok(Ok(Proof::Held)) => None,
            Ok(Ok(Proof::Moved { slot })) => {
                Some(Answer::retry(2, format!("waiting to see what became of {}", claim(slot))))
            }
            Ok(Ok(Proof::Unsettled { slot, address, by })) => Some(Answer::retry(
                2,
                format!(
                    "{} has the address {address}, which Cluster {by} had a moment ago and may still show",
                    claim(slot)
                ),
            )),
            Ok(Ok(Proof::Used { slot, address, by })) => {
                let state = State::Conflict { address, by: by.to_string() };
                let class = cluster.class.as_ref().map_or("", ObjectKey::name);
                self.teller.metrics().conflict();
                self.teller.metrics().waits(slot.role, class, reason(&state).as_str());
                let want = Want { family: None, required: true, state };
                Some(Answer::retry(15, sentence(slot, &want, scene)))
            }
            Ok(Err(error)) => {
                tracing::warn!(cluster = %scene.key, error = %chain(&*error), "what is about to be shown could not be read");
                Some(Answer::retry(2, "the API server is unavailable: reading the claim once more"))
            }
            Err(_) => Some(Answer::retry(2, "the API server does not answer: reading the claim once more")),
        }
    }

    async fn step(&self, snapshot: &Snapshot, step: &Step, made: &mut Made) -> Result<(), write::Error> {
        if let (Live::Absent, Step::Claim { slot, pool, .. }) = (&snapshot.live, step) {
            return self.hand.reserve(&snapshot.scene.key, &snapshot.asked, *slot, pool, snapshot.scene.now).await;
        }
        let Live::At(live) = &snapshot.live else { return Ok(()) };
        let (key, cluster) = (&snapshot.scene.key, &live.facts);
        match step {
            Step::Claim { slot, pool, tried } => {
                if self.hand.claim(key, cluster, *slot, pool, tried).await? {
                    made.push((cluster.clone(), *slot, pool.clone()));
                }
            }
            Step::Adopt { slot } => {
                if let Some(claim) = snapshot.scene.claim(*slot) {
                    self.hand.adopt(key, cluster, *slot, claim).await?;
                    self.teller.adopted(key, cluster, *slot).await;
                }
            }
            Step::Abandon { slot, better } => {
                if let Some(claim) = snapshot.scene.claim(*slot) {
                    self.hand.abandon(key, *slot, claim).await?;
                    self.teller.fell_back(&snapshot.scene, cluster, *slot, better).await;
                }
            }
            Step::Write { patch, endpoint } => {
                self.hand.write(key, &live.version, patch.clone()).await?;
                self.teller.written(&snapshot.scene, cluster, *endpoint, |_| true).await;
            }
        }
        Ok(())
    }

    /// What a refused write means for the call. The server's own words are not repeated: they may differ each time, and
    /// each new text on the Cluster would wake Cluster API.
    fn refused(&self, key: &ObjectKey, step: &Step, error: &write::Error) -> Answer {
        tracing::warn!(cluster = %key, error = %chain(error), "step failed");
        match error.class() {
            Class::Terminal => {
                let fields = fields(error);
                let fields = if fields.is_empty() { String::new() } else { format!(" ({fields})") };
                Answer::retry(15, format!("the API server refuses it{fields}: {}", doing(step)))
            }
            Class::Transient { .. } | Class::Stale => {
                Answer::retry(2, format!("the API server is unavailable: {}", doing(step)))
            }
        }
    }

    /// Counts calls per cluster, so that a cluster that is never let through can be seen.
    fn count(&self, key: &ObjectKey, answer: &Answer) {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(answer, Answer::Open { .. }) {
            if let Some(calls) = rounds.remove(key) {
                self.teller.metrics().opened(calls.saturating_add(1));
            }
            return;
        }
        if rounds.len() >= MEMORY && !rounds.contains_key(key) {
            rounds.clear();
        }
        let calls = rounds.entry(key.clone()).or_default();
        *calls = calls.saturating_add(1);
    }

    fn judge(&self, snapshot: &Snapshot, cluster: &ClusterFacts, answer: &Answer) {
        if matches!(answer, Answer::Open { .. }) {
            return;
        }
        let survey = survey(cluster, &snapshot.scene);
        let class = cluster.class.as_ref().map_or("", ObjectKey::name);
        for (slot, want) in survey.wants.iter().filter(|(_, want)| want.required) {
            match &want.state {
                State::Conflict { .. } => {
                    self.teller.metrics().conflict();
                    self.teller.metrics().waits(slot.role, class, reason(&want.state).as_str());
                }
                State::NoPool { .. }
                | State::Exhausted { .. }
                | State::Foreign { .. }
                | State::Mismatch { .. }
                | State::Missing { .. } => self.teller.metrics().waits(slot.role, class, reason(&want.state).as_str()),
                _ => {}
            }
        }
        if survey.rival.is_some() {
            self.teller.metrics().conflict();
            self.teller.metrics().waits(Role::ControlPlane, class, api::reasons::vip::Reason::AddressConflict.as_str());
        }
    }

    /// Makes sure that every claim of a Cluster that is about to go is owned by it; never holds the deletion back.
    pub async fn before_delete(&self, cluster: Cluster, deadline: Instant) -> Answer {
        let key = ObjectKey::of(&cluster);
        let facts = ClusterFacts::of(cluster);
        if facts.uid.is_empty() || !self.world.unsettled().is_empty() || !self.scope.holds(key.namespace()) {
            return Answer::open();
        }
        let end = deadline.checked_sub(MARGIN).unwrap_or(deadline);
        // Whoever sent this may have made up the uid: a claim adopted by nobody would be collected.
        match self.read(&key, end).await {
            Ok(Live::At(live)) if live.facts.uid == facts.uid && !live.facts.paused => {}
            Ok(_) | Err(_) => return Answer::open(),
        }
        let scene: Scene = observe::scene(&self.world, &key, &facts, Arc::clone(&self.config), self.clock.now());
        for (slot, holding) in &scene.holdings {
            let Holding::Claim { claim, .. } = holding else { continue };
            if !claim.owners.is_empty() || claim.deleting || claim.paused || !claim.is_ours(*slot) {
                continue;
            }
            match timeout_at(self.limit(end), self.hand.adopt(&key, &facts, *slot, claim)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(cluster = %key, %slot, error = %chain(&error), "claim not adopted before deletion");
                }
                Err(_) => tracing::warn!(cluster = %key, %slot, "claim not adopted before deletion: no answer"),
            }
        }
        Answer::open()
    }
}

fn wake_for(seats: &Seats, object: &ObjectKey, claim: Option<&str>) {
    if let Some((_, cluster)) = claim.and_then(Slot::of_claim) {
        seats.wake(&ObjectKey::namespaced(object.namespace().unwrap_or_default(), cluster));
    }
}

fn doing(step: &Step) -> String {
    match step {
        Step::Claim { slot, .. } => format!("creating the IPAddressClaim for the {slot} address"),
        Step::Adopt { slot } => format!("taking over the IPAddressClaim of the {slot} address"),
        Step::Abandon { slot, .. } => format!("deleting the IPAddressClaim of the {slot} address to ask another pool"),
        Step::Write { .. } => "writing the address to the Cluster".to_owned(),
    }
}

/// The fields that the server refuses, sorted.
fn fields(error: &write::Error) -> String {
    let write::Error::Refused { source, .. } = error else { return String::new() };
    let kube::Error::Api(status) = source.as_ref() else { return String::new() };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut fields: Vec<&str> = causes.map(|cause| cause.field.as_str()).filter(|field| !field.is_empty()).collect();
    fields.sort_unstable();
    fields.dedup();
    fields.join(", ")
}
