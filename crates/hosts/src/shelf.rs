//! What EC2 says, asked once for many: lists of everything that carries our tags serve all machines of a region and
//! identity, and answers that change rarely are kept.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::names::hosts::{ALLOCATION_ID_TAG, MACHINE_NAME_TAG};
use api::names::{ImageId, InstanceType, SecurityGroupId, SubnetId, VpcId};
use aws::cloud::{Cloud, Door, DoorError};
use aws::errors::{Error, Kind};
use aws::port::{
    Ec2, Filter, Host, HostQuery, Image, ImageQuery, Instance, InstanceQuery, SecurityGroup, Subnet, TypeFacts,
    TypeQuery,
};
use kit::clock::Clock;
use tokio::time::Instant;

/// What EC2 says about a type or an image is believed for this long.
const RARELY: Duration = Duration::from_secs(600);
/// What EC2 says about subnets and groups is believed for this long.
const SOMETIMES: Duration = Duration::from_secs(60);
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
        let slot = self.slot(key);
        let mut kept = slot.lock().await;
        if let Some((at, value)) = &*kept
            && *at >= least
        {
            return Ok(value.clone());
        }
        let asked = clock.instant();
        let value = ask().await?;
        *kept = Some((asked, value.clone()));
        Ok(value)
    }
}

/// Subnets by their ids, and by filters.
type SubnetQuestion = (Vec<SubnetId>, Vec<Filter>);

/// What one region shows to one identity.
pub struct Shelf<E> {
    door: Door,
    ec2: E,
    clock: Clock,
    touched: Mutex<Instant>,
    hosts: Kept<(), Arc<Vec<Host>>>,
    instances: Kept<(), Arc<Vec<Instance>>>,
    types: Kept<InstanceType, Option<Arc<TypeFacts>>>,
    images: Kept<ImageId, Option<Arc<Image>>>,
    subnets: Kept<SubnetQuestion, Arc<Vec<Subnet>>>,
    groups: Kept<Vec<Filter>, Arc<Vec<SecurityGroup>>>,
    domains: Kept<VpcId, Arc<Vec<String>>>,
}

impl<E: Ec2> Shelf<E> {
    fn new(door: Door, ec2: E, clock: Clock) -> Self {
        Self {
            door,
            ec2,
            touched: Mutex::new(clock.instant()),
            clock,
            hosts: Kept::new(),
            instances: Kept::new(),
            types: Kept::new(),
            images: Kept::new(),
            subnets: Kept::new(),
            groups: Kept::new(),
            domains: Kept::new(),
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

    fn least(&self, age: Duration) -> Instant {
        let now = self.clock.instant();
        now.checked_sub(age).unwrap_or(now).max(*self.touched())
    }

    fn kept_for(&self, age: Duration) -> Instant {
        let now = self.clock.instant();
        now.checked_sub(age).unwrap_or(now)
    }

    /// Every host that carries an allocation id.
    ///
    /// # Errors
    /// When EC2 cannot be asked.
    pub async fn hosts(&self, age: Duration) -> Result<Arc<Vec<Host>>, Error> {
        let ask = || async { self.ec2.describe_hosts(&HostQuery::by_tag_key(ALLOCATION_ID_TAG)).await.map(Arc::new) };
        self.hosts.get((), self.least(age), &self.clock, ask).await
    }

    /// Every instance that carries the name of a Machine, ours and those of the provider that we replace.
    ///
    /// # Errors
    /// When EC2 cannot be asked.
    pub async fn instances(&self, age: Duration) -> Result<Arc<Vec<Instance>>, Error> {
        let query = InstanceQuery::Matching(vec![Filter::new("tag-key", [MACHINE_NAME_TAG])]);
        let ask = || async { self.ec2.describe_instances(&query).await.map(Arc::new) };
        self.instances.get((), self.least(age), &self.clock, ask).await
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
    open: Mutex<Vec<Arc<Shelf<C::Ec2>>>>,
}

impl<C: Cloud> Shelves<C> {
    /// Nothing is asked yet.
    pub fn new(cloud: C, clock: Clock) -> Self {
        Self { cloud, clock, open: Mutex::default() }
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
        let shelf = Arc::new(Shelf::new(door.clone(), self.cloud.open(door)?, self.clock.clone()));
        if open.len() >= DOORS {
            open.remove(0);
        }
        open.push(Arc::clone(&shelf));
        Ok(shelf)
    }

    /// All shelves.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Shelf<C::Ec2>>> {
        self.lock().clone()
    }

    /// The credentials of a door are no longer good.
    pub fn forget(&self, door: &Door) {
        self.lock().retain(|shelf| shelf.door != *door);
        self.cloud.forget(door);
    }
}
