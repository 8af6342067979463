//! What clusters on CloudStack are made of: the files of users, and everything that an operator prepares.

use anyhow::{Context, Result, bail};
use http::Method;
use serde_json::{Value, json};
use sim::cloudstack::world::faults::{Fault, What};
use sim::cloudstack::{self, Handle};

use crate::http::{Body, Pool, served};
use crate::scenario::{Kind, Seeded, Shape};
use crate::server::Server;
use crate::stage::{Stage, Subject};

const ANYWHERE: &str = "anywhere.eks.amazonaws.com";
const CORE: &str = "cluster.x-k8s.io";
const PROVIDER: &str = "infrastructure.cluster.x-k8s.io";

/// Clusters as users write them, of all namespaces.
pub const CLUSTERS: Kind = Kind { group: ANYWHERE, version: "v1alpha1", plural: "clusters", kind: "Cluster" };
/// Where clusters are made.
pub const DATACENTERS: Kind =
    Kind { plural: "cloudstackdatacenterconfigs", kind: "CloudStackDatacenterConfig", ..CLUSTERS };
/// What their machines are made of.
pub const MACHINES: Kind = Kind { plural: "cloudstackmachineconfigs", kind: "CloudStackMachineConfig", ..CLUSTERS };
/// The kinds that users write.
pub const WRITTEN: [Kind; 3] = [DATACENTERS, MACHINES, CLUSTERS];

/// Control planes of all clusters.
pub const PLANES: Kind = Kind {
    group: "controlplane.cluster.x-k8s.io",
    version: "v1beta2",
    plural: "kubeadmcontrolplanes",
    kind: "KubeadmControlPlane",
};
/// Groups of workers of all clusters.
pub const GROUPS: Kind =
    Kind { group: CORE, version: "v1beta2", plural: "machinedeployments", kind: "MachineDeployment" };
/// Health checks of all clusters, the last objects that are written.
pub const CHECKS: Kind = Kind { plural: "machinehealthchecks", kind: "MachineHealthCheck", ..GROUPS };
/// Everything that is generated for a cluster with one group of workers, and how often.
pub const GENERATED: [(Kind, usize); 7] = [
    (Kind { group: PROVIDER, version: "v1beta3", plural: "cloudstackclusters", kind: "CloudStackCluster" }, 1),
    (TEMPLATES, 2),
    (PLANES, 1),
    (Kind { plural: "clusters", kind: "Cluster", ..GROUPS }, 1),
    (
        Kind {
            group: "bootstrap.cluster.x-k8s.io",
            version: "v1beta2",
            plural: "kubeadmconfigtemplates",
            kind: "KubeadmConfigTemplate",
        },
        1,
    ),
    (GROUPS, 1),
    (CHECKS, 2),
];
const TEMPLATES: Kind = Kind {
    group: PROVIDER,
    version: "v1beta3",
    plural: "cloudstackmachinetemplates",
    kind: "CloudStackMachineTemplate",
};

/// The namespace of users.
pub const TEAM: &str = "team";
/// The namespace of everything that is generated.
pub const SYSTEM: &str = "eksa-system";
/// The label by which generated objects say whose they are.
pub const OWNER: &str = "cluster.x-k8s.io/cluster-name";
/// What a request of the bench that applies a file adds to its path.
const APPLY: &str = "fieldManager=berth-bench&force=true";

/// Who is played by the bench, and how.
pub const PLAYED: [(&str, &str); 5] = [
    ("CloudStack", "the strict simulator of the tests, in the process of the bench, with every answer delayed"),
    ("Cluster API core and bootstrap manager", "nobody: their kinds are there, their webhooks are not"),
    (
        "the kubeadm control-plane manager",
        "stand-in: a kubeconfig and a good report as soon as a control plane is seen",
    ),
    ("the CloudStack provider and its machines", "stand-in: a good report as soon as a group of workers is seen"),
    (
        "the workload clusters",
        "one API server for all, the management cluster itself: the network plugin is installed once and found by the others",
    ),
];

/// Every tenth cluster of those that are judged one after the other asks for a template that is not there.
pub fn is_wrong(number: u64) -> bool {
    number % 10 == 9
}

/// The name of a cluster, and of what is its own.
pub fn name(number: u64) -> String {
    format!("c-{number:05}")
}

/// An address on which nobody answers: those of documentation, without the first ones, which a sandbox may use.
fn endpoint(number: u64) -> String {
    format!("192.0.2.{}", 10 + number)
}

/// As many clusters as there are such addresses.
pub const MOST: u64 = 240;

/// The secret with the keys of CloudStack, under a name.
pub fn credentials(name: &str, acs: &Handle) -> Value {
    json!({"metadata": {"name": name}, "stringData":
        {"api-url": acs.endpoint, "api-key": acs.api_key, "secret-key": acs.secret_key, "verify-ssl": "true"}})
}

/// A datacenter with one zone.
pub fn datacenter(name: &str, credentials: &str, acs: &Handle) -> Value {
    json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": DATACENTERS.kind,
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"availabilityZones": [{"name": "az-1", "credentialsRef": credentials, "domain": "ROOT", "account": "admin",
            "managementApiEndpoint": acs.endpoint, "zone": {"name": "zone-1", "network": {"name": "shared"}}}]}})
}

/// What machines are made of.
pub fn machine(name: &str, template: &str) -> Value {
    json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": MACHINES.kind,
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"template": {"name": template}, "computeOffering": {"name": "Medium Instance"},
            "users": [{"name": "capc", "sshAuthorizedKeys":
                ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGE7LJhzVsoIcAcSZjhoSDDTH12Jl0t6eJLWlrHjBPGi"]}]}})
}

/// A cluster of one control plane and two workers in a datacenter.
pub fn cluster(number: u64, datacenter: &str, machine: &str) -> Value {
    let metadata = json!({"name": name(number), "namespace": TEAM});
    written(&metadata, number, (datacenter, machine), &workers(machine, Some(2)))
}

fn written(metadata: &Value, number: u64, (datacenter, machine): (&str, &str), workers: &Value) -> Value {
    json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": CLUSTERS.kind, "metadata": metadata,
    "spec": {
        "kubernetesVersion": "1.31", "managementCluster": {"name": "mgmt"}, "bundlesRef": bundles_ref(),
        "datacenterRef": {"kind": DATACENTERS.kind, "name": datacenter},
        "clusterNetwork": {"cniConfig": {"cilium": {}}, "pods": {"cidrBlocks": ["192.168.0.0/16"]},
            "services": {"cidrBlocks": ["10.96.0.0/12"]}},
        "controlPlaneConfiguration": {"count": 1, "endpoint": {"host": endpoint(number)},
            "machineGroupRef": {"kind": MACHINES.kind, "name": machine}},
        "workerNodeGroupConfigurations": [workers],
    }})
}

fn bundles_ref() -> Value {
    json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "name": "bundles-1", "namespace": SYSTEM})
}

/// Workers; the webhook fills in how many when nobody says.
fn workers(machine: &str, count: Option<u64>) -> Value {
    let machine = json!({"kind": MACHINES.kind, "name": machine});
    match count {
        Some(count) => json!({"name": "md-0", "count": count, "machineGroupRef": machine}),
        None => json!({"name": "md-0", "machineGroupRef": machine}),
    }
}

/// The cluster that manages the others.
fn manager() -> Value {
    let metadata = json!({"name": "mgmt", "namespace": SYSTEM,
        "annotations": {"anywhere.eks.amazonaws.com/managed-by-cli": "true"}});
    written(&metadata, MOST, ("mgmt", "mgmt"), &workers("mgmt", Some(1)))
}

fn bundles() -> Value {
    json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Bundles",
    "metadata": {"name": "bundles-1", "namespace": SYSTEM},
    "spec": {"number": 1, "versionsBundles": [{
        "kubeVersion": "1.31",
        "kubeDistro": {
            "kubernetes": {"repository": "images.example/kubernetes", "tag": "v1.31.4-eks-1-31-12"},
            "etcd": {"repository": "images.example/etcd-io", "tag": "v3.5.16-eks-1-31-12"},
            "coredns": {"repository": "images.example/coredns", "tag": "v1.11.3-eks-1-31-12"},
        },
        "cloudStack": {"kubeVip": {"uri": "images.example/kube-vip:v0.8.7"}},
        "cilium": {"version": "v1.15.9", "image": {"uri": "images.example/cilium:v1.15.9"},
            "operatorImage": {"uri": "images.example/operator-generic:v1.15.9"},
            "manifestConfigMapRef": {"name": "cilium"}},
    }]}})
}

/// The network plugin as a bundle names it.
fn manifests() -> Value {
    let workload = |kind: &str, name: &str, image: &str| {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"selector": {"matchLabels": {"k8s-app": name}}, "template": {"metadata": {"labels": {"k8s-app": name}},
                "spec": {"containers": [{"name": "c", "image": format!("images.example/{image}:v1.15.9")}]}}}})
    };
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cilium-config", "namespace": "kube-system"}, "data": {"enable-policy": "default"}});
    let agent = workload("DaemonSet", "cilium", "cilium");
    let operator = workload("Deployment", "cilium-operator", "operator-generic");
    let check = workload("DaemonSet", "cilium-pre-flight-check", "cilium");
    // JSON is YAML.
    json!({"metadata": {"name": "cilium"}, "data": {"manifest.yaml": format!("{settings}\n---\n{agent}\n---\n{operator}\n"),
        "preflight.yaml": format!("{check}\n")}})
}

/// Clusters as W is measured with them.
pub struct Shapes;

impl Shape for Shapes {
    fn kind(&self) -> Kind {
        CLUSTERS
    }

    fn object(&self, _seed: u64, index: u64) -> Seeded {
        let name = format!("c-{index:08}");
        let metadata = json!({"name": name, "namespace": "default"});
        let object = written(&metadata, index % MOST, ("dc", "m"), &workers("m", Some(2)));
        Seeded { collection: CLUSTERS.within("default"), name, object, managed_fields: Value::Null }
    }

    fn status_patch(&self, round: u64) -> Value {
        json!({"status": {"conditions": [{"type": "Ready", "status": "True", "message": format!("round {round}"),
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]}})
    }
}

/// Definitions of everything that clusters consist of.
pub async fn definitions(stage: &Stage<'_>) -> Result<Vec<Value>> {
    let mut all = stage.documents("crds").await?;
    all.extend(sim::plane::cluster_api_definitions().context("reading the definitions of Cluster API")?);
    all.extend(sim::plane::provider_definitions().context("reading the definitions of the providers")?);
    Ok(all)
}

/// A CloudStack that answers after `delay`, whatever it is asked.
pub async fn start(delay: std::time::Duration) -> Result<Handle> {
    let acs = cloudstack::start(cloudstack::Options::default()).await.context("starting the CloudStack simulator")?;
    acs.script(Fault::on("*", What::Delay(delay)).forever());
    Ok(acs)
}

/// Installs everything but what users write.
pub async fn prepare(pool: &Pool, definitions: &[Value], acs: &Handle) -> Result<()> {
    pool.create_all("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definitions).await?;
    let bundles_kind = Kind { plural: "bundles", kind: "Bundles", ..CLUSTERS };
    let kinds = WRITTEN.into_iter().chain([bundles_kind]).chain(GENERATED.map(|(kind, _)| kind));
    served(pool, &kinds.map(|kind| kind.path()).collect::<Vec<_>>()).await?;
    let names = [TEAM, SYSTEM].map(|name| json!({"metadata": {"name": name}}));
    pool.create_all("/api/v1/namespaces", &names).await.context("creating namespaces")?;
    let secret = credentials("global", acs);
    pool.create_all(&format!("/api/v1/namespaces/{SYSTEM}/secrets"), &[secret]).await.context("storing keys")?;
    pool.create_all(&format!("/api/v1/namespaces/{SYSTEM}/configmaps"), &[manifests()]).await.context("manifests")?;
    pool.create_all(&bundles_kind.within(SYSTEM), &[bundles()]).await.context("creating the bundle")?;
    pool.create_all(&CLUSTERS.within(SYSTEM), &[manager()]).await.context("creating the management cluster")
}

/// Starts the room with its admission webhooks, and waits until the server asks them.
pub async fn subject(stage: &Stage<'_>, server: &Server, pool: &Pool, acs: &Handle) -> Result<Subject> {
    let (certs, port) = (server.cert_dir()?, crate::stage::port(&crate::child::free_address()?)?);
    let flags = [
        "--controllers=clusters".to_owned(),
        "--webhook-bind-host=127.0.0.1".to_owned(),
        format!("--webhook-port={port}"),
        format!("--webhook-cert-dir={}", certs.display()),
        format!("--cloudstack-endpoint-allow={}", acs.endpoint.trim_end_matches("/client/api")),
    ];
    let subject = stage.subject(server, "berth", &flags).await?;
    let ca = std::fs::read_to_string(certs.join("ca.crt")).context("reading the authority")?;
    for mut hooks in stage.documents("webhooks").await? {
        sim::plane::webhooks_by_url(&mut hooks, port, &ca);
        let kind = hooks.get("kind").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}s");
        pool.create_all(&path, &[hooks]).await.context("registering the webhooks")?;
    }
    // What the webhook fills in shows that it was asked.
    let trial = written(&json!({"name": "trial", "namespace": TEAM}), 0, ("dc", "m"), &workers("m", None));
    let until = std::time::Instant::now() + stage.patience();
    let path = format!("{}?dryRun=All", CLUSTERS.within(TEAM));
    loop {
        let answer = pool.ok(0, Method::POST, &path, Body::Json(trial.to_string().into())).await?;
        let answer: Value = serde_json::from_slice(&answer).context("reading a trial cluster")?;
        if answer.pointer("/spec/workerNodeGroupConfigurations/0/count").is_some() {
            return Ok(subject);
        }
        if std::time::Instant::now() > until {
            bail!("the server does not ask the webhooks: {answer}");
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// A request that applies an object as `kubectl apply --server-side` does.
pub fn apply(kind: Kind, object: &Value) -> Result<(Method, String, Body)> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).context("an object without a name")?;
    let path = format!("{}/{name}?{APPLY}", kind.within(TEAM));
    Ok((Method::PATCH, path, Body::Apply(object.to_string().into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cluster_has_an_address_of_its_own_and_none_is_out_of_range() {
        let all: std::collections::BTreeSet<String> = (0..=MOST).map(endpoint).collect();
        assert_eq!(all.len() as u64, MOST + 1);
        assert!(all.contains("192.0.2.250") && all.iter().all(|address| address.parse::<std::net::Ipv4Addr>().is_ok()));
    }

    #[test]
    fn one_cluster_in_ten_is_wrong() {
        assert_eq!((0..100).filter(|number| is_wrong(*number)).count(), 10);
        assert!(!is_wrong(0));
    }
}
