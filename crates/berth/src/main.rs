//! `berth`: one operator that gives every Cluster API machine and cluster its place on infrastructure.

mod ahead;
mod bundle;
mod capacity;
mod claims;
mod cli;
mod cloud;
mod clusters;
mod definitions;
mod doctor;
mod explain;
mod generate;
mod groups;
mod hosts;
mod leaks;
mod look;
mod machines;
mod manual;
mod migrate;
mod near;
mod plan;
mod pods;
mod reference;
mod registration;
mod rooms;
mod rows;
mod run;
mod screen;
mod serving;
mod top;
mod ui;
mod vip;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};

/// Everything went well.
const FINE: u8 = 0;
/// It was tried and failed; the message says what.
const FAILED: u8 = 1;
/// The command line or a file named on it is wrong; nothing was done.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    // `kubectl berth …` runs `kubectl-berth …`: the same program under another name.
    let cli = Cli::parse();
    // Two providers in one process would panic at the first handshake, so choose before anything else.
    let chosen = rustls::crypto::aws_lc_rs::default_provider().install_default();
    debug_assert!(chosen.is_ok(), "nothing else installs a provider");
    let code = match cli.command {
        Command::Run(options) => on_runtime(run::run(*options)),
        Command::Doctor(options) => on_runtime(doctor::doctor(options)),
        Command::Unregister(options) => on_runtime(registration::unregister(options)),
        Command::Explain(options) => on_runtime(explain::about(*options)),
        Command::Tree(options) => on_runtime(explain::draw(options)),
        Command::Vips(options) => on_runtime(explain::vips(options)),
        Command::Hosts(options) => on_runtime(explain::hosts(options)),
        Command::Leaks(options) => on_runtime(leaks::leaks(options)),
        Command::Claims(options) => on_runtime(explain::claims(options)),
        Command::Clusters(options) => on_runtime(explain::clusters(options)),
        Command::Capacity(options) => on_runtime(groups::list(*options)),
        Command::Top(options) => on_runtime(top::top(options)),
        Command::Ui(options) => on_runtime(ui::ui(*options)),
        Command::Bundle(options) => on_runtime(bundle::bundle(options)),
        Command::Migrate(options) => on_runtime(migrate::migrate(options)),
        Command::Convert(options) => finish(migrate::convert(&options)),
        Command::Plan(options) => finish(ahead::plan(&options)),
        Command::Crds(options) => finish(generate::crds(&options)),
        Command::Rbac(options) => finish(generate::rbac(&options)),
        Command::Reference(options) => finish(generate::reference(&options)),
        Command::Iam(options) => finish(generate::iam(&options)),
        Command::Webhooks(options) => finish(generate::webhooks(&options)),
        Command::Version(options) => finish(cli::version(&options)),
        Command::Completion { shell } => finish(completion(shell)),
        Command::Man { dir } => finish(manual::man(dir.as_deref())),
    };
    ExitCode::from(code)
}

/// Prints the completion script of a shell.
fn completion(shell: clap_complete::Shell) -> anyhow::Result<()> {
    // Written to memory first: the generator panics when the reader of a pipe has had enough.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "berth", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

/// Connects to the cluster. A kubeconfig that cannot be used is a mistake of the caller.
async fn connect(cluster: &cli::ClusterOptions, agent: &str) -> anyhow::Result<kube::Client> {
    connect_metered(cluster, agent, &kit::client::Meter::default()).await
}

/// The same, and counts what is asked.
async fn connect_metered(
    cluster: &cli::ClusterOptions,
    agent: &str,
    meter: &kit::client::Meter,
) -> anyhow::Result<kube::Client> {
    kit::client::connect(&cluster.access(), agent, meter).await.map_err(|error| match error {
        kit::client::Error::Kubeconfig { .. } => {
            let flag = if cluster.kubeconfig.is_some() { "--kubeconfig" } else { "--context" };
            Usage(format!("{flag}: {}", kit::class::chain(&error))).into()
        }
        other => other.into(),
    })
}

/// A mistake of the caller, as opposed to something that went wrong: exit code 2 instead of 1.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An outcome that has an exit code of its own.
#[derive(Debug)]
struct Code(u8);

impl std::fmt::Display for Code {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

impl std::error::Error for Code {}

fn on_runtime(work: impl Future<Output = anyhow::Result<()>>) -> u8 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime {
        Ok(runtime) => finish(runtime.block_on(work)),
        Err(error) => finish(Err(anyhow::Error::new(error).context("starting the runtime"))),
    }
}

fn finish(result: anyhow::Result<()>) -> u8 {
    let Err(error) = result else { return FINE };
    if let Some(Code(code)) = error.downcast_ref::<Code>() {
        return *code;
    }
    let said = format!("{error:#}");
    let hint = if is_unanswered(&error) && !said.contains("see `") { "; see `berth doctor`" } else { "" };
    eprintln!("berth: {said}{hint}");
    if error.chain().any(|cause| cause.is::<Usage>()) { USAGE } else { FAILED }
}

/// Whether the server itself is the trouble, and not what it said of a request.
fn is_unanswered(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let boxed = cause.downcast_ref::<Box<kube::Error>>().map(|boxed| &**boxed);
        let of_client = cause.downcast_ref::<kube::Error>().or(boxed);
        of_client.is_some_and(|found| !matches!(found, kube::Error::Api(_)))
    })
}
