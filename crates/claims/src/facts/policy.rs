//! Policies: which tenants may use which hosts.

use api::own::{HostDeployPolicySpec, HostDeployPolicyStatus};
use api::raw::HostDeployPolicy;
use kit::feed::Project;

/// HostDeployPolicies.
pub struct Policies;

/// A HostDeployPolicy, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// Its spec; one that cannot be read admits nobody.
    pub spec: HostDeployPolicySpec,
    /// Its status as stored.
    pub status: HostDeployPolicyStatus,
    /// Why its spec cannot be read, with the path of the field.
    pub problem: Option<Box<str>>,
}

impl PolicyFacts {
    /// The facts of a policy as received.
    #[must_use]
    pub fn of(policy: HostDeployPolicy) -> Self {
        let HostDeployPolicy { metadata, spec, status } = policy;
        let (spec, problem) = match super::spec(spec) {
            Ok(spec) => (spec, None),
            Err(problem) => (HostDeployPolicySpec::default(), Some(problem)),
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

impl Project for Policies {
    type Source = HostDeployPolicy;
    type Slim = PolicyFacts;

    fn slim(source: HostDeployPolicy) -> PolicyFacts {
        PolicyFacts::of(source)
    }
}
