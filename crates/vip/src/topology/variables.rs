//! The variables this capability defines for a ClusterClass, and whether a request carries them unharmed.

use std::fmt::Write;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::findings::{Findings, quote};
use super::settings::{Settings, VARIABLE_ORDER};
use super::standing::{Means, same_host};
use super::wire::TopologyRequest;
use crate::names::{Role, Slot};

/// Rank of a damaged variable among findings.
const RANK: u8 = 5;

/// The definition of one variable.
///
/// A ClusterClass that defines one of them itself must do it in the same words, the description included: otherwise Cluster
/// API reports a conflict and stops every cluster of the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    slot: Slot,
}

impl Definition {
    /// The name of the variable.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.slot.variable()
    }

    /// What the variable is, as part of its schema.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match (self.slot.role, self.slot.second) {
            (Role::ControlPlane, false) => "Virtual IP of the control plane. Set by the VIP allocator.",
            (Role::ControlPlane, true) => {
                "Virtual IP of the control plane in the second IP family. Set by the VIP allocator."
            }
            (Role::Ingress, false) => "Virtual IP of the ingress. Set by the VIP allocator.",
            (Role::Ingress, true) => "Virtual IP of the ingress in the second IP family. Set by the VIP allocator.",
        }
    }

    /// The definition on the wire. It is not required: Clusters that lack a required variable are refused before any hook
    /// could give them an address.
    pub(super) fn to_json(self) -> Value {
        let schema = json!({"type": "string", "default": "", "description": self.description()});
        json!({"name": self.name(), "required": false, "schema": {"openAPIV3Schema": schema}})
    }
}

/// The variables that the settings ask for.
#[must_use]
pub fn variables(settings: &Settings) -> Vec<Definition> {
    settings.variables.iter().map(|slot| Definition { slot: *slot }).collect()
}

/// All definitions for `spec.variables` of a ClusterClass, word for word.
#[must_use]
pub fn inline_yaml() -> String {
    let mut yaml = "variables:\n".to_owned();
    for definition in VARIABLE_ORDER.map(|slot| Definition { slot }) {
        let (name, description) = (definition.name(), definition.description());
        // Writing into a text cannot fail.
        let _ = write!(
            yaml,
            "- name: {name}\n  required: false\n  schema:\n    openAPIV3Schema:\n      type: string\n      \
             default: \"\"\n      description: {description}\n"
        );
    }
    yaml
}

/// Notes every variable that shows another address than the cluster has.
///
/// A tool that applies the Cluster again may send its own list of variables and so drop ours; rendering with the default
/// would roll out machines without the address. A variable that the class does not define is not in the request, and one for
/// an address the cluster does not have is the user's own business. A host name is never written to a variable.
pub fn check(request: &TopologyRequest, means: &Means<'_>, findings: &mut Findings) {
    for slot in Slot::ALL {
        let Some(vip) = means.vip(slot).filter(|vip| vip.parse::<IpAddr>().is_ok()) else { continue };
        let name = slot.variable();
        let mut judge = |value: Option<&Value>, place: String| {
            let Some(value) = value else { return };
            let text = value.as_str();
            if text.is_some_and(|text| same_host(text, vip)) {
                return;
            }
            let shown = text.map_or_else(|| quote(&value.to_string()), quote);
            let problem = format!(
                "variable {name} is {shown} but the {slot} address of the Cluster is `{vip}` (applying the Cluster \
                 again may have dropped it: it is restored, unless somebody sets it otherwise)"
            );
            findings.note(RANK, problem, place);
        };
        judge(request.variable(name), "spec.topology.variables".to_owned());
        for item in &request.items {
            judge(item.variable(name), format!("override for {}", item.object.title()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::wire::answer_discover;
    use super::*;

    fn settings(list: Option<&str>) -> Settings {
        let map: BTreeMap<_, _> = list.map(|list| ("variables".to_owned(), list.to_owned())).into_iter().collect();
        Settings::read(&map).unwrap()
    }

    #[test]
    fn the_answer_never_changes() {
        let answer = answer_discover(Ok(&variables(&settings(Some("clusterVip")))));
        let expected = concat!(
            r#"{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoverVariablesResponse","#,
            r#""status":"Success","message":"","variables":[{"name":"clusterVip","required":false,"schema":{"openAPIV3Schema":"#,
            r#"{"default":"","description":"Virtual IP of the control plane. Set by the VIP allocator.","type":"string"}}}]}"#,
        );
        assert_eq!(answer, expected);
    }

    #[test]
    fn the_yaml_for_classes_defines_exactly_what_the_hook_answers() {
        let settings = settings(None);
        let yaml: Value = serde_saphyr::from_str(&inline_yaml()).unwrap();
        let answer: Value = serde_json::from_slice(&answer_discover(Ok(&variables(&settings)))).unwrap();
        assert_eq!(yaml["variables"], answer["variables"]);
        let names: Vec<_> = yaml["variables"].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["clusterVip", "ingressVip", "clusterVipSecondary", "ingressVipSecondary"]);
    }
}
