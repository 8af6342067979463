//! The kinds, namespaces, class and pools that clusters are made with.

use anyhow::{Context, Result};
use http::Method;
use serde_json::{Value, json};
use sim::dock::objects::{self, Class};

use crate::http::{Body, Pool, served};

/// The class of every cluster.
pub const CLASS: &str = "bench";
const NAMESPACES: u64 = 50;
/// 3 pools of 65,000 addresses.
const POOLS: [(&str, &str); 3] = [
    ("pool-a", "10.64.0.1-10.64.255.254"),
    ("pool-b", "10.65.0.1-10.65.255.254"),
    ("pool-c", "10.66.0.1-10.66.255.254"),
];

/// `namespace` and `name` of a cluster.
pub type Name = (String, String);

/// What is the same in every run.
pub struct World;

impl World {
    /// Installs everything on a fresh server.
    pub async fn prepare(pool: &Pool) -> Result<Self> {
        let definitions = sim::plane::cluster_api_definitions().context("reading the definitions")?;
        for definition in &definitions {
            post(pool, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await?;
        }
        let clusters = ["clusters", "clusterclasses"].map(|kind| format!("/apis/cluster.x-k8s.io/v1beta2/{kind}"));
        let addresses = ["v1beta2/ipaddressclaims", "v1beta2/ipaddresses", "v1alpha2/globalinclusterippools"]
            .map(|kind| format!("/apis/ipam.cluster.x-k8s.io/{kind}"));
        served(pool, &[&clusters[..], &addresses[..]].concat()).await?;
        for number in 0..NAMESPACES {
            let namespace = namespace(number);
            post(pool, "/api/v1/namespaces", &objects::namespace(&namespace, &json!({}))).await?;
        }
        let home = namespace(0);
        let class = Class::managed(&home, CLASS, "vip-allocator").objects().pop().context("a class")?;
        post(pool, &format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{home}/clusterclasses"), &class).await?;
        for (name, addresses) in POOLS {
            let object = objects::pool(name, CLASS, addresses);
            post(pool, "/apis/ipam.cluster.x-k8s.io/v1alpha2/globalinclusterippools", &object).await?;
        }
        Ok(Self)
    }

    /// Names for new clusters, spread over the namespaces.
    pub fn names(&self, prefix: &str, count: u64) -> Vec<Name> {
        (0..count).map(|n| (namespace(n % NAMESPACES), format!("{prefix}-{n:05}"))).collect()
    }
}

fn namespace(number: u64) -> String {
    format!("bench-{number:02}")
}

/// A new cluster.
pub fn cluster((namespace, name): &Name) -> Value {
    let class = json!({"spec": {"topology": {"classRef": {"namespace": self::namespace(0)}}}});
    objects::merged(objects::cluster(namespace, name, CLASS), &class)
}

/// The collection of a namespace's clusters.
pub fn clusters(namespace: &str) -> String {
    format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/clusters")
}

async fn post(pool: &Pool, path: &str, object: &Value) -> Result<()> {
    pool.ok(0, Method::POST, path, Body::Json(object.to_string().into())).await.map(drop)
}
