//! The world that all tests share.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::api::DynamicObject;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use sim::metal::{self, Machines, Settings, Simulator};
use sim::plane::{self, Options, Plane, PlaneError};
use sim::record::Record;
use tokio::sync::OnceCell;

use crate::fleet::{self, Replica};
use crate::shared::{self, Beside, Shared};

/// How long anything may take that should happen at once, on a machine that has other things to do.
pub const SOON: Duration = Duration::from_secs(120);

/// Everything that runs.
pub struct World {
    pub plane: Plane,
    pub client: Client,
    pub machines: Arc<Machines>,
    pub record: Record,
    pub kubeconfig: PathBuf,
    leader: OnceCell<Replica>,
}

impl World {
    async fn begin() -> Result<Self, PlaneError> {
        let options = Options { audit_log: Some("audit.log".into()), ..Options::default() };
        let started = tokio::task::spawn_blocking(move || Plane::start_with(options));
        let plane =
            started.await.map_err(|why| PlaneError::Bad { doing: "starting".into(), why: why.to_string() })??;
        let client = plane.client().await?;
        let mut definitions = fleet::documents(&["crds"]);
        definitions.extend(metal::kinds::definitions());
        definitions.push(clusters());
        plane::install_crds(&client, definitions).await?;
        for role in roles() {
            plane::apply(&client, &role).await?;
        }
        let record = metal::record(&client).await?;
        let settings = Settings { labelled_only: true, ..Settings::default() };
        let simulator = Simulator::new(operator(&plane).await?, settings);
        let machines = simulator.machines();
        tokio::spawn(simulator.run());
        let kubeconfig = fleet::account(&plane).await;
        Ok(Self { plane, client, machines, record, kubeconfig, leader: OnceCell::new() })
    }

    /// The one that leads.
    pub async fn leader(&self) -> &Replica {
        self.leader.get_or_init(|| fleet::leader(&self.plane, &self.client, &self.kubeconfig)).await
    }

    pub async fn apply(&self, object: &Value) -> DynamicObject {
        plane::apply(&self.client, object).await.unwrap_or_else(|error| panic!("{error}: {object}"))
    }
}

/// The hosts' controller has an account of its own, so that the server treats it and Berth alike when both want much.
async fn operator(plane: &Plane) -> Result<Client, PlaneError> {
    let rules = json!([
        {"apiGroups": ["metal3.io"], "verbs": ["*"],
            "resources": ["baremetalhosts", "baremetalhosts/status", "hardwaredata"]},
        {"apiGroups": [""], "verbs": ["get", "patch"], "resources": ["secrets"]},
        {"apiGroups": ["events.k8s.io"], "verbs": ["create"], "resources": ["events"]},
    ]);
    let kubeconfig = plane::account(plane, metal::MANAGER, &rules, &json!([])).await?;
    let bad = |why: String| PlaneError::Bad { doing: "making a client of the operator".to_owned(), why };
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).map_err(|why| bad(why.to_string()))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|why| bad(why.to_string()))?;
    Client::try_from(config).map_err(|why| bad(why.to_string()))
}

/// Clusters, as far as claims look at them.
fn clusters() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusters.cluster.x-k8s.io"},
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "Cluster", "listKind": "ClusterList", "plural": "clusters", "singular": "cluster"},
            "versions": [{"name": "v1beta2", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}],
        },
    })
}

/// The roles for people that come with Berth.
fn roles() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/berth.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
    let people =
        |object: &Value| object["kind"] == "ClusterRole" && object["metadata"]["name"] == "berth-hostclaim-editor";
    objects.into_iter().filter(people).collect()
}

impl Shared for World {
    fn cell() -> &'static OnceLock<Result<Self, PlaneError>> {
        static WORLD: OnceLock<Result<World, PlaneError>> = OnceLock::new();
        &WORLD
    }

    async fn start() -> Result<Self, PlaneError> {
        Self::begin().await
    }

    async fn prepare(&self) {
        self.leader().await;
    }

    fn logs(&self) -> (Vec<PathBuf>, usize) {
        (self.leader.get().map(Replica::log).into_iter().collect(), 40)
    }
}

/// Runs a test in the shared world, beside others.
pub fn run(test: &str, body: impl AsyncFnOnce(&'static World)) {
    shared::run(test, &Beside::Others, body);
}

/// Runs a test in the shared world while no other runs.
pub fn run_alone(test: &str, body: impl AsyncFnOnce(&'static World)) {
    shared::run(test, &Beside::Nobody, body);
}
