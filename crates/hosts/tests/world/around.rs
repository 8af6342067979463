//! What stands around a machine: networks that others keep, control planes, the older contract, keys that change.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sim::ec2::world::faults::Fault;
use sim::ec2::world::instance::Instance;
use sim::server::Server;

use crate::site::*;

/// The one instance there is, as EC2 has it.
fn launched<T>(site: &Site, look: impl FnOnce(&Instance) -> T) -> T {
    site.ec2
        .with(|world, now| look(world.place("123456789012", REGION, now).unwrap().instances.values().next().unwrap()))
}

fn groups(site: &Site) -> Vec<String> {
    sorted(launched(site, |instance| instance.interfaces[0].groups.clone()))
}

fn sorted(mut all: Vec<String>) -> Vec<String> {
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_waits_for_the_name_of_its_load_balancer_before_anything_is_paid_for() {
    let (server, site) = world();
    server.edit(CLOUDS, NS, "c", |cloud| cloud["status"]["networkStatus"]["apiServerElb"] = json!({})).unwrap();
    server.put(secret("m")).unwrap();
    let mut first = owner("m");
    first["metadata"]["labels"]["cluster.x-k8s.io/control-plane"] = json!("");
    put_under(&server, first, dynamic(&site, "m"));
    add(&server, dynamic(&site, "worker"));
    let _process = site.start(&server, site.config());
    let told = |s: &Server| condition(s, "m", "InstanceReady").2.contains("load balancer");
    assert!(server.wait_until(LIMIT, told).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "worker")).await, "only a control plane needs it");
    pass(600).await;
    assert_eq!((site.ec2.hosts().len(), phase(&server, "m")), (1, String::new()));
    server
        .edit(CLOUDS, NS, "c", |cloud| cloud["status"]["networkStatus"]["apiServerElb"] = json!({"dnsName": "a.b"}))
        .unwrap();
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    let role =
        |host: &sim::ec2::world::oracle::HostFacts| host.tags["sigs.k8s.io/cluster-api-provider-aws/role"].clone();
    assert_eq!(sorted(site.paid().iter().map(role).collect()), ["control-plane", "node"]);
}

#[tokio::test(start_paused = true)]
async fn in_a_network_that_others_keep_exactly_the_named_groups_and_no_key_are_used() {
    let (server, site) = world();
    server
        .edit(CLOUDS, NS, "c", |cloud| {
            cloud["metadata"]["annotations"] = json!({"cluster.x-k8s.io/managed-by": "somebody"});
            cloud["spec"].as_object_mut().unwrap().remove("sshKeyName");
            cloud["status"] = json!({"ready": true});
        })
        .unwrap();
    let before = server.get(CLOUDS, NS, "c").unwrap();
    let mut wish = dynamic(&site, "m");
    let found = json!({"filters": [{"name": "group-name", "values": ["node"]}]});
    wish["spec"]["additionalSecurityGroups"] = json!([{"id": site.group("default")}, found]);
    server.put(secret("m")).unwrap();
    let mut first = owner("m");
    first["metadata"]["labels"]["cluster.x-k8s.io/control-plane"] = json!("");
    put_under(&server, first, wish);
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!(groups(&site), sorted(vec![site.group("default"), site.group("node")]), "from the first launch on");
    assert_eq!(launched(&site, |instance| instance.key.clone()), None);
    pass(1_200).await;
    assert_eq!(site.ec2.calls("ModifyNetworkInterfaceAttribute"), 0);
    assert_eq!(server.get(CLOUDS, NS, "c").unwrap(), before, "not a word is written there");
}

#[tokio::test(start_paused = true)]
async fn a_core_that_serves_only_the_older_version_is_read_as_well() {
    let server = Server::new(1);
    let site = Site::new(&server.clock(), None);
    install_with(&server, &site, "v1beta1");
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "c", "namespace": NS},
        "spec": {"infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
            "name": "c", "namespace": NS}},
        "status": {"infrastructureReady": false},
    });
    server.put(cluster).unwrap();
    server.put(secret("m")).unwrap();
    let first = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": {"name": "m", "namespace": NS, "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {"clusterName": "c", "version": "v1.33.0", "failureDomain": "us-west-2b",
            "bootstrap": {"dataSecretName": "m"},
            "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine",
                "name": "m", "namespace": NS}},
    });
    let mut wish = dynamic(&site, "m");
    wish["metadata"]["ownerReferences"][0]["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
    put_under(&server, first, wish);
    let _process = site.start(&server, site.config());
    let waits = |s: &Server| reason(s, "m", "InstanceReady") == "WaitingForClusterInfrastructure";
    assert!(server.wait_until(LIMIT, waits).await, "{:?}", server.get(MACHINES, NS, "m"));
    server.edit(CLUSTERS, NS, "c", |cluster| cluster["status"]["infrastructureReady"] = json!(true)).unwrap();
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    let machine = server.get(MACHINES, NS, "m").unwrap();
    assert_eq!(
        (&machine["status"]["failureDomain"], site.paid()[0].zone.as_str()),
        (&json!("us-west-2b"), "us-west-2b")
    );
    server.edit(CLUSTERS, NS, "c", |cluster| cluster["spec"]["paused"] = json!(true)).unwrap();
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "Paused") == "Paused").await);
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_replaced_in_their_secret_are_used_from_then_on() {
    let (server, site) = world();
    let config = site.config();
    let space = config.controller_namespace.clone();
    site.ec2.revoke(&site.ec2.access_key.clone());
    server.namespace(&space);
    let keys = |number: u32| {
        let (id, secret) = (format!("AKIASIMULATOR000000{number}"), format!("the-secret-of-key-number-{number}"));
        site.ec2.add_user("123456789012", &id, &secret);
        let data = json!({"AccessKeyID": STANDARD.encode(&id), "SecretAccessKey": STANDARD.encode(&secret)});
        let meta = json!({"name": "tenant-keys", "namespace": space});
        server.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})).unwrap();
        id
    };
    let old = keys(4);
    let identity: Value = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSClusterStaticIdentity",
        "metadata": {"name": "tenant"}, "spec": {"secretRef": "tenant-keys", "allowedNamespaces": {"list": [NS]}},
    });
    server.put(identity).unwrap();
    let reference = json!({"kind": "AWSClusterStaticIdentity", "name": "tenant"});
    server.edit(CLOUDS, NS, "c", |cloud| cloud["spec"]["identityRef"] = reference).unwrap();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, config);
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    let new = keys(5);
    site.ec2.revoke(&old);
    pass(120).await;
    site.ec2.clear_log();
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0));
    assert!(site.ec2.log().iter().all(|entry| entry.access_key == new), "nobody calls with the old ones");
}

#[tokio::test(start_paused = true)]
async fn disks_follow_the_tags_of_the_machine() {
    let (server, site) = world();
    let disks = json!({"rootVolume": {"size": 20}, "nonRootVolumes": [{"deviceName": "/dev/sdb", "size": 10}]});
    add(&server, machine(&site, "m", "m5.large", disks));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    let tags = |key: &'static str| {
        launched(&site, |instance| {
            let tag = |disk: &sim::ec2::world::instance::Volume| disk.tags.at(jiff::Timestamp::MAX)?.get(key).cloned();
            instance.volumes.iter().map(tag).collect::<Vec<_>>()
        })
    };
    let both = |value: &str| vec![Some(value.to_owned()), Some(value.to_owned())];
    assert_eq!((tags("team"), tags("MachineName")), (both("blue"), both("team/m")), "from the launch on");
    let wire = launched(&site, |instance| instance.interfaces[0].tags.at(jiff::Timestamp::MAX).cloned().unwrap());
    assert_eq!((wire["team"].as_str(), wire["MachineName"].as_str()), ("blue", "team/m"), "its interface too");
    pass(120).await;
    assert_eq!(site.ec2.calls("CreateTags"), 0);
    server.edit(MACHINES, NS, "m", |object| object["spec"]["additionalTags"] = json!({"stage": "test"})).unwrap();
    assert!(server.wait_until(LIMIT, |_| tags("stage") == both("test")).await);
    server.edit(MACHINES, NS, "m", |object| object["spec"]["additionalTags"] = json!({})).unwrap();
    assert!(server.wait_until(LIMIT, |_| tags("stage") == [None, None]).await);
    assert_eq!(tags("team"), both("blue"), "tags of the cluster stay");
}

#[tokio::test(start_paused = true)]
async fn a_tag_that_could_not_be_taken_off_is_taken_off_later_although_others_could() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    server.edit(MACHINES, NS, "m", |object| object["spec"]["additionalTags"] = json!({"stage": "test"})).unwrap();
    let staged = || {
        let disk = launched(&site, |instance| {
            instance.volumes[0].tags.at(jiff::Timestamp::MAX).is_some_and(|tags| tags.contains_key("stage"))
        });
        let (instance, host) = (site.ec2.instances().remove(0), site.paid().remove(0));
        [instance.tags.contains_key("stage"), disk, host.tags.contains_key("stage")]
    };
    assert!(server.wait_until(LIMIT, |_| staged() == [true; 3]).await);
    pass(60).await;
    // The instance comes first, then its disk, then the host.
    site.ec2.script(Fault::refuse("DeleteTags", 403, "UnauthorizedOperation").times(2));
    server.edit(MACHINES, NS, "m", |object| object["spec"]["additionalTags"] = json!({})).unwrap();
    assert!(server.wait_until(LIMIT, |_| staged() == [true, true, false]).await, "{:?}", staged());
    assert!(server.wait_until(LIMIT, |_| staged() == [false; 3]).await, "{:?}", staged());
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_an_owner_or_a_cluster_is_not_touched() {
    let (server, site) = world();
    let mut orphan = dynamic(&site, "orphan");
    orphan["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    server.put(orphan).unwrap();
    assert!(server.delete(CLUSTERS, NS, "c"));
    add(&server, dynamic(&site, "m"));
    let before = ["orphan", "m"].map(|name| server.get(MACHINES, NS, name));
    let _process = site.start(&server, site.config());
    pass(3_600).await;
    assert_eq!(["orphan", "m"].map(|name| server.get(MACHINES, NS, name)), before, "not even a condition");
    assert_eq!(site.ec2.log().len(), 0);
    server.put(cluster()).unwrap();
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "it is woken when the Cluster comes");
    assert_eq!(server.get(MACHINES, NS, "orphan"), before[0]);
}
