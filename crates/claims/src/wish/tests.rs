//! A wish that was granted asks for nothing more, and a host that leaves is as its owner had it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use api::views::BareMetalHost;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn host(body: &Value) -> HostFacts {
    HostFacts::of(serde_json::from_value::<BareMetalHost>(body.clone()).unwrap())
}

/// What a merge patch makes of an object.
fn merge(target: &mut Value, patch: &Value) {
    json_patch::merge(target, patch);
}

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "node-hc-12345678-userdata"]).prop_map(str::to_owned)
}

fn secret() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        text().prop_map(|name| json!({"name": name})),
        text().prop_map(|name| json!({"name": name, "namespace": "infra"})),
    ]
}

prop_compose! {
    fn any_host()(
        online in any::<bool>(), fixed in any::<bool>(), user in secret(), meta in secret(), network in secret(),
        cleaning in prop::option::of(prop::sample::select(vec!["metadata", "disabled"])),
        image in prop::option::of(text()), custom in prop::option::of(text()), foreign in any::<bool>(),
        marks in prop::collection::btree_map(prop::sample::select(vec![
            names::DETACHED_ANNOTATION, names::HOST_PAUSED_ANNOTATION, names::REBOOT_ANNOTATION, names::REUSE_GROUP_ANNOTATION,
            names::BLOCK_MOVE_ANNOTATION, "reboot.metal3.io/admin", "team",
        ]), prop::sample::select(vec!["", names::DETACHED_BY_CLAIM, names::HOST_PAUSED_BY_CLAIM, "x"]), 0..5),
    ) -> Value {
        let mut body = json!({
            "metadata": {"name": "node", "namespace": "infra", "uid": "h", "annotations": marks},
            "spec": {
                "online": online, "disablePowerOff": fixed, "userData": user, "metaData": meta, "networkData": network,
                "automatedCleaningMode": cleaning,
                "image": image.map(|url| json!({"url": url})), "customDeploy": custom.map(|method| json!({"method": method})),
            },
        });
        if foreign {
            body["metadata"]["labels"] = json!({names::NODE_REUSE_LABEL: "hc-x"});
        }
        body
    }
}

fn claim() -> Consumer {
    Consumer {
        group: "metal3.io".into(),
        kind: "HostClaim".into(),
        namespace: "t".into(),
        name: "c".into(),
        uid: "u".into(),
    }
}

fn at() -> impl Strategy<Value = Data> {
    let place = SecretRef { name: "node-hc-00000000-userdata".into(), namespace: Some("infra".into()) };
    prop_oneof![Just(Data::Default), Just(Data::AsIs), Just(Data::At(place))]
}

prop_compose! {
    fn any_stay()(
        online in any::<bool>(), user in at(), meta in at(), network in at(),
        payload in prop_oneof![
            Just(Payload::Nothing), Just(Payload::AsIs), Just(Payload::Custom("method".into())),
            Just(Payload::Image(Image { url: "https://images/one".into(), ..Image::default() })),
        ],
        cleaning in prop::option::of(Just(Box::<str>::from("disabled"))),
        held in prop::collection::btree_map(text(), text(), 0..3), reboot in any::<bool>(),
        detached in mark(), paused in mark(), block_move in any::<bool>(),
    ) -> Stay {
        Stay {
            consumer: claim(), online, payload,
            data: BTreeMap::from([(Part::UserData, user), (Part::MetaData, meta), (Part::NetworkData, network)]),
            cleaning,
            held: held.into_iter().map(|(key, value)| (held_name("u", &key), value)).collect(),
            reboot: reboot.then(|| ("7".into(), "".into())),
            detached, paused, block_move,
        }
    }
}

fn mark() -> impl Strategy<Value = Mark> {
    prop::sample::select(vec![Mark::Set, Mark::Unset, Mark::AsIs])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn a_granted_wish_asks_for_nothing_more(body in any_host(), stay in any_stay()) {
        let mut body = body;
        if let Some(patch) = stay.patch(&host(&body)) {
            merge(&mut body, &patch);
        }
        let after = host(&body);
        prop_assert_eq!(stay.patch(&after), None);
        prop_assert_eq!(after.consumer, Some(claim()));
    }

    #[test]
    fn a_host_that_was_bound_and_driven_goes_back_as_its_owner_had_it(body in any_host(), stay in any_stay()) {
        let mut body = body;
        // Only a host without a payload is ever bound.
        body["spec"]["image"] = Value::Null;
        body["spec"]["customDeploy"] = Value::Null;
        let before = host(&body);
        if let Some(patch) = stay.patch(&before) {
            merge(&mut body, &patch);
        }
        let leave = Leave { uid: "u".into(), fast_track: false, replacing: false, keeps_disks: false };
        if let Some(patch) = leave.patch(&host(&body)) {
            merge(&mut body, &patch);
        }
        prop_assert_eq!(leave.patch(&host(&body)), None);
        let patch = After::Free.patch(&host(&body));
        merge(&mut body, &patch);
        let after = host(&body);
        prop_assert_eq!(&after.consumer, &None);
        prop_assert!(after.image.is_none() && after.custom_deploy.is_none());
        prop_assert_eq!(&after.cleaning, &before.cleaning);
        let copy = |at: &Option<SecretRef>| at.as_ref().is_some_and(|at| at.name.contains("-hc-"));
        for (then, now) in [(&before.user_data, &after.user_data), (&before.meta_data, &after.meta_data), (&before.network_data, &after.network_data)] {
            prop_assert!(then == now || (copy(then) && now.is_none()), "{:?} {:?}", then, now);
        }
        let ours = |key: &str| key.starts_with("berth.dev/") || key.starts_with(&held_prefix("u"));
        prop_assert!(!after.annotations.keys().any(|key| ours(key)), "{:?}", after.annotations);
        // What others put there is still there.
        for key in ["reboot.metal3.io/admin", "team"] {
            prop_assert_eq!(before.annotation(key), after.annotation(key));
        }
    }
}

#[test]
fn disks_that_were_not_cleaned_are_on_record_until_they_are() {
    let mut body = json!({
        "metadata": {"name": "node", "namespace": "infra", "uid": "h", "annotations": {}},
        "spec": {"online": false, "automatedCleaningMode": "metadata"},
        "status": {"provisioning": {"state": "available"}},
    });
    let mut stay = Stay {
        consumer: claim(),
        online: true,
        payload: Payload::Image(Image { url: "https://images/one".into(), ..Image::default() }),
        data: BTreeMap::new(),
        cleaning: Some("disabled".into()),
        held: BTreeMap::new(),
        reboot: None,
        detached: Mark::AsIs,
        paused: Mark::AsIs,
        block_move: false,
    };
    let leave = Leave { uid: "u".into(), fast_track: false, replacing: false, keeps_disks: false };
    let apply = |body: &mut Value, patch: &dyn Fn(&HostFacts) -> Option<Value>| {
        let patch = patch(&host(body)).unwrap();
        merge(body, &patch);
    };
    apply(&mut body, &|host| stay.patch(host));
    assert!(!is_uncleaned(&host(&body)));
    stay.payload = Payload::Nothing;
    apply(&mut body, &|host| stay.patch(host));
    assert!(is_uncleaned(&host(&body)) && !After::Free.may_follow(&host(&body)));
    apply(&mut body, &|host| leave.patch(host));
    assert!(is_uncleaned(&host(&body)), "turning cleaning on cleans nothing by itself");
    apply(&mut body, &|host| leave.scrub(host));
    assert_eq!(body["spec"]["image"]["url"], "https://images/one");
    assert_eq!((&body["spec"]["online"], &body["spec"]["automatedCleaningMode"]), (&json!(true), &json!("metadata")));
    // Taken off before it has begun, it would clean nothing.
    assert_eq!((leave.patch(&host(&body)), leave.scrub(&host(&body))), (None, None));
    // Nor while it only has begun: the operator may not have touched the disks yet, and may fail before it does.
    for error in [Value::Null, json!("provisioning error")] {
        body["status"] = json!({"provisioning": {"state": "provisioning"}, "errorType": error});
        assert_eq!((leave.patch(&host(&body)), leave.scrub(&host(&body))), (None, None));
    }
    let mut forced = body.clone();
    forced["metadata"]["annotations"][names::FORCE_RELEASE_ANNOTATION] = json!("");
    apply(&mut forced, &|host| leave.patch(host));
    assert!(forced["spec"].get("image").is_none(), "the owner does not want to wait");
    body["status"] = json!({"provisioning": {"state": "provisioned"}});
    apply(&mut body, &|host| leave.patch(host));
    assert!(!is_uncleaned(&host(&body)) && body["spec"].get("image").is_none());
    assert!(!After::Free.may_follow(&host(&body)), "it is being cleaned");
    body["status"]["provisioning"]["state"] = json!("deprovisioning");
    assert!(!After::Free.may_follow(&host(&body)), "it is being cleaned");
    body["status"]["provisioning"]["state"] = json!("available");
    assert!(After::Free.may_follow(&host(&body)));
    // The owner's own rule counts: what it does not clean is nobody's breach.
    let mut own = json!({"metadata": {"name": "n", "namespace": "infra", "uid": "h"},
        "spec": {"automatedCleaningMode": "disabled", "image": {"url": "a"}}});
    apply(&mut own, &|host| stay.patch(host));
    assert!(!is_uncleaned(&host(&own)));
}

fn plain(payload: Payload) -> Stay {
    Stay {
        consumer: claim(),
        online: true,
        payload,
        data: BTreeMap::new(),
        cleaning: None,
        held: BTreeMap::new(),
        reboot: None,
        detached: Mark::AsIs,
        paused: Mark::AsIs,
        block_move: false,
    }
}

fn leaving(keeps_disks: bool) -> Leave {
    Leave { uid: "u".into(), fast_track: false, replacing: false, keeps_disks }
}

/// A host of the claim, with or without a record.
fn ours(spec: &Value, state: &str, record: Option<Value>) -> Value {
    let mut body = json!({
        "metadata": {"name": "node", "namespace": "infra", "uid": "h", "annotations": {}},
        "spec": {"online": true, "consumerRef": reference(&claim())},
        "status": {"provisioning": {"state": state}},
    });
    merge(&mut body["spec"], spec);
    if let Some(record) = record {
        body["metadata"]["annotations"][names::INFRA_DEFAULTS_ANNOTATION] = json!(record.to_string());
    }
    body
}

#[test]
fn what_was_never_deployed_cleans_nothing_away() {
    let left = json!({"image": {"url": "https://images/one"}});
    let record = || Some(json!({"automatedCleaningMode": "metadata", "uncleaned": left}));
    let two = json!({"image": {"url": "https://images/two"}});
    for (state, cleaned) in
        [("available", false), ("provisioning", false), ("deprovisioning", false), ("provisioned", true)]
    {
        let mut stays = ours(&two, state, record());
        let mut leaves = stays.clone();
        let patch = plain(Payload::Nothing).patch(&host(&stays)).unwrap();
        merge(&mut stays, &patch);
        let patch = leaving(false).patch(&host(&leaves)).unwrap();
        merge(&mut leaves, &patch);
        for body in [&stays, &leaves] {
            assert_eq!(is_uncleaned(&host(body)), !cleaned, "{state}");
            assert!(body["spec"].get("image").is_none());
        }
        leaves["status"]["provisioning"]["state"] = json!("available");
        let scrub = leaving(false).scrub(&host(&leaves));
        assert_eq!(
            scrub.as_ref().map(|patch| &patch["spec"]["image"]),
            (!cleaned).then_some(&left["image"]),
            "{state}"
        );
    }
}

#[test]
fn cleaning_is_not_switched_off_under_what_is_being_taken_off() {
    let record = || Some(json!({"automatedCleaningMode": "metadata"}));
    let stay = Stay { cleaning: Some("disabled".into()), ..plain(Payload::Nothing) };
    let deployed = json!({"image": {"url": "https://images/one"}});
    let mut gone = ours(&json!({"automatedCleaningMode": "metadata"}), "provisioned", record());
    let mut other = ours(&json!({"image": {"url": "https://images/two"}}), "provisioned", record());
    for body in [&mut gone, &mut other] {
        body["status"]["provisioning"]["image"] = deployed["image"].clone();
    }
    let off = |patch: Option<Value>| patch.is_some_and(|patch| patch["spec"]["automatedCleaningMode"] == "disabled");
    // The operator has not noticed yet that the image is gone, or is another; it asks when it begins.
    let as_is = Stay { payload: Payload::AsIs, ..stay.clone() };
    assert!(
        !off(stay.patch(&host(&gone))) && !off(leaving(true).patch(&host(&gone))) && !off(as_is.patch(&host(&other)))
    );
    gone["status"]["provisioning"]["state"] = json!("deprovisioning");
    assert!(!off(stay.patch(&host(&gone))) && !off(leaving(true).patch(&host(&gone))));
    gone["status"]["provisioning"]["state"] = json!("available");
    assert!(off(stay.patch(&host(&gone))));
    // With the image it may be switched off, and what is taken off then is on record.
    let mut both = ours(&deployed, "provisioned", record());
    both["status"]["provisioning"]["image"] = deployed["image"].clone();
    let patch = stay.patch(&host(&both));
    assert!(off(patch.clone()));
    merge(&mut both, &patch.unwrap());
    assert!(is_uncleaned(&host(&both)));
}

#[test]
fn without_a_record_nobody_believes_that_disks_are_not_to_be_cleaned() {
    let spec = json!({"image": {"url": "https://images/one"}, "automatedCleaningMode": "disabled"});
    for record in [None, Some(json!("damaged"))] {
        let mut body = ours(&spec, "provisioned", record);
        // The tenant's own wish not to clean does not become the owner's.
        let stay = Stay { cleaning: Some("disabled".into()), ..plain(Payload::AsIs) };
        let mut kept = body.clone();
        let patch = stay.patch(&host(&kept)).unwrap();
        merge(&mut kept, &patch);
        assert_eq!(Defaults::of(&host(&kept)).automated_cleaning_mode, None);
        let patch = leaving(false).patch(&host(&body)).unwrap();
        assert_eq!(patch["spec"].get("automatedCleaningMode"), Some(&Value::Null), "it is cleaned");
        // What is taken off uncleaned for the group is on record all the same.
        let patch = leaving(true).patch(&host(&body)).unwrap();
        merge(&mut body, &patch);
        assert!(is_uncleaned(&host(&body)));
    }
}

#[test]
fn uncleaned_disks_stay_on_record_whoever_has_the_host() {
    let left = json!({"image": {"url": "https://images/one"}});
    let mut body = ours(&json!({}), "available", Some(json!({"uncleaned": left})));
    body["spec"]["consumerRef"] = Value::Null;
    assert_eq!(crate::yard::ailment(&host(&body)), Some(crate::yard::Unfit::HostError), "no operational status yet");
    body["status"]["operationalStatus"] = json!("OK");
    assert_eq!(crate::yard::ailment(&host(&body)), Some(crate::yard::Unfit::NotClean));
    let patch = plain(Payload::AsIs).patch(&host(&body)).unwrap();
    merge(&mut body, &patch);
    assert!(is_uncleaned(&host(&body)));
    // A group takes up its own reservation, also one that has lost its time.
    body["metadata"]["labels"] = json!({names::NODE_REUSE_LABEL: "hc-1"});
    body["spec"]["consumerRef"] = json!({"apiVersion": "v1", "kind": "Namespace", "name": "t"});
    assert!(is_reserved(&host(&body)));
    assert_eq!(crate::yard::ailment(&host(&body)), None);
}

#[test]
fn a_reservation_keeps_on_record_that_the_owner_does_not_clean() {
    let after = After::Reserve {
        keeper: Consumer { kind: "Namespace".into(), name: "t".into(), ..Consumer::default() },
        label: "hc-1".into(),
        group: "t/g".into(),
        until: "2030-01-01T00:00:00Z".into(),
        disks: false,
    };
    for (mode, kept) in [("disabled", true), ("metadata", false)] {
        let body = ours(&json!({}), "available", Some(json!({ "automatedCleaningMode": mode })));
        let annotations = after.patch(&host(&body))["metadata"]["annotations"].clone();
        assert_eq!(annotations.get(names::INFRA_DEFAULTS_ANNOTATION).is_none(), kept, "{mode}");
    }
}

#[test]
fn a_host_that_was_adopted_is_cleared_once_its_claim_has_said_what_runs() {
    let one = Image { url: "https://images/one".into(), ..Image::default() };
    let mut body = ours(&json!({"image": one.body()}), "provisioned", None);
    assert!(Defaults::of(&host(&body)).adopted);
    let patch = plain(Payload::AsIs).patch(&host(&body)).unwrap();
    merge(&mut body, &patch);
    assert!(Defaults::of(&host(&body)).adopted, "the claim has said nothing yet");
    let patch = plain(Payload::Image(one)).patch(&host(&body)).unwrap();
    merge(&mut body, &patch);
    assert!(!Defaults::of(&host(&body)).adopted);
    assert_eq!(body["spec"]["image"]["url"], "https://images/one", "nothing else has changed");
}

#[test]
fn a_reboot_is_passed_on_once() {
    let body = json!({"metadata": {"name": "node", "namespace": "infra", "uid": "h"}, "spec": {}});
    let stay = Stay {
        consumer: claim(),
        online: true,
        payload: Payload::AsIs,
        data: BTreeMap::new(),
        cleaning: None,
        held: BTreeMap::new(),
        reboot: Some(("7".into(), r#"{"mode":"hard"}"#.into())),
        detached: Mark::AsIs,
        paused: Mark::AsIs,
        block_move: false,
    };
    let patch = stay.patch(&host(&body)).unwrap();
    assert_eq!(patch["metadata"]["annotations"]["reboot.metal3.io"], r#"{"mode":"hard"}"#);
    let mut body = body;
    merge(&mut body, &patch);
    // The host's controller takes the annotation away; the id tells that this was done.
    body["metadata"]["annotations"]["reboot.metal3.io"] = Value::Null;
    body["metadata"]["annotations"].as_object_mut().unwrap().remove("reboot.metal3.io");
    assert_eq!(stay.patch(&host(&body)), None);
}

#[test]
fn names_of_held_reboots_fit_into_an_annotation() {
    let long = "k".repeat(63);
    let name = held_name("u", &long);
    assert!(name.split_once('/').unwrap().1.len() <= 63, "{name}");
    assert_ne!(held_name("u", &long), held_name("u", &"j".repeat(63)));
}

#[test]
fn a_hold_that_the_owner_took_off_stays_off_until_the_claim_lets_go_of_it() {
    let (mine, other) = (held_name("u", "mine"), held_name("u", "other"));
    let hold = |keys: &[&String], value: &str| Stay {
        held: keys.iter().map(|key| ((*key).clone(), value.to_owned())).collect(),
        ..plain(Payload::AsIs)
    };
    // A record of an older Berth, which kept no reboots in it.
    let record = json!({"online": true, "automatedCleaningMode": "metadata"});
    let mut body = ours(&json!({"automatedCleaningMode": "metadata"}), "provisioned", Some(record));
    let both = hold(&[&mine, &other], "");
    let patch = both.patch(&host(&body)).unwrap();
    merge(&mut body, &patch);
    let shown = |body: &Value| -> Vec<String> {
        let notes = body["metadata"]["annotations"].as_object().unwrap();
        notes.keys().filter(|key| key.starts_with("reboot")).cloned().collect()
    };
    assert_eq!(shown(&body), [mine.clone(), other.clone()]);
    assert_eq!(Defaults::of(&host(&body)).automated_cleaning_mode.as_deref(), Some("metadata"), "it was read");
    // The owner takes one off; neither the same wish nor another value of it brings it back.
    body["metadata"]["annotations"].as_object_mut().unwrap().remove(&mine);
    assert_eq!(both.patch(&host(&body)), None);
    let hard = hold(&[&mine, &other], r#"{"mode":"hard"}"#);
    let patch = hard.patch(&host(&body)).unwrap();
    merge(&mut body, &patch);
    assert_eq!((shown(&body), hard.patch(&host(&body))), (vec![other.clone()], None));
    // The claim lets go, which changes nothing but the record, and holds anew.
    let patch = hold(&[&other], "").patch(&host(&body)).unwrap();
    merge(&mut body, &patch);
    assert_eq!(shown(&body), std::slice::from_ref(&other));
    let patch = both.patch(&host(&body)).unwrap();
    merge(&mut body, &patch);
    assert_eq!(shown(&body), [mine.clone(), other.clone()]);
    // A host on its way back carries none, and none is on record if it stays after all.
    let mut leaves = body.clone();
    leaves["metadata"]["annotations"].as_object_mut().unwrap().remove(&mine);
    let patch = leaving(false).patch(&host(&leaves)).unwrap();
    merge(&mut leaves, &patch);
    assert_eq!((shown(&leaves), leaving(false).patch(&host(&leaves))), (Vec::new(), None));
    assert!(Defaults::of(&host(&leaves)).held.is_empty());
    // After a move the claim has another uid, and what was held under the old one is still its own.
    let moved = Consumer { uid: "v".into(), ..claim() };
    let moved =
        Stay { consumer: moved, held: [(held_name("v", "mine"), String::new())].into(), ..plain(Payload::AsIs) };
    body["spec"]["consumerRef"]["uid"] = Value::Null;
    let patch = moved.patch(&host(&body)).unwrap();
    merge(&mut body, &patch);
    assert_eq!(shown(&body), [held_name("v", "mine")]);
}

#[test]
fn a_host_that_goes_back_stays_on_only_for_a_fast_next_deployment_and_only_if_its_disks_are_cleaned() {
    for (fast_track, cleaning, online) in [
        (false, Some("metadata"), false),
        (false, Some("disabled"), false),
        (true, Some("metadata"), true),
        (true, Some("disabled"), false),
    ] {
        for before in [true, false] {
            let mut body = json!({
                "metadata": {"name": "node", "namespace": "infra", "uid": "h"},
                "spec": {"online": before, "automatedCleaningMode": cleaning},
            });
            let record = json!({"online": true, "automatedCleaningMode": cleaning}).to_string();
            body["metadata"]["annotations"] = json!({names::INFRA_DEFAULTS_ANNOTATION: record});
            let leave = Leave { uid: "u".into(), fast_track, replacing: false, keeps_disks: false };
            if let Some(patch) = leave.patch(&host(&body)) {
                merge(&mut body, &patch);
            }
            assert_eq!(body["spec"]["online"], online, "{fast_track} {cleaning:?} {before}");
        }
    }
}
