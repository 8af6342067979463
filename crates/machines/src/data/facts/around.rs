//! What data is made for: machines, their claims and their clusters.

use api::key::ObjectKey;
use api::meta::ObjectMeta;
use api::names::WATCH_FILTER_LABEL;
use api::own::{HostClaimStatus, HostMetadata, HostNic};
use api::raw;
use api::views::{CLUSTER_API_GROUP, Cluster, INFRASTRUCTURE_GROUP, Machine};
use kit::feed::Project;
use serde_json::Value;

use super::super::names::{MACHINE_KIND, beside};
use super::super::render::{HostView, Named, Texts};
use super::{Owner, owner, read};
use crate::config::Config;
use crate::mode;

/// Metal3Machines, as far as their data depends on them.
pub struct MetalMachines;

/// A Metal3Machine, as decisions about its data use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetalMachineFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The kind of compute it asks for by itself.
    pub kind: Option<Box<str>>,
    /// The label by which controllers divide objects among them.
    pub filter: Option<Box<str>>,
    /// Its Machine.
    pub machine: Option<Owner>,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations.
    pub annotations: Texts,
}

impl MetalMachineFacts {
    /// Whether the machine runs on a claim and is ours; all others are left to whoever looks after them.
    #[must_use]
    pub fn is_ours(&self, config: &Config) -> bool {
        let ours = config.watch_filter.as_deref().is_none_or(|filter| self.filter.as_deref() == Some(filter));
        let default = config.default_host_kind.as_deref();
        ours && mode::claim_kind(self.kind.as_deref(), &self.annotations, default).is_some()
    }
}

/// Annotations as far as templates can mean them: what kubectl keeps there is as large as the object itself.
fn annotations(metadata: &mut ObjectMeta) -> Texts {
    let mut all = metadata.annotations.take().unwrap_or_default();
    all.remove("kubectl.kubernetes.io/last-applied-configuration");
    all
}

impl Project for MetalMachines {
    type Source = raw::Metal3Machine;
    type Slim = MetalMachineFacts;
    const INDEXES: &'static [&'static str] = &["machine"];

    fn slim(mut source: Self::Source) -> MetalMachineFacts {
        MetalMachineFacts {
            uid: source.metadata.uid.clone().unwrap_or_default().into(),
            kind: source.spec.get("kind").and_then(Value::as_str).filter(|kind| !kind.is_empty()).map(Into::into),
            machine: owner(&source.metadata, CLUSTER_API_GROUP, "Machine"),
            filter: source
                .metadata
                .labels
                .as_ref()
                .and_then(|all| all.get(WATCH_FILTER_LABEL))
                .map(|v| v.as_str().into()),
            annotations: annotations(&mut source.metadata),
            labels: source.metadata.labels.unwrap_or_default(),
        }
    }

    fn keys(_: usize, key: &ObjectKey, machine: &MetalMachineFacts) -> Vec<Box<str>> {
        machine.machine.iter().map(|owner| beside(key, &owner.name).to_string().into()).collect()
    }
}

/// Machines of Cluster API, as far as templates read them.
pub struct Machines;

/// A Machine, as templates read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations.
    pub annotations: Texts,
}

impl Project for Machines {
    type Source = Machine;
    type Slim = MachineFacts;

    fn slim(mut source: Machine) -> MachineFacts {
        MachineFacts {
            uid: source.metadata.uid.clone().unwrap_or_default().into(),
            annotations: annotations(&mut source.metadata),
            labels: source.metadata.labels.unwrap_or_default(),
        }
    }
}

/// HostClaims, as far as templates read them.
pub struct HostClaims;

/// A HostClaim, as templates read it: its status alone, which only the controller of its kind writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostClaimFacts {
    /// The uid of the Metal3Machine it was made for.
    pub machine: Option<Box<str>>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it has a machine.
    pub bound: bool,
    /// The name of the host, for claims on hosts.
    pub host: Option<Box<str>>,
    /// What is shown of the labels and annotations of the host.
    pub metadata: HostMetadata,
    /// The network interfaces.
    pub nics: Vec<HostNic>,
    /// The hardware address the host boots from.
    pub boot_mac: Option<Box<str>>,
}

impl HostClaimFacts {
    /// The host as templates see it; a machine without a host object goes by the name of its claim.
    #[must_use]
    pub fn view<'a>(&'a self, claim: &'a str) -> HostView<'a> {
        HostView {
            named: Named {
                name: self.host.as_deref().unwrap_or(claim),
                labels: &self.metadata.labels,
                annotations: &self.metadata.annotations,
            },
            nics: &self.nics,
            boot_mac: self.boot_mac.as_deref(),
        }
    }
}

impl Project for HostClaims {
    type Source = raw::HostClaim;
    type Slim = HostClaimFacts;

    fn slim(source: raw::HostClaim) -> HostClaimFacts {
        let status: HostClaimStatus = read(source.status);
        let associated = status.conditions.iter().any(|c| c.type_ == api::reasons::ASSOCIATED && c.status == "True");
        HostClaimFacts {
            machine: owner(&source.metadata, INFRASTRUCTURE_GROUP, MACHINE_KIND).map(|owner| owner.uid),
            deleting: source.metadata.deletion_timestamp.is_some(),
            bound: status.is_bound() && associated,
            host: status.bare_metal_host.map(|host| host.name.into()),
            metadata: status.host_metadata.unwrap_or_default(),
            nics: status.nics,
            boot_mac: status.boot_mac_address.map(Into::into),
        }
    }
}

/// Clusters, for their pauses, and to own templates.
pub struct Clusters;

/// A Cluster, as decisions about its templates use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Its name.
    pub name: Box<str>,
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// Whether everything of it must be left alone.
    pub paused: bool,
}

impl Project for Clusters {
    type Source = Cluster;
    type Slim = ClusterFacts;

    fn slim(source: Cluster) -> ClusterFacts {
        ClusterFacts {
            paused: source.is_paused(),
            name: source.metadata.name.unwrap_or_default().into(),
            uid: source.metadata.uid.unwrap_or_default().into(),
        }
    }
}
