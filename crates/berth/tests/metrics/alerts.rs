//! Alerts ask for what is exported, name their page, and are tested.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::expressions::{Series, values};
use crate::source::{files, read, root, word};

/// The alerts of the chart by name.
pub fn alerts() -> BTreeMap<String, Value> {
    let file: Value = serde_saphyr::from_str(&read(&root().join("chart/files/alerts.yaml"))).unwrap();
    let groups = file["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    rules.map(|rule| (rule["alert"].as_str().unwrap().to_owned(), rule.clone())).collect()
}

#[test]
fn alerts_ask_for_what_is_exported_and_name_labels_they_have() {
    let series = Series::of_the_code();
    let alerts = alerts();
    assert!(alerts.len() > 15, "only {} alerts found", alerts.len());
    for (name, rule) in alerts {
        let (_, labels) =
            series.check(rule["expr"].as_str().unwrap()).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        for text in rule["annotations"].as_object().unwrap().values() {
            for label in text.as_str().unwrap().split("$labels.").skip(1).map(word) {
                assert!(labels.contains(label), "{name}: a text names the label {label}");
            }
        }
    }
}

/// The labels that codes of AWS of a kind get in metrics: those of the client's table, and its own word for the kind.
pub fn codes(kind: aws::errors::Kind) -> BTreeSet<String> {
    let source = read(&root().join("crates/aws/src/errors/table.rs"));
    let table = source.split("TABLE: &[(&str, Kind)] = &[").nth(1).unwrap().split("];").next().unwrap();
    let rows = table.lines().filter_map(|line| line.trim().strip_prefix("(\"")?.split_once("\", Kind::"));
    let of_kind = rows.filter(|(_, found)| found.trim_end_matches("),") == format!("{kind:?}"));
    of_kind.map(|(code, _)| code.trim_end_matches('*')).chain([kind.as_str()]).map(str::to_owned).collect()
}

#[test]
fn alerts_about_clouds_know_every_code_that_the_client_knows() {
    let alerts = alerts();
    for (name, kind) in [
        ("BerthCloudThrottled", aws::errors::Kind::Throttled),
        ("BerthCloudRefusesKeys", aws::errors::Kind::Permission),
    ] {
        let asked = values(alerts[name]["expr"].as_str().unwrap());
        let asked: BTreeSet<String> =
            asked.into_iter().filter(|(label, _)| label == "code").map(|(_, code)| code).collect();
        assert!(asked.len() > 5, "{name}: {asked:?}");
        assert_eq!(asked, codes(kind), "left: {name}, right: what the client takes for that");
    }
}

#[test]
fn every_alert_names_a_page_of_the_book_that_tells_of_it() {
    for (name, rule) in alerts() {
        let runbook = rule["annotations"]["runbook"].as_str().unwrap_or_else(|| panic!("{name} has no runbook"));
        let (page, anchor) = runbook.split_once('#').unwrap_or_else(|| panic!("{name}: {runbook} names no heading"));
        let text = read(&root().join("book/src").join(page));
        let slug = |heading: &str| heading.trim().to_lowercase().replace(' ', "-");
        let (_, after) = text
            .split("\n## ")
            .skip(1)
            .filter_map(|section| section.split_once('\n'))
            .find(|(heading, _)| slug(heading) == anchor)
            .unwrap_or_else(|| panic!("{name}: no heading for {runbook}"));
        assert!(after.contains(&format!("`{name}`")), "{runbook} does not tell of {name}");
    }
}

#[test]
fn an_alert_that_could_name_an_object_does_and_others_say_how_to_find_it() {
    let named = ["namespace", "pool_name", "cluster", "endpoint", "region", "hook", "source", "cluster_class"];
    for (name, rule) in alerts().into_iter().filter(|(_, rule)| rule["expr"].as_str().unwrap().contains(" by (")) {
        let (summary, more) = (&rule["annotations"]["summary"], &rule["annotations"]["description"]);
        let names =
            |text: &Value| named.iter().any(|label| text.as_str().unwrap().contains(&format!("$labels.{label}")));
        let found = ["berth ", "kubectl get", "event ", "condition", "'s log", "The log", "Look at", "Run berth"];
        let helps = found.iter().any(|word| more.as_str().unwrap().contains(word));
        assert!(names(summary) || helps, "{name} leaves whoever is woken without an object");
    }
}

#[test]
fn what_must_not_go_unnoticed_has_its_alert() {
    let alerts = alerts();
    for (what, names) in [
        ("not ready too long", &["BerthNotReadyTooLong", "BerthClaimsWaiting", "BerthMachinesWaiting"][..]),
        ("not ready too long", &["BerthHostMachineNotReady", "BerthClusterNotReady", "BerthDatacenterInvalid"]),
        ("leaks", &["BerthHostOrphaned", "BerthClaimsOrphanHost"]),
        ("throttled", &["BerthCloudThrottled"]),
        ("pools nearly full, at 80 and at 95 of 100", &["BerthVipPoolLow", "BerthVipPoolNearlyExhausted"]),
        ("no free host", &["BerthClaimsNoFreeHost"]),
        ("stale catalogues", &["BerthCapacityCatalogueOld", "BerthCapacityCatalogueMissing"]),
        ("certificates", &["BerthCertificateExpires"]),
        ("slow hooks", &["BerthVipHooksSlow"]),
        ("growing queues", &["BerthQueueLate"]),
        ("no leader", &["BerthLeaderMissing"]),
        ("refused keys", &["BerthCloudRefusesKeys", "BerthCredentialsLacking"]),
        ("blocked releases", &["BerthReleaseBlocked", "BerthHostReleaseWaits"]),
    ] {
        for name in names {
            assert!(alerts.contains_key(*name), "{what}: no alert {name}");
        }
    }
}

/// Minutes since the start of a case.
fn minutes(test: &Value) -> u64 {
    let time = test["eval_time"].as_str().unwrap();
    time.strip_suffix('m').and_then(|minutes| minutes.parse().ok()).unwrap_or_else(|| panic!("{time} is in minutes"))
}

#[test]
fn every_alert_is_tested_to_fire_and_to_resolve_and_to_stay_quiet() {
    let mut seen: BTreeMap<String, [bool; 3]> = alerts().into_keys().map(|name| (name, [false; 3])).collect();
    for path in files("chart/tests/rules", "yaml") {
        let file: Value = serde_saphyr::from_str(&read(&path)).unwrap();
        for case in file["tests"].as_array().unwrap() {
            let mut fired: BTreeMap<&str, u64> = BTreeMap::new();
            for test in case["alert_rule_test"].as_array().unwrap() {
                let name = test["alertname"].as_str().unwrap();
                let seen = seen.get_mut(name).unwrap_or_else(|| panic!("{}: no alert {name}", path.display()));
                match (test["exp_alerts"].as_array().unwrap().is_empty(), fired.get(name)) {
                    (false, _) => {
                        seen[0] = true;
                        fired.insert(name, minutes(test));
                    }
                    (true, Some(at)) if *at < minutes(test) => seen[1] = true,
                    (true, _) => seen[2] = true,
                }
            }
        }
    }
    for (name, done) in seen {
        for (what, done) in ["fire", "resolve", "stay quiet"].iter().zip(done) {
            assert!(done, "{name} is never tested to {what}");
        }
    }
}
