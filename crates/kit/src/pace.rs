//! How fast the API server is asked: one budget for the whole process, in which whoever is waited for goes first.
//!
//! The budget is off unless somebody sets one: a server that has priority and fairness decides better than its clients.
//! Where there is one, hooks and the lease have the front lane, and rooms have the other. Watches are counted in
//! neither: they are opened once and cost the server little.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, Service};

use crate::bucket::Limiter;
use crate::clock::Clock;
use crate::queue::Priority;

/// How many requests a process may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Requests per second, in the long run.
    pub per_second: u32,
    /// Requests at once.
    pub burst: u32,
}

/// The clients of one process. They share their connections and, where there is one, their budget.
#[derive(Clone)]
pub struct Lanes {
    front: Client,
    rooms: Client,
}

impl Lanes {
    /// Two lanes without a budget: the same client twice.
    #[must_use]
    pub fn unlimited(client: Client) -> Self {
        Self { front: client.clone(), rooms: client }
    }

    /// Two lanes within one budget. While both have requests to send, seven of eight are the front lane's, so one of its
    /// requests waits for two tokens at most, and however busy it is, rooms go on.
    #[must_use]
    pub fn paced(client: &Client, clock: &Clock, pace: Pace) -> Self {
        let limiter = Arc::new(Limiter::new(clock.clone(), pace.burst, f64::from(pace.per_second)));
        let lane = |priority| {
            let paced = Paced { client: client.clone(), limiter: Arc::clone(&limiter), priority };
            Client::new(paced, client.default_namespace()).with_valid_until(*client.valid_until())
        };
        Self { front: lane(Priority::Urgent), rooms: lane(Priority::Background) }
    }

    /// For what somebody waits for: hooks, the lease.
    #[must_use]
    pub fn front(&self) -> &Client {
        &self.front
    }

    /// For everything else.
    #[must_use]
    pub fn rooms(&self) -> &Client {
        &self.rooms
    }
}

/// A client whose requests wait for their token.
struct Paced {
    client: Client,
    limiter: Arc<Limiter>,
    priority: Priority,
}

impl Service<Request<Body>> for Paced {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, limiter, priority) = (self.client.clone(), Arc::clone(&self.limiter), self.priority);
        // The wait is the caller's own: whoever gives up leaves the line, and nobody behind it is held up.
        Box::pin(async move {
            if !is_watch(request.uri()) {
                limiter.take(1, priority).await?;
            }
            Ok(client.send(request).await?)
        })
    }
}

fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|part| matches!(part, "watch=true" | "watch=1")))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use jiff::Timestamp;
    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    /// A server that answers at once and counts.
    fn server(asked: &Arc<AtomicU32>) -> Client {
        let asked = Arc::clone(asked);
        let answer = tower::service_fn(move |_: Request<Body>| {
            asked.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok::<_, Infallible>(Response::new(Body::empty())))
        });
        Client::new(answer, "home")
    }

    fn lanes(per_second: u32, burst: u32) -> (Lanes, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        (Lanes::paced(&server(&asked), &clock, Pace { per_second, burst }), asked)
    }

    async fn ask(client: Client, path: &'static str) -> Duration {
        let begun = Clock::system().instant();
        client.send(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        begun.elapsed()
    }

    /// Rooms that have many more requests to send than the budget has tokens.
    fn flood(lanes: &Lanes, requests: usize) -> JoinSet<Duration> {
        let mut flood = JoinSet::new();
        for _ in 0..requests {
            flood.spawn(ask(lanes.rooms().clone(), "/api/v1/pods"));
        }
        flood
    }

    #[tokio::test(start_paused = true)]
    async fn under_a_flood_from_the_rooms_a_hook_waits_for_two_tokens_at_most() {
        let (lanes, asked) = lanes(200, 400);
        let mut flood = flood(&lanes, 5_000);
        sleep(Duration::from_secs(1)).await;
        assert!((590..=610).contains(&asked.load(Ordering::SeqCst)), "the budget is used up: {asked:?}");
        for _ in 0..100 {
            let waited = ask(lanes.front().clone(), "/api/v1/nodes").await;
            assert!(waited <= Duration::from_millis(12), "{waited:?}");
        }
        // Ten calls at once, as many as Cluster API has workers.
        let mut calls = JoinSet::new();
        for _ in 0..10 {
            calls.spawn(ask(lanes.front().clone(), "/api/v1/nodes"));
        }
        while let Some(waited) = calls.join_next().await {
            assert!(waited.unwrap() <= Duration::from_millis(66), "ten tokens, two of the rooms between them, and one");
        }
        flood.abort_all();
    }

    #[tokio::test(start_paused = true)]
    async fn rooms_go_on_while_hooks_use_up_the_budget() {
        let (lanes, _) = lanes(200, 10);
        let mut hooks = JoinSet::new();
        for _ in 0..2_000 {
            hooks.spawn(ask(lanes.front().clone(), "/api/v1/nodes"));
        }
        sleep(Duration::from_millis(100)).await;
        let waited = ask(lanes.rooms().clone(), "/api/v1/pods").await;
        assert!(waited <= Duration::from_millis(46), "eight tokens: {waited:?}");
        hooks.abort_all();
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_takes_no_token_and_waits_for_none() {
        let (lanes, asked) = lanes(1, 1);
        let mut flood = flood(&lanes, 50);
        sleep(Duration::from_millis(1)).await;
        for path in ["/api/v1/pods?watch=true&timeoutSeconds=290", "/api/v1/pods?limit=1&watch=1"] {
            assert_eq!(ask(lanes.rooms().clone(), path).await, Duration::ZERO);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 3, "one token was there, and two watches were opened");
        flood.abort_all();
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_takes_no_token() {
        let (lanes, asked) = lanes(10, 1);
        let mut flood = flood(&lanes, 500);
        sleep(Duration::from_millis(1)).await;
        flood.shutdown().await;
        assert!(ask(lanes.rooms().clone(), "/api/v1/pods").await <= Duration::from_millis(102));
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_budget_nobody_waits() {
        let asked = Arc::new(AtomicU32::new(0));
        let lanes = Lanes::unlimited(server(&asked));
        let mut flood = flood(&lanes, 5_000);
        while let Some(waited) = flood.join_next().await {
            assert_eq!(waited.unwrap(), Duration::ZERO);
        }
        assert_eq!(lanes.front().default_namespace(), "home");
    }
}
