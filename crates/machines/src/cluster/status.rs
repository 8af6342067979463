//! What the status of a Metal3Cluster says.

use api::own::metal3::{Initialization, Metal3ClusterStatus};
use api::reasons::machines::Reason;
use api::reasons::{PAUSED, READY};
use api::status::{find, sort};
use jiff::{RoundMode, TimestampRound, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::conditions::{State, Verdict, fold};

use super::decide::Standing;
use super::observe::Snapshot;

/// The status as it should be, and what each condition says; none when it is not ours to write.
#[must_use]
pub fn status(s: &Snapshot, standing: &Standing) -> Option<(Metal3ClusterStatus, Vec<Verdict>)> {
    let stored = &s.place.status;
    let mut next = stored.clone();
    let mut verdicts = Vec::new();
    match standing {
        Standing::Theirs => return None,
        Standing::Paused => {
            verdicts.push(Verdict::yes(PAUSED, Reason::Paused.as_str(), "The Metal3Cluster or its Cluster is paused."));
            let kept = find(&stored.conditions, READY).and_then(|ready| {
                let known = api::reasons::all().into_iter().find(|entry| entry.reason == ready.reason)?;
                let states = [State::True, State::False, State::Unknown];
                let state = states.into_iter().find(|state| state.as_str() == ready.status)?;
                Some(Verdict::new(READY, state, known.reason, ready.message.clone()))
            });
            let paused = || Verdict::unknown(READY, Reason::Paused.as_str(), "Nobody looks while it is paused.");
            verdicts.push(kept.unwrap_or_else(paused));
        }
        Standing::Waits(reason, message) => {
            verdicts.push(Verdict::no(PAUSED, Reason::NotPaused.as_str(), String::new()));
            verdicts.push(Verdict::no(READY, reason.as_str(), message.clone()));
        }
        Standing::Ready => {
            verdicts.push(Verdict::no(PAUSED, Reason::NotPaused.as_str(), String::new()));
            let text = "The Metal3Cluster has what Cluster API needs of it.";
            verdicts.push(Verdict::yes(READY, Reason::InfrastructureReady.as_str(), text));
            next.failure_domains.clone_from(&s.place.spec.failure_domains);
            next.initialization = Some(Initialization { provisioned: Some(true) });
        }
    }
    let folded = fold(&stored.conditions, &verdicts, s.place.generation, s.now);
    let mut before = stored.conditions.clone();
    sort(&mut before);
    let plain = |status: &Metal3ClusterStatus| Metal3ClusterStatus {
        last_updated: None,
        observed_generation: None,
        conditions: Vec::new(),
        ..status.clone()
    };
    if plain(&next) != plain(stored) || folded.conditions != before {
        let whole = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Floor);
        next.last_updated = Some(Time(s.now.round(whole).unwrap_or(s.now)));
    }
    Some((next, verdicts))
}
