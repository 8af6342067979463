//! What a tenant may try, each with the rights of its namespace's administrator and nothing more. Where the webhooks are
//! off, what they would refuse is stored, and the controller must hold by itself.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use sim::metal::seed;
use sim::wait::within;

use crate::corner::{Checks, Corner, Tenant, message, shows};
use crate::world::{SOON, run};

const LARGE: &str = "size";

fn image() -> Value {
    json!({"url": "https://images.example/linux.qcow2", "checksum": "abc", "checksumType": "sha256"})
}

/// A corner with hosts that its tenant may use.
async fn site(
    world: &'static crate::world::World,
    name: &str,
    checks: Checks,
    hosts: &[&str],
    more: Value,
) -> (Corner, Tenant) {
    let mut corner = Corner::new(world, name, checks).await;
    let red = corner.tenant("red").await;
    corner.hosts(hosts, &json!({LARGE: "large"})).await;
    corner.open_to(&[&red], more).await;
    (corner, red)
}

#[test]
fn another_namespaces_secret_never_reaches_a_disk() {
    run("another_namespaces_secret_never_reaches_a_disk", async |world| {
        let (corner, red) = site(world, "t-secret", Checks::Off, &["h1"], json!({})).await;
        corner.secret("loot", json!({"userData": "infrastructure-password"})).await;
        let stolen = json!({"image": image(), "userData": {"name": "loot", "namespace": corner.metal}});
        red.claim("new", stolen.clone()).await;
        let refused = red.until_condition("new", "Associated=False/InvalidSelector").await;
        assert!(message(&refused, "Associated").contains("spec.userData.namespace"), "{refused}");
        red.end("new").await;

        // One that has a host already gets its own secret of that name, or none.
        red.claim("bound", json!({})).await;
        red.until_ready("bound").await;
        red.edit("bound", json!({"spec": stolen})).await;
        red.until_condition("bound", "Synchronized=False/UserDataSecretSyncFailure").await;
        assert!(corner.copies().await.is_empty());
        assert_eq!(corner.host("h1").await["spec"]["image"], Value::Null);
        red.secret("loot", json!({"userData": "my own"})).await;
        red.until_condition("bound", "Provisioned=True").await;
        assert_eq!(corner.disk("h1").unwrap().user_data.as_deref(), Some("my own"));
        red.end("bound").await;
        corner.judge().await;
    });
}

#[test]
fn a_reference_to_another_namespaces_secret_is_refused_before_it_is_stored() {
    run("a_reference_to_another_namespaces_secret_is_refused_before_it_is_stored", async |world| {
        let (corner, red) = site(world, "t-checked", Checks::On, &[], json!({})).await;
        for (spec, path) in [
            (json!({"userData": {"name": "loot", "namespace": corner.metal}}), "spec.userData.namespace"),
            (json!({"image": {"url": "file:///etc/shadow", "checksum": "c"}}), "spec.image.url"),
        ] {
            let refused = red.create(&red.plan("c", &spec)).await.unwrap_err();
            assert!(refused.message.contains(path), "{refused:?}");
        }
    });
}

#[test]
fn a_host_never_pulls_with_a_secret_of_the_infrastructure() {
    run("a_host_never_pulls_with_a_secret_of_the_infrastructure", async |world| {
        let (corner, red) = site(world, "t-pull", Checks::Off, &["h1"], json!({})).await;
        corner.secret("registry", json!({".dockerconfigjson": "infrastructure-registry"})).await;
        red.claim("c", json!({"image": {"url": "oci://registry.example/linux", "ociAuthSecretName": "registry"}}))
            .await;
        red.until_condition("c", "Synchronized=False/ImageAuthSecretSyncFailure").await;
        assert_eq!(corner.host("h1").await["spec"]["image"], Value::Null);
        red.secret("registry", json!({".dockerconfigjson": "my own"})).await;
        red.until_condition("c", "Provisioned=True").await;
        let host = corner.host("h1").await;
        let used = host["spec"]["image"]["ociAuthSecretName"].as_str().unwrap();
        assert!(used.starts_with("h1-hc-") && used.ends_with("-pull"), "{used}");
        red.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn an_image_comes_from_where_the_policy_says_and_from_no_file() {
    run("an_image_comes_from_where_the_policy_says_and_from_no_file", async |world| {
        let prefixes = json!({"imageURLPrefixes": ["https://images.example/"]});
        let (corner, red) = site(world, "t-image", Checks::Off, &["h1"], prefixes).await;
        red.claim("c", json!({})).await;
        red.until_ready("c").await;
        // The definition itself knows no files; a place that no policy names is the controller's business.
        let refused = red.merge("c", json!({"spec": {"image": {"url": "file:///etc/shadow", "checksum": "c"}}})).await;
        assert_eq!(refused.unwrap_err().code, 422);
        for url in ["http://169.254.169.254/latest", "https://images.example.evil/linux"] {
            red.edit("c", json!({"spec": {"image": {"url": url, "checksum": "c"}}})).await;
            red.until_condition("c", "Synchronized=False/ImageNotAllowed").await;
            assert_eq!(corner.host("h1").await["spec"]["image"], Value::Null, "{url}");
        }
        let fetched = json!({"url": "https://images.example/linux", "checksum": "file:///etc/shadow"});
        red.edit("c", json!({"spec": {"image": fetched}})).await;
        red.until_condition("c", "Synchronized=False/ImageNotAllowed").await;
        red.edit("c", json!({"spec": {"image": {"checksum": "abc"}}})).await;
        red.until_condition("c", "Provisioned=True").await;
        red.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn a_forged_status_gives_no_host() {
    run("a_forged_status_gives_no_host", async |world| {
        let (mut corner, red) = site(world, "t-forged", Checks::Off, &["h1"], json!({})).await;
        let thief = corner.tenant("thief").await;
        red.claim("c", json!({"image": image()})).await;
        red.until_condition("c", "Provisioned=True").await;
        let before = corner.host("h1").await;
        thief.claim("c", json!({})).await;
        thief.until_condition("c", "Associated=False").await;
        let forged = json!({"status": {"bareMetalHost": {"namespace": corner.metal, "name": "h1"},
            "selectedHost": {"namespace": corner.metal, "name": "h1", "uid": before["metadata"]["uid"]},
            "hostUID": before["metadata"]["uid"], "ready": true, "conditions": []}});
        let refused = thief.claims().patch_status("c", &PatchParams::default(), &Patch::Merge(&forged)).await;
        assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403), "tenants write no status");
        // Even where it is stored, the host has the last word.
        let admin: Api<kube::api::DynamicObject> =
            Api::namespaced_with(world.client.clone(), &thief.namespace, &sim::metal::resource("HostClaim").unwrap());
        admin.patch_status("c", &PatchParams::default(), &Patch::Merge(&forged)).await.unwrap();
        thief.until_condition("c", "Associated=False").await;
        thief
            .edit(
                "c",
                json!({"spec": {"poweredOn": false, "image": {"url": "https://images.example/evil", "checksum": "c"}}}),
            )
            .await;
        thief.until_condition("c", "Ready=False").await;
        thief.end("c").await;
        let after = corner.host("h1").await;
        assert_eq!(before["spec"], after["spec"]);
        assert!(shows(&red.get("c").await, "Ready=True"));
        red.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn a_claim_made_again_under_the_same_name_inherits_nothing() {
    run("a_claim_made_again_under_the_same_name_inherits_nothing", async |world| {
        let (mut corner, red) = site(world, "t-again", Checks::Off, &["h1"], json!({})).await;
        corner.forgive_claim(&red, "c");
        red.secret("user", json!({"userData": "the old life"})).await;
        red.claim("c", json!({"image": image(), "userData": {"name": "user"}})).await;
        let old = red.until_condition("c", "Provisioned=True").await;
        // The finalizer is torn off, and nothing holds the claim any more.
        red.delete("c").await;
        red.merge("c", json!({"metadata": {"finalizers": null}})).await.ok();
        within(SOON, "the old claim is gone", async || {
            let now = red.claims().get_opt("c").await.ok()?;
            now.is_none_or(|now| now.metadata.uid.as_deref() != old["metadata"]["uid"].as_str()).then_some(())
        })
        .await;
        let new = red.claim("c", json!({})).await;
        assert_ne!(new["metadata"]["uid"], old["metadata"]["uid"]);
        // The host is cleaned before anybody has it again, whoever that is.
        let claim = red.until_ready("c").await;
        assert_eq!(claim["status"]["bareMetalHost"]["name"], "h1");
        assert_eq!(corner.disk("h1"), None);
        assert!(corner.copies().await.is_empty());
        let history = corner.history().await;
        let uid = |version: &sim::record::Version| version.object["spec"]["consumerRef"]["uid"].clone();
        let hosts: Vec<_> = history.iter().filter(|version| version.kind == "BareMetalHost").collect();
        let first = hosts.iter().find(|version| uid(version) == new["metadata"]["uid"]).unwrap();
        assert_eq!(first.object["status"]["provisioning"]["state"], "available");
        red.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn a_finalizer_torn_off_leaves_neither_a_deployed_host_nor_a_copy() {
    run("a_finalizer_torn_off_leaves_neither_a_deployed_host_nor_a_copy", async |world| {
        let (mut corner, red) = site(world, "t-torn", Checks::Off, &["h1"], json!({})).await;
        corner.forgive_claim(&red, "c");
        red.secret("user", json!({"userData": "torn off"})).await;
        red.claim("c", json!({"image": image(), "userData": {"name": "user"}})).await;
        red.until_condition("c", "Provisioned=True").await;
        red.delete("c").await;
        red.merge("c", json!({"metadata": {"finalizers": null}})).await.ok();
        corner
            .host_until("h1", "the host is clean and free", |host| {
                host["spec"]["consumerRef"].is_null() && host["status"]["provisioning"]["state"] == "available"
            })
            .await;
        assert_eq!(corner.disk("h1"), None);
        assert!(corner.copies().await.is_empty());
        corner.judge().await;
    });
}

#[test]
fn a_pattern_admits_whom_it_matches_and_an_anchored_one_nobody_else() {
    run("a_pattern_admits_whom_it_matches_and_an_anchored_one_nobody_else", async |world| {
        let mut corner = Corner::new(world, "t-pattern", Checks::Off).await;
        let (prod, other) = (corner.tenant("prod").await, corner.tenant("prod-not").await);
        corner.hosts(&["h1", "h2"], &json!({})).await;
        corner.policy("open", json!({"hostClaimNamespaces": {"nameMatches": "^t-pattern-prod$"}})).await;
        prod.claim("c", json!({})).await;
        other.claim("c", json!({})).await;
        prod.until_ready("c").await;
        let refused = other.until_condition("c", "Associated=False/NoBareMetalHost").await;
        assert!(message(&refused, "Associated").contains("no infrastructure namespace admits"), "{refused}");
        // Without its end the pattern means more than it seems to.
        corner.policy("open", json!({"hostClaimNamespaces": {"nameMatches": "t-pattern-prod"}})).await;
        other.until_ready("c").await;
        prod.end("c").await;
        other.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn a_broken_policy_harms_itself_alone() {
    run("a_broken_policy_harms_itself_alone", async |world| {
        let (corner, red) = site(world, "t-broken", Checks::Off, &["h1"], json!({})).await;
        corner.policy("broken", json!({"hostClaimNamespaces": {"nameMatches": "("}})).await;
        within(SOON, "the broken policy is told", async || {
            let policy = corner.api("HostDeployPolicy").get("broken").await.ok()?;
            let conditions = policy.data["status"]["conditions"].as_array()?.clone();
            conditions.iter().any(|c| c["status"] == "False" && c["reason"] == "InvalidRegexp").then_some(())
        })
        .await;
        red.claim("c", json!({})).await;
        red.until_ready("c").await;
        red.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn a_tenant_does_not_label_itself_into_a_policy() {
    run("a_tenant_does_not_label_itself_into_a_policy", async |world| {
        let mut corner = Corner::new(world, "t-label", Checks::Off).await;
        let red = corner.tenant("red").await;
        corner.hosts(&["h1"], &json!({})).await;
        corner.policy("open", json!({"hostClaimNamespaces": {"hasLabels": [{"name": "tier", "value": "gold"}]}})).await;
        red.claim("c", json!({})).await;
        red.until_condition("c", "Associated=False/NoBareMetalHost").await;
        let label = json!({"metadata": {"labels": {"tier": "gold"}}});
        let spaces: Api<Namespace> = Api::all(red.client.clone());
        let refused = spaces.patch(&red.namespace, &PatchParams::default(), &Patch::Merge(&label)).await;
        assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
        let spaces: Api<Namespace> = Api::all(world.client.clone());
        spaces.patch(&red.namespace, &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
        red.until_ready("c").await;
        red.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn a_policy_that_goes_takes_its_permissions_along_and_the_host_stays() {
    run("a_policy_that_goes_takes_its_permissions_along_and_the_host_stays", async |world| {
        let more = json!({"allowsDetaching": true, "allowsCleaningOverride": true, "allowsCustomDeploy": true});
        let (corner, red) = site(world, "t-revoked", Checks::Off, &["h1"], more).await;
        red.claim("c", json!({"image": image()})).await;
        red.until_condition("c", "Provisioned=True").await;
        corner.api("HostDeployPolicy").delete("open", &Default::default()).await.unwrap();
        red.until_condition("c", "Authorized=False/PolicyRevoked").await;
        red.edit("c", json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": ""}}})).await;
        red.until_event("DetachNotAllowed").await;
        red.edit("c", json!({"spec": {"automatedCleaningMode": "disabled"}})).await;
        let claim = red.until_condition("c", "Synchronized=False/CleaningOverrideNotAllowed").await;
        assert!(shows(&claim, "Associated=True"), "{claim}");
        let host = corner.host("h1").await;
        assert_eq!(host["spec"]["automatedCleaningMode"], "metadata");
        assert!(host["metadata"]["annotations"].get("baremetalhost.metal3.io/detached").is_none());
        red.until_event("PolicyRevoked").await;
        // Who lost access can still leave.
        red.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn disks_are_cleaned_whatever_the_last_tenant_asked_for() {
    run("disks_are_cleaned_whatever_the_last_tenant_asked_for", async |world| {
        let (corner, red) = site(world, "t-clean", Checks::Off, &["h1"], json!({"allowsCleaningOverride": true})).await;
        red.claim("c", json!({"image": image(), "automatedCleaningMode": "disabled"})).await;
        red.until_condition("c", "Provisioned=True").await;
        assert_eq!(corner.host("h1").await["spec"]["automatedCleaningMode"], "disabled", "it was allowed");
        red.end("c").await;
        assert_eq!(corner.disk("h1"), None, "the owner's rule counts at the end");
        assert_eq!(corner.host("h1").await["spec"]["automatedCleaningMode"], "metadata");
        corner.open_to(&[&red], json!({"allowsCleaningOverride": false})).await;
        red.claim("d", json!({"image": image(), "automatedCleaningMode": "disabled"})).await;
        red.until_condition("d", "Synchronized=False/CleaningOverrideNotAllowed").await;
        assert_eq!(corner.host("h1").await["spec"]["automatedCleaningMode"], "metadata");
        red.end("d").await;
        corner.judge().await;
    });
}

#[test]
fn a_former_tenants_data_is_gone_before_its_host_is_free() {
    run("a_former_tenants_data_is_gone_before_its_host_is_free", async |world| {
        let (corner, red) = site(world, "t-former", Checks::Off, &["h1"], json!({})).await;
        red.secret("user", json!({"userData": "former", "password": "never-copied"})).await;
        red.claim("c", json!({"image": image(), "userData": {"name": "user"}})).await;
        red.until_condition("c", "Provisioned=True").await;
        let copies = corner.copies().await;
        assert_eq!(copies.len(), 1);
        assert_eq!(copies[0]["data"].as_object().unwrap().keys().collect::<Vec<_>>(), ["userData"]);
        red.end("c").await;
        let history = corner.history().await;
        let gone = |kind: &str| {
            let last = history.iter().rfind(|version| version.kind == kind && version.namespace == corner.metal);
            last.map(|version| (version.gone, version.revision)).unwrap()
        };
        let (no_copy, when) = gone("Secret");
        assert!(no_copy);
        let hosts: Vec<_> = history.iter().filter(|version| version.kind == "BareMetalHost").collect();
        let bound = hosts.iter().rposition(|version| version.object["spec"]["consumerRef"]["name"] == "c").unwrap();
        assert!(hosts[bound + 1].revision > when, "the copy outlived the claim's hold on the host");
        corner.judge().await;
    });
}

#[test]
fn no_address_credential_or_data_reaches_status_events_or_logs() {
    run("no_address_credential_or_data_reaches_status_events_or_logs", async |world| {
        let (corner, red) = site(world, "t-words", Checks::Off, &["h1"], json!({})).await;
        // It fails until that was told, however long that takes.
        let script = |fail: Value| {
            let script = json!({"fail": fail, "retryMs": 300}).to_string();
            json!({"metadata": {"annotations": {"berth.dev/sim": script}}})
        };
        corner.edit_host("h1", script(json!([{"state": "provisioning", "times": 100_000}]))).await;
        red.secret("user", json!({"userData": "t-words-private"})).await;
        red.claim("c", json!({"image": image(), "userData": {"name": "user"}})).await;
        red.until_condition("c", "Provisioned=False/HostError").await;
        corner.edit_host("h1", script(json!([]))).await;
        red.until_condition("c", "Provisioned=True").await;
        let seen = corner.history().await;
        let failed = |version: &sim::record::Version| shows(&version.object, "Provisioned=False/HostError");
        assert!(seen.iter().any(|v| v.kind == "HostClaim" && failed(v)), "the failure was never told");
        assert!(seen.iter().any(|v| v.kind == "BareMetalHost" && v.object.to_string().contains("192.0.2.7")));
        let shown: String = seen.iter().filter(|v| v.kind == "HostClaim").map(|v| v.object.to_string()).collect();
        for text in [shown, red.can_read().await, world.leader().await.said()] {
            for word in ["192.0.2.", "redfish", "t-words-private", "dC13b3Jkcy1wcml2YXRl"] {
                assert!(!text.contains(word), "{word}");
            }
        }
        red.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn a_tenants_hold_on_power_ends_with_its_claim_and_never_touches_another() {
    run("a_tenants_hold_on_power_ends_with_its_claim_and_never_touches_another", async |world| {
        let (corner, red) = site(world, "t-hold", Checks::Off, &["h1"], json!({})).await;
        corner.edit_host("h1", json!({"metadata": {"annotations": {"reboot.metal3.io/admin": ""}}})).await;
        red.claim("c", json!({"image": image()})).await;
        red.until_condition("c", "Provisioned=True").await;
        // A deployment ends every hold on the host; the administrator holds it again.
        corner.edit_host("h1", json!({"metadata": {"annotations": {"reboot.metal3.io/admin": ""}}})).await;
        red.edit(
            "c",
            json!({"metadata": {"annotations": {"reboot.metal3.io/admin": "", "reboot.metal3.io/mine": ""}}}),
        )
        .await;
        let holds = |host: &Value| -> Vec<String> {
            let notes = host["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            notes.keys().filter(|key| key.starts_with("reboot.metal3.io/")).cloned().collect()
        };
        let host = corner.host_until("h1", "three holds", |host| holds(host).len() == 3).await;
        assert_eq!(holds(&host).iter().filter(|key| key.starts_with("reboot.metal3.io/hc-")).count(), 2);
        red.edit("c", json!({"metadata": {"annotations": {"reboot.metal3.io/admin": null}}})).await;
        let host = corner.host_until("h1", "one hold less", |host| holds(host).len() == 2).await;
        assert!(holds(&host).contains(&"reboot.metal3.io/admin".to_owned()), "the administrator's is not the tenant's");
        // The administrator ends every hold, also the tenant's, which is not set again.
        let mine = holds(&host).into_iter().find(|key| key.starts_with("reboot.metal3.io/hc-")).unwrap();
        corner
            .edit_host(
                "h1",
                json!({"metadata": {"annotations": {"reboot.metal3.io/admin": null, mine.as_str(): null}}}),
            )
            .await;
        corner.host_until("h1", "power is on", |host| host["status"]["poweredOn"] == true).await;
        // What the tenant asks for next has been brought to the host, and the hold was not.
        red.edit("c", json!({"metadata": {"annotations": {"reboot.metal3.io/next": ""}}})).await;
        let host = corner.host_until("h1", "the next hold", |host| !holds(host).is_empty()).await;
        assert!(!holds(&host).contains(&mine), "{:?}", holds(&host));
        red.edit("c", json!({"metadata": {"annotations": {"reboot.metal3.io/next": null}}})).await;
        let on = |host: &Value| holds(host).is_empty() && host["status"]["poweredOn"] == true;
        corner.host_until("h1", "power stays on", on).await;
        corner.edit_host("h1", json!({"metadata": {"annotations": {"reboot.metal3.io/admin": ""}}})).await;
        red.end("c").await;
        assert_eq!(holds(&corner.host("h1").await), ["reboot.metal3.io/admin"]);
        corner.judge().await;
    });
}

#[test]
fn neither_detaching_nor_pausing_stops_the_owners_maintenance() {
    run("neither_detaching_nor_pausing_stops_the_owners_maintenance", async |world| {
        let (corner, red) = site(world, "t-freeze", Checks::Off, &["h1"], json!({})).await;
        red.claim("c", json!({"image": image()})).await;
        red.until_condition("c", "Provisioned=True").await;
        red.edit("c", json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": "{\"force\":true}"}}}))
            .await;
        red.until_event("DetachNotAllowed").await;
        red.edit("c", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}})).await;
        red.until_condition("c", "Paused=True/Paused").await;
        let host = corner.host("h1").await;
        for key in ["baremetalhost.metal3.io/detached", "baremetalhost.metal3.io/paused"] {
            assert!(host["metadata"]["annotations"].get(key).is_none(), "{key}");
        }
        // With leave the tenant's own words still do not travel: no force, no way to delay a deletion.
        red.edit("c", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}})).await;
        corner.open_to(&[&red], json!({"allowsDetaching": true})).await;
        let host = corner
            .host_until("h1", "it is detached", |host| {
                host["metadata"]["annotations"].get("baremetalhost.metal3.io/detached").is_some()
            })
            .await;
        assert_eq!(host["metadata"]["annotations"]["baremetalhost.metal3.io/detached"], "{\"setByHostClaim\":true}");
        red.edit("c", json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": null}}})).await;
        red.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn a_custom_deployment_needs_a_permission() {
    run("a_custom_deployment_needs_a_permission", async |world| {
        let (corner, red) = site(world, "t-custom", Checks::Off, &["h1"], json!({})).await;
        red.claim("c", json!({"customDeploy": {"method": "anything"}})).await;
        red.until_condition("c", "Synchronized=False/CustomDeployNotAllowed").await;
        assert_eq!(corner.host("h1").await["spec"]["customDeploy"], Value::Null);
        corner.open_to(&[&red], json!({"allowsCustomDeploy": true})).await;
        red.until_condition("c", "Provisioned=True").await;
        red.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn hidden_labels_cannot_be_probed_and_closed_namespaces_not_counted() {
    run("hidden_labels_cannot_be_probed_and_closed_namespaces_not_counted", async |world| {
        let mut corner = Corner::new(world, "t-probe", Checks::Off).await;
        let red = corner.tenant("red").await;
        corner.hosts(&["h1"], &json!({LARGE: "large", "owner": "bank"})).await;
        red.claim("outside", json!({})).await;
        let claim = red.until_condition("outside", "Associated=False/NoBareMetalHost").await;
        let text = message(&claim, "Associated");
        assert_eq!(text, format!("no infrastructure namespace admits namespace {}", red.namespace));
        assert_eq!(claim["status"]["unbound"]["total"], 0, "{claim}");
        red.end("outside").await;
        corner.open_to(&[&red], json!({"selectableLabels": "^size$"})).await;
        red.claim("probe", json!({"hostSelector": {"matchLabels": {"owner": "bank"}}})).await;
        let right = red.until_condition("probe", "Associated=False/NoBareMetalHost").await;
        red.claim("miss", json!({"hostSelector": {"matchLabels": {"owner": "nobody"}}})).await;
        let wrong = red.until_condition("miss", "Associated=False/NoBareMetalHost").await;
        assert_eq!(message(&right, "Associated"), message(&wrong, "Associated"), "a guess shows whether it is right");
        red.claim("open", json!({"hostSelector": {"matchLabels": {LARGE: "large"}}})).await;
        let claim = red.until_ready("open").await;
        assert!(!claim.to_string().contains("bank"), "{claim}");
        for name in ["probe", "miss", "open"] {
            red.end(name).await;
        }
        corner.judge().await;
    });
}

#[test]
fn a_flood_of_claims_starves_nobody() {
    run("a_flood_of_claims_starves_nobody", async |world| {
        let mut corner = Corner::new(world, "t-flood", Checks::Off).await;
        let (red, blue) = (corner.tenant("red").await, corner.tenant("blue").await);
        corner.hosts(&["h1", "h2", "h3"], &json!({LARGE: "large"})).await;
        let tenants = [&red.namespace, &blue.namespace];
        world
            .apply(&json!({"apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimQuota", "metadata": {"name": "flood"},
                "spec": {"tenants": {"names": tenants}, "hard": {"hosts": 2}, "maxPriority": 0}}))
            .await;
        for n in 0..40 {
            red.claim(&format!("c-{n:02}"), json!({"priority": 1000})).await;
        }
        corner.open_to(&[&red, &blue], json!({})).await;
        blue.claim("c", json!({})).await;
        blue.until_ready("c").await;
        let held = async || {
            let claims = red.claims().list(&ListParams::default()).await.ok()?.items;
            let claims: Vec<Value> = claims.iter().map(|claim| serde_json::to_value(claim).unwrap()).collect();
            let full = claims.iter().filter(|claim| shows(claim, "Associated=False/QuotaExceeded")).count();
            let bound = claims.iter().filter(|claim| shows(claim, "Associated=True")).count();
            (bound == 2 && full == 38).then_some(claims)
        };
        let claims = within(SOON, "two have a host and the others are told of the quota", held).await;
        let full = claims.iter().find(|claim| shows(claim, "Associated=False/QuotaExceeded")).unwrap();
        assert_eq!(message(full, "Associated"), "uses 2 of 2 hosts of quota flood");
        blue.end("c").await;
        red.claims().delete_collection(&Default::default(), &ListParams::default()).await.unwrap();
        within(SOON, "all are gone", async || {
            red.claims().list(&ListParams::default()).await.ok()?.items.is_empty().then_some(())
        })
        .await;
        corner.judge().await;
    });
}

#[test]
fn a_tenants_word_about_a_hosts_health_counts_for_itself_alone() {
    run("a_tenants_word_about_a_hosts_health_counts_for_itself_alone", async |world| {
        let mut corner = Corner::new(world, "t-health", Checks::Off).await;
        let (red, blue) = (corner.tenant("red").await, corner.tenant("blue").await);
        corner.hosts(&["h1"], &json!({})).await;
        corner.open_to(&[&red, &blue], json!({})).await;
        red.claim("c", json!({})).await;
        red.until_ready("c").await;
        red.edit("c", json!({"metadata": {"annotations": {"capm3.metal3.io/unhealthy": ""}}})).await;
        red.end("c").await;
        let host = corner.host("h1").await;
        let notes = host["metadata"]["annotations"].as_object().unwrap();
        assert!(notes.get("capm3.metal3.io/unhealthy").is_none(), "{notes:?}");
        assert!(notes.keys().any(|key| key.starts_with("berth.dev/avoid-")), "{notes:?}");
        red.claim("d", json!({})).await;
        red.until_condition("d", "Associated=False/NoBareMetalHost").await;
        blue.claim("c", json!({})).await;
        blue.until_ready("c").await;
        blue.end("c").await;
        red.end("d").await;
        corner.judge().await;
    });
}

#[test]
fn what_a_tenant_writes_on_its_claim_is_not_taken_for_the_hosts_word() {
    run("what_a_tenant_writes_on_its_claim_is_not_taken_for_the_hosts_word", async |world| {
        let mut corner = Corner::new(world, "t-mirror", Checks::Off).await;
        let red = corner.tenant("red").await;
        corner.hosts(&["h1"], &json!({"rack": "7", "power": "a"})).await;
        corner.open_to(&[&red], json!({"metadataCopy": {"labelsMatch": "rack|power"}})).await;
        let mut claim = red.plan("c", &json!({}));
        claim["metadata"]["labels"] = json!({"rack": "forged"});
        red.create(&claim).await.unwrap();
        let claim = red.until_ready("c").await;
        assert_eq!(claim["status"]["hostMetadata"]["labels"], json!({"rack": "7", "power": "a"}));
        assert_eq!(claim["metadata"]["labels"], json!({"rack": "forged", "power": "a"}), "its own key is left alone");
        red.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn another_claim_controller_is_noticed_and_changes_nothing() {
    run("another_claim_controller_is_noticed_and_changes_nothing", async |world| {
        let (corner, red) = site(world, "t-foreign", Checks::Off, &["h1", "h2"], json!({})).await;
        red.claim("c", json!({})).await;
        let claim = red.until_ready("c").await;
        let mine = claim["status"]["bareMetalHost"]["name"].as_str().unwrap().to_owned();
        let other = if mine == "h1" { "h2" } else { "h1" };
        let admin: Api<kube::api::DynamicObject> =
            Api::namespaced_with(world.client.clone(), &red.namespace, &sim::metal::resource("HostClaim").unwrap());
        let params = PatchParams { field_manager: Some("manager".to_owned()), ..PatchParams::default() };
        let foreign = json!({"status": {"bareMetalHost": {"namespace": corner.metal, "name": other}}});
        admin.patch_status("c", &params, &Patch::Merge(&foreign)).await.unwrap();
        red.until_event("ForeignClaimController").await;
        red.until("c", "the status is right again", |claim| claim["status"]["bareMetalHost"]["name"] == mine).await;
        assert_eq!(corner.host(other).await["spec"]["consumerRef"], Value::Null);
        red.end("c").await;
        corner.judge().await;
    });
}

#[test]
fn tenants_see_neither_hosts_nor_what_lies_beside_them() {
    run("tenants_see_neither_hosts_nor_what_lies_beside_them", async |world| {
        let (corner, red) = site(world, "t-sight", Checks::Off, &["h1"], json!({})).await;
        for kind in ["BareMetalHost", "HardwareData", "HostDeployPolicy", "Secret"] {
            let resource = sim::metal::resource(kind).unwrap();
            let there: Api<kube::api::DynamicObject> =
                Api::namespaced_with(red.client.clone(), &corner.metal, &resource);
            let refused = there.list(&ListParams::default()).await;
            assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403), "{kind}");
        }
        let host = seed::host(&red.namespace, "mine", &json!({}));
        let made = sim::plane::apply(&red.client, &host).await;
        assert!(made.is_err(), "a tenant makes no host");
        corner.judge().await;
    });
}
