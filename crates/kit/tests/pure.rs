//! The thinking files of every room only think.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::{Path, PathBuf};

/// Words that touch the world, or make equal input give unequal output.
const TOUCHING: [&str; 10] =
    ["async ", ".await", "Client", "now()", "rand", "HashMap", "HashSet", "tracing::", "tokio::", "std::env"];

const THINKING: [&str; 4] = ["decide", "guard", "status", "admit"];

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The thinking files: `decide.rs`, or everything in a folder `decide/`, of each crate that is a room.
fn thinking_files() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut rooms = Vec::new();
    for entry in std::fs::read_dir(crates).unwrap().flatten() {
        let src = entry.path().join("src");
        if src.join("decide.rs").exists() || src.join("decide").is_dir() {
            for name in THINKING {
                let file = src.join(format!("{name}.rs"));
                if file.exists() {
                    rooms.push(file);
                }
                rust_files(&src.join(name), &mut rooms);
            }
        }
    }
    rooms
}

/// Code before the test module, without comments.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn thinking_files_never_touch_the_world() {
    let files = thinking_files();
    assert!(files.len() >= THINKING.len(), "no room found: {files:?}");
    let mut found = Vec::new();
    for file in files {
        let code = code(&std::fs::read_to_string(&file).unwrap());
        for word in TOUCHING.iter().filter(|word| code.contains(**word)) {
            found.push(format!("{} holds `{word}`", file.display()));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_room_has_the_same_files() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for entry in std::fs::read_dir(crates).unwrap().flatten() {
        let src = entry.path().join("src");
        if !src.join("decide.rs").exists() && !src.join("decide").is_dir() {
            continue;
        }
        let there = |name: &str| src.join(format!("{name}.rs")).exists() || src.join(name).is_dir();
        for name in ["lib", "observe", "decide", "guard", "apply", "status", "rights"] {
            assert!(there(name), "{} has no {name}.rs", entry.path().display());
        }
        // A room without kinds of its own has nothing to admit; one that admits does it in the file of that name.
        let admits = |file: &Path| code(&std::fs::read_to_string(file).unwrap()).contains("kit::admission");
        let files = std::fs::read_dir(&src).unwrap().flatten().map(|file| file.path());
        if files.filter(|file| file.extension().is_some_and(|e| e == "rs")).any(|file| admits(&file)) {
            assert!(there("admit"), "{} has no admit.rs", entry.path().display());
        }
    }
}
