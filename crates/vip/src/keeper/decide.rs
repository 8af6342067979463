//! Thinks: what has to be done about one cluster's addresses apart from a call of the gate.

use std::net::IpAddr;
use std::time::Duration;

use api::views::{Endpoint, ObjectRef};
use jiff::Timestamp;

use super::Snapshot;
use crate::facts::{ClaimFacts, ClusterFacts, PoolName, address};
use crate::goal::Goal;
use crate::names::{Role, Slot};
use crate::scene::{Holding, Scene, User};
use crate::status::quiet_until;
use crate::survey::{Stance, State, Survey, survey};

/// How long a claim may wait for its provider before people are told.
const PATIENCE: Duration = Duration::from_secs(60);

/// One effect of the housekeeper, or a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Takes over a claim without an owner.
    Adopt {
        /// The slot.
        slot: Slot,
    },
    /// Brings the version of a claim's reference to the one that is served.
    Refer {
        /// The slot.
        slot: Slot,
    },
    /// Makes the claim of a slot.
    Claim {
        /// The slot.
        slot: Slot,
        /// The pool to ask.
        pool: PoolName,
        /// The pools that were asked before.
        tried: Vec<PoolName>,
    },
    /// Gives up a claim without an address, so that another pool can be asked.
    Abandon {
        /// The slot.
        slot: Slot,
        /// The pool to ask instead.
        better: PoolName,
    },
    /// Deletes a claim that the cluster does not need any more.
    Release {
        /// The slot.
        slot: Slot,
        /// Why it is not needed.
        why: &'static str,
    },
    /// Puts on the Cluster what is missing there.
    Write {
        /// What should stand there.
        goal: Goal,
    },
    /// Gives the infrastructure cluster the endpoint.
    Point {
        /// The infrastructure cluster.
        infrastructure: ObjectRef,
        /// The endpoint.
        endpoint: Endpoint,
    },
    /// Deletes a claim whose Cluster is not there.
    Sweep {
        /// The slot.
        slot: Slot,
    },
    /// Tells people that a claim has waited for too long.
    Warn {
        /// The slot.
        slot: Slot,
    },
    /// Looks again at that time.
    Wait {
        /// When.
        until: Timestamp,
    },
}

/// What the housekeeper may allocate for a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mandate {
    /// Only an ingress address, and only after the gate has opened.
    Late,
    /// Everything: no gate is called for this cluster.
    All,
}

/// What the housekeeper may allocate for this cluster.
#[must_use]
pub fn mandate(cluster: &ClusterFacts, scene: &Scene) -> Mandate {
    let gated = cluster.class.is_some() && scene.config.extension;
    if scene.config.reconciler && !gated { Mandate::All } else { Mandate::Late }
}

/// The plan for one cluster.
#[must_use]
pub fn decide(snapshot: &Snapshot) -> Vec<Step> {
    let scene = &snapshot.scene;
    let Some(cluster) = snapshot.cluster.as_deref() else { return orphans(scene) };
    // During a move between management clusters both are paused, and references are being rewritten.
    if cluster.paused || scene.config.is_foreign(cluster.watch_filter.as_deref()) {
        return Vec::new();
    }
    let mut plan = ownership(snapshot, cluster);
    if cluster.deleting {
        return plan;
    }
    let survey = survey(cluster, scene);
    if let Stance::Out(_) = survey.stance {
        return plan;
    }
    let mandate = mandate(cluster, scene);
    plan.extend(allocation(&survey, cluster, mandate));
    plan.extend(write(&survey, cluster, mandate));
    plan.extend(release(&survey, cluster, scene));
    // What changes the Cluster or a claim brings another pass by itself; the rest does not.
    let wait = plan.is_empty().then(|| wait(&survey, cluster, scene, mandate)).flatten();
    plan.extend(point(&survey, cluster, scene, mandate));
    plan.extend(overdue(&survey, scene).filter(|(_, due)| *due <= scene.now).map(|(slot, _)| Step::Warn { slot }));
    plan.extend(wait);
    plan
}

/// Claims without an address of which nobody was told yet, and when somebody should be.
fn overdue<'a>(survey: &'a Survey, scene: &'a Scene) -> impl Iterator<Item = (Slot, Timestamp)> + 'a {
    let waiting = survey.wants.iter().filter(|(_, want)| matches!(want.state, State::Waiting { .. }));
    waiting.filter(|(slot, _)| !scene.warned.contains(slot)).filter_map(|(slot, _)| {
        let due = scene.claim(*slot)?.created.checked_add(PATIENCE).ok()?;
        Some((*slot, due))
    })
}

/// Claims whose Cluster is not there: those without an owner go after a while, the others are the collector's.
fn orphans(scene: &Scene) -> Vec<Step> {
    let mut plan = Vec::new();
    let mut next: Option<Timestamp> = None;
    for (slot, claim) in claims(scene) {
        let ours = claim.is_ours(slot) && claim.managed;
        if !ours || !claim.owners.is_empty() || claim.deleting || claim.paused {
            continue;
        }
        let due = claim.created.checked_add(scene.config.orphan_ttl).unwrap_or(Timestamp::MAX);
        if due <= scene.now {
            plan.push(Step::Sweep { slot });
        } else {
            next = Some(next.map_or(due, |next| next.min(due)));
        }
    }
    plan.extend(next.map(|until| Step::Wait { until }));
    plan
}

fn claims(scene: &Scene) -> impl Iterator<Item = (Slot, &ClaimFacts)> {
    scene.holdings.iter().filter_map(|(slot, holding)| match holding {
        Holding::Claim { claim, .. } => Some((*slot, claim.as_ref())),
        Holding::Behind => None,
    })
}

/// Every claim of the cluster is owned by it, with a reference that the collector can follow.
fn ownership(snapshot: &Snapshot, cluster: &ClusterFacts) -> Vec<Step> {
    let step = |(slot, claim): (Slot, &ClaimFacts)| {
        if claim.deleting || claim.paused {
            return None;
        }
        match claim.owners.as_slice() {
            [] if claim.is_ours(slot) => Some(Step::Adopt { slot }),
            [owner] if owner.uid == cluster.uid && owner.api_version != snapshot.api_version => {
                Some(Step::Refer { slot })
            }
            _ => None,
        }
    };
    claims(&snapshot.scene).filter_map(step).collect()
}

/// Whether the gate is done with the cluster: what comes now comes late.
fn opened(cluster: &ClusterFacts) -> bool {
    cluster.rendered || cluster.endpoint.is_valid()
}

fn allocation(survey: &Survey, cluster: &ClusterFacts, mandate: Mandate) -> Vec<Step> {
    let mut plan = Vec::new();
    for (slot, want) in &survey.wants {
        let may = mandate == Mandate::All || (slot.role == Role::Ingress && opened(cluster));
        match &want.state {
            State::Unclaimed { pool, tried } if may => {
                plan.push(Step::Claim { slot: *slot, pool: pool.clone(), tried: tried.clone() });
            }
            State::Stuck { better, .. } if may => plan.push(Step::Abandon { slot: *slot, better: better.clone() }),
            _ => {}
        }
    }
    plan
}

/// What stands on the Cluster follows its endpoint; the endpoint itself is only written where no gate is called.
fn write(survey: &Survey, cluster: &ClusterFacts, mandate: Mandate) -> Option<Step> {
    let conflict = survey.rival.is_some() || !survey.faults.is_empty();
    let complete =
        survey.wants.values().filter(|want| want.required).all(|want| matches!(want.state, State::Bound { .. }));
    let goal = match mandate {
        Mandate::All if conflict || !complete => return None,
        Mandate::All => survey.goal.clone(),
        // Before the gate has opened the Cluster is the gate's.
        Mandate::Late if !opened(cluster) => return None,
        Mandate::Late => survey.goal.without_endpoint(),
    };
    let mismatch = survey.wants.values().any(|want| matches!(want.state, State::Mismatch { .. }));
    (!mismatch && !goal.reached(cluster)).then_some(Step::Write { goal })
}

/// Claims that the cluster has but does not need: an ingress that was switched off, once nothing shows it any more, and
/// on request what a manual endpoint never used.
fn release(survey: &Survey, cluster: &ClusterFacts, scene: &Scene) -> Vec<Step> {
    let mut plan = Vec::new();
    // What the user meant is not known while an annotation cannot be read.
    if !survey.faults.is_empty() {
        return plan;
    }
    let noted = |slot: Slot| cluster.annotation(slot.annotation()).and_then(address);
    let shown = |held| cluster.address() == Some(held) || Slot::ALL.into_iter().any(|slot| noted(slot) == Some(held));
    let spare = |slot| scene.bound(slot).is_some_and(|held| !shown(held));
    for slot in Slot::ALL {
        let owned = |claim: &&ClaimFacts| {
            !claim.deleting && claim.owners.iter().all(|o| o.uid == cluster.uid) && !claim.owners.is_empty()
        };
        let Some(claim) = scene.claim(slot).filter(owned) else { continue };
        if survey.wants.contains_key(&slot) {
            continue;
        }
        // An address that the index does not show yet may be the very one in use.
        let unbound = claim.address.is_none();
        match slot.role {
            Role::Ingress => {
                let shown =
                    cluster.annotations.contains_key(slot.annotation()) || cluster.variables.contains_key(&slot);
                let refused = survey.goal.annotations.get(slot.annotation()) == Some(&None);
                if (refused || unbound) && !shown {
                    plan.push(Step::Release { slot, why: "the cluster wants no ingress address" });
                }
            }
            Role::ControlPlane if survey.stance != Stance::Manual => {}
            Role::ControlPlane if unbound => {
                plan.push(Step::Release { slot, why: "the endpoint was chosen by hand before there was an address" });
            }
            Role::ControlPlane if scene.config.release_unused && spare(slot) => {
                plan.push(Step::Release { slot, why: "the endpoint was chosen by hand and never used it" });
            }
            Role::ControlPlane => {}
        }
    }
    plan
}

fn point(survey: &Survey, cluster: &ClusterFacts, scene: &Scene, mandate: Mandate) -> Option<Step> {
    let infrastructure = cluster.infrastructure.clone()?;
    let wanted = mandate == Mandate::All && scene.config.patch_infrastructure && survey.stance != Stance::VipOnly;
    let endpoint = Some(cluster.endpoint.clone()).filter(Endpoint::is_valid)?;
    (wanted && !scene.pointed).then_some(Step::Point { infrastructure, endpoint })
}

/// The next moment at which something could change without anybody telling us.
fn wait(survey: &Survey, cluster: &ClusterFacts, scene: &Scene, mandate: Mandate) -> Option<Step> {
    let times = survey.wants.iter().filter_map(|(slot, want)| match want.state {
        State::Waiting { until: Some(until), .. }
            if mandate == Mandate::All || (slot.role == Role::Ingress && opened(cluster)) =>
        {
            Some(until)
        }
        State::Conflict { address, .. } => turn(scene, *slot, address),
        _ => None,
    });
    let overdue = overdue(survey, scene).map(|(_, due)| due).filter(|due| *due > scene.now);
    times.chain(quiet_until(cluster, scene)).chain(overdue).min().map(|until| Step::Wait { until })
}

/// When this cluster may have an address that another fresh one holds too.
fn turn(scene: &Scene, slot: Slot, held: IpAddr) -> Option<Timestamp> {
    let turns = scene.uses.iter().filter(|found| found.address == held).map(|found| match &found.by {
        User::Rival { claim, since } => scene.turn(slot, claim, *since),
        User::Cluster { .. } | User::Claim(_) => None,
    });
    // All of them must give way.
    turns.collect::<Option<Vec<_>>>()?.into_iter().max().filter(|turn| *turn > scene.now)
}
