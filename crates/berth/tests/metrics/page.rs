//! The page that lists all metrics, and the pages that speak of some.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::json;
use sim::plane::{self, Process};

use crate::alerts::alerts;
use crate::source::{Labels, exported, files, read, root, told, word, words};

#[test]
fn the_page_tells_of_every_metric_with_its_kind_and_labels() {
    let (exported, told) = (exported(), told());
    let names = |all: Vec<&String>| all.into_iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(told.keys().collect()), names(exported.keys().collect()), "left: the page, right: the code");
    for (name, (kind, labels)) in &told {
        let found = &exported[name];
        assert_eq!(kind, &format!("{:?}", found.kind).to_lowercase(), "{name}");
        assert!(found.labels.contains(labels), "{name} has not the labels {labels:?}, but one of {:?}", found.labels);
    }
}

/// Starts the binary where no server answers, and tells where it serves metrics and health.
pub fn alone(dir: &Path, args: &[&str]) -> (Process, u16, u16) {
    let port = || plane::free_port().unwrap();
    let (metrics, health, nobody) = (port(), port(), port());
    let config = dir.join("kubeconfig");
    let server = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": format!("http://127.0.0.1:{nobody}")}}],
        "users": [{"name": "x", "user": {}}],
    });
    std::fs::write(&config, server.to_string()).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["run", "--webhook-port", "0", "--enable-runtime-extension=false", "--enable-reconciler"]);
    command.args(["--metrics-bind-address", &format!("127.0.0.1:{metrics}")]);
    command.args(["--health-addr", &format!("127.0.0.1:{health}"), "--kubeconfig"]).arg(&config).args(args);
    (Process::start("berth", command, &dir.join("berth.log"), None).unwrap(), metrics, health)
}

#[tokio::test]
async fn what_the_binary_exports_before_it_reaches_a_server_is_what_the_page_tells() {
    let dir = tempfile::tempdir().unwrap();
    let (mut berth, metrics, _) = alone(dir.path(), &[]);
    plane::wait_http(&mut berth, metrics, "/metrics", std::time::Duration::from_secs(60)).await.unwrap();
    let (_, scraped) = plane::http_get(metrics, "/metrics").await.unwrap();

    let told = told();
    let mut seen = BTreeMap::new();
    for (name, kind) in scraped.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')) {
        let full = match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        };
        let (told, labels) = told.get(&full).unwrap_or_else(|| panic!("{full} is not on the page"));
        assert_eq!(told, kind, "{full}");
        seen.insert(full, labels);
    }
    assert!(seen.len() > 40, "only {seen:?}");
    for line in scraped.lines().filter(|line| !line.starts_with('#')) {
        let series = word(line);
        let parts = ["", "_bucket", "_sum", "_count"].iter().filter_map(|end| seen.get(series.strip_suffix(end)?));
        let wanted = parts.into_iter().next().unwrap_or_else(|| panic!("no type for {line}"));
        let labels = line.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').unwrap().0);
        let labels: Labels =
            labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0.to_owned())).collect();
        let labels: Labels = labels.into_iter().filter(|label| label != "le").collect();
        assert_eq!(labels, **wanted, "{line}");
    }
}

#[test]
fn pages_speak_of_metrics_and_alerts_that_exist_and_the_pages_of_rooms_of_all() {
    let exported = exported();
    let mut book = String::new();
    for path in files("book/src", "md") {
        let page = read(&path);
        for name in words(&page, "berth_") {
            assert!(exported.contains_key(&name), "{}: {name} is not exported", path.display());
        }
        book.push_str(&page);
    }
    for (room, page) in [
        ("vip", "vip/operating.md"),
        ("hosts", "hosts/operating.md"),
        ("capacity", "capacity/tutorial.md"),
        ("claims", "claims/operating.md"),
        ("machines", "machines/life.md"),
    ] {
        let page = read(&root().join("book/src").join(page));
        for name in exported.keys().filter(|name| name.starts_with(&format!("berth_{room}_"))) {
            let there = ["`", "{"].iter().any(|end| page.contains(&format!("`{name}{end}")));
            assert!(there, "{name} is not on the page of {room}");
        }
    }
    for alert in alerts().keys() {
        assert!(book.contains(&format!("`{alert}`")), "{alert} is not in the book");
    }
}
