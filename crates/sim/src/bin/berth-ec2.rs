//! The EC2 simulator as a program, for clients in other languages and for trying things by hand.

use std::process::ExitCode;

use clap::Parser;
use sim::ec2::world::settings::Throttle;
use sim::ec2::{Options, start};
use sim::edge::program::{Listen, Problem, Stop, ended, told};

/// A strict simulator of EC2 and STS on the loopback address. Prints shell lines that point clients at it, then serves
/// until it is told to stop.
#[derive(Debug, Parser)]
#[command(name = "berth-ec2", version)]
struct Flags {
    #[command(flatten)]
    listen: Listen,
    /// Account id.
    #[arg(long, default_value = "123456789012")]
    account: String,
    /// Dedicated hosts of one family per region.
    #[arg(long, default_value_t = 2)]
    host_quota: u32,
    /// Part of the published request limits to apply, in percent; 0 = none.
    #[arg(long, default_value_t = 100)]
    throttle_percent: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    ended("berth-ec2", run(Flags::parse()).await)
}

async fn run(flags: Flags) -> Result<(), Problem> {
    let (stop, tls) = (Stop::listen()?, flags.listen.key_pair()?);
    let mut options =
        Options { port: flags.listen.port, tls, seed: flags.listen.seed, account: flags.account, ..Options::default() };
    options.settings.host_quota = flags.host_quota;
    options.settings.throttle = match flags.throttle_percent {
        0 => Throttle::Off,
        percent => Throttle::Percent(percent),
    };
    let handle = start(options).await.map_err(|error| told(&error))?;
    println!("export AWS_ENDPOINT_URL={}", handle.endpoint);
    println!("export AWS_ACCESS_KEY_ID={}", handle.access_key);
    println!("export AWS_SECRET_ACCESS_KEY={}", handle.secret);
    println!("export AWS_DEFAULT_REGION=us-east-1");
    stop.wished().await;
    handle.stop();
    Ok(())
}
