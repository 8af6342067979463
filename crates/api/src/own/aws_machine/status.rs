//! What became of an AWSMachine.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::{HostAddress, schema};
use crate::reasons::hosts::Reason;

/// How the instance and its dedicated host are doing.
///
/// All of it can be found again from metadata and EC2: moving a machine to another cluster does not bring it along.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AWSMachineStatus {
    /// The generation of the spec this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// Whether the instance is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,

    /// What was reached once and is never taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "MachineInitialization::json_schema")]
    pub initialization: Option<MachineInitialization>,

    /// The zone the instance runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub failure_domain: Option<String>,

    /// The addresses of the instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<HostAddress>,

    /// The state of the instance: pending, running, stopping, stopped, shutting-down or terminated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub instance_state: Option<String>,

    /// Whether the instance can be taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptible: Option<bool>,

    /// Why the machine can never become ready, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub failure_reason: Option<String>,

    /// Why the machine can never become ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10240))]
    pub failure_message: Option<String>,

    /// The aspects of the state of the machine, by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "lenient", serialize_with = "graded")]
    #[schemars(schema_with = "schema::machine_conditions")]
    pub conditions: Vec<Condition>,

    /// The dedicated host the instance is on or will be launched on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "DedicatedHost::json_schema")]
    pub dedicated_host: Option<DedicatedHost>,

    /// The id of that host once more.
    #[serde(default, rename = "allocatedHostID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub allocated_host_id: Option<String>,
}

/// What was reached once and is never taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineInitialization {
    /// Whether the instance has run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// A dedicated host as EC2 shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DedicatedHost {
    /// The id of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub id: Option<String>,

    /// The zone of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub availability_zone: Option<String>,

    /// The family whose types it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub instance_family: Option<String>,

    /// The only type it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub instance_type: Option<String>,

    /// Its state, such as available, pending or under-assessment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub state: Option<String>,

    /// When it was allocated, which is when it began to cost money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub allocation_time: Option<Time>,

    /// The earliest time at which it can be released, where EC2 demands one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub releasable_after: Option<Time>,

    /// Whether other machines may run on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,

    /// Every host that this machine owns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub hosts: Vec<OwnedHost>,
}

/// A host that a machine owns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnedHost {
    /// The id of the host.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,

    /// Its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub state: Option<String>,
}

/// A condition as any controller may have stored it: the older contract demands neither a reason nor a message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    last_transition_time: Time,
    observed_generation: Option<i64>,
}

impl From<Stored> for Condition {
    fn from(stored: Stored) -> Self {
        Self {
            type_: stored.type_,
            status: stored.status,
            reason: stored.reason,
            message: stored.message,
            last_transition_time: stored.last_transition_time,
            observed_generation: stored.observed_generation,
        }
    }
}

pub(in crate::own) fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    let stored = Option::<Vec<Stored>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(stored.into_iter().map(Condition::from).collect())
}

/// A condition with the severity that the older contract of Cluster API reads.
#[derive(Serialize)]
struct Graded<'a> {
    #[serde(flatten)]
    condition: &'a Condition,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
}

/// How bad it is that a condition does not hold. One that holds, or that nobody knows, has no severity.
fn severity(condition: &Condition) -> Option<&'static str> {
    let reason = Reason::ALL.iter().find(|reason| reason.as_str() == condition.reason);
    let reason = reason.filter(|_| condition.status == "False")?;
    Some(match reason {
        // Only a person can help, or what was asked for is lost.
        Reason::InstanceProvisionFailed
        | Reason::InstanceStopped
        | Reason::InstanceTerminated
        | Reason::HostAllocationDenied
        | Reason::HostAllocationFailed
        | Reason::HostPermanentFailure
        | Reason::HostLost
        | Reason::HostMismatch
        | Reason::DedicatedHostReleaseFailed
        | Reason::SecurityGroupsSyncFailed
        | Reason::InvalidSpec => "Error",
        // It may pass by itself, and costs time or money meanwhile.
        Reason::InstanceNotReady
        | Reason::DeletingFailed
        | Reason::HostQuotaExceeded
        | Reason::HostCapacityUnavailable
        | Reason::HostUnderAssessment
        | Reason::HostReserved => "Warning",
        // A step on the way.
        _ => "Info",
    })
}

fn graded<S: Serializer>(conditions: &[Condition], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(conditions.iter().map(|condition| Graded { condition, severity: severity(condition) }))
}

crate::conditioned!(AWSMachineStatus);
