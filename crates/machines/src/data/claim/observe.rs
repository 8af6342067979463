//! Gathers one data claim with everything around it.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::key::ObjectKey;
use jiff::Timestamp;
use kit::feed::{Seen, Version};
use kit::kinds::Kind;
use kit::write::Target;

use super::super::error::Error;
use super::super::facts::{DataClaimFacts, DataFacts, MetalMachineFacts, TemplateFacts};
use super::super::names::{beside, index};
use super::DataClaims;

/// One data claim at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where it is.
    pub key: ObjectKey,
    /// When this was read.
    pub now: Timestamp,
    /// The kind, as it is served.
    pub kind: Kind,
    /// The claim.
    pub claim: Arc<DataClaimFacts>,
    /// The version that was read.
    pub version: Version,
    /// Its machine, when that is the one that owns it.
    pub machine: Option<Arc<MetalMachineFacts>>,
    /// Its template.
    pub template: Option<Arc<TemplateFacts>>,
    /// Every data of this claim.
    pub datas: Vec<(ObjectKey, Arc<DataFacts>)>,
    /// The data of the name that was chosen, whoever it belongs to.
    pub chosen: Option<Arc<DataFacts>>,
    /// The number that it may have.
    pub offer: Option<i32>,
    /// Whether it must be left alone.
    pub paused: bool,
}

impl Snapshot {
    /// The claim, to write to.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { kind: self.kind.clone(), key: self.key.clone(), uid: self.claim.head.uid.clone() }
    }

    /// The data that counts: the chosen one, else the one with the lowest number.
    #[must_use]
    pub fn data(&self) -> Option<&(ObjectKey, Arc<DataFacts>)> {
        let living = || self.datas.iter().filter(|(_, data)| !data.head.deleting);
        let chosen = self.claim.chosen();
        living().find(|(key, _)| Some(key.name()) == chosen).or_else(|| living().min_by_key(|(_, data)| data.index))
    }

    /// The number that was chosen, unless it is somebody else's by now.
    #[must_use]
    pub fn intent(&self) -> Option<i32> {
        let template = self.claim.template.as_deref()?;
        let index = index(template, self.claim.chosen()?)?;
        let free = self.chosen.as_ref().is_none_or(|data| data.belongs_to(self.key.name(), &self.claim.head.uid));
        free.then_some(index)
    }
}

impl DataClaims {
    /// Gathers the snapshot of a data claim; `None` when it is gone or not ours.
    pub(super) fn gather(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let world = &self.world;
        let claim = match world.claims.get(key) {
            Seen::At(claim) => claim,
            Seen::Absent => {
                self.ledger.forget(key);
                return Ok(None);
            }
            Seen::Behind => return Err(Error::Behind),
        };
        let Some(version) = world.claims.version(key, &claim) else { return Err(Error::Behind) };
        let machine = claim.machine.as_ref().and_then(|owner| match world.metal.get(&beside(key, &owner.name)) {
            Seen::At(machine) if machine.uid == owner.uid => Some(machine),
            _ => None,
        });
        let ours = machine.as_ref().is_some_and(|machine| machine.is_ours(&world.config));
        if !ours && !claim.is_kept() {
            return Ok(None);
        }
        let place = claim.template.as_deref().map(|name| beside(key, name));
        let template = match place.as_ref().map(|place| world.templates.get(place)) {
            Some(Seen::At(template)) => Some(template),
            Some(Seen::Behind) => return Err(Error::Behind),
            Some(Seen::Absent) | None => None,
        };
        let mut datas = world.datas.by("claim", &key.to_string());
        datas.retain(|(_, data)| data.belongs_to(key.name(), &claim.head.uid));
        let chosen = match claim.chosen().map(|name| world.datas.get(&beside(key, name))) {
            Some(Seen::At(data)) => Some(data),
            Some(Seen::Behind) => return Err(Error::Behind),
            Some(Seen::Absent) | None => None,
        };
        let cluster = claim.head.cluster.as_deref().or_else(|| template.as_ref().and_then(|t| t.cluster()));
        let paused = claim.head.paused || world.is_paused(key, cluster);
        let mut snapshot = Snapshot {
            key: key.clone(),
            now,
            kind: world.claims.kind(),
            claim,
            version,
            machine: machine.filter(|_| ours),
            template,
            datas,
            chosen,
            offer: None,
            paused,
        };
        if let Some(place) = place {
            snapshot.offer = self.offer(&snapshot, &place);
        }
        Ok(Some(snapshot))
    }

    /// The lowest number of the template that nobody has and nobody has chosen.
    fn offer(&self, s: &Snapshot, template: &ObjectKey) -> Option<i32> {
        let wants = !s.claim.head.deleting && s.datas.is_empty() && s.intent().is_none() && s.template.is_some();
        if !wants {
            self.ledger.forget(&s.key);
            return None;
        }
        let index_of = |name: &str| index(template.name(), name);
        let by = template.to_string();
        let mut taken: BTreeSet<i32> = BTreeSet::new();
        for (key, data) in self.world.datas.by("template", &by) {
            taken.insert(data.index);
            // The name is what cannot be had twice.
            taken.extend(index_of(key.name()));
        }
        taken.extend(s.claim.chosen().and_then(index_of));
        let others = self.world.claims.by("template", &by).into_iter().filter(|(key, _)| *key != s.key);
        taken.extend(others.filter_map(|(_, other)| index_of(other.chosen()?)));
        Some(self.ledger.offer(template, &s.key, &taken))
    }
}
