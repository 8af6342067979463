//! Everything a decision about one cluster needs, read once and only as far as it is needed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::own::anywhere::{Bundles, ClusterStatus};
use api::status::Conditioned;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::feed::Version;
use kit::write::Target;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::admit::Terms;
use crate::cni;
use crate::conditions;
use crate::config::Config;
use crate::decide::Child;
use crate::endpoint::HostPort;
use crate::facts::{
    CapiFacts, ClusterFacts, DatacenterFacts, GroupFacts, IdentityFacts, MachineFacts, Mark, PlaneFacts,
};
use crate::phase::{Failure, is_refusal};
use crate::render::{self, Rendered};

/// Everything a decision needs.
#[derive(Clone)]
pub struct Snapshot {
    /// The cluster.
    pub key: ObjectKey,
    /// The cluster as something to write.
    pub target: Target,
    /// The time of the pass.
    pub now: Timestamp,
    /// What the flags say.
    pub config: Arc<Config>,
    /// What is admitted.
    pub terms: Terms,
    /// The cluster as it was seen.
    pub cluster: Arc<ClusterFacts>,
    /// The version at which it was seen.
    pub version: Version,
    /// Its status as stored, as far as it is ours.
    pub stored: Reported,
    /// Its datacenter.
    pub datacenter: Option<Arc<DatacenterFacts>>,
    /// The machine configurations it refers to, by name.
    pub machines: BTreeMap<String, Arc<MachineFacts>>,
    /// Who tells its API server who users are, by kind and name.
    pub identities: BTreeMap<(String, String), Arc<IdentityFacts>>,
    /// The other clusters beside it, and the machine configurations each refers to.
    pub peers: Vec<(ObjectKey, Vec<String>)>,
    /// The objects it refers to that do not name it as an owner.
    pub strangers: Vec<Child>,
    /// Who else has its name and had it first.
    pub clash: Option<String>,
    /// What is wrong with its management cluster.
    pub manager_problem: Option<String>,
    /// The bundle of its images, or why there is none.
    pub bundles: Result<Bundles, Failure>,
    /// The version of EKS Anywhere by which the bundle was found; empty where something else named it, or where that was not
    /// noted and the release is gone.
    pub bundled_for: String,
    /// Kinds of Cluster API and its provider that the server does not know.
    pub unserved: Vec<String>,
    /// Its Cluster of Cluster API.
    pub capi: Option<Arc<CapiFacts>>,
    /// Its control plane.
    pub plane: Option<PlaneFacts>,
    /// Its MachineDeployments, by name.
    pub groups: BTreeMap<String, GroupFacts>,
    /// How many machines it has.
    pub nodes: usize,
    /// A digest of everything that generated objects are made from.
    pub hash: String,
    /// Whether its Cluster of Cluster API, or what that is made of, is being deleted.
    pub fading: bool,
    /// Which versions of generated objects and of the manifest of its network plugin there are.
    pub signature: String,
    /// Whether it is time to look whether generated objects are as they should be.
    pub due: bool,
    /// What was found at its endpoint.
    pub endpoint: Endpoint,
    /// What CloudStack says of its machine configurations.
    pub checked: Option<Checks>,
    /// What its generated objects should be and are.
    pub generated: Option<Result<Generated, render::Error>>,
    /// What is seen inside of it.
    pub inside: Option<Inside>,
    /// What is left of it while it is deleted.
    pub leftovers: Option<Leftovers>,
}

impl Snapshot {
    /// The time after this long.
    #[must_use]
    pub fn after(&self, time: Duration) -> Timestamp {
        self.now.saturating_add(time).unwrap_or(self.now)
    }

    /// Whether its status says that exactly this was carried out.
    #[must_use]
    pub fn is_converged(&self) -> bool {
        let status = &self.stored.status;
        let adopts = self.cluster.is_on(api::names::clusters::ADOPT_REVISION_ANNOTATION)
            && status.render_revision != Some(render::REVISION);
        self.capi.is_some()
            && status.reconciled_generation == Some(self.cluster.generation())
            && status.inputs_hash == self.hash
            && !adopts
    }

    /// Whether another controller carried it out, and none of us.
    #[must_use]
    pub fn is_adopted(&self) -> bool {
        let status = &self.stored.status;
        self.capi.is_some()
            && status.reconciled_generation == Some(self.cluster.generation())
            && status.render_revision.is_none()
            && status.inputs_hash.is_empty()
    }

    /// Whether its status tells of something that a check found. That a write was refused is no such thing: whether it still
    /// is, is known only once it is tried again.
    #[must_use]
    pub fn tells_failure(&self) -> bool {
        let status = &self.stored.status;
        let (reason, message) = (&status.failure_reason, &status.failure_message);
        let told = !reason.is_empty() || !message.is_empty();
        told && !is_refusal(reason, message)
    }

    /// Whether kube-vip holds its endpoint.
    #[must_use]
    pub fn kube_vip(&self) -> bool {
        kube_vip(&self.cluster, &self.config)
    }
}

/// Whether kube-vip holds the endpoint of a cluster.
#[must_use]
pub fn kube_vip(cluster: &ClusterFacts, config: &Config) -> bool {
    let plane = cluster.object.spec.control_plane_configuration.as_ref();
    let skip = plane.and_then(|plane| plane.skip_load_balancer_deployment);
    skip.map_or(config.settings.kube_vip, |skip| !skip)
}

/// What was found at an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// Nobody looked.
    #[default]
    NotAsked,
    /// It is being tried.
    Trying,
    /// Nobody has it.
    Free,
    /// Its name has no address.
    Unresolved,
    /// Somebody has it.
    Taken(Failure),
}

/// What CloudStack says of machine configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checks {
    /// What is wrong with each, nothing for those that can be used.
    Judged {
        /// By name.
        machines: BTreeMap<String, Option<String>>,
        /// What is only to be told.
        warnings: Vec<String>,
    },
    /// A secret is missing or broken.
    Datacenter(String),
    /// CloudStack cannot say at present.
    Passing {
        /// Why not.
        message: String,
        /// How long it asked us to wait.
        at_least: Option<Duration>,
    },
}

/// What generated objects should be, and what is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// What they should be.
    pub rendered: Rendered,
    /// What is stored, by kind and name.
    pub stored: BTreeMap<(String, String), Value>,
    /// MachineDeployments of ours that nobody wants any more, and their health checks.
    pub orphans: Vec<Target>,
    /// MachineDeployments of the cluster that others made.
    pub foreign: Vec<String>,
    /// Templates that nobody refers to any more.
    pub unused: Vec<Target>,
}

/// What is seen inside of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Inside {
    /// There is no kubeconfig yet.
    NoKubeconfig,
    /// The cluster does not answer.
    Unreachable(String),
    /// The bundle or its manifest cannot be used.
    Unusable(String),
    /// The network plugin was looked at.
    Seen(Box<Plugin>),
}

/// The network plugin as it is, as it should be, and what would be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// What is to be done.
    pub next: cni::Next,
    /// Whether something of the check before an upgrade is there.
    pub check_left: bool,
    /// Whether some of that is the check of another upgrade.
    pub check_old: bool,
    /// Whether the plugin is there.
    pub installed: bool,
    /// The version of the bundle.
    pub version: String,
    /// What is applied, if something is.
    pub objects: Objects,
    /// The check before an upgrade.
    pub check: Objects,
}

/// Objects of a manifest, which print as their number.
#[derive(Clone, Default, PartialEq)]
pub struct Objects(pub Arc<Vec<Value>>);

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Objects({})", self.0.len())
    }
}

/// What is left of a cluster that is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// The Cluster of Cluster API, and whether it is on its way; only one that is provably this Cluster's.
    pub capi: Option<(Target, bool)>,
    /// How it is known to be this Cluster's.
    pub proof: Option<Belongs>,
    /// Everything else that carries its labels.
    pub rest: Vec<Target>,
    /// Secrets of its zones that are not there.
    pub missing_secrets: Vec<String>,
}

/// The status of a cluster, as far as it is ours.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// Our part of the status.
    pub status: ClusterStatus,
    /// Whether a failure is to be emptied, because what others wrote cannot be taken away.
    pub empties: bool,
    none: Vec<Condition>,
}

impl Reported {
    /// Our part of a status: its conditions in our order, without what others keep there.
    #[must_use]
    pub fn of(mut status: ClusterStatus) -> Self {
        status.cluster_certificate_info.clear();
        status.eksd_release_ref = None;
        let all = std::mem::take(&mut status.conditions);
        for type_ in conditions::TYPES {
            status.conditions.extend(all.iter().find(|condition| condition.type_ == type_).cloned());
        }
        Self { status, empties: false, none: Vec::new() }
    }
}

impl PartialEq for Reported {
    fn eq(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

impl Serialize for Reported {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut value = serde_json::to_value(&self.status).map_err(serde::ser::Error::custom)?;
        if let (true, Value::Object(fields)) = (self.empties, &mut value) {
            for name in ["failureReason", "failureMessage"] {
                fields.entry(name).or_insert_with(|| Value::String(String::new()));
            }
        }
        value.serialize(serializer)
    }
}

impl Conditioned for Reported {
    fn conditions(&self) -> &[Condition] {
        &self.none
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.none
    }

    // It is ours to say only when a pass came to its end.
    fn set_observed_generation(&mut self, _: i64) {}
}

/// Who a Cluster of Cluster API belongs to, as far as a Cluster of the same name is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belongs {
    /// It carries the labels of this Cluster.
    Labelled,
    /// It carries no labels, nobody else has the name, and it answers at the endpoint of this Cluster, whose status says
    /// that it was carried out.
    Proven,
    /// The same, but the status says nothing yet: it may be taken over, not removed.
    Alike,
    /// It is somebody else's, or nobody knows whose.
    Elsewhere,
}

/// Who a Cluster of Cluster API belongs to. `alone` says that no other Cluster has the name, not even one that goes.
#[must_use]
pub fn belongs(capi: &CapiFacts, key: &ObjectKey, cluster: &ClusterFacts, alone: bool) -> Belongs {
    if let Some(owner) = &capi.mark.owner {
        return if owner == key { Belongs::Labelled } else { Belongs::Elsewhere };
    }
    let plane = cluster.object.spec.control_plane_configuration.as_ref();
    let endpoint = plane.and_then(|plane| plane.endpoint.as_ref()?.host.parse::<HostPort>().ok());
    let there = HostPort { host: capi.host.clone(), port: Some(capi.port).filter(|port| *port != 0) };
    if !alone || !endpoint.is_some_and(|endpoint| endpoint.same(&there)) {
        return Belongs::Elsewhere;
    }
    let status = &cluster.status;
    let seen = conditions::stored(&status.conditions, api::reasons::clusters::CONTROL_PLANE_INITIALIZED);
    if status.reconciled_generation.is_some() || matches!(seen, Some(Ok(()))) {
        Belongs::Proven
    } else {
        Belongs::Alike
    }
}

/// The Cluster that a stored object was made for, by its labels.
#[must_use]
pub fn owner_of(stored: &Value) -> Option<ObjectKey> {
    let meta = stored.get("metadata").cloned().unwrap_or_default();
    Mark::of(&serde_json::from_value(meta).unwrap_or_default()).owner
}
