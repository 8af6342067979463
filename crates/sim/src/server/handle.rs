//! A client's connection: the tower service, and what can be done to it.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;

use super::{
    Inner,
    faults::{Action, EventAction, RequestInfo},
    gate::Gate,
    http::{Answer, Asked, dispatch},
    log::{Entry, Outcome, digest},
    status::Failure,
    watch,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Script = Arc<dyn Fn(&RequestInfo) -> Vec<Action> + Send + Sync>;
type EventScript = Arc<dyn Fn(u64, &str, &str) -> EventAction + Send + Sync>;
type Scope = Arc<dyn Fn(&RequestInfo) -> bool + Send + Sync>;

#[derive(Default)]
struct Control {
    frozen: Option<(u64, Scope)>,
    script: Option<Script>,
    event_script: Option<EventScript>,
    drop_events: Vec<u64>,
    repeat_events: Vec<u64>,
    gate: Option<Gate>,
}

/// What the server knows about one client.
pub(crate) struct Line {
    name: String,
    crashed: AtomicBool,
    disconnected: AtomicBool,
    events: AtomicU64,
    cut: AtomicU64,
    expire: AtomicU64,
    control: Mutex<Control>,
}

impl Line {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn crashed(&self) -> bool {
        self.crashed.load(Ordering::SeqCst) || self.gate().is_some_and(|g| g.is_dead())
    }

    pub(crate) fn disconnected(&self) -> bool {
        self.disconnected.load(Ordering::SeqCst)
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cut.load(Ordering::SeqCst)
    }

    pub(crate) fn expiries(&self) -> u64 {
        self.expire.load(Ordering::SeqCst)
    }

    pub(crate) fn frozen(&self) -> bool {
        self.control().frozen.is_some()
    }

    /// The newest revision this request may see.
    pub(crate) fn visible(&self, now: u64, info: &RequestInfo) -> u64 {
        let frozen = self.control().frozen.clone();
        match frozen {
            Some((rev, scope)) if scope(info) => rev.min(now),
            _ => now,
        }
    }

    pub(crate) fn on_event(&self, resource: &str, word: &str) -> EventAction {
        let number = self.events.fetch_add(1, Ordering::SeqCst) + 1;
        let (script, drop, repeat) = {
            let control = self.control();
            (
                control.event_script.clone(),
                control.drop_events.contains(&number),
                control.repeat_events.contains(&number),
            )
        };
        let mut action = script.map(|s| s(number, resource, word)).unwrap_or_default();
        action.drop |= drop;
        action.repeat |= repeat;
        action
    }

    fn gate(&self) -> Option<Gate> {
        self.control().gate.clone()
    }
}

/// One client's connection and the controls over it.
#[derive(Clone)]
pub struct Handle {
    inner: Arc<Inner>,
    line: Arc<Line>,
}

impl Handle {
    pub(crate) fn new(inner: Arc<Inner>, name: &str) -> Self {
        Self {
            inner,
            line: Arc::new(Line {
                name: name.into(),
                crashed: AtomicBool::new(false),
                disconnected: AtomicBool::new(false),
                events: AtomicU64::new(0),
                cut: AtomicU64::new(0),
                expire: AtomicU64::new(0),
                control: Mutex::default(),
            }),
        }
    }

    /// The handle's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.line.name
    }

    /// A kube client on this connection, with default namespace `default`; needs a tokio runtime.
    #[must_use]
    pub fn kube(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// The bare tower service.
    #[must_use]
    pub fn service(&self) -> Service {
        Service { inner: self.inner.clone(), line: self.line.clone() }
    }

    /// The client's process is gone: nothing is answered any more, its watches end. For ever.
    pub fn crash(&self) {
        self.line.crashed.store(true, Ordering::SeqCst);
        self.inner.tick();
    }

    /// Every request fails and watches end, until [`Handle::reconnect`].
    pub fn disconnect(&self) {
        self.line.disconnected.store(true, Ordering::SeqCst);
        self.inner.tick();
    }

    /// Ends [`Handle::disconnect`].
    pub fn reconnect(&self) {
        self.line.disconnected.store(false, Ordering::SeqCst);
    }

    /// Lists and watches show the world as it was at `revision`; reads by name stay live, as quorum reads are.
    pub fn freeze(&self, revision: u64) {
        self.freeze_where(revision, RequestInfo::fills_cache);
    }

    /// All reads show the world as it was at `revision`.
    pub fn freeze_all(&self, revision: u64) {
        self.freeze_where(revision, |_| true);
    }

    /// The reads `scope` accepts show the world as it was at `revision`.
    pub fn freeze_where(&self, revision: u64, scope: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static) {
        self.line.control().frozen = Some((revision, Arc::new(scope)));
    }

    /// Reads are live again; held watch events arrive.
    pub fn thaw(&self) {
        self.line.control().frozen = None;
        self.inner.tick();
    }

    /// The nth watch event for this client, counted from 1, is not delivered.
    pub fn drop_event(&self, nth: u64) {
        self.line.control().drop_events.push(nth);
    }

    /// The nth watch event for this client, counted from 1, is delivered twice.
    pub fn repeat_event(&self, nth: u64) {
        self.line.control().repeat_events.push(nth);
    }

    /// How many watch events this client was due so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.line.events.load(Ordering::SeqCst)
    }

    /// Decides the fate of every watch event: number, resource, `ADDED`/`MODIFIED`/`DELETED`.
    pub fn script_events(&self, script: impl Fn(u64, &str, &str) -> EventAction + Send + Sync + 'static) {
        self.line.control().event_script = Some(Arc::new(script));
    }

    /// Decides the fate of every request, besides the server's injected faults.
    pub fn script(&self, script: impl Fn(&RequestInfo) -> Vec<Action> + Send + Sync + 'static) {
        self.line.control().script = Some(Arc::new(script));
    }

    /// Ends both scripts.
    pub fn unscript(&self) {
        let mut control = self.line.control();
        control.script = None;
        control.event_script = None;
    }

    /// Ends this client's watches without a word.
    pub fn cut_watches(&self) {
        self.line.cut.fetch_add(1, Ordering::SeqCst);
        self.inner.tick();
    }

    /// Ends this client's watches with 410 `Expired`.
    pub fn expire_watches(&self) {
        self.line.expire.fetch_add(1, Ordering::SeqCst);
        self.inner.tick();
    }

    /// Lets the effects of this connection pass a gate: those on a second server count like those on the first.
    pub fn attach(&self, gate: Gate) {
        self.line.control().gate = Some(gate);
    }
}

/// The API server as a tower service.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
    line: Arc<Line>,
}

type Reply = Response<UnsyncBoxBody<Bytes, BoxError>>;

impl tower::Service<Request<Body>> for Service {
    type Response = Reply;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(serve(self.inner.clone(), self.line.clone(), request))
    }
}

struct InFlight(Arc<Inner>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(inner: Arc<Inner>, line: Arc<Line>, request: Request<Body>) -> Result<Reply, BoxError> {
    inner.in_flight.fetch_add(1, Ordering::SeqCst);
    let _counted = InFlight(inner.clone());
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    if line.crashed() {
        std::future::pending::<()>().await;
    }
    let asked = {
        let core = inner.core();
        Asked::new(&line, &core.registry, &parts, body)
    };
    let mut actions = inner.faults().take(&asked.info);
    let script = line.control().script.clone();
    if let Some(script) = script {
        actions.extend(script(&asked.info));
    }
    for action in &actions {
        if let Action::Delay(time) = action {
            tokio::time::sleep(*time).await;
        }
    }
    if line.disconnected() || actions.contains(&Action::Refuse) {
        log(&inner, &asked, Outcome::Refused, false);
        return Err("connection refused".into());
    }
    if line.crashed() || actions.contains(&Action::Hang) {
        log(&inner, &asked, Outcome::Refused, false);
        std::future::pending::<()>().await;
    }
    if let Some(answer) = actions.iter().find_map(injected) {
        log(&inner, &asked, Outcome::Injected(answer.code()), false);
        return respond(&inner, &line, answer, &actions);
    }

    let gate = if asked.info.mutating { line.gate() } else { None };
    let pass = match &gate {
        Some(gate) => {
            let what = format!("{} {}", asked.info.method, asked.info.path);
            Some(gate.enter(&what, &asked.info.resource).await)
        }
        None => None,
    };
    let answer = dispatch(&inner, &line, &asked);
    let lost = actions.contains(&Action::DropAnswer);
    let silent = actions.contains(&Action::HangAfter);
    let code = answer.code();
    let outcome = if lost || silent { Outcome::Lost(code) } else { Outcome::Answered(code) };
    log(&inner, &asked, outcome, asked.info.mutating);
    if let Some(pass) = pass {
        pass.committed().await;
    } else if line.crashed() {
        std::future::pending::<()>().await;
    }
    if silent {
        std::future::pending::<()>().await;
    }
    if lost {
        return Err("connection reset by peer".into());
    }
    respond(&inner, &line, answer, &actions)
}

fn injected(action: &Action) -> Option<Answer> {
    let failure = match action {
        Action::Conflict => Failure::new(
            409,
            "Conflict",
            "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
        ),
        Action::Status(code) => Failure::new(*code, reason_of(*code), "an injected fault"),
        Action::TooMany(seconds) => {
            let mut failure = Failure::new(429, "TooManyRequests", "an injected fault: too many requests");
            failure.details = serde_json::json!({ "retryAfterSeconds": seconds });
            failure
        }
        _ => return None,
    };
    Some(failure.into())
}

fn reason_of(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}

fn log(inner: &Inner, asked: &Asked, outcome: Outcome, effect: bool) {
    let revision = inner.core().store.rev;
    let info = &asked.info;
    inner.log().add(
        Entry {
            number: 0,
            effect: None,
            client: info.client.clone(),
            agent: info.agent.clone(),
            method: info.method.clone(),
            path: info.path.clone(),
            query: info.query.clone(),
            resource: info.resource.clone(),
            digest: digest(&asked.body),
            revision,
            outcome,
        },
        effect,
    );
}

fn respond(inner: &Arc<Inner>, line: &Arc<Line>, answer: Answer, actions: &[Action]) -> Result<Reply, BoxError> {
    let mut reply = Response::builder().status(answer.code());
    for action in actions {
        if let Action::TooMany(seconds) = action {
            reply = reply.header(header::RETRY_AFTER, *seconds);
        }
    }
    let full = |bytes: Vec<u8>| Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync();
    let (media, body) = match answer {
        Answer::Json(_, value) => ("application/json", full(serde_json::to_vec(&value)?)),
        Answer::Text(_, text) => ("text/plain; charset=utf-8", full(text.into_bytes())),
        Answer::Watch(spec) => {
            let lines = watch::stream(inner.clone(), line.clone(), *spec)
                .map(|line| line.map(Frame::data).map_err(BoxError::from));
            ("application/json", StreamBody::new(lines).boxed_unsync())
        }
    };
    Ok(reply.header(header::CONTENT_TYPE, media).body(body)?)
}
