//! The docs tell the truth: their commands parse, their links resolve, their manifests are accepted, and their reasons
//! and flags are the code's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};
use sim::plane;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("reading {}: {e}", path.display()))
}

/// Every file below a directory whose name has this extension.
fn files_below(dir: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

/// Every page: those at the root and those of the book.
fn pages() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].iter().map(|name| root().join(name)).collect();
    files_below(&root().join("book/src"), "md", &mut found);
    found.sort();
    assert!(found.len() > 20, "only {} pages found", found.len());
    found
}

struct Block {
    place: String,
    language: String,
    lines: Vec<String>,
}

/// The whole file that a line includes.
fn included(page: &Path, line: &str) -> Option<String> {
    let path = line.trim().strip_prefix("{{#include ")?.strip_suffix("}}")?;
    Some(read(&page.parent().unwrap().join(path)))
}

/// The fenced blocks of a page, with what they include, and its text without them.
fn blocks(page: &Path) -> (Vec<Block>, String) {
    let (mut blocks, mut prose) = (Vec::new(), String::new());
    let mut open: Option<Block> = None;
    for (number, line) in read(page).lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                let place = format!("{}:{}", page.strip_prefix(root()).unwrap().display(), number + 1);
                open = Some(Block { place, language: language.trim().to_owned(), lines: Vec::new() });
            }
            (None, Some(block)) => match included(page, line) {
                Some(text) => block.lines.extend(text.lines().map(str::to_owned)),
                None => block.lines.push(line.to_owned()),
            },
            (None, None) => prose.extend([line, "\n"]),
        }
    }
    assert!(open.is_none(), "{}: a fence is not closed", page.display());
    (blocks, prose)
}

/// The text between single backquotes.
fn code_spans(prose: &str) -> Vec<String> {
    prose.split('\n').flat_map(|line| line.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// The command lines of a shell block: all of them, or in a console block those after the prompt.
fn command_lines(block: &Block) -> Vec<String> {
    let mut commands = Vec::new();
    let mut pending = String::new();
    for line in &block.lines {
        let line = match block.language.as_str() {
            "sh" => line.trim(),
            "console" if pending.is_empty() => match line.trim().strip_prefix("$ ") {
                Some(command) => command,
                None => continue,
            },
            "console" => line.trim(),
            _ => continue,
        };
        if let Some(part) = line.strip_suffix('\\') {
            pending.push_str(part);
        } else {
            let command = format!("{pending}{line}");
            pending.clear();
            if !command.is_empty() && !command.starts_with('#') {
                commands.push(command);
            }
        }
    }
    commands
}

/// Every command the docs show, with its place: of the blocks, and of code in running text.
fn commands() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for page in pages() {
        let (blocks, prose) = blocks(&page);
        for block in &blocks {
            all.extend(command_lines(block).into_iter().map(|c| (block.place.clone(), c)));
        }
        let place = page.strip_prefix(root()).unwrap().display().to_string();
        all.extend(code_spans(&prose).into_iter().map(|c| (place.clone(), c)));
    }
    all
}

fn berth(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(args)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .current_dir(root())
        .output()
        .unwrap()
}

/// The words after `berth` up to the first shell operator; `None` when the command is another one.
fn arguments(command: &str) -> Option<Vec<&str>> {
    let mut words = command.split_whitespace().peekable();
    while words.peek().is_some_and(|w| w.contains('=') && !w.starts_with('-')) {
        words.next();
    }
    let first = words.next()?;
    if !matches!(first, "berth" | "target/debug/berth" | "target/release/berth") {
        return None;
    }
    let operator = |w: &&str| !matches!(*w, "|" | "&&" | "||" | ";" | "&" | ">" | ">>" | "2>");
    Some(words.take_while(operator).map(|w| w.trim_matches(['\'', '"'])).collect())
}

#[test]
fn every_berth_command_in_the_docs_is_understood() {
    let mut seen = 0;
    for (place, command) in commands() {
        let Some(mut args) = arguments(&command) else { continue };
        // `berth <room>` and the like speak about commands; they are none.
        if args.iter().any(|a| a.contains(['<', '…', '['])) {
            continue;
        }
        seen += 1;
        // With --help at the end everything before it is parsed and nothing is started.
        args.push("--help");
        let output = berth(&args);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{place}: `{command}` is not understood:\n{message}");
    }
    assert!(seen >= 8, "only {seen} commands found: is the docs' shape still understood?");
    assert_eq!(berth(&["run", "--no-such-flag", "--help"]).status.code(), Some(2), "the check must be able to fail");
}

#[test]
fn commands_that_need_no_cluster_do_what_the_docs_say() {
    for args in [vec!["crds", "--check"], vec!["rbac", "--check"], vec!["webhooks", "--check"], vec!["version"]] {
        let output = berth(&args);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "berth {}: {message}", args.join(" "));
    }
}

#[test]
fn the_flags_page_is_what_the_binary_prints() {
    let output = berth(&["run", "--help"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    let page = read(&root().join("book/src/reference/run-help.txt"));
    let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trimmed(&page), trimmed(&printed), "run hack/book reference");
}

#[test]
fn every_make_target_in_the_docs_exists() {
    let makefile = read(&root().join("Makefile"));
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter(|line| !line.starts_with(['\t', ' ', '#', '.']))
        .filter_map(|line| line.split_once(':'))
        .filter(|(_, rest)| !rest.starts_with('='))
        .flat_map(|(names, _)| names.split_whitespace())
        .collect();
    let mut seen = BTreeSet::new();
    for (place, command) in commands() {
        let mut words = command.split_whitespace();
        if words.next() != Some("make") {
            continue;
        }
        for target in words.filter(|w| !w.contains('=') && !w.starts_with('-') && !w.contains('<')) {
            assert!(targets.contains(target), "{place}: `make {target}` does not exist");
            seen.insert(target.to_owned());
        }
    }
    for needed in ["demo", "test", "help"] {
        assert!(seen.contains(needed), "the docs do not mention `make {needed}`");
    }
}

/// The anchor mdBook and code hosts make of a heading.
fn slug(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

fn headings(page: &Path, level: &str) -> Vec<String> {
    let (_, prose) = blocks(page);
    prose.lines().filter_map(|l| l.strip_prefix(level)?.strip_prefix(' ')).map(str::to_owned).collect()
}

/// The targets of `[text](target)` and `![text](target)`. What stands between backticks is no link, whatever it looks like.
fn links(prose: &str) -> Vec<String> {
    let told = prose.lines().map(|line| line.split('`').step_by(2).collect::<String>()).collect::<Vec<_>>().join("\n");
    told.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .map(|target| target.split_whitespace().next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn every_link_and_include_in_the_docs_resolves() {
    let book = root().join("book/src");
    let mut seen = 0;
    for page in pages() {
        let (_, prose) = blocks(&page);
        let place = page.strip_prefix(root()).unwrap().display();
        for link in links(&prose) {
            if link.starts_with("http://") || link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{place}: the link {link} leads nowhere");
            let inside = target.canonicalize().unwrap().starts_with(&book);
            assert!(inside || !page.starts_with(&book), "{place}: the link {link} leaves the book");
            if !anchor.is_empty() {
                let known = ["#", "##", "###"].iter().flat_map(|level| headings(&target, level));
                assert!(known.into_iter().any(|h| slug(&h) == anchor), "{place}: no heading for {link}");
            }
            seen += 1;
        }
        for include in read(&page).split("{{#include ").skip(1) {
            let path = include.split("}}").next().unwrap().split(':').next().unwrap();
            assert!(page.parent().unwrap().join(path).exists(), "{place}: {path} cannot be included");
        }
    }
    assert!(seen > 30, "only {seen} links found");
}

#[test]
fn every_page_of_the_book_is_in_its_summary() {
    let book = root().join("book/src");
    let summary = read(&book.join("SUMMARY.md"));
    let listed: BTreeSet<PathBuf> = links(&summary).into_iter().map(|l| book.join(l)).collect();
    let mut found = Vec::new();
    files_below(&book, "md", &mut found);
    for page in found.into_iter().filter(|p| !p.ends_with("SUMMARY.md")) {
        assert!(listed.contains(&page), "{} is not in SUMMARY.md", page.display());
    }
}

#[test]
fn every_reason_has_its_section_and_every_section_its_reason() {
    let book = root().join("book/src");
    let mut wanted = BTreeSet::new();
    for entry in api::reasons::all() {
        let (page, anchor) = entry.anchor.split_once('#').unwrap();
        assert_eq!(anchor, slug(entry.reason));
        assert!(
            headings(&book.join(page), "##").iter().any(|h| h == entry.reason),
            "{page} has no section `## {}`: {}",
            entry.reason,
            entry.meaning
        );
        wanted.insert((book.join(page), entry.reason.to_owned()));
    }
    let mut pages = Vec::new();
    files_below(&book.join("reasons"), "md", &mut pages);
    for page in pages.into_iter().filter(|p| !p.ends_with("index.md")) {
        for heading in headings(&page, "##") {
            let key = (page.clone(), heading);
            assert!(wanted.contains(&key), "{}: no reason {} in the code", key.0.display(), key.1);
        }
    }
}

#[test]
fn the_variables_in_the_docs_are_those_the_hook_defines() {
    let page = read(&root().join("book/src/reference/vip-variables.yaml"));
    assert_eq!(page, vip::topology::inline_yaml());
    let ours: Value = serde_saphyr::from_str(&page).unwrap();
    let class: Value = serde_saphyr::from_str(&read(&root().join("book/examples/vip/class-variable.yaml"))).unwrap();
    assert_eq!(class["spec"]["variables"][0], ours["variables"][0]);
}

#[test]
fn every_event_is_in_the_docs_and_every_event_in_the_docs_is_sent() {
    let (mut sources, mut sent) = (Vec::new(), BTreeSet::new());
    files_below(&root().join("crates/vip/src"), "rs", &mut sources);
    for source in sources {
        let source = read(&source);
        let words = source.split("\"VIP").skip(1).filter_map(|rest| rest.split('"').next());
        sent.extend(words.filter(|w| w.chars().all(|c| c.is_ascii_alphanumeric())).map(|w| format!("VIP{w}")));
    }
    let (_, prose) = blocks(&root().join("book/src/vip/operating.md"));
    let rows = prose.lines().filter_map(|line| line.strip_prefix("| `VIP")?.split('`').next());
    let told: BTreeSet<String> = rows.map(|name| format!("VIP{name}")).collect();
    assert_eq!(told, sent);
}

#[test]
fn the_events_and_metrics_of_claims_in_the_docs_are_those_of_the_code() {
    let (mut sources, mut code) = (Vec::new(), String::new());
    files_below(&root().join("crates/claims/src"), "rs", &mut sources);
    for source in sources {
        code.push_str(&read(&source));
    }
    let (_, prose) = blocks(&root().join("book/src/claims/operating.md"));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let events: Vec<String> = prose
        .lines()
        .map(cells)
        .filter(|cells| cells.len() > 3 && ["Normal", "Warning"].contains(&cells[2].as_str()))
        .map(|cells| cells[1].trim_matches('`').to_owned())
        .collect();
    assert!(events.len() > 10, "only {events:?} found");
    for event in &events {
        let sent = code.contains(&format!("\"{event}\"")) || code.contains(&format!("Reason::{event}.as_str()"));
        assert!(sent, "the event {event} is never sent");
    }
    let rows = prose.lines().filter_map(|line| line.strip_prefix("| `berth_")?.split('`').next());
    let told: BTreeSet<&str> = rows.map(|name| name.strip_suffix("_total").unwrap_or(name)).collect();
    let metrics = read(&root().join("crates/claims/src/metrics.rs"));
    let counted = metrics.split("\"claims_").skip(1).filter_map(|rest| rest.split('"').next());
    let counted: BTreeSet<String> = counted.map(|name| format!("claims_{name}")).collect();
    assert_eq!(told, counted.iter().map(String::as_str).collect());
}

#[test]
fn the_rights_in_aws_in_the_docs_are_those_of_the_policy() {
    let (_, prose) = blocks(&root().join("book/src/hosts/operating.md"));
    let table = prose.split("Actions of `ec2:`").nth(1).unwrap().split("\n\n").next().unwrap();
    let told: BTreeSet<String> = code_spans(table).into_iter().map(|action| format!("ec2:{action}")).collect();
    let wanted: BTreeSet<String> = hosts::iam::actions().into_iter().map(str::to_owned).collect();
    assert_eq!(told, wanted);
}

#[test]
fn the_demo_in_the_docs_claims_what_the_demo_claims() {
    // Each room tells its part in a file of its own, at the place where the demo calls it.
    let demo = read(&root().join("crates/sandbox/src/demo.rs"));
    let mut parts = demo.split("crate::").map(str::to_owned);
    let mut source = parts.next().unwrap_or_default();
    for part in parts {
        if let Some((room, _)) = part.split_once("::tell(").filter(|(room, _)| !room.contains(char::is_whitespace)) {
            source.push_str(&read(&root().join(format!("crates/sandbox/src/{room}.rs"))));
        }
        source.push_str(&part);
    }
    let told: Vec<&str> = source.split(".tell(\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(told.len() > 5, "the demo's claims were not found in its source");
    for page in ["README.md", "book/src/reference/demo.txt"] {
        let text = read(&root().join(page));
        let shown: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("  ok "))
            .map(|line| line.rsplit_once(" (").map_or(line, |(claim, _)| claim))
            .collect();
        assert_eq!(shown, told, "{page} shows another demo: run make demo and paste what it prints");
    }
}

#[test]
fn the_documented_build_is_the_one_of_the_image() {
    let dockerfile = read(&root().join("Dockerfile"));
    let operating = read(&root().join("book/src/operating.md"));
    let line = |text: &str, holds: &str| {
        let found = text.lines().find(|l| l.contains(holds)).unwrap_or_else(|| panic!("no line with {holds}"));
        found.trim().trim_end_matches('\\').trim().to_owned()
    };
    let build = line(&dockerfile, "cargo build");
    assert_eq!(build.strip_prefix("RUN ").unwrap(), line(&operating, "cargo build"));
    let flags = line(&dockerfile, "ENV RUSTFLAGS=");
    assert_eq!(flags.strip_prefix("ENV ").unwrap(), line(&operating, "RUSTFLAGS=").strip_prefix("export ").unwrap());
}

/// The manifests shown in the docs, with their places.
fn manifests() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for page in pages() {
        for block in blocks(&page).0.into_iter().filter(|b| b.language == "yaml") {
            let documents: Vec<Value> = serde_saphyr::from_multiple(&block.lines.join("\n"))
                .unwrap_or_else(|e| panic!("{}: not YAML: {e}", block.place));
            all.extend(documents.into_iter().filter(|d| !d.is_null()).map(|d| (block.place.clone(), d)));
        }
    }
    all
}

/// Everything the manifests of the docs are about: Berth's kinds, Cluster API, the IPAM provider and the providers of the
/// sandbox, with the real managers, whose webhooks judge too.
struct World {
    client: kube::Client,
    _managers: [plane::Manager; 2],
    _plane: plane::Plane,
}

impl World {
    async fn start() -> Self {
        let plane = plane::Plane::start().unwrap();
        let client = plane.client().await.unwrap();
        let mut definitions = sim::dock::kinds::definitions();
        definitions.extend(sim::metal::kinds::definitions());
        definitions.extend(plane::aws_network_definitions());
        for entry in std::fs::read_dir(root().join("chart/files/crds")).unwrap() {
            definitions.push(serde_saphyr::from_str(&read(&entry.unwrap().path())).unwrap());
        }
        plane::install_crds(&client, definitions).await.unwrap();
        let managers = [plane::capi(&plane).await.unwrap(), plane::ipam(&plane).await.unwrap()];
        Self { client, _managers: managers, _plane: plane }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_manifest_in_the_docs_is_accepted_by_the_server() {
    let shown = manifests();
    for (place, object) in &shown {
        for field in ["apiVersion", "kind"] {
            assert!(object[field].is_string(), "{place}: a manifest without {field}");
        }
    }
    if plane::for_test("every_manifest_in_the_docs_is_accepted_by_the_server").is_none() {
        return;
    }
    let world = World::start().await;
    let mut seen = BTreeSet::new();
    for (place, object) in shown {
        let version = object["apiVersion"].as_str().unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        // What programs other than the server read: kustomize, and operators that are not installed here.
        if ["kustomize.config.k8s.io", "turtles-capi.cattle.io", "machine.openshift.io"].contains(&group) {
            continue;
        }
        let kind = object["kind"].as_str().unwrap();
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities) =
            pinned_kind(&world.client, &gvk).await.unwrap_or_else(|e| panic!("{place}: {kind}: {e}"));
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(world.client.clone(), &resource),
            Scope::Namespaced => {
                let namespace = object["metadata"]["namespace"].as_str();
                let namespace = namespace.unwrap_or_else(|| panic!("{place}: {kind} without a namespace"));
                let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                plane::apply(&world.client, &place).await.unwrap();
                Api::namespaced_with(world.client.clone(), namespace, &resource)
            }
        };
        let params = PatchParams::apply("docs-test").dry_run().validation_strict();
        let name = object["metadata"]["name"].as_str().unwrap();
        api.patch(name, &params, &Patch::Apply(&object)).await.unwrap_or_else(|e| panic!("{place}: refused: {e}"));
        seen.insert(kind.to_owned());
    }
    let claims = ["BareMetalHost", "HostDeployPolicy", "HostClaim", "HostClaimQuota"];
    let hosts = ["AWSMachineTemplate", "AWSCluster", "AWSClusterControllerIdentity", "MachineDeployment"];
    for kind in ["HostClaimKind", "GlobalInClusterIPPool", "InClusterIPPool", "Cluster", "ClusterClass"]
        .iter()
        .chain(&claims)
        .chain(&hosts)
    {
        assert!(seen.contains(*kind), "the docs show no {kind}");
    }
}
