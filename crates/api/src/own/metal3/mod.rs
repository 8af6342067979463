//! The kinds of the Cluster API provider for Metal3, field for field as their users know them, with what Berth adds.
//!
//! The version here is v1beta2, the one that is stored; [`convert`](mod@convert) makes v1beta1 of it, and back.

mod cluster;
pub mod convert;
mod data;
mod data_template;
mod machine;
mod machine_template;
mod meta_data;
mod network;
mod remediation;
mod shared;
mod versions;

pub use cluster::{
    ControlPlaneEndpoint, FailureDomain, Metal3Cluster, Metal3ClusterSpec, Metal3ClusterStatus, Metal3ClusterTemplate,
    Metal3ClusterTemplateResource, Metal3ClusterTemplateSpec,
};
pub use data::{
    Metal3Data, Metal3DataClaim, Metal3DataClaimSpec, Metal3DataClaimStatus, Metal3DataSpec, Metal3DataStatus,
};
pub use data_template::{Metal3DataTemplate, Metal3DataTemplateSpec, Metal3DataTemplateStatus, TakenIndex};
pub use machine::{
    FailureDomainDataTemplate, HostClaimReference, MachineImage, Metal3Machine, Metal3MachineSpec, Metal3MachineStatus,
};
pub use machine_template::{Metal3MachineTemplate, Metal3MachineTemplateResource, Metal3MachineTemplateSpec};
pub use meta_data::{
    FromPool, MetaData, MetaDataFromAnnotation, MetaDataFromLabel, MetaDataHostInterface, MetaDataIndex,
    MetaDataNamespace, MetaDataObjectName, MetaDataString,
};
pub use network::{
    BondLink, BondParameter, DynamicNetwork, EthernetLink, FromAnnotation, Gateway, LinkMac, NetworkData, NetworkLinks,
    NetworkServices, Networks, PoolRef, Route, StaticNetwork, VlanLink,
};
pub use remediation::{
    Metal3Remediation, Metal3RemediationSpec, Metal3RemediationStatus, Metal3RemediationTemplate,
    Metal3RemediationTemplateResource, Metal3RemediationTemplateSpec, Metal3RemediationTemplateStatus, REBOOT,
    RemediationStrategy,
};
pub use shared::{Deprecated, DeprecatedV1Beta1, Initialization, NamedRef};
pub use versions::CONVERT_PATH;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use super::{CLUSTERCTL_LABEL, MOVE_LABEL, PROVIDER_LABEL, finish, rule_at};

/// The definitions of these kinds, in alphabetical order of their names; those of Metal3 itself may be installed instead.
pub fn crds() -> Vec<CustomResourceDefinition> {
    // Either contract of Cluster API finds the version of the kind that was made for it.
    let labels = [
        (CLUSTERCTL_LABEL, ""),
        (PROVIDER_LABEL, "infrastructure-metal3"),
        ("cluster.x-k8s.io/v1beta1", "v1beta1"),
        ("cluster.x-k8s.io/v1beta2", "v1beta2"),
    ];
    // A template of data belongs to no cluster, so that clusterctl would leave it behind.
    let moved: Vec<(&str, &str)> = labels.into_iter().chain([(MOVE_LABEL, "")]).collect();
    let plain = |crd| finish(crd, &labels, Vec::new());
    let machine = vec![versions::kind_stays(), versions::args_need_kind()];
    let template = vec![versions::args_need_kind()];
    let all = [
        plain(Metal3Cluster::crd()),
        plain(Metal3ClusterTemplate::crd()),
        rule_at(plain(Metal3DataClaim::crd()), &["spec"], versions::stays(&["template"])),
        rule_at(plain(Metal3Data::crd()), &["spec"], versions::stays(&["claim", "template"])),
        finish(Metal3DataTemplate::crd(), &moved, Vec::new()),
        rule_at(plain(Metal3Machine::crd()), &["spec"], machine),
        rule_at(plain(Metal3MachineTemplate::crd()), &["spec", "template", "spec"], template),
        plain(Metal3Remediation::crd()),
        plain(Metal3RemediationTemplate::crd()),
    ];
    all.into_iter().map(versions::both).collect()
}

#[cfg(test)]
mod tests;
