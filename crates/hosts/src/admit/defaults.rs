//! What is filled in.

use api::own::{AWSMachineSpec, HostAffinity, IgnitionStorage, Tenancy};

/// Fills in what is left out; filling in twice changes nothing.
pub fn fill(spec: &mut AWSMachineSpec) {
    if let Some(hosts) = &mut spec.dynamic_host_allocation {
        spec.tenancy.get_or_insert(Tenancy::Host);
        spec.host_affinity.get_or_insert(HostAffinity::Host);
        hosts.quantity.get_or_insert(1);
        hosts.auto_release.get_or_insert(true);
    }
    let options = spec.instance_metadata_options.take().unwrap_or_default();
    spec.instance_metadata_options = Some(options.filled());
    if let Some(ignition) = &mut spec.ignition {
        let storage = *ignition.storage_type.get_or_insert_default();
        if storage != IgnitionStorage::UnencryptedUserData {
            ignition.version.get_or_insert_with(|| "2.3".to_owned());
        }
    }
}
