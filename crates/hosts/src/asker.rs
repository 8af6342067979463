//! Who asks for a place on EC2: an AWSMachine, or a claim. How hosts and instances are got, kept and given back is the
//! same for both; how the wish is read, where the journal is stored and what is told differs.

use std::future::Future;
use std::sync::Arc;

use api::key::ObjectKey;
use api::meta::Versioned;
use api::names::{HostId, InstanceId};
use api::own::AWSMachineStatus;
use api::raw::AWSMachine;
use api::status::Conditioned;
use claim_kind::quota::Full;
use kit::conditions::Transition;
use kit::feed::{Seen, Version};
use kit::kinds::Kind;
use kit::room::{Notice, Report};
use kube::Api;
use serde::Serialize;
use serde_json::{Value, json};

use crate::claim::ClaimFacts;
use crate::decide::Thought;
use crate::facts::{CloudFacts, ClusterFacts, MachineFacts, OwnerFacts, World};
use crate::journal::{Journal, Phase};
use crate::memory::Shown;
use crate::observe::at;
use crate::room::{Error, read};
use crate::snapshot::{Holder, Snapshot};
use crate::status;

/// What is asked for, as it is stored.
#[derive(Clone)]
pub struct Asked {
    /// The machine; of a claim, the machine that it asks for.
    pub machine: Arc<MachineFacts>,
    /// The claim, where a claim asks.
    pub claim: Option<Arc<ClaimFacts>>,
    /// Its version.
    pub version: Version,
}

/// What stands around it.
#[derive(Clone, Default)]
pub struct Around {
    /// Its Machine; of a claim, what a Machine would say.
    pub owner: Option<Arc<OwnerFacts>>,
    /// Its Cluster.
    pub cluster: Option<Arc<ClusterFacts>>,
    /// Its AWSCluster; of a claim, what an AWSCluster would say.
    pub cloud: Option<Arc<CloudFacts>>,
}

/// Who asks.
pub trait Asker: Send + Sync + 'static {
    /// The name of the room.
    const NAME: &'static str;
    /// What its status holds.
    type Status: Conditioned + Clone + PartialEq + Serialize + Send + Sync;

    /// Its kind.
    fn kind(&self) -> Kind;

    /// What the index shows; none when it is gone.
    ///
    /// # Errors
    /// When the index is behind our own write.
    fn seen(&self, key: &ObjectKey) -> Result<Option<Asked>, Error>;

    /// What the server has now; none when it is gone.
    fn fetch(&self, client: kube::Client, key: &ObjectKey)
    -> impl Future<Output = Result<Option<Asked>, Error>> + Send;

    /// Takes note of a write, so that nobody decides on what was there before it.
    fn wrote(&self, key: &ObjectKey, version: &Version);

    /// What stands around it.
    fn around(&self, key: &ObjectKey, asked: &Asked) -> Around;

    /// The intents of those whose hosts are counted together with its own.
    fn shown(&self, namespace: &str, group: &str) -> Vec<Shown>;

    /// Who of a namespace counts on which hosts, as the index shows it.
    fn holders(&self, namespace: &str) -> Vec<(HostId, Holder)>;

    /// The same as the server has it now.
    fn holders_now(
        &self,
        client: kube::Client,
        namespace: &str,
    ) -> impl Future<Output = Result<Vec<(HostId, Holder)>, Error>> + Send;

    /// How it is written down which instance it has.
    fn published(instance: &InstanceId, provider_id: &str) -> Value;

    /// The quota that leaves no room for another host; where none does, room is taken.
    fn quota(&self, s: &Snapshot) -> Option<Full>;

    /// It is gone, and with it what was taken for it.
    fn gone(&self, key: &ObjectKey);

    /// How things stand: `now` is what is known at the end of the pass that `s` began.
    fn report<'s>(&self, s: &'s Snapshot, now: &Snapshot, thought: &Thought) -> Option<Report<'s, Self::Status>>;

    /// The event that tells of a transition.
    fn event(transition: &Transition) -> Option<Notice>;
}

/// AWSMachines ask.
pub struct ByMachine {
    world: World,
}

impl ByMachine {
    /// Those of these indexes.
    #[must_use]
    pub fn new(world: World) -> Self {
        Self { world }
    }
}

/// What an index shows of an allocation, for the caps.
pub(crate) fn intent(key: ObjectKey, journal: &Journal) -> Option<Shown> {
    let allocation = journal.allocation.as_ref()?;
    let hosts = match allocation.phase {
        Phase::Intended => allocation.terms.quantity,
        Phase::Allocated | Phase::Releasing => u32::try_from(allocation.hosts.len()).unwrap_or(u32::MAX),
        Phase::Claimed | Phase::Released | Phase::Retained | Phase::Abandoned => 0,
    };
    // For a place on a host nothing was asked of EC2.
    let quantity = if allocation.phase == Phase::Claimed { 0 } else { allocation.terms.quantity };
    let (epoch, at) = (allocation.epoch, allocation.at);
    Some(Shown { key, epoch, hosts, quantity, at })
}

impl Asker for ByMachine {
    const NAME: &'static str = "hosts";
    type Status = AWSMachineStatus;

    fn kind(&self) -> Kind {
        self.world.machines.kind()
    }

    fn seen(&self, key: &ObjectKey) -> Result<Option<Asked>, Error> {
        match self.world.machines.get(key) {
            Seen::At(machine) => {
                let version = self.world.machines.version(key, &machine).ok_or(Error::Behind)?;
                Ok(Some(Asked { machine, claim: None, version }))
            }
            Seen::Absent => Ok(None),
            Seen::Behind => Err(Error::Behind),
        }
    }

    async fn fetch(&self, client: kube::Client, key: &ObjectKey) -> Result<Option<Asked>, Error> {
        let (resource, namespace) = (self.kind().resource(), key.namespace().unwrap_or_default());
        let api: Api<Versioned<AWSMachine>> = Api::namespaced_with(client, namespace, &resource);
        let found = api.get_opt(key.name()).await.map_err(read(|| format!("AWSMachine {key}")))?;
        Ok(found.map(|Versioned(machine)| {
            let version = Version::of(&machine);
            Asked { machine: Arc::new(MachineFacts::of(machine)), claim: None, version }
        }))
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.world.machines.wrote(key, version);
    }

    fn around(&self, key: &ObjectKey, asked: &Asked) -> Around {
        let named = |name: &str| ObjectKey::namespaced(key.namespace().unwrap_or_default(), name);
        let machine = &asked.machine;
        let owner = machine.owner.as_deref().and_then(|name| at(&self.world.owners, &named(name)));
        let cluster_name = owner.as_ref().and_then(|owner| owner.cluster.clone()).or_else(|| machine.cluster.clone());
        let cluster = cluster_name.as_deref().and_then(|name| at(&self.world.clusters, &named(name)));
        let cloud = cluster.as_deref().and_then(|cluster: &ClusterFacts| {
            let reference = cluster.infrastructure.as_ref().filter(|reference| reference.kind == "AWSCluster")?;
            at(&self.world.clouds, &named(&reference.name))
        });
        Around { owner, cluster, cloud }
    }

    fn shown(&self, namespace: &str, group: &str) -> Vec<Shown> {
        let machines = self.world.machines.by("cluster", &format!("{namespace}/{group}"));
        machines.into_iter().filter_map(|(key, machine)| intent(key, machine.journal.as_ref().ok()?)).collect()
    }

    fn holders(&self, _: &str) -> Vec<(HostId, Holder)> {
        Vec::new()
    }

    async fn holders_now(&self, _: kube::Client, _: &str) -> Result<Vec<(HostId, Holder)>, Error> {
        Ok(Vec::new())
    }

    fn published(instance: &InstanceId, provider_id: &str) -> Value {
        json!({"spec": {"providerID": provider_id, "instanceID": instance.as_str()}})
    }

    fn quota(&self, _: &Snapshot) -> Option<Full> {
        None
    }

    fn gone(&self, _: &ObjectKey) {}

    fn report<'s>(&self, s: &'s Snapshot, now: &Snapshot, thought: &Thought) -> Option<Report<'s, AWSMachineStatus>> {
        let (next, verdicts) = status::status(now, thought);
        Some(Report {
            target: s.target.clone(),
            generation: s.machine.generation,
            stored: &s.machine.status,
            next,
            based_on: None,
            verdicts,
        })
    }

    fn event(transition: &Transition) -> Option<Notice> {
        status::event(transition)
    }
}
