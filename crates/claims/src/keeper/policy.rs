//! What a policy has come to: whether it can be used, and how many hosts are held through it.

use api::key::ObjectKey;
use api::own::{HostDeployPolicySpec, HostDeployPolicyStatus};
use api::reasons::ACCEPTED;
use api::reasons::claims::Reason;
use kit::conditions::Verdict;

use super::ledger::Account;
use crate::facts;
use crate::yard::{Use, Yard};

/// The account of policies.
pub struct Policies;

impl Account for Policies {
    const NAME: &'static str = "claims-policies";
    type Feed = facts::Policies;
    type Spec = HostDeployPolicySpec;
    type Status = HostDeployPolicyStatus;

    fn used(yard: &Yard, key: &ObjectKey) -> Option<Use> {
        yard.policy_use(key)
    }

    fn status(used: &Use) -> HostDeployPolicyStatus {
        let bound_hosts = Some(i32::try_from(used.hosts).unwrap_or(i32::MAX));
        HostDeployPolicyStatus { bound_hosts, ..HostDeployPolicyStatus::default() }
    }

    fn verdict(_: &HostDeployPolicySpec, used: &Use) -> Verdict {
        match &used.fault {
            None => Verdict::yes(ACCEPTED, Reason::Accepted.as_str(), "The policy is in force."),
            Some(fault) => Verdict::no(
                ACCEPTED,
                Reason::InvalidRegexp.as_str(),
                format!("The policy admits nobody until it is corrected: {fault}."),
            ),
        }
    }
}
