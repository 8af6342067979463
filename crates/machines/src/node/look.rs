//! Asks a workload cluster for Nodes.

use std::time::Duration;

use api::meta::{ObjectMeta, lean_meta};
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Deserialize;

use super::find::{NodeFacts, matters};

/// How long a workload cluster may take to answer; a pass must not wait for one that is gone.
const ANSWER: Duration = Duration::from_secs(10);
/// So many Nodes come in one answer.
const PAGE: u32 = 500;

/// What is said of a cluster that does not answer.
pub const SILENT: &str = "The workload cluster does not answer; it is asked again.";
/// What is said of a cluster that cannot be asked yet.
pub const CLOSED: &str = "The cluster has no kubeconfig yet; its control plane provider makes one.";

/// What is seen of the Nodes of a workload cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// Nobody looked, because nothing depends on it.
    #[default]
    NotAsked,
    /// The cluster cannot be asked, and why.
    Dark(String),
    /// The Nodes that could be the machine's.
    Seen(Vec<NodeFacts>),
}

/// A Node, without its bulk: images, conditions, and who manages which field.
#[derive(Clone, Debug, Default, Deserialize)]
struct Node {
    #[serde(default, deserialize_with = "lean_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: NodeSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeSpec {
    #[serde(default, rename = "providerID")]
    provider_id: Option<String>,
}

api::view! { Node, group: "", versions: ["v1"], plural: "nodes", scope: Cluster }

fn facts(node: Node) -> NodeFacts {
    let Node { metadata, spec } = node;
    let mut labels = metadata.labels.unwrap_or_default();
    labels.retain(|key, _| matters(key));
    NodeFacts {
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
        version: metadata.resource_version.unwrap_or_default(),
        provider_id: spec.provider_id.filter(|id| !id.is_empty()),
        labels,
    }
}

/// Why a cluster cannot be asked, without its address: what stands in a condition is read by others too.
fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("The workload cluster answers: {} ({}).", status.message, status.code),
        _ => SILENT.to_owned(),
    }
}

async fn within<T>(asked: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    match tokio::time::timeout(ANSWER, asked).await {
        Ok(answer) => answer.map_err(|error| words(&error)),
        Err(_) => Err(SILENT.to_owned()),
    }
}

/// All Nodes of a cluster, or why it cannot be asked.
pub(super) async fn all(client: &Client) -> Result<Vec<NodeFacts>, String> {
    let api: Api<Node> = Api::all(client.clone());
    within(async {
        let mut nodes = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = api.list(&page).await?;
            nodes.extend(list.items.into_iter().map(facts));
            match list.metadata.continue_.filter(|next| !next.is_empty()) {
                Some(next) => page = ListParams::default().limit(PAGE).continue_token(&next),
                None => return Ok(nodes),
            }
        }
    })
    .await
}

/// One Node, if it is there, or why the cluster cannot be asked.
pub(super) async fn one(client: &Client, name: &str) -> Result<Option<NodeFacts>, String> {
    let api: Api<Node> = Api::all(client.clone());
    Ok(within(api.get_opt(name)).await?.map(facts))
}
