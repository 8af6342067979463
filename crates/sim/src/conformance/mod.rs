//! Cases that pass on the in-memory server and on a real one, so that the model cannot drift.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! let server = sim::server::Server::new(1);
//! let report = sim::conformance::run(server.kube(), "default").await;
//! assert!(report.failed().is_empty(), "{report}");
//! # });
//! ```
#![allow(clippy::indexing_slicing, reason = "only JSON objects built or checked here are indexed, which cannot panic")]

mod applying;
mod deletion;
mod objects;
mod reading;
mod types;

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use futures::{AsyncBufReadExt, StreamExt, io::Lines};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};

/// What a case gives: the words say what was expected and what came.
pub type Check = Result<(), String>;

/// One named promise of the API server.
pub struct Case {
    /// The promise.
    pub name: &'static str,
    run: fn(Ctx) -> Pin<Box<dyn Future<Output = Check> + Send>>,
}

macro_rules! named {
    ($($name:ident),* $(,)?) => {
        vec![$($crate::conformance::Case { name: stringify!($name), run: |c| Box::pin($name(c)) }),*]
    };
}
pub(crate) use named;

/// All cases.
#[must_use]
pub fn cases() -> Vec<Case> {
    [objects::cases(), deletion::cases(), reading::cases(), applying::cases(), types::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// How every case went.
pub struct Report {
    results: Vec<(&'static str, Check)>,
}

impl Report {
    /// How many cases ran.
    #[must_use]
    pub fn total(&self) -> usize {
        self.results.len()
    }

    /// The failed cases with their words.
    #[must_use]
    pub fn failed(&self) -> Vec<(&'static str, &str)> {
        self.results
            .iter()
            .filter_map(|(name, result)| result.as_ref().err().map(|why| (*name, why.as_str())))
            .collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.failed();
        writeln!(f, "{} of {} cases passed", self.total() - failed.len(), self.total())?;
        for (name, why) in failed {
            writeln!(f, "  FAILED {name}: {why}")?;
        }
        Ok(())
    }
}

/// Runs all cases in namespace `ns`, a few at a time; installs the suite's own custom kind first.
///
/// Names differ from run to run, so the suite can be run on one server again and again.
pub async fn run(client: Client, ns: &str) -> Report {
    let mut base = Ctx::new(client, ns);
    if let Err(why) = types::install(&base).await {
        return Report { results: vec![("the_suites_own_kind_installs", Err(why))] };
    }
    match base.fresh_word().await {
        Ok(word) => base.word = word.into(),
        Err(why) => return Report { results: vec![("the_server_makes_names", Err(why))] },
    }
    let results = futures::stream::iter(cases().into_iter().enumerate())
        .map(|(i, case)| {
            let ctx = base.for_case(i);
            async move {
                let limit = Duration::from_secs(60);
                let done = tokio::time::timeout(limit, (case.run)(ctx)).await;
                (case.name, done.unwrap_or_else(|_| Err("not done after 60 s".into())))
            }
        })
        .buffered(6)
        .collect()
        .await;
    Report { results }
}

/// A case's access to the server.
#[derive(Clone)]
pub struct Ctx {
    client: Client,
    ns: Arc<str>,
    word: Arc<str>,
    id: usize,
}

/// An answer: its code and its body.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

pub(crate) const GROUP: &str = "conformance.berth.test";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON: &str = "application/json-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

impl Ctx {
    fn new(client: Client, ns: &str) -> Self {
        Self { client, ns: ns.into(), word: "".into(), id: 0 }
    }

    fn for_case(&self, id: usize) -> Self {
        Self { id, ..self.clone() }
    }

    /// A word the server has not given before: five letters of a generated name.
    async fn fresh_word(&self) -> Result<String, String> {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "conformance-" } });
        let made = self.post(&self.maps(), &map).await?.ok(201)?;
        let word = made.text("/metadata/name").trim_start_matches("conformance-").to_owned();
        holds("the generated name has more than its prefix", !word.is_empty())?;
        Ok(word)
    }

    fn tag(&self) -> String {
        format!("c{}-{}", self.id, self.word)
    }

    pub(crate) fn ns(&self) -> &str {
        &self.ns
    }

    /// A name no other case uses.
    pub(crate) fn name(&self, what: &str) -> String {
        format!("{}-{what}", self.tag())
    }

    pub(crate) fn maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.ns)
    }

    pub(crate) fn map(&self, what: &str) -> String {
        format!("{}/{}", self.maps(), self.name(what))
    }

    pub(crate) fn widgets(&self) -> String {
        format!("/apis/{GROUP}/v1/namespaces/{}/widgets", self.ns)
    }

    pub(crate) fn widget(&self, what: &str) -> String {
        format!("{}/{}", self.widgets(), self.name(what))
    }

    pub(crate) fn new_map(&self, what: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": self.name(what), "labels": { "case": self.tag() } },
            "data": { "a": "1" },
        })
    }

    pub(crate) fn new_widget(&self, what: &str) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Widget",
            "metadata": { "name": self.name(what), "labels": { "case": self.tag() } },
            "spec": { "size": 1 },
        })
    }

    /// An apply configuration with nothing but its type and name.
    pub(crate) fn applied(&self, what: &str) -> Value {
        json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": { "name": self.name(what) } })
    }

    pub(crate) fn mine(&self) -> String {
        format!("labelSelector=case%3D{}", self.tag())
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        media: &str,
        accept: &str,
        body: Option<&Value>,
    ) -> Result<Reply, String> {
        let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let mut request = Request::builder().method(method.clone()).uri(path).header("accept", accept);
        if body.is_some() {
            request = request.header("content-type", media);
        }
        let request = request.body(Body::from(bytes)).map_err(|e| e.to_string())?;
        let reply = self.client.send(request).await.map_err(|e| format!("{method} {path}: {e}"))?;
        let code = reply.status().as_u16();
        let bytes = reply.into_body().collect().await.map_err(|e| e.to_string())?.to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Ok(Reply { code, body })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Reply, String> {
        self.send(Method::GET, path, "", "application/json", None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Reply, String> {
        let path = with_manager(path);
        self.send(Method::POST, &path, "application/json", "application/json", Some(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<Reply, String> {
        let path = with_manager(path);
        self.send(Method::PUT, &path, "application/json", "application/json", Some(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, media: &str, body: &Value) -> Result<Reply, String> {
        let path = if media == APPLY { path.to_owned() } else { with_manager(path) };
        self.send(Method::PATCH, &path, media, "application/json", Some(body)).await
    }

    pub(crate) async fn apply(&self, path: &str, manager: &str, force: bool, body: &Value) -> Result<Reply, String> {
        let force = if force { "&force=true" } else { "" };
        self.patch(&format!("{path}?fieldManager={manager}{force}"), APPLY, body).await
    }

    pub(crate) async fn delete(&self, path: &str, options: Option<Value>) -> Result<Reply, String> {
        self.send(Method::DELETE, path, "application/json", "application/json", options.as_ref()).await
    }

    /// Asks again until `done` is content, for what the real server does in the background.
    pub(crate) async fn until(&self, path: &str, what: &str, done: impl Fn(&Reply) -> bool) -> Result<Reply, String> {
        let mut last = None;
        for _ in 0..600 {
            let reply = self.get(path).await?;
            if done(&reply) {
                return Ok(reply);
            }
            last = Some(reply);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(format!("after 30 s still not: {what}; last {last:?}"))
    }

    pub(crate) async fn watch(&self, path: &str, query: &str) -> Result<Watching, String> {
        self.watch_as(path, query, "application/json").await
    }

    pub(crate) async fn watch_as(&self, path: &str, query: &str, accept: &str) -> Result<Watching, String> {
        let uri = format!("{path}?watch=true&{query}");
        let request = Request::get(uri).header("accept", accept).body(Vec::new()).map_err(|e| e.to_string())?;
        let stream = self.client.request_stream(request).await.map_err(|e| format!("watching {path}: {e}"))?;
        Ok(Watching { lines: (Box::pin(stream) as Pin<Box<dyn futures::AsyncBufRead + Send>>).lines() })
    }
}

fn with_manager(path: &str) -> String {
    let join = if path.contains('?') { '&' } else { '?' };
    format!("{path}{join}fieldManager=suite")
}

/// An open watch.
pub(crate) struct Watching {
    lines: Lines<Pin<Box<dyn futures::AsyncBufRead + Send>>>,
}

impl Watching {
    /// The next event; `None` when the watch ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, String> {
        let limit = Duration::from_secs(30);
        match tokio::time::timeout(limit, self.lines.next()).await {
            Err(_) => Err("no watch event within 30 s".into()),
            Ok(None) => Ok(None),
            Ok(Some(Err(e))) => Err(format!("the watch broke: {e}")),
            Ok(Some(Ok(line))) => serde_json::from_str(&line).map(Some).map_err(|e| format!("{e} in {line}")),
        }
    }

    /// The next event must be of this type and name; gives its object.
    pub(crate) async fn expect(&mut self, word: &str, name: &str) -> Result<Value, String> {
        let event = self.next().await?.ok_or("the watch ended")?;
        let got = (str_at(&event, "/type"), str_at(&event, "/object/metadata/name"));
        if got != (word, name) {
            return Err(format!("expected {word} {name}, got {event}"));
        }
        Ok(event.get("object").cloned().unwrap_or_default())
    }
}

impl Reply {
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub(crate) fn text(&self, pointer: &str) -> &str {
        str_at(&self.body, pointer)
    }

    /// The answer, if it has this code.
    pub(crate) fn ok(self, code: u16) -> Result<Self, String> {
        if self.code == code { Ok(self) } else { Err(format!("expected {code}, got {} {}", self.code, self.body)) }
    }

    /// The answer, if it is this refusal.
    pub(crate) fn refused(self, code: u16, reason: &str) -> Result<Self, String> {
        let reply = self.ok(code)?;
        if reply.text("/kind") != "Status" || reply.text("/reason") != reason {
            return Err(format!("expected a Status with reason {reason}, got {}", reply.body));
        }
        Ok(reply)
    }

    pub(crate) fn version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }
}

pub(crate) fn str_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn same<A: PartialEq<B> + fmt::Debug, B: fmt::Debug>(what: &str, got: A, wanted: B) -> Check {
    if got == wanted { Ok(()) } else { Err(format!("{what}: got {got:?}, wanted {wanted:?}")) }
}

pub(crate) fn holds(what: &str, fact: bool) -> Check {
    if fact { Ok(()) } else { Err(format!("not so: {what}")) }
}
