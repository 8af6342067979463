//! Names about claims on hosts: annotations, labels and finalizers, ours and those of Metal3 and Cluster API.

use super::GROUP;
use crate::own::BAREMETAL;

/// Finalizer of claims of the kind baremetal.
pub const BAREMETAL_FINALIZER: &str = "metal3.io/hostclaim";
/// Annotation on claim and host: reboot once; followed by `/` and a key: keep off while it is there.
pub const REBOOT_ANNOTATION: &str = "reboot.metal3.io";
/// Start of the annotation on claim and host that keeps a machine off while it is there; a key follows.
pub const REBOOT_PREFIX: &str = "reboot.metal3.io/";
/// So many reboots a claim holds on its host at most: each is an annotation there, which has no room for any number.
pub const HELD_REBOOTS: usize = 8;
/// Annotation on claim and host: leave the machine alone as it is.
pub const DETACHED_ANNOTATION: &str = "baremetalhost.metal3.io/detached";
/// Value of the detached annotation on a host when a claim asked for it.
pub const DETACHED_BY_CLAIM: &str = r#"{"setByHostClaim":true}"#;
/// Annotation on a host: its controller does nothing.
pub const HOST_PAUSED_ANNOTATION: &str = "baremetalhost.metal3.io/paused";
/// Value of the paused annotation on a host when a claim asked for it; any other value is somebody else's.
pub const HOST_PAUSED_BY_CLAIM: &str = "metal3.io/hostclaim";
/// Annotation on a host: its status, for a move to another cluster.
pub const HOST_STATUS_ANNOTATION: &str = "baremetalhost.metal3.io/status";
/// Annotation on claim and host: clusterctl waits before it moves the object.
pub const BLOCK_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/block-move";
/// Annotation on claim and host: the object was moved and goes without being released.
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// Label on a host: its failure domain.
pub const FAILURE_DOMAIN_LABEL: &str = "infrastructure.cluster.x-k8s.io/failure-domain";
/// Label on a host: the reuse group it is kept for, as a digest.
pub const NODE_REUSE_LABEL: &str = "infrastructure.cluster.x-k8s.io/node-reuse";
/// Annotation on a host or claim: it must not be used.
pub const UNHEALTHY_ANNOTATION: &str = "capm3.metal3.io/unhealthy";
/// The older name of the annotation that says that a host must not be used.
pub const UNHEALTHY_ANNOTATION_OLD: &str = "capi.metal3.io/unhealthy";
/// Value of the unhealthy annotation on a host that was let go without being cleaned.
pub const FORCE_RELEASED: &str = "force-released";
/// Label on a Secret by which the host controller sees it.
pub const ENVIRONMENT_LABEL: &str = "environment.metal3.io";
/// Value of that label.
pub const ENVIRONMENT_BAREMETAL: &str = "baremetal";
/// Label on the node of a host: the uid of the host.
pub const NODE_UUID_LABEL: &str = "metal3.io/uuid";

/// Annotation on a host: what the admin had set when it was bound, to be restored at release.
pub const INFRA_DEFAULTS_ANNOTATION: &str = "berth.dev/infra-defaults";
/// Annotation on a host: the end of its reservation for reuse.
pub const REUSE_UNTIL_ANNOTATION: &str = "berth.dev/reuse-until";
/// Annotation on a host: the reuse group it is kept for, readable.
pub const REUSE_GROUP_ANNOTATION: &str = "berth.dev/reuse-group";
/// Annotation on a host: the admin's order to let a stuck claim go and to set the host aside.
pub const FORCE_RELEASE_ANNOTATION: &str = "berth.dev/force-release";
/// Annotation on a host: which one-shot reboot of a claim it has been given.
pub const REBOOT_ID_ANNOTATION: &str = "berth.dev/reboot-id";
/// Annotation on a host: the uid of a claim that the host failed and that gives it back for another one.
pub const REPLACING_ANNOTATION: &str = "berth.dev/replacing";
/// Annotation on a free host, for a moment only: it makes a version of the host that no write on its way knows.
pub const FENCE_ANNOTATION: &str = "berth.dev/fence";
/// Annotation on a copy of a Secret: the version of the Secret it was copied from.
pub const SOURCE_VERSION_ANNOTATION: &str = "berth.dev/source-version";
/// Annotation on a HardwareData: the keys of the labels and annotations that were put on it for the catalogue.
pub const CATALOGUE_ANNOTATION: &str = "berth.dev/catalogue";
/// Label on a copy of a Secret: the uid of the claim it was made for.
pub const CLAIM_UID_LABEL: &str = "berth.dev/claim-uid";
/// Start of the annotation on a host that one tenant is not to get; 8 hexadecimal digits follow.
pub const AVOID_PREFIX: &str = "berth.dev/avoid-";
/// Annotation on a host: how the simulator treats it.
pub const SIM_ANNOTATION: &str = "berth.dev/sim";

/// A label that every host has without carrying it: its name.
pub const HOST_NAME_LABEL: &str = "berth.dev/host-name";
/// A label that every inspected host has without carrying it: its architecture.
pub const ARCH_LABEL: &str = "berth.dev/arch";
/// A label that every inspected host has without carrying it: its memory in GiB.
pub const RAM_LABEL: &str = "berth.dev/ram-gib";
/// A label that every inspected host has without carrying it: its number of processors.
pub const CPU_COUNT_LABEL: &str = "berth.dev/cpu-count";
/// A label that every inspected host has without carrying it: its number of network interfaces.
pub const NIC_COUNT_LABEL: &str = "berth.dev/nic-count";

/// The finalizer of claims of a kind; each kind has its own and removes no other.
#[must_use]
pub fn finalizer(kind: &str) -> String {
    if kind == BAREMETAL { BAREMETAL_FINALIZER.to_owned() } else { format!("{kind}.{GROUP}/hostclaim") }
}
