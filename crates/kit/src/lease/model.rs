//! The election, checked exhaustively within bounds.
//!
//! The real [`Election`] is run by every interleaving of: time passing, reads of the current or of the previous version,
//! writes that are sent, done (at any later time, also after their sender gave up), answered late or never, crashes with
//! a restart under a new name, and releases. A stopped process is one that takes no step while time passes. All clocks
//! run at one rate.
//!
//! Neither time nor the number of writes is bounded: states are kept relative to the present second and the present
//! version, which makes them finitely many. Crashes and releases are counted.
//!
//! Checked: no two candidates are within their terms at one moment; of all writes on one version at most one succeeds;
//! leading, taking over after a crash and taking over after a release are possible.

use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model, Property};
use tokio::time::Instant;

use super::election::{Action, Draft, Election, Standing, Terms, View};
use crate::clock::Clock;

const SEC: Duration = Duration::from_secs(1);

/// The names of versions: the one just written, the stored one, the one before it, any older one.
const NEXT: &str = "next";
const CURRENT: &str = "current";
const BEFORE: &str = "before";
const OLD: &str = "old";

/// What is changed to see that the model has teeth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    TermCountsFromTheAnswer,
    WritesAreNotGuarded,
    OthersDoNotWaitTheWholeTerm,
}

#[derive(Clone, Debug)]
struct World {
    /// The present, for ever: what is past moves away from it.
    now: Instant,
    candidates: usize,
    crashes: u8,
    releases: u8,
    term: u32,
    /// Reads may answer with the version before.
    stale: bool,
    /// Writes may be done after their sender gave up.
    ghosts: bool,
    flaw: Flaw,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    lease: Option<View>,
    /// The version before, for stale reads.
    before: Option<View>,
    who: Vec<Who>,
    crashes: u8,
    releases: u8,
    /// Whether a write succeeded on a version that another one had already replaced.
    won_twice: bool,
    /// How the present holder came to it.
    took: Took,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Took {
    Free,
    Released,
    Expired,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Who {
    election: Election,
    write: Option<Write>,
    /// A write its sender no longer waits for, which may still be done.
    ghost: Option<(Draft, Option<String>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Write {
    draft: Draft,
    base: Option<String>,
    /// Seconds since it was sent.
    age: u8,
    answer: Option<Option<View>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Tick,
    Act(usize, bool),
    Do(usize),
    Answer(usize),
    GiveUp(usize),
    Ghost(usize),
    Crash(usize),
    Release(usize),
}

impl World {
    fn fresh(&self, name: String) -> Who {
        let duration = SEC * self.term;
        let terms = Terms { duration, margin: SEC, renew: SEC, retry: SEC, request: SEC };
        Who { election: Election::new(name, terms), write: None, ghost: None }
    }

    /// The server: a write is done only on the version it names.
    fn store(&self, state: &mut State, draft: &Draft, base: &Option<String>) -> Option<View> {
        let current = state.lease.as_ref().map(|view| view.version.clone());
        if current != *base && self.flaw != Flaw::WritesAreNotGuarded {
            return None;
        }
        state.won_twice |= current != *base;
        if draft.acquired {
            state.took = match &state.lease {
                None => Took::Free,
                Some(View { holder: None, .. }) => Took::Released,
                Some(_) => Took::Expired,
            };
        }
        let view = View {
            version: NEXT.to_owned(),
            holder: draft.holder.clone(),
            duration: Some(if self.flaw == Flaw::OthersDoNotWaitTheWholeTerm {
                draft.duration - SEC
            } else {
                draft.duration
            }),
            // Counted, but of no consequence: left out to keep equal states equal.
            transitions: 0,
        };
        state.before = state.lease.replace(view.clone());
        Some(view)
    }

    /// Lets `past` go by and makes all equal that will behave equally for ever.
    fn essence(&self, state: &mut State, past: Duration) {
        let current = state.lease.as_ref().map(|view| view.version.clone());
        let before = state.before.as_ref().map(|view| view.version.clone());
        let rename = |version: &str| {
            let known = [(&current, CURRENT), (&before, BEFORE)];
            let found = known.into_iter().find(|(is, _)| is.as_deref() == Some(version));
            found.map_or(OLD, |(_, name)| name).to_owned()
        };
        // A write on a version that is not the current one fails whenever it is done.
        let target = |base: &mut Option<String>| {
            if *base != current {
                *base = Some(OLD.to_owned());
            } else if let Some(version) = base {
                *version = CURRENT.to_owned();
            }
        };
        for who in &mut state.who {
            who.election.essence(self.now, past, rename);
            if let Some(write) = &mut who.write {
                if write.answer.is_none() {
                    target(&mut write.base);
                } else {
                    write.base = None;
                }
                if let Some(Some(view)) = &mut write.answer {
                    view.version = rename(&view.version);
                }
                write.age = (write.age + u8::from(!past.is_zero())).min(self.term as u8);
            }
            if let Some((_, base)) = &mut who.ghost {
                target(base);
            }
            // Without guards even a dead write is alive; with them it is forgotten.
            let dead = |base: &Option<String>| base.as_deref() == Some(OLD);
            if self.flaw != Flaw::WritesAreNotGuarded && who.ghost.as_ref().is_some_and(|(_, base)| dead(base)) {
                who.ghost = None;
            }
        }
        for (view, name) in [(&mut state.lease, CURRENT), (&mut state.before, BEFORE)] {
            if let Some(view) = view {
                view.version = name.to_owned();
            }
        }
    }

    fn acting(&self, state: &State) -> usize {
        let acts = |who: &&Who| matches!(who.election.standing(self.now), Standing::Leading | Standing::Stopping);
        state.who.iter().filter(acts).count()
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let who = (0..self.candidates).map(|n| self.fresh(format!("{n}"))).collect();
        let took = Took::Free;
        vec![State { lease: None, before: None, who, crashes: 0, releases: 0, won_twice: false, took }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        for (n, who) in state.who.iter().enumerate() {
            match &who.write {
                None => {
                    steps.push(Step::Act(n, false));
                    if self.stale && state.before.is_some() {
                        steps.push(Step::Act(n, true));
                    }
                }
                Some(Write { answer: None, .. }) => {
                    steps.push(Step::Do(n));
                    if self.ghosts && who.ghost.is_none() {
                        steps.push(Step::GiveUp(n));
                    }
                }
                Some(_) => steps.extend([Step::Answer(n), Step::GiveUp(n)]),
            }
            if who.ghost.is_some() {
                steps.push(Step::Ghost(n));
            }
            if state.crashes < self.crashes {
                steps.push(Step::Crash(n));
            }
            if state.releases < self.releases && who.write.is_none() && who.election.until().is_some() {
                steps.push(Step::Release(n));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        let now = self.now;
        let mut past = Duration::ZERO;
        match step {
            Step::Tick => past = SEC,
            Step::Act(n, stale) => {
                let seen = if stale { state.before.clone() } else { state.lease.clone() };
                let who = &mut state.who[n];
                let mut action = who.election.due(now);
                if action == Action::Look {
                    action = who.election.observe(seen, now);
                }
                if let Some(draft) = who.election.draft(&action) {
                    let base = match action {
                        Action::Create => None,
                        _ => who.election.known_view().map(|view| view.version.clone()),
                    };
                    who.write = Some(Write { draft, base, age: 0, answer: None });
                }
            }
            Step::Do(n) => {
                let write = state.who[n].write.clone()?;
                let answer = self.store(&mut state, &write.draft, &write.base);
                state.who[n].write = Some(Write { answer: Some(answer), ..write });
            }
            Step::Answer(n) => {
                let who = &mut state.who[n];
                let write = who.write.take()?;
                match write.answer? {
                    Some(view) => {
                        let sent = if self.flaw == Flaw::TermCountsFromTheAnswer {
                            now
                        } else {
                            now - SEC * u32::from(write.age)
                        };
                        who.election.wrote(view, sent, now);
                    }
                    None => who.election.doubt(),
                }
            }
            Step::GiveUp(n) => {
                let who = &mut state.who[n];
                let write = who.write.take()?;
                if write.answer.is_none() {
                    who.ghost = Some((write.draft, write.base));
                }
                who.election.doubt();
            }
            Step::Ghost(n) => {
                let (draft, base) = state.who[n].ghost.take()?;
                let _ = self.store(&mut state, &draft, &base);
            }
            Step::Crash(n) => {
                state.crashes += 1;
                let fresh = self.fresh(format!("{n}.{}", state.crashes));
                let old = std::mem::replace(&mut state.who[n], fresh);
                state.who[n].ghost = match old.write {
                    Some(Write { draft, base, answer: None, .. }) => Some((draft, base)),
                    _ => old.ghost,
                };
            }
            Step::Release(n) => {
                state.releases += 1;
                let who = &mut state.who[n];
                let view = who.election.resign()?.clone();
                let draft = Election::release(&view);
                who.write = Some(Write { draft, base: Some(view.version), age: 0, answer: None });
            }
        }
        self.essence(&mut state, past);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no two candidates are within their terms", |world: &Self, state: &State| {
                world.acting(state) <= 1
            }),
            Property::always("one version is won once", |_: &Self, state: &State| !state.won_twice),
            Property::sometimes("somebody leads", |world: &Self, state: &State| world.acting(state) == 1),
            Property::sometimes("a term that ran out is taken over", |world: &Self, state: &State| {
                state.took == Took::Expired && world.acting(state) == 1
            }),
            Property::sometimes("a released lease is taken over", |world: &Self, state: &State| {
                (world.releases == 0 || state.took == Took::Released) && world.acting(state) == 1
            }),
        ]
    }
}

fn world(candidates: usize, term: u32) -> World {
    // Far enough from the start of the machine that the past can be subtracted.
    let now = Clock::system().instant() + Duration::from_secs(1000);
    World { now, candidates, crashes: 1, releases: 1, term, stale: true, ghosts: true, flaw: Flaw::None }
}

fn check(world: World) {
    let begin = Clock::system().instant();
    let label = format!("{world:?}");
    let checker = world.checker().threads(2).spawn_bfs().join();
    let states = checker.unique_state_count();
    println!("{states} states, depth {}, {:?}: {label}", checker.max_depth(), Clock::system().instant() - begin);
    checker.assert_properties();
    assert!(states > 10_000, "the bounds leave only {states} states");
}

#[test]
fn two_candidates_are_never_both_within_a_term() {
    check(World { crashes: 0, ..world(2, 3) });
    check(World { releases: 0, ..world(2, 3) });
}

#[test]
fn three_candidates_are_never_two_within_a_term() {
    check(World { crashes: 0, releases: 0, stale: false, ghosts: false, ..world(3, 2) });
}

#[test]
#[ignore = "half a million states and more: minutes in an unoptimised build"]
fn the_wider_bounds_hold_too() {
    check(world(2, 3));
    check(World { crashes: 0, releases: 0, stale: false, ..world(3, 2) });
    check(World { crashes: 0, releases: 0, ghosts: false, ..world(3, 2) });
    check(World { crashes: 0, stale: false, ghosts: false, ..world(3, 2) });
    check(World { releases: 0, stale: false, ghosts: false, ..world(3, 2) });
}

#[test]
fn the_model_finds_each_flaw_it_is_given() {
    for flaw in [Flaw::TermCountsFromTheAnswer, Flaw::WritesAreNotGuarded, Flaw::OthersDoNotWaitTheWholeTerm] {
        let checker = World { flaw, ..world(2, 3) }.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
        let checker = checker.timeout(60 * SEC).spawn_bfs().join();
        let found = checker.discovery("no two candidates are within their terms");
        println!("{flaw:?}: {} states", checker.unique_state_count());
        assert!(found.is_some(), "{flaw:?} went unnoticed");
    }
}
