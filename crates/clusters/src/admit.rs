//! What is filled in and what is refused when clusters, datacenters and machine configurations are written.
//!
//! Pure functions of the new object, of the old one, and of what the management cluster can do. All faults of an object are
//! told at once. The webhooks may have been down when an object was written, so the room asks the same functions again:
//! [`cluster_problem`], [`datacenter_problem`], [`machine_problem`].

mod cluster;
mod cluster_change;
mod control_plane;
mod datacenter;
mod defaults;
mod labels;
mod machine;
mod network;
mod outside;
mod workers;

use api::names::clusters::{GROUP, MANAGED_BY_CLI_ANNOTATION, ON, PAUSED_ANNOTATION, VERSION};
use api::own::anywhere::{CloudStackDatacenterConfig, CloudStackMachineConfig, Cluster};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::admission::{Admission, Answer, Duty, FieldError, Operation, Review, Verdict, Webhook};
use kube::Resource;

pub(crate) use datacenter::url_host;
pub use defaults::{default_changed_cluster, default_cluster, default_datacenter};

use crate::version::Minor;

/// What the management cluster can do and its operator allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The newest version of Kubernetes, if there is a limit.
    pub newest: Option<Minor>,
    /// Whether users may give arguments to the API server.
    pub extra_args: bool,
}

const fn webhook(duty: Duty, plural: &'static str, path: &'static str) -> Webhook {
    Webhook { duty, group: GROUP, version: VERSION, plural, path }
}

// Tools compare a stored spec with their file, so it is stored complete; and whether a field that must stay was changed is
// seen only while it is written: neither is stored unseen.
const CLUSTER_DEFAULTS: Webhook = webhook(Duty::Complete, "clusters", "/default/anywhere-clusters");
const DATACENTER_DEFAULTS: Webhook =
    webhook(Duty::Complete, "cloudstackdatacenterconfigs", "/default/cloudstackdatacenterconfigs");
const CLUSTERS: Webhook = webhook(Duty::Guard, "clusters", "/validate/anywhere-clusters");
const DATACENTERS: Webhook =
    webhook(Duty::Guard, "cloudstackdatacenterconfigs", "/validate/cloudstackdatacenterconfigs");
const MACHINES: Webhook = webhook(Duty::Guard, "cloudstackmachineconfigs", "/validate/cloudstackmachineconfigs");

/// What this room does at admission.
pub const WEBHOOKS: &[Webhook] = &[CLUSTER_DEFAULTS, DATACENTER_DEFAULTS, CLUSTERS, DATACENTERS, MACHINES];

/// Adds this room's defaults and checks to the process's admission. `terms` says nothing while the room does not run: then
/// the kinds are left to who keeps them.
#[must_use]
pub fn register(admission: Admission, terms: impl Fn() -> Option<Terms> + Clone + Send + Sync + 'static) -> Admission {
    let (clusters, datacenters) = (runs(&terms), runs(&terms));
    let (zones, machines) = (runs(&terms), runs(&terms));
    admission
        .mutate(CLUSTER_DEFAULTS.path, move |review: &Review<Cluster>, cluster: &mut Cluster| {
            match review.old.as_ref().filter(|_| review.operation == Operation::Update) {
                _ if !clusters() => {}
                Some(old) => default_changed_cluster(&old.spec, &mut cluster.spec),
                None => default_cluster(&mut cluster.spec),
            }
        })
        .mutate(
            DATACENTER_DEFAULTS.path,
            move |_: &Review<CloudStackDatacenterConfig>, datacenter: &mut CloudStackDatacenterConfig| {
                if datacenters() {
                    default_datacenter(&mut datacenter.spec);
                }
            },
        )
        .validate(CLUSTERS.path, move |review: &Review<Cluster>| {
            let created = review.operation == Operation::Create;
            let old = review.old.as_ref().filter(|_| !created);
            let judged = admitted(review).zip(terms()).map(|(new, terms)| judge_cluster(new, old, &terms));
            judged.unwrap_or_default()
        })
        .validate(DATACENTERS.path, move |review: &Review<CloudStackDatacenterConfig>| {
            let judged = admitted(review).filter(|_| zones()).map(|new| judge_datacenter(new, review.old.as_ref()));
            judged.unwrap_or_default()
        })
        .validate(MACHINES.path, move |review: &Review<CloudStackMachineConfig>| {
            let judged = admitted(review).filter(|_| machines()).map(|new| judge_machine(new, review.old.as_ref()));
            judged.unwrap_or_default()
        })
}

fn runs<T>(terms: &T) -> impl Fn() -> bool + Send + Sync + 'static + use<T>
where
    T: Fn() -> Option<Terms> + Clone + Send + Sync + 'static,
{
    let terms = terms.clone();
    move || terms().is_some()
}

/// The object that is to be judged: none when it is going anyway.
fn admitted<T: Resource>(review: &Review<T>) -> Option<&T> {
    review.object.as_ref().filter(|new| new.meta().deletion_timestamp.is_none())
}

/// What is said of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Why the request as such is refused, whatever the object holds.
    pub refusal: Option<String>,
    /// Every fault of the object, each with its field.
    pub errors: Vec<FieldError>,
    /// What its writer should know although it is admitted.
    pub warnings: Vec<String>,
}

impl From<Judgement> for Answer {
    fn from(judgement: Judgement) -> Self {
        let Judgement { refusal, errors, warnings } = judgement;
        refusal.map_or(Self::Judged(Verdict { errors, warnings }), Self::Refused)
    }
}

/// Judges a Cluster that is created, or changed when there is an old one.
#[must_use]
pub fn judge_cluster(new: &Cluster, old: Option<&Cluster>, terms: &Terms) -> Judgement {
    // What was stored before anybody defaulted it is filled in with the first write, whoever writes whatever.
    let filled = old.cloned().map(|mut old| {
        default_cluster(&mut old.spec);
        old
    });
    let old = filled.as_ref();
    if old.is_some_and(|old| old.spec == new.spec) {
        return Judgement::default();
    }
    let mut judgement = cluster::judge(new, old, terms);
    match old {
        Some(old) if !is_paused(&old.metadata) => judgement.errors.extend(cluster_change::faults(old, new)),
        Some(_) => {}
        None => {
            let watched = is_paused(&new.metadata) || annotation(&new.metadata, MANAGED_BY_CLI_ANNOTATION) == Some(ON);
            if is_self_managed(new) && !watched {
                judgement.refusal = Some(
                    "self-managed clusters cannot be created through this API; set spec.managementCluster.name".into(),
                );
            }
        }
    }
    judgement
}

/// Judges a CloudStackDatacenterConfig that is created, or changed when there is an old one.
#[must_use]
pub fn judge_datacenter(new: &CloudStackDatacenterConfig, old: Option<&CloudStackDatacenterConfig>) -> Judgement {
    // Objects that were stored before anybody defaulted them have their zones in the older fields.
    let before = old.map(|old| {
        let mut spec = old.spec.clone();
        default_datacenter(&mut spec);
        spec
    });
    if before.as_ref() == Some(&new.spec) {
        return Judgement::default();
    }
    let mut errors = datacenter::faults(&new.spec);
    if let Some(before) = before.filter(|_| old.is_some_and(|old| !is_paused(&old.metadata))) {
        errors.extend(datacenter::change_faults(&before, &new.spec));
    }
    Judgement { errors, ..Judgement::default() }
}

/// Judges a CloudStackMachineConfig that is created, or changed when there is an old one.
#[must_use]
pub fn judge_machine(new: &CloudStackMachineConfig, old: Option<&CloudStackMachineConfig>) -> Judgement {
    if old.is_some_and(|old| old.spec == new.spec) {
        return Judgement::default();
    }
    let mut errors = machine::faults(&new.spec);
    if let Some(old) = old.filter(|old| !is_paused(&old.metadata)) {
        errors.extend(machine::change_faults(&old.spec, &new.spec));
    }
    Judgement { errors, ..Judgement::default() }
}

/// Whether the annotation asks to be left alone.
#[must_use]
pub fn is_paused(meta: &ObjectMeta) -> bool {
    annotation(meta, PAUSED_ANNOTATION) == Some(ON)
}

/// Whether the Cluster manages itself: it names no other as its manager.
#[must_use]
pub fn is_self_managed(cluster: &Cluster) -> bool {
    let manager = cluster.spec.management_cluster.as_ref().map(|manager| manager.name.as_str()).unwrap_or_default();
    manager.is_empty() || Some(manager) == cluster.metadata.name.as_deref()
}

fn annotation<'m>(meta: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

/// What is wrong with a stored Cluster, in one line; `None` when nothing is.
#[must_use]
pub fn cluster_problem(cluster: &Cluster, terms: &Terms) -> Option<String> {
    // A version that was admitted before stays, whatever the limit is now.
    line(&cluster::judge(cluster, Some(cluster), terms).errors)
}

/// What is wrong with a stored CloudStackDatacenterConfig, in one line; `None` when nothing is.
#[must_use]
pub fn datacenter_problem(datacenter: &CloudStackDatacenterConfig) -> Option<String> {
    let mut spec = datacenter.spec.clone();
    default_datacenter(&mut spec);
    line(&datacenter::faults(&spec))
}

/// What is wrong with a stored CloudStackMachineConfig, in one line; `None` when nothing is.
#[must_use]
pub fn machine_problem(machine: &CloudStackMachineConfig) -> Option<String> {
    line(&machine::faults(&machine.spec))
}

fn line(errors: &[FieldError]) -> Option<String> {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests;
