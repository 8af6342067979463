//! The CloudStack simulator as a program, for clients in other languages and for trying things by hand.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use sim::cloudstack::{Options, start};
use sim::edge::program::{Listen, Problem, Stop, ended, told};

/// A strict simulator of a CloudStack management server on the loopback address. Prints shell lines that point clients
/// at it, then serves until it is told to stop.
#[derive(Debug, Parser)]
#[command(name = "berth-cloudstack", version)]
struct Flags {
    #[command(flatten)]
    listen: Listen,
    /// Take requests without an expiry, as servers do that do not enforce one.
    #[arg(long)]
    allow_unexpiring: bool,
    /// How long jobs take, in percent of a real server's time.
    #[arg(long, default_value_t = 100)]
    pace_percent: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    ended("berth-cloudstack", run(Flags::parse()).await)
}

async fn run(flags: Flags) -> Result<(), Problem> {
    let (stop, tls) = (Stop::listen()?, flags.listen.key_pair()?);
    let mut options = Options { port: flags.listen.port, tls, seed: flags.listen.seed, ..Options::default() };
    options.settings.enforce_expiry = !flags.allow_unexpiring;
    let delays = &mut options.settings.delays;
    let paced = |delay: &mut Duration| *delay = delay.saturating_mul(flags.pace_percent) / 100;
    [&mut delays.deploy, &mut delays.power, &mut delays.expunge, &mut delays.other].into_iter().for_each(paced);
    let handle = start(options).await.map_err(|error| told(&error))?;
    println!("export CLOUDSTACK_ENDPOINT={}", handle.endpoint);
    println!("export CLOUDSTACK_KEY={}", handle.api_key);
    println!("export CLOUDSTACK_SECRET={}", handle.secret_key);
    stop.wished().await;
    handle.stop();
    Ok(())
}
