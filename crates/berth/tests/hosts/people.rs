//! What people see, and what they can do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::names::hosts::{ALLOCATION_ID_TAG, MANAGEMENT_CLUSTER_TAG};
use aws::cloud::{Cloud, Door};
use aws::credentials::{Ambient, Files};
use aws::net::{Aws, Meter, Options};
use aws::place::Endpoints;
use aws::port::{AllocateHosts, Ec2, HostShape};
use k8s_openapi::api::core::v1::Namespace;
use kit::clock::Clock;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use sim::ec2;

use crate::world::{CLUSTER, CORE, Corner, REGION, SOON, ZONE, run, within};

fn printed(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Somebody's host with our tags and no machine: what a lost journal leaves behind.
async fn lose(corner: &Corner, management: &str) -> String {
    let vars = BTreeMap::from([
        ("AWS_ACCESS_KEY_ID".to_owned(), corner.ec2.access_key.clone()),
        ("AWS_SECRET_ACCESS_KEY".to_owned(), corner.ec2.secret.clone()),
    ]);
    let source = Ambient::decide(&vars, &Files::default()).unwrap().source().clone();
    let endpoints = Endpoints::new().flag(format!("ec2={}", corner.ec2.endpoint).parse().unwrap());
    let door = Door { region: REGION.parse().unwrap(), source, endpoints, bundle: None };
    let cloud = Aws::new(Options::new("somebody/1"), Clock::system(), Meter::default());
    let request = AllocateHosts {
        token: "somebodys".parse().unwrap(),
        zone: ZONE.parse().unwrap(),
        shape: HostShape::Type("r5.large".parse().unwrap()),
        quantity: 1,
        recovery: None,
        maintenance: None,
        outpost_arn: None,
        asset_ids: Vec::new(),
        tags: [
            (ALLOCATION_ID_TAG.to_owned(), "lost".to_owned()),
            (MANAGEMENT_CLUSTER_TAG.to_owned(), management.to_owned()),
        ]
        .into(),
    };
    let hosts = cloud.open(&door).unwrap().allocate_hosts(&request).await.unwrap();
    hosts[0].to_string()
}

#[test]
fn leaks_are_shown_proven_and_released_on_demand_only() {
    run("leaks_are_shown_proven_and_released_on_demand_only", async |world| {
        // A world two hours behind: what is allocated now was allocated two hours ago.
        let then = Clock::system().now().saturating_sub(Duration::from_secs(7_200)).unwrap();
        let mut options = ec2::Options { time: Some(then), ..ec2::Options::default() };
        options.settings.max_skew = None;
        let corner = Corner::with(world, "hosts-people", options).await;
        corner.create("m", "m5.large", &json!({})).await;
        let machine = corner.provisioned("m").await;
        let own = machine.data.pointer("/status/dedicatedHost/id").and_then(Value::as_str).unwrap().to_owned();

        let told = corner.ask(&["explain", "awsmachine/m", "-n", corner.namespace, "--lookup"]);
        let said = printed(&told.stdout);
        assert!(told.status.success(), "{}", printed(&told.stderr));
        assert!(said.contains(&format!("runs on the dedicated host {own}")), "{said}");
        assert!(said.contains("AWSClusterControllerIdentity everybody"), "{said}");

        let drawn = corner.ask_the_server(&["tree", &format!("cluster/{CLUSTER}"), "-n", corner.namespace]);
        let picture = printed(&drawn.stdout);
        assert!(picture.contains("AWSMachine") && picture.contains(&own), "{picture}{}", printed(&drawn.stderr));

        let listed = corner.ask(&["hosts", "--aws", "-o", "json"]);
        let list: Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert_eq!(
            (&list["kind"], list["items"].as_array().unwrap().len()),
            (&json!("DedicatedHostList"), 1),
            "{list}"
        );
        let row = &list["items"][0];
        assert_eq!((&row["host"], &row["whose"]), (&json!(own), &json!("machine")), "{row}");
        assert_eq!(row["machine"], "hosts-people/m");
        let none = corner.ask(&["leaks", "--region", REGION]);
        assert!(printed(&none.stdout).starts_with("no leaks"), "{}", printed(&none.stdout));

        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        let uid = namespaces.get("kube-system").await.unwrap().metadata.uid.unwrap();
        let lost = lose(&corner, &uid).await;
        let leaks = corner.ask(&["leaks"]);
        let said = printed(&leaks.stdout);
        assert!(leaks.status.success(), "{}", printed(&leaks.stderr));
        assert!(said.contains(&lost) && !said.contains(&own), "{said}");
        for proof in [uid.as_str(), "allocation lost", "EC2 shows no instance", "2h ago"] {
            assert!(said.contains(proof), "no {proof:?} in {said}");
        }

        let unasked = corner.ask(&["leaks", "--release"]);
        assert_eq!(unasked.status.code(), Some(2), "nobody can be asked here");
        assert!(printed(&unasked.stderr).contains("--yes"), "{}", printed(&unasked.stderr));
        assert_eq!(corner.paid().len(), 2, "nothing was released");

        let released = corner.ask(&["leaks", "--release", "--yes", "-o", "json"]);
        let list: Value = serde_json::from_slice(&released.stdout).unwrap();
        assert!(released.status.success(), "{list}");
        let [only] = list["items"].as_array().unwrap().as_slice() else { panic!("one host: {list}") };
        assert_eq!((&only["host"], &only["released"]), (&json!(lost), &json!(true)), "{list}");
        let left: Vec<String> = corner.paid().into_iter().map(|host| host.id).collect();
        assert_eq!(left, [own], "the host of the machine is still there");

        corner.delete(&corner.owners(), "m").await;
        corner.judge();
    });
}

/// The example of the book, with what an account really has in it.
fn example(corner: &Corner, name: &str) -> Vec<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/examples/hosts").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let text = text
        .replace("subnet-0a1b2c3d4e5f60718", &corner.ec2.subnet(REGION, ZONE, false).unwrap())
        .replace("ami-0123456789abcdef0", &corner.ec2.image(REGION, "x86_64").unwrap())
        .replace("sg-0123456789abcdef0", &corner.group("node"));
    serde_saphyr::from_multiple(&text).unwrap()
}

#[test]
fn the_tutorial_of_the_book_is_carried_out() {
    run("the_tutorial_of_the_book_is_carried_out", async |world| {
        // The machines of the book carry no label of ours, so this Berth follows their namespace alone.
        let corner = Corner::bare(world, "team-a").await;
        for file in ["identity.yaml", "cluster.yaml", "template.yaml"] {
            for object in example(&corner, file) {
                world.apply(&object).await;
            }
        }
        corner.provision(CLUSTER).await;
        for object in example(&corner, "machines.yaml") {
            world.apply(&object).await;
        }
        let both = within(SOON, "both machines run", async || {
            let machines = corner.machines().list(&ListParams::default()).await.ok()?.items;
            let runs = |machine: &&DynamicObject| machine.data.pointer("/status/ready") == Some(&json!(true));
            (machines.iter().filter(runs).count() == 2).then_some(machines)
        })
        .await;
        let hosts: BTreeSet<String> = both
            .iter()
            .filter_map(|m| m.data.pointer("/status/dedicatedHost/id")?.as_str().map(str::to_owned))
            .collect();
        assert_eq!(hosts.len(), 2, "a host each: {hosts:?}");
        assert_eq!(corner.paid().len(), 2);
        assert!(corner.paid().iter().all(|host| host.tags.get("CostCenter").map(String::as_str) == Some("42")));

        let none = json!({"spec": {"replicas": 0}});
        let deployments = corner.api(CORE, "MachineDeployment");
        deployments.patch("licensed", &PatchParams::default(), &Patch::Merge(&none)).await.unwrap();
        within(SOON * 2, "no machine is left", async || {
            corner.machines().list(&ListParams::default()).await.ok()?.items.is_empty().then_some(())
        })
        .await;
        corner.judge();
    });
}
