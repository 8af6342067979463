//! Carries out steps. Each can be repeated, and survives being stopped at any moment.

use api::names::clusters::{CILIUM_INSTALLED_ANNOTATION, FINALIZER, ON, OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL};
use api::own::anywhere::{CloudStackMachineConfig, CloudStackMachineConfigStatus, Cluster};
use api::reasons::clusters::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kit::class::chain;
use kit::feed::Version;
use kit::kinds::Kind;
use kit::room::{Flow, Room};
use kit::write::{self, Stored, Target};
use kube::Api;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::acs::Clouds;
use crate::bodies::version_of;
use crate::decide::{Child, Step, Thought, Told};
use crate::facts::World;
use crate::inside;
use crate::manifest::word;
use crate::observe::kind_of;
use crate::owners::Owned;
use crate::render::canonical::same;
use crate::room::{Error, INSIDE, Keeper, read};
use crate::snapshot::{Checks, Objects, Snapshot};

/// What we call ourselves in the plural of what was applied.
const SHOWN: usize = 8;

impl<C: Clouds> Keeper<C> {
    /// Carries out one step.
    pub(crate) async fn carry_out(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        match step {
            Step::Secure => {
                let finalizers = s.cluster.finalizers();
                if let Some(version) = self.writer.add_finalizer(&s.target, finalizers, &s.version, FINALIZER).await? {
                    self.note(&s.key, &version);
                }
                Ok(Flow::Next)
            }
            Step::Own { children } => self.own(s, &children).await,
            Step::Judge { target, status } => self.judge(&target, &status).await,
            Step::Label { target } => {
                let labels = json!({
                    OWNER_NAME_LABEL: s.key.name(),
                    OWNER_NAMESPACE_LABEL: s.key.namespace().unwrap_or_default(),
                });
                self.writer.merge(&target, json!({"metadata": {"labels": labels}}), None).await?;
                Ok(Flow::Next)
            }
            Step::Apply { object, paths, drift } => self.write(s, object, &paths, drift).await,
            Step::Create { object } => self.create(s, &object).await,
            Step::Delete { targets, reason } => self.delete(s, &targets, reason).await,
            Step::Enter { objects, replace, reason, message } => {
                self.enter(s, &objects, replace, reason, &message).await
            }
            Step::Leave { objects } => {
                let client = self.clients.last(&s.key).ok_or(Error::Behind)?;
                inside::remove(&client, Self::NAME, &objects.0).await.map_err(|error| outside(&error))?;
                Ok(Flow::Next)
            }
            Step::Mark => {
                let body = json!({"metadata": {"annotations": {CILIUM_INSTALLED_ANNOTATION: ON}}});
                let version = self.writer.merge(&s.target, body, Some(&s.version)).await?;
                self.note(&s.key, &version);
                Ok(Flow::Next)
            }
            Step::Dissolve { target } => {
                self.generator.delete(&target, None).await?;
                tracing::info!(
                    object = %target, uid = %target.uid, cluster = %s.key, cluster_uid = %s.target.uid,
                    reason = "the cluster is deleted", proof = ?s.leftovers.as_ref().and_then(|left| left.proof),
                    "deleted with everything in it"
                );
                Ok(Flow::Next)
            }
            Step::Release => self.release(s).await,
            Step::Tell { warning, reason, message } => {
                self.tell(s, warning, reason, &message).await;
                Ok(Flow::Next)
            }
            Step::Fail { message, at_least } => Err(Error::Outside { message, at_least }),
            Step::Look => Ok(Flow::Again),
            Step::Wait { until } => Ok(Flow::Wait(until)),
        }
    }

    /// Says something on the cluster, unless it was said before.
    async fn tell(&self, s: &Snapshot, warning: bool, reason: Reason, message: &str) {
        match reason {
            // What began to hold may end, and then is told when it begins again.
            Reason::ClusterReady => self.memories.say_again(&s.key, Reason::ClusterReady.as_str()),
            Reason::ControlPlaneReady => self.memories.say_again(&s.key, Reason::ControlPlaneReady.as_str()),
            // Whoever goes back replaces again.
            Reason::TemplateReplaced => {
                let role = message.split_once(": ").map_or(message, |(role, _)| role);
                let (starts, same) = (format!("{reason}: {role}: "), format!("{reason}: {message}"));
                self.memories.unsay(&s.key, |before| before.starts_with(&starts) && before != same);
            }
            _ => {}
        }
        if self.memories.is_new(&s.key, &format!("{reason}: {message}")) {
            if reason == Reason::TemplateReplaced {
                self.metrics.replaced();
            }
            self.events.say(&s.target, warning, reason.as_str(), message).await;
        }
    }

    /// Forgets what was told of what is put right: it may go wrong again, and then is told again.
    pub(crate) fn forget_past(&self, s: &Snapshot, thought: &Thought) {
        let status = &s.stored.status;
        let stored = format!("{}: {}", status.failure_reason, status.failure_message);
        let fails = match &thought.failure {
            Told::Keep => Some(stored.clone()),
            Told::Clear => None,
            Told::Set(failure) => Some(format!("{}: {}", failure.reason, failure.message)),
        };
        let warned = match &s.checked {
            Some(Checks::Judged { warnings, .. }) => Some(warnings),
            // What was warned of was not looked at.
            _ => None,
        };
        self.memories.unsay(&s.key, |sentence| {
            let told =
                sentence.strip_prefix(Reason::ValidationFailed.as_str()).and_then(|rest| rest.strip_prefix(": "));
            told.is_some_and(|told| {
                let warns = warned.map_or(told != stored, |warnings| warnings.iter().any(|one| one == told));
                !warns && fails.as_deref() != Some(told)
            })
        });
    }

    /// Says how a machine configuration stands, unless the server has it already: an index may have missed that.
    async fn judge(&self, target: &Target, status: &CloudStackMachineConfigStatus) -> Result<Flow, Error> {
        let namespace = target.key.namespace().unwrap_or_default();
        let api: Api<CloudStackMachineConfig> = Api::namespaced(self.writer.client().clone(), namespace);
        let found = api.get_opt(target.key.name()).await.map_err(read(|| target.to_string()))?;
        if found.and_then(|machine| machine.status).as_ref() != Some(status) {
            let version = self.writer.status(target, status).await?;
            self.world.machines.wrote(&target.key, &version);
        }
        Ok(Flow::Next)
    }

    /// Names the cluster as an owner of what it refers to, together with everybody who waits for that.
    async fn own(&self, s: &Snapshot, children: &[Child]) -> Result<Flow, Error> {
        let uid = s.cluster.uid();
        for child in children {
            let target = &child.target;
            let line = self.owners.line(&target.kind.kind, &target.key);
            let place = line.enter(OwnerReference {
                api_version: <Cluster as kube::Resource>::api_version(&()).into_owned(),
                kind: "Cluster".to_owned(),
                name: s.key.name().to_owned(),
                uid: uid.to_owned(),
                controller: None,
                block_owner_deletion: None,
            });
            let mut turn = line.turn.lock().await;
            if place.is_named() {
                continue;
            }
            // What was written last is newer than what an index shows, unless others have written since.
            let newest = |wrote: &Owned| {
                wrote.version.uid == child.owned.version.uid && wrote.version.covers(&child.owned.version)
            };
            let mut seen = turn.take().filter(newest).unwrap_or_else(|| child.owned.clone());
            let written = loop {
                if seen.names(uid) {
                    break seen;
                }
                let waiting = line.all();
                let owners = waiting.with(&seen.owners);
                let body = json!({"metadata": {"ownerReferences": owners}});
                match self.writer.merge(target, body, Some(&seen.version)).await {
                    Ok(version) => {
                        waiting.done();
                        break Owned { version, owners };
                    }
                    Err(write::Error::Changed { .. }) => seen = self.owned(target, &seen.version).await?,
                    Err(error) => return Err(error.into()),
                }
            };
            *turn = Some(written);
        }
        Ok(Flow::Next)
    }

    /// The owners that the server has, if they are others than were seen at this version.
    async fn owned(&self, target: &Target, seen: &Version) -> Result<Owned, Error> {
        let namespace = target.key.namespace().unwrap_or_default();
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.writer.client().clone(), namespace, &target.kind.resource());
        let found = api.get_metadata_opt(target.key.name()).await.map_err(read(|| target.to_string()))?;
        let found = found.map(|found| Owned {
            version: Version {
                uid: found.metadata.uid.unwrap_or_default().into(),
                resource_version: found.metadata.resource_version.unwrap_or_default().into(),
            },
            owners: found.metadata.owner_references.unwrap_or_default(),
        });
        // A write that is refused although nothing has changed would be refused for ever.
        found
            .filter(|found| found.version.uid == target.uid && found.version != *seen)
            .ok_or_else(|| Error::Moved(target.to_string()))
    }

    /// Writes a generated object.
    async fn write(&self, s: &Snapshot, object: Value, paths: &[String], drift: bool) -> Result<Flow, Error> {
        let target = target(&object);
        let name = (target.kind.kind.clone(), target.key.name().to_owned());
        // Whatever comes of it, it is not what it was.
        self.bodies.doubt(&s.key, &name);
        let stored = self.generator.apply_whole(&target, object).await?;
        let version = version_of(&stored);
        let before = s.generated.as_ref().and_then(|found| found.as_ref().ok()?.stored.get(&name));
        let before = before.map(|stored| word(stored, "/metadata/resourceVersion"));
        if before == Some(&*version.resource_version) {
            // The server keeps it otherwise than it is applied; asking for it at once again would be a circle.
            let message = format!("{target} stays as it is although {} was applied", paths.join(", "));
            return Err(Error::Outside { message, at_least: None });
        }
        self.bodies.keep(&s.key, name, Some(&stored), self.clock.instant());
        wrote(&self.world, &target, &version);
        let kind = &target.kind.kind;
        tracing::info!(object = %target, cluster = %s.key, paths = paths.join(", "), drift, "applied");
        if drift {
            self.metrics.repaired(kind);
            let shown: Vec<&str> = paths.iter().take(SHOWN).map(String::as_str).collect();
            let what = if shown.is_empty() { "it was gone".to_owned() } else { shown.join(", ") };
            let message = format!("{kind} {}: {what}", target.key.name());
            self.events.say(&s.target, true, Reason::DriftRepaired.as_str(), &message).await;
        }
        Ok(Flow::Next)
    }

    /// Makes a template; one of the same name that means the same is it.
    async fn create(&self, s: &Snapshot, object: &Value) -> Result<Flow, Error> {
        let target = target(object);
        let name = (target.kind.kind.clone(), target.key.name().to_owned());
        self.bodies.doubt(&s.key, &name);
        match self.generator.create_whole(&target.kind, target.key.namespace(), object).await? {
            Stored::New(stored) => {
                self.bodies.keep(&s.key, name, Some(&stored), self.clock.instant());
                wrote(&self.world, &target, &version_of(&stored));
                tracing::info!(object = %target, "made");
                Ok(Flow::Next)
            }
            Stored::Existing(found) => {
                let spec = |object: &Value| object.get("spec").cloned().unwrap_or_default();
                if same(&spec(&found), &spec(object)) { Ok(Flow::Next) } else { Err(Error::Moved(target.to_string())) }
            }
        }
    }

    /// Deletes what nobody wants any more; what fails does not keep others.
    async fn delete(&self, s: &Snapshot, targets: &[Target], reason: Option<Reason>) -> Result<Flow, Error> {
        let mut failed = Vec::new();
        for target in targets {
            self.bodies.doubt(&s.key, &(target.kind.kind.clone(), target.key.name().to_owned()));
            match self.generator.delete(target, None).await {
                Ok(()) => {
                    self.memories.deleted(&s.key, &target.uid);
                    tracing::info!(
                        object = %target, uid = %target.uid, cluster = %s.key, cluster_uid = %s.target.uid,
                        reason = reason.map(|reason| reason.as_str()).unwrap_or_default(), "deleted"
                    );
                    if let Some(reason) = reason.filter(|_| target.kind.kind == "MachineDeployment") {
                        let message = format!("MachineDeployment {} was deleted", target.key.name());
                        self.events.say(&s.target, false, reason.as_str(), &message).await;
                    }
                }
                // It is another one by now, or changed: whoever looks next judges it anew.
                Err(write::Error::Changed { .. }) => {}
                Err(error) => failed.push(chain(&error)),
            }
        }
        if failed.is_empty() { Ok(Flow::Next) } else { Err(Error::Deletions(failed.join("; "))) }
    }

    /// Applies objects inside of the cluster.
    async fn enter(
        &self,
        s: &Snapshot,
        objects: &Objects,
        replace: bool,
        reason: Option<Reason>,
        message: &str,
    ) -> Result<Flow, Error> {
        let client = self.clients.last(&s.key).ok_or(Error::Behind)?;
        if replace {
            inside::upgrade(&client, Self::NAME, &objects.0).await.map_err(|error| outside(&error))?;
        } else {
            inside::apply(&client, Self::NAME, &objects.0).await.map_err(|error| outside(&error))?;
        }
        // Where it was installed before, an upgrade may have been under way, and left its check.
        if reason == Some(Reason::CNIInstalled) && !s.cluster.had_cni() {
            self.memories.installs(&s.key);
        }
        if let Some(reason) = reason {
            self.tell(s, false, reason, message).await;
        }
        Ok(Flow::Next)
    }

    /// Lets the cluster go, once the server says that nothing is left.
    async fn release(&self, s: &Snapshot) -> Result<Flow, Error> {
        if !s.cluster.is_self_managed() && self.own_cluster(&s.key, &s.cluster).await?.is_some() {
            return Err(Error::Moved(format!("Cluster {}", s.key)));
        }
        self.tell(s, false, Reason::ClusterDeleted, "nothing is left of the cluster").await;
        let released = self.writer.remove_finalizer(&s.target, s.cluster.finalizers(), FINALIZER).await?;
        if let Some(version) = released {
            self.note(&s.key, &version);
        }
        Ok(Flow::Next)
    }
}

/// What stands inside of a cluster is not for its owner to put right: it is tried again.
fn outside(error: &dyn std::error::Error) -> Error {
    Error::Outside { message: format!("{INSIDE}{}", chain(error)), at_least: None }
}

fn target(object: &Value) -> Target {
    let key = api::key::ObjectKey::namespaced(word(object, "/metadata/namespace"), word(object, "/metadata/name"));
    Target { kind: kind_of(object), key, uid: "".into() }
}

/// Lets the index of a kind know of our write.
fn wrote(world: &World, target: &Target, version: &Version) {
    let key = &target.key;
    match target.kind.kind.as_str() {
        "Cluster" if target.kind.group == Kind::of::<api::views::Cluster>().group => world.capi.wrote(key, version),
        "KubeadmControlPlane" => world.planes.wrote(key, version),
        "MachineDeployment" => world.groups.wrote(key, version),
        "MachineHealthCheck" => world.checks.wrote(key, version),
        "CloudStackCluster" => world.provider.wrote(key, version),
        "CloudStackMachineTemplate" => world.templates.wrote(key, version),
        "KubeadmConfigTemplate" => world.configs.wrote(key, version),
        _ => {}
    }
}
