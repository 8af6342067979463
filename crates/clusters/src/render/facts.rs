//! What rendering needs to know, gathered and checked once.

use api::own::anywhere::{
    CloudStackMachineConfigSpec, ClusterSpec, ControlPlane, KubeDistro, OIDCConfigSpec, Ref, VersionsBundle,
    WorkerGroup,
};
use ipnet::IpNet;

use super::{Inputs, Settings};
use crate::endpoint::{HostPort, NotAnEndpoint};
use crate::version::{Minor, NotAMinor};

/// Why a cluster cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another build rendered it, in a way that this one does not know.
    #[error("render revision {revision} is not known to this build, which renders revision {known}")]
    Revision {
        /// The revision that was asked for.
        revision: i64,
        /// The revision of this build.
        known: i64,
    },
    /// The bundle has nothing for the version.
    #[error("Bundles {bundle} has no entry for Kubernetes {version} (has {has})")]
    NoEntry {
        /// The name of the bundle.
        bundle: String,
        /// The version of Kubernetes.
        version: String,
        /// The versions it has.
        has: String,
    },
    /// The entry of the bundle lacks something.
    #[error("Bundles {bundle}, entry for Kubernetes {version}: {field} is missing")]
    Incomplete {
        /// The name of the bundle.
        bundle: String,
        /// The version of Kubernetes.
        version: String,
        /// What is missing.
        field: &'static str,
    },
    /// A machine configuration is not there.
    #[error("CloudStackMachineConfig {name} not found")]
    NoMachineConfig {
        /// Its name.
        name: String,
    },
    /// The OIDCConfig is not there.
    #[error("OIDCConfig {name} not found")]
    NoOidc {
        /// Its name.
        name: String,
    },
    /// The endpoint cannot be read.
    #[error("spec.controlPlaneConfiguration.endpoint.host: {0}")]
    Endpoint(#[from] NotAnEndpoint),
    /// A version cannot be read.
    #[error("spec.kubernetesVersion: {0}")]
    Version(#[from] NotAMinor),
    /// The cluster has no name.
    #[error("metadata.name: required")]
    NoName,
    /// The wish is known and not built.
    #[error("{0} is not available on this management cluster")]
    NotBuilt(&'static str),
}

/// What rendering needs to know of a cluster.
pub(super) struct Facts<'i> {
    pub name: &'i str,
    pub namespace: &'i str,
    pub spec: &'i ClusterSpec,
    pub plane: &'i ControlPlane,
    pub plane_machine: &'i CloudStackMachineConfigSpec,
    pub endpoint: HostPort,
    pub minor: Minor,
    pub distro: &'i KubeDistro,
    /// The version of the control plane as machines know it.
    pub tag: &'i str,
    /// The image of kube-vip, when it is to run.
    pub kube_vip: Option<&'i str>,
    pub zones: &'i [api::own::anywhere::AvailabilityZone],
    pub oidc: Option<&'i OIDCConfigSpec>,
    pub groups: Vec<GroupFacts<'i>>,
    pub settings: &'i Settings,
}

/// What rendering needs to know of a group of workers.
pub(super) struct GroupFacts<'i> {
    pub group: &'i WorkerGroup,
    pub machine: &'i CloudStackMachineConfigSpec,
    pub tag: &'i str,
}

static NO_PLANE: ControlPlane = ControlPlane {
    count: None,
    endpoint: None,
    machine_group_ref: None,
    taints: None,
    labels: std::collections::BTreeMap::new(),
    upgrade_rollout_strategy: None,
    cert_sans: Vec::new(),
    machine_health_check: None,
    skip_load_balancer_deployment: None,
    api_server_extra_args: std::collections::BTreeMap::new(),
    kubelet_configuration: None,
    audit_policy_content: String::new(),
    skip_admission_for_system_resources: None,
};

impl<'i> Facts<'i> {
    pub fn gather(inputs: &Inputs<'i>) -> Result<Self, Error> {
        let meta = &inputs.cluster.metadata;
        let spec = &inputs.cluster.spec;
        let plane = spec.control_plane_configuration.as_ref().unwrap_or(&NO_PLANE);
        if spec.external_etcd_configuration.is_some() {
            return Err(Error::NotBuilt("external etcd"));
        }
        if !spec.etcd_encryption.is_empty() {
            return Err(Error::NotBuilt("encryption of etcd"));
        }
        let host = plane.endpoint.as_ref().map(|endpoint| endpoint.host.as_str()).unwrap_or_default();
        let (bundle, distro) = entry(inputs, &spec.kubernetes_version)?;
        let tag = kubernetes_tag(inputs, &spec.kubernetes_version, distro)?;
        let wants_vip = plane.skip_load_balancer_deployment.map_or(inputs.settings.kube_vip, |skip| !skip);
        let kube_vip = wants_vip.then(|| kube_vip_image(inputs, &spec.kubernetes_version, bundle)).transpose()?;
        let mut groups = Vec::new();
        for group in &spec.worker_node_group_configurations {
            let own = &group.kubernetes_version;
            let tag = if own.is_empty() {
                tag
            } else {
                let (_, distro) = entry(inputs, own)?;
                kubernetes_tag(inputs, own, distro)?
            };
            groups.push(GroupFacts { group, machine: machine(inputs, group.machine_group_ref.as_ref())?, tag });
        }
        Ok(Self {
            name: meta.name.as_deref().filter(|name| !name.is_empty()).ok_or(Error::NoName)?,
            namespace: meta.namespace.as_deref().unwrap_or("default"),
            spec,
            plane,
            plane_machine: machine(inputs, plane.machine_group_ref.as_ref())?,
            endpoint: host.parse()?,
            minor: spec.kubernetes_version.parse()?,
            distro,
            tag,
            kube_vip,
            zones: &inputs.datacenter.spec.availability_zones,
            oidc: oidc(inputs)?,
            groups,
            settings: inputs.settings,
        })
    }

    /// The range of the pods, as it is written.
    pub fn pods(&self) -> &[String] {
        let network = self.spec.cluster_network.as_ref();
        network
            .and_then(|network| network.pods.as_ref())
            .map(|blocks| blocks.cidr_blocks.as_slice())
            .unwrap_or_default()
    }

    /// The range of the services, as it is written.
    pub fn services(&self) -> &[String] {
        let network = self.spec.cluster_network.as_ref();
        let blocks = network.and_then(|network| network.services.as_ref());
        blocks.map(|blocks| blocks.cidr_blocks.as_slice()).unwrap_or_default()
    }

    /// The length of the prefix of the range that each node gets, when it is given.
    pub fn node_mask(&self) -> Option<i32> {
        self.spec.cluster_network.as_ref()?.nodes.as_ref()?.cidr_mask_size
    }

    /// The file by which machines resolve names, when it is given.
    pub fn resolv_conf(&self) -> Option<&str> {
        let conf = self.spec.cluster_network.as_ref()?.dns.as_ref()?.resolv_conf.as_ref()?;
        Some(conf.path.as_str()).filter(|path| !path.is_empty())
    }

    /// Whether pods have addresses of IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.endpoint.address().is_some_and(|address| address.is_ipv6())
            || self.pods().first().and_then(|pods| pods.parse::<IpNet>().ok()).is_some_and(|net| net.addr().is_ipv6())
    }
}

fn entry<'i>(inputs: &Inputs<'i>, version: &str) -> Result<(&'i VersionsBundle, &'i KubeDistro), Error> {
    let bundle = || inputs.bundles.metadata.name.clone().unwrap_or_default();
    let entry = inputs.bundles.spec.entry(version).ok_or_else(|| {
        let has: Vec<&str> =
            inputs.bundles.spec.versions_bundles.iter().map(|entry| entry.kube_version.as_str()).collect();
        let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
        Error::NoEntry { bundle: bundle(), version: version.to_owned(), has }
    })?;
    let distro = entry.kube_distro.as_ref();
    let missing = || Error::Incomplete { bundle: bundle(), version: version.to_owned(), field: "kubeDistro" };
    Ok((entry, distro.ok_or_else(missing)?))
}

fn kubernetes_tag<'i>(inputs: &Inputs<'i>, version: &str, distro: &'i KubeDistro) -> Result<&'i str, Error> {
    let tag = distro.kubernetes.as_ref().map(|image| image.tag.as_str()).filter(|tag| !tag.is_empty());
    tag.ok_or_else(|| Error::Incomplete {
        bundle: inputs.bundles.metadata.name.clone().unwrap_or_default(),
        version: version.to_owned(),
        field: "kubeDistro.kubernetes.tag",
    })
}

fn kube_vip_image<'i>(inputs: &Inputs<'i>, version: &str, bundle: &'i VersionsBundle) -> Result<&'i str, Error> {
    let image = bundle.cloud_stack.as_ref().and_then(|cloud| cloud.kube_vip.as_ref());
    let uri = image.map(|image| image.uri.as_str()).filter(|uri| !uri.is_empty());
    uri.ok_or_else(|| Error::Incomplete {
        bundle: inputs.bundles.metadata.name.clone().unwrap_or_default(),
        version: version.to_owned(),
        field: "cloudStack.kubeVip.uri",
    })
}

fn machine<'i>(inputs: &Inputs<'i>, reference: Option<&Ref>) -> Result<&'i CloudStackMachineConfigSpec, Error> {
    let name = reference.map(|reference| reference.name.as_str()).unwrap_or_default();
    let found = inputs.machines.get(name).map(|machine| &machine.spec);
    found.ok_or_else(|| Error::NoMachineConfig { name: name.to_owned() })
}

fn oidc<'i>(inputs: &Inputs<'i>) -> Result<Option<&'i OIDCConfigSpec>, Error> {
    let wanted = inputs.cluster.spec.identity_provider_refs.iter().find(|reference| reference.kind == "OIDCConfig");
    let Some(wanted) = wanted else { return Ok(None) };
    let found = inputs.oidc.filter(|oidc| oidc.metadata.name.as_deref() == Some(wanted.name.as_str()));
    found.map(|oidc| Some(&oidc.spec)).ok_or_else(|| Error::NoOidc { name: wanted.name.clone() })
}
