//! Asks the cloud for what the shelf does not know: one call for all who wait, on a task of its own, so that no worker
//! and no other region is held up by a slow one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::names::{ImageId, InstanceType, Region};
use aws::errors::{Error, Kind, Service};
use aws::place::Partition;
use aws::port::{Ec2, Image, ImageQuery, OptIn, TypeFacts, TypeList, TypeQuery};
use kit::clock::Clock;
use kit::http::Policy;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::acs::ask;
use crate::archive::Page;
use crate::cloud::{Cloud, Clouds, Door, Way, Ways};
use crate::facts::GroupKey;
use crate::metrics::CapacityMetrics;
use crate::offer::{Offer, strange_makers};
use crate::shelf::{
    Ec2Place, Errand, Found, Picture, Place, Recalled, Refusal, Rules, Shelf, Standing, System, VERY_STALE,
};
use crate::store::Store;

/// How long one errand may take, with all its pages and attempts.
const DEADLINE: Duration = Duration::from_secs(60);

/// How long a region that was said to be there is not asked about again, by the same credentials.
const REGION_HOLDS: Duration = Duration::from_secs(30 * 60);
/// Regions that this is remembered of.
const REGIONS: usize = 256;

/// What nobody has begun yet.
#[derive(Debug)]
pub enum Order {
    /// Read what an earlier process was told.
    Recall,
    /// Ask the cloud, with the credentials of this name.
    Ask(Errand, Way, Box<str>),
}

/// Orders that nobody runs yet.
pub type Orders = mpsc::UnboundedReceiver<Order>;

/// What came of an order.
enum Done {
    Recalled(Vec<Page>),
    Asked(Errand, Box<str>, Box<Answer>),
}

/// What is worth keeping for the next process.
enum News {
    /// All types of a place.
    Listed(Page),
    /// One type more.
    Added(Ec2Place, TypeFacts),
}

/// What the cloud answered.
enum Answer {
    Types(Result<TypeList, Refusal>),
    One(Result<Option<TypeFacts>, Refusal>),
    Offers(Result<BTreeMap<Box<str>, Arc<Offer>>, Refusal>),
    Offering(Result<Option<Arc<Offer>>, Refusal>),
    /// With how long it holds; for good without.
    Image(Result<Option<Picture>, Refusal>, Option<Duration>),
    /// The way does not lead where the errand goes, which nobody sends.
    Lost,
}

fn late(place: &Place) -> Refusal {
    Refusal { message: format!("{place} did not answer within a minute"), terminal: false, permission: false }
}

/// Ends an errand that takes too long.
async fn timely<T>(place: &Place, answer: impl Future<Output = Result<T, Refusal>> + Send) -> Result<T, Refusal> {
    tokio::time::timeout(DEADLINE, answer).await.unwrap_or_else(|_| Err(late(place)))
}

/// The catalogue of all regions.
pub struct Catalogue<C> {
    cloud: C,
    clock: Clock,
    rules: Rules,
    metrics: CapacityMetrics,
    shelf: Mutex<Shelf<GroupKey>>,
    store: Option<Arc<Store>>,
    orders: mpsc::UnboundedSender<Order>,
    /// Until when regions are known to be there, by whose credentials.
    regions: Mutex<BTreeMap<(Region, Box<str>), Instant>>,
}

impl<C: Ways> Catalogue<C> {
    /// An empty catalogue, and the orders that [`Catalogue::run`] carries out. With a store, that is read before the cloud is
    /// asked, and told what the cloud says.
    #[must_use]
    pub fn new(
        cloud: C,
        clock: Clock,
        rules: Rules,
        metrics: CapacityMetrics,
        store: Option<Arc<Store>>,
    ) -> (Arc<Self>, Orders) {
        let (orders, incoming) = mpsc::unbounded_channel();
        let shelf = Shelf::new(rules);
        let shelf = Mutex::new(if store.is_some() { shelf.recalling() } else { shelf });
        let catalogue = Self { cloud, clock, rules, metrics, shelf, store, orders, regions: Mutex::default() };
        (Arc::new(catalogue), incoming)
    }

    /// What is known of a type; `who` is woken when there is more to know. `by` names the credentials that would be used.
    pub fn find(&self, place: &Place, name: &str, who: &GroupKey, by: &str) -> Found {
        let found = self.shelf().find(place, name, who, by, self.clock.instant());
        self.metrics.lookup(place, &found);
        if found == Found::Recall {
            // The receiver lives as long as the room's task; without it the process is about to end.
            let _ = self.orders.send(Order::Recall);
            return Found::Wait;
        }
        found
    }

    /// Which servers of CloudStack may be called.
    pub fn policy(&self) -> &Policy {
        self.cloud.acs().policy()
    }

    /// What an image says; `who` is woken when there is more to know.
    pub fn image(&self, place: &Place, id: &str, who: &GroupKey) -> System {
        self.shelf().image(place, id, who, self.clock.instant())
    }

    /// Sends somebody to the cloud, with the credentials that `by` names; if that has happened already, `who` is woken by
    /// that one.
    pub fn send(&self, errand: Errand, way: Way, by: &str, who: Option<&GroupKey>) {
        if self.shelf().begin(&errand, who) {
            let _ = self.orders.send(Order::Ask(errand, way, by.into()));
        }
    }

    /// Credentials, endpoints or trust have changed.
    pub fn forgive(&self) {
        self.shelf().forgive();
    }

    /// The group is gone.
    pub fn forget(&self, who: &GroupKey) {
        self.shelf().forget(who);
    }

    /// What metrics show.
    pub fn standing(&self) -> Vec<Standing> {
        self.shelf().standing(self.clock.instant())
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf<GroupKey>> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out errands until told to stop; `wake` is told who waited.
    pub async fn run(
        self: Arc<Self>,
        mut orders: Orders,
        wake: impl Fn(Vec<GroupKey>) + Send + Sync,
        stop: CancellationToken,
    ) {
        let mut running = JoinSet::new();
        let mut warn = tokio::time::interval(Duration::from_secs(3600));
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = warn.tick() => self.warn(),
                order = orders.recv() => match order {
                    Some(order) => {
                        let this = Arc::clone(&self);
                        running.spawn(async move { this.carry_out(order).await });
                    }
                    None => return stop.cancelled().await,
                },
                Some(done) = running.join_next() => match done {
                    Ok(done) => {
                        let (waited, news) = self.land(done);
                        wake(waited);
                        // Packing takes a while, and nobody waits for it.
                        self.keep(news);
                    }
                    // One errand that panics would leave all who wait for it waiting.
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    Err(_) => {}
                },
            }
        }
    }

    async fn carry_out(&self, order: Order) -> Done {
        match (order, &self.store) {
            (Order::Recall, Some(store)) => Done::Recalled(store.recall().await),
            (Order::Recall, None) => Done::Recalled(Vec::new()),
            (Order::Ask(errand, way, by), _) => {
                let answer = self.ask(&errand, &way, &by).await;
                Done::Asked(errand, by, Box::new(answer))
            }
        }
    }

    fn warn(&self) {
        for standing in self.standing().into_iter().filter(|standing| standing.age > VERY_STALE) {
            let days = standing.age.as_secs() / 86_400;
            tracing::warn!(region = %standing.region, days, "the catalogue of this region is very old");
        }
    }

    async fn ask(&self, errand: &Errand, way: &Way, by: &str) -> Answer {
        let (began, place) = (self.clock.instant(), errand.place());
        let answer = match (errand, way) {
            (Errand::Fill(_), Way::Ec2(door)) => Answer::Types(timely(place, self.list(door, by)).await),
            (Errand::Look(_, name), Way::Ec2(door)) => Answer::One(timely(place, self.look(door, name)).await),
            (Errand::Image(_, id), Way::Ec2(door)) => {
                let known = timely(place, self.picture(door, id)).await;
                // Whoever may not ask for images, or has no answer, goes without.
                Answer::Image(known.or_else(|refusal| untold(id, refusal)), None)
            }
            (errand, Way::Acs(profile)) => {
                let acs = self.cloud.acs().open(profile);
                let acs = acs.map_err(|message| Refusal { message, terminal: false, permission: true });
                self.ask_acs(errand, acs).await
            }
        };
        let took = self.clock.instant().saturating_duration_since(began);
        let listed = match &answer {
            Answer::Types(types) => Some(types.as_ref().map(|list| (list.types.len(), list.nameless))),
            // Each is there by its id and by its name.
            Answer::Offers(offers) => Some(offers.as_ref().map(|offers| (offers.len() / 2, 0))),
            Answer::One(_) | Answer::Offering(_) | Answer::Image(..) | Answer::Lost => None,
        };
        if let Some(listed) = listed {
            self.metrics.refreshed(place, listed.is_ok(), took);
            let (provider, region) = (place.provider(), place.region());
            let elapsed_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            match listed {
                Ok((types, nameless)) => {
                    tracing::info!(provider, region, types, nameless, elapsed_ms, "catalogue listed")
                }
                Err(refusal) => {
                    tracing::warn!(provider, region, error = refusal.message, elapsed_ms, "catalogue not listed")
                }
            }
        }
        answer
    }

    async fn ask_acs(&self, errand: &Errand, acs: Result<AcsOf<C>, Refusal>) -> Answer {
        let Place::Acs(site) = errand.place() else { return Answer::Lost };
        let (place, acs) = (errand.place(), acs.as_ref());
        let opened = || acs.map_err(Refusal::clone);
        match errand {
            Errand::Fill(_) => Answer::Offers(timely(place, async { ask::list(opened()?, site).await }).await),
            Errand::Look(_, wanted) => {
                Answer::Offering(timely(place, async { ask::look(opened()?, site, wanted).await }).await)
            }
            Errand::Image(_, wanted) => {
                let known = timely(place, async { ask::image(opened()?, site, wanted).await }).await;
                // What a person must change may stay for long; what passes by itself is worth waiting for.
                let known = known.or_else(|refusal| match refusal.terminal || refusal.permission {
                    true => untold(wanted, refusal),
                    false => Err(refusal),
                });
                Answer::Image(known, Some(self.rules.ttl))
            }
        }
    }

    async fn list(&self, door: &Door, by: &str) -> Result<TypeList, Refusal> {
        self.check_region(door, by).await?;
        let list = self.call(door, |ec2| async move { ec2.describe_instance_types(&TypeQuery::All).await }).await?;
        if list.types.is_empty() {
            let message = format!("EC2 in {} lists no instance types", door.region);
            return Err(Refusal { message, terminal: false, permission: false });
        }
        Ok(list)
    }

    async fn look(&self, door: &Door, name: &str) -> Result<Option<TypeFacts>, Refusal> {
        // What cannot be the name of a type need not be asked for.
        let Ok(wanted) = name.parse::<InstanceType>() else { return Ok(None) };
        let query = TypeQuery::Names(vec![wanted]);
        let query = &query;
        let answer = self.try_call(door, |ec2| async move { ec2.describe_instance_types(query).await }).await?;
        match answer {
            Ok(list) => Ok(list.types.into_iter().find(|facts| facts.name.as_ref() == name)),
            Err(error) if error.code() == Some("InvalidInstanceType") => Ok(None),
            Err(error) => Err(refusal(&error)),
        }
    }

    /// What an image says; `None` when there is no such image.
    async fn picture(&self, door: &Door, id: &str) -> Result<Option<Picture>, Refusal> {
        let Ok(id) = id.parse::<ImageId>() else { return Ok(None) };
        let query = ImageQuery { ids: vec![id], ..ImageQuery::default() };
        let query = &query;
        let images = self.call(door, |ec2| async move { ec2.describe_images(query).await }).await?;
        let is_windows = |image: &Image| image.platform.as_deref().is_some_and(|p| p.eq_ignore_ascii_case("windows"));
        Ok(images.first().map(|image| Picture { windows: is_windows(image), ..Picture::default() }))
    }

    /// Asks whether a region exists, only where its name says nothing about that and nobody has said so lately.
    async fn check_region(&self, door: &Door, by: &str) -> Result<(), Refusal> {
        if Partition::known(&door.region).is_some() || door.endpoints.is_set(Service::Ec2) {
            return Ok(());
        }
        let known = (door.region.clone(), by.into());
        if self.regions().get(&known).is_some_and(|until| self.clock.instant() < *until) {
            return Ok(());
        }
        let Ok(home) = Partition::of(&door.region).home().parse::<Region>() else { return Ok(()) };
        let door_home = Door { region: home, ..door.clone() };
        let regions = self.call(&door_home, |ec2| async move { ec2.describe_regions().await }).await?;
        let refused = |message: String| Err(Refusal { message, terminal: true, permission: true });
        match regions.iter().find(|region| region.name == door.region.as_str()) {
            None => refused(format!("the region {} is unknown", door.region)),
            Some(region) if region.opt_in == OptIn::NotOptedIn => {
                refused(format!("the region {} is not enabled for the account", door.region))
            }
            Some(_) => {
                let now = self.clock.instant();
                let mut regions = self.regions();
                regions.retain(|_, until| now < *until);
                if regions.len() < REGIONS {
                    regions.insert(known, now + REGION_HOLDS);
                }
                Ok(())
            }
        }
    }

    fn regions(&self) -> MutexGuard<'_, BTreeMap<(Region, Box<str>), Instant>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call<T, F>(&self, door: &Door, ask: impl Fn(<C::Aws as Cloud>::Ec2) -> F) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        self.try_call(door, ask).await?.map_err(|error| refusal(&error))
    }

    /// Calls; where credentials are refused, once more with a client that does not know them yet.
    async fn try_call<T, F>(
        &self,
        door: &Door,
        ask: impl Fn(<C::Aws as Cloud>::Ec2) -> F,
    ) -> Result<Result<T, Error>, Refusal>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let open = || {
            let shut =
                |error: crate::cloud::DoorError| Refusal { message: error.message, terminal: false, permission: true };
            self.cloud.aws().open(door).map_err(shut)
        };
        match ask(open()?).await {
            Err(error) if error.kind() == Kind::Permission => {
                self.cloud.aws().forget(door);
                Ok(ask(open()?).await)
            }
            answer => Ok(answer),
        }
    }

    /// Puts an answer on the shelf; says who waited for it, and what of it is worth keeping.
    fn land(&self, done: Done) -> (Vec<GroupKey>, Option<News>) {
        let (now, dice) = (self.clock.instant(), self.clock.roll());
        let (errand, by, answer) = match done {
            Done::Recalled(pages) => {
                let lists = pages.into_iter().map(|page| self.recalled(page)).collect();
                return (self.shelf().recalled(lists, now, dice), None);
            }
            Done::Asked(errand, by, answer) => (errand, by, *answer),
        };
        match (errand, answer) {
            (Errand::Fill(place), Answer::Types(types)) => {
                let offers = types.as_ref().map(|list| self.offers(&list.types)).map_err(Refusal::clone);
                let waited = self.shelf().filled(&place, &by, offers, now, dice);
                let news = match (place, types) {
                    (Place::Ec2(place), Ok(TypeList { types, .. })) => {
                        Some(News::Listed(Page { place, listed: self.clock.now(), types }))
                    }
                    _ => None,
                };
                (waited, news)
            }
            (Errand::Look(place, name), Answer::One(one)) => {
                let offer = one.as_ref().map(|facts| facts.as_ref().map(|facts| Arc::new(Offer::of_ec2(facts))));
                let waited = self.shelf().looked(&place, &name, &by, offer.map_err(Refusal::clone), now);
                let news = match (place, one) {
                    (Place::Ec2(place), Ok(Some(facts))) => Some(News::Added(place, facts)),
                    _ => None,
                };
                (waited, news)
            }
            (Errand::Fill(place), Answer::Offers(offers)) => {
                (self.shelf().filled(&place, &by, offers, now, dice), None)
            }
            (Errand::Look(place, wanted), Answer::Offering(one)) => {
                (self.shelf().looked(&place, &wanted, &by, one, now), None)
            }
            (Errand::Image(place, id), Answer::Image(known, life)) => {
                (self.shelf().pictured(&place, &id, known, life, now), None)
            }
            _ => (Vec::new(), None),
        }
    }

    fn keep(&self, news: Option<News>) {
        match (&self.store, news) {
            (Some(store), Some(News::Listed(page))) => store.listed(&page),
            (Some(store), Some(News::Added(place, facts))) => store.added(&place, &facts),
            (None, _) | (_, None) => {}
        }
    }

    fn recalled(&self, page: Page) -> Recalled {
        let age = Duration::try_from(self.clock.now().duration_since(page.listed)).unwrap_or_default();
        let (types, age_s) = (page.types.len(), age.as_secs());
        tracing::info!(region = %page.place.region, types, age_s, "catalogue recalled");
        Recalled { place: Place::Ec2(page.place), types: self.offers(&page.types), age }
    }

    fn offers(&self, types: &[TypeFacts]) -> BTreeMap<Box<str>, Arc<Offer>> {
        let mut strange: Vec<&str> = types.iter().flat_map(strange_makers).collect();
        strange.sort_unstable();
        strange.dedup();
        for maker in strange.into_iter().filter(|maker| self.metrics.is_new_maker(maker)) {
            tracing::warn!(maker, "no extended resource is known for accelerators of this maker");
        }
        types.iter().map(|facts| (facts.name.clone(), Arc::new(Offer::of_ec2(facts)))).collect()
    }
}

/// The client of CloudStack.
type AcsOf<C> = <<C as Ways>::Acs as Clouds>::Acs;

/// Nobody can tell what an image says.
fn untold(id: &str, refusal: Refusal) -> Result<Option<Picture>, Refusal> {
    tracing::info!(image = %id.trim_start_matches(crate::acs::BY_ID), error = refusal.message, "an image is not known");
    Ok(None)
}

fn refusal(error: &Error) -> Refusal {
    Refusal { message: kit::class::chain(error), terminal: false, permission: error.kind() == Kind::Permission }
}
