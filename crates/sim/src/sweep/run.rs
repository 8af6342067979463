//! One run of a scenario under a plan.

use std::{
    any::Any,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::{Scenario, World};
use crate::server::{Action, Effect, EventAction, Gate, Handle, Moment, RequestInfo, Rng, Server, tokio_clock};

/// How a run is disturbed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) crash: Option<(u64, Moment)>,
    pub(crate) freeze: Option<u64>,
    pub(crate) drop_event: Option<u64>,
    pub(crate) early_act: Option<u64>,
    pub(crate) seed: Option<u64>,
}

/// What a run left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) picture: Value,
    pub(crate) effects: Vec<Effect>,
    /// The revision at the start and after each effect.
    pub(crate) revisions: Vec<u64>,
    /// Watch events the first process was due.
    pub(crate) events: u64,
    pub(crate) problem: Option<String>,
}

/// How long a restarted process sees the past.
const FROZEN_FOR: Duration = Duration::from_secs(10);
/// How long random faults go on.
const CHAOS_FOR: Duration = Duration::from_secs(300);
/// A world that has not settled after this time, or this many effects, never will.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);
const MANY: u64 = 2_000;

/// Runs on a thread and a paused runtime of its own, so that nothing is left behind and a panic is a finding.
pub(crate) fn one_run<S: Scenario>(scenario: &S, plan: &Plan) -> Seen {
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // kube draws its pauses between two attempts to watch from here.
            fastrand::seed(plan.seed.unwrap_or(1));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
            match runtime {
                Ok(runtime) => runtime.block_on(Box::pin(Run::whole(scenario, plan))),
                Err(e) => Seen { problem: Some(format!("no runtime: {e}")), ..Seen::default() },
            }
        });
        thread.join()
    });
    done.unwrap_or_else(|panic| Seen { problem: Some(panicked(&*panic)), ..Seen::default() })
}

/// A panic as a finding.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", words.unwrap_or_default())
}

struct Run<'a, S: Scenario> {
    scenario: &'a S,
    plan: &'a Plan,
    world: Arc<World<S::Outside>>,
    gate: Gate,
    handle: Handle,
    process: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    lives: u64,
    thaw_at: Option<Instant>,
    healed: bool,
    acted_early: bool,
    step: usize,
    seen: Seen,
    chaos: Option<Chaos>,
}

struct Chaos {
    rng: Arc<Mutex<Rng>>,
    until: Instant,
}

impl Chaos {
    fn draw<T>(&self, pick: impl FnOnce(&mut Rng) -> T) -> T {
        pick(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

enum Woke {
    Effect,
    Ended,
    Time,
}

impl<'a, S: Scenario> Run<'a, S> {
    async fn whole(scenario: &'a S, plan: &'a Plan) -> Seen {
        let clock = tokio_clock();
        let server = Server::with_clock(plan.seed.unwrap_or(1), clock.clone());
        let gate = Gate::new(scenario.ignored());
        let outside = scenario.outside(&gate, &clock);
        let world = Arc::new(World { server, clock, outside, gate: gate.clone() });
        scenario.prepare(&world).await;
        let chaos = plan.seed.map(|seed| Chaos {
            rng: Arc::new(Mutex::new(Rng::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ 0x1405))),
            until: Instant::now() + CHAOS_FOR,
        });
        let handle = world.server.client("process-1");
        handle.attach(gate.clone());
        gate.plan(plan.crash);
        if let Some(nth) = plan.drop_event {
            handle.drop_event(nth);
        }
        let process = Box::pin(scenario.process(world.clone(), handle.kube()));
        let mut run = Run {
            scenario,
            plan,
            gate,
            handle,
            process,
            lives: 1,
            thaw_at: None,
            healed: false,
            acted_early: false,
            step: 0,
            seen: Seen { revisions: vec![world.server.revision()], ..Seen::default() },
            world,
            chaos,
        };
        run.unsettle();
        if let Err(problem) = run.story().await {
            run.seen.problem = Some(problem);
        }
        run.seen.effects = run.gate.effects();
        run.seen.picture = run.scenario.picture(&run.world);
        run.seen
    }

    async fn story(&mut self) -> Result<(), String> {
        loop {
            self.settle().await?;
            if self.lives == 1 {
                self.seen.events = self.handle.events();
            }
            if self.plan.drop_event.is_some_and(|n| self.handle.events() >= n) && !self.healed {
                self.healed = true;
                self.handle.expire_watches();
                self.settle().await?;
            }
            if !self.scenario.act(&self.world, self.step).await {
                break;
            }
            self.step += 1;
            self.check()?;
        }
        if let Some(chaos) = &self.chaos
            && Instant::now() < chaos.until
        {
            let until = chaos.until;
            while Instant::now() < until {
                self.settle().await?;
            }
        }
        self.calm_down();
        self.settle().await?;
        let before = self.gate.count();
        self.settle().await?;
        let after = self.gate.count();
        if after != before {
            let effects = self.gate.effects();
            let last = effects.last().map(|e| e.what.clone()).unwrap_or_default();
            return Err(format!("the settled world is not quiet: {} more effects, the last {last}", after - before));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        self.scenario
            .invariant(&self.world)
            .map_err(|why| format!("after effect {} the invariant does not hold: {why}", self.gate.count()))
    }

    /// Runs until nothing has happened for the scenario's time and no request is open.
    async fn settle(&mut self) -> Result<(), String> {
        let window = self.scenario.settle();
        let give_up = Instant::now() + PATIENCE;
        let mut quiet_from = Instant::now();
        let begun = self.gate.count();
        loop {
            let now = Instant::now();
            if self.gate.count() - begun > MANY {
                return Err(format!("it has not settled after {MANY} effects"));
            }
            if now > give_up {
                return Err(format!("it has not settled after {} h", PATIENCE.as_secs() / 3600));
            }
            let quiet_at = quiet_from + window;
            let alarm = self.thaw_at.map_or(quiet_at, |t| t.min(quiet_at));
            let woke = tokio::select! {
                biased;
                () = self.gate.changed() => Woke::Effect,
                () = &mut self.process => Woke::Ended,
                () = sleep_until(alarm) => Woke::Time,
            };
            match woke {
                Woke::Effect => {
                    if self.gate.take_unchecked() {
                        quiet_from = Instant::now();
                        self.seen.revisions.push(self.world.server.revision());
                        self.check()?;
                        self.after_effect().await?;
                        self.gate.release();
                    }
                    if self.gate.is_dead() {
                        self.restart();
                        quiet_from = Instant::now();
                    }
                }
                Woke::Ended => {
                    if self.lives > 200 {
                        return Err("the process keeps ending by itself".into());
                    }
                    // As a supervisor would: after a moment, again.
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    self.restart();
                    quiet_from = Instant::now();
                }
                Woke::Time => {
                    let now = Instant::now();
                    if self.thaw_at.is_some_and(|t| t <= now) {
                        self.thaw_at = None;
                        self.handle.thaw();
                        quiet_from = now;
                    } else if now >= quiet_at {
                        if self.world.server.in_flight() == 0 {
                            return Ok(());
                        }
                        quiet_from = now;
                    }
                }
            }
        }
    }

    async fn after_effect(&mut self) -> Result<(), String> {
        if self.plan.early_act == Some(self.gate.count()) && !self.acted_early {
            self.acted_early = true;
            if self.scenario.act(&self.world, self.step).await {
                self.step += 1;
            }
            self.check()?;
        }
        if let Some(chaos) = &self.chaos
            && Instant::now() < chaos.until
        {
            match chaos.draw(|rng| rng.below(40)) {
                0 => self.handle.cut_watches(),
                1 => self.handle.expire_watches(),
                _ => {}
            }
        }
        Ok(())
    }

    /// A new process on the stored state.
    fn restart(&mut self) {
        self.handle.crash();
        self.lives += 1;
        self.handle = self.world.server.client(&format!("process-{}", self.lives));
        self.handle.attach(self.gate.clone());
        // The old process goes before the gate opens again.
        self.process = Box::pin(std::future::pending());
        self.gate.revive();
        self.thaw_at = None;
        let freeze = match &self.chaos {
            None => self.plan.freeze,
            Some(chaos) if Instant::now() < chaos.until => {
                let first = self.seen.revisions.first().copied().unwrap_or(0);
                let now = self.world.server.revision();
                chaos.draw(|rng| rng.percent(50).then(|| now.saturating_sub(rng.below(10)).max(first)))
            }
            Some(_) => None,
        };
        if let Some(revision) = freeze {
            self.handle.freeze_where(revision, self.scenario.cached());
            self.thaw_at = Some(Instant::now() + FROZEN_FOR);
        }
        self.process = Box::pin(self.scenario.process(self.world.clone(), self.handle.kube()));
        self.unsettle();
    }

    /// Sets up the random faults of a new process.
    fn unsettle(&mut self) {
        let Some(chaos) = &self.chaos else { return };
        if Instant::now() >= chaos.until {
            return;
        }
        let (rng, until) = (chaos.rng.clone(), chaos.until);
        self.handle.script(move |info| {
            let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
            if Instant::now() < until { fate(&mut rng, info) } else { Vec::new() }
        });
        let rng = chaos.rng.clone();
        self.handle.script_events(move |_, _, _| {
            let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
            if Instant::now() >= until {
                return EventAction::default();
            }
            let delay = if rng.percent(15) { rng.below(2000) } else { 0 };
            EventAction { drop: false, repeat: rng.percent(10), delay: Duration::from_millis(delay) }
        });
        let crash = chaos.draw(|rng| {
            let moment = match rng.below(3) {
                0 => Moment::Before,
                1 => Moment::Committed,
                _ => Moment::Answered,
            };
            rng.percent(70).then(|| (rng.below(8) + 1, moment))
        });
        self.gate.plan(crash.map(|(ahead, moment)| (self.gate.count() + ahead, moment)));
    }

    /// Faults stop; from here on the world must come to rest.
    fn calm_down(&mut self) {
        if self.chaos.is_some() {
            self.handle.unscript();
            self.gate.plan(None);
            self.handle.thaw();
            self.thaw_at = None;
        }
    }
}

/// What happens to one request in a random run.
fn fate(rng: &mut Rng, info: &RequestInfo) -> Vec<Action> {
    let mut out = Vec::new();
    if rng.percent(20) {
        out.push(Action::Delay(Duration::from_millis(rng.below(3000))));
    }
    match rng.below(100) {
        0..5 if info.mutating => out.push(Action::DropAnswer),
        5..10 if info.mutating => out.push(Action::Conflict),
        10..13 => out.push(Action::Status(500)),
        13..15 => out.push(Action::TooMany(1)),
        15..18 => out.push(Action::Refuse),
        _ => {}
    }
    out
}
