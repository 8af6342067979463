//! `Metal3MachineTemplate`: which bare-metal hosts machines are made of.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::aws_provider::INFRASTRUCTURE_GROUP;
use super::soft::{or_default, soft_structs, text};
use crate::meta::lean_meta;

/// What machines on bare-metal hosts look like.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawTemplate")]
pub struct Metal3MachineTemplate {
    /// Metadata without `managedFields`.
    pub metadata: ObjectMeta,
    /// Which hosts are taken, exactly as it came; null takes any.
    pub host_selector: Value,
    /// The kind of claim that machines are made of; without one, hosts are taken directly.
    pub kind: Option<String>,
}

crate::view! { Metal3MachineTemplate, group: INFRASTRUCTURE_GROUP, versions: ["v1beta2", "v1beta1"], plural: "metal3machinetemplates", scope: Namespaced }

#[derive(Default, Deserialize)]
struct RawTemplate {
    #[serde(default, deserialize_with = "lean_meta")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: RawSpec,
}

#[derive(Default, Deserialize)]
struct RawSpec {
    #[serde(default, deserialize_with = "or_default")]
    template: RawInner,
}

#[derive(Default, Deserialize)]
struct RawInner {
    #[serde(default, deserialize_with = "or_default")]
    spec: RawMachine,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMachine {
    #[serde(default)]
    host_selector: Value,
    #[serde(default, deserialize_with = "text")]
    kind: Option<String>,
}

soft_structs!(RawSpec, RawInner, RawMachine);

impl From<RawTemplate> for Metal3MachineTemplate {
    fn from(raw: RawTemplate) -> Self {
        let machine = raw.spec.template.spec;
        Self { metadata: raw.metadata, host_selector: machine.host_selector, kind: machine.kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_selector_is_kept_as_it_came_and_absent_reads_as_any() {
        let selector = json!({"matchLabels": {"a": "b"}});
        let wire =
            json!({"spec": {"template": {"spec": {"image": {}, "hostSelector": selector, "kind": "baremetal"}}}});
        let template: Metal3MachineTemplate = serde_json::from_value(wire).unwrap();
        assert_eq!((template.host_selector, template.kind.as_deref()), (selector, Some("baremetal")));
        for wire in [json!({}), json!({"spec": []})] {
            let template: Metal3MachineTemplate = serde_json::from_value(wire).unwrap();
            assert_eq!(template.host_selector, Value::Null);
        }
    }
}
