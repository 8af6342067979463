//! Carries out steps: one arm per step, each safe to repeat and to be dropped at any await.

use api::names::claims::{BLOCK_MOVE_ANNOTATION, REBOOT_ANNOTATION, finalizer};
use api::own::{HostClaimStatus, PendingReboot, ProvisioningState};
use api::reasons::claims::Reason;
use claim_kind::claim::LONGEST;
use cloudstack::errors::Kind;
use cloudstack::jobs::{Deployed, deploy_once};
use cloudstack::port::{Answer, CloudStack, Deploy, JobId, Tags};
use kit::feed::Version;
use kit::room::Flow;
use kit::write;
use kube::Api;
use kube::api::DynamicObject;
use serde_json::json;

use super::decide::Step;
use super::observe::{Act, MachineId, Snapshot};
use super::room::{Error, Vms};
use super::{KIND, TAG};
use crate::acs::Clouds;

impl<C: Clouds> Vms<C> {
    /// Carries out one step.
    pub(super) async fn carry_out(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        if step.needs_news() {
            self.confirm(s).await?;
        }
        match step {
            Step::Finalize => {
                let (seen, ours) = (&s.claim.finalizers, finalizer(KIND));
                let version = self.writer.add_finalizer(&s.target(), seen, &s.version, &ours).await?;
                Ok(self.wrote(s, version, Flow::Again))
            }
            Step::Anchor => {
                let body = json!({"metadata": {"annotations": {BLOCK_MOVE_ANNOTATION: ""}}});
                let version = self.writer.merge(&s.target(), body, Some(&s.version)).await?;
                Ok(self.wrote(s, Some(version), Flow::Again))
            }
            Step::Intend => {
                let next = HostClaimStatus {
                    provisioning_state: Some(ProvisioningState::Provisioning),
                    ..s.claim.status.clone()
                };
                let version = self.writer.status_at(&s.target(), &next, &s.latest()).await?;
                Ok(self.wrote(s, Some(version), Flow::Next))
            }
            Step::Create(order) => self.create(s, &order).await,
            Step::Tag { id } => {
                let tags = Tags::from([(TAG.to_owned(), s.claim.uid.to_string())]);
                let answer = self.acs(s)?.tag_virtual_machine(&id, &tags).await;
                self.begun(s, Act::Tag, answer)
            }
            Step::Power { id, on } => {
                let acs = self.acs(s)?;
                if on {
                    let answer = acs.start_virtual_machine(&id).await;
                    return self.begun(s, Act::Start, answer);
                }
                let answer = acs.stop_virtual_machine(&id, false).await;
                self.begun(s, Act::Stop, answer)
            }
            Step::Pend { id, hard } => {
                let mode = Some(if hard { "hard" } else { "soft" }.to_owned());
                let pending = PendingReboot { id: id.to_string(), mode };
                let next = HostClaimStatus { pending_reboot: Some(pending), ..s.claim.status.clone() };
                let version = self.writer.status_at(&s.target(), &next, &s.latest()).await?;
                Ok(self.wrote(s, Some(version), Flow::Again))
            }
            Step::Restart { id, hard } => {
                let answer = self.acs(s)?.stop_virtual_machine(&id, hard).await;
                let flow = self.begun(s, Act::Stop, answer)?;
                let told = "The machine is stopped and started again.";
                self.events.say(&s.target(), false, Reason::RebootForwarded.as_str(), told).await;
                Ok(flow)
            }
            Step::Withdraw => self.withdraw(s).await,
            Step::Destroy { id, expunge, failed } => self.destroy(s, &id, expunge, failed).await,
            Step::Unfinalize => {
                let version = self.writer.remove_finalizer(&s.target(), &s.claim.finalizers, &finalizer(KIND)).await?;
                self.memory.forget(&s.claim.uid);
                Ok(self.wrote(s, version, Flow::Next))
            }
            Step::Tell(what) => {
                self.events.say(&s.target(), true, what.reason(), what.text()).await;
                self.memory.tell(&s.claim.uid, what);
                Ok(Flow::Next)
            }
            Step::Wait { until } => Ok(Flow::Wait(Some(until))),
        }
    }

    /// Remembers the version of the claim that this pass made.
    fn wrote(&self, s: &Snapshot, version: Option<Version>, flow: Flow) -> Flow {
        if let Some(version) = version {
            self.around.claims().wrote(&s.key, &version);
            s.wrote(version);
        }
        flow
    }

    fn acs(&self, s: &Snapshot) -> Result<C::Acs, Error> {
        let credentials = s.credentials.as_ref().ok_or(Error::Moved)?;
        self.open(credentials).map_err(Error::Closed)
    }

    /// A job began; it is looked at once how far it is.
    fn begun(&self, s: &Snapshot, act: Act, answer: Answer<JobId>) -> Result<Flow, Error> {
        match answer {
            Ok(job) => {
                self.memory.begin(&s.claim.uid, job, act, s.now);
                Ok(Flow::Again)
            }
            // The machine went meanwhile: look again.
            Err(error) if error.kind() == Kind::NotFound => Ok(Flow::Again),
            Err(error) => Err(Error::Cloud(error)),
        }
    }

    /// Whether the claim is as this pass knows it: for one that has changed or gone meanwhile nothing may be done, and an
    /// index that missed something is not argued with.
    async fn confirm(&self, s: &Snapshot) -> Result<(), Error> {
        let home = s.key.namespace().unwrap_or_default();
        let claims: Api<DynamicObject> =
            Api::namespaced_with(self.writer.client().clone(), home, &s.resource.resource());
        let live = claims.get_metadata_opt(s.key.name()).await;
        let live = live.map_err(|source| Error::Read { what: s.target().to_string(), source: Box::new(source) })?;
        let known = s.latest();
        let same = live.is_some_and(|live| {
            live.metadata.uid.as_deref() == Some(&*known.uid)
                && live.metadata.resource_version.as_deref() == Some(&*known.resource_version)
        });
        if same { Ok(()) } else { Err(Error::Moved) }
    }

    async fn create(&self, s: &Snapshot, order: &Deploy) -> Result<Flow, Error> {
        let acs = self.acs(s)?;
        match deploy_once(&acs, order).await? {
            Deployed::Started(started) => {
                tracing::info!(claim = %s.key, machine = %started.id, name = order.name, "a machine is being made");
                self.memory.begin(&s.claim.uid, started.job, Act::Deploy, s.now);
            }
            Deployed::Found(found) => {
                tracing::info!(claim = %s.key, machine = %found.id, name = order.name, "the machine is there already");
            }
        }
        Ok(Flow::Again)
    }

    async fn destroy(&self, s: &Snapshot, id: &MachineId, expunge: bool, failed: bool) -> Result<Flow, Error> {
        // A claim that goes, goes; but of one that stays old news could cost the machine.
        if !s.claim.is_deleting() {
            self.confirm(s).await?;
        }
        let acs = self.acs(s)?;
        let shown = s.machines().iter().find(|machine| machine.id == *id);
        // Told before it is asked for: the answer may be lost.
        tracing::info!(
            claim = %s.key, uid = %s.claim.uid, deleted = ?s.claim.deleted_at, machine = %id, expunge, failed,
            secret = s.credentials.as_ref().map(|credentials| &*credentials.name).unwrap_or_default(),
            state = shown.map(|machine| machine.state.as_str()).unwrap_or_default(),
            reason = match (s.claim.is_deleting(), failed) {
                (true, _) => "the claim is deleted",
                (false, true) => "it failed before it ran",
                (false, false) => "a claim has one machine",
            },
            // Its name is made of the claim's uid.
            proof = match shown.map(|machine| machine.tags.contains_key(TAG)) {
                Some(true) => "machine name and tag",
                Some(false) => "machine name",
                None => "",
            },
            "a machine is being destroyed"
        );
        match acs.destroy_virtual_machine(id, expunge).await {
            Ok(job) => self.memory.begin(&s.claim.uid, job, Act::Destroy, s.now),
            // Not found counts as gone.
            Err(error) if error.kind() == Kind::NotFound => {}
            Err(error) => return Err(Error::Cloud(error)),
        }
        if failed {
            self.memory.failed(&s.claim.uid, s.now);
        }
        Ok(Flow::Again)
    }

    async fn withdraw(&self, s: &Snapshot) -> Result<Flow, Error> {
        let path = format!("/metadata/annotations/{}", REBOOT_ANNOTATION.replace('~', "~0").replace('/', "~1"));
        let asked = s.claim.annotation(REBOOT_ANNOTATION).unwrap_or_default();
        let mut operations = vec![write::remove(&path)];
        // Of what is longer than it can make sense only a part is known.
        if asked.len() < LONGEST {
            operations.insert(0, write::test(&path, json!(asked)));
        }
        let version = self.writer.operations(&s.target(), operations).await?;
        Ok(self.wrote(s, Some(version), Flow::Again))
    }
}
