//! What the contract does not ask: arguments, data, forged journals, and hosts that are kept.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use claim_kind::contract::TENANT;
use hosts::config::Config;
use kit::clock::Clock;
use serde_json::{Value, json};
use sim::server::Server;
use tokio::task::JoinSet;

use crate::dedicated::{CLAIMS, Platform, spec};
use crate::site::{note, pass};
use crate::sweeps::{check, claim, prepare};

pub const LIMIT: Duration = Duration::from_secs(3 * 3_600);

pub fn world() -> (Server, Platform) {
    let server = Server::new(1);
    let platform = Platform::new(&server.clock(), None);
    prepare(&server);
    (server, platform)
}

pub fn start(server: &Server, platform: &Platform, config: Config) -> JoinSet<()> {
    let (platform, client) = (platform.clone(), server.client("hosts").kube());
    let clock = Clock::simulated((server.clock())(), 1);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { platform.run(client, clock, config).await });
    tasks
}

pub fn get(server: &Server, name: &str) -> Value {
    server.get(CLAIMS, TENANT, name).unwrap_or_default()
}

pub fn condition(server: &Server, name: &str, type_: &str) -> (String, String) {
    let claim = get(server, name);
    let all = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
    (found["reason"].as_str().unwrap_or_default().to_owned(), found["message"].as_str().unwrap_or_default().to_owned())
}

pub fn ready(server: &Server, name: &str) -> bool {
    get(server, name)["status"]["ready"] == true
}

pub fn with(args: &[(&str, &str)]) -> Value {
    let mut spec = spec();
    for (name, value) in args {
        spec["args"][*name] = json!(value);
    }
    spec
}

#[tokio::test(start_paused = true)]
async fn a_claim_tells_where_its_machine_is_and_how_to_reach_it() {
    let (server, platform) = world();
    server.put(claim("c", spec())).unwrap();
    let _process = start(&server, &platform, platform.site.config());
    assert!(server.wait_until(LIMIT, |s| ready(s, "c")).await, "{}", get(&server, "c")["status"]);
    let (claim, host) = (get(&server, "c"), platform.site.paid().remove(0));
    let (status, uid) = (&claim["status"], claim["metadata"]["uid"].as_str().unwrap().to_owned());
    let instance = platform.site.alive().remove(0);
    assert_eq!(status["resourceID"], format!("{}/{instance}", host.id));
    assert_eq!(status["providerID"], format!("aws:///{}/{instance}", host.zone));
    assert_eq!((&status["hostUID"], &status["failureDomain"]), (&json!(instance), &json!(host.zone)));
    assert!(status["addresses"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == "InternalIP")));
    assert_eq!(host.client_token.as_deref(), Some(format!("dh-{uid}-1").as_str()), "the uid is the token");
    assert_eq!(host.tags["hosts.berth.dev/allocation-id"], uid);
    assert_eq!(host.tags["MachineName"], format!("{TENANT}/HostClaim/c"));
    check(&server, &platform).unwrap();
}

#[tokio::test(start_paused = true)]
async fn arguments_that_cannot_be_used_are_told_by_their_names_and_cost_nothing() {
    let (server, platform) = world();
    let cases = [
        ("size", with(&[("instanceType", "")]), "instanceType"),
        ("family", with(&[("instanceFamily", "c5")]), "not of the family c5"),
        ("zone", with(&[("region", "Moon")]), "region"),
        ("more", with(&[("colour", "red")]), "colour"),
        ("loose", with(&[("hostAffinity", "default")]), "hostAffinity"),
        ("image", with(&[("ami", "ami-00000000000000000")]), "ami-00000000000000000"),
        ("network", with(&[("subnet", "subnet-00000000000000000")]), "subnet"),
        ("who", with(&[("identity", "AWSClusterStaticIdentity/theirs")]), "credentials"),
    ];
    for (name, spec, _) in &cases {
        server.put(claim(name, spec.clone())).unwrap();
    }
    let _process = start(&server, &platform, platform.site.config());
    pass(3_600).await;
    for (name, _, part) in &cases {
        let (reason, message) = condition(&server, name, "Associated");
        assert!(message.contains(part), "{name}: {reason}: {message}");
    }
    assert_eq!((platform.site.paid().len(), platform.site.alive().len()), (0, 0));
    for (name, ..) in &cases {
        server.delete(CLAIMS, TENANT, name);
    }
    assert!(server.wait_until(LIMIT, |s| s.list(CLAIMS, TENANT).is_empty()).await, "what was never made is let go");
}

#[tokio::test(start_paused = true)]
async fn data_that_are_too_large_are_refused_before_a_host_is_paid_for() {
    let (server, platform) = world();
    let data = json!({"userData": STANDARD.encode(vec![b'x'; 16 * 1024 + 1])});
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "big", "namespace": TENANT}, "data": data});
    server.put(secret).unwrap();
    let mut spec = spec();
    spec["userData"] = json!({"name": "big"});
    server.put(claim("c", spec)).unwrap();
    let _process = start(&server, &platform, platform.site.config());
    assert!(server.wait_until(LIMIT, |s| condition(s, "c", "Synchronized").0 == "DataTooLarge").await);
    pass(3_600).await;
    assert_eq!(platform.site.ec2.calls("AllocateHosts"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_forged_journal_neither_takes_nor_ends_what_is_anothers() {
    let (server, platform) = world();
    server.put(claim("victim", spec())).unwrap();
    let process = start(&server, &platform, platform.site.config());
    assert!(server.wait_until(LIMIT, |s| ready(s, "victim")).await);
    drop(process);
    // The instance of the victim is ended, so that its host is empty and looks free.
    let (host, instance) = (platform.site.paid().remove(0).id, platform.site.alive().remove(0));
    platform.site.ec2.set_instance_state(
        crate::site::REGION,
        &instance,
        sim::ec2::world::instance::InstanceState::Terminated,
    );
    pass(60).await;
    let mut thief = claim("thief", spec());
    thief["metadata"]["annotations"] = get(&server, "victim")["metadata"]["annotations"].clone();
    thief["metadata"]["annotations"].as_object_mut().unwrap().remove("hosts.berth.dev/instance");
    thief["metadata"]["annotations"].as_object_mut().unwrap().remove("hosts.berth.dev/launch");
    server.put(thief).unwrap();
    let _process = start(&server, &platform, platform.site.config());
    pass(2 * 3_600).await;
    assert_eq!(platform.site.alive().len(), 0, "nothing was launched on {host}");
    server.delete(CLAIMS, TENANT, "thief");
    pass(2 * 3_600).await;
    assert_eq!(platform.site.paid().len(), 1, "{host} is the victim's");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_to_be_kept_is_left_to_its_owner() {
    let (server, platform) = world();
    server.put(claim("c", with(&[("autoRelease", "false")]))).unwrap();
    let _process = start(&server, &platform, platform.site.config());
    assert!(server.wait_until(LIMIT, |s| ready(s, "c")).await);
    server.delete(CLAIMS, TENANT, "c");
    assert!(server.wait_until(LIMIT, |s| s.list(CLAIMS, TENANT).is_empty()).await);
    let kept = platform.site.paid().remove(0);
    assert_eq!((kept.tags["hosts.berth.dev/retained"].as_str(), platform.site.alive().len()), ("true", 0));
}

#[tokio::test(start_paused = true)]
async fn the_host_of_a_claim_is_nobodys_only_once_no_claim_names_it() {
    let (server, platform) = world();
    server.put(claim("c", spec())).unwrap();
    let config =
        || Config { orphan_interval: Some(Duration::from_secs(900)), release_orphans: true, ..platform.site.config() };
    let process = start(&server, &platform, config());
    assert!(server.wait_until(LIMIT, |s| ready(s, "c")).await);
    let instance = platform.site.alive().remove(0);
    platform.site.ec2.set_instance_state(
        crate::site::REGION,
        &instance,
        sim::ec2::world::instance::InstanceState::Terminated,
    );
    pass(3 * 3_600).await;
    assert_eq!(platform.site.paid().len(), 1, "its claim is still there");
    drop(process);
    // By hand, as people do.
    server.edit(CLAIMS, TENANT, "c", |claim| claim["metadata"]["finalizers"] = json!([])).unwrap();
    server.delete(CLAIMS, TENANT, "c");
    server.put(claim("c", spec())).unwrap();
    let _process = start(&server, &platform, config());
    assert!(server.wait_until(LIMIT, |s| ready(s, "c")).await, "a claim of the same name is another one");
    pass(3 * 3_600).await;
    assert_eq!(platform.site.paid().len(), 1, "and the host that belonged to nobody went back");
    assert_ne!(note(&get(&server, "c"), "allocation").unwrap()["hosts"], json!([]));
    check(&server, &platform).unwrap();
}
