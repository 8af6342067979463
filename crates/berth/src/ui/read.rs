//! Reads everything that is shown, once, with the rights of whoever asks.

use std::collections::{BTreeMap, BTreeSet};

use ::hosts::config::Config;
use api::key::ObjectKey;
use api::raw::AWSMachine;
use kit::explain::{Extent, Unseen};
use kube::{Client, ResourceExt as _};

use super::UiOptions;
use super::fleet::{Dedicated, Said, Seen};
use crate::explain::{Told, aws_machine_tree, closed};
use crate::groups;
use crate::look::{self, Hardware, Read, Reader, Which};

/// Label of a machine: the MachineDeployment it belongs to.
const DEPLOYMENT_LABEL: &str = "cluster.x-k8s.io/deployment-name";

/// What could not be read, told apart by whether it is there.
#[derive(Default)]
struct Gaps {
    unseen: BTreeSet<String>,
    absent: BTreeSet<String>,
}

impl Gaps {
    fn note(&mut self, extent: Extent, why: &str) {
        let gaps = if extent == Extent::Absent { &mut self.absent } else { &mut self.unseen };
        gaps.insert(why.to_owned());
    }

    fn parts<P>(&mut self, unseen: &[Unseen<P>]) {
        unseen.iter().for_each(|unseen| self.note(unseen.extent, &unseen.why));
    }
}

/// Reads everything; what may not be read is told, and keeps nobody from the rest.
///
/// # Errors
/// When the server does not answer.
pub async fn see(client: &Client, options: &UiOptions) -> anyhow::Result<Seen> {
    let only = options.place.namespace.as_deref();
    let reader = Reader::new(client, only);
    let mut gaps = Gaps::default();
    let (_, addresses) = Box::pin(look::addresses(&reader)).await?;
    gaps.parts(&addresses.unseen);
    let which = only.map_or(Which::All, Which::In);
    let claims = Box::pin(look::claims_around(&reader, &which, Hardware::AtOnce, "ui")).await?;
    match &claims {
        Some(claims) => gaps.parts(&claims.unseen),
        None => gaps.note(Extent::Absent, "the server does not know HostClaim (metal3.io), so there is none"),
    }
    let metal = Box::pin(look::every_metal(&reader)).await?;
    gaps.unseen.extend(metal.unseen.iter().cloned());
    let dedicated = Box::pin(dedicated(&reader, options, &mut gaps)).await?;
    let (anywhere, unseen) = Box::pin(look::every_cluster(&reader)).await?;
    gaps.unseen.extend(unseen);
    let (groups, unseen) =
        Box::pin(groups::rows(&reader, only, &options.groups, &options.operator.watch_filter)).await?;
    gaps.unseen.extend(unseen);
    let Gaps { unseen, absent } = gaps;
    Ok(Seen { addresses, claims, metal, dedicated, anywhere, groups, unseen, absent })
}

/// Reads machines on EC2, without asking EC2.
async fn dedicated(reader: &Reader<'_>, options: &UiOptions, gaps: &mut Gaps) -> anyhow::Result<Vec<Dedicated>> {
    let machines: Read<AWSMachine> = reader.read().await?;
    if let Some((extent, why)) = &machines.unseen {
        gaps.note(*extent, why);
    }
    if machines.items.is_empty() {
        return Ok(Vec::new());
    }
    let said: BTreeMap<ObjectKey, (Option<String>, Vec<Said>)> = machines
        .items
        .iter()
        .map(|machine| {
            let group = machine.labels().get(DEPLOYMENT_LABEL).cloned();
            (ObjectKey::of(machine), (group, Said::of(&machine.status)))
        })
        .collect();
    let around = look::around_machines(reader, machines.items).await?;
    gaps.unseen.extend(around.unseen.iter().cloned());
    let config = Config { watch_filter: options.operator.watch_filter.value(), ..Config::default() };
    let mut found = Vec::new();
    for (key, (group, said)) in said {
        // One that cannot be read hides no other.
        let snapshot = match Box::pin(closed(reader.client, &around, &config, &key)).await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                gaps.unseen.insert(format!("the AWSMachine {key} cannot be read: {error:#}"));
                continue;
            }
        };
        let cluster = snapshot.cluster_name().map(str::to_owned);
        let told = Told { snapshot, looked: false, identity: None, unseen: Vec::new() };
        let (node, hosts) = (aws_machine_tree(&told), told.places());
        found.push(Dedicated { key, cluster, group, node, hosts, said });
    }
    Ok(found)
}
