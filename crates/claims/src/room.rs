//! The room itself: what it holds, how it is driven, and what wakes it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::key::ObjectKey;
use api::own::HostClaimStatus;
use claim_kind::table::Table;
use jiff::Timestamp;
use kit::feed::{Seen, Version};
use kit::manager::{self, Manager, Stage};
use kit::queue::{Priority, Work};
use kit::room::{Driver, Flow, Notice, Pace, Report, Roll, Room, Trouble, Violation};
use kit::teller::Teller;
use kit::write::Writer;

use crate::apply::Error;
use crate::config::Config;
use crate::copies::Copies;
use crate::decide::{self, Step};
use crate::facts::{Consumer, World};
use crate::guard;
use crate::hand::Hand;
use crate::keeper;
use crate::memory::{Alone, Driven, Failing, Faults, Given, Told};
use crate::metrics::ClaimMetrics;
use crate::observe::Snapshot;
use crate::shared::{Held, Shared, SharedYard, run_clock};
use crate::status;
use crate::yard::Yard;

/// A conflict is the usual business of many writers, so it is tried again at once; a server in trouble is left alone
/// for half a minute at most.
const PACE: Pace = Pace {
    first: Duration::from_millis(200),
    longest: Duration::from_secs(30),
    stale: Duration::from_millis(10),
    stale_jitter: Duration::from_millis(90),
};

/// The room of claims on bare-metal hosts.
pub struct Claims {
    pub(crate) world: World,
    pub(crate) config: Arc<Config>,
    pub(crate) writer: Writer,
    /// Writes what tenants may see of a host onto their claims; a name of its own, so that nothing else is taken over.
    pub(crate) mirror: Writer,
    pub(crate) hand: Hand,
    pub(crate) copies: Copies,
    pub(crate) events: Teller,
    pub(crate) faults: Faults,
    pub(crate) told: Told,
    pub(crate) failing: Failing,
    pub(crate) alone: Alone,
    pub(crate) driven: Driven,
    pub(crate) given: Given,
    pub(crate) metrics: ClaimMetrics,
    yard: SharedYard,
    work: OnceLock<Arc<Work<ObjectKey>>>,
}

impl Claims {
    fn new(manager: &Manager, world: World, config: Arc<Config>, yard: SharedYard) -> Self {
        let writer = Writer::new(manager.client().clone(), Self::NAME);
        let events = Teller::start(manager, Self::NAME);
        Self {
            hand: Hand::new(writer.clone(), world.hosts.clone()),
            copies: Copies::new(writer.clone(), world.secrets.clone(), config.leased),
            mirror: Writer::new(manager.client().clone(), "claims-mirror"),
            events,
            faults: Faults::default(),
            told: Told::default(),
            failing: Failing::default(),
            alone: Alone::default(),
            driven: Driven::default(),
            given: Given::default(),
            metrics: ClaimMetrics::register(manager.metrics(), &world, &yard, manager.scope()),
            work: OnceLock::new(),
            world,
            config,
            writer,
            yard,
        }
    }

    /// The yard; never to be held over an await.
    pub(crate) fn yard(&self) -> Held<'_> {
        self.yard.lock()
    }

    /// Has these claims looked at.
    pub(crate) fn wake(&self, claims: Vec<ObjectKey>) {
        if let Some(work) = self.work.get() {
            self.yard.wake(work, claims);
        }
    }
}

impl Room for Claims {
    const NAME: &'static str = "claims";
    const PACE: Pace = PACE;
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = HostClaimStatus;
    type Error = Error;

    /// Thousands of claims of one tenant come after everybody else's. What they keep the server busy with is what others wait
    /// for, and a few at once are as much as it can take anyway.
    fn background_workers(workers: usize) -> usize {
        workers / 8
    }

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        self.gather(key, now).await
    }

    fn decide(&self, snapshot: &Snapshot) -> Vec<Step> {
        decide::decide(snapshot)
    }

    fn guard(&self, snapshot: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
        guard::guard(snapshot, plan)
    }

    async fn apply(&self, snapshot: &Snapshot, step: Step) -> Result<Flow, Error> {
        self.carry_out(snapshot, step).await
    }

    fn report<'s>(
        &self,
        snapshot: &'s Snapshot,
        trouble: Option<&Trouble<Error>>,
    ) -> Option<Report<'s, HostClaimStatus>> {
        status::report(snapshot, trouble)
    }

    fn event(&self, transition: &kit::conditions::Transition) -> Option<Notice> {
        status::event(transition)
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.world.claims.wrote(key, version);
    }
}

/// Adds the room to a manager.
///
/// # Errors
/// When another room follows one of the kinds in a way that cannot be shared.
pub fn mount(manager: &Manager, config: Config) -> Result<(), manager::Error> {
    let (world, config) = (World::follow(manager)?, Arc::new(config));
    let yard = Shared::new(Yard::new(config.yard), manager.common::<Table>().seat());
    let driver = Driver::new(manager, Claims::new(manager, world.clone(), config, Arc::clone(&yard)));
    let work = driver.work();
    // Set once, here; nobody else holds the room yet.
    let _ = driver.room().work.set(Arc::clone(work));
    wire(manager, &world, &yard, work, &driver.room().metrics);
    let roll = Roll::open(manager, Claims::NAME, "HostClaim");
    roll.follow(&world.claims, |_, claim| claim.baremetal.then_some(claim.stand));
    let copies = driver.room().copies.clone();
    world.secrets.observe(move |delta| {
        if delta.new.is_none() {
            copies.forget(&delta.key);
        }
    });
    let ledgers = keeper::mount(manager, &world, &driver.room().config, &yard);
    let (timed, time, timers) = (Arc::clone(&yard), manager.clock().clone(), Arc::clone(work));
    let (ready, keys, clock, queue) = (world.clone(), world.claims.clone(), manager.clock().clone(), Arc::clone(work));
    let open = async move {
        ready.settled().await;
        for claim in yard.lock().open(clock.now()) {
            queue.add_now(claim, Priority::Background);
        }
    };
    manager.drive(&driver, open, move |accepts| keys.keys(accepts));
    manager.spawn(Stage::Decide, "claims clock", |stop| run_clock(timed, time, timers, ledgers, stop));
    Ok(())
}

/// Tells the yard every change, and has every claim looked at that it concerns.
fn wire(manager: &Manager, world: &World, yard: &SharedYard, work: &Arc<Work<ObjectKey>>, metrics: &ClaimMetrics) {
    let teller = || (Arc::clone(yard), manager.clock().clone(), Arc::clone(work));
    let ((yard, clock, queue), metrics) = (teller(), metrics.clone());
    world.claims.observe(move |delta| {
        let mut held = yard.lock();
        let begun = clock.instant();
        let mut woken = held.claim(&delta.key, delta.new.clone(), clock.now());
        metrics.sought(clock.instant().saturating_duration_since(begun));
        drop(held);
        woken.push(delta.key.clone());
        yard.wake(&queue, woken);
    });
    let (yard, clock, queue) = teller();
    world.hosts.observe(move |delta| {
        let woken = yard.lock().host(&delta.key, delta.new.clone(), clock.now());
        yard.wake(&queue, woken);
    });
    let (yard, clock, queue) = teller();
    world.hardware.observe(move |delta| {
        let woken = yard.lock().hardware(&delta.key, delta.new.clone(), clock.now());
        yard.wake(&queue, woken);
    });
    let (yard, clock, queue) = teller();
    world.policies.observe(move |delta| {
        if !matches!((&delta.old, &delta.new), (Some(old), Some(new)) if old.rules_like(new)) {
            let woken = yard.lock().policy(&delta.key, delta.new.clone(), clock.now());
            yard.wake(&queue, woken);
        }
    });
    let (yard, clock, queue) = teller();
    world.spaces.observe(move |delta| {
        let woken = yard.lock().space(delta.key.name(), delta.new.clone(), clock.now());
        yard.wake(&queue, woken);
    });
    let (yard, clock, queue) = teller();
    world.quotas.observe(move |delta| {
        if !matches!((&delta.old, &delta.new), (Some(old), Some(new)) if old.rules_like(new)) {
            let woken = yard.lock().quota(delta.key.name(), delta.new.clone(), clock.now());
            yard.wake(&queue, woken);
        }
    });
    let ((yard, _, queue), claims, hosts) = (teller(), world.claims.clone(), world.hosts.clone());
    world.secrets.observe(move |delta| {
        let mut woken: Vec<ObjectKey> =
            claims.by("secret", &delta.key.to_string()).into_iter().map(|(claim, _)| claim).collect();
        let copied = [&delta.old, &delta.new].into_iter().flatten().find_map(|secret| secret.claim.as_deref());
        if let Some(uid) = copied {
            woken.extend(claims.by("uid", uid).into_iter().map(|(claim, _)| claim));
        }
        // Whoever waits for the name of a copy hears that it is free.
        if delta.new.is_none()
            && let Some((host, _)) = delta.key.name().rsplit_once("-hc-")
            && let Some(namespace) = delta.key.namespace()
            && let Seen::At(host) = hosts.get(&ObjectKey::namespaced(namespace, host))
        {
            woken.extend(host.consumer.as_ref().and_then(Consumer::claim));
        }
        yard.wake(&queue, woken);
    });
    let ((yard, _, queue), claims) = (teller(), world.claims.clone());
    world.clusters.observe(move |delta| {
        yard.wake(&queue, claims.by("cluster", &delta.key.to_string()).into_iter().map(|(claim, _)| claim).collect());
    });
}
