//! On a real server.

use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use sim::metal::oracle::{Forgiven, judge};
use sim::metal::{self, Settings, Simulator, seed};
use sim::plane;
use tokio::sync::Mutex;

const LIMIT: Duration = Duration::from_secs(60);
/// Every simulator drives all hosts of a server, so there is one at a time.
pub static ALONE: Mutex<()> = Mutex::const_new(());

pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "not within {} s: {what}", LIMIT.as_secs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_hosts_on_a_real_server() {
    let Some(plane) = plane::for_test("the_life_of_hosts_on_a_real_server") else { return };
    let _alone = ALONE.lock().await;
    let client = plane.client().await.unwrap();
    plane::install_crds(&client, metal::kinds::definitions()).await.unwrap();
    // A claim is only looked at here, so any definition of the kind will do.
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let claims = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "hostclaims.metal3.io", "annotations":
            {"api-approved.kubernetes.io": "unapproved, a test's own"}},
        "spec": {"group": "metal3.io", "scope": "Namespaced",
            "names": {"kind": "HostClaim", "plural": "hostclaims", "singular": "hostclaim"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open}}]},
    });
    plane::install_crds(&client, vec![claims]).await.unwrap();
    let record = metal::record(&client).await.unwrap();
    let simulator = Simulator::new(client.clone(), Settings { labelled_only: true, ..Settings::default() });
    let machines = simulator.machines();
    let simulating = tokio::spawn(simulator.run());

    let space = "metal-life";
    seed::hosts(&client, space, 8, false).await.unwrap();
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), space, &metal::resource("BareMetalHost").unwrap());
    let state = async |name: &str, wanted: &str| {
        until(&format!("{name} is {wanted}"), async || {
            let host = api.get(name).await.ok()?;
            (host.data.pointer("/status/provisioning/state")? == wanted).then_some(host)
        })
        .await
    };
    for n in 0..8 {
        state(&format!("host-{n:05}"), "available").await;
    }
    let data: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), space, &metal::resource("HardwareData").unwrap());
    assert_eq!(data.list(&ListParams::default()).await.unwrap().items.len(), 8);

    // The server gives up on a patch that always comes too late, which the status traffic below can make it.
    let merge = async |name: &str, body: Value| {
        until(&format!("{name} takes {body}"), async || {
            match api.patch(name, &PatchParams::default(), &Patch::Merge(body.clone())).await {
                Err(kube::Error::Api(status)) if status.code == 409 => None,
                other => Some(other.unwrap()),
            }
        })
        .await;
    };
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": space, "name": "data",
        "labels": {metal::ENVIRONMENT.0: metal::ENVIRONMENT.1}}, "stringData": {"userData": "the secret of red"}});
    plane::apply(&client, &secret).await.unwrap();
    // The status is rewritten all the time; nobody's change is lost.
    merge("host-00000", json!({"metadata": {"annotations": {metal::SCRIPT: r#"{"statusEveryMs": 20}"#}}})).await;
    merge(
        "host-00000",
        json!({"spec": {"online": true, "image": {"url": "http://red"}, "userData": {"name": "data"},
        "consumerRef": {"kind": "HostClaim", "namespace": "red", "name": "c"}}}),
    )
    .await;
    let host = state("host-00000", "provisioned").await;
    assert_eq!(host.data["status"]["poweredOn"], true);
    assert!(machines.disk(space, "host-00000").unwrap().contains("the secret of red"));
    merge("host-00000", json!({"metadata": {"annotations": {"reboot.metal3.io": ""}}})).await;
    until("it has been rebooted", async || {
        let machine = machines.get(space, "host-00000")?;
        (machine.power_offs == 1 && machine.power).then_some(())
    })
    .await;
    merge("host-00000", json!({"spec": {"online": false, "image": null, "userData": null, "consumerRef": null}})).await;
    state("host-00000", "available").await;
    assert_eq!(machines.disk(space, "host-00000"), None);

    merge("host-00001", json!({"spec": {"online": true, "image": {"url": "http://blue"}}})).await;
    state("host-00001", "provisioned").await;
    api.delete("host-00001", &kube::api::DeleteParams::default()).await.unwrap();
    until("it is gone", async || api.get_opt("host-00001").await.unwrap().is_none().then_some(())).await;
    if plane.has_controllers() {
        until("its hardware is forgotten", async || data.get_opt("host-00001").await.unwrap().is_none().then_some(()))
            .await;
    }

    let history = record.history().await.unwrap();
    assert!(history.iter().filter(|version| version.name == "host-00000").count() > 12);
    let forgiven = Forgiven { hosts: [(space.to_owned(), "host-00000".to_owned())].into(), ..Forgiven::default() };
    assert_eq!(judge(&history, &machines.changes(), forgiven.clone()), []);
    // What the same history means when nobody is forgiven: the host was given away with its system.
    let blamed = judge(&history, &machines.changes(), Forgiven::default());
    assert!(blamed.iter().any(|breach| breach.rule == "given-away"), "{blamed:?}");
    simulating.abort();
}
