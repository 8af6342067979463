//! `berth explain machineset/…` and `berth capacity`: what machines of a group offer, and what cluster-autoscaler sees.
//!
//! They read with the rights of whoever asks and judge with the room's own code. Nothing is written, and AWS is asked
//! only with `--lookup`, with the credentials of whoever asks; without it explaining reads the operator's catalogue.

mod lookup;

use std::sync::Arc;

use ::capacity::archive::Archive;
use ::capacity::config::{ClaimRules, Config};
use ::capacity::explain::{Line, Lists, Sight, explain, line};
use ::capacity::facts::{GroupKey, GroupKind};
use ::capacity::judge::{Lookup, Wish};
use ::capacity::names::CATALOGUE;
use ::capacity::sees::Sees;
use ::capacity::table::Table;
use anyhow::anyhow;
use api::key::ObjectKey;
use aws::identity::IdentityLists;
use clap::Args;
use k8s_openapi::api::core::v1::ConfigMap;
use kit::class::chain;
use kit::clock::Clock;
use kit::explain::{Explanation, Level};
use kube::{Api, Client};
use serde::Serialize;

use crate::capacity::{Judgement, claim_rules, gates};
use crate::cli::{PlacesOptions, WatchFilter};
use crate::explain::{AboutOptions, Explanations, connect, explanations_screen, rendered};
use crate::look::{Read, Reader};
use crate::rows::{Cells, RowOptions, shown};
use crate::screen::{self, Screen, tally};
use crate::{Usage, near};
use lookup::Answers;

/// How the operator runs, where that changes what it thinks of groups. The flags are those of `berth run`.
#[derive(Args, Debug)]
pub struct GroupOptions {
    #[command(flatten)]
    pub judgement: Judgement,
    /// Feature gates as NAME=true|false, separated by commas
    #[arg(long, value_name = "GATES", value_delimiter = ',')]
    pub feature_gates: Vec<String>,
    /// Ask AWS too, with your own credentials
    #[arg(long)]
    pub lookup: bool,
}

impl GroupOptions {
    /// What the room would be told by these flags. What its own process is given is not known here: an identity of it is
    /// told by --ambient-credentials, and a region in its environment by --default-region.
    pub fn config(&self, watch_filter: &WatchFilter, claims: ClaimRules) -> Result<Arc<Config>, Usage> {
        Ok(Arc::new(self.judgement.config(watch_filter, &gates(&self.feature_gates)?, claims)?))
    }
}

/// Flags of `berth capacity`.
#[derive(Args, Debug)]
pub struct CapacityListOptions {
    #[command(flatten)]
    pub places: PlacesOptions,
    #[command(flatten)]
    pub rows: RowOptions,
    // The heading stays for whatever comes after it.
    #[command(flatten, next_help_heading = "As the operator runs")]
    pub judge: GroupOptions,
    #[command(flatten)]
    pub watch_filter: WatchFilter,
}

/// Explains a group of machines.
pub async fn about(
    client: &Client,
    about: &AboutOptions,
    kinds: &[GroupKind],
    name: &str,
    options: &GroupOptions,
    home: &str,
) -> anyhow::Result<String> {
    let namespace = about.place.namespace(client);
    let config = options.config(&about.operator.watch_filter, claim_rules(&about.operator.yard))?;
    let mut sight = see(&Reader::new(client, Some(&namespace)), options).await?;
    let groups = sight.groups();
    let wanted = ObjectKey::namespaced(namespace.as_str(), name);
    let found: Vec<&GroupKey> =
        groups.iter().filter(|group| kinds.contains(&group.kind) && group.key == wanted).collect();
    if found.is_empty() {
        return Err(missing(&groups, kinds, &wanted));
    }
    let found: Vec<GroupKey> = found.into_iter().cloned().collect();
    let all = told(client, &mut sight, &found, &config, options, home).await?;
    let output = about.output.output;
    match all.as_slice() {
        [told] => rendered(output, "Explanation", told, |screen| screen::explanation(screen, told)),
        // MachineSets of two groups may have one name.
        told => rendered(output, "ExplanationList", &Explanations { items: told }, |s| explanations_screen(s, told)),
    }
}

/// Explains groups that were read; where AWS is not asked, by the operator's catalogue in the namespace it runs in.
pub async fn told(
    client: &Client,
    sight: &mut Sight,
    keys: &[GroupKey],
    config: &Arc<Config>,
    options: &GroupOptions,
    home: &str,
) -> anyhow::Result<Vec<Explanation>> {
    let clock = Clock::system();
    let wishes: Vec<Wish> = keys.iter().filter_map(|key| sight.wish(key, config)).collect();
    let answers = if options.lookup { Answers::to(&wishes, &clock).await } else { Answers::default() };
    if !options.lookup && wishes.iter().any(|wish| matches!(wish.lookup, Lookup::Ec2(_))) {
        recall(client, home, sight, &clock).await?;
    }
    let looked = |key: &GroupKey| answers.offer(&sight.wish(key, config)?);
    Ok(keys.iter().filter_map(|key| explain(sight, key, config, looked(key), clock.now())).collect())
}

/// Lists groups of machines.
pub async fn list(options: CapacityListOptions) -> anyhow::Result<()> {
    let client = connect(options.places.cluster()).await?;
    shown(options.rows.watch, async || Box::pin(listed(&client, &options)).await).await
}

/// The groups of machines as they are asked for.
pub async fn listed(client: &Client, options: &CapacityListOptions) -> anyhow::Result<String> {
    let only = options.places.namespace(client);
    let reader = Reader::new(client, only.as_deref());
    let (items, _) = rows(&reader, only.as_deref(), &options.judge, &options.watch_filter).await?;
    let items = options.rows.choose(items, false)?;
    options.rows.render("CapacityList", &items, &Rows { items: &items }, |screen| rows_screen(screen, &items))
}

/// The groups of a namespace or all, and what could not be read for them.
pub async fn rows(
    reader: &Reader<'_>,
    only: Option<&str>,
    options: &GroupOptions,
    watch_filter: &WatchFilter,
) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let config = options.config(watch_filter, ClaimRules::default())?;
    let sight = see(reader, options).await?;
    let here = |key: &GroupKey| only.is_none_or(|only| key.key.namespace() == Some(only));
    let keys: Vec<GroupKey> = sight.groups().into_iter().filter(here).collect();
    let wish = |key: &GroupKey| sight.wish(key, &config).filter(|_| options.lookup);
    let wishes: Vec<Wish> = keys.iter().filter_map(wish).collect();
    let answers = Answers::to(&wishes, &Clock::system()).await;
    let told = |key: &GroupKey| line(&sight, key, &config, wish(key).and_then(|wish| answers.offer(&wish)));
    let items = keys.iter().filter_map(|key| Some(Row::new(key, told(key)?))).collect();
    Ok((items, sight.unseen().to_vec()))
}

#[derive(Serialize)]
struct Rows<'a> {
    items: &'a [Row],
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Kind and API group.
    pub kind: &'static str,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// How things stand.
    pub level: Level,
    /// The type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// The region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// CPUs that cluster-autoscaler sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Memory that it sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// GPUs that it sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// The same in a word or two.
    pub state: String,
}

impl Row {
    fn new(key: &GroupKey, line: Line) -> Self {
        let (cpu, memory, gpus) = match line.sees {
            Sees::Enough { cpu, memory, gpus } => {
                (Some(cpu), Some(memory), gpus.map(|(count, resource)| format!("{count} {resource}")))
            }
            Sees::Lacks(_) | Sees::Unreadable(_) => (None, None, None),
        };
        Self {
            kind: key.kind.full(),
            namespace: key.key.namespace().unwrap_or_default().to_owned(),
            name: key.key.name().to_owned(),
            level: line.level,
            instance_type: line.instance_type,
            region: line.region,
            cpu,
            memory,
            gpus,
            state: line.state,
        }
    }
}

impl Cells for Row {
    const COLUMNS: &'static [&'static str] =
        &["namespace", "name", "kind", "type", "region", "cpu", "memory", "gpus", "state"];

    fn cells(&self) -> Vec<String> {
        let held = |value: &Option<String>| value.clone().unwrap_or_default();
        vec![
            self.namespace.clone(),
            self.name.clone(),
            self.kind.to_owned(),
            held(&self.instance_type),
            held(&self.region),
            held(&self.cpu),
            held(&self.memory),
            held(&self.gpus),
            self.state.clone(),
        ]
    }
}

fn rows_screen(screen: Screen, items: &[Row]) -> String {
    if items.is_empty() {
        return screen::text(screen, "no groups of machines; look into all namespaces with -A");
    }
    let row = |row: &Row| {
        let cell = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let kind = row.kind.split('.').next().unwrap_or(row.kind);
        [
            format!("{kind}/{}", row.name),
            row.namespace.clone(),
            cell(&row.instance_type),
            cell(&row.region),
            cell(&row.cpu),
            cell(&row.memory),
            cell(&row.gpus),
            row.state.clone(),
        ]
    };
    let rows: Vec<[String; 8]> = items.iter().map(row).collect();
    let heading = ["GROUP", "NAMESPACE", "TYPE", "REGION", "CPU", "MEMORY", "GPUS", "STATE"];
    let count = |level: Level| items.iter().filter(|row| row.level == level).count();
    let counts = [
        (count(Level::Ok), "annotated"),
        (count(Level::Waiting), "not annotated"),
        (count(Level::Problem), "with a problem"),
        (count(Level::Aside), "left alone"),
    ];
    let tally = screen::text(screen, &tally(rows.len(), "group", &counts));
    format!("{}\n{tally}", screen::table(screen, heading, &rows))
}

async fn see(reader: &Reader<'_>, options: &GroupOptions) -> anyhow::Result<Sight> {
    Ok(Sight::of(lists(reader, options).await?, &Clock::system()))
}

/// Reads groups and everything that says what their machines are, as far as whoever asks may.
pub async fn lists(reader: &Reader<'_>, options: &GroupOptions) -> anyhow::Result<Lists> {
    fn keep<K>(read: Read<K>, unseen: &mut Vec<String>) -> Vec<K> {
        // A kind that is not installed hides nothing.
        if read.kind.is_some() {
            unseen.extend(read.unseen.map(|(_, why)| why));
        }
        read.items
    }
    let identities = async {
        if !options.judgement.use_cluster_identity {
            return Ok(None);
        }
        let read = tokio::try_join!(reader.read(), reader.read(), reader.read(), reader.read())?;
        anyhow::Ok(Some(read))
    };
    let groups = async {
        tokio::try_join!(reader.read(), reader.read(), reader.read(), reader.read(), reader.read(), reader.read())
    };
    let around = async {
        tokio::try_join!(
            reader.read(),
            reader.read(),
            reader.read(),
            reader.read(),
            reader.read(),
            reader.read(),
            reader.read(),
            reader.read(),
        )
    };
    // Hosts and policies of every namespace may be many, and most sites have none.
    let metal = async {
        if !options.judgement.capacity_metal3 {
            return Ok(None);
        }
        let read = tokio::try_join!(reader.read(), reader.read(), reader.read(), reader.read(), reader.read())?;
        anyhow::Ok(Some(read))
    };
    let (identities, groups, around, metal) =
        tokio::try_join!(Box::pin(identities), Box::pin(groups), Box::pin(around), Box::pin(metal))?;
    let mut unseen = Vec::new();
    let identities = identities.map(|(controllers, statics, roles, spaces)| IdentityLists {
        controllers: keep(controllers, &mut unseen),
        statics: keep(statics, &mut unseen),
        roles: keep(roles, &mut unseen),
        spaces: keep(spaces, &mut unseen),
    });
    let (openshift_sets, deployments, sets, pools, scaling, managed) = groups;
    let (templates, clusters, aws_clusters, managed_planes, rosa_planes, infrastructures, acs_templates, acs_clusters) =
        around;
    let lists = Lists {
        openshift_sets: keep(openshift_sets, &mut unseen),
        deployments: keep(deployments, &mut unseen),
        sets: keep(sets, &mut unseen),
        pools: keep(pools, &mut unseen),
        scaling: keep(scaling, &mut unseen),
        managed: keep(managed, &mut unseen),
        templates: keep(templates, &mut unseen),
        clusters: keep(clusters, &mut unseen),
        aws_clusters: keep(aws_clusters, &mut unseen),
        managed_planes: keep(managed_planes, &mut unseen),
        rosa_planes: keep(rosa_planes, &mut unseen),
        infrastructures: keep(infrastructures, &mut unseen),
        acs_templates: keep(acs_templates, &mut unseen),
        acs_clusters: keep(acs_clusters, &mut unseen),
        identities,
        ..Lists::default()
    };
    let lists = match metal {
        Some((metal_templates, hosts, hardware, policies, spaces)) => Lists {
            metal_templates: keep(metal_templates, &mut unseen),
            hosts: keep(hosts, &mut unseen),
            hardware: keep(hardware, &mut unseen),
            policies: keep(policies, &mut unseen),
            spaces: keep(spaces, &mut unseen),
            ..lists
        },
        None => lists,
    };
    let table = match &options.judgement.capacity_table {
        Some(key) => table(reader.client, key, &mut unseen).await?,
        None => Table::default(),
    };
    Ok(Lists { table, unseen, ..lists })
}

/// Reads the table of types, as far as whoever asks may.
async fn table(client: &Client, key: &ObjectKey, unseen: &mut Vec<String>) -> anyhow::Result<Table> {
    let found = config_map(client, key, "table of types", unseen).await?;
    Ok(found.map(|map| Table::parse(&map.data.unwrap_or_default())).unwrap_or_default())
}

/// Reads what the operator was told of instance types, as far as whoever asks may.
async fn recall(client: &Client, home: &str, sight: &mut Sight, clock: &Clock) -> anyhow::Result<()> {
    let (key, mut unseen) = (ObjectKey::namespaced(home, CATALOGUE), Vec::new());
    let found = config_map(client, &key, "catalogue of instance types", &mut unseen).await?;
    let pages = found.and_then(|map| map.binary_data).unwrap_or_default();
    let pages = pages.into_iter().map(|(page, bytes)| (page, bytes.0)).collect();
    let opened = Archive::open(pages, clock.now());
    unseen.extend(opened.faults.iter().map(|(page, fault)| format!("{page} of the ConfigMap {key}: {}", chain(fault))));
    sight.recall(opened.pages, unseen);
    Ok(())
}

/// Reads a ConfigMap, as far as whoever asks may; `what` is in it.
async fn config_map(
    client: &Client,
    key: &ObjectKey,
    what: &str,
    unseen: &mut Vec<String>,
) -> anyhow::Result<Option<ConfigMap>> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), key.namespace().unwrap_or_default());
    match api.get_opt(key.name()).await {
        Ok(Some(found)) => Ok(Some(found)),
        Ok(None) => {
            unseen.push(format!("there is no ConfigMap {key}, so no {what}"));
            Ok(None)
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            unseen.push(format!("you may not get the ConfigMap {key}, so its {what} was not read"));
            Ok(None)
        }
        Err(error) => Err(anyhow!(error).context(format!("reading the ConfigMap {key}"))),
    }
}

/// There is no such group, but perhaps one that was meant.
fn missing(groups: &[GroupKey], kinds: &[GroupKind], wanted: &ObjectKey) -> anyhow::Error {
    let kind = kinds.first().map_or("group", |kind| kind.as_str());
    let near: Vec<&GroupKey> = groups.iter().filter(|group| kinds.contains(&group.kind)).collect();
    let elsewhere = near.iter().find(|group| group.key.name() == wanted.name()).map(|group| group.key.clone());
    let meant = elsewhere.or_else(|| {
        let here =
            near.iter().filter(|group| group.key.namespace() == wanted.namespace()).map(|group| group.key.name());
        let name = near::nearest(wanted.name(), here)?;
        Some(ObjectKey::namespaced(wanted.namespace().unwrap_or_default(), name))
    });
    let word = kind.to_lowercase();
    match meant {
        Some(meant) => {
            let (namespace, name) = (meant.namespace().unwrap_or_default(), meant.name());
            anyhow!("there is no {kind} {wanted}; perhaps you mean `berth explain {word}/{name} -n {namespace}`")
        }
        None => anyhow!("there is no {kind} {wanted}; see `berth capacity -A`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::tests::{at_widths, document};
    use serde_json::json;

    fn sight() -> Sight {
        let set = |name: &str, instance_type: &str, annotations: serde_json::Value| {
            serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "openshift-machine-api", "annotations": annotations},
                "spec": {"template": {"spec": {"providerSpec": {"value": {
                    "instanceType": instance_type, "placement": {"region": "us-east-1"},
                    "credentialsSecret": {"name": "aws-cloud-credentials"}}}}}},
            }))
            .unwrap()
        };
        let done = json!({
            "machine.openshift.io/vCPU": "4", "machine.openshift.io/memoryMb": "16384", "machine.openshift.io/GPU": "0",
            "capacity.cluster-autoscaler.kubernetes.io/labels": "kubernetes.io/arch=amd64",
        });
        let paused = serde_json::from_value(json!({
            "metadata": {"name": "paused", "namespace": "team", "annotations": {"cluster.x-k8s.io/paused": ""}},
        }));
        let lost = serde_json::from_value(json!({
            "metadata": {"name": "lost", "namespace": "team"},
            "spec": {"template": {"spec": {"infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachineTemplate", "name": "gone"}}}},
        }));
        let lists = Lists {
            openshift_sets: vec![set("done", "m5.xlarge", done), set("new", "m6g.4xlarge", json!({}))],
            deployments: vec![paused.unwrap(), lost.unwrap()],
            ..Lists::default()
        };
        Sight::of(lists, &Clock::system())
    }

    fn config() -> Arc<Config> {
        Arc::new(Config::default())
    }

    fn key(kind: GroupKind, namespace: &str, name: &str) -> GroupKey {
        GroupKey { kind, key: ObjectKey::namespaced(namespace, name) }
    }

    #[test]
    fn the_list_says_what_is_seen_and_what_is_not() {
        let (sight, config) = (sight(), config());
        let rows: Vec<Row> =
            sight.groups().iter().map(|key| Row::new(key, line(&sight, key, &config, None).unwrap())).collect();
        insta::assert_snapshot!(at_widths(|screen| rows_screen(screen, &rows)));
        insta::assert_snapshot!("no_groups", at_widths(|screen| rows_screen(screen, &[])));
    }

    #[test]
    fn an_explanation_names_type_region_credentials_and_every_build() {
        let (sight, config) = (sight(), config());
        for (number, (kind, namespace, name)) in [
            (GroupKind::OpenShiftSet, "openshift-machine-api", "done"),
            (GroupKind::OpenShiftSet, "openshift-machine-api", "new"),
            (GroupKind::Deployment, "team", "paused"),
            (GroupKind::Deployment, "team", "lost"),
        ]
        .into_iter()
        .enumerate()
        {
            let told = explain(&sight, &key(kind, namespace, name), &config, None, Clock::system().now()).unwrap();
            insta::assert_snapshot!(
                format!("explain_{number}_{name}"),
                at_widths(|screen| screen::explanation(screen, &told))
            );
        }
    }

    #[test]
    fn the_list_and_several_explanations_for_programs() {
        let (sight, config) = (sight(), config());
        let items: Vec<Row> =
            sight.groups().iter().map(|key| Row::new(key, line(&sight, key, &config, None).unwrap())).collect();
        insta::assert_snapshot!("list_for_programs", document("CapacityList", &Rows { items: &items }));
        let told = ["done", "new"].map(|name| {
            let key = key(GroupKind::OpenShiftSet, "openshift-machine-api", name);
            explain(&sight, &key, &config, None, Clock::system().now()).unwrap()
        });
        let told = Explanations { items: &told };
        insta::assert_snapshot!("explanations_for_programs", document("ExplanationList", &told));
    }

    #[test]
    fn a_name_that_was_meant_is_named() {
        let groups = sight().groups();
        let lost = |namespace: &str, name: &str| {
            missing(&groups, &[GroupKind::OpenShiftSet], &ObjectKey::namespaced(namespace, name)).to_string()
        };
        assert!(lost("default", "done").contains("machineset/done -n openshift-machine-api"));
        assert!(lost("openshift-machine-api", "dome").contains("machineset/done"));
        assert!(lost("default", "zzzzzzzz").contains("berth capacity -A"));
    }
}
