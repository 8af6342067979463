//! What is filled in and what is refused when objects of Metal3 are written, and how their two versions become each other.
//!
//! Pure functions of the objects. The webhooks may have been down when a machine was written, so the room asks [`problem`]
//! again before it starts anything. A machine that names no kind takes a host directly: of it, nothing is refused that the
//! provider for Metal3 would not refuse.

mod change;
mod cluster;
mod data;
mod machine;
mod network;
mod remediation;

use api::names::hosts::TOPOLOGY_DRY_RUN_ANNOTATION;
use api::own::metal3::convert::{HUB, convert};
use api::own::metal3::{
    CONVERT_PATH, Metal3Cluster, Metal3Data, Metal3DataClaim, Metal3DataTemplate, Metal3Machine, Metal3MachineSpec,
    Metal3MachineTemplate, Metal3Remediation, Metal3RemediationTemplate,
};
use api::views::INFRASTRUCTURE_GROUP;
use kit::admission::{Admission, Duty, FieldPath, Review, Verdict, Webhook};
use kube::Resource;

pub use kit::admission::Ours;
use machine::Of;

const fn fills(plural: &'static str, path: &'static str) -> Webhook {
    Webhook { duty: Duty::Default, group: INFRASTRUCTURE_GROUP, version: HUB, plural, path }
}

const fn checks(plural: &'static str, path: &'static str) -> Webhook {
    Webhook { duty: Duty::Check, group: INFRASTRUCTURE_GROUP, version: HUB, plural, path }
}

const CLUSTER_DEFAULTS: Webhook = fills("metal3clusters", "/default/metal3clusters");
const CLUSTERS: Webhook = checks("metal3clusters", "/validate/metal3clusters");
const MACHINE_DEFAULTS: Webhook = fills("metal3machines", "/default/metal3machines");
const MACHINES: Webhook = checks("metal3machines", "/validate/metal3machines");
const TEMPLATE_DEFAULTS: Webhook = fills("metal3machinetemplates", "/default/metal3machinetemplates");
const TEMPLATES: Webhook = checks("metal3machinetemplates", "/validate/metal3machinetemplates");
const DATA_TEMPLATES: Webhook = checks("metal3datatemplates", "/validate/metal3datatemplates");
const DATA_CLAIMS: Webhook = checks("metal3dataclaims", "/validate/metal3dataclaims");
const DATA: Webhook = checks("metal3datas", "/validate/metal3datas");
const REMEDIATION_DEFAULTS: Webhook = fills("metal3remediations", "/default/metal3remediations");
const REMEDIATIONS: Webhook = checks("metal3remediations", "/validate/metal3remediations");
const REMEDIATION_TEMPLATE_DEFAULTS: Webhook =
    fills("metal3remediationtemplates", "/default/metal3remediationtemplates");
const REMEDIATION_TEMPLATES: Webhook = checks("metal3remediationtemplates", "/validate/metal3remediationtemplates");

/// What this room does at admission.
pub const WEBHOOKS: &[Webhook] = &[
    CLUSTER_DEFAULTS,
    CLUSTERS,
    MACHINE_DEFAULTS,
    MACHINES,
    TEMPLATE_DEFAULTS,
    TEMPLATES,
    DATA_TEMPLATES,
    DATA_CLAIMS,
    DATA,
    REMEDIATION_DEFAULTS,
    REMEDIATIONS,
    REMEDIATION_TEMPLATE_DEFAULTS,
    REMEDIATION_TEMPLATES,
];

/// Adds this room's defaults, checks and conversion to the process's admission.
///
/// Objects are converted whoever keeps them: the API server can read none of the other version without it.
#[must_use]
pub fn register(admission: Admission, ours: &Ours) -> Admission {
    let admission =
        admission.convert(CONVERT_PATH, |object, wanted| convert(object, wanted).map_err(|error| error.to_string()));
    let admission = filling(admission, CLUSTER_DEFAULTS, ours, |new: &mut Metal3Cluster| cluster::fill(&mut new.spec));
    let admission = filling(admission, MACHINE_DEFAULTS, ours, |new: &mut Metal3Machine| machine::fill(&mut new.spec));
    let admission = filling(admission, TEMPLATE_DEFAULTS, ours, |new: &mut Metal3MachineTemplate| {
        machine::fill(&mut new.spec.template.spec);
    });
    let admission = filling(admission, REMEDIATION_DEFAULTS, ours, |new: &mut Metal3Remediation| {
        remediation::fill(&mut new.spec);
    });
    let admission = filling(admission, REMEDIATION_TEMPLATE_DEFAULTS, ours, |new: &mut Metal3RemediationTemplate| {
        remediation::fill(&mut new.spec.template.spec);
    });
    let admission = checking(admission, CLUSTERS, ours, cluster_verdict);
    let admission = checking(admission, MACHINES, ours, machine_verdict);
    let admission = checking(admission, TEMPLATES, ours, template_verdict);
    let admission = checking(admission, DATA_TEMPLATES, ours, data_template_verdict);
    let admission = checking(admission, DATA_CLAIMS, ours, data_claim_verdict);
    let admission = checking(admission, DATA, ours, data_verdict);
    let admission = checking(admission, REMEDIATIONS, ours, remediation_verdict);
    checking(admission, REMEDIATION_TEMPLATES, ours, remediation_template_verdict)
}

/// A kind of object that can be admitted.
trait Kept: Resource + serde::de::DeserializeOwned + serde::Serialize + Clone + Send + Sync + 'static {}
impl<K: Resource + serde::de::DeserializeOwned + serde::Serialize + Clone + Send + Sync + 'static> Kept for K {}

fn filling<K: Kept>(admission: Admission, webhook: Webhook, ours: &Ours, fill: fn(&mut K)) -> Admission {
    let ours = ours.clone();
    admission.mutate(webhook.path, move |_: &Review<K>, object: &mut K| {
        if ours.owns(object.meta()) {
            fill(object);
        }
    })
}

fn checking<K: Kept>(
    admission: Admission,
    webhook: Webhook,
    ours: &Ours,
    verdict: fn(&Written<'_, K>) -> Verdict,
) -> Admission {
    let ours = ours.clone();
    admission.validate(webhook.path, move |review: &Review<K>| match &review.object {
        Some(new) if ours.owns(new.meta()) => verdict(&Written::read(review, new)),
        _ => Verdict::default(),
    })
}

/// A write, as the checks look at it.
struct Written<'r, K> {
    new: &'r K,
    old: Option<&'r K>,
    namespace: &'r str,
    /// Cluster API asks in this way what a template would look like, and rotates the template if it would change.
    only_asks: bool,
}

impl<'r, K: Kept> Written<'r, K> {
    fn read(review: &'r Review<K>, new: &'r K) -> Self {
        let meta = new.meta();
        let namespace = review.namespace.as_deref().or(meta.namespace.as_deref()).unwrap_or_default();
        let asks = meta.annotations.as_ref().is_some_and(|all| all.contains_key(TOPOLOGY_DRY_RUN_ANNOTATION));
        Self { new, old: review.old.as_ref(), namespace, only_asks: review.dry_run && asks }
    }

    /// Whether the object is being deleted and must be able to go.
    fn leaves(&self) -> bool {
        self.new.meta().deletion_timestamp.is_some()
    }
}

/// The faults that a write of a machine brings in, and what its writer should know.
///
/// A write that leaves the spec alone brings none in: finalizers and labels of a machine that was stored while the webhook
/// was down must stay changeable. The provider id is the controller's to write.
fn machine_verdict(written: &Written<'_, Metal3Machine>) -> Verdict {
    let spec = &written.new.spec;
    let mut errors = Vec::new();
    if let Some(old) = written.old {
        let known = Metal3MachineSpec { provider_id: spec.provider_id.clone(), ..old.spec.clone() };
        if known == *spec {
            return Verdict::default();
        }
        errors = change::of_machine(&old.spec, spec);
    }
    if !written.leaves() {
        errors.extend(machine::faults(spec, spec.kind.as_deref(), written.namespace, Of::Machine));
    }
    let warnings = machine::warnings(spec, Of::Machine).into_iter();
    let changed = written.old.into_iter().flat_map(|old| change::warnings(&old.spec, spec));
    Verdict { errors, warnings: warnings.chain(changed).collect() }
}

fn template_verdict(written: &Written<'_, Metal3MachineTemplate>) -> Verdict {
    let spec = &written.new.spec.template.spec;
    let errors = match written.old {
        Some(old) if old.spec.template.spec == *spec => return Verdict::default(),
        Some(_) if written.only_asks || written.leaves() => return Verdict::default(),
        Some(old) if old.spec.template.spec.kind.is_some() || spec.kind.is_some() => {
            change::of_template(&old.spec.template.spec, spec)
        }
        _ => machine::faults(spec, spec.kind.as_deref(), written.namespace, Of::Template),
    };
    Verdict { errors, warnings: machine::warnings(spec, Of::Template) }
}

fn cluster_verdict(written: &Written<'_, Metal3Cluster>) -> Verdict {
    match written.old {
        Some(old) if old.spec == written.new.spec || written.leaves() => Verdict::default(),
        _ => cluster::faults(&written.new.spec).into(),
    }
}

fn data_template_verdict(written: &Written<'_, Metal3DataTemplate>) -> Verdict {
    match written.old {
        Some(old) => data::template_changes(&old.spec, &written.new.spec).into(),
        None => data::faults_of_template(&written.new.spec).into(),
    }
}

fn data_claim_verdict(written: &Written<'_, Metal3DataClaim>) -> Verdict {
    let (new, old) = (&written.new.spec, written.old.map(|old| &old.spec));
    if old == Some(new) {
        return Verdict::default();
    }
    data::claim_faults(new, old, written.namespace).into()
}

fn data_verdict(written: &Written<'_, Metal3Data>) -> Verdict {
    match written.old {
        Some(old) => data::changes(&old.spec, &written.new.spec).into(),
        None => {
            let name = written.new.metadata.name.as_deref().unwrap_or_default();
            data::faults(name, &written.new.spec, written.namespace).into()
        }
    }
}

fn remediation_verdict(written: &Written<'_, Metal3Remediation>) -> Verdict {
    match written.old {
        Some(old) if old.spec == written.new.spec || written.leaves() => Verdict::default(),
        _ => remediation::faults(&FieldPath::new("spec"), &written.new.spec).into(),
    }
}

fn remediation_template_verdict(written: &Written<'_, Metal3RemediationTemplate>) -> Verdict {
    match written.old {
        Some(old) if old.spec == written.new.spec || written.leaves() => Verdict::default(),
        _ => remediation::faults(&Of::Template.root(), &written.new.spec.template.spec).into(),
    }
}

/// What is wrong with the spec of a machine that runs on a claim of this kind, in one line; `None` when nothing is.
#[must_use]
pub fn problem(spec: &Metal3MachineSpec, kind: &str, namespace: &str) -> Option<String> {
    let errors = machine::faults(spec, Some(kind), namespace, Of::Machine);
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests;
