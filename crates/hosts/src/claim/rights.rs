//! What the kind asks of the API server, beside what the room does.

use kit::rights::{Reach, Right};

/// The rights of this kind, besides those of a heartbeat. Secrets are read by name, in the namespace of the claim that names them.
pub const RIGHTS: &[Right] = &[
    Right {
        group: "metal3.io",
        resources: &["hostclaims"],
        verbs: &["get", "list", "watch", "patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe and apply: read claims, write their journal and finalizer, take fulfilled requests off",
    },
    Right {
        group: "metal3.io",
        resources: &["hostclaims/status"],
        verbs: &["patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "report: the status of claims",
    },
    Right {
        group: "berth.dev",
        resources: &["hostclaimquotas"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: how many hosts tenants may hold",
    },
];
