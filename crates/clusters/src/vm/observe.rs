//! Gathers one snapshot: the claim from the index, its Secrets and CloudStack as they are now.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use api::own::{FailureDomainMode, OnHostFailure};
use claim_kind::claim::ClaimFacts;
use cloudstack::errors::Kind;
use cloudstack::port::{
    Answer, CloudStack, DataDisk, Deploy, JobStatus, MachineQuery, MachineState, NetworkId, Pick, USER_DATA,
    VirtualMachine, VirtualMachineId,
};
use cloudstack::profile::{ProfileError, URL};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit::feed::Version;
use kit::kinds;
use kit::write::Target;
use kube::Api;

use super::args::{self, Wish};
use super::memory::LONGEST;
#[cfg(test)]
use super::memory::SHORTEST;
pub use super::memory::{Act, Setback};
use super::room::{Error, Vms};
use super::words::{Obstacle, Tell};
use super::{TAG, machine_name};
use crate::acs::{Clouds, Fault};
use crate::secrets::{self, Credentials};

/// So long CloudStack is asked about a job; all three together end before a pass may not take longer.
const JOB: Duration = Duration::from_secs(5);
/// So long it is asked for machines.
const LIST: Duration = Duration::from_secs(10);
/// So long it is asked for what machines are made of.
const STOCK: Duration = Duration::from_secs(12);

/// What CloudStack shows of a claim's machines.
#[derive(Clone, Debug, PartialEq)]
pub enum Sight {
    /// Nobody asked.
    Unasked,
    /// It could not be asked, or did not say.
    Blind(Obstacle),
    /// Every machine of the claim, those on their way out included.
    Seen(Vec<VirtualMachine>),
}

/// One claim at one moment, with everything that a decision about it needs.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where the claim is.
    pub key: ObjectKey,
    /// When this was read.
    pub now: Timestamp,
    /// The kind of the object, as it is served.
    pub resource: kinds::Kind,
    /// The claim.
    pub claim: Arc<ClaimFacts>,
    /// The version of it that was read.
    pub version: Version,
    /// Whether it must be left alone.
    pub paused: bool,
    /// The name of its machine.
    pub name: String,
    /// As whom CloudStack is called.
    pub credentials: Option<Credentials>,
    /// What CloudStack shows.
    pub sight: Sight,
    /// What is to be made, or what stands against it; `None` when nothing is to be made.
    pub order: Option<Result<Box<Deploy>, Obstacle>>,
    /// What CloudStack is doing for it.
    pub under_way: Option<Act>,
    /// What did not come to a good end lately.
    pub setback: Option<Setback>,
    /// Until when no other machine is made.
    pub hold: Option<Timestamp>,
    /// What people were told about it.
    pub told: BTreeSet<Tell>,
    /// When to look again at what does not tell of itself.
    pub retry: Timestamp,
    /// When to look again at what should stay as it is.
    pub recheck: Timestamp,
    /// The version that this pass itself made of the claim.
    made: Arc<Mutex<Option<Version>>>,
}

impl Snapshot {
    /// The machines of the claim, those on their way out included.
    #[must_use]
    pub fn machines(&self) -> &[VirtualMachine] {
        match &self.sight {
            Sight::Seen(all) => all,
            Sight::Unasked | Sight::Blind(_) => &[],
        }
    }

    /// The machine that counts: of several that live the one on record, and otherwise the first.
    #[must_use]
    pub fn machine(&self) -> Option<&VirtualMachine> {
        let recorded = self.claim.status.resource_id.as_deref();
        let living = || self.machines().iter().filter(|machine| !machine.state.is_going());
        let known = living().find(|machine| Some(machine.id.as_str()) == recorded);
        known.or_else(|| living().min_by(|a, b| a.id.cmp(&b.id)))
    }

    /// Machines that live beside the one that counts.
    pub fn extras(&self) -> impl Iterator<Item = &VirtualMachine> {
        let kept = self.machine().map(|machine| &machine.id);
        self.machines().iter().filter(move |machine| !machine.state.is_going() && Some(&machine.id) != kept)
    }

    /// Whether a machine ran for the claim and is not there any more: another one would have the same identity.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let status = &self.claim.status;
        matches!(self.sight, Sight::Seen(_))
            && self.machine().is_none()
            && status.resource_id.is_some()
            && status.was_deployed()
    }

    /// Whether the machine is to be on: a held reboot keeps it off, once it has run.
    #[must_use]
    pub fn wants_power(&self) -> bool {
        let held = self.claim.status.was_deployed() && self.claim.held_reboots().next().is_some();
        self.claim.spec.wants_power() && !held
    }

    /// Whether what CloudStack does takes longer than it may. Without a memory of the job the claim's status tells since
    /// when.
    #[must_use]
    pub fn is_late(&self) -> bool {
        let late = self.setback.is_some_and(|setback| setback.act == Act::Deploy && setback.kind.is_none());
        let since = self.claim.status.last_updated.as_ref().map(|time| time.0);
        let end = since.and_then(|since| since.checked_add(Act::Deploy.patience()).ok());
        let starting = self.machine().is_some_and(|machine| machine.state == MachineState::Starting);
        !self.claim.status.was_deployed() && (late || (starting && end.is_some_and(|end| end <= self.now)))
    }

    /// Whether the machine failed before anything ran on it, so that it must make place for another one.
    #[must_use]
    pub fn is_failed(&self, machine: &VirtualMachine) -> bool {
        let replace = self.claim.spec.on_host_failure == OnHostFailure::Replace;
        !self.claim.status.was_deployed() && (machine.state == MachineState::Error || (replace && self.is_late()))
    }

    /// The version of the claim that this pass knows: the one it read, or the one it made of it.
    #[must_use]
    pub fn latest(&self) -> Version {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_else(|| self.version.clone())
    }

    /// This pass made a version of the claim.
    pub(super) fn wrote(&self, version: Version) {
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(version);
    }

    /// The claim, to write to.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { kind: self.resource.clone(), key: self.key.clone(), uid: self.claim.uid.clone() }
    }

    #[cfg(test)]
    pub(super) fn sample(claim: ClaimFacts, sight: Sight, order: Option<Result<Box<Deploy>, Obstacle>>) -> Self {
        let now = Timestamp::from_second(1_000_000).unwrap_or_default();
        let version = Version { uid: claim.uid.clone(), resource_version: "7".into() };
        let after = |time: Duration| now.saturating_add(time).unwrap_or(now);
        Self {
            key: ObjectKey::namespaced("tenant", "one"),
            now,
            resource: kinds::Kind::of::<api::raw::HostClaim>(),
            name: machine_name(&claim.uid),
            claim: Arc::new(claim),
            version,
            paused: false,
            credentials: None,
            sight,
            order,
            under_way: None,
            setback: None,
            hold: None,
            told: BTreeSet::new(),
            retry: after(SHORTEST),
            recheck: after(LONGEST),
            made: Arc::default(),
        }
    }
}

impl<C: Clouds> Vms<C> {
    /// Gathers the snapshot of a claim; `None` when there is nothing of ours to do.
    ///
    /// # Errors
    /// When the index is behind our own write, or a Secret could not be read.
    pub(super) async fn gather(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let Some((claim, version)) = self.around.claim(key)? else { return Ok(None) };
        if claim.is_deleting() && !claim.has_finalizer() {
            return Ok(None);
        }
        let after = |time: Duration| now.saturating_add(time).unwrap_or(now);
        let mut s = Snapshot {
            key: key.clone(),
            now,
            resource: self.around.claims().kind(),
            paused: self.around.is_paused(key, &claim),
            name: machine_name(&claim.uid),
            told: self.memory.told(&claim.uid),
            claim,
            version,
            credentials: None,
            sight: Sight::Unasked,
            order: None,
            under_way: None,
            setback: None,
            hold: None,
            retry: now,
            recheck: after(LONGEST + self.clock.jitter(LONGEST / 10)),
            made: Arc::default(),
        };
        if !s.paused {
            self.ask(&mut s).await?;
        }
        match &s.order {
            Some(Ok(_) | Err(Obstacle::Quota(_))) => {}
            _ if !s.machines().is_empty() => self.around.hold(key, &s.claim),
            _ => self.around.leave(key, &s.claim),
        }
        let states: Vec<&str> = s.machines().iter().map(|machine| machine.state.as_str()).collect();
        let order = s.order.as_ref().map(|order| order.as_ref().err());
        let looks = match &s.sight {
            Sight::Seen(_) => format!("{states:?} {order:?} {:?} {:?}", s.under_way, s.setback),
            sight => format!("{sight:?}"),
        };
        s.retry = after(self.memory.pause(&s.claim.uid, looks, &self.clock));
        Ok(Some(s))
    }

    /// Asks CloudStack about the claim.
    async fn ask(&self, s: &mut Snapshot) -> Result<(), Error> {
        let credentials = match self.credentials(&s.key, &s.claim).await? {
            Ok(credentials) => credentials,
            Err(obstacle) => {
                s.sight = Sight::Blind(obstacle);
                return Ok(());
            }
        };
        let acs = match self.open(&credentials) {
            Ok(acs) => acs,
            Err(obstacle) => {
                s.sight = Sight::Blind(obstacle);
                return Ok(());
            }
        };
        s.under_way = self.follow(&acs, &s.claim.uid, s.now).await;
        let query = MachineQuery { pick: Some(Pick::Name(s.name.clone())), ..MachineQuery::default() };
        s.sight = match within(LIST, acs.list_virtual_machines(&query)).await {
            Ok(found) => {
                Sight::Seen(found.into_iter().filter(|machine| is_ours(machine, &s.name, &s.claim.uid)).collect())
            }
            Err(kind) => Sight::Blind(Obstacle::Platform(kind)),
        };
        s.credentials = Some(credentials);
        if s.machine().is_some_and(|machine| machine.state == MachineState::Running) {
            self.memory.runs(&s.claim.uid);
        }
        s.setback = self.memory.setback(&s.claim.uid);
        s.hold = self.memory.hold(&s.claim.uid).filter(|hold| *hold > s.now);
        let wanted =
            matches!(s.sight, Sight::Seen(_)) && s.machine().is_none() && !s.claim.is_deleting() && !s.is_lost();
        if let Some(credentials) = s.credentials.as_ref().filter(|_| wanted) {
            let order = self.order(&s.key, &s.claim, &s.name, credentials).await?;
            s.order = Some(match order {
                Ok(order) => match self.around.take(&s.key, &s.claim) {
                    Ok(()) => Ok(Box::new(order)),
                    Err(full) => Err(Obstacle::Quota(full.to_string())),
                },
                Err(obstacle) => Err(obstacle),
            });
        }
        Ok(())
    }

    /// The way to CloudStack with these credentials.
    pub(super) fn open(&self, credentials: &Credentials) -> Result<C::Acs, Obstacle> {
        self.shelf.clouds().open(&credentials.profile).map_err(|words| {
            tracing::warn!(secret = credentials.name, error = words, "no connection can be set up");
            Obstacle::Identity(format!("no connection can be set up with the Secret {}", credentials.name))
        })
    }

    /// How far the job is that was begun last.
    async fn follow(&self, acs: &C::Acs, uid: &str, now: Timestamp) -> Option<Act> {
        let job = self.memory.job(uid)?;
        let over = |kind: Option<Kind>| self.memory.suffered(uid, Setback { act: job.act, kind });
        match within(JOB, acs.query_job(&job.id)).await {
            Ok(found) => match found.status {
                JobStatus::Pending => {}
                JobStatus::Done(_) => {
                    self.memory.done(uid, job.act);
                    return None;
                }
                JobStatus::Failed(failure) => {
                    tracing::warn!(claim = uid, act = ?job.act, error = %failure, "a job of CloudStack failed");
                    over(Some(failure.kind()));
                    return None;
                }
            },
            // The server has forgotten it: the machine itself tells.
            Err(Kind::NotFound) => {
                self.memory.done(uid, job.act);
                return None;
            }
            Err(_) => {}
        }
        if job.late <= now {
            tracing::warn!(claim = uid, act = ?job.act, "a job of CloudStack is not done in time");
            over(None);
            return None;
        }
        Some(job.act)
    }

    /// The credentials that the claim names, from its own namespace and no other.
    async fn credentials(&self, key: &ObjectKey, claim: &ClaimFacts) -> Result<Result<Credentials, Obstacle>, Error> {
        if let Some(problem) = &claim.problem {
            return Ok(Err(Obstacle::Arguments(problem.to_string())));
        }
        let name = match args::identity(&claim.spec) {
            Ok(name) => name,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let Some(secret) = self.secret(key, name).await? else {
            return Ok(Err(Obstacle::Identity(format!("the Secret {name} is not in the claim's namespace"))));
        };
        let read = secrets::of_secret(name, secret, self.shelf.clouds().policy());
        Ok(read.map_err(|error| {
            let told = match error {
                // The error quotes the address.
                ProfileError::Url(_) => format!("key {URL} holds no address that may be called"),
                error => error.to_string(),
            };
            Obstacle::Identity(format!("Secret {name}: {told}"))
        }))
    }

    async fn secret(&self, key: &ObjectKey, name: &str) -> Result<Option<Secret>, Error> {
        let home = key.namespace().unwrap_or_default();
        let secrets: Api<Secret> = Api::namespaced(self.writer.client().clone(), home);
        secrets
            .get_opt(name)
            .await
            .map_err(|source| Error::Read { what: format!("Secret {home}/{name}"), source: Box::new(source) })
    }

    /// What the claim asks for, or the first thing that stands against it.
    async fn order(
        &self,
        key: &ObjectKey,
        claim: &ClaimFacts,
        name: &str,
        credentials: &Credentials,
    ) -> Result<Result<Deploy, Obstacle>, Error> {
        let wish = match args::read(&claim.spec) {
            Ok(wish) => wish,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let user_data = match self.user_data(key, claim).await? {
            Ok(data) => data,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let resolved = tokio::time::timeout(STOCK, self.resolve(claim, &wish, credentials)).await;
        let order = resolved.unwrap_or(Err(Obstacle::Platform(Kind::Transport)));
        Ok(order.map(|order| Deploy { name: name.to_owned(), user_data: user_data.map(Into::into), ..order }))
    }

    /// What the guest reads at its first start.
    async fn user_data(&self, key: &ObjectKey, claim: &ClaimFacts) -> Result<Result<Option<Vec<u8>>, Obstacle>, Error> {
        let Some(reference) = &claim.spec.user_data else { return Ok(Ok(None)) };
        let name = reference.name.as_deref().unwrap_or_default();
        let missing = |told: String| Ok(Err(Obstacle::UserData(told)));
        if name.is_empty() {
            return missing("The claim names no Secret for its user data; give a name, or leave the field out.".into());
        }
        let Some(secret) = self.secret(key, name).await? else {
            return missing(format!("The Secret {name} with the user data is not in the claim's namespace yet."));
        };
        let mut data = secret.data.unwrap_or_default();
        let Some(found) = data.remove("userData").or_else(|| data.remove("value")) else {
            return missing(format!("The Secret {name} has neither the key userData nor the key value."));
        };
        if found.0.len() > USER_DATA {
            return Ok(Err(Obstacle::TooLarge(USER_DATA)));
        }
        Ok(Ok(Some(found.0)))
    }

    /// Looks up everything that the arguments name; what was found lately is not looked up again.
    async fn resolve(&self, claim: &ClaimFacts, wish: &Wish, credentials: &Credentials) -> Result<Deploy, Obstacle> {
        let required =
            claim.spec.failure_domain.is_some() && claim.spec.failure_domain_mode == FailureDomainMode::Required;
        let resolved = self.shelf.resolved(credentials, &wish.place).await.map_err(|fault| match obstacle(fault) {
            // The zone is the failure domain: args and spec agree on it.
            Obstacle::Arguments(told) if required && told.starts_with("zone ") => Obstacle::Zone,
            obstacle => obstacle,
        })?;
        let stock = self.shelf.machine(credentials, &wish.place, &wish.parts).await;
        let stock = stock.map_err(|faults| first(faults).map_or(Obstacle::Platform(Kind::Server), obstacle))?;
        if stock.offering.customized {
            let told = format!("offering \"{}\" leaves processors and memory to the user", stock.offering.name);
            return Err(Obstacle::Arguments(told));
        }
        if let Some(image) = &claim.spec.image
            && stock.template.url.as_deref() != Some(image.url.as_str())
        {
            return Err(Obstacle::Image(
                "The template of spec.args.template is not registered from spec.image.url, and nothing else is started.",
            ));
        }
        let network: NetworkId = resolved.network.parse().map_err(|_| Obstacle::Platform(Kind::Malformed))?;
        Ok(Deploy {
            name: String::new(),
            zone: resolved.place.zone.clone(),
            offering: stock.offering.id,
            template: stock.template.id,
            networks: vec![network],
            disk: stock.disk.map(|offering| DataDisk { offering, size_gb: None }),
            affinity_groups: stock.groups,
            owner: resolved.place.owner(),
            user_data: None,
            start: claim.spec.wants_power(),
        })
    }
}

/// Whether a machine is the claim's: it has its name, and nobody else's tag.
#[must_use]
pub fn is_ours(machine: &VirtualMachine, name: &str, uid: &str) -> bool {
    machine.name == name && machine.tags.get(TAG).is_none_or(|tag| tag == uid)
}

/// The id of a machine, as jobs and steps know it.
pub(super) type MachineId = VirtualMachineId;

/// The fault that is told first: one that stays.
fn first(faults: Vec<Fault>) -> Option<Fault> {
    let mut faults = faults;
    let lasting = faults.iter().position(|fault| matches!(fault, Fault::Definitive { .. })).unwrap_or(0);
    (lasting < faults.len()).then(|| faults.swap_remove(lasting))
}

/// What a fault is to a tenant: the room's own words about what the claim names, and never the server's.
fn obstacle(fault: Fault) -> Obstacle {
    match fault {
        Fault::Definitive { kind: Some(kind), .. } | Fault::Passing { kind, .. } => Obstacle::Platform(kind),
        Fault::Definitive { message, credentials: true, .. } => Obstacle::Identity(message),
        Fault::Definitive { message, .. } => Obstacle::Arguments(message),
    }
}

/// The answer of CloudStack, or the kind of its failure, in bounded time.
async fn within<T>(limit: Duration, call: impl Future<Output = Answer<T>>) -> Result<T, Kind> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(error.kind()),
        Err(_) => Err(Kind::Transport),
    }
}
