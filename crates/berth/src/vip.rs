//! The room `vip`: its flags, and how they become a room and a server of hooks.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use kit::manager::Manager;
use kit::serve;
use vip::config::{Config, MissingPool};
use vip::hooks::{BODY_LIMIT, Handlers, Hook, Hooks, Names};

use crate::Usage;
use crate::cli::{RunOptions, WatchFilter, duration};
use crate::serving::{ClientCa, Listener, client_ca};

/// Cluster API never waits longer for a hook, whatever the flag says.
const LONGEST_WAIT: Duration = Duration::from_secs(25);

/// What changes which addresses a cluster gets, for those who give them and those who only explain.
#[derive(Args, Debug)]
pub struct JudgeOptions {
    /// Serve the hooks of the Cluster API runtime extension; clusters with a topology need them
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub enable_runtime_extension: bool,
    /// Give addresses to clusters without topology and, without hooks, to all
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub enable_reconciler: bool,
    /// What the names of the handlers start with
    #[arg(long, value_name = "NAME", default_value = "vip-allocator")]
    pub runtime_extension_name: String,
    /// Port of a control plane endpoint that has none
    #[arg(long, value_name = "PORT", default_value_t = 6443, value_parser = clap::value_parser!(u16).range(1..))]
    pub default_port: u16,
    /// What becomes of a cluster without a pool: auto, block, fail or ignore
    #[arg(long, value_name = "POLICY", default_value = "auto", value_parser = missing_pool)]
    pub missing_pool_policy: MissingPool,
}

impl JudgeOptions {
    /// The room as these flags set it up, all others at their defaults.
    pub fn config(&self, watch_filter: &WatchFilter) -> Config {
        Config {
            extension: self.enable_runtime_extension,
            extension_name: self.runtime_extension_name.clone(),
            reconciler: self.enable_reconciler,
            default_port: self.default_port,
            missing_pool: self.missing_pool_policy,
            watch_filter: watch_filter.value(),
            ..Config::default()
        }
    }
}

/// Flags of the room `vip`.
#[derive(Args, Debug)]
#[command(next_help_heading = "VIP")]
pub struct VipOptions {
    #[command(flatten)]
    pub judge: JudgeOptions,
    /// Port of the hooks
    #[arg(long, value_name = "PORT", default_value_t = 9443, value_parser = clap::value_parser!(u16).range(1..))]
    pub runtime_extension_port: u16,
    /// Address the hooks listen on
    #[arg(long, value_name = "IP", default_value = "::")]
    pub runtime_extension_bind_host: IpAddr,
    /// Directory with tls.crt and tls.key of the hooks, unless --webhook-self-signed makes them
    #[arg(long, value_name = "DIR", default_value = "/tmp/runtime-extension/serving-certs")]
    pub runtime_extension_cert_dir: PathBuf,
    /// Service of the hooks, which a self-made certificate is for too
    #[arg(long, value_name = "NAME", default_value = "berth-runtime-extension")]
    pub runtime_extension_service: String,
    /// File with the authority of the clients that may call hooks, read again when it changes; empty = all may
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    pub runtime_extension_client_ca: String,
    /// What the paths of the hooks start with, where an ExtensionConfig names a path
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    pub path_prefix: String,
    /// How long a hook waits for an address before it asks to be called again, at most 25s; 0 = not at all
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = allocation_wait)]
    pub allocation_wait: Duration,
    /// How long a claim waits at an exhausted pool before another is tried
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub pool_fallback_after: Duration,
    /// How long a claim without a Cluster is kept
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub orphan_claim_ttl: Duration,
    /// Write conditions to Clusters
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub set_cluster_conditions: bool,
    /// Delete claims that a manual endpoint never needed
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub release_unused_claims: bool,
    /// Write the endpoint of infrastructure clusters too, for clusters without topology
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub patch_infrastructure_cluster: bool,

    /// Claim an address for a Cluster that does not exist yet, for callers other than Cluster API
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub preallocate_unowned: bool,
    #[arg(long, hide = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub hold_addresses: bool,
    #[arg(long, hide = true, value_name = "KINDS", default_value = "")]
    pub extra_pool_kinds: String,
}

impl VipOptions {
    fn names(&self) -> Result<Names, Usage> {
        let refused = |error: vip::hooks::NameError| {
            let flag = match error {
                vip::hooks::NameError::Extension { .. } => "--runtime-extension-name",
                vip::hooks::NameError::Prefix { .. } => "--path-prefix",
            };
            Usage(format!("{flag}: {error}"))
        };
        Names::new(&self.judge.runtime_extension_name, &self.path_prefix).map_err(refused)
    }

    fn client_ca(&self) -> Result<Option<ClientCa>, Usage> {
        client_ca("--runtime-extension-client-ca", &self.runtime_extension_client_ca)
    }

    fn config(&self, watch_filter: &WatchFilter) -> Config {
        Config {
            allocation_wait: self.allocation_wait,
            fallback_after: self.pool_fallback_after,
            orphan_ttl: self.orphan_claim_ttl,
            conditions: self.set_cluster_conditions,
            release_unused: self.release_unused_claims,
            patch_infrastructure: self.patch_infrastructure_cluster,
            preallocate: self.preallocate_unowned,
            ..self.judge.config(watch_filter)
        }
    }
}

/// Checks the flags of the room.
pub fn check(options: &RunOptions) -> Result<(), Usage> {
    let vip = &options.vip;
    let unbuilt = [(vip.hold_addresses, "--hold-addresses"), (!vip.extra_pool_kinds.is_empty(), "--extra-pool-kinds")];
    if let Some((_, flag)) = unbuilt.into_iter().find(|(set, _)| *set) {
        return Err(Usage(format!("{flag}: is not built yet")));
    }
    if !vip.judge.enable_runtime_extension && !vip.judge.enable_reconciler {
        return Err(Usage(
            "--enable-runtime-extension, --enable-reconciler: both are false, so the room `vip` would do nothing; \
             switch one on, or leave the room out of --controllers"
                .to_owned(),
        ));
    }
    let service = vip.runtime_extension_service.parse::<api::names::DnsLabel>();
    service.map_err(|error| Usage(format!("--runtime-extension-service: {error}")))?;
    vip.names()?;
    vip.client_ca()?;
    Ok(())
}

/// Adds the room, and the hooks if they are to be served.
pub fn mount(manager: &Manager, options: &RunOptions) -> anyhow::Result<Vec<Listener>> {
    let config = options.vip.config(&options.watch_filter);
    let serves = config.extension;
    let extension = vip::mount(manager, config)?;
    if !serves {
        return Ok(Vec::new());
    }
    Ok(vec![listener(manager, &options.vip, extension)?])
}

fn listener<H: Handlers>(manager: &Manager, vip: &VipOptions, handlers: Arc<H>) -> Result<Listener, Usage> {
    let hooks = Hooks::new(handlers, vip.names()?, manager.metrics(), manager.clock().clone());
    let address = SocketAddr::new(vip.runtime_extension_bind_host, vip.runtime_extension_port);
    let mut options = serve::Options::new("hooks", address);
    options.body_limit = BODY_LIMIT;
    options.deadline = Hook::ALL.iter().map(|hook| hook.timeout()).max().unwrap_or(options.deadline);
    // Most of these only wait for an address, which costs nothing and must not keep others out.
    options.concurrency = 256;
    Ok(Listener {
        options,
        router: hooks.router(),
        on_failure: Box::new(move |failure| hooks.failure(failure)),
        gate: "hook certificate",
        cert_dir: vip.runtime_extension_cert_dir.clone(),
        client_ca: vip.client_ca()?,
    })
}

/// Reads `--missing-pool-policy`.
fn missing_pool(text: &str) -> Result<MissingPool, String> {
    let words = || MissingPool::ALL.map(|(word, _)| word).join(", ");
    MissingPool::read(text).ok_or_else(|| format!("`{text}` is none of {}", words()))
}

fn allocation_wait(text: &str) -> Result<Duration, String> {
    let wait = duration(text)?;
    if wait > LONGEST_WAIT { Err(format!("`{text}` is longer than 25s")) } else { Ok(wait) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;

    use crate::cli::tests::run_options as read;

    #[test]
    fn without_flags_the_room_is_set_up_by_its_own_defaults() {
        let options = read(&[]);
        assert_eq!(options.vip.config(&options.watch_filter), Config::default());
        assert!(check(&options).is_ok());
    }

    #[test]
    fn every_switch_is_understood_in_all_its_forms() {
        type Read = fn(&VipOptions) -> bool;
        let switches: [(&str, Read); 7] = [
            ("--enable-runtime-extension", |vip| vip.judge.enable_runtime_extension),
            ("--enable-reconciler", |vip| vip.judge.enable_reconciler),
            ("--set-cluster-conditions", |vip| vip.set_cluster_conditions),
            ("--release-unused-claims", |vip| vip.release_unused_claims),
            ("--patch-infrastructure-cluster", |vip| vip.patch_infrastructure_cluster),
            ("--preallocate-unowned", |vip| vip.preallocate_unowned),
            ("--hold-addresses", |vip| vip.hold_addresses),
        ];
        for (flag, value) in switches {
            assert!(value(&read(&[flag]).vip), "{flag}");
            assert!(value(&read(&[&format!("{flag}=true")]).vip), "{flag}=true");
            assert!(!value(&read(&[&format!("{flag}=false")]).vip), "{flag}=false");
        }
    }

    #[test]
    fn every_flag_reaches_the_room() {
        let options = read(&[
            "--enable-runtime-extension=false",
            "--enable-reconciler",
            "--runtime-extension-name=n",
            "--default-port=8443",
            "--allocation-wait=25s",
            "--missing-pool-policy=fail",
            "--pool-fallback-after=1s",
            "--orphan-claim-ttl=1h",
            "--set-cluster-conditions=false",
            "--watch-filter=mine",
            "--release-unused-claims",
            "--patch-infrastructure-cluster",
            "--preallocate-unowned",
        ]);
        let wanted = Config {
            extension: false,
            extension_name: "n".to_owned(),
            reconciler: true,
            default_port: 8443,
            allocation_wait: Duration::from_secs(25),
            missing_pool: MissingPool::Fail,
            fallback_after: Duration::from_secs(1),
            orphan_ttl: Duration::from_secs(3600),
            conditions: false,
            watch_filter: Some("mine".to_owned()),
            release_unused: true,
            patch_infrastructure: true,
            preallocate: true,
        };
        assert_eq!(options.vip.config(&options.watch_filter), wanted);
    }

    #[test]
    fn what_cannot_work_is_refused_by_the_name_of_its_flag() {
        let long = "x".repeat(45);
        for (args, parts) in [
            (&["--enable-runtime-extension=false"][..], &["--enable-runtime-extension", "--enable-reconciler"][..]),
            (&["--runtime-extension-name=a.b"], &["--runtime-extension-name", "a.b"]),
            (&["--runtime-extension-name", &long], &["--runtime-extension-name", "44"]),
            (&["--runtime-extension-service=A"], &["--runtime-extension-service", "A"]),
            (&["--path-prefix=a b"], &["--path-prefix", "a b"]),
            (&["--runtime-extension-client-ca=/no/such"], &["--runtime-extension-client-ca", "/no/such"]),
            (&["--runtime-extension-client-ca=/proc/version"], &["/proc/version", "no certificate"]),
            (&["--hold-addresses"], &["--hold-addresses", "not built"]),
            (&["--extra-pool-kinds=A.v1.b"], &["--extra-pool-kinds", "not built"]),
        ] {
            let error = check(&read(args)).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{args:?}: {error}");
        }
        for bad in ["--allocation-wait=26s", "--missing-pool-policy=maybe", "--default-port=0"] {
            assert!(Cli::try_parse_from(["berth", "run", bad]).is_err(), "{bad}");
        }
    }
}
