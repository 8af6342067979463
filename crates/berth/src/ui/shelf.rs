//! The one document that all browsers get: read at most once in a while, however many ask, and not at all while nobody does.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kit::clock::Clock;
use kit::flight::Flights;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::KIND;
use super::fleet::Fleet;
use crate::explain::API_VERSION;

/// Reads the fleet once.
pub type Read = Box<dyn Fn() -> Pin<Box<dyn Future<Output = anyhow::Result<Fleet>> + Send>> + Send + Sync>;

/// A fleet that takes long to read is read less often: at most this part of the time is spent on it.
const PART: u32 = 4;

/// A document as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The document.
    pub body: Bytes,
    /// Changes with the document, and only with it.
    pub etag: String,
}

impl Page {
    /// A body with its tag.
    pub fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let etag = format!("\"{:016x}-{:x}\"", hasher.finish(), body.len());
        Self { body, etag }
    }
}

/// The document, or why there is none.
pub type Kept = Result<Arc<Page>, Arc<str>>;

/// Keeps the document.
pub enum Shelf {
    /// One that never changes.
    Saved(Arc<Page>),
    /// One that is read again and again.
    Live(Arc<Live>),
}

/// A document that is read again and again.
pub struct Live {
    read: Read,
    interval: Duration,
    clock: Clock,
    flights: Flights<(), Kept>,
    memory: Mutex<Memory>,
}

/// What was read last.
#[derive(Default)]
struct Memory {
    /// Until when it is not read again, and what is answered meanwhile.
    kept: Option<(Instant, Kept)>,
    /// The last fleet that could be read.
    last: Option<Fleet>,
}

impl Shelf {
    /// A document that was read elsewhere.
    pub fn saved(document: Value) -> Self {
        Self::Saved(Arc::new(Page::new(document.to_string())))
    }

    /// What this reads, at most once an interval.
    pub fn live(read: Read, interval: Duration, clock: Clock) -> Self {
        let memory = Mutex::new(Memory::default());
        Self::Live(Arc::new(Live { read, interval, clock, flights: Flights::new(), memory }))
    }

    /// The document, not older than the interval.
    pub async fn get(&self) -> Kept {
        match self {
            Self::Saved(page) => Ok(Arc::clone(page)),
            Self::Live(live) => live.get().await,
        }
    }
}

impl Live {
    async fn get(self: &Arc<Self>) -> Kept {
        let now = self.clock.instant();
        if let Some((_, kept)) = self.memory().kept.as_ref().filter(|(until, _)| now < *until) {
            return kept.clone();
        }
        let this = Arc::clone(self);
        self.flights.join((), || async move { this.renew().await }).await
    }

    async fn renew(&self) -> Kept {
        let start = self.clock.instant();
        let read = (self.read)().await;
        let took = self.clock.instant().saturating_duration_since(start);
        let last = self.memory().last.clone();
        let fleet = match (read, last) {
            (Ok(fleet), _) => Ok(fleet),
            // What was seen before is better than nothing, as long as it says that it is old.
            (Err(error), Some(last)) => Ok(Fleet { error: Some(format!("{error:#}")), ..last }),
            (Err(error), None) => Err(Arc::from(format!("{error:#}"))),
        };
        let kept = fleet.and_then(|fleet| {
            let page = page(&fleet).map_err(|error| Arc::from(error.to_string()))?;
            self.memory().last = Some(Fleet { error: None, ..fleet });
            Ok(Arc::new(page))
        });
        let until = self.clock.instant() + self.interval.max(took * PART);
        self.memory().kept = Some((until, kept.clone()));
        kept
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The document of a fleet.
fn page(fleet: &Fleet) -> serde_json::Result<Page> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Document<'a> {
        api_version: &'static str,
        kind: &'static str,
        #[serde(flatten)]
        fleet: &'a Fleet,
    }
    Ok(Page::new(serde_json::to_vec(&Document { api_version: API_VERSION, kind: KIND, fleet })?))
}
