//! The book: its links resolve, and its reasons, events, metrics and rights are the code's.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use crate::pages::{blocks, code_spans, files_below, headings, links, pages, read, root, slug};

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
    let mut sources = vec![root().join("crates/claims/src/metrics.rs")];
    files_below(&root().join("crates/claims/src/metrics"), "rs", &mut sources);
    let metrics: String = sources.iter().map(|source| read(source)).collect();
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
