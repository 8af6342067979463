//! Thinks: what a data claim needs next.

use api::key::ObjectKey;

use super::observe::Snapshot;

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put our finalizer on the claim, before anything is made for it.
    Finalize,
    /// Make the data with this number, which the claim's status names.
    Make {
        /// The number.
        index: i32,
    },
    /// Delete data of the claim.
    Drop {
        /// Which.
        data: ObjectKey,
        /// As which incarnation.
        uid: Box<str>,
    },
    /// Take our finalizer off the claim, after a live look that nothing is left.
    Unfinalize,
}

/// The plan for one data claim. The number is chosen by the status, which is stored before this makes anything of it.
#[must_use]
pub fn decide(s: &Snapshot) -> Vec<Step> {
    if s.paused {
        return Vec::new();
    }
    let drop = |(key, data): &(ObjectKey, std::sync::Arc<super::super::facts::DataFacts>)| Step::Drop {
        data: key.clone(),
        uid: data.head.uid.clone(),
    };
    if s.claim.head.deleting {
        if !s.claim.is_kept() {
            return Vec::new();
        }
        if s.datas.is_empty() {
            return vec![Step::Unfinalize];
        }
        return s.datas.iter().filter(|(_, data)| !data.head.deleting).map(drop).collect();
    }
    if !s.claim.is_kept() {
        return vec![Step::Finalize];
    }
    if let Some((kept, _)) = s.data() {
        // Two datas of one claim: the number of one of them goes back.
        let others = s.datas.iter().filter(|(key, data)| key != kept && !data.head.deleting);
        return others.map(drop).collect();
    }
    let usable = s.machine.is_some() && s.template.as_ref().is_some_and(|template| !template.head.deleting);
    match s.intent() {
        // Data that is going still has the name.
        Some(index) if usable && s.chosen.is_none() => vec![Step::Make { index }],
        _ => Vec::new(),
    }
}
