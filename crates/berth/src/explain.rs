//! `berth explain`, `berth tree` and the tables: what Berth thinks of an object, told and not carried out.
//!
//! They read with the rights of whoever asks and judge with the rooms' own code. Nothing is written.

mod claims;
mod clusters;
mod machines;
mod members;
mod metal;
mod other;

use std::io::Write;

use ::capacity::facts::GroupKind;
use ::vip::config::Config;
use ::vip::explain::{explain, tree};
use api::reasons::vip::Reason;
use clap::Args;
use kit::clock::Clock;
use kit::explain::{Explanation, Fact, Level, Node};
use kube::Client;
use serde::Serialize;

pub use claims::{claims, hosts};
pub use clusters::{clusters, row as anywhere_row, tree as anywhere_tree};
pub use machines::{Told, closed, tree as aws_machine_tree};
pub use metal::{World as MetalWorld, cluster as metal_cluster, tree as metal_tree};

use crate::claims::YardOptions;
use crate::cli::{ClusterOptions, Output, OutputOptions, PlaceOptions, PlacesOptions, WatchFilter};
use crate::groups::{self, GroupOptions};
use crate::leaks::AwsOptions;
use crate::look::{Reader, Which, look};
use crate::machines::ModeOptions;
use crate::rows::{Cells, RowOptions, WatchOptions, shown};
use crate::screen::{self, Screen, tally};
use crate::vip::JudgeOptions;

/// The version of every document.
pub const API_VERSION: &str = "cli.berth.dev/v1";

/// The role whose address is the endpoint.
const CONTROL_PLANE: &str = "control-plane";

/// Flags of `berth explain`.
#[derive(Args, Debug)]
pub struct ExplainOptions {
    #[command(flatten)]
    pub about: AboutOptions,
    #[command(flatten)]
    pub capacity: GroupOptions,
    /// Namespace Berth runs in; its catalogue of instance types is read there
    #[arg(long, value_name = "NAME", default_value = api::names::SYSTEM_NAMESPACE)]
    pub operator_namespace: api::names::DnsLabel,
}

/// Flags of `berth tree`.
#[derive(Args, Debug)]
pub struct TreeOptions {
    /// Draw what is as it should be too, each object by itself
    #[arg(long)]
    pub expand: bool,
    #[command(flatten)]
    pub about: AboutOptions,
}

/// What `berth explain` and `berth tree` have in common.
#[derive(Args, Debug)]
#[command(mut_arg("namespace", |arg| arg.help("Namespace of the object (default: the one of the kubeconfig)")))]
pub struct AboutOptions {
    /// What to look at, for example cluster/prod, cluster.anywhere/prod, metal3machine/m-1, hostclaim/web-1, awsmachine/m-1,
    /// machinedeployment/workers or kubeadmcontrolplane/prod; any other kind that Berth serves or reads is explained by its
    /// conditions
    #[arg(value_name = "KIND/NAME", value_parser = subject)]
    pub subject: Subject,
    #[command(flatten)]
    pub place: PlaceOptions,
    #[command(flatten)]
    pub output: OutputOptions,
    #[command(flatten)]
    pub watch: WatchOptions,
    // The heading stays for whatever comes after it.
    #[command(flatten, next_help_heading = "As the operator runs")]
    pub operator: OperatorOptions,
}

/// How the operator runs, where that changes what it thinks. The flags are those of `berth run`.
#[derive(Args, Debug)]
pub struct OperatorOptions {
    #[command(flatten)]
    pub judge: JudgeOptions,
    #[command(flatten)]
    pub watch_filter: WatchFilter,
    #[command(flatten)]
    pub yard: YardOptions,
    #[command(flatten)]
    pub mode: ModeOptions,
}

impl OperatorOptions {
    /// How it judges addresses.
    pub fn addresses(&self) -> Config {
        self.judge.config(&self.watch_filter)
    }
}

/// An object that can be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The Cluster of this name.
    Cluster(String),
    /// The Cluster on CloudStack of this name.
    Anywhere(String),
    /// The HostClaim of this name.
    Claim(String),
    /// The AWSMachine of this name.
    Machine(String),
    /// The Metal3Machine of this name.
    Metal(String),
    /// The group of machines of this name, of any of these kinds.
    Group(Vec<GroupKind>, String),
    /// The control plane of kubeadm of this name.
    Plane(String),
    /// The object of this name, of a kind without a screen of its own.
    Other(&'static other::Sort, String),
}

/// Flags of the tables.
#[derive(Args, Debug)]
pub struct ListOptions {
    #[command(flatten)]
    pub places: PlacesOptions,
    #[command(flatten)]
    pub rows: RowOptions,
}

/// Flags of `berth hosts`.
#[derive(Args, Debug)]
pub struct HostsListOptions {
    #[command(flatten)]
    pub list: ListOptions,
    /// List the dedicated hosts of machines on EC2, with your own AWS credentials; of all namespaces unless one is given
    #[arg(long)]
    pub aws: bool,
    #[command(flatten, next_help_heading = "With --aws")]
    pub cloud: AwsOptions,
}

/// Flags of `berth vips`.
#[derive(Args, Debug)]
pub struct VipsOptions {
    #[command(flatten)]
    pub list: ListOptions,
    // The heading stays for whatever comes after it.
    #[command(flatten, next_help_heading = "As the operator runs")]
    pub judge: JudgeOptions,
    #[command(flatten)]
    pub watch_filter: WatchFilter,
}

/// Reads `<kind>/<name>`, with the kind in any of the ways kubectl knows it.
fn subject(text: &str) -> Result<Subject, String> {
    let Some((kind, name)) = text.split_once('/') else {
        return Err(format!("expected KIND/NAME, for example cluster/{text} or hostclaim/{text}"));
    };
    let lower = kind.to_lowercase();
    let (word, group) = lower.split_once('.').unwrap_or((&lower, ""));
    let owned = name.to_owned();
    let subject = match (word.strip_suffix('s').unwrap_or(word), group) {
        ("cluster", "" | "cluster.x-k8s.io") => Subject::Cluster(owned),
        ("cluster", "anywhere" | api::names::clusters::GROUP) | ("eksac", "") => Subject::Anywhere(owned),
        ("hostclaim", "" | "metal3.io") | ("hc", "") => Subject::Claim(owned),
        ("awsmachine", "" | api::views::INFRASTRUCTURE_GROUP) | ("awsm", "") => Subject::Machine(owned),
        ("metal3machine" | "metal3m", "" | api::views::INFRASTRUCTURE_GROUP) | ("m3m" | "m3machine", "") => {
            Subject::Metal(owned)
        }
        ("machineset", "") => Subject::Group(vec![GroupKind::OpenShiftSet, GroupKind::Set], owned),
        ("machineset", "machine.openshift.io") => Subject::Group(vec![GroupKind::OpenShiftSet], owned),
        ("machineset", "cluster.x-k8s.io") => Subject::Group(vec![GroupKind::Set], owned),
        ("machinedeployment", "" | "cluster.x-k8s.io") => Subject::Group(vec![GroupKind::Deployment], owned),
        ("machinepool", "" | "cluster.x-k8s.io") => Subject::Group(vec![GroupKind::Pool], owned),
        ("kubeadmcontrolplane", "" | "controlplane.cluster.x-k8s.io") | ("kcp", "") => Subject::Plane(owned),
        _ => match other::find(word, group) {
            Some(sort) => Subject::Other(sort, owned),
            None => return Err(unknown(kind)),
        },
    };
    name.parse::<api::names::DnsSubdomain>().map_err(|error| error.to_string())?;
    Ok(subject)
}

/// No kind is called so.
fn unknown(kind: &str) -> String {
    let own =
        "cluster, cluster.anywhere, metal3machine, hostclaim, awsmachine, machineset, machinedeployment, machinepool";
    let others: Vec<String> = other::SORTS.iter().map(other::Sort::word).collect();
    format!("the kind `{kind}` is not known here; known are: {own}, {}", others.join(", "))
}

/// Explains an object.
pub async fn about(options: ExplainOptions) -> anyhow::Result<()> {
    let client = connect(&options.about.place.cluster).await?;
    shown(options.about.watch, async || Box::pin(explained(&client, &options)).await).await
}

/// What is told of several objects.
#[derive(Serialize)]
pub struct Explanations<'a> {
    /// One for each.
    pub items: &'a [Explanation],
}

/// What people read of several objects.
pub fn explanations_screen(screen: Screen, told: &[Explanation]) -> String {
    told.iter().map(|told| screen::explanation(screen, told)).collect::<Vec<_>>().join("\n")
}

async fn explained(client: &Client, options: &ExplainOptions) -> anyhow::Result<String> {
    let ExplainOptions { about: options, capacity, operator_namespace: home } = options;
    let show = |told: &Explanation| {
        rendered(options.output.output, "Explanation", told, |screen| screen::explanation(screen, told))
    };
    let name = match &options.subject {
        Subject::Cluster(name) => name,
        Subject::Anywhere(name) => return show(&clusters::about(client, options, name).await?),
        Subject::Claim(name) => return show(&claims::about(client, options, name).await?),
        Subject::Machine(name) => return show(&machines::about(client, options, name, capacity).await?),
        Subject::Metal(name) => return show(&metal::about(client, options, name).await?),
        Subject::Group(kinds, name) => {
            return groups::about(client, options, kinds, name, capacity, home.as_str()).await;
        }
        Subject::Plane(name) => return show(&other::about(client, options, &other::PLANE, name).await?),
        Subject::Other(sort, name) => return show(&other::about(client, options, sort, name).await?),
    };
    let (namespace, config) = (options.place.namespace(client), options.operator.addresses());
    let (reader, which) = (Reader::new(client, Some(&namespace)), Which::One(&namespace, name));
    let look = look(&reader, &which, "explain").await?;
    let now = Clock::system().now();
    look.clusters.iter().map(|cluster| show(&explain(&look.sight, cluster, &config, now))).collect()
}

/// Draws an object as a tree.
pub async fn draw(options: TreeOptions) -> anyhow::Result<()> {
    // No server is needed to say this.
    if let Subject::Other(sort, name) = &options.about.subject {
        return Err(other::undrawn(sort, name));
    }
    let client = connect(&options.about.place.cluster).await?;
    shown(options.about.watch, async || Box::pin(drawn(&client, &options)).await).await
}

async fn drawn(client: &Client, options: &TreeOptions) -> anyhow::Result<String> {
    #[derive(Serialize)]
    struct Tree<'a> {
        root: &'a Node,
    }
    // Programs get every machine; people get those that are alike as one, unless they ask for all.
    let TreeOptions { expand, about: options } = options;
    let text = |screen: Screen, root: &Node| match expand {
        true => screen::tree(screen, root),
        false => screen::tree(screen, &screen::folded(root)),
    };
    let show = |root: &Node| rendered(options.output.output, "Tree", &Tree { root }, |screen| text(screen, root));
    let name = match &options.subject {
        Subject::Cluster(name) => name,
        Subject::Anywhere(name) => return show(&clusters::draw(client, options, name).await?),
        Subject::Claim(name) => return show(&claims::draw(client, options, name).await?),
        Subject::Machine(name) => return show(&machines::draw(client, options, name).await?),
        Subject::Metal(name) => return show(&metal::draw(client, options, name).await?),
        Subject::Group(kinds, name) => return show(&members::draw(client, options, kinds, name).await?),
        Subject::Plane(name) => return show(&members::plane(client, options, name).await?),
        Subject::Other(sort, name) => return Err(other::undrawn(sort, name)),
    };
    // Of one cluster; its machines are read beside it.
    let (namespace, config) = (options.place.namespace(client), options.operator.addresses());
    let (reader, which) = (Reader::new(client, Some(&namespace)), Which::One(&namespace, name));
    let (look, metal, dedicated) = tokio::try_join!(
        Box::pin(look(&reader, &which, "tree")),
        Box::pin(metal::of_cluster(&reader, options, &namespace, name)),
        Box::pin(machines::of_cluster(&reader, options, &namespace, name)),
    )?;
    let Some(cluster) = look.clusters.first() else { anyhow::bail!("the cluster was not read") };
    let mut root = tree(&look.sight, cluster, &config, Clock::system().now());
    root.children.extend(metal.into_iter().chain(dedicated));
    show(&root)
}

/// Lists the addresses of clusters.
pub async fn vips(options: VipsOptions) -> anyhow::Result<()> {
    let client = connect(options.list.places.cluster()).await?;
    shown(options.list.rows.watch, async || Box::pin(listed(&client, &options)).await).await
}

async fn listed(client: &Client, options: &VipsOptions) -> anyhow::Result<String> {
    let (rows, namespace) = (&options.list.rows, options.list.places.namespace(client));
    let which = namespace.as_deref().map_or(Which::All, Which::In);
    let reader = Reader::new(client, which.namespace());
    let (look, config) = (look(&reader, &which, "vips").await?, options.judge.config(&options.watch_filter));
    let now = Clock::system().now();
    let items: Vec<Vip> =
        look.clusters.iter().flat_map(|cluster| vip_rows(&explain(&look.sight, cluster, &config, now))).collect();
    let items = rows.choose(items, false)?;
    rows.render("VipList", &items, &Vips { items: &items }, |screen| vips_screen(screen, &items))
}

/// The addresses of clusters.
#[derive(Serialize)]
struct Vips<'a> {
    items: &'a [Vip],
}

/// One address that a cluster has or waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vip {
    namespace: String,
    cluster: String,
    /// What the address is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// How things stand.
    pub level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    /// The reason as it stands in conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// How things stand, in a sentence.
    pub message: String,
}

impl Cells for Vip {
    const COLUMNS: &'static [&'static str] = &["namespace", "cluster", "role", "address", "pool", "state"];

    fn cells(&self) -> Vec<String> {
        let held = |value: &Option<String>| value.clone().unwrap_or_default();
        let (namespace, cluster, state) = (self.namespace.clone(), self.cluster.clone(), self.state().to_owned());
        vec![namespace, cluster, held(&self.role), held(&self.address), held(&self.pool), state]
    }
}

/// The sorts that addresses are counted by.
const THERE: &str = "there";
const WAITED_FOR: &str = "waited for";
const PROBLEM: &str = "with a problem";
const NOT_WANTED: &str = "not wanted";
const NOT_SEEN: &str = "not seen";

impl Vip {
    /// What it counts as. One that a user chose is there, whatever else its cluster waits for.
    fn sort(&self) -> &'static str {
        match self.level {
            Level::Problem => PROBLEM,
            _ if self.address.is_some() => THERE,
            Level::Ok | Level::Waiting => WAITED_FOR,
            Level::Aside => NOT_WANTED,
            Level::Unknown => NOT_SEEN,
        }
    }

    /// A word or two; `explain` has the sentence.
    fn state(&self) -> &'static str {
        self.reason.unwrap_or(if self.level == Level::Aside { "left alone" } else { "unknown" })
    }
}

/// The rows of one cluster: one for each address it wants, or one that says why it wants none.
pub fn vip_rows(told: &Explanation) -> Vec<Vip> {
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
        return screen::text(screen, "no clusters; look into all namespaces with -A");
    }
    let row = |vip: &Vip| {
        let cell = |value: Option<&str>| value.unwrap_or("-").to_owned();
        let cluster = format!("{}/{}", vip.namespace, vip.cluster);
        let (role, address, pool) = (vip.role.as_deref(), vip.address.as_deref(), vip.pool.as_deref());
        [cluster, cell(role), cell(address), cell(pool), vip.state().to_owned()]
    };
    let rows: Vec<[String; 5]> = items.iter().map(row).collect();
    let count = |sort: &str| items.iter().filter(|vip| vip.sort() == sort).count();
    let counts = [THERE, WAITED_FOR, PROBLEM, NOT_WANTED, NOT_SEEN].map(|sort| (count(sort), sort));
    let tally = screen::text(screen, &tally(rows.len(), "address", &counts));
    format!("{}\n{tally}", screen::table(screen, ["CLUSTER", "ROLE", "ADDRESS", "POOL", "STATE"], &rows))
}

/// A client with the rights of whoever asks.
pub async fn connect(cluster: &ClusterOptions) -> anyhow::Result<Client> {
    crate::connect(cluster, concat!("berth-explain/", env!("CARGO_PKG_VERSION"))).await
}

/// A document, or what people read of it.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn rendered<T: Serialize>(
    output: Output,
    kind: &'static str,
    value: &T,
    text: impl FnOnce(Screen) -> String,
) -> anyhow::Result<String> {
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
    Ok(text)
}

/// Prints a document, or what people read of it.
pub fn print<T: Serialize>(
    output: Output,
    kind: &'static str,
    value: &T,
    text: impl FnOnce(Screen) -> String,
) -> anyhow::Result<()> {
    Ok(std::io::stdout().write_all(rendered(output, kind, value, text)?.as_bytes())?)
}

#[cfg(test)]
mod tests;
