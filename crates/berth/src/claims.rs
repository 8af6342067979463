//! The room `claims`: its flags, and how they become a room.

use std::time::Duration;

use claim_kind::terms::{Catalogue, Listing};
use claims::config::{Config, OrphanAction};
use claims::yard::{Ageing, DefaultAdmission, HostOrder, Settings};
use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use kit::feed::Phase;
use kit::manager::Manager;

use crate::cli::{RunOptions, duration};
use crate::serving::Listener;

/// Flags of the room `claims`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Claims")]
pub struct ClaimsOptions {
    #[command(flatten)]
    pub yard: YardOptions,
    /// How long a host is kept for the next claim of its reuse group
    #[arg(long, value_name = "DURATION", default_value = "2h", value_parser = duration)]
    pub reuse_ttl: Duration,
    /// How long a host may name a claim that does not exist before it counts as an orphan; 0 = for ever
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub orphan_grace: Duration,
    /// What is done with an orphan: report it, or release it, which wipes its disks
    #[arg(long, value_name = "WORD", value_enum, default_value_t = Orphan::Report)]
    pub orphan_action: Orphan,
    /// Leave hosts that are given back powered on, for a faster next deployment
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub fast_track: bool,
}

/// Flags of the room `claims` that decide who gets which host.
#[derive(Args, Debug)]
pub struct YardOptions {
    /// Let claims bind hosts of their own namespace without a policy
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub admit_same_namespace: bool,
    /// Whether hosts in a namespace without any policy are open to claims of other namespaces
    #[arg(long, value_name = "WORD", value_enum, default_value_t = Admission::Deny)]
    pub default_admission: Admission,
    /// In which order hosts that fit are taken: spread over all, or by name
    #[arg(long, value_name = "WORD", value_enum, default_value_t = Order::Spread)]
    pub host_order: Order,
    /// How long a claim waits to gain one step of priority; 0 = it gains none
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub ageing: Duration,
}

/// A namespace without a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Admission {
    Deny,
    Allow,
}

/// The order of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    Spread,
    Name,
}

/// What becomes of an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Orphan {
    Report,
    Release,
}

impl YardOptions {
    /// How the yard chooses.
    pub fn settings(&self) -> Settings {
        Settings {
            admit_same_namespace: self.admit_same_namespace,
            default_admission: match self.default_admission {
                Admission::Deny => DefaultAdmission::Deny,
                Admission::Allow => DefaultAdmission::Allow,
            },
            host_order: match self.host_order {
                Order::Spread => HostOrder::Spread,
                Order::Name => HostOrder::Name,
            },
            ageing: Ageing((!self.ageing.is_zero()).then_some(self.ageing)),
        }
    }
}

impl ClaimsOptions {
    /// The room's settings.
    pub fn config(&self) -> Config {
        Config {
            yard: self.yard.settings(),
            fast_track: self.fast_track,
            reuse_ttl: self.reuse_ttl,
            orphan_grace: self.orphan_grace,
            orphan_action: match self.orphan_action {
                Orphan::Report => OrphanAction::Report,
                Orphan::Release => OrphanAction::Release,
            },
            ..Config::default()
        }
    }
}

/// Adds the room, the registry of kinds and the heartbeat of the room's own kind to a manager.
pub fn mount(manager: &Manager, options: &RunOptions) -> anyhow::Result<Vec<Listener>> {
    let kind = claims::kind::profile();
    // Whoever serves a kind in this process need not wait for its heartbeat to be believed.
    let elsewhere = [("hosts", ::hosts::claim::KIND), ("clusters", ::clusters::vm::KIND)];
    let others = elsewhere.into_iter().filter(|(room, _)| crate::rooms::runs(options, room)).map(|(_, kind)| kind);
    let here: Vec<&'static str> = std::iter::once(kind.name).chain(others).collect();
    claim_kind::mount(manager, &here)?;
    let hosts = manager.feed::<claims::facts::Hosts>()?;
    claim_kind::heartbeat::mount(manager, kind, move || hosts.phase() == Phase::Synced)?;
    claims::mount(manager, Config { leased: options.leader_elect, ..options.claims.config() })?;
    Ok(Vec::new())
}

/// Adds the defaults and checks of claims, policies, quotas and kinds. Where the room runs, the registry is asked.
pub fn admit(
    admission: kit::admission::Admission,
    _: &RunOptions,
    manager: Option<&Manager>,
) -> anyhow::Result<kit::admission::Admission> {
    let kinds = manager.map(Manager::feed::<Catalogue>).transpose()?;
    let listing = move |name: &str| kinds.as_ref().map_or(Listing::Silent, |kinds| Listing::of(kinds, name));
    Ok(claims::admit::register(claim_kind::admit::register(admission), listing))
}
