//! Whether a group is ours to annotate, and what its machines are: type, place and credentials.

use std::fmt;
use std::sync::Arc;

use api::key::ObjectKey;
use api::names::{AvailabilityZone, Region};
use aws::credentials::Evidence;
use aws::identity::{Chain, IdentityError};
use aws::place::Endpoints;

use crate::acs::{self, AcsWish, Chosen, Site};
use crate::config::{AmbientUse, Config};
use crate::decide::Sight;
use crate::facts::{
    ACS, ACS_CLUSTER, AcsCluster, AcsTemplate, AwsMachine, CPUS, ClusterFacts, GroupFacts, GroupKey, GroupKind,
    InfrastructureFacts, MANAGED_POOL, MEMORY, MachineApi, POOL, PoolFacts, Provider, ROOT_DISK, Reference, Shape,
    TemplateFacts, secret,
};
use crate::goal::Around;
use crate::names::{CLUSTER_API_NAMESPACE, REGION, SKIP};
use crate::offer::{Arch, Offer};
use crate::status::Trouble;

/// What the indexes show around one group.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Which group.
    pub key: GroupKey,
    /// The group.
    pub group: Arc<GroupFacts>,
    /// Its Cluster.
    pub cluster: Option<Arc<ClusterFacts>>,
    /// The region that the Cluster's infrastructure or control plane names.
    pub cluster_region: Option<Box<str>>,
    /// Whose credentials the Cluster's infrastructure or control plane asks for, where that is looked at and said.
    pub identity: Option<Result<Chain, IdentityError>>,
    /// The template that it names, if it is one of machines on EC2 and there.
    pub template: Option<Arc<TemplateFacts>>,
    /// The machine pool of AWS that it names, if it is there.
    pub pool: Option<Arc<PoolFacts>>,
    /// What CloudStack's provider is told, if the group names a template of it.
    pub acs: Option<AcsScene>,
    /// The platform of the cluster we run in.
    pub infrastructure: Option<Arc<InfrastructureFacts>>,
    /// The object of OpenShift's Machine API that a Cluster API one of the same name mirrors.
    pub twin: Option<MachineApi>,
    /// What the flags say.
    pub config: Arc<Config>,
}

impl Scene {
    /// The template, as decisions use it. Which system its nodes run is not known yet where that depends on an image.
    #[must_use]
    pub fn sight(&self) -> Option<Sight> {
        let (facts, reference) = self.template.clone().zip(self.group.reference())?;
        let namespace = self.key.key.namespace().unwrap_or_default();
        let windows = facts.image.is_none().then_some(false);
        Some(Sight { key: ObjectKey::namespaced(namespace, reference.name.clone()), facts, windows })
    }
}

/// What the provider for CloudStack is told about a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcsScene {
    /// The template, if it is there.
    pub template: Option<Arc<AcsTemplate>>,
    /// The cluster that the Cluster names, if it is there.
    pub cluster: Option<(Option<Arc<AcsCluster>>, ObjectKey)>,
}

/// Why a group is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// It is being deleted.
    Deleting,
    /// It asks for it.
    Asked,
    /// It is another controller's.
    Foreign,
    /// It, or its Cluster, is paused.
    Paused,
    /// A MachineDeployment owns it.
    Deployed,
    /// OpenShift's Machine API has let go of it, or not yet taken it.
    NotAuthoritative,
    /// It mirrors an object of OpenShift's Machine API.
    Mirror,
    /// Another provider makes its machines.
    OtherProvider(Box<str>),
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting => f.write_str("it is being deleted"),
            Self::Asked => write!(f, "it carries the annotation {SKIP}: \"true\""),
            Self::Foreign => f.write_str("its label cluster.x-k8s.io/watch-filter is another controller's"),
            Self::Paused => f.write_str("it or its Cluster is paused"),
            Self::Deployed => f.write_str("a MachineDeployment owns it, and cluster-autoscaler looks at that one"),
            Self::NotAuthoritative => f.write_str("OpenShift's Machine API does not own it at present"),
            Self::Mirror => {
                f.write_str("it mirrors an object of OpenShift's Machine API, which is the one to annotate")
            }
            Self::OtherProvider(kind) => write!(f, "no catalogue is known for {kind}"),
        }
    }
}

/// Whose credentials are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Those in a Secret.
    Secret(ObjectKey),
    /// The process's own.
    Ambient,
    /// Those that the identity of the cluster stands for.
    Identity(Box<Chain>),
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(key) => write!(f, "Secret {key}"),
            Self::Ambient => f.write_str("those of the operator's process"),
            Self::Identity(chain) => chain.fmt(f),
        }
    }
}

/// Machines on EC2, as they must be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ec2Wish {
    /// The region.
    pub region: Region,
    /// Where services answer.
    pub endpoints: Endpoints,
    /// Whose credentials are used, if the catalogue must be asked for.
    pub credential: Credential,
}

/// Where to look a type up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// EC2.
    Ec2(Ec2Wish),
    /// CloudStack.
    Acs(AcsWish),
    /// Hosts behind a selector.
    Metal(ObjectKey),
    /// The table alone.
    Table,
}

/// What a group's machines are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Where to look the types up.
    pub lookup: Lookup,
    /// The types that machines may be of; mostly one.
    pub types: Vec<Box<str>>,
    /// The architecture, where something else than the type settles it.
    pub arch: Option<Arch>,
    /// The type's name in the table.
    pub table_name: Box<str>,
    /// The type and everything beside it.
    pub around: Around,
}

impl Wish {
    /// What a machine of the group offers at least, from what its types offer; `None` without any.
    #[must_use]
    pub fn offer(&self, offers: &[Arc<Offer>]) -> Option<Arc<Offer>> {
        if let ([only], None) = (offers, self.arch) {
            return Some(Arc::clone(only));
        }
        let least = Offer::least(offers.iter().map(AsRef::as_ref))?;
        let assumed = least.assumed && self.arch.is_none();
        Some(Arc::new(Offer { arch: self.arch.or(least.arch), assumed, ..least }))
    }
}

/// What is to be done about a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing.
    Skip(Skip),
    /// Nothing can be, and somebody should hear of it.
    Stuck(Trouble),
    /// Its type must be looked up.
    Wants(Box<Wish>),
}

/// Judges one group.
#[must_use]
pub fn judge(scene: &Scene) -> Judgement {
    if let Some(skip) = skip(scene) {
        return Judgement::Skip(skip);
    }
    let wish = match &scene.group.shape {
        Shape::MachineApi { provider, windows, .. } => machine_api(scene, provider, *windows),
        Shape::ClusterApi { reference, zone, .. } => cluster_api(scene, reference.as_ref(), zone.as_deref()),
    };
    match wish {
        Ok(wish) => Judgement::Wants(Box::new(wish)),
        Err(Obstacle::Skip(skip)) => Judgement::Skip(skip),
        Err(Obstacle::Trouble(trouble)) => Judgement::Stuck(trouble),
    }
}

enum Obstacle {
    Skip(Skip),
    Trouble(Trouble),
}

impl From<Trouble> for Obstacle {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// The order of the checks is part of the promise: the first that fits ends the pass.
fn skip(scene: &Scene) -> Option<Skip> {
    let (group, config) = (&scene.group, &scene.config);
    if group.deleting {
        return Some(Skip::Deleting);
    }
    if group.annotation(SKIP) == Some("true") {
        return Some(Skip::Asked);
    }
    if config.is_foreign(group.watch_filter.as_deref()) {
        return Some(Skip::Foreign);
    }
    let cluster_api = !scene.key.kind.is_machine_api();
    if cluster_api && (group.paused || scene.cluster.as_ref().is_some_and(|cluster| cluster.paused)) {
        return Some(Skip::Paused);
    }
    if scene.key.kind == GroupKind::Set && group.deployed {
        return Some(Skip::Deployed);
    }
    if let Shape::MachineApi { api, .. } = &group.shape
        && config.machine_api_migration
        && (api.paused || api.authoritative.as_ref() != "MachineAPI")
    {
        return Some(Skip::NotAuthoritative);
    }
    let mirrored = scene.key.kind == GroupKind::Set
        && scene.key.key.namespace() == Some(CLUSTER_API_NAMESPACE)
        && scene.twin.as_ref().is_some_and(|twin| twin.authoritative.as_ref() != "ClusterAPI");
    mirrored.then_some(Skip::Mirror)
}

fn machine_api(scene: &Scene, provider: &Provider, windows: bool) -> Result<Wish, Obstacle> {
    let machine = match provider {
        Provider::Aws(machine) => machine,
        Provider::Other { kind, size } => {
            let name = size.as_deref().filter(|_| scene.config.table.is_some());
            let name = name.ok_or_else(|| Obstacle::Skip(Skip::OtherProvider(kind.clone())))?;
            return Ok(from_table(kind, name, None, windows));
        }
        Provider::Invalid(fault) => return Err(Trouble::invalid(scene, fault.to_string()).into()),
    };
    let region = region(scene, Some(machine))?;
    let credential = credential(scene, machine.secret.as_deref())?;
    let endpoints = endpoints(scene)?;
    if machine.instance_type.is_empty() {
        return Err(Trouble::unknown("", region.as_str(), &[], None).into());
    }
    Ok(Wish {
        around: Around {
            instance_type: machine.instance_type.to_string(),
            region: Some(region.to_string()),
            zone: machine.zone.as_deref().map(str::to_owned),
            root_gib: machine.root_gib,
            windows,
        },
        table_name: machine.instance_type.clone(),
        types: vec![machine.instance_type.clone()],
        arch: None,
        lookup: Lookup::Ec2(Ec2Wish { region, endpoints, credential }),
    })
}

fn cluster_api(scene: &Scene, reference: Option<&Reference>, zone: Option<&str>) -> Result<Wish, Obstacle> {
    let path = "spec.template.spec.infrastructureRef";
    let reference = reference.ok_or_else(|| Trouble::invalid(scene, format!("{path}: must name a template")))?;
    match reference.kind.as_ref() {
        "AWSMachineTemplate" | "Metal3MachineTemplate" => {}
        POOL | MANAGED_POOL if scene.config.machine_pools => {}
        ACS if scene.config.cloudstack => {}
        kind if scene.config.table.is_some() => return Ok(from_table(kind, &reference.name, zone, false)),
        kind => return Err(Obstacle::Skip(Skip::OtherProvider(kind.into()))),
    }
    if let Some(elsewhere) = &reference.elsewhere {
        let told = format!("{path}: names the namespace {elsewhere}, but templates lie in the namespace of the object");
        return Err(Trouble::invalid(scene, told).into());
    }
    if reference.kind.as_ref() == "Metal3MachineTemplate" {
        if !scene.config.metal {
            return Err(Obstacle::Skip(Skip::OtherProvider(reference.kind.clone())));
        }
        let namespace = scene.key.key.namespace().unwrap_or_default();
        let mut wish = from_table(&reference.kind, &reference.name, zone, false);
        wish.lookup = Lookup::Metal(ObjectKey::namespaced(namespace, reference.name.clone()));
        return Ok(wish);
    }
    if reference.kind.as_ref() == ACS {
        return on_cloudstack(scene, reference, zone);
    }
    if [POOL, MANAGED_POOL].contains(&reference.kind.as_ref()) {
        return machine_pool(scene, reference, zone);
    }
    let template = scene
        .template
        .as_ref()
        .ok_or_else(|| Trouble::missing(format!("{} {} is not there", reference.kind, reference.name)))?;
    let instance_type = template.instance_type.as_deref().filter(|name| !name.is_empty()).ok_or_else(|| {
        let told = format!("AWSMachineTemplate {}: spec.template.spec.instanceType: must name a type", reference.name);
        Trouble::invalid(scene, told)
    })?;
    let region = region(scene, None)?;
    let credential = credential(scene, None)?;
    Ok(Wish {
        around: Around {
            instance_type: instance_type.to_owned(),
            region: Some(region.to_string()),
            zone: zone.map(str::to_owned),
            root_gib: template.root_gib,
            windows: template.status.operating_system.as_deref().is_some_and(|os| os.eq_ignore_ascii_case("windows")),
        },
        table_name: instance_type.into(),
        types: vec![instance_type.into()],
        arch: None,
        lookup: Lookup::Ec2(Ec2Wish { region, endpoints: endpoints(scene)?, credential }),
    })
}

fn machine_pool(scene: &Scene, reference: &Reference, zone: Option<&str>) -> Result<Wish, Obstacle> {
    let named = || format!("{} {}", reference.kind, reference.name);
    let pool = scene.pool.as_ref().ok_or_else(|| Trouble::missing(format!("{} is not there", named())))?;
    if pool.types.is_empty() {
        let told = format!("{}: spec.awsLaunchTemplate.instanceType: must name a type", named());
        return Err(Trouble::invalid(scene, told).into());
    }
    let names = pool.types.join(",");
    let region = region(scene, None)?;
    let credential = credential(scene, None)?;
    Ok(Wish {
        around: Around {
            instance_type: names.clone(),
            region: Some(region.to_string()),
            zone: zone.map(str::to_owned),
            root_gib: pool.root_gib,
            windows: pool.windows,
        },
        table_name: names.into(),
        types: pool.types.clone(),
        arch: pool.arch,
        lookup: Lookup::Ec2(Ec2Wish { region, endpoints: endpoints(scene)?, credential }),
    })
}

fn on_cloudstack(scene: &Scene, reference: &Reference, zone: Option<&str>) -> Result<Wish, Obstacle> {
    let told = |path: &str, rule: &str| {
        Trouble::invalid(scene, format!("{ACS} {}: spec.template.spec.{path}: {rule}", reference.name))
    };
    let found = scene.acs.as_ref().and_then(|acs| acs.template.as_ref());
    let template = found.ok_or_else(|| Trouble::missing(format!("{ACS} {} is not there", reference.name)))?;
    if template.offering.is_empty() {
        return Err(told("offering", "must have an id or a name").into());
    }
    let chosen = |name: &str| match template.details.get(name).map(|text| text.trim().parse::<u64>()) {
        None => Ok(None),
        Some(Ok(number)) if number > 0 => Ok(Some(number)),
        Some(_) => Err(told(&format!("details.{name}"), "must be a whole number above 0")),
    };
    let wish = AcsWish {
        offering: template.offering.clone(),
        image: template.image.clone(),
        chosen: Chosen { cpus: chosen(CPUS)?, memory_mib: chosen(MEMORY)?, root_gib: chosen(ROOT_DISK)? },
        sites: sites(scene, template.failure_domain.as_deref().or(zone))?,
    };
    // Nodes carry the name of their zone, not its id.
    let only = match wish.sites.as_slice() {
        [site] => Some(site.zone.name.clone()).filter(|name| !name.is_empty()),
        _ => None,
    };
    let name = acs::shown(&template.offering);
    Ok(Wish {
        around: Around { instance_type: name.to_owned(), zone: only, ..Around::default() },
        table_name: format!("{ACS}.{}", reference.name).into(),
        types: vec![name.into()],
        arch: None,
        lookup: Lookup::Acs(wish),
    })
}

/// Where machines may be made: in the failure domain that is named, or else in any, because the provider rolls dice.
fn sites(scene: &Scene, only: Option<&str>) -> Result<Vec<Site>, Trouble> {
    let named = scene.group.cluster().unwrap_or_default();
    if scene.cluster.is_none() {
        return Err(Trouble::missing(format!("Cluster {named} is not there")));
    }
    let Some((cluster, key)) = scene.acs.as_ref().and_then(|acs| acs.cluster.as_ref()) else {
        return Err(Trouble::invalid(
            scene,
            format!("Cluster {named}: spec.infrastructureRef: must name a {ACS_CLUSTER}"),
        ));
    };
    let missing = || Trouble::missing(format!("{ACS_CLUSTER} {} is not there", key.name()));
    let cluster = cluster.as_ref().ok_or_else(missing)?;
    let told = |rule: &str| Trouble::invalid(scene, format!("{ACS_CLUSTER} {}: spec.failureDomains{rule}", key.name()));
    let mut sites = Vec::new();
    for domain in cluster.domains.iter().filter(|domain| only.is_none_or(|only| domain.name == only)) {
        let secret = secret(domain, key.namespace().unwrap_or_default());
        let secret = secret.ok_or_else(|| told(&format!("[{}].acsEndpoint: must name a Secret", domain.name)))?;
        if domain.zone.is_empty() {
            return Err(told(&format!("[{}].zone: must have an id or a name", domain.name)));
        }
        let account =
            [&domain.domain, &domain.account, &domain.project].map(|part| part.as_deref().unwrap_or_default());
        sites.push(Site { zone: domain.zone.clone(), account: account.join("|").into(), secret });
    }
    sites.sort();
    sites.dedup();
    match (sites.is_empty(), only) {
        (false, _) => Ok(sites),
        (true, Some(only)) => Err(told(&format!(": has no {only:?}, which the machines name"))),
        (true, None) => Err(told(": must name where machines may be made")),
    }
}

/// A wish that only the table can fulfil: its entry is named after the kind and the size or template.
fn from_table(kind: &str, name: &str, zone: Option<&str>, windows: bool) -> Wish {
    Wish {
        lookup: Lookup::Table,
        table_name: format!("{kind}.{name}").into(),
        types: Vec::new(),
        arch: None,
        around: Around { instance_type: name.to_owned(), zone: zone.map(str::to_owned), windows, ..Around::default() },
    }
}

/// The region, from the nearest place that names one.
fn region(scene: &Scene, machine: Option<&AwsMachine>) -> Result<Region, Trouble> {
    let config = &scene.config;
    let written = machine.and_then(|machine| machine.region.as_deref());
    if let Some(region) = written {
        return parse(scene, region, "placement.region");
    }
    if let Some(zone) = machine.and_then(|machine| machine.zone.as_deref()) {
        let zone = zone.parse::<AvailabilityZone>();
        let zone = zone.map_err(|error| Trouble::invalid(scene, format!("placement.availabilityZone: {error}")))?;
        return Ok(zone.region().clone());
    }
    if machine.is_none() {
        if let Some(region) = scene.cluster_region.as_deref() {
            return parse(scene, region, "the Cluster's region");
        }
        if let Some(region) = scene.group.annotation(REGION).map(str::trim).filter(|region| !region.is_empty()) {
            return parse(scene, region, REGION);
        }
    }
    if let Some(region) = scene.infrastructure.as_ref().and_then(|found| found.region.as_deref()) {
        return parse(scene, region, "the Infrastructure's region");
    }
    let last = config.default_region.as_ref().or(config.environment_region.as_ref());
    last.cloned().ok_or_else(|| {
        let told = "no region: neither the object nor its cluster names one, and --default-region is not set";
        Trouble::invalid(scene, told.to_owned())
    })
}

fn parse(scene: &Scene, text: &str, place: &str) -> Result<Region, Trouble> {
    text.trim().parse().map_err(|error| Trouble::invalid(scene, format!("{place}: {error}")))
}

/// Whose credentials are used; being without any is an error even while none are needed.
fn credential(scene: &Scene, named: Option<&str>) -> Result<Credential, Trouble> {
    let config = &scene.config;
    match &scene.identity {
        Some(Ok(chain)) => return Ok(Credential::Identity(Box::new(chain.clone()))),
        Some(Err(error @ IdentityError::Missing(_))) => return Err(Trouble::missing(error.to_string())),
        Some(Err(error)) => return Err(Trouble::invalid(scene, kit::class::chain(error))),
        None => {}
    }
    if let Some(secret) = &config.credentials {
        return Ok(Credential::Secret(secret.clone()));
    }
    let machine_api = scene.key.kind.is_machine_api();
    let given = config.ambient.as_ref().is_ok_and(|ambient| ambient.evidence() == Evidence::Given);
    let ambient = match config.ambient_use {
        AmbientUse::Never => false,
        AmbientUse::Always => true,
        AmbientUse::Auto => !machine_api || given,
    };
    let namespace = scene.key.key.namespace().unwrap_or_default();
    let secret = named.map(|name| Credential::Secret(ObjectKey::namespaced(namespace, name)));
    let ambient = ambient.then_some(Credential::Ambient);
    let chosen = if config.prefer_ambient { ambient.or(secret) } else { secret.or(ambient) };
    chosen.ok_or_else(|| {
        let key = &scene.key.key;
        let told = format!(
            "no AWS credentials are configured for {} {key}: it names no Secret, --aws-credentials-secret is not set, and \
             the process has no identity of its own",
            scene.key.kind.as_str()
        );
        Trouble::invalid(scene, told)
    })
}

/// By what a group would have credentials, where being without any is its trouble. Secrets are read later than this.
#[must_use]
pub fn lacking(scene: &Scene, trouble: &Trouble) -> Option<&'static str> {
    let found = credential(scene, scene.group.secret()).err()?;
    (found == *trouble).then(|| if scene.identity.is_some() { "identity" } else { "process" })
}

fn endpoints(scene: &Scene) -> Result<Endpoints, Trouble> {
    let mut endpoints = scene.config.endpoints.clone();
    for endpoint in scene.infrastructure.iter().flat_map(|found| &found.endpoints) {
        endpoints = endpoints.cluster(&endpoint.name, &endpoint.url).map_err(|error| {
            Trouble::invalid(scene, format!("Infrastructure cluster: {}", kit::class::chain(&error)))
        })?;
    }
    Ok(endpoints)
}
