//! `explain`, `tree` and `vips` on a real server with the kinds of Cluster API and its address management.

use std::path::Path;

use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use sim::dock::objects;
use sim::plane::{self, Plane};

use crate::support::{SOON, World, berth, text, within};

const PREFIX: &str = "vip.capi.gorizond.io";

/// The kinds of Cluster API and its address management, without their managers, and two namespaces.
async fn installed(client: &Client) {
    plane::install_crds(client, plane::cluster_api_definitions().expect("built"))
        .await
        .expect("definitions are accepted");
    for namespace in ["harbour", "lagoon"] {
        apply(client, &objects::namespace(namespace, &json!({}))).await;
    }
}

async fn apply(client: &Client, object: &Value) -> DynamicObject {
    plane::apply(client, object).await.expect("applied")
}

fn api(client: &Client, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = sim::dock::resource(kind).expect("a kind of Cluster API");
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn status(client: &Client, kind: &str, namespace: Option<&str>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    api(client, kind, namespace).patch_status(name, &PatchParams::default(), &patch).await.expect("stored");
}

/// The version of every object that was looked at.
async fn versions(client: &Client) -> Vec<Option<String>> {
    let mut all = Vec::new();
    for kind in ["Cluster", "IPAddressClaim", "IPAddress", "GlobalInClusterIPPool"] {
        let list = api(client, kind, None).list(&ListParams::default()).await.expect("listed");
        all.extend(list.items.into_iter().map(|object| object.metadata.resource_version));
    }
    all
}

/// The administrator's kubeconfig, acting as somebody without any right.
fn visitor(plane: &Plane, dir: &Path) -> String {
    let text = std::fs::read_to_string(plane.kubeconfig_path()).expect("a kubeconfig");
    let mut kubeconfig: Value = serde_saphyr::from_str(&text).expect("YAML");
    kubeconfig["users"][0]["user"]["as"] = json!("visitor");
    let path = dir.join("visitor");
    std::fs::write(&path, kubeconfig.to_string()).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

/// Lets the visitor read clusters, claims and addresses in `harbour`, and nothing else.
async fn admit(client: &Client) {
    let (rbac, meta) = ("rbac.authorization.k8s.io", json!({"namespace": "harbour", "name": "visitor"}));
    let groups = ["cluster.x-k8s.io", "ipam.cluster.x-k8s.io"];
    let rules = json!([{"apiGroups": groups, "resources": ["clusters", "ipaddressclaims", "ipaddresses"], "verbs": ["get", "list"]}]);
    apply(client, &json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": meta, "rules": rules})).await;
    apply(
        client,
        &json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": meta,
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "visitor"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "visitor"}]}),
    )
    .await;
}

fn as_json(kubeconfig: &str, args: &[&str]) -> Value {
    let args = [args, &["-o", "json", "--kubeconfig", kubeconfig]].concat();
    let output = berth(&args);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{args:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[tokio::test]
async fn a_cluster_is_explained_with_the_rights_of_whoever_asks() {
    let Some(plane) = plane::for_test("a_cluster_is_explained_with_the_rights_of_whoever_asks") else { return };
    let (path, client) = (plane.kubeconfig_path(), plane.client().await.unwrap());
    let kubeconfig = path.to_str().unwrap();

    let output = berth(&["explain", "cluster/prod", "--kubeconfig", kubeconfig]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""));
    assert!(text(&output.stderr).contains("install Cluster API"), "{}", text(&output.stderr));

    installed(&client).await;
    let cluster = apply(&client, &objects::cluster("harbour", "prod", "quick")).await;
    apply(&client, &objects::pool("vips", "quick", "10.40.0.1-10.40.0.9")).await;
    apply(&client, &objects::ingress_pool("doors", "other", "10.41.0.1-10.41.0.9")).await;
    status(
        &client,
        "GlobalInClusterIPPool",
        None,
        "vips",
        json!({"ipAddresses": {"total": 9, "free": 9, "used": 0, "outOfRange": 0}}),
    )
    .await;

    let told = as_json(kubeconfig, &["explain", "cluster/prod", "-n", "harbour"]);
    assert_eq!((&told["apiVersion"], &told["kind"]), (&json!("cli.berth.dev/v1"), &json!("Explanation")));
    assert_eq!(told["object"], json!({"kind": "Cluster", "namespace": "harbour", "name": "prod"}));
    assert_eq!(told["unseen"], json!([]));
    assert!(told["summary"].as_str().unwrap().contains("not asked about this cluster"), "{told}");
    let candidates = told["needs"][0]["candidates"].as_array().unwrap();
    assert_eq!(
        (&candidates[0]["object"]["name"], &candidates[0]["rank"], &candidates[0]["free"]),
        (&json!("vips"), &json!(1), &json!(9))
    );
    assert_eq!((&candidates[1]["object"]["name"], &candidates[1]["fails"]), (&json!("doors"), &json!("class")));

    // What the housekeeper or the hooks would have made.
    let uid = cluster.metadata.uid.unwrap();
    let claim = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
        "metadata": {"namespace": "harbour", "name": "vip-cp-prod", "labels": {format!("{PREFIX}/role"): "control-plane"},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "prod", "uid": uid}]},
        "spec": {"clusterName": "prod", "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": "vips"}},
    });
    apply(&client, &claim).await;
    let reference = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": "vips"});
    apply(
        &client,
        &json!({"apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddress",
        "metadata": {"namespace": "harbour", "name": "vip-cp-prod"},
        "spec": {"claimRef": {"name": "vip-cp-prod"}, "poolRef": reference, "address": "10.40.0.1", "prefix": 24}}),
    )
    .await;
    status(&client, "IPAddressClaim", Some("harbour"), "vip-cp-prod", json!({"addressRef": {"name": "vip-cp-prod"}}))
        .await;

    let before = versions(&client).await;
    let drawn = as_json(kubeconfig, &["tree", "cluster/prod", "-n", "harbour"]);
    assert_eq!(drawn["kind"], "Tree");
    let claim = &drawn["root"]["children"][0];
    let address = &claim["children"][0];
    let names =
        [claim, address, &address["children"][0]].map(|node| node["object"]["kind"].as_str().unwrap().to_owned());
    assert_eq!(names, ["IPAddressClaim", "IPAddress", "GlobalInClusterIPPool"]);
    assert_eq!((&address["note"], &address["children"][0]["note"]), (&json!("10.40.0.1"), &json!("9 of 9 free")));
    let listed = as_json(kubeconfig, &["vips", "-A"]);
    assert_eq!((&listed["kind"], &listed["items"][0]["address"]), (&json!("VipList"), &json!("10.40.0.1")));

    // A name that was meant.
    for (args, says) in [
        (["explain", "cluster/prod", "-n", "lagoon"], "berth explain cluster/prod -n harbour"),
        (["tree", "cluster/prodd", "-n", "harbour"], "berth tree cluster/prod -n harbour"),
        (["explain", "cluster/castle", "-n", "harbour"], "kubectl get clusters.cluster.x-k8s.io -A"),
    ] {
        let output = berth(&[&args[..], &["--kubeconfig", kubeconfig]].concat());
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""));
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
    }

    // Somebody who may see nothing, and somebody who may see one namespace but no pools.
    let dir = tempfile::tempdir().unwrap();
    let visitor = visitor(plane, dir.path());
    let args = ["explain", "cluster/prod", "-n", "harbour", "--kubeconfig", &visitor];
    let output = berth(&args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("you may not get clusters.cluster.x-k8s.io in the namespace harbour"), "{said}");
    admit(&client).await;
    within(SOON, "the right is granted", async || berth(&args).status.success().then_some(())).await;
    let told = as_json(&visitor, &["explain", "cluster/prod", "-n", "harbour"]);
    let unseen = told["unseen"].to_string();
    assert!(unseen.contains("clusters.cluster.x-k8s.io in all namespaces: only those in harbour"), "{unseen}");
    assert!(unseen.contains("you may not list globalinclusterippools.ipam.cluster.x-k8s.io"), "{unseen}");
    assert_eq!(told["needs"][0]["facts"][1], json!({"name": "address", "value": "10.40.0.1"}));

    assert_eq!(versions(&client).await, before, "looking changes nothing");
}

/// A group with its template, as one file; and what its type has, as a table.
fn planned() -> (String, Value) {
    let infrastructure = "infrastructure.cluster.x-k8s.io";
    let reference = json!({"apiGroup": infrastructure, "kind": "AWSMachineTemplate", "name": "large"});
    let machine = json!({"clusterName": "prod", "version": "v1.34.1", "bootstrap": {"dataSecretName": "data"},
        "infrastructureRef": reference});
    let labels = json!({"pool": "workers"});
    let group = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"namespace": "harbour", "name": "workers"},
        "spec": {"clusterName": "prod", "replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": machine}}});
    let template = json!({"apiVersion": format!("{infrastructure}/v1beta2"), "kind": "AWSMachineTemplate",
        "metadata": {"namespace": "harbour", "name": "large"},
        "spec": {"template": {"spec": {"instanceType": "m5.large", "ami": {"id": "ami-0123456789abcdef0"}}}}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "harbour", "name": "data"}});
    let table = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "harbour", "name": "types"},
        "data": {"m5.large": "{cpu: 2, memoryMib: 8192, arch: amd64}"}});
    (format!("{group}\n---\n{template}\n---\n{secret}\n"), table)
}

#[tokio::test]
async fn what_a_group_of_a_file_would_be_given_is_told_and_nothing_is_written() {
    let name = "what_a_group_of_a_file_would_be_given_is_told_and_nothing_is_written";
    // Not on the server above: there somebody asks first what is said without Cluster API.
    let Some(world) = World::enter(name).await else { return };
    let (plane, client, dir) = (world.plane, world.client.clone(), tempfile::tempdir().unwrap());
    let path = plane.kubeconfig_path();
    installed(&client).await;
    let provider = ["AWSMachineTemplate", "AWSCluster"]
        .map(|kind| plane::open_definition("infrastructure.cluster.x-k8s.io", "v1beta2", kind));
    plane::install_crds(&client, provider.to_vec()).await.expect("definitions are accepted");
    let (text, table) = planned();
    apply(&client, &table).await;
    let file = dir.path().join("workers.yaml");
    std::fs::write(&file, text).expect("written");
    let args = [
        "plan",
        "--live",
        "-f",
        file.to_str().unwrap(),
        "--capacity-table=harbour/types",
        "--default-region=eu-west-1",
    ];

    let told = as_json(path.to_str().unwrap(), &args);
    assert_eq!(
        (&told["kind"], &told["items"][0]["object"]["kind"]),
        (&json!("ExplanationList"), &json!("MachineDeployment"))
    );
    let next = told["items"][0]["next"].to_string();
    assert!(next.contains(r#"writes capacity.cluster-autoscaler.kubernetes.io/cpu: \"2\""#), "{told}");
    assert_eq!(told["passedOver"], json!([{"kind": "Secret", "count": 1}]));
    let groups = api(&client, "MachineDeployment", Some("harbour")).list(&ListParams::default()).await.expect("listed");
    assert!(groups.items.iter().all(|group| group.metadata.name.as_deref() != Some("workers")), "nothing is written");

    // Whoever may see nothing is told what that hides, and gets no guess.
    let told = as_json(&visitor(plane, dir.path()), &args);
    let unseen = told["items"][0]["unseen"].to_string();
    assert!(
        unseen.contains(
            "you may not get machinedeployments.cluster.x-k8s.io, so MachineDeployment workers is taken as new"
        ),
        "{told}"
    );
    assert!(unseen.contains("you may not get the ConfigMap harbour/types"), "{told}");
    assert!(!told["items"][0]["next"].to_string().contains("writes "), "{told}");
}
