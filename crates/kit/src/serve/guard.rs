//! What every request goes through before and after its handler.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tower::ServiceExt;

use super::{FailureAnswer, FailureLabels, Options, RequestLabels, ServeMetrics, ServerLabels};
use crate::clock::Clock;

/// When a request must be answered; a handler finds it among the request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(pub Instant);

/// Why the server answers instead of the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The handler panicked.
    Panic,
    /// The handler took too long.
    Deadline,
    /// The body is larger than the limit.
    BodyTooLarge,
    /// The body came too slowly.
    SlowBody,
    /// The body broke off.
    BrokenBody,
    /// Too much is going on.
    Overloaded,
}

impl FailureKind {
    /// The kind as a metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Deadline => "deadline",
            Self::BodyTooLarge => "body_too_large",
            Self::SlowBody => "slow_body",
            Self::BrokenBody => "broken_body",
            Self::Overloaded => "overloaded",
        }
    }

    /// The HTTP status that says the same.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Panic => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Deadline => StatusCode::GATEWAY_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::BrokenBody => StatusCode::BAD_REQUEST,
            Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// One sentence for whoever sent the request.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Panic => "internal error: the request was not handled",
            Self::Deadline => "the request was not handled within its deadline",
            Self::BodyTooLarge => "the request body is larger than the limit",
            Self::SlowBody => "the request body did not arrive in time",
            Self::BrokenBody => "the request body broke off",
            Self::Overloaded => "too many requests at once: try again",
        }
    }
}

/// A request that the server answers itself.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Why.
    pub kind: FailureKind,
    /// The path that was asked for.
    pub path: String,
    /// The body, if it arrived whole.
    pub body: Option<Bytes>,
}

/// The failure as plain text with the status of its kind.
#[must_use]
pub fn plain_failure(failure: &Failure) -> Response {
    (failure.kind.status(), format!("{}\n", failure.kind.message())).into_response()
}

/// Reads a duration as Go writes it (`10s`, `1m30s`, `1.5s`, `500ms`); zero, negative and other texts are `None`.
#[must_use]
pub fn parse_timeout(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = tail;
    }
    (!total.is_zero()).then_some(total)
}

/// Requests let in for each that may run.
const WAITING: usize = 16;

/// How many times the limit of a body is read and thrown away before the connection is broken off. A client that writes
/// its whole request before it reads would otherwise meet a closed connection and never see why it was refused.
const PATIENCE: usize = 2;

pub(super) struct Guard {
    options: Options,
    clock: Clock,
    /// Requests that are being read, wait or run; beyond this they would only pile up.
    entrance: Semaphore,
    turns: Semaphore,
    /// One permit per kibibyte of body.
    buffer: Arc<Semaphore>,
    answer: FailureAnswer,
    metrics: ServeMetrics,
}

impl Guard {
    pub(super) fn new(options: Options, answer: FailureAnswer, metrics: ServeMetrics) -> Self {
        let turns = Semaphore::new(options.concurrency);
        let entrance = Semaphore::new(options.concurrency.saturating_mul(WAITING).min(Semaphore::MAX_PERMITS));
        let buffer = Arc::new(Semaphore::new((options.buffer_limit / 1024).min(Semaphore::MAX_PERMITS)));
        Self { options, clock: Clock::system(), entrance, turns, buffer, answer, metrics }
    }

    pub(super) async fn handle(self: Arc<Self>, router: Router, request: Request) -> Response {
        let started = self.clock.instant();
        let label = ServerLabels { server: self.options.name.clone() };
        let gauge = self.metrics.in_flight.get_or_create(&label).clone();
        gauge.inc();
        // The request may be dropped at any await when its client goes away.
        let counted = Counted(gauge);
        let response = self.guarded(router, request, started).await;
        drop(counted);
        let elapsed = self.clock.instant().saturating_duration_since(started);
        self.metrics.duration.get_or_create(&label).observe(elapsed.as_secs_f64());
        let labels = RequestLabels { server: label.server, code: response.status().as_u16() };
        self.metrics.requests.get_or_create(&labels).inc();
        response
    }

    async fn guarded(&self, router: Router, request: Request, started: Instant) -> Response {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let deadline = started + self.time_for(parts.uri.query());
        let mut whole: Option<Bytes> = None;
        let result = timeout_at(deadline, async {
            let _entered = self.entrance.try_acquire().map_err(|_| FailureKind::Overloaded)?;
            let mut held = Vec::new();
            let bytes = self.read(&parts, body, started, &mut held).await?;
            whole = Some(bytes.clone());
            let _turn = self.turns.acquire().await.map_err(|_| FailureKind::Overloaded)?;
            let mut request = Request::from_parts(parts, Body::from(bytes));
            request.extensions_mut().insert(Deadline(deadline));
            AssertUnwindSafe(router.oneshot(request)).catch_unwind().await.map_err(|panic| {
                let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                tracing::error!(server = self.options.name, path, panic = said, "handler panicked");
                FailureKind::Panic
            })
        })
        .await;
        let kind = match result {
            Ok(Ok(Ok(response))) => return response,
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(kind)) => kind,
            Err(_) if whole.is_none() => FailureKind::SlowBody,
            Err(_) => FailureKind::Deadline,
        };
        let labels = FailureLabels { server: self.options.name.clone(), kind: kind.as_str().to_owned() };
        self.metrics.failures.get_or_create(&labels).inc();
        tracing::warn!(server = self.options.name, path, reason = kind.as_str(), "request failed");
        let failure = Failure { kind, path, body: whole };
        // The caller's own answer is foreign code too; a request must not die of it.
        std::panic::catch_unwind(AssertUnwindSafe(|| (self.answer)(&failure)))
            .unwrap_or_else(|_| plain_failure(&failure))
    }

    /// The client's own limit if it is shorter, less a little, so that our answer still finds the client waiting.
    fn time_for(&self, query: Option<&str>) -> Duration {
        let asked = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("timeout="));
        match asked.and_then(parse_timeout) {
            Some(asked) => {
                let margin = (asked / 10).min(Duration::from_millis(500));
                asked.saturating_sub(margin).min(self.options.deadline)
            }
            None => self.options.deadline,
        }
    }

    async fn read(
        &self,
        parts: &Parts,
        mut body: Body,
        started: Instant,
        held: &mut Vec<OwnedSemaphorePermit>,
    ) -> Result<Bytes, FailureKind> {
        let limit = self.options.body_limit;
        let announced = parts.headers.get(CONTENT_LENGTH).and_then(|value: &HeaderValue| value.to_str().ok());
        let announced = announced.and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
        let patience = limit.saturating_mul(PATIENCE);
        if announced > patience as u64 {
            return Err(FailureKind::BodyTooLarge);
        }
        let mut over = announced > limit as u64;
        let until = started + self.options.body_timeout;
        let reading = async {
            let (mut whole, mut seen, mut paid) = (BytesMut::new(), 0usize, 0usize);
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|_| FailureKind::BrokenBody)?;
                let Ok(data) = frame.into_data() else { continue };
                seen = seen.saturating_add(data.len());
                over = over || seen > limit;
                if seen > patience {
                    break;
                }
                if over {
                    whole = BytesMut::new();
                    held.clear();
                    continue;
                }
                let due = seen.div_ceil(1024);
                if let Ok(more) = u32::try_from(due - paid)
                    && more > 0
                {
                    let permit = self.buffer.clone().try_acquire_many_owned(more);
                    held.push(permit.map_err(|_| FailureKind::Overloaded)?);
                    paid = due;
                }
                whole.extend_from_slice(&data);
            }
            Ok(whole.freeze())
        };
        let read = timeout_at(until, reading).await.unwrap_or(Err(FailureKind::SlowBody));
        if over { Err(FailureKind::BodyTooLarge) } else { read }
    }
}

struct Counted(prometheus_client::metrics::gauge::Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_read_as_go_writes_them() {
        for (text, wanted) in [
            ("10s", Some(10_000)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1_500)),
            ("250ms", Some(250)),
            ("1h0m0s", Some(3_600_000)),
            ("0s", None),
            ("-5s", None),
            ("5", None),
            ("s", None),
            ("", None),
            ("5 s", None),
            ("1.2.3s", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(parse_timeout(text), wanted.map(Duration::from_millis), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn no_query_makes_it_panic_and_whole_milliseconds_survive(text in ".{0,24}", ms in 1u64..10_000_000) {
            let _ = parse_timeout(&text);
            let (seconds, rest) = (ms / 1000, ms % 1000);
            let parsed = parse_timeout(&format!("{seconds}s{rest}ms")).map(|d| d.as_millis());
            prop_assert_eq!(parsed, Some(u128::from(ms)));
        }
    }
}
