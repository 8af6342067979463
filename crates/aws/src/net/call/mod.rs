//! Making one call: wait for the turn, sign, send, judge, and decide whether to try again.

mod again;
mod buckets;
mod judge;
mod meter;

use std::sync::Arc;
use std::time::Duration;

use api::names::Region;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use kit::clock::Clock;
use kit::http::{HttpClient, HttpError};
use kit::queue::Priority;
use tokio::time::{Instant, timeout_at};

pub use again::Repeat;
pub(crate) use buckets::Buckets;
pub use judge::{Said, judge};
pub use meter::Meter;

use crate::errors::{Cause, Error, Kind, Service, Unanswered};
use crate::net::identity::Provider;
use crate::net::wire::{Document, Form, sign};
use crate::paging::Pager;
use crate::port::{Answer, Keys};
use again::{Again, History, again};

/// Larger answers are read on a thread of their own, so that parsing does not hold up probes.
const LARGE: usize = 256 * 1024;

/// How long calls may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// One call: all attempts, pauses and waiting for its turn.
    pub call: Duration,
    /// One attempt, body included.
    pub attempt: Duration,
    /// Attempts of a call.
    pub attempts: u32,
    /// The pause before the second attempt, half of it jitter; each further one is twice as long.
    pub pause: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(60),
            attempt: Duration::from_secs(20),
            attempts: 5,
            pause: Duration::from_millis(400),
        }
    }
}

/// Who signs.
#[derive(Clone)]
pub(crate) enum Signer {
    /// Nobody: the request carries its own proof.
    Nobody,
    /// These credentials.
    Provider(Arc<Provider>),
}

/// One service in one region, called with one identity.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) service: Service,
    pub(crate) region: Region,
    pub(crate) url: String,
    pub(crate) http: HttpClient,
    pub(crate) signer: Signer,
    pub(crate) buckets: Arc<Buckets>,
    pub(crate) clock: Clock,
    pub(crate) meter: Meter,
    pub(crate) timing: Timing,
}

/// One call.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) operation: &'static str,
    pub(crate) form: Form,
    pub(crate) repeat: Repeat,
    pub(crate) priority: Priority,
    /// Resources the call makes or ends, for the buckets that count them.
    pub(crate) resources: u32,
}

impl Call {
    /// A read.
    pub(crate) fn read(operation: &'static str, form: Form) -> Self {
        Self { operation, form, repeat: Repeat::Safe, priority: Priority::Background, resources: 0 }
    }

    /// A change that may be repeated.
    pub(crate) fn change(operation: &'static str, form: Form, repeat: Repeat) -> Self {
        Self { operation, form, repeat, priority: Priority::Background, resources: 0 }
    }

    /// Goes before others: what is given back is no longer paid for.
    pub(crate) fn urgent(mut self) -> Self {
        self.priority = Priority::Urgent;
        self
    }

    /// Counts resources.
    pub(crate) fn resources(mut self, count: usize) -> Self {
        self.resources = u32::try_from(count).unwrap_or(u32::MAX);
        self
    }
}

impl Caller {
    /// Makes a call.
    pub(crate) async fn call(&self, call: &Call) -> Answer<Said> {
        let end = self.clock.instant() + self.timing.call;
        let (mut attempts, mut renewed) = (0, false);
        loop {
            attempts += 1;
            let (cause, request_id, keys) = match self.attempt(call, end, attempts).await {
                Ok(said) => return Ok(said),
                Err(failed) => failed,
            };
            let history = History { attempts, limit: self.timing.attempts, pause: self.timing.pause, renewed };
            let pause = match again(&cause, call.repeat, history) {
                Again::No => None,
                Again::After(whole) => Some(whole / 2 + self.clock.jitter(whole / 2)),
                Again::Renewed => {
                    renewed = true;
                    self.renew(keys.as_ref()).await.then_some(Duration::ZERO)
                }
            };
            match pause {
                // A pause that leaves no time for another attempt would only delay the answer.
                Some(pause) if self.clock.instant() + pause < end => tokio::time::sleep(pause).await,
                _ => return Err(self.error(call.operation, cause).with_request_id(request_id)),
            }
        }
    }

    /// Reads a list to its end, page by page.
    pub(crate) async fn list<T>(
        &self,
        call: Call,
        mut read: impl FnMut(&Document, &mut Vec<T>) -> Result<(), String> + Send,
    ) -> Answer<Vec<T>> {
        let (mut pager, mut found, mut page) = (Pager::new(), Vec::new(), call.clone());
        loop {
            let said = self.call(&page).await?;
            let failed = |cause| self.error(call.operation, cause).with_request_id(said.request_id.clone());
            read(&said.document, &mut found).map_err(|detail| failed(Cause::Malformed { detail }))?;
            match pager.next(said.document.root().get("nextToken")).map_err(|error| failed(error.into()))? {
                Some(token) => page.form = call.form.page(&token),
                None => return Ok(found),
            }
        }
    }

    /// An error of this caller.
    pub(crate) fn error(&self, operation: &'static str, cause: Cause) -> Error {
        Error::new(self.service, operation, self.region.as_str(), cause)
    }

    async fn renew(&self, used: Option<&Keys>) -> bool {
        match (&self.signer, used) {
            (Signer::Provider(provider), Some(used)) => provider.forget(used).await,
            _ => false,
        }
    }

    async fn attempt(
        &self,
        call: &Call,
        end: Instant,
        attempt: u32,
    ) -> Result<Said, (Cause, Option<String>, Option<Keys>)> {
        let early = |cause: Cause| (cause, None, None);
        let timed_out = || HttpError::Timeout {
            host: format!("{} in {}", self.service.as_str(), self.region),
            limit: self.timing.call,
        };
        let credentials = match &self.signer {
            Signer::Nobody => None,
            Signer::Provider(provider) => {
                let given = timeout_at(end, provider.get()).await;
                let given = given.map_err(|_| early(Cause::Crowded))?;
                let given = given.map_err(|error| {
                    self.meter.unsigned(self.service.as_str(), call.operation, self.region.as_str(), error.counted());
                    early(Cause::Credentials(error))
                })?;
                Some(given)
            }
        };
        let account = credentials.as_ref().map_or("", |given| given.owner.as_str());
        let pair = self.buckets.of(account, &self.region, call.operation, call.form.is_narrow());
        match timeout_at(end, pair.turn(call.resources, call.priority)).await {
            Err(_) => return Err(early(Cause::Crowded)),
            Ok(Err(error)) => return Err(early(Cause::Request { detail: error.to_string() })),
            Ok(Ok(())) => {}
        }
        let keys = credentials.map(|given| given.keys);
        let request = self.request(call, keys.as_ref()).map_err(early)?;
        let begin = self.clock.instant();
        let outcome = match timeout_at(end, self.http.send(request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(timed_out()),
        };
        let judged = match outcome {
            Ok(response) => judged(response).await,
            Err(error) => Err((Cause::NoAnswer(Unanswered::from(error)), None)),
        };
        let elapsed = self.clock.instant() - begin;
        let cause = judged.as_ref().err().map(|(cause, _)| cause);
        self.meter.record(self.service.as_str(), call.operation, self.region.as_str(), cause, elapsed);
        self.log(call.operation, attempt, &judged, elapsed);
        if cause.is_some_and(|cause| cause.kind() == Kind::Throttled) {
            pair.penalise();
        }
        judged.map_err(|(cause, id)| (cause, id, keys))
    }

    fn request(&self, call: &Call, keys: Option<&Keys>) -> Result<Request<Bytes>, Cause> {
        let bad = |detail: String| Cause::Request { detail };
        let version = match self.service {
            Service::Ec2 => "2016-11-15",
            Service::Sts => "2011-06-15",
        };
        let body = Bytes::from(call.form.encode(call.operation, version));
        let form = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
        let mut request = Request::post(&self.url)
            .header(CONTENT_TYPE, form)
            .body(body)
            .map_err(|_| bad("the endpoint is not a URL".to_owned()))?;
        if let Some(keys) = keys {
            sign(&mut request, keys, self.region.as_str(), self.service.as_str(), self.clock.now())
                .map_err(|error| bad(error.to_string()))?;
        }
        Ok(request)
    }

    fn log(
        &self,
        operation: &'static str,
        attempt: u32,
        judged: &Result<Said, (Cause, Option<String>)>,
        elapsed: Duration,
    ) {
        let (service, region, elapsed_ms) = (self.service.as_str(), self.region.as_str(), elapsed.as_millis());
        match judged {
            // Each of these starts or ends a bill.
            Ok(said) if matches!(operation, "AllocateHosts" | "ReleaseHosts") => {
                let request_id = said.request_id.as_deref();
                tracing::info!(service, operation, region, request_id, attempt, elapsed_ms, "called AWS");
            }
            Ok(said) => {
                let request_id = said.request_id.as_deref();
                tracing::debug!(service, operation, region, request_id, attempt, elapsed_ms, "called AWS");
            }
            Err((cause, id)) => {
                let (request_id, error) = (id.as_deref(), kit::class::chain(cause));
                tracing::debug!(
                    service,
                    operation,
                    region,
                    request_id,
                    attempt,
                    elapsed_ms,
                    error,
                    "AWS refused or failed"
                );
            }
        }
    }
}

async fn judged(response: Response<Bytes>) -> Result<Said, (Cause, Option<String>)> {
    let (parts, body) = response.into_parts();
    if body.len() <= LARGE {
        return judge(parts.status, &parts.headers, &body);
    }
    let parsed = tokio::task::spawn_blocking(move || judge(parts.status, &parts.headers, &body)).await;
    parsed.unwrap_or_else(|_| Err((Cause::Malformed { detail: "it could not be read".to_owned() }, None)))
}
