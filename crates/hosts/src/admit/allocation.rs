//! What a machine may ask of the hosts that are allocated for it.

use api::names::{AvailabilityZone, InstanceFamily, InstanceType};
use api::own::{AWSMachineSpec, DynamicHostAllocation, SharingPolicy};
use kit::field::{FieldError, FieldPath};

use super::Of;

const QUANTITIES: std::ops::RangeInclusive<i32> = 1..=10;

/// Every fault of the block `dynamicHostAllocation`, apart from its tags.
pub(super) fn faults(spec: &AWSMachineSpec, hosts: &DynamicHostAllocation, root: &FieldPath) -> Vec<FieldError> {
    let path = root.field("dynamicHostAllocation");
    let mut errors = type_faults(spec, hosts, &path);
    errors.extend(hosts.availability_zone.iter().filter_map(|zone| zone_fault(path.field("availabilityZone"), zone)));
    let zones = hosts.capacity_fallback.iter().flat_map(|fallback| fallback.zones.iter().enumerate());
    let at = path.field("capacityFallback").field("zones");
    errors.extend(zones.filter_map(|(number, zone)| zone_fault(at.index(number), zone)));
    if let Some(quantity) = hosts.quantity.filter(|quantity| !QUANTITIES.contains(quantity)) {
        let why = format!("must be {} to {}", QUANTITIES.start(), QUANTITIES.end());
        errors.push(FieldError::invalid(path.field("quantity"), &quantity.to_string(), why));
    }
    if !hosts.asset_ids.is_empty() {
        if hosts.outpost_arn.is_none() {
            errors.push(FieldError::required(path.field("outpostArn"), "must be given with assetIDs"));
        }
        if usize::try_from(hosts.hosts()) != Ok(hosts.asset_ids.len()) {
            let why = format!("must be the number of assetIDs, {}", hosts.asset_ids.len());
            errors.push(FieldError::invalid(path.field("quantity"), &hosts.hosts().to_string(), why));
        }
    }
    if let Some(sharing) = &hosts.sharing
        && sharing.policy == Some(SharingPolicy::Shared)
        && sharing.group.as_deref().is_none_or(str::is_empty)
    {
        let group = path.field("sharing").field("group");
        errors.push(FieldError::required(group, "must be given when the policy is Shared"));
    }
    errors
}

/// Family and type, which must be the machine's own: a host takes nothing else.
fn type_faults(spec: &AWSMachineSpec, hosts: &DynamicHostAllocation, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let own_family = spec.instance_type.split_once('.').map(|(family, _)| family);
    if let Some(family) = &hosts.instance_family {
        let at = path.field("instanceFamily");
        match family.parse::<InstanceFamily>() {
            Err(error) => errors.push(FieldError::invalid(at, family, format!("is no family: {error}"))),
            Ok(_) if own_family != Some(family.as_str()) => {
                let why = format!("must be the family of instanceType, which is {:?}", spec.instance_type);
                errors.push(FieldError::invalid(at, family, why));
            }
            Ok(_) => {}
        }
    }
    if let Some(type_) = &hosts.instance_type {
        let at = path.field("instanceType");
        match type_.parse::<InstanceType>() {
            Err(error) => errors.push(FieldError::invalid(at, type_, format!("is no instance type: {error}"))),
            Ok(parsed) => {
                if *type_ != spec.instance_type {
                    let why = format!("must be the machine's own instanceType, which is {:?}", spec.instance_type);
                    errors.push(FieldError::invalid(at.clone(), type_, why));
                }
                if let Some(family) = hosts.instance_family.as_ref().filter(|f| parsed.family().as_str() != f.as_str())
                {
                    errors.push(FieldError::invalid(
                        at,
                        type_,
                        format!("must be of instanceFamily, which is {family:?}"),
                    ));
                }
            }
        }
    }
    errors
}

fn zone_fault(at: FieldPath, zone: &str) -> Option<FieldError> {
    let error = zone.parse::<AvailabilityZone>().err()?;
    Some(FieldError::invalid(at, zone, format!("is no zone: {error}")))
}

/// What more than one host costs.
pub(super) fn warning(spec: &AWSMachineSpec, of: Of) -> Option<String> {
    let quantity = spec.dynamic_host_allocation.as_ref()?.hosts();
    let field = of.root().field("dynamicHostAllocation").field("quantity");
    match of {
        _ if quantity <= 1 => None,
        Of::Machine => {
            Some(format!("{field}: {quantity} hosts are allocated and paid for; the machine runs on one of them"))
        }
        Of::Template => Some(format!(
            "{field}: each machine of this template allocates {quantity} hosts: {quantity} times the number of replicas are paid for"
        )),
    }
}
