//! Conversion: objects come in one version and go out in another.
//!
//! The API server asks when an object is stored in another version than somebody reads or writes it in. All objects of a
//! review are converted or none: what cannot be converted is refused with a sentence that names the object.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{brief, cut};

/// Makes an object of the asked group and version, or says why not.
pub(super) type Converter = Arc<dyn Fn(&Value, &str) -> Result<Value, String> + Send + Sync>;

/// What the API server asks.
#[derive(Debug, Deserialize)]
struct Request {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    wanted: String,
    #[serde(default)]
    objects: Vec<Value>,
}

fn parse(body: &[u8]) -> Result<Request, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Envelope {
        #[serde(default)]
        api_version: String,
        #[serde(default)]
        kind: String,
        request: Option<Request>,
    }
    let envelope: Envelope = serde_json::from_slice(body)
        .map_err(|error| format!("cannot decode the ConversionReview: {}", brief(&error)))?;
    if (envelope.api_version.as_str(), envelope.kind.as_str()) != ("apiextensions.k8s.io/v1", "ConversionReview") {
        let got = cut(&format!("{:?} {:?}", envelope.api_version, envelope.kind));
        return Err(format!("expected apiextensions.k8s.io/v1 ConversionReview, got {got}"));
    }
    envelope.request.ok_or_else(|| "the ConversionReview holds no request".to_owned())
}

/// Answers a review.
pub(super) fn respond(path: &str, converter: &Converter, body: &[u8]) -> Response {
    let request = match parse(body) {
        Ok(request) => request,
        Err(detail) => {
            tracing::warn!(path, error = detail, "review not understood");
            return (StatusCode::BAD_REQUEST, format!("{detail}\n")).into_response();
        }
    };
    let converted: Result<Vec<Value>, String> =
        request.objects.iter().map(|object| one(path, converter, object, &request.wanted)).collect();
    let response = match converted {
        Ok(objects) => json!({"uid": request.uid, "convertedObjects": objects, "result": {"status": "Success"}}),
        Err(message) => {
            tracing::warn!(path, uid = request.uid, error = message, "objects not converted");
            json!({"uid": request.uid, "convertedObjects": [], "result": {"status": "Failure", "message": message}})
        }
    };
    let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response});
    ([(CONTENT_TYPE, "application/json")], review.to_string()).into_response()
}

fn one(path: &str, converter: &Converter, object: &Value, wanted: &str) -> Result<Value, String> {
    let converted = std::panic::catch_unwind(AssertUnwindSafe(|| converter(object, wanted))).unwrap_or_else(|_| {
        tracing::error!(path, "conversion function panicked");
        Err("internal error".to_owned())
    });
    converted.map_err(|problem| {
        let part = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = cut(&format!("{}/{}", part("/metadata/namespace"), part("/metadata/name")));
        format!("{name}: {problem}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Admission;
    use axum::body::Body;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    async fn ask(body: impl Into<Body>) -> (u16, Value) {
        let router = Admission::new()
            .convert("/convert/thing", |object, wanted| match object["spec"]["size"].as_i64() {
                None => Err("has no size".to_owned()),
                Some(13) => panic!("a bug of the room"),
                Some(_) => {
                    let mut object = object.clone();
                    object["apiVersion"] = Value::from(wanted);
                    Ok(object)
                }
            })
            .router()
            .unwrap();
        let request = http::Request::post("/convert/thing").body(body.into()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    fn review(sizes: &[Option<i64>]) -> String {
        let object = |size: &Option<i64>| {
            json!({"apiVersion": "x/v1", "kind": "Thing", "spec": {"size": size},
            "metadata": {"name": "a", "namespace": "n"}})
        };
        let objects: Vec<Value> = sizes.iter().map(object).collect();
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u-1", "desiredAPIVersion": "x/v2", "objects": objects}})
        .to_string()
    }

    #[tokio::test]
    async fn every_object_of_a_review_comes_back_in_order_and_in_the_asked_version() {
        let (status, answer) = ask(review(&[Some(1), Some(2)])).await;
        assert_eq!((status, &answer["kind"]), (200, &json!("ConversionReview")));
        let response = &answer["response"];
        assert_eq!((&response["uid"], &response["result"]["status"]), (&json!("u-1"), &json!("Success")));
        let objects = response["convertedObjects"].as_array().unwrap();
        assert_eq!(objects.iter().map(|o| o["spec"]["size"].as_i64()).collect::<Vec<_>>(), [Some(1), Some(2)]);
        assert!(objects.iter().all(|object| object["apiVersion"] == "x/v2"));
    }

    #[tokio::test]
    async fn one_object_that_cannot_be_converted_fails_the_review_by_name() {
        for (bad, wanted) in [(None, "n/a: has no size"), (Some(13), "n/a: internal error")] {
            let (status, answer) = ask(review(&[Some(1), bad])).await;
            let result = &answer["response"]["result"];
            assert_eq!((status, &result["status"], &result["message"]), (200, &json!("Failure"), &json!(wanted)));
            assert_eq!(answer["response"]["convertedObjects"], json!([]));
        }
    }

    #[tokio::test]
    async fn what_is_no_review_is_refused() {
        for body in ["", "{}", "[]", r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#] {
            assert_eq!(ask(body).await.0, 400, "{body}");
        }
    }
}
