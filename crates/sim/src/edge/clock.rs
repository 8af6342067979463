//! The simulator's time: it follows tokio's, which a test may pause, and can be moved forward by hand.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::time::later;

/// Two times: the world's, in which hosts become ready and tokens come back, and the one requests are signed with.
#[derive(Debug)]
pub(crate) struct Clock {
    base: Timestamp,
    origin: Instant,
    frozen: bool,
    shift: Mutex<Duration>,
}

impl Clock {
    pub(crate) fn new(base: Option<Timestamp>, frozen: bool) -> Self {
        let base = base.unwrap_or_else(Timestamp::now);
        Self { base, origin: Instant::now(), frozen, shift: Mutex::new(Duration::ZERO) }
    }

    /// The world's time.
    pub(crate) fn now(&self) -> Timestamp {
        let shift = *self.shift.lock().unwrap_or_else(PoisonError::into_inner);
        let from = if self.frozen { self.base } else { self.signing() };
        later(from, shift)
    }

    /// The time clients sign with: it goes on by itself, and moving the world forward does not move their clocks.
    pub(crate) fn signing(&self) -> Timestamp {
        later(self.base, self.origin.elapsed())
    }

    pub(crate) fn advance(&self, by: Duration) {
        let mut shift = self.shift.lock().unwrap_or_else(PoisonError::into_inner);
        *shift = shift.saturating_add(by);
    }
}
