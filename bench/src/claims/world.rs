//! Hosts, tenants and their claims.

use anyhow::{Context, Result, bail};
use http::Method;
use serde_json::{Value, json};
use sim::metal::{hardware, kinds, seed};

use crate::http::{Body, Pool, served};
use crate::scenario::{Kind, Seeded, Shape};
use crate::server::Server;
use crate::stage::{Stage, Subject};
use crate::store::stored;

/// Claims of all namespaces.
pub const CLAIMS: Kind = Kind { group: "metal3.io", version: "v1alpha1", plural: "hostclaims", kind: "HostClaim" };
/// Hosts of all namespaces.
pub const HOSTS: Kind =
    Kind { group: "metal3.io", version: "v1alpha1", plural: "baremetalhosts", kind: "BareMetalHost" };

/// Namespaces that hosts are spread over.
const INFRASTRUCTURE: u64 = 50;
/// A selector of a claim fits one host in so many.
const SIZES: u64 = 10;

/// Tenants a number of claims is spread over.
pub fn tenants(claims: u64) -> u64 {
    claims.clamp(1, 500)
}

/// The namespace of a tenant.
pub fn tenant(number: u64) -> String {
    format!("tenant-{number:04}")
}

fn infrastructure(number: u64) -> String {
    format!("infra-{:02}", number % INFRASTRUCTURE)
}

/// A claim that reserves a host, one in ten of which fits it.
pub fn claim(namespace: &str, name: &str, number: u64) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": {"example.test/team": format!("team-{}", number % 40)}},
        "spec": {"poweredOn": false, "kind": "baremetal",
            "hostSelector": {"matchLabels": {"size": format!("s{}", number % SIZES)}}},
    })
}

/// A request that creates a claim.
pub fn create(namespace: &str, name: &str, number: u64) -> (Method, String, Body) {
    let body = Body::Json(claim(namespace, name, number).to_string().into());
    (Method::POST, CLAIMS.within(namespace), body)
}

/// Claims as W is measured with them.
pub struct Shapes;

impl Shape for Shapes {
    fn kind(&self) -> Kind {
        CLAIMS
    }

    fn object(&self, _seed: u64, index: u64) -> Seeded {
        let name = format!("claim-{index:08}");
        let object = claim("default", &name, index);
        Seeded { collection: CLAIMS.within("default"), name, object, managed_fields: Value::Null }
    }

    fn status_patch(&self, round: u64) -> Value {
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": type_, "message": format!("round {round}"),
                "observedGeneration": 1, "lastTransitionTime": "2026-01-02T03:04:05Z"})
        };
        let conditions: Vec<Value> = ["Associated", "Available", "Ready", "Synchronized"].map(condition).into();
        json!({"status": {"conditions": conditions}})
    }

    fn patched(&self) -> Option<&dyn Shape> {
        Some(&HostShapes)
    }
}

/// Hosts as W is measured with them: a bind is a patch of a host.
struct HostShapes;

impl Shape for HostShapes {
    fn kind(&self) -> Kind {
        HOSTS
    }

    fn object(&self, _seed: u64, index: u64) -> Seeded {
        let name = format!("host-{index:08}");
        let plain = seed::host("default", &name, &json!({"size": "s1"}));
        let object = seed::settled(&plain, jiff::Timestamp::UNIX_EPOCH);
        Seeded { collection: HOSTS.within("default"), name, object, managed_fields: Value::Null }
    }

    fn status_patch(&self, round: u64) -> Value {
        json!({"status": {"errorCount": round}})
    }
}

/// Definitions of everything that claims and hosts consist of.
pub async fn definitions(stage: &Stage<'_>) -> Result<Vec<Value>> {
    let mut all = stage.documents("crds").await?;
    all.extend(kinds::definitions());
    Ok(all)
}

/// Installs definitions, namespaces and a policy for each place of hosts.
pub async fn prepare(pool: &Pool, definitions: &[Value], namespaces: Vec<String>) -> Result<()> {
    pool.create_all("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definitions).await?;
    let policies = Kind { plural: "hostdeploypolicies", kind: "HostDeployPolicy", ..CLAIMS };
    served(pool, &[CLAIMS.path(), HOSTS.path(), policies.path()]).await?;
    let places = (0..INFRASTRUCTURE).map(infrastructure);
    let all: Vec<Value> = places.clone().chain(namespaces).map(|name| json!({"metadata": {"name": name}})).collect();
    pool.create_all("/api/v1/namespaces", &all).await.context("creating namespaces")?;
    for place in places {
        let policy = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
            "metadata": {"name": "tenants", "namespace": place},
            "spec": {"hostClaimNamespaces": {"nameMatches": "^tenant-|^flood$"}},
        });
        pool.create_all(&policies.within(&place), &[policy]).await.context("creating policies")?;
    }
    Ok(())
}

/// Makes hosts that are inspected and available, as their controller would leave them.
pub async fn hosts(server: &Server, count: u64) -> Result<()> {
    let (now, store) = (jiff::Timestamp::now(), server.store());
    let plain = |n: usize| seed::host(&infrastructure(n as u64), &format!("host-{n:05}"), &json!(seed::labels(n)));
    let count = usize::try_from(count).context("too many hosts")?;
    let data = Kind { plural: "hardwaredata", kind: "HardwareData", ..HOSTS };
    let found = |n: usize| {
        let host = serde_json::from_value(plain(n)).context("reading a host")?;
        let mut object = hardware::data(&host, &hardware::of(&host));
        // The owner would have to be named by its uid, and goes with the whole server anyway.
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("ownerReferences");
        }
        Ok(stored(object, (count + n) as u64))
    };
    store.put(data, count, found).await?;
    store.put(HOSTS, count, |n| Ok(stored(seed::settled(&plain(n), now), n as u64))).await
}

/// Makes the Secrets that hosts name, which Metal3's own controller asks for before it leaves a host as it is.
pub async fn credentials(pool: &Pool, hosts: u64) -> Result<()> {
    let count = usize::try_from(hosts).context("too many hosts")?;
    let make = |n: usize| {
        let secret = json!({
            "metadata": {"name": format!("host-{n:05}-bmc"), "labels": {"environment.metal3.io": "baremetal"}},
            "stringData": {"username": "admin", "password": "of-no-use"},
        });
        let path = format!("/api/v1/namespaces/{}/secrets", infrastructure(n as u64));
        Ok((Method::POST, path, Body::Json(secret.to_string().into())))
    };
    pool.many(count, 64, make).await.map(drop).context("creating Secrets")
}

/// Starts rooms with their admission webhooks on a port, and waits until the server asks them.
pub async fn start(
    stage: &Stage<'_>,
    server: &Server,
    pool: &Pool,
    (rooms, port): (&str, u16),
    tenant: &str,
) -> Result<Subject> {
    let certs = server.cert_dir()?;
    let flags = [
        format!("--controllers={rooms}"),
        "--webhook-bind-host=127.0.0.1".to_owned(),
        format!("--webhook-port={port}"),
        format!("--webhook-cert-dir={}", certs.display()),
    ];
    let subject = stage.subject(server, "berth", &flags).await?;
    let ca = std::fs::read_to_string(certs.join("ca.crt")).context("reading the authority")?;
    for mut hooks in stage.documents("webhooks").await? {
        sim::plane::webhooks_by_url(&mut hooks, port, &ca);
        let kind = hooks.get("kind").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}s");
        pool.create_all(&path, &[hooks]).await.context("registering the webhooks")?;
    }
    let until = std::time::Instant::now() + stage.patience();
    loop {
        let (method, path, body) = create(tenant, "trial", 0);
        let answer = pool.ok(0, method, &format!("{path}?dryRun=All"), body).await?;
        let answer: Value = serde_json::from_slice(&answer).context("reading a trial claim")?;
        if answer.pointer("/metadata/finalizers/0").is_some() {
            return Ok(subject);
        }
        if std::time::Instant::now() > until {
            bail!("the server does not ask the webhooks: {answer}");
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
