//! Commands of the docs: they are understood, and do what the docs say.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use crate::pages::{blocks, code_spans, files_below, pages, read, root};

/// Every command the docs show, with its place: of the blocks, and of code in running text.
fn commands() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for page in pages() {
        let (blocks, prose) = blocks(&page);
        for block in &blocks {
            all.extend(block.commands().into_iter().map(|c| (block.place.clone(), c)));
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
fn what_the_docs_show_under_a_command_is_what_it_prints() {
    let mut snapshots = Vec::new();
    files_below(&root().join("crates/berth/src"), "snap", &mut snapshots);
    let printed: Vec<String> = snapshots.iter().map(|path| read(path)).collect();
    let mut seen = 0;
    for page in pages() {
        let (blocks, _) = blocks(&page);
        for pair in blocks.windows(2) {
            let [command, screen] = pair else { continue };
            let follows = command.language == "console" && screen.language == "text" && screen.before.trim().is_empty();
            // What is included from a file is compared where the file is made.
            let page = read(&page);
            let lines: Vec<&str> = page.lines().collect();
            let number: usize = screen.place.rsplit(':').next().unwrap().parse().unwrap();
            if !follows || lines[number].starts_with("{{#include ") {
                continue;
            }
            let shown = screen.lines.join("\n");
            assert!(printed.iter().any(|text| text.contains(&shown)), "{}: no snapshot shows this", screen.place);
            seen += 1;
        }
    }
    assert!(seen >= 2, "only {seen} screens found");
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
