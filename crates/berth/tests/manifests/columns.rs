//! `kubectl get` says of every object of every kind that Berth installs whether it is fine, and if not why, on a terminal of
//! 100 columns. What does not fit is left to `--output wide`.

use std::path::{Path, PathBuf};

use api::reasons;
use serde_json::Value;

use super::{of_kind, root, text};

/// The columns of the terminal.
pub const TERMINAL: usize = 100;
/// The blanks that kubectl leaves after the widest cell of a column; after the last column there are none.
const BETWEEN: usize = 3;

/// How long the values of columns are expected to be; a header that is longer counts instead.
const WIDTHS: &[(usize, &[&str])] = &[
    // Names of objects and hosts: those of machines hold the name of their cluster, of their group, and random letters.
    (24, &["Name", "Host", "Claim", "Data", "Template", "Offering", "Bundle"]),
    // So the name of a cluster is shorter than those.
    (16, &["Cluster"]),
    // 203.113.100.200
    (15, &["Address", "Endpoint"]),
    // i-0123456789abcdef0
    (19, &["Instance"]),
    // u7in-32tb.224xlarge
    (19, &["Type"]),
    // aws-dedicated-host, and its controller aws-dedicated-host.hosts.berth.dev
    (18, &["Kind"]),
    (34, &["Controller"]),
    // https://login.prod.example.com/realms/platform
    (52, &["Issuer"]),
    // ap-southeast-1
    (14, &["Region"]),
    // Deleting machine
    (16, &["Phase"]),
    // v0.23.10, 1.36
    (8, &["Version", "Kubernetes"]),
    // Reboot
    (6, &["Strategy"]),
    // Unknown
    (7, &["Ready", "Available", "Accepted", "Reachable"]),
    // false
    (5, &["Valid", "Shared", "Node Reuse"]),
    // 99999
    (5, &["Used", "Hard", "Bound", "Retries", "Limit", "Number"]),
    // 1h30m0s
    (7, &["Timeout"]),
    // 2d23h, 9999d
    (5, &["Age"]),
];

/// The columns that say how an object is.
const STATES: [&str; 5] = ["Ready", "Available", "Accepted", "Valid", "Phase"];

/// Kinds whose conditions nobody writes: there is nothing that could be shown.
const SILENT: [&str; 1] = ["AWSMachineTemplate"];

/// The words behind `Reason::` in the sources of a folder.
fn said_in(folder: &str) -> Vec<&'static str> {
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let (mut files, mut words) = (Vec::new(), Vec::new());
    sources(&root().join(folder), &mut files);
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
        let source = std::fs::read_to_string(file).unwrap();
        let said = source.split("Reason::").skip(1).map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()));
        let said: Vec<&str> = said.filter_map(|mut rest| rest.next()).collect();
        words.extend(reasons::all().into_iter().map(|entry| entry.reason).filter(|reason| said.contains(reason)));
    }
    assert!(words.len() > 5, "{folder}: only {words:?}");
    words
}

/// The longest word that can stand in the column Reason of a kind.
pub fn longest_reason(kind: &str) -> &'static str {
    let of = |rooms: &[&str]| {
        let all = reasons::all().into_iter().filter(|entry| rooms.contains(&entry.room));
        all.map(|entry| entry.reason).collect::<Vec<_>>()
    };
    let words = match kind {
        "HostClaimKind" => of(&["claim-kind", "common"]),
        "HostClaim" | "HostClaimQuota" | "HostDeployPolicy" => of(&["claims", "common"]),
        "AWSMachine" => of(&["hosts", "common"]),
        "Metal3Machine" => of(&["machines", "claims", "common"]),
        "Metal3Cluster" => of(&["machines", "common"]),
        "Metal3Data" | "Metal3DataClaim" | "Metal3DataTemplate" => said_in("crates/machines/src/data"),
        "Metal3Remediation" => said_in("crates/machines/src/remediation"),
        "Cluster" | "CloudStackDatacenterConfig" => of(&["clusters", "common"]),
        other => panic!("{other}: say which reasons its column Reason can show"),
    };
    words.into_iter().max_by_key(|word| word.len()).unwrap()
}

fn width(kind: &str, column: &str) -> usize {
    let value = match column {
        "Reason" => longest_reason(kind).len(),
        other => {
            let known = WIDTHS.iter().find(|(_, columns)| columns.contains(&other));
            known.unwrap_or_else(|| panic!("{kind}: say how wide the column {other} is")).0
        }
    };
    value.max(column.len())
}

/// The columns of a version, those that are always shown or those of `--output wide`.
fn columns(version: &Value, wide: bool) -> Vec<&Value> {
    let all = version["additionalPrinterColumns"].as_array().into_iter().flatten();
    all.filter(|column| (column["priority"].as_i64().unwrap_or(0) > 0) == wide).collect()
}

fn names<'v>(columns: &[&'v Value]) -> Vec<&'v str> {
    columns.iter().map(|column| text(column, "/name")).collect()
}

/// The definitions as they are installed.
fn definitions() -> Vec<Value> {
    let objects = super::documents("deploy/berth.yaml");
    of_kind(&objects, "CustomResourceDefinition").into_iter().cloned().collect()
}

/// Calls `check` with the name of every version of every kind, its kind, and its definition as it is installed.
fn versions(mut check: impl FnMut(&str, &str, &Value)) {
    let mut seen = 0;
    for crd in &definitions() {
        let kind = text(crd, "/spec/names/kind");
        for version in crd["spec"]["versions"].as_array().unwrap() {
            check(&format!("{kind} {}", text(version, "/name")), kind, version);
            seen += 1;
        }
    }
    assert!(seen > 25, "only {seen} versions");
}

#[test]
fn what_kubectl_get_shows_of_any_kind_fits_one_hundred_columns() {
    let mut wide = Vec::new();
    versions(|name, kind, version| {
        let shown: Vec<usize> =
            ["Name"].into_iter().chain(names(&columns(version, false))).map(|column| width(kind, column)).collect();
        let total = shown.iter().sum::<usize>() + BETWEEN * (shown.len() - 1);
        if total > TERMINAL {
            wide.push(format!("{name}: {total}"));
        }
    });
    assert!(wide.is_empty(), "{wide:#?}");
}

#[test]
fn kubectl_get_says_of_every_kind_with_conditions_whether_it_is_fine_and_if_not_why() {
    let mut asked = 0;
    versions(|name, kind, version| {
        let shown = columns(version, false);
        let shown_names = names(&shown);
        assert_eq!(shown_names.last(), Some(&"Age"), "{name}: {shown_names:?}");
        // The server shows the first of several values and says nothing of the others.
        assert!(shown.iter().all(|column| !text(column, "/jsonPath").contains("[*]")), "{name}: {shown:?}");
        let status = "/schema/openAPIV3Schema/properties/status/properties";
        let newest = version.pointer(&format!("{status}/v1beta2/properties/conditions"));
        let conditions = newest.or_else(|| version.pointer(&format!("{status}/conditions")));
        if conditions.is_none() || SILENT.contains(&kind) {
            assert!(!shown_names.contains(&"Reason"), "{name} has nothing that could be shown as a reason");
            return;
        }
        asked += 1;
        assert!(shown_names.iter().any(|column| STATES.contains(column)), "{name} does not say how it is");
        let reason = shown.iter().find(|column| text(column, "/name") == "Reason");
        let path = text(reason.unwrap_or_else(|| panic!("{name} does not say why")), "/jsonPath");
        assert!(path.contains("conditions[?(@.type==") && path.ends_with(".reason"), "{name}: {path}");
        let more = names(&columns(version, true));
        assert!(more.iter().any(|column| ["Message", "Failure"].contains(column)), "{name}: {more:?}");
    });
    assert!(asked >= 12, "only {asked} kinds have conditions");
}

#[test]
fn kubectl_get_berth_shows_every_kind() {
    let definitions = definitions();
    assert!(definitions.len() > 20, "only {} kinds", definitions.len());
    for crd in &definitions {
        let categories = crd["spec"]["names"]["categories"].as_array();
        let ours = categories.is_some_and(|all| all.contains(&"berth".into()));
        assert!(ours, "{} is not in the category berth", text(crd, "/metadata/name"));
    }
}
