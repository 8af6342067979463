//! The part of the story that is about hosts: tenants claim them without ever seeing one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use sim::metal::oracle::{self, Forgiven};
use sim::metal::{self, Machines};
use sim::record::Record;

use crate::berth::Program;
use crate::demo::{patience, pause};
use crate::story::Story;
use crate::world::{HOSTS, World};

/// The first tenant, and the one that takes over.
const TENANTS: [&str; 2] = ["team-a", "team-b"];
/// Name of each tenant's claim.
const CLAIM: &str = "web";
/// How many hosts there are.
const COUNT: usize = 6;
/// The label that one host alone has.
const SIZE: (&str, &str) = ("size", "s0");

/// Somebody who may make claims in one namespace and see nothing else.
struct Tenant {
    name: &'static str,
    client: Client,
    kubeconfig: PathBuf,
}

impl Tenant {
    fn user_data(&self) -> String {
        format!("#cloud-config of {} only", self.name)
    }
}

/// Tells it, with the API server and Berth running; returns the machines behind the hosts.
pub async fn tell(
    story: &mut Story,
    world: &mut World,
    program: &Program,
    client: &Client,
    dir: &Path,
) -> Result<Arc<Machines>> {
    let log = dir.join("berth.log");
    let machines = story
        .tell("Six hosts are inspected and available, in a namespace of their owner", &log, async {
            let machines = world.start_hosts(COUNT).await?;
            let states = available(client, COUNT).await?;
            Ok((machines, format!("{COUNT} hosts in {HOSTS}: {states}")))
        })
        .await?;
    let record = metal::record(client).await?;

    let [first, second] = story
        .tell("A policy lets two tenants claim them, and neither can see a host", &log, async {
            sim::plane::apply(client, &policy()).await?;
            let mut tenants = Vec::new();
            for name in TENANTS {
                tenants.push(tenant(world, name, dir).await?);
            }
            let mut said = vec![format!("HostDeployPolicy {HOSTS}/tenants admits {}", TENANTS.join(" and "))];
            for tenant in &tenants {
                said.push(format!("{}: {}", tenant.name, blind(tenant).await?));
            }
            let tenants = <[Tenant; 2]>::try_from(tenants).ok().context("two tenants")?;
            Ok((tenants, said.join("\n")))
        })
        .await?;

    let host = story
        .tell("A claim gets a host that fits it, deployed with its image and its data", &log, async {
            let begun = Instant::now();
            claim(&first).await?;
            let host = ready(&first).await?;
            let took = begun.elapsed().as_secs_f64();
            let disk = disk(&machines, &host)?;
            if !disk.contains(&first.user_data()) {
                bail!("the disk of {host} does not hold the tenant's user data: {disk:?}");
            }
            let copies = copies(client).await?;
            judge(&record, &machines).await?;
            Ok((
                host.clone(),
                format!(
                    "Ready after {took:.1} s on {HOSTS}/{host}, which holds the image and the user data\n\
                     the user data went there as Secret {}",
                    copies.keys().cloned().collect::<Vec<_>>().join(", ")
                ),
            ))
        })
        .await?;

    story
        .tell("A claim that no host fits says why: in counts to its tenant, host by host to an admin", &log, async {
            claim(&second).await?;
            let text = waiting(&second).await?;
            let counts = explain(program, &second.kubeconfig)?;
            if !counts.contains(&text) || counts.contains(&host) {
                bail!("the tenant is told:\n{counts}");
            }
            let table = explain(program, &world.plane()?.kubeconfig_path())?;
            let row = table.lines().find(|line| line.contains(&host) && line.contains("InUse:"));
            let Some(row) = row.filter(|row| row.contains(&format!("{}/{CLAIM}", first.name))) else {
                bail!("the admin is told:\n{table}");
            };
            Ok(((), format!("tenant: {text}\nadmin:  {}", row.trim())))
        })
        .await?;

    story
        .tell("Given back, the host is wiped, and the other tenant's claim takes it", &log, async {
            let begun = Instant::now();
            claims(&first.client, first.name)?.delete(CLAIM, &DeleteParams::default()).await.context("deleting")?;
            let next = ready(&second).await?;
            let took = begun.elapsed().as_secs_f64();
            if next != host {
                bail!("{next} was taken, but only {host} fits");
            }
            let disk = disk(&machines, &host)?;
            if disk.contains(first.name) || !disk.contains(&second.user_data()) {
                bail!("the disk of {host} holds {disk:?}");
            }
            let left = copies(client).await?;
            if let Some((name, _)) = left.iter().find(|(_, data)| data.contains(first.name)) {
                bail!("the Secret {name} still holds what {} brought", first.name);
            }
            judge(&record, &machines).await?;
            Ok((
                (),
                format!(
                    "{HOSTS}/{host} is {}'s after {took:.1} s, with nothing of {} on its disk or in a Secret",
                    second.name, first.name
                ),
            ))
        })
        .await?;
    Ok(machines)
}

fn policy() -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
        "metadata": {"namespace": HOSTS, "name": "tenants"},
        "spec": {"hostClaimNamespaces": {"names": TENANTS}},
    })
}

/// Makes a tenant with the rights of the role `hostclaim-editor` and over the secrets of its namespace.
async fn tenant(world: &World, name: &'static str, dir: &Path) -> Result<Tenant> {
    let rules = json!([
        {"apiGroups": ["metal3.io"], "resources": ["hostclaims"], "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "create", "update", "patch", "delete"]},
    ]);
    let document = sim::plane::account(world.plane()?, name, &json!([]), &rules).await?;
    let kubeconfig = dir.join(format!("{name}.kubeconfig"));
    std::fs::write(&kubeconfig, document.to_string()).with_context(|| format!("writing {}", kubeconfig.display()))?;
    let config: Kubeconfig = serde_json::from_value(document).context("reading a kubeconfig")?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(Tenant { name, client: Client::try_from(config)?, kubeconfig })
}

/// What the server answers a tenant that looks for hosts.
async fn blind(tenant: &Tenant) -> Result<String> {
    let hosts = namespaced(&tenant.client, "BareMetalHost", HOSTS)?;
    match hosts.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Ok(format!("hosts are {}", status.reason.to_lowercase()))
        }
        Ok(_) => bail!("{} can read hosts", tenant.name),
        Err(error) => Err(error).context("listing hosts as a tenant"),
    }
}

/// A tenant makes its secret and its claim, with its own rights.
async fn claim(tenant: &Tenant) -> Result<()> {
    let data = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": tenant.name, "name": "cloud-init"},
        "stringData": {"userData": tenant.user_data()},
    });
    sim::plane::apply(&tenant.client, &data).await?;
    let claim = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": {"namespace": tenant.name, "name": CLAIM},
        "spec": {
            "poweredOn": true,
            "hostSelector": {"matchLabels": {SIZE.0: SIZE.1}},
            "image": {"url": "https://images.example/os.qcow2", "checksum": "https://images.example/os.qcow2.sha256"},
            "userData": {"name": "cloud-init"},
        },
    });
    sim::plane::apply(&tenant.client, &claim).await?;
    Ok(())
}

fn namespaced(client: &Client, kind: &str, namespace: &str) -> Result<Api<DynamicObject>> {
    let resource = metal::resource(kind).with_context(|| format!("there is no kind {kind}"))?;
    Ok(Api::namespaced_with(client.clone(), namespace, &resource))
}

fn claims(client: &Client, namespace: &str) -> Result<Api<DynamicObject>> {
    namespaced(client, "HostClaim", namespace)
}

fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A condition of an object.
fn condition<'a>(object: &'a DynamicObject, type_: &str) -> Option<&'a Value> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(type_))
}

/// Waits until all hosts are available.
async fn available(client: &Client, count: usize) -> Result<String> {
    let hosts = namespaced(client, "BareMetalHost", HOSTS)?;
    let begun = Instant::now();
    loop {
        let mut states: BTreeMap<String, usize> = BTreeMap::new();
        for host in hosts.list(&ListParams::default()).await.context("listing hosts")? {
            *states.entry(text(&host, "/status/provisioning/state").to_owned()).or_default() += 1;
        }
        let said: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        if states.get("available") == Some(&count) {
            return Ok(said.join(", "));
        }
        patience(begun, || format!("hosts are {}", said.join(", ")))?;
        pause().await;
    }
}

/// Waits, with the tenant's own eyes, until its claim is ready; returns the host it has.
async fn ready(tenant: &Tenant) -> Result<String> {
    let claims = claims(&tenant.client, tenant.name)?;
    let begun = Instant::now();
    loop {
        let claim = claims.get(CLAIM).await.context("reading a claim")?;
        let is_ready = condition(&claim, "Ready").and_then(|ready| ready.get("status")) == Some(&json!("True"));
        if is_ready {
            return Ok(text(&claim, "/status/bareMetalHost/name").to_owned());
        }
        let status = claim.data.get("status").cloned().unwrap_or_default();
        patience(begun, || format!("{}/{} is not ready: {status}", tenant.name, claim.name_any()))?;
        pause().await;
    }
}

/// Waits until a tenant's claim says why it has no host.
async fn waiting(tenant: &Tenant) -> Result<String> {
    let claims = claims(&tenant.client, tenant.name)?;
    let begun = Instant::now();
    loop {
        let claim = claims.get(CLAIM).await.context("reading a claim")?;
        let told = condition(&claim, "Associated").and_then(|told| told.get("message")).and_then(Value::as_str);
        if let Some(told) = told.filter(|told| told.starts_with(&format!("0/{COUNT} hosts fit"))) {
            return Ok(told.to_owned());
        }
        patience(begun, || format!("the claim of {} says {told:?}", tenant.name))?;
        pause().await;
    }
}

/// What `berth explain` tells whoever has this kubeconfig about the second tenant's claim.
fn explain(program: &Program, kubeconfig: &Path) -> Result<String> {
    let [_, tenant] = TENANTS;
    let (subject, kubeconfig) = (format!("hostclaim/{CLAIM}"), kubeconfig.to_string_lossy());
    match program.run(&["explain", &subject, "-n", tenant, "--kubeconfig", &kubeconfig])? {
        (Some(0), out, _) => Ok(out),
        (code, out, err) => bail!("`berth explain` ended with {code:?}\n{out}{err}"),
    }
}

/// What is on the disk of a host.
fn disk(machines: &Machines, host: &str) -> Result<metal::Disk> {
    machines.disk(HOSTS, host).with_context(|| format!("the disk of {host} is empty"))
}

/// What lies beside the hosts for them to read, by the name of the Secret.
async fn copies(client: &Client) -> Result<BTreeMap<String, String>> {
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(client.clone(), HOSTS);
    let copied = ListParams::default().labels(oracle::CLAIM_UID);
    let list = secrets.list(&copied).await.context("listing the copies")?;
    let text = |secret: &k8s_openapi::api::core::v1::Secret| {
        let data = secret.data.iter().flatten().map(|(_, value)| String::from_utf8_lossy(&value.0).into_owned());
        data.collect::<Vec<_>>().join("\n")
    };
    Ok(list.iter().map(|secret| (secret.name_any(), text(secret))).collect())
}

/// Every promise about claims, hosts and disks held at every revision so far.
async fn judge(record: &Record, machines: &Machines) -> Result<()> {
    let breaches = oracle::judge(&record.history().await?, &machines.changes(), Forgiven::default());
    match breaches.first() {
        None => Ok(()),
        Some(first) => bail!("a promise was broken: {first}"),
    }
}
