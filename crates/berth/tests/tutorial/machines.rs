//! The page about one cluster on three kinds of machines: what its administrator and its tenant do, until nothing is left. The
//! Cluster API is real; hosts, both clouds and the kubelets are played.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, DynamicObject};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use sim::{metal, nodes, plane};

use crate::places::{METAL, Places, enter, machines, node, runs, say};
use crate::pod::{self, Pod, Ports};
use crate::release::{self, HOME};
use crate::shell::Shell;
use crate::walk::Walk;
use crate::{BOUND, namespace};

const TEAM: &str = "team-a";
const GROUPS: [&str; 3] = ["dedicated", "metal", "virtual"];
/// The machine of the page that is explained.
const MACHINE: &str = "metal-x7k2p-9wz5v";
/// What a host tells the simulator to find in it.
const DETAILS: &str = "inspect.metal3.io/hardwaredetails";

/// The hosts that the reader has, as large as the page shows them: one for the group, and one for what replaces its machine.
async fn hosts(client: &Client) {
    namespace(client, METAL).await;
    for name in ["rack1-node1", "rack1-node2"] {
        let mut host = metal::seed::host(METAL, name, &json!({"size": "large"}));
        let card = json!({"name": "eth0", "mac": host["spec"]["bootMACAddress"], "ip": "192.168.10.1", "pxe": true});
        let found = json!({"hostname": name, "cpu": {"arch": "x86_64", "count": 16}, "ramMebibytes": 65_536,
            "nics": [card]});
        host["metadata"]["annotations"] = json!({DETAILS: found.to_string()});
        plane::apply(client, &host).await.unwrap();
    }
}

/// Waits until a group has just so many machines, all of them nodes.
async fn settled(berth: &mut Pod, client: &Client, group: &str, count: usize) -> Vec<DynamicObject> {
    let look = async || {
        let all = machines(client, TEAM, group).await;
        (all.len() == count && all.iter().all(runs)).then_some(all)
    };
    berth.sees(&format!("{group} has {count} nodes"), look).await
}

/// What a command of running text prints.
fn told(shell: &Shell, command: &str) -> String {
    let output = tokio::task::block_in_place(|| shell.run(command));
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {why}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_gets_machines_of_three_kinds_and_leaves_nothing_in_any_of_three_places() {
    let test = "a_cluster_gets_machines_of_three_kinds_and_leaves_nothing_in_any_of_three_places";
    let Some(plane) = crate::plane(test) else { return };
    if !plane.has_controllers() {
        eprintln!("SKIPPED {test}: this server runs without a garbage collector");
        return;
    }
    let ports = Ports::free();
    let Some(shell) = release::shell(test, &plane.kubeconfig_path(), ports) else { return };
    let Some(inner) = crate::plane(test) else { return };
    let (client, inside) = (plane.client().await.unwrap(), inner.client().await.unwrap());
    let definitions = plane::aws_network_definitions().into_iter().chain(metal::kinds::definitions());
    plane::install_crds(&client, definitions.collect()).await.unwrap();
    let _cluster_api = plane::capi(&plane).await.unwrap();
    let places = Places::open(&client).await;
    hosts(&client).await;
    let shell = release::with_account(shell, &places.ec2);

    let (mut page, section) = (Walk::of("machines/tutorial.md"), "Before you begin");
    page.command(&shell, section, "helm install");
    let mut more = release::endpoints(&places.ec2);
    // Looked at more often than where requests are counted.
    more.push("--describe-interval=5s".to_owned());
    more.push(format!("--cloudstack-endpoint-allow={}", places.acs.endpoint.trim_end_matches("/client/api")));
    let identity = release::identity(&places.ec2);
    let mut berth = release::run(&plane, &client, ports, &more, &identity).await;
    berth.is_asked(&client).await;
    page.command(&shell, section, "berth doctor");
    for (own, made_up) in places.own() {
        page.put(&own, made_up);
    }

    let section = "What the administrator does";
    page.manifests(&shell, section);
    page.command(&shell, section, "helm upgrade");
    // Helm made the Services what they were.
    pod::lead_here(&client, HOME).await;
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), HOME);
    let policy = serde_json::to_string(&policies.get("berth").await.unwrap().spec).unwrap();
    assert!(policy.contains("198.51.100.7/32") && policy.contains("8080"), "{policy}");
    berth.is_asked(&client).await;

    page.manifests(&shell, "What the tenant does");
    // The reader's control plane: it has left its kubeconfig, and Cluster API has seen it.
    let workload = (inner, inside);
    let _kubelets = enter(&client, &workload, TEAM, "prod").await;
    let said = nodes::play_control_plane(client.clone(), TEAM, "prod");
    tokio::time::timeout(BOUND, said).await.expect("in time").unwrap();
    // The same cluster once more, from a class: `make demo` plays that.
    page.pass("An address from a pool");
    page.manifests(&shell, "Templates and groups");
    let mut first = Vec::new();
    for group in GROUPS {
        first.extend(settled(&mut berth, &client, group, 1).await);
    }
    for (machine, prefix) in first.iter().zip(["aws:///us-west-2", "metal3://team-a/", "cloudstack:///"]) {
        let id = machine.data["spec"]["providerID"].as_str().unwrap();
        assert!(id.starts_with(prefix), "{id}");
    }

    let section = "What happens";
    let listed = page.command(&shell, section, "kubectl --namespace team-a get machines");
    assert!(first.iter().all(|machine| listed.contains(&machine.name_any())), "{listed}");
    // Cluster API counts a Machine as ready a moment after it has become a node, and until then only that is expanded.
    berth
        .sees("every group is ready", async || {
            let drawn = told(&shell, "berth tree cluster/prod -n team-a");
            (drawn.matches("1 of 1 ready").count() == GROUPS.len()).then_some(())
        })
        .await;
    let drawn = page.command(&shell, section, "berth tree");
    for part in ["BareMetalHost metal/rack1-", "DedicatedHost h-", "Instance i-", "VirtualMachine "] {
        assert!(drawn.contains(part), "{part} is missing in\n{drawn}");
    }
    let sick = &first[1];
    page.name(&sick.name_any(), MACHINE);
    let explained = page.command(&shell, section, "berth explain");
    assert!(explained.contains(&sick.name_any()) && explained.contains("rack1-node"), "{explained}");

    let section = "From zero";
    page.manifests(&shell, section);
    page.command(&shell, section, "helm upgrade");
    berth.stop();
    let mut berth = release::run(&plane, &client, ports, &more, &identity).await;
    berth.is_asked(&client).await;
    // The groups have a machine each by now, which changes nothing of what they offer.
    let shown: Vec<String> = page.lines(section).iter().map(|line| line.replace("0 of 0", "1 of 1")).collect();
    assert_eq!(shown.len(), GROUPS.len(), "{shown:?}");
    berth
        .sees("the tree shows what machines offer", async || {
            let drawn = told(&shell, "berth tree cluster/prod -n team-a");
            let offers = |line: &String| drawn.contains(line.trim_start_matches(['├', '└', '─', ' ', '✓']));
            shown.iter().all(offers).then_some(())
        })
        .await;

    let section = "More, fewer, others";
    page.command(&shell, section, "kubectl --namespace team-a scale");
    settled(&mut berth, &client, "virtual", 3).await;
    page.manifests(&shell, section);
    let kubelets: Api<Node> = Api::all(workload.1.clone());
    say(&kubelets, &node(sick), "False").await;
    berth
        .sees("the sick machine is replaced", async || {
            let all = machines(&client, TEAM, "metal").await;
            let new = all.len() == 1 && all.iter().all(|machine| runs(machine) && machine.uid() != sick.uid());
            new.then_some(())
        })
        .await;

    page.command(&shell, "The end", "kubectl --namespace team-a delete");
    page.end();
    berth.sees("nothing is left", async || places.left().await.is_empty().then_some(())).await;
    for group in GROUPS {
        assert!(machines(&client, TEAM, group).await.is_empty(), "kubectl waits until all is gone");
    }
    let leaks = told(&shell, "berth leaks --region us-west-2");
    assert!(leaks.starts_with("no leaks"), "{leaks}");
    berth.stop();
}
