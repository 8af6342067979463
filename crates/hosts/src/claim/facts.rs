//! What decisions use of claims and quotas.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::key::ObjectKey;
use api::names::CLUSTER_NAME_LABEL;
use api::names::claims::{REBOOT_ANNOTATION, REBOOT_PREFIX};
use api::names::hosts::{ABANDON_HOST_ANNOTATION, REBOOT_PROGRESS_ANNOTATION};
use api::own::{FailureDomainMode, HostClaimQuotaSpec, HostClaimSpec, HostClaimStatus};
use api::raw::{HostClaim, HostClaimQuota};
use api::reasons::claims::Reason;
use api::reasons::{ASSOCIATED, PROVISIONED, READY, SYNCHRONIZED};
use api::selector::Selector;
use claim_kind::quota::Quota;
use jiff::Timestamp;
use kit::feed::Project;
use kit::room::Stand;
use serde_json::Value;

use super::KIND;
use crate::facts::matters;
use crate::journal::{Journal, JournalError};

/// How far a reboot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The instance is to be stopped.
    Stopping,
    /// The instance was stopped, and is to be started.
    Starting,
}

impl Progress {
    /// The word in the annotation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopping => "Stopping",
            Self::Starting => "Starting",
        }
    }

    fn read(word: &str) -> Option<Self> {
        [Self::Stopping, Self::Starting].into_iter().find(|known| known.as_str() == word)
    }
}

/// What is wrong with a claim, so that nothing is made for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Why.
    pub reason: Reason,
    /// A sentence that names the field.
    pub message: String,
}

/// A claim of our kind, as decisions use it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimFacts {
    /// The server's unique id of it.
    pub uid: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Since when it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The cluster it belongs to, by its label.
    pub cluster: Option<Box<str>>,
    /// The annotations that matter here.
    pub annotations: BTreeMap<String, String>,
    /// Its spec; the default when it cannot be read.
    pub spec: HostClaimSpec,
    /// What is wrong with it.
    pub fault: Option<Fault>,
    /// Which hosts that are there already fit; none when it wants a host of its own.
    pub selector: Option<Selector>,
    /// Its status as stored.
    pub status: HostClaimStatus,
    /// Its journal.
    pub journal: Result<Journal, JournalError>,
    /// Whether somebody asks for a reboot.
    pub asks_for_reboot: bool,
    /// How far a reboot is.
    pub progress: Option<Progress>,
}

impl ClaimFacts {
    /// The facts of a claim as received; none for one of another kind.
    #[must_use]
    pub fn of(claim: HostClaim) -> Option<Self> {
        let HostClaim { metadata, spec, status } = claim;
        if spec.get("kind").and_then(Value::as_str) != Some(KIND) {
            return None;
        }
        let (spec, problem) = match serde_json::from_value::<HostClaimSpec>(spec) {
            Ok(spec) => (spec, None),
            Err(error) => (HostClaimSpec::default(), Some(format!("spec: {error}"))),
        };
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let (selector, misread) = match selector(&spec, &namespace) {
            Ok(selector) => (selector, None),
            Err(message) => (None, Some(message)),
        };
        let fault = match problem {
            Some(message) => Some(Fault { reason: Reason::InvalidArguments, message }),
            None => fault(&spec, misread),
        };
        let kept = |key: &str| {
            // To give hosts up is an operator's order, and a tenant may write whatever it likes here.
            (matters(key) && key != ABANDON_HOST_ANNOTATION)
                || key == REBOOT_ANNOTATION
                || key.starts_with(REBOOT_PREFIX)
        };
        let annotations: BTreeMap<String, String> =
            metadata.annotations.unwrap_or_default().into_iter().filter(|(key, _)| kept(key)).collect();
        let name = metadata.name.unwrap_or_default();
        let whole = format!("{}/{name}", metadata.namespace.as_deref().unwrap_or_default());
        let journal = Journal::read(&whole, |key| annotations.get(key).map(String::as_str));
        Some(Self {
            uid: metadata.uid.unwrap_or_default().into(),
            name: name.into(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            deleted_at: metadata.deletion_timestamp.map(|time| time.0),
            finalizers: metadata.finalizers.unwrap_or_default(),
            cluster: metadata.labels.and_then(|mut labels| labels.remove(CLUSTER_NAME_LABEL)).map(Into::into),
            asks_for_reboot: annotations.contains_key(REBOOT_ANNOTATION),
            progress: annotations.get(REBOOT_PROGRESS_ANNOTATION).and_then(|word| Progress::read(word)),
            annotations,
            spec,
            fault,
            selector,
            status: serde_json::from_value(status).unwrap_or_default(),
            journal,
        })
    }

    /// Whether the machine is to be on: the claim says so, and nobody holds it off for a reboot.
    #[must_use]
    pub fn wants_power(&self) -> bool {
        self.spec.wants_power() && !self.annotations.keys().any(|key| key.starts_with(REBOOT_PREFIX))
    }

    /// The zone the machine must be in.
    #[must_use]
    pub fn required_zone(&self) -> Option<&str> {
        let required = self.spec.failure_domain_mode == FailureDomainMode::Required;
        self.spec.failure_domain.as_deref().filter(|_| required)
    }

    /// The zone the machine should be in.
    #[must_use]
    pub fn preferred_zone(&self) -> Option<&str> {
        self.spec.failure_domain.as_deref()
    }

    /// How it stands: what it has to get first says why it is not ready.
    #[must_use]
    pub fn stand(&self) -> Stand {
        let parts = [ASSOCIATED, SYNCHRONIZED, PROVISIONED];
        Stand::judged(&self.status.conditions, READY, &parts, self.created, self.deleted_at)
    }

    /// Whether hosts of it count against a quota.
    #[must_use]
    pub fn holds(&self) -> bool {
        let allocation = self.journal.as_ref().ok().and_then(|journal| journal.allocation.as_ref());
        self.journal.is_err() || allocation.is_some_and(|allocation| !allocation.phase.is_over())
    }

    /// Whether two states of it differ in anything but the status, which we alone write.
    #[must_use]
    pub fn same_but_for_status(&self, other: &Self) -> bool {
        let plain = |claim: &Self| Self { status: HostClaimStatus::default(), ..claim.clone() };
        plain(self) == plain(other)
    }
}

/// Which hosts that are there already fit a claim; none when it selects nothing.
fn selector(spec: &HostClaimSpec, namespace: &str) -> Result<Option<Selector>, String> {
    let wish = &spec.host_selector;
    if wish.is_empty() {
        return Ok(None);
    }
    let elsewhere = wish.in_namespace.as_deref().filter(|name| !name.is_empty() && *name != namespace);
    if elsewhere.is_some() {
        let message = "spec.hostSelector.inNamespace: dedicated hosts of other namespaces are never taken.";
        return Err(message.to_owned());
    }
    Selector::read(wish).map(Some).map_err(|faults| {
        let all: Vec<String> = faults.iter().map(|fault| format!("spec.hostSelector.{fault}")).collect();
        all.join("; ")
    })
}

/// What no claim of this kind may ask for.
fn fault(spec: &HostClaimSpec, misread: Option<String>) -> Option<Fault> {
    let wrong = |reason, message: &str| Some(Fault { reason, message: message.to_owned() });
    if spec.image.is_some() {
        let message = "spec.image: there is no service here that imports images; give spec.args[ami] alone.";
        return wrong(Reason::UnsupportedImage, message);
    }
    if spec.custom_deploy.is_some() {
        return wrong(Reason::UnsupportedImage, "spec.customDeploy: machines of this kind have no deploy methods.");
    }
    if spec.network_data.is_some() {
        return wrong(Reason::UnsupportedData, "spec.networkData: EC2 gives machines their network itself.");
    }
    if spec.meta_data.is_some() {
        return wrong(Reason::UnsupportedData, "spec.metaData: EC2 gives machines their metadata itself.");
    }
    misread.map(|message| Fault { reason: Reason::InvalidArguments, message })
}

/// HostClaims, those of our kind; the others are known to be there and nothing more.
pub struct Claims;

impl Project for Claims {
    type Source = HostClaim;
    type Slim = Option<Arc<ClaimFacts>>;
    const INDEXES: &'static [&'static str] = &["cluster", "namespace"];

    fn slim(source: HostClaim) -> Option<Arc<ClaimFacts>> {
        ClaimFacts::of(source).map(Arc::new)
    }

    fn keys(index: usize, key: &ObjectKey, slim: &Option<Arc<ClaimFacts>>) -> Vec<Box<str>> {
        let Some(claim) = slim else { return Vec::new() };
        let namespace = key.namespace().unwrap_or_default();
        match index {
            0 => claim.cluster.iter().map(|cluster| format!("{namespace}/{cluster}").into()).collect(),
            _ => vec![namespace.into()],
        }
    }
}

/// HostClaimQuotas.
pub struct Quotas;

impl Project for Quotas {
    type Source = HostClaimQuota;
    type Slim = QuotaFacts;

    fn slim(source: HostClaimQuota) -> QuotaFacts {
        match serde_json::from_value::<HostClaimQuotaSpec>(source.spec) {
            Ok(spec) => QuotaFacts { spec, problem: None },
            Err(error) => {
                QuotaFacts { spec: HostClaimQuotaSpec::default(), problem: Some(format!("spec: {error}").into()) }
            }
        }
    }
}

/// A quota.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaFacts {
    spec: HostClaimQuotaSpec,
    problem: Option<Box<str>>,
}

impl QuotaFacts {
    /// The quota, ready to be asked.
    #[must_use]
    pub fn quota(&self) -> Quota {
        Quota::new(self.spec.clone(), self.problem.clone())
    }
}
