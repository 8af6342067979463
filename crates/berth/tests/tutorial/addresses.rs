//! The pages about addresses for clusters, carried out: their manifests as they stand in the book, the real binary with a
//! certificate of its own making, the real Cluster API and the real IPAM provider.

use std::process::Command;

use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};
use sim::dock;
use sim::plane::{self, Manager, Plane, Process};
use sim::wait::seek;

use crate::pages::root;
use crate::pod::Ports;
use crate::release;
use crate::walk::Walk;
use crate::{BERTH, BOUND};

const HOME: &str = "berth-system";
const TEAM: &str = "team-a";

/// The objects of a file that a page includes.
fn example(name: &str) -> Vec<Value> {
    let path = root().join("book/examples/vip").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn registration() -> Value {
    let text = std::fs::read_to_string(root().join("deploy/vip/extension-config.yaml")).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    objects.into_iter().find(|o| o["kind"] == "ExtensionConfig").expect("an ExtensionConfig")
}

struct World {
    plane: Plane,
    client: Client,
    berth: Process,
    metrics: u16,
    _provider: dock::Provider,
    _managers: [Manager; 2],
}

impl World {
    async fn start(plane: Plane) -> Self {
        let client = plane.client().await.unwrap();
        plane::install_crds(&client, dock::kinds::definitions()).await.unwrap();
        let managers = [plane::capi(&plane).await.unwrap(), plane::ipam(&plane).await.unwrap()];
        let provider = dock::Provider::start(&client);
        let home = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}});
        plane::apply(&client, &home).await.unwrap();

        let port = || plane::free_port().unwrap();
        let (health, metrics, hooks) = (port(), port(), port());
        let mut command = Command::new(BERTH);
        command
            .args(["run", "--controllers", "vip", "--log-format", "text"])
            .args(["--metrics-bind-address", &format!("127.0.0.1:{metrics}")])
            .args(["--webhook-port", "0", "--webhook-self-signed", "--webhook-extra-name", "127.0.0.1"])
            .args(["--leader-elect-resource-namespace", HOME, "--runtime-extension-bind-host", "127.0.0.1"])
            .args(["--health-addr", &format!("127.0.0.1:{health}")])
            .args(["--runtime-extension-port", &hooks.to_string()])
            .arg("--kubeconfig")
            .arg(plane.kubeconfig_path());
        let mut berth = Process::start("berth", command, &plane.dir().join("berth.log"), None).unwrap();
        plane::wait_http(&mut berth, health, "/readyz", BOUND).await.unwrap();

        // As rendered, but by address: there is no Service network here. The authority comes from the Secret.
        let mut config = registration();
        assert_eq!(config["spec"]["clientConfig"]["service"]["name"], "berth-runtime-extension");
        config["spec"]["clientConfig"] = json!({"url": format!("https://127.0.0.1:{hooks}")});
        let handlers = dock::extension::register(&client, &config).await.unwrap();
        assert_eq!(handlers.len(), 5, "{handlers:?}");
        Self { plane, client, berth, metrics, _provider: provider, _managers: managers }
    }

    async fn apply(&self, file: &str) {
        for object in example(file) {
            plane::apply(&self.client, &object).await.unwrap_or_else(|e| panic!("{file}: {e}"));
        }
    }

    /// A cluster of another class, otherwise like that of the tutorial.
    async fn cluster_of(&self, class: &str) {
        let mut cluster = example("cluster.yaml").remove(0);
        cluster["metadata"]["name"] = json!(class);
        cluster["spec"]["topology"]["classRef"]["name"] = json!(class);
        plane::apply(&self.client, &cluster).await.unwrap();
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), TEAM, &dock::resource(kind).unwrap())
    }

    async fn eventually<T>(&mut self, what: &str, mut look: impl AsyncFnMut(&Self) -> Option<T>) -> T {
        let found = seek(BOUND, async || {
            let found = look(self).await;
            if let (None, Some(failure)) = (&found, self.berth.failure()) {
                panic!("{what}: {failure}");
            }
            found
        });
        let found = found.await;
        found.unwrap_or_else(|| panic!("not seen within {BOUND:?}: {what}\n{}", self.berth.log_tail()))
    }

    /// The endpoint of a Cluster.
    async fn host(&self, cluster: &str) -> Option<String> {
        let cluster = self.api("Cluster").get_opt(cluster).await.unwrap()?;
        cluster.data.pointer("/spec/controlPlaneEndpoint/host").and_then(Value::as_str).map(str::to_owned)
    }

    /// What was rendered of one kind for a cluster.
    async fn rendered(&self, kind: &str, cluster: &str) -> Option<Value> {
        let params = ListParams::default().labels(&format!("cluster.x-k8s.io/cluster-name={cluster}"));
        let found = self.api(kind).list(&params).await.unwrap().items.into_iter().next()?;
        found.data.get("spec").cloned()
    }

    /// Host of the Cluster, and spec of its infrastructure cluster and control plane, once all are there.
    async fn complete(&mut self, cluster: &str) -> (String, Value, Value) {
        let what = format!("cluster {cluster} is rendered");
        self.eventually(&what, async |world: &Self| {
            let host = world.host(cluster).await?;
            let dock = world.rendered("DockCluster", cluster).await?;
            Some((host, dock, world.rendered("QuayControlPlane", cluster).await?))
        })
        .await
    }

    fn doctor(&self, name: &str) -> Value {
        let mut command = Command::new(BERTH);
        let kubeconfig = self.plane.kubeconfig_path();
        let output = command.args(["doctor", "-o", "json", "--kubeconfig"]).arg(kubeconfig).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).cloned().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tutorial_and_every_class_of_the_book_give_clusters_their_address() {
    let test = "the_tutorial_and_every_class_of_the_book_give_clusters_their_address";
    let Some(plane) = crate::plane(test) else { return };
    let mut world = World::start(plane).await;
    let Some(shell) = release::shell(test, &world.plane.kubeconfig_path(), Ports::free()) else { return };
    let mut page = Walk::of("vip/tutorial.md");
    // Gates and registration are what this world begins with.
    page.pass("What you need");
    page.pass("Install Berth and register its hooks");
    for section in ["A namespace and a pool", "A class", "A cluster"] {
        page.manifests(&shell, section);
    }
    let (host, dock, quay) = world.complete("prod").await;
    let number: u8 = host.strip_prefix("10.20.0.").expect("an address of the pool").parse().unwrap();
    assert!((10..=99).contains(&number), "{host}");
    assert_eq!(dock["controlPlaneEndpoint"], json!({"host": host, "port": 6443}));
    let file = quay["files"][0]["content"].as_str().unwrap();
    assert!(file.contains(&format!("address: \"{host}\"")) && file.contains("port: \"6443\""), "{file}");
    for check in ["cluster api", "ipam", "hooks"] {
        let found = world.doctor(check);
        assert_eq!(found["level"], "ok", "{found}");
    }
    let reason = world
        .eventually("the condition is there", async |world: &World| {
            let cluster = world.api("Cluster").get("prod").await.unwrap();
            let conditions = cluster.data.pointer("/status/conditions")?.as_array()?.clone();
            let ours = conditions.into_iter().find(|c| c["type"] == "ControlPlaneVIPReady")?;
            (ours["status"] == "True").then(|| ours["reason"].clone())
        })
        .await;
    assert_eq!(reason, "Allocated");
    let cluster = world.api("Cluster").get("prod").await.unwrap();
    let annotations = cluster.metadata.annotations.unwrap();
    for (key, value) in [("vip", host.as_str()), ("pool", "GlobalInClusterIPPool/cp-vips"), ("source", "allocated")] {
        assert_eq!(annotations[&format!("vip.capi.gorizond.io/control-plane-{key}")], value, "{key}");
    }

    let endpoint = json!({"host": host, "port": 6443});
    for kind in ["cluster.cluster.x-k8s.io", "dockclusters"] {
        let told = page.command(&shell, "Look", &format!("kubectl --namespace team-a get {kind}"));
        assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), endpoint, "{kind}");
    }
    for (command, part) in [
        ("kubectl --namespace team-a get ipaddressclaims", "vip-cp-prod"),
        ("kubectl --namespace team-a describe", "ControlPlaneVIPReady"),
    ] {
        let told = page.command(&shell, "Look", command);
        assert!(told.contains(part), "{command}: {told}");
    }

    // The endpoint of the user's own choice costs nothing.
    page.manifests(&shell, "An address of your own");
    let (host, dock, _) = world.complete("by-hand").await;
    assert_eq!((host.as_str(), &dock["controlPlaneEndpoint"]["host"]), ("10.20.0.200", &json!("10.20.0.200")));
    assert!(world.api("IPAddressClaim").get_opt("vip-cp-by-hand").await.unwrap().is_none());

    // Both families, and an ingress.
    world.apply("pool-v6.yaml").await;
    world.apply("pool-ingress.yaml").await;
    world.apply("cluster-dual-stack.yaml").await;
    world.apply("cluster-ingress.yaml").await;
    let (host, ..) = world.complete("prod-dual").await;
    assert!(host.starts_with("10.20.0."), "{host}");
    let (..) = world.complete("prod-ingress").await;
    let shown = async |cluster: &str, key: &str| {
        let cluster = world.api("Cluster").get(cluster).await.unwrap();
        cluster.metadata.annotations.unwrap()[&format!("vip.capi.gorizond.io/{key}")].clone()
    };
    assert!(shown("prod-dual", "control-plane-vip-secondary").await.starts_with("2001:db8:20::"));
    assert!(shown("prod-ingress", "ingress-vip").await.starts_with("10.20.1."));

    // Every other way to consume the address, and the one that does not work by itself.
    let mut pool = example("pool-shared.yaml").remove(0);
    let classes = ["dock-annotation", "dock-variable", "dock-no-value"];
    pool["metadata"]["annotations"] = json!({"vip.capi.gorizond.io/cluster-class": classes.join(", "),
        "vip.capi.gorizond.io/role": "control-plane"});
    plane::apply(&world.client, &pool).await.unwrap();
    world.apply("templates-plain.yaml").await;
    for (class, file) in classes.iter().zip(["class-annotation.yaml", "class-variable.yaml", "class-no-value.yaml"]) {
        world.apply(file).await;
        world.cluster_of(class).await;
    }
    for class in classes {
        let (host, dock, quay) = world.complete(class).await;
        assert!(host.starts_with("10.40.0."), "{class}: {host}");
        assert_eq!(dock["controlPlaneEndpoint"], json!({"host": host, "port": 6443}), "{class}");
        if class == "dock-no-value" {
            assert_eq!(quay["tlsSAN"], json!(["localhost", host]));
        }
    }

    // What the alerts ask for is really there; only what tells of trouble may have nothing to tell.
    let quiet =
        ["berth_vip_allocation_errors_total", "berth_room_oldest_wait_seconds", "berth_room_credentials_lacking"];
    let alerts = std::fs::read_to_string(root().join("chart/files/alerts.yaml")).unwrap();
    let (_, scraped) = plane::http_get(world.metrics, "/metrics").await.unwrap();
    for (at, _) in alerts.match_indices("berth_") {
        let name: String = alerts[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let found =
            scraped.lines().any(|line| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        let others = ["hosts", "capacity", "claims", "machines", "clusters", "aws", "cloudstack"];
        let elsewhere = others.iter().any(|other| name.starts_with(&format!("berth_{other}_")));
        assert!(found || elsewhere || quiet.contains(&name.as_str()), "{name} is not exported");
    }

    // Deleted, the address goes back.
    page.command(&shell, "Delete", "kubectl");
    page.end();
    world
        .eventually("the claim is gone", async |world: &World| {
            world.api("IPAddressClaim").get_opt("vip-cp-prod").await.unwrap().is_none().then_some(())
        })
        .await;
}
