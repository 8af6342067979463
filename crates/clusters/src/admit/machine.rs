//! What is wrong with a CloudStackMachineConfig, and what may not change in one.

use std::collections::{BTreeMap, BTreeSet};

use api::own::anywhere::{CloudStackMachineConfigSpec, DiskOffering, User};
use kit::field::{FaultKind, FieldError, FieldPath};

use crate::keys::without_comment;

/// Details that CloudStack and its provider set themselves.
const RESTRICTED: [&str; 41] = [
    "keyboard",
    "cpu.corespersocket",
    "rootdisksize",
    "boot.mode",
    "nameonhypervisor",
    "nicAdapter",
    "rootDiskController",
    "dataDiskController",
    "svga.vramSize",
    "nestedVirtualizationFlag",
    "ramReservation",
    "hypervisortoolsversion",
    "platform",
    "timeoffset",
    "kvm.vnc.port",
    "kvm.vnc.address",
    "video.hardware",
    "video.ram",
    "smc.present",
    "firmware",
    "cpuNumber",
    "cpuSpeed",
    "memory",
    "cpuOvercommitRatio",
    "memoryOvercommitRatio",
    "Message.ReservedCapacityFreed.Flag",
    "deployvm",
    "SSH.PublicKey",
    "SSH.KeyPairNames",
    "password",
    "Encrypted.Password",
    "configDriveLocation",
    "nic",
    "network",
    "ip4Address",
    "ip6Address",
    "disk",
    "diskOffering",
    "configurationId",
    "keypairnames",
    "controlNodeLoginUser",
];

/// Directories that a machine cannot start without.
const SYSTEM: [&str; 11] = ["/", "/etc", "/usr", "/boot", "/dev", "/proc", "/sys", "/bin", "/sbin", "/lib", "/lib64"];

/// Every fault of a machine configuration that can be seen from itself.
pub(super) fn faults(spec: &CloudStackMachineConfigSpec) -> Vec<FieldError> {
    let root = FieldPath::new("spec");
    let mut errors = Vec::new();
    for (field, named) in [("computeOffering", &spec.compute_offering), ("template", &spec.template)] {
        if named.is_empty() {
            errors.push(FieldError::required(root.field(field), "set id or name"));
        }
    }
    if let Some(disk) = spec.disk() {
        errors.extend(disk_faults(&root.field("diskOffering"), disk));
    }
    errors.extend(symlink_faults(&root.field("symlinks"), &spec.symlinks));
    errors.extend(user_faults(&root.field("users"), &spec.users));
    let together = matches!(spec.affinity.as_str(), "pro" | "anti");
    if !together && !matches!(spec.affinity.as_str(), "" | "no") {
        let detail = "must be pro, anti or no";
        errors.push(FieldError::with(root.field("affinity"), FaultKind::NotSupported, detail));
    }
    let groups = root.field("affinityGroupIds");
    if together && !spec.affinity_group_ids.is_empty() {
        errors.push(FieldError::forbidden(groups.clone(), "mutually exclusive"));
    }
    for (number, id) in spec.affinity_group_ids.iter().enumerate() {
        if id.is_empty() {
            errors.push(FieldError::required(groups.index(number), "required"));
        } else if spec.affinity_group_ids.iter().take(number).any(|other| other == id) {
            errors.push(FieldError::with(groups.index(number), FaultKind::Duplicate, "duplicate id"));
        }
    }
    let details = root.field("userCustomDetails");
    for key in spec.user_custom_details.keys() {
        if key.is_empty() {
            errors.push(FieldError::required(details.clone(), "required"));
        } else if RESTRICTED.contains(&key.as_str()) {
            errors.push(FieldError::forbidden(details.key(key), format!("key {key} is managed by the platform")));
        }
    }
    errors
}

fn disk_faults(path: &FieldPath, disk: &DiskOffering) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if disk.size() < 0 {
        errors.push(FieldError::with(path.field("customSizeInGB"), FaultKind::Invalid, "must be >= 0"));
    }
    if disk.id.is_empty() && disk.name.is_empty() {
        errors.push(FieldError::required(path.clone(), "set id or name"));
        return errors;
    }
    if disk.mount_path.len() < 2 || !disk.mount_path.starts_with('/') {
        errors.push(FieldError::with(path.field("mountPath"), FaultKind::Invalid, "must be absolute"));
    }
    for (field, text) in [("filesystem", &disk.filesystem), ("device", &disk.device), ("label", &disk.label)] {
        if text.is_empty() {
            errors.push(FieldError::required(path.field(field), "required"));
        }
    }
    if !disk.device.is_empty() && disk.device.strip_prefix("/dev/").is_none_or(str::is_empty) {
        errors.push(FieldError::with(path.field("device"), FaultKind::Invalid, "must be under /dev/"));
    }
    errors
}

fn symlink_faults(path: &FieldPath, symlinks: &BTreeMap<String, String>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (link, target) in symlinks {
        let at = path.key(link);
        let mut told = BTreeSet::new();
        // The root itself is told as what it is.
        let problems = [path_problem(link).filter(|_| link != "/"), path_problem(target)].into_iter().flatten();
        for problem in problems.filter(|problem| told.insert(*problem)) {
            errors.push(FieldError::with(at.clone(), FaultKind::Invalid, problem));
        }
        let (from, to) = (plain_path(link), plain_path(target));
        if from == to {
            errors.push(FieldError::with(at.clone(), FaultKind::Invalid, "must differ from its target"));
        }
        if SYSTEM.contains(&from.as_str()) {
            errors.push(FieldError::forbidden(at, "system directory"));
        }
    }
    errors
}

/// A path without the parts that lead nowhere: a directory has many spellings.
fn plain_path(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    format!("/{}", parts.join("/"))
}

fn path_problem(path: &str) -> Option<&'static str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    if !path.starts_with('/') || path.ends_with('/') {
        Some("must start and not end with /")
    } else if !path.bytes().all(plain) {
        Some("illegal character")
    } else if path.split('/').any(|part| part == "..") {
        Some("must not hold ..")
    } else {
        None
    }
}

fn user_faults(path: &FieldPath, users: &[User]) -> Vec<FieldError> {
    if users.is_empty() {
        return vec![FieldError::required(path.clone(), "at least one user")];
    }
    let mut errors = Vec::new();
    for (number, user) in users.iter().enumerate() {
        let at = path.index(number);
        if user.name.is_empty() {
            errors.push(FieldError::required(at.field("name"), "required"));
        } else if !is_user_name(&user.name) {
            errors.push(FieldError::with(at.field("name"), FaultKind::Invalid, "not a user name"));
        } else if users.iter().take(number).any(|other| other.name == user.name) {
            errors.push(FieldError::with(at.field("name"), FaultKind::Duplicate, "duplicate user"));
        }
        let keys = at.field("sshAuthorizedKeys");
        if user.ssh_authorized_keys.iter().all(|key| key.trim().is_empty()) {
            errors.push(FieldError::required(keys.clone(), "required"));
        }
        for (number, key) in user.ssh_authorized_keys.iter().enumerate() {
            if !key.trim().is_empty() && without_comment(key).is_none() {
                errors.push(FieldError::with(keys.index(number), FaultKind::Invalid, "not an ssh public key"));
            }
        }
    }
    errors
}

fn is_user_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_lowercase() || c == '_';
    name.len() <= 32
        && name.starts_with(first)
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
}

/// The changes that are not allowed: machines of one role must stay in the groups they are in.
pub(super) fn change_faults(old: &CloudStackMachineConfigSpec, new: &CloudStackMachineConfigSpec) -> Vec<FieldError> {
    let root = FieldPath::new("spec");
    let detail = "immutable, use a new machine config";
    let affinity = |spec: &CloudStackMachineConfigSpec| match spec.affinity.as_str() {
        "no" => String::new(),
        other => other.to_owned(),
    };
    let groups = |spec: &CloudStackMachineConfigSpec| spec.affinity_group_ids.iter().cloned().collect::<BTreeSet<_>>();
    let changed = [("affinity", affinity(old) != affinity(new)), ("affinityGroupIds", groups(old) != groups(new))];
    let changed = changed.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(field, _)| FieldError::forbidden(root.field(field), detail)).collect()
}
