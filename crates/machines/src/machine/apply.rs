//! Carries out steps.

use api::key::ObjectKey;
use api::meta::Versioned;
use api::names::CLUSTER_NAME_LABEL;
use api::names::machines::{HOST_CLAIM_ANNOTATION, MACHINE_FINALIZER};
use api::own::HostClaimSpec;
use api::own::metal3::NamedRef;
use api::raw;
use api::reasons::machines::Reason;
use k8s_openapi::api::core::v1::Node;
use kit::doors::Closed;
use kit::feed::Version;
use kit::kinds::Kind;
use kit::room::{Flow, Room};
use kit::write::{Created, Offered, Target, Writer};
use kube::Api;
use serde_json::{Map, Value, json};

use super::decide::Step;
use super::room::{Error, Keeper, read};
use super::snapshot::{Refused, Snapshot, Wish};
use crate::facts::{ClaimFacts, MachineFacts};
use crate::node::NodeFacts;

/// The machine as an owner of what is made for it: a move follows this, and what is left goes with the machine.
fn owner(s: &Snapshot) -> Value {
    json!({
        "apiVersion": s.target.kind.api_version(), "kind": s.target.kind.kind, "name": s.key.name(),
        "uid": s.machine.uid, "controller": true, "blockOwnerDeletion": true,
    })
}

fn is_ours(s: &Snapshot, found: &Value) -> bool {
    let owners = found.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| owner.get("uid").and_then(Value::as_str) == Some(&*s.machine.uid))
}

impl Keeper {
    /// Carries out one step.
    pub(super) async fn carry_out(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        match step {
            Step::Secure => self.secure(s).await,
            Step::Claim { spec } => self.claim(s, &spec).await,
            Step::Adopt => {
                let mut owners: Vec<Value> = Vec::new();
                if let Some((claim, _)) = &s.claim {
                    owners.extend(claim.owners.iter().filter_map(|owner| serde_json::to_value(owner).ok()));
                }
                owners.push(owner(s));
                self.change_claim(s, json!({"metadata": {"ownerReferences": owners}})).await
            }
            Step::AskData { template } => self.ask_data(s, template).await,
            Step::Fill { wish } => self.fill(s, *wish).await,
            Step::Publish { provider_id } => self.change(s, json!({"spec": {"providerID": provider_id}})).await,
            Step::NameNode { node, provider_id } => {
                let body = json!({"spec": {"providerID": provider_id}});
                self.change_node(s, NodeFacts { provider_id: Some(provider_id), ..node }, body).await
            }
            Step::Label { mut node, changes } => {
                let body = json!({"metadata": {"labels": changes}});
                let keys: Vec<&str> = changes.keys().map(String::as_str).collect();
                let text = format!("Node {}: {}.", node.name, keys.join(", "));
                for (key, value) in &changes {
                    match value {
                        Some(value) => drop(node.labels.insert(key.clone(), value.clone())),
                        None => drop(node.labels.remove(key)),
                    }
                }
                let flow = self.change_node(s, node, body).await?;
                self.events.say(&s.target, false, Reason::NodeLabelsSynchronized.as_str(), &text).await;
                Ok(flow)
            }
            Step::Regroup { group } => self.change_claim(s, json!({"spec": {"nodeReuse": group}})).await,
            Step::Release => {
                let (target, _) = self.claim_target(s)?;
                self.writer.delete(&target, None).await?;
                tracing::info!(
                    object = %s.key, uid = %s.machine.uid, cluster = s.cluster_name().unwrap_or_default(),
                    claim = %target.key, claim_uid = %target.uid,
                    reason = "the machine is deleted", proof = ?s.claimed().map(|(_, whose)| whose),
                    "the claim is given back"
                );
                let text = format!("HostClaim {} is being given back.", s.key.name());
                self.events.say(&s.target, false, Reason::HostClaimReleased.as_str(), &text).await;
                Ok(Flow::Wait(None))
            }
            Step::ReleaseData => {
                let wish = s.own_data_claim().ok_or(Error::Moved)?;
                let kind = self.world.data_claims.kind();
                self.writer.delete(&Target { kind, key: s.key.clone(), uid: wish.uid.clone() }, None).await?;
                tracing::info!(
                    object = %s.key, uid = %s.machine.uid, cluster = s.cluster_name().unwrap_or_default(),
                    data_claim_uid = %wish.uid, reason = "the machine is deleted", "the data is given back"
                );
                Ok(Flow::Wait(None))
            }
            Step::Conclude => self.conclude(s).await,
            Step::Wait { until } => Ok(Flow::Wait(until)),
        }
    }

    /// Stores the finalizer and the intent in one write, on the version that was decided on. The claim follows in the same pass:
    /// that the write was taken says as much about the machine as another look would.
    async fn secure(&self, s: &Snapshot) -> Result<Flow, Error> {
        let mut metadata = Map::new();
        if !s.machine.has_finalizer() {
            let held = s.machine.finalizers.iter().map(String::as_str).chain([MACHINE_FINALIZER]);
            metadata.insert("finalizers".to_owned(), held.collect());
        }
        if !s.is_noted() {
            metadata.insert("annotations".to_owned(), json!({HOST_CLAIM_ANNOTATION: s.key.to_string()}));
        }
        let flow = self.change(s, json!({ "metadata": metadata })).await?;
        Ok(if s.claim.is_none() { Flow::Next } else { flow })
    }

    /// Changes the machine, unless it has moved on; whoever decides next sees what was written.
    async fn change(&self, s: &Snapshot, body: Value) -> Result<Flow, Error> {
        let version = self.writer.merge(&s.target, body, Some(&s.version)).await?;
        self.world.machines.wrote(&s.key, &version);
        Ok(Flow::Again)
    }

    fn claim_target(&self, s: &Snapshot) -> Result<(Target, Version), Error> {
        let (claim, version) = s.claim.as_ref().ok_or(Error::Moved)?;
        let target = Target { kind: self.world.claims.kind(), key: s.key.clone(), uid: claim.uid.clone() };
        Ok((target, version.clone()))
    }

    async fn change_claim(&self, s: &Snapshot, body: Value) -> Result<Flow, Error> {
        let (target, at) = self.claim_target(s)?;
        let version = self.writer.merge(&target, body, Some(&at)).await?;
        self.world.claims.wrote(&s.key, &version);
        Ok(Flow::Again)
    }

    /// Whether the machine is still there and wanted, as the server has it now: what is made for one that goes would be
    /// left behind.
    async fn unchanged(&self, s: &Snapshot) -> Result<(), Error> {
        let resource = s.target.kind.resource();
        let api: Api<Versioned<raw::Metal3Machine>> =
            Api::namespaced_with(self.writer.client().clone(), s.namespace(), &resource);
        let found = api.get_opt(s.key.name()).await.map_err(read(|| format!("Metal3Machine {}", s.key)))?;
        let live = found.map(|Versioned(machine)| MachineFacts::of(machine)).ok_or(Error::Moved)?;
        let same = live.uid == s.machine.uid && !live.deleting && live.has_finalizer();
        let rests = live.annotations.contains_key(api::names::PAUSED_ANNOTATION);
        if same && !rests { Ok(()) } else { Err(Error::Moved) }
    }

    fn metadata(s: &Snapshot) -> Value {
        let labels = s.cluster_name().map(|name| json!({CLUSTER_NAME_LABEL: name})).unwrap_or_else(|| json!({}));
        json!({"name": s.key.name(), "namespace": s.namespace(), "labels": labels, "ownerReferences": [owner(s)]})
    }

    /// Makes an object of the machine's name and says whether it is new; one that is there already must be the machine's.
    async fn make(&self, s: &Snapshot, kind: &Kind, spec: Value) -> Result<(Version, bool), Error> {
        // What was not secured when this pass began has just been, on the version that was decided on.
        if s.is_secured() {
            self.unchanged(s).await?;
        }
        let body = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": Self::metadata(s), "spec": spec,
        });
        match self.writer.create(kind, Some(s.namespace()), &body).await? {
            Created::New(version) => Ok((version, true)),
            // The answer to an earlier attempt was lost, and the index has not shown it yet.
            Created::Existing(found) if is_ours(s, &found) => {
                let text = |at: &str| found.pointer(at).and_then(Value::as_str).unwrap_or_default().into();
                let version =
                    Version { uid: text("/metadata/uid"), resource_version: text("/metadata/resourceVersion") };
                Ok((version, false))
            }
            // The index will show whose it is.
            Created::Existing(_) => Err(Error::Moved),
        }
    }

    async fn claim(&self, s: &Snapshot, spec: &HostClaimSpec) -> Result<Flow, Error> {
        let spec = serde_json::to_value(spec).unwrap_or_default();
        let (version, new) = self.make(s, &self.world.claims.kind(), spec).await?;
        self.world.claims.wrote(&s.key, &version);
        self.asked(s);
        if new {
            let text = format!("HostClaim {} was made.", s.key.name());
            self.events.say(&s.target, false, Reason::HostClaimCreated.as_str(), &text).await;
        }
        Ok(Flow::Again)
    }

    async fn ask_data(&self, s: &Snapshot, template: NamedRef) -> Result<Flow, Error> {
        let namespace = template.namespace.filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or_else(|| s.namespace().to_owned());
        let spec = json!({"template": {"name": template.name, "namespace": namespace}});
        let (version, _) = self.make(s, &self.world.data_claims.kind(), spec).await?;
        self.world.data_claims.wrote(&s.key, &version);
        self.asked(s);
        Ok(Flow::Again)
    }

    /// The machine begins to wait for what it has just asked for.
    fn asked(&self, s: &Snapshot) {
        self.remember(&s.key, |memory| memory.asked = Some(s.now));
    }

    /// Offers the claim what the machine is to run. Whoever changed one of the fields keeps it, and is named.
    ///
    /// As long as nobody changed anything there is nobody to ask, and no need to be refused first: what we wrote when we made
    /// the claim counts as another manager's, because it was no apply.
    async fn fill(&self, s: &Snapshot, wish: Wish) -> Result<Flow, Error> {
        let (target, at) = self.claim_target(s)?;
        let body = json!({
            "apiVersion": target.kind.api_version(),
            "kind": target.kind.kind,
            "metadata": {"name": s.key.name(), "namespace": s.namespace(), "resourceVersion": at.resource_version},
            "spec": {
                "poweredOn": true,
                "image": wish.image,
                "customDeploy": wish.custom_deploy,
                "userData": wish.user_data,
                "metaData": wish.meta_data,
                "networkData": wish.network_data,
            },
        });
        let untouched = s.own_claim().is_some_and(ClaimFacts::is_untouched);
        let offered = match untouched {
            true => self.writer.apply(&target, body).await.map(Offered::Taken),
            false => self.writer.offer(&target, body, &at).await,
        };
        match offered {
            Ok(Offered::Taken(version)) => {
                self.world.claims.wrote(&s.key, &version);
                self.remember(&s.key, |memory| memory.refused = None);
                self.asked(s);
                Ok(Flow::Again)
            }
            Ok(Offered::Theirs(lines)) => {
                self.remember(&s.key, |memory| memory.refused = Some(Refused { at, wish, lines }));
                Ok(Flow::Wait(None))
            }
            Err(error) => Err(Error::Fill(error)),
        }
    }

    /// Changes a Node; `after` is what it is then, still at the version it was seen at.
    async fn change_node(&self, s: &Snapshot, after: NodeFacts, body: Value) -> Result<Flow, Error> {
        let cluster = ObjectKey::namespaced(s.namespace(), s.cluster_name().ok_or(Error::Moved)?);
        let client = match self.enter(&cluster).await? {
            Ok(client) => client,
            Err(Closed::NoKubeconfig | Closed::Unusable(_)) => return Err(Error::Closed),
        };
        let writer = Writer::new(client, Self::NAME);
        let target = Target {
            kind: Kind::of::<Node>(),
            key: ObjectKey::cluster_scoped(after.name.as_str()),
            uid: after.uid.as_str().into(),
        };
        let at = Version { uid: after.uid.as_str().into(), resource_version: after.version.as_str().into() };
        // A kubelet writes its Node's status all the time, and the fields here are nobody else's; but a provider id is
        // set once, so whoever set one meanwhile must be seen first.
        match writer.merge(&target, body, Some(&at)).await {
            Ok(version) => {
                self.remember(&s.key, |memory| memory.node = Some(after.name.clone()));
                self.sights.wrote(&cluster, NodeFacts { version: version.resource_version.into(), ..after });
                Ok(Flow::Again)
            }
            Err(error) => {
                self.sights.doubt(&cluster, &after.name);
                Err(Error::Node(error))
            }
        }
    }

    /// Lets the machine go, after a look at the server: an index that lags must not leave a host behind.
    async fn conclude(&self, s: &Snapshot) -> Result<Flow, Error> {
        if !s.is_moved() {
            for kind in [self.world.claims.kind(), self.world.data_claims.kind()] {
                let api: Api<kube::core::DynamicObject> =
                    Api::namespaced_with(self.writer.client().clone(), s.namespace(), &kind.resource());
                let found = api.get_opt(s.key.name()).await;
                let found = match found {
                    // A kind that is not served has no objects.
                    Err(kube::Error::Api(status)) if status.code == 404 => None,
                    other => other.map_err(read(|| format!("{} {}", kind.kind, s.key)))?,
                };
                let owners = found.and_then(|found| found.metadata.owner_references).unwrap_or_default();
                if owners.iter().any(|owner| owner.uid == *s.machine.uid) {
                    return Err(Error::Behind);
                }
            }
        }
        let seen = &s.machine.finalizers;
        if let Some(version) = self.writer.remove_finalizer(&s.target, seen, MACHINE_FINALIZER).await? {
            self.world.machines.wrote(&s.key, &version);
        }
        self.forget(&s.key);
        Ok(Flow::Next)
    }
}
