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
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cloud::{Cloud, Door};
use crate::facts::GroupKey;
use crate::metrics::CapacityMetrics;
use crate::offer::{Offer, strange_makers};
use crate::shelf::{Errand, Found, Place, Refusal, Rules, Shelf, Standing, System, VERY_STALE};

/// How long one errand may take, with all its pages and attempts.
const DEADLINE: Duration = Duration::from_secs(60);

/// An errand on its way.
type Order = (Errand, Door);
/// Errands that nobody runs yet.
pub type Orders = mpsc::UnboundedReceiver<Order>;

/// What the cloud answered.
enum Answer {
    Types(Result<TypeList, Refusal>),
    One(Result<Option<TypeFacts>, Refusal>),
    Image(Option<bool>),
}

/// The catalogue of all regions.
pub struct Catalogue<C> {
    cloud: C,
    clock: Clock,
    metrics: CapacityMetrics,
    shelf: Mutex<Shelf<GroupKey>>,
    orders: mpsc::UnboundedSender<Order>,
}

impl<C: Cloud> Catalogue<C> {
    /// An empty catalogue, and the errands that [`Catalogue::run`] carries out.
    #[must_use]
    pub fn new(cloud: C, clock: Clock, rules: Rules, metrics: CapacityMetrics) -> (Arc<Self>, Orders) {
        let (orders, incoming) = mpsc::unbounded_channel();
        let catalogue = Self { cloud, clock, metrics, shelf: Mutex::new(Shelf::new(rules)), orders };
        (Arc::new(catalogue), incoming)
    }

    /// What is known of a type; `who` is woken when there is more to know.
    pub fn find(&self, place: &Place, name: &str, who: &GroupKey) -> Found {
        let found = self.shelf().find(place, name, who, self.clock.instant());
        self.metrics.lookup(&place.region, &found);
        found
    }

    /// Whether an image is one of Windows; `who` is woken when there is more to know.
    pub fn image(&self, place: &Place, id: &str, who: &GroupKey) -> System {
        self.shelf().image(place, id, who, self.clock.instant())
    }

    /// Sends somebody to the cloud; if that has happened already, `who` is woken by that one.
    pub fn send(&self, errand: Errand, door: Door, who: Option<&GroupKey>) {
        if self.shelf().begin(&errand, who) {
            // The receiver lives as long as the room's task; without it the process is about to end.
            let _ = self.orders.send((errand, door));
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
                    Some((errand, door)) => {
                        let this = Arc::clone(&self);
                        running.spawn(async move {
                            let answer = this.ask(&errand, &door).await;
                            (errand, answer)
                        });
                    }
                    None => return stop.cancelled().await,
                },
                Some(done) = running.join_next() => match done {
                    Ok((errand, answer)) => wake(self.land(&errand, answer)),
                    // One errand that panics would leave all who wait for it waiting.
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    Err(_) => {}
                },
            }
        }
    }

    fn warn(&self) {
        for standing in self.standing().into_iter().filter(|standing| standing.age > VERY_STALE) {
            let days = standing.age.as_secs() / 86_400;
            tracing::warn!(region = %standing.region, days, "the catalogue of this region is very old");
        }
    }

    async fn ask(&self, errand: &Errand, door: &Door) -> Answer {
        let began = self.clock.instant();
        let late = || Refusal {
            message: format!("EC2 in {} did not answer within a minute", errand.place().region),
            terminal: false,
            permission: false,
        };
        let answer = match errand {
            Errand::Fill(_) => {
                let types = tokio::time::timeout(DEADLINE, self.list(door)).await.unwrap_or_else(|_| Err(late()));
                Answer::Types(types)
            }
            Errand::Look(_, name) => {
                let one = tokio::time::timeout(DEADLINE, self.look(door, name)).await.unwrap_or_else(|_| Err(late()));
                Answer::One(one)
            }
            Errand::Image(_, id) => {
                let windows = tokio::time::timeout(DEADLINE, self.picture(door, id)).await;
                Answer::Image(windows.unwrap_or_else(|_| Err(late())).unwrap_or_else(|refusal| {
                    tracing::info!(image = %id, error = refusal.message, "the system of an image is not known");
                    None
                }))
            }
        };
        let took = self.clock.instant().saturating_duration_since(began);
        if let Answer::Types(types) = &answer {
            self.metrics.refreshed(&errand.place().region, types.is_ok(), took);
            let elapsed_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            match types {
                Ok(list) => tracing::info!(
                    region = %errand.place().region, types = list.types.len(), nameless = list.nameless, elapsed_ms,
                    "catalogue listed"
                ),
                Err(refusal) => tracing::warn!(
                    region = %errand.place().region, error = refusal.message, elapsed_ms, "catalogue not listed"
                ),
            }
        }
        answer
    }

    async fn list(&self, door: &Door) -> Result<TypeList, Refusal> {
        self.check_region(door).await?;
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

    /// Whether an image is one of Windows; `None` when there is no such image.
    async fn picture(&self, door: &Door, id: &str) -> Result<Option<bool>, Refusal> {
        let Ok(id) = id.parse::<ImageId>() else { return Ok(None) };
        let query = ImageQuery { ids: vec![id], ..ImageQuery::default() };
        let query = &query;
        let images = self.call(door, |ec2| async move { ec2.describe_images(query).await }).await?;
        let is_windows = |image: &Image| image.platform.as_deref().is_some_and(|p| p.eq_ignore_ascii_case("windows"));
        Ok(images.first().map(is_windows))
    }

    /// Asks whether a region exists, only where its name says nothing about that.
    async fn check_region(&self, door: &Door) -> Result<(), Refusal> {
        if Partition::known(&door.region).is_some() || door.endpoints.is_set(Service::Ec2) {
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
            Some(_) => Ok(()),
        }
    }

    async fn call<T, F>(&self, door: &Door, ask: impl Fn(C::Ec2) -> F) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        self.try_call(door, ask).await?.map_err(|error| refusal(&error))
    }

    /// Calls; where credentials are refused, once more with a client that does not know them yet.
    async fn try_call<T, F>(&self, door: &Door, ask: impl Fn(C::Ec2) -> F) -> Result<Result<T, Error>, Refusal>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let open = || {
            let shut =
                |error: crate::cloud::DoorError| Refusal { message: error.message, terminal: false, permission: true };
            self.cloud.open(door).map_err(shut)
        };
        match ask(open()?).await {
            Err(error) if error.kind() == Kind::Permission => {
                self.cloud.forget(door);
                Ok(ask(open()?).await)
            }
            answer => Ok(answer),
        }
    }

    fn land(&self, errand: &Errand, answer: Answer) -> Vec<GroupKey> {
        let now = self.clock.instant();
        match (errand, answer) {
            (Errand::Fill(place), Answer::Types(types)) => {
                let types = types.map(|list| self.offers(list));
                let dice = self.clock.roll();
                self.shelf().filled(place, types, now, dice)
            }
            (Errand::Look(place, name), Answer::One(one)) => {
                let one = one.map(|facts| facts.map(|facts| Arc::new(Offer::of_ec2(&facts))));
                self.shelf().looked(place, name, one, now)
            }
            (Errand::Image(place, id), Answer::Image(windows)) => self.shelf().pictured(place, id, windows, now),
            _ => Vec::new(),
        }
    }

    fn offers(&self, list: TypeList) -> BTreeMap<Box<str>, Arc<Offer>> {
        let mut strange: Vec<&str> = list.types.iter().flat_map(strange_makers).collect();
        strange.sort_unstable();
        strange.dedup();
        for maker in strange.into_iter().filter(|maker| self.metrics.is_new_maker(maker)) {
            tracing::warn!(maker, "no extended resource is known for accelerators of this maker");
        }
        list.types.into_iter().map(|facts| (facts.name.clone(), Arc::new(Offer::of_ec2(&facts)))).collect()
    }
}

fn refusal(error: &Error) -> Refusal {
    Refusal { message: kit::class::chain(error), terminal: false, permission: error.kind() == Kind::Permission }
}
