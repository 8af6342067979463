//! Bare-metal hosts, their hardware, and the templates that choose among them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::key::ObjectKey;
use api::own::{HostClaimNamespaces, HostDeployPolicySpec};
use api::raw::HostDeployPolicy;
use api::selector::{Figures, HostLabels, Selector};
use api::views::{BareMetalHost, HardwareData, HardwareDetails, Metal3MachineTemplate, Namespace};
use kit::feed::{Feed, Project, Seen};
use kit::manager::{self, Manager};
use kit::pattern::{pattern, whole};
use regex::Regex;
use serde_json::Value;

use crate::config::ClaimRules;
use crate::offer::Arch;

/// Feeds of bare metal, followed only where they are asked for.
#[derive(Clone)]
pub struct Metal {
    /// Templates.
    pub templates: Feed<MetalTemplates>,
    /// Hosts.
    pub hosts: Feed<Hosts>,
    /// Hardware.
    pub hardware: Feed<HardwareList>,
    /// Who may claim which hosts.
    pub policies: Feed<Policies>,
    /// Namespaces, whose labels policies ask for.
    pub spaces: Feed<Spaces>,
}

impl Metal {
    /// Starts, or joins, the feeds.
    ///
    /// # Errors
    /// When a kind cannot be followed.
    pub fn follow(manager: &Manager) -> Result<Self, manager::Error> {
        Ok(Self {
            templates: manager.feed()?,
            hosts: manager.feed()?,
            hardware: manager.feed()?,
            policies: manager.feed()?,
            spaces: manager.feed()?,
        })
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.templates.settled().await;
        self.hosts.settled().await;
        self.hardware.settled().await;
        self.policies.settled().await;
        self.spaces.settled().await;
    }

    /// A host with its hardware, wherever that is told.
    fn whole(&self, key: &ObjectKey, facts: &HostFacts) -> HostFacts {
        let elsewhere = || match self.hardware.get(key) {
            Seen::At(found) => Option::clone(&found),
            Seen::Absent | Seen::Behind => None,
        };
        HostFacts { hardware: facts.hardware.clone().or_else(elsewhere), ..facts.clone() }
    }

    /// The hosts of a namespace.
    #[must_use]
    pub fn hosts_of(&self, namespace: &str) -> Vec<HostFacts> {
        self.hosts.by("namespace", namespace).iter().map(|(key, facts)| self.whole(key, facts)).collect()
    }

    /// The hosts that claims of a namespace may have with this selector, of one namespace or of any. Where a policy hides the
    /// labels that it asks about, no host fits it: what is told of a group must not tell what claims are not told.
    #[must_use]
    pub fn hosts_for(
        &self,
        tenant: &str,
        selector: &Selector,
        only: Option<&str>,
        rules: ClaimRules,
    ) -> Vec<HostFacts> {
        let mut governed: BTreeMap<Box<str>, Vec<Arc<PolicyFacts>>> = BTreeMap::new();
        for (key, policy) in self.policies.all() {
            let policies = governed.entry(key.namespace().unwrap_or_default().into()).or_default();
            if policy.permits(selector) && self.admits(&policy, tenant) {
                policies.push(policy);
            }
        }
        let here = |namespace: &str| only.is_none_or(|only| only == namespace);
        let open = |namespace: &str| {
            (rules.same_namespace && namespace == tenant) || (rules.without_policy && !governed.contains_key(namespace))
        };
        let mut found = Vec::new();
        if rules.without_policy && only.is_none() {
            let all = self.hosts.all();
            let free = all.iter().filter(|(key, _)| open(key.namespace().unwrap_or_default()));
            found.extend(free.map(|(key, facts)| self.whole(key, facts)));
        } else {
            let named = only.unwrap_or(tenant);
            found.extend(open(named).then(|| self.hosts_of(named)).into_iter().flatten());
        }
        for (namespace, policies) in governed.iter().filter(|(namespace, _)| here(namespace) && !open(namespace)) {
            let covered = |host: &HostFacts| policies.iter().any(|policy| policy.covers.fits(&host.labels()));
            found.extend(self.hosts_of(namespace).into_iter().filter(covered));
        }
        found
    }

    fn admits(&self, policy: &PolicyFacts, tenant: &str) -> bool {
        let space = match self.spaces.get(&ObjectKey::cluster_scoped(tenant)) {
            Seen::At(labels) => Some(labels),
            Seen::Absent | Seen::Behind => None,
        };
        policy.admits(tenant, |name| space.as_ref().and_then(|labels| labels.get(name)).map(AsRef::as_ref))
    }

    /// The namespaces whose claims may have hosts of a namespace by its policies, or because it has none.
    #[must_use]
    pub fn tenants_of(&self, namespace: &str, rules: ClaimRules) -> BTreeSet<Box<str>> {
        let policies = self.policies.by("namespace", namespace);
        if rules.without_policy && policies.is_empty() {
            return self.everybody();
        }
        policies.iter().flat_map(|(_, policy)| self.tenants(policy)).collect()
    }

    /// Every namespace.
    #[must_use]
    pub fn everybody(&self) -> BTreeSet<Box<str>> {
        self.spaces.all().iter().map(|(key, _)| key.name().into()).collect()
    }

    /// The namespaces that a policy admits.
    #[must_use]
    pub fn tenants(&self, policy: &PolicyFacts) -> Vec<Box<str>> {
        let all = self.spaces.all();
        let admitted =
            all.iter().filter(|(key, labels)| policy.admits(key.name(), |name| labels.get(name).map(AsRef::as_ref)));
        admitted.map(|(key, _)| key.name().into()).collect()
    }
}

type Texts = BTreeMap<Box<str>, Box<str>>;

/// A pattern; two are equal when they are written the same way.
#[derive(Clone, Debug)]
pub struct NamePattern(Regex);

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// A HostDeployPolicy, as decisions use it. One that cannot be read admits nobody.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyFacts {
    admits: Option<(HostClaimNamespaces, Option<NamePattern>)>,
    covers: Selector,
    /// The labels that selectors may ask about; all of them without one.
    selectable: Option<NamePattern>,
}

impl PolicyFacts {
    /// The facts of a spec as received.
    #[must_use]
    pub fn of(spec: Value) -> Self {
        let Ok(spec) = serde_json::from_value::<HostDeployPolicySpec>(spec) else { return Self::default() };
        let Some(namespaces) = spec.host_claim_namespaces else { return Self::default() };
        let matches = namespaces.name_matches.as_deref().map(pattern).transpose();
        let covers = spec.host_selector.as_ref().map(Selector::of_labels).transpose();
        let selectable = spec.selectable_labels.as_deref().map(whole).transpose();
        let (Ok(matches), Ok(covers), Ok(selectable)) = (matches, covers, selectable) else { return Self::default() };
        Self {
            admits: Some((namespaces, matches.map(NamePattern))),
            covers: covers.unwrap_or_default(),
            selectable: selectable.map(NamePattern),
        }
    }

    /// Whether a selector asks only about labels that may be asked about.
    fn permits(&self, selector: &Selector) -> bool {
        self.selectable.as_ref().is_none_or(|pattern| selector.keys().all(|key| pattern.0.is_match(key)))
    }

    fn admits<'a>(&self, tenant: &str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.admits.as_ref().is_some_and(|(namespaces, pattern)| {
            namespaces.admits(tenant, || pattern.as_ref().is_some_and(|pattern| pattern.0.is_match(tenant)), label)
        })
    }
}

/// HostDeployPolicies.
pub struct Policies;

impl Project for Policies {
    type Source = HostDeployPolicy;
    type Slim = PolicyFacts;
    const INDEXES: &'static [&'static str] = &["namespace"];

    fn slim(source: HostDeployPolicy) -> PolicyFacts {
        PolicyFacts::of(source.spec)
    }

    fn keys(_: usize, key: &ObjectKey, _: &PolicyFacts) -> Vec<Box<str>> {
        vec![key.namespace().unwrap_or_default().into()]
    }
}

/// Namespaces, reduced to their labels.
pub struct Spaces;

impl Project for Spaces {
    type Source = Namespace;
    type Slim = Texts;

    fn slim(source: Namespace) -> Texts {
        let labels = source.metadata.labels.unwrap_or_default();
        labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
    }
}

/// Whether a host can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostUse {
    /// It can.
    Free,
    /// Somebody has it.
    Taken,
    /// It is not ready for anybody.
    Other,
}

/// What inspection found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Threads.
    pub cpus: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The root disk in GiB.
    pub root_gib: Option<u64>,
    /// The architecture.
    pub arch: Option<Arch>,
    /// The architecture, as inspection spells it.
    pub machine: Option<Box<str>>,
    /// The number of network interfaces.
    pub nics: usize,
}

impl Hardware {
    fn of(details: &HardwareDetails) -> Option<Self> {
        let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        let disk = details.storage.first().and_then(|disk| positive(disk.size_bytes));
        Some(Self {
            cpus: positive(details.cpu.count)?,
            memory_mib: positive(details.ram_mebibytes)?,
            root_gib: disk.map(|bytes| bytes >> 30),
            arch: details.cpu.arch.as_deref().and_then(Arch::read),
            machine: details.cpu.arch.as_deref().map(Into::into),
            nics: details.nics.len(),
        })
    }
}

/// A host, as decisions use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// Its name, by which selectors may choose it.
    pub name: Box<str>,
    /// Its labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Whether it can be had.
    pub used: HostUse,
    /// Its hardware, if the host itself tells.
    pub hardware: Option<Hardware>,
}

impl HostFacts {
    /// Its labels, those included that follow from its name and hardware.
    #[must_use]
    pub fn labels(&self) -> HostLabels<'_> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let hardware = self.hardware.as_ref().map(|found| Figures {
            arch: found.machine.as_deref(),
            ram_mib: number(found.memory_mib),
            cpu_count: number(found.cpus),
            nics: found.nics,
        });
        HostLabels { name: &self.name, labels: &self.labels, hardware }
    }
}

/// Bare-metal hosts.
pub struct Hosts;

impl Project for Hosts {
    type Source = BareMetalHost;
    type Slim = HostFacts;
    const INDEXES: &'static [&'static str] = &["namespace"];

    fn slim(source: BareMetalHost) -> HostFacts {
        let used = match source.status.provisioning.state.as_str() {
            "available" | "ready" if source.spec.consumer_ref.is_none() => HostUse::Free,
            "available" | "ready" | "provisioned" | "provisioning" | "externally provisioned" => HostUse::Taken,
            _ => HostUse::Other,
        };
        let labels = source.metadata.labels.unwrap_or_default();
        HostFacts {
            name: source.metadata.name.unwrap_or_default().into(),
            labels: labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            used,
            hardware: source.status.hardware.as_ref().and_then(Hardware::of),
        }
    }

    fn keys(_: usize, key: &ObjectKey, _: &HostFacts) -> Vec<Box<str>> {
        vec![key.namespace().unwrap_or_default().into()]
    }
}

/// What inspection found, kept apart from hosts.
pub struct HardwareList;

impl Project for HardwareList {
    type Source = HardwareData;
    type Slim = Option<Hardware>;

    fn slim(source: HardwareData) -> Option<Hardware> {
        source.spec.hardware.as_ref().and_then(Hardware::of)
    }
}

/// A template of bare-metal machines, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetalTemplate {
    /// Which hosts are taken, as it came.
    pub selector: Value,
    /// The kind of claim that machines are made of; without one, hosts are taken directly.
    pub kind: Option<Box<str>>,
}

/// Templates of bare-metal machines.
pub struct MetalTemplates;

impl Project for MetalTemplates {
    type Source = Metal3MachineTemplate;
    type Slim = MetalTemplate;

    fn slim(source: Metal3MachineTemplate) -> MetalTemplate {
        MetalTemplate { selector: source.host_selector, kind: source.kind.map(Into::into) }
    }
}
