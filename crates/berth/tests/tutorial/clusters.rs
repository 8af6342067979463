//! The page about clusters on CloudStack: from nothing to a cluster, through its upgrade, to its last machine. Cluster API and
//! its kubeadm managers are real, the CloudStack is the strict simulator, its provider and the control planes are played.

use std::collections::BTreeSet;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::cloudstack::Handle;
use sim::cloudstack::world::machine::State;
use sim::provider::Provider;
use sim::wait::seek;

use crate::ground::{Ground, own};
use crate::pages::root;
use crate::pod::{self, Pod, Ports};
use crate::release::{self, HOME};
use crate::walk::Walk;
use crate::{BOUND, condition};

const TEAM: &str = "team-a";
const SYSTEM: &str = "eksa-system";
const ANYWHERE: &str = "anywhere.eks.amazonaws.com";
const CORE: &str = "cluster.x-k8s.io";

fn api(client: &Client, (group, version, kind): (&str, &str, &str), place: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), place, &resource)
}

async fn all(client: &Client, kind: (&str, &str, &str), place: &str) -> Vec<Value> {
    let found = api(client, kind, place).list(&ListParams::default()).await.unwrap().items;
    found.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
}

/// The virtual machines that are not gone.
fn virtual_machines(acs: &Handle) -> BTreeSet<String> {
    acs.machines().into_iter().filter(|machine| machine.state != State::Gone).map(|machine| machine.id).collect()
}

/// Waits until the cluster is as it was written last, with so many machines, all of this version and no other.
async fn carried_out(
    berth: &mut Pod,
    (acs, provider): (&Handle, &Provider),
    client: &Client,
    (version, count): (&str, usize),
) -> Value {
    let mut last = Value::Null;
    let found = seek(BOUND, async || {
        assert!(berth.process.failure().is_none(), "Berth has ended:\n{}", berth.process.log_tail());
        let cluster = api(client, (ANYWHERE, "v1alpha1", "Cluster"), TEAM).get("prod").await.unwrap();
        let cluster = serde_json::to_value(cluster).unwrap();
        let machines = all(client, (CORE, "v1beta2", "Machine"), SYSTEM).await;
        let new = |machine: &&Value| machine["spec"]["version"].as_str().is_some_and(|one| one.starts_with(version));
        let done = condition(&cluster, "Ready")["status"] == "True"
            && cluster["status"]["reconciledGeneration"] == cluster["metadata"]["generation"]
            && machines.len() == count
            && machines.iter().filter(new).count() == count
            && virtual_machines(acs).len() == count;
        last = cluster["status"].clone();
        done.then_some(cluster)
    });
    match found.await {
        Some(cluster) => cluster,
        None => panic!(
            "no {count} machines of {version} within {BOUND:?}: {last:#}\n{}\n{}",
            provider.complaints().join("\n"),
            berth.process.log_tail()
        ),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_made_upgraded_and_grown_and_leaves_nothing_behind() {
    let test = "a_cluster_is_made_upgraded_and_grown_and_leaves_nothing_behind";
    let Some(plane) = crate::plane(test) else { return };
    if !plane.has_controllers() {
        eprintln!("SKIPPED {test}: this server runs without a garbage collector");
        return;
    }
    let ports = Ports::free();
    let Some(shell) = release::shell(test, &plane.kubeconfig_path(), ports) else { return };
    let client = plane.client().await.unwrap();
    let Ground { acs, provider, managers: _managers } = Ground::lay(&plane, &client).await.unwrap();
    let acs = &acs;
    let shell = shell
        .without("make")
        .variable("BERTH_CLOUDSTACK_ENDPOINT", &acs.endpoint)
        .variable("BERTH_CLOUDSTACK_API_KEY", &acs.api_key)
        .variable("BERTH_CLOUDSTACK_SECRET_KEY", &acs.secret_key);

    let (mut page, section) = (Walk::of("clusters/tutorial.md"), "Before you begin");
    page.command(&shell, section, "helm install");
    let allowed = format!("--cloudstack-endpoint-allow={}", acs.endpoint.trim_end_matches("/client/api"));
    let mut berth = release::run(&plane, &client, ports, &[allowed], &[]).await;
    let written = std::fs::read_to_string(root().join("book/examples/clusters/cluster.yaml")).unwrap();
    let mut even: Value = serde_saphyr::from_str(&written).unwrap();
    even["spec"]["controlPlaneConfiguration"]["count"] = json!(2);
    release::refuses(&mut berth, &client, &even, "must be odd").await;
    page.command(&shell, section, "berth doctor");
    // The sandbox has the same world for people.
    page.command(&shell, section, "make sandbox");
    for (own, made_up) in own(acs) {
        page.put(own, made_up);
    }
    page.manifests(&shell, "The ground");
    page.command(&shell, "The ground", "sed");

    let section = "The cluster";
    page.manifests(&shell, section);
    page.command(&shell, section, "sed");
    page.command(&shell, section, "helm upgrade");
    // Helm made the Services what they were.
    pod::lead_here(&client, HOME).await;
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), HOME);
    let policy = serde_json::to_string(&policies.get("berth").await.unwrap().spec).unwrap();
    assert!(policy.contains("198.51.100.7/32") && policy.contains("8080"), "{policy}");
    release::refuses(&mut berth, &client, &even, "must be odd").await;
    page.manifests(&shell, section);
    let cluster = carried_out(&mut berth, (acs, &provider), &client, ("v1.31.", 3)).await;
    for kind in ["ControlPlaneInitialized", "ControlPlaneReady", "DefaultCNIConfigured", "WorkersReady", "Ready"] {
        assert_eq!(condition(&cluster, kind)["status"], "True", "{kind}: {cluster}");
    }
    let told = page.command(&shell, section, "kubectl get eksac,csdc,csmc");
    assert!(
        ["cluster", "cloudstackdatacenterconfig", "cloudstackmachineconfig"].iter().all(|kind| told.contains(kind))
    );
    for (command, parts) in [
        ("berth clusters", ["prod", "1.31"]),
        ("berth explain", ["control plane", "workers"]),
        ("berth tree", ["KubeadmControlPlane", "prod-md-0"]),
    ] {
        let told = page.command(&shell, section, command);
        assert!(parts.iter().all(|part| told.contains(part)), "{command}: {told}");
    }
    let kubeconfig = page.command(&shell, section, "kubectl get secret prod-kubeconfig");
    let kubeconfig: Value = serde_saphyr::from_str(&kubeconfig).unwrap();
    assert_eq!(kubeconfig["kind"], "Config", "{kubeconfig}");

    let before = virtual_machines(acs);
    let told = page.command(&shell, "Upgrade", "cd book/examples/clusters");
    assert!(told.contains("control plane") && told.contains("md-0"), "{told}");
    page.manifests(&shell, "Upgrade");
    let cluster = carried_out(&mut berth, (acs, &provider), &client, ("v1.32.", 3)).await;
    assert_eq!(cluster["status"]["cni"]["version"], "v1.16.5", "{cluster}");
    let upgraded = virtual_machines(acs);
    assert!(upgraded.is_disjoint(&before), "{upgraded:?}");

    page.manifests(&shell, "More machines, other machines");
    carried_out(&mut berth, (acs, &provider), &client, ("v1.32.", 5)).await;
    assert!(virtual_machines(acs).is_superset(&upgraded), "a machine was replaced to have more");

    page.command(&shell, "Delete", "kubectl delete eksac prod");
    page.end();
    assert_eq!(virtual_machines(acs), BTreeSet::new(), "a virtual machine is left");
    berth
        .sees("what belonged to the cluster is gone", async || {
            for (kind, place) in [
                ((ANYWHERE, "v1alpha1", "Cluster"), TEAM),
                ((ANYWHERE, "v1alpha1", "CloudStackDatacenterConfig"), TEAM),
                ((ANYWHERE, "v1alpha1", "CloudStackMachineConfig"), TEAM),
                ((CORE, "v1beta2", "Cluster"), SYSTEM),
                ((CORE, "v1beta2", "MachineDeployment"), SYSTEM),
                ((CORE, "v1beta2", "Machine"), SYSTEM),
            ] {
                if !all(&client, kind, place).await.is_empty() {
                    return None;
                }
            }
            Some(())
        })
        .await;
    assert!(api(&client, ("", "v1", "Secret"), SYSTEM).get_opt("global").await.unwrap().is_some(), "Secrets stay");
    berth.stop();
}
