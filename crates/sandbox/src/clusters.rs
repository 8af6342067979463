//! The part of the story that is about clusters on CloudStack: from three files to machines, one version further, and away.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::cloudstack;
use sim::cloudstack::world::machine::State;
use sim::cloudstack::world::settings::Delays;

use crate::demo::pause;
use crate::story::Story;
use crate::world::World;

const NAMESPACE: &str = "team-a";
const SYSTEM: &str = "eksa-system";
const NAME: &str = "prod";
/// How long machines may take to come and go.
const BOUND: Duration = Duration::from_secs(90);
/// The files of the book.
const GROUND: [&str; 3] = [
    include_str!("../../../book/examples/clusters/namespaces.yaml"),
    include_str!("../../../book/examples/clusters/release.yaml"),
    include_str!("../../../book/examples/clusters/management.yaml"),
];
const CREDENTIALS: &str = include_str!("../../../book/examples/clusters/credentials.yaml");
const DATACENTER: &str = include_str!("../../../book/examples/clusters/datacenter.yaml");
const MACHINES: &str = include_str!("../../../book/examples/clusters/machines.yaml");
const CLUSTER: &str = include_str!("../../../book/examples/clusters/cluster.yaml");
const UPGRADE: &str = include_str!("../../../book/examples/clusters/upgrade.yaml");

/// Tells it, with the API server, Cluster API, the CloudStack simulator and Berth running.
pub async fn tell(story: &mut Story, world: &mut World, client: &Client, dir: &Path) -> Result<()> {
    let (log, managers) = (dir.join("berth.log"), dir.join("plane/capi-kubeadm-control-plane.log"));
    let clusters: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        NAMESPACE,
        &ApiResource::from_gvk(&GroupVersionKind::gvk("anywhere.eks.amazonaws.com", "v1alpha1", "Cluster")),
    );
    let scene = Scene { client, acs: world.cloudstack()?.clone() };

    story
        .tell("The real kubeadm managers start, beside a CloudStack", &managers, async {
            let now = Duration::ZERO;
            scene.acs.settings(|settings| {
                settings.delays = Delays { deploy: now, power: now, expunge: now, other: now };
            });
            world.start_provider().await?;
            for file in GROUND {
                scene.apply(file).await?;
            }
            Ok(((), format!("a strict simulator at {}, with three zones and no machine", scene.acs.endpoint)))
        })
        .await?;

    story
        .tell("A CloudStack cluster arrives before what it refers to, and says so", &log, async {
            scene.apply(CLUSTER).await?;
            let status = seen(&clusters, "it says what is missing", |status| {
                status.get("failureReason").and_then(Value::as_str) == Some("MissingDependentObjects")
            })
            .await?;
            Ok(((), text(&status, "/failureMessage").to_owned()))
        })
        .await?;

    story
        .tell("With the rest it becomes ready: control plane, network plugin, workers", &log, async {
            for file in [CREDENTIALS, DATACENTER, MACHINES] {
                scene.apply(file).await?;
            }
            seen(&clusters, "it is ready", is_ready).await?;
            let machines = scene.machines();
            if machines.len() != 3 {
                bail!("three machines should run, not {machines:?}");
            }
            let image = plugin(world).await?;
            Ok(((), format!("{} run in CloudStack, {image} inside of the cluster", machines.join(", "))))
        })
        .await?;

    story
        .tell("One minor version further, in this order and never in another", &log, async {
            scene.apply(UPGRADE).await?;
            let order = scene.upgrade(world).await?;
            seen(&clusters, "it is ready", is_ready).await?;
            Ok(((), order.join("\n")))
        })
        .await?;

    story
        .tell("Deleted, it leaves nothing in CloudStack", &log, async {
            let _ = clusters.delete(NAME, &DeleteParams::default()).await.context("deleting the Cluster")?;
            let begun = Instant::now();
            while clusters.get_opt(NAME).await.context("reading the Cluster")?.is_some() {
                within(begun, || format!("it is still there, with {:?}", scene.machines()))?;
                pause().await;
            }
            let left = scene.machines();
            if !left.is_empty() {
                bail!("left are {left:?}");
            }
            let made = scene.acs.machines().len();
            Ok(((), format!("{made} machines were made, all are gone")))
        })
        .await
}

/// What the parts of the story share.
struct Scene<'s> {
    client: &'s Client,
    acs: cloudstack::Handle,
}

impl Scene<'_> {
    /// Applies a file of the book, with the simulator as the CloudStack.
    async fn apply(&self, file: &str) -> Result<()> {
        let file = file
            .replace("http://cloudstack.example:8080/client/api", &self.acs.endpoint)
            .replace("the-api-key", &self.acs.api_key)
            .replace("the-secret-key", &self.acs.secret_key);
        let objects: Vec<Value> = serde_saphyr::from_multiple(&file).context("reading a manifest")?;
        for object in &objects {
            sim::plane::apply(self.client, object).await?;
        }
        Ok(())
    }

    /// The names of the machines that are not gone.
    fn machines(&self) -> Vec<String> {
        let all = self.acs.machines().into_iter().filter(|machine| machine.state != State::Gone);
        all.map(|machine| machine.name).collect()
    }

    fn api(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1beta2", kind));
        Api::namespaced_with(self.client.clone(), SYSTEM, &resource)
    }

    /// Watches an upgrade. What must be last is looked at first, so that a wrong order cannot be missed by looking late.
    async fn upgrade(&self, world: &World) -> Result<Vec<String>> {
        let planes = self.api("controlplane.cluster.x-k8s.io", "KubeadmControlPlane");
        let groups = self.api("cluster.x-k8s.io", "MachineDeployment");
        let begun = Instant::now();
        let mut told: Vec<String> = Vec::new();
        loop {
            let group = groups.get("prod-md-0").await.context("reading the workers")?;
            let image = plugin(world).await?;
            let plane = planes.get(NAME).await.context("reading the control plane")?;
            let steps = [
                ("control plane", text(&plane.data, "/status/version").to_owned(), "v1.32."),
                ("network plugin", image, ":v1.16."),
                ("workers", text(&group.data, "/spec/template/spec/version").to_owned(), "v1.32."),
            ];
            let done = steps.iter().take_while(|(_, value, new)| value.contains(new)).count();
            if let Some((early, ..)) = steps.iter().skip(done).find(|(_, value, new)| value.contains(new)) {
                bail!("{early} came too early: {steps:?}");
            }
            for (name, value, _) in steps.iter().take(done).skip(told.len()) {
                told.push(format!("{name}: {value} after {:.1} s", begun.elapsed().as_secs_f64()));
            }
            if done == steps.len() {
                return Ok(told);
            }
            within(begun, || format!("it stays at {steps:?}"))?;
            pause().await;
        }
    }
}

/// The image of the network plugin inside of the cluster.
async fn plugin(world: &World) -> Result<String> {
    let inside = world.provider()?.workload(NAME).context("the cluster has no API server")?;
    let set = Api::<DaemonSet>::namespaced(inside, "kube-system").get("cilium").await.context("reading the plugin")?;
    let containers = set.spec.and_then(|spec| spec.template.spec).map(|spec| spec.containers).unwrap_or_default();
    Ok(containers.into_iter().next().and_then(|container| container.image).unwrap_or_default())
}

/// Waits until the status of the Cluster is as wanted, and returns it.
async fn seen(clusters: &Api<DynamicObject>, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    let begun = Instant::now();
    loop {
        let cluster = clusters.get(NAME).await.context("reading the Cluster")?;
        let mut status = cluster.data.get("status").cloned().unwrap_or_default();
        if let Some(fields) = status.as_object_mut() {
            fields.insert("generation".to_owned(), json!(cluster.metadata.generation));
        }
        if wanted(&status) {
            return Ok(status);
        }
        within(begun, || format!("{what}? It says {status}"))?;
        pause().await;
    }
}

/// Whether everything that is written is carried out.
fn is_ready(status: &Value) -> bool {
    let all = status.get("conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let ready = all.iter().any(|one| text(one, "/type") == "Ready" && text(one, "/status") == "True");
    ready && status.get("reconciledGeneration") == status.get("generation")
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Fails when something takes too long.
fn within(begun: Instant, last: impl FnOnce() -> String) -> Result<()> {
    if begun.elapsed() > BOUND {
        bail!("not within {} s: {}", BOUND.as_secs(), last());
    }
    Ok(())
}
