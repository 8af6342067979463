//! Two tenants with the rights of tenants alone: each sees its own clusters, and nothing of the other.

use std::path::{Path, PathBuf};

use k8s_openapi::ByteString;
use kube::api::{Api, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiResource, Discovery, Scope, verbs};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use sim::nodes::Nodes;
use sim::plane;

use crate::world::{CORE, INFRASTRUCTURE, METAL, World, run};

/// What opens the hosts.
const PASSWORD: &str = "the-password-of-the-hosts";
/// The Secrets of the hosts.
const KEYS: [&str; 2] = ["small-1-bmc", "small-2-bmc"];

/// One tenant, with an account of its own.
struct Tenant {
    name: &'static str,
    kubeconfig: PathBuf,
    client: Client,
    _nodes: Nodes,
}

/// The rules of the roles for tenants, as they are installed.
fn roles() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/berth.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
    let names = ["berth-hostclaim-editor", "berth-metal3machine-editor"];
    let mut rules: Vec<Value> = Vec::new();
    for name in names {
        let role = objects.iter().find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == name);
        rules.extend(role.unwrap_or_else(|| panic!("no role {name}"))["rules"].as_array().unwrap().iter().cloned());
    }
    rules.push(
        json!({"apiGroups": [CORE], "resources": ["clusters", "machines", "machinedeployments"], "verbs": ["*"]}),
    );
    rules.push(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}));
    json!(rules)
}

impl Tenant {
    async fn new(world: &World, name: &'static str) -> Self {
        let account = plane::account(&world.plane, name, &json!([]), &roles()).await.expect("an account");
        let kubeconfig = world.plane.dir().join(format!("{name}.kubeconfig"));
        std::fs::write(&kubeconfig, account.to_string()).unwrap();
        let read: Kubeconfig = serde_json::from_value(account).unwrap();
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let nodes = world.enter(name, name).await;
        Self { name, kubeconfig, client, _nodes: nodes }
    }

    /// Makes a cluster with so many machines, with nothing but its own rights.
    async fn cluster(&self, replicas: usize) {
        let (name, meta) = (self.name, |name: &str| json!({"name": name, "namespace": self.name}));
        let endpoint = json!({"host": "192.0.2.20", "port": 6443});
        let infrastructure = |kind: &str, name: &str, spec: Value| json!({"apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": kind, "metadata": meta(name), "spec": spec});
        let machine = json!({"kind": "baremetal", "hostSelector": {"matchLabels": {"size": "small"}},
            "image": {"url": "https://images.example/node.qcow2", "checksum": "abc", "checksumType": "sha256"}});
        let labels = json!({"group": "workers"});
        for object in [
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta("workers"), "stringData": {"value": format!("data-of-{name}")}}),
            infrastructure(
                "Metal3Cluster",
                name,
                json!({"controlPlaneEndpoint": endpoint, "cloudProviderEnabled": false}),
            ),
            json!({"apiVersion": format!("{CORE}/v1beta2"), "kind": "Cluster", "metadata": meta(name), "spec": {
                "controlPlaneEndpoint": endpoint,
                "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "Metal3Cluster", "name": name}}}),
            infrastructure("Metal3MachineTemplate", "workers", json!({"template": {"spec": machine}})),
            json!({"apiVersion": format!("{CORE}/v1beta2"), "kind": "MachineDeployment", "metadata": meta("workers"),
                "spec": {"clusterName": name, "replicas": replicas, "selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels}, "spec": {"clusterName": name, "version": "v1.34.1",
                        "bootstrap": {"dataSecretName": "workers"},
                        "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "Metal3MachineTemplate", "name": "workers"}}}}}),
        ] {
            plane::apply(&self.client, &object).await.unwrap_or_else(|error| panic!("{error}: {object}"));
        }
    }

    /// What the server answers when this tenant asks for objects of a namespace.
    async fn may_list(&self, group: &str, version: &str, kind: &str, namespace: &str) -> bool {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        api.list(&ListParams::default()).await.is_ok()
    }
}

/// Everything that is in a namespace, of whatever kind: no role that ends there can show more.
async fn everything(world: &World, namespace: &str) -> Vec<(String, String)> {
    let found = Discovery::new(world.client.clone()).run().await.expect("the kinds");
    let mut all = Vec::new();
    for (resource, capabilities) in found.groups().flat_map(|group| group.recommended_resources()) {
        if capabilities.scope != Scope::Namespaced || !capabilities.supports_operation(verbs::LIST) {
            continue;
        }
        let api: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), namespace, &resource);
        let list = api.list(&ListParams::default()).await.unwrap_or_else(|error| panic!("{}: {error}", resource.kind));
        let named =
            |object: &DynamicObject| (format!("{} {}", resource.kind, object.name_any()), json!(object).to_string());
        all.extend(list.items.iter().map(named));
    }
    all
}

/// A text as it stands in a Secret.
fn stored(text: &str) -> String {
    let text = serde_json::to_value(ByteString(text.as_bytes().to_vec())).expect("a text");
    text.as_str().unwrap_or_default().to_owned()
}

/// No object of one namespace tells of the other tenant, of its host or its data, or of how hosts are reached.
async fn separate(world: &World, own: &str, other: &str) {
    let claims = world.list("metal3.io", "HostClaim", other).await;
    let hosts = claims.iter().filter_map(|claim| claim.data.pointer("/status/bareMetalHost/name")?.as_str());
    let mut secrets: Vec<String> = hosts.map(str::to_owned).collect();
    assert_eq!(secrets.len(), 1, "{other} has a host: {claims:?}");
    secrets.extend([other.to_owned(), stored(&format!("data-of-{other}")), "redfish".to_owned()]);
    // By their whole names: what is generated may end like the beginning of one.
    secrets.extend(KEYS.map(str::to_owned));
    secrets.extend([PASSWORD.to_owned(), stored(PASSWORD)]);
    let all = everything(world, own).await;
    let mine = stored(&format!("data-of-{own}"));
    assert!(all.iter().any(|(_, text)| text.contains(&mine)), "its own data is there");
    for kind in ["Metal3Machine ", "HostClaim ", "Machine "] {
        assert!(all.iter().any(|(name, _)| name.starts_with(kind)), "{kind}is there");
    }
    for (name, text) in &all {
        let told = secrets.iter().find(|secret| text.contains(secret.as_str()));
        assert_eq!(told, None, "{name} of {own} tells too much: {text}");
    }
}

#[test]
fn tenants_build_clusters_with_their_own_rights_and_see_nothing_of_each_other() {
    run("tenants_build_clusters_with_their_own_rights_and_see_nothing_of_each_other", async |world| {
        world.hosts(&["small-1", "small-2"], "small").await;
        for name in KEYS {
            let data = json!({"username": "admin", "password": PASSWORD});
            let meta = json!({"name": name, "namespace": METAL});
            world.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": data})).await;
        }
        let policy = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
            "metadata": {"name": "tenants", "namespace": METAL},
            "spec": {"hostClaimNamespaces": {"names": ["team-red", "team-blue"]}, "hostSelector": {"matchLabels": {"size": "small"}}}});
        world.apply(&policy).await;
        let (red, blue) = (Tenant::new(world, "team-red").await, Tenant::new(world, "team-blue").await);
        red.cluster(1).await;
        world.controlled("team-red", "team-red").await;
        world.settled("team-red", "workers", 1).await;
        // One more than there are hosts.
        blue.cluster(2).await;
        world.controlled("team-blue", "team-blue").await;
        world
            .within("team-blue has one node", async || {
                (world.running("team-blue", "workers").await.len() == 1).then_some(())
            })
            .await;

        for (tenant, other) in [(&red, "team-blue"), (&blue, "team-red")] {
            for (group, version, kind) in [
                (CORE, "v1beta2", "Cluster"),
                (INFRASTRUCTURE, "v1beta2", "Metal3Machine"),
                ("metal3.io", "v1alpha1", "HostClaim"),
                ("", "v1", "Secret"),
            ] {
                assert!(tenant.may_list(group, version, kind, tenant.name).await, "{kind} of its own");
                assert!(!tenant.may_list(group, version, kind, other).await, "{kind} of {other}");
            }
            assert!(!tenant.may_list("metal3.io", "v1alpha1", "BareMetalHost", METAL).await);
            let cluster = format!("cluster/{}", tenant.name);
            let drawn = world.told(&["tree", &cluster, "-n", tenant.name], Some(&tenant.kubeconfig));
            assert!(drawn.contains("MachineDeployment workers") && !drawn.contains(other), "{drawn}");
            assert!(drawn.contains("cannot be read"), "hosts are the administrator's:\n{drawn}");
            let foreign = format!("cluster/{other}");
            let asked = world.ask(&["tree", &foreign, "-n", other], Some(&tenant.kubeconfig));
            assert_eq!(asked.status.code(), Some(1), "{}", String::from_utf8_lossy(&asked.stdout));
        }

        separate(world, "team-red", "team-blue").await;
        separate(world, "team-blue", "team-red").await;

        // The machine that waits says why, down to the hosts, without a word about who has them.
        let waiting = world
            .within("a machine of blue waits for a host", async || {
                let machines = world.list(INFRASTRUCTURE, "Metal3Machine", "team-blue").await;
                let waits = |machine: &DynamicObject| {
                    let conditions = machine.data.pointer("/status/conditions").and_then(Value::as_array);
                    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["reason"] == "NoBareMetalHost")
                };
                machines.into_iter().find(waits)
            })
            .await;
        let subject = format!("metal3machine/{}", waiting.name_any());
        let told = world.told(&["explain", &subject, "-n", "team-blue"], Some(&blue.kubeconfig));
        assert!(told.contains("hosts fit") && told.contains("because"), "{told}");
        assert!(!told.contains("team-red"), "{told}");
        world.delete("team-red", "team-red").await;
        // Its host goes to the machine that waited.
        world.settled("team-blue", "workers", 2).await;
        world.delete("team-blue", "team-blue").await;
        world.judge();
    });
}
