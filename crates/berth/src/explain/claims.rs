//! Claims on hosts, and the hosts.

use std::collections::{BTreeMap, BTreeSet};

use ::claims::explain::{
    ClaimCounts, ClaimRow, ClaimTable, HostCounts, HostRow, HostSort, HostTable, Lists, Sight, claim_table, explain,
    host_table, tree,
};
use ::claims::yard::Settings;
use anyhow::Context;
use api::key::ObjectKey;
use api::raw::HostClaim;
use kit::clock::Clock;
use kit::explain::{Explanation, Level, Next, Node};
use kube::Client;
use serde::Serialize;

use super::{AboutOptions, HostsListOptions, ListOptions, connect};
use crate::Usage;
use crate::leaks;
use crate::look::{self, Hardware, Reader, Which};
use crate::rows::{Cells, shown};
use crate::screen::{self, Screen, age, cell, tally};

/// Labels of one host that are shown.
const LABELS: usize = 4;

/// Explains a claim.
pub async fn about(client: &Client, options: &AboutOptions, name: &str) -> anyhow::Result<Explanation> {
    let (mut sight, key) = see(client, options, name, Hardware::AtOnce, "explain").await?;
    let told = explain(&mut sight, &key, Clock::system().now()).context("the claim was not read")?;
    Ok(continued(told))
}

/// The same with when it is looked at again, where the room that serves its kind goes by a pause.
pub(super) fn continued(mut told: Explanation) -> Explanation {
    let kind = told.facts.iter().find(|fact| fact.name == "kind").map(|fact| fact.value.as_str());
    if matches!(told.level, Level::Waiting | Level::Problem) && told.next.is_empty() {
        told.next.extend(kind.and_then(again));
    }
    told
}

/// When a claim of a kind is looked at again that is not as it should be. How long the pause is by now, only the operator
/// knows.
fn again(kind: &str) -> Option<Next> {
    let by = match kind {
        ::hosts::claim::KIND => "hosts",
        ::clusters::vm::KIND => "clusters",
        _ => return None,
    };
    // All kinds of claims keep to the same pauses.
    let [shortest, longest] = [1, u32::MAX].map(|tries| ::hosts::claim::pace(tries).as_secs());
    let what = format!(
        "look again at every change, and without one after a pause that doubles from {shortest} s to {longest} s"
    );
    Some(Next { by, what })
}

/// Draws a claim.
pub async fn draw(client: &Client, options: &AboutOptions, name: &str) -> anyhow::Result<Node> {
    let (mut sight, key) = see(client, options, name, Hardware::WhenSought, "tree").await?;
    tree(&mut sight, &key, Clock::system().now()).context("the claim was not read")
}

async fn see(
    client: &Client,
    options: &AboutOptions,
    name: &str,
    hardware: Hardware,
    command: &str,
) -> anyhow::Result<(Sight, ObjectKey)> {
    let namespace = options.place.namespace(client);
    let (reader, which) = (Reader::new(client, Some(&namespace)), Which::One(&namespace, name));
    let lists = look::claims(&reader, &which, hardware, command).await?;
    let sight = Sight::of(lists, options.operator.yard.settings(), Clock::system().now());
    Ok((sight, ObjectKey::namespaced(namespace, name)))
}

/// Lists hosts: those that can be claimed, or the dedicated ones on EC2.
pub async fn hosts(options: HostsListOptions) -> anyhow::Result<()> {
    let HostsListOptions { list: options, aws, cloud } = &options;
    if !aws && (!cloud.region.is_empty() || !cloud.aws_endpoint.is_empty()) {
        return Err(Usage("--region and --aws-endpoint: only with --aws".to_owned()).into());
    }
    let client = connect(options.places.cluster()).await?;
    let look = async || match aws {
        true => Box::pin(leaks::list(&client, cloud, options.places.named(), &options.rows)).await,
        false => Box::pin(hosts_listed(&client, options)).await,
    };
    shown(options.rows.watch, look).await
}

pub(super) async fn hosts_listed(client: &Client, options: &ListOptions) -> anyhow::Result<String> {
    let namespace = options.places.namespace(client);
    let which = namespace.as_deref().map_or(Which::All, Which::In);
    let lists = look::hosts(client, &which).await?;
    let zones = look::zones(&lists);
    let sight = Sight::of(lists, Settings::default(), Clock::system().now());
    let items = options.rows.choose(placed(host_table(&sight, namespace.as_deref()), &zones), true)?;
    let table = recounted(&items);
    let document = Hosts { counts: table.counts, items: &items };
    options.rows.render("HostList", &items, &document, |screen| hosts_screen(screen, &table))
}

/// The hosts that are left, and how many of each sort.
#[derive(Serialize)]
pub(super) struct Hosts<'a> {
    pub(super) counts: HostCounts,
    pub(super) items: &'a [Host],
}

/// A host, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Host {
    #[serde(flatten)]
    row: HostRow,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
}

/// The hosts of a table, each with its zone.
pub(super) fn placed(table: HostTable, zones: &BTreeMap<ObjectKey, String>) -> Vec<Host> {
    let zone = |row: &HostRow| zones.get(&ObjectKey::namespaced(row.namespace.as_str(), row.name.as_str())).cloned();
    table.items.into_iter().map(|row| Host { zone: zone(&row), row }).collect()
}

/// The table of those hosts that are left.
pub(super) fn recounted(hosts: &[Host]) -> HostTable {
    let count = |sort: HostSort| hosts.iter().filter(|host| host.row.sort == sort).count();
    let counts = HostCounts {
        free: count(HostSort::Free),
        used: count(HostSort::Used),
        failed: count(HostSort::Failed),
        unavailable: count(HostSort::Unavailable),
    };
    HostTable { counts, items: hosts.iter().map(|host| host.row.clone()).collect() }
}

impl Cells for Host {
    const COLUMNS: &'static [&'static str] =
        &["namespace", "name", "sort", "state", "zone", "consumer", "tenant", "power", "error"];

    fn cells(&self) -> Vec<String> {
        let (row, held) = (&self.row, |value: &Option<String>| value.clone().unwrap_or_default());
        let sort = match row.sort {
            HostSort::Free => "free",
            HostSort::Used => "used",
            HostSort::Failed => "failed",
            HostSort::Unavailable => "unavailable",
        };
        // `namespace/name`, behind the kind if that is not a claim.
        let consumer = row.consumer.as_deref().and_then(|consumer| consumer.rsplit(' ').next());
        let tenant = consumer.and_then(|key| key.split_once('/')).map(|(namespace, _)| namespace.to_owned());
        vec![
            row.namespace.clone(),
            row.name.clone(),
            sort.to_owned(),
            row.state.clone(),
            held(&self.zone),
            held(&row.consumer),
            tenant.unwrap_or_default(),
            power(row.powered_on).to_owned(),
            held(&row.error),
        ]
    }

    fn labels(&self) -> Option<&[String]> {
        Some(&self.row.labels)
    }
}

fn power(on: Option<bool>) -> &'static str {
    match on {
        Some(true) => "on",
        Some(false) => "off",
        None => "?",
    }
}

/// Lists claims.
pub async fn claims(options: ListOptions) -> anyhow::Result<()> {
    let client = connect(options.places.cluster()).await?;
    shown(options.rows.watch, async || Box::pin(claims_listed(&client, &options)).await).await
}

pub(super) async fn claims_listed(client: &Client, options: &ListOptions) -> anyhow::Result<String> {
    let namespace = options.places.namespace(client);
    let which = namespace.as_deref().map_or(Which::All, Which::In);
    let now = Clock::system().now();
    let lists = look::claims_alone(client, &which).await?;
    let leaving = leaving(&lists);
    let table = claim_table(&Sight::of(lists, Settings::default(), now), namespace.as_deref(), now);
    let items: Vec<Claim> = options.rows.choose(table.items.into_iter().map(Claim).collect(), false)?;
    let items: Vec<ClaimRow> = items.into_iter().map(|claim| claim.0).collect();
    let table = ClaimTable { counts: tallied(&items, &leaving), items };
    let rows: Vec<Claim> = table.items.iter().cloned().map(Claim).collect();
    options.rows.render("ClaimList", &rows, &table, |screen| claims_screen(screen, &table))
}

/// The claims that are being deleted.
pub(super) fn leaving(lists: &Lists) -> BTreeSet<ObjectKey> {
    let gone = |claim: &&HostClaim| claim.metadata.deletion_timestamp.is_some();
    lists.claims.iter().filter(gone).map(ObjectKey::of).collect()
}

/// How many of these claims there are of each sort.
pub(super) fn tallied(rows: &[ClaimRow], leaving: &BTreeSet<ObjectKey>) -> ClaimCounts {
    let mut counts = ClaimCounts::default();
    for row in rows {
        let key = ObjectKey::namespaced(row.namespace.as_str(), row.name.as_str());
        let count = match (leaving.contains(&key), row.ready.as_str(), &row.host) {
            (true, ..) => &mut counts.leaving,
            (_, "True", _) => &mut counts.ready,
            (_, _, Some(_)) => &mut counts.bound,
            _ => &mut counts.waiting,
        };
        *count += 1;
    }
    counts
}

/// A claim as a row.
struct Claim(ClaimRow);

impl Cells for Claim {
    const COLUMNS: &'static [&'static str] = &["namespace", "name", "kind", "host", "ready", "age", "reason"];

    fn cells(&self) -> Vec<String> {
        let (row, held) = (&self.0, |value: &Option<String>| value.clone().unwrap_or_default());
        let (namespace, name, kind) = (row.namespace.clone(), row.name.clone(), row.kind.clone());
        vec![namespace, name, kind, held(&row.host), row.ready.clone(), row.age_seconds.to_string(), held(&row.reason)]
    }
}

pub(super) fn hosts_screen(screen: Screen, table: &HostTable) -> String {
    if table.items.is_empty() {
        return screen::text(screen, "no hosts; look into all namespaces with -A");
    }
    let rows: Vec<[String; 7]> = table
        .items
        .iter()
        .map(|host| {
            let power = power(host.powered_on);
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
        return screen::text(screen, "no claims; look into all namespaces with -A");
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
