//! What EC2 says, asked once for many: lists of everything that carries our tags serve all machines of a region and
//! identity, and answers that change rarely are kept.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::names::hosts::{ALLOCATION_ID_TAG, MACHINE_NAME_TAG, RETAINED_TAG};
use api::names::{AccountId, HostId, ImageId, InstanceId, InstanceType, SecurityGroupId, SubnetId, VpcId};
use aws::cloud::{Cloud, Door, DoorError};
use aws::credentials::Source;
use aws::errors::{Error, Kind};
use aws::limits::Size;
use aws::port::{
    Ec2, Filter, Host, HostQuery, Image, ImageQuery, Instance, InstanceQuery, Judged, RunInstance, SecurityGroup,
    StateChange, Subnet, TypeFacts, TypeQuery,
};
use kit::clock::Clock;
use tokio::time::Instant;

use crate::batch::{Batch, Together};
use crate::classes::Class;
use crate::request;
use crate::turns::Turns;

/// What EC2 says about a type or an image is believed for this long.
const RARELY: Duration = Duration::from_secs(600);
/// What EC2 says about subnets and groups is believed for this long.
const SOMETIMES: Duration = Duration::from_secs(60);
/// A launch that was tried without having it tells for this long how equal ones would end.
const REHEARSED: Duration = Duration::from_secs(300);
/// A list is asked for again after this long, and as much longer for each part of [`PART`] entries as
/// [`EACH_PART`]: long lists take many requests.
const AT_LEAST: Duration = Duration::from_millis(250);
const EACH_PART: Duration = Duration::from_millis(250);
const PART: usize = 250;
/// The token service answers within this time, or is taken for one that cannot be reached.
const STS: Duration = Duration::from_secs(5);
/// While it cannot be reached it is asked this often.
const STS_AGAIN: Duration = Duration::from_secs(30);
/// Answers of one kind that are kept; when there are more, all are forgotten.
const MOST: usize = 1_024;
/// Ways to EC2 that are kept.
const DOORS: usize = 64;

type Slot<V> = Arc<tokio::sync::Mutex<Option<(Instant, V)>>>;

/// Answers by question; whoever asks while the answer is on its way waits for it.
struct Kept<K, V>(Mutex<BTreeMap<K, Slot<V>>>);

impl<K: Ord, V: Clone> Kept<K, V> {
    fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    fn slot(&self, key: K) -> Slot<V> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.clear();
        }
        Arc::clone(all.entry(key).or_default())
    }

    /// The answer, if it was asked for after `least`, else a new one. An answer counts from when it was asked for.
    async fn get<F>(&self, key: K, least: Instant, clock: &Clock, ask: impl FnOnce() -> F) -> Result<V, Error>
    where
        F: Future<Output = Result<V, Error>>,
    {
        self.with_time(key, |_| least, clock, ask).await.map(|(_, value)| value)
    }

    /// The same with the time it was asked for, and a least time that depends on what is kept.
    async fn with_time<F>(
        &self,
        key: K,
        least: impl FnOnce(&V) -> Instant,
        clock: &Clock,
        ask: impl FnOnce() -> F,
    ) -> Result<(Instant, V), Error>
    where
        F: Future<Output = Result<V, Error>>,
    {
        let slot = self.slot(key);
        let mut kept = slot.lock().await;
        if let Some((at, value)) = &*kept
            && *at >= least(value)
        {
            return Ok((*at, value.clone()));
        }
        let asked = clock.instant();
        let value = ask().await?;
        *kept = Some((asked, value.clone()));
        Ok((asked, value))
    }
}

/// A list that serves many, and when it was asked for.
#[derive(Clone, Debug)]
pub struct List<T> {
    /// When it was asked for: what happened later it cannot show.
    pub asked: Instant,
    /// All of it.
    pub all: Arc<Vec<T>>,
}

/// How old a list may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// As young as the requests it costs allow: for machines on their way.
    OnTheWay,
    /// This old.
    AtMost(Duration),
}

/// How soon a list of this length is asked for again.
fn pause(length: usize) -> Duration {
    AT_LEAST.saturating_add(EACH_PART.saturating_mul(u32::try_from(length / PART).unwrap_or(u32::MAX)))
}

/// Subnets by their ids, and by filters.
type SubnetQuestion = (Vec<SubnetId>, Vec<Filter>);

/// What one region shows to one identity.
pub struct Shelf<E> {
    door: Door,
    ec2: E,
    clock: Clock,
    born: Instant,
    touched: Mutex<Instant>,
    hosts: Kept<(), Arc<Vec<Host>>>,
    left: Kept<(), Arc<Vec<Host>>>,
    instances: Kept<(), Arc<Vec<Instance>>>,
    types: Kept<InstanceType, Option<Arc<TypeFacts>>>,
    images: Kept<ImageId, Option<Arc<Image>>>,
    subnets: Kept<SubnetQuestion, Arc<Vec<Subnet>>>,
    groups: Kept<Vec<Filter>, Arc<Vec<SecurityGroup>>>,
    domains: Kept<VpcId, Arc<Vec<String>>>,
    rehearsals: Kept<String, Option<Error>>,
    releases: Batch<HostId, Arc<Judged<HostId>>>,
    endings: Batch<InstanceId, Arc<Vec<StateChange>>>,
    turns: Turns,
    accounts: Kept<(), Result<AccountId, Error>>,
}

impl<E: Ec2> Shelf<E> {
    fn new(door: Door, ec2: E, clock: Clock, launches: Size) -> Self {
        Self {
            door,
            ec2,
            born: clock.instant(),
            touched: Mutex::new(clock.instant()),
            clock,
            hosts: Kept::new(),
            left: Kept::new(),
            instances: Kept::new(),
            types: Kept::new(),
            images: Kept::new(),
            subnets: Kept::new(),
            groups: Kept::new(),
            domains: Kept::new(),
            rehearsals: Kept::new(),
            releases: Batch::default(),
            endings: Batch::default(),
            turns: Turns::new(launches),
            accounts: Kept::new(),
        }
    }

    /// EC2 itself.
    pub fn ec2(&self) -> &E {
        &self.ec2
    }

    /// The way there.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// Something was changed: lists made before show the past.
    pub fn touch(&self) {
        *self.touched() = self.clock.instant();
    }

    fn touched(&self) -> MutexGuard<'_, Instant> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From when on a list of this length must be.
    fn least(&self, age: Age, length: usize) -> Instant {
        let age = match age {
            Age::OnTheWay => pause(length),
            Age::AtMost(age) => age,
        };
        self.kept_for(age).max(*self.touched())
    }

    /// Whose turn it is to be launched.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    fn kept_for(&self, age: Duration) -> Instant {
        let now = self.clock.instant();
        now.checked_sub(age).unwrap_or(now)
    }

    /// Every host that carries an allocation id.
    ///
    /// # Errors
    /// When EC2 cannot be asked.
    pub async fn hosts(&self, age: Age) -> Result<List<Host>, Error> {
        let ask = || async { self.ec2.describe_hosts(&HostQuery::by_tag_key(ALLOCATION_ID_TAG)).await.map(Arc::new) };
        let least = |kept: &Arc<Vec<Host>>| self.least(age, kept.len());
        let (asked, all) = self.hosts.with_time((), least, &self.clock, ask).await?;
        Ok(List { asked, all })
    }

    /// Every host that was left behind on purpose.
    ///
    /// # Errors
    /// When EC2 cannot be asked.
    pub async fn left(&self, age: Age) -> Result<List<Host>, Error> {
        let ask = || async { self.ec2.describe_hosts(&HostQuery::by_tag_key(RETAINED_TAG)).await.map(Arc::new) };
        let least = |kept: &Arc<Vec<Host>>| self.least(age, kept.len());
        let (asked, all) = self.left.with_time((), least, &self.clock, ask).await?;
        Ok(List { asked, all })
    }

    /// Every instance that carries the name of a Machine, ours and those of the provider that we replace.
    ///
    /// # Errors
    /// When EC2 cannot be asked.
    pub async fn instances(&self, age: Age) -> Result<List<Instance>, Error> {
        let query = InstanceQuery::Matching(vec![Filter::new("tag-key", [MACHINE_NAME_TAG])]);
        let ask = || async { self.ec2.describe_instances(&query).await.map(Arc::new) };
        let least = |kept: &Arc<Vec<Instance>>| self.least(age, kept.len());
        let (asked, all) = self.instances.with_time((), least, &self.clock, ask).await?;
        Ok(List { asked, all })
    }

    /// Tries a launch without having it, once for all machines that would be launched alike; the error, where it means
    /// that the real thing would not work either.
    pub async fn rehearse(&self, request: &RunInstance) -> Option<Error> {
        let ask = || async {
            match self.ec2.run_instance(request).await {
                Ok(instance) => {
                    tracing::error!(instance_id = %instance.id, "a rehearsal launched an instance");
                    Ok(None)
                }
                Err(error) if error.kind() == Kind::DryRun => Ok(None),
                Err(error) if Class::of(error.kind()).dooms_rehearsal() => Ok(Some(error)),
                // It says nothing about the next one.
                Err(error) => Err(error),
            }
        };
        let least = |kept: &Option<Error>| match kept {
            // What failed may be mended at any time; it is asked again when its machine is due again.
            Some(_) => self.kept_for(SOMETIMES),
            None => self.kept_for(REHEARSED),
        };
        let known = self.rehearsals.with_time(request::alike(request), least, &self.clock, ask).await;
        known.ok().and_then(|(_, doom)| doom)
    }

    /// Gives hosts back, in one call with those of other machines; none when nobody knows what became of it.
    pub async fn release(&self, hosts: &[HostId]) -> Option<Result<Arc<Judged<HostId>>, Error>> {
        let ask = |hosts: Vec<HostId>| async move { self.ec2.release_hosts(&hosts).await.map(Arc::new) };
        self.releases.join(hosts, ask).await.map(|together| together.answer)
    }

    /// Ends instances, in one call with those of other machines; none when nobody knows what became of it.
    pub async fn terminate(&self, instances: &[InstanceId]) -> Option<Result<Arc<Vec<StateChange>>, Error>> {
        let ask = |all: Vec<InstanceId>| async move { self.ec2.terminate_instances(&all).await.map(Arc::new) };
        let Together { askers, answer } = self.endings.join(instances, ask).await?;
        match answer {
            // One id that EC2 does not know spoils the call for all.
            Err(error) if askers > 1 && error.kind() == Kind::NotFound => {
                Some(self.ec2.terminate_instances(instances).await.map(Arc::new))
            }
            answer => Some(answer),
        }
    }

    /// What EC2 says about a type; none when it knows no such type.
    ///
    /// # Errors
    /// When EC2 cannot be asked.
    pub async fn type_facts(&self, name: &InstanceType) -> Result<Option<Arc<TypeFacts>>, Error> {
        let ask = || async {
            let asked = self.ec2.describe_instance_types(&TypeQuery::Names(vec![name.clone()])).await;
            let found = missing_is_none(asked, |code| code == "InvalidInstanceType")?;
            Ok(found.and_then(|list| list.types.into_iter().next()).map(Arc::new))
        };
        self.types.get(name.clone(), self.kept_for(RARELY), &self.clock, ask).await
    }

    /// An image; none when EC2 knows no such image.
    ///
    /// # Errors
    /// When EC2 cannot be asked.
    pub async fn image(&self, id: &ImageId) -> Result<Option<Arc<Image>>, Error> {
        let ask = || async {
            let query = ImageQuery { ids: vec![id.clone()], ..ImageQuery::default() };
            let found = missing_is_none(self.ec2.describe_images(&query).await, |c| c.starts_with("InvalidAMIID."))?;
            Ok(found.and_then(|images| images.into_iter().next()).map(Arc::new))
        };
        self.images.get(id.clone(), self.kept_for(RARELY), &self.clock, ask).await
    }

    /// Subnets.
    ///
    /// # Errors
    /// When EC2 cannot be asked.
    pub async fn subnets(&self, ids: Vec<SubnetId>, filters: Vec<Filter>) -> Result<Arc<Vec<Subnet>>, Error> {
        let (given, matching) = (ids.clone(), filters.clone());
        let ask = || async move {
            let found = missing_is_none(self.ec2.describe_subnets(&given, &matching).await, |c| {
                c == "InvalidSubnetID.NotFound"
            })?;
            Ok(Arc::new(found.unwrap_or_default()))
        };
        self.subnets.get((ids, filters), self.kept_for(SOMETIMES), &self.clock, ask).await
    }

    /// The security groups that match.
    ///
    /// # Errors
    /// When EC2 cannot be asked.
    pub async fn groups(&self, filters: Vec<Filter>) -> Result<Vec<SecurityGroupId>, Error> {
        let matching = filters.clone();
        let ask = || async move { self.ec2.describe_security_groups(&[], &matching).await.map(Arc::new) };
        let found = self.groups.get(filters, self.kept_for(SOMETIMES), &self.clock, ask).await?;
        Ok(found.iter().map(|group| group.id.clone()).collect())
    }

    /// The domains of the DHCP options of a network.
    ///
    /// # Errors
    /// When EC2 cannot be asked.
    pub async fn domains(&self, vpc: &VpcId) -> Result<Arc<Vec<String>>, Error> {
        let ask = || async {
            let networks = self.ec2.describe_vpcs(std::slice::from_ref(vpc)).await?;
            let options = networks.into_iter().find_map(|network| network.dhcp_options);
            let Some(options) = options.filter(|id| id != "default") else { return Ok(Arc::default()) };
            let found = self.ec2.describe_dhcp_options(&[options]).await?;
            Ok(Arc::new(found.into_iter().flat_map(|set| set.domain_names).collect::<Vec<_>>()))
        };
        self.domains.get(vpc.clone(), self.kept_for(RARELY), &self.clock, ask).await
    }
}

/// What is not there is no failure of the question.
pub(crate) fn missing_is_none<T>(answer: Result<T, Error>, codes: impl Fn(&str) -> bool) -> Result<Option<T>, Error> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == Kind::NotFound || error.code().is_some_and(codes) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The shelves of all regions and identities.
pub struct Shelves<C: Cloud> {
    cloud: C,
    clock: Clock,
    launches: Size,
    open: Mutex<Vec<Arc<Shelf<C::Ec2>>>>,
}

impl<C: Cloud> Shelves<C> {
    /// Nothing is asked yet.
    pub fn new(cloud: C, clock: Clock, launches: Size) -> Self {
        Self { cloud, clock, launches, open: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Shelf<C::Ec2>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shelf behind a door: the same one for an equal door.
    ///
    /// # Errors
    /// When connections or credentials cannot be set up.
    pub fn shelf(&self, door: &Door) -> Result<Arc<Shelf<C::Ec2>>, DoorError> {
        let mut open = self.lock();
        if let Some(at) = open.iter().position(|shelf| shelf.door == *door) {
            // The one used last goes last, so that the one to forget goes first.
            let shelf = open.remove(at);
            open.push(Arc::clone(&shelf));
            return Ok(shelf);
        }
        let shelf = Arc::new(Shelf::new(door.clone(), self.cloud.open(door)?, self.clock.clone(), self.launches));
        if open.len() >= DOORS {
            open.remove(0);
        }
        open.push(Arc::clone(&shelf));
        Ok(shelf)
    }

    /// The account that a shelf shows. Keys never change theirs; other sources are asked again now and then.
    ///
    /// # Errors
    /// When nobody can tell; that is remembered for a while, so that it holds nobody up.
    pub async fn account(&self, shelf: &Shelf<C::Ec2>) -> Result<AccountId, Error> {
        let door = &shelf.door;
        let least = match door.source {
            Source::Keys(_) => shelf.born,
            _ => shelf.kept_for(SOMETIMES),
        };
        let ask = || async {
            let late = || {
                let message = "the token service does not answer";
                Error::refused("GetCallerIdentity", door.region.as_str(), "RequestTimeout", message)
            };
            Ok(tokio::time::timeout(STS, self.cloud.account(door)).await.unwrap_or_else(|_| Err(late())))
        };
        match shelf.accounts.get((), least, &self.clock, ask).await? {
            Ok(account) => Ok(account),
            Err(_) => shelf.accounts.get((), shelf.kept_for(STS_AGAIN), &self.clock, ask).await?,
        }
    }

    /// All shelves.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Shelf<C::Ec2>>> {
        self.lock().clone()
    }

    /// The credentials behind a shelf are no longer good; one that was opened a moment ago is not opened anew.
    pub fn forget_old(&self, shelf: &Shelf<C::Ec2>) {
        if self.clock.instant().saturating_duration_since(shelf.born) < SOMETIMES {
            return;
        }
        self.lock().retain(|open| open.door != shelf.door);
        self.cloud.forget(&shelf.door);
    }
}
