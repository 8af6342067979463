//! What a claim says of itself, one line for each reason that no other story asks for: what there is, what happens then,
//! and what is shown.

use std::path::Path;
use std::time::Duration;

use api::reasons::claims::Reason;
use claims::config::Config;
use claims::parts::Part;
use claims::yard::{DefaultAdmission, Settings};
use serde_json::{Value, json};
use sim::metal::oracle::Forgiven;
use sim::server::{Action, Rule, Server};

use crate::objects::{
    CLAIMS, HOSTS, INFRA, SECRETS, annotate, at, claim, condition, deployment, edit, events, held, hosts, policy,
    script, secrets,
};
use crate::site::Site;

/// Reasons that only the rooms of other kinds tell.
const OTHERS: [&str; 12] = [
    "MachineAssociated",
    "NoMachine",
    "InvalidArguments",
    "IdentityUnusable",
    "PlatformError",
    "NoControllerForKind",
    "UnsupportedImage",
    "UnsupportedData",
    "DataTooLarge",
    "MachineKnownByClaim",
    "SelectorIgnored",
    "RebootUnsupported",
];

#[test]
fn every_reason_of_claims_is_told_by_the_room_or_by_those_of_other_kinds() {
    let mut sources = String::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                sources.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    for reason in Reason::ALL {
        let name = reason.as_str();
        let (used, written) = (format!("Reason::{name}"), format!("\"{name}\""));
        let whole = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric());
        let told = sources.split(&used).skip(1).any(whole) || sources.contains(&written);
        assert_eq!(told, !OTHERS.contains(&name), "{name}");
    }
}

const QUOTAS: &str = "hostclaimquotas.berth.dev";

/// What the claim shows first, and what is done then.
type Then = (&'static str, fn(&Server));

/// One reason, on the claim `c`.
struct Row {
    config: fn() -> Config,
    /// What there is.
    there: fn(&Server),
    /// What is otherwise.
    but: fn(&Server),
    /// Who comes.
    claim: fn() -> Value,
    /// What happens before the end.
    then: Option<Then>,
    /// What it shows in the end.
    wanted: &'static str,
}

const PLAIN: Row = Row { config: Config::default, there: site, but: |_| {}, claim: small, then: None, wanted: "" };

/// A claim that wants a host and nothing to run on it.
fn small() -> Value {
    claim("red", "c")
}

/// One that runs something there, with three Secrets.
fn whole() -> Value {
    deployment("red", "c")
}

fn site(server: &Server) {
    hosts(server, &["h1"]);
    policy(server, &json!({}));
    secrets(server, "red");
}

/// A host, and nobody who says who may have it.
fn unruled(server: &Server) {
    hosts(server, &["h1"]);
}

fn put(server: &Server, object: Value) {
    server.put(object).unwrap();
}

fn switch_off(server: &Server) {
    edit(server, CLAIMS, "red", "c", &json!({"spec": {"poweredOn": false}}));
}

/// Whether `Associated` ever said this: some things are true for a moment only, until the claim looks elsewhere.
fn was_said(server: &Server, wanted: &str) -> bool {
    server.changes(0).iter().any(|(_, _, _, object)| condition(object, "Associated") == wanted)
}

/// A host that names the claim already and that its controller is not done with.
fn unfinished(server: &Server, state: &str) {
    policy(server, &json!({}));
    let mut host = sim::metal::seed::host(INFRA, "h1", &json!({"size": "large"}));
    host["spec"]["consumerRef"] =
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "namespace": "red", "name": "c"});
    put(server, host);
    script(server, "h1", &json!({"delayMs": {state: 3_600_000}}));
}

const ROWS: &[Row] = &[
    Row {
        claim: || {
            let mut paused = small();
            paused["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": ""});
            paused
        },
        wanted: "Associated=False/HostPaused",
        ..PLAIN
    },
    Row {
        but: |server| assert!(server.delete(SECRETS, "red", "network")),
        claim: whole,
        wanted: "Synchronized=False/NetworkDataSecretSyncFailure",
        ..PLAIN
    },
    Row {
        but: |server| assert!(server.delete(SECRETS, "red", "meta")),
        claim: whole,
        wanted: "Synchronized=False/MetaDataSecretSyncFailure",
        ..PLAIN
    },
    Row {
        claim: whole,
        then: Some(("Ready=True/Ready", |server| {
            edit(server, CLAIMS, "red", "c", &json!({"spec": {"image": {"url": "https://images/other"}}}));
        })),
        wanted: "Synchronized=False/ImageChangeNotSupported",
        ..PLAIN
    },
    Row {
        but: |server| edit(server, HOSTS, INFRA, "h1", &json!({"spec": {"disablePowerOff": true}})),
        then: Some(("Ready=True/Ready", switch_off)),
        wanted: "Synchronized=False/UnsupportedPowerState",
        ..PLAIN
    },
    Row {
        but: |server| {
            let copies =
                Rule::any().method("POST").path_contains("/namespaces/infra/secrets").client("room-0").always();
            server.inject(copies, Action::Status(403));
        },
        claim: whole,
        wanted: "Synchronized=False/Forbidden",
        ..PLAIN
    },
    Row { there: unruled, claim: || claim(INFRA, "c"), wanted: "Authorized=True/SameNamespace", ..PLAIN },
    Row {
        config: || Config {
            yard: Settings { default_admission: DefaultAdmission::Allow, ..Settings::default() },
            ..Config::default()
        },
        there: unruled,
        wanted: "Authorized=True/DefaultAllow",
        ..PLAIN
    },
    Row { there: unruled, wanted: "Authorized=False/NotAdmitted", ..PLAIN },
    Row { wanted: "AvailableForProvisioning=True/Available", ..PLAIN },
    Row { claim: whole, wanted: "AvailableForProvisioning=False/NotAvailable", ..PLAIN },
    Row {
        there: |server| unfinished(server, "registering"),
        wanted: "AvailableForProvisioning=False/NotManageable",
        ..PLAIN
    },
    Row {
        there: |server| unfinished(server, "inspecting"),
        wanted: "AvailableForProvisioning=False/Inspecting",
        ..PLAIN
    },
    Row {
        but: |server| script(server, "h1", &json!({"delayMs": {"provisioning": 60_000}})),
        claim: whole,
        wanted: "Provisioned=False/Provisioning",
        ..PLAIN
    },
    Row {
        but: |server| script(server, "h1", &json!({"delayMs": {"deprovisioning": 60_000}})),
        claim: whole,
        then: Some(("Ready=True/Ready", |server| {
            edit(server, CLAIMS, "red", "c", &json!({"spec": {"image": null}}));
        })),
        wanted: "Provisioned=False/Deprovisioning",
        ..PLAIN
    },
    Row {
        claim: whole,
        then: Some(("Ready=True/Ready", |server| {
            script(server, "h1", &json!({"fail": [{"state": "power", "times": 1000}], "retryMs": 600_000}));
            switch_off(server);
        })),
        wanted: "Ready=False/HostError",
        ..PLAIN
    },
];

#[tokio::test(start_paused = true)]
async fn each_reason_is_shown_where_it_holds() {
    for row in ROWS {
        let by_hand = Forgiven { hosts: [(INFRA.to_owned(), "h1".to_owned())].into(), ..Forgiven::default() };
        let comes = (row.claim)();
        let tenant = at(&comes, "/metadata/namespace").to_owned();
        let site = Site::of(by_hand, (row.config)(), |server| {
            (row.there)(server);
            (row.but)(server);
            put(server, comes);
        });
        let shows = async |wanted: &str| {
            let (kind, rest) = wanted.split_once('=').unwrap();
            site.until_condition(&tenant, "c", kind, rest).await;
        };
        if let Some((first, act)) = row.then {
            shows(first).await;
            act(&site.server);
        }
        shows(row.wanted).await;
        match row.wanted {
            "Ready=False/HostError" => {
                assert_eq!(condition(&site.claim("red", "c"), "Provisioned"), "True/Provisioned", "it still runs");
            }
            "Provisioned=False/Deprovisioning" => site.until_event("red", "Deprovisioning").await,
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_gone_before_anything_ran_is_told_of_before_the_next_is_looked_for() {
    let by_hand = Forgiven { hosts: [(INFRA.to_owned(), "h1".to_owned())].into(), ..Forgiven::default() };
    let site = Site::forgiving(by_hand, site);
    site.server.put(claim("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let other = json!({"apiVersion": "v1", "kind": "Machine", "namespace": "elsewhere", "name": "m", "uid": null});
    edit(&site.server, HOSTS, INFRA, "h1", &json!({"spec": {"consumerRef": other}}));
    site.until_event("red", "Unbound").await;
    site.until_condition("red", "c", "Associated", "False/NoBareMetalHost").await;
    assert!(was_said(&site.server, "False/MissingBareMetalHost"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_bind_is_tried_again_once_the_server_may_have_changed_its_mind() {
    let site = Site::new(site);
    let writes = Rule::any().method("PATCH").path_contains("/baremetalhosts/").client("room-0").always();
    let fault = site.server.inject(writes, Action::Status(422));
    site.server.put(claim("red", "c")).unwrap();
    site.until_event("red", "BareMetalHostNotSynchronized").await;
    assert!(was_said(&site.server, "False/BareMetalHostNotSynchronized"));
    assert!(!was_said(&site.server, "False/MissingBareMetalHost"), "it never had one");
    site.until_condition("red", "c", "Associated", "False/NoBareMetalHost").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(site.server.hits(fault) < 5, "{} tries in two minutes", site.server.hits(fault));
    site.server.stop_fault(fault);
    site.until_ready("red", "c").await;
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_has_the_name_of_a_copy_is_told_of_and_never_written() {
    let site = Site::new(site);
    site.server.put(claim("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    let uid = at(&site.claim("red", "c"), "/metadata/uid").to_owned();
    let name = Part::UserData.copy("h1", &uid);
    let own = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": INFRA},
        "stringData": {"userData": "the owner's own"}});
    let own = site.server.put(own).unwrap();
    let spec = deployment("red", "c")["spec"].clone();
    edit(&site.server, CLAIMS, "red", "c", &json!({ "spec": spec }));
    site.until_condition("red", "c", "Synchronized", "False/SecretNameConflict").await;
    site.rest().await;
    assert_eq!(site.server.get(SECRETS, INFRA, &name).unwrap(), own);
    assert_eq!(site.host_of("red", "c")["spec"].get("image"), None);
    assert!(site.server.delete(SECRETS, INFRA, &name));
    site.until_ready("red", "c").await;
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_tells_what_is_held_and_one_that_is_lowered_takes_nothing_away() {
    let limit = |hosts: u32| {
        json!({"apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimQuota", "metadata": {"name": "gold"},
            "spec": {"tenants": {"names": ["red"]}, "hard": {"hosts": hosts}}})
    };
    let site = Site::new(|server| {
        hosts(server, &["h1", "h2", "h3"]);
        policy(server, &json!({}));
        server.put(limit(2)).unwrap();
    });
    let shows = |wanted: &'static str, hosts: u32| {
        move |server: &Server| {
            let quota = server.get(QUOTAS, "", "gold").unwrap();
            condition(&quota, "Ready") == wanted && quota["status"]["used"]["hosts"] == hosts
        }
    };
    site.until("nothing is held", shows("True/WithinQuota", 0)).await;
    for name in ["one", "two"] {
        site.server.put(claim("red", name)).unwrap();
        site.until_ready("red", name).await;
    }
    site.until("two are held", shows("True/WithinQuota", 2)).await;
    let used = site.server.get(QUOTAS, "", "gold").unwrap()["status"]["used"].clone();
    assert_eq!(used, json!({"hosts": 2, "tenants": 1, "namespaces": [{"namespace": "red", "hosts": 2}]}));
    site.server.put(limit(1)).unwrap();
    site.until("it is over its limit", shows("False/OverQuota", 2)).await;
    site.server.put(claim("red", "three")).unwrap();
    site.until_condition("red", "three", "Associated", "False/QuotaExceeded").await;
    site.rest().await;
    for name in ["one", "two"] {
        assert_eq!(held(&site.server, "red", name).len(), 1, "{name} keeps its host");
    }
    // One that goes makes no room yet; the second does.
    assert!(site.server.delete(CLAIMS, "red", "one"));
    site.until("the limit is kept again", shows("True/WithinQuota", 1)).await;
    site.rest().await;
    assert!(held(&site.server, "red", "three").is_empty());
    assert!(site.server.delete(CLAIMS, "red", "two"));
    site.until_ready("red", "three").await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_changed_on_a_host_that_its_owner_deletes() {
    let by_hand = Forgiven { hosts: [(INFRA.to_owned(), "h1".to_owned())].into(), ..Forgiven::default() };
    let site = Site::forgiving(by_hand, site);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    script(&site.server, "h1", &json!({"delayMs": {"deprovisioning": 3_600_000}}));
    assert!(site.server.delete(HOSTS, INFRA, "h1"));
    site.until_event("red", "HostBeingDeleted").await;
    let before = site.server.effects();
    edit(&site.server, CLAIMS, "red", "c", &json!({"spec": {"poweredOn": false}}));
    annotate(&site.server, "red", "c", "reboot.metal3.io/mine", Some(""));
    tokio::time::sleep(Duration::from_secs(600)).await;
    let log = site.server.log();
    let written = log.iter().filter(|entry| {
        entry.client == "room-0" && entry.resource == HOSTS && entry.effect.is_some_and(|effect| effect > before)
    });
    assert_eq!(written.count(), 0);
    assert_eq!(events(&site.server, "red", "HostBeingDeleted").len(), 1);
    assert_eq!(condition(&site.claim("red", "c"), "Associated"), "True/BareMetalHostAssociated");
}

#[tokio::test(start_paused = true)]
async fn at_most_eight_reboots_are_held_on_a_host_and_the_claim_is_told() {
    let site = Site::new(site);
    site.server.put(deployment("red", "c")).unwrap();
    site.until_ready("red", "c").await;
    for n in 0..10 {
        annotate(&site.server, "red", "c", &format!("reboot.metal3.io/k{n}"), Some(""));
    }
    site.until_event("red", "TooManyReboots").await;
    site.rest().await;
    let notes = site.host_of("red", "c")["metadata"]["annotations"].clone();
    let holds = notes.as_object().unwrap().keys().filter(|key| key.starts_with("reboot.metal3.io/hc-")).count();
    assert_eq!((holds, events(&site.server, "red", "TooManyReboots").len()), (8, 1));
}
