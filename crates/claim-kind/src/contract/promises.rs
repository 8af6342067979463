//! The promises, each with its test.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::names::claims::{REBOOT_ANNOTATION, finalizer};
use api::names::{CLUSTER_NAME_LABEL, PAUSED_ANNOTATION};
use api::own::Capability;
use serde_json::{Value, json};
use sim::server::Server;
use tokio::sync::Notify;

use super::script::{
    CLAIMS, Check, Script, claim, condition, edit, expect, get, owned, put, secret, sole, uid, verify,
};
use super::{Broken, DATA, Kept, Kind, Mood, OTHER, Place, Resource, TENANT, can};

/// One promise of every kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Its number.
    pub number: &'static str,
    /// What is promised.
    pub words: &'static str,
}

const fn promise(number: &'static str, words: &'static str) -> Promise {
    Promise { number, words }
}

/// All of them.
pub const PROMISES: [Promise; 15] = [
    promise("K1", "a controller acts on claims of its kind only, never writes a spec and removes no other finalizer"),
    promise("K2", "the finalizer is stored before the first effect outside, and removed when none is left"),
    promise("K3", "a claim has at most one machine, across crashes and old news"),
    promise("K4", "the status names the machine, and without a status the machine is found again"),
    promise("K5", "conditions and status say what is, and change only when that does"),
    promise("K6", "what was asked for runs, with its data, or nothing does"),
    promise("K7", "power follows the claim, or the claim says that it cannot"),
    promise("K8", "a reboot happens once, or an event says that it cannot"),
    promise("K9", "a claim goes when its machine is proven gone, and not before"),
    promise("K10", "credentials come from the claim's own namespace"),
    promise("K11", "a required failure domain is kept, or the claim waits"),
    promise("K12", "quotas hold before anything is made"),
    promise("K13", "nothing is asked again and again without a pause"),
    promise("K14", "nothing is changed while the claim or its cluster is paused"),
    promise("K15", "a tenant reads no endpoint, credential or other tenant's name"),
];

impl Promise {
    /// Tests it.
    ///
    /// # Errors
    /// What was seen instead.
    pub fn test<K: Kind>(&self, kind: &K) -> Result<Kept, Broken> {
        let mut skipped = Vec::new();
        let found = match self.number {
            "K1" => own_claims_only(kind),
            "K2" => finalizer_first(kind),
            "K3" => one_machine(kind),
            "K4" => found_again(kind),
            "K5" => honest_status(kind),
            "K6" => as_asked(kind, &mut skipped),
            "K7" => power(kind, &mut skipped),
            "K8" => reboot(kind, &mut skipped),
            "K9" => proven_gone(kind),
            "K10" => own_credentials(kind, &mut skipped),
            "K11" => failure_domain(kind, &mut skipped),
            "K12" => quota(kind),
            "K13" => patience(kind),
            "K14" => pause(kind),
            _ => discretion(kind),
        };
        let kind = kind.profile().name;
        found.map_err(|why| Broken { promise: self.number, words: self.words, kind, why })?;
        Ok(if skipped.is_empty() { Kept::Whole } else { Kept::Except(skipped) })
    }
}

const ONE: &str = "one";
const TWO: &str = "two";
const HOLD: &str = "example.org/hold";

fn make<K: Kind>(kind: &K, place: &Place<K>, name: &str) -> Check {
    put(&place.server, claim(kind, name, |_| {}))
}

fn delete(server: &Server, name: &str) -> Check {
    verify(server.delete(CLAIMS, TENANT, name), || format!("the claim {name} was not there to be deleted"))
}

fn ready<K: Kind>(kind: &K, place: &Place<K>, name: &str) -> Result<Resource, String> {
    expect(&get(&place.server, name)?, "Ready", "True", "")?;
    let one = sole(kind, place, name)?;
    verify(one.running, || format!("the claim {name} is Ready and {one:?} does not run"))?;
    Ok(one)
}

fn gone(server: &Server, name: &str) -> Check {
    match server.get(CLAIMS, TENANT, name) {
        None => Ok(()),
        Some(claim) => Err(format!("the deleted claim {name} is still there: {claim}")),
    }
}

fn nothing<K: Kind>(kind: &K, place: &Place<K>, name: &str) -> Check {
    let all = owned(kind, place, name)?;
    verify(all.is_empty(), || format!("the claim {name} must not have {all:?}"))
}

fn idle<K: Kind>(kind: &K, place: &Place<K>, name: &str) -> Check {
    let all: Vec<Resource> = owned(kind, place, name)?.into_iter().filter(|one| one.running).collect();
    verify(all.is_empty(), || format!("for the claim {name} nothing may run, but {all:?}"))
}

fn own_claims_only<K: Kind>(kind: &K) -> Check {
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

fn finalizer_first<K: Kind>(kind: &K) -> Check {
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

fn one_machine<K: Kind>(kind: &K) -> Check {
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

fn found_again<K: Kind>(kind: &K) -> Check {
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

fn honest_status<K: Kind>(kind: &K) -> Check {
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

fn as_asked<K: Kind>(kind: &K, skipped: &mut Vec<String>) -> Check {
    let parts = [
        ("userData", Capability::UserData),
        ("metaData", Capability::MetaData),
        ("networkData", Capability::NetworkData),
    ];
    let (carried, refused): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(_, capability)| can(kind, *capability));
    let carried: Vec<&str> = carried.into_iter().map(|(field, _)| field).collect();
    if carried.is_empty() {
        skipped.push("no data reaches the guest".to_owned());
    } else {
        let with_data = |claim: &mut Value| {
            for field in &carried {
                claim["spec"][*field] = json!({"name": "later"});
            }
        };
        Script::new(kind)
            .before(|place| put(&place.server, claim(kind, ONE, with_data)))
            .then(|place| {
                idle(kind, place, ONE)?;
                expect(&get(&place.server, ONE)?, "Synchronized", "False", "")?;
                put(&place.server, secret(TENANT, "later"))
            })
            .then(|place| {
                let one = ready(kind, place, ONE)?;
                for field in &carried {
                    let wanted = format!("{field} of the tenant");
                    verify(one.data.get(*field) == Some(&wanted), || format!("{field} did not reach {one:?}"))?;
                }
                Ok(())
            })
            .run()?;
    }
    for (field, _) in refused {
        skipped.push(format!("{field} cannot be carried, so a claim with it must be refused"));
        Script::new(kind)
            .before(|place| put(&place.server, claim(kind, ONE, |claim| claim["spec"][field] = json!({"name": DATA}))))
            .then(|place| {
                idle(kind, place, ONE)?;
                expect(&get(&place.server, ONE)?, "Synchronized", "False", "UnsupportedData")
            })
            .run()?;
    }
    if can(kind, Capability::Image) {
        Script::new(kind)
            .before(|place| make(kind, place, ONE))
            .then(|place| {
                let (one, asked) = (ready(kind, place, ONE)?, kind.spec()["image"]["url"].clone());
                verify(json!(one.image) == asked, || format!("{asked} was asked for, and {one:?} runs"))
            })
            .run()?;
    }
    let Some(image) = kind.bad_image() else {
        skipped.push("every image can be deployed".to_owned());
        return Ok(());
    };
    Script::new(kind)
        .before(|place| put(&place.server, claim(kind, ONE, |claim| claim["spec"]["image"] = image.clone())))
        .then(|place| {
            idle(kind, place, ONE)?;
            expect(&get(&place.server, ONE)?, "Synchronized", "False", "UnsupportedImage")
        })
        .run()
}

fn power<K: Kind>(kind: &K, skipped: &mut Vec<String>) -> Check {
    let switch = |place: &Place<K>, on: bool| edit(&place.server, ONE, |claim| claim["spec"]["poweredOn"] = json!(on));
    let script = Script::new(kind).before(|place| make(kind, place, ONE)).then(|place| {
        let one = ready(kind, place, ONE)?;
        verify(one.powered, || format!("{one:?} was to be on"))?;
        switch(place, false)
    });
    if !can(kind, Capability::Power) {
        skipped.push("machines cannot be switched off, so a claim that asks for it must be told".to_owned());
        return script
            .then(|place| expect(&get(&place.server, ONE)?, "Synchronized", "False", "UnsupportedPowerState"))
            .run();
    }
    let follows = |place: &Place<K>, on: bool| -> Check {
        let (one, told) = (sole(kind, place, ONE)?, get(&place.server, ONE)?["status"]["poweredOn"].clone());
        verify(one.powered == on && told == on, || format!("power was to be {on}; {one:?}, and the status says {told}"))
    };
    script
        .then(|place| {
            follows(place, false)?;
            switch(place, true)
        })
        .then(|place| follows(place, true))
        .run()
}

fn reboot<K: Kind>(kind: &K, skipped: &mut Vec<String>) -> Check {
    let before: Mutex<u32> = Mutex::new(0);
    let before = &before;
    let capable = can(kind, Capability::Reboot);
    let script = Script::new(kind).before(|place| make(kind, place, ONE)).then(move |place| {
        *before.lock().unwrap_or_else(PoisonError::into_inner) = ready(kind, place, ONE)?.reboots;
        edit(&place.server, ONE, |claim| claim["metadata"]["annotations"][REBOOT_ANNOTATION] = json!(""))
    });
    let withdrawn = |place: &Place<K>| -> Check {
        let claim = get(&place.server, ONE)?;
        let asked = claim["metadata"]["annotations"].get(REBOOT_ANNOTATION).is_some();
        verify(!asked, || "the request to reboot is still on the claim".to_owned())
    };
    if capable {
        return script
            .then(move |place| {
                withdrawn(place)?;
                let first = *before.lock().unwrap_or_else(PoisonError::into_inner);
                let times = i64::from(sole(kind, place, ONE)?.reboots) - i64::from(first);
                verify(times == 1, || format!("one reboot was asked for and {times} happened"))
            })
            .run_with_crashes();
    }
    skipped.push("machines cannot be rebooted, so a claim that asks for it must be told".to_owned());
    script
        .then(|place| {
            withdrawn(place)?;
            let told = place.server.list("events.events.k8s.io", TENANT);
            let told = told.iter().any(|event| event["reason"] == "RebootUnsupported");
            verify(told, || "no event RebootUnsupported was sent".to_owned())
        })
        .run()
}

fn proven_gone<K: Kind>(kind: &K) -> Check {
    let waits = |place: &Place<K>| -> Check {
        let claim = get(&place.server, ONE)
            .map_err(|_| "the claim went while its machine was still being destroyed".to_owned())?;
        let ours = finalizer(kind.profile().name);
        let held =
            claim["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|one| *one == ours.as_str()));
        verify(held, || format!("the finalizer {ours} went while the machine was still being destroyed"))?;
        sole(kind, place, ONE).map(drop)
    };
    Script::new(kind)
        .before(|place| {
            make(kind, place, ONE)?;
            make(kind, place, TWO)
        })
        .then(|place| {
            ready(kind, place, ONE)?;
            kind.mood(place, Mood::Slow);
            delete(&place.server, ONE)
        })
        .then(|place| {
            waits(place)?;
            kind.mood(place, Mood::Well);
            Ok(())
        })
        .then(|place| {
            gone(&place.server, ONE)?;
            let two = ready(kind, place, TWO)?;
            let all = kind.resources(place);
            verify(all == [two.clone()], || format!("only {two:?} should be left of {all:?}"))?;
            kind.lose(place, &two.id);
            delete(&place.server, TWO)
        })
        .then(|place| gone(&place.server, TWO))
        .run()
}

fn own_credentials<K: Kind>(kind: &K, skipped: &mut Vec<String>) -> Check {
    let Some(argument) = kind.credentials() else {
        skipped.push("claims name no credentials".to_owned());
        return Ok(());
    };
    let named = |name: &'static str, value: String| {
        claim(kind, name, move |claim| claim["spec"]["args"][argument] = json!(value))
    };
    Script::new(kind)
        .before(|place| {
            put(&place.server, secret(OTHER, "theirs"))?;
            put(&place.server, named(ONE, "theirs".to_owned()))?;
            put(&place.server, named(TWO, format!("{OTHER}/theirs")))
        })
        .then(|place| {
            for name in [ONE, TWO] {
                nothing(kind, place, name)?;
                let ready = condition(&get(&place.server, name)?, "Ready").0;
                verify(ready == "False", || format!("{name} is Ready={ready:?} with credentials of another tenant"))?;
            }
            put(&place.server, secret(TENANT, "theirs"))
        })
        .then(|place| ready(kind, place, ONE).map(drop))
        .run()
}

fn failure_domain<K: Kind>(kind: &K, skipped: &mut Vec<String>) -> Check {
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

fn quota<K: Kind>(kind: &K) -> Check {
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
            put(
                &place.server,
                json!({
                    "apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimQuota", "metadata": {"name": "small"},
                    "spec": {"tenants": {"names": [TENANT]}, "hard": {"hosts": 1}},
                }),
            )?;
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

fn patience<K: Kind>(kind: &K) -> Check {
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

fn pause<K: Kind>(kind: &K) -> Check {
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

fn discretion<K: Kind>(kind: &K) -> Check {
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
