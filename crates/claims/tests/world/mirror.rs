//! What a tenant gets to see of its host's labels and annotations, and what goes with the word of a policy.

use serde_json::{Value, json};
use sim::metal::oracle::Forgiven;
use sim::server::Server;

use crate::objects::{CLAIMS, HOSTS, INFRA, claim, edit, hosts, policy};
use crate::site::Site;

/// What the claim shows: in its status, and as labels and annotations of its own.
fn shown(server: &Server) -> [Value; 3] {
    let claim = server.get(CLAIMS, "red", "c").unwrap_or_default();
    let some = |value: &Value| {
        if value.as_object().is_some_and(serde_json::Map::is_empty) { Value::Null } else { value.clone() }
    };
    let meta = &claim["metadata"];
    [some(&claim["status"]["hostMetadata"]), some(&meta["labels"]), some(&meta["annotations"])]
}

#[tokio::test(start_paused = true)]
async fn a_tenant_sees_what_policies_show_and_nothing_that_programs_go_by() {
    let by_hand = Forgiven { hosts: [(INFRA.to_owned(), "h1".to_owned())].into(), ..Forgiven::default() };
    let wide = json!({"metadataCopy": {"labelsMatch": ".*", "annotationsMatch": "site/.*|.*metal3.*|.*berth.*"}});
    let site = Site::forgiving(by_hand, |server| {
        hosts(server, &["h1"]);
        let metadata = json!({
            "labels": {"rack": "7", "infrastructure.cluster.x-k8s.io/failure-domain": "east", "bmc.metal3.io/kind": "x"},
            "annotations": {"site/row": "3", "owner": "bank", "inspect.metal3.io": "disabled", "berth.dev/own": "x"},
        });
        edit(server, HOSTS, INFRA, "h1", &json!({ "metadata": metadata }));
        policy(server, &wide);
    });
    site.server.put(claim("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let (labels, annotations) = (json!({"rack": "7", "size": "large"}), json!({"site/row": "3"}));
    site.until("all is shown", |server| {
        shown(server) == [json!({"labels": labels, "annotations": annotations}), labels.clone(), annotations.clone()]
    })
    .await;
    assert_eq!(site.claim("red", "c")["status"]["failureDomain"], "east", "it has a field of its own");
    site.rest().await;

    edit(&site.server, HOSTS, INFRA, "h1", &json!({"metadata": {"labels": {"rack": null}}}));
    let large = json!({"size": "large"});
    site.until("what the host has no more is not shown", |server| {
        shown(server) == [json!({"labels": large, "annotations": annotations}), large.clone(), annotations.clone()]
    })
    .await;
    policy(&site.server, &json!({"metadataCopy": {"labelsMatch": "size"}}));
    site.until("what no policy shows is not shown", |server| {
        shown(server) == [json!({"labels": large}), large.clone(), Value::Null]
    })
    .await;
    policy(&site.server, &json!({"metadataCopy": {"labelsMatch": "rack"}}));
    site.until("nothing is shown", |server| shown(server) == [Value::Null, Value::Null, Value::Null]).await;
    site.rest().await;

    policy(&site.server, &wide);
    site.until("it is shown again", |server| shown(server)[1] == large).await;
    let other = json!({"apiVersion": "v1", "kind": "Machine", "namespace": "elsewhere", "name": "m", "uid": null});
    edit(&site.server, HOSTS, INFRA, "h1", &json!({"spec": {"consumerRef": other}}));
    let none = |server: &Server| shown(server) == [Value::Null, Value::Null, Value::Null];
    site.until("a claim without a host shows nothing of it", none).await;
    site.rest().await;
}
