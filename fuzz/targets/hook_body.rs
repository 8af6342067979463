//! Bodies of the hooks that Cluster API calls.

use std::collections::BTreeMap;

use api::views::Endpoint;
use serde_json::Value;
use vip::hooks::LifecycleRequest;
use vip::names::Slot;
use vip::topology::{
    Settings, Standing, answer_generate, answer_validate, generate, parse_discover, parse_generate, parse_validate,
    validate,
};

/// The body of any hook: read as each of them, and answered.
pub fn hook_body(data: &[u8]) {
    if let Ok(request) = LifecycleRequest::read(data) {
        assert!(!request.key.name().is_empty() && request.key.namespace().is_some());
    }
    let _ = parse_discover(data);
    let host = "10.0.0.15".to_owned();
    let standing = Standing {
        found: true,
        endpoint: Endpoint { host: host.clone(), port: 6443 },
        vips: [(Slot::CONTROL_PLANE, host)].into(),
        ..Standing::default()
    };
    let plain = Settings::read(&BTreeMap::new()).unwrap_or_else(|error| panic!("no settings at all: {error}"));
    if let Ok(request) = parse_generate(data) {
        let settings = Settings::read(&request.settings).unwrap_or_else(|_| plain.clone());
        let made = generate(&request, &settings, &standing);
        let again = generate(&request, &settings, &standing);
        let bytes = |made: &Result<Vec<_>, String>| answer_generate(made.as_deref().map_err(String::as_str));
        assert_eq!(bytes(&made), bytes(&again), "the same request gives the same bytes");
        judge(&bytes(&made));
    }
    if let Ok(request) = parse_validate(data) {
        let verdict = validate(&request, &plain, &standing);
        judge(&answer_validate(match &verdict {
            Ok(()) => Ok(()),
            Err(told) => Err(told),
        }));
    }
}

fn judge(answer: &[u8]) {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_else(|error| panic!("no JSON: {error}"));
    let status = answer.get("status").and_then(Value::as_str);
    assert!(matches!(status, Some("Success" | "Failure")), "{answer}");
}
