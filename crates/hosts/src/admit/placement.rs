//! Which hardware a machine may ask for.

use api::own::{AWSMachineSpec, HostAffinity, MarketType, Tenancy};
use kit::field::{FieldError, FieldPath};

use super::Of;

/// Contradictions between tenancy, affinity, a named host and allocated ones.
///
/// A pair of affinity and tenancy that was contradictory before this rule existed may stay as it is.
pub(super) fn faults(spec: &AWSMachineSpec, old: Option<&AWSMachineSpec>, of: Of) -> Vec<FieldError> {
    let root = of.root();
    let forbidden = |field: &str, why: &str| FieldError::forbidden(root.field(field), why);
    let on_host = spec.tenancy == Some(Tenancy::Host);
    let pinned = spec.host_affinity == Some(HostAffinity::Host);
    match (spec.host_id.is_some(), spec.dynamic_host_allocation.is_some()) {
        (true, true) => vec![
            forbidden("hostID", "must not be given together with dynamicHostAllocation: a host is named or allocated"),
            forbidden("dynamicHostAllocation", "must not be given together with hostID: a host is named or allocated"),
        ],
        (false, true) if spec.tenancy.is_some_and(|tenancy| tenancy != Tenancy::Host) => {
            vec![forbidden("dynamicHostAllocation", "needs tenancy host; leave tenancy out")]
        }
        (false, true) if spec.host_affinity == Some(HostAffinity::Default) => vec![forbidden(
            "dynamicHostAllocation",
            "needs hostAffinity host, or the instance could leave a host that is paid for; leave hostAffinity out",
        )],
        (false, true) => Vec::new(),
        (true, false) if !on_host => vec![forbidden("hostID", "needs tenancy host")],
        (true, false) => Vec::new(),
        (false, false) if pinned && !on_host && !old.is_some_and(pinned_to_nothing) => {
            vec![forbidden("hostAffinity", "host needs tenancy host")]
        }
        (false, false) if pinned && on_host && of == Of::Template && !old.is_some_and(|old| old == spec) => {
            let why =
                "must be given for hostAffinity host in a template; or give dynamicHostAllocation instead of both";
            vec![FieldError::required(root.field("hostID"), why)]
        }
        (false, false) => Vec::new(),
    }
}

/// Affinity to a host without being on one.
fn pinned_to_nothing(spec: &AWSMachineSpec) -> bool {
    spec.host_affinity == Some(HostAffinity::Host)
        && spec.tenancy != Some(Tenancy::Host)
        && spec.host_id.is_none()
        && spec.dynamic_host_allocation.is_none()
}

/// What EC2 refuses on dedicated hosts: said here, it costs no host.
pub(super) fn faults_on_hosts(spec: &AWSMachineSpec, root: &FieldPath) -> Vec<FieldError> {
    let mut errors = resource_group_faults(spec, root);
    if spec.effective_tenancy() != Tenancy::Host {
        return errors;
    }
    let mut refuse = |refused: bool, field: &str, why: &str| {
        if refused {
            errors.push(FieldError::forbidden(root.field(field), why));
        }
    };
    let given = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let group = "is refused by EC2 with tenancy host: dedicated hosts are in no placement group";
    refuse(given(&spec.placement_group_name), "placementGroupName", group);
    refuse(spec.placement_group_partition.is_some(), "placementGroupPartition", group);
    let market = "is refused by EC2 with tenancy host: instances on dedicated hosts are on demand";
    refuse(spec.market_type.is_some_and(|market| market != MarketType::OnDemand), "marketType", market);
    refuse(spec.spot_market_options.is_some(), "spotMarketOptions", market);
    let reserved = "is refused by EC2 with tenancy host: capacity reservations are not for dedicated hosts";
    refuse(given(&spec.capacity_reservation_id), "capacityReservationId", reserved);
    let only = spec.capacity_reservation_preference.as_deref() == Some("CapacityReservationsOnly");
    refuse(only, "capacityReservationPreference", reserved);
    errors
}

/// A host resource group chooses, allocates and releases hosts by itself.
fn resource_group_faults(spec: &AWSMachineSpec, root: &FieldPath) -> Vec<FieldError> {
    if spec.host_resource_group_arn.is_none() {
        return Vec::new();
    }
    let excluded = [
        (spec.host_id.is_some(), "hostID"),
        (spec.dynamic_host_allocation.is_some(), "dynamicHostAllocation"),
        (spec.host_affinity == Some(HostAffinity::Host), "hostAffinity host"),
        (spec.tenancy.is_some_and(|tenancy| tenancy != Tenancy::Host), "a tenancy other than host"),
    ];
    let found: Vec<&str> = excluded.into_iter().filter_map(|(given, what)| given.then_some(what)).collect();
    if found.is_empty() {
        return Vec::new();
    }
    let why = format!("must not be given together with {}: EC2 chooses the host", found.join(", "));
    vec![FieldError::forbidden(root.field("hostResourceGroupArn"), why)]
}
