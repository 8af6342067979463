//! What a test holds of any simulated service.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::log::{Log, Logged};
use super::{Answers, Shared};

/// A world with settings, a fault script and a log.
pub trait Stage: Answers {
    /// How it behaves.
    type Settings;
    /// A line of its script.
    type Fault;
    /// A request in its log.
    type Entry: Logged;

    /// How it behaves.
    fn settings(&mut self) -> &mut Self::Settings;

    /// Adds a line to the script.
    fn add_fault(&mut self, fault: Self::Fault);

    /// Nothing goes wrong any more.
    fn clear_script(&mut self);

    /// The requests that came.
    fn log(&mut self) -> &mut Log<Self::Entry>;
}

/// A world that is being served, from behind. Cheap to clone; the server stops when the last one is gone.
#[derive(Debug)]
pub struct Held<W> {
    shared: Arc<Shared<W>>,
    stop: CancellationToken,
    _guard: Arc<DropGuard>,
}

impl<W> Clone for Held<W> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), stop: self.stop.clone(), _guard: Arc::clone(&self._guard) }
    }
}

impl<W> Held<W> {
    pub(super) fn new(shared: Arc<Shared<W>>, stop: CancellationToken) -> Self {
        Self { shared, _guard: Arc::new(stop.clone().drop_guard()), stop }
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, W> {
        self.shared.world()
    }

    /// The world's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Moves the world's time forward. Clients may go on signing with their own.
    pub fn advance(&self, by: Duration) {
        self.shared.clock.advance(by);
    }

    /// Looks at or changes anything.
    pub fn with<T>(&self, look: impl FnOnce(&mut W, Timestamp) -> T) -> T {
        let now = self.now();
        look(&mut self.world(), now)
    }

    /// Stops the server; connections end at once.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

impl<W: Answers> Held<W> {
    /// Answers one whole request, as a connection would; `None` when that would end without an answer.
    pub async fn carry(&self, request: http::Request<bytes::Bytes>) -> Option<http::Response<bytes::Bytes>> {
        super::carry(&self.shared, request).await
    }
}

impl<W: Stage> Held<W> {
    /// Changes how the world behaves.
    pub fn settings(&self, change: impl FnOnce(&mut W::Settings)) {
        change(self.world().settings());
    }

    /// Adds a line to the fault script.
    pub fn script(&self, fault: W::Fault) {
        self.world().add_fault(fault);
    }

    /// Nothing goes wrong any more.
    pub fn clear_script(&self) {
        self.world().clear_script();
    }

    /// The requests so far.
    #[must_use]
    pub fn log(&self) -> Vec<W::Entry> {
        self.world().log().entries()
    }

    /// How many requests of a kind came.
    #[must_use]
    pub fn calls(&self, call: &str) -> usize {
        self.world().log().count(call)
    }

    /// Forgets the requests so far.
    pub fn clear_log(&self) {
        self.world().log().clear();
    }
}
