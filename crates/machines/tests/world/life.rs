//! What machines live through, once each.

use machines::config::Config;
use serde_json::{Value, json};

use crate::play::Boot;
use crate::site::*;

#[tokio::test(start_paused = true)]
async fn a_machine_gets_a_claim_its_image_and_its_node_and_gives_all_of_it_back() {
    let (server, site) = world();
    machine(&server, "m1", &json!({"automatedCleaningMode": "metadata"}));
    let _room = site.start(&server, Config::default());
    ready(&server, "m1").await;

    let (shown, claim) = (shown(&server, "m1"), server.get(CLAIMS, NS, "m1").unwrap());
    let spec = &claim["spec"];
    assert_eq!((&spec["kind"], &spec["poweredOn"]), (&json!("baremetal"), &json!(true)));
    assert_eq!(spec["image"], json!({"url": "https://images/x", "checksum": "https://images/sums"}));
    assert_eq!(spec["userData"], json!({"name": "boot"}));
    assert_eq!(spec["hostSelector"], json!({"matchLabels": {"size": "large"}}));
    assert_eq!((&spec["failureDomain"], &spec["automatedCleaningMode"]), (&json!("rack-1"), &json!("metadata")));
    assert_eq!(spec["consumerRef"]["kind"], "Metal3Machine");
    let meta = &claim["metadata"];
    assert_eq!(meta["labels"]["cluster.x-k8s.io/cluster-name"], "c");
    assert_eq!(meta["ownerReferences"][0]["uid"], shown["metadata"]["uid"]);
    assert_eq!(meta["ownerReferences"][0]["controller"], true);

    assert_eq!(shown["metadata"]["annotations"]["metal3.io/HostClaim"], "team/m1");
    assert_eq!(shown["spec"]["providerID"], "metal3://team/m1/m1");
    let status = &shown["status"];
    assert_eq!(status["initialization"]["provisioned"], true);
    assert_eq!((&status["hostClaim"]["name"], &status["failureDomain"]), (&json!("m1"), &json!("rack-1")));
    assert_eq!(status["addresses"][0], json!({"type": "InternalIP", "address": "10.0.0.9"}));
    for (type_, wanted) in [
        ("AssociateBareMetalHost", "True/BareMetalHostAssociated"),
        ("Synchronized", "True/HostClaimSynchronized"),
        ("Provisioned", "True/Provisioned"),
        ("KubernetesNodeReady", "True/NodeReady"),
        ("Paused", "False/NotPaused"),
        ("Metal3DataReady", "/"),
    ] {
        assert_eq!(condition(&shown, type_), wanted, "{type_}");
    }
    let node = site.inside.get(NODES, "", "m1-host").unwrap();
    assert_eq!(node["spec"]["providerID"], "metal3://team/m1/m1");
    let path = format!("/apis/metal3.io/v1alpha1/namespaces/{NS}/hostclaims/m1");
    let told = server.log().iter().filter(|entry| entry.method == "PATCH" && entry.path == path).count();
    assert_eq!(told, 1, "a claim that nobody changed takes what it is told at once");
    rest(&server, &site).await;

    server.delete(MACHINES, NS, "m1");
    until(&server, "the machine is gone", |server| server.get(MACHINES, NS, "m1").is_none()).await;
    assert!(server.get(CLAIMS, NS, "m1").is_none());
    rest(&server, &site).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_kind_is_not_touched_unless_there_is_a_default() {
    let (server, site) = world();
    machine(&server, "classic", &json!({"kind": null}));
    machine(&server, "held", &json!({"kind": null}));
    change(&server, MACHINES, "held", &json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": "team/h1"}}}));
    let before = [shown(&server, "classic"), shown(&server, "held")];
    let room = site.start(&server, Config::default());
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!([shown(&server, "classic"), shown(&server, "held")], before);
    drop(room);
    let config = Config { default_host_kind: Some("baremetal".to_owned()), ..Config::default() };
    let _room = site.start(&server, config);
    ready(&server, "classic").await;
    assert_eq!(shown(&server, "held"), before[1], "a machine that has a host keeps it");
}

#[tokio::test(start_paused = true)]
async fn data_is_asked_for_once_there_is_a_host_and_kept_until_the_host_is_given_back() {
    let (server, site) = world();
    let domain = json!([{"failureDomain": "rack-1", "dataTemplate": {"name": "rack"}}]);
    machine(&server, "m1", &json!({"dataTemplate": {"name": "plain"}, "failureDomainDataTemplates": domain}));
    let _room = site.start(&server, Config::default());
    ready(&server, "m1").await;
    let wish = server.get(DATA_CLAIMS, NS, "m1").unwrap();
    assert_eq!(wish["spec"]["template"], json!({"name": "rack", "namespace": NS}));
    assert_eq!(wish["metadata"]["ownerReferences"][0]["uid"], shown(&server, "m1")["metadata"]["uid"]);
    let claim = server.get(CLAIMS, NS, "m1").unwrap();
    assert_eq!(claim["spec"]["metaData"], json!({"name": "m1-metadata"}));
    assert_eq!(claim["spec"]["networkData"], json!({"name": "m1-networkdata"}));
    assert_eq!(condition(&shown(&server, "m1"), "Metal3DataReady"), "True/SecretsSet");
    assert_eq!(shown(&server, "m1")["status"]["renderedData"]["name"], "rack-0");
    server.delete(MACHINES, NS, "m1");
    until(&server, "the machine is gone", |server| {
        let (machine, claim) = (server.get(MACHINES, NS, "m1"), server.get(CLAIMS, NS, "m1"));
        let wish = server.get(DATA_CLAIMS, NS, "m1").unwrap_or_default();
        assert!(claim.is_none() || !wish["metadata"]["deletionTimestamp"].is_string(), "the data went before the host");
        machine.is_none()
    })
    .await;
    assert!(server.list(DATA_CLAIMS, NS).is_empty());
    rest(&server, &site).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_is_claimed_early_only_when_asked_to() {
    let (server, site) = world();
    machine(&server, "m1", &json!({}));
    change(&server, OWNERS, "m1", &json!({"spec": {"bootstrap": {"dataSecretName": null}}}));
    let room = site.start(&server, Config::default());
    until_condition(&server, "m1", "AssociateBareMetalHost", "False/WaitingForBootstrapReady").await;
    assert!(server.get(CLAIMS, NS, "m1").is_none());
    assert!(shown(&server, "m1")["metadata"]["finalizers"].is_null());
    drop(room);
    let _room = site.start(&server, Config { reserve_early: true, ..Config::default() });
    until_condition(&server, "m1", "Synchronized", "False/WaitingForBootstrapReady").await;
    let spec = server.get(CLAIMS, NS, "m1").unwrap()["spec"].clone();
    assert_eq!((&spec["poweredOn"], &spec["image"]), (&json!(false), &Value::Null));
    change(&server, OWNERS, "m1", &json!({"spec": {"bootstrap": {"dataSecretName": "boot"}}}));
    ready(&server, "m1").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_is_found_by_its_id_or_by_the_name_of_its_host() {
    for boot in [Boot::Id, Boot::Name] {
        let (server, site) = world();
        site.boots(boot);
        machine(&server, "m1", &json!({}));
        let _room = site.start(&server, Config::default());
        ready(&server, "m1").await;
        let node = site.inside.get(NODES, "", "m1-host").unwrap();
        assert_eq!(node["spec"]["providerID"], "metal3://team/m1/m1", "{boot:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_a_cloud_provider_names_nodes_the_machine_waits_for_it() {
    let (server, site) = world();
    change(&server, PLACES, "c", &json!({"spec": {"cloudProviderEnabled": true}}));
    machine(&server, "m1", &json!({}));
    let _room = site.start(&server, Config::default());
    until_condition(&server, "m1", "KubernetesNodeReady", "False/NodeNotFound").await;
    let node = site.inside.get(NODES, "", "m1-host").unwrap();
    assert!(node["spec"]["providerID"].is_null());
    let id = json!("metal3://team/m1/m1");
    site.inside.edit(NODES, "", "m1-host", |node| node["spec"]["providerID"] = id.clone()).unwrap();
    ready(&server, "m1").await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_waits_for_its_cluster_to_answer_and_says_so() {
    let (server, site) = world();
    site.boots(Boot::Never);
    let kubeconfig = server.get("secrets", NS, "c-kubeconfig").unwrap();
    server.delete("secrets", NS, "c-kubeconfig");
    machine(&server, "m1", &json!({}));
    let _room = site.start(&server, Config::default());
    until_condition(&server, "m1", "KubernetesNodeReady", "False/ClusterUnreachable").await;
    assert!(shown(&server, "m1")["status"]["initialization"].is_null());
    server
        .put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c-kubeconfig", "namespace": NS},
            "data": kubeconfig["data"]}))
        .unwrap();
    until_condition(&server, "m1", "KubernetesNodeReady", "False/NodeNotFound").await;
    site.boots(Boot::Label);
    change(&server, CLAIMS, "m1", &json!({"metadata": {"labels": {"touched": "yes"}}}));
    ready(&server, "m1").await;
}

#[tokio::test(start_paused = true)]
async fn labels_of_the_host_are_added_changed_and_removed_on_the_node() {
    let (server, site) = world();
    let prefixes = json!({"metadata": {"annotations": {"metal3.io/metal3-label-sync-prefixes": "rack.example.org, kubernetes.io"}}});
    change(&server, CLUSTERS, "c", &prefixes);
    machine(&server, "m1", &json!({}));
    let _room = site.start(&server, Config::default());
    ready(&server, "m1").await;
    let label = |key: &str| site.inside.get(NODES, "", "m1-host").unwrap()["metadata"]["labels"][key].clone();
    assert_eq!(label("rack.example.org/row"), "7");
    assert_eq!(label("metal3.io/uuid"), "m1-host-uid");
    let row = |value: Value| json!({"status": {"hostMetadata": {"labels": {"rack.example.org/row": value, "other.org/x": "1"}}}});
    change(&server, CLAIMS, "m1", &row(json!("8")));
    until(&server, "the label is changed", |_| label("rack.example.org/row") == "8").await;
    assert_eq!(label("other.org/x"), Value::Null);
    change(&server, CLAIMS, "m1", &row(Value::Null));
    until(&server, "the label is gone", |_| label("rack.example.org/row") == Value::Null).await;
    rest(&server, &site).await;
}
