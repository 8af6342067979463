//! The thinking files of every room only think.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::{Path, PathBuf};

/// Words that touch the world, or make equal input give unequal output.
const TOUCHING: [&str; 8] = ["async ", ".await", "Client", "now()", "rand", "tracing::", "tokio::", "std::env"];

/// A file of one of these names, or below a folder of one, only thinks, wherever it is in a room.
const THINKING: [&str; 13] = [
    "decide", "guard", "status", "admit", "survey", "goal", "pools", "words", "topology", "yard", "find", "mode",
    "render",
];

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

/// The thinking files of each crate that is a room: those that decide have a `decide.rs` or a folder `decide/`, for the whole
/// crate or in each of its parts.
fn thinking_files(crates: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(crates).unwrap().flatten() {
        let src = entry.path().join("src");
        let mut files = Vec::new();
        rust_files(&src, &mut files);
        let decides = |file: &PathBuf| file.with_extension("").iter().any(|name| name == "decide");
        if !files.iter().any(decides) {
            continue;
        }
        let thinks = |file: &PathBuf| {
            let inside = file.strip_prefix(&src).unwrap().with_extension("");
            let names: Vec<&str> = inside.iter().map(|name| name.to_str().unwrap()).collect();
            let tests = names.iter().any(|name| *name == "tests" || name.ends_with("_tests"));
            names.iter().any(|name| THINKING.contains(name)) && !tests
        };
        all.extend(files.into_iter().filter(thinks));
    }
    all.sort();
    all
}

/// Code before the test module, without comments.
fn code(text: &str) -> String {
    let code = text.split("\nmod tests").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Hash maps and sets whose order, which differs from process to process, can reach the outcome: to look something up in
/// one is fine, to walk through it is not.
fn walked(code: &str) -> Vec<String> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let declared = |line: &str| {
        let before = line.split_once(": HashMap<").or_else(|| line.split_once(": HashSet<"))?.0;
        before.rsplit(|c| !word(c)).next().filter(|name| !name.is_empty()).map(str::to_owned)
    };
    let dense: String = code.split_whitespace().collect::<Vec<_>>().join(" ").replace(" .", ".");
    let walks = |name: &String| {
        let methods = ["iter()", "iter_mut()", "keys()", "values()", "values_mut()", "into_iter()", "drain()"];
        let loops = ["in ", "in &", "in &mut "].map(|walk| format!("{walk}{name} {{"));
        let fields = ["in self.", "in &self.", "in &mut self."].map(|walk| format!("{walk}{name} {{"));
        let called = methods.iter().any(|method| dense.contains(&format!("{name}.{method}")));
        called || loops.iter().chain(&fields).any(|walk| dense.contains(walk.as_str()))
    };
    code.lines().filter_map(declared).filter(walks).collect()
}

/// Where thinking files touch the world.
fn touches(crates: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for file in thinking_files(crates) {
        let code = code(&std::fs::read_to_string(&file).unwrap());
        for word in TOUCHING.iter().filter(|word| code.contains(**word)) {
            found.push(format!("{} holds `{word}`", file.strip_prefix(crates).unwrap().display()));
        }
        for map in walked(&code) {
            found.push(format!("{} walks through `{map}`", file.strip_prefix(crates).unwrap().display()));
        }
    }
    found
}

#[test]
fn thinking_files_never_touch_the_world() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let files = thinking_files(crates);
    for known in
        ["claim-kind/src/decide.rs", "vip/src/keeper/guard.rs", "vip/src/survey.rs", "vip/src/topology/walk.rs"]
    {
        assert!(files.contains(&crates.join(known)), "{known} is not among {files:?}");
    }
    let found = touches(crates);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_thinking_file_that_touches_the_world_is_found_wherever_it_is() {
    let crates = tempfile::tempdir().unwrap();
    let plant = |file: &str, text: &str| {
        let path = crates.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    plant(
        "room/src/decide.rs",
        "pub fn decide() {}\n// it may say .await here\n#[cfg(test)]\nmod tests { /* tokio:: */ }\n",
    );
    plant("room/src/observe.rs", "async fn observe() { read().await }\n");
    plant("room/src/yard/tests.rs", "fn t(m: HashMap<u8, u8>) { m.iter() }\n");
    plant("room/src/yard/mod.rs", "struct Yard { known: HashMap<u8, u8> }\nfn see(y: &Yard) { y.known.get(&1); }\n");
    plant("kit/src/guard.rs", "async fn guard() {}\n");
    assert_eq!(touches(crates.path()), [""; 0]);
    plant("room/src/keeper/decide.rs", "pub fn decide() { read().await }\n");
    plant(
        "room/src/yard/book.rs",
        "#[cfg(test)]\nmod sample;\nstruct Book { all: HashSet<u8> }\nfn see(b: &Book) { b\n.all\n.iter(); }\n",
    );
    plant("room/src/survey.rs", "fn see(all: HashMap<u8, u8>) { for (a, b) in &all {} }\n");
    let found = touches(crates.path());
    let wanted = [
        "room/src/keeper/decide.rs holds `.await`",
        "room/src/survey.rs walks through `all`",
        "room/src/yard/book.rs walks through `all`",
    ];
    assert_eq!(found, wanted);
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
