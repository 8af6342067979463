//! Carries out steps.

use api::key::ObjectKey;
use api::names::CLUSTER_NAME_LABEL;
use api::names::machines::CLUSTER_FINALIZER;
use kit::room::Flow;
use kube::Api;
use kube::api::ListParams;
use kube::core::DynamicObject;

use super::decide::Step;
use super::observe::Snapshot;
use super::room::{Error, Warden};

impl Warden {
    /// Carries out one step.
    pub(super) async fn carry_out(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        match step {
            Step::Secure => {
                let (seen, at) = (&s.place.finalizers, &s.version);
                if let Some(version) = self.writer.add_finalizer(&s.target, seen, at, CLUSTER_FINALIZER).await? {
                    self.world.places.wrote(&s.key, &version);
                }
                Ok(Flow::Again)
            }
            Step::Conclude => {
                if !s.is_moved() {
                    self.is_empty(s).await?;
                }
                let seen = &s.place.finalizers;
                if let Some(version) = self.writer.remove_finalizer(&s.target, seen, CLUSTER_FINALIZER).await? {
                    self.world.places.wrote(&s.key, &version);
                }
                Ok(Flow::Next)
            }
            Step::Wait => Ok(Flow::Wait(None)),
        }
    }

    /// Whether the server knows no machine of the cluster any more: an index that lags must not let it go too early.
    async fn is_empty(&self, s: &Snapshot) -> Result<(), Error> {
        let Some(owner) = s.place.owner.as_deref() else { return Ok(()) };
        let namespace = s.key.namespace().unwrap_or_default();
        let params = ListParams::default().labels(&format!("{CLUSTER_NAME_LABEL}={owner}")).limit(1);
        for kind in [self.world.machines.kind(), self.world.owners.kind()] {
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.writer.client().clone(), namespace, &kind.resource());
            let listed = match api.list(&params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                other => other.map_err(|source| {
                    let what = format!("{} of {}", kind.plural, ObjectKey::namespaced(namespace, owner));
                    Error::Read { what, source: Box::new(source) }
                })?,
            };
            if !listed.items.is_empty() {
                return Err(Error::Behind);
            }
        }
        Ok(())
    }
}
