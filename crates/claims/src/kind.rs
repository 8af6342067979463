//! The kind that this room serves, as it registers it.

use std::collections::BTreeMap;

use api::own::{BAREMETAL, Capability};
use claim_kind::heartbeat::KindProfile;

/// The kind `baremetal`: everything a kind can do, and no argument.
#[must_use]
pub fn profile() -> KindProfile {
    KindProfile {
        name: BAREMETAL,
        controller_name: "baremetal.berth.dev",
        capabilities: Capability::ALL,
        recyclable: true,
        args: BTreeMap::new(),
    }
}
