//! Making one call: wait for the turn, sign, send, judge, and decide whether to try again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use jiff::SignedDuration;
use kit::clock::Clock;
use kit::flight::Flights;
use kit::http::{HttpClient, HttpError};
use kit::queue::Priority;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::gates::Gate;
use super::judge::{Said, judge};
use super::meter::Meter;
use super::read::Item;
use super::sign::{canonical, form, moment, signature};
use crate::errors::{Cause, Error, Kind, Unanswered};
use crate::paging::Pager;
use crate::port::Answer;
use crate::profile::Profile;

/// Larger answers are read on a thread of their own, so that parsing does not hold up probes.
const LARGE: usize = 256 * 1024;

/// How long a signature holds. Servers refuse those that hold for more than fifteen minutes.
const EXPIRY: SignedDuration = SignedDuration::from_mins(10);

/// Longer URLs are not sent: what does not fit goes as a form, whatever was asked for.
const LONGEST_URL: usize = 1900;

/// How long calls may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// One request, body included.
    pub request: Duration,
    /// One call: all its requests, the pauses between them and waiting for its turn.
    pub call: Duration,
    /// The pauses before a request is made again, one for each time.
    pub pauses: [Duration; 3],
}

impl Default for Timing {
    fn default() -> Self {
        Self::of(Duration::from_secs(30))
    }
}

impl Timing {
    /// The pauses that are shipped, with so much time for a request and four times that and the pauses for a call.
    #[must_use]
    pub fn of(request: Duration) -> Self {
        let pauses = [500, 2000, 5000].map(Duration::from_millis);
        Self { request, call: request.saturating_mul(4) + pauses.iter().sum::<Duration>(), pauses }
    }
}

/// Whether a repetition of a call is the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// A read, or a call that sets what is already set.
    Safe,
    /// Only if the first was certainly not carried out.
    IfNotDone,
}

/// One call.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) command: &'static str,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) repeat: Repeat,
    pub(crate) priority: Priority,
}

impl Call {
    /// A read.
    pub(crate) fn read(command: &'static str) -> Self {
        Self { command, parameters: Vec::new(), repeat: Repeat::Safe, priority: Priority::Background }
    }

    /// A change.
    pub(crate) fn change(command: &'static str) -> Self {
        Self { repeat: Repeat::IfNotDone, ..Self::read(command) }
    }

    /// Goes before others: what is given back is no longer paid for.
    pub(crate) fn urgent(mut self) -> Self {
        self.priority = Priority::Urgent;
        self
    }

    /// Adds a parameter.
    pub(crate) fn with(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.parameters.push((name.into(), value.to_string()));
        self
    }

    /// Adds a parameter if there is a value.
    pub(crate) fn maybe(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a list, its entries separated by commas; an empty one is not sent.
    pub(crate) fn list(self, name: &str, values: &[impl ToString]) -> Self {
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        if values.is_empty() { self } else { self.with(name, values.join(",")) }
    }
}

/// The entries of a list, shared by all who asked.
type Entries = Arc<Vec<Map<String, Value>>>;

/// Lists under way, by server and by what is asked with whose key.
pub(crate) type Shared = Flights<(String, String), Answer<Entries>>;

/// One server, called as one user; clones share everything.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) profile: Arc<Profile>,
    pub(crate) host: Arc<str>,
    pub(crate) http: HttpClient,
    pub(crate) gate: Gate,
    pub(crate) flights: Arc<Shared>,
    pub(crate) clock: Clock,
    pub(crate) meter: Meter,
    pub(crate) timing: Timing,
    pub(crate) page_size: u32,
    pub(crate) use_get: bool,
}

impl Caller {
    /// Makes a call.
    pub(crate) async fn call(&self, call: &Call) -> Answer<Said> {
        let end = self.clock.instant() + self.timing.call;
        let mut pauses = self.timing.pauses.iter();
        loop {
            let cause = match self.attempt(call, end).await {
                Ok(said) => return Ok(said),
                Err(cause) => cause,
            };
            let pause = if again(&cause, call.repeat) { pauses.next() } else { None };
            let pause = pause.map(|pause| cause.retry_after().unwrap_or_default().max(*pause));
            match pause {
                // A pause that leaves no time for another request would only delay the answer.
                Some(pause) if self.clock.instant() + pause < end => tokio::time::sleep(pause).await,
                _ => return Err(self.error(call.command, cause)),
            }
        }
    }

    /// Makes a call and reads the one thing it gives.
    pub(crate) async fn one<T>(&self, call: Call, read: impl FnOnce(Item<'_>) -> Result<T, String>) -> Answer<T> {
        let said = self.call(&call).await?;
        read(Item(&said)).map_err(|detail| self.error(call.command, Cause::Malformed { detail }))
    }

    /// Reads a list to its end; those who ask the same at the same time share the answer.
    pub(crate) async fn list<T>(
        &self,
        call: Call,
        noun: &'static str,
        read: impl Fn(Item<'_>) -> Result<T, String>,
    ) -> Answer<Vec<T>> {
        let command = call.command;
        // Without an expiry the signature says who asks and what, and nothing about either.
        let asked = canonical(&self.unsigned(&call));
        let key = (self.profile.url.clone(), signature(&self.profile.secret_key, &asked));
        let this = self.clone();
        let entries = self.flights.join(key, || async move { this.pages(call, noun).await.map(Arc::new) }).await?;
        let all = entries.iter().map(|entry| read(Item(entry))).collect::<Result<Vec<T>, String>>();
        all.map_err(|detail| self.error(command, Cause::Malformed { detail }))
    }

    async fn pages(&self, call: Call, noun: &'static str) -> Answer<Vec<Map<String, Value>>> {
        let (mut pager, mut found) = (Pager::new(self.page_size), Vec::new());
        loop {
            let page = call.clone().with("page", pager.page()).with("pagesize", pager.size());
            let mut said = match self.call(&page).await {
                Err(error) if error.kind() == Kind::PageSize => {
                    pager.shrink().map_err(|error| self.error(call.command, error.into()))?;
                    continue;
                }
                said => said?,
            };
            let count = said.get("count").and_then(Value::as_u64);
            let entries = match said.remove(noun) {
                None => Vec::new(),
                Some(Value::Array(entries)) => entries,
                Some(_) => {
                    let detail = format!("{noun} is not a list");
                    return Err(self.error(call.command, Cause::Malformed { detail }));
                }
            };
            let (received, before) = (entries.len(), found.len());
            for entry in entries {
                let Value::Object(entry) = entry else {
                    let detail = format!("{noun} holds something that is not an object");
                    return Err(self.error(call.command, Cause::Malformed { detail }));
                };
                let id = Item(&entry).text("id").map(str::to_owned).ok_or_else(|| {
                    self.error(call.command, Cause::Malformed { detail: "an entry has no id".to_owned() })
                })?;
                if pager.is_new(&id) {
                    found.push(entry);
                }
            }
            let more = pager.turn(received, found.len() - before, count);
            if !more.map_err(|error| self.error(call.command, error.into()))? {
                return Ok(found);
            }
        }
    }

    /// An error of this caller.
    pub(crate) fn error(&self, command: &'static str, cause: Cause) -> Error {
        Error::new(command, &self.host, cause)
    }

    async fn attempt(&self, call: &Call, end: Instant) -> Result<Said, Cause> {
        let turn = async {
            let slot = self.gate.slots.acquire().await;
            // One token always fits, and the slots are never closed.
            let _ = self.gate.line.take(1, call.priority).await;
            slot
        };
        let _slot = timeout_at(end, turn).await.map_err(|_| Cause::Crowded)?;
        let (request, signed) = self.request(call)?;
        let begin = self.clock.instant();
        let judged = match timeout_at(end, self.http.send(request)).await {
            Ok(Ok(response)) => self.judged(response, &signed).await,
            Ok(Err(error)) => Err(Cause::NoAnswer(Unanswered::from(error))),
            Err(_) => {
                let error = HttpError::Timeout { host: self.host.to_string(), limit: self.timing.call };
                Err(Cause::NoAnswer(Unanswered::from(error)))
            }
        };
        let elapsed = self.clock.instant() - begin;
        let cause = judged.as_ref().err();
        self.meter.record(&self.host, call.command, cause, elapsed);
        let (operation, host, elapsed_ms) = (call.command, &*self.host, elapsed.as_millis());
        match cause {
            None => tracing::debug!(service = "cloudstack", operation, host, elapsed_ms, "called CloudStack"),
            Some(cause) => {
                let error = kit::class::chain(cause);
                tracing::debug!(
                    service = "cloudstack",
                    operation,
                    host,
                    elapsed_ms,
                    error,
                    "CloudStack refused or failed"
                );
            }
        }
        if cause.is_some_and(|cause| cause.kind() == Kind::Throttled) {
            self.gate.line.penalise();
        }
        judged
    }

    fn unsigned(&self, call: &Call) -> Vec<(String, String)> {
        let mut parameters = call.parameters.clone();
        for (name, value) in [
            ("command", call.command),
            ("response", "json"),
            ("apiKey", self.profile.api_key.expose()),
            ("signatureVersion", "3"),
        ] {
            parameters.push((name.to_owned(), value.to_owned()));
        }
        parameters
    }

    /// The request, and its signature.
    fn request(&self, call: &Call) -> Result<(Request<Bytes>, String), Cause> {
        let mut parameters = self.unsigned(call);
        let expires = self.clock.now().saturating_add(EXPIRY).unwrap_or(jiff::Timestamp::MAX);
        parameters.push(("expires".to_owned(), moment(expires)));
        let signed = signature(&self.profile.secret_key, &canonical(&parameters));
        parameters.push(("signature".to_owned(), signed.clone()));
        let form = form(&parameters);
        let url = &self.profile.url;
        let request = if self.use_get && url.len() + form.len() < LONGEST_URL {
            Request::get(format!("{url}?{form}")).body(Bytes::new())
        } else {
            let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
            Request::post(url).header(CONTENT_TYPE, kind).body(Bytes::from(form))
        };
        // What the library says may quote the address, and with it the key.
        let request = request.map_err(|_| Cause::Request { detail: "the address is not a URL".to_owned() })?;
        Ok((request, signed))
    }

    async fn judged(&self, response: Response<Bytes>, signed: &str) -> Result<Said, Cause> {
        let (parts, body) = response.into_parts();
        let large = body.len() > LARGE;
        let (now, profile, signed) = (self.clock.now(), Arc::clone(&self.profile), signed.to_owned());
        let judge = move || {
            let hidden = [profile.api_key.expose().as_str(), profile.secret_key.expose().as_str(), &signed];
            judge(parts.status, &parts.headers, &body, now, &hidden)
        };
        if !large {
            return judge();
        }
        let judged = tokio::task::spawn_blocking(judge).await;
        judged.unwrap_or_else(|_| Err(Cause::Malformed { detail: "it could not be read".to_owned() }))
    }
}

/// Whether a call is made again.
fn again(cause: &Cause, repeat: Repeat) -> bool {
    if cause.maybe_done() && repeat == Repeat::IfNotDone {
        return false;
    }
    // A crowded line does not get shorter by standing in it again; the caller's own back-off is longer.
    !matches!(cause, Cause::Crowded) && matches!(cause.kind(), Kind::Throttled | Kind::Server | Kind::Transport)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use kit::class::{Class, Classify};
    use kit::http::Carry;

    use super::super::{CloudStacks, Options};
    use super::*;
    use crate::limits::Limits;
    use crate::port::CloudStack;

    /// A server that is busy the first time, with these words about when it is not, and notes when it was asked.
    struct Busy {
        says: &'static str,
        clock: Clock,
        asked: Mutex<Vec<Instant>>,
    }

    impl Carry for Busy {
        fn carry(&self, _: Request<Bytes>) -> BoxFuture<'static, Option<Response<Bytes>>> {
            let mut asked = self.asked.lock().unwrap();
            asked.push(self.clock.instant());
            let answer = if asked.len() == 1 {
                let body = Bytes::from_static(br#"{"x":{"errorcode":503,"errortext":"busy"}}"#);
                Response::builder().status(503).header("retry-after", self.says).body(body)
            } else {
                Response::builder().body(Bytes::from_static(br#"{"listzonesresponse":{}}"#))
            };
            std::future::ready(Some(answer.unwrap())).boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_asked_again_when_it_says_and_not_before() {
        let data = [("api-url", "https://acs.example/client/api"), ("api-key", "k"), ("secret-key", "s")];
        let data: BTreeMap<String, Vec<u8>> =
            data.into_iter().map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).collect();
        for (says, pause) in [("7", Some(7_000)), ("soon", Some(500)), ("0", Some(500)), ("99999", None)] {
            let clock = Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap(), 1);
            let server = Arc::new(Busy { says, clock: clock.clone(), asked: Mutex::default() });
            let mut options = Options::new("berth/test");
            options.limits = Limits::UNLIMITED;
            options.carrier = Some(Arc::<Busy>::clone(&server));
            let profile = Profile::from_secret(&data, &options.policy).unwrap();
            let client = CloudStacks::new(options, clock.clone(), Meter::default()).client(&profile).unwrap();
            let begun = clock.instant();
            let answer = client.list_zones(None).await;
            let asked: Vec<u128> =
                server.asked.lock().unwrap().iter().map(|at| at.duration_since(begun).as_millis()).collect();
            match pause {
                Some(pause) => assert_eq!((answer.unwrap(), asked), (Vec::new(), vec![0, pause]), "{says}"),
                // Longer than a call may take: whoever called waits as long, and nobody holds a place meanwhile.
                None => {
                    let hour = Class::Transient { at_least: Some(Duration::from_secs(3600)) };
                    assert_eq!((answer.unwrap_err().class(), asked), (hour, vec![0]), "{says}");
                    assert_eq!(clock.instant(), begun);
                }
            }
        }
    }

    fn refused(code: u16, text: &str) -> Cause {
        Cause::Refused { code, inner: None, text: text.to_owned(), skewed: false, retry_after: None }
    }

    #[test]
    fn an_unknown_outcome_is_repeated_only_where_that_is_the_same_request() {
        let timeout = HttpError::Timeout { host: "h".to_owned(), limit: Duration::from_secs(1) };
        for cause in [refused(530, "x"), Cause::NoAnswer(Unanswered::from(timeout))] {
            assert!(again(&cause, Repeat::Safe) && !again(&cause, Repeat::IfNotDone), "{cause:?}");
        }
        let source = Box::new(std::io::Error::other("x"));
        let connect = HttpError::Connect { host: "h".to_owned(), source };
        for cause in [refused(429, "x"), Cause::NoAnswer(Unanswered::from(connect))] {
            assert!(again(&cause, Repeat::IfNotDone), "{cause:?}");
        }
    }

    #[test]
    fn what_lasts_is_not_repeated() {
        for cause in [
            refused(401, "x"),
            refused(431, "x"),
            refused(432, "x"),
            refused(532, "x"),
            refused(533, "x"),
            Cause::Malformed { detail: String::new() },
            Cause::Crowded,
            Cause::Request { detail: String::new() },
        ] {
            assert!(!again(&cause, Repeat::Safe), "{cause:?}");
        }
    }

    #[test]
    fn a_call_has_time_for_all_its_requests() {
        let timing = Timing::default();
        assert_eq!(timing.request, Duration::from_secs(30));
        assert_eq!(timing.call, Duration::from_millis(127_500));
        assert_eq!(timing.pauses.map(|pause| pause.as_millis()), [500, 2000, 5000]);
    }
}
