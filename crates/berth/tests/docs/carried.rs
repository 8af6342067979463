//! Shell commands of the docs, carried out as they stand: in a shell that has no programs but those named here, on a server
//! that has the kinds and none of the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use kube::discovery::Discovery;

use crate::pages::{Block, blocks, code_spans, is_values, pages, root};
use crate::served::World;
use crate::shared::{self, Beside};
use crate::shell::{self, Shell};

/// Programs that pages name and nobody tries here, and why.
const UNTRIED: [(&str, &str); 6] = [
    ("aws", "an account would be needed"),
    ("cargo", "the build of the image is compared with that of the page"),
    ("clusterctl", "it is not built here, and fetches what it installs"),
    ("cmk", "it removes a machine of a real CloudStack"),
    ("make", "the targets are compared with those of the Makefile"),
    ("man", "not every machine has it"),
];

/// The parts of the project that pages name.
const OURS: [&str; 3] = ["book", "chart", "deploy"];
/// The verbs of kubectl after which the word for kinds stands.
const VERBS: [&str; 8] = ["annotate", "delete", "describe", "explain", "get", "label", "patch", "scale"];

/// The commands of berth that need no word more.
const LISTS: [&str; 6] = ["capacity", "claims", "clusters", "doctor", "hosts", "vips"];

/// What takes values.
const INSTALL: &str = "helm install berth chart --namespace berth-system";

/// The file that the text before a manifest tells to write it to.
fn file(block: &Block) -> Option<PathBuf> {
    let last = block.before.trim_end().rsplit("\n\n").next()?;
    let name = code_spans(last).into_iter().rfind(|name| name.ends_with(".yaml"))?;
    let Some(Component::Normal(first)) = Path::new(&name).components().next() else { return None };
    (!OURS.iter().any(|ours| first == *ours)).then(|| PathBuf::from(name))
}

/// What stands beside a reader: the chart, the book, the manifests, the program as it is built, and files of the pages.
fn desk(dir: &Path, berth: &Path, blocks: &[Block]) {
    for name in OURS {
        symlink(root().join(name), dir.join(name)).unwrap();
    }
    for place in ["target/debug", "target/sandbox"] {
        std::fs::create_dir_all(dir.join(place)).unwrap();
    }
    symlink(berth, dir.join("target/debug/berth")).unwrap();
    std::fs::write(dir.join("target/sandbox/env"), "").unwrap();
    for (file, block) in blocks.iter().filter(|b| b.language == "yaml").filter_map(|b| Some((file(b)?, b))) {
        let path = dir.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, block.lines.join("\n")).unwrap();
    }
}

/// What a span of code in running text is carried out as; what only mentions a command is not asked of a server.
fn mentioned(span: &str) -> Option<String> {
    let words: Vec<&str> = span.split_whitespace().collect();
    let looks = |word: &&str| ["describe", "explain", "get"].contains(word);
    // The cluster of another kubeconfig is not here.
    let whole = words.iter().rev().skip(1).any(looks) && !words.contains(&"--kubeconfig");
    match words.first() {
        _ if words.len() < 2 || span.contains(['…', '<']) => None,
        Some(&"kubectl") if whole => Some(span.to_owned()),
        Some(&"kubectl" | &"helm") => Some(format!("{span} --help")),
        Some(&"berth") if LISTS.contains(&words[1]) || words.get(2).is_some_and(|word| word.contains('/')) => {
            Some(span.to_owned())
        }
        _ => None,
    }
}

/// The words for kinds in a command of kubectl that leave the group open.
fn kinds(command: &str) -> Vec<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let Some(begin) = words.iter().position(|word| *word == "kubectl") else { return Vec::new() };
    let Some(verb) = words.iter().skip(begin).position(|word| VERBS.contains(word)) else { return Vec::new() };
    let (verb, Some(word)) = (words[begin + verb], words.get(begin + verb + 1)) else { return Vec::new() };
    if word.starts_with('-') {
        return Vec::new();
    }
    let of = |word: &str| {
        let word = word.split('/').next().unwrap_or_default();
        let bare = if verb == "explain" { word.split('.').next().unwrap_or_default() } else { word };
        (!bare.contains('.')).then(|| bare.to_owned())
    };
    word.split(',').filter_map(of).collect()
}

/// The groups behind every word for a kind.
async fn groups(client: &kube::Client) -> BTreeMap<String, BTreeSet<String>> {
    let served = Discovery::new(client.clone()).run().await.unwrap();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for group in served.groups() {
        for (resource, _) in group.recommended_resources() {
            for word in [resource.plural.clone(), resource.kind.to_lowercase()] {
                found.entry(word).or_default().insert(group.name().to_owned());
            }
        }
    }
    found
}

#[test]
fn every_shell_command_in_the_docs_is_carried_out() {
    let test = "every_shell_command_in_the_docs_is_carried_out";
    let (Some(kubectl), Some(helm)) = (shell::kubectl(test), shell::helm(test)) else { return };
    shared::run::<World>(test, &Beside::Others, async |world| Box::pin(carried_out(world, &kubectl, &helm)).await);
}

async fn carried_out(world: &World, kubectl: &Path, helm: &Path) {
    let all: Vec<(Vec<Block>, String)> = pages().iter().map(|page| blocks(page)).collect();
    let (programs, desk_dir) = (root().join("crates/berth/tests/docs/bin"), tempfile::tempdir().unwrap());
    let shown: Vec<Block> = all.iter().flat_map(|(blocks, _)| blocks).cloned().collect();
    desk(desk_dir.path(), &programs.join("berth"), &shown);
    let mut shell = Shell::new(desk_dir.path(), &world.plane.kubeconfig_path())
        .variable("MACHINE_PATH", std::env::var_os("PATH").unwrap_or_default())
        .variable("BERTH_CLOUDSTACK_ENDPOINT", "http://127.0.0.1:8080/client/api")
        .variable("BERTH_CLOUDSTACK_API_KEY", "public")
        .variable("BERTH_CLOUDSTACK_SECRET_KEY", "secret");
    for (name, program) in [("kubectl", kubectl), ("helm", helm), ("berth", Path::new(env!("CARGO_BIN_EXE_berth")))] {
        shell = shell.with(name, &programs.join(name)).variable(&name.to_uppercase(), program);
    }
    for (name, _) in UNTRIED {
        let used =
            shown.iter().flat_map(Block::commands).any(|command| command.split_whitespace().next() == Some(name));
        assert!(used, "no page calls {name} any more");
        shell = shell.without(name);
    }
    for place in [".local/bin", ".local/share/bash-completion/completions"] {
        std::fs::create_dir_all(shell.home().join(place)).unwrap();
    }

    let groups = groups(&world.client).await;
    let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
    let mut carry_out = |place: &str, script: &str| {
        if !seen.insert(script.to_owned()) {
            return;
        }
        let output = tokio::task::block_in_place(|| shell.run(script));
        if !output.status.success() {
            wrong.push(format!("{place}: {script}\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        // Of a word that several groups have kubectl means the core's, where that has one.
        for word in script.split(['\n', '|']).flat_map(kinds) {
            if let Some(several) = groups.get(&word).filter(|groups| groups.len() > 1 && !groups.contains("")) {
                wrong.push(format!("{place}: which {word}? There are those of {several:?}"));
            }
        }
    };
    for (page, (blocks, prose)) in pages().iter().zip(&all) {
        for block in blocks {
            match block.language.as_str() {
                "sh" => carry_out(&block.place, &block.lines.join("\n")),
                "console" => carry_out(&block.place, &block.commands().join("\n")),
                "yaml" if serde_saphyr::from_str(&block.lines.join("\n")).is_ok_and(|found| is_values(&found)) => {
                    let values = desk_dir.path().join("values.yaml");
                    std::fs::write(values, block.lines.join("\n")).unwrap();
                    let install = format!("{INSTALL} --values values.yaml # of {}", block.place);
                    carry_out(&block.place, &install);
                }
                _ => {}
            }
        }
        let place = page.strip_prefix(root()).unwrap().display().to_string();
        let spans: BTreeSet<String> = code_spans(prose).iter().filter_map(|span| mentioned(span)).collect();
        for span in spans {
            carry_out(&place, &span);
        }
    }
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), seen.len(), wrong.join("\n"));
    assert!(seen.len() > 100, "only {} found: is the docs' shape still understood?", seen.len());

    // Each of the programs can fail.
    for script in [
        "kubectl get hostclaims --no-such-flag",
        "kubectl get castles",
        "kubectl --namespace team-a get hostclaim web-1 --output jsonpath='{.spec'",
        "kubectl get hostclaims --all-namespaces --output jsonpath='{.items[0'",
        "kubectl --namespace team-a patch hostclaim web-1 --patch '{'",
        "echo 'kind: HostClaim' | kubectl apply -f -",
        "helm install berth chart --namespace berth-system --set replica=2",
        "helm install berth chart --namespace berth-system --no-such-flag",
        "helm upgrade berth nowhere --namespace berth-system --reuse-values",
        "berth hosts --no-such-flag",
        "berth hosts --all-namespaces --by castle",
        "berth explain castle/web-1 --namespace team-a",
        "berth doctor --context nowhere",
        "berth plan -f book/examples/clusters/upgrade.yaml --no-such-flag",
        "flux version",
    ] {
        assert!(!tokio::task::block_in_place(|| shell.run(script)).status.success(), "{script} must fail");
    }
}

#[test]
fn words_for_kinds_and_files_are_found() {
    let found = |command: &str| kinds(command).join(" ");
    assert_eq!(found("kubectl --namespace team-a get cluster prod -o wide"), "cluster");
    assert_eq!(found("kubectl get eksac,csdc,machines.cluster.x-k8s.io"), "eksac csdc");
    assert_eq!(found("kubectl explain awsmachine.spec"), "awsmachine");
    assert_eq!(found("sed s/a/b/ x.yaml"), "");
    assert_eq!(found("kubectl apply -f -"), "");
    let asked = |span: &str| mentioned(span).unwrap_or_default();
    for whole in ["kubectl get berth -A", "berth hosts --aws", "berth tree cluster/prod -n team-a"] {
        assert_eq!(asked(whole), whole);
    }
    assert_eq!(asked("helm uninstall"), "helm uninstall --help");
    assert_eq!(asked("berth explain"), "");
    assert_eq!(asked("berth tree cluster/<name>"), "");
    let block = |before: &str| Block {
        place: String::new(),
        section: String::new(),
        before: before.to_owned(),
        language: "yaml".to_owned(),
        lines: Vec::new(),
    };
    assert_eq!(file(&block("See `other.yaml`.\n\nWrite this to `fake.yaml`:\n\n")), Some("fake.yaml".into()));
    assert_eq!(
        file(&block("here `overlay/kustomization.yaml` beside `deploy/`:\n")),
        Some("overlay/kustomization.yaml".into())
    );
    assert_eq!(file(&block("Nothing is changed in `deploy/berth.yaml`:\n")), None);
    assert_eq!(file(&block("See `other.yaml`.\n\nThe cluster:\n")), None);
}
