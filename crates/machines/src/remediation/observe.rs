//! Gathers one treatment: from the indexes, and from the workload cluster as far as the next decision depends on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kit::doors::Closed;
use kit::feed::{Seen, Version};
use kit::kinds::Kind;
use kit::write::Target;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::Value;

use super::apply::Error;
use super::decide::{asks_for_node, is_tainted};
use super::facts::{PatientFacts, PowerFacts, RemediationFacts};
use super::names::OUT_OF_SERVICE_SINCE;
use super::{Remedies, Treat};
use crate::data::facts::MetalMachineFacts;
use crate::data::names::beside;
use crate::node::{self, Lost};

/// How long a workload cluster may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A Node, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// The workload cluster's unique id of it.
    pub uid: Box<str>,
    /// Its version.
    pub version: Box<str>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its taints, as they came.
    pub taints: Vec<Value>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether pods are still leaving it, or volumes are still attached to it.
    pub busy: bool,
}

/// What is seen of the Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// Nobody looked, because nothing depends on it.
    #[default]
    NotAsked,
    /// There is none.
    None,
    /// It is there.
    There(Box<NodeState>),
    /// We may not see Nodes.
    Forbidden,
    /// The cluster cannot be asked, and why.
    Dark(String),
}

/// One treatment at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where it is.
    pub key: ObjectKey,
    /// When this was read.
    pub now: Timestamp,
    /// The kind, as it is served.
    pub kind: Kind,
    /// The treatment.
    pub remediation: Arc<RemediationFacts>,
    /// The version that was read.
    pub version: Version,
    /// The Machine that is ill.
    pub patient: Option<Arc<PatientFacts>>,
    /// The Machine, to write to.
    pub patient_target: Option<Target>,
    /// Its claim, and the version that was read.
    pub claim: Option<(Arc<PowerFacts>, Version)>,
    /// The claim, to write to.
    pub claim_target: Option<Target>,
    /// Its Node.
    pub node: Sight,
    /// Whether the Node is taken out of service instead of deleted.
    pub taints: bool,
    /// Whether it must be left alone.
    pub paused: bool,
}

impl Snapshot {
    /// The treatment, to write to.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { kind: self.kind.clone(), key: self.key.clone(), uid: self.remediation.head.uid.clone() }
    }

    /// Which claim it is about, for the log.
    #[must_use]
    pub fn claim_name(&self) -> String {
        self.claim_target.as_ref().map(|target| target.key.to_string()).unwrap_or_default()
    }

    /// Which Machine is ill, for the log.
    #[must_use]
    pub fn patient_name(&self) -> String {
        self.patient_target.as_ref().map(|target| target.key.to_string()).unwrap_or_default()
    }

    /// The cluster of the machine.
    #[must_use]
    pub fn cluster(&self) -> Option<ObjectKey> {
        self.patient.as_ref().and_then(|patient| patient.cluster.as_deref()).map(|name| beside(&self.key, name))
    }
}

fn at<S>(seen: Seen<S>) -> Result<Option<Arc<S>>, Error> {
    match seen {
        Seen::At(found) => Ok(Some(found)),
        Seen::Absent => Ok(None),
        Seen::Behind => Err(Error::Behind),
    }
}

impl Remedies {
    /// Gathers the snapshot of a treatment; `None` when it is gone or not ours.
    pub(super) async fn gather(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let world = &self.world;
        let Some(remediation) = at(world.remediations.get(key))? else { return Ok(None) };
        let Some(version) = world.remediations.version(key, &remediation) else { return Err(Error::Behind) };
        let place = remediation.machine.as_ref().map(|owner| beside(key, &owner.name));
        let patient = match (&place, &remediation.machine) {
            // Another Machine of the same name is not the one that is ill.
            (Some(place), Some(owner)) => at(world.patients.get(place))?.filter(|patient| patient.uid == owner.uid),
            _ => None,
        };
        let metal = patient.as_ref().and_then(|patient| patient.metal.as_deref()).map(|name| beside(key, name));
        let machine: Option<Arc<MetalMachineFacts>> = match &metal {
            Some(metal) => at(world.metal.get(metal))?,
            None => None,
        };
        let ours = machine.as_ref().is_some_and(|machine| machine.is_ours(&world.config));
        if !ours && !remediation.is_kept() {
            return Ok(None);
        }
        let claim = match (&metal, &machine) {
            (Some(metal), Some(machine)) => {
                let found = at(world.powers.get(metal))?.filter(|claim| claim.machine.as_ref() == Some(&machine.uid));
                match found {
                    Some(claim) => {
                        let version = world.powers.version(metal, &claim).ok_or(Error::Behind)?;
                        Some((claim, version))
                    }
                    None => None,
                }
            }
            _ => None,
        };
        let claim_target = claim.as_ref().zip(metal).map(|((claim, _), key)| Target {
            kind: world.powers.kind(),
            key,
            uid: claim.uid.clone(),
        });
        let patient_target = patient.as_ref().zip(place).map(|(patient, key)| Target {
            kind: world.patients.kind(),
            key,
            uid: patient.uid.clone(),
        });
        let cluster = patient.as_ref().and_then(|patient| patient.cluster.as_deref());
        let cluster = cluster.or(remediation.head.cluster.as_deref()).map(|name| beside(key, name));
        let paused = match &cluster {
            Some(cluster) => at(world.clusters.get(cluster))?.is_some_and(|cluster| cluster.paused),
            None => false,
        };
        let mut snapshot = Snapshot {
            key: key.clone(),
            now,
            kind: world.remediations.kind(),
            paused: paused || remediation.head.paused,
            remediation,
            version,
            patient,
            patient_target,
            claim,
            claim_target,
            node: Sight::NotAsked,
            taints: false,
        };
        if asks_for_node(&snapshot) {
            (snapshot.node, snapshot.taints) = self.look(&snapshot).await?;
        }
        Ok(Some(snapshot))
    }

    pub(super) async fn enter(&self, s: &Snapshot) -> Result<Result<Client, String>, Error> {
        let Some(cluster) = s.cluster() else {
            return Ok(Err("The Machine names no cluster; correct its spec.clusterName.".to_owned()));
        };
        let entered = self.ways.enter(&cluster).await.map_err(|lost| match lost {
            Lost::Behind => Error::Behind,
            Lost::Read(source) => Error::Read { what: "kubeconfig", source },
        })?;
        Ok(match entered {
            Ok(client) => Ok(client),
            Err(Closed::NoKubeconfig) => Err(node::CLOSED.to_owned()),
            Err(Closed::Unusable(why)) => Err(why),
        })
    }

    async fn look(&self, s: &Snapshot) -> Result<(Sight, bool), Error> {
        let Some(name) = s.patient.as_ref().and_then(|patient| patient.node.clone()) else {
            return Ok((Sight::None, false));
        };
        let client = match self.enter(s).await? {
            Ok(client) => client,
            Err(why) => return Ok((Sight::Dark(why), false)),
        };
        let looked = tokio::time::timeout(ANSWER, self.ask(&client, &name)).await;
        Ok(match looked {
            Ok(Ok(seen)) => seen,
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => (Sight::Forbidden, false),
            Ok(Err(kube::Error::Api(status))) => {
                (Sight::Dark(format!("The workload cluster answers: {} ({}).", status.message, status.code)), false)
            }
            // Without its address: what stands in a condition is read by others too.
            Ok(Err(_)) | Err(_) => (Sight::Dark(node::SILENT.to_owned()), false),
        })
    }

    async fn ask(&self, client: &Client, name: &str) -> Result<(Sight, bool), kube::Error> {
        // Only as objects of any kind: reading every field of Nodes, pods and volumes is code that nobody here needs.
        let nodes: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<Node>(&()));
        let Some(node) = nodes.get_opt(name).await? else { return Ok((Sight::None, false)) };
        let taints = match self.treat {
            Treat::Taint => true,
            Treat::Delete => false,
            Treat::Auto => {
                let version = client.apiserver_version().await?;
                let number = |text: &str| text.trim_end_matches('+').parse::<u32>().unwrap_or_default();
                (number(&version.major), number(&version.minor)) >= (1, OUT_OF_SERVICE_SINCE)
            }
        };
        let mut state = NodeState {
            name: name.to_owned(),
            uid: node.metadata.uid.unwrap_or_default().into(),
            version: node.metadata.resource_version.unwrap_or_default().into(),
            labels: node.metadata.labels.unwrap_or_default(),
            annotations: node.metadata.annotations.unwrap_or_default(),
            taints: node.data.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default(),
            deleting: node.metadata.deletion_timestamp.is_some(),
            busy: false,
        };
        if taints && is_tainted(&state) {
            state.busy = is_busy(client, name).await?;
        }
        Ok((Sight::There(Box::new(state)), taints))
    }
}

/// Whether pods are still leaving a Node, or volumes are still attached to it.
async fn is_busy(client: &Client, node: &str) -> Result<bool, kube::Error> {
    let pods: Api<Pod> = Api::all(client.clone());
    let here = pods.list_metadata(&ListParams::default().fields(&format!("spec.nodeName={node}"))).await?;
    if here.items.iter().any(|pod| pod.metadata.deletion_timestamp.is_some()) {
        return Ok(true);
    }
    let volumes: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<VolumeAttachment>(&()));
    let all = volumes.list(&ListParams::default()).await?;
    let attached_to =
        |volume: &DynamicObject| volume.data.pointer("/spec/nodeName").and_then(Value::as_str) == Some(node);
    Ok(all.items.iter().any(attached_to))
}
