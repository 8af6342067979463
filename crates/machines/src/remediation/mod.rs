//! Machines that are rebooted because they are ill.
//!
//! **Promise.** A Metal3Remediation of a machine on a claim has its host switched off and on again, as often and as patiently as
//! its strategy says. While the host is surely off, its Node is taken out of service, or deleted where the cluster does not
//! know that, so that its pods start elsewhere; labels and annotations of a deleted Node come back with it. When nothing helps,
//! the owner of the Machine is asked to replace it, and the claim says that its host should not be used again.
//!
//! **Inputs.** Metal3Remediations, their Machines and Metal3Machines, the HostClaims of these, and the Node in the workload
//! cluster, which is looked at only while something depends on it.
//!
//! **Rules.** Machines that take their hosts directly are not touched. The phase is stored before anything of it is done. A host
//! that its claim asks to be off is not treated.
//!
//! **Failures.** A workload cluster that does not answer is asked again, no longer than one try lasts once the host is on.

pub mod apply;
pub mod decide;
pub mod facts;
pub mod guard;
pub mod names;
pub mod observe;
pub mod rights;
pub mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::key::ObjectKey;
use api::own::metal3::Metal3RemediationStatus;
use jiff::Timestamp;
use kit::doors::Clients;
use kit::feed::Version;
use kit::manager::{self, Manager};
use kit::queue::Priority;
use kit::room::{Driver, Flow, Report, Room, Trouble, Violation};
use kit::write::Writer;

use crate::config::Config;
use crate::node::Ways;
use apply::Error;
use decide::Step;
use facts::World;
use observe::Snapshot;

/// What is done with the Node of a host that is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Treat {
    /// What the version of the cluster knows.
    #[default]
    Auto,
    /// It is tainted as out of service.
    Taint,
    /// It is deleted.
    Delete,
}

/// The room of treatments.
pub struct Remedies {
    world: World,
    writer: Writer,
    ways: Ways,
    treat: Treat,
}

impl Room for Remedies {
    const NAME: &'static str = "machines-remediation";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = Metal3RemediationStatus;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        self.gather(key, now).await
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
    ) -> Option<Report<'s, Metal3RemediationStatus>> {
        status::report(snapshot, trouble)
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.world.remediations.wrote(key, version);
    }
}

/// Adds the room to a manager, with a way into workload clusters.
///
/// # Errors
/// When another room follows one of the kinds in a way that cannot be shared.
pub fn mount(
    manager: &Manager,
    config: &Arc<Config>,
    clients: Arc<Clients>,
    treat: Treat,
) -> Result<(), manager::Error> {
    let world = World::follow(manager, Arc::clone(config))?;
    let client = manager.client();
    let writer = Writer::new(client.clone(), Remedies::NAME);
    let ways = Ways::new(world.secrets.clone(), client.clone(), clients);
    let driver = Driver::new(manager, Remedies { world: world.clone(), writer, ways, treat });
    let work = Arc::clone(driver.work());
    world.remediations.observe(move |delta| work.add_now(delta.key.clone(), Priority::Urgent));
    let (work, remediations) = (Arc::clone(driver.work()), world.remediations.clone());
    let of_machine = move |machine: &ObjectKey| {
        for (key, _) in remediations.by("machine", &machine.to_string()) {
            work.add_now(key, Priority::Urgent);
        }
    };
    let wake = of_machine.clone();
    world.patients.observe(move |delta| wake(&delta.key));
    let (wake, patients) = (of_machine.clone(), world.patients.clone());
    let of_metal = move |metal: &ObjectKey| {
        for (machine, _) in patients.by("metal", &metal.to_string()) {
            wake(&machine);
        }
    };
    let wake = of_metal.clone();
    world.metal.observe(move |delta| wake(&delta.key));
    // The claim of a machine has its name.
    world.powers.observe(move |delta| of_metal(&delta.key));
    let (work, remediations, patients) =
        (Arc::clone(driver.work()), world.remediations.clone(), world.patients.clone());
    world.clusters.observe(move |delta| {
        // A pause begins or ends rarely, and few machines are ill at once.
        for (key, facts) in remediations.all() {
            let place = facts.machine.as_ref().map(|machine| crate::data::names::beside(&key, &machine.name));
            let patient = place.map(|place| patients.get(&place));
            let there = match patient {
                Some(kit::feed::Seen::At(patient)) => patient.cluster.as_deref() == Some(delta.key.name()),
                _ => false,
            };
            if there && key.namespace() == delta.key.namespace() {
                work.add_now(key, Priority::Urgent);
            }
        }
    });
    let (ready, keys) = (world.clone(), world.remediations.clone());
    manager.drive(&driver, async move { ready.settled().await }, move |accepts| keys.keys(accepts));
    Ok(())
}
