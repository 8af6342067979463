//! Metrics, their page, alerts and dashboards tell the same: what is asked for is exported, and what is exported is
//! told and shown.
//!
//! The source of the code is the source of truth. It knows more than a running process, which does not export a counter
//! with labels before it has counted something. What such a process exports at once is compared with it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sim::plane::{self, Process};

type Labels = BTreeSet<String>;

/// Metrics that no dashboard shows, each with the reason.
const NOT_SHOWN: &[(&str, &str)] = &[];
/// Labels that Prometheus gives every series of a target.
const TARGET: [&str; 2] = ["job", "instance"];
/// The functions, operators and keywords that expressions use.
const WORDS: [&str; 14] = [
    "sum",
    "max",
    "min",
    "count",
    "rate",
    "increase",
    "histogram_quantile",
    "avg_over_time",
    "time",
    "by",
    "on",
    "and",
    "unless",
    "or",
];
/// Panels that Grafana has without plugins.
const PANELS: [&str; 5] = ["row", "stat", "timeseries", "bargauge", "table"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("reading {}: {e}", path.display()))
}

/// Every file below a directory whose name has this extension, in order.
fn files(dir: &str, extension: &str) -> Vec<PathBuf> {
    fn walk(dir: &Path, extension: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, extension, found);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(dir), extension, &mut found);
    found.sort();
    found
}

/// The letters, digits and `_` at the beginning.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The words of a text that begin with `prefix`.
fn words(text: &str, prefix: &str) -> BTreeSet<String> {
    text.match_indices(prefix).map(|(at, _)| word(&text[at..]).to_owned()).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

impl Kind {
    /// The kind that a type of the metrics crate is.
    fn of(text: &str) -> Self {
        let found = [("Counter", Self::Counter), ("Gauge", Self::Gauge), ("Histogram", Self::Histogram)]
            .into_iter()
            .find(|(name, _)| text.contains(name));
        found.unwrap_or_else(|| panic!("no kind of metric: {text}")).1
    }

    fn exported(self, name: &str) -> String {
        let prefix = if name.starts_with("process_") { "" } else { "berth_" };
        let suffix = match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram => "",
        };
        format!("{prefix}{name}{suffix}")
    }
}

/// A metric as the code has it: its kind, and the sets of labels of which it has one.
#[derive(Debug)]
struct Found {
    kind: Kind,
    labels: Vec<Labels>,
}

/// The string that comes first in a text, after white space; a name made by `format!` stands for its three values.
fn literals(text: &str) -> Vec<String> {
    let text = text.trim_start();
    let text = text.strip_prefix("&format!(").unwrap_or(text);
    let Some(name) = text.strip_prefix('"').and_then(|rest| rest.split('"').next()) else { return Vec::new() };
    match name.strip_suffix("{name}") {
        Some(stem) => ["total", "free", "used"].map(|end| format!("{stem}{end}")).to_vec(),
        None => vec![name.to_owned()],
    }
}

/// The fields of every set of labels that a file defines, by the name of the set.
fn label_sets(source: &str) -> BTreeMap<String, Labels> {
    let mut sets = BTreeMap::new();
    for part in source.split("EncodeLabelSet)]").skip(1) {
        let Some((head, rest)) = part.split_once('{') else { continue };
        let body = rest.split('}').next().unwrap();
        let fields = body.lines().filter_map(|line| line.trim().split_once(':'));
        let fields = fields.map(|(field, _)| field.trim_start_matches("pub ").trim_start_matches("r#").to_owned());
        let name = head.trim().rsplit(' ').next().unwrap();
        sets.insert(name.to_owned(), fields.collect());
    }
    sets
}

/// The type of a field of the file's structs that is a metric.
fn type_of<'s>(source: &'s str, field: &str) -> &'s str {
    let found = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix(field)?.strip_prefix(": "))
        .find(|kind| ["Family<", "Counter,", "Gauge,", "Histogram,"].iter().any(|start| kind.starts_with(start)));
    found.unwrap_or_else(|| panic!("no field {field} is a metric"))
}

/// Everything the code registers, by the name it is exported with.
fn exported() -> BTreeMap<String, Found> {
    let mut all = BTreeMap::new();
    let crates =
        ["kit", "aws", "cloudstack", "claim-kind", "vip", "claims", "machines", "hosts", "capacity", "clusters"];
    for path in crates.iter().flat_map(|name| files(&format!("crates/{name}/src"), "rs")) {
        let source = read(&path);
        let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let sets = label_sets(source);
        let mut add = |name: String, kind: Kind, labels: Vec<Labels>| {
            let before = all.insert(kind.exported(&name), Found { kind, labels });
            assert!(before.is_none(), "{name} is registered twice");
        };
        for rest in source.split(".register(").skip(1) {
            for name in literals(rest) {
                let call = rest.split(");").next().unwrap();
                if call.contains("Info::new") {
                    add(name, Kind::Info, vec![["version".to_owned()].into()]);
                    continue;
                }
                let last = call.trim().trim_end_matches(',').rsplit(',').next().unwrap().trim();
                let kind = type_of(source, last.trim_end_matches(".clone()").rsplit('.').next().unwrap());
                let labels = match kind.strip_prefix("Family<") {
                    Some(family) => sets[family.split(',').next().unwrap()].clone(),
                    None => Labels::new(),
                };
                let kind = kind.split_once(", ").map_or(kind, |(_, metric)| metric);
                add(name, Kind::of(kind), vec![labels]);
            }
        }
        for rest in source.split(" gauge(&mut encoder,").skip(1) {
            for name in literals(rest) {
                add(name, Kind::Gauge, vec![Labels::new()]);
            }
        }
        let several =
            |rest: &str| literals(rest).into_iter().map(|name| (name, sets.values().cloned().collect::<Vec<_>>()));
        for (name, labels) in source.split("gauges(&mut encoder,").skip(1).flat_map(several) {
            add(name, Kind::Gauge, labels);
        }
        for rest in source.split("encode_descriptor(").skip(1) {
            for (name, labels) in several(rest) {
                let call = rest.split(")?").next().unwrap();
                let kind = call.split("MetricType::").nth(1).map_or(Kind::Counter, Kind::of);
                add(name, kind, if labels.is_empty() { vec![Labels::new()] } else { labels });
            }
        }
    }
    assert!(all.len() > 70, "only {} metrics found: is the code's shape still understood?", all.len());
    all
}

/// The metrics of the page that lists all, with kind and labels.
fn told() -> BTreeMap<String, (String, Labels)> {
    let page = read(&root().join("book/src/metrics.md"));
    let code = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let mut all = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `berth_") || line.starts_with("| `process_")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 6, "{line}");
        let before = all.insert(code(cells[1]).remove(0), (cells[2].to_owned(), code(cells[3]).into_iter().collect()));
        assert!(before.is_none(), "told twice: {line}");
    }
    all
}

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

#[tokio::test]
async fn what_the_binary_exports_before_it_reaches_a_server_is_what_the_page_tells() {
    let dir = tempfile::tempdir().unwrap();
    let port = || plane::free_port().unwrap();
    let (metrics, health, nobody) = (port(), port(), port());
    let config = dir.path().join("kubeconfig");
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
    command.args(["--health-addr", &format!("127.0.0.1:{health}"), "--kubeconfig"]).arg(&config);
    let mut berth = Process::start("berth", command, &dir.path().join("berth.log"), None).unwrap();
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

/// The alerts of the chart by name.
fn alerts() -> BTreeMap<String, Value> {
    let file: Value = serde_saphyr::from_str(&read(&root().join("chart/files/alerts.yaml"))).unwrap();
    let groups = file["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    rules.map(|rule| (rule["alert"].as_str().unwrap().to_owned(), rule.clone())).collect()
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text,
    Sign(char),
}

/// The parts of an expression, without what Grafana puts in and without ranges and numbers.
fn tokens(expression: &str) -> Vec<Token> {
    let (mut tokens, mut rest) = (Vec::new(), expression);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                tokens.push(Token::Text);
                rest[1..].find('"').expect("a string ends") + 2
            }
            '[' => rest.find(']').expect("a range ends") + 1,
            '$' => 1 + word(&rest[1..]).len(),
            '0'..='9' => rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len()),
            'a'..='z' | 'A'..='Z' | '_' => {
                tokens.push(Token::Word(word(rest).to_owned()));
                word(rest).len()
            }
            _ => {
                if !first.is_whitespace() {
                    tokens.push(Token::Sign(first));
                }
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    tokens
}

/// The tokens up to the sign that closes what the one at `open` opens.
fn enclosed(tokens: &[Token], open: usize) -> &[Token] {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Sign('(' | '{') => depth += 1,
            Token::Sign(')' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &tokens[open + 1..at];
        }
    }
    panic!("something stays open: {tokens:?}")
}

fn words_of(tokens: &[Token]) -> Vec<&str> {
    tokens.iter().filter_map(|token| if let Token::Word(word) = token { Some(word.as_str()) } else { None }).collect()
}

/// What expressions may ask for: every series by name, with the kind of its metric and its labels.
struct Series(BTreeMap<String, (Kind, Labels, String)>);

impl Series {
    fn of_the_code() -> Self {
        let (exported, told) = (exported(), told());
        let mut all = BTreeMap::new();
        for (name, found) in exported {
            let mut labels = told.get(&name).unwrap_or_else(|| panic!("{name} is not told")).1.clone();
            labels.extend(TARGET.map(str::to_owned));
            if found.kind == Kind::Histogram {
                for end in ["_sum", "_count"] {
                    all.insert(format!("{name}{end}"), (found.kind, labels.clone(), name.clone()));
                }
                labels.insert("le".to_owned());
                all.insert(format!("{name}_bucket"), (found.kind, labels, name));
            } else {
                all.insert(name.clone(), (found.kind, labels, name));
            }
        }
        Self(all)
    }

    fn among<'t>(&self, tokens: &'t [Token]) -> Vec<&'t str> {
        words_of(tokens).into_iter().filter(|word| self.0.contains_key(*word)).collect()
    }

    /// Checks an expression; returns the metrics it uses and the labels of what it gives.
    fn check(&self, expression: &str) -> Result<(BTreeSet<String>, Labels), String> {
        let tokens = tokens(expression);
        let (mut used, mut kept, mut all) = (BTreeSet::new(), Labels::new(), Labels::new());
        let mut grouped = false;
        let mut at = 0;
        while at < tokens.len() {
            let Token::Word(word) = &tokens[at] else {
                at += 1;
                continue;
            };
            let opens = |at: usize, sign: char| tokens.get(at) == Some(&Token::Sign(sign));
            if let Some((_, labels, metric)) = self.0.get(word) {
                used.insert(metric.clone());
                all.extend(labels.iter().cloned());
                if opens(at + 1, '{') {
                    let matchers = enclosed(&tokens, at + 1);
                    if let Some(wrong) = words_of(matchers).into_iter().find(|label| !labels.contains(*label)) {
                        return Err(format!("{word} has no label {wrong}"));
                    }
                    at += matchers.len() + 2;
                }
            } else if word == "by" || word == "on" {
                let labels = enclosed(&tokens, at + 1);
                let after = at + 1 + labels.len() + 2;
                // What is put together is in the parentheses that follow; of what is joined, all before counts.
                let about = if word == "by" { enclosed(&tokens, after) } else { &tokens[..] };
                for label in words_of(labels) {
                    let known = self.among(about).into_iter().any(|name| self.0[name].1.contains(label));
                    if !known {
                        return Err(format!("nothing in {word} ({label}) has such a label"));
                    }
                    if word == "by" {
                        kept.insert(label.to_owned());
                    }
                }
                grouped = grouped || word == "by";
                at = after - 1;
            } else if ["rate", "increase"].contains(&word.as_str()) {
                let about = self.among(enclosed(&tokens, at + 1));
                if let Some(gauge) = about.into_iter().find(|name| matches!(self.0[*name].0, Kind::Gauge | Kind::Info))
                {
                    return Err(format!("{word} of {gauge}, which is a gauge"));
                }
            } else if !WORDS.contains(&word.as_str()) {
                return Err(format!("{word} is neither exported nor a function"));
            }
            at += 1;
        }
        if used.is_empty() {
            return Err("asks for nothing".to_owned());
        }
        Ok((used, if grouped { kept } else { all }))
    }
}

#[test]
fn a_wrong_expression_is_noticed() {
    let series = Series::of_the_code();
    let check = |expression: &str| series.check(expression).map(|(used, labels)| (used.len(), labels.len()));
    assert_eq!(
        check(r#"sum by (room) (rate(berth_room_passes_total{job=~"$job", outcome="failed"}[5m])) > 0"#),
        Ok((1, 1))
    );
    assert_eq!(
        check("histogram_quantile(0.9, sum by (le, room) (rate(berth_room_pass_seconds_bucket[$__range])))"),
        Ok((1, 2))
    );
    for wrong in [
        "sum(rate(berth_room_passes[5m]))",
        "sum by (class) (rate(berth_room_passes_total[5m]))",
        r#"berth_room_passes_total{cluster="a"}"#,
        "berth_room_pass_seconds",
        "sum by (le) (rate(berth_room_pass_seconds_count[5m]))",
        "rate(berth_room_queue_busy[5m])",
        "summ(berth_run_ready)",
        "time()",
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
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

#[test]
fn dashboards_work_in_any_grafana_and_every_panel_answers_a_question() {
    let boards = dashboards();
    assert_eq!(boards.len(), 7);
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
