//! The phases of a cluster in their order, and those of their decisions that need nothing but facts.
//!
//! No generated object is made before the first four pass. The network plugin and the workers wait until the control plane has
//! the wanted version. After a phase that does not go on, no later one runs in the same pass.

use std::time::Duration;

use api::own::anywhere::CloudStackDatacenterConfig;
use api::reasons::clusters::Reason;

use crate::endpoint::HostPort;

/// A phase of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nobody else has the endpoint.
    ValidateControlPlaneIp,
    /// The datacenter can be used.
    ValidateDatacenterConfig,
    /// The machine configurations can be used in every zone.
    ValidateMachineConfig,
    /// A failure that is past is taken back.
    CleanupStatusAfterValidate,
    /// The objects of the control plane are written.
    ReconcileControlPlane,
    /// The control plane has the wanted version.
    CheckControlPlaneReady,
    /// The network plugin is as wanted.
    ReconcileCni,
    /// The objects of the workers are written.
    ReconcileWorkers,
}

/// The phases in the order they run.
pub const ORDER: [Phase; 8] = [
    Phase::ValidateControlPlaneIp,
    Phase::ValidateDatacenterConfig,
    Phase::ValidateMachineConfig,
    Phase::CleanupStatusAfterValidate,
    Phase::ReconcileControlPlane,
    Phase::CheckControlPlaneReady,
    Phase::ReconcileCni,
    Phase::ReconcileWorkers,
];

/// What follows a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The next phase.
    Continue,
    /// Nothing until something changes; with a failure, when one was found.
    Stop(Option<Failure>),
    /// Another pass after this time.
    Again(Duration),
}

/// What keeps a cluster from going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In one word.
    pub reason: Reason,
    /// What has to be put right.
    pub message: String,
}

/// What stands between the name of an object and why its write was refused.
const REFUSED: &str = " was refused: ";

/// The failure of a cluster of which an object was refused for what it says.
#[must_use]
pub fn refusal(object: &str, why: &str) -> Failure {
    Failure { reason: Reason::ClusterInvalid, message: format!("{object}{REFUSED}{why}") }
}

/// Whether a failure that is told is that of a write that was refused.
#[must_use]
pub fn is_refusal(reason: &str, message: &str) -> bool {
    reason == Reason::ClusterInvalid.as_str() && message.contains(REFUSED)
}

/// Runs phases in their order until one does not go on; says which one that was, and what follows.
pub fn run(mut phase: impl FnMut(Phase) -> Outcome) -> Option<(Phase, Outcome)> {
    ORDER.into_iter().map(|one| (one, phase(one))).find(|(_, outcome)| *outcome != Outcome::Continue)
}

/// Whether the datacenter can be used: only what was found of its latest generation counts.
#[must_use]
pub fn datacenter(datacenter: &CloudStackDatacenterConfig) -> Outcome {
    let status = datacenter.status.clone().unwrap_or_default();
    let current = status.observed_generation.is_some() && status.observed_generation == datacenter.metadata.generation;
    match (current, status.spec_valid) {
        (true, Some(true)) => Outcome::Continue,
        (true, _) if !status.failure_message.is_empty() => {
            let name = datacenter.metadata.name.as_deref().unwrap_or_default();
            let message = format!("CloudStackDatacenterConfig {name} is invalid: {}", status.failure_message);
            Outcome::Stop(Some(Failure { reason: Reason::DatacenterConfigInvalid, message }))
        }
        _ => Outcome::Stop(None),
    }
}

/// What is seen of a KubeadmControlPlane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaneReport {
    /// The generation of the object.
    pub generation: i64,
    /// The generation its status is about.
    pub observed_generation: i64,
    /// Whether it is available.
    pub available: bool,
    /// The version it is to have.
    pub wanted: String,
    /// The lowest version of its machines.
    pub version: String,
}

/// A look that is worth repeating soon.
const SOON: Duration = Duration::from_secs(5);
/// A look at machines that take their time.
const LATER: Duration = Duration::from_secs(30);

/// Whether the control plane has the wanted version.
#[must_use]
pub fn control_plane(plane: Option<&PlaneReport>) -> Outcome {
    match plane {
        None => Outcome::Again(SOON),
        Some(plane) if plane.observed_generation < plane.generation => Outcome::Again(SOON),
        Some(plane) if !plane.available || plane.version.is_empty() || plane.version != plane.wanted => {
            Outcome::Again(LATER)
        }
        Some(_) => Outcome::Continue,
    }
}

/// A cluster that has an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its namespace and name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// When it was made, in seconds.
    pub created: i64,
    /// Its endpoint.
    pub endpoint: HostPort,
    /// Whether kube-vip holds the endpoint, which then takes the whole address.
    pub kube_vip: bool,
}

/// Who has the endpoint that a cluster asks for: the oldest of those before it.
#[must_use]
pub fn endpoint_holder<'h>(mine: &Holder, others: &'h [Holder]) -> Option<&'h Holder> {
    let clashes = |other: &&Holder| {
        let same_host = mine.endpoint.host == other.endpoint.host;
        let same_port = mine.endpoint.port() == other.endpoint.port();
        same_host && (same_port || mine.kube_vip || other.kube_vip)
    };
    let age = |holder: &Holder| (holder.created, holder.uid.clone());
    let earlier = others.iter().filter(|other| other.uid != mine.uid && age(other) < age(mine)).filter(clashes);
    earlier.min_by_key(|other| age(other))
}

/// The failure of a cluster whose endpoint somebody has.
#[must_use]
pub fn endpoint_taken(mine: &Holder, holder: &Holder) -> Failure {
    Failure {
        reason: Reason::UnavailableControlPlaneIP,
        message: format!("endpoint {} already used by cluster {}", mine.endpoint.host, holder.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_phase_runs_after_one_that_does_not_go_on() {
        let mut ran = Vec::new();
        let stopped = run(|phase| {
            ran.push(phase);
            if phase == Phase::ValidateMachineConfig { Outcome::Stop(None) } else { Outcome::Continue }
        });
        assert_eq!(stopped, Some((Phase::ValidateMachineConfig, Outcome::Stop(None))));
        assert_eq!(ran, [Phase::ValidateControlPlaneIp, Phase::ValidateDatacenterConfig, Phase::ValidateMachineConfig]);
        ran.clear();
        assert_eq!(
            run(|phase| {
                ran.push(phase);
                Outcome::Continue
            }),
            None
        );
        assert_eq!(ran, ORDER);
        assert!(ORDER.is_sorted());
    }

    #[test]
    fn a_datacenter_counts_by_what_was_found_of_its_latest_generation() {
        let failure = |message: &str| {
            Outcome::Stop(Some(Failure { reason: Reason::DatacenterConfigInvalid, message: message.into() }))
        };
        let rows = [
            (json!(null), Outcome::Stop(None)),
            (json!({"observedGeneration": 3, "specValid": true}), Outcome::Continue),
            (json!({"observedGeneration": 2, "specValid": true}), Outcome::Stop(None)),
            (json!({"specValid": true}), Outcome::Stop(None)),
            (
                json!({"observedGeneration": 3, "specValid": false, "failureMessage": "no zone"}),
                failure("CloudStackDatacenterConfig dc is invalid: no zone"),
            ),
            (json!({"observedGeneration": 2, "specValid": false, "failureMessage": "no zone"}), Outcome::Stop(None)),
            (json!({"observedGeneration": 3, "specValid": false}), Outcome::Stop(None)),
        ];
        for (status, wanted) in rows {
            let mut dc = CloudStackDatacenterConfig::new("dc", Default::default());
            dc.metadata.generation = Some(3);
            dc.status = serde_json::from_value(status.clone()).unwrap();
            assert_eq!(datacenter(&dc), wanted, "{status}");
        }
    }

    #[test]
    fn workers_wait_until_the_control_plane_has_the_wanted_version() {
        let good = PlaneReport {
            generation: 2,
            observed_generation: 2,
            available: true,
            wanted: "v1".into(),
            version: "v1".into(),
        };
        let rows = [
            (None, Outcome::Again(SOON)),
            (Some(PlaneReport { observed_generation: 1, ..good.clone() }), Outcome::Again(SOON)),
            (Some(PlaneReport { available: false, ..good.clone() }), Outcome::Again(LATER)),
            (Some(PlaneReport { version: String::new(), ..good.clone() }), Outcome::Again(LATER)),
            (Some(PlaneReport { version: "v0".into(), ..good.clone() }), Outcome::Again(LATER)),
            (Some(good), Outcome::Continue),
        ];
        for (plane, wanted) in rows {
            assert_eq!(control_plane(plane.as_ref()), wanted, "{plane:?}");
        }
    }

    #[test]
    fn the_older_cluster_keeps_the_endpoint() {
        let holder = |name: &str, created, host: &str, kube_vip| Holder {
            name: format!("ns/{name}"),
            uid: name.to_owned(),
            created,
            endpoint: host.parse().unwrap(),
            kube_vip,
        };
        let mine = holder("m", 10, "10.0.0.5", true);
        let outside = holder("m", 10, "10.0.0.5:7443", false);
        let rows = [
            (&mine, vec![], None),
            (&mine, vec![holder("m", 10, "10.0.0.5", true)], None),
            (&mine, vec![holder("a", 9, "10.0.0.6", true)], None),
            (&mine, vec![holder("a", 9, "10.0.0.5:7443", false)], Some("ns/a")),
            (&mine, vec![holder("a", 11, "10.0.0.5", true)], None),
            (&mine, vec![holder("a", 10, "10.0.0.5", true)], Some("ns/a")),
            (&mine, vec![holder("z", 10, "10.0.0.5", true)], None),
            (&mine, vec![holder("b", 9, "10.0.0.5", true), holder("a", 8, "10.0.0.5", true)], Some("ns/a")),
            (&outside, vec![holder("a", 9, "10.0.0.5:6443", false)], None),
            (&outside, vec![holder("a", 9, "10.0.0.5:7443", false)], Some("ns/a")),
            (&outside, vec![holder("a", 9, "10.0.0.5", true)], Some("ns/a")),
        ];
        for (mine, others, wanted) in rows {
            assert_eq!(endpoint_holder(mine, &others).map(|h| h.name.as_str()), wanted, "{others:?}");
        }
        let told = endpoint_taken(&mine, &holder("a", 9, "10.0.0.5", true));
        assert_eq!(told.message, "endpoint 10.0.0.5 already used by cluster ns/a");
    }
}
