//! Machines: dedicated hosts on EC2, and claims.

use super::*;

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

fn cluster(kind: &str) -> Value {
    let reference = json!({"apiGroup": INFRASTRUCTURE, "kind": kind, "name": "prod"});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"namespace": "team-a", "name": "prod"}, "spec": {"infrastructureRef": reference},
        "status": {"initialization": {"infrastructureProvisioned": true}}})
}

fn network() -> Value {
    let subnet = |id: &str, zone: &str| json!({"id": id, "availabilityZone": zone, "isPublic": false});
    let subnets = [subnet("subnet-0000000a", "us-west-2a"), subnet("subnet-0000000b", "us-west-2b")];
    json!({"apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "AWSCluster",
        "metadata": {"namespace": "team-a", "name": "prod"},
        "spec": {"region": "us-west-2", "network": {"vpc": {"id": "vpc-00000001"}, "subnets": subnets}}})
}

fn owner(name: &str, kind: &str, more: &Value) -> Value {
    let reference = json!({"apiGroup": INFRASTRUCTURE, "kind": kind, "name": name});
    let plain = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"namespace": "team-a", "name": name},
        "spec": {"clusterName": "prod", "infrastructureRef": reference, "bootstrap": {}}});
    merged(plain, more)
}

fn machine(name: &str, more: &Value) -> Value {
    let plain = json!({"apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "AWSMachine",
        "metadata": {"namespace": "team-a", "name": name},
        "spec": {"instanceType": "m5.metal", "ami": {"id": "ami-0123456789abcdef0"}, "dynamicHostAllocation": {}}});
    merged(plain, more)
}

/// A machine that has its host.
fn runs(name: &str) -> Value {
    let journal = json!({"v": 1, "id": "6f0c1111", "epoch": 1, "token": "dh-6f0c1111-1", "az": "us-west-2a",
        "subnet": "subnet-0000000a", "type": "m5.metal", "qty": 1, "phase": "Allocated",
        "hosts": ["h-0123456789abcdef0"], "at": "2026-01-02T00:00:00Z"});
    machine(
        name,
        &json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "prod"},
        "annotations": {"hosts.berth.dev/allocation": journal.to_string()}}}),
    )
}

fn sentence(told: &Explanation, name: &str) -> String {
    told.needs.iter().find(|need| need.name == name).map(|need| need.sentence.clone()).unwrap_or_default()
}

#[tokio::test]
async fn a_machine_is_told_where_its_host_would_be_and_which_cap_it_would_hit() {
    let server = server();
    put(&server, [cluster("AWSCluster"), network(), runs("prod-0")]);
    let zone = json!({"spec": {"failureDomain": "us-west-2b"}});
    let mut files = file(&[
        machine("prod-1", &json!({})),
        owner("prod-1", "AWSMachine", &zone),
        machine("prod-2", &json!({})),
        owner("prod-2", "AWSMachine", &json!({})),
    ]);
    let told = told(&server, &mut files, &["--max-hosts-per-cluster=2"]).await;
    assert_eq!(told[0].summary, "a dedicated host for m5.metal would be allocated in us-west-2b");
    assert_eq!(told[1].needs[0].reason, Some("HostAllocationDenied"), "the first of them counts for the second");
    assert!(told[1].summary.contains("cluster prod would have 3 dedicated hosts, and --max-hosts-per-cluster is 2"));
    insta::assert_snapshot!(shown(&told, &files));
}

#[tokio::test]
async fn what_cannot_be_known_without_ec2_or_the_cluster_is_said() {
    let server = server();
    put(&server, [cluster("AWSCluster"), network()]);
    let named = json!({"spec": {"subnet": {"id": "subnet-000000ff"}}});
    let mut files = file(&[
        machine("named", &named),
        owner("named", "AWSMachine", &json!({})),
        machine("alone", &json!({})),
        machine("plain", &json!({"spec": {"dynamicHostAllocation": null}})),
        machine("wrong", &json!({"spec": {"dynamicHostAllocation": {"quantity": 11}}})),
        machine("lost", &json!({})),
        owner("lost", "AWSMachine", &json!({"spec": {"failureDomain": "us-west-2c"}})),
    ]);
    let told = told(&server, &mut files, &[]).await;
    let summary = |name: &str| told.iter().find(|one| one.object.name == name).unwrap().summary.clone();
    assert!(summary("named").contains("the zone of the subnet subnet-000000ff that it names is asked of EC2"));
    assert!(summary("alone").contains("which subnets there are the AWSCluster says"), "{}", summary("alone"));
    assert!(summary("plain").starts_with("no dedicated host would be allocated"), "{}", summary("plain"));
    assert!(summary("wrong").starts_with("it would be refused: spec.dynamicHostAllocation.quantity"));
    assert!(summary("lost").contains("no private subnet in zone us-west-2c"), "{}", summary("lost"));
    assert!(sentence(&told[1], "before anything is done").contains("no Machine refers to it"));
    assert!(told.iter().all(|one| one.unseen.iter().any(|unseen| unseen.contains("EC2 was not asked"))));
    let refused: Vec<bool> = told.iter().map(|one| is_refused(std::slice::from_ref(one), &[])).collect();
    assert_eq!(
        refused,
        told.iter().map(|one| one.object.name == "wrong").collect::<Vec<_>>(),
        "the exit code tells it"
    );
}

#[tokio::test]
async fn a_machine_that_has_its_host_asks_for_no_other() {
    let server = server();
    put(&server, [cluster("AWSCluster"), network(), runs("prod-0")]);
    let told = told(&server, &mut file(&[machine("prod-0", &json!({}))]), &["--max-hosts-per-cluster=1"]).await;
    assert_eq!((told[0].level, told[0].needs.len()), (Level::Ok, 0), "{told:?}");
}

#[tokio::test]
async fn a_machine_that_is_not_looked_after_is_promised_nothing_and_takes_nothing_away() {
    let server = server();
    put(&server, [cluster("AWSCluster"), network()]);
    let ours = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "ours"}}});
    let mut files = file(&[
        machine("theirs", &json!({})),
        owner("theirs", "AWSMachine", &json!({})),
        machine("ours", &ours),
        owner("ours", "AWSMachine", &json!({})),
    ]);
    let told = told(&server, &mut files, &["--watch-filter=ours", "--max-hosts-per-cluster=1"]).await;
    assert_eq!(told[0].summary, "no dedicated host would be allocated: the watch filter does not take it in");
    assert_eq!((told[0].level, told[0].next.len()), (Level::Aside, 0), "{told:?}");
    assert!(told[1].summary.starts_with("a dedicated host for m5.metal would be allocated in "), "{told:?}");
}

#[tokio::test]
async fn a_template_is_told_for_each_machine_of_it() {
    let server = server();
    let spec = json!({"instanceType": "m5.metal", "ami": {"id": "ami-0123456789abcdef0"}, "dynamicHostAllocation": {"quantity": 2}});
    let template = json!({"apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "AWSMachineTemplate",
        "metadata": {"namespace": "team-a", "name": "metal"}, "spec": {"template": {"spec": spec}}});
    let told = told(&server, &mut file(&[template]), &[]).await;
    assert_eq!(told[0].summary, "for each machine of it 2 dedicated hosts for m5.metal would be allocated");
}

fn metal(name: &str, more: &Value) -> Value {
    let image = json!({"url": "https://images.example/node.raw", "checksum": "https://images.example/node.raw.sha256"});
    let plain = json!({"apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "Metal3Machine",
        "metadata": {"namespace": "team-a", "name": name},
        "spec": {"kind": "baremetal", "image": image, "hostSelector": {"matchLabels": {"size": "large"}}}});
    merged(plain, more)
}

#[tokio::test]
async fn a_machine_on_a_claim_is_told_which_claim_and_which_host() {
    let server = server();
    put(&server, [cluster("Metal3Cluster"), host("one", "small"), host("two", "large"), policy()]);
    let mut files = file(&[
        metal("prod-1", &json!({})),
        owner("prod-1", "Metal3Machine", &json!({})),
        metal("prod-2", &json!({"spec": {"kind": "cloudstack-vm"}})),
        metal("prod-3", &json!({"spec": {"kind": null}})),
    ]);
    let told = told(&server, &mut files, &[]).await;
    let of = |name: &str| told.iter().find(|one| one.object.name == name).unwrap();
    assert!(of("prod-1").summary.starts_with("the HostClaim team-a/prod-1 of kind baremetal would be made"));
    assert!(of("prod-1").next.iter().any(|next| next.what == "bind metal/two"), "{told:?}");
    assert!(sentence(of("prod-1"), "before the claim is made").contains("bootstrap data"), "{told:?}");
    assert!(of("prod-2").summary.starts_with("the HostClaim team-a/prod-2 of kind cloudstack-vm would be made"));
    assert!(of("prod-3").summary.starts_with("no claim would be made: it takes its host directly"));
    insta::assert_snapshot!(shown(&told, &files));
}

#[tokio::test]
async fn a_claim_of_somebody_else_is_not_taken_over() {
    let server = server();
    put(&server, [cluster("Metal3Cluster"), host("two", "large"), policy(), claim("prod-1")]);
    let ready = json!({"spec": {"bootstrap": {"dataSecretName": "prod-1"}}});
    let told =
        told(&server, &mut file(&[metal("prod-1", &json!({})), owner("prod-1", "Metal3Machine", &ready)]), &[]).await;
    assert!(told[0].summary.contains("no claim would be made: HostClaim prod-1 belongs to somebody else"), "{told:?}");
}
