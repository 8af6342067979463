//! Sweeps: stop, mislead and disturb a controller at every point, and look whether the world ends the same.
//!
//! A [`Scenario`] says what there is before, what process runs, what users do, and what of the settled world
//! counts. Each run has its own server, its own paused tokio time (hours pass in milliseconds) and its own
//! thread, so the sweeps are plain functions and can be called from any test:
//!
//! ```
//! use std::{future::Future, sync::Arc};
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, Patch, PatchParams};
//! use sim::{
//!     server::{Clock, Gate},
//!     sweep::{self, Scenario, World},
//! };
//!
//! struct OneMap;
//!
//! impl Scenario for OneMap {
//!     type Outside = (); // or a simulator that lets its effects pass the gate
//!
//!     fn name(&self) -> &str {
//!         "one map"
//!     }
//!
//!     fn outside(&self, _: &Gate, _: &Clock) {}
//!
//!     async fn prepare(&self, world: &World<()>) {
//!         world.server.namespace("work");
//!     }
//!
//!     async fn process(&self, _: Arc<World<()>>, client: kube::Client) {
//!         let maps: Api<ConfigMap> = Api::namespaced(client, "work");
//!         let body = serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "1" } });
//!         let _ = maps.patch("m", &PatchParams::apply("doc"), &Patch::Apply(&body)).await;
//!         std::future::pending().await // runs until it is stopped
//!     }
//! }
//!
//! sweep::crash_sweep(&OneMap).assert_passed();
//! ```

mod picture;
mod run;

use std::{fmt, future::Future, ops::Range, sync::Arc, time::Duration};

use serde_json::Value;

pub use picture::picture;
pub(crate) use run::panicked;

use crate::server::{Clock, Effect, Gate, Moment, RequestInfo, Server};
use run::{Plan, Seen, one_run};

/// Everything that outlives a process: the server, its time, and what lies outside the cluster.
pub struct World<O> {
    /// The API server.
    pub server: Server,
    /// The run's clock; it follows the run's paused time.
    pub clock: Clock,
    /// The scenario's own simulators.
    pub outside: O,
    gate: Gate,
}

impl<O> World<O> {
    /// The gate that numbers the process's effects.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// What a sweep runs.
pub trait Scenario: Sync {
    /// What lies outside the cluster; `()` when nothing does.
    type Outside: Send + Sync;

    /// The scenario's name, for reports.
    fn name(&self) -> &str;

    /// Makes the outside of one run; its effects pass through the gate to be numbered and stopped at.
    fn outside(&self, gate: &Gate, clock: &Clock) -> Self::Outside;

    /// Objects and registered kinds before anything runs.
    fn prepare(&self, world: &World<Self::Outside>) -> impl Future<Output = ()> + Send;

    /// The process under test: runs until it is dropped, and begins again from stored state only.
    fn process(&self, world: Arc<World<Self::Outside>>, client: kube::Client) -> impl Future<Output = ()> + Send;

    /// What users do once the world has settled, step by step from 0; false when there is no such step.
    fn act(&self, world: &World<Self::Outside>, step: usize) -> impl Future<Output = bool> + Send {
        let _ = (world, step);
        async { false }
    }

    /// What of the settled world is compared.
    fn picture(&self, world: &World<Self::Outside>) -> Value {
        picture(&world.server)
    }

    /// What must hold after every effect.
    ///
    /// # Errors
    /// The words of what does not hold.
    fn invariant(&self, world: &World<Self::Outside>) -> Result<(), String> {
        let _ = world;
        Ok(())
    }

    /// Resources whose writes are no effects: heartbeats.
    fn ignored(&self) -> Vec<String> {
        vec!["leases.coordination.k8s.io".into()]
    }

    /// Which reads fill the process's cache and may therefore be old; lists and watches unless said.
    fn cached(&self) -> fn(&RequestInfo) -> bool {
        RequestInfo::fills_cache
    }

    /// How long nothing may happen until the world counts as settled.
    fn settle(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// One disturbed run that did not end well.
#[derive(Clone, Debug)]
pub struct Failing {
    /// Where it was disturbed.
    pub point: String,
    /// What went wrong.
    pub why: String,
}

/// What a sweep found.
#[derive(Clone, Debug)]
pub struct SweepReport {
    /// Sweep and scenario.
    pub name: String,
    /// How many disturbed runs there were.
    pub points: usize,
    /// The effects of the undisturbed run.
    pub effects: Vec<Effect>,
    /// The runs that did not end well.
    pub failures: Vec<Failing>,
}

impl SweepReport {
    /// Whether every run ended well, and there was at least one.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty() && self.points > 0
    }

    /// Fails the test that asks, with all the words.
    ///
    /// # Panics
    /// When the sweep did not pass.
    pub fn assert_passed(&self) {
        assert!(self.passed(), "{self}");
    }
}

impl fmt::Display for SweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bad = self.failures.len();
        writeln!(f, "{}: {} points, {bad} failed, {} effects undisturbed", self.name, self.points, self.effects.len())?;
        for failing in self.failures.iter().take(10) {
            writeln!(f, "  at {}: {}", failing.point, failing.why)?;
        }
        if bad > 10 {
            writeln!(f, "  and {} more", bad - 10)?;
        }
        Ok(())
    }
}

struct Sweep<'a, S: Scenario> {
    scenario: &'a S,
    report: SweepReport,
    calm: Seen,
}

impl<'a, S: Scenario> Sweep<'a, S> {
    /// Runs undisturbed; everything else is compared with that.
    fn begin(kind: &str, scenario: &'a S) -> Self {
        let mut report = SweepReport {
            name: format!("{kind} of {}", scenario.name()),
            points: 0,
            effects: Vec::new(),
            failures: Vec::new(),
        };
        let calm = one_run(scenario, &Plan::default());
        report.effects.clone_from(&calm.effects);
        if let Some(why) = &calm.problem {
            report.failures.push(Failing { point: "the undisturbed run".into(), why: why.clone() });
        }
        Self { scenario, report, calm }
    }

    fn sound(&self) -> bool {
        self.report.failures.is_empty()
    }

    fn point(&mut self, point: String, plan: &Plan) {
        self.report.points += 1;
        let seen = one_run(self.scenario, plan);
        let why = match seen.problem {
            Some(problem) => Some(problem),
            None => picture::difference(&self.calm.picture, &seen.picture)
                .map(|d| format!("the settled world differs from the undisturbed one: {d}")),
        };
        if let Some(why) = why {
            self.report.failures.push(Failing { point, why });
        }
    }

    fn described(&self, number: u64) -> String {
        let effect = self.report.effects.iter().find(|e| e.number == number);
        format!("effect {number} ({})", effect.map(|e| e.what.as_str()).unwrap_or_default())
    }
}

const MOMENTS: [(Moment, &str); 3] = [
    (Moment::Before, "before the call"),
    (Moment::Committed, "after the commit, before the answer"),
    (Moment::Answered, "after the answer"),
];

/// One run, undisturbed: for what only has to hold at all, not under every disturbance.
pub fn calm<S: Scenario>(scenario: &S) -> SweepReport {
    let mut sweep = Sweep::begin("undisturbed run", scenario);
    sweep.report.points = 1;
    sweep.report
}

/// Stops the process before, at and after each of its effects and restarts it from stored state.
pub fn crash_sweep<S: Scenario>(scenario: &S) -> SweepReport {
    let mut sweep = Sweep::begin("crash sweep", scenario);
    if sweep.sound() {
        for number in 1..=sweep.report.effects.len() as u64 {
            for (moment, words) in MOMENTS {
                let point = format!("{}, stopped {words}", sweep.described(number));
                sweep.point(point, &Plan { crash: Some((number, moment)), ..Plan::default() });
            }
        }
    }
    sweep.report
}

/// Of the first `seen` revisions those at which a cache is frozen: the last five and the first, because each costs a run and
/// all of them grow with the square of the scenario.
fn earlier(revisions: &[u64], seen: usize, all: bool) -> Vec<u64> {
    let seen = revisions.iter().take(seen).copied().enumerate();
    let recent = seen.len().saturating_sub(5);
    seen.filter(|(i, _)| all || *i == 0 || *i >= recent).map(|(_, revision)| revision).collect()
}

/// Restarts the process after each effect with its cache frozen at earlier revisions: the last five and the first, or each
/// of them with `BERTH_STALE=all`.
pub fn stale_sweep<S: Scenario>(scenario: &S) -> SweepReport {
    let mut sweep = Sweep::begin("stale sweep", scenario);
    if sweep.sound() {
        let revisions = sweep.calm.revisions.clone();
        let all = std::env::var_os("BERTH_STALE").is_some_and(|value| value == "all");
        for (i, _) in revisions.iter().enumerate().skip(1) {
            let number = i as u64;
            for revision in earlier(&revisions, i, all) {
                let point = format!("{}, then restarted with a cache of revision {revision}", sweep.described(number));
                let plan = Plan { crash: Some((number, Moment::Answered)), freeze: Some(revision), ..Plan::default() };
                sweep.point(point, &plan);
            }
        }
    }
    sweep.report
}

/// Suppresses each watch event once; after the world has settled without it, the watch expires and is read anew.
pub fn missed_event_sweep<S: Scenario>(scenario: &S) -> SweepReport {
    let mut sweep = Sweep::begin("missed-event sweep", scenario);
    if sweep.sound() {
        for event in 1..=sweep.calm.events {
            let point = format!("watch event {event}, suppressed");
            sweep.point(point, &Plan { drop_event: Some(event), ..Plan::default() });
        }
    }
    sweep.report
}

/// Lets the users' first act happen right after each effect instead of in the settled world.
pub fn early_act_sweep<S: Scenario>(scenario: &S) -> SweepReport {
    let mut sweep = Sweep::begin("early-act sweep", scenario);
    if sweep.sound() {
        for number in 1..=sweep.report.effects.len() as u64 {
            let point = format!("{}, the users acting right after it", sweep.described(number));
            sweep.point(point, &Plan { early_act: Some(number), ..Plan::default() });
        }
    }
    sweep.report
}

/// Random schedules of delays, refusals, conflicts, lost answers, repeated events, cut watches, crashes and
/// old caches, one per seed; a failing seed is named and gives the same run again. `BERTH_SEED` asks for that one alone,
/// `BERTH_SEEDS` for that many from it, or from the first of the range.
///
/// # Panics
/// When what the two ask for is no number.
pub fn seeds<S: Scenario>(scenario: &S, range: Range<u64>) -> SweepReport {
    schedules(scenario, crate::seeds::seeds(&range))
}

/// The same with these seeds and no others, whatever somebody asks for.
pub fn schedules<S: Scenario>(scenario: &S, range: Range<u64>) -> SweepReport {
    let mut sweep = Sweep::begin("seeds", scenario);
    if sweep.sound() {
        for seed in range {
            sweep.point(format!("seed {seed}"), &Plan { seed: Some(seed), ..Plan::default() });
        }
    }
    sweep.report
}

#[cfg(test)]
mod tests {
    use super::earlier;

    #[test]
    fn a_stale_sweep_takes_the_last_five_revisions_and_the_first_unless_all_are_asked_for() {
        let revisions: Vec<u64> = (10..20).collect();
        assert_eq!(earlier(&revisions, 8, false), [10, 13, 14, 15, 16, 17]);
        assert_eq!(earlier(&revisions, 6, false), [10, 11, 12, 13, 14, 15]);
        assert_eq!(earlier(&revisions, 1, false), [10]);
        assert_eq!(earlier(&revisions, 8, true), revisions[..8]);
        assert!(earlier(&[], 3, true).is_empty());
    }
}
