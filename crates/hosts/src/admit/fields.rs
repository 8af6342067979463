//! What single fields of a machine may hold.

use api::names::ProviderId;
use api::own::{AWSMachineSpec, CloudInit, Ignition, IgnitionStorage, Volume};
use kit::field::{FaultKind, FieldError, FieldPath};

use super::Of;

/// The roles of security groups.
const ROLES: [&str; 6] = ["bastion", "node", "controlplane", "apiserver-lb", "lb", "node-eks-additional"];
/// What EC2 takes for gp3, in MiB per second.
const THROUGHPUT: std::ops::RangeInclusive<i64> = 125..=2000;

/// Every fault that can be seen in a field itself.
pub(super) fn faults(spec: &AWSMachineSpec, of: Of) -> Vec<FieldError> {
    let root = of.root();
    let mut errors = faults_of_changeable(spec, &root);
    if let Some(id) = spec.provider_id.as_deref().filter(|id| !id.is_empty()) {
        errors.extend(
            id.parse::<ProviderId>()
                .err()
                .map(|error| FieldError::invalid(root.field("providerID"), id, format!("is no provider id: {error}"))),
        );
    }
    if let Some(id) = spec.host_id.as_deref().filter(|id| !is_host_id(id)) {
        errors.push(FieldError::invalid(root.field("hostID"), id, "must be h- and 17 hexadecimal digits"));
    }
    for role in spec.security_group_overrides.keys().filter(|role| !ROLES.contains(&role.as_str())) {
        let why = format!("is no role of a security group; roles are {}", ROLES.join(", "));
        let path = root.field("securityGroupOverrides");
        errors.push(FieldError::with(path, FaultKind::NotSupported, why).showing(role));
    }
    if let Some(name) = spec.ssh_key_name.as_deref().filter(|name| !is_key_name(name)) {
        let why = "must be empty or printable ASCII without blanks at its ends";
        errors.push(FieldError::invalid(root.field("sshKeyName"), name, why));
    }
    if let Some(volume) = &spec.root_volume {
        errors.extend(volume_faults(volume, &root.field("rootVolume"), of == Of::Machine));
    }
    for (number, volume) in spec.non_root_volumes.iter().enumerate() {
        let path = root.field("nonRootVolumes").index(number);
        if volume.device_name.as_deref().is_none_or(str::is_empty) {
            errors.push(FieldError::required(path.field("deviceName"), "must be given for disks other than the root"));
        }
        errors.extend(volume_faults(volume, &path, false));
    }
    if let Some(ignition) = &spec.ignition {
        if spec.cloud_init.as_ref().is_some_and(is_configured) {
            errors.push(FieldError::forbidden(root.field("cloudInit"), "must not be given together with ignition"));
        }
        errors.extend(ignition_faults(ignition, &root.field("ignition")));
    }
    if spec.placement_group_partition.is_some() && spec.placement_group_name.as_deref().is_none_or(str::is_empty) {
        let why = "must be given with placementGroupPartition";
        errors.push(FieldError::required(root.field("placementGroupName"), why));
    }
    errors
}

/// The faults of fields that can be changed after creation.
pub(super) fn faults_of_changeable(spec: &AWSMachineSpec, root: &FieldPath) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = Vec::new();
    if let Some(init) = &spec.cloud_init {
        errors.extend(cloud_init_faults(init, &root.field("cloudInit")));
    }
    let both = |group: &api::own::ResourceReference| group.id.is_some() && !group.filters.is_empty();
    if spec.additional_security_groups.iter().any(both) {
        let why = "each group is given by its id or by filters, not by both";
        errors.push(FieldError::forbidden(root.field("additionalSecurityGroups"), why));
    }
    errors
}

/// What belongs to one machine and cannot stand in a template.
pub(super) fn faults_of_template(spec: &AWSMachineSpec) -> Vec<FieldError> {
    let root = Of::Template.root();
    let init = spec.cloud_init.as_ref();
    let given = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let fields = [
        (given(&spec.provider_id), root.field("providerID")),
        (given(&spec.instance_id), root.field("instanceID")),
        (init.is_some_and(|init| given(&init.secret_prefix)), root.field("cloudInit").field("secretPrefix")),
        (init.is_some_and(|init| count(init) != 0), root.field("cloudInit").field("secretCount")),
    ];
    let forbidden = |path| FieldError::forbidden(path, "belongs to one machine and must not be given in a template");
    fields.into_iter().filter_map(|(given, path)| given.then(|| forbidden(path))).collect()
}

fn is_host_id(id: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    id.strip_prefix("h-").is_some_and(|rest| rest.len() == 17 && rest.bytes().all(hex))
}

fn is_key_name(name: &str) -> bool {
    name.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) && name.trim() == name
}

fn count(init: &CloudInit) -> i32 {
    init.secret_count.unwrap_or_default()
}

fn has_prefix(init: &CloudInit) -> bool {
    init.secret_prefix.as_deref().is_some_and(|prefix| !prefix.is_empty())
}

fn is_configured(init: &CloudInit) -> bool {
    init.skips_secrets() || count(init) != 0 || has_prefix(init) || init.secure_secrets_backend.is_some()
}

fn cloud_init_faults(init: &CloudInit, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if init.skips_secrets() {
        let why = "must not be given together with insecureSkipSecretsManager";
        let given = [(has_prefix(init), "secretPrefix"), (count(init) != 0, "secretCount")];
        let given = given.into_iter().filter_map(|(given, field)| given.then_some(field));
        errors.extend(given.map(|field| FieldError::forbidden(path.field(field), why)));
    }
    if has_prefix(init) != (count(init) != 0) {
        errors.push(FieldError::forbidden(path.field("secretCount"), "must be given together with secretPrefix"));
    }
    errors
}

fn ignition_faults(ignition: &Ignition, path: &FieldPath) -> Vec<FieldError> {
    let plain = ignition.storage_type == Some(IgnitionStorage::UnencryptedUserData);
    let old = match ignition.version.as_deref() {
        Some(version) => ["2.3", "3.0"].contains(&version),
        None => !plain,
    };
    let given = [(ignition.proxy.is_some(), "proxy"), (ignition.tls.is_some(), "tls")];
    let given = given.into_iter().filter_map(|(given, field)| (given && old).then_some(field));
    given.map(|field| FieldError::forbidden(path.field(field), "needs ignition.version 3.1 or later")).collect()
}

fn volume_faults(volume: &Volume, path: &FieldPath, bounded: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let type_ = volume.type_.as_deref().unwrap_or_default();
    if ["io1", "io2"].contains(&type_) && volume.iops.unwrap_or_default() == 0 {
        errors.push(FieldError::required(path.field("iops"), format!("must be given for the type {type_}")));
    }
    if let Some(throughput) = volume.throughput {
        let at = path.field("throughput");
        let shown = throughput.to_string();
        if type_ != "gp3" {
            errors.push(FieldError::invalid(at, &shown, "can only be given for the type gp3"));
        } else if bounded && !THROUGHPUT.contains(&throughput) {
            let why = format!("must be {} to {} MiB per second", THROUGHPUT.start(), THROUGHPUT.end());
            errors.push(FieldError::invalid(at, &shown, why));
        } else if throughput < 0 {
            errors.push(FieldError::invalid(at, &shown, "must not be negative"));
        }
    }
    errors
}
