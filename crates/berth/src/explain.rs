//! `berth explain`, `berth tree` and `berth vips`: what Berth thinks of a cluster, told and not carried out.
//!
//! They read with the rights of whoever asks and judge with the room's own code. Nothing is written.

use std::io::Write;

use ::vip::explain::{explain, tree};
use api::reasons::vip::Reason;
use clap::Args;
use kit::clock::Clock;
use kit::explain::{Explanation, Fact, Level, Node};
use kube::Client;
use serde::Serialize;

use crate::cli::{ClusterOptions, Output, OutputOptions, WatchFilter};
use crate::look::{Look, Which, look};
use crate::screen::{self, Screen};
use crate::vip::JudgeOptions;

/// The version of every document.
const API_VERSION: &str = "cli.berth.dev/v1";

/// The role whose address is the endpoint.
const CONTROL_PLANE: &str = "control-plane";

/// Flags of `berth explain` and `berth tree`.
#[derive(Args, Debug)]
pub struct AboutOptions {
    /// What to look at, for example cluster/prod
    #[arg(value_name = "KIND/NAME", value_parser = subject)]
    pub name: String,
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Namespace of the object (default: the one of the kubeconfig)
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub output: OutputOptions,
    // The heading stays for whatever comes after it.
    #[command(flatten, next_help_heading = "As the operator runs")]
    pub judge: JudgeOptions,
    #[command(flatten)]
    pub watch_filter: WatchFilter,
}

/// Flags of `berth vips`.
#[derive(Args, Debug)]
pub struct VipsOptions {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Only clusters in this namespace (default: the one of the kubeconfig)
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Clusters in all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    #[command(flatten)]
    pub output: OutputOptions,
    // The heading stays for whatever comes after it.
    #[command(flatten, next_help_heading = "As the operator runs")]
    pub judge: JudgeOptions,
    #[command(flatten)]
    pub watch_filter: WatchFilter,
}

/// Reads `cluster/<name>`, with the kind in any of the ways kubectl knows it.
fn subject(text: &str) -> Result<String, String> {
    let Some((kind, name)) = text.split_once('/') else {
        return Err(format!("expected KIND/NAME, for example cluster/{text}"));
    };
    let known = ["cluster", "clusters", "cluster.cluster.x-k8s.io", "clusters.cluster.x-k8s.io"];
    if !known.contains(&kind.to_lowercase().as_str()) {
        return Err(format!("the kind `{kind}` is not known here; known is: cluster"));
    }
    name.parse::<api::names::DnsSubdomain>().map_err(|error| error.to_string())?;
    Ok(name.to_owned())
}

/// Explains a cluster.
pub async fn about(options: AboutOptions) -> anyhow::Result<()> {
    let (look, config) = (see(&options, "explain").await?, options.judge.config(&options.watch_filter));
    let now = Clock::system().now();
    for cluster in &look.clusters {
        let told = explain(&look.sight, cluster, &config, now);
        print(options.output.output, "Explanation", &told, |screen| screen::explanation(screen, &told))?;
    }
    Ok(())
}

/// Draws a cluster as a tree.
pub async fn draw(options: AboutOptions) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Tree<'a> {
        root: &'a Node,
    }
    let (look, config) = (see(&options, "tree").await?, options.judge.config(&options.watch_filter));
    let now = Clock::system().now();
    for cluster in &look.clusters {
        let root = tree(&look.sight, cluster, &config, now);
        print(options.output.output, "Tree", &Tree { root: &root }, |screen| screen::tree(screen, &root))?;
    }
    Ok(())
}

/// Lists the addresses of clusters.
pub async fn vips(options: VipsOptions) -> anyhow::Result<()> {
    let client = connect(&options.cluster).await?;
    let namespace = options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let which = if options.all_namespaces { Which::All } else { Which::In(&namespace) };
    let (look, config) = (look(&client, &which, "vips").await?, options.judge.config(&options.watch_filter));
    let now = Clock::system().now();
    let items: Vec<Vip> =
        look.clusters.iter().flat_map(|cluster| rows(&explain(&look.sight, cluster, &config, now))).collect();
    print(options.output.output, "VipList", &Vips { items: &items }, |screen| vips_screen(screen, &items))
}

/// The addresses of clusters.
#[derive(Serialize)]
struct Vips<'a> {
    items: &'a [Vip],
}

/// One address that a cluster has or waits for.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Vip {
    namespace: String,
    cluster: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    message: String,
}

/// The rows of one cluster: one for each address it wants, or one that says why it wants none.
fn rows(told: &Explanation) -> Vec<Vip> {
    let row = |role: Option<&str>, level, reason, message: &str| Vip {
        namespace: told.object.namespace.clone().unwrap_or_default(),
        cluster: told.object.name.clone(),
        role: role.map(str::to_owned),
        level,
        address: None,
        pool: None,
        reason,
        message: message.to_owned(),
    };
    let value = |facts: &[Fact], name: &str| facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone());
    let wanted = told.needs.iter().filter(|need| need.level != Level::Aside);
    let mut rows: Vec<Vip> = wanted
        .map(|need| {
            let role = need.name.strip_suffix(" address").unwrap_or(&need.name);
            let (address, pool) = (value(&need.facts, "address"), value(&need.facts, "pool"));
            Vip { address, pool, ..row(Some(role), need.level, need.reason, &need.sentence) }
        })
        .collect();
    if rows.iter().any(|row| row.role.as_deref() == Some(CONTROL_PLANE)) {
        return rows;
    }
    rows.insert(
        0,
        match told.level {
            Level::Aside => row(None, told.level, None, &told.summary),
            // No address is taken for it, but it has one: the endpoint that its user chose.
            level => Vip {
                address: value(&told.facts, "endpoint"),
                ..row(Some(CONTROL_PLANE), level, Some(Reason::Manual.as_str()), &told.summary)
            },
        },
    );
    rows
}

fn vips_screen(screen: Screen, items: &[Vip]) -> String {
    if items.is_empty() {
        return "no clusters; look into all namespaces with -A\n".to_owned();
    }
    let row = |vip: &Vip| {
        let cell = |value: Option<&str>| value.unwrap_or("-").to_owned();
        let cluster = format!("{}/{}", vip.namespace, vip.cluster);
        // A word or two; `explain` has the sentence.
        let state = vip.reason.unwrap_or(if vip.level == Level::Aside { "left alone" } else { "unknown" }).to_owned();
        [cluster, cell(vip.role.as_deref()), cell(vip.address.as_deref()), cell(vip.pool.as_deref()), state]
    };
    let rows: Vec<[String; 5]> = items.iter().map(row).collect();
    screen::table(screen, ["CLUSTER", "ROLE", "ADDRESS", "POOL", "STATE"], &rows)
}

async fn see(options: &AboutOptions, command: &str) -> anyhow::Result<Look> {
    let client = connect(&options.cluster).await?;
    let namespace = options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    look(&client, &Which::One(&namespace, &options.name), command).await
}

async fn connect(cluster: &ClusterOptions) -> anyhow::Result<Client> {
    crate::connect(cluster, concat!("berth-explain/", env!("CARGO_PKG_VERSION"))).await
}

fn print<T: Serialize>(
    output: Output,
    kind: &'static str,
    value: &T,
    text: impl FnOnce(Screen) -> String,
) -> anyhow::Result<()> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Document<'a, T> {
        api_version: &'static str,
        kind: &'static str,
        #[serde(flatten)]
        value: &'a T,
    }
    let mut text = match output {
        Output::Json => serde_json::to_string_pretty(&Document { api_version: API_VERSION, kind, value })?,
        Output::Text => text(Screen::standard_output()),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests;
