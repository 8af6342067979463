//! What people are told, sent behind what they wait for.
//!
//! An event costs the server as much as the write that it tells of. One sender takes them in order, one at a time: while very
//! much happens at once, it is done first and told of afterwards.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::events::Events;
use crate::write::Target;

/// So many wait at most, about half a kilobyte each; beyond that whoever has something to say waits until it is sent.
const WAITING: usize = 16 * 1024;
/// What is not sent this long after the end is not sent.
const LAST: Duration = Duration::from_secs(1);

/// One event.
#[derive(Debug)]
struct Word {
    target: Target,
    warning: bool,
    reason: String,
    text: String,
}

/// Takes events to be sent.
pub struct Teller {
    events: Events,
    line: mpsc::Sender<Word>,
}

impl Teller {
    /// A teller, and what sends its events.
    #[must_use]
    pub fn new(events: Events) -> (Self, Sending) {
        let (line, waiting) = mpsc::channel(WAITING);
        (Self { events: events.clone(), line }, Sending { events, line: waiting })
    }

    /// Says something about `target`, soon.
    pub async fn say(&self, target: &Target, warning: bool, reason: &str, text: &str) {
        match self.line.try_reserve() {
            Ok(place) => {
                let (target, reason, text) = (target.clone(), reason.to_owned(), text.to_owned());
                place.send(Word { target, warning, reason, text });
            }
            Err(_) => self.events.say(target, warning, reason, text).await,
        }
    }
}

/// Sends what a [`Teller`] took.
pub struct Sending {
    events: Events,
    line: mpsc::Receiver<Word>,
}

impl Sending {
    /// Sends until it is told to stop, and then what is there already, for a moment.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let word = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                word = self.line.recv() => word,
            };
            match word {
                Some(word) => self.send(word).await,
                None => stop.cancelled().await,
            }
        }
        let rest = async {
            while let Ok(word) = self.line.try_recv() {
                self.send(word).await;
            }
        };
        if tokio::time::timeout(LAST, rest).await.is_err() {
            tracing::warn!(left = self.line.len(), "events were not sent before the end");
        }
    }

    async fn send(&self, word: Word) {
        self.events.say(&word.target, word.warning, &word.reason, &word.text).await;
    }
}
