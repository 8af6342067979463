//! Templates of data: kept while somebody has a number of them, owned by their cluster, and told which numbers are taken.

pub mod apply;
pub mod decide;
pub mod guard;
pub mod observe;
pub mod status;

use api::key::ObjectKey;
use api::own::metal3::Metal3DataTemplateStatus;
use jiff::Timestamp;
use kit::feed::Version;
use kit::room::{Flow, Report, Room, Trouble, Violation};
use kit::write::Writer;

use super::error::Error;
use super::facts::World;
use decide::Step;
use observe::Snapshot;

/// The room of templates of data.
pub struct Templates {
    pub(super) world: World,
    pub(super) writer: Writer,
}

impl Room for Templates {
    const NAME: &'static str = "machines-datatemplates";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = Metal3DataTemplateStatus;
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
    ) -> Option<Report<'s, Metal3DataTemplateStatus>> {
        status::report(snapshot, trouble)
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.world.templates.wrote(key, version);
    }
}
