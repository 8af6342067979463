//! K6 to K9: what the claim asks for, until it is gone.

use std::sync::{Mutex, PoisonError};

use api::names::claims::{REBOOT_ANNOTATION, finalizer};
use api::own::Capability;
use serde_json::{Value, json};

use super::{ONE, TWO, delete, gone, idle, make, ready};
use crate::contract::script::{Check, Script, claim, edit, expect, get, put, secret, sole, verify};
use crate::contract::{DATA, Kind, Mood, Place, TENANT, can};

pub(super) fn as_asked<K: Kind>(kind: &K, skipped: &mut Vec<String>) -> Check {
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

pub(super) fn power<K: Kind>(kind: &K, skipped: &mut Vec<String>) -> Check {
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

pub(super) fn reboot<K: Kind>(kind: &K, skipped: &mut Vec<String>) -> Check {
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

pub(super) fn proven_gone<K: Kind>(kind: &K) -> Check {
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
