//! What to do next about one machine, and what to say about it. One thought gives both, so that a condition never speaks
//! of something else than what is done.

mod choose;
mod delete;
mod gates;
mod host;
mod launch;
mod limits;
mod power;
mod recover;
mod release;
mod shared;
mod steady;
#[cfg(test)]
mod tests;

use std::time::Duration;

use api::key::ObjectKey;
use api::names::{HostId, InstanceId, NetworkInterfaceId, SecurityGroupId};
use api::reasons::hosts::Reason;
use aws::port::{MetadataOptions, RunInstance, Tags};
use jiff::Timestamp;
use kit::conditions::State;

pub(crate) use choose::offered;
pub use gates::{Gate, gate};
pub(crate) use host::belonging;
pub(crate) use launch::{ENDED, MISMATCHED, UNFIT, is_settled as launch_is_settled};
pub use limits::{caps, unfit};
pub(crate) use shared::is_in_use;
pub(crate) use steady::provider_id;

use crate::claim::Progress;
use crate::classes::Class;
use crate::journal::{Allocation, Launch, Scope};
use crate::obstacle::{About, Obstacle};
use crate::snapshot::{Doing, Sky, Snapshot};
use crate::tags::Change;

/// Reads of EC2 lag behind its writes by less than this; what is not visible after it is not there.
pub const CONSISTENT: Duration = Duration::from_secs(600);
/// An attempt younger than this is still the present one; a later one is recorded anew before it is made.
pub const ATTEMPT: Duration = Duration::from_secs(60);
/// How often a machine that is as it should be is looked at.
pub const RESYNC: Duration = Duration::from_secs(600);
/// After hosts were given back because they stood empty or a launch was refused for good, new ones are asked for no
/// sooner than this.
pub const PAUSE: Duration = Duration::from_secs(600);
/// How long a token that EC2 knows with other parameters is looked for before a new one is taken.
pub const MISMATCH: Duration = Duration::from_secs(3_600);
/// Hosts for mac instances are kept at least this long.
pub const MAC_MINIMUM: Duration = Duration::from_secs(24 * 3_600);

/// One effect, or a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Puts our finalizer and the scope on the machine, before anything is asked for.
    Secure {
        /// Where and as whom.
        scope: Scope,
    },
    /// Tries a launch without having it.
    Rehearse {
        /// The launch.
        request: Box<RunInstance>,
    },
    /// Stores the journal of hosts.
    Record {
        /// What is stored.
        allocation: Box<Allocation>,
    },
    /// Asks for the hosts of the stored journal.
    Allocate {
        /// The journal.
        allocation: Box<Allocation>,
    },
    /// Stores the journal of the launch.
    RecordLaunch {
        /// What is stored.
        launch: Box<Launch>,
    },
    /// Launches the instance of the stored journal.
    Launch {
        /// The journal.
        launch: Box<Launch>,
        /// The request.
        request: Box<RunInstance>,
    },
    /// Writes which instance it is.
    Publish {
        /// The instance.
        instance: InstanceId,
        /// What Cluster API knows it by.
        provider_id: String,
    },
    /// Ends instances.
    Terminate {
        /// Which.
        instances: Vec<InstanceId>,
    },
    /// Gives hosts back.
    Release {
        /// Which.
        hosts: Vec<HostId>,
    },
    /// Leaves a host to its owner, or to another claim that has a place on it.
    Retain {
        /// Which.
        host: HostId,
        /// How its tags say so.
        change: Change,
        /// The claim that it is handed over to.
        heir: Option<ObjectKey>,
    },
    /// Sets and takes off tags.
    Retag {
        /// Of what.
        resources: Vec<String>,
        /// How.
        change: Change,
    },
    /// Says on a host that the spec names, and that is its owner's, that the cluster uses it.
    Share {
        /// Which.
        host: HostId,
        /// How its tags say so.
        tags: Tags,
    },
    /// Sets the security groups of an interface.
    SetGroups {
        /// Which.
        interface: NetworkInterfaceId,
        /// The groups.
        groups: Vec<SecurityGroupId>,
    },
    /// Sets how an instance reaches its metadata service.
    SetMetadata {
        /// Which.
        instance: InstanceId,
        /// How.
        options: MetadataOptions,
    },
    /// Switches an instance on or off.
    Power {
        /// Which.
        instance: InstanceId,
        /// Whether it is to run.
        on: bool,
    },
    /// Stores how far a reboot is, or that it is over.
    Reboot {
        /// What is stored; none once the reboot is over, with which the request for it goes.
        progress: Option<Progress>,
    },
    /// Writes what was applied last.
    Note {
        /// Annotations.
        annotations: Vec<(&'static str, String)>,
    },
    /// Takes our finalizer off: nothing is left.
    Conclude,
    /// Says something once.
    Tell {
        /// Whether somebody should look.
        warning: bool,
        /// What about.
        reason: Reason,
        /// The words.
        message: String,
    },
    /// Says how things stand before going on.
    Announce,
    /// Nothing can be done before this time, or before something changes.
    Wait {
        /// When to look again.
        until: Option<Timestamp>,
    },
}

impl Step {
    /// What EC2 is asked to do; none for steps that do not change anything there.
    #[must_use]
    pub fn doing(&self) -> Option<Doing> {
        match self {
            Self::Allocate { .. } => Some(Doing::Allocate),
            Self::Rehearse { .. } => Some(Doing::Rehearse),
            Self::Launch { .. } => Some(Doing::Launch),
            Self::Terminate { .. } => Some(Doing::Terminate),
            Self::Release { .. } => Some(Doing::Release),
            Self::Retain { .. } => Some(Doing::Retain),
            Self::Retag { .. } | Self::Share { .. } => Some(Doing::Tag),
            Self::SetGroups { .. } => Some(Doing::Groups),
            Self::SetMetadata { .. } => Some(Doing::Metadata),
            Self::Power { .. } => Some(Doing::Power),
            _ => None,
        }
    }
}

/// What one condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Says {
    /// Whether it holds.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// A sentence.
    pub message: String,
}

impl Says {
    /// It holds.
    #[must_use]
    pub fn yes(reason: Reason, message: impl Into<String>) -> Self {
        Self { state: State::True, reason, message: message.into() }
    }

    /// It does not hold.
    #[must_use]
    pub fn no(reason: Reason, message: impl Into<String>) -> Self {
        Self { state: State::False, reason, message: message.into() }
    }

    /// Nobody knows.
    #[must_use]
    pub fn unknown(reason: Reason, message: impl Into<String>) -> Self {
        Self { state: State::Unknown, reason, message: message.into() }
    }
}

/// A failure that only another machine can heal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fatal {
    /// The word of Cluster API's older contract.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// What to do next and what to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thought {
    /// The steps.
    pub steps: Vec<Step>,
    /// Whether the object is left alone entirely, its status included.
    pub silent: bool,
    /// Why the machine rests, while it is paused.
    pub paused: Option<String>,
    /// How the instance stands; none leaves the condition as it is.
    pub instance: Option<Says>,
    /// How the hosts stand.
    pub host: Option<Says>,
    /// How giving the hosts back stands.
    pub release: Option<Says>,
    /// How the security groups stand.
    pub groups: Option<Says>,
    /// The machine has failed.
    pub fatal: Option<Fatal>,
    /// The spec cannot be carried out.
    pub invalid: Option<String>,
}

impl Thought {
    pub(crate) fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    pub(crate) fn wait(self, until: Timestamp) -> Self {
        self.then(Step::Wait { until: Some(until) })
    }

    pub(crate) fn instance(mut self, says: Says) -> Self {
        self.instance = Some(says);
        self
    }

    pub(crate) fn host(mut self, says: Says) -> Self {
        self.host = Some(says);
        self
    }

    pub(crate) fn release(mut self, says: Says) -> Self {
        self.release = Some(says);
        self
    }

    /// Whether the journal is written or followed, so that the next pass comes at once and has more to tell.
    pub(crate) fn goes_on(&self) -> bool {
        let writes = |step: &Step| {
            matches!(
                step,
                Step::Secure { .. }
                    | Step::Record { .. }
                    | Step::Allocate { .. }
                    | Step::RecordLaunch { .. }
                    | Step::Launch { .. }
                    | Step::Publish { .. }
            )
        };
        self.steps.iter().any(writes)
    }

    /// Whether it says nothing that people must hear of before the next pass.
    pub(crate) fn is_passing(&self) -> bool {
        let passing = [
            Reason::InstanceProvisionStarted,
            Reason::InstanceNotReady,
            Reason::HostAllocationStarted,
            Reason::HostPending,
            Reason::Deleting,
            Reason::Deleted,
            Reason::WaitingForInstanceTermination,
        ];
        let says = [&self.instance, &self.host, &self.release, &self.groups];
        let passes = |says: &Says| says.state == State::True || passing.contains(&says.reason);
        // That hosts are off our hands may be the last that is ever told.
        let last = self.release.as_ref().is_some_and(|says| says.state == State::True);
        self.fatal.is_none() && self.invalid.is_none() && !last && says.into_iter().flatten().all(passes)
    }

    /// Says what an obstacle is about, and waits as its class demands.
    pub(crate) fn stopped_by(mut self, s: &Snapshot, obstacle: &Obstacle) -> Self {
        match obstacle.about {
            About::Host => {
                let reason = match obstacle.class {
                    Class::Dependency => Reason::HostAllocationStarted,
                    class => class.of_allocation(),
                };
                self.host = Some(Says::no(reason, obstacle.message.clone()));
                self.instance = Some(Says::no(Reason::InstanceProvisionFailed, obstacle.message.clone()));
            }
            About::Instance | About::Zone | About::Data | About::Size => {
                self.instance = Some(Says::no(Reason::InstanceProvisionFailed, obstacle.message.clone()));
            }
            About::Groups => {
                self.groups = Some(Says::no(Reason::SecurityGroupsSyncFailed, obstacle.message.clone()));
                self.instance = Some(Says::no(Reason::InstanceProvisionFailed, obstacle.message.clone()));
            }
        }
        if obstacle.fatal {
            self.fatal = Some(Fatal { reason: "CreateError", message: obstacle.message.clone() });
        }
        let pause = s.pace(obstacle.class, s.tries.saturating_add(1));
        self.wait(s.after(pause))
    }
}

/// Thinks about a machine.
#[must_use]
pub fn think(s: &Snapshot) -> Thought {
    let mut thought = match gate(s) {
        Gate::Ignored => return Thought { silent: true, ..Thought::default() },
        Gate::Unowned => {
            let silent = Thought { silent: true, ..Thought::default() };
            return silent.then(Step::Wait { until: None });
        }
        Gate::Paused(why) => return Thought { paused: Some(why), ..Thought::default() },
        Gate::Delete => delete::delete(s),
        Gate::Failed => Thought::default(),
        Gate::Waiting(says) => Thought::default().instance(says),
        Gate::Refused(obstacle) => {
            let mut refused = Thought::default().stopped_by(s, &obstacle);
            refused.invalid = Some(obstacle.message);
            refused
        }
        Gate::Go => go(s),
    };
    hold_back(s, &mut thought);
    thought
}

/// A machine that is wanted, and may be worked on.
fn go(s: &Snapshot) -> Thought {
    match &s.sky {
        Sky::NotAsked => {
            let message = "the AWSCluster names no region";
            Thought::default().stopped_by(s, &Obstacle::dependency(About::Instance, message))
        }
        Sky::Clouded(obstacle) => clouded(s, obstacle),
        Sky::Clear(_) if s.alive().len() > 1 => {
            let all: Vec<String> = s.alive().iter().map(ToString::to_string).collect();
            let message = format!("more than one instance is this machine's: {}; nothing is launched", all.join(", "));
            let waiting = Thought::default().wait(s.after(ATTEMPT));
            waiting.instance(Says::no(Reason::InstanceProvisionFailed, message))
        }
        Sky::Clear(_) => match s.instance() {
            Some(instance) => steady::steady(s, instance),
            None => launch::without_instance(s),
        },
    }
}

/// EC2 could not be asked. An instance that runs goes on running: its conditions stay.
fn clouded(s: &Snapshot, obstacle: &Obstacle) -> Thought {
    let pause = s.pace(obstacle.class, s.tries.saturating_add(1));
    let waiting = Thought::default().wait(s.after(pause));
    let provisioned = s.machine.status.initialization.as_ref().is_some_and(|i| i.provisioned == Some(true));
    if provisioned || (obstacle.class == Class::Transient && s.tries < 3) {
        return waiting;
    }
    waiting.instance(Says::no(Reason::InstanceProvisionFailed, obstacle.message.clone()))
}

/// What went wrong is not tried again before its time, whoever wakes us; and what it means is said.
fn hold_back(s: &Snapshot, thought: &mut Thought) {
    let Some(mishap) = &s.mishap else { return };
    let at = thought.steps.iter().position(|step| step.doing() == Some(mishap.doing));
    let Some(at) = at else { return };
    if s.now < mishap.until {
        match mishap.doing {
            // Nothing else depends on these.
            Doing::Tag | Doing::Groups | Doing::Metadata => {
                thought.steps.retain(|step| step.doing() != Some(mishap.doing));
            }
            _ => {
                thought.steps.truncate(at);
                thought.steps.push(Step::Wait { until: Some(mishap.until) });
            }
        }
    }
    say_mishap(s, thought);
}

/// Puts what went wrong into the condition it is about.
pub fn say_mishap(s: &Snapshot, thought: &mut Thought) {
    let Some(mishap) = &s.mishap else { return };
    if mishap.class == Class::Transient && mishap.tries <= 3 {
        return;
    }
    let message = mishap.message.clone();
    match mishap.doing {
        Doing::Allocate => {
            thought.host = Some(Says::no(mishap.class.of_allocation(), message));
        }
        Doing::Rehearse | Doing::Launch => {
            thought.instance = Some(Says::no(Reason::InstanceProvisionFailed, message));
        }
        Doing::Terminate => thought.instance = Some(Says::no(Reason::DeletingFailed, message)),
        Doing::Release | Doing::Retain => {
            thought.release = Some(Says::no(mishap.class.of_release(), message));
        }
        Doing::Groups => thought.groups = Some(Says::no(Reason::SecurityGroupsSyncFailed, message)),
        // The instance is what it is: this is no condition of its own, and not hidden either.
        Doing::Tag | Doing::Metadata | Doing::Power => {
            if let Some(says) = &mut thought.instance {
                says.message = format!("{}; {message}", says.message);
            }
        }
    }
}
