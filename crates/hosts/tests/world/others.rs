//! Hosts and instances that others made: left alone, taken over, or found to belong to nobody.

use std::collections::BTreeMap;
use std::time::Duration;

use aws::port::{Affinity, AllocateHosts, Ec2, HostShape, MetadataOptions, Placement, RunInstance, Tags, Tenancy};
use hosts::config::Config;
use serde_json::{Value, json};
use sim::ec2::world::faults::Fault;
use sim::ec2::world::instance::InstanceState;
use sim::server::Server;

use crate::site::*;

/// Somebody allocates a host.
pub async fn host(site: &Site, server: &Server) -> String {
    let request = AllocateHosts {
        token: "somebody".parse().unwrap(),
        zone: ZONE.parse().unwrap(),
        shape: HostShape::Type("m5.large".parse().unwrap()),
        quantity: 1,
        recovery: None,
        maintenance: None,
        outpost_arn: None,
        asset_ids: Vec::new(),
        tags: Tags::new(),
    };
    let ids = site.somebody(server).allocate_hosts(&request).await.unwrap();
    pass(60).await;
    ids[0].to_string()
}

/// Somebody launches an instance with these tags.
pub async fn instance(site: &Site, server: &Server, host: Option<&str>, tags: &Value) -> String {
    instance_of(site, server, "m5.large", host, tags).await
}

/// Somebody launches an instance of a type with these tags.
pub async fn instance_of(site: &Site, server: &Server, type_: &str, host: Option<&str>, tags: &Value) -> String {
    let request = RunInstance {
        token: "somebody".parse().unwrap(),
        dry_run: false,
        image: site.ec2.image(REGION, "x86_64").unwrap().parse().unwrap(),
        instance_type: type_.parse().unwrap(),
        subnet: site.ec2.subnet(REGION, ZONE, false).unwrap().parse().unwrap(),
        security_groups: vec![site.group("node").parse().unwrap(), site.group("lb").parse().unwrap()],
        public_ip: None,
        key_name: None,
        profile: None,
        block_devices: Vec::new(),
        metadata: MetadataOptions::default(),
        user_data: None,
        placement: Placement {
            tenancy: host.map(|_| Tenancy::Host),
            host: host.map(|host| host.parse().unwrap()),
            affinity: host.map(|_| Affinity::Host),
            ..Placement::default()
        },
        license_configuration_arns: Vec::new(),
        tags: serde_json::from_value(tags.clone()).unwrap(),
    };
    site.somebody(server).run_instance(&request).await.unwrap().id.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_host_that_the_spec_names_is_used_and_never_given_back() {
    let (server, site) = world();
    let host = host(&site, &server).await;
    let wish = json!({"tenancy": "host", "hostID": host, "hostAffinity": "host"});
    add(&server, machine(&site, "m", "m5.large", wish));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!(site.ec2.instances()[0].host.as_deref(), Some(host.as_str()));
    let shared = BTreeMap::from([("kubernetes.io/cluster/c".to_owned(), "shared".to_owned())]);
    assert!(server.wait_until(LIMIT, |_| site.paid()[0].tags == shared).await, "{:?}", site.paid());
    pass(3_600).await;
    assert_eq!(site.ec2.calls("CreateTags"), 1, "that is all it is told, and once");
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
    assert_eq!((site.paid().len(), site.alive().len(), site.ec2.calls("ReleaseHosts")), (1, 0, 0));
    assert_eq!(site.paid()[0].tags, shared);
}

#[tokio::test(start_paused = true)]
async fn a_host_of_somebody_that_may_not_be_tagged_is_used_all_the_same() {
    let (server, site) = world();
    let host = host(&site, &server).await;
    site.ec2.script(Fault::deny("CreateTags"));
    add(&server, machine(&site, "m", "m5.large", json!({"tenancy": "host", "hostID": host})));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |_| site.ec2.calls("CreateTags") == 1).await);
    pass(3_600).await;
    assert_eq!(site.ec2.calls("CreateTags"), 1, "once is enough");
    let (status, _, message) = condition(&server, "m", "Ready");
    assert!(status == "True" && !message.contains("CreateTags"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_the_provider_we_replace_is_taken_over_with_its_host() {
    // The provider may have been stopped before it wrote down which instance it launched.
    for written in [true, false] {
        let (server, site) = world();
        let host = host(&site, &server).await;
        let tags = json!({"MachineName": "team/m", "sigs.k8s.io/cluster-api-provider-aws/cluster/c": "owned"});
        let instance = instance(&site, &server, Some(&host), &tags).await;
        let mut known = dynamic(&site, "m");
        if written {
            known["spec"]["providerID"] = json!(format!("aws:///{ZONE}/{instance}"));
            known["spec"]["instanceID"] = json!(instance);
        }
        known["status"] = json!({"ready": true, "dedicatedHost": {"id": host}});
        known["metadata"]["finalizers"] = json!(["awsmachine.infrastructure.cluster.x-k8s.io"]);
        add(&server, known);
        let _process = site.start(&server, site.config());
        assert!(
            server.wait_until(LIMIT, |s| hosts_of(s, "m") == [host.clone()]).await,
            "written {written}: {:?}",
            server.get(MACHINES, NS, "m")
        );
        assert_eq!(server.get(MACHINES, NS, "m").unwrap()["spec"]["instanceID"], instance.as_str());
        let tagged = |_: &Server| site.paid()[0].tags.contains_key("hosts.berth.dev/allocation-id");
        assert!(server.wait_until(LIMIT, tagged).await, "{:?}", site.paid());
        assert_eq!((site.ec2.hosts().len(), site.ec2.instances().len()), (1, 1), "written {written}");
        assert!(server.delete(MACHINES, NS, "m"));
        assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
        assert_eq!((site.paid().len(), site.alive().len()), (0, 0), "written {written}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_of_the_same_name_is_somebody_elses() {
    let (server, site) = world();
    let tags = json!({"Name": "m", "sigs.k8s.io/cluster-api-provider-aws/cluster/c": "owned"});
    let other = instance(&site, &server, None, &tags).await;
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_ne!(server.get(MACHINES, NS, "m").unwrap()["spec"]["instanceID"], other.as_str());
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
    assert_eq!((site.alive(), site.paid().len()), (vec![other], 0));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_belongs_to_nobody_is_reported_and_released_only_on_demand() {
    for release in [false, true] {
        let (server, site) = world();
        add(&server, dynamic(&site, "m"));
        let config =
            Config { orphan_interval: Some(Duration::from_secs(900)), release_orphans: release, ..site.config() };
        let process = site.start(&server, config.clone());
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
        drop(process);
        // Somebody takes the finalizer off, and the machine is gone without us.
        server.edit(MACHINES, NS, "m", |object| object["metadata"]["finalizers"] = json!([])).unwrap();
        assert!(server.delete(MACHINES, NS, "m") && is_gone(&server, "m"));
        let instance = site.alive()[0].clone();
        assert!(site.ec2.set_instance_state(REGION, &instance, InstanceState::Terminated));
        let _process = site.start(&server, config);
        pass(3 * 3_600).await;
        assert_eq!(site.paid().len(), usize::from(!release), "release {release}");
        let host = site.ec2.hosts()[0].id.clone();
        let told = server.list(EVENTS, NS).iter().any(|event| {
            event["regarding"]["name"] == "c" && event["note"].as_str().unwrap_or_default().contains(host.as_str())
        });
        assert!(told, "release {release}: {:?}", server.list(EVENTS, NS));
    }
    let reached = kit::fault::reached();
    for side in ["before", "after"] {
        assert!(
            reached.contains(&format!("hosts.ReleaseOrphans.{side}")),
            "no process can be stopped there: {reached:?}"
        );
    }
}
