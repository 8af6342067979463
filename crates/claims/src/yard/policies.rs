//! The policies, ready to be asked, and which namespaces each tenant may look for hosts in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::key::ObjectKey;
use api::own::HostDeployPolicySpec;
use kit::pattern::{pattern, whole};
use kit::urls::Place;
use regex::Regex;

use super::hosts::Seen;
use super::{DefaultAdmission, Settings};
use crate::facts::{PolicyFacts, SpaceFacts};
use crate::labels::{Selector, SelectorFault};

/// A policy, ready to be asked.
#[derive(Debug)]
pub(super) struct Policy {
    /// Different for every policy and every version of it.
    pub(super) serial: u64,
    pub(super) key: ObjectKey,
    pub(super) facts: Arc<PolicyFacts>,
    name_matches: Option<Regex>,
    covers: Selector,
    selectable: Option<Regex>,
    labels_match: Option<Regex>,
    annotations_match: Option<Regex>,
    /// Why it admits nobody, although it says something else.
    pub(super) fault: Option<Box<str>>,
}

impl Policy {
    fn new(serial: u64, key: &ObjectKey, facts: Arc<PolicyFacts>) -> Self {
        let mut policy = Self {
            serial,
            key: key.clone(),
            name_matches: None,
            covers: Selector::default(),
            selectable: None,
            labels_match: None,
            annotations_match: None,
            fault: None,
            facts: Arc::clone(&facts),
        };
        policy.fault = match &facts.problem {
            Some(problem) => Some(problem.clone()),
            None => policy.compile(&facts.spec).err().map(Into::into),
        };
        policy
    }

    fn compile(&mut self, spec: &HostDeployPolicySpec) -> Result<(), String> {
        let read = |path: &str, text: Option<&String>, compile: fn(&str) -> Result<Regex, String>| {
            text.map(|text| compile(text).map_err(|problem| format!("spec.{path}: {problem}"))).transpose()
        };
        let copy = spec.metadata_copy.as_ref();
        let admits = spec.host_claim_namespaces.as_ref();
        self.name_matches =
            read("hostClaimNamespaces.nameMatches", admits.and_then(|admits| admits.name_matches.as_ref()), pattern)?;
        self.selectable = read("selectableLabels", spec.selectable_labels.as_ref(), whole)?;
        self.labels_match = read("metadataCopy.labelsMatch", copy.and_then(|copy| copy.labels_match.as_ref()), whole)?;
        self.annotations_match =
            read("metadataCopy.annotationsMatch", copy.and_then(|copy| copy.annotations_match.as_ref()), whole)?;
        if let Some(selector) = &spec.host_selector {
            let faults = |faults: Vec<SelectorFault>| {
                let faults: Vec<String> = faults.iter().map(|fault| format!("spec.hostSelector.{fault}")).collect();
                faults.join("; ")
            };
            self.covers = Selector::of_labels(selector).map_err(faults)?;
        }
        Ok(())
    }

    /// Whether it lets a tenant in.
    pub(super) fn admits(&self, tenant: &str, labels: Option<&SpaceFacts>) -> bool {
        let Some(admits) = &self.facts.spec.host_claim_namespaces else { return false };
        let matches = || self.name_matches.as_ref().is_some_and(|pattern| pattern.is_match(tenant));
        let label = |name: &str| labels.and_then(|space| space.labels.get(name)).map(AsRef::as_ref);
        self.fault.is_none() && admits.admits(tenant, matches, label)
    }

    /// Whether it speaks of a host.
    pub(super) fn covers(&self, host: &Seen<'_>) -> bool {
        self.fault.is_none() && self.covers.fits(&host.labels())
    }

    /// Whether a selector asks only about labels that may be asked about.
    pub(super) fn permits(&self, selector: &Selector) -> bool {
        self.selectable.as_ref().is_none_or(|pattern| selector.keys().all(|key| pattern.is_match(key)))
    }
}

/// Why a tenant is let in without a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pass {
    /// Claim and host are in the same namespace.
    SameNamespace,
    /// The namespace has no policy, and the installation lets everybody in then.
    DefaultAllow,
}

/// How a tenant comes into one namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    pub(super) pass: Option<Pass>,
    pub(super) policies: Vec<Arc<Policy>>,
}

impl Way {
    fn is_closed(&self) -> bool {
        self.pass.is_none() && self.policies.is_empty()
    }
}

type Gist = Vec<(Box<str>, Option<Pass>, Vec<u64>)>;

/// The namespaces a tenant may look for hosts in; tenants with equal ones share one.
#[derive(Debug)]
pub(super) struct Admitted {
    /// Equal for equal ones, different for all others.
    pub(super) id: u64,
    pub(super) ways: BTreeMap<Box<str>, Way>,
}

/// All policies, and the labels of namespaces they ask about.
#[derive(Debug)]
pub(super) struct Rules {
    same_namespace: bool,
    default: DefaultAdmission,
    by_namespace: BTreeMap<Box<str>, BTreeMap<Box<str>, Arc<Policy>>>,
    spaces: BTreeMap<Box<str>, Arc<SpaceFacts>>,
    known: BTreeMap<Gist, Arc<Admitted>>,
    serial: u64,
}

impl Rules {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            same_namespace: settings.admit_same_namespace,
            default: settings.default_admission,
            by_namespace: BTreeMap::new(),
            spaces: BTreeMap::new(),
            known: BTreeMap::new(),
            serial: 0,
        }
    }

    pub(super) fn set(&mut self, key: &ObjectKey, facts: Option<Arc<PolicyFacts>>) {
        let namespace = key.namespace().unwrap_or_default();
        match facts {
            Some(facts) => {
                self.serial += 1;
                let policy = Arc::new(Policy::new(self.serial, key, facts));
                self.by_namespace.entry(namespace.into()).or_default().insert(key.name().into(), policy);
            }
            None => {
                if let Some(policies) = self.by_namespace.get_mut(namespace) {
                    policies.remove(key.name());
                    if policies.is_empty() {
                        self.by_namespace.remove(namespace);
                    }
                }
            }
        }
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<Policy>> {
        self.by_namespace.get(key.namespace().unwrap_or_default())?.get(key.name())
    }

    pub(super) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<Policy>> {
        self.by_namespace.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn set_space(&mut self, name: &str, facts: Option<Arc<SpaceFacts>>) {
        match facts {
            Some(facts) => self.spaces.insert(name.into(), facts),
            None => self.spaces.remove(name),
        };
    }

    pub(super) fn space(&self, name: &str) -> Option<&SpaceFacts> {
        self.spaces.get(name).map(|facts| &**facts)
    }

    /// How a tenant comes into a namespace that has hosts or policies.
    pub(super) fn way(&self, tenant: &str, namespace: &str) -> Way {
        let governed = self.by_namespace.get(namespace);
        let pass = if self.same_namespace && tenant == namespace {
            Some(Pass::SameNamespace)
        } else if governed.is_none() && self.default == DefaultAdmission::Allow {
            Some(Pass::DefaultAllow)
        } else {
            None
        };
        let labels = self.space(tenant);
        let admitting = governed.into_iter().flat_map(BTreeMap::values).filter(|policy| policy.admits(tenant, labels));
        Way { pass, policies: admitting.cloned().collect() }
    }

    /// Every policy of a namespace that can be used, whomever it admits.
    pub(super) fn all(&self, namespace: &str) -> Way {
        let usable = self.of_namespace(namespace).filter(|policy| policy.fault.is_none());
        Way { pass: None, policies: usable.cloned().collect() }
    }

    /// The namespaces a tenant may look for hosts in. A namespace without hosts counts only where a policy opens it:
    /// everybody has a namespace of their own.
    pub(super) fn admitted<'a>(&mut self, tenant: &str, with_hosts: impl Iterator<Item = &'a str>) -> Arc<Admitted> {
        let with_hosts: BTreeSet<&str> = with_hosts.collect();
        let governed = self.by_namespace.keys().map(|name| &**name);
        let all: BTreeSet<&str> = with_hosts.iter().copied().chain(governed).collect();
        let mut ways: BTreeMap<Box<str>, Way> = BTreeMap::new();
        for namespace in all {
            let mut way = self.way(tenant, namespace);
            way.pass = way.pass.filter(|_| with_hosts.contains(namespace));
            if !way.is_closed() {
                ways.insert(namespace.into(), way);
            }
        }
        let serials = |way: &Way| way.policies.iter().map(|policy| policy.serial).collect();
        let gist: Gist = ways.iter().map(|(name, way)| (name.clone(), way.pass, serials(way))).collect();
        if let Some(known) = self.known.get(&gist) {
            return Arc::clone(known);
        }
        // Those that nobody has any more: each policy that changes leaves some behind.
        self.known.retain(|_, admitted| Arc::strong_count(admitted) > 1);
        self.serial += 1;
        let admitted = Arc::new(Admitted { id: self.serial, ways });
        self.known.insert(gist, Arc::clone(&admitted));
        admitted
    }
}

/// What a tenant may do with a host, by all policies that let it in.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Why the tenant is let in without a policy.
    pub pass: Option<Pass>,
    /// The names of the policies that let it in.
    pub policies: Vec<Box<str>>,
    /// Whether a claim may detach the host.
    pub detaching: bool,
    /// Whether a claim may use a deploy method of the site.
    pub custom_deploy: bool,
    /// Whether a claim may choose how disks are cleaned.
    pub cleaning_override: bool,
    /// Whether pausing a claim pauses the host.
    pub pause: bool,
    /// Whether a host that the tenant calls unhealthy is taken from everybody.
    pub trusts_tenant_health: bool,
    /// What an image url must start with; none allows every url.
    pub image_prefixes: Option<Vec<Box<str>>>,
    /// Whether any policy says which labels and annotations the tenant gets to see.
    pub copies_metadata: bool,
    labels_match: Vec<Regex>,
    annotations_match: Vec<Regex>,
    /// Which labels selectors may use; none allows every label.
    selectable: Option<Vec<Regex>>,
}

impl Default for Grant {
    /// Nothing is allowed.
    fn default() -> Self {
        Self {
            pass: None,
            policies: Vec::new(),
            detaching: false,
            custom_deploy: false,
            cleaning_override: false,
            pause: false,
            trusts_tenant_health: false,
            image_prefixes: Some(Vec::new()),
            copies_metadata: false,
            labels_match: Vec::new(),
            annotations_match: Vec::new(),
            selectable: Some(Vec::new()),
        }
    }
}

impl Grant {
    /// What the policies of a way that speak of a host grant together.
    pub(super) fn of(way: &Way, host: &Seen<'_>) -> Self {
        let mut grant = Self { pass: way.pass, pause: way.pass == Some(Pass::SameNamespace), ..Self::default() };
        let mut prefixes = Vec::new();
        // Without a policy nobody said where images come from.
        let mut any_image = way.pass.is_some();
        let (mut any_label, mut selectable) = (way.pass.is_some(), Vec::new());
        for policy in way.policies.iter().filter(|policy| policy.covers(host)) {
            let spec = &policy.facts.spec;
            grant.policies.push(policy.key.name().into());
            grant.detaching |= spec.allows_detaching;
            grant.custom_deploy |= spec.allows_custom_deploy;
            grant.cleaning_override |= spec.allows_cleaning_override;
            grant.pause |= spec.allows_pause;
            grant.trusts_tenant_health |= spec.trusts_tenant_health;
            grant.copies_metadata |= spec.metadata_copy.is_some();
            any_image |= spec.image_url_prefixes.is_empty();
            any_label |= policy.selectable.is_none();
            selectable.extend(policy.selectable.clone());
            prefixes.extend(spec.image_url_prefixes.iter().map(|prefix| prefix.as_str().into()));
            grant.labels_match.extend(policy.labels_match.clone());
            grant.annotations_match.extend(policy.annotations_match.clone());
        }
        grant.image_prefixes = (!any_image).then_some(prefixes);
        grant.selectable = (!any_label).then_some(selectable);
        grant
    }

    /// Whether the tenant may have the host at all.
    #[must_use]
    pub fn admits(&self) -> bool {
        self.pass.is_some() || !self.policies.is_empty()
    }

    /// Whether the tenant may deploy an image from this url.
    #[must_use]
    pub fn allows_image(&self, url: &str) -> bool {
        let prefixes = self.image_prefixes.as_ref();
        Place::image(url).is_ok_and(|url| prefixes.is_none_or(|all| all.iter().any(|prefix| url.begins_with(prefix))))
    }

    /// Whether the tenant may choose hosts by the label with this key.
    #[must_use]
    pub fn selects_by(&self, key: &str) -> bool {
        self.selectable.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.is_match(key)))
    }

    /// Whether a policy shows the tenant the label with this key.
    #[must_use]
    pub fn shows_label(&self, key: &str) -> bool {
        self.labels_match.iter().any(|pattern| pattern.is_match(key))
    }

    /// Whether a policy shows the tenant the annotation with this key.
    #[must_use]
    pub fn shows_annotation(&self, key: &str) -> bool {
        self.annotations_match.iter().any(|pattern| pattern.is_match(key))
    }
}
