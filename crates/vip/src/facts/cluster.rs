//! Clusters.

use std::collections::BTreeMap;

use api::key::ObjectKey;
use api::names::WATCH_FILTER_LABEL;
use api::reasons::PAUSED;
use api::status::Conditioned;
use api::views::{Cluster, ConditionView, Endpoint, ObjectRef};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kit::feed::Project;
use kit::room::Stand;
use serde::Serialize;

use super::{address, ours};
use crate::names::{INGRESS_VIP, Slot};

/// Condition type: the control plane's address is there.
pub const CONTROL_PLANE_VIP_READY: &str = "ControlPlaneVIPReady";
/// Condition type: the ingress's address is there.
pub const INGRESS_VIP_READY: &str = "IngressVIPReady";

/// Clusters, with an index of the addresses they use.
pub struct Clusters;

/// A Cluster, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it must be left alone.
    pub paused: bool,
    /// The class of its topology.
    pub class: Option<ObjectKey>,
    /// Whether Cluster API has begun to make objects of the topology.
    pub rendered: bool,
    /// The infrastructure cluster.
    pub infrastructure: Option<ObjectRef>,
    /// Where its API server is, or will be, reached.
    pub endpoint: Endpoint,
    /// Its annotations, those of this capability only.
    pub annotations: BTreeMap<String, String>,
    /// Its label with the ingress address.
    pub ingress_label: Option<String>,
    /// Its label that tells controllers apart.
    pub watch_filter: Option<String>,
    /// Topology variables of this capability that are set, with their text.
    pub variables: BTreeMap<Slot, String>,
    /// The conditions of this capability, as stored.
    pub stored: VipStatus,
}

/// The part of a Cluster's status that is ours: two conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VipStatus {
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// Whether they stand in `status.v1beta2`, as on servers that know only the older API.
    pub older: bool,
}

impl Conditioned for VipStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
    /// The field is the owner's: each of our conditions carries the generation itself.
    fn set_observed_generation(&mut self, _: i64) {}
}

impl Serialize for VipStatus {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Status<'a> {
            conditions: &'a [Condition],
        }
        let status = Status { conditions: &self.conditions };
        if self.older {
            #[derive(Serialize)]
            struct Older<'a> {
                v1beta2: Status<'a>,
            }
            return Older { v1beta2: status }.serialize(serializer);
        }
        status.serialize(serializer)
    }
}

impl ClusterFacts {
    /// The facts of a Cluster as received from a feed, a live read or a hook.
    #[must_use]
    pub fn of(cluster: Cluster) -> Self {
        let (paused, class) = (cluster.is_paused(), cluster.class());
        let Cluster { metadata, spec, status } = cluster;
        let mut labels = metadata.labels.unwrap_or_default();
        let variables = spec.topology.as_ref().map(|topology| {
            // Cluster API puts a default back where a variable is missing: an empty text says nothing.
            let value = |slot: Slot| topology.variable(slot.variable())?.as_str().filter(|text| !text.is_empty());
            let text = |slot: Slot| Some((slot, value(slot)?.to_owned()));
            Slot::ALL.into_iter().filter_map(text).collect()
        });
        let condition = |c: &ConditionView| [CONTROL_PLANE_VIP_READY, INGRESS_VIP_READY].contains(&c.type_.as_str());
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            paused,
            class,
            rendered: spec.infrastructure_ref.is_some() || spec.control_plane_ref.is_some(),
            infrastructure: spec.infrastructure_ref,
            endpoint: spec.control_plane_endpoint,
            annotations: ours(metadata.annotations),
            ingress_label: labels.remove(INGRESS_VIP),
            watch_filter: labels.remove(WATCH_FILTER_LABEL),
            variables: variables.unwrap_or_default(),
            stored: VipStatus {
                conditions: status.conditions.current.iter().filter(|c| condition(c)).map(stored).collect(),
                older: false,
            },
        }
    }

    /// The value of one of our annotations.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// How it stands with its addresses; none where nobody has said anything of them, or it is on its way out.
    #[must_use]
    pub fn stand(&self) -> Option<Stand> {
        let said = &self.stored.conditions;
        let failing = said.iter().find(|condition| condition.status != "True");
        if said.is_empty() || self.deleting {
            return None;
        }
        let waiting = |condition: &Condition| {
            // A pause explains everything.
            let because = if self.paused { PAUSED } else { &condition.reason };
            Stand::waiting(because, condition.last_transition_time.0)
        };
        Some(failing.map_or_else(Stand::ready, waiting))
    }

    /// The address this Cluster uses: nobody else may have it. What annotations show is not counted, because anybody who
    /// may write a Cluster may write them; claims prove the rest.
    #[must_use]
    pub fn address(&self) -> Option<std::net::IpAddr> {
        address(&self.endpoint.host)
    }
}

/// A condition as it was read, in the form it is written; times that are missing or strange read as the oldest time.
fn stored(view: &ConditionView) -> Condition {
    Condition {
        type_: view.type_.clone(),
        status: view.status.clone(),
        reason: view.reason.clone(),
        message: view.message.clone(),
        last_transition_time: view.last_transition_time.clone().unwrap_or(Time(Timestamp::UNIX_EPOCH)),
        observed_generation: view.observed_generation,
    }
}

impl Project for Clusters {
    type Source = Cluster;
    type Slim = ClusterFacts;
    const INDEXES: &'static [&'static str] = &["address", "class", "open", "late"];

    fn slim(source: Cluster) -> ClusterFacts {
        ClusterFacts::of(source)
    }

    fn keys(index: usize, _: &ObjectKey, cluster: &ClusterFacts) -> Vec<Box<str>> {
        match index {
            0 => cluster.address().map(|address| address.to_string().into()).into_iter().collect(),
            1 => cluster.class.iter().map(|class| class.to_string().into()).collect(),
            _ if cluster.deleting => Vec::new(),
            // Clusters that wait for an address, so that a change of a pool can wake them.
            2 if cluster.endpoint.is_valid() => Vec::new(),
            // Clusters that go on without an ingress address.
            3 if !cluster.endpoint.is_valid() || cluster.annotation(INGRESS_VIP).is_some() => Vec::new(),
            _ => vec!["".into()],
        }
    }
}
