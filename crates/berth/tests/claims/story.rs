//! The first story that claims were made for, from the first manifest to the next tenant.

use claims::facts::Secrets;
use k8s_openapi::ByteString;
use kit::feed::Project as _;
use kit::rights::{Reach, rules};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};
use sim::plane;
use sim::wait::within;

use crate::corner::{Checks, Corner, Tenant, message};
use crate::fleet::user;
use crate::world::{SOON, World, run};

/// What a tenant hands to its machine; each text is found nowhere else.
async fn secrets(tenant: &Tenant) {
    let name = &tenant.namespace;
    tenant.secret("my-user-data", json!({"userData": format!("user-data-of-{name}"), "other": "not-for-hosts"})).await;
    tenant.secret("my-network-data", json!({"networkData": format!("network-data-of-{name}")})).await;
    tenant.secret("my-meta-data", json!({"value": format!("meta-data-of-{name}")})).await;
}

fn image(tenant: &Tenant) -> Value {
    json!({"url": format!("https://images.example/{}.qcow2", tenant.namespace), "checksum": "abc",
        "checksumType": "sha256", "format": "qcow2"})
}

fn deployment(tenant: &Tenant) -> Value {
    json!({
        "online": true, "image": image(tenant), "userData": {"name": "my-user-data"},
        "networkData": {"name": "my-network-data"}, "metaData": {"name": "my-meta-data"},
    })
}

#[test]
fn a_tenant_claims_drives_and_destroys_a_host_and_the_next_one_finds_no_byte_of_it() {
    run("a_tenant_claims_drives_and_destroys_a_host_and_the_next_one_finds_no_byte_of_it", async |world| {
        let mut corner = Corner::new(world, "story", Checks::On).await;
        let (red, blue) = (corner.tenant("red").await, corner.tenant("blue").await);
        let labels = json!({"infra-kind": "medium", "rack": "7", "secret-rack": "hidden",
            "infrastructure.cluster.x-k8s.io/failure-domain": "zone-a"});
        corner.hosts(&["h1"], &labels).await;
        corner.open_to(&[&red, &blue], json!({"metadataCopy": {"labelsMatch": "infra-kind|rack"}})).await;
        let tenants = [&red.namespace, &blue.namespace];
        world
            .apply(&json!({"apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimQuota", "metadata": {"name": "story"},
                "spec": {"tenants": {"names": tenants}, "hard": {"hosts": 1}}}))
            .await;
        secrets(&red).await;
        secrets(&blue).await;

        // A host is reserved, switched off, by the manifest of the founding document.
        let reserve = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
            "metadata": {"name": "my-host", "namespace": red.namespace},
            "spec": {"online": false, "kind": "baremetal", "hostSelector": {"matchLabels": {"infra-kind": "medium"}}}});
        red.create(&reserve).await.unwrap();
        let claim = red.until_ready("my-host").await;
        let host = corner.host("h1").await;
        enriched(&corner, &claim, &host).await;
        assert_eq!(claim["status"]["poweredOn"], false);

        // It is deployed, with three secrets.
        red.edit("my-host", json!({"spec": deployment(&red)})).await;
        let claim = red.until_condition("my-host", "Provisioned=True/Provisioned").await;
        assert_eq!(claim["spec"]["online"], Value::Null, "stored under the newer name alone");
        let claim = red
            .until("my-host", "ready", |claim| claim["status"]["ready"] == true && claim["status"]["poweredOn"] == true)
            .await;
        assert_eq!(claim["status"]["image"]["url"], image(&red)["url"]);
        handed_over(&corner, &red).await;

        copies_follow(&corner, &red).await;
        power_and_reboot(&corner, &red).await;

        // Somebody else waits for the same host, and is told why without a word about who has it.
        let mut wish = deployment(&blue);
        wish["hostSelector"] = json!({"matchLabels": {"infra-kind": "medium"}});
        // It names a cluster that is not there yet, which holds nobody up.
        let labels = json!({"cluster.x-k8s.io/cluster-name": "to-come"});
        let claim = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
            "metadata": {"name": "mine", "namespace": blue.namespace, "labels": labels}, "spec": wish});
        blue.create(&claim).await.unwrap();
        let waits = blue.until_condition("mine", "Associated=False/NoBareMetalHost").await;
        assert_eq!(message(&waits, "Associated"), "0/1 hosts fit: 1 in use");
        assert_eq!(waits["status"]["unbound"]["total"], 1);
        assert!(!blue.can_read().await.contains(&red.namespace));

        // The first one goes, the second takes over.
        let uid = red.get("my-host").await["metadata"]["uid"].as_str().unwrap().to_owned();
        red.end("my-host").await;
        blue.until_ready("mine").await;
        handed_over(&corner, &blue).await;
        nothing_left(&corner, &red.namespace, &uid).await;
        blue.end("mine").await;
        let host = corner.host("h1").await;
        assert_eq!((&host["spec"]["consumerRef"], &host["spec"]["image"]), (&Value::Null, &Value::Null));
        assert_eq!(corner.disk("h1"), None);
        assert!(corner.copies().await.is_empty());
        corner.judge().await;
        rights(world);
    });
}

/// What the host is made of reaches the claim, and nothing that no policy shows.
async fn enriched(corner: &Corner, claim: &Value, host: &Value) {
    let status = &claim["status"];
    let place = json!({"namespace": corner.metal, "name": "h1"});
    assert_eq!(status["bareMetalHost"], place);
    assert_eq!(status["hardwareData"], place);
    assert_eq!(status["hostUID"], host["metadata"]["uid"]);
    assert_eq!(status["bootMACAddress"], host["spec"]["bootMACAddress"]);
    assert_eq!(status["failureDomain"], "zone-a");
    assert_eq!(status["provisioningState"], "Available");
    assert_eq!(status["hostMetadata"]["labels"], json!({"infra-kind": "medium", "rack": "7"}));
    assert_eq!(claim["metadata"]["labels"], json!({"infra-kind": "medium", "rack": "7"}));
    let data = corner.api("HardwareData").get("h1").await.unwrap();
    let hardware = &data.data["spec"]["hardware"];
    let nics = hardware["nics"].as_array().unwrap();
    let told = status["nics"].as_array().unwrap();
    assert_eq!(told.len(), nics.len());
    for (nic, told) in nics.iter().zip(told) {
        assert_eq!((&told["MAC"], &told["name"]), (&nic["mac"], &nic["name"]));
    }
    let mut wanted: Vec<Value> = nics
        .iter()
        .filter(|nic| nic["ip"].as_str().is_some_and(|ip| !ip.is_empty()))
        .map(|nic| json!({"type": "InternalIP", "address": nic["ip"]}))
        .collect();
    assert!(!wanted.is_empty());
    wanted.extend(["Hostname", "InternalDNS"].map(|kind| json!({"type": kind, "address": hardware["hostname"]})));
    assert_eq!(status["addresses"], json!(wanted));
    // The catalogue shows the same.
    within(SOON, "the catalogue shows the labels", async || {
        let data = corner.api("HardwareData").get("h1").await.ok()?;
        let labels = data.metadata.labels?;
        (labels.get("rack").is_some_and(|rack| rack == "7") && !labels.contains_key("secret-rack")).then_some(())
    })
    .await;
}

/// Image and data are on the disk, and only what the host reads was copied.
async fn handed_over(corner: &Corner, tenant: &Tenant) {
    let (disk, name) = (corner.disk("h1").unwrap(), &tenant.namespace);
    assert_eq!(disk.user_data, Some(format!("user-data-of-{name}")));
    assert_eq!(disk.network_data, Some(format!("network-data-of-{name}")));
    assert_eq!(disk.meta_data, Some(format!("meta-data-of-{name}")));
    assert_eq!(disk.image.unwrap().url, image(tenant)["url"].as_str().unwrap());
    let copies = corner.copies().await;
    assert_eq!(copies.len(), 3, "{copies:?}");
    for copy in copies {
        assert_eq!(copy["data"].as_object().unwrap().len(), 1);
        assert_eq!(copy["metadata"]["labels"]["environment.metal3.io"], "baremetal");
        assert_eq!(copy["metadata"]["ownerReferences"][0]["kind"], "BareMetalHost");
    }
}

/// A copy follows its source, and comes back when somebody deletes it.
async fn copies_follow(corner: &Corner, tenant: &Tenant) {
    let secrets = corner.api("Secret");
    let named = |suffix: &'static str| async move {
        let copies = corner.copies().await;
        copies.into_iter().find(|c| c["metadata"]["name"].as_str().is_some_and(|name| name.ends_with(suffix)))
    };
    let text = |copy: &Value, key: &str| -> String { copy["data"][key].as_str().unwrap_or_default().to_owned() };
    let before = named("-userdata").await.unwrap();
    let changed = format!("user-data-of-{}-again", tenant.namespace);
    tenant.secret("my-user-data", json!({"userData": changed})).await;
    within(SOON, "the copy is as new as its source", async || {
        let now = named("-userdata").await?;
        (text(&now, "userData") != text(&before, "userData")).then_some(())
    })
    .await;
    let name = before["metadata"]["name"].as_str().unwrap().to_owned();
    secrets.delete(&name, &Default::default()).await.unwrap();
    within(SOON, "the deleted copy is made again", async || secrets.get_opt(&name).await.ok()?).await;
    // The server's record tells who wrote what a copy holds, without what it holds: a process that was not there goes by it.
    let sole = |copy: &PartialObjectMeta<DynamicObject>| {
        Secrets::slim(serde_json::from_value(json!({"metadata": copy.metadata})).unwrap()).sole
    };
    assert!(sole(&secrets.get_metadata(&name).await.unwrap()));
    let person = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
    for wrong in [json!({"userData": "ZXZpbA=="}), json!({"userData": null}), json!({"more": "ZXZpbA=="})] {
        let edited = secrets.patch_metadata(&name, &person, &Patch::Merge(json!({ "data": wrong }))).await.unwrap();
        assert!(!sole(&edited), "{wrong}: {:?}", edited.metadata.managed_fields);
        within(SOON, "the edited copy is made right", async || {
            let now = serde_json::to_value(secrets.get(&name).await.ok()?).ok()?;
            let right = ByteString(changed.clone().into_bytes());
            (now["data"] == json!({ "userData": right })).then_some(())
        })
        .await;
        assert!(sole(&secrets.get_metadata(&name).await.unwrap()), "{wrong}");
    }
}

async fn power_and_reboot(corner: &Corner, tenant: &Tenant) {
    let machine = || corner.world.machines.get(&corner.metal, "h1").unwrap();
    let before = machine().power_offs;
    // What a claim says of power may be old. So it is the machine that is waited for, and then its claim's word.
    let turned = async |what: &str, offs: u32, on: bool| {
        within(SOON, what, async || (machine().power_offs == before + offs && machine().power == on).then_some(()))
            .await;
        tenant.until("my-host", what, |claim| claim["status"]["poweredOn"] == on).await;
    };
    for (on, what) in [(false, "it is off"), (true, "it is on")] {
        tenant.edit("my-host", json!({"spec": {"poweredOn": on}})).await;
        turned(what, 1, on).await;
        assert_eq!(corner.host("h1").await["status"]["poweredOn"], on);
    }
    tenant.edit("my-host", json!({"metadata": {"annotations": {"reboot.metal3.io": "{\"mode\":\"hard\"}"}}})).await;
    tenant
        .until("my-host", "the request is taken", |claim| {
            claim["metadata"]["annotations"].get("reboot.metal3.io").is_none()
                && claim["status"].get("pendingReboot").is_none()
        })
        .await;
    turned("it was off once and is on again", 2, true).await;
    tenant.edit("my-host", json!({"metadata": {"annotations": {"reboot.metal3.io/mine": ""}}})).await;
    turned("power is held off", 3, false).await;
    tenant.edit("my-host", json!({"metadata": {"annotations": {"reboot.metal3.io/mine": null}}})).await;
    turned("and let go", 3, true).await;
    assert_eq!(machine().power_offs, before + 3, "one request, one reboot");
}

/// Nothing beside the hosts and on no disk names the tenant, its claim or what it handed over.
async fn nothing_left(corner: &Corner, namespace: &str, uid: &str) {
    for kind in ["BareMetalHost", "HardwareData", "Secret"] {
        for object in corner.api(kind).list(&Default::default()).await.unwrap().items {
            let mut object = serde_json::to_value(object).unwrap();
            // Who wrote a field is no word of the tenant's.
            object["metadata"]["managedFields"] = Value::Null;
            if let Some(data) = object.get("data").and_then(Value::as_object).cloned() {
                for (key, value) in data {
                    let bytes: ByteString = serde_json::from_value(value).unwrap();
                    object["data"][key] = json!(String::from_utf8_lossy(&bytes.0));
                }
            }
            let text = object.to_string();
            assert!(!text.contains(namespace) && !text.contains(uid), "{text}");
        }
    }
    assert!(!corner.disk("h1").unwrap().contains(namespace));
}

/// No request of Berth's was refused, and each of the room's rights was needed.
fn rights(world: &World) {
    let requests = world.plane.requests_since(0).unwrap();
    let ours: Vec<_> = requests.into_iter().filter(|request| request.user == user()).collect();
    assert!(ours.iter().all(|request| request.agent.starts_with("berth/")), "somebody else used our name");
    let refused: Vec<_> = ours.iter().filter(|request| request.is_refused()).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let rights = claims::rights::RIGHTS.iter().chain(claim_kind::rights::RIGHTS).chain(claim_kind::rights::HEARTBEAT);
    let rules = serde_json::to_value(rules(rights, Reach::Cluster)).unwrap();
    let mut unused = plane::unused(&rules, &ours);
    // Needed only by the one of two that registers a kind second, which nobody here is.
    unused.retain(|right| right != "get hostclaimkinds.berth.dev");
    assert!(unused.is_empty(), "granted and never used: {unused:?}");
}
