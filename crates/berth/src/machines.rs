//! The room `machines`: its flags, and how they become a room with a way into workload clusters.

use ::machines::config::{Config, Manage};
use clap::Args;
use clap::builder::BoolishValueParser;
use kit::admission::{Admission, Ours};
use kit::doors::Kubeconfigs;
use kit::manager::Manager;

use crate::Usage;
use crate::cli::RunOptions;
use crate::serving::Listener;

/// Flags of the room `machines`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Machines on claims")]
pub struct MachinesOptions {
    #[command(flatten)]
    pub mode: ModeOptions,
    /// Make claims as soon as the infrastructure of the cluster is ready, before there is bootstrap data
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub reserve_early: bool,
    /// Which Metal3Clusters are looked after: auto (those whose status nobody else writes), always or never
    #[arg(long, value_name = "WORD", default_value = "auto")]
    pub manage_metal3_clusters: Manage,
}

/// Flags of the room `machines` that decide which machines run on claims.
#[derive(Args, Debug)]
pub struct ModeOptions {
    /// Kind of claim for Metal3Machines that name none; without it those take hosts directly, and are left alone
    #[arg(long, value_name = "KIND")]
    pub default_host_kind: Option<String>,
}

impl MachinesOptions {
    /// What the flags say.
    pub fn config(&self, watch_filter: Option<String>) -> Config {
        Config {
            watch_filter,
            default_host_kind: self.mode.default_host_kind.clone(),
            reserve_early: self.reserve_early,
            manage_clusters: self.manage_metal3_clusters,
        }
    }
}

/// Checks the flags of the room.
pub fn check(options: &RunOptions) -> Result<(), Usage> {
    let Some(kind) = &options.machines.mode.default_host_kind else { return Ok(()) };
    kind.parse::<api::names::DnsLabel>().map(drop).map_err(|error| Usage(format!("--default-host-kind: {error}")))
}

/// Adds the room's defaults, checks and conversions. Objects of others, and all of them while the room does not run, are
/// left to who keeps them.
pub fn admit(admission: Admission, options: &RunOptions, manager: Option<&Manager>) -> anyhow::Result<Admission> {
    let ours = Ours { runs: manager.is_some(), watch_filter: options.watch_filter.value() };
    Ok(::machines::admit::register(admission, &ours))
}

/// Adds the room.
pub fn mount(manager: &Manager, options: &RunOptions) -> anyhow::Result<Vec<Listener>> {
    let agent = concat!("berth/", env!("CARGO_PKG_VERSION"));
    let doors = Box::new(Kubeconfigs { agent: agent.to_owned() });
    ::machines::mount(manager, options.machines.config(options.watch_filter.value()), doors)?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;
    use crate::cli::tests::run_options as read;

    #[test]
    fn without_flags_the_room_is_set_up_by_its_own_defaults() {
        assert_eq!(read(&[]).machines.config(None), Config::default());
    }

    #[test]
    fn every_flag_reaches_the_room() {
        let options = read(&["--default-host-kind=baremetal", "--reserve-early", "--manage-metal3-clusters=never"]);
        let wanted = Config {
            watch_filter: Some("mine".to_owned()),
            default_host_kind: Some("baremetal".to_owned()),
            reserve_early: true,
            manage_clusters: Manage::Never,
        };
        assert_eq!(options.machines.config(Some("mine".to_owned())), wanted);
    }

    #[test]
    fn what_cannot_work_is_refused_by_the_name_of_its_flag() {
        let error = Cli::try_parse_from(["berth", "run", "--manage-metal3-clusters=maybe"]).unwrap_err().to_string();
        assert!(error.contains("must be auto, always or never"), "{error}");
        let error = check(&read(&["--default-host-kind=Bare Metal"])).unwrap_err().to_string();
        assert!(error.contains("--default-host-kind"), "{error}");
        assert!(check(&read(&["--default-host-kind=cloudstack-vm"])).is_ok());
    }
}
