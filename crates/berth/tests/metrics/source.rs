//! What the code registers, and what the page tells of it.
//!
//! The source of the code is the source of truth. It knows more than a running process, which does not export a counter
//! with labels before it has counted something. What such a process exports at once is compared with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub type Labels = BTreeSet<String>;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("reading {}: {e}", path.display()))
}

/// Every file below a directory whose name has this extension, in order.
pub fn files(dir: &str, extension: &str) -> Vec<PathBuf> {
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
pub fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The words of a text that begin with `prefix`.
pub fn words(text: &str, prefix: &str) -> BTreeSet<String> {
    text.match_indices(prefix).map(|(at, _)| word(&text[at..]).to_owned()).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
pub struct Found {
    pub kind: Kind,
    pub labels: Vec<Labels>,
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

/// The type of a field of the file's structs that is a metric, or what the file has a name for.
fn type_of<'s>(source: &'s str, field: &str) -> &'s str {
    let behind = |kind: &'s str| {
        let name = kind.split([',', ';', ' ']).next().unwrap_or_default();
        let named = |line: &'s str| line.strip_prefix("type ")?.strip_prefix(name)?.strip_prefix(" = ");
        source.lines().find_map(named).unwrap_or(kind)
    };
    let found = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix(field)?.strip_prefix(": "))
        .map(behind)
        .find(|kind| ["Family<", "Counter,", "Gauge,", "Histogram,"].iter().any(|start| kind.starts_with(start)));
    found.unwrap_or_else(|| panic!("no field {field} is a metric"))
}

/// Everything the code registers, by the name it is exported with.
pub fn exported() -> BTreeMap<String, Found> {
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
pub fn told() -> BTreeMap<String, (String, Labels)> {
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
