//! `berth hosts --aws` and `berth leaks`: the dedicated hosts that are paid for, whose they are, and what proves that one
//! is nobody's. `berth leaks --cloudstack` tells the same of virtual machines.
//!
//! Objects are read with the rights of whoever asks and AWS with their credentials; whose a host is, is judged with the
//! room's own code. Nothing is released without being asked for, shown, confirmed and looked at once more.

mod books;
mod price;
mod release;
mod vms;

use std::collections::BTreeSet;

use anyhow::{Context, anyhow};
use api::names::Region;
use api::names::hosts::{ALLOCATION_ID_TAG, RETAINED_TAG};
use aws::cloud::{Cloud, Door};
use aws::net::{Aws, Ec2Client, Meter, Options};
use aws::place::{Endpoints, Override};
use aws::port::{Ec2, Host, HostQuery};
use clap::Args;
use kit::clock::Clock;
use kit::explain::Level;
use serde::Serialize;

use crate::Usage;
use crate::capacity::{ambient_source, endpoint, environment};
use crate::cli::{ClusterOptions, OutputOptions};
use crate::explain::{connect, print};
use crate::rows::{Cells, RowOptions};
use crate::screen::{self, Screen, age, cell, tally};

pub use books::{Books, Row, Whose};
use price::{Price, priced, together};
use vms::CloudStackOptions;

/// Where AWS is asked, with the credentials of whoever asks.
#[derive(Args, Clone, Debug)]
pub struct AwsOptions {
    /// Region to look into; repeatable (default: every region that an AWSCluster, a machine or a claim names)
    #[arg(long, value_name = "REGION")]
    pub region: Vec<Region>,
    /// Address of a service, as ec2=URL or sts=URL; repeatable
    #[arg(long, value_name = "SERVICE=URL", value_parser = endpoint)]
    pub aws_endpoint: Vec<Override>,
}

/// Flags of `berth leaks`.
#[derive(Args, Debug)]
pub struct LeaksOptions {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub aws: AwsOptions,
    #[command(flatten)]
    pub cloudstack: CloudStackOptions,
    /// What an hour of a host of a type costs, in dollars, as TYPE=USD; repeatable. Without it only hours are told
    #[arg(long, value_name = "TYPE=USD")]
    pub price: Vec<Price>,
    /// Release them, after showing what proves that they are nobody's and asking
    #[arg(long, alias = "fix")]
    pub release: bool,
    /// Do not ask before releasing, for scripts; everything is still checked once more
    #[arg(long, requires = "release")]
    pub yes: bool,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// A region, as far as it could be seen.
struct Place {
    region: Region,
    ec2: Ec2Client,
    hosts: Vec<Host>,
}

/// Everything that was read.
struct Look {
    books: Books,
    places: Vec<Place>,
    unseen: Vec<String>,
}

impl Look {
    fn rows(&self, clock: &Clock) -> Vec<Row> {
        let now = clock.now();
        let mut rows: Vec<Row> =
            self.places.iter().flat_map(|place| self.books.rows(place.region.as_str(), &place.hosts, now)).collect();
        rows.sort_by(|a, b| (a.whose, &a.region, &a.host).cmp(&(b.whose, &b.region, &b.host)));
        rows
    }
}

/// Reads the journals of all machines and claims, then the hosts of every region. In this order a host that was allocated in
/// between is young, and so nobody's leak.
async fn look(client: &kube::Client, options: &AwsOptions, clock: &Clock) -> anyhow::Result<Look> {
    let books = Books::read(client).await?;
    let mut regions: BTreeSet<Region> = options.region.iter().cloned().collect();
    if regions.is_empty() {
        regions.extend(books.regions.iter().cloned());
    }
    if regions.is_empty() {
        return Err(Usage("no AWSCluster, machine or claim names a region: give --region".to_owned()).into());
    }
    let vars = environment();
    let endpoints = Endpoints::new().environment(&vars);
    let endpoints = endpoints.map_err(|error| Usage(format!("environment: {}", kit::class::chain(&error))))?;
    let endpoints = options.aws_endpoint.iter().cloned().fold(endpoints, Endpoints::flag);
    let source = ambient_source(&vars).map_err(|why| anyhow!("no AWS credentials: {why}"))?;
    let agent = concat!("berth-leaks/", env!("CARGO_PKG_VERSION"));
    let cloud = Aws::new(Options::new(agent), clock.clone(), Meter::default());
    let (mut places, mut unseen) = (Vec::new(), books.unseen.clone());
    for region in regions {
        let (source, endpoints) = (source.source().clone(), endpoints.clone());
        let door = Door { region: region.clone(), source, endpoints, bundle: None };
        let ec2 = cloud.open(&door).with_context(|| format!("reaching EC2 in {region}"))?;
        match hosts(&ec2).await {
            Ok(hosts) => places.push(Place { region, ec2, hosts }),
            Err(error) => unseen.push(format!("hosts in {region}: {}", kit::class::chain(&error))),
        }
    }
    if places.is_empty() {
        return Err(anyhow!("no region could be looked into: {}", unseen.join("; ")));
    }
    Ok(Look { books, places, unseen })
}

/// The hosts that carry one of our tags and are still paid for.
async fn hosts(ec2: &impl Ec2) -> Result<Vec<Host>, aws::errors::Error> {
    let mut all = ec2.describe_hosts(&HostQuery::by_tag_key(ALLOCATION_ID_TAG)).await?;
    for host in ec2.describe_hosts(&HostQuery::by_tag_key(RETAINED_TAG)).await? {
        if !all.iter().any(|known| known.id == host.id) {
            all.push(host);
        }
    }
    all.retain(|host| !host.state.is_released());
    Ok(all)
}

/// The dedicated hosts of an account, or the leaks among them.
#[derive(Serialize)]
struct Rows<'a> {
    items: &'a [Row],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    unseen: &'a [String],
}

impl Cells for Row {
    const COLUMNS: &'static [&'static str] =
        &["host", "region", "zone", "type", "state", "instances", "age", "cluster", "machine", "tenant", "whose"];

    fn cells(&self) -> Vec<String> {
        let held = |value: &Option<String>| value.clone().unwrap_or_default();
        let owner = self.machine.as_deref().and_then(|machine| machine.rsplit(' ').next()?.split_once('/'));
        let whose = Whose::ALL.iter().find(|(whose, _)| *whose == self.whose).map(|(_, word)| *word);
        vec![
            self.host.clone(),
            self.region.clone(),
            held(&self.zone),
            held(&self.kind),
            self.state.clone(),
            self.instances.join(" "),
            self.age_seconds.map(|seconds| seconds.to_string()).unwrap_or_default(),
            held(&self.cluster),
            held(&self.machine),
            owner.map(|(namespace, _)| namespace.to_owned()).unwrap_or_default(),
            whose.unwrap_or_default().to_owned(),
        ]
    }
}

/// Lists dedicated hosts; those of machines of one namespace, if one is given.
pub async fn list(
    client: &kube::Client,
    options: &AwsOptions,
    namespace: Option<&str>,
    wanted: &RowOptions,
) -> anyhow::Result<String> {
    let clock = Clock::system();
    let seen = look(client, options, &clock).await?;
    let mut rows = seen.rows(&clock);
    let prefix = namespace.map(|namespace| format!("{namespace}/"));
    rows.retain(|row| {
        prefix.as_ref().is_none_or(|prefix| row.machine.as_deref().is_some_and(|m| m.starts_with(prefix)))
    });
    let rows = wanted.choose(rows, false)?;
    let document = Rows { items: &rows, unseen: &seen.unseen };
    wanted.render("DedicatedHostList", &rows, &document, |screen| {
        hosts_screen(screen, &rows) + &unseen_screen(screen, &seen.unseen)
    })
}

/// Lists hosts that belong to no machine and no claim, and releases them if that is asked for; or virtual machines.
pub async fn leaks(options: LeaksOptions) -> anyhow::Result<()> {
    if options.cloudstack.cloudstack {
        return Box::pin(vms::leaks(&options)).await;
    }
    let clock = Clock::system();
    let client = connect(&options.cluster).await?;
    let seen = look(&client, &options.aws, &clock).await?;
    let leaked = seen.rows(&clock).into_iter().filter(|row| row.whose <= Whose::Doubtful);
    let rows: Vec<Row> = leaked.map(|row| priced(row, &options.price)).collect();
    if options.release {
        return release::release(&client, &options, &clock, seen, &rows).await;
    }
    let document = Rows { items: &rows, unseen: &seen.unseen };
    print(options.output.output, "LeakList", &document, |screen| {
        leaks_screen(screen, &rows, false) + &unseen_screen(screen, &seen.unseen)
    })
}

fn hosts_screen(screen: Screen, rows: &[Row]) -> String {
    if rows.is_empty() {
        return screen::text(screen, "no dedicated hosts of Berth's machines");
    }
    let cells: Vec<[String; 8]> = rows
        .iter()
        .map(|row| {
            [
                row.host.clone(),
                row.zone.clone().unwrap_or_else(|| row.region.clone()),
                cell(row.kind.as_deref()),
                row.state.clone(),
                cell(Some(&row.instances.join(" "))),
                row.age_seconds.map_or_else(|| "?".to_owned(), age),
                cell(row.machine.as_deref()),
                row.note.clone(),
            ]
        })
        .collect();
    let heading = ["HOST", "ZONE", "TYPE", "STATE", "INSTANCES", "AGE", "MACHINE", "NOTE"];
    let counts = Whose::ALL.map(|(whose, word)| (rows.iter().filter(|row| row.whose == whose).count(), word));
    let tally = screen::text(screen, &tally(rows.len(), "host", &counts));
    format!("{}\n{tally}", screen::table(screen, heading, &cells))
}

/// The leaks, with how to release them unless that is what is being done.
fn leaks_screen(screen: Screen, rows: &[Row], releasing: bool) -> String {
    if rows.is_empty() {
        let none = "no leaks: every dedicated host that is paid for is a machine's or a claim's, or was left behind on purpose";
        return screen::text(screen, none);
    }
    let mut out = String::new();
    for (number, row) in rows.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let level = if row.whose == Whose::Nobody { Level::Problem } else { Level::Unknown };
        out += &screen::points(screen, level, &row.title(), &row.note, &row.proof);
    }
    let sure = rows.iter().filter(|row| row.whose == Whose::Nobody);
    let words = match sure.clone().count() {
        0 => "nothing is proven to be nobody's, so nothing would be released".to_owned(),
        count => format!("{count} of {} proven to be nobody's, {}", rows.len(), together(sure.clone())),
    };
    out += &format!("\n{}", screen::text(screen, &words));
    if sure.count() > 0 && !releasing {
        out += &screen::text(screen, "release them with: berth leaks --release");
    }
    out
}

fn unseen_screen(screen: Screen, unseen: &[String]) -> String {
    unseen.iter().map(|why| screen::text(screen, &format!("not seen: {why}"))).collect()
}

#[cfg(test)]
mod tests;
