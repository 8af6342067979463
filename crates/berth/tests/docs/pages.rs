//! What stands on the pages.

use std::path::{Path, PathBuf};

use serde_json::Value;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("reading {}: {e}", path.display()))
}

/// Every file below a directory whose name has this extension.
pub fn files_below(dir: &Path, extension: &str, found: &mut Vec<PathBuf>) {
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
pub fn pages() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].iter().map(|name| root().join(name)).collect();
    files_below(&root().join("book/src"), "md", &mut found);
    found.sort();
    assert!(found.len() > 20, "only {} pages found", found.len());
    found
}

#[derive(Clone)]
pub struct Block {
    pub place: String,
    /// The heading that it stands under, with its marks.
    #[allow(dead_code, reason = "whoever walks a page asks for it")]
    pub section: String,
    /// What was said since the block before.
    pub before: String,
    pub language: String,
    pub lines: Vec<String>,
}

impl Block {
    /// The command lines of a shell block: all of them, or in a console block those after the prompt.
    pub fn commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        let mut pending = String::new();
        for line in &self.lines {
            let line = match self.language.as_str() {
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
}

/// Whether a manifest-like document is values for the chart: all its keys are the chart's.
pub fn is_values(document: &Value) -> bool {
    let chart: Value = serde_saphyr::from_str(&read(&root().join("chart/values.yaml"))).unwrap();
    let keys = document.as_object().filter(|keys| !keys.is_empty());
    keys.is_some_and(|keys| keys.keys().all(|key| chart.get(key).is_some()))
}

/// The whole file that a line includes.
fn included(page: &Path, line: &str) -> Option<String> {
    let path = line.trim().strip_prefix("{{#include ")?.strip_suffix("}}")?;
    Some(read(&page.parent().unwrap().join(path)))
}

/// The fenced blocks of a page, with what they include, and its text without them.
pub fn blocks(page: &Path) -> (Vec<Block>, String) {
    let (mut blocks, mut prose) = (Vec::new(), String::new());
    let (mut open, mut section, mut told): (Option<Block>, _, _) = (None, String::new(), 0);
    for (number, line) in read(page).lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => {
                blocks.extend(open.take());
                told = prose.len();
            }
            (Some(language), None) => {
                let place = format!("{}:{}", page.strip_prefix(root()).unwrap().display(), number + 1);
                let (language, before) = (language.trim().to_owned(), prose[told..].to_owned());
                open = Some(Block { place, section: section.clone(), before, language, lines: Vec::new() });
            }
            (None, Some(block)) => match included(page, line) {
                Some(text) => block.lines.extend(text.lines().map(str::to_owned)),
                None => block.lines.push(line.to_owned()),
            },
            (None, None) => {
                if line.starts_with('#') {
                    section = line.to_owned();
                }
                prose.extend([line, "\n"]);
            }
        }
    }
    assert!(open.is_none(), "{}: a fence is not closed", page.display());
    (blocks, prose)
}

/// The text between single backquotes.
pub fn code_spans(prose: &str) -> Vec<String> {
    prose.split('\n').flat_map(|line| line.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// The anchor mdBook and code hosts make of a heading.
pub fn slug(heading: &str) -> String {
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

pub fn headings(page: &Path, level: &str) -> Vec<String> {
    let (_, prose) = blocks(page);
    prose.lines().filter_map(|l| l.strip_prefix(level)?.strip_prefix(' ')).map(str::to_owned).collect()
}

/// The targets of `[text](target)` and `![text](target)`. What stands between backticks is no link, whatever it looks like.
pub fn links(prose: &str) -> Vec<String> {
    let told = prose.lines().map(|line| line.split('`').step_by(2).collect::<String>()).collect::<Vec<_>>().join("\n");
    told.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .map(|target| target.split_whitespace().next().unwrap_or_default().to_owned())
        .collect()
}
