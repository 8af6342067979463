//! A user with exactly the rights it is given.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::{Plane, PlaneError, apply};
use crate::wait::seek;

const RBAC: &str = "rbac.authorization.k8s.io";
/// How long rules may take to have effect.
const EFFECT: Duration = Duration::from_secs(30);

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
    for (rules, namespace) in [(everywhere, None), (here, Some(name))] {
        granted(&client, name, rules, namespace).await?;
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

/// Gives an account more rules in another namespace, which is made if it is not there.
pub async fn grant(plane: &Plane, name: &str, namespace: &str, rules: &Value) -> Result<(), PlaneError> {
    let client: Client = plane.client().await?;
    let meta = json!({"name": name, "namespace": namespace});
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": meta, "rules": rules}),
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": meta,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": name}]}),
    ] {
        apply(&client, &object).await?;
    }
    granted(&client, name, rules, Some(namespace)).await
}

/// Waits until the server goes by new rules: it learns of them by watches of its own.
async fn granted(client: &Client, name: &str, rules: &Value, namespace: Option<&str>) -> Result<(), PlaneError> {
    let first = |rule: &Value, list: &str| Some(rule.get(list)?.get(0)?.as_str()?.to_owned());
    let Some(rule) = rules.as_array().and_then(|rules| rules.iter().find(|rule| first(rule, "resources").is_some()))
    else {
        return Ok(());
    };
    let resource = first(rule, "resources").unwrap_or_default();
    let (resource, subresource) = resource.split_once('/').map_or((resource.as_str(), None), |(r, s)| (r, Some(s)));
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{name}:{name}")),
            resource_attributes: Some(ResourceAttributes {
                group: first(rule, "apiGroups"),
                resource: Some(resource.to_owned()),
                subresource: subresource.map(str::to_owned),
                verb: first(rule, "verbs"),
                name: first(rule, "resourceNames"),
                namespace: namespace.map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let allowed = async || {
        let answer = reviews.create(&PostParams::default(), &review).await.ok()?;
        answer.status.is_some_and(|status| status.allowed).then_some(())
    };
    let late = || PlaneError::Bad { doing: format!("granting {name} its rights"), why: "they are refused".to_owned() };
    seek(EFFECT, allowed).await.ok_or_else(late)
}
