//! The rules of the fault proxy: a JSON document, checked as a whole before any of it counts.
//!
//! ```json
//! [
//!   {"name": "slow-api", "action": {"delay": {"ms": 5000}}},
//!   {"name": "lost-answer", "match": {"methods": ["POST"], "path": "/apis/*/machines"},
//!    "when": {"nth": 2}, "action": {"reset_after": {}}},
//!   {"name": "gone", "match": {"path": "/api/v1/*configmaps", "watch": true},
//!    "when": {"first": 1}, "action": {"gone": {"after": 3}}}
//! ]
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest document that is read, so that a wrong file cannot fill the memory.
pub const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

/// How many rules one document may hold.
pub const MAX_RULES: usize = 1000;

/// Longest pause a rule may ask for: ten minutes, which is longer than any client deadline we test.
pub const MAX_MS: u64 = 600_000;

/// Most bytes that the recordings of all rules may take together.
pub const MAX_RECORDED_BYTES: usize = 512 * 1024 * 1024;

/// What is wrong with a rule document, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct RuleError {
    /// Where the fault is, for example `rules[2].when.nth`.
    pub field: String,
    /// What is wrong with it, in words.
    pub problem: String,
}

impl RuleError {
    fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// One rule: which requests it looks at, which of these it hits, and what happens to those.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Name of the rule, unique in its document; it appears in the list of hits and feeds the seed.
    pub name: String,
    /// Which requests count as a match; left out, every request does.
    #[serde(default, rename = "match", skip_serializing_if = "Match::is_any")]
    pub matches: Match,
    /// Which of the matches are hit; left out, all of them are.
    #[serde(default, skip_serializing_if = "When::is_always")]
    pub when: When,
    /// What happens to a request that is hit.
    pub action: Action,
}

/// Conditions on a request; all that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    /// Methods in capitals; empty means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// Pattern of the whole path without the query; `*` stands for any run of characters, `/` included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Text that the raw (still escaped) query string contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Whether the query asks for a watch (`watch=true` or `watch=1`); a list and its watch share one path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<bool>,
    /// Text that the User-Agent header contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// Text in the first 64 KiB of the request body, for protocols that name the operation there (`Action=RunInstances`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

impl Match {
    fn is_any(&self) -> bool {
        *self == Self::default()
    }
}

/// Which of a rule's matches are hit, counted from 1 since the rule was loaded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// Exactly the nth match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// Every nth match: n, 2n, 3n and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// The first n matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Chance of a hit between 0 and 1, drawn from the seed, the rule's name and the number of the match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

impl When {
    fn is_always(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens to a request that a rule hits.
///
/// `answer`, `reset_before`, `reset_after`, `replay` and an empty `bucket` decide the request: later rules do not see
/// it. All others stack in the order of the rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Wait before anything else happens.
    Delay(Delay),
    /// Answer in the upstream's place; the request is not forwarded.
    Answer(Answer),
    /// Break the connection (HTTP/2: the stream) without forwarding.
    ResetBefore(Reset),
    /// Forward, wait for the upstream's answer, throw it away and break the connection (HTTP/2: the stream).
    ResetAfter(Reset),
    /// End a streamed answer after some lines.
    CutWatch(Cut),
    /// After some lines, send an ERROR event with code 410 (Expired) and end the stream, as the API server does.
    Gone(After),
    /// After some lines, send the first half of the next line and end the stream.
    HalfLine(Cut),
    /// Send one line of a streamed answer twice.
    DuplicateLine(Line),
    /// Send a line of a streamed answer after its successor.
    SwapLines(Line),
    /// Leave out one line of a streamed answer.
    DropLine(Line),
    /// Let only BOOKMARK events of a watch through.
    OnlyBookmarks(Nothing),
    /// Serve an older answer of the same GET instead of asking the upstream.
    Replay(Replay),
    /// Send the body at a fixed pace.
    SlowBody(Slow),
    /// Let a number of requests per second through and refuse the rest with 429 and Retry-After.
    Bucket(Bucket),
}

impl Action {
    /// Name of the action as it is written in a document.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Delay(_) => "delay",
            Self::Answer(_) => "answer",
            Self::ResetBefore(_) => "reset_before",
            Self::ResetAfter(_) => "reset_after",
            Self::CutWatch(_) => "cut_watch",
            Self::Gone(_) => "gone",
            Self::HalfLine(_) => "half_line",
            Self::DuplicateLine(_) => "duplicate_line",
            Self::SwapLines(_) => "swap_lines",
            Self::DropLine(_) => "drop_line",
            Self::OnlyBookmarks(_) => "only_bookmarks",
            Self::Replay(_) => "replay",
            Self::SlowBody(_) => "slow_body",
            Self::Bucket(_) => "bucket",
        }
    }
}

/// How long to wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// Milliseconds.
    pub ms: u64,
    /// Up to this many milliseconds more, drawn from the seed.
    #[serde(default)]
    pub jitter_ms: u64,
}

/// An answer made by the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Status code, 200 to 599.
    pub status: u16,
    /// Headers, for example `{"retry-after": "1"}`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body: a string is sent as it is, any other value as JSON, nothing as an empty body.
    #[serde(default)]
    pub body: Value,
    /// Repeat the body until it has this many bytes (for answers that are far too large).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// How a connection is broken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reset {
    /// Stay silent for so many milliseconds first, so that a client runs into its own deadline.
    pub hold_ms: u64,
    /// On HTTP/2, break the whole connection and not just the stream.
    pub connection: bool,
}

/// Where and how a stream ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cut {
    /// After this many lines.
    pub after: u64,
    /// Break the connection (HTTP/2: the stream) instead of ending the answer properly.
    pub abrupt: bool,
}

/// A position in a stream of lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct After {
    /// After this many lines.
    pub after: u64,
}

/// One line of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Number of the line, from 1.
    pub line: u64,
}

/// An action without settings, written `{}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Which recorded answer is served again.
///
/// Every 200 answer to a matching GET that is not a watch is recorded under its path and query (without
/// `resourceVersion` and `resourceVersionMatch`) and Accept header. A hit with too few recordings goes through and is
/// not counted as a hit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// 1 is the last recorded answer, 2 the one before it, and so on.
    pub back: usize,
    /// How many answers of one list are kept.
    #[serde(default = "Replay::keep")]
    pub keep: usize,
    /// Most bytes this rule keeps in all; the oldest recordings go first.
    #[serde(default = "Replay::max_bytes")]
    pub max_bytes: usize,
}

impl Replay {
    fn keep() -> usize {
        8
    }

    fn max_bytes() -> usize {
        32 * 1024 * 1024
    }
}

/// Pace of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// Bytes per second.
    pub bytes_per_second: u64,
}

/// A token bucket shared by all requests that match the rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// Tokens that come back per second.
    pub rate: f64,
    /// Tokens in a full bucket; it starts full.
    pub burst: u32,
    /// Status code of a refusal.
    #[serde(default = "Bucket::status")]
    pub status: u16,
    /// Body of a refusal; left out, a Kubernetes Status object.
    #[serde(default)]
    pub body: Value,
}

impl Bucket {
    fn status() -> u16 {
        429
    }
}

/// Reads a document (a JSON array of rules, or an object with the key `rules`) and checks every rule in it.
pub fn parse(document: &str) -> Result<Vec<Rule>, RuleError> {
    if document.len() > MAX_DOCUMENT_BYTES {
        return Err(RuleError::new("rules", format!("the document is larger than {MAX_DOCUMENT_BYTES} bytes")));
    }
    let value: Value = serde_json::from_str(document).map_err(|e| RuleError::new("rules", format!("not JSON: {e}")))?;
    from_value(value)
}

/// The same for a document that is already parsed.
pub fn from_value(value: Value) -> Result<Vec<Rule>, RuleError> {
    let list = match value {
        Value::Array(list) => list,
        Value::Object(mut map) => {
            let list = map.remove("rules").unwrap_or(Value::Null);
            if let Some(key) = map.keys().next() {
                return Err(RuleError::new(key.as_str(), "unknown field; a document holds only `rules`"));
            }
            match list {
                Value::Array(list) => list,
                _ => return Err(RuleError::new("rules", "must be a list of rules")),
            }
        }
        _ => return Err(RuleError::new("rules", "must be a list of rules")),
    };
    let mut rules = Vec::with_capacity(list.len().min(MAX_RULES));
    for (index, value) in list.into_iter().enumerate() {
        let rule: Rule = serde_path_to_error::deserialize(value).map_err(|e| {
            let path = e.path().to_string();
            let field = if path == "." { format!("rules[{index}]") } else { format!("rules[{index}].{path}") };
            RuleError::new(field, e.into_inner().to_string())
        })?;
        rules.push(rule);
    }
    check(&rules)?;
    Ok(rules)
}

/// Checks what the types cannot say; the error names the field.
pub fn check(rules: &[Rule]) -> Result<(), RuleError> {
    if rules.len() > MAX_RULES {
        return Err(RuleError::new("rules", format!("more than {MAX_RULES} rules")));
    }
    let mut names = BTreeSet::new();
    let mut recorded = 0_usize;
    for (index, rule) in rules.iter().enumerate() {
        let at = |field: &str, problem: &str| Err(RuleError::new(format!("rules[{index}].{field}"), problem));
        if rule.name.is_empty() {
            return at("name", "must not be empty");
        }
        if !names.insert(rule.name.as_str()) {
            return at("name", "is used by an earlier rule");
        }
        check_match(&rule.matches).or_else(|(field, problem)| at(field, problem))?;
        check_when(&rule.when).or_else(|(field, problem)| at(field, problem))?;
        let action = rule.action.name();
        check_action(&rule.action).or_else(|(field, problem)| at(&format!("action.{action}.{field}"), problem))?;
        if let Action::Replay(replay) = &rule.action {
            recorded = recorded.saturating_add(replay.max_bytes);
            if recorded > MAX_RECORDED_BYTES {
                return at("action.replay.max_bytes", "with the rules before it, more than 536870912 in all");
            }
        }
    }
    Ok(())
}

type Problem = (&'static str, &'static str);

fn check_match(m: &Match) -> Result<(), Problem> {
    for method in &m.methods {
        if method.is_empty() || !method.bytes().all(|b| b.is_ascii_uppercase()) {
            return Err(("match.methods", "a method is written in capitals, for example GET"));
        }
    }
    if let Some(path) = &m.path
        && !path.starts_with(['/', '*'])
    {
        return Err(("match.path", "a path pattern starts with / or *"));
    }
    for (field, text) in [("match.query", &m.query), ("match.user_agent", &m.user_agent), ("match.body", &m.body)] {
        if text.as_deref() == Some("") {
            return Err((field, "must not be empty; leave it out to match anything"));
        }
    }
    Ok(())
}

fn check_when(when: &When) -> Result<(), Problem> {
    for (field, number) in [("when.nth", when.nth), ("when.every", when.every), ("when.first", when.first)] {
        if number == Some(0) {
            return Err((field, "must be at least 1"));
        }
    }
    if [when.nth, when.every, when.first].iter().flatten().count() > 1 {
        return Err(("when", "only one of nth, every and first may be given"));
    }
    if let Some(p) = when.probability
        && !(0.0..=1.0).contains(&p)
    {
        return Err(("when.probability", "must be between 0 and 1"));
    }
    Ok(())
}

fn check_action(action: &Action) -> Result<(), Problem> {
    let line = |line: u64| if line == 0 { Err(("line", "lines are counted from 1")) } else { Ok(()) };
    match action {
        Action::Delay(d) if d.ms > MAX_MS => Err(("ms", "at most 600000 (ten minutes)")),
        Action::Delay(d) if d.jitter_ms > MAX_MS => Err(("jitter_ms", "at most 600000 (ten minutes)")),
        Action::Answer(a) => check_answer(a),
        Action::ResetBefore(r) | Action::ResetAfter(r) if r.hold_ms > MAX_MS => {
            Err(("hold_ms", "at most 600000 (ten minutes)"))
        }
        Action::DuplicateLine(l) | Action::SwapLines(l) | Action::DropLine(l) => line(l.line),
        Action::Replay(r) => {
            if r.back == 0 {
                Err(("back", "must be at least 1, which is the last recorded answer"))
            } else if r.keep < r.back {
                Err(("keep", "must be at least `back`"))
            } else if r.keep > 1000 {
                Err(("keep", "at most 1000"))
            } else if r.max_bytes == 0 || r.max_bytes > 256 * 1024 * 1024 {
                Err(("max_bytes", "between 1 and 268435456"))
            } else {
                Ok(())
            }
        }
        Action::SlowBody(s) if s.bytes_per_second == 0 => Err(("bytes_per_second", "must be at least 1")),
        Action::Bucket(b) => {
            if !(b.rate.is_finite() && b.rate >= 0.001) {
                Err(("rate", "must be at least 0.001 tokens per second"))
            } else if b.burst == 0 {
                Err(("burst", "must be at least 1"))
            } else if !(400..=599).contains(&b.status) {
                Err(("status", "must be between 400 and 599"))
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

fn check_answer(a: &Answer) -> Result<(), Problem> {
    if !(200..=599).contains(&a.status) {
        return Err(("status", "must be between 200 and 599"));
    }
    for (name, value) in &a.headers {
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            return Err(("headers", "holds a name that is not a header name"));
        }
        if http::HeaderValue::from_str(value).is_err() {
            return Err(("headers", "holds a value that is not a header value"));
        }
        let framing = ["content-length", "transfer-encoding", "connection"];
        if framing.iter().any(|f| name.eq_ignore_ascii_case(f)) {
            return Err(("headers", "content-length, transfer-encoding and connection are set by the proxy"));
        }
    }
    if a.size.is_some_and(|size| size > 0) && body_bytes(&a.body).is_empty() {
        return Err(("size", "needs a body to repeat"));
    }
    Ok(())
}

/// The bytes a `body` field stands for.
pub(super) fn body_bytes(body: &Value) -> Vec<u8> {
    match body {
        Value::Null => Vec::new(),
        Value::String(text) => text.clone().into_bytes(),
        other => other.to_string().into_bytes(),
    }
}

/// Whether `text` as a whole fits `pattern`, in which `*` stands for any run of characters.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to resume when the tail after the last star does not fit: one character further on. This keeps the
    // match at the product of both lengths instead of exponential.
    let mut resume: Option<(usize, usize)> = None;
    while let Some(&letter) = text.get(t) {
        match pattern.get(p) {
            Some(b'*') => {
                resume = Some((p + 1, t));
                p += 1;
            }
            Some(&wanted) if wanted == letter => {
                p += 1;
                t += 1;
            }
            _ => match resume {
                Some((after_star, from)) => {
                    p = after_star;
                    t = from + 1;
                    resume = Some((after_star, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|b| *b == b'*'))
}

#[cfg(test)]
mod tests;
