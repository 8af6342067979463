//! Kinds of the Cluster API provider for AWS, as far as capacity and region of machines depend on them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::soft::{or_default, soft, soft_structs, text};
use crate::meta::lean_meta;

/// Group of infrastructure providers' kinds.
pub const INFRASTRUCTURE_GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// Group of control plane providers' kinds.
pub const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";

/// What machines on EC2 look like.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct AWSMachineTemplate {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: AwsTemplateSpec,
    /// What is there.
    #[serde(default, deserialize_with = "or_default")]
    pub status: TemplateStatus,
}

crate::view! { AWSMachineTemplate, group: INFRASTRUCTURE_GROUP, versions: ["v1beta2", "v1beta1"], plural: "awsmachinetemplates", scope: Namespaced }

/// What is wanted of machines on EC2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawTemplateSpec")]
pub struct AwsTemplateSpec {
    /// The instance type.
    pub instance_type: Option<String>,
    /// The size of the root disk in GiB.
    pub root_volume_gib: Option<i64>,
    /// The image, where it is given by its id.
    pub image: Option<String>,
}

/// What a machine template says about the nodes that come of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "RawTemplateStatus")]
pub struct TemplateStatus {
    /// Quantities by resource, as text.
    pub capacity: BTreeMap<String, String>,
    /// The architecture of the nodes.
    pub architecture: Option<String>,
    /// The operating system of the nodes.
    pub operating_system: Option<String>,
}

impl TemplateStatus {
    /// Whether the template says anything at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The control plane of a cluster on EKS.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct AWSManagedControlPlane {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: AwsPlaceSpec,
}

crate::view! { AWSManagedControlPlane, group: CONTROL_PLANE_GROUP, versions: ["v1beta2", "v1beta1"], plural: "awsmanagedcontrolplanes", scope: Namespaced }

/// The control plane of a cluster on OpenShift Service on AWS.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ROSAControlPlane {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: AwsPlaceSpec,
}

crate::view! { ROSAControlPlane, group: CONTROL_PLANE_GROUP, versions: ["v1beta2"], plural: "rosacontrolplanes", scope: Namespaced }

/// Where a cluster is, and whose account it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsPlaceSpec {
    /// The region.
    #[serde(default, deserialize_with = "text")]
    pub region: Option<String>,
    /// The identity by which the provider acts.
    #[serde(default, deserialize_with = "soft")]
    pub identity_ref: Option<AwsIdentityRef>,
}

/// The identity by which the provider for AWS acts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct AwsIdentityRef {
    /// Kind of the identity.
    #[serde(default, deserialize_with = "or_default")]
    pub kind: String,
    /// Its name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
}

#[derive(Default, Deserialize)]
struct RawTemplateSpec {
    #[serde(default, deserialize_with = "or_default")]
    template: RawTemplate,
}

#[derive(Default, Deserialize)]
struct RawTemplate {
    #[serde(default, deserialize_with = "or_default")]
    spec: RawMachine,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMachine {
    #[serde(default, deserialize_with = "text")]
    instance_type: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    root_volume: RawVolume,
    #[serde(default, deserialize_with = "or_default")]
    ami: RawImage,
}

#[derive(Default, Deserialize)]
struct RawVolume {
    #[serde(default, deserialize_with = "soft")]
    size: Option<i64>,
}

#[derive(Default, Deserialize)]
struct RawImage {
    #[serde(default, deserialize_with = "text")]
    id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTemplateStatus {
    #[serde(default, deserialize_with = "or_default")]
    capacity: BTreeMap<String, Value>,
    #[serde(default, deserialize_with = "or_default")]
    node_info: RawNodeInfo,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawNodeInfo {
    #[serde(default, deserialize_with = "text")]
    architecture: Option<String>,
    #[serde(default, deserialize_with = "text")]
    operating_system: Option<String>,
}

soft_structs!(
    AwsTemplateSpec,
    TemplateStatus,
    AwsPlaceSpec,
    AwsIdentityRef,
    RawTemplate,
    RawMachine,
    RawVolume,
    RawImage,
    RawNodeInfo
);

impl From<RawTemplateSpec> for AwsTemplateSpec {
    fn from(raw: RawTemplateSpec) -> Self {
        let machine = raw.template.spec;
        Self { instance_type: machine.instance_type, root_volume_gib: machine.root_volume.size, image: machine.ami.id }
    }
}

impl From<RawTemplateStatus> for TemplateStatus {
    fn from(raw: RawTemplateStatus) -> Self {
        let text = |value: Value| match value {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let capacity = raw.capacity.into_iter().filter_map(|(key, value)| Some((key, text(value)?))).collect();
        Self { capacity, architecture: raw.node_info.architecture, operating_system: raw.node_info.operating_system }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_template_reads_to_what_is_used_of_it() {
        let template: AWSMachineTemplate = serde_json::from_value(json!({
            "spec": {"template": {"spec": {"instanceType": "m5.large", "rootVolume": {"size": 100}, "ami": {"id": "ami-1"}}}},
            "status": {"capacity": {"cpu": 4, "memory": "16Gi", "odd": []}, "nodeInfo": {"architecture": "arm64"}},
        }))
        .unwrap();
        assert_eq!(template.spec.instance_type.as_deref(), Some("m5.large"));
        assert_eq!((template.spec.root_volume_gib, template.spec.image.as_deref()), (Some(100), Some("ami-1")));
        let said = [("cpu".to_owned(), "4".to_owned()), ("memory".to_owned(), "16Gi".to_owned())];
        assert_eq!(template.status.capacity, said.into());
        assert_eq!((template.status.architecture.as_deref(), template.status.operating_system), (Some("arm64"), None));
    }

    #[test]
    fn strange_parts_read_as_absent() {
        for wire in [json!({}), json!({"spec": 1, "status": []}), json!({"spec": {"template": {"spec": {"ami": "x"}}}})]
        {
            let template: AWSMachineTemplate = serde_json::from_value(wire).unwrap();
            assert_eq!(template.spec, AwsTemplateSpec::default());
            assert!(template.status.is_empty());
        }
        let place: ROSAControlPlane =
            serde_json::from_value(json!({"spec": {"region": "", "identityRef": "x"}})).unwrap();
        assert_eq!(place.spec, AwsPlaceSpec::default());
    }
}
