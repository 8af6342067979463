//! The bars every binary has to clear, and whether it did.

use serde::Serialize;

use crate::leg::Leg;
use crate::proc::Binary;
use crate::report::short;
use crate::stats::spread;

/// One bar beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// What is measured.
    pub what: String,
    /// The bar, in the same unit.
    pub bar: f64,
    /// The unit of both.
    pub unit: &'static str,
    /// `at most` or `at least`.
    pub side: &'static str,
    /// What was measured; nothing when it could not be.
    pub measured: Option<f64>,
    /// Whether the bar holds; a figure that could not be measured does not pass.
    pub pass: bool,
}

/// A row where the measured value may be at most the bar.
pub fn at_most(what: impl Into<String>, bar: f64, unit: &'static str, measured: Option<f64>) -> Budget {
    Budget { what: what.into(), bar, unit, side: "at most", measured, pass: measured.is_some_and(|m| m <= bar) }
}

/// A row where the measured value must reach the bar.
pub fn at_least(what: impl Into<String>, bar: f64, unit: &'static str, measured: Option<f64>) -> Budget {
    Budget { what: what.into(), bar, unit, side: "at least", measured, pass: measured.is_some_and(|m| m >= bar) }
}

impl Budget {
    /// What was measured, the bar and the verdict, as a row of a table.
    pub fn row(&self) -> Vec<String> {
        let with_unit = |value: f64| format!("{} {}", short(value), self.unit).trim_end().to_owned();
        vec![
            self.what.clone(),
            self.measured.map_or_else(|| "not measured".to_owned(), with_unit),
            format!("{}{}", if self.side == "at least" { "at least " } else { "" }, with_unit(self.bar)),
            if self.pass { "pass" } else { "FAIL" }.to_owned(),
        ]
    }
}

fn median(legs: &[Leg], of: impl Fn(&Leg) -> Option<f64>) -> Option<f64> {
    // A leg without the figure must not make the others look better.
    let all: Option<Vec<f64>> = legs.iter().map(of).collect();
    Some(spread(&all?)?.median)
}

fn worst(legs: &[Leg], of: impl Fn(&Leg) -> f64) -> Option<f64> {
    Some(spread(&legs.iter().map(of).collect::<Vec<_>>())?.max)
}

const KIB_PER_MIB: f64 = 1024.0;

/// The common bars for these legs of the subject: times, memory and processor as medians, counts as the worst leg.
pub fn common(objects: u64, legs: &[Leg], empty: Option<&Leg>, binary: Option<&Binary>) -> Vec<Budget> {
    let mut rows = Vec::new();
    let empty_legs = if objects == 0 { legs } else { empty.map(std::slice::from_ref).unwrap_or_default() };
    if !empty_legs.is_empty() {
        rows.push(at_most("exec to ready, no objects", 300.0, "ms", median(empty_legs, |l| l.exec_to_ready_ms)));
        let rss = median(empty_legs, |l| l.rss_idle_kib.map(|k| k as f64 / KIB_PER_MIB));
        rows.push(at_most("resident memory, idle, no objects", 20.0, "MiB", rss));
    }
    let large = objects > 10_000;
    if objects > 0 {
        let bar = if large { 30.0 } else { 5.0 };
        let settled = median(legs, |l| l.exec_to_settled_ms.map(|ms| ms / 1e3));
        rows.push(at_most(format!("exec to settled, {objects} objects"), bar, "s", settled));
        rows.push(at_most("writes from exec to settled", 0.0, "", worst(legs, |l| l.requests_start.writes as f64)));
        let rss = median(legs, |l| l.rss_idle_kib.map(|k| k as f64 / KIB_PER_MIB));
        // Above 10,000 objects the bar is the bare process plus 2 KiB an object.
        let bar = if large { 20.0 + 2.0 * objects as f64 / KIB_PER_MIB } else { 60.0 };
        rows.push(at_most(format!("resident memory, idle, {objects} objects"), bar, "MiB", rss));
        // Below a thousand objects this would only show what the allocator rounds up to.
        if let (true, Some(bare)) = (objects >= 1000, empty.and_then(|l| l.rss_idle_kib)) {
            let each = median(legs, |l| l.rss_idle_kib.map(|k| (k as f64 - bare as f64).max(0.0) / objects as f64));
            rows.push(at_most("resident memory per object", 2.0, "KiB", each));
        }
        if large {
            let ratio = median(legs, |l| Some(l.peak_kib? as f64 / l.rss_idle_kib? as f64));
            rows.push(at_most("peak over settled memory", 1.5, "x", ratio));
        }
    }
    rows.push(at_most("lists while idle", 0.0, "", worst(legs, |l| l.requests_idle.lists as f64)));
    rows.push(at_most("writes while idle, leases apart", 0.0, "", worst(legs, |l| l.requests_idle.writes as f64)));
    rows.push(at_most("processor while idle", 0.5, "% of a core", median(legs, |l| l.idle_cpu_percent)));
    rows.push(at_most("SIGTERM to exit, idle", 2.0, "s", median(legs, |l| l.stop_ms.map(|ms| ms / 1e3))));
    if let Some(b) = binary {
        let mib = b.stripped_bytes.map(|s| s as f64 / KIB_PER_MIB / KIB_PER_MIB);
        rows.push(at_most("binary, stripped", 25.0, "MiB", mib));
        rows.push(at_most("dynamic loader needed", 0.0, "", Some(f64::from(u8::from(!b.is_static)))));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leg(settled: f64, rss_mib: u64, writes: u64) -> Leg {
        let mut l = Leg {
            exec_to_ready_ms: Some(100.0),
            exec_to_settled_ms: Some(settled),
            rss_idle_kib: Some(rss_mib * 1024),
            peak_kib: Some(rss_mib * 2048),
            idle_cpu_percent: Some(0.1),
            stop_ms: Some(20.0),
            ..Leg::default()
        };
        l.requests_start.writes = writes;
        l
    }

    fn row<'a>(rows: &'a [Budget], what: &str) -> &'a Budget {
        rows.iter().find(|r| r.what.starts_with(what)).unwrap_or_else(|| panic!("no row {what} in {rows:?}"))
    }

    #[test]
    fn one_write_in_any_leg_breaks_the_zero_write_bar() {
        let rows = common(10_000, &[leg(900.0, 40, 0), leg(900.0, 40, 1), leg(900.0, 40, 0)], None, None);
        assert!(!row(&rows, "writes from exec").pass);
        assert!(row(&rows, "exec to settled").pass);
        assert_eq!(row(&rows, "exec to settled").measured, Some(0.9));
    }

    #[test]
    fn the_bars_follow_the_scale() {
        let rows = common(10_000, &[leg(6000.0, 61, 0)], None, None);
        assert!(!row(&rows, "exec to settled").pass && !row(&rows, "resident memory, idle").pass);
        let rows = common(100_000, &[leg(6000.0, 61, 0)], Some(&leg(1.0, 10, 0)), None);
        assert!(row(&rows, "exec to settled").pass && row(&rows, "resident memory, idle, 100000").pass);
        assert!(!row(&rows, "peak over settled").pass);
        assert!(row(&rows, "resident memory per object").measured.unwrap() < 1.0);
        let rows = common(0, &[leg(100.0, 21, 0)], None, None);
        assert!(!row(&rows, "resident memory, idle, no objects").pass && row(&rows, "exec to ready").pass);
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let mut missing = leg(100.0, 10, 0);
        missing.exec_to_settled_ms = None;
        let rows = common(10_000, &[leg(100.0, 10, 0), missing], None, None);
        let settled = row(&rows, "exec to settled");
        assert_eq!((settled.measured, settled.pass), (None, false));
    }

    #[test]
    fn a_large_or_dynamic_binary_fails() {
        let b = Binary { path: "x".into(), bytes: 1, stripped_bytes: Some(26 << 20), is_static: false };
        let rows = common(0, &[leg(1.0, 1, 0)], None, Some(&b));
        assert!(!row(&rows, "binary").pass && !row(&rows, "dynamic").pass);
    }
}
