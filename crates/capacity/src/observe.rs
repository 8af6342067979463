//! Gathers one snapshot of a group: from the indexes, and from the cloud where its catalogue has to be asked.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use api::views::ObjectRef;
use aws::credentials::{SecretError, Source, from_secret, from_static_identity};
use aws::identity::Base;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kit::class::chain;
use kit::feed::{Feed, Project, Seen, Version};
use kube::Api;
use tokio::time::Instant;

use crate::cloud::{Door, Way, Ways};
use crate::config::{ClaimRules, Config};
use crate::decide::{Snapshot, Standing};
use crate::facts::{
    ACS, ACS_CLUSTER, GroupFacts, GroupKey, GroupKind, MANAGED_POOL, METAL, MachineApi, Metal, POOL, PlaceFacts, ROOM,
    Shape, World,
};
use crate::goal::{Profile, left};
use crate::judge::{AcsScene, Credential, Ec2Wish, Judgement, Lookup, Scene, Skip, Wish, judge, lacking};
use crate::metal::{self, MetalFault};
use crate::names::MACHINE_API_NAMESPACE;
use crate::near::nearest;
use crate::record::Record;
use crate::room::{Annotator, BUNDLE, Error, Seeing, read};
use crate::shelf::{Ec2Place, Found, Place, System};
use crate::status::{Outlook, Trouble};
use crate::table::Table;

/// The kind of claims on bare-metal hosts.
const HOSTS: &str = "baremetal";

impl<C: Ways> Annotator<C> {
    /// The group and its version, from the index.
    fn group(&self, key: &GroupKey) -> Sighting<GroupFacts> {
        match key.kind {
            GroupKind::OpenShiftSet => seen(&self.world.openshift_sets, &key.key),
            GroupKind::Deployment => seen(&self.world.deployments, &key.key),
            GroupKind::Set => seen(&self.world.sets, &key.key),
            GroupKind::Pool => match &self.world.pools {
                Some(pools) => seen(&pools.groups, &key.key),
                None => Ok(None),
            },
        }
    }

    fn scene(&self, key: &GroupKey, group: &Arc<GroupFacts>) -> Scene {
        scene(&self.world, key, group, &self.config)
    }

    /// What the type of a group offers, as far as that is known.
    async fn look_up(&self, key: &GroupKey, group: &GroupFacts, wish: Wish, now: Timestamp) -> Result<Standing, Error> {
        let in_table = {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            table.get(&wish.table_name)
        };
        if let Some(offer) = in_table {
            return Ok(Standing::Known { offer, around: wish.around, again: None });
        }
        match &wish.lookup {
            Lookup::Ec2(ec2) => self.ask_ec2(key, group, ec2, &wish, now).await,
            Lookup::Acs(acs) => self.ask_acs(key, group, acs, &wish, now).await,
            Lookup::Metal(template) => Ok(match &self.world.metal {
                Some(metal) => on_metal(metal, template, &wish, self.config.claims),
                None => stuck(Trouble::missing("bare metal is not followed".to_owned())),
            }),
            Lookup::Table => {
                let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
                Ok(not_in_table(&table, &wish, &self.config))
            }
        }
    }

    /// What every type of a group offers: the least of them all.
    async fn ask_ec2(
        &self,
        key: &GroupKey,
        group: &GroupFacts,
        ec2: &Ec2Wish,
        wish: &Wish,
        now: Timestamp,
    ) -> Result<Standing, Error> {
        let (mut offers, mut soonest) = (Vec::new(), None::<Timestamp>);
        for name in &wish.types {
            match self.ask_type(key, group, ec2, wish, name, now).await? {
                Standing::Known { offer, again, .. } => {
                    offers.push(offer);
                    soonest = soonest.into_iter().chain(again).min();
                }
                other => return Ok(other),
            }
        }
        let Some(offer) = wish.offer(&offers) else { return Ok(Standing::Asking) };
        Ok(Standing::Known { offer, around: wish.around.clone(), again: soonest })
    }

    async fn ask_type(
        &self,
        key: &GroupKey,
        group: &GroupFacts,
        ec2: &Ec2Wish,
        wish: &Wish,
        name: &str,
        now: Timestamp,
    ) -> Result<Standing, Error> {
        let (place, by) = (Place::Ec2(place(ec2)), ec2.credential.to_string());
        let found = self.catalogue.find(&place, name, key, &by);
        Ok(match found {
            Found::Known { offer, errand, again, .. } => {
                if let Some(errand) = errand {
                    // The old list goes on, so being without credentials for a new one is nobody's trouble yet.
                    match self.door(key, ec2).await {
                        Ok(Ok(door)) => self.catalogue.send(errand, Way::Ec2(Box::new(door)), &by, None),
                        Ok(Err(trouble)) => {
                            tracing::warn!(object = %key, error = trouble.message, "catalogue not refreshed")
                        }
                        Err(error) => tracing::warn!(object = %key, error = %chain(&error), "catalogue not refreshed"),
                    }
                }
                if offer.is_incomplete() {
                    let trouble = Trouble::incomplete(name, ec2.region.as_str());
                    return Ok(Standing::Stuck { trouble, again: None });
                }
                Standing::Known { offer, around: wish.around.clone(), again: again.map(|at| self.wall(at, now)) }
            }
            Found::Unknown { near } => {
                let record = Record::parse(group.annotation(crate::names::APPLIED));
                let trouble = Trouble::unknown(name, ec2.region.as_str(), &near, Some(&record.instance_type));
                Standing::Stuck { trouble, again: None }
            }
            Found::Ask(errand) => match self.door(key, ec2).await? {
                Ok(door) => {
                    self.catalogue.send(errand, Way::Ec2(Box::new(door)), &by, Some(key));
                    Standing::Asking
                }
                Err(trouble) => Standing::Stuck { trouble, again: None },
            },
            Found::Wait | Found::Recall => Standing::Asking,
            Found::Failed { refusal, again } => {
                let trouble = if refusal.terminal {
                    Trouble::refused(refusal.message)
                } else {
                    Trouble::passing(refusal.message)
                };
                Standing::Stuck { trouble, again: Some(self.wall(again, now)) }
            }
        })
    }

    /// Whether an image is one of Windows; `None` while the cloud is being asked.
    async fn ask_image(&self, key: &GroupKey, ec2: &Ec2Wish, image: &str) -> Result<Option<bool>, Error> {
        let (known, errand) = match self.catalogue.image(&Place::Ec2(place(ec2)), image, key) {
            System::Known { picture, errand } => (Some(picture.windows), errand),
            System::Ask(errand) => (None, Some(errand)),
            System::Wait => (None, None),
            // One that is not told counts as none of Windows.
            System::Failed { .. } => (Some(false), None),
        };
        let Some(errand) = errand else { return Ok(known) };
        Ok(match self.door(key, ec2).await? {
            Ok(door) => {
                let by = ec2.credential.to_string();
                self.catalogue.send(errand, Way::Ec2(Box::new(door)), &by, known.is_none().then_some(key));
                known
            }
            // Whoever lacks credentials hears of it by the type.
            Err(_) => Some(known.unwrap_or(false)),
        })
    }

    /// A machine of which everything is kept from pods is no machine to plan with.
    fn with_headroom(&self, key: &GroupKey, standing: Standing) -> Standing {
        match &standing {
            Standing::Known { offer, around, .. }
                if Profile::of(self.config.keys, key.kind.is_machine_api()).upstream
                    && left(offer, self.config.headroom).is_none() =>
            {
                Standing::Stuck { trouble: Trouble::nothing_left(&around.instance_type), again: None }
            }
            _ => standing,
        }
    }

    /// A monotonic time as the driver counts.
    pub(crate) fn wall(&self, at: Instant, now: Timestamp) -> Timestamp {
        let pause = at.saturating_duration_since(self.clock.instant());
        now.saturating_add(pause.max(Duration::from_millis(1))).unwrap_or(now)
    }

    /// The way to EC2: credentials and trust are read only now that they are needed.
    async fn door(&self, key: &GroupKey, wish: &Ec2Wish) -> Result<Result<Door, Trouble>, Error> {
        let client = self.writer.client();
        let source = match &wish.credential {
            Credential::Ambient => self.own_source(),
            Credential::Secret(secret) => {
                self.secret_source(secret, |data| from_secret(data, &self.config.token_paths)).await?
            }
            Credential::Identity(identity) => match &identity.base {
                Base::Process => self.own_source(),
                Base::Secret { secret, .. } => {
                    let secret = ObjectKey::namespaced(self.config.own_namespace.as_str(), secret.as_str());
                    self.secret_source(&secret, from_static_identity).await?
                }
            }
            .map(|source| identity.onto(source)),
        };
        let source = match source {
            Ok(source) => source,
            Err(trouble) => {
                let own = match &wish.credential {
                    Credential::Ambient => true,
                    Credential::Secret(_) => false,
                    Credential::Identity(identity) => identity.base == Base::Process,
                };
                self.lacks(key, if own { "process" } else { "secret" }, &trouble);
                return Ok(Err(trouble));
            }
        };
        let (namespace, name, key) = BUNDLE;
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let bundle = api.get_opt(name).await.map_err(read(|| format!("ConfigMap {namespace}/{name}")))?;
        let bundle = bundle.and_then(|map| map.data?.remove(key)).filter(|text| !text.trim().is_empty());
        Ok(Ok(Door {
            region: wish.region.clone(),
            source,
            endpoints: wish.endpoints.clone(),
            bundle: bundle.map(Into::into),
        }))
    }

    /// Counts a group for which there are no credentials.
    pub(crate) fn lacks(&self, key: &GroupKey, kind: &'static str, trouble: &Trouble) {
        let reason = if trouble.outlook == Outlook::Missing { "missing" } else { "unusable" };
        self.metrics.lacks.tell(ROOM, key, kind, reason);
    }

    fn own_source(&self) -> Result<Source, Trouble> {
        match &self.config.ambient {
            Ok(ambient) => Ok(ambient.source().clone()),
            Err(why) => Err(Trouble::refused(format!("no AWS credentials: {why}"))),
        }
    }

    async fn secret_source(
        &self,
        secret: &ObjectKey,
        from: impl FnOnce(&BTreeMap<String, Vec<u8>>) -> Result<Source, SecretError>,
    ) -> Result<Result<Source, Trouble>, Error> {
        let api: Api<Secret> = Api::namespaced(self.writer.client().clone(), secret.namespace().unwrap_or_default());
        let found = api.get_opt(secret.name()).await;
        let Some(found) = found.map_err(read(|| format!("Secret {secret}")))? else {
            return Ok(Err(Trouble::missing(format!("Secret {secret} is not there"))));
        };
        let data = found.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
        Ok(from(&data).map_err(|error| Trouble::refused(format!("Secret {secret}: {}", chain(&error)))))
    }

    /// Gathers the snapshot of a group; `None` when it is gone.
    pub(crate) async fn gather(&self, key: &GroupKey, now: Timestamp) -> Result<Option<Seeing>, Error> {
        let Some((group, version)) = self.group(key)? else {
            self.memories().forget(key);
            self.catalogue.forget(key);
            self.metrics.overrides(key, 0);
            self.metrics.stands(key, None);
            return Ok(None);
        };
        let scene = self.scene(key, &group);
        let mut template = scene.sight();
        let standing = match judge(&scene) {
            Judgement::Skip(skip) => {
                tracing::debug!(object = %key, reason = %skip, "left alone");
                Standing::Skipped(skip)
            }
            Judgement::Stuck(trouble) => {
                if let Some(kind) = lacking(&scene, &trouble) {
                    self.lacks(key, kind, &trouble);
                }
                Standing::Stuck { trouble, again: None }
            }
            Judgement::Wants(wish) => {
                if let (Some(template), Lookup::Ec2(ec2), true) =
                    (&mut template, &wish.lookup, self.config.template_status)
                    && let Some(image) = template.facts.image.as_deref()
                {
                    template.windows = self.ask_image(key, ec2, image).await?;
                }
                self.look_up(key, &group, *wish, now).await?
            }
        };
        let standing = self.with_headroom(key, standing);
        let memory = self.memories().of(key);
        if matches!(standing, Standing::Skipped(_)) {
            self.memories().recover(key);
        }
        let machine_api = key.kind.is_machine_api();
        let config = Arc::clone(&self.config);
        let snapshot = Snapshot { machine_api, group, standing, template, memory, config, now };
        self.count(key, &snapshot);
        Ok(Some(Seeing { key: key.clone(), snapshot, version }))
    }
}

fn stuck(trouble: Trouble) -> Standing {
    Standing::Stuck { trouble, again: None }
}

/// How things stand with machines that only the table could know, and does not.
#[must_use]
pub fn not_in_table(table: &Table, wish: &Wish, config: &Config) -> Standing {
    let place = config.table.as_ref().map_or("any table".to_owned(), |table| format!("ConfigMap {table}"));
    stuck(match table.faults.get(&wish.table_name) {
        Some(fault) => Trouble::missing(format!("{place}: {}: {fault}", wish.table_name)),
        None => Trouble::unknown(&wish.table_name, &place, &nearest(&wish.table_name, table.names()), None),
    })
}

/// What hosts behind a template offer.
#[must_use]
pub fn on_metal(metal: &Metal, key: &ObjectKey, wish: &Wish, rules: ClaimRules) -> Standing {
    let Some(template) = at(&metal.templates, key) else {
        return stuck(Trouble::missing(format!("{METAL} {} is not there", key.name())));
    };
    let namespace = key.namespace().unwrap_or_default();
    let found = match template.kind.as_deref() {
        None => Ok((metal.hosts_of(namespace), format!("namespace {namespace}"))),
        Some(HOSTS) => metal::read(&template.selector).map(|(terms, only)| {
            let hosts = metal.hosts_for(namespace, &terms, only.as_deref(), rules);
            (hosts, format!("namespaces that are open to claims of {namespace}"))
        }),
        Some(other) => return Standing::Skipped(Skip::OtherProvider(format!("{METAL} of kind {other}").into())),
    };
    let offer = found.and_then(|(hosts, place)| match metal::offer(&template.selector, hosts.iter()) {
        Err(MetalFault::NoHost) => Ok(stuck(Trouble::no_host(key.name(), &place))),
        offer => {
            offer.map(|offer| Standing::Known { offer: Arc::new(offer), around: wish.around.clone(), again: None })
        }
    });
    offer.unwrap_or_else(|fault| stuck(Trouble::missing(format!("{METAL} {}: {fault}", key.name()))))
}

/// Where a type is looked up.
#[must_use]
pub fn place(wish: &Ec2Wish) -> Ec2Place {
    let set = wish.endpoints.is_set(aws::errors::Service::Ec2);
    let endpoint = set.then(|| wish.endpoints.of(aws::errors::Service::Ec2, &wish.region).url.into());
    Ec2Place { region: wish.region.clone(), endpoint }
}

/// What the indexes show around one group.
#[must_use]
pub fn scene(world: &World, key: &GroupKey, group: &Arc<GroupFacts>, config: &Arc<Config>) -> Scene {
    let namespace = key.key.namespace().unwrap_or_default();
    let cluster = group.cluster().and_then(|name| at(&world.clusters, &ObjectKey::namespaced(namespace, name)));
    // The infrastructure comes first; what EKS and ROSA have is often named in both places.
    let references = cluster.iter().flat_map(|cluster| cluster.infrastructure.iter().chain(&cluster.control_plane));
    let places: Vec<Arc<PlaceFacts>> =
        references.filter_map(|reference| place_of(world, namespace, reference)).collect();
    let named = places.iter().find_map(|place| place.identity.as_ref());
    let identity = world.identities.as_ref().zip(named);
    let template = group.reference().filter(|r| r.kind.as_ref() == "AWSMachineTemplate" && r.elsewhere.is_none());
    let pool = group.reference().filter(|reference| reference.elsewhere.is_none()).and_then(|reference| {
        let (pools, key) = (world.pools.as_ref()?, ObjectKey::namespaced(namespace, reference.name.clone()));
        match reference.kind.as_ref() {
            POOL => at(&pools.scaling, &key),
            MANAGED_POOL => at(&pools.managed, &key),
            _ => None,
        }
    });
    let acs =
        world.acs.as_ref().zip(group.reference()).filter(|(_, r)| r.kind.as_ref() == ACS && r.elsewhere.is_none());
    let acs = acs.map(|(acs, reference)| {
        let named = cluster.iter().filter_map(|cluster| cluster.infrastructure.as_ref());
        let named = named.filter(|reference| reference.kind == ACS_CLUSTER).map(|reference| reference.name.as_str());
        let named = named.map(|name| ObjectKey::namespaced(namespace, name)).next();
        AcsScene {
            template: at(&acs.templates, &ObjectKey::namespaced(namespace, reference.name.clone())),
            cluster: named.map(|key| (at(&acs.clusters, &key), key)),
        }
    });
    let twin = (key.kind == GroupKind::Set)
        .then(|| at(&world.openshift_sets, &ObjectKey::namespaced(MACHINE_API_NAMESPACE, key.key.name())))
        .flatten()
        .and_then(|twin| match &twin.shape {
            Shape::MachineApi { api, .. } => Some(MachineApi::clone(api)),
            Shape::ClusterApi { .. } => None,
        });
    Scene {
        key: key.clone(),
        group: Arc::clone(group),
        cluster,
        cluster_region: places.iter().find_map(|place| place.region.clone()),
        identity: identity.map(|(identities, named)| identities.resolve(Some(named), namespace)),
        template: template.and_then(|r| at(&world.templates, &ObjectKey::namespaced(namespace, r.name.clone()))),
        pool,
        acs,
        infrastructure: at(&world.infrastructures, &ObjectKey::cluster_scoped("cluster")),
        twin,
        config: Arc::clone(config),
    }
}

fn place_of(world: &World, namespace: &str, reference: &ObjectRef) -> Option<Arc<PlaceFacts>> {
    let key = ObjectKey::namespaced(namespace, reference.name.as_str());
    match reference.kind.as_str() {
        "AWSCluster" => at(&world.aws_clusters, &key),
        "AWSManagedControlPlane" => at(&world.managed_planes, &key),
        "ROSAControlPlane" => at(&world.rosa_planes, &key),
        _ => None,
    }
}

fn at<P: Project>(feed: &Feed<P>, key: &ObjectKey) -> Option<Arc<P::Slim>> {
    match feed.get(key) {
        Seen::At(slim) => Some(slim),
        Seen::Absent | Seen::Behind => None,
    }
}

type Sighting<S> = Result<Option<(Arc<S>, Option<Version>)>, Error>;

fn seen<P: Project>(feed: &Feed<P>, key: &ObjectKey) -> Sighting<P::Slim> {
    match feed.get(key) {
        Seen::At(slim) => {
            let version = feed.version(key, &slim);
            Ok(Some((slim, version)))
        }
        Seen::Absent => Ok(None),
        Seen::Behind => Err(Error::Behind),
    }
}
