//! Reading and writing the Lease; every write is guarded by the version it was decided on.

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ApiResource, DynamicObject, ObjectMeta, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Map, Value, json};

use super::election::{Draft, View};

/// Why a request to the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The version was not the current one, or the object exists already, or is gone: look again.
    #[error("the lease changed meanwhile")]
    Overtaken,
    /// The server or the way to it failed; the write may still be done.
    #[error("{0}")]
    Failed(String),
}

/// A stored Lease: what matters of it, and all of it, so that a replace keeps what we do not model.
#[derive(Clone, Debug)]
pub(super) struct Stored<R> {
    pub view: View,
    pub raw: R,
}

/// Where the Lease is.
pub(super) trait Store: Send + Sync + 'static {
    type Raw: Clone + Send + Sync;
    fn read(&self) -> impl Future<Output = Result<Option<Stored<Self::Raw>>, Fault>> + Send;
    fn create(&self, draft: Draft, now: Timestamp) -> impl Future<Output = Result<Stored<Self::Raw>, Fault>> + Send;
    fn replace(
        &self,
        old: Stored<Self::Raw>,
        draft: Draft,
        now: Timestamp,
    ) -> impl Future<Output = Result<Stored<Self::Raw>, Fault>> + Send;
}

/// The Lease on an API server.
#[derive(Clone, Debug)]
pub(super) struct KubeStore {
    api: Api<DynamicObject>,
    name: String,
}

impl KubeStore {
    pub fn new(client: kube::Client, namespace: &str, name: &str) -> Self {
        let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
        let resource = ApiResource::from_gvk_with_plural(&kind, "leases");
        Self { api: Api::namespaced_with(client, namespace, &resource), name: name.to_owned() }
    }
}

impl Store for KubeStore {
    type Raw = DynamicObject;

    async fn read(&self) -> Result<Option<Stored<DynamicObject>>, Fault> {
        // Without a resource version in the query: a quorum read, not the server's cache.
        let found = self.api.get_opt(&self.name).await.map_err(|error| fault(&error))?;
        found.map(stored).transpose()
    }

    async fn create(&self, draft: Draft, now: Timestamp) -> Result<Stored<DynamicObject>, Fault> {
        let mut lease = DynamicObject {
            types: None,
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            data: json!({}),
        };
        lease.types = Some(kube::core::TypeMeta { api_version: "coordination.k8s.io/v1".into(), kind: "Lease".into() });
        write(&mut lease, &draft, now);
        let answer = self.api.create(&PostParams::default(), &lease).await.map_err(|error| match &error {
            // What is not found when creating is the namespace: no race, and worth saying.
            kube::Error::Api(status) if status.code == 404 => Fault::Failed(error.to_string()),
            _ => fault(&error),
        });
        stored(answer?)
    }

    async fn replace(
        &self,
        old: Stored<DynamicObject>,
        draft: Draft,
        now: Timestamp,
    ) -> Result<Stored<DynamicObject>, Fault> {
        let mut lease = old.raw;
        lease.metadata.resource_version = Some(old.view.version);
        write(&mut lease, &draft, now);
        #[expect(
            clippy::disallowed_methods,
            reason = "the whole object is held, and only a replace is refused as a whole when its version is old"
        )]
        let answer = self.api.replace(&self.name, &PostParams::default(), &lease).await;
        stored(answer.map_err(|error| fault(&error))?)
    }
}

fn fault(error: &kube::Error) -> Fault {
    match error {
        kube::Error::Api(status) if status.code == 409 || status.code == 404 => Fault::Overtaken,
        other => Fault::Failed(other.to_string()),
    }
}

fn stored(raw: DynamicObject) -> Result<Stored<DynamicObject>, Fault> {
    let version = raw.metadata.resource_version.clone().filter(|version| !version.is_empty());
    // Without a version a replace would be unguarded.
    let Some(version) = version else { return Err(Fault::Failed("the lease has no resource version".to_owned())) };
    let spec = |field: &str| raw.data.get("spec").and_then(|spec| spec.get(field));
    let holder = spec("holderIdentity").and_then(Value::as_str).filter(|holder| !holder.is_empty()).map(str::to_owned);
    let seconds = spec("leaseDurationSeconds").and_then(Value::as_u64).filter(|seconds| *seconds > 0);
    let transitions = spec("leaseTransitions").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
    let duration = seconds.map(Duration::from_secs);
    Ok(Stored { view: View { version, holder, duration, transitions: transitions.unwrap_or(0) }, raw })
}

fn write(lease: &mut DynamicObject, draft: &Draft, now: Timestamp) {
    if !lease.data.is_object() {
        lease.data = json!({});
    }
    let Some(data) = lease.data.as_object_mut() else { return };
    let spec = data.entry("spec").or_insert_with(|| json!({}));
    if !spec.is_object() {
        *spec = Value::Object(Map::new());
    }
    let Some(spec) = spec.as_object_mut() else { return };
    let now = serde_json::to_value(MicroTime(now)).unwrap_or(Value::Null);
    match &draft.holder {
        Some(holder) => drop(spec.insert("holderIdentity".into(), json!(holder))),
        None => drop(spec.remove("holderIdentity")),
    }
    spec.insert("leaseDurationSeconds".into(), json!(draft.duration.as_secs()));
    spec.insert("leaseTransitions".into(), json!(draft.transitions));
    if draft.acquired {
        spec.insert("acquireTime".into(), now.clone());
    }
    spec.insert("renewTime".into(), now);
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use http_body_util::BodyExt;
    use kube::client::Body;

    use super::*;

    type Seen = Arc<Mutex<Vec<(String, String, Value)>>>;

    fn server(status: u16, answer: &Value) -> (KubeStore, Seen) {
        let seen = Seen::default();
        let (log, answer) = (seen.clone(), answer.to_string());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, answer) = (log.clone(), answer.clone());
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await?.to_bytes();
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                log.lock().unwrap().push((parts.method.to_string(), parts.uri.to_string(), body));
                Ok::<_, tower::BoxError>(Response::builder().status(status).body(Body::from(answer.into_bytes()))?)
            }
        });
        (KubeStore::new(kube::Client::new(service, "default"), "berth-system", "berth"), seen)
    }

    fn lease() -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "berth", "namespace": "berth-system", "resourceVersion": "41", "labels": {"a": "b"}},
            "spec": {"holderIdentity": "x", "leaseDurationSeconds": 120, "leaseTransitions": 2, "fromTheFuture": [1]},
        })
    }

    fn draft(holder: Option<&str>) -> Draft {
        Draft { holder: holder.map(str::to_owned), duration: Duration::from_secs(30), transitions: 3, acquired: true }
    }

    #[tokio::test]
    async fn a_replace_names_the_version_and_keeps_what_we_do_not_model() {
        let (store, seen) = server(200, &lease());
        let old = store.read().await.unwrap().unwrap();
        assert_eq!((old.view.version.as_str(), old.view.holder.as_deref()), ("41", Some("x")));
        let now = "2030-01-01T00:00:00Z".parse().unwrap();
        store.replace(old.clone(), draft(Some("y")), now).await.unwrap();
        store.replace(old, draft(None), now).await.unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen[0].0, "GET");
        assert!(!seen[0].1.contains("resourceVersion"), "a quorum read: {}", seen[0].1);
        let (method, path, body) = &seen[1];
        assert_eq!((method.as_str(), path.split('?').next().unwrap()), ("PUT", PATH));
        assert_eq!(body["metadata"]["resourceVersion"], "41");
        assert_eq!(body["metadata"]["labels"]["a"], "b");
        assert_eq!(body["spec"]["fromTheFuture"], json!([1]));
        assert_eq!(body["spec"]["holderIdentity"], "y");
        assert_eq!(body["spec"]["leaseDurationSeconds"], 30);
        assert_eq!(body["spec"]["renewTime"], "2030-01-01T00:00:00.000000Z", "the server takes exactly six digits");
        assert_eq!(seen[2].2["spec"].get("holderIdentity"), None);
    }

    const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/berth";

    #[tokio::test]
    async fn a_lost_race_is_told_from_a_failed_server() {
        for (code, reason, overtaken) in [
            (409, "Conflict", true),
            (409, "AlreadyExists", true),
            (404, "NotFound", true),
            (503, "ServiceUnavailable", false),
        ] {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "m"});
            let (store, _) = server(code, &status);
            let raw: DynamicObject = serde_json::from_value(lease()).unwrap();
            let old = stored(raw).unwrap();
            let error = store.replace(old, draft(Some("y")), Timestamp::UNIX_EPOCH).await.unwrap_err();
            assert_eq!(matches!(error, Fault::Overtaken), overtaken, "{code} {reason}");
        }
    }

    #[test]
    fn a_lease_without_a_version_is_refused() {
        let mut raw: DynamicObject = serde_json::from_value(lease()).unwrap();
        raw.metadata.resource_version = None;
        assert!(stored(raw).is_err());
    }

    #[test]
    fn odd_leases_read_as_free_or_of_unknown_term() {
        for (spec, holder, duration) in [
            (json!(null), None, None),
            (json!({"holderIdentity": "", "leaseDurationSeconds": 0}), None, None),
            (json!({"holderIdentity": "z", "leaseDurationSeconds": -5}), Some("z"), None),
            (json!({"holderIdentity": "z", "leaseDurationSeconds": 7}), Some("z"), Some(Duration::from_secs(7))),
        ] {
            let mut raw: DynamicObject = serde_json::from_value(lease()).unwrap();
            raw.data["spec"] = spec;
            let view = stored(raw).unwrap().view;
            assert_eq!((view.holder.as_deref(), view.duration), (holder, duration));
        }
    }
}
