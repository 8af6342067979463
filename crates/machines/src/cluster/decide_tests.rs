use std::collections::BTreeMap;
use std::sync::Arc;

use api::key::ObjectKey;
use api::names::PAUSED_ANNOTATION;
use api::names::claims::DELETE_FOR_MOVE_ANNOTATION;
use api::names::machines::CLUSTER_FINALIZER;
use api::own::metal3::{ControlPlaneEndpoint, FailureDomain, Metal3ClusterSpec};
use kit::conditions::State;
use kit::feed::Version;
use kit::kinds::Kind;
use kit::write::Target;

use super::*;
use crate::cluster::guard::guard;
use crate::cluster::status::status;
use crate::config::Config;
use crate::facts::{ClusterFacts, PlaceFacts};

fn snapshot(change: impl FnOnce(&mut PlaceFacts)) -> Snapshot {
    let mut place = PlaceFacts {
        uid: "p1".into(),
        owner: Some("c".into()),
        finalizers: vec![CLUSTER_FINALIZER.to_owned()],
        spec: Metal3ClusterSpec {
            control_plane_endpoint: ControlPlaneEndpoint { host: "10.0.0.5".to_owned(), port: Some(6443) },
            failure_domains: vec![FailureDomain { name: "rack-1".to_owned(), ..FailureDomain::default() }],
            ..Metal3ClusterSpec::default()
        },
        ..PlaceFacts::default()
    };
    change(&mut place);
    let kind = Kind {
        group: "infrastructure.cluster.x-k8s.io".to_owned(),
        version: "v1beta2".to_owned(),
        kind: "Metal3Cluster".to_owned(),
        plural: "metal3clusters".to_owned(),
    };
    let key = ObjectKey::namespaced("team", "c");
    Snapshot {
        target: Target { kind, key: key.clone(), uid: "p1".into() },
        key,
        now: "2030-01-01T00:00:00Z".parse().unwrap(),
        config: Arc::default(),
        place: Arc::new(place),
        version: Version { uid: "p1".into(), resource_version: "1".into() },
        cluster: Some(Arc::new(ClusterFacts::default())),
        machines: 0,
    }
}

fn standing(s: &Snapshot) -> Standing {
    let (steps, standing) = think(s);
    guard(s, &steps).unwrap();
    standing
}

fn reason(s: &Snapshot) -> Option<Reason> {
    match standing(s) {
        Standing::Waits(reason, _) => Some(reason),
        _ => None,
    }
}

#[test]
fn whose_a_cluster_is_follows_the_annotation_then_the_flag_then_who_writes_its_status() {
    let annotated = |value: &str| BTreeMap::from([(MANAGED_ANNOTATION.to_owned(), value.to_owned())]);
    let with = |manage: Manage, annotations: BTreeMap<String, String>, writers: &[&str]| {
        let mut s = snapshot(|place| {
            place.annotations = annotations;
            place.status_writers = writers.iter().map(|name| (*name).into()).collect();
        });
        s.config = Arc::new(Config { manage_clusters: manage, ..Config::default() });
        is_ours(&s)
    };
    let none = BTreeMap::new;
    assert!(with(Manage::Auto, none(), &[]));
    assert!(with(Manage::Auto, none(), &["berth-machines-clusters", "berth"]));
    assert!(!with(Manage::Auto, none(), &["berth-machines-clusters", "manager"]));
    assert!(!with(Manage::Auto, none(), &["berthold"]));
    assert!(with(Manage::Auto, annotated("true"), &["manager"]));
    assert!(!with(Manage::Auto, annotated("false"), &[]));
    assert!(with(Manage::Always, none(), &["manager"]));
    assert!(!with(Manage::Always, annotated("false"), &[]));
    assert!(!with(Manage::Never, none(), &[]));
    assert!(with(Manage::Never, annotated("true"), &[]));
}

#[test]
fn what_somebody_else_looks_after_is_neither_changed_nor_told_about() {
    let s = snapshot(|place| {
        place.finalizers.clear();
        place.status_writers = vec!["manager".into()];
    });
    assert_eq!(think(&s), (Vec::new(), Standing::Theirs));
    assert_eq!(status(&s, &Standing::Theirs), None);
}

#[test]
fn a_cluster_is_ready_with_a_whole_endpoint_and_passes_its_failure_domains_on() {
    let s = snapshot(|_| {});
    assert_eq!(standing(&s), Standing::Ready);
    let (next, verdicts) = status(&s, &Standing::Ready).unwrap();
    assert_eq!(next.initialization.unwrap().provisioned, Some(true));
    assert_eq!(next.failure_domains, s.place.spec.failure_domains);
    assert!(verdicts.iter().any(|verdict| verdict.type_ == "Ready" && verdict.state == State::True));
    for (host, port, wanted) in [
        ("", Some(6443), Reason::ControlPlaneEndpointMissing),
        ("10.0.0.5", None, Reason::ControlPlaneEndpointMissing),
        ("10.0.0.5", Some(0), Reason::ControlPlaneEndpointMissing),
        ("10.0.0.5", Some(70_000), Reason::ControlPlaneEndpointInvalid),
        ("not a host", Some(6443), Reason::ControlPlaneEndpointInvalid),
    ] {
        let endpoint = ControlPlaneEndpoint { host: host.to_owned(), port };
        let s = snapshot(|place| place.spec.control_plane_endpoint = endpoint);
        assert_eq!(reason(&s), Some(wanted), "{host} {port:?}");
    }
    let of = |host: &str, port| ControlPlaneEndpoint { host: host.to_owned(), port: Some(port) };
    for (endpoint, told) in [
        (of("10.0.0.5", 70_000), "spec.controlPlaneEndpoint.port: 70000 is not between 1 and 65535"),
        (of("https://a", 6443), "spec.controlPlaneEndpoint.host: https://a is neither a host name nor an address"),
    ] {
        let s = snapshot(|place| place.spec.control_plane_endpoint = endpoint);
        assert!(matches!(standing(&s), Standing::Waits(_, text) if text == told), "{told}");
    }
    for host in ["api.example.org", "API.example.org", "2001:db8::5", "[2001:db8::5]"] {
        let endpoint = ControlPlaneEndpoint { host: host.to_owned(), port: Some(6443) };
        let s = snapshot(|place| place.spec.control_plane_endpoint = endpoint);
        assert_eq!(standing(&s), Standing::Ready, "{host}");
    }
}

#[test]
fn the_finalizer_comes_with_the_owner_and_goes_after_the_machines() {
    let mut s = snapshot(|place| place.finalizers.clear());
    assert_eq!(think(&s).0, [Step::Secure]);
    s.cluster = None;
    assert_eq!(reason(&s), Some(Reason::WaitingForClusterOwner));
    let mut s = snapshot(|place| place.deleting = true);
    s.machines = 2;
    assert_eq!(reason(&s), Some(Reason::MachinesRemain));
    let told = standing(&s);
    s.machines = 1;
    assert_eq!(standing(&s), told, "no word for each machine that goes");
    s.machines = 0;
    assert_eq!(think(&s).0, [Step::Conclude]);
}

#[test]
fn a_paused_cluster_stays_as_it_is_and_a_moved_one_goes() {
    let paused = |place: &mut PlaceFacts| drop(place.annotations.insert(PAUSED_ANNOTATION.to_owned(), String::new()));
    let s = snapshot(|place| {
        paused(place);
        place.deleting = true;
    });
    assert_eq!(think(&s), (vec![Step::Wait], Standing::Paused));
    let s = snapshot(|place| {
        paused(place);
        place.deleting = true;
        place.annotations.insert(DELETE_FOR_MOVE_ANNOTATION.to_owned(), String::new());
    });
    assert_eq!(think(&s).0, [Step::Conclude]);
    guard(&s, &[Step::Conclude]).unwrap();
}
