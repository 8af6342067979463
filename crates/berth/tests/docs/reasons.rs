//! Reasons: each has its section, each section its reason, and whoever meets one that is not well finds there why it came, how
//! to look at it and what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use api::reasons::{Entry, Tone, all};
use serde_json::Value;

use crate::pages::{blocks, code_spans, files_below, headings, read, root, slug};

/// The parts of a section, in their order.
const PARTS: [&str; 4] = ["Meaning", "Causes", "Check", "Fix"];
/// What a check begins with that can be pasted into a terminal.
const PROGRAMS: [&str; 5] = ["berth", "kubectl", "aws", "curl", "nslookup"];

fn reason_pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    files_below(&root().join("book/src/reasons"), "md", &mut pages);
    pages.retain(|page| !page.ends_with("index.md"));
    pages.sort();
    pages
}

#[test]
fn every_reason_has_its_section_and_every_section_its_reason() {
    let book = root().join("book/src");
    let mut wanted = BTreeSet::new();
    for entry in all() {
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
    for page in reason_pages() {
        let mut seen = BTreeSet::new();
        for heading in headings(&page, "##") {
            assert!(seen.insert(heading.clone()), "{}: {heading} has two sections", page.display());
            let key = (page.clone(), heading);
            assert!(wanted.contains(&key), "{}: no reason {} in the code", key.0.display(), key.1);
        }
    }
}

/// The parts of every section of a page, as they follow each other.
fn sections(page: &str) -> BTreeMap<String, Vec<(String, String)>> {
    let mut all = BTreeMap::new();
    for section in page.split("\n## ").skip(1) {
        let (heading, body) = section.split_once('\n').unwrap();
        let parts = body.split("\n\n").filter_map(|paragraph| {
            let (name, text) = paragraph.trim().strip_prefix("**")?.split_once(".**")?;
            Some((name.to_owned(), text.trim().to_owned()))
        });
        all.insert(heading.trim().to_owned(), parts.collect());
    }
    all
}

/// What is missing in the section of a reason.
fn lacks(entry: &Entry, parts: &[(String, String)]) -> Option<String> {
    let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    let known: Vec<&str> = PARTS.into_iter().filter(|part| names.contains(part)).collect();
    if names != known {
        return Some(format!("its parts are {names:?}: there are {PARTS:?}, each once and in this order"));
    }
    let needed = if entry.tone == Tone::Well { &PARTS[..1] } else { &PARTS[..] };
    if let Some(part) = needed.iter().find(|part| !names.contains(part)) {
        return Some(format!("it has no **{part}.**"));
    }
    if let Some((name, _)) = parts.iter().find(|(_, text)| text.is_empty()) {
        return Some(format!("nothing stands behind **{name}.**"));
    }
    let check = parts.iter().find(|(name, _)| name == "Check");
    let is_command = |span: &String| span.split_whitespace().next().is_some_and(|word| PROGRAMS.contains(&word));
    let told = check.is_none_or(|(_, text)| code_spans(text).iter().any(is_command));
    (!told).then(|| format!("**Check.** shows no command of {PROGRAMS:?}"))
}

#[test]
fn whoever_meets_a_reason_finds_causes_a_check_and_a_fix() {
    let book = root().join("book/src");
    let mut wrong = Vec::new();
    for entry in all() {
        let (page, _) = entry.anchor.split_once('#').unwrap();
        let parts = sections(&read(&book.join(page))).remove(entry.reason).unwrap_or_default();
        wrong.extend(lacks(&entry, &parts).map(|why| format!("{}: {why}", entry.anchor)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_section_without_a_part_is_noticed() {
    let page = "# Page\n\n## A\n\n**Meaning.** It is.\n\nMore words.\n\n**Causes.** One.\n\n**Check.** `kubectl get pods`.\n\n**Fix.** None.\n";
    let entry = |tone| Entry { room: "r", reason: "A", meaning: "It is.", tone, anchor: "reasons/r.md#a" };
    let why = |page: &str, tone| lacks(&entry(tone), &sections(page).remove("A").unwrap()).unwrap_or_default();
    assert_eq!(why(page, Tone::Wanting), "");
    for part in ["Causes", "Check", "Fix"] {
        let without = page.replace(&format!("**{part}.**"), "Instead:");
        assert_eq!(why(&without, Tone::Wanting), format!("it has no **{part}.**"));
        assert_eq!(why(&without, Tone::Well), "", "nobody looks into what is well");
    }
    assert!(why(&page.replace("`kubectl get pods`", "Look."), Tone::Wanting).contains("no command"));
    assert!(why(&page.replace("**Fix.** None.", "**Fix.**"), Tone::Wanting).contains("nothing stands behind"));
    assert!(why(&page.replace("Causes", "Fix"), Tone::Wanting).contains("in this order"));
    assert_eq!(why(&page.replace("**Meaning.**", ""), Tone::Well), "it has no **Meaning.**");
}

/// A place in the code where a reason is named.
#[derive(Debug)]
struct Named {
    file: String,
    module: String,
    reason: String,
    /// What is called with it, or which form is filled in with it.
    call: String,
    /// What stands before it there.
    before: String,
}

impl Named {
    /// Whether it is said of something that does not hold, or in a warning.
    fn is_complaint(&self) -> bool {
        // A pause is told by the condition of its name, which holds when something is not as usual.
        if self.before.contains("PAUSED") {
            return false;
        }
        let says_no =
            ["no", "unknown", "warning", "wait", "waits", "waiting", "fault", "held", "failure", "info", "error"];
        let tells = ["say", "tell", "Tell", "Notice"].contains(&self.call.as_str());
        says_no.contains(&self.call.as_str()) || tells && self.before.contains("true")
    }

    /// Whether it is said of something that holds, or in an event of the type `Normal`.
    fn is_praise(&self) -> bool {
        let tells = ["say", "tell", "Tell", "Notice"].contains(&self.call.as_str());
        ["yes", "normal"].contains(&self.call.as_str()) || tells && self.before.contains("false")
    }
}

fn word_before(text: &str) -> &str {
    let start = text.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
    &text[start..]
}

/// What is called, and what stands between that and the end of the text.
fn caller(text: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, c) in text.char_indices().rev() {
        match c {
            ')' | ']' | '}' => depth += 1,
            '(' | '[' | '{' if depth > 0 => depth -= 1,
            '(' | '[' | '{' => return (word_before(text[..at].trim_end()), &text[at + 1..]),
            _ => {}
        }
    }
    ("", text)
}

/// The module whose `Reason` a file means by a name: that of its imports, or the one that the path says.
fn module_of(source: &str, path: &str) -> Option<String> {
    let (before, name) = path.rsplit_once("::").unwrap_or(("", path));
    if !before.is_empty() {
        return Some(word_before(before).to_owned());
    }
    let whole = source.replace('\n', " ");
    let imports = whole.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
    for import in imports.filter(|import| import.contains("reasons::")) {
        let words: Vec<&str> =
            import.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty()).collect();
        for (at, word) in words.iter().enumerate().filter(|(_, word)| **word == "Reason") {
            let called = if words.get(at + 1) == Some(&"as") { words.get(at + 2).copied() } else { Some(*word) };
            let modules = words[..at].iter().rev();
            let module = modules.copied().find(|word| all().iter().any(|entry| entry.room.replace('-', "_") == **word));
            if called == Some(name) {
                return module.map(str::to_owned);
            }
        }
    }
    None
}

/// Every place where the code of rooms, and what they share, names a reason by its type.
fn named() -> Vec<Named> {
    let mut found = Vec::new();
    for room in ["kit", "claim-kind", "claims", "vip", "capacity", "hosts", "clusters", "machines"] {
        let mut sources = Vec::new();
        files_below(&root().join("crates").join(room).join("src"), "rs", &mut sources);
        sources.retain(|path| !path.iter().any(|part| part.to_string_lossy().contains("test")));
        for path in sources {
            let source = read(&path);
            let code = source.split("\nmod tests {").next().unwrap();
            let file = path.strip_prefix(root()).unwrap().display().to_string();
            for (at, _) in code.match_indices("Reason::") {
                let reason: String = code[at + 8..].chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
                if !reason.starts_with(|c: char| c.is_ascii_uppercase()) || reason == "ALL" {
                    continue;
                }
                let start =
                    code[..at].rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).map_or(0, |at| at + 1);
                let path = &code[start..at + 6];
                let Some(module) = module_of(code, path) else { continue };
                let (call, before) = caller(&code[..start]);
                let (call, before) = (call.to_owned(), before.to_owned());
                found.push(Named { file: file.clone(), module, reason, call, before });
            }
        }
    }
    found
}

#[test]
fn what_is_well_is_told_of_conditions_that_hold_and_in_normal_events_alone() {
    let named = named();
    let of = |entry: &Entry| {
        let module = entry.room.replace('-', "_");
        named.iter().filter(move |place| place.module == module && place.reason == entry.reason).collect::<Vec<_>>()
    };
    let (mut praised, mut complained) = (0, 0);
    for entry in all() {
        for place in of(&entry) {
            praised += usize::from(place.is_praise());
            complained += usize::from(place.is_complaint());
            let fits = entry.tone == Tone::Wanting || !place.is_complaint();
            assert!(fits, "{}: {} is no reason of something that is well: {place:?}", place.file, entry.anchor);
        }
    }
    assert!(praised > 40 && complained > 150, "only {praised} and {complained} places are understood");
}

#[test]
fn every_reason_is_told_by_somebody() {
    let named = named();
    let mut code = String::new();
    for room in ["kit", "claim-kind", "claims", "vip", "capacity", "hosts", "clusters", "machines"] {
        let mut sources = Vec::new();
        files_below(&root().join("crates").join(room).join("src"), "rs", &mut sources);
        sources.into_iter().for_each(|source| code.push_str(&read(&source)));
    }
    for entry in all() {
        let module = entry.room.replace('-', "_");
        let typed = named.iter().any(|place| place.module == module && place.reason == entry.reason);
        let told = typed || code.contains(&format!("\"{}\"", entry.reason));
        assert!(told, "nobody ever says {}: take it out, with its section", entry.anchor);
    }
}

/// The definitions of the kinds that Berth brings and of the hosts that it drives, by every name that kubectl knows.
fn kinds() -> BTreeMap<String, Vec<Value>> {
    let mut definitions: Vec<Value> = sim::metal::kinds::definitions();
    for entry in std::fs::read_dir(root().join("chart/files/crds")).unwrap() {
        definitions.push(serde_saphyr::from_str(&read(&entry.unwrap().path())).unwrap());
    }
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for definition in definitions {
        let (names, group) = (&definition["spec"]["names"], definition["spec"]["group"].as_str().unwrap());
        let plural = names["plural"].as_str().unwrap();
        let singular =
            names["singular"].as_str().map_or_else(|| names["kind"].as_str().unwrap().to_lowercase(), str::to_owned);
        let short = names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        // Cluster API has a kind Cluster too, which the plain word means.
        let plain = if plural == "clusters" { Vec::new() } else { vec![plural.to_owned(), singular] };
        let full = format!("{plural}.{group}");
        for name in plain.into_iter().chain([full]).chain(short) {
            all.entry(name).or_default().push(definition.clone());
        }
    }
    all
}

/// Kinds of others that the pages look at.
const FOREIGN: &str = "awscluster cloudstackmachines clusterclasses clusters.cluster.x-k8s.io configmaps daemonsets events \
    inclusterippools globalinclusterippools ipaddressclaims ipaddresses.ipam.cluster.x-k8s.io ipclaims ippools \
    kubeadmconfig kubeadmconfigs kubeadmcontrolplane machine machinedeployments machines \
    machinesets.machine.openshift.io namespace networkpolicy node nodes pods resourcequotas secret secrets \
    volumeattachments";

/// Whether a definition has a field, in any of its versions.
fn has_field(definition: &Value, path: &str) -> bool {
    let words: Vec<&str> = path.split('.').filter(|word| !word.is_empty()).collect();
    if words.first() == Some(&"metadata") || words == ["kind"] {
        return true;
    }
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions.into_iter().any(|version| {
        let mut schema = &version["schema"]["openAPIV3Schema"];
        words.iter().all(|word| {
            let (name, item) = word.split_once('[').map_or((*word, false), |(name, _)| (name, true));
            if schema["x-kubernetes-preserve-unknown-fields"] == true {
                return true;
            }
            schema = match &schema["properties"][name] {
                Value::Null => &schema["additionalProperties"],
                known => known,
            };
            if item {
                schema = &schema["items"];
            }
            schema.is_object()
        })
    })
}

/// The fields that a command asks for by their paths.
fn fields(words: &[&str]) -> Vec<String> {
    let path = |text: &str| text.trim_matches(['{', '}', '\'']).trim_start_matches(".items[*]").to_owned();
    let mut all = Vec::new();
    for word in words {
        if let Some(text) = word.strip_prefix("jsonpath=") {
            all.push(path(text));
        }
        if let Some(columns) = word.strip_prefix("custom-columns=") {
            all.extend(columns.split(',').filter_map(|column| column.split_once(':')).map(|(_, text)| path(text)));
        }
    }
    all
}

/// What is wrong with a command that looks at objects.
fn misses(command: &str, kinds: &BTreeMap<String, Vec<Value>>) -> Option<String> {
    let all: Vec<&str> = command.split_whitespace().take_while(|word| *word != "|").collect();
    let mut words = all.iter().copied().skip(1);
    let mut verb = words.next()?;
    if verb == "--kubeconfig" {
        verb = words.nth(1)?;
    }
    if !["get", "describe"].contains(&verb) {
        return None;
    }
    let asked: Vec<&str> = words.next()?.split(',').map(|kind| kind.split('/').next().unwrap()).collect();
    let foreign = |kind: &&str| FOREIGN.split_whitespace().any(|known| known == *kind);
    let known = |kind: &&str| kinds.contains_key(*kind) || foreign(kind);
    if let Some(kind) = asked.iter().find(|kind| !known(kind)) {
        return Some(format!("there is no kind {kind}"));
    }
    // Of kinds of others nothing is known here.
    if asked.iter().any(foreign) {
        return None;
    }
    let definitions: Vec<&Value> = asked.iter().flat_map(|kind| &kinds[*kind]).collect();
    let missing = |field: &String| !definitions.iter().any(|definition| has_field(definition, field));
    fields(&all).into_iter().find(missing).map(|field| format!("no such field: {field}"))
}

fn commands(page: &Path) -> Vec<String> {
    let (blocks, prose) = blocks(page);
    let shown = blocks.into_iter().flat_map(|block| block.lines);
    shown.chain(code_spans(&prose)).filter(|command| command.starts_with("kubectl ")).collect()
}

#[test]
fn what_the_pages_look_at_with_kubectl_is_there() {
    let kinds = kinds();
    let mut seen = 0;
    for page in reason_pages() {
        for command in commands(&page) {
            let why = misses(&command, &kinds);
            assert_eq!(why, None, "{}: `{command}`", page.display());
            seen += 1;
        }
    }
    assert!(seen > 150, "only {seen} commands found");
    let noticed = |command: &str| misses(command, &kinds).is_some();
    assert!(noticed("kubectl get hostclaim a --output jsonpath={.status.hostname}"));
    assert!(noticed("kubectl describe hostclaimz a"));
    assert!(noticed("kubectl get csdc --output custom-columns=A:.metadata.name,B:.spec.zones[*].city"));
}
