//! K1 to K5: whose a claim is, that it has one machine, and that its status tells of it.

use std::sync::{Arc, Mutex, PoisonError};

use api::names::claims::finalizer;
use api::own::Capability;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{HOLD, ONE, TWO, delete, gone, make, nothing, ready};
use crate::contract::script::{CLAIMS, Check, Script, claim, condition, edit, expect, get, put, uid, verify};
use crate::contract::{Kind, Mood, Place, Resource, TENANT, can};

pub(super) fn own_claims_only<K: Kind>(kind: &K) -> Check {
    let foreign = |place: &Place<K>| -> Check {
        let foreign = get(&place.server, "foreign")?;
        let touched = foreign.get("status").is_some_and(|status| *status != json!({}))
            || foreign.pointer("/metadata/finalizers").is_some();
        verify(!touched, || format!("a claim of another kind was touched: {foreign}"))?;
        nothing(kind, place, "foreign")
    };
    let asked = claim(kind, ONE, |_| {})["spec"].clone();
    let unwritten = move |place: &Place<K>| -> Check {
        let Some(now) = place.server.get(CLAIMS, TENANT, ONE) else { return Ok(()) };
        let changed =
            asked.as_object().is_some_and(|asked| asked.iter().any(|(field, value)| now["spec"][field] != *value));
        verify(!changed, || format!("the spec of a claim was written: {}", now["spec"]))
    };
    Script::new(kind)
        .before(|place| {
            put(&place.server, claim(kind, "foreign", |claim| claim["spec"]["kind"] = json!("another-kind")))?;
            put(&place.server, claim(kind, ONE, |claim| claim["metadata"]["finalizers"] = json!([HOLD])))
        })
        .always(unwritten)
        .then(|place| {
            foreign(place)?;
            ready(kind, place, ONE)?;
            delete(&place.server, ONE)
        })
        .then(|place| {
            foreign(place)?;
            let left = get(&place.server, ONE)?["metadata"]["finalizers"].clone();
            verify(left == json!([HOLD]), || format!("of the finalizers {left} is left, not [{HOLD}]"))?;
            nothing(kind, place, ONE)
        })
        .run()
}

pub(super) fn finalizer_first<K: Kind>(kind: &K) -> Check {
    let ours = finalizer(kind.profile().name);
    let held = move |place: &Place<K>| -> Check {
        let claims = place.server.list(CLAIMS, TENANT);
        for resource in kind.resources(place) {
            let held = claims.iter().any(|claim| {
                let finalizers = claim["metadata"]["finalizers"].as_array();
                uid(claim) == resource.claim
                    && finalizers.is_some_and(|all| all.iter().any(|one| *one == ours.as_str()))
            });
            verify(held, || format!("{resource:?} exists and no claim with the finalizer {ours} holds it"))?;
        }
        Ok(())
    };
    Script::new(kind)
        .before(|place| make(kind, place, ONE))
        .always(held)
        .then(|place| {
            ready(kind, place, ONE)?;
            delete(&place.server, ONE)
        })
        .then(|place| gone(&place.server, ONE))
        .run_with_crashes()
}

pub(super) fn one_machine<K: Kind>(kind: &K) -> Check {
    let script = || {
        Script::new(kind)
            .before(|place| {
                make(kind, place, ONE)?;
                make(kind, place, TWO)
            })
            .always(|place| {
                let all = kind.resources(place);
                for one in &all {
                    let same: Vec<&Resource> = all.iter().filter(|other| other.claim == one.claim).collect();
                    verify(same.len() == 1, || format!("one claim has {same:?}"))?;
                }
                Ok(())
            })
            .then(|place| {
                ready(kind, place, ONE)?;
                ready(kind, place, TWO)?;
                delete(&place.server, ONE)
            })
            .then(|place| {
                gone(&place.server, ONE)?;
                let all = kind.resources(place);
                verify(all.len() == 1, || format!("one claim is left, and {all:?}"))
            })
    };
    script().run_with_crashes()?;
    script().run_on_old_news()
}

fn recorded(claim: &Value) -> Option<String> {
    let status = &claim["status"];
    let host = status["bareMetalHost"]["name"].as_str();
    host.or_else(|| status["resourceID"].as_str()).map(str::to_owned)
}

pub(super) fn found_again<K: Kind>(kind: &K) -> Check {
    let first: Mutex<Option<Resource>> = Mutex::new(None);
    let first = &first;
    let named = |place: &Place<K>| -> Result<Resource, String> {
        let one = ready(kind, place, ONE)?;
        let told = recorded(&get(&place.server, ONE)?);
        verify(told.as_deref().is_some_and(|told| told.contains(&one.id)), || {
            format!("the status names {told:?}, not {}", one.id)
        })?;
        Ok(one)
    };
    let restart = Arc::new(Notify::new());
    let again = Arc::clone(&restart);
    let script = Script::new(kind).restarted_by(&restart).before(|place| make(kind, place, ONE)).then(move |place| {
        *first.lock().unwrap_or_else(PoisonError::into_inner) = Some(named(place)?);
        edit(&place.server, ONE, |claim| claim["status"] = json!({}))?;
        again.notify_one();
        Ok(())
    });
    script
        .then(move |place| {
            let now = named(place)?;
            let before = first.lock().unwrap_or_else(PoisonError::into_inner).clone();
            verify(before.as_ref() == Some(&now), || format!("before the status was lost {before:?}, after it {now:?}"))
        })
        .run()
}

pub(super) fn honest_status<K: Kind>(kind: &K) -> Check {
    let settled: Mutex<Value> = Mutex::new(Value::Null);
    let settled = &settled;
    let power = can(kind, Capability::Power);
    let script = Script::new(kind)
        .before(|place| {
            kind.mood(place, Mood::Slow);
            make(kind, place, ONE)
        })
        .then(|place| {
            let claim = get(&place.server, ONE)?;
            for type_ in ["Provisioned", "Ready"] {
                let (status, _) = condition(&claim, type_);
                verify(status == "False" || status == "Unknown", || {
                    format!("{type_} is {status:?} before anything runs; status: {}", claim["status"])
                })?;
            }
            verify(claim["status"]["ready"] != true, || "status.ready is true before anything runs".to_owned())?;
            kind.mood(place, Mood::Well);
            Ok(())
        })
        .then(move |place| {
            ready(kind, place, ONE)?;
            let claim = get(&place.server, ONE)?;
            for type_ in ["Associated", "Synchronized", "Provisioned", "Ready"] {
                expect(&claim, type_, "True", "")?;
            }
            let status = &claim["status"];
            verify(status["ready"] == true, || "status.ready is not true".to_owned())?;
            verify(status["observedGeneration"] == claim["metadata"]["generation"], || {
                format!("status.observedGeneration is {}", status["observedGeneration"])
            })?;
            verify(!power || status["poweredOn"] == true, || "status.poweredOn is not true".to_owned())?;
            verify(status["lastUpdated"].is_string(), || "status.lastUpdated is missing".to_owned())?;
            *settled.lock().unwrap_or_else(PoisonError::into_inner) = claim;
            Ok(())
        });
    let script = script.then(move |place| {
        let (now, before) = (get(&place.server, ONE)?, settled.lock().unwrap_or_else(PoisonError::into_inner).clone());
        verify(now == before, || format!("nothing happened, and the claim changed from {before} to {now}"))
    });
    script.run()
}
