//! The room `capacity`: its flags, and how they become a room with a way to AWS and CloudStack.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use api::key::ObjectKey;
use api::names::Region;
use aws::credentials::{Ambient, AmbientError, Files, TokenPaths};
use aws::place::{Endpoints, Override};
use capacity::cloud::Both;
use capacity::config::{
    AmbientUse, ClaimRules, Config, DiskFrom, FeatureGates, Headroom, Keys, LegacyGpus, MaxPods, NeuronResource,
    NodeLabel, feature_gates,
};
use capacity::offer::Vendor;
use capacity::quantity::Quantity;
use clap::Args;
use clap::builder::BoolishValueParser;
use kit::manager::Manager;

use crate::Usage;
use crate::claims::{Admission, YardOptions};
use crate::cli::{RunOptions, WatchFilter, duration};
use crate::serving::Listener;

/// A shorter life of the catalogue would spend the account's requests on lists.
const SHORTEST_TTL: Duration = Duration::from_secs(600);

/// Flags of the room `capacity`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Capacity")]
pub struct CapacityOptions {
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
    /// How long the list of a region's instance types is fresh, at least 10m
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = ttl)]
    pub instance_type_cache_ttl: Duration,
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
    /// Directories that the token path in a Secret may point into, separated by commas
    #[arg(
        long,
        value_name = "DIRS",
        value_delimiter = ',',
        default_value = "/var/run/secrets/openshift/serviceaccount,/var/run/secrets/eks.amazonaws.com/serviceaccount"
    )]
    pub token_path_allowlist: Vec<PathBuf>,
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
    /// Log what would be written, and write nothing; with --controllers=capacity only
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub dry_run: bool,
    /// Say so when annotations are right again after a failure
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub success_events: bool,
}

/// What `--reserved` keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    milli_cpu: u64,
    memory: u64,
}

impl CapacityOptions {
    fn labels(&self) -> Result<BTreeSet<NodeLabel>, Usage> {
        let mut labels = BTreeSet::new();
        for word in self.node_labels.iter().map(|word| word.trim()).filter(|word| !word.is_empty() && *word != "arch") {
            let found = NodeLabel::ALL.into_iter().find_map(|(name, label)| (name == word).then_some(label));
            let all = || NodeLabel::ALL.map(|(name, _)| name).join(", ");
            labels.insert(found.ok_or_else(|| Usage(format!("--node-labels: `{word}` is none of arch, {}", all())))?);
        }
        Ok(labels)
    }

    /// What the flags and the environment say; where we run is for whoever mounts the room.
    pub fn config(
        &self,
        watch_filter: &WatchFilter,
        gates: &FeatureGates,
        vars: &BTreeMap<String, String>,
        ambient: Result<Ambient, String>,
        yard: &YardOptions,
    ) -> Result<Config, Usage> {
        let environment = Endpoints::new().environment(vars);
        let environment = environment.map_err(|error| Usage(format!("environment: {}", kit::class::chain(&error))))?;
        let region =
            ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| vars.get(*name).filter(|v| !v.is_empty()));
        let region =
            region.map(|text| text.parse().map_err(|error| Usage(format!("AWS_REGION: {error}")))).transpose()?;
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
            catalogue_ttl: self.instance_type_cache_ttl,
            default_region: self.default_region.clone(),
            environment_region: region,
            endpoints: self.aws_endpoint.iter().cloned().fold(environment, Endpoints::flag),
            credentials: self.aws_credentials_secret.clone(),
            ambient_use: self.ambient_credentials,
            prefer_ambient: self.prefer_ambient_credentials,
            ambient,
            cluster_identity: self.use_cluster_identity,
            token_paths: TokenPaths::new(self.token_path_allowlist.iter().cloned()),
            watch_filter: watch_filter.value(),
            success_events: self.success_events,
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
            dry_run: self.dry_run,
            claims: claim_rules(yard),
            defer_to_template: self.defer_to_template_status,
            ..Config::default()
        })
    }
}

/// Which hosts claims may have, by the flags of the room `claims`.
pub fn claim_rules(yard: &YardOptions) -> ClaimRules {
    ClaimRules { same_namespace: yard.admit_same_namespace, without_policy: yard.default_admission == Admission::Allow }
}

/// Reads `--feature-gates`, for whichever rooms run.
pub fn gates(options: &RunOptions) -> Result<FeatureGates, Usage> {
    feature_gates(options.feature_gates.iter().map(String::as_str))
        .map_err(|error| Usage(format!("--feature-gates: {error}")))
}

/// Checks the flags of the room.
pub fn check(options: &RunOptions) -> Result<(), Usage> {
    let vars = environment();
    options.capacity.config(
        &options.watch_filter,
        &gates(options)?,
        &vars,
        Err(String::new()),
        &options.claims.yard,
    )?;
    let alone = !options.controllers.is_empty() && options.controllers.iter().all(|room| room == "capacity");
    if options.capacity.dry_run && !alone {
        let told = "--dry-run: works with --controllers=capacity only, because other rooms would go on writing";
        return Err(Usage(told.to_owned()));
    }
    // Half an identity would fall through to somebody else's in silence.
    if options.capacity.ambient_credentials != AmbientUse::Never
        && let Err(error @ AmbientError::Half { .. }) = Ambient::decide(&vars, &Files::default())
    {
        return Err(Usage(error.to_string()));
    }
    Ok(())
}

/// Adds the room.
pub fn mount(manager: &Manager, options: &RunOptions) -> anyhow::Result<Vec<Listener>> {
    let (vars, gates) = (environment(), gates(options)?);
    for name in &gates.unknown {
        tracing::warn!(gate = name, "unknown feature gate, passed over");
    }
    let config =
        options.capacity.config(&options.watch_filter, &gates, &vars, ambient_source(&vars), &options.claims.yard)?;
    let own_namespace = crate::run::own_namespace(manager.client(), options);
    let config = Config { own_namespace, store: true, ..config };
    let ways = Both { aws: crate::cloud::aws(manager, options), acs: crate::cloud::acs(manager, options) };
    capacity::mount(manager, config, ways)?;
    Ok(Vec::new())
}

/// The process's own credentials; without any, why there are none.
pub fn ambient_source(vars: &BTreeMap<String, String>) -> Result<Ambient, String> {
    let files =
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(aws::net::shared_files(vars)));
    let files = files.map_err(|error| format!("the shared files cannot be read: {error}"))?;
    Ambient::decide(vars, &files).map_err(|error| kit::class::chain(&error))
}

/// The environment, as far as it is text.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn word<T: Copy, const N: usize>(text: &str, all: [(&'static str, T); N]) -> Result<T, String> {
    let found = all.into_iter().find_map(|(name, value)| (name == text).then_some(value));
    found.ok_or_else(|| format!("`{text}` is none of {}", all.map(|(name, _)| name).join(", ")))
}

/// Reads `--annotation-keys`.
pub fn keys(text: &str) -> Result<Keys, String> {
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
pub fn namespaced(text: &str) -> Result<ObjectKey, String> {
    let key: ObjectKey = text.parse().map_err(|error: api::key::KeyError| error.to_string())?;
    if key.namespace().is_none() { Err(format!("`{text}` must be NAMESPACE/NAME")) } else { Ok(key) }
}

fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration(text)?;
    if ttl < SHORTEST_TTL { Err(format!("`{text}` is shorter than 10m")) } else { Ok(ttl) }
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::Parser;

    use super::*;
    use crate::cli::tests::run_options as read;

    fn config(args: &[&str], vars: &[(&str, &str)]) -> Result<Config, Usage> {
        let options = read(args);
        let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let ambient = Err("the process was given none".to_owned());
        options.capacity.config(&options.watch_filter, &gates(&options)?, &vars, ambient, &options.claims.yard)
    }

    #[test]
    fn without_flags_the_room_is_set_up_by_its_own_defaults() {
        assert_eq!(config(&[], &[]).unwrap(), Config::default());
    }

    #[test]
    fn every_flag_reaches_the_room() {
        let found = config(
            &[
                "--annotation-keys=both",
                "--node-labels=arch,os,zone",
                "--ephemeral-disk=instance-store",
                "--max-pods=prefix",
                "--max-pods-reserved-enis=1",
                "--legacy-gpu-vendors=nvidia",
                "--neuron-resource=neuroncore",
                "--dra-driver=nvidia=gpu.nvidia.com",
                "--csi-driver=ebs.csi.aws.com=25",
                "--instance-type-cache-ttl=1h",
                "--default-region=eu-west-1",
                "--aws-endpoint=ec2=http://127.0.0.1:5000",
                "--aws-credentials-secret=a/b",
                "--ambient-credentials=always",
                "--prefer-ambient-credentials",
                "--use-cluster-identity",
                "--token-path-allowlist=/a,/b",
                "--capacity-table=c/d",
                "--capacity-metal3",
                "--watch-machine-pools",
                "--defer-to-template-status",
                "--success-events",
                "--write-template-status",
                "--memory-overhead-percent=7.5",
                "--reserved=cpu=100m,memory=1Gi",
                "--propagate-template-labels",
                "--propagate-template-taints",
                "--dry-run",
                "--default-admission=allow",
                "--watch-filter=mine",
                "--feature-gates=MachineAPIMigration=true,Other=false",
            ],
            &[("AWS_REGION", "us-east-2"), ("AWS_ENDPOINT_URL_STS", "https://sts.example")],
        )
        .unwrap();
        let vars = BTreeMap::from([("AWS_ENDPOINT_URL_STS".to_owned(), "https://sts.example".to_owned())]);
        let wanted = Config {
            machine_api_migration: true,
            keys: Keys::Both,
            node_labels: [NodeLabel::Os, NodeLabel::Zone].into(),
            disk: DiskFrom::InstanceStore,
            max_pods: MaxPods::Prefix,
            reserved_interfaces: 1,
            legacy_gpus: LegacyGpus::Nvidia,
            neuron: NeuronResource::Cores,
            dra_drivers: [(Vendor::Nvidia, "gpu.nvidia.com".to_owned())].into(),
            csi_limits: [("ebs.csi.aws.com".to_owned(), 25)].into(),
            catalogue_ttl: Duration::from_secs(3600),
            default_region: "eu-west-1".parse().ok(),
            environment_region: "us-east-2".parse().ok(),
            endpoints: Endpoints::new().environment(&vars).unwrap().flag("ec2=http://127.0.0.1:5000".parse().unwrap()),
            credentials: Some(ObjectKey::namespaced("a", "b")),
            ambient_use: AmbientUse::Always,
            prefer_ambient: true,
            ambient: Err("the process was given none".to_owned()),
            cluster_identity: true,
            token_paths: TokenPaths::new([PathBuf::from("/a"), PathBuf::from("/b")]),
            watch_filter: Some("mine".to_owned()),
            success_events: true,
            metal: true,
            machine_pools: true,
            table: Some(ObjectKey::namespaced("c", "d")),
            template_status: true,
            headroom: Headroom { memory_share: 750, milli_cpu: 100, memory: 1 << 30 },
            propagate_labels: true,
            propagate_taints: true,
            dry_run: true,
            claims: ClaimRules { same_namespace: true, without_policy: true },
            defer_to_template: true,
            ..Config::default()
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_cannot_work_is_refused_by_the_name_of_its_flag() {
        for (arg, part) in [
            ("--annotation-keys=some", "none of auto"),
            ("--ephemeral-disk=big", "none of off"),
            ("--max-pods=many", "none of off"),
            ("--max-pods=0", "none of off"),
            ("--dra-driver=intel=x", "VENDOR=DRIVER"),
            ("--csi-driver=ebs.csi.aws.com", "DRIVER=LIMIT"),
            ("--csi-driver=ebs.csi.aws.com=many", "DRIVER=LIMIT"),
            ("--instance-type-cache-ttl=1m", "shorter than 10m"),
            ("--default-region=moon", "region"),
            ("--aws-endpoint=s3=https://x.example", "s3"),
            ("--aws-credentials-secret=plain", "NAMESPACE/NAME"),
            ("--memory-overhead-percent=7.123", "two decimals"),
            ("--memory-overhead-percent=50.01", "from 0 to 50"),
            ("--reserved=cpu", "cpu=QUANTITY"),
            ("--reserved=disk=1Gi", "cpu=QUANTITY"),
            ("--reserved=memory=-1Gi", "cpu=QUANTITY"),
        ] {
            let error = Cli::try_parse_from(["berth", "run", arg]).unwrap_err().to_string();
            assert!(error.contains(part), "{arg}: {error}");
        }
        for (arg, part) in [
            ("--node-labels=arch,colour", "--node-labels"),
            ("--feature-gates=MachineAPIMigration=maybe", "--feature-gates"),
            ("--dry-run", "--dry-run: works with --controllers=capacity only"),
        ] {
            let error = check(&read(&[arg])).unwrap_err().to_string();
            assert!(error.contains(part), "{arg}: {error}");
        }
        assert!(check(&read(&["--dry-run", "--controllers=capacity"])).is_ok());
        assert!(check(&read(&["--dry-run", "--controllers=capacity,vip"])).is_err());
    }
}
