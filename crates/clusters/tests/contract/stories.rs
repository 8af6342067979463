//! What happens to single claims.

use std::time::Duration;

use claim_kind::contract::TENANT;
use clusters::vm;
use kit::clock::Clock;
use serde_json::{Value, json};
use sim::cloudstack::world::faults::{Fault, What};
use sim::cloudstack::world::machine::State;
use sim::cloudstack::world::things::Role;
use sim::server::{Kind, Server};
use tokio::task::JoinSet;

use crate::site::{CLAIMS, IDENTITY, Site, claim};

const PATIENCE: Duration = Duration::from_secs(3 * 3600);

struct Story {
    server: Server,
    site: Site,
    _process: JoinSet<()>,
}

impl Story {
    fn begin(prepare: impl FnOnce(&Server, &Site)) -> Self {
        let server = Server::new(1);
        let site = Site::new(&server.clock(), None);
        for crd in api::own::crds() {
            server.put(json!(crd)).unwrap();
        }
        server.register(Kind::namespaced("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"));
        server.namespace(TENANT);
        server.put(site.secret(TENANT, IDENTITY)).unwrap();
        prepare(&server, &site);
        let (client, clock) = (server.client("vm").kube(), Clock::simulated((server.clock())(), 1));
        let (run, mut process) = (site.clone(), JoinSet::new());
        process.spawn(async move { run.run(client, clock).await });
        Self { server, site, _process: process }
    }

    fn claim(&self) -> Value {
        self.server.get(CLAIMS, TENANT, "one").unwrap_or_default()
    }

    fn condition(&self, type_: &str) -> (String, String, String) {
        let claim = self.claim();
        let all = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    /// Waits, in the story's own time, until something holds.
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = tokio::time::Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(tokio::time::Instant::now() < end, "{what}: {} {:?}", self.claim(), self.site.machines());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn ready(&self) {
        self.until("ready", |story| story.condition("Ready").0 == "True").await;
    }

    async fn told(&self, type_: &str, reason: &str) {
        self.until(reason, |story| story.condition(type_).1 == reason).await;
    }

    fn edit(&self, change: impl FnOnce(&mut Value)) {
        self.server.edit(CLAIMS, TENANT, "one", change).unwrap();
    }
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut claim = claim("one");
    change(&mut claim);
    claim
}

#[tokio::test(start_paused = true)]
async fn a_claim_tells_all_of_its_machine_and_a_quiet_one_costs_few_calls() {
    let story = Story::begin(|server, _| {
        let chosen = with(|claim| {
            claim["spec"]["args"]["diskOffering"] = json!("Small");
            claim["spec"]["hostSelector"] = json!({"matchLabels": {"rack": "a"}});
        });
        server.put(chosen).unwrap();
    });
    story.ready().await;
    story.until("tagged", |story| story.site.acs.machines().iter().all(|machine| !machine.tags.is_empty())).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (id, _, state) = story.site.machines()[0].clone();
    assert_eq!(state, State::Running);
    let status = story.claim()["status"].clone();
    assert_eq!(status["resourceID"], json!(id));
    assert_eq!(status["providerID"], json!(format!("cloudstack:///{id}")));
    assert_eq!((&status["failureDomain"], &status["hostUID"]), (&json!("zone-1"), &json!(id)));
    let types: Vec<&str> =
        status["addresses"].as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["InternalIP", "Hostname", "InternalDNS"]);
    assert!(status["bootMACAddress"].is_string() && status["nics"][0]["ip"].is_string());
    assert_eq!(story.condition("Movable").1, "MachineKnownByClaim");
    let (disk, tags) = story.site.acs.with(|world, _| {
        let machine = world.machines.values().next().unwrap();
        (machine.disk.clone(), machine.tags.clone())
    });
    assert!(disk.is_some());
    assert_eq!(tags["claim-uid"], story.claim()["metadata"]["uid"].as_str().unwrap());
    let events = story.server.list("events.events.k8s.io", TENANT);
    assert!(events.iter().any(|event| event["reason"] == "SelectorIgnored"), "{events:?}");
    let (calls, before) = (story.site.acs.log().len(), story.claim());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let calls = story.site.acs.log().len() - calls;
    assert!(calls <= 13, "{calls} calls in an hour");
    assert_eq!(story.claim(), before, "nothing happened, so nothing was written");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_could_not_be_made_is_removed_before_the_next_is_tried() {
    let story = Story::begin(|server, site| {
        let fail = What::FailJob { code: 533, text: "no room at 10.0.0.1 for other-tenant".to_owned() };
        site.acs.script(Fault::on("deployVirtualMachine", fail).times(2));
        server.put(claim("one")).unwrap();
    });
    story.told("Provisioned", "HostError").await;
    let (_, _, message) = story.condition("Provisioned");
    assert!(message.contains("no room for the machine") && !message.contains("10.0.0.1"), "{message}");
    story.ready().await;
    let all = story.site.acs.machines();
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(all.iter().filter(|machine| machine.state == State::Gone).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_makes_no_second_machine() {
    let story = Story::begin(|server, site| {
        site.acs.script(Fault::on("deployVirtualMachine", What::CutAfter));
        server.put(claim("one")).unwrap();
    });
    story.ready().await;
    assert_eq!(story.site.acs.machines().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_ran_and_is_gone_is_never_replaced_and_its_claim_can_go() {
    let story = Story::begin(|server, _| drop(server.put(claim("one")).unwrap()));
    story.ready().await;
    let id = story.site.machines()[0].0.clone();
    assert!(story.site.acs.set_state(&id, State::Gone));
    story.told("Associated", "HostLost").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(story.site.acs.machines().len(), 1, "no second machine of the same identity");
    assert!(story.server.delete(CLAIMS, TENANT, "one"));
    story.until("gone", |story| story.claim().is_null()).await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_is_refused_by_name() {
    for (change, type_, reason, part) in [
        (json!({"args": {"zone": "nowhere"}}), "Associated", "InvalidArguments", "zone \"nowhere\" not found"),
        (json!({"args": {"zone": "zone-off"}}), "Associated", "InvalidArguments", "zone \"zone-off\" is disabled"),
        (json!({"args": {"template": "kube-9"}}), "Associated", "InvalidArguments", "template \"kube-9\" not found"),
        (json!({"args": {"offering": "Custom Instance"}}), "Associated", "InvalidArguments", "leaves processors"),
        (json!({"args": {"diskOffering": "Custom"}}), "Associated", "InvalidArguments", "size required"),
        (json!({"args": {"network": "moon"}}), "Associated", "InvalidArguments", "network \"moon\" not found"),
        (json!({"args": {"colour": "red"}}), "Associated", "InvalidArguments", "not an argument of this kind"),
        (json!({"args": {"account": "admin"}}), "Associated", "InvalidArguments", "go together"),
        (json!({"args": {"identity": ""}}), "Associated", "IdentityUnusable", "no default identity"),
        (json!({"failureDomain": "zone-2"}), "Associated", "InvalidArguments", "must be equal"),
        (json!({"metaData": {"name": "x"}}), "Synchronized", "UnsupportedData", "spec.metaData"),
        (json!({"networkData": {"name": "x"}}), "Synchronized", "UnsupportedData", "spec.networkData"),
        (json!({"userData": {"name": "large"}}), "Synchronized", "DataTooLarge", "32768"),
        (json!({"userData": {"name": "absent"}}), "Synchronized", "UserDataSecretSyncFailure", "absent"),
    ] {
        let story = Story::begin(|server, _| {
            let large = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": TENANT, "name": "large"},
                "stringData": {"userData": "x".repeat(32_769)}});
            server.put(large).unwrap();
            let chosen = with(|claim| {
                for (field, value) in change.as_object().unwrap() {
                    match value.as_object().filter(|_| field == "args") {
                        Some(args) => args.iter().for_each(|(name, value)| claim["spec"]["args"][name] = value.clone()),
                        None => claim["spec"][field] = value.clone(),
                    }
                }
            });
            server.put(chosen).unwrap();
        });
        story.told(type_, reason).await;
        let (_, _, message) = story.condition(type_);
        assert!(message.contains(part), "{change}: {message}");
        assert!(story.site.acs.machines().is_empty(), "{change}");
        // Nothing was made, so nothing keeps the claim.
        assert!(story.server.delete(CLAIMS, TENANT, "one"));
        story.until("gone", |story| story.claim().is_null()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn new_keys_are_used_at_once_and_a_claim_waits_for_keys_to_leave() {
    let story = Story::begin(|server, _| drop(server.put(claim("one")).unwrap()));
    story.ready().await;
    story.site.acs.rotate("admin", "new-key", "new-secret");
    assert!(story.server.delete(CLAIMS, TENANT, "one"));
    story.told("Associated", "HostClaimDeletionFailed").await;
    assert!(!story.condition("Associated").2.contains("simulator-"));
    assert_eq!(story.site.machines().len(), 1);
    let began = tokio::time::Instant::now();
    story
        .server
        .edit("secrets", TENANT, IDENTITY, |secret| {
            secret["data"]["api-key"] = json!("bmV3LWtleQ==");
            secret["data"]["secret-key"] = json!("bmV3LXNlY3JldA==");
        })
        .unwrap();
    story.until("gone", |story| story.claim().is_null()).await;
    assert!(story.site.machines().is_empty());
    assert!(began.elapsed() < Duration::from_secs(60), "it took {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_address_in_a_secret_is_checked_before_anything_is_called() {
    let story = Story::begin(|server, site| {
        let mut secret = site.secret(TENANT, "inside");
        secret["stringData"]["api-url"] = json!("http://169.254.169.254/client/api");
        server.put(secret).unwrap();
        server.put(with(|claim| claim["spec"]["args"]["identity"] = json!("inside"))).unwrap();
    });
    story.told("Associated", "IdentityUnusable").await;
    let (_, _, message) = story.condition("Associated");
    assert!(message.contains("api-url") && !message.contains("169.254"), "{message}");
    assert!(story.site.acs.log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_normal_user_of_an_account_can_claim_and_a_held_reboot_keeps_the_machine_off() {
    let story = Story::begin(|server, site| {
        site.acs.with(|world, _| {
            world.add_account("tenant-user", "ROOT/tenant/team", Role::User, "u-key", "u-secret");
        });
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": TENANT, "name": "user"},
            "stringData": {"api-url": site.acs.endpoint, "api-key": "u-key", "secret-key": "u-secret"}});
        server.put(secret).unwrap();
        server.put(with(|claim| claim["spec"]["args"]["identity"] = json!("user"))).unwrap();
    });
    story.ready().await;
    assert_eq!(story.site.acs.machines()[0].account, "tenant-user");
    story.edit(|claim| claim["metadata"]["annotations"]["reboot.metal3.io/fence"] = json!(""));
    story.until("off", |story| story.site.machines()[0].2 == State::Stopped).await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(story.site.machines()[0].2, State::Stopped);
    assert_eq!(story.claim()["status"]["poweredOn"], json!(false));
    story
        .edit(|claim| drop(claim["metadata"]["annotations"].as_object_mut().unwrap().remove("reboot.metal3.io/fence")));
    story.until("on", |story| story.claim()["status"]["poweredOn"] == json!(true)).await;
    assert_eq!(vm::KIND, "cloudstack-vm");
}
