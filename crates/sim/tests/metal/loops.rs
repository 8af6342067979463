//! On the in-memory server, in paused time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sim::metal::oracle::{Forgiven, Judge};
use sim::metal::{self, Machines, Settings, Simulator, seed};
use sim::server::{Action, Rule, Server};

pub const HOSTS: &str = "baremetalhosts.metal3.io";
const LONG: Duration = Duration::from_secs(600);

/// A server with a simulator at work.
fn world(settings: Settings) -> (Server, Arc<Machines>) {
    let server = Server::new(1);
    for definition in metal::kinds::definitions() {
        server.put(definition).unwrap();
    }
    server.namespace("infra");
    let simulator = Simulator::with_clock(server.client("operator").kube(), settings, server.clock());
    let machines = simulator.machines();
    tokio::spawn(simulator.run());
    (server, machines)
}

fn add(server: &Server, name: &str) {
    server.put(seed::host("infra", name, &json!({"rack": "a"}))).unwrap();
}

fn get(server: &Server, name: &str) -> Value {
    server.get(HOSTS, "infra", name).unwrap_or_default()
}

async fn state(server: &Server, name: &str, state: &str) -> Value {
    let there = |server: &Server| get(server, name)["status"]["provisioning"]["state"] == state;
    assert!(server.wait_until(LONG, there).await, "{name} is not {state}: {}", get(server, name)["status"]);
    get(server, name)
}

fn edit(server: &Server, name: &str, change: &Value) {
    server.edit(HOSTS, "infra", name, |object| json_patch::merge(object, change)).unwrap();
}

fn deploy(image: &str, tenant: &str) -> Value {
    json!({"spec": {"online": true, "image": {"url": image}, "userData": {"name": "data"},
        "consumerRef": {"kind": "HostClaim", "namespace": tenant, "name": "c"}}})
}

fn secret(name: &str, data: Value, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "infra", "name": name, "labels": labels},
        "stringData": data})
}

#[tokio::test(start_paused = true)]
async fn hosts_become_available_each_with_its_own_hardware() {
    let (server, machines) = world(Settings::default());
    for n in 0..20 {
        add(&server, &format!("h{n}"));
    }
    let mut macs = std::collections::BTreeSet::new();
    for n in 0..20 {
        let name = format!("h{n}");
        let host = state(&server, &name, "available").await;
        let data = server.get("hardwaredata.metal3.io", "infra", &name).unwrap();
        assert_eq!(data["spec"]["hardware"], host["status"]["hardware"]);
        assert_eq!(data["metadata"]["ownerReferences"][0]["uid"], host["metadata"]["uid"]);
        assert_eq!(host["metadata"]["finalizers"], json!([metal::FINALIZER]));
        macs.insert(data["spec"]["hardware"]["nics"][0]["mac"].to_string());
    }
    assert_eq!(macs.len(), 20);
    // State is kept per host.
    edit(&server, "h3", &json!({"spec": {"online": true}}));
    assert!(server.wait_until(LONG, |server| get(server, "h3")["status"]["poweredOn"] == true).await);
    assert!(machines.get("infra", "h3").unwrap().power && !machines.get("infra", "h4").unwrap().power);
    assert_eq!(get(&server, "h4")["status"]["poweredOn"], false);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_world_stays_quiet() {
    let (server, _) = world(Settings::default());
    add(&server, "h");
    state(&server, "h", "available").await;
    let before = server.requests();
    tokio::time::sleep(Duration::from_secs(120)).await;
    // One watch, which a server ends after some minutes.
    assert!(server.requests() - before <= 1, "{:?}", server.log().last());
    assert_eq!(server.open_watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_of_the_first_tenant_is_left_for_the_second() {
    let (server, machines) = world(Settings::default());
    add(&server, "h");
    state(&server, "h", "available").await;
    server.put(secret("data", json!({"userData": "the secret of red"}), json!({}))).unwrap();
    edit(&server, "h", &deploy("http://red", "red"));
    let host = state(&server, "h", "provisioned").await;
    assert_eq!(
        (&host["status"]["poweredOn"], &host["status"]["provisioning"]["image"]["url"]),
        (&json!(true), &json!("http://red"))
    );
    let disk = machines.disk("infra", "h").unwrap();
    assert!(disk.contains("the secret of red") && disk.contains("http://red"));
    // As the operator does: what it found by a read of its own it labels.
    let found = server.get("secrets", "infra", "data").unwrap();
    assert_eq!(found["metadata"]["labels"], json!({metal::ENVIRONMENT.0: metal::ENVIRONMENT.1}));

    edit(&server, "h", &json!({"spec": {"image": null, "userData": null, "online": false, "consumerRef": null}}));
    let host = state(&server, "h", "available").await;
    assert_eq!(host["status"]["provisioning"]["image"]["url"], "");
    assert_eq!(machines.disk("infra", "h"), None);
    server.put(secret("data", json!({"value": "what blue wants"}), json!({}))).unwrap();
    edit(&server, "h", &deploy("http://blue", "blue"));
    state(&server, "h", "provisioned").await;
    let disk = machines.disk("infra", "h").unwrap();
    assert!(disk.contains("what blue wants") && !disk.contains("red"));
    assert_eq!(machines.changes().len(), 3);

    let mut judge =
        Judge::new(Forgiven { hosts: [("infra".to_owned(), "h".to_owned())].into(), ..Forgiven::default() });
    assert_eq!(judge.look(&server, &machines), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_uncleaned_disk_is_seen_by_the_oracle() {
    let (server, machines) = world(Settings::default());
    add(&server, "h");
    state(&server, "h", "available").await;
    server.put(secret("data", json!({"value": "x"}), json!({}))).unwrap();
    edit(&server, "h", &deploy("http://red", "red"));
    state(&server, "h", "provisioned").await;
    edit(&server, "h", &json!({"spec": {"image": null, "automatedCleaningMode": "disabled"}}));
    state(&server, "h", "available").await;
    let mine = [("infra".to_owned(), "h".to_owned())];
    let mut judge = Judge::new(Forgiven { hosts: mine.clone().into(), ..Forgiven::default() });
    assert_eq!(judge.look(&server, &machines), Ok(()));
    edit(&server, "h", &json!({"spec": {"consumerRef": {"namespace": "blue"}}}));
    let words = judge.look(&server, &machines).unwrap_err();
    assert!(words.contains("clean-disk") && words.contains("red"), "{words}");
    let mut judge =
        Judge::new(Forgiven { hosts: mine.clone().into(), keeps_disks: mine.into(), ..Forgiven::default() });
    assert_eq!(judge.look(&server, &machines), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn data_is_read_where_the_host_is_and_waited_for() {
    let (server, machines) = world(Settings { labelled_only: true, ..Settings::default() });
    add(&server, "h");
    state(&server, "h", "available").await;
    server.namespace("red");
    let mut elsewhere = secret("data", json!({"userData": "elsewhere"}), json!({}));
    elsewhere["metadata"]["namespace"] = json!("red");
    server.put(elsewhere).unwrap();
    edit(&server, "h", &deploy("http://red", "red"));
    let failed = |server: &Server| get(server, "h")["status"]["errorType"] == "provisioning error";
    assert!(server.wait_until(LONG, failed).await);
    assert!(get(&server, "h")["status"]["errorMessage"].as_str().unwrap().contains("infra/data"));
    // Another namespace is refused outright.
    edit(&server, "h", &json!({"spec": {"userData": {"namespace": "red"}}}));
    let refused = |server: &Server| {
        get(server, "h")["status"]["errorMessage"].as_str().is_some_and(|words| words.contains("same namespace"))
    };
    assert!(server.wait_until(LONG, refused).await);
    edit(&server, "h", &json!({"spec": {"userData": {"namespace": null}}}));
    // There, but not where the operator's cache would see it.
    server.put(secret("data", json!({"userData": "here"}), json!({}))).unwrap();
    tokio::time::sleep(Duration::from_secs(700)).await;
    assert_eq!(machines.disk("infra", "h"), None);
    server
        .put(secret("data", json!({"userData": "here"}), json!({metal::ENVIRONMENT.0: metal::ENVIRONMENT.1})))
        .unwrap();
    let host = state(&server, "h", "provisioned").await;
    assert_eq!((&host["status"]["errorType"], &host["status"]["errorCount"]), (&Value::Null, &json!(0)));
    assert_eq!(machines.disk("infra", "h").unwrap().user_data.as_deref(), Some("here"));
}

#[tokio::test(start_paused = true)]
async fn a_reboot_is_one_power_cycle_whoever_writes_meanwhile() {
    let (server, machines) = world(Settings::default());
    add(&server, "h");
    state(&server, "h", "available").await;
    edit(
        &server,
        "h",
        &json!({"metadata": {"annotations": {metal::SCRIPT: r#"{"statusEveryMs": 40, "delayMs": {"power": 300}}"#}}}),
    );
    edit(&server, "h", &json!({"spec": {"online": true, "image": {"url": "http://a"}}}));
    state(&server, "h", "provisioned").await;
    for n in 0..5 {
        server.inject(Rule::any().method("PUT").client("operator"), Action::Conflict);
        edit(&server, "h", &json!({"metadata": {"annotations": {"reboot.metal3.io": "", "n": n.to_string()}}}));
        let done = |server: &Server| {
            let host = get(server, "h");
            host["metadata"]["annotations"].get("reboot.metal3.io").is_none() && host["status"]["poweredOn"] == true
        };
        assert!(server.wait_until(LONG, done).await, "{}", get(&server, "h"));
    }
    let machine = machines.get("infra", "h").unwrap();
    assert_eq!((machine.power_offs, machine.power_ons), (5, 6));
}

#[tokio::test(start_paused = true)]
async fn a_status_is_rewritten_as_often_as_its_script_says_and_each_time_is_counted() {
    let (server, machines) = world(Settings::default());
    for name in ["busy", "calm"] {
        add(&server, name);
        state(&server, name, "available").await;
    }
    edit(&server, "busy", &json!({"metadata": {"annotations": {metal::SCRIPT: r#"{"statusEveryMs": 200}"#}}}));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let written = |name: &str| {
        let end = format!("/baremetalhosts/{name}/status");
        server.log().iter().filter(|entry| entry.method == "PUT" && entry.path.ends_with(&end)).count()
    };
    let (before, calm, counted) = (written("busy"), written("calm"), machines.rewrites("infra"));
    let (revision, shown) = (get(&server, "busy")["metadata"]["resourceVersion"].clone(), get(&server, "busy"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((written("busy") - before, written("calm") - calm), (50, 0));
    let after = machines.rewrites("infra");
    assert_eq!((after["busy"] - counted["busy"], after["calm"] - counted["calm"]), (50, 0));
    let now = get(&server, "busy");
    assert_ne!(now["metadata"]["resourceVersion"], revision, "whoever read it before is late");
    assert_eq!(now["status"]["conditions"], shown["status"]["conditions"], "and nothing else has changed");
    edit(&server, "busy", &json!({"metadata": {"annotations": {metal::SCRIPT: null}}}));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(machines.rewrites("infra"), after, "it stops when it is told to");
}

#[tokio::test(start_paused = true)]
async fn where_rewrites_take_longer_than_their_pause_every_host_has_its_turn() {
    let (server, machines) = world(Settings { workers: 1, ..Settings::default() });
    let names = ["a", "b", "c"];
    for name in names {
        add(&server, name);
        state(&server, name, "available").await;
    }
    server.inject(Rule::any().client("operator").method("PUT").always(), Action::Delay(Duration::from_millis(300)));
    for name in names {
        edit(&server, name, &json!({"metadata": {"annotations": {metal::SCRIPT: r#"{"statusEveryMs": 100}"#}}}));
    }
    tokio::time::sleep(Duration::from_secs(9)).await;
    let rewrites = machines.rewrites("infra");
    assert!(rewrites.values().all(|count| (8..=11).contains(count)), "{rewrites:?}");
    // Nor does one that has work to do wait for all that is written for nothing.
    edit(&server, "b", &json!({"spec": {"online": true, "image": {"url": "http://a"}}}));
    let begun = tokio::time::Instant::now();
    state(&server, "b", "provisioned").await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_host_goes_with_what_it_had() {
    let (server, machines) = world(Settings { delay: Duration::from_secs(3), ..Settings::default() });
    add(&server, "h");
    state(&server, "h", "available").await;
    edit(&server, "h", &json!({"spec": {"online": true, "image": {"url": "http://a"}}}));
    state(&server, "h", "provisioned").await;
    assert!(server.delete(HOSTS, "infra", "h"));
    state(&server, "h", "deprovisioning").await;
    state(&server, "h", "powering off before delete").await;
    assert!(server.wait_until(LONG, |server| server.get(HOSTS, "infra", "h").is_none()).await);
    assert!(server.get("hardwaredata.metal3.io", "infra", "h").is_none());
    let machine = machines.get("infra", "h").unwrap();
    assert!(!machine.power && machine.disk.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_script_that_cannot_be_read_is_told_once_and_not_followed() {
    let (server, _) = world(Settings::default());
    let mut host = seed::host("infra", "h", &json!({}));
    host["metadata"]["annotations"] = json!({metal::SCRIPT: r#"{"delay": 5}"#});
    server.put(host).unwrap();
    state(&server, "h", "available").await;
    edit(&server, "h", &json!({"spec": {"online": true}}));
    assert!(server.wait_until(LONG, |server| get(server, "h")["status"]["poweredOn"] == true).await);
    let events = server.list("events.events.k8s.io", "infra");
    assert_eq!(events.len(), 1);
    assert!(events[0]["note"].as_str().unwrap().contains("delay") && events[0]["regarding"]["name"] == "h");
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_after_a_lost_watch_and_a_failing_server() {
    let (server, _) = world(Settings::default());
    add(&server, "a");
    state(&server, "a", "available").await;
    server.inject(Rule::any().client("operator").method("PUT").times(3), Action::Status(500));
    server.inject(Rule::any().client("operator").method("PUT").nth(4), Action::DropAnswer);
    server.cut_watches();
    add(&server, "b");
    state(&server, "b", "available").await;
    server.expire_watches();
    add(&server, "c");
    state(&server, "c", "available").await;
}

#[test]
fn a_settled_host_needs_nothing_from_the_simulator() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let server = Server::new(1);
        for definition in metal::kinds::definitions() {
            server.put(definition).unwrap();
        }
        seed::hosts(&server.kube(), "pool", 50, true).await.unwrap();
        assert_eq!(server.list(HOSTS, "pool").len(), 50);
        assert!(server.list(HOSTS, "pool").iter().all(|h| h["status"]["provisioning"]["state"] == "available"));
        assert_eq!(server.list("hardwaredata.metal3.io", "pool").len(), 50);
        let effects = server.effects();
        let simulator = Simulator::with_clock(server.kube(), Settings::default(), server.clock());
        tokio::spawn(simulator.run());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(server.effects(), effects);
        // Made again, they stay as they are.
        seed::hosts(&server.kube(), "pool", 50, true).await.unwrap();
        assert_eq!(server.list(HOSTS, "pool").len(), 50);
    });
}
