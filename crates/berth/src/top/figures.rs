//! What two looks at the metrics of a Berth tell. Only thinks: samples in, figures out.

use std::time::Duration;

use kit::telemetry::{Failed, Labels, Lately, Samples, Slow};
use serde::{Deserialize, Serialize};

/// What `/readyz` answers as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Report {
    /// Whether nothing blocks.
    pub ready: bool,
    /// Where every part stands.
    #[serde(default)]
    pub gates: Vec<Gate>,
}

/// One part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Gate {
    /// Its name.
    pub name: String,
    /// `ready`, `waiting` or `blocked`.
    pub state: String,
    /// Why.
    #[serde(default)]
    pub detail: String,
}

/// One look at one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// Its pod, or its address.
    pub name: String,
    /// Its metrics.
    pub metrics: Samples,
    /// What it says of itself, if it could be asked.
    pub report: Option<Report>,
    /// Its slowest objects and last failures, if it could be asked.
    pub lately: Option<Lately>,
    /// How it is asked for these, where it tells them on its own loopback interface alone.
    pub closed: Option<String>,
}

/// One look at all processes of a Berth.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// Those that answered.
    pub taken: Vec<Taken>,
    /// What could not be seen, and why.
    pub unseen: Vec<String>,
    /// When, since any moment; only differences count.
    pub at: Duration,
    /// Wall time in seconds since the epoch.
    pub now: i64,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Its pod, or its address.
    pub name: String,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether it is ready; absent when it could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Whether it decides, as opposed to standing by; absent when it could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decides: Option<bool>,
    /// Bytes in RAM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// Processors kept busy since the last look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Seconds since it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_seconds: Option<i64>,
    /// What is not in order, or is waited for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What one room does, in all processes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// Its name.
    pub room: String,
    /// Objects that wait for a pass.
    pub waiting: f64,
    /// Objects being worked on.
    pub busy: f64,
    /// Passes since the last look.
    pub passes_per_second: f64,
    /// Failed ones among them.
    pub failures_per_second: f64,
    /// Failed passes since the start.
    pub failures: f64,
    /// Panics that were caught since the start.
    pub panics: f64,
    /// How many workers were kept busy since the last look.
    pub load: f64,
    /// How long a pass took since the last look, or since the start if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_seconds: Option<f64>,
    /// What 95 of 100 passes were not above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_seconds: Option<f64>,
}

/// Requests to somebody else's API.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Calls {
    /// Whose.
    pub to: String,
    /// Requests since the last look.
    pub requests_per_second: f64,
    /// Refused or unanswered ones among them.
    pub errors_per_second: f64,
    /// Since the start.
    pub errors: f64,
    /// Refused for being too many, since the last look.
    pub throttled_per_second: f64,
    /// Since the start.
    pub throttled: f64,
    /// What 95 of 100 requests were not above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_seconds: Option<f64>,
}

/// Requests that Berth answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Which of its servers.
    pub server: String,
    /// Answers since the last look.
    pub requests_per_second: f64,
    /// Those that the server had to answer in place of the code behind it.
    pub failures_per_second: f64,
    /// Being answered now.
    pub in_flight: f64,
    /// What 95 of 100 answers were not above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_seconds: Option<f64>,
}

/// Objects that wait, and for what.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// What waits.
    pub what: &'static str,
    /// Why.
    pub reason: String,
    /// How many.
    pub objects: f64,
}

/// Everything there is to show.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Seconds between the two looks.
    pub seconds: f64,
    /// Every process.
    pub instances: Vec<Instance>,
    /// Every room, the one that keeps most workers busy first.
    pub rooms: Vec<Room>,
    /// Calls to clouds.
    pub calls: Vec<Calls>,
    /// What Berth serves.
    pub servers: Vec<Server>,
    /// Who waits for what.
    pub waits: Vec<Wait>,
    /// The objects with the slowest passes of the last minutes, the slowest first.
    pub slowest: Vec<Slow>,
    /// The last passes that failed, the last first.
    pub errors: Vec<Failed>,
    /// How to see both, where they are told on the loopback interface of a process alone.
    #[serde(skip)]
    pub closed: Option<String>,
    /// Wall time in seconds since the epoch.
    #[serde(skip)]
    pub now: i64,
    /// What could not be seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

/// Servers that only tell how Berth is, to this program among others.
const ASIDE: [&str; 2] = ["metrics", "health"];

impl Figures {
    /// What can be told of now and of the time since `before`.
    pub fn of(before: &Look, after: &Look) -> Self {
        let seconds = after.at.saturating_sub(before.at).as_secs_f64();
        let (mut now, mut grown) = (Samples::default(), Samples::default());
        let mut instances = Vec::new();
        for taken in &after.taken {
            let earlier = before.taken.iter().find(|other| other.name == taken.name);
            // Without an earlier look nothing is known to have happened since.
            let since = earlier.map(|earlier| taken.metrics.since(&earlier.metrics)).unwrap_or_default();
            instances.push(instance(taken, &since, seconds, after.now));
            now.extend(taken.metrics.clone());
            grown.extend(since);
        }
        let told = Told { now, grown, seconds };
        let lately = || after.taken.iter().filter_map(|taken| taken.lately.as_ref());
        let mut slowest: Vec<Slow> = lately().flat_map(|lately| lately.slowest.clone()).collect();
        slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let mut errors: Vec<Failed> = lately().flat_map(|lately| lately.errors.clone()).collect();
        errors.sort_by_key(|failed| std::cmp::Reverse(failed.at));
        let processes = || instances.iter().zip(&after.taken);
        let closed = || processes().filter_map(|(one, taken)| Some((one.decides, taken.closed.as_ref()?)));
        // The others stand by, and have made few passes.
        let way = closed().find(|(decides, _)| *decides == Some(true)).or_else(|| closed().next());
        let closed = way.map(|(_, way)| way.clone());
        Self {
            seconds,
            instances,
            rooms: told.rooms(),
            calls: told.calls(),
            servers: told.servers(),
            waits: told.waits(),
            slowest,
            errors,
            closed,
            now: after.now,
            unseen: after.unseen.clone(),
        }
    }
}

fn instance(taken: &Taken, since: &Samples, seconds: f64, now: i64) -> Instance {
    let value = |name: &str| taken.metrics.sum(name, |_| true);
    let version = taken.metrics.values("berth_build_info", "version").into_iter().next().map(str::to_owned);
    let gates = taken.report.iter().flat_map(|report| &report.gates);
    // Who does not stand for a lease decides alone.
    let decides = taken.report.as_ref().map(|report| {
        report.gates.iter().find(|gate| gate.name == "leadership").is_none_or(|gate| gate.state == "ready")
    });
    let notes = gates.filter(|gate| gate.state != "ready").map(|gate| match gate.detail.as_str() {
        "" => gate.name.clone(),
        detail => format!("{}: {detail}", gate.name),
    });
    let up = value("process_start_time_seconds").map(|start| now.saturating_sub(start as i64).max(0));
    Instance {
        name: taken.name.clone(),
        version,
        ready: taken.report.as_ref().map(|report| report.ready),
        decides,
        memory_bytes: value("process_resident_memory_bytes"),
        cpus: since.sum("process_cpu_seconds_total", |_| true).map(|spent| per(spent, seconds)),
        up_seconds: up,
        notes: notes.collect(),
    }
}

fn per(count: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

/// The samples of all processes together.
struct Told {
    now: Samples,
    grown: Samples,
    seconds: f64,
}

impl Told {
    fn total(&self, name: &str, takes: impl Fn(&Labels) -> bool) -> f64 {
        self.now.sum(name, takes).unwrap_or_default()
    }

    fn rate(&self, name: &str, takes: impl Fn(&Labels) -> bool) -> f64 {
        per(self.grown.sum(name, takes).unwrap_or_default(), self.seconds)
    }

    /// Mean and 95th percentile since the last look; since the start when nothing happened.
    fn took(&self, name: &str, takes: impl Fn(&Labels) -> bool + Copy) -> (Option<f64>, Option<f64>) {
        let lately = self.grown.histogram(name, takes);
        let shown = if lately.count > 0.0 { lately } else { self.now.histogram(name, takes) };
        (shown.mean(), shown.quantile(0.95))
    }

    fn rooms(&self) -> Vec<Room> {
        let mut names = self.now.values("berth_room_queue_waiting", "room");
        names.extend(self.now.values("berth_room_passes_total", "room"));
        let mut rooms: Vec<Room> = names
            .into_iter()
            .map(|name| {
                let of = |labels: &Labels| is(labels, "room", name);
                let (mean_seconds, p95_seconds) = self.took("berth_room_pass_seconds", of);
                Room {
                    room: name.to_owned(),
                    waiting: self.total("berth_room_queue_waiting", of),
                    busy: self.total("berth_room_queue_busy", of),
                    passes_per_second: self.rate("berth_room_passes_total", of),
                    failures_per_second: self.rate("berth_room_failures_total", of),
                    failures: self.total("berth_room_failures_total", of),
                    panics: self.total("berth_room_panics_total", of),
                    load: self.rate("berth_room_pass_seconds_sum", of),
                    mean_seconds,
                    p95_seconds,
                }
            })
            .collect();
        rooms.sort_by(|a, b| b.load.total_cmp(&a.load).then_with(|| a.room.cmp(&b.room)));
        rooms
    }

    fn calls(&self) -> Vec<Calls> {
        let aws = self.now.values("berth_aws_requests_total", "service").into_iter().map(|service| {
            let of = |labels: &Labels| is(labels, "service", service);
            let failed = |labels: &Labels| of(labels) && !is(labels, "code", "");
            let throttled = |labels: &Labels| of(labels) && labels.get("code").is_some_and(|code| is_throttle(code));
            let to = format!("aws {service}");
            self.calls_to(to, "berth_aws_requests_total", "berth_aws_request_seconds", of, failed, throttled)
        });
        let stack = self.now.values("berth_cloudstack_requests_total", "endpoint").into_iter().map(|endpoint| {
            let of = |labels: &Labels| is(labels, "endpoint", endpoint);
            let failed = |labels: &Labels| of(labels) && !is(labels, "class", "ok");
            let throttled = |labels: &Labels| of(labels) && is(labels, "class", "throttled");
            let (count, seconds) = ("berth_cloudstack_requests_total", "berth_cloudstack_request_seconds");
            self.calls_to(format!("cloudstack {endpoint}"), count, seconds, of, failed, throttled)
        });
        aws.chain(stack).collect()
    }

    fn calls_to(
        &self,
        to: String,
        count: &str,
        seconds: &str,
        of: impl Fn(&Labels) -> bool + Copy,
        failed: impl Fn(&Labels) -> bool + Copy,
        throttled: impl Fn(&Labels) -> bool + Copy,
    ) -> Calls {
        Calls {
            to,
            requests_per_second: self.rate(count, of),
            errors_per_second: self.rate(count, failed),
            errors: self.total(count, failed),
            throttled_per_second: self.rate(count, throttled),
            throttled: self.total(count, throttled),
            p95_seconds: self.took(seconds, of).1,
        }
    }

    fn servers(&self) -> Vec<Server> {
        let names = self.now.values("berth_serve_requests_total", "server");
        let shown = names.into_iter().filter(|name| !ASIDE.contains(name));
        let told = shown.map(|name| {
            let of = |labels: &Labels| is(labels, "server", name);
            Server {
                server: name.to_owned(),
                requests_per_second: self.rate("berth_serve_requests_total", of),
                failures_per_second: self.rate("berth_serve_failures_total", of),
                in_flight: self.total("berth_serve_in_flight", of),
                p95_seconds: self.took("berth_serve_request_duration_seconds", of).1,
            }
        });
        told.collect()
    }

    fn waits(&self) -> Vec<Wait> {
        let sources = [
            ("claims without a host", "berth_claims_waiting_claims"),
            ("machines that are not ready", "berth_machines_waiting_machines"),
        ];
        let mut waits: Vec<Wait> = Vec::new();
        for (what, name) in sources {
            for reason in self.now.values(name, "reason") {
                // Every replica follows all objects, so the largest count is the count.
                let counts = self.now.named(name).filter(|sample| is(&sample.labels, "reason", reason));
                let objects = counts.map(|sample| sample.value).fold(0.0, f64::max);
                if objects > 0.0 {
                    waits.push(Wait { what, reason: reason.to_owned(), objects });
                }
            }
        }
        waits.sort_by(|a, b| a.what.cmp(b.what).then(b.objects.total_cmp(&a.objects)));
        waits
    }
}

fn is(labels: &Labels, name: &str, value: &str) -> bool {
    labels.get(name).is_some_and(|found| found == value)
}

/// Whether a code of AWS says that there were too many requests; limits on what an account may have are something else.
fn is_throttle(code: &str) -> bool {
    let code = code.to_ascii_lowercase();
    code.contains("throttl") || ["requestlimitexceeded", "toomanyrequestsexception"].contains(&code.as_str())
}
