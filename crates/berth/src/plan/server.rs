//! What a server holds of clusters, read once with the rights of whoever asks.

use ::clusters::plan::Server;
use anyhow::{Context, anyhow};
use api::names::clusters::GROUP;
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

/// Objects in one answer of the server.
const PAGE: u32 = 500;

/// What users write, and bundles.
const WRITTEN: [(&str, &str); 6] = [
    ("Cluster", "clusters"),
    ("CloudStackDatacenterConfig", "cloudstackdatacenterconfigs"),
    ("CloudStackMachineConfig", "cloudstackmachineconfigs"),
    ("OIDCConfig", "oidcconfigs"),
    ("Bundles", "bundles"),
    ("EKSARelease", "eksareleases"),
];

/// What is generated, at the versions that are rendered.
const GENERATED: [(&str, &str, &str, &str); 7] = [
    ("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"),
    ("cluster.x-k8s.io", "v1beta2", "MachineDeployment", "machinedeployments"),
    ("cluster.x-k8s.io", "v1beta2", "MachineHealthCheck", "machinehealthchecks"),
    ("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane", "kubeadmcontrolplanes"),
    ("bootstrap.cluster.x-k8s.io", "v1beta2", "KubeadmConfigTemplate", "kubeadmconfigtemplates"),
    ("infrastructure.cluster.x-k8s.io", "v1beta3", "CloudStackCluster", "cloudstackclusters"),
    ("infrastructure.cluster.x-k8s.io", "v1beta3", "CloudStackMachineTemplate", "cloudstackmachinetemplates"),
];

/// Reads everything, with generated objects in the namespace of the system.
///
/// # Errors
/// When a kind of users is not there, something may not be listed, or the server does not answer.
pub async fn read(client: &Client, system: &str) -> anyhow::Result<Server> {
    let mut server = Server::default();
    for (kind, plural) in WRITTEN {
        let resource = resource(GROUP, "v1alpha1", kind, plural);
        let Some(objects) = list(Api::all_with(client.clone(), &resource), &resource, None).await? else {
            return Err(anyhow!("the server does not know {kind} of {GROUP}; see `berth doctor`"));
        };
        for object in objects {
            let name = format!("{}/{}", text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
            // One that cannot be read hides no other.
            if let Err(problem) = server.documents.take(object) {
                eprintln!("berth: the {kind} {name} is passed over: {problem}");
            }
        }
    }
    for (group, version, kind, plural) in GENERATED {
        let resource = resource(group, version, kind, plural);
        let api = Api::namespaced_with(client.clone(), system, &resource);
        // Without Cluster API nothing was generated yet.
        for object in list(api, &resource, Some(system)).await?.unwrap_or_default() {
            server.add(object);
        }
    }
    Ok(server)
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

fn text<'v>(object: &'v Value, at: &str) -> &'v str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// All objects of a kind; none when the server does not know it.
async fn list(
    api: Api<DynamicObject>,
    resource: &ApiResource,
    namespace: Option<&str>,
) -> anyhow::Result<Option<Vec<Value>>> {
    let what = format!("{}.{}", resource.plural, resource.group);
    let (mut params, mut all) = (ListParams::default().limit(PAGE), Vec::new());
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let place = namespace.map_or_else(|| "--all-namespaces".to_owned(), |name| format!("-n {name}"));
                return Err(anyhow!("you may not list {what}; see `kubectl auth can-i list {what} {place}`"));
            }
            Err(error) => return Err(anyhow!(error).context(format!("listing {what}"))),
        };
        for object in page.items {
            let name = object.name_any();
            let mut object = serde_json::to_value(object).with_context(|| format!("reading {what} {name}"))?;
            // A list says once what its items are.
            if let Some(fields) = object.as_object_mut() {
                fields.insert("apiVersion".to_owned(), json!(resource.api_version));
                fields.insert("kind".to_owned(), json!(resource.kind));
            }
            all.push(object);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(Some(all)),
        }
    }
}
