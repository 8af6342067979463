//! Requests as the server saw them: the audit log at metadata level, one JSON line when a request is done, and one more when a
//! watch starts.

use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::scenario::Kind;

/// Agents with this prefix are the measuring tools themselves.
pub const OWN_AGENT: &str = "berth-bench";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "auditID")]
    audit_id: String,
    #[serde(default)]
    verb: String,
    #[serde(default)]
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(rename = "requestURI", default)]
    request_uri: String,
    #[serde(default)]
    stage_timestamp: String,
    #[serde(default)]
    request_received_timestamp: String,
    #[serde(default)]
    response_status: ResponseStatus,
}

#[derive(Default, Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    api_group: String,
    #[serde(default)]
    subresource: String,
}

/// One request, as one line of the log tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The server's id of the request: two stages of one request share it.
    pub id: String,
    /// The audit verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The user agent, or `(none)`.
    pub agent: String,
    /// `resource.group` with `/subresource`, or the path for a request without a resource.
    pub what: String,
    /// Path and query, as they were sent.
    pub path: String,
    /// Whether the server itself, or a controller inside its process, sent it.
    pub internal: bool,
    /// End of the stage in microseconds of the Unix clock.
    pub at_us: i64,
    /// Microseconds from the moment the server got the request until then; 0 when the line does not say when that was.
    pub took_us: i64,
    /// The answer's status code; 0 when the line has none.
    pub code: u16,
}

impl Request {
    /// Whether the request changes something.
    pub fn writes(&self) -> bool {
        changes(&self.verb)
    }

    /// Whether it is about a lease, which a quiet controller may keep renewing.
    pub fn lease(&self) -> bool {
        self.what.starts_with("leases.coordination.k8s.io")
    }

    /// Whether it came from the process under test: neither the server, nor our own tools.
    pub fn of_subject(&self) -> bool {
        !self.internal && !self.agent.starts_with(OWN_AGENT)
    }
}

fn changes(verb: &str) -> bool {
    matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection")
}

/// Reads one line of the log; a line that is not an audit event is an error.
pub fn parse(line: &str) -> Result<Request> {
    let l: Line = serde_json::from_str(line).context("reading a line of the audit log")?;
    let at: jiff::Timestamp = l.stage_timestamp.parse().context("reading stageTimestamp of an audit line")?;
    let received: Option<jiff::Timestamp> = l.request_received_timestamp.parse().ok();
    let took_us = received.map_or(0, |received| at.as_microsecond() - received.as_microsecond());
    let internal = l.user.username == "system:apiserver"
        || l.user.username == "system:anonymous"
        || l.user_agent.starts_with("plane")
        || l.user_agent.starts_with("kube-apiserver/");
    let mut what = match (l.object_ref.resource.as_str(), l.object_ref.api_group.as_str()) {
        ("", _) => l.request_uri.split('?').next().unwrap_or_default().to_owned(),
        (r, "") => r.to_owned(),
        (r, g) => format!("{r}.{g}"),
    };
    if !l.object_ref.resource.is_empty() && !l.object_ref.subresource.is_empty() {
        what = format!("{what}/{}", l.object_ref.subresource);
    }
    let agent = if l.user_agent.is_empty() { "(none)".to_owned() } else { l.user_agent };
    let (path, code) = (l.request_uri, l.response_status.code);
    Ok(Request { id: l.audit_id, verb: l.verb, agent, what, path, internal, at_us: at.as_microsecond(), took_us, code })
}

/// Counted requests of one window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Every request.
    pub total: u64,
    /// Lists.
    pub lists: u64,
    /// Watches opened.
    pub watches: u64,
    /// Writes, leases not counted.
    pub writes: u64,
    /// Writes of leases.
    pub lease_writes: u64,
    /// Writes of events, counted among the writes.
    pub events: u64,
    /// Writes that were refused because somebody else had been first.
    pub conflicts: u64,
    /// By `verb what`.
    pub by_verb: BTreeMap<String, u64>,
    /// By user agent.
    pub by_agent: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts one request.
    pub fn add(&mut self, r: &Request) {
        self.total += 1;
        self.events += u64::from(r.writes() && r.what.starts_with("events"));
        self.conflicts += u64::from(r.writes() && r.code == 409);
        match (r.verb.as_str(), r.writes()) {
            ("list", _) => self.lists += 1,
            ("watch", _) => self.watches += 1,
            (_, true) if r.lease() => self.lease_writes += 1,
            (_, true) => self.writes += 1,
            _ => {}
        }
        *self.by_verb.entry(format!("{} {}", r.verb, r.what)).or_default() += 1;
        *self.by_agent.entry(r.agent.clone()).or_default() += 1;
    }

    /// Writes to these kinds, their subresources included.
    pub fn writes_to(&self, kinds: &[Kind]) -> u64 {
        let is_one = |asked: &str| {
            let Some((verb, what)) = asked.split_once(' ') else { return false };
            let resource = what.split('/').next().unwrap_or_default();
            changes(verb) && kinds.iter().any(|kind| kind.crd() == resource)
        };
        self.by_verb.iter().filter(|(asked, _)| is_one(asked)).map(|(_, times)| times).sum()
    }
}

/// Follows a growing audit log and hands out each request once, at its first line.
pub struct Tail {
    path: PathBuf,
    offset: u64,
    rest: Vec<u8>,
    seen: HashSet<String>,
}

/// No line of the log is longer: it has no bodies.
const LONGEST: u64 = 64 * 1024;

impl Tail {
    /// Starts at the present end of the log. A line that is just being written is still to come.
    pub fn at_end(path: &Path) -> Result<Self> {
        let shown = path.display();
        let mut file = std::fs::File::open(path).with_context(|| format!("opening {shown}"))?;
        let end = file.metadata().with_context(|| format!("reading {shown}"))?.len();
        let from = end.saturating_sub(LONGEST);
        file.seek(SeekFrom::Start(from)).context("seeking in the audit log")?;
        let mut last = Vec::new();
        file.take(end - from).read_to_end(&mut last).context("reading the audit log")?;
        let whole = last.iter().rposition(|b| *b == b'\n').map_or(0, |at| at as u64 + 1);
        Ok(Self { path: path.to_owned(), offset: from + whole, rest: Vec::new(), seen: HashSet::new() })
    }

    /// What the process under test has asked since the last call.
    pub fn of_subject(&mut self) -> Result<Tally> {
        let mut tally = Tally::default();
        self.read()?.iter().filter(|request| request.of_subject()).for_each(|request| tally.add(request));
        Ok(tally)
    }

    /// Requests logged since the last call. A watch is handed out when it starts, and once.
    pub fn read(&mut self) -> Result<Vec<Request>> {
        let mut file = std::fs::File::open(&self.path).with_context(|| format!("opening {}", self.path.display()))?;
        file.seek(SeekFrom::Start(self.offset)).context("seeking in the audit log")?;
        let mut new = Vec::new();
        self.offset += file.read_to_end(&mut new).context("reading the audit log")? as u64;
        self.rest.extend_from_slice(&new);
        let mut out = Vec::new();
        let Some(end) = self.rest.iter().rposition(|b| *b == b'\n') else { return Ok(out) };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        for line in whole.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            let r = parse(std::str::from_utf8(line).context("the audit log is not UTF-8")?)?;
            if self.seen.insert(r.id.clone()) {
                out.push(r);
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn line(id: &str, verb: &str, agent: &str, stage: &str, user: &str, sub: &str) -> String {
        serde_json::json!({"kind":"Event","auditID":id,"stage":stage,"verb":verb,"userAgent":agent,
            "requestURI":"/apis/berth.dev/v1alpha1/things?limit=1","user":{"username":user},
            "objectRef":{"resource":"things","apiGroup":"berth.dev","apiVersion":"v1alpha1","subresource":sub},
            "responseStatus":{"code":409},"requestReceivedTimestamp":"2026-01-02T03:04:04.998006Z",
            "stageTimestamp":"2026-01-02T03:04:05.000006Z"})
        .to_string()
    }

    #[test]
    fn a_line_tells_verb_agent_resource_and_time() {
        let r = parse(&line("1", "patch", "berth/0.1", "ResponseComplete", "admin", "status")).unwrap();
        assert_eq!(
            (r.verb.as_str(), r.agent.as_str(), r.what.as_str()),
            ("patch", "berth/0.1", "things.berth.dev/status")
        );
        assert!(r.writes() && r.of_subject() && !r.lease());
        assert_eq!(r.path, "/apis/berth.dev/v1alpha1/things?limit=1");
        assert_eq!((r.at_us % 1_000_000, r.took_us), (6, 2_000));
    }

    #[test]
    fn the_server_and_our_tools_are_not_the_subject() {
        for (agent, user) in [
            ("plane-controllers", "admin"),
            ("plane/v1.36.3 (linux/amd64)", "system:apiserver"),
            ("berth-bench-watch", "admin"),
            ("Go-http-client/1.1", "system:anonymous"),
        ] {
            assert!(!parse(&line("1", "get", agent, "ResponseComplete", user, "")).unwrap().of_subject(), "{agent}");
        }
        let nameless = parse(&line("1", "get", "", "ResponseComplete", "admin", "")).unwrap();
        assert!(nameless.of_subject());
        assert_eq!(nameless.agent, "(none)");
    }

    #[test]
    fn a_request_without_a_resource_is_known_by_its_path() {
        let text = r#"{"auditID":"9","verb":"get","userAgent":"x","requestURI":"/version?timeout=1s","user":{"username":"admin"},"stageTimestamp":"2026-01-02T03:04:05Z"}"#;
        let request = parse(text).unwrap();
        assert_eq!((request.what.as_str(), request.took_us), ("/version", 0));
        assert!(parse("not json").is_err());
    }

    #[test]
    fn two_stages_of_one_watch_count_once_and_half_a_line_waits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        std::fs::write(&path, line("old", "list", "x", "ResponseComplete", "admin", "") + "\n").unwrap();
        let mut tail = Tail::at_end(&path).unwrap();
        assert!(tail.read().unwrap().is_empty());
        let mut f = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        writeln!(f, "{}", line("w", "watch", "x", "ResponseStarted", "admin", "")).unwrap();
        let second = line("l", "list", "x", "ResponseComplete", "admin", "");
        let (head, end) = second.split_at(40);
        write!(f, "{head}").unwrap();
        assert_eq!(tail.read().unwrap().len(), 1);
        writeln!(f, "{end}").unwrap();
        writeln!(f, "{}", line("w", "watch", "x", "ResponseComplete", "admin", "")).unwrap();
        let rest = tail.read().unwrap();
        assert_eq!(rest.iter().map(|r| r.verb.as_str()).collect::<Vec<_>>(), ["list"]);
    }

    #[test]
    fn a_line_that_is_being_written_is_still_to_come() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let whole = line("old", "list", "x", "ResponseComplete", "admin", "") + "\n";
        let next = line("new", "get", "x", "ResponseComplete", "admin", "") + "\n";
        for before in ["", whole.as_str()] {
            for cut in 0..next.len() {
                let (head, end) = next.split_at(cut);
                std::fs::write(&path, format!("{before}{head}")).unwrap();
                let mut tail = Tail::at_end(&path).unwrap();
                std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(end.as_bytes()).unwrap();
                let seen: Vec<String> = tail.read().unwrap().into_iter().map(|request| request.verb).collect();
                assert_eq!(seen, ["get"], "cut at {cut}");
            }
        }
    }

    #[test]
    fn writes_to_some_kinds_are_counted_with_their_subresources() {
        let kind = |plural| Kind { group: "g.test", version: "v1", plural, kind: "Any" };
        let mut tally = Tally::default();
        let mut r = parse(&line("1", "patch", "a", "ResponseComplete", "admin", "")).unwrap();
        for what in ["ships.g.test", "ships.g.test/status", "shipsides.g.test", "docks.g.test", "ships.other"] {
            for verb in ["patch", "get", "create"] {
                (r.what, r.verb) = (what.into(), verb.into());
                tally.add(&r);
            }
        }
        assert_eq!(tally.writes_to(&[kind("ships")]), 4);
        assert_eq!(tally.writes_to(&[kind("ships"), kind("docks")]), 6);
        assert_eq!(tally.writes_to(&[]), 0);
    }

    #[test]
    fn leases_are_counted_apart_from_other_writes() {
        let mut t = Tally::default();
        let mut r = parse(&line("1", "patch", "a", "ResponseComplete", "admin", "")).unwrap();
        t.add(&r);
        r.what = "leases.coordination.k8s.io".into();
        t.add(&r);
        r.verb = "list".into();
        t.add(&r);
        assert_eq!((t.total, t.writes, t.lease_writes, t.lists, t.watches), (3, 1, 1, 1, 0));
        assert_eq!(t.conflicts, 2, "a list cannot conflict");
        assert_eq!(t.by_agent.get("a"), Some(&3));
    }
}
