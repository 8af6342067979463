//! The flags of the room `capacity` that change what it thinks of groups: `berth run` has them, and so has whatever
//! explains groups, so that both judge alike.

use std::collections::BTreeSet;

use api::key::ObjectKey;
use api::names::Region;
use aws::place::{Endpoints, Override};
use capacity::config::{
    AmbientUse, ClaimRules, Config, DiskFrom, FeatureGates, Headroom, Keys, LegacyGpus, MaxPods, NeuronResource,
    NodeLabel,
};
use capacity::offer::Vendor;
use capacity::quantity::Quantity;
use clap::Args;
use clap::builder::BoolishValueParser;

use crate::Usage;
use crate::cli::WatchFilter;

/// Flags that change what is thought of groups.
#[derive(Args, Clone, Debug)]
pub struct Judgement {
    /// Which keys are written: auto (legacy on OpenShift's objects, both on Cluster API's), legacy, upstream or both
    #[arg(long, value_name = "KEYS", default_value = "auto", value_parser = keys)]
    pub annotation_keys: Keys,
    /// Labels of the future node, separated by commas: arch (always), os, instance-type, region, zone
    #[arg(long, value_name = "LABELS", value_delimiter = ',', default_value = "arch")]
    pub node_labels: Vec<String>,
    /// Where the size of the disk for pods comes from: off, root-volume or instance-store
    #[arg(long, value_name = "DISK", default_value = "root-volume", value_parser = disk)]
    pub ephemeral_disk: DiskFrom,
    /// How many pods a node takes: off, eni, prefix or a number
    #[arg(long, value_name = "PODS", default_value = "off", value_parser = max_pods)]
    pub max_pods: MaxPods,
    /// Network interfaces that pods get no address from
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_pods_reserved_enis: u8,
    /// Which accelerators the older key counts: all or nvidia
    #[arg(long, value_name = "VENDORS", default_value = "all", value_parser = legacy_gpus)]
    pub legacy_gpu_vendors: LegacyGpus,
    /// What stands for Neuron devices: neuron or neuroncore
    #[arg(long, value_name = "RESOURCE", default_value = "neuron", value_parser = neuron)]
    pub neuron_resource: NeuronResource,
    /// Driver that gives accelerators away, as nvidia|amd|habana|neuron=DRIVER; repeatable
    #[arg(long, value_name = "VENDOR=DRIVER", value_parser = driver)]
    pub dra_driver: Vec<(Vendor, String)>,
    /// How many volumes of a storage driver a node takes, as DRIVER=LIMIT, 0 for no limit; repeatable
    #[arg(long, value_name = "DRIVER=LIMIT", value_parser = volumes)]
    pub csi_driver: Vec<(String, u32)>,
    /// Region of objects that name none
    #[arg(long, value_name = "REGION")]
    pub default_region: Option<Region>,
    /// Address of a service, as ec2=URL or sts=URL; repeatable
    #[arg(long, value_name = "SERVICE=URL", value_parser = endpoint)]
    pub aws_endpoint: Vec<Override>,
    /// Secret with AWS credentials for all objects
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced)]
    pub aws_credentials_secret: Option<ObjectKey>,
    /// Whether the process's own AWS credentials are used: auto, always or never
    #[arg(long, value_name = "USE", default_value = "auto", value_parser = ambient)]
    pub ambient_credentials: AmbientUse,
    /// Use the process's own AWS credentials before the Secret that an object names
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub prefer_ambient_credentials: bool,
    /// Serve Cluster API objects by the identity that their cluster names (identityRef)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub use_cluster_identity: bool,
    /// ConfigMap with a table of types, for what no catalogue knows
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced)]
    pub capacity_table: Option<ObjectKey>,
    /// Annotate MachinePools too, of AWSMachinePools and AWSManagedMachinePools
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub watch_machine_pools: bool,
    /// Annotate groups of bare-metal machines too, by the hosts behind their template's selector
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub capacity_metal3: bool,
    /// Annotate groups of machines on CloudStack too, by the compute offering of their template
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub capacity_cloudstack: bool,
    /// Withdraw our own upstream keys while a template's status says everything
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub defer_to_template_status: bool,
    /// Write what machines offer into the status of their AWSMachineTemplate, unless somebody else does
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub write_template_status: bool,
    /// Part of the memory that the kernel keeps, in percent with at most two decimals, taken off upstream keys
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent)]
    pub memory_overhead_percent: u32,
    /// What pods do not get of a node, as cpu=QUANTITY,memory=QUANTITY, taken off upstream keys
    #[arg(long, value_name = "AMOUNTS", default_value = "", hide_default_value = true, value_parser = reserved)]
    pub reserved: Reserved,
    /// Tell labels of the machines' template that Cluster API carries over to nodes
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub propagate_template_labels: bool,
    /// Tell taints of the machines' template
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub propagate_template_taints: bool,
}

/// What `--reserved` keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    milli_cpu: u64,
    memory: u64,
}

impl Judgement {
    fn labels(&self) -> Result<BTreeSet<NodeLabel>, Usage> {
        let mut labels = BTreeSet::new();
        for word in self.node_labels.iter().map(|word| word.trim()).filter(|word| !word.is_empty() && *word != "arch") {
            let found = NodeLabel::ALL.into_iter().find_map(|(name, label)| (name == word).then_some(label));
            let all = || NodeLabel::ALL.map(|(name, _)| name).join(", ");
            labels.insert(found.ok_or_else(|| Usage(format!("--node-labels: `{word}` is none of arch, {}", all())))?);
        }
        Ok(labels)
    }

    /// Where services answer, with what the environment says below the flags.
    pub fn endpoints(&self, environment: Endpoints) -> Endpoints {
        self.aws_endpoint.iter().cloned().fold(environment, Endpoints::flag)
    }

    /// What these flags say; everything else is as the room has it by itself.
    pub fn config(
        &self,
        watch_filter: &WatchFilter,
        gates: &FeatureGates,
        claims: ClaimRules,
    ) -> Result<Config, Usage> {
        Ok(Config {
            machine_api_migration: gates.machine_api_migration,
            keys: self.annotation_keys,
            node_labels: self.labels()?,
            disk: self.ephemeral_disk,
            max_pods: self.max_pods,
            reserved_interfaces: self.max_pods_reserved_enis.into(),
            legacy_gpus: self.legacy_gpu_vendors,
            neuron: self.neuron_resource,
            dra_drivers: self.dra_driver.iter().cloned().collect(),
            csi_limits: self.csi_driver.iter().cloned().collect(),
            default_region: self.default_region.clone(),
            endpoints: self.endpoints(Endpoints::new()),
            credentials: self.aws_credentials_secret.clone(),
            ambient_use: self.ambient_credentials,
            prefer_ambient: self.prefer_ambient_credentials,
            cluster_identity: self.use_cluster_identity,
            watch_filter: watch_filter.value(),
            metal: self.capacity_metal3,
            cloudstack: self.capacity_cloudstack,
            machine_pools: self.watch_machine_pools,
            table: self.capacity_table.clone(),
            template_status: self.write_template_status,
            headroom: Headroom {
                memory_share: self.memory_overhead_percent,
                milli_cpu: self.reserved.milli_cpu,
                memory: self.reserved.memory,
            },
            propagate_labels: self.propagate_template_labels,
            propagate_taints: self.propagate_template_taints,
            claims,
            defer_to_template: self.defer_to_template_status,
            ..Config::default()
        })
    }
}

fn word<T: Copy, const N: usize>(text: &str, all: [(&'static str, T); N]) -> Result<T, String> {
    let found = all.into_iter().find_map(|(name, value)| (name == text).then_some(value));
    found.ok_or_else(|| format!("`{text}` is none of {}", all.map(|(name, _)| name).join(", ")))
}

/// Reads `--annotation-keys`.
fn keys(text: &str) -> Result<Keys, String> {
    word(text, Keys::ALL)
}

fn disk(text: &str) -> Result<DiskFrom, String> {
    word(text, DiskFrom::ALL)
}

fn ambient(text: &str) -> Result<AmbientUse, String> {
    word(text, AmbientUse::ALL)
}

fn legacy_gpus(text: &str) -> Result<LegacyGpus, String> {
    word(text, [("all", LegacyGpus::All), ("nvidia", LegacyGpus::Nvidia)])
}

fn neuron(text: &str) -> Result<NeuronResource, String> {
    word(text, [("neuron", NeuronResource::Devices), ("neuroncore", NeuronResource::Cores)])
}

fn max_pods(text: &str) -> Result<MaxPods, String> {
    match text {
        "off" => Ok(MaxPods::Off),
        "eni" => Ok(MaxPods::Eni),
        "prefix" => Ok(MaxPods::Prefix),
        number => match number.parse() {
            Ok(pods) if (1..=10_000).contains(&pods) => Ok(MaxPods::Fixed(pods)),
            _ => Err(format!("`{text}` is none of off, eni, prefix and no number from 1 to 10000")),
        },
    }
}

/// Hundredths of a percent.
fn percent(text: &str) -> Result<u32, String> {
    let bad = || format!("`{text}` is no share from 0 to 50 with at most two decimals");
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 2 {
        return Err(bad());
    }
    let whole: u32 = whole.parse().map_err(|_| bad())?;
    let part: u32 = format!("{part:0<2}").parse().map_err(|_| bad())?;
    whole.checked_mul(100).and_then(|whole| whole.checked_add(part)).filter(|share| *share <= 5000).ok_or_else(bad)
}

fn reserved(text: &str) -> Result<Reserved, String> {
    let mut kept = Reserved::default();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let bad = || format!("`{pair}` is not cpu=QUANTITY or memory=QUANTITY");
        let (name, amount) = pair.split_once('=').ok_or_else(bad)?;
        let amount = Quantity::parse(amount.trim()).ok_or_else(bad)?;
        match name.trim() {
            "cpu" => kept.milli_cpu = amount.thousandths().ok_or_else(bad)?,
            "memory" => kept.memory = amount.units().ok_or_else(bad)?,
            _ => return Err(bad()),
        }
    }
    Ok(kept)
}

fn driver(text: &str) -> Result<(Vendor, String), String> {
    let bad =
        || format!("`{text}` is not VENDOR=DRIVER with a vendor of {}", Vendor::ALL.map(|(name, _)| name).join(", "));
    let (vendor, driver) = text.split_once('=').ok_or_else(bad)?;
    driver.parse::<api::names::DnsSubdomain>().map_err(|error| error.to_string())?;
    Ok((Vendor::read(vendor).ok_or_else(bad)?, driver.to_owned()))
}

fn volumes(text: &str) -> Result<(String, u32), String> {
    let bad = || format!("`{text}` is not DRIVER=LIMIT with a whole number");
    let (driver, limit) = text.split_once('=').ok_or_else(bad)?;
    driver.parse::<api::names::DnsSubdomain>().map_err(|error| error.to_string())?;
    Ok((driver.to_owned(), limit.parse().map_err(|_| bad())?))
}

/// Reads `--aws-endpoint`.
pub fn endpoint(text: &str) -> Result<Override, String> {
    text.parse().map_err(|error: aws::place::EndpointError| kit::class::chain(&error))
}

/// Reads `NAMESPACE/NAME`.
fn namespaced(text: &str) -> Result<ObjectKey, String> {
    let key: ObjectKey = text.parse().map_err(|error: api::key::KeyError| error.to_string())?;
    if key.namespace().is_none() { Err(format!("`{text}` must be NAMESPACE/NAME")) } else { Ok(key) }
}
