//! Everything a decision about one machine is made of, read once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::names::{AccountId, HostId, InstanceId, SecurityGroupId};
use aws::port::{Host, Instance, InstanceState};
use claim_kind::quota::Full;
use jiff::Timestamp;
use kit::feed::Version;
use kit::write::Target;

use crate::claim::ClaimFacts;
use crate::classes::Class;
use crate::config::Config;
use crate::facts::{CloudFacts, ClusterFacts, MachineFacts, OwnerFacts};
use crate::journal::{AllocationId, Journal, Phase, Scope};
use crate::obstacle::Obstacle;
use crate::placement::Place;
use crate::request::Recipe;

/// What EC2 was asked to do when something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doing {
    /// Asking for hosts.
    Allocate,
    /// Trying a launch without having it.
    Rehearse,
    /// Launching the instance.
    Launch,
    /// Ending the instance.
    Terminate,
    /// Giving hosts back.
    Release,
    /// Leaving hosts to their owner.
    Retain,
    /// Setting tags.
    Tag,
    /// Setting security groups.
    Groups,
    /// Setting how an instance reaches its metadata service.
    Metadata,
    /// Switching the instance on or off.
    Power,
}

/// The last thing that went wrong, kept until it is time to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mishap {
    /// What was being done.
    pub doing: Doing,
    /// What it means.
    pub class: Class,
    /// The service's code, or a word of ours.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// How often in a row.
    pub tries: u32,
    /// When it may be tried again.
    pub until: Timestamp,
}

/// What EC2 said about a host that it did not take back, or has not shown as given back yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What it means; none while the release only has to become visible.
    pub class: Option<Class>,
    /// A sentence for people.
    pub message: String,
    /// From when on the host may be given back, where EC2 says so.
    pub releasable_after: Option<Timestamp>,
    /// How often in a row.
    pub tries: u32,
    /// When it was first refused.
    pub since: Timestamp,
    /// When it may be tried again.
    pub until: Timestamp,
}

/// What EC2 shows of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sight {
    /// Every instance that is provably the machine's.
    pub instances: Vec<Instance>,
    /// Instances that the machine names and that nothing else says are its own.
    pub strangers: Vec<Instance>,
    /// Every host that the journal, the status, a token or a tag names, or that the machine's instance runs on.
    pub hosts: BTreeMap<HostId, Host>,
    /// Hosts of the journal that EC2 does not know.
    pub unknown_hosts: BTreeSet<HostId>,
    /// The domains of the network's own DHCP options.
    pub domains: Vec<String>,
}

/// Everything that must be known before a machine is launched.
#[derive(Clone, Debug, PartialEq)]
pub struct Preflight {
    /// What is launched.
    pub recipe: Recipe,
    /// Where.
    pub place: Place,
}

/// Somebody whose journal counts on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The claim or machine.
    pub key: ObjectKey,
    /// Whether it is a claim.
    pub is_claim: bool,
    /// The id of what it allocates.
    pub id: AllocationId,
    /// Which allocation of it.
    pub epoch: u32,
    /// Where its journal stands.
    pub phase: Phase,
    /// Whose the host was that was handed over to it.
    pub from: Option<AllocationId>,
    /// Whether it selects hosts, and so shares the one it has.
    pub shares: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it must be left alone.
    pub paused: bool,
    /// Whether it gives its hosts back in the end.
    pub releases: bool,
    /// The type of its instance.
    pub instance_type: String,
    /// Its instance, once it is known.
    pub instance: Option<InstanceId>,
}

impl Holder {
    /// Whether a host may be handed over by the allocation that has it: to a claim that has a place on it, or that has been
    /// given it already.
    #[must_use]
    pub fn may_inherit(&self, from: &AllocationId) -> bool {
        self.is_claim && !self.paused && (self.phase == Phase::Claimed || self.from.as_ref() == Some(from))
    }
}

/// Hosts that are there already, and who counts on them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    /// Hosts of the same tenant.
    pub hosts: Vec<Host>,
    /// Whose journals count on which hosts.
    pub holders: Vec<(HostId, Holder)>,
    /// Where the claim may go; first where it goes without a host that is there already.
    pub places: Vec<Place>,
}

impl Pool {
    /// Who counts on a host, besides one.
    pub fn others<'a>(&'a self, host: &'a HostId, besides: &'a ObjectKey) -> impl Iterator<Item = &'a Holder> {
        let of = move |(id, holder): &'a (HostId, Holder)| {
            (id == host && !(holder.is_claim && holder.key == *besides)).then_some(holder)
        };
        self.holders.iter().filter_map(of)
    }
}

/// How far the questions to EC2 got.
#[derive(Clone, Debug, PartialEq)]
pub enum Sky {
    /// EC2 was not asked, because nothing depends on it.
    NotAsked,
    /// EC2 could not be asked.
    Clouded(Obstacle),
    /// What it shows.
    Clear(Box<Sight>),
}

/// How many hosts there are, against the caps of the installation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Hosts of the cluster, asked for ones included.
    pub hosts: u32,
    /// Hosts the cluster asked for within the last hour.
    pub recent: u32,
}

/// What a pass knows.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Which machine.
    pub key: ObjectKey,
    /// Where its status is written.
    pub target: Target,
    /// When.
    pub now: Timestamp,
    /// The settings.
    pub config: Arc<Config>,
    /// The machine; of a claim, the machine that it asks for.
    pub machine: Arc<MachineFacts>,
    /// The claim, where a claim asks.
    pub claim: Option<Arc<ClaimFacts>>,
    /// Its version.
    pub version: Version,
    /// Its Machine.
    pub owner: Option<Arc<OwnerFacts>>,
    /// Its Cluster.
    pub cluster: Option<Arc<ClusterFacts>>,
    /// Its AWSCluster.
    pub cloud: Option<Arc<CloudFacts>>,
    /// Where and as whom EC2 is called.
    pub scope: Option<Scope>,
    /// The account that EC2 was asked in; none when nobody could tell.
    pub account: Option<AccountId>,
    /// The uid of the management cluster; none when it is not known yet.
    pub management: Option<Box<str>>,
    /// What EC2 shows.
    pub sky: Sky,
    /// What a launch needs; none where nobody asked.
    pub preflight: Option<Result<Box<Preflight>, Obstacle>>,
    /// Hosts that are there already; none where nobody looked.
    pub pool: Option<Box<Pool>>,
    /// The security groups the instance should be in; none where nobody asked.
    pub groups: Option<Result<Vec<SecurityGroupId>, Obstacle>>,
    /// The id of a first allocation.
    pub fresh: AllocationId,
    /// Hosts against caps.
    pub usage: Usage,
    /// The quota that leaves no room for another host.
    pub full: Option<Full>,
    /// What went wrong last.
    pub mishap: Option<Mishap>,
    /// Hosts that EC2 did not take back.
    pub refusals: BTreeMap<HostId, Refusal>,
    /// How often in a row EC2 could not be asked, or something was missing.
    pub tries: u32,
    /// When it is the machine's turn to be launched; none where that does not matter.
    pub turn: Option<Timestamp>,
    /// When EC2 last said to this process that it ends an instance of the machine.
    pub ended_at: Option<Timestamp>,
    /// Whether this process has tried to say that the machine's instance is about to be ended.
    pub announced: bool,
}

/// Whether an instance is there, and not on its way out for good.
#[must_use]
pub fn is_alive(state: &InstanceState) -> bool {
    !matches!(state, InstanceState::ShuttingDown | InstanceState::Terminated)
}

impl Snapshot {
    /// The journal; an unreadable one is none, and nothing is done while it stands.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.machine.journal.clone().unwrap_or_default()
    }

    /// What EC2 shows, where it was asked.
    #[must_use]
    pub fn sight(&self) -> Option<&Sight> {
        match &self.sky {
            Sky::Clear(sight) => Some(sight),
            Sky::NotAsked | Sky::Clouded(_) => None,
        }
    }

    /// Whether the machine has hosts of its own.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.machine.spec.dynamic_host_allocation.is_some()
    }

    /// Whether the machine is of the control plane.
    #[must_use]
    pub fn is_control_plane(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.control_plane)
    }

    /// The cluster's name.
    #[must_use]
    pub fn cluster_name(&self) -> Option<&str> {
        let by_owner = self.owner.as_ref().and_then(|owner| owner.cluster.as_deref());
        by_owner.or(self.machine.cluster.as_deref())
    }

    /// The one instance of the machine: a living one, else a named one, else the latest.
    #[must_use]
    pub fn instance(&self) -> Option<&Instance> {
        let sight = self.sight()?;
        let named = self.machine.instance();
        let rank = |instance: &&Instance| {
            let order = match instance.state {
                InstanceState::Terminated => 0,
                InstanceState::ShuttingDown => 1,
                _ => 2,
            };
            (order, Some(&instance.id) == named.as_ref(), instance.launched)
        };
        sight.instances.iter().max_by_key(rank)
    }

    /// The living instances.
    #[must_use]
    pub fn alive(&self) -> Vec<InstanceId> {
        let all = self.sight().map(|sight| sight.instances.as_slice()).unwrap_or_default();
        all.iter().filter(|instance| is_alive(&instance.state)).map(|instance| instance.id.clone()).collect()
    }

    /// A moment later than now.
    #[must_use]
    pub fn after(&self, pause: Duration) -> Timestamp {
        self.now.saturating_add(pause).unwrap_or(self.now)
    }

    /// How long to wait before looking again at something that began at a moment: an eighth of what it took so far, at
    /// least `least` and at most `most`.
    #[must_use]
    pub fn pause_since(&self, began: Timestamp, least: Duration, most: Duration) -> Duration {
        let took = Duration::try_from(self.now.duration_since(began)).unwrap_or_default();
        (took / 8).clamp(least.min(most), most)
    }

    /// The time of the machine's turn, while it is not there yet.
    #[must_use]
    pub fn turn_to_come(&self) -> Option<Timestamp> {
        self.turn.filter(|turn| *turn > self.now)
    }

    /// How long to wait after so many failures in a row. Claims are served at the pace that all kinds of them keep to.
    #[must_use]
    pub fn pace(&self, class: Class, tries: u32) -> Duration {
        let usual = class.wait(tries);
        match &self.claim {
            Some(_) => usual.max(crate::claim::pace(tries)),
            None => usual,
        }
    }

    /// Whose hosts are counted together, within a namespace.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        match &self.claim {
            Some(_) => Some(crate::claim::GROUP),
            None => self.cluster_name(),
        }
    }

    /// Whether a moment lies further back than a time.
    #[must_use]
    pub fn is_older(&self, at: Timestamp, than: Duration) -> bool {
        at.saturating_add(than).unwrap_or(Timestamp::MAX) <= self.now
    }
}
