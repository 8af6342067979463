//! Fields that are stored and not acted on.
//!
//! Where ignoring a value would break a promise it is refused; otherwise whoever writes it is told.

use api::own::{AWSMachineSpec, HostReuse, IgnitionStorage, MarketType, ReleasePolicy};
use kit::field::{FieldError, FieldPath};

/// A value that is refused because nothing acts on it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The field, below the spec.
    pub field: &'static str,
    /// What can be done instead.
    pub instead: &'static str,
}

/// What a spec asks for that is not built yet.
#[must_use]
pub fn missing(spec: &AWSMachineSpec) -> Vec<Missing> {
    let hosts = spec.dynamic_host_allocation.as_ref();
    let lookup = spec.ami.id.as_deref().is_none_or(str::is_empty);
    let given = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let stored = |storage: &api::own::Ignition| storage.storage_type != Some(IgnitionStorage::UnencryptedUserData);
    let confidential =
        |cpu: &api::own::CpuOptions| cpu.confidential_compute.as_deref().is_some_and(|c| c != "Disabled");
    let no_interfaces = "leave it out: Berth makes the interface";
    let on_demand = "leave it out: instances are on demand";
    let give_image = "give ami.id";
    let leave_out = "leave it out";
    let all = [
        (!spec.network_interfaces.is_empty(), "networkInterfaces", no_interfaces),
        (spec.cpu_options.as_ref().is_some_and(confidential), "cpuOptions.confidentialCompute", leave_out),
        (spec.ignition.as_ref().is_some_and(stored), "ignition.storageType", "give UnencryptedUserData"),
        (spec.spot_market_options.is_some(), "spotMarketOptions", on_demand),
        (spec.market_type.is_some_and(|market| market != MarketType::OnDemand), "marketType", on_demand),
        (given(&spec.capacity_reservation_id), "capacityReservationId", leave_out),
        (lookup && given(&spec.image_lookup_format), "imageLookupFormat", give_image),
        (lookup && given(&spec.image_lookup_org), "imageLookupOrg", give_image),
        (lookup && given(&spec.image_lookup_base_os), "imageLookupBaseOS", give_image),
        (given(&spec.host_resource_group_arn), "hostResourceGroupArn", leave_out),
        (!spec.license_configuration_arns.is_empty(), "licenseConfigurationArns", leave_out),
        (hosts.is_some_and(|hosts| hosts.is_shared()), "dynamicHostAllocation.sharing.policy", "give Exclusive"),
        (hosts.is_some_and(|hosts| given(&hosts.outpost_arn)), "dynamicHostAllocation.outpostArn", leave_out),
        (hosts.is_some_and(|hosts| !hosts.asset_ids.is_empty()), "dynamicHostAllocation.assetIDs", leave_out),
        (
            hosts.is_some_and(|hosts| hosts.release_policy == Some(ReleasePolicy::Background)),
            "dynamicHostAllocation.releasePolicy",
            "give WaitForRelease",
        ),
        (
            hosts.is_some_and(|hosts| hosts.capacity_fallback.is_some()),
            "dynamicHostAllocation.capacityFallback",
            leave_out,
        ),
        (
            hosts.is_some_and(|hosts| hosts.reuse == Some(HostReuse::PreferRetained)),
            "dynamicHostAllocation.reuse",
            "give Never",
        ),
    ];
    let found = all.into_iter().filter(|(given, ..)| *given);
    found.map(|(_, field, instead)| Missing { field, instead }).collect()
}

pub(super) fn faults(spec: &AWSMachineSpec, root: &FieldPath) -> Vec<FieldError> {
    let fault = |missing: Missing| {
        let path = missing.field.split('.').fold(root.clone(), |path, field| path.field(field));
        FieldError::forbidden(path, format!("asks for something that is not built yet; {}", missing.instead))
    };
    missing(spec).into_iter().map(fault).collect()
}

/// A sentence for each field that is stored and returned, and has no effect.
pub(super) fn ignored(spec: &AWSMachineSpec, root: &FieldPath) -> Vec<String> {
    let init = spec.cloud_init.as_ref();
    let given = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let ignition = spec.ignition.as_ref();
    let fields = [
        (spec.ami.eks_lookup_type.is_some(), "ami.eksLookupType"),
        (spec.elastic_ip_pool.is_some(), "elasticIpPool"),
        (spec.network_interface_type.is_some(), "networkInterfaceType"),
        (spec.assign_primary_ipv6.is_some(), "assignPrimaryIPv6"),
        (spec.private_dns_name.is_some(), "privateDnsName"),
        (given(&spec.placement_group_name), "placementGroupName"),
        (spec.placement_group_partition.is_some(), "placementGroupPartition"),
        (
            spec.cpu_options.as_ref().is_some_and(|cpu| cpu.nested_virtualization.is_some()),
            "cpuOptions.nestedVirtualization",
        ),
        (given(&spec.capacity_reservation_preference), "capacityReservationPreference"),
        (init.is_some_and(|init| given(&init.secret_prefix)), "cloudInit.secretPrefix"),
        (init.is_some_and(|init| init.secret_count.is_some_and(|count| count != 0)), "cloudInit.secretCount"),
        (init.is_some_and(|init| init.secure_secrets_backend.is_some()), "cloudInit.secureSecretsBackend"),
        (ignition.is_some_and(|ignition| ignition.proxy.is_some()), "ignition.proxy"),
        (ignition.is_some_and(|ignition| ignition.tls.is_some()), "ignition.tls"),
    ];
    let found = fields.into_iter().filter(|(given, _)| *given);
    let mut sentences: Vec<String> =
        found.map(|(_, field)| format!("{root}.{field} is stored and has no effect")).collect();
    if ignition.is_none() && !init.is_some_and(|init| init.skips_secrets()) {
        sentences.push(format!(
            "{root}.cloudInit.insecureSkipSecretsManager is not true, but no service keeps the user data: it is sent as it is, and whoever may describe the instance can read it"
        ));
    }
    sentences
}
