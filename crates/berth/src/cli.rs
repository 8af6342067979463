//! The command line: one flat set of flags, grouped by what they are about.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use kit::client::Access;
use kube::Client;
use serde::Serialize;

use crate::bundle::BundleOptions;
use crate::capacity::CapacityOptions;
use crate::claims::ClaimsOptions;
use crate::clusters::ClustersOptions;
use crate::explain::{ExplainOptions, HostsListOptions, ListOptions, TreeOptions, VipsOptions, print};
use crate::groups::CapacityListOptions;
use crate::hosts::HostsOptions;
use crate::leaks::LeaksOptions;
use crate::machines::MachinesOptions;
use crate::migrate::{ConvertOptions, MigrateOptions};
use crate::plan::PlanOptions;
use crate::screen::{self, Screen};
use crate::top::TopOptions;
use crate::ui::UiOptions;
use crate::vip::VipOptions;

const AFTER: &str = "\
Exit codes:
  0  fine
  1  it was tried and failed; the message says what (doctor: warnings; explain, tree: not there, or no right to see it; plan: it would be refused)
  2  the command line, or a file named on it, is wrong; nothing was done (doctor: failures)

Colour is used on a terminal only, and never when NO_COLOR is set.";

/// One operator that gives every Cluster API machine and cluster its place on infrastructure.
#[derive(Debug, Parser)]
#[command(name = "berth", bin_name = "berth", version, after_help = AFTER, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `berth` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator until it is stopped.
    Run(Box<RunOptions>),
    /// Check a cluster: access, kinds, rights, webhooks, certificates, leadership, and what every room stands on. Says how to
    /// fix what is wrong.
    Doctor(DoctorOptions),
    /// Take the hooks back from Cluster API before Berth is removed; refused while a ClusterClass names one.
    Unregister(UnregisterOptions),
    /// Say why a cluster has its addresses or is not ready, or a claim or machine its host, or has none, or what
    /// cluster-autoscaler makes of a group.
    Explain(Box<ExplainOptions>),
    /// Draw a cluster with its claims, addresses, pools and machines, a group or control plane with its machines, or a claim or
    /// machine with its host; only what is not as it should be is expanded.
    Tree(TreeOptions),
    /// List the addresses of clusters.
    Vips(VipsOptions),
    /// List hosts: their state, who uses them, and how many are free; with --aws the dedicated hosts on EC2.
    Hosts(HostsListOptions),
    /// List dedicated hosts that are paid for and belong to no machine, with what proves it, and release them if asked to; with
    /// --cloudstack virtual machines whose claim is gone.
    Leaks(LeaksOptions),
    /// List claims on hosts: what each has, or why it has none.
    Claims(ListOptions),
    /// List clusters on CloudStack: how each stands.
    Clusters(ListOptions),
    /// List groups of machines and what cluster-autoscaler sees of them.
    Capacity(Box<CapacityListOptions>),
    /// Show what a running Berth does: queues, passes, failures, calls to clouds, memory; again and again on a terminal.
    Top(TopOptions),
    /// Show the fleet in a browser: clusters down to their hosts, hosts by zone, pools, and everything that is not fine; served
    /// on loopback until Ctrl-C, and it can only be looked at.
    Ui(Box<UiOptions>),
    /// Write a support archive: objects, events, logs, metrics and versions, without secrets and with a list of what was
    /// removed.
    Bundle(BundleOptions),
    /// Tell what would be done for files: the objects of clusters on CloudStack, and which machines would be replaced and why;
    /// with --live also which host a claim and which address a cluster would get, and what machines and their groups would.
    Plan(PlanOptions),
    /// Say what has to change when Berth takes the place of another controller, after looking; write it with --apply.
    Migrate(MigrateOptions),
    /// Convert manifests in files for machines on claims, or back, and print them.
    Convert(ConvertOptions),
    /// Print, write or check the CustomResourceDefinitions of Berth's own kinds.
    Crds(GenerateOptions),
    /// Print, write or check the rules Berth needs, generated from the rooms' own lists of calls.
    Rbac(GenerateOptions),
    /// Print, write or check the admission webhook configurations.
    Webhooks(GenerateOptions),
    /// Print, write or check the pages of the book about every kind, generated from their schemas.
    Reference(ReferenceOptions),
    /// Print the IAM policy that the room hosts needs in an AWS account.
    Iam(IamOptions),
    /// Print the version.
    Version(OutputOptions),
    /// Print the completion script of a shell.
    Completion {
        /// Which shell.
        shell: Shell,
    },
    /// Print the manual page of berth, or write a page for each command.
    Man {
        /// Directory that the pages are written to: berth.1, berth-run.1 and so on
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Which cluster.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterOptions {
    /// Kubeconfig file; without it KUBECONFIG, then the default file, then the pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

impl ClusterOptions {
    /// As the client wants it.
    pub fn access(&self) -> Access {
        Access { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }
}

/// Which cluster, and which namespace of it.
#[derive(Args, Clone, Debug)]
pub struct PlaceOptions {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Only objects in this namespace (default: the one of the kubeconfig)
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

impl PlaceOptions {
    /// The namespace that is meant.
    pub fn namespace(&self, client: &Client) -> String {
        self.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned())
    }
}

/// Which cluster, and which of its namespaces.
#[derive(Args, Clone, Debug)]
pub struct PlacesOptions {
    #[command(flatten)]
    pub place: PlaceOptions,
    /// Objects in all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
}

impl PlacesOptions {
    /// Which cluster.
    pub fn cluster(&self) -> &ClusterOptions {
        &self.place.cluster
    }

    /// The namespace to look into; none for all.
    pub fn namespace(&self, client: &Client) -> Option<String> {
        (!self.all_namespaces).then(|| self.place.namespace(client))
    }

    /// The namespace that was named, if one was.
    pub fn named(&self) -> Option<&str> {
        self.place.namespace.as_deref()
    }
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// For people.
    Text,
}

/// Flags of `berth run`.
#[derive(Args, Debug)]
pub struct RunOptions {
    #[command(flatten)]
    pub cluster: ClusterOptions,

    /// Rooms to run, separated by commas (default: every room of this build; a missing kind is waited for)
    #[arg(long, value_name = "ROOM", value_delimiter = ',', help_heading = "Work")]
    pub controllers: Vec<String>,
    /// Follow only this namespace; repeatable (default: all)
    #[arg(long, value_name = "NAME", help_heading = "Work")]
    pub namespace: Vec<String>,
    /// Objects worked on at once in each room
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Work")]
    pub workers: u16,
    /// Requests per second that are sent to the API server at most, those of hooks first, watches not counted; 0 = no limit
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Work")]
    pub kube_api_qps: u32,
    /// Requests that --kube-api-qps lets through at once
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Work")]
    pub kube_api_burst: u32,
    /// How often everything is listed and looked at again without a reason, at least 1m; 0 = never
    #[arg(long, value_name = "DURATION", default_value = "10h", value_parser = duration, help_heading = "Work")]
    pub sync_period: Duration,
    /// Feature gates as NAME=true|false, separated by commas; known is MachineAPIMigration, others are passed over
    #[arg(long, value_name = "GATES", value_delimiter = ',', help_heading = "Work")]
    pub feature_gates: Vec<String>,
    #[command(flatten, next_help_heading = "Work")]
    pub watch_filter: WatchFilter,

    /// Let one of several replicas decide
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new(), help_heading = "Leadership")]
    pub leader_elect: bool,
    /// Namespace of the lease `berth` (default: the namespace of the pod or of the kubeconfig)
    #[arg(long, value_name = "NAME", help_heading = "Leadership")]
    pub leader_elect_resource_namespace: Option<String>,
    /// How long a silent leader is still believed
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = duration, help_heading = "Leadership")]
    pub leader_elect_lease_duration: Duration,

    /// Address of /metrics; 0 = off
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", help_heading = "Serving")]
    pub metrics_bind_address: String,
    /// File with the authority of the clients that may read metrics, then over TLS with the certificate of the webhooks, read
    /// again when it changes; empty = all may, in plain HTTP
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true, help_heading = "Serving")]
    pub metrics_client_ca: String,
    /// Address of /healthz and /readyz; 0 = off
    #[arg(long, value_name = "ADDRESS", default_value = ":9440", help_heading = "Serving")]
    pub health_addr: String,
    /// Port of the admission webhooks; 0 = off
    #[arg(long, value_name = "PORT", default_value_t = 9444, help_heading = "Serving")]
    pub webhook_port: u16,
    /// Address the admission webhooks listen on
    #[arg(long, value_name = "IP", default_value = "::", help_heading = "Serving")]
    pub webhook_bind_host: std::net::IpAddr,
    /// Directory with tls.crt and tls.key; both are read again when they change
    #[arg(long, value_name = "DIR", default_value = "/tmp/runtime-extension/serving-certs", help_heading = "Serving")]
    pub webhook_cert_dir: PathBuf,
    /// Make, store and renew the webhooks' certificates without cert-manager
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new(), help_heading = "Serving")]
    pub webhook_self_signed: bool,
    /// Service that the self-made certificate is for, in the namespace Berth runs in
    #[arg(long, value_name = "NAME", default_value = "berth-webhook", help_heading = "Serving")]
    pub webhook_service: String,
    /// Further name or address the self-made certificate is for, when the API server calls it by that; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Serving")]
    pub webhook_extra_name: Vec<String>,
    /// How long to go on serving after readiness was taken back
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration, help_heading = "Serving")]
    pub shutdown_delay: Duration,

    /// Form of the log lines
    #[arg(long, value_name = "FORMAT", default_value = "json", help_heading = "Logs")]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace (releases: as debug), or a filter such as info,kit=debug
    #[arg(long, value_name = "FILTER", default_value = "info", help_heading = "Logs")]
    pub log_level: String,

    /// Stop at a named fault point: NAME=hang|panic|exit[:NTH]; builds with debug assertions only
    #[arg(long, value_name = "POINT", hide = true)]
    pub fault: Vec<String>,

    #[command(flatten)]
    pub vip: VipOptions,

    #[command(flatten)]
    pub claims: ClaimsOptions,

    #[command(flatten)]
    pub machines: MachinesOptions,

    #[command(flatten)]
    pub hosts: HostsOptions,

    #[command(flatten)]
    pub capacity: CapacityOptions,

    #[command(flatten)]
    pub clusters: ClustersOptions,
}

/// Flags of `berth doctor`.
#[derive(Args, Debug)]
pub struct DoctorOptions {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Namespace Berth runs in
    #[arg(short, long, value_name = "NAME", default_value = "berth-system")]
    pub namespace: String,
    /// Namespace of the clusters that Berth generates (default: the one that Berth's Deployment names, or eksa-system)
    #[arg(long, value_name = "NAME")]
    pub system_namespace: Option<String>,
    /// Ask EC2 as well whether every identity of a cluster may look at what Berth looks at; for the operator's own identity
    /// with your own AWS credentials
    #[arg(long)]
    pub aws: bool,
    /// Address of a service, as ec2=URL or sts=URL; repeatable
    #[arg(long, value_name = "SERVICE=URL", value_parser = crate::capacity::endpoint, requires = "aws")]
    pub aws_endpoint: Vec<aws::place::Override>,
    /// Ask CloudStack as well whether it takes the keys that datacenters and claims name, with a call that changes nothing
    #[arg(long)]
    pub cloudstack: bool,
    /// A CloudStack at an address that is never called otherwise, as http://127.0.0.1:PORT; repeatable
    #[arg(long, value_name = "URL", value_parser = crate::clusters::allowed, requires = "cloudstack")]
    pub cloudstack_endpoint_allow: Vec<cloudstack::net::Allowed>,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// Flags of `berth unregister`.
#[derive(Args, Debug)]
pub struct UnregisterOptions {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Name of the ExtensionConfig
    #[arg(long, value_name = "NAME", default_value = "vip-allocator")]
    pub name: String,
    /// Do it although ClusterClasses name its handlers: their clusters are not reconciled any more
    #[arg(long)]
    pub force: bool,
}

/// Which objects are looked at.
#[derive(Args, Clone, Debug)]
pub struct WatchFilter {
    /// Look only at objects whose label cluster.x-k8s.io/watch-filter has this value; empty = all
    #[arg(long, value_name = "VALUE", default_value = "", hide_default_value = true)]
    pub watch_filter: String,
}

impl WatchFilter {
    /// The value, if one is asked for.
    pub fn value(&self) -> Option<String> {
        (!self.watch_filter.is_empty()).then(|| self.watch_filter.clone())
    }
}

/// How results are printed.
#[derive(Args, Clone, Copy, Debug)]
pub struct OutputOptions {
    /// Form of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

/// Forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// For programs: stable and versioned.
    Json,
}

/// Flags of `berth iam`.
#[derive(Args, Debug)]
pub struct IamOptions {
    /// Role of nodes that instances are given; repeatable
    #[arg(long, value_name = "ARN", required = true)]
    pub role: Vec<api::names::RoleArn>,
    /// Let EC2 itself refuse what is not ours: hosts are allocated and released only with our tags
    #[arg(long)]
    pub hardened: bool,
}

/// Flags of the commands that generate files.
#[derive(Args, Debug)]
pub struct GenerateOptions {
    /// Write the files of the chart instead of printing
    #[arg(long, conflicts_with = "check")]
    pub write: bool,
    /// Compare with the files of the chart; exit code 1 when they differ
    #[arg(long)]
    pub check: bool,
    /// Directory of the chart
    #[arg(long, value_name = "DIR", default_value = "chart")]
    pub chart: PathBuf,
}

/// Flags of `reference`.
#[derive(Args, Debug)]
pub struct ReferenceOptions {
    /// Write the pages of the book instead of printing
    #[arg(long, conflicts_with = "check")]
    pub write: bool,
    /// Compare with the pages of the book; exit code 1 when they differ
    #[arg(long)]
    pub check: bool,
    /// Directory of the book
    #[arg(long, value_name = "DIR", default_value = "book")]
    pub book: PathBuf,
}

/// `90s`, `5m`, `10h`, `250ms` or `0`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let form = || format!("`{text}` is not a duration such as 250ms, 90s, 5m or 10h");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(form)?;
    let (number, unit) = text.split_at(unit);
    let number: u64 = number.parse().map_err(|_| form())?;
    let millis = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => None,
    };
    millis.map(Duration::from_millis).ok_or_else(form)
}

/// What this program is.
#[derive(Serialize)]
struct Version<'a> {
    version: &'a str,
    rooms: &'a [&'a str],
}

/// Prints the version.
pub fn version(options: &OutputOptions) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let rooms: Vec<&str> = crate::rooms::BUILT.iter().map(|room| room.name).collect();
    let version = Version { version, rooms: &rooms };
    print(options.output, "Version", &version, |screen| version_screen(screen, &version))
}

fn version_screen(screen: Screen, version: &Version<'_>) -> String {
    screen::text(screen, &format!("berth {} (rooms: {})", version.version, version.rooms.join(", ")))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The options of `berth run` with these flags.
    pub fn run_options(args: &[&str]) -> RunOptions {
        match Cli::parse_from(["berth", "run"].iter().chain(args)).command {
            Command::Run(options) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_version_for_programs() {
        let rooms = ["vip", "claims", "machines", "hosts", "capacity", "clusters"];
        let version = Version { version: "1.2.3", rooms: &rooms };
        insta::assert_snapshot!(screen::tests::document("Version", &version));
        insta::assert_snapshot!("the_version", screen::tests::at_widths(|screen| version_screen(screen, &version)));
    }

    #[test]
    fn durations_are_read_and_bad_ones_named() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("10h"), Ok(Duration::from_secs(36_000)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for bad in ["", "5", "s", "-1s", "5 m", "1d", "99999999999999999999s", "18446744073709551615h"] {
            assert!(duration(bad).is_err_and(|e| e.contains(bad)), "{bad}");
        }
    }
}
