//! Clusters that another controller made.

use serde_json::{Value, json};

use crate::site::*;

/// The world as another controller would have left it: names of its own, no labels of owners.
fn left_behind(server: &sim::server::Server) {
    let rename = |text: &str| text.rsplit_once('-').map(|(prefix, _)| format!("{prefix}-1")).unwrap();
    let mut names: Vec<(String, String)> = Vec::new();
    for kind in [TEMPLATES, CONFIGS] {
        for mut object in server.list(kind, SYSTEM) {
            let old = object["metadata"]["name"].as_str().unwrap().to_owned();
            let new = rename(&old);
            object["metadata"] = json!({"name": new, "namespace": SYSTEM});
            server.put(object).unwrap();
            server.delete(kind, SYSTEM, &old);
            names.push((old, new));
        }
    }
    for kind in [CAPI, PLANES, GROUPS, CHECKS, PROVIDER] {
        for object in server.list(kind, SYSTEM) {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            let mut text = serde_json::to_string(&object["spec"]).unwrap();
            for (old, new) in &names {
                text = text.replace(old.as_str(), new);
            }
            let spec: Value = serde_json::from_str(&text).unwrap();
            server
                .edit(kind, SYSTEM, &name, |object| {
                    object["spec"] = spec;
                    let labels = object["metadata"]["labels"].as_object_mut().unwrap();
                    labels.retain(|key, _| key == "cluster.x-k8s.io/cluster-name");
                    object["metadata"].as_object_mut().unwrap().remove("managedFields");
                })
                .unwrap();
        }
    }
    server
        .edit(CLUSTERS, NS, "prod", |object| {
            let status = object["status"].as_object_mut().unwrap();
            for key in ["renderRevision", "inputsHash", "resolvedBundles", "cni"] {
                status.remove(key);
            }
        })
        .unwrap();
}

/// A cluster that is ready, as another controller would have left it, and nobody who looks after it.
async fn made_by_another() -> (sim::server::Server, Site) {
    let (server, site) = world();
    apply(&server, &site);
    let process = site.start(&server, site.config());
    ready(&server, "prod").await;
    drop(process);
    left_behind(&server);
    (server, site)
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_another_controller_is_taken_over_without_replacing_a_machine() {
    let (server, site) = made_by_another().await;
    let plane = server.get(PLANES, SYSTEM, "prod").unwrap();
    let group = server.get(GROUPS, SYSTEM, "prod-md-0").unwrap();
    let _process = site.start(&server, site.config());
    let taken = server
        .wait_until(LIMIT, |server| server.get(CLUSTERS, NS, "prod").unwrap()["status"]["renderRevision"] == 0)
        .await;
    assert!(taken, "{:#}", server.get(CLUSTERS, NS, "prod").unwrap()["status"]);
    pass(1_300).await;
    assert!(is_ready(&server, "prod"));
    for (kind, name, before) in [(PLANES, "prod", &plane), (GROUPS, "prod-md-0", &group)] {
        let now = server.get(kind, SYSTEM, name).unwrap();
        assert_eq!(now["spec"], before["spec"], "{name}");
        assert_eq!(now["metadata"]["labels"]["cluster.anywhere.eks.amazonaws.com/cluster-namespace"], NS, "{name}");
    }
    // As long as nothing is changed it is left as others rendered it, and that is told.
    let [plan] = planned(&server, &[server.get(CLUSTERS, NS, "prod").unwrap()]).try_into().unwrap();
    assert_eq!((rolled(&plan), plan.objects.len()), (Vec::new(), 0));
    assert!(plan.warnings.iter().any(|told| told.starts_with("another release or controller")), "{:?}", plan.warnings);
    let mut more = server.get(CLUSTERS, NS, "prod").unwrap();
    more["spec"]["workerNodeGroupConfigurations"][0]["count"] = json!(3);
    let [plan] = planned(&server, &[more]).try_into().unwrap();
    assert_eq!(rolled(&plan), []);
    // The next change of the user is carried out, and templates that mean the same keep their names.
    change(&server, CLUSTERS, "prod", |object| object["spec"]["workerNodeGroupConfigurations"][0]["count"] = json!(3));
    ready(&server, "prod").await;
    let now = server.get(GROUPS, SYSTEM, "prod-md-0").unwrap();
    assert_eq!(now["spec"]["replicas"], 3);
    assert_eq!(now["spec"]["template"]["spec"], group["spec"]["template"]["spec"], "no machine is replaced");
    assert_eq!(server.get(CLUSTERS, NS, "prod").unwrap()["status"]["renderRevision"], 1);
    pass(60).await;
    let effects = server.effects();
    pass(6_000).await;
    assert_eq!(server.effects(), effects);
}

/// Who took over clusters may have them rendered as it renders, without another reason.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_taken_over_is_rendered_anew_when_its_owner_says_so() {
    let (server, site) = made_by_another().await;
    let _process = site.start(&server, site.config());
    let revision =
        |server: &sim::server::Server| server.get(CLUSTERS, NS, "prod").unwrap()["status"]["renderRevision"].clone();
    assert!(server.wait_until(LIMIT, |server| revision(server) == 0).await, "{}", revision(&server));
    let specs = |server: &sim::server::Server| {
        [(PLANES, "prod"), (GROUPS, "prod-md-0")]
            .map(|(kind, name)| server.get(kind, SYSTEM, name).unwrap()["spec"].clone())
    };
    let labelled = |server: &sim::server::Server| {
        let provider = server.get(PROVIDER, SYSTEM, "prod").unwrap();
        provider["metadata"]["labels"]["cluster.anywhere.eks.amazonaws.com/cluster-namespace"] == NS
    };
    let before = specs(&server);
    let say = |word: &str| {
        let mut object = server.get(CLUSTERS, NS, "prod").unwrap();
        object["metadata"]["annotations"]["clusters.berth.dev/adopt-render-revision"] = json!(word);
        let [plan] = planned(&server, &[object.clone()]).try_into().unwrap();
        let annotations = object["metadata"]["annotations"].clone();
        change(&server, CLUSTERS, "prod", |stored| stored["metadata"]["annotations"] = annotations);
        plan
    };
    let plan = say("false");
    assert_eq!((rolled(&plan), plan.objects.len()), (Vec::new(), 0));
    pass(1_300).await;
    assert_eq!((revision(&server), labelled(&server)), (json!(0), false), "only one word counts");
    let plan = say("true");
    assert_eq!(rolled(&plan), []);
    assert!(plan.objects.iter().any(|object| object.kind == "CloudStackCluster"), "{:?}", plan.objects);
    assert!(server.wait_until(LIMIT, |server| revision(server) == 1).await, "{}", revision(&server));
    assert!(labelled(&server), "what is generated was written anew");
    assert_eq!(specs(&server), before, "and no machine is replaced");
    assert!(is_ready(&server, "prod"));
    // From then on it stands for nothing.
    pass(60).await;
    let effects = server.effects();
    pass(6_000).await;
    assert_eq!(server.effects(), effects);
}

#[tokio::test(start_paused = true)]
async fn without_cluster_api_clusters_wait_for_it() {
    let server = sim::server::Server::new(1);
    let site = Site::new(&server.clock(), None);
    define(&server);
    server.namespace(NS);
    server.namespace(SYSTEM);
    prepare(&server, &site);
    apply(&server, &site);
    let client = server.client("clusters").kube();
    let clock = kit::clock::Clock::simulated((server.clock())(), 1);
    let (waiting, here) = (site.clone(), server.clone());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { waiting.run(&here, client, clock, waiting.config()).await });
    pass(120).await;
    assert_eq!(server.get(DATACENTERS, NS, "dc").unwrap()["status"]["specValid"], true);
    register(&server);
    ready(&server, "prod").await;
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_a_name_never_takes_or_deletes_the_cluster_behind_it() {
    let (server, site) = world();
    // The management cluster's own object of Cluster API, and one that somebody made by hand; neither carries a label.
    for (name, host) in [("mgmt", "172.16.0.4"), ("prod", "172.16.9.9")] {
        server
            .put(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                "metadata": {"name": name, "namespace": SYSTEM},
                "spec": {"controlPlaneEndpoint": {"host": host, "port": 6443}}}))
            .unwrap();
    }
    apply(&server, &site);
    server.namespace("tenant");
    let mut twin = cluster("mgmt");
    twin["metadata"]["namespace"] = json!("tenant");
    twin["spec"]["managementCluster"]["name"] = json!("boss");
    server.put(twin).unwrap();
    let _process = site.start(&server, site.config());
    let message = fails(&server, "prod", "ClusterInvalid").await;
    assert_eq!(message, "name already used by a Cluster of Cluster API, eksa-system/prod");
    pass(60).await;
    for (namespace, name) in [("tenant", "mgmt"), (NS, "prod")] {
        assert!(server.delete(CLUSTERS, namespace, name));
        assert!(server.wait_until(LIMIT, |server| server.get(CLUSTERS, namespace, name).is_none()).await, "{name}");
        let kept = server.get(CAPI, SYSTEM, name).unwrap();
        assert!(kept["metadata"]["deletionTimestamp"].is_null(), "{name} is not theirs to delete");
        assert!(kept["metadata"]["labels"].is_null(), "{name} is not theirs to label");
    }
    assert_eq!(server.list(PLANES, SYSTEM).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_somebody_deletes_in_cluster_api_is_let_go_and_then_made_again() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let before = server.get(CAPI, SYSTEM, "prod").unwrap()["metadata"]["uid"].clone();
    server.delete(CAPI, SYSTEM, "prod");
    let again = server.wait_until(LIMIT, |server| {
        server.get(CAPI, SYSTEM, "prod").is_some_and(|cluster| cluster["metadata"]["uid"] != before)
    });
    assert!(again.await, "its end is not fought");
    ready(&server, "prod").await;
}

#[tokio::test(start_paused = true)]
async fn what_others_refuse_is_told_in_their_words() {
    let (server, site) = world();
    apply(&server, &site);
    let refused = server.inject(
        sim::server::Rule::any().method("PATCH").path_contains("machinehealthchecks").always(),
        sim::server::Action::Status(422),
    );
    let _process = site.start(&server, site.config());
    let message = fails(&server, "prod", "ClusterInvalid").await;
    assert!(message.contains("MachineHealthCheck") && message.contains("was refused"), "{message}");
    server.stop_fault(refused);
    ready(&server, "prod").await;
    assert_eq!(failure(&server, "prod"), Default::default());
}

#[tokio::test(start_paused = true)]
async fn another_default_of_the_operator_replaces_no_machine() {
    let (server, site) = world();
    apply(&server, &site);
    let process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let before = server.get(PLANES, SYSTEM, "prod").unwrap()["spec"].clone();
    drop(process);
    let mut config = site.config();
    config.settings.kube_vip = false;
    let _process = site.start(&server, config);
    pass(1_300).await;
    change(&server, CLUSTERS, "prod", |object| object["spec"]["workerNodeGroupConfigurations"][0]["count"] = json!(3));
    ready(&server, "prod").await;
    assert_eq!(server.get(PLANES, SYSTEM, "prod").unwrap()["spec"], before);
}
