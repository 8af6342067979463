//! The screens of claims and hosts.

use ::claims::explain::{Lists, Part, Sight, Unseen, claim_table, explain, host_table, tree};
use ::claims::yard::Settings;
use api::key::ObjectKey;
use kit::explain::Extent;
use serde_json::{Value, json};
use sim::dock::objects::{self, merged};

use super::super::claims::{Hosts, claims_screen, hosts_screen, leaving, placed, recounted, tallied};
use super::{NOW, at_widths, document, read};
use crate::look;
use crate::rows::Cells as _;
use crate::screen::{self, Screen};

fn now<T: std::str::FromStr<Err: std::fmt::Debug>>() -> T {
    NOW.parse().unwrap()
}

fn host(name: &str, more: &Value) -> Value {
    let plain = sim::metal::seed::host("infra", name, &json!({"rack": "a", "size": "large"}));
    let status = json!({"metadata": {"uid": format!("uid-{name}"), "resourceVersion": "3"},
        "status": {"provisioning": {"state": "available"}, "operationalStatus": "OK", "poweredOn": false}});
    merged(merged(plain, &status), more)
}

fn consumer(namespace: &str, name: &str) -> Value {
    json!({"spec": {"consumerRef": {"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "namespace": namespace,
        "name": name, "uid": format!("uid-{name}")}}})
}

fn claim(namespace: &str, name: &str, more: &Value) -> Value {
    let plain = json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}"), "resourceVersion": "5",
            "generation": 1, "creationTimestamp": "2026-01-02T03:00:00Z", "finalizers": ["metal3.io/hostclaim"]},
        "spec": {"poweredOn": true, "hostSelector": {"matchLabels": {"size": "large"}},
            "image": {"url": "https://images.example/os.qcow2", "checksum": "https://images.example/os.sha256"},
            "userData": {"name": "cloud-init"}},
    });
    merged(plain, more)
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-02T03:01:00Z", "observedGeneration": 1})
}

fn policy(more: &Value) -> Value {
    let plain = json!({"metadata": {"namespace": "infra", "name": "teams", "uid": "uid-teams"},
        "spec": {"hostClaimNamespaces": {"names": ["team-a"]}}});
    merged(plain, more)
}

fn lists(claims: Vec<Value>, hosts: Vec<Value>) -> Lists {
    let space = |name: &str| -> api::views::Namespace { read(objects::namespace(name, &json!({}))) };
    Lists {
        claims: claims.into_iter().map(read).collect(),
        hosts: hosts.into_iter().map(read).collect(),
        policies: vec![read(policy(&json!({})))],
        namespaces: ["team-a", "team-b", "infra", "lab"].map(space).into(),
        ..Lists::default()
    }
}

/// A claim that no host fits, with a host for nearly every reason.
fn unmatched() -> Lists {
    let mark = |key: &str| json!({"metadata": {"annotations": {key: ""}}});
    let state = |state: &str| json!({"status": {"provisioning": {"state": state}}});
    let small = json!({"metadata": {"labels": {"size": "small"}}});
    let broken = json!({"status": {"operationalStatus": "error", "errorType": "inspection error", "errorMessage": "bmc 192.0.2.7"}});
    let mut elsewhere = host("lab-1", &json!({}));
    elsewhere["metadata"]["namespace"] = json!("lab");
    let hosts = vec![
        host("used-1", &merged(consumer("team-b", "db-1"), &state("provisioned"))),
        host("used-2", &consumer("team-b", "db-2")),
        host("small-1", &small),
        host("paused-1", &mark("baremetalhost.metal3.io/paused")),
        host("sick-1", &mark("capm3.metal3.io/unhealthy")),
        host("broken-1", &broken),
        host("fresh-1", &state("inspecting")),
        elsewhere,
    ];
    lists(vec![claim("team-a", "web-1", &json!({}))], hosts)
}

/// Both screens of the first claim at three widths, one below the other.
fn screens(lists: Lists) -> String {
    let key = ObjectKey::of(&lists.claims[0]);
    let mut sight = Sight::of(lists, Settings::default(), now());
    let (told, root) = (explain(&mut sight, &key, now()).unwrap(), tree(&mut sight, &key, now()).unwrap());
    at_widths(|screen| format!("{}\n{}", screen::explanation(screen, &told), screen::tree(screen, &root)))
}

#[test]
fn a_claim_that_no_host_fits() {
    insta::assert_snapshot!(screens(unmatched()));
}

#[test]
fn the_book_shows_what_is_printed() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/reference/claims-explain.txt");
    let lists = unmatched();
    let key = ObjectKey::of(&lists.claims[0]);
    let told = explain(&mut Sight::of(lists, Settings::default(), now()), &key, now()).unwrap();
    let printed = screen::explanation(Screen { width: Some(100), colour: false }, &told);
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), printed);
}

#[test]
fn a_claim_as_its_tenant_sees_it() {
    let counts = json!({"status": {"unbound": {"total": 4, "observedAt": "2026-01-02T03:01:00Z", "reasons": [
        {"reason": "SelectorMismatch", "count": 1}, {"reason": "InUse", "count": 2}, {"reason": "Paused", "count": 1}]},
        "conditions": [condition("Associated", "False", "NoBareMetalHost",
            "0/4 hosts fit: 2 in use, 1 labels do not match, 1 paused")]}});
    let mut lists = lists(vec![claim("team-a", "web-1", &counts)], Vec::new());
    lists.policies.clear();
    let unseen = |part, extent, what: &str| Unseen { part, extent, why: format!("you may not list {what}") };
    lists.unseen = vec![
        unseen(
            Part::Claims,
            Extent::Elsewhere,
            "hostclaims.metal3.io in all namespaces: only those in team-a were read",
        ),
        unseen(
            Part::Hosts,
            Extent::All,
            "baremetalhosts.metal3.io: ask for that right, or look with another --context",
        ),
    ];
    let text = screens(lists);
    assert!(!text.contains("infra"), "a tenant learns nothing of where hosts are");
    insta::assert_snapshot!(text);
}

fn bound() -> Value {
    json!({"status": {"ready": true, "poweredOn": true, "provisioningState": "Provisioned",
        "bareMetalHost": {"namespace": "infra", "name": "used-1"},
        "conditions": [condition("Associated", "True", "BareMetalHostAssociated", "The claim has the host infra/used-1."),
            condition("Synchronized", "True", "ConfigurationSynced", "The host has been told everything the claim asks for."),
            condition("Provisioned", "True", "Provisioned", "What the claim asks for runs on the host."),
            condition("Ready", "True", "Ready", "The claim has what it asks for.")]}})
}

fn served() -> Lists {
    let runs = json!({"spec": {"online": true, "image": {"url": "https://images.example/os.qcow2"},
        "userData": {"name": format!("used-1-hc-{}-userdata", ::claims::names::short("uid-web-1")), "namespace": "infra"}},
        "status": {"provisioning": {"state": "provisioned"}, "poweredOn": true}});
    lists(vec![claim("team-a", "web-1", &bound())], vec![host("used-1", &merged(consumer("team-a", "web-1"), &runs))])
}

#[test]
fn a_claim_that_has_what_it_asks_for() {
    insta::assert_snapshot!(screens(served()));
}

#[test]
fn a_claim_whose_host_fails() {
    let mut lists = served();
    let failed = json!({"status": {"ready": false, "provisioningState": "Error", "conditions": [
        condition("Associated", "True", "BareMetalHostAssociated", "The claim has the host infra/used-1."),
        condition("Synchronized", "True", "ConfigurationSynced", "The host has been told everything the claim asks for."),
        condition("Provisioned", "False", "HostError", "Deploying the image on the host failed (provisioning error)."),
        condition("Ready", "False", "NotReady", "Provisioned: Deploying the image on the host failed (provisioning error).")]}});
    lists.claims = vec![read(claim("team-a", "web-1", &merged(bound(), &failed)))];
    let error = json!({"status": {"provisioning": {"state": "provisioning"}, "errorType": "provisioning error",
        "errorMessage": "bmc 192.0.2.7 said no", "operationalStatus": "error"}});
    lists.hosts = vec![read(host("used-1", &merged(consumer("team-a", "web-1"), &error)))];
    let text = screens(lists);
    assert!(!text.contains("192.0.2.7"), "addresses of management controllers stay where they are");
    insta::assert_snapshot!(text);
}

#[test]
fn a_claim_that_is_over_its_quota_and_one_that_comes_later() {
    let mut lists = lists(
        vec![claim("team-a", "web-2", &json!({})), claim("team-a", "web-1", &bound())],
        vec![host("used-1", &consumer("team-a", "web-1")), host("free-1", &json!({}))],
    );
    lists.quotas = vec![read(json!({"metadata": {"name": "gold", "uid": "q"},
        "spec": {"tenants": {"names": ["team-a"]}, "hard": {"hosts": 1}}}))];
    let text = screens(lists.clone());
    assert!(text.contains("uses 1 of 1 hosts of quota gold"), "{text}");
    assert!(text.contains("kubectl edit hostclaimquota gold"), "{text}");

    lists.quotas.clear();
    let first = json!({"spec": {"priority": 5}});
    lists.claims.push(read(claim("team-a", "web-0", &first)));
    let text = screens(lists);
    assert!(text.contains("set aside for HostClaim team-a/web-0, which comes first"), "{text}");
}

#[test]
fn a_namespace_that_nobody_admits_is_let_in_by_one_command() {
    let text = screens(lists(vec![claim("team-b", "web-1", &json!({}))], vec![host("free-1", &json!({}))]));
    assert!(text.contains("no infrastructure namespace admits namespace team-b"), "{text}");
    assert!(text.contains("kubectl patch hostdeploypolicy -n infra teams --type=json"), "{text}");
}

#[test]
fn a_claim_about_to_get_its_host() {
    let text = screens(lists(vec![claim("team-a", "web-1", &json!({}))], vec![host("free-1", &json!({}))]));
    assert!(text.contains("1 of 1 hosts fit") && text.contains("claims: bind infra/free-1"), "{text}");
}

fn everybody() -> Lists {
    let mut all = unmatched();
    let status = json!({"status": {"conditions": [condition("Associated", "False", "NoBareMetalHost", "0/7 hosts fit"),
        condition("Ready", "False", "NotReady", "Associated")]}});
    all.claims = vec![
        read(claim("team-a", "web-1", &bound())),
        read(claim("team-a", "web-2", &status)),
        read(claim("team-b", "new", &json!({"metadata": {"creationTimestamp": "2025-12-24T03:00:00Z"}}))),
    ];
    all
}

#[test]
fn all_hosts_and_all_claims() {
    let sight = Sight::of(everybody(), Settings::default(), now());
    let (hosts, claims) = (host_table(&sight, None), claim_table(&sight, None, now()));
    insta::assert_snapshot!(at_widths(|screen| format!(
        "{}\n{}",
        hosts_screen(screen, &hosts),
        claims_screen(screen, &claims)
    )));
    let (hosts, claims) = (host_table(&sight, Some("nowhere")), claim_table(&sight, Some("nowhere"), now()));
    let none = at_widths(|screen| hosts_screen(screen, &hosts) + &claims_screen(screen, &claims));
    insta::assert_snapshot!("no_hosts_and_no_claims", none);
    assert_eq!(claim_table(&sight, Some("team-b"), now()).items.len(), 1);
}

#[test]
fn what_is_left_of_a_list_is_counted_as_the_whole_list_is() {
    let mut lists = everybody();
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-02T03:03:00Z"}});
    lists.claims.push(read(claim("team-b", "old", &gone)));
    let (zones, leaving) = (look::zones(&lists), leaving(&lists));
    let sight = Sight::of(lists, Settings::default(), now());
    let (hosts, claims) = (host_table(&sight, None), claim_table(&sight, None, now()));
    assert_eq!(recounted(&placed(hosts.clone(), &zones)), hosts);
    assert_eq!(tallied(&claims.items, &leaving), claims.counts);
    assert_eq!(claims.counts.leaving, 1);
}

#[test]
fn a_host_is_found_by_its_zone_and_by_the_tenant_who_has_it() {
    let rack = json!({"metadata": {"labels": {"infrastructure.cluster.x-k8s.io/failure-domain": "rack-7"}}});
    let used = merged(host("used-1", &consumer("team-a", "web-1")), &rack);
    let lists = lists(Vec::new(), vec![host("free-1", &json!({})), used]);
    let zones = look::zones(&lists);
    let table = host_table(&Sight::of(lists, Settings::default(), now()), None);
    let cells: Vec<Vec<String>> = placed(table, &zones).iter().map(|host| host.cells()).collect();
    let shown: Vec<[&str; 4]> =
        cells.iter().map(|row| [&row[1], &row[2], &row[4], &row[6]].map(String::as_str)).collect();
    assert_eq!(shown, [["free-1", "free", "", ""], ["used-1", "used", "rack-7", "team-a"]]);
}

#[test]
fn the_tables_for_programs() {
    let lists = everybody();
    let (zones, sight) = (look::zones(&lists), Sight::of(lists, Settings::default(), now()));
    insta::assert_snapshot!("claims_for_programs", document("ClaimList", &claim_table(&sight, None, now())));
    let hosts = placed(host_table(&sight, None), &zones);
    let (counts, items) = (recounted(&hosts).counts, hosts.get(..3).unwrap());
    insta::assert_snapshot!("hosts_for_programs", document("HostList", &Hosts { counts, items }));
}

#[test]
fn documents_for_programs() {
    let lists = unmatched();
    let key = ObjectKey::of(&lists.claims[0]);
    let mut sight = Sight::of(lists, Settings::default(), now());
    let told = explain(&mut sight, &key, now()).unwrap();
    let document =
        json!({"explanation": told, "tree": tree(&mut sight, &key, now()).unwrap(), "hosts": host_table(&sight, None)});
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
}
