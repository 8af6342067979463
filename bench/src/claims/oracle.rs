//! What must be true at the end: one host for a claim, one claim for a host, nothing lost.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::Value;

use super::world::{CLAIMS, HOSTS};
use crate::http::Pool;
use crate::oracle::each;

/// Who holds whom, as the server has it.
#[derive(Debug, Default)]
pub struct Held {
    /// Claim to the host it says it has; empty for a claim without one.
    claims: BTreeMap<String, String>,
    /// Host to the claim it names; empty for a free host.
    hosts: BTreeMap<String, String>,
}

/// Everything that is wrong when `bound` claims should have a host; without a number somebody was stopped amid the work, so that
/// claims may still wait, and hosts may name claims that do not know it yet.
pub async fn judge(pool: &Pool, claims: usize, bound: Option<usize>) -> Result<Vec<String>> {
    let mut held = Held::default();
    let pair = |object: &Value, pointer: &str| {
        let part =
            |name: &str| object.pointer(&format!("{pointer}/{name}")).and_then(Value::as_str).unwrap_or_default();
        if part("name").is_empty() { String::new() } else { format!("{}/{}", part("namespace"), part("name")) }
    };
    each(pool, &CLAIMS.path(), |claim| {
        held.claims.insert(pair(claim, "/metadata"), pair(claim, "/status/bareMetalHost"));
    })
    .await?;
    each(pool, &HOSTS.path(), |host| {
        held.hosts.insert(pair(host, "/metadata"), pair(host, "/spec/consumerRef"));
    })
    .await?;
    Ok(wrong(&held, claims, bound))
}

fn wrong(held: &Held, claims: usize, bound: Option<usize>) -> Vec<String> {
    let mut wrong = Vec::new();
    if held.claims.len() != claims {
        wrong.push(format!("{} claims instead of {claims}", held.claims.len()));
    }
    let with_host = held.claims.values().filter(|host| !host.is_empty()).count();
    if let Some(bound) = bound.filter(|bound| *bound != with_host) {
        wrong.push(format!("{with_host} claims have a host instead of {bound}"));
    }
    let mut taken = BTreeSet::new();
    for (claim, host) in held.claims.iter().filter(|(_, host)| !host.is_empty()) {
        if !taken.insert(host) {
            wrong.push(format!("host {host} has a second claim, {claim}"));
        }
        if held.hosts.get(host) != Some(claim) {
            wrong.push(format!("claim {claim} says it has {host}, which names {:?}", held.hosts.get(host)));
        }
    }
    for (host, claim) in held.hosts.iter().filter(|(_, claim)| !claim.is_empty()) {
        let said = held.claims.get(claim);
        if said != Some(host) && (bound.is_some() || said.is_none_or(|said| !said.is_empty())) {
            wrong.push(format!("host {host} names {claim}, which has {said:?}"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(claims: &[(&str, &str)], hosts: &[(&str, &str)]) -> Held {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Held { claims: map(claims), hosts: map(hosts) }
    }

    #[test]
    fn a_right_world_passes_and_each_harm_is_named() {
        let right = held(&[("t/a", "i/1"), ("t/b", "")], &[("i/1", "t/a"), ("i/2", "")]);
        assert!(wrong(&right, 2, Some(1)).is_empty());
        let says = |held: &Held, claims: usize, bound: usize, part: &str| {
            let found = wrong(held, claims, Some(bound)).join("; ");
            assert!(found.contains(part), "{found}");
        };
        says(&right, 3, 1, "2 claims instead of 3");
        says(&right, 2, 2, "1 claims have a host instead of 2");
        says(&held(&[("t/a", "i/1"), ("t/b", "i/1")], &[("i/1", "t/a")]), 2, 2, "second claim");
        says(&held(&[("t/a", "i/1")], &[("i/1", "t/x")]), 1, 1, "which names Some(\"t/x\")");
        says(&held(&[("t/a", "")], &[("i/1", "t/a")]), 1, 0, "host i/1 names t/a");
        says(&held(&[], &[("i/1", "t/gone")]), 0, 0, "which has None");
    }

    #[test]
    fn whoever_was_stopped_amid_the_work_may_leave_it_undone_but_not_wrong() {
        let half = held(&[("t/a", "i/1"), ("t/b", ""), ("t/c", "")], &[("i/1", "t/a"), ("i/2", "t/b")]);
        assert!(wrong(&half, 3, None).is_empty());
        for harm in [
            held(&[("t/a", "i/1"), ("t/b", "i/1")], &[("i/1", "t/a")]),
            held(&[("t/a", "i/1"), ("t/b", "")], &[("i/1", "t/a"), ("i/2", "t/a")]),
            held(&[("t/a", ""), ("t/b", "")], &[("i/1", "t/gone")]),
        ] {
            assert!(!wrong(&harm, 2, None).is_empty(), "{harm:?}");
        }
    }
}
