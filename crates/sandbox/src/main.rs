//! `berth-sandbox`: a whole world for Berth on one machine: a real API server, real managers, and Berth itself.
#![allow(
    clippy::disallowed_methods,
    reason = "this is a bench around the product: real clocks and the environment are its subject"
)]

mod berth;
mod capacity;
mod claims;
mod clusters;
mod demo;
mod hosts;
mod machines;
mod parts;
mod story;
mod up;
mod vip;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use parts::{Part, Spared};

const AFTER: &str = "\
Exit codes:
  0  stopped as asked, or every claim of the demo held
  1  something failed; the message names it and its log file
  2  the command line or the environment is wrong; nothing was started

Environment:
  BERTH_BIN           the berth program (default: beside this one)
  BERTH_PLANE         the control plane program (default: target/plane/bin/plane, see make plane)
  KUBEBUILDER_ASSETS  a directory with kube-apiserver and etcd to use instead
  NO_COLOR            no colour, also on a terminal";

/// A whole world for Berth on one machine, without containers: a real API server, real managers, and Berth.
#[derive(Debug, Parser)]
#[command(name = "berth-sandbox", version, after_help = AFTER, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring the world up and keep it until SIGTERM or SIGINT.
    Up(UpOptions),
    /// Show Berth at work as a story; every printed claim is checked.
    Demo(DemoOptions),
}

/// Flags of `up`.
#[derive(Args, Debug)]
struct UpOptions {
    /// Directory for data, logs, `env` and `ready`; what an earlier run stored there is kept
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// What to start as well, separated by commas: capi, ipam (real managers), hosts, ec2, cloudstack (simulators)
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = parts::part)]
    with: Vec<Part>,
    /// How many hosts to make, with `--with hosts`
    #[arg(long, value_name = "N", default_value_t = 4)]
    hosts: usize,
    /// What to leave out: berth (its kinds are installed all the same)
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = parts::spared)]
    without: Vec<Spared>,
}

/// Flags of `demo`.
#[derive(Args, Debug)]
struct DemoOptions {
    /// Directory for data and logs, empty or new (default: a temporary one, kept only after a failure)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    // Several providers may be linked; the choice must not depend on which.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let result = match cli.command {
        Command::Up(options) => up::up(options).await,
        Command::Demo(options) => demo::demo(options).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("berth-sandbox: {error:#}");
            if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// A mistake of the caller, as opposed to something that went wrong.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
