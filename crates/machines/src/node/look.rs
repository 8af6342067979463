//! Looks at the Nodes of a workload cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};

use super::find::NodeFacts;

/// How long a workload cluster may take to answer; a pass must not wait for one that is gone.
const ANSWER: Duration = Duration::from_secs(10);
/// So many Nodes come in one answer.
const PAGE: u32 = 500;

/// What is seen of the Nodes of a workload cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// Nobody looked, because nothing depends on it.
    #[default]
    NotAsked,
    /// The cluster cannot be asked, and why.
    Dark(String),
    /// The Nodes; of one that is known already, only that one.
    Seen(Vec<NodeFacts>),
}

fn facts(node: Node) -> NodeFacts {
    let Node { metadata, spec, .. } = node;
    NodeFacts {
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
        version: metadata.resource_version.unwrap_or_default(),
        provider_id: spec.and_then(|spec| spec.provider_id).filter(|id| !id.is_empty()),
        labels: metadata.labels.unwrap_or_default(),
    }
}

/// Why a cluster cannot be asked, without its address: what stands in a condition is read by others too.
fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("the workload cluster answers: {} ({})", status.message, status.code),
        _ => "the workload cluster does not answer".to_owned(),
    }
}

/// All Nodes of a cluster.
pub async fn look(client: &Client) -> Sight {
    let all = async {
        let api: Api<Node> = Api::all(client.clone());
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
    };
    match tokio::time::timeout(ANSWER, all).await {
        Ok(Ok(nodes)) => Sight::Seen(nodes),
        Ok(Err(error)) => Sight::Dark(words(&error)),
        Err(_) => Sight::Dark("the workload cluster does not answer".to_owned()),
    }
}

/// One Node, if it is there.
pub async fn one(client: &Client, name: &str) -> Option<NodeFacts> {
    let api: Api<Node> = Api::all(client.clone());
    let found = tokio::time::timeout(ANSWER, api.get_opt(name)).await;
    found.ok().and_then(Result::ok).flatten().map(facts)
}
