//! Claims on hosts, and the hosts.

use ::claims::explain::{
    ClaimCounts, ClaimTable, HostCounts, HostTable, Sight, claim_table, explain, host_table, tree,
};
use ::claims::yard::Settings;
use anyhow::Context;
use api::key::ObjectKey;
use kit::clock::Clock;
use kit::explain::{Explanation, Node};
use kube::Client;

use super::{AboutOptions, HostsListOptions, ListOptions, connect, print};
use crate::Usage;
use crate::leaks;
use crate::look::{self, Which};
use crate::screen::{self, Screen, age, cell, tally};

/// Labels of one host that are shown.
const LABELS: usize = 4;

/// Explains a claim.
pub async fn about(client: &Client, options: &AboutOptions, name: &str) -> anyhow::Result<Explanation> {
    let (mut sight, key) = see(client, options, name, "explain").await?;
    explain(&mut sight, &key, Clock::system().now()).context("the claim was not read")
}

/// Draws a claim.
pub async fn draw(client: &Client, options: &AboutOptions, name: &str) -> anyhow::Result<Node> {
    let (mut sight, key) = see(client, options, name, "tree").await?;
    tree(&mut sight, &key, Clock::system().now()).context("the claim was not read")
}

async fn see(client: &Client, options: &AboutOptions, name: &str, command: &str) -> anyhow::Result<(Sight, ObjectKey)> {
    let namespace = options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let lists = look::claims(client, &Which::One(&namespace, name), command).await?;
    let sight = Sight::of(lists, options.yard.settings(), Clock::system().now());
    Ok((sight, ObjectKey::namespaced(namespace, name)))
}

/// Lists hosts: those that can be claimed, or the dedicated ones on EC2.
pub async fn hosts(options: HostsListOptions) -> anyhow::Result<()> {
    let HostsListOptions { list: options, aws, cloud } = options;
    if aws {
        return leaks::list(&options.cluster, &cloud, options.namespace.as_deref(), options.output).await;
    }
    if !cloud.region.is_empty() || !cloud.aws_endpoint.is_empty() {
        return Err(Usage("--region and --aws-endpoint: only with --aws".to_owned()).into());
    }
    let client = connect(&options.cluster).await?;
    let namespace = options.namespace(&client);
    let which = namespace.as_deref().map_or(Which::All, Which::In);
    let sight = Sight::of(look::hosts(&client, &which).await?, Settings::default(), Clock::system().now());
    let table = host_table(&sight, namespace.as_deref());
    print(options.output.output, "HostList", &table, |screen| hosts_screen(screen, &table))
}

/// Lists claims.
pub async fn claims(options: ListOptions) -> anyhow::Result<()> {
    let client = connect(&options.cluster).await?;
    let namespace = options.namespace(&client);
    let which = namespace.as_deref().map_or(Which::All, Which::In);
    let now = Clock::system().now();
    let lists = look::claims_alone(&client, &which).await?;
    let table = claim_table(&Sight::of(lists, Settings::default(), now), namespace.as_deref(), now);
    print(options.output.output, "ClaimList", &table, |screen| claims_screen(screen, &table))
}

pub(super) fn hosts_screen(screen: Screen, table: &HostTable) -> String {
    if table.items.is_empty() {
        return "no hosts; look into all namespaces with -A\n".to_owned();
    }
    let rows: Vec<[String; 7]> = table
        .items
        .iter()
        .map(|host| {
            let power = match host.powered_on {
                Some(true) => "on",
                Some(false) => "off",
                None => "?",
            };
            let more = host.labels.len().saturating_sub(LABELS);
            let shown = host.labels.iter().take(LABELS).cloned();
            let labels: Vec<String> = shown.chain((more > 0).then(|| format!("+{more}"))).collect();
            [
                host.namespace.clone(),
                host.name.clone(),
                cell(Some(&host.state)),
                cell(host.consumer.as_deref()),
                power.to_owned(),
                cell(host.error.as_deref()),
                cell(Some(&labels.join(" "))),
            ]
        })
        .collect();
    let heading = ["NAMESPACE", "NAME", "STATE", "CONSUMER", "POWER", "ERROR", "LABELS"];
    let HostCounts { free, used, failed, unavailable } = table.counts;
    let counts = [(free, "free"), (used, "used"), (failed, "failed"), (unavailable, "not available")];
    let tally = screen::text(screen, &tally(rows.len(), "host", &counts));
    format!("{}\n{tally}", screen::table(screen, heading, &rows))
}

pub(super) fn claims_screen(screen: Screen, table: &ClaimTable) -> String {
    if table.items.is_empty() {
        return "no claims; look into all namespaces with -A\n".to_owned();
    }
    let rows: Vec<[String; 7]> = table
        .items
        .iter()
        .map(|claim| {
            [
                claim.namespace.clone(),
                claim.name.clone(),
                claim.kind.clone(),
                cell(claim.host.as_deref()),
                cell(Some(&claim.ready)),
                age(claim.age_seconds),
                cell(claim.reason.as_deref()),
            ]
        })
        .collect();
    let heading = ["NAMESPACE", "NAME", "KIND", "HOST", "READY", "AGE", "REASON"];
    let ClaimCounts { ready, bound, waiting, leaving } = table.counts;
    let counts = [(ready, "ready"), (bound, "with a host"), (waiting, "without a host"), (leaving, "being deleted")];
    let tally = screen::text(screen, &tally(rows.len(), "claim", &counts));
    format!("{}\n{tally}", screen::table(screen, heading, &rows))
}
