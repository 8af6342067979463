use serde_json::json;

use super::*;
use crate::metal::host::Image;

/// A history that is written down step by step.
#[derive(Default)]
struct History {
    versions: Vec<Arc<Version>>,
    disks: Vec<DiskChange>,
    forgiven: Forgiven,
}

impl History {
    fn push(mut self, kind: &'static str, place: &str, name: &str, mut object: Value, gone: bool) -> Self {
        let revision = self.versions.len() as u64 + 1;
        object["metadata"]["namespace"] = json!(place);
        object["metadata"]["name"] = json!(name);
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        let uid = object["metadata"]["uid"].as_str().unwrap_or("u").to_owned();
        let (namespace, name) = (place.to_owned(), name.to_owned());
        self.versions.push(Arc::new(Version { revision, gone, kind, namespace, name, uid, object }));
        self
    }

    fn host(self, spec: Value, state: &str) -> Self {
        let status = json!({"provisioning": {"state": state, "ID": ""}});
        self.push(
            "BareMetalHost",
            "infra",
            "h",
            json!({"metadata": {"uid": "h"}, "spec": spec, "status": status}),
            false,
        )
    }

    fn claim(self, tenant: &str, name: &str, uid: &str) -> Self {
        self.push("HostClaim", tenant, name, json!({"metadata": {"uid": uid}}), false)
    }

    fn gone(self, tenant: &str, name: &str, uid: &str) -> Self {
        self.push("HostClaim", tenant, name, json!({"metadata": {"uid": uid}}), true)
    }

    fn copy(self, name: &str, uid: &str, gone: bool) -> Self {
        self.holding(name, uid, json!({"userData": "cmVk"}), gone)
    }

    fn holding(self, name: &str, uid: &str, data: Value, gone: bool) -> Self {
        self.push("Secret", "infra", name, json!({"metadata": {"labels": {CLAIM_UID: uid}}, "data": data}), gone)
    }

    fn disk(mut self, tenant: Option<&str>) -> Self {
        let owner = |tenant: &str| serde_json::from_value(by(tenant, "c", "")).unwrap();
        let disk = tenant.map(|tenant| Disk {
            image: Some(Image { url: "http://i".to_owned(), ..Image::default() }),
            owner: Some(owner(tenant)),
            ..Disk::default()
        });
        let revision = self.versions.len() as u64;
        self.disks.push(DiskChange { revision, namespace: "infra".to_owned(), name: "h".to_owned(), disk });
        self
    }

    fn rules(&self) -> Vec<&'static str> {
        judge(&self.versions, &self.disks, self.forgiven.clone()).iter().map(|breach| breach.rule).collect()
    }
}

fn by(tenant: &str, name: &str, uid: &str) -> Value {
    json!({"kind": "HostClaim", "namespace": tenant, "name": name, "uid": uid})
}

fn held(consumer: Value) -> Value {
    json!({ "consumerRef": consumer })
}

fn with_image(consumer: Value) -> Value {
    json!({"consumerRef": consumer, "image": {"url": "http://i"}, "userData": {"name": "h-userdata"}})
}

fn start() -> History {
    History::default().host(json!({}), "available").claim("red", "c", "1").claim("blue", "c", "2")
}

#[test]
fn a_good_life_has_no_breach() {
    let history = start()
        .host(held(by("red", "c", "1")), "available")
        .copy("h-userdata", "1", false)
        .host(with_image(by("red", "c", "1")), "available")
        .disk(Some("red"))
        .host(with_image(by("red", "c", "1")), "provisioned")
        .host(held(by("red", "c", "1")), "deprovisioning")
        .disk(None)
        .host(held(by("red", "c", "1")), "available")
        .copy("h-userdata", "1", true)
        .host(json!({}), "available")
        .gone("red", "c", "1")
        .host(held(by("blue", "c", "")), "available")
        .host(held(by("blue", "c", "2")), "available");
    assert_eq!(history.rules(), [""; 0]);
}

#[test]
fn a_host_taken_from_somebody_is_seen() {
    let taken = start().host(held(by("red", "c", "1")), "available").host(held(by("blue", "c", "2")), "available");
    assert_eq!(taken.rules(), ["one-consumer"]);
    let machine = json!({"kind": "Metal3Machine", "namespace": "red", "name": "m"});
    assert_eq!(
        start().host(held(machine), "available").host(held(by("red", "c", "1")), "available").rules(),
        ["one-consumer"]
    );
    let cluster = json!({"kind": "Cluster", "namespace": "red", "name": "k"});
    assert!(start().host(held(cluster), "available").host(held(by("red", "c", "1")), "available").rules().is_empty());
}

#[test]
fn a_host_given_away_with_its_system_is_seen() {
    let mine = || start().host(held(by("red", "c", "1")), "provisioned");
    assert_eq!(mine().host(json!({}), "deprovisioning").rules(), ["given-away"]);
    assert_eq!(mine().host(json!({"image": {"url": "http://i"}}), "available").rules(), ["image-held"]);
    assert!(mine().host(json!({}), "available").rules().is_empty());
    let forced = json!({"metadata": {"uid": "h", "annotations": {FORCE_RELEASE: ""}},
        "status": {"provisioning": {"state": "deprovisioning"}}});
    assert!(mine().push("BareMetalHost", "infra", "h", forced, false).rules().is_empty());
}

#[test]
fn copies_come_after_the_host_and_go_before_it() {
    assert_eq!(start().copy("s", "1", false).copy("s", "1", true).rules(), ["copy-held"], "too early");
    let late = start().host(held(by("red", "c", "1")), "available").copy("s", "1", false);
    assert_eq!(late.host(json!({}), "available").rules(), ["copy-held", "copy-held"], "too late, and left");
    let empty = || start().holding("s", "1", Value::Null, false).holding("t", "1", json!({".json": NOTHING}), false);
    let gone = |history: History| history.holding("s", "1", Value::Null, true).holding("t", "1", Value::Null, true);
    assert!(gone(empty()).rules().is_empty(), "an empty one tells nobody anything");
    assert_eq!(empty().rules(), ["copy-held", "copy-held"], "but does not stay");
    assert_eq!(gone(empty().copy("s", "1", false)).rules(), ["copy-held"], "and is not filled");
    let vanished =
        start().host(held(by("red", "c", "1")), "available").push("BareMetalHost", "infra", "h", json!({}), true);
    assert!(vanished.copy("s", "1", false).copy("s", "1", true).rules().is_empty(), "it was on its way");
}

#[test]
fn data_is_the_own_and_there_before_the_image() {
    let early = start().host(held(by("red", "c", "1")), "available").host(with_image(by("red", "c", "1")), "available");
    assert_eq!(early.rules(), ["data-first"]);
    let empty = start()
        .host(held(by("red", "c", "1")), "available")
        .holding("h-userdata", "1", Value::Null, false)
        .host(with_image(by("red", "c", "1")), "available");
    assert_eq!(empty.rules(), ["data-first"]);
    let foreign = start()
        .host(held(by("red", "c", "1")), "available")
        .copy("h-userdata", "2", false)
        .host(with_image(by("red", "c", "1")), "available");
    assert!(foreign.rules().contains(&"own-data"));
}

#[test]
fn a_claim_that_goes_before_its_image_is_seen() {
    let torn = || {
        start()
            .host(json!({"consumerRef": by("red", "c", "1"), "image": {"url": "http://i"}}), "provisioned")
            .gone("red", "c", "1")
    };
    assert_eq!(torn().rules(), ["claim-last", "orphan"]);
    let mut forgiven = torn();
    forgiven.forgiven.claims.insert(("red".to_owned(), "c".to_owned()));
    assert!(forgiven.rules().is_empty());
}

#[test]
fn what_a_tenant_left_on_a_disk_is_seen_by_the_next() {
    let dirty = || start().disk(Some("red")).host(held(by("blue", "c", "2")), "available");
    assert_eq!(dirty().rules(), ["clean-disk"]);
    let mut kept = dirty();
    kept.forgiven.keeps_disks.insert(("infra".to_owned(), "h".to_owned()));
    assert!(kept.rules().is_empty(), "the admin wants it so");
    let later = start().host(held(by("blue", "c", "2")), "available").disk(Some("red"));
    assert_eq!(later.rules(), ["clean-disk"], "whichever of the two comes first");
}

#[test]
fn a_host_that_is_free_with_something_on_its_disk_is_seen() {
    let mine = || start().host(held(by("red", "c", "1")), "available").disk(Some("red"));
    assert_eq!(mine().host(json!({}), "available").rules(), ["clean-free"]);
    assert!(
        mine().host(json!({"automatedCleaningMode": "disabled"}), "available").rules().is_empty(),
        "its admin's way"
    );
    let kept = || mine().host(held(json!({"kind": "Namespace", "name": "red"})), "available");
    assert!(kept().rules().is_empty(), "kept for the same tenant");
    assert_eq!(kept().host(json!({}), "available").rules(), ["clean-free"]);
    let forced = json!({"metadata": {"uid": "h", "annotations": {FORCE_RELEASE: ""}},
        "status": {"provisioning": {"state": "available"}}});
    assert!(mine().push("BareMetalHost", "infra", "h", forced, false).rules().is_empty());
}

#[test]
fn two_hosts_for_one_claim_are_seen_at_rest() {
    let second = json!({"metadata": {"uid": "i"}, "spec": held(by("red", "c", "1"))});
    let twice = start().host(held(by("red", "c", "1")), "available").push("BareMetalHost", "infra", "i", second, false);
    assert_eq!(twice.rules(), ["one-host"]);
}
