//! What the log keeps of effects that nobody can take back: for whom, on what, why, and what proved that it might be
//! done.
//!
//! Who deleted an object stands in the audit log of the API server; the uid and the time here lead to that line.

use api::names::hosts::ABANDON_HOST_ANNOTATION;
use api::names::{HostId, InstanceId, Region};

use crate::journal::{Allocation, Cause};
use crate::snapshot::Snapshot;

/// What proves that a host is the machine's to give back, which the guard has looked at.
const HOST_PROOF: &str = "machine name and allocation id";

fn region(s: &Snapshot) -> &str {
    s.scope.as_ref().map(|scope| &scope.region).map(Region::as_str).unwrap_or_default()
}

/// An instance is about to be ended. Told before it is asked for: the answer may be lost.
pub(super) fn ends(s: &Snapshot, instance: &InstanceId) {
    let shown = s.sight().and_then(|sight| sight.instances.iter().find(|shown| shown.id == *instance));
    let host = shown.and_then(|shown| shown.host.as_ref()).map(HostId::as_str).unwrap_or_default();
    tracing::info!(
        object = %s.key, uid = %s.machine.uid, deleted = ?s.machine.deleted_at,
        cluster = s.cluster_name().unwrap_or_default(), region = region(s),
        instance_id = %instance, host_id = host,
        reason = Cause::Deleted.as_str(), proof = shown.and_then(|shown| s.proof_of(shown)).unwrap_or_default(),
        "an instance is being terminated"
    );
}

/// A host was given back, or may have been: nobody knows what became of a request without an answer.
pub(super) fn released(s: &Snapshot, host: &HostId, answered: bool) {
    let journal = s.journal();
    let allocation = journal.allocation.as_ref();
    let id = allocation.map(|allocation| allocation.id.as_str()).unwrap_or_default();
    let reason = allocation.and_then(|allocation| allocation.cause).map(Cause::as_str).unwrap_or_default();
    let state = s.sight().and_then(|sight| sight.hosts.get(host)).map(|shown| &shown.state);
    let (cluster, region) = (s.cluster_name().unwrap_or_default(), region(s));
    if answered {
        tracing::info!(
            object = %s.key, uid = %s.machine.uid, deleted = ?s.machine.deleted_at, cluster, region, host_id = %host,
            reason, proof = HOST_PROOF, allocation = id, ?state, "host released"
        );
    } else {
        tracing::warn!(
            object = %s.key, uid = %s.machine.uid, deleted = ?s.machine.deleted_at, cluster, region, host_id = %host,
            reason, proof = HOST_PROOF, allocation = id, ?state, "nobody knows whether the host was released"
        );
    }
}

/// Hosts were given up by force: whatever they cost is somebody else's to end.
pub(super) fn abandoned(s: &Snapshot, allocation: &Allocation) {
    let hosts: Vec<&str> = allocation.hosts.iter().map(HostId::as_str).collect();
    tracing::warn!(
        object = %s.key, uid = %s.machine.uid, deleted = ?s.machine.deleted_at,
        cluster = s.cluster_name().unwrap_or_default(), region = region(s), host_id = hosts.join(", "),
        token = %allocation.token, proof = ABANDON_HOST_ANNOTATION, "hosts abandoned by order of an operator"
    );
}
