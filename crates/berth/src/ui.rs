//! `berth ui`: the fleet in a browser, served on loopback to whoever starts it.
//!
//! What is shown is read with the rights of whoever asks and judged with the rooms' own code, as by `berth tree`, `hosts`,
//! `vips` and the other tables; the browser gets one document and draws it. Nothing can be changed through it.

mod answer;
mod fleet;
mod read;
mod shelf;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use clap::builder::BoolishValueParser;
use kit::clock::Clock;
use kit::serve::{Options, Server, plain_failure};
use kube::Client;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::Usage;
use crate::cli::{Output, OutputOptions, PlaceOptions, duration};
use crate::explain::{API_VERSION, OperatorOptions, print};
use crate::groups::GroupOptions;

use answer::{Hosts, Site, router, secured};
use fleet::{Fleet, Judges};
use shelf::{Read, Shelf};

/// The kind of the document.
const KIND: &str = "Fleet";
/// A shorter time would cost the API server more than it shows.
const SHORTEST: Duration = Duration::from_secs(1);
/// A saved document is never larger than this.
const LARGEST: u64 = 256 << 20;
/// No request has a body worth reading.
const BODY: usize = 16 << 10;
/// A large fleet takes a while to read for the first time.
const DEADLINE: Duration = Duration::from_secs(120);

/// Flags of `berth ui`.
#[derive(Args, Debug)]
#[command(mut_arg("namespace", |arg| arg.help("Show only objects in this namespace (default: all that you may see)")))]
pub struct UiOptions {
    #[command(flatten)]
    pub place: PlaceOptions,
    /// Address or port to serve on; a port alone is one of 127.0.0.1, and port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = listen)]
    pub listen: SocketAddr,
    /// Serve on an address that other machines can reach: whoever reaches it sees what you may see, without being asked who
    /// they are
    #[arg(long)]
    pub expose: bool,
    /// Open the page in your browser
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub open: bool,
    /// Read the cluster at most this often, at least 1s, and only while somebody looks
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub interval: Duration,
    /// Where the book is served, for links from reasons to their pages
    #[arg(long, value_name = "URL", value_parser = book)]
    pub book: Option<String>,
    /// Show a saved document instead of a cluster: what `berth ui -o json` printed, here or elsewhere
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context", "namespace"])]
    pub from_file: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputOptions,
    // The heading stays for whatever comes after it.
    #[command(flatten, next_help_heading = "As the operator runs")]
    pub operator: OperatorOptions,
    #[command(flatten)]
    pub groups: GroupOptions,
}

/// Reads an address with a port, or a port alone.
fn listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let wrong = || format!("`{text}` is no address with a port, such as 127.0.0.1:8090 or [::1]:8090, and no port");
    local.as_deref().unwrap_or(text).parse().map_err(|_| wrong())
}

/// Reads an address that a browser can be sent to.
fn book(text: &str) -> Result<String, String> {
    let web = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    let whole = text.parse::<http::Uri>().is_ok_and(|uri| uri.host().is_some_and(|host| !host.is_empty()));
    if web && whole {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is not an address such as https://book.example"))
}

/// Checks what the flags say together.
fn check(options: &UiOptions) -> Result<(), Usage> {
    if !options.listen.ip().is_loopback() && !options.expose {
        let ip = options.listen.ip();
        return Err(Usage(format!(
            "--listen: {ip} can be reached by other machines, and berth ui asks nobody who they are: serve on 127.0.0.1 and use \
             `ssh -L` to come from elsewhere, or add --expose"
        )));
    }
    if options.interval < SHORTEST {
        return Err(Usage("--interval: must be at least 1s".to_owned()));
    }
    if options.groups.lookup {
        return Err(Usage("--lookup: berth ui asks no cloud; see `berth explain`".to_owned()));
    }
    Ok(())
}

/// Serves the fleet until Ctrl-C, or prints it once.
pub async fn ui(options: UiOptions) -> anyhow::Result<()> {
    check(&options)?;
    let (options, clock) = (Arc::new(options), Clock::system());
    let shelf = match &options.from_file {
        Some(_) if options.output.output == Output::Json => {
            return Err(Usage("-o json: a saved document is in its file already".to_owned()).into());
        }
        Some(file) => Shelf::saved(saved(file, options.book.as_deref())?),
        None => {
            let client =
                crate::connect(&options.place.cluster, concat!("berth-ui/", env!("CARGO_PKG_VERSION"))).await?;
            if options.output.output == Output::Json {
                let fleet = Box::pin(look(client, options, clock.clone())).await?;
                let fleet = Fleet { taken: Some(format!("{:.0}", clock.now())), ..fleet };
                return print(Output::Json, KIND, &fleet, |_| String::new());
            }
            let (flags, its) = (Arc::clone(&options), clock.clone());
            let read: Read = Box::new(move || Box::pin(look(client.clone(), Arc::clone(&flags), its.clone())));
            Shelf::live(read, options.interval, clock)
        }
    };
    serve(&options, shelf).await
}

async fn serve(options: &UiOptions, shelf: Shelf) -> anyhow::Result<()> {
    let settings = Options { body_limit: BODY, deadline: DEADLINE, ..Options::new("ui", options.listen) };
    let server = Server::bind(settings).await.map_err(|error| anyhow::anyhow!(kit::class::chain(&error)))?;
    let server = server.on_failure(|failure| secured(plain_failure(failure)));
    let address = server.address();
    let hosts = if address.ip().is_loopback() { Hosts::Loopback } else { Hosts::Numbers };
    let url = format!("http://{}/", reachable(address));
    println!("{url}");
    eprintln!("berth: serving until Ctrl-C; it can only be looked at");
    if options.open {
        browse(&url);
    }
    let router = router(Arc::new(Site { shelf, hosts }));
    tokio::select! {
        ended = server.run(router, None, CancellationToken::new()) => ended.context("serving"),
        // Whatever is on its way only reads, so nothing has to be brought to an end.
        signal = tokio::signal::ctrl_c() => signal.context("waiting for Ctrl-C"),
    }
}

/// An address that a browser on this machine can ask for.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, address.port()).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (std::net::Ipv6Addr::LOCALHOST, address.port()).into(),
        _ => address,
    }
}

/// Opens an address in the browser of whoever asks; that there is none is no reason to stop.
fn browse(url: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let null = std::process::Stdio::null;
    let started = std::process::Command::new(opener).arg(url).stdin(null()).stdout(null()).stderr(null()).spawn();
    if let Err(error) = started {
        eprintln!("berth: --open: {opener} cannot be started ({error}); open the address yourself");
    }
}

/// Reads everything once and thinks about it beside the threads that answer.
async fn look(client: Client, options: Arc<UiOptions>, clock: Clock) -> anyhow::Result<Fleet> {
    let seen = Box::pin(read::see(&client, &options)).await?;
    let thought = tokio::task::spawn_blocking(move || {
        let judges = Judges {
            addresses: options.operator.addresses(),
            yard: options.operator.yard.settings(),
            default_kind: options.operator.mode.default_host_kind.clone(),
        };
        let fleet = fleet::fleet(seen, &judges, options.place.namespace.as_deref(), &clock);
        Fleet { book: options.book.clone(), ..fleet }
    });
    thought.await.context("thinking about what was read")
}

/// A saved document.
fn saved(file: &Path, book: Option<&str>) -> anyhow::Result<Value> {
    let name = file.display();
    let usage = |why: String| Usage(format!("--from-file: {name}: {why}"));
    let size = std::fs::metadata(file).map_err(|error| usage(error.to_string()))?.len();
    if size > LARGEST {
        return Err(usage(format!("{size} bytes are more than any document has")).into());
    }
    let text = std::fs::read(file).map_err(|error| usage(error.to_string()))?;
    let mut document: Value = serde_json::from_slice(&text).map_err(|error| usage(error.to_string()))?;
    let is = |field: &str, wanted: &str| document.get(field).and_then(Value::as_str) == Some(wanted);
    if !is("apiVersion", API_VERSION) || !is("kind", KIND) {
        return Err(usage(format!("is no {KIND} of {API_VERSION}; save one with `berth ui -o json`")).into());
    }
    if let (Some(book), Some(fields)) = (book, document.as_object_mut()) {
        fields.insert("book".to_owned(), book.into());
    }
    Ok(document)
}

#[cfg(test)]
mod tests;
