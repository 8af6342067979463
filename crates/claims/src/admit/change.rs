//! What may not change in a claim that has a machine, and what changes nothing.

use api::own::{HostClaim, HostClaimSpec};
use kit::field::{FieldError, FieldPath};

/// The changes that are not allowed.
pub(super) fn faults(old: &HostClaim, new: &HostClaim) -> Vec<FieldError> {
    let root = FieldPath::new("spec");
    let status = old.status.clone().unwrap_or_default();
    let mut errors = Vec::new();
    if new.spec.kind != old.spec.kind {
        let detail = format!("cannot be changed, it was {:?}; create another HostClaim", old.spec.kind);
        errors.push(FieldError::forbidden(root.field("kind"), detail));
    }
    if status.is_bound() && new.spec.args != old.spec.args {
        let detail = "cannot be changed once a machine was found; create another HostClaim";
        errors.push(FieldError::forbidden(root.field("args"), detail));
    }
    if status.is_deployed() && wants(&old.spec) && wants(&new.spec) && !deploys_same(&old.spec, &new.spec) {
        let field = if new.spec.image.is_some() { "image" } else { "customDeploy" };
        let detail = "cannot be changed while the host has one; remove it first, wait until the host is available \
                      again, then set the new one";
        errors.push(FieldError::forbidden(root.field(field), detail));
    }
    errors
}

fn wants(spec: &HostClaimSpec) -> bool {
    spec.image.is_some() || spec.custom_deploy.is_some()
}

fn deploys_same(old: &HostClaimSpec, new: &HostClaimSpec) -> bool {
    let same_image = match (&old.image, &new.image) {
        (Some(old), Some(new)) => old.deploys_same(new),
        (None, None) => true,
        _ => false,
    };
    same_image && old.custom_deploy == new.custom_deploy
}

/// The changes that have no effect while the claim has a machine.
pub(super) fn warnings(old: &HostClaim, new: &HostClaim) -> Vec<String> {
    if !old.status.as_ref().is_some_and(api::own::HostClaimStatus::is_bound) {
        return Vec::new();
    }
    let (before, after) = (&old.spec, &new.spec);
    let changed = [
        ("spec.hostSelector", before.host_selector != after.host_selector),
        ("spec.failureDomain", before.failure_domain != after.failure_domain),
        ("spec.failureDomainMode", before.failure_domain_mode != after.failure_domain_mode),
    ];
    let changed = changed.into_iter().filter(|(_, changed)| *changed);
    changed
        .map(|(field, _)| {
            format!("{field}: the claim has its machine already; the change counts when it needs another")
        })
        .collect()
}
