//! The journal of a machine: what was asked of EC2 on its behalf, stored before it is asked.
//!
//! It lives in annotations of the AWSMachine, because those travel with the object when it is moved to another management
//! cluster and a status does not. Reading is lenient to fields this version does not know, and strict about those it
//! does: a journal that makes no sense is an error, and nothing is asked of EC2 while it stands.

mod raw;
#[cfg(test)]
mod tests;

use std::fmt;

use api::names::{AccountId, AvailabilityZone, ClientToken, HostId, NameError, Region, SubnetId};
use aws::port::{HostShape, Switch, Tags};
use jiff::Timestamp;

/// The version of the journal this code writes and reads.
pub const VERSION: u32 = 1;
/// Hosts one allocation may ask for.
pub const MOST_HOSTS: u32 = 10;
/// Hosts of earlier epochs that are remembered, so that a read that lags does not bring them back.
const REMEMBERED: usize = 32;

/// Where an allocation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Hosts are about to be asked for, or may have been.
    Intended,
    /// The hosts are ours.
    Allocated,
    /// A place on a host is ours; the host is another claim's.
    Claimed,
    /// The hosts are being given back.
    Releasing,
    /// The hosts are given back, or there never were any.
    Released,
    /// The hosts were left to their owner on purpose.
    Retained,
    /// An operator took the hosts out of our hands.
    Abandoned,
}

impl Phase {
    /// The word in the journal.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Intended => "Intended",
            Self::Allocated => "Allocated",
            Self::Claimed => "Claimed",
            Self::Releasing => "Releasing",
            Self::Released => "Released",
            Self::Retained => "Retained",
            Self::Abandoned => "Abandoned",
        }
    }

    /// Whether nothing of this allocation is paid for through us any more.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Released | Self::Retained | Self::Abandoned)
    }
}

/// Why hosts are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The machine is deleted.
    Deleted,
    /// They were empty for too long.
    Idle,
    /// The launch was refused for good.
    Refused,
    /// They failed before anything ran on them.
    Failed,
}

impl Cause {
    /// The word in the journal.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "Deleted",
            Self::Idle => "Idle",
            Self::Refused => "Refused",
            Self::Failed => "Failed",
        }
    }
}

/// The id of everything a machine allocates, for the life of the machine; it is no uid of an object, because those
/// change when objects are moved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocationId(Box<str>);

impl AllocationId {
    /// An id from 128 bits of chance, written like a UUID.
    #[must_use]
    pub fn of(high: u64, low: u64) -> Self {
        let text = format!("{high:016x}{low:016x}");
        let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        let parts = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)];
        Self(parts.join("-").into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The token of an allocation.
    ///
    /// # Errors
    /// Never with an id that was parsed: it leaves room for any epoch.
    pub fn host_token(&self, epoch: u32) -> Result<ClientToken, NameError> {
        format!("dh-{}-{epoch}", self.0).parse()
    }

    /// The token of a launch.
    ///
    /// # Errors
    /// Never with an id that was parsed: it leaves room for any epoch.
    pub fn launch_token(&self, epoch: u32) -> Result<ClientToken, NameError> {
        format!("ri-{}-{epoch}", self.0).parse()
    }
}

impl fmt::Display for AllocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for AllocationId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = (8..=48).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if fits { Ok(Self(text.into())) } else { Err("must be 8 to 48 letters, digits or '-'".to_owned()) }
    }
}

/// What an allocation asks EC2 for. It never changes within an epoch: a token stands for exactly one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The zone; tokens count within one zone only.
    pub zone: AvailabilityZone,
    /// The subnet the instance will be in, which fixes the zone.
    pub subnet: SubnetId,
    /// One type, or a family.
    pub shape: HostShape,
    /// How many hosts.
    pub quantity: u32,
    /// Whether instances move to another host when this one fails.
    pub recovery: Option<Switch>,
    /// Whether instances move before scheduled maintenance.
    pub maintenance: Option<Switch>,
    /// Every tag of the request, reserved ones included.
    pub tags: Tags,
}

/// Hosts of a machine, from the intent to have them to their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The same for the life of the machine.
    pub id: AllocationId,
    /// Counts allocations of the machine, from 1.
    pub epoch: u32,
    /// The token of this epoch.
    pub token: ClientToken,
    /// What is asked for.
    pub terms: Terms,
    /// Where it stands.
    pub phase: Phase,
    /// Every host of this epoch that is not known to be given back.
    pub hosts: Vec<HostId>,
    /// Hosts of earlier epochs, and replaced ones, that are known to be given back.
    pub past: Vec<HostId>,
    /// Whether the hosts were there before this journal was.
    pub adopted: bool,
    /// Whose the host was that was handed over, as long as its tags may still say so.
    pub from: Option<AllocationId>,
    /// Why the hosts are given back.
    pub cause: Option<Cause>,
    /// When the phase began; while `Intended`, when hosts were last asked for.
    pub at: Timestamp,
}

/// An instance of a machine, before it is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The id the instance is tagged with; that of the allocation, where there is one.
    pub id: AllocationId,
    /// Counts launches of the machine, from 1.
    pub epoch: u32,
    /// The token of this epoch.
    pub token: ClientToken,
    /// The subnet.
    pub subnet: SubnetId,
    /// The host, where the machine names one or has its own.
    pub host: Option<HostId>,
    /// The code by which the last attempt was refused for good, so that nothing can come of it.
    pub refused: Option<String>,
    /// When it was last asked for.
    pub at: Timestamp,
}

/// Where and as whom EC2 is called, for the time when the cluster is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The region.
    pub region: Region,
    /// Kind and name of the identity; none for the controller's own.
    pub identity: Option<(String, String)>,
    /// The account that everything of the machine is in; none while nobody has proven which it is.
    pub account: Option<AccountId>,
}

/// The whole journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// The hosts.
    pub allocation: Option<Allocation>,
    /// The instance.
    pub launch: Option<Launch>,
    /// Where and as whom.
    pub scope: Option<Scope>,
}

/// A journal that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation}: {detail}")]
pub struct JournalError {
    /// The annotation.
    pub annotation: &'static str,
    /// What is wrong with it, and in which field.
    pub detail: String,
}

/// A step that no journal may take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal may not go from {from} to {to}: {why}")]
pub struct Illegal {
    /// Where it stands.
    pub from: String,
    /// Where it was to go.
    pub to: String,
    /// The rule.
    pub why: &'static str,
}

fn standing(allocation: Option<&Allocation>) -> String {
    allocation.map_or_else(|| "nothing".to_owned(), |a| format!("{} of epoch {}", a.phase.as_str(), a.epoch))
}

impl Allocation {
    /// The first allocation of a machine, or the next one after `before` has ended.
    ///
    /// # Errors
    /// When hosts of `before` may still be paid for.
    pub fn intend(id: AllocationId, before: Option<&Self>, terms: Terms, now: Timestamp) -> Result<Self, Illegal> {
        let next = Self::next(id, before, terms, now)?;
        legal(before, &next)?;
        Ok(next)
    }

    /// The first allocation of a machine, or the next one after `before` has ended, with a host that is there already:
    /// the host itself (`Allocated`), or a place on it (`Claimed`).
    ///
    /// # Errors
    /// When hosts of `before` may still be paid for.
    pub fn join(
        id: AllocationId,
        before: Option<&Self>,
        terms: Terms,
        (phase, host): (Phase, HostId),
        now: Timestamp,
    ) -> Result<Self, Illegal> {
        let mut next = Self::next(id, before, terms, now)?;
        next.past.retain(|past| *past != host);
        (next.phase, next.hosts, next.adopted) = (phase, vec![host], true);
        legal(before, &next)?;
        Ok(next)
    }

    fn next(id: AllocationId, before: Option<&Self>, terms: Terms, now: Timestamp) -> Result<Self, Illegal> {
        let epoch = before.map_or(1, |before| before.epoch.saturating_add(1));
        let id = before.map_or(id, |before| before.id.clone());
        let refused = |why| Illegal { from: standing(before), to: format!("Intended of epoch {epoch}"), why };
        let token = id.host_token(epoch).map_err(|_| refused("the id leaves no room for a token"))?;
        let mut past: Vec<HostId> = Vec::new();
        for host in before.into_iter().flat_map(|before| before.past.iter().chain(&before.hosts)) {
            if !past.contains(host) {
                past.push(host.clone());
            }
        }
        past.drain(..past.len().saturating_sub(REMEMBERED));
        Ok(Self {
            id,
            epoch,
            token,
            terms,
            phase: Phase::Intended,
            hosts: Vec::new(),
            past,
            adopted: false,
            from: None,
            cause: None,
            at: whole(now),
        })
    }

    /// The same place, once the host itself was handed over with it.
    #[must_use]
    pub fn handed(&self, from: AllocationId, now: Timestamp) -> Self {
        Self { from: Some(from), ..self.in_phase(Phase::Allocated, now) }
    }

    /// The same allocation in another phase, from `now` on.
    #[must_use]
    pub fn in_phase(&self, phase: Phase, now: Timestamp) -> Self {
        Self { phase, at: whole(now).max(self.at), ..self.clone() }
    }

    /// The same allocation with these hosts.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Vec<HostId>) -> Self {
        self.hosts = hosts;
        self
    }

    /// The same allocation with these hosts as well, whatever was thought to have become of them.
    #[must_use]
    pub fn with_more(mut self, more: Vec<HostId>) -> Self {
        self.past.retain(|host| !more.contains(host));
        let new: Vec<HostId> = more.into_iter().filter(|host| !self.hosts.contains(host)).collect();
        self.hosts.extend(new);
        self
    }

    /// The same allocation, given back for a reason.
    #[must_use]
    pub fn because(mut self, cause: Cause) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Whether a host belongs to this allocation or did once.
    #[must_use]
    pub fn knows(&self, host: &HostId) -> bool {
        self.hosts.contains(host) || self.past.contains(host)
    }
}

/// Times in the journal are whole seconds.
#[must_use]
pub fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// Whether the journal of a machine may go from one allocation to another: tokens stand for one request, epochs follow
/// each other, and nothing that may be paid for is forgotten.
///
/// # Errors
/// The rule that is broken.
pub fn legal(from: Option<&Allocation>, to: &Allocation) -> Result<(), Illegal> {
    let no = |why| Err(Illegal { from: standing(from), to: standing(Some(to)), why });
    let Some(from) = from else {
        return match to.phase {
            Phase::Allocated if to.adopted && !to.hosts.is_empty() => Ok(()),
            _ if to.epoch != 1 => no("the first epoch is 1"),
            Phase::Intended if to.hosts.is_empty() => Ok(()),
            Phase::Claimed if to.adopted && to.hosts.len() == 1 => Ok(()),
            _ => no("an allocation begins with the intent, or with hosts that are adopted"),
        };
    };
    if from.id != to.id {
        return no("the id is the same for the life of the machine");
    }
    if to.epoch != from.epoch {
        let next = from.epoch.checked_add(1) == Some(to.epoch);
        return match (from.phase, to.phase) {
            (Phase::Released, Phase::Intended) if next && to.hosts.is_empty() && to.token != from.token => Ok(()),
            (Phase::Released, Phase::Allocated | Phase::Claimed)
                if next && to.adopted && to.hosts.len() == 1 && to.token != from.token =>
            {
                Ok(())
            }
            (Phase::Released, _) => no("the next epoch begins with an intent and a new token"),
            _ => no("an epoch ends when all its hosts are given back"),
        };
    }
    if from.token != to.token || from.terms != to.terms || from.adopted != to.adopted {
        return no("within an epoch the request does not change");
    }
    if to.at < from.at {
        return no("time does not go back");
    }
    if from.hosts.iter().chain(&from.past).any(|host| !to.knows(host)) {
        return no("no host is forgotten");
    }
    match (from.phase, to.phase) {
        (Phase::Intended, Phase::Intended) if to.hosts.is_empty() => Ok(()),
        (Phase::Intended, Phase::Intended) => no("hosts that are known are allocated"),
        (Phase::Intended, Phase::Allocated | Phase::Abandoned) => Ok(()),
        (Phase::Intended, Phase::Released) if to.hosts.is_empty() => Ok(()),
        (Phase::Allocated, Phase::Allocated | Phase::Releasing | Phase::Retained | Phase::Abandoned) => Ok(()),
        // The host was handed over, or the place on it was left.
        (Phase::Claimed, Phase::Claimed | Phase::Allocated | Phase::Released | Phase::Abandoned) => Ok(()),
        // What was to be given back turned out to hold our instance.
        (Phase::Releasing, Phase::Allocated) => Ok(()),
        (Phase::Releasing, Phase::Releasing | Phase::Released | Phase::Retained | Phase::Abandoned) => Ok(()),
        // What was taken for given back is still there.
        (Phase::Released, Phase::Releasing) if !to.hosts.is_empty() => Ok(()),
        (Phase::Released, Phase::Released)
        | (Phase::Retained, Phase::Retained)
        | (Phase::Abandoned, Phase::Abandoned)
            if from == to =>
        {
            Ok(())
        }
        _ => no("there is no such step"),
    }
}

impl Launch {
    /// The first launch of a machine.
    ///
    /// # Errors
    /// Never with an id that was parsed.
    pub fn first(id: AllocationId, subnet: SubnetId, host: Option<HostId>, now: Timestamp) -> Result<Self, NameError> {
        let token = id.launch_token(1)?;
        Ok(Self { id, epoch: 1, token, subnet, host, refused: None, at: whole(now) })
    }

    /// Another launch under a new token, once nothing can come of this one any more.
    ///
    /// # Errors
    /// Never with an id that was parsed.
    pub fn next(&self, subnet: SubnetId, host: Option<HostId>, now: Timestamp) -> Result<Self, NameError> {
        let epoch = self.epoch.saturating_add(1);
        let token = self.id.launch_token(epoch)?;
        Ok(Self { id: self.id.clone(), epoch, token, subnet, host, refused: None, at: whole(now).max(self.at) })
    }

    /// The same launch, tried again.
    #[must_use]
    pub fn again(&self, now: Timestamp) -> Self {
        Self { refused: None, at: whole(now).max(self.at), ..self.clone() }
    }

    /// The same launch, refused for good.
    #[must_use]
    pub fn refused(&self, code: &str) -> Self {
        Self { refused: Some(code.chars().take(64).collect()), ..self.clone() }
    }
}
