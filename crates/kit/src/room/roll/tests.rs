use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::lease::{Candidate, Settings, Terms};

fn begin() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Rolls of a process, on paused time.
struct Process {
    rolls: Rolls,
    metrics: Metrics,
    clock: Clock,
}

impl Process {
    fn new() -> Self {
        Self { rolls: Rolls::default(), metrics: Metrics::new(), clock: Clock::simulated(begin(), 1) }
    }

    fn roll(&self, room: &'static str, kind: &'static str, leadership: Leadership) -> Roll {
        Roll {
            place: Kind { room, kind },
            tally: self.rolls.tally((room, kind)),
            waits: self.rolls.waits(&self.metrics, &self.clock),
            clock: self.clock.clone(),
            leadership,
            told: Mutex::default(),
            hashes: RandomState::new(),
        }
    }

    fn alone(&self, room: &'static str, kind: &'static str) -> Roll {
        self.roll(room, kind, Leadership::alone(self.clock.clone()))
    }

    /// The series of a metric, each with its value.
    fn lines(&self, metric: &str) -> Vec<String> {
        let text = self.metrics.encode();
        let ours = text.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{'));
        ours.map(|line| line.replace("room=\"claims\",kind=\"HostClaim\",", "")).collect()
    }

    fn stands(&self) -> (Vec<String>, Vec<String>) {
        (self.lines("berth_room_objects"), self.lines("berth_room_oldest_wait_seconds"))
    }
}

fn waits(reason: &str, after: i64) -> Option<Stand> {
    Some(Stand::waiting(reason, begin() + Duration::from_secs(u64::try_from(after).unwrap())))
}

/// The leadership of a process that has not been elected.
fn follower(clock: &Clock) -> Leadership {
    let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty())))
    });
    let terms = Terms::new(Duration::from_secs(60)).unwrap();
    let settings = Settings { namespace: "n".to_owned(), name: "l".to_owned(), identity: "b".to_owned(), terms };
    Candidate::new(kube::Client::new(nobody, "n"), clock.clone(), settings).1
}

const NO_HOST: &str = "NoBareMetalHost";

#[tokio::test(start_paused = true)]
async fn objects_are_counted_by_how_they_stand_and_the_oldest_tells_since_when() {
    let process = Process::new();
    let roll = process.alone("claims", "HostClaim");
    assert_eq!(process.stands(), (vec!["state=\"ready\",reason=\"\"} 0".to_owned()], vec![]), "a kind without objects");
    for stand in [waits(NO_HOST, 10), waits(NO_HOST, 10), waits(NO_HOST, 40), waits("QuotaExceeded", 50)] {
        roll.moved(None, stand);
    }
    roll.moved(None, Some(Stand::ready()));
    roll.moved(None, Some(Stand::deleting("HostDetached", begin() + Duration::from_secs(20))));
    tokio::time::advance(Duration::from_secs(100)).await;
    let (counts, oldest) = process.stands();
    assert_eq!(
        counts,
        [
            "state=\"deleting\",reason=\"HostDetached\"} 1",
            "state=\"ready\",reason=\"\"} 1",
            "state=\"waiting\",reason=\"NoBareMetalHost\"} 3",
            "state=\"waiting\",reason=\"QuotaExceeded\"} 1",
        ]
    );
    let expected = |no_host: i64| {
        vec![
            "state=\"deleting\",reason=\"HostDetached\"} 80".to_owned(),
            format!("state=\"waiting\",reason=\"NoBareMetalHost\"}} {no_host}"),
            "state=\"waiting\",reason=\"QuotaExceeded\"} 50".to_owned(),
        ]
    };
    assert_eq!(oldest, expected(90));
    roll.moved(waits(NO_HOST, 10), None);
    assert_eq!(process.stands().1, expected(90), "another one has waited as long");
    roll.moved(waits(NO_HOST, 10), Some(Stand::ready()));
    assert_eq!(process.stands().1, expected(60));
}

#[tokio::test(start_paused = true)]
async fn nothing_stays_behind_when_everything_is_gone() {
    let process = Process::new();
    let roll = process.alone("claims", "HostClaim");
    let all: Vec<_> = (0..100).map(|second| waits(if second % 2 == 0 { NO_HOST } else { "Other" }, second)).collect();
    all.iter().for_each(|stand| roll.moved(None, *stand));
    all.iter().for_each(|stand| roll.moved(*stand, Some(Stand::ready())));
    assert_eq!(process.lines("berth_room_objects"), ["state=\"ready\",reason=\"\"} 100"]);
    (0..100).for_each(|_| roll.moved(Some(Stand::ready()), None));
    assert_eq!(process.stands(), (vec!["state=\"ready\",reason=\"\"} 0".to_owned()], vec![]));
    assert!(held(&roll.tally).0.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wait_counts_once_where_its_end_was_seen_and_only_by_who_decides() {
    let process = Process::new();
    let counted = |process: &Process| {
        let sum = process.lines("berth_room_ready_seconds_sum");
        let count = process.lines("berth_room_ready_seconds_count");
        (count.first().cloned(), sum.first().cloned())
    };
    let leader = process.alone("claims", "HostClaim");
    tokio::time::advance(Duration::from_millis(90_500)).await;
    // After a restart what is ready was ready before, and what is not is no event either.
    leader.moved(None, Some(Stand::ready()));
    leader.moved(None, waits(NO_HOST, 30));
    leader.moved(waits(NO_HOST, 30), waits("QuotaExceeded", 30));
    leader.moved(waits("QuotaExceeded", 30), None);
    assert_eq!(counted(&process), (None, None));
    leader.moved(waits(NO_HOST, 30), Some(Stand::ready()));
    leader.moved(Some(Stand::ready()), Some(Stand::ready()));
    let place = |value: &str| Some(format!("room=\"claims\",kind=\"HostClaim\"}} {value}"));
    assert_eq!(counted(&process), (place("1"), place("60.5")));

    let follower = process.roll("claims", "HostClaim", follower(&process.clock));
    follower.moved(waits(NO_HOST, 30), Some(Stand::ready()));
    assert_eq!(counted(&process).0, place("1"));
    assert_eq!(process.lines("berth_room_objects"), ["state=\"ready\",reason=\"\"} 3"], "it sees what the other sees");
}

#[tokio::test(start_paused = true)]
async fn what_passes_tell_is_counted_once_for_each_object_and_lasts() {
    let process = Process::new();
    let roll = process.alone("capacity", "MachineSet");
    let told = |object: &str, stand| roll.tell(&object, stand);
    let lines = |metric: &str| {
        let all = process.lines(metric);
        all.iter().map(|line| line.replace("room=\"capacity\",kind=\"MachineSet\",", "")).collect::<Vec<_>>()
    };
    told("a", waits("FailedUpdate", 10));
    told("b", waits("FailedUpdate", 50));
    told("a", waits("ReconcileError", 90));
    told("b", Some(Stand::ready()));
    told("b", Some(Stand::ready()));
    told("c", None);
    tokio::time::advance(Duration::from_secs(100)).await;
    let expected = ["state=\"ready\",reason=\"\"} 1", "state=\"waiting\",reason=\"ReconcileError\"} 1"];
    assert_eq!(lines("berth_room_objects"), expected);
    assert_eq!(lines("berth_room_oldest_wait_seconds"), ["state=\"waiting\",reason=\"ReconcileError\"} 90"]);
    told("a", None);
    told("b", None);
    assert_eq!(lines("berth_room_objects"), ["state=\"ready\",reason=\"\"} 0"]);
    assert!(held(&roll.told).is_empty());
}
