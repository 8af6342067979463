//! The part of the story that is about capacity: a group at zero replicas says what a machine of it would offer.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};

use crate::demo::{patience, pause};
use crate::story::Story;
use crate::world::World;

const NAMESPACE: &str = "default";
/// Name of the group; its templates are called by their types.
const NAME: &str = "from-zero";
const CLUSTER_API: &str = "cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const VERSION: &str = "v1beta2";
/// The keys that cluster-autoscaler reads start with this.
const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io";

/// What the group must say of a type, by the end of the key.
type Offer = [(&'static str, &'static str); 4];
const M5: (&str, Offer) = (
    "m5.xlarge",
    [("cpu", "4"), ("memory", "16384Mi"), ("ephemeral-disk", "120Gi"), ("labels", "kubernetes.io/arch=amd64")],
);
const M6G: (&str, Offer) = (
    "m6g.4xlarge",
    [("cpu", "16"), ("memory", "65536Mi"), ("ephemeral-disk", "120Gi"), ("labels", "kubernetes.io/arch=arm64")],
);

/// Tells it, with the API server, Cluster API, the EC2 simulator and Berth running.
pub async fn tell(story: &mut Story, world: &World, client: &Client, dir: &Path) -> Result<()> {
    let log = dir.join("berth.log");
    let groups: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        NAMESPACE,
        &ApiResource::from_gvk(&GroupVersionKind::gvk(CLUSTER_API, VERSION, "MachineDeployment")),
    );
    let calls = story
        .tell("A MachineDeployment at zero replicas gets its annotations", &log, async {
            sim::plane::install_crds(client, sim::plane::aws_network_definitions()).await?;
            let (kind, offer) = M5;
            sim::plane::apply(client, &template(kind)).await?;
            sim::plane::apply(client, &group(kind)).await?;
            let said = says(&groups, offer).await?;
            let calls = world.cloud()?.calls("DescribeInstanceTypes");
            if calls == 0 {
                bail!("the simulated EC2 was not asked");
            }
            Ok((calls, format!("{kind}: {said}\n{calls} pages of a simulated EC2 list every type of the region")))
        })
        .await?;

    story
        .tell("It is given a template of another type, and the annotations follow without a call", &log, async {
            let (kind, offer) = M6G;
            sim::plane::apply(client, &template(kind)).await?;
            sim::plane::apply(client, &group(kind)).await?;
            let said = says(&groups, offer).await?;
            let now = world.cloud()?.calls("DescribeInstanceTypes");
            if now != calls {
                bail!("EC2 was asked {} times more", now.saturating_sub(calls));
            }
            Ok(((), format!("{kind}: {said}")))
        })
        .await
}

fn template(instance_type: &str) -> Value {
    json!({
        "apiVersion": format!("{INFRASTRUCTURE}/{VERSION}"), "kind": "AWSMachineTemplate",
        "metadata": {"name": instance_type, "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"instanceType": instance_type, "rootVolume": {"size": 120}}}},
    })
}

/// A group of that template. Its region stands on the group: no cluster on AWS is part of this story.
fn group(template: &str) -> Value {
    let labels = json!({"group": NAME});
    json!({
        "apiVersion": format!("{CLUSTER_API}/{VERSION}"), "kind": "MachineDeployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE,
            "annotations": {"capa.infrastructure.cluster.x-k8s.io/region": "us-east-1"}},
        "spec": {
            "clusterName": "elsewhere", "replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "clusterName": "elsewhere", "version": "v1.34.1", "bootstrap": {"dataSecretName": "none"},
                "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "AWSMachineTemplate", "name": template}}},
        },
    })
}

/// Waits until the group, still at zero replicas, says all of this, and repeats it.
async fn says(groups: &Api<DynamicObject>, offer: Offer) -> Result<String> {
    let begun = Instant::now();
    loop {
        let group = groups.get(NAME).await.context("reading the MachineDeployment")?;
        let all = group.metadata.annotations.clone().unwrap_or_default();
        if offer.iter().all(|(key, value)| all.get(&format!("{CAPACITY}/{key}")).is_some_and(|found| found == value)) {
            if group.data.pointer("/spec/replicas") != Some(&json!(0)) {
                bail!("it is not at zero replicas: {}", group.data);
            }
            return Ok(offer.map(|(key, value)| format!("{key} {value}")).join(", "));
        }
        patience(begun, || format!("it should say {offer:?}, but says {all:?}"))?;
        pause().await;
    }
}
