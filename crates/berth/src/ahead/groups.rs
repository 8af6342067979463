//! Groups of machines: which annotations they would be given.

use ::capacity::explain::{Lists, Sight};
use ::capacity::facts::{GroupKey, GroupKind};
use kit::clock::Clock;
use kit::explain::Explanation;

use super::AheadOptions;
use super::files::Files;
use crate::capacity::claim_rules;
use crate::groups::{self, GroupOptions};
use crate::look::Reader;

/// Kinds of groups, with their API groups.
pub const KINDS: [(&str, &str); 4] = [
    ("cluster.x-k8s.io", "MachineDeployment"),
    ("cluster.x-k8s.io", "MachineSet"),
    ("cluster.x-k8s.io", "MachinePool"),
    ("machine.openshift.io", "MachineSet"),
];

/// Says what becomes of the groups of files, judged by everything that they are made of, in the files or on the server.
pub async fn tell(reader: &Reader<'_>, files: &mut Files, options: &AheadOptions) -> anyhow::Result<Vec<Explanation>> {
    let judge = GroupOptions {
        judgement: options.judgement.clone(),
        feature_gates: options.feature_gates.clone(),
        lookup: false,
    };
    let config = judge.config(&options.operator.watch_filter, claim_rules(&options.operator.yard))?;
    let mut lists = groups::lists(reader, &judge).await?;
    let mut keys = Vec::new();
    let Lists { openshift_sets, deployments, sets, pools, unseen, .. } = &mut lists;
    let of = |kind: GroupKind| move |key| GroupKey { kind, key };
    keys.extend(files.lay(reader, openshift_sets, unseen).await?.into_iter().map(of(GroupKind::OpenShiftSet)));
    keys.extend(files.lay(reader, deployments, unseen).await?.into_iter().map(of(GroupKind::Deployment)));
    keys.extend(files.lay(reader, sets, unseen).await?.into_iter().map(of(GroupKind::Set)));
    keys.extend(files.lay(reader, pools, unseen).await?.into_iter().map(of(GroupKind::Pool)));
    around(reader, files, &mut lists, judge.judgement.capacity_metal3).await?;
    let mut sight = Sight::of(lists, &Clock::system());
    groups::told(reader.client, &mut sight, &keys, &config, &judge, options.operator_namespace.as_str()).await
}

/// Lays over what the machines of groups are made of.
async fn around(reader: &Reader<'_>, files: &mut Files, lists: &mut Lists, metal: bool) -> anyhow::Result<()> {
    let Lists { templates, clusters, aws_clusters, managed_planes, rosa_planes, unseen, .. } = lists;
    files.lay(reader, templates, unseen).await?;
    files.lay(reader, clusters, unseen).await?;
    files.lay(reader, aws_clusters, unseen).await?;
    files.lay(reader, managed_planes, unseen).await?;
    files.lay(reader, rosa_planes, unseen).await?;
    let Lists { scaling, managed, acs_templates, acs_clusters, unseen, .. } = lists;
    files.lay(reader, scaling, unseen).await?;
    files.lay(reader, managed, unseen).await?;
    files.lay(reader, acs_templates, unseen).await?;
    files.lay(reader, acs_clusters, unseen).await?;
    if !metal {
        return Ok(());
    }
    let Lists { metal_templates, hosts, hardware, policies, spaces, unseen, .. } = lists;
    files.lay(reader, metal_templates, unseen).await?;
    files.lay(reader, hosts, unseen).await?;
    files.lay(reader, hardware, unseen).await?;
    files.lay(reader, policies, unseen).await?;
    files.lay(reader, spaces, unseen).await?;
    Ok(())
}
