//! Why a host cannot be had, in the order in which that is asked.

use std::fmt;

use api::names::claims::{DETACHED_ANNOTATION, HOST_PAUSED_ANNOTATION, UNHEALTHY_ANNOTATION, UNHEALTHY_ANNOTATION_OLD};

use crate::facts::HostFacts;
use crate::wish::{is_reserved, is_uncleaned};

/// The first thing that keeps a host from a claim. The order is that of the questions: a host counts where it fails first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unfit {
    /// It is in another namespace than the claim asks for.
    OtherNamespace,
    /// No policy opens it to the tenant.
    NotAdmitted,
    /// Its labels are not those asked for, or may not be asked for.
    SelectorMismatch,
    /// Somebody uses it.
    InUse,
    /// It is kept for another reuse group.
    ReservedForReuse,
    /// It is being deleted.
    Deleting,
    /// It is paused.
    Paused,
    /// It is detached.
    Detached,
    /// It is marked unhealthy.
    Unhealthy,
    /// Somebody else deploys it.
    ExternallyProvisioned,
    /// It is in no state to be used.
    NotAvailable,
    /// It is in error.
    HostError,
    /// Its spec still names something to deploy, or its disks are on record as uncleaned.
    NotClean,
    /// It is in another failure domain than the claim insists on.
    OtherFailureDomain,
    /// The tenant holds as many hosts as it may.
    QuotaExceeded,
    /// It failed this claim, or this tenant, a while ago.
    CoolDown,
}

impl Unfit {
    /// Whether the host is one that fits, but for how it stands at the moment.
    #[must_use]
    pub const fn may_pass(self) -> bool {
        !matches!(
            self,
            Self::OtherNamespace
                | Self::NotAdmitted
                | Self::SelectorMismatch
                | Self::Deleting
                | Self::ExternallyProvisioned
                | Self::OtherFailureDomain
        )
    }

    /// The reason as it stands in a status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OtherNamespace => "OtherNamespace",
            Self::NotAdmitted => "NotAdmitted",
            Self::SelectorMismatch => "SelectorMismatch",
            Self::InUse => "InUse",
            Self::ReservedForReuse => "ReservedForReuse",
            Self::Deleting => "Deleting",
            Self::Paused => "Paused",
            Self::Detached => "Detached",
            Self::Unhealthy => "Unhealthy",
            Self::ExternallyProvisioned => "ExternallyProvisioned",
            Self::NotAvailable => "NotAvailable",
            Self::HostError => "HostError",
            Self::NotClean => "NotClean",
            Self::OtherFailureDomain => "OtherFailureDomain",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::CoolDown => "CoolDown",
        }
    }

    /// The reason for people, after a number of hosts: `3 labels do not match`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::OtherNamespace => "in another namespace",
            Self::NotAdmitted => "not admitted",
            Self::SelectorMismatch => "labels do not match",
            Self::InUse => "in use",
            Self::ReservedForReuse => "reserved for reuse",
            Self::Deleting => "being deleted",
            Self::Paused => "paused",
            Self::Detached => "detached",
            Self::Unhealthy => "unhealthy",
            Self::ExternallyProvisioned => "externally provisioned",
            Self::NotAvailable => "not available",
            Self::HostError => "in error",
            Self::NotClean => "not clean",
            Self::OtherFailureDomain => "in another failure domain",
            Self::QuotaExceeded => "over quota",
            Self::CoolDown => "refused a while ago",
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What keeps a host from anybody, whoever asks: filters that look at nothing but the host.
#[must_use]
pub fn ailment(host: &HostFacts) -> Option<Unfit> {
    let has = |key: &str| host.annotations.contains_key(key);
    let unhealthy = has(UNHEALTHY_ANNOTATION) || has(UNHEALTHY_ANNOTATION_OLD);
    let critical = host
        .healthy
        .as_ref()
        .is_some_and(|healthy| &*healthy.status == "False" && healthy.reason.to_ascii_lowercase().contains("critical"));
    let error = host.error_message || host.error.is_some() || &*host.operational != "OK";
    let checks = [
        (host.deleting, Unfit::Deleting),
        (has(HOST_PAUSED_ANNOTATION), Unfit::Paused),
        (has(DETACHED_ANNOTATION) || &*host.operational == "detached", Unfit::Detached),
        (unhealthy || critical, Unfit::Unhealthy),
        (host.externally_provisioned, Unfit::ExternallyProvisioned),
        (!matches!(&*host.state, "available" | "ready"), Unfit::NotAvailable),
        (error, Unfit::HostError),
        (host.image.is_some() || host.custom_deploy.is_some(), Unfit::NotClean),
        // Only the group that its disks were kept for may have them as they are.
        (is_uncleaned(host) && !is_reserved(host), Unfit::NotClean),
    ];
    checks.into_iter().find_map(|(fails, unfit)| fails.then_some(unfit))
}
