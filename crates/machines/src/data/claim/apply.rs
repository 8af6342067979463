//! Carries out the steps for a data claim.

use api::raw;
use kit::feed::Version;
use kit::kinds::Kind;
use kit::room::Flow;
use kit::write::{Created, Target};
use kube::Api;
use serde_json::{Value, json};

use super::super::error::Error;
use super::super::facts::DataFacts;
use super::super::names::{
    CLAIM_FINALIZER, CLAIM_KIND, DATA_FINALIZER, DATA_KIND, MACHINE_KIND, TEMPLATE_KIND, beside, data,
};
use super::DataClaims;
use super::decide::Step;
use super::observe::Snapshot;

impl DataClaims {
    pub(super) async fn carry_out(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        match step {
            Step::Finalize => {
                let seen = s.claim.head.finalizers();
                let written = self.writer.add_finalizer(&s.target(), &seen, &s.version, CLAIM_FINALIZER).await?;
                if let Some(version) = written {
                    self.world.claims.wrote(&s.key, &version);
                }
                Ok(Flow::Next)
            }
            Step::Make { index } => self.make(s, index).await,
            Step::Drop { data, uid } => {
                let target = Target { kind: self.world.datas.kind(), key: data, uid };
                self.writer.delete(&target, None).await?;
                Ok(Flow::Next)
            }
            Step::Unfinalize => self.unfinalize(s).await,
        }
    }

    async fn make(&self, s: &Snapshot, index: i32) -> Result<Flow, Error> {
        let kind = self.world.datas.kind();
        let Some(body) = body(&kind, s, index) else { return Ok(Flow::Wait(None)) };
        let key = beside(&s.key, body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default());
        match self.writer.create(&kind, s.key.namespace(), &body).await? {
            Created::New(version) => self.world.datas.wrote(&key, &version),
            Created::Existing(found) => {
                let found: raw::Metal3Data = serde_json::from_value(found).unwrap_or_default();
                let version = Version::of(&found);
                self.world.datas.wrote(&key, &version);
                let facts = DataFacts::of(found);
                if !facts.belongs_to(s.key.name(), &s.claim.head.uid) {
                    // Somebody was quicker; the index shows it, and another number is chosen.
                    return Err(Error::Taken(key));
                }
            }
        }
        Ok(Flow::Next)
    }

    /// Data has the name that the status says, or none was made: so one look is enough.
    async fn unfinalize(&self, s: &Snapshot) -> Result<Flow, Error> {
        if let Some(name) = s.claim.chosen() {
            let key = beside(&s.key, name);
            let namespace = s.key.namespace().unwrap_or_default();
            let api: Api<raw::Metal3Data> = Api::namespaced(self.writer.client().clone(), namespace);
            let found = api.get_opt(name).await.map_err(|source| Error::read(DATA_KIND, &key, source))?;
            if let Some(found) = found {
                let version = Version::of(&found);
                if DataFacts::of(found).belongs_to(s.key.name(), &s.claim.head.uid) {
                    // The index does not show it yet.
                    self.world.datas.wrote(&key, &version);
                    return Err(Error::Behind);
                }
            }
        }
        let seen = s.claim.head.finalizers();
        if let Some(version) = self.writer.remove_finalizer(&s.target(), &seen, CLAIM_FINALIZER).await? {
            self.world.claims.wrote(&s.key, &version);
        }
        Ok(Flow::Next)
    }
}

/// The data with this number: owned by its template, its claim and its machine, so that a move takes it along with any.
fn body(kind: &Kind, s: &Snapshot, index: i32) -> Option<Value> {
    let (template, machine) = (s.template.as_ref()?, s.claim.machine.as_ref()?);
    let (name, namespace) = (s.claim.template.as_deref()?, s.key.namespace().unwrap_or_default());
    let version = kind.api_version();
    let owner =
        |kind: &str, name: &str, uid: &str| json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid});
    let mut first = owner(TEMPLATE_KIND, name, &template.head.uid);
    if let Some(first) = first.as_object_mut() {
        first.insert("controller".to_owned(), json!(true));
    }
    let owners =
        [first, owner(CLAIM_KIND, s.key.name(), &s.claim.head.uid), owner(MACHINE_KIND, &machine.name, &machine.uid)];
    Some(json!({
        "apiVersion": version, "kind": kind.kind,
        "metadata": {
            "name": data(name, index), "namespace": namespace, "labels": s.claim.labels,
            "finalizers": [DATA_FINALIZER], "ownerReferences": owners,
        },
        "spec": {
            "index": index,
            "template": {"name": name, "namespace": namespace},
            "claim": {"name": s.key.name(), "namespace": namespace},
        },
    }))
}
