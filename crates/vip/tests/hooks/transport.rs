//! TLS, both versions of HTTP, paths and methods.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Method, StatusCode, Version};
use kit::certs::{CertMetrics, Directory, Slot};
use kit::clock::Clock;
use kit::gates::Gates;
use kit::serve::{Clients, Tls};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use vip::hooks::Hook;

use crate::support::{Authority, Caller, Mood, PATIENCE, Served, golden, names};

#[tokio::test]
async fn every_hook_is_answered_over_both_versions_of_http_without_a_content_type() {
    let authority = Authority::new();
    let served = Served::start(Tls::new(authority.slot()), |_| {}).await;
    for (two, version) in [(false, Version::HTTP_11), (true, Version::HTTP_2)] {
        let caller = Caller::new(served.address, authority.trust(None), two);
        for hook in Hook::ALL {
            let got = caller.call(hook, golden("v1.14", hook)).await;
            assert_eq!(got.version, version);
            assert_eq!(got.answers(hook)["status"], "Success");
        }
        let got = caller.send(Method::GET, "/", "").await.unwrap();
        assert_eq!((got.status, got.kind.as_deref()), (StatusCode::OK, Some("application/json")));
        assert_eq!(got.json(), serde_json::json!({"status": "ok"}));
    }
    let counted = served.metrics.encode();
    for (hook, blocking) in [(Hook::BeforeClusterCreate, true), (Hook::BeforeClusterDelete, false)] {
        let labels = format!("hook=\"{hook}\",status=\"Success\",blocking=\"{blocking}\"");
        assert!(counted.contains(&format!("berth_vip_hook_requests_total{{{labels}}} 2\n")), "{counted}");
    }
    assert!(counted.contains("\nberth_vip_hook_inflight 0\n"), "{counted}");
    served.ended().await;
}

#[tokio::test]
async fn an_unknown_path_is_404_and_a_wrong_method_405() {
    let authority = Authority::new();
    let served = Served::start(Tls::new(authority.slot()), |_| {}).await;
    let caller = Caller::new(served.address, authority.trust(None), true);
    let create = names().path(Hook::BeforeClusterCreate);
    let upper = create.replace("beforeclustercreate", "BeforeClusterCreate");
    for path in ["/x", "/hooks.runtime.cluster.x-k8s.io/v1alpha1", &format!("{create}-more"), &upper] {
        assert_eq!(caller.send(Method::POST, path, "{}").await.unwrap().status, StatusCode::NOT_FOUND, "{path}");
    }
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::PATCH] {
        let got = caller.send(method, &create, "").await.unwrap();
        assert_eq!(got.status, StatusCode::METHOD_NOT_ALLOWED);
    }
    assert_eq!(caller.send(Method::POST, "/", "{}").await.unwrap().status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(served.room.lifecycle.lock().unwrap().is_empty());
    served.ended().await;
}

#[tokio::test]
async fn a_client_that_trusts_another_authority_does_not_come_through() {
    let (authority, other) = (Authority::new(), Authority::new());
    let served = Served::start(Tls::new(authority.slot()), |_| {}).await;
    let caller = Caller::new(served.address, other.trust(None), true);
    let error = caller.send(Method::POST, &names().path(Hook::Discovery), "{}").await.unwrap_err();
    assert!(format!("{error:?}").contains("InvalidCertificate"), "{error:?}");
    served.ended().await;
}

#[tokio::test]
async fn with_a_client_authority_only_its_clients_are_answered() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let tls = Tls::new(authority.slot()).require_clients(Clients::from_pem(clients.pem().as_bytes()).unwrap());
    let served = Served::start(tls, |_| {}).await;
    for two in [false, true] {
        let attempt = async |identity| {
            let caller = Caller::new(served.address, authority.trust(identity), two);
            caller.send(Method::POST, &names().path(Hook::Discovery), "{}").await
        };
        assert!(attempt(None).await.is_err());
        assert!(attempt(Some(authority.issue())).await.is_err());
        attempt(Some(clients.issue())).await.unwrap().answers(Hook::Discovery);
    }
    served.ended().await;
}

fn put(dir: &Path, (certificate, key): &(String, String)) {
    std::fs::write(dir.join("tls.crt"), certificate).unwrap();
    std::fs::write(dir.join("tls.key"), key).unwrap();
}

#[tokio::test]
async fn a_new_key_pair_is_served_while_a_request_of_the_old_one_is_answered() {
    let (old, new) = (Authority::new(), Authority::new());
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &old.issue());
    let (gates, slot, stop) = (Gates::new(), Slot::new(), CancellationToken::new());
    let source = Directory::new(dir.path(), slot.clone(), gates.gate("c"), Clock::system(), CertMetrics::default());
    let mut background = JoinSet::new();
    background.spawn(source.run(stop.clone()));
    tokio::time::timeout(PATIENCE, gates.until_ready()).await.unwrap();

    let served = Served::start(Tls::new(slot), |_| {}).await;
    let before = Caller::new(served.address, old.trust(None), true);
    before.call(Hook::Discovery, "{}").await.answers(Hook::Discovery);
    put(dir.path(), &new.issue());
    let taken = async {
        loop {
            let caller = Caller::new(served.address, new.trust(None), true);
            if let Ok(got) = caller.send(Method::POST, &names().path(Hook::Discovery), "{}").await {
                return got;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, taken).await.expect("the new pair is taken").answers(Hook::Discovery);
    // The connection made with the old pair lives on.
    before.call(Hook::BeforeClusterCreate, golden("v1.14", Hook::BeforeClusterCreate)).await;
    assert_eq!(served.room.lifecycle.lock().unwrap().len(), 1);
    stop.cancel();
    served.ended().await;
    tokio::time::timeout(PATIENCE, background.join_next()).await.unwrap();
}

#[tokio::test]
async fn who_goes_away_is_not_worked_for_any_more() {
    let authority = Authority::new();
    let served = Served::start(Tls::new(authority.slot()), |_| {}).await;
    served.room.set(Mood::Hang);
    for (two, count) in [(false, 1), (true, 2)] {
        let caller = Caller::new(served.address, authority.trust(None), two);
        let entered = served.room.entered.notified();
        tokio::select! {
            got = caller.call(Hook::BeforeClusterCreate, golden("v1.14", Hook::BeforeClusterCreate)) => panic!("{got:?}"),
            () = entered => {}
        }
        drop(caller);
        let given_up = async {
            while served.room.given_up.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        // Well before any deadline of the request itself.
        tokio::time::timeout(Duration::from_secs(5), given_up).await.expect("the handler is given up");
    }
    assert!(served.metrics.encode().contains("\nberth_vip_hook_inflight 0\n"));
    served.ended().await;
}
