//! Too much, too slow, too long, and a handler that panics: still an answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use kit::serve::Tls;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use vip::hooks::{BODY_LIMIT, Hook};

use crate::support::{Authority, Caller, Mood, PATIENCE, Served, golden, names};

/// The hooks with a handler.
fn handled() -> impl Iterator<Item = Hook> {
    Hook::ALL.into_iter().filter(|hook| *hook != Hook::Discovery)
}

/// A good request of exactly this size.
fn grown(hook: Hook, size: usize) -> Bytes {
    let mut request: Value = serde_json::from_slice(&golden("v1.14", hook)).unwrap();
    request["padding"] = Value::from("");
    let missing = size - request.to_string().len();
    request["padding"] = Value::from("x".repeat(missing));
    let body = request.to_string();
    assert_eq!(body.len(), size);
    body.into()
}

#[tokio::test]
async fn large_bodies_arrive_whole_and_larger_ones_than_allowed_are_answered_too() {
    let authority = Authority::new();
    let served = Served::start(Tls::new(authority.slot()), |_| {}).await;
    for two in [false, true] {
        let caller = Caller::new(served.address, authority.trust(None), two);
        for size in [5 << 20, BODY_LIMIT] {
            for hook in [Hook::BeforeClusterCreate, Hook::GeneratePatches] {
                assert_eq!(caller.call(hook, grown(hook, size)).await.answers(hook)["status"], "Success");
            }
            let (_, body) = served.room.bodies.lock().unwrap().pop().unwrap();
            assert_eq!(body.len(), size);
        }
        for hook in handled() {
            let message = caller.call(hook, grown(hook, BODY_LIMIT + 1)).await.fails(hook);
            assert!(message.contains("larger than the limit"), "{message}");
        }
        let got = caller.call(Hook::Discovery, vec![b' '; BODY_LIMIT + 1]).await;
        assert_eq!(got.answers(Hook::Discovery)["status"], "Success");
    }
    assert_eq!(served.room.lifecycle.lock().unwrap().len(), 4);
    let counted = served.metrics.encode();
    let labels = "hook=\"GeneratePatches\",status=\"Failure\",blocking=\"false\"";
    assert!(counted.contains(&format!("berth_vip_hook_requests_total{{{labels}}} 2\n")), "{counted}");
    served.ended().await;
}

#[tokio::test]
async fn a_slow_client_is_answered_in_time_and_holds_up_nobody() {
    let authority = Authority::new();
    let served =
        Served::start(Tls::new(authority.slot()), |options| options.body_timeout = Duration::from_millis(300)).await;
    let mut trust = authority.trust(None);
    trust.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let mut slow = tokio_rustls::TlsConnector::from(Arc::new(trust)).connect(name, stream).await.unwrap();
    let path = names().path(Hook::BeforeClusterCreate);
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{{\"clu");
    slow.write_all(head.as_bytes()).await.unwrap();
    slow.flush().await.unwrap();

    let caller = Caller::new(served.address, authority.trust(None), true);
    caller
        .call(Hook::BeforeClusterCreate, golden("v1.10", Hook::BeforeClusterCreate))
        .await
        .answers(Hook::BeforeClusterCreate);

    let mut text = Vec::new();
    // The server closes a connection whose request it gave up.
    let _ = tokio::time::timeout(PATIENCE, slow.read_to_end(&mut text)).await.expect("an answer in time");
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    let body: Value = serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!((&body["kind"], &body["status"]), (&"BeforeClusterCreateResponse".into(), &"Failure".into()));
    served.ended().await;
}

#[tokio::test]
async fn a_panic_is_a_failure_of_the_hooks_own_type_and_the_next_request_is_answered() {
    let authority = Authority::new();
    let served = Served::start(Tls::new(authority.slot()), |_| {}).await;
    let caller = Caller::new(served.address, authority.trust(None), true);
    for hook in handled() {
        served.room.set(Mood::Panic);
        let message = caller.call(hook, golden("v1.12", hook)).await.fails(hook);
        assert!(message.contains("internal error") && !message.contains("on purpose"), "{message}");
        served.room.set(Mood::Answer);
        assert_eq!(caller.call(hook, golden("v1.12", hook)).await.answers(hook)["status"], "Success");
    }
    let counted = served.metrics.encode();
    let labels = "hook=\"BeforeClusterCreate\",status=\"Failure\",blocking=\"false\"";
    assert!(counted.contains(&format!("berth_vip_hook_requests_total{{{labels}}} 1\n")), "{counted}");
    assert!(counted.contains("\nberth_vip_hook_inflight 0\n"), "{counted}");
    served.ended().await;
}

#[tokio::test]
async fn an_answer_that_is_none_becomes_a_failure() {
    let authority = Authority::new();
    let served = Served::start(Tls::new(authority.slot()), |_| {}).await;
    let caller = Caller::new(served.address, authority.trust(None), true);
    served.room.set(Mood::Nonsense);
    for hook in handled().filter(|hook| !hook.can_wait()) {
        caller.call(hook, golden("v1.14", hook)).await.fails(hook);
    }
    served.ended().await;
}

#[tokio::test]
async fn the_time_that_the_caller_gives_is_kept_and_a_late_cluster_is_asked_for_again() {
    let authority = Authority::new();
    let served =
        Served::start(Tls::new(authority.slot()), |options| options.deadline = Duration::from_secs(3600)).await;
    let caller = Caller::new(served.address, authority.trust(None), true);
    served.room.set(Mood::Hang);
    for hook in handled() {
        let path = format!("{}?other=1&timeout=200ms", names().path(hook));
        let got = caller.send(Method::POST, &path, golden("v1.14", hook)).await.unwrap();
        let value = got.answers(hook);
        if hook.can_wait() {
            assert_eq!((&value["status"], &value["retryAfterSeconds"]), (&"Success".into(), &2.into()), "{value}");
        } else {
            assert_eq!(value["status"], "Failure", "{value}");
        }
        assert!(value["message"].as_str().unwrap().contains("deadline"), "{value}");
    }
    let path = format!("{}?timeout=1ns", names().path(Hook::Discovery));
    let got = caller.send(Method::POST, &path, "{}").await.unwrap();
    assert_eq!(got.answers(Hook::Discovery)["status"], "Success");
    served.ended().await;
}
