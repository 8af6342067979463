//! Watch streams: JSON lines from the history, with bookmarks, expiry and the faults of a client.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Inner, Line, http::Negotiated, kinds::Kind, select::Selector, status::Failure, store::Event, write::in_version,
};

/// How long the server waits between bookmarks, and how long before its end it sends the last.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// What a watch asked for.
pub(crate) struct WatchSpec {
    pub(crate) kind: Arc<Kind>,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) selector: Selector,
    pub(crate) shown: Negotiated,
    pub(crate) from: u64,
    /// The history from there is gone: the first line says so.
    pub(crate) expired: bool,
    /// Objects that are there already come first, as additions.
    pub(crate) initial: bool,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Option<Duration>,
}

struct Watch {
    inner: Arc<Inner>,
    line: Arc<Line>,
    spec: WatchSpec,
    cursor: u64,
    lines: VecDeque<(Duration, Bytes)>,
    cuts: (u64, u64),
    expiries: (u64, u64),
    nudges: u64,
    deadline: Option<Instant>,
    next_bookmark: Option<Instant>,
    over: bool,
    _open: super::OpenWatch,
}

/// The lines of a watch, until it ends.
pub(crate) fn stream(
    inner: Arc<Inner>,
    line: Arc<Line>,
    spec: WatchSpec,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
    let now = Instant::now();
    let deadline = spec.timeout.map(|t| now + t);
    let next_bookmark = spec.bookmarks.then(|| {
        let regular = now + BOOKMARK_EVERY;
        match spec.timeout {
            Some(t) if t > BOOKMARK_BEFORE_END => regular.min(now + t - BOOKMARK_BEFORE_END),
            _ => regular,
        }
    });
    let mut watch = Watch {
        cuts: (inner.cuts(), line.cuts()),
        expiries: (inner.expiries(), line.expiries()),
        nudges: inner.nudges(),
        cursor: spec.from,
        lines: VecDeque::new(),
        deadline,
        next_bookmark,
        over: false,
        _open: inner.open_watch(),
        inner,
        line,
        spec,
    };
    if watch.spec.expired {
        let message = format!("too old resource version: {}", watch.spec.from);
        watch.lines.push_back((Duration::ZERO, expired(&message)));
        watch.over = true;
    } else if watch.spec.initial {
        watch.start();
    }
    futures::stream::unfold(watch, |mut watch| async move {
        let item = watch.next().await?;
        Some((Ok(item), watch))
    })
}

impl Watch {
    fn start(&mut self) {
        let core = self.inner.core();
        let at = self.spec.from;
        let there = core.store.range_at(at, &self.spec.kind.resource(), &self.spec.namespace);
        drop(core);
        for (_, object) in there {
            if self.spec.selector.matches(&object) {
                let line = self.render("ADDED", &object);
                self.lines.push_back((Duration::ZERO, line));
            }
        }
    }

    fn render(&self, word: &str, object: &Arc<Value>) -> Bytes {
        let object = in_version(&self.spec.kind, &self.spec.version, object);
        line(word, &self.spec.shown.show(object))
    }

    async fn next(&mut self) -> Option<Bytes> {
        let inner = Arc::clone(&self.inner);
        loop {
            if self.line.crashed() || self.line.disconnected() {
                return None;
            }
            if let Some((delay, bytes)) = self.lines.pop_front() {
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                return Some(bytes);
            }
            if self.over {
                return None;
            }
            // Begun before looking, so that a change in between wakes us at once.
            let ticked = inner.ticks.notified();
            if self.cuts != (self.inner.cuts(), self.line.cuts()) {
                return None;
            }
            if self.expiries != (self.inner.expiries(), self.line.expiries()) {
                self.over = true;
                return Some(expired(&format!("too old resource version: {}", self.cursor)));
            }
            self.pull();
            if !self.lines.is_empty() || self.over {
                continue;
            }
            if self.nudges != self.inner.nudges() {
                self.nudges = self.inner.nudges();
                if self.spec.bookmarks {
                    return Some(self.bookmark());
                }
            }
            let forever = Instant::now() + Duration::from_secs(86_400 * 365);
            let deadline = self.deadline.unwrap_or(forever);
            let bookmark = self.next_bookmark.unwrap_or(forever);
            tokio::select! {
                biased;
                () = ticked => {}
                () = tokio::time::sleep_until(deadline.min(bookmark)) => {
                    if deadline <= bookmark {
                        return None;
                    }
                    self.next_bookmark = Some(bookmark + BOOKMARK_EVERY);
                    return Some(self.bookmark());
                }
            }
        }
    }

    fn bookmark(&self) -> Bytes {
        let object = json!({
            "apiVersion": self.spec.kind.api_version(&self.spec.version), "kind": self.spec.kind.kind,
            "metadata": { "resourceVersion": self.cursor.to_string(), "creationTimestamp": null },
        });
        line("BOOKMARK", &self.spec.shown.show(object))
    }

    /// Takes what happened since the last look.
    fn pull(&mut self) {
        let resource = self.spec.kind.resource();
        let (events, upto, gone) = {
            let core = self.inner.core();
            if core.store.compacted > self.cursor {
                self.over = true;
                let message = format!("too old resource version: {} ({})", self.cursor, core.store.compacted);
                self.lines.push_back((Duration::ZERO, expired(&message)));
                return;
            }
            let upto = self.line.visible(core.store.rev, &self.info());
            let events: Vec<Event> = core
                .store
                .since(self.cursor)
                .take_while(|e| e.rev <= upto)
                .filter(|e| {
                    e.key.resource == resource
                        && (self.spec.namespace.is_empty() || e.key.namespace == self.spec.namespace)
                })
                .cloned()
                .collect();
            (events, upto, core.registry.get(&resource).is_none())
        };
        self.cursor = self.cursor.max(upto);
        for event in events {
            let was = event.before.as_ref().is_some_and(|b| self.spec.selector.matches(b));
            let is = !event.deleted && self.spec.selector.matches(&event.object);
            let word = match (was, is) {
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
                (false, false) => continue,
            };
            let action = self.line.on_event(&resource, word);
            if action.drop {
                continue;
            }
            let bytes = self.render(word, &event.object);
            self.lines.push_back((action.delay, bytes.clone()));
            if action.repeat {
                self.lines.push_back((Duration::ZERO, bytes));
            }
        }
        self.over |= gone;
    }

    fn info(&self) -> super::faults::RequestInfo {
        super::faults::RequestInfo {
            client: self.line.name().to_owned(),
            method: "GET".into(),
            resource: self.spec.kind.resource(),
            watch: true,
            ..Default::default()
        }
    }
}

/// The word comes first, as real servers send it: clients read what follows by it.
fn line(word: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":{},\"object\":{object}}}\n", json!(word)))
}

fn expired(message: &str) -> Bytes {
    line("ERROR", &Failure::expired(message).body())
}
