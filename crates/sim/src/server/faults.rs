//! Faults on requests and on watch events.

use std::{fmt, sync::Arc, time::Duration};

/// What a fault rule or script sees of a request.
#[derive(Clone, Debug, Default)]
pub struct RequestInfo {
    /// The client handle's name.
    pub client: String,
    /// The `User-Agent` header; empty when there was none.
    pub agent: String,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// The query as sent.
    pub query: String,
    /// `plural.group`; empty when no type is addressed.
    pub resource: String,
    /// The object's name; empty for collections.
    pub name: String,
    /// Whether it is a watch.
    pub watch: bool,
    /// Whether it can change the store.
    pub mutating: bool,
}

impl RequestInfo {
    /// Whether it lists or watches a collection: what fills a cache.
    #[must_use]
    pub fn fills_cache(&self) -> bool {
        !self.mutating && !self.resource.is_empty() && (self.watch || self.name.is_empty())
    }
}

/// What is done to a matching request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Wait this long before the store is reached.
    Delay(Duration),
    /// Answer 409 `Conflict`; the store is not reached.
    Conflict,
    /// Answer with this status code; the store is not reached.
    Status(u16),
    /// Answer 429 with `Retry-After` in seconds; the store is not reached.
    TooMany(u32),
    /// Fail the connection; the store is not reached.
    Refuse,
    /// Never answer; the store is not reached.
    Hang,
    /// Commit, then fail the connection instead of answering.
    DropAnswer,
    /// Commit, then never answer.
    HangAfter,
}

/// What is done to one watch event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventAction {
    /// The event is not delivered.
    pub drop: bool,
    /// The event is delivered twice.
    pub repeat: bool,
    /// The event, and all after it on that watch, come this much later.
    pub delay: Duration,
}

type Predicate = Arc<dyn Fn(&RequestInfo) -> bool + Send + Sync>;

/// Which requests a fault meets. Every part that is set must match.
#[derive(Clone, Default)]
pub struct Rule {
    method: Option<String>,
    prefix: Option<String>,
    contains: Option<String>,
    agent: Option<String>,
    client: Option<String>,
    predicate: Option<Predicate>,
    first: u64,
    times: Option<u64>,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("method", &self.method)
            .field("prefix", &self.prefix)
            .field("contains", &self.contains)
            .field("agent", &self.agent)
            .field("client", &self.client)
            .field("first", &self.first)
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}

impl Rule {
    /// Meets the first request; narrow it with the other calls.
    #[must_use]
    pub fn any() -> Self {
        Self { first: 1, times: Some(1), ..Self::default() }
    }

    /// Only this HTTP method.
    #[must_use]
    pub fn method(mut self, method: &str) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Only paths that begin with this.
    #[must_use]
    pub fn path_prefix(mut self, prefix: &str) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Only paths that contain this.
    #[must_use]
    pub fn path_contains(mut self, part: &str) -> Self {
        self.contains = Some(part.into());
        self
    }

    /// Only user agents that contain this.
    #[must_use]
    pub fn agent(mut self, part: &str) -> Self {
        self.agent = Some(part.into());
        self
    }

    /// Only the client handle of this name.
    #[must_use]
    pub fn client(mut self, name: &str) -> Self {
        self.client = Some(name.into());
        self
    }

    /// Only requests this function accepts.
    #[must_use]
    pub fn matching(mut self, accepts: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some(Arc::new(accepts));
        self
    }

    /// Begins with the nth match, counted from 1.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.first = nth.max(1);
        self
    }

    /// Meets this many matches (1 unless said).
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Meets every match from the first on.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    fn accepts(&self, info: &RequestInfo) -> bool {
        self.method.as_ref().is_none_or(|m| *m == info.method)
            && self.prefix.as_ref().is_none_or(|p| info.path.starts_with(p.as_str()))
            && self.contains.as_ref().is_none_or(|p| info.path.contains(p.as_str()))
            && self.agent.as_ref().is_none_or(|a| info.agent.contains(a.as_str()))
            && self.client.as_ref().is_none_or(|c| *c == info.client)
            && self.predicate.as_ref().is_none_or(|p| p(info))
    }
}

/// Names an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultId(usize);

struct Fault {
    rule: Rule,
    action: Action,
    seen: u64,
    hits: u64,
    active: bool,
}

#[derive(Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn add(&mut self, rule: Rule, action: Action) -> FaultId {
        self.0.push(Fault { rule, action, seen: 0, hits: 0, active: true });
        FaultId(self.0.len() - 1)
    }

    pub(crate) fn hits(&self, id: FaultId) -> u64 {
        self.0.get(id.0).map_or(0, |f| f.hits)
    }

    pub(crate) fn stop(&mut self, id: FaultId) {
        if let Some(fault) = self.0.get_mut(id.0) {
            fault.active = false;
        }
    }

    pub(crate) fn stop_all(&mut self) {
        self.0.iter_mut().for_each(|f| f.active = false);
    }

    pub(crate) fn take(&mut self, info: &RequestInfo) -> Vec<Action> {
        let mut out = Vec::new();
        for fault in self.0.iter_mut().filter(|f| f.active) {
            if !fault.rule.accepts(info) {
                continue;
            }
            fault.seen += 1;
            let open = fault.rule.times.is_none_or(|t| fault.seen < fault.rule.first.saturating_add(t));
            if fault.seen >= fault.rule.first && open {
                fault.hits += 1;
                out.push(fault.action.clone());
            }
        }
        out
    }
}
