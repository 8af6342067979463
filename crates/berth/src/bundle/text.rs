//! Takes secrets out of text that nobody has a schema for: logs, messages, files in ConfigMaps.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::names::looks_secret;

/// What stands in place of what was removed.
pub const MARK: &str = "(removed)";

/// A pattern whose whole match goes, and what it is.
struct Pattern {
    find: Regex,
    put: &'static str,
    what: &'static str,
}

#[expect(clippy::expect_used, reason = "the patterns are constants, and every test of this file compiles them")]
fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of this file: because it is a constant")
}

/// Looked for in the whole text, because they go over several lines.
static BLOCKS: LazyLock<[Pattern; 2]> = LazyLock::new(|| {
    [
        Pattern {
            find: regex(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)"),
            put: MARK,
            what: "a private key",
        },
        // The same in base64: how a kubeconfig and the data of a Secret hold it.
        Pattern {
            find: regex(
                r"LS0tLS1CRUdJTi(?:BQUklWQVRF|BSU0EgUFJJVkFURS|BFQyBQUklWQVRF|BPUEVOU1NI|BFTkNSWVBURUQg)[A-Za-z0-9+/=]*",
            ),
            put: MARK,
            what: "a private key",
        },
    ]
});

/// Looked for in every line.
static LINES: LazyLock<[Pattern; 6]> = LazyLock::new(|| {
    let pattern = |find: &str, put: &'static str, what: &'static str| Pattern { find: regex(find), put, what };
    [
        pattern(r#"([A-Za-z][A-Za-z0-9+.\-]*://)[^\s/"'<>]+@"#, "${1}(removed)@", "credentials in a url"),
        pattern(
            r#"(?i)\b(bearer\s+|authorization["'\\:=\s]+[a-z]+\s+)[A-Za-z0-9+/._~=\-]{6,}"#,
            "${1}(removed)",
            "credentials of a request",
        ),
        pattern(r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]*)?", MARK, "a signed token"),
        pattern(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", MARK, "an access key of AWS"),
        pattern(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b", MARK, "a bootstrap token"),
        pattern(r"\bgh[pousr]_[A-Za-z0-9]{20,}", MARK, "a token of a code host"),
    ]
});

/// `--name value` and `--name=value`.
static FLAG: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(--?)([A-Za-z][\w.\-]*)([ =]+)("[^"]*(?:"|$)|'[^']*(?:'|$)|[^\s"',]+)"#));
/// A line that is one field of YAML, or of a file of settings: everything after the name is its value.
static FIELD: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"^(\s*(?:-\s+)?["']?)([A-Za-z_][\w.\-/]*)(["']?\s*[:=]\s*)(\S.*)$"#));
/// `name=value`, `name: value` and `"name":"value"` anywhere in a line.
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"([A-Za-z_][\w.\-/]*)(\\?["']?\s*[:=]\s*)(\\"(?:[^"\\]|\\[^"])*(?:\\"|$)|"(?:[^"\\]|\\.)*(?:"|$)|'[^']*(?:'|$)|[^\s,;&"'}\]]+)"#,
    )
});
/// The first line of a block of YAML: what belongs to it stands further in on the next ones.
static BLOCK: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"^(\s*(?:-\s+)?)(["']?)([A-Za-z_][\w.\-/]*)(["']?\s*:)\s*(?:[|>][0-9+\-]*)?\s*$"#));

/// Something that was taken out of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The line it stood in, from 1.
    pub line: usize,
    /// What it was.
    pub what: String,
}

/// The text without anything that looks like a secret, and what was taken out.
pub fn scrub(text: &str) -> (String, Vec<Cut>) {
    let mut cuts = Vec::new();
    let mut text = Cow::Borrowed(text);
    for pattern in BLOCKS.iter() {
        let found: Vec<usize> = pattern.find.find_iter(&text).map(|found| found.start()).collect();
        if found.is_empty() {
            continue;
        }
        for start in found {
            let before = text.get(..start).unwrap_or_default();
            cuts.push(Cut { line: before.matches('\n').count() + 1, what: pattern.what.to_owned() });
        }
        text = Cow::Owned(pattern.find.replace_all(&text, pattern.put).into_owned());
    }
    let mut out = String::with_capacity(text.len());
    // How far in the field stands whose block is being left out.
    let mut inside: Option<usize> = None;
    for (number, whole) in text.split_inclusive('\n').enumerate() {
        let line = whole.trim_end_matches(['\n', '\r']);
        let end = whole.get(line.len()..).unwrap_or_default();
        let indent = line.len() - line.trim_start().len();
        if let Some(outer) = inside {
            let item = line.trim_start().starts_with("- ") && indent == outer;
            if line.trim().is_empty() || indent > outer || item {
                out.push_str(end);
                continue;
            }
            inside = None;
        }
        let mut cut = |what: String| cuts.push(Cut { line: number + 1, what });
        if let Some(found) = BLOCK.captures(line).filter(|found| looks_secret(part(found, 3))) {
            inside = Some(part(&found, 1).len());
            cut(format!("the value of {}", part(&found, 3)));
            out.extend((1..=4).map(|number| part(&found, number)).chain([" ", MARK]));
        } else {
            out.push_str(&scrub_line(line, &mut cut));
        }
        out.push_str(end);
    }
    cuts.sort_by_key(|cut| cut.line);
    cuts.dedup();
    (out, cuts)
}

fn scrub_line(line: &str, cut: &mut impl FnMut(String)) -> String {
    let mut line = Cow::Borrowed(line);
    for pattern in LINES.iter() {
        if pattern.find.is_match(&line) {
            cut(pattern.what.to_owned());
            line = Cow::Owned(pattern.find.replace_all(&line, pattern.put).into_owned());
        }
    }
    if let Some(found) = FIELD.captures(&line).filter(|found| looks_secret(part(found, 2)) && held(part(found, 4))) {
        cut(format!("the value of {}", part(&found, 2)));
        return format!("{}{}{}{MARK}", part(&found, 1), part(&found, 2), part(&found, 3));
    }
    let line = values(&FLAG, &line, 2, cut);
    values(&PAIR, &line, 1, cut)
}

/// A part of what was found; empty when it is not there.
fn part<'t>(found: &Captures<'t>, number: usize) -> &'t str {
    found.get(number).map_or("", |part| part.as_str())
}

/// Replaces the values of names that look like a secret's. A pattern has the name in the group `name`, what stands between
/// in the next and the value in the one after that.
fn values(pattern: &Regex, line: &str, name: usize, cut: &mut impl FnMut(String)) -> String {
    let (mut out, mut from) = (String::with_capacity(line.len()), 0);
    while let Some(found) = pattern.captures_at(line, from) {
        let (Some(whole), Some(value)) = (found.get(0), found.get(name + 2)) else { break };
        let secret = looks_secret(part(&found, name)) && held(value.as_str());
        out.push_str(line.get(from..value.start()).unwrap_or_default());
        // What is no secret may still have one in it: the query of a url, a message in quotes.
        from = if secret { whole.end() } else { value.start() };
        if secret {
            cut(format!("the value of {}", part(&found, name)));
            out.push_str(&quoted_mark(value.as_str()));
        }
    }
    out.push_str(line.get(from..).unwrap_or_default());
    out
}

/// The mark, between the quotes that the value had, so that JSON stays JSON.
fn quoted_mark(value: &str) -> String {
    let quote = ["\\\"", "\"", "'"].into_iter().find(|quote| value.starts_with(quote)).unwrap_or_default();
    format!("{quote}{MARK}{quote}")
}

/// Whether a value is one that can be a secret at all and is still there.
fn held(value: &str) -> bool {
    let bare = value.trim().trim_matches(['"', '\'', '\\', ',']);
    !bare.is_empty() && !["true", "false", "null", "{}", "[]", "{", "["].contains(&bare) && bare != MARK
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CANARY: &str = "c4n4ry-Hunter2";

    fn gone(text: &str) -> String {
        let (out, cuts) = scrub(text);
        assert!(!out.contains(CANARY), "{text:?} gave {out:?}");
        assert!(!cuts.is_empty(), "{text:?}: nothing is told");
        out
    }

    #[test]
    fn a_planted_secret_does_not_survive_in_any_form() {
        let url = format!("https://user:{CANARY}@10.0.0.1/redfish");
        assert_eq!(gone(&url), "https://(removed)@10.0.0.1/redfish");
        gone(&format!("Authorization: Bearer {CANARY}"));
        gone(&format!("sent header authorization: basic {CANARY} to host"));
        gone(&format!("{{\"message\":\"x\",\"password\":\"{CANARY}\"}}"));
        gone(&format!("{{\"message\":\"{{\\\"token\\\":\\\"{CANARY}\\\"}}\"}}"));
        gone(&format!("GET /client/api?command=x&apiKey={CANARY}&signature={CANARY}"));
        gone(&format!("https://x.test/a?X-Amz-Signature={CANARY}&y=1"));
        gone(&format!("berth run --token {CANARY} --x"));
        gone(&format!("berth run --password={CANARY}"));
        gone(&format!("  password: with blanks {CANARY}"));
        gone(&format!("DB_PASSWORD={CANARY}"));
        gone(&format!("a line that ends early {{\"x\":1,\"password\":\"{CANARY} and mo"));
        gone(&format!("users:\n- name: a\n  passwd: |\n    line\n\n    {CANARY}\n  x: 1\n"));
        gone(&format!("tokens:\n  - {CANARY}\n  - b\nnext: 1\n"));
        gone(&format!("tokens:\n- {CANARY}\nnext: 1\n"));
        gone(&format!("-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----\nafter"));
        gone(&format!("-----BEGIN PRIVATE KEY-----\\n{CANARY} cut off"));
    }

    #[test]
    fn what_looks_like_a_secret_by_itself_goes() {
        let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl";
        let encoded = "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ==";
        for secret in [token, "AKIAIOSFODNN7EXAMPLE", "abcdef.0123456789abcdef", encoded] {
            let (out, cuts) = scrub(&format!("before {secret} after"));
            assert_eq!(out, "before (removed) after");
            assert_eq!((cuts.len(), cuts[0].line), (1, 1));
        }
    }

    #[test]
    fn what_is_no_secret_stays_word_for_word() {
        let text = "level=info room=claims name=web-1 secretName: creds\n{\"outcome\":\"changed\",\"elapsed_ms\":4}\n\
                    automountServiceAccountToken: false\nhttps://10.0.0.1:6443/api?x=1\n\n  two  blanks\r\n";
        assert_eq!(scrub(text), (text.to_owned(), Vec::new()));
        let (out, _) = scrub("users:\n- passwd: |\n    x\n  name: a\nnext: 1\n");
        assert!(out.ends_with("  name: a\nnext: 1\n"), "{out}");
    }

    #[test]
    fn the_lines_are_told() {
        let (_, cuts) = scrub("a\npassword=x\nb\ntoken=y token=z\n");
        let told: Vec<(usize, &str)> = cuts.iter().map(|cut| (cut.line, cut.what.as_str())).collect();
        assert_eq!(told, [(2, "the value of password"), (4, "the value of token")]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_text_is_read_and_a_second_look_finds_nothing(text in any::<String>()) {
            let (once, _) = scrub(&text);
            prop_assert_eq!(scrub(&once).0, once);
        }

        #[test]
        fn a_password_never_survives(before in "[a-z ]{0,20}", name in "(password|apiKey|x-token)", secret in "[A-Z0-9]{8,30}") {
            for text in [format!("{before} {name}={secret}"), format!("{before}\n{name}: {secret}"), format!("{{\"{name}\":\"{secret}\"}}")] {
                prop_assert!(!scrub(&text).0.contains(&secret), "{}", text);
            }
        }
    }
}
