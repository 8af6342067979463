//! Hosts, one cell each.

use std::collections::BTreeMap;

use ::claims::explain::{HostRow, HostSort, Sight, host_table};
use api::key::ObjectKey;
use serde::Serialize;

use super::Dedicated;
use kit::explain::Level;

/// One host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// Kind.
    pub kind: &'static str,
    /// The zone, failure domain or rack that its owner says it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The row of `berth hosts`.
    #[serde(flatten)]
    pub row: HostRow,
}

/// The hosts that can be claimed.
pub fn metal(sight: &Sight, only: Option<&str>, zones: &BTreeMap<ObjectKey, String>) -> Vec<Cell> {
    let cell = |row: HostRow| {
        let key = ObjectKey::namespaced(row.namespace.as_str(), row.name.as_str());
        Cell { kind: "BareMetalHost", zone: zones.get(&key).cloned(), row }
    };
    host_table(sight, only).items.into_iter().map(cell).collect()
}

/// The dedicated hosts of a machine on EC2. They are in no namespace, but their machine is.
pub fn dedicated(machine: &Dedicated) -> Vec<Cell> {
    let cell = |(id, state, zone): &(String, String, Option<String>)| {
        let sort = match machine.node.level {
            Level::Problem => HostSort::Failed,
            _ if state == "available" => HostSort::Used,
            _ => HostSort::Unavailable,
        };
        let row = HostRow {
            namespace: machine.key.namespace().unwrap_or_default().to_owned(),
            name: id.clone(),
            state: state.clone(),
            sort,
            consumer: Some(format!("AWSMachine {}", machine.key)),
            powered_on: None,
            error: (machine.node.level == Level::Problem).then(|| machine.node.note.clone()),
            labels: Vec::new(),
        };
        Cell { kind: "DedicatedHost", zone: zone.clone(), row }
    };
    machine.hosts.iter().map(cell).collect()
}
