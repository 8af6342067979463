//! Scalable groups of machines: MachineSets of both APIs and MachineDeployments.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::key::ObjectKey;
use api::meta::{ObjectMeta, annotation_owners};
use api::names::{CLUSTER_NAME_LABEL, PAUSED_ANNOTATION, WATCH_FILTER_LABEL, field_manager};
use api::views::{MachineDeployment, MachineGroupSpec, MachinePool, MachineSet, OpenShiftMachineSet, Taint};
use jiff::Timestamp;
use kit::feed::Project;

use super::provider::{Provider, provider};
use crate::names::{self, ACCELERATOR, OS_ID};
use crate::plan::Annotations;

/// The room's name.
pub const ROOM: &str = "capacity";

/// Which kind of group it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// A MachineSet of OpenShift's Machine API.
    OpenShiftSet,
    /// A MachineDeployment of Cluster API.
    Deployment,
    /// A MachineSet of Cluster API.
    Set,
    /// A MachinePool of Cluster API.
    Pool,
}

impl GroupKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::OpenShiftSet, Self::Deployment, Self::Set, Self::Pool];
}

impl GroupKind {
    /// The kind's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenShiftSet | Self::Set => "MachineSet",
            Self::Deployment => "MachineDeployment",
            Self::Pool => "MachinePool",
        }
    }

    /// The kind with its group, which tells the two MachineSets apart.
    #[must_use]
    pub fn full(self) -> &'static str {
        match self {
            Self::OpenShiftSet => "machineset.machine.openshift.io",
            Self::Deployment => "machinedeployment.cluster.x-k8s.io",
            Self::Set => "machineset.cluster.x-k8s.io",
            Self::Pool => "machinepool.cluster.x-k8s.io",
        }
    }

    /// Whether it belongs to OpenShift's Machine API.
    #[must_use]
    pub fn is_machine_api(self) -> bool {
        self == Self::OpenShiftSet
    }
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// Its kind.
    pub kind: GroupKind,
    /// Where it is.
    pub key: ObjectKey,
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.full(), self.key)
    }
}

/// A group, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it carries the annotation that pauses it.
    pub paused: bool,
    /// Its label that tells controllers apart.
    pub watch_filter: Option<Box<str>>,
    /// Whether a MachineDeployment owns it.
    pub deployed: bool,
    /// Its annotations, those of this capability only.
    pub annotations: Annotations,
    /// Keys that somebody else declares by server-side apply, and will declare again.
    pub declared: BTreeSet<Box<str>>,
    /// Who else wrote a key.
    pub writers: BTreeMap<Box<str>, Box<str>>,
    /// Labels of the template that Cluster API carries over to nodes.
    pub node_labels: BTreeMap<Box<str>, Box<str>>,
    /// Taints of the template, as cluster-autoscaler reads them; empty without any.
    pub taints: Box<str>,
    /// Whether nodes will carry the label by which a loading accelerator is known.
    pub accelerator_label: bool,
    /// What its machines are made of.
    pub shape: Shape,
}

/// What machines of a group are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// OpenShift's Machine API: all of it stands in the object.
    MachineApi {
        /// What the provider is told.
        provider: Provider,
        /// Whether nodes run Windows.
        windows: bool,
        /// How far the move to Cluster API is.
        api: MachineApi,
    },
    /// Cluster API: a template stands elsewhere.
    ClusterApi {
        /// The Cluster.
        cluster: Option<Box<str>>,
        /// The template.
        reference: Option<Reference>,
        /// The failure domain, which is a zone on EC2.
        zone: Option<Box<str>>,
    },
}

impl Default for Shape {
    fn default() -> Self {
        Self::ClusterApi { cluster: None, reference: None, zone: None }
    }
}

/// A reference to a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// API group.
    pub group: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// A namespace other than the group's own.
    pub elsewhere: Option<Box<str>>,
}

/// How far the move of an object from Machine API to Cluster API is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineApi {
    /// Which API owns the object, empty when that is not known yet.
    pub authoritative: Box<str>,
    /// Whether the Machine API has let go of it.
    pub paused: bool,
}

impl GroupFacts {
    fn of(meta: ObjectMeta, shape: Shape, node_labels: &BTreeMap<String, String>) -> Self {
        let owners = annotation_owners(&meta);
        let ours = field_manager(ROOM);
        let mut annotations = meta.annotations.unwrap_or_default();
        let mut labels = meta.labels.unwrap_or_default();
        let paused = annotations.contains_key(PAUSED_ANNOTATION);
        annotations.retain(|key, _| names::matters(key));
        let theirs = || owners.iter().filter(|o| o.manager != ours && names::matters(&o.key));
        Self {
            uid: meta.uid.unwrap_or_default().into(),
            created: meta.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: meta.deletion_timestamp.is_some(),
            paused,
            watch_filter: labels.remove(WATCH_FILTER_LABEL).map(Into::into),
            deployed: meta
                .owner_references
                .iter()
                .flatten()
                .any(|owner| owner.kind == "MachineDeployment" && owner.api_version.starts_with("cluster.x-k8s.io/")),
            declared: theirs().filter(|o| o.applies).map(|o| o.key.as_str().into()).collect(),
            writers: theirs().map(|o| (o.key.as_str().into(), o.manager.as_str().into())).collect(),
            annotations: annotations.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            accelerator_label: node_labels.contains_key(ACCELERATOR),
            shape,
            ..Self::default()
        }
    }

    /// Whether it carries an annotation that nobody else wrote: not every group has a record of what was applied.
    #[must_use]
    pub fn is_annotated(&self) -> bool {
        self.annotations.keys().any(|key| !self.writers.contains_key(key))
    }

    /// Whether nothing differs that decides what stands on it, or whether anything does, but for what stands there.
    #[must_use]
    pub fn is_judged_like(&self, other: &Self) -> bool {
        let same = |key: &str| self.annotation(key) == other.annotation(key);
        (&self.uid, &self.shape, self.deleting, self.paused, self.deployed, &self.watch_filter)
            == (&other.uid, &other.shape, other.deleting, other.paused, other.deployed, &other.watch_filter)
            && same(names::SKIP)
            && same(names::REGION)
    }

    /// The facts of a MachineSet of OpenShift's Machine API.
    #[must_use]
    pub fn of_openshift(set: OpenShiftMachineSet) -> Self {
        let api = MachineApi {
            paused: set.status.is_paused(),
            authoritative: set.status.authoritative_api.unwrap_or_default().into(),
        };
        let shape = Shape::MachineApi {
            provider: provider(&set.spec.provider),
            windows: set.spec.labels.get(OS_ID).is_some_and(|os| os.eq_ignore_ascii_case("windows")),
            api,
        };
        Self::of(set.metadata, shape, &set.spec.node_labels)
    }

    /// The facts of a group of Cluster API.
    #[must_use]
    pub fn of_cluster_api(meta: ObjectMeta, spec: MachineGroupSpec) -> Self {
        let label = meta.labels.as_ref().and_then(|labels| labels.get(CLUSTER_NAME_LABEL));
        let machine = &spec.template.spec;
        let elsewhere =
            machine.infrastructure_namespace.as_ref().filter(|named| meta.namespace.as_ref() != Some(*named));
        let shape = Shape::ClusterApi {
            cluster: spec.cluster_name.as_ref().or(label).map(|name| name.as_str().into()),
            reference: machine.infrastructure_ref.as_ref().map(|reference| Reference {
                group: reference.group.as_str().into(),
                kind: reference.kind.as_str().into(),
                name: reference.name.as_str().into(),
                elsewhere: elsewhere.map(|named| named.as_str().into()),
            }),
            zone: machine.failure_domain.as_deref().map(Into::into),
        };
        let labels = &spec.template.labels;
        let reaching = labels.iter().filter(|(key, _)| reaches_nodes(key));
        Self {
            node_labels: reaching.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
            taints: taints(&machine.taints).into(),
            ..Self::of(meta, shape, labels)
        }
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(AsRef::as_ref)
    }

    /// The template.
    #[must_use]
    pub fn reference(&self) -> Option<&Reference> {
        match &self.shape {
            Shape::ClusterApi { reference, .. } => reference.as_ref(),
            Shape::MachineApi { .. } => None,
        }
    }

    /// The Cluster.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        match &self.shape {
            Shape::ClusterApi { cluster, .. } => cluster.as_deref(),
            Shape::MachineApi { .. } => None,
        }
    }

    /// The Secret that the object itself names.
    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        match &self.shape {
            Shape::MachineApi { provider: Provider::Aws(machine), .. } => machine.secret.as_deref(),
            _ => None,
        }
    }

    /// Values of the indexes: its template, its Cluster, the Secret it names, each with the namespace; and the namespace of
    /// those on bare metal.
    fn values(&self, index: usize, key: &ObjectKey) -> Vec<Box<str>> {
        let here = |name: &str| ObjectKey::namespaced(key.namespace().unwrap_or_default(), name).to_string().into();
        let value = match index {
            0 => self.reference().map(|reference| here(&format!("{}:{}", reference.kind, reference.name))),
            1 => self.cluster().map(here),
            2 => self.secret().map(here),
            3 => self
                .reference()
                .filter(|reference| reference.kind.as_ref() == METAL)
                .map(|_| key.namespace().unwrap_or_default().into()),
            _ => None,
        };
        value.into_iter().collect()
    }
}

/// Whether Cluster API carries a label of machines over to their nodes.
fn reaches_nodes(key: &str) -> bool {
    let domain = key.split('/').next().unwrap_or_default();
    let below = |parent: &str| domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
    domain == "node-role.kubernetes.io" || below("node-restriction.kubernetes.io") || below("node.cluster.x-k8s.io")
}

/// Taints as cluster-autoscaler reads them; one with an effect that it does not know would cost it the whole list.
fn taints(all: &[Taint]) -> String {
    let known = |taint: &&Taint| {
        !taint.key.is_empty() && ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&taint.effect.as_str())
    };
    let text = |taint: &Taint| {
        let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
        format!("{}{value}:{}", taint.key, taint.effect)
    };
    let sorted: BTreeSet<String> = all.iter().filter(known).map(text).collect();
    sorted.into_iter().collect::<Vec<_>>().join(",")
}

/// The indexes of every kind of group.
const INDEXES: &[&str] = &["template", "cluster", "secret", "metal"];

/// The kind of templates of bare-metal machines.
pub const METAL: &str = "Metal3MachineTemplate";

/// The value of a template in the index of that name.
#[must_use]
pub fn template_value(kind: &str, template: &ObjectKey) -> String {
    ObjectKey::namespaced(template.namespace().unwrap_or_default(), format!("{kind}:{}", template.name())).to_string()
}

/// MachineSets of OpenShift's Machine API.
pub struct OpenShiftSets;

impl Project for OpenShiftSets {
    type Source = OpenShiftMachineSet;
    type Slim = GroupFacts;
    const INDEXES: &'static [&'static str] = INDEXES;

    fn slim(source: OpenShiftMachineSet) -> GroupFacts {
        GroupFacts::of_openshift(source)
    }

    fn keys(index: usize, key: &ObjectKey, slim: &GroupFacts) -> Vec<Box<str>> {
        slim.values(index, key)
    }
}

/// The kinds of groups of Cluster API differ in name only.
macro_rules! groups {
    ($($(#[$doc:meta])* $groups:ident of $source:ident;)+) => {$(
        $(#[$doc])*
        pub struct $groups;

        impl Project for $groups {
            type Source = $source;
            type Slim = GroupFacts;
            const INDEXES: &'static [&'static str] = INDEXES;

            fn slim(source: $source) -> GroupFacts {
                GroupFacts::of_cluster_api(source.metadata, source.spec)
            }

            fn keys(index: usize, key: &ObjectKey, slim: &GroupFacts) -> Vec<Box<str>> {
                // A set that a MachineDeployment owns is never a group of its own, so nothing needs to find it.
                if slim.deployed { Vec::new() } else { slim.values(index, key) }
            }
        }
    )+};
}

groups! {
    /// MachineDeployments of Cluster API.
    Deployments of MachineDeployment;
    /// MachineSets of Cluster API.
    MachineSets of MachineSet;
    /// MachinePools of Cluster API.
    MachinePools of MachinePool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_of_three_domains_reach_nodes() {
        for key in [
            "node-role.kubernetes.io/worker",
            "node-restriction.kubernetes.io/a",
            "team.node-restriction.kubernetes.io/a",
            "node.cluster.x-k8s.io/a",
            "my.node.cluster.x-k8s.io/a",
        ] {
            assert!(reaches_nodes(key), "{key}");
        }
        for key in ["team", "cluster.x-k8s.io/a", "xnode.cluster.x-k8s.io/a", "a.node-role.kubernetes.io/b", ""] {
            assert!(!reaches_nodes(key), "{key}");
        }
    }

    #[test]
    fn taints_are_written_as_the_autoscaler_reads_them() {
        let taint = |key: &str, value: &str, effect: &str| Taint {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
        };
        let all = [
            taint("b", "", "NoExecute"),
            taint("a", "1", "NoSchedule"),
            taint("c", "", "Never"),
            taint("", "x", "NoSchedule"),
        ];
        assert_eq!(taints(&all), "a=1:NoSchedule,b:NoExecute");
        assert_eq!(taints(&[]), "");
    }
}
