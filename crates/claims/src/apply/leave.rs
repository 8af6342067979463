//! Lets a claim go: no bind of it is on its way any more, and nothing that was made for it is left behind.

use std::collections::BTreeSet;

use api::key::ObjectKey;
use api::names::claims as names;
use kit::room::Flow;
use serde_json::json;

use super::{COPIES_LINGER, Error, finalizers};
use crate::hand::{Edit, Touched};
use crate::observe::Snapshot;
use crate::release;
use crate::room::Claims;
use crate::standing::is_ours;

impl Claims {
    pub(super) async fn unfinalize(&self, s: &Snapshot) -> Result<Flow, Error> {
        if !release::is_moved(s) {
            self.fence(s).await?;
            // What the index does not show may be there all the same.
            let status = &s.claim.status;
            let bound = status.bare_metal_host.as_ref().map(|host| host.namespace.as_str());
            let chosen = status.selected_host.as_ref().map(|host| host.namespace.as_str());
            // Where this process made sure that none is left before it gave the host back, there is none.
            let swept = self.given.of(&s.claim.uid);
            let swept = [s.key.namespace(), swept.as_ref().and_then(ObjectKey::namespace)];
            let places: BTreeSet<&str> =
                bound.into_iter().chain(chosen).filter(|place| !swept.contains(&Some(*place))).collect();
            for place in places {
                if !self.copies.drop_all(place, &s.claim.uid, "").await? {
                    return Ok(Flow::Wait(s.now.checked_add(COPIES_LINGER).ok()));
                }
            }
        }
        let written = self.writer.remove_finalizer(&s.target(), &finalizers(s), names::BAREMETAL_FINALIZER).await?;
        if let Some(version) = written {
            self.world.claims.wrote(&s.key, &version);
        }
        self.faults.forget_claim(&s.claim.uid);
        self.failing.forget(&s.claim.uid);
        self.alone.forget(&s.claim.uid);
        self.driven.forget(&s.claim.uid);
        self.given.forget(&s.claim.uid);
        self.told.forget(&s.claim.uid);
        Ok(Flow::Next)
    }

    /// Makes sure that no bind of this claim is on its way any more. A leader that lost its lease may have sent one that
    /// arrives after the claim is gone. It names the version of the host that it read, so a newer one turns it away.
    async fn fence(&self, s: &Snapshot) -> Result<(), Error> {
        let status = &s.claim.status;
        let Some(intended) = &status.selected_host else { return Ok(()) };
        let host = intended.key();
        if self.given.of(&s.claim.uid).as_ref() == Some(&host) {
            return Ok(());
        }
        // What was bound has had newer versions since: the bind itself, and the end of it.
        let was_bound = status.bare_metal_host.as_ref().is_some_and(|bound| bound.key() == host);
        let set = |value: Option<&str>| json!({"metadata": {"annotations": {names::FENCE_ANNOTATION: value}}});
        let judge = |live: &crate::facts::HostFacts| match &live.consumer {
            consumer if is_ours(consumer.as_ref(), &s.key, &s.claim) => Edit::Refuse(()),
            Some(_) => Edit::Nothing,
            None if was_bound || *live.uid != *intended.uid => Edit::Nothing,
            None => Edit::Patch(set(Some(""))),
        };
        match self.hand.change(&host, judge).await? {
            Touched::Changed => {}
            Touched::Unchanged | Touched::Gone => return Ok(()),
            Touched::Refused(()) => return Err(Error::NotOurs(host)),
        }
        let fenced = |live: &crate::facts::HostFacts| live.annotation(names::FENCE_ANNOTATION).is_some();
        let open = |live: &crate::facts::HostFacts| -> Edit<()> {
            if fenced(live) { Edit::Patch(set(None)) } else { Edit::Nothing }
        };
        self.hand.change(&host, open).await?;
        Ok(())
    }
}
