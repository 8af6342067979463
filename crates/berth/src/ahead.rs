//! `berth plan` for what others write and Berth fulfils: which host a claim of a file would get, which address a cluster, which
//! annotations a group of machines, and for which machine a dedicated host or a claim would be asked for.
//!
//! The objects of the files are laid over what the server has, and told as `berth explain` would, by the rooms' own decisions.
//! Nothing is written, no cloud is asked, and what is promised to others is not promised twice. What stands in the same files
//! of clusters on CloudStack is told with it, and what is passed over by its kind.

mod dedicated;
mod files;
mod groups;
mod metal;
mod owners;

use ::claims::explain::{Lists, Sight as Hosts, explain as explain_claim};
use ::clusters::plan::Plan;
use ::vip::explain::{Sight as Addresses, explain as explain_cluster};
use anyhow::Context as _;
use api::key::ObjectKey;
use api::views::{CLUSTER_API_GROUP, INFRASTRUCTURE_GROUP};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use kit::clock::Clock;
use kit::explain::{Explanation, Extent, Level};
use kube::Client;
use serde::Serialize;

use crate::capacity::Judgement;
use crate::cli::ClusterOptions;
use crate::explain::{OperatorOptions, explanations_screen, print};
use crate::look::{self, Hardware, Read, Reader, Which};
use crate::plan::{self, PlanOptions, Plans};
use crate::screen::{self, Screen};
use crate::{Code, FAILED};
use files::Files;
pub use files::PassedOver;

/// The group of claims.
const METAL_GROUP: &str = "metal3.io";

/// What is said of an object that admission would not take, or whose machines it would not.
const REFUSED: &str = "would be refused: ";

/// How the operator runs, where that changes what becomes of objects that others write. The flags are those of `berth run`.
#[derive(Args, Debug)]
pub struct AheadOptions {
    #[command(flatten)]
    pub operator: OperatorOptions,
    #[command(flatten)]
    pub judgement: Judgement,
    /// Feature gates as NAME=true|false, separated by commas
    #[arg(long, value_name = "GATES", value_delimiter = ',')]
    pub feature_gates: Vec<String>,
    /// The most dedicated hosts a cluster may have
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub max_hosts_per_cluster: u32,
    /// The most dedicated hosts a cluster may ask for within an hour
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_allocations_per_hour: u32,
    /// Namespace Berth runs in; its catalogue of instance types is read there
    #[arg(long, value_name = "NAME", default_value = api::names::SYSTEM_NAMESPACE)]
    pub operator_namespace: api::names::DnsLabel,
}

/// What is told of files that hold nothing of clusters on CloudStack.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    items: &'a [Explanation],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    passed_over: &'a [PassedOver],
}

/// Plans the files: what others write against the server, clusters on CloudStack as they always were.
pub fn plan(options: &PlanOptions) -> anyhow::Result<()> {
    let texts = plan::texts(&options.file)?;
    let mut files = Files::read(if options.live { &texts } else { &[] }, Clock::system().now())?;
    let asked = is_told(&files);
    let told = if asked { tell(&options.cluster, &mut files, &options.ahead)? } else { Vec::new() };
    let anywhere = files.leave(api::names::clusters::GROUP);
    // Whoever asks about claims alone needs no right to what CloudStack's clusters are made of.
    let plans = if !asked || anywhere { plan::plans(options, &texts)? } else { Vec::new() };
    let (output, passed_over) = (options.output.output, files.passed_over());
    if plans.is_empty() {
        if told.is_empty() {
            return Err(plan::nothing(options.live).into());
        }
        let document = Told { items: &told, passed_over: &passed_over };
        print(output, "ExplanationList", &document, |screen| whole_screen(screen, &told, &[], &passed_over))?;
    } else {
        let document = Plans { items: &plans, explanations: &told, passed_over: &passed_over };
        print(output, "PlanList", &document, |screen| whole_screen(screen, &told, &plans, &passed_over))?;
    }
    if is_refused(&told, &plans) { Err(Code(FAILED).into()) } else { Ok(()) }
}

/// Whether admission would not take something of the files.
fn is_refused(told: &[Explanation], plans: &[Plan]) -> bool {
    let refused = |one: &Explanation| one.level == Level::Problem && one.summary.contains(REFUSED);
    told.iter().any(refused) || plans.iter().any(|plan| !plan.faults.is_empty())
}

/// Everything that people read of files.
fn whole_screen(screen: Screen, told: &[Explanation], plans: &[Plan], passed_over: &[PassedOver]) -> String {
    let parts =
        [explanations_screen(screen, told), plan::plans_screen(screen, plans), rest_screen(screen, passed_over)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn rest_screen(screen: Screen, passed_over: &[PassedOver]) -> String {
    if passed_over.is_empty() {
        return String::new();
    }
    let one = |PassedOver { kind, count }: &PassedOver| match count {
        1 => kind.clone(),
        count => format!("{kind} ({count})"),
    };
    let all: Vec<String> = passed_over.iter().map(one).collect();
    screen::text(screen, &format!("Passed over: {}", all.join(", ")))
}

/// Whether files hold anything that is told of.
fn is_told(files: &Files) -> bool {
    let kinds = [
        (METAL_GROUP, "HostClaim"),
        (CLUSTER_API_GROUP, "Cluster"),
        (INFRASTRUCTURE_GROUP, "Metal3Machine"),
        (INFRASTRUCTURE_GROUP, "AWSMachine"),
        (INFRASTRUCTURE_GROUP, "AWSMachineTemplate"),
    ];
    kinds.iter().chain(&groups::KINDS).any(|(group, kind)| files.hold(group, kind))
}

/// Reads the server and says what would become of the objects.
fn tell(cluster: &ClusterOptions, files: &mut Files, options: &AheadOptions) -> anyhow::Result<Vec<Explanation>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        let client = crate::connect(cluster, concat!("berth-plan/", env!("CARGO_PKG_VERSION"))).await?;
        Box::pin(ahead(&client, files, options, Clock::system().now())).await
    })
}

async fn ahead(
    client: &Client,
    files: &mut Files,
    options: &AheadOptions,
    now: Timestamp,
) -> anyhow::Result<Vec<Explanation>> {
    let namespace = files.namespace(client.default_namespace());
    let reader = Reader::new(client, namespace.as_deref());
    let mut told = Box::pin(claims(&reader, files, options, now)).await?;
    told.extend(Box::pin(clusters(&reader, files, options, now)).await?);
    if groups::KINDS.iter().any(|(group, kind)| files.hold(group, kind)) {
        told.extend(Box::pin(groups::tell(&reader, files, options)).await?);
    }
    told.extend(Box::pin(dedicated::tell(&reader, files, options)).await?);
    Ok(told)
}

/// Claims, and the machines that claims would be made for: all of them want the same hosts.
async fn claims(
    reader: &Reader<'_>,
    files: &mut Files,
    options: &AheadOptions,
    now: Timestamp,
) -> anyhow::Result<Vec<Explanation>> {
    let machines = files.hold(INFRASTRUCTURE_GROUP, "Metal3Machine");
    if !machines && !files.hold(METAL_GROUP, "HostClaim") {
        return Ok(Vec::new());
    }
    let mut unseen = Vec::new();
    let lists = match machines {
        false => Some(look::claims(reader, &Which::All, Hardware::AtOnce, "plan").await?),
        true => look::claims_around(reader, &Which::All, Hardware::AtOnce, "plan").await?,
    };
    let mut lists = lists.unwrap_or_else(|| {
        unseen.push("the server does not know HostClaims (metal3.io), so no machine can have one".to_owned());
        Lists::default()
    });
    let keys = files.lay(reader, &mut lists.claims, &mut unseen).await?;
    files.lay(reader, &mut lists.hosts, &mut unseen).await?;
    files.lay(reader, &mut lists.hardware, &mut unseen).await?;
    files.lay(reader, &mut lists.policies, &mut unseen).await?;
    files.lay(reader, &mut lists.namespaces, &mut unseen).await?;
    files.lay(reader, &mut lists.quotas, &mut unseen).await?;
    files.lay(reader, &mut lists.clusters, &mut unseen).await?;
    let planned = match machines {
        true => metal::plan(reader, files, options, (&mut lists, &mut unseen), now).await?,
        false => Vec::new(),
    };
    let mut sight = Hosts::of(lists, options.operator.yard.settings(), now);
    let mut told: Vec<Explanation> = keys.iter().filter_map(|key| explain_claim(&mut sight, key, now)).collect();
    told.extend(planned.into_iter().map(|machine| machine.told(&mut sight, now)));
    Ok(told.into_iter().map(|one| noted(one, &unseen)).collect())
}

/// Clusters of Cluster API, and their addresses.
async fn clusters(
    reader: &Reader<'_>,
    files: &mut Files,
    options: &AheadOptions,
    now: Timestamp,
) -> anyhow::Result<Vec<Explanation>> {
    if !files.hold(CLUSTER_API_GROUP, "Cluster") {
        return Ok(Vec::new());
    }
    let (_, mut lists) = look::addresses(reader).await?;
    let mut unseen = Vec::new();
    let keys = files.lay(reader, &mut lists.clusters, &mut unseen).await?;
    files.lay(reader, &mut lists.classes, &mut unseen).await?;
    files.lay(reader, &mut lists.pools, &mut unseen).await?;
    files.lay(reader, &mut lists.global_pools, &mut unseen).await?;
    files.lay(reader, &mut lists.namespaces, &mut unseen).await?;
    let chosen: Vec<_> = lists.clusters.iter().filter(|there| keys.contains(&ObjectKey::of(*there))).cloned().collect();
    let sight = Addresses::of(lists, &Clock::system());
    let config = options.operator.addresses();
    let one = |cluster| noted(explain_cluster(&sight, cluster, &config, now), &unseen);
    Ok(chosen.iter().map(one).collect())
}

/// An explanation, with what else could not be seen.
fn noted(mut told: Explanation, unseen: &[String]) -> Explanation {
    told.unseen.extend(unseen.iter().cloned());
    told
}

/// What was read; a kind that is not installed hides nothing.
fn seen<K>(read: Read<K>, unseen: &mut Vec<String>) -> Vec<K> {
    unseen.extend(read.unseen.filter(|(extent, _)| *extent != Extent::Absent).map(|(_, why)| why));
    read.items
}

#[cfg(test)]
mod tests;
