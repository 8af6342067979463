//! Carries out the steps of a treatment.

use std::collections::BTreeMap;

use api::key::ObjectKey;
use api::names::claims::UNHEALTHY_ANNOTATION;
use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use k8s_openapi::api::core::v1::Node;
use kit::class::{Class, Classify};
use kit::feed::Version;
use kit::kinds::Kind;
use kit::room::{Flow, Room};
use kit::write::{self, Target, Writer, add, remove, test};
use kube::Api;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::Remedies;
use super::decide::Step;
use super::names::{
    ANNOTATIONS_BACKUP, FINALIZER, HARD, LABELS_BACKUP, OUT_OF_SERVICE, OWNER_REMEDIATED, SHUTDOWN, UNHEALTHY,
    WAITING_FOR_REMEDIATION, power_off,
};
use super::observe::{NodeState, Sight, Snapshot};

/// What can go wrong with one treatment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An index does not show our own last write yet, or the object is gone meanwhile.
    #[error("an index is behind our own write")]
    Behind,
    /// Something could not be read.
    #[error("read the {what}")]
    Read {
        /// What.
        what: &'static str,
        /// The server's words.
        #[source]
        source: Box<kube::Error>,
    },
    /// The workload cluster was closed between looking and acting.
    #[error("the workload cluster cannot be entered: {0}")]
    Closed(String),
    /// An object could not be written.
    #[error(transparent)]
    Write(#[from] write::Error),
    /// A Node could not be written.
    #[error("inside of the workload cluster")]
    Node(#[source] write::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        // Nothing tells us when a workload cluster changes its mind.
        let patient = |class| if class == Class::Terminal { Class::Transient { at_least: None } } else { class };
        match self {
            Self::Behind => Class::Stale,
            Self::Closed(_) => Class::Transient { at_least: None },
            Self::Read { source, .. } => patient(source.class()),
            Self::Write(error) => error.class(),
            Self::Node(error) => patient(error.class()),
        }
    }
}

impl Remedies {
    pub(super) async fn carry_out(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        match step {
            Step::Wait { until } => return Ok(Flow::Wait(Some(until))),
            Step::Finalize => {
                let seen = s.remediation.head.finalizers();
                if let Some(version) = self.writer.add_finalizer(&s.target(), &seen, &s.version, FINALIZER).await? {
                    self.world.remediations.wrote(&s.key, &version);
                }
            }
            Step::PowerOff => {
                self.annotate(s, &power_off(&s.remediation.head.uid), Some(HARD)).await?;
                tracing::info!(
                    object = %s.key, uid = %s.remediation.head.uid, claim = s.claim_name(), machine = s.patient_name(),
                    "the host of a machine that is ill is switched off, and its system is not waited for"
                );
            }
            Step::PowerOn => self.annotate(s, &power_off(&s.remediation.head.uid), None).await?,
            Step::Blame => self.annotate(s, UNHEALTHY_ANNOTATION, Some(UNHEALTHY)).await?,
            Step::Backup { annotations, labels } => {
                let body =
                    json!({"metadata": {"annotations": {ANNOTATIONS_BACKUP: annotations, LABELS_BACKUP: labels}}});
                let version = self.writer.merge(&s.target(), body, Some(&s.version)).await?;
                self.world.remediations.wrote(&s.key, &version);
            }
            Step::Forget => self.forget(s).await?,
            Step::HandOver => {
                self.hand_over(s).await?;
                tracing::info!(
                    object = %s.key, uid = %s.remediation.head.uid, claim = s.claim_name(), machine = s.patient_name(),
                    "the owner of a machine that is ill was asked to replace it"
                );
            }
            Step::DeleteNode => {
                let (writer, target, _) = self.node(s).await?;
                writer.delete(&target, None).await.map_err(Error::Node)?;
                tracing::info!(
                    object = %s.key, uid = %s.remediation.head.uid, machine = s.patient_name(), node = %target.key,
                    node_uid = %target.uid, "the Node of a machine that is ill was deleted"
                );
            }
            Step::Taint => {
                let (_, _, node) = self.node(s).await?;
                let mut taints = node.taints.clone();
                taints.push(json!({
                    "key": OUT_OF_SERVICE, "value": SHUTDOWN, "effect": "NoExecute", "timeAdded": whole(s.now),
                }));
                self.taint(s, &taints).await?;
            }
            Step::Untaint => {
                let (_, _, node) = self.node(s).await?;
                let ours = |taint: &Value| taint.get("key").and_then(Value::as_str) == Some(OUT_OF_SERVICE);
                let taints: Vec<Value> = node.taints.iter().filter(|taint| !ours(taint)).cloned().collect();
                self.taint(s, &taints).await?;
            }
            Step::Restore { annotations, labels } => self.restore(s, &annotations, &labels).await?,
        }
        Ok(Flow::Next)
    }

    async fn annotate(&self, s: &Snapshot, key: &str, value: Option<&str>) -> Result<(), Error> {
        let (Some(target), Some((_, version))) = (&s.claim_target, &s.claim) else { return Err(Error::Behind) };
        let body = json!({"metadata": {"annotations": {key: value}}});
        let version = self.writer.merge(target, body, Some(version)).await?;
        self.world.powers.wrote(&target.key, &version);
        Ok(())
    }

    async fn forget(&self, s: &Snapshot) -> Result<(), Error> {
        let seen = s.remediation.head.finalizers();
        let left: Vec<&String> = seen.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
        let mut all = vec![test("/metadata/finalizers", json!(seen)), add("/metadata/finalizers", json!(left))];
        let backups = [(ANNOTATIONS_BACKUP, &s.remediation.annotations), (LABELS_BACKUP, &s.remediation.labels)];
        for (key, stored) in backups {
            if let Some(stored) = stored {
                let path = format!("/metadata/annotations/{}", key.replace('/', "~1"));
                all.push(test(&path, json!(stored)));
                all.push(remove(&path));
            }
        }
        match self.writer.operations(&s.target(), all).await {
            Ok(version) => self.world.remediations.wrote(&s.key, &version),
            Err(write::Error::Refused { source, .. }) if matches!(&*source, kube::Error::Api(a) if a.code == 404) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn node<'s>(&self, s: &'s Snapshot) -> Result<(Writer, Target, &'s NodeState), Error> {
        let Sight::There(node) = &s.node else { return Err(Error::Behind) };
        let client = self.enter(s).await?.map_err(Error::Closed)?;
        let target = Target {
            kind: Kind::of::<Node>(),
            key: ObjectKey::cluster_scoped(node.name.as_str()),
            uid: node.uid.clone(),
        };
        Ok((Writer::new(client, Self::NAME), target, node))
    }

    async fn taint(&self, s: &Snapshot, taints: &[Value]) -> Result<(), Error> {
        let (writer, target, node) = self.node(s).await?;
        // The list goes as a whole, so it must be the one that was read.
        let version = Version { uid: node.uid.clone(), resource_version: node.version.clone() };
        writer.merge(&target, json!({"spec": {"taints": taints}}), Some(&version)).await.map_err(Error::Node)?;
        Ok(())
    }

    async fn restore(
        &self,
        s: &Snapshot,
        annotations: &BTreeMap<String, String>,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let (writer, target, node) = self.node(s).await?;
        let version = Version { uid: node.uid.clone(), resource_version: node.version.clone() };
        let body = json!({"metadata": {"annotations": annotations, "labels": labels}});
        writer.merge(&target, body, Some(&version)).await.map_err(Error::Node)?;
        Ok(())
    }

    /// Says on the Machine that its owner should replace it, in the words of both contracts as far as the Machine has them.
    async fn hand_over(&self, s: &Snapshot) -> Result<(), Error> {
        let Some(target) = &s.patient_target else { return Err(Error::Behind) };
        let namespace = target.key.namespace().unwrap_or_default();
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.writer.client().clone(), namespace, &target.kind.resource());
        let found = api.get_opt(target.key.name()).await;
        let found = found.map_err(|source| Error::Read { what: "Machine", source: Box::new(source) })?;
        let Some(machine) = found.filter(|machine| machine.metadata.uid.as_deref() == Some(&*target.uid)) else {
            return Err(Error::Behind);
        };
        let version = machine.metadata.resource_version.clone().unwrap_or_default();
        let generation = machine.metadata.generation.unwrap_or_default();
        let mut all = vec![test("/metadata/resourceVersion", json!(version))];
        let status = machine.data.get("status").cloned().unwrap_or_default();
        if !status.is_object() {
            all.push(add("/status", json!({})));
        }
        for (path, list) in conditions(&status, &target.kind.version, generation, s.now) {
            all.push(add(&path, list));
        }
        let version = self.writer.status_operations(target, all).await?;
        self.world.patients.wrote(&target.key, &version);
        Ok(())
    }
}

fn whole(time: Timestamp) -> String {
    let round = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Floor);
    time.round(round).unwrap_or(time).to_string()
}

/// The lists of conditions to store: the one that this version of the kind has in its status, and the one of the other contract
/// where the Machine has it.
fn conditions(status: &Value, version: &str, generation: i64, now: Timestamp) -> Vec<(String, Value)> {
    let message = "Rebooting the host did not help.";
    let newer = json!({
        "type": OWNER_REMEDIATED, "status": "False", "reason": WAITING_FOR_REMEDIATION, "message": message,
        "lastTransitionTime": whole(now), "observedGeneration": generation,
    });
    let older = json!({
        "type": OWNER_REMEDIATED, "status": "False", "reason": WAITING_FOR_REMEDIATION, "severity": "Warning",
        "message": message, "lastTransitionTime": whole(now),
    });
    let list = |at: &str, entry: &Value| {
        let stored = status.pointer(at).and_then(Value::as_array).cloned().unwrap_or_default();
        let same = |condition: &Value| condition.get("type").and_then(Value::as_str) == Some(OWNER_REMEDIATED);
        let mut next: Vec<Value> = stored.into_iter().filter(|condition| !same(condition)).collect();
        next.push(entry.clone());
        next.sort_by_key(|condition| condition.get("type").and_then(Value::as_str).unwrap_or_default().to_owned());
        (format!("/status{at}"), Value::Array(next))
    };
    let (here, there) = if version == "v1beta1" { (&older, &newer) } else { (&newer, &older) };
    let other = if version == "v1beta1" { "/v1beta2" } else { "/deprecated/v1beta1" };
    let mut all = vec![list("/conditions", here)];
    if status.pointer(other).is_some_and(Value::is_object) {
        all.push(list(&format!("{other}/conditions"), there));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_handed_over_in_the_words_of_both_contracts_and_nothing_else_is_lost() {
        let now = Timestamp::UNIX_EPOCH;
        let status = json!({
            "conditions": [{"type": "Ready", "status": "True"}, {"type": OWNER_REMEDIATED, "status": "True"}],
            "deprecated": {"v1beta1": {"conditions": [{"type": "BootstrapReady", "status": "True"}]}},
        });
        let all = conditions(&status, "v1beta2", 3, now);
        let paths: Vec<&str> = all.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["/status/conditions", "/status/deprecated/v1beta1/conditions"]);
        let words = |list: &Value| -> Vec<String> {
            let one = |c: &Value| {
                format!("{}={} {}", c["type"].as_str().unwrap(), c["status"].as_str().unwrap(), c["severity"])
            };
            list.as_array().unwrap().iter().map(one).collect()
        };
        assert_eq!(words(&all[0].1), ["OwnerRemediated=False null", "Ready=True null"]);
        assert_eq!(words(&all[1].1), ["BootstrapReady=True null", "OwnerRemediated=False \"Warning\""]);
        // A server that knows the older contract only has no other list, and would refuse one.
        let old = conditions(&json!({"conditions": []}), "v1beta1", 3, now);
        assert_eq!(old.len(), 1);
        assert_eq!(words(&old[0].1), ["OwnerRemediated=False \"Warning\""]);
        let both = conditions(&json!({"v1beta2": {}}), "v1beta1", 3, now);
        assert_eq!(both[1].0, "/status/v1beta2/conditions");
        assert_eq!(words(&both[1].1), ["OwnerRemediated=False null"]);
    }
}
