//! Requests in the shapes of three releases of Cluster API, as they go over the wire.

use serde_json::{Value, json};
use vip::topology::{Settings, Subject, answer_validate, parse_discover, parse_generate, parse_validate, validate};

use super::support::*;

/// The founding description's class: everything copied from `{{ .builtin.controlPlane.endpoint.host }}`, which no release has.
const V1_10: &str = include_str!("golden/v1.10.json");
const V1_12: &str = include_str!("golden/v1.12.json");
const V1_14: &str = include_str!("golden/v1.14.json");

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_founding_pattern_yields_the_promised_result_in_every_release() {
    for (release, text) in [("v1.10", V1_10), ("v1.12", V1_12), ("v1.14", V1_14)] {
        let request = read(text);
        let parsed = parse_generate(text.as_bytes()).unwrap();
        let subject = Subject::of(&parsed).unwrap();
        assert_eq!((subject.to_string().as_str(), subject.uid.as_deref()), ("team-a/prod", Some("u")), "{release}");

        let answer = ask(&request, &parsed.settings, &standing());
        let uids: Vec<_> = parsed.items.iter().map(|item| item.uid.as_str()).collect();
        let endpoint = json!({"spec": {"template": {"spec": {"controlPlaneEndpoint": {"host": HOST, "port": 6443}}}}});
        let replace =
            |path: &str| json!({"op": "replace", "path": format!("/spec/template/spec/{path}"), "value": HOST});
        let expected = [
            (uids[0].to_owned(), "JSONMergePatch".to_owned(), endpoint),
            (
                uids[1].to_owned(),
                "JSONPatch".to_owned(),
                json!([replace("registrationAddress"), replace("serverConfig/tlsSan/0")]),
            ),
        ];
        assert_eq!(patches(&answer), expected, "{release}");

        // The same templates come back for validation, patched and without uid.
        let mut after = applied(&request, &answer);
        after["kind"] = json!("ValidateTopologyRequest");
        for item in after["items"].as_array_mut().unwrap() {
            item.as_object_mut().unwrap().remove("uid");
        }
        assert_eq!(judge(&after, &parsed.settings, &standing()), None, "{release}");
        let before = judge(&request, &parsed.settings, &standing()).unwrap();
        assert!(before.contains("copies a builtin that does not exist"), "{release}: {before}");
    }
}

#[test]
fn items_see_their_own_builtin_over_that_of_all() {
    let parsed = parse_generate(V1_14.as_bytes()).unwrap();
    let control_plane = &parsed.items[1];
    assert_eq!(control_plane.builtin(&parsed, "controlPlane").unwrap()["name"], "prod-abcde");
    assert_eq!(control_plane.builtin(&parsed, "cluster").unwrap()["name"], "prod");
    assert_eq!(parsed.builtin("controlPlane"), None);
    assert_eq!(parsed.items[0].builtin(&parsed, "cluster"), parsed.builtin("cluster"));
}

#[test]
fn unknown_and_odd_fields_do_not_matter() {
    let mut request = read(V1_14);
    request["future"] = json!({"a": [1]});
    request["apiVersion"] = json!(7);
    request["kind"] = json!("Other");
    request["items"][0]["holderReference"]["future"] = json!(null);
    request["items"].as_array_mut().unwrap().push(Value::Null);
    let settings = parse_generate(V1_14.as_bytes()).unwrap().settings;
    assert_eq!(ask(&request, &settings, &standing()), ask(&read(V1_14), &settings, &standing()));
    for odd in [
        json!({"items": null}),
        json!({"variables": "x", "items": {}, "settings": []}),
        json!({"items": [{"uid": "a"}]}),
    ] {
        assert!(parse_generate(odd.to_string().as_bytes()).is_ok(), "{odd}");
    }
}

#[test]
fn a_body_that_is_no_request_is_refused_without_quoting_it() {
    for (body, problem) in [
        (&b""[..], "it is not valid JSON"),
        (b"{", "it is not valid JSON"),
        (b"\xff\xfe", "it is not valid JSON"),
        (b"{\"items\": [\x01]}", "it is not valid JSON"),
        (b"7", "it is not an object of the expected form"),
        (b"\"secret\"", "it is not an object of the expected form"),
        (br#"{"items": [{"uid": "a"}, {}]}"#, "items[1].uid is missing"),
    ] {
        assert_eq!(parse_generate(body).unwrap_err(), format!("the request cannot be read: {problem}"));
    }
    let deep = "[".repeat(100_000);
    assert!(parse_generate(format!(r#"{{"items":[{{"uid":"a","object":{{"spec":{deep}"#).as_bytes()).is_err());
    assert!(parse_validate(br#"{"items": [{}]}"#).is_ok());
    let discover = parse_discover(br#"{"settings": {"variables": "clusterVip", "odd": 7}}"#).unwrap();
    assert_eq!(discover.settings, settings(&[("variables", "clusterVip")]));
}

#[test]
fn answers_are_complete() {
    let prefix = r#"{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"ValidateTopologyResponse","#;
    let text = |result| String::from_utf8(answer_validate(result).into()).unwrap();
    assert_eq!(text(Ok(())), format!(r#"{prefix}"status":"Success","message":""}}"#));
    assert_eq!(text(Err("a \"b\"")), format!(r#"{prefix}"status":"Failure","message":"a \"b\""}}"#));
    let answer = ask(&request(&[infrastructure(json!({}))]), &settings(&[]), &standing());
    let expected = json!({
        "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "GeneratePatchesResponse", "status": "Success", "message": "",
        "items": [{"uid": "infra", "patchType": "JSONMergePatch", "patch":
            "eyJzcGVjIjp7InRlbXBsYXRlIjp7InNwZWMiOnsiY29udHJvbFBsYW5lRW5kcG9pbnQiOnsiaG9zdCI6IjEwLjAuMC4xNSIsInBvcnQiOjY0NDN9fX19fQ=="}],
    });
    assert_eq!(answer, expected);
    let unread = Settings::read(&settings(&[("placeholders", "maybe")])).unwrap_err().to_string();
    assert_eq!(unread, "settings: placeholders: `maybe` is neither true nor false");
    let empty = parse_validate(b"{}").unwrap();
    assert!(validate(&empty, &Settings::read(&settings(&[])).unwrap(), &standing()).is_err());
}
