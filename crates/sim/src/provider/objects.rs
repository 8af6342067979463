//! The kinds that are played with, and small things that are done to any of them.

use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};

use crate::plane::PlaneError;

/// Holds an object until the provider let it go, as every real provider does.
const FINALIZER: &str = "provider.example.test/played";
/// Names the cluster that an object belongs to.
pub(super) const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// Is on machines of the control plane.
pub(super) const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
/// Group of the provider's kinds.
pub(super) const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// A kind of the management cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cluster,
    Machine,
    ControlPlane,
    CloudStackCluster,
    CloudStackMachine,
    CloudStackMachineTemplate,
    Secret,
}

impl Kind {
    /// What is followed; the others are read when they are needed.
    pub(super) const FOLLOWED: [Self; 5] =
        [Self::Cluster, Self::Machine, Self::ControlPlane, Self::CloudStackCluster, Self::CloudStackMachine];
}

/// How a kind is asked for.
pub(super) fn resource(kind: Kind) -> ApiResource {
    let (group, version, name) = match kind {
        Kind::Cluster => ("cluster.x-k8s.io", "v1beta2", "Cluster"),
        Kind::Machine => ("cluster.x-k8s.io", "v1beta2", "Machine"),
        Kind::ControlPlane => ("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane"),
        Kind::CloudStackCluster => (INFRASTRUCTURE, "v1beta3", "CloudStackCluster"),
        Kind::CloudStackMachine => (INFRASTRUCTURE, "v1beta3", "CloudStackMachine"),
        Kind::CloudStackMachineTemplate => (INFRASTRUCTURE, "v1beta3", "CloudStackMachineTemplate"),
        Kind::Secret => ("", "v1", "Secret"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, name))
}

/// A text in an object, empty when it is not there.
pub(super) fn text<'o>(object: &'o DynamicObject, pointer: &str) -> &'o str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A number in an object.
pub(super) fn number(object: &DynamicObject, pointer: &str) -> Option<i64> {
    object.data.pointer(pointer).and_then(Value::as_i64)
}

/// Whether something is said and true.
pub(super) fn holds(object: &DynamicObject, pointer: &str) -> bool {
    object.data.pointer(pointer) == Some(&Value::Bool(true))
}

/// Whether a condition of an object is `True`.
pub(super) fn condition(object: &DynamicObject, kind: &str) -> bool {
    let all = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let all = all.map(Vec::as_slice).unwrap_or_default();
    all.iter().any(|one| {
        one.get("type").and_then(Value::as_str) == Some(kind)
            && one.get("status").and_then(Value::as_str) == Some("True")
    })
}

/// The namespace of an object.
pub(super) fn space(object: &DynamicObject) -> String {
    object.namespace().unwrap_or_default()
}

/// The name of the cluster that an object belongs to.
pub(super) fn cluster_of(object: &DynamicObject) -> Option<&str> {
    object.labels().get(CLUSTER_NAME).map(String::as_str)
}

/// The name of the owner of a kind.
pub(super) fn owner<'o>(object: &'o DynamicObject, kind: &str) -> Option<&'o str> {
    object.owner_references().iter().find(|owner| owner.kind == kind).map(|owner| owner.name.as_str())
}

/// Whether an object is being deleted.
pub(super) fn going(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// Whether the provider holds an object.
pub(super) fn held(object: &DynamicObject) -> bool {
    object.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

/// Holds an object, or lets it go.
pub(super) async fn hold(api: &Api<DynamicObject>, object: &DynamicObject, wanted: bool) -> Result<(), PlaneError> {
    let mut finalizers = object.finalizers().to_vec();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    if wanted {
        finalizers.push(FINALIZER.to_owned());
    }
    let body = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": finalizers}});
    merge(api, &object.name_any(), &body).await
}

/// Changes an object.
pub(super) async fn merge(api: &Api<DynamicObject>, name: &str, body: &Value) -> Result<(), PlaneError> {
    let done = api.patch(name, &PatchParams::default(), &Patch::Merge(body)).await;
    done.map(drop).map_err(PlaneError::kube(format!("changing {name}")))
}

/// Reports the status of an object, if it differs from what it says.
pub(super) async fn report(api: &Api<DynamicObject>, object: &DynamicObject, status: &Value) -> Result<(), PlaneError> {
    let said = object.data.get("status").unwrap_or(&Value::Null);
    let fields = status.as_object().into_iter().flatten();
    if fields.into_iter().all(|(name, value)| said.get(name) == Some(value)) {
        return Ok(());
    }
    let body = json!({"metadata": {"resourceVersion": object.resource_version()}, "status": status});
    let name = object.name_any();
    let done = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&body)).await;
    done.map(drop).map_err(PlaneError::kube(format!("reporting on {name}")))
}

/// Makes an object unless one of its name is there.
pub(super) async fn make(api: &Api<DynamicObject>, object: Value) -> Result<(), PlaneError> {
    let object: DynamicObject = serde_json::from_value(object).map_err(PlaneError::bad("making an object"))?;
    let doing = format!("making {}", object.name_any());
    match api.create(&kube::api::PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map(drop).map_err(PlaneError::kube(doing)),
    }
}
