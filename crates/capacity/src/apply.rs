//! Carries out steps: one merge patch of the annotations that differ, and events.

use api::meta::Versioned;
use api::reasons::capacity::Reason;
use api::views::{MachineDeployment, MachinePool, MachineSet, OpenShiftMachineSet, TemplateStatus};
use kit::class::chain;
use kit::feed::Version;
use kit::room::{Flow, Stand};
use kit::write::{self, Target};
use kube::Api;
use serde_json::json;

use crate::cloud::Ways;
use crate::decide::{Snapshot, Standing, Step};
use crate::facts::{GroupFacts, GroupKey, GroupKind};
use crate::metrics::Result as Outcome;
use crate::plan::Plan;
use crate::room::{Annotator, Error, Seeing, TRIES, is_code, read};

impl<C: Ways> Annotator<C> {
    /// Writes annotations, at once again where somebody else wrote the group meanwhile.
    async fn annotate(&self, seeing: &Seeing, mut plan: Plan) -> Result<Flow, Error> {
        let (key, snapshot) = (&seeing.key, &seeing.snapshot);
        if self.config.dry_run {
            if !snapshot.memory.tried(&plan.changes, snapshot.now) {
                self.memories().change(key, snapshot.now, |memory| memory.try_out(&plan.changes, snapshot.now));
                tracing::info!(object = %key, changes = %changes(snapshot, &plan), "would be annotated, but for --dry-run");
            }
            self.metrics.patched(key.kind, "dry_run");
            return Ok(Flow::Next);
        }
        let Some(mut version) = seeing.version.clone() else { return Err(Error::Behind) };
        let target = self.target(key, &snapshot.group.uid);
        for _ in 0..=TRIES {
            let written = self.writer.merge(&target, plan.patch(&version.resource_version), None).await;
            match written {
                Ok(version) => {
                    self.wrote(key, &version);
                    self.metrics.patched(key.kind, "done");
                    self.metrics.passed(key.kind, Outcome::Changed);
                    self.metrics.stands(key, Some(Stand::ready()));
                    let now = snapshot.now;
                    self.memories().change(key, now, |memory| {
                        plan.changes.iter().for_each(|(key, value)| memory.write(key, value.as_deref(), now));
                    });
                    tracing::info!(object = %key, changes = %changes(snapshot, &plan), "annotated");
                    return Ok(Flow::Next);
                }
                Err(write::Error::Changed { .. }) => {
                    self.metrics.patched(key.kind, "conflict");
                    let Some((group, live)) = self.live(key).await? else { return Ok(Flow::Wait(None)) };
                    // Only what we write may have changed under us; anything else is judged from the start.
                    if !group.is_judged_like(&snapshot.group) {
                        return Err(Error::Behind);
                    }
                    let Standing::Known { offer, around, .. } = &snapshot.standing else { return Err(Error::Behind) };
                    plan = snapshot.plan_for(&group, &snapshot.goal(offer, around));
                    if plan.is_empty() {
                        return Ok(Flow::Wait(None));
                    }
                    version = live;
                }
                Err(write::Error::Refused { source, .. }) if is_code(&source, &[404]) => return Ok(Flow::Wait(None)),
                // An admission policy guards the copy that does not own the annotations: that is no failure, and
                // nothing announces its end but the group itself.
                Err(error @ write::Error::Refused { .. }) if refused(&error) => {
                    self.metrics.patched(key.kind, "refused");
                    if self.config.machine_api_migration && by_policy(&error) {
                        self.metrics.stands(key, None);
                    }
                    tracing::info!(object = %key, error = %chain(&error), "the annotations were refused, looking again later");
                    return Ok(Flow::Wait(None));
                }
                Err(error) => {
                    self.metrics.patched(key.kind, "failed");
                    return Err(error.into());
                }
            }
        }
        Err(Error::Behind)
    }

    /// Writes the status of the template. Whoever else says something there keeps the word, and that is no failure.
    async fn describe(&self, seeing: &Seeing, status: &TemplateStatus) -> Result<Flow, Error> {
        let (key, snapshot) = (&seeing.key, &seeing.snapshot);
        let Some(template) = &snapshot.template else { return Ok(Flow::Next) };
        let uid = &template.facts.uid;
        let done = || self.memories().change(key, snapshot.now, |memory| memory.describe(uid, status, snapshot.now));
        if self.config.dry_run {
            done();
            tracing::info!(object = %template.key, capacity = ?status.capacity, "would be described, but for --dry-run");
            return Ok(Flow::Next);
        }
        let target = Target { kind: self.world.templates.kind(), key: template.key.clone(), uid: uid.clone() };
        let node = (&status.architecture, &status.operating_system);
        let mut body = json!({"capacity": status.capacity});
        if let ((Some(architecture), Some(system)), Some(body)) = (node, body.as_object_mut()) {
            let info = json!({"architecture": architecture, "operatingSystem": system});
            body.insert("nodeInfo".to_owned(), info);
        }
        match self.writer.offer_status(&target, &body).await {
            Ok(_) => tracing::info!(object = %template.key, capacity = ?status.capacity, "described"),
            Err(error @ write::Error::Changed { .. }) => {
                tracing::debug!(object = %template.key, error = %chain(&error), "somebody else describes the template");
            }
            // The template is gone, has no status at all, or knows no such fields; or we lack the right to write it.
            Err(error @ write::Error::Refused { .. }) if passes(&error) => {
                tracing::warn!(object = %template.key, error = %chain(&error), "the template cannot be described");
            }
            Err(error) => return Err(error.into()),
        }
        done();
        Ok(Flow::Next)
    }

    /// The group as the server has it now.
    async fn live(&self, key: &GroupKey) -> Result<Option<(GroupFacts, Version)>, Error> {
        let (resource, namespace) = (self.kind(key.kind).resource(), key.key.namespace().unwrap_or_default());
        let (client, name) = (self.writer.client().clone(), key.key.name());
        let failed = |error| read(|| key.to_string())(error);
        Ok(match key.kind {
            GroupKind::OpenShiftSet => {
                let api: Api<Versioned<OpenShiftMachineSet>> = Api::namespaced_with(client, namespace, &resource);
                let found = api.get_opt(name).await.map_err(failed)?;
                found.map(|Versioned(set)| (Version::of(&set), set)).map(|(v, set)| (GroupFacts::of_openshift(set), v))
            }
            GroupKind::Deployment => {
                let api: Api<Versioned<MachineDeployment>> = Api::namespaced_with(client, namespace, &resource);
                let found = api.get_opt(name).await.map_err(failed)?;
                found
                    .map(|Versioned(d)| (Version::of(&d), d))
                    .map(|(v, d)| (GroupFacts::of_cluster_api(d.metadata, d.spec), v))
            }
            GroupKind::Pool => {
                let api: Api<Versioned<MachinePool>> = Api::namespaced_with(client, namespace, &resource);
                let found = api.get_opt(name).await.map_err(failed)?;
                found
                    .map(|Versioned(p)| (Version::of(&p), p))
                    .map(|(v, p)| (GroupFacts::of_cluster_api(p.metadata, p.spec), v))
            }
            GroupKind::Set => {
                let api: Api<Versioned<MachineSet>> = Api::namespaced_with(client, namespace, &resource);
                let found = api.get_opt(name).await.map_err(failed)?;
                found
                    .map(|Versioned(s)| (Version::of(&s), s))
                    .map(|(v, s)| (GroupFacts::of_cluster_api(s.metadata, s.spec), v))
            }
        })
    }

    /// Says something on a group, or only to the log.
    async fn say(&self, target: &Target, warning: bool, reason: Reason, message: &str) {
        if self.config.dry_run {
            tracing::info!(object = %target, reason = reason.as_str(), message, "would be told, but for --dry-run");
        } else {
            self.events.say(target, warning, reason.as_str(), message).await;
        }
    }

    /// Carries out one step.
    pub(crate) async fn carry_out(&self, seeing: &Seeing, step: Step) -> Result<Flow, Error> {
        let (key, snapshot) = (&seeing.key, &seeing.snapshot);
        let (now, target) = (snapshot.now, self.target(key, &snapshot.group.uid));
        match step {
            Step::Annotate(plan) => return self.annotate(seeing, plan).await,
            Step::Describe(status) => return self.describe(seeing, &status).await,
            Step::Yield { key: fought, message } => {
                self.memories().change(key, now, |memory| memory.yield_to(&fought, now));
                self.say(&target, true, Reason::AnnotationConflict, &message).await;
            }
            Step::Tell { warning, reason, message } => {
                let troubled = matches!(snapshot.standing, Standing::Stuck { .. });
                self.memories().change(key, now, |memory| {
                    memory.tell(reason, &message, now);
                    memory.troubled |= troubled;
                });
                self.say(&target, warning, reason, &message).await;
            }
            Step::Wait { until } => return Ok(Flow::Wait(until)),
        }
        Ok(Flow::Next)
    }
}

fn refused(error: &write::Error) -> bool {
    matches!(error, write::Error::Refused { source, .. } if is_code(source, &[403, 422]))
}

/// Whether the rules of admission refused a write, and not a missing right.
fn by_policy(error: &write::Error) -> bool {
    matches!(error, write::Error::Refused { source, .. } if is_code(source, &[422]) || names_a_policy(source))
}

/// A policy chooses the code of its refusals, but not their words.
fn names_a_policy(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.message.contains("ValidatingAdmissionPolicy"))
}

fn passes(error: &write::Error) -> bool {
    matches!(error, write::Error::Refused { source, .. } if is_code(source, &[400, 403, 404, 422]))
}

/// What changes, for the log: old value and new one of each key.
fn changes(snapshot: &Snapshot, plan: &Plan) -> String {
    let one = |(key, new): (&String, &Option<String>)| {
        let short = key.rsplit('/').next().unwrap_or(key);
        let old = snapshot.group.annotation(key).unwrap_or("-");
        format!("{short}: {old} -> {}", new.as_deref().unwrap_or("-"))
    };
    let shown: Vec<String> = plan.changes.iter().filter(|(key, _)| *key != crate::names::APPLIED).map(one).collect();
    shown.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_policys_by_its_code_or_by_its_words_and_a_missing_right_is_neither() {
        let denied = "machinesets \"a\" is forbidden: ValidatingAdmissionPolicy 'guard' denied request: no";
        let lacking = "machinesets \"a\" is forbidden: User \"berth\" cannot patch resource \"machinesets\"";
        for (code, message, policy) in [(422, "", true), (403, denied, true), (403, lacking, false)] {
            let said = json!({"status": "Failure", "message": message, "reason": "", "code": code});
            let source = Box::new(kube::Error::Api(Box::new(serde_json::from_value(said).unwrap())));
            let error = write::Error::Refused { verb: "patch", target: "MachineSet a".to_owned(), source };
            assert_eq!((refused(&error), by_policy(&error)), (true, policy), "{code} {message}");
        }
    }
}
