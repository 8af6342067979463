use super::*;
use crate::serve::FailureKind;
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use proptest::prelude::*;
use tower::ServiceExt;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Thing {
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Spec {
    #[serde(default)]
    size: Option<i64>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    token: String,
}

fn webhooks() -> Router {
    admission().router().unwrap()
}

fn admission() -> Admission {
    Admission::new()
        .mutate::<Thing>("/default/thing", |review, thing| {
            if review.operation == Operation::Create {
                thing.spec.size.get_or_insert(3);
            }
        })
        .validate::<Thing, _>("/validate/thing", |review: &Review<Thing>| {
            let mut verdict = Verdict::default();
            let spec = FieldPath::new("spec");
            let Some(thing) = &review.object else {
                if review.old.as_ref().is_some_and(|old| old.spec.size == Some(99)) {
                    verdict.errors.push(FieldError::forbidden(spec.field("size"), "99 may not be deleted"));
                }
                return Answer::from(verdict);
            };
            if thing.spec.size == Some(77) {
                return Answer::Refused("77 is made by somebody else".to_owned());
            }
            match thing.spec.size {
                None => verdict.errors.push(FieldError::required(spec.field("size"), "must be given")),
                Some(size) if size > 100 => {
                    verdict.errors.push(FieldError::invalid(spec.field("size"), &size.to_string(), "is more than 100"));
                }
                Some(size) => assert_ne!(size, 13, "a bug of the room"),
            }
            for (index, host) in thing.spec.hosts.iter().enumerate() {
                if host.is_empty() {
                    verdict.errors.push(FieldError::required(spec.field("hosts").index(index), "must not be empty"));
                }
            }
            if thing.spec.token == "canary" {
                verdict.errors.push(FieldError::with(spec.field("token"), FaultKind::Invalid, "has leaked"));
            }
            if let Some(old) = &review.old
                && old.spec.size != thing.spec.size
            {
                verdict.warnings.push("w".repeat(400));
            }
            verdict.into()
        })
}

fn review(operation: &str, object: Value, old: Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": operation, "name": "one", "namespace": "ns",
        "kind": {"group": "berth.dev", "version": "v1", "kind": "Thing"},
        "resource": {"group": "berth.dev", "version": "v1", "resource": "things"},
        "userInfo": {"username": "me"}, "object": object, "oldObject": old, "futureField": 1,
    }})
}

async fn ask(path: &str, body: impl Into<Body>) -> (u16, Value) {
    ask_of(webhooks(), path, body).await
}

async fn ask_of(webhooks: Router, path: &str, body: impl Into<Body>) -> (u16, Value) {
    let request = Request::post(path).body(body.into()).unwrap();
    let response = webhooks.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let value = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
    (status, value)
}

async fn verdict(path: &str, review: &Value) -> Value {
    let (status, answer) = ask(path, review.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")));
    assert_eq!(answer["response"]["uid"], "u-1");
    answer["response"].clone()
}

#[tokio::test]
async fn a_request_that_is_refused_as_such_is_a_bad_request_and_its_faults_are_not_told() {
    let object = json!({"spec": {"size": 77, "hosts": [""]}});
    let response = verdict("/validate/thing", &review("CREATE", object, json!(null))).await;
    let status =
        json!({"status": "Failure", "code": 400, "reason": "BadRequest", "message": "77 is made by somebody else"});
    assert_eq!(response, json!({"uid": "u-1", "allowed": false, "status": status}));
}

#[tokio::test]
async fn reviews_are_counted_by_kind_operation_and_what_was_said() {
    let metrics = Metrics::new();
    let webhooks = admission().measured(&metrics).router().unwrap();
    let thing = |size: i64| json!({"spec": {"size": size}});
    for (path, operation, object, old) in [
        ("/validate/thing", "CREATE", thing(5), json!(null)),
        ("/validate/thing", "CREATE", thing(5), json!(null)),
        ("/validate/thing", "UPDATE", thing(101), thing(5)),
        ("/validate/thing", "DELETE", json!(null), thing(99)),
        // What nobody can decode and what makes a function panic is refused, and counted.
        ("/validate/thing", "CREATE", json!({"spec": 5}), json!(null)),
        ("/validate/thing", "CREATE", thing(13), json!(null)),
        ("/default/thing", "CREATE", json!({"spec": {}}), json!(null)),
    ] {
        ask_of(webhooks.clone(), path, review(operation, object, old).to_string()).await;
    }
    // What is no review is none.
    assert_eq!(ask_of(webhooks, "/validate/thing", "{}").await.0, 400);
    let text = metrics.encode();
    let counted: Vec<&str> = text.lines().filter(|line| line.starts_with("berth_admission_reviews_total{")).collect();
    let of = |operation: &str, allowed: bool, count: usize| {
        format!(
            "berth_admission_reviews_total{{kind=\"Thing\",operation=\"{operation}\",allowed=\"{allowed}\"}} {count}"
        )
    };
    let mut wanted = [of("create", true, 3), of("create", false, 2), of("update", false, 1), of("delete", false, 1)];
    let mut counted: Vec<String> = counted.into_iter().map(str::to_owned).collect();
    wanted.sort();
    counted.sort();
    assert_eq!(counted, wanted);
}

#[tokio::test]
async fn all_errors_are_told_at_once_in_the_api_servers_form() {
    let object = json!({"spec": {"size": 101, "hosts": ["a", "", ""]}});
    let response = verdict("/validate/thing", &review("CREATE", object, json!(null))).await;
    assert_eq!(
        response,
        json!({"uid": "u-1", "allowed": false, "status": {
            "status": "Failure", "code": 422, "reason": "Invalid",
            "message": "Thing.berth.dev \"one\" is invalid: [spec.size: \"101\" is more than 100, \
                spec.hosts[1]: must not be empty, spec.hosts[2]: must not be empty]",
            "details": {"name": "one", "group": "berth.dev", "kind": "Thing", "causes": [
                {"reason": "FieldValueInvalid", "message": "\"101\" is more than 100", "field": "spec.size"},
                {"reason": "FieldValueRequired", "message": "must not be empty", "field": "spec.hosts[1]"},
                {"reason": "FieldValueRequired", "message": "must not be empty", "field": "spec.hosts[2]"},
            ]},
        }})
    );
}

#[tokio::test]
async fn a_good_object_is_allowed_without_a_word() {
    let response = verdict("/validate/thing", &review("CREATE", json!({"spec": {"size": 1}}), json!(null))).await;
    assert_eq!(response, json!({"uid": "u-1", "allowed": true}));
}

#[tokio::test]
async fn defaulting_answers_the_smallest_patch_and_nothing_when_nothing_changed() {
    let object = json!({"apiVersion": "v1", "spec": {"unknown": [1]}});
    let response = verdict("/default/thing", &review("CREATE", object, json!(null))).await;
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    assert_eq!(patch, json!([{"op": "add", "path": "/spec/size", "value": 3}]));
    for (operation, object) in [("CREATE", json!({"spec": {"size": 5}})), ("UPDATE", json!({"spec": {}}))] {
        let response = verdict("/default/thing", &review(operation, object, json!(null))).await;
        assert_eq!(response, json!({"uid": "u-1", "allowed": true}));
    }
    let response = verdict("/default/thing", &review("DELETE", json!(null), json!({"spec": {}}))).await;
    assert_eq!(response, json!({"uid": "u-1", "allowed": true}));
}

#[tokio::test]
async fn old_objects_are_seen_on_update_and_delete_and_warnings_are_cut() {
    let old = json!({"spec": {"size": 99}});
    let response = verdict("/validate/thing", &review("DELETE", json!(null), old.clone())).await;
    assert_eq!(response["allowed"], false);
    let response = verdict("/validate/thing", &review("UPDATE", json!({"spec": {"size": 1}}), old)).await;
    assert_eq!(response["allowed"], true);
    assert_eq!(response["warnings"][0].as_str().unwrap().len(), WARNING_LIMIT);
    // What nobody can decode any more can still be deleted and repaired.
    let broken = json!({"spec": {"size": "large"}});
    let response = verdict("/validate/thing", &review("DELETE", json!(null), broken.clone())).await;
    assert_eq!(response["allowed"], true);
    let response = verdict("/validate/thing", &review("UPDATE", json!({"spec": {"size": 1}}), broken)).await;
    assert_eq!(response["allowed"], true);
}

#[tokio::test]
async fn an_undecodable_object_is_refused_with_a_sentence() {
    for path in ["/validate/thing", "/default/thing"] {
        let response = verdict(path, &review("CREATE", json!({"spec": {"size": "large"}}), json!(null))).await;
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(422)));
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.starts_with("cannot decode the object as Thing: "), "{message}");
        let long = json!({"spec": {"size": "x".repeat(100_000)}});
        let response = verdict(path, &review("CREATE", long, json!(null))).await;
        assert!(response["status"]["message"].as_str().unwrap().len() < 300);
    }
}

#[tokio::test]
async fn a_review_of_the_older_version_is_answered_in_its_own() {
    for (size, allowed) in [(3, true), (101, false)] {
        let asked = review("CREATE", json!({"spec": {"size": size}}), json!(null)).to_string();
        let asked = asked.replace("admission.k8s.io/v1\"", "admission.k8s.io/v1beta1\"");
        let (status, answer) = ask("/validate/thing", asked).await;
        assert_eq!((status, &answer["apiVersion"]), (200, &json!("admission.k8s.io/v1beta1")), "{answer}");
        assert_eq!(answer["response"]["allowed"], allowed, "{answer}");
    }
}

#[tokio::test]
async fn what_is_no_review_is_refused_by_status() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let nested =
        review("CREATE", json!(0), json!(null)).to_string().replace("\"object\":0", &format!("\"object\":{deep}"));
    let newer = review("CREATE", json!({}), json!(null)).to_string().replace("k8s.io/v1\"", "k8s.io/v2\"");
    let odd = review("EXPLODE", json!({}), json!(null)).to_string();
    for body in ["", "null", "{}", "[]", "\u{0}", &deep, &nested, &newer, &odd] {
        let (status, answer) = ask("/validate/thing", body.to_owned()).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer.as_str().unwrap().len() < 300);
    }
    assert_eq!(ask("/validate/other", "{}").await.0, 404);
}

#[tokio::test]
async fn an_object_over_the_limit_is_refused_unless_it_shrinks() {
    let of = |size: usize| json!({"spec": {"size": 1, "hosts": ["x".repeat(size)]}});
    let response = verdict("/validate/thing", &review("CREATE", of(OBJECT_LIMIT), json!(null))).await;
    assert_eq!(response["status"]["reason"], "RequestEntityTooLarge");
    let response = verdict("/validate/thing", &review("UPDATE", of(OBJECT_LIMIT), of(OBJECT_LIMIT - 1))).await;
    assert_eq!(response["allowed"], false);
    let response = verdict("/validate/thing", &review("UPDATE", of(OBJECT_LIMIT), of(OBJECT_LIMIT + 1))).await;
    assert_eq!(response["allowed"], true);
    let mut managed = of(1000);
    managed["metadata"] = json!({"managedFields": ["x".repeat(OBJECT_LIMIT)]});
    let response = verdict("/validate/thing", &review("CREATE", managed, json!(null))).await;
    assert_eq!(response["allowed"], true);
}

#[tokio::test]
async fn a_review_of_two_large_objects_is_read_whole() {
    let large = || json!({"spec": {"size": 1}, "metadata": {"managedFields": ["x".repeat(3 << 20)]}});
    let response = verdict("/validate/thing", &review("UPDATE", large(), large())).await;
    assert_eq!(response["allowed"], true);
}

#[tokio::test]
async fn a_secret_value_is_not_in_the_answer() {
    let object = json!({"spec": {"size": 1, "token": "canary"}});
    let response = verdict("/validate/thing", &review("CREATE", object, json!(null))).await;
    assert!(!response.to_string().contains("canary"), "{response}");
    assert!(response["status"]["message"].as_str().unwrap().contains("spec.token: has leaked"));
}

#[tokio::test]
async fn a_panic_of_a_room_refuses_the_object_and_says_so() {
    let response = verdict("/validate/thing", &review("CREATE", json!({"spec": {"size": 13}}), json!(null))).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(500)));
}

#[tokio::test]
async fn a_failed_server_answers_as_a_review_if_it_knows_which() {
    let body = Some(Bytes::from(review("CREATE", json!({}), json!(null)).to_string()));
    let failure = Failure { kind: FailureKind::Deadline, path: "/x".to_owned(), body };
    let response = failure_answer(&failure);
    assert_eq!(response.status(), 200);
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((&answer["response"]["uid"], &answer["response"]["status"]["code"]), (&json!("u-1"), &json!(504)));
    let failure = Failure { kind: FailureKind::BodyTooLarge, path: "/x".to_owned(), body: None };
    assert_eq!(failure_answer(&failure).status(), 413);
}

#[test]
fn a_path_twice_or_with_odd_characters_is_an_error() {
    let nothing = |_: &Review<Thing>| Vec::new();
    let twice = Admission::new().validate("/a", nothing).validate("/a", nothing);
    assert_eq!(twice.router().unwrap_err(), AdmissionError::DuplicatePath { path: "/a".to_owned() });
    for path in ["a", "/{a}", "/a b", "/*a", ""] {
        assert!(Admission::new().validate(path, nothing).router().is_err(), "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_bytes_make_it_panic_or_answer_anything_but_200_or_400(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..600) {
        let whole = review("CREATE", json!({"spec": {"size": 1}}), json!(null)).to_string();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (status, _) = ask("/validate/thing", bytes).await;
            prop_assert_eq!(status, 400);
            let part = whole.get(..cut.min(whole.len())).unwrap_or_default().to_owned();
            let (status, _) = ask("/validate/thing", part).await;
            prop_assert!(status == 400 || status == 200);
            Ok(())
        })?;
    }
}
