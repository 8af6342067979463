//! The requests of three versions of Cluster API, and what is told about us.

use std::sync::Arc;

use bytes::Bytes;
use kit::clock::Clock;
use kit::telemetry::Metrics;
use serde_json::json;
use vip::hooks::{Hook, Hooks, LifecycleRequest, Names, wire};

use crate::answers::post;
use crate::support::{Room, golden, names};

const VERSIONS: [&str; 3] = ["v1.10", "v1.12", "v1.14"];

#[test]
fn every_version_says_the_same_about_a_new_cluster() {
    for version in VERSIONS {
        let request = LifecycleRequest::read(&golden(version, Hook::BeforeClusterCreate)).unwrap();
        assert_eq!(request.key.to_string(), "team-a/prod");
        assert_eq!(request.settings.get("missingPoolPolicy").map(String::as_str), Some("block"));
        let cluster = &request.cluster;
        let meta = &cluster.metadata;
        assert_eq!(meta.uid.as_deref(), Some("7f3f0a3e-2a49-4d5b-9c8d-6d4f5f2f8a11"));
        assert_eq!(meta.resource_version.as_deref(), Some("48213"));
        assert_eq!(meta.annotations.as_ref().unwrap()["team.example.com/contact"], "infra");
        assert!(meta.managed_fields.is_none() && meta.deletion_timestamp.is_none());
        assert_eq!(cluster.class().unwrap().to_string(), "classes/proxmox-ha", "{version}");
        assert!(!cluster.spec.control_plane_endpoint.is_valid() && !cluster.is_paused());
        assert!(cluster.spec.control_plane_endpoint.host.is_empty());
        assert!(cluster.spec.infrastructure_ref.is_none() && cluster.spec.control_plane_ref.is_none());
        let topology = cluster.spec.topology.as_ref().unwrap();
        assert_eq!(topology.variable("clusterVip"), Some(&json!("")));
        assert_eq!(topology.variables.len(), 2, "the list is kept whole");
        assert_eq!(topology.version.as_deref(), Some("v1.33.1"));
    }
}

#[test]
fn every_version_says_the_same_about_a_cluster_that_goes() {
    for version in VERSIONS {
        let request = LifecycleRequest::read(&golden(version, Hook::BeforeClusterDelete)).unwrap();
        let cluster = &request.cluster;
        assert!(request.settings.is_empty() && cluster.metadata.deletion_timestamp.is_some());
        let endpoint = &cluster.spec.control_plane_endpoint;
        assert_eq!((endpoint.host.as_str(), endpoint.port), ("10.0.0.15", 6443), "{version}");
        assert!(cluster.spec.infrastructure_ref.is_some() && cluster.spec.control_plane_ref.is_some());
    }
}

#[tokio::test]
async fn each_request_reaches_its_own_handler_unchanged() {
    let room = Arc::new(Room::default());
    let names = Names::new("vip-allocator", "/behind/a/proxy").unwrap();
    let hooks = Hooks::new(Arc::clone(&room), names.clone(), &Metrics::new(), Clock::system());
    for version in VERSIONS {
        for hook in Hook::ALL {
            for path in names.paths(hook) {
                let body = golden(version, hook);
                post(&hooks, &path, body.clone()).await.answers(hook);
                if hook.can_wait() {
                    let (asked, request) = room.lifecycle.lock().unwrap().pop().unwrap();
                    assert_eq!((asked, request), (hook, LifecycleRequest::read(&body).unwrap()));
                } else if hook != Hook::Discovery {
                    assert_eq!(room.bodies.lock().unwrap().pop().unwrap(), (hook, body));
                }
            }
        }
    }
}

#[test]
fn discovery_tells_all_handlers() {
    let value: serde_json::Value = serde_json::from_slice(&wire::discovery(&names())).unwrap();
    let api = "hooks.runtime.cluster.x-k8s.io/v1alpha1";
    let handler = |name: &str, hook: &str, seconds: u8, policy: &str| {
        json!({"name": name, "requestHook": {"apiVersion": api, "hook": hook},
            "timeoutSeconds": seconds, "failurePolicy": policy})
    };
    assert_eq!(
        value,
        json!({"apiVersion": api, "kind": "DiscoveryResponse", "status": "Success", "message": "", "handlers": [
            handler("vip-allocator-before-create", "BeforeClusterCreate", 10, "Fail"),
            handler("vip-allocator-generate-patches", "GeneratePatches", 10, "Fail"),
            handler("vip-allocator-validate-topology", "ValidateTopology", 10, "Fail"),
            handler("vip-allocator-discover-variables", "DiscoverVariables", 10, "Fail"),
            handler("vip-allocator-before-delete", "BeforeClusterDelete", 5, "Ignore"),
        ]})
    );
}

#[tokio::test]
async fn discovery_does_not_look_at_what_it_is_sent() {
    let hooks = Hooks::new(Arc::new(Room::default()), names(), &Metrics::new(), Clock::system());
    for body in ["", "{", "null", "\u{0}", r#"{"kind":"Other"}"#] {
        let got = post(&hooks, &names().path(Hook::Discovery), Bytes::from_static(body.as_bytes())).await;
        assert_eq!(got.body, wire::discovery(&names()));
    }
}
