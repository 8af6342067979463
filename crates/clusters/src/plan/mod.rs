//! What would be done for clusters in files: faults, objects, and the machines that would be replaced. Files are compared
//! with other files, or with what a server holds.

mod documents;
mod running;

use api::own::anywhere::{Bundles, CloudStackMachineConfig, Cluster};
use serde::Serialize;
use std::collections::BTreeMap;

pub use documents::{Documents, ReadError};
pub use running::{Server, plan_running};

use crate::admit::{self, Judgement, Terms};
use crate::bundle::{self, Shelf};
use crate::change::{ObjectChange, RoleChange, objects, roles};
use crate::render::{GroupReferences, Inputs, Live, REVISION, Rendered, Settings, render};

/// What would be done for one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The version of Kubernetes it asks for.
    pub kubernetes_version: String,
    /// The bundle its images come from, when one was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundles: Option<String>,
    /// Everything that is wrong; nothing is done while there is something.
    pub faults: Vec<Fault>,
    /// What its owner should know.
    pub warnings: Vec<String>,
    /// What happens to each generated object.
    pub objects: Vec<ObjectChange>,
    /// What happens to the machines.
    pub machines: Vec<RoleChange>,
}

/// Something that is wrong with an object in the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The kind of the object.
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// What is wrong, after the path of the field.
    pub message: String,
}

/// Plans every workload cluster of the files; with older files, as a change of what they would have made.
#[must_use]
pub fn plan(new: &Documents, old: Option<&Documents>, terms: &Terms, settings: &Settings) -> Vec<Plan> {
    let workload = new.clusters.iter().filter(|cluster| !admit::is_self_managed(cluster));
    workload.map(|cluster| one(cluster, new, old, terms, settings)).collect()
}

fn one(cluster: &Cluster, new: &Documents, old: Option<&Documents>, terms: &Terms, settings: &Settings) -> Plan {
    let key = (documents::namespace(&cluster.metadata), documents::name(&cluster.metadata));
    let before = old.and_then(|old| old.cluster(key.0, key.1));
    let mut plan = Plan::of(cluster);
    let judged = admit::judge_cluster(cluster, before, terms);
    plan.take("Cluster", key.1, judged);
    judge_parts(&mut plan, cluster, new, old);
    // What was there may break rules of today; it was rendered nevertheless.
    let was = old.zip(before).and_then(|(old, before)| rendered(before, old, settings, &Live::default()).ok());
    let live = was.as_ref().map(live).unwrap_or_default();
    match rendered(cluster, new, settings, &live) {
        Ok(rendered) if plan.faults.is_empty() => {
            plan.objects = objects(was.as_ref(), &rendered);
            plan.machines = roles(was.as_ref(), &rendered);
        }
        Ok(_) => {}
        Err(message) => plan.fault("Cluster", key.1, message),
    }
    plan.bundles = found(cluster, new, settings).ok().map(|bundles| documents::name(&bundles.metadata).to_owned());
    plan
}

impl Plan {
    /// Nothing is planned yet.
    fn of(cluster: &Cluster) -> Self {
        Self {
            namespace: documents::namespace(&cluster.metadata).to_owned(),
            name: documents::name(&cluster.metadata).to_owned(),
            kubernetes_version: cluster.spec.kubernetes_version.clone(),
            bundles: None,
            faults: Vec::new(),
            warnings: Vec::new(),
            objects: Vec::new(),
            machines: Vec::new(),
        }
    }

    fn fault(&mut self, kind: &str, name: &str, message: String) {
        let fault = Fault { kind: kind.to_owned(), name: name.to_owned(), message };
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn take(&mut self, kind: &str, name: &str, judged: Judgement) {
        let refusal = judged.refusal.into_iter();
        for message in refusal.chain(judged.errors.iter().map(ToString::to_string)) {
            self.fault(kind, name, message);
        }
        self.warnings.extend(judged.warnings);
    }
}

/// Judges what the cluster refers to.
fn judge_parts(plan: &mut Plan, cluster: &Cluster, new: &Documents, old: Option<&Documents>) {
    let namespace = plan.namespace.clone();
    let wanted = datacenter_name(cluster);
    match new.datacenter(&namespace, &wanted) {
        Some(datacenter) => {
            let before = old.and_then(|old| old.datacenter(&namespace, &wanted));
            plan.take("CloudStackDatacenterConfig", &wanted, admit::judge_datacenter(datacenter, before));
        }
        None => {
            let message = new.missing("CloudStackDatacenterConfig", &wanted);
            plan.fault("Cluster", documents::name(&cluster.metadata), message);
        }
    }
    for name in machine_names(cluster) {
        // That it is missing is told where it is needed.
        let Some(machine) = new.machine(&namespace, &name) else { continue };
        let before = old.and_then(|old| old.machine(&namespace, &name));
        plan.take("CloudStackMachineConfig", &name, admit::judge_machine(machine, before));
    }
}

fn datacenter_name(cluster: &Cluster) -> String {
    cluster.spec.datacenter_ref.clone().unwrap_or_default().name
}

/// The issuer of tokens that the cluster refers to.
fn oidc_name(cluster: &Cluster) -> Option<&str> {
    let found = cluster.spec.identity_provider_refs.iter().find(|reference| reference.kind == "OIDCConfig");
    found.map(|reference| reference.name.as_str())
}

fn machine_names(cluster: &Cluster) -> Vec<String> {
    let spec = &cluster.spec;
    let plane = spec.control_plane_configuration.iter().filter_map(|plane| plane.machine_group_ref.as_ref());
    let groups = spec.worker_node_group_configurations.iter().filter_map(|group| group.machine_group_ref.as_ref());
    let mut names: Vec<String> = plane.chain(groups).map(|reference| reference.name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// What there is to choose a bundle from.
fn shelf<'d>(cluster: &Cluster, all: &'d Documents, settings: &'d Settings) -> Shelf<'d> {
    let manager = cluster.spec.management_cluster.clone().unwrap_or_default().name;
    let management = all.manager(documents::namespace(&cluster.metadata), &manager);
    Shelf { management, releases: &all.releases, system: &settings.system_namespace, bundles: &all.bundles }
}

fn found<'d>(cluster: &Cluster, all: &'d Documents, settings: &'d Settings) -> Result<&'d Bundles, String> {
    let shelf = shelf(cluster, all, settings);
    let found = bundle::find(cluster, &shelf).map_err(|error| error.to_string());
    // In files the one bundle that is there is meant, when nothing says otherwise; a server holds everything.
    let silent = cluster.spec.eksa_version.is_empty() && cluster.spec.bundles_ref.is_none() && !all.is_served();
    match (found, all.bundles.as_slice(), shelf.management) {
        (Err(_), [only], None) if silent => Ok(only),
        (found, ..) => found,
    }
}

/// Renders a cluster of the files.
///
/// # Errors
/// When no bundle is found for it, or something it refers to is not in the files.
pub fn rendered(cluster: &Cluster, all: &Documents, settings: &Settings, live: &Live) -> Result<Rendered, String> {
    rendered_with(cluster, all, found(cluster, all, settings)?, settings, live)
}

/// Renders a cluster with the images of a bundle.
fn rendered_with(
    cluster: &Cluster,
    all: &Documents,
    bundles: &Bundles,
    settings: &Settings,
    live: &Live,
) -> Result<Rendered, String> {
    let namespace = documents::namespace(&cluster.metadata);
    let wanted = datacenter_name(cluster);
    let datacenter =
        all.datacenter(namespace, &wanted).ok_or_else(|| all.missing("CloudStackDatacenterConfig", &wanted))?;
    let machines: BTreeMap<String, CloudStackMachineConfig> = machine_names(cluster)
        .into_iter()
        .filter_map(|name| Some((name.clone(), all.machine(namespace, &name)?.clone())))
        .collect();
    let oidc = oidc_name(cluster).and_then(|name| all.oidc(namespace, name));
    let inputs = Inputs { cluster, datacenter, machines: &machines, oidc, bundles, settings };
    render(REVISION, &inputs, live).map_err(|error| error.to_string())
}

/// What is there once these objects are written.
#[must_use]
pub fn live(rendered: &Rendered) -> Live {
    let groups = rendered.groups.iter();
    let references = groups.clone().map(|group| {
        let references = GroupReferences {
            machine: Some(group.machine_template.name.clone()),
            config: Some(group.config_template.name.clone()),
        };
        (group.name.clone(), references)
    });
    let templates = groups.flat_map(|group| [&group.machine_template, &group.config_template]);
    let templates = templates.chain([&rendered.control_plane_template]);
    let spec = |template: &crate::render::Template| {
        let kind = template.object.get("kind").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let spec = template.object.get("spec").cloned().unwrap_or_default();
        ((kind, template.name.clone()), spec)
    };
    Live {
        templates: templates.map(spec).collect(),
        control_plane: Some(rendered.control_plane_template.name.clone()),
        groups: references.collect(),
    }
}
