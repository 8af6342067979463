//! Thinks: what the gate answers or does next for one cluster.
//!
//! The gate opens only for a Cluster that, in the request itself, already carries everything we would write. Whatever
//! Cluster API renders next comes from that very copy, so nothing can be rendered without the address. Everything else
//! (a lagging index, a lost update, a restart, another replica) only costs another round.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::config::MissingPool;
use crate::facts::{ClaimFacts, ClusterFacts, PoolName, address};
use crate::goal::Goal;
use crate::hooks::Answer;
use crate::names::{CONTROL_PLANE_ENABLED, Slot};
use crate::scene::{Live, Scene};
use crate::survey::{OPTED_OUT, Stance, State, Survey, UNMANAGED, UNPOOLED, Want, age, survey};
use crate::words::{rivalry, sentence};

/// One effect on a cluster's claims or on the Cluster itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Makes the claim of a slot.
    Claim {
        /// The slot.
        slot: Slot,
        /// The pool to ask.
        pool: PoolName,
        /// The pools that were asked before.
        tried: Vec<PoolName>,
    },
    /// Takes over a claim without an owner.
    Adopt {
        /// The slot.
        slot: Slot,
    },
    /// Gives up a claim without an address, so that another pool can be asked.
    Abandon {
        /// The slot.
        slot: Slot,
        /// The pool to ask instead.
        better: PoolName,
    },
    /// Changes the Cluster.
    Write {
        /// The merge patch.
        patch: Value,
        /// Whether this gives the cluster its endpoint.
        endpoint: bool,
    },
}

/// What comes next in a call of the gate.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The call is over.
    Answer(Answer),
    /// The Cluster must be read from the server.
    Read,
    /// The class and the pools must be read from the server.
    Confirm,
    /// Something must be done.
    Do(Vec<Step>),
    /// Something may happen soon.
    Await,
}

/// Everything the gate decides on.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Cluster inside the request.
    pub asked: ClusterFacts,
    /// The Cluster on the server, if it was read.
    pub live: Live,
    /// What the indexes show.
    pub scene: Scene,
    /// Whether this call has waited as long as it may.
    pub waited: bool,
    /// Whether class and pools were read from the server, not only from indexes.
    pub confirmed: bool,
}

/// After our own write, and while Cluster API has not seen it.
const SOON: u16 = 1;
/// While somebody else has to do something that takes a moment.
const SHORTLY: u16 = 2;
/// While a person has to do something.
const LATER: u16 = 15;

/// While Cluster API has an older copy than the server.
const UNSEEN: &str = "waiting until Cluster API has seen the Cluster as it is now";

/// Decides what comes next.
#[must_use]
pub fn decide(snapshot: &Snapshot) -> Next {
    let Snapshot { asked, live, scene, waited, confirmed } = snapshot;
    let current = match live {
        Live::Unread => asked,
        // Whoever knows the uid has seen the Cluster: then it is gone, not to come.
        Live::Absent if scene.config.preallocate && asked.uid.is_empty() && !asked.deleting => {
            return reserve(asked, scene, *waited, *confirmed);
        }
        Live::Absent => return retry(SHORTLY, "the Cluster does not exist any more"),
        Live::At(live) if !asked.uid.is_empty() && live.facts.uid != asked.uid => {
            return retry(SOON, "another Cluster has taken the name");
        }
        Live::At(live) => &live.facts,
    };
    let survey = survey(current, scene);
    if unsure(&survey, current, scene) && !*confirmed && !current.deleting && !current.paused {
        return Next::Confirm;
    }
    if let Stance::Out(_) = survey.stance {
        // What is rendered next is what was asked about, not what is there now.
        let out = matches!(self::survey(asked, scene).stance, Stance::Out(_));
        return if out { Next::Answer(Answer::open()) } else { retry(SOON, UNSEEN) };
    }
    if let Some(answer) = obstacle(&survey, scene, *waited) {
        return answer;
    }
    let waits = held_back(&survey, current, scene);
    if waits.is_none() && survey.goal.reached(asked) {
        return if renders(&survey.goal, asked) { Next::Answer(Answer::open()) } else { retry(SOON, UNSEEN) };
    }
    let steps = claims(&survey, current, scene);
    // A request without uid may be about another Cluster than the claims are; otherwise there is nothing to read while
    // there is nothing to do but to wait.
    let unknown = asked.uid.is_empty() && matches!(live, Live::Unread);
    if let Some((slot, want)) = waits
        && steps.is_empty()
        && !unknown
    {
        let stuck = matches!(want.state, State::Exhausted { .. });
        return match *waited || stuck {
            false => Next::Await,
            true => retry(pace(want, scene.claim(slot), scene.now), &sentence(slot, want, scene)),
        };
    }
    let Live::At(live) = live else { return Next::Read };
    if !steps.is_empty() {
        return Next::Do(steps);
    }
    match survey.goal.patch(&live.facts, &live.variables) {
        Some(patch) => {
            let endpoint = !live.facts.endpoint.is_valid() && survey.goal.endpoint.is_some();
            Next::Do(vec![Step::Write { patch, endpoint }])
        }
        None => retry(SOON, "waiting until Cluster API has seen the address on the Cluster"),
    }
}

/// Whether what is rendered from this copy has the host that the Cluster is to have. An endpoint that is there is never
/// replaced, so one that somebody has changed since is waited for.
fn renders(goal: &Goal, asked: &ClusterFacts) -> bool {
    let same = |host: &str| {
        host == asked.endpoint.host || address(host).is_some_and(|a| address(&asked.endpoint.host) == Some(a))
    };
    goal.endpoint.as_ref().is_none_or(|endpoint| same(&endpoint.host))
}

/// Cluster API has found the class, and pools may be as new as the Cluster: an index that does not show them is behind.
/// So it may be when it shows that the class, and not the Cluster itself, opted out.
fn unsure(survey: &Survey, cluster: &ClusterFacts, scene: &Scene) -> bool {
    match survey.stance {
        Stance::Out(UNMANAGED | UNPOOLED) => true,
        Stance::Out(OPTED_OUT) => cluster.annotation(CONTROL_PLANE_ENABLED) != Some("false"),
        _ => scene.class.is_none(),
    }
}

/// Claims what a Cluster will need that does not exist yet; the rest waits for it.
fn reserve(asked: &ClusterFacts, scene: &Scene, waited: bool, confirmed: bool) -> Next {
    let survey = survey(asked, scene);
    if unsure(&survey, asked, scene) && !confirmed {
        return Next::Confirm;
    }
    if let Stance::Out(_) = survey.stance {
        return Next::Answer(Answer::open());
    }
    if let Some(answer) = obstacle(&survey, scene, waited) {
        return answer;
    }
    let mut steps = claims(&survey, asked, scene);
    steps.retain(|step| matches!(step, Step::Claim { .. }));
    if steps.is_empty() { retry(SHORTLY, "the address is claimed; waiting for the Cluster") } else { Next::Do(steps) }
}

/// The steps that lead to an address for every slot that the cluster waits for. The others are the housekeeper's: what
/// becomes of them must not hold the cluster back.
fn claims(survey: &Survey, cluster: &ClusterFacts, scene: &Scene) -> Vec<Step> {
    let step = |(slot, want): (&Slot, &Want)| match &want.state {
        State::Unclaimed { pool, tried } => Some(Step::Claim { slot: *slot, pool: pool.clone(), tried: tried.clone() }),
        State::Unowned => Some(Step::Adopt { slot: *slot }),
        State::Stuck { better, .. } => Some(Step::Abandon { slot: *slot, better: better.clone() }),
        _ => None,
    };
    let waits = |(slot, want): &(&Slot, &Want)| {
        want.required || want.holds_back(scene.claim(**slot), cluster.created, scene.now)
    };
    survey.wants.iter().filter(waits).filter_map(step).collect()
}

/// What only a person can clear away, or an earlier claim that has to go first.
fn obstacle(survey: &Survey, scene: &Scene, waited: bool) -> Option<Next> {
    if let Some(fault) = survey.faults.first() {
        return Some(retry(LATER, &fault.to_string()));
    }
    if let Some(rival) = &survey.rival {
        return Some(retry(LATER, &rivalry(rival)));
    }
    let required = survey.wants.iter().filter(|(_, want)| want.required);
    for (slot, want) in required {
        let text = || sentence(*slot, want, scene);
        match &want.state {
            State::NoPool { .. } if scene.config.missing_pool == MissingPool::Fail => {
                return Some(Next::Answer(Answer::refuse(text())));
            }
            // An ingress address that is shown without a claim was given by hand, or is nothing a wait would bring back.
            State::Missing { .. } if slot.role == crate::names::Role::Ingress => {}
            // This replica's index may only be behind the one that made the claim.
            State::Missing { .. } | State::Mismatch { .. } if !waited => return Some(Next::Await),
            State::NoPool { .. }
            | State::Foreign { .. }
            | State::Conflict { .. }
            | State::Mismatch { .. }
            | State::Missing { .. } => return Some(retry(LATER, &text())),
            State::Leaving if waited => return Some(retry(SHORTLY, &text())),
            _ => {}
        }
    }
    None
}

/// The first slot that the cluster must still wait for.
fn held_back<'a>(survey: &'a Survey, cluster: &ClusterFacts, scene: &Scene) -> Option<(Slot, &'a Want)> {
    let holds = |(slot, want): &(&Slot, &Want)| {
        let given = matches!(want.state, State::Missing { .. }) && slot.role == crate::names::Role::Ingress;
        !given && want.holds_back(scene.claim(**slot), cluster.created, scene.now)
    };
    survey.wants.iter().find(holds).map(|(slot, want)| (*slot, want))
}

/// How soon to look again, by how long the claim has waited.
fn pace(want: &Want, claim: Option<&ClaimFacts>, now: Timestamp) -> u16 {
    if matches!(want.state, State::Exhausted { .. }) {
        return LATER;
    }
    match claim.map_or(Duration::ZERO, |claim| age(claim, now)) {
        age if age < Duration::from_secs(30) => 2,
        age if age < Duration::from_secs(120) => 5,
        _ => 10,
    }
}

fn retry(seconds: u16, message: &str) -> Next {
    Next::Answer(Answer::retry(seconds, message))
}
