//! What the registry asks of the API server.

use kit::rights::{Reach, Right};

/// The rights of this room.
pub const RIGHTS: &[Right] = &[
    Right {
        group: "berth.dev",
        resources: &["hostclaimkinds"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: follow every kind",
    },
    Right {
        group: "berth.dev",
        resources: &["hostclaimkinds/status"],
        verbs: &["patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "status: say whether the kind is served",
    },
];
