//! The wire side of the runtime extension: paths, messages and the router.
//!
//! Cluster API calls the hooks; what they decide is behind [`Handlers`]. This side keeps the promises of the protocol:
//! whatever comes in, a handled request is answered with 200 and the hook's own response type, within the shortest of
//! all time limits, and Discovery is answered always, because Cluster API does not start without it.

mod paths;
mod record;
pub mod wire;

use std::future::Future;
use std::sync::Arc;

use api::key::ObjectKey;
use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use kit::clock::Clock;
use kit::serve::{Deadline, Failure, FailureKind};
use kit::telemetry::Metrics;
use tokio::time::{Instant, timeout_at};

pub use paths::{API_VERSION, FailurePolicy, Hook, NameError, Names};
use record::{Record, Told};
pub use wire::{Answer, LifecycleRequest};
use wire::{Head, Status};

use crate::topology::unknown_keys;

/// The largest request that is read.
pub const BODY_LIMIT: usize = 20 << 20;

/// When a cluster is asked for again that could not be answered for in time.
const LATE: u16 = 2;

/// What the hooks ask of the rest of the room.
///
/// A deadline is the moment at which the answer must be there; what is not, is given up at any await.
pub trait Handlers: Send + Sync + 'static {
    /// Whether a cluster may be rendered.
    fn before_create(&self, request: LifecycleRequest, deadline: Instant) -> impl Future<Output = Answer> + Send;

    /// Whether a cluster may be taken down.
    fn before_delete(&self, request: LifecycleRequest, deadline: Instant) -> impl Future<Output = Answer> + Send;

    /// Changes of templates: the body of a GeneratePatchesRequest in, that of the response out.
    fn generate_patches(&self, body: Bytes, deadline: Instant) -> impl Future<Output = Reply> + Send;

    /// A look at finished templates: the body of a ValidateTopologyRequest in, that of the response out.
    fn validate_topology(&self, body: Bytes, deadline: Instant) -> impl Future<Output = Reply> + Send;

    /// Variables for a class: the body of a DiscoverVariablesRequest in, that of the response out.
    fn discover_variables(&self, body: Bytes) -> impl Future<Output = Reply> + Send;
}

/// The answer to a hook about templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The cluster it is about, where that is known; only for the log.
    pub cluster: Option<ObjectKey>,
    /// Settings of the request that no hook knows; only for the log.
    pub unknown: Vec<String>,
    /// The response as JSON.
    pub body: Bytes,
}

impl From<Bytes> for Reply {
    fn from(body: Bytes) -> Self {
        Self { cluster: None, unknown: Vec::new(), body }
    }
}

/// The hooks, ready to be served.
pub struct Hooks<H> {
    inner: Arc<Inner<H>>,
}

impl<H> Clone for Hooks<H> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<H> {
    handlers: Arc<H>,
    names: Names,
    record: Record,
}

impl<H: Handlers> Hooks<H> {
    /// Hooks that nobody serves yet; call it once for each registry of metrics.
    #[must_use]
    pub fn new(handlers: Arc<H>, names: Names, metrics: &Metrics, clock: Clock) -> Self {
        let record = Record::register(metrics, clock);
        Self { inner: Arc::new(Inner { handlers, names, record }) }
    }

    /// Serves the hooks with `POST` and a sign of life at `GET /`. Pair it with [`Hooks::failure`].
    pub fn router(&self) -> Router {
        let alive = || async { json(Bytes::from_static(br#"{"status":"ok"}"#)) };
        let mut router = Router::new().route("/", get(alive));
        for hook in Hook::ALL {
            for path in self.inner.names.paths(hook) {
                let inner = Arc::clone(&self.inner);
                router = router.route(&path, post(move |request| answer(inner, hook, request)));
            }
        }
        router
    }

    /// The answer of a server that failed before or in a hook, in the hook's own type.
    #[must_use]
    pub fn failure(&self, failed: &Failure) -> Response {
        let Inner { names, record, .. } = self.inner.as_ref();
        let Some(hook) = names.hook_at(&failed.path) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let said = match failed.kind {
            // What the body holds does not matter here, so neither does that it cannot be had.
            _ if hook == Hook::Discovery => Said::discovery(names),
            FailureKind::Deadline | FailureKind::Overloaded => Said::late(hook, failed.kind.message()),
            kind => Said::failed(hook, kind.message()),
        };
        // The server has told it already.
        record.count(said.told(hook));
        json(said.body)
    }
}

/// An answer with what is counted and told of it.
struct Said {
    cluster: Option<ObjectKey>,
    status: Status,
    retry_after: u16,
    message: String,
    body: Bytes,
}

impl Said {
    fn discovery(names: &Names) -> Self {
        let (message, body) = (String::new(), wire::discovery(names));
        Self { cluster: None, status: Status::Success, retry_after: 0, message, body }
    }

    fn failed(hook: Hook, message: &str) -> Self {
        let body = wire::failure(hook, message);
        Self { cluster: None, status: Status::Failure, retry_after: 0, message: message.to_owned(), body }
    }

    /// A hook that can wait is asked again soon, because a failure would be retried ever more rarely.
    fn late(hook: Hook, message: &str) -> Self {
        if hook.can_wait() {
            Self::lifecycle(hook, None, Answer::retry(LATE, message))
        } else {
            Self::failed(hook, message)
        }
    }

    fn lifecycle(hook: Hook, cluster: Option<ObjectKey>, answer: Answer) -> Self {
        let body = wire::lifecycle(hook, &answer);
        let (status, retry_after) = (answer.status(), answer.retry_after());
        Self { cluster, status, retry_after, message: answer.message().to_owned(), body }
    }

    fn reply(hook: Hook, reply: Reply) -> Self {
        match Head::read(&reply.body) {
            Some(Head { status, message }) => {
                Self { cluster: reply.cluster, status, retry_after: 0, message, body: reply.body }
            }
            None => {
                tracing::error!(room = "vip", hook = hook.as_str(), "the answer of a handler cannot be read");
                Self { cluster: reply.cluster, ..Self::failed(hook, FailureKind::Panic.message()) }
            }
        }
    }

    fn told(&self, hook: Hook) -> Told<'_> {
        let (cluster, message) = (self.cluster.as_ref(), self.message.as_str());
        Told { hook, cluster, status: self.status, retry_after: self.retry_after, message }
    }
}

async fn answer<H: Handlers>(inner: Arc<Inner<H>>, hook: Hook, request: Request) -> Response {
    let running = inner.record.begin(hook);
    let own = running.started + hook.timeout();
    let deadline = request.extensions().get::<Deadline>().map_or(own, |given| given.0.min(own));
    let said = ask(&inner, hook, request, deadline).await;
    inner.record.answered(said.told(hook), running.started);
    json(said.body)
}

async fn ask<H: Handlers>(inner: &Inner<H>, hook: Hook, request: Request, deadline: Instant) -> Said {
    if hook == Hook::Discovery {
        return Said::discovery(&inner.names);
    }
    // Its size was checked by the server; no type is asked of it, because Cluster API names none.
    let Ok(body) = axum::body::to_bytes(request.into_body(), BODY_LIMIT).await else {
        return Said::failed(hook, FailureKind::BrokenBody.message());
    };
    let handlers = inner.handlers.as_ref();
    if hook.can_wait() {
        let request = match LifecycleRequest::read(&body) {
            Ok(request) => request,
            Err(error) => return Said::failed(hook, &error.to_string()),
        };
        drop(body);
        inner.record.unknown(unknown_keys(&request.settings));
        let cluster = request.key.clone();
        let asked = async {
            match hook {
                Hook::BeforeClusterDelete => handlers.before_delete(request, deadline).await,
                _ => handlers.before_create(request, deadline).await,
            }
        };
        let answer = timeout_at(deadline, asked).await;
        let answer = answer.unwrap_or_else(|_| Answer::retry(LATE, FailureKind::Deadline.message()));
        return Said::lifecycle(hook, Some(cluster), answer);
    }
    let asked = async {
        match hook {
            Hook::GeneratePatches => handlers.generate_patches(body, deadline).await,
            Hook::ValidateTopology => handlers.validate_topology(body, deadline).await,
            _ => handlers.discover_variables(body).await,
        }
    };
    match timeout_at(deadline, asked).await {
        Ok(mut reply) => {
            inner.record.unknown(std::mem::take(&mut reply.unknown));
            Said::reply(hook, reply)
        }
        Err(_) => Said::late(hook, FailureKind::Deadline.message()),
    }
}

fn json(body: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}
