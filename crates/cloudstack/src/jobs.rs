//! Work that takes its time: waiting for a job until a deadline, and making one machine per name whatever gets lost.

use std::time::Duration;

use kit::class::{Class, Classify};
use kit::clock::Clock;

use crate::errors::{Error, Kind};
use crate::port::{
    Answer, CloudStack, Deploy, Job, JobFailure, JobId, JobStatus, MachineQuery, Pick, Started, VirtualMachine,
};

/// How long a kind of job is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// After this time the job counts as late.
    pub deadline: Duration,
    /// The pause after the first question; each further one is half as long again.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Patience {
    /// To make a machine: a template may have to be copied first.
    pub const DEPLOY: Self = Self::of(20 * 60);
    /// To start, stop or restart one.
    pub const POWER: Self = Self::of(10 * 60);
    /// To destroy one with its disks.
    pub const DESTROY: Self = Self::of(15 * 60);
    /// To set or take tags.
    pub const TAG: Self = Self::of(60);

    const fn of(seconds: u64) -> Self {
        Self { deadline: Duration::from_secs(seconds), first: Duration::from_secs(1), longest: Duration::from_secs(10) }
    }

    /// The pause before the question after this many (from 1).
    #[must_use]
    pub fn pause(&self, questions: u32) -> Duration {
        let grown = (1..questions.min(32)).fold(self.first, |pause, _| (pause + pause / 2).min(self.longest));
        grown.min(self.longest)
    }
}

/// Why a job did not come to a good end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JobError {
    /// It failed. What it began to make is still there.
    #[error("the job failed")]
    Failed(#[source] JobFailure),
    /// It is not done in time; it may still end well.
    #[error("the job is not done after {}", seconds(.0))]
    Late(Duration),
    /// The server has forgotten it: look at the thing itself.
    #[error("the server no longer knows the job")]
    Forgotten,
    /// It cannot be asked about.
    #[error("cannot ask about the job")]
    Ask(#[source] Error),
}

fn seconds(time: &Duration) -> String {
    format!("{} s", time.as_secs())
}

impl Classify for JobError {
    fn class(&self) -> Class {
        match self {
            Self::Failed(failure) => failure.kind().class(),
            Self::Late(_) => Class::Transient { at_least: None },
            Self::Forgotten => Class::Stale,
            Self::Ask(error) => error.class(),
        }
    }
}

/// Waits for a job. Passing troubles of single questions are borne until the deadline.
///
/// # Errors
/// When it failed, is late, is forgotten, or may not be asked about.
pub async fn finish(cloud: &impl CloudStack, id: &JobId, patience: Patience, clock: &Clock) -> Result<Job, JobError> {
    let end = clock.instant() + patience.deadline;
    let mut questions = 0;
    loop {
        questions += 1;
        match cloud.query_job(id).await {
            Ok(Job { status: JobStatus::Failed(failure), .. }) => return Err(JobError::Failed(failure)),
            Ok(job) if matches!(job.status, JobStatus::Done(_)) => return Ok(job),
            Ok(_) => {}
            Err(error) if error.kind() == Kind::NotFound => return Err(JobError::Forgotten),
            Err(error) if error.is_definitive() => return Err(JobError::Ask(error)),
            Err(_) => {}
        }
        let pause = patience.pause(questions);
        if clock.instant() + pause >= end {
            return Err(JobError::Late(patience.deadline));
        }
        tokio::time::sleep(pause).await;
    }
}

/// The one machine of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deployed {
    /// It is being made now.
    Started(Started),
    /// It was there already, or an attempt whose answer got lost has made it.
    Found(Box<VirtualMachine>),
}

/// Makes a machine unless one of its name is there: looks first, and looks again where the outcome is unknown or the
/// name turns out to be taken. Call it again after any failure; there will not be two.
///
/// # Errors
/// When it cannot look or the server refuses.
pub async fn deploy_once(cloud: &impl CloudStack, request: &Deploy) -> Answer<Deployed> {
    if let Some(found) = find(cloud, request).await? {
        return Ok(Deployed::Found(Box::new(found)));
    }
    let error = match cloud.deploy_virtual_machine(request).await {
        Ok(started) => return Ok(Deployed::Started(started)),
        Err(error) => error,
    };
    if error.maybe_done() || error.kind() == Kind::Duplicate {
        // The first failure says more than a failure to look.
        if let Ok(Some(found)) = find(cloud, request).await {
            return Ok(Deployed::Found(Box::new(found)));
        }
    }
    Err(error)
}

/// The machine of the request's name that is not on its way out.
async fn find(cloud: &impl CloudStack, request: &Deploy) -> Answer<Option<VirtualMachine>> {
    let query = MachineQuery {
        zone: Some(request.zone.clone()),
        owner: request.owner.clone(),
        pick: Some(Pick::Name(request.name.clone())),
        ..MachineQuery::default()
    };
    let found = cloud.list_virtual_machines(&query).await?;
    Ok(found.into_iter().find(|machine| machine.name == request.name && !machine.state.is_going()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_bounded() {
        let pauses: Vec<u64> = (1..=8).map(|n| Patience::DEPLOY.pause(n).as_millis() as u64).collect();
        assert_eq!(pauses, [1000, 1500, 2250, 3375, 5062, 7593, 10_000, 10_000]);
        assert_eq!(Patience::TAG.pause(u32::MAX), Duration::from_secs(10));
    }
}
