//! The life of a cluster, from its creation to its end.

use serde_json::json;

use crate::site::*;

#[tokio::test(start_paused = true)]
async fn a_cluster_becomes_ready_is_left_in_peace_and_goes() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let object = server.get(CLUSTERS, NS, "prod").unwrap();
    let status = &object["status"];
    for type_ in ["Ready", "ControlPlaneInitialized", "ControlPlaneReady", "DefaultCNIConfigured", "WorkersReady"] {
        assert_eq!(condition(&server, "prod", type_).0, "True", "{type_}");
    }
    assert_eq!(status["observedGeneration"], object["metadata"]["generation"]);
    assert_eq!((&status["renderRevision"], &status["cni"]["version"]), (&json!(1), &json!("v1.16.5")));
    assert_eq!(status["resolvedBundles"], json!({"name": "bundles-7", "namespace": SYSTEM, "number": 7}));
    assert_eq!(status["childrenReconciledGeneration"], 2);
    assert!(status["failureReason"].is_null() && status["failureMessage"].is_null());
    assert_eq!(object["metadata"]["annotations"]["anywhere.eks.amazonaws.com/eksa-cilium"], "true");
    assert_eq!(object["metadata"]["finalizers"], json!(["clusters.anywhere.eks.amazonaws.com/finalizer"]));
    for (kind, name) in [(DATACENTERS, "dc"), (MACHINES, "m")] {
        let child = server.get(kind, NS, name).unwrap();
        assert_eq!(child["metadata"]["ownerReferences"][0]["name"], "prod");
        assert_eq!((&child["status"]["specValid"], &child["status"]["observedGeneration"]), (&json!(true), &json!(1)));
    }
    let zone = &server.get(DATACENTERS, NS, "dc").unwrap()["status"]["availabilityZones"][0];
    assert!(zone["zoneID"].is_string() && zone["networkType"] == "Shared", "{zone}");
    let plane = server.get(PLANES, SYSTEM, "prod").unwrap();
    assert_eq!((&plane["spec"]["replicas"], &plane["spec"]["version"]), (&json!(3), &json!("v1.31.4-eks-1-31-7")));
    assert_eq!(plane["metadata"]["managedFields"][0]["manager"], "eks-a-controller");
    let agent = site.inside.get("daemonsets.apps", "kube-system", "cilium").unwrap();
    assert_eq!(agent["metadata"]["labels"]["clusters.berth.dev/managed"], "true");
    assert_eq!(generated(&server).len(), 9, "{:?}", generated(&server));
    let told = told_of(&server, "prod").await;
    for reason in [
        "ClusterCreating",
        "ControlPlaneApplied",
        "ControlPlaneReady",
        "CNIInstalled",
        "WorkersApplied",
        "ClusterReady",
    ] {
        assert!(told.iter().any(|one| one == reason), "{reason}: {told:?}");
    }
    assert_eq!(events(&server, "dc"), ["Validated"]);

    pass(60).await;
    let (effects, calls) = (server.effects() + site.inside.effects(), site.acs.log().len());
    pass(100 * 600).await;
    assert_eq!(server.effects() + site.inside.effects(), effects, "zero writes in a hundred passes");
    let asked = site.acs.log().len() - calls;
    assert!(asked <= 20 * 100 / 6, "only the datacenter is checked again, with twenty calls an hour: {asked} calls");

    assert!(server.delete(CLUSTERS, NS, "prod"));
    let going = server.wait_until(LIMIT, |server| condition(server, "prod", "Ready").1 == "Deleting").await;
    assert!(going && condition(&server, "prod", "Ready").2.ends_with("machines left"));
    assert!(server.wait_until(LIMIT, |server| server.get(CLUSTERS, NS, "prod").is_none()).await);
    assert_eq!(generated(&server), Vec::<String>::new());
    assert!(server.get("secrets", SYSTEM, "global").is_some(), "secrets are never deleted");
    assert!(told_of(&server, "prod").await.contains(&"ClusterDeleted".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn the_order_in_which_objects_arrive_does_not_matter() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let (server, site) = world();
        server.delete("secrets", SYSTEM, "global");
        let _process = site.start(&server, site.config());
        for which in order {
            let object = match which {
                0 => cluster("prod"),
                1 => datacenter(&site, "dc"),
                _ => machine("m", "kube-1.31", "Medium Instance"),
            };
            server.put(object).unwrap();
            pass(30).await;
            assert_eq!(generated(&server), Vec::<String>::new());
        }
        assert_eq!(failure(&server, "prod").0, "DatacenterConfigInvalid", "{order:?}");
        server.put(secret("global", &site.acs.endpoint, &site.acs.api_key, &site.acs.secret_key)).unwrap();
        ready(&server, "prod").await;
        assert_eq!(failure(&server, "prod"), Default::default());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_never_made_goes_at_once() {
    let (server, site) = world();
    server.put(cluster("prod")).unwrap();
    let _process = site.start(&server, site.config());
    let message = fails(&server, "prod", "MissingDependentObjects").await;
    assert_eq!(message, format!("CloudStackDatacenterConfig {NS}/dc not found"));
    assert!(server.delete(CLUSTERS, NS, "prod"));
    let gone =
        server.wait_until(std::time::Duration::from_secs(5), |server| server.get(CLUSTERS, NS, "prod").is_none());
    assert!(gone.await);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_goes_without_its_credentials_names_them() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    assert!(server.delete("secrets", SYSTEM, "global"));
    assert!(server.delete(CLUSTERS, NS, "prod"));
    let said = " machines left; secret eksa-system/global not found: machines cannot be destroyed without it";
    let told = server.wait_until(LIMIT, |server| condition(server, "prod", "Ready").2.ends_with(said)).await;
    assert!(told, "{:?}", condition(&server, "prod", "Ready"));
    // Whoever plays the provider needs no keys.
    assert!(server.wait_until(LIMIT, |server| server.get(CLUSTERS, NS, "prod").is_none()).await);
}

#[tokio::test(start_paused = true)]
async fn a_paused_cluster_is_left_alone_and_goes_on_at_once() {
    let (server, site) = world();
    apply(&server, &site);
    let paused = "anywhere.eks.amazonaws.com/paused";
    change(&server, CLUSTERS, "prod", |object| object["metadata"]["annotations"] = json!({paused: "true"}));
    let _process = site.start(&server, site.config());
    pass(300).await;
    assert_eq!(generated(&server), Vec::<String>::new());
    assert!(server.get(CLUSTERS, NS, "prod").unwrap()["metadata"]["finalizers"].is_null());
    change(&server, CLUSTERS, "prod", |object| object["metadata"]["annotations"] = json!({}));
    ready(&server, "prod").await;
    change(&server, CLUSTERS, "prod", |object| {
        object["metadata"]["annotations"][paused] = json!("true");
        object["spec"]["workerNodeGroupConfigurations"][0]["count"] = json!(5);
    });
    pass(300).await;
    assert_eq!(server.get(GROUPS, SYSTEM, "prod-md-0").unwrap()["spec"]["replicas"], 2);
    assert_eq!(condition(&server, "prod", "WorkersReady").1, "ScalingUp", "how it stands is told all the same");
    server.delete(CLUSTERS, NS, "prod");
    pass(300).await;
    assert!(server.get(CAPI, SYSTEM, "prod").is_some(), "nothing is deleted of a paused cluster");
    let allow = "anywhere.eks.amazonaws.com/allow-delete-when-paused";
    change(&server, CLUSTERS, "prod", |object| object["metadata"]["annotations"][allow] = json!("true"));
    assert!(server.wait_until(LIMIT, |server| server.get(CLUSTERS, NS, "prod").is_none()).await);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_manages_itself_is_never_touched() {
    let (server, site) = world();
    let _process = site.start(&server, site.config());
    pass(120).await;
    assert_eq!(events(&server, "mgmt"), ["SelfManagedIgnored"]);
    assert_eq!(generated(&server), Vec::<String>::new());
    assert!(server.get(CLUSTERS, NS, "mgmt").unwrap()["metadata"]["finalizers"].is_null());
    // Another controller held it; it is let go only when the tool that made it says so.
    change(&server, CLUSTERS, "mgmt", |object| {
        object["metadata"]["finalizers"] = json!(["clusters.anywhere.eks.amazonaws.com/finalizer"]);
        object["metadata"]["annotations"] = json!({});
    });
    server.delete(CLUSTERS, NS, "mgmt");
    pass(120).await;
    assert_eq!(events(&server, "mgmt"), ["SelfManagedDeleteRefused", "SelfManagedIgnored"]);
    let made = "anywhere.eks.amazonaws.com/managed-by-cli";
    change(&server, CLUSTERS, "mgmt", |object| object["metadata"]["annotations"] = json!({made: "true"}));
    assert!(server.wait_until(LIMIT, |server| server.get(CLUSTERS, NS, "mgmt").is_none()).await);
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_gone_while_machines_go_is_told() {
    let (server, site) = world();
    apply(&server, &site);
    let process = site.start(&server, site.config());
    ready(&server, "prod").await;
    drop(process);
    server.delete("secrets", SYSTEM, "global");
    server.delete(CLUSTERS, NS, "prod");
    let _process = site.start(&server, site.config());
    let told = server
        .wait_until(LIMIT, |server| {
            condition(server, "prod", "Ready").2.contains("secret eksa-system/global not found")
        })
        .await;
    assert!(told, "{:?}", condition(&server, "prod", "Ready"));
    assert!(server.wait_until(LIMIT, |server| server.get(CLUSTERS, NS, "prod").is_none()).await);
}
