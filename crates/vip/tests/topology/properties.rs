//! What holds of every request.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use vip::topology::{
    Settings, Standing, answer_generate, generate, parse_discover, parse_generate, parse_validate, validate,
};

use super::support::*;

/// Any JSON value, rich in what the hooks look for.
fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        select(vec![
            "<no value>",
            "@@VIP_CONTROL_PLANE@@",
            "a @@VIP_INGRESS@@ b",
            "@@VIP_INGRESS_SECONDARY@@",
            "",
            HOST
        ])
        .prop_map(str::to_owned),
        "\\PC{0,8}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from)
    ];
    let key = prop_oneof![
        select(vec![
            "template",
            "spec",
            "controlPlaneEndpoint",
            "host",
            "port",
            "tlsSan",
            "certSANs",
            "addresses",
            "ipv4Config",
            "a/b",
            "~",
            "0",
            "-",
            ""
        ])
        .prop_map(str::to_owned),
        "[a-c/~]{1,3}",
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key.clone(), inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A spec as an author could have written it: texts that can be replaced anywhere, `<no value>` only where it is repaired.
fn good_spec() -> impl Strategy<Value = Value> {
    let text = select(vec![
        "plain",
        "@@VIP_CONTROL_PLANE@@",
        "x @@VIP_INGRESS@@:@@VIP_CONTROL_PLANE_PORT@@",
        "@@VIP_CONTROL_PLANE_SECONDARY@@",
        "@@VIP_",
        HOST,
    ]);
    let leaf = prop_oneof![Just(Value::Null), Just(json!(7)), text.prop_map(Value::from)];
    let repairable = select(vec![json!("<no value>"), json!(["a", "<no value>"]), json!([])]);
    let key = select(vec!["files", "content", "a/b", "~c", "d~1e", "0", "-"]).prop_map(str::to_owned);
    let fixed = select(vec!["registrationAddress", "tlsSan", "certSANs"]).prop_map(str::to_owned);
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            (btree_map(key.clone(), inner, 0..4), btree_map(fixed.clone(), repairable.clone(), 0..2))
                .prop_map(|(one, two)| Value::Object(one.into_iter().chain(two).collect())),
        ]
    })
}

/// What an author left at the endpoint.
fn endpoint() -> impl Strategy<Value = Option<Value>> {
    let host = select(vec![
        json!(""),
        json!("<no value>"),
        json!("@@VIP_CONTROL_PLANE@@"),
        json!(HOST),
        Value::Null,
        json!({"x": "<no value>"}),
    ]);
    let port = select(vec![json!(0), json!(6443), json!(443), json!("<no value>"), Value::Null]);
    let parts = (host, port).prop_map(|(host, port)| json!({"host": host, "port": port, "x": "@@VIP_INGRESS@@"}));
    proptest::option::of(prop_oneof![4 => parts, 1 => Just(json!("<no value>")), 1 => Just(Value::Null)])
}

fn good_request() -> impl Strategy<Value = Value> {
    let templates = vec(good_spec(), 0..4);
    (good_spec(), endpoint(), templates).prop_map(|(infra, endpoint, templates)| {
        // A list or text in place of the object's spec would be no template.
        let mut spec = if let Value::Object(map) = infra { map } else { Map::new() };
        spec.extend(endpoint.map(|endpoint| ("controlPlaneEndpoint".to_owned(), endpoint)));
        let mut items = vec![infrastructure(json!({"template": {"spec": spec}}))];
        for (number, template) in templates.into_iter().enumerate() {
            let uid = format!("md{number}");
            items.push(item(
                &uid,
                "MachineDeployment",
                "spec.template.spec.bootstrap.configRef",
                "ConfigTemplate",
                json!({"template": {"spec": template}}),
            ));
        }
        request(&items)
    })
}

/// Settings with targets that may or may not be reachable.
fn some_settings() -> impl Strategy<Value = BTreeMap<String, String>> {
    let path = select(vec![
        "/spec/template/spec/new",
        "/spec/template/spec/new/deep",
        "/spec/template/spec/tlsSan/-",
        "/spec/template/spec/files/-",
        "/spec/template/spec/a~1b/~0c",
        "/spec/template/spec/files/0",
        "/spec/template/metadata/annotations/x",
        "/spec/template/spec/controlPlaneEndpoint/host",
        "/spec/template/spec/~0c",
    ]);
    let target =
        (select(vec!["InfraTemplate", "ConfigTemplate"]), path, select(vec!["", ":host", ":port", ":hostport"]));
    let targets = vec(target.prop_map(|(kind, path, what)| format!("{kind}:{path}{what}")), 0..4);
    let endpoint = select(vec!["/controlPlaneEndpoint", "/controlPlaneEndpoint", "/a~1b/endpoint", "/files/0"]);
    (targets, endpoint)
        .prop_map(|(targets, endpoint)| settings(&[("extraTargets", &targets.join(";")), ("endpointPath", endpoint)]))
}

fn any_standing() -> impl Strategy<Value = Standing> {
    (any::<[bool; 4]>(), select(vec![0, 443, 6443])).prop_map(|([found, uid, opted_out, vip_only], port)| {
        let mut standing = Standing { found, opted_out, vip_only, ..standing() };
        standing.endpoint.port = port;
        standing.uid = uid.then(|| "u".to_owned());
        standing
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Without settings there is always an answer, it applies, it is accepted, and it is all there is to do.
    #[test]
    fn patched_templates_are_accepted_and_need_no_patch(request in good_request()) {
        let none = settings(&[]);
        let answer = ask(&request, &none, &standing());
        let after = applied(&request, &answer);
        prop_assert_eq!(judge(&after, &none, &standing()), None);
        prop_assert_eq!(patches(&ask(&after, &none, &standing())), []);
    }

    /// With any settings that can be followed, the same.
    #[test]
    fn targets_apply_and_are_reached_at_once(request in good_request(), settings in some_settings()) {
        prop_assume!(Settings::read(&settings).is_ok());
        let answer = ask(&request, &settings, &standing());
        if answer["status"] == "Failure" {
            prop_assert!(failure(&answer).contains("settings: "), "{}", answer);
        } else {
            let after = applied(&request, &answer);
            prop_assert_eq!(patches(&ask(&after, &settings, &standing())), []);
            let elsewhere = settings["endpointPath"] != "/controlPlaneEndpoint";
            let left = |message: &String| elsewhere && message.starts_with("`<no value>` is left");
            prop_assert!(judge(&after, &settings, &standing()).as_ref().is_none_or(left));
        }
    }

    /// Whatever is in the templates, an answer that is no failure applies and leaves nothing to do.
    #[test]
    fn any_template_is_brought_to_rest(infra in any_json(), other in any_json(), standing in any_standing()) {
        let request = request(&[infrastructure(infra), control_plane(other)]);
        let none = settings(&[]);
        let answer = ask(&request, &none, &standing);
        if answer["status"] == "Success" {
            let after = applied(&request, &answer);
            prop_assert_eq!(patches(&ask(&after, &none, &standing)), []);
        }
        let _ = judge(&request, &none, &standing);
    }

    /// Items are opaque to each other, and their order is that of the request.
    #[test]
    fn equal_input_gives_equal_bytes(request in good_request(), settings in some_settings()) {
        prop_assume!(Settings::read(&settings).is_ok());
        let bytes = || {
            let parsed = parse_generate(request.to_string().as_bytes()).unwrap();
            let result = generate(&parsed, &Settings::read(&settings).unwrap(), &standing());
            answer_generate(result.as_deref().map_err(String::as_str))
        };
        prop_assert_eq!(bytes(), bytes());
        let answer: Value = serde_json::from_slice(&bytes()).unwrap();
        if answer["status"] == "Success" {
            let order = |uid: &str| request["items"].as_array().unwrap().iter().position(|item| item["uid"] == uid).unwrap();
            let uids: Vec<_> = patches(&answer).iter().map(|(uid, ..)| order(uid)).collect();
            prop_assert!(uids.is_sorted());
        }
    }

    #[test]
    fn any_value_is_answered(body in any_json(), items in any_json(), variables in any_json(), standing in any_standing()) {
        for value in [body, json!({"items": items, "variables": variables}), json!({"items": [{"uid": "a", "object": items, "variables": variables}]})] {
            let text = value.to_string();
            let defaults = Settings::read(&settings(&[])).unwrap();
            if let Ok(request) = parse_generate(text.as_bytes()) {
                let _ = generate(&request, &defaults, &standing);
            }
            if let Ok(request) = parse_validate(text.as_bytes()) {
                let _ = validate(&request, &defaults, &standing);
            }
            let _ = parse_discover(text.as_bytes());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..64)) {
        prop_assert_eq!(parse_generate(&bytes).is_ok() && parse_discover(&bytes).is_err(), false);
        let _ = parse_validate(&bytes);
    }

    /// Bodies that are almost requests go deeper than random bytes.
    #[test]
    fn any_damaged_request_is_answered(damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6), end in any::<proptest::sample::Index>()) {
        let mut body = include_bytes!("golden/v1.14.json").to_vec();
        for (place, byte) in damage {
            *place.get_mut(&mut body) = byte;
        }
        let defaults = Settings::read(&settings(&[])).unwrap();
        for body in [&body[..], &body[..end.index(body.len())]] {
            if let Ok(request) = parse_generate(body) {
                let _ = generate(&request, &defaults, &standing());
                let _ = validate(&request, &defaults, &standing());
            }
        }
    }
}
