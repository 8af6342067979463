//! What is filled into and what is wrong with a cluster.

use api::own::metal3::Metal3ClusterSpec;
use kit::field::{FieldError, FieldPath};

/// The port of a control plane that says none.
const PORT: i32 = 6443;

/// Fills in what is left out; filling in twice changes nothing.
pub(super) fn fill(spec: &mut Metal3ClusterSpec) {
    let endpoint = &mut spec.control_plane_endpoint;
    if !endpoint.host.is_empty() && endpoint.port.is_none_or(|port| port == 0) {
        endpoint.port = Some(PORT);
    }
    spec.cloud_provider_enabled.get_or_insert(true);
}

/// Every fault of a cluster.
pub(super) fn faults(spec: &Metal3ClusterSpec) -> Vec<FieldError> {
    let path = FieldPath::new("spec").field("controlPlaneEndpoint").field("host");
    let missing = spec.control_plane_endpoint.host.is_empty();
    missing.then(|| FieldError::required(path, "must say where the control plane is reached")).into_iter().collect()
}
