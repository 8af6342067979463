//! Whether the room `vip` stands on firm ground: Cluster API, the IPAM provider, and the registration of the hooks.

use api::views::{Cluster, ClusterClass, GlobalInClusterIPPool, IPAddressClaim, InClusterIPPool};
use kit::class::chain;
use kube::Client;
use kube::api::ListParams;
use serde_json::Value;

use super::{Check, pools, served};
use crate::registration;

/// The name that the chart gives the ExtensionConfig.
const NAME: &str = "vip-allocator";
const LABEL: &str = "/metadata/labels/app.kubernetes.io~1part-of";
/// The hooks without which a cluster would be rendered before it has an address.
const GATE: &str = "BeforeClusterCreate";

/// The checks of the room, in the order in which one depends on the next; without Cluster API only the first.
pub async fn all(client: &Client) -> Vec<Check> {
    let (capi, there) = cluster_api(client).await;
    let mut checks = vec![capi];
    if there {
        checks.push(ipam(client).await);
        checks.extend(pools::check(client).await);
        checks.push(hooks(client).await);
    }
    checks
}

async fn cluster_api(client: &Client) -> (Check, bool) {
    let found = match served::<Cluster>(client).await {
        Ok(found) => found,
        Err(error) => {
            let found = format!("asking for Clusters: {}", chain(&*error));
            return (Check::fail("cluster api", found, "try again"), false);
        }
    };
    match found {
        Some(kind) => (Check::ok("cluster api", format!("Clusters are served as {}", kind.api_version())), true),
        // Other rooms work without it.
        None => (Check::ok("cluster api", "not installed: the room vip waits for it"), false),
    }
}

async fn ipam(client: &Client) -> Check {
    let fix = "install the in-cluster IPAM provider: clusterctl init --ipam in-cluster";
    let kinds = [
        served::<IPAddressClaim>(client).await,
        served::<InClusterIPPool>(client).await,
        served::<GlobalInClusterIPPool>(client).await,
    ];
    let names = ["IPAddressClaim", "InClusterIPPool", "GlobalInClusterIPPool"];
    let mut missing = Vec::new();
    for (name, kind) in names.into_iter().zip(kinds) {
        match kind {
            Ok(Some(_)) => {}
            Ok(None) => missing.push(name),
            Err(error) => return Check::warn("ipam", format!("asking for {name}: {}", chain(&*error)), "try again"),
        }
    }
    if missing.is_empty() {
        return Check::ok("ipam", "claims and both kinds of pools are served");
    }
    Check::warn("ipam", format!("not served: {}", missing.join(", ")), fix)
}

async fn hooks(client: &Client) -> Check {
    let cannot = |error: &kube::Error| {
        Check::warn("hooks", format!("cannot be read: {}", chain(error)), "run the doctor with more rights")
    };
    let configs = match registration::configs(client).await {
        Ok(Some(configs)) => configs,
        Ok(None) => return unregistered(),
        Err(error) => return cannot(&error),
    };
    let configs = match configs.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(error) => return cannot(&error),
    };
    let configs: Vec<Value> = configs.iter().filter_map(|config| serde_json::to_value(config).ok()).collect();
    let ours: Vec<&Value> = configs.iter().filter(|config| is_ours(config)).collect();
    let Some(config) = ours.first() else { return unregistered() };
    if ours.len() > 1 {
        let names: Vec<&str> = ours.iter().map(|config| text(config, "/metadata/name")).collect();
        let found = format!("more than one ExtensionConfig is Berth's: {}", names.join(", "));
        return Check::fail("hooks", found, "every hook is called once for each; delete all but one");
    }
    let check = judge(config);
    if check.level != super::Level::Ok {
        return check;
    }
    match registration::classes(client).await {
        Ok(classes) if unseen(&classes) => {
            let fix =
                "switch the feature gate ClusterTopology of Cluster API on (CLUSTER_TOPOLOGY=true), or look at its log";
            Check::warn("hooks", "Cluster API has looked at no ClusterClass: clusters have no topology", fix)
        }
        _ => check,
    }
}

/// Without the feature gate nobody fills the status of a class.
fn unseen(classes: &[ClusterClass]) -> bool {
    !classes.is_empty() && classes.iter().all(|class| class.status.observed_generation.is_none())
}

fn unregistered() -> Check {
    let fix = "install the chart with --set vip.extensionConfig.create=true; Cluster API must have the feature gate RuntimeSDK";
    Check::warn("hooks", "no ExtensionConfig: Cluster API does not ask Berth for addresses", fix)
}

fn is_ours(config: &Value) -> bool {
    text(config, "/metadata/name") == NAME || text(config, LABEL) == "berth"
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// What Cluster API itself says of the registration.
fn judge(config: &Value) -> Check {
    let name = text(config, "/metadata/name");
    let conditions = config.pointer("/status/conditions").and_then(Value::as_array);
    let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
    let discovered = conditions.iter().find(|condition| condition["type"] == "Discovered");
    let trusted = !text(config, "/spec/clientConfig/caBundle").is_empty();
    let Some(discovered) = discovered else {
        // It says whether the object is paused before it looks for the authority, and goes no further without one.
        if !conditions.is_empty() && !trusted {
            let secret = text(config, "/metadata/annotations/runtime.cluster.x-k8s.io~1inject-ca-from-secret");
            let found = format!("Cluster API finds no certificate authority for ExtensionConfig {name}");
            let fix = format!(
                "the annotation runtime.cluster.x-k8s.io/inject-ca-from-secret must name a Secret with ca.crt; it is `{secret}`"
            );
            return Check::fail("hooks", found, fix);
        }
        let fix = "switch the feature gate RuntimeSDK of Cluster API on (EXP_RUNTIME_SDK=true), and see that its manager runs";
        return Check::fail("hooks", format!("Cluster API has not looked at ExtensionConfig {name}"), fix);
    };
    if discovered["status"] != "True" {
        let found = format!("ExtensionConfig {name} is not discovered: {}", text(discovered, "/message"));
        let fix = "a pod of Berth must be ready and reachable from Cluster API through the Service that the ExtensionConfig names";
        return Check::fail("hooks", found, fix);
    }
    let handlers = config.pointer("/status/handlers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if !handlers.iter().any(|handler| text(handler, "/requestHook/hook") == GATE) {
        let found = format!("ExtensionConfig {name} has no handler for {GATE}: another program answers its address");
        return Check::fail("hooks", found, "correct spec.clientConfig");
    }
    Check::ok("hooks", format!("{} handlers of ExtensionConfig {name} are discovered", handlers.len()))
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use serde_json::json;

    fn config(status: &Value) -> Value {
        json!({"metadata": {"name": "vip-allocator"}, "spec": {"clientConfig": {}}, "status": status})
    }

    #[test]
    fn what_cluster_api_says_of_the_hooks_decides() {
        let condition = |status: &str| json!([{"type": "Paused", "status": "False"}, {"type": "Discovered", "status": status, "message": "no route"}]);
        let gate = json!([{"name": "a.vip-allocator", "requestHook": {"hook": "BeforeClusterCreate"}}]);
        for (status, level, part) in [
            (json!({}), Level::Failure, "RuntimeSDK"),
            (json!({"conditions": []}), Level::Failure, "RuntimeSDK"),
            (json!({"conditions": condition("False")}), Level::Failure, "no route"),
            (json!({"conditions": condition("True")}), Level::Failure, "BeforeClusterCreate"),
            (json!({"conditions": condition("True"), "handlers": gate}), Level::Ok, "1 handlers"),
        ] {
            let check = judge(&config(&status));
            let said = format!("{} {}", check.found, check.fix.unwrap_or_default());
            assert!(check.level == level && said.contains(part), "{status}: {said}");
        }
        let looked = json!({"conditions": [{"type": "Paused", "status": "False"}]});
        let mut untrusted = config(&looked);
        untrusted["metadata"]["annotations"] = json!({"runtime.cluster.x-k8s.io/inject-ca-from-secret": "a/b"});
        assert!(judge(&untrusted).fix.unwrap().contains("`a/b`"));
        untrusted["spec"]["clientConfig"]["caBundle"] = json!("eA==");
        assert!(judge(&untrusted).fix.unwrap().contains("RuntimeSDK"), "it has not come that far");
    }

    #[test]
    fn a_config_is_ours_by_name_or_by_label() {
        assert!(is_ours(&config(&json!({}))));
        let named = |labels: Value| json!({"metadata": {"name": "other", "labels": labels}});
        assert!(is_ours(&named(json!({"app.kubernetes.io/part-of": "berth"}))));
        assert!(!is_ours(&named(json!({}))));
    }

    #[test]
    fn classes_without_any_status_show_a_closed_gate() {
        let class = |status: Value| -> ClusterClass {
            serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {}, "status": status}))
                .unwrap()
        };
        assert!(unseen(&[class(json!({}))]));
        assert!(!unseen(&[class(json!({})), class(json!({"observedGeneration": 1}))]));
        assert!(!unseen(&[]));
    }
}
