//! Policies and quotas: what an administrator rules by. Both are read the same way, and one that cannot be read is a fault
//! of that object alone.

use api::meta::ObjectMeta;
use api::own::{HostClaimQuotaSpec, HostClaimQuotaStatus, HostDeployPolicySpec, HostDeployPolicyStatus};
use api::raw::{HostClaimQuota, HostDeployPolicy};
use kit::feed::Project;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A rule of an administrator, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ruled<S, T> {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// Its spec; one that cannot be read at all admits nobody and names nobody.
    pub spec: S,
    /// Its status as stored.
    pub status: T,
    /// Why its spec cannot be read, with the path of the field.
    pub problem: Option<Box<str>>,
}

impl<S: DeserializeOwned + Default, T: DeserializeOwned + Default> Ruled<S, T> {
    fn read(metadata: ObjectMeta, spec: Value, status: Value) -> Self {
        let (spec, problem) = match super::spec(spec) {
            Ok(spec) => (spec, None),
            Err(problem) => (S::default(), Some(problem)),
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

impl<S: PartialEq, T> Ruled<S, T> {
    /// Whether both rule the same way: their own status changes with every host that is bound.
    #[must_use]
    pub fn rules_like(&self, other: &Self) -> bool {
        self.uid == other.uid && self.spec == other.spec && self.problem == other.problem
    }
}

macro_rules! ruled {
    ($(#[$feed_doc:meta])* $feed:ident, $(#[$doc:meta])* $facts:ident = $source:ident($spec:ident, $status:ident)) => {
        $(#[$feed_doc])*
        pub struct $feed;

        $(#[$doc])*
        pub type $facts = Ruled<$spec, $status>;

        impl Ruled<$spec, $status> {
            /// The facts of an object as received.
            #[must_use]
            pub fn of(source: $source) -> Self {
                Self::read(source.metadata, source.spec, source.status)
            }
        }

        impl Project for $feed {
            type Source = $source;
            type Slim = $facts;

            fn slim(source: $source) -> $facts {
                $facts::of(source)
            }
        }
    };
}

ruled! {
    /// HostDeployPolicies.
    Policies,
    /// A HostDeployPolicy: which tenants may use which hosts.
    PolicyFacts = HostDeployPolicy(HostDeployPolicySpec, HostDeployPolicyStatus)
}
ruled! {
    /// HostClaimQuotas.
    Quotas,
    /// A HostClaimQuota: how many hosts tenants may hold.
    QuotaFacts = HostClaimQuota(HostClaimQuotaSpec, HostClaimQuotaStatus)
}
