//! The pages about hosts for tenants: what the owner does and what the tenant does, each with the rights that the pages give.

use std::sync::Arc;

use kube::Client;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};
use sim::metal::{self, Machines, Settings, Simulator};
use sim::plane::{self, Plane};
use sim::wait::within;

use crate::pod::{self, Ports};
use crate::release;
use crate::shell::Shell;
use crate::walk::Walk;
use crate::{BOUND, condition, namespace};

const METAL: &str = "metal";
const TEAM: &str = "team-a";
const HOST: &str = "rack1-node1";
/// What the page hands to its machine.
const DATA: &str = "hostname: web-1";

async fn look(client: &Client, kind: &str, place: &str, name: &str) -> Option<Value> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), place, &metal::resource(kind).unwrap());
    serde_json::to_value(api.get_opt(name).await.unwrap()?).ok()
}

/// Waits until a claim looks like this.
async fn claim(client: &Client, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    within(BOUND, &format!("{name} {what}"), async || {
        look(client, "HostClaim", TEAM, name).await.filter(|claim| is(claim))
    })
    .await
}

fn is_true(claim: &Value, kind: &str) -> bool {
    condition(claim, kind)["status"] == "True"
}

/// What drives the hosts.
fn operator(client: &Client) -> Arc<Machines> {
    let simulator = Simulator::new(client.clone(), Settings { labelled_only: true, ..Settings::default() });
    let machines = simulator.machines();
    tokio::spawn(simulator.run());
    machines
}

/// Somebody who has the role of the page in the team's namespace and nothing else.
async fn tenant(plane: &Plane, client: &Client, test: &str) -> Shell {
    let (version, meta) = ("rbac.authorization.k8s.io/v1", json!({"name": "tenant", "namespace": TEAM}));
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta});
    let binding = json!({"apiVersion": version, "kind": "RoleBinding", "metadata": meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "claims"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": TEAM}]});
    for object in [account, binding] {
        plane::apply(client, &object).await.unwrap();
    }
    let kubeconfig = plane.dir().join("tenant.kubeconfig");
    let document = pod::kubeconfig(plane, TEAM, "tenant").await;
    std::fs::write(&kubeconfig, document.to_string()).unwrap();
    let shell = release::shell(test, &kubeconfig, Ports::free()).unwrap();
    within(BOUND, "the tenant's rights are known", async || {
        let looked = tokio::task::block_in_place(|| shell.run("kubectl --namespace team-a get hostclaims,secrets"));
        looked.status.success().then_some(())
    })
    .await;
    shell
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_opens_a_host_and_the_tenant_has_it_and_gives_it_back() {
    let test = "the_owner_opens_a_host_and_the_tenant_has_it_and_gives_it_back";
    let Some(plane) = crate::plane(test) else { return };
    let ports = Ports::free();
    let Some(owner) = release::shell(test, &plane.kubeconfig_path(), ports) else { return };
    let owner = owner.without("make");
    let client = plane.client().await.unwrap();
    plane::install_crds(&client, metal::kinds::definitions()).await.unwrap();
    namespace(&client, METAL).await;
    namespace(&client, TEAM).await;
    let machines = operator(&client);

    let (mut page, begin) = (Walk::of("claims/admin.md"), "What you need");
    page.command(&owner, begin, "helm install");
    let mut berth = release::run(&plane, &client, ports, &[], &[]).await;
    berth.is_asked(&client).await;
    page.command(&owner, begin, "berth doctor");
    page.command(&owner, begin, "make sandbox");
    page.manifests(&owner, "Hosts");
    within(BOUND, "the host is available", async || {
        let host = look(&client, "BareMetalHost", METAL, HOST).await?;
        (host["status"]["provisioning"]["state"] == "available").then_some(())
    })
    .await;
    let hosts = page.command(&owner, "Hosts", "berth hosts");
    assert!(hosts.contains(HOST) && hosts.contains("available"), "{hosts}");
    for section in ["Policies: who may have which host", "Quotas", "Rights"] {
        page.manifests(&owner, section);
    }

    let (mut theirs, tenant) = (Walk::of("claims/tenant.md"), tenant(&plane, &client, test).await);
    theirs.manifests(&tenant, "Reserve one");
    let reserved = claim(&client, "web-1", "is ready", |claim| is_true(claim, "Ready")).await;
    assert_eq!(reserved["status"]["bareMetalHost"], json!({"namespace": METAL, "name": HOST}));
    assert_eq!(reserved["status"]["failureDomain"], "rack-1");
    for field in ["addresses", "nics", "bootMACAddress", "hostMetadata"] {
        assert!(!reserved["status"][field].is_null(), "{field}: {reserved}");
    }
    for command in ["kubectl", "berth claims"] {
        let told = theirs.command(&tenant, "Reserve one", command);
        assert!(told.contains("web-1") && told.contains("True"), "{told}");
    }
    assert_eq!(machines.disk(METAL, HOST), None);

    theirs.manifests(&tenant, "Deploy");
    let told = theirs.command(&tenant, "Deploy", "kubectl --namespace team-a wait --for=condition=Ready");
    assert_eq!(told, "hostclaim.metal3.io/web-1 condition met\n");
    claim(&client, "web-1", "runs", |claim| is_true(claim, "Provisioned") && is_true(claim, "Ready")).await;
    let disk = machines.disk(METAL, HOST).unwrap();
    assert!(disk.user_data.as_ref().is_some_and(|data| data.contains(DATA)), "{disk:?}");

    theirs.manifests(&tenant, "Say more precisely what you want");
    let waits = |claim: &Value| {
        let message = condition(claim, "Associated")["message"].as_str().unwrap_or_default();
        message.starts_with("0/1 hosts fit: 1 ")
    };
    claim(&client, "build-1", "waits", waits).await;
    let told = theirs.command(&tenant, "Why do I have none?", "berth explain");
    assert!(told.contains("web-1"), "{told}");

    let who = "Who has what";
    for (command, all) in
        [("berth hosts", [HOST, "web-1"]), ("berth claims", ["web-1", "build-1"]), ("berth explain", ["web-1", HOST])]
    {
        let told = page.command(&owner, who, command);
        assert!(all.iter().all(|name| told.contains(name)), "{told}");
    }
    page.end();

    let offs = || machines.get(METAL, HOST).unwrap().power_offs;
    let before = offs();
    theirs.command(&tenant, "Use it", "kubectl");
    claim(&client, "web-1", "was rebooted", |claim| {
        offs() > before && claim["metadata"]["annotations"]["reboot.metal3.io"].is_null()
    })
    .await;
    claim(&client, "web-1", "runs again", |claim| claim["status"]["poweredOn"] == true).await;

    theirs.command(&tenant, "Give it back", "kubectl");
    assert!(look(&client, "HostClaim", TEAM, "web-1").await.is_none(), "kubectl waits until it is gone");
    assert_eq!(machines.disk(METAL, HOST), None);
    theirs.end();
    berth.stop();
}
