//! Data: addresses are wished for, documents are rendered once, and everything goes back with the data.

pub mod apply;
pub mod decide;
pub mod guard;
pub mod observe;
pub mod status;
#[cfg(test)]
mod tests;

use api::key::ObjectKey;
use api::own::metal3::Metal3DataStatus;
use jiff::Timestamp;
use kit::feed::Version;
use kit::room::{Flow, Report, Room, Trouble, Violation};
use kit::write::Writer;

use super::error::Error;
use super::facts::World;
use decide::Step;
use observe::Snapshot;

/// The room of data.
pub struct Datas {
    pub(super) world: World,
    pub(super) writer: Writer,
}

impl Room for Datas {
    const NAME: &'static str = "machines-data";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = Metal3DataStatus;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        self.gather(key, now)
    }

    fn decide(&self, snapshot: &Snapshot) -> Vec<Step> {
        decide::decide(snapshot).steps
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
    ) -> Option<Report<'s, Metal3DataStatus>> {
        status::report(snapshot, trouble)
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.world.datas.wrote(key, version);
    }
}
