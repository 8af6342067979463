//! The same room, with the real client on the real wire to the EC2 simulator.

use std::time::Duration;

use aws::net::{Aws, Meter, Options};
use capacity::config::Config;
use kit::clock::Clock;
use serde_json::json;
use sim::ec2;
use sim::server::Server;

use crate::objects::*;

/// The room on this server, with the real client of the EC2 that answers there.
fn at_work(server: &Server, endpoint: &str) -> tokio::task::JoinSet<()> {
    let endpoints = aws::place::Endpoints::new().flag(format!("ec2={endpoint}").parse().unwrap());
    let (config, clock) = (Config { endpoints, ..config() }, Clock::system());
    let cloud = Aws::new(Options::new("berth/test"), clock.clone(), Meter::default());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(run(server.client("capacity").kube(), clock, config, cloud, None));
    tasks
}

#[tokio::test]
async fn sets_are_annotated_from_the_simulators_catalogue() {
    let ec2 = ec2::start(ec2::Options::default()).await.unwrap();
    let server = Server::new(1);
    install(&server);
    assert!(server.delete("secrets", OPENSHIFT, "aws"));
    server.put(secret("aws", &ec2.access_key, &ec2.secret)).unwrap();
    for (name, instance_type) in [
        ("plain", "m5.xlarge"),
        ("arm", "m6g.4xlarge"),
        ("old", "t2.micro"),
        ("part", "g6f.large"),
        ("typo", "m5.xlrage"),
    ] {
        server.put(openshift_set(name, instance_type)).unwrap();
    }
    let _process = at_work(&server, &ec2.endpoint);
    let limit = Duration::from_secs(60);
    assert!(server.wait_until(limit, has(OPENSHIFT_SETS, OPENSHIFT, "plain", "vCPU", "4")).await);
    assert!(
        server.wait_until(limit, has(OPENSHIFT_SETS, OPENSHIFT, "arm", "labels", "kubernetes.io/arch=arm64")).await
    );
    assert!(
        server.wait_until(limit, has(OPENSHIFT_SETS, OPENSHIFT, "old", "labels", "kubernetes.io/arch=amd64")).await
    );
    assert!(server.wait_until(limit, has(OPENSHIFT_SETS, OPENSHIFT, "part", "GPU", "1")).await);
    assert!(server.wait_until(limit, |s| !events(s, "typo").is_empty()).await);
    assert!(events(&server, "typo")[0].1.contains("m5.xlarge"), "{:?}", events(&server, "typo"));
    let pages = ec2.calls("DescribeInstanceTypes");
    assert!((10..=20).contains(&pages), "{pages} calls for the list and one name");
    assert!(ec2.log().iter().all(|entry| entry.action == "DescribeInstanceTypes"), "no other right is needed");
}

#[tokio::test]
async fn wrong_keys_are_told_and_new_ones_taken() {
    let ec2 = ec2::start(ec2::Options::default()).await.unwrap();
    let server = Server::new(1);
    install(&server);
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let _process = at_work(&server, &ec2.endpoint);
    let limit = Duration::from_secs(60);
    assert!(server.wait_until(limit, |s| !events(s, "a").is_empty()).await);
    let told = events(&server, "a");
    assert!(told[0].0 == "ReconcileError" && !told[0].1.contains("one"), "{told:?}");
    assert!(server.delete("secrets", OPENSHIFT, "aws"));
    server.put(secret("aws", &ec2.access_key, &ec2.secret)).unwrap();
    assert!(server.wait_until(limit, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
}

#[tokio::test]
async fn authorities_that_cannot_be_read_are_told_of_and_mended_ones_taken() {
    let (namespace, name, _) = capacity::room::BUNDLE;
    let ec2 = ec2::start(ec2::Options::default()).await.unwrap();
    let server = Server::new(1);
    install(&server);
    assert!(server.delete("secrets", OPENSHIFT, "aws"));
    server.put(secret("aws", &ec2.access_key, &ec2.secret)).unwrap();
    server.namespace(namespace);
    let bad = "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n";
    let meta = json!({"name": name, "namespace": namespace});
    server
        .put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"ca-bundle.pem": bad}}))
        .unwrap();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let _process = at_work(&server, &ec2.endpoint);
    let limit = Duration::from_secs(60);
    assert!(server.wait_until(limit, |s| !events(s, "a").is_empty()).await);
    let told = events(&server, "a");
    assert!(told[0].0 == "ReconcileError" && told[0].1.contains("CA is not usable"), "{told:?}");
    assert_eq!(ec2.calls("DescribeInstanceTypes"), 0, "nobody is called whom nobody is trusted to be");
    server.edit("configmaps", namespace, name, |object| object["data"]["ca-bundle.pem"] = json!("")).unwrap();
    assert!(server.wait_until(limit, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
}
