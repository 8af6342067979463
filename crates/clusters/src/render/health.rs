//! When machines count as unhealthy and are replaced.

use api::own::anywhere::HealthCheck;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::duration::seconds;
use super::facts::Facts;
use super::{CAPI, object};

/// How long a machine may take to become a node, when nobody says.
const STARTUP_SECONDS: i64 = 600;
/// How long a node may be not ready, when nobody says.
const UNHEALTHY_SECONDS: i64 = 300;
/// How many machines of the control plane may be unhealthy, when nobody says.
const PLANE: &str = "100%";
/// How many machines of a group may be unhealthy, when nobody says.
const GROUP: &str = "40%";

/// The MachineHealthChecks of the control plane and of each group.
pub(super) fn checks(facts: &Facts<'_>) -> Vec<Value> {
    let cluster = facts.spec.machine_health_check.as_ref();
    let selector = json!({"cluster.x-k8s.io/control-plane": ""});
    let plane = [facts.plane.machine_health_check.as_ref(), cluster];
    let mut all = vec![check(facts, &format!("{}-kcp-unhealthy", facts.name), selector, plane, PLANE)];
    for group in &facts.groups {
        let deployment = format!("{}-{}", facts.name, group.group.name);
        let selector = json!({"cluster.x-k8s.io/deployment-name": deployment});
        let values = [group.group.machine_health_check.as_ref(), cluster];
        all.push(check(facts, &format!("{deployment}-worker-unhealthy"), selector, values, GROUP));
    }
    all
}

/// One check, by the first of the values that says something.
fn check(facts: &Facts<'_>, name: &str, selector: Value, values: [Option<&HealthCheck>; 2], share: &str) -> Value {
    let first = |field: fn(&HealthCheck) -> &String| {
        let given = values.into_iter().flatten().map(field).find(|text| !text.is_empty());
        given.and_then(|text| seconds(text))
    };
    let startup = first(|check| &check.node_startup_timeout).unwrap_or(STARTUP_SECONDS);
    let unhealthy = first(|check| &check.unhealthy_machine_timeout).unwrap_or(UNHEALTHY_SECONDS);
    let share = match values.into_iter().flatten().find_map(|check| check.max_unhealthy.as_ref()) {
        Some(IntOrString::Int(number)) => json!(number),
        Some(IntOrString::String(text)) => json!(text),
        None => json!(share),
    };
    let condition = |status: &str| json!({"type": "Ready", "status": status, "timeoutSeconds": unhealthy});
    let spec = json!({
        "clusterName": facts.name,
        "selector": {"matchLabels": selector},
        "checks": {
            "nodeStartupTimeoutSeconds": startup,
            "unhealthyNodeConditions": [condition("Unknown"), condition("False")],
        },
        "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": share}},
    });
    object(facts, CAPI, "MachineHealthCheck", name, spec)
}
