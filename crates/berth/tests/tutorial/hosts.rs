//! The page about dedicated hosts: the real Cluster API makes the machines of a group, and the strict simulator of EC2 says
//! what is paid for.

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::ec2::world::oracle::HostFacts;
use sim::wait::within;
use sim::{ec2, plane};

use crate::places::account;
use crate::pod::Ports;
use crate::release;
use crate::walk::Walk;
use crate::{BOUND, condition, namespace};

const TEAM: &str = "team-a";
/// The machine of the page whose host is kept.
const MACHINE: &str = "licensed-x7k2p-9wz5v";
const REGION: &str = "us-west-2";
const ZONE: &str = "us-west-2a";

/// Hosts that are paid for.
fn paid(cloud: &ec2::Handle) -> Vec<HostFacts> {
    cloud.hosts().into_iter().filter(|host| !host.state.is_released()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_machine_of_a_group_gets_a_host_and_one_host_is_kept_in_the_end() {
    let test = "every_machine_of_a_group_gets_a_host_and_one_host_is_kept_in_the_end";
    let Some(plane) = crate::plane(test) else { return };
    let ports = Ports::free();
    let Some(shell) = release::shell(test, &plane.kubeconfig_path(), ports) else { return };
    let client = plane.client().await.unwrap();
    let cloud = account().await;
    let shell = release::with_account(shell, &cloud);
    plane::install_crds(&client, plane::aws_network_definitions()).await.unwrap();
    let _cluster_api = plane::capi(&plane).await.unwrap();
    namespace(&client, TEAM).await;
    let list = async |group: &str, kind: &str| {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1beta2", kind));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), TEAM, &resource);
        let found = api.list(&ListParams::default()).await.unwrap().items;
        found.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect::<Vec<Value>>()
    };
    let machines = async || list("infrastructure.cluster.x-k8s.io", "AWSMachine").await;

    let (mut page, section) = (Walk::of("hosts/tutorial.md"), "Before you begin");
    page.command(&shell, section, "helm install");
    // Looked at more often than where requests are counted.
    let more = [release::endpoints(&cloud).as_slice(), &["--describe-interval=5s".to_owned()]].concat();
    let mut berth = release::run(&plane, &client, ports, &more, &release::identity(&cloud)).await;
    let both = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
        "metadata": {"name": "both"}, "spec": {"template": {"spec": {
            "instanceType": "m5.large", "hostID": "h-0123456789abcdef0", "dynamicHostAllocation": {}}}}});
    release::refuses(&mut berth, &client, &both, "a host is named or allocated").await;
    page.command(&shell, section, "berth doctor");

    // What the reader has.
    let group = cloud.with(|world, now| {
        let place = world.place(&cloud.account, REGION, now).unwrap();
        place.groups.values().find(|group| group.name == "node").unwrap().id.clone()
    });
    page.put(&cloud.subnet(REGION, ZONE, false).unwrap(), "subnet-0a1b2c3d4e5f60718");
    page.put(&cloud.image(REGION, "x86_64").unwrap(), "ami-0123456789abcdef0");
    page.put(&group, "sg-0123456789abcdef0");
    page.manifests(&shell, "The cluster");
    page.command(&shell, "The cluster", "kubectl --namespace team-a patch awscluster");
    page.manifests(&shell, "The machines");
    within(BOUND, "Cluster API has two machines with infrastructure", async || {
        let owners = list("cluster.x-k8s.io", "Machine").await;
        let there = |one: &&Value| one["status"]["initialization"]["infrastructureProvisioned"] == true;
        (owners.iter().filter(there).count() == 2).then_some(())
    })
    .await;
    let made = machines().await;
    assert_eq!(made.len(), 2, "{made:?}");
    for machine in &made {
        for kind in ["Ready", "DedicatedHostReady", "InstanceReady"] {
            assert_eq!(condition(machine, kind)["status"], "True", "{kind}: {machine}");
        }
        for journal in ["hosts.berth.dev/allocation", "hosts.berth.dev/launch"] {
            assert!(machine["metadata"]["annotations"][journal].is_string(), "{journal}: {machine}");
        }
        assert_eq!((&machine["spec"]["tenancy"], &machine["spec"]["hostAffinity"]), (&json!("host"), &json!("host")));
        let id = machine["spec"]["providerID"].as_str().unwrap();
        assert!(id.starts_with(&format!("aws:///{ZONE}/i-")), "{id}");
    }
    let hosts = paid(&cloud);
    assert_eq!(hosts.len(), 2, "{hosts:?}");
    for host in &hosts {
        assert_eq!((host.zone.as_str(), host.instances.len()), (ZONE, 1), "{host:?}");
        assert_eq!(host.tags.get("CostCenter").map(String::as_str), Some("42"), "{host:?}");
    }

    let (section, kept) = ("What happens", &made[0]);
    let (name, host) = (&kept["metadata"]["name"], &kept["status"]["dedicatedHost"]["id"]);
    let (name, host) = (name.as_str().unwrap(), host.as_str().unwrap());
    page.name(name, MACHINE);
    let told = page.command(&shell, section, "kubectl --namespace team-a get awsmachines");
    assert!(hosts.iter().all(|host| told.contains(&host.id)), "{told}");
    let told = page.command(&shell, section, "berth explain");
    assert!(told.contains(host), "{told}");
    let told = page.command(&shell, section, "berth hosts");
    assert!(hosts.iter().all(|host| told.contains(&host.id)) && told.contains(name), "{told}");

    let section = "Give it back";
    page.command(&shell, section, "kubectl --namespace team-a patch");
    page.command(&shell, section, "kubectl --namespace team-a scale");
    within(BOUND, "no machine is left", async || machines().await.is_empty().then_some(())).await;
    let left = paid(&cloud);
    assert_eq!(left.iter().map(|host| host.id.as_str()).collect::<Vec<_>>(), [host]);
    assert_eq!(left[0].tags.get("hosts.berth.dev/retained").map(String::as_str), Some("true"), "{left:?}");
    assert!(left[0].instances.is_empty(), "{left:?}");
    let told = page.command(&shell, section, "berth leaks");
    assert!(told.starts_with("no leaks"), "{told}");
    page.end();
    berth.stop();
}
