//! When the status of a claim last changed.

use api::own::HostClaimStatus;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::conditions::{Verdict, fold, ours};

/// The time of the last real change of a claim's status: now, unless everything is as stored.
#[must_use]
pub fn last_updated(
    stored: &HostClaimStatus,
    next: &HostClaimStatus,
    verdicts: &[Verdict],
    generation: i64,
    now: Timestamp,
) -> Option<Time> {
    let plain = |status: &HostClaimStatus| HostClaimStatus {
        last_updated: None,
        observed_generation: None,
        conditions: Vec::new(),
        ..status.clone()
    };
    let folded = fold(&stored.conditions, verdicts, generation, now);
    let same = plain(next) == plain(stored) && ours(&folded.conditions, verdicts) == ours(&stored.conditions, verdicts);
    if same { stored.last_updated.clone() } else { Some(Time(now)) }
}

#[cfg(test)]
mod tests {
    use kit::conditions::Verdict;

    use super::*;

    #[test]
    fn only_a_change_moves_the_time() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let verdicts = [Verdict::yes("Ready", "Ready", "It is.")];
        let next = HostClaimStatus { ready: true, ..HostClaimStatus::default() };
        let first = last_updated(&HostClaimStatus::default(), &next, &verdicts, 1, at(10));
        assert_eq!(first, Some(Time(at(10))));
        let conditions = fold(&[], &verdicts, 1, at(10)).conditions;
        let stored = HostClaimStatus { last_updated: first.clone(), conditions, ..next.clone() };
        assert_eq!(last_updated(&stored, &next, &verdicts, 1, at(20)), first);
        // Whatever else others wrote beside our conditions is no change of ours.
        let mut shared = stored.clone();
        shared.conditions.extend(fold(&[], &[Verdict::yes("Theirs", "Yes", "")], 1, at(15)).conditions);
        assert_eq!(last_updated(&shared, &next, &verdicts, 1, at(20)), first);
        for (status, words, generation) in
            [(HostClaimStatus::default(), "It is.", 1), (next.clone(), "It is so.", 1), (next, "It is.", 2)]
        {
            let verdicts = [Verdict::yes("Ready", "Ready", words)];
            let moved = last_updated(&stored, &status, &verdicts, generation, at(20));
            assert_eq!(moved, Some(Time(at(20))), "{words} {generation}");
        }
    }
}
