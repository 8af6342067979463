//! `MachineSet` of OpenShift's Machine API, and the `Infrastructure` object that describes the cluster's platform.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::common::ConditionView;
use super::soft::{or_default, soft, soft_structs, text};
use crate::meta::{lean_meta, owned_meta};

/// Group of OpenShift's Machine API.
pub const MACHINE_API_GROUP: &str = "machine.openshift.io";
/// Group of OpenShift's configuration.
pub const CONFIG_GROUP: &str = "config.openshift.io";

/// A number of equal machines, of OpenShift's Machine API.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct MachineSet {
    /// Metadata, with the owners of annotations.
    #[serde(default, deserialize_with = "owned_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: OpenShiftSetSpec,
    /// What is there.
    #[serde(default, deserialize_with = "or_default")]
    pub status: OpenShiftSetStatus,
}

crate::view! { MachineSet, group: MACHINE_API_GROUP, versions: ["v1beta1"], plural: "machinesets", scope: Namespaced }

/// What is wanted of a MachineSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawSpec")]
pub struct OpenShiftSetSpec {
    /// How many machines are wanted.
    pub replicas: Option<i32>,
    /// Labels of the machines.
    pub labels: BTreeMap<String, String>,
    /// Labels of the nodes.
    pub node_labels: BTreeMap<String, String>,
    /// What the provider of the machines is told, exactly as it came.
    pub provider: Value,
}

/// What is there of a MachineSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct OpenShiftSetStatus {
    /// Which API owns the object while it is moved to Cluster API; unknown values are kept.
    #[serde(default, rename = "authoritativeAPI", deserialize_with = "text")]
    pub authoritative_api: Option<String>,
    /// The conditions.
    #[serde(default, deserialize_with = "or_default")]
    pub conditions: Vec<ConditionView>,
}

impl OpenShiftSetStatus {
    /// Whether the condition `Paused` is `True`.
    pub fn is_paused(&self) -> bool {
        self.conditions.iter().any(|c| c.type_ == "Paused" && c.status == "True")
    }
}

/// The platform of an OpenShift cluster; there is one object, called `cluster`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Infrastructure {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is there.
    #[serde(default, deserialize_with = "or_default")]
    pub status: InfrastructureStatus,
}

crate::view! { Infrastructure, group: CONFIG_GROUP, versions: ["v1"], plural: "infrastructures", scope: Cluster }

/// What is known of the platform, as far as it is AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawInfrastructureStatus")]
pub struct InfrastructureStatus {
    /// The region of the cluster.
    pub aws_region: Option<String>,
    /// Where services answer, by their names.
    pub aws_endpoints: Vec<ServiceEndpoint>,
}

/// Where a service of AWS answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ServiceEndpoint {
    /// Name of the service, such as `ec2`.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Its address.
    #[serde(default, deserialize_with = "or_default")]
    pub url: String,
}

#[derive(Default, Deserialize)]
struct RawSpec {
    #[serde(default, deserialize_with = "soft")]
    replicas: Option<i32>,
    #[serde(default, deserialize_with = "or_default")]
    template: RawTemplate,
}

#[derive(Default, Deserialize)]
struct RawTemplate {
    #[serde(default, deserialize_with = "or_default")]
    metadata: RawMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: RawMachine,
}

#[derive(Default, Deserialize)]
struct RawMeta {
    #[serde(default, deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMachine {
    #[serde(default, deserialize_with = "or_default")]
    metadata: RawMeta,
    #[serde(default, deserialize_with = "or_default")]
    provider_spec: RawProvider,
}

#[derive(Default, Deserialize)]
struct RawProvider {
    #[serde(default)]
    value: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawInfrastructureStatus {
    #[serde(default, deserialize_with = "or_default")]
    platform_status: RawPlatform,
}

#[derive(Default, Deserialize)]
struct RawPlatform {
    #[serde(default, deserialize_with = "or_default")]
    aws: RawAws,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAws {
    #[serde(default, deserialize_with = "text")]
    region: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    service_endpoints: Vec<ServiceEndpoint>,
}

soft_structs!(
    OpenShiftSetSpec,
    OpenShiftSetStatus,
    InfrastructureStatus,
    ServiceEndpoint,
    RawTemplate,
    RawMeta,
    RawMachine,
    RawProvider,
    RawPlatform,
    RawAws
);

impl From<RawSpec> for OpenShiftSetSpec {
    fn from(raw: RawSpec) -> Self {
        let template = raw.template;
        Self {
            replicas: raw.replicas,
            labels: template.metadata.labels,
            node_labels: template.spec.metadata.labels,
            provider: template.spec.provider_spec.value,
        }
    }
}

impl From<RawInfrastructureStatus> for InfrastructureStatus {
    fn from(raw: RawInfrastructureStatus) -> Self {
        let aws = raw.platform_status.aws;
        Self { aws_region: aws.region, aws_endpoints: aws.service_endpoints }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_machine_set_reads_to_what_is_used_of_it() {
        let set: MachineSet = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "openshift-machine-api"},
            "spec": {"replicas": 0, "template": {
                "metadata": {"labels": {"machine.openshift.io/os-id": "Windows"}},
                "spec": {"providerSpec": {"value": {"instanceType": "m5.large"}}},
            }},
            "status": {"authoritativeAPI": "MachineAPI", "conditions": [{"type": "Paused", "status": "True"}]},
        }))
        .unwrap();
        assert_eq!(set.spec.provider, json!({"instanceType": "m5.large"}));
        assert_eq!(set.spec.labels.len(), 1);
        assert!(set.status.is_paused());
        assert_eq!(set.status.authoritative_api.as_deref(), Some("MachineAPI"));
    }

    #[test]
    fn strange_parts_read_as_absent() {
        let wire = json!({"spec": {"template": 7}, "status": {"conditions": {}, "authoritativeAPI": ""}});
        let set: MachineSet = serde_json::from_value(wire).unwrap();
        assert_eq!((set.spec, set.status), (OpenShiftSetSpec::default(), OpenShiftSetStatus::default()));
        let null = json!({"spec": {"template": {"spec": {"providerSpec": {"value": null}}}}});
        let set: MachineSet = serde_json::from_value(null).unwrap();
        assert_eq!(set.spec.provider, Value::Null);
    }

    #[test]
    fn the_platform_of_a_cluster_reads_its_region_and_endpoints() {
        let one: Infrastructure = serde_json::from_value(json!({
            "metadata": {"name": "cluster"},
            "status": {"platformStatus": {"type": "AWS", "aws": {
                "region": "us-gov-west-1",
                "serviceEndpoints": [{"name": "ec2", "url": "https://ec2.example"}, 3],
            }}},
        }))
        .unwrap();
        assert_eq!(one.status.aws_region.as_deref(), Some("us-gov-west-1"));
        assert_eq!(one.status.aws_endpoints.len(), 1);
        let other: Infrastructure = serde_json::from_value(json!({"status": {"platformStatus": {"gcp": {}}}})).unwrap();
        assert_eq!(other.status, InfrastructureStatus::default());
    }
}
