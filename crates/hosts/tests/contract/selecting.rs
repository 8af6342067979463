//! Claims that select hosts: what is there and fits is taken or shared before anything is paid for.

use std::time::Duration;

use aws::port::{Ec2, Tags};
use claim_kind::contract::{OTHER, TENANT};
use hosts::config::Config;
use serde_json::{Value, json};
use sim::ec2::world::faults::Fault;
use sim::ec2::world::host::HostState;
use sim::ec2::world::instance::InstanceState;
use sim::ec2::world::oracle::HostFacts;
use sim::server::Server;

use crate::dedicated::{CLAIMS, Platform};
use crate::site::{REGION, ZONE, note, pass};
use crate::stories::{LIMIT, condition, get, ready, start, with, world};
use crate::sweeps::{check, claim};

const ID: &str = "hosts.berth.dev/allocation-id";
const RETAINED: &str = "hosts.berth.dev/retained";

/// A claim that selects hosts of a pool.
pub fn selecting(args: &[(&str, &str)]) -> Value {
    let mut spec = with(args);
    spec["hostSelector"] = json!({"matchLabels": {"pool": "gold"}});
    spec
}

fn uid(server: &Server, name: &str) -> String {
    get(server, name)["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn phase(server: &Server, name: &str) -> String {
    let journal = note(&get(server, name), "allocation").unwrap_or_default();
    journal["phase"].as_str().unwrap_or_default().to_owned()
}

fn is_gone(server: &Server, name: &str) -> bool {
    server.get(CLAIMS, TENANT, name).is_none()
}

fn only(platform: &Platform) -> HostFacts {
    let mut paid = platform.site.paid();
    assert_eq!(paid.len(), 1, "{paid:?}");
    paid.remove(0)
}

/// Launches that EC2 refused, rehearsals aside.
fn refused(platform: &Platform) -> Vec<String> {
    let log = platform.site.ec2.log();
    let launches = log.iter().filter(|entry| entry.action == "RunInstances" && !entry.code.is_empty());
    launches.map(|entry| entry.code.clone()).filter(|code| code != "DryRunOperation").collect()
}

async fn is_ready(server: &Server, name: &str) {
    assert!(server.wait_until(LIMIT, |s| ready(s, name)).await, "{name}: {}", get(server, name)["status"]);
}

async fn is_deleted(server: &Server, name: &str) {
    server.delete(CLAIMS, TENANT, name);
    assert!(server.wait_until(LIMIT, |s| is_gone(s, name)).await, "{name}: {}", get(server, name));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_left_behind_is_taken_by_the_next_claim_that_selects_it() {
    let (server, platform) = world();
    server.put(claim("first", selecting(&[("autoRelease", "false")]))).unwrap();
    let _process = start(&server, &platform, platform.site.config());
    is_ready(&server, "first").await;
    let host = only(&platform);
    assert_eq!(host.tags["pool"], "gold", "so that the next one finds it");
    let why = condition(&server, "first", "Associated").1;
    assert!(why.contains(&host.id) && why.contains("No host that was there fitted"), "{why}");
    is_deleted(&server, "first").await;
    assert_eq!(only(&platform).tags[RETAINED], "true");

    server.put(claim("second", selecting(&[]))).unwrap();
    is_ready(&server, "second").await;
    let taken = only(&platform);
    assert_eq!((&taken.id, platform.site.ec2.calls("AllocateHosts")), (&host.id, 1), "none was allocated");
    assert_eq!(taken.tags[ID], uid(&server, "second"));
    assert_eq!(taken.tags["MachineName"], format!("{TENANT}/HostClaim/second"));
    assert!(!taken.tags.contains_key(RETAINED) && taken.tags["pool"] == "gold", "{:?}", taken.tags);
    let why = condition(&server, "second", "Associated").1;
    assert!(why.contains(&host.id) && why.contains("was there and fits spec.hostSelector"), "{why}");
    check(&server, &platform).unwrap();
    is_deleted(&server, "second").await;
    assert!(platform.site.paid().is_empty(), "the second one wanted it to be released");
}

#[tokio::test(start_paused = true)]
async fn two_claims_share_a_host_and_the_last_one_gives_it_back_in_either_order() {
    for [first, last] in [["a", "b"], ["b", "a"]] {
        let (server, platform) = world();
        server.put(claim("a", selecting(&[]))).unwrap();
        let _process = start(&server, &platform, platform.site.config());
        is_ready(&server, "a").await;
        let host = only(&platform);
        server.put(claim("b", selecting(&[]))).unwrap();
        is_ready(&server, "b").await;
        assert_eq!((only(&platform).id, platform.site.alive().len()), (host.id.clone(), 2));
        assert_eq!((phase(&server, "a"), phase(&server, "b")), ("Allocated".to_owned(), "Claimed".to_owned()));
        let why = condition(&server, "b", "Associated").1;
        assert!(why.contains(&host.id) && why.contains("shares it"), "{why}");
        check(&server, &platform).unwrap();
        is_deleted(&server, first).await;
        let left = only(&platform);
        assert_eq!((&left.id, platform.site.alive().len()), (&host.id, 1), "{first} left first");
        assert_eq!((phase(&server, last), &left.tags[ID]), ("Allocated".to_owned(), &uid(&server, last)));
        assert!(ready(&server, last));
        check(&server, &platform).unwrap();
        pass(3_600).await;
        assert!(ready(&server, last), "{}", get(&server, last)["status"]);
        is_deleted(&server, last).await;
        assert!(platform.site.paid().is_empty() && platform.site.alive().is_empty());
        assert_eq!(platform.site.ec2.calls("AllocateHosts"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_claims_one_gets_the_last_room_on_a_host_and_the_other_a_host_of_its_own() {
    let (server, platform) = world();
    // Two of these fill a host.
    let spec = || selecting(&[("instanceType", "m5.12xlarge")]);
    server.put(claim("a", spec())).unwrap();
    let _process = start(&server, &platform, platform.site.config());
    is_ready(&server, "a").await;
    server.put(claim("b", spec())).unwrap();
    server.put(claim("c", spec())).unwrap();
    is_ready(&server, "b").await;
    is_ready(&server, "c").await;
    assert_eq!((platform.site.paid().len(), platform.site.alive().len()), (2, 3));
    assert_eq!(refused(&platform), [""; 0], "nobody counted on room that another one had");
    let mut phases = [phase(&server, "b"), phase(&server, "c")];
    phases.sort();
    assert_eq!(phases, ["Allocated", "Claimed"]);
    check(&server, &platform).unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_another_tenant_has_or_left_behind_is_never_taken() {
    let (server, platform) = world();
    server.namespace(OTHER);
    let identities = "awsclustercontrolleridentities.infrastructure.cluster.x-k8s.io";
    let both = |identity: &mut Value| identity["spec"]["allowedNamespaces"]["list"] = json!([TENANT, OTHER]);
    server.edit(identities, "", "default", both).unwrap();
    let theirs = |name: &str, args: &[(&str, &str)]| {
        let mut theirs = claim(name, selecting(args));
        theirs["metadata"]["namespace"] = json!(OTHER);
        server.put(theirs).unwrap();
    };
    let there =
        |s: &Server, name: &str| s.get(CLAIMS, OTHER, name).is_some_and(|claim| claim["status"]["ready"] == true);
    theirs("kept", &[("autoRelease", "false"), ("instanceType", "m5.xlarge")]);
    theirs("used", &[]);
    let _process = start(&server, &platform, platform.site.config());
    assert!(server.wait_until(LIMIT, |s| there(s, "kept") && there(s, "used")).await);
    server.delete(CLAIMS, OTHER, "kept");
    assert!(server.wait_until(LIMIT, |s| s.get(CLAIMS, OTHER, "kept").is_none()).await);
    // EC2 counts an instance for a while past its end.
    pass(600).await;
    let before = platform.site.paid();
    assert_eq!(before.len(), 2);
    server.put(claim("a", selecting(&[("instanceType", "m5.xlarge")]))).unwrap();
    server.put(claim("b", selecting(&[]))).unwrap();
    is_ready(&server, "a").await;
    is_ready(&server, "b").await;
    assert_eq!(platform.site.paid().len(), 4, "each has a host of its own");
    for host in before {
        let now = platform.site.paid().into_iter().find(|now| now.id == host.id).unwrap();
        assert_eq!((now.tags, now.instances), (host.tags, host.instances));
    }
    is_deleted(&server, "a").await;
    is_deleted(&server, "b").await;
    assert_eq!(platform.site.paid().len(), 2, "and gives back nothing else");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_fit_is_left_where_it_is() {
    let (server, platform) = world();
    server.put(claim("first", selecting(&[("autoRelease", "false")]))).unwrap();
    let _process = start(&server, &platform, platform.site.config());
    is_ready(&server, "first").await;
    is_deleted(&server, "first").await;
    let kept = only(&platform);
    assert_eq!(kept.zone, ZONE);
    let mut elsewhere = selecting(&[]);
    elsewhere["failureDomain"] = json!("us-west-2b");
    elsewhere["failureDomainMode"] = json!("Required");
    let mut silver = selecting(&[]);
    silver["hostSelector"] =
        json!({"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["gold", "bronze"]}]});
    let specs = [
        ("type", selecting(&[("instanceType", "m5.xlarge")])),
        ("zone", elsewhere),
        ("label", silver),
        ("alone", with(&[])),
    ];
    for (name, spec) in &specs {
        server.put(claim(name, spec.clone())).unwrap();
        is_ready(&server, name).await;
        assert_eq!(phase(&server, name), "Allocated", "{name}");
    }
    let now = platform.site.paid().into_iter().find(|host| host.id == kept.id).unwrap();
    assert_eq!((now.tags, now.instances.len()), (kept.tags, 0));
    assert_eq!((platform.site.paid().len(), platform.site.alive().len()), (5, 4));
    check(&server, &platform).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_host_of_a_claim_that_selects_nothing_is_its_own_alone() {
    let (server, platform) = world();
    server.put(claim("alone", with(&[]))).unwrap();
    let _process = start(&server, &platform, platform.site.config());
    is_ready(&server, "alone").await;
    let host = only(&platform);
    let gold = Tags::from([("pool".to_owned(), "gold".to_owned())]);
    platform.site.somebody(&server).create_tags(std::slice::from_ref(&host.id), &gold).await.unwrap();
    pass(120).await;
    server.put(claim("b", selecting(&[]))).unwrap();
    is_ready(&server, "b").await;
    assert_eq!((phase(&server, "b").as_str(), platform.site.paid().len()), ("Allocated", 2));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_full_or_gone_when_it_comes_to_the_launch_is_left_for_another_one() {
    for code in ["InsufficientCapacityOnHost", "InvalidHostID.NotFound"] {
        let (server, platform) = world();
        server.put(claim("a", selecting(&[]))).unwrap();
        let _process = start(&server, &platform, platform.site.config());
        is_ready(&server, "a").await;
        platform.site.ec2.script(Fault::refuse("RunInstances", 400, code));
        server.put(claim("b", selecting(&[]))).unwrap();
        is_ready(&server, "b").await;
        assert_eq!(refused(&platform), [code], "it was the launch that was refused");
        assert_eq!((platform.site.paid().len(), platform.site.alive().len()), (2, 2), "{code}");
        assert_eq!(phase(&server, "b"), "Allocated");
        check(&server, &platform).unwrap();
        is_deleted(&server, "a").await;
        is_deleted(&server, "b").await;
        assert!(platform.site.paid().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_vanishes_once_it_was_chosen_is_not_waited_for() {
    let (server, platform) = world();
    server.put(claim("first", selecting(&[("autoRelease", "false")]))).unwrap();
    let _process = start(&server, &platform, platform.site.config());
    is_ready(&server, "first").await;
    is_deleted(&server, "first").await;
    let kept = only(&platform).id;
    // Nothing can be tagged, so the host is chosen and not signed; then somebody releases it.
    platform.site.ec2.script(Fault::deny("CreateTags"));
    server.put(claim("second", selecting(&[]))).unwrap();
    assert!(server.wait_until(LIMIT, |s| phase(s, "second") == "Allocated").await);
    assert!(platform.site.ec2.set_host_state(REGION, &kept, HostState::Released));
    platform.site.ec2.clear_script();
    is_ready(&server, "second").await;
    assert_ne!(only(&platform).id, kept);
    check(&server, &platform).unwrap();
    is_deleted(&server, "second").await;
    assert!(platform.site.paid().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_host_that_may_not_be_tagged_is_left_and_another_one_is_allocated() {
    let (server, platform) = world();
    server.put(claim("first", selecting(&[("autoRelease", "false")]))).unwrap();
    let _process = start(&server, &platform, platform.site.config());
    is_ready(&server, "first").await;
    is_deleted(&server, "first").await;
    // EC2 counts an instance for a while past its end.
    pass(600).await;
    let kept = only(&platform);
    platform.site.ec2.script(Fault::deny("CreateTags"));
    server.put(claim("second", selecting(&[]))).unwrap();
    is_ready(&server, "second").await;
    assert_eq!((platform.site.paid().len(), platform.site.alive().len()), (2, 1));
    let now = platform.site.paid().into_iter().find(|host| host.id == kept.id).unwrap();
    assert_eq!((now.tags, now.instances), (kept.tags, kept.instances), "nothing was launched on it");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_its_claim_wants_to_keep_is_kept_whoever_still_shares_it() {
    let (server, platform) = world();
    server.put(claim("a", selecting(&[("autoRelease", "false")]))).unwrap();
    let _process = start(&server, &platform, platform.site.config());
    is_ready(&server, "a").await;
    server.put(claim("b", selecting(&[]))).unwrap();
    is_ready(&server, "b").await;
    is_deleted(&server, "a").await;
    assert_eq!((only(&platform).tags[RETAINED].as_str(), platform.site.alive().len()), ("true", 1));
    assert!(ready(&server, "b"));
    server.put(claim("c", selecting(&[]))).unwrap();
    is_ready(&server, "c").await;
    assert_eq!(platform.site.paid().len(), 2, "what somebody is on is not taken from under it");
    is_deleted(&server, "c").await;
    is_deleted(&server, "b").await;
    assert_eq!((only(&platform).tags[RETAINED].as_str(), platform.site.alive().len()), ("true", 0));
}

#[tokio::test(start_paused = true)]
async fn a_shared_host_is_nobodys_only_once_nobody_names_it() {
    let (server, platform) = world();
    server.put(claim("a", selecting(&[]))).unwrap();
    let config =
        || Config { orphan_interval: Some(Duration::from_secs(900)), release_orphans: true, ..platform.site.config() };
    let process = start(&server, &platform, config());
    is_ready(&server, "a").await;
    server.put(claim("b", selecting(&[]))).unwrap();
    is_ready(&server, "b").await;
    let host = only(&platform).id;
    drop(process);
    // By hand, as people do; and everything on the host ends.
    server.edit(CLAIMS, TENANT, "a", |claim| claim["metadata"]["finalizers"] = json!([])).unwrap();
    server.delete(CLAIMS, TENANT, "a");
    for instance in platform.site.alive() {
        platform.site.ec2.set_instance_state(REGION, &instance, InstanceState::Terminated);
    }
    let _process = start(&server, &platform, config());
    pass(3 * 3_600).await;
    assert_eq!(only(&platform).id, host, "the journal of b names it");
    is_deleted(&server, "b").await;
    pass(3 * 3_600).await;
    assert!(platform.site.paid().is_empty(), "the owner went without a word, so it was nobody's and went back");
}

#[tokio::test(start_paused = true)]
async fn a_forged_place_gives_nobody_a_host_of_others() {
    let (server, platform) = world();
    server.namespace(OTHER);
    let identities = "awsclustercontrolleridentities.infrastructure.cluster.x-k8s.io";
    let both = |identity: &mut Value| identity["spec"]["allowedNamespaces"]["list"] = json!([TENANT, OTHER]);
    server.edit(identities, "", "default", both).unwrap();
    let mut victim = claim("victim", selecting(&[]));
    victim["metadata"]["namespace"] = json!(OTHER);
    server.put(victim).unwrap();
    let _process = start(&server, &platform, platform.site.config());
    let there = |s: &Server| s.get(CLAIMS, OTHER, "victim").is_some_and(|claim| claim["status"]["ready"] == true);
    assert!(server.wait_until(LIMIT, there).await);
    let host = only(&platform);
    // The thief gets a place of its own first, so that its journal is one that can be read.
    server.put(claim("own", selecting(&[]))).unwrap();
    is_ready(&server, "own").await;
    server.put(claim("thief", selecting(&[]))).unwrap();
    is_ready(&server, "thief").await;
    assert_eq!(phase(&server, "thief"), "Claimed");
    let taken = get(&server, "thief")["metadata"]["annotations"]["hosts.berth.dev/instance"].clone();
    let instance = taken.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let own = platform.site.paid().into_iter().find(|paid| paid.id != host.id).unwrap().id;
    let forge = |claim: &mut Value| {
        let annotations = claim["metadata"]["annotations"].as_object_mut().unwrap();
        let text = annotations["hosts.berth.dev/allocation"].as_str().unwrap().replace(&own, &host.id);
        annotations.insert("hosts.berth.dev/allocation".to_owned(), json!(text));
    };
    server.edit(CLAIMS, TENANT, "thief", forge).unwrap();
    pass(3_600).await;
    server.delete(CLAIMS, TENANT, "thief");
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "thief")).await, "{}", get(&server, "thief"));
    assert!(!platform.site.alive().contains(&instance));
    let now = platform.site.paid().into_iter().find(|paid| paid.id == host.id).unwrap();
    assert_eq!((now.tags, now.instances), (host.tags, host.instances), "the victim's host is as it was");
    is_deleted(&server, "own").await;
    assert_eq!(only(&platform).id, host.id);
}
