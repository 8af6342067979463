//! What clusters refer to: releases and bundles, who tells the API server who users are, and another system namespace.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use sim::server::Server;

use crate::site::*;

const OIDC: &str = "oidcconfigs.anywhere.eks.amazonaws.com";
const IAM: &str = "awsiamconfigs.anywhere.eks.amazonaws.com";
const SOON: std::time::Duration = std::time::Duration::from_secs(5);

fn release(version: &str, namespace: &str, number: i64) -> Value {
    let name = format!("eksa-{}", version.replace('.', "-"));
    json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "EKSARelease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"version": version, "bundlesRef": reference(number)}})
}

async fn says(server: &Server, reason: &str, message: &str) {
    let wanted = (reason.to_owned(), message.to_owned());
    let told = server.wait_until(SOON, |server| failure(server, "prod") == wanted).await;
    assert!(told, "{message}: {:?}", failure(server, "prod"));
}

#[tokio::test(start_paused = true)]
async fn a_version_leads_through_its_release_to_its_bundle() {
    let (server, site) = world();
    let invalid = "EksaVersionInvalid";
    apply(&server, &site);
    change(&server, CLUSTERS, "mgmt", |object| drop(object["spec"].as_object_mut().unwrap().remove("bundlesRef")));
    let _process = site.start(&server, site.config());
    fails(&server, "prod", invalid).await;
    says(&server, invalid, "set eksaVersion or bundlesRef here or on management cluster mgmt").await;
    change(&server, CLUSTERS, "mgmt", |object| object["spec"]["eksaVersion"] = json!("v0.22.0"));
    says(&server, invalid, "EKSARelease eksa-v0-22-0 not found").await;
    change(&server, CLUSTERS, "prod", |object| object["spec"]["eksaVersion"] = json!("v0.23.1"));
    says(&server, invalid, "eksaVersion v0.23.1 is newer than v0.22.0 of the management cluster").await;
    change(&server, CLUSTERS, "mgmt", |object| object["spec"]["eksaVersion"] = json!("v0.23.1"));
    says(&server, invalid, "EKSARelease eksa-v0-23-1 not found").await;
    // Releases are those of the operator: one of the same name elsewhere is none.
    server.put(release("v0.23.1", NS, 7)).unwrap();
    pass(30).await;
    says(&server, invalid, "EKSARelease eksa-v0-23-1 not found").await;
    server.put(release("v0.23.1", SYSTEM, 9)).unwrap();
    says(&server, "BundleNotFoundForCluster", "Bundles eksa-system/bundles-9 not found").await;
    server.put(bundles(9, "v1.16.5")).unwrap();
    ready(&server, "prod").await;
    let status = server.get(CLUSTERS, NS, "prod").unwrap()["status"].clone();
    assert_eq!(status["resolvedBundles"]["name"], "bundles-9");
    // What the release says later replaces nothing of what was made with it.
    server
        .edit(RELEASES, SYSTEM, "eksa-v0-23-1", |release| {
            release["spec"]["gitCommit"] = json!("abc");
        })
        .unwrap();
    pass(1_300).await;
    assert_eq!(server.get(PLANES, SYSTEM, "prod").unwrap()["spec"]["version"], "v1.31.4-eks-1-31-9");
}

/// What a user applies for one cluster of a release that has the bundle 7.
fn apply_released(server: &Server, site: &Site) {
    server.put(release("v0.22.0", SYSTEM, 7)).unwrap();
    apply(server, site);
    choose(server, "v0.22.0");
}

fn choose(server: &Server, version: &str) {
    change(server, CLUSTERS, "prod", |object| object["spec"]["eksaVersion"] = json!(version));
}

fn count(server: &Server, count: i64) {
    change(server, CLUSTERS, "prod", |object| {
        object["spec"]["workerNodeGroupConfigurations"][0]["count"] = json!(count);
    });
}

fn resolved(server: &Server) -> Value {
    server.get(CLUSTERS, NS, "prod").unwrap()["status"]["resolvedBundles"].clone()
}

/// The bundle 7, found by a version; by none where nobody noted it.
fn seven(version: Option<&str>) -> Value {
    let mut bundles = json!({"name": "bundles-7", "namespace": SYSTEM, "number": 7});
    if let Some(version) = version {
        bundles["eksaVersion"] = json!(version);
    }
    bundles
}

/// What decides about machines.
fn specs(server: &Server) -> [Value; 2] {
    [(PLANES, "prod"), (GROUPS, "prod-md-0")]
        .map(|(kind, name)| server.get(kind, SYSTEM, name).unwrap()["spec"].clone())
}

fn plane_version(server: &Server) -> Value {
    server.get(PLANES, SYSTEM, "prod").unwrap()["spec"]["version"].clone()
}

/// What a plan of the cluster as it is asked for finds wrong with it.
fn faults(server: &Server) -> Vec<String> {
    let [plan] = planned(server, &[server.get(CLUSTERS, NS, "prod").unwrap()]).try_into().unwrap();
    plan.faults.into_iter().map(|fault| fault.message).collect()
}

#[tokio::test(start_paused = true)]
async fn another_version_of_a_cluster_that_runs_waits_for_its_release_and_replaces_nothing_until_then() {
    let (server, site) = world();
    apply_released(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    assert_eq!(resolved(&server), seven(Some("v0.22.0")));
    let before = specs(&server);
    choose(&server, "v0.23.1");
    let missing = "EKSARelease eksa-v0-23-1 not found";
    says(&server, "EksaVersionInvalid", missing).await;
    assert_eq!(faults(&server), [missing], "who plans is told the same");
    pass(1_300).await;
    assert_eq!((specs(&server), resolved(&server)), (before.clone(), seven(Some("v0.22.0"))));
    assert!(!is_ready(&server, "prod"), "it is not carried out");
    // Whoever takes it back has what was there.
    choose(&server, "v0.22.0");
    ready(&server, "prod").await;
    assert_eq!((specs(&server), failure(&server, "prod")), (before, Default::default()));
    choose(&server, "v0.23.1");
    says(&server, "EksaVersionInvalid", missing).await;
    server.put(release("v0.23.1", SYSTEM, 8)).unwrap();
    ready(&server, "prod").await;
    assert_eq!(plane_version(&server), "v1.31.4-eks-1-31-8");
    assert_eq!(
        (resolved(&server)["number"].clone(), resolved(&server)["eksaVersion"].clone()),
        (json!(8), json!("v0.23.1"))
    );
    assert_eq!((failure(&server, "prod"), faults(&server)), (Default::default(), Vec::new()));
}

/// Even where both have the same bundle.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_runs_gets_no_version_newer_than_its_management_cluster() {
    let (server, site) = world();
    change(&server, CLUSTERS, "mgmt", |object| object["spec"]["eksaVersion"] = json!("v0.22.0"));
    server.put(release("v0.23.1", SYSTEM, 7)).unwrap();
    apply_released(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let before = specs(&server);
    choose(&server, "v0.23.1");
    let newer = "eksaVersion v0.23.1 is newer than v0.22.0 of the management cluster";
    says(&server, "EksaVersionInvalid", newer).await;
    assert_eq!(faults(&server), [newer]);
    change(&server, CLUSTERS, "mgmt", |object| object["spec"]["eksaVersion"] = json!("v0.23.1"));
    ready(&server, "prod").await;
    assert_eq!((specs(&server), resolved(&server)), (before, seven(Some("v0.23.1"))));
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_a_release_changes_nothing_of_what_was_made_with_it() {
    let (server, site) = world();
    apply_released(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let before = plane_version(&server);
    assert!(server.delete(RELEASES, SYSTEM, "eksa-v0-22-0"));
    for (number, stored) in [(3, None), (4, Some(8))] {
        if let Some(bundle) = stored {
            server.put(release("v0.22.0", SYSTEM, bundle)).unwrap();
        }
        pass(1_300).await;
        assert_eq!(faults(&server), Vec::<String>::new());
        count(&server, number);
        ready(&server, "prod").await;
        assert_eq!(server.get(GROUPS, SYSTEM, "prod-md-0").unwrap()["spec"]["replicas"], number);
        assert_eq!((plane_version(&server), resolved(&server)), (before.clone(), seven(Some("v0.22.0"))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_was_found_before_versions_were_noted_stays_until_something_is_asked_for() {
    let (server, site) = world();
    apply_released(&server, &site);
    let process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let before = plane_version(&server);
    drop(process);
    let unnoted = || change(&server, CLUSTERS, "prod", |object| object["status"]["resolvedBundles"] = seven(None));
    // While its release tells the version, that is noted.
    unnoted();
    let process = site.start(&server, site.config());
    assert!(
        server.wait_until(LIMIT, |server| resolved(server) == seven(Some("v0.22.0"))).await,
        "{}",
        resolved(&server)
    );
    drop(process);
    // Where it is gone, nobody knows what was found by it.
    unnoted();
    assert!(server.delete(RELEASES, SYSTEM, "eksa-v0-22-0"));
    let _process = site.start(&server, site.config());
    pass(1_300).await;
    assert!(is_ready(&server, "prod"));
    assert_eq!((resolved(&server), failure(&server, "prod")), (seven(None), Default::default()));
    count(&server, 3);
    says(&server, "EksaVersionInvalid", "EKSARelease eksa-v0-22-0 not found").await;
    server.put(release("v0.22.0", SYSTEM, 7)).unwrap();
    ready(&server, "prod").await;
    assert_eq!((plane_version(&server), resolved(&server)), (before, seven(Some("v0.22.0"))));
}

/// As definitions of an earlier release do.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_keep_the_version_of_a_bundle_stops_nobody() {
    let (server, site) = world();
    server
        .edit("customresourcedefinitions.apiextensions.k8s.io", "", CLUSTERS, |definition| {
            let at = "/schema/openAPIV3Schema/properties/status/properties/resolvedBundles/properties";
            for version in definition["spec"]["versions"].as_array_mut().unwrap() {
                let fields = version.pointer_mut(at).and_then(Value::as_object_mut).unwrap();
                assert!(fields.remove("eksaVersion").is_some());
            }
        })
        .unwrap();
    apply_released(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    assert_eq!(resolved(&server), seven(None));
    server.put(release("v0.23.1", SYSTEM, 8)).unwrap();
    choose(&server, "v0.23.1");
    ready(&server, "prod").await;
    assert_eq!(plane_version(&server), "v1.31.4-eks-1-31-8");
    let passes = site.passes();
    pass(3_600).await;
    let passes = site.passes() - passes;
    assert!(passes < 60.0, "{passes} passes in an hour in which nothing happens");
}

#[tokio::test(start_paused = true)]
async fn who_tells_of_users_is_waited_for_owned_and_followed() {
    let server = Server::new(1);
    let site = Site::new(&server.clock(), None);
    // The plain kinds let through what a schema would refuse.
    define_plainly(&server);
    register(&server);
    prepare(&server, &site);
    apply(&server, &site);
    change(&server, CLUSTERS, "prod", |object| {
        object["spec"]["identityProviderRefs"] =
            json!([{"kind": "OIDCConfig", "name": "login"}, {"kind": "AWSIamConfig", "name": "roles"}]);
    });
    let _process = site.start(&server, site.config());
    let missing = "MissingDependentObjects";
    fails(&server, "prod", missing).await;
    says(&server, missing, &format!("OIDCConfig {NS}/login not found")).await;
    let object = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": NS}, "spec": spec})
    };
    server
        .put(object("OIDCConfig", "login", json!({"issuerUrl": "https://login.example", "requiredClaims": "all"})))
        .unwrap();
    says(&server, missing, &format!("AWSIamConfig {NS}/roles not found")).await;
    let roles = json!({"awsRegion": "eu-central-1", "backendMode": ["EKSConfigMap"]});
    server.put(object("AWSIamConfig", "roles", roles)).unwrap();
    assert!(fails(&server, "prod", "ClusterInvalid").await.starts_with("OIDCConfig login is invalid: "));
    assert_eq!(generated(&server), Vec::<String>::new());
    change(&server, OIDC, "login", |object| drop(object["spec"].as_object_mut().unwrap().remove("requiredClaims")));
    ready(&server, "prod").await;
    for (kind, name) in [(OIDC, "login"), (IAM, "roles")] {
        let owners = server.get(kind, NS, name).unwrap()["metadata"]["ownerReferences"].clone();
        assert_eq!((&owners[0]["kind"], &owners[0]["name"]), (&json!("Cluster"), &json!("prod")), "{kind}");
    }
    let issuer = |server: &Server| {
        let plane = server.get(PLANES, SYSTEM, "prod").unwrap();
        let spec = &plane["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["apiServer"]["extraArgs"];
        let all = spec.as_array().unwrap().iter();
        all.filter(|one| one["name"] == "oidc-issuer-url").map(|one| one["value"].clone()).collect::<Vec<Value>>()
    };
    assert_eq!(issuer(&server), ["https://login.example"]);
    change(&server, OIDC, "login", |object| object["spec"]["issuerUrl"] = json!("https://next.example"));
    let followed = server.wait_until(SOON, |server| issuer(server) == ["https://next.example"]).await;
    assert!(followed, "{:?}", issuer(&server));
}

/// Where an operator keeps credentials and what is generated is for the operator to say, and so is what holds endpoints.
#[tokio::test(start_paused = true)]
async fn another_system_namespace_and_no_kube_vip_hold_for_a_new_cluster() {
    const ELSEWHERE: &str = "clouds";
    let (server, site) = world();
    server.namespace(ELSEWHERE);
    for mut object in
        [secret("global", &site.acs.endpoint, &site.acs.api_key, &site.acs.secret_key), manifests("v1.16.5")]
    {
        object["metadata"]["namespace"] = json!(ELSEWHERE);
        server.put(object).unwrap();
    }
    server.delete("secrets", SYSTEM, "global");
    apply(&server, &site);
    let mut config = site.config();
    config.settings.system_namespace = ELSEWHERE.to_owned();
    config.settings.kube_vip = false;
    let _process = site.start(&server, config);
    let made = server.wait_until(LIMIT, |server| server.get(CAPI, ELSEWHERE, "prod").is_some()).await;
    assert!(made, "{:#}", server.get(CLUSTERS, NS, "prod").unwrap()["status"]);
    pass(30).await;
    assert_eq!(generated(&server), Vec::<String>::new(), "nothing is made in the usual place");
    let zone = server.get(PROVIDER, ELSEWHERE, "prod").unwrap()["spec"]["failureDomains"][0].clone();
    assert_eq!(zone["acsEndpoint"], json!({"name": "global", "namespace": ELSEWHERE}));
    let plane = server.get(PLANES, ELSEWHERE, "prod").unwrap();
    assert!(!plane["spec"].to_string().contains("kube-vip"), "{:#}", plane["spec"]);
    assert_eq!(site.ground.tried.load(Ordering::SeqCst), 1, "whoever balances from outside has its port only");
}
