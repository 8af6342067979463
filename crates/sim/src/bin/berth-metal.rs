//! The host simulator as a program, for a server on this machine.
//!
//! Exit codes: 0 when it was told to stop, 1 when something did not work, 2 when a flag was wrong.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use kube::config::{KubeConfigOptions, Kubeconfig};
use sim::edge::program::{Problem, Stop, ended};
use sim::metal::{Settings, Simulator, kinds, seed};
use sim::plane;

/// Drives the BareMetalHosts of a cluster without any hardware: installs their definitions, makes hosts if asked to, says
/// `ready`, and works until it is told to stop.
#[derive(Debug, Parser)]
#[command(name = "berth-metal", version)]
struct Flags {
    /// The server to work on.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// How many hosts to make; those that are there already stay.
    #[arg(long, default_value_t = 0)]
    hosts: usize,
    /// Where to make them; the namespace is made too.
    #[arg(long, default_value = "infra", value_parser = label)]
    namespace: String,
    /// Make hosts that are inspected and available from the beginning.
    #[arg(long)]
    settled: bool,
    /// How long every step takes that a host's own script says nothing of, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    delay: u64,
    /// How many hosts are worked on at the same time.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Leave the definitions of hosts and hardware data as they are.
    #[arg(long)]
    keep_definitions: bool,
}

/// Reads what can be the name of a namespace.
fn label(text: &str) -> Result<String, String> {
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let edges = [text.bytes().next(), text.bytes().last()];
    let fits = (1..=63).contains(&text.len())
        && edges.into_iter().flatten().all(inside)
        && text.bytes().all(|b| inside(b) || b == b'-');
    fits.then(|| text.to_owned()).ok_or_else(|| "it is not the name of a namespace".to_owned())
}

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    // Several providers may be linked; the choice must not depend on which.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    ended("berth-metal", run(flags).await)
}

async fn run(flags: Flags) -> Result<(), Problem> {
    let stop = Stop::listen()?;
    tokio::select! {
        () = stop.wished() => Ok(()),
        done = serve(flags) => done,
    }
}

async fn serve(flags: Flags) -> Result<(), Problem> {
    let unreadable = |e: kube::config::KubeconfigError| {
        let cause = std::error::Error::source(&e).map(|cause| format!(": {cause}")).unwrap_or_default();
        Problem::Flag(format!("--kubeconfig: {}: {e}{cause}", flags.kubeconfig.display()))
    };
    let file = Kubeconfig::read_from(&flags.kubeconfig).map_err(unreadable)?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(unreadable)?;
    config.default_retry = false;
    let client = kube::Client::try_from(config).map_err(|e| e.to_string())?;
    if !flags.keep_definitions {
        plane::install_crds(&client, kinds::definitions()).await.map_err(|e| e.to_string())?;
    }
    if flags.hosts > 0 {
        let made = seed::hosts(&client, &flags.namespace, flags.hosts, flags.settled).await;
        made.map_err(|e| e.to_string())?;
    }
    println!("ready");
    let delay = Duration::from_millis(flags.delay);
    let settings = Settings { delay, workers: flags.workers.into(), ..Settings::default() };
    Simulator::new(client, settings).run().await;
    Err("the watch on hosts ended".to_owned().into())
}
