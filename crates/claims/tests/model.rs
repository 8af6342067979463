//! How a claim binds a host, checked exhaustively within bounds.
//!
//! Several workers bind claims to hosts on one server. Every interleaving is tried of: looking at a claim (the same one by
//! several workers at once, as after a change of leaders or a notice that comes twice), looking at the present or at the
//! previous version of each object in any combination, writing the intent, reading and writing the host, clearing an
//! intent, writing the status, crashing between any two of these, and somebody else taking a free host. A write whose
//! answer is lost and that is done later is a worker that is slow while another one looks.
//!
//! Neither time nor the number of crashes, looks and writes is bounded: of a version only matters whether it is still the
//! present one, so there are finitely many states. Which claim, which host and which worker is which does not matter
//! either, so of all states that differ in their numbers alone one is looked at.
//!
//! Checked: no consumer of a host is ever replaced; no claim is ever named by two hosts; where nobody has anything left to
//! do, every claim has its host and says so, or there is no host left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeSet;
use std::time::Duration;

/// A host or a claim by number.
type Number = u8;

/// The consumer of a host that is none of our claims.
const OTHER: Number = 9;

/// What is changed to see that the model has teeth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// The host is written whatever its version.
    HostIsWrittenBlindly,
    /// The intent is written whatever the version of the claim.
    IntentIsWrittenBlindly,
    /// No intent is written at all.
    NoIntent,
}

#[derive(Clone, Debug)]
struct World {
    workers: usize,
    claims: Number,
    hosts: Number,
    /// Whether previous versions can be seen.
    stale: bool,
    /// Whether somebody else takes a host.
    other: bool,
    flaw: Flaw,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Claim {
    intent: Option<Number>,
    status: Option<Number>,
}

type Host = Option<Number>;

/// An object on the server: what it is and what it was before the last write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Stored<T> {
    now: T,
    before: Option<T>,
}

impl<T: Copy> Stored<T> {
    fn write(&mut self, next: T, remember: bool) {
        self.before = remember.then_some(self.now);
        self.now = next;
    }

    fn map(self, change: impl Fn(T) -> T) -> Self {
        Self { now: change(self.now), before: self.before.map(change) }
    }
}

/// What a worker is about to do. A version is present until somebody writes the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Task {
    Idle,
    /// Write the intent.
    Intend {
        claim: Number,
        host: Number,
        present: bool,
    },
    /// Write the host, as it was read.
    Bind {
        claim: Number,
        host: Number,
        present: bool,
        claim_present: bool,
    },
    /// Clear the intent.
    Clear {
        claim: Number,
        present: bool,
    },
    /// Write the status.
    Report {
        claim: Number,
        host: Number,
    },
}

impl Task {
    /// The claim and the host that it is about, and what it is apart from these.
    fn parts(self) -> (Option<Number>, Option<Number>, u32) {
        match self {
            Self::Idle => (None, None, 0),
            Self::Intend { claim, host, present } => (Some(claim), Some(host), 1 + u32::from(present)),
            Self::Bind { claim, host, present, claim_present } => {
                (Some(claim), Some(host), 3 + 2 * u32::from(present) + u32::from(claim_present))
            }
            Self::Clear { claim, present } => (Some(claim), None, 7 + u32::from(present)),
            Self::Report { claim, host } => (Some(claim), Some(host), 9),
        }
    }

    fn map(self, claims: &[Number], hosts: &[Number]) -> Self {
        let (claim_of, host_of) = (|claim| claims[usize::from(claim)], |host| hosts[usize::from(host)]);
        match self {
            Self::Idle => self,
            Self::Intend { claim, host, present } => {
                Self::Intend { claim: claim_of(claim), host: host_of(host), present }
            }
            Self::Bind { claim, host, present, claim_present } => {
                Self::Bind { claim: claim_of(claim), host: host_of(host), present, claim_present }
            }
            Self::Clear { claim, present } => Self::Clear { claim: claim_of(claim), present },
            Self::Report { claim, host } => Self::Report { claim: claim_of(claim), host: host_of(host) },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct State {
    claims: Vec<Stored<Claim>>,
    hosts: Vec<Stored<Host>>,
    /// In order, because it does not matter who does what.
    workers: Vec<Task>,
    /// Whether a consumer was replaced by another one.
    stolen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Look at a claim and at the hosts, each as it is or as it was before, and have this to do.
    Look {
        worker: usize,
        task: Task,
    },
    /// Do what is to be done next.
    Act(usize),
    Crash(usize),
    /// Somebody else takes a host.
    Taken(Number),
}

impl World {
    /// What a worker does about a claim, given what it sees; the host is read live where the protocol says so.
    fn think(&self, state: &State, claim: Number, seen: Claim, present: bool, hosts: &[Host], choice: Number) -> Task {
        let ours = |host: &usize| hosts[*host] == Some(claim);
        let named: Vec<Number> = (0..hosts.len()).filter(ours).map(|host| host as Number).collect();
        if let Some(first) = named.first() {
            let host = [seen.status, seen.intent].into_iter().flatten().find(|host| named.contains(host));
            let host = host.unwrap_or(*first);
            return if seen.status == Some(host) { Task::Idle } else { Task::Report { claim, host } };
        }
        match (seen.status, seen.intent) {
            // A status without a host: whether that is lost is another story, and takes a live read.
            (Some(_), _) => Task::Idle,
            (None, Some(host)) => self.read(state, claim, host, present),
            (None, None) if hosts[usize::from(choice)].is_none() => match self.flaw {
                Flaw::NoIntent => self.read(state, claim, choice, present),
                _ => Task::Intend { claim, host: choice, present },
            },
            (None, None) => Task::Idle,
        }
    }

    /// Reads a host live, for a claim that decided on it.
    fn read(&self, state: &State, claim: Number, host: Number, claim_present: bool) -> Task {
        match state.hosts[usize::from(host)].now {
            None => Task::Bind { claim, host, present: true, claim_present },
            Some(consumer) if consumer == claim => Task::Report { claim, host },
            Some(_) if self.flaw == Flaw::NoIntent => Task::Idle,
            Some(_) => Task::Clear { claim, present: claim_present },
        }
    }

    fn act(&self, state: &mut State, task: Task) -> Task {
        match task {
            Task::Idle => Task::Idle,
            Task::Intend { claim, host, present } => {
                if !present && self.flaw != Flaw::IntentIsWrittenBlindly {
                    return Task::Idle;
                }
                let now = state.claims[usize::from(claim)].now;
                self.write_claim(state, claim, Claim { intent: Some(host), ..now });
                self.read(state, claim, host, true)
            }
            Task::Bind { claim, host, present, claim_present } => {
                if !present && self.flaw != Flaw::HostIsWrittenBlindly {
                    return self.read(state, claim, host, claim_present);
                }
                let stored = &mut state.hosts[usize::from(host)];
                state.stolen |= stored.now.is_some_and(|consumer| consumer != claim);
                stored.write(Some(claim), self.stale);
                Self::outdate_host(state, host);
                Task::Report { claim, host }
            }
            Task::Clear { claim, present } => {
                if present {
                    let now = state.claims[usize::from(claim)].now;
                    self.write_claim(state, claim, Claim { intent: None, ..now });
                }
                Task::Idle
            }
            Task::Report { claim, host } => {
                let now = state.claims[usize::from(claim)].now;
                if now.status != Some(host) {
                    self.write_claim(state, claim, Claim { status: Some(host), ..now });
                }
                Task::Idle
            }
        }
    }

    fn write_claim(&self, state: &mut State, claim: Number, next: Claim) {
        state.claims[usize::from(claim)].write(next, self.stale);
        for task in &mut state.workers {
            match task {
                Task::Intend { claim: of, present, .. } | Task::Clear { claim: of, present } if *of == claim => {
                    *present = false;
                }
                Task::Bind { claim: of, claim_present, .. } if *of == claim => *claim_present = false,
                _ => {}
            }
        }
    }

    fn outdate_host(state: &mut State, host: Number) {
        for task in &mut state.workers {
            if let Task::Bind { host: of, present, .. } = task
                && *of == host
            {
                *present = false;
            }
        }
    }

    /// Whether nobody has anything left to do that sees things as they are.
    fn is_quiet(&self, state: &State) -> bool {
        let hosts: Vec<Host> = state.hosts.iter().map(|host| host.now).collect();
        let done = |claim: Number| {
            let seen = state.claims[usize::from(claim)].now;
            let nothing = |choice| self.think(state, claim, seen, true, &hosts, choice) == Task::Idle;
            (0..self.hosts).all(nothing)
        };
        state.workers.iter().all(|task| *task == Task::Idle) && (0..self.claims).all(done)
    }

    /// Everything that a worker can have to do after a look.
    fn looks(&self, state: &State) -> BTreeSet<Task> {
        let old = |(number, host): (usize, &Stored<Host>)| host.before.is_some().then_some(1_u8 << number);
        let old: u8 = state.hosts.iter().enumerate().filter_map(old).sum();
        let mut tasks = BTreeSet::new();
        for mask in (0..1_u8 << self.hosts).filter(|mask| mask & !old == 0) {
            let view = |(number, host): (usize, &Stored<Host>)| {
                if mask >> number & 1 == 1 { host.before.flatten() } else { host.now }
            };
            let hosts: Vec<Host> = state.hosts.iter().enumerate().map(view).collect();
            for claim in 0..self.claims {
                let stored = state.claims[usize::from(claim)];
                for (seen, present) in [(Some(stored.now), true), (stored.before, false)] {
                    let Some(seen) = seen else { continue };
                    let choices = (0..self.hosts).map(|choice| self.think(state, claim, seen, present, &hosts, choice));
                    tasks.extend(choices.filter(|task| *task != Task::Idle));
                }
            }
        }
        tasks
    }

    fn holds(state: &State, claim: Number) -> usize {
        state.hosts.iter().filter(|host| host.now == Some(claim)).count()
    }
}

impl State {
    /// The first of all states that differ from this one in the numbers of claims, hosts and workers alone.
    fn canonical(self) -> Self {
        let claims = orders(&self.marks_of_claims());
        let hosts = orders(&self.marks_of_hosts());
        let all = claims.iter().flat_map(|claims| hosts.iter().map(|hosts| self.numbered(claims, hosts)));
        all.min().unwrap()
    }

    /// What can be said of each claim without a number: claims that differ in it are never taken for each other.
    fn marks_of_claims(&self) -> Vec<u64> {
        let mark = |claim: Claim| {
            u64::from(claim.intent.is_some())
                | u64::from(claim.status.is_some()) << 1
                | u64::from(claim.intent == claim.status) << 2
        };
        let of = |(number, stored): (usize, &Stored<Claim>)| {
            let held = self.hosts.iter().filter(|host| host.now == Some(number as Number)).count() as u64;
            let tasks =
                self.workers.iter().map(|task| task.parts()).filter(|(claim, ..)| *claim == Some(number as Number));
            let tasks: u64 = tasks.map(|(_, _, what)| 1 << (2 * what)).sum();
            mark(stored.now) | stored.before.map_or(0, |before| 8 | mark(before)) << 3 | held << 7 | tasks << 9
        };
        self.claims.iter().enumerate().map(of).collect()
    }

    /// The same of each host.
    fn marks_of_hosts(&self) -> Vec<u64> {
        let mark = |host: Host| match host {
            None => 0_u64,
            Some(OTHER) => 1,
            Some(_) => 2,
        };
        let of = |(number, stored): (usize, &Stored<Host>)| {
            let this = Some(number as Number);
            let named = |claim: Claim| u64::from(claim.intent == this) + 4 * u64::from(claim.status == this);
            let now: u64 = self.claims.iter().map(|claim| named(claim.now)).sum();
            let before: u64 = self.claims.iter().filter_map(|claim| claim.before).map(named).sum();
            let tasks = self.workers.iter().map(|task| task.parts()).filter(|(_, host, _)| *host == this);
            let tasks: u64 = tasks.map(|(_, _, what)| 1 << (2 * what)).sum();
            mark(stored.now) | stored.before.map_or(3, mark) << 2 | now << 4 | before << 8 | tasks << 12
        };
        self.hosts.iter().enumerate().map(of).collect()
    }

    /// The same state with these numbers first: `claims` and `hosts` have the old number for each new one.
    fn numbered(&self, claims: &[Number], hosts: &[Number]) -> Self {
        let (new_claims, new_hosts) = (inverse(claims), inverse(hosts));
        let host_of = |host: Option<Number>| host.map(|host| new_hosts[usize::from(host)]);
        let claim = |claim: Claim| Claim { intent: host_of(claim.intent), status: host_of(claim.status) };
        let host = |host: Host| host.map(|of| if of == OTHER { OTHER } else { new_claims[usize::from(of)] });
        let mut workers: Vec<Task> = self.workers.iter().map(|task| task.map(&new_claims, &new_hosts)).collect();
        workers.sort();
        Self {
            claims: claims.iter().map(|old| self.claims[usize::from(*old)].map(claim)).collect(),
            hosts: hosts.iter().map(|old| self.hosts[usize::from(*old)].map(host)).collect(),
            workers,
            stolen: self.stolen,
        }
    }
}

/// Every order of these marks that goes from the small to the great.
fn orders(marks: &[u64]) -> Vec<Vec<Number>> {
    let mut orders = vec![Vec::new()];
    for _ in marks {
        let longer = orders.iter().flat_map(|order: &Vec<Number>| {
            let left = (0..marks.len() as Number).filter(move |number| !order.contains(number));
            let next = left.clone().map(|number| marks[usize::from(number)]).min();
            let first = left.filter(move |number| Some(marks[usize::from(*number)]) == next);
            first.map(move |number| [order.as_slice(), &[number]].concat())
        });
        orders = longer.collect();
    }
    orders
}

fn inverse(order: &[Number]) -> Vec<Number> {
    let mut inverse = vec![0; order.len()];
    for (new, old) in order.iter().enumerate() {
        inverse[usize::from(*old)] = new as Number;
    }
    inverse
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            claims: vec![Stored::default(); usize::from(self.claims)],
            hosts: vec![Stored::default(); usize::from(self.hosts)],
            workers: vec![Task::Idle; self.workers],
            stolen: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let mut before = None;
        for (worker, task) in state.workers.iter().enumerate() {
            // Workers with the same task are the same.
            if before == Some(*task) {
                continue;
            }
            before = Some(*task);
            if *task != Task::Idle {
                steps.extend([Step::Act(worker), Step::Crash(worker)]);
                continue;
            }
            steps.extend(self.looks(state).into_iter().map(|task| Step::Look { worker, task }));
        }
        let taken = state.hosts.iter().any(|host| host.now == Some(OTHER));
        if self.other && !taken {
            let free = (0..self.hosts).filter(|host| state.hosts[usize::from(*host)].now.is_none());
            steps.extend(free.map(Step::Taken));
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Look { worker, task } => state.workers[worker] = task,
            Step::Act(worker) => {
                let task = std::mem::replace(&mut state.workers[worker], Task::Idle);
                let next = self.act(&mut state, task);
                state.workers[worker] = next;
            }
            Step::Crash(worker) => state.workers[worker] = Task::Idle,
            Step::Taken(host) => {
                state.hosts[usize::from(host)].write(Some(OTHER), self.stale);
                Self::outdate_host(&mut state, host);
            }
        }
        Some(state.canonical())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no consumer is replaced", |_: &Self, state: &State| !state.stolen),
            Property::always("no claim is named by two hosts", |world: &Self, state: &State| {
                (0..world.claims).all(|claim| Self::holds(state, claim) <= 1)
            }),
            Property::always("who has nothing to do has its host or there is none", |world: &Self, state: &State| {
                let left = state.hosts.iter().any(|host| host.now.is_none());
                let served = |claim: Number| {
                    let status = state.claims[usize::from(claim)].now.status;
                    let bound = status.is_some_and(|host| state.hosts[usize::from(host)].now == Some(claim));
                    bound || (!left && status.is_none() && Self::holds(state, claim) == 0)
                };
                !world.is_quiet(state) || (0..world.claims).all(served)
            }),
            Property::sometimes("every claim can have a host", |world: &Self, state: &State| {
                let all = (0..world.claims).all(|claim| Self::holds(state, claim) == 1);
                world.is_quiet(state) && (all || world.claims > world.hosts - Number::from(world.other))
            }),
            Property::sometimes("a claim can meet a host that was taken meanwhile", |_: &Self, state: &State| {
                state.workers.iter().any(|task| matches!(task, Task::Clear { .. }))
            }),
        ]
    }
}

fn world() -> World {
    World { workers: 3, claims: 3, hosts: 3, stale: false, other: false, flaw: Flaw::None }
}

fn check(world: World) {
    let label = format!("{world:?}");
    let checker = world.checker().threads(2).spawn_bfs().join();
    let states = checker.unique_state_count();
    println!("{states} states, depth {}: {label}", checker.max_depth());
    checker.assert_properties();
    assert!(states > 1_000, "the bounds leave only {states} states");
}

#[test]
fn a_host_that_somebody_else_takes_is_left_to_them() {
    check(World { other: true, ..world() });
}

#[test]
fn old_views_of_any_object_bind_nothing_twice() {
    check(World { stale: true, other: true, ..world() });
}

/// A state that is looked at for another one must be like it in everything that is asked.
#[test]
fn a_state_and_its_first_differ_in_numbers_alone() {
    let state = State {
        claims: vec![
            Stored { now: Claim { intent: Some(2), status: None }, before: Some(Claim::default()) },
            Stored { now: Claim { intent: Some(1), status: Some(1) }, before: None },
            Stored::default(),
        ],
        hosts: vec![
            Stored { now: Some(OTHER), before: None },
            Stored { now: Some(1), before: Some(None) },
            Stored { now: None, before: None },
        ],
        workers: vec![Task::Idle, Task::Bind { claim: 0, host: 2, present: true, claim_present: false }, Task::Idle],
        stolen: false,
    };
    let first = state.clone().canonical();
    let numbers: [Number; 3] = [0, 1, 2];
    for claims in orders(&[0; 3]) {
        for hosts in orders(&[0; 3]) {
            assert_eq!(state.numbered(&claims, &hosts).canonical(), first, "{claims:?} {hosts:?}");
        }
    }
    assert_eq!(orders(&[0; 3]).len(), 6);
    assert_eq!(orders(&[5, 1, 3]), [[1, 2, 0]]);
    assert_eq!(state.numbered(&numbers, &numbers).hosts, state.hosts);
    assert_eq!(World::holds(&first, first.hosts.iter().find_map(|h| h.now.filter(|of| *of != OTHER)).unwrap()), 1);
}

#[test]
fn the_model_finds_each_flaw_it_is_given() {
    let flaws = [
        (Flaw::HostIsWrittenBlindly, "no consumer is replaced"),
        (Flaw::IntentIsWrittenBlindly, "no claim is named by two hosts"),
        (Flaw::NoIntent, "no claim is named by two hosts"),
    ];
    for (flaw, property) in flaws {
        let world = World { flaw, workers: 2, claims: 2, hosts: 2, ..world() };
        let checker = world.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
        let checker = checker.timeout(Duration::from_secs(60)).spawn_bfs().join();
        println!("{flaw:?}: {} states", checker.unique_state_count());
        assert!(checker.discovery(property).is_some(), "{flaw:?} went unnoticed");
    }
}
