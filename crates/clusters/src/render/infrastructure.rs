//! Objects of the CloudStack provider.

use api::own::anywhere::{AvailabilityZone, CloudStackMachineConfigSpec, DiskOffering, Named};
use serde_json::{Map, Value, json};

use super::facts::Facts;
use super::names::{Live, Template, choose};
use super::{INFRASTRUCTURE, filled, object};

const API_VERSION: &str = "infrastructure.cluster.x-k8s.io/v1beta3";
/// The kind of templates of machines.
pub(super) const MACHINE_TEMPLATE: &str = "CloudStackMachineTemplate";
/// The kind of the cluster.
pub(super) const CLUSTER: &str = "CloudStackCluster";

/// The CloudStackCluster. Zones stand as the user wrote them: its provider lets nobody change them afterwards, so resolved
/// ids must not creep in.
pub(super) fn cluster(facts: &Facts<'_>) -> Value {
    let zones: Vec<Value> = facts.zones.iter().map(|zone| failure_domain(facts, zone)).collect();
    let spec = json!({
        "controlPlaneEndpoint": {"host": facts.endpoint.host, "port": facts.endpoint.port()},
        "failureDomains": zones,
    });
    object(facts, API_VERSION, CLUSTER, facts.name, spec)
}

fn failure_domain(facts: &Facts<'_>, zone: &AvailabilityZone) -> Value {
    // The schema of the provider wants the name of the network even when only its id is known.
    let mut network = json!({"name": zone.zone.network.name});
    if let (Value::Object(network), false) = (&mut network, zone.zone.network.id.is_empty()) {
        network.insert("id".to_owned(), json!(zone.zone.network.id));
    }
    filled([
        ("name", json!(zone.name)),
        ("account", json!(zone.account)),
        ("domain", json!(zone.domain)),
        ("acsEndpoint", json!({"name": zone.credentials_ref, "namespace": facts.settings.system_namespace})),
        ("zone", filled([("id", json!(zone.zone.id)), ("name", json!(zone.zone.name)), ("network", network)])),
    ])
}

/// The spec of the template of machines of a configuration.
pub(super) fn machine_template(machine: &CloudStackMachineConfigSpec) -> Value {
    let mut groups = machine.affinity_group_ids.clone();
    groups.sort();
    let affinity = if machine.affinity == "no" { "" } else { &machine.affinity };
    let details: Map<String, Value> = machine
        .user_custom_details
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let spec = filled([
        ("offering", named(&machine.compute_offering)),
        ("template", named(&machine.template)),
        ("details", Value::Object(details)),
        ("affinity", json!(affinity)),
        ("affinityGroupIDs", json!(groups)),
        ("diskOffering", machine.disk().map(disk).unwrap_or_default()),
    ]);
    json!({"template": {"spec": spec}})
}

fn named(named: &Named) -> Value {
    filled([("id", json!(named.id)), ("name", json!(named.name))])
}

fn disk(disk: &DiskOffering) -> Value {
    let size = (disk.size() != 0).then(|| disk.size());
    let mut fields = filled([("id", json!(disk.id)), ("name", json!(disk.name)), ("customSizeInGB", json!(size))]);
    // The schema of the provider wants these, empty or not.
    if let Value::Object(fields) = &mut fields {
        for (key, text) in [
            ("mountPath", &disk.mount_path),
            ("device", &disk.device),
            ("filesystem", &disk.filesystem),
            ("label", &disk.label),
        ] {
            fields.insert(key.to_owned(), json!(text));
        }
    }
    fields
}

/// The template of machines of a role, under the name it gets.
pub(super) fn template_object(
    facts: &Facts<'_>,
    prefix: &str,
    spec: Value,
    current: Option<&str>,
    live: &Live,
) -> Template {
    let (name, exists) = choose(MACHINE_TEMPLATE, prefix, &spec, current, live);
    let object = object(facts, API_VERSION, MACHINE_TEMPLATE, &name, spec);
    Template { name, object, exists }
}

/// A reference to an object of the provider.
pub(super) fn reference(kind: &str, name: &str) -> Value {
    super::reference(INFRASTRUCTURE, kind, name)
}
