//! Says on a Cluster how things stand with its addresses, without a clock.

use std::time::Duration;

use api::reasons::{common, vip::Reason};
use jiff::Timestamp;
use kit::conditions::{State as Holds, Transition, Verdict};
use kit::room::Notice;

use crate::facts::{CONTROL_PLANE_VIP_READY, ClusterFacts, INGRESS_VIP_READY};
use crate::keeper::Snapshot;
use crate::names::{Role, Slot};
use crate::scene::Scene;
use crate::survey::{Stance, State, Survey, Want, survey};
use crate::words::{reason, rivalry, sentence};

/// How long the wait of a new cluster is not mentioned. Hundreds of clusters that are made at once have their addresses by
/// then, and meanwhile Cluster API shows the gate's own words on each.
const QUIET: Duration = Duration::from_secs(15);

/// The verdicts on one Cluster; none when it is not ours to judge.
#[must_use]
pub fn verdicts(snapshot: &Snapshot, cluster: &ClusterFacts, failed: bool) -> Option<Vec<Verdict>> {
    let scene = &snapshot.scene;
    let survey = survey(cluster, scene);
    if let Stance::Out(_) = survey.stance {
        return None;
    }
    if failed {
        let text =
            "Berth failed while looking after this cluster's addresses; it is tried again, see the operator's log";
        let reason = common::Reason::InternalError.as_str();
        let mut all = vec![Verdict::unknown(CONTROL_PLANE_VIP_READY, reason, text)];
        if survey.wants.keys().any(|slot| slot.role == Role::Ingress) {
            all.push(Verdict::unknown(INGRESS_VIP_READY, reason, text));
        }
        return Some(all);
    }
    let first = control_plane(&survey, cluster, scene);
    if first.reason == Reason::WaitingForAddress.as_str() && quiet_until(cluster, scene).is_some() {
        return None;
    }
    let mut all = vec![first];
    all.extend(of_role(&survey, scene, Role::Ingress, INGRESS_VIP_READY));
    Some(all)
}

/// A new cluster normally has its address within moments; until this time its wait is not worth a write that would wake
/// Cluster API.
#[must_use]
pub fn quiet_until(cluster: &ClusterFacts, scene: &Scene) -> Option<Timestamp> {
    let end = cluster.created.checked_add(QUIET).ok()?;
    (cluster.stored.conditions.is_empty() && scene.now < end).then_some(end)
}

fn control_plane(survey: &Survey, cluster: &ClusterFacts, scene: &Scene) -> Verdict {
    let no = |reason: Reason, text: String| Verdict::no(CONTROL_PLANE_VIP_READY, reason.as_str(), text);
    if let Some(fault) = survey.faults.first() {
        return no(Reason::InvalidAnnotation, fault.to_string());
    }
    if let Some(rival) = &survey.rival {
        return no(Reason::AddressConflict, rivalry(rival));
    }
    if survey.stance == Stance::Manual {
        let host = &cluster.endpoint.host;
        let (reason, text) = match (&survey.offered, survey.unused) {
            (Some(pool), _) => (
                Reason::ManualInsidePool,
                format!("the endpoint {host} was chosen by hand, but {pool} may give it away: exclude it there"),
            ),
            (None, Some(slot)) => (
                Reason::ManualClaimUnused,
                format!(
                    "the endpoint {host} was chosen by hand and IPAddressClaim {} is not needed: delete it, or let \
                     --release-unused-claims do it",
                    slot.claim(scene.key.name())
                ),
            ),
            (None, None) => (Reason::Manual, format!("the endpoint {host} was chosen by hand")),
        };
        return Verdict::yes(CONTROL_PLANE_VIP_READY, reason.as_str(), text);
    }
    let verdict = of_role(survey, scene, Role::ControlPlane, CONTROL_PLANE_VIP_READY);
    let verdict = verdict.unwrap_or_else(|| no(Reason::WaitingForAddress, "nothing is known yet".to_owned()));
    // Bound is not enough: the Cluster must carry it.
    let carried = match survey.stance {
        Stance::VipOnly => cluster.annotation(Slot::CONTROL_PLANE.annotation()).is_some(),
        _ => cluster.endpoint.is_valid(),
    };
    if verdict.state == Holds::True && !carried {
        return no(Reason::WaitingForAddress, "the address is about to be written to the Cluster".to_owned());
    }
    verdict
}

/// The verdict on a role: the worst of its addresses; none when the cluster wants none.
fn of_role(survey: &Survey, scene: &Scene, role: Role, type_: &'static str) -> Option<Verdict> {
    let wants: Vec<(&Slot, &Want)> = survey.wants.iter().filter(|(slot, _)| slot.role == role).collect();
    let bad = wants.iter().find(|(_, want)| !matches!(want.state, State::Bound { .. }));
    if let Some((slot, want)) = bad {
        return Some(Verdict::no(type_, reason(&want.state).as_str(), sentence(**slot, want, scene)));
    }
    let texts: Vec<String> = wants.iter().map(|(slot, want)| sentence(**slot, want, scene)).collect();
    (!texts.is_empty()).then(|| Verdict::yes(type_, Reason::Allocated.as_str(), texts.join("; ")))
}

/// The event that tells of a transition. That an address was given is told by whoever wrote it.
#[must_use]
pub fn event(transition: &Transition) -> Option<Notice> {
    let events = [
        (Reason::ManualInsidePool, "VIPManualInsidePool"),
        (Reason::ManualClaimUnused, "VIPClaimUnused"),
        (Reason::NoMatchingPool, "VIPPoolNotFound"),
        (Reason::PoolExhausted, "VIPPoolExhausted"),
        (Reason::AddressConflict, "VIPConflict"),
        (Reason::AddressMismatch, "VIPMismatch"),
        (Reason::ClaimMissing, "VIPClaimMissing"),
        (Reason::ClaimForeign, "VIPConflict"),
        (Reason::InvalidAnnotation, "VIPInvalidAnnotation"),
    ];
    let (_, reason) = events.into_iter().find(|(reason, _)| transition.reason == reason.as_str())?;
    Some(Notice { reason, warning: true })
}
