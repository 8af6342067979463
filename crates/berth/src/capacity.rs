//! The room `capacity`: its flags, and how they become a room with a way to AWS and CloudStack.

mod judgement;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use aws::credentials::{Ambient, AmbientError, Files, TokenPaths};
use aws::place::Endpoints;
use capacity::cloud::Both;
use capacity::config::{AmbientUse, ClaimRules, Config, FeatureGates, feature_gates};
use clap::Args;
use clap::builder::BoolishValueParser;
use kit::manager::Manager;

use crate::Usage;
use crate::claims::{Admission, YardOptions};
use crate::cli::{RunOptions, WatchFilter, duration};
use crate::serving::Listener;

pub use judgement::{Judgement, endpoint};

/// A shorter life of the catalogue would spend the account's requests on lists.
const SHORTEST_TTL: Duration = Duration::from_secs(600);

/// Flags of the room `capacity`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Capacity")]
pub struct CapacityOptions {
    #[command(flatten)]
    pub judgement: Judgement,
    /// How long the list of a region's instance types is fresh, at least 10m
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = ttl)]
    pub instance_type_cache_ttl: Duration,
    /// Directories that the token path in a Secret may point into, separated by commas
    #[arg(
        long,
        value_name = "DIRS",
        value_delimiter = ',',
        default_value = "/var/run/secrets/openshift/serviceaccount,/var/run/secrets/eks.amazonaws.com/serviceaccount"
    )]
    pub token_path_allowlist: Vec<PathBuf>,
    /// Log what would be written, and write nothing; with --controllers=capacity only
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub dry_run: bool,
    /// Say so when annotations are right again after a failure
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub success_events: bool,
}

impl CapacityOptions {
    /// What the flags and the environment say; where we run is for whoever mounts the room.
    pub fn config(
        &self,
        watch_filter: &WatchFilter,
        gates: &FeatureGates,
        vars: &BTreeMap<String, String>,
        ambient: Result<Ambient, String>,
        yard: &YardOptions,
    ) -> Result<Config, Usage> {
        let judgement = &self.judgement;
        let environment = Endpoints::new().environment(vars);
        let environment = environment.map_err(|error| Usage(format!("environment: {}", kit::class::chain(&error))))?;
        let region =
            ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| vars.get(*name).filter(|v| !v.is_empty()));
        let region =
            region.map(|text| text.parse().map_err(|error| Usage(format!("AWS_REGION: {error}")))).transpose()?;
        let endpoints = judgement.endpoints(environment);
        Ok(Config {
            catalogue_ttl: self.instance_type_cache_ttl,
            environment_region: region,
            endpoints,
            ambient,
            token_paths: TokenPaths::new(self.token_path_allowlist.iter().cloned()),
            success_events: self.success_events,
            dry_run: self.dry_run,
            ..judgement.config(watch_filter, gates, claim_rules(yard))?
        })
    }
}

/// Which hosts claims may have, by the flags of the room `claims`.
pub fn claim_rules(yard: &YardOptions) -> ClaimRules {
    ClaimRules { same_namespace: yard.admit_same_namespace, without_policy: yard.default_admission == Admission::Allow }
}

/// Reads `--feature-gates`, for whichever rooms run.
pub fn gates(pairs: &[String]) -> Result<FeatureGates, Usage> {
    feature_gates(pairs.iter().map(String::as_str)).map_err(|error| Usage(format!("--feature-gates: {error}")))
}

/// Checks the flags of the room.
pub fn check(options: &RunOptions) -> Result<(), Usage> {
    let vars = environment();
    options.capacity.config(
        &options.watch_filter,
        &gates(&options.feature_gates)?,
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
    if options.capacity.judgement.ambient_credentials != AmbientUse::Never
        && let Err(error @ AmbientError::Half { .. }) = Ambient::decide(&vars, &Files::default())
    {
        return Err(Usage(error.to_string()));
    }
    Ok(())
}

/// Adds the room.
pub fn mount(manager: &Manager, options: &RunOptions) -> anyhow::Result<Vec<Listener>> {
    let (vars, gates) = (environment(), gates(&options.feature_gates)?);
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

fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration(text)?;
    if ttl < SHORTEST_TTL { Err(format!("`{text}` is shorter than 10m")) } else { Ok(ttl) }
}

#[cfg(test)]
mod tests {
    use ::capacity::config::{DiskFrom, Headroom, Keys, LegacyGpus, MaxPods, NeuronResource, NodeLabel};
    use ::capacity::offer::Vendor;
    use api::key::ObjectKey;
    use clap::Parser;

    use super::*;
    use crate::cli::tests::run_options as read;
    use crate::cli::{Cli, Command};

    fn config(args: &[&str], vars: &[(&str, &str)]) -> Result<Config, Usage> {
        let options = read(args);
        let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let ambient = Err("the process was given none".to_owned());
        options.capacity.config(
            &options.watch_filter,
            &gates(&options.feature_gates)?,
            &vars,
            ambient,
            &options.claims.yard,
        )
    }

    #[test]
    fn without_flags_the_room_is_set_up_by_its_own_defaults() {
        assert_eq!(config(&[], &[]).unwrap(), Config::default());
    }

    /// Flags that change what is thought of groups.
    const JUDGED: &[&str] = &[
        "--annotation-keys=both",
        "--node-labels=arch,os,zone",
        "--ephemeral-disk=instance-store",
        "--max-pods=prefix",
        "--max-pods-reserved-enis=1",
        "--legacy-gpu-vendors=nvidia",
        "--neuron-resource=neuroncore",
        "--dra-driver=nvidia=gpu.nvidia.com",
        "--csi-driver=ebs.csi.aws.com=25",
        "--default-region=eu-west-1",
        "--aws-endpoint=ec2=http://127.0.0.1:5000",
        "--aws-credentials-secret=a/b",
        "--ambient-credentials=always",
        "--prefer-ambient-credentials",
        "--use-cluster-identity",
        "--capacity-table=c/d",
        "--capacity-metal3",
        "--capacity-cloudstack",
        "--watch-machine-pools",
        "--defer-to-template-status",
        "--write-template-status",
        "--memory-overhead-percent=7.5",
        "--reserved=cpu=100m,memory=1Gi",
        "--propagate-template-labels",
        "--propagate-template-taints",
        "--default-admission=allow",
        "--watch-filter=mine",
        "--feature-gates=MachineAPIMigration=true,Other=false",
    ];

    #[test]
    fn whoever_explains_a_group_judges_as_the_operator_does() {
        let options = match Cli::parse_from(["berth", "explain", "machineset/workers"].iter().chain(JUDGED)).command {
            Command::Explain(options) => options,
            other => panic!("{other:?}"),
        };
        let operator = &options.about.operator;
        let told = options.capacity.config(&operator.watch_filter, claim_rules(&operator.yard)).unwrap();
        assert_eq!(*told, config(JUDGED, &[]).unwrap());
    }

    #[test]
    fn every_flag_reaches_the_room() {
        let others = ["--instance-type-cache-ttl=1h", "--token-path-allowlist=/a,/b", "--success-events", "--dry-run"];
        let found = config(
            &[JUDGED, &others].concat(),
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
            cloudstack: true,
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
