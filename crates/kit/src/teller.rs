//! What people are told, sent behind what they wait for.
//!
//! An event costs the server as much as the write that it tells of. One sender takes them in order, one at a time, and while
//! the process is crowded not even that: what happens is done first and told of afterwards, within half a minute.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::events::Events;
use crate::manager::{Manager, Stage};
use crate::write::Target;

/// So many wait at most, about half a kilobyte each; beyond that whoever has something to say waits until it is sent.
const WAITING: usize = 16 * 1024;
/// An event waits this long for the crowd to go; then it is sent all the same.
const PATIENCE: Duration = Duration::from_secs(30);
/// Fewer passes than these at once are no crowd. A pass may wait for a cloud for long, and a few such hold up no event.
const CROWD: usize = 8;
/// What is not sent this long after the end is not sent. A process that goes amid a crowd may have many.
const LAST: Duration = Duration::from_secs(5);

/// How many passes of all rooms are under way.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    here: AtomicUsize,
    thinner: Notify,
}

impl Crowd {
    /// One more, until what is returned is dropped.
    pub(crate) fn join(&self) -> Joined<'_> {
        self.here.fetch_add(1, Ordering::SeqCst);
        Joined(self)
    }

    /// Waits until there is no crowd.
    async fn gone(&self) {
        loop {
            let thinner = self.thinner.notified();
            if self.here.load(Ordering::SeqCst) < CROWD {
                return;
            }
            thinner.await;
        }
    }
}

/// A pass that is under way.
pub(crate) struct Joined<'c>(&'c Crowd);

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        if self.0.here.fetch_sub(1, Ordering::SeqCst) == CROWD {
            self.0.thinner.notify_waiters();
        }
    }
}

/// One event.
#[derive(Debug)]
struct Word {
    target: Target,
    warning: bool,
    reason: String,
    text: String,
    /// When it is sent, crowd or not.
    by: Instant,
}

/// The tellers of a process, by room.
#[derive(Default)]
struct Tellers(Mutex<HashMap<&'static str, Teller>>);

/// Takes events to be sent. Clones share one line.
#[derive(Clone)]
pub struct Teller {
    events: Events,
    clock: Clock,
    line: mpsc::Sender<Word>,
}

impl Teller {
    /// The teller of a room, whose events are sent as long as the room decides, in the order in which they were said.
    #[must_use]
    pub fn start(manager: &Manager, room: &'static str) -> Self {
        let tellers = manager.common::<Tellers>();
        let mut tellers = tellers.0.lock().unwrap_or_else(PoisonError::into_inner);
        tellers.entry(room).or_insert_with(|| Self::begin(manager, room)).clone()
    }

    fn begin(manager: &Manager, room: &'static str) -> Self {
        let events = Events::new(manager.client().clone(), room, Some(manager.instance().to_owned()));
        let (teller, sending) = Self::new(events, manager.clock().clone(), manager.common());
        manager.spawn(Stage::Decide, &format!("{room} events"), |stop| sending.run(stop));
        teller
    }

    fn new(events: Events, clock: Clock, crowd: Arc<Crowd>) -> (Self, Sending) {
        let (line, waiting) = mpsc::channel(WAITING);
        (Self { events: events.clone(), clock, line }, Sending { events, crowd, line: waiting })
    }

    /// Says something about `target`, soon.
    pub async fn say(&self, target: &Target, warning: bool, reason: &str, text: &str) {
        match self.line.try_reserve() {
            Ok(place) => {
                let (target, reason, text) = (target.clone(), reason.to_owned(), text.to_owned());
                let by = self.clock.instant() + PATIENCE;
                place.send(Word { target, warning, reason, text, by });
            }
            Err(_) => self.events.say(target, warning, reason, text).await,
        }
    }
}

/// Sends what a [`Teller`] took.
struct Sending {
    events: Events,
    crowd: Arc<Crowd>,
    line: mpsc::Receiver<Word>,
}

impl Sending {
    /// Sends until it is told to stop, and then what is there already, for a moment.
    async fn run(mut self, stop: CancellationToken) {
        loop {
            let word = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                word = self.line.recv() => word,
            };
            match word {
                Some(word) => {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => {}
                        // In time or not: then it is sent.
                        _ = timeout_at(word.by, self.crowd.gone()) => {}
                    }
                    self.send(word).await;
                }
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use api::key::ObjectKey;
    use http::{Request, Response};
    use jiff::Timestamp;
    use kube::Client;
    use kube::client::Body;
    use tokio::time::sleep;

    use super::*;
    use crate::kinds::Kind;

    /// A server that takes every event and counts them.
    fn server(taken: &Arc<AtomicUsize>) -> Client {
        let taken = Arc::clone(taken);
        let answer = tower::service_fn(move |_: Request<Body>| {
            taken.fetch_add(1, Ordering::SeqCst);
            let body = br#"{"metadata":{},"eventTime":null}"#.to_vec();
            std::future::ready(Ok::<_, Infallible>(Response::new(Body::from(body))))
        });
        Client::new(answer, "home")
    }

    struct Scene {
        teller: Teller,
        crowd: Arc<Crowd>,
        taken: Arc<AtomicUsize>,
        stop: CancellationToken,
        sending: tokio::task::JoinHandle<()>,
    }

    impl Scene {
        fn set() -> Self {
            let (taken, crowd, stop) = (Arc::default(), Arc::default(), CancellationToken::new());
            let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
            let (teller, sending) = Teller::new(Events::new(server(&taken), "room", None), clock, Arc::clone(&crowd));
            #[expect(clippy::disallowed_methods, reason = "no manager here")]
            let sending = tokio::spawn(sending.run(stop.clone()));
            Self { teller, crowd, taken, stop, sending }
        }

        async fn say(&self, reason: &str) {
            let kind = Kind::of::<k8s_openapi::api::core::v1::ConfigMap>();
            let target = Target { kind, key: ObjectKey::namespaced("n", "a"), uid: "1".into() };
            self.teller.say(&target, false, reason, "something happened").await;
        }

        fn taken(&self) -> usize {
            self.taken.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_passes_hold_up_no_event() {
        let scene = Scene::set();
        let few: Vec<_> = (1..CROWD).map(|_| scene.crowd.join()).collect();
        scene.say("Because").await;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(scene.taken(), 1);
        drop(few);
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_crowd_events_wait_until_it_is_gone() {
        let scene = Scene::set();
        let mut crowd: Vec<_> = (0..CROWD + 1).map(|_| scene.crowd.join()).collect();
        for reason in ["One", "Two", "Three"] {
            scene.say(reason).await;
        }
        sleep(PATIENCE / 2).await;
        assert_eq!(scene.taken(), 0);
        crowd.pop();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(scene.taken(), 0, "it is still a crowd");
        crowd.pop();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(scene.taken(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn no_event_waits_longer_than_patience_and_none_is_kept_back_at_the_end() {
        let mut scene = Scene::set();
        let crowd = Arc::clone(&scene.crowd);
        let _crowd: Vec<_> = (0..2 * CROWD).map(|_| crowd.join()).collect();
        scene.say("One").await;
        sleep(PATIENCE / 2).await;
        scene.say("Two").await;
        sleep(PATIENCE / 2 + Duration::from_millis(1)).await;
        assert_eq!(scene.taken(), 1, "the first has waited long enough");
        scene.stop.cancel();
        (&mut scene.sending).await.unwrap();
        assert_eq!(scene.taken(), 2);
    }
}
