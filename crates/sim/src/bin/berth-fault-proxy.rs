//! `berth-fault-proxy`: the fault proxy as a program, for tests of real processes.
//!
//! Prints one line, the URL it listens on, once it does. Exit codes: 0 after SIGTERM, SIGINT or `{"stop": true}`,
//! 1 when it could not listen, 2 when a flag or a rule is wrong (the message names it).
#![allow(
    clippy::disallowed_methods,
    reason = "a program of its own that lives in the time of the processes it stands between"
)]

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use sim::proxy::{Error, Inbound, Options, Pem, Protocol, Proxy, Upstream, rules};
use tokio::signal::unix::{SignalKind, signal};

/// Stands between a client and a server and breaks things on purpose.
#[derive(Parser)]
#[command(name = "berth-fault-proxy", version)]
struct Flags {
    /// Loopback address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where requests go: scheme, host and port.
    #[arg(long, value_name = "URL", required_unless_present = "kubeconfig", conflicts_with = "kubeconfig")]
    to: Option<String>,
    /// Certificate authority of an https upstream.
    #[arg(long, value_name = "FILE", conflicts_with = "kubeconfig")]
    ca: Option<PathBuf>,
    /// Client certificate shown to the upstream.
    #[arg(long, value_name = "FILE", requires = "client_key", conflicts_with = "kubeconfig")]
    client_cert: Option<PathBuf>,
    /// Key of the client certificate.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Protocol spoken to the upstream.
    #[arg(long, value_name = "PROTOCOL", default_value = "auto", value_parser = ["auto", "http1", "http2"])]
    protocol: String,
    /// Take the upstream and the client certificate from this kubeconfig's current context.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Write a kubeconfig that goes through the proxy to this file.
    #[arg(long, value_name = "FILE", requires = "kubeconfig")]
    kubeconfig_out: Option<PathBuf>,
    /// Serve TLS with a certificate made at start, written to this directory with its authority (ca.crt).
    #[arg(long, value_name = "DIR", conflicts_with_all = ["tls_cert", "tls_key"])]
    tls_dir: Option<PathBuf>,
    /// Serve TLS with this certificate chain.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the serving certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// JSON document with the rules to start with.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Path of the control socket.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Number that all chance is drawn from.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// File to write the URL to, once the proxy listens.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

fn file_error(field: &'static str, path: &std::path::Path, error: &std::io::Error) -> Error {
    Error::Option { field, problem: format!("{}: {error}", path.display()) }
}

fn options(flags: &Flags) -> Result<Options, Error> {
    let mut upstream = match (&flags.kubeconfig, &flags.to) {
        (Some(path), _) => Upstream::from_kubeconfig(path)?,
        (None, to) => Upstream::plain(to.clone().unwrap_or_default()),
    };
    if flags.kubeconfig.is_none() {
        upstream.ca = flags.ca.clone().map(Pem::File);
        upstream.identity = flags.client_cert.clone().map(Pem::File).zip(flags.client_key.clone().map(Pem::File));
    }
    upstream.protocol = match flags.protocol.as_str() {
        "http1" => Protocol::Http1,
        "http2" => Protocol::Http2,
        _ => Protocol::Auto,
    };
    let mut options = Options::new(upstream);
    options.listen = flags.listen;
    options.inbound = match (&flags.tls_dir, &flags.tls_cert, &flags.tls_key) {
        (Some(dir), _, _) => Inbound::Generated { dir: dir.clone() },
        (None, Some(cert), Some(key)) => Inbound::Files { cert: cert.clone(), key: key.clone(), ca: None },
        _ => Inbound::Plain,
    };
    if let Some(path) = &flags.rules {
        let document = std::fs::read_to_string(path).map_err(|e| file_error("rules", path, &e))?;
        options.rules = rules::parse(&document)?;
    }
    options.control = flags.control.clone();
    options.seed = flags.seed;
    Ok(options)
}

async fn run(flags: Flags) -> Result<(), Error> {
    // Before the first line is printed, so that whoever reads it may send a signal at once.
    let signals = |kind, name: &'static str| {
        signal(kind).map_err(|e| Error::Option { field: "signal", problem: format!("{name}: {e}") })
    };
    let mut terminate = signals(SignalKind::terminate(), "SIGTERM")?;
    let mut interrupt = signals(SignalKind::interrupt(), "SIGINT")?;

    let proxy = Proxy::start(options(&flags)?).await?;
    if let (Some(from), Some(to)) = (&flags.kubeconfig, &flags.kubeconfig_out) {
        write_whole(to, &proxy.kubeconfig(from)?).map_err(|e| file_error("kubeconfig-out", to, &e))?;
    }
    println!("{}", proxy.url());
    if let Some(path) = &flags.ready_file {
        write_whole(path, &format!("{}\n", proxy.url())).map_err(|e| file_error("ready-file", path, &e))?;
    }
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = proxy.stopped() => {}
    }
    proxy.stop().await;
    Ok(())
}

/// Writes beside the file and renames, so that a reader never sees half of it; a kubeconfig may hold a token.
fn write_whole(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    let mut file = std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&beside, path)
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    tracing_subscriber::fmt().json().with_writer(std::io::stderr).init();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("berth-fault-proxy: could not start the runtime: {error}");
            return ExitCode::from(1);
        }
    };
    let ended = runtime.block_on(run(flags));
    // Streams that are held open by a rule must not hold up the end.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ Error::Listen { .. }) => {
            let cause = std::error::Error::source(&error).map(|e| format!(": {e}")).unwrap_or_default();
            eprintln!("berth-fault-proxy: {error}{cause}");
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("berth-fault-proxy: {error}");
            ExitCode::from(2)
        }
    }
}
