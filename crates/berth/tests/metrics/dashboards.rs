//! Dashboards show everything that is exported, and work in any Grafana.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::alerts::{alerts, codes};
use crate::expressions::{Series, values};
use crate::source::{exported, files, read, root, word};

/// Metrics that no dashboard shows, each with the reason.
const NOT_SHOWN: &[(&str, &str)] = &[];
/// Panels that Grafana has without plugins.
const PANELS: [&str; 5] = ["row", "stat", "timeseries", "bargauge", "table"];

/// The dashboards of the chart by the name of their file.
fn dashboards() -> BTreeMap<String, Value> {
    let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let read = |path: &Path| serde_json::from_str(&read(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    files("chart/dashboards", "json").iter().map(|path| (stem(path), read(path))).collect()
}

fn panels(board: &Value) -> Vec<&Value> {
    board["panels"].as_array().unwrap().iter().collect()
}

#[test]
fn dashboards_ask_for_what_is_exported_and_show_all_of_it() {
    let series = Series::of_the_code();
    let mut shown = BTreeSet::new();
    for (file, board) in dashboards() {
        for panel in panels(&board).into_iter().filter(|panel| panel["type"] != "row") {
            let place = format!("{file}: {}", panel["title"]);
            for target in panel["targets"].as_array().unwrap() {
                let expression = target["expr"].as_str().unwrap();
                let (used, labels) = series.check(expression).unwrap_or_else(|problem| panic!("{place}: {problem}"));
                let chosen = expression.matches("job=~\"$job\"").count();
                assert!(chosen >= used.len(), "{place}: the chosen jobs are not heeded in {expression}");
                for label in target["legendFormat"].as_str().unwrap().split("{{").skip(1).map(word) {
                    assert!(labels.contains(label), "{place}: the legend names the label {label}");
                }
                shown.extend(used);
            }
        }
    }
    let exported = exported();
    for (name, why) in NOT_SHOWN {
        assert!(exported.contains_key(*name) && !shown.contains(*name), "{name} ({why}) need not be excused");
    }
    let excused = |name: &String| NOT_SHOWN.iter().any(|(excused, _)| excused == name);
    let missing: Vec<_> = exported.keys().filter(|name| !shown.contains(*name) && !excused(name)).collect();
    assert!(missing.is_empty(), "on no dashboard: {missing:?}");
}

/// Every expression of a dashboard.
fn expressions(board: &Value) -> Vec<&str> {
    let targets = panels(board).into_iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().unwrap()).collect()
}

#[test]
fn every_capability_shows_how_long_it_takes_how_often_and_what_fails() {
    let boards = dashboards();
    for (file, histogram) in [
        ("berth-addresses", "berth_vip_allocation_duration_seconds"),
        ("berth-claims", "berth_claims_bind_seconds"),
        ("berth-claims", "berth_room_ready_seconds"),
        ("berth-dedicated-hosts", "berth_hosts_allocation_seconds"),
        ("berth-capacity", "berth_room_ready_seconds"),
        ("berth-clusters", "berth_room_ready_seconds"),
        ("berth-machines", "berth_room_ready_seconds"),
        ("berth-fleet", "berth_room_ready_seconds"),
    ] {
        let all = expressions(&boards[file]);
        let asks = |parts: &[&str]| all.iter().any(|one| parts.iter().all(|part| one.contains(part)));
        for quantile in ["0.5", "0.95", "0.99"] {
            let start = format!("histogram_quantile({quantile}, ");
            assert!(asks(&[&start, &format!("{histogram}_bucket{{")]), "{file}: {quantile} of {histogram}");
        }
        assert!(asks(&["rate(", &format!("{histogram}_count{{")]), "{file}: the rate of {histogram}");
        assert!(asks(&["by (room, class)", "berth_room_failures_total"]), "{file}: failures by class");
    }
}

#[test]
fn how_long_hooks_take_to_answer_is_shown() {
    let boards = dashboards();
    let all = expressions(&boards["berth-addresses"]);
    for quantile in ["0.5", "0.95", "0.99"] {
        let start = format!("histogram_quantile({quantile}, ");
        let asks = |one: &str| one.starts_with(&start) && one.contains("berth_vip_hook_duration_seconds_bucket{");
        assert!(all.iter().any(|one| asks(one)), "{quantile}");
    }
}

#[test]
fn throttled_calls_are_shown_by_every_code_that_the_client_knows() {
    let boards = dashboards();
    let asked = expressions(&boards["berth-dedicated-hosts"]).into_iter().flat_map(values);
    let asked: BTreeSet<String> = asked.filter(|(label, _)| label == "code").map(|(_, code)| code).collect();
    assert_eq!(asked, codes(aws::errors::Kind::Throttled));
}

#[test]
fn alerts_and_dashboards_compare_labels_with_what_the_code_says() {
    let crates =
        ["api", "kit", "aws", "cloudstack", "claim-kind", "vip", "claims", "machines", "hosts", "capacity", "clusters"];
    let mut code = String::new();
    for path in crates.iter().flat_map(|name| files(&format!("crates/{name}/src"), "rs")) {
        // Tests say what they like.
        if !path.strip_prefix(root()).unwrap().to_string_lossy().contains("test") {
            code.push_str(read(&path).split("#[cfg(test)]\nmod tests {").next().unwrap());
        }
    }
    let reasons = api::reasons::all();
    let said = |label: &str, value: &str| match value.strip_suffix(".*") {
        _ if label == "reason" => reasons.iter().any(|entry| entry.reason == value),
        Some(start) => code.contains(&format!("\"{start}")),
        // A code of AWS may be the beginning of several.
        None => ["\"", "*\""].iter().any(|end| code.contains(&format!("\"{value}{end}"))),
    };
    let (alerts, boards) = (alerts(), dashboards());
    let of_alerts = alerts.values().map(|rule| rule["expr"].as_str().unwrap());
    let compared: BTreeSet<_> = of_alerts.chain(boards.values().flat_map(expressions)).flat_map(values).collect();
    assert!(compared.len() > 50, "only {compared:?}");
    for (label, value) in compared {
        assert!(said(&label, &value), "nothing says {value} in {label}");
    }
    for (label, value) in [("room", "kitchen"), ("reason", "paused"), ("room", "kitchen.*")] {
        assert!(!said(label, value), "{value} is noticed");
    }
}

#[test]
fn fleet_clouds_and_tenants_are_shown_by_what_tells_of_them() {
    let boards = dashboards();
    for (file, metrics) in [
        ("berth-fleet", &["berth_room_objects", "berth_room_oldest_wait_seconds"][..]),
        ("berth-clouds", &["berth_aws_requests_total", "berth_aws_throttled_total", "berth_aws_request_seconds"]),
        ("berth-clouds", &["berth_cloudstack_requests_total", "berth_cloudstack_request_seconds"]),
        ("berth-clouds", &["berth_aws_bucket_tokens", "berth_cloudstack_bucket_tokens"]),
        ("berth-tenants", &["berth_claims_tenant_hosts", "berth_claims_quota_limit_hosts"]),
        ("berth-tenants", &["berth_claims_tenant_waiting_claims"]),
    ] {
        let all = expressions(&boards[file]);
        for metric in metrics {
            assert!(all.iter().any(|one| one.contains(metric)), "{file} does not show {metric}");
        }
    }
}

#[test]
fn dashboards_work_in_any_grafana_and_every_panel_answers_a_question() {
    let boards = dashboards();
    assert_eq!(boards.len(), 10);
    let titles: BTreeSet<&str> = boards.values().map(|board| board["title"].as_str().unwrap()).collect();
    assert_eq!(titles.len(), boards.len(), "titles differ");
    let page = read(&root().join("book/src/metrics.md"));
    for (file, board) in &boards {
        assert_eq!(board["uid"], file.as_str(), "links to a dashboard outlive its title");
        assert!(page.contains(&format!("| {} |", board["title"].as_str().unwrap())), "{file} is not in the book");
        assert_eq!(board["schemaVersion"], 41, "{file}");
        assert!(board["__inputs"].is_null() && board["id"].is_null(), "{file}: what an export leaves behind");
        let variables = board["templating"]["list"].as_array().unwrap();
        for (name, kind) in [("datasource", "datasource"), ("job", "query")] {
            assert!(variables.iter().any(|v| v["name"] == name && v["type"] == kind), "{file}: no variable {name}");
        }
        let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for panel in panels(board) {
            let title = panel["title"].as_str().unwrap();
            let place = format!("{file}: {title}");
            assert!(title.ends_with('?'), "{place} is no question");
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{place}: two panels with one id");
            assert!(PANELS.contains(&panel["type"].as_str().unwrap()), "{place}: {}", panel["type"]);
            let position = |side: &str| panel["gridPos"][side].as_u64().unwrap();
            assert!(position("x") + position("w") <= 24, "{place} is too wide");
            for (x, y) in (0..position("w")).flat_map(|x| (0..position("h")).map(move |y| (x, y))) {
                assert!(taken.insert((position("x") + x, position("y") + y)), "{place} lies on another panel");
            }
            if panel["type"] == "row" {
                continue;
            }
            assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{place}: no description");
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{place}: no unit");
            for source in panel["targets"].as_array().unwrap().iter().chain([panel]) {
                assert_eq!(source["datasource"]["uid"], "${datasource}", "{place}");
            }
        }
    }
}
