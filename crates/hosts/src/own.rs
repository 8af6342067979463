//! Whose a host or an instance is: one rule for whoever looks, decides or guards.
//!
//! What stands on a machine, in its annotations, spec and status, is what a tenant writes, copies or loses. What stands on
//! a resource in the account is not. So nothing is a machine's own by the machine's word alone: the tags of the resource
//! must say so too, and everything else is neither changed nor ended.

use api::names::hosts::{
    ALLOCATION_ID_TAG, CLUSTER_TAG_PREFIX, MACHINE_NAME_TAG, MANAGEMENT_CLUSTER_TAG, RETAINED_TAG,
};
use api::names::{AccountId, HostId};
use aws::port::{Host, Instance, Tags};

use crate::claim::is_claimed;
use crate::journal::{Allocation, AllocationId, Journal, Scope};
use crate::names::cluster_tag;
use crate::snapshot::{Snapshot, is_alive};

/// The proof of an instance that the machine's spec names.
const BY_SPEC: &str = "machine name, cluster tag and spec.instanceID";

/// Whether a resource was left to its owner.
#[must_use]
pub fn is_retained(tags: &Tags) -> bool {
    tags.get(RETAINED_TAG).is_some_and(|value| value == "true")
}

impl Snapshot {
    /// Whether the tags name this machine's Machine. Where the machine names none, its namespace is all that is known.
    #[must_use]
    pub fn is_named_in(&self, tags: &Tags) -> bool {
        let Some((namespace, name)) = tags.get(MACHINE_NAME_TAG).and_then(|tag| tag.split_once('/')) else {
            return false;
        };
        // A copy of a machine has the owner of the original, whose infrastructure is the original.
        let infrastructure = self.owner.as_ref().and_then(|owner| owner.infrastructure.as_ref());
        let copied = infrastructure.is_some_and(|known| known.kind == "AWSMachine" && known.name != self.key.name());
        Some(namespace) == self.key.namespace()
            && !copied
            && self.machine.owner.as_deref().is_none_or(|owner| owner == name)
            && self.is_of_this_claim(tags)
    }

    /// Whether tags that name a claim were made for this one, and not for an earlier claim of the same name: that one's
    /// hosts and instances were another's, and go the way of what belongs to nobody.
    fn is_of_this_claim(&self, tags: &Tags) -> bool {
        let (Some(_), Some(id)) = (&self.claim, tags.get(ALLOCATION_ID_TAG)) else { return true };
        let journal = self.machine.journal.as_ref().ok();
        let allocated = journal.and_then(|journal| journal.allocation.as_ref()).map(|allocation| &allocation.id);
        let launched = journal.and_then(|journal| journal.launch.as_ref()).map(|launch| &launch.id);
        [Some(&self.fresh), allocated, launched].into_iter().flatten().any(|known| known.as_str() == id)
    }

    /// Whether a host carries this id, and names this machine.
    fn carries(&self, host: &Host, id: &AllocationId) -> bool {
        host.tags.get(ALLOCATION_ID_TAG).is_some_and(|tag| tag == id.as_str()) && self.is_named_in(&host.tags)
    }

    /// Whether a host is provably this machine's: it carries the machine's allocation id and its name.
    #[must_use]
    pub fn owns(&self, host: &Host) -> bool {
        let journal = self.machine.journal.as_ref().ok();
        let allocation = journal.and_then(|journal| journal.allocation.as_ref());
        allocation.is_some_and(|allocation| self.carries(host, &allocation.id))
    }

    /// Whether a journal may begin with a host under this id: it carries the id already, or nobody's id, while an instance
    /// of this machine is on it.
    #[must_use]
    pub fn may_take(&self, host: &Host, id: &AllocationId) -> bool {
        if self.carries(host, id) {
            return true;
        }
        let free = !host.tags.contains_key(ALLOCATION_ID_TAG) && !is_retained(&host.tags);
        let fixed = self.machine.spec.host_id.as_deref() == Some(host.id.as_str());
        free && !fixed && self.is_on(host)
    }

    /// Whether tags say that a resource is of the same tenant as this machine: kept from this management cluster, made for
    /// its namespace, and of its cluster, or like itself of none.
    #[must_use]
    pub fn is_near(&self, tags: &Tags) -> bool {
        let here = tags.get(MANAGEMENT_CLUSTER_TAG).map(String::as_str);
        let space = tags.get(MACHINE_NAME_TAG).and_then(|tag| tag.split_once('/')).map(|(space, _)| space);
        let clusters: Vec<&str> = tags.keys().filter_map(|key| key.strip_prefix(CLUSTER_TAG_PREFIX)).collect();
        here.is_some()
            && here == self.management.as_deref()
            && space.is_some()
            && space == self.key.namespace()
            && clusters.as_slice() == self.cluster_name().as_slice()
    }

    /// Whether a claim may have a place on a host that is another's: of the same tenant, and made for a claim.
    #[must_use]
    pub fn may_share(&self, host: &Host) -> bool {
        self.claim.is_some() && self.is_near(&host.tags) && is_claimed(&host.tags)
    }

    /// Whether a claim that selects hosts may make a host its own: one of the same tenant that was left behind, that
    /// nobody's id is on, and nothing else.
    #[must_use]
    pub fn may_adopt(&self, host: &Host) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.selector.is_some())
            && is_retained(&host.tags)
            && !host.tags.contains_key(ALLOCATION_ID_TAG)
            && self.is_near(&host.tags)
            && host.instances.is_empty()
    }

    /// Whether a host was handed over to this claim, and its tags still name whose it was.
    #[must_use]
    pub fn inherits(&self, allocation: &Allocation, host: &Host) -> bool {
        let named = host.tags.get(ALLOCATION_ID_TAG).map(String::as_str);
        named.is_some() && named == allocation.from.as_ref().map(AllocationId::as_str) && self.may_share(host)
    }

    /// Whether a host of the journal of a claim is another claim's of the same tenant by now: this one handed it over, or
    /// another one was faster.
    #[must_use]
    pub fn is_passed_on(&self, allocation: &Allocation, host: &Host) -> bool {
        let named = host.tags.get(ALLOCATION_ID_TAG);
        let other = named.is_some_and(|id| id != allocation.id.as_str());
        other && !self.inherits(allocation, host) && self.may_share(host)
    }

    /// Whether an instance of this machine is on a host, or was at its end.
    #[must_use]
    pub fn is_on(&self, host: &Host) -> bool {
        self.sight().is_some_and(|sight| sight.instances.iter().any(|i| i.host.as_ref() == Some(&host.id)))
    }

    /// Whether an instance is provably this machine's.
    #[must_use]
    pub fn is_own(&self, instance: &Instance) -> bool {
        self.proof_of(instance).is_some()
    }

    /// What proves that an instance is this machine's: it carries the machine's name, and besides what only a launch for
    /// this machine can have given it, or the cluster's mark where another controller launched it.
    #[must_use]
    pub fn proof_of(&self, instance: &Instance) -> Option<&'static str> {
        if !self.is_named_in(&instance.tags) {
            return None;
        }
        let journal = self.journal();
        let named = self.machine.instance();
        let is_named = named.as_ref() == Some(&instance.id);
        let id = journal.launch.as_ref().map(|l| &l.id).or(journal.allocation.as_ref().map(|a| &a.id));
        let launched =
            journal.launch.as_ref().is_some_and(|l| instance.client_token.as_deref() == Some(l.token.as_str()));
        let by_token = launched.then_some("machine name and client token");
        match (instance.tags.get(ALLOCATION_ID_TAG), id) {
            (Some(tag), Some(id)) if tag == id.as_str() => Some("machine name and allocation id"),
            (Some(_), Some(_)) => by_token,
            // The journal was lost; the spec is what is left of it.
            (Some(_), None) => (is_named && self.is_of_cluster(&instance.tags)).then_some(BY_SPEC),
            // Names come back, so a name alone is enough only for what another controller is known to have begun.
            (None, _) => {
                let begun = named.is_none() && is_alive(&instance.state) && self.shows_another_hand();
                let marked = (is_named || begun) && self.is_of_cluster(&instance.tags);
                let by_mark = if is_named { BY_SPEC } else { "machine name and cluster tag" };
                by_token.or(marked.then_some(by_mark))
            }
        }
    }

    fn is_of_cluster(&self, tags: &Tags) -> bool {
        let owned = |key: &str| tags.get(key).is_some_and(|value| value == "owned");
        match self.cluster_name() {
            Some(cluster) => owned(&cluster_tag(cluster)),
            None => tags.keys().any(|key| key.starts_with(CLUSTER_TAG_PREFIX) && owned(key)),
        }
    }

    /// Whether another controller has worked on this machine before us.
    fn shows_another_hand(&self) -> bool {
        let (status, journal) = (&self.machine.status, self.machine.journal.as_ref().ok());
        let unsigned = journal.is_none_or(|journal| journal.scope.is_none());
        status.instance_state.is_some() || status.dedicated_host.is_some() || (self.machine.has_finalizer() && unsigned)
    }

    /// Hosts that EC2 shows as paid for and as provably this machine's.
    pub fn paid(&self) -> impl Iterator<Item = &Host> {
        let shown = self.sight().into_iter().flat_map(|sight| sight.hosts.values());
        shown.filter(|host| !host.state.is_released() && self.owns(host))
    }

    /// A host that is paid for and seems to be this machine's, by its status, its name or its instance, while nothing
    /// proves it: neither another one is asked for nor is the machine let go before somebody has said whose it is.
    #[must_use]
    pub fn doubtful(&self) -> Option<&Host> {
        let journal = self.machine.journal.as_ref().ok()?;
        if !self.is_dynamic() && journal.allocation.is_none() {
            return None;
        }
        self.sight()?.hosts.values().find(|host| {
            let known = journal.allocation.as_ref().is_some_and(|a| a.knows(&host.id)) || self.owns(host);
            let fixed = self.machine.spec.host_id.as_deref() == Some(host.id.as_str());
            let anothers = host.tags.contains_key(ALLOCATION_ID_TAG) && !self.is_named_in(&host.tags);
            let settled = host.state.is_released() || is_retained(&host.tags) || known || fixed || anothers;
            !settled
                && (self.shown_host().as_ref() == Some(&host.id) || self.is_on(host) || self.is_named_in(&host.tags))
        })
    }

    /// The host that the status names.
    #[must_use]
    pub fn shown_host(&self) -> Option<HostId> {
        self.machine.status.dedicated_host.as_ref().and_then(|host| host.id.as_deref()?.parse().ok())
    }

    /// Whether what EC2 does not show can be taken for gone: it was asked in the account that everything was made in.
    #[must_use]
    pub fn is_at_home(&self) -> bool {
        let journal = self.machine.journal.as_ref().ok();
        match journal.and_then(|journal| journal.scope.as_ref()) {
            Some(scope) => scope.account.is_some(),
            None => journal.is_none_or(|journal| *journal == Journal::default()),
        }
    }

    /// Where and as whom, with the account as far as it is proven: nothing was made yet, or what was made shows in it.
    #[must_use]
    pub fn signed_scope(&self) -> Option<Scope> {
        let scope = self.scope.clone()?;
        let journal = self.journal();
        let nothing = journal.allocation.is_none() && journal.launch.is_none() && self.machine.instance().is_none();
        let sight = self.sight();
        let shows = |account: &AccountId| {
            let own = |host: &Host| self.owns(host) && host.owner.as_ref().is_none_or(|owner| owner == account);
            sight.is_some_and(|sight| !sight.instances.is_empty() || sight.hosts.values().any(own))
        };
        let proven = self.account.clone().filter(|account| nothing || shows(account));
        Some(Scope { account: scope.account.or(proven), ..scope })
    }

    /// Whether the journal has yet to learn in which account things are, and can.
    #[must_use]
    pub fn can_sign(&self) -> bool {
        let unsigned = self.machine.journal.as_ref().is_ok_and(|journal| {
            journal.scope.as_ref().map_or(*journal != Journal::default(), |scope| scope.account.is_none())
        });
        unsigned && self.signed_scope().is_some_and(|scope| scope.account.is_some())
    }
}
