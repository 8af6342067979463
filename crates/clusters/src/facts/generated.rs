//! Objects of Cluster API.

use api::key::ObjectKey;
use api::names::CLUSTER_NAME_LABEL;
use api::names::clusters::{OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL};
use api::own::anywhere::Cluster as OwnCluster;
use api::views::{
    CloudStackCluster, CloudStackMachineTemplate, Cluster, Conditions, KubeadmConfigTemplate, KubeadmControlPlane,
    Machine, MachineDeployment, MachineHealthCheck,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::feed::Project;

use crate::conditions::{Group, Machines as Counts, Plane};
use crate::phase::PlaneReport;

/// Whose a generated object is, and which version of its spec it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Its uid.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// The Cluster it was made for, by its labels.
    pub owner: Option<ObjectKey>,
    /// The name of the cluster of Cluster API it belongs to, by its label.
    pub cluster: Option<Box<str>>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// When it was made, in seconds.
    pub created: i64,
}

impl Mark {
    /// The mark of an object.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        let label = |name: &str| meta.labels.as_ref().and_then(|labels| labels.get(name));
        let owner = label(OWNER_NAMESPACE_LABEL).zip(label(OWNER_NAME_LABEL));
        Self {
            uid: meta.uid.clone().unwrap_or_default().into(),
            generation: meta.generation.unwrap_or_default(),
            owner: owner.map(|(namespace, name)| ObjectKey::namespaced(namespace.as_str(), name.as_str())),
            cluster: label(CLUSTER_NAME_LABEL).map(|name| name.as_str().into()),
            deleting: meta.deletion_timestamp.is_some(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0.as_second()).unwrap_or_default(),
        }
    }
}

/// Something that carries a mark.
pub trait Belonging {
    /// Its mark.
    fn mark(&self) -> &Mark;
}

impl Belonging for Mark {
    fn mark(&self) -> &Mark {
        self
    }
}

/// The values of an object in the index of the cluster it belongs to: its namespace and the name of the cluster.
fn by_cluster(key: &ObjectKey, mark: &Mark) -> Vec<Box<str>> {
    let namespace = key.namespace().unwrap_or_default();
    mark.cluster.iter().map(|name| format!("{namespace}/{name}").into()).collect()
}

/// A Cluster of Cluster API, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapiFacts {
    /// Whose it is.
    pub mark: Mark,
    /// The host of its endpoint.
    pub host: String,
    /// The port of its endpoint.
    pub port: u16,
}

impl Belonging for CapiFacts {
    fn mark(&self) -> &Mark {
        &self.mark
    }
}

/// The facts of a Cluster of Cluster API.
#[must_use]
pub fn capi_of(source: Cluster) -> CapiFacts {
    CapiFacts {
        mark: Mark::of(&source.metadata),
        port: u16::try_from(source.spec.control_plane_endpoint.port).unwrap_or_default(),
        host: source.spec.control_plane_endpoint.host,
    }
}

/// Clusters of Cluster API, with an index of their endpoints.
pub struct CapiClusters;

impl Project for CapiClusters {
    type Source = Cluster;
    type Slim = CapiFacts;
    const INDEXES: &'static [&'static str] = &["host"];

    fn slim(source: Cluster) -> CapiFacts {
        capi_of(source)
    }

    fn keys(_: usize, _: &ObjectKey, slim: &CapiFacts) -> Vec<Box<str>> {
        if slim.host.is_empty() { Vec::new() } else { vec![slim.host.as_str().into()] }
    }
}

/// A KubeadmControlPlane, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlaneFacts {
    /// Whose it is.
    pub mark: Mark,
    /// What was asked of it and what it reports.
    pub report: PlaneReport,
    /// The template of its machines.
    pub template: Option<Box<str>>,
    /// How it stands.
    pub plane: Plane,
}

impl Belonging for PlaneFacts {
    fn mark(&self) -> &Mark {
        &self.mark
    }
}

/// The message of a condition that is false.
fn complaint(conditions: &Conditions, type_: &str) -> Option<String> {
    let condition = conditions.get(type_).filter(|condition| condition.status == "False")?;
    let words = if condition.message.is_empty() { &condition.reason } else { &condition.message };
    Some(words.clone())
}

/// The facts of a control plane.
#[must_use]
pub fn plane_of(source: KubeadmControlPlane) -> PlaneFacts {
    let (spec, status) = (source.spec, source.status);
    let count = |number: Option<i32>| i64::from(number.unwrap_or_default());
    let generation = source.metadata.generation.unwrap_or_default();
    let observed = status.observed_generation.unwrap_or_default();
    let available = status.conditions.is_true("Available");
    PlaneFacts {
        mark: Mark::of(&source.metadata),
        report: PlaneReport {
            generation,
            observed_generation: observed,
            available,
            wanted: spec.version.unwrap_or_default(),
            version: status.version.unwrap_or_default(),
        },
        template: spec.infrastructure_ref.map(|reference| reference.name.into()),
        plane: Plane {
            // What was seen once is remembered in the status of the cluster.
            initialized: false,
            available,
            current: observed >= generation,
            machines: Counts {
                wanted: spec.replicas.map_or(1, i64::from),
                replicas: count(status.replicas),
                up_to_date: count(status.up_to_date_replicas),
                ready: count(status.ready_replicas),
            },
            unhealthy: complaint(&status.conditions, "ControlPlaneComponentsHealthy"),
            not_ready: complaint(&status.conditions, "Available"),
        },
    }
}

/// Control planes.
pub struct Planes;

impl Project for Planes {
    type Source = KubeadmControlPlane;
    type Slim = PlaneFacts;

    fn slim(source: KubeadmControlPlane) -> PlaneFacts {
        plane_of(source)
    }
}

/// How a MachineDeployment stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStanding {
    /// Whether its report is about its latest change.
    pub current: bool,
    /// Its machines.
    pub machines: Counts,
    /// What Cluster API says when it does not call it available.
    pub unavailable: Option<String>,
}

/// A MachineDeployment, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// Whose it is.
    pub mark: Mark,
    /// The cluster that its spec names.
    pub cluster: Option<Box<str>>,
    /// The template of its machines.
    pub template: Option<Box<str>>,
    /// The template of their bootstrap configuration.
    pub config: Option<Box<str>>,
    /// How it stands.
    pub standing: GroupStanding,
}

impl Belonging for GroupFacts {
    fn mark(&self) -> &Mark {
        &self.mark
    }
}

/// The facts of a MachineDeployment.
#[must_use]
pub fn standing_of(source: MachineDeployment) -> GroupFacts {
    let (spec, status) = (source.spec, source.status);
    let count = |number: Option<i32>| i64::from(number.unwrap_or_default());
    let name = |reference: Option<api::views::ObjectRef>| reference.map(|reference| reference.name.into());
    let observed = status.observed_generation.unwrap_or_default();
    GroupFacts {
        mark: Mark::of(&source.metadata),
        cluster: spec.cluster_name.map(Into::into),
        template: name(spec.template.spec.infrastructure_ref),
        config: name(spec.template.spec.bootstrap_ref),
        standing: GroupStanding {
            current: observed >= source.metadata.generation.unwrap_or_default(),
            machines: Counts {
                wanted: count(spec.replicas),
                replicas: count(status.replicas),
                up_to_date: count(status.up_to_date_replicas),
                ready: count(status.ready_replicas),
            },
            unavailable: complaint(&status.conditions, "Available"),
        },
    }
}

/// MachineDeployments, with an index of the cluster they belong to.
pub struct Groups;

impl Project for Groups {
    type Source = MachineDeployment;
    type Slim = GroupFacts;
    const INDEXES: &'static [&'static str] = &["cluster"];

    fn slim(source: MachineDeployment) -> GroupFacts {
        standing_of(source)
    }

    fn keys(_: usize, key: &ObjectKey, slim: &GroupFacts) -> Vec<Box<str>> {
        let namespace = key.namespace().unwrap_or_default();
        let named = slim.mark.cluster.as_ref().or(slim.cluster.as_ref());
        named.iter().map(|name| format!("{namespace}/{name}").into()).collect()
    }
}

/// How the groups of a cluster stand, in the order of its spec. One that is not there yet has no machines.
#[must_use]
pub fn standings<'f>(cluster: &OwnCluster, find: impl Fn(&str) -> Option<&'f GroupFacts>) -> Vec<Group> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let one = |group: &api::own::anywhere::WorkerGroup| {
        let found = find(&format!("{name}-{}", group.name)).map(|facts| facts.standing.clone());
        let standing = found.unwrap_or_else(|| GroupStanding { current: true, ..GroupStanding::default() });
        let limits = group.autoscaling_configuration.as_ref();
        let limits =
            limits.map(|l| (i64::from(l.min_count.unwrap_or_default()), i64::from(l.max_count.unwrap_or_default())));
        Group {
            name: group.name.clone(),
            current: standing.current,
            machines: Counts { wanted: i64::from(group.count.unwrap_or(1)), ..standing.machines },
            limits,
            unavailable: standing.unavailable,
        }
    };
    cluster.spec.worker_node_group_configurations.iter().map(one).collect()
}

macro_rules! marked {
    ($($(#[$doc:meta])* $ty:ident, $source:ty;)*) => {$(
        $(#[$doc])*
        pub struct $ty;

        impl Project for $ty {
            type Source = $source;
            type Slim = Mark;
            const INDEXES: &'static [&'static str] = &["cluster"];

            fn slim(source: $source) -> Mark {
                Mark::of(&source.metadata)
            }

            fn keys(_: usize, key: &ObjectKey, slim: &Mark) -> Vec<Box<str>> {
                by_cluster(key, slim)
            }
        }
    )*};
}

marked! {
    /// Machines.
    AllMachines, Machine;
    /// Health checks.
    HealthChecks, MachineHealthCheck;
    /// Clusters of the CloudStack provider.
    ProviderClusters, CloudStackCluster;
    /// Templates of machines of the CloudStack provider.
    ProviderTemplates, CloudStackMachineTemplate;
    /// Templates of bootstrap configurations.
    ConfigTemplates, KubeadmConfigTemplate;
}
