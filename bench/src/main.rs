//! `berth-bench`: measures a controller against a real API server.
//!
//! One run: W (the server's own ceiling) is measured, the cluster is filled with N objects from a seed, each side settles
//! once on its own copy of the data, then the sides alternate, each leg on a fresh copy with a fresh server. A separate watcher
//! process is the clock, requests are counted at the server twice (audit log and metrics), memory and processor time come from
//! the kernel, and an oracle closes every leg. The result is one JSON document and tables on standard error.
//! How to add a scenario is told in [`scenario`].
#![allow(clippy::disallowed_methods, reason = "not the product: this program measures with real clocks")]

mod again;
mod audit;
mod budget;
mod capacity;
mod ceiling;
mod child;
mod claims;
mod cli;
mod cloud;
mod clusters;
mod document;
mod hosts;
mod http;
mod leg;
mod machines;
mod metrics;
mod oracle;
mod proc;
mod report;
mod run;
mod scenario;
mod seed;
mod server;
mod stage;
mod standin;
mod stats;
mod store;
mod vip;
mod watch;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Cli, Command};
use crate::run::{BadFlag, Plan};

fn main() -> ExitCode {
    let cli = Cli::parse();
    // The only error is that a provider is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let done = tokio::runtime::Runtime::new().context("starting the runtime").and_then(|rt| rt.block_on(dispatch(cli)));
    match done {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("berth-bench: error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

async fn dispatch(cli: Cli) -> Result<u8> {
    let idle = || scenario::all().into_iter().next().context("there is no scenario");
    match cli.command {
        Command::Run(args) => {
            let plan = match Plan::new(*args) {
                Ok(plan) => plan,
                Err(BadFlag { flag, why }) => {
                    let text = format!("invalid value for '{flag}': {why}");
                    Cli::command().error(clap::error::ErrorKind::ValueValidation, text).exit()
                }
            };
            or_interrupted(Box::pin(measure(&plan))).await
        }
        Command::List => {
            for s in scenario::all() {
                println!("{:<12} {}", s.name(), s.about());
            }
            println!("{:<12} groups that say what their machines would offer; a command of its own", "capacity");
            println!("{:<12} claims that get a host, hosts that change hands, a flood; a command of its own", "claims");
            println!("{:<12} clusters on CloudStack: checks, calls, objects written; a command of its own", "clusters");
            println!(
                "{:<12} machines on dedicated hosts within the cloud's request limits; a command of its own",
                "hosts"
            );
            println!(
                "{:<12} machines on claims, from nothing to provisioned and back; a command of its own",
                "machines"
            );
            println!("{:<12} hook answers and the time to an endpoint; a command of its own", "vip");
            Ok(0)
        }
        Command::Capacity(args) => or_interrupted(Box::pin(capacity::main(&args))).await,
        Command::Claims(args) => or_interrupted(Box::pin(claims::main(&args))).await,
        Command::Clusters(args) => or_interrupted(Box::pin(clusters::main(&args))).await,
        Command::Hosts(args) => or_interrupted(Box::pin(hosts::main(&args))).await,
        Command::Machines(args) => or_interrupted(Box::pin(machines::main(&args))).await,
        Command::Vip(args) => or_interrupted(Box::pin(vip::main(&args))).await,
        Command::Watch(a) => watch::main(&a.kubeconfig, &a.path, &a.resource_version, &a.show).await.map(|()| 0),
        Command::StandIn(a) => {
            standin::main(&a.kubeconfig, &a.health, &idle()?.kind().path(), a.touch).await.map(|()| 0)
        }
        Command::StandInCrds => {
            println!("{}", standin::definition(idle()?.as_ref()));
            Ok(0)
        }
    }
}

/// Runs `work` until it ends or somebody interrupts it; dropping it stops every child it started.
async fn or_interrupted(work: impl Future<Output = Result<u8>>) -> Result<u8> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for signals")?;
    tokio::select! {
        code = work => code,
        _ = interrupt.recv() => Ok(130),
        _ = terminate.recv() => Ok(143),
    }
}

async fn measure(plan: &Plan) -> Result<u8> {
    let limit = std::time::Duration::from_secs(plan.args().time_limit_seconds);
    let report = stage::bounded(limit, Box::pin(run::run(plan))).await?;
    eprint!("{}", report.tables());
    if let Some(path) = &plan.args().markdown {
        std::fs::write(path, report.markdown()).with_context(|| format!("writing {}", path.display()))?;
    }
    let text = serde_json::to_string_pretty(&report).context("writing the document")? + "\n";
    match plan.out() {
        Some(path) => std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?,
        None => print!("{text}"),
    }
    Ok(run::exit_code(&report, plan.args()))
}
