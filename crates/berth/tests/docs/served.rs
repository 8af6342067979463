//! Manifests of the docs on a real API server: all are accepted, and the web view shows what they make.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};
use sim::plane::{self, PlaneError};
use sim::wait::within;

use crate::openshift;
use crate::pages::{blocks, is_values, pages, read, root};
use crate::shared::{self, Beside, Shared};

/// The manifests shown in the docs, with their places.
fn manifests() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for page in pages() {
        for block in blocks(&page).0.into_iter().filter(|b| b.language == "yaml") {
            let documents: Vec<Value> = serde_saphyr::from_multiple(&block.lines.join("\n"))
                .unwrap_or_else(|e| panic!("{}: not YAML: {e}", block.place));
            let manifests = documents.into_iter().filter(|d| !d.is_null() && !is_values(d));
            all.extend(manifests.map(|d| (block.place.clone(), d)));
        }
    }
    all
}

/// Everything the manifests and commands of the docs are about: Berth's kinds, Cluster API, the IPAM provider and the
/// providers of the sandbox, with the real managers, whose webhooks judge too; and kinds of others that pages look at.
pub struct World {
    pub client: kube::Client,
    pub plane: plane::Plane,
    _managers: [plane::Manager; 2],
}

impl Shared for World {
    fn cell() -> &'static OnceLock<Result<Self, PlaneError>> {
        static WORLD: OnceLock<Result<World, PlaneError>> = OnceLock::new();
        &WORLD
    }

    async fn start() -> Result<Self, PlaneError> {
        let options = plane::Options { audit_log: Some("audit.log".into()), ..plane::Options::default() };
        let plane = plane::Plane::start_with(options)?;
        let client = plane.client().await?;
        let mut definitions = sim::dock::kinds::definitions();
        definitions.extend(sim::metal::kinds::definitions());
        definitions.extend(plane::aws_network_definitions());
        definitions.extend(plane::provider_definitions()?);
        definitions.push(openshift::machine_sets());
        definitions
            .extend(["IPClaim", "IPPool"].map(|kind| plane::open_definition("ipam.metal3.io", "v1alpha1", kind)));
        for entry in std::fs::read_dir(root().join("chart/files/crds")).unwrap() {
            definitions.push(serde_saphyr::from_str(&read(&entry.unwrap().path())).unwrap());
        }
        plane::install_crds(&client, definitions).await?;
        let managers = [plane::capi(&plane).await?, plane::ipam(&plane).await?];
        Ok(Self { client, plane, _managers: managers })
    }
}

#[test]
fn every_manifest_in_the_docs_is_accepted_by_the_server() {
    let shown = manifests();
    for (place, object) in &shown {
        for field in ["apiVersion", "kind"] {
            assert!(object[field].is_string(), "{place}: a manifest without {field}");
        }
    }
    let test = "every_manifest_in_the_docs_is_accepted_by_the_server";
    shared::run::<World>(test, &Beside::Others, async |world| Box::pin(accepted(world, shown)).await);
}

/// What programs other than the server read: kustomize, and operators that are not installed here.
const ELSEWHERE: [&str; 3] = ["kustomize.config.k8s.io", "turtles-capi.cattle.io", "cloudcredential.openshift.io"];

/// Tries every manifest that the server is there for, and expects some of each kind.
async fn accepted(world: &World, shown: Vec<(String, Value)>) {
    let mut seen = BTreeSet::new();
    for (place, object) in shown {
        let version = object["apiVersion"].as_str().unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        if ELSEWHERE.contains(&group) {
            continue;
        }
        let kind = object["kind"].as_str().unwrap();
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities) =
            pinned_kind(&world.client, &gvk).await.unwrap_or_else(|e| panic!("{place}: {kind}: {e}"));
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(world.client.clone(), &resource),
            Scope::Namespaced => {
                let namespace = object["metadata"]["namespace"].as_str();
                let namespace = namespace.unwrap_or_else(|| panic!("{place}: {kind} without a namespace"));
                let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                plane::apply(&world.client, &place).await.unwrap();
                Api::namespaced_with(world.client.clone(), namespace, &resource)
            }
        };
        let params = PatchParams::apply("docs-test").dry_run().validation_strict();
        let name = object["metadata"]["name"].as_str().unwrap();
        api.patch(name, &params, &Patch::Apply(&object)).await.unwrap_or_else(|e| panic!("{place}: refused: {e}"));
        seen.insert(kind.to_owned());
    }
    let claims = ["BareMetalHost", "HostDeployPolicy", "HostClaim", "HostClaimQuota"];
    let hosts = ["AWSMachineTemplate", "AWSCluster", "AWSClusterControllerIdentity", "MachineDeployment"];
    for kind in ["HostClaimKind", "GlobalInClusterIPPool", "InClusterIPPool", "Cluster", "ClusterClass"]
        .iter()
        .chain(&claims)
        .chain(&hosts)
    {
        assert!(seen.contains(*kind), "the docs show no {kind}");
    }
}

/// How long anything may take that should happen at once.
const SOON: Duration = Duration::from_secs(90);
/// Who looks at the fleet.
const LOOKER: &str = "berth-looker";
/// What the view is asked to show beside what it shows anyway.
const ALL: [&str; 5] =
    ["--capacity-metal3", "--use-cluster-identity", "--watch-machine-pools", "--capacity-cloudstack", "--interval=1s"];

/// The rules of a role for people, as they are installed.
fn role(name: &str) -> Value {
    let objects: Vec<Value> = serde_saphyr::from_multiple(&read(&root().join("deploy/berth.yaml"))).unwrap();
    let found = objects.into_iter().find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not rendered"))["rules"].clone()
}

#[test]
fn the_web_view_shows_a_live_cluster_with_its_role_and_is_refused_nothing() {
    let test = "the_web_view_shows_a_live_cluster_with_its_role_and_is_refused_nothing";
    shared::run::<World>(test, &Beside::Others, async |world| Box::pin(watched(world)).await);
}

/// Serves the objects of the book's own examples to somebody who has nothing but the role.
async fn watched(world: &World) {
    for namespace in ["view-team", "view-metal"] {
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        plane::apply(&world.client, &space).await.unwrap();
    }
    let apply = async |file: &str| {
        // Beside what other tests try with the same names.
        let text = read(&root().join("book/examples").join(file)).replace("team-a", "view-team");
        let text = text.replace("namespace: metal", "namespace: view-metal").replace("cp-vips", "view-vips");
        for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            plane::apply(&world.client, &object).await.unwrap_or_else(|e| panic!("{file}: {e}"));
        }
    };
    let (machines, hosts) = (["cluster", "template", "machines"], ["host", "policy"]);
    let machines = machines.map(|name| format!("hosts/{name}.yaml"));
    let hosts = hosts.map(|name| format!("claims/{name}.yaml"));
    for file in machines.iter().chain(&hosts) {
        apply(file).await;
    }
    apply("vip/pool.yaml").await;
    let rules = role("berth-ui");
    for rule in rules.as_array().unwrap() {
        assert_eq!(rule["verbs"], json!(["get", "list"]), "{rule}");
        assert!(!rule.to_string().contains("secrets"), "{rule}");
    }
    let account = plane::account(&world.plane, LOOKER, &rules, &json!([])).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("kubeconfig");
    std::fs::write(&config, account.to_string()).unwrap();

    let mark = world.plane.audit_mark().unwrap();
    let port = plane::free_port().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["ui", "--listen", &port.to_string()]).args(ALL).arg("--kubeconfig").arg(&config);
    let mut view = plane::Process::start("berth ui", command, &dir.path().join("log"), None).unwrap();
    plane::wait_http(&mut view, port, "/", SOON).await.unwrap();
    let shows = async |what: &str, found: &dyn Fn(&Value) -> bool| -> Value {
        let looked = within(SOON, what, async || {
            let (status, body) = plane::http_get(port, "/api/v1/fleet").await.ok()?;
            let fleet: Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
            found(&fleet).then_some(fleet)
        });
        looked.await
    };
    let named = |fleet: &Value, list: &str, name: &str| {
        let all = fleet[list].as_array().into_iter().flatten();
        all.into_iter().any(|item| item["name"] == name || item["object"]["name"] == name)
    };
    let whole = |fleet: &Value| {
        let wanted = [("trees", "prod"), ("hosts", "rack1-node1"), ("pools", "view-vips"), ("groups", "licensed")];
        wanted.into_iter().all(|(list, name)| named(fleet, list, name))
    };
    let fleet = shows("the fleet of the examples", &whole).await;
    assert_eq!((&fleet["apiVersion"], &fleet["kind"]), (&json!("cli.berth.dev/v1"), &json!("Fleet")));
    assert_eq!(fleet["unseen"], json!([]), "everything may be seen");

    // What comes while somebody looks is there a moment later.
    assert!(!named(&fleet, "trees", "web-1"));
    apply("claims/reserve.yaml").await;
    shows("the new claim", &|fleet| named(fleet, "trees", "web-1")).await;
    view.stop();

    let asked = world.plane.requests_since(mark).unwrap();
    let asked: Vec<_> = asked.into_iter().filter(|request| request.user.ends_with(LOOKER)).collect();
    assert!(asked.iter().any(|r| r.resource == "clusters") && asked.len() > 20, "{} requests", asked.len());
    let refused: Vec<_> = asked.iter().filter(|request| request.is_refused()).collect();
    assert!(refused.is_empty(), "the role lacks: {refused:#?}");
    let wrote: Vec<_> = asked.iter().filter(|request| request.writes()).collect();
    assert!(wrote.is_empty(), "it can only be looked at: {wrote:#?}");
}
