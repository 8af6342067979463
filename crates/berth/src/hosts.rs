//! The room `hosts`: its flags, and how they become a room with a way to AWS.

use std::collections::BTreeMap;
use std::time::Duration;

use aws::credentials::{Ambient, AmbientError, Files};
use aws::limits::{Limits, Pace, rates};
use aws::place::{Endpoints, Override};
use clap::Args;
use clap::builder::BoolishValueParser;
use hosts::config::Config;
use kit::admission::{Admission, Ours};
use kit::manager::Manager;

use crate::Usage;
use crate::capacity::{ambient_source, environment};
use crate::cli::{RunOptions, WatchFilter, duration};
use crate::serving::Listener;

/// A shorter time would give hosts back that are only slow to come, and every one given back counts against the quota
/// for minutes.
const SHORTEST_IDLE: Duration = Duration::from_secs(600);
/// Looking for orphans more often than this would spend the account's requests on lists.
const SHORTEST_SWEEP: Duration = Duration::from_secs(60);
/// The same for the lists that machines are judged by.
const SHORTEST_DESCRIBE: Duration = Duration::from_secs(5);

/// Flags of the room `hosts`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Dedicated hosts")]
pub struct HostsOptions {
    /// How long a host may stand empty while its machine cannot be launched, at least 10m; 0 = for ever
    #[arg(long, value_name = "DURATION", default_value = "60m", value_parser = idle)]
    pub idle_host_timeout: Duration,
    /// The most dedicated hosts a cluster may have
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub max_hosts_per_cluster: u32,
    /// The most dedicated hosts a cluster may ask for within an hour
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_allocations_per_hour: u32,
    /// Release hosts that belong to no machine, instead of only reporting them
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub release_orphans: bool,
    /// How often hosts that belong to no machine are looked for, at least 1m; 0 = never
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = sweep)]
    pub orphan_interval: Duration,
    /// How old lists of hosts and instances may be for machines that are as they should be, at least 5s
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = describe)]
    pub describe_interval: Duration,
    /// Requests to EC2 of a class, per account and region, as describe|launch|hosts|other=PER_SECOND:BURST; repeatable
    #[arg(long, value_name = "CLASS=RATE:BURST")]
    pub aws_rate: Vec<Pace>,

    #[command(flatten)]
    pub replaced: Replaced,
}

/// Flags of the provider that this room replaces, for which there is another one here: refused by name, so that nobody
/// believes they did something.
#[derive(Args, Debug)]
pub struct Replaced {
    #[arg(long, hide = true, default_value = "")]
    pub awsmachine_concurrency: String,
    #[arg(long, hide = true, default_value = "")]
    pub service_endpoints: String,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true", default_value = "")]
    pub remediate_failed_hosts: String,
}

impl Replaced {
    fn refused(&self) -> Option<String> {
        let flags = [
            (&self.awsmachine_concurrency, "--awsmachine-concurrency: give --workers, which holds for every room"),
            (&self.service_endpoints, "--service-endpoints: give --aws-endpoint=ec2=URL"),
            (&self.remediate_failed_hosts, "--remediate-failed-hosts: is not built yet"),
        ];
        let set = |value: &str| !["", "false", "0"].contains(&value);
        flags.into_iter().find(|(value, _)| set(value)).map(|(_, words)| words.to_owned())
    }
}

impl HostsOptions {
    /// What the flags and the environment say.
    pub fn config(
        &self,
        watch_filter: &WatchFilter,
        endpoints: &[Override],
        vars: &BTreeMap<String, String>,
        namespace: &str,
        ambient: Result<Ambient, String>,
    ) -> Result<Config, Usage> {
        let environment = Endpoints::new().environment(vars);
        let environment = environment.map_err(|error| Usage(format!("environment: {}", kit::class::chain(&error))))?;
        Ok(Config {
            watch_filter: watch_filter.value(),
            controller_namespace: namespace.to_owned(),
            ambient,
            endpoints: endpoints.iter().cloned().fold(environment, Endpoints::flag),
            idle_host_timeout: some(self.idle_host_timeout),
            max_hosts_per_cluster: self.max_hosts_per_cluster,
            max_allocations_per_hour: self.max_allocations_per_hour,
            release_orphans: self.release_orphans,
            orphan_interval: some(self.orphan_interval),
            describe_interval: self.describe_interval,
            launches: rates(Limits::Shipped, &self.aws_rate, "RunInstances", true).requests,
        })
    }
}

/// Zero means never.
fn some(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}

/// Checks the flags of the room.
pub fn check(options: &RunOptions) -> Result<(), Usage> {
    if let Some(words) = options.hosts.replaced.refused() {
        return Err(Usage(words));
    }
    if options.hosts.release_orphans && options.hosts.orphan_interval.is_zero() {
        return Err(Usage("--release-orphans: nothing is released with --orphan-interval=0".to_owned()));
    }
    if options.hosts.release_orphans && !options.namespace.is_empty() {
        let why = "hosts of other namespaces would be nobody's, because their machines are not followed";
        return Err(Usage(format!("--release-orphans: not with --namespace: {why}")));
    }
    let vars = environment();
    options.hosts.config(
        &options.watch_filter,
        &options.capacity.judgement.aws_endpoint,
        &vars,
        "",
        Err(String::new()),
    )?;
    // Half an identity would fall through to somebody else's in silence.
    match Ambient::decide(&vars, &Files::default()) {
        Err(error @ AmbientError::Half { .. }) => Err(Usage(error.to_string())),
        _ => Ok(()),
    }
}

/// Adds the room's defaults and checks. Machines of others, and all of them while the room does not run, are left to who
/// keeps them.
pub fn admit(admission: Admission, options: &RunOptions, manager: Option<&Manager>) -> anyhow::Result<Admission> {
    let ours = Ours { runs: manager.is_some(), watch_filter: options.watch_filter.value() };
    Ok(hosts::admit::register(admission, &ours))
}

/// Adds the room.
pub fn mount(manager: &Manager, options: &RunOptions) -> anyhow::Result<Vec<Listener>> {
    let vars = environment();
    let here = options.leader_elect_resource_namespace.as_deref();
    let namespace = here.unwrap_or_else(|| manager.client().default_namespace());
    let endpoints = &options.capacity.judgement.aws_endpoint;
    let config = options.hosts.config(&options.watch_filter, endpoints, &vars, namespace, ambient_source(&vars))?;
    let room = hosts::mount(manager, config, crate::cloud::aws(manager, options))?;
    hosts::claim::mount(manager, &room)?;
    Ok(Vec::new())
}

fn at_least(text: &str, least: Duration, zero: bool) -> Result<Duration, String> {
    let time = duration(text)?;
    if (zero && time.is_zero()) || time >= least {
        return Ok(time);
    }
    let or = if zero { " and not 0" } else { "" };
    Err(format!("`{text}` is shorter than {}s{or}", least.as_secs()))
}

fn idle(text: &str) -> Result<Duration, String> {
    at_least(text, SHORTEST_IDLE, true)
}

fn sweep(text: &str) -> Result<Duration, String> {
    at_least(text, SHORTEST_SWEEP, true)
}

fn describe(text: &str) -> Result<Duration, String> {
    at_least(text, SHORTEST_DESCRIBE, false)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;
    use crate::cli::tests::run_options as read;

    fn config(args: &[&str]) -> Config {
        let options = read(args);
        let endpoints = &options.capacity.judgement.aws_endpoint;
        let none = Err("no credentials were looked for".to_owned());
        options.hosts.config(&options.watch_filter, endpoints, &BTreeMap::new(), "berth-system", none).unwrap()
    }

    #[test]
    fn without_flags_the_room_is_set_up_by_its_own_defaults() {
        assert_eq!(format!("{:?}", config(&[])), format!("{:?}", Config::default()));
    }

    #[test]
    fn every_flag_reaches_the_room() {
        let found = config(&[
            "--idle-host-timeout=2h",
            "--max-hosts-per-cluster=3",
            "--max-allocations-per-hour=4",
            "--release-orphans",
            "--orphan-interval=1h",
            "--describe-interval=30s",
            "--aws-endpoint=ec2=http://127.0.0.1:5000",
            "--watch-filter=mine",
            "--aws-rate=launch=0.5:3",
            "--aws-rate=describe=1:1",
        ]);
        assert_eq!((found.launches.per_second, found.launches.burst), (0.5, 3));
        assert_eq!(found.idle_host_timeout, Some(Duration::from_secs(7_200)));
        assert_eq!((found.max_hosts_per_cluster, found.max_allocations_per_hour), (3, 4));
        assert_eq!((found.release_orphans, found.orphan_interval), (true, Some(Duration::from_secs(3_600))));
        assert_eq!(found.describe_interval, Duration::from_secs(30));
        assert_eq!(found.endpoints, Endpoints::new().flag("ec2=http://127.0.0.1:5000".parse().unwrap()));
        assert_eq!(found.watch_filter.as_deref(), Some("mine"));
        let never = config(&["--idle-host-timeout=0", "--orphan-interval=0"]);
        assert_eq!((never.idle_host_timeout, never.orphan_interval), (None, None));
    }

    #[test]
    fn what_cannot_work_is_refused_by_the_name_of_its_flag() {
        for (arg, part) in [
            ("--idle-host-timeout=1m", "shorter than 600s"),
            ("--orphan-interval=10s", "shorter than 60s"),
            ("--describe-interval=0", "shorter than 5s"),
            ("--max-hosts-per-cluster=many", "invalid digit"),
            ("--aws-rate=terminate=1:1", "none of describe, launch, hosts, other"),
            ("--aws-rate=launch=0:1", "above 0"),
        ] {
            let error = Cli::try_parse_from(["berth", "run", arg]).unwrap_err().to_string();
            assert!(error.contains(part), "{arg}: {error}");
        }
        for (args, part) in [
            (vec!["--awsmachine-concurrency=5"], "--workers"),
            (vec!["--service-endpoints=us-east-1:ec2=https://x"], "--aws-endpoint"),
            (vec!["--remediate-failed-hosts"], "--remediate-failed-hosts: is not built yet"),
            (vec!["--release-orphans", "--orphan-interval=0"], "--release-orphans"),
            (vec!["--release-orphans", "--namespace=team-a"], "--release-orphans: not with --namespace"),
        ] {
            let error = check(&read(&args)).unwrap_err().to_string();
            assert!(error.contains(part), "{args:?}: {error}");
        }
        assert!(check(&read(&["--remediate-failed-hosts=false"])).is_ok());
    }
}
