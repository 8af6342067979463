//! A user with exactly the rights it is given.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::{Plane, PlaneError, apply};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Makes a service account with these rules, everywhere and in its own namespace, and the kubeconfig that speaks for it.
///
/// Account, roles and namespace have one name. The rules are those of `berth rbac`.
pub async fn account(plane: &Plane, name: &str, everywhere: &Value, here: &Value) -> Result<Value, PlaneError> {
    let client: Client = plane.client().await?;
    let local = json!({"name": name, "namespace": name});
    let role = |kind: &str, meta: &Value, rules: &Value| json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": meta, "rules": rules});
    let binding = |kind: &str, meta: &Value, role: &str| {
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": meta,
            "roleRef": {"apiGroup": RBAC, "kind": role, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": name}]})
    };
    let global = json!({"name": name});
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": global}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": local}),
        role("ClusterRole", &global, everywhere),
        role("Role", &local, here),
        binding("ClusterRoleBinding", &global, "ClusterRole"),
        binding("RoleBinding", &local, "Role"),
    ] {
        apply(&client, &object).await?;
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(client, name);
    let answer = accounts.create_token_request(name, &PostParams::default(), &TokenRequest::default()).await;
    let answer = answer.map_err(PlaneError::kube(format!("asking for a token of {name}")))?;
    let token = answer.status.map(|status| status.token).unwrap_or_default();
    let server = plane.config().await?.cluster_url.to_string();
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": "plane", "cluster": {"server": server, "certificate-authority": plane.dir().join("ca.crt")}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": "plane", "user": name, "namespace": name}}],
    }))
}
