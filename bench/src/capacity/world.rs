//! Groups of machines at zero replicas, their templates and clusters, and a cloud.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use http::Method;
use serde_json::{Value, json};
use sim::ec2::{Handle, catalogue};

use crate::ceiling::{CONNECTIONS, IN_FLIGHT};
use crate::cloud::{credentials, provider};
use crate::http::{Body, Pool, served};
use crate::oracle::each;
use crate::scenario::{Dice, Kind, Seeded, Shape};
use crate::server::Server;
use crate::store::stored;

/// Groups of all namespaces.
pub const GROUPS: Kind =
    Kind { group: "cluster.x-k8s.io", version: "v1beta2", plural: "machinedeployments", kind: "MachineDeployment" };
/// Templates of all namespaces.
pub const TEMPLATES: Kind = Kind {
    group: "infrastructure.cluster.x-k8s.io",
    version: "v1beta2",
    plural: "awsmachinetemplates",
    kind: "AWSMachineTemplate",
};
/// The annotation that stands for all.
pub const CPU: &str = "/metadata/annotations/capacity.cluster-autoscaler.kubernetes.io~1cpu";

/// The domains of the annotations that are written.
const ABOUT: [&str; 2] = ["cluster-autoscaler.kubernetes.io/", "berth.dev/"];
const NAMESPACES: u64 = 50;
/// Templates in each namespace.
const TEMPLATES_EACH: u64 = 4;
const REGION: &str = "us-east-1";

/// The namespace of the n-th group.
fn namespace(number: u64) -> String {
    format!("fleet-{:02}", number % NAMESPACES)
}

/// The types that templates name, some of each family.
pub fn types(count: u64) -> Vec<catalogue::InstanceType> {
    let all = catalogue::all();
    let step = (all.len() / usize::try_from(count.max(1)).unwrap_or(1)).max(1);
    all.into_iter().step_by(step).take(usize::try_from(count).unwrap_or(usize::MAX)).collect()
}

/// Pages in which the cloud lists all its types.
pub fn pages() -> usize {
    catalogue::all().len().div_ceil(100)
}

/// A group at zero replicas, with the metadata of one in use.
fn group(namespace: &str, name: &str, template: &str, number: u64) -> Value {
    let mut dice = Dice::new(1, number);
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "example.test/pool": name});
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {
            "name": name, "namespace": namespace, "labels": {"cluster.x-k8s.io/cluster-name": "c", "example.test/tier": format!("tier-{}", number % 7)},
            "annotations": {
                "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "0",
                "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "20",
                "example.test/contact": format!("team-{}@example.test", number % 40),
                "example.test/ticket": format!("{:016x}{:016x}", dice.next(), dice.next()),
            },
        },
        "spec": {
            "clusterName": "c", "replicas": 0, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": {"example.test/build": format!("{:016x}", dice.next())}},
                "spec": {
                    "clusterName": "c", "version": "v1.34.1", "bootstrap": {"dataSecretName": format!("{name}-bootstrap")},
                    "infrastructureRef": {"apiGroup": TEMPLATES.group, "kind": TEMPLATES.kind, "name": template},
                },
            },
        },
    })
}

/// The n-th group.
fn nth(prefix: &str, number: u64) -> Value {
    let template = format!("template-{}", number / NAMESPACES % TEMPLATES_EACH);
    group(&namespace(number), &format!("{prefix}-{number:06}"), &template, number)
}

/// A request that creates the n-th group.
pub fn create(prefix: &str, number: u64) -> (Method, String, Body) {
    (Method::POST, GROUPS.within(&namespace(number)), Body::Json(nth(prefix, number).to_string().into()))
}

/// A request that creates a group whose template is not there yet.
pub fn create_early(number: u64) -> (Method, String, Body) {
    let (namespace, name) = (namespace(number), format!("late-{number:06}"));
    let body = group(&namespace, &name, &name, number).to_string();
    (Method::POST, GROUPS.within(&namespace), Body::Json(body.into()))
}

/// A request that creates that template.
pub fn create_late(number: u64, types: &[catalogue::InstanceType]) -> Result<(Method, String, Body)> {
    let namespace = namespace(number);
    let kind = types.get(number as usize % types.len().max(1)).context("no types")?;
    let body = template(&namespace, &format!("late-{number:06}"), &kind.name).to_string();
    Ok((Method::POST, TEMPLATES.within(&namespace), Body::Json(body.into())))
}

fn template(namespace: &str, name: &str, instance_type: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"spec": {"instanceType": instance_type, "rootVolume": {"size": 120}}}},
    })
}

/// Groups as W is measured with them.
pub struct Shapes;

impl Shape for Shapes {
    fn kind(&self) -> Kind {
        GROUPS
    }

    fn object(&self, _seed: u64, index: u64) -> Seeded {
        let name = format!("group-{index:08}");
        let object = group("default", &name, "template-0", index);
        Seeded { collection: GROUPS.within("default"), name, object, managed_fields: Value::Null }
    }

    fn status_patch(&self, round: u64) -> Value {
        json!({"status": {"observedGeneration": round + 1}})
    }
}

/// Definitions of everything that is annotated or looked at; those of the AWS provider with an open schema.
pub fn definitions() -> Result<Vec<Value>> {
    let mut all = crate::seed::cluster_api(&["clusters", "machinedeployments", "machinesets"])?;
    all.extend(["AWSMachineTemplate", "AWSCluster"].map(provider));
    Ok(all)
}

/// Installs everything but groups: definitions, namespaces, credentials, clusters and templates.
pub async fn prepare(
    pool: &Pool,
    definitions: &[Value],
    ec2: &Handle,
    types: &[catalogue::InstanceType],
) -> Result<()> {
    pool.create_all("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definitions).await?;
    let clusters = Kind { plural: "clusters", kind: "Cluster", ..GROUPS };
    let provided = Kind { plural: "awsclusters", kind: "AWSCluster", ..TEMPLATES };
    served(pool, &[GROUPS.path(), TEMPLATES.path(), clusters.path(), provided.path()]).await?;
    let names: Vec<Value> = (0..NAMESPACES).map(|n| json!({"metadata": {"name": namespace(n)}})).collect();
    pool.create_all("/api/v1/namespaces", &names).await.context("creating namespaces")?;
    credentials(pool, ec2).await?;
    for n in 0..NAMESPACES {
        let space = namespace(n);
        let infrastructure = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
            "metadata": {"name": "c", "namespace": space}, "spec": {"region": REGION}});
        pool.create_all(&provided.within(&space), &[infrastructure]).await.context("creating clusters")?;
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": space}, "spec": {
                "controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443},
                "infrastructureRef": {"apiGroup": TEMPLATES.group, "kind": "AWSCluster", "name": "c"}}});
        pool.create_all(&clusters.within(&space), &[cluster]).await.context("creating clusters")?;
        let each = (0..TEMPLATES_EACH).map(|t| {
            let kind =
                types.get(((n * TEMPLATES_EACH + t) % types.len().max(1) as u64) as usize).context("no types")?;
            Ok(template(&space, &format!("template-{t}"), &kind.name))
        });
        let each: Vec<Value> = each.collect::<Result<_>>()?;
        pool.create_all(&TEMPLATES.within(&space), &each).await.context("creating templates")?;
    }
    Ok(())
}

/// Makes groups that nobody has looked at yet.
pub async fn fill(server: &Server, count: u64) -> Result<()> {
    let count = usize::try_from(count).context("too many groups")?;
    server.store().put(GROUPS, count, |n| Ok(stored(nth("group", n as u64), n as u64))).await
}

/// Calls of a cloud by operation.
pub fn calls(ec2: &Handle) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    for entry in ec2.log() {
        *calls.entry(entry.action).or_default() += 1;
    }
    calls
}

/// Writes to every group the annotations that it has by now, with other values; the seconds that it took a client that thinks
/// about none of them.
pub async fn annotate_again(server: &Server) -> Result<f64> {
    let pool = Pool::connect(&server.kubeconfig(), CONNECTIONS, "berth-bench-driver").await?;
    let mut all = Vec::new();
    each(&pool, &GROUPS.path(), |group| {
        let text = |pointer: &str| group.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = format!("{}/{}", GROUPS.within(&text("/metadata/namespace")), text("/metadata/name"));
        all.push((path, other_values(group).to_string()));
    })
    .await?;
    let make = |n: usize| {
        let (path, change) = all.get(n).context("no such group")?;
        Ok((Method::PATCH, path.clone(), Body::Merge(change.clone().into())))
    };
    let (_, seconds) = pool.many(all.len(), IN_FLIGHT, make).await.context("annotating everything again")?;
    Ok(seconds)
}

/// A patch that changes every annotation about capacity and nothing else.
fn other_values(group: &Value) -> Value {
    let annotations = group.pointer("/metadata/annotations").and_then(Value::as_object);
    let ours = annotations.into_iter().flatten().filter(|(key, _)| ABOUT.iter().any(|domain| key.contains(domain)));
    let changed = ours.map(|(key, value)| (key.clone(), format!("{}0", value.as_str().unwrap_or_default()).into()));
    json!({"metadata": {"annotations": Value::Object(changed.collect())}})
}

/// Everything that is wrong when every one of `count` groups should say what its type offers.
pub async fn judge(pool: &Pool, count: usize) -> Result<Vec<String>> {
    let mut offers = BTreeMap::new();
    each(pool, &TEMPLATES.path(), |template| {
        let text = |pointer: &str| template.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = (text("/metadata/namespace"), text("/metadata/name"));
        offers.insert(key, text("/spec/template/spec/instanceType"));
    })
    .await?;
    let known: BTreeMap<String, u32> = catalogue::all().into_iter().map(|kind| (kind.name, kind.vcpus)).collect();
    let (mut found, mut wrong) = (0, Vec::new());
    each(pool, &GROUPS.path(), |group| {
        let text = |pointer: &str| group.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = (text("/metadata/namespace"), text("/spec/template/spec/infrastructureRef/name"));
        let wanted = offers.get(&key).and_then(|kind| known.get(kind)).map(u32::to_string).unwrap_or_default();
        let memory = text("/metadata/annotations/capacity.cluster-autoscaler.kubernetes.io~1memory");
        found += 1;
        if wanted.is_empty() || text(CPU) != wanted || memory.is_empty() {
            wrong.push(format!("{}/{} says cpu {:?} instead of {wanted:?}", key.0, text("/metadata/name"), text(CPU)));
        }
    })
    .await?;
    if found != count {
        wrong.push(format!("{found} groups instead of {count}"));
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_name_as_many_types_as_asked_for() {
        for count in [1, 40, 100] {
            assert_eq!(types(count).len() as u64, count);
        }
        assert!(pages() > 10);
    }

    #[test]
    fn all_that_is_written_about_capacity_is_written_again_with_other_values() {
        let group = json!({"metadata": {"annotations": {"capacity.cluster-autoscaler.kubernetes.io/cpu": "4",
            "berth.dev/a": "b", "example.test/c": "d"}}});
        let expected = json!({"metadata": {"annotations":
            {"capacity.cluster-autoscaler.kubernetes.io/cpu": "40", "berth.dev/a": "b0"}}});
        assert_eq!(other_values(&group), expected);
    }

    #[test]
    fn groups_are_of_a_realistic_size_and_spread_over_namespaces_and_templates() {
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..200 {
            let (_, path, Body::Json(body)) = create("group", number) else { panic!("no body") };
            let object: Value = serde_json::from_slice(&body).unwrap();
            seen.insert((path, object["spec"]["template"]["spec"]["infrastructureRef"]["name"].to_string()));
            // The server adds its creator's fields, defaults, identity and times: about as much again.
            assert!((700..6 << 10).contains(&body.len()), "{}", body.len());
        }
        assert_eq!(seen.len() as u64, NAMESPACES * TEMPLATES_EACH);
    }
}
