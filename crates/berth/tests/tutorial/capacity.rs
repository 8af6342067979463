//! The page about scale from zero: groups of OpenShift and of Cluster API get what it says they get.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::wait::seek;
use sim::{ec2, plane};

use crate::pod::Ports;
use crate::release::{self, HOME};
use crate::walk::Walk;
use crate::{BOUND, namespace, openshift};

/// Where OpenShift keeps its machines.
const MACHINES: &str = "openshift-machine-api";
const TEAM: &str = "team-a";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// What the page takes for granted: the cluster of the group, and its template, on four processors and a disk of 100 GiB.
fn around() -> Vec<Value> {
    let version = format!("{INFRASTRUCTURE}/v1beta2");
    let meta = |name: &str| json!({"name": name, "namespace": TEAM});
    let network = json!({"apiGroup": INFRASTRUCTURE, "kind": "AWSCluster", "name": "prod"});
    let machine = json!({"instanceType": "m5.xlarge", "rootVolume": {"size": 100}});
    vec![
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": meta("prod"),
            "spec": {"infrastructureRef": network}}),
        json!({"apiVersion": version, "kind": "AWSCluster", "metadata": meta("prod"), "spec": {"region": "us-east-1"}}),
        json!({"apiVersion": version, "kind": "AWSMachineTemplate", "metadata": meta("workers"),
            "spec": {"template": {"spec": machine}}}),
    ]
}

/// Waits until a group says exactly what the page shows, beside what is on it already.
async fn says(client: &Client, (group, kind): (&str, &str), place: &str, name: &str, shown: &BTreeMap<String, String>) {
    let version = if group == "cluster.x-k8s.io" { "v1beta2" } else { "v1beta1" };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), place, &resource);
    let ours = |key: &str| key.starts_with("capacity.cluster-autoscaler") || key.starts_with("machine.openshift.io/");
    let mut last = BTreeMap::new();
    let found = seek(BOUND, async || {
        last = api.get(name).await.unwrap().metadata.annotations.unwrap_or_default();
        last.retain(|key, _| ours(key));
        (last == *shown).then_some(())
    });
    assert!(found.await.is_some(), "{kind} {name} should say {shown:?}, but says {last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_at_zero_get_the_annotations_that_the_page_shows() {
    let test = "groups_at_zero_get_the_annotations_that_the_page_shows";
    let Some(plane) = crate::plane(test) else { return };
    let ports = Ports::free();
    let Some(shell) = release::shell(test, &plane.kubeconfig_path(), ports) else { return };
    let client = plane.client().await.unwrap();
    let cloud = ec2::start(ec2::Options::default()).await.unwrap();
    let mut definitions = plane::cluster_api_definitions().unwrap();
    definitions.extend([openshift::machine_sets(), plane::open_definition(INFRASTRUCTURE, "v1beta2", "AWSCluster")]);
    plane::install_crds(&client, definitions).await.unwrap();
    namespace(&client, MACHINES).await;
    namespace(&client, TEAM).await;
    let keys = json!({"aws_access_key_id": cloud.access_key, "aws_secret_access_key": cloud.secret});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": keys,
        "metadata": {"name": "aws-cloud-credentials", "namespace": MACHINES}});
    plane::apply(&client, &secret).await.unwrap();

    let (mut page, section) = (Walk::of("capacity/tutorial.md"), "On OpenShift");
    page.manifests(&shell, section);
    page.command(&shell, section, "helm install");
    let endpoints = ["ec2", "sts"].map(|service| format!("--aws-endpoint={service}={}", cloud.endpoint));
    let identity = [
        ("AWS_ACCESS_KEY_ID", cloud.access_key.as_str()),
        ("AWS_SECRET_ACCESS_KEY", &cloud.secret),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("HOME", "/nonexistent"),
    ];
    let berth = release::run(&plane, &client, ports, &endpoints, &identity).await;
    let shown = page.shown(section);
    assert_eq!(shown.len(), 4, "{shown:?}");
    says(&client, ("machine.openshift.io", "MachineSet"), MACHINES, "workers-gpu", &shown).await;

    let section = "On Cluster API";
    for object in around() {
        plane::apply(&client, &object).await.unwrap();
    }
    page.manifests(&shell, section);
    let shown = page.shown(section);
    assert_eq!(shown.len(), 7, "{shown:?}");
    says(&client, ("cluster.x-k8s.io", "MachineDeployment"), TEAM, "workers", &shown).await;

    let section = "What each autoscaler reads";
    for command in ["berth capacity", "berth explain"] {
        let told = page.command(&shell, section, command);
        assert!(told.contains("workers") && told.contains("16384"), "{told}");
    }

    // Other ways to install the same release, which the server of this one has already.
    page.pass("STS on OpenShift");
    page.command(&shell, "Ways out of the pod", "helm upgrade");
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), HOME);
    let policy = serde_json::to_string(&policies.get("berth").await.unwrap().spec).unwrap();
    assert!(policy.contains("169.254.169.254/32") && policy.contains("169.254.170.23/32"), "{policy}");
    page.manifests(&shell, "A table of types");
    page.pass("CloudStack");
    page.end();
    berth.stop();
}
