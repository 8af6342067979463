//! One real API server for all tests, and one test at a time on it.

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use sim::plane::{self, Plane};
use tokio::sync::{Mutex, MutexGuard};

pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";

pub struct World {
    pub plane: &'static Plane,
    pub client: kube::Client,
    _turn: MutexGuard<'static, ()>,
}

impl World {
    /// Waits for this test's turn; the definitions are installed and no webhook is known.
    pub async fn enter(test: &str) -> Option<Self> {
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        let plane = plane::for_test(test)?;
        let world = Self { plane, client: plane.client().await.unwrap(), _turn: turn };
        for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
            let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
            let all: Api<DynamicObject> = Api::all_with(world.client.clone(), &ApiResource::from_gvk(&gvk));
            let _ = all.delete("berth", &DeleteParams::default()).await;
        }
        world.define(|_| {}).await;
        Some(world)
    }

    /// Installs the definitions, changed in some way.
    pub async fn define(&self, change: impl Fn(&mut Value)) {
        let mut definitions: Vec<Value> =
            api::own::aws_crds().iter().map(|definition| serde_json::to_value(definition).unwrap()).collect();
        definitions.iter_mut().for_each(change);
        plane::install_crds(&self.client, definitions).await.expect("the server takes the definitions");
    }

    pub fn all(&self, kind: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(GROUP, "v1beta2", kind);
        Api::default_namespaced_with(self.client.clone(), &ApiResource::from_gvk(&gvk))
    }

    /// Asks the server to apply a new object, storing it or not: the stored object or the refusal.
    pub async fn create(&self, object: &Value, dry_run: bool) -> Result<Value, String> {
        // A field that would be dropped is an error.
        let params = PatchParams { dry_run, ..PatchParams::apply("somebody").force().validation_strict() };
        let api = self.all(object["kind"].as_str().unwrap());
        read(api.patch(object["metadata"]["name"].as_str().unwrap(), &params, &Patch::Apply(object)).await)
    }

    pub async fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<Value, String> {
        read(self.all(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await)
    }

    pub async fn delete(&self, kind: &str, name: &str) {
        let _ = self.all(kind).delete(name, &DeleteParams::default()).await;
    }
}

fn read(answer: kube::Result<DynamicObject>) -> Result<Value, String> {
    match answer {
        Ok(object) => Ok(serde_json::to_value(object).unwrap()),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => panic!("the server does not answer: {error}"),
    }
}

pub fn machine(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "AWSMachine", "metadata": {"name": name}, "spec": spec})
}

pub fn template(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "AWSMachineTemplate", "metadata": {"name": name},
        "spec": {"template": {"spec": spec}}})
}

/// A plain machine with some fields added.
pub fn plain(with: &Value) -> Value {
    let mut spec = json!({"instanceType": "m5.4xlarge", "ami": {"id": "ami-0123456789abcdef0"},
        "cloudInit": {"insecureSkipSecretsManager": true}});
    for (key, value) in with.as_object().unwrap() {
        if !value.is_null() {
            spec[key] = value.clone();
        }
    }
    spec
}
