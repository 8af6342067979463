//! What is filled into and what is wrong with a remediation, alone or in a template.

use api::own::metal3::{Metal3RemediationSpec, REBOOT};
use kit::field::{FaultKind, FieldError, FieldPath};

/// The shortest time that one try may take, in seconds.
const SHORTEST: i32 = 100;

/// Fills in what is left out; filling in twice changes nothing.
pub(super) fn fill(spec: &mut Metal3RemediationSpec) {
    let strategy = spec.strategy.get_or_insert_default();
    if strategy.type_.is_empty() {
        strategy.type_ = REBOOT.to_owned();
    }
}

/// Every fault of a remediation.
pub(super) fn faults(root: &FieldPath, spec: &Metal3RemediationSpec) -> Vec<FieldError> {
    let path = root.field("strategy");
    let Some(strategy) = &spec.strategy else {
        return vec![FieldError::required(path, "must say what is done")];
    };
    let mut errors = Vec::new();
    if strategy.type_ != REBOOT {
        let fault = FieldError::with(path.field("type"), FaultKind::NotSupported, "must be Reboot");
        errors.push(fault.showing(&strategy.type_));
    }
    if strategy.retry_limit < 1 {
        let limit = strategy.retry_limit.to_string();
        errors.push(FieldError::invalid(path.field("retryLimit"), &limit, "must be at least 1"));
    }
    if strategy.timeout_seconds < SHORTEST {
        let given = strategy.timeout_seconds.to_string();
        let detail = format!("must be at least {SHORTEST}");
        errors.push(FieldError::invalid(path.field("timeoutSeconds"), &given, detail));
    }
    errors
}
