//! The room `clusters`: its flags, and how they become a room with a way to CloudStack.

use std::time::Duration;

use ::clusters::Ways;
use ::clusters::acs::Allowed;
use ::clusters::config::{Config, TemplateCheck};
use ::clusters::facts::World;
use ::clusters::probe::Connect;
use ::clusters::render::Settings;
use ::clusters::room::terms;
use ::clusters::version::Newest;
use clap::Args;
use clap::builder::BoolishValueParser;
use kit::admission::Admission;
use kit::doors::Kubeconfigs;
use kit::manager::Manager;

use crate::Usage;
use crate::cli::{RunOptions, duration};
use crate::plan::{Switch, newest};
use crate::serving::Listener;

/// Looking more often than this would spend CloudStack's time on lists.
const SHORTEST_RESYNC: Duration = Duration::from_secs(60);

/// Flags of the room `clusters`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Clusters on CloudStack")]
pub struct ClustersOptions {
    /// Newest version of Kubernetes that is admitted, such as 1.31, or auto, which asks the provider
    #[arg(long, value_name = "VERSION", default_value = "auto", value_parser = newest)]
    pub cloudstack_max_kubernetes_version: Newest,
    /// Whether names of templates must carry the version of Kubernetes: off, warn or enforce
    #[arg(long, value_name = "CHECK", default_value = "enforce", value_parser = template_check)]
    pub template_version_check: TemplateCheck,
    /// Whether kube-vip holds the endpoint of clusters that do not say
    #[arg(long, value_name = "SWITCH", default_value = "on")]
    pub kube_vip_default: Switch,
    /// Admit arguments for the API server of clusters
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub enable_api_server_extra_args: bool,
    /// Registry that a mirror without namespaces stands in for
    #[arg(long, value_name = "HOST", default_value = "public.ecr.aws")]
    pub core_registry: String,
    /// How long a request to CloudStack may take, at least 1s
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    pub acs_timeout: Duration,
    /// Entries of a page that CloudStack is asked for
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(20..=10_000))]
    pub acs_page_size: u32,
    /// Send parameters to CloudStack in the URL, where access logs see them, instead of in a form
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub acs_use_get: bool,
    /// A CloudStack at an address that is never called otherwise, as http://127.0.0.1:PORT; repeatable
    #[arg(long, value_name = "URL", value_parser = allowed)]
    pub cloudstack_endpoint_allow: Vec<Allowed>,
    /// How often a valid datacenter is checked again, at least 1m
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = resync)]
    pub datacenter_resync: Duration,
    /// How often a cluster that is ready is looked at again, at least 1m
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = resync)]
    pub cluster_resync: Duration,
    /// Namespace of credentials, bundles and every generated object
    #[arg(long, value_name = "NAME", default_value = api::names::clusters::SYSTEM_NAMESPACE)]
    pub system_namespace: String,

    #[command(flatten)]
    pub replaced: ReplacedClusterFlags,
}

/// Flags of the controller that this room replaces, for which there is another one here: refused by name.
#[derive(Args, Debug)]
pub struct ReplacedClusterFlags {
    #[arg(long, hide = true, default_value = "")]
    pub concurrency: String,
    #[arg(long, hide = true, default_value = "")]
    pub watch_namespaces: String,
}

impl ReplacedClusterFlags {
    fn refused(&self) -> Option<&'static str> {
        let flags = [
            (&self.concurrency, "--concurrency: give --workers, which holds for every room"),
            (&self.watch_namespaces, "--watch-namespaces: give --namespace, which holds for every room"),
        ];
        flags.into_iter().find(|(value, _)| !value.is_empty()).map(|(_, words)| words)
    }
}

impl ClustersOptions {
    /// What the flags say.
    pub fn config(&self) -> Config {
        Config {
            newest: self.cloudstack_max_kubernetes_version,
            template_check: self.template_version_check,
            extra_args: self.enable_api_server_extra_args,
            settings: Settings {
                kube_vip: self.kube_vip_default == Switch::On,
                core_registry: self.core_registry.clone(),
                system_namespace: self.system_namespace.clone(),
            },
            datacenter_resync: self.datacenter_resync,
            cluster_resync: self.cluster_resync,
        }
    }
}

/// Checks the flags of the room.
pub fn check(options: &RunOptions) -> Result<(), Usage> {
    let own = &options.clusters;
    if let Some(words) = own.replaced.refused() {
        return Err(Usage(words.to_owned()));
    }
    let name = &own.system_namespace;
    name.parse::<api::names::DnsLabel>().map_err(|error| Usage(format!("--system-namespace: {error}")))?;
    // Only who asks for the room by name is kept from starting: others follow the namespaces they need.
    let asked = options.controllers.iter().any(|room| room == "clusters");
    if asked && !options.namespace.is_empty() && !options.namespace.contains(name) {
        let told = format!("--namespace: the room clusters needs the namespace {name} too, where its objects are");
        return Err(Usage(told));
    }
    Ok(())
}

/// Whether this process may look where everything is that a cluster is made of: rights there are given for that namespace
/// alone, so a process that follows others would be refused for ever.
fn reaches(manager: &Manager, options: &RunOptions) -> bool {
    manager.scope().holds(Some(&options.clusters.system_namespace))
}

/// Adds the room's defaults and checks. While the room does not run, the kinds are left to who keeps them.
pub fn admit(admission: Admission, options: &RunOptions, manager: Option<&Manager>) -> anyhow::Result<Admission> {
    let config = options.clusters.config();
    let manager = manager.filter(|manager| reaches(manager, options));
    let world = manager.map(|manager| World::follow(manager, config.system_namespace())).transpose()?;
    Ok(::clusters::admit::register(admission, move || world.as_ref().map(|world| terms(&config, world))))
}

/// Adds the room; without its clusters where their namespace is not among those that are followed. Claims on virtual
/// machines need nothing there.
pub fn mount(manager: &Manager, options: &RunOptions) -> anyhow::Result<Vec<Listener>> {
    let own = &options.clusters;
    if reaches(manager, options) {
        let agent = concat!("berth/", env!("CARGO_PKG_VERSION"));
        let ways = Ways {
            clouds: crate::cloud::acs(manager, options),
            doors: Box::new(Kubeconfigs { agent: agent.to_owned() }),
            probe: std::sync::Arc::new(Connect::default()),
        };
        ::clusters::mount(manager, own.config(), ways)?;
    } else {
        let needed = own.system_namespace.as_str();
        tracing::warn!(namespace = needed, "clusters on CloudStack are left alone: --namespace does not name it");
    }
    ::clusters::vm::mount(manager, crate::cloud::acs(manager, options))?;
    claim_kind::heartbeat::mount(manager, ::clusters::vm::profile(), || true)?;
    Ok(Vec::new())
}

fn template_check(text: &str) -> Result<TemplateCheck, String> {
    let all = TemplateCheck::ALL;
    let found = all.into_iter().find_map(|(word, check)| (word == text).then_some(check));
    found.ok_or_else(|| format!("`{text}` is none of {}", all.map(|(word, _)| word).join(", ")))
}

/// Reads `--cloudstack-endpoint-allow`.
pub fn allowed(text: &str) -> Result<Allowed, String> {
    text.parse()
}

fn at_least(text: &str, least: Duration) -> Result<Duration, String> {
    let time = duration(text)?;
    if time >= least { Ok(time) } else { Err(format!("`{text}` is shorter than {}s", least.as_secs())) }
}

fn timeout(text: &str) -> Result<Duration, String> {
    at_least(text, Duration::from_secs(1))
}

fn resync(text: &str) -> Result<Duration, String> {
    at_least(text, SHORTEST_RESYNC)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;
    use crate::cli::tests::run_options as read;

    #[test]
    fn without_flags_the_room_is_set_up_by_its_own_defaults() {
        assert_eq!(format!("{:?}", read(&[]).clusters.config()), format!("{:?}", Config::default()));
    }

    #[test]
    fn every_flag_reaches_the_room() {
        let options = read(&[
            "--cloudstack-max-kubernetes-version=1.30",
            "--template-version-check=warn",
            "--kube-vip-default=off",
            "--enable-api-server-extra-args",
            "--core-registry=registry.example",
            "--datacenter-resync=2m",
            "--cluster-resync=3m",
            "--system-namespace=clouds",
        ]);
        let found = options.clusters.config();
        assert_eq!(found.newest, "1.30".parse().unwrap());
        assert_eq!((found.template_check, found.extra_args), (TemplateCheck::Warn, true));
        let settings =
            Settings { kube_vip: false, core_registry: "registry.example".into(), system_namespace: "clouds".into() };
        assert_eq!(found.settings, settings);
        assert_eq!((found.datacenter_resync.as_secs(), found.cluster_resync.as_secs()), (120, 180));
    }

    /// The gates of a process with these flags once the room and its checks are added.
    fn gates(args: &[&str]) -> Vec<String> {
        use kit::feed::Scope;
        let options = read(args);
        let client = sim::server::Server::new(1).client("berth").kube();
        let scope =
            if options.namespace.is_empty() { Scope::All } else { Scope::Namespaces(options.namespace.clone()) };
        let settings = kit::manager::Options { scope, ..kit::manager::Options::default() };
        let (clock, metrics) = (kit::clock::Clock::system(), kit::telemetry::Metrics::new());
        let manager = Manager::new(client, clock, kit::gates::Gates::new(), metrics, settings);
        drop(admit(Admission::new(), &options, Some(&manager)).unwrap());
        assert!(mount(&manager, &options).unwrap().is_empty());
        manager.gates().report().gates.into_iter().map(|gate| gate.name.to_string()).collect()
    }

    #[tokio::test]
    async fn without_their_namespace_clusters_are_left_alone_and_claims_are_served() {
        let has = |gates: &[String], plural: &str| gates.iter().any(|gate| gate.contains(plural));
        for args in
            [&[][..], &["--namespace=team-a", "--namespace=eksa-system"], &["--namespace=c", "--system-namespace=c"]]
        {
            let all = gates(args);
            assert!(has(&all, "kubeadmcontrolplanes") && has(&all, "hostclaims"), "{args:?}: {all:?}");
        }
        let some = gates(&["--namespace=team-a"]);
        assert!(
            !has(&some, "kubeadmcontrolplanes") && !has(&some, "cloudstack") && has(&some, "hostclaims"),
            "{some:?}"
        );
    }

    #[test]
    fn what_cannot_work_is_refused_by_the_name_of_its_flag() {
        for (arg, part) in [
            ("--datacenter-resync=1s", "shorter than 60s"),
            ("--acs-timeout=0", "shorter than 1s"),
            ("--acs-page-size=1", "1 is not in 20..=10000"),
            ("--template-version-check=maybe", "none of off, warn, enforce"),
            ("--cloudstack-endpoint-allow=localhost", "such as http://127.0.0.1:8080"),
        ] {
            let error = Cli::try_parse_from(["berth", "run", arg]).unwrap_err().to_string();
            assert!(error.contains(part), "{arg}: {error}");
        }
        for (args, part) in [
            (vec!["--concurrency=5"], "--workers"),
            (vec!["--watch-namespaces=a"], "--namespace"),
            (vec!["--system-namespace=A"], "--system-namespace"),
            (vec!["--controllers=clusters", "--namespace=a"], "eksa-system"),
        ] {
            let error = check(&read(&args)).unwrap_err().to_string();
            assert!(error.contains(part), "{args:?}: {error}");
        }
        assert!(check(&read(&["--controllers=clusters", "--namespace=a", "--namespace=eksa-system"])).is_ok());
        assert!(check(&read(&["--namespace=a"])).is_ok());
    }
}
