//! What the flags say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::key::ObjectKey;
use api::names::{Region, SYSTEM_NAMESPACE};
use aws::credentials::{Ambient, TokenPaths};
use aws::place::Endpoints;

use crate::offer::Vendor;

/// Which keys are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// The older ones on objects of OpenShift's Machine API, both on those of Cluster API.
    #[default]
    Auto,
    /// The older ones.
    Legacy,
    /// Those that every current cluster-autoscaler reads.
    Upstream,
    /// Both.
    Both,
}

impl Keys {
    /// Every choice, by its word.
    pub const ALL: [(&'static str, Self); 4] =
        [("auto", Self::Auto), ("legacy", Self::Legacy), ("upstream", Self::Upstream), ("both", Self::Both)];
}

/// Labels of a node that are not needed but useful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeLabel {
    /// Operating system.
    Os,
    /// Instance type.
    InstanceType,
    /// Region.
    Region,
    /// Zone.
    Zone,
}

impl NodeLabel {
    /// Every label, by its word; the architecture is always written.
    pub const ALL: [(&'static str, Self); 4] =
        [("os", Self::Os), ("instance-type", Self::InstanceType), ("region", Self::Region), ("zone", Self::Zone)];
}

/// Where the size of the disk that pods share comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskFrom {
    /// Nowhere: the key is not written.
    Off,
    /// The root disk of the machine.
    #[default]
    RootVolume,
    /// The disks that come with the machine, if it has any; else the root disk.
    InstanceStore,
}

impl DiskFrom {
    /// Every choice, by its word.
    pub const ALL: [(&'static str, Self); 3] =
        [("off", Self::Off), ("root-volume", Self::RootVolume), ("instance-store", Self::InstanceStore)];
}

/// How many pods a node takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxPods {
    /// Not said.
    #[default]
    Off,
    /// One address of the network each.
    Eni,
    /// One address each, of prefixes.
    Prefix,
    /// Always as many.
    Fixed(u64),
}

/// Which accelerators the older key counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LegacyGpus {
    /// All of them.
    #[default]
    All,
    /// NVIDIA's only, which is what OpenShift's autoscaler takes every one for.
    Nvidia,
}

/// What stands for Neuron devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NeuronResource {
    /// Devices.
    #[default]
    Devices,
    /// Cores.
    Cores,
}

/// Whether the process's own credentials are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AmbientUse {
    /// Where somebody gave the process an identity; for Cluster API objects always.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl AmbientUse {
    /// Every choice, by its word.
    pub const ALL: [(&'static str, Self); 3] = [("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)];
}

/// What pods do not get of a machine, taken off the keys that every current cluster-autoscaler reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headroom {
    /// What the kernel keeps of the memory, in hundredths of a percent.
    pub memory_share: u32,
    /// Thousandths of a processor that are kept.
    pub milli_cpu: u64,
    /// Bytes of memory that are kept.
    pub memory: u64,
}

/// Which hosts claims may have without a policy that says so: the flags of the room `claims`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRules {
    /// Those of their own namespace.
    pub same_namespace: bool,
    /// Those of namespaces without any policy.
    pub without_policy: bool,
}

impl Default for ClaimRules {
    fn default() -> Self {
        Self { same_namespace: true, without_policy: false }
    }
}

/// What the flags say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether OpenShift's move from Machine API to Cluster API is honoured.
    pub machine_api_migration: bool,
    /// Which keys are written.
    pub keys: Keys,
    /// Labels beside the architecture.
    pub node_labels: BTreeSet<NodeLabel>,
    /// The disk that pods share.
    pub disk: DiskFrom,
    /// Pods of a node.
    pub max_pods: MaxPods,
    /// Network interfaces that pods get no address from.
    pub reserved_interfaces: u64,
    /// Which accelerators the older key counts.
    pub legacy_gpus: LegacyGpus,
    /// What stands for Neuron devices.
    pub neuron: NeuronResource,
    /// Drivers that give accelerators away instead of an extended resource.
    pub dra_drivers: BTreeMap<Vendor, String>,
    /// How many volumes of each storage driver a node takes; 0 means that the driver is there and names no limit.
    pub csi_limits: BTreeMap<String, u32>,
    /// How long the catalogue of a region is fresh.
    pub catalogue_ttl: Duration,
    /// The region of objects that name none.
    pub default_region: Option<Region>,
    /// The region that the process's environment names.
    pub environment_region: Option<Region>,
    /// Endpoints of flags and environment.
    pub endpoints: Endpoints,
    /// Credentials for all objects.
    pub credentials: Option<ObjectKey>,
    /// Whether the process's own credentials are used.
    pub ambient_use: AmbientUse,
    /// Whether they come before the Secret that an object names.
    pub prefer_ambient: bool,
    /// The process's own credentials; without them, why there are none.
    pub ambient: Result<Ambient, String>,
    /// Whether Cluster API objects are served by the identity that their cluster names.
    pub cluster_identity: bool,
    /// The namespace we run in: there are the Secrets that identities name, and the ConfigMap of the catalogue.
    pub own_namespace: String,
    /// Whether the catalogue is kept in a ConfigMap, so that the next process need not ask for it.
    pub store: bool,
    /// Folders from which tokens may be read for a Secret.
    pub token_paths: TokenPaths,
    /// Only objects with this value of the label `cluster.x-k8s.io/watch-filter` are looked at.
    pub watch_filter: Option<String>,
    /// Whether a success after a failure is told.
    pub success_events: bool,
    /// Whether templates of bare-metal machines are looked at.
    pub metal: bool,
    /// Whether templates of machines on CloudStack are looked at.
    pub cloudstack: bool,
    /// Whether machine pools are looked at.
    pub machine_pools: bool,
    /// A ConfigMap with a table of types.
    pub table: Option<ObjectKey>,
    /// Whether the status of templates is written.
    pub template_status: bool,
    /// What pods do not get of a machine.
    pub headroom: Headroom,
    /// Whether labels of the template that reach the node are told.
    pub propagate_labels: bool,
    /// Whether taints of the template are told.
    pub propagate_taints: bool,
    /// Whether changes are only logged.
    pub dry_run: bool,
    /// Which hosts claims may have, for machines that are made of claims.
    pub claims: ClaimRules,
    /// Whether our own upstream keys are withdrawn while a template says everything.
    pub defer_to_template: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            machine_api_migration: false,
            keys: Keys::Auto,
            node_labels: BTreeSet::new(),
            disk: DiskFrom::RootVolume,
            max_pods: MaxPods::Off,
            reserved_interfaces: 0,
            legacy_gpus: LegacyGpus::All,
            neuron: NeuronResource::Devices,
            dra_drivers: BTreeMap::new(),
            csi_limits: BTreeMap::new(),
            catalogue_ttl: Duration::from_secs(24 * 3600),
            default_region: None,
            environment_region: None,
            endpoints: Endpoints::new(),
            credentials: None,
            ambient_use: AmbientUse::Auto,
            prefer_ambient: false,
            ambient: Err("the process was given none".to_owned()),
            cluster_identity: false,
            own_namespace: SYSTEM_NAMESPACE.to_owned(),
            store: false,
            token_paths: TokenPaths::default(),
            watch_filter: None,
            success_events: false,
            metal: false,
            cloudstack: false,
            machine_pools: false,
            table: None,
            template_status: false,
            headroom: Headroom::default(),
            propagate_labels: false,
            propagate_taints: false,
            dry_run: false,
            claims: ClaimRules::default(),
            defer_to_template: false,
        }
    }
}

impl Config {
    /// Whether an object with this watch-filter label is another controller's.
    #[must_use]
    pub fn is_foreign(&self, label: Option<&str>) -> bool {
        self.watch_filter.is_some() && self.watch_filter.as_deref() != label
    }
}

/// The gate of OpenShift's move from Machine API to Cluster API.
pub const MACHINE_API_MIGRATION: &str = "MachineAPIMigration";

/// What `--feature-gates` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// Whether [`MACHINE_API_MIGRATION`] is on.
    pub machine_api_migration: bool,
    /// Names that nobody here knows, which are passed over: OpenShift hands out its whole list.
    pub unknown: Vec<String>,
}

/// Reads `Name=bool` pairs; a later one wins.
///
/// # Errors
/// Names the pair that is none.
pub fn feature_gates<'a>(pairs: impl IntoIterator<Item = &'a str>) -> Result<FeatureGates, String> {
    let (mut all, mut own) = (None, None);
    let mut gates = FeatureGates::default();
    for pair in pairs.into_iter().flat_map(|list| list.split(',')).map(str::trim).filter(|pair| !pair.is_empty()) {
        let bad = || format!("`{pair}` is not a pair such as {MACHINE_API_MIGRATION}=true");
        let (name, value) = pair.split_once('=').ok_or_else(bad)?;
        let on = match value.trim().to_ascii_lowercase().as_str() {
            "true" | "t" | "1" => true,
            "false" | "f" | "0" => false,
            _ => return Err(bad()),
        };
        match name.trim() {
            "" => return Err(bad()),
            MACHINE_API_MIGRATION => own = Some(on),
            "AllAlpha" => all = Some(on),
            other => gates.unknown.push(other.to_owned()),
        }
    }
    gates.machine_api_migration = own.or(all).unwrap_or(false);
    Ok(gates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_later_ones_win_and_unknown_ones_are_named() {
        let read = |pairs: &[&str]| feature_gates(pairs.iter().copied());
        assert_eq!(read(&[]), Ok(FeatureGates::default()));
        assert!(read(&["MachineAPIMigration=true"]).unwrap().machine_api_migration);
        assert!(!read(&["MachineAPIMigration=true", "MachineAPIMigration=false"]).unwrap().machine_api_migration);
        assert!(read(&["AllAlpha=true"]).unwrap().machine_api_migration);
        assert!(!read(&["AllAlpha=true,MachineAPIMigration=false"]).unwrap().machine_api_migration);
        assert_eq!(read(&["A=true,B=false"]).unwrap().unknown, ["A", "B"]);
        for bad in ["MachineAPIMigration", "MachineAPIMigration=maybe", "=true", "A="] {
            assert!(read(&[bad]).is_err_and(|error| error.contains(bad)), "{bad}");
        }
    }
}
