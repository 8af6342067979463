//! The kinds of documents that commands print are those that their page lists.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::pages::{blocks, code_spans, files_below, read, root};

/// The name of a kind of documents that stands at the beginning of a text, in quotes.
fn literal(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('"')?.split_once('"')?;
    let kind = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(|c| c.is_ascii_alphabetic());
    kind.then_some(name)
}

/// The kinds that are passed to what prints documents: the first or second argument, or a constant of the file.
fn printed(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = BTreeSet::new();
    for call in ["rendered(", "print(", ".render("] {
        for (at, _) in code.match_indices(call) {
            let longer = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') && !call.starts_with('.');
            // A function of another name, and the definition itself.
            if longer || code[..at].ends_with("fn ") {
                continue;
            }
            let arguments = code[at + call.len()..].splitn(3, ',').take(2).map(str::trim_start);
            for argument in arguments {
                let constant = format!("const {argument}: &str = ");
                let value = code.split_once(&constant).map(|(_, rest)| rest);
                found.extend(literal(value.unwrap_or(argument)).map(str::to_owned));
            }
        }
    }
    found
}

#[test]
fn the_kinds_of_documents_on_the_page_are_those_that_commands_print() {
    let (mut sources, mut kinds): (Vec<PathBuf>, _) = (Vec::new(), BTreeSet::new());
    files_below(&root().join("crates/berth/src"), "rs", &mut sources);
    sources.retain(|path| !path.iter().any(|part| part == "tests" || part == "tests.rs"));
    for source in &sources {
        kinds.extend(printed(&read(source)));
    }
    assert!(kinds.len() > 10, "only {kinds:?} found in the code");
    let (_, prose) = blocks(&root().join("book/src/cli.md"));
    let table = prose.split("| Kind | Printed by |").nth(1).unwrap().split("\n\n").next().unwrap();
    let first = table.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|row| row.split_once(" |"));
    let told: BTreeSet<String> = first.flat_map(|(cell, _)| code_spans(&format!("`{cell}"))).collect();
    assert_eq!(told, kinds);
}

#[test]
fn what_is_passed_on_is_found_however_it_is_passed() {
    let source = r#"
        const KIND: &str = "Fleet";
        print(Output::Json, KIND, &fleet, |_| String::new())?;
        rows.render("HostList", &items, &document, draw)
        rendered(
            output,
            "Tree",
            root,
        )
        println!("No");
        footprint(a, "Never");
        fn print(output: Output, kind: X) {}
        #[cfg(test)]
        print(a, "Tested")"#;
    assert_eq!(printed(source), ["Fleet", "HostList", "Tree"].map(str::to_owned).into_iter().collect());
}
