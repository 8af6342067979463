//! Carries out the steps for data.

use api::key::ObjectKey;
use api::names::CLUSTER_NAME_LABEL;
use api::names::claims::{ENVIRONMENT_BAREMETAL, ENVIRONMENT_LABEL};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kit::feed::{Phase, Version};
use kit::kinds::Kind;
use kit::room::Flow;
use kit::write::{Created, Target};
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Map, Value, json};

use super::super::error::Error;
use super::super::facts::{labels_with, lease_selector};
use super::super::names::{DATA_FINALIZER, DATA_KIND, DATA_UID_LABEL, beside, lease};
use super::super::pools::PoolKind;
use super::Datas;
use super::decide::{Document, Part, Step};
use super::observe::Snapshot;

/// The type of Secrets that Cluster API moves along.
const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

impl Datas {
    pub(super) async fn carry_out(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        match step {
            Step::Finalize => {
                let seen = s.data.head.finalizers();
                let written = self.writer.add_finalizer(&s.target(), &seen, &s.version, DATA_FINALIZER).await?;
                self.wrote(s, written);
            }
            Step::Refer { meta, network } => {
                let version =
                    self.writer.merge(&s.target(), refer(s, meta.as_deref(), network.as_deref()), None).await?;
                self.wrote(s, Some(version));
            }
            Step::Wish { pool, kind } => self.wish(s, &pool, &kind).await?,
            Step::Write { part, secret, text } => self.store(s, part, &secret, &text).await?,
            Step::Release { kind, lease } => self.release(s, &kind, &lease).await?,
            Step::Unfinalize => {
                self.look(s).await?;
                let seen = s.data.head.finalizers();
                let written = self.writer.remove_finalizer(&s.target(), &seen, DATA_FINALIZER).await?;
                self.wrote(s, written);
            }
        }
        Ok(Flow::Next)
    }

    fn wrote(&self, s: &Snapshot, written: Option<Version>) {
        if let Some(version) = written {
            self.world.datas.wrote(&s.key, &version);
        }
    }

    async fn wish(&self, s: &Snapshot, pool: &str, kind: &PoolKind) -> Result<(), Error> {
        let metal = kind.is_metal3();
        let served = if metal { self.world.pool_leases.kind() } else { self.world.leases.kind() };
        let namespace = s.key.namespace().unwrap_or_default();
        let name = lease(s.key.name(), pool);
        let spec = if metal {
            json!({"pool": {"name": pool, "namespace": namespace}})
        } else {
            let mut spec = json!({"poolRef": {"apiGroup": kind.group, "kind": kind.kind, "name": pool}});
            // A provider looks at a wish of a cluster only when it knows which, and the oldest version has no such field.
            if let (Some(cluster), Some(spec)) = (&s.data.head.cluster, spec.as_object_mut())
                && served.version != "v1alpha1"
            {
                spec.insert("clusterName".to_owned(), json!(cluster));
            }
            spec
        };
        let body = json!({
            "apiVersion": served.api_version(), "kind": served.kind,
            "metadata": {
                "name": name, "namespace": namespace, "finalizers": [DATA_FINALIZER],
                "labels": labels_with(&s.data.labels, DATA_UID_LABEL, &s.data.head.uid),
                "ownerReferences": [owner(s)],
            },
            "spec": spec,
        });
        let key = beside(&s.key, &name);
        let version = match self.writer.create(&served, Some(namespace), &body).await? {
            Created::New(version) => version,
            // Ours from a lost answer, or somebody else's: it is judged once the index shows it.
            Created::Existing(found) => version_of(&found),
        };
        if metal {
            self.world.pool_leases.wrote(&key, &version);
        } else {
            self.world.leases.wrote(&key, &version);
        }
        Ok(())
    }

    /// A Secret that is there already stays as it is: a machine that is deployed again gets the very same data.
    async fn store(&self, s: &Snapshot, part: Part, name: &str, text: &Document) -> Result<(), Error> {
        let kind = Kind::of::<Secret>();
        let namespace = s.key.namespace().unwrap_or_default();
        let mut labels = Map::new();
        labels.insert(ENVIRONMENT_LABEL.to_owned(), json!(ENVIRONMENT_BAREMETAL));
        if let Some(cluster) = &s.data.head.cluster {
            labels.insert(CLUSTER_NAME_LABEL.to_owned(), json!(cluster));
        }
        let body = json!({
            "apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE,
            "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner(s)]},
            "data": {part.key(): STANDARD.encode(&text.0)},
        });
        let key = beside(&s.key, name);
        let version = match self.writer.create(&kind, Some(namespace), &body).await? {
            Created::New(version) => version,
            Created::Existing(found) => version_of(&found),
        };
        self.world.secrets.wrote(&key, &version);
        Ok(())
    }

    async fn release(&self, s: &Snapshot, kind: &Kind, key: &ObjectKey) -> Result<(), Error> {
        let Some(lease) = s.leases.iter().find(|lease| lease.kind == *kind && lease.key == *key) else { return Ok(()) };
        let head = &lease.facts.head;
        let target = Target { kind: kind.clone(), key: key.clone(), uid: head.uid.clone() };
        if !head.deleting {
            self.writer.delete(&target, None).await?;
        }
        self.writer.remove_finalizer(&target, &head.finalizers(), DATA_FINALIZER).await?;
        Ok(())
    }

    /// Asks the server itself whether a wish is left: one that was made a moment before a restart may not be in the index.
    async fn look(&self, s: &Snapshot) -> Result<(), Error> {
        let namespace = s.key.namespace().unwrap_or_default();
        let feeds = [
            (self.world.leases.phase(), self.world.leases.kind()),
            (self.world.pool_leases.phase(), self.world.pool_leases.kind()),
        ];
        let params = ListParams::default().labels(&lease_selector(&s.data.head.uid));
        for (phase, kind) in feeds {
            if phase != Phase::Synced {
                continue;
            }
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.writer.client().clone(), namespace, &kind.resource());
            let found =
                api.list(&params).await.map_err(|source| Error::read("wishes for addresses", &s.key, source))?;
            if !found.items.is_empty() {
                return Err(Error::Behind);
            }
        }
        Ok(())
    }
}

fn owner(s: &Snapshot) -> Value {
    json!({
        "apiVersion": s.kind.api_version(), "kind": DATA_KIND, "name": s.key.name(), "uid": s.data.head.uid,
        "controller": true,
    })
}

fn refer(s: &Snapshot, meta: Option<&str>, network: Option<&str>) -> Value {
    let namespace = s.key.namespace().unwrap_or_default();
    let mut spec = Map::new();
    for (part, name) in [(Part::Meta, meta), (Part::Network, network)] {
        if let Some(name) = name {
            spec.insert(part.key().to_owned(), json!({"name": name, "namespace": namespace}));
        }
    }
    json!({ "spec": spec })
}

fn version_of(object: &Value) -> Version {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().into();
    Version { uid: text("/metadata/uid"), resource_version: text("/metadata/resourceVersion") }
}
