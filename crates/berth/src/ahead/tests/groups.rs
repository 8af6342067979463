//! Groups of machines.

use super::*;

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// The table of types, which needs no cloud.
fn table() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "berth-system", "name": "types"},
        "data": {"m5.large": "{cpu: 2, memoryMib: 8192, arch: amd64}"}})
}

fn deployment(name: &str, template: &str) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"namespace": "team-a", "name": name, "annotations": {
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "0",
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "3"}},
        "spec": {"clusterName": "prod", "replicas": 0, "template": {"spec": {"clusterName": "prod", "infrastructureRef": {
            "apiGroup": INFRASTRUCTURE, "kind": "AWSMachineTemplate", "name": template}}}}})
}

fn template(name: &str, instance_type: &str) -> Value {
    json!({"apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "AWSMachineTemplate",
        "metadata": {"namespace": "team-a", "name": name},
        "spec": {"template": {"spec": {"instanceType": instance_type, "ami": {"id": "ami-0123456789abcdef0"}}}}})
}

fn cluster() -> [Value; 2] {
    let reference = json!({"apiGroup": INFRASTRUCTURE, "kind": "AWSCluster", "name": "prod"});
    [
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"namespace": "team-a", "name": "prod"}, "spec": {"infrastructureRef": reference}}),
        json!({"apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "AWSCluster",
            "metadata": {"namespace": "team-a", "name": "prod"}, "spec": {"region": "us-west-2"}}),
    ]
}

fn openshift(name: &str) -> Value {
    json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"namespace": "team-a", "name": name},
        "spec": {"template": {"spec": {"providerSpec": {"value": {"instanceType": "m5.large",
            "placement": {"region": "us-east-1"}, "credentialsSecret": {"name": "aws-cloud-credentials"}}}}}}})
}

const FLAGS: [&str; 1] = ["--capacity-table=berth-system/types"];

#[tokio::test]
async fn a_group_is_told_which_annotations_it_would_be_given() {
    let server = server();
    put(&server, cluster().into_iter().chain([table()]));
    let mut files = file(&[
        deployment("workers", "large"),
        template("large", "m5.large"),
        json!({"apiVersion": "v1", "kind": "Secret"}),
    ]);
    let told = told(&server, &mut files, &FLAGS).await;
    let text = serde_json::to_string(&told[0]).unwrap();
    assert!(text.contains("writes capacity.cluster-autoscaler.kubernetes.io/cpu"), "{text}");
    insta::assert_snapshot!(shown(&told, &files));
}

#[tokio::test]
async fn what_was_written_before_is_compared_with() {
    let server = server();
    let old = json!({"metadata": {"annotations": {
        "capacity.cluster-autoscaler.kubernetes.io/cpu": "2", "capacity.cluster-autoscaler.kubernetes.io/memory": "8Gi"}}});
    put(&server, cluster().into_iter().chain([table(), merged(deployment("workers", "large"), &old)]));
    let told = told(&server, &mut file(&[deployment("workers", "large"), template("large", "m5.large")]), &FLAGS).await;
    let text = serde_json::to_string(&told[0].next).unwrap();
    assert!(!text.contains("kubernetes.io/cpu"), "it is written already: {text}");
}

#[tokio::test]
async fn sets_of_both_families_are_told() {
    let server = server();
    put(&server, cluster().into_iter().chain([table()]));
    let set = merged(deployment("alone", "large"), &json!({"kind": "MachineSet"}));
    let mut files = file(&[set, openshift("workers"), template("large", "m5.large")]);
    let told = told(&server, &mut files, &FLAGS).await;
    let groups: Vec<&Explanation> = told.iter().filter(|one| one.object.kind == "MachineSet").collect();
    let writes =
        |one: &Explanation, key: &str| one.next.iter().any(|next| next.what.starts_with(&format!("writes {key}")));
    assert!(writes(groups[0], "machine.openshift.io/vCPU"), "{groups:?}");
    assert!(writes(groups[1], "capacity.cluster-autoscaler.kubernetes.io/cpu"), "{groups:?}");
}

#[tokio::test]
async fn a_type_that_is_in_no_catalogue_is_not_guessed() {
    let server = server();
    put(&server, cluster());
    let told = told(&server, &mut file(&[deployment("workers", "huge"), template("huge", "m5.24xlarge")]), &[]).await;
    let text = serde_json::to_string(&told[0]).unwrap();
    assert!(text.contains("looks m5.24xlarge up in the catalogue of us-west-2") && !text.contains("writes "), "{text}");
    assert!(told[0].unseen.iter().any(|unseen| unseen.contains("catalogue of instance types")), "{text}");
}
