//! Draws figures. Text in, text out.

use kit::telemetry::{Failed, Slow};

use super::figures::{Calls, Figures, Instance, Room, Server};
use crate::screen::{self, Screen, age, cell};

/// So many objects of each list are on the screen; programs get all.
const SHOWN: usize = 8;

/// The whole screen.
pub fn draw(screen: Screen, figures: &Figures) -> String {
    let mut parts = vec![screen::text(screen, &title(figures))];
    if !figures.instances.is_empty() {
        let heading = ["INSTANCE", "READY", "DECIDES", "MEMORY", "CPU", "UP", "NOTE"];
        let rows: Vec<[String; 7]> = figures.instances.iter().map(instance).collect();
        parts.push(screen::table(screen, heading, &rows));
    }
    if !figures.rooms.is_empty() {
        let heading = ["ROOM", "WAITING", "BUSY", "PASSES/S", "FAILED/S", "FAILED", "PANICS", "LOAD", "MEAN", "P95"];
        let rows: Vec<[String; 10]> = figures.rooms.iter().map(room).collect();
        parts.push(screen::table(screen, heading, &rows));
    }
    if !figures.errors.is_empty() {
        let heading = ["LAST ERRORS", "KIND", "ROOM", "AGO", "TIMES", "REASON"];
        let shown = figures.errors.iter().take(SHOWN);
        let rows: Vec<[String; 6]> = shown.map(|failed| error(failed, figures.now)).collect();
        parts.push(screen::table(screen, heading, &rows));
    }
    if !figures.slowest.is_empty() {
        let heading = ["SLOWEST", "KIND", "ROOM", "AGO", "TOOK", "OUTCOME"];
        let shown = figures.slowest.iter().take(SHOWN);
        let rows: Vec<[String; 6]> = shown.map(|object| slow(object, figures.now)).collect();
        parts.push(screen::table(screen, heading, &rows));
    }
    if let Some(way) = &figures.closed {
        let why = "last errors and slowest objects are told on the loopback interface alone";
        parts.push(screen::text(screen, &format!("{why}: {way}")));
    }
    if !figures.calls.is_empty() {
        let heading = ["CALLS TO", "PER S", "ERRORS/S", "ERRORS", "THROTTLED/S", "THROTTLED", "P95"];
        let rows: Vec<[String; 7]> = figures.calls.iter().map(calls).collect();
        parts.push(screen::table(screen, heading, &rows));
    }
    if !figures.servers.is_empty() {
        let heading = ["SERVES", "PER S", "FAILED/S", "IN FLIGHT", "P95"];
        let rows: Vec<[String; 5]> = figures.servers.iter().map(server).collect();
        parts.push(screen::table(screen, heading, &rows));
    }
    if !figures.waits.is_empty() {
        let rows: Vec<[String; 3]> = figures
            .waits
            .iter()
            .map(|wait| [wait.objects.to_string(), wait.what.to_owned(), wait.reason.clone()])
            .collect();
        parts.push(screen::table(screen, ["COUNT", "WAITING", "REASON"], &rows));
    }
    if !figures.unseen.is_empty() {
        parts.push(figures.unseen.iter().map(|why| screen::text(screen, &format!("not seen: {why}"))).collect());
    }
    parts.join("\n")
}

fn title(figures: &Figures) -> String {
    let mut versions: Vec<&str> = figures.instances.iter().filter_map(|one| one.version.as_deref()).collect();
    versions.sort_unstable();
    versions.dedup();
    let version = if versions.is_empty() { "berth".to_owned() } else { format!("berth {}", versions.join(", ")) };
    let count = figures.instances.len();
    let plural = if count == 1 { "" } else { "s" };
    format!("{version}: {count} instance{plural}, rates over {:.1} s", figures.seconds)
}

fn yes(answer: Option<bool>) -> String {
    match answer {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    }
    .to_owned()
}

fn instance(one: &Instance) -> [String; 7] {
    [
        one.name.clone(),
        yes(one.ready),
        yes(one.decides),
        one.memory_bytes.map_or_else(|| "?".to_owned(), |bytes| format!("{:.0} MiB", bytes / 1_048_576.0)),
        one.cpus.map_or_else(|| "?".to_owned(), |cpus| format!("{cpus:.2}")),
        one.up_seconds.map_or_else(|| "?".to_owned(), age),
        cell(Some(&one.notes.join("; "))),
    ]
}

fn room(room: &Room) -> [String; 10] {
    [
        room.room.clone(),
        room.waiting.to_string(),
        room.busy.to_string(),
        rate(room.passes_per_second),
        rate(room.failures_per_second),
        room.failures.to_string(),
        room.panics.to_string(),
        rate(room.load),
        time(room.mean_seconds),
        time(room.p95_seconds),
    ]
}

/// How long ago it was; a clock that is ahead of ours makes it now.
fn ago(at: i64, now: i64) -> String {
    age(now.saturating_sub(at).max(0))
}

fn error(failed: &Failed, now: i64) -> [String; 6] {
    // What the object does not show is told by what became of the pass.
    let reason = failed.reason.as_deref().unwrap_or(&failed.sort);
    [
        failed.object.clone(),
        cell(failed.kind.as_deref()),
        failed.room.clone(),
        ago(failed.at.as_second(), now),
        failed.times.to_string(),
        format!("{reason}; {}, took {}", failed.class, time(Some(failed.seconds))),
    ]
}

fn slow(slow: &Slow, now: i64) -> [String; 6] {
    [
        slow.object.clone(),
        cell(slow.kind.as_deref()),
        slow.room.clone(),
        ago(slow.at.as_second(), now),
        time(Some(slow.seconds)),
        slow.outcome.clone(),
    ]
}

fn calls(calls: &Calls) -> [String; 7] {
    [
        calls.to.clone(),
        rate(calls.requests_per_second),
        rate(calls.errors_per_second),
        calls.errors.to_string(),
        rate(calls.throttled_per_second),
        calls.throttled.to_string(),
        time(calls.p95_seconds),
    ]
}

fn server(server: &Server) -> [String; 5] {
    [
        server.server.clone(),
        rate(server.requests_per_second),
        rate(server.failures_per_second),
        server.in_flight.to_string(),
        time(server.p95_seconds),
    ]
}

/// Few digits, but never 0 for what is not nothing.
fn rate(value: f64) -> String {
    match value {
        v if v <= 0.0 => "0".to_owned(),
        v if v < 0.01 => "<0.01".to_owned(),
        v if v < 10.0 => format!("{v:.2}"),
        v => format!("{v:.0}"),
    }
}

/// A time in the unit that suits it.
fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(s) if s < 0.001 => format!("{:.0} us", s * 1_000_000.0),
        Some(s) if s < 1.0 => format!("{:.0} ms", s * 1_000.0),
        Some(s) => format!("{s:.1} s"),
    }
}
