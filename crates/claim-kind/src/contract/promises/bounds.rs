//! K10 to K15: what a kind must not do.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::names::{CLUSTER_NAME_LABEL, PAUSED_ANNOTATION};
use api::own::Capability;
use serde_json::{Value, json};
use sim::server::Server;

use super::{ONE, TWO, delete, gone, make, nothing, ready};
use crate::contract::script::{CLAIMS, Check, Script, claim, condition, edit, expect, get, owned, put, verify};
use crate::contract::{Kind, Mood, OTHER, Place, TENANT, can};

pub(super) fn own_credentials<K: Kind>(kind: &K, skipped: &mut Vec<String>) -> Check {
    let Some(argument) = kind.credentials() else {
        skipped.push("claims name no credentials".to_owned());
        return Ok(());
    };
    let named = |name: &'static str, value: String| {
        claim(kind, name, move |claim| claim["spec"]["args"][argument] = json!(value))
    };
    Script::new(kind)
        .before(|place| {
            put(&place.server, kind.account(place, OTHER, "theirs"))?;
            put(&place.server, named(ONE, "theirs".to_owned()))?;
            put(&place.server, named(TWO, format!("{OTHER}/theirs")))
        })
        .then(|place| {
            for name in [ONE, TWO] {
                nothing(kind, place, name)?;
                let ready = condition(&get(&place.server, name)?, "Ready").0;
                verify(ready == "False", || format!("{name} is Ready={ready:?} with credentials of another tenant"))?;
            }
            put(&place.server, kind.account(place, TENANT, "theirs"))
        })
        .then(|place| ready(kind, place, ONE).map(drop))
        .run()
}

pub(super) fn failure_domain<K: Kind>(kind: &K, skipped: &mut Vec<String>) -> Check {
    if !can(kind, Capability::FailureDomain) {
        skipped.push("there are no failure domains".to_owned());
        return Ok(());
    }
    let within = |name: &str, zone: &str| {
        claim(kind, name, |claim| {
            claim["spec"]["failureDomain"] = json!(zone);
            claim["spec"]["failureDomainMode"] = json!("Required");
        })
    };
    Script::new(kind)
        .before(|place| {
            put(&place.server, within(ONE, "atlantis"))?;
            put(&place.server, within(TWO, kind.zone()))
        })
        .then(|place| {
            nothing(kind, place, ONE)?;
            expect(&get(&place.server, ONE)?, "Associated", "False", "FailureDomainExhausted")?;
            ready(kind, place, TWO)?;
            let placed = get(&place.server, TWO)?["status"]["failureDomain"].clone();
            verify(placed == kind.zone(), || format!("status.failureDomain is {placed}, not {}", kind.zone()))
        })
        .run()
}

/// A claim of a kind that nobody tested here knows, with a machine.
const ELSEWHERE: &str = "elsewhere";

pub(super) fn quota<K: Kind>(kind: &K) -> Check {
    quota_of_one(kind)?;
    quota_of_all(kind)
}

fn small(server: &Server) -> Check {
    put(
        server,
        json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimQuota", "metadata": {"name": "small"},
            "spec": {"tenants": {"names": [TENANT]}, "hard": {"hosts": 1}},
        }),
    )
}

/// What a claim of another kind holds leaves no room, until it is given back.
fn quota_of_all<K: Kind>(kind: &K) -> Check {
    let full = |place: &Place<K>| place.server.get(CLAIMS, TENANT, ELSEWHERE).is_some();
    Script::new(kind)
        .before(|place| {
            small(&place.server)?;
            let other = claim(kind, ELSEWHERE, |claim| {
                claim["spec"] = json!({"poweredOn": true, "kind": "another-kind"});
                claim["status"] = json!({"resourceID": "m-1", "provisioningState": "Provisioned"});
            });
            put(&place.server, other)?;
            make(kind, place, ONE)
        })
        .always(move |place| {
            let all = kind.resources(place);
            verify(all.is_empty() || !full(place), || {
                format!("the quota allows one machine, which another kind has, and there are {all:?}")
            })
        })
        .then(move |place| {
            nothing(kind, place, ONE)?;
            expect(&get(&place.server, ONE)?, "Associated", "False", "QuotaExceeded")?;
            delete(&place.server, ELSEWHERE)
        })
        .then(move |place| ready(kind, place, ONE).map(drop))
        .run()
}

fn quota_of_one<K: Kind>(kind: &K) -> Check {
    let split = |place: &Place<K>| -> Result<(&'static str, &'static str), String> {
        let (one, two) = (owned(kind, place, ONE)?.len(), owned(kind, place, TWO)?.len());
        match (one, two) {
            (1, 0) => Ok((ONE, TWO)),
            (0, 1) => Ok((TWO, ONE)),
            _ => Err(format!("the quota allows one machine; the two claims have {one} and {two}")),
        }
    };
    Script::new(kind)
        .before(|place| {
            small(&place.server)?;
            make(kind, place, ONE)?;
            make(kind, place, TWO)
        })
        .always(move |place| {
            let all = kind.resources(place);
            verify(all.len() <= 1, || format!("the quota allows one machine, and there are {all:?}"))
        })
        .then(move |place| {
            let (winner, loser) = split(place)?;
            ready(kind, place, winner)?;
            expect(&get(&place.server, loser)?, "Associated", "False", "QuotaExceeded")?;
            delete(&place.server, winner)
        })
        .then(move |place| {
            let left = if place.server.get(CLAIMS, TENANT, ONE).is_some() { ONE } else { TWO };
            ready(kind, place, left).map(drop)
        })
        .run()
}

pub(super) fn patience<K: Kind>(kind: &K) -> Check {
    /// A back-off from 5 seconds to 5 minutes asks about 20 times in an hour; a few calls per look are allowed.
    const MOST: usize = 100;
    let counted: Mutex<(usize, i64)> = Mutex::new((0, 0));
    let counted = &counted;
    let note = move |place: &Place<K>| {
        let now = (kind.calls(place), (place.clock)().as_second());
        std::mem::replace(&mut *counted.lock().unwrap_or_else(PoisonError::into_inner), now)
    };
    let few = move |place: &Place<K>, when: &str| -> Check {
        let (before, since) = note(place);
        let (calls, seconds) = (kind.calls(place) - before, (place.clock)().as_second() - since);
        let most = MOST * usize::try_from(seconds / 3600 + 1).unwrap_or(usize::MAX);
        verify(calls <= most, || format!("{calls} calls in {seconds} s {when}"))
    };
    Script::new(kind)
        .settled_after(Duration::from_secs(3600))
        .before(move |place| {
            kind.mood(place, Mood::Failing);
            note(place);
            make(kind, place, ONE)
        })
        .then(move |place| few(place, "while the platform fails"))
        .then(move |place| {
            few(place, "while the platform fails")?;
            kind.mood(place, Mood::Well);
            Ok(())
        })
        .then(move |place| {
            ready(kind, place, ONE)?;
            note(place);
            Ok(())
        })
        .then(move |place| few(place, "while nothing happens"))
        .run()
}

pub(super) fn pause<K: Kind>(kind: &K) -> Check {
    paused(kind, |place, on| {
        edit(&place.server, ONE, |claim| {
            let annotations = &mut claim["metadata"]["annotations"];
            if on {
                annotations[PAUSED_ANNOTATION] = json!("");
            } else if let Some(annotations) = annotations.as_object_mut() {
                annotations.remove(PAUSED_ANNOTATION);
            }
        })
    })
    .map_err(|why| format!("with the claim paused: {why}"))?;
    paused(kind, |place, on| put(&place.server, cluster(on))).map_err(|why| format!("with the cluster paused: {why}"))
}

fn cluster(paused: bool) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"namespace": TENANT, "name": "village"}, "spec": {"paused": paused},
    })
}

fn paused<K: Kind>(kind: &K, set: impl Fn(&Place<K>, bool) -> Check + Send + Sync) -> Check {
    let (seen, set) = (Mutex::new((Vec::new(), Value::Null)), &set);
    let seen = &seen;
    let still = move |place: &Place<K>, when: &str| -> Check {
        let (was, asked) = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (is, claim) = (kind.resources(place), get(&place.server, ONE)?);
        verify(was == is, || format!("{when} and while paused, {was:?} became {is:?}"))?;
        let kept = claim["metadata"]["finalizers"] == asked;
        verify(kept, || format!("{when} and while paused, the finalizers became {}", claim["metadata"]["finalizers"]))
    };
    Script::new(kind)
        .before(|place| {
            put(&place.server, cluster(false))?;
            put(&place.server, claim(kind, ONE, |c| c["metadata"]["labels"] = json!({CLUSTER_NAME_LABEL: "village"})))
        })
        .then(|place| {
            ready(kind, place, ONE)?;
            set(place, true)
        })
        .then(|place| {
            let finalizers = get(&place.server, ONE)?["metadata"]["finalizers"].clone();
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = (kind.resources(place), finalizers);
            edit(&place.server, ONE, |claim| claim["spec"]["poweredOn"] = json!(false))
        })
        .then(move |place| {
            still(place, "after power was changed")?;
            let born = |claim: &mut Value| {
                claim["metadata"]["annotations"] = json!({PAUSED_ANNOTATION: ""});
            };
            put(&place.server, claim(kind, TWO, born))
        })
        .then(move |place| {
            nothing(kind, place, TWO)?;
            delete(&place.server, ONE)
        })
        .then(move |place| {
            still(place, "after it was deleted")?;
            set(place, false)
        })
        .then(|place| gone(&place.server, ONE))
        .run()
}

pub(super) fn discretion<K: Kind>(kind: &K) -> Check {
    let words = kind.sensitive();
    Script::new(kind)
        .before(|place| {
            kind.mood(place, Mood::Failing);
            make(kind, place, ONE)
        })
        .then(|place| {
            let claim = get(&place.server, ONE)?;
            let ready = condition(&claim, "Ready").0;
            verify(ready == "False", || format!("the platform fails and Ready is {ready:?}: {}", claim["status"]))?;
            let mut shown = place.server.list("events.events.k8s.io", TENANT);
            shown.push(claim);
            for text in shown.iter().map(Value::to_string) {
                for word in &words {
                    verify(!text.contains(word.as_str()), || format!("a tenant can read {word:?} in {text}"))?;
                }
            }
            kind.mood(place, Mood::Well);
            Ok(())
        })
        .then(|place| ready(kind, place, ONE).map(drop))
        .run()
}
