//! What is filled in and what is refused when claims, policies and quotas are written.
//!
//! Pure functions of the object and, for the arguments of a claim, of what the registry of kinds says. The webhooks may
//! have been down when an object was written, so the room asks the same functions of a claim again: [`problem`] and
//! [`kind_problem`]. Policies and quotas are read where they are used, and one with a fault says so in its status.

mod change;
mod claim;
mod normal;
mod policy;

use std::sync::Arc;

use api::own::{
    BAREMETAL, HostClaim, HostClaimQuota, HostClaimQuotaSpec, HostClaimSpec, HostDeployPolicy, HostDeployPolicySpec,
};
use claim_kind::terms::Listing;
use kit::admission::{Admission, Duty, FieldError, Operation, Review, Verdict, Webhook};

pub use normal::normalise;

const GROUP: &str = "metal3.io";
const VERSION: &str = "v1alpha1";

const DEFAULTS: Webhook =
    Webhook { duty: Duty::Default, group: GROUP, version: VERSION, plural: "hostclaims", path: "/default/hostclaims" };
const CLAIMS: Webhook = Webhook {
    duty: Duty::CheckNotes,
    group: GROUP,
    version: VERSION,
    plural: "hostclaims",
    path: "/validate/hostclaims",
};
const POLICIES: Webhook = Webhook {
    duty: Duty::Check,
    group: GROUP,
    version: VERSION,
    plural: "hostdeploypolicies",
    path: "/validate/hostdeploypolicies",
};
const QUOTAS: Webhook = Webhook {
    duty: Duty::Check,
    group: api::names::GROUP,
    version: api::names::VERSION,
    plural: "hostclaimquotas",
    path: "/validate/hostclaimquotas",
};

/// What this room does at admission.
pub const WEBHOOKS: &[Webhook] = &[DEFAULTS, CLAIMS, POLICIES, QUOTAS];

/// Adds this room's defaults and checks to the process's admission.
#[must_use]
pub fn register(admission: Admission, registry: impl Fn(&str) -> Listing + Send + Sync + 'static) -> Admission {
    let registry = Arc::new(registry);
    let kinds = Arc::clone(&registry);
    admission
        .mutate(DEFAULTS.path, move |review: &Review<HostClaim>, claim: &mut HostClaim| {
            // A finalizer that nobody takes off again would keep the claim, and its namespace, for ever.
            let kind = claim.spec.kind.as_str();
            let served = kind.is_empty() || kind == BAREMETAL || matches!(kinds(kind), Listing::Listed(_));
            normalise(claim, review.old.as_ref(), served && review.operation == Operation::Create);
        })
        .validate(CLAIMS.path, move |review| claim_verdict(review, &*registry))
        .validate(POLICIES.path, policy_verdict)
        .validate(QUOTAS.path, quota_verdict)
}

/// The faults that a write of a claim brings in, and what its writer should know.
///
/// One that leaves the spec alone brings none in by it: finalizers and labels of a claim that was stored while the webhook
/// was down must stay changeable, and a claim that is being deleted must be able to go.
fn claim_verdict(review: &Review<HostClaim>, registry: &impl Fn(&str) -> Listing) -> Verdict {
    let Some(new) = &review.object else { return Verdict::default() };
    if new.metadata.deletion_timestamp.is_some() {
        return Verdict::default();
    }
    let old = review.old.as_ref();
    let mut verdict = Verdict { errors: claim::annotation_faults(new, old), warnings: Vec::new() };
    if old.is_some_and(|old| old.spec == new.spec) {
        return verdict;
    }
    let namespace = review.namespace.as_deref().or(new.metadata.namespace.as_deref()).unwrap_or_default();
    verdict.errors.extend(claim::faults(&new.spec, namespace));
    let listing = registry(&new.spec.kind);
    if old.is_none_or(|old| (&old.spec.kind, &old.spec.args) != (&new.spec.kind, &new.spec.args)) {
        verdict.errors.extend(claim::kind_faults(&new.spec, &listing));
    }
    if let Some(old) = old {
        verdict.errors.extend(change::faults(old, new));
        verdict.warnings.extend(change::warnings(old, new));
    }
    verdict.warnings.extend(claim::unused(&new.spec, &listing));
    verdict
}

fn policy_verdict(review: &Review<HostDeployPolicy>) -> Verdict {
    match (&review.object, &review.old) {
        (Some(new), Some(old)) if new.spec == old.spec => Verdict::default(),
        (Some(new), _) if new.metadata.deletion_timestamp.is_none() => {
            Verdict { errors: policy::faults(&new.spec), warnings: policy::warnings(&new.spec) }
        }
        _ => Verdict::default(),
    }
}

fn quota_verdict(review: &Review<HostClaimQuota>) -> Vec<FieldError> {
    match (&review.object, &review.old) {
        (Some(new), Some(old)) if new.spec == old.spec => Vec::new(),
        (Some(new), _) if new.metadata.deletion_timestamp.is_none() => policy::quota_faults(&new.spec),
        _ => Vec::new(),
    }
}

/// What is wrong with the spec of a claim in this namespace, in one line; `None` when nothing is.
#[must_use]
pub fn problem(spec: &HostClaimSpec, namespace: &str) -> Option<String> {
    line(&claim::faults(spec, namespace))
}

/// What is wrong with the kind and arguments of a claim, in one line; `None` when nothing is.
#[must_use]
pub fn kind_problem(spec: &HostClaimSpec, listing: &Listing) -> Option<String> {
    line(&claim::kind_faults(spec, listing))
}

/// What is wrong with the spec of a policy, in one line; `None` when nothing is.
#[must_use]
pub fn policy_problem(spec: &HostDeployPolicySpec) -> Option<String> {
    line(&policy::faults(spec))
}

/// What is wrong with the spec of a quota, in one line; `None` when nothing is.
#[must_use]
pub fn quota_problem(spec: &HostClaimQuotaSpec) -> Option<String> {
    line(&policy::quota_faults(spec))
}

fn line(errors: &[FieldError]) -> Option<String> {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests;
