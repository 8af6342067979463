//! Brings a claim into the one form that is stored.

use api::names::CLUSTER_NAME_LABEL;
use api::names::claims::{BLOCK_MOVE_ANNOTATION, finalizer};
use api::own::{BAREMETAL, HostClaim, HostClaimSpec};

use crate::labels::Operator;

/// Fills in what a claim leaves out and spells what it spells otherwise: power, kind and operators; and, when it is created
/// for a kind that somebody serves, the finalizer of its kind and, if it belongs to a cluster, that a move must wait for it.
/// Each of these saves the controller a write.
pub fn normalise(claim: &mut HostClaim, old: Option<&HostClaim>, creating: bool) {
    power(&mut claim.spec, old.map(|old| &old.spec));
    if claim.spec.kind.is_empty() {
        claim.spec.kind = BAREMETAL.to_owned();
    }
    for requirement in &mut claim.spec.host_selector.match_expressions {
        if let Some(operator) = Operator::read(&requirement.operator) {
            requirement.operator = operator.as_str().to_owned();
        }
    }
    if creating && claim.metadata.deletion_timestamp.is_none() {
        let finalizer = finalizer(&claim.spec.kind);
        let finalizers = claim.metadata.finalizers.get_or_insert_default();
        if !finalizers.contains(&finalizer) {
            finalizers.push(finalizer);
        }
        let labels = claim.metadata.labels.as_ref();
        if claim.spec.kind == BAREMETAL && labels.is_some_and(|labels| labels.contains_key(CLUSTER_NAME_LABEL)) {
            let annotations = claim.metadata.annotations.get_or_insert_default();
            annotations.entry(BLOCK_MOVE_ANNOTATION.to_owned()).or_default();
        }
    }
}

/// Stores the older name of the field under the newer one, unless they contradict each other.
///
/// Whoever wrote `online` once goes on writing it, while the stored object has `poweredOn`: if only one of the two names
/// differs from what is stored, that one is what the user means.
fn power(spec: &mut HostClaimSpec, old: Option<&HostClaimSpec>) {
    let Some(online) = spec.online else { return };
    let value = match (spec.powered_on, old) {
        (None, _) => online,
        (Some(powered_on), _) if powered_on == online => online,
        (Some(powered_on), Some(old)) => match (spec.powered_on != old.powered_on, spec.online != old.online) {
            (true, false) => powered_on,
            (false, true) => online,
            _ => return,
        },
        (Some(_), None) => return,
    };
    spec.powered_on = Some(value);
    spec.online = None;
}
