//! The docs tell the truth: their commands parse, their links resolve, their manifests are accepted, and their reasons
//! and flags are the code's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

mod shared;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};
use shared::{Beside, Shared};
use sim::plane::{self, PlaneError};
use sim::wait::within;

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
    plane: plane::Plane,
    _managers: [plane::Manager; 2],
}

impl Shared for World {
    fn cell() -> &'static OnceLock<Result<Self, PlaneError>> {
        static WORLD: OnceLock<Result<World, PlaneError>> = OnceLock::new();
        &WORLD
    }

    async fn start() -> Result<Self, PlaneError> {
        let options = plane::Options { audit_log: Some("audit.log".into()), ..plane::Options::default() };
        let plane = plane::Plane::start_with(options)?;
        let client = plane.client().await?;
        let mut definitions = sim::dock::kinds::definitions();
        definitions.extend(sim::metal::kinds::definitions());
        definitions.extend(plane::aws_network_definitions());
        for entry in std::fs::read_dir(root().join("chart/files/crds")).unwrap() {
            definitions.push(serde_saphyr::from_str(&read(&entry.unwrap().path())).unwrap());
        }
        plane::install_crds(&client, definitions).await?;
        let managers = [plane::capi(&plane).await?, plane::ipam(&plane).await?];
        Ok(Self { client, plane, _managers: managers })
    }
}

#[test]
fn every_manifest_in_the_docs_is_accepted_by_the_server() {
    let shown = manifests();
    for (place, object) in &shown {
        for field in ["apiVersion", "kind"] {
            assert!(object[field].is_string(), "{place}: a manifest without {field}");
        }
    }
    let test = "every_manifest_in_the_docs_is_accepted_by_the_server";
    shared::run::<World>(test, &Beside::Others, async |world| Box::pin(accepted(world, shown)).await);
}

/// Tries every manifest that the server is there for, and expects some of each kind.
async fn accepted(world: &World, shown: Vec<(String, Value)>) {
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

/// How long anything may take that should happen at once.
const SOON: Duration = Duration::from_secs(90);
/// Who looks at the fleet.
const LOOKER: &str = "berth-looker";
/// What the view is asked to show beside what it shows anyway.
const ALL: [&str; 5] =
    ["--capacity-metal3", "--use-cluster-identity", "--watch-machine-pools", "--capacity-cloudstack", "--interval=1s"];

/// The rules of a role for people, as they are installed.
fn role(name: &str) -> Value {
    let objects: Vec<Value> = serde_saphyr::from_multiple(&read(&root().join("deploy/berth.yaml"))).unwrap();
    let found = objects.into_iter().find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not rendered"))["rules"].clone()
}

#[test]
fn the_web_view_shows_a_live_cluster_with_its_role_and_is_refused_nothing() {
    let test = "the_web_view_shows_a_live_cluster_with_its_role_and_is_refused_nothing";
    shared::run::<World>(test, &Beside::Others, async |world| Box::pin(watched(world)).await);
}

/// Serves the objects of the book's own examples to somebody who has nothing but the role.
async fn watched(world: &World) {
    for namespace in ["view-team", "view-metal"] {
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        plane::apply(&world.client, &space).await.unwrap();
    }
    let apply = async |file: &str| {
        // Beside what other tests try with the same names.
        let text = read(&root().join("book/examples").join(file)).replace("team-a", "view-team");
        let text = text.replace("namespace: metal", "namespace: view-metal").replace("cp-vips", "view-vips");
        for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            plane::apply(&world.client, &object).await.unwrap_or_else(|e| panic!("{file}: {e}"));
        }
    };
    let (machines, hosts) = (["cluster", "template", "machines"], ["host", "policy"]);
    let machines = machines.map(|name| format!("hosts/{name}.yaml"));
    let hosts = hosts.map(|name| format!("claims/{name}.yaml"));
    for file in machines.iter().chain(&hosts) {
        apply(file).await;
    }
    apply("vip/pool.yaml").await;
    let rules = role("berth-ui");
    for rule in rules.as_array().unwrap() {
        assert_eq!(rule["verbs"], json!(["get", "list"]), "{rule}");
        assert!(!rule.to_string().contains("secrets"), "{rule}");
    }
    let account = plane::account(&world.plane, LOOKER, &rules, &json!([])).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("kubeconfig");
    std::fs::write(&config, account.to_string()).unwrap();

    let mark = world.plane.audit_mark().unwrap();
    let port = plane::free_port().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["ui", "--listen", &port.to_string()]).args(ALL).arg("--kubeconfig").arg(&config);
    let mut view = plane::Process::start("berth ui", command, &dir.path().join("log"), None).unwrap();
    plane::wait_http(&mut view, port, "/", SOON).await.unwrap();
    let shows = async |what: &str, found: &dyn Fn(&Value) -> bool| -> Value {
        let looked = within(SOON, what, async || {
            let (status, body) = plane::http_get(port, "/api/v1/fleet").await.ok()?;
            let fleet: Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
            found(&fleet).then_some(fleet)
        });
        looked.await
    };
    let named = |fleet: &Value, list: &str, name: &str| {
        let all = fleet[list].as_array().into_iter().flatten();
        all.into_iter().any(|item| item["name"] == name || item["object"]["name"] == name)
    };
    let whole = |fleet: &Value| {
        let wanted = [("trees", "prod"), ("hosts", "rack1-node1"), ("pools", "view-vips"), ("groups", "licensed")];
        wanted.into_iter().all(|(list, name)| named(fleet, list, name))
    };
    let fleet = shows("the fleet of the examples", &whole).await;
    assert_eq!((&fleet["apiVersion"], &fleet["kind"]), (&json!("cli.berth.dev/v1"), &json!("Fleet")));
    assert_eq!(fleet["unseen"], json!([]), "everything may be seen");

    // What comes while somebody looks is there a moment later.
    assert!(!named(&fleet, "trees", "web-1"));
    apply("claims/reserve.yaml").await;
    shows("the new claim", &|fleet| named(fleet, "trees", "web-1")).await;
    view.stop();

    let asked = world.plane.requests_since(mark).unwrap();
    let asked: Vec<_> = asked.into_iter().filter(|request| request.user.ends_with(LOOKER)).collect();
    assert!(asked.iter().any(|r| r.resource == "clusters") && asked.len() > 20, "{} requests", asked.len());
    let refused: Vec<_> = asked.iter().filter(|request| request.is_refused()).collect();
    assert!(refused.is_empty(), "the role lacks: {refused:#?}");
    let wrote: Vec<_> = asked.iter().filter(|request| request.writes()).collect();
    assert!(wrote.is_empty(), "it can only be looked at: {wrote:#?}");
}
