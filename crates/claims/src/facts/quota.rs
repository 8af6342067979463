//! Quotas: how many hosts tenants may hold.

use api::own::{HostClaimQuotaSpec, HostClaimQuotaStatus};
use api::raw::HostClaimQuota;
use kit::feed::Project;

/// HostClaimQuotas.
pub struct Quotas;

/// A HostClaimQuota, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// Its spec; one that cannot be read binds nobody.
    pub spec: HostClaimQuotaSpec,
    /// Its status as stored.
    pub status: HostClaimQuotaStatus,
    /// Why its spec cannot be read, with the path of the field.
    pub problem: Option<Box<str>>,
}

impl QuotaFacts {
    /// The facts of a quota as received.
    #[must_use]
    pub fn of(quota: HostClaimQuota) -> Self {
        let HostClaimQuota { metadata, spec, status } = quota;
        let (spec, problem) = match super::spec(spec) {
            Ok(spec) => (spec, None),
            Err(problem) => (HostClaimQuotaSpec::default(), Some(problem)),
        };
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            spec,
            status: super::status(status),
            problem,
        }
    }
}

impl Project for Quotas {
    type Source = HostClaimQuota;
    type Slim = QuotaFacts;

    fn slim(source: HostClaimQuota) -> QuotaFacts {
        QuotaFacts::of(source)
    }
}
