//! What is filled in and what is refused when AWSMachines and their templates are written.
//!
//! Pure functions of the objects. The webhooks may have been down when a machine was written, so the room asks
//! [`problem`] again before it starts anything, and reads what admission would have filled in by the spec's own methods.

mod allocation;
mod change;
mod defaults;
mod fields;
mod placement;
mod tags;
mod unbuilt;

use api::names::HOSTS_PREFIX;
use api::names::hosts::TOPOLOGY_DRY_RUN_ANNOTATION;
use api::own::{AWSMachine, AWSMachineSpec, AWSMachineTemplate, AWSMachineTemplateResource};
use kit::admission::{Admission, Duty, FieldError, FieldPath, Review, Verdict, Webhook};

pub use defaults::fill;
pub use kit::admission::Ours;
pub(crate) use tags::is_free;
pub use unbuilt::{Missing, missing};

const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const VERSION: &str = "v1beta2";

const MACHINE_DEFAULTS: Webhook = Webhook {
    duty: Duty::Default,
    group: GROUP,
    version: VERSION,
    plural: "awsmachines",
    path: "/default/awsmachines",
};
// A machine is paid for by the hour once it is stored, and a template makes machines: neither is stored unseen.
const MACHINES: Webhook =
    Webhook { duty: Duty::Guard, group: GROUP, version: VERSION, plural: "awsmachines", path: "/validate/awsmachines" };
const TEMPLATE_DEFAULTS: Webhook = Webhook {
    duty: Duty::Default,
    group: GROUP,
    version: VERSION,
    plural: "awsmachinetemplates",
    path: "/default/awsmachinetemplates",
};
const TEMPLATES: Webhook = Webhook {
    duty: Duty::Guard,
    group: GROUP,
    version: VERSION,
    plural: "awsmachinetemplates",
    path: "/validate/awsmachinetemplates",
};

/// What this room does at admission.
pub const WEBHOOKS: &[Webhook] = &[MACHINE_DEFAULTS, MACHINES, TEMPLATE_DEFAULTS, TEMPLATES];

/// Adds this room's defaults and checks to the process's admission.
#[must_use]
pub fn register(admission: Admission, ours: &Ours) -> Admission {
    let [of_machines, of_templates, machines, templates] = [(); 4].map(|()| ours.clone());
    admission
        .mutate(MACHINE_DEFAULTS.path, move |_: &Review<AWSMachine>, machine: &mut AWSMachine| {
            if of_machines.owns(&machine.metadata) {
                fill(&mut machine.spec);
            }
        })
        .mutate(TEMPLATE_DEFAULTS.path, move |_: &Review<AWSMachineTemplate>, template: &mut AWSMachineTemplate| {
            if of_templates.owns(&template.metadata) {
                fill(&mut template.spec.template.spec);
            }
        })
        .validate(MACHINES.path, move |review: &Review<AWSMachine>| match &review.object {
            Some(machine) if machines.owns(&machine.metadata) => machine_verdict(review),
            _ => Verdict::default(),
        })
        .validate(TEMPLATES.path, move |review: &Review<AWSMachineTemplate>| match &review.object {
            Some(template) if templates.owns(&template.metadata) => template_verdict(review),
            _ => Verdict::default(),
        })
}

/// Whether a spec stands alone or in a template; some rules differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Machine,
    Template,
}

impl Of {
    /// Where the spec is.
    fn root(self) -> FieldPath {
        match self {
            Self::Machine => FieldPath::new("spec"),
            Self::Template => FieldPath::new("spec").field("template").field("spec"),
        }
    }
}

/// Everything that is wrong with a new spec.
fn faults(spec: &AWSMachineSpec, of: Of) -> Vec<FieldError> {
    let root = of.root();
    let mut errors = placement::faults(spec, None, of);
    errors.extend(placement::faults_on_hosts(spec, &root));
    errors.extend(spec.dynamic_host_allocation.iter().flat_map(|hosts| allocation::faults(spec, hosts, &root)));
    errors.extend(fields::faults(spec, of));
    errors.extend(tags::faults(spec, &root));
    errors.extend(unbuilt::faults(spec, &root));
    errors
}

/// What a machine's writer should know although the machine is admitted.
fn warnings(spec: &AWSMachineSpec, of: Of) -> Vec<String> {
    let mut warnings = unbuilt::ignored(spec, &of.root());
    warnings.extend(allocation::warning(spec, of));
    warnings
}

/// The faults that a write of a machine brings in, and what its writer should know.
///
/// A write that leaves the spec alone brings none in: finalizers and labels of a machine that was stored while the webhook
/// was down, or by another provider, must stay changeable. One that is being deleted must be able to go.
fn machine_verdict(review: &Review<AWSMachine>) -> Verdict {
    let Some(new) = &review.object else { return Verdict::default() };
    let Some(old) = &review.old else {
        return Verdict { errors: faults(&new.spec, Of::Machine), warnings: warnings(&new.spec, Of::Machine) };
    };
    if old.spec == new.spec {
        return Verdict::default();
    }
    let mut errors = change::of_machine(&old.spec, &new.spec);
    if new.metadata.deletion_timestamp.is_none() {
        errors.extend(placement::faults(&new.spec, Some(&old.spec), Of::Machine));
        errors.extend(fields::faults_of_changeable(&new.spec, &Of::Machine.root()));
        errors.extend(tags::faults(&new.spec, &Of::Machine.root()));
    }
    Verdict { errors, warnings: Vec::new() }
}

fn template_verdict(review: &Review<AWSMachineTemplate>) -> Verdict {
    let Some(new) = &review.object else { return Verdict::default() };
    let spec = &new.spec.template.spec;
    let Some(old) = &review.old else {
        let mut errors = faults(spec, Of::Template);
        errors.extend(fields::faults_of_template(spec));
        errors.extend(journal_faults(&new.spec.template));
        return Verdict { errors, warnings: warnings(spec, Of::Template) };
    };
    // Cluster API asks in this way what a template would look like, and rotates the template if it would change.
    let annotations = new.metadata.annotations.as_ref();
    let topology_dry_run = annotations.is_some_and(|all| all.contains_key(TOPOLOGY_DRY_RUN_ANNOTATION));
    if review.dry_run && topology_dry_run {
        return Verdict::default();
    }
    change::of_template(&old.spec.template.spec, spec).into()
}

/// The journal of one machine on all machines of a template would give them its hosts.
fn journal_faults(template: &AWSMachineTemplateResource) -> Vec<FieldError> {
    let path = FieldPath::new("spec").field("template").field("metadata").field("annotations");
    let given = template.metadata.iter().flat_map(|metadata| metadata.annotations.keys());
    let ours = given.filter(|key| key.strip_prefix(HOSTS_PREFIX).is_some_and(|rest| rest.starts_with('/')));
    ours.map(|key| FieldError::forbidden(path.key(key), "is written by the controller, for one machine".to_owned()))
        .collect()
}

/// What is wrong with the spec of a machine, in one line; `None` when nothing is.
#[must_use]
pub fn problem(spec: &AWSMachineSpec) -> Option<String> {
    let lines: Vec<String> = faults(spec, Of::Machine).iter().map(ToString::to_string).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests;
