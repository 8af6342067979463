//! What the registry asks of the API server.

use kit::rights::{Reach, Right};

/// What a room needs that serves a kind. Two that start at once both register it, and one of them reads it back.
pub const HEARTBEAT: &[Right] = &[
    Right {
        group: "berth.dev",
        resources: &["hostclaimkinds"],
        verbs: &["get", "list", "watch", "create"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: follow every kind; heartbeat: register the kinds served here",
    },
    Right {
        group: "berth.dev",
        resources: &["hostclaimkinds/status"],
        verbs: &["patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "status: say whether the kind is served; heartbeat: say that it is",
    },
];

/// The rights of this room, besides those of a heartbeat.
pub const RIGHTS: &[Right] = &[
    Right {
        group: "metal3.io",
        resources: &["hostclaims"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "unserved: follow the claims of every kind",
    },
    Right {
        group: "metal3.io",
        resources: &["hostclaims/status"],
        verbs: &["patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "unserved: tell a claim that nobody serves its kind",
    },
];
