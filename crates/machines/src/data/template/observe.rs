//! Gathers one template with everything that was made of it.

use std::sync::Arc;

use api::key::ObjectKey;
use api::own::metal3::TakenIndex;
use jiff::Timestamp;
use kit::feed::{Seen, Version};
use kit::kinds::Kind;
use kit::write::Target;

use super::super::error::Error;
use super::super::facts::{ClusterFacts, TemplateFacts};
use super::super::names::beside;
use super::Templates;

/// One template at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where it is.
    pub key: ObjectKey,
    /// When this was read.
    pub now: Timestamp,
    /// The kind, as it is served.
    pub kind: Kind,
    /// The template.
    pub template: Arc<TemplateFacts>,
    /// The version that was read.
    pub version: Version,
    /// The cluster it belongs to.
    pub cluster: Option<Arc<ClusterFacts>>,
    /// The kind of clusters, as it is served.
    pub cluster_kind: Kind,
    /// The numbers that are taken, whoever took them, by number.
    pub taken: Vec<TakenIndex>,
    /// Whether claims or data of ours need it.
    pub needed: bool,
    /// Whether it must be left alone.
    pub paused: bool,
}

impl Snapshot {
    /// The template, to write to.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { kind: self.kind.clone(), key: self.key.clone(), uid: self.template.head.uid.clone() }
    }
}

impl Templates {
    /// Gathers the snapshot of a template; `None` when it is gone or nothing of ours uses it.
    pub(super) fn gather(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let world = &self.world;
        let template = match world.templates.get(key) {
            Seen::At(template) => template,
            Seen::Absent => return Ok(None),
            Seen::Behind => return Err(Error::Behind),
        };
        let Some(version) = world.templates.version(key, &template) else { return Err(Error::Behind) };
        let by = key.to_string();
        let datas = world.datas.by("template", &by);
        let needed = datas.iter().any(|(_, data)| data.is_kept())
            || world.claims.by("template", &by).iter().any(|(_, claim)| claim.is_kept());
        if !needed && !template.is_kept() {
            return Ok(None);
        }
        let mut taken: Vec<TakenIndex> = datas
            .iter()
            .filter(|(_, data)| !data.claim.is_empty())
            .map(|(_, data)| TakenIndex { index: data.index, name: data.claim.to_string() })
            .collect();
        taken.sort_by(|a, b| (a.index, &a.name).cmp(&(b.index, &b.name)));
        // The list is a map by number, and the server refuses one that holds a number twice.
        taken.dedup_by_key(|taken| taken.index);
        let cluster = template.cluster().map(|name| world.clusters.get(&beside(key, name)));
        let paused = template.head.paused || world.is_paused(key, template.cluster());
        Ok(Some(Snapshot {
            key: key.clone(),
            now,
            kind: world.templates.kind(),
            version,
            cluster: match cluster {
                Some(Seen::At(cluster)) => Some(cluster),
                _ => None,
            },
            cluster_kind: world.clusters.kind(),
            taken,
            needed,
            paused,
            template,
        }))
    }
}
