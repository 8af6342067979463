//! Whatever is sent, there is an answer of the hook's own type.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use kit::clock::Clock;
use kit::telemetry::Metrics;
use proptest::prelude::*;
use serde_json::Value;
use tower::ServiceExt;
use vip::hooks::{Handlers, Hook, Hooks};

use crate::support::{Got, Room, golden, names};

/// Posts to the router without a server in between.
pub async fn post<H: Handlers>(hooks: &Hooks<H>, path: &str, body: Bytes) -> Got {
    let request = Request::post(path).body(Body::from(body)).unwrap();
    let response = hooks.router().oneshot(request).await.unwrap();
    let (status, version) = (response.status(), response.version());
    let kind = response.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Got { status, version, kind, body }
}

#[tokio::test]
async fn broken_json_is_a_failure_that_says_so_without_a_position() {
    let hooks = Hooks::new(Arc::new(Room::default()), names(), &Metrics::new(), Clock::system());
    for hook in [Hook::BeforeClusterCreate, Hook::BeforeClusterDelete] {
        let whole = golden("v1.14", hook);
        for body in [Bytes::new(), whole.slice(..whole.len() / 2), Bytes::from_static(b"\xff\xfe"), "}{".into()] {
            let message = post(&hooks, &names().path(hook), body).await.fails(hook);
            assert_eq!(message, "the request is not JSON");
        }
        let message = post(&hooks, &names().path(hook), "{}".into()).await.fails(hook);
        assert_eq!(message, "the request cannot be read: cluster: missing");
    }
}

/// Puts something else in the place of one value of a document.
fn disturb(value: &mut Value, place: &mut usize, other: &Value) {
    if *place == 0 {
        *value = other.clone();
    }
    *place = place.wrapping_sub(1);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| disturb(item, place, other)),
        Value::Object(fields) => fields.values_mut().for_each(|field| disturb(field, place, other)),
        _ => {}
    }
}

fn other() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(serde_json::json!([])),
        Just(serde_json::json!([{"name": 1}])),
        Just(serde_json::json!({"name": "x", "host": 5, "port": "6443"})),
    ]
}

/// Answers a request on a runtime of its own.
fn answered(hook: Hook, body: Bytes) -> Got {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let hooks = Hooks::new(Arc::new(Room::default()), names(), &Metrics::new(), Clock::system());
    runtime.block_on(post(&hooks, &names().path(hook), body))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_get_an_answer_of_the_hooks_own_type(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        hook in proptest::sample::select(Hook::ALL.to_vec()),
    ) {
        let value = answered(hook, bytes.into()).answers(hook);
        // No heap of bytes names a cluster by chance, so no gate opens by chance either.
        prop_assert!(!hook.can_wait() || value["status"] == "Failure");
    }

    #[test]
    fn a_request_with_anything_in_one_place_gets_an_answer(
        mut place in 0usize..60,
        other in other(),
        version in proptest::sample::select(vec!["v1.10", "v1.12", "v1.14"]),
        hook in proptest::sample::select(vec![Hook::BeforeClusterCreate, Hook::BeforeClusterDelete]),
    ) {
        let mut request: Value = serde_json::from_slice(&golden(version, hook)).unwrap();
        disturb(&mut request, &mut place, &other);
        answered(hook, request.to_string().into()).answers(hook);
    }

    #[test]
    fn a_request_cut_anywhere_is_a_failure(cut in 0.0f64..1.0, version in proptest::sample::select(vec!["v1.10", "v1.14"])) {
        let whole = golden(version, Hook::BeforeClusterCreate);
        let json_end = whole.trim_ascii_end().len();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let end = (cut * json_end as f64) as usize;
        answered(Hook::BeforeClusterCreate, whole.slice(..end)).fails(Hook::BeforeClusterCreate);
    }
}
