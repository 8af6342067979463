//! The rules of `deny.toml` hold without `cargo deny` being installed: bans, duplicates and licences. And what the image
//! promises is what the program does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(args).args(["--locked", "--offline"]).current_dir(root()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The quoted words of one list in `deny.toml`; of tables the first word, which is the crate.
fn list(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let open = format!("{name} = [");
    let found: Vec<String> = text
        .lines()
        .skip_while(|line| *line != open)
        .skip(1)
        .take_while(|line| *line != "]")
        .filter_map(|line| line.split('"').nth(1))
        .map(str::to_owned)
        .collect();
    assert!(!found.is_empty(), "deny.toml has no list {name}");
    found
}

/// Names and versions in the tree of this machine's platform.
fn tree() -> BTreeMap<String, BTreeSet<String>> {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in cargo(&["tree", "--workspace", "--edges", "all", "--prefix", "none"]).lines() {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(version)) = (words.next(), words.next().and_then(|v| v.strip_prefix('v'))) {
            versions.entry(name.to_owned()).or_default().insert(version.to_owned());
        }
    }
    assert!(versions.contains_key("kube"), "the tree was not read");
    versions
}

#[test]
fn no_banned_crate_is_in_the_tree() {
    let tree = tree();
    for banned in list("deny") {
        assert!(!tree.contains_key(&banned), "{banned} is banned by deny.toml: cargo tree -i {banned}");
    }
}

#[test]
fn every_duplicate_is_known_and_every_known_duplicate_exists() {
    let mut known: BTreeSet<String> = list("skip").into_iter().collect();
    for (name, versions) in tree().into_iter().filter(|(_, versions)| versions.len() > 1) {
        let unknown: Vec<&String> = versions
            .iter()
            .filter(|version| {
                let same = |entry: &String| {
                    entry.split_once('@').is_some_and(|(n, v)| {
                        n == name && (version.as_str() == v || version.starts_with(&format!("{v}.")))
                    })
                };
                let entry = known.iter().find(|entry| same(entry)).cloned();
                entry.is_none_or(|entry| !known.remove(&entry))
            })
            .collect();
        assert!(unknown.len() <= 1, "{name} is there more than once and deny.toml does not say why: {versions:?}");
    }
    assert!(known.is_empty(), "deny.toml skips what is no duplicate any more: {known:?}");
}

/// Whether a licence expression is satisfied: `OR` needs one side, `AND` both.
fn allowed(expression: &str, allow: &BTreeSet<String>) -> bool {
    fn any(words: &mut std::iter::Peekable<std::vec::IntoIter<String>>, allow: &BTreeSet<String>) -> bool {
        let mut result = all(words, allow);
        while words.next_if(|w| w == "OR").is_some() {
            result |= all(words, allow);
        }
        result
    }
    fn all(words: &mut std::iter::Peekable<std::vec::IntoIter<String>>, allow: &BTreeSet<String>) -> bool {
        let mut result = one(words, allow);
        while words.next_if(|w| w == "AND").is_some() {
            result &= one(words, allow);
        }
        result
    }
    fn one(words: &mut std::iter::Peekable<std::vec::IntoIter<String>>, allow: &BTreeSet<String>) -> bool {
        let Some(word) = words.next() else { return false };
        if word == "(" {
            let result = any(words, allow);
            assert_eq!(words.next().as_deref(), Some(")"));
            return result;
        }
        let exception = words.next_if(|w| w == "WITH").and_then(|_| words.next());
        let licence = exception.map_or(word.clone(), |exception| format!("{word} WITH {exception}"));
        allow.contains(&licence)
    }
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<String> = spaced.split_whitespace().map(str::to_owned).collect();
    any(&mut words.into_iter().peekable(), allow)
}

#[test]
fn every_licence_is_allowed() {
    let allow: BTreeSet<String> = list("allow").into_iter().collect();
    let tree = tree();
    // Of other platforms' packages not even the manifests need be on this machine.
    let host = Command::new("rustc").args(["--print", "host-tuple"]).output().unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    let metadata = cargo(&["metadata", "--format-version", "1", "--filter-platform", host.trim()]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let mut seen = 0;
    for package in metadata["packages"].as_array().unwrap() {
        let (name, version) = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        if tree.get(name).is_some_and(|versions| versions.contains(version)) {
            let licence = package["license"].as_str().unwrap_or("none");
            assert!(allowed(licence, &allow), "{name} {version} has the licence {licence}");
            seen += 1;
        }
    }
    assert!(seen > 100, "only {seen} packages were looked at");
    assert!(!allowed("GPL-3.0-only", &allow) && !allowed("MIT AND GPL-3.0-only", &allow));
    assert!(allowed("(GPL-3.0-only OR MIT) AND ISC", &allow) && allowed("MIT/GPL-3.0-only", &allow));
}

/// The port that a flag of `berth run` has by default.
fn port(help: &str, flag: &str) -> String {
    let after = help.split_once(&format!("--{flag} ")).unwrap_or_else(|| panic!("no flag --{flag}")).1;
    let default = after.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']')).unwrap().0;
    default.rsplit(':').next().unwrap().to_owned()
}

#[test]
fn the_image_has_the_ports_of_the_flags_a_numeric_user_and_bases_with_a_tag() {
    let dockerfile = std::fs::read_to_string(root().join("Dockerfile")).unwrap();
    let said = |word: &str| -> Vec<&str> { dockerfile.lines().filter_map(|line| line.strip_prefix(word)).collect() };

    let help = Command::new(env!("CARGO_BIN_EXE_berth")).args(["run", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let flags = ["metrics-bind-address", "health-addr", "runtime-extension-port", "webhook-port"];
    let ports: Vec<String> = flags.iter().map(|flag| port(&help, flag)).collect();
    assert_eq!(said("EXPOSE "), [ports.join(" ")]);

    // A cluster that lets nobody run as root cannot tell who a name is.
    let [user] = said("USER ")[..] else { panic!("not one USER") };
    let (user, group) = user.split_once(':').unwrap();
    assert!([user, group].iter().all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "{user}:{group}");

    let bases = said("FROM ");
    assert_eq!(bases.last(), Some(&"scratch"));
    for base in bases.iter().filter(|base| **base != "scratch") {
        let image = base.split_whitespace().next().unwrap();
        let tag = image.rsplit('/').next().and_then(|name| name.split_once(':')).map(|(_, tag)| tag);
        assert!(tag.is_some_and(|tag| tag != "latest" && tag.starts_with(|c: char| c.is_ascii_digit())), "{base}");
    }
}
