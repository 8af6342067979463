//! The EC2 simulator as a program, for clients in other languages and for trying things by hand.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use sim::ec2::world::settings::Throttle;
use sim::ec2::{KeyPair, Options, start};
use tokio::signal::unix::{SignalKind, signal};

/// A strict simulator of EC2 and STS on the loopback address. Prints shell lines that point clients at it, then serves
/// until it is told to stop.
#[derive(Debug, Parser)]
#[command(name = "berth-ec2", version)]
struct Flags {
    /// Port to listen on; 0 = a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Certificate chain (PEM) to serve TLS with.
    #[arg(long, requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key (PEM) of that certificate.
    #[arg(long, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Account id.
    #[arg(long, default_value = "123456789012")]
    account: String,
    /// Dedicated hosts of one family per region.
    #[arg(long, default_value_t = 2)]
    host_quota: u32,
    /// Part of the published request limits to apply, in percent; 0 = none.
    #[arg(long, default_value_t = 100)]
    throttle_percent: u32,
    /// Chance comes from this number alone.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("berth-ec2: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: Flags) -> Result<(), String> {
    let read = |path: &PathBuf| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
    let tls = match (&flags.tls_cert, &flags.tls_key) {
        (Some(cert), Some(key)) => Some(KeyPair { chain: read(cert)?, key: read(key)? }),
        _ => None,
    };
    let mut options = Options { port: flags.port, tls, seed: flags.seed, account: flags.account, ..Options::default() };
    options.settings.host_quota = flags.host_quota;
    options.settings.throttle = match flags.throttle_percent {
        0 => Throttle::Off,
        percent => Throttle::Percent(percent),
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(|e| e.to_string())?;
    let handle = start(options).await.map_err(|e| match std::error::Error::source(&e) {
        Some(cause) => format!("{e}: {cause}"),
        None => e.to_string(),
    })?;
    println!("export AWS_ENDPOINT_URL={}", handle.endpoint);
    println!("export AWS_ACCESS_KEY_ID={}", handle.access_key);
    println!("export AWS_SECRET_ACCESS_KEY={}", handle.secret);
    println!("export AWS_DEFAULT_REGION=us-east-1");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    handle.stop();
    Ok(())
}
