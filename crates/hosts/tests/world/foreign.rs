//! The room with an EC2 that somebody else wrote: set `BERTH_EC2_ENDPOINT` to its address, for instance moto's.
//!
//! Such servers give hosts and instances at once and model neither tokens nor occupancy, so this says nothing about crashes:
//! it says that every call of a machine's life is one that somebody else understands, and that every answer is understood.
#![allow(clippy::disallowed_methods, reason = "somebody else's process runs by the real clock")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws::cloud::{Cloud, Door};
use aws::credentials::{Ambient, Files};
use aws::net::{Aws, Ec2Client, Meter, Options as AwsOptions};
use aws::port::{Ec2, Filter, HostQuery, HostState, ImageQuery, InstanceQuery, InstanceState};
use hosts::config::Config;
use kit::clock::Clock;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use serde_json::{Value, json};
use sim::server::Server;
use tokio::task::JoinSet;

use crate::site::*;

/// How long somebody else's EC2 may take for anything.
const SOON: Duration = Duration::from_secs(120);

fn config() -> Option<Config> {
    let Some(url) = std::env::var_os("BERTH_EC2_ENDPOINT").and_then(|url| url.into_string().ok()) else {
        println!("skipped: BERTH_EC2_ENDPOINT is not set");
        return None;
    };
    let vars = [("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "x")];
    let vars: BTreeMap<String, String> = vars.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let ambient = Ambient::decide(&vars, &Files::default()).unwrap();
    let flag = |service: &str| format!("{service}={url}").parse().unwrap();
    let endpoints = aws::place::Endpoints::new().flag(flag("ec2")).flag(flag("sts"));
    Some(Config { ambient: Ok(ambient), endpoints, orphan_interval: None, ..Config::default() })
}

fn aws() -> Aws {
    Aws::new(AwsOptions::new("berth/test"), Clock::system(), Meter::default())
}

/// EC2 as somebody else in the same account calls it.
fn somebody(config: &Config) -> Ec2Client {
    let source = config.ambient.as_ref().unwrap().source().clone();
    let door = Door { region: REGION.parse().unwrap(), source, endpoints: config.endpoints.clone(), bundle: None };
    aws().open(&door).unwrap()
}

/// A cluster in the network that every account has, and a machine on a host of its own.
async fn furnish(server: &Server, ec2: &Ec2Client) {
    let subnets = ec2.describe_subnets(&[], &[Filter::new("availability-zone", [ZONE])]).await.unwrap();
    let subnet = subnets.first().expect("a default subnet");
    let network = [Filter::new("vpc-id", [subnet.vpc.clone().unwrap().as_str()])];
    let group = ec2.describe_security_groups(&[], &network).await.unwrap().remove(0).id;
    let owners = vec!["amazon".to_owned()];
    let images = ec2.describe_images(&ImageQuery { owners, ..ImageQuery::default() }).await.unwrap();
    let fits = |image: &&aws::port::Image| {
        let architecture = image.architecture.as_ref().map(|architecture| architecture.as_str());
        image.root_device.is_some() && architecture == Some("x86_64")
    };
    let image = images.iter().find(fits).expect("an image").id.clone();
    kinds(server, "v1beta2");
    server
        .put(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
            "metadata": {"name": "c", "namespace": NS, "annotations": {"cluster.x-k8s.io/managed-by": "somebody"}},
            "spec": {"region": REGION, "network": {"subnets": [
                {"id": subnet.id.as_str(), "availabilityZone": ZONE, "isPublic": false}]}},
            "status": {"ready": true},
        }))
        .unwrap();
    server.put(cluster()).unwrap();
    server.put(secret("m")).unwrap();
    let machine = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine",
        "metadata": {
            "name": "m", "namespace": NS, "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m", "uid": "u"}],
        },
        "spec": {
            "instanceType": "m5.large", "ami": {"id": image.as_str()}, "sshKeyName": "",
            "additionalSecurityGroups": [{"id": group.as_str()}],
            "dynamicHostAllocation": {"tags": {"CostCenter": "42"}},
        },
    });
    put_under(server, owner("m"), machine);
}

fn start(server: &Server, config: Config) -> JoinSet<()> {
    let client = server.client("hosts").kube();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let options = Options { resync: None, workers: 4, ..Options::default() };
        let manager = Manager::new(client, Clock::system(), Gates::new(), Metrics::new(), options);
        ::hosts::mount(&manager, config, aws()).unwrap();
        manager.run().await.unwrap();
    });
    tasks
}

#[tokio::test]
async fn a_machine_runs_on_a_host_of_its_own_and_both_are_given_back() {
    let Some(config) = config() else { return };
    let (server, ec2) = (Server::with_clock(1, Arc::new(jiff::Timestamp::now)), somebody(&config));
    furnish(&server, &ec2).await;
    let _room = start(&server, config);
    let seen = |server: &Server| server.get(MACHINES, NS, "m").unwrap_or_default();
    assert!(server.wait_until(SOON, |s| is_ready(s, "m")).await, "{:#}", seen(&server));

    let machine: Value = seen(&server);
    let host = machine["status"]["dedicatedHost"]["id"].as_str().unwrap().to_owned();
    assert_eq!(hosts_of(&server, "m"), std::slice::from_ref(&host));
    let id: api::names::InstanceId = machine["spec"]["instanceID"].as_str().unwrap().parse().unwrap();
    assert_eq!(machine["spec"]["providerID"], format!("aws:///{ZONE}/{id}"));
    assert_eq!(machine["status"]["initialization"]["provisioned"], true);
    let instances = ec2.describe_instances(&InstanceQuery::Ids(vec![id.clone()])).await.unwrap();
    assert_eq!(instances[0].host.as_ref().map(ToString::to_string), Some(host.clone()));
    let by_id = HostQuery::Ids(vec![host.parse().unwrap()]);
    let paid = ec2.describe_hosts(&by_id).await.unwrap();
    assert_eq!((paid[0].state.clone(), paid[0].tags["CostCenter"].as_str()), (HostState::Available, "42"));

    server.delete(MACHINES, NS, "m");
    assert!(server.wait_until(SOON, |s| is_gone(s, "m")).await, "{:#}", seen(&server));
    let ended = ec2.describe_instances(&InstanceQuery::Ids(vec![id])).await.unwrap();
    assert_eq!(ended[0].state, InstanceState::Terminated);
    assert!(ec2.describe_hosts(&by_id).await.unwrap().iter().all(|host| host.state.is_released()));
    for told in ["SuccessfulAllocateDedicatedHost", "SuccessfulCreate", "SuccessfulTerminate", "SuccessfulReleaseHost"]
    {
        assert!(events(&server, "m").iter().any(|reason| reason == told), "{told}: {:?}", events(&server, "m"));
    }
}
