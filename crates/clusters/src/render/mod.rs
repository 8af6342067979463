//! The objects that are generated for a cluster: a pure, versioned function of what users wrote and of a bundle.
//!
//! Generated objects are compared with what is there, so every byte matters: maps are ordered, lists whose order means nothing
//! are sorted, and what is empty is left out. Templates cannot be changed once they exist; they are named by what they hold
//! ([`names`]), so that a change makes another one and going back finds the first again.
//!
//! A build that renders differently has a higher [`REVISION`]. Clusters keep the revision they were made with until their user
//! changes something, so that a new build replaces no machine by itself.

pub mod canonical;
mod facts;
mod files;
mod health;
mod infrastructure;
mod kubeadm;
pub mod names;
mod planes;

use std::collections::BTreeMap;

use api::names::CLUSTER_NAME_LABEL;
use api::names::clusters::{OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL, SYSTEM_NAMESPACE};
use api::own::anywhere::{Bundles, CloudStackDatacenterConfig, CloudStackMachineConfig, Cluster, OIDCConfig};
use serde_json::{Map, Value, json};

pub use api::duration;
pub use facts::Error;
use facts::Facts;
pub use names::{GroupReferences, Live, Template};

/// How this build renders.
pub const REVISION: i64 = 1;

const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// What the operator of the management cluster chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether kube-vip holds the endpoint of clusters that do not say.
    pub kube_vip: bool,
    /// The registry that a mirror without namespaces stands in for.
    pub core_registry: String,
    /// The namespace of generated objects and credentials.
    pub system_namespace: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { kube_vip: true, core_registry: "public.ecr.aws".into(), system_namespace: SYSTEM_NAMESPACE.into() }
    }
}

/// Everything that the generated objects are made from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'i> {
    /// The cluster, with its defaults.
    pub cluster: &'i Cluster,
    /// Its datacenter, with its defaults.
    pub datacenter: &'i CloudStackDatacenterConfig,
    /// The machine configurations it refers to, by name.
    pub machines: &'i BTreeMap<String, CloudStackMachineConfig>,
    /// The issuer of tokens it refers to.
    pub oidc: Option<&'i OIDCConfig>,
    /// The bundle that was found for it.
    pub bundles: &'i Bundles,
    /// What the operator chose.
    pub settings: &'i Settings,
}

/// The generated objects of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The Cluster of Cluster API.
    pub cluster: Value,
    /// The CloudStackCluster.
    pub infrastructure: Value,
    /// The CloudStackMachineTemplate of the control plane.
    pub control_plane_template: Template,
    /// The KubeadmControlPlane.
    pub control_plane: Value,
    /// The groups of workers, in the order of the cluster.
    pub groups: Vec<Group>,
    /// The MachineHealthChecks: of the control plane, then of each group.
    pub health_checks: Vec<Value>,
}

/// The generated objects of a group of workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The name of the group.
    pub name: String,
    /// Its CloudStackMachineTemplate.
    pub machine_template: Template,
    /// Its KubeadmConfigTemplate.
    pub config_template: Template,
    /// Its MachineDeployment.
    pub deployment: Value,
}

impl Rendered {
    /// All objects in the order in which they are written: what is referred to comes before who refers to it, and the
    /// Cluster, which sets controllers to work, after its control plane.
    #[must_use]
    pub fn objects(&self) -> Vec<&Value> {
        let plane = [&self.infrastructure, &self.control_plane_template.object, &self.control_plane, &self.cluster];
        let mut all: Vec<&Value> = plane.to_vec();
        for group in &self.groups {
            all.extend([&group.machine_template.object, &group.config_template.object, &group.deployment]);
        }
        all.extend(&self.health_checks);
        all
    }
}

/// Renders a cluster.
///
/// # Errors
/// When the revision is not known to this build, or something that was checked before is not there.
pub fn render(revision: i64, inputs: &Inputs<'_>, live: &Live) -> Result<Rendered, Error> {
    if revision != REVISION {
        return Err(Error::Revision { revision, known: REVISION });
    }
    let facts = Facts::gather(inputs)?;
    let spec = infrastructure::machine_template(facts.plane_machine);
    let prefix = format!("{}-control-plane", facts.name);
    let current = live.control_plane.as_deref();
    let template = infrastructure::template_object(&facts, &prefix, spec, current, live);
    let groups = facts.groups.iter().map(|group| planes::group(&facts, group, live)).collect();
    Ok(Rendered {
        cluster: planes::cluster(&facts),
        infrastructure: infrastructure::cluster(&facts),
        control_plane: planes::control_plane(&facts, &template.name),
        control_plane_template: template,
        groups,
        health_checks: health::checks(&facts),
    })
}

/// An object with the labels that every generated object has.
fn object(facts: &Facts<'_>, api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    let labels = json!({
        CLUSTER_NAME_LABEL: facts.name,
        OWNER_NAME_LABEL: facts.name,
        OWNER_NAMESPACE_LABEL: facts.namespace,
    });
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": facts.settings.system_namespace, "labels": labels},
        "spec": spec,
    })
}

/// A reference of Cluster API to an object beside it.
fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({"apiGroup": group, "kind": kind, "name": name})
}

/// The fields that hold something; what is empty is left out, so that it cannot differ from what is absent.
fn filled<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let held = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    };
    let mut all = Map::new();
    for (name, value) in fields.into_iter().filter(|(_, value)| held(value)) {
        all.insert(name.to_owned(), value);
    }
    Value::Object(all)
}
