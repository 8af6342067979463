//! `AWSMachinePool` and `AWSManagedMachinePool`: groups of machines that AWS itself keeps.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::aws_provider::INFRASTRUCTURE_GROUP;
use super::soft::{or_default, soft, soft_structs, text};
use crate::meta::lean_meta;

/// An auto scaling group.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct AWSMachinePool {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: AwsPoolSpec,
}

crate::view! { AWSMachinePool, group: INFRASTRUCTURE_GROUP, versions: ["v1beta2", "v1beta1"], plural: "awsmachinepools", scope: Namespaced }

/// A node group of EKS.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct AWSManagedMachinePool {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: AwsPoolSpec,
}

crate::view! { AWSManagedMachinePool, group: INFRASTRUCTURE_GROUP, versions: ["v1beta2", "v1beta1"], plural: "awsmanagedmachinepools", scope: Namespaced }

/// What is wanted of such machines, in either kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawPool")]
pub struct AwsPoolSpec {
    /// The instance type of a node group.
    pub instance_type: Option<String>,
    /// The instance type of the launch template.
    pub template_type: Option<String>,
    /// Types that may be launched instead of that of the template.
    pub overrides: Vec<String>,
    /// The size of the root disk in GiB, of the launch template or of the node group.
    pub root_gib: Option<i64>,
    /// The family of images of a node group, such as `AL2023_ARM_64_STANDARD`.
    pub image_family: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPool {
    #[serde(default, deserialize_with = "text")]
    instance_type: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    disk_size: Option<i64>,
    #[serde(default, deserialize_with = "text")]
    ami_type: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    aws_launch_template: RawLaunch,
    #[serde(default, deserialize_with = "or_default")]
    mixed_instances_policy: RawMixed,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLaunch {
    #[serde(default, deserialize_with = "text")]
    instance_type: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    root_volume: RawDisk,
}

#[derive(Default, Deserialize)]
struct RawDisk {
    #[serde(default, deserialize_with = "soft")]
    size: Option<i64>,
}

#[derive(Default, Deserialize)]
struct RawMixed {
    #[serde(default, deserialize_with = "or_default")]
    overrides: Vec<RawOverride>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawOverride {
    #[serde(default, deserialize_with = "text")]
    instance_type: Option<String>,
}

soft_structs!(AwsPoolSpec, RawLaunch, RawDisk, RawMixed, RawOverride);

impl From<RawPool> for AwsPoolSpec {
    fn from(raw: RawPool) -> Self {
        let overrides = raw.mixed_instances_policy.overrides;
        Self {
            instance_type: raw.instance_type,
            template_type: raw.aws_launch_template.instance_type,
            overrides: overrides.into_iter().filter_map(|item| item.instance_type).collect(),
            root_gib: raw.aws_launch_template.root_volume.size.or(raw.disk_size),
            image_family: raw.ami_type,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_kinds_read_to_what_is_used_of_them() {
        let pool: AWSMachinePool = serde_json::from_value(json!({"spec": {
            "awsLaunchTemplate": {"instanceType": "m5.large", "rootVolume": {"size": 80}},
            "mixedInstancesPolicy": {"overrides": [{"instanceType": "m5a.large"}, {"instanceType": "m6i.large"}, {}]},
        }}))
        .unwrap();
        assert_eq!(pool.spec.template_type.as_deref(), Some("m5.large"));
        assert_eq!(
            (pool.spec.overrides, pool.spec.root_gib),
            (vec!["m5a.large".to_owned(), "m6i.large".to_owned()], Some(80))
        );
        let pool: AWSManagedMachinePool = serde_json::from_value(json!({"spec": {
            "instanceType": "t4g.large", "diskSize": 50, "amiType": "AL2023_ARM_64_STANDARD",
        }}))
        .unwrap();
        assert_eq!((pool.spec.instance_type.as_deref(), pool.spec.root_gib), (Some("t4g.large"), Some(50)));
        let odd: AWSManagedMachinePool =
            serde_json::from_value(json!({"spec": {"diskSize": "x", "amiType": 3}})).unwrap();
        assert_eq!(odd.spec, AwsPoolSpec::default());
    }
}
