//! What a quota has come to: whether it is in force and kept, and who uses how much of it.

use std::cmp::Reverse;

use api::key::ObjectKey;
use api::own::{HostClaimQuotaSpec, HostClaimQuotaStatus, NamespaceUse, QuotaUse};
use api::reasons::READY;
use api::reasons::claims::Reason;
use kit::conditions::Verdict;

use super::ledger::Account;
use crate::facts;
use crate::yard::{Use, Yard};

/// So many namespaces are listed, those that hold most first.
const LISTED: usize = 256;

/// The account of quotas.
pub struct Quotas;

impl Account for Quotas {
    const NAME: &'static str = "claims-quotas";
    type Feed = facts::Quotas;
    type Spec = HostClaimQuotaSpec;
    type Status = HostClaimQuotaStatus;

    fn used(yard: &Yard, key: &ObjectKey) -> Option<Use> {
        yard.quota_use(key.name())
    }

    fn status(used: &Use) -> HostClaimQuotaStatus {
        HostClaimQuotaStatus { used: Some(listed(used)), ..HostClaimQuotaStatus::default() }
    }

    fn verdict(spec: &HostClaimQuotaSpec, used: &Use) -> Verdict {
        verdict(spec, used)
    }
}

fn verdict(spec: &HostClaimQuotaSpec, used: &Use) -> Verdict {
    if let Some(fault) = &used.fault {
        return Verdict::no(
            READY,
            Reason::InvalidSelector.as_str(),
            format!("The quota binds only the namespaces that it names until it is corrected: {fault}."),
        );
    }
    let hard = u32::try_from(spec.hard.hosts).unwrap_or(0);
    let over: Vec<&str> = if spec.shared {
        if used.hosts > hard { vec!["all tenants together"] } else { Vec::new() }
    } else {
        used.tenants.iter().filter(|(_, held)| **held > hard).map(|(tenant, _)| &**tenant).collect()
    };
    match over.first() {
        None => Verdict::yes(READY, Reason::WithinQuota.as_str(), "The quota is in force and kept."),
        Some(first) => {
            let more = if over.len() > 1 { " and others" } else { "" };
            let text = format!(
                "{first}{more} held more before the limit was lowered; nothing is taken away, and no more is given."
            );
            Verdict::no(READY, Reason::OverQuota.as_str(), text)
        }
    }
}

fn listed(used: &Use) -> QuotaUse {
    let count = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let mut holders: Vec<(&str, u32)> =
        used.tenants.iter().map(|(tenant, held)| (&**tenant, *held)).filter(|(_, held)| *held > 0).collect();
    holders.sort_by_key(|(tenant, held)| (Reverse(*held), (*tenant).to_owned()));
    QuotaUse {
        hosts: count(used.hosts),
        tenants: i32::try_from(holders.len()).unwrap_or(i32::MAX),
        namespaces: holders
            .into_iter()
            .take(LISTED)
            .map(|(tenant, held)| NamespaceUse { namespace: tenant.to_owned(), hosts: count(held) })
            .collect(),
    }
}
