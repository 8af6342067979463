//! Data claims: each gets a number of its template, and gives it back.
//!
//! The number is stored in the claim's status before the data is made, by a write that fails when the claim has moved on:
//! so one claim never has two numbers, whoever decides, and whatever the index shows. The name of the data is made of the
//! number, so that two claims never have the same one.

pub mod apply;
pub mod decide;
pub mod guard;
pub mod ledger;
pub mod observe;
pub mod status;
#[cfg(test)]
mod tests;

use api::key::ObjectKey;
use api::own::metal3::Metal3DataClaimStatus;
use jiff::Timestamp;
use kit::feed::Version;
use kit::room::{Flow, Report, Room, Trouble, Violation};
use kit::write::Writer;

use super::error::Error;
use super::facts::World;
use decide::Step;
use ledger::Ledger;
use observe::Snapshot;

/// The room of data claims.
pub struct DataClaims {
    pub(super) world: World,
    pub(super) writer: Writer,
    pub(super) ledger: Ledger,
}

impl Room for DataClaims {
    const NAME: &'static str = "machines-dataclaims";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = Metal3DataClaimStatus;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        self.gather(key, now)
    }

    fn decide(&self, snapshot: &Snapshot) -> Vec<Step> {
        decide::decide(snapshot)
    }

    fn guard(&self, snapshot: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
        guard::guard(snapshot, plan)
    }

    async fn apply(&self, snapshot: &Snapshot, step: Step) -> Result<Flow, Error> {
        self.carry_out(snapshot, step).await
    }

    fn report<'s>(
        &self,
        snapshot: &'s Snapshot,
        trouble: Option<&Trouble<Error>>,
    ) -> Option<Report<'s, Metal3DataClaimStatus>> {
        status::report(snapshot, trouble)
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.world.claims.wrote(key, version);
    }
}
