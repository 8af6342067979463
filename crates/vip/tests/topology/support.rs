//! Requests made by hand, and what Cluster API does with the answers.

use std::collections::BTreeMap;

use api::views::Endpoint;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use vip::names::Slot;
use vip::topology::{
    Settings, Standing, answer_generate, answer_validate, generate, parse_generate, parse_validate, validate,
};

pub const HOST: &str = "10.0.0.15";
pub const INGRESS: &str = "10.0.0.80";
pub const SECOND: &str = "2001:db8::15";

pub fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A cluster with an endpoint, an address of the second family and one for the ingress.
pub fn standing() -> Standing {
    Standing {
        found: true,
        uid: Some("u".into()),
        endpoint: Endpoint { host: HOST.into(), port: 6443 },
        vips: [
            (Slot::CONTROL_PLANE, HOST.to_owned()),
            (Slot { second: true, ..Slot::CONTROL_PLANE }, SECOND.to_owned()),
            (Slot::INGRESS, INGRESS.to_owned()),
        ]
        .into(),
        ..Standing::default()
    }
}

pub fn item(uid: &str, holder: &str, field_path: &str, kind: &str, spec: Value) -> Value {
    json!({
        "uid": uid,
        "holderReference": {
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": holder, "namespace": "team-a", "name": "prod",
            "fieldPath": field_path,
        },
        "object": {"apiVersion": "example.org/v1", "kind": kind, "metadata": {"name": "t"}, "spec": spec},
    })
}

pub fn infrastructure(spec: Value) -> Value {
    item("infra", "Cluster", "spec.infrastructureRef", "InfraTemplate", spec)
}

pub fn control_plane(spec: Value) -> Value {
    item("cp", "Cluster", "spec.controlPlaneRef", "ControlPlaneTemplate", spec)
}

pub fn request(items: &[Value]) -> Value {
    let cluster = json!({"namespace": "team-a", "name": "prod", "uid": "u"});
    json!({"kind": "GeneratePatchesRequest", "variables": [{"name": "builtin", "value": {"cluster": cluster}}], "items": items})
}

/// The answer to a request, through the bytes of both.
pub fn ask(request: &Value, settings: &BTreeMap<String, String>, standing: &Standing) -> Value {
    let parsed = parse_generate(request.to_string().as_bytes()).unwrap();
    let settings = Settings::read(settings).unwrap();
    let result = generate(&parsed, &settings, standing);
    serde_json::from_slice(&answer_generate(result.as_deref().map_err(String::as_str))).unwrap()
}

/// The verdict on a request, through the bytes of both: nothing, or the message.
pub fn judge(request: &Value, settings: &BTreeMap<String, String>, standing: &Standing) -> Option<String> {
    let parsed = parse_validate(request.to_string().as_bytes()).unwrap();
    let settings = Settings::read(settings).unwrap();
    let result = validate(&parsed, &settings, standing);
    let answer: Value =
        serde_json::from_slice(&answer_validate(result.as_ref().copied().map_err(String::as_str))).unwrap();
    let message = answer["message"].as_str().unwrap().to_owned();
    match answer["status"].as_str().unwrap() {
        "Success" => {
            assert_eq!(message, "");
            None
        }
        _ => Some(message),
    }
}

/// The patches of an answer: uid, type, patch.
pub fn patches(answer: &Value) -> Vec<(String, String, Value)> {
    assert_eq!(answer["status"], "Success", "{answer}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let patch = |item: &Value| serde_json::from_slice(&STANDARD.decode(text(&item["patch"])).unwrap()).unwrap();
    let items = answer["items"].as_array().unwrap();
    items.iter().map(|item| (text(&item["uid"]), text(&item["patchType"]), patch(item))).collect()
}

pub fn failure(answer: &Value) -> &str {
    assert_eq!(answer["status"], "Failure", "{answer}");
    assert_eq!(answer.get("items"), None);
    answer["message"].as_str().unwrap()
}

/// The request after its patches: applied in order, each to the result of the one before; only the spec is taken over.
pub fn applied(request: &Value, answer: &Value) -> Value {
    let mut after = request.clone();
    for (uid, patch_type, patch) in patches(answer) {
        let items = after["items"].as_array_mut().unwrap();
        let item = items.iter_mut().find(|item| item["uid"] == uid.as_str()).expect("a patch of an unknown template");
        let mut object = item["object"].clone();
        match patch_type.as_str() {
            "JSONMergePatch" => json_patch::merge(&mut object, &patch),
            "JSONPatch" => {
                let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
                json_patch::patch(&mut object, &patch).unwrap_or_else(|error| panic!("{error}: {patch:?}"));
            }
            other => panic!("unknown type of patch: {other}"),
        }
        if let Some(spec) = object.get_mut("spec") {
            item["object"]["spec"] = spec.take();
        }
    }
    after
}
