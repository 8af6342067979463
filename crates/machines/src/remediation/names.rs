//! Names about remediation: finalizer, annotations and the taint, ours and those of Metal3 and Kubernetes.

use api::names::claims::REBOOT_PREFIX;

/// Finalizer of a Metal3Remediation of a machine on a claim; another one than the Metal3 provider's, so that each side knows its
/// own objects by it.
pub const FINALIZER: &str = "berth.dev/metal3remediation";
/// Annotation on a Metal3Remediation: the annotations of the Node before it was deleted.
pub const ANNOTATIONS_BACKUP: &str = "remediation.metal3.io/node-annotations-backup";
/// Annotation on a Metal3Remediation: the labels of the Node before it was deleted.
pub const LABELS_BACKUP: &str = "remediation.metal3.io/node-labels-backup";
/// Value of the annotation that keeps a host off: it is ill, so nothing is gained by asking it to shut down.
pub const HARD: &str = r#"{"mode":"hard"}"#;
/// Value of the annotation that says that a host must not be used again, as the Metal3 provider writes it.
pub const UNHEALTHY: &str = "capm3/UnhealthyNode";
/// Taint by which Kubernetes moves pods and volumes off a Node that is surely off.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The value of that taint.
pub const SHUTDOWN: &str = "nodeshutdown";
/// The first minor version of Kubernetes that acts on it without being asked to.
pub const OUT_OF_SERVICE_SINCE: u32 = 28;
/// Condition of a Machine: its owner replaces it.
pub const OWNER_REMEDIATED: &str = "OwnerRemediated";
/// Reason of that condition while it is asked for.
pub const WAITING_FOR_REMEDIATION: &str = "WaitingForRemediation";

/// Annotation on the claim that keeps its host off for one remediation.
#[must_use]
pub fn power_off(uid: &str) -> String {
    format!("{REBOOT_PREFIX}metal3-remediation-{uid}")
}
